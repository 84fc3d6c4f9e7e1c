"""`sudare demo`."""

from __future__ import annotations

from pathlib import Path

import click

from sudare.cli.interrupt import held_interrupts
from sudare.cli.terminal import table
from sudare.cli.words import Worded
from sudare.messages import render, say


def _say_step(text: str, /, **values: object) -> None:
    click.echo(render(text, values))


@click.command(cls=Worded, help=say("Do the main job on built-in data: schema, ledger and all five kinds of release."))
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("demo"),
    show_default=True,
    help=say("directory to make"),
)
def demo(out: Path) -> None:
    """Run the demo and tell what happened, step by step."""
    with held_interrupts():
        from sudare.run.demo import run_demo

    told = run_demo(out, say_step=_say_step)
    click.echo("")
    click.echo(say("NOT FOR PUBLICATION: the truth beside the release, for the steward's eyes only."))
    table(told.comparison, head=(say("item"), say("true records"), say("published records")))
    click.echo(say("L2 distance {l2}, KS distance {ks} of all records", l2=f"{told.l2:.0f}", ks=f"{told.ks:.2%}"))
    click.echo("")
    click.echo(
        say(
            "Next: open {out}/microdata.html, and try `sudare schema init` on a table of your own.",
            out=out,
        )
    )
