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


def round_up(margins: Reals) -> Reals:
    """Round margins up to the decimals that are written; those that have no more stay as they are.

    >>> round_up(np.array([1.101, 1.1, 12345.67, 0.29])).tolist()
    [1.11, 1.1, 12345.67, 0.29]
    """
    scale = 10.0**DECIMALS
    nearest: Reals = np.round(margins, DECIMALS)
    return np.where(np.isclose(nearest, margins, rtol=1e-12, atol=0.0), nearest, np.ceil(margins * scale) / scale)


@dataclass(frozen=True, kw_only=True, eq=False)
class Margins:
    """Unbiased figures with their margins, as columns."""

    unbiased: Reals
    margin: Reals

    @classmethod
    def within(cls, most: float, *, unbiased: Reals, margin: Reals, least: float = 0.0) -> Margins:
        """Margins that reach no further than from `least` to `most`, such as 0 and the public number of records.

        The truth lies between the two, so a margin that ends at the farther of them always holds. Where `most` is
        infinite nothing is cut.

        >>> wide = np.array([5212.0, 5212.0, 5212.0, 3.0])
        >>> Margins.within(250, unbiased=np.array([40.0, 240.0, -30.0, 40.0]), margin=wide).margin.tolist()
        [210.0, 240.0, 280.0, 3.0]
        """
        figures: Reals = unbiased.round(DECIMALS)
        ends: Reals = np.maximum(figures - least, most - figures).round(DECIMALS)
        return cls(unbiased=unbiased, margin=np.minimum(margin, ends))

    @property
    def columns(self) -> dict[str, Reals]:
        """By name; margins are rounded up."""
        return {UNBIASED: np.round(self.unbiased, DECIMALS) + 0.0, MARGIN: round_up(self.margin)}
