"""Unbiased figures with their margins, as columns of published tables."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sudare.schema.arrays import Reals

COUNT, UNBIASED, MARGIN = "count", "unbiased", "margin"
DECIMALS = 2
HALF_A_RECORD = 0.5  # counts and their noise are whole: a margin ends between two of them
NO_ERROR = 1e-6  # of a record: a standard error up to here is rounding, and the figure is exact


def find_margin(factor: float | Reals, errors: Reals, *, weights: Reals | None = None) -> Reals:
    """So many standard errors, and half a record: where noise is of one or two records, its law has steps.

    A sum with weights, as a share is, has steps of the largest of them: half a record of a share of 40,000 is 1/80,000.

    Noise of +-1 with probability 0.16 has a standard error of 0.5; 2.05 of them are 1.03, but of 0.49 they would be
    0.995, which holds only the 76 to 85 of 100 without noise.

    >>> find_margin(2.05, np.array([0.0, 0.48, 100.0])).round(3).tolist()
    [0.0, 1.484, 205.5]
    """
    record = 1.0 if weights is None else float(np.abs(weights).max(initial=0.0))
    margins: Reals = np.where(errors > NO_ERROR * record, factor * errors + HALF_A_RECORD * record, 0.0)
    return margins


@dataclass(frozen=True, kw_only=True, eq=False)
class Margins:
    """Unbiased figures with their margins, as columns."""

    unbiased: Reals
    margin: Reals

    @property
    def columns(self) -> dict[str, Reals]:
        """By name; margins are rounded up."""
        scale = 10.0**DECIMALS
        return {UNBIASED: np.round(self.unbiased, DECIMALS) + 0.0, MARGIN: np.ceil(self.margin * scale) / scale}
