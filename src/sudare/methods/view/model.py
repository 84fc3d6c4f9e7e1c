"""Which pairs of attributes are measured: chosen privately, by how far their table is from what the model says."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sudare.counts import Counts
from sudare.methods.view.budget import (
    BudgetSplit,
    PairChoice,
    ViewBudget,
    bins_wanted,
    by_size,
    count_tables,
    find_varying,
    share_joint,
    split_budget,
)
from sudare.methods.view.coarse import (
    coarse_bins,
    is_long_list,
    is_missing_apart,
    list_bins,
    set_missing_apart,
    value_order,
)
from sudare.methods.view.design import GroupedMargin, PairDesign, design_pairs, design_tables
from sudare.methods.view.exam import plan_exam
from sudare.methods.view.fit import (
    GroupSums,
    JointTable,
    Measurements,
    OneWay,
    Pair,
    combine,
    estimate_total,
    fit,
    noise_variance,
)
from sudare.methods.view.grow import (
    GrownLeaves,
    StartCells,
    count_fine,
    grow_leaves,
    keep_cells,
    plan_cells,
    plan_levels,
)
from sudare.methods.view.junction_tree import MOST_CELLS, CliqueTree, Factors
from sudare.methods.view.residual import (
    PROBE_SHARE,
    PROBE_SHARE_AT_ONCE,
    RakedPairs,
    add_groups,
    are_few,
    centre,
    does_pay,
    draw_pair_grids,
    passes_gate,
    probe,
)
from sudare.methods.view.spectrum import keep_directions
from sudare.noise import Rng
from sudare.noise.matrix import MatrixNoise
from sudare.noise.uniform import draw_below
from sudare.postprocess import find_nearest_point
from sudare.schema import Schema, Values
from sudare.schema.arrays import Codes, Integers, Reals

Ends = tuple[int, int]

UNIT = 16  # scores are whole sixteenths of a record, so that choices are made in integers


def histogram(codes: Codes, values: Integers, size: int) -> Integers:
    """Add values by code, in integers (exact: totals are below 2**53)."""
    return np.bincount(codes, weights=values, minlength=size).astype(np.int64)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class CellTable:
    """The private table as the cells that its attributes are measured by: true counts, inside one draw."""

    columns: tuple[Codes, ...]
    values: Integers
    cells: tuple[StartCells, ...]

    @classmethod
    def of(cls, counts: Counts, cells: Sequence[StartCells]) -> CellTable:
        """Look up the start cell of every stored cell, attribute by attribute."""
        names = counts.schema.names
        columns = tuple(one.cell_of[counts.column(name)] for name, one in zip(names, cells, strict=True))
        return cls(columns=columns, values=counts.values, cells=tuple(cells))

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many cells every attribute has."""
        return tuple(one.size for one in self.cells)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Binned:
    """The private table as its coarse bins: holds true counts, stays inside one draw."""

    columns: tuple[NDArray[np.int64], ...]
    values: Integers
    widths: tuple[int, ...]
    _tables: dict[Ends, Integers] = field(default_factory=dict)

    @classmethod
    def of(cls, table: CellTable, bins: Sequence[Codes]) -> Binned:
        """Look up the bin of every stored cell, attribute by attribute."""
        columns = tuple(bin_of[column] for column, bin_of in zip(table.columns, bins, strict=True))
        return cls(columns=columns, values=table.values, widths=tuple(int(coarse.max()) + 1 for coarse in bins))

    def regroup(self, groups: Sequence[Codes]) -> Binned:
        """The same table over groups of bins."""
        columns = tuple(group[column] for group, column in zip(groups, self.columns, strict=True))
        return Binned(columns=columns, values=self.values, widths=tuple(int(group.max()) + 1 for group in groups))

    def table(self, ends: Ends) -> Integers:
        """The true table of a pair of attributes."""
        if ends not in self._tables:
            first, second = ends
            shape = self.widths[first], self.widths[second]
            cells = self.columns[first] * shape[1] + self.columns[second]
            self._tables[ends] = histogram(cells, self.values, shape[0] * shape[1]).reshape(shape)
        return self._tables[ends]


