"""Reports of places: how fast they are drawn and estimated from, how that grows, and FFT beside dense in one run.

Maps of 100 m cells, epsilon 0.01 per metre, a made-up town. Time is CPU time of the best of some rounds, so that a busy
machine disturbs little. `accuracy` compares the estimate with the truth and with raw reports, and with k-RR and planar
Laplace at the same epsilon per metre.

    python -m benchmarks.location_reports [--accuracy | --plot FILE.svg]
"""

import json
import sys
import tempfile
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
from papers.baselines.krr import RandomisedResponse
from papers.baselines.planar_laplace import PlainGrid, PlanarLaplace

from sudare.methods.location.collector import estimate_people
from sudare.methods.location.counting import count_reports
from sudare.methods.location.density import maximise_expectation
from sudare.methods.location.device import short_identity
from sudare.methods.location.device_file import DeviceFile, RepeatUse
from sudare.methods.location.flow import make_flow
from sudare.methods.location.grid import PlaneGrid
from sudare.methods.location.kernel import make_kernel
from sudare.methods.location.mechanism import FULL_WEIGHT, Mechanism
from sudare.methods.location.sampler import Sampler
from sudare.noise import SystemRng

PEOPLE = 1_000_000
SIDES = (30, 100, 300, 1000)
LARGEST_ESTIMATE = 320  # a side; beyond it the towns drawn around the estimate take minutes
EPSILON = Fraction(1, 100)


def seconds(work: Callable[[], object], rounds: int = 3) -> float:
    """Best CPU time of some rounds."""
    best = float("inf")
    for _ in range(rounds):
        begun = time.process_time()
        work()
        best = min(best, time.process_time() - begun)
    return best


def device_file(side: int) -> DeviceFile:
    grid = PlaneGrid(rows=side, columns=side, cell_height_metres=100, cell_width_metres=100)
    mechanism = Mechanism(places=grid, beta_per_metre=EPSILON / 2, weights=np.full(grid.size, FULL_WEIGHT))
    return DeviceFile(mechanism=mechanism, epsilon_per_metre=EPSILON, tight_epsilon_per_metre=0.01, repeat=RepeatUse())


def town(side: int, *, rough: bool = False, seed: int = 3) -> np.ndarray:
    """Shares: a floor and centres, as wide as districts (or, rough, as single cells)."""
    numbers = np.random.default_rng(seed)
    rows, columns = np.mgrid[:side, :side]
    people = np.full((side, side), 0.1)
    for _ in range(12):
        row, column, spread = *numbers.uniform(0, side, 2), numbers.uniform(3, 12)
        people += numbers.uniform(0.3, 3) * np.exp(-((rows - row) ** 2 + (columns - column) ** 2) / (2 * spread**2))
    if rough:
        people *= numbers.gamma(1.0, size=people.shape)
    return (people / people.sum()).ravel()


def run() -> list[dict]:
    rows = []
    for side in SIDES:
        made = device_file(side)
        cells = np.random.default_rng(1).choice(side * side, PEOPLE, p=town(side))
        sampler, rng = Sampler(mechanism=made.mechanism), SystemRng()
        reports = sampler.draw(cells, rng=rng)
        counts = np.bincount(reports, minlength=side * side)
        is_estimated = side <= LARGEST_ESTIMATE
        file = Path(tempfile.mkdtemp()) / "reports.csv"
        name = short_identity(made)
        file.write_text("artefact,cell\n" + "".join(f"{name},{cell}\n" for cell in reports.tolist()))
        rows.append(
            {
                "cells": side * side,
                "draw": seconds(lambda sampler=sampler, cells=cells, rng=rng: sampler.draw(cells, rng=rng)),
                "read": seconds(lambda file=file, made=made: count_reports(file, made)),
                "estimate": seconds(lambda made=made, counts=counts: estimate_people(made, counts), 1)
                if is_estimated
                else float("nan"),
            }
        )
        file.unlink()
    return rows


