"""`sudare publish METHOD` and `sudare preview METHOD`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from sudare.cli.app import LazyGroup
from sudare.cli.interrupt import held_interrupts
from sudare.cli.terminal import json_option, print_json, progress
from sudare.cli.words import Worded
from sudare.messages import language, say

if TYPE_CHECKING:
    from sudare.run import Published

Command = TypeVar("Command", bound=Callable[..., Any])

publish = LazyGroup(
    "publish",
    help=say(
        "Turn a private table into a release. The spend is recorded first, then noise is drawn, then files appear."
    ),
    places={
        "microdata": (
            "sudare.cli.publish:publish_microdata",
            say("records with the same columns, epsilon-DP"),
        )
    },
)
preview = LazyGroup(
    "preview",
    help=say("Cost and expected error of a release, from the schema alone; nothing is opened or spent."),
    places={
        "microdata": (
            "sudare.cli.publish:preview_microdata",
            say("records with the same columns, epsilon-DP"),
        )
    },
)


def microdata_options(command: Command) -> Command:
    """One flag per field of `Microdata`."""
    for option in reversed(
        (
            click.option("--epsilon", required=True, help=say("privacy budget of this release, exact: 1/2, 0.1")),
            click.option(
                "--neighbours",
                type=click.Choice(["replace", "add-remove"]),
                help=say("what one person may change (default: the ledger's, else replace)"),
            ),
            click.option(
                "--method",
                type=click.Choice(["auto", "projection"]),
                default="auto",
                show_default=True,
                help=say("how the table is made"),
            ),
            click.option("--by", help=say("attributes to publish, with commas (default: all)")),
        )
    ):
        command = option(command)
    return command


def source_options(command: Command) -> Command:
    """Where the rows come from and where the release goes."""
    for option in reversed(
        (
            click.argument("data"),
            click.option(
                "--schema",
                "schema_file",
                required=True,
                type=click.Path(path_type=Path),
                help=say("schema file"),
            ),
            click.option("--out", required=True, type=click.Path(path_type=Path), help=say("directory to make")),
            click.option("--ledger", "ledger_file", type=click.Path(path_type=Path), help=say("ledger to spend from")),
            click.option(
                "--count",
                "count_column",
                help=say("DATA is already aggregated; this column holds the counts"),
            ),
            click.option("--encoding", help=say("encoding of text files, such as cp932 (default: found out)")),
            click.option(
                "--format",
                "file_format",
                type=click.Choice(["parquet", "csv"]),
                default="parquet",
                show_default=True,
                help=say("form of the published tables"),
            ),
            click.option("--memory-limit", help=say("most memory the engine takes, such as 4GB")),
            click.option(
                "--spill-directory",
                type=click.Path(path_type=Path),
                help=say("where the engine spills to disk"),
            ),
            click.option("--seed-for-tests", type=int, help=say("repeatable noise: the release protects nobody")),
            json_option,
        )
    ):
        command = option(command)
    return command


@click.command("microdata", cls=Worded, help=say("Publish records with the same columns as DATA under epsilon-DP."))
@source_options
@microdata_options
def publish_microdata(
    epsilon: str, neighbours: str | None, method: str, by: str | None, as_json: bool, **place: Any
) -> None:
    """Build the method from its flags and run it."""
    with held_interrupts():
        from sudare.run import publish_release

    chosen = _microdata(epsilon, neighbours, method, by)
    with progress(say("counting")) as moved:
        done = publish_release(chosen, progress=moved, **place)
    _tell(done, as_json=as_json)


@click.command("microdata", cls=Worded, help=say("Expected error of a microdata release."))
@click.option("--schema", "schema_file", required=True, type=click.Path(path_type=Path), help=say("schema file"))
@click.option("--rows", type=int, help=say("roughly how many records the table has (a public estimate)"))
@microdata_options
@json_option
def preview_microdata(
    schema_file: Path,
    rows: int | None,
    epsilon: str,
    neighbours: str | None,
    method: str,
    by: str | None,
    as_json: bool,
) -> None:
    """Tell what a run would cost."""
    from sudare.schema import Schema

    chosen = _microdata(epsilon, neighbours, method, by)
    schema = Schema.read(schema_file)
    told = chosen.preview(schema, rows=rows)
    promise = chosen.guarantee(unit=schema.unit)
    if as_json:
        print_json({"guarantee": promise.to_dict(), "expected_error": told.to_dict()})
        return
    click.echo(promise.words())
    for name, value in told.to_dict().items():
        click.echo(f"  {name}: {value}")


def _microdata(epsilon: str, neighbours: str | None, method: str, by: str | None) -> Any:
    from sudare.methods.microdata import Microdata

    names = None if by is None else tuple(name.strip() for name in by.split(","))
    return Microdata(epsilon=epsilon, neighbours=neighbours, method=method, by=names)  # type: ignore[arg-type]


def _tell(done: Published, *, as_json: bool) -> None:
    if as_json:
        print_json(done.to_dict())
        return
    paper = done.certificate
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
