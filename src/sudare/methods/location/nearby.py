"""Sums over maps that are too large for a table of all distances and are no plane: pairs of places within reach.

    (E v)(x) = v(x) + sum over y within reach of x of v(y) exp(-beta d(x, y)),     beyond: at most `error_of(v)`

Reach is so many times 1/beta that what lies beyond is far below a sum; it is bounded, not forgotten. On roads places
are taken in tiles: what is within reach of a tile is cut out of the map, and shortest paths are searched there. Each
pair is kept once, its length exact. Points (H3) are searched by a tree, other maps row by row.

The bound: x lies within r of the middle c of its tile, so d(x, y) >= d(c, y) - r. The places beyond reach are counted
in rings by that length, the most of any tile in each ring, and each counts as if it stood at its ring's inner edge.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sudare.errors import ParameterError
from sudare.methods.location.grid import Places, PointPlaces, distances_from
from sudare.methods.location.roads import RoadGraph
from sudare.schema.arrays import Integers, Reals

ROAD_DECAYS, POINT_DECAYS = 26.0, 32.0  # reach, in units of 1/beta
MAX_PAIRS = 300_000_000  # kept: 8 bytes each on roads, 12 elsewhere
MAX_FULL_PAIRS = 80_000_000  # of a sparse matrix both ways, which takes about 60 bytes a pair with those made of it
MAX_KEPT_DECAYS = 100_000_000  # pairs up to which exp(-beta d) is kept, 8 bytes each
MAX_ROWS = 20_000  # cells of a map that is searched row by row
COARSE_DECAYS = 12.0  # a shorter reach, for weights that are sought
RINGS = 11  # beyond reach, each a 20th of it wide; the last one has no end
CHUNK = 2**23  # pairs in one block of a sum
TILE_SHARE, WIDE_TILE_SHARE = 0.35, 1.0  # radius of a tile, as a share of reach; wide where the rest is not bounded
POINT_BLOCK = 2_000  # points that are searched at once
GOLDEN_RATIO = 0.6180339887498949  # multiples of it, modulo 1, put places into an order without a pattern


@dataclass(frozen=True, kw_only=True, eq=False)
class NearbyPairs:
    """Pairs x < y of places within reach, row by row, with their lengths; `beyond` counts the rest in rings."""

    size: int
    reach: float  # metres
    unit: float  # of `lengths`, in metres
    starts: Integers
    others: Integers
    lengths: Any  # whole millimetres on roads, metres elsewhere
    beyond: Reals  # (ring,): how many places beyond reach a place has at most

    def chunks(self) -> Iterator[tuple[int, int, Integers, Integers, Reals]]:
        """Give blocks of rows: first row, last row, where rows start, the other places, metres."""
        row = 0
        while row < self.size:
            last = int(np.searchsorted(self.starts, self.starts[row] + CHUNK, side="right")) - 1
            last = min(max(last, row + 1), self.size)
            low, high = int(self.starts[row]), int(self.starts[last])
            metres = self.lengths[low:high].astype(np.float64) * self.unit
            yield row, last, self.starts[row : last + 1] - low, self.others[low:high], metres
            row = last

    def full_rows(self, metres: float) -> Any:
        """Give all distances up to so many metres as a sparse matrix, both ways, without places themselves."""
        return self.shorten(metres).make_symmetric()

    def make_symmetric(self) -> Any:
        """Give the lengths of all pairs as a sparse matrix, both ways, without places themselves."""
        from scipy.sparse import csr_matrix

        upper = csr_matrix((self.lengths, self.others, self.starts), shape=(self.size, self.size))
        return (upper + upper.T).tocsr()

    def shorten(self, metres: float) -> NearbyPairs:
        """Give the pairs up to so many metres; what lies beyond is not bounded anew."""
        parts = list(self._cut(metres))
        return replace(
            self,
            reach=metres,
            unit=1.0,
            starts=np.concatenate([[0], np.cumsum(np.concatenate([counts for counts, _, _ in parts]))]),
            others=np.concatenate([others for _, others, _ in parts]),
            lengths=np.concatenate([lengths for _, _, lengths in parts]),
        )

    def _cut(self, metres: float) -> Iterator[tuple[Integers, Integers, Reals]]:
        """Give counts, other places and metres of the pairs up to so many metres, as new arrays."""
        for row, last, starts, others, lengths in self.chunks():
            is_near = lengths <= metres
            rows = np.repeat(np.arange(last - row), np.diff(starts))
            yield np.bincount(rows[is_near], minlength=last - row), others[is_near], lengths[is_near]


def find_reach(places: Places, beta: float) -> float:
    """Give the metres up to which pairs are needed at this beta; those at hand may reach farther."""
    return (ROAD_DECAYS if isinstance(places, RoadGraph) else POINT_DECAYS) / beta


def find_nearby(places: Places, beta: float) -> NearbyPairs:
    """Find the pairs within reach at this beta; those of the last map are kept if they reach far enough."""
    reach = find_reach(places, beta)
    kept: Any = places
    found = _kept_pairs(kept)
    if not found or found[0].reach < reach:
        found[:] = [
            _search(places, max(reach, 2.02 * found[0].reach) if found else 1.02 * reach)
        ]  # beta is lowered by steps, from epsilon to its half at most
    return found[0]


SAMPLED_PLACES = 24  # around which places are counted before pairs are searched


def require_few_pairs(places: Places, beta: float, most: int = MAX_PAIRS) -> None:
    """Refuse a map with too many pairs within reach before they are searched: counted around some places."""
    _check_pairs(count_pairs(places, beta), places.size, most)


def count_pairs(places: Places, beta: float) -> int:
    """Estimate the pairs within reach, by the places around some of them."""
    reach = find_reach(places, beta)
    sample = np.unique(np.linspace(0, places.size - 1, SAMPLED_PLACES).astype(np.int64))
    if isinstance(places, RoadGraph):
        from scipy.sparse.csgraph import dijkstra

        counts = np.isfinite(dijkstra(places.both_ways(), indices=sample, limit=1000 * reach)).sum(axis=1)
    elif isinstance(places, PointPlaces):
        from scipy.spatial import cKDTree

        points = places.points.astype(np.float64) / 1000
        counts = cKDTree(points).query_ball_point(points[sample], reach, return_length=True)
    else:
        _require_few_rows(places)
        counts = np.array([(places.metres(int(cell)) <= reach).sum() for cell in sample.tolist()])
    return int(counts.mean() * places.size / 2)


def find_spacing(places: Places) -> float:
    """Give how far the nearest other place is, usually, in metres."""
    if isinstance(places, RoadGraph):
        return float(np.median([length for _, _, length in places.edges])) / 1000
    sample = np.unique(np.linspace(0, places.size - 1, SAMPLED_PLACES).astype(np.int64))
    rows = [distances_from(places, cell) for cell in sample.tolist()]
    return float(np.median([row[row > 0].min() for row in rows]))


def find_metres(places: Places, cell: int, most: float) -> Reals:
    """Give the distances from a cell; on roads those above `most` are infinite."""
    if not isinstance(places, RoadGraph):
        return distances_from(places, cell)
    from scipy.sparse.csgraph import dijkstra

    lengths: Reals = dijkstra(places.both_ways(), indices=cell, limit=1000 * most)
    return lengths / 1000


def search_nearby(places: Places, reach: float) -> Any:
    """Give all distances up to so many metres as a sparse matrix, both ways; pairs at hand are taken if they reach."""
    kept: Any = places
    found = _kept_pairs(kept)
    if found and found[0].reach >= reach:
        near = found[0].shorten(reach)
    else:
        searched = _search(places, reach, is_bounded=False)
        near = replace(searched, unit=1.0, lengths=searched.lengths * searched.unit)
    _check_pairs(len(near.others), near.size, MAX_FULL_PAIRS)
    return near.make_symmetric()


def gather_tiles(metres: Any, radius: float) -> tuple[Integers, Integers]:
    """Give the middles of tiles, no two within `radius` of each other, and for every place the tile it is in.

    Each place is in the tile of the nearest middle. `metres` holds the distances up to radius at least, both ways.
    """
    size = metres.shape[0]
    tile_of, nearest = np.full(size, -1), np.full(size, np.inf)
    middles: list[int] = []
    for place in np.argsort(np.arange(size) * GOLDEN_RATIO % 1).tolist():  # rows in turn would make a lattice
        if tile_of[place] >= 0:
            continue
        row = slice(metres.indptr[place], metres.indptr[place + 1])
        others, lengths = metres.indices[row], metres.data[row]
        is_closer = (lengths <= radius) & (lengths < nearest[others])
        nearest[others[is_closer]], nearest[place] = lengths[is_closer], 0.0
        tile_of[others[is_closer]] = tile_of[place] = len(middles)
        middles.append(place)
    return np.array(middles), tile_of


def search_between(places: Places, chosen: Integers, reach: float) -> Any:
    """Give the distances between these places, up to so many metres, as a sparse matrix, both ways."""
    from scipy.sparse import csr_matrix, vstack

    if isinstance(places, RoadGraph):
        return _search_roads_between(places, chosen, reach)
    if isinstance(places, PointPlaces):
        rows = list(_search_all_points(places.points[chosen], reach))
        upper = csr_matrix((rows[0][2], rows[0][1], np.concatenate([[0], np.cumsum(rows[0][0])])), (len(chosen),) * 2)
        return (upper + upper.T).tocsr()
    parts = []
    for cell in chosen.tolist():
        metres = places.metres(cell)[chosen]
        parts.append(csr_matrix(np.where(metres <= reach, metres, 0.0)))
    return vstack(parts, format="csr")


def _search_roads_between(roads: RoadGraph, chosen: Integers, reach: float) -> Any:
    """Search tile by tile, as all pairs are."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import dijkstra

    matrix, limit, size = roads.both_ways(), int(reach * 1000), len(chosen)
    number, is_open, found = np.full(roads.size, -1), np.zeros(roads.size, dtype=np.bool_), []
    number[chosen], is_open[chosen] = np.arange(size), True
    for middle in chosen.tolist():
        if not is_open[middle]:
            continue
        from_middle = dijkstra(matrix, indices=middle, limit=2 * limit)
        tile, around = np.flatnonzero(is_open & (from_middle <= limit)), np.flatnonzero(np.isfinite(from_middle))
        is_open[tile] = False
        others = np.flatnonzero(number[around] >= 0)
        lengths = dijkstra(matrix[around][:, around], indices=np.searchsorted(around, tile), limit=limit)[:, others]
        rows, columns = np.nonzero((lengths > 0) & (lengths <= limit))
        found.append((number[tile][rows], number[around[others]][columns], lengths[rows, columns] / 1000))
    at, to, metres = (np.concatenate(part) for part in zip(*found, strict=True))
    return coo_matrix((metres, (at, to)), shape=(size, size)).tocsr()


