"""`sudare lattice`: the ways to generalise a table, with a picture; `sudare utility`: what a release is good for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from sudare.cli.help import Worded, option
from sudare.cli.terminal import check_page_name, json_option, print_json, print_lines
from sudare.text import say, text

PATH = click.Path(path_type=Path)


@click.command(
    "lattice",
    cls=Worded,
    help=text(
        "Show the steward the ways to generalise DATA: what every level costs and what is proven. Nothing is published."
    ),
)
@click.argument("data", metavar="DATA")
@option("--schema", "schema_file", required=True, type=PATH, help=text("schema file"))
@option("--k", type=int, required=True, help=text("at least so many rows share every published combination"))
@option(
    "--max-suppressed",
    default="0",
    metavar="SHARE",
    help=text("share of the rows that may be left out, such as 0.05"),
)
@option("--criteria", multiple=True, metavar="TEXT", help=text("criteria besides k, as for publish kanon"))
@option("--quality", default="loss", help=text("the measure of loss by which levels are compared"))
@option("--weights", metavar="NAMES", help=text("how much the detail of an attribute matters, as for publish kanon"))
@option("--quasi", metavar="NAMES", help=text('quasi-identifiers, separated by commas (default: role = "quasi")'))
@option("--register", "register_file", type=PATH, help=text("a table of the population, one row for each person"))
@option(
    "--task",
    metavar="COLUMN",
    help=text("also tell how well a classifier predicts this column from the quasi-identifiers"),
)
@option("--deadline-seconds", type=float, help=text("stop after so many seconds, and say what is not settled"))
@option("--encoding", help=text("encoding of text files, such as cp932 (default: detected)"))
@option("-o", "--out", type=PATH, help=text("also write a page with pictures to this HTML file"))
@json_option
def lattice(
    data: str,
    schema_file: Path,
    register_file: Path | None,
    task: str | None,
    encoding: str | None,
    out: Path | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Measure, print, and write the page."""
    from sudare.methods.kanon import KAnonymity
    from sudare.requests.choices import list_choices, write_choices
    from sudare.schema import Schema

    if out is not None:
        check_page_name(out)
    schema = Schema.read(schema_file)
    names = {name: value for name in ("quasi", "weights") if (value := given.pop(name)) is not None}
    method = KAnonymity(**given, **names)
    choices = list_choices(data, schema, method, task=task, register_file=register_file, encoding=encoding)
    if out is not None:
        write_choices(choices, schema, out)
    if as_json:
        print_json(choices.to_dict())
        return
    print_lines(choices.lines())
    if out is not None:
        click.echo(say("page written to {out}", out=out))
        click.echo(say("NOT FOR PUBLICATION: the page shows the true table."))


@click.command(
    "utility",
    cls=Worded,
    help=text(
        "Tell the steward how well a classifier predicts a column from the k-anonymous release in DIR, and from the"
        " table it was made of."
    ),
)
@click.argument("directory", type=PATH, metavar="DIR")
@option("--truth", required=True, help=text("the table that was published"))
@option("--schema", "schema_file", required=True, type=PATH, help=text("schema file of the true table"))
@option("--task", required=True, metavar="COLUMN", help=text("the column to be predicted from the others"))
@option("--encoding", help=text("encoding of text files, such as cp932 (default: detected)"))
@json_option
def utility(directory: Path, truth: str, schema_file: Path, task: str, encoding: str | None, as_json: bool) -> None:
    """Train on both, and tell."""
    from sudare.requests.choices import compare_task
    from sudare.schema import Schema

    compared = compare_task(directory, truth, Schema.read(schema_file), task=task, encoding=encoding)
    if as_json:
        print_json(compared.to_dict())
        return
    print_lines(compared.lines())
