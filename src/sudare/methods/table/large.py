"""Tables too large to visit every cell: nodes are opened where noisy counts are large, so that time follows the output.

Every attribute is a line of values, cut in halves as often as needed. A level takes about six halvings, those of the
longest lines first, so that a node has up to 64 children, squares on a map. All children of an open node are measured,
truly empty ones too: whether a child is listed tells nothing. A child whose noisy count noise alone could explain is
closed: what is left of the promise on its path measures its total once more, and its cells are not told apart.

The table is made from the top down as in `measured.py`; people of a closed node are put in cells of it at random.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sudare.counts import Counts
from sudare.methods.budget import CountBudget, plan
from sudare.noise import CountNoise, Rng
from sudare.noise.uniform import draw_below_each, draw_words
from sudare.postprocess.surroundings import project_in_metric, round_rows
from sudare.privacy import DifferentialPrivacy
from sudare.schema import MeshCells, Schema
from sudare.schema.arrays import Booleans, Codes, Integers, Reals

LEVEL_BITS = 6  # halvings of a level: 64 children weigh little, and each level costs a share of the promise
CELLS_SHARE = Fraction(1, 2)  # of pure epsilon, on the cells
FALSE_CHILDREN = 0.3  # empty children of an open node that are opened by noise alone, in the mean: they die out
GROUP_SCALES = 2  # of the noise of a cell: people of a closed node are put in cells in groups of so many
ROWS_AT_ONCE = 2**14  # of 64 children: what is made valid in one piece


@dataclass(frozen=True, kw_only=True)
class HalvingPlan:
    """Which attributes every level halves, and how often: `bits[l][a]`; strides in values follow."""

    sizes: tuple[int, ...]
    bits: tuple[tuple[int, ...], ...]

    def shifts(self, level: int) -> list[int]:
        """For every attribute the halvings that are left below a level."""
        return [sum(taken[place] for taken in self.bits[level + 1 :]) for place in range(len(self.sizes))]

    def fan(self, level: int) -> int:
        """Children of a node above the level, some of which may lie beyond the end of a line."""
        return 1 << sum(self.bits[level])


def plan_halvings(schema: Schema) -> HalvingPlan:
    """Take the longest lines first, at most six halvings a level; the last level leads to the cells.

    >>> from sudare.schema import Attribute, NumberBins
    >>> lines = [Attribute(name=name, domain=NumberBins.of_width(0, 2**15, 1)) for name in "xy"]
    >>> plan_halvings(Schema(name="map", attributes=tuple(lines))).bits
    ((3, 3), (3, 3), (3, 3), (3, 3), (3, 3))
    """
    sizes = tuple(attribute.size for attribute in schema.attributes)
    left = [max(0, (size - 1).bit_length()) for size in sizes]
    levels = []
    while any(left):
        taken = [0] * len(sizes)
        for _ in range(min(LEVEL_BITS, sum(left))):
            longest = max(range(len(left)), key=lambda place: (left[place], -taken[place]))
            left[longest] -= 1
            taken[longest] += 1
        levels.append(tuple(taken))
    return HalvingPlan(sizes=sizes, bits=tuple(levels))


def is_opened_by_halves(schema: Schema) -> bool:
    """Tell whether all attributes are plain lines: no declared groups, no mesh, no impossible combinations."""
    plain = all(one.hierarchy is None and not isinstance(one.domain, MeshCells) for one in schema.attributes)
    return plain and not schema.impossible


def plan_large(schema: Schema, guarantee: DifferentialPrivacy) -> CountBudget:
    """Half of the promise to the cells, half to the levels above in equal parts."""
    levels = len(plan_halvings(schema).bits)
    return plan(guarantee, sums_share=1 - CELLS_SHARE, level_weights=(1,) * (levels - 1), is_sparse=True)


def level_parts(schema: Schema, budget: CountBudget) -> tuple[Fraction, ...]:
    """The part of the promise that every level gets."""
    levels = len(plan_halvings(schema).bits)
    if budget.sums_part is None:
        return (budget.cells_part,)
    return (*(budget.sums_part / (levels - 1) for _ in range(levels - 1)), budget.cells_part)


def level_noise(schema: Schema, budget: CountBudget, level: int) -> CountNoise:
    """The noise of all children of the open nodes of a level."""
    return budget.noise(level_parts(schema, budget)[level])


def rest_noise(schema: Schema, budget: CountBudget, level: int) -> CountNoise:
    """The noise of a closed child of a level, on which all is spent that is left for the levels below."""
    return budget.noise(sum(level_parts(schema, budget)[level + 1 :], Fraction(0)))


def opening_bound(schema: Schema, budget: CountBudget, level: int) -> float:
    """The noisy count above which a child of a level is opened."""
    fan = plan_halvings(schema).fan(level)
    return level_noise(schema, budget, level).reach(math.log(fan / (2 * FALSE_CHILDREN)))


# --- measuring ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class OpenLevel:
    """The measured children of the open nodes of a level, in rows of `fan` children.

    `starts` is the first value of every open node above, (nodes, attributes). `values` and `variances` are those of
    the children: the last measurement of one that is closed, the first of one that is open; variance 0 where no cell
    can be. `opened` lists the children that are open below.
    """

    starts: Codes
    values: Integers
    variances: Reals
    opened: Codes


def measure_large(counts: Counts, halvings: HalvingPlan, budget: CountBudget, *, rng: Rng) -> list[OpenLevel]:
    """Measure from the top down: the only step that sees the data.

    Guarantee: the parts of all levels together. A unit lies on one path (two where it is replaced); a node of the path
    is measured by its level, and once more by what is left when it is closed. Which nodes are open depends on noisy
    counts alone. Proof: proofs/squares.md, Large tables
    """
    parts = level_parts(counts.schema, budget)
    columns, people = np.ascontiguousarray(counts.columns().T), counts.values
    owners = np.zeros(people.size, dtype=np.int64)
    starts = np.zeros((1, len(halvings.sizes)), dtype=np.int64)
    found = []
    for level, part in enumerate(parts):
        fan, noise = halvings.fan(level), budget.noise(part)
        child = find_children(owners, columns, halvings, level)
        exact = np.bincount(child, weights=people, minlength=len(starts) * fan).astype(np.int64)
        possible = find_possible(starts, halvings, level)
        places = np.flatnonzero(possible)
        values = np.zeros(exact.size, dtype=np.int64)
        values[places] = noise.add(exact[places], rng=rng)
        variances = np.where(possible, noise.variance, 0.0)
        opened = np.zeros(0, dtype=np.int64)
        if level < len(parts) - 1:
            is_open = possible & (values > opening_bound(counts.schema, budget, level))
            opened, closed = np.flatnonzero(is_open), places[~is_open[places]]
            rest = rest_noise(counts.schema, budget, level)
            values[closed] = rest.add(exact[closed], rng=rng)  # the first figure chose it to be small: a fresh one
            variances[closed] = rest.variance
        found.append(OpenLevel(starts=starts, values=values, variances=variances, opened=opened))
        if not opened.size:
            break
        numbers = np.full(exact.size, -1, dtype=np.int64)
        numbers[opened] = np.arange(opened.size)
        goes_on = np.flatnonzero(numbers[child] >= 0)
        owners, columns, people = numbers[child][goes_on], columns[:, goes_on], people[goes_on]
        starts = child_starts(starts, opened, halvings, level)
    return found


def find_children(owners: Codes, columns: Codes, halvings: HalvingPlan, level: int) -> Codes:
    """Find the child of its open node that every cell lies in; cells are given by lines of codes, one an attribute."""
    digit = np.zeros(columns.shape[1], dtype=np.int64)
    for line, bits, shift in zip(columns, halvings.bits[level], halvings.shifts(level), strict=True):
        if bits:
            digit = digit << bits | line >> shift & (1 << bits) - 1
    return owners * halvings.fan(level) + digit


def _split(child: Codes, halvings: HalvingPlan, level: int) -> list[Codes]:
    """The digits of children by attribute."""
    parts = []
    for bits in reversed(halvings.bits[level]):
        parts.append(child & (1 << bits) - 1)
        child = child >> bits
    return parts[::-1]


def find_possible(starts: Codes, halvings: HalvingPlan, level: int) -> Booleans:
    """Tell which children begin before the ends of all lines."""
    fan = halvings.fan(level)
    possible = np.ones((len(starts), fan), dtype=bool)
    digits = _split(np.arange(fan), halvings, level)
    for place, (size, shift) in enumerate(zip(halvings.sizes, halvings.shifts(level), strict=True)):
        if size & (size - 1):
            possible &= starts[:, place, None] + (digits[place] << shift) < size
    return possible.ravel()


def child_starts(starts: Codes, children: Codes, halvings: HalvingPlan, level: int) -> Codes:
    """The first values of children, given by their places among all children of a level."""
    owner, digit = np.divmod(children, halvings.fan(level))
    found = starts[owner]
    shifts = halvings.shifts(level)
    for place, part in enumerate(_split(digit, halvings, level)):
        found[:, place] += part << shifts[place]
    return found


# --- the table ------------------------------------------------------------------------------------------------------


def share_out_large(schema: Schema, levels: list[OpenLevel], budget: CountBudget, *, total: int, rng: Rng) -> Counts:
    """Make the published table of what was measured: whole numbers, not negative, with the given total."""
    halvings = plan_halvings(schema)
    agreed = _agree(levels, halvings)
    group = max(1, round(GROUP_SCALES * float(budget.cells_noise.scale)))
    above: Integers = np.array([total], dtype=np.int64)
    cells, values = [], []
    for number, (level, (estimates, variances)) in enumerate(zip(levels, agreed, strict=True)):
        shared = _share(estimates, variances, above, halvings.fan(number), rng)
        is_open = np.zeros(shared.size, dtype=bool)
        is_open[level.opened] = True
        leaf = np.flatnonzero((shared > 0) & ~is_open)
        if number == len(halvings.bits) - 1:
            cells.append(child_starts(level.starts, leaf, halvings, number))
            values.append(shared[leaf])
        else:
            spread = _spread(level, leaf, shared[leaf], halvings, number, group, rng)
            cells.append(spread[0])
            values.append(spread[1])
        above = shared[level.opened]
    codes = schema.radix.encode(np.concatenate(cells))
    return Counts.build(schema, codes, np.concatenate(values))


def _agree(levels: list[OpenLevel], halvings: HalvingPlan) -> list[tuple[Reals, Reals]]:
    """Combine the measurement of every open node with those below it."""
    found: list[tuple[Reals, Reals]] = []
    for number in range(len(levels) - 1, -1, -1):
        level = levels[number]
        values, variances = level.values.astype(np.float64), level.variances.copy()
        if found:
            fan = halvings.fan(number + 1)
            below, spread = (part.reshape(-1, fan).sum(axis=1) for part in found[-1])
            own = variances[level.opened]
            values[level.opened] = (spread * values[level.opened] + own * below) / (spread + own)
            variances[level.opened] = spread * own / (spread + own)
        found.append((values, variances))
    return found[::-1]


def _share(estimates: Reals, variances: Reals, above: Integers, fan: int, rng: Rng) -> Integers:
    """Share parents out among their children, in pieces that fit a processor's memory."""
    shared = np.zeros((len(above), fan), dtype=np.int64)
    rows, weights = estimates.reshape(-1, fan), variances.reshape(-1, fan)
    active = np.flatnonzero(above > 0)
    for start in range(0, active.size, ROWS_AT_ONCE):
        chosen = active[start : start + ROWS_AT_ONCE]
        totals, metric = above[chosen].astype(np.float64), weights[chosen]
        missing = (totals - rows[chosen].sum(axis=1)) / metric.sum(axis=1)
        point = project_in_metric(rows[chosen] + missing[:, None] * metric, metric, totals)
        ties = draw_words(point.size, rng=rng).reshape(point.shape) / 2.0**64 + 0.5
        shared[chosen] = round_rows(point, totals, ties, metric > 0)
    return shared.ravel()


