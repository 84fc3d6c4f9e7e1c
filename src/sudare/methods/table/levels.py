"""Which sums of a table are measured, and how its cells are numbered below them.

A map has squares (`squares.py`). Any other table has the levels of its declared hierarchies, all attributes coming down
together (`tree.py`). Both number the cells as leaves of a tree, which is all that least squares needs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from math import lcm
from typing import Protocol

import numpy as np

from sudare.errors import ParameterError
from sudare.methods.budget import CountBudget, plan
from sudare.methods.table.squares import (
    FEW_CELLS_SHARE,
    FEW_SHARE,
    LARGE_MAP_THIN,
    LEAST_SHARE,
    MIDDLE,
    THIN_CELLS_SHARE,
    THIN_SIDES,
    SquareLayout,
    fits_squares,
    lay_out,
    spread_shares,
)
from sudare.methods.table.tree import DENSE_CELLS, Visited, level_weights, table_tree
from sudare.methods.tree import Tree
from sudare.noise import CountNoise
from sudare.noise.counting import choose_noise
from sudare.privacy import DifferentialPrivacy
from sudare.privacy.currency import RHO
from sudare.schema import Schema
from sudare.schema.arrays import Booleans, Codes, Integers

# Records in a cell, in deviations of plain noise, that part the classes of density of squares, from thin to dense.
# Releases of the first form have three classes; chosen with the parts in `squares.py`.
# Twelve classes are six of maps that are not thin and six of those that are.
DENSITY_BOUNDS = {3: (0.3, 6.0), 6: (0.03, 0.1, 0.3, 1.2, 6.0), 12: (0.03, 0.1, 0.3, 1.2, 6.0)}
MIDDLES = {1: 0, 3: 1, 6: MIDDLE, 12: MIDDLE}
THIN_CLASSES = (12,)  # numbers of classes, with those of thin maps
# A map is thin that holds less than this in a cell on the whole, in deviations of plain noise. Only promises up to
# those below have such maps, whose noise is of 10 people or more: less noise shows cells that stand out. The bounds of
# their classes let a square that is measured with three quarters hold some three deviations of its noise. Chosen on
# places of Europe, Asia, Canada and on US postal codes at epsilon 1/10 and 1 (`benchmarks.table_real`), and on made-up
# villages, which lose by it (0.09 at epsilon 1/10).
THIN_MAP, THIN_BOUNDS = 0.06, (0.01, 0.04, 0.16, 0.63, 6.0)
MOST_THIN_EPSILON, MOST_THIN_RHO = Fraction(1, 4), Fraction(1, 32)
# With less noise, cells of a few people stand out: there a map of points is told from one of people in few cells by the
# number of crowded records, measured with this share: those beyond so many of one cell (in deviations of plain noise;
# at epsilon 1 the ninth record and more). A map is thin that holds less than this in a cell on the whole, and of which
# less than a sixth are crowded. Chosen at epsilon 1 on places of Asia, Africa, South America, Brazil, Europe and US
# postal codes (0 to 0.14 crowded), and on a sample of the people of Romania and made-up villages (0.33 to 0.65), which
# lose by it.
CROWDED_SHARE, CROWD, LEAST_CROWDED = Fraction(1, 100), 3.0, 6
THIN_MAP_OF_POINTS = 0.2
MOST_POINTS_EPSILON, MOST_POINTS_RHO = Fraction(1), Fraction(1, 2)
# A thin map has few records if the squares that decide hold less than this on average, in deviations of plain noise.
# Chosen with `squares.FEW_SHARE`.
FEW_RECORDS = 4.0
FAINT = 20  # a level with less than one part in so many of what a larger one has is as good as not measured
BETWEEN_CLASSES, BEFORE_FEW = "|", ":"


class LeafLayout(Protocol):
    """The cells of a schema as leaves of a tree."""

    def __hash__(self) -> int:
        """Layouts are told apart by identity."""

    @property
    def schema(self) -> Schema:
        """The table."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """Count the nodes of every level, possible or not."""

    @property
    def parents(self) -> tuple[Codes, ...]:
        """The node above each node, by level."""

    @property
    def possible_cells(self) -> tuple[Codes, ...]:
        """Count the possible cells of every node, by level."""

    @property
    def is_possible(self) -> Booleans:
        """Tell which leaves can hold records."""

    @property
    def weights(self) -> tuple[Fraction, ...]:
        """The shares of the levels in pure epsilon."""

    def leaves(self, columns: Codes) -> Codes:
        """Find the leaves of cells (m, attributes)."""

    def columns(self, leaves: Codes) -> Codes:
        """Give the codes of leaves that are cells."""


@dataclass(frozen=True, kw_only=True, eq=False)
class TreeLayout:
    """The levels of a tree of attributes, all nodes of which are held."""

    tree: Tree

    @property
    def schema(self) -> Schema:
        """The table."""
        return self.tree.schema

    @cached_property
    def visited(self) -> Visited:
        """The tree with its nodes."""
        return Visited(tree=self.tree, noises=())

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Count the nodes of every level below the root; a table of one cell has that one."""
        return tuple(self.tree.size(level) for level in range(min(1, len(self.tree.steps)), len(self.tree.levels)))

    @cached_property
    def parents(self) -> tuple[Codes, ...]:
        """The node above each node, by level."""
        return tuple(self.visited.parents[1:]) or (np.zeros(1, dtype=np.int64),)

    @cached_property
    def possible_cells(self) -> tuple[Codes, ...]:
        """Count the possible cells of every node, by level."""
        return tuple(self.visited.capacities[-len(self.sizes) :])

    @property
    def is_possible(self) -> Booleans:
        """Tell which leaves can hold records."""
        possible: Booleans = self.possible_cells[-1] > 0
        return possible

    @property
    def weights(self) -> tuple[Fraction, ...]:
        """Weigh levels by how much finer they are than the level above."""
        weights = level_weights(self.tree) or [1]
        return tuple(Fraction(weight, sum(weights)) for weight in weights)

    def leaves(self, columns: Codes) -> Codes:
        """Find the leaves of cells."""
        return self.visited.leaf_radix.encode(self.tree.ranks(columns))[:, 0]

    def columns(self, leaves: Codes) -> Codes:
        """Give the codes of leaves."""
        return self.tree.codes(self.visited.leaf_radix.decode(leaves[:, None]))


