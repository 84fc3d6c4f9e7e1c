"""The chapter of the demo's page that compares with the truth: for the steward, stamped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from sudare.messages import language, say
from sudare.releases import Release
from sudare.report.frames import codes_of, marginal_of, numbers
from sudare.report.overview import Card, Chapter
from sudare.report.shapes import Listing, Truth, number
from sudare.report.svg import legend, marginal
from sudare.report.tabular import side_by_side
from sudare.run.demo_cards import mesh_of
from sudare.schema import Schema

REGION = 256  # cells of the region whose error is told


def truth_chapter(out: Path, releases: Mapping[str, Release], truths: Mapping[str, Truth]) -> Chapter:
    """How far each release is from the truth; a mechanism has no truth beside it."""
    rows = [(kind, words, value) for kind, truth in truths.items() for words, value in _figures(kind, truth)]
    told = releases["location"].certificate.measures["expected_distance_metres"]
    rows.append(("location", say("expected distance of a report, in metres"), number(round(told, 1))))
    return Chapter(
        title=say("How far from the truth"),
        lead=say("Computed from the true tables, without noise: this must not leave. A steward looks at it once, to"
                 " decide whether the release is good enough to be of use."),
        cards=[_members(releases["microdata"], truths["microdata"]), _map(releases["table"], truths["table"])],
        listing=Listing(title=say("distances"), head=(say("release"), say("measure"), say("value")), rows=rows),
        is_secret=True,
    )  # fmt: skip


def _figures(kind: str, truth: Truth) -> Iterator[tuple[str, str]]:
    """The few figures of each kind that say most."""
    if truth.classes is not None:
        before, after = truth.classes["before"], truth.classes["after"]
        yield say("rows left out"), number(truth.classes["left_out"])
        yield say("unique rows, before and after"), f"{before['uniques']:.2%} → {after['uniques']:.2%}"
        yield say("loss"), f"{truth.classes['total_loss']:.4f}"
        return
    yield from truth.figures[:-2]  # the last two tell the number of records
    if kind == "table" and REGION in truth.blocks:
        yield say("error of the sum of {cells} cells (RMSE)", cells=REGION), number(truth.blocks[REGION])


def _page(kind: str) -> list[tuple[str, str]]:
    ending = "ja." if language() == "ja" else ""
    return [(say("{kind}, beside the truth", kind=kind), f"steward/{kind}.{ending}html")]


def _members(release: Release, truth: Truth) -> Card:
    schema = Schema.from_dict(release.certificate.schema)
    one = schema.attribute("age")
    found = marginal_of(one, codes_of(one, release.frames["records"].columns[one.name]))
    drawn = replace(found, true=truth.true[one.name])
    return Card(
        kind="microdata",
        title=say("Records by age, published and true"),
        words=(say("The bar is what was published, the line is the truth."),),
        picture=legend(truth=True) + marginal(drawn),
        links=[*_page("microdata"), *_page("view"), *_page("kanon")],
    )


def _map(release: Release, truth: Truth) -> Card:
    one = Schema.from_dict(release.certificate.schema).attributes[0]
    columns = release.frames["cells"].columns
    published = codes_of(one, columns[one.name]), numbers(columns["count"]).astype(np.int64)
    true = truth.places or published
    told = [(say("true"), *true), (say("published"), *published)]
    return Card(
        kind="table",
        title=say("People on the map, true and published"),
        picture=side_by_side(mesh_of(one), told),
        links=_page("table"),
        size="wide",
    )
