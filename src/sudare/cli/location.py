"""`sudare publish location MAP` and `sudare preview location MAP`: a map goes in, not a table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sudare.cli.help import Worded
from sudare.cli.publish import Command, add_options
from sudare.cli.terminal import json_option, print_json, progress
from sudare.text import language, say

if TYPE_CHECKING:
    from sudare.methods.location import LocationPreview


def location_options(command: Command) -> Command:
    """The map, and one flag per field of `Location`."""
    return add_options(
        command,
        click.argument("map_file", metavar="MAP", type=click.Path(path_type=Path)),
        click.option(
            "--epsilon-per-metre",
            required=True,
            metavar="NUMBER",
            help=say("how much one report may tell per metre, exactly: 0.02 or 1/50; less protects more"),
        ),
        click.option(
            "--mode",
            type=click.Choice(["grid", "weighted", "fair", "sharp"]),
            default="grid",
            show_default=True,
            help=say("weights of cells: equal, those of the map, fair at edges, or with the least noise"),
        ),
        click.option(
            "--slack",
            type=click.Choice(["epsilon", "noise"]),
            help=say("what is left of epsilon: shown in the certificate, or used for less noise (default for sharp)"),
        ),
        *_figures(),
        json_option,
    )


def _figures() -> list[Callable[[Any], Any]]:
    return [
        click.option(
            "--extra-distance",
            default="1/10",
            show_default=True,
            help=say("fair: how much farther from the truth reports may be, as a share"),
        ),
        click.option(
            "--posterior-model",
            type=click.Choice(["uniform", "weights"]),
            default="uniform",
            show_default=True,
            help=say("where people are, for the posteriors in the certificate"),
        ),
        click.option(
            "--reports-per-day",
            type=int,
            default=1,
            show_default=True,
            help=say("how many times a day a device may draw"),
        ),
    ]


@click.command("location", cls=Worded, help=say("Publish the mechanism by which devices report a cell of MAP."))
@location_options
@click.option(
    "-o",
    "--out",
    required=True,
    type=click.Path(path_type=Path),
    help=say("directory to make; it must not exist yet"),
)
@click.option(
    "--format",
    "file_format",
    type=click.Choice(["parquet", "csv"]),
    default="parquet",
    show_default=True,
    help=say("file format of the published tables"),
)
def publish_location(map_file: Path, as_json: bool, out: Path, file_format: Any, **parameters: Any) -> None:
    """Build the mechanism from map and flags, certify and save it."""
    from sudare.app import publish_location as run

    with progress(say("finding weights")) as moved:
        done = run(map_file, out=out, file_format=file_format, progress=moved, **parameters)
    if as_json:
        print_json(done.to_dict())
        return
    click.echo(
        say(
            "a mechanism for {cells} cells published in {out}; devices read {file}",
            cells=done.told.reportable,
            out=out,
            file="mechanism.json",
        )
    )
    click.echo(say("promise: {statement}", statement=done.certificate.guarantee["statement"][language()]))
    _tell(done.told)


@click.command(
    "location", cls=Worded, help=say("Certified epsilon, posteriors and expected distance of a location map.")
)
@location_options
def preview_location(map_file: Path, as_json: bool, **parameters: Any) -> None:
    """Tell what a release would promise and cost in accuracy."""
    from sudare.methods.location import Location

    chosen = Location.of_map(map_file, **parameters)
    with progress(say("finding weights")) as moved:
        told = chosen.preview(progress=moved)
    if as_json:
        print_json({"guarantee": chosen.guarantee().to_dict(), **told.to_dict()})
        return
    click.echo(chosen.guarantee().describe())
    _tell(told)


def _tell(told: LocationPreview) -> None:
    from sudare.releases.certificate import rounded_up

    figures = told.figures
    click.echo(
        say(
            "epsilon this map needs, certified: {tight} per metre (promised {epsilon})",
            tight=rounded_up(told.tight.epsilon),
            epsilon=f"{float(told.epsilon_per_metre):g}",
        )
    )
    click.echo(
        say("expected distance of a report: {metres} m", metres=f"{figures['expected_distance_metres']:.1f}"),
    )
    click.echo(
        say(
            "posterior of the reported cell: {low} to {high}, median {middle}",
            low=f"{figures['posterior_min']:.3f}",
            high=f"{figures['posterior_max']:.3f}",
            middle=f"{figures['posterior_median']:.3f}",
        )
    )
    for warning in told.warnings:
        click.echo(say("warning: {warning}", warning=warning))
