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
from typing import TypeVar

import numpy as np

from sudare.methods.view.budget import LEAST_SIGNAL_AT_ONCE, MOST_PAIRS_BEYOND, ViewBudget
from sudare.methods.view.fit import Pair
from sudare.methods.view.junction_tree import Factors
from sudare.methods.view.mixture import HiddenClasses, PairSheet, fit_classes, start_classes
from sudare.methods.view.sampling import draw_bins
from sudare.noise import Rng
from sudare.noise.public import add_normal
from sudare.noise.uniform import draw_below
from sudare.schema.arrays import Codes, Integers, Reals

Ends = tuple[int, int]

# Chosen on the sets of papers/kato_view and the made-up tables TUNED of benchmarks/view_pairs.py.
LEAST_SIGNAL = 100  # records over the noise of a cell: below, extra pairs are chosen instead
LEAST_SIGNAL_FEW_ATTRIBUTES = 150  # below, hardly a probe says that it pays, and extra pairs need what a probe costs
MOST_UNITS = 4  # units of the noise of a pair's table: the probe takes no pair for farther off
PAYS, PAYS_BESIDE_EXTRAS = 1.4, 3.2  # units; and for the part of the pairs that extra ones would be
PAYS_AT_ONCE, PAYS_AT_ONCE_BESIDE_EXTRAS = 0.9, 2.0  # where one matrix measures all pairs
MANY_EXTRAS = 0.3  # of the pairs: with so many, a few attributes
PAYS_FEW_ATTRIBUTES, PAYS_FEW_NOISY = 2.5, 3.3  # units; with less than CLEAR_SIGNAL the latter
CLEAR_SIGNAL = 600  # records over the noise of a cell of one of the pairs
PROBED_PAIRS = 50
PROBE_SHARE = Fraction(1, 200)  # of the amount
PROBE_SHARE_AT_ONCE = Fraction(1, 100)  # where one matrix may measure all pairs: it pays where records are fewer
RECORDS = 60_000  # drawn from the forest and weighted
SWEEPS, LATE_SWEEPS = 12, 5  # of the estimate, and of a replicate, which starts from it
ROUNDS = 150  # of the hidden classes
TREE_SWEEPS, LATE_TREE_SWEEPS = 4, 2
TREE_SHARE = 0.9  # of the records: their chance is taken out of answers, that of the classes' records is not
LAST_SWEEPS, LATE_LAST_SWEEPS = 15, 8  # over single attributes alone, which are known best
FULL_STEP, LATE_STEP = 0.8, 0.4  # of the logarithm of a ratio: tables that contradict each other are averaged
MOST_RATIO = 5.0  # by which a step changes a weight at most, up or down
LIKE_WAVES = 2  # of a block: what all waves of a table tell about how far one is off. Of 0 and 2, on survey-20
LEAST_SHRINKAGE = 0.02  # a table of which less is kept says nothing
LEAST_OF_MODEL = 1e-3  # of what the forest says: no cell is made empty by noise


# --- whether it pays --------------------------------------------------------------------------------------------------


def are_few(pairs: int, extras: int) -> bool:
    """Tell whether extra pairs would be a large part of those that remain, as with a few attributes."""
    return extras > MANY_EXTRAS * pairs


def passes_gate(signal: float, *, pairs: int, extras: int, at_once: bool = False) -> bool:
    """Tell from public numbers, the records over the noise of a cell, whether all remaining pairs could be measured.

    Where `extras` pairs, which are chosen otherwise, are all that remain, there is nothing to ask. `at_once` tells that
    one matrix would measure them.

    >>> passes_gate(500.0, pairs=15, extras=6), passes_gate(500.0, pairs=3, extras=3)
    (True, False)
    """
    least = LEAST_SIGNAL_FEW_ATTRIBUTES if are_few(pairs, extras) else LEAST_SIGNAL
    return extras < pairs <= MOST_PAIRS_BEYOND and signal >= (LEAST_SIGNAL_AT_ONCE if at_once else least)


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


def does_pay(units: float, signal: float, *, pairs: int, extras: int, at_once: bool = False) -> bool:
    """Tell whether the remaining pairs are far enough off, apart from the strongest, which extra pairs would catch."""
    caught = extras / pairs
    least = PAYS_AT_ONCE + PAYS_AT_ONCE_BESIDE_EXTRAS * caught if at_once else PAYS + PAYS_BESIDE_EXTRAS * caught
    if are_few(pairs, extras):
        least = PAYS_FEW_ATTRIBUTES if signal >= CLEAR_SIGNAL else PAYS_FEW_NOISY
    return caught < 1 and (units - MOST_UNITS * caught) / (1 - caught) >= least


