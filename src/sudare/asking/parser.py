"""Read one statement of SQL: queries, their tables, groups and order. What is not foreseen is refused by its name."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from sudare.asking.expressions import ExpressionParser
from sudare.asking.reader import RESERVED
from sudare.asking.syntax import (
    DerivedTable,
    Expression,
    GroupBy,
    Literal,
    Name,
    Query,
    ScalarQuery,
    Select,
    SelectItem,
    Star,
    TableJoin,
    TableName,
    Token,
    children,
    refuse,
    split_words,
)
from sudare.text import text

MOST_CUBE_KEYS = 8
OTHER_STATEMENTS = {
    **dict.fromkeys(
        ("DESCRIBE", "SHOW", "SUMMARIZE"),
        text("`sudare report` lists the columns, their values and how many have them"),
    ),
    **dict.fromkeys(
        ("PIVOT", "UNPIVOT"),
        text("group by both columns, or write COUNT(*) FILTER (WHERE a = 'x') for each new column"),
    ),
}
UNFORESEEN_TABLES = frozenset(
    ["RIGHT", "FULL", "NATURAL", "LATERAL", "ASOF", "POSITIONAL", "SEMI", "ANTI", "TABLESAMPLE", "PIVOT", "UNPIVOT"]
)


@dataclass(frozen=True, slots=True, eq=False)
class ParsedStatement:
    """A statement as a tree, and its values by the place where each is written; True: a minus stands before it."""

    query: Query
    literals: dict[int, tuple[Literal, bool]]


@lru_cache(maxsize=256)
def parse_statement(statement: str) -> ParsedStatement:
    """Read one statement; ParameterError names what is not answered."""
    parser = StatementParser(statement)
    return ParsedStatement(parser.statement(), parser.literals)


def parse(statement: str) -> Query:
    """Read one statement as a tree.

    >>> parse("SELECT COUNT(*) FROM view WHERE age < 20").selects[0].where.sign
    '<'
    """
    return parse_statement(statement).query


def split_statements(file: str) -> list[str]:
    """The statements of a file, one by one, as they are written there; comments between them are left out.

    >>> split_statements("SELECT 1; SELECT ';' -- end;")
    ['SELECT 1', "SELECT ';'"]
    """
    found, part = [], list[Token]()
    for token in split_words(file):
        if token.kind == "end" or (token.kind == "sign" and token.value == ";"):
            if part:
                found.append(file[part[0].start : part[-1].stop])
            part = []
        else:
            part.append(token)
    return found


def _find_row(items: Sequence[SelectItem]) -> tuple[DerivedTable, tuple[TableJoin, ...]] | None:
    """What stands for FROM in `SELECT (SELECT ...) - (SELECT ...)`: one of these queries, since it has one row."""
    nodes = [item.expression for item in items]
    for node in nodes:
        nodes += children(node)
    if any(isinstance(node, Name | Star) for node in nodes):
        return None
    queries = [node.query for node in nodes if isinstance(node, ScalarQuery)]
    return (DerivedTable(queries[0], ""), ()) if queries else None


class StatementParser(ExpressionParser):
    """Reads queries."""

    # --- queries ------------------------------------------------------------------------------------------------------

    def statement(self) -> Query:
        """Read the whole statement."""
        if not (self.token.word in ("SELECT", "WITH", "FROM") or self.is_sign("(")):
            if self.token.kind == "end":
                raise self.unexpected("SELECT")
            raise refuse(text("a statement that is no SELECT"), OTHER_STATEMENTS.get(self.token.word))
        query = self.query()
        self.take_sign(";")
        if self.token.word in ("SELECT", "WITH"):
            shown = text("{shown} (character {place})", shown=self.token.value, place=self.token.start + 1)
            raise refuse(shown, text("another statement begins there; in a file (--file) put ; between statements"))
        if self.token.kind != "end":
            raise self.unexpected()
        return query

    def query(self) -> Query:
        """Read a query."""
        return self.nested(self._query)

    def _query(self) -> Query:
        named = self.with_list() if self.take("WITH") else ()
        selects: list[Select | Query] = [self.operand_of_union()]
        unions: list[bool] = []
        while self.token.word in ("UNION", "INTERSECT", "EXCEPT"):
            if not self.take("UNION"):
                raise refuse(self.token.word, text("write both conditions in one WHERE, or join the groups"))
            unions.append(self.take("ALL"))
            if not unions[-1]:
                self.take("DISTINCT")
            if self.take("BY", "NAME"):
                raise refuse("UNION BY NAME")
            selects.append(self.operand_of_union())
        order, order_all = self.order_by() if self.take("ORDER", "BY") else ((), "")
        limit, offset = self.limits()
        if len(selects) == 1 and isinstance(selects[0], Query) and not (named or order or order_all) and limit is None:
            return selects[0] if not offset else Query(tuple(selects), offset=offset)
        return Query(tuple(selects), tuple(unions), named, order, order_all, limit, offset)

    def with_list(self) -> tuple[tuple[str, Query], ...]:
        """Read the queries that WITH names."""
        if self.take("RECURSIVE"):
            raise refuse("WITH RECURSIVE")
        named = []
        while True:
            name = self.name()
            if self.is_sign("("):
                raise refuse(text("names of columns after a name of WITH"))
            self.expect("AS")
            if self.take("NOT", "MATERIALIZED") or self.take("MATERIALIZED"):
                pass
            self.expect_sign("(")
            named.append((name, self.query()))
            self.expect_sign(")")
            if not self.take_sign(","):
                return tuple(named)

    def operand_of_union(self) -> Select | Query:
        """Read one side of UNION."""
        if self.take_sign("("):
            query = self.query()
            self.expect_sign(")")
            return query
        return self.select()

    def limits(self) -> tuple[int | None, int]:
        """Read LIMIT and OFFSET, or OFFSET and FETCH FIRST, as the standard writes them."""
        limit, offset = None, 0
        for _ in range(2):
            if self.take("LIMIT"):
                limit = None if self.take("ALL") else self.whole_number("LIMIT")
            if self.take("OFFSET"):
                offset = self.whole_number("OFFSET")
                if not self.take("ROWS"):
                    self.take("ROW")
        if limit is None and (self.take("FETCH", "FIRST") or self.take("FETCH", "NEXT")):
            limit = 1 if self.token.word in ("ROW", "ROWS") else self.whole_number("FETCH")
            if not self.take("ROWS"):
                self.expect("ROW")
            if self.take("WITH", "TIES"):
                raise refuse("WITH TIES", text("estimates are hardly ever equal; write ONLY"))
            self.expect("ONLY")
        return limit, offset

    def whole_number(self, after: str) -> int:
        """Read the number after LIMIT."""
        token = self.next()
        if token.kind != "number" or not token.value.isdigit() or len(token.value) > 15 or self.is_sign("%"):
            raise refuse(text("{word} with anything but a whole number", word=after))
        return int(token.value)

    def select(self) -> Select:
        """Read one SELECT; its FROM may stand before it."""
        early = self.tables() if self.take("FROM") else None
        if early is not None and self.token.word != "SELECT":
            return self.clauses([SelectItem(Star(), "", "*")], early, distinct=False)
        self.expect("SELECT")
        distinct = self.take("DISTINCT")
        if not distinct:
            self.take("ALL")
        if distinct and self.take("ON"):
            raise refuse("DISTINCT ON")
        if self.token.word == "TOP" and self.peek().kind == "number":
            raise refuse("TOP", text("write LIMIT and the number at the end of the statement"))
        items = self.list_of(self.item)
        if early is None:
            early = None if self.token.word == "FROM" else _find_row(items)
        if early is None:
            self.expect("FROM")
            early = self.tables()
        return self.clauses(items, early, distinct=distinct)

    def clauses(
        self, items: list[SelectItem], source: tuple[TableName | DerivedTable, tuple[TableJoin, ...]], *, distinct: bool
    ) -> Select:
        """Read what follows FROM."""
        table, joins = source
        where = self.expression() if self.take("WHERE") else None
        grouping = self.grouping() if self.take("GROUP", "BY") else None
        having = self.expression() if self.take("HAVING") else None
        if self.token.word == "WINDOW":
            raise refuse("WINDOW")
        qualify = self.expression() if self.take("QUALIFY") else None
        return Select(tuple(items), table, joins, where, grouping, having, qualify, distinct)

    def item(self) -> SelectItem:
        """Read one column of SELECT."""
        start = self.token.start
        expression = self.star() or self.expression()
        written = " ".join(self.source[start : self.tokens[self.place - 1].stop].split())
        if self.take("AS"):
            return SelectItem(expression, self.name(), written)
        token = self.token
        if token.kind == "quoted" or (token.kind == "name" and token.word not in RESERVED):
            return SelectItem(expression, self.name(), written)
        return SelectItem(expression, "", written)

    def tables(self) -> tuple[TableName | DerivedTable, tuple[TableJoin, ...]]:
        """Read FROM."""
        first, joins = self.table(), list[TableJoin]()
        while True:
            if self.take_sign(",") or self.take("CROSS", "JOIN"):
                joins.append(TableJoin(self.table(), "cross"))
                continue
            kind = "left" if self.take("LEFT", "OUTER", "JOIN") or self.take("LEFT", "JOIN") else ""
            kind = kind or ("inner" if self.take("INNER", "JOIN") or self.take("JOIN") else "")
            if not kind:
                break
            joins.append(self.join(kind))
        if self.token.word in UNFORESEEN_TABLES:
            raise refuse(self.token.word)
        return first, tuple(joins)

    def join(self, kind: str) -> TableJoin:
        """Read one joined table."""
        table = self.table()
        if self.take("ON"):
            return TableJoin(table, kind, self.expression())
        if self.take("USING"):
            self.expect_sign("(")
            names = self.list_of(self.name)
            self.expect_sign(")")
            return TableJoin(table, kind, None, tuple(names))
        raise self.unexpected("ON")

    def table(self) -> TableName | DerivedTable:
        """Read one table."""
        if self.take_sign("("):
            query = self.query()
            self.expect_sign(")")
            return DerivedTable(query, self.alias())
        name = self.name("a table")
        if self.is_sign(".") or self.is_sign("("):
            raise refuse(text("a table of another database, or a function in FROM"))
        return TableName(name, self.alias() or name)

    def alias(self) -> str:
        """Read the name that a table is given."""
        token, after = self.token, self.take("AS")
        token = self.token
        if after or token.kind == "quoted" or (token.kind == "name" and token.word not in RESERVED):
            alias = self.name()
            if self.is_sign("("):
                raise refuse(text("names of columns after the name of a table"))
            return alias
        return ""

    def grouping(self) -> GroupBy:
        """Read GROUP BY."""
        if self.take("ALL"):
            return GroupBy((), is_all=True)
        parts = self.list_of(self.grouping_part)
        if self.token.word == "WITH" and self.peek().word in ("ROLLUP", "CUBE"):
            raise refuse(f"WITH {self.peek().word}", text("write GROUP BY {word} (a, b)", word=self.peek().word))
        sets = [tuple(itertools.chain.from_iterable(chosen)) for chosen in itertools.product(*parts)]
        if len(sets) > 2**MOST_CUBE_KEYS:
            raise refuse(text("CUBE of so many keys"))
        return GroupBy(tuple(tuple(dict.fromkeys(keys)) for keys in sets))

    def grouping_part(self) -> list[tuple[Expression, ...]]:
        """The sets of keys that one part of GROUP BY stands for."""
        if self.token.word in ("ROLLUP", "CUBE") and self.peek().value == "(":
            kind = self.next().word
            self.expect_sign("(")
            keys = self.list_of(self.keys)
            self.expect_sign(")")
            if len(keys) > MOST_CUBE_KEYS:
                raise refuse(text("CUBE of so many keys"))
            if kind == "ROLLUP":
                chosen = [keys[:length] for length in range(len(keys), -1, -1)]
            else:
                sizes = range(len(keys), -1, -1)
                chosen = [list(some) for size in sizes for some in itertools.combinations(keys, size)]
            return [tuple(itertools.chain.from_iterable(some)) for some in chosen]
        if self.take("GROUPING", "SETS"):
            self.expect_sign("(")
            found = self.list_of(self.keys)
            self.expect_sign(")")
            return found
        return [self.keys()]

    def keys(self) -> tuple[Expression, ...]:
        """Read one key, or several in parentheses."""
        if self.is_sign("(") and self.peek().value == ")" and self.peek().kind == "sign":
            self.place += 2
            return ()
        if self.is_sign("("):
            start = self.place
            self.place += 1
            found = self.list_of(self.expression)
            if self.take_sign(")") and (self.is_sign(",") or self.is_sign(")") or self.token.kind in ("name", "end")):
                return tuple(found)
            self.place = start
        return (self.expression(),)
