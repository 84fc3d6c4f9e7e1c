"""Draw the pictures of README and docs: `python docs/pictures/make.py`. Made-up data, seeded noise, no network.

Everything is drawn from what the code does. The seeds are for tests: such releases protect nobody, which is fine for
sales that nobody made. Every picture has a background of its own, since pages are shown light and dark.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import vl_convert

from sudare.compare import l2_distance
from sudare.counts import Counts
from sudare.demo.data import sales
from sudare.methods.microdata import Microdata
from sudare.noise import SeededRng, geometric
from sudare.noise.geometric import geometric_probability
from sudare.postprocess import find_nearest_table
from sudare.schema import Attribute, NumberBins, Schema, Values

PLACE = Path(__file__).parent
FONT = "system-ui, 'Segoe UI', 'Noto Sans', 'Hiragino Sans', 'Yu Gothic', sans-serif"
PAPER, INK, QUIET, LINE = "#faf8f3", "#24323a", "#66757d", "#d9d4c7"
TRUE, PUBLISHED, WRONG, CURTAIN = "#8d9aa1", "#0f766e", "#c2410c", "#b7a67c"

Rows = list[dict[str, Any]]

_LONG = re.compile(r"\d+\.\d{3,}")  # hundredths of a pixel are enough


def main() -> None:
    """Draw all pictures; with a directory as argument, also as PNG into it, to be looked at."""
    pictures: dict[str, Callable[[], alt.TopLevelMixin]] = {
        "microdata": microdata,
        "flow": flow,
        "steps": steps,
        "tree": tree,
        "noise": noise,
        "scaling": scaling,
    }
    for name, draw in pictures.items():
        spec = _dressed(draw()).to_dict()
        svg = _LONG.sub(lambda number: f"{float(number[0]):.2f}", vl_convert.vegalite_to_svg(spec))
        (PLACE / f"{name}.svg").write_text(svg + "\n", encoding="utf-8")
        for directory in sys.argv[1:]:
            Path(directory, f"{name}.png").write_bytes(vl_convert.vegalite_to_png(spec, scale=2))


def _dressed(chart: Any) -> Any:
    axis = {"labelColor": QUIET, "titleColor": QUIET, "gridColor": LINE, "domainColor": LINE, "tickColor": LINE}
    fonts = {"labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal"}
    return (
        chart.configure(background=PAPER, font=FONT, padding=18, aria=False)
        .configure_view(stroke=None)
        .configure_axis(**axis, **fonts)
        .configure_header(labelColor=INK, labelFontSize=14, titleColor=QUIET)
        .configure_title(color=INK, subtitleColor=QUIET, fontSize=17, subtitleFontSize=13, anchor="start", offset=14)
        .configure_text(color=INK, fontSize=12)
    )


# --- README: what was sold, and what was published ---------------------------------------------------------------

ITEMS, RECORDS = 200, 100_000


def sold() -> Counts:
    """The table of made-up sales: item, sex, decade of age."""
    schema = Schema(
        name="sales",
        attributes=(
            Attribute(name="item", domain=Values(tuple(f"h{k + 1}" for k in range(ITEMS)))),
            Attribute(name="sex", domain=Values(("M", "F"))),
            Attribute(name="age", domain=NumberBins.of_width(20, 70, 10)),
        ),
    )
    return Counts.from_columns(schema, sales(items=ITEMS, records=RECORDS, seed=2017))


def microdata() -> Any:
    """True and published sales by item, for two epsilons."""
    truth = sold()
    by_item = truth.project(["item"]).dense()
    panels = [_panel(by_item, _published(truth, epsilon), f"\u03b5 = {epsilon}") for epsilon in ("1/10", "1")]
    return alt.hconcat(*panels, spacing=34).properties(title=_sales("Sales by item: true, and from published records"))


def tree() -> Any:
    """The same noisy table, made valid in two ways."""
    truth = sold()
    by_item = truth.project(["item"]).dense()
    panels = []
    for way in ("projection", "tree"):
        table = Microdata(epsilon="1/10", algorithm=way).draw(truth, rng=SeededRng(5))
        distance = l2_distance(truth, table).value
        panels.append(_panel(by_item, table.project(["item"]).dense(), f"{way}: L2 distance {distance:,.0f}"))
    return alt.hconcat(*panels, spacing=34).properties(title=_sales("Two ways to a valid table, \u03b5 = 1/10"))


def scaling() -> Any:
    """CPU time by the number of cells, as benchmarks/microdata_scaling.py measured it."""
    measured = json.loads((PLACE.parents[1] / "benchmarks/results/microdata_scaling.json").read_text(encoding="utf-8"))
    rows = [{**one, "epsilon": f"\u03b5 = {one['epsilon']}"} for one in measured]
    lines = alt.Chart(alt.Data(values=rows)).mark_line(point=True).encode(
        x=alt.X("power:Q", title="cells of the domain, as a power of ten", axis=alt.Axis(grid=False, tickMinStep=6)),
        y=alt.Y("seconds:Q", title="CPU seconds", scale=alt.Scale(type="log", domain=[0.02, 5])),
        color=alt.Color("way:N", title=None, scale=alt.Scale(domain=["projection", "tree"], range=[TRUE, PUBLISHED])),
    )  # fmt: skip
    title = alt.TitleParams(text="Time follows the records, not the domain",
                            subtitle="a million made-up sales over 10^6 to 10^30 cells, one run")  # fmt: skip
    return (
        lines.properties(width=300, height=220)
        .facet(column=alt.Column("epsilon:N", title=None))
        .properties(title=title)
    )


def _sales(text: str) -> alt.TitleParams:
    cells = f"{ITEMS * 10:,}"
    return alt.TitleParams(
        text=text, subtitle=f"{RECORDS:,} made-up sales of {ITEMS} items by sex and age: {cells} cells"
    )


def _published(truth: Counts, epsilon: str) -> np.ndarray:
    drawn = Microdata(epsilon=epsilon).draw(truth, rng=SeededRng(5))
    return drawn.project(["item"]).dense()


def _panel(truth: np.ndarray, published: np.ndarray, title: str) -> Any:
    order = np.argsort(-truth, kind="stable")
    rows = [
        {"rank": rank + 1, "true": int(truth[item]), "published": int(published[item])}
        for rank, item in enumerate(order)
    ]
    data = alt.Data(values=rows)
    x = alt.X("rank:Q", scale=alt.Scale(type="log", domain=[0.9, 1.15 * ITEMS], nice=False),
              title="item, most sold first", axis=alt.Axis(values=[1, 10, 100, ITEMS], grid=False))  # fmt: skip
    scale = alt.Scale(type="symlog", constant=10, domain=[0, 20_000])
    axis = alt.Axis(values=[0, 10, 100, 1000, 10_000], title="records", format=",d")
    dots = alt.Chart(data).mark_circle(color=PUBLISHED, opacity=0.75, size=26)
    line = alt.Chart(data).mark_line(color=TRUE, strokeWidth=6, opacity=0.6, strokeCap="round", strokeJoin="round")
    words = [(1.2, 60, "true", QUIET), (1.2, 22, "published", PUBLISHED)]
    return alt.layer(
        line.encode(x=x, y=alt.Y("true:Q", scale=scale, axis=axis)),
        dots.encode(x="rank:Q", y=alt.Y("published:Q", scale=scale)),
        *(_word(text, at, colour, along="rank", up="true", height=height) for at, height, text, colour in words),
    ).properties(width=330, height=250, title=alt.TitleParams(text=title, fontSize=14, offset=8))


def _word(text: str, at: float, colour: str, *, along: str, up: str, height: float) -> Any:
    data = alt.Data(values=[{along: at, up: height, "text": text}])
    mark = alt.Chart(data).mark_text(align="left", color=colour, fontSize=13, fontWeight="bold")
    return mark.encode(x=f"{along}:Q", y=f"{up}:Q", text="text:N")


# --- the flow through the rooms ----------------------------------------------------------------------------------

STATIONS = (
    ("rows", "sources", "a table in an engine"),
    ("counts", "counts", "how many in each cell"),
    ("noise", "noise", "exact, secret, integer"),
    ("tidying", "postprocess", "no negatives, right total"),
    ("release", "releases", "records and certificate"),
)
STEP, BOX, TOP, FOOT = 150, 118, 96, 34


def flow() -> Any:
    """Source, counts, noise, tidying, release: what is private on the left, what may leave on the right."""
    middle = 2 * STEP + BOX / 2
    end = 4 * STEP + BOX
    zones = [
        {"x": -16, "x2": middle, "y": 0, "y2": 175, "fill": "#efe9dc"},
        {"x": middle, "x2": end + 16, "y": 0, "y2": 175, "fill": "#e3efec"},
    ]
    boxes = [
        {"x": STEP * k, "x2": STEP * k + BOX, "y": FOOT, "y2": TOP, "name": name, "room": f"{room}/", "says": says,
         "middle": STEP * k + BOX / 2}
        for k, (name, room, says) in enumerate(STATIONS)
    ]  # fmt: skip
    arrows = [{"x": STEP * k + BOX + 4, "x2": STEP * (k + 1) - 8, "y": (FOOT + TOP) / 2} for k in range(4)]
    slats = [{"x": middle - 8, "x2": middle + 8, "y": y} for y in range(3, 176, 5) if y > TOP + 2]
    layers = [*_zones(zones, slats, middle, end), *_boxes(boxes), *_arrows(arrows), *_purse(middle)]
    return alt.layer(*layers).properties(width=end + 32, height=200)


def _across() -> alt.X:
    return alt.X("x:Q", axis=None, scale=alt.Scale(domain=[-16, 4 * STEP + BOX + 16], nice=False, zero=False))


def _up() -> alt.Y:
    return alt.Y("y:Q", axis=None, scale=alt.Scale(domain=[0, 175], nice=False))


def _at(height: float) -> alt.YDatum:
    return alt.YDatum(height, axis=None)


def _drawn(rows: Rows) -> alt.Chart:
    return alt.Chart(alt.Data(values=rows))


def _zones(zones: Rows, slats: Rows, middle: float, end: float) -> list[Any]:
    names = [
        {"x": -4, "y": 161, "text": "private: stays with the steward"},
        {"x": middle + 20, "y": 161, "text": "may leave the building"},
    ]
    area = (
        _drawn(zones)
        .mark_rect()
        .encode(x=_across(), x2="x2:Q", y=_up(), y2="y2:Q", fill=alt.Fill("fill:N", scale=None))
    )
    blind = _drawn(slats).mark_rule(color=CURTAIN, strokeWidth=2).encode(x=_across(), x2="x2:Q", y=_up())
    words = _drawn(names).mark_text(align="left", color=QUIET, fontSize=13)
    return [area, blind, words.encode(x=_across(), y=_up(), text="text:N")]


def _boxes(boxes: Rows) -> list[Any]:
    at = alt.X("middle:Q", axis=None)
    box = _drawn(boxes).mark_rect(fill=PAPER, stroke=INK, strokeWidth=1.2, cornerRadius=5)
    name = _drawn(boxes).mark_text(fontSize=16, fontWeight="bold", color=INK)
    room = _drawn(boxes).mark_text(fontSize=12, color=PUBLISHED, font="ui-monospace, monospace")
    says = _drawn(boxes).mark_text(fontSize=11.5, color=QUIET)
    return [
        box.encode(x=_across(), x2="x2:Q", y=_up(), y2="y2:Q"),
        name.encode(x=at, y=_at(FOOT + 40), text="name:N"),
        room.encode(x=at, y=_at(FOOT + 17), text="room:N"),
        says.encode(x=at, y=_at(FOOT - 16), text="says:N"),
    ]


def _arrows(arrows: Rows) -> list[Any]:
    shaft = _drawn(arrows).mark_rule(color=INK, strokeWidth=1.6)
    head = _drawn(arrows).mark_point(shape="triangle-right", filled=True, color=INK, size=90, opacity=1)
    return [shaft.encode(x=_across(), x2="x2:Q", y=_up()), head.encode(x=alt.X("x2:Q", axis=None), y=_up())]


def _purse(middle: float) -> list[Any]:
    rows = [{"x": middle, "y": 126, "y2": TOP + 6, "text": "ledger: spend first"}]
    plate = _drawn([{"x": middle - 66, "x2": middle + 66, "y": 118, "y2": 142}])
    shaft = _drawn(rows).mark_rule(color=WRONG, strokeWidth=1.6)
    head = _drawn(rows).mark_point(shape="triangle-down", filled=True, color=WRONG, size=80, opacity=1)
    words = _drawn(rows).mark_text(color=WRONG, fontSize=12.5, fontWeight="bold")
    return [
        shaft.encode(x=_across(), y=_up(), y2="y2:Q"),
        head.encode(x=_across(), y=alt.Y("y2:Q", axis=None)),
        plate.mark_rect(fill=PAPER, stroke=WRONG, cornerRadius=4).encode(x=_across(), x2="x2:Q", y=_up(), y2="y2:Q"),
        words.encode(x=_across(), y=_at(130), text="text:N"),
    ]


# --- what microdata does, on twelve cells ------------------------------------------------------------------------

CELLS = (31, 18, 12, 8, 6, 4, 3, 2, 1, 0, 0, 0)


def steps() -> Any:
    """Table, noise, nearest valid table, records."""
    rng = SeededRng(11)
    true = np.array(CELLS, dtype=np.int64)
    noisy = geometric(true, epsilon=Fraction(1), sensitivity=2, rng=rng)
    valid = find_nearest_table(noisy, total=int(true.sum()), rng=rng)
    panels = [
        _bars(true, "1  the table", f"true counts, total {true.sum()}", TRUE),
        _bars(noisy, "2  with noise", f"\u03b5 = 1, total {noisy.sum()}", TRUE),
        _bars(valid, "3  nearest valid table", f"none below 0, total {valid.sum()}", PUBLISHED),
        _records(valid, rng),
    ]
    return alt.hconcat(*panels, spacing=26)


def _bars(values: np.ndarray, title: str, subtitle: str, colour: str) -> Any:
    rows = [{"cell": "abcdefghijkl"[k], "count": int(value)} for k, value in enumerate(values)]
    bars = _drawn(rows).mark_bar(width=11).encode(
        x=alt.X("cell:N", title="cell", axis=alt.Axis(labelAngle=0, domain=False, ticks=False)),
        y=alt.Y("count:Q", title=None, scale=alt.Scale(domain=[-12, 40]), axis=alt.Axis(values=[*range(-10, 41, 10)])),
        color=alt.condition("datum.count < 0", alt.value(WRONG), alt.value(colour)),
    )  # fmt: skip
    zero = alt.Chart(alt.Data(values=[{}])).mark_rule(color=QUIET).encode(y=alt.datum(0))
    return alt.layer(bars, zero).properties(width=188, height=210, title=_heading(title, subtitle))


def _heading(title: str, subtitle: str) -> alt.TitleParams:
    return alt.TitleParams(text=title, subtitle=subtitle, fontSize=14, subtitleFontSize=12, offset=8)


def _records(valid: np.ndarray, rng: SeededRng) -> Any:
    cells = np.repeat(np.arange(valid.size), valid)[rng.permutation(int(valid.sum()))]
    lines = [f"{'abcdefghijkl'[cell]}" for cell in cells[:10]] + ["\u2026"]
    rows = [{"x": 0, "y": -k, "text": text} for k, text in enumerate(lines)]
    text = _drawn(rows).mark_text(fontSize=14, font="ui-monospace, monospace", color=PUBLISHED)
    encoded = text.encode(x=alt.X("x:Q", axis=None), y=alt.Y("y:Q", axis=None), text="text:N")
    return encoded.properties(width=96, height=210, title=_heading("4  records", "in random order"))


# --- the law of the noise, for two neighbours --------------------------------------------------------------------


def noise() -> Any:
    """The law of a published count on two neighbouring tables, whose true counts are 20 and 21."""
    scale = Fraction(2)
    rows = [
        {"value": value, "share": geometric_probability(value - true, scale=scale), "true": f"true count {true}"}
        for true in (20, 21)
        for value in range(9, 33)
    ]
    bars = _drawn(rows).mark_bar(opacity=0.85).encode(
        x=alt.X("value:O", title="count after noise", axis=alt.Axis(labelAngle=0, grid=False)),
        xOffset=alt.XOffset("true:N"),
        y=alt.Y("share:Q", title="probability", axis=alt.Axis(format="%")),
        color=alt.Color("true:N", title=None, scale=alt.Scale(range=[TRUE, PUBLISHED]),
                        legend=alt.Legend(orient="top-right", labelFontSize=13, labelColor=INK)),
    )  # fmt: skip
    title = alt.TitleParams(
        text="Two tables that differ by one, seen through the noise",
        subtitle="two-sided geometric noise of scale 2: bars of a pair differ by a factor of at most exp(1/2) = 1.65",
    )
    return bars.properties(width=680, height=230, title=title)


if __name__ == "__main__":
    main()
