"""Small maps of every metric, for tests that look at all pairs."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from sudare.methods.location.grid import ElasticGrid, Places, PlaneGrid, PointPlaces, distances_from
from sudare.methods.location.mechanism import Mechanism
from sudare.methods.location.roads import RoadGraph

PAPER = PlaneGrid(rows=15, columns=15, cell_height_metres="115.6", cell_width_metres="141.5")
SMALL = PlaneGrid(rows=5, columns=4, cell_height_metres="115.6", cell_width_metres="141.5")

LAND = np.array([1, 1, 0.5, 0, 1, 0.25, 0, 0, 1, 1, 0.01, 0, 1, 1, 1, 0.6, 0, 1, 1, 1])


def _levels() -> ElasticGrid:
    levels = np.full(SMALL.size, 1000)
    levels[[5, 14]] = (250, 600)
    return ElasticGrid(grid=SMALL, levels=levels)


def _roads() -> RoadGraph:
    ring = [(k, (k + 1) % 9, 80_000 + 13_337 * k) for k in range(9)]
    return RoadGraph(names=tuple(f"n{k}" for k in range(11)), edges=(*ring, (2, 9, 55_000), (9, 10, 240_500)))


def _hexagons() -> PointPlaces:
    places = [(174_000 * column + 87_000 * (row % 2), 150_688 * row) for row in range(4) for column in range(4)]
    return PointPlaces(points=np.array(places), names=tuple(f"h{k}" for k in range(16)))


MAPS: dict[str, Places] = {"plane": SMALL, "elastic": _levels(), "graph": _roads(), "points": _hexagons()}


def land_of(places: Places) -> np.ndarray:
    """A weight for every cell, one of them 0 and one tiny."""
    return np.resize(LAND, places.size)


def worst_ratio(mechanism: Mechanism) -> float:
    """max over inputs x, x' and reports y of (log P(y|x) - log P(y|x')) / d(x, x'), from the rows alone."""
    inputs, told = np.flatnonzero(mechanism.can_enter), mechanism.weights > 0
    logs = np.log(np.array([mechanism.report_law(int(cell)) for cell in inputs])[:, told])
    worst = 0.0
    for place, cell in enumerate(inputs.tolist()):
        distance = distances_from(mechanism.places, cell)[inputs]
        apart = distance > 0
        worst = max(worst, float(((logs[place] - logs)[apart].max(axis=1) / distance[apart]).max(initial=0.0)))
    return worst


def mechanism(places: Places, beta: str, weights: np.ndarray, **options: object) -> Mechanism:
    """A mechanism with weights in 2**40ths."""
    return Mechanism(places=places, beta_per_metre=Fraction(beta), weights=weights, **options)  # type: ignore[arg-type]
