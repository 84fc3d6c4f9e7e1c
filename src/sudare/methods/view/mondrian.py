"""DP-Mondrian (Kato, Takahashi, Cao, Yoshikawa) with its budget corrected, and HDPView's stop that depth does not tire.

A block is tested (stop?), cut (where?) and its halves go the same way; a final block's count gets noise. Numbers are
whole throughout. Proof and corrections: proofs/view.md
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sudare.counts import Counts
from sudare.mechanisms import Rng, geometric, geometric_noise, geometric_variance, permute_and_flip
from sudare.methods.view.blocks import BlockView
from sudare.methods.view.cuts import AE_SENSITIVITY, SPREAD_SENSITIVITY, aggregation_error, is_flat, places, score_cuts
from sudare.schema import Schema

Integers = NDArray[np.int64]

RECURSION = Fraction(9, 10)  # of epsilon: for tests and cuts
TESTS = Fraction(9, 10)  # of that: for tests
DEPTH = Fraction(6, 5)  # times the bits of the domain: how deep a block can lie
THETA = 0
BRANCHES = 2
GRID = Fraction(5, 6)  # leaf epsilons are rounded down to powers of it, so that few laws of noise are needed
DRAWS = 4096


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


@dataclass(frozen=True, slots=True, eq=False)
class _Block:
    """A block on its way: its box, how many cells, how deep, and which stored cells lie in it."""

    lows: Integers
    highs: Integers
    cells: int
    depth: int
    members: Integers


def draw_blocks(counts: Counts, epsilon: Fraction, method: str, score: str, *, rng: Rng) -> BlockView:
    """Cut the domain into blocks and measure them, all with epsilon for one row more or less."""
    plan = costs(epsilon, counts.schema, method)
    stops = _depth_free(plan) if method == "hdpview" else _by_depth(plan)
    done = _Done(plan)
    noise = _Noise(stops.scale, rng)
    columns, values = counts.columns(), counts.values
    sizes = np.array(counts.schema.sizes, dtype=np.int64)
    waiting = [_Block(np.zeros_like(sizes), sizes - 1, counts.schema.size, 1, np.arange(counts.nonzero))]
    while waiting:
        block = waiting.pop()
        mine = values[block.members]
        if not mine.size:
            _cut_empty(block, stops, done, noise)
        elif block.cells == 1 or block.depth >= plan.deepest:
            done.add(block.lows.tolist(), block.highs.tolist(), int(mine.sum()), block.depth, tested=False)
        elif stops.level(aggregation_error(mine, block.cells), block.depth) + noise() <= THETA:
            done.add(block.lows.tolist(), block.highs.tolist(), int(mine.sum()), block.depth, tested=True)
        else:
            waiting += _halves(block, columns, mine, plan, score, rng)
    return done.measured(counts.schema, rng)


def _cut_empty(block: _Block, stops: _Stop, done: _Done, noise: _Noise) -> None:
    """The same way for a block without records, in plain numbers: AE is 0, and every cut is as good as another."""
    deepest = done.plan.deepest
    waiting = [(block.lows.tolist(), block.highs.tolist(), block.depth)]
    while waiting:
        lows, highs, depth = waiting.pop()
        cuts = sum(highs) - sum(lows)
        if not cuts or depth >= deepest:
            done.add(lows, highs, 0, depth, tested=False)
        elif stops.level(0, depth) + noise() <= THETA:
            done.add(lows, highs, 0, depth, tested=True)
        else:
            place, axis = noise.below(cuts), 0
            while place >= highs[axis] - lows[axis]:
                place -= highs[axis] - lows[axis]
                axis += 1
            border = lows[axis] + place
            left, right = highs.copy(), lows.copy()
            left[axis], right[axis] = border, border + 1
            waiting += [(lows, left, depth + 1), (right, highs, depth + 1)]


class _Done:
    """Final blocks: their boxes, exact counts and what is left for their noise."""

    def __init__(self, plan: Costs) -> None:
        self.plan = plan
        self.lows: list[list[int]] = []
        self.highs: list[list[int]] = []
        self.exact: list[int] = []
        self.kinds: list[tuple[int, bool]] = []

    def add(self, lows: list[int], highs: list[int], exact: int, depth: int, *, tested: bool) -> None:
        self.lows.append(lows)
        self.highs.append(highs)
        self.exact.append(exact)
        self.kinds.append((depth, tested))

    def measured(self, schema: Schema, rng: Rng) -> BlockView:
        """Noise in the count of every block, those of one epsilon together."""
        exact = np.array(self.exact, dtype=np.int64)
        counts, variances = np.empty(exact.size), np.empty(exact.size)
        epsilon_of = {kind: self.plan.leaf(kind[0], tested=kind[1]) for kind in set(self.kinds)}
        numbers = {epsilon: number for number, epsilon in enumerate(sorted(set(epsilon_of.values())))}
        number_of = {kind: numbers[epsilon] for kind, epsilon in epsilon_of.items()}
        place = np.array([number_of[kind] for kind in self.kinds])
        for epsilon, number in numbers.items():
            here = place == number
            counts[here] = geometric(exact[here], epsilon=epsilon, sensitivity=1, rng=rng)
            variances[here] = geometric_variance(1 / epsilon)
        lows, highs = np.array(self.lows, dtype=np.int64), np.array(self.highs, dtype=np.int64)
        return BlockView(schema=schema, lows=lows, highs=highs, counts=counts, variances=variances)


@dataclass(frozen=True, slots=True)
class _Stop:
    """The stop test: level(AE, depth) plus noise of this scale against theta."""

    scale: Fraction
    level: Callable[[int, int], int]


def _by_depth(plan: Costs) -> _Stop:
    return _Stop(AE_SENSITIVITY / plan.test, lambda error, depth: error)


def _depth_free(plan: Costs) -> _Stop:
    """PrivTree's decaying test: b = max(AE - delta * depth, theta + 2 - delta); needs AE(child) <= AE(parent)."""
    scale = stop_scale(plan.tests)
    decay = stop_decay(scale)
    return _Stop(scale, lambda error, depth: max(error - decay * depth, THETA + AE_SENSITIVITY - decay))


