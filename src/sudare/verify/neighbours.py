"""Random neighbouring tables over a schema: for every unit of privacy and both relations.

Tables are of many shapes, because faults hide in some: empty ones, one heavy cell, thin ones, crowded ones. The unit
that differs has up to its most rows, all in one cell or anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeVar

import numpy as np

from sudare.counts import Counts
from sudare.noise import SeededRng
from sudare.noise.uniform import draw_below
from sudare.privacy import Neighbours
from sudare.schema import Areas, Attribute, Impossible, NumberBins, Schema, TableHierarchy, Unit, Values

Item = TypeVar("Item")

# (cells that are filled, of which some coincide; the most records of one of them)
SHAPES = ((0, 1), (0, 1), (1, 1), (1, 10**5), (3, 40), (3, 10**4), (30, 1), (30, 1000), (300, 1), (300, 4), (300, 40))
CROWDED = ((300, 1000),)  # so many people in most bins that they stand out of all noise
FEW_HEAVY = ((12, 40_000),)  # so few kinds of people that all attributes depend on all others, not on a neighbour alone
MOST_TRIES = 1000  # cells that are proposed until one is possible
UNITS = (Unit(), *(Unit(kind="person", column="person", max_rows=rows) for rows in (2, 5)))


class Dice:
    """Repeatable choices for tests.

    >>> Dice(1).choose(["a"])
    'a'
    """

    def __init__(self, seed: int) -> None:
        self._rng = SeededRng(seed)

    def number(self, bound: int) -> int:
        """Choose a number of range(bound)."""
        return int(draw_below(bound, 1, rng=self._rng)[0])

    def choose(self, items: Sequence[Item]) -> Item:
        """Choose one of some things."""
        return items[self.number(len(items))]


def make_schema(dice: Dice, unit: Unit) -> Schema:
    """Make a small schema: one to three attributes of several kinds, at times with an impossible combination."""
    attributes = tuple(_make_attribute(dice, f"a{place}") for place in range(dice.choose((1, 2, 2, 3))))
    impossible: tuple[Impossible, ...] = ()
    if len(attributes) > 1 and dice.number(4) == 0:
        impossible = (Impossible(tuple((one.name, frozenset({0})) for one in attributes[:2])),)
    return Schema(name="replayed", unit=unit, attributes=attributes, impossible=impossible)


def _make_attribute(dice: Dice, name: str) -> Attribute:
    kind, size = dice.choose(("category", "number", "hierarchy")), dice.choose((2, 3, 5, 12))
    if kind == "number":
        return Attribute(name=name, domain=NumberBins.of_width(0, size, 1))
    values = tuple(f"v{code}" for code in range(size))
    if kind == "category":
        return Attribute(name=name, domain=Values(values))
    paths = [(value, f"group {code % 2}", "*") for code, value in enumerate(values)]
    return Attribute(name=name, domain=Values(values), hierarchy=TableHierarchy.from_paths(paths))


def make_map_schema(unit: Unit, columns: int = 100) -> Schema:
    """Make a schema of two lines of values: a map, squares of which a table measures; it can be thin."""
    sides = enumerate((11, columns))
    attributes = tuple(Attribute(name=f"a{at}", domain=NumberBins.of_width(0, size, 1)) for at, size in sides)
    return Schema(name="replayed", unit=unit, attributes=attributes)


def make_area_schema(unit: Unit) -> Schema:
    """Make a map with two divisions of areas that overlap; one of them splits cells."""
    plain = make_map_schema(unit, columns=64)
    size = plain.size
    towns = Areas(
        attributes=plain.names,
        levels=("town", "province"),
        rule="largest",
        size=size,
        units=(("a", "north"), ("b", "north"), ("c", "south")),
        runs=(((0, 99),), ((100, 219),), ((220, size - 21),)),
    )
    schools = Areas(
        attributes=("a1",),
        levels=("school",),
        rule="split",
        size=plain.sizes[1],
        units=(("east",), ("west",)),
        runs=(((0, 9),), ((11, plain.sizes[1] - 1),)),
        split=((10, 0, Fraction(1, 2)), (10, 1, Fraction(1, 2))),
    )
    return plain.with_areas(towns, schools)


def make_huge_schema(dice: Dice, unit: Unit) -> Schema:
    """Make a schema beyond every table that is held whole: 2**25 cells or so, of which nearly all are empty."""
    sizes = dice.choose(((6000, 6000), (40, 1000, 900)))
    attributes = tuple(
        Attribute(name=f"a{place}", domain=NumberBins.of_width(0, size, 1)) for place, size in enumerate(sizes)
    )
    return Schema(name="replayed", unit=unit, attributes=attributes)


def make_fine_schema(unit: Unit) -> Schema:
    """Make a schema with long bins of whole numbers, which views cut where many people are."""
    x, y = NumberBins.of_width(0, 1000, 10), NumberBins.of_width(0, 3, 1)
    attributes = (Attribute(name="a0", domain=x), Attribute(name="a1", domain=y))
    return Schema(name="replayed", unit=unit, attributes=attributes)


def make_wide_schema(unit: Unit) -> Schema:
    """Make a schema of nine attributes: so many that a view may measure all of their pairs at once."""
    attributes = tuple(Attribute(name=f"a{at}", domain=NumberBins.of_width(0, 3, 1)) for at in range(9))
    return Schema(name="replayed", unit=unit, attributes=attributes)


@dataclass(frozen=True, kw_only=True)
class CrowdedTables:
    """Crowded tables over a schema of their own, on which methods take steps that they seldom take on others."""

    make_schema: Callable[[Unit], Schema]
    shapes: Sequence[tuple[int, int]]
    is_far: bool = False


FINE = CrowdedTables(make_schema=make_fine_schema, shapes=CROWDED)
WIDE = CrowdedTables(make_schema=make_wide_schema, shapes=FEW_HEAVY, is_far=True)


@dataclass(frozen=True, kw_only=True)
class TablePair:
    """Two neighbouring tables."""

    first: Counts
    second: Counts

    def padded(self) -> TablePair:
        """Give the same tables, both with the cells of the other stored too, at a count of 0."""
        return TablePair(first=_pad(self.first, self.second), second=_pad(self.second, self.first))


def make_pair(
    dice: Dice,
    schema: Schema,
    relation: Neighbours,
    *,
    shapes: Sequence[tuple[int, int]] = SHAPES,
    is_far: bool = False,
) -> TablePair:
    """Draw a table of one of the shapes and a neighbour of it.

    `is_far`: the unit that differs has all its rows in one cell, and if replaced in one that has no value with it in
    common. Then every measurement of a pair or an attribute loses as much as it can.
    """
    base = _make_base(dice, schema, dice.choose(shapes))
    one, other = _make_far(dice, schema) if is_far else [_make_unit(dice, schema, base) for _ in range(2)]
    if relation == "replace":
        sides = [_with_rows(base, one), _with_rows(base, other)]
    else:
        sides = [base, _with_rows(base, one)]
        if dice.number(2):
            sides.reverse()
    first, second = (_count(schema, side) for side in sides)
    return TablePair(first=first, second=second)


def _make_base(dice: Dice, schema: Schema, shape: tuple[int, int]) -> dict[tuple[int, ...], int]:
    base: dict[tuple[int, ...], int] = {}
    cells, heaviest = shape
    for _ in range(cells):
        cell = _make_cell(dice, schema)
        base[cell] = base.get(cell, 0) + 1 + dice.number(heaviest)
    return base


def _make_unit(dice: Dice, schema: Schema, base: dict[tuple[int, ...], int]) -> list[tuple[int, ...]]:
    """The rows of one unit: in one cell (at times one that holds others too), or anywhere."""
    most = schema.unit.max_rows if schema.unit.kind == "person" else 1
    rows = dice.choose((1, most, 1 + dice.number(most)))
    if base and dice.number(3) == 0:
        return [dice.choose(list(base))] * rows
    if dice.number(2):
        return [_make_cell(dice, schema)] * rows
    return [_make_cell(dice, schema) for _ in range(rows)]


def _make_far(dice: Dice, schema: Schema) -> list[list[tuple[int, ...]]]:
    """The rows of a unit and of another: all in one cell, and all in one that differs in every attribute."""
    rows = schema.unit.max_rows if schema.unit.kind == "person" else 1
    cell = _make_cell(dice, schema)
    return [[cell] * rows, [tuple((code + 1) % size for code, size in zip(cell, schema.sizes, strict=True))] * rows]


def _make_cell(dice: Dice, schema: Schema) -> tuple[int, ...]:
    for _ in range(MOST_TRIES):
        cell = tuple(dice.number(size) for size in schema.sizes)
        if not schema.impossible or not bool(schema.is_impossible(np.array([cell]))[0]):
            return cell
    raise AssertionError("nearly every cell is impossible")


def _with_rows(table: dict[tuple[int, ...], int], rows: list[tuple[int, ...]]) -> dict[tuple[int, ...], int]:
    more = dict(table)
    for cell in rows:
        more[cell] = more.get(cell, 0) + 1
    return more


def _count(schema: Schema, table: dict[tuple[int, ...], int]) -> Counts:
    cells = np.array(list(table), dtype=np.int64).reshape(-1, len(schema.sizes))
    return Counts.from_columns(schema, cells, np.array(list(table.values()), dtype=np.int64))


def _pad(table: Counts, other: Counts) -> Counts:
    """Store the cells of another table too; `Counts.build` would drop their zeros."""
    codes = np.concatenate([table.codes, other.codes])
    values = np.concatenate([table.values, np.zeros(other.nonzero, dtype=np.int64)])
    order = np.lexsort((-values, *codes.T[::-1]))
    codes, values = codes[order], values[order]
    is_first = np.ones(len(codes), dtype=bool)
    is_first[1:] = (codes[1:] != codes[:-1]).any(axis=1)
    return Counts(table.schema, codes[is_first], values[is_first], table.total)
