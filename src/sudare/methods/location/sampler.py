"""One yes or no with the probability share * exp(-(beta * distance - shift)), exactly; many of them, fast.

Distances are square roots of rational numbers (a plane) or rational numbers (a road network), so a probability is never
a number that a machine holds. A float decides where it is far enough from the random word; where it is not, integers
that enclose the probability and bits that are drawn as needed decide. Proof: proofs/location-sampling.md
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sudare.errors import ParameterError
from sudare.methods.location.grid import PlaneGrid, metres_from
from sudare.methods.location.mechanism import Mechanism
from sudare.noise.enclosure import Enclosure, exp_minus
from sudare.noise.geometric import geometric_noise
from sudare.noise.rng import LazyUniform, Rng, system_rng
from sudare.schema.arrays import Integers, Reals

WORD_BITS = 64
MARGIN = 2.0**-28  # a float this far from the word decides; the proof bounds the float's error by 2**-30
LARGEST_EXPONENT = 2.0**14  # beyond it the error of a float exponent is not bounded well enough: integers decide


@dataclass(frozen=True, kw_only=True, slots=True)
class Chance:
    """The probability share * exp(-(beta * sqrt(square) - shift)), a number of [0, 1], known exactly.

    `share`, `beta`, `square` and `shift` are rational; shift is at most beta * sqrt(square).

    >>> Chance(share=Fraction(1, 2), beta=Fraction(1), square=Fraction(4), shift=Fraction(1)).bounds(20)
    (192874, 192875)
    """

    share: Fraction
    beta: Fraction
    square: Fraction
    shift: Fraction = Fraction(0)

    def bounds(self, bits: int) -> tuple[int, int]:
        """Enclose 2**bits times the probability by integers; more bits bring them relatively closer."""
        work = bits + 8
        low, high = self._exponents(work + max(0, self.beta.numerator.bit_length()))
        least, most = exp_minus(high, work).low, exp_minus(low, work).high
        chance = Enclosure(least, most, work) * Enclosure.of(self.share, bits=work)
        return chance.low >> 8, -(-chance.high >> 8)

    def _exponents(self, bits: int) -> tuple[Fraction, Fraction]:
        """Catch beta * sqrt(square) - shift between two rational numbers, the lower one at least 0."""
        root = isqrt((self.square.numerator << (2 * bits)) // self.square.denominator)
        low = self.beta * Fraction(root, 1 << bits) - self.shift
        is_square = root * root * self.square.denominator == self.square.numerator << (2 * bits)
        high = low if is_square else self.beta * Fraction(root + 1, 1 << bits) - self.shift
        return max(low, Fraction(0)), max(high, Fraction(0))

    def is_met(self, uniform: LazyUniform) -> bool:
        """Say yes with this probability."""
        return uniform.is_below(self.bounds)


def decide(
    guesses: Reals, exponents: Reals, exact: Callable[[int], Chance], rng: Rng, *, margin: float = MARGIN
) -> NDArray[np.bool_]:
    """Say yes with probability exact(i), for every i at once.

    `guesses` are floats near the probabilities, `exponents` the sizes of the sums that were exponentiated. A 64-bit
    word that lies further than `margin` from the guess is decided; the others keep their word as the first bits of a
    uniform number that is compared exactly. `margin` is an argument so that tests can send every draw the exact way.

    >>> from sudare.noise.rng import SeededRng
    >>> decide(np.array([1.0, 0.0]), np.zeros(2), lambda i: Chance(
    ...     share=Fraction(1 - i), beta=Fraction(1), square=Fraction(0)), SeededRng(1)).tolist()
    [True, False]
    """
    words = rng.words64(len(guesses))
    gaps = guesses - words * 2.0**-WORD_BITS
    met: NDArray[np.bool_] = gaps > margin
    for place in np.flatnonzero(~(np.abs(gaps) > margin) | (exponents > LARGEST_EXPONENT)).tolist():
        uniform = LazyUniform(rng, word=int(words[place]), bits=WORD_BITS)
        met[place] = exact(place).is_met(uniform)
    return met


# Reports on a plane grid: propose a row and a column apart, accept by how far their distance is off.
#
# With heights h and widths v of cells, d = sqrt((i h)^2 + (j v)^2) >= (|i| h + |j| v) / sqrt(2) >= c (|i| h + |j|
# v) for c = 70/99, so that two independent geometric steps lie above exp(-beta d) everywhere; the quotient and the
# weight of the cell are one acceptance. In the open the acceptance is pi/4 (0.78); no table of the map or of
# offsets is kept, so memory follows the weights alone. Proof: proofs/location-sampling.md


SLOPE = Fraction(70, 99)  # just below 1/sqrt(2): 2 * 70**2 = 99**2 - 1
ROUNDS = 64  # proposals per report before the row of the cell is built; near land that is common nowhere

Remaining = Callable[[Integers, Rng], Integers]


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

    def propose(self, places: Integers, rng: Rng) -> Integers:
        """Propose a place for each place, possibly outside of the axis."""
        if self.rate == 0:
            return rng.uniform_below(self.size, len(places))
        return places + geometric_noise(len(places), scale=1 / self.rate, rng=rng)

    def has(self, places: Integers) -> NDArray[np.bool_]:
        """Tell which places are on the map."""
        return (places >= 0) & (places < self.size)


@dataclass(frozen=True, kw_only=True, eq=False)
class PlaneSampler:
    """P[y | x] proportional to weight_y * exp(-beta * d(x, y)) on a grid of rows x columns cells, row by row.

    `weights` are integers of at least 0; only their proportions matter.

    Guarantee: none by itself; the law is drawn exactly (proofs/location-sampling.md), so it keeps what the law keeps.

    >>> from sudare.noise import SeededRng
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
    weights: Integers
    margin: float = MARGIN

    def draw(self, cells: Integers, rng: Rng, *, remaining: Remaining | None = None) -> Integers:
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

    def _propose(self, cells: Integers, rng: Rng) -> Integers:
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

    def _accept(self, down: Integers, across: Integers, proposed: Integers, rng: Rng) -> NDArray[np.bool_]:
        rates = [float(axis.rate) for axis in self._axes()]
        reach = float(self.beta) * np.hypot(down * float(self.height), across * float(self.width))
        credit = down * rates[0] + across * rates[1]
        guesses: Reals = self.weights[proposed] / self._heaviest * np.exp(np.minimum(credit - reach, 0.0))
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


