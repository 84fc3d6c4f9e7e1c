"""Maps of mesh cells: GeoJSON, GeoParquet, roll-ups at all six levels, and pictures."""

from __future__ import annotations

import base64
import json
import re
import zlib
from pathlib import Path

import jismesh.utils as jm
import numpy as np
import pyarrow.parquet as pq
import pytest

from sudare.errors import ParameterError, ReleaseError
from sudare.releases.geo import find_corners, roll_up, write_geojson, write_geoparquet
from sudare.report.maps import colour_counts, draw_public_map, draw_steward_map, encode_png, write_map
from sudare.schema import MeshCells

shapely = pytest.importorskip("shapely")

AREA = ("5339", "5340")


def some(level: int, seed: int = 1) -> tuple[MeshCells, np.ndarray, np.ndarray]:
    cells = MeshCells(level=level, area=AREA)
    generator = np.random.default_rng(seed)
    codes = np.unique(generator.integers(0, cells.size, 300))
    return cells, codes, generator.integers(1, 500, len(codes))


@pytest.mark.parametrize("level", range(1, 7))
def test_corners_are_those_of_jismesh_at_every_level(level: int) -> None:
    cells, codes, _ = some(level)
    numbers = cells.numbers(codes)
    south, west = jm.to_meshpoint(numbers, 0, 0)
    north, east = jm.to_meshpoint(numbers, 1, 1)

    assert np.allclose(find_corners(cells, codes), np.column_stack([west, south, east, north]), atol=1e-9)


@pytest.mark.parametrize("level", range(1, 7))
def test_roll_ups_keep_every_sum_at_every_level(level: int) -> None:
    cells, codes, counts = some(6)
    above, found, sums = roll_up(cells, codes, counts, level=level)
    texts = [label[: (4, 6, 8, 9, 10, 11)[level - 1]] for label in cells.labels(codes)]
    expected: dict[str, int] = {}
    for text, count in zip(texts, counts.tolist(), strict=True):
        expected[text] = expected.get(text, 0) + count

    assert dict(zip(above.labels(found), sums.tolist(), strict=True)) == expected


def test_a_geojson_file_holds_every_cell_as_a_valid_polygon(tmp_path: Path) -> None:
    cells, codes, counts = some(4)
    write_geojson(tmp_path / "map.geojson", cells, codes, {"count": counts})
    found = json.loads((tmp_path / "map.geojson").read_text(encoding="utf-8"))
    shapes = [shapely.geometry.shape(feature["geometry"]) for feature in found["features"]]

    assert [feature["properties"]["mesh"] for feature in found["features"]] == cells.labels(codes).tolist()
    assert [feature["properties"]["count"] for feature in found["features"]] == counts.tolist()
    assert all(shape.is_valid and shape.exterior.is_ccw for shape in shapes)


def test_a_geojson_file_may_be_empty(tmp_path: Path) -> None:
    none = np.empty(0, dtype=np.int64)
    write_geojson(tmp_path / "map.geojson", MeshCells(level=1, area=AREA), none, {"count": none})

    assert json.loads((tmp_path / "map.geojson").read_text(encoding="utf-8"))["features"] == []


def test_a_geoparquet_file_holds_the_same_rectangles_and_says_so(tmp_path: Path) -> None:
    cells, codes, counts = some(5)
    write_geoparquet(tmp_path / "map.parquet", cells, codes, {"count": counts})
    table = pq.read_table(tmp_path / "map.parquet")
    geo = json.loads(table.schema.metadata[b"geo"])
    shapes = shapely.from_wkb(table["geometry"].to_pylist())

    assert table["mesh"].to_pylist() == cells.labels(codes).tolist()
    assert table["count"].to_pylist() == counts.tolist()
    assert np.allclose(shapely.bounds(shapes), find_corners(cells, codes))
    assert geo["version"] == "1.1.0"
    assert geo["columns"][geo["primary_column"]]["encoding"] == "WKB"
    assert np.allclose(geo["columns"]["geometry"]["bbox"], shapely.total_bounds(shapes))


def test_a_geoparquet_file_may_be_empty(tmp_path: Path) -> None:
    none = np.empty(0, dtype=np.int64)
    write_geoparquet(tmp_path / "map.parquet", MeshCells(level=1, area=AREA), none, {"count": none})
    table = pq.read_table(tmp_path / "map.parquet")

    assert table.num_rows == 0
    assert str(table.schema.field("mesh").type) == "string"
    assert str(table.schema.field("geometry").type) == "binary"


def test_what_is_no_cell_of_the_area_is_refused(tmp_path: Path) -> None:
    cells, codes, counts = some(3)
    for bad_codes, columns, text in [
        (np.array([cells.size]), {"count": np.array([1])}, "area only"),
        (codes, {"count": counts[1:]}, "one value for every"),
        (codes, {"geometry": counts}, "rename"),
    ]:
        with pytest.raises(ReleaseError, match=text):
            write_geojson(tmp_path / "map.geojson", cells, bad_codes, columns)


def pixels_of(picture: str, place: int) -> np.ndarray:
    """Read an embedded picture back: rows of a filter octet and RGB."""
    octets = base64.b64decode(re.findall(r"base64,([^\"]+)", picture)[place])
    width, height = (int.from_bytes(octets[at : at + 4], "big") for at in (16, 20))
    size = int.from_bytes(octets[33:37], "big")
    rows = np.frombuffer(zlib.decompress(octets[41 : 41 + size]), dtype=np.uint8).reshape(height, 1 + 3 * width)
    return rows[:, 1:].reshape(height, width, 3)


def test_a_map_has_north_up_and_colours_where_people_are() -> None:
    cells = MeshCells(level=2, area=("5339",))
    picture = draw_public_map(cells, np.array([0, 63]), np.array([1, 1000]), title="two cells")
    pixels = pixels_of(picture, 0)

    assert pixels.shape == (8, 8, 3)
    assert pixels[7, 0].tolist() == colour_counts(np.array([1]), 1000)[0].tolist()  # south-west at the bottom left
    assert pixels[0, 7].tolist() == colour_counts(np.array([1000]), 1000)[0].tolist()


def test_the_public_map_shows_one_map_and_the_stewards_two_with_a_stamp(tmp_path: Path) -> None:
    cells, codes, counts = some(3)
    public = draw_public_map(cells, codes, counts, title="Ohta & <Kita>")
    both = draw_steward_map(cells, codes, counts, true_codes=codes[:9], true_people=counts[:9], title="both")
    write_map(tmp_path / "map.svg", both)

    assert public.count("image-rendering:pixelated") == 1
    assert "not for publication" not in public
    assert "Ohta &amp; &lt;Kita&gt;" in public
    assert both.count("image-rendering:pixelated") == 2
    assert "not for publication" in (tmp_path / "map.svg").read_text(encoding="utf-8")


def test_a_map_of_too_many_pixels_is_refused() -> None:
    cells = MeshCells(level=6, area=("3036", "6848"))
    with pytest.raises(ParameterError, match="roll it up"):
        draw_public_map(cells, np.array([0]), np.array([1]), title="all")


def test_a_png_starts_as_one() -> None:
    assert encode_png(np.zeros((2, 3, 3), dtype=np.uint8)).startswith(b"\x89PNG\r\n\x1a\n")
