"""Noise for the tables of all pairs of attributes at once: the difference of two Wishart matrices, exactly.

A record is one group of every attribute: e_a its one-hot vectors, h = (e_a - 1/g_a) what is left of them without their
means, a vector of dimension D = sum of g_a - 1 with |h|^2 = B = sum of 1 - 1/g_a, whoever it is. The sum of h h^T over
all records has as blocks the tables of two attributes without the means of their rows and columns. To it is added

    Z = W1 - W2,   W1, W2 independent Wishart of D + 1 degrees of freedom and covariance c,   c = B / (2 epsilon).

Then a density of W is exp(-tr W / (2c)) on all positive semidefinite matrices, as flat as the exponential law, and a
record more or less changes the logarithm of that of Z by at most tr(h h^T) / (2c) = epsilon. The noise of a contrast of
any pair has variance 2 (D + 1) c^2: it grows with the number of attributes, not with that of their pairs.

What leaves is rounded to a grid, exactly: floats say where an entry is far from the border of two grid points, integers
and more bits of the normal numbers decide the rest. Proof: proofs/matrix.md
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sudare.errors import ParameterError
from sudare.noise.geometric import as_counts
from sudare.noise.laws import require_exact
from sudare.noise.normal import LazyNormals
from sudare.noise.rng import FIRST_BITS, Rng
from sudare.noise.witness import watched
from sudare.schema.arrays import Integers, Reals

LARGEST_DIMENSION = 600  # D: the noise is G x 2(D+1) normal numbers, and their products
LARGEST_COUNT = 2**40  # of records; multiplied by two sizes and by the grid they fit 64 bits
LEAST_UNIT, LARGEST_UNIT = Fraction(1, 2**20), Fraction(2**40)
STEPS_PER_DEVIATION = 64  # of the grid, at least
ROUND_MARGIN = 2.0**-12  # of a grid step: the floats below are off by less than 2**-14
LARGEST_FLOAT_NORMAL = 16.0  # for which that bound is shown


@dataclass(frozen=True, kw_only=True, slots=True)
class MatrixNoise:
    """The noise of all pairs of attributes with so many groups each; attributes of one group take no part.

    Guarantee: epsilon-DP for a record more or less; for a change of the matrix by any symmetric Delta the nuclear norm
    of Delta without its means, over 2c. Proof: proofs/matrix.md
    Error: unbiased; `variance` for every orthonormal contrast of a table, which are uncorrelated.

    >>> noise = MatrixNoise(sizes=(4,) * 20, epsilon=Fraction(1))
    >>> noise.degrees, noise.scale, noise.unit, round(noise.variance ** 0.5, 1)
    (61, Fraction(15, 2), Fraction(1, 1), 82.8)
    """

    sizes: tuple[int, ...]
    epsilon: Fraction

    def __post_init__(self) -> None:
        require_exact("epsilon", self.epsilon)
        if min(self.sizes, default=0) < 1 or sum(size > 1 for size in self.sizes) < 2:
            raise ParameterError("sizes must have two attributes of at least 2 groups, and none of fewer than 1")

    @property
    def dimension(self) -> int:
        """D, of the vectors of records."""
        return sum(self.sizes) - len(self.sizes)

    @property
    def degrees(self) -> int:
        """The degrees of freedom of either Wishart matrix: D + 1, for which its density is flat."""
        return count_degrees(self.sizes)

    @property
    def scale(self) -> Fraction:
        """The covariance c = B / (2 epsilon)."""
        return _length_squared(self.sizes) / (2 * self.epsilon)

    @property
    def variance(self) -> float:
        """The variance of the noise of an orthonormal contrast of a pair's table."""
        return float(2 * self.degrees * self.scale**2)

    @property
    def unit(self) -> Fraction:
        """The grid of what is released: the largest power of two of which a deviation has at least 64."""
        return find_unit(self.sizes, self.scale)

    def check(self) -> None:
        """Refuse noise that would take too long, or leave 64 bits."""
        if self.dimension > LARGEST_DIMENSION:
            raise ParameterError(
                "noise of all pairs takes {most} groups more than attributes at most, not {more}; take fewer groups",
                most=LARGEST_DIMENSION,
                more=self.dimension,
            )
        if not LEAST_UNIT <= self.unit <= LARGEST_UNIT:
            raise ParameterError(
                "epsilon ({epsilon}) is too small or too large for the noise of pairs", epsilon=self.epsilon
            )

    def can_draw(self, records: float) -> bool:
        """Tell whether the noise can be drawn, and added to the tables of about so many records with room to spare.

        >>> MatrixNoise(sizes=(2, 2), epsilon=Fraction(1)).can_draw(1e9)
        True
        """
        is_known = self.dimension <= LARGEST_DIMENSION and LEAST_UNIT <= self.unit <= LARGEST_UNIT
        return is_known and records <= LARGEST_COUNT / 2

    def add(self, products: Integers, *, rng: Rng) -> Reals:
        """Add the noise to the sum of e e^T over all records: a matrix of whole numbers, of as many rows as groups.

        Given are the tables of all pairs without the means of their rows and columns, and with noise; the blocks of an
        attribute with itself are 0.
        """
        self.check()
        return add_matrix(products, sizes=self.sizes, scale=self.scale, rng=rng)

    def to_dict(self) -> dict[str, Any]:
        """Give the law as plain values."""
        return {"sizes": list(self.sizes), "scale": str(self.scale), "degrees": self.degrees, "unit": str(self.unit)}


