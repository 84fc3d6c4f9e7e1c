"""How much one unit of privacy can change the table, and how the promise is split among measurements accordingly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sudare.counts import Counts
from sudare.noise import CountNoise, Rng
from sudare.noise.counting import choose_noise
from sudare.privacy import DifferentialPrivacy
from sudare.schema import Unit

CELLS = "noise in every cell"
TOTAL = "noise in the number of records"
SUMS = "noise in the sums of large groups"
TOTAL_SHARE = Fraction(1, 20)  # of pure epsilon, when the number of records is private


@dataclass(frozen=True, kw_only=True, slots=True)
class CountBudget:
    """The plan of a run: what a unit can change, and the part of the promise that each measurement gets.

    Parts are in the currency of the guarantee. A unit changes at most `changed_cells` cells, each by `rows` at most; a
    record lies in one group of a level, so that sums of groups change alike. `total_part` is None when the number of
    records is public: replace-one with one row a unit. `sums_part` is None unless a tree measures groups. `is_sparse`
    says that the noise of empty cells is drawn without visiting them.
    """

    guarantee: DifferentialPrivacy
    changed_cells: int
    rows: int
    cells_part: Fraction
    total_sensitivity: int
    total_part: Fraction | None
    sums_part: Fraction | None = None
    is_sparse: bool = False

    @property
    def cells_sensitivity(self) -> int:
        """Bound the change of the cells, or of the sums of one level, in L1."""
        return self.changed_cells * self.rows

    @property
    def cells_noise(self) -> CountNoise:
        """The noise of a cell."""
        return self.noise(self.cells_part)

    @property
    def sums_noise(self) -> CountNoise | None:
        """The noise of a sum, where one level of sums is measured."""
        return None if self.sums_part is None else self.noise(self.sums_part)

    @property
    def total_noise(self) -> CountNoise | None:
        """The noise of the number of records; None where it is public."""
        if self.total_part is None:
            return None
        return choose_noise(self.total_part, self.guarantee.currency, cells=1, rows=self.total_sensitivity)

    def noise(self, part: Fraction) -> CountNoise:
        """Choose the noise of a table of cells or sums that may cost a part of the promise."""
        return choose_noise(
            part, self.guarantee.currency, cells=self.changed_cells, rows=self.rows, is_listed=self.is_sparse
        )

    @property
    def noises(self) -> tuple[CountNoise, ...]:
        """Noise of cells and of the total: what to look at before anything is spent."""
        return (self.cells_noise,) if self.total_noise is None else (self.cells_noise, self.total_noise)

    @property
    def parts(self) -> Mapping[str, Fraction]:
        """What is spent, by purpose; adds up to the guarantee."""
        planned = {TOTAL: self.total_part, SUMS: self.sums_part, CELLS: self.cells_part}
        return {purpose: part for purpose, part in planned.items() if part is not None}


def plan(
    guarantee: DifferentialPrivacy,
    *,
    sums_share: Fraction = Fraction(0),
    level_weights: Sequence[int] = (1,),
    is_sparse: bool = False,
) -> CountBudget:
    """Derive sensitivities from neighbours and unit (proofs/microdata.md); sums get their share of the promise.

    Replacing one row moves one record between two cells. A person with at most r rows changes two cells by r, and the
    number of rows then changes by up to r - 1, so it is measured. Adding or removing changes one cell by r in the
    worst case, and the number of rows is private. Shares are those of pure epsilon, that of the sums divided by
    `level_weights`; they are turned into shares of the currency in use.

    >>> from sudare.privacy import Guarantee
    >>> plan(Guarantee(epsilon=Fraction(1), neighbours="replace", unit=Unit())).cells_sensitivity
    2
    """
    rows = rows_of(guarantee.unit)
    replace = guarantee.neighbours == "replace"
    total_share = Fraction(0) if replace and rows == 1 else TOTAL_SHARE
    cells_share = 1 - total_share - sums_share
    level_shares = [sums_share * Fraction(weight, sum(level_weights)) for weight in level_weights]
    total, cells, *levels = guarantee.currency.reshare([total_share, cells_share, *level_shares])
    return CountBudget(
        guarantee=guarantee,
        changed_cells=2 if replace else 1,
        rows=rows,
        cells_part=guarantee.amount * cells,
        total_sensitivity=rows - 1 if replace else rows,
        total_part=guarantee.amount * total or None,
        sums_part=guarantee.amount * sum(levels) or None,
        is_sparse=is_sparse,
    )


def rows_of(unit: Unit) -> int:
    """Tell the most rows that one unit has."""
    return unit.max_rows if unit.kind == "person" else 1


LARGEST_TOTAL = 2**52 - 1  # a noisy total beyond it is taken for it: what follows must not refuse after the spend


def measure_total(counts: Counts, budget: CountBudget, *, rng: Rng) -> int:
    """The number of records: exact where it is public, else with noise of its own, within what can be added up."""
    if budget.total_noise is None:
        return counts.total
    exact = np.array([counts.total], dtype=np.int64)
    return min(max(0, int(budget.total_noise.add(exact, rng=rng)[0])), LARGEST_TOTAL)