def _spread(
    level: OpenLevel, leaf: Codes, people: Integers, halvings: HalvingPlan, number: int, group: int, rng: Rng
) -> tuple[Codes, Integers]:
    """Put the people of closed nodes in cells of them at random, in groups about as large as the noise of a cell."""
    parts = np.maximum(1, people // group)
    owner = np.repeat(np.arange(leaf.size), parts)
    order = np.arange(owner.size) - np.repeat(np.cumsum(parts) - parts, parts)
    held = people[owner] // parts[owner] + (order < people[owner] % parts[owner])
    starts = child_starts(level.starts, leaf, halvings, number)[owner]
    for place, (size, shift) in enumerate(zip(halvings.sizes, halvings.shifts(number), strict=True)):
        width = np.minimum(size - starts[:, place], 1 << shift)
        starts[:, place] += draw_below_each(width, rng=rng)
    return starts, held


def large_noises(schema: Schema, budget: CountBudget) -> tuple[tuple[int, CountNoise], ...]:
    """The noise of every level with the number of its nodes, were all of them opened."""
    halvings, nodes, found = plan_halvings(schema), 1, []
    for level, part in enumerate(level_parts(schema, budget)):
        nodes *= halvings.fan(level)
        found.append((min(nodes, schema.size), budget.noise(part)))
    return tuple(found)
