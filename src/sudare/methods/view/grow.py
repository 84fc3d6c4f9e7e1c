"""How fine an attribute is measured: cells to start from, and leaves that grow where people are.

Cells are the declared bins, or equal parts of them where records are many for the noise. A cell is cut in about ten
where its noisy count stands out, level by level, down to what the source counted. Which cells a level has follows from
earlier noisy counts; how many levels are paid for, and what each costs, from public numbers. Proof: proofs/view.md
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sudare.counts import Counts
from sudare.methods.view.budget import ViewBudget
from sudare.methods.view.fit import noise_variance
from sudare.methods.view.leaves import LeafAxis, declared_axis, find_ends, find_grain, find_heaps, make_axis
from sudare.noise import Rng
from sudare.schema import Attribute, NumberBins, Schema
from sudare.schema.arrays import Booleans, Codes, Integers, Reals

SHORT_DOMAIN = 256  # fine cells: an attribute with so few may be measured cell by cell
MOST_START_CELLS = 100  # of an attribute with more
SIGNAL_PER_CELL = 12  # records times epsilon per attribute that a cell to start from needs
LEAF_SHARE = Fraction(6, 100)  # of the amount, for all levels of all attributes that grow leaves
MOST_LEVELS = 5
CUT_DEVIATIONS = 3  # deviations of the noise: a cell with more records is cut
LEAST_LEAF_SIGNAL = 12  # records times the epsilon of a level: below, no cell could be cut


@dataclass(frozen=True, kw_only=True, eq=False)
class StartCells:
    """The cells that one attribute is measured by, each a run of fine codes; all of it public.

    `cell_of` and `code_of` give the cell and the declared code of every fine code, `fine_ends` where fine cells that
    are numbers or days end.
    """

    attribute: Attribute
    cell_of: Codes
    code_of: Codes
    fine_ends: tuple[Fraction, ...]

    @property
    def size(self) -> int:
        """Count the cells."""
        return int(self.cell_of[-1]) + 1

    @property
    def starts(self) -> Codes:
        """The first fine code of every cell, and one past the last."""
        return np.searchsorted(self.cell_of, np.arange(self.size + 1)).astype(np.int64)

    @property
    def levels(self) -> int:
        """How many times the widest cell can be cut in ten."""
        widest = int(np.diff(self.starts).max())
        return min(MOST_LEVELS, math.ceil(math.log10(widest) - 1e-9)) if widest > 1 else 0

    def axis(self, starts: Codes) -> LeafAxis:
        """The leaves that begin at these fine codes."""
        if self.attribute.size == starts.size:
            return declared_axis(self.attribute)
        counted = starts[starts < len(self.fine_ends) - 1] if self.fine_ends else starts[:0]
        ends = [self.fine_ends[start] for start in counted.tolist()]
        return make_axis(self.attribute, self.code_of[starts], [*ends, *self.fine_ends[-1:]])


def plan_cells(declared: Schema, fine: Schema, *, signal: float) -> tuple[StartCells, ...]:
    """Find the cells of every attribute, from `signal`, the noisy records times epsilon per attribute."""
    pairs = zip(declared.attributes, fine.attributes, strict=True)
    return tuple(_plan_attribute(attribute, finer, signal) for attribute, finer in pairs)


def _plan_attribute(attribute: Attribute, finer: Attribute, signal: float) -> StartCells:
    if finer.size == attribute.size:
        codes = np.arange(attribute.size, dtype=np.int64)
        return StartCells(attribute=attribute, cell_of=codes, code_of=codes, fine_ends=find_ends(attribute) or ())
    fine_ends = find_ends(finer) or ()
    if isinstance(attribute.domain, NumberBins):  # whole numbers: the last cell ends where the last bin does
        fine_ends = (*fine_ends[:-1], (find_ends(attribute) or fine_ends)[-1])
    counted = len(fine_ends) - 1
    code_of = np.arange(finer.size, dtype=np.int64) - finer.size + attribute.size
    declared = [float(end) for end in (find_ends(attribute) or ())]
    lows = np.array([float(end) for end in fine_ends[:-1]])
    code_of[:counted] = np.searchsorted(np.array(declared[:-1]), lows, side="right") - 1
    step = _find_step(attribute, code_of[:counted], signal)
    is_first = np.ones(finer.size, dtype=bool)
    first_of_code = np.searchsorted(code_of[:counted], code_of[:counted])
    place = np.arange(counted) - first_of_code
    is_first[:counted] = (place == 0) if step is None else (place % step == 0)
    heaps = find_heaps(find_ends(attribute) or (), find_grain(attribute)[0])
    if counted > SHORT_DOMAIN and heaps <= set(fine_ends):  # what is exactly 0, or at the end, has a cell of its own
        is_first[np.searchsorted(lows, [float(end) for end in heaps])] = True
    return StartCells(attribute=attribute, cell_of=np.cumsum(is_first) - 1, code_of=code_of, fine_ends=tuple(fine_ends))


def _find_step(attribute: Attribute, code_of: Codes, signal: float) -> int | None:
    """How many fine cells make a cell to start from; None: all of a declared bin."""
    per_bin = np.bincount(code_of)
    is_short = code_of.size <= SHORT_DOMAIN
    is_even = isinstance(attribute.domain, NumberBins) and attribute.domain.uniform is not None
    if not is_short and not is_even:
        return None
    wanted = min(SHORT_DOMAIN if is_short else MOST_START_CELLS, int(signal / SIGNAL_PER_CELL))
    step, turn = 1, 0
    while step < per_bin.max():
        if int((-(-per_bin // step)).sum()) <= wanted:
            return step
        step, turn = step * (2, 5, 2)[turn % 3] // (1, 2, 1)[turn % 3], turn + 1
    return None


# --- growing ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class LeafLevel:
    """One level of cells inside larger ones: fine codes from `starts` to `stops`, noisy counts of one variance.

    `parents` are places in the level above (of the start cells, for the first); `is_cut` marks what the next level
    cuts.
    """

    starts: Codes
    stops: Codes
    parents: Codes
    values: Reals
    variance: float
    is_cut: Booleans


@dataclass(frozen=True, kw_only=True, eq=False)
class GrownLeaves:
    """The leaves of one attribute: its start cells, those that were cut, and the levels below."""

    cells: StartCells
    is_cut: Booleans
    levels: tuple[LeafLevel, ...] = ()

    @property
    def starts(self) -> Codes:
        """Where every leaf begins, in fine codes."""
        parts = [self.cells.starts[:-1][~self.is_cut], *(level.starts[~level.is_cut] for level in self.levels)]
        return np.sort(np.concatenate(parts))

    @property
    def axis(self) -> LeafAxis:
        """The leaves as questions see them."""
        return self.cells.axis(self.starts)

    @property
    def cell_of_leaf(self) -> Codes:
        """The start cell of every leaf."""
        return self.cells.cell_of[self.starts]

    def deviations(self, start: float) -> Reals:
        """The deviation of the noise of every leaf's own count; `start` is that of a start cell."""
        parts = [(self.cells.starts[:-1][~self.is_cut], start)]
        parts += [(level.starts[~level.is_cut], math.sqrt(level.variance)) for level in self.levels]
        starts = np.concatenate([part for part, _ in parts])
        deviations = np.concatenate([np.full(part.size, deviation) for part, deviation in parts])
        return deviations[np.argsort(starts, kind="stable")]


