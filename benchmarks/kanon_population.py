"""How far estimates of population uniques are off: populations of which all persons are known, and samples of them.

`python -m benchmarks.kanon_population [--seeds N] [--csv FILE ...]`: estimated over true uniques by the share that the
estimate tells, the middle and nine in ten; on made-up populations, or on files of at least 4,000 rows taken as
populations, by three to five of their columns. Populations with fewer than 30 uniques are left out.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

import numpy as np

from benchmarks.kanon_tables import read_csv_table
from sudare.methods.kanon.population import KNOWN_ERROR, SHARES, estimate_uniques, find_band
from sudare.methods.kanon.recode import number_classes

FRACTIONS = (0.02, 0.05, 0.1, 0.2)


def made_up_population(seed: int) -> np.ndarray:
    """Class sizes of a population: combinations of skewed columns that are mixed over a few kinds of persons."""
    rng = np.random.default_rng(seed)
    people, kinds = int(rng.integers(20_000, 60_000)), int(rng.integers(1, 6))
    kind = rng.choice(kinds, people, p=rng.dirichlet(np.ones(kinds)))
    columns = []
    for size in rng.choice([2, 5, 12, 40, 90], int(rng.integers(2, 5)), replace=False):
        shares = rng.dirichlet(np.full(size, rng.uniform(0.3, 2)), kinds)
        column = np.empty(people, dtype=np.int64)
        for each in range(kinds):
            column[kind == each] = rng.choice(size, int((kind == each).sum()), p=shares[each])
        columns.append(column)
    return np.bincount(number_classes(np.column_stack(columns)))


def read_populations(path: str, seed: int) -> Iterator[np.ndarray]:
    """Class sizes of a file taken as a population, by columns drawn at random."""
    rng, counts = np.random.default_rng(seed), read_csv_table(path, seed=seed)
    names = counts.schema.names
    for size in (3, 4, 5):
        chosen = sorted(rng.choice(len(names), min(size, len(names)), replace=False).tolist())
        yield counts.project([names[at] for at in chosen]).values.astype(np.int64)


def compare(sizes: np.ndarray, fraction: float, seed: int) -> list[tuple[str, float, float]]:
    """Model, told share, and estimated over true uniques of one sample."""
    rng, true = np.random.default_rng(seed), int((sizes == 1).sum())
    sample = rng.binomial(sizes, fraction)
    return [
        (estimate.model, estimate.share, estimate.uniques / true) for estimate in estimate_uniques(sample, fraction)
    ]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=60)
    parser.add_argument("--csv", nargs="*", default=[], metavar="FILE")
    given = parser.parse_args(arguments)
    populations = [made_up_population(7000 + seed) for seed in range(0 if given.csv else given.seeds)]
    populations += [sizes for name in given.csv for seed in (1, 2) for sizes in read_populations(name, seed)]
    found: dict[tuple[str, int], list[float]] = {}
    for number, sizes in enumerate(populations):
        if (sizes == 1).sum() >= 30 and sizes.sum() >= 4000:
            for model, share, ratio in compare(sizes, FRACTIONS[number % 4], number):
                found.setdefault((model, find_band(share)), []).append(ratio)
    for (model, band), ratios in sorted(found.items()):
        low, middle, high = np.quantile(ratios, [0.05, 0.5, 0.95])
        told = KNOWN_ERROR[model][band]
        held = np.mean([told[0] <= ratio <= told[1] for ratio in ratios])
        print(
            f"{model}, told share from {SHARES[band]:.0%}: {middle:.2f} ({low:.2f} to {high:.2f}) times the true,"
            f" {len(ratios)} samples; {held:.0%} within what is told ({told[0]:g} to {told[1]:g})"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
