"""How far a view is off beside the first version of it: ratios of RMSE over random ranges, seed by seed.

    python -m benchmarks.view_pairs --first FOLDER     run the first version, kept in benchmarks/results
    python -m benchmarks.view_pairs [SET ...]          run this version and print the ratios

FOLDER is a checkout of the first version's last commit, cbc6541 (`git worktree add FOLDER cbc6541`). It knew pure
epsilon only, so under rho this version at (epsilon, 1e-9) stands beside the first one's pure epsilon. Neighbours: add
or remove one row. A seed gives a set the same 400 questions a workload in both versions; the made-up tables are the
same in all seeds. A ratio is the mean RMSE of this version over the first one's, `+-` its standard error by the seeds.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent / "results"
EPSILONS = ("1/10", "1", "10")
DELTA = "1e-9"
QUESTIONS = 400
WAYS = (1, 2, 3)
Table = tuple[list[tuple[str, int]], np.ndarray]  # kind ("number" or "value") and size of every attribute, codes


# --- made-up tables ---------------------------------------------------------------------------------------------------


def cut_numbers(columns: np.ndarray, bins: int) -> Table:
    """Cut every column into even bins between its least and largest value."""
    low, high = columns.min(axis=0), columns.max(axis=0)
    codes = np.minimum(((columns - low) / (high - low) * bins).astype(np.int64), bins - 1)
    return [("number", bins)] * columns.shape[1], codes


def make_factors(rows: int, columns: int, factors: int, *, noise: float, bins: int, seed: int) -> Table:
    """Numbers that follow a few hidden ones, every other column bent to a long tail."""
    generator = np.random.default_rng(seed)
    hidden = generator.normal(size=(rows, factors))
    table = hidden @ generator.normal(size=(factors, columns)) / math.sqrt(factors)
    table += noise * generator.normal(size=table.shape)
    table[:, ::2] = np.exp(table[:, ::2] / 2)
    return cut_numbers(table, bins)


def make_clusters(rows: int, columns: int, clusters: int, *, bins: int, seed: int) -> Table:
    """Clusters of unequal size, each with its own centre, width and direction."""
    generator = np.random.default_rng(seed)
    which = generator.choice(clusters, rows, p=generator.dirichlet(np.full(clusters, 3.0)))
    centres = 2.5 * generator.normal(size=(clusters, columns))
    mixing = generator.normal(size=(clusters, columns, columns)) / math.sqrt(columns)
    table = centres[which] + np.einsum("rc,rcd->rd", generator.normal(size=(rows, columns)), mixing[which])
    return cut_numbers(table, bins)


def make_classes(rows: int, columns: int, classes: int, *, seed: int) -> Table:
    """Categories that depend on a hidden class."""
    generator = np.random.default_rng(seed)
    which = generator.choice(classes, rows, p=generator.dirichlet(np.full(classes, 4.0)))
    sizes = generator.integers(2, 9, columns)
    codes = np.empty((rows, columns), dtype=np.int64)
    for place, size in enumerate(sizes):
        cumulated = generator.dirichlet(np.full(size, 0.5), classes).cumsum(axis=1)[which]
        codes[:, place] = np.minimum((generator.random(rows)[:, None] > cumulated).sum(axis=1), size - 1)
    return [("value", int(size)) for size in sizes], codes


def make_sensors(rows: int, *, bins: int, seed: int) -> Table:
    """Readings of one machine over time: hour, season, load, and what follows from them with lags and noise."""
    generator = np.random.default_rng(seed)
    time_of = np.arange(rows)
    hour, season = time_of % 24, np.sin(2 * np.pi * time_of / 8760)
    load = np.convolve(generator.normal(size=rows + 49), np.ones(50) / 7, mode="valid") + np.sin(2 * np.pi * hour / 24)
    outside = 10 * season + 4 * np.sin(2 * np.pi * (hour - 8) / 24) + generator.normal(size=rows)
    inside = 0.6 * outside + 5 * load + generator.normal(size=rows)
    pressure = 1000 - outside + 3 * generator.normal(size=rows)
    current = np.exp(load / 2) * (1 + 0.05 * generator.normal(size=rows))
    power = current * (220 + generator.normal(size=rows))
    vibration = np.abs(load) + 0.3 * generator.gamma(2, size=rows)
    speed = np.where(load > 0, 1500 + 200 * load, 300) + 20 * generator.normal(size=rows)
    wet = 60 - outside + 0.2 * pressure / 10 + 5 * generator.normal(size=rows)
    columns = [hour.astype(float), season, load, outside, inside, pressure, current, power, vibration, speed, wet]
    return cut_numbers(np.column_stack(columns), bins)


def make_survey(rows: int, items: int, *, seed: int) -> Table:
    """Answers from 1 to 7 that follow two opinions, beside three traits of the person."""
    generator = np.random.default_rng(seed)
    age, region = generator.integers(0, 10, rows), generator.integers(0, 6, rows)
    opinions = np.column_stack([0.15 * age, 0.3 * (region == 2)]) + generator.normal(size=(rows, 2))
    spread = opinions @ generator.normal(size=(2, items)) + 0.8 * generator.normal(size=(rows, items))
    answers = np.clip(np.rint(spread * 1.2 + 3), 0, 6).astype(np.int64)
    sort = ((opinions[:, 0] + generator.normal(size=rows)) > 0.5).astype(np.int64)
    kinds = [("number", 10), ("value", 6), ("value", 2), *[("number", 7)] * items]
    return kinds, np.column_stack([age, region, sort, answers])


TUNED: dict[str, Callable[[], Table]] = {
    "factors-12": lambda: make_factors(20_000, 12, 3, noise=0.5, bins=40, seed=1),
    "factors-20": lambda: make_factors(15_000, 20, 4, noise=0.6, bins=30, seed=2),
    "clusters-10": lambda: make_clusters(30_000, 10, 6, bins=40, seed=3),
    "classes-14": lambda: make_classes(20_000, 14, 5, seed=4),
    "sensors-11": lambda: make_sensors(30_000, bins=40, seed=5),
    "survey-15": lambda: make_survey(10_000, 12, seed=6),
}
UNTOUCHED: dict[str, Callable[[], Table]] = {
    "factors-8": lambda: make_factors(12_000, 8, 2, noise=0.4, bins=50, seed=11),
    "factors-16": lambda: make_factors(40_000, 16, 5, noise=0.5, bins=20, seed=12),
    "clusters-14": lambda: make_clusters(20_000, 14, 8, bins=30, seed=13),
    "classes-10": lambda: make_classes(40_000, 10, 4, seed=14),
    "sensors-long": lambda: make_sensors(60_000, bins=60, seed=15),
    "survey-20": lambda: make_survey(20_000, 17, seed=16),
}
REAL = ("small-adult", "numeric-adult", "adult", "traffic", "electricity", "phoneme", "jm1")


# --- one run, in either version ---------------------------------------------------------------------------------------


@cache
def load_counts(name: str) -> Any:
    """A set as counts of the version that is imported."""
    from sudare.counts import Counts
    from sudare.schema import Attribute, NumberBins, Schema, Values

    if name in REAL:
        from papers.kato_view.data import load

        return load(name)
    kinds, codes = (TUNED | UNTOUCHED)[name]()
    attributes = tuple(
        Attribute(
            name=f"a{place}",
            domain=NumberBins.of_width(0, size, 1) if kind == "number" else Values(tuple(f"v{k}" for k in range(size))),
        )
        for place, (kind, size) in enumerate(kinds)
    )
    return Counts.from_columns(Schema(name="made", attributes=attributes), codes)


def draw_questions(sizes: tuple[int, ...], ways: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Ranges over random attributes: a uniform length, then a uniform place (as in the paper)."""
    generator = np.random.default_rng((seed, ways))
    lows = np.zeros((QUESTIONS, len(sizes)), dtype=np.int64)
    highs = np.tile(np.array(sizes, dtype=np.int64) - 1, (QUESTIONS, 1))
    for question in range(QUESTIONS):
        for place in generator.permutation(len(sizes))[:ways]:
            length = 1 + int(generator.integers(sizes[place]))
            lows[question, place] = int(generator.integers(sizes[place] - length + 1))
            highs[question, place] = lows[question, place] + length - 1
    return lows, highs


