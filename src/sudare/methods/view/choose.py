"""Which pairs of attributes are measured: chosen privately, by how far their table is from what the model says."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sudare.counts import Counts
from sudare.mechanisms import Rng, geometric, permute_and_flip
from sudare.methods.view.measured import Codes, Pair, noise_variance
from sudare.methods.view.shares import by_size

Reals = NDArray[np.float64]
Integers = NDArray[np.int64]
Ends = tuple[int, int]

UNIT = 16  # scores are whole sixteenths of a record, so that choices are made in integers


def histogram(codes: Codes, values: Integers, size: int) -> Integers:
    """Add values by code, in integers (exact: totals are below 2**53)."""
    return np.bincount(codes, weights=values, minlength=size).astype(np.int64)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Binned:
    """The private table as its coarse bins: holds true counts, stays inside one draw."""

    columns: tuple[NDArray[np.int64], ...]
    values: Integers
    widths: tuple[int, ...]
    _tables: dict[Ends, Integers] = field(default_factory=dict)

    @classmethod
    def of(cls, counts: Counts, bins: Sequence[Codes]) -> Binned:
        """Look up the bin of every stored cell, attribute by attribute."""
        columns = tuple(bin_of[counts.column(name)] for name, bin_of in zip(counts.schema.names, bins, strict=True))
        return cls(columns=columns, values=counts.values, widths=tuple(int(one.max()) + 1 for one in bins))

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
    epsilon: Fraction,
    noise_scale: float,
    caution: float = 0.0,
    rng: Rng,
    take: Callable[[Ends], None],
) -> int:
    """Choose up to `picks` pairs, each with epsilon/picks, among the candidates of the moment and stopping.

    Stopping scores 0, or with `caution` as much as the luckiest candidate would by the noise of the choice alone.
    `take` is told of every choice and may narrow the candidates, which follow from released choices only.
    Guarantee: epsilon-DP for one record (permute-and-flip, sensitivity 1 record). Proof: proofs/view.md
    """
    scores: dict[Ends, int] = {}
    for taken in range(picks):
        offered = list(candidates())
        for ends in offered:
            if ends not in scores:
                scores[ends] = score(binned.table(ends), models(ends), noise_scale)
        stop = round(caution * UNIT * 2 * math.log(1 + len(offered)) * float(picks / epsilon))
        line = np.array([stop, *(scores[ends] for ends in offered)], dtype=np.int64)
        chosen = permute_and_flip(line, epsilon=epsilon / picks, sensitivity=UNIT, rng=rng)
        if chosen == 0:
            return taken
        take(offered[chosen - 1])
    return picks


def measure_pairs(
    binned: Binned, pairs: Sequence[Ends], epsilon: Fraction, *, last: bool = False, rng: Rng
) -> list[Pair]:
    """Add noise to the chosen tables; epsilon is shared by the cube root of their sizes.

    Guarantee: epsilon-DP for one record: it lies in one cell of every table.
    """
    shares = by_size(epsilon, [binned.widths[a] * binned.widths[b] for a, b in pairs], root=3)
    measured = []
    for (first, second), share in zip(pairs, shares, strict=True):
        noisy = geometric(binned.table((first, second)), epsilon=share, sensitivity=1, rng=rng)
        variance = noise_variance(share)
        measured.append(Pair(first=first, second=second, values=noisy.astype(np.float64), variance=variance, last=last))
    return measured
