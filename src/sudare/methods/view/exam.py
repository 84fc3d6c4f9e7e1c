"""The exam: noisy numbers tell how often the intervals of the finished view would miss, and how wide they must be.

For some tuples of attributes, grids of disjoint boxes. The answers to all boxes and how far each reaches are public;
the error of a box is compared with its reach on a ladder of widths, from a third of it to thirty times. Between two
rungs an error counts by how far it has climbed, so that one record more moves one box of a grid by one step. What is
released is a smoothed share of errors beyond every rung, by class of question: of attributes whose pairs were all
measured, and of others; of one attribute the law of the noise is known. Proof: proofs/view.md
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from sudare.asking.protocol import Moments
from sudare.methods.view.junction_tree import Factors
from sudare.methods.view.leaves import LeafAxis, LeafWeights
from sudare.methods.view.prepared_axis import find_least, find_most
from sudare.schema.arrays import Codes, Integers, Reals

if TYPE_CHECKING:  # who asks a view does not wait for what makes one
    from sudare.methods.view.budget import ViewBudget
    from sudare.noise import CountNoise, Rng

# The noise grows with the tuples, what is counted with the boxes of all of them: few tuples of many boxes tell most.
TUPLES = 24
PARTS = (0, 0, 5, 4)  # of an attribute, by the number of attributes of a tuple, 2 or 3
LIST_TO_GROUP_BY = 64  # values
SHARE = Fraction(1, 100)  # of the amount: with 1.5 and 2.5 % no more intervals held, and estimates were farther off
LEVEL = 0.95  # of the reach that errors are compared with
RUNGS = tuple(0.3 * 1.4**step for step in range(15))  # widths of intervals, in units of their reach
WEIGHT = 64  # whole steps that a record climbs at most: weights are multiples of 1/64
USUAL_WIDTHS = (0.5, 0.7, 0.85, 0.95, 1.0)  # quantiles of the widths between two rungs: narrower boxes count less
SMALL_NOISE = 0.02  # of the share of errors: the first of USUAL_WIDTHS with less noise is taken
CLASSES = ("one", "held", "other")
EXAMINED = (1, 2)  # of CLASSES

# What the scale of an interval may be, before the exam is heard: chosen on Adult, electricity, phoneme and metro.
SCALES = tuple(0.2 * 1.25**step for step in range(24))  # of the errors, in units of their deviation as supposed
TAILS = (1.0, 2.5, 6.0, 15.0)  # how much wider the worst errors are than the others
TAIL_WEIGHTS = (0.45, 0.4, 0.12, 0.03)
WORST_SHARE = 0.12  # of the errors, that have heavy tails
PRIOR_SCALE, PRIOR_SPREAD = math.log(0.55), 0.35  # of the logarithm of the scale
BLIND_SCALE, BLIND_SPREAD = math.log(1.3), 0.5  # where hardly a pair was looked at
BEYOND_SCALE = math.log(0.95)  # where all pairs were measured: chosen, as the least, on dense, 401ksubs and happiness
LEAST_SCALE_BEYOND = 1.1  # there, of three and more attributes: what they do together is in no replicate
LEAST_SCALE_OF_PAIRS = 0.95  # there, of two, which have a noisy table: with less, children of gss_wages held too seldom
BOXES_LIKE_TUPLES = 3.0  # independent errors that the boxes of a tuple are worth
SCALE_OF_ONE = 1.0  # for questions about one attribute: the law of their noise is known, and noise hid what they told
MISFIT = 0.02  # of the errors: what no law of the family explains
MISSES = 0.05  # that are aimed at
LEAST_SCALE, MOST_SCALE = 0.35, 40.0  # of an interval


def plan_exam(amount: Fraction, attributes: int) -> Fraction:
    """What the exam costs; one attribute needs none."""
    return amount * SHARE if attributes > 1 else Fraction(0)


def exam_noise(part: Fraction, budget: ViewBudget) -> CountNoise:
    """The noise of all steps: a record climbs at most WEIGHT of them in every grid."""
    return budget.sum_noise(part, TUPLES * WEIGHT)


def class_of(attributes: Iterable[int], known_pairs: frozenset[tuple[int, int]], *, holds_threes: bool = True) -> int:
    """The class of a question about some attributes: its place in CLASSES.

    `holds_threes`: whether three attributes of which each pair is known lie in one table.
    """
    places = sorted(attributes)
    if len(places) < 2:
        return 0
    if len(places) > 2 and not holds_threes:
        return 2
    pairs = ((first, second) for place, first in enumerate(places) for second in places[place + 1 :])
    return 1 if all(pair in known_pairs for pair in pairs) else 2


class Examined(Protocol):
    """What the exam asks a view: its leaves, tables and shares, and the moments of counts."""

    @property
    def axes(self) -> tuple[LeafAxis, ...]:
        """The leaves of every attribute."""

    @property
    def factors(self) -> Factors:
        """The tables of the cliques."""

    @property
    def bins(self) -> tuple[Codes, ...]:
        """The coarse bin of every leaf."""

    @property
    def shares(self) -> tuple[Reals, ...]:
        """The share of every leaf within its bin, (versions, leaves)."""

    @property
    def known_pairs(self) -> frozenset[tuple[int, int]]:
        """The pairs of attributes that were measured."""

    @property
    def holds_threes(self) -> bool:
        """Whether three attributes of which each pair was measured lie in one table."""

    def moments(self, boxes: Sequence[Mapping[int, LeafWeights]]) -> Moments:
        """Estimate a count over disjoint boxes."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Grid:
    """Disjoint boxes of a tuple of attributes: the part of every leaf of each."""

    attributes: tuple[int, ...]
    parts: tuple[Codes, ...]

    @property
    def widths(self) -> tuple[int, ...]:
        """How many parts every attribute has."""
        return tuple(int(part.max()) + 1 for part in self.parts)

    def count(self, columns: Sequence[Codes], values: Integers) -> Integers:
        """Count the boxes; `columns` hold the leaves of every stored cell."""
        box = np.zeros(values.size, dtype=np.int64)
        for attribute, part, width in zip(self.attributes, self.parts, self.widths, strict=True):
            box = width * box + part[columns[attribute]]
        return np.bincount(box, weights=values, minlength=math.prod(self.widths)).astype(np.int64)

    def answer(self, view: Examined) -> tuple[Integers, Reals]:
        """Answer all boxes, rounded, and tell how far each interval reaches."""
        weights = [
            [LeafWeights.plain((part == number).astype(np.float64)) for number in range(width)]
            for part, width in zip(self.parts, self.widths, strict=True)
        ]
        size = math.prod(self.widths)
        values, reaches = np.empty(size, dtype=np.int64), np.empty(size)
        for box in range(size):
            places = np.unravel_index(box, self.widths)
            chosen = {a: own[int(place)] for a, own, place in zip(self.attributes, weights, places, strict=True)}
            moments = view.moments([chosen])
            values[box], reaches[box] = round(moments.value), moments.reach(LEVEL)
        return values, reaches