def grow_leaves(
    cells: StartCells,
    fine: Integers,
    counts: Reals,
    deviation: float,
    *,
    part: Fraction,
    levels: int,
    budget: ViewBudget,
    rng: Rng,
) -> GrownLeaves:
    """Cut cells whose noisy counts stand out, `levels` times; each level is one noisy histogram of disjoint cells.

    `fine` holds the true counts of the fine codes, `counts` the noisy ones of the start cells.
    Guarantee: `levels` times the part, in the currency of the budget; a record lies in one cell of every level.
    """
    noise = budget.noise(part)
    spread = math.sqrt(noise_variance(noise))
    sums = np.concatenate([[0], np.cumsum(fine)])
    starts, stops = cells.starts[:-1], cells.starts[1:]
    first = is_cut = (stops - starts > 1) & (counts > CUT_DEVIATIONS * max(deviation, spread))
    grown: list[LeafLevel] = []
    for level in range(levels):
        parents, starts, stops = _cut_cells(starts, stops, is_cut)
        if not parents.size:
            break
        noisy = noise.add(sums[stops] - sums[starts], rng=rng).astype(np.float64)
        is_cut = (stops - starts > 1) & (noisy > CUT_DEVIATIONS * spread) & (level < levels - 1)
        grown.append(
            LeafLevel(starts=starts, stops=stops, parents=parents, values=noisy, variance=spread**2, is_cut=is_cut)
        )
    return GrownLeaves(cells=cells, is_cut=first, levels=tuple(grown))


def _cut_cells(starts: Codes, stops: Codes, is_cut: Booleans) -> tuple[Codes, Codes, Codes]:
    """Cut every marked cell in parts of a power of ten fine codes, about ten of them."""
    parents, lows, highs = [], [], []
    for place in np.flatnonzero(is_cut).tolist():
        low, high = int(starts[place]), int(stops[place])
        step = 10 ** max(0, math.ceil(math.log10(high - low) - 1e-9) - 1)
        begins = np.arange(low, high, step)
        parents.append(np.full(begins.size, place))
        lows.append(begins)
        highs.append(np.minimum(begins + step, high))
    if not parents:
        none = np.empty(0, dtype=np.int64)
        return none, none, none
    return np.concatenate(parents), np.concatenate(lows), np.concatenate(highs)


def keep_cells(cells: StartCells) -> GrownLeaves:
    """The start cells as leaves: nothing is cut."""
    return GrownLeaves(cells=cells, is_cut=np.zeros(cells.size, dtype=bool))


def plan_levels(cells: Sequence[StartCells], amount: Fraction, budget: ViewBudget, records: float) -> Fraction:
    """What one level of one attribute may cost; 0 where records are too few for a cell to be cut.

    The levels of all attributes together cost LEAF_SHARE of the amount, or nothing.
    """
    levels = sum(one.levels for one in cells)
    if not levels:
        return Fraction(0)
    part = amount * LEAF_SHARE / levels
    return part if records > LEAST_LEAF_SIGNAL * budget.noise(part).spread / math.sqrt(2) else Fraction(0)


def count_fine(counts: Counts, name: str) -> Integers:
    """The true counts of the fine codes of an attribute."""
    size = counts.schema.attribute(name).size
    return np.bincount(counts.column(name), weights=counts.values, minlength=size).astype(np.int64)
