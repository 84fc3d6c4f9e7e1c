"""How far estimates of population uniques are off: made-up populations of which all persons are known, and samples.

`python -m benchmarks.kanon_population`: estimated over true uniques, the middle and nine in ten. On Adult and Metro,
taken as populations, the same for samples of 5 % and 20 %.
"""

from __future__ import annotations

import sys

import numpy as np

from benchmarks.kanon_tables import TABLES
from sudare.methods.kanon.population import estimate_uniques
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


def compare(sizes: np.ndarray, fraction: float, seed: int) -> dict[str, float]:
    """Estimated over true uniques of one sample, by model."""
    rng, true = np.random.default_rng(seed), max(1, int((sizes == 1).sum()))
    sample = rng.binomial(sizes, fraction)
    return {estimate.model: estimate.uniques / true for estimate in estimate_uniques(sample, fraction)}


def main(arguments: list[str]) -> int:
    ratios: dict[str, list[float]] = {}
    for seed in range(60):
        sizes = made_up_population(7000 + seed)
        if (sizes == 1).sum() >= 30:
            for model, ratio in compare(sizes, FRACTIONS[seed % 4], seed).items():
                ratios.setdefault(model, []).append(ratio)
    for model, found in ratios.items():
        low, middle, high = np.quantile(found, [0.05, 0.5, 0.95])
        print(f"made up, {model}: {middle:.2f} ({low:.2f} to {high:.2f}) times the true uniques, {len(found)} samples")
    for name in ("adult", "metro"):
        counts = TABLES[name][1]()
        if counts is None:
            print(f"{name}: not there (../shared/data), skipped")
            continue
        sizes = counts.values.astype(np.int64)
        for fraction in (0.05, 0.2):
            found = compare(sizes, fraction, 1)
            print(f"{name}, {fraction:.0%}: " + ", ".join(f"{model} {ratio:.2f}" for model, ratio in found.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
