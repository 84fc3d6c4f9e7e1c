"""Administrative areas: which municipality, prefecture or school district the cells of a table lie in.

Areas are public facts of a table, declared beside its attributes. Every cell of one attribute (a mesh cell, a value),
or of two (x and y), lies in an area of each level. Levels need not nest, and a schema may have several such divisions
that overlap. Cells on a border are given to their areas by a declared rule:

    largest   the whole cell to the area with the largest share of it, the first of equal ones
    centre    the whole cell to the area in which its centre lies (polygons only)
    split     every area counts its share of the cell: people are taken to lie evenly in it
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sudare.errors import ParameterError, SchemaError
from sudare.schema.arrays import Codes, Reals
from sudare.schema.attribute import Attribute
from sudare.text import Text

if TYPE_CHECKING:
    from sudare.schema.schema import Schema

NO_AREA = "(none)"
RULES = ("largest", "centre", "split")
RESERVED = ("count", "unbiased", "margin", "share", "level", "area", "attribute", "group")
MOST_UNITS = 100_000


class AreaPieces(NamedTuple):
    """The pieces of cells that lie in one area of every level: the cell, the unit, and its share of the cell."""

    cells: Codes
    units: Codes
    shares: Reals


@dataclass(frozen=True, kw_only=True, eq=False)
class Areas:
    """A division of the cells of some attributes.

    `units` are the combinations of areas that occur, one name for each level; `runs[u]` the cells that lie wholly in
    unit u, as runs (first, last); `split` the cells that are shared, as (cell, unit, share). A cell of several
    attributes is numbered with the last attribute running fastest. Cells that are not listed lie in "(none)". `notes`
    say what was mended when the file was read; they are told to the steward and are no part of the division.

    >>> areas = Areas(attributes=("town",), levels=("district",), rule="largest", size=4, units=(("north",),),
    ...               runs=(((0, 2),),))
    >>> areas.names["district"], areas.codes["district"].tolist()
    (('north', '(none)'), [0, 0, 0, 1])
    """

    attributes: tuple[str, ...]
    levels: tuple[str, ...]
    rule: str
    size: int
    units: tuple[tuple[str, ...], ...]
    runs: tuple[tuple[tuple[int, int], ...], ...]
    split: tuple[tuple[int, int, Fraction], ...] = ()
    notes: tuple[Text, ...] = ()

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise SchemaError("rule ({rule}) must be {rules}", rule=self.rule, rules=", ".join(RULES))
        if not self.levels or len(set(self.levels)) < len(self.levels) or not all(self.levels):
            raise SchemaError("name at least one level of areas, each once")
        if len(self.units) != len(self.runs) or len(self.units) > MOST_UNITS:
            raise SchemaError("at most {most} areas can be declared, each with its cells", most=MOST_UNITS)
        if any(len(unit) != len(self.levels) for unit in self.units):
            raise SchemaError("every area needs a name for every level")
        self._check_cells()

    def _check_cells(self) -> None:
        covered = np.zeros(self.size)
        ends = [run for runs in self.runs for run in runs] + [(cell, cell) for cell, _, _ in self.split]
        if any(not 0 <= first <= last < self.size for first, last in ends):
            raise SchemaError("the cells of areas must be cells of the table")
        if any(not 0 <= unit < len(self.units) or not 0 < share <= 1 for _, unit, share in self.split):
            raise SchemaError("shares of cells must be above 0 and at most 1")
        for runs in self.runs:
            for first, last in runs:
                covered[first : last + 1] += 1
        for cell, _, share in self.split:
            covered[cell] += float(share)
        if bool((covered > 1 + 1e-9).any()):
            raise SchemaError("the shares of a cell add up to more than 1; each cell counts once in a division")

    @classmethod
    def read(
        cls, path: str | Path, schema: Schema, *, rule: str | None = None, levels: Sequence[str] | None = None
    ) -> Areas:
        """Read an area file: a CSV of cells and their areas, or polygons in GeoJSON (`sudare.schema.area_file`)."""
        from sudare.schema.area_file import read_areas  # the two modules need each other

        return read_areas(path, schema, rule=rule, levels=levels)

    # --- what it says ---------------------------------------------------------------------------------------------

    @cached_property
    def pieces(self) -> AreaPieces:
        """All pieces of cells, by cell; what lies in no area is a piece of the unit behind the last."""
        cells = [np.arange(first, last + 1) for runs in self.runs for first, last in runs]
        units = [np.full(last + 1 - first, unit) for unit, runs in enumerate(self.runs) for first, last in runs]
        cells.append(np.array([cell for cell, _, _ in self.split], dtype=np.int64))
        units.append(np.array([unit for _, unit, _ in self.split], dtype=np.int64))
        shares = np.ones(sum(map(len, cells)))
        if self.split:
            shares[-len(self.split) :] = [float(share) for _, _, share in self.split]
        cell, unit = np.concatenate(cells).astype(np.int64), np.concatenate(units).astype(np.int64)
        missing = 1.0 - np.bincount(cell, weights=shares, minlength=self.size)
        outside = np.flatnonzero(missing > 1e-9)
        cell, unit = np.append(cell, outside), np.append(unit, np.full(outside.size, len(self.units)))
        shares = np.append(shares, missing[outside])
        order = np.lexsort((unit, cell))
        return AreaPieces(cell[order], unit[order], shares[order])

    @cached_property
    def is_whole(self) -> bool:
        """Tell whether every cell lies in one unit."""
        return len(self.pieces.cells) == self.size

    @cached_property
    def unit_of(self) -> Codes:
        """The unit of every cell: that with the largest share, the first of equal ones."""
        cells, units, shares = self.pieces
        order = np.lexsort((units, -shares, cells))
        first = np.concatenate([[True], np.diff(cells[order]) > 0])
        found: Codes = units[order][first]
        return found

    @cached_property
    def names(self) -> dict[str, tuple[str, ...]]:
        """The names of the areas of every level, in the order in which they were listed."""
        has_none = bool((self.pieces.units == len(self.units)).any())
        rows = (*self.units, *[(NO_AREA,) * len(self.levels)] * has_none)
        return {level: tuple(dict.fromkeys(row[place] for row in rows)) for place, level in enumerate(self.levels)}

    def area_of_unit(self, level: str) -> Codes:
        """The number of the area of a level that every unit lies in, the unit of those in none last."""
        place = self.levels.index(self.check_level(level))
        numbers = {name: number for number, name in enumerate(self.names[level])}
        named = (*(unit[place] for unit in self.units), NO_AREA)
        return np.array([numbers.get(name, -1) for name in named], dtype=np.int64)

    @cached_property
    def codes(self) -> dict[str, Codes]:
        """The area of every cell, by level: where cells are shared, that with the largest share."""
        return {level: self.area_of_unit(level)[self.unit_of] for level in self.levels}

    def check_level(self, level: str) -> str:
        """Refuse a level that is not declared."""
        if level not in self.levels:
            raise ParameterError(
                "there is no level {level} of areas; there are {known}", level=level, known=", ".join(self.levels)
            )
        return level

    def cells_of(self, columns: Codes, names: Sequence[str], sizes: Mapping[str, int]) -> Codes:
        """Number the cells of a division that rows of codes (m, attributes) lie in."""
        number = np.zeros(len(columns), dtype=np.int64)
        for name in self.attributes:
            number = number * sizes[name] + columns[:, list(names).index(name)]
        return number

    # --- as facts -------------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Write the division as facts of JSON."""
        facts: dict[str, Any] = {
            "attributes": list(self.attributes),
            "levels": list(self.levels),
            "rule": self.rule,
            "cells": self.size,
            "units": [list(unit) for unit in self.units],
            "runs": [[list(run) for run in runs] for runs in self.runs],
        }
        if self.split:
            facts["split"] = [[cell, unit, str(share)] for cell, unit, share in self.split]
        return facts

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Areas:
        """Read what `to_dict` gave."""
        unknown = sorted(set(facts) - {"attributes", "levels", "rule", "cells", "units", "runs", "split"})
        if unknown:
            raise SchemaError("the stored schema has an unknown key ({key}); update sudare", key=unknown[0])
        return cls(
            attributes=tuple(facts["attributes"]),
            levels=tuple(facts["levels"]),
            rule=facts["rule"],
            size=int(facts["cells"]),
            units=tuple(tuple(unit) for unit in facts["units"]),
            runs=tuple(tuple((int(first), int(last)) for first, last in runs) for runs in facts["runs"]),
            split=tuple((int(cell), int(unit), Fraction(share)) for cell, unit, share in facts.get("split", ())),
        )

    @cached_property
    def _digest(self) -> str:
        return hashlib.sha256(json.dumps(self.to_dict(), sort_keys=True).encode()).hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Areas) and self._digest == other._digest

    def __hash__(self) -> int:
        return hash(self._digest)


