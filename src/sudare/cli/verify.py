"""`sudare verify [DIR]`."""

from __future__ import annotations

from pathlib import Path

import click

from sudare.cli.interrupt import held_interrupts
from sudare.cli.terminal import json_option, print_json, progress
from sudare.cli.words import Worded
from sudare.errors import ReleaseError
from sudare.messages import render, say


@click.command(
    cls=Worded,
    help=say("Check a stored release in DIR; without DIR, check the noise of this installation (about a minute)."),
)
@click.argument("directory", required=False, type=click.Path(path_type=Path), metavar="[DIR]")
@click.option(
    "--ledger",
    "ledger_file",
    type=click.Path(path_type=Path),
    help=say("check that this ledger holds the spend"),
)
@json_option
def verify(directory: Path | None, ledger_file: Path | None, as_json: bool) -> None:
    """Run the checks and print each with what it showed."""
    if directory is None and ledger_file is not None:
        raise click.UsageError(say("--ledger goes with a release directory"), click.get_current_context())
    with held_interrupts():
        from sudare.run.verify import verify_installation, verify_release

    with progress(say("checking")) as moved:
        checks = (
            verify_installation(progress=moved)
            if directory is None
            else verify_release(directory, ledger_file=ledger_file)
        )
    if as_json:
        print_json(
            [{"name": one.name, "passed": one.passed, "detail": one.detail, "values": one.values} for one in checks]
        )
    else:
        for one in checks:
            mark = say("ok") if one.passed else say("FAILED")
            click.echo(f"{mark}  {say(one.name)}: {render(one.detail, one.values)}")
    if not all(one.passed for one in checks):
        raise ReleaseError("a check failed; publish nothing with this installation or from this directory")
