"""Tables side by side: block sums of the tree, the wavelet and plain noise, in one run; and how time grows.

python -m benchmarks.table [--runs N]      RMSE of block sums on 2^19 cells of a made-up census mesh
python -m benchmarks.table --growth        CPU seconds for a million filled cells in 2^20 to 2^60 cells
"""

import argparse
import json
import math
import resource
import subprocess
import sys
import time
from fractions import Fraction
from pathlib import Path

import numpy as np

from sudare.compare.distances import BLOCKS, block_errors
from sudare.counts import Counts
from sudare.demo.data import census_square
from sudare.methods.table import Table
from sudare.methods.table.morton import interleaved
from sudare.noise import SystemRng, geometric
from sudare.schema import Attribute, NumberBins, Schema, Values

POWER = 19
EPSILONS = (Fraction(1, 10), Fraction(1))
WAYS = {
    "squares": {},
    "wavelet": {"algorithm": "wavelet"},
    "tree, regions": {"algorithm": "tree"},
    "tree, both": {"algorithm": "tree", "focus": "both"},
    "tree, cells": {"algorithm": "tree", "focus": "cells"},
}
BITS = (20, 30, 40, 60)
FILLED = 10**6
RESULTS = Path(__file__).parent / "results"
SAVED = RESULTS / "table_growth.json"
SAVED_ERRORS = RESULTS / "table_errors.json"


def line(size: int) -> Schema:
    """One ordered attribute: the cells in the order given."""
    values = Values(values=tuple(map(str, range(size))), is_ordered=True)
    return Schema(name="cells", attributes=(Attribute(name="cell", domain=values),))


def errors(runs: int = 10) -> list[dict]:
    square = census_square(rows=2 ** (POWER // 2), columns=2 ** (POWER - POWER // 2), seed=1)
    ys, xs = np.indices(square.shape)
    morton = square.ravel()[np.argsort(interleaved(ys.ravel(), xs.ravel()))]
    orders = {"Morton": morton, "shuffled": np.random.default_rng(1).permutation(morton)}
    schema, rows = line(2**POWER), []
    for order, truth in orders.items():
        filled = np.flatnonzero(truth)
        counts = Counts.build(schema, filled[:, None], truth[filled])
        for epsilon in EPSILONS:
            squares = {name: np.zeros(len(BLOCKS)) for name in ("plain noise", *WAYS)}
            for _ in range(runs):
                noisy = geometric(truth, epsilon=epsilon, sensitivity=2, rng=SystemRng())
                squares["plain noise"] += _squares(truth, noisy)
                for name, fields in WAYS.items():
                    out = Table(epsilon=epsilon, **fields).draw(counts, rng=SystemRng())  # type: ignore[arg-type]
                    squares[name] += _squares(truth, out.dense())
            rows += [
                {"order": order, "epsilon": str(epsilon), "way": name, "rmse": np.sqrt(sums / runs).tolist()}
                for name, sums in squares.items()
            ]
            _tell(rows[-len(squares) :])
    RESULTS.mkdir(exist_ok=True)
    told = {"runs": runs, "blocks": list(BLOCKS), "rows": rows}
    SAVED_ERRORS.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    return rows


def _squares(truth: np.ndarray, out: np.ndarray) -> np.ndarray:
    return np.array([block_errors(truth, out, blocks=[block])[block].value ** 2 for block in BLOCKS])


def _tell(rows: list[dict]) -> None:
    wavelet = np.array(next(row["rmse"] for row in rows if row["way"] == "wavelet"))
    print(f"{rows[0]['order']}, epsilon {rows[0]['epsilon']}, blocks of {', '.join(map(str, BLOCKS))} cells")
    for row in rows:
        gain = math.exp(float(np.mean(np.log(wavelet / np.array(row["rmse"])))))
        told = " ".join(f"{value:8.1f}" for value in row["rmse"])
        print(f"  {row['way']:14} {told}   wavelet / this: {gain:.2f}", flush=True)


def scattered(bits: int, filled: int = FILLED, seed: int = 1) -> Counts:
    """Clustered, long-tailed cells in a square of 2^bits cells, its sides cut into attributes of 10 bits."""
    random = np.random.default_rng(seed)
    half = bits // 2
    centres = random.random((2000, 2))
    chosen = random.choice(2000, 2 * filled)
    spread = 0.3 if bits == 20 else 0.01
    places = ((centres[chosen] + random.normal(0, spread, (2 * filled, 2))) % 1.0 * 2**half).astype(np.int64)
    places = np.unique(places, axis=0)
    places = places[random.permutation(len(places))[:filled]]
    counts = 1 + (random.pareto(1.2, len(places)) * 3).astype(np.int64)
    columns, attributes = [], []
    for low in reversed(range(0, half, 10)):
        size = 2 ** min(10, half - low)
        for side, name in enumerate("xy"):
            columns.append((places[:, side] >> low) % size)
            attributes.append(Attribute(name=f"{name}{low}", domain=NumberBins.of_width(0, size, 1)))
    return Counts.from_columns(Schema(name="square", attributes=tuple(attributes)), np.column_stack(columns), counts)


def measure(way: str, bits: int, epsilon: str) -> dict:
    counts = scattered(bits)
    for _ in range(2):  # the second counts: tables of noise are built then
        begun = time.process_time()
        out = Table(epsilon=epsilon, **WAYS[way]).draw(counts, rng=SystemRng())  # type: ignore[arg-type]
        seconds = time.process_time() - begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"way": way, "bits": bits, "epsilon": epsilon, "seconds": seconds, "filled": counts.nonzero,
            "published": out.nonzero, "peak_mb": peak}  # fmt: skip


def growth() -> list[dict]:
    rows = []
    for way in ("squares", "wavelet", "tree, regions"):
        for epsilon in ("1/10", "1"):
            cases = [_in_a_process(way, bits, epsilon) for bits in BITS]
            rows += [case | {"ratio": case["seconds"] / cases[0]["seconds"]} for case in cases]
            for case in rows[-len(cases) :]:
                name = f"{way}, 2^{case['bits']} cells, epsilon {epsilon}"
                print(f"{name:44} {case['seconds']:6.2f} s  x {case['ratio']:4.1f}  {case['published']:9,} cells "
                      f"published  {case['peak_mb']:6.0f} MB", flush=True)  # fmt: skip
    RESULTS.mkdir(exist_ok=True)
    SAVED.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return rows


def _in_a_process(way: str, bits: int, epsilon: str) -> dict:
    command = [sys.executable, "-m", "benchmarks.table", "--one", way, str(bits), epsilon]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--growth", action="store_true")
    parser.add_argument("--one", nargs=3)
    given = parser.parse_args(argv)
    if given.one:
        print(json.dumps(measure(given.one[0], int(given.one[1]), given.one[2])))
    elif given.growth:
        growth()
    else:
        errors(given.runs)


if __name__ == "__main__":
    main(sys.argv[1:])