def stop_scale(epsilon: Fraction) -> Fraction:
    """lambda = ((2a - 1)/(a - 1) + 1) * sensitivity / epsilon for a branches."""
    return (Fraction(2 * BRANCHES - 1, BRANCHES - 1) + 1) * AE_SENSITIVITY / epsilon


def stop_decay(scale: Fraction) -> int:
    """delta = lambda * ln a, up to the next whole number."""
    return math.ceil(float(scale) * math.log(BRANCHES))


class _Noise:
    """Noise of one scale, and uniform choices, drawn in batches."""

    def __init__(self, scale: Fraction, rng: Rng) -> None:
        self.scale, self.rng = scale, rng
        self.ready: Iterator[int] = iter(())
        self.words: Iterator[int] = iter(())

    def __call__(self) -> int:
        drawn = next(self.ready, None)
        if drawn is None:
            self.ready = iter(geometric_noise(DRAWS, scale=self.scale, rng=self.rng).tolist())
            drawn = next(self.ready)
        return drawn

    def below(self, bound: int) -> int:
        """A uniform integer of range(bound): a word counts if it is below the largest multiple of the bound."""
        top = 2**64 // bound * bound
        while True:
            word = next(self.words, None)
            if word is None:
                self.words = iter(self.rng.words64(DRAWS).tolist())
            elif word < top:
                return word % bound


def _halves(
    block: _Block, columns: Integers, values: Integers, plan: Costs, how: str, rng: Rng
) -> tuple[_Block, _Block]:
    """Cut a block where permute-and-flip says; where all scores are equal that is anywhere."""
    if how == "error" and is_flat(values, block.lows, block.highs, block.cells):
        axis, left = places(block.highs - block.lows + 1)
        chosen = rng.below(axis.size)
        return _split(block, columns, int(axis[chosen]), int(left[chosen]))
    cut = score_cuts(columns[block.members], values, block.lows, block.highs, block.cells, how)
    if int(cut.scores.min()) == int(cut.scores.max()):
        chosen = rng.below(cut.axis.size)
    else:
        sensitivity = SPREAD_SENSITIVITY if how == "spread" else AE_SENSITIVITY
        chosen = permute_and_flip(cut.scores, epsilon=plan.cut, sensitivity=sensitivity, rng=rng)
    return _split(block, columns, int(cut.axis[chosen]), int(cut.after[chosen]))


def _split(block: _Block, columns: Integers, axis: int, left: int) -> tuple[_Block, _Block]:
    width = int(block.highs[axis] - block.lows[axis]) + 1
    border = int(block.lows[axis]) + left
    highs, lows = block.highs.copy(), block.lows.copy()
    highs[axis], lows[axis] = border - 1, border
    is_left = columns[block.members, axis] < border
    part, depth = block.cells // width, block.depth + 1
    return (
        _Block(block.lows, highs, part * left, depth, block.members[is_left]),
        _Block(lows, block.highs, part * (width - left), depth, block.members[~is_left]),
    )
