"""Draw the pictures of docs/explanations/location.md: `python docs/pictures/make_location.py [PNG_DIRECTORY]`.

Everything is computed by the code from the coast that ships with it. Nothing is drawn at random.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import vl_convert

from sudare.demo.data import coast
from sudare.methods.location import Location
from sudare.methods.location.grid import PlaneGrid
from sudare.methods.location.posterior import MechanismMeasures, measure_mechanism

PLACE = Path(__file__).parent
FONT = "system-ui, 'Segoe UI', 'Noto Sans', 'Hiragino Sans', 'Yu Gothic', sans-serif"
PAPER, INK, QUIET, LINE, SEA = "#faf8f3", "#24323a", "#66757d", "#d9d4c7", "#dfe9ec"
PLAIN, SHARP, FAIR = "#8d9aa1", "#0f766e", "#c2410c"
SIDE = 32
EPSILON = "0.02"

_LONG = re.compile(r"\d+\.\d{3,}")  # hundredths of a pixel are enough


def main() -> None:
    """Draw both pictures; with a directory as argument, also as PNG into it, to be looked at."""
    for name, chart in (("location", shore()), ("location_sharp", sharp())):
        spec = _dressed(chart).to_dict()
        svg = _LONG.sub(lambda number: f"{float(number[0]):.2f}", vl_convert.vegalite_to_svg(spec))
        (PLACE / f"{name}.svg").write_text(svg + "\n", encoding="utf-8")
        for directory in sys.argv[1:]:
            Path(directory, f"{name}.png").write_bytes(vl_convert.vegalite_to_png(spec, scale=2))


def shore() -> Any:
    """Posterior, expected distance and weights on a coast, for three kinds of weights."""
    shares = coast(SIDE, SIDE).reshape(-1)
    grid = PlaneGrid(rows=SIDE, columns=SIDE, cell_height_metres="115.6", cell_width_metres="141.5")
    made = {
        title: Location(grid=grid, epsilon_per_metre=EPSILON, mode=mode, weights=shares).mechanism()
        for title, mode in (("equal weights", "grid"), ("land shares", "weighted"), ("fair weights", "fair"))
    }
    told = {title: measure_mechanism(one) for title, one in made.items()}
    rows = [
        _row(
            {_caption(title, one): one.posterior for title, one in told.items()}, "orangered", [0.2, 0.8], "posterior"
        ),
        _row(
            {f"{one.expected_distance:.0f} m on average": one.distance for one in told.values()},
            "purples",
            [50, 250],
            "distance, m",
        ),
        _row(
            {title: np.log10(one.shares + 1e-12) for title, one in made.items()},
            "blues",
            [-4, 0],
            "log10 weight",
            shares,
        ),
    ]
    title = alt.Title(
        "A coast at \u03b5 = 0.02 per metre",
        subtitle="Posterior that the reported cell is the true one; expected distance of a report; weights.",
    )
    return alt.vconcat(*rows, spacing=18).resolve_scale(color="independent").properties(title=title)


def _caption(title: str, told: MechanismMeasures) -> str:
    return f"{title}: {np.nanmin(told.posterior):.2f} to {np.nanmax(told.posterior):.2f}"


def _row(maps: dict[str, Any], scheme: str, domain: list[float], legend: str, land: Any = None) -> Any:
    panels = [_map(values, title, scheme, domain, legend, land) for title, values in maps.items()]
    return alt.hconcat(*panels, spacing=16)


def _map(values: Any, title: str, scheme: str, domain: list[float], legend: str, land: Any) -> Any:
    inside = ~np.isnan(values) if land is None else land > 0
    cells = [
        {"row": int(cell // SIDE), "column": int(cell % SIDE), "value": round(float(values[cell]), 3)}
        for cell in np.flatnonzero(inside)
    ]
    order = list(range(SIDE))
    colour = alt.Color(
        "value:Q",
        scale=alt.Scale(scheme=scheme, domain=domain, clamp=True),
        legend=alt.Legend(title=legend, gradientLength=120, titleColor=QUIET, labelColor=QUIET),
    )
    return (
        alt.Chart(alt.Data(values=cells), width=210, height=172, title=alt.Title(title, fontSize=12, offset=6))
        .mark_rect()
        .encode(
            x=alt.X("column:O", axis=None, scale=alt.Scale(domain=order, paddingInner=0)),
            y=alt.Y("row:O", axis=None, scale=alt.Scale(domain=order, paddingInner=0)),
            color=colour,
        )
        .properties(view=alt.ViewBackground(fill=SEA, stroke=None))
    )


def sharp() -> Any:
    """Expected distance by certified epsilon on the paper's map."""
    grid = PlaneGrid(rows=15, columns=15, cell_height_metres="115.6", cell_width_metres="141.5")
    ways = {
        "GridE as in the paper": ("grid", "epsilon"),
        "GridE, certified": ("grid", "noise"),
        "sharp": ("sharp", "noise"),
    }
    points = []
    for epsilon in ("0.004", "0.006", "0.008", "0.01", "0.015", "0.02", "0.03", "0.04"):
        for name, (mode, slack) in ways.items():
            told = Location(grid=grid, epsilon_per_metre=epsilon, mode=mode, slack=slack).preview()
            metres = round(told.figures["expected_distance_metres"], 2)
            points.append({"epsilon": float(epsilon), "metres": metres, "weights": name})
    title = alt.Title("The same promise with less noise", subtitle="15 x 15 cells of 115.6 m x 141.5 m")
    return (
        alt.Chart(alt.Data(values=points), width=520, height=260, title=title)
        .mark_line(strokeWidth=2.2)
        .encode(
            x=alt.X("epsilon:Q", title="promised epsilon per metre", scale=alt.Scale(domain=[0, 0.04])),
            y=alt.Y("metres:Q", title="expected distance of a report, metres"),
            color=alt.Color(
                "weights:N", title=None, sort=list(ways), scale=alt.Scale(domain=list(ways), range=[PLAIN, FAIR, SHARP])
            ),
        )
    )


def _dressed(chart: Any) -> Any:
    axis = {"labelColor": QUIET, "titleColor": QUIET, "gridColor": LINE, "domainColor": LINE, "tickColor": LINE}
    fonts = {"labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal"}
    return (
        chart.configure(background=PAPER, font=FONT, padding=18, aria=False)
        .configure_view(stroke=None)
        .configure_axis(**axis, **fonts)
        .configure_legend(labelColor=INK, titleColor=QUIET, titleFontWeight="normal")
        .configure_title(color=INK, subtitleColor=QUIET, fontSize=17, subtitleFontSize=13, anchor="start", offset=14)
        .configure_text(color=INK, fontSize=12)
    )


if __name__ == "__main__":
    main()
