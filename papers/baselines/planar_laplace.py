"""Planar Laplace: the noise of geo-indistinguishability, on the ellipsoid and on a grid, with what it really keeps."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from papers.baselines.base import check_choice, generator
from sudare.errors import ParameterError
from sudare.noise import Rng
from sudare.privacy.exact import exact
from sudare.schema.arrays import Integers, Reals
from sudare.schema.mesh import POLE_RADIUS, check_latitude, travel

LOW, HIGH = Fraction(1, 10**9), Fraction(10)
DIRECTIONS = 2048  # of the integral over the map; the integrand is smooth but at four corners
MOST_CELLS = 5_000


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanarLaplace:
    """Move a place by r metres in a uniform direction, r with density epsilon^2 r exp(-epsilon r).

    On the ellipsoid the place is moved along a geodesic, so that the error to the north equals that to the east at
    every latitude. On a grid the noisy point is put into its cell, and `beyond` says what happens outside the map or in
    the sea: "remap" takes the nearest cell of weight above 0, which is post-processing and costs nothing; "redraw"
    draws again, which does not keep epsilon: `real_epsilon_per_metre` tells what it keeps.

    The noise is made of floats, whose last bits can give a place away (Mironov 2012): for comparisons only.

    Source: Andres, Bordenabe, Chatzikokolakis, Palamidessi, Geo-indistinguishability, 2013, section 4.

    >>> round(PlanarLaplace(epsilon_per_metre="0.02").expected_metres)
    100
    """

    epsilon_per_metre: Fraction | str | int | float
    beyond: Literal["remap", "redraw"] = "remap"

    def __post_init__(self) -> None:
        given = exact(self.epsilon_per_metre, name="epsilon_per_metre", low=LOW, high=HIGH)
        object.__setattr__(self, "epsilon_per_metre", given)
        check_choice("beyond", self.beyond, ("remap", "redraw"))

    @property
    def expected_metres(self) -> float:
        """How far a place is moved on average."""
        return 2 / float(self.epsilon_per_metre)

    def steps(self, size: int, rng: Rng) -> tuple[Reals, Reals]:
        """Draw azimuths (radians) and distances (metres)."""
        numbers = generator(rng)
        return numbers.uniform(0, 2 * math.pi, size), numbers.gamma(2.0, self.expected_metres / 2, size)

    def draw(self, latitude: ArrayLike, longitude: ArrayLike, *, rng: Rng) -> tuple[Reals, Reals]:
        """Move places given in degrees; returns latitudes and longitudes."""
        north, east = np.broadcast_arrays(np.atleast_1d(latitude), np.atleast_1d(longitude))
        check_latitude(float(np.abs(north).max()))
        return travel(north, east, *self.steps(north.size, rng))

    def epsilon_on_globe(self, *, within_metres: float) -> tuple[float, float]:
        """Give the epsilon per metre kept among places within so many metres of a report, and the chance to be further.

        Geodesics converge: the density at distance r is that of the plane times r / (R sin(r/R)), whose logarithm
        grows by 1/r - cot(r/R)/R per metre; R is the smallest radius of curvature of the ellipsoid.

        >>> kept, further = PlanarLaplace(epsilon_per_metre="0.01").epsilon_on_globe(within_metres=10_000)
        >>> f"{kept - 0.01:.1e}", f"{further:.1e}"
        ('8.2e-11', '3.8e-42')
        """
        angle, epsilon = within_metres / POLE_RADIUS, float(self.epsilon_per_metre)
        # 1/a - cot(a) = a/3 + a^3/45 + ...: the series where the difference would cancel
        slope = angle / 3 + angle**3 / 45 if angle < 0.01 else 1 / angle - 1 / math.tan(angle)
        reach = epsilon * within_metres
        return epsilon + slope / POLE_RADIUS, (1 + reach) * math.exp(-reach)

    def draw_cells(self, cells: ArrayLike, *, grid: PlainGrid, rng: Rng) -> Integers:
        """Move the centres of cells of a plane grid and tell in which cells they come to lie."""
        asked = np.atleast_1d(np.asarray(cells, dtype=np.int64))
        out = np.empty(len(asked), dtype=np.int64)
        places = np.arange(len(asked))
        while len(places):
            azimuth, metres = self.steps(len(places), rng)
            rows, columns = np.divmod(asked[places], grid.columns)
            down = np.rint(rows + metres * np.cos(azimuth) / grid.height).astype(np.int64)
            across = np.rint(columns + metres * np.sin(azimuth) / grid.width).astype(np.int64)
            if self.beyond == "remap":
                out[places] = grid.nearest(down, across)
                break
            is_kept = grid.has(down, across)
            out[places[is_kept]] = (down * grid.columns + across)[is_kept]
            places = places[~is_kept]
        return out

    def real_epsilon_per_metre(self, grid: PlainGrid) -> float:
        """Tell the epsilon per metre kept between centres of cells: the nominal one, or more under "redraw".

        Drawing again divides by the chance Z(x) to land on the map, so that log-ratios gain |ln Z(x) - ln Z(x')|.
        Z comes from an integral over directions; only for maps without sea, whose shape is a rectangle.
        """
        if self.beyond == "remap":
            return float(self.epsilon_per_metre)
        if grid.size > MOST_CELLS or not grid.is_full:
            raise ParameterError(
                "the epsilon of redrawing is computed for maps of at most {most} cells, all of weight above 0",
                most=MOST_CELLS,
            )
        levels = np.log(self._chances(grid))
        rows, columns = np.divmod(np.arange(grid.size), grid.columns)
        steepest = 0.0
        for cell in range(grid.size):
            metres = np.hypot((rows - rows[cell]) * grid.height, (columns - columns[cell]) * grid.width)
            metres[cell] = np.inf
            steepest = max(steepest, float((np.abs(levels - levels[cell]) / metres).max()))
        return float(self.epsilon_per_metre) + steepest

    def _chances(self, grid: PlainGrid) -> Reals:
        """P[land on the map], from every centre: mean over directions of 1 - (1 + epsilon R) exp(-epsilon R)."""
        angles = (np.arange(DIRECTIONS) + 0.5) * (2 * math.pi / DIRECTIONS)
        rows, columns = np.divmod(np.arange(grid.size), grid.columns)
        chances = np.zeros(grid.size)
        for north, east in zip(np.cos(angles), np.sin(angles), strict=True):
            up = (grid.rows - 0.5 - rows if north > 0 else rows + 0.5) * grid.height / abs(north)
            side = (grid.columns - 0.5 - columns if east > 0 else columns + 0.5) * grid.width / abs(east)
            reach = float(self.epsilon_per_metre) * np.minimum(up, side)
            chances += 1 - (1 + reach) * np.exp(-reach)
        return chances / DIRECTIONS


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class PlainGrid:
    """Equal cells of `height` x `width` metres, numbered row by row; weights of 0 are sea.

    >>> PlainGrid(rows=2, columns=3, height=100.0, width=100.0).size
    6
    """

    rows: int
    columns: int
    height: float
    width: float
    weights: NDArray[np.generic] | None = None

    @property
    def size(self) -> int:
        """How many cells there are."""
        return self.rows * self.columns

    @property
    def land(self) -> Integers:
        """The cells that can be reported."""
        return np.arange(self.size) if self.weights is None else np.flatnonzero(self.weights)

    @property
    def is_full(self) -> bool:
        """There is no sea."""
        return len(self.land) == self.size

    def has(self, rows: Integers, columns: Integers) -> NDArray[np.bool_]:
        """Tell which cells are on the map and not in the sea."""
        inside = (rows >= 0) & (rows < self.rows) & (columns >= 0) & (columns < self.columns)
        codes = np.where(inside, rows * self.columns + columns, 0)
        return inside if self.weights is None else inside & (np.asarray(self.weights)[codes] > 0)

    def nearest(self, rows: Integers, columns: Integers) -> Integers:
        """Give the nearest cell that can be reported, by the distance of centres."""
        clipped = np.clip(rows, 0, self.rows - 1) * self.columns + np.clip(columns, 0, self.columns - 1)
        if self.is_full:
            return clipped
        found, land = clipped.copy(), self.land
        to_rows, to_columns = np.divmod(land, self.columns)
        for place in np.flatnonzero(~self.has(rows, columns)).tolist():
            metres = np.hypot((to_rows - rows[place]) * self.height, (to_columns - columns[place]) * self.width)
            found[place] = land[np.argmin(metres)]
        return found
