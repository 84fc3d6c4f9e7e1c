"""Draw the pictures of the table: `python docs/pictures/make_table.py [DIRECTORY FOR PNG]`. Made-up data only.

The figures of two pictures were measured by `python -m benchmarks.table` and `python -m benchmarks.table --growth`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import vl_convert
from make import _LONG, INK, PLACE, PUBLISHED, TRUE, WRONG, _dressed

from sudare.counts import Counts
from sudare.demo.data import census_square, mesh_census
from sudare.methods.table import Table
from sudare.methods.table.tree import table_tree
from sudare.noise import SeededRng
from sudare.report.maps import draw_steward_map
from sudare.schema import Attribute, NumberBins, Schema

RESULTS = PLACE.parents[1] / "benchmarks/results"
CELLS = 256
EPSILON = "1/10"
WAYS = {
    "plain noise": TRUE,
    "wavelet": WRONG,
    "tree, regions": PUBLISHED,
    "tree, both": "#5b8fb9",
    "tree, cells": "#b7a67c",
}


def main() -> None:
    """Draw all; with a directory as argument, also as PNG into it, to be looked at."""
    for name, chart in {"table-tree": tree(), "table-error": error(), "table-growth": growth()}.items():
        spec = _dressed(chart).to_dict()
        svg = _LONG.sub(lambda number: f"{float(number[0]):.2f}", vl_convert.vegalite_to_svg(spec))
        _keep(name, svg + "\n", vl_convert.vegalite_to_png(spec, scale=2))
    picture = town()
    _keep("table-map", picture, vl_convert.svg_to_png(picture))


def _keep(name: str, svg: str, png: bytes) -> None:
    (PLACE / f"{name}.svg").write_text(svg, encoding="utf-8")
    for directory in sys.argv[1:]:
        Path(directory, f"{name}.png").write_bytes(png)


def town() -> str:
    """True and published people on cells of 500 m, as the steward may see them."""
    truth = mesh_census(level=4, area=("5339",), seed=1)
    drawn = Table(epsilon=EPSILON).draw(truth, rng=SeededRng(1))
    return draw_steward_map(
        truth.schema.attributes[0].domain,  # type: ignore[arg-type]
        drawn.codes[:, 0],
        drawn.values,
        true_codes=truth.codes[:, 0],
        true_people=truth.values,
        title=f"Made-up people, cells of 500 m, \u03b5 = {EPSILON}",
    )


def street() -> Counts:
    """A row of 256 cells cut out of a made-up census."""
    truth = census_square(rows=64, columns=CELLS, seed=3)[52]
    schema = Schema(name="row", attributes=(Attribute(name="cell", domain=NumberBins.of_width(0, CELLS, 1)),))
    filled = np.flatnonzero(truth)
    return Counts.build(schema, filled[:, None], truth[filled])


def tree() -> Any:
    """True and published sums at every level of the tree of one row of cells."""
    truth = street()
    drawn = Table(epsilon=EPSILON).draw(truth, rng=SeededRng(4))
    levels = table_tree(truth.schema)
    sizes = [levels.size(level) for level in range(len(levels.levels))]
    panels = [_level(truth.dense(), drawn.dense(), nodes) for nodes in sizes]
    title = alt.TitleParams(
        text="A table from the top down",
        subtitle=f"{truth.total:,} made-up people in {CELLS} cells, \u03b5 = {EPSILON}; grey: true, green: published",
    )
    return alt.vconcat(*panels, spacing=12).properties(title=title)


def _level(truth: np.ndarray, drawn: np.ndarray, nodes: int) -> Any:
    """Grey bars for the true sums, a green line for the published ones, each as wide as its node."""
    width = CELLS // nodes
    true, told = (each.reshape(nodes, width).sum(axis=1) for each in (truth, drawn))
    rows = [
        {"from": place * width, "to": (place + 1) * width, "true": int(a), "published": int(b)}
        for place, (a, b) in enumerate(zip(true, told, strict=True))
    ]
    data = alt.Data(values=rows)
    x = alt.X("from:Q", scale=alt.Scale(domain=[0, CELLS], nice=False), axis=None)
    name = "all" if nodes == 1 else f"sums of {width} cells" if width > 1 else "cells"
    high = int(max(true.max(), told.max()))
    axis = alt.Axis(title=name, tickCount=3, format="~s", titleColor=INK, titleFontSize=13)
    y = alt.Y("true:Q", scale=alt.Scale(domain=[0, high], nice=True), axis=axis)
    bars = alt.Chart(data).mark_rect(color=TRUE, opacity=0.45).encode(x=x, x2="to:Q", y=y, y2=alt.datum(0))
    marks = alt.Chart(data).mark_rule(color=PUBLISHED, strokeWidth=2).encode(x=x, x2="to:Q", y=alt.Y("published:Q"))
    return alt.layer(bars, marks).properties(width=640, height=50 if nodes == 1 else 120)


def error() -> Any:
    """RMSE of block sums by the size of the block, as benchmarks/table.py measured it."""
    measured = json.loads((RESULTS / "table_errors.json").read_text(encoding="utf-8"))
    rows = [
        {"cells": cells, "rmse": value, "way": one["way"], "epsilon": f"\u03b5 = {one['epsilon']}"}
        for one in measured["rows"]
        if one["order"] == "Morton"
        for cells, value in zip(measured["blocks"], one["rmse"], strict=True)
    ]
    blocks = alt.Axis(values=[1, 16, 256, 4096, 65536], grid=False, format=",d")
    lines = alt.Chart(alt.Data(values=rows)).mark_line(point=True).encode(
        x=alt.X("cells:Q", title="cells of a block", scale=alt.Scale(type="log"), axis=blocks),
        y=alt.Y("rmse:Q", title="RMSE of a block's sum, records", scale=alt.Scale(type="log"),
                axis=alt.Axis(format="~s", values=[1, 10, 100, 1000, 10000])),
        color=alt.Color("way:N", title=None, sort=list(WAYS),
                        scale=alt.Scale(domain=list(WAYS), range=list(WAYS.values()))),
    )  # fmt: skip
    title = alt.TitleParams(text="What is known best depends on what was measured",
                            subtitle=f"a made-up census of 2^19 cells in Z-order, {measured['runs']} runs")  # fmt: skip
    facets = lines.properties(width=290, height=250).facet(
        column=alt.Column("epsilon:N", title=None, sort="descending")
    )
    return facets.properties(title=title)


def growth() -> Any:
    """CPU seconds by the number of cells, as benchmarks/table.py measured them."""
    measured = json.loads((RESULTS / "table_growth.json").read_text(encoding="utf-8"))
    rows = [{**one, "epsilon": f"\u03b5 = {one['epsilon']}", "way": one["way"].split(",")[0]} for one in measured]
    top = max(one["seconds"] for one in rows)
    lines = alt.Chart(alt.Data(values=rows)).mark_line(point=True).encode(
        x=alt.X("bits:Q", title="cells of the domain, as a power of two",
                axis=alt.Axis(grid=False, values=[20, 30, 40, 50, 60]), scale=alt.Scale(domain=[18, 62], nice=False)),
        y=alt.Y("seconds:Q", title="CPU seconds", scale=alt.Scale(domain=[0, 1.1 * top], nice=True)),
        color=alt.Color("way:N", title=None,
                        scale=alt.Scale(domain=["squares", "tree", "wavelet"],
                                        range=[PUBLISHED, WAYS["tree, both"], WRONG])),
    )  # fmt: skip
    title = alt.TitleParams(text="Time does not follow the domain",
                            subtitle="a million filled cells in 2^20 to 2^60 cells, one run")  # fmt: skip
    facets = lines.properties(width=290, height=220).facet(
        column=alt.Column("epsilon:N", title=None, sort="descending")
    )
    return facets.properties(title=title)


if __name__ == "__main__":
    main()
