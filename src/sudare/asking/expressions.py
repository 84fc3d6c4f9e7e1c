"""Read the expressions of a statement. The grammar is closed: what is not foreseen is refused by its name.

Signs bind as in DuckDB: OR, AND, NOT, IS, comparisons, IN/BETWEEN/LIKE, ||, + and -, * / // %, a sign, ::.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

from sudare.asking.reader import RESERVED, TokenReader
from sudare.asking.syntax import (
    MOST_OPERATORS,
    SIGNS,
    Call,
    CaseWhen,
    Cast,
    Expression,
    IntervalLiteral,
    Literal,
    Matching,
    Membership,
    Name,
    Operation,
    Ordering,
    Query,
    ScalarQuery,
    Star,
    Token,
    WindowFrame,
    refuse,
    refuse_sign,
)
from sudare.errors import ParameterError
from sudare.text import text

MOST_DIGITS = 100  # of a number in a statement; more cannot be computed with as floats
NULL = Literal("null", None)
EXISTS_INSTEAD = text("write x IN (SELECT x FROM ... GROUP BY x), or join the groups")
PLAIN_KINDS = frozenset(["number", "string", "quoted", "name"])
AFTER_SIGNS = frozenset(["=", "==", "<>", "!=", "<", "<=", ">", ">=", ",", ")", ";"])
AFTER_WORDS = frozenset(["AND", "OR", "BETWEEN", "IN", "IS", "LIKE", "NOT", "FROM", "GROUP", "ORDER", "THEN", "ELSE"])
COMPARISONS = {"=": "=", "==": "=", "<>": "<>", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
TYPES = {
    **dict.fromkeys(
        ["INT", "INTEGER", "BIGINT", "SMALLINT", "TINYINT", "HUGEINT", "INT4", "INT8", "LONG", "SIGNED"], "integer"
    ),
    **dict.fromkeys(["DOUBLE", "FLOAT", "REAL", "FLOAT8", "FLOAT4"], "number"),
    **dict.fromkeys(["VARCHAR", "TEXT", "STRING", "CHAR"], "text"),
    **dict.fromkeys(("BOOLEAN", "BOOL"), "bool"),
    "DATE": "date",
}


class ExpressionParser(TokenReader):
    """Walks over the tokens of one statement from left to right; queries inside expressions are read by `query`."""

    def __init__(self, statement: str) -> None:
        super().__init__(statement)
        self.literals: dict[int, tuple[Literal, bool]] = {}  # by the start of their token; True: with a minus

    def query(self) -> Query:
        """Read a query."""
        raise NotImplementedError

    # --- stars and orders ---------------------------------------------------------------------------------------------

    def star(self) -> Star | None:
        """Read * or table.*, if it comes next."""
        if self.take_sign("*"):
            star = Star()
        elif self.token.kind in ("name", "quoted") and self.peek().value == "." and self.peek(2).value == "*":
            star = Star(self.next().value)
            self.place += 2
        else:
            return None
        if self.take("EXCLUDE"):
            star = replace(star, excluded=tuple(self.bracketed(self.name)))
        if self.take("REPLACE"):
            star = replace(star, replaced=tuple(self.bracketed(self.replacement)))
        if self.token.word == "RENAME" or (self.token.word == "EXCEPT" and self.peek().value == "("):
            raise refuse(f"* {self.token.word}", text("write * EXCLUDE (a, b), or * REPLACE (a + 1 AS a)"))
        return star

    def replacement(self) -> tuple[str, Expression]:
        """Read an expression and the column that it takes the place of."""
        expression = self.expression()
        self.expect("AS")
        return self.name(), expression

    def order_by(self) -> tuple[tuple[Ordering, ...], str]:
        """Read the keys of ORDER BY."""
        if self.take("ALL"):
            descending = self.take("DESC")
            if not descending:
                self.take("ASC")
            return (), "DESC" if descending else "ASC"
        return tuple(self.list_of(self.ordering)), ""

    def ordering(self) -> Ordering:
        """Read one key of ORDER BY."""
        key = self.expression()
        descending = self.take("DESC")
        if not descending:
            self.take("ASC")
        first = False
        if self.take("NULLS"):
            first = self.take("FIRST")
            if not first:
                self.expect("LAST")
        return Ordering(key, descending, first)

    # --- expressions, from what binds least to what binds most ------------------------------------------------------

    def expression(self) -> Expression:
        """Read an expression."""
        return self.nested(self.disjunction)

    def disjunction(self) -> Expression:
        """Read what OR joins."""
        return self.chain("OR", lambda: self.chain("AND", self.negation))

    def chain(self, word: str, read: Callable[[], Expression]) -> Expression:
        """Read what a word such as AND joins."""
        terms = [read()]
        while self.take(word):
            terms.append(read())
        return Operation(word, tuple(terms)) if len(terms) > 1 else terms[0]

    def negation(self) -> Expression:
        """Read NOT."""
        turns = 0
        while self.take("NOT"):
            turns += 1
        inner = self.comparison()
        return Operation("NOT", (inner,)) if turns % 2 else _doubly_negated(inner) if turns else inner

    def comparison(self) -> Expression:
        """Read a comparison, and IS after it."""
        left = self.predicate()
        token = self.token
        if token.kind == "sign" and token.value in COMPARISONS:
            self.place += 1
            right = self.predicate()
            if self.token.kind == "sign" and self.token.value in COMPARISONS:
                raise refuse(text("a chain of comparisons"))
            left = Operation(COMPARISONS[token.value], (left, right))
        while self.take("IS"):
            left = self.is_test(left)
        return left

    def is_test(self, left: Expression) -> Expression:
        """Read what follows IS."""
        turned = self.take("NOT")
        if self.take("DISTINCT", "FROM"):
            found: Expression = Operation("SAME", (left, self.predicate()))
            turned = not turned
        else:
            word = self.next().word
            if word not in ("NULL", "TRUE", "FALSE"):
                self.place -= 1
                raise self.unexpected("NULL")
            found = Operation(f"IS_{word}", (left,))
        return Operation("NOT", (found,)) if turned else found

    def predicate(self) -> Expression:
        """IN, BETWEEN and LIKE bind closer than comparisons."""
        left = self.concatenation()
        while True:
            start = self.place
            turned = self.take("NOT")
            found: Expression
            if self.take("IN"):
                found = self.membership(left)
            elif self.take("BETWEEN"):
                found = self.between(left)
            elif self.token.word in ("LIKE", "ILIKE"):
                found = self.matching(left)
            elif turned and self.token.word in ("GLOB", "SIMILAR"):
                raise refuse(self.token.word, SIGNS["~"])
            else:
                self.place = start
                break
            left = Operation("NOT", (found,)) if turned else found
        if self.token.word == "ISNULL":
            self.place += 1
            return Operation("IS_NULL", (left,))
        if self.token.word == "NOTNULL":
            self.place += 1
            return Operation("NOT", (Operation("IS_NULL", (left,)),))
        if self.token.word in ("GLOB", "SIMILAR"):
            raise refuse(self.token.word, SIGNS["~"])
        if self.token.word == "COLLATE":
            raise refuse(self.token.word)
        return left

    def membership(self, operand: Expression) -> Expression:
        """Read what follows IN."""
        self.expect_sign("(")
        if self.token.word in ("SELECT", "WITH"):
            query = self.query()
            self.expect_sign(")")
            return Membership(operand, (), query)
        values = self.list_of(self.expression)
        self.expect_sign(")")
        return Membership(operand, tuple(values))

    def between(self, operand: Expression) -> Expression:
        """Read what follows BETWEEN."""
        if self.token.word in ("SYMMETRIC", "ASYMMETRIC"):
            raise refuse(f"BETWEEN {self.token.word}")
        low = self.concatenation()
        self.expect("AND")
        high = self.concatenation()
        return Operation("AND", (Operation(">=", (operand, low)), Operation("<=", (operand, high))))

    def matching(self, operand: Expression) -> Expression:
        """Read LIKE and its pattern."""
        folded = self.next().word == "ILIKE"
        pattern, escape = self.concatenation(), ""
        if self.take("ESCAPE"):
            token = self.next()
            if token.kind != "string" or len(token.value) != 1:
                raise refuse(text("ESCAPE with anything but one sign"))
            escape = token.value
        return Matching(operand, pattern, escape, folded)

    def concatenation(self) -> Expression:
        """Read what || joins."""
        token, after = self.tokens[self.place], self.peek()
        if (token.kind in PLAIN_KINDS and token.word not in RESERVED) and (
            after.value in AFTER_SIGNS if after.kind == "sign" else after.word in AFTER_WORDS or after.kind == "end"
        ):
            return self.primary()  # a value or a column by itself, as most are: no operator can follow
        return self.left_chain(("||",), self.sum)

    def sum(self) -> Expression:
        """Read what + and - join."""
        return self.left_chain(("+", "-"), self.product)

    def product(self) -> Expression:
        """Read what * / // % join."""
        return self.left_chain(("*", "/", "//", "%"), self.signed)

    def left_chain(self, signs: tuple[str, ...], read: Callable[[], Expression]) -> Expression:
        """Read what signs join from the left."""
        left, length = read(), 0
        while self.token.kind == "sign" and self.token.value in signs:
            sign, length = self.next().value, length + 1
            if length > MOST_OPERATORS:
                raise ParameterError(
                    "more than {most} signs such as + stand in one chain; ask in several steps", most=MOST_OPERATORS
                )
            left = Operation(sign, (left, read()))
        return left

    def signed(self) -> Expression:
        """Read the sign of a number."""
        turns = 0
        while self.token.kind == "sign" and self.token.value in ("-", "+"):
            turns += self.next().value == "-"
        operand = self.casted()
        if turns % 2 == 0:
            return operand
        if isinstance(operand, Literal) and isinstance(operand.value, Fraction):
            return self.turn_literal(operand, -operand.value)
        return Operation("NEG", (operand,))

    def keep_literal(self, token: Token, literal: Literal) -> Literal:
        """Remember which token a value was read from."""
        self.literals[token.start] = (literal, False)
        return literal

    def turn_literal(self, literal: Literal, value: Fraction) -> Literal:
        """A number with its sign turned; it is remembered in the place of the number."""
        turned = Literal(literal.kind, value)
        for start, (known, is_turned) in self.literals.items():
            if known is literal:
                self.literals[start] = (turned, not is_turned)
        return turned

    def casted(self) -> Expression:
        """Read what :: casts."""
        operand = self.primary()
        while self.take_sign("::"):
            operand = Cast(operand, self.type_name())
        return operand

    def type_name(self) -> str:
        """Read the name of a type."""
        word = self.next().word
        if word in ("DECIMAL", "NUMERIC"):
            if self.take_sign("("):
                raise refuse(text("a number of decimals in {word}", word=word), text("use ROUND or DOUBLE"))
            raise refuse(word, text("it would keep 3 decimals only; use DOUBLE"))
        if word not in TYPES:
            self.place -= 1
            raise self.unexpected("a type")
        if self.take_sign("("):
            raise refuse(text("a length in {word}", word=word))
        return TYPES[word]

    def primary(self) -> Expression:
        """Read a value, a name, a call, or something in parentheses."""
        token = self.token
        if token.kind == "number":
            self.place += 1
            return self.keep_literal(token, read_number(token.value))
        if token.kind == "string":
            self.place += 1
            return self.keep_literal(token, Literal("text", token.value))
        if self.take_sign("("):
            return self.parenthesis()
        if token.kind == "quoted":
            return self.column(self.name())
        if token.kind != "name":
            raise self.unexpected("an expression" if token.kind == "end" else "")
        return self.worded(token)

    def parenthesis(self) -> Expression:
        """Read what stands in parentheses."""
        if self.token.word in ("SELECT", "WITH"):
            inner: Expression = ScalarQuery(self.query())
        else:
            inner = self.expression()
            if self.take_sign(","):
                return self.row_membership([inner, *self.list_of(self.expression)])
        self.expect_sign(")")
        return inner

    def row_membership(self, columns: list[Expression]) -> Expression:
        """Read (a, b) IN ((1, 2), (3, 4)): rows are equal where all of their values are, NULL and NULL too."""
        self.expect_sign(")")
        turned = self.take("NOT")
        if not self.take("IN") or self.peek().value != "(":
            raise refuse(
                text("a list in parentheses"),
                text(
                    "write the conditions one by one with AND; pairs of values are counted by SELECT COUNT(*) FROM"
                    " (SELECT DISTINCT a, b FROM view)"
                ),
            )
        found = []
        for values in self.bracketed(lambda: self.bracketed(self.expression)):
            if len(values) != len(columns):
                raise refuse(text("a list in parentheses"), text("the rows of IN have as many values as columns"))
            found.append(Operation("AND", tuple(Operation("SAME", pair) for pair in zip(columns, values, strict=True))))
        either = found[0] if len(found) == 1 else Operation("OR", tuple(found))
        return Operation("NOT", (either,)) if turned else either

    def worded(self, token: Token) -> Expression:
        """Read what begins with a word."""
        word, after = token.word, self.peek()
        if word in ("TRUE", "FALSE", "NULL"):
            self.place += 1
            return NULL if word == "NULL" else Literal("bool", word == "TRUE")
        if word == "CASE":
            self.place += 1
            return self.nested(self.case)
        if word in ("DATE", "TIMESTAMP") and after.kind == "string":
            if word == "TIMESTAMP":
                raise refuse("TIMESTAMP", text("days have no time; use DATE"))
            self.place += 2
            return Cast(self.keep_literal(after, Literal("text", after.value)), "date")
        if word == "INTERVAL" and (after.kind in ("string", "number") or after.value == "("):
            self.place += 1
            return self.interval()
        if word in ("EXISTS", "ARRAY", "ROW", "STRUCT", "MAP", "LAMBDA") and after.value in ("(", "["):
            raise refuse(word, EXISTS_INSTEAD if word == "EXISTS" else None)
        if after.kind == "sign" and after.value == "(" and (word in ("LEFT", "RIGHT") or word not in RESERVED):
            if not token.value.isascii() and self.source[after.start] != "(":
                raise refuse_sign(self.source, after.start)  # no function is called so
            return self.nested(self.call)
        if word == "CURRENT_DATE":
            raise refuse(word, text("the answer would change from day to day; write the day"))
        return self.column(self.name("an expression"))

    def column(self, name: str) -> Expression:
        """Read a column, perhaps of a named table."""
        if not self.take_sign("."):
            return Name(name)
        column = self.name()
        if self.is_sign("."):
            raise refuse(text("a name of three parts"))
        return Name(column, name)

    def case(self) -> Expression:
        """Read CASE."""
        operand = None if self.token.word == "WHEN" else self.expression()
        branches = []
        while self.take("WHEN"):
            condition = self.expression()
            if operand is not None:
                condition = Operation("=", (operand, condition))
            self.expect("THEN")
            branches.append((condition, self.expression()))
        if not branches:
            raise self.unexpected("WHEN")
        other = self.expression() if self.take("ELSE") else NULL
        self.expect("END")
        return CaseWhen(tuple(branches), other)

    def interval(self) -> IntervalLiteral:
        """Read INTERVAL."""
        bracket = self.take_sign("(")
        token = self.next()
        if bracket:
            self.expect_sign(")")
        words = token.value.split()
        unit = words[1].upper() if len(words) == 2 and token.kind == "string" else self.next().word
        try:
            number = int(words[0])
        except (ValueError, IndexError):
            raise refuse(text("an INTERVAL that is no whole number of days, weeks, months or years")) from None
        sizes = {"DAY": (1, 0), "WEEK": (7, 0), "MONTH": (0, 1), "QUARTER": (0, 3), "YEAR": (0, 12)}
        if unit.removesuffix("S") not in sizes or abs(number) > 10**6:
            raise refuse(text("an INTERVAL that is no whole number of days, weeks, months or years"))
        days, months = sizes[unit.removesuffix("S")]
        return IntervalLiteral(number * days, number * months)

    def call(self) -> Expression:
        """Read a call."""
        name = self.next().word
        self.expect_sign("(")
        if name in ("CAST", "TRY_CAST"):
            operand = self.expression()
            self.expect("AS")
            kind = self.type_name()
            self.expect_sign(")")
            return Cast(operand, kind, name == "TRY_CAST")
        if name == "EXTRACT":
            part = self.next()
            if part.kind not in ("name", "string"):
                raise refuse("EXTRACT")
            self.expect("FROM")
            arguments: list[Expression] = [Literal("text", part.value.lower()), self.expression()]
            self.expect_sign(")")
            return Call("DATE_PART", tuple(arguments))
        distinct = self.take("DISTINCT")
        arguments = []
        if name == "SUBSTRING" and not self.is_sign(")"):
            arguments = self.substring_arguments()
        elif not self.is_sign(")"):
            arguments = [star] if (star := self.star()) else self.list_of(self.expression)
            if star is not None and not star.is_plain:
                raise refuse(text("{name} of some columns", name=f"{name}(*)"))
        order = self.order_by()[0] if self.take("ORDER", "BY") else ()
        if order:
            raise refuse(text("ORDER BY inside {name}", name=name))
        self.expect_sign(")")
        return self.after_call(name, tuple(arguments), distinct)

    def substring_arguments(self) -> list[Expression]:
        """Read SUBSTRING(x FROM 1 FOR 2) as well as SUBSTRING(x, 1, 2)."""
        found = [self.expression()]
        while self.take_sign(",") or self.take("FROM") or self.take("FOR"):
            found.append(self.expression())
        return found

    def after_call(self, name: str, arguments: tuple[Expression, ...], distinct: bool) -> Call:
        """Read what follows a call: WITHIN GROUP, FILTER, OVER."""
        order: tuple[Ordering, ...] = ()
        if self.take("WITHIN", "GROUP"):
            self.expect_sign("(")
            if not self.take("ORDER", "BY"):
                raise self.unexpected("ORDER BY")
            order, _ = self.order_by()
            self.expect_sign(")")
        condition = None
        if self.take("FILTER"):
            self.expect_sign("(")
            self.take("WHERE")
            condition = self.expression()
            self.expect_sign(")")
        if self.token.word in ("IGNORE", "RESPECT"):
            raise refuse(f"{self.token.word} NULLS")
        window = self.window() if self.take("OVER") else None
        return Call(name, arguments, distinct, condition, order, window)

    def window(self) -> WindowFrame:
        """Read what follows OVER."""
        if not self.take_sign("("):
            raise refuse(text("a named window"))
        partition = tuple(self.list_of(self.expression)) if self.take("PARTITION", "BY") else ()
        order, _ = self.order_by() if self.take("ORDER", "BY") else ((), "")
        rows = self.frame() if self.take("ROWS") else None
        if self.token.word in ("RANGE", "GROUPS", "EXCLUDE"):
            raise refuse(
                text("a frame of rows in OVER ({word})", word=self.token.word),
                text("write ROWS BETWEEN 2 PRECEDING AND CURRENT ROW"),
            )
        self.expect_sign(")")
        return WindowFrame(partition, order, rows)

    def frame(self) -> tuple[int | None, int | None]:
        """Read what follows ROWS: from which row to which, counted from the row itself."""
        if not self.take("BETWEEN"):
            return self.frame_end(-1), 0
        start = self.frame_end(-1)
        self.expect("AND")
        return start, self.frame_end(1)

    def frame_end(self, side: int) -> int | None:
        """Read one end of a frame; None: the first row as a start, the last row as an end."""
        if self.take("CURRENT", "ROW"):
            return 0
        if self.take("UNBOUNDED", "PRECEDING" if side < 0 else "FOLLOWING"):
            return None
        token = self.next()
        word = self.next().word
        if token.kind != "number" or not token.value.isdigit() or len(token.value) > 6:
            raise refuse(
                text("a frame of rows in OVER ({word})", word="ROWS"),
                text("it begins and ends with a whole number, UNBOUNDED or CURRENT ROW"),
            )
        if word not in ("PRECEDING", "FOLLOWING"):
            self.place -= 1
            raise self.unexpected("PRECEDING")
        return int(token.value) * (-1 if word == "PRECEDING" else 1)


def read_number(written: str) -> Literal:
    """Read a number exactly.

    >>> read_number("1_000.5").value
    Fraction(2001, 2)
    """
    written = written.replace("_", "")
    kind = "number" if "e" in written.lower() else "decimal" if "." in written else "integer"
    power = written.lower().partition("e")[2]
    if len(written) > MOST_DIGITS or abs(int(power or 0)) > MOST_DIGITS:
        raise refuse(text("a number of more than {most} digits", most=MOST_DIGITS))
    if kind == "decimal":
        whole, _, part = written.partition(".")
        return Literal(kind, Fraction(int(whole + part), 10 ** len(part)))
    return Literal(kind, Fraction(int(written)) if kind == "integer" else Fraction(written))


def _doubly_negated(inner: Expression) -> Expression:
    return Operation("NOT", (Operation("NOT", (inner,)),))
