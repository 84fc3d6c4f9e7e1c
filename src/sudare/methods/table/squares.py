"""A tree in the shape of space: the squares of a map, large to small, then its cells, then other attributes in a cell.

The map is a mesh, or two ordered attributes (x and y). Its cells are numbered so that every square of every level is a
run of neighbours, and all squares of a level have room for as many squares of the next: a node is found by a division.
Places where no cell can be (beyond the edge, off the land) are numbered too, and are held at 0.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from sudare.errors import ParameterError
from sudare.methods.table.hexagons import FAN, HexagonCells, find_hexagons
from sudare.schema import Attribute, MeshCells, NumberBins, Schema
from sudare.schema.arrays import Booleans, Codes

# Sides of squares in cells, large to small; the share of the third level from the cells in pure epsilon; and of what is
# left, the part of the squares between, by density of these squares (`levels.DENSITY_BOUNDS`): where people are few
# cells say little and sums of some of them more. Chosen on twelve made-up maps at epsilon 1/10 and 1 (census seed 5,
# clustered 41, sparse 43, halving 46, coasts, valleys and spikes 51-54 and 71-74; benchmarks/table_regions.py has
# others): the geometric mean over cells, squares, irregular regions and rectangles is flat near them.
MESH = {2: (4, 1), 3: (20, 5, 1), 4: (20, 5, 1), 5: (40, 8, 1), 6: (40, 8, 1)}
MESH_AREA_CELLS = {2: 8, 3: 80, 4: 160, 5: 320, 6: 640}  # along the side of a square of 80 km, by level
MESH_SHARE = Fraction(47, 200)
MESH_PARTS = tuple(Fraction(part, 600) for part in (540, 390, 270, 240, 200, 15))
MAP_SIDES, MAP_SHARE = (32, 8, 1), Fraction(1, 5)
MAP_PARTS = tuple(Fraction(part, 40) for part in (36, 26, 20, 16, 12, 5))
# Small maps in x and y, by the most cells of their longer side: larger squares before these, the shares of all above
# those of 8 cells, and the part of these where cells are dense. They are the least that keep squares of 8 cells and
# more of a square map below the paper's wavelet, by exact errors; of all squares whose sides are powers of 2 these
# have the least mean of exact errors over the mix that does so. The shares above had squares of 128 1.8 times, of 16
# in dense places 1.4 times as far off as the wavelet.
SMALL_MAPS = {
    64: ((), (Fraction(3, 25),), Fraction(7, 25)),
    128: ((), (Fraction(43, 200),), Fraction(53, 200)),
    256: ((128,), (Fraction(21, 250), Fraction(47, 250)), Fraction(49, 200)),
}
# A map with a longer side has squares of 4, 16, 64, ... cells. Its shares are the least that keep squares of 16 cells
# and more below the paper's wavelet (each halving of the side costs about 8 % of the promise); the parts were chosen on
# a census of 512 x 512 cells with seed 5 and rivers of 300 x 700 with seed 904.
LARGE_MAP_SIDES, LARGE_MAP_SHARE = (16, 4, 1), Fraction(167, 1000)
LARGE_MAP_PARTS = tuple(Fraction(part, 100) for part in (95, 80, 60, 45, 30, 2))
# Squares of 16 cells have more where those of 64 are thin: of what is left below these, by density; None: as above.
# Chosen on that census, a coast with seed 772 and Europe's places (`benchmarks.table_real`), all of 512 x 512 cells.
LARGE_MAP_THIN = (Fraction(3, 4), Fraction(3, 5), Fraction(9, 20), Fraction(3, 10), None, None)
# For the mix, maps have sides in between (by the side that decides on what is below). On a thin map (`levels.THIN_MAP`)
# squares of one side have nearly all below that one: the larger, the thinner its squares are; None: shares as above.
# Cells keep a little, so that each has an unbiased figure. On other maps the sides in between have the least share.
# Chosen on places of Europe and Asia and on US postal codes at epsilon 1/10, of large maps on places of Mexico and Asia
# in 512 and 320 cells (`benchmarks.table_real`).
# Maps with few records (`levels.FEW_BOUNDS`) have nearly all in squares of the deciding side, and those with the fewest
# in squares of twice that side: smaller squares would hold less than their noise, and two sizes would share what one
# can have.
SIDES_BETWEEN = {64: (128, 8), 32: (64, 16, 4), 20: (40, 10)}
FEW_CELLS_SHARE = Fraction(1, 100)  # of cells, so that each has an unbiased figure
THIN_SIDES: dict[int, tuple[int | None, ...]] = {
    64: (16, 16, 8, 4, None, None),
    32: (16, 16, 8, 4, None, None),
    20: (10, 10, 5, 5, None, None),
}
LEAST_SHARE, THIN_CELLS_SHARE = Fraction(1, 500), Fraction(3, 100)
LEAST_BETWEEN = 64  # cells along the longer side of a map in x and y that has sides in between
MOST_BETWEEN = 2**19  # cells of a table that has them: above, one more level would take a third more time
HALF_SHARE, TOP_SHARE, NEXT_SHARE = Fraction(3, 40), Fraction(3, 25), Fraction(167, 1000)  # of halves; of others
# Releases without `sides` have those of an earlier version: also squares of a quarter of the side, a sixteenth, ...
EARLIER_PARTS = (*MAP_PARTS[:-1], Fraction(21, 100))
EARLIER_SHARE, EARLIER_TOP, EARLIER_NEXT = Fraction(43, 250), Fraction(17, 100), Fraction(5, 100)
MIDDLE = 3  # the class of density whose shares are told for a whole map
FIRST_LEVEL_SHARE = Fraction(1, 10)  # of the 80 km squares of a mesh, where it has several
LEAST_SIDE = 8  # values of an ordered attribute that make it a side of a map
MOST_OTHERS = 256  # combinations of other attributes in one cell of a map
OTHERS_SHARE = Fraction(2, 5)  # of the cells, where the cells of the map are divided by other attributes


@dataclass(frozen=True, kw_only=True, eq=False)
class SquareLayout:
    """The cells of a schema as leaves of a tree of squares.

    `space` names the attributes of the map by position, `others` the rest. `fans[l]` is the room for children in a node
    above level l; `sides[l]` the side of its squares in cells, 0 for the level of other attributes; `weights` the
    shares of the levels in pure epsilon. `leaf_of_place[code]` is the leaf of a cell of the map; `place_of_leaf` leads
    back, -1 where no cell is. `corners` are the row and column of every leaf of the map. `has_own_sides` tells that
    the steward chose the sides, so that no shares were chosen for them beforehand. `usual_sides` are those of which the
    table of a map that is not thin is made, where there are more.
    """

    schema: Schema
    space: tuple[int, ...]
    others: tuple[int, ...]
    sides: tuple[int, ...]
    fans: tuple[tuple[int, int], ...]
    weights: tuple[Fraction, ...]
    leaf_of_place: Codes
    place_of_leaf: Codes
    rows: Codes
    columns_east: Codes
    is_hexagonal: bool = False
    has_own_sides: bool = False
    usual_sides: tuple[int, ...] = ()

    @property
    def combinations(self) -> int:
        """Count the combinations of other attributes in a cell of the map."""
        return math.prod(self.schema.attributes[place].size for place in self.others)

    @property
    def deciding_side(self) -> int:
        """The side of the squares whose density decides on what is measured below them; 0 if there is none."""
        sides = self.usual_sides or self.map_sides
        place = len(sides) - (4 if self.has_thin_squares else 3)
        return sides[place] if place >= 0 and not self.has_own_sides else 0

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Count the nodes of every level, possible or not."""
        tops = len(self.place_of_leaf) // math.prod(high * wide for high, wide in self.fans[1 : len(self.map_sides)])
        inner = itertools.accumulate((high * wide for high, wide in self.fans[1:]), lambda a, b: a * b, initial=tops)
        return tuple(inner)

    @property
    def map_sides(self) -> tuple[int, ...]:
        """The sides of the levels that are squares."""
        return tuple(side for side in self.sides if side)

    @cached_property
    def parents(self) -> tuple[Codes, ...]:
        """The node above each node, by level; the first level hangs on the root."""
        first = np.zeros(self.sizes[0], dtype=np.int64)
        return (first, *(np.arange(below) // (below // above) for above, below in itertools.pairwise(self.sizes)))

    @property
    def density_parts(self) -> tuple[Fraction, ...]:
        """Of what is left below the third level from the cells, the part of the squares between, by density."""
        if len(self.space) == 1 and not self.is_hexagonal:
            return MESH_PARTS
        if self.map_sides[-len(LARGE_MAP_SIDES) :] == LARGE_MAP_SIDES:
            return LARGE_MAP_PARTS
        longest = 0 if self.is_hexagonal else find_longest(self.schema)
        if longest and self.map_sides == map_levels(longest)[0]:
            return (*MAP_PARTS[:-1], SMALL_MAPS[_round_up(longest)][2])
        return MAP_PARTS if len(self.map_sides) <= len(MAP_SIDES) else EARLIER_PARTS

    @property
    def has_thin_squares(self) -> bool:
        """Tell that thin places have more for the squares of 16 cells too, decided by the squares above them."""
        sides = self.usual_sides or self.map_sides
        is_usual = sides[-len(LARGE_MAP_SIDES) :] == LARGE_MAP_SIDES and not self.has_own_sides
        return is_usual and len(sides) > len(LARGE_MAP_SIDES)

    def leaves(self, columns: Codes) -> Codes:
        """Find the leaves of cells (m, attributes)."""
        place = self._join(columns, self.space)
        return self.leaf_of_place[place] * self.combinations + self._join(columns, self.others)

    def columns(self, leaves: Codes) -> Codes:
        """Give the codes (m, attributes) of leaves that are cells."""
        spot, rest = np.divmod(leaves, self.combinations)
        found = np.empty((len(leaves), len(self.schema.attributes)), dtype=np.int64)
        for number, positions in ((self.place_of_leaf[spot], self.space), (rest, self.others)):
            for position in reversed(positions):
                number, found[:, position] = np.divmod(number, self.schema.attributes[position].size)
        return found

    def _join(self, columns: Codes, positions: tuple[int, ...]) -> Codes:
        number = np.zeros(len(columns), dtype=np.int64)
        for position in positions:
            number = number * self.schema.attributes[position].size + columns[:, position]
        return number

    def first_places(self, level: int) -> Codes:
        """Give a cell of the map in every square of a level that has any, in the order of the squares."""
        leaves = len(self.place_of_leaf) // self.sizes[level]
        places: Codes = self.place_of_leaf.reshape(-1, leaves).max(axis=1)
        return places[places >= 0]

    def nodes_of_places(self, side: int) -> Codes:
        """Give the square of this side around every cell of the map; for 0 all combinations of every cell."""
        if not side:
            return (self.leaf_of_place[:, None] * self.combinations + np.arange(self.combinations)).ravel()
        return self.leaf_of_place // (len(self.place_of_leaf) // self.sizes[self.sides.index(side)])

    def find_places(self, rows: range, columns: range) -> Codes:
        """List the cells of the map in a box of rows and columns, as far as there are any."""
        height, width = self._grid.shape
        box = self._grid[
            max(0, rows.start) : min(height, rows.stop), max(0, columns.start) : min(width, columns.stop)
        ].ravel()
        return box[box >= 0].astype(np.int64)

    @cached_property
    def _grid(self) -> NDArray[np.int32]:
        """The cell at every row and column of the map, -1 where there is none."""
        grid = np.full((int(self.rows.max()) + 1, int(self.columns_east.max()) + 1), -1, dtype=np.int32)
        grid[self.rows, self.columns_east] = np.arange(len(self.rows))
        return grid

    @cached_property
    def is_possible(self) -> Booleans:
        """Tell which leaves are cells that can hold records."""
        possible = np.repeat(self.place_of_leaf >= 0, self.combinations)
        if self.schema.impossible:
            cells = np.flatnonzero(possible)
            possible[cells] = ~self.schema.is_impossible(self.columns(cells))
        return possible

    @cached_property
    def possible_cells(self) -> tuple[Codes, ...]:
        """Count the possible cells of every node, by level."""
        held = [self.is_possible.astype(np.int64)]
        for above, below in itertools.pairwise(self.sizes[::-1]):
            held.append(held[-1].reshape(below, above // below).sum(axis=1))
        return tuple(held[::-1])


# --- which levels ---------------------------------------------------------------------------------------------------


@lru_cache(maxsize=16)
def find_space(schema: Schema) -> tuple[int, ...]:
    """Find the attributes that make a map: the first mesh or cells of H3, or the only two ordered attributes.

    () if there is none.

    >>> x, y = (Attribute(name=name, domain=NumberBins.of_width(0, 64, 1)) for name in "xy")
    >>> find_space(Schema(name="map", attributes=(x, y)))
    (0, 1)
    """
    for position, attribute in enumerate(schema.attributes):
        if isinstance(attribute.domain, MeshCells) and attribute.domain.level > 1:
            return (position,)
        if find_hexagons(attribute) is not None:
            return (position,)
    sides = [position for position, attribute in enumerate(schema.attributes) if _is_side(attribute)]
    return tuple(sides) if len(sides) == 2 else ()


def _is_side(attribute: Attribute) -> bool:
    is_line = isinstance(attribute.domain, NumberBins) and attribute.hierarchy is None
    return is_line and attribute.domain.size >= LEAST_SIDE


def fits_squares(schema: Schema, most_cells: int) -> bool:
    """Tell whether a table is a map whose cells can all be visited."""
    space = find_space(schema)
    if not space or schema.size > most_cells:
        return False
    others = math.prod(each.size for position, each in enumerate(schema.attributes) if position not in space)
    return others <= MOST_OTHERS and _estimate_leaves(schema, space) * others <= 4 * most_cells


def _estimate_leaves(schema: Schema, space: tuple[int, ...]) -> int:
    domain = schema.attributes[space[0]].domain
    hexagons = find_hexagons(schema.attributes[space[0]])
    if hexagons is not None:
        return hexagons.tops * FAN * FAN
    if len(space) == 1 and isinstance(domain, MeshCells):
        sides, _ = mesh_levels(domain)
        rows, columns = domain.grid(np.arange(domain.size, dtype=np.int64))
        top = sides[0]
        return len(np.unique(rows // top * 10**6 + columns // top)) * top * top
    return math.prod(schema.attributes[position].size + 2 * LEAST_SIDE for position in space)


def mesh_levels(cells: MeshCells) -> tuple[tuple[int, ...], tuple[Fraction, ...]]:
    """Choose sides and shares for a mesh: about 10 km or 20 km, 2 km and the cells, with several areas also 80 km."""
    sides = MESH[cells.level]
    shares = divide_rest(MESH_SHARE, MESH_PARTS) if len(sides) == 3 else (Fraction(2, 5), Fraction(3, 5))
    if cells.coarse(1).size < 4:
        return sides, shares
    return (MESH_AREA_CELLS[cells.level], *sides), (
        FIRST_LEVEL_SHARE,
        *((1 - FIRST_LEVEL_SHARE) * share for share in shares),
    )


def map_levels(longest: int) -> tuple[tuple[int, ...], tuple[Fraction, ...]]:
    """Choose sides and shares for a map whose longer side has so many cells.

    >>> map_levels(100)[0], map_levels(160)[0], map_levels(512)[0], map_levels(2048)[0]
    ((32, 8, 1), (128, 32, 8, 1), (256, 64, 16, 4, 1), (1024, 256, 64, 16, 4, 1))
    """
    if longest <= max(SMALL_MAPS):
        larger, first, _ = SMALL_MAPS[_round_up(longest)]
        rest = 1 - sum(first)
        return (*larger, *MAP_SIDES), (*first, rest * MAP_PARTS[MIDDLE], rest * (1 - MAP_PARTS[MIDDLE]))
    tops = [4**power for power in range(10, 2, -1) if 4**power < longest]
    next_share = NEXT_SHARE if len(tops) == 2 else TOP_SHARE
    above = (HALF_SHARE if 2 * tops[0] >= longest else TOP_SHARE, *[next_share] * (len(tops) - 1))
    rest = 1 - sum(above)
    inner = divide_rest(LARGE_MAP_SHARE / rest, LARGE_MAP_PARTS)
    return (*tops, *LARGE_MAP_SIDES), (*above, *(rest * share for share in inner))


def _round_up(longest: int) -> int:
    """Give the size of small maps that a map with so long a side is one of."""
    return min(size for size in SMALL_MAPS if longest <= size)


def earlier_map_levels(longest: int) -> tuple[tuple[int, ...], tuple[Fraction, ...]]:
    """Give the sides and shares of an earlier version, which releases without `sides` have.

    >>> earlier_map_levels(160)[0], earlier_map_levels(512)[0], earlier_map_levels(2048)[0]
    ((32, 8, 1), (128, 32, 8, 1), (512, 128, 32, 8, 1))
    """
    if longest <= max(SMALL_MAPS):
        return MAP_SIDES, divide_rest(MAP_SHARE, MAP_PARTS)
    tops = [1 << max((longest - 1).bit_length() - 2, 7)]
    while tops[-1] > 4 * MAP_SIDES[0]:
        tops.append(max(tops[-1] // 4, MAP_SIDES[0] * 2))
    top = (EARLIER_TOP + EARLIER_NEXT * (len(tops) - 1)) / len(tops)
    rest = 1 - top * len(tops)
    inner = divide_rest(EARLIER_SHARE / (1 - EARLIER_TOP), EARLIER_PARTS)
    return (*tops, *MAP_SIDES), (*[top] * len(tops), *(rest * share for share in inner))


def find_map_sides(schema: Schema) -> tuple[int, ...]:
    """Give the sides of the squares of a map of two columns; () for any other table, whose levels are declared."""
    space = find_space(schema)
    return map_levels(max(schema.attributes[each].size for each in space))[0] if len(space) == 2 else ()


def find_mix_sides(schema: Schema) -> tuple[int, ...]:
    """Give the sides of the squares of a map for the mix, with those in between; () where there are no squares.

    >>> x, y = (Attribute(name=name, domain=NumberBins.of_width(0, 160, 1)) for name in "xy")
    >>> find_mix_sides(Schema(name="map", attributes=(x, y)))
    (128, 64, 32, 16, 8, 4, 1)
    """
    usual = find_map_sides(schema) or find_mesh_sides(schema)
    is_small = len(find_space(schema)) == 2 and find_longest(schema) < LEAST_BETWEEN
    if not usual or is_small or schema.size > MOST_BETWEEN:
        return usual
    layout = lay_out(schema, usual)
    if layout.map_sides != usual:  # so small that levels are left out
        return usual
    more = SIDES_BETWEEN.get(layout.deciding_side, ())
    return tuple(sorted({*usual, *(side for side in more if _tells_cells_apart(side, layout))}, reverse=True))


def _tells_cells_apart(side: int, layout: SquareLayout) -> bool:
    """Tell whether a map has several squares of a side: one would only measure the total."""
    return any(line.min() // side < line.max() // side for line in (layout.rows, layout.columns_east))


def find_mesh_sides(schema: Schema) -> tuple[int, ...]:
    """Give the sides of the squares of a mesh; () for any other table."""
    space = find_space(schema)
    domain = schema.attributes[space[0]].domain if space else None
    return mesh_levels(domain)[0] if isinstance(domain, MeshCells) else ()


def find_level_sides(schema: Schema) -> dict[str, int]:
    """Give the sides in cells of the coarser levels of a mesh, by their names in a workload.

    >>> mesh = Attribute(name="mesh", domain=MeshCells(level=4, area=("5339",)))
    >>> find_level_sides(Schema(name="map", attributes=(mesh,)))
    {'mesh:1': 2, 'mesh:2': 20, 'mesh:3': 160}
    """
    space = find_space(schema)
    domain = schema.attributes[space[0]].domain if space else None
    if not isinstance(domain, MeshCells):
        return {}
    cells = {1: 1, **MESH_AREA_CELLS}
    name, level = schema.attributes[space[0]].name, domain.level
    return {f"{name}:{above}": cells[level] // cells[level - above] for above in range(1, level)}


def read_sides(written: tuple[str, ...], schema: Schema) -> tuple[int, ...]:
    """Read the sides of squares: none longer than the map, each divides the one before, and the last is 1."""
    sides = tuple(int(side) if side.isascii() and side.isdigit() and len(side) < 8 else 0 for side in written)
    longest = find_longest(schema)
    is_chain = min(sides, default=0) > 0 and all(
        large > small and large % small == 0 for large, small in itertools.pairwise(sides)
    )
    if not is_chain or sides[-1] != 1 or sides[0] > longest:
        raise ParameterError(
            "sides ({written}) must be sides of squares of a map in cells, from at most {longest} down to 1, each a"
            " multiple of the next, such as 64,16,4,1; leave them out where neither a mesh nor x and y make a map",
            written=", ".join(written),
            longest=longest,
        )
    return sides


def find_longest(schema: Schema) -> int:
    """Give the longest side of a square that can be measured: that of the map, on a mesh 80 km; 0 without squares."""
    space = find_space(schema)
    if not space or find_hexagons(schema.attributes[space[0]]) is not None:
        return 0
    domain = schema.attributes[space[0]].domain
    if isinstance(domain, MeshCells):
        return MESH_AREA_CELLS[domain.level]
    return max(schema.attributes[position].size for position in space)


def divide_rest(share: Fraction, parts: tuple[Fraction, ...]) -> tuple[Fraction, ...]:
    """The shares of the last three levels where density is in the middle."""
    rest = 1 - share
    return share, rest * parts[MIDDLE], rest * (1 - parts[MIDDLE])


# --- how leaves are numbered ----------------------------------------------------------------------------------------


@lru_cache(maxsize=4)
def lay_out(schema: Schema, own_sides: tuple[int, ...] | None = None) -> SquareLayout:
    """Number the cells of a map, which `fits_squares`, by squares of the sides given; else of an earlier version's."""
    space = find_space(schema)
    others = tuple(position for position in range(len(schema.attributes)) if position not in space)
    hexagons = find_hexagons(schema.attributes[space[0]])
    if hexagons is not None:
        rows, columns, is_own = hexagons.rows, hexagons.columns, False
        sides, shares, fans, leaf, leaves = _lay_out_hexagons(hexagons)
    elif (usual := _find_usual(schema, own_sides)) is not None:
        return _add_between(usual, own_sides or ())
    else:
        sides, shares, is_own = _choose_levels(schema, space, own_sides)
        rows, columns = _find_places(schema, space, sides[0])
        sides, shares = drop_idle_levels(sides, shares, rows, columns)
        fans, leaf, leaves = number_places(rows, columns, sides)
    place_of_leaf = np.full(leaves, -1, dtype=np.int64)
    place_of_leaf[leaf] = np.arange(len(leaf))
    combinations = math.prod(schema.attributes[position].size for position in others)
    if combinations > 1:
        sides, fans = (*sides, 0), (*fans, (1, combinations))
        shares = (*(share * (1 - OTHERS_SHARE) for share in shares), OTHERS_SHARE)
    return SquareLayout(
        schema=schema,
        space=space,
        others=others,
        sides=sides,
        fans=fans,
        weights=shares,
        leaf_of_place=leaf,
        place_of_leaf=place_of_leaf,
        rows=rows,
        columns_east=columns,
        is_hexagonal=hexagons is not None,
        has_own_sides=is_own,
    )


def _find_usual(schema: Schema, sides: tuple[int, ...] | None) -> SquareLayout | None:
    """The layout with the usual sides of a map, if these are the ones with sides in between."""
    usual = find_map_sides(schema) or find_mesh_sides(schema)
    is_mix = sides not in (None, usual) and bool(usual) and sides == find_mix_sides(schema)
    return lay_out(schema, usual) if is_mix else None


def _add_between(usual: SquareLayout, sides: tuple[int, ...]) -> SquareLayout:
    """Lay out a map with further sides, which have the least share each, taken from what is below the deciding side."""
    fans, leaf, leaves = number_places(usual.rows, usual.columns_east, sides)
    place_of_leaf = np.full(leaves, -1, dtype=np.int64)
    place_of_leaf[leaf] = np.arange(len(leaf))
    if usual.combinations > 1:
        sides, fans = (*sides, 0), (*fans, (1, usual.combinations))
    return dataclasses.replace(
        usual,
        sides=sides,
        fans=fans,
        weights=spread_shares(usual.weights, usual.sides, sides, usual.deciding_side),
        leaf_of_place=leaf,
        place_of_leaf=place_of_leaf,
        usual_sides=usual.map_sides,
    )


def spread_shares(
    shares: tuple[Fraction, ...], usual: tuple[int, ...], sides: tuple[int, ...], deciding: int
) -> tuple[Fraction, ...]:
    """Give sides in between the least share each; what is below the deciding side gives it.

    >>> half, quarter = Fraction(1, 2), Fraction(1, 4)
    >>> [str(share) for share in spread_shares((half, quarter, quarter), (32, 8, 1), (32, 16, 8, 1), 32)]
    ['1/2', '1/500', '249/1000', '249/1000']
    """
    place = usual.index(deciding) + 1
    rest, taken = sum(shares[place:], Fraction(0)), LEAST_SHARE * (len(sides) - len(usual))
    own = dict(zip(usual, (*shares[:place], *(share * (1 - taken / rest) for share in shares[place:])), strict=True))
    return tuple(own.get(side, LEAST_SHARE) for side in sides)


def _choose_levels(
    schema: Schema, space: tuple[int, ...], own_sides: tuple[int, ...] | None
) -> tuple[tuple[int, ...], tuple[Fraction, ...], bool]:
    """Sides and shares of a mesh or a map of two columns, and whether the steward chose the sides."""
    domain = schema.attributes[space[0]].domain
    if isinstance(domain, MeshCells):
        known = [mesh_levels(domain)]
    else:
        longest = max(schema.attributes[position].size for position in space)
        known = [map_levels(longest), earlier_map_levels(longest)]
        known = known if own_sides is not None else known[1:]
    for sides, shares in known:
        if own_sides in (None, sides):
            return sides, shares, False
    if own_sides is None:
        raise AssertionError("every map has sides of its kind")
    return own_sides, (Fraction(1, len(own_sides)),) * len(own_sides), True


def _find_places(schema: Schema, space: tuple[int, ...], top: int) -> tuple[Codes, Codes]:
    """Rows and columns of all cells of a mesh or a map of two columns."""
    domain = schema.attributes[space[0]].domain
    if isinstance(domain, MeshCells):
        return _mesh_places(domain, len(schema.attributes[space[0]].branches), top)
    rows, columns = (part.ravel() for part in np.indices([schema.attributes[each].size for each in space]))
    return rows, columns


def _lay_out_hexagons(
    cells: HexagonCells,
) -> tuple[tuple[int, ...], tuple[Fraction, ...], tuple[tuple[int, int], ...], Codes, int]:
    """Sides, shares, room and leaves of cells of H3: 2,401 cells, 49 and one; levels of a single node are left out."""
    shares = divide_rest(MAP_SHARE, MAP_PARTS)
    sides, leaf, tops = (FAN, 7, 1), cells.leaf, cells.tops
    fans: tuple[tuple[int, int], ...] = ((1, tops), (1, FAN), (1, FAN))
    if tops == 1:
        return (7, 1), (Fraction(2, 5), Fraction(3, 5)), ((1, FAN), (1, FAN)), leaf, FAN * FAN
    return sides, shares, fans, leaf, tops * FAN * FAN


def _mesh_places(cells: MeshCells, branches: int, top: int) -> tuple[Codes, Codes]:
    """Rows and columns of mesh cells from the corner of a largest square; missing and other places stand apart."""
    rows, columns = cells.grid(np.arange(cells.size, dtype=np.int64))
    rows, columns = rows - rows.min() // top * top, columns - columns.min() // top * top
    beyond = (int(rows.max()) // top + 2) * top
    return np.append(rows, np.full(branches, beyond)), np.append(columns, np.arange(branches))


def drop_idle_levels(
    sides: tuple[int, ...], shares: tuple[Fraction, ...], rows: Codes, columns: Codes
) -> tuple[tuple[int, ...], tuple[Fraction, ...]]:
    """Leave out levels that hold all cells in one square: they would only measure the total."""
    ends = [(int(line.min()), int(line.max())) for line in (rows, columns)]
    kept = [place for place, side in enumerate(sides) if any(low // side < high // side for low, high in ends)]
    kept = kept or [len(sides) - 1]
    whole = sum(shares[place] for place in kept)
    return tuple(sides[place] for place in kept), tuple(shares[place] / whole for place in kept)


def number_places(
    rows: Codes, columns: Codes, sides: tuple[int, ...]
) -> tuple[tuple[tuple[int, int], ...], Codes, int]:
    """Number cells so that squares are runs: the room of every level, the leaf of every cell, and how many there are.

    Squares of the first level are those that hold a cell, row by row. A square has no more rows or columns of smaller
    squares than the map itself.
    """
    tall, broad = int(rows.max()) + 1, int(columns.max()) + 1
    top = sides[0]
    place = rows // top * (broad // top + 1) + columns // top
    is_held = np.bincount(place) > 0
    leaf, leaves = (np.cumsum(is_held) - 1)[place], int(is_held.sum())
    fans = [(1, leaves)]
    for large, small in itertools.pairwise(sides):
        high, wide = (min(large // small, -(-length // small)) for length in (tall, broad))
        leaf = (leaf * high + rows // small % (large // small)) * wide + columns // small % (large // small)
        leaves *= high * wide
        fans.append((high, wide))
    return tuple(fans), leaf.astype(np.int64), leaves
