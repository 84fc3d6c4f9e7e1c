"""The main job on built-in data: made-up members, people on a mesh and a city; all five releases, and a page."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from sudare.errors import ReleaseError
from sudare.messages import language, speaking
from sudare.methods.kanon import KAnonymity
from sudare.methods.microdata import Microdata
from sudare.methods.table import Table
from sudare.methods.view import View
from sudare.privacy import Ledger
from sudare.releases import Release
from sudare.report.report import report
from sudare.report.shapes import Truth
from sudare.run.city import write_city
from sudare.run.demo_page import demo_page
from sudare.run.kanon import publish_kanon
from sudare.run.location import publish_location
from sudare.run.members import write_members
from sudare.run.mesh_census import write_census
from sudare.run.publish import publish_release
from sudare.run.report import compared, write_page

MEMBERS = 80_000
CITY = (32, 44)  # rows and columns of cells of 100 m
SEED = 2017  # of the data, which are made up; no noise has a seed
STEPS = 11
KINDS = ("microdata", "view", "kanon", "table", "location")
ENDINGS = {"en": "html", "ja": "ja.html"}


class Step(Protocol):
    """Called before each step with its number, a template and its values."""

    def __call__(self, text: str, /, *, step: int, **values: object) -> None:
        """Say it."""
        ...


def run_demo(out: Path, *, say_step: Step) -> Path:
    """Make the data, publish them and write the pages; return the first page. On failure nothing is left."""
    if out.exists():
        raise ReleaseError("{target} exists; choose another directory or remove it", target=out)
    out.mkdir(parents=True)
    try:
        made = _publish_members(out, say_step) | _publish_places(out, say_step)
        return _write_pages(out, made, say_step)
    except BaseException:
        shutil.rmtree(out, ignore_errors=True)
        raise


def _publish_members(out: Path, say_step: Step) -> dict[str, dict[str, Any]]:
    """Three releases of one table, two of them from one budget; return how the truth of each is read."""
    say_step("{rows} made-up members -> {file}", step=1, rows=f"{MEMBERS:,}", file=out / "members.csv")
    data, schema = write_members(out, rows=MEMBERS, seed=SEED)
    ledger = out / "members.ledger"
    say_step("a budget of epsilon 2 for them -> {file}", step=2, file=ledger)
    Ledger.create(ledger, epsilon=2, name="members").close()
    place: dict[str, Any] = {"schema_file": schema, "ledger_file": ledger}
    say_step("records under epsilon 1 -> {out}", step=3, out=out / "microdata")
    publish_release(Microdata(epsilon=1, by=("sex", "age", "prefecture", "plan")), str(data), out=out / "microdata",
                    **place)  # fmt: skip
    say_step("a view that answers any count, epsilon 1/2 -> {out}", step=4, out=out / "view")
    publish_release(View(epsilon="1/2"), str(data), out=out / "view", **place)
    say_step("the table itself, 50 rows alike at least -> {out}", step=5, out=out / "kanon")
    publish_kanon(KAnonymity(k=50, max_suppressed="0.01"), str(data), schema_file=schema, out=out / "kanon")
    truth = {"truth": str(data), "schema_file": schema, "reading": {}}
    return dict.fromkeys(("microdata", "view", "kanon"), truth)


def _publish_places(out: Path, say_step: Step) -> dict[str, dict[str, Any]]:
    """People on a mesh as a table with region sums, and a city as a mechanism for devices."""
    say_step("made-up people on a mesh of 500 m -> {file}", step=6, file=out / "people.csv")
    data, schema = write_census(out, seed=SEED)
    ledger = out / "people.ledger"
    Ledger.create(ledger, epsilon=1, name="people").close()
    say_step("a table of them with sums of regions, epsilon 1 -> {out}", step=7, out=out / "table")
    publish_release(Table(epsilon=1, focus="both"), str(data), schema_file=schema, out=out / "table",
                    ledger_file=ledger, count_column="people")  # fmt: skip
    say_step("a made-up city on a bay -> {file}", step=8, file=out / "city.toml")
    rows, columns = CITY
    city = write_city(out, rows=rows, columns=columns)
    say_step("a mechanism for devices there, epsilon 0.02 per metre -> {out}", step=9, out=out / "location")
    publish_location(city, out=out / "location", epsilon_per_metre="0.02", mode="fair")
    return {"table": {"truth": str(data), "schema_file": schema, "reading": {"count_column": "people"}}}


def _write_pages(out: Path, truths: Mapping[str, Mapping[str, Any]], say_step: Step) -> Path:
    """A page a release for everybody, one beside the truth for the steward, and one about all; in both languages."""
    releases = {kind: Release.load(out / kind) for kind in KINDS}
    for folder in ("reports", "steward"):
        (out / folder).mkdir()
    for step, lang in enumerate(ENDINGS, start=STEPS - 1):
        say_step("pages in English -> {out}" if lang == "en" else "pages in Japanese -> {out}", step=step,
                 out=out / f"index.{ENDINGS[lang]}")  # fmt: skip
        with speaking(lang):
            told = dict(_pages_of(out, releases, truths, ENDINGS[lang]))
            write_page(out / f"index.{ENDINGS[lang]}", demo_page(out, releases, told))
    return out / f"index.{ENDINGS[language()]}"


def _pages_of(
    out: Path, releases: Mapping[str, Release], truths: Mapping[str, Mapping[str, Any]], ending: str
) -> Iterator[tuple[str, Truth]]:
    for kind, release in releases.items():
        write_page(out / "reports" / f"{kind}.{ending}", report(release, out / kind))
        if kind in truths:
            truth = compared(release, **truths[kind])
            write_page(out / "steward" / f"{kind}.{ending}", report(release, out / kind, truth=truth))
            yield kind, truth
