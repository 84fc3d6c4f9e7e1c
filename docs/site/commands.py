"""The reference of the command line, written from the commands themselves: every one of them, as `--help` shows it."""

from __future__ import annotations

import contextlib
import html
import re
from collections.abc import Iterable, Iterator

import click

from sudare.cli.app import app
from sudare.cli.help import WideFormatter

Rows = list[tuple[str, str]]


class Gathered(WideFormatter):
    """A formatter that keeps the sections of a help page instead of printing them."""

    def __init__(self) -> None:
        super().__init__(width=100)
        self.sections: list[tuple[str, Rows]] = []

    @contextlib.contextmanager
    def section(self, name: str) -> Iterator[None]:
        """Begin a section."""
        self.sections.append((name, []))
        yield

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        """Keep the rows of a section."""
        self.sections[-1][1].extend(rows)


def described() -> str:
    """Describe every command as Markdown: a heading, its usage line, its arguments and options."""
    return "\n".join(_pages(app, app.context_class(app, info_name="sudare"), depth=1))


def _pages(command: click.Command, context: click.Context, *, depth: int) -> Iterator[str]:
    if depth > 1:
        yield f"{'#' * depth} `{context.command_path}`\n"
    yield f"{command.help}\n"
    yield from _page(command, context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            yield from _pages(child, child.context_class(child, info_name=name, parent=context), depth=depth + 1)


def _page(command: click.Command, context: click.Context) -> Iterator[str]:
    yield f"```text\n{command.get_usage(context).strip()}\n```\n"
    gathered = Gathered()
    command.format_options(context, gathered)
    for name, rows in gathered.sections:
        told = [row for row in rows if row[0] not in ("--help", "--version")]
        if told:
            yield f"| {name} | |\n|---|---|"
            yield from (f"| <code>{_name(left)}</code> | {_cell(right)} |" for left, right in told)
            yield ""


def _name(text: str) -> str:
    """A name that may break behind a bar, so that long lists of choices fit a narrow page."""
    return html.escape(text).replace("|", "&#124;<wbr>")


def _cell(text: str) -> str:
    return re.sub(r"([|*<\[])", r"\\\1", text)