def score(true: Integers, model: Reals, noise_scale: float) -> int:
    """How far a pair is from the model, in sixteenths, less what chance alone and the noise to come would explain.

    q = |C - R|_1 - sqrt(2/pi) * (mean sqrt(R) + sigma/5) * (rows - 1) * (columns - 1)

    Only C, the true table, is private: one record changes q by at most 1, that is by UNIT.
    """
    rounded = np.rint(UNIT * np.maximum(model, 0.0)).astype(np.int64)
    distance = int(np.abs(UNIT * true - rounded).sum())
    chance = float(np.sqrt(np.maximum(model, 0.0)).mean()) + noise_scale / 5
    free = (true.shape[0] - 1) * (true.shape[1] - 1)
    explained: int = round(UNIT * math.sqrt(2 / math.pi) * chance * free)
    return distance - explained


def pick(
    binned: Binned,
    candidates: Callable[[], Sequence[Ends]],
    models: Callable[[Ends], Reals],
    *,
    picks: int,
    choice: PairChoice,
    noise_scale: float,
    caution: float = 0.0,
    rng: Rng,
    take: Callable[[Ends], None],
) -> int:
    """Choose up to `picks` pairs, each by a choice of its own, among the candidates of the moment and stopping.

    Stopping scores 0, or with `caution` as much as the luckiest candidate would by the noise of the choice alone.
    `take` is told of every choice and may narrow the candidates, which follow from released choices only.
    Guarantee: `picks` times what the choice costs; one record changes a score by 1. Proof: proofs/view.md
    """
    scores: dict[Ends, int] = {}
    for taken in range(picks):
        offered = list(candidates())
        for ends in offered:
            if ends not in scores:
                scores[ends] = score(binned.table(ends), models(ends), noise_scale)
        stop = round(caution * UNIT * 2 * math.log(1 + len(offered)) * choice.scale)
        line = np.array([stop, *(scores[ends] for ends in offered)], dtype=np.int64)
        chosen = choice.choose(line, unit=UNIT, rng=rng)
        if chosen == 0:
            return taken
        take(offered[chosen - 1])
    return picks


def measure_pairs(
    binned: Binned, pairs: Sequence[Ends], part: Fraction, budget: ViewBudget, *, last: bool = False, rng: Rng
) -> list[Pair]:
    """Add noise to the chosen tables; the part is shared by the cube root of their sizes.

    Guarantee: the part, in the currency of the budget: a record lies in one cell of every table.
    """
    sizes = [binned.widths[a] * binned.widths[b] for a, b in pairs]
    shares = by_size(part, sizes, steps=1, currency=budget.currency)
    measured = []
    for (first, second), share in zip(pairs, shares, strict=True):
        noise = budget.noise(share)
        noisy = noise.add(binned.table((first, second)), rng=rng)
        variance = noise_variance(noise)
        measured.append(Pair(first=first, second=second, values=noisy.astype(np.float64), variance=variance, last=last))
    return measured


# The default view: noisy one-way tables, a forest of noisy pairs, then pairs the model explains worst.
#
# Every step but the noisy ones is post-processing. Proof: proofs/view.md


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class FittedModel:
    """What a run of the model gave: measurements, the tree, the fit, and the fit before the extra pairs."""

    measured: Measurements
    tree: CliqueTree
    factors: Factors
    earlier: Factors  # the model before the pairs marked `last` were measured
    leaves: tuple[GrownLeaves, ...] = ()
    raked: RakedPairs | None = None  # all pairs that the tree does not hold, where measuring them pays
    exam: Fraction = Fraction(0)  # what is left for the exam of the finished view
    is_plain: bool = False  # the product: values are projected as they are
    is_blind: bool = False  # few or no pairs were looked at, so dependence between attributes may be anywhere

    @property
    def measured_pairs(self) -> tuple[Ends, ...]:
        """The pairs of attributes with a noisy table of their own, in the order of the schema."""
        pairs = (*self.measured.pairs, *(self.raked.pairs if self.raked is not None else ()))
        return tuple(sorted({(min(pair.ends), max(pair.ends)) for pair in pairs}))

    @property
    def knows_all_pairs(self) -> bool:
        """Tell whether every pair was measured, and not for want of others."""
        is_whole = len(self.measured_pairs) == math.comb(len(self.measured.ones), 2)
        return self.raked is not None or (is_whole and not self.is_blind)