@cache
def true_answers(name: str, ways: int, seed: int) -> np.ndarray:
    """The true counts of a workload."""
    counts = load_counts(name)
    lows, highs = draw_questions(counts.schema.sizes, ways, seed)
    columns = [np.asarray(counts.column(attribute)) for attribute in counts.schema.names]
    truth = np.empty(QUESTIONS)
    for question, (low, high) in enumerate(zip(lows, highs, strict=True)):
        inside = np.ones(counts.values.size, dtype=bool)
        for place in np.flatnonzero((low > 0) | (high < np.array(counts.schema.sizes) - 1)):
            inside &= (columns[place] >= low[place]) & (columns[place] <= high[place])
        truth[question] = counts.values[inside].sum()
    return truth


def estimate_first(counts: Any, epsilon: str, seed: int) -> Any:
    """The estimate of the first version, without its replicates."""
    from sudare.mechanisms import SeededRng
    from sudare.methods.view.inside import inside_bins

    from sudare.methods.view import View
    from sudare.methods.view.tables import TableView

    drawn = View(epsilon=epsilon, neighbours="add-remove").draw(counts, rng=SeededRng(seed))
    shares = inside_bins(drawn.measured, drawn.factors, plain=drawn.is_plain)
    return TableView(
        schema=counts.schema,
        factors=drawn.factors,
        bins=drawn.measured.bins,
        shares=tuple(share[None] for share in shares),
        tau_squared=0.0,
        floor=0.0,
    )


