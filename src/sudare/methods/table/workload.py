"""What a table will be asked, and the shares of the promise that serve it best.

The variance of an unbiased answer on a regular tree is exact before anything is measured: with |P_l q|^2 what of a
question q lies between level l and the level above it, and b_l the cells of a node of level l,

    Var(q) = sum over l of |P_l q|^2 / lambda_l,      lambda_l = sum over levels j >= l of b_j / variance_j

The shares make the geometric mean over the parts of a workload least, so that no part is given up for another.
Source: the idea of Li, Hay, Miklau et al. 2015 (a strategy for a workload), for weights of a regular tree.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from pathlib import Path

import numpy as np

from sudare.errors import ParameterError
from sudare.methods.table.levels import LeafLayout, LevelShares
from sudare.methods.table.squares import SquareLayout, find_level_sides, find_longest, find_mesh_sides
from sudare.noise import SeededRng
from sudare.noise.uniform import draw_below
from sudare.schema import Schema
from sudare.schema.arrays import Codes, Integers, Reals

MIX = "mix"  # cells, squares of all sizes, irregular regions, rectangles, in equal parts: has measured shares
KINDS = ("cells", "squares", "regions", "rectangles")
REGION_CELLS = (64, 640)  # of irregular regions
QUESTIONS, LEAST_QUESTIONS = 24, 4  # of every part
MOST_LISTED = 2**18  # cells of all questions of a part
LEAST_SHARE = 0.02  # of a level: what is not measured at all could not be told apart
SHARE_PARTS = 1000  # shares are rounded to so many parts, which are short to write
SEARCH_ROUNDS = 400
MIX_WEIGHT = 3  # items beside the mix that count as much as the mix itself
MOST_REGIONS = 10_000
MOST_SIDE = 10**6


@dataclass(frozen=True, kw_only=True, eq=False)
class Questions:
    """A part of a workload: sets of leaves, with the number of the set that each belongs to."""

    leaves: Codes
    numbers: Codes


def choose_shares(workload: str, layout: LeafLayout) -> tuple[Fraction, ...]:
    """Choose the shares of the levels of a layout for a workload, as written by the steward."""
    items = read_items(workload, layout)
    has_own_sides = isinstance(layout, SquareLayout) and layout.has_own_sides
    if (items == [MIX] and not has_own_sides) or len(layout.sizes) == 1:
        return layout.weights
    return _choose(tuple(items), layout) if not any(map(_is_file, items)) else _choose.__wrapped__(tuple(items), layout)


@lru_cache(maxsize=16)
def _choose(items: tuple[str, ...], layout: LeafLayout) -> tuple[Fraction, ...]:
    energies = [measure_energy(part, layout) for item in items for part in list_questions(item, layout)]
    best = _search(energies, layout)
    whole = [max(1, round(share * SHARE_PARTS)) for share in best]
    return tuple(Fraction(part, sum(whole)) for part in whole)


def join_mix(workload: str, layout: SquareLayout, usual: LevelShares, sides: tuple[int, ...]) -> LevelShares:
    """Choose shares for a workload that asks for the mix and more: between those of the mix and those of the rest.

    `usual` are the measured shares of the mix, by density, for squares of these sides and, last, other attributes;
    sides that only the rest asks for have nothing in them. So the classes of density stay, and other attributes keep
    most of their part. The rest gets a quarter, two items two fifths, three a half.
    """
    named = [item for item in read_items(workload, layout) if item != MIX]
    rest, given = choose_shares(",".join(named), layout), Fraction(len(named), len(named) + MIX_WEIGHT)
    places = [sides.index(side) if side in sides else None for side in layout.sides]
    mix = [tuple(Fraction(0) if place is None else own[place] for place in places) for own in usual.by_class]
    joined = [tuple((1 - given) * part + given * more for part, more in zip(own, rest, strict=True)) for own in mix]
    return LevelShares(by_class=tuple(joined))


def read_items(workload: str, layout: LeafLayout) -> list[str]:
    """Split a workload: kinds, sides of squares in cells, levels of hierarchies, or files of regions."""
    items = [item.strip() for item in workload.split(",") if item.strip()]
    if not items:
        raise ParameterError("workload is empty; give mix, or some of {kinds}", kinds=", ".join(KINDS))
    on_map = isinstance(layout, SquareLayout)
    for item in items:
        is_side = on_map and item.isascii() and item.isdigit() and 1 <= int(item) <= MOST_SIDE
        if item == MIX or item in (KINDS if on_map else KINDS[:1]) or is_side or _is_file(item) or ":" in item:
            continue
        raise ParameterError(
            "workload ({item}) must be mix, or list some of {kinds}, sides of squares in cells such as 8, levels of an"
            " attribute such as mesh:1, or CSV files of regions; squares, regions and rectangles need a map",
            item=item,
            kinds=", ".join(KINDS),
        )
    return items


def add_sides(workload: str, sides: tuple[int, ...], longest: int | None = None) -> tuple[int, ...]:
    """Measure squares of the sides that a workload names too, as far as all sides divide each other.

    Where it asks for more than squares and cells, the sides of the map come first. `longest` is the longest side that
    is taken, twice the largest of the map if left out.

    >>> add_sides("cells,8", (64, 16, 4, 1)), add_sides("20", (64, 16, 4, 1)), add_sides("20,mix", (64, 16, 4, 1))
    ((64, 16, 8, 4, 1), (20, 4, 1), (64, 16, 4, 1))
    """
    items = [item.strip() for item in workload.split(",")]
    named = [int(item) for item in items if item.isascii() and item.isdigit() and len(item) < 8]
    is_plain = len(named) + items.count("cells") == len(items)
    kept: list[int] = []
    most = 2 * sides[0] if longest is None else longest
    for side in (*named, *sides) if is_plain else (*sides, *named):
        is_new = 1 <= side <= most and side not in kept
        if is_new and all(max(side, other) % min(side, other) == 0 for other in kept):
            kept.append(side)
    return tuple(sorted({*kept, 1}, reverse=True))


def add_mesh_sides(workload: str, schema: Schema) -> tuple[int, ...] | None:
    """The sides of squares of a mesh where a workload names others than the usual ones; else None."""
    usual, levels = find_mesh_sides(schema), find_level_sides(schema)
    named = ",".join(str(levels.get(item.strip(), item)) for item in workload.split(","))
    sides = add_sides(named, usual, find_longest(schema)) if usual else ()
    return sides if sides != usual else None


def _is_file(item: str) -> bool:
    return item.lower().endswith(".csv")


def list_questions(item: str, layout: LeafLayout) -> list[Questions]:
    """Draw the questions that an item of a workload stands for, one part for each kind of them."""
    if _is_file(item):
        return [read_regions(Path(item), layout)]
    if ":" in item:
        return [draw_groups(item, layout)]
    if not isinstance(layout, SquareLayout):
        return [draw_cells(layout)]  # cells, or the mix of a table without a map: its levels are kept apart
    if item == MIX:
        return [part for kind in KINDS for part in list_questions(kind, layout)]
    height, width = int(layout.rows.max()) + 1, int(layout.columns_east.max()) + 1
    if item == "squares":
        sides = [2**power for power in range(1, 20) if 2 ** (power + 1) <= max(height, width)]
        return [draw_squares(layout, side) for side in sides]
    if item == "regions":
        return [draw_discs(layout, cells) for cells in REGION_CELLS]
    if item == "rectangles":
        return [draw_boxes(layout, max(1, height // 3), max(1, width // 3))]
    return [draw_cells(layout) if item == "cells" else draw_squares(layout, int(item))]


# --- questions ------------------------------------------------------------------------------------------------------


def draw_cells(layout: LeafLayout) -> Questions:
    """Draw single cells; the same ones every time."""
    possible = np.flatnonzero(layout.is_possible)
    chosen = draw_below(possible.size, QUESTIONS, rng=SeededRng(1))
    return Questions(leaves=possible[chosen], numbers=np.arange(QUESTIONS))


def draw_nodes(layout: LeafLayout, level: int) -> Questions:
    """Draw groups of a level that is measured; the same ones every time."""
    possible = np.flatnonzero(layout.is_possible)
    node = possible
    for below in range(len(layout.sizes) - 1, level, -1):
        node = layout.parents[below][node]
    held = np.flatnonzero(layout.possible_cells[level] > 0)
    return _among(possible, node, held[:: max(1, len(held) // QUESTIONS)])


def draw_groups(item: str, layout: LeafLayout) -> Questions:
    """Draw groups of a declared level, written as attribute:level."""
    name, _, written = item.rpartition(":")
    schema = layout.schema
    known = [each for each in schema.attributes if each.name == name and each.hierarchy is not None]
    level = int(written) if written.isascii() and written.isdigit() else 0
    if not known or not 1 <= level <= known[0].height:
        raise ParameterError(
            "workload ({item}) must name an attribute with declared groups and a level of them, such as mesh:1",
            item=item,
        )
    hierarchy, position = known[0].hierarchy, schema.names.index(name)
    if hierarchy is None:
        raise AssertionError("the attribute has groups")
    possible = np.flatnonzero(layout.is_possible)
    groups = hierarchy.lift(layout.columns(possible)[:, position], level)
    chosen = np.unique(groups)
    return _among(possible, groups, chosen[:: max(1, len(chosen) // QUESTIONS)])


def _among(leaves: Codes, groups: Codes, chosen: Codes) -> Questions:
    """Take the leaves of the chosen groups, which are listed in rising order."""
    place = np.searchsorted(chosen, groups)
    inside = chosen[np.minimum(place, len(chosen) - 1)] == groups
    return Questions(leaves=leaves[inside], numbers=place[inside])


def draw_squares(layout: SquareLayout, side: int) -> Questions:
    """Draw squares of a grid of this side; the same ones every time."""

    def find(row: int, column: int) -> Codes:
        top, left = row // side * side, column // side * side
        return layout.find_places(range(top, top + side), range(left, left + side))

    return _draw(layout, find, cells=side * side)


def draw_boxes(layout: SquareLayout, height: int, width: int) -> Questions:
    """Draw boxes anywhere on the map, not along its squares; the same ones every time."""

    def find(row: int, column: int) -> Codes:
        top, left = row - height // 2, column - width // 2
        return layout.find_places(range(top, top + height), range(left, left + width))

    return _draw(layout, find, cells=height * width)


def draw_discs(layout: SquareLayout, cells: int) -> Questions:
    """Draw discs of about so many cells anywhere on the map: round regions have edges as irregular ones have."""
    reach = math.isqrt(cells) + 1

    def find(row: int, column: int) -> Codes:
        box = layout.find_places(range(row - reach, row + reach + 1), range(column - reach, column + reach + 1))
        away = (layout.rows[box] - row) ** 2 + (layout.columns_east[box] - column) ** 2
        return box[away <= cells / math.pi]

    return _draw(layout, find, cells=cells)


def _draw(layout: SquareLayout, find: Callable[[int, int], Codes], *, cells: int) -> Questions:
    """Draw regions around cells of the map, fewer of them where they are large."""
    number = max(LEAST_QUESTIONS, min(QUESTIONS, MOST_LISTED // max(1, cells)))
    centres = draw_below(len(layout.rows), number, rng=SeededRng(1))
    found = [find(int(layout.rows[centre]), int(layout.columns_east[centre])) for centre in centres.tolist()]
    numbers = np.repeat(np.arange(len(found)), [places.size for places in found])
    return _all_below(layout, np.concatenate(found), numbers)


def _all_below(layout: SquareLayout, places: Codes, numbers: Codes) -> Questions:
    """Take cells of the map with all other attributes, as far as they are possible."""
    leaves = (layout.leaf_of_place[places][:, None] * layout.combinations + np.arange(layout.combinations)).ravel()
    repeated, inside = np.repeat(numbers, layout.combinations), layout.is_possible[leaves]
    return Questions(leaves=leaves[inside], numbers=repeated[inside])


def read_regions(path: Path, layout: LeafLayout) -> Questions:
    """Read regions from a CSV file: a column `region`, and attributes with the labels of its cells."""
    positions = layout.space if isinstance(layout, SquareLayout) else range(len(layout.schema.attributes))
    attributes = [layout.schema.attributes[position] for position in positions]
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            lines = list(csv.DictReader(stream))
    except (OSError, UnicodeDecodeError):
        raise ParameterError("workload ({path}) cannot be read; give a CSV file in UTF-8", path=path) from None
    wanted = ("region", *(attribute.name for attribute in attributes))
    if not lines or any(name not in lines[0] for name in wanted):
        raise ParameterError("workload ({path}) must have the columns {names}", path=path, names=", ".join(wanted))
    names: dict[str, int] = {}
    places, numbers = [], []
    for line in lines:
        number = names.setdefault(str(line["region"]), len(names))
        spans = [attribute.codes(line[attribute.name]) for attribute in attributes]
        cells = _join_spans(spans, [attribute.size for attribute in attributes])
        places.append(cells)
        numbers.append(np.full(cells.size, number))
    if len(names) > MOST_REGIONS:
        raise ParameterError("workload ({path}) names more than {most} regions", path=path, most=MOST_REGIONS)
    listed, sets = np.concatenate(places), np.concatenate(numbers)
    if isinstance(layout, SquareLayout):
        return _all_below(layout, listed, sets)
    columns = np.column_stack(np.unravel_index(listed, [attribute.size for attribute in attributes]))
    return Questions(leaves=layout.leaves(columns), numbers=sets)


def _join_spans(spans: Sequence[range], sizes: Sequence[int]) -> Integers:
    cells = np.zeros(1, dtype=np.int64)
    for span, size in zip(spans, sizes, strict=True):
        cells = (cells[:, None] * size + np.arange(span.start, span.stop)).ravel()
    return cells


# --- shares ---------------------------------------------------------------------------------------------------------


def measure_energy(questions: Questions, layout: LeafLayout) -> Reals:
    """Give the mean of |P_l q|^2 over questions, by level."""
    size = int(questions.numbers.max()) + 1
    cells = np.bincount(questions.numbers, minlength=size).astype(np.float64)
    before = float(np.mean(cells**2)) / int(layout.possible_cells[-1].sum())
    node, number = questions.leaves, questions.numbers
    held: Reals = np.ones(questions.leaves.size)
    found = []
    for level in range(len(layout.sizes) - 1, -1, -1):
        width = layout.sizes[level]
        keys, where = np.unique(number * width + node, return_inverse=True)
        held = np.bincount(where, weights=held).astype(np.float64, copy=False)
        number, node = np.divmod(keys, width)
        found.append(float((held**2 / np.maximum(layout.possible_cells[level][node], 1)).sum()) / size)
        node = layout.parents[level][node]
    energy: Reals = np.maximum(np.diff([before, *found[::-1]]), 0.0)
    return energy


def standard_errors(energies: Sequence[Reals], layout: LeafLayout, variances: Sequence[float] | Reals) -> Reals:
    """Give the root mean variance of the unbiased answers to every set of questions; exact on a regular tree."""
    inside = np.array([cells.sum() / max(1, int((cells > 0).sum())) for cells in layout.possible_cells])
    rates = np.cumsum((inside / np.asarray(variances))[::-1])[::-1]
    found: Reals = np.sqrt((np.asarray(energies) / rates).sum(axis=1))
    return found


def _search(energies: list[Reals], layout: LeafLayout) -> list[float]:
    """Find shares by steps up and down, level by level, ever smaller: the problem is small and smooth."""
    levels = len(layout.sizes)

    def cost(shares: Reals) -> float:
        return float(np.log(standard_errors(energies, layout, 1 / shares**2)).mean())

    best = np.full(levels, 1 / levels)
    value, step = cost(best), 0.5
    for _ in range(SEARCH_ROUNDS):
        tried = [
            best * np.exp(sign * step * (np.arange(levels) == level)) for level in range(levels) for sign in (-1, 1)
        ]
        tried = [np.maximum(shares / shares.sum(), LEAST_SHARE) for shares in tried]
        tried = [shares / shares.sum() for shares in tried]
        costs = [cost(shares) for shares in tried]
        lowest = int(np.argmin(costs))
        if costs[lowest] < value - 1e-9:
            best, value = tried[lowest], costs[lowest]
        else:
            step /= 2
            if step < 0.005:
                break
    return [float(share) for share in best]
