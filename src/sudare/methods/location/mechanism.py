"""The mechanism: P(y|x) = alpha(x) w(y) exp(-beta d(x, y)), with beta a rational and w integers over 2**40.

This is the law that a device draws, not an approximation of it: beta, weights and squared distances are exact numbers,
and alpha follows from them. Floats here only evaluate the law for previews and certificates.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from sudare.errors import ParameterError
from sudare.methods.location.grid import Places, distances_from
from sudare.methods.location.kernel import Kernel, make_kernel
from sudare.schema.arrays import Booleans, Integers, Reals

WEIGHT_BITS = 40
BLOCK = 2**21  # numbers in one block of the law
FULL_WEIGHT = 1 << WEIGHT_BITS  # stands for the weight 1


@dataclass(frozen=True, kw_only=True, eq=False)
class Mechanism:
    """A map, beta and weights; `weights[y] / 2**40` is in [0, 1], and a cell of weight 0 is never reported.

    `inputs` says in which cells people can be; by default where reports can be.

    Guarantee: 2 beta per metre of the map's metric, whatever the weights; often less, see tight.py.
    Source: Hiraishi, Yoshikawa, Cao, Fujita, Gomi, definitions 4 (GridE: all weights 1) and 5 (WGridE).

    >>> from sudare.methods.location.grid import PlaneGrid
    >>> grid = PlaneGrid(rows=1, columns=2, cell_height_metres=100, cell_width_metres=100)
    >>> law = Mechanism(places=grid, beta_per_metre=Fraction(1, 100), weights=np.array([FULL_WEIGHT, FULL_WEIGHT]))
    >>> law.report_law(0).round(3).tolist()
    [0.731, 0.269]
    """

    places: Places
    beta_per_metre: Fraction
    weights: Integers
    inputs: Booleans | None = None
    told: Integers | None = None  # the cell that stands for a report, for whoever needs a place; None: itself
    _kernel: list[Kernel] = field(default_factory=list, repr=False)

    def __post_init__(self) -> None:
        weights = np.asarray(self.weights)
        if weights.dtype.kind not in "iu" or weights.shape != (self.places.size,):
            raise ParameterError("weights must be whole numbers, one per cell ({cells})", cells=self.places.size)
        if weights.min() < 0 or weights.max() > FULL_WEIGHT:
            raise ParameterError("weights must be between 0 and 2**{bits}", bits=WEIGHT_BITS)
        if not weights.any():
            raise ParameterError("all weights are 0: no cell could be reported; give one cell a weight above 0")
        if self.beta_per_metre <= 0:
            raise ParameterError("beta ({beta}) must be positive", beta=self.beta_per_metre)
        object.__setattr__(self, "weights", weights.astype(np.int64))
        inputs = weights > 0 if self.inputs is None else np.asarray(self.inputs, dtype=np.bool_)
        if inputs.shape != (self.places.size,) or not inputs.any():
            raise ParameterError(
                "inputs must say for each cell whether people can be there, and at least one cell must be such"
            )
        object.__setattr__(self, "inputs", inputs)
        if self.told is not None:
            told = np.asarray(self.told, dtype=np.int64)
            if told.shape != (self.places.size,) or told.min() < 0 or told.max() >= self.places.size:
                raise ParameterError("told must be one cell of the map for each cell")
            object.__setattr__(self, "told", told)

    @property
    def reports(self) -> int:
        """Count the reports that are numbered: the cells."""
        return self.places.size

    def blocks(self) -> Iterator[tuple[Integers, Reals]]:
        """Give the reports in blocks with w(y) exp(-beta d) at every cell: (cells, block)."""
        side = max(1, BLOCK // self.places.size)
        for start in range(0, self.places.size, side):
            block = np.arange(start, min(self.places.size, start + side))
            metres = np.array([distances_from(self.places, cell) for cell in block.tolist()]).T
            yield block, np.exp(-self.beta * metres) * self.shares[block]

    @property
    def beta(self) -> float:
        """Give beta per metre as a float, for evaluation."""
        return float(self.beta_per_metre)

    @property
    def shares(self) -> Reals:
        """Give the weights as numbers in [0, 1]."""
        return self.weights / FULL_WEIGHT

    @property
    def can_enter(self) -> Booleans:
        """Tell in which cells people can be."""
        if self.inputs is None:
            raise AssertionError  # set on entry
        return self.inputs

    @property
    def measured_cells(self) -> Booleans:
        """Tell which cells the measures are about: people can be there, and they can be reported."""
        return self.can_enter & (self.weights > 0)

    @property
    def kernel(self) -> Kernel:
        """Give the sums over this map, made when first needed."""
        if not self._kernel:
            self._kernel.append(make_kernel(self.places, self.beta))
        return self._kernel[0]

    def report_law(self, cell: int) -> Reals:
        """Give the law of the report of a person in `cell`: one probability per cell."""
        terms = self.terms(cell)
        law: Reals = terms / terms.sum()
        return law

    def log_chances(self, report: int, cells: Integers) -> Reals:
        """Give log w(y) - beta d(x, y) of one report y from many cells x: its law without the norm."""
        distance = distances_from(self.places, report)[cells]  # a metric is symmetric
        logs: Reals = np.log(self.shares[report]) - self.beta * distance
        return logs

    def norm_at(self, cell: int) -> float:
        """Give 1 / alpha of one cell, summed directly."""
        return float((self.shares * np.exp(-self.beta * distances_from(self.places, cell))).sum())

    def terms(self, cell: int) -> Reals:
        """Give w(y) exp(-beta (d(x, y) - nearest)) for every y: the law before it is normed, the nearest at its w."""
        distance = distances_from(self.places, cell)
        nearest = distance[self.weights > 0].min()
        terms: Reals = self.shares * np.exp(-self.beta * (distance - nearest))
        return terms


def equal_weights(cells: Booleans) -> Integers:
    """Give these cells full weight and others none: GridE on them.

    >>> equal_weights(np.array([True, False])).tolist() == [FULL_WEIGHT, 0]
    True
    """
    return np.where(cells, FULL_WEIGHT, 0).astype(np.int64)


def quantise_weights(weights: Reals) -> Integers:
    """Turn weights into integers over 2**40, the largest becoming 1; a weight above 0 stays above 0.

    >>> quantise_weights(np.array([0.0, 1e-30, 2.0])).tolist() == [0, 1, FULL_WEIGHT]
    True
    """
    weights = np.asarray(weights, dtype=np.float64)
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise ParameterError("weights must be numbers of at least 0")
    if not weights.any():
        raise ParameterError("all weights are 0: no cell could be reported; give one cell a weight above 0")
    whole = np.rint(weights / weights.max() * FULL_WEIGHT).astype(np.int64)
    return np.where(weights > 0, np.maximum(whole, 1), 0)
