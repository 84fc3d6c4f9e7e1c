"""`sudare risk`: which columns identify persons, and how easily, for the steward."""

from __future__ import annotations

from pathlib import Path

import click

from sudare.cli.help import Worded, option
from sudare.cli.terminal import json_option, print_json, print_lines
from sudare.text import text

PATH = click.Path(path_type=Path)


@click.command(
    "risk",
    cls=Worded,
    help=text("Tell the steward which columns of DATA identify persons, and how easily; none of it may be published."),
)
@click.argument("data", metavar="DATA")
@option("--schema", "schema_file", required=True, type=PATH, help=text("schema file"))
@option("--quasi", metavar="NAMES", help=text('quasi-identifiers, separated by commas (default: role = "quasi")'))
@option("--register", "register_file", type=PATH, help=text("a table of the population, one row for each person"))
@option("--fraction", type=float, help=text("the share of the population that the table is a sample of, such as 0.1"))
@json_option
def risk(
    data: str, schema_file: Path, quasi: str | None, register_file: Path | None, fraction: float | None, as_json: bool
) -> None:
    """Count and tell."""
    from sudare.requests.risk import measure_identity
    from sudare.schema import Schema

    report = measure_identity(
        data,
        Schema.read(schema_file),
        quasi=None if quasi is None else tuple(name.strip() for name in quasi.split(",")),
        register_file=register_file,
        fraction=fraction,
    )
    if as_json:
        print_json(report.to_dict())
        return
    print_lines(report.lines())
