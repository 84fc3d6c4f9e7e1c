"""What a statement is made of: words and signs, and the tree that they form. The grammar is closed: see `parser`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from sudare.errors import ParameterError
from sudare.text import Words, text

MOST_CHARACTERS = 200_000
DEEPEST = 30  # levels of parentheses, calls and queries inside each other
MOST_OPERATORS = 200  # arithmetic signs in one chain, such as 1 + 2 + 3

_TOKENS = re.compile(
    r"""\s+|--[^\n]*|/\*(?:(?!\*/|/\*).)*\*/
      |(?P<number>(?:\d[\d_]*(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?(?![\w.]))
      |'(?P<string>(?:[^']|'')*)'
      |"(?P<quoted>(?:[^"]|"")+)"
      |(?P<name>[^\W\d]\w*)
      |(?P<sign><>|!=|<=|>=|\|\||//|::|==|[-+*/%(),.;<>=])""",
    re.VERBOSE | re.DOTALL,
)


# Signs as Japanese keyboards write them, each read as the one beside it, and words of SQL that were typed that way.
WIDE_SIGNS = str.maketrans("　（）＋－＊／％＝＜＞！｜，、．；。：", " ()+-*/%=<>!|,,.;;:")
WIDE_WORDS = frozenset([
    "SELECT", "FROM", "WHERE", "GROUP", "BY", "HAVING", "ORDER", "LIMIT", "AND", "OR", "NOT", "IN", "IS", "NULL",
    "BETWEEN", "LIKE", "CASE", "WHEN", "THEN", "ELSE", "END", "AS", "DISTINCT", "ASC", "DESC", "COUNT", "SUM", "AVG",
    "MIN", "MAX", "MEDIAN",
])  # fmt: skip
_WIDE = re.compile(
    r"""(?P<kept>'[^']*'|"[^"]*"|--[^\n]*|/\*(?:(?!\*/|/\*).)*\*/)"""
    r"|(?<!\w)(?P<word>[Ａ-Ｚａ-ｚ]{2,8})(?!\w)|[　（）＋－＊／％＝＜＞！｜，、．；。：]",
    re.DOTALL,
)
QUOTES = text("values stand in '...' and names in double quotes, as half-width keys write them")
SIGNS = {  # that other engines or keyboards know, and what to write instead
    **dict.fromkeys("‘’“”„「」『』＇＂〝〟′″", QUOTES),
    **dict.fromkeys("≧≥", text("write {sign}", sign=">=")),
    **dict.fromkeys("≦≤", text("write {sign}", sign="<=")),
    "≠": text("write {sign}", sign="<>"),
    "`": text("names stand in double quotes, not in backticks"),
    "[": text(
        "there are no lists, and names stand in double quotes; write one quantile for a column, and SUBSTR(x, 1, 7)"
        " for x[1:7]"
    ),
    "~": text("write x LIKE '%a%' OR x LIKE '%b%', STARTS_WITH, CONTAINS or IN"),
}


class Token(NamedTuple):
    """A word, a sign, a number or a text of a statement. `kind`: name, quoted, number, string, sign or end.

    `word` is the word in capitals if it is not quoted, else nothing.
    """

    kind: str
    value: str
    start: int
    stop: int
    word: str = ""


def fold_width(statement: str) -> str:
    """Read full-width signs and words of SQL as half-width ones; what stands in quotes, names and comments stays.

    Every sign stays in its place.

    >>> fold_width("SELECT 性別、ＣＯＵＮＴ（＊） FROM t WHERE a ＝ '（株）'")
    "SELECT 性別,COUNT(*) FROM t WHERE a = '（株）'"
    """
    return statement if statement.isascii() else _WIDE.sub(_fold_match, statement)


def _fold_match(match: re.Match[str]) -> str:
    if match["kept"]:
        return match["kept"]
    if not match["word"]:
        return match[0].translate(WIDE_SIGNS)
    word = "".join(chr(ord(sign) - 0xFEE0) for sign in match["word"])
    return word if word.upper() in WIDE_WORDS else match[0]


def split_words(statement: str) -> list[Token]:
    """Cut a statement into tokens; comments and blanks are left out.

    >>> [token.value for token in split_words("SELECT 1 -- one")]
    ['SELECT', '1', '']
    """
    if len(statement) > MOST_CHARACTERS:
        raise ParameterError("a question must be at most {most} characters long", most=MOST_CHARACTERS)
    tokens, place, statement = [], 0, fold_width(statement)
    while place < len(statement):
        match = _TOKENS.match(statement, place)
        if match is None and statement[place] in "'\"":
            raise ParameterError(
                "what begins with {sign} (character {place}) has no end", sign=statement[place], place=place + 1
            )
        if match is None:
            raise refuse_sign(statement, place)
        kind = match.lastgroup
        if kind is not None:
            value = match.group(kind)
            if kind in ("string", "quoted"):
                mark = "'" if kind == "string" else '"'
                value = value.replace(mark * 2, mark)
            word = value.upper() if kind == "name" else ""
            tokens.append(Token(kind, value, match.start(), match.end(), word))
        place = match.end()
    tokens.append(Token("end", "", len(statement), len(statement)))
    return tokens


