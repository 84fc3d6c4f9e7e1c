"""DP-Mondrian (Kato, Takahashi, Cao, Yoshikawa) with its budget corrected, and HDPView's stop that depth does not tire.

A block is tested (stop?), cut (where?) and its halves go the same way; a final block's count gets noise. All blocks of
one depth go together. Numbers are whole throughout. Proof and corrections: proofs/view.md
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sudare.counts import Counts
from sudare.methods.view.blocks import BlockView
from sudare.methods.view.cuts import AE_SENSITIVITY, BlockLevel, Codes, Filled, choose_cuts, whole
from sudare.methods.view.stops import stop_decay, stop_scale
from sudare.noise import Rng, geometric_variance
from sudare.noise.rows import add_geometric_few, exceed_few
from sudare.schema import Schema
from sudare.schema.arrays import Booleans, Integers, Reals

RECURSION = Fraction(9, 10)  # of epsilon: for tests and cuts
TESTS = Fraction(9, 10)  # of that: for tests
DEPTH = Fraction(6, 5)  # times the bits of the domain: how deep a block can lie
THETA = 0
GRID = Fraction(5, 6)  # leaf epsilons are rounded down to powers of it, so that few laws of noise are needed


@dataclass(frozen=True, slots=True)
class Costs:
    """What a step costs one record: a test, a cut, and what is left for the count of a final block."""

    epsilon: Fraction
    deepest: int
    test: Fraction  # 0 where the tests of a whole path are paid at once
    tests: Fraction  # for all tests of a path, where they are paid at once
    cut: Fraction

    def leaf(self, depth: int, *, tested: bool) -> Fraction:
        """Epsilon for the count of a block at this depth (1 is the whole table): nothing of the budget is wasted.

        Safe although it depends on the depth: the depth of every block is part of the output.
        """
        left = self.epsilon - self.tests - (depth - 1) * (self.test + self.cut) - (self.test if tested else 0)
        steps = 0
        while self.epsilon * GRID**steps > left:
            steps += 1
        return self.epsilon * GRID**steps


def costs(epsilon: Fraction, schema: Schema, method: str) -> Costs:
    """Share out epsilon: 9/10 for the recursion, 9/10 of that for tests, over at most kappa levels."""
    deepest = max(1, math.ceil(DEPTH * Fraction(math.log2(schema.size)).limit_denominator(10**6)))
    tests, cuts = epsilon * RECURSION * TESTS, epsilon * RECURSION * (1 - TESTS)
    if method == "hdpview":
        return Costs(epsilon, deepest, Fraction(0), tests, cuts / deepest)
    return Costs(epsilon, deepest, tests / deepest, Fraction(0), cuts / deepest)


def draw_blocks(counts: Counts, epsilon: Fraction, method: str, score: str, *, rng: Rng) -> BlockView:
    """Cut the domain into blocks and measure them, all with epsilon for one row more or less."""
    plan = costs(epsilon, counts.schema, method)
    stop = depth_free(plan) if method == "hdpview" else by_depth(plan)
    boxes, measured, variances = grow(*whole(counts), plan, stop, score, rng=rng).measured(rng)
    # in the order of their first cells: the order in which blocks became final would tell which of them are empty
    order = np.lexsort(counts.schema.radix.encode(boxes.lows).T[::-1])
    return BlockView(
        schema=counts.schema,
        lows=boxes.lows[order],
        highs=boxes.highs[order],
        counts=measured[order].astype(np.float64),
        variances=variances[order],
    )


def grow(filled: Filled, empty: BlockLevel, columns: Codes, plan: Costs, stop: Stop, score: str, *, rng: Rng) -> Finals:
    """Test and cut level after level, from the blocks of the first one down, until all are final."""
    done = Finals(plan)
    depth = 1
    while len(filled) or len(empty):
        cells = filled.boxes.cells()
        goes_on = _test(filled.boxes, cells, filled.errors(cells), filled.sums, depth, stop, done, rng)
        filled, cells = filled.of(goes_on), cells[goes_on]
        nothing = np.zeros(len(empty), dtype=np.int64)
        empty = empty.of(_test(empty, empty.cells(), nothing, nothing, depth, stop, done, rng))
        halves = empty.split(*empty.anywhere(rng))
        filled, without = filled.split(columns, *_cuts(filled, cells, columns, score, plan.cut, rng))
        empty = BlockLevel.joined([*halves, without])
        depth += 1
    return done


def _test(
    boxes: BlockLevel, cells: Integers, errors: Integers, sums: Integers, depth: int, stop: Stop, done: Finals, rng: Rng
) -> Booleans:
    """Tell which blocks go on; the others are final. A block of one cell or at the deepest level is not tested."""
    is_tested = (cells > 1) & (depth < done.plan.deepest)
    levels = np.where(is_tested, stop.level(errors, depth) - THETA, 0)  # nothing private where nothing is tested
    goes_on: Booleans = is_tested & exceed_few(levels, scale=stop.scale, names=boxes.names, rng=rng)
    done.add(boxes.of(~goes_on), sums[~goes_on], depth, is_tested[~goes_on])
    return goes_on


def _cuts(
    filled: Filled, cells: Integers, columns: Codes, score: str, epsilon: Fraction, rng: Rng
) -> tuple[Integers, Integers]:
    """A cut of every block: where permute-and-flip says; where all scores are equal that is anywhere."""
    axis, border = np.empty(len(filled), dtype=np.int64), np.empty(len(filled), dtype=np.int64)
    is_flat = filled.is_flat(cells) if score == "error" else np.zeros(len(filled), dtype=bool)
    axis[is_flat], border[is_flat] = filled.boxes.of(is_flat).anywhere(rng)
    if not bool(is_flat.all()):
        axis[~is_flat], border[~is_flat] = choose_cuts(filled.of(~is_flat), columns, score, epsilon=epsilon, rng=rng)
    return axis, border


class Finals:
    """Final blocks: their boxes, exact counts and what is left for their noise."""

    def __init__(self, plan: Costs) -> None:
        self.plan = plan
        self.boxes: list[BlockLevel] = []
        self.exact: list[Integers] = []
        self.kinds: list[Integers] = []

    def add(self, boxes: BlockLevel, exact: Integers, depth: int, is_tested: Booleans) -> None:
        """Keep some blocks that end at one depth, by a test or without."""
        self.boxes.append(boxes)
        self.exact.append(exact)
        self.kinds.append(2 * depth + is_tested)

    def measured(self, rng: Rng) -> tuple[BlockLevel, Integers, Reals]:
        """The boxes, their counts with noise (those of one epsilon together) and its variance."""
        boxes, counts = BlockLevel.joined(self.boxes), np.concatenate(self.exact)
        kinds, kind = np.unique(np.concatenate(self.kinds), return_inverse=True)
        epsilons = [self.plan.leaf(int(kind_code) // 2, tested=bool(kind_code % 2)) for kind_code in kinds]
        for epsilon in sorted(set(epsilons)):
            is_chosen = np.array([leaf_epsilon == epsilon for leaf_epsilon in epsilons])[kind]
            names = boxes.of(is_chosen).names
            counts[is_chosen] = add_geometric_few(counts[is_chosen], scale=1 / epsilon, names=names, rng=rng)
        return boxes, counts, np.array([geometric_variance(1 / epsilon) for epsilon in epsilons])[kind]


@dataclass(frozen=True, slots=True)
class Stop:
    """The stop test: level(AE, depth) plus noise of this scale against theta."""

    scale: Fraction
    level: Callable[[Integers, int], Integers]


def by_depth(plan: Costs) -> Stop:
    """The paper's test, with the noise that its proof asks for."""
    return Stop(AE_SENSITIVITY / plan.test, lambda errors, depth: errors)


def depth_free(plan: Costs) -> Stop:
    """PrivTree's decaying test: b = max(AE - delta * depth, theta + 2 - delta); needs AE(child) <= AE(parent).

    The noise is what the exact worst loss of a path asks for (`stops.py`), less than half of PrivTree's.
    """
    scale = stop_scale(plan.tests, tests=plan.deepest - 1)
    decay = stop_decay(scale)
    return Stop(scale, lambda errors, depth: np.maximum(errors - decay * depth, THETA + AE_SENSITIVITY - decay))
