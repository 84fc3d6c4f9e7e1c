"""Printing for people and for programs, and progress on a terminal."""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sudare.cli.help import WordedOption, option, show_signs, width
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


def check_page_name(out: Path) -> None:
    """Refuse a file for a page that exists, or whose ending says that it is something else."""
    from sudare.atomic import check_new_file
    from sudare.errors import ParameterError

    check_new_file(out)
    if out.suffix.lower() not in (".html", ".htm"):
        raise ParameterError("{out} is to hold a page in HTML; choose a name that ends in .html", out=out)


def print_lines(lines: Iterable[Words | Listing]) -> None:
    """Print texts one a line, and tables with their columns lined up."""
    for line in lines:
        if isinstance(line, str | Readable):
            click.echo(show_signs(str(line), lines=True))
        else:
            table(line.rows, head=line.head)


def table(rows: Sequence[tuple[Words, ...]], *, head: tuple[Words, ...]) -> None:
    """Print columns that line up, wide characters counted as two; what is too wide for the terminal is broken."""
    lines = [tuple(show_signs(str(cell)) for cell in row) for row in (head, *rows)]
    sizes = [max(map(width, column)) for column in zip(*lines, strict=True)]
    is_plain = all(_is_plain(cell) for line in lines for cell in line)
    if not is_plain or sum(sizes) + 2 * (len(sizes) - 1) > shutil.get_terminal_size().columns:
        _print_broken(lines)
        return
    for place, line in enumerate(lines):
        padded = "  ".join(cell + " " * (size - width(cell)) for cell, size in zip(line, sizes, strict=True))
        click.echo(padded if place else click.style(padded, bold=True))


def _is_plain(cell: str) -> bool:
    """Tell whether every sign of a cell is known to be one or two columns wide."""
    return (cell.isascii() and cell.isprintable()) or all(
        letter.isprintable() and (ord(letter) < 0x300 or unicodedata.east_asian_width(letter) in "WF")
        and ord(letter) < 0x10000 and not unicodedata.combining(letter)
        for letter in cell
    )  # fmt: skip


def _print_broken(lines: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table

    drawn = Table(*lines[0], box=None, pad_edge=False)
    for line in lines[1:]:
        drawn.add_row(*line)
    Console(file=sys.stdout, highlight=False, markup=False, emoji=False).print(drawn)


class LedgerPlace(click.ParamType):  # type: ignore[type-arg]
    """A file, or the address of a server, which a path would garble."""

    name = "path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Keep an address as it is."""
        from sudare.privacy.address import is_server_address

        return value if isinstance(value, Path) or is_server_address(value) else Path(value)


LEDGER = LedgerPlace()
