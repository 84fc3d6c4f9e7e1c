"""Draw the pictures of the view: `python docs/pictures/make_view.py [DIRECTORY FOR PNG]`. Made-up data only."""

from __future__ import annotations

import sys
from pathlib import Path

import altair as alt
import numpy as np
import vl_convert
from make import _LONG, PAPER, PLACE, PUBLISHED, TRUE, WRONG, _dressed

from sudare.compare.distances import TrueTable, random_ranges, rmse_of_ranges
from sudare.counts import Counts
from sudare.methods.view import View, open_view
from sudare.noise import SeededRng
from sudare.schema import Attribute, NumberBins, Schema, Values
from sudare.testing import Tabled

ROWS = 50_000
JOBS = ("school", "part time", "full time", "retired")
WAYS = {"model": PUBLISHED, "product": TRUE, "mondrian": WRONG}


def main() -> None:
    """Draw all; with a directory as argument, also as PNG into it, to be looked at."""
    for name, chart in {"view-marginals": marginals(), "view-blocks": blocks(), "view-error": error()}.items():
        spec = _dressed(chart).to_dict()
        svg = _LONG.sub(lambda number: f"{float(number[0]):.2f}", vl_convert.vegalite_to_svg(spec))
        (PLACE / f"{name}.svg").write_text(svg + "\n", encoding="utf-8")
        for directory in sys.argv[1:]:
            Path(directory, f"{name}.png").write_bytes(vl_convert.vegalite_to_png(spec, scale=2))


