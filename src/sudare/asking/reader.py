"""Walk over the tokens of a statement: take what comes next, or refuse it by its name and place."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from sudare.asking.syntax import DEEPEST, Token, refuse, refuse_sign, split_words
from sudare.errors import ParameterError
from sudare.text import text

T = TypeVar("T")

RESERVED = frozenset([
    "SELECT", "FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET", "UNION", "INTERSECT", "EXCEPT", "ON",
    "USING", "JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "NATURAL", "AND", "OR", "NOT", "IN", "IS",
    "BETWEEN", "LIKE", "ILIKE", "CASE", "WHEN", "THEN", "ELSE", "END", "AS", "WITH", "DISTINCT", "ALL", "ASC",
    "DESC", "OVER", "FILTER", "QUALIFY", "WINDOW", "TABLESAMPLE", "PIVOT", "UNPIVOT", "LATERAL", "NULLS", "FETCH",
    "FOR", "VALUES", "ASOF", "POSITIONAL", "SEMI", "ANTI", "COLLATE", "ESCAPE", "GLOB", "SIMILAR", "INTO",
    "RETURNING", "SAMPLE",
])  # fmt: skip


class TokenReader:
    """The tokens of one statement, from left to right."""

    def __init__(self, statement: str) -> None:
        self.source = statement
        self.tokens = split_words(statement)
        self.words = [token.word for token in self.tokens]
        self.place = 0
        self.depth = 0

    @property
    def token(self) -> Token:
        """The token that comes next."""
        return self.tokens[self.place]

    def peek(self, ahead: int = 1) -> Token:
        """A token further on."""
        return self.tokens[min(self.place + ahead, len(self.tokens) - 1)]

    def next(self) -> Token:
        """Take the next token."""
        token = self.tokens[self.place]
        self.place += token.kind != "end"
        return token

    def is_sign(self, value: str) -> bool:
        """Tell whether this sign comes next."""
        token = self.tokens[self.place]
        return token.kind == "sign" and token.value == value

    def take_sign(self, value: str) -> bool:
        """Take this sign if it comes next."""
        found = self.is_sign(value)
        self.place += found
        return found

    def take(self, *words: str) -> bool:
        """Take these words if they all come next."""
        here = self.words[self.place : self.place + len(words)]
        if here[0] != words[0] or tuple(here) != words:
            return False
        self.place += len(words)
        return True

    def expect_sign(self, value: str) -> None:
        """Take this sign, which must come next."""
        if not self.take_sign(value):
            raise self.unexpected(value)

    def expect(self, word: str) -> None:
        """Take this word, which must come next."""
        if not self.take(word):
            raise self.unexpected(word)

    def unexpected(self, wanted: str = "") -> ParameterError:
        """The refusal of the token that comes next."""
        token = self.token
        if token.kind == "end":
            return ParameterError("the statement ends too early; {wanted} is missing", wanted=wanted or "SELECT")
        shown = self.source[token.start : token.stop][:40]
        if token.kind == "sign" and shown != token.value:  # a full-width sign, perhaps of a name
            return refuse_sign(self.source, token.start)
        if wanted:
            return ParameterError(
                "{shown} (character {place}) stands where {wanted} was expected, or is no part of the SQL that is"
                " answered",
                shown=shown,
                place=token.start + 1,
                wanted=wanted,
            )
        return refuse(text("{shown} (character {place})", shown=shown, place=token.start + 1))

    def nested(self, read: Callable[[], T]) -> T:
        """Read something one level deeper."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise ParameterError(
                "the statement is nested deeper than {most} levels; ask in several steps", most=DEEPEST
            )
        result = read()
        self.depth -= 1
        return result

    def name(self, wanted: str = "a name") -> str:
        """Read a name."""
        token = self.token
        if token.kind == "quoted" or (token.kind == "name" and token.word not in RESERVED):
            self.place += 1
            return token.value
        raise self.unexpected(wanted)

    def list_of(self, read: Callable[[], T]) -> list[T]:
        """Read things separated by commas."""
        found = [read()]
        while self.take_sign(","):
            found.append(read())
        return found

    def bracketed(self, read: Callable[[], T]) -> list[T]:
        """Read one thing, or several in parentheses."""
        if not self.take_sign("("):
            return [read()]
        found = self.list_of(read)
        self.expect_sign(")")
        return found
