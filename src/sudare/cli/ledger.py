"""`sudare ledger create|show|verify`."""

from __future__ import annotations

from pathlib import Path

import click

from sudare.cli.app import LazyGroup
from sudare.cli.help import Worded, option
from sudare.cli.terminal import json_option, print_json, table
from sudare.text import say, text

ledger = LazyGroup(
    "ledger",
    help=text(
        "A ledger keeps the privacy budget of one table. Every spend is recorded exactly, and none is ever refunded."
    ),
    places={
        "create": ("sudare.cli.ledger:create", text("make a ledger with a budget")),
        "show": ("sudare.cli.ledger:show", text("list what was spent and what is left")),
        "verify": ("sudare.cli.ledger:verify", text("check the chain of spends")),
    },
)


@click.command(cls=Worded, help=text("Make a ledger with a budget, which cannot be changed later."))
@click.argument("file", type=click.Path(path_type=Path))
@option(
    "--epsilon",
    required=True,
    metavar="NUMBER",
    help=text("the whole budget of the table, an exact number such as 2, 1/2 or 0.1"),
)
@option(
    "--neighbours",
    type=click.Choice(["replace", "add-remove"]),
    default="replace",
    show_default=True,
    help=text("which tables are neighbours: one person replaced by another, or one person added or removed"),
)
@option("--name", default="", help=text("what the ledger is for"))
def create(file: Path, epsilon: str, neighbours: str, name: str) -> None:
    """Make the file and print its head."""
    from sudare.privacy import Ledger

    with Ledger.create(file, epsilon=epsilon, neighbours=neighbours, name=name) as made:  # type: ignore[arg-type]
        click.echo(
            say(
                "{file}: budget epsilon {budget}, neighbours {relation}",
                file=file,
                budget=made.budget,
                relation=neighbours,
            )
        )
        click.echo(say("head of the ledger: {head} (keep it elsewhere too)", head=made.head))


@click.command(cls=Worded, help=text("List what was spent and what is left."))
@click.argument("file", type=click.Path(path_type=Path))
@json_option
def show(file: Path, as_json: bool) -> None:
    """Print the entries."""
    from sudare.privacy import Ledger

    with Ledger.open(file) as opened:
        spends, unit = opened.entries(), opened.unit
        facts = {
            "name": opened.name,
            "neighbours": opened.neighbours,
            "unit": None if unit is None else unit.describe().render("en"),
            "budget": str(opened.budget),
            "spent": str(opened.spent),
            "left": str(opened.left),
            "head": opened.head,
        }
    if as_json:
        print_json(facts | {"spends": [spend.to_dict() for spend in spends]})
        return
    for line in (
        say("name: {value}", value=facts["name"] or "-"),
        say("neighbours: {value}", value=facts["neighbours"]),
        say("unit: {value}", value="-" if unit is None else unit.describe()),
        say("budget: {value}", value=facts["budget"]),
        say("spent: {value}", value=facts["spent"]),
        say("left: {value}", value=facts["left"]),
        say("head: {value}", value=facts["head"]),
    ):
        click.echo(line)
    if spends:
        table(
            [(str(spend.seq), spend.time, str(spend.epsilon), str(spend.cost), say(spend.purpose)) for spend in spends],
            head=("#", say("time"), "epsilon", say("charged"), say("purpose")),
        )


@click.command(cls=Worded, help=text("Check the chain of spends, and that a head kept elsewhere is in it."))
@click.argument("file", type=click.Path(path_type=Path))
@option("--head", help=text("a head printed earlier or found in a certificate"))
@json_option
def verify(file: Path, head: str | None, as_json: bool) -> None:
    """Recompute everything."""
    from sudare.privacy import Ledger

    with Ledger.open(file) as opened:
        opened.verify(head=head)
        facts = {
            "verified": True,
            "spends": len(opened.entries()),
            "spent": str(opened.spent),
            "head": opened.head,
        }
    if as_json:
        print_json(facts)
        return
    click.echo(
        say(
            "the chain of {spends} spends is complete; {spent} is spent in total",
            spends=facts["spends"],
            spent=facts["spent"],
        )
    )
    click.echo(say("head of the ledger: {head} (keep it elsewhere too)", head=facts["head"]))
