"""Pairs beyond the tree: where attributes depend on each other densely, all remaining pairs are measured at once.

A public gate asks whether the remaining pairs could be measured well at all; a probe, one noisy number, whether the
forest is far enough off for it to pay. Then every remaining table is measured, shrunk towards the forest (James and
Stein), and records drawn from the forest are weighted until they agree with all tables. No clique limits that: answers
are those of the tree plus a sum over records of how much their weights changed. Only `probe` and the measured tables
see the private table. Proof: proofs/view.md
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np

from sudare.methods.view.budget import MOST_PAIRS_BEYOND, ViewBudget
from sudare.methods.view.fit import Pair
from sudare.methods.view.junction_tree import Factors
from sudare.methods.view.mixture import HiddenClasses, PairSheet, fit_classes, start_classes
from sudare.methods.view.sampling import draw_bins
from sudare.noise import Rng
from sudare.noise.uniform import draw_below
from sudare.schema.arrays import Codes, Integers, Reals

Ends = tuple[int, int]

# Chosen on the sets of papers/kato_view and the made-up tables TUNED of benchmarks/view_pairs.py.
LEAST_SIGNAL = 100  # records over the noise of a cell: below, extra pairs are chosen instead
LEAST_SIGNAL_FEW_ATTRIBUTES = 150  # below, hardly a probe says that it pays, and extra pairs need what a probe costs
MOST_UNITS = 4  # units of the noise of a pair's table: the probe takes no pair for farther off
PAYS, PAYS_BESIDE_EXTRAS = 1.4, 3.2  # units; and for the part of the pairs that extra ones would be
MANY_EXTRAS = 0.3  # of the pairs: with so many, a few attributes
PAYS_FEW_ATTRIBUTES, PAYS_FEW_NOISY = 2.5, 3.3  # units; with less than CLEAR_SIGNAL the latter
CLEAR_SIGNAL = 600
PROBED_PAIRS = 50
PROBE_SHARE = Fraction(1, 200)  # of the amount
RECORDS = 60_000  # drawn from the forest and weighted
SWEEPS, LATE_SWEEPS = 12, 5  # of the estimate, and of a replicate, which starts from it
ROUNDS, LATE_ROUNDS = 150, 15  # of the hidden classes, likewise
TREE_SWEEPS, LATE_TREE_SWEEPS = 4, 2
TREE_SHARE = 0.9  # of the records: their chance is taken out of answers, that of the classes' records is not
LAST_SWEEPS, LATE_LAST_SWEEPS = 15, 8  # over single attributes alone, which are known best
FEWEST_GROUPS, MOST_GROUPS = 3, 24  # of the bins of an attribute
GROUPS_PER_ROOT = 0.35  # of the records over the noise of a cell
FULL_STEP, LATE_STEP = 0.8, 0.4  # of the logarithm of a ratio: tables that contradict each other are averaged
MOST_RATIO = 5.0
LEAST_SHRINKAGE = 0.02  # a table of which less is kept says nothing
LEAST_OF_MODEL = 1e-3  # of what the forest says: no cell is made empty by noise


# --- whether it pays --------------------------------------------------------------------------------------------------


def passes_gate(signal: float, *, pairs: int, extras: int) -> bool:
    """Tell from public numbers, the records over the noise of a cell, whether all remaining pairs could be measured.

    Where `extras` pairs, which are chosen otherwise, are all that remain, there is nothing to ask.

    >>> passes_gate(500.0, pairs=15, extras=6), passes_gate(500.0, pairs=3, extras=3)
    (True, False)
    """
    least = LEAST_SIGNAL_FEW_ATTRIBUTES if extras > MANY_EXTRAS * pairs else LEAST_SIGNAL
    return extras < pairs <= MOST_PAIRS_BEYOND and signal >= least


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
    groups: Sequence[Codes],
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
        boxes = grid.add_up(true(grid.ends).astype(np.float64)).astype(np.int64)  # below 2**53: exact
        expected = np.rint(grid.add_up(table)).astype(np.int64)  # compared in integers, however large a model may be
        cells = math.prod(int(groups[end].max()) + 1 for end in grid.ends)
        bound = max(1, round(MOST_UNITS * deviation * math.sqrt(cells)))
        wrong += min(bound, int(np.abs(boxes - expected).sum()))
        most += bound
    noise = budget.sum_noise(part, len(grids))
    found = float(noise.add(np.array([wrong], dtype=np.int64), rng=rng)[0])
    return MOST_UNITS * found / most


def does_pay(units: float, signal: float, *, pairs: int, extras: int) -> bool:
    """Tell whether the remaining pairs are far enough off, apart from the strongest, which extra pairs would catch."""
    caught = extras / pairs
    least = PAYS + PAYS_BESIDE_EXTRAS * caught
    if caught > MANY_EXTRAS:
        least = PAYS_FEW_ATTRIBUTES if signal >= CLEAR_SIGNAL else PAYS_FEW_NOISY
    return caught < 1 and (units - MOST_UNITS * caught) / (1 - caught) >= least


# --- weighted records (a view keeps `weighted.WeightedRecords`) -------------------------------------------------------


Target = tuple[Codes, Reals]  # the cell of every record, and how many records each cell shall have


def shrink(pair: Pair, model: Reals) -> Reals:
    """Pull a noisy table towards a model, as far as its noise explains the difference (James and Stein).

    Only what is not in the margins is taken from it: those are known better.
    """
    off = pair.values - model
    off = off - off.mean(axis=0) - off.mean(axis=1)[:, None] + off.mean()
    free = max(1, (model.shape[0] - 1) * (model.shape[1] - 1) - 2)
    kept = 1 - pair.variance * free / max(float((off**2).sum()), 1e-9)
    return np.maximum(model + kept * off, LEAST_OF_MODEL * model) if kept > LEAST_SHRINKAGE else model


def rake(weights: Reals, targets: Sequence[Target], total: float, *, sweeps: int, step: float | None = None) -> Reals:
    """Change weights until the records agree with the tables, in damped sweeps or in steps of `step`; none gets 0."""
    weights = weights.copy()
    for sweep in range(sweeps):
        power = step or (FULL_STEP if sweep < sweeps // 2 else LATE_STEP)
        for cells, table in targets:
            now = np.bincount(cells, weights, table.size)
            ratio = np.where(now > 0, table / np.where(now > 0, now, 1.0), 1.0)
            weights *= (np.clip(ratio, 1 / MOST_RATIO, MOST_RATIO) ** power)[cells]
        weights *= total / max(float(weights.sum()), 1e-300)
    return weights


def group_bins(margins: Sequence[Reals], is_ordered: Sequence[bool], signal: float) -> tuple[Codes, ...]:
    """The group of every coarse bin, attribute by attribute: neighbours of about equal mass share one.

    The fewer records there are over the noise of a cell, the fewer groups; twice as many for values without order,
    whose neighbours are not alike. From public numbers alone.
    """
    wanted = min(MOST_GROUPS, max(FEWEST_GROUPS, round(GROUPS_PER_ROOT * math.sqrt(signal))))
    groups = []
    for mass, ordered in zip(margins, is_ordered, strict=True):
        parts = wanted if ordered else 2 * wanted
        middle = (np.cumsum(mass) - mass / 2) / max(float(mass.sum()), 1e-9)
        part = np.arange(mass.size) if mass.size <= parts else np.minimum((parts * middle).astype(np.int64), parts - 1)
        groups.append(np.unique(part, return_inverse=True)[1].astype(np.int64))
    return tuple(groups)


def add_groups(table: Reals, first: Codes, second: Codes) -> Reals:
    """Add a table of bins up to its groups, which are runs of bins."""
    rows = np.add.reduceat(table, np.searchsorted(first, np.arange(first[-1] + 1)), axis=0)
    added: Reals = np.add.reduceat(rows, np.searchsorted(second, np.arange(second[-1] + 1)), axis=1)
    return added


@dataclass(frozen=True, kw_only=True, eq=False)
class RakedFit:
    """The weights that the tree gives the records, those that all tables give them, and what they leave of each."""

    plain: Reals
    weights: Reals
    left: tuple[Reals, ...]

    @property
    def changes(self) -> Reals:
        """How much raking changed the weights."""
        changes: Reals = self.weights - self.plain
        return changes


@dataclass(frozen=True, kw_only=True, eq=False)
class RakedPairs:
    """The tables measured beyond the tree, over groups of bins; hidden classes; and records drawn from both.

    The first `drawn` records are the tree's, the others the classes'.
    """

    pairs: tuple[Pair, ...]
    groups: tuple[Codes, ...]
    forest: tuple[Pair, ...]
    classes: HiddenClasses
    bins: Codes
    drawn: int
    widths: tuple[int, ...]
    _places: dict[Ends, Codes] = field(default_factory=dict, repr=False)  # see `_cells`

    @classmethod
    def of(
        cls, factors: Factors, forest: Sequence[Pair], pairs: Sequence[Pair], groups: Sequence[Codes], *, rng: Rng
    ) -> RakedPairs:
        """Fit the hidden classes, and draw the records that will be weighted."""
        margins = [factors.of([place])[0] for place in range(len(groups))]
        widths = tuple(margin.size for margin in margins)
        sheets = _lay_out(factors, forest, pairs, groups, widths)
        classes = fit_classes(start_classes(margins, rng=rng), sheets, margins, rounds=ROUNDS)
        size = round(RECORDS * TREE_SHARE)
        own = draw_bins(factors, size, rng=rng)
        return cls(
            pairs=tuple(pairs),
            groups=tuple(groups),
            forest=tuple(forest),
            classes=classes,
            bins=np.concatenate([own, classes.draw(RECORDS - size, rng=rng)]),
            drawn=len(own),
            widths=widths,
        )

    def fit(self, factors: Factors, pairs: Sequence[Pair], *, start: RakedFit | None = None) -> RakedFit:
        """Weight the records, and tell what their weights leave of every table; replicates start from the estimate."""
        total = float(factors.totals[0])
        margins = [factors.of([place])[0] for place in range(len(self.widths))]
        ones = [(self.bins[:, place], margin) for place, margin in enumerate(margins)]
        forest = [(self._fine_cells(pair.ends), factors.joint(pair.ends)[0].ravel()) for pair in self.forest]
        own = [(cells[: self.drawn], table) for cells, table in (*ones, *forest)]
        last = LAST_SWEEPS if start is None else LATE_LAST_SWEEPS
        plain = np.zeros(len(self.bins))
        begun = np.full(self.drawn, total / max(1, self.drawn)) if start is None else start.plain[: self.drawn]
        begun = rake(begun, own, total, sweeps=TREE_SWEEPS if start is None else LATE_TREE_SWEEPS)
        plain[: self.drawn] = rake(begun, own[: len(ones)], total, sweeps=last, step=1.0)
        classes = self.classes
        if start is not None:
            sheets = _lay_out(factors, self.forest, pairs, self.groups, self.widths)
            classes = fit_classes(classes, sheets, margins, rounds=LATE_ROUNDS)
        trees = [add_groups(factors.joint(pair.ends)[0], *(self.groups[end] for end in pair.ends)) for pair in pairs]
        expected = [self._expect(pair, tree, total, classes) for pair, tree in zip(pairs, trees, strict=True)]
        targets = [(self._cells(pair.ends), table.ravel()) for pair, table in zip(pairs, expected, strict=True)]
        weights = np.full(len(self.bins), total / max(1, len(self.bins))) if start is None else start.weights
        weights = rake(weights, [*targets, *forest, *ones], total, sweeps=SWEEPS if start is None else LATE_SWEEPS)
        weights = rake(weights, ones, total, sweeps=last, step=1.0)
        left = [
            self._leave(pair.ends, table, tree, weights - plain)
            for pair, table, tree in zip(pairs, expected, trees, strict=True)
        ]
        return RakedFit(plain=plain, weights=weights, left=tuple(left))

    def _leave(self, ends: Ends, expected: Reals, tree: Reals, changes: Reals) -> Reals:
        """What a table says and the records do not: no weights of records drawn from a tree agree with all tables."""
        found = tree + np.bincount(self._cells(ends), changes, tree.size).reshape(tree.shape)
        off, mass = expected - found, max(float(tree.sum()), 1e-9)
        rows, columns = tree.sum(axis=1) / mass, tree.sum(axis=0) / mass
        off = off - np.outer(off.sum(axis=1), columns)  # single attributes are known better
        left: Reals = off - np.outer(rows, off.sum(axis=0))
        return left

    def spread(self, left: Sequence[Reals], factors: Factors) -> dict[Ends, Reals]:
        """Share what is left of groups out to their bins, by how many records each has."""
        shares = []
        for place, group in enumerate(self.groups):
            mass = factors.of([place])[0]
            shares.append(mass / np.maximum(np.bincount(group, mass)[group], 1e-9))
        spread = {}
        for pair, table in zip(self.pairs, left, strict=True):
            first, second = pair.ends
            bins = table[np.ix_(self.groups[first], self.groups[second])] * np.outer(shares[first], shares[second])
            spread[min(pair.ends), max(pair.ends)] = bins if first < second else bins.T
        return spread

    def _expect(self, pair: Pair, tree: Reals, total: float, classes: HiddenClasses) -> Reals:
        """The table of a pair, pulled from what was measured towards the classes or the tree, whichever is nearer."""
        hidden = total * add_groups(classes.table(pair.ends), *(self.groups[end] for end in pair.ends))
        nearer = min((tree, hidden), key=lambda table: float(((pair.values - table) ** 2).sum()))
        return shrink(pair, nearer)

    def _fine_cells(self, ends: Ends) -> Codes:
        cells: Codes = self.bins[:, ends[0]] * self.widths[ends[1]] + self.bins[:, ends[1]]
        return cells

    def _cells(self, ends: Ends) -> Codes:
        """The cell of every record in the table of a pair over groups; looked up once for all replicates."""
        if ends not in self._places:
            first, second = (self.groups[end][self.bins[:, end]] for end in ends)
            self._places[ends] = first * (int(self.groups[ends[1]][-1]) + 1) + second
        return self._places[ends]

    def noised(self, fitted: RakedFit, add_noise: Callable[[Reals, float], Reals]) -> list[Pair]:
        """Measure the weighted records, with what they leave, as the table was measured."""
        again = []
        for pair, left in zip(self.pairs, fitted.left, strict=True):
            table = np.bincount(self._cells(pair.ends), fitted.weights, left.size).reshape(left.shape) + left
            again.append(replace(pair, values=add_noise(np.maximum(table, 0.0), pair.variance)))
        return again


def _lay_out(
    factors: Factors, forest: Sequence[Pair], pairs: Sequence[Pair], groups: Sequence[Codes], widths: Sequence[int]
) -> list[PairSheet]:
    """The tables of the tree as it was fitted, and those beyond it as they were measured."""
    total = max(float(factors.totals[0]), 1e-9)
    known = [replace(pair, values=factors.joint(pair.ends)[0]) for pair in forest]
    return [PairSheet.of(known, None, widths, total), PairSheet.of(pairs, groups, widths, total)]
