"""Mode near beside clamped planar Laplace, grid and sharp, each as it is and renamed, on many maps, epsilons and towns.

Expected metres between a person and the cell that is told; near must never be above any of the others. Planar Laplace
is clamped to the nearest cell of the map; its law is summed over 80,000 offsets that fill the law evenly (quantiles of
the radius, golden angles): drawn offsets have a mean radius that is off by 1 %, as much as mechanisms differ.

    python -m benchmarks.location_near [--large]
"""

from __future__ import annotations

import sys
import time
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from benchmarks.location_cover import make_town
from sudare.methods.location.grid import PlaneGrid
from sudare.methods.location.kernel import distance_table
from sudare.methods.location.near import build_near_mechanism, find_expected_distance
from sudare.methods.location.weights import build_mechanism

Floats = NDArray[np.float64]
OFFSETS = 80_000


def spread_offsets(epsilon: float) -> Floats:
    """Spread offsets evenly over planar Laplace noise: a Gamma(2) radius and an angle, in metres."""
    from scipy.special import gammaincinv

    numbers = np.arange(OFFSETS)
    radius = gammaincinv(2, (numbers + 0.5) / OFFSETS) / epsilon
    angle = numbers * np.pi * (3 - np.sqrt(5))
    offsets: Floats = np.column_stack([radius * np.sin(angle), radius * np.cos(angle)])
    return offsets


def find_laplace_law(grid: PlaneGrid, epsilon: float, *, part: slice = slice(None)) -> Floats:
    """Give P(y|x) of planar Laplace clamped to the map, from common offsets or a part of them."""
    offsets = spread_offsets(epsilon)[part] / [float(grid.cell_height_metres), float(grid.cell_width_metres)]
    law = np.zeros((grid.size, grid.size))
    for cell in range(grid.size):
        at = np.rint(offsets + np.divmod(cell, grid.columns))
        rows, columns = (np.clip(at[:, axis], 0, size - 1).astype(int) for axis, size in enumerate(grid.shape))
        law[cell] = np.bincount(rows * grid.columns + columns, minlength=grid.size) / len(offsets)
    return law


def measure_law(law: Floats, people: Floats, distance: Floats) -> tuple[float, float]:
    """Give the expected metres of a law as it is, and renamed."""
    joint = people[:, None] * law
    return float((joint * distance).sum()), float((joint.T @ distance).min(axis=1).sum())


def compare(grid: PlaneGrid, epsilon: str, people: Floats) -> dict[str, float]:
    """Give the expected metres of every mechanism."""
    everywhere, distance, exact = np.ones(grid.size, dtype=np.bool_), distance_table(grid), Fraction(epsilon)
    begun = time.process_time()
    near = build_near_mechanism(grid, exact, people=people, cells=everywhere, inputs=everywhere)
    row = {"near": find_expected_distance(near, people), "seconds": time.process_time() - begun}
    for mode, slack in (("grid", "epsilon"), ("grid", "noise"), ("sharp", "noise")):
        law = build_mechanism(
            grid,
            exact,
            mode=mode,
            slack=slack,
            weights=None,
            inputs=everywhere,
            extra_distance=0.1,  # type: ignore
        )
        terms = np.concatenate([block for _, block in law.blocks()], axis=1)
        name = mode if slack == "epsilon" or mode == "sharp" else f"{mode}, all epsilon"
        row[name], row[f"{name}, renamed"] = measure_law(terms / terms.sum(axis=1, keepdims=True), people, distance)
    first, second = (find_laplace_law(grid, float(exact), part=slice(half, None, 2)) for half in (0, 1))
    row["planar Laplace"] = measure_law((first + second) / 2, people, distance)[0]
    # names are chosen by one half of the offsets and measured by the other: chosen and measured by the same ones they
    # fit the offsets, and look nearer by up to 1e-4 where epsilon is tiny
    names = ((people[:, None] * first).T @ distance).argmin(axis=1)
    row["planar Laplace, renamed"] = float((people[:, None] * second * distance[:, names]).sum())
    return row


def main() -> None:
    """Print the best other mechanism beside near, and how many cases near loses."""
    sizes = [(3, 3), (1, 12), (6, 6), (9, 14), (15, 15), (20, 20)]
    sizes += [(30, 30), (45, 45)] if "--large" in sys.argv else []
    lost = 0
    for rows, columns in sizes:
        grid = PlaneGrid(rows=rows, columns=columns, cell_height_metres=100, cell_width_metres=100)
        for epsilon in ("0.0002", "0.001", "0.003", "0.01", "0.03", "0.1"):
            for town in ("even", "peaks"):
                side = max(rows, columns)
                cut = make_town("peaks", side, rows).reshape(side, side)[:rows, :columns].ravel()
                people = np.full(grid.size, 1 / grid.size) if town == "even" else cut / cut.sum()
                row = compare(grid, epsilon, people)
                others = {name: metres for name, metres in row.items() if name not in ("near", "seconds")}
                best = min(others, key=lambda name: others[name])
                is_lost = row["near"] > others[best] * (1 + 1e-6)
                lost += is_lost
                print(
                    f"{rows}x{columns} {epsilon:>6} {town:5} near {row['near']:8.2f} best other {others[best]:8.2f}"
                    f" ({best}) {row['seconds']:.1f} s{' LOST' if is_lost else ''}",
                    flush=True,
                )
    print("lost", lost)


if __name__ == "__main__":
    main()
