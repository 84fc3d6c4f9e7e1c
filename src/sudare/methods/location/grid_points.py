"""Cells given by their centres: hexagons, or mesh cells of a country too long for one cell size."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sudare.errors import ParameterError
from sudare.methods.location.grid import Cells

MILLIMETRES = Fraction(1, 1000)
FARTHEST = 10**9  # millimetres between two points: squares of three such differences fit 64 bits


@dataclass(frozen=True, kw_only=True, eq=False)
class PointPlaces:
    """Centres in whole millimetres, in two or three dimensions; distances are straight lines between them.

    Three dimensions are for points on the globe: the chord is a metric and never longer than the way on the ground, so
    a promise per metre of chord holds per metre of ground.

    >>> places = PointPlaces(points=np.array([[0, 0], [3000, 4000]]), names=("a", "b"))
    >>> places.squares(0).tolist(), places.labels(np.array([1])).tolist()
    ([0, 25000000], ['b'])
    """

    points: Cells
    names: tuple[str, ...]
    unit_metres: Fraction = field(default=MILLIMETRES, init=False)

    def __post_init__(self) -> None:
        points = np.asarray(self.points)
        if points.dtype.kind not in "iu" or points.ndim != 2 or points.shape[1] not in (2, 3) or not len(points):
            raise ParameterError("points must be whole millimetres, two or three numbers a cell")
        if int((points.max(axis=0) - points.min(axis=0)).max()) > FARTHEST:
            raise ParameterError("the cells lie more than {most} km apart; use a smaller area", most=FARTHEST // 10**6)
        if len(self.names) != len(points) or len(set(self.names)) < len(points):
            raise ParameterError(
                "every cell needs a name of its own ({cells} cells); rename those that are alike", cells=len(points)
            )
        object.__setattr__(self, "points", points.astype(np.int64))
        object.__setattr__(self, "names", tuple(self.names))

    @property
    def size(self) -> int:
        """How many cells there are."""
        return len(self.names)

    def squares(self, cell: int) -> Cells:
        """Squared distances in square millimetres."""
        squares: Cells = ((self.points - self.points[cell]) ** 2).sum(axis=1)
        return squares

    def labels(self, cells: Cells) -> NDArray[np.object_]:
        """The names."""
        return np.array(self.names, dtype=object)[np.asarray(cells)]

    def to_dict(self) -> dict[str, Any]:
        """The points as JSON-able facts."""
        return {"kind": "points", "unit_metres": "1/1000", "points": self.points.tolist(), "names": list(self.names)}