def refuse_sign(statement: str, place: int) -> ParameterError:
    """The refusal of a sign that is no SQL; inside or at the end of a name it is told how to write the name."""
    what = text("the sign {sign}", sign=_show(statement[place]))
    if statement[place] in SIGNS:
        return refuse(what, SIGNS[statement[place]])
    name = re.search(r"[^\W\d]\w*$", statement[:place])
    if name is None or not statement[place].isprintable():
        return refuse(what)
    rest = re.match(r"[^\s,;'\"=<>()]*", statement[place:])
    example = f'"{name[0]}{rest[0] if rest else ""}"'
    return refuse(what, text("if it is part of a name, write that in double quotes: {example}", example=example))


def _show(sign: str) -> str:
    return sign if sign.isprintable() else f"U+{ord(sign):04X}"


def refuse(what: Words, why: Words | None = None) -> ParameterError:
    """The refusal of something that stands in a statement; with the reason where there is a special one."""
    if why is not None:
        return ParameterError("{what} is not answered: {why}", what=what, why=why)
    return ParameterError(
        "{what} is not part of the SQL that is answered with intervals; docs/how-to/view-queries.md lists what is, and "
        "--records asks records drawn from a view",
        what=what,
    )


# --- the tree ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Literal:
    """A number (exact), a text, TRUE, FALSE or NULL; `kind` is integer, decimal, number, text, bool or null."""

    kind: str
    value: Fraction | str | bool | None


@dataclass(frozen=True, slots=True)
class IntervalLiteral:
    """INTERVAL 3 MONTH: a number of days or of months."""

    days: int
    months: int


@dataclass(frozen=True, slots=True)
class Name:
    """A column, perhaps of a named table."""

    name: str
    table: str = ""


@dataclass(frozen=True, slots=True)
class Star:
    """The star of COUNT(*) or SELECT *, perhaps of a named table; without some columns, or others in their place."""

    table: str = ""
    excluded: tuple[str, ...] = ()
    replaced: tuple[tuple[str, Expression], ...] = ()

    @property
    def is_plain(self) -> bool:
        """Tell whether it stands for all columns as they are."""
        return not self.excluded and not self.replaced


@dataclass(frozen=True, slots=True)
class Operation:
    """An operator with its operands: + - * / // % || = <> < <= > >= AND OR NOT NEG IS_NULL IS_TRUE IS_FALSE SAME."""

    sign: str
    operands: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Membership:
    """`operand IN (...)`, of listed values or of the one column of a query."""

    operand: Expression
    values: tuple[Expression, ...]
    query: Query | None = None


@dataclass(frozen=True, slots=True)
class Matching:
    """`operand LIKE pattern`; `folded` is ILIKE."""

    operand: Expression
    pattern: Expression
    escape: str
    folded: bool


@dataclass(frozen=True, slots=True)
class CaseWhen:
    """CASE WHEN condition THEN value ... ELSE other END; a simple CASE is written as comparisons."""

    branches: tuple[tuple[Expression, Expression], ...]
    other: Expression


@dataclass(frozen=True, slots=True)
class Cast:
    """CAST(operand AS kind): kind is integer, number, text, date or bool."""

    operand: Expression
    kind: str
    is_try: bool = False


@dataclass(frozen=True, slots=True)
class Ordering:
    """One key of ORDER BY."""

    key: Expression
    descending: bool = False
    nulls_first: bool = False


@dataclass(frozen=True, slots=True)
class WindowFrame:
    """OVER (PARTITION BY ... ORDER BY ...). `rows`: from which row to which, counted from its own; None: no end."""

    partition: tuple[Expression, ...]
    order: tuple[Ordering, ...]
    rows: tuple[int | None, int | None] | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """A function with its arguments; `order` is that of WITHIN GROUP."""

    name: str
    arguments: tuple[Expression, ...]
    distinct: bool = False
    condition: Expression | None = None  # FILTER (WHERE ...)
    order: tuple[Ordering, ...] = ()
    window: WindowFrame | None = None


@dataclass(frozen=True, slots=True)
class ScalarQuery:
    """A query in parentheses that stands for one value."""

    query: Query


@dataclass(frozen=True, slots=True)
class AttributeColumn:
    """An attribute of the release by its place in the schema: what a name was found to mean. Never parsed."""

    attribute: int


