"""Pairs beyond the tree: where attributes depend on each other densely, all remaining pairs are measured at once.

A public gate asks whether the remaining pairs could be measured well at all; a probe, one noisy number, whether the
forest is far enough off for it to pay. Then every remaining table is measured, shrunk towards the forest (James and
Stein), and records drawn from the forest are weighted until they agree with all tables. No clique limits that: answers
are those of the tree plus a sum over records of how much their weights changed. Only `probe` and the measured tables
see the private table. Proof: proofs/view.md
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np

from sudare.methods.view.budget import ViewBudget
from sudare.methods.view.fit import Pair
from sudare.methods.view.junction_tree import Factors
from sudare.noise import Rng
from sudare.noise.uniform import draw_below
from sudare.schema.arrays import Codes, Integers, Reals

Ends = tuple[int, int]

LEAST_SIGNAL = 250  # records over the noise of a cell: below, extra pairs are chosen instead
MOST_UNITS = 4  # units of the noise of a pair's table: the probe takes no pair for farther off
PAYS = 2.4  # units; chosen, as LEAST_SIGNAL, on Adult, electricity, phoneme and a made-up dense table
PROBED_PAIRS = 50
PROBE_SHARE = Fraction(1, 100)  # of the amount
RECORDS = 60_000  # drawn from the forest and weighted
SWEEPS, LATE_SWEEPS = 12, 5  # of the estimate, and of a replicate, which starts from it
TREE_SWEEPS = 4
FULL_STEP, LATE_STEP = 0.8, 0.4  # of the logarithm of a ratio: tables that contradict each other are averaged
MOST_RATIO = 5.0
LEAST_SHRINKAGE = 0.02  # a table of which less is kept says nothing
LEAST_OF_MODEL = 1e-3  # of what the forest says: no cell is made empty by noise
MOST_JOINT_CELLS = 200_000


# --- whether it pays --------------------------------------------------------------------------------------------------


def passes_gate(records: float, deviation: float) -> bool:
    """Tell from public numbers whether all remaining pairs could be measured well."""
    return deviation > 0 and records / deviation >= LEAST_SIGNAL


@dataclass(frozen=True, kw_only=True, eq=False)
class PairGrid:
    """Nine boxes of a pair of attributes: the part, 0 to 2, of every coarse bin of each."""

    ends: Ends
    parts: tuple[Codes, Codes]

    def add_up(self, table: Reals) -> Reals:
        """Add a table of the pair up to its boxes."""
        rows, columns = (np.eye(3)[part] for part in self.parts)
        boxes: Reals = rows.T @ table @ columns
        return boxes


def draw_pair_grids(pairs: Sequence[Ends], margins: Sequence[Reals], *, rng: Rng) -> list[PairGrid]:
    """Choose pairs and cut each attribute in three of about equal mass: public randomness, public numbers."""
    chosen = list(pairs)
    while len(chosen) > PROBED_PAIRS:
        chosen.pop(int(draw_below(len(chosen), 1, rng=rng)[0]))
    grids = []
    for ends in chosen:
        parts = []
        for attribute in ends:
            mass = margins[attribute]
            middle = (np.cumsum(mass) - mass / 2) / max(float(mass.sum()), 1e-9)
            parts.append(np.minimum((3 * middle).astype(np.int64), 2))
        grids.append(PairGrid(ends=ends, parts=(parts[0], parts[1])))
    return grids


def probe(
    grids: Sequence[PairGrid],
    true: Callable[[Ends], Integers],
    model: Factors,
    deviation: float,
    *,
    part: Fraction,
    budget: ViewBudget,
    rng: Rng,
) -> float:
    """How far the forest is off a pair's nine boxes, on average, in units of the noise that its table would have.

    A pair counts MOST_UNITS at most, so that a few strong ones, which extra pairs would catch, do not decide.
    Guarantee: the part, in the currency of the budget: a record changes one box of every grid by 1, answers are rounded
    before they are compared, and cutting off a sum at a public bound makes it change no more.
    """
    wrong, most = 0, 0
    for grid in grids:
        table = model.joint(grid.ends)[0]
        boxes = grid.add_up(true(grid.ends).astype(np.float64))  # whole numbers below 2**53: exact
        bound = max(1, round(MOST_UNITS * deviation * math.sqrt(table.size)))
        wrong += min(bound, int(np.abs(boxes - np.rint(grid.add_up(table))).sum()))
        most += bound
    noise = budget.sum_noise(part, len(grids))
    found = float(noise.add(np.array([wrong], dtype=np.int64), rng=rng)[0])
    return MOST_UNITS * found / most


def does_pay(units: float, pairs: int, extras: int) -> bool:
    """Tell whether the remaining pairs are far enough off, apart from the strongest, which extra pairs would catch."""
    caught = extras / pairs
    return caught < 1 and (units - MOST_UNITS * caught) / (1 - caught) >= PAYS


# --- weighted records -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class WeightedRecords:
    """Records drawn from the forest as coarse bins, with their weights; all of it public.

    `changes`, (versions, records): how much raking to all pairs changed the weight that the forest gives a record.
    """

    bins: Codes  # (records, attributes)
    weights: Reals
    changes: Reals
    widths: tuple[int, ...]
    _tables: dict[tuple[int, ...], Reals] = field(default_factory=dict, repr=False)

    def only(self, version: int) -> WeightedRecords:
        """One version by itself."""
        return replace(self, changes=self.changes[version : version + 1], _tables={})

    def table(self, attributes: Sequence[int]) -> Reals:
        """What the changes add up to in every cell of some attributes, (versions, bins, bins, ...)."""
        key = tuple(attributes)
        if key not in self._tables:
            cell, size = np.zeros(len(self.bins), dtype=np.int64), 1
            for attribute in key:
                cell = cell * self.widths[attribute] + self.bins[:, attribute]
                size *= self.widths[attribute]
            sums = np.stack([np.bincount(cell, change, size).astype(np.float64) for change in self.changes])
            self._tables[key] = sums.reshape(-1, *(self.widths[attribute] for attribute in key))
        return self._tables[key]

    def answer(self, evidence: Mapping[int, Reals]) -> Reals:
        """What the changes add to a count of the tree, version by version."""
        summed: Reals = self.changes.sum(axis=1)
        if not evidence:
            return summed
        attributes = sorted(evidence)
        if math.prod(self.widths[attribute] for attribute in attributes) <= MOST_JOINT_CELLS:
            table = self.table(attributes)
            for attribute in reversed(attributes):
                table = np.einsum("v...b,vb->v...", table, evidence[attribute])
            return table
        product = self.changes.copy()
        for attribute in attributes:
            product = product * evidence[attribute][:, self.bins[:, attribute]]
        summed = product.sum(axis=1)
        return summed


Target = tuple[Codes, Reals]  # the cell of every record, and how many records each cell shall have


def shrink(pair: Pair, model: Reals) -> Reals | None:
    """Pull a noisy table towards the forest, as far as its noise explains the difference; None if all of it does.

    Only what is not in the margins is taken from it: those are known better.
    """
    off = pair.values - model
    off = off - off.mean(axis=0) - off.mean(axis=1)[:, None] + off.mean()
    free = max(1, (model.shape[0] - 1) * (model.shape[1] - 1) - 2)
    kept = 1 - pair.variance * free / max(float((off**2).sum()), 1e-9)
    return np.maximum(model + kept * off, LEAST_OF_MODEL * model) if kept > LEAST_SHRINKAGE else None


def rake(weights: Reals, targets: Sequence[Target], total: float, *, sweeps: int) -> Reals:
    """Change weights until the records agree with the tables, in damped sweeps; weights stay positive."""
    weights = weights.copy()
    for sweep in range(sweeps):
        step = FULL_STEP if sweep < sweeps // 2 else LATE_STEP
        for cells, table in targets:
            now = np.bincount(cells, weights, table.size)
            ratio = np.where(now > 0, table / np.where(now > 0, now, 1.0), 1.0)
            weights *= (np.clip(ratio, 1 / MOST_RATIO, MOST_RATIO) ** step)[cells]
        weights *= total / max(float(weights.sum()), 1e-300)
    return weights


@dataclass(frozen=True, kw_only=True, eq=False)
class RakedPairs:
    """The tables measured beyond the tree, and records drawn from the tree's estimate."""

    pairs: tuple[Pair, ...]
    bins: Codes
    widths: tuple[int, ...]
    forest: tuple[Ends, ...]

    def fit(self, factors: Factors, pairs: Sequence[Pair], *, start: Reals | None = None) -> tuple[Reals, Reals]:
        """The weights that the forest gives the records, and those that all tables give them."""
        total = float(factors.totals[0])
        cells = {ends: self.bins[:, ends[0]] * width + self.bins[:, ends[1]] for ends, width in self._strides.items()}
        said = {ends: factors.joint(ends)[0] for ends in cells}
        forest = [(cells[ends], table.ravel()) for ends, table in said.items()]
        even = np.full(len(self.bins), total / max(1, len(self.bins)))
        plain = rake(even, forest, total, sweeps=TREE_SWEEPS)  # so that only what the tables add is left to chance
        shrunk = {pair.ends: shrink(pair, said[pair.ends]) for pair in pairs}
        kept = [(cells[ends], said[ends].ravel()) for ends in self.forest]
        targets = [(cells[ends], table.ravel()) for ends, table in shrunk.items() if table is not None]
        if not targets:
            return plain, plain
        sweeps = SWEEPS if start is None else LATE_SWEEPS
        return plain, rake(plain if start is None else start, [*targets, *kept], total, sweeps=sweeps)

    @property
    def _strides(self) -> dict[Ends, int]:
        """How many bins the second attribute of every measured pair has."""
        return {ends: self.widths[ends[1]] for ends in (*(pair.ends for pair in self.pairs), *self.forest)}

    def noised(self, weights: Reals, add_noise: Callable[[Reals, float], Reals]) -> list[Pair]:
        """Measure the weighted records as the table was measured."""
        again = []
        for pair in self.pairs:
            first, second = pair.ends
            cells = self.bins[:, first] * self.widths[second] + self.bins[:, second]
            table = np.bincount(cells, weights, pair.values.size).astype(np.float64).reshape(pair.values.shape)
            again.append(replace(pair, values=add_noise(table, pair.variance)))
        return again
