"""Figures 9, 10, 13, 14 and 16 as SVG."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from papers.oguri2016.laws import normal_ks, plain_law
from papers.oguri2016.reproduce import NORMAL_PARTS, correlated, costs, seven

FOLDER = Path(__file__).with_name("pictures")
# colours that colour-blind readers can tell apart (Okabe, Ito)
COLOURS = {"PAK": "#d55e00", "OLA": "#0072b2", "Incognito": "#009e73", "Sudare auto": "#000000"}


def draw_figures(folder: Path = FOLDER) -> list[Path]:
    """Draw all five; no path, with a message, where the pictures extra is not installed."""
    try:
        import altair as alt
        import vl_convert  # noqa: F401
    except ImportError:
        print("figures need Altair and vl-convert: pip install 'sudare[pictures]'")
        return []
    folder.mkdir(exist_ok=True)
    charts = {9: _normal(alt), 10: _census(alt), 13: _costs(alt, 13, 50), 14: _costs(alt, 14, 2), 16: _fit(alt)}
    paths = []
    for number, chart in charts.items():
        paths.append(folder / f"figure{number}.svg")
        _styled(chart).save(str(paths[-1]))
    return paths


def _line_and_points(alt: Any, points: list[dict], x_title: str, title: str, most: float) -> Any:
    x = alt.X("x:Q", title=x_title, scale=alt.Scale(type="log", domain=[2, most], nice=False))
    y = alt.Y("k:Q", title="size of the smallest class", scale=alt.Scale(type="log"))
    kinds = alt.Scale(domain=["measured", "power law"], range=["#0072b2", "#d55e00"])
    colour = alt.Color("what:N", scale=kinds, legend=alt.Legend(title=None))
    base = alt.Chart(alt.Data(values=points), width=480, height=300, title=_title(alt, title))
    dots = base.transform_filter("datum.what == 'measured'").mark_point(filled=True, size=40, clip=True)
    line = base.transform_filter("datum.what == 'power law'").mark_line(clip=True)
    return dots.encode(x=x, y=y, color=colour) + line.encode(x=x, y=y, color=colour)


def _normal(alt: Any) -> Any:
    found = normal_ks(NORMAL_PARTS)
    a, b, _ = plain_law(found)
    points = [{"x": x, "k": round(k, 3), "what": "measured"} for x, k in found]
    points += [{"x": x, "k": round(a * x**b, 3), "what": "power law"} for x in range(2, NORMAL_PARTS + 1)]
    title = f"Figure 9. A normal distribution in x parts: {a:,.0f} x^{b:.2f}"
    return _line_and_points(alt, points, "parts", title, NORMAL_PARTS)


def _census(alt: Any) -> Any:
    one = seven()["census"]
    law = one.law(most_cells=5)
    points = [{"x": one.lattice.cells(node), "k": one.k[node], "what": "measured"} for node in one.nodes]
    steps = sorted({2.0 * 1.12**step for step in range(54)})
    points += [{"x": round(x, 3), "k": round(law.k_at(x), 3), "what": "power law"} for x in steps if x <= 846]
    return _line_and_points(alt, points, "cells", "Figure 10. Census, fitted on up to 5 cells", 846)


def _costs(alt: Any, number: int, k: int) -> Any:
    names = list(COLOURS)
    points = [
        {"data": name, "search": search, "cells": cells}
        for name, one in seven().items()
        for search, cells in costs(one, k).items()
        if search in names
    ]
    scale = alt.Scale(domain=names, range=list(COLOURS.values()))
    return (
        alt.Chart(alt.Data(values=points), width=480, height=280)
        .mark_bar()
        .encode(
            x=alt.X("data:N", sort=list(seven()), title=None, axis=alt.Axis(labelAngle=0)),
            xOffset=alt.XOffset("search:N", sort=names),
            y=alt.Y("cells:Q", title="cells looked at, of 3185", axis=alt.Axis(format=",d")),
            color=alt.Color("search:N", sort=names, scale=scale, legend=alt.Legend(title=None)),
        )
        .properties(title=_title(alt, f"Figure {number}. Cells looked at for k ≥ {k}"))
    )


def _fit(alt: Any) -> Any:
    points = [{"r": round(r, 4), "share": round(share, 4)} for r, share in correlated()]
    return (
        alt.Chart(alt.Data(values=points), width=480, height=280)
        .mark_point(filled=True, size=45, color="#0072b2")
        .encode(
            x=alt.X("r:Q", title="correlation of predicted and measured k", scale=alt.Scale(zero=False)),
            y=alt.Y("share:Q", title="PAK's cells / OLA's cells, k ≥ 2", axis=alt.Axis(format="%")),
        )
        .properties(title=_title(alt, "Figure 16. Fit and work, 50 services"))
    )


def _title(alt: Any, text: str) -> Any:
    return alt.Title(text, anchor="start", fontSize=13)


def _styled(chart: Any) -> Any:
    return (
        chart.configure(background="white")
        .configure_axis(gridColor="#e8e8e8", labelFontSize=11, titleFontSize=11, titleFontWeight="normal")
        .configure_view(stroke=None)
    )