def fft_and_dense(side: int = 60) -> tuple[float, float]:
    """CPU seconds of one sum over the map, by FFT and by a matrix."""
    places = device_file(side).mechanism.places
    values = town(side)
    return tuple(
        seconds(lambda kernel=kernel: [kernel.smooth(values) for _ in range(20)]) / 20
        for kernel in (make_kernel(places, 0.005, algorithm="fft"), make_kernel(places, 0.005, algorithm="dense"))
    )


def total_variation(one: np.ndarray, two: np.ndarray, side: int = 100, block: int = 1) -> float:
    parts = [part.reshape(side // block, block, side // block, block).sum(axis=(1, 3)) for part in (one, two)]
    return float(np.abs(parts[0] - parts[1]).sum() / 2)


def accuracy(side: int = 100) -> list[tuple[str, str, float, float]]:
    """(town, way, total variation per cell, per block of 10 x 10 cells), against the shares of the million people."""
    made, rng = device_file(side), SystemRng()
    rows = []
    for rough in (False, True):
        cells = np.random.default_rng(1).choice(side * side, PEOPLE, p=town(side, rough=rough))
        truth = np.bincount(cells, minlength=side * side) / PEOPLE
        counts = np.bincount(Sampler(mechanism=made.mechanism).draw(cells, rng=rng), minlength=side * side)
        found = estimate_people(made, counts).cells.people / PEOPLE
        even = np.full(side * side, 1 / side**2)
        long = maximise_expectation(make_flow(made.mechanism), counts.astype(float), even, steps=200) / PEOPLE
        grid = PlainGrid(rows=side, columns=side, height=100.0, width=100.0)
        moved = PlanarLaplace(epsilon_per_metre=EPSILON).draw_cells(cells, grid=grid, rng=rng)
        other = RandomisedResponse.for_metres(EPSILON, nearest_metres=Fraction(100), cells=side * side)
        answers = np.maximum(other.estimate(other.draw(cells, rng=rng)), 0)
        for way, shares in (
            ("raw reports", counts / PEOPLE),
            ("estimate", found),
            ("200 steps", long),
            ("planar Laplace, raw", np.bincount(moved, minlength=side * side) / PEOPLE),
            ("k-RR, estimated", answers / answers.sum()),
        ):
            rows.append(
                (
                    "rough" if rough else "smooth",
                    way,
                    total_variation(shares, truth),
                    total_variation(shares, truth, block=10),
                )
            )
    return rows


def plot(rows: list[dict], file: Path) -> None:
    """Draw seconds over cells, both axes logarithmic."""
    import vl_convert

    values = [
        {"cells": row["cells"], "seconds": row[step], "step": step}
        for row in rows
        for step in ("draw", "read", "estimate")
        if row[step] == row[step]
    ]
    axes = {name: {"field": name, "type": "quantitative", "scale": {"type": "log"}} for name in ("cells", "seconds")}
    chart = {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "data": {"values": values},
        "width": 420,
        "height": 280,
        "background": "#ffffff",
        "title": "a million reports: CPU seconds",
        "mark": {"type": "line", "point": True},
        "encoding": {"x": axes["cells"], "y": axes["seconds"], "color": {"field": "step", "type": "nominal"}},
    }
    file.write_text(vl_convert.vegalite_to_svg(json.dumps(chart)), encoding="utf-8")


def main(argv: list[str]) -> None:
    if "--accuracy" in argv:
        print(f"{'town':8} {'way':22} {'per cell':>9} {'per block':>10}")
        for kind, way, cell, block in accuracy():
            print(f"{kind:8} {way:22} {cell:9.3f} {block:10.4f}")
        return
    print(f"{PEOPLE:,} reports; CPU seconds")
    print(f"{'cells':>10} {'draw':>8} {'read':>8} {'estimate':>9}")
    rows = run()
    for row in rows:
        print(f"{row['cells']:10,} {row['draw']:8.2f} {row['read']:8.2f} {row['estimate']:9.2f}")
    if "--plot" in argv:
        plot(rows, Path(argv[argv.index("--plot") + 1]))
    quick, dense = fft_and_dense()
    print(f"one sum over 3,600 cells: FFT {quick * 1e3:.2f} ms, dense {dense * 1e3:.2f} ms, {dense / quick:.1f} times")


if __name__ == "__main__":
    main(sys.argv[1:])
