"""Levels: a hospital stricter than a park. The straight distance, shortened around strict places.

A cell with level s (at most 1) counts every distance from it s times. So a person there is hidden among places that are
1/s times farther away. A metric needs the triangle inequality, too: if the way by a strict place is shorter, it counts.

    e(x, y) = ceil(min(s_x, s_y) * |x y|)        in units of a thousandth of the grid's
    d(x, y) = the shortest way from x to y along such steps

Rounding up keeps the triangle inequality where levels are equal; steps through places no stricter than both ends never
shorten a way, so only strict places are looked at. Source: after the elastic metrics of Chatzikokolakis, Palamidessi,
Stronati 2015.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sudare.errors import ParameterError
from sudare.methods.location.grid import Cells, PlaneGrid

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
    levels: Cells
    _ways: list[Cells] = field(default_factory=list, repr=False)

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
    def strict(self) -> Cells:
        """The cells that are stricter than the most lenient one."""
        return np.flatnonzero(self.levels < self.levels.max())

    def squares(self, cell: int) -> Cells:
        """Squared distances, in squared units."""
        direct = self._steps(int(cell))
        if len(self.strict):
            first = (direct[self.strict][:, None] + self._between()).min(axis=0)  # to each strict place
            for place, way in zip(self.strict.tolist(), first.tolist(), strict=True):
                direct = np.minimum(direct, way + self._steps(place))
        return direct * direct

    def labels(self, cells: Cells) -> NDArray[np.object_]:
        """The labels of the grid."""
        return self.grid.labels(cells)

    def to_dict(self) -> dict[str, Any]:
        """Grid and levels as JSON-able facts."""
        return {"kind": "elastic", "grid": self.grid.to_dict(), "levels": self.levels.tolist()}

    def _steps(self, cell: int) -> Cells:
        """e(x, y) from one cell, exact: the square root of an integer, rounded up."""
        factor = np.minimum(self.levels, self.levels[cell])
        return _root_up(self.grid.squares(cell) * (factor * factor))

    def _between(self) -> Cells:
        """Shortest ways between strict places, along strict places."""
        if not self._ways:
            ways = np.array([self._steps(place)[self.strict] for place in self.strict.tolist()])
            for middle in range(len(self.strict)):
                ways = np.minimum(ways, ways[:, middle, None] + ways[None, middle, :])
            self._ways.append(ways)
        return self._ways[0]


def _root_up(squares: Cells) -> Cells:
    """The smallest integers whose squares reach these.

    >>> _root_up(np.array([0, 1, 2, 4, 5, 10**18 + 1])).tolist()
    [0, 1, 2, 2, 3, 1000000001]
    """
    roots = np.sqrt(squares.astype(np.float64)).astype(np.int64)
    roots = np.where(roots * roots > squares, roots - 1, roots)
    return np.where(roots * roots < squares, roots + 1, roots)
