"""How far a published table will be from the truth, foreseen for a table of a usual shape.

What the noise does depends on how the records lie in the cells, which is private. So it is foreseen for the shape most
tables of people have: a long tail (Zipf), the k-th fullest possible cell holding n/(k H) records. All numbers here are
floats about public facts; nothing is drawn.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from sudare.errors import ParameterError
from sudare.methods.budget import CountBudget
from sudare.methods.figures import ShownPreview
from sudare.noise import CountNoise, GaussianNoise
from sudare.schema import Schema
from sudare.schema.arrays import Reals
from sudare.schema.raw import write_size
from sudare.text import Text, text

THIN = 5  # cells a record; on Adult at epsilon 1 the tables of one to six attributes were better in a view from 7 on

BINS_PER_DECADE = 40
SMALL = 2.0  # scale of noise up to which its steps are summed one by one; beyond it, it is as good as smooth
STEPS = np.arange(-200.0, 201.0)
MOST_TOLD_APART = 10**60  # cells; with more, every record lies where nobody is as well, and floats lose the sums


@dataclass(frozen=True, kw_only=True, slots=True)
class ExpectedError:
    """What the nearest valid table of a long-tailed table with `rows` records is expected to be like."""

    rows: int
    l2: float
    empty_share: float
    relative_l2: float  # against the length of the true table: from 1/2 on, the table says little

    def to_dict(self) -> dict[str, float]:
        """Plain numbers."""
        shares = {"empty_share": round(self.empty_share, 4), "relative_l2": round(self.relative_l2, 4)}
        return {"rows": self.rows, "l2": round(self.l2, 1), **shares}


def expected_error(*, cells: int, scale: float, rows: int, is_gaussian: bool = False) -> ExpectedError:
    """Foresee L2 distance and the share of records in cells that truly hold nobody.

    `scale` is that of Laplace noise, or of Gaussian noise of the same deviation. The threshold T solves: expected
    records above T, over full and empty cells, = rows (as in proofs/zeros.md).

    >>> expected_error(cells=10**9, scale=20.0, rows=10**6).empty_share > 0.5
    True
    >>> expected_error(cells=100, scale=2.0, rows=10**6).empty_share < 0.01
    True
    """
    if rows == 0:
        return ExpectedError(rows=0, l2=0.0, empty_share=0.0, relative_l2=0.0)
    cells = min(cells, MOST_TOLD_APART)
    values, weights = long_tail(cells, rows)
    reach = scale * (math.log(cells) + 10)  # hardly any of so many cells has more noise
    low, high = -reach, float(values.max()) + reach
    for _ in range(80):
        middle = (low + high) / 2
        above, _ = _moments(values, middle, scale, is_gaussian)
        low, high = (middle, high) if float(weights @ above) > rows else (low, middle)
    above, square = _moments(values, high, scale, is_gaussian)
    empty = float(weights[values == 0] @ above[values == 0])
    l2, length = math.sqrt(float(weights @ square)), math.sqrt(float(weights @ values**2))
    return ExpectedError(rows=rows, l2=l2, empty_share=min(1.0, empty / rows), relative_l2=l2 / length)


def long_tail(cells: int, rows: int) -> tuple[Reals, Reals]:
    """Values of the cells and how many cells have each: Zipf in logarithmic bins, filled or not by chance.

    >>> values, weights = long_tail(1000, 500)
    >>> round(float(weights.sum())), round(float(values @ weights))
    (1000, 500)
    """
    edges = np.unique(np.floor(np.geomspace(1, float(cells) + 1, 2 + int(BINS_PER_DECADE * math.log10(cells + 1)))))
    size = np.diff(edges) if edges.size > 1 else np.array([float(cells)])
    middle = np.sqrt(edges[:-1] * np.maximum(edges[1:] - 1, edges[:-1])) if edges.size > 1 else np.array([1.0])
    mean = rows * (1 / middle) / float((size / middle).sum())
    full = -np.expm1(-mean)  # records fall as they fall: a cell of this mean is filled with this probability
    values = np.append(mean / full, 0.0)
    weights = np.append(size * full, float((size * (1 - full)).sum()))
    return values, weights


def _moments(values: Reals, level: float, scale: float, is_gaussian: bool) -> tuple[Reals, Reals]:
    """What is published of a cell, max(value + noise - level, 0): its mean, and its mean square away from the value."""
    if scale > SMALL:
        return _smooth_gaussian(values, level, scale) if is_gaussian else _smooth(values, level, scale)
    chances = np.exp(-(STEPS**2) / (4 * scale**2)) if is_gaussian else np.exp(-np.abs(STEPS) / scale)
    chances /= chances.sum()
    published = np.maximum(values[:, None] + STEPS - level, 0.0)
    return published @ chances, ((published - values[:, None]) ** 2) @ chances


def _smooth(values: Reals, level: float, scale: float) -> tuple[Reals, Reals]:
    """The same under Laplace noise, in closed form: integrals of its density on either side of 0.

    >>> means, squares = _smooth(np.array([0.0, 100.0]), 5.0, 3.0)
    >>> [round(float(one), 3) for one in (*means, *squares)]
    [0.283, 95.0, 1.7, 43.0]
    """
    short = level - values  # what the noise must bring for anything to be published
    tail = np.exp(-np.abs(short) / scale)
    mean = np.where(short >= 0, 0.0, -short) + tail * scale / 2
    beyond = values**2 + tail * scale * (scale - values)
    within = 2 * scale**2 + level**2 - tail * scale * (values + scale)
    return mean, np.where(short >= 0, beyond, within)


def _smooth_gaussian(values: Reals, level: float, scale: float) -> tuple[Reals, Reals]:
    """The same under Gaussian noise of standard deviation sqrt(2) * scale.

    >>> means, squares = _smooth_gaussian(np.array([0.0, 100.0]), 5.0, 3.0)
    >>> [round(float(one), 3) for one in (*means, *squares)]
    [0.249, 95.0, 0.904, 43.0]
    """
    sigma = math.sqrt(2) * scale
    short = level - values
    above = np.array([math.erfc(x) / 2 for x in (short / sigma / math.sqrt(2)).tolist()])
    density = np.exp(-(short**2) / (2 * sigma**2)) / math.sqrt(2 * math.pi)
    mean = sigma * density - short * above
    square = (sigma**2 + level**2) * above + sigma * density * (short - 2 * level) + values**2 * (1 - above)
    return mean, square


# What a run will cost and how wrong it will be, from public facts alone.


BAD_SHARE = 0.1  # of published records in cells that truly hold nobody: from here on advice is given
BAD_ERROR = 0.5  # of the length of the table
MOST_ROWS = 10**15


@dataclass(frozen=True, kw_only=True, slots=True)
class MicrodataPreview(ShownPreview):
    """Expected error before anything is spent.

    `cell_standard_deviation` and `l2_before_repair` are exact for the noisy table. `outlooks` foresee the published
    table for a long-tailed table of each size asked for, by the paper's projection; the tree is nearer to the truth.
    """

    cells: int
    noise: CountNoise
    cell_standard_deviation: float
    l2_before_repair: float
    total_standard_deviation: float
    outlooks: tuple[ExpectedError, ...] = ()
    largest: tuple[str, int] = ("", 0)

    @property
    def is_bad(self) -> bool:
        """Tell whether noise will fill a good part of the table."""
        return any(_is_bad(one) for one in self.outlooks)

    def lines(self) -> list[Text]:
        """Tell it in a few lines."""
        cell, total = f"{self.cell_standard_deviation:.2f}", f"{self.total_standard_deviation:.2f}"
        return [
            text("possible cells: {cells}", cells=write_size(self.cells)),
            text("noise of a cell: standard deviation {deviation}", deviation=cell),
            text("number of records: standard deviation {deviation}", deviation=total),
            *(
                text(
                    "for a typical table of {rows} records (a few large cells and a long tail): distance to the"
                    " truth (L2) about {l2}; {share} of the published records would lie in cells that hold nobody",
                    rows=each.rows,
                    l2=f"{each.l2:.0f}",
                    share=f"{each.empty_share:.1%}",
                )
                for each in self.outlooks
            ),
        ]

    def advice(self) -> Text | None:
        """Say what to do when it is bad: how many cells would be good, and which attribute has the most values."""
        if not self.is_bad:
            return None
        worst = min(self.outlooks, key=lambda one: one.rows)
        name, values = self.largest
        return text(
            "with {rows} records, about {share} of the published records would lie in cells that truly hold"
            " nobody, and the error would be {error} of the table. At this epsilon, up to about {cells} cells work"
            " well: declare coarser bins or publish fewer attributes (the largest is {name} with {values} values),"
            " spend more, or draw records from a view: `sudare publish view`, then `sudare sample`",
            rows=worst.rows,
            share=f"{worst.empty_share:.0%}",
            error=f"{worst.relative_l2:.0%}",
            cells=_good_cells(self.cells, self.noise, worst.rows),
            name=name,
            values=values,
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers for a certificate or a program."""
        told: dict[str, Any] = {
            "cells": self.cells,
            **self.noise.to_dict(),
            "cell_standard_deviation": round(self.cell_standard_deviation, 6),
            "l2_before_repair": round(self.l2_before_repair, 3),
            "total_standard_deviation": round(self.total_standard_deviation, 6),
        }
        if self.outlooks:
            told["long_tailed_table"] = [one.to_dict() for one in self.outlooks]
        return told


