"""How many true sums lie within the published margins of a map: cells, irregular regions and rectangles, by thirds.

python -m benchmarks.table_cover [--least 3000] [--maps census,clustered,suburbs] [--epsilons 1/10,1] [--xy]

Every release is drawn anew on a map of 80 x 80 cells (1 km mesh of one area); with --xy of 272 x 272 cells in two
columns of numbers, where squares of 256, 64, 16 and 4 are measured. The figures of a kind are put in order of their
true sums and parted in thirds, from thin to dense; releases are drawn until each third has at least `--least` of them.
Both currencies (for epsilon: rho = epsilon^2 / 2) and both neighbour relations. `asked` counts the intervals of
`sudare query`, for rectangles. Seeds of these maps were used for no constant; the map of suburbs was made after all
constants were chosen.
"""

import argparse
import json
import resource
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.table_regions import box_sums, cascade, clustered, patches, rectangles, sparse
from benchmarks.table_regions import suburbs as made_suburbs
from sudare.asking.answers import answer
from sudare.counts import Counts
from sudare.demo.data import census_square
from sudare.methods.table import Table
from sudare.methods.table.asked import OpenedTable
from sudare.methods.table.estimates import TableFigures
from sudare.methods.table.measured import MeasuredTable, measure_levels
from sudare.methods.table.squares import SquareLayout
from sudare.noise import SystemRng
from sudare.schema import Attribute, MeshCells, NumberBins, Schema

MESH_SIDE, XY_SIDE, REGIONS, BOXES, CELLS = 80, 272, 90, 90, 900
SAVED = Path(__file__).parent / "results" / "table_cover.json"
MAPS: dict[str, Callable[[int], np.ndarray]] = {
    "census": lambda side: census_square(rows=side, columns=side, people_per_cell=100, seed=131),
    "clustered": lambda side: clustered(side, 132),
    "sparse": lambda side: sparse(side, 133),
    "thin cascade": lambda side: cascade(side, 134, 3.0)[:side, :side],
    "suburbs": lambda side: made_suburbs((side, side), 135, 25 * side * side),
}


class Figures:
    """Sets of cells by leaf with their true sums, the same for all releases of a map."""

    def __init__(self, table: np.ndarray, layout: SquareLayout) -> None:
        by_leaf = np.empty(table.shape, dtype=np.int64)
        by_leaf[layout.rows, layout.columns_east] = layout.leaf_of_place
        chosen = np.random.default_rng(5).choice(table.size, CELLS, replace=False)
        nearest = patches(table.shape, REGIONS, 6).ravel()
        self.boxes = rectangles(table.shape, 7, BOXES)
        inside = [by_leaf[top:bottom, left:right].ravel() for top, bottom, left, right in self.boxes]
        groups = np.repeat(np.arange(len(inside)), [len(box) for box in inside])
        self.sets = {
            "cells": (by_leaf.ravel()[chosen], np.arange(CELLS), table.ravel()[chosen]),
            "regions": (by_leaf.ravel(), nearest, np.bincount(nearest, table.ravel(), minlength=REGIONS)),
            "rectangles": (np.concatenate(inside), groups, box_sums(table, self.boxes)),
        }

    def check(self, measured: MeasuredTable, counts: Counts) -> dict[str, np.ndarray]:
        """Tell for every set whether its true sum lies within its margin, in order of true sums.

        Margins are made of the noisy sums alone; no published count enters where no cell is cut.
        """
        found = {}
        for name, (leaves, groups, truth) in self.sets.items():
            estimates, errors = measured.squares.answer_groups(leaves, groups)
            factors = np.array([measured.factor_of(int(size)) for size in np.bincount(groups)])
            found[name] = (np.abs(estimates - truth) <= factors * errors)[np.argsort(truth, kind="stable")]
        found["asked"] = self._ask(measured, counts)
        return found

    def _ask(self, measured: MeasuredTable, counts: Counts) -> np.ndarray:
        opened = OpenedTable.of_cells(TableFigures(measured=measured, table=counts))
        leaves, groups, truth = self.sets["rectangles"]
        codes = measured.layout.columns(leaves)
        held = []
        for place in np.argsort(truth, kind="stable"):
            wanted = {}
            for position, attribute in enumerate(opened.schema.attributes):
                wanted[position] = np.zeros(attribute.size)
                wanted[position][codes[groups == place, position]] = 1.0
            estimate = answer(opened.moments([wanted]))
            held.append(estimate.low <= truth[place] <= estimate.high)
        return np.array(held)


