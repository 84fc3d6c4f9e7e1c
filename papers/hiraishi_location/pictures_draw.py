"""Figures 1-3 as SVG, and the maps behind them: posterior, distance and weights before and after."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from papers.hiraishi_location.figures_data import EPSILONS, GRID, READINGS, Numbers, after, before
from sudare.methods.location import Location
from sudare.methods.location.posterior import measure_mechanism

FOLDER = Path(__file__).with_name("pictures")
COLOURS = {"before": "#000000", "after, uniform": "#0072b2", "after, weights": "#d55e00", "fair": "#009e73"}


def draw(folder: Path = FOLDER) -> list[Path]:
    """Draw all; returns no path, with a message, where the pictures extra is not installed."""
    try:
        import altair  # noqa: F401
        import vl_convert  # noqa: F401
    except ImportError:
        print("figures 1-3 need Altair and vl-convert: pip install 'sudare[pictures]'")
        return []
    folder.mkdir(exist_ok=True)
    paths = []
    for name, chart in (("figure1", figure1()), ("figure2", figure2()), ("figure3", figure3()), ("maps", maps())):
        paths.append(folder / f"{name}.svg")
        chart.save(str(paths[-1]))
    return paths


def figure1() -> Any:
    """Largest and smallest chance of a true report, and posterior, by epsilon."""
    plain = [(epsilon, before(epsilon)) for epsilon in EPSILONS]
    left = [point(epsilon, value, "before", which) for epsilon, one in plain for which, value in ends(one.report_true)]
    right = [point(epsilon, value, "before", which) for epsilon, one in plain for which, value in ends(one.posterior)]
    return _dressed(
        _beside([_curves(left, "Figure 1a. Pr(O = r | A = r)", ""), _curves(right, "Figure 1b. Pr(A = r | O = r)", "")])
    )


def figure2() -> Any:
    """Posterior and expected distance before and after, under both readings, and with fair weights."""
    left, right = [], []
    for epsilon in EPSILONS:
        cases = {"before": before(epsilon)} | {f"after, {one}": after(epsilon, one)[1] for one in READINGS}
        fair = measure_mechanism(Location(grid=GRID, epsilon_per_metre=epsilon, mode="fair").mechanism())
        for name, one in (cases | {"fair": fair}).items():
            left += [point(epsilon, value, name, which) for which, value in ends(one.posterior)]
            right.append(point(epsilon, float(one.distance.mean()), name, "map"))
            right.append(point(epsilon, float(one.distance[0]), name, "corner"))
    titles = "Figure 2a. Pr(A = r | O = r)", "Figure 2b. Expected distance, metres"
    return _dressed(_beside([_curves(left, titles[0], ""), _curves(right, titles[1], "")]))


def figure3() -> Any:
    """Weights after algorithm 1 at two epsilons under both readings, and fair ones."""
    rows = []
    for epsilon in ("0.02", "0.03"):
        panels = {f"{epsilon}, {one} prior": after(epsilon, one)[0] for one in READINGS}
        fair = Location(grid=GRID, epsilon_per_metre=epsilon, mode="fair").mechanism().shares
        rows.append(
            _beside([_map(values, title, "blues") for title, values in {**panels, f"{epsilon}, fair": fair}.items()])
        )
    return _dressed(_stack(rows, "Figure 3. Weights after algorithm 1 under both readings, and fair weights"))


def maps() -> Any:
    """Posterior and expected distance of every cell at epsilon = 0.02."""
    fair = measure_mechanism(Location(grid=GRID, epsilon_per_metre="0.02", mode="fair").mechanism())
    cases = {"before": before("0.02"), "after, uniform prior": after("0.02", "uniform")[1], "fair": fair}
    told = [_map(one.posterior, f"posterior, {name}", "orangered", [0.2, 0.6]) for name, one in cases.items()]
    far = [_map(one.distance, f"distance, {name}", "purples", [100, 260]) for name, one in cases.items()]
    return _dressed(_stack([_beside(told), _beside(far)], "Posterior and expected distance (m), epsilon = 0.02"))


def ends(values: Numbers) -> list[tuple[str, float]]:
    """The largest and the smallest."""
    return [("max", float(np.nanmax(values))), ("min", float(np.nanmin(values)))]


def point(epsilon: str, value: float, name: str, which: str) -> dict[str, Any]:
    """One point of a curve."""
    return {"epsilon": float(epsilon), "value": round(value, 5), "weights": name, "which": which}


def _curves(points: list[dict[str, Any]], title: str, y: str) -> Any:
    import altair as alt

    names = [name for name in COLOURS if any(one["weights"] == name for one in points)]
    scale = alt.Scale(domain=names, range=[COLOURS[name] for name in names])
    dashes = alt.Scale(domain=list(dict.fromkeys(one["which"] for one in points)), range=[[1, 0], [4, 3]])
    data: Any = alt.Data
    return (
        alt.Chart(data(values=points), width=330, height=260, title=alt.Title(title, anchor="start", fontSize=13))
        .mark_line()
        .encode(
            x=alt.X("epsilon:Q", title="epsilon per metre"),
            y=alt.Y("value:Q", title=y or None),
            color=alt.Color("weights:N", scale=scale, title="weights"),
            strokeDash=alt.StrokeDash("which:N", title=None, scale=dashes, legend=alt.Legend(symbolType="stroke")),
        )
    )


def _map(values: Numbers, title: str, scheme: str, domain: list[float] | None = None) -> Any:
    import altair as alt

    cells = [
        {"row": int(k // GRID.columns), "column": int(k % GRID.columns), "value": round(float(v), 4)}
        for k, v in enumerate(values)
    ]
    data: Any = alt.Data
    scale = alt.Scale(scheme=scheme, domain=domain or [0, 1], clamp=True)
    return (
        alt.Chart(data(values=cells), width=200, height=164, title=alt.Title(title, anchor="start", fontSize=11))
        .mark_rect()
        .encode(
            x=alt.X("column:O", axis=None),
            y=alt.Y("row:O", axis=None),
            color=alt.Color("value:Q", scale=scale, title=None),
        )
    )


def _beside(charts: list[Any]) -> Any:
    import altair as alt

    return alt.hconcat(*charts).resolve_scale(color="shared", strokeDash="independent")


def _stack(charts: list[Any], title: str) -> Any:
    import altair as alt

    return alt.vconcat(*charts, title=alt.Title(title, anchor="start", fontSize=13)).resolve_scale(color="independent")


def _dressed(chart: Any) -> Any:
    return chart.configure(background="white").configure_view(stroke=None)