def draw_grids(view: Examined, *, rng: Rng, tuples: int = TUPLES) -> list[Grid]:
    """Choose pairs and threes of attributes in turn, and ends by the view's own counts.

    Every other pair is one of those measured; the other pairs and every other three have a list that people would group
    by.
    """
    from sudare.noise.uniform import draw_below

    varying = [place for place, axis in enumerate(view.axes) if axis.size > 1]
    held = sorted(pair for pair in view.known_pairs if set(pair) <= set(varying))
    lists = [place for place, axis in enumerate(view.axes) if not axis.counted and 1 < axis.size <= LIST_TO_GROUP_BY]
    grids = []
    for number in range(tuples):
        wanted = min(2 + number % 2, len(varying))
        chosen: list[int] = []
        if number % 4 == 0 and held:
            chosen = list(held[int(draw_below(len(held), 1, rng=rng)[0])])
        elif number % 4 > 1 and lists:
            chosen = [lists[int(draw_below(len(lists), 1, rng=rng)[0])]]
        while len(chosen) < wanted:
            attribute = varying[int(draw_below(len(varying), 1, rng=rng)[0])]
            chosen += [attribute] if attribute not in chosen else []
        parts = []
        for attribute in chosen:
            counts = view.factors.of([attribute])[0][view.bins[attribute]] * view.shares[attribute][0]
            reached = np.cumsum(counts) / max(float(counts.sum()), 1e-9)
            ends = np.sort(draw_below(1000, PARTS[wanted] - 1, rng=rng)) / 1000
            part = np.searchsorted(ends, reached - 1e-9, side="left")
            parts.append(np.unique(part, return_inverse=True)[1].astype(np.int64))  # none without a leaf
        grids.append(Grid(attributes=tuple(chosen), parts=tuple(parts)))
    return grids


