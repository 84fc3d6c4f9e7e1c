"""The main job on built-in data: made-up sales, people on a mesh and a coast; all five releases, and one comparison."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from sudare.errors import ReleaseError
from sudare.evaluate import counts_of, ks_distance, l2_distance
from sudare.methods.kanon import KAnonymity
from sudare.methods.microdata import Microdata
from sudare.methods.table import Table
from sudare.methods.view import View
from sudare.privacy import Ledger
from sudare.releases import Release
from sudare.run.kanon import publish_kanon
from sudare.run.location import publish_location, write_coast
from sudare.run.mesh_census import mesh_census
from sudare.run.publish import publish_release
from sudare.run.report import write_report
from sudare.run.sales import sales
from sudare.schema import Schema
from sudare.sources import open as open_source

ITEMS = 40
RECORDS = 100_000
SHOWN = 8

SCHEMA = """\
[sudare]
schema = 1
name = "sales"

[unit]
kind = "row"

[[attribute]]
name = "item"
kind = "category"
values = [{items}]

[[attribute]]
name = "sex"
kind = "category"
role = "quasi"
values = ["M", "F"]
hierarchy = {{ masking = "right" }}

[[attribute]]
name = "age"
kind = "number"
role = "quasi"
bins = {{ start = 20, stop = 70, width = 1 }}
hierarchy = {{ intervals = [5, 10] }}
"""

PEOPLE = """\
[sudare]
schema = 1
name = "people"

[[attribute]]
name = "mesh"
kind = "mesh"
level = 4
area = ["5339"]
"""


class Step(Protocol):
    """Called before each step with a template and its values."""

    def __call__(self, text: str, /, **values: object) -> None:
        """Say it."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Demo:
    """What the steward sees at the end; holds true counts and is not for publication."""

    comparison: Sequence[tuple[str, ...]]
    l2: float
    ks: float


def run_demo(out: Path, *, say_step: Step) -> Demo:
    """Make the data, publish them, and compare with the truth; on failure nothing is left."""
    if out.exists():
        raise ReleaseError("{target} exists; choose another directory or remove it", target=out)
    out.mkdir(parents=True)
    try:
        return _run(out, say_step)
    except BaseException:
        shutil.rmtree(out, ignore_errors=True)
        raise


def _run(out: Path, say_step: Step) -> Demo:
    data, schema_file, ledger_file = out / "sales.csv", out / "sales.toml", out / "sales.ledger"
    say_step("1. {rows} made-up sales records -> {file}", rows=RECORDS, file=data)
    _write_sales(data)
    say_step("2. public facts: items, sexes, age bins -> {file}", file=schema_file)
    schema_file.write_text(SCHEMA.format(items=", ".join(f'"h{k}"' for k in range(1, ITEMS + 1))), encoding="utf-8")
    say_step("3. a ledger with a budget of epsilon 1 -> {file}", file=ledger_file)
    Ledger.create(ledger_file, epsilon=1, name="sales").close()
    place: dict[str, Any] = {"schema_file": schema_file, "ledger_file": ledger_file}
    say_step("4. records under epsilon 1/2 -> {out}", out=out / "microdata")
    publish_release(Microdata(epsilon="1/2"), str(data), out=out / "microdata", **place)
    say_step("5. a view that answers any count, epsilon 1/2 -> {out}", out=out / "view")
    done = publish_release(View(epsilon="1/2"), str(data), out=out / "view", **place)
    say_step("   {left} of {budget} is left", left=done.left, budget=done.budget)
    say_step("6. the table itself, 20 rows alike at least -> {out}", out=out / "kanon")
    publish_kanon(KAnonymity(k=20), str(data), schema_file=schema_file, out=out / "kanon")
    _publish_places(out, say_step)
    _report_all(out, say_step)
    return _compare(data, Schema.read(schema_file), Release.load(out / "microdata"))


def _publish_places(out: Path, say_step: Step) -> None:
    """People on a mesh as a table with region sums, and a coast as a mechanism for devices."""
    census, public = out / "people.csv", out / "people.toml"
    say_step("7. made-up people on a mesh of 500 m, a table under epsilon 1 -> {out}", out=out / "table")
    counts = mesh_census(seed=2017)
    labels = counts.schema.attributes[0].labels(counts.codes[:, 0])
    lines = (f"{label},{count}" for label, count in zip(labels, counts.values, strict=True))
    census.write_text("mesh,people\n" + "\n".join(lines) + "\n", encoding="utf-8")
    public.write_text(PEOPLE, encoding="utf-8")
    ledger = out / "people.ledger"
    Ledger.create(ledger, epsilon=1, name="people").close()
    publish_release(Table(epsilon=1), str(census), schema_file=public, out=out / "table", ledger_file=ledger,
                    count_column="people")  # fmt: skip
    say_step("8. a made-up coast, a mechanism for devices, epsilon 0.02 per metre -> {out}", out=out / "location")
    publish_location(write_coast(out), out=out / "location", epsilon_per_metre="0.02", mode="fair")


def _report_all(out: Path, say_step: Step) -> None:
    """One page a release: four beside the truth, for the steward; that of the map needs no truth."""
    say_step("9. a page for each release, with the truth beside it, for the steward -> {out}", out=out / "*.html")
    truths: dict[str, dict[str, Any]] = {
        **dict.fromkeys(("microdata", "view", "kanon"), _truth(out, "sales")),
        "table": {**_truth(out, "people"), "count_column": "people"},
        "location": {},
    }
    for kind, truth in truths.items():
        write_report(out / kind, out / f"{kind}.html", **truth)


def _truth(out: Path, name: str) -> dict[str, Any]:
    return {"truth": str(out / f"{name}.csv"), "schema_file": out / f"{name}.toml"}


def _write_sales(file: Path) -> None:
    rows = sales(items=ITEMS, records=RECORDS, seed=2017)
    years = np.random.default_rng(2018).integers(0, 10, size=RECORDS)
    lines = (
        f"h{item + 1},{'MF'[sex]},{20 + 10 * decade + year}"
        for (item, sex, decade), year in zip(rows, years, strict=True)
    )
    file.write_text("item,sex,age\n" + "\n".join(lines) + "\n", encoding="utf-8")


def _compare(data: Path, schema: Schema, release: Release) -> Demo:
    with contextlib.closing(open_source(str(data), schema)) as source:
        truth = source.count()
    published = counts_of(release)
    before, after = (table.project(["item"]).dense() for table in (truth, published))
    shown = [(f"h{k + 1}", f"{before[k]:,}", f"{after[k]:,}") for k in range(SHOWN)]
    return Demo(comparison=shown, l2=l2_distance(truth, published).value, ks=ks_distance(truth, published).value)