def residents() -> Counts:
    """50,000 made-up residents: age, job, hours worked a week, income in thousands; each depends on those before."""
    schema = Schema(
        name="residents",
        attributes=(
            Attribute(name="age", domain=NumberBins.of_width(0, 100, 2)),
            Attribute(name="job", domain=Values(JOBS)),
            Attribute(name="hours", domain=NumberBins.of_width(0, 80, 2)),
            Attribute(name="income", domain=NumberBins.of_width(0, 1000, 20)),
        ),
    )
    rng = np.random.default_rng(2022)
    age = np.clip(rng.gamma(6, 8, ROWS), 0, 99)
    job = np.select([age < 18, age > 66], [0, 3], rng.choice([1, 2], ROWS, p=[0.3, 0.7]))
    hours = np.select([job == 1, job == 2], [rng.normal(20, 6, ROWS), rng.normal(42, 5, ROWS)], 0).clip(0, 79)
    income = (hours * rng.gamma(8, 1.2, ROWS) + 4 * age * (job == 3)).clip(0, 999)
    codes = np.column_stack([age // 2, job, hours // 2, income // 20]).astype(np.int64)
    return Counts.from_columns(schema, codes)


def marginals() -> alt.Chart:
    """One-way and two-way tables, true beside the view."""
    truth = residents()
    view = open_view(View(epsilon=1).publish(Tabled(truth), rng=SeededRng(1)))
    exact = TrueTable(truth)
    ages = [
        {"age": 2 * code, "records": float(value), "which": which}
        for which, told in (("true", exact.marginal(["age"])), ("view", view.marginal(["age"])))
        for code, value in enumerate(told)
    ]
    line = (
        alt.Chart(alt.Data(values=ages), width=300, height=230)
        .mark_line(interpolate="step-after")
        .encode(
            x=alt.X("age:Q"),
            y=alt.Y("records:Q"),
            color=alt.Color("which:N", scale=alt.Scale(domain=["true", "view"], range=[TRUE, PUBLISHED]), title=None),
        )
    )
    maps = [_map(told.marginal(["age", "hours"]), which) for which, told in (("true", exact), ("view", view))]
    return alt.hconcat(line, *maps).properties(
        title={
            "text": "What a view keeps at epsilon = 1",
            "subtitle": "50,000 made-up residents, four attributes; hours a week by age: true, then the view",
        }
    )


def _map(table: np.ndarray, which: str) -> alt.Chart:
    coarse = table.reshape(25, 2, 20, 2).sum(axis=(1, 3))
    cells = [
        {"age": 4 * a, "hours": 4 * h, "age2": 4 * a + 4, "hours2": 4 * h + 4, "records": float(np.log1p(max(v, 0)))}
        for (a, h), v in np.ndenumerate(coarse)
    ]
    return (
        alt.Chart(alt.Data(values=cells), width=190, height=230, title=which)
        .mark_rect()
        .encode(
            x=alt.X("age:Q", title="age", scale=alt.Scale(domain=[0, 100], nice=False)),
            x2="age2:Q",
            y=alt.Y("hours:Q", title="hours a week", scale=alt.Scale(domain=[0, 80], nice=False)),
            y2="hours2:Q",
            color=alt.Color("records:Q", scale=alt.Scale(range=[PAPER, PUBLISHED]), legend=None),
        )
    )


def blocks() -> alt.Chart:
    """The blocks that Mondrian cuts two attributes into."""
    truth = residents().project(["age", "hours"])
    charts = []
    for method, title in (("mondrian", "mondrian"), ("hdpview", "hdpview")):
        release = View(epsilon=1, algorithm=method).publish(Tabled(truth), rng=SeededRng(1))  # type: ignore[arg-type]
        columns = {name: np.asarray(column) for name, column in release.frames["blocks"].columns.items()}
        cells = (columns["hi_age"] - columns["lo_age"] + 1) * (columns["hi_hours"] - columns["lo_hours"] + 1)
        rows = [
            {"age": 2 * int(a), "age2": 2 * int(b) + 2, "hours": 2 * int(c), "hours2": 2 * int(d) + 2, "density": e}
            for a, b, c, d, e in zip(
                columns["lo_age"],
                columns["hi_age"],
                columns["lo_hours"],
                columns["hi_hours"],
                np.log1p(np.maximum(columns["count"], 0) / cells).tolist(),
                strict=True,
            )
        ]
        charts.append(
            alt.Chart(alt.Data(values=rows), width=330, height=300, title=f"{title}: {len(rows)} blocks")
            .mark_rect(stroke=WRONG, strokeWidth=0.5, strokeOpacity=0.6)
            .encode(
                x=alt.X("age:Q", title="age", scale=alt.Scale(domain=[0, 100], nice=False)),
                x2="age2:Q",
                y=alt.Y("hours:Q", title="hours a week", scale=alt.Scale(domain=[0, 80], nice=False)),
                y2="hours2:Q",
                color=alt.Color("density:Q", scale=alt.Scale(range=[PAPER, PUBLISHED]), legend=None),
            )
        )
    return alt.hconcat(*charts).properties(
        title={"text": "Blocks of a view of two attributes", "subtitle": "epsilon = 1; darker: more records a cell"}
    )


def error() -> alt.Chart:
    """Error of random three-way ranges against epsilon."""
    truth = residents()
    lows, highs = random_ranges(truth.schema, 3, queries=500, rng=SeededRng(3))
    exact = TrueTable(truth).ranges(lows, highs)
    rows = []
    for epsilon in ("0.1", "0.3", "1", "3", "10"):
        for method in WAYS:
            found = [
                rmse_of_ranges(
                    exact,
                    open_view(
                        View(epsilon=epsilon, algorithm=method).publish(Tabled(truth), rng=SeededRng(seed))  # type: ignore[arg-type]
                    ),
                    lows,
                    highs,
                ).value
                for seed in (1, 2, 3)
            ]
            rows.append({"epsilon": float(epsilon), "RMSE": float(np.mean(found)), "method": method})
    return (
        alt.Chart(alt.Data(values=rows), width=520, height=280)
        .mark_line(point=True)
        .encode(
            x=alt.X("epsilon:Q", scale=alt.Scale(type="log"), axis=alt.Axis(values=[0.1, 0.3, 1, 3, 10])),
            y=alt.Y("RMSE:Q", scale=alt.Scale(type="log"), title="RMSE, records"),
            color=alt.Color("method:N", scale=alt.Scale(domain=list(WAYS), range=list(WAYS.values())), title=None),
        )
        .properties(
            title={
                "text": "Error of ranges over three attributes",
                "subtitle": "50,000 made-up residents; replace-one neighbours; mean of three runs",
            }
        )
    )


if __name__ == "__main__":
    main()