def find_runs(cells: Codes) -> tuple[tuple[int, int], ...]:
    """Write rising cells as runs (first, last).

    >>> find_runs(np.array([3, 4, 5, 9]))
    ((3, 5), (9, 9))
    """
    if not len(cells):
        return ()
    breaks = np.flatnonzero(np.diff(cells) != 1)
    firsts, lasts = np.append(0, breaks + 1), np.append(breaks, len(cells) - 1)
    return tuple((int(cells[first]), int(cells[last])) for first, last in zip(firsts, lasts, strict=True))


def build_areas(
    attributes: Sequence[Attribute],
    levels: Sequence[str],
    rule: str,
    units: Sequence[tuple[str, ...]],
    shares: Mapping[tuple[int, int], Fraction],
) -> Areas:
    """Make a division of (cell, unit) -> share by its rule; the order of `units` decides between equal shares."""
    size = int(np.prod([attribute.size for attribute in attributes]))
    by_cell: dict[int, list[tuple[int, Fraction]]] = {}
    for (cell, unit), share in shares.items():
        by_cell.setdefault(cell, []).append((unit, share))
    whole: list[list[int]] = [[] for _ in units]
    split: list[tuple[int, int, Fraction]] = []
    for cell, parts in by_cell.items():
        if rule != "split":
            whole[min(parts, key=lambda part: (-part[1], part[0]))[0]].append(cell)
        elif len(parts) == 1 and parts[0][1] == 1:
            whole[parts[0][0]].append(cell)
        else:
            split += [(cell, unit, share) for unit, share in sorted(parts)]
    return Areas(
        attributes=tuple(attribute.name for attribute in attributes),
        levels=tuple(levels),
        rule=rule,
        size=size,
        units=tuple(units),
        runs=tuple(find_runs(np.array(sorted(cells), dtype=np.int64)) for cells in whole),
        split=tuple(sorted(split)),
    )


def check_areas(areas: Iterable[Areas], attributes: Sequence[Attribute]) -> None:
    """Refuse divisions that do not fit the attributes of a schema, and names that mean two things."""
    sizes = {attribute.name: attribute.size for attribute in attributes}
    taken = {*sizes, *RESERVED}
    for division in areas:
        strange = [name for name in division.attributes if name not in sizes]
        if strange or division.size != int(np.prod([sizes[name] for name in division.attributes])):
            raise SchemaError(
                "areas of {names} do not fit the schema; read the area file again with it",
                names=", ".join(division.attributes),
            )
        for level in division.levels:
            if level in taken:
                raise SchemaError("the level {level} of areas has the name of something else; rename it", level=level)
            taken.add(level)
