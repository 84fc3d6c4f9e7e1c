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
from sudare.methods.view.budget import ViewBudget
from sudare.methods.view.cuts import AE_SENSITIVITY, BlockLevel, Codes, CutChoice, Filled, choose_cuts, whole
from sudare.methods.view.stops import stop_decay, stop_scale
from sudare.noise import CountNoise, Rng
from sudare.noise.counting import GeometricNoise
from sudare.schema import Schema
from sudare.schema.arrays import Booleans, Integers, Reals

RECURSION = Fraction(9, 10)  # of epsilon: for tests and cuts
TESTS = Fraction(9, 10)  # of that: for tests
DEPTH = Fraction(6, 5)  # times the bits of the domain: how deep a block can lie
THETA = 0
GRID = Fraction(5, 6)  # what a leaf gets is rounded down to powers of it, so that few laws of noise are needed
# Of rho: for all tests and for all cuts of a path. Chosen on Adult's numbers and electricity (epsilon 1 and 0.3 at
# delta 1e-9, ranges of two and three columns), and looked at on jm1 and phoneme, which were not used for it.
TESTS_OF_RHO = Fraction(7, 10)
CUTS_OF_RHO = Fraction(2, 10)


@dataclass(frozen=True, slots=True)
class Costs:
    """What a step may cost of the amount of a budget: a test, a cut, and what is left for the count of a final block.

    The amount is the epsilon of one row more or less, or the rho of the promise itself (`ViewBudget`).
    """

    budget: ViewBudget
    deepest: int
    test: Fraction  # 0 where the tests of a whole path are paid at once
    tests: Fraction  # for all tests of a path, where they are paid at once
    cut: Fraction

    def leaf(self, depth: int, *, tested: bool) -> Fraction:
        """Give the part for the count of a block at this depth (1 is the whole table): nothing of the budget is wasted.

        Safe although it depends on the depth: the depth of every block is part of the output.
        """
        amount = self.budget.amount
        left = amount - self.tests - (depth - 1) * (self.test + self.cut) - (self.test if tested else 0)
        # the variance is in proportion to 1/rho and to 1/epsilon^2: the same grid of deviations
        grid = GRID**2 if self.budget.is_concentrated else GRID
        steps = 0
        while amount * grid**steps > left:
            steps += 1
        return amount * grid**steps

    def leaf_noise(self, depth: int, *, tested: bool) -> CountNoise:
        """Choose the noise of the count of a block at this depth."""
        return self.budget.noise(self.leaf(depth, tested=tested))

    def choice(self, score: str) -> CutChoice:
        """Find how the cut of a block is chosen at the cost of one cut."""
        return CutChoice.for_part(self.cut, self.budget, score)


def costs(budget: ViewBudget, schema: Schema, method: str) -> Costs:
    """Share out an amount over at most kappa levels: epsilon 9/10 for the recursion, 9/10 of that for tests."""
    deepest = max(1, math.ceil(DEPTH * Fraction(math.log2(schema.size)).limit_denominator(10**6)))
    if budget.is_concentrated:
        tests, cuts = budget.amount * TESTS_OF_RHO, budget.amount * CUTS_OF_RHO
    else:
        tests, cuts = budget.amount * RECURSION * TESTS, budget.amount * RECURSION * (1 - TESTS)
    if is_depth_free(budget, method):
        return Costs(budget, deepest, Fraction(0), tests, cuts / deepest)
    return Costs(budget, deepest, tests / deepest, Fraction(0), cuts / deepest)


def is_depth_free(budget: ViewBudget, method: str) -> bool:
    """Tell whether the tests of a path are paid at once: by HDPView, under pure epsilon.

    Under rho they are paid one by one, as Mondrian's are. The levels that a test paid at once must fall with the depth
    are off by more there than the noise of tests that are paid one by one: computed in proofs/view.md.
    """
    return method == "hdpview" and not budget.is_concentrated


def draw_blocks(counts: Counts, budget: ViewBudget, method: str, score: str, *, rng: Rng) -> BlockView:
    """Cut the domain into blocks and measure them, all with the amount of a budget."""
    plan = costs(budget, counts.schema, method)
    stop = find_stop(plan, method)
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
        filled, without = filled.split(columns, *_cuts(filled, cells, columns, plan.choice(score), rng))
        empty = BlockLevel.joined([*halves, without])
        depth += 1
    return done


def _test(
    boxes: BlockLevel, cells: Integers, errors: Integers, sums: Integers, depth: int, stop: Stop, done: Finals, rng: Rng
) -> Booleans:
    """Tell which blocks go on; the others are final. A block of one cell or at the deepest level is not tested."""
    is_tested = (cells > 1) & (depth < done.plan.deepest)
    levels = np.where(is_tested, stop.level(errors, depth) - THETA, 0)  # nothing private where nothing is tested
    goes_on: Booleans = is_tested & stop.noise.exceed_named(levels, names=boxes.names, rng=rng)
    done.add(boxes.of(~goes_on), sums[~goes_on], depth, is_tested[~goes_on])
    return goes_on


def _cuts(filled: Filled, cells: Integers, columns: Codes, choice: CutChoice, rng: Rng) -> tuple[Integers, Integers]:
    """A cut of every block: where the choice says; where all scores are equal that is anywhere."""
    axis, border = np.empty(len(filled), dtype=np.int64), np.empty(len(filled), dtype=np.int64)
    is_flat = filled.is_flat(cells) if choice.score == "error" else np.zeros(len(filled), dtype=bool)
    axis[is_flat], border[is_flat] = filled.boxes.of(is_flat).anywhere(rng)
    if not bool(is_flat.all()):
        axis[~is_flat], border[~is_flat] = choose_cuts(filled.of(~is_flat), columns, choice, rng=rng)
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
        noises = [self.plan.leaf_noise(int(code) // 2, tested=bool(code % 2)) for code in kinds]
        for noise in sorted(set(noises), key=lambda each: -each.scale):
            is_chosen = np.array([kind_noise == noise for kind_noise in noises])[kind]
            names = boxes.of(is_chosen).names
            counts[is_chosen] = noise.add_named(counts[is_chosen], names=names, rng=rng)
        return boxes, counts, np.array([noise.variance for noise in noises])[kind]


@dataclass(frozen=True, slots=True)
class Stop:
    """The stop test: level(AE, depth) plus noise against theta."""

    noise: CountNoise
    level: Callable[[Integers, int], Integers]


def find_stop(plan: Costs, method: str) -> Stop:
    """Give the stop test of an algorithm."""
    return depth_free(plan) if is_depth_free(plan.budget, method) else by_depth(plan)


def by_depth(plan: Costs) -> Stop:
    """The paper's test, with the noise that its proof asks for."""
    return Stop(plan.budget.test_noise(plan.test, AE_SENSITIVITY), lambda errors, depth: errors)


def depth_free(plan: Costs) -> Stop:
    """PrivTree's decaying test: b = max(AE - delta * depth, theta + 2 - delta); needs AE(child) <= AE(parent).

    The noise is what the exact worst loss of a path asks for (`stops.py`), less than half of PrivTree's.
    """
    scale = stop_scale(plan.tests, tests=plan.deepest - 1)
    decay = stop_decay(scale)
    return Stop(
        GeometricNoise(scale=scale),
        lambda errors, depth: np.maximum(errors - decay * depth, THETA + AE_SENSITIVITY - decay),
    )
