"""Values as a question writes them, turned into tests on an attribute."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from fractions import Fraction

import sqlglot
from sqlglot import exp

from sudare.errors import ParameterError, SchemaError
from sudare.methods.view.conditions import Every, NumberRange, Predicate, Some, Test, is_whole, negated
from sudare.methods.view.leaves import find_ends as ends
from sudare.schema import Attribute, DateBins, NumberBins, Schema, Values
from sudare.schema.raw import list_some, to_date, to_number

Value = str | int | float | date | Fraction | None


def equal(schema: Schema, attribute: int, values: Sequence[Value]) -> Test:
    """The attribute is one of these values; None is missing."""
    declared = schema.attributes[attribute]
    if any(value is None for value in values):
        if len(values) > 1:
            raise ParameterError(
                "a list of values must not hold NULL; ask for {name} IS NULL by itself", name=declared.name
            )
        return Test(attribute=attribute, is_null=True)
    intervals: list[NumberRange] = []
    codes: set[int] = set()
    for value in values:
        number = _number(declared, value)
        if number is None:
            codes.update(declared.codes(str(value)))  # SchemaError names what there is
        else:
            intervals.append(_point(declared, number))
    return Test(attribute=attribute, intervals=tuple(intervals), codes=frozenset(codes))


def between(
    schema: Schema, attribute: int, low: Value, high: Value, *, above: bool = False, below: bool = False
) -> Test:
    """The attribute lies between two values, both included unless `above` or `below` says otherwise; None: no end."""
    declared = schema.attributes[attribute]
    if ends(declared) is None:
        return _ordered(declared, attribute, low, high, above, below)
    start = None if low is None else _start(declared, _needed(declared, low), after=above)
    stop = None if high is None else _start(declared, _needed(declared, high), after=not below)
    return Test(attribute=attribute, intervals=((start, stop),))


def _start(attribute: Attribute, number: Fraction, *, after: bool) -> Fraction:
    """Where values from this one on begin, or those after it."""
    if not is_whole(attribute):
        return number
    return Fraction(math.floor(number) + 1 if after else math.ceil(number))


def _point(attribute: Attribute, number: Fraction) -> NumberRange:
    edges = ends(attribute)
    if edges is None or not edges[0] <= number < edges[-1] + (0 if is_whole(attribute) else 1):
        raise _unknown(attribute)
    if not is_whole(attribute):
        raise ParameterError(
            "the bins of {name} do not end at whole numbers; ask for a range with BETWEEN, or for a bin by its label",
            name=attribute.name,
        )
    if number.denominator != 1:
        raise _unknown(attribute)
    return number, number + 1


def _ordered(declared: Attribute, attribute: int, low: Value, high: Value, above: bool, below: bool) -> Test:
    if not (isinstance(declared.domain, Values) and declared.is_ordered):
        raise ParameterError("{name} has no order; use =, <> or IN", name=declared.name)
    first = 0 if low is None else declared.code(str(low)) + above
    last = declared.domain.size - 1 if high is None else declared.code(str(high)) - below
    return Test(attribute=attribute, codes=frozenset(range(first, last + 1)))


def _needed(attribute: Attribute, value: Value) -> Fraction:
    number = _number(attribute, value)
    if number is None:
        raise ParameterError(
            "{name} is compared with something that is neither a number nor a date", name=attribute.name
        )
    return number


def _number(attribute: Attribute, value: Value) -> Fraction | None:
    """The value as a number (a date as its day); None for a label."""
    if isinstance(attribute.domain, DateBins):
        day = to_date(value)
        return None if day is None else Fraction(day.toordinal())
    if not isinstance(attribute.domain, NumberBins):
        return None
    number = to_number(value)
    return number if isinstance(number, Fraction) else None


def _unknown(attribute: Attribute) -> SchemaError:
    return SchemaError(
        "attribute {name} has no such value; it has {known}", name=attribute.name, known=attribute.some_labels
    )


# Questions in SQL: counts, sums and means of declared attributes. Anything else is refused with what is supported.


MOST_CHARACTERS = 20_000
MOST_DEPTH = 60  # of brackets and NOT around one another; people write three
SUPPORTED = (
    "SELECT COUNT(*), SUM(x), AVG(x) and grouped attributes FROM view"
    " WHERE =, <>, IN, BETWEEN, <, <=, >, >=, IS NULL with AND, OR, NOT GROUP BY attributes"
)
_PARTS = {"kind", "hint", "distinct", "expressions", "from", "from_", "where", "group", "limit", "operation_modifiers"}


@dataclass(frozen=True, slots=True)
class AnswerColumn:
    """One column of the answer: "count", "sum" or "avg" of an attribute (None: of records), or "group" by one."""

    kind: str
    attribute: int | None
    name: str


@dataclass(frozen=True, slots=True)
class Question:
    """A parsed statement."""

    measures: tuple[AnswerColumn, ...]
    where: Predicate | None
    groups: tuple[int, ...]


def parse(text: str, schema: Schema) -> Question:
    """Read one statement; ParameterError says what is supported."""
    tree = _read(text)
    _check_shape(tree)
    groups = tuple(_column(node, schema) for node in _grouped(tree))
    measures = tuple(_measure(node, schema, groups) for node in tree.expressions)
    where = tree.args.get("where")
    return Question(measures, None if where is None else _predicate(where.this, schema), groups)


def split(text: str) -> list[str]:
    """The statements of a file, one by one, as they are written there."""
    try:
        trees = sqlglot.parse(text, dialect="duckdb")
    except (sqlglot.errors.SqlglotError, RecursionError):
        raise ParameterError("the file is not SQL; separate statements by semicolons") from None
    return [tree.sql(dialect="duckdb") for tree in trees if tree is not None]


def _read(text: str) -> exp.Select:
    if len(text) > MOST_CHARACTERS:
        raise ParameterError("a question must be at most {most} characters long", most=MOST_CHARACTERS)
    try:
        trees = sqlglot.parse(text, dialect="duckdb")
    except (sqlglot.errors.SqlglotError, RecursionError):
        raise _unsupported("this text") from None
    if len(trees) != 1 or not isinstance(trees[0], exp.Select):
        raise _unsupported("anything but one SELECT")
    _check_depth(trees[0])
    return trees[0]


def _check_depth(tree: exp.Select) -> None:
    """Refuse what is nested so deep that reading it would fail; a chain of AND, or of OR, is no nesting."""
    waiting: list[tuple[exp.Expr, int]] = [(tree, 0)]
    while waiting:
        node, depth = waiting.pop()
        if depth > MOST_DEPTH:
            raise ParameterError("a question must be nested at most {most} deep; use IN, or ask apart", most=MOST_DEPTH)
        for child in node.iter_expressions():
            is_chain = type(child) is type(node) and isinstance(child, exp.And | exp.Or)
            waiting.append((child, depth + (not is_chain)))


def _check_shape(tree: exp.Select) -> None:
    for part, value in tree.args.items():
        if value and part not in _PARTS - {"distinct", "limit", "hint", "kind"}:
            raise _unsupported(part.replace("_", " ").strip().upper())
    source = tree.find(exp.From)
    table = source.this if source is not None else None
    if not isinstance(table, exp.Table) or table.name.lower() != "view" or table.args.get("db"):
        raise ParameterError("a view answers questions FROM view only")
    if tree.find(exp.Subquery, exp.Window, exp.Join) is not None:
        raise _unsupported("a query inside a query")


def _grouped(tree: exp.Select) -> Sequence[exp.Expr]:
    group = tree.args.get("group")
    if group is None:
        return ()
    if any(value for part, value in group.args.items() if part != "expressions"):
        raise _unsupported("this GROUP BY")
    return list(group.expressions)


def _measure(column: exp.Expr, schema: Schema, groups: Sequence[int]) -> AnswerColumn:
    expression, name = (column.this, column.alias) if isinstance(column, exp.Alias) else (column, "")
    if isinstance(expression, exp.Count) and not expression.args.get("big_int_distinct"):
        counted = expression.this
        if isinstance(counted, exp.Star):
            return AnswerColumn("count", None, name or "count")
        if isinstance(counted, exp.Column):
            return AnswerColumn("count", _column(counted, schema), name or f"count_{counted.name}")
        raise _unsupported("COUNT of anything but * or an attribute")
    if isinstance(expression, exp.Sum | exp.Avg):
        kind = "sum" if isinstance(expression, exp.Sum) else "avg"
        place = _column(expression.this, schema)
        if not isinstance(schema.attributes[place].domain, NumberBins):
            raise ParameterError("{name} is not a number; only COUNT can be used with it", name=schema.names[place])
        return AnswerColumn(kind, place, name or f"{kind}_{schema.names[place]}")
    if isinstance(expression, exp.Column):
        place = _column(expression, schema)
        if place not in groups:
            raise ParameterError("{name} must stand in GROUP BY to be selected", name=schema.names[place])
        return AnswerColumn("group", place, name or schema.names[place])
    raise _unsupported(expression.sql(dialect="duckdb"))


def _column(node: exp.Expr, schema: Schema) -> int:
    if not isinstance(node, exp.Column):
        raise _unsupported(node.sql(dialect="duckdb"))
    names = [name for name in schema.names if name == node.name] or [
        name for name in schema.names if name.casefold() == node.name.casefold()
    ]
    if len(names) != 1:
        raise ParameterError(
            "the view has no attribute {name}; it has {known}", name=node.name, known=list_some(schema.names, 20)
        )
    return schema.position(names[0])


def _predicate(node: exp.Expr, schema: Schema) -> Predicate:
    if isinstance(node, exp.Paren):
        return _predicate(node.this, schema)
    if isinstance(node, exp.Not):
        return negated(_predicate(node.this, schema))
    if isinstance(node, exp.And | exp.Or):
        parts = tuple(_predicate(part, schema) for part in node.flatten(unnest=False))
        return Every(parts) if isinstance(node, exp.And) else Some(parts)
    if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
        return equal(schema, _column(node.this, schema), [None])
    if isinstance(node, exp.In) and node.expressions and not node.args.get("query"):
        return equal(schema, _column(node.this, schema), [_value(node) for node in node.expressions])
    if isinstance(node, exp.Between):
        low, high = _value(node.args["low"]), _value(node.args["high"])
        return between(schema, _column(node.this, schema), low, high)
    return _comparison(node, schema)


_MIRRORED = {exp.LT: exp.GT, exp.GT: exp.LT, exp.LTE: exp.GTE, exp.GTE: exp.LTE, exp.EQ: exp.EQ, exp.NEQ: exp.NEQ}


def _comparison(node: exp.Expr, schema: Schema) -> Predicate:
    kind = type(node)
    if kind not in _MIRRORED or not isinstance(node, exp.Binary):
        raise _unsupported(node.sql(dialect="duckdb"))
    left, right = node.left, node.right
    if isinstance(right, exp.Column) and not isinstance(left, exp.Column):
        left, right, kind = right, left, _MIRRORED[kind]
    place, value = _column(left, schema), _value(right)
    ways: dict[type, Callable[[], Predicate]] = {
        exp.EQ: lambda: equal(schema, place, [value]),
        exp.NEQ: lambda: negated(equal(schema, place, [value])),
        exp.LT: lambda: between(schema, place, None, value, below=True),
        exp.LTE: lambda: between(schema, place, None, value),
        exp.GT: lambda: between(schema, place, value, None, above=True),
        exp.GTE: lambda: between(schema, place, value, None),
    }
    return ways[kind]()


def _value(node: exp.Expr) -> Value:
    if isinstance(node, exp.Cast):
        return _value(node.this)
    if isinstance(node, exp.Neg):
        value = _value(node.this)
        if isinstance(value, Fraction):
            return -value
    if isinstance(node, exp.Paren):
        return _value(node.this)
    if isinstance(node, exp.Literal):
        return str(node.this) if node.is_string else Fraction(str(node.this))
    raise _unsupported(node.sql(dialect="duckdb"))


def _unsupported(what: str) -> ParameterError:
    return ParameterError(
        'a view does not answer {what}; it answers {supported}; names with spaces or signs go in "double quotes"',
        what=what,
        supported=SUPPORTED,
    )
