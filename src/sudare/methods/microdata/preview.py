"""What a run will cost and how wrong it will be, from public facts alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sudare.mechanisms import geometric_variance
from sudare.methods.microdata.sensitivity import Budget
from sudare.schema import Schema


@dataclass(frozen=True, kw_only=True, slots=True)
class Preview:
    """Expected error before anything is spent.

    `cell_standard_deviation` and `l2_before_repair` are exact for the noisy table; the repair can only bring it nearer
    to any valid table, so `l2_before_repair` bounds the expected L2 distance of the nearest real table.
    """

    cells: int
    scale: Fraction
    cell_standard_deviation: float
    l2_before_repair: float
    total_standard_deviation: float
    rows: int | None = None

    @property
    def noise_share(self) -> float | None:
        """How large the noise is against the records: standard deviation of a cell over the mean cell."""
        return None if not self.rows else self.cell_standard_deviation * self.cells / self.rows

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers for a certificate or a program."""
        told: dict[str, Any] = {
            "cells": self.cells,
            "scale": str(self.scale),
            "cell_standard_deviation": round(self.cell_standard_deviation, 6),
            "l2_before_repair": round(self.l2_before_repair, 3),
            "total_standard_deviation": round(self.total_standard_deviation, 6),
        }
        if self.noise_share is not None:
            told |= {"rows": self.rows, "noise_share": round(self.noise_share, 6)}
        return told


def foresee(schema: Schema, budget: Budget, *, rows: int | None = None) -> Preview:
    """Compute the preview of a run."""
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
        rows=rows,
    )
