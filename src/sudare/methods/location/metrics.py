"""Roads: places are crossings, distance is the shortest way along edges (Takagi's GEM is GridE with this metric)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sudare.errors import ParameterError
from sudare.methods.location.grid import PlaneGrid
from sudare.schema.arrays import Integers

MILLIMETRES = Fraction(1, 1000)
LONGEST = 2 * 10**9  # millimetres: squares fit 64 bits, sums are exact as floats


@dataclass(frozen=True, kw_only=True, eq=False)
class RoadGraph:
    """Crossings and roads between them, which may be walked both ways; lengths in whole millimetres.

    Shortest ways obey the triangle inequality, so the promise holds as on a plane, per metre of road.
    Source: Takagi, Cao, Asano, Yoshikawa 2019 (Geo-Graph-Indistinguishability).

    >>> roads = RoadGraph(names=("a", "b", "c"), edges=((0, 1, 100_000), (1, 2, 50_000), (0, 2, 400_000)))
    >>> np.sqrt(roads.squares(0)).tolist()
    [0.0, 100000.0, 150000.0]
    """

    names: tuple[str, ...]
    edges: tuple[tuple[int, int, int], ...]
    unit_metres: Fraction = field(default=MILLIMETRES, init=False)
    _matrix: list[Any] = field(default_factory=list, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", tuple(str(name) for name in self.names))
        object.__setattr__(self, "edges", tuple((int(a), int(b), int(length)) for a, b, length in self.edges))
        if not self.names or len(set(self.names)) < len(self.names):
            raise ParameterError("every place of a road map needs a name of its own; rename those that are alike")
        for a, b, length in self.edges:
            if not (0 <= a < self.size and 0 <= b < self.size):
                raise ParameterError(
                    "a road ends at a place ({place}) that is not on the map; add the place, or take the road out",
                    place=max(a, b),
                )
            if not 0 < length <= LONGEST:
                raise ParameterError("the length of a road ({metres} m) must be above 0", metres=Fraction(length, 1000))
        parts = len(self.parts())
        if parts > 1:
            raise ParameterError(
                "the road map falls into {parts} parts without a road between them; publish each part by itself,"
                " or add the missing roads",
                parts=parts,
            )

    @classmethod
    def of_metres(cls, edges: Iterable[tuple[str, str, Fraction]]) -> RoadGraph:
        """Make a graph of named places and lengths in metres, rounded down to millimetres.

        >>> RoadGraph.of_metres([("a", "b", Fraction("12.5"))]).edges
        ((0, 1, 12500),)
        """
        listed = list(edges)
        numbers = {
            name: number for number, name in enumerate(dict.fromkeys(name for a, b, _ in listed for name in (a, b)))
        }
        found = tuple((numbers[a], numbers[b], int(metres * 1000)) for a, b, metres in listed if a != b)
        return cls(names=tuple(numbers), edges=found)

    @property
    def size(self) -> int:
        """How many places there are."""
        return len(self.names)

    def squares(self, cell: int) -> Integers:
        """Squared lengths of the shortest ways, in square millimetres."""
        from scipy.sparse.csgraph import dijkstra

        lengths: Integers = np.rint(dijkstra(self._weights(), directed=False, indices=int(cell))).astype(np.int64)
        if int(lengths.max()) > LONGEST:
            raise ParameterError(
                "the road map is more than {most} km across; use a smaller area", most=LONGEST // 10**6
            )
        return lengths * lengths

    def parts(self) -> list[Integers]:
        """The connected parts, the largest first."""
        from scipy.sparse.csgraph import connected_components

        _, part = connected_components(self._weights(), directed=False)
        found = [np.flatnonzero(part == one) for one in range(int(part.max()) + 1)]
        return sorted(found, key=len, reverse=True)

    def labels(self, cells: Integers) -> NDArray[np.object_]:
        """The names."""
        return np.array(self.names, dtype=object)[np.asarray(cells)]

    def to_dict(self) -> dict[str, Any]:
        """The roads as JSON-able facts."""
        edges = [list(edge) for edge in self.edges]
        return {"kind": "graph", "unit_metres": "1/1000", "names": list(self.names), "edges": edges}

    def _weights(self) -> Any:
        """A sparse matrix of lengths; of parallel roads the shortest."""
        from scipy.sparse import csr_matrix

        if not self._matrix:
            shortest: dict[tuple[int, int], int] = {}
            for a, b, length in self.edges:
                key = (min(a, b), max(a, b))
                shortest[key] = min(length, shortest.get(key, length))
            rows, columns = (np.array([key[end] for key in shortest], dtype=np.int64) for end in (0, 1))
            lengths = np.array(list(shortest.values()), dtype=np.float64)
            self._matrix.append(csr_matrix((lengths, (rows, columns)), shape=(self.size, self.size)))
        return self._matrix[0]


# Levels: a hospital stricter than a park. The straight distance, shortened around strict places.
#
# A cell with level s (at most 1) counts every distance from it s times. So a person there is hidden among places that
# are 1/s times farther away. A metric needs the triangle inequality, too: if the way by a strict place is shorter, it
# counts.
#
#     e(x, y) = ceil(min(s_x, s_y) * |x y|)        in units of a thousandth of the grid's
#     d(x, y) = the shortest way from x to y along such steps
#
# Rounding up keeps the triangle inequality where levels are equal; steps through places no stricter than both ends
# never shorten a way, so only strict places are looked at. Source: after the elastic metrics of Chatzikokolakis,
# Palamidessi, Stronati 2015.


PARTS = 1000
MOST_STRICT = 1000


@dataclass(frozen=True, kw_only=True, eq=False)
class ElasticGrid:
    """A plane grid whose cells have levels, in thousandths: 1000 is the plain distance, 250 four times as strict.

    >>> park = PlaneGrid(rows=1, columns=3, cell_height_metres=100, cell_width_metres=100)
    >>> levels = ElasticGrid(grid=park, levels=np.array([1000, 1000, 500]))
    >>> (np.sqrt(levels.squares(0)) * float(levels.unit_metres)).tolist()
    [0.0, 100.0, 100.0]
    """

    grid: PlaneGrid
    levels: Integers
    _ways: list[Integers] = field(default_factory=list, repr=False)

    def __post_init__(self) -> None:
        levels = np.asarray(self.levels)
        if levels.dtype.kind not in "iu" or levels.shape != (self.grid.size,):
            raise ParameterError("levels must be whole thousandths, one per cell ({cells})", cells=self.grid.size)
        if int(levels.min()) < 1 or int(levels.max()) > PARTS:
            raise ParameterError("levels must be above 0 and at most 1, in thousandths")
        object.__setattr__(self, "levels", levels.astype(np.int64))
        if len(self.strict) > MOST_STRICT:
            raise ParameterError(
                "{cells} cells are stricter than the rest; at most {most} may be",
                cells=len(self.strict),
                most=MOST_STRICT,
            )

    @property
    def size(self) -> int:
        """How many cells there are."""
        return self.grid.size

    @property
    def unit_metres(self) -> Fraction:
        """A thousandth of the unit of the grid."""
        return self.grid.unit_metres / PARTS

    @property
    def strict(self) -> Integers:
        """The cells that are stricter than the most lenient one."""
        return np.flatnonzero(self.levels < self.levels.max())

    def squares(self, cell: int) -> Integers:
        """Squared distances, in squared units."""
        direct = self._steps(int(cell))
        if len(self.strict):
            first = (direct[self.strict][:, None] + self._between()).min(axis=0)  # to each strict place
            for place, way in zip(self.strict.tolist(), first.tolist(), strict=True):
                direct = np.minimum(direct, way + self._steps(place))
        return direct * direct

    def labels(self, cells: Integers) -> NDArray[np.object_]:
        """The labels of the grid."""
        return self.grid.labels(cells)

    def to_dict(self) -> dict[str, Any]:
        """Grid and levels as JSON-able facts."""
        return {"kind": "elastic", "grid": self.grid.to_dict(), "levels": self.levels.tolist()}

    def _steps(self, cell: int) -> Integers:
        """e(x, y) from one cell, exact: the square root of an integer, rounded up."""
        factor = np.minimum(self.levels, self.levels[cell])
        return _root_up(self.grid.squares(cell) * (factor * factor))

    def _between(self) -> Integers:
        """Shortest ways between strict places, along strict places."""
        if not self._ways:
            ways = np.array([self._steps(place)[self.strict] for place in self.strict.tolist()])
            for middle in range(len(self.strict)):
                ways = np.minimum(ways, ways[:, middle, None] + ways[None, middle, :])
            self._ways.append(ways)
        return self._ways[0]


def _root_up(squares: Integers) -> Integers:
    """The smallest integers whose squares reach these.

    >>> _root_up(np.array([0, 1, 2, 4, 5, 10**18 + 1])).tolist()
    [0, 1, 2, 2, 3, 1000000001]
    """
    roots = np.sqrt(squares.astype(np.float64)).astype(np.int64)
    roots = np.where(roots * roots > squares, roots - 1, roots)
    return np.where(roots * roots < squares, roots + 1, roots)
