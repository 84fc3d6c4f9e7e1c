"""What was measured of the private table: noisy numbers and how noisy they are. All of it is public."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from sudare.methods.view.junction_tree import CliqueTree, Factors
from sudare.noise import CountNoise
from sudare.schema.arrays import Codes, Reals

LEAST_VARIANCE = 1e-30  # far below any rounding of the floats that are weighted by it


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class OneWay:
    """A noisy histogram of one attribute, value by value; two measurements of it are added up by their precision."""

    values: Reals
    variance: float


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Pair:
    """A noisy table of two attributes over their coarse bins; `last` marks extra pairs, or a forest's without any."""

    first: int
    second: int
    values: Reals
    variance: float
    last: bool = False

    @property
    def ends(self) -> tuple[int, int]:
        """The two attributes."""
        return self.first, self.second


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class GroupSums:
    """Noisy counts of groups of one attribute's coarse bins, added up from tables that the tree does not hold."""

    attribute: int
    groups: Codes
    values: Reals
    variance: float

    @classmethod
    def of(cls, attribute: int, groups: Codes, pairs: Sequence[Pair]) -> GroupSums:
        """Add up all tables of the attribute, weighted by the inverse of their variances."""
        sums, weights = np.zeros(int(groups.max()) + 1), 0.0
        for pair in pairs:
            if attribute in pair.ends:
                axis = 1 - pair.ends.index(attribute)
                weight = 1.0 / (pair.variance * pair.values.shape[axis])
                sums, weights = sums + weight * pair.values.sum(axis=axis), weights + weight
        return cls(attribute=attribute, groups=groups, values=sums / weights, variance=1.0 / weights)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class JointTable:
    """A noisy table of all attributes of one clique over their coarse bins: what three and more do together."""

    attributes: tuple[int, ...]  # in order
    values: Reals
    variance: float

    def add_up(self, *kept: int) -> tuple[Reals, float]:
        """The table of some attributes, in order, and the variance of its cells."""
        out = tuple(axis for axis, attribute in enumerate(self.attributes) if attribute not in kept)
        sums: Reals = self.values.sum(axis=out)
        return sums, self.variance * self.values.size / sums.size

    def sharpen(self, pair: Pair) -> Pair:
        """Combine the table of a pair with the sums of this one, weighted by the inverse of their variances."""
        sums, variance = self.add_up(*pair.ends)
        weight = variance / (pair.variance + variance)
        values = weight * pair.values + (1 - weight) * (sums if pair.first < pair.second else sums.T)
        return replace(pair, values=values, variance=weight * pair.variance)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Measurements:
    """Everything measured so far. A total of variance 0 is public."""

    total: float
    total_variance: float
    ones: tuple[OneWay, ...]
    bins: tuple[Codes, ...] = ()  # the coarse bin of every value, attribute by attribute
    pairs: tuple[Pair, ...] = field(default=())
    sums: tuple[GroupSums, ...] = field(default=())
    joint: JointTable | None = None
    is_gaussian: bool = False  # the law of the noise, to be drawn again around the fit

    @property
    def widths(self) -> tuple[int, ...]:
        """How many coarse bins every attribute has."""
        return tuple(int(bins.max()) + 1 for bins in self.bins)


def noise_variance(noise: CountNoise) -> float:
    """Variance of a count measured with this noise.

    It is never quite 0, however narrow the noise is: estimates are weighted by its inverse.

    >>> from fractions import Fraction
    >>> from sudare.noise import GeometricNoise
    >>> noise_variance(GeometricNoise(scale=Fraction(1, 1000))) > 0
    True
    """
    return max(noise.variance, LEAST_VARIANCE)


def combine(first: OneWay, second: OneWay) -> OneWay:
    """Two measurements of one histogram, weighted by the inverse of their variances.

    >>> one = OneWay(values=np.array([4.0]), variance=1.0)
    >>> combine(one, OneWay(values=np.array([7.0]), variance=2.0)).values.tolist()
    [5.0]
    """
    weight = second.variance / (first.variance + second.variance)
    return OneWay(
        values=weight * first.values + (1 - weight) * second.values,
        variance=first.variance * second.variance / (first.variance + second.variance),
    )


# From noisy tables to one consistent model: means by precision, tables with the right margins, and their fit.
#
# Everything here is post-processing: it sees noisy numbers only.


