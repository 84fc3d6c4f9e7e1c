"""The same law as the dense projection, at a cost that does not depend on the number of cells.

Nearly all of 1e30 cells are empty, and almost all of those end at 0. The ones that can survive are drawn from the top
down, stratum by stratum, until the threshold of what is known lies above all that is unknown. Proof: proofs/zeros.md
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sudare.counts import Counts
from sudare.mechanisms import Rng, geometric
from sudare.mechanisms.zeros import Stratum, count_in_stratum, draw_in_stratum
from sudare.methods.microdata.places import empty_cells
from sudare.methods.microdata.sensitivity import Budget
from sudare.repair.simplex import raise_spare, threshold

Integers = NDArray[np.int64]

MARGIN = 6.0  # standard deviations below the expected threshold; a guess, exactness does not depend on it


def project_sparse(counts: Counts, budget: Budget, *, total: int, rng: Rng) -> Counts:
    """Noise, nearest valid table: the law of `projection.project`, work in the order of the output."""
    empty = counts.schema.possible_size - counts.nonzero
    noisy = geometric(counts.values, epsilon=budget.cells_epsilon, sensitivity=budget.cells_sensitivity, rng=rng)
    risen = rise(noisy, empty=empty, total=total, budget=budget, rng=rng)
    known = np.concatenate([noisy, risen])
    table = _cut(known, total, rng)
    kept, born = table[: noisy.size], table[noisy.size :]
    places = empty_cells(counts, int(np.count_nonzero(born)), rng=rng)
    codes = np.concatenate([counts.codes, places])
    return Counts.build(counts.schema, codes, np.concatenate([kept, born[born > 0]]))


def rise(noisy: Integers, *, empty: int, total: int, budget: Budget, rng: Rng) -> Integers:
    """Draw the noise of those empty cells that can survive, from the top down.

    Stops once the threshold of all known values is above every unknown one: those then end at 0 and never tie.
    """
    scale = budget.cells_scale
    known, unseen, top = noisy, empty, None
    above = _first_level(noisy, empty, total, float(scale))
    while unseen and total:
        stratum = Stratum(scale=scale, above=above, at_most=top)
        found = count_in_stratum(unseen, stratum, rng)
        known = np.concatenate([known, draw_in_stratum(found, stratum, rng)])
        unseen -= found
        if known.size and threshold(known, total) > above:
            break
        top, above = above, _next_level(above, math.ceil(scale))
    return known[noisy.size :]


def _cut(known: Integers, total: int, rng: Rng) -> Integers:
    if not known.size or not total:
        return np.zeros_like(known)
    return raise_spare(known, threshold(known, total), total=total, rng=rng)


def _next_level(above: int, step: int) -> int:
    """Half as far again below; a stratum does not cross 0, where the law turns."""
    lower = above - max(step, abs(above) // 2)
    return -1 if above > -1 > lower else lower


@dataclass(frozen=True, slots=True)
class _Excess:
    """E(Z - t)+ and P[Z > t] of the noise, as floats: they only choose where to begin."""

    scale: float

    def mean(self, t: float) -> float:
        a = math.exp(-1 / self.scale)
        tail = math.exp(-(abs(t) + 1) / self.scale) / ((1 + a) * (1 - a)) if abs(t) < 700 * self.scale else 0.0
        return tail if t >= 0 else tail - t

    def tail(self, t: float) -> float:
        a = math.exp(-1 / self.scale)
        tail = math.exp(-(abs(t) + 1) / self.scale) / (1 + a) if abs(t) < 700 * self.scale else 0.0
        return tail if t >= 0 else 1 - tail


def _first_level(noisy: Integers, empty: int, total: int, scale: float) -> int:
    """Where the threshold is expected, less a margin; at least -1, so that the first stratum does not cross 0."""
    excess = _Excess(scale)
    low, high = -1.0, float(noisy.max(initial=0)) + 100 * scale
    for _ in range(100):
        middle = (low + high) / 2
        mass = float(np.maximum(noisy - middle, 0).sum()) + empty * excess.mean(middle)
        low, high = (middle, high) if mass > total else (low, middle)
    risen = empty * excess.tail(low)
    active = float(np.count_nonzero(noisy > low)) + risen + 1
    return max(-1, math.floor(low - MARGIN * scale * math.sqrt(2 * risen + 1) / active) - 1)
