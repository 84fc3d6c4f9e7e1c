"""`sudare query DIR "SELECT ..."`: a view answers, each number with its interval."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from sudare.cli.interrupt import held_interrupts
from sudare.cli.terminal import json_option, print_json, table
from sudare.cli.words import Worded
from sudare.errors import ParameterError
from sudare.messages import say

if TYPE_CHECKING:
    from sudare.methods.view.answers import Answer
    from sudare.methods.view.opened import Table


@click.command(
    "query", cls=Worded, help=say("Ask the view in DIR: COUNT, SUM, AVG with WHERE and GROUP BY, FROM view.")
)
@click.argument("directory", type=click.Path(path_type=Path), metavar="DIR")
@click.argument("sql", required=False)
@click.option("--file", "file", type=click.Path(path_type=Path), help=say("statements, separated by semicolons"))
@click.option("--level", type=float, default=0.95, show_default=True, help=say("level of the intervals"))
@json_option
def query(directory: Path, sql: str | None, file: Path | None, level: float, as_json: bool) -> None:
    """Answer one statement, or those of a file."""
    with held_interrupts():
        from sudare.run.view import ask

    if (sql is None) == (file is None):
        raise click.UsageError(say("give either a statement or --file"), click.get_current_context())
    try:
        text = sql if file is None else file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise ParameterError("{file} cannot be read as text", file=file) from None
    answered = ask(directory, text or "", level=level, many=file is not None)
    if as_json:
        print_json([found.to_dict(statement) for statement, found in answered])
        return
    for statement, found in answered:
        if file is not None:
            click.echo(statement)
        _show(found)


def _show(found: Table) -> None:
    table([tuple(_text(cell) for cell in row) for row in found.rows], head=found.columns)
    click.echo(
        say(
            "intervals of level {level}: the part of the noise is exact, that of the model is estimated",
            level=found.level,
        )
    )


def _text(cell: str | Answer | None) -> str:
    if cell is None or isinstance(cell, str):
        return "" if cell is None else cell
    return f"{_number(cell.value)} [{_number(cell.low)}, {_number(cell.high)}]"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.1f}"
