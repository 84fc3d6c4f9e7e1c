"""`sudare publish microdata` and `sudare preview microdata`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sudare.cli.help import Worded
from sudare.cli.publish import Command, add_options, epsilon_options, estimates, publish_and_tell, source_options
from sudare.cli.terminal import json_option, print_json
from sudare.text import say

if TYPE_CHECKING:
    from sudare.app import Published
    from sudare.methods.microdata import Microdata, MicrodataPreview

THIN = 5  # cells a record; on Adult at epsilon 1 the tables of one to six attributes were better in a view from 7 on


def microdata_options(command: Command) -> Command:
    """One flag per field of `Microdata`."""
    return add_options(
        command,
        epsilon_options,
        click.option(
            "--algorithm",
            "--method",
            "algorithm",
            type=click.Choice(["auto", "tree", "projection"]),
            default="auto",
            show_default=True,
            help=say("how noisy counts are made valid; auto decides by schema and epsilon"),
        ),
        click.option(
            "--values",
            type=click.Choice(["labels", "inside"]),
            default="labels",
            show_default=True,
            help=say("numbers and dates as labels of their bins, or as values drawn inside them"),
        ),
    )


@click.command(
    "microdata",
    cls=Worded,
    help=say("Publish records with the same columns as DATA, under epsilon-differential privacy."),
)
@source_options
@microdata_options
def publish_microdata(
    epsilon: str,
    neighbours: str | None,
    algorithm: str,
    by: tuple[str, ...] | None,
    values: str,
    as_json: bool,
    **place: Any,
) -> None:
    """Build the method from its flags and run it."""
    chosen = _microdata(epsilon=epsilon, neighbours=neighbours, algorithm=algorithm, by=by, values=values)
    done = publish_and_tell(chosen, as_json=as_json, **place)
    if not as_json:
        _tell_thin(done, place["schema_file"])


@click.command(
    "microdata", cls=Worded, help=say("Tell the expected error of a microdata release, from the schema alone.")
)
@click.option("--schema", "schema_file", required=True, type=click.Path(path_type=Path), help=say("schema file"))
@click.option("--rows", help=say("roughly how many records the table has, or a range such as 1000..100000"))
@microdata_options
@json_option
def preview_microdata(schema_file: Path, rows: str | None, as_json: bool, **fields: Any) -> None:
    """Tell what a run would cost."""
    from sudare.schema import Schema

    chosen = _microdata(**fields)
    schema = Schema.read(schema_file)
    told = chosen.preview(schema, rows=estimates(rows))
    promise = chosen.guarantee(unit=schema.unit)
    if as_json:
        print_json({"guarantee": promise.to_dict(), "expected_error": told.to_dict(), "advice": told.advice()})
        return
    click.echo(promise.describe())
    _tell_preview(told)


def _tell_thin(done: Published, schema_file: Path) -> None:
    """Say so when a view would have served better; all three numbers are public by now."""
    cells, records = done.certificate.expected_error["cells"], done.rows
    if cells > THIN * records:
        click.echo(
            say(
                "{cells} possible cells for {records} records: combinations of attributes are mostly noise;"
                " `sudare preview microdata --schema {schema} --epsilon {epsilon} --rows {records}` tells more, and"
                " records drawn from a view keep more",
                cells=cells,
                records=records,
                schema=schema_file,
                epsilon=done.certificate.parameters["epsilon"],
            )
        )


def _tell_preview(told: MicrodataPreview) -> None:
    click.echo(say("possible cells: {cells}", cells=told.cells))
    click.echo(say("noise of a cell: standard deviation {deviation}", deviation=f"{told.cell_standard_deviation:.2f}"))
    click.echo(
        say("number of records: standard deviation {deviation}", deviation=f"{told.total_standard_deviation:.2f}")
    )
    for one in told.outlooks:
        click.echo(
            say(
                "a usual table of {rows} records, a few full cells and a long tail: distance to the truth (L2)"
                " about {l2}, {share} of the published records where nobody is",
                rows=one.rows,
                l2=f"{one.l2:.0f}",
                share=f"{one.empty_share:.1%}",
            )
        )
    advice = told.advice()
    if advice is not None:
        click.echo(say("advice: {advice}", advice=advice))


def _microdata(**fields: Any) -> Microdata:
    from sudare.methods.microdata import Microdata

    return Microdata(**fields)
