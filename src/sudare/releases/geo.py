"""Published mesh cells as files for maps: GeoJSON and GeoParquet, every cell a rectangle in degrees.

Both say WGS 84 (CRS84: longitude, latitude). The corners of JIS X 0410 cells are defined in Japan's datum JGD2011,
which agrees with it to within about a metre. No geometry package is needed: a rectangle is five points.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sudare.errors import ReleaseError
from sudare.releases.frame import Frame
from sudare.releases.parquet import write_frame
from sudare.schema import MeshCells
from sudare.schema.arrays import Codes, Integers, Labels, Reals

NamedColumns = Mapping[str, NDArray[Any]]

MESH, GEOMETRY = "mesh", "geometry"  # names of the columns
DECIMALS = 9  # of a degree: a tenth of a millimetre; the corners of the smallest cells need 8
CHUNK = 10_000  # cells written at a time
_FEATURE = (  # ten numbers of the ring, the mesh code, the rest; json takes four times as long for a feature
    '{"type":"Feature","geometry":{"type":"Polygon","coordinates":[[[%s,%s],[%s,%s],[%s,%s],[%s,%s],[%s,%s]]]},'
    '"properties":{"mesh":"%s"%s}}'
)
_WKB_HEAD = struct.pack("<BIII", 1, 3, 1, 5)  # little-endian, polygon, one ring, five points


def roll_up(cells: MeshCells, codes: Codes, counts: Integers, *, level: int) -> tuple[MeshCells, Codes, Integers]:
    """Add published cells up to a coarser level of the mesh, from 125 m (6) to 80 km (1).

    >>> cells = MeshCells(level=3, area=("5339",))
    >>> above, codes, sums = roll_up(cells, np.array([3726, 3727, 0]), np.array([5, 6, 7]), level=2)
    >>> above.labels(codes).tolist(), sums.tolist()
    (['533900', '533945'], [7, 11])
    """
    _check_columns(cells, codes, {"count": counts})
    above = cells.coarse(level)
    coarse_codes, positions = np.unique(cells.lift(codes, level), return_inverse=True)
    sums = np.zeros(len(coarse_codes), dtype=np.int64)
    np.add.at(sums, positions, counts)
    return above, coarse_codes, sums


def write_geojson(path: Path, cells: MeshCells, codes: Codes, columns: NamedColumns) -> None:
    """Write mesh cells as GeoJSON (RFC 7946), one feature a line; `columns` become properties beside the mesh code."""
    _check_columns(cells, codes, columns)
    with path.open("w", encoding="utf-8") as file:
        file.write('{"type":"FeatureCollection","features":[\n')
        first = True
        for feature in _write_features(cells, codes, columns):
            file.write(feature if first else ",\n" + feature)
            first = False
        file.write("\n]}\n")


def write_geoparquet(path: Path, cells: MeshCells, codes: Codes, columns: NamedColumns) -> None:
    """Write mesh cells as GeoParquet 1.1: WKB rectangles and the "geo" metadata, through the engine of all tables."""
    _check_columns(cells, codes, columns)
    labels = cells.labels(codes)
    frame = Frame({MESH: labels, **columns, GEOMETRY: _write_rectangles(find_corners(cells, codes))})
    metadata = {"geo": json.dumps(_describe_geometry(cells, codes))}
    write_frame(frame, path, file_format="parquet", metadata=metadata, types={MESH: "VARCHAR", GEOMETRY: "BLOB"})


def find_corners(cells: MeshCells, codes: Codes) -> Reals:
    """Give west, south, east and north of every cell, in degrees (cells, 4).

    >>> find_corners(MeshCells(level=1, area=("5339",)), np.array([0])).round(3).tolist()
    [[139.0, 35.333, 140.0, 36.0]]
    """
    bounds = cells.bounds(codes)
    return np.column_stack([bounds.west, bounds.south, bounds.west + bounds.width, bounds.south + bounds.height])


def _write_features(cells: MeshCells, codes: Codes, columns: NamedColumns) -> Iterator[str]:
    for start in range(0, len(codes), CHUNK):
        part = slice(start, start + CHUNK)
        labels = cells.labels(codes[part]).tolist()
        sides = find_corners(cells, codes[part]).round(DECIMALS).tolist()
        named = [f",{json.dumps(name, ensure_ascii=False)}:" for name in columns]
        values = [_write_json(column[part]) for column in columns.values()]
        for row, (label, (west, south, east, north)) in enumerate(zip(labels, sides, strict=True)):
            ring = (west, south, east, south, east, north, west, north, west, south)
            properties = "".join(name + column[row] for name, column in zip(named, values, strict=True))
            yield _FEATURE % (*ring, label, properties)


def _write_json(column: NDArray[Any]) -> list[str]:
    """Write values as JSON does: numbers as they print themselves."""
    is_plain = column.dtype.kind in "iu" or (column.dtype.kind == "f" and bool(np.isfinite(column).all()))
    write = repr if is_plain else lambda value: json.dumps(value, ensure_ascii=False)
    return [write(value) for value in column.tolist()]


def _write_rectangles(sides: Reals) -> Labels:
    """Write rectangles as WKB: a head of 13 octets and five points, anticlockwise from the south-west."""
    west, south, east, north = sides.T
    points = np.column_stack([west, south, east, south, east, north, west, north, west, south]).astype("<f8")
    geometries = np.empty(len(sides), dtype=np.object_)
    for row in range(len(sides)):
        geometries[row] = _WKB_HEAD + points[row].tobytes()
    return geometries


def _describe_geometry(cells: MeshCells, codes: Codes) -> dict[str, Any]:
    column: dict[str, Any] = {
        "encoding": "WKB",
        "geometry_types": ["Polygon"],
        "orientation": "counterclockwise",
        "edges": "planar",
    }
    if len(codes):
        sides = find_corners(cells, codes)
        column["bbox"] = [*sides[:, :2].min(axis=0).tolist(), *sides[:, 2:].max(axis=0).tolist()]
    return {"version": "1.1.0", "primary_column": GEOMETRY, "columns": {GEOMETRY: column}}


def _check_columns(cells: MeshCells, codes: Codes, columns: NamedColumns) -> None:
    """Refuse columns that do not fit, and cells outside the area: behind the cells stand missing and other places."""
    for name, column in columns.items():
        if len(column) != len(codes):
            raise ReleaseError("column {name} must have one value for every mesh cell", name=name)
        if name in (MESH, GEOMETRY):
            raise ReleaseError("a column of a map must not be called {name}; rename it", name=name)
    if len(codes) and (int(codes.min()) < 0 or int(codes.max()) >= cells.size):
        raise ReleaseError("a map takes mesh cells of its area only; leave missing and other places out")