@lru_cache(maxsize=4)
def find_layout(schema: Schema, sides: tuple[int, ...] | None = None) -> SquareLayout | TreeLayout | None:
    """Choose the levels of a table, on a map with these sides; None for one that is too large to visit every cell."""
    if fits_squares(schema, DENSE_CELLS):
        return lay_out(schema, sides)
    return TreeLayout(tree=table_tree(schema)) if schema.size <= DENSE_CELLS else None


def whole_weights(shares: tuple[Fraction, ...]) -> list[int]:
    """Write shares as whole numbers in proportion.

    >>> whole_weights((Fraction(1, 4), Fraction(1, 4), Fraction(1, 2)))
    [1, 1, 2]
    """
    common = lcm(*(share.denominator for share in shares))
    return [int(share * common) for share in shares]


def plan_levels(guarantee: DifferentialPrivacy, shares: tuple[Fraction, ...]) -> CountBudget:
    """Split the promise between the cells and the sums above them; the total takes its part of the cells' where it is
    private.
    """
    weights = whole_weights(shares)
    return plan(guarantee, sums_share=1 - shares[-1], level_weights=weights[:-1] or (1,))


def level_parts_of(shares: tuple[Fraction, ...], budget: CountBudget) -> tuple[Fraction, ...]:
    """Give the part of the promise of every level, from the largest sums to the cells."""
    if budget.sums_part is None:
        return (budget.cells_part,)
    sums = budget.sums_part
    upper = budget.guarantee.currency.reshare(whole_weights(shares)[:-1])
    return (*(sums * share for share in upper), budget.cells_part)


def level_noises_of(shares: tuple[Fraction, ...], budget: CountBudget) -> tuple[CountNoise, ...]:
    """Give the noise of every level, from the largest sums to the cells."""
    return tuple(budget.noise(part) for part in level_parts_of(shares, budget))


