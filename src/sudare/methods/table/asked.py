"""A table that was published with its noisy sums, opened for questions in SQL: every sum of cells has its interval.

    SELECT SUM(count) FROM cells WHERE x >= 16 AND x < 100 AND y < 40

The answers are the unbiased figures of least squares, with the exact variance of their noise. Where a condition cuts
through a cell, its people are taken to lie evenly in it, and what that leaves open is added to the interval.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sudare.asking.answers import LEVEL, AnswerTable
from sudare.asking.protocol import AttributeCells, AxisWeight, Moments, WeightBox, find_step
from sudare.errors import ParameterError
from sudare.methods.table.estimates import TableFigures
from sudare.methods.table.frames import COUNT
from sudare.methods.table.measured import NORMAL_FACTOR
from sudare.releases import Release
from sudare.schema import Attribute, DateBins, NumberBins, Schema
from sudare.schema.arrays import Codes, Reals

CELLS = "cells"
_TEXTS = re.compile(r"""('(?:[^']|'')*')""")  # of a statement: nothing inside them is a name
_SUM = re.compile(rf"""\bSUM\s*\(\s*(?:\w+\s*\.\s*)?(?:"{COUNT}"|{COUNT})\s*\)""", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True, eq=False)
class OpenedTable:
    """What a data user asks: `FROM cells`, with `SUM(count)` or `COUNT(*)` for the number of records."""

    figures: TableFigures

    @property
    def schema(self) -> Schema:
        """The attributes it can be asked about."""
        return self.figures.schema

    def sql(self, statement: str, *, level: float = LEVEL) -> AnswerTable:
        """Answer one SELECT from `cells`."""
        from sudare.asking.statement import ask_statement

        return ask_statement(self._count_records(statement), {CELLS: self}, level=level)

    def _count_records(self, statement: str) -> str:
        """Write COUNT(*) for the sum of the column of counts, unless an attribute has its name."""
        if COUNT in {name.casefold() for name in self.schema.names}:
            return statement
        parts = _TEXTS.split(statement)
        return "".join(part if place % 2 else _SUM.sub("COUNT(*)", part) for place, part in enumerate(parts))

    def cells(self, attribute: int) -> AttributeCells:
        """The values of an attribute; bins have their edges."""
        return describe_cells(self.schema.attributes[attribute])

    def moments(self, boxes: Sequence[WeightBox]) -> Moments:
        """Estimate a weighted sum of records, with the variance of its noise and of what lies inside cut cells."""
        leaves, weights, squares = self._weigh(boxes)
        if not len(leaves):
            return Moments(value=0.0, noise=0.0, model=0.0)
        measured = self.figures.measured
        figure = measured.squares.answer(leaves, weights)
        wide = measured.factor_of(len(leaves)) / NORMAL_FACTOR  # a cell's own noise has heavier tails than a normal
        varying = np.maximum(squares - weights**2, 0.0)
        people = np.maximum(self.figures.published[leaves], 1) * (varying > 1e-12 * squares)
        return Moments(
            value=figure.estimate,
            noise=(wide * figure.standard_error) ** 2,
            model=0.0,
            inside=float((people**2.0 * varying).sum()),
        )

    def _weigh(self, boxes: Sequence[WeightBox]) -> tuple[Codes, Reals, Reals]:
        """The leaves that weigh anything, their weights, and the means of squared weights inside them."""
        leaves, columns = self.figures.cells
        total, square = np.zeros(len(leaves)), np.zeros(len(leaves))
        for box in boxes:
            inside = np.arange(len(leaves))
            for attribute, weight in box.items():
                inside = inside[(_mean(weight)[columns[inside, attribute]] != 0)]
            mean, squared = np.ones(len(inside)), np.ones(len(inside))
            for attribute, weight in box.items():
                codes = columns[inside, attribute]
                mean *= _mean(weight)[codes]
                squared *= weight.square[codes] if isinstance(weight, AxisWeight) else _mean(weight)[codes] ** 2
            total[inside] += mean
            square[inside] += squared
        kept = np.flatnonzero((total != 0) | (square != 0))
        return leaves[kept], total[kept], square[kept]


def _mean(weight: AxisWeight | Reals) -> Reals:
    return weight.mean if isinstance(weight, AxisWeight) else weight


def describe_cells(attribute: Attribute) -> AttributeCells:
    """Describe the values of an attribute as cells that a condition may cut: bins have edges, labels have none."""
    codes = np.arange(attribute.size)
    domain = attribute.domain
    if not isinstance(domain, NumberBins | DateBins):
        return AttributeCells(codes)
    step = find_step(attribute)
    if isinstance(domain, DateBins):
        return AttributeCells(codes, tuple(Fraction(day.toordinal()) for day in domain.edges), step)
    edges = tuple(Fraction(edge) for edge in domain.edges)
    if step is not None and domain.widest > step:  # the last bin holds its end
        edges = (*edges[:-1], edges[-1] + step)
    return AttributeCells(codes, edges, step)


def open_table(release: Release) -> OpenedTable:
    """Open a published table for questions.

    Error: ReleaseError if it has no noisy sums, ParameterError if it is no table.
    """
    if release.certificate.method != "table":
        raise ParameterError("the release was made by {method}; it is not a table", method=release.certificate.method)
    return OpenedTable(figures=TableFigures.load(release))
