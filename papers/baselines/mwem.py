"""A table learnt query by query: multiplicative weights, the exponential mechanism and noise (Hardt et al. 2012)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import Literal

import numpy as np

from papers.baselines.base import check_choice, check_schema, promise, sampled
from sudare.counts import Counts
from sudare.errors import ParameterError
from sudare.noise import Rng, exponential, geometric
from sudare.privacy import Guarantee, Neighbours, exact_epsilon
from sudare.schema import Schema, Unit
from sudare.schema.arrays import Integers, Reals

QUERIES = ("cells", "one-way", "two-way")
GRID = 1024  # estimates are rounded to 1/1024 of a record before they are compared: scores are then exact integers


@dataclass(frozen=True, kw_only=True, slots=True)
class Mwem:
    """Learn a table from its worst-answered queries: choose one, measure it, reweight the cells it counts.

    choose   P[i] proportional to exp(epsilon/(4T) |q_i(A) - q_i(v)|)        A the table so far, even at first
    measure  m = q_i(v) + Z, Z two-sided geometric with a = e^(-epsilon/(2T))
    reweight A(x) <- A(x) exp(q_i(x) (m - q_i(A))/(2n)), then scaled to n    (m cut to 0..n first)

    T is `rounds`. The queries are the cells, or the cells of all one-way or of all two-way tables. `sweeps` repeats the
    reweighting over all measurements so far; `average` publishes from the mean of the T tables (for which the bound
    below is proven) instead of the last one. n records are sampled from the shares of A.

    Guarantee: epsilon-DP for one replaced row: T choices and T measurements of epsilon/(2T) each. A count, and so a
    score, changes by at most 1. Choice and noise are drawn exactly. Proof: proofs/baselines.md
    Error: max_i |q_i(A) - q_i(v)| <= 2n sqrt(ln p/T) + 10 T ln|Q|/epsilon with probability 1 - 2T/|Q| (with average,
    one sweep), before sampling. The paper computes 4,741 for 100 records.
    Source: Terada 2017, equation 16; Hardt, Ligett, McSherry, A simple and practical algorithm for differentially
    private data release, 2012

    >>> Mwem(epsilon=1, rounds=10).guarantee().epsilon
    Fraction(1, 1)
    """

    epsilon: Fraction | str | int | float
    rounds: int = 10
    queries: Literal["cells", "one-way", "two-way"] = "cells"
    sweeps: int = 1
    average: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", exact_epsilon(self.epsilon))
        check_choice("queries", self.queries, QUERIES)
        for name in ("rounds", "sweeps"):
            if getattr(self, name) < 1:
                raise ParameterError("{name} ({value}) must be at least 1", name=name, value=getattr(self, name))

    def guarantee(self, *, unit: Unit | None = None, neighbours: Neighbours | None = None) -> Guarantee:
        """Tell the promise before any data is opened."""
        return promise(Fraction(self.epsilon), unit=unit, neighbours=neighbours)

    @property
    def step_epsilon(self) -> Fraction:
        """The epsilon of one choice, and of one measurement: half of a round's share."""
        return Fraction(self.epsilon) / (2 * self.rounds)

    def draw(self, counts: Counts, *, neighbours: Neighbours | None = None, rng: Rng) -> Counts:
        """Learn a table, then sample from it."""
        self.guarantee(unit=counts.schema.unit, neighbours=neighbours)
        check_schema(counts.schema)
        return sampled(counts.schema, self.learn(counts, rng=rng), records=counts.total, rng=rng)

    def learn(self, counts: Counts, *, rng: Rng) -> Reals:
        """Give the learnt table, before records are sampled from it. Private until here, public from here on."""
        asked = Queries(counts.schema, self.queries)
        truth = np.rint(asked.answers(counts.dense().astype(np.float64))).astype(np.int64)
        table = np.full(counts.schema.size, counts.total / counts.schema.size)
        total = np.zeros_like(table)
        seen: list[tuple[Integers, int]] = []
        for _ in range(self.rounds):
            chosen = self._choose(asked.answers(table), truth, rng)
            noisy = geometric(truth[[chosen]], epsilon=self.step_epsilon, sensitivity=1, rng=rng)
            seen.append((asked.cells(chosen), min(max(int(noisy[0]), 0), counts.total)))
            table = reweight(table, seen, sweeps=self.sweeps, records=counts.total)
            total += table
        return total / self.rounds if self.average else table

    def _choose(self, estimates: Reals, truth: Integers, rng: Rng) -> int:
        scores = distances(estimates, truth)
        return exponential(scores, epsilon=self.step_epsilon, sensitivity=GRID, rng=rng)


def distances(estimates: Reals, truth: Integers) -> Integers:
    """How far the estimates are off, in whole 1/1024 of a record; changes by at most 1024 with one record."""
    off: Integers = np.rint(estimates * GRID).astype(np.int64) - GRID * truth
    return np.abs(off)


def reweight(table: Reals, seen: Sequence[tuple[Integers, int]], *, sweeps: int, records: int) -> Reals:
    """Apply the update of the newest measurement, or, with more sweeps, of all of them again and again."""
    weights = table.copy()
    for _ in range(sweeps):
        for cells, measured in seen if sweeps > 1 else seen[-1:]:
            off = measured - float(weights[cells].sum())
            weights[cells] *= np.exp(off / (2 * max(records, 1)))
            weights *= records / max(float(weights.sum()), 1e-300)
    return weights


class Queries:
    """The cells of some marginal tables, as queries on the whole table: query = (marginal, its cell)."""

    def __init__(self, schema: Schema, kind: str) -> None:
        ways = {"one-way": 1, "two-way": 2}.get(kind, len(schema.sizes))
        axes = range(len(schema.sizes))
        self._sizes = schema.sizes
        self._marginals = list(combinations(axes, min(ways, len(schema.sizes))))
        ends = np.cumsum([int(np.prod([schema.sizes[axis] for axis in kept])) for kept in self._marginals])
        self._starts = [0, *ends.tolist()]

    def answers(self, table: Reals) -> Reals:
        """Answer all queries: the marginal tables one after another."""
        cube = table.reshape(self._sizes)
        axes = range(len(self._sizes))
        sums = [cube.sum(axis=tuple(axis for axis in axes if axis not in kept)) for kept in self._marginals]
        return np.concatenate([one.ravel() for one in sums])

    def cells(self, query: int) -> Integers:
        """The cells that a query counts."""
        place = int(np.searchsorted(self._starts, query, side="right")) - 1
        kept = self._marginals[place]
        values = np.unravel_index(query - self._starts[place], [self._sizes[axis] for axis in kept])
        chosen = dict(zip(kept, values, strict=True))
        codes = [
            np.array([chosen[axis]]) if axis in chosen else np.arange(size) for axis, size in enumerate(self._sizes)
        ]
        grid = np.ix_(*codes)
        return np.ravel_multi_index(np.broadcast_arrays(*grid), self._sizes).ravel().astype(np.int64)
