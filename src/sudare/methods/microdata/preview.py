"""What a run will cost and how wrong it will be, from public facts alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sudare.errors import ParameterError
from sudare.mechanisms import geometric_variance
from sudare.messages import say
from sudare.methods.microdata.outlook import Outlook, outlook
from sudare.methods.sensitivity import Budget
from sudare.schema import Schema

BAD_SHARE = 0.1  # of published records in cells that truly hold nobody: from here on advice is given
BAD_ERROR = 0.5  # of the length of the table
MOST_ROWS = 10**15


@dataclass(frozen=True, kw_only=True, slots=True)
class Preview:
    """Expected error before anything is spent.

    `cell_standard_deviation` and `l2_before_repair` are exact for the noisy table. `outlooks` foresee the published
    table for a long-tailed table of each size asked for, by the paper's projection; the tree is nearer to the truth.
    """

    cells: int
    scale: Fraction
    cell_standard_deviation: float
    l2_before_repair: float
    total_standard_deviation: float
    outlooks: tuple[Outlook, ...] = ()
    largest: tuple[str, int] = ("", 0)

    @property
    def is_bad(self) -> bool:
        """Tell whether noise will fill a good part of the table."""
        return any(_is_bad(one) for one in self.outlooks)

    def advice(self, *, lang: str | None = None) -> str | None:
        """Say what to do when it is bad: how many cells would be good, and which attribute has the most values."""
        if not self.is_bad:
            return None
        worst = min(self.outlooks, key=lambda one: one.rows)
        name, values = self.largest
        return say(
            "with {rows} records about {share} of those published would lie in cells that truly hold nobody, and the"
            " error would be {error} of the table; at this epsilon up to about {cells} cells are good: declare coarser"
            " bins or publish fewer attributes (the largest is {name} with {values} values), spend more,"
            " or draw records from a view: `sudare publish view`, then `sudare sample`",
            lang=lang,
            rows=worst.rows,
            share=f"{worst.empty_share:.0%}",
            error=f"{worst.relative_l2:.0%}",
            cells=_good_cells(self.cells, float(self.scale), worst.rows),
            name=name,
            values=values,
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers for a certificate or a program."""
        told: dict[str, Any] = {
            "cells": self.cells,
            "scale": str(self.scale),
            "cell_standard_deviation": round(self.cell_standard_deviation, 6),
            "l2_before_repair": round(self.l2_before_repair, 3),
            "total_standard_deviation": round(self.total_standard_deviation, 6),
        }
        if self.outlooks:
            told["long_tailed_table"] = [one.to_dict() for one in self.outlooks]
        return told


def foresee(schema: Schema, budget: Budget, *, rows: tuple[int, ...] = ()) -> Preview:
    """Compute the preview of a run, for each number of records asked for."""
    for one in rows:
        if not 0 <= one <= MOST_ROWS:
            raise ParameterError("rows ({rows}) must be between 0 and {most}", rows=one, most=MOST_ROWS)
    deviation = math.sqrt(geometric_variance(budget.cells_scale))
    cells = schema.possible_size
    total = 0.0
    if budget.total_epsilon is not None:
        total = math.sqrt(geometric_variance(budget.total_sensitivity / budget.total_epsilon))
    return Preview(
        cells=cells,
        scale=budget.cells_scale,
        cell_standard_deviation=deviation,
        l2_before_repair=deviation * math.sqrt(cells),
        total_standard_deviation=total,
        outlooks=tuple(outlook(cells=cells, scale=float(budget.cells_scale), rows=one) for one in rows),
        largest=max(((one.name, one.size) for one in schema.attributes), key=lambda pair: pair[1]),
    )


def _is_bad(told: Outlook) -> bool:
    return told.empty_share > BAD_SHARE or told.relative_l2 > BAD_ERROR


def _good_cells(cells: int, scale: float, rows: int) -> int:
    """The most cells, to one digit, at which neither noise in empty cells nor the error is bad."""
    low, high = 0.0, math.log10(cells)
    for _ in range(30):
        middle = (low + high) / 2
        good = not _is_bad(outlook(cells=max(1, int(10**middle)), scale=scale, rows=rows))
        low, high = (middle, high) if good else (low, middle)
    good_cells = max(1, int(10**low))
    place: int = 10 ** (len(str(good_cells)) - 1)
    return good_cells // place * place