def draw_model(
    counts: Counts, budget: ViewBudget, method: str, *, declared: Schema | None = None, rng: Rng
) -> FittedModel:
    """Measure and fit, in the order of the method. `counts` may cut the attributes of `declared` finer."""
    total, variance = _measure_total(counts, budget, rng)
    d, records = len(find_varying(counts.schema.sizes)), max(total, 0.0)
    strength = budget.strength(count_tables(method, d))
    cells = plan_cells(declared or counts.schema, counts.schema, signal=records * strength / d)
    amount = budget.amount - (budget.total_part or 0)
    level, exam = plan_levels(cells, amount, budget, records), plan_exam(amount, d)
    reserved = level * sum(one.levels for one in cells) + exam
    table = CellTable.of(counts, cells)
    shares = split_budget(method, budget, records=records, sizes=find_varying(table.sizes), reserved=reserved)
    measured = Measurements(
        total=total,
        total_variance=variance,
        ones=_measure_ones(table, shares.ones, budget, rng),
        is_gaussian=budget.is_concentrated,
    )
    leaves = _measure_leaves(counts, cells, measured, level, budget, rng)
    measured = _with_bins(measured, table, strength)
    if not shares.forest:
        factors = fit(measured, CliqueTree.alone(len(cells)))
        return FittedModel(
            measured=measured,
            tree=factors.tree,
            factors=factors,
            earlier=factors,
            leaves=leaves,
            exam=exam,
            is_plain=method == "product",
            is_blind=d > 1,
        )
    return replace(_add_pairs(table, measured, shares, budget, rng), leaves=leaves, exam=exam)


def _measure_leaves(
    counts: Counts,
    cells: Sequence[StartCells],
    measured: Measurements,
    part: Fraction,
    budget: ViewBudget,
    rng: Rng,
) -> tuple[GrownLeaves, ...]:
    """Cut cells that stand out, attribute by attribute, with `part` for every level; nothing is cut for nothing."""
    return tuple(
        grow_leaves(
            one,
            count_fine(counts, name),
            one_way.values,
            math.sqrt(one_way.variance),
            part=part,
            levels=one.levels,
            budget=budget,
            rng=rng,
        )
        if part and one.levels
        else keep_cells(one)
        for name, one, one_way in zip(counts.schema.names, cells, measured.ones, strict=True)
    )


def _add_pairs(
    table: CellTable, measured: Measurements, shares: BudgetSplit, budget: ViewBudget, rng: Rng
) -> FittedModel:
    binned, d = Binned.of(table, measured.bins), len(table.cells)
    each = shares.choices / (shares.picks + shares.more)
    earlier = fit(measured, CliqueTree.alone(d))
    growth = _Growth(binned, earlier, measured, budget, rng)
    if shares.more and shares.picks + shares.more == len(growth.all) and growth.take_all():
        part = shares.choices + shares.forest + shares.extras
        spent = growth.measure_joint(part, rng)
        growth.measure(table, part - spent, rng, last=True)
        return FittedModel(measured=growth.measured, tree=growth.tree, factors=growth.factors, earlier=earlier)
    sigma = budget.deviation(shares.forest, shares.picks)
    growth.choose(shares.picks, budget.choice(each), sigma, growth.joining, rng, caution=shares.caution)
    growth.measure(table, shares.forest, rng, last=not shares.more)
    earlier = growth.factors if shares.more else earlier
    beyond = _look_beyond(growth, table, shares, each, budget, rng)
    shares, raked = replace(shares, extras=shares.extras - beyond.spent), None
    if beyond.design is not None:
        raked = _measure_rest(growth, beyond.design, shares.extras + each * shares.more, budget, rng)
    for _ in range(2 if shares.more and raked is None else 0):
        picks = math.ceil(shares.more / 2)
        sigma = budget.deviation(shares.extras, shares.more)
        growth.choose(picks, budget.choice(each * shares.more / 2 / picks), sigma, growth.closing, rng)
        growth.measure(table, shares.extras / 2, rng, last=True)
    return FittedModel(
        measured=growth.measured,
        tree=growth.tree,
        factors=growth.factors,
        earlier=earlier,
        raked=raked,
        is_blind=shares.caution > 0,
    )