SWEEPS = 20  # over all measured tables
FULL_SWEEPS = 10  # with whole steps; then steps shrink, which averages tables that contradict each other
LAST_STEP = 0.13  # of a whole one, in the last sweep
LEAST_SHARE_OF_INDEPENDENCE = 1e-3  # of what independence would give
MARGIN_ROUNDS = 12
NEAREST_ROUNDS = 15
LAST_SWEEPS = 6  # over single attributes alone
NO_RECORDS = 1e-250  # records
JOINT_ROUNDS = 10  # over the pairs of a clique, after its own table moved it


def fit(measured: Measurements, tree: CliqueTree, *, start: Factors | None = None, sweeps: int = SWEEPS) -> Factors:
    """Fit the model of a tree to what was measured."""
    total, margins = estimate_margins(measured)
    joint = measured.joint
    pairs = measured.pairs if joint is None else [joint.sharpen(pair) for pair in measured.pairs]
    targets = {pair.ends: target_table(pair, margins, total) for pair in pairs}
    tables = [_product([margins[attribute] for attribute in clique], total) for clique in tree.cliques]
    if start is not None:  # an attribute that stands alone has nothing else to follow than its own histogram
        tables = [
            earlier[0].copy() if len(clique) > 1 else table
            for clique, table, earlier in zip(tree.cliques, tables, start.tables, strict=True)
        ]
    if targets and total > 0:
        is_forest = all(len(clique) <= 2 for clique in tree.cliques)
        _Fit(tree, tables, targets, margins).run(1 if is_forest else sweeps)
        if joint is not None:
            tables = _bend_all(tables, tree, joint)
    tables = [table * (total / max(float(table.sum()), 1e-300)) for table in tables]  # damped steps drift a little
    return Factors(tree, tuple(table[None] for table in tables))


def estimate_margins(measured: Measurements) -> tuple[float, list[Reals]]:
    """The number of records and every histogram over coarse bins, from all that says something about them."""
    widths = measured.widths
    sums = [np.bincount(bins, one_way.values) for bins, one_way in zip(measured.bins, measured.ones, strict=True)]
    spread = [np.bincount(bins) * one_way.variance for bins, one_way in zip(measured.bins, measured.ones, strict=True)]
    top = [value / noise for value, noise in zip(sums, spread, strict=True)]
    bottom = [1.0 / noise for noise in spread]
    for pair in measured.pairs:
        for axis, attribute in enumerate(pair.ends):
            noise = pair.variance * pair.values.shape[1 - axis]
            top[attribute] = top[attribute] + pair.values.sum(axis=1 - axis) / noise
            bottom[attribute] = bottom[attribute] + 1.0 / noise
    if measured.joint is not None:
        for attribute in measured.joint.attributes:
            values, noise = measured.joint.add_up(attribute)
            top[attribute], bottom[attribute] = top[attribute] + values / noise, bottom[attribute] + 1.0 / noise
    means = [above / below for above, below in zip(top, bottom, strict=True)]
    variances: list[Reals] = [np.asarray(1.0 / below, dtype=np.float64) for below in bottom]
    for known in measured.sums:
        mean, own = means[known.attribute], variances[known.attribute]
        whole = np.bincount(known.groups, own) + known.variance
        gap = known.values - np.bincount(known.groups, mean)
        means[known.attribute] = mean + own * (gap / whole)[known.groups]
        variances[known.attribute] = own - own**2 / whole[known.groups]
    total = estimate_total(measured)
    return total, [
        nearest_weighted(mean, noise, total=total) if width > 1 else np.array([total])
        for mean, noise, width in zip(means, variances, widths, strict=True)
    ]


def nearest_weighted(point: Reals, variance: Reals, *, total: float) -> Reals:
    """The point of {x >= 0, sum x = total} nearest in units of its standard errors: x = (y - t * variance)+.

    >>> nearest_weighted(np.array([3.0, 1.0]), np.array([1.0, 3.0]), total=8.0).tolist()
    [4.0, 4.0]
    """
    active = np.ones(point.size, dtype=bool)
    while True:
        shift = (float(point[active].sum()) - total) / float(variance[active].sum())
        moved = point - shift * variance
        kept = active & (moved > 0)
        if kept.sum() in (0, active.sum()):
            return np.where(active, np.maximum(moved, 0.0), 0.0)
        active = kept


def estimate_total(measured: Measurements) -> float:
    """The number of records: public, or the mean by precision of everything that adds up to it; at least 0."""
    if measured.total_variance == 0.0:
        return measured.total
    estimates = [(measured.total, measured.total_variance)]
    estimates += [(float(one_way.values.sum()), one_way.variance * one_way.values.size) for one_way in measured.ones]
    estimates += [(float(pair.values.sum()), pair.variance * pair.values.size) for pair in measured.pairs]
    estimates += [(float(known.values.sum()), known.variance * known.values.size) for known in measured.sums]
    if measured.joint is not None:
        values, variance = measured.joint.add_up()
        estimates.append((float(values), variance))
    weights = np.array([1.0 / variance for _, variance in estimates])
    return max(0.0, float(weights @ np.array([value for value, _ in estimates]) / weights.sum()))


