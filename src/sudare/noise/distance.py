"""Reports that grow rarer with distance: P[y | x] proportional to weight_y * exp(-beta * d(x, y)), drawn exactly.

    Chance, accept_each  one yes or no with the probability share * exp(-(beta * d - shift)); many of them at once
    PlaneSampler         the cells of a grid: propose a row and a column apart, accept by how far their distance is off
    RowSampler           the cells around one cell, by any metric: propose by whole numbers, accept the quotient

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

from sudare.noise.enclosure import Enclosure, exp_minus
from sudare.noise.geometric import geometric_noise
from sudare.noise.rng import WORD_BITS, LazyUniform, Rng
from sudare.noise.uniform import draw_below, draw_by_weight
from sudare.schema.arrays import Booleans, Integers, Reals

MARGIN = 2.0**-28  # a float this far from the word decides; the proof bounds the float's error by 2**-30
LARGEST_EXPONENT = 2.0**14  # beyond it the error of a float exponent is not bounded well enough: integers decide


# --- one exact yes or no, and many of them -----------------------------------------------------------------------


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
        """Enclose beta * sqrt(square) - shift by two rational numbers, the lower one at least 0."""
        root = isqrt((self.square.numerator << (2 * bits)) // self.square.denominator)
        low = self.beta * Fraction(root, 1 << bits) - self.shift
        is_square = root * root * self.square.denominator == self.square.numerator << (2 * bits)
        high = low if is_square else self.beta * Fraction(root + 1, 1 << bits) - self.shift
        return max(low, Fraction(0)), max(high, Fraction(0))

    def is_met(self, uniform: LazyUniform) -> bool:
        """Say yes with this probability."""
        return uniform.is_below(self.bounds)


@dataclass(frozen=True, kw_only=True, slots=True)
class Cone:
    """A distance sqrt(square) and a lag, both in metres; a level one is the same everywhere."""

    square: Fraction
    lag: Fraction
    is_level: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class LargestChance:
    """The largest of several chances, known exactly: that of a report which is the largest of several cones.

    >>> small, large = (Chance(share=Fraction(1, n), beta=Fraction(1), square=Fraction(0)) for n in (4, 2))
    >>> LargestChance(chances=(small, large)).bounds(4)
    (8, 8)
    """

    chances: tuple[Chance, ...]

    def bounds(self, bits: int) -> tuple[int, int]:
        """Enclose 2**bits times the largest by integers."""
        bounds = [chance.bounds(bits) for chance in self.chances]
        return max(low for low, _ in bounds), max(high for _, high in bounds)

    def is_met(self, uniform: LazyUniform) -> bool:
        """Say yes with this probability."""
        return uniform.is_below(self.bounds)


def accept_each(
    guesses: Reals,
    exponents: Reals,
    exact: Callable[[int], Chance | LargestChance],
    *,
    rng: Rng,
    margin: float = MARGIN,
) -> Booleans:
    """Say yes with probability exact(i), independently for every i.

    `guesses` are floats near the probabilities, `exponents` the sizes of the sums that were exponentiated. A 64-bit
    word that lies further than `margin` from the guess is decided; the others keep their word as the first bits of a
    uniform number that is compared exactly. `margin` is an argument so that tests can decide every draw exactly.

    >>> from sudare.noise.rng import SeededRng
    >>> accept_each(np.array([1.0, 0.0]), np.zeros(2), lambda i: Chance(
    ...     share=Fraction(1 - i), beta=Fraction(1), square=Fraction(0)), rng=SeededRng(1)).tolist()
    [True, False]
    """
    words = rng.words64(len(guesses))
    gaps = guesses - words * 2.0**-WORD_BITS
    is_accepted: Booleans = gaps > margin
    for place in np.flatnonzero(~(np.abs(gaps) > margin) | (exponents > LARGEST_EXPONENT)).tolist():
        uniform = LazyUniform(rng, word=int(words[place]), bits=WORD_BITS)
        is_accepted[place] = exact(place).is_met(uniform)
    return is_accepted


# --- a grid: a row and a column are proposed apart ----------------------------------------------------------------
#
# With heights h and widths v of cells, d = sqrt((i h)^2 + (j v)^2) >= (|i| h + |j| v) / sqrt(2) >= c (|i| h + |j| v)
# for c = 70/99, so that two independent geometric steps lie above exp(-beta d) everywhere; the quotient and the weight
# of the cell are one acceptance. In the open the acceptance is pi/4 (0.78); no table of the map or of offsets is kept,
# so memory follows the weights alone.

SLOPE = Fraction(70, 99)  # just below 1/sqrt(2): 2 * 70**2 = 99**2 - 1
MOST_ROUNDS = 64  # proposals per report before it is left to another sampler; cells that need more have no land near

DrawRemaining = Callable[[Integers, Rng], Integers]


@dataclass(frozen=True, kw_only=True, slots=True)
class GridAxis:
    """One direction of a grid: `size` cells of `side` metres; a step of i cells is proposed like exp(-rate |i|)."""

    size: int
    side: Fraction
    rate: Fraction  # 0: every cell of the axis is proposed alike

    @classmethod
    def of(cls, size: int, side: Fraction, beta: Fraction) -> GridAxis:
        """Choose the proposal: even where the whole axis is shorter than a typical step, which would lead outside."""
        rate = beta * side * SLOPE
        return cls(size=size, side=side, rate=rate if rate * size > 1 else Fraction(0))

    def propose(self, positions: Integers, rng: Rng) -> Integers:
        """Propose a position for each position, possibly outside of the axis."""
        if self.rate == 0:
            return draw_below(self.size, len(positions), rng=rng)
        return positions + geometric_noise(len(positions), scale=1 / self.rate, rng=rng)

    def holds(self, positions: Integers) -> Booleans:
        """Tell which positions are on the map."""
        return (positions >= 0) & (positions < self.size)


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

    def draw(self, cells: Integers, rng: Rng, *, remaining: DrawRemaining | None = None) -> Integers:
        """Draw one report for every cell of `cells`; cells that proposals keep missing go to `remaining`.

        A finished report is independent of how many proposals it took, so handing the rest to another sampler of the
        same law changes nothing but the time.
        """
        reports = np.empty(len(cells), dtype=np.int64)
        waiting = np.arange(len(cells))
        rounds = 0
        while len(waiting) and (remaining is None or rounds < MOST_ROUNDS):
            proposed = self._propose(cells[waiting], rng)
            is_done = proposed >= 0
            reports[waiting[is_done]] = proposed[is_done]
            waiting = waiting[~is_done]
            rounds += 1
        if len(waiting) and remaining is not None:
            reports[waiting] = remaining(cells[waiting], rng)
        return reports

    def _propose(self, cells: Integers, rng: Rng) -> Integers:
        """Make one proposal for each cell; -1 where it is not accepted."""
        down, across = self._axes()
        row, column = np.divmod(cells, self.columns)
        to_row, to_column = down.propose(row, rng), across.propose(column, rng)
        inside = np.flatnonzero(down.holds(to_row) & across.holds(to_column))
        proposed = to_row[inside] * self.columns + to_column[inside]
        has_weight = self.weights[proposed] > 0
        inside, proposed = inside[has_weight], proposed[has_weight]
        steps = np.abs(to_row[inside] - row[inside]), np.abs(to_column[inside] - column[inside])
        reports = np.full(len(cells), -1, dtype=np.int64)
        is_accepted = self._accept(*steps, proposed, rng)
        reports[inside[is_accepted]] = proposed[is_accepted]
        return reports

    def _accept(self, down: Integers, across: Integers, proposed: Integers, rng: Rng) -> Booleans:
        rates = [float(axis.rate) for axis in self._axes()]
        exponents = float(self.beta) * np.hypot(down * float(self.height), across * float(self.width))
        proposed_at = down * rates[0] + across * rates[1]  # the exponent at which the proposal was made
        guesses: Reals = self.weights[proposed] / self._heaviest * np.exp(np.minimum(proposed_at - exponents, 0.0))
        return accept_each(
            guesses,
            exponents,
            lambda i: self._chance(int(down[i]), int(across[i]), int(proposed[i])),
            rng=rng,
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

    def _axes(self) -> tuple[GridAxis, GridAxis]:
        return GridAxis.of(self.rows, self.height, self.beta), GridAxis.of(self.columns, self.width, self.beta)


# --- the cells around one cell, by any metric ---------------------------------------------------------------------
#
# Integers that lie just above w(y) * exp(-beta * d(x, y)) propose y; the quotient accepts it, nearly always. The
# integers may come from floats because they only have to lie above; the acceptance is exact. One row is made at a
# time: memory follows the map, never cells squared.

ABOVE = 1 + 2.0**-20  # more than the error of a float term
TOTAL_BITS = 60  # proposals are drawn below the sum of all integers, which must fit 63 bits


@dataclass(frozen=True, kw_only=True, eq=False)
class RowSampler:
    """The reports of one cell x: P[y] proportional to weight_y * exp(-beta * d(x, y)).

    `reports` are the cells of weight above 0, `weights` theirs, `squares` the squared distances in square units of
    `unit` metres, `ends` the running sums of the proposing integers 2**scale * weight_y * exp(shift - beta * d).
    """

    reports: Integers
    weights: Integers
    squares: Integers
    unit: Fraction
    beta: Fraction
    terms: Reals
    integers: Integers
    ends: Integers
    shift: Fraction
    scale: int
    margin: float = MARGIN
    cones: Callable[[int], list[Cone]] | None = None  # of a report that is the largest of several cones

    @classmethod
    def of(
        cls,
        *,
        reports: Integers,
        weights: Integers,
        squares: Integers,
        unit: Fraction,
        beta: Fraction,
        exponents: Reals,
        margin: float = MARGIN,
        cones: Callable[[int], list[Cone]] | None = None,
    ) -> RowSampler:
        """Make the row of a cell; `exponents` are beta * d in floats, the least of them below LARGEST_EXPONENT.

        >>> one = np.array([1])
        >>> row = RowSampler.of(reports=np.array([7]), weights=one, squares=one, unit=Fraction(1), beta=Fraction(1),
        ...                     exponents=np.ones(1))
        >>> from sudare.noise import SeededRng
        >>> row.draw(3, SeededRng(1)).tolist()
        [7, 7, 7]
        """
        nearest = float(exponents.min())
        shift = Fraction(max(0, int(nearest * (1 - 2.0**-30) * 2**20) - 1), 2**20)
        terms: Reals = weights.astype(np.float64) * np.exp(float(shift) - exponents)
        scale = TOTAL_BITS - len(reports).bit_length() - int(np.ceil(np.log2(terms.max())))
        integers = np.floor(np.ldexp(terms, scale) * ABOVE).astype(np.int64) + 1
        return cls(
            reports=reports,
            weights=weights,
            squares=squares,
            unit=unit,
            beta=beta,
            terms=terms,
            integers=integers,
            ends=np.cumsum(integers),
            shift=shift,
            scale=scale,
            margin=margin,
            cones=cones,
        )

    def draw(self, size: int, rng: Rng) -> Integers:
        """Draw so many independent reports of the cell."""
        drawn = np.empty(size, dtype=np.int64)
        filled = 0
        while filled < size:
            places, _ = draw_by_weight(self.ends, size - filled, rng=rng)
            kept = places[self._accept(places, rng)]
            drawn[filled : filled + len(kept)] = self.reports[kept]
            filled += len(kept)
        return drawn

    def _accept(self, places: Integers, rng: Rng) -> Booleans:
        guesses = np.ldexp(self.terms[places], self.scale) / self.integers[places]
        exponents = np.zeros(len(places))
        return accept_each(guesses, exponents, lambda i: self._chance(int(places[i])), rng=rng, margin=self.margin)

    def _chance(self, place: int) -> Chance | LargestChance:
        weight, integer = int(self.weights[place]), int(self.integers[place])
        share = Fraction(weight, integer) * Fraction(2) ** self.scale
        if self.cones is not None:
            return LargestChance(
                chances=tuple(
                    Chance(share=share, beta=self.beta, square=cone.square, shift=self.shift - self.beta * cone.lag)
                    for cone in self.cones(int(self.reports[place]))
                )
            )
        return Chance(
            share=share,
            beta=self.beta,
            square=int(self.squares[place]) * self.unit**2,
            shift=self.shift,
        )