@functools.lru_cache(maxsize=1)
def _kept_pairs(places: Any) -> list[NearbyPairs]:
    return []


def _search(places: Places, reach: float, *, is_bounded: bool = True) -> NearbyPairs:
    """Search the pairs; what lies beyond reach is bounded for laws, and not for estimates."""
    if isinstance(places, RoadGraph):
        return _search_roads(places, reach, is_bounded=is_bounded)
    rows: Rows
    if isinstance(places, PointPlaces):
        rows = _search_points(places, reach) if is_bounded else _search_all_points(places.points, reach)
    else:
        rows = _search_rows(places, reach)
    counts, others, lengths = _gather(rows, places.size)
    beyond = np.zeros(RINGS)
    beyond[0] = places.size
    return NearbyPairs(
        size=places.size,
        reach=reach,
        unit=1.0,
        starts=np.concatenate([[0], np.cumsum(counts)]),
        others=others,
        lengths=lengths,
        beyond=beyond,
    )


Rows = Iterator[tuple[Integers, Integers, Any]]  # how many others each of the next rows has, the others, their lengths


def _gather(rows: Rows, size: int) -> tuple[Integers, Integers, Any]:
    """Join rows, refusing a map with too many pairs before they fill the memory."""
    counts, others, lengths, total = [], [], [], 0
    for row_counts, row_others, row_lengths in rows:
        total += len(row_others)
        _check_pairs(total, size, MAX_PAIRS)
        counts.append(row_counts)
        others.append(row_others.astype(np.int32))
        lengths.append(row_lengths)
    return np.concatenate(counts), np.concatenate(others), np.concatenate(lengths)