# --- weighted records (a view keeps `weighted.WeightedRecords`) -------------------------------------------------------


Target = tuple[Codes, Reals]  # the cell of every record, and how many records each cell shall have


@dataclass(frozen=True, slots=True, eq=False)
class Waves:
    """Contrasts of the groups of an attribute, (waves, groups), and what block each of them is in.

    What attributes do together is mostly smooth along numbers and days, so these have orthonormal waves, in blocks by
    octaves. Of listed values each differs from all by itself. So does a last group of records without a value, which is
    no wave's.
    """

    contrasts: Reals
    blocks: Codes
    is_listed: bool

    @classmethod
    def of(cls, size: int, *, is_listed: bool, is_last_apart: bool = False) -> Waves:
        """Waves of so many groups."""
        if is_listed or size < 2:
            return cls(np.eye(size) - 1 / size, np.arange(size), True)
        waved = size - 1 if is_last_apart else size
        numbers = np.arange(1, waved)
        contrasts = np.zeros((size - 1, size))
        angles = np.pi * numbers[:, None] * (np.arange(waved) + 0.5) / waved
        contrasts[: numbers.size, :waved] = math.sqrt(2 / waved) * np.cos(angles)
        blocks = np.floor(np.log2(numbers)).astype(np.int64)
        if waved < size:
            contrasts[-1] = np.append(np.full(waved, 1 / waved), -1.0) / math.sqrt(1 + 1 / waved)
            blocks = np.append(blocks, blocks.max(initial=0) + 1)
        return cls(contrasts, blocks, False)

    def join(self, other: Waves) -> Codes:
        """The block of every pair of waves; of two lists, the longer one's blocks alone."""
        mine, others = self.blocks[:, None], other.blocks[None, :]
        if self.is_listed and other.is_listed:
            mine, others = (mine, 0 * others) if self.blocks.size >= other.blocks.size else (0 * mine, others)
        joined: Codes = mine * (1 + int(others.max(initial=0))) + others
        return joined


@dataclass(frozen=True, slots=True, eq=False)
class Shrunk:
    """A noisy table pulled towards a model; `unsure`: what share of its noise every pair of waves may still have."""

    table: Reals
    unsure: Reals
    waves: tuple[Waves, Waves]

    def shake(self, noise: Reals) -> Reals:
        """The table again, as unsure as it is, by noise as it was measured with."""
        rows, columns = (waves.contrasts for waves in self.waves)
        moved = rows.T @ (np.sqrt(self.unsure) * (rows @ noise @ columns.T)) @ columns
        again: Reals = np.maximum(self.table + moved, LEAST_OF_MODEL * self.table)
        return again


def shrink(pair: Pair, model: Reals, waves: tuple[Waves, Waves]) -> Shrunk:
    """Pull a noisy table towards a model, as far as its noise explains the difference (James and Stein).

    Block by block: a trend, or one value, stands out of the noise of few waves, and drowns in that of all. Only what is
    not in the margins is taken from the table: those are known better. Where a share k is kept, k of the variance of
    the noise is left: what is kept of noise, and what is given up of what is true. The fewer waves a block has, the
    less sure k itself is; all waves of the table together count as LIKE_WAVES of it.
    """
    rows, columns = (wave.contrasts for wave in waves)
    off = rows @ (pair.values - model) @ columns.T
    blocks = waves[0].join(waves[1])
    squares, sizes = np.bincount(blocks.ravel(), (off**2).ravel()), np.bincount(blocks.ravel())
    variance = pair.variance * float((rows[:1] ** 2).sum() * (columns[:1] ** 2).sum())
    usual = max(variance, float((off**2).mean())) if off.size else variance
    shares = 1 - variance * (sizes + LIKE_WAVES) / (squares + LIKE_WAVES * usual)
    kept = np.where(shares > LEAST_SHRINKAGE, shares, 0.0)
    unsure = np.minimum(1.0, kept + np.sqrt(2 / (sizes + LIKE_WAVES)))
    table = model + rows.T @ (kept[blocks] * off) @ columns
    return Shrunk(np.maximum(table, LEAST_OF_MODEL * model), unsure[blocks], waves)


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


Table = TypeVar("Table", Reals, Integers)


