"""Modes on 100,000 places that are no plane: made-up roads and H3-like points, CPU seconds and memory.

    python -m benchmarks.location_large roads|points MODE [SIDE] [EPSILON]

Roads: crossings of a grid moved by up to 30 m, one road in ten missing, each 1 to 1.4 times the straight way; the
largest connected part is kept. Points: a hexagonal lattice of 66 m (H3 resolution 10) on the sphere. Weights of
mode weighted are made up, too; MODE capped is fair with lognormal people as a prior, and near+ is near with the same.
"""

from __future__ import annotations

import resource
import sys
import time
from fractions import Fraction

import numpy as np

from sudare.methods.location.grid import PointPlaces
from sudare.methods.location.location import Location
from sudare.methods.location.roads import RoadGraph

SPACING = 100  # metres between crossings
HEXAGON = 131  # metres between the middles of hexagons of H3 resolution 10


def make_roads(side: int, seed: int) -> RoadGraph:
    """Make roads of about side x side crossings."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    numbers = np.random.default_rng(seed)
    rows, columns = np.divmod(np.arange(side * side), side)
    places = np.column_stack([rows, columns]) * SPACING + numbers.uniform(-30, 30, (side * side, 2))
    cells = np.arange(side * side)
    pairs = np.concatenate([
        np.column_stack([cells[columns < side - 1], cells[columns < side - 1] + 1]),
        np.column_stack([cells[rows < side - 1], cells[rows < side - 1] + side]),
    ])  # fmt: skip
    pairs = pairs[numbers.uniform(size=len(pairs)) > 0.1]
    straight = np.hypot(*(places[pairs[:, 0]] - places[pairs[:, 1]]).T)
    lengths = np.ceil(1000 * straight * numbers.uniform(1, 1.4, len(pairs))).astype(np.int64)
    matrix = coo_matrix((lengths, pairs.T), shape=(len(cells), len(cells)))
    part = connected_components(matrix, directed=False)[1]
    kept = np.flatnonzero(part == np.bincount(part).argmax())
    number = np.full(len(cells), -1)
    number[kept] = np.arange(len(kept))
    edges = [(int(number[a]), int(number[b]), int(length)) for (a, b), length in zip(pairs, lengths, strict=True)
             if number[a] >= 0 and number[b] >= 0]  # fmt: skip
    return RoadGraph(names=tuple(f"x{place}" for place in kept.tolist()), edges=tuple(edges))


def make_points(side: int) -> PointPlaces:
    """Make side x side points of a hexagonal lattice, bent onto a sphere."""
    rows, columns = np.divmod(np.arange(side * side), side)
    east, north = (columns + (rows % 2) / 2) * HEXAGON, rows * HEXAGON * np.sqrt(3) / 2
    radius = 6_371_000.0
    up = np.sqrt(radius**2 - (east - east.mean()) ** 2 - (north - north.mean()) ** 2)
    points = np.rint(np.column_stack([east, north, up]) * 1000).astype(np.int64)
    return PointPlaces(points=points, names=tuple(f"h{place}" for place in range(side * side)))


def main() -> None:
    """Build one mode and tell what it costs."""
    kind, mode = sys.argv[1:3]
    side, epsilon = int(sys.argv[3]) if len(sys.argv) > 3 else 317, sys.argv[4] if len(sys.argv) > 4 else "0.02"
    begun = time.process_time()
    places = make_roads(side, 5) if kind == "roads" else make_points(side)
    made = time.process_time() - begun
    numbers = np.random.default_rng(9)
    weights = np.clip(numbers.uniform(0.1, 1.5, places.size), 0, 1) if mode == "weighted" else None
    prior = numbers.lognormal(0, 1, places.size) if mode in ("capped", "near+") else None
    chosen = {"capped": "fair", "near+": "near"}.get(mode, mode)
    method = Location(grid=places, epsilon_per_metre=Fraction(epsilon), mode=chosen, weights=weights, prior=prior)  # type: ignore
    begun = time.process_time()
    law = method.mechanism()
    built = time.process_time() - begun
    figures = method.measure(law).measures()
    spent = time.process_time() - begun
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{kind} {mode} {places.size} places, epsilon {epsilon}: map {made:.0f}, law {built:.0f}, with measures"
          f" {spent:.0f} CPU s, {memory:.1f} GB")  # fmt: skip
    print({name: figure for name, figure in figures.items() if isinstance(figure, float)}, flush=True)


if __name__ == "__main__":
    main()