def target_table(pair: Pair, margins: Sequence[Reals], total: float) -> Reals:
    """The noisy table with the margins of the model: only what differs from independence is taken from it.

    Of all tables with these margins and nothing below 0 it is the nearest one: cutting cells off at 0 would keep the
    noise of empty cells where it is above 0, and take what they then have from the full ones.
    """
    first, second = margins[pair.first], margins[pair.second]
    reference = np.outer(first, second) / max(total, 1e-9)
    surprise = pair.values - reference
    surprise = surprise - surprise.mean(axis=0) - surprise.mean(axis=1)[:, None] + surprise.mean()
    least = np.minimum(
        LEAST_SHARE_OF_INDEPENDENCE * reference, math.sqrt(pair.variance) / 10
    )  # small against the noise, so never a bias
    table: Reals = np.maximum(nearest_table(reference + surprise, first, second), least)
    for _ in range(MARGIN_ROUNDS):
        table *= _ratio(first, table.sum(axis=1))[:, None]
        table *= _ratio(second, table.sum(axis=0))
    return table


def nearest_table(table: Reals, rows: Reals, columns: Reals) -> Reals:
    """Find the nearest table with these margins and no cell below 0 (Dykstra's alternating projections).

    >>> nearest_table(np.array([[5.0, -1.0], [-1.0, 5.0]]), np.array([4.0, 4.0]), np.array([4.0, 4.0])).tolist()
    [[4.0, 0.0], [0.0, 4.0]]
    """
    if (table >= 0).all():  # its margins are right already
        return table
    nearest, for_rows, for_columns = table, np.zeros_like(table), np.zeros_like(table)
    for _ in range(NEAREST_ROUNDS):
        moved = nearest_lines(nearest + for_rows, rows)
        for_rows = nearest + for_rows - moved
        nearest = nearest_lines((moved + for_columns).T, columns).T
        for_columns = moved + for_columns - nearest
    return nearest


def nearest_lines(table: Reals, totals: Reals) -> Reals:
    """Move every line to the nearest one of its total, nothing below 0: x = (y - t)+ with a t for each."""
    falling = -np.sort(-table, axis=1)
    shifts = (falling.cumsum(axis=1) - totals[:, None]) / np.arange(1, table.shape[1] + 1)
    last = np.maximum((falling > shifts).sum(axis=1) - 1, 0)
    moved: Reals = np.maximum(table - shifts[np.arange(len(table)), last][:, None], 0.0)
    return moved


def bend(table: Reals, joint: JointTable) -> Reals:
    """Move the table of a clique, which follows from its pairs, towards the noisy table of all its attributes.

    A cell of m records is supposed to be off by a variance of c m, with the c that what is off beyond the noise has on
    average; the less that is beside the noise, the less is taken over. Then the table gets back its pairs.
    """
    off = joint.values - table
    excess = float((off**2).sum()) - joint.variance * off.size
    if excess <= 0:
        return table
    prior = excess / max(float(table.sum()), 1e-9) * table
    moved = np.maximum(table + prior / (prior + joint.variance) * off, LEAST_SHARE_OF_INDEPENDENCE * table)
    pairs = [tuple(axis for axis in range(table.ndim) if axis not in ends)
             for ends in itertools.combinations(range(table.ndim), 2)]  # fmt: skip
    sums = [table.sum(axis=out, keepdims=True) for out in pairs]
    for _ in range(JOINT_ROUNDS):
        for out, wanted in zip(pairs, sums, strict=True):
            moved *= _ratio(wanted, moved.sum(axis=out, keepdims=True))
    return moved


def _bend_all(tables: list[Reals], tree: CliqueTree, joint: JointTable) -> list[Reals]:
    """Bend the clique of all attributes; cliques within it become its sums."""
    whole = bend(tables[tree.cliques.index(joint.attributes)], joint)
    bent = replace(joint, values=whole)
    return [
        bent.add_up(*clique)[0].copy() if set(clique) <= set(joint.attributes) else table
        for clique, table in zip(tree.cliques, tables, strict=True)
    ]


def _product(margins: list[Reals], total: float) -> Reals:
    table = margins[0]
    for margin in margins[1:]:
        table = table[..., None] * (margin / max(total, 1e-9))
    return table.copy()


CliqueTargets = dict[int, list[tuple[tuple[int, ...], tuple[int, ...], Reals]]]  # axes to sum out, shape, table