def estimate_now(counts: Any, epsilon: str, seed: int, delta: str | None) -> Any:
    """The estimate of this version, without its replicates; the exam has its part of the budget."""
    from sudare.methods.view import View
    from sudare.methods.view.tables import TableView
    from sudare.methods.view.uncertainty import replicates, weigh_records
    from sudare.noise import SeededRng

    rng = SeededRng(seed)
    drawn = View(epsilon=epsilon, delta=delta, neighbours="add-remove").draw(counts, rng=rng)
    factors, shares = replicates(drawn, rng=rng, size=0)
    return TableView(
        schema=counts.schema,
        axes=tuple(grown.axis for grown in drawn.leaves),
        factors=factors,
        bins=tuple(bins[grown.cell_of_leaf] for bins, grown in zip(drawn.measured.bins, drawn.leaves, strict=True)),
        shares=tuple(shares),
        tau_squared=0.0,
        records=weigh_records(drawn, factors, rng=rng),
    )


def measure(name: str, epsilon: str, seed: int, delta: str | None, *, is_first: bool) -> list[float]:
    """The RMSE of every workload, and CPU seconds."""
    counts = load_counts(name)
    begun = time.process_time()
    view = estimate_first(counts, epsilon, seed) if is_first else estimate_now(counts, epsilon, seed, delta)
    spent = time.process_time() - begun
    errors = []
    for ways in WAYS:
        lows, highs = draw_questions(counts.schema.sizes, ways, seed)
        off = view.ranges(lows, highs) - true_answers(name, ways, seed)
        errors.append(float(np.sqrt((off**2).mean())))
    return [*errors, spent]


# --- both versions ----------------------------------------------------------------------------------------------------


def run_first(folder: Path, names: list[str], seeds: int, kept: Path) -> None:
    """Run the first version in a process of its own and keep its figures."""
    places = [str(folder / "src"), str(Path(__file__).parents[1])]
    command = [sys.executable, "-m", "benchmarks.view_pairs", "--is-first", "--seeds", str(seeds), "--kept", str(kept)]
    subprocess.run([*command, *names], check=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(places)})


def keep_first(names: list[str], seeds: int, kept: Path) -> None:
    """Inside that process: add what is not kept yet."""
    found = json.loads(kept.read_text()) if kept.exists() else {}
    for name in names:
        for epsilon in EPSILONS:
            lines = found.setdefault(name, {}).setdefault(epsilon, [])
            for seed in range(len(lines), seeds):
                lines.append([round(number, 4) for number in measure(name, epsilon, seed, None, is_first=True)])
        kept.write_text(json.dumps(found, indent=None, separators=(",", ":")).replace('},"', '},\n"') + "\n")


def compare(now: np.ndarray, first: np.ndarray) -> str:
    """The ratio of the means, and its standard error by paired seeds."""
    ratio = now.mean(axis=0) / first.mean(axis=0)
    off = (now - ratio * first) / first.mean(axis=0)
    error = off.std(axis=0, ddof=1) / math.sqrt(len(now)) if len(now) > 1 else np.full(ratio.shape, np.nan)
    return "  ".join(f"{one:5.2f} +-{two:4.2f}" for one, two in zip(ratio, error, strict=True))


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(description="views beside the first version")
    parser.add_argument("names", nargs="*", default=[])
    parser.add_argument("--first", type=Path, help="a checkout of the first version: run it and keep its figures")
    parser.add_argument("--is-first", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--kept", type=Path, default=RESULTS / "view_pairs_first.json")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--epsilons", nargs="*", default=list(EPSILONS))
    parser.add_argument("--currencies", nargs="*", default=["pure", "rho"])
    asked = parser.parse_args(argv)
    names = asked.names or [*REAL, *TUNED, *UNTOUCHED]
    if asked.is_first:
        keep_first(names, asked.seeds, asked.kept)
        return
    if asked.first:
        run_first(asked.first, names, asked.seeds, asked.kept)
        return
    first = json.loads(asked.kept.read_text())
    print(f"{'set':14}{'epsilon':>8} {'':5}   1-way          2-way          3-way       CPU s now, first")
    for name in names:
        for epsilon in asked.epsilons:
            old = np.array(first[name][epsilon][: asked.seeds])
            for currency in asked.currencies:
                delta = DELTA if currency == "rho" else None
                now = np.array([measure(name, epsilon, seed, delta, is_first=False) for seed in range(len(old))])
                line = compare(now[:, :3], old[:, :3])
                print(f"{name:14}{epsilon:>8} {currency:5} {line} {now[:, 3].mean():6.2f} {old[:, 3].mean():6.2f}",
                      flush=True)  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1:])
