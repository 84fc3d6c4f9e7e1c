"""Printing for people and for programs, and progress on a terminal."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import click

from sudare.cli.help import option
from sudare.text import text

Progress = Callable[[float], None]

json_option = option("--json", "as_json", is_flag=True, help=text("print JSON, for programs"))


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


def table(rows: Sequence[tuple[str, ...]], *, head: tuple[str, ...]) -> None:
    """Columns that line up, wide characters counted as two."""
    from rich.console import Console
    from rich.table import Table

    drawn = Table(*head, box=None, pad_edge=False)
    for row in rows:
        drawn.add_row(*row)
    Console(file=sys.stdout, highlight=False, markup=False).print(drawn)
