"""How Spark spells a query."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.dialects.spark import Spark

from sudare.sources.dialect import Dialect
from sudare.sources.sql import Expression, all_of, choose, literal


class SudareSpark(Spark):
    """Spark's SQL with TRY_CAST, which sqlglot writes as CAST, and with moments that have no zone."""

    class Generator(Spark.Generator):  # type: ignore[misc, valid-type]  # sqlglot makes it by its metaclass
        """Writes the trees."""

        TRANSFORMS = {  # noqa: RUF012  (as in the class above)
            **Spark.Generator.TRANSFORMS,
            exp.TryCast: lambda self, tree: self.trycast_sql(tree),
        }
        TYPE_MAPPING = {**Spark.Generator.TYPE_MAPPING, exp.DataType.Type.TIMESTAMP: "TIMESTAMP_NTZ"}  # noqa: RUF012


class SparkDialect(Dialect):
    """What Spark says otherwise. Casts of texts give NULL instead of an error, for an error quotes the row.

    >>> from sudare.sources.sql import matches_pattern, raw_column
    >>> SparkDialect().render(matches_pattern(raw_column("c0"), "[0-9]+"))
    "r.c0 RLIKE '^([0-9]+)\\\\\\\\z'"
    """

    def __init__(self) -> None:
        super().__init__("sudarespark")

    def render(self, tree: Expression) -> str:
        """Write a tree; which columns a row of GROUPING SETS adds up over is told by GROUPING_ID."""
        renamed = tree.copy()
        for function in renamed.find_all(exp.Anonymous):
            if function.name.upper() == "GROUPING":
                function.set("this", "GROUPING_ID")
        return super().render(renamed)

    def digest(self, text: Expression) -> Expression:
        """SHA-256 of a text, as hexadecimal digits."""
        return exp.Anonymous(this="SHA2", expressions=[text, literal(256)])

    def matches(self, text: Expression, pattern: str) -> Expression:
        """In Java `$` also matches before a last line break; `\\z` does not."""
        ended = pattern[:-1] + r"\z" if pattern.endswith("$") else pattern
        return exp.RegexpLike(this=text, expression=exp.Literal.string(ended))

    def read_text(self, text: Expression, kind: exp.DataType) -> Expression:
        """Read by TRY_CAST; a whole number through a decimal, which takes a point with zeros."""
        if kind.is_type(exp.DataType.Type.DATE):
            dashed = exp.Anonymous(this="TRANSLATE", expressions=[text.copy(), literal("/"), literal("-")])
            is_day = self.matches(text.copy(), "^([0-9]{4}[-/][0-9]{2}[-/][0-9]{2})$")
            has_year = exp.not_(self.matches(text, "^0000"))  # Spark knows a year 0, the calendar does not
            return choose([(all_of(is_day, has_year), _try_cast(dashed, kind))])
        if kind.is_type(exp.DataType.Type.BIGINT):
            return _try_cast(_try_cast(text, exp.DataType.build("DECIMAL(38, 0)")), kind)
        return super().read_text(text, kind).transform(_make_try)

    def days_between(self, late: Expression, early: Expression) -> Expression:
        """Count days; with a unit named, Spark would go through moments of a time zone."""
        return exp.Anonymous(this="DATEDIFF", expressions=[late, early])

    def total(self, numbers: Expression) -> Expression:
        """Add up as decimals; a sum of whole numbers that overflows would be an error."""
        return exp.Sum(this=exp.cast(numbers, "DECIMAL(38, 0)"))


def _try_cast(value: Expression, kind: exp.DataType) -> Expression:
    return exp.TryCast(this=value, to=kind)


def _make_try(node: Expression) -> Expression:
    is_cast = isinstance(node, exp.Cast) and not isinstance(node, exp.TryCast)
    return _try_cast(node.this, node.args["to"]) if is_cast else node