@dataclass(frozen=True, kw_only=True, eq=False)
class Ladder:
    """The rungs of every box in records, and how many steps a record climbs between two of them; all of it public.

    Boxes count alike where noise allows it: beyond a usual width a record climbs less, so that no box counts more. The
    larger the usual width, the more all boxes climb together, and the less the noise hides.
    """

    rungs: Integers  # (boxes, rungs)
    weights: Integers  # (boxes, rungs - 1), at most WEIGHT

    @classmethod
    def of(cls, reaches: Reals, spread: float) -> Ladder:
        """Set up the ladder of boxes with these reaches, whose steps will get noise of this deviation."""
        steps = np.arange(len(RUNGS))
        rungs = np.rint(np.maximum(reaches[:, None], 1e-9) * np.array(RUNGS)).astype(np.int64)
        rungs = np.maximum.accumulate(rungs - steps, axis=1) + steps  # no two rungs are the same
        widths = np.diff(rungs, axis=1)
        usual = np.quantile(widths, USUAL_WIDTHS, axis=0)[:, None, :]
        weights = np.minimum(WEIGHT * usual / widths, WEIGHT).astype(np.int64)  # (quantiles, boxes, rungs - 1)
        is_clear = spread <= SMALL_NOISE * (weights * widths).sum(axis=1) / len(EXAMINED)
        chosen = np.where(is_clear.any(axis=0), is_clear.argmax(axis=0), len(USUAL_WIDTHS) - 1)
        return cls(rungs=rungs, weights=np.take_along_axis(weights, chosen[None, None, :], axis=0)[0])

    def climb(self, errors: Integers) -> Integers:
        """The steps that whole errors climb between every two rungs, (boxes, rungs - 1).

        An error that grows by 1 climbs between two rungs only, by at most WEIGHT steps.
        """
        climbed = np.clip(errors[:, None] - self.rungs[:, :-1], 0, np.diff(self.rungs, axis=1))
        steps: Integers = climbed * self.weights
        return steps

    @property
    def tops(self) -> Reals:
        """The steps that an error beyond all rungs climbs."""
        steps: Reals = (np.diff(self.rungs, axis=1) * self.weights).astype(np.float64)
        return steps


def examine(
    view: Examined,
    columns: Sequence[Codes],
    values: Integers,
    *,
    budget: ViewBudget,
    part: Fraction,
    blind: bool,
    rng: Rng,
) -> tuple[float, ...]:
    """Find what intervals must be multiplied by, class by class.

    Guarantee: the part, in the currency of the budget. A record changes the error of one box of every grid by at most
    1, since answers are rounded before they are compared; so it changes the steps of one class between two rungs by at
    most WEIGHT a grid.
    """
    grids = draw_grids(view, rng=rng)
    answers = [grid.answer(view) for grid in grids]
    noise = exam_noise(part, budget)
    ladder = Ladder.of(np.concatenate([reaches for _, reaches in answers]), noise.spread)
    errors = np.concatenate(
        [np.abs(grid.count(columns, values) - answer) for grid, (answer, _) in zip(grids, answers, strict=True)]
    )
    sizes = [reaches.size for _, reaches in answers]
    of_grid = np.array([class_of(grid.attributes, view.known_pairs, holds_threes=view.holds_threes) for grid in grids])
    classes = np.repeat(of_grid, sizes)
    steps = ladder.climb(errors)
    exact = np.stack([steps[classes == place].sum(axis=0) for place in EXAMINED])
    noisy = noise.add(exact.ravel(), rng=rng).reshape(exact.shape).astype(np.float64)
    held, other = (
        ClassSteps(
            noisy[number],
            ladder.tops[classes == place].sum(axis=0),
            tuples=int((of_grid == place).sum()),
        )
        for number, place in enumerate(EXAMINED)
    )
    usual = (PRIOR_SCALE if view.holds_threes else BEYOND_SCALE), PRIOR_SPREAD
    least, of_pairs = (LEAST_SCALE,) * 2 if view.holds_threes else (LEAST_SCALE_BEYOND, LEAST_SCALE_OF_PAIRS)
    return (
        SCALE_OF_ONE,
        max(of_pairs, judge([held, other], noise.spread, prior=usual)),
        max(least, judge([other, held], noise.spread, prior=(BLIND_SCALE, BLIND_SPREAD) if blind else usual)),
    )


