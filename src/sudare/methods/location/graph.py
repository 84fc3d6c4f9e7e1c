"""Roads: places are crossings, distance is the shortest way along edges (Takagi's GEM is GridE with this metric)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sudare.errors import ParameterError
from sudare.methods.location.grid import Cells

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

    def squares(self, cell: int) -> Cells:
        """Squared lengths of the shortest ways, in square millimetres."""
        from scipy.sparse.csgraph import dijkstra

        lengths: Cells = np.rint(dijkstra(self._weights(), directed=False, indices=int(cell))).astype(np.int64)
        if int(lengths.max()) > LONGEST:
            raise ParameterError(
                "the road map is more than {most} km across; use a smaller area", most=LONGEST // 10**6
            )
        return lengths * lengths

    def parts(self) -> list[Cells]:
        """The connected parts, the largest first."""
        from scipy.sparse.csgraph import connected_components

        _, part = connected_components(self._weights(), directed=False)
        found = [np.flatnonzero(part == one) for one in range(int(part.max()) + 1)]
        return sorted(found, key=len, reverse=True)

    def labels(self, cells: Cells) -> NDArray[np.object_]:
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
