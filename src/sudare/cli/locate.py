"""`sudare locate draw` and `sudare locate estimate`: reports of devices, and what a collector learns from them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from sudare.cli.app import LazyGroup
from sudare.cli.help import Worded
from sudare.cli.terminal import held_interrupts, json_option, print_json
from sudare.text import say

if TYPE_CHECKING:
    from sudare.methods.location.reports import Estimated

SHOWN = 10  # regions on the terminal; all are in regions.csv

locate = LazyGroup(
    "locate",
    help=say("Draw reports of places as devices do, and estimate from the reports of many where people are."),
    places={
        "draw": ("sudare.cli.locate:draw", say("draw the report of one person, or of many for a trial")),
        "estimate": ("sudare.cli.locate:estimate", say("people per cell and region, with intervals, from reports")),
    },
)

artefact_option = click.option(
    "--artefact",
    required=True,
    type=click.Path(path_type=Path),
    help=say("directory of a location release, or its mechanism.json"),
)


@click.command("draw", cls=Worded, help=say("Draw the report of one person, with the randomness of this machine."))
@artefact_option
@click.option("--cell", help=say("where the person is: number or label of a cell"))
@click.option("--latitude", type=float, help=say("where the person is, in degrees (maps of kind mesh)"))
@click.option("--longitude", type=float, help=say("where the person is, in degrees (maps of kind mesh)"))
@click.option(
    "--state",
    type=click.Path(path_type=Path),
    help=say("file that remembers the answers of the day and keeps to its budget"),
)
@click.option("--day", metavar="DAY", help=say("the day of the report, like 2026-11-16 (default: today, UTC)"))
@click.option("--cells", type=click.Path(path_type=Path), help=say("draw one report for every line of this CSV"))
@click.option("-o", "--out", type=click.Path(path_type=Path), help=say("file for the reports of --cells"))
@click.option("--seed-for-tests", type=int, help=say("for tests: repeatable noise; such a release protects nobody"))
def draw(
    artefact: Path,
    cell: str | None,
    latitude: float | None,
    longitude: float | None,
    state: Path | None,
    day: str | None,
    cells: Path | None,
    out: Path | None,
    seed_for_tests: int | None,
) -> None:
    """Draw and print one report as JSON, or write many."""
    if (cells is None) != (out is None):
        raise click.UsageError(say("--cells and --out go together"), click.get_current_context())
    if (latitude is None) != (longitude is None):
        raise click.UsageError(say("--latitude and --longitude go together"), click.get_current_context())
    with held_interrupts():
        from sudare.methods.location.reports import draw_many, draw_one

    if cells is not None and out is not None:
        drawn = draw_many(artefact, cells, out=out, seed_for_tests=seed_for_tests)
        click.echo(say("{reports} reports written to {out}", reports=drawn, out=out))
        return
    place = None if latitude is None or longitude is None else (latitude, longitude)
    report = draw_one(artefact, cell=cell, place=place, state=state, day=day, seed_for_tests=seed_for_tests)
    print_json(report.to_dict())


@click.command("estimate", cls=Worded, help=say("Estimate how many of the people who sent REPORTS are where."))
@click.argument("reports", type=click.Path(path_type=Path))
@artefact_option
@click.option(
    "-o",
    "--out",
    required=True,
    type=click.Path(path_type=Path),
    help=say("directory to make; it must not exist yet"),
)
@click.option("--regions", type=click.Path(path_type=Path), help=say("CSV of regions: region and cell, or label"))
@click.option("--blocks", "block_side", type=int, help=say("also count blocks of so many cells a side"))
@click.option("--prior", type=click.Path(path_type=Path), help=say("CSV of population: people and cell, or label"))
@click.option("--level", default="0.95", show_default=True, help=say("how often an interval should hold"))
@json_option
def estimate(
    reports: Path,
    artefact: Path,
    out: Path,
    regions: Path | None,
    block_side: int | None,
    prior: Path | None,
    level: str,
    as_json: bool,
) -> None:
    """Estimate, write tables, map and pictures, and tell the regions."""
    with held_interrupts():
        from sudare.methods.location.reports import estimate_files

    done = estimate_files(
        reports, artefact=artefact, out=out, regions=regions, block_side=block_side, prior=prior, level=level
    )
    if as_json:
        print_json(done.to_dict())
    else:
        _tell(done)


def _tell(done: Estimated) -> None:
    found = done.estimate
    click.echo(say("{reports} reports, {steps} steps (by held-out reports)", reports=found.total, steps=found.steps))
    for name, (people, low, high) in list(found.regions.items())[:SHOWN]:
        click.echo(
            say("{region}: {people} people ({low} to {high})", region=name, people=f"{people:.0f}", low=f"{low:.0f}",
                high=f"{high:.0f}")
        )  # fmt: skip
    if len(found.regions) > SHOWN:
        click.echo(say("and {more} more regions in regions.csv", more=len(found.regions) - SHOWN))
    click.echo(say("written to {out}: {files}", out=done.out, files=", ".join(done.written.files)))
    if done.written.without_pictures:
        click.echo(say("no picture: the map has no rows and columns, or the extra sudare[pictures] is not installed"))
    if done.written.without_geojson:
        click.echo(say("no GeoJSON: the map has no latitudes"))