# Reports by the whole row of a cell: for road networks and other metrics, and for cells with little land around them.
#
# Integers that lie just above w(y) * exp(-beta * d(x, y)) propose y; the quotient accepts it, nearly always. The
# integers may come from floats because they only have to lie above; the acceptance is exact. One row is made at a
# time: memory follows the map, never cells squared. Proof: proofs/location-sampling.md


ABOVE = 1 + 2.0**-20  # more than the error of a float term
TOTAL_BITS = 60  # proposals are drawn below the sum of all integers, which must fit 63 bits


@dataclass(frozen=True, kw_only=True, eq=False)
class RowSampler:
    """The reports of one cell.

    `reports` are the cells of weight above 0, `tops` the running sums of the proposing integers 2**scale * term.
    """

    mechanism: Mechanism
    reports: Integers
    squares: Integers
    terms: Reals
    integers: Integers
    tops: Integers
    shift: Fraction
    scale: int
    margin: float = MARGIN

    @classmethod
    def of(cls, mechanism: Mechanism, cell: int, *, margin: float = MARGIN) -> RowSampler:
        """Make the row of a cell.

        >>> from sudare.methods.location.grid import PlaneGrid
        >>> grid = PlaneGrid(rows=1, columns=2, cell_height_metres=100, cell_width_metres=100)
        >>> row = RowSampler.of(Mechanism(places=grid, beta_per_metre=Fraction(1, 100), weights=np.array([0, 8])), 0)
        >>> row.reports.tolist()
        [1]
        """
        reports = np.flatnonzero(mechanism.weights)
        reach = mechanism.beta * metres_from(mechanism.places, cell)[reports]
        if not reach.min() < LARGEST_EXPONENT:
            raise ParameterError(
                "the nearest cell that can be reported is {decays} decays away; take a smaller epsilon or a larger map",
                decays=int(reach.min()),
            )
        shift = Fraction(max(0, int(reach.min() * (1 - 2.0**-30) * 2**20) - 1), 2**20)
        terms: Reals = mechanism.weights[reports].astype(np.float64) * np.exp(float(shift) - reach)
        scale = TOTAL_BITS - len(reports).bit_length() - int(np.ceil(np.log2(terms.max())))
        integers = np.floor(np.ldexp(terms, scale) * ABOVE).astype(np.int64) + 1
        return cls(
            mechanism=mechanism,
            reports=reports,
            squares=mechanism.places.squares(cell)[reports],
            terms=terms,
            integers=integers,
            tops=np.cumsum(integers),
            shift=shift,
            scale=scale,
            margin=margin,
        )

    def draw(self, size: int, rng: Rng) -> Integers:
        """Draw so many independent reports of the cell."""
        out = np.empty(size, dtype=np.int64)
        filled = 0
        while filled < size:
            words = rng.uniform_below(int(self.tops[-1]), size - filled)
            places = np.searchsorted(self.tops, words, side="right")
            kept = places[self._accept(places, rng)]
            out[filled : filled + len(kept)] = self.reports[kept]
            filled += len(kept)
        return out

    def _accept(self, places: Integers, rng: Rng) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        guesses = np.ldexp(self.terms[places], self.scale) / self.integers[places]
        exponents = np.zeros(len(places))
        return decide(guesses, exponents, lambda i: self._chance(int(places[i])), rng, margin=self.margin)

    def _chance(self, place: int) -> Chance:
        weight, integer = int(self.mechanism.weights[self.reports[place]]), int(self.integers[place])
        unit = self.mechanism.places.unit_metres
        return Chance(
            share=Fraction(weight, integer) * Fraction(2) ** self.scale,
            beta=self.mechanism.beta_per_metre,
            square=int(self.squares[place]) * unit**2,
            shift=self.shift,
        )


