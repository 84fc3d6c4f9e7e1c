"""Figures 3-8: frequency and cumulative frequency by item at epsilon = 0.1, one trial, as SVG."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from papers.terada2017.rows import ROWS, Trial
from papers.terada2017.tables import SIZES
from sudare.noise import SeededRng

FOLDER = Path(__file__).with_name("pictures")
EPSILON = "0.1"
SEED = 2017
PER_ITEM = 10  # cells: two sexes, five decades
SINGLE_ITEMS = 20  # or a tenth; beyond them the frequency is a mean over neighbouring items, or noise hides everything
POINTS_PER_DECADE = 20
CUMULATIVE_POINTS = 250


class Line(NamedTuple):
    """One curve: the row it shows, and how."""

    row: str | None
    legend: str
    colour: str
    dash: list[int]
    width: float


# colours that colour-blind readers can tell apart (Okabe, Ito)
SERIES = [
    Line(None, "Original", "#000000", [1, 0], 2.2),
    Line("proposed", "Proposed", "#0072b2", [1, 0], 1.6),
    Line("pram", "PRAM", "#e69f00", [1, 0], 3.2),
    Line("synth-lap", "Synth-Lap", "#009e73", [1, 0], 1.6),
    Line("synth-md", "Synth-MD", "#7b3294", [4, 3], 1.4),
    Line("default", "Sudare", "#d55e00", [1, 0], 1.6),
    Line("default-ordered", "Sudare, items ordered", "#d55e00", [5, 3], 1.6),
]
ORDER = [line.legend for line in SERIES]

Points = list[dict[str, Any]]
Numbers = NDArray[np.float64]


def draw_figures(folder: Path = FOLDER) -> list[Path]:
    """Draw all six; returns no path, with a message, where the pictures extra is not installed."""
    try:
        import altair  # noqa: F401
        import vl_convert  # noqa: F401
    except ImportError:
        print("figures 3-8 need Altair and vl-convert: pip install 'sudare[pictures]'")
        return []
    folder.mkdir(exist_ok=True)
    return [path for size in SIZES for path in _figures_of(size, folder)]


def _figures_of(size: Mapping[str, Any], folder: Path) -> list[Path]:
    by_item = frequencies(size)
    number, next_number = size["figures"]
    caption = f"epsilon = {EPSILON}, p = {size['items'] * PER_ITEM:,}, n = {size['records']:,}"
    charts = {
        number: frequency_chart(by_item, f"Figure {number}. Records per item ({caption})"),
        next_number: cumulative_chart(by_item, f"Figure {next_number}. Cumulative records ({caption})"),
    }
    paths = []
    for figure, chart in charts.items():
        paths.append(folder / f"figure{figure}.svg")
        chart.save(str(paths[-1]))
    return paths


def frequencies(size: Mapping[str, Any]) -> dict[str, Numbers]:
    """Records per item of one trial, by legend."""
    trial = Trial.make(items=size["items"], records=size["records"], seed=SEED)
    found = {}
    for line in SERIES:
        if line.row is None:
            table = trial.dense["unordered"]
        else:
            row = ROWS[line.row]
            table = row.draw(trial.declared[row.data], EPSILON, SeededRng(SEED)).dense()
        found[line.legend] = table.reshape(size["items"], PER_ITEM).sum(axis=1).astype(np.float64)
    return found


def frequency_chart(by_item: Mapping[str, Numbers], title: str) -> Any:
    import altair as alt

    points: Points = []
    for legend, values in by_item.items():
        starts = bin_starts(values.size)
        ends = np.append(starts[1:], values.size)
        means = np.add.reduceat(values, starts) / (ends - starts)
        middle = np.sqrt((starts + 1.0) * ends)
        points += [
            {"item": round(x, 3), "records": round(y, 3), "output": legend} for x, y in zip(middle, means, strict=True)
        ]
    items = next(iter(by_item.values())).size
    x = alt.X(
        "item:Q",
        title="item, best-selling first",
        scale=alt.Scale(type="log", domain=[1, items], nice=False),
        axis=alt.Axis(values=[10**k for k in range(6) if 10**k <= items], format=",d"),
    )
    top = max(float(values.max()) for values in by_item.values())
    ticks = [0] + [10**k for k in range(6) if 10**k <= top]
    y = alt.Y(
        "records:Q",
        title="records per item (mean of neighbouring items in the tail)",
        scale=alt.Scale(type="symlog", constant=1, domain=[0, top], nice=False),
        axis=alt.Axis(values=ticks, format=",d"),
    )
    return _styled(points, x, y, title)


def cumulative_chart(by_item: Mapping[str, Numbers], title: str) -> Any:
    import altair as alt

    points: Points = []
    for legend, values in by_item.items():
        sums = np.concatenate([[0.0], np.cumsum(values)])
        places = np.unique(np.rint(np.linspace(0, values.size, CUMULATIVE_POINTS)).astype(np.int64))
        points += [{"item": int(x), "records": sums[x], "output": legend} for x in places]
    x = alt.X("item:Q", title="item, best-selling first", axis=alt.Axis(format=",d", tickCount=5))
    y = alt.Y("records:Q", title="records of this item and all before", axis=alt.Axis(format=",d", tickCount=5))
    return _styled(points, x, y, title)


def bin_starts(items: int) -> NDArray[np.int64]:
    """The first items by themselves, then groups that widen with the rank.

    >>> bin_starts(100)[:12].tolist()
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]
    """
    single = min(SINGLE_ITEMS, items // 10)
    points = round(POINTS_PER_DECADE * np.log10(items / single))
    wide = np.rint(np.geomspace(single, items, points + 1))[:-1]
    return np.unique(np.concatenate([np.arange(single), wide])).astype(np.int64)


def _styled(points: Points, x: Any, y: Any, title: str) -> Any:
    import altair as alt

    colours, dashes = [line.colour for line in SERIES], [line.dash for line in SERIES]
    widths = [line.width for line in SERIES]
    data: Any = alt.Data
    legend = alt.Legend(title=None, symbolStrokeWidth=2, symbolSize=300, labelFontSize=11)
    return (
        alt.Chart(data(values=points), width=520, height=320, title=alt.Title(title, anchor="start", fontSize=13))
        .mark_line(clip=True)
        .encode(
            x=x,
            y=y,
            color=alt.Color("output:N", sort=ORDER, scale=alt.Scale(domain=ORDER, range=colours), legend=legend),
            strokeDash=alt.StrokeDash("output:N", sort=ORDER, scale=alt.Scale(domain=ORDER, range=dashes)),
            strokeWidth=alt.StrokeWidth(
                "output:N", sort=ORDER, scale=alt.Scale(domain=ORDER, range=widths), legend=None
            ),
        )
        .configure(background="white")
        .configure_axis(gridColor="#e8e8e8", labelFontSize=11, titleFontSize=11, titleFontWeight="normal")
        .configure_view(stroke=None)
    )
