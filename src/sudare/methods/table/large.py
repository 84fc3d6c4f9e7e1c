"""Tables too large to visit every cell: nodes are opened where noisy counts are large, so that time follows the output.

Every attribute is a line of values that is opened step by step: squares of a mesh, declared groups, or halves
(`lines.py`). A level takes steps of the longest lines first, so that a node has up to 64 children, squares on a map.
All children of an open node are measured, truly empty ones too: whether a child is listed tells nothing. A child whose
noisy count noise alone could explain is closed: what is left of the promise on its path measures its total once more,
and its cells are not told apart.

The table is made from the top down as in `measured.py`; people of a closed node are put in cells of it at random.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sudare.counts import Counts
from sudare.methods.budget import CountBudget, plan
from sudare.methods.table.lines import OpeningPlan, plan_opening
from sudare.noise import CountNoise, Rng
from sudare.noise.uniform import draw_below_each, draw_words
from sudare.postprocess.surroundings import project_in_metric, round_rows
from sudare.privacy import DifferentialPrivacy
from sudare.schema import Schema
from sudare.schema.arrays import Booleans, Codes, Integers, Reals

CELLS_SHARE = Fraction(1, 2)  # of pure epsilon, on the cells
FALSE_CHILDREN = 0.3  # empty children of an open node that are opened by noise alone, in the mean: they die out
GROUP_SCALES = 2  # of the noise of a cell: people of a closed node are put in cells in groups of so many
ROWS_AT_ONCE = 2**14  # of 64 children: what is made valid in one piece


def is_opened_in_steps(schema: Schema) -> bool:
    """Tell whether all cells of all boxes can hold people: nothing was declared impossible."""
    return not schema.impossible


def plan_large(schema: Schema, guarantee: DifferentialPrivacy) -> CountBudget:
    """Half of the promise to the cells, half to the levels above in equal parts."""
    levels = plan_opening(schema).levels
    return plan(guarantee, sums_share=1 - CELLS_SHARE, level_weights=(1,) * (levels - 1), is_sparse=True)


def level_parts(schema: Schema, budget: CountBudget) -> tuple[Fraction, ...]:
    """The part of the promise that every level gets."""
    levels = plan_opening(schema).levels
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
    fan = plan_opening(schema).fan(level)
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


def measure_large(counts: Counts, opening: OpeningPlan, budget: CountBudget, *, rng: Rng) -> list[OpenLevel]:
    """Measure from the top down: the only step that sees the data.

    Guarantee: the parts of all levels together. A unit lies on one path (two where it is replaced); a node of the path
    is measured by its level, and once more by what is left when it is closed. Which nodes are open depends on noisy
    counts alone. Proof: proofs/squares.md, Large tables
    """
    parts = level_parts(counts.schema, budget)
    places, people = opening.place(counts.columns()), counts.values
    owners = np.zeros(people.size, dtype=np.int64)
    starts = np.zeros((1, len(opening.lines)), dtype=np.int64)
    found = []
    for level, part in enumerate(parts):
        fan, noise = opening.fan(level), budget.noise(part)
        child = find_children(owners, places, opening, level)
        exact = np.bincount(child, weights=people, minlength=len(starts) * fan).astype(np.int64)
        possible = find_possible(starts, opening, level)
        held = np.flatnonzero(possible)
        values = np.zeros(exact.size, dtype=np.int64)
        values[held] = noise.add(exact[held], rng=rng)
        variances = np.where(possible, noise.variance, 0.0)
        opened = np.zeros(0, dtype=np.int64)
        if level < len(parts) - 1:
            is_open = possible & (values > opening_bound(counts.schema, budget, level))
            opened, closed = np.flatnonzero(is_open), held[~is_open[held]]
            rest = rest_noise(counts.schema, budget, level)
            values[closed] = rest.add(exact[closed], rng=rng)  # the first figure chose it to be small: a fresh one
            variances[closed] = rest.variance
        found.append(OpenLevel(starts=starts, values=values, variances=variances, opened=opened))
        if not opened.size:
            break
        numbers = np.full(exact.size, -1, dtype=np.int64)
        numbers[opened] = np.arange(opened.size)
        goes_on = np.flatnonzero(numbers[child] >= 0)
        owners, places, people = numbers[child][goes_on], places[:, goes_on], people[goes_on]
        starts = child_starts(starts, opened, opening, level)
    return found


def find_children(owners: Codes, places: Codes, opening: OpeningPlan, level: int) -> Codes:
    """Find the child of its open node that every cell lies in; cells are given by their places, one line a row."""
    digit = np.zeros(places.shape[1], dtype=np.int64)
    for line, fan, stride in zip(places, opening.fans[level], opening.strides[level], strict=True):
        if fan > 1:
            digit = digit * fan + _digits(line, stride, fan)
    return owners * opening.fan(level) + digit


def _digits(places: Codes, stride: int, fan: int) -> Codes:
    """Which group of a step each place lies in; powers of two are far quicker."""
    if stride & (stride - 1) or fan & (fan - 1):
        return places // stride % fan
    return places >> (stride.bit_length() - 1) & (fan - 1)


def _split(child: Codes, opening: OpeningPlan, level: int) -> list[Codes]:
    """The digits of children by attribute."""
    parts = []
    for fan in reversed(opening.fans[level]):
        child, digit = np.divmod(child, fan)
        parts.append(digit)
    return parts[::-1]


def find_possible(starts: Codes, opening: OpeningPlan, level: int) -> Booleans:
    """Tell which children hold a cell."""
    fan = opening.fan(level)
    possible = np.ones((len(starts), fan), dtype=bool)
    digits = _split(np.arange(fan), opening, level)
    for at, line in enumerate(opening.lines):
        if not line.is_full:
            stride, own = opening.strides[level][at], opening.fans[level][at]
            ranks = line.rank(starts[:, at, None] + stride * np.arange(own + 1))
            possible &= (np.diff(ranks, axis=1) > 0)[:, digits[at]]
    return possible.ravel()


def child_starts(starts: Codes, children: Codes, opening: OpeningPlan, level: int) -> Codes:
    """The first places of children, given by their numbers among all children of a level."""
    owner, digit = np.divmod(children, opening.fan(level))
    found = starts[owner]
    for at, part in enumerate(_split(digit, opening, level)):
        found[:, at] += part * opening.strides[level][at]
    return found


def box_widths(opening: OpeningPlan, level: int) -> list[int]:
    """The places that a node of a level covers on every line."""
    left = [math.prod(line.fans) for line in opening.lines]
    for fans in opening.fans[: level + 1]:
        left = [width // fan for width, fan in zip(left, fans, strict=True)]
    return left


# --- the table ------------------------------------------------------------------------------------------------------


def share_out_large(schema: Schema, levels: list[OpenLevel], budget: CountBudget, *, total: int, rng: Rng) -> Counts:
    """Make the published table of what was measured: whole numbers, not negative, with the given total."""
    opening = plan_opening(schema)
    agreed = _agree(levels, opening)
    group = max(1, round(GROUP_SCALES * float(budget.cells_noise.scale)))
    above: Integers = np.array([total], dtype=np.int64)
    cells, values = [], []
    for number, (level, (estimates, variances)) in enumerate(zip(levels, agreed, strict=True)):
        shared = _share(estimates, variances, above, opening.fan(number), rng)
        is_open = np.zeros(shared.size, dtype=bool)
        is_open[level.opened] = True
        leaf = np.flatnonzero((shared > 0) & ~is_open)
        spread = _spread(level, leaf, shared[leaf], opening, number, group, rng)
        cells.append(spread[0])
        values.append(spread[1])
        above = shared[level.opened]
    codes = schema.radix.encode(np.concatenate(cells))
    return Counts.build(schema, codes, np.concatenate(values))


def _agree(levels: list[OpenLevel], opening: OpeningPlan) -> list[tuple[Reals, Reals]]:
    """Combine the measurement of every open node with those below it."""
    found: list[tuple[Reals, Reals]] = []
    for number in range(len(levels) - 1, -1, -1):
        level = levels[number]
        values, variances = level.values.astype(np.float64), level.variances.copy()
        if found:
            fan = opening.fan(number + 1)
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
    level: OpenLevel, leaf: Codes, people: Integers, opening: OpeningPlan, number: int, group: int, rng: Rng
) -> tuple[Codes, Integers]:
    """Put the people of closed nodes in cells of them at random, in groups about as large as the noise of a cell."""
    starts = child_starts(level.starts, leaf, opening, number)
    widths = box_widths(opening, number)
    if number == opening.levels - 1:
        owner, held = np.arange(leaf.size), people
    else:
        parts = np.maximum(1, people // group)
        owner = np.repeat(np.arange(leaf.size), parts)
        order = np.arange(owner.size) - np.repeat(np.cumsum(parts) - parts, parts)
        held = people[owner] // parts[owner] + (order < people[owner] % parts[owner])
    cells = np.empty((owner.size, len(opening.lines)), dtype=np.int64)
    for at, line in enumerate(opening.lines):
        low, high = line.rank(starts[:, at]), line.rank(starts[:, at] + widths[at])
        drawn = draw_below_each((high - low)[owner], rng=rng) if widths[at] > 1 else 0
        cells[:, at] = line.value(low[owner] + drawn)
    return cells, held


def large_noises(schema: Schema, budget: CountBudget) -> tuple[tuple[int, CountNoise], ...]:
    """The noise of every level with the number of its nodes, were all of them opened."""
    opening, nodes, found = plan_opening(schema), 1, []
    for level, part in enumerate(level_parts(schema, budget)):
        nodes *= opening.fan(level)
        found.append((min(nodes, schema.size), budget.noise(part)))
    return tuple(found)
