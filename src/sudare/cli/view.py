"""`sudare publish view` and `sudare preview view`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sudare.cli.help import Worded
from sudare.cli.publish import Command, add_options, epsilon_options, publish_and_tell, source_options
from sudare.cli.terminal import json_option, print_json
from sudare.text import say

if TYPE_CHECKING:
    from sudare.methods.view import View


def view_options(command: Command) -> Command:
    """One flag per field of `View`."""
    return add_options(
        command,
        epsilon_options,
        click.option(
            "--algorithm",
            "--method",
            "algorithm",
            type=click.Choice(["model", "mondrian", "hdpview", "product"]),
            default="model",
            show_default=True,
            help=say("how the view is made"),
        ),
        click.option(
            "--score",
            type=click.Choice(["error", "spread"]),
            default="error",
            show_default=True,
            help=say("how cuts of blocks are judged (mondrian, hdpview)"),
        ),
    )


@click.command("view", cls=Worded, help=say("Publish a compact view of DATA that answers any count, under epsilon-DP."))
@source_options
@view_options
def publish_view(
    epsilon: str,
    neighbours: str | None,
    algorithm: str,
    by: tuple[str, ...] | None,
    score: str,
    as_json: bool,
    **place: Any,
) -> None:
    """Build the method from its flags and run it."""
    chosen = _view(epsilon=epsilon, neighbours=neighbours, algorithm=algorithm, by=by, score=score)
    publish_and_tell(chosen, as_json=as_json, **place)


@click.command("view", cls=Worded, help=say("Noise of a view, from the schema alone."))
@click.option("--schema", "schema_file", required=True, type=click.Path(path_type=Path), help=say("schema file"))
@click.option("--rows", type=int, help=say("roughly how many records the table has"))
@view_options
@json_option
def preview_view(schema_file: Path, rows: int | None, as_json: bool, **fields: Any) -> None:
    """Tell what a run would cost."""
    from sudare.schema import Schema

    chosen = _view(**fields)
    schema = Schema.read(schema_file)
    told = chosen.preview(schema, rows=rows)
    promise = chosen.guarantee(unit=schema.unit)
    if as_json:
        print_json({"guarantee": promise.to_dict(), "expected_error": told.to_dict()})
        return
    click.echo(promise.describe())
    click.echo(say("possible cells: {cells}", cells=told.cells))
    if told.block_standard_deviation is not None:
        deviation = f"{told.block_standard_deviation:.2f}"
        click.echo(say("noise of a block at the least: standard deviation {deviation}", deviation=deviation))
    for name, value in told.value_standard_deviation.items():
        click.echo(
            say("noise of a value of {name}: standard deviation {deviation}", name=name, deviation=f"{value:.2f}")
        )
    if told.measures_pairs is True:
        click.echo(say("pairs of attributes are measured over about {bins} bins each", bins=told.bins))
    elif told.measures_pairs is False:
        click.echo(
            say("attributes are taken as independent: with so few records no pair pays; spend more, or use fewer")
        )


def _view(**fields: Any) -> View:
    from sudare.methods.view import View

    return View(**fields)