# Draw reports: P(y|x) = alpha(x) w(y) exp(-beta d(x, y)), exactly, from cryptographic randomness, for any map.
#
# sampler_law one exact yes or no sampler_plane plane grids: geometric steps, accepted; no table sampler_rows any
# metric: the row of a cell, made when it is asked for device one person's reports: a budget a day, the same answer
# for the same cell device.js the same for a browser or a phone


@dataclass(frozen=True, kw_only=True, eq=False)
class Sampler:
    """Draws reports of a mechanism; a cell of weight 0 is never one of them.

    Guarantee: that of the mechanism, for every single report; the law is drawn exactly (proofs/location-sampling.md).
    Several reports of one person add up: see `Device`.

    >>> from sudare.noise import SeededRng
    >>> from sudare.methods.location.mechanism import ONE
    >>> grid = PlaneGrid(rows=1, columns=2, cell_height_metres=100, cell_width_metres=100)
    >>> law = Mechanism(places=grid, beta_per_metre=Fraction(1, 100), weights=np.array([ONE, ONE]))
    >>> np.bincount(Sampler(mechanism=law).draw(np.zeros(1000, dtype=int), rng=SeededRng(1))).tolist()
    [728, 272]
    """

    mechanism: Mechanism
    margin: float = MARGIN

    def draw(self, cells: ArrayLike, *, rng: Rng | None = None) -> Integers:
        """Draw one report for every cell, independently."""
        asked = self._checked(cells)
        randomness = rng if rng is not None else system_rng()
        grid = self.mechanism.places
        if isinstance(grid, PlaneGrid):
            return self._plane(grid).draw(asked, randomness, remaining=self._by_rows)
        return self._by_rows(asked, randomness)

    def _plane(self, grid: PlaneGrid) -> PlaneSampler:
        return PlaneSampler(
            rows=grid.rows,
            columns=grid.columns,
            height=Fraction(grid.cell_height_metres),
            width=Fraction(grid.cell_width_metres),
            beta=self.mechanism.beta_per_metre,
            weights=self.mechanism.weights,
            margin=self.margin,
        )

    def _by_rows(self, cells: Integers, rng: Rng) -> Integers:
        out = np.empty(len(cells), dtype=np.int64)
        order = np.argsort(cells, kind="stable")
        cuts = np.flatnonzero(np.diff(cells[order])) + 1
        for places in np.split(order, cuts) if len(order) else []:
            row = RowSampler.of(self.mechanism, int(cells[places[0]]), margin=self.margin)
            out[places] = row.draw(len(places), rng)
        return out

    def _checked(self, cells: ArrayLike) -> Integers:
        asked = np.atleast_1d(np.asarray(cells))
        if asked.dtype.kind not in "iu" or asked.ndim != 1:
            raise ParameterError("cells must be whole numbers, the places of cells on the map")
        size = self.mechanism.places.size
        if len(asked) and (asked.min() < 0 or asked.max() >= size):
            raise ParameterError("a cell is outside the map; its cells are numbered from 0 to {last}", last=size - 1)
        if not self.mechanism.can_enter[asked].all():
            raise ParameterError(
                "a cell is one in which nobody can be on this map; take the nearest cell in which people can be"
            )
        return asked.astype(np.int64)
