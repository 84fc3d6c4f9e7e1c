"""Reports on a plane grid: propose a row and a column apart, accept by how far their distance is off.

With heights h and widths v of cells, d = sqrt((i h)^2 + (j v)^2) >= (|i| h + |j| v) / sqrt(2) >= c (|i| h + |j| v) for
c = 70/99, so that two independent geometric steps lie above exp(-beta d) everywhere; the quotient and the weight of the
cell are one acceptance. In the open the acceptance is pi/4 (0.78); no table of the map or of offsets is kept, so memory
follows the weights alone. Proof: proofs/location-sampling.md
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sudare.mechanisms.geometric import geometric_noise
from sudare.mechanisms.rng import Rng
from sudare.methods.location.sampler_law import MARGIN, Chance, Floats, Ints, decide

SLOPE = Fraction(70, 99)  # just below 1/sqrt(2): 2 * 70**2 = 99**2 - 1
ROUNDS = 64  # proposals per report before the row of the cell is built; near land that is common nowhere

Remaining = Callable[[Ints, Rng], Ints]


@dataclass(frozen=True, kw_only=True, slots=True)
class Axis:
    """One direction of the grid: `size` cells of `side` metres; a step of i cells is proposed like exp(-rate |i|)."""

    size: int
    side: Fraction
    rate: Fraction  # 0: every cell of the axis is proposed alike

    @classmethod
    def of(cls, size: int, side: Fraction, beta: Fraction) -> Axis:
        """Choose the proposal: even where the whole axis is shorter than a typical step, which would lead outside."""
        rate = beta * side * SLOPE
        return cls(size=size, side=side, rate=rate if rate * size > 1 else Fraction(0))

    def propose(self, places: Ints, rng: Rng) -> Ints:
        """Propose a place for each place, possibly outside of the axis."""
        if self.rate == 0:
            return rng.uniform_below(self.size, len(places))
        return places + geometric_noise(len(places), scale=1 / self.rate, rng=rng)

    def has(self, places: Ints) -> NDArray[np.bool_]:
        """Tell which places are on the map."""
        return (places >= 0) & (places < self.size)


@dataclass(frozen=True, kw_only=True, eq=False)
class PlaneSampler:
    """P[y | x] proportional to weight_y * exp(-beta * d(x, y)) on a grid of rows x columns cells, row by row.

    `weights` are integers of at least 0; only their proportions matter.

    Guarantee: none by itself; the law is drawn exactly (proofs/location-sampling.md), so it keeps what the law keeps.

    >>> from sudare.mechanisms import SeededRng
    >>> sampler = PlaneSampler(rows=2, columns=3, height=Fraction(100), width=Fraction(100), beta=Fraction(1, 100),
    ...                        weights=np.array([1, 1, 0, 1, 1, 1]))
    >>> sorted(set(sampler.draw(np.zeros(1000, dtype=np.int64), SeededRng(1)).tolist()))
    [0, 1, 3, 4, 5]
    """

    rows: int
    columns: int
    height: Fraction
    width: Fraction
    beta: Fraction
    weights: Ints
    margin: float = MARGIN

    def draw(self, cells: Ints, rng: Rng, *, remaining: Remaining | None = None) -> Ints:
        """Draw one report for every cell of `cells`; cells that proposals keep missing go to `remaining`.

        A finished report is independent of how many proposals it took, so handing the rest to another sampler of the
        same law changes nothing but the time.
        """
        out = np.empty(len(cells), dtype=np.int64)
        open_places = np.arange(len(cells))
        rounds = 0
        while len(open_places) and (remaining is None or rounds < ROUNDS):
            proposed = self._propose(cells[open_places], rng)
            is_done = proposed >= 0
            out[open_places[is_done]] = proposed[is_done]
            open_places = open_places[~is_done]
            rounds += 1
        if len(open_places) and remaining is not None:
            out[open_places] = remaining(cells[open_places], rng)
        return out

    def _propose(self, cells: Ints, rng: Rng) -> Ints:
        """Make one proposal for each cell; -1 where it is not accepted."""
        down, across = self._axes()
        row, column = np.divmod(cells, self.columns)
        to_row, to_column = down.propose(row, rng), across.propose(column, rng)
        inside = np.flatnonzero(down.has(to_row) & across.has(to_column))
        proposed = to_row[inside] * self.columns + to_column[inside]
        weighted = self.weights[proposed] > 0
        inside, proposed = inside[weighted], proposed[weighted]
        steps = np.abs(to_row[inside] - row[inside]), np.abs(to_column[inside] - column[inside])
        found = np.full(len(cells), -1, dtype=np.int64)
        accepted = self._accept(*steps, proposed, rng)
        found[inside[accepted]] = proposed[accepted]
        return found

    def _accept(self, down: Ints, across: Ints, proposed: Ints, rng: Rng) -> NDArray[np.bool_]:
        rates = [float(axis.rate) for axis in self._axes()]
        reach = float(self.beta) * np.hypot(down * float(self.height), across * float(self.width))
        credit = down * rates[0] + across * rates[1]
        guesses: Floats = self.weights[proposed] / self._heaviest * np.exp(np.minimum(credit - reach, 0.0))
        return decide(
            guesses,
            reach,
            lambda i: self._chance(int(down[i]), int(across[i]), int(proposed[i])),
            rng,
            margin=self.margin,
        )

    def _chance(self, down: int, across: int, proposed: int) -> Chance:
        first, second = self._axes()
        return Chance(
            share=Fraction(int(self.weights[proposed]), self._heaviest),
            beta=self.beta,
            square=(down * self.height) ** 2 + (across * self.width) ** 2,
            shift=down * first.rate + across * second.rate,
        )

    @property
    def _heaviest(self) -> int:
        return int(self.weights.max())

    def _axes(self) -> tuple[Axis, Axis]:
        return Axis.of(self.rows, self.height, self.beta), Axis.of(self.columns, self.width, self.beta)
