"""`sudare publish METHOD` and `sudare preview METHOD`: the commands, and what they share."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from sudare.cli.app import LazyGroup
from sudare.cli.terminal import held_interrupts, json_option, print_json, progress
from sudare.errors import ParameterError
from sudare.text import language, say

if TYPE_CHECKING:
    from sudare.app import Published, Publisher

Command = TypeVar("Command", bound=Callable[..., Any])

publish = LazyGroup(
    "publish",
    help=say(
        "Turn a private table into a release. The spend is recorded first, then noise is drawn, then files appear."
    ),
    places={
        "microdata": (
            "sudare.cli.microdata:publish_microdata",
            say("records with the same columns (differential privacy)"),
        ),
        "table": (
            "sudare.cli.table:publish_table",
            say("counts and sums over regions, of any size (differential privacy)"),
        ),
        "view": ("sudare.cli.view:publish_view", say("a compact view that answers any count (differential privacy)")),
        "kanon": ("sudare.cli.kanon:publish_kanon_command", say("the table itself, values generalised (k-anonymity)")),
        "location": (
            "sudare.cli.location:publish_location",
            say("a mechanism for devices to report a cell of a map (epsilon per metre)"),
        ),
    },
)
preview = LazyGroup(
    "preview",
    help=say("Cost and expected error of a release, from the schema alone; nothing is opened or spent."),
    places={
        "microdata": (
            "sudare.cli.microdata:preview_microdata",
            say("records with the same columns (differential privacy)"),
        ),
        "table": (
            "sudare.cli.table:preview_table",
            say("counts and sums over regions, of any size (differential privacy)"),
        ),
        "view": ("sudare.cli.view:preview_view", say("a compact view that answers any count (differential privacy)")),
        "kanon": ("sudare.cli.kanon:preview_kanon", say("the table itself, values generalised (k-anonymity)")),
        "location": (
            "sudare.cli.location:preview_location",
            say("a mechanism for devices to report a cell of a map (epsilon per metre)"),
        ),
    },
)


def add_options(command: Command, *options: Callable[[Any], Any]) -> Command:
    """Put options on a command, in the order its help shows them."""
    for option in reversed(options):
        command = option(command)
    return command


def epsilon_options(command: Command) -> Command:
    """What every method under differential privacy takes."""
    return add_options(
        command,
        click.option(
            "--epsilon",
            required=True,
            metavar="NUMBER",
            help=say("how much this release may tell, exactly: 1/2 or 0.1; less protects more"),
        ),
        click.option(
            "--neighbours",
            type=click.Choice(["replace", "add-remove"]),
            help=say(
                "what the promise compares: a person replaced by another, or there and not there"
                " (default: the ledger's, else replace)"
            ),
        ),
        click.option(
            "--by", callback=_names, metavar="NAMES", help=say("attributes to publish, with commas (default: all)")
        ),
    )


def _names(context: click.Context, option: click.Parameter, by: str | None) -> tuple[str, ...] | None:
    return None if by is None else tuple(name.strip() for name in by.split(","))


_FILE = click.Path(path_type=Path)


def source_options(command: Command) -> Command:
    """Where the rows come from and where the release goes."""
    return add_options(
        command,
        click.argument("data"),
        click.option("--schema", "schema_file", required=True, type=_FILE, help=say("schema file")),
        click.option("-o", "--out", required=True, type=_FILE, help=say("directory to make; it must not exist yet")),
        click.option(
            "--ledger", "ledger_file", type=_FILE, help=say("ledger of this table; the spend is recorded there first")
        ),
        click.option(
            "--count",
            "count_column",
            metavar="COLUMN",
            help=say("DATA is already aggregated; this column holds the counts"),
        ),
        click.option("--encoding", help=say("encoding of text files, such as cp932 (default: found out)")),
        click.option(
            "--format",
            "file_format",
            type=click.Choice(["parquet", "csv"]),
            default="parquet",
            show_default=True,
            help=say("file format of the published tables"),
        ),
        *_machine_options(),
        json_option,
    )


def _machine_options() -> tuple[Callable[[Any], Any], ...]:
    """What the run may take of the machine, and a seed for tests."""
    return (
        click.option("--memory-limit", metavar="SIZE", help=say("most memory to count with, such as 4GB")),
        click.option(
            "--spill-directory",
            type=_FILE,
            help=say("directory for temporary files; they hold rows, so take a disk you trust"),
        ),
        click.option(
            "--seed-for-tests", type=int, help=say("for tests: repeatable noise; such a release protects nobody")
        ),
    )


def publish_and_tell(method: Publisher, *, as_json: bool, **place: Any) -> Published:
    """Run a method on the table that the options of `source_options` name, and tell what was done."""
    with held_interrupts():
        import sudare.schema.file  # noqa: F401  (read late, and a half-made model cannot be used)
        from sudare.app import publish_release

    with progress(say("counting")) as moved:
        done = publish_release(method, progress=moved, **place)
    tell(done, as_json=as_json)
    return done


def tell(done: Published, *, as_json: bool) -> None:
    """Print what was published, promised and spent."""
    if as_json:
        print_json(done.to_dict())
        return
    paper = done.certificate
    if paper.method == "table":
        click.echo(say("{rows} rows of counts published in {out}", rows=done.rows, out=done.out))
    elif paper.method == "view":
        click.echo(say("a view of {rows} rows published in {out}", rows=done.rows, out=done.out))
    else:
        click.echo(say("{rows} records published in {out}", rows=done.rows, out=done.out))
    click.echo(say("promise: {statement}", statement=paper.guarantee["statement"][language()]))
    if done.left is None:
        click.echo(say("no ledger was given: nobody keeps the sum of what is spent on this table"))
    else:
        click.echo(
            say("spent epsilon {cost}; {left} of {budget} is left", cost=done.cost, left=done.left, budget=done.budget)
        )
        click.echo(say("head of the ledger: {head} (keep it elsewhere too)", head=paper.ledger_head))
    if not paper.private:
        click.echo(say("NOT PRIVATE: made with a seeded generator, for tests only."))


def estimates(text: str | None) -> tuple[int, ...]:
    """Read `1000` or `1000..100000`; a range is foreseen at its ends and in the middle."""
    if text is None:
        return ()
    ends = [_whole(part) for part in text.split("..")]
    if len(ends) == 1:
        return (ends[0],)
    if len(ends) != 2 or ends[0] > ends[1]:
        raise ParameterError("rows ({rows}) must be a number or a range such as 1000..100000", rows=text)
    return (ends[0], math.isqrt(ends[0] * ends[1]), ends[1])


def _whole(text: str) -> int:
    if not text.strip().isdecimal() or len(text) > 15:
        raise ParameterError("rows ({rows}) must be a number or a range such as 1000..100000", rows=text)
    return int(text)
