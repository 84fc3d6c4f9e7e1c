"""The sparse contingency table: which cells hold people, and how many; arithmetic on sorted cell codes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from sudare.errors import DomainError, ParameterError
from sudare.schema import Attribute, Schema
from sudare.schema.arrays import Codes

# --- sorted cell codes of one or more int64 words -------------------------------------------------------------------


def merge(codes: Codes, values: Codes) -> tuple[Codes, Codes, int]:
    """Sort cells, add up duplicates, drop zeros; return codes, values and the exact total.

    >>> codes, values, total = merge(np.array([[5], [2], [5]]), np.array([1, 4, 2]))
    >>> codes.ravel().tolist(), values.tolist(), total
    ([2, 5], [4, 3], 7)
    """
    total = exact_sum(values)
    if total >= 2**63:
        raise ParameterError("the counts add up to more than {most}; aggregate them first", most=2**63 - 1)
    if codes.shape[0] > 1 and not is_increasing(codes):
        order = np.argsort(codes[:, 0]) if codes.shape[1] == 1 else np.lexsort(codes.T[::-1])  # word 0 counts most
        codes, values = codes[order], values[order]
        starts = np.flatnonzero(np.concatenate(([True], (codes[1:] != codes[:-1]).any(axis=1))))
        codes, values = codes[starts], np.add.reduceat(values, starts)
    if values.size and not values.all():
        codes, values = codes[values != 0], values[values != 0]
    return codes, values, total


def is_increasing(codes: Codes) -> bool:
    """Tell whether rows are already sorted and unique, so that a table from an engine is not sorted twice."""
    undecided = np.ones(codes.shape[0] - 1, dtype=bool)
    for word in codes.T:
        if bool((undecided & (word[1:] < word[:-1])).any()):
            return False
        undecided &= word[1:] == word[:-1]
    return not bool(undecided.any())


def exact_sum(values: Codes) -> int:
    """Add int64 numbers to a Python integer, so that nothing wraps.

    >>> exact_sum(np.array([2**62, 2**62, 2**62]))
    13835058055282163712
    """
    return (int((values >> 32).sum()) << 32) + int((values & 0xFFFFFFFF).sum())


def freeze(array: Codes) -> Codes:
    """Give a contiguous array, copied if needed, that nobody can write to."""
    frozen = np.ascontiguousarray(array, dtype=np.int64)
    if frozen.flags.writeable:
        frozen = frozen.view()
        frozen.flags.writeable = False
    return frozen


# --- the table ------------------------------------------------------------------------------------------------------

MOST_DENSE_CELLS = 2**28  # 2 GiB of int64; beyond it a dense table is a mistake


class Counts:
    """An immutable contingency table over the attributes of a schema; a cell that is not stored holds 0.

    Cells are mixed-radix codes in one or more int64 words (`schema.radix`), sorted and unique, so that tables of
    1e30 cells are as exact as small ones. The repr names the table and its size, never a value of it.

    >>> from sudare.schema import Attribute, Schema, Unit, Values
    >>> sex = Attribute(name="sex", domain=Values(values=("F", "M")))
    >>> counts = Counts.from_columns(Schema(name="members", unit=Unit(), attributes=(sex,)), [[0], [1], [1]])
    >>> counts
    <Counts of 'members' over sex: 2 cells>
    >>> counts.dense()
    array([1, 2])
    """

    __slots__ = ("codes", "schema", "total", "values")

    schema: Schema
    codes: Codes
    values: Codes
    total: int

    def __init__(self, schema: Schema, codes: Codes, values: Codes, total: int) -> None:
        """Hold arrays that are already sorted, merged and checked; `build` takes all others."""
        for name, value in (
            ("schema", schema),
            ("codes", freeze(codes)),
            ("values", freeze(values)),
            ("total", total),
        ):
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("Counts are immutable")

    def __reduce__(self) -> tuple[object, ...]:
        return Counts, (self.schema, self.codes, self.values, self.total)

    def __repr__(self) -> str:
        over = ", ".join(self.schema.names)
        return f"<Counts of {self.schema.name!r} over {over}: {self.schema.size} cells>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Counts):
            return NotImplemented
        same = np.array_equal(self.codes, other.codes) and np.array_equal(self.values, other.values)
        return same and self.schema.fingerprint == other.schema.fingerprint

    __hash__ = None  # type: ignore[assignment]  # a table is compared by content, and its content is private

    @classmethod
    def build(cls, schema: Schema, codes: ArrayLike, values: ArrayLike) -> Counts:
        """Make a table from cell codes in any order, duplicates added up.

        Refuses negative counts, codes outside the domain, and sums beyond int64.
        """
        rows = np.asarray(codes, dtype=np.int64).reshape(-1, len(schema.radix.words))
        numbers = np.asarray(values, dtype=np.int64)
        if rows.shape[0] != numbers.shape[0]:
            raise ParameterError(
                "codes ({codes}) and values ({values}) must have the same length",
                codes=rows.shape[0],
                values=numbers.shape[0],
            )
        if numbers.size and int(numbers.min()) < 0:
            raise ParameterError("counts must not be negative; check the column of counts")
        _check_inside(schema, rows)
        return cls(schema, *merge(rows, numbers))

    @classmethod
    def from_columns(cls, schema: Schema, columns: ArrayLike, values: ArrayLike | None = None) -> Counts:
        """Make a table from attribute codes, one row per record (or per cell, with `values`)."""
        table = np.asarray(columns, dtype=np.int64).reshape(-1, len(schema.attributes))
        numbers = np.ones(table.shape[0], dtype=np.int64) if values is None else values
        _check_columns(schema, table)
        return cls.build(schema, schema.radix.encode(table), numbers)

    @property
    def nonzero(self) -> int:
        """The number of cells that hold anything. Private."""
        return int(self.values.size)

    def columns(self) -> Codes:
        """Give the attribute codes of the stored cells, (cells, attributes)."""
        return self.schema.radix.decode(self.codes)

    def column(self, name: str) -> Codes:
        """Give the codes of one attribute in the stored cells."""
        return self.schema.radix.column(self.codes, self._position(name))

    def project(self, names: Sequence[str]) -> Counts:
        """Add up over the attributes that are not named; the given order becomes the order of the table.

        >>> from sudare.schema import Attribute, Schema, Unit, Values
        >>> pair = [Attribute(name=name, domain=Values(values=("0", "1"))) for name in "ab"]
        >>> schema = Schema(name="pair", unit=Unit(), attributes=tuple(pair))
        >>> Counts.from_columns(schema, [[0, 1], [1, 1]]).project(["b"]).dense()
        array([0, 2])
        """
        kept = self.schema.select(names)
        if not self.nonzero:
            return Counts.build(kept, np.empty((0, len(kept.radix.words))), [])
        chosen = np.column_stack([self.column(name) for name in kept.names])
        return Counts.build(kept, kept.radix.encode(chosen), self.values)

    def coarsen(self, levels: Mapping[str, int]) -> Counts:
        """Climb the hierarchies: each named attribute is seen at its level, the others as they are."""
        coarse = self.schema.coarsen(levels)
        lifted = self.columns().copy()
        for name, level in levels.items():
            position = self._position(name)
            lifted[:, position] = _lift(self.schema.attributes[position], lifted[:, position], level)
        return Counts.build(coarse, coarse.radix.encode(lifted), self.values)

    def restrict(self, box: Mapping[str, Sequence[str | int | None]]) -> Counts:
        """Keep the cells whose attributes take one of the given labels (or codes); the schema stays."""
        keep = np.ones(self.nonzero, dtype=bool)
        for name, wanted in box.items():
            attribute = self.schema.attribute(name)
            codes = [value if isinstance(value, int) else attribute.code(value) for value in wanted]
            keep &= np.isin(self.column(name), np.asarray(codes, dtype=np.int64))
        return Counts(self.schema, *merge(self.codes[keep], self.values[keep]))

    def dense(self) -> Codes:
        """Give the whole table as one vector in mixed-radix order."""
        if self.schema.size > MOST_DENSE_CELLS:
            raise ParameterError(
                "a dense table can have at most {most} cells, not {cells}; use fewer attributes or coarser bins",
                cells=self.schema.size,
                most=MOST_DENSE_CELLS,
            )
        table = np.zeros(self.schema.size, dtype=np.int64)
        table[self.codes[:, 0]] = self.values
        return table

    def expand(self) -> Codes:
        """Give one row of attribute codes per record, in the order of the cells; shuffle before it leaves."""
        return np.repeat(self.columns(), self.values, axis=0)

    def _position(self, name: str) -> int:
        return self.schema.names.index(self.schema.attribute(name).name)


class Countable(Protocol):
    """What a method needs of a source: public facts, and counts."""

    @property
    def schema(self) -> Schema:
        """The public facts of the rows."""
        ...

    def count(self, by: Sequence[str] | None = None) -> Counts:
        """Count the rows over the chosen attributes (all of them by default)."""
        ...


def _lift(attribute: Attribute, codes: Codes, level: int) -> Codes:
    return codes if level == 0 or attribute.hierarchy is None else attribute.hierarchy.lift(codes, level)


def _check_columns(schema: Schema, table: Codes) -> None:
    if not table.size:
        return
    low, high = table.min(axis=0), table.max(axis=0)
    for position, attribute in enumerate(schema.attributes):
        if low[position] < 0 or high[position] >= attribute.size:
            raise DomainError(
                "attribute {name} holds codes outside its {size} values",
                name=attribute.name,
                size=attribute.size,
            )


def _check_inside(schema: Schema, codes: Codes) -> None:
    """Refuse a word that is not below the product of its radices; one comparison per word."""
    if not codes.size:
        return
    for word, positions in enumerate(schema.radix.words):
        bound = 1
        for position in positions:
            bound *= schema.sizes[position]
        if int(codes[:, word].min()) < 0 or int(codes[:, word].max()) >= bound:
            raise DomainError("cell codes must be among the {cells} cells of the schema", cells=schema.size)