@watched
def add_matrix(products: Integers, *, sizes: tuple[int, ...], scale: Fraction, rng: Rng) -> Reals:
    """Add the difference of two Wishart matrices of covariance `scale` to sums of products, in blocks of `sizes`.

    Guarantee: |Delta|/(2 scale) for a change by Delta, in the nuclear norm without the means of blocks.
    Proof: proofs/matrix.md

    >>> from sudare.noise.rng import SeededRng
    >>> halves = np.array([[50, 0, 40, 10], [0, 50, 10, 40], [40, 10, 50, 0], [10, 40, 0, 50]])
    >>> add_matrix(halves, sizes=(2, 2), scale=Fraction(1, 100), rng=SeededRng(1))[:2, 2:].round(1)
    array([[ 15., -15.],
           [-15.,  15.]])
    """
    counts = as_counts(products)
    if counts.shape != (sum(sizes), sum(sizes)):
        raise ParameterError("products must have {rows} rows and columns", rows=sum(sizes))
    if counts.size and (counts.max() > LARGEST_COUNT or counts.min() < -LARGEST_COUNT):
        raise ParameterError("counts for the noise of pairs must be at most 2**40; count in coarser units")
    parts = np.repeat(np.array(sizes) > 1, sizes)
    released = np.zeros(counts.shape)
    matrix = NoisyMatrix(counts[np.ix_(parts, parts)], tuple(size for size in sizes if size > 1), scale, rng)
    released[np.ix_(parts, parts)] = matrix.round() * float(matrix.unit)
    return released


def count_degrees(sizes: tuple[int, ...]) -> int:
    """Count the degrees of freedom with which the density of a Wishart matrix is flat: D + 1.

    >>> count_degrees((2, 2))
    3
    """
    return sum(sizes) - len(sizes) + 1


