"""Figures 3 to 6 of the paper, and the size of a view against epsilon, as SVG."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from papers.kato_view.data import SETS
from papers.kato_view.errors import WORKLOADS
from papers.kato_view.makers import VIEWS
from papers.kato_view.tables import Found, mean, sets_in
from papers.kato_view.times import DOMAINS, FILLED, TIMED, domain_seconds, filled_seconds, view_bytes

LONG = re.compile(r"\d+\.\d{5,}")  # digits of a coordinate that nobody sees
FOLDER = Path(__file__).with_name("pictures")
# colours that colour-blind readers can tell apart (Okabe, Ito); shapes tell the families apart
LOOKS = {
    "model": ("#0f766e", "circle"),
    "product": ("#000000", "circle"),
    "mondrian": ("#d55e00", "square"),
    "hdpview": ("#e69f00", "square"),
    "privtree": ("#cc79a7", "square"),
    "privbayes": ("#0072b2", "diamond"),
    "dawa, published program": ("#8c6d31", "triangle-up"),
    "identity, expected": ("#999999", "cross"),
    "hdmm, kron": ("#56b4e9", "triangle-down"),
    "hdmm, marginals": ("#3b4cc0", "triangle-down"),
}
ORDER = ("1-way ranges", "2-way", "3-way", "Prefix-2D", "Prefix-3D", "Range-2D", "Range-3D", "Range-4D")
SHOWN4 = ("2-way", "Prefix-2D", "Range-2D", "Range-3D", "Range-4D", "1-way ranges")
WORST = "identity, expected"  # two powers of ten above all others
EPSILONS = ("0.25", "0.5", "1", "2", "4")


def draw_figures(found: Found, folder: Path = FOLDER) -> list[Path]:
    """Draw all; no path, with a message, where the pictures extra is not installed."""
    try:
        import altair as alt
        import vl_convert
    except ImportError:
        print("figures need Altair and vl-convert: pip install 'sudare[pictures]'")
        return []
    folder.mkdir(exist_ok=True)
    charts = {
        "figure3": _sets(alt, found),
        "figure4": _epsilons(alt, found),
        "figure5": _domains(alt),
        "figure6": _seconds(alt, found),
        "sizes": _sizes(alt),
    }
    paths = []
    for name, chart in charts.items():
        paths.append(folder / f"{name}.svg")
        svg = LONG.sub(lambda number: f"{float(number[0]):.2f}", vl_convert.vegalite_to_svg(_styled(chart).to_dict()))
        paths[-1].write_text(svg + "\n", encoding="utf-8")
    return paths


def _sets(alt: Any, found: Found) -> Any:
    panels = []
    shown = [method for method in LOOKS if any(key[1] == method for key in found)]
    for name in sets_in(found):
        rows = [
            {"workload": workload, "RMSE": float(value), "method": method}
            for method in LOOKS
            if (name, method, "1") in found
            for workload, value in zip(WORKLOADS, mean(found[name, method, "1"]), strict=True)
            if not np.isnan(value)
        ]
        top = 20 * max(row["RMSE"] for row in rows if row["method"] in ("mondrian", "hdpview", "privbayes", "privtree"))
        panels.append(
            _points(alt, [row for row in rows if row["RMSE"] <= top], shown, width=250, height=210)
            .encode(
                x=alt.X("workload:N", sort=ORDER, title=None, axis=alt.Axis(labelAngle=-45)),
                y=alt.Y("RMSE:Q", scale=alt.Scale(type="log"), title="RMSE, records"),
            )
            .properties(title=_title(alt, name))
        )
    return alt.concat(*panels, columns=3).properties(
        title=_title(alt, "Figure 3. Error at epsilon = 1; beyond 20 times the worst block method is left out")
    )


def _epsilons(alt: Any, found: Found) -> Any:
    panels = []
    shown = [method for method in LOOKS if method != WORST and ("numeric-adult", method, "1") in found]
    for workload in SHOWN4:
        place = WORKLOADS.index(workload)
        rows = [
            {"epsilon": float(one), "RMSE": float(mean(found["numeric-adult", method, one])[place]), "method": method}
            for method in shown
            for one in EPSILONS
            if ("numeric-adult", method, one) in found
        ]
        x = alt.X("epsilon:Q", scale=alt.Scale(type="log", domain=[0.22, 4.5], nice=False), axis=_ticks(alt))
        y = alt.Y("RMSE:Q", scale=alt.Scale(type="log"), title="RMSE, records")
        lines = _lines(alt, rows, shown, width=240, height=190).encode(x=x, y=y)
        panels.append((lines + _points(alt, rows, shown).encode(x=x, y=y)).properties(title=_title(alt, workload)))
    return alt.concat(*panels, columns=3).properties(
        title=_title(alt, "Figure 4. Numeric Adult, error against epsilon")
    )


def _ticks(alt: Any) -> Any:
    return alt.Axis(values=[float(one) for one in EPSILONS])


def _domains(alt: Any) -> Any:
    domain = [
        {"cells": 10.0**power, "s": domain_seconds(method, power), "method": method}
        for method in TIMED
        for power in DOMAINS
    ]
    filled = [
        {"cells": 10.0**power, "s": filled_seconds(method, power), "method": method}
        for method in TIMED
        for power in FILLED
    ]
    panels = [
        _timed(alt, domain, "cells of the domain", "100,000 records"),
        _timed(alt, filled, "filled cells, of 1e10", "1,000,000 records"),
    ]
    return alt.hconcat(*panels).properties(title=_title(alt, "Figure 5. Run time of a view"))


def _timed(alt: Any, rows: list[dict[str, Any]], title: str, head: str) -> Any:
    x = alt.X("cells:Q", scale=alt.Scale(type="log"), title=title, axis=alt.Axis(format="e", tickCount=6))
    y = alt.Y("s:Q", scale=alt.Scale(type="log"), title="CPU seconds")
    lines = _lines(alt, rows, TIMED, width=330, height=240).encode(x=x, y=y)
    return (lines + _points(alt, rows, TIMED).encode(x=x, y=y)).properties(title=_title(alt, head))


def _seconds(alt: Any, found: Found) -> Any:
    shown = [method for method in LOOKS if method != WORST]
    rows = [
        {"set": name, "s": float(np.median([run.cpu for run in found[name, method, "1"]])), "method": method}
        for name in sets_in(found)
        for method in shown
        if (name, method, "1") in found
    ]
    return (
        _points(alt, rows, shown, width=560, height=280)
        .encode(
            x=alt.X("set:N", sort=list(SETS), title=None, axis=alt.Axis(labelAngle=0)),
            y=alt.Y("s:Q", scale=alt.Scale(type="log"), title="CPU seconds"),
        )
        .properties(
            title=_title(alt, "Figure 6. Run time on the real sets (HDMM: search of strategies for 8 workloads)")
        )
    )


def _sizes(alt: Any) -> Any:
    rows = [
        {"epsilon": float(one), "KB": view_bytes("numeric-adult", method, one) / 1000, "method": method}
        for method in VIEWS
        for one in EPSILONS
    ]
    x = alt.X("epsilon:Q", scale=alt.Scale(type="log", domain=[0.22, 4.5], nice=False), axis=_ticks(alt))
    y = alt.Y("KB:Q", scale=alt.Scale(type="log"), title="kilobytes of Parquet")
    lines = _lines(alt, rows, VIEWS, width=420, height=240).encode(x=x, y=y)
    return (lines + _points(alt, rows, VIEWS).encode(x=x, y=y)).properties(
        title=_title(alt, "Size of a view of numeric Adult against epsilon")
    )


def _points(alt: Any, rows: list[dict[str, Any]], shown: Sequence[str], **size: int) -> Any:
    shape = alt.Shape("method:N", scale=_looks(alt, shown, 1), title=None)
    chart = alt.Chart(alt.Data(values=rows), **size).mark_point(filled=True, size=55, opacity=0.9)
    return chart.encode(color=_colour(alt, shown), shape=shape)


def _lines(alt: Any, rows: list[dict[str, Any]], shown: Sequence[str], **size: int) -> Any:
    return alt.Chart(alt.Data(values=rows), **size).mark_line().encode(color=_colour(alt, shown))


def _colour(alt: Any, shown: Sequence[str]) -> Any:
    return alt.Color("method:N", scale=_looks(alt, shown, 0), title=None)


def _looks(alt: Any, shown: Sequence[str], part: int) -> Any:
    """The same methods in every panel of a figure: panels share one legend."""
    return alt.Scale(domain=list(shown), range=[LOOKS[name][part] for name in shown])


def _title(alt: Any, text: str) -> Any:
    return alt.Title(text, anchor="start", fontSize=13)


def _styled(chart: Any) -> Any:
    return (
        chart.configure(background="white")
        .configure_axis(gridColor="#e8e8e8", labelFontSize=11, titleFontSize=11, titleFontWeight="normal")
        .configure_view(stroke=None)
    )
