"""Trees of squares and grids for maps of counts: what a table of a map is compared with. Replace-one, total public.

    AdaptiveGrid     two levels of squares, the second as fine as the noisy counts of the first allow
    QuadTree         squares halved four times and more, least squares over all levels; may be negative
    TopDown          the tree of the US Census Bureau: every level alone, rows made valid from the top down
    BlueDown         least squares first (the best linear estimate), then rows made valid from the top down

All take a rectangle of counts and give a rectangle of estimates; noise is the exact geometric noise of the product.
Proof: proofs/baselines.md
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sudare.noise import GeometricNoise, Rng
from sudare.noise.uniform import draw_words
from sudare.postprocess.surroundings import project_in_metric, round_rows
from sudare.schema.arrays import Integers, Reals

FIRST_CELLS, SECOND_CELLS = 10, 5  # c and c2 of the paper: people an average square should hold, times 1/epsilon


def square_sums(table: Integers, side: int) -> Integers:
    """Add up squares.

    >>> square_sums(np.arange(16).reshape(4, 4), 2).tolist()
    [[10, 18], [42, 50]]
    """
    height, width = table.shape
    added: Integers = table.reshape(height // side, side, width // side, side).sum(axis=(1, 3))
    return added


def spread_even(table: Reals, side: int) -> Reals:
    """Repeat every square over its cells."""
    return np.repeat(np.repeat(table, side, axis=0), side, axis=1)


def replaced(epsilon: Fraction) -> GeometricNoise:
    """The noise of sums of which a replaced record changes two."""
    return GeometricNoise(scale=2 / epsilon)


@dataclass(frozen=True, kw_only=True)
class AdaptiveGrid:
    """Half of epsilon on a coarse grid; each of its squares is cut as finely as its noisy count allows.

    Guarantee: epsilon-DP: each grid changes by one record from one square to another; the second is chosen by noisy
    numbers. Error: within a square of the second grid people are spread evenly.
    Source: Qardaji, Yang, Li 2013 (AG), with squares that divide the map, and epsilon/2 for replace-one.
    """

    epsilon: Fraction

    def estimate(self, table: Integers, *, rng: Rng) -> Reals:
        """Estimate all cells; some come out negative."""
        half, people = self.epsilon / 2, int(table.sum())
        wanted = max(10.0, 0.25 * math.sqrt(people * float(self.epsilon) / 2 / FIRST_CELLS))
        side = 1
        while table.shape[0] // (side * 2) >= wanted and all(length % (side * 2) == 0 for length in table.shape):
            side *= 2
        if side == 1:
            return replaced(self.epsilon).add(table.ravel(), rng=rng).reshape(table.shape).astype(np.float64)
        noise = replaced(half)
        coarse = square_sums(table, side)
        first = noise.add(coarse.ravel(), rng=rng).reshape(coarse.shape)
        estimate = np.zeros(table.shape)
        for row, column in np.ndindex(*coarse.shape):
            place = np.s_[row * side : (row + 1) * side, column * side : (column + 1) * side]
            estimate[place] = self._cut(table[place], int(first[row, column]), noise, rng)
        return estimate

    def _cut(self, cells: Integers, noisy: int, noise: GeometricNoise, rng: Rng) -> Reals:
        side = cells.shape[0]
        parts = math.ceil(math.sqrt(max(noisy, 0) * float(self.epsilon) / 4 / SECOND_CELLS))
        parts = max(1, min(side, 2 ** round(math.log2(parts)) if parts > 1 else 1))
        fine = square_sums(cells, side // parts)
        second = noise.add(fine.ravel(), rng=rng).reshape(fine.shape).astype(np.float64)
        below, own = parts * parts * noise.variance, noise.variance
        agreed = (below * noisy + own * second.sum()) / (below + own)
        second += (agreed - second.sum()) / parts**2
        return spread_even(second / (side // parts) ** 2, side // parts)


@dataclass(frozen=True, kw_only=True)
class SquareTree:
    """Sums of squares of several sides with noise: least squares or not, rows made valid or not.

    Guarantee: epsilon-DP, shares adding up to 1 (one record moves between two squares of every level).
    Source: Hay et al. 2010; Cormode et al. 2012 (quadtree, shares growing by 2^(1/3) a level); Abowd et al. 2022
    (TopDown); Cumings-Menon et al. 2024 (BlueDown).
    """

    epsilon: Fraction
    sides: tuple[int, ...]
    shares: tuple[Fraction, ...]
    is_agreed: bool
    is_valid: bool

    def estimate(self, table: Integers, *, rng: Rng) -> Reals:
        """Estimate all cells."""
        levels = [self._measure(table, side, share, rng) for side, share in zip(self.sides, self.shares, strict=True)]
        if self.is_agreed:
            levels = self._agree(levels)
        above: Reals = np.array([[float(table.sum())]])
        large = 0
        for side, (values, _) in zip(self.sides, levels, strict=True):
            fan = (large // side, large // side) if large else values.shape
            above = self._share(above, _rows(values, fan), values.shape, fan, rng)
            large = side
        return above

    def _measure(self, table: Integers, side: int, share: Fraction, rng: Rng) -> tuple[Reals, float]:
        noise, sums = replaced(self.epsilon * share), square_sums(table, side)
        return noise.add(sums.ravel(), rng=rng).reshape(sums.shape).astype(np.float64), noise.variance

    def _agree(self, levels: list[tuple[Reals, float]]) -> list[tuple[Reals, float]]:
        found = [levels[-1]]
        for level in range(len(levels) - 2, -1, -1):
            fan = self.sides[level] // self.sides[level + 1]
            below, spread = square_sums(found[-1][0], fan), fan * fan * found[-1][1]  # type: ignore[arg-type]
            own, variance = levels[level]
            found.append(
                ((spread * own + variance * below) / (spread + variance), spread * variance / (spread + variance))
            )
        return found[::-1]

    def _share(self, above: Reals, rows: Reals, shape: tuple[int, ...], fan: tuple[int, int], rng: Rng) -> Reals:
        totals = above.ravel()
        shifted = rows + ((totals - rows.sum(axis=1)) / rows.shape[1])[:, None]
        if self.is_valid:
            weights = np.ones_like(shifted)
            point = project_in_metric(shifted, weights, np.maximum(totals, 0.0))
            ties = draw_words(point.size, rng=rng).reshape(point.shape) / 2.0**64 + 0.5
            shifted = round_rows(point, np.maximum(totals, 0.0), ties, weights > 0).astype(np.float64)
        back = shifted.reshape(shape[0] // fan[0], shape[1] // fan[1], *fan).transpose(0, 2, 1, 3)
        return back.reshape(shape)


def _rows(values: Reals, fan: tuple[int, int]) -> Reals:
    height, width = values.shape
    parts = values.reshape(height // fan[0], fan[0], width // fan[1], fan[1]).transpose(0, 2, 1, 3)
    return parts.reshape(-1, fan[0] * fan[1])


def halvings(side: int) -> tuple[int, ...]:
    """Sides of a quadtree over a map: halves while they are whole, from at most 8 x 8 squares on.

    >>> halvings(160), halvings(512)
    ((20, 10, 5, 1), (64, 32, 16, 8, 4, 2, 1))
    """
    found = [side // 8] if side % 8 == 0 else [1]
    while found[-1] % 2 == 0:
        found.append(found[-1] // 2)
    return tuple(found) if found[-1] == 1 else (*found, 1)


def quadtree(epsilon: Fraction, side: int) -> SquareTree:
    """Consistent quadtree with shares that grow by 2^(1/3) a level (Cormode et al. 2012)."""
    sides = halvings(side)
    weights = [round(1000 * 2 ** (level / 3)) for level in range(len(sides))]
    shares = tuple(Fraction(weight, sum(weights)) for weight in weights)
    return SquareTree(epsilon=epsilon, sides=sides, shares=shares, is_agreed=True, is_valid=False)


def top_down(epsilon: Fraction, side: int, *, is_agreed: bool = False) -> SquareTree:
    """TopDown with even shares, or BlueDown (`is_agreed`), on the squares of the quadtree."""
    sides = halvings(side)
    shares = (Fraction(1, len(sides)),) * len(sides)
    return SquareTree(epsilon=epsilon, sides=sides, shares=shares, is_agreed=is_agreed, is_valid=True)
