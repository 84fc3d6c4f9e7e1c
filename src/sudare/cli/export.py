"""`sudare export RELEASE`: a copy of a release that offices open in Excel."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from sudare.cli.help import Worded, option
from sudare.text import say, text

if TYPE_CHECKING:
    from sudare.releases.office import LabelStyle


@click.command(
    cls=Worded,
    help=text("Write the tables of RELEASE for Excel: .xlsx with a sheet for the certificate, or .csv."),
)
@click.argument("directory", type=click.Path(path_type=Path), metavar="RELEASE")
@option("-o", "--out", required=True, type=click.Path(path_type=Path), help=text("file to write, .xlsx or .csv"))
@option("--table", help=text("name of the table, where the release holds several"))
@option(
    "--labels",
    type=click.Choice(["plain", "office"]),
    default="plain",
    show_default=True,
    help=text("plain: as in the schema; office: as Japanese offices write them, 30〜39歳, 令和6年"),
)
def export(directory: Path, out: Path, table: str | None, labels: LabelStyle) -> None:
    """Check the release against its certificate, and write the copy."""
    from sudare.app import refuse_damage
    from sudare.releases import Release
    from sudare.releases.office import export_release

    with refuse_damage(directory):
        names = export_release(Release.load(directory), out, labels=labels, table=table)
    listed = ", ".join(names)
    if out.suffix.lower() == ".xlsx":
        click.echo(say("{file} written: {names}, and the certificate", file=out, names=listed))
    else:
        click.echo(say("{file} written: {names}", file=out, names=listed))