def judge(
    classes: Sequence[ClassSteps], spread: float, *, prior: tuple[float, float] = (PRIOR_SCALE, PRIOR_SPREAD)
) -> float:
    """Turn the noisy steps of classes into what the intervals of the first of them must be multiplied by.

    The scale of the errors and the weight of their tails have a prior, weighted by how well each would explain the
    steps, given the noise and how few tuples there are; further classes count by half. The answer is the width that
    MISSES of the errors exceed.

    >>> few = ClassSteps(np.zeros(len(RUNGS) - 1), np.full(len(RUNGS) - 1, 1e6), tuples=40)
    >>> judge([few], 1.0) < 0.6 < judge([], 1.0)
    True
    """
    centre, width = prior
    fits = np.array(
        [
            math.log(weight) - ((math.log(scale) - centre) / width) ** 2 / 2
            for scale in SCALES
            for weight in TAIL_WEIGHTS
        ]
    )
    for place, steps in enumerate(classes):
        fits = fits + (0.5 if place else 1.0) * steps.explain(spread)
    weights = np.exp(fits - fits.max())
    weights /= weights.sum()
    low, high = LEAST_SCALE, MOST_SCALE
    for _ in range(30):
        middle = math.sqrt(low * high)
        is_short = float(weights @ _beyond(middle)) > MISSES
        low, high = (middle, high) if is_short else (low, middle)
    return high


@dataclass(frozen=True, eq=False)
class ClassSteps:
    """The noisy steps of a class of questions between every two rungs, and those of errors beyond all rungs."""

    noisy: Reals
    tops: Reals
    tuples: int

    def explain(self, spread: float) -> Reals:
        """The log-likelihood of every law of errors, the boxes of few tuples being alike."""
        if not self.tuples or not self.tops.min() > 0:
            return np.zeros(len(SCALES) * len(TAILS))
        expected = _expected_shares()  # (laws, rungs - 1)
        off = self.noisy / self.tops - expected
        noise = (spread / self.tops) ** 2 + MISFIT**2
        shared = np.sqrt(expected * (1 - expected) / (BOXES_LIKE_TUPLES * self.tuples))  # moves all rungs together
        common = 1 + (shared**2 / noise).sum(axis=1)
        fit: Reals = (off**2 / noise).sum(axis=1) - (shared * off / noise).sum(axis=1) ** 2 / common + np.log(common)
        return -fit / 2


_DEVIATION = 1.96  # deviations that a reach has


@lru_cache(maxsize=256)
def _beyond(width: float) -> Reals:
    """The share of errors beyond a width (in reaches), law by law: scale by scale, tail by tail."""
    found = []
    for scale, tail in ((scale, tail) for scale in SCALES for tail in TAILS):
        plain, worst = (math.erfc(_DEVIATION * width / (scale * wide) / math.sqrt(2)) for wide in (1.0, tail))
        found.append((1 - WORST_SHARE) * plain + WORST_SHARE * worst)
    return np.array(found)


@lru_cache(maxsize=1)
def _expected_shares() -> Reals:
    """The smoothed shares beyond every rung, law by law."""
    columns = [
        np.mean([_beyond(float(place)) for place in np.linspace(low, high, 7)[1::2]], axis=0)
        for low, high in pairwise(RUNGS)
    ]
    shares: Reals = np.stack(columns, axis=1)
    return shares


def widen_model(noise: Any, model: Any, scale: Any, least: Any = 0.0) -> Any:
    """What the model makes of an interval by what the exam says of its noise and model; numbers, or one a sum each.

    The law of the noise is known, so it is never narrowed; what is more than it explains is the model's. A question
    with a part of the model is widened for what the model does not know: its noise only as far as the model takes part.
    `least`: the model's part is not narrowed below it.
    """
    square, is_none = scale * scale, model <= 0
    widened = noise * (model / (noise + model + is_none) + is_none)
    return find_most(square * model, find_least(least, model)) + find_most(0.0, square - 1.0) * widened
