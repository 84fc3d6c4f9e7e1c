"""Unbiased figures with their margins, as columns of published tables."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sudare.schema.arrays import Reals

COUNT, UNBIASED, MARGIN = "count", "unbiased", "margin"
DECIMALS = 2


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
