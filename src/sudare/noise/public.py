"""Draws around numbers that are already public: records of a view, simulated noise, simulated reports.

No private value comes here, so floats may decide: nothing is promised about these laws beyond what a float keeps. They
stand in this room so that every draw of the product is found in one place.
"""

from __future__ import annotations

import math

import numpy as np

from sudare.noise.rng import Rng
from sudare.schema.arrays import Codes, Integers, Reals

LARGEST_UNIFORM = 1 - 2.0**-40  # so that row + uniform stays below the next row in floats


def draw_columns(rows: Codes, table: Reals, *, rng: Rng) -> Codes:
    """Draw for every record a column of its row of the table, P[column] in proportion to the entries of the row.

    Records of one row share one uniform offset and are spread evenly behind it, in random order (systematic sampling):
    a column of share p gets p times the records of the row, rounded up or down. A row without entries is taken as
    even.

    >>> from sudare.noise.rng import SeededRng
    >>> table = np.array([[1.0, 1.0], [0.0, 3.0]])
    >>> columns = draw_columns(np.array([0, 0, 1, 1]), table, rng=SeededRng(1))
    >>> sorted(columns[:2].tolist()), columns[2:].tolist()
    ([0, 1], [1, 1])
    """
    order = np.lexsort((rng.words64(rows.size), rows))
    ordered = rows[order]
    starts = np.searchsorted(ordered, np.arange(len(table)))
    records = np.maximum(np.diff(np.append(starts, rows.size)), 1)
    offset = _draw_uniform(len(table), rng)
    positions = np.arange(rows.size) - starts[ordered]
    uniform = np.minimum((positions + offset[ordered]) / records[ordered], LARGEST_UNIFORM)
    sums = table.sum(axis=1, keepdims=True)
    even = np.full_like(table, 1.0 / table.shape[1])
    cumulative = np.cumsum(np.where(sums > 0, table / np.where(sums > 0, sums, 1.0), even), axis=1)
    cumulative[:, -1] = 1.0
    cumulative += np.arange(len(table))[:, None]  # one increasing sequence: row r lies in (r, r + 1]
    drawn = np.searchsorted(cumulative.ravel(), ordered + uniform, side="right") - ordered * table.shape[1]
    columns = np.empty(rows.size, dtype=np.int64)
    columns[order] = np.clip(drawn, 0, table.shape[1] - 1)
    return columns


def draw_offsets(widths: Integers, *, rng: Rng) -> Integers:
    """Draw for every width a number of range(width): floor(U * width), U uniform in floats.

    >>> from sudare.noise.rng import SeededRng
    >>> draw_offsets(np.array([[1, 1]]), rng=SeededRng(1)).tolist()
    [[0, 0]]
    """
    drawn = np.floor(_draw_uniform(widths.size, rng).reshape(widths.shape) * widths).astype(np.int64)
    return np.minimum(drawn, widths - 1)  # a float product may round up to the width


def _draw_uniform(size: int, rng: Rng) -> Reals:
    """Uniform over the multiples of 2**-53 in [0, 1)."""
    return (rng.words64(size) >> np.uint64(11)).astype(np.float64) / 2.0**53


def add_normal(values: Reals, *, variance: float, rng: Rng) -> Reals:
    """Add normal noise of a variance, to see how uncertain a fit is: numbers and noise are public.

    >>> from sudare.noise.rng import SeededRng
    >>> add_normal(np.array([3.0]), variance=0.0, rng=SeededRng(1)).tolist()
    [3.0]
    """
    radius = np.sqrt(-2 * np.log1p(-_draw_uniform(values.size, rng)))  # Box and Muller: a radius and an angle
    angle = 2 * np.pi * _draw_uniform(values.size, rng)
    noisy: Reals = values + math.sqrt(variance) * (radius * np.cos(angle)).reshape(values.shape)
    return noisy


def add_laplace(values: Reals, *, variance: float, rng: Rng) -> Reals:
    """Add independent Laplace noise of this variance, in floats: density exp(-|z|/b) / 2b, variance 2 b^2.

    >>> from sudare.noise.rng import SeededRng
    >>> add_laplace(np.array([3.0]), variance=0.0, rng=SeededRng(1)).tolist()
    [3.0]
    """
    words = rng.words64(values.size).reshape(values.shape)
    uniform = ((words >> np.uint64(12)).astype(np.float64) + 0.5) / 2.0**52 - 0.5
    noise: Reals = -math.sqrt(variance / 2) * np.sign(uniform) * np.log1p(-2 * np.abs(uniform))
    return values + noise


class Simulation:
    """Repeatable draws of counts under a fixed seed, by NumPy: to judge an estimate made of public counts.

    >>> Simulation(1).split(np.array([10, 0]), share=1.0, times=1).tolist()
    [[10, 0]]
    """

    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)

    def split(self, counts: Integers, *, share: float, times: int) -> Integers:
        """Draw binomial(count, share) for every count, `times` times: (times, counts)."""
        return self._generator.binomial(counts, share, size=(times, len(counts)))

    def resample(self, total: int, law: Reals, *, times: int) -> Integers:
        """Draw counts of `total` independent draws from a law, `times` times: (times, outcomes)."""
        return self._generator.multinomial(total, law, size=times)

    def normal(self, shape: tuple[int, ...]) -> Reals:
        """Draw standard normal numbers, as errors of a simulated receiver."""
        return self._generator.normal(size=shape)

    def poisson(self, means: Reals) -> Integers:
        """Draw a Poisson count for every mean: simulated reports."""
        return self._generator.poisson(means)

    def uniform(self, size: int) -> Reals:
        """Draw numbers between 0 and 1."""
        return self._generator.random(size)

    def choose(self, size: int, shares: list[float]) -> Integers:
        """Draw numbers of range(len(shares)) with these probabilities."""
        return self._generator.choice(len(shares), size, p=shares)
