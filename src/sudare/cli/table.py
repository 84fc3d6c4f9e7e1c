"""`sudare publish table` and `sudare preview table`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sudare.cli.help import Worded
from sudare.cli.publish import Command, add_options, epsilon_options, estimates, publish_and_tell, source_options
from sudare.cli.terminal import json_option, print_json
from sudare.text import say

if TYPE_CHECKING:
    from sudare.methods.table import Table, TablePreview


def table_options(command: Command) -> Command:
    """One flag per field of `Table`."""
    return add_options(
        command,
        epsilon_options,
        click.option(
            "--algorithm",
            "--method",
            "algorithm",
            type=click.Choice(["tree", "wavelet"]),
            default="tree",
            show_default=True,
            help=say("a tree of sums, or the wavelet of the paper"),
        ),
        click.option(
            "--focus",
            type=click.Choice(["cells", "regions", "both"]),
            default="regions",
            show_default=True,
            help=say("what should come nearest to the truth: single cells, sums over regions, or both"),
        ),
    )


@click.command("table", cls=Worded, help=say("Publish counts of DATA over all cells, with sums over regions."))
@source_options
@table_options
def publish_table(
    epsilon: str,
    neighbours: str | None,
    algorithm: str,
    focus: str,
    by: tuple[str, ...] | None,
    as_json: bool,
    **place: Any,
) -> None:
    """Build the method from its flags and run it."""
    chosen = _table(epsilon=epsilon, neighbours=neighbours, algorithm=algorithm, focus=focus, by=by)
    publish_and_tell(chosen, as_json=as_json, **place)


@click.command(
    "table", cls=Worded, help=say("Tell the expected error of cells and regions of a table, from the schema alone.")
)
@click.option("--schema", "schema_file", required=True, type=click.Path(path_type=Path), help=say("schema file"))
@click.option("--rows", help=say("roughly how many records the table has, or a range such as 1000..100000"))
@table_options
@json_option
def preview_table(schema_file: Path, rows: str | None, as_json: bool, **fields: Any) -> None:
    """Tell what a run would cost."""
    from sudare.schema import Schema

    chosen = _table(**fields)
    schema = Schema.read(schema_file)
    told = chosen.preview(schema, rows=estimates(rows))
    promise = chosen.guarantee(unit=schema.unit)
    if as_json:
        print_json({"guarantee": promise.to_dict(), "expected_error": told.to_dict(), "advice": told.advice()})
        return
    click.echo(promise.describe())
    _tell_preview(told)


def _tell_preview(told: TablePreview) -> None:
    click.echo(say("possible cells: {cells}", cells=told.cells))
    click.echo(
        say("number of records: standard deviation {deviation}", deviation=f"{told.total_standard_deviation:.2f}")
    )
    for cells, deviation in told.regions:
        off = f"{deviation:.1f}"
        click.echo(
            say("a single cell: standard deviation {deviation}", deviation=off)
            if cells == 1
            else say("a region of {cells} cells: standard deviation {deviation}", cells=cells, deviation=off)
        )
    for one in told.trials:
        click.echo(
            say(
                "a trial with {rows} made-up records in {filled} cells: {published} cells published, {noise} of which"
                " hold nobody in truth ({records} records); large cells off by {bias} in the mean",
                rows=one.rows,
                filled=one.filled_cells,
                published=one.published_cells,
                noise=one.noise_cells,
                records=one.noise_records,
                bias=f"{one.bias_of_large:+.1f}",
            )
        )
    advice = told.advice()
    if advice is not None:
        click.echo(say("advice: {advice}", advice=advice))


def _table(**fields: Any) -> Table:
    from sudare.methods.table import Table

    return Table(**fields)
