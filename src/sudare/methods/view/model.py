"""The default view: noisy one-way tables, a forest of noisy pairs, then pairs the model explains worst.

Every step but the noisy ones is post-processing. Proof: proofs/view.md
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sudare.counts import Counts
from sudare.mechanisms import Rng, geometric
from sudare.methods.view.bins import coarse_bins, value_order
from sudare.methods.view.choose import Binned, Ends, histogram, measure_pairs, pick
from sudare.methods.view.cliques import CliqueTree
from sudare.methods.view.factors import Factors
from sudare.methods.view.fit import estimate_total, fit
from sudare.methods.view.measured import Codes, Measured, OneWay, combine, noise_variance
from sudare.methods.view.shares import Budget, Shares, bins_wanted, by_size, share_out
from sudare.repair import nearest_point

Reals = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Drawn:
    """What a run of the model gave: measurements, the tree, the fit, and the fit before the extra pairs."""

    measured: Measured
    tree: CliqueTree
    factors: Factors
    earlier: Factors  # the model before the pairs marked `last` were measured
    is_plain: bool = False  # the product: values are projected as they are
    is_blind: bool = False  # few or no pairs were looked at, so dependence between attributes may be anywhere


def draw_model(counts: Counts, budget: Budget, method: str, *, rng: Rng) -> Drawn:
    """Measure and fit, in the order of the method."""
    total, variance = _measure_total(counts, budget, rng)
    left = budget.epsilon - (budget.total_epsilon or 0)
    d = len(counts.schema.attributes)
    shares = share_out(method, left, records=max(total, 0.0), sizes=counts.schema.sizes)
    measured = Measured(total=total, total_variance=variance, ones=_measure_ones(counts, shares.ones, rng))
    measured = _with_bins(measured, counts, float(budget.epsilon))
    if not shares.forest:
        factors = fit(measured, CliqueTree.alone(d))
        return Drawn(
            measured=measured,
            tree=factors.tree,
            factors=factors,
            earlier=factors,
            is_plain=method == "product",
            is_blind=d > 1,
        )
    return _add_pairs(counts, measured, shares, rng)


def _add_pairs(counts: Counts, measured: Measured, shares: Shares, rng: Rng) -> Drawn:
    binned, d = Binned.of(counts, measured.bins), len(counts.schema.attributes)
    choices = shares.choices / (shares.picks + shares.more)
    earlier = fit(measured, CliqueTree.alone(d))
    found = _Growth(binned, earlier, measured)
    sigma = math.sqrt(2) * shares.picks / float(shares.forest)
    found.choose(shares.picks, choices * shares.picks, sigma, found.joining, rng, caution=shares.caution)
    found.measure(counts, shares.forest, rng, last=not shares.more)
    earlier = found.factors if shares.more else earlier
    for _ in range(2 if shares.more else 0):
        picks = math.ceil(shares.more / 2)
        sigma = math.sqrt(2) * shares.more / float(shares.extras)
        found.choose(picks, choices * shares.more / 2, sigma, found.closing, rng)
        found.measure(counts, shares.extras / 2, rng, last=True)
    return Drawn(
        measured=found.measured,
        tree=found.tree,
        factors=found.factors,
        earlier=earlier,
        is_blind=shares.caution > 0,
    )


class _Growth:
    """The model as it grows, round by round."""

    def __init__(self, binned: Binned, factors: Factors, measured: Measured) -> None:
        self.binned, self.factors, self.measured = binned, factors, measured
        self.tree = factors.tree
        self.all = list(itertools.combinations(range(len(binned.widths)), 2))
        self.chosen: list[Ends] = []
        self.parts = list(range(len(binned.widths)))
        self.prices: dict[Ends, int] = {}

    def choose(
        self,
        picks: int,
        epsilon: Fraction,
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
            epsilon=epsilon,
            noise_scale=sigma,
            caution=caution,
            rng=rng,
            take=self._take,
        )

    def joining(self) -> list[Ends]:
        """Pairs that join two parts of the forest."""
        return [ends for ends in self.all if self.parts[ends[0]] != self.parts[ends[1]]]

    def closing(self) -> list[Ends]:
        """Pairs not yet measured whose cliques stay small; found anew from the tree of the moment."""
        known = {pair.ends for pair in self.measured.pairs} | set(self.chosen)
        self.prices = self.tree.prices(self.binned.widths)
        return [ends for ends in self.all if ends not in known and {ends, ends[::-1]} & self.prices.keys()]

    def measure(self, counts: Counts, epsilon: Fraction, rng: Rng, *, last: bool) -> None:
        """Spend a round on the chosen pairs, or, without any, on the one-way tables once more."""
        if not self.chosen:
            again = _measure_ones(counts, epsilon, rng)
            ones = tuple(combine(*both) for both in zip(self.measured.ones, again, strict=True))
            self.measured = replace(self.measured, ones=ones)
        else:
            fresh = measure_pairs(self.binned, self.chosen, epsilon, last=last, rng=rng)
            self.measured = replace(self.measured, pairs=(*self.measured.pairs, *fresh))
        self.factors = fit(self.measured, self.tree)

    def _take(self, ends: Ends) -> None:
        self.chosen.append(ends)
        ways = [way for way in (ends, ends[::-1]) if way in self.prices] or [ends]
        self.tree = self.tree.joined(*min(ways, key=lambda way: self.prices.get(way, 0)))
        old, new = self.parts[ends[1]], self.parts[ends[0]]
        self.parts = [new if part == old else part for part in self.parts]


def _measure_total(counts: Counts, budget: Budget, rng: Rng) -> tuple[float, float]:
    if budget.total_epsilon is None:
        return float(counts.total), 0.0
    exact = np.array([counts.total], dtype=np.int64)
    noisy = geometric(exact, epsilon=budget.total_epsilon, sensitivity=1, rng=rng)
    return float(noisy[0]), noise_variance(budget.total_epsilon)


def _measure_ones(counts: Counts, epsilon: Fraction, rng: Rng) -> tuple[OneWay, ...]:
    """Noise in the histogram of every attribute; a record lies in one place of each."""
    sizes = counts.schema.sizes
    found = []
    for name, size, share in zip(counts.schema.names, sizes, by_size(epsilon, sizes), strict=True):
        exact = histogram(counts.column(name), counts.values, size)
        noisy = geometric(exact, epsilon=share, sensitivity=1, rng=rng)
        found.append(OneWay(values=noisy.astype(np.float64), variance=noise_variance(share)))
    return tuple(found)


def _with_bins(measured: Measured, counts: Counts, epsilon: float) -> Measured:
    attributes = counts.schema.attributes
    alone = replace(measured, bins=tuple(np.arange(size, dtype=np.int64) for size in counts.schema.sizes))
    total = estimate_total(alone)
    wanted = bins_wanted(total, epsilon, len(attributes))
    bins: list[Codes] = []
    for attribute, one in zip(attributes, measured.ones, strict=True):
        mass = nearest_point(one.values, total=total) if total > 0 else np.zeros(attribute.size)
        bins.append(coarse_bins(mass, value_order(attribute), wanted))
    return replace(measured, bins=tuple(bins))