def add_groups(table: Table, first: Codes, second: Codes) -> Table:
    """Add a table of bins up to its groups, which are runs of bins."""
    rows = np.add.reduceat(table, np.searchsorted(first, np.arange(first[-1] + 1)), axis=0)
    added: Table = np.add.reduceat(rows, np.searchsorted(second, np.arange(second[-1] + 1)), axis=1)
    return added


def centre(table: Reals) -> Reals:
    """What a table differs from its margins, in sums: rows and columns have the mean 0."""
    centred: Reals = table - table.mean(axis=0) - table.mean(axis=1)[:, None] + table.mean()
    return centred


@dataclass(frozen=True, kw_only=True, eq=False)
class RakedFit:
    """The weights that the tree gives the records, those that all tables give them, and what they leave of each.

    `tables`: what every pair is taken for, from what was measured.
    """

    plain: Reals
    weights: Reals
    tables: tuple[Shrunk, ...]
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
    waves: tuple[Waves, ...]
    forest: tuple[Pair, ...]
    classes: HiddenClasses
    bins: Codes
    drawn: int
    widths: tuple[int, ...]
    shared: tuple[Reals, ...] = ()  # what all pairs together say about each, where they were measured at once
    _places: dict[Ends, Codes] = field(default_factory=dict, repr=False)  # see `_cells`

    @classmethod
    def of(
        cls,
        factors: Factors,
        forest: Sequence[Pair],
        pairs: Sequence[Pair],
        groups: Sequence[Codes],
        waves: Sequence[Waves],
        *,
        shared: Sequence[Reals] = (),
        rng: Rng,
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
            waves=tuple(waves),
            forest=tuple(forest),
            classes=classes,
            bins=np.concatenate([own, classes.draw(RECORDS - size, rng=rng)]),
            drawn=len(own),
            widths=widths,
            shared=tuple(shared),
        )

    def fit(self, factors: Factors, *, start: RakedFit | None = None, noisy: Sequence[Reals] | None = None) -> RakedFit:
        """Weight the records, and tell what their weights leave of every table.

        A replicate starts from the estimate, and takes `noisy` for the tables of the pairs.
        """
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
        trees = [self._add_groups(pair, factors) for pair in self.pairs]
        tables = start.tables if start is not None else tuple(
            self._expect(place, tree, total) for place, tree in enumerate(trees)
        )  # fmt: skip
        expected = noisy if noisy is not None else [one.table for one in tables]
        targets = [(self._cells(pair.ends), table.ravel()) for pair, table in zip(self.pairs, expected, strict=True)]
        weights = np.full(len(self.bins), total / max(1, len(self.bins))) if start is None else start.weights
        weights = rake(weights, [*targets, *forest, *ones], total, sweeps=SWEEPS if start is None else LATE_SWEEPS)
        weights = rake(weights, ones, total, sweeps=last, step=1.0)
        left = [
            self._leave(pair.ends, table, tree, weights - plain)
            for pair, table, tree in zip(self.pairs, expected, trees, strict=True)
        ]
        return RakedFit(plain=plain, weights=weights, tables=tables, left=tuple(left))

    def _add_groups(self, pair: Pair, factors: Factors) -> Reals:
        return add_groups(factors.joint(pair.ends)[0], *(self.groups[end] for end in pair.ends))

    def _leave(self, ends: Ends, expected: Reals, tree: Reals, changes: Reals) -> Reals:
        """What a table says and the records do not: no weights of records drawn from a tree agree with all tables."""
        found = tree + np.bincount(self._cells(ends), changes, tree.size).reshape(tree.shape)
        off, mass = expected - found, max(float(tree.sum()), 1e-9)
        rows, columns = tree.sum(axis=1) / mass, tree.sum(axis=0) / mass
        off = off - np.outer(off.sum(axis=1), columns)  # single attributes are known better
        left: Reals = off - np.outer(rows, off.sum(axis=0))
        return left

    def spread(self, fitted: RakedFit, factors: Factors, *, rng: Rng | None = None) -> dict[Ends, Reals]:
        """Share what is left of groups out to their bins, by how many records each has.

        How the bins of a group differ was not measured: with `rng` they do so at random, as much as groups do.
        """
        parts = [_GroupedAxis.of(factors.of([place])[0], *own) for place, own in
                 enumerate(zip(self.groups, self.waves, strict=True))]  # fmt: skip
        spread = {}
        for pair, table, one in zip(self.pairs, fitted.left, fitted.tables, strict=True):
            first, second = (parts[end] for end in pair.ends)
            bins = table[np.ix_(first.group, second.group)] * np.outer(first.shares, second.shares)
            if rng is not None:
                bins = bins + _differ_within(one.table, first, second, rng)
                bins = bins + _differ_within(one.table.T, second, first, rng).T
            spread[min(pair.ends), max(pair.ends)] = bins if pair.first < pair.second else bins.T
        return spread

    def _expect(self, place: int, tree: Reals, total: float) -> Shrunk:
        """The table of a pair, pulled from what was measured towards what is nearest: tree, classes, all pairs."""
        pair = self.pairs[place]
        hidden = total * add_groups(self.classes.table(pair.ends), *(self.groups[end] for end in pair.ends))
        models = (tree, hidden, *self.shared[place : place + 1])
        nearest = min(models, key=lambda table: float(((pair.values - table) ** 2).sum()))
        return shrink(pair, nearest, (self.waves[pair.first], self.waves[pair.second]))

    def _fine_cells(self, ends: Ends) -> Codes:
        cells: Codes = self.bins[:, ends[0]] * self.widths[ends[1]] + self.bins[:, ends[1]]
        return cells

    def _cells(self, ends: Ends) -> Codes:
        """The cell of every record in the table of a pair over groups; looked up once for all replicates."""
        if ends not in self._places:
            first, second = (self.groups[end][self.bins[:, end]] for end in ends)
            self._places[ends] = first * (int(self.groups[ends[1]][-1]) + 1) + second
        return self._places[ends]

    def noised(self, fitted: RakedFit, add_noise: Callable[[Reals, float], Reals]) -> list[Reals]:
        """What the pairs may be taken for as well, as unsure as they are."""
        return [
            one.shake(add_noise(np.zeros_like(one.table), pair.variance))
            for pair, one in zip(self.pairs, fitted.tables, strict=True)
        ]


