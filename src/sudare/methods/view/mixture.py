"""Hidden classes: a mixture of products fitted to noisy tables of pairs of attributes. Post-processing.

    P(x) = sum over classes k of w_k * product over attributes a of p_ka(x_a)

All tables are fitted at once, so that what they share is told apart from their noise: d attributes of b bins have far
fewer profiles than d (d - 1) / 2 tables have cells. Where attributes follow a few hidden numbers or groups, as in dense
tables, few classes say nearly all of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from sudare.methods.view.fit import Pair
from sudare.noise import Rng
from sudare.noise.public import add_normal, draw_columns
from sudare.schema.arrays import Codes, Reals

# Chosen on the made-up tables TUNED of benchmarks/view_pairs.py and on the sets of papers/kato_view.
HIDDEN_CLASSES = 60
MOMENTUM, STEP = 0.9, 0.7  # of the logarithm of a profile, from one round to the next
FIRST_ROUNDS = 20  # until the momentum is whole
PULL = 0.0005  # of the logarithm of a profile, towards the margin: what no table says fades
LEAST_FACTOR, MOST_CHANGE = 0.05, 3.0  # of a profile in one round; of its logarithm
LEAST_SHARE = 1e-12
LEAST_WEIGHT = 1e-9


@dataclass(frozen=True, kw_only=True, eq=False)
class PairSheet:
    """Noisy tables of pairs as one symmetric matrix over the groups of bins of all attributes, in shares of records.

    `members`, (groups, bins): which bins a group has; None where every bin is a group. `weights` is 0 where no pair was
    measured.
    """

    values: Reals
    variances: Reals
    weights: Reals
    members: Reals | None
    tables: Codes  # how many tables every attribute is in

    @classmethod
    def of(
        cls, pairs: Sequence[Pair], groups: Sequence[Codes] | None, widths: Sequence[int], total: float
    ) -> PairSheet:
        """Lay out the tables of pairs; `groups` tells the group of every bin of every attribute."""
        sizes = widths if groups is None else [int(group.max()) + 1 for group in groups]
        starts = np.concatenate([[0], np.cumsum(sizes)])
        cells = int(starts[-1])
        values, variances, weights = np.zeros((cells, cells)), np.ones((cells, cells)), np.zeros((cells, cells))
        tables = np.zeros(len(widths), dtype=np.int64)
        for pair in pairs:
            places = [slice(starts[end], starts[end + 1]) for end in pair.ends]
            tables[list(pair.ends)] += 1
            for (rows, columns), table in ((places, pair.values), (places[::-1], pair.values.T)):
                values[rows, columns] = table / total
                variances[rows, columns] = pair.variance / total
                weights[rows, columns] = 1.0
        members = None
        if groups is not None:
            members = np.zeros((cells, sum(widths)))
            members[np.concatenate([start + group for start, group in zip(starts, groups, strict=False)]),
                    np.arange(sum(widths))] = 1.0  # fmt: skip
        return cls(values=values, variances=variances, weights=weights, members=members, tables=tables)

    def compare(self, weights: Reals, profiles: Reals) -> Reals:
        """What the tables say of every profile: above 0 where a bin shall be more likely in a class.

        The difference of a cell counts by the inverse of its variance, of the noise and of chance together.
        """
        grouped = profiles if self.members is None else self.members @ profiles
        model = (grouped * weights) @ grouped.T
        said: Reals = (self.weights * (self.values - model) / (model + self.variances)) @ grouped
        return said if self.members is None else self.members.T @ said


@dataclass(frozen=True, kw_only=True, eq=False)
class HiddenClasses:
    """The weight of every class, and the profiles, (bins of all attributes, classes): shares of an attribute's bins."""

    weights: Reals
    profiles: Reals
    widths: tuple[int, ...]

    def table(self, ends: tuple[int, int]) -> Reals:
        """The share of the records in every cell of two attributes."""
        first, second = (self._profile(end) for end in ends)
        shares: Reals = (first * self.weights) @ second.T
        return shares

    def _profile(self, attribute: int) -> Reals:
        start = sum(self.widths[:attribute])
        return self.profiles[start : start + self.widths[attribute]]

    def draw(self, size: int, *, rng: Rng) -> Codes:
        """Draw records as bins, (records, attributes): a class, then every attribute by itself; public randomness."""
        classes = draw_columns(np.zeros(size, dtype=np.int64), self.weights[None, :], rng=rng)
        columns = [draw_columns(classes, np.ascontiguousarray(self._profile(place).T), rng=rng)
                   for place in range(len(self.widths))]  # fmt: skip
        return np.column_stack(columns)


def start_classes(margins: Sequence[Reals], *, rng: Rng, classes: int = HIDDEN_CLASSES) -> HiddenClasses:
    """Classes that differ from the margins at random: public randomness."""
    shares = _as_shares(margins)
    widths = tuple(margin.size for margin in margins)
    noise = add_normal(np.zeros(shares.size * classes), variance=1.0, rng=rng).reshape(shares.size, classes)
    profiles = shares[:, None] * np.exp(noise)
    profiles /= _sum_bins(profiles, widths)
    return HiddenClasses(weights=np.full(classes, 1 / classes), profiles=profiles, widths=widths)


def fit_classes(
    start: HiddenClasses, sheets: Sequence[PairSheet], margins: Sequence[Reals], *, rounds: int
) -> HiddenClasses:
    """Fit classes to noisy tables, round by round, with momentum; the margins of attributes are kept.

    A round is one of expectation and maximisation, as if the tables were drawn nearer to the model by their noise: that
    climbs the likelihood of tables with normal noise, and takes cells below 0 as they are.
    """
    widths, shares = start.widths, _as_shares(margins)
    tables = np.maximum(sum(sheet.tables for sheet in sheets), 1)
    per_bin = np.repeat(tables, widths)[:, None]
    weights, profiles = start.weights, start.profiles
    change = np.zeros_like(profiles)
    for number in range(rounds):
        said = np.zeros_like(profiles)
        for sheet in sheets:
            said += sheet.compare(weights, profiles)
        climb = np.log(np.maximum(1 + said / per_bin, LEAST_FACTOR))
        climb -= PULL * np.clip(np.log(profiles / shares[:, None]), -4, 4)
        change = np.clip(MOMENTUM * min(1.0, number / FIRST_ROUNDS) * change + STEP * climb, -MOST_CHANGE, MOST_CHANGE)
        profiles = np.maximum(profiles * np.exp(change), LEAST_SHARE)
        sums = np.add.reduceat(profiles, _starts(widths), axis=0)
        weights = weights * np.exp(np.log(sums).mean(axis=0))
        weights = np.maximum(weights / weights.sum(), LEAST_WEIGHT)
        profiles = profiles / np.repeat(sums, widths, axis=0)
        for _ in range(2):
            profiles = profiles * (shares / (profiles @ weights))[:, None]
            profiles = profiles / _sum_bins(profiles, widths)
    return replace(start, weights=weights / weights.sum(), profiles=profiles)


def _as_shares(margins: Sequence[Reals]) -> Reals:
    return np.concatenate([np.maximum(margin / max(float(margin.sum()), 1e-9), 1e-9) for margin in margins])


def _starts(widths: Sequence[int]) -> Codes:
    return np.concatenate([[0], np.cumsum(widths)[:-1]]).astype(np.int64)


def _sum_bins(profiles: Reals, widths: Sequence[int]) -> Reals:
    """The sum of every attribute's bins, bin by bin."""
    return np.repeat(np.add.reduceat(profiles, _starts(widths), axis=0), widths, axis=0)