@dataclass(frozen=True, slots=True)
class Beyond:
    """How all remaining pairs would be measured, if that pays, and what finding out has cost."""

    design: PairDesign | None = None
    spent: Fraction = Fraction(0)


def _look_beyond(
    growth: _Growth, table: CellTable, shares: BudgetSplit, each: Fraction, budget: ViewBudget, rng: Rng
) -> Beyond:
    """Ask the public gate, then the probe, whether pairs beyond the tree pay."""
    rest = growth.unmeasured()
    extras = min(shares.more, shares.picks)
    is_few = are_few(len(rest), extras)
    part = budget.amount * (PROBE_SHARE if is_few or budget.is_concentrated else PROBE_SHARE_AT_ONCE)
    whole = shares.extras - part + each * shares.more
    if not shares.more or not growth.measured.pairs or whole <= 0:
        return Beyond()
    margins = [
        GroupedMargin(
            mass=growth.factors.of([place])[0],
            is_ordered=one.attribute.is_ordered or not isinstance(one.attribute.domain, Values),
            is_last_apart=is_missing_apart(one.attribute, bins),
        )
        for place, (one, bins) in enumerate(zip(table.cells, growth.measured.bins, strict=True))
    ]
    records = float(growth.factors.totals[0])
    choose_design = design_tables if is_few else design_pairs
    design = choose_design(margins, whole, budget, pairs=len(rest), records=records)
    signal, at_once = records / design.deviation, design.matrix is not None
    if not passes_gate(signal, pairs=len(rest), extras=extras, at_once=at_once):
        return Beyond()
    grids = draw_pair_grids(rest, [margin.mass for margin in margins], rng=rng)
    units = probe(
        grids, growth.binned.table, growth.factors, design.groups, design.deviation, part=part, budget=budget, rng=rng
    )
    if not does_pay(units, signal, pairs=len(rest), extras=extras, at_once=at_once):
        return Beyond(spent=part)
    return Beyond(design=design, spent=part)


def _measure_rest(growth: _Growth, design: PairDesign, part: Fraction, budget: ViewBudget, rng: Rng) -> RakedPairs:
    """Measure all pairs that no measured table holds, over groups of bins: at once, or table by table."""
    groups, shared = design.groups, list[Reals]()
    if design.matrix is not None:
        pairs, shared = measure_at_once(growth, design, part, rng)
    else:
        pairs = measure_pairs(growth.binned.regroup(groups), growth.unmeasured(), part, budget, rng=rng)
        seen = {end for pair in pairs for end in pair.ends}
        sums = tuple(GroupSums.of(place, group, pairs) for place, group in enumerate(groups) if place in seen)
        growth.measured = replace(growth.measured, sums=sums)
        growth.factors = fit(growth.measured, growth.tree)
    return RakedPairs.of(growth.factors, growth.measured.pairs, pairs, groups, design.waves, shared=shared, rng=rng)


def measure_at_once(growth: _Growth, design: PairDesign, part: Fraction, rng: Rng) -> tuple[list[Pair], list[Reals]]:
    """Measure all pairs as one matrix: what each of them differs from its margins, which the model knows already.

    Beside every table stands what all of them together say about it.
    Guarantee: the part, pure epsilon: a record adds the product of one vector with itself. Proof: proofs/matrix.md
    """
    noise = MatrixNoise(sizes=design.sizes, epsilon=part)
    noisy = noise.add(add_products(growth.binned, design), rng=rng)
    independent = design.multiply(float(growth.factors.totals[0]))
    standing_out = keep_directions(noisy - design.centre_blocks(independent), noise.variance, design.sizes)
    starts, pairs, shared = design.starts, list[Pair](), list[Reals]()
    for ends in growth.unmeasured():
        block = tuple(slice(starts[end], starts[end + 1]) for end in ends)
        model = add_groups(growth.factors.joint(ends)[0], *(design.groups[end] for end in ends))
        values = noisy[block] + model - centre(model)
        pairs.append(Pair(first=ends[0], second=ends[1], values=values, variance=noise.variance))
        shared.append(independent[block] + standing_out[block])
    return pairs, shared


