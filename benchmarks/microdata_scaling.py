"""How microdata grow with the domain: a million records over 1e6 to 1e30 cells, projection and tree (the default).

`run` times both ways (CPU seconds, epsilon 1/10 and 1) and gives the ratio to 1e6 cells of the same run; every case is
a process of its own, so that its peak memory can be told. `quality` compares both with the truth: L2 distance, KS
distance and the share of records in cells that truly hold nobody. `--save` keeps the times for docs/pictures/make.py.

    python -m benchmarks.microdata_scaling [--quality | --save]

The sales of Terada 2017, widened: item k of 100,000 sells with probability proportional to 1/k ("ranked": codes by
popularity, as in the paper) or lies near one of 200 departments ("clustered"); half of its sales (clustered: 80 %) are
at its own price, the others scatter around it; further columns (store, day, ...) have 1,000 values and scatter around
one of their own for every 50 items.
"""

import json
import resource
import subprocess
import sys
import time
from fractions import Fraction
from pathlib import Path

import numpy as np

from sudare.compare import empty_cell_share, ks_distance, l2_distance
from sudare.counts import Counts
from sudare.methods.microdata import Microdata
from sudare.noise import SystemRng
from sudare.schema import Attribute, NumberBins, Schema

RECORDS = 10**6
POWERS = (6, 9, 12, 18, 24, 30)
EPSILONS = (Fraction(1, 10), Fraction(1))
WAYS = ("projection", "tree")
SAVED = Path(__file__).parent / "results" / "microdata_scaling.json"
SHAPES = ("ranked", "clustered")
NAMES = ("item", "price", "store", "day", "hour", "till", "campaign", "age", "postcode")
DEPARTMENTS = 200


def sizes(power: int) -> tuple[int, ...]:
    """Sizes of the columns of a domain of 10**power cells."""
    return (100, 10_000) if power == 6 else (100_000, 10_000, *(1000,) * ((power - 9) // 3))


def sales(shape: str, power: int, records: int = RECORDS, seed: int = 1) -> Counts:
    """Draw made-up sales over 10**power cells."""
    random = np.random.default_rng(seed)
    item = _items(shape, sizes(power)[0], records, random)
    own = (sizes(power)[1] * (np.abs(np.sin(item * 12.9898) * 43758.5453) % 1) ** 2).astype(np.int64)
    off = (random.pareto(1.5, records) * 20 * random.choice([-1, 1], records)).astype(np.int64)
    usual = random.random(records) < (0.5 if shape == "ranked" else 0.8)
    columns = [item, np.where(usual, own, np.clip(own + off, 0, sizes(power)[1] - 1))]
    for number, size in enumerate(sizes(power)[2:]):
        near = np.minimum(random.zipf(1.6, records) - 1, size - 1)
        columns.append((item // 50 * 7919 + number * 104_729 + near) % size)
    attributes = [
        Attribute(name=name, domain=NumberBins.of_width(0, size, 1))
        for name, size in zip(NAMES, sizes(power), strict=False)
    ]
    return Counts.from_columns(Schema(name="sales", attributes=tuple(attributes)), np.column_stack(columns))


def _items(shape: str, items: int, records: int, random: np.random.Generator) -> np.ndarray:
    if shape == "ranked":
        weights = 1 / np.arange(1, items + 1)
        return random.choice(items, records, p=weights / weights.sum())
    weights = 1 / np.arange(1, DEPARTMENTS + 1)
    centres = random.integers(0, items, DEPARTMENTS)[random.choice(DEPARTMENTS, records, p=weights / weights.sum())]
    off = np.minimum((random.pareto(1.0, records) * 2).astype(np.int64), items)
    return (centres + off * random.choice([-1, 1], records)) % items


def publish(way: str, counts: Counts, epsilon: Fraction) -> Counts:
    return Microdata(epsilon=epsilon, algorithm=way).draw(counts, rng=SystemRng())  # type: ignore[arg-type]


def measure(way: str, power: int, epsilon: Fraction) -> dict:
    """Time one case in this process; the second of two runs counts, when tables of noise are built."""
    counts = sales("ranked", power)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(2):
        begun = time.process_time()
        published = publish(way, counts, epsilon)
        seconds = time.process_time() - begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "way": way,
        "power": power,
        "epsilon": str(epsilon),
        "seconds": seconds,
        "cells": published.nonzero,
        "peak_mb": peak / 1024,
        "more_mb": (peak - before) / 1024,
    }


def run() -> list[dict]:
    rows = []
    for way in WAYS:
        for epsilon in EPSILONS:
            cases = [_in_a_process(way, power, epsilon) for power in POWERS]
            rows += [case | {"ratio": case["seconds"] / cases[0]["seconds"]} for case in cases]
    return rows


def _in_a_process(way: str, power: int, epsilon: Fraction) -> dict:
    command = [sys.executable, "-m", "benchmarks.microdata_scaling", "--one", way, str(power), str(epsilon)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def quality(powers: tuple[int, ...] = (9, 12, 18), records: int = RECORDS) -> list[dict]:
    rows = []
    for shape in SHAPES:
        for power in powers:
            counts = sales(shape, power, records)
            for epsilon in EPSILONS:
                for way in WAYS:
                    table = publish(way, counts, epsilon)
                    figures = {
                        "l2": l2_distance(counts, table).value,
                        "ks": ks_distance(counts, table).value,
                        "empty": empty_cell_share(counts, table).value,
                    }
                    rows.append({"shape": shape, "power": power, "epsilon": str(epsilon), "way": way} | figures)
    return rows


def main(argv: list[str]) -> None:
    if argv[:1] == ["--one"]:
        print(json.dumps(measure(argv[1], int(argv[2]), Fraction(argv[3]))))
    elif argv[:1] == ["--quality"]:
        print(f"{RECORDS:,} records\n{'':40} {'L2':>8} {'KS %':>7} {'empty %':>8}")
        for row in quality():
            name = f"{row['shape']}, 1e{row['power']} cells, epsilon {row['epsilon']}, {row['way']}"
            print(f"{name:48} {row['l2']:8.0f} {100 * row['ks']:7.2f} {100 * row['empty']:8.1f}")
    else:
        print(f"{RECORDS:,} records\n{'':36} {'CPU s':>7} {'x 1e6':>6} {'peak MB':>8} {'more MB':>8}")
        rows = run()
        if argv[:1] == ["--save"]:
            SAVED.parent.mkdir(exist_ok=True)
            SAVED.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
        for row in rows:
            name = f"{row['way']}, 1e{row['power']} cells, epsilon {row['epsilon']}"
            print(f"{name:36} {row['seconds']:7.2f} {row['ratio']:6.1f} {row['peak_mb']:8.0f} {row['more_mb']:8.0f}")


if __name__ == "__main__":
    main(sys.argv[1:])
