"""Audit of every way to make microdata, for both relations, with all the noise and with half of it.

Each line runs a way 100,000 times on each of two neighbouring tables and tells the lower bound on its epsilon: it must
stay below the promise (1), and exceed it when the noise is halved (a quarter of the runs). Takes most of an hour.

    python -m benchmarks.audit_microdata [--runs N]
"""

import argparse
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from sudare.counts import Counts
from sudare.methods.budget import CountBudget, measure_total, plan
from sudare.methods.microdata import projection, tree
from sudare.methods.microdata import projection as sparse
from sudare.methods.microdata import sparse_tree as wide
from sudare.noise import SeededRng
from sudare.privacy import Guarantee
from sudare.schema import Unit
from sudare.testing.subject import changed, even_table, schema_of
from sudare.verify import audit

PROMISE = Fraction(1)
WAYS: dict[str, tuple[Callable[..., Counts], Fraction]] = {
    "projection, dense": (projection.project_dense, Fraction(0)),
    "projection, sparse": (sparse.project_sparse, Fraction(0)),
    "tree": (tree.grow, Fraction(0)),
    "tree with sums": (tree.grow, tree.SUMS_SHARE),
    "wide tree": (wide.grow_sparse_tree, wide.SUMS_SHARE),
}


def outputs(make: Callable[..., Counts], budget: CountBudget, table: Counts, seed: int) -> Callable[[int], np.ndarray]:
    """A run function: the published counts of the cells, and their total."""
    rng = SeededRng(seed)

    def run(runs: int) -> np.ndarray:
        found = np.empty((runs, table.schema.size + 1), dtype=np.int64)
        for number in range(runs):
            total = measure_total(table, budget, rng=rng)
            found[number, :-1] = make(table, budget, total=total, rng=rng).dense()
            found[number, -1] = total
        return found[:, [0, 1, -1]]

    return run


def bound(way: str, neighbours: str, *, epsilon: Fraction, runs: int) -> float:
    make, share = WAYS[way]
    budget = plan(Guarantee(epsilon=epsilon, neighbours=neighbours, unit=Unit()), sums_share=share)  # type: ignore[arg-type]
    table = even_table(schema_of(4, 2))
    first = changed(table, 1)
    second = changed(table, 0, 1) if neighbours == "replace" else table
    pair = [outputs(make, budget, one, seed) for seed, one in enumerate((first, second))]
    return audit(*pair, runs=runs, confidence=0.999).epsilon_low


def run(runs: int = 100_000) -> list[dict]:
    rows = []
    for way in WAYS:
        for neighbours in ("replace", "add-remove"):
            kept = bound(way, neighbours, epsilon=PROMISE, runs=runs)
            halved = bound(way, neighbours, epsilon=2 * PROMISE, runs=runs // 4)
            rows.append({"what": f"{way}, {neighbours}", "kept": kept, "halved": halved})
            print(f"{rows[-1]['what']:32} promised 1: at least {kept:.2f}; noise halved: {halved:.2f}", flush=True)
    return rows


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=100_000)
    run(parser.parse_args(argv).runs)


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