def _count(table: np.ndarray, *, is_mesh: bool) -> Counts:
    if is_mesh:
        cells = MeshCells(level=3, area=("5339",))
        rows, columns = cells.grid(np.arange(cells.size))
        values = table[rows - rows.min(), columns - columns.min()]
        schema = Schema(name="map", attributes=(Attribute(name="mesh", domain=cells),))
    else:
        values, named = table.ravel(), zip("xy", table.shape, strict=True)
        sides = [Attribute(name=name, domain=NumberBins.of_width(0, size, 1)) for name, size in named]
        schema = Schema(name="map", attributes=tuple(sides))
    kept = np.flatnonzero(values)
    return Counts.build(schema, kept[:, None], values[kept])


def cover(name: str, promise: dict[str, Any], neighbours: str, least: int, *, is_mesh: bool = True) -> dict[str, Any]:
    """Draw releases of a map and count how many true sums the margins hold, by thirds."""
    table = MAPS[name](MESH_SIDE if is_mesh else XY_SIDE)
    counts, method = _count(table, is_mesh=is_mesh), Table(**promise)
    schema = counts.schema
    plan = method.plan(schema, neighbours=neighbours)  # type: ignore[arg-type]
    layout: Any = method.layout_of(schema)
    figures, held = Figures(table, layout), {}
    noises, rule = method.noises_of(schema, plan.steps), method.rule_of(schema, plan.steps)
    for _ in range(-(-least // (min(REGIONS, len(figures.boxes)) // 3))):
        for part, inside in figures.check(_measure(counts, layout, noises, plan.steps, rule), counts).items():
            held.setdefault(part, []).append(inside)
    thirds = {part: [np.concatenate(third) for third in _split(runs)] for part, runs in held.items()}
    return {
        "map": name,
        **{key: str(value) for key, value in promise.items()},
        "neighbours": neighbours,
        "figures": {part: len(found[0]) for part, found in thirds.items()},
        "held": {part: [round(float(third.mean()), 4) for third in found] for part, found in thirds.items()},
    }


def _measure(counts: Counts, layout: Any, noises: Any, budget: Any, rule: Any) -> MeasuredTable:
    """The noisy sums of a release, without the table that is made of them."""
    total, variance = counts.total, 0.0
    if budget.total_noise is not None:
        total = int(budget.total_noise.add(np.array([total]), rng=SystemRng())[0])
        variance = budget.total_noise.variance
    return measure_levels(counts, layout, noises, total=total, total_variance=variance, rng=SystemRng(), rule=rule)


def _split(runs: list[np.ndarray]) -> list[list[np.ndarray]]:
    parted = [np.array_split(run, 3) for run in runs]
    return [[run[third] for run in parted] for third in range(3)]


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--least", type=int, default=3000)
    parser.add_argument("--maps", default=",".join(MAPS))
    parser.add_argument("--epsilons", default="1/10,1")
    parser.add_argument("--xy", action="store_true")
    given = parser.parse_args(argv)
    results = []
    for name in given.maps.split(","):
        for epsilon in map(Fraction, given.epsilons.split(",")):
            for promise in ({"epsilon": epsilon}, {"rho": epsilon**2 / 2}):
                for neighbours in ("replace", "add-remove"):
                    results.append(cover(name, promise, neighbours, given.least, is_mesh=not given.xy))
                    print({key: value for key, value in results[-1].items() if key != "figures"}, flush=True)
    worst = {part: min((min(row["held"][part]), row["map"]) for row in results) for part in results[0]["held"]}
    most = {part: max((max(row["held"][part]), row["map"]) for row in results) for part in results[0]["held"]}
    print("lowest", worst, "highest", most, "figures of a third", results[0]["figures"])
    if given.maps == ",".join(MAPS) and not given.xy:
        SAVED.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print(f"{resource.getrusage(resource.RUSAGE_SELF).ru_utime:.0f} CPU s")


if __name__ == "__main__":
    main(sys.argv[1:])