class _Fit:
    """Iterative proportional fitting along a tour of the tree, every clique brought up to date on the way."""

    def __init__(
        self, tree: CliqueTree, tables: list[Reals], targets: dict[tuple[int, int], Reals], margins: Sequence[Reals]
    ) -> None:
        self.tree, self.tables = tree, tables
        self.near = tree.neighbours()
        self.targets: CliqueTargets = {}
        self.margins: CliqueTargets = {}
        for ends, target in targets.items():
            self._place(ends, target if ends[0] < ends[1] else target.T, self.targets)
        for attribute, margin in enumerate(margins):
            self._place((attribute,), margin, self.margins)
        self.moves = {(i, j): self._move(i, j) for a, b in tree.links for i, j in ((a, b), (b, a))}
        self.separators = {frozenset(link): tables[link[0]].sum(axis=self.moves[link][0]) for link in tree.links}

    def _place(self, attributes: tuple[int, ...], target: Reals, places: CliqueTargets) -> None:
        """Let the smallest clique that holds the attributes, which are in order, care for their table."""
        holding = [place for place, clique in enumerate(self.tree.cliques) if set(attributes) <= set(clique)]
        home = min(holding, key=lambda place: self.tables[place].size)
        clique = self.tree.cliques[home]
        out = tuple(axis for axis, attribute in enumerate(clique) if attribute not in attributes)
        sizes = zip(clique, self.tables[home].shape, strict=True)
        shape = tuple(size if attribute in attributes else 1 for attribute, size in sizes)
        places.setdefault(home, []).append((out, shape, target.reshape(shape)))

    def _move(self, sender: int, receiver: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        shared = set(self.tree.separator((sender, receiver)))
        out = tuple(axis for axis, attribute in enumerate(self.tree.cliques[sender]) if attribute not in shared)
        sizes = zip(self.tree.cliques[receiver], self.tables[receiver].shape, strict=True)
        return out, tuple(size if attribute in shared else 1 for attribute, size in sizes)

    def run(self, sweeps: int) -> None:
        tour = self._tour()
        for sweep in range(sweeps):
            late = max(0, sweep - FULL_SWEEPS + 1) / max(1, sweeps - FULL_SWEEPS)
            power = 1.0 if sweep < FULL_SWEEPS else 1.0 - late * (1.0 - LAST_STEP)
            self._go_round(tour, self.targets, power)
        for _ in range(
            LAST_SWEEPS
        ):  # tables that contradict each other pull single attributes off what is known of them
            self._go_round(tour, self.margins, 1.0)
        for kind, sender, receiver in tour:  # once more without changes, so that every clique knows of the last ones
            if kind == "send":
                self._send(sender, receiver)

    def _go_round(self, tour: list[tuple[str, int, int]], targets: CliqueTargets, power: float) -> None:
        for kind, sender, receiver in tour:
            if kind == "visit":
                self._visit(sender, targets, power)
            else:
                self._send(sender, receiver)

    def _tour(self) -> list[tuple[str, int, int]]:
        tour: list[tuple[str, int, int]] = []
        seen: set[int] = set()
        for root in range(len(self.tree.cliques)):
            if root in seen:
                continue
            seen.add(root)
            tour.append(("visit", root, -1))
            stack = [(root, iter(self.near[root]))]
            while stack:
                place, rest = stack[-1]
                child = next((attribute for attribute in rest if attribute not in seen), None)
                if child is None:
                    stack.pop()
                    if stack:
                        tour.append(("send", place, stack[-1][0]))
                    continue
                seen.add(child)
                tour += [("send", place, child), ("visit", child, -1)]
                stack.append((child, iter(self.near[child])))
        return tour

    def _visit(self, place: int, targets: CliqueTargets, power: float) -> None:
        table = self.tables[place]
        for out, shape, target in targets.get(place, ()):
            now = table.sum(axis=out).reshape(shape) if out else table
            ratio = _ratio(target, now)
            table *= ratio if power == 1.0 else ratio**power

    def _send(self, sender: int, receiver: int) -> None:
        out, shape = self.moves[sender, receiver]
        fresh = self.tables[sender].sum(axis=out)
        key = frozenset((sender, receiver))
        self.tables[receiver] *= _ratio(fresh, self.separators[key]).reshape(shape)
        self.separators[key] = fresh


def _ratio(wanted: Reals, now: Reals) -> Reals:
    """What a table is multiplied by; where it holds next to nothing, 0, since a quotient could overflow."""
    return np.divide(wanted, now, out=np.zeros(now.shape), where=now > NO_RECORDS)
