"""How far the greedy value-level recoding is from the best one, on tables small enough to try every recoding.

    python -m benchmarks.kanon_values

A recoding gives every value a level; a group of values may leave the group above it, as a whole. On trees of two or
three levels all combinations can be tried. Loss as in the explanation of k-anonymity; the full-domain optimum stands
beside.
"""

import itertools
import math
import sys
from fractions import Fraction
from functools import cache

import numpy as np

from sudare.counts import Counts
from sudare.methods.kanon import KAnonymity
from sudare.methods.kanon.risk import compare_recoding
from sudare.schema import Attribute, Schema, TableHierarchy, Values

SHAPES = (((2, 2), 60), ((2, 2, 1), 20), ((3, 2), 6))  # halvings of each attribute, tables
SHARES = (Fraction(0), Fraction(1, 10))
K = 4
ROWS = 60


@cache
def levels(bits: int) -> list[tuple[int, ...]]:
    """Every recoding of 2**bits values under a tree of halves, as the level of each value; the tree as one group first.

    >>> len(levels(1)), len(levels(2))
    (4, 25)
    """
    if bits == 0:
        return [(0,)]
    half = [(bits,) * 2 ** (bits - 1), *levels(bits - 1)]  # stays in the group, or leaves it
    return [(*left, *right) for left in half for right in half]


def table(seed: int, bits: tuple[int, ...]) -> Counts:
    rng, attributes = np.random.default_rng(seed), []
    for place, each in enumerate(bits):
        paths = [tuple(f"{level}/{code >> level}" for level in range(each + 1)) for code in range(2**each)]
        tree = TableHierarchy.from_paths(paths)
        attributes.append(Attribute(name=f"a{place}", domain=Values(tree.names[0]), role="quasi", hierarchy=tree))
    columns = [np.minimum(rng.geometric(0.4, ROWS) - 1, one.size - 1) for one in attributes]
    return Counts.from_columns(Schema(name="small", attributes=tuple(attributes)), np.column_stack(columns))


def best(counts: Counts, bits: tuple[int, ...], share: Fraction) -> float:
    """The least loss of all value-level recodings."""
    codes, weights, found = counts.columns(), counts.values.astype(np.float64), math.inf
    ways = [[_column(np.array(one), codes[:, axis]) for one in levels(each)] for axis, each in enumerate(bits)]
    tops = [2**each - 1 for each in bits]
    for chosen in itertools.product(*ways):
        key = np.zeros(len(codes), dtype=np.int64)
        for group, _ in chosen:
            key = key * 1024 + group
        ids = np.unique(key, return_inverse=True)[1]
        kept = (np.bincount(ids, weights=weights) >= K)[ids]
        if weights[~kept].sum() > share * counts.total:
            continue
        lost = [np.where(kept, (wide - 1) / top, 1.0) for (_, wide), top in zip(chosen, tops, strict=True)]
        total = math.prod(1 + float((one * weights).sum()) / counts.total for one in lost)
        found = min(found, total ** (1 / len(bits)) - 1)
    return found


def _column(level_of: np.ndarray, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The group of every tuple and how many values it stands for."""
    level = level_of[codes]
    return (level << 6) | (codes >> level), 1 << level


def main(argv: list[str]) -> None:
    print(f"value-level recoding, {ROWS} rows, k = {K}: mean loss, greedy against the best of all recodings")
    for (bits, tables), share in itertools.product(SHAPES, SHARES):
        gaps, greedy_loss, full_loss, best_loss = [], [], [], []
        for seed in range(tables):
            counts = table(seed, bits)
            names = counts.schema.names
            method = KAnonymity(k=K, max_suppressed=share, recoding="value")
            ours = compare_recoding(method.outcome(counts, names).recoded)
            full = compare_recoding(KAnonymity(k=K, max_suppressed=share).outcome(counts, names).recoded)
            least = best(counts, bits, share)
            greedy_loss.append(ours.total_loss)
            full_loss.append(full.total_loss)
            best_loss.append(least)
            gaps.append(ours.total_loss - least)
        exact = sum(gap < 1e-9 for gap in gaps)
        print(
            f"trees of {bits} levels, up to {float(share):.0%} left out, {tables} tables:"
            f" full {np.mean(full_loss):.4f}, greedy {np.mean(greedy_loss):.4f}, best {np.mean(best_loss):.4f};"
            f" greedy is the best in {exact},"
            f" worst gap {max(gaps):.4f}, least {min(gaps):.1e}",
            flush=True,
        )


if __name__ == "__main__":
    main(sys.argv[1:])