# --- what noisy density decides --------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class LevelShares:
    """The shares of all levels in pure epsilon: the same everywhere, or those of thin, middle and dense squares.

    Where they are divided by density, the classes share their first levels, the last of which decides. `has_crowded`
    tells that the first is that of the number of crowded records. `few` are those of a map with few records.
    """

    by_class: tuple[tuple[Fraction, ...], ...]
    has_crowded: bool = False
    few: tuple[Fraction, ...] = ()

    @property
    def middle(self) -> tuple[Fraction, ...]:
        """The shares of squares that are neither thin nor dense."""
        return self.by_class[MIDDLES[len(self.by_class)]]

    @property
    def deciding_level(self) -> int | None:
        """The last level that all classes share; None where density decides nothing."""
        differs = [len(set(shares)) > 1 for shares in zip(*self.by_class, strict=True)]
        return differs.index(True) - 1 if any(differs) else None

    def write(self) -> tuple[str, ...]:
        """Write the share of every level; those of thin, middle and dense squares with strokes between.

        That of a map with few records stands behind a colon.

        >>> half = (Fraction(1, 2), Fraction(1, 2))
        >>> LevelShares(by_class=(half,)).write(), LevelShares(by_class=(half,), few=half).write()
        (('1/2', '1/2'), ('1/2:1/2', '1/2:1/2'))
        """
        levels = zip(*self.by_class, strict=True)
        written = [BETWEEN_CLASSES.join(map(str, shares if len(set(shares)) > 1 else shares[:1])) for shares in levels]
        return tuple(map(BEFORE_FEW.join, zip(written, map(str, self.few), strict=True)) if self.few else written)


def read_shares(written: tuple[str, ...], layout: LeafLayout) -> LevelShares:
    """Read shares of levels: positive numbers that add up to 1; on a map also three for a level, by class."""
    levels = len(layout.sizes)
    split = [level.split(BEFORE_FEW) for level in written]
    try:
        parts = [tuple(Fraction(part) for part in level[0].split(BETWEEN_CLASSES)) for level in split]
        few = tuple(Fraction(part) for level in split for part in level[1:])
    except (ValueError, ZeroDivisionError):
        parts, few = [], ()
    known = {1, *DENSITY_BOUNDS} if isinstance(layout, SquareLayout) else {1}
    sizes = {len(part) for part in parts}
    is_fit = len(parts) == levels and sizes <= known and len(sizes - {1}) <= 1
    number = max(sizes, default=1)
    by_class = tuple(tuple(part[place % len(part)] for part in parts) for place in range(number)) if is_fit else ()
    is_fit &= all(sum(shares) == 1 and min(shares) > 0 for shares in (*by_class, *([few] if few else [])))
    is_fit &= not few or (number in THIN_CLASSES and [len(level) for level in split] == [2] * levels)
    if not is_fit or (number > 1 and len(parts[0]) > 1):
        raise ParameterError(
            "shares ({written}) must be {levels} positive numbers that add up to 1, from the largest sums to the cells;"
            " below the first level of a map there may be 3, 6 or 12, from thin to dense squares, as 1/4|1/8|1/50",
            written=", ".join(written),
            levels=levels,
        )
    return LevelShares(by_class=by_class, few=few)


def divide_by_density(layout: LeafLayout, shares: tuple[Fraction, ...]) -> LevelShares:
    """Divide what is left below the squares of the third level from the cells by their density, on a map that has one.

    Where cells are thin their own figures say little, and sums of some of them more; where they are dense every cell
    has something to say, and sums of few of them need no figure of their own. On large maps that are thin sums of a few
    squares say more than the squares, too.
    """
    is_map = isinstance(layout, SquareLayout) and len(layout.map_sides) >= 3 and not layout.has_own_sides
    if not isinstance(layout, SquareLayout) or not is_map or shares != layout.weights:
        return LevelShares(by_class=(shares,))
    if layout.usual_sides:
        return _divide_thin_maps(layout)
    level = len(layout.map_sides) - 2
    by_class = tuple(_give(shares, level, part) for part in layout.density_parts)
    if layout.has_thin_squares:
        by_class = tuple(_give(own, level - 1, part) for own, part in zip(by_class, LARGE_MAP_THIN, strict=True))
    return LevelShares(by_class=by_class)


