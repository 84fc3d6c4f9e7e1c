"""Questions in SQL to a stored view, one or a file of them. Imports no more than an answer needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Protocol

from sudare.asking.answers import LEVEL, AnswerTable
from sudare.asking.parser import split_statements
from sudare.asking.protocol import Answerer
from sudare.asking.statement import ask_statement
from sudare.errors import ParameterError, ReleaseError, SchemaError
from sudare.methods.view.opened import open_view
from sudare.releases import Release


def split_questions(statements: str, *, many: bool) -> list[str]:
    """The statements of a text: one, or all that semicolons separate."""
    return split_statements(statements) if many else [statements]


def ask_directory(
    directory: Path, statements: str, *, level: float, many: bool, others: Mapping[str, Path] | None = None
) -> list[tuple[str, AnswerTable]]:
    """Ask a stored view, table or records one statement of SQL, or every statement of a text.

    `others` are more releases, by the names that they are asked by.
    """
    release = Release.load(directory)
    asked = split_questions(statements, many=many)
    if not others:
        ask = partial(open_asked(release).sql, level=level)
    else:
        ask = partial(ask_statement, releases=_open_sources(release, others), level=level)
    return [
        (statement, _ask_numbered(ask, statement, number, len(asked)))
        for number, statement in enumerate(asked, start=1)
    ]


def _ask_numbered(ask: Callable[[str], AnswerTable], statement: str, number: int, count: int) -> AnswerTable:
    """Ask one of several statements; a refusal says which of them it is about."""
    try:
        return ask(statement)
    except (ParameterError, SchemaError) as error:
        if count == 1:
            raise
        raise ParameterError(
            "statement {number} of {count}: {reason}", number=number, count=count, reason=error.text
        ) from error


def _open_sources(release: Release, others: Mapping[str, Path]) -> dict[str, AskedRelease]:
    """The releases of a statement by their names; one that is named twice is one: its errors go together."""
    first = open_asked(release)
    opened = {release.certificate.to_json(): first}
    sources = {first.schema.name: first, find_asked_name(release.certificate.method): first}
    for name, place in others.items():
        other = Release.load(place)
        known = other.certificate.to_json()
        if known not in opened:
            opened[known] = open_asked(other)
        sources[name] = opened[known]
    return sources


def find_asked_name(method: str) -> str:
    """The name in FROM by which a release of a method is asked."""
    from sudare.methods.registry import find_method

    return find_method(method).asked_as


class AskedRelease(Answerer, Protocol):
    """A release that is open for questions."""

    def sql(self, statement: str, *, level: float = LEVEL) -> AnswerTable:
        """Answer one SELECT."""


def open_asked(release: Release) -> AskedRelease:
    """Open a release for questions in SQL; one that cannot be asked is refused as no view."""
    if release.certificate.method == "view":  # the class that makes views is not needed to ask one
        return open_view(release)
    from sudare.methods.registry import method_of

    opener = getattr(method_of(release.certificate), "open_release", None)
    if opener is None and "records" in release.frames:
        raise ReleaseError(
            "a release made by {method} holds no noisy counts to ask; --records asks its records, without intervals",
            method=release.certificate.method,
        )
    opened: AskedRelease = (opener or open_view)(release)
    return opened
