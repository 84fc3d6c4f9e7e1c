"""What a view answers: a number, an interval and its level, and which part of it is noise and which is the model."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Protocol

import numpy as np

from sudare.methods.view.junction_tree import Factors
from sudare.schema import Schema
from sudare.schema.arrays import Codes, Reals
from sudare.text import text
from sudare.text.cards import card, figure

AxisWeights = Mapping[int, Reals]  # attribute -> a weight for each of its values; attributes not named weigh 1

LEVEL = 0.95


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimate:
    """A number with its interval.

    `noise_deviation` is what the privacy noise contributes (its law is known exactly); `model_deviation` is what the
    view cannot tell, estimated from noisy numbers. Both are standard deviations.
    """

    value: float
    low: float
    high: float
    level: float
    noise_deviation: float
    model_deviation: float

    def to_dict(self) -> dict[str, float]:
        """Plain numbers for a program."""
        return {name: getattr(self, name) for name in self.__slots__}

    def __str__(self) -> str:
        return f"{format_number(self.value)} [{format_number(self.low)}, {format_number(self.high)}]"

    def _repr_html_(self) -> str:
        """Show the number and its interval in a notebook."""
        reach = max(abs(self.low), abs(self.high))
        line = figure(self.low, self.value, self.high, start=min(0.0, self.low), stop=reach)
        return card(self, notes=[text("interval of level {level}", level=self.level), line])


def format_number(value: float) -> str:
    """Write a count or a mean as people read it.

    >>> format_number(1234567.8), format_number(3.14)
    ('1,234,568', '3.1')
    """
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.1f}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Moments:
    """An estimated sum over the records, and the variances of its two errors."""

    value: float
    noise: float
    model: float


class Stored(Protocol):
    """What any kind of view can do, be it made of tables or of blocks."""

    schema: Schema

    @property
    def total(self) -> float:
        """How many records it holds."""

    def moments(self, boxes: Sequence[AxisWeights]) -> Moments:
        """Estimate the sum of the weights of all records over disjoint boxes."""

    def ranges(self, lows: Codes, highs: Codes) -> Reals:
        """Count boxes of codes, both ends included, without intervals."""

    def marginal(self, names: Sequence[str]) -> Reals:
        """Give the table of some attributes, one axis each."""


def answer(moments: Moments, *, level: float = LEVEL, least: float = 0.0, most: float = math.inf) -> Estimate:
    """An interval around an estimate, cut to what is possible: a count never lies below 0, a mean within its bins.

    >>> answer(Moments(value=100.0, noise=9.0, model=16.0)).high
    109.79981992270027
    """
    reach = NormalDist().inv_cdf((1 + level) / 2) * math.sqrt(moments.noise + moments.model)
    return Estimate(
        value=min(most, max(least, moments.value)),
        low=min(most, max(least, moments.value - reach)),
        high=min(most, max(least, moments.value + reach)),
        level=level,
        noise_deviation=math.sqrt(moments.noise),
        model_deviation=math.sqrt(moments.model),
    )


# A view made of tables: the model's and the product's. Holds public numbers only.


HELD_PAIR_ERROR = (
    0.1  # of tau^2: what a pair that a clique holds may still be off, by its coarse bins and by third attributes
)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class TableView:
    """Cliques over coarse bins, and the share of every value within its bin; version 0 is the estimate.

    `tau_squared`: see `replicate.model_error`. `floor`: a least variance of a count; values that came out as 0 hide
    noise that the replicates cannot show.
    """

    schema: Schema
    factors: Factors
    bins: tuple[Codes, ...]
    shares: tuple[Reals, ...]  # (versions, values)
    tau_squared: float
    floor: float = 0.0

    @property
    def total(self) -> float:
        """How many records it holds."""
        return float(self.factors.totals[0])

    def moments(self, boxes: Sequence[AxisWeights]) -> Moments:
        """Estimate a sum over disjoint boxes: noise from the replicates, the model's part in units of Var(f)."""
        sums = np.zeros(self.factors.versions)
        squares, hidden = 0.0, 0.0
        for box in boxes:
            answers = self._answer(box)
            sums = sums + answers
            is_plain = all(bool(np.all((weights == 0) | (weights == 1))) for weights in box.values())
            squared = answers if is_plain else self._answer({axis: weights**2 for axis, weights in box.items()})
            squares += float(squared[0])
            hidden = max(hidden, self._hidden_in(box, float(answers[0]) if is_plain else 0.0))
        noise = float(((sums[1:] - sums[0]) ** 2).mean()) if sums.size > 1 else 0.0
        records = max(self.total, 1.0)
        spread = max(0.0, squares / records - (float(sums[0]) / records) ** 2)
        restricted = {axis for box in boxes for axis, weights in box.items() if np.ptp(weights) > 0}
        return Moments(
            value=float(sums[0]), noise=noise + hidden, model=self._doubt(restricted, self._known()) * spread
        )

    def _known(self) -> set[tuple[int, int]]:
        """The pairs of attributes that a clique holds."""
        return {pair for clique in self.factors.tree.cliques for pair in itertools.combinations(clique, 2)}

    def _doubt(self, restricted: Iterable[int], known: set[tuple[int, int]]) -> float:
        """The model's variance of a count of these attributes, in units of p(1-p).

        What one attribute says was measured. Of several, records fall by chance, and pairs that no clique holds may
        depend on each other; how much tau^2 tells.
        """
        pairs = list(itertools.combinations(sorted(restricted), 2))
        if not pairs:
            return 0.0
        unknown = sum(pair not in known for pair in pairs) / len(pairs)
        return self.total + self.tau_squared * (HELD_PAIR_ERROR + (1 - HELD_PAIR_ERROR) * unknown)

    def _hidden_in(self, box: AxisWeights, held: float) -> float:
        records = max(self.total, 1.0)
        masses = [float(self._counts(axis) @ (weights != 0)) / records for axis, weights in box.items()]
        return self._hidden(masses, held / records) * _mean_square(box)

    def _counts(self, attribute: int) -> Reals:
        """How many records every value of an attribute has."""
        counts: Reals = self.factors.of([attribute])[0, self.bins[attribute]] * self.shares[attribute][0]
        return counts

    def _hidden(self, masses: Sequence[float], share: float) -> float:
        """The least variance of a count: that of the rarest attribute's values, less where few of them lie in the box.

        The root of how many: where rare values of several attributes go together, more of them do than the model knows.
        """
        if not masses:
            return 0.0
        rarest = min(masses)
        inside = max(math.prod(masses), share) / rarest if rarest > 0 else 1.0
        return self.floor * math.sqrt(min(1.0, inside))

    def _answer(self, box: AxisWeights) -> Reals:
        return self.factors.answer({axis: self._evidence(axis, weights) for axis, weights in box.items()})

    def _evidence(self, attribute: int, weights: Reals) -> Reals:
        """The mean weight of every bin, (versions, bins)."""
        weighted = self.shares[attribute] * weights
        return weighted @ self._members(attribute)

    def _members(self, attribute: int) -> Reals:
        bins = self.bins[attribute]
        members = np.zeros((bins.size, int(bins.max()) + 1))
        members[np.arange(bins.size), bins] = 1.0
        return members

    def estimate(self) -> TableView:
        """The estimate alone: quicker where no interval is asked for."""
        return TableView(
            schema=self.schema,
            factors=self.factors.only(0),
            bins=self.bins,
            shares=tuple(share[:1] for share in self.shares),
            tau_squared=self.tau_squared,
            floor=self.floor,
        )

    def ranges(self, lows: Codes, highs: Codes) -> Reals:
        """Count boxes of codes without intervals."""
        return self.range_versions(lows, highs)[:, 0]

    def range_versions(self, lows: Codes, highs: Codes) -> Reals:
        """Count boxes of codes, (queries, versions): prefix sums of the shares within bins make the evidence."""
        tops = np.array(self.schema.sizes) - 1
        prefix = [self._prefixes(place) for place in range(len(tops))]
        answers = np.empty((len(lows), self.factors.versions))
        for query, (low, high) in enumerate(zip(lows.tolist(), highs.tolist(), strict=True)):
            restricted = [place for place, top in enumerate(tops) if low[place] > 0 or high[place] < top]
            answers[query] = self.factors.answer(
                {place: prefix[place][high[place] + 1] - prefix[place][low[place]] for place in restricted}
            )
        return answers

    def _prefixes(self, attribute: int) -> Reals:
        """(values + 1, versions, bins): how much of every bin lies below a value."""
        share = self.shares[attribute].T[:, :, None] * self._members(attribute)[:, None, :]
        return np.concatenate([np.zeros((1, *share.shape[1:])), share.cumsum(axis=0)])

    def range_answers(self, lows: Codes, highs: Codes) -> tuple[Reals, Reals, Reals]:
        """Count boxes of codes with the variances of noise and model."""
        versions, known = self.range_versions(lows, highs), self._known()
        noise = ((versions[:, 1:] - versions[:, :1]) ** 2).mean(axis=1)
        share = np.clip(versions[:, 0] / max(self.total, 1.0), 0.0, 1.0)
        cumulated = [self._cumulate(place) for place in range(lows.shape[1])]
        tops = np.array(self.schema.sizes) - 1
        model = share * (1 - share)
        for query, (low, high) in enumerate(zip(lows, highs, strict=True)):
            restricted = np.flatnonzero((low > 0) | (high < tops)).tolist()
            masses = [float(cumulated[axis][high[axis] + 1] - cumulated[axis][low[axis]]) for axis in restricted]
            noise[query] += self._hidden(masses, float(share[query]))
            model[query] *= self._doubt(restricted, known)
        return versions[:, 0], noise, model

    def _cumulate(self, attribute: int) -> Reals:
        """What share of the records lies below each value of an attribute."""
        cumulated: Reals = np.concatenate([[0.0], np.cumsum(self._counts(attribute))]) / max(self.total, 1.0)
        return cumulated

    def marginal(self, names: Sequence[str]) -> Reals:
        """Give the table of some attributes, value by value."""
        places = [self.schema.position(name) for name in names]
        table = self.factors.only(0).joint(places)[0]
        for axis, place in enumerate(places):
            shape = [-1 if position == axis else 1 for position in range(len(places))]
            table = np.take(table, self.bins[place], axis=axis) * self.shares[place][0].reshape(shape)
        whole: Reals = table
        return whole


def _mean_square(box: AxisWeights) -> float:
    """The mean square weight of the values that a box weighs at all; 0 for the box of everybody."""
    squares = [weights[weights != 0] ** 2 for weights in box.values()]
    return float(np.prod([square.mean() if square.size else 0.0 for square in squares])) if box else 0.0
