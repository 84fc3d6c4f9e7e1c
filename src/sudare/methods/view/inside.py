"""How the values of a coarse bin share its records: what the noisy histogram says, made valid. Post-processing."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sudare.methods.view.factors import Factors
from sudare.methods.view.measured import Codes, Measured
from sudare.repair import nearest_point

Reals = NDArray[np.float64]

EVENLY = 1e-9  # of the largest value, added to every value where halves are sought: nothing is halved in the middle
CHUNK = 2**14
CUTS = np.sin(np.linspace(0.0, np.pi / 2, 33)) ** 2  # what share the left half may have: rather a little or a lot
LIKELY = np.log([10.0, *[1.0] * 31, 10.0])  # and, as likely as ten others, nothing or all
FAINT = 25  # deviations: a part with more is cut as told, since the steps of CUTS would be coarser than the noise


def inside_bins(measured: Measured, factors: Factors, *, plain: bool = False) -> list[Reals]:
    """The share of every value within its bin, attribute by attribute; `plain` projects a bin's values at once."""
    shares = []
    for place, (one, bins) in enumerate(zip(measured.ones, measured.bins, strict=True)):
        totals = factors.of([place])[0]
        order = np.argsort(bins, kind="stable")
        edges = np.searchsorted(bins[order], np.arange(totals.size + 1))
        values, mass = one.values[order], np.empty(bins.size)
        shared = _projected(values, edges, totals) if plain else halved(values, edges, totals, variance=one.variance)
        mass[order] = shared
        sums = np.bincount(bins, mass)
        even = 1.0 / np.diff(edges)
        shares.append(np.where(sums[bins] > 0, mass / np.where(sums > 0, sums, 1.0)[bins], even[bins]))
    return shares


def halved(values: Reals, edges: Codes, totals: Reals, *, variance: float = 0.0) -> Reals:
    """Share each total out among the noisy values from one edge to the next, half by half, nobody below 0.

    A part is cut where its noisy values reach half their sum. What its halves get is told by the sums of their values,
    the gap to what is to be shared spread evenly over values. So the noise of many values near 0 cancels within a half;
    cutting off each value at 0 would keep all that is above it. Where the noise (`variance` for a value) is not small
    against the part, the mean of what the left half may have is taken instead, empty halves being likely: see CUTS.

    >>> halved(np.array([9.0, 4.0, -3.0, 2.0]), np.array([0, 4]), np.array([12.0])).tolist()
    [9.0, 3.0, 0.0, 0.0]
    """
    sums = np.concatenate([[0.0], np.cumsum(values)])
    least = EVENLY * (1.0 + float(np.abs(values).max(initial=0.0)))
    ladder = np.concatenate([[0.0], np.cumsum(np.maximum(values, 0.0) + least)])
    found = np.empty(values.size)
    low, high, total = edges[:-1], edges[1:], np.maximum(totals, 0.0)
    while low.size:
        is_one = high - low == 1
        found[low[is_one]] = total[is_one]
        low, high, total = low[~is_one], high[~is_one], total[~is_one]
        middle = np.clip(np.searchsorted(ladder, (ladder[low] + ladder[high]) / 2), low + 1, high - 1)
        gap = total - (sums[high] - sums[low])
        told = sums[middle] - sums[low] + gap * (middle - low) / (high - low)
        left = _likely(told, total, np.sqrt(variance * (middle - low) * (high - middle) / (high - low)))
        low, high = np.concatenate([low, middle]), np.concatenate([middle, high])
        total = np.concatenate([left, total - left])
    return found


def _likely(told: Reals, total: Reals, deviation: Reals) -> Reals:
    """What a half has: as told, within 0 and the total; where noise counts, the mean over CUTS given what is told."""
    left: Reals = np.clip(told, 0.0, total)
    every = np.flatnonzero(total < FAINT * deviation)
    for start in range(0, every.size, CHUNK):
        faint = every[start : start + CHUNK]
        off = (total[faint, None] * CUTS - told[faint, None]) / deviation[faint, None]
        fits = LIKELY - off**2 / 2
        weights = np.exp(fits - fits.max(axis=1, keepdims=True))
        left[faint] = total[faint] * np.clip((weights @ CUTS) / weights.sum(axis=1), 0.0, 1.0)
    return left


def _projected(values: Reals, edges: Codes, totals: Reals) -> Reals:
    found = np.zeros(values.size)
    for low, high, total in zip(edges[:-1], edges[1:], totals, strict=True):
        if total > 0:
            found[low:high] = nearest_point(values[low:high], total=float(total))
    return found
