"""Holding Ctrl-C back where it would crash instead of stop: while native packages load."""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any

import click

from sudare.cli.help import option
from sudare.text import text


@contextlib.contextmanager
def held_interrupts() -> Iterator[None]:
    """Let an interrupt wait until the block is done; a half-loaded native module aborts the process otherwise.

    >>> with held_interrupts():
    ...     import json
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    noted: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: noted.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if noted:
        raise KeyboardInterrupt


@contextlib.contextmanager
def noted_interrupts() -> Iterator[list[int]]:
    """Note every interrupt: native code that is struck by one may raise an error of its own instead.

    >>> with noted_interrupts() as noted:
    ...     noted
    []
    """
    noted: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield noted
        return

    def note(number: int, frame: FrameType | None) -> None:
        noted.append(number)
        signal.default_int_handler(number, frame)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield noted
    finally:
        signal.signal(signal.SIGINT, before)


# Printing for people and for programs, and progress on a terminal.


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