def find_unit(sizes: tuple[int, ...], scale: Fraction) -> Fraction:
    """Find the largest power of two of which a deviation of a contrast has at least 64, in whole numbers.

    >>> find_unit((2, 2), Fraction(100))
    Fraction(2, 1)
    """
    variance = 2 * count_degrees(sizes) * scale**2 / STEPS_PER_DEVIATION**2
    unit = Fraction(2) ** ((variance.numerator.bit_length() - variance.denominator.bit_length()) // 2 + 1)
    while unit**2 > variance:
        unit /= 2
    return unit


def _length_squared(sizes: tuple[int, ...]) -> Fraction:
    """B, the square of the length of every record's vector."""
    return sum((1 - Fraction(1, size) for size in sizes), Fraction(0))


# --- the sum, rounded exactly -----------------------------------------------------------------------------------------


@dataclass(eq=False)
class NoisyMatrix:
    """Counts and normal numbers whose sum is known as finely as its rounding to `unit` needs.

    With i in block a, j in block b, g_a and g_b their sizes, an entry is

        (K_ij + c Q_ij) / (g_a g_b),   K = g_a g_b N_ij - g_a (sums of rows) - g_b (sums of columns) + total,
        Q = sum over the first D+1 columns of Y_i Y_j - that over the others,   Y_i = g_a X_i - sum of X over block a.
    """

    counts: Integers
    sizes: tuple[int, ...]
    scale: Fraction
    rng: Rng
    margin: float = ROUND_MARGIN
    normals: LazyNormals = field(init=False)
    _exact: dict[tuple[int, int], NDArray[np.object_]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.degrees = count_degrees(self.sizes)
        self.unit = find_unit(self.sizes, self.scale)
        self.blocks: Integers = np.repeat(np.arange(len(self.sizes)), self.sizes)
        self.starts: Integers = np.cumsum(self.sizes) - np.array(self.sizes)
        self.centred = self._centre_counts()
        self.normals = LazyNormals(self.blocks.size * 2 * self.degrees, self.rng)

    def _centre_counts(self) -> Integers:
        """K: the tables without the means of rows and columns, times the number of their cells."""
        sizes = np.array(self.sizes)[self.blocks]
        along = np.add.reduceat(self.counts, self.starts, axis=1)
        down = np.add.reduceat(self.counts, self.starts, axis=0)
        totals = np.add.reduceat(along, self.starts, axis=0)
        rows, columns = sizes[:, None], sizes[None, :]
        centred: Integers = rows * columns * self.counts - rows * along[:, self.blocks] - columns * down[self.blocks]
        return centred + totals[np.ix_(self.blocks, self.blocks)]

    def round(self) -> Integers:
        """Give the multiples of the unit nearest to the entries (of two the larger); 0 within an attribute."""
        wholes, parts = self._split_counts()
        levels = parts + self._noise_floats()
        nearest = np.floor(levels + 0.5)
        above = levels + 0.5 - nearest
        is_clear = (above > self.margin) & (above < 1 - self.margin)  # never for what is no number
        is_upper = self.blocks[:, None] < self.blocks[None, :]
        rounded = np.where(is_upper & is_clear, wholes + np.where(is_clear, nearest, 0.0).astype(np.int64), 0)
        for row, column in np.argwhere(is_upper & ~is_clear).tolist():
            rounded[row, column] = self.round_exactly(row, column)
        return rounded + rounded.T

    def _split_counts(self) -> tuple[Integers, Reals]:
        """Cut the entries without noise, in units, into whole numbers and the rest, between 0 and 1."""
        sizes = np.array(self.sizes)[self.blocks]
        cells = sizes[:, None] * sizes[None, :] * self.unit.numerator
        shift = self.unit.denominator.bit_length() - 1
        wholes, rest = np.divmod(self.centred, cells)
        more, rest = np.divmod(rest << shift, cells)
        return (wholes << shift) + more, rest / cells

    def _noise_floats(self) -> Reals:
        """The noise in units, in floats; without a number anywhere if one normal number is beyond their bound."""
        normals = self.normals.floats().reshape(-1, 2 * self.degrees)
        if np.abs(normals).max() > LARGEST_FLOAT_NORMAL:
            return np.full(self.counts.shape, math.nan)
        means = np.add.reduceat(normals, self.starts, axis=0) / np.array(self.sizes)[:, None]
        normals -= means[self.blocks]
        added, taken = normals[:, : self.degrees], normals[:, self.degrees :]
        return float(self.scale / self.unit) * (added @ added.T - taken @ taken.T)

    def round_exactly(self, row: int, column: int, *, bits: int = FIRST_BITS) -> int:
        """Round an entry by whole numbers, with as many bits of the normal numbers as it takes."""
        while True:
            low, high = (math.floor(level + Fraction(1, 2)) for level in self.enclose(row, column, bits))
            if low == high:
                return low
            bits *= 2

    def enclose(self, row: int, column: int, bits: int) -> tuple[Fraction, Fraction]:
        """Bound an entry in units, whatever the bits of the normal numbers beyond the first ones are."""
        first, second = self._exact_row(row, bits), self._exact_row(column, bits)
        sizes = [self.sizes[self.blocks[place]] for place in (row, column)]
        slacks = [2 * (size - 1) for size in sizes]  # of a Y: g - 1 times its own X, and once each of the others
        products = first * second
        middle = int(products[: self.degrees].sum() - products[self.degrees :].sum())
        slack = int((abs(first) * slacks[1] + abs(second) * slacks[0]).sum()) + products.size * slacks[0] * slacks[1]
        one, cells = 1 << 2 * (bits + 1), sizes[0] * sizes[1] * self.unit
        count = int(self.centred[row, column])
        low, high = ((count + self.scale * Fraction(noise, one)) / cells for noise in (middle - slack, middle + slack))
        return low, high

    def _exact_row(self, row: int, bits: int) -> NDArray[np.object_]:
        """2**(bits+1) times Y of a row, from the middles of the normal numbers."""
        block, columns = int(self.blocks[row]), 2 * self.degrees
        start, size = int(self.starts[block]), self.sizes[block]
        if (block, bits) not in self._exact:
            places = np.arange(start * columns, (start + size) * columns)
            middles = self.normals.middles(places, bits).reshape(size, columns)
            self._exact[block, bits] = size * middles - middles.sum(axis=0)
        rows: NDArray[np.object_] = self._exact[block, bits][row - start]
        return rows


# --- floats about the law, for checks and tests; no draw uses them ----------------------------------------------------


def contrast_tail(level: float, degrees: int) -> float:
    """Give P[Z >= level] for an orthonormal contrast of a pair's table over c: the difference of two gamma variables.

    Both are sums of `degrees` waiting times. When one of them is over, j waiting times of the other are left with
    probability C(2n-1-j, n-1) / 2^(2n-j).

    >>> round(contrast_tail(0.0, 3), 12), round(contrast_tail(2.0, 3) + contrast_tail(-2.0, 3), 12)
    (0.5, 1.0)
    """
    if level < 0:
        return 1 - contrast_tail(-level, degrees)
    chance = term = math.exp(-level)  # that j waiting times last longer than `level`, for j = 1
    total = 0.0
    for left in range(1, degrees + 1):
        total += chance * (math.comb(2 * degrees - 1 - left, degrees - 1) / 2 ** (2 * degrees - left))
        term *= level / left
        chance += term
    return total
