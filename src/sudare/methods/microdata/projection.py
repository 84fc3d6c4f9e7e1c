"""Which empty cells the surviving noise falls on: a uniform choice among all of them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sudare.counts import Counts
from sudare.counts.counts import exact_sum
from sudare.errors import ParameterError
from sudare.methods.budget import CountBudget
from sudare.methods.tree.possible import KeySet, find_first
from sudare.noise import CountNoise, Rng
from sudare.noise.uniform import draw_cells, draw_subset
from sudare.noise.zeros import Stratum, count_in_stratum, draw_in_stratum, draw_winners, expect_in_stratum
from sudare.postprocess import find_nearest_table
from sudare.schema import Schema
from sudare.schema.arrays import Codes, Integers

LEAST_SHARE = Fraction(1, 1000)  # of possible cells among all: below it proposals are nearly all refused
BATCH = 2**20


def empty_cells(counts: Counts, size: int, *, rng: Rng) -> Codes:
    """Draw `size` distinct cells uniformly from the possible cells that hold nobody.

    Cells are proposed uniformly, every attribute by itself; those that are taken, impossible or drawn before are
    refused. So every set of `size` empty cells is equally likely. Work grows with `size`, not with the domain.
    """
    schema = counts.schema
    check_share(schema.possible_size, schema.size)
    empty = schema.possible_size - counts.nonzero
    taken = KeySet(counts.codes)
    drawn = np.empty((0, len(schema.radix.words)), dtype=np.int64)
    while drawn.shape[0] < size:
        wanted = (size - drawn.shape[0]) * schema.size // empty * 9 // 8 + 64
        more = _propose(schema, min(wanted, BATCH), rng)
        drawn = np.concatenate([drawn, more[~taken.holds(more)]])
        drawn = drawn[find_first(drawn)]
    return drawn[:size]


def check_share(possible: int, cells: int) -> None:
    """Refuse a domain of which nearly everything is declared impossible."""
    if possible < LEAST_SHARE * cells:
        raise ParameterError(
            "the declared impossibilities leave less than {least} of {cells} cells;"
            " declare an attribute of the possible combinations instead",
            least=LEAST_SHARE,
            cells=cells,
        )


def _propose(schema: Schema, size: int, rng: Rng) -> Codes:
    columns = draw_cells(schema.sizes, size, rng=rng)
    if schema.impossible:
        columns = columns[~schema.is_impossible(columns)]
    return schema.radix.encode(columns)


# The same law as the dense projection, at a cost that does not depend on the number of cells.
#
# Nearly all of 1e30 cells are empty, and almost all of those end at 0. The ones that can survive are drawn from the
# top down, stratum by stratum, until the threshold of what is known lies above all that is unknown. Empty cells are
# alike, so only how many of them have which noise is kept. Proof: proofs/zeros.md


MARGIN = 6.0  # standard deviations below the expected threshold; a guess, exactness does not depend on it
MOST_TIES = 2**34  # empty cells at one level that are counted, in seconds; of more only those that win are drawn
MOST_DRAWN = 2**26  # empty cells whose values are drawn at a time


def project_sparse(counts: Counts, budget: CountBudget, *, total: int, rng: Rng) -> Counts:
    """Noise, nearest valid table: the law of `projection.project_dense`, work in the order of the output."""
    noisy = budget.cells_noise.add(counts.values, rng=rng)
    empty = counts.schema.possible_size - counts.nonzero
    known, level = rise(noisy, empty=empty, total=total, budget=budget, rng=rng)
    kept, new_empty = known.cut(level, total=total, rng=rng)
    places = empty_cells(counts, new_empty.size, rng=rng)
    return Counts.build(counts.schema, np.concatenate([counts.codes, places]), np.concatenate([kept, new_empty]))


@dataclass(frozen=True, slots=True)
class Crowd:
    """The winners of spare units, where so many unseen cells stand at the threshold that they are not counted."""

    known: NDArray[Any]  # among the cells that are known to stand there
    others: int


@dataclass(slots=True)
class Known:
    """Noisy full cells, and how many empty cells are known to have which noise."""

    noisy: Integers
    risen: dict[int, int] = field(default_factory=dict)
    crowd: Crowd | None = None

    def excess(self, level: int) -> int:
        """Records above a level: the sum of (y - level)+."""
        above = self.noisy[self.noisy > level]
        risen = sum(size * (value - level) for value, size in self.risen.items() if value > level)
        return exact_sum(above) - level * above.size + risen

    def reaching(self, level: int) -> int:
        """Cells at or above a level."""
        return int((self.noisy >= level).sum()) + sum(size for value, size in self.risen.items() if value >= level)

    def threshold(self, total: int) -> int | None:
        """The least level with at most `total` records above it; None if what is known does not fix one."""
        low, high = min(self.risen, default=0), max([*self.risen, int(self.noisy.max(initial=0)), 0])
        low = min(low, int(self.noisy.min(initial=0))) - 1
        if self.excess(low) <= total:
            cells = self.reaching(low)
            return low - (total - self.excess(low)) // cells if cells else None
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.excess(middle) > total else (low, middle)
        return high

    def settle(self, level: int, unseen: int, total: int, ties: Stratum, rng: Rng) -> bool:
        """Give out the spare units at a level where so many unseen cells stand that they are not counted.

        Tells whether all units were given: then the threshold is this level. Else all cells there are known by now.
        """
        spare = total - self.excess(level)
        winners, others = draw_winners(self.reaching(level), unseen, spare, ties, rng)
        if winners.size + others < spare:
            self.risen[level] = others
            return False
        self.crowd = Crowd(winners, others)
        return True

    def cut(self, level: int, *, total: int, rng: Rng) -> tuple[Integers, Integers]:
        """What full cells keep, and what the empty cells that survive get; spare units go to cells drawn at random."""
        kept = np.maximum(self.noisy - level, 0)
        reaching = np.flatnonzero(self.noisy >= level)
        values = sorted(value for value in self.risen if value >= level)
        sizes = [self.risen[value] for value in values]
        spare = total - self.excess(level)
        fixed = reaching.size + sum(sizes)
        if self.crowd is None:
            winners, strangers = draw_subset(fixed, spare, rng=rng), 0
        else:
            winners, strangers = self.crowd.known, self.crowd.others
        kept[reaching[winners[winners < reaching.size].astype(np.int64)]] += 1
        new_empty, start = [np.ones(strangers, dtype=np.int64)], reaching.size
        for value, size in zip(values, sizes, strict=True):
            won = int(((winners >= start) & (winners < start + size)).sum())
            start += size
            lost = size - won if value > level else 0  # cells at the level that win nothing are not published
            new_empty += [np.full(won, value - level + 1), np.full(lost, value - level)]
        return kept, np.concatenate(new_empty).astype(np.int64)


def rise(noisy: Integers, *, empty: int, total: int, budget: CountBudget, rng: Rng) -> tuple[Known, int]:
    """Draw the noise of those empty cells that can survive, from the top down; give what is known and the threshold.

    Unknown values are at most `above`. A threshold above that is the whole table's, since it counts only what lies
    higher; one just there is too, but the cells standing at it may win spare units, so they are counted first.
    """
    known, unseen, top = Known(noisy), empty, None
    noise = budget.cells_noise
    above = first_level(noisy, empty, total, noise)
    while unseen:
        unseen -= sample_empty(known, unseen, Stratum(noise=noise, above=above, at_most=top), rng)
        level = known.threshold(total)
        if level is not None and (level > above or (level == above and known.excess(level) == total)):
            return known, level
        ties = Stratum(noise=noise, above=above - 1, at_most=above)
        top, step = above, 1 if level == above else math.ceil(noise.slope(above))
        if expect_in_stratum(unseen, ties) > MOST_TIES:
            if known.settle(above, unseen, total, ties, rng):
                return known, above
            unseen, top, step = unseen - known.risen[above], above - 1, 1  # all that stand there are known now
        elif step > 1 and expect_in_stratum(unseen, _below(noise, above, step)) > MOST_DRAWN:
            step = 1  # of one value only the number is drawn
        above = _next_level(top, step)
    level = known.threshold(total)
    return known, 0 if level is None else level


def _below(noise: CountNoise, above: int, step: int) -> Stratum:
    return Stratum(noise=noise, above=_next_level(above, step), at_most=above)


def sample_empty(known: Known, unseen: int, stratum: Stratum, rng: Rng) -> int:
    """Draw how many unseen cells lie in a stratum and with which values; a stratum of one value needs no values."""
    found = count_in_stratum(unseen, stratum, rng)
    if stratum.at_most is not None and stratum.at_most - stratum.above == 1:
        known.risen[stratum.at_most] = found
        return found
    values, sizes = np.unique(draw_in_stratum(found, stratum, rng), return_counts=True)
    known.risen |= dict(zip(values.tolist(), sizes.tolist(), strict=True))
    return found


def _next_level(above: int, step: int) -> int:
    """A step below; a stratum does not cross 0, where the law turns."""
    lower = above - step
    return -1 if above > -1 > lower else lower


def first_level(noisy: Integers, empty: int, total: int, noise: CountNoise) -> int:
    """Where the threshold is expected, less a margin; at least 0, so that not all empty cells are drawn at once."""
    scale = float(noise.scale)
    low, high = -1.0, float(noisy.max(initial=0)) + 100 * scale + 2
    cells = float(empty)
    values, sizes = np.unique(noisy[noisy > 0], return_counts=True)
    for _ in range(100):
        middle = (low + high) / 2
        mass = float((np.maximum(values - middle, 0) * sizes).sum()) + cells * noise.mean_excess(middle)
        low, high = (middle, high) if mass > total else (low, middle)
    risen = cells * _tail(max(low, 0.0), noise)
    active = float(np.count_nonzero(noisy > low)) + risen + 1
    guess = math.floor(low - MARGIN * scale * math.sqrt(2 * risen + 1) / active)
    while cells * _tail(guess, noise) > 4 * total + 2**20:  # a guess too low would draw more than can be published
        guess += 1
    return max(0, guess)


def _tail(level: float, noise: CountNoise) -> float:
    """P[Z > level] for a level of at least 0, as a float: it only chooses where to begin."""
    return noise.smooth_tail(max(level, 0.0))


# The paper's section 4, step by step.


DENSE_CELLS = 2**20  # up to here the whole table is quicker; beyond, only what can survive is drawn, with the same law
CHUNK = 2**20


def project_dense(counts: Counts, budget: CountBudget, *, total: int, rng: Rng) -> Counts:
    """Noise in every cell of the table, then the nearest valid table.

    Cells declared impossible are left out of the vector: they are public zeros, so they get no noise and no records.
    """
    cells = possible_cells(counts.schema)
    exact = counts.dense() if cells is None else counts.dense()[cells]
    return project_noisy(counts.schema, budget.cells_noise.add(exact, rng=rng), total=total, rng=rng)


def project_noisy(schema: Schema, noisy: Integers, *, total: int, rng: Rng) -> Counts:
    """Make the nearest valid table of the noisy possible cells: no private number is near."""
    cells = possible_cells(schema)
    table = find_nearest_table(noisy, total=total, rng=rng)
    kept = np.flatnonzero(table)
    codes = kept if cells is None else cells[kept]
    return Counts.build(schema, codes[:, None], table[kept])


def possible_cells(schema: Schema) -> NDArray[np.int64] | None:
    """Codes of the cells that can hold people, or None when all can."""
    if not schema.impossible:
        return None
    parts = []
    for start in range(0, schema.size, CHUNK):
        codes = np.arange(start, min(start + CHUNK, schema.size), dtype=np.int64)
        parts.append(codes[~schema.is_impossible(schema.radix.decode(codes[:, None]))])
    return np.concatenate(parts)
