"""Reports by the whole row of a cell: for road networks and other metrics, and for cells with little land around them.

Integers that lie just above w(y) * exp(-beta * d(x, y)) propose y; the quotient accepts it, nearly always. The
integers may come from floats because they only have to lie above; the acceptance is exact. One row is made at a time:
memory follows the map, never cells squared. Proof: proofs/location-sampling.md
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sudare.errors import ParameterError
from sudare.mechanisms.rng import Rng
from sudare.methods.location.grid import metres_from
from sudare.methods.location.mechanism import Mechanism
from sudare.methods.location.sampler_law import LARGEST_EXPONENT, MARGIN, Chance, Floats, Ints, decide

ABOVE = 1 + 2.0**-20  # more than the error of a float term
TOTAL_BITS = 60  # proposals are drawn below the sum of all integers, which must fit 63 bits


@dataclass(frozen=True, kw_only=True, eq=False)
class RowSampler:
    """The reports of one cell.

    `reports` are the cells of weight above 0, `tops` the running sums of the proposing integers 2**scale * term.
    """

    mechanism: Mechanism
    reports: Ints
    squares: Ints
    terms: Floats
    integers: Ints
    tops: Ints
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
        terms: Floats = mechanism.weights[reports].astype(np.float64) * np.exp(float(shift) - reach)
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

    def draw(self, size: int, rng: Rng) -> Ints:
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

    def _accept(self, places: Ints, rng: Rng) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
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
