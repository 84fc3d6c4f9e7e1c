"""How sure the model is: the same fit to freshly noised tables, and how far extra pairs were from it.

Both are post-processing. The noise of every measurement is known exactly, so it can be drawn again around the fitted
model; what the model cannot say is judged by the extra pairs, which the forest did not know.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sudare.mechanisms import Rng
from sudare.methods.view.factors import Factors
from sudare.methods.view.fit import fit
from sudare.methods.view.inside import inside_bins
from sudare.methods.view.measured import Measured, OneWay, Pair
from sudare.methods.view.model import Drawn

Reals = NDArray[np.float64]

REPLICATES = 10
SWEEPS = 4  # a replicate starts from the fit, and is near it
HIDDEN = 0.6  # of the variance of a value: what the noise of values that came out as 0 may hide
CHANCE = 0.25  # of the variance that independent records have: the part that no measured table pins down
UNSEEN = 0.06  # of the records: how far off a model without pairs is supposed to be (Adult and electricity: .035, .045)
OTHERS = 0.5  # of the variance found in judged pairs, which were the worst: what the pairs never looked at are given
LEAST_SHARE = 0.02  # of the records: smaller rectangles say little against their noise


def replicates(drawn: Drawn, *, rng: Rng, size: int = REPLICATES) -> tuple[Factors, list[Reals]]:
    """The fit and its replicates in one: tables (versions, ...) and shares inside bins (versions, values)."""
    fits, shares = [drawn.factors], [inside_bins(drawn.measured, drawn.factors, plain=drawn.is_plain)]
    for _ in range(size):
        again = noised(drawn.measured, drawn.factors, shares[0], rng=rng)
        fits.append(fit(again, drawn.tree, start=drawn.factors if drawn.measured.pairs else None, sweeps=SWEEPS))
        shares.append(inside_bins(again, fits[-1], plain=drawn.is_plain))
    tables = tuple(np.concatenate(versions) for versions in zip(*(one.tables for one in fits), strict=True))
    return Factors(drawn.tree, tables), [np.stack(versions) for versions in zip(*shares, strict=True)]


def noised(measured: Measured, factors: Factors, shares: list[Reals], *, rng: Rng) -> Measured:
    """Measure the fitted model as the table was measured."""
    total = float(factors.totals[0])
    ones = tuple(
        OneWay(values=_noisy(factors.of([place])[0][bins] * share, one.variance, rng), variance=one.variance)
        for place, (one, bins, share) in enumerate(zip(measured.ones, measured.bins, shares, strict=True))
    )
    pairs = tuple(replace(pair, values=_noisy(factors.of(pair.ends)[0], pair.variance, rng)) for pair in measured.pairs)
    noisy = total if measured.total_variance == 0 else float(_noisy(np.array([total]), measured.total_variance, rng)[0])
    return replace(measured, total=noisy, ones=ones, pairs=pairs)


def _noisy(values: Reals, variance: float, rng: Rng) -> Reals:
    """Add Laplace noise of this variance: nothing private is here, so floats will do."""
    words = rng.words64(values.size).reshape(values.shape)
    uniform = ((words >> np.uint64(12)).astype(np.float64) + 0.5) / 2.0**52 - 0.5
    noise: Reals = -math.sqrt(variance / 2) * np.sign(uniform) * np.log1p(-2 * np.abs(uniform))
    return values + noise


def model_error(drawn: Drawn, *, rng: Rng, rectangles: int = 60) -> float:
    """tau^2: the variance of a count beyond its noise, in units of p(1-p) for a share p of the records.

    For random rectangles of the extra pairs: how far their noisy count was from what the forest said before it knew
    them, less the noise. Those pairs were chosen because the model explained them worst, so OTHERS of it is taken. It
    is at least CHANCE times the number of records. Where hardly a pair was looked at, nothing private tells how
    dependent attributes are, and at least UNSEEN is supposed.
    """
    judged = [pair for pair in drawn.measured.pairs if pair.last] or _weakest(drawn)
    total = float(drawn.earlier.totals[0])
    found = []
    for pair in judged:
        expected = drawn.earlier.joint(pair.ends)[0]
        found += [_excess(pair, expected, total, rng) for _ in range(rectangles)]
    kept = [one for one in found if one is not None]
    least = (UNSEEN * total) ** 2 if drawn.is_blind else CHANCE * total
    return max(least, OTHERS * float(np.mean(kept))) if kept else least


def hidden_noise(drawn: Drawn) -> float:
    """Least variance of a count: a share of that of the best known values (chosen by coverage, papers/kato_view)."""
    return HIDDEN * min(one.variance for one in drawn.measured.ones)


def _weakest(drawn: Drawn) -> list[Pair]:
    """Without a last round: the second half of the pairs, which were chosen in the order of their surprise."""
    pairs = list(drawn.measured.pairs)
    return pairs[len(pairs) // 2 :]


def _excess(pair: Pair, expected: Reals, total: float, rng: Rng) -> float | None:
    rows, columns = (_span(size, rng) for size in pair.values.shape)
    share = float(expected[rows, columns].sum()) / max(total, 1.0)
    if not LEAST_SHARE <= share <= 1 - LEAST_SHARE:
        return None
    residual = float((pair.values - expected)[rows, columns].sum())
    noise = pair.variance * pair.values[rows, columns].size
    return (residual**2 - noise) / (share * (1 - share))


def _span(size: int, rng: Rng) -> slice:
    length = 1 + rng.below(size)
    start = rng.below(size - length + 1)
    return slice(start, start + length)