def add_products(binned: Binned, design: PairDesign) -> Integers:
    """The true tables of all pairs of attributes over their groups as one matrix, histograms on its diagonal."""
    starts = design.starts
    products = np.zeros((starts[-1], starts[-1]), dtype=np.int64)
    for place, (column, group) in enumerate(zip(binned.columns, design.groups, strict=True)):
        own = np.arange(starts[place], starts[place + 1])
        products[own, own] = histogram(group[column], binned.values, own.size)
    for first, second in itertools.combinations(range(len(design.groups)), 2):
        rows, columns = (slice(starts[end], starts[end + 1]) for end in (first, second))
        table = add_groups(binned.table((first, second)), design.groups[first], design.groups[second])
        products[rows, columns], products[columns, rows] = table, table.T
    return products


MOST_CANDIDATES = 20_000  # pairs that are looked at: each costs a pass over the table


def list_candidates(attributes: int, rng: Rng) -> list[Ends]:
    """All pairs of attributes, or, of very many, some chosen at random: public randomness."""
    if attributes * (attributes - 1) // 2 <= MOST_CANDIDATES:
        return list(itertools.combinations(range(attributes), 2))
    firsts, seconds = (draw_below(attributes, MOST_CANDIDATES, rng=rng).tolist() for _ in range(2))
    return sorted({(min(pair), max(pair)) for pair in zip(firsts, seconds, strict=True) if pair[0] != pair[1]})


class _Growth:
    """The model as it grows, round by round."""

    def __init__(self, binned: Binned, factors: Factors, measured: Measurements, budget: ViewBudget, rng: Rng) -> None:
        self.binned, self.factors, self.measured, self.budget = binned, factors, measured, budget
        self.tree = factors.tree
        listed = list_candidates(len(binned.widths), rng)
        self.all = [ends for ends in listed if min(binned.widths[end] for end in ends) > 1]  # one bin tells nothing
        self.chosen: list[Ends] = []
        self.parts = list(range(len(binned.widths)))
        self.prices: dict[Ends, int] = {}

    def choose(
        self,
        picks: int,
        choice: PairChoice,
        sigma: float,
        candidates: Callable[[], Sequence[Ends]],
        rng: Rng,
        *,
        caution: float = 0.0,
    ) -> None:
        self.chosen, self.prices = [], {}
        joints: dict[Ends, Reals] = {}

        def model(ends: Ends) -> Reals:
            if ends not in joints:
                joints[ends] = self.factors.joint(ends)[0]
            return joints[ends]

        pick(
            self.binned,
            candidates,
            model,
            picks=picks,
            choice=choice,
            noise_scale=sigma,
            caution=caution,
            rng=rng,
            take=self._take,
        )

    def unmeasured(self) -> list[Ends]:
        """Pairs without a table of their own."""
        known = {pair.ends for pair in self.measured.pairs}
        return [ends for ends in self.all if ends not in known]

    def take_all(self) -> bool:
        """Take all pairs, if one clique may hold all attributes: then nothing needs to be chosen."""
        if math.prod(self.binned.widths) > MOST_CELLS:
            return False
        for ends in self.all:
            self.tree = self.tree.joined(*ends)
        self.chosen = list(self.all)
        return True

    def joining(self) -> list[Ends]:
        """Pairs that join two parts of the forest."""
        return [ends for ends in self.all if self.parts[ends[0]] != self.parts[ends[1]]]

    def closing(self) -> list[Ends]:
        """Pairs not yet measured whose cliques stay small; found anew from the tree of the moment."""
        known = {pair.ends for pair in self.measured.pairs} | set(self.chosen)
        self.prices = self.tree.prices(self.binned.widths)
        return [ends for ends in self.all if ends not in known and {ends, ends[::-1]} & self.prices.keys()]

    def measure_joint(self, part: Fraction, rng: Rng) -> Fraction:
        """Measure the table of all attributes, if that pays; what it has cost: a record lies in one cell of it."""
        axes = tuple(place for place, width in enumerate(self.binned.widths) if width > 1)
        share = share_joint(part, self.budget, pairs=len(self.chosen), records=float(self.factors.totals[0]))
        if share and len(axes) > 2:
            noise, shape = self.budget.noise(share), tuple(self.binned.widths[place] for place in axes)
            codes = np.ravel_multi_index(tuple(self.binned.columns[place] for place in axes), shape)
            noisy = noise.add(histogram(codes, self.binned.values, math.prod(shape)), rng=rng).astype(np.float64)
            joint = JointTable(attributes=axes, values=noisy.reshape(shape), variance=noise_variance(noise))
            self.measured = replace(self.measured, joint=joint)
            return share
        return Fraction(0)

    def measure(self, table: CellTable, part: Fraction, rng: Rng, *, last: bool) -> None:
        """Spend a round on the chosen pairs, or, without any, on the one-way tables once more."""
        if not self.chosen:
            again = _measure_ones(table, part, self.budget, rng)
            ones = tuple(combine(*both) for both in zip(self.measured.ones, again, strict=True))
            self.measured = replace(self.measured, ones=ones)
        else:
            fresh = measure_pairs(self.binned, self.chosen, part, self.budget, last=last, rng=rng)
            self.measured = replace(self.measured, pairs=(*self.measured.pairs, *fresh))
        self.factors = fit(self.measured, self.tree)

    def _take(self, ends: Ends) -> None:
        self.chosen.append(ends)
        directions = [direction for direction in (ends, ends[::-1]) if direction in self.prices] or [ends]
        self.tree = self.tree.joined(*min(directions, key=lambda direction: self.prices.get(direction, 0)))
        old, new = self.parts[ends[1]], self.parts[ends[0]]
        self.parts = [new if part == old else part for part in self.parts]


