"""The exam: one noisy number tells how far the finished view is off, so that its intervals need not suppose it.

For some tuples of attributes, grids of disjoint boxes: the sum of |true - answer| over all of them. Answers are public,
and a record lies in one box of every grid, so it changes the sum by at most the number of tuples. Proof: proofs/view.md
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np

from sudare.methods.view.junction_tree import Factors
from sudare.methods.view.residual import WeightedRecords
from sudare.noise import CountNoise, Rng
from sudare.noise.uniform import draw_below
from sudare.schema.arrays import Codes, Integers, Reals

TUPLES = 40
SHARE = Fraction(2, 100)  # of the amount
SHARE_OF_FEW_RECORDS = Fraction(4, 100)
FEW_RECORDS = 30_000  # records times epsilon
TAILS = Fraction(5, 2)  # errors of models have heavier tails than a normal law; chosen by coverage on Adult
BLIND = 2.0  # what the model's variance is multiplied by where neither pairs nor the exam tell anything
LEAST_FACTOR, SURE = 0.6, 0.05  # the least factor where the exam's own noise is below SURE of it; else 1
LOWEST, HIGHEST = 0.02, 400.0  # between which the factor is sought


def plan_exam(amount: Fraction, signal: float, attributes: int) -> Fraction:
    """What the exam costs, from `signal`, the noisy records times epsilon; one attribute needs none."""
    if attributes < 2:
        return Fraction(0)
    return amount * (SHARE if signal >= FEW_RECORDS else SHARE_OF_FEW_RECORDS)


class Examined(Protocol):
    """What the exam asks a view: its tables and shares, and the variances of counts."""

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
    def records(self) -> WeightedRecords | None:
        """Records whose weights tell what the tree does not hold."""

    def doubt(self, attributes: Iterable[int]) -> float:
        """The model's variance of a count of these attributes, in units of p(1-p)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Grid:
    """Disjoint boxes of a tuple of attributes: the part, 0 to 2, of every leaf of each."""

    attributes: tuple[int, ...]
    parts: tuple[Codes, ...]

    def count(self, columns: Sequence[Codes], values: Integers) -> Integers:
        """Count the boxes; `columns` hold the leaves of every stored cell."""
        box = np.zeros(values.size, dtype=np.int64)
        for attribute, part in zip(self.attributes, self.parts, strict=True):
            box = 3 * box + part[columns[attribute]]
        return np.bincount(box, weights=values, minlength=3 ** len(self.parts)).astype(np.int64)

    def answer(self, view: Examined) -> Reals:
        """Answer all boxes, (versions, boxes)."""
        table = view.factors.joint(self.attributes)
        if view.records is not None:
            table = table + view.records.table(self.attributes)
        for axis, (attribute, part) in enumerate(zip(self.attributes, self.parts, strict=True)):
            bins, share = view.bins[attribute], view.shares[attribute]
            evidence = _add_up(3 * bins + part, share, 3 * table.shape[1 + axis])
            evidence = evidence.reshape(share.shape[0], -1, 3)
            moved = np.moveaxis(table, 1 + axis, -1)
            shape = moved.shape
            product = moved.reshape(shape[0], -1, shape[-1]) @ evidence
            table = np.moveaxis(product.reshape(*shape[:-1], 3), -1, 1 + axis)
        answers: Reals = table.reshape(table.shape[0], -1)
        return answers


def _add_up(places: Codes, share: Reals, size: int) -> Reals:
    """Add up the shares of leaves by place, version by version."""
    sums = np.zeros((share.shape[0], size))
    for version in range(share.shape[0]):
        sums[version] = np.bincount(places, share[version], size)
    return sums


def draw_grids(view: Examined, *, rng: Rng, tuples: int = TUPLES) -> list[Grid]:
    """Choose tuples of two or three attributes and two ends for each, by the view's own counts: public randomness."""
    d, grids = len(view.bins), []
    for number in range(tuples):
        wanted = 2 if d == 2 or number % 2 else 3
        chosen: list[int] = []
        while len(chosen) < wanted:
            attribute = int(draw_below(d, 1, rng=rng)[0])
            chosen += [attribute] if attribute not in chosen else []
        parts = []
        for attribute in chosen:
            counts = view.factors.of([attribute])[0][view.bins[attribute]] * view.shares[attribute][0]
            reached = np.cumsum(counts) / max(float(counts.sum()), 1e-9)
            low, high = np.sort(draw_below(1000, 2, rng=rng)) / 1000
            parts.append((reached > low).astype(np.int64) + (reached > high))
        grids.append(Grid(attributes=tuple(chosen), parts=tuple(parts)))
    return grids


def examine(
    view: Examined, columns: Sequence[Codes], values: Integers, *, noise: CountNoise, blind: bool, rng: Rng
) -> float:
    """Find what the model's variance must be multiplied by.

    `noise` is that of one number which a record changes by TUPLES.
    Guarantee: what the noise costs. Answers are rounded before they are compared, so the sum is a whole number.
    """
    grids = draw_grids(view, rng=rng)
    wrong, parts = 0, []
    for grid in grids:
        answers = grid.answer(view)
        rounded = np.rint(answers[0]).astype(np.int64)
        wrong += int(np.abs(grid.count(columns, values) - rounded).sum())
        total = max(float(answers[0].sum()), 1.0)
        share = np.clip(answers[0] / total, 0.0, 1.0)
        spread = ((answers[1:] - answers[0]) ** 2).mean(axis=0)
        parts.append(np.stack([spread, view.doubt(grid.attributes) * share * (1 - share)]))
    noisy = float(noise.add(np.array([wrong], dtype=np.int64), rng=rng)[0])
    return judge(noisy, noise.spread, np.concatenate(parts, axis=1), blind=blind)


def judge(noisy: float, own: float, variances: Reals, *, blind: bool) -> float:
    """Turn the noisy sum into the factor: as far as the exam's own noise lets it count.

    >>> variances = np.array([[100.0] * 200, [0.0] * 200])
    >>> judge(1600.0, 1.0, np.array([[0.0] * 200, [100.0] * 200]), blind=False) > 2
    True
    """
    noise, model = variances
    low, high = LOWEST, HIGHEST
    for _ in range(40):
        middle = math.sqrt(low * high)
        is_below = math.sqrt(2 / math.pi) * float(np.sqrt(noise + middle * model).sum()) < noisy
        low, high = (middle, high) if is_below else (low, middle)
    relative = own / max(noisy, own)
    weight = 1 / (1 + (4 * relative) ** 2)
    unknown = BLIND if blind else 1.0
    factor = math.exp(weight * math.log(float(TAILS) * high) + (1 - weight) * math.log(unknown))
    return max(factor, LEAST_FACTOR if relative < SURE else 1.0)
