"""How much one unit of privacy can change the table, and how the epsilon is split accordingly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sudare.counts import Counts
from sudare.noise import Rng, geometric
from sudare.privacy import Guarantee

CELLS = "noise in every cell"
TOTAL = "noise in the number of records"
SUMS = "noise in the sums of large groups"
TOTAL_SHARE = Fraction(1, 20)  # of epsilon, when the number of records is private


@dataclass(frozen=True, kw_only=True, slots=True)
class CountBudget:
    """The plan of a run: sensitivities in L1 and the epsilon of each measurement.

    `total_epsilon` is None when the number of records is public: replace-one with one row a unit. `sums_epsilon` is
    None unless a tree measures groups; a record lies in one group, so their sensitivity is that of the cells.
    """

    guarantee: Guarantee
    cells_sensitivity: int
    cells_epsilon: Fraction
    total_sensitivity: int
    total_epsilon: Fraction | None
    sums_epsilon: Fraction | None = None

    @property
    def cells_scale(self) -> Fraction:
        """Scale of the noise of a cell."""
        return self.cells_sensitivity / self.cells_epsilon

    @property
    def scales(self) -> tuple[Fraction, ...]:
        """Scales of the noise of cells and of the total: those to look at before anything is spent."""
        if self.total_epsilon is None:
            return (self.cells_scale,)
        return self.cells_scale, self.total_sensitivity / self.total_epsilon

    @property
    def parts(self) -> Mapping[str, Fraction]:
        """What is spent, by purpose; adds up to the guarantee."""
        planned = {TOTAL: self.total_epsilon, SUMS: self.sums_epsilon, CELLS: self.cells_epsilon}
        return {purpose: epsilon for purpose, epsilon in planned.items() if epsilon is not None}


def plan(guarantee: Guarantee, *, sums_share: Fraction = Fraction(0)) -> CountBudget:
    """Derive sensitivities from neighbours and unit (proofs/microdata.md); sums get their share of epsilon.

    Replacing one row moves one record between two cells: 2. A person with at most r rows: 2r, and the number of rows
    then changes by up to r - 1, so it is measured. Adding or removing: 1 or r, and the number of rows is private.

    >>> from sudare.schema import Unit
    >>> plan(Guarantee(epsilon=Fraction(1), neighbours="replace", unit=Unit())).cells_sensitivity
    2
    """
    rows = guarantee.unit.max_rows if guarantee.unit.kind == "person" else 1
    replace = guarantee.neighbours == "replace"
    total_is_public = replace and rows == 1
    total = None if total_is_public else guarantee.epsilon * TOTAL_SHARE
    sums = guarantee.epsilon * sums_share or None
    return CountBudget(
        guarantee=guarantee,
        cells_sensitivity=2 * rows if replace else rows,
        cells_epsilon=guarantee.epsilon - (total or 0) - (sums or 0),
        total_sensitivity=rows - 1 if replace else rows,
        total_epsilon=total,
        sums_epsilon=sums,
    )


def measure_total(counts: Counts, budget: CountBudget, *, rng: Rng) -> int:
    """The number of records: exact where it is public, else with noise of its own."""
    if budget.total_epsilon is None:
        return counts.total
    exact = np.array([counts.total], dtype=np.int64)
    noisy = geometric(exact, epsilon=budget.total_epsilon, sensitivity=budget.total_sensitivity, rng=rng)
    return max(0, int(noisy[0]))