def _measure_total(counts: Counts, budget: ViewBudget, rng: Rng) -> tuple[float, float]:
    if budget.total_part is None:
        return float(counts.total), 0.0
    noise = budget.total_noise(budget.total_part)
    noisy = noise.add(np.array([counts.total], dtype=np.int64), rng=rng)
    return float(noisy[0]), noise_variance(noise)


def _measure_ones(table: CellTable, part: Fraction, budget: ViewBudget, rng: Rng) -> tuple[OneWay, ...]:
    """Noise in the histogram of every attribute; a record lies in one place of each."""
    sizes = table.sizes
    one_ways = []
    shares = by_size(part, sizes, currency=budget.currency)
    for column, size, share in zip(table.columns, sizes, shares, strict=True):
        noise = budget.noise(share)
        noisy = noise.add(histogram(column, table.values, size), rng=rng)
        one_ways.append(OneWay(values=noisy.astype(np.float64), variance=noise_variance(noise)))
    return tuple(one_ways)


def _with_bins(measured: Measurements, table: CellTable, epsilon: float) -> Measurements:
    alone = replace(measured, bins=tuple(np.arange(size, dtype=np.int64) for size in table.sizes))
    total = estimate_total(alone)
    wanted = bins_wanted(total, epsilon, len(find_varying(table.sizes)))
    bins: list[Codes] = []
    for one, one_way in zip(table.cells, measured.ones, strict=True):
        mass = find_nearest_point(one_way.values, total=total) if total > 0 else np.zeros(one.size)
        if is_long_list(one, wanted):
            bins.append(list_bins(one, one_way, mass, 2 * wanted, is_gaussian=measured.is_gaussian))
            continue
        order = value_order(one.attribute) if one.size == one.attribute.size else np.arange(one.size)
        bins.append(coarse_bins(mass, order, wanted, group=set_missing_apart(one, mass, wanted)))
    return replace(measured, bins=tuple(bins))
