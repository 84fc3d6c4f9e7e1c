"""`sudare sample DIR -n N`: records from a view."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from sudare.cli.interrupt import held_interrupts
from sudare.cli.terminal import progress
from sudare.cli.words import Worded
from sudare.messages import say


@click.command("sample", cls=Worded, help=say("Draw records from the view in DIR, as CSV; costs no privacy."))
@click.argument("directory", type=click.Path(path_type=Path), metavar="DIR")
@click.option("-n", "size", required=True, type=int, help=say("how many records"))
@click.option("-o", "--out", type=click.Path(path_type=Path), help=say("CSV file to make (default: standard output)"))
@click.option("--seed-for-tests", type=int, help=say("repeatable records"))
def sample(directory: Path, size: int, out: Path | None, seed_for_tests: int | None) -> None:
    """Stream records to a file or to standard output."""
    with held_interrupts():
        from sudare.run.view import write_sample

    if out is None:
        write_sample(directory, size, sys.stdout, seed=seed_for_tests)
        return
    with progress(say("drawing")) as moved:
        write_sample(directory, size, out, seed=seed_for_tests, progress=moved)
    click.echo(say("{rows} records written to {out}", rows=size, out=out))
