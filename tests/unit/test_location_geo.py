"""Real maps: mesh cells of their real size, land by area, hexagons, and roads on which Takagi's mechanism holds."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from sudare.errors import SchemaError
from sudare.methods.location import geo
from sudare.methods.location.geo import outline_cells
from sudare.methods.location.grid import PlaneGrid, PointPlaces
from sudare.methods.location.map_file import read_map
from sudare.methods.location.mechanism import FULL_WEIGHT, Mechanism
from sudare.methods.location.roads import RoadGraph, read_roads
from sudare.schema.mesh import MeshCells, find_mesh_place, measure_mesh_cell

NEEDS_GEO = "the extra [geo] is not installed"
TRIANGLE = [[139.0, 35.0], [140.0, 35.0], [139.0, 36.0], [139.0, 35.0]]


def write_map(folder: Path, text: str) -> Path:
    file = folder / "map.toml"
    file.write_text("[grid]\n" + text, encoding="utf-8")
    return file


def write_polygon(file: Path, ring: list[list[float]]) -> Path:
    file.write_text(json.dumps({"type": "Polygon", "coordinates": [ring]}), encoding="utf-8")
    return file


# --- the mesh -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", range(1, 7))
@pytest.mark.parametrize("latitude", [24.3, 35.68, 43.06])
def test_mesh_cells_have_the_size_that_pyproj_measures(level: int, latitude: float) -> None:
    pyproj = pytest.importorskip("pyproj", reason=NEEDS_GEO)
    globe = pyproj.Geod(ellps="WGS84")
    tall, wide = (1 / 1.5, 1 / 12, 1 / 120, 1 / 240, 1 / 480, 1 / 960), (1, 1 / 8, 1 / 80, 1 / 160, 1 / 320, 1 / 640)

    height, width = measure_mesh_cell(level, latitude)

    north = globe.inv(139, latitude - tall[level - 1] / 2, 139, latitude + tall[level - 1] / 2)[2]
    east = globe.inv(139, latitude, 139 + wide[level - 1], latitude)[2]
    assert height == pytest.approx(north, rel=1e-4)
    assert width == pytest.approx(east, rel=1e-4)


def test_an_eighth_of_the_mesh_in_tokyo_has_the_paper_s_size() -> None:
    assert [round(side, 1) for side in measure_mesh_cell(6, 35.68)] == [115.6, 141.4]


@pytest.mark.parametrize("level", range(1, 7))
def test_the_cell_at_a_place_has_the_code_of_the_standard(level: int) -> None:
    jismesh = pytest.importorskip("jismesh.utils", reason=NEEDS_GEO)
    numbers = np.random.default_rng(1)
    for latitude, longitude in zip(numbers.uniform(34, 36, 20), numbers.uniform(138.2, 140.8, 20), strict=True):
        row, column = find_mesh_place(level, float(latitude), float(longitude))
        grid = geo.make_mesh_grid(level, south_west=(row, column), shape=(1, 1))

        assert grid.labels(np.array([0])).tolist() == [str(jismesh.to_meshcode(latitude, longitude, level))]


def test_a_metre_of_the_map_is_never_more_than_a_metre_of_ground() -> None:
    pyproj = pytest.importorskip("pyproj", reason=NEEDS_GEO)
    grid = geo.make_mesh_grid(2, south_west=(51 * 8, 38 * 8), shape=(40, 24))
    west, south, _, _ = geo.mesh_bounds(grid)
    numbers = np.random.default_rng(2)
    rows, columns = numbers.integers(0, 40, (2, 4000)), numbers.integers(0, 24, (2, 4000))
    on_map = np.hypot(
        np.diff(rows, axis=0)[0] * float(grid.cell_height_metres),
        np.diff(columns, axis=0)[0] * float(grid.cell_width_metres),
    )

    latitudes, longitudes = south + (rows + 0.5) / 12, west + (columns + 0.5) / 8
    on_ground = pyproj.Geod(ellps="WGS84").inv(longitudes[0], latitudes[0], longitudes[1], latitudes[1])[2]

    assert bool((on_map <= on_ground + 1e-6).all())


def test_an_area_of_the_mesh_has_its_cells_and_no_others(tmp_path: Path) -> None:
    file = write_map(tmp_path, 'kind = "mesh"\nlevel = 2\narea = ["5339", "5440"]\n')

    found = read_map(file)

    cells = np.flatnonzero(found.weights)
    listed = MeshCells(level=2, area=("5339", "5440"))
    assert found.places.size == 256
    assert sorted(found.places.labels(cells).tolist()) == sorted(listed.labels(np.arange(listed.size)).tolist())


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("level = 7\narea = ['5339']", r"line 3: \[grid\]: level \(7\) must be a whole number from 1 to 6"),
        ("level = 3", "give exactly one of area, bounds"),
        ("level = 3\nbounds = [139.6, 35.6, 139.9, 35.8]", "swapped"),
        ("level = 3\nbounds = [35.8, 139.6, 35.6, 139.9]", "south below north"),
        ("level = 3\nbounds = [35.8, 139.6]", "a list in . . of 4 entries"),
        ("level = 3\nbounds = [35.6, 20.0, 35.8, 21.0]", "100 E"),
        ("level = 3\narea = ['5339']\nareas = 1", "line 5: .* unknown key areas"),
    ],
)
def test_a_mesh_map_that_cannot_be_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(SchemaError, match=reason):
        read_map(write_map(tmp_path, f'kind = "mesh"\n{text}\n'))


def test_a_place_is_found_and_swapped_degrees_are_told() -> None:
    grid = geo.make_mesh_grid(3, south_west=(53 * 80, 39 * 80), shape=(80, 80))

    assert grid.labels(np.array([geo.find_cell(grid, 35.68, 139.76)])).tolist() == ["53394610"]
    with pytest.raises(SchemaError, match="swapped"):
        geo.find_cell(grid, 139.76, 35.68)
    with pytest.raises(SchemaError, match="outside"):
        geo.find_cell(grid, 34.0, 139.76)


# --- land ---------------------------------------------------------------------------------------------------------


def test_the_share_of_land_is_an_area(tmp_path: Path) -> None:
    pytest.importorskip("shapely", reason=NEEDS_GEO)
    write_polygon(tmp_path / "land.geojson", [[0, 0], [300, 0], [0, 300], [0, 0]])
    file = write_map(
        tmp_path,
        'kind = "plane"\nrows = 3\ncolumns = 3\ncell_height_metres = 100\ncell_width_metres = 100\n'
        'land = "land.geojson"\n',
    )

    weights = read_map(file).weights

    assert weights is not None
    assert weights.reshape(3, 3).tolist() == [
        pytest.approx([1, 1, 0.5]),
        pytest.approx([1, 0.5, 0]),
        pytest.approx([0.5, 0, 0]),
    ]


def test_the_shares_of_a_jagged_coast_add_up_to_its_area() -> None:
    shapely = pytest.importorskip("shapely", reason=NEEDS_GEO)
    angles = np.linspace(0, 2 * np.pi, 400, endpoint=False)
    radii = 3 + np.sin(7 * angles) + 0.3 * np.sin(53 * angles)
    land = shapely.Polygon(np.column_stack([5 + radii * np.cos(angles), 5 + radii * np.sin(angles)]))

    shares = geo.find_land_shares(land, (0.0, 0.0, 10.0, 10.0), (37, 50))

    assert shares.sum() * (10 / 37) * (10 / 50) == pytest.approx(land.area, rel=1e-9)


@pytest.mark.parametrize(("name", "driver"), [("land.gpkg", "GPKG"), ("land.shp", "ESRI Shapefile")])
@pytest.mark.parametrize("crs", ["EPSG:4326", "EPSG:32654"])
def test_polygons_come_from_geopackage_and_shapefile_in_any_projection(
    tmp_path: Path, name: str, driver: str, crs: str
) -> None:
    pyogrio = pytest.importorskip("pyogrio", reason=NEEDS_GEO)
    shapely = pytest.importorskip("shapely", reason=NEEDS_GEO)
    pyproj = pytest.importorskip("pyproj", reason=NEEDS_GEO)
    change = pyproj.Transformer.from_crs("EPSG:4326", crs, always_xy=True)
    shape = shapely.segmentize(shapely.Polygon(TRIANGLE), 0.01)
    shape = shapely.transform(shape, lambda xy: np.column_stack(change.transform(xy[:, 0], xy[:, 1])))
    shapes = np.array([shapely.to_wkb(shape)], dtype=object)
    pyogrio.raw.write(
        str(tmp_path / name), shapes, [], [], geometry_type="Polygon", crs=crs, driver=driver, encoding="UTF-8"
    )
    write_polygon(tmp_path / "land.geojson", TRIANGLE)
    text = 'kind = "mesh"\nlevel = 2\narea = ["5339"]\nland = "{}"\n'

    found = read_map(write_map(tmp_path, text.format(name))).weights
    expected = read_map(write_map(tmp_path, text.format("land.geojson"))).weights

    assert found is not None
    assert expected is not None
    assert float(np.abs(found - expected).max()) < 1e-3
    assert 0 < (found == 0).sum() < found.size


@pytest.mark.parametrize(
    ("ring", "reason"),
    [
        ([[y, x] for x, y in TRIANGLE], "swapped"),
        ([[10, 50], [11, 50], [10, 51], [10, 50]], "no polygon touches"),
    ],
)
def test_land_that_is_elsewhere_or_swapped_is_refused(tmp_path: Path, ring: list[list[float]], reason: str) -> None:
    pytest.importorskip("shapely", reason=NEEDS_GEO)
    write_polygon(tmp_path / "land.geojson", ring)

    with pytest.raises(SchemaError, match=reason):
        read_map(write_map(tmp_path, 'kind = "mesh"\nlevel = 2\narea = ["5339"]\nland = "land.geojson"\n'))


@pytest.mark.parametrize("text", ["no json", "[]", '{"type": "Point", "coordinates": [1, 2]}', '{"type": "Polygon"}'])
def test_a_file_without_polygons_is_refused(tmp_path: Path, text: str) -> None:
    pytest.importorskip("shapely", reason=NEEDS_GEO)
    (tmp_path / "land.geojson").write_text(text, encoding="utf-8")

    with pytest.raises(SchemaError, match=r"GeoJSON|no polygon"):
        read_map(write_map(tmp_path, 'kind = "mesh"\nlevel = 2\narea = ["5339"]\nland = "land.geojson"\n'))


# --- hexagons -----------------------------------------------------------------------------------------------------


def test_hexagons_have_real_distances(tmp_path: Path) -> None:
    h3 = pytest.importorskip("h3", reason=NEEDS_GEO)
    file = write_map(tmp_path, 'kind = "h3"\nresolution = 7\nbounds = [35.6, 139.6, 35.8, 139.9]\n')

    places = read_map(file).places

    assert isinstance(places, PointPlaces)
    names = places.labels(np.arange(places.size)).tolist()
    metres = np.sqrt(places.squares(0).astype(float)) / 1000
    true = [h3.great_circle_distance(h3.cell_to_latlng(names[0]), h3.cell_to_latlng(name), unit="m") for name in names]
    assert metres.tolist() == pytest.approx(true, rel=0.005)


def test_hexagons_of_the_sea_are_not_on_the_map(tmp_path: Path) -> None:
    pytest.importorskip("h3", reason=NEEDS_GEO)
    write_polygon(tmp_path / "land.geojson", [[139.0, 35.0], [139.75, 35.0], [139.75, 36.0], [139.0, 36.0], [139, 35]])
    text = 'kind = "h3"\nresolution = 7\nbounds = [35.6, 139.6, 35.8, 139.9]\nland = "land.geojson"\n'

    land = read_map(write_map(tmp_path, text))
    everywhere = read_map(write_map(tmp_path, text + 'inputs = "all"\n'))

    assert land.weights is not None
    assert everywhere.weights is not None
    assert land.weights.min() > 0
    assert ((land.weights > 0) & (land.weights < 1)).any()
    assert int((everywhere.weights > 0).sum()) == land.places.size < everywhere.places.size
    assert float(everywhere.weights.sum()) == pytest.approx(float(land.weights.sum()))


def test_only_land_counts_for_the_most_hexagons(tmp_path: Path) -> None:
    """A rectangle of the sea with two islands: 240,000 hexagons of resolution 8 in all, some hundred on land."""
    pytest.importorskip("h3", reason=NEEDS_GEO)
    islands = [[[[x, 30.0], [x + 0.2, 30.0], [x + 0.2, 30.1], [x, 30.1], [x, 30.0]]] for x in (140.0, 142.0)]
    (tmp_path / "land.geojson").write_text(json.dumps({"type": "MultiPolygon", "coordinates": islands}), "utf-8")
    text = 'kind = "h3"\nresolution = 8\nbounds = [28.0, 139.0, 32.0, 143.0]\n'

    with pytest.raises(SchemaError, match="would make about"):
        read_map(write_map(tmp_path, text))

    assert 500 < read_map(write_map(tmp_path, text + 'land = "land.geojson"\n')).places.size < 900


# --- roads --------------------------------------------------------------------------------------------------------

LINES = {
    "type": "FeatureCollection",
    "features": [
        {
            "type": "Feature",
            "properties": {},
            "geometry": {"type": "LineString", "coordinates": [[139.70, 35.66], [139.71, 35.66], [139.72, 35.66]]},
        },
        {
            "type": "Feature",
            "properties": {},
            "geometry": {
                "type": "MultiLineString",
                "coordinates": [[[139.71, 35.65], [139.71, 35.66], [139.71, 35.67]]],
            },
        },
    ],
}


def test_lines_are_cut_where_they_cross(tmp_path: Path) -> None:
    file = tmp_path / "roads.geojson"
    file.write_text(json.dumps(LINES), encoding="utf-8")

    roads = read_roads(file)

    assert roads.size == 5
    assert len(roads.edges) == 4
    assert sorted(length for _, _, length in roads.edges)[0] == pytest.approx(905_000, rel=0.01)


def test_graphml_has_lengths_or_places(tmp_path: Path) -> None:
    file = tmp_path / "roads.graphml"
    file.write_text(
        '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">'
        '<key id="d0" for="node" attr.name="x"/><key id="d1" for="node" attr.name="y"/>'
        '<key id="d2" for="edge" attr.name="length"/><graph edgedefault="undirected">'
        '<node id="a"><data key="d0">139.70</data><data key="d1">35.66</data></node>'
        '<node id="b"><data key="d0">139.71</data><data key="d1">35.66</data></node><node id="c"/>'
        '<edge source="a" target="b"/><edge source="b" target="c"><data key="d2">12.5</data></edge>'
        "</graph></graphml>",
        encoding="utf-8",
    )

    roads = read_roads(file)

    assert roads.names == ("a", "b", "c")
    assert [length for _, _, length in roads.edges] == [pytest.approx(905_500, rel=0.001), 12_500]


def test_an_openstreetmap_extract_gives_its_largest_part(tmp_path: Path) -> None:
    osmium = pytest.importorskip("osmium", reason="the package osmium is not installed")
    file = tmp_path / "town.osm.pbf"
    with osmium.SimpleWriter(str(file)) as writer:
        places = [(139.70, 35.66), (139.71, 35.66), (139.72, 35.66), (139.71, 35.67), (139.9, 35.9), (139.91, 35.9)]
        for number, place in enumerate(places, 1):
            writer.add_node(osmium.osm.mutable.Node(id=number, location=place))
        for number, (nodes, tags) in enumerate(
            [([1, 2, 3], {"highway": "primary"}), ([2, 4], {"highway": "path"}), ([5, 6], {"highway": "path"}),
             ([4, 5], {"waterway": "river"})], 1
        ):  # fmt: skip
            writer.add_way(osmium.osm.mutable.Way(id=number, nodes=nodes, tags=tags))

    roads = read_roads(file)

    assert roads.size == 4
    assert len(roads.edges) == 3


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("roads.geojson", "{}", "GeoJSON"),
        ("roads.geojson", '{"type": "FeatureCollection", "features": []}', "no road"),
        ("roads.geojson", json.dumps(LINES).replace("139.7", "99.7").replace("35.6", "139.6"), "swapped"),
        ("roads.graphml", "<graphml", "not GraphML"),
        ("roads.graphml", "<!DOCTYPE x><graphml/>", "DOCTYPE"),
        ("roads.graphml", '<graphml><graph><edge source="a" target="b"/></graph></graphml>', "length"),
        ("roads.txt", "", "roads are read from"),
    ],
)
def test_a_road_file_that_cannot_be_read_is_refused(tmp_path: Path, name: str, text: str, reason: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")

    with pytest.raises(SchemaError, match=reason):
        read_map(write_map(tmp_path, f'kind = "graph"\nfile = "{name}"\n'))


def test_roads_without_a_road_between_them_are_refused(tmp_path: Path) -> None:
    parts = {"type": "MultiLineString", "coordinates": [[[139.7, 35.6], [139.8, 35.6]], [[139.7, 35.7], [139.8, 35.7]]]}
    (tmp_path / "roads.geojson").write_text(json.dumps(parts), encoding="utf-8")

    with pytest.raises(SchemaError, match="2 parts"):
        read_map(write_map(tmp_path, 'kind = "graph"\nfile = "roads.geojson"\n'))


def test_takagi_s_mechanism_keeps_epsilon_per_metre_of_road_and_straight_lines_do_not() -> None:
    # two banks of a river, 20 m apart, with one bridge 300 m away
    edges = [("a", "b", 150), ("b", "bridge", 150), ("bridge", "c", 20), ("c", "d", 150), ("d", "e", 150)]
    roads = RoadGraph.of_metres([(start, end, Fraction(metres)) for start, end, metres in edges])
    mechanism = Mechanism(places=roads, beta_per_metre=Fraction(1, 100), weights=np.full(roads.size, FULL_WEIGHT))
    law = np.log([mechanism.report_law(cell) for cell in range(roads.size)])
    way = np.array([np.sqrt(roads.squares(cell).astype(float)) for cell in range(roads.size)]) / 1000

    losses = np.abs(law[:, None, :] - law[None, :, :]).max(axis=2)

    assert bool((losses <= 0.02 * way + 1e-12).all())
    assert losses[0, 5] > 0.02 * 20  # a and e face each other across the water


def test_hexagons_and_crossings_have_shapes_and_named_places_have_none(tmp_path: Path) -> None:
    pytest.importorskip("h3", reason=NEEDS_GEO)
    text = 'kind = "h3"\nresolution = 7\nbounds = [35.6, 139.6, 35.8, 139.9]\n'
    (tmp_path / "roads.geojson").write_text(json.dumps(LINES), encoding="utf-8")
    crossings = read_roads(tmp_path / "roads.geojson")

    hexagons = outline_cells(read_map(write_map(tmp_path, text)).places, np.array([0]))

    assert hexagons is not None
    assert len(hexagons[0]["coordinates"][0]) == 7
    assert outline_cells(crossings, np.array([0])) == [{"type": "Point", "coordinates": [139.70, 35.66]}]
    assert outline_cells(RoadGraph.of_metres([("a", "b", Fraction(1))]), np.array([0, 1])) is None


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(geo.importlib, "import_module", missing)

    with pytest.raises(SchemaError, match=r"needs the package shapely; install it with: pip install 'sudare\[geo\]'"):
        geo.find_land_shares(None, (0.0, 0.0, 1.0, 1.0), (1, 1))


def test_a_map_without_latitudes_says_so() -> None:
    grid = PlaneGrid(rows=1, columns=2, cell_height_metres=100, cell_width_metres=100)

    with pytest.raises(SchemaError, match="no latitudes"):
        geo.find_cell(grid, 35.0, 139.0)
    assert math.isclose(geo.mesh_bounds(geo.make_mesh_grid(1, south_west=(53, 39), shape=(1, 1)))[1], 53 / 1.5)


def test_a_resolution_of_too_many_hexagons_is_refused_before_any_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    h3 = pytest.importorskip("h3")
    monkeypatch.setattr(h3, "h3shape_to_cells_experimental", lambda *_: pytest.fail("cells were made"))
    (tmp_path / "map.toml").write_text(
        '[grid]\nkind = "h3"\nresolution = 15\nbounds = [35.6, 139.6, 35.8, 139.9]\n', encoding="utf-8"
    )

    with pytest.raises(SchemaError, match="about"):
        read_map(tmp_path / "map.toml")
