"""Questions in SQL to a stored view, one or a file of them. Imports no more than an answer needs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from sudare.asking.answers import LEVEL, AnswerTable
from sudare.asking.parser import split_statements
from sudare.asking.statement import ask_statement
from sudare.methods.view.opened import open_view
from sudare.releases import Release
from sudare.schema import Schema


def split_questions(statements: str, *, many: bool) -> list[str]:
    """The statements of a text: one, or all that semicolons separate."""
    return split_statements(statements) if many else [statements]


def ask_directory(
    directory: Path, statements: str, *, level: float, many: bool, others: Mapping[str, Path] | None = None
) -> list[tuple[str, AnswerTable]]:
    """Ask a stored view or table one statement of SQL, or every statement of a text.

    `others` are more views, by the names that they are asked by.
    """
    release = Release.load(directory)
    asked = split_questions(statements, many=many)
    if release.certificate.method != "view" and not others:
        opened = open_asked(release)
        return [(statement, opened.sql(statement, level=level)) for statement in asked]
    view = open_view(release)
    opened_views = {release.certificate.to_json(): view}  # a release named twice is one: its errors go together
    views = {view.schema.name: view, "view": view}
    for name, place in (others or {}).items():
        other = Release.load(place)
        known = other.certificate.to_json()
        if known not in opened_views:
            opened_views[known] = open_view(other)
        views[name] = opened_views[known]
    return [(statement, ask_statement(statement, views, level=level)) for statement in asked]


class AskedRelease(Protocol):
    """A release that is open for questions."""

    @property
    def schema(self) -> Schema:
        """The attributes it can be asked about."""

    def sql(self, statement: str, *, level: float = LEVEL) -> AnswerTable:
        """Answer one SELECT."""


def open_asked(release: Release) -> AskedRelease:
    """Open a release for questions in SQL; one that cannot be asked is refused as no view."""
    from sudare.methods.registry import method_of

    opened: AskedRelease = getattr(method_of(release.certificate), "open_release", open_view)(release)
    return opened
