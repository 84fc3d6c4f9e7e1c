"""Which sums of a table are measured, and how its cells are numbered below them.

A map has squares (`squares.py`). Any other table has the levels of its declared hierarchies, all attributes coming down
together (`tree.py`). Both number the cells as leaves of a tree, which is all that least squares needs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from math import lcm
from typing import Protocol

import numpy as np

from sudare.errors import ParameterError
from sudare.methods.budget import CountBudget, plan
from sudare.methods.table.squares import (
    FEW_CELLS_SHARE,
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
# A map has few records if the squares that decide hold less than the last of these on average, in deviations of plain
# noise. Below the first it is measured by larger squares, else by those that decide, if its records are not in few
# cells: that is told by the number of crowded records as above, but measured with a twentieth, of those beyond so many
# of one cell (in deviations of plain noise, and at least four). It is asked only where there are so many records as six
# deviations of its noise. A map whose records are in few cells has the classes of thin maps below the first bound, of
# others above. Releases of an earlier version have one set of shares and one bound. Chosen at epsilon 1/10, on 160 x
# 160 cells of a mesh and 256 x 256 in x and y, on samples of 200 to 24,000 places of France, Italy, Spain, Romania,
# Poland, Germany and the US (0 to 0.13 crowded) and of people of Romania, Hungary, Finland and Greece (0.2 to 0.85).
FEW_BOUNDS: dict[int, tuple[float, ...]] = {0: (), 1: (4.0,), 2: (1.8, 4.0)}  # by the number of sets of shares
FEW_CROWDED_SHARE, FEW_CROWD, LEAST_FEW_CROWD = Fraction(1, 20), 0.15, 4
LEAST_FEW_CROWDED, LEAST_FEW_TOTAL = 4, 6.0
FEW_CROWDED = 2  # the place behind those of the bounds: records in few cells
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
    tells that the first is that of the number of crowded records. `few` are those of maps with few records: with the
    fewest, then with more; or one set for all of these.
    """

    by_class: tuple[tuple[Fraction, ...], ...]
    has_crowded: bool = False
    few: tuple[tuple[Fraction, ...], ...] = ()

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

        Those of maps with few records stand behind colons.

        >>> half = (Fraction(1, 2), Fraction(1, 2))
        >>> LevelShares(by_class=(half,)).write(), LevelShares(by_class=(half,), few=(half,)).write()
        (('1/2', '1/2'), ('1/2:1/2', '1/2:1/2'))
        """
        levels = zip(*self.by_class, strict=True)
        written = [BETWEEN_CLASSES.join(map(str, shares if len(set(shares)) > 1 else shares[:1])) for shares in levels]
        return tuple(map(BEFORE_FEW.join, zip(written, *(map(str, own) for own in self.few), strict=True)))


def read_shares(written: tuple[str, ...], layout: LeafLayout) -> LevelShares:
    """Read shares of levels: positive numbers that add up to 1; on a map also three for a level, by class."""
    levels = len(layout.sizes)
    split = [level.split(BEFORE_FEW) for level in written]
    try:
        parts = [tuple(Fraction(part) for part in level[0].split(BETWEEN_CLASSES)) for level in split]
        few = tuple(zip(*(map(Fraction, level[1:]) for level in split), strict=True))
    except (ValueError, ZeroDivisionError):
        parts, few = [], ()
    known = {1, *DENSITY_BOUNDS} if isinstance(layout, SquareLayout) else {1}
    sizes = {len(part) for part in parts}
    is_fit = len(parts) == levels and sizes <= known and len(sizes - {1}) <= 1
    number = max(sizes, default=1)
    by_class = tuple(tuple(part[place % len(part)] for part in parts) for place in range(number)) if is_fit else ()
    is_fit &= all(sum(shares) == 1 and min(shares) > 0 for shares in (*by_class, *few))
    is_fit &= not few or (number in THIN_CLASSES and len(few) in FEW_BOUNDS)
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
    if 2 * deciding not in layout.map_sides:
        return LevelShares(by_class=by_class)
    return LevelShares(by_class=by_class, few=tuple(_lead_few(layout, side) for side in (2 * deciding, deciding)))


def _lead_few(layout: SquareLayout, side: int) -> tuple[Fraction, ...]:
    """Give squares of one side nearly all, cells a little, other squares the least; other attributes keep their own."""
    own = {1: FEW_CELLS_SHARE, side: 1 - FEW_CELLS_SHARE - LEAST_SHARE * (len(layout.map_sides) - 2)}
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
    records beyond `crowd` of one cell of the map are counted first, and must be few in a thin map.

    A map with less than `few_bounds[i]` in a square of the level on average has `few_noises[i]` for all its levels,
    wherever people are; from level `few_faint[i]` on squares are as good as not measured. There the records beyond
    `few_crowd` are counted instead, with `few_crowded_noise`. Where these are not few the map has the last of
    `few_noises`, and those of `few_classes` below the level: as `noises`, but for that count.
    """

    level: int
    bounds: tuple[float, ...]
    noises: tuple[tuple[CountNoise, ...], ...]
    faint: tuple[int, ...] = ()
    thin_map: float = 0.0
    thin_bounds: tuple[float, ...] = ()
    crowded_noise: CountNoise | None = None
    crowd: int = 0
    few_bounds: tuple[float, ...] = ()
    few_noises: tuple[tuple[CountNoise, ...], ...] = ()
    few_faint: tuple[int, ...] = ()
    few_classes: tuple[tuple[CountNoise, ...], ...] = ()
    few_crowded_noise: CountNoise | None = None
    few_crowd: int = 0

    @property
    def every_noise(self) -> tuple[CountNoise, ...]:
        """The noises of all classes and of maps with few records."""
        return tuple(noise for own in (*self.noises, *self.few_noises, *self.few_classes) for noise in own)

    def _below(self, total: int, cells: Codes) -> int:
        """The first bound of few records that a map is below; as many as there are where it is below none."""
        if not max(total, 0) < self.thin_map * int(cells.sum()):
            return len(self.few_bounds)
        squares = int((cells > 0).sum())
        return next(
            (place for place, bound in enumerate(self.few_bounds) if total < bound * squares), len(self.few_bounds)
        )

    def choose_crowd(self, total: int, cells: Codes) -> tuple[CountNoise, int] | None:
        """Choose the noise of the number of crowded records and from which one of a cell on they are; None: not told.

        The total is public or noisy, and `cells` are the possible ones of every square.
        """
        if self.few_crowded_noise is not None and self._below(total, cells) < len(self.few_bounds):
            return self.few_crowded_noise, self.few_crowd
        return None if self.crowded_noise is None else (self.crowded_noise, self.crowd)

    def find_few(self, total: int, cells: Codes, crowded: int) -> int | None:
        """Find the place in `few_noises` of a map with few records, by the same numbers as `is_thin`; else None."""
        below = self._below(total, cells)
        if below == len(self.few_bounds):
            return None
        if self._is_spread(total, cells, crowded):
            return below
        return FEW_CROWDED if self.few_classes else None

    def _is_spread(self, total: int, cells: Codes, crowded: int) -> bool:
        chosen = self.choose_crowd(total, cells)
        if chosen is None or self.few_crowded_noise is None or chosen[0] is not self.few_crowded_noise:
            return chosen is None or LEAST_CROWDED * crowded < total
        is_noise = total < LEAST_FEW_TOTAL * math.sqrt(self.few_crowded_noise.variance)
        return is_noise or LEAST_FEW_CROWDED * crowded < total

    def is_thin(self, total: int, cells: Codes, crowded: int) -> bool:
        """Tell whether a map is thin, by its total, which is public or noisy, the possible cells of its squares, and
        the noisy number of crowded records.
        """
        is_low = bool(self.thin_bounds) and max(total, 0) < self.thin_map * int(cells.sum())
        is_fewest = bool(self.few_classes) and self._below(total, cells) == 0
        return is_low and (is_fewest or self._is_spread(total, cells, crowded))

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
    rule = DensityRule(
        level=level,
        bounds=bounds,
        noises=tuple(tuple(map(budget.noise, own)) for own in divided),
        faint=tuple(_find_faint(own[level + 1 :]) for own in by_class) if is_divided else (),
        thin_map=thin_map[0] if is_divided else 0.0,
        thin_bounds=thin_bounds if is_divided else (),
        crowded_noise=choose_noise(first, currency, cells=1, rows=budget.rows) if shares.has_crowded else None,
        crowd=max(1, round(CROWD * plain)),
    )
    return _add_few(rule, shares, budget, divided) if shares.few else rule


