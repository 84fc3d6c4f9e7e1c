"""`sudare locate draw` and `sudare locate estimate`: reports of devices, and what a collector learns from them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from sudare.cli.app import LazyGroup
from sudare.cli.help import Worded, option
from sudare.cli.terminal import json_option, print_json
from sudare.text import say, text

if TYPE_CHECKING:
    from sudare.methods.location.estimate_files import SavedEstimate

SHOWN = 10  # regions on the terminal; all are in regions.csv

locate = LazyGroup(
    "locate",
    help=text("Draw reports of places as devices do, and estimate from the reports of many where people are."),
    places={
        "draw": ("sudare.cli.locate:draw", text("draw the report of one person, or of many for a trial")),
        "estimate": ("sudare.cli.locate:estimate", text("people per cell and region, with intervals, from reports")),
    },
)

device_file_option = option(
    "--device-file",
    old_names=("--artefact",),
    required=True,
    type=click.Path(path_type=Path),
    help=text("directory of a location release, or its mechanism.json"),
)


@click.command("draw", cls=Worded, help=text("Draw the report of one person, with the randomness of this machine."))
@device_file_option
@option("--cell", help=text("where the person is: number or label of a cell"))
@option(
    "--latitude",
    type=float,
    help=text("where the person is, in degrees (maps of kind mesh, h3, and roads read from lines)"),
)
@option(
    "--longitude",
    type=float,
    help=text("where the person is, in degrees (maps of kind mesh, h3, and roads read from lines)"),
)
@option(
    "--state",
    type=click.Path(path_type=Path),
    help=text("file that keeps answers and budgets of one person; without it no budget is kept"),
)
@option("--max-epsilon", metavar="NUMBER", help=text("refuse a device file that promises a larger epsilon per metre"))
@option("--max-reports-per-day", type=int, help=text("draw at most so often a day, whatever the device file says"))
@option("--max-reports-per-month", type=int, help=text("draw at most so often a month, whatever the device file says"))
@option("--day", metavar="DAY", help=text("the day of the report, like 2026-11-16 (default: today, local time)"))
@option("--cells", type=click.Path(path_type=Path), help=text("draw one report for every line of this CSV"))
@option("-o", "--out", type=click.Path(path_type=Path), help=text("file for the reports of --cells"))
@option("--seed-for-tests", type=int, help=text("for tests only: repeatable noise; such a release protects nobody"))
def draw(
    device_file: Path,
    cell: str | None,
    latitude: float | None,
    longitude: float | None,
    state: Path | None,
    max_epsilon: str | None,
    max_reports_per_day: int | None,
    max_reports_per_month: int | None,
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
    from sudare.methods.location.device import DeviceCaps
    from sudare.methods.location.reports import draw_report, draw_reports

    if cells is not None and out is not None:
        drawn = draw_reports(device_file, cells, out=out, seed_for_tests=seed_for_tests)
        click.echo(say("{reports} reports written to {out}", reports=drawn, out=out))
        return
    place = None if latitude is None or longitude is None else (latitude, longitude)
    caps = DeviceCaps(
        epsilon_per_metre=max_epsilon, reports_per_day=max_reports_per_day, reports_per_month=max_reports_per_month
    )
    report = draw_report(
        device_file, cell=cell, place=place, state=state, day=day, seed_for_tests=seed_for_tests, caps=caps
    )
    if state is None:
        click.echo(
            say("this draw is fresh and keeps no budget: for trials only. Give --state FILE for a real person"),
            err=True,
        )
    if report is None:
        click.echo(say("nothing is to be sent: a silent zone, or not yet long enough at a new place"), err=True)
    print_json(None if report is None else report.to_dict())


@click.command("estimate", cls=Worded, help=text("Estimate how many of the people who sent REPORTS are where."))
@click.argument("reports", type=click.Path(path_type=Path))
@device_file_option
@option(
    "-o",
    "--out",
    required=True,
    type=click.Path(path_type=Path),
    help=text("directory to make; it must not exist yet"),
)
@option("--regions", type=click.Path(path_type=Path), help=text("CSV of regions: region and cell, or label"))
@option("--blocks", "block_side", type=int, help=text("also estimate square blocks with so many cells on a side"))
@option("--prior", type=click.Path(path_type=Path), help=text("CSV of population: people and cell, or label"))
@option("--level", default="0.95", show_default=True, help=text("how often an interval should contain the true number"))
@json_option
def estimate(
    reports: Path,
    device_file: Path,
    out: Path,
    regions: Path | None,
    block_side: int | None,
    prior: Path | None,
    level: str,
    as_json: bool,
) -> None:
    """Estimate, write tables, map and pictures, and tell the regions."""
    from sudare.methods.location.estimate_files import estimate_from_files

    done = estimate_from_files(
        reports, device_file=device_file, out=out, regions=regions, block_side=block_side, prior=prior, level=level
    )
    if as_json:
        print_json(done.to_dict())
    else:
        _print_estimate(done)


VAGUE_WIDTH = 2.0  # median width of a cell's interval over its estimate, from which cells are called vague


def _print_doubts(done: SavedEstimate) -> None:
    """Tell what looks forged, and whether cells can be told at all at this epsilon."""
    counted, estimate = done.counted, done.estimate
    if counted.repeated:
        click.echo(
            say("{repeated} reports were sent before by the same sender and count once", repeated=counted.repeated)
        )
    if counted.overdrawn:
        click.echo(
            say(
                "warning: {senders} senders have more different reports than a device may draw; their reports are"
                " forged, or several devices share a name",
                senders=counted.overdrawn,
            )
        )
    if estimate.impossible:
        shown = ", ".join(str(number) for number in estimate.impossible[:SHOWN])
        click.echo(
            say(
                "warning: some reports came far more often than people anywhere could cause ({numbers}); they are"
                " forged or repeated, and the figures around them are wrong",
                numbers=shown,
            )
        )
    if estimate.width > VAGUE_WIDTH:
        click.echo(say("single cells cannot be told at this epsilon with so many reports; use regions or blocks"))


def _print_estimate(done: SavedEstimate) -> None:
    estimate = done.estimate
    click.echo(say("{reports} reports; intervals of {level}", reports=estimate.total, level=estimate.level))
    _print_doubts(done)
    for name, (people, low, high) in list(estimate.regions.items())[:SHOWN]:
        click.echo(
            say("{region}: {people} people ({low} to {high})", region=name, people=f"{people:.0f}", low=f"{low:.0f}",
                high=f"{high:.0f}")
        )  # fmt: skip
    if len(estimate.regions) > SHOWN:
        click.echo(say("and {more} more regions in regions.csv", more=len(estimate.regions) - SHOWN))
    click.echo(say("written to {out}: {files}", out=done.out, files=", ".join(done.written.files)))
    if done.written.without_pictures:
        click.echo(say("no picture: the map has no rows and columns, or the extra sudare[pictures] is not installed"))
    if done.written.without_geojson:
        click.echo(say("no GeoJSON: the map has no latitudes"))