def foresee(schema: Schema, budget: CountBudget, *, rows: tuple[int, ...] = ()) -> MicrodataPreview:
    """Compute the preview of a run, for each number of records asked for."""
    for one in rows:
        if not 0 <= one <= MOST_ROWS:
            raise ParameterError("rows ({rows}) must be between 0 and {most}", rows=one, most=MOST_ROWS)
    noise = budget.cells_noise
    deviation = math.sqrt(noise.variance)
    cells = schema.possible_size
    total = 0.0 if budget.total_noise is None else math.sqrt(budget.total_noise.variance)
    return MicrodataPreview(
        cells=cells,
        noise=noise,
        cell_standard_deviation=deviation,
        l2_before_repair=deviation * math.sqrt(cells),
        total_standard_deviation=total,
        outlooks=tuple(_expect(cells, noise, one) for one in rows),
        largest=max(((one.name, one.size) for one in schema.attributes), key=lambda pair: pair[1]),
    )


def _is_bad(told: ExpectedError) -> bool:
    return told.empty_share > BAD_SHARE or told.relative_l2 > BAD_ERROR


def _expect(cells: int, noise: CountNoise, rows: int) -> ExpectedError:
    is_gaussian = isinstance(noise, GaussianNoise)
    return expected_error(cells=cells, scale=float(noise.scale), rows=rows, is_gaussian=is_gaussian)


def _good_cells(cells: int, noise: CountNoise, rows: int) -> int:
    """The most cells, to one digit, at which neither noise in empty cells nor the error is bad."""
    low, high = 0.0, math.log10(cells)
    for _ in range(30):
        middle = (low + high) / 2
        good = not _is_bad(_expect(max(1, int(10**middle)), noise, rows))
        low, high = (middle, high) if good else (low, middle)
    good_cells = max(1, int(10**low))
    place: int = 10 ** (len(str(good_cells)) - 1)
    return good_cells // place * place