def _divide_thin_maps(layout: SquareLayout) -> LevelShares:
    """The classes of maps that are not thin, then those of thin maps, and the shares of maps with few records."""
    usual, deciding = lay_out(layout.schema, layout.usual_sides), layout.deciding_side
    divided = divide_by_density(usual, usual.weights).by_class
    spread = tuple(spread_shares(own, usual.sides, layout.sides, deciding) for own in divided)
    thin = zip(spread, THIN_SIDES[deciding], strict=True)
    by_class = (*spread, *(own if side is None else _lead(layout, own, side) for own, side in thin))
    return LevelShares(by_class=by_class, few=_lead_few(layout))


def _lead_few(layout: SquareLayout) -> tuple[Fraction, ...]:
    """Give the deciding squares and those of twice their side nearly all; () where there are no such larger squares."""
    side = layout.deciding_side
    if 2 * side not in layout.map_sides:
        return ()
    own = {side: FEW_SHARE, 1: FEW_CELLS_SHARE}
    own[2 * side] = 1 - sum(own.values()) - LEAST_SHARE * (len(layout.map_sides) - 3)
    others = layout.weights[len(layout.map_sides) :]
    given = [own.get(side, LEAST_SHARE) * (1 - sum(others)) for side in layout.map_sides]
    return (*given, *others)


def _lead(layout: SquareLayout, shares: tuple[Fraction, ...], side: int) -> tuple[Fraction, ...]:
    """Give squares of one side nearly all below the deciding ones, the cells a little, other attributes their own."""
    place, cells = layout.sides.index(layout.deciding_side) + 1, layout.sides.index(1)
    given = [LEAST_SHARE] * (cells - place) + [THIN_CELLS_SHARE]
    lead = layout.sides.index(side) - place
    given[lead] += sum(shares[place : cells + 1], Fraction(0)) - sum(given)
    return (*shares[:place], *given, *shares[cells + 1 :])


def _give(shares: tuple[Fraction, ...], level: int, part: Fraction | None) -> tuple[Fraction, ...]:
    """Give a level this part of what it and the finer ones have together; these keep their proportions."""
    if part is None:
        return shares
    rest = sum(shares[level:], Fraction(0))
    finer = rest - shares[level]
    return (*shares[:level], rest * part, *(share * rest * (1 - part) / finer for share in shares[level + 1 :]))


@dataclass(frozen=True, kw_only=True)
class DensityRule:
    """How the noisy sums of the squares of a level decide on the noise below them: from thin to dense squares.

    `bounds` are records in a cell. `noises[c]` are those of a square of class c, from the level below `level` on. All
    classes cost the same, so that the promise does not depend on what is decided. A map with less than `thin_map`
    records a cell on the whole, which its total tells, has classes of its own, by `thin_bounds`, after the others. Of
    class c, levels are as good as not measured from the `faint[c]`-th below `level` on. With a `crowded_noise` the
    records beyond `crowd` of one cell of the map are counted first, and must be few in a thin map. A thin map with less
    than `few_records` in a square of the level on average has `few_noises` for all its levels, wherever people are.
    """

    level: int
    bounds: tuple[float, ...]
    noises: tuple[tuple[CountNoise, ...], ...]
    faint: tuple[int, ...] = ()
    thin_map: float = 0.0
    thin_bounds: tuple[float, ...] = ()
    crowded_noise: CountNoise | None = None
    crowd: int = 0
    few_records: float = 0.0
    few_noises: tuple[CountNoise, ...] = ()
    few_faint: int = 0

    def is_few(self, total: int, cells: Codes, crowded: int) -> bool:
        """Tell whether a map has few records, by the same numbers as `is_thin`."""
        bound = self.few_records * int((cells > 0).sum())
        return bool(self.few_noises) and total < bound and self.is_thin(total, cells, crowded)

    def is_thin(self, total: int, cells: Codes, crowded: int) -> bool:
        """Tell whether a map is thin, by its total, which is public or noisy, the possible cells of its squares, and
        the noisy number of crowded records.
        """
        is_spread = self.crowded_noise is None or LEAST_CROWDED * crowded < total
        return bool(self.thin_bounds) and max(total, 0) < self.thin_map * int(cells.sum()) and is_spread

    def classify(self, noisy: Integers, cells: Codes, *, total: int, crowded: int = 0) -> Codes:
        """Tell the class of every square of the level by its noisy sum and its possible cells, and by the whole map."""
        is_thin = self.is_thin(total, cells, crowded)
        bounds = self.thin_bounds if is_thin else self.bounds
        classes: Codes = np.searchsorted(np.array(bounds), noisy / np.maximum(cells, 1), side="right")
        return classes + len(self.bounds) + 1 if is_thin else classes

    def is_faint(self, level: int, number: int) -> bool:
        """Tell whether squares of a level are as good as not measured in a class."""
        return level > self.level and bool(self.faint) and level - self.level - 1 >= self.faint[number]


