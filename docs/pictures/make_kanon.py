"""Draw the pictures of k-anonymity: `python docs/pictures/make_kanon.py [DIRECTORY FOR PNG]`. Made-up data only."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import vl_convert
from make import _LONG, INK, LINE, PAPER, PLACE, PUBLISHED, QUIET, TRUE, WRONG, _dressed

from sudare.counts import Counts
from sudare.methods.kanon import KAnonymity
from sudare.methods.kanon.lattice import Lattice
from sudare.methods.kanon.risk import CLASS_SIZE_BINS, LatticePicture, compare_recoding, measure_lattice
from sudare.methods.kanon.tuples import Tuples
from sudare.schema import Attribute, NumberBins, Schema, TableHierarchy, Values
from sudare.schema.hierarchy_rules import intervals, prefecture_regions

K, ROWS = 5, 2000


def main() -> None:
    """Draw all; with a directory as argument, also as PNG into it, to be looked at."""
    for name, chart in {"kanon-lattice": lattice(), "kanon-classes": classes()}.items():
        spec = _dressed(chart).to_dict()
        svg = _LONG.sub(lambda number: f"{float(number[0]):.2f}", vl_convert.vegalite_to_svg(spec))
        (PLACE / f"{name}.svg").write_text(svg + "\n", encoding="utf-8")
        for directory in sys.argv[1:]:
            Path(directory, f"{name}.png").write_bytes(vl_convert.vegalite_to_png(spec, scale=2))


def members() -> Counts:
    """2,000 made-up members: sex, age by fives, prefecture."""
    ages = NumberBins.of_width(0, 100, 5)
    sexes = TableHierarchy.from_paths([("F", "*"), ("M", "*")])
    tree = prefecture_regions()
    schema = Schema(
        name="members",
        attributes=(
            Attribute(name="sex", domain=Values(("F", "M")), role="quasi", hierarchy=sexes),
            Attribute(name="age", domain=ages, role="quasi", hierarchy=intervals(ages, [10, 20])),
            Attribute(name="prefecture", domain=Values(tree.names[0]), role="quasi", hierarchy=tree),
        ),
    )
    rng = np.random.default_rng(2016)
    weights = 1 / np.arange(1, 48) ** 0.7
    places = rng.permutation(47)[rng.choice(47, ROWS, p=weights / weights.sum())]
    ages_drawn = np.clip(rng.normal(42, 17, ROWS) / 5, 0, 19).astype(int)
    return Counts.from_columns(schema, np.column_stack([rng.integers(0, 2, ROWS), ages_drawn, places]))


# --- the lattice, and the way of the search -------------------------------------------------------------------------


def lattice() -> Any:
    """Every way to generalise, by height; which keep k; which were looked at, in which order."""
    counts = members()
    outcome = KAnonymity(k=K).outcome(counts, counts.schema.names)
    found = outcome.result
    foretold = KAnonymity(k=K, search="pak").outcome(counts, counts.schema.names).result
    drawn = measure_lattice(
        Tuples.of(counts, counts.schema.names),
        Lattice(counts.schema.attributes),
        k=K,
        trace=found.trace,
        chosen=found.node,
        start=foretold.start,
    )
    places = _places(drawn)
    lines = [{"x": places[a][0], "y": places[a][1], "x2": places[b][0], "y2": places[b][1]} for a, b in drawn.edges]
    dots = [
        {
            "x": places[one.node][0],
            "y": places[one.node][1],
            "name": "".join(map(str, one.node)),
            "k": f"k = {one.k}",
            "state": "holds k = 5" if one.is_kept else "does not",
            "step": "" if one.step is None else f"{one.step}",
            "chosen": one.is_chosen,
            "start": one.is_start,
        }
        for one in drawn.nodes
    ]
    return _lattice_chart(lines, dots, len(found.trace), len(drawn.nodes))


def _places(drawn: LatticePicture) -> dict[tuple[int, ...], tuple[float, int]]:
    by_height: dict[int, list[tuple[int, ...]]] = {}
    for one in drawn.nodes:
        by_height.setdefault(one.height, []).append(one.node)
    return {
        node: (at - (len(nodes) - 1) / 2, height)
        for height, nodes in by_height.items()
        for at, node in enumerate(sorted(nodes))
    }


def _lattice_chart(lines: list[dict[str, Any]], dots: list[dict[str, Any]], checks: int, nodes: int) -> Any:
    x = alt.X("x:Q", axis=None, scale=alt.Scale(padding=30))
    y = alt.Y("y:Q", axis=None)
    edges = (
        alt.Chart(alt.Data(values=lines)).mark_rule(color=LINE, strokeWidth=1.2).encode(x=x, y=y, x2="x2:Q", y2="y2:Q")
    )
    base = alt.Chart(alt.Data(values=dots)).encode(x=x, y=y)
    colour = alt.Color(
        "state:N",
        scale=alt.Scale(domain=["holds k = 5", "does not"], range=[PUBLISHED, TRUE]),
        legend=alt.Legend(title=None, orient="top", labelColor=INK, labelFontSize=12, symbolSize=160),
    )
    ring = base.transform_filter("datum.chosen").mark_circle(size=1500, color=WRONG, opacity=1)
    square = base.transform_filter("datum.start").mark_square(
        size=1750, filled=False, stroke=INK, strokeWidth=1.6, strokeDash=[4, 3], opacity=1
    )
    circles = base.mark_circle(size=950, opacity=1).encode(color=colour)
    names = base.mark_text(color=PAPER, fontSize=12, fontWeight="bold").encode(text="name:N")
    ks = base.mark_text(color=QUIET, fontSize=11, dy=27).encode(text="k:N")
    steps = (
        base.transform_filter("datum.step != ''")
        .mark_text(color=WRONG, fontSize=13, dx=29, dy=-16)
        .encode(text="step:N")
    )
    title = alt.TitleParams(
        "All ways to generalise sex, age and prefecture",
        subtitle=[
            "2,000 made-up members. A node names the levels, coarser ones above; k is its smallest class.",
            f"Red numbers: what the search looked at, {checks} of {nodes}, in this order. Ringed: the best that holds"
            f" k = {K}.",
            "In a square: where the power law of PAK says to begin.",
        ],
    )
    return (edges + ring + square + circles + names + ks + steps).properties(width=760, height=520, title=title)


# --- class sizes before and after ------------------------------------------------------------------------------------


def classes() -> Any:
    """Share of rows in classes of each size, before and after three recodings."""
    counts = members()
    ways = {
        "one level per attribute": {"max_suppressed": "0.02"},
        "levels by value": {"max_suppressed": "0.02", "recoding": "value"},
        "Mondrian": {"recoding": "mondrian"},
    }
    rows = []
    for name, fields in ways.items():
        recoded = KAnonymity(k=K, **fields).outcome(counts, counts.schema.names).recoded
        found, pieces = compare_recoding(recoded), recoded.pieces
        rows += _bars("as it is", pieces.weights, ROWS) if not rows else []
        title = f"{name}: loss {found.total_loss:.2f}, {found.suppressed_rows} rows left out"
        rows += _bars(title, recoded.class_sizes, ROWS)
    ends = zip(CLASS_SIZE_BINS, (*CLASS_SIZE_BINS[1:], 0), strict=True)
    order = [f"{low}" if low == high - 1 else f"{low}–{high - 1}" for low, high in ends]
    order[-1] = f"{CLASS_SIZE_BINS[-1]}+"
    wide = alt.Chart(alt.Data(values=rows)).mark_bar(size=26)
    bars = wide.encode(
        x=alt.X("size:N", sort=order, axis=alt.Axis(title="rows in the class", labelAngle=0, labelFontSize=10)),
        y=alt.Y("share:Q", axis=alt.Axis(title="share of rows", format="%", tickCount=4)),
        color=alt.condition("datum.small", alt.value(WRONG), alt.value(PUBLISHED)),
    ).properties(width=400, height=130)
    title = alt.TitleParams(
        "How many rows look alike, before and after",
        subtitle=f"2,000 made-up members, k = {K}. Red: rows in classes of fewer than {K}.",
    )
    facet = alt.Facet("table:N", sort=list(dict.fromkeys(row["table"] for row in rows)), title=None)
    return bars.facet(facet=facet, columns=2).properties(title=title)


def _bars(table: str, sizes: Any, rows: int) -> list[dict[str, Any]]:
    found = []
    for low, high in zip(CLASS_SIZE_BINS, (*CLASS_SIZE_BINS[1:], 10**9), strict=True):
        inside = sizes[(sizes >= low) & (sizes < high)]
        text = f"{low}" if high == low + 1 else f"{low}+" if high == 10**9 else f"{low}–{high - 1}"
        found.append({"table": table, "size": text, "share": float(inside.sum() / rows), "small": high <= K})
    return found


if __name__ == "__main__":
    main()