@dataclass(frozen=True, slots=True, eq=False)
class _GroupedAxis:
    """The group of every bin of an attribute, how many records each bin has, and its share of those of its group."""

    group: Codes
    mass: Reals
    shares: Reals
    waves: Waves

    @classmethod
    def of(cls, mass: Reals, group: Codes, waves: Waves) -> _GroupedAxis:
        return cls(group, mass, mass / np.maximum(np.bincount(group, mass)[group], 1e-9), waves)


def _differ_within(table: Reals, first: _GroupedAxis, second: _GroupedAxis, rng: Rng) -> Reals:
    """How the bins of each group of the first attribute may differ in the second: at random, in sums of groups nothing.

    As much as the listed values that stand for groups do from each other, wave by wave of the second attribute; as the
    shortest waves of numbers do. At least as much as chance makes them.
    """
    if first.group.size == len(table):
        return np.zeros((first.mass.size, second.mass.size))
    total = max(float(table.sum()), 1e-9)
    rows, columns = np.maximum(table.sum(axis=1), 1e-9), np.maximum(table.sum(axis=0), 1e-9)
    expected = np.outer(rows, columns) / total
    size = first.waves.contrasts @ ((table - expected) / np.sqrt(expected)) @ second.waves.contrasts.T
    finest = slice(None) if first.waves.is_listed else first.waves.blocks == first.waves.blocks.max()
    deviation = np.sqrt(np.maximum(1.0, (size[finest] ** 2).mean(axis=0)))
    drawn = add_normal(np.zeros((first.mass.size, deviation.size)), variance=1.0, rng=rng)
    off = np.sqrt(np.outer(first.mass, columns) / total) * ((deviation * drawn) @ second.waves.contrasts)
    starts = np.searchsorted(first.group, np.arange(len(table)))
    off -= first.shares[:, None] * np.add.reduceat(off, starts, axis=0)[first.group]
    off -= np.outer(off.sum(axis=1), columns / total)  # single attributes are known better
    spread: Reals = off[:, second.group] * second.shares
    return spread


def _lay_out(
    factors: Factors, forest: Sequence[Pair], pairs: Sequence[Pair], groups: Sequence[Codes], widths: Sequence[int]
) -> list[PairSheet]:
    """The tables of the tree as it was fitted, and those beyond it as they were measured."""
    total = max(float(factors.totals[0]), 1e-9)
    known = [replace(pair, values=factors.joint(pair.ends)[0]) for pair in forest]
    return [PairSheet.of(known, None, widths, total), PairSheet.of(pairs, groups, widths, total)]
