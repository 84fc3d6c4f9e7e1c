"""The attributes of a large table as lines, opened step by step: squares of a mesh, declared groups, or halves.

Every value of an attribute has a place on its line, and every group of every step is a run of places. Groups of a step
have room for the same number of groups of the next, so that a group is found by a division; places that no value has
are held at 0 people. A line without declared groups is halved; a mesh is opened by its squares of 80, 10, 5 and 1 km
and their halves; declared groups are opened as declared.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from sudare.methods.tree import group_values
from sudare.schema import Attribute, MeshCells, Schema
from sudare.schema.arrays import Codes, Reals

WIDEST_STEP = 64  # groups that one step opens; a wider one is taken in two
NARROW_STEP = 8  # the second of the two
MOST_PLACES = 2**62  # of a line; groups so deep and uneven that they need more room are halved instead
LEVEL_NODES = 64  # children of a node: more weigh little, and each level costs a share of the promise
MESH_NODES = 256  # the same on a mesh, whose levels are 80 km, 10 km, 1 km and the cells
MESH_SIDES = {1: (), 2: (8,), 3: (8, 2, 5), 4: (8, 2, 5, 2), 5: (8, 2, 5, 2, 2), 6: (8, 2, 5, 2, 2, 2)}  # in 80 km


@dataclass(frozen=True, kw_only=True, eq=False)
class Line:
    """An attribute of `size` values: `fans[s]` is the room for groups of step s in one of the step above.

    `places` gives the place of every value; None where it is its code.
    """

    size: int
    fans: tuple[int, ...]
    places: Codes | None = None

    @cached_property
    def strides(self) -> tuple[int, ...]:
        """The places of a group of every step."""
        return tuple(math.prod(self.fans[step + 1 :]) for step in range(len(self.fans)))

    @property
    def is_full(self) -> bool:
        """Tell whether every place has a value."""
        return math.prod(self.fans) == self.size

    @cached_property
    def _order(self) -> tuple[Codes, Codes]:
        """The values in the order of their places, and these places."""
        if self.places is None:
            raise AssertionError("places are codes")
        order = np.argsort(self.places, kind="stable")
        return order, self.places[order]

    def place(self, codes: Codes) -> Codes:
        """Find the places of values."""
        return codes if self.places is None else self.places[codes]

    def rank(self, places: Codes) -> Codes:
        """Count the values before places."""
        if self.places is None:
            return np.minimum(places, self.size)
        return np.searchsorted(self._order[1], places).astype(np.int64)

    def value(self, ranks: Codes) -> Codes:
        """Give the values of ranks."""
        return ranks if self.places is None else self._order[0][ranks]

    def in_order(self, by_code: Reals) -> Reals:
        """Bring numbers by value into the order of ranks."""
        return by_code if self.places is None else by_code[self._order[0]]


@lru_cache(maxsize=4)
def make_lines(schema: Schema) -> tuple[Line, ...]:
    """Make the lines of all attributes of a table."""
    return tuple(map(make_line, schema.attributes))


def make_line(attribute: Attribute) -> Line:
    """Make the line of an attribute.

    >>> from sudare.schema import NumberBins
    >>> make_line(Attribute(name="age", domain=NumberBins.of_width(0, 100, 5))).fans
    (2, 2, 2, 2, 2)
    >>> make_line(Attribute(name="mesh", domain=MeshCells(level=4, area=("5339", "5340")))).fans
    (2, 64, 4, 25, 4)
    """
    if isinstance(attribute.domain, MeshCells):
        return _mesh_line(attribute.domain, len(attribute.branches))
    if attribute.hierarchy is not None:
        return _declared_line(attribute)
    return Line(size=attribute.size, fans=_halve(attribute.size))


def _halve(size: int) -> tuple[int, ...]:
    return (2,) * max(0, (size - 1).bit_length())


def _mesh_line(cells: MeshCells, branches: int) -> Line:
    """Squares of a mesh; missing and other places follow the last of 80 km."""
    codes = np.arange(cells.size, dtype=np.int64)
    rows, columns = cells.grid(codes)
    first = cells.lift(codes, 1)
    sides, places = MESH_SIDES[cells.level], first
    inside = math.prod(sides)
    for side in sides:
        inside //= side
        places = (places * side + rows // inside % side) * side + columns // inside % side
    squares = int(first.max()) + 1 + branches
    room = math.prod(sides) ** 2
    more = (squares - branches + np.arange(branches, dtype=np.int64)) * room
    return Line(
        size=cells.size + branches,
        fans=(*split_fan(squares), *(side * side for side in sides)),
        places=np.concatenate([places, more]),
    )


def _declared_line(attribute: Attribute) -> Line:
    """Declared groups from the top down, each with room for as many as the largest holds.

    Where that is more room than numbers of 64 bits tell apart, values in the order of their groups, halved.
    """
    groups = group_values(attribute)
    codes = np.arange(attribute.size, dtype=np.int64)
    ranks = groups.ranks(codes)
    places = np.zeros(attribute.size, dtype=np.int64)
    fans: list[int] = []
    for height in range(groups.top - 1, -1, -1):
        node = groups.lift(ranks, height)
        first, number = groups.span(groups.climb(node, height, height + 1), height + 1, height)
        wide = split_fan(int(number.max()))
        fans += wide
        places = places * math.prod(wide) + node - first
    if math.prod(fans) > MOST_PLACES:
        return Line(size=attribute.size, fans=_halve(attribute.size), places=ranks)
    return Line(size=attribute.size, fans=tuple(fans), places=places)


def split_fan(groups: int) -> tuple[int, ...]:
    """Open many groups in several steps.

    >>> split_fan(47), split_fan(300), split_fan(1)
    ((47,), (38, 8), ())
    """
    if groups <= 1:
        return ()
    return (groups,) if groups <= WIDEST_STEP else (*split_fan(-(-groups // NARROW_STEP)), NARROW_STEP)


@dataclass(frozen=True, kw_only=True, eq=False)
class OpeningPlan:
    """Which steps of every line each level takes: `fans[l][a]` groups of attribute a, of `strides[l][a]` places."""

    lines: tuple[Line, ...]
    fans: tuple[tuple[int, ...], ...]
    strides: tuple[tuple[int, ...], ...]

    @property
    def levels(self) -> int:
        """Count the levels."""
        return len(self.fans)

    def fan(self, level: int) -> int:
        """Children of a node above the level, some of which may hold no cell."""
        return math.prod(self.fans[level])

    def place(self, columns: Codes) -> Codes:
        """Find the places (m, attributes) of cells."""
        placed = [line.place(columns[:, at]) for at, line in enumerate(self.lines)]
        return np.stack(placed) if placed else columns.T


@lru_cache(maxsize=8)
def plan_opening(schema: Schema) -> OpeningPlan:
    """Take steps of the longest lines first, so that a node has about 64 children; the last level leads to the cells.

    A mesh is opened down to its cells before anything else: what is asked most are sums of all people in places.

    >>> from sudare.schema import NumberBins
    >>> lines = [Attribute(name=name, domain=NumberBins.of_width(0, 2**15, 1)) for name in "xy"]
    >>> plan_opening(Schema(name="map", attributes=tuple(lines))).fans
    ((8, 8), (8, 8), (8, 8), (8, 8), (8, 8))
    """
    lines = make_lines(schema)
    taken = [0] * len(lines)
    fans, strides = [], []
    meshes = [at for at, one in enumerate(schema.attributes) if isinstance(one.domain, MeshCells)]
    while any(step < len(line.fans) for step, line in zip(taken, lines, strict=True)):
        before = tuple(taken)
        first = [at for at in meshes if taken[at] < len(lines[at].fans)][:1]
        own = _take_level(lines, taken, first or range(len(lines)), MESH_NODES if first else LEVEL_NODES)
        fans.append(own)
        strides.append(
            tuple(
                line.strides[end - 1] if end > start else 1
                for line, start, end in zip(lines, before, taken, strict=True)
            )
        )
    return OpeningPlan(lines=lines, fans=tuple(fans), strides=tuple(strides))


def _take_level(lines: tuple[Line, ...], taken: list[int], chosen: Sequence[int], most: int) -> tuple[int, ...]:
    """Take the steps of one level of the chosen lines; `taken` is moved on."""
    own, steps = [1] * len(lines), [0] * len(lines)
    while True:
        nodes = math.prod(own)
        fitting = [
            place
            for place in chosen
            if taken[place] < len(lines[place].fans) and (nodes == 1 or nodes * lines[place].fans[taken[place]] <= most)
        ]
        if not fitting:
            return tuple(own)
        longest = max(fitting, key=lambda place: (_left(lines[place], taken[place]), -steps[place]))
        own[longest] *= lines[longest].fans[taken[longest]]
        taken[longest] += 1
        steps[longest] += 1


def _left(line: Line, step: int) -> int:
    """Halvings that would lead from a step of a line to its values."""
    return (math.prod(line.fans[step:]) - 1).bit_length()