@dataclass(frozen=True, slots=True)
class Slot:
    """A place in a row of groups: a key or an aggregate that was worked out before. Never parsed."""

    place: int


@dataclass(frozen=True, slots=True)
class ScalarSlot:
    """The value of a query of one value, numbered within its SELECT. Never parsed."""

    number: int


Expression = (
    Literal
    | IntervalLiteral
    | Name
    | Star
    | Operation
    | Membership
    | Matching
    | CaseWhen
    | Cast
    | Call
    | ScalarQuery
    | AttributeColumn
    | Slot
    | ScalarSlot
)


@dataclass(frozen=True, slots=True)
class SelectItem:
    """One column of SELECT, its alias and how it is written."""

    expression: Expression
    alias: str
    written: str


@dataclass(frozen=True, slots=True)
class TableName:
    """A table by its name: the release, or a query named by WITH."""

    name: str
    alias: str


@dataclass(frozen=True, slots=True)
class DerivedTable:
    """A query in FROM."""

    query: Query
    alias: str


@dataclass(frozen=True, slots=True)
class TableJoin:
    """A table joined to those before it; `kind` is inner, left or cross, by a condition or by shared columns."""

    table: TableName | DerivedTable
    kind: str
    condition: Expression | None = None
    using: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupBy:
    """GROUP BY: sets of keys (one set, or those of ROLLUP, CUBE, GROUPING SETS); `is_all` is GROUP BY ALL."""

    sets: tuple[tuple[Expression, ...], ...]
    is_all: bool = False


@dataclass(frozen=True, slots=True)
class Select:
    """One SELECT."""

    items: tuple[SelectItem, ...]
    table: TableName | DerivedTable
    joins: tuple[TableJoin, ...] = ()
    where: Expression | None = None
    grouping: GroupBy | None = None
    having: Expression | None = None
    qualify: Expression | None = None
    distinct: bool = False


@dataclass(frozen=True, slots=True)
class Query:
    """One SELECT or several joined by UNION, with what is named before and ordered after."""

    selects: tuple[Select | Query, ...]
    unions: tuple[bool, ...] = ()  # between them; True is UNION ALL
    named: tuple[tuple[str, Query], ...] = ()
    order: tuple[Ordering, ...] = ()
    order_all: str = ""  # "ASC" or "DESC" of ORDER BY ALL
    limit: int | None = None
    offset: int = 0


def children(node: Expression) -> tuple[Expression, ...]:
    """The expressions directly inside one; queries are not entered."""
    if isinstance(node, Literal | AttributeColumn | Slot | Name):
        return ()
    if isinstance(node, Operation):
        return node.operands
    if isinstance(node, Membership):
        return (node.operand, *node.values)
    if isinstance(node, Matching):
        return (node.operand, node.pattern)
    if isinstance(node, CaseWhen):
        return (*(part for branch in node.branches for part in branch), node.other)
    if isinstance(node, Cast):
        return (node.operand,)
    if isinstance(node, Call):
        inner = () if node.condition is None else (node.condition,)
        keys = tuple(ordering.key for ordering in node.order)
        window = () if node.window is None else (*node.window.partition, *(key.key for key in node.window.order))
        return (*node.arguments, *inner, *keys, *window)
    return ()


def rebuild(node: Expression, change: Callable[[Expression], Expression]) -> Expression:
    """The same expression with everything directly inside it changed; queries are not entered."""
    if isinstance(node, Literal | AttributeColumn):
        return node
    if isinstance(node, Operation):
        return Operation(node.sign, tuple(change(operand) for operand in node.operands))
    if isinstance(node, Membership):
        return Membership(change(node.operand), tuple(change(value) for value in node.values), node.query)
    if isinstance(node, Matching):
        return Matching(change(node.operand), change(node.pattern), node.escape, node.folded)
    if isinstance(node, CaseWhen):
        branches = tuple((change(condition), change(value)) for condition, value in node.branches)
        return CaseWhen(branches, change(node.other))
    if isinstance(node, Cast):
        return Cast(change(node.operand), node.kind, node.is_try)
    if isinstance(node, Call):
        window = node.window
        if window is not None:
            keys = tuple(change(key) for key in window.partition)
            window = WindowFrame(keys, _rebuild_order(window.order, change), window.rows)
        return Call(
            node.name,
            tuple(change(argument) for argument in node.arguments),
            node.distinct,
            None if node.condition is None else change(node.condition),
            _rebuild_order(node.order, change),
            window,
        )
    return node


def _rebuild_order(order: tuple[Ordering, ...], change: Callable[[Expression], Expression]) -> tuple[Ordering, ...]:
    return tuple(Ordering(change(how.key), how.descending, how.nulls_first) for how in order)
