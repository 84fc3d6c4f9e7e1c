"""Draw how the five methods relate, and measure three of them side by side: `python docs/pictures/make_which.py`.

With a directory as argument the pictures are also written there as PNG, to be looked at. The figures of the comparison
are put into the pages that show them. Made-up data, seeded noise.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import vl_convert
from make import _LONG, CURTAIN, INK, PAPER, PLACE, PUBLISHED, QUIET, TRUE, WRONG, Rows, _drawn, _dressed
from make_view import residents

from sudare.compare.distances import TrueTable, random_ranges
from sudare.counts import Counts
from sudare.demo.data import mesh_census
from sudare.methods.microdata import Microdata
from sudare.methods.table import Table
from sudare.methods.view import View, open_view
from sudare.noise import SeededRng
from sudare.testing import Tabled

Reals = np.ndarray
PAGES = tuple((PLACE.parent / "explanations").glob("which-method*.md"))
FIGURES = re.compile(r"\| [\d.,]+ \| [\d.,]+ \| [\d.,]+ \|$", flags=re.MULTILINE)


def main() -> None:
    """Draw the pictures, and put the figures of the comparison into the pages."""
    measured = comparison()
    pictures = {
        "which-method": relation(ENGLISH),
        "which-method.ja": relation(JAPANESE),
        "which-error": error(measured),
    }
    for name, chart in pictures.items():
        spec = _dressed(chart).to_dict()
        svg = _LONG.sub(lambda number: f"{float(number[0]):.2f}", vl_convert.vegalite_to_svg(spec))
        (PLACE / f"{name}.svg").write_text(svg + "\n", encoding="utf-8")
        for directory in sys.argv[1:]:
            Path(directory, f"{name}.png").write_bytes(vl_convert.vegalite_to_png(spec, scale=2))
    for page in PAGES:
        page.write_text(with_figures(page.read_text(encoding="utf-8"), measured), encoding="utf-8")


# --- the five methods: where they begin, what they promise, what adds up -----------------------------------------

WIDE, HIGH = 760, 404
BANDS = ((188, 400, "#e3efec"), (98, 180, "#efe9dc"), (8, 90, "#e8e8ee"))  # foot, top, colour
PLACES = {"microdata": 348, "table": 288, "view": 228, "kanon": 130, "location": 40}  # feet of the boxes


@dataclass(frozen=True, kw_only=True)
class Words:
    """What the picture says, in one language."""

    title: str
    subtitle: str
    bands: tuple[str, str, str]
    starts: tuple[str, str]
    methods: tuple[tuple[str, str], ...]  # what leaves, and what its reader does with it


ENGLISH = Words(
    title="Five methods, three kinds of promise",
    subtitle="what leaves, and what its reader does with it",
    bands=(
        "\u03b5-differential privacy: one ledger, spends add up",
        "k-anonymity: no ledger; two releases can undo it",
        "\u03b5 per metre: every report of a person adds up",
    ),
    starts=("a private table", "a public map"),
    methods=(
        ("records with the same columns", "count and cross them with any tool"),
        ("counts and their sums, maps", "add up regions; nothing contradicts"),
        ("a model of the table", "ask anything; answers with intervals"),
        ("the rows themselves, coarser", "look at true rows, in classes of k"),
        ("a mechanism for devices", "collect places of people who distrust you"),
    ),
)
JAPANESE = Words(
    title="五つの手法、三種類の約束",
    subtitle="何が公開され、利用者はそれをどう使うか",
    bands=(
        "ε-差分プライバシー：台帳は一つ、支出は合計される",
        "k-匿名性：台帳なし、二つのリリースで破れうる",
        "1 メートル当たりの ε：1 人の報告は合計される",
    ),
    starts=("非公開の表", "公開の地図"),
    methods=(
        ("元と同じ属性をもつ匿名化個票", "手元の道具で集計・クロス表に使う"),
        ("集計表と部分和、地図", "地域を足し上げる（矛盾しない）"),
        ("表のモデル", "何でも問う（区間付きの答え）"),
        ("粗くした実際の行", "k 行以上のクラスで実際の行を見る"),
        ("端末のための機構", "居場所を預からずに位置情報を集める"),
    ),
)
BOX = (236, 480, 40)  # left, right and height of the box of a method


def relation(words: Words) -> Any:
    """A private table or a public map, five methods in three bands, and what the reader does with each."""
    boxes = [
        {"x": BOX[0], "x2": BOX[1], "y": y, "y2": y + BOX[2], "name": name, "says": says, "use": use,
         "name_y": y + 26, "says_y": y + 11, "middle": y + BOX[2] / 2}
        for (name, y), (says, use) in zip(PLACES.items(), words.methods, strict=True)
    ]  # fmt: skip
    starts = [
        {"x": 4, "x2": 136, "y": 284, "y2": 332, "text": words.starts[0]},
        {"x": 4, "x2": 136, "y": 38, "y2": 82, "text": words.starts[1]},
    ]
    arrows = [{"x": 138, "y": 308 if y > 80 else 60, "x2": BOX[0] - 9, "y2": y + BOX[2] / 2} for y in PLACES.values()]
    layers = [*_bands(words), *_arrows(arrows), *_starts(starts), *_methods(boxes)]
    title = alt.TitleParams(text=words.title, subtitle=words.subtitle)
    return alt.layer(*layers).properties(width=WIDE, height=HIGH, title=title)


def _x(field: str = "x:Q") -> alt.X:
    return alt.X(field, axis=None, scale=alt.Scale(domain=[0, WIDE], nice=False))


def _y(field: str = "y:Q") -> alt.Y:
    return alt.Y(field, axis=None, scale=alt.Scale(domain=[0, HIGH], nice=False))


def _bands(words: Words) -> list[Any]:
    rows: Rows = [
        {"x": 168, "x2": WIDE, "y": foot, "y2": top, "fill": fill, "text": text, "at": WIDE - 10, "low": foot + 14}
        for (foot, top, fill), text in zip(BANDS, words.bands, strict=True)
    ]
    plates = _drawn(rows).mark_rect(cornerRadius=6)
    words = _drawn(rows).mark_text(align="right", baseline="middle", fontSize=11.5, color=QUIET, fontStyle="italic")
    return [
        plates.encode(x=_x(), x2="x2:Q", y=_y(), y2="y2:Q", fill=alt.Fill("fill:N", scale=None)),
        words.encode(x=_x("at:Q"), y=_y("low:Q"), text="text:N"),
    ]


def _arrows(arrows: Rows) -> list[Any]:
    shaft = _drawn(arrows).mark_rule(color=CURTAIN, strokeWidth=1.6)
    head = _drawn(arrows).mark_point(shape="triangle-right", filled=True, color=CURTAIN, size=70, opacity=1)
    return [
        shaft.encode(x=_x(), x2="x2:Q", y=_y(), y2="y2:Q"),
        head.encode(x=_x("x2:Q"), y=_y("y2:Q")),
    ]


def _starts(starts: Rows) -> list[Any]:
    rows = [{**one, "at": (one["x"] + one["x2"]) / 2, "middle": (one["y"] + one["y2"]) / 2} for one in starts]
    box = _drawn(rows).mark_rect(fill=PAPER, stroke=INK, strokeWidth=1.2, cornerRadius=5)
    text = _drawn(rows).mark_text(fontSize=13, fontWeight="bold", color=INK)
    return [
        box.encode(x=_x(), x2="x2:Q", y=_y(), y2="y2:Q"),
        text.encode(x=_x("at:Q"), y=_y("middle:Q"), text="text:N"),
    ]


def _methods(boxes: Rows) -> list[Any]:
    rows = [{**one, "left": one["x"] + 12, "right": one["x2"] + 14} for one in boxes]
    box = _drawn(rows).mark_rect(fill=PAPER, stroke=INK, strokeWidth=1.2, cornerRadius=5)
    name = _drawn(rows).mark_text(
        align="left", fontSize=14, fontWeight="bold", color=PUBLISHED, font="ui-monospace, monospace"
    )
    says = _drawn(rows).mark_text(align="left", fontSize=12, color=INK)
    use = _drawn(rows).mark_text(align="left", fontSize=12.5, color=QUIET)
    return [
        box.encode(x=_x(), x2="x2:Q", y=_y(), y2="y2:Q"),
        name.encode(x=_x("left:Q"), y=_y("name_y:Q"), text="name:N"),
        says.encode(x=_x("left:Q"), y=_y("says_y:Q"), text="says:N"),
        use.encode(x=_x("right:Q"), y=_y("middle:Q"), text="use:N"),
    ]


# --- three methods on three tables, at the same epsilon -----------------------------------------------------------

COLOURS = {"microdata": TRUE, "table": WRONG, "view": PUBLISHED}
SEEDS = (1, 2, 3, 4, 5)


@dataclass(frozen=True)
class Measured:
    """The error of one method for one kind of question about one table."""

    table: str
    question: str
    method: str
    error: float


def comparison() -> list[Measured]:
    """Root mean square errors at epsilon 1, the mean of five runs."""
    people = residents()
    few, many, mesh = people.project(["age", "job"]), people, mesh_census(seed=1)
    return [
        *_on("2 columns, 200 cells", few, _ranges(few)),
        *_on("4 columns, 400,000 cells", many, _ranges(many)),
        *_on("1 mesh, 25,600 cells", mesh, _squares(mesh)),
    ]


Answers = Callable[[Any], dict[str, Reals]]  # what a table, true or published, says to every kind of question


def _on(name: str, truth: Counts, answers: Answers) -> Iterable[Measured]:
    true = answers(TrueTable(truth))
    for method in COLOURS:
        runs = [answers(_published(method, truth, SeededRng(seed))) for seed in SEEDS]
        for question, exact in true.items():
            errors = [float(np.sqrt(np.mean((run[question] - exact) ** 2))) for run in runs]
            yield Measured(name, question, method, float(np.mean(errors)))


def _published(method: str, truth: Counts, rng: SeededRng) -> Any:
    if method == "view":
        return open_view(View(epsilon=1).publish(Tabled(truth), rng=rng))
    chosen = Microdata(epsilon=1) if method == "microdata" else Table(epsilon=1)
    return TrueTable(chosen.draw(truth, rng=rng))


def _ranges(truth: Counts) -> Answers:
    """Random ranges over one attribute, two, and so on."""
    ways = range(1, len(truth.schema.names) + 1)
    asked = {way: random_ranges(truth.schema, way, queries=300, rng=SeededRng(3)) for way in ways}
    return lambda told: {f"{way} column{'s' if way > 1 else ''}": told.ranges(*asked[way]) for way in ways}


def _squares(truth: Counts) -> Answers:
    """Every cell of 500 m, every square of 1 km and of 10 km."""
    mesh = truth.schema.attributes[0]
    assert mesh.hierarchy is not None
    above = {"500 m": np.arange(mesh.size), "1 km": mesh.hierarchy.lift(np.arange(mesh.size), 1),
             "10 km": mesh.hierarchy.lift(np.arange(mesh.size), 2)}  # fmt: skip
    return lambda told: {side: np.bincount(up, weights=told.marginal(["mesh"])) for side, up in above.items()}


def error(measured: list[Measured]) -> Any:
    """One panel a table: error by question, one line a method."""
    tables = list(dict.fromkeys(one.table for one in measured))
    title = alt.TitleParams(
        text="The same epsilon on three tables",
        subtitle="root mean square error in records at \u03b5 = 1, mean of five runs; made-up people",
    )
    panels = [_panel([one for one in measured if one.table == table], table) for table in tables]
    return alt.hconcat(*panels, spacing=30).properties(title=title)


def _panel(measured: list[Measured], title: str) -> Any:
    rows = [{"question": one.question, "method": one.method, "error": one.error} for one in measured]
    order = list(dict.fromkeys(one.question for one in measured))
    asked = "side of a square" if "mesh" in title else "a range over"
    lines = _drawn(rows).mark_line(point=alt.OverlayMarkDef(size=60), strokeWidth=2).encode(
        x=alt.X("question:N", sort=order, title=asked, axis=alt.Axis(labelAngle=0, grid=False)),
        y=alt.Y("error:Q", title=None, scale=alt.Scale(type="log", domain=[1, 3000]),
                axis=alt.Axis(values=[1, 10, 100, 1000], format=",d")),
        color=alt.Color("method:N", title=None, scale=alt.Scale(domain=[*COLOURS], range=[*COLOURS.values()]),
                        legend=alt.Legend(orient="bottom", labelFontSize=13, labelColor=INK)),
    )  # fmt: skip
    heading = alt.TitleParams(text=title, fontSize=14, offset=8)
    return lines.properties(width=max(60 * len(order), 130), height=220, title=heading)


def with_figures(page: str, measured: list[Measured]) -> str:
    """A page with the figures of its table replaced: rows that end in three numbers, in the order of the questions."""
    found = {(one.table, one.question, one.method): one.error for one in measured}
    asked = iter(dict.fromkeys((one.table, one.question) for one in measured))

    def row(_: re.Match[str]) -> str:
        errors = [found[*question, method] for question in [next(asked)] for method in COLOURS]
        return "".join(f"| {error:,.{1 if error < 20 else 0}f} " for error in errors) + "|"

    return FIGURES.sub(row, page)


if __name__ == "__main__":
    main()
