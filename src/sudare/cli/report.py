"""`sudare report DIR`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from sudare.cli.interrupt import held_interrupts
from sudare.cli.terminal import progress
from sudare.cli.words import Worded
from sudare.messages import say


@click.command(
    cls=Worded,
    help=say(
        "Write one page about the release in DIR: certificate, pictures, tables. With --truth, for the steward only."
    ),
)
@click.argument("directory", type=click.Path(path_type=Path), metavar="DIR")
@click.option("-o", "--out", type=click.Path(path_type=Path), default=Path("report.html"), show_default=True,
              help=say("HTML file to make"))  # fmt: skip
@click.option("--truth", help=say("the table that was published: the page compares, and is not for publication"))
@click.option(
    "--schema",
    "schema_file",
    type=click.Path(path_type=Path),
    help=say("schema file of the true table (default: the schema in the certificate)"),
)
@click.option("--count", "count_column", help=say("DATA is already aggregated; this column holds the counts"))
@click.option("--encoding", help=say("encoding of text files, such as cp932 (default: found out)"))
def report(directory: Path, out: Path, truth: str | None, **reading: Any) -> None:
    """Write the page and tell where it is."""
    with held_interrupts():
        from sudare.run.report import write_report

    with progress(say("drawing")) as moved:
        write_report(directory, out, truth=truth, progress=moved, **reading)
    click.echo(say("report written to {out}", out=out))
    if truth is not None:
        click.echo(say("NOT FOR PUBLICATION: the page shows the true table."))