def _add_few(
    rule: DensityRule, shares: LevelShares, budget: CountBudget, divided: Sequence[tuple[Fraction, ...]]
) -> DensityRule:
    """Add the noise of maps with few records: what all levels and the number of crowded records have together.

    With one set of shares, of an earlier version, that number keeps its own part. `divided` are the parts of classes.
    """
    currency, every = budget.guarantee.currency, level_parts_of(shares.middle, budget)
    plain = math.sqrt(budget.noise(budget.guarantee.amount).variance)
    bounds, parts = FEW_BOUNDS[len(shares.few)], every[-len(shares.few[0]) :]
    is_earlier, levels = len(bounds) == 1, sum(parts, Fraction(0))
    whole = levels + (every[0] if shares.has_crowded and not is_earlier else 0)
    crowded, rest = currency.reshare(whole_weights((FEW_CROWDED_SHARE, 1 - FEW_CROWDED_SHARE)))
    left = levels if is_earlier else whole * rest

    def noises_of(own: Iterable[Fraction], part: Fraction) -> tuple[CountNoise, ...]:
        return tuple(budget.noise(share * part) for share in own)

    noises = [noises_of(currency.reshare(whole_weights(own)), left) for own in shares.few]
    return replace(
        rule,
        few_bounds=tuple(float(f"{bound * plain:.2g}") for bound in bounds),
        few_noises=tuple(noises) if is_earlier else (*noises, noises_of(parts, left / levels)),
        few_faint=tuple(map(_find_faint, shares.few)),
        few_classes=() if is_earlier else tuple(noises_of(own, left / levels) for own in divided),
        few_crowded_noise=None if is_earlier else choose_noise(whole * crowded, currency, cells=1, rows=budget.rows),
        few_crowd=max(LEAST_FEW_CROWD, round(FEW_CROWD * plain)),
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
