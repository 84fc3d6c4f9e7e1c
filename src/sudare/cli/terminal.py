"""Printing for people and for programs, and progress on a terminal."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sudare.cli.help import WordedOption, option
from sudare.text import Readable, Words, text

if TYPE_CHECKING:
    from sudare.report.shapes import Listing

Progress = Callable[[float], None]

JSON_HELP = text("print JSON, for programs")
json_option = option("--json", "as_json", is_flag=True, help=JSON_HELP)


def json_parameter() -> click.Option:
    """Give the option of commands that are built, not decorated."""
    return WordedOption(["--json", "as_json"], is_flag=True, help=JSON_HELP)


def print_json(value: Any) -> None:
    """One JSON document on standard output."""
    click.echo(json.dumps(value, ensure_ascii=False, indent=2))


@contextlib.contextmanager
def progress(text: str) -> Iterator[Progress | None]:
    """Show a bar while long work runs, on standard error and only on a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(text, total=1.0)
        yield lambda share: bars.update(task, completed=share)


def print_lines(lines: Iterable[Words | Listing]) -> None:
    """Print texts one a line, and tables with their columns lined up."""
    for line in lines:
        if isinstance(line, str | Readable):
            click.echo(str(line))
        else:
            table(line.rows, head=line.head)


def table(rows: Sequence[tuple[Words, ...]], *, head: tuple[Words, ...]) -> None:
    """Print columns that line up, wide characters counted as two."""
    from rich.console import Console
    from rich.table import Table

    drawn = Table(*map(str, head), box=None, pad_edge=False)
    for row in rows:
        drawn.add_row(*map(str, row))
    Console(file=sys.stdout, highlight=False, markup=False).print(drawn)


class LedgerPlace(click.ParamType):  # type: ignore[type-arg]
    """A file, or the address of a server, which a path would garble."""

    name = "path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Keep an address as it is."""
        from sudare.privacy.address import is_server_address

        return value if isinstance(value, Path) or is_server_address(value) else Path(value)


LEDGER = LedgerPlace()