def can_be_thin(promise: DifferentialPrivacy) -> bool:
    """Tell whether a promise is so strong that maps can be thin."""
    return promise.amount <= (MOST_POINTS_RHO if promise.currency is RHO else MOST_POINTS_EPSILON)


def add_crowded(shares: LevelShares, promise: DifferentialPrivacy) -> LevelShares:
    """Put the share of the number of crowded records before those of the levels, where it is measured.

    It is where a map may be thin and noise may leave cells that stand out. Releases of an earlier version have classes
    of thin maps for stronger promises only.
    """
    is_strong = promise.amount <= (MOST_THIN_RHO if promise.currency is RHO else MOST_THIN_EPSILON)
    if is_strong or len(shares.by_class) not in THIN_CLASSES:
        return shares
    by_class = tuple((CROWDED_SHARE, *(share * (1 - CROWDED_SHARE) for share in own)) for own in shares.by_class)
    return LevelShares(by_class=by_class, has_crowded=True, few=shares.few)


def find_density_rule(shares: LevelShares, budget: CountBudget) -> DensityRule | None:
    """Give the noise below thin, middle and dense squares; None where density decides nothing."""
    level = shares.deciding_level
    if level is None:
        return None
    first, *every = level_parts_of(shares.middle, budget)
    parts, currency = tuple(every[level:]), budget.guarantee.currency
    rest = sum(parts, Fraction(0))
    plain = math.sqrt(budget.noise(budget.guarantee.amount).variance)
    by_class = shares.by_class
    bounds, thin_bounds, thin_map = (
        tuple(float(f"{bound * plain:.2g}") for bound in given)  # short: machines agree
        for given in (
            DENSITY_BOUNDS[len(by_class)],
            THIN_BOUNDS,
            (THIN_MAP_OF_POINTS if shares.has_crowded else THIN_MAP,),
        )
    )
    is_divided = len(by_class) in THIN_CLASSES
    divided = [
        parts
        if place == MIDDLES[len(by_class)]
        else tuple(rest * part for part in currency.reshare(whole_weights(own[level + 1 :])))
        for place, own in enumerate(by_class)
    ]
    few, levels = shares.few, sum((first, *every)[-len(shares.few) :], Fraction(0))
    few_parts = [levels * part for part in currency.reshare(whole_weights(few))] if few else []
    return DensityRule(
        level=level,
        bounds=bounds,
        noises=tuple(tuple(map(budget.noise, own)) for own in divided),
        faint=tuple(_find_faint(own[level + 1 :]) for own in by_class) if is_divided else (),
        thin_map=thin_map[0] if is_divided else 0.0,
        thin_bounds=thin_bounds if is_divided else (),
        crowded_noise=choose_noise(first, currency, cells=1, rows=budget.rows) if shares.has_crowded else None,
        crowd=max(1, round(CROWD * plain)),
        few_records=float(f"{FEW_RECORDS * plain:.2g}") if few else 0.0,
        few_noises=tuple(map(budget.noise, few_parts)),
        few_faint=_find_faint(few),
    )


def _find_faint(shares: tuple[Fraction, ...]) -> int:
    """Find the first level from which on all have next to nothing beside a larger one.

    >>> _find_faint((Fraction(3, 4), Fraction(1, 100), Fraction(3, 100))), _find_faint((Fraction(1, 4), Fraction(1, 2)))
    (1, 2)
    """
    for place in range(1, len(shares)):
        if FAINT * max(shares[place:]) < max(shares[:place]):
            return place
    return len(shares)
