"""Locations: sums by FFT beside dense matrices, weights and certificates as maps grow, and the peer `qif`, in one run.

`python -m benchmarks location` takes about two minutes; with `--plot FILE.svg` the growth is drawn too.
"""

import sys
import time
from fractions import Fraction

import numpy as np

from sudare.demo.data import coast
from sudare.methods.location.grid import PlaneGrid, distances_from
from sudare.methods.location.kernel import make_kernel
from sudare.methods.location.mechanism import Mechanism, equal_weights, quantise_weights
from sudare.methods.location.posterior import find_posterior, measure_mechanism
from sudare.methods.location.sharp import build_sharp_mechanism
from sudare.methods.location.tight import certify_epsilon
from sudare.methods.location.weights import find_fair_weights

EPSILON = Fraction(1, 50)
SIDES = (15, 32, 50, 70, 100, 316, 1000)
MOST_DENSE = 70
COAST = 320


def square(side):
    return PlaneGrid(rows=side, columns=side, cell_height_metres="115.6", cell_width_metres="141.5")


def plain(grid):
    return Mechanism(places=grid, beta_per_metre=EPSILON / 2, weights=equal_weights(np.ones(grid.size, dtype=bool)))


def timed(work, *arguments, **options):
    begun = time.perf_counter()
    found = work(*arguments, **options)
    return found, time.perf_counter() - begun


def dense_posterior(grid):
    near = make_kernel(grid, float(EPSILON) / 2, algorithm="dense").decay
    alpha = 1 / near.sum(axis=1)
    return alpha / (near @ alpha)


def growth():
    """Seconds by number of cells: posterior (FFT and dense), certificate, sharp weights."""
    find_posterior(plain(square(20)))  # the first FFT pays for its import
    rows = []
    for side in SIDES:
        grid = square(side)
        fast, seconds = timed(lambda grid=grid: find_posterior(plain(grid)))
        row = {"cells": grid.size, "posterior": seconds}
        if side <= MOST_DENSE:
            slow, row["dense"] = timed(dense_posterior, grid)
            row["difference"] = float(np.abs(fast - slow).max())
        _, row["certificate"] = timed(certify_epsilon, plain(grid))
        _, row["sharp"] = timed(build_sharp_mechanism, grid, EPSILON, cells=np.ones(grid.size, dtype=bool))
        rows.append(row)
    return rows


def fairness():
    """Fair weights of a square and of a coast: seconds, gap, cost, and the largest posterior over the median."""
    shore = coast(COAST, COAST).reshape(-1)
    for name, grid, cells in (
        ("100 x 100 cells", square(100), np.ones(10_000, dtype=bool)),
        (f"coast, {int((shore > 0).sum()):,} land cells", square(COAST), shore > 0),
    ):
        before = measure_mechanism(Mechanism(places=grid, beta_per_metre=EPSILON / 2, weights=equal_weights(cells)))
        weights, seconds = timed(find_fair_weights, grid, EPSILON / 2, cells=cells, extra_distance=0.1)
        after = measure_mechanism(Mechanism(places=grid, beta_per_metre=EPSILON / 2, weights=weights))
        yield f"{name}: {seconds:.1f} s, gap {before.gap:.3f} -> {after.gap:.4f}, distance {_more(after, before):+.1%}"
        ratios = [np.nanmax(one.posterior) / np.nanmedian(one.posterior) for one in (before, after)]
        yield f"{name}: largest posterior over median {ratios[0]:.2f} -> {ratios[1]:.2f}"
    by_land = Mechanism(places=square(COAST), beta_per_metre=EPSILON / 2, weights=quantise_weights(shore))
    share = measure_mechanism(by_land)
    yield f"the same coast, land shares as weights: {np.nanmax(share.posterior) / np.nanmedian(share.posterior):.2f}"


def _more(after, before):
    return after.expected_distance / before.expected_distance - 1


def peer():
    """The certificate and the sharp law beside `qif` (dense); the optimum of the linear programme beside sharp."""
    try:
        import qif
    except ImportError:
        yield "qif is not installed: pip install qif"
        return
    for side in (5, 15, 30):
        grid = square(side)
        distance = np.array([distances_from(grid, cell) for cell in range(grid.size)])
        made = plain(grid)
        law = np.array([made.report_law(cell) for cell in range(grid.size)])
        ours, quick = timed(certify_epsilon, made)
        theirs, slow = timed(qif.measure.d_privacy.smallest_epsilon, law, lambda a, b, d=distance: d[a, b])
        yield (
            f"certificate, {grid.size} cells: {ours.epsilon:.12f} in {quick:.3f} s; qif {theirs:.12f} in {slow:.3f} s"
        )
    yield from _optimum(qif)


def _optimum(qif):
    for side in (4, 5):
        grid = square(side)
        distance = np.array([distances_from(grid, cell) for cell in range(grid.size)])
        sharp = build_sharp_mechanism(grid, EPSILON, cells=np.ones(grid.size, dtype=bool))
        law = np.array([sharp.report_law(cell) for cell in range(grid.size)])

        def allowed(a, b, distance=distance):
            return float(EPSILON) * distance[a, b]

        def loss(a, b, distance=distance):
            return distance[a, b]

        tight = np.asarray(qif.mechanism.d_privacy.tight_constraints(grid.size, allowed))
        even = np.full(grid.size, 1 / grid.size)
        best, seconds = timed(qif.mechanism.d_privacy.min_loss_given_d, even, grid.size, allowed, loss)
        least = (np.asarray(best) * distance).sum(axis=1).mean()
        ours = measure_mechanism(sharp).expected_distance
        yield f"sharp law, {grid.size} cells: differs from qif's tight constraints by {np.abs(law - tight).max():.1e}"
        yield f"sharp, {grid.size} cells: {ours:.3f} m; optimum of the linear programme {least:.3f} m ({seconds:.1f} s)"


def draw(rows, path):
    """Growth on logarithmic axes."""
    import altair as alt

    points = [
        {"cells": row["cells"], "seconds": row[what], "what": what}
        for row in rows
        for what in ("posterior", "dense", "certificate", "sharp")
        if what in row
    ]
    chart = alt.Chart(alt.Data(values=points), width=420, height=300, title="Seconds by number of cells")
    chart = chart.mark_line(point=True).encode(
        x=alt.X("cells:Q", scale=alt.Scale(type="log")),
        y=alt.Y("seconds:Q", scale=alt.Scale(type="log")),
        color=alt.Color("what:N", title=None),
    )
    chart.configure(background="white").save(path)


def main(argv):
    rows = growth()
    for row in rows:
        cells = ", ".join(f"{what} {row[what]:.3g}" for what in row if what != "cells")
        print(f"{row['cells']:>9,} cells: {cells}")
    dense = [row for row in rows if "dense" in row][-1]
    print(f"dense over FFT at {dense['cells']:,} cells: {dense['dense'] / dense['posterior']:.0f} times the seconds")
    for line in [*peer(), *fairness()]:
        print(line, flush=True)
    if argv[:1] == ["--plot"]:
        draw(rows, argv[1])


if __name__ == "__main__":
    main(sys.argv[1:])
