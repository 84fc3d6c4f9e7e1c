"""`sudare ledger create|show|verify|migrate`."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sudare.cli.app import LazyGroup
from sudare.cli.help import Worded, option
from sudare.cli.terminal import LEDGER, json_option, print_json, table
from sudare.text import say, text

if TYPE_CHECKING:
    from sudare.privacy import Ledger, Spend

FORMAT = 2  # of ledgers that can be spent from; those before can be read

ledger = LazyGroup(
    "ledger",
    help=text(
        "A ledger keeps the privacy budget of one table. Every spend is recorded exactly, and none is ever refunded."
    ),
    places={
        "create": ("sudare.cli.ledger:create", text("make a ledger with a budget")),
        "show": ("sudare.cli.ledger:show", text("list what was spent and what is left")),
        "verify": ("sudare.cli.ledger:verify", text("check the chain of spends")),
        "migrate": ("sudare.cli.ledger:migrate", text("write a ledger of version 1 as one of this version")),
    },
)


@click.command(
    cls=Worded,
    help=text(
        "Make a ledger with a budget, which cannot be changed later. The budget is --epsilon, or --rho, or --epsilon"
        " with --delta: then it is the largest rho that keeps both."
    ),
)
@click.argument("file", type=LEDGER)
@option(
    "--epsilon",
    metavar="NUMBER",
    help=text("the whole budget of the table, an exact number such as 2, 1/2 or 0.1"),
)
@option(
    "--rho",
    metavar="NUMBER",
    help=text("the whole budget in rho of concentrated privacy, such as 1/10"),
)
@option(
    "--delta",
    metavar="NUMBER",
    help=text("keep the ledger in rho, and tell it as epsilon at this delta, such as 1e-9"),
)
@option(
    "--neighbours",
    type=click.Choice(["replace", "add-remove"]),
    default="replace",
    show_default=True,
    help=text("which tables are neighbours: one person replaced by another, or one person added or removed"),
)
@option("--name", default="", help=text("what the ledger is for"))
def create(
    file: Path | str, epsilon: str | None, rho: str | None, delta: str | None, neighbours: str, name: str
) -> None:
    """Make the ledger and print its head."""
    from sudare.privacy import Ledger

    if (epsilon is None) == (rho is None):
        raise click.UsageError(say("give the budget: --epsilon, or --rho, or --epsilon and --delta"))
    budget: dict[str, Any] = {"epsilon": epsilon, "rho": rho, "delta": delta}
    with Ledger.create(file, **budget, neighbours=neighbours, name=name) as made:  # type: ignore[arg-type]
        click.echo(
            say(
                "{file}: budget {budget}, neighbours {relation}",
                file=made.where,
                budget=made.currency.name_amount(made.budget, delta=made.delta),
                relation=neighbours,
            )
        )
        click.echo(say("head of the ledger: {head} (keep it elsewhere too)", head=made.head))


@click.command(cls=Worded, help=text("List what was spent and what is left."))
@click.argument("file", type=LEDGER)
@json_option
def show(file: Path | str, as_json: bool) -> None:
    """Print the entries."""
    from sudare.privacy import Ledger

    with Ledger.open(file) as opened:
        if as_json:
            print_json(_list_facts(opened))
        else:
            _print_ledger(opened)


def _list_facts(opened: Ledger) -> dict[str, Any]:
    """Give a ledger as plain values; every spend with its release and the certificate that was bound to it."""
    unit, spends = opened.unit, opened.entries()
    return {
        "name": opened.name,
        "version": opened.version,
        "currency": opened.currency.name,
        "delta": None if opened.delta is None else str(opened.delta),
        "neighbours": opened.neighbours,
        "unit": None if unit is None else unit.describe().render("en"),
        "budget": str(opened.budget),
        "spent": str(opened.spent),
        "left": str(opened.left),
        "head": opened.head,
        "spends": [
            {
                "number": number,
                **spend.to_dict(),
                "release": spend.release or None,
                "certificate": opened.certificate_of(spend.release),
            }
            for number, spend in enumerate(spends, 1)
        ],
    }


def _print_ledger(opened: Ledger) -> None:
    """Print what a ledger is, its sums, and its spends; amounts of rho also as epsilon at the delta."""
    from sudare.privacy.exact import write_exact

    unit, spends, has_delta = opened.unit, opened.entries(), opened.currency.has_delta
    spent = sum((spend.cost for spend in spends), Fraction())
    sums = [
        opened.describe(amount) if has_delta else amount for amount in (opened.budget, spent, opened.budget - spent)
    ]
    for line in (
        say("name: {value}", value=opened.name or "-"),
        *([] if opened.version == FORMAT else [_say_old_version(opened)]),
        say("neighbours: {value}", value=opened.neighbours),
        say("unit: {value}", value="-" if unit is None else unit.describe()),
        say("budget: {value}", value=sums[0]),
        say("spent: {value}", value=sums[1]),
        say("left: {value}", value=sums[2]),
        say("head: {value}", value=opened.head),
    ):
        click.echo(line)
    if spends:
        table(
            [
                (str(number), spend.time, _write_amount(spend), write_exact(spend.cost), say(spend.purpose))
                for number, spend in enumerate(spends, 1)  # the chain counts certificates too
            ],
            head=("#", say("time"), say("promised") if has_delta else "epsilon", say("charged"), say("purpose")),
        )


def _write_amount(spend: Spend) -> str:
    """Write what was promised; its currency is named where the ledger is kept in rho and takes both."""
    from sudare.privacy.exact import write_exact

    amount = write_exact(spend.amount)
    return f"{spend.currency.name} {amount}" if spend.charged_in.has_delta else amount


def _say_old_version(opened: Ledger) -> str:
    return say(
        "version: {version}; it can be read, but not spent from: write it as version {current} with `sudare ledger"
        " migrate {file}`",
        version=opened.version,
        current=FORMAT,
        file=opened.where,
    )


@click.command(cls=Worded, help=text("Check the chain of spends, and that a head kept elsewhere is in it."))
@click.argument("file", type=LEDGER)
@option("--head", help=text("a head printed earlier or found in a certificate"))
@json_option
def verify(file: Path | str, head: str | None, as_json: bool) -> None:
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


@click.command(
    cls=Worded,
    help=text(
        "Write a ledger of version 1 as one of this version, wholly or not at all. Every head that a certificate names"
        " stays in its chain."
    ),
)
@click.argument("file", type=LEDGER)
@json_option
def migrate(file: Path | str, as_json: bool) -> None:
    """Rewrite the file, and say what it holds."""
    from sudare.privacy import Ledger

    with Ledger.open(file) as opened:
        before = opened.version
        opened.migrate()
        opened.verify()
        facts = {"from": before, "to": opened.version, "spends": len(opened.entries()), "head": opened.head}
        where = opened.where
    if as_json:
        print_json(facts)
        return
    if before == facts["to"]:
        click.echo(say("{file} is of version {version} already; nothing was changed", file=where, version=before))
        return
    click.echo(
        say(
            "{file} is of version {version} now, with its {spends} spends and every head it had",
            file=where,
            version=facts["to"],
            spends=facts["spends"],
        )
    )
    click.echo(say("head of the ledger: {head} (keep it elsewhere too)", head=facts["head"]))
