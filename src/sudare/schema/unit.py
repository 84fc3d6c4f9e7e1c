"""Who is protected: a row of the table, or a person with several rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, cast

from sudare.errors import ParameterError
from sudare.text import Text, text

UnitKind = Literal["row", "person"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Unit:
    """The unit of privacy: what one neighbour has and the other has not.

    A row, or a person: all rows with one value of `column`, at most `max_rows` of them (a source samples the
    excess away at random before anything is counted).

    >>> print(Unit().describe())
    a row
    >>> print(Unit(kind="person", column="customer_id", max_rows=5).describe())
    a person (column customer_id, at most 5 rows)
    """

    kind: UnitKind = "row"
    column: str | None = None
    max_rows: int = 1

    def __post_init__(self) -> None:
        if self.kind not in ("row", "person"):
            raise ParameterError('unit kind ({kind}) must be "row" or "person"', kind=self.kind)
        rows = self.max_rows
        if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
            raise ParameterError("unit max_rows ({rows}) must be a whole number, at least 1", rows=rows)
        if self.kind == "person" and not (isinstance(self.column, str) and self.column):
            raise ParameterError("a person unit needs the column that tells persons apart; set unit column")
        if self.kind == "row" and (self.column is not None or rows != 1):
            raise ParameterError('a row unit has no column or max_rows; set unit kind = "person" for them')

    def describe(self) -> Text:
        """Name the unit.

        >>> Unit().describe().render("ja")
        '1 行'
        """
        if self.kind == "row":
            return text("a row")
        column, rows = self.column, self.max_rows
        if rows == 1:
            return text("a person (column {column}, at most 1 row)", column=column)
        return text("a person (column {column}, at most {rows} rows)", column=column, rows=rows)

    def describe_cap(self) -> Text | None:
        """Say that rows beyond the cap of a person are in no figure: no error that is told allows for them."""
        if self.kind == "row":
            return None
        return text(
            "Of the rows of a person at most {rows} are counted, chosen at random; the figures and their errors are"
            " about these rows, and are below those of the whole table where people have more.",
            rows=self.max_rows,
        )

    def protects_the_same(self, other: Unit) -> bool:
        """Tell whether both protect the same thing; how many rows a person keeps does not matter for that.

        >>> one, five = (Unit(kind="person", column="id", max_rows=rows) for rows in (1, 5))
        >>> one.protects_the_same(five), one.protects_the_same(Unit())
        (True, False)
        """
        return (self.kind, self.column) == (other.kind, other.column)

    def to_dict(self) -> dict[str, str | int]:
        """Give the unit as JSON-able facts; a row has only its kind.

        >>> Unit(kind="person", column="id", max_rows=5).to_dict()
        {'kind': 'person', 'column': 'id', 'max_rows': 5}
        """
        if self.kind == "row":
            return {"kind": "row"}
        return {"kind": "person", "column": cast(str, self.column), "max_rows": self.max_rows}

    @classmethod
    def from_dict(cls, facts: Mapping[str, object]) -> Unit:
        """Read what `to_dict` gave; a key it does not know is refused.

        >>> Unit.from_dict({"kind": "row"})
        Unit(kind='row', column=None, max_rows=1)
        """
        keys = ", ".join(sorted(set(facts) - {"kind", "column", "max_rows"}))
        if keys:
            raise ParameterError("unit has unknown keys ({keys}); use kind, column, max_rows", keys=keys)
        if "kind" not in facts:
            raise ParameterError('unit has no kind; set it to "row" or "person"')
        return cls(**facts)  # type: ignore[arg-type]  # __post_init__ checks types as well as ranges