def _check_pairs(pairs: int, size: int, most: int) -> None:
    if pairs > most:
        raise ParameterError(
            "this map of {cells} cells has more than {most} million pairs within reach at this epsilon; take a"
            " larger epsilon, a smaller area or fewer places",
            cells=size,
            most=most // 10**6,
        )


def _search_points(places: PointPlaces, reach: float) -> Rows:
    from scipy.spatial import cKDTree

    points = places.points.astype(np.float64) / 1000
    tree = cKDTree(points)
    for start in range(0, places.size, POINT_BLOCK):
        block = cKDTree(points[start : start + POINT_BLOCK])
        found = block.sparse_distance_matrix(tree, reach, output_type="ndarray")
        found = found[found["j"] > found["i"] + start]
        order = np.lexsort((found["j"], found["i"]))
        counts = np.bincount(found["i"], minlength=min(POINT_BLOCK, places.size - start))
        yield counts, found["j"][order], found["v"][order]


def _search_all_points(millimetres: Integers, reach: float) -> Rows:
    """Search all points at once, which takes half the time and more memory; lengths may differ in the last digit."""
    from scipy.sparse import csr_matrix
    from scipy.spatial import cKDTree

    points, size = millimetres.astype(np.float64) / 1000, len(millimetres)
    tree = cKDTree(points)
    _check_pairs(int(tree.count_neighbors(tree, reach) - size) // 2, size, MAX_FULL_PAIRS)
    pairs = tree.query_pairs(reach, output_type="ndarray").T
    squares = sum((axis[pairs[0]] - axis[pairs[1]]) ** 2 for axis in np.ascontiguousarray(points.T))
    lengths = np.sqrt(squares)
    upper = csr_matrix((lengths, pairs), shape=(size, size))
    yield np.diff(upper.indptr), upper.indices, upper.data


def _require_few_rows(places: Places) -> None:
    if places.size > MAX_ROWS:
        raise ParameterError(
            "a map of {cells} cells with this metric must have at most {most}; use larger cells or a plane grid",
            cells=places.size,
            most=MAX_ROWS,
        )


def _search_rows(places: Places, reach: float) -> Rows:
    _require_few_rows(places)
    for cell in range(places.size):
        metres = places.metres(cell)
        others = cell + 1 + np.flatnonzero(metres[cell + 1 :] <= reach)
        yield np.array([len(others)]), others, metres[others]


def _search_roads(roads: RoadGraph, reach: float, *, is_bounded: bool) -> NearbyPairs:
    """Search tile by tile; rows are put in the order of places at the end."""
    from scipy.sparse.csgraph import dijkstra

    matrix, limit = roads.both_ways(), int(reach * 1000)
    tile_radius = int(limit * (TILE_SHARE if is_bounded else WIDE_TILE_SHARE))
    searched = (1.5 if is_bounded else 1.0) * limit + tile_radius
    is_open, beyond = np.ones(roads.size, dtype=np.bool_), np.zeros(RINGS)
    order: list[Integers] = []

    def search_tiles() -> Rows:
        for middle in range(roads.size):
            if not is_open[middle]:
                continue
            from_middle = dijkstra(matrix, indices=middle, limit=searched)
            tile = np.flatnonzero(is_open & (from_middle <= tile_radius))
            is_open[tile] = False
            order.append(tile)
            if is_bounded:
                np.maximum(beyond, _count_rings(from_middle, tile_radius, limit), out=beyond)
            around = np.flatnonzero(from_middle <= limit + tile_radius)
            part = matrix[around][:, around]
            found = dijkstra(part, indices=np.searchsorted(around, tile), limit=limit)
            rows, columns = np.nonzero((around[None, :] > tile[:, None]) & (found <= limit))
            counts = np.bincount(rows, minlength=len(tile))
            yield counts, around[columns], np.rint(found[rows, columns]).astype(np.int32)

    counts, others, lengths = _gather(search_tiles(), roads.size)
    return _sort_rows(roads, reach, np.concatenate(order), counts, others, lengths, beyond)


def _count_rings(lengths: Reals, radius: int, limit: int) -> Reals:
    """Count the places that may lie beyond reach of a place of the tile, by the least length they may have."""
    least = np.minimum(lengths[lengths + radius > limit] - radius, 1.5 * limit)  # places beyond were not searched
    rings = np.clip((least - limit) // (limit / 20), 0, RINGS - 1).astype(np.int64)
    return np.bincount(rings, minlength=RINGS).astype(np.float64)


def _sort_rows(
    roads: RoadGraph, reach: float, order: Integers, counts: Integers, others: Integers, lengths: Any, beyond: Reals
) -> NearbyPairs:
    starts = np.concatenate([[0], np.cumsum(counts)])
    by_place = np.argsort(order, kind="stable")
    sorted_starts = np.concatenate([[0], np.cumsum(counts[by_place])])
    sorted_others, sorted_lengths = np.empty_like(others), np.empty_like(lengths)
    for place, row in enumerate(by_place.tolist()):
        here, there = slice(starts[row], starts[row + 1]), slice(sorted_starts[place], sorted_starts[place + 1])
        sorted_others[there], sorted_lengths[there] = others[here], lengths[here]
    return NearbyPairs(
        size=roads.size,
        reach=reach,
        unit=float(roads.unit_metres),
        starts=sorted_starts,
        others=sorted_others,
        lengths=sorted_lengths,
        beyond=beyond,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class NearbyKernel:
    """E and D over the pairs within reach, for one beta."""

    pairs: NearbyPairs
    beta: float
    _kept: list[list[tuple[int, int, Any]]] = field(default_factory=list, repr=False)

    @classmethod
    def of(cls, places: Places, beta: float) -> NearbyKernel:
        """Find the pairs within reach at this beta."""
        return cls(pairs=find_nearby(places, beta), beta=beta)

    def coarsen(self) -> NearbyKernel:
        """Give the same sums over a shorter reach: enough where weights are sought, not where they are certified."""
        return NearbyKernel(pairs=self.pairs.shorten(COARSE_DECAYS / self.beta), beta=self.beta)

    def smooth(self, values: Reals) -> Reals:
        """Give E v."""
        sums = values.astype(np.float64).copy()
        for row, last, block in self._blocks():
            sums[row:last] += block @ values
            sums += block.T @ values[row:last]
        return sums

    def smooth_distance(self, values: Reals) -> Reals:
        """Give D v."""
        sums = np.zeros(self.pairs.size)
        for row, last, starts, others, metres in self.pairs.chunks():
            block = self._make_block(starts, others, metres * np.exp(-self.beta * metres))
            sums[row:last] += block @ values
            sums += block.T @ values[row:last]
        return sums

    def smooth_both(self, values: Reals) -> tuple[Reals, Reals]:
        """Give E v and D v."""
        return self.smooth(values), self.smooth_distance(values)

    def find_largest(self, values: Reals) -> Reals:
        """Give at every place the largest value times exp(-beta d); beyond reach at most `error_of` is missed."""
        largest = values.astype(np.float64).copy()
        for row, last, starts, others, metres in self.pairs.chunks():
            decay = np.exp(-self.beta * metres)
            rows = np.repeat(np.arange(row, last), np.diff(starts))
            np.maximum.at(largest, rows, values[others] * decay)
            np.maximum.at(largest, others, values[rows] * decay)
        return largest

    def error_of(self, values: Reals) -> float:
        """Bound what lies beyond reach, ring by ring; `find_norms` adds the rounding of sums."""
        edges = self.pairs.reach * (1 + np.arange(RINGS) / 20)
        rest, size = float(self.pairs.beyond @ np.exp(-self.beta * edges)), np.abs(values)
        return min(rest * float(size.max()), float(np.exp(-self.beta * self.pairs.reach) * size.sum()))

    def _blocks(self) -> Iterator[tuple[int, int, Any]]:
        if self._kept:
            yield from self._kept[0]
            return
        made: list[tuple[int, int, Any]] = []
        is_kept = len(self.pairs.others) <= MAX_KEPT_DECAYS
        for row, last, starts, others, metres in self.pairs.chunks():
            block = self._make_block(starts, others, np.exp(-self.beta * metres))
            if is_kept:
                made.append((row, last, block))
            yield row, last, block
        if is_kept:
            self._kept.append(made)

    def _make_block(self, starts: Integers, others: Integers, values: Reals) -> Any:
        from scipy.sparse import csr_matrix

        return csr_matrix((values, others, starts), shape=(len(starts) - 1, self.pairs.size))
