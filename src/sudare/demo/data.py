"""A coast that ships with the project: land shares of a bay, capes and islands, made by a formula. No real place."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sudare.counts import Counts
from sudare.schema import Attribute, MeshCells, Schema
from sudare.schema.arrays import Booleans, Codes, Integers, Reals

FINE = 4  # points a side at which a cell is looked at


def coast(rows: int, columns: int) -> Reals:
    """Share of land of every cell, in sixteenths, rows from the top: sea below, a bay, islands, a river mouth.

    >>> shares = coast(40, 40)
    >>> shares.shape, bool((shares == 0).any()), bool((shares == 1).any()), bool(((shares > 0) & (shares < 1)).any())
    ((40, 40), True, True, True)
    """
    down = (np.arange(rows * FINE) + 0.5)[:, None] / (rows * FINE)
    right = (np.arange(columns * FINE) + 0.5)[None, :] / (columns * FINE)
    is_land = (down < _shore(right)) & ~_bay(down, right) & ~_river(down, right) | _islands(down, right)
    shares: Reals = is_land.reshape(rows, FINE, columns, FINE).mean(axis=(1, 3))
    return shares


def _shore(right: Reals) -> Reals:
    """How far down the land reaches: waves of ever shorter length, as a real coast has them."""
    waves = ((0.10, 1.3, 0.4), (0.05, 3.7, 1.9), (0.025, 8.1, 0.3), (0.012, 17.9, 2.6), (0.006, 39.0, 5.1))
    return np.asarray(0.66 + sum(size * np.sin(2 * np.pi * (often * right + shift)) for size, often, shift in waves))


def _bay(down: Reals, right: Reals) -> Booleans:
    wobble = 0.02 * np.sin(25 * down) + 0.01 * np.sin(61 * right)
    return np.asarray(((right - 0.62 + wobble) / 0.17) ** 2 + ((down - 0.62) / 0.30) ** 2 < 1)


def _river(down: Reals, right: Reals) -> Booleans:
    return np.asarray(np.abs(right - 0.22 - 0.05 * np.sin(9 * down)) < 0.004 + 0.010 * down)


def _islands(down: Reals, right: Reals) -> Booleans:
    spots = ((0.86, 0.22, 0.035), (0.92, 0.30, 0.012), (0.60, 0.61, 0.03), (0.90, 0.83, 0.045), (0.70, 0.67, 0.012))
    return np.asarray(np.any([(down - y) ** 2 + (right - x) ** 2 < size**2 for y, x, size in spots], axis=0))


# A made-up table of sales with a long tail, after section 5.1 of Terada 2017. No person is in it.


def sales(*, items: int, records: int, seed: int) -> NDArray[np.int64]:
    """Draw records (item, sex, decade): codes of `items` items, 2 sexes and 5 decades of age.

    Item k sells with Zipf probability 1/k; men buy the odd ones twice as often as women and the other way round; ages
    are uniform.

    >>> sales(items=100, records=5, seed=1).shape
    (5, 3)
    """
    generator = np.random.default_rng(seed)  # the data are made up: nothing here needs to be secret
    weights = 1.0 / np.arange(1, items + 1)
    item = generator.choice(items, size=records, p=weights / weights.sum())
    woman = generator.random(records) < np.where(item % 2 == 0, 1 / 3, 2 / 3)
    decade = generator.integers(0, 5, size=records)
    return np.column_stack([item, woman.astype(np.int64), decade]).astype(np.int64)


# A made-up table of the members of a chain of sports clubs. No person is in it.


SEXES = ("F", "M")
PLANS = ("student", "daytime", "standard", "premium")
YOUNGEST, OLDEST = 15, 89
VISITS = (0, 1, 2, 4, 8, 12, 20, 31)  # edges of the bins of visits in a month; the last is closed

# name, region, people in units of 100,000 (rounded): the prefectures as the members are spread over them
PREFECTURES = """\
Hokkaido Hokkaido 51;Aomori Tohoku 12;Iwate Tohoku 12;Miyagi Tohoku 23;Akita Tohoku 9;Yamagata Tohoku 10
Fukushima Tohoku 18;Ibaraki Kanto 28;Tochigi Kanto 19;Gunma Kanto 19;Saitama Kanto 73;Chiba Kanto 63
Tokyo Kanto 141;Kanagawa Kanto 92;Niigata Chubu 21;Toyama Chubu 10;Ishikawa Chubu 11;Fukui Chubu 7
Yamanashi Chubu 8;Nagano Chubu 20;Gifu Chubu 19;Shizuoka Chubu 36;Aichi Chubu 75;Mie Kinki 17
Shiga Kinki 14;Kyoto Kinki 25;Osaka Kinki 88;Hyogo Kinki 54;Nara Kinki 13;Wakayama Kinki 9
Tottori Chugoku 5;Shimane Chugoku 6;Okayama Chugoku 18;Hiroshima Chugoku 27;Yamaguchi Chugoku 13
Tokushima Shikoku 7;Kagawa Shikoku 9;Ehime Shikoku 13;Kochi Shikoku 7;Fukuoka Kyushu 51;Saga Kyushu 8
Nagasaki Kyushu 13;Kumamoto Kyushu 17;Oita Kyushu 11;Miyazaki Kyushu 10;Kagoshima Kyushu 15;Okinawa Kyushu 15
"""

SCHEMA = """\
# Public facts about the table of members: written down without looking at the rows.
[sudare]
schema = 1
name = "members"

[unit]                  # who is protected: a member, who has one row
kind = "person"
column = "member_id"    # never published
max_rows = 1

[[attribute]]
name = "sex"
kind = "category"
role = "quasi"
values = ["F", "M"]
hierarchy = {{ masking = "right" }}

[[attribute]]
name = "age"
kind = "number"
role = "quasi"
bins = {{ start = 15, stop = 90, width = 5 }}
hierarchy = {{ intervals = [10, 20] }}

[[attribute]]
name = "prefecture"
kind = "category"
role = "quasi"
values = [{prefectures}]
hierarchy = "prefectures.csv"

[[attribute]]
name = "plan"
kind = "category"
role = "sensitive"
values = [{plans}]

[[attribute]]
name = "visits"         # in the last month
kind = "number"
edges = [{visits}]
"""


@dataclass(frozen=True, kw_only=True, eq=False)
class Members:
    """Columns of codes and numbers, one row a member."""

    sex: Codes
    age: Codes
    prefecture: Codes
    plan: Codes
    visits: Codes


def members(*, rows: int, seed: int) -> Members:
    """Draw members: young and old by sex, plans by age, visits by plan and age.

    >>> made = members(rows=1000, seed=1)
    >>> len(made.age), bool(made.age.min() >= 15), bool(made.age[made.plan == 0].max() < 30)
    (1000, True, True)
    """
    generator = np.random.default_rng(seed)  # the data are made up: nothing here needs to be secret
    people = np.array([float(size) for _, _, size in prefectures()])
    sex = (generator.random(rows) < 0.46).astype(np.int64)
    age = _ages(generator, sex)
    plan = _plans(generator, age, sex)
    often = np.array([5.0, 9.0, 5.5, 11.0])[plan] * np.where(age >= 60, 1.3, 1.0) * generator.gamma(1.6, 0.6, rows)
    visits = np.minimum(generator.poisson(often), VISITS[-1])
    prefecture = generator.choice(len(people), size=rows, p=people / people.sum())
    return Members(sex=sex, age=age, prefecture=prefecture, plan=plan, visits=visits.astype(np.int64))


def prefectures() -> list[tuple[str, str, str]]:
    """Give name, region and size of every prefecture.

    >>> len(prefectures()), prefectures()[12]
    (47, ('Tokyo', 'Kanto', '141'))
    """
    lines = PREFECTURES.replace("\n", ";").strip(";").split(";")
    return [(name, region, size) for name, region, size in (line.split() for line in lines)]


def write_members(folder: Path, *, rows: int, seed: int) -> tuple[Path, Path]:
    """Write members.csv and members.toml with the regions beside it, and return both."""
    made = members(rows=rows, seed=seed)
    data, schema = folder / "members.csv", folder / "members.toml"
    names = np.array([name for name, _, _ in prefectures()])
    columns = (
        np.array(SEXES)[made.sex].tolist(),
        made.age.tolist(),
        names[made.prefecture].tolist(),
        np.array(PLANS)[made.plan].tolist(),
        made.visits.tolist(),
    )
    lines = (f"M{number:06d},{','.join(map(str, row))}" for number, row in enumerate(zip(*columns, strict=True), 1))
    data.write_text("member_id,sex,age,prefecture,plan,visits\n" + "\n".join(lines) + "\n", encoding="utf-8")
    regions = (f"{name};{region};*" for name, region, _ in prefectures())
    (folder / "prefectures.csv").write_text("\n".join(regions) + "\n", encoding="utf-8")
    schema.write_text(_schema(), encoding="utf-8")
    return data, schema


def _schema() -> str:
    return SCHEMA.format(
        prefectures=", ".join(f'"{name}"' for name, _, _ in prefectures()),
        plans=", ".join(f'"{plan}"' for plan in PLANS),
        visits=", ".join(map(str, VISITS)),
    )


def _ages(generator: np.random.Generator, sex: Codes) -> Codes:
    """Two humps: people who start to work, and people who stop; women more in the second."""
    rows = len(sex)
    is_old = generator.random(rows) < np.where(sex == 0, 0.48, 0.34)
    age = np.where(is_old, generator.normal(63, 9.5, rows), 15 + generator.gamma(2.2, 7.4, rows))
    return np.clip(np.rint(age), YOUNGEST, OLDEST).astype(np.int64)


def _plans(generator: np.random.Generator, age: Codes, sex: Codes) -> Codes:
    """Students are below 30; the daytime is for those who do not work."""
    weights: Reals = np.column_stack(
        [
            np.where(age < 25, 2.4, np.where(age < 30, 0.3, 0.0)),
            np.where(age >= 60, 2.2, np.where(sex == 0, 0.45, 0.12)),
            np.full(len(age), 1.3),
            np.where((age >= 30) & (age < 60), 0.8, 0.35),
        ]
    )
    steps = np.cumsum(weights, axis=1)
    drawn = generator.random(len(age)) * steps[:, -1]
    return np.asarray((drawn[:, None] >= steps).sum(axis=1), dtype=np.int64)


# A made-up census by mesh: towns and empty hills, a long tail, a third of the cells inhabited. Nobody lives in it.


INHABITED = 0.35
PEOPLE_PER_CELL = 85.0  # 128 million people on 1.5 million cells of 500 m
ROUGHNESS = 0.85  # how much the log of the density varies from one scale to the next
MOST_PEOPLE = 8000.0  # where a cell is full
LEAST_LAND = 0.3  # share of a cell from which on it is land
COARSEST = 7  # scales of 2^7 = 128 cells and below: 64 km with cells of 500 m

MESH_SCHEMA = """\
# Public facts about the table of people by mesh cell: cells of 500 m (JIS X 0410), on land only.
[sudare]
schema = 1
name = "people"

[[attribute]]
name = "mesh"
kind = "mesh"
level = 4
area_file = "land.txt"
"""


def mesh_census(
    *, level: int = 4, area: tuple[str, ...] = ("5339",), people_per_cell: float = PEOPLE_PER_CELL, seed: int
) -> Counts:
    """Make a table of people by mesh cell.

    >>> counts = mesh_census(level=3, seed=1)
    >>> counts.schema.size, 0.3 < counts.nonzero / counts.schema.size < 0.4
    (6400, True)
    """
    cells = MeshCells(level=level, area=area)
    rows, columns = cells.grid(np.arange(cells.size))
    top, right = int(rows.max()) + 1 - int(rows.min()), int(columns.max()) + 1 - int(columns.min())
    generator = np.random.default_rng(seed)  # the data are made up: nothing here needs to be secret
    field = _field(top, right, generator)[rows - rows.min(), columns - columns.min()]
    values = _people(field, people_per_cell, generator)
    schema = Schema(name="mesh census", attributes=(Attribute(name="mesh", domain=cells),))
    kept = np.flatnonzero(values)
    return Counts.build(schema, kept[:, None], values[kept])


def write_census(folder: Path, *, seed: int) -> tuple[Path, Path]:
    """Write people.csv (cell, people), people.toml and the cells of land beside it; nobody lives at sea.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as made:
    ...     [path.name for path in write_census(Path(made), seed=1)]
    ['people.csv', 'people.toml']
    """
    data, schema = folder / "people.csv", folder / "people.toml"
    counts = mesh_census(seed=seed)
    cells = MeshCells(level=4, area=("5339",))
    rows, columns = cells.grid(np.arange(cells.size))
    side = int(rows.max() - rows.min()) + 1
    is_land = coast(side, side)[rows.max() - rows, columns - columns.min()] > LEAST_LAND
    labels = cells.labels(np.arange(cells.size))
    lived = is_land[counts.codes[:, 0]]
    lines = zip(labels[counts.codes[lived, 0]].tolist(), counts.values[lived].tolist(), strict=True)
    data.write_text("mesh,people\n" + "".join(f"{label},{people}\n" for label, people in lines), encoding="utf-8")
    (folder / "land.txt").write_text("\n".join(labels[is_land].tolist()) + "\n", encoding="utf-8")
    schema.write_text(MESH_SCHEMA, encoding="utf-8")
    return data, schema


def census_square(
    *, rows: int = 512, columns: int = 1024, people_per_cell: float = PEOPLE_PER_CELL, seed: int
) -> Integers:
    """Make the people of a rectangle of cells, row by row: for comparisons that need a power of two of cells.

    >>> square = census_square(rows=64, columns=64, seed=1)
    >>> square.shape, 0.3 < float((square > 0).mean()) < 0.4
    ((64, 64), True)
    """
    generator = np.random.default_rng(seed)
    return _people(_field(rows, columns, generator).ravel(), people_per_cell, generator).reshape(rows, columns)


def _field(rows: int, columns: int, generator: np.random.Generator) -> Reals:
    """The log of the density: smooth noise of every scale from 128 cells down to 1, added up."""
    field = np.zeros((rows, columns))
    for scale in range(COARSEST + 1):
        side = 2**scale
        knots = generator.normal(size=(rows // side + 2, columns // side + 2))
        field += ROUGHNESS * _between(knots, np.arange(rows) / side, np.arange(columns) / side)
    return field


def _between(knots: Reals, rows: Reals, columns: Reals) -> Reals:
    """Interpolate between knots, with weights that keep the variance the same everywhere."""
    (low, up), (left, right) = (_weights(places) for places in (rows, columns))
    r, c = rows.astype(np.int64), columns.astype(np.int64)
    south = left * knots[np.ix_(r, c)] + right * knots[np.ix_(r, c + 1)]
    north = left * knots[np.ix_(r + 1, c)] + right * knots[np.ix_(r + 1, c + 1)]
    mixed: Reals = low[:, None] * south + up[:, None] * north
    return mixed


def _weights(places: Reals) -> tuple[Reals, Reals]:
    part = places - np.floor(places)
    return np.cos(part * np.pi / 2), np.sin(part * np.pi / 2)


def _people(field: Reals, people_per_cell: float, generator: np.random.Generator) -> Integers:
    """The highest third is inhabited; density grows with the height above its edge, people come by Poisson."""
    edge = np.quantile(field, 1 - INHABITED)
    density = np.where(field > edge, np.exp(field - edge) - 0.7, 0.0)
    wanted = people_per_cell * density.size
    density *= wanted / density.sum()
    density /= 1 + density / MOST_PEOPLE
    density *= wanted / density.sum()
    people = generator.poisson(density)
    return np.where(field > edge, np.maximum(people, 1), 0).astype(np.int64)


# A made-up city on a bay: sea, a river, a park and a harbour, made by formulas. No real place.


CITY_FINE = 5  # points a side at which a cell is looked at
CELL_METRES = 100
IN_PARK = 0.25  # share of a park where people are

MAP = """\
# A public map: in which share of every cell a person can be. No table of people is needed.
[grid]
kind = "plane"
rows = {rows}
columns = {columns}
cell_height_metres = {side}
cell_width_metres = {side}
weights = "city.csv"
"""


def city(rows: int, columns: int) -> Reals:
    """Share of every cell where a person can be, row 0 in the south: 0 at sea, little on the river and in the park.

    >>> shares = city(40, 40)
    >>> shares.shape, bool((shares == 0).any()), bool((shares == 1).any()), float(shares.max())
    ((40, 40), True, True, 1.0)
    """
    shares = np.choose(_fine(rows, columns), (0.0, IN_PARK, 1.0))
    whole: Reals = shares.reshape(rows, CITY_FINE, columns, CITY_FINE).mean(axis=(1, 3)).round(3)
    return whole


def city_grounds(rows: int, columns: int) -> NDArray[np.int64]:
    """What most of a cell is: 0 water, 1 park, 2 land; row 0 in the south.

    >>> np.unique(city_grounds(40, 40)).tolist()
    [0, 1, 2]
    """
    fine = _fine(rows, columns).reshape(rows, CITY_FINE, columns, CITY_FINE)
    shares = np.stack([(fine == ground).mean(axis=(1, 3)) for ground in range(3)])
    return np.asarray(shares.argmax(axis=0), dtype=np.int64)


def _fine(rows: int, columns: int) -> NDArray[np.int64]:
    """The ground at points finer than cells, row 0 in the south."""
    down = (np.arange(rows * CITY_FINE)[::-1] + 0.5)[:, None] / (rows * CITY_FINE)
    right = (np.arange(columns * CITY_FINE) + 0.5)[None, :] / (columns * CITY_FINE)
    ground = np.where(_in_park(down, right), 1, 2)
    ground = np.where(_on_river(down, right) | _in_pond(down, right), 0, ground)
    ground = np.where(_on_road(down, right), 2, ground)  # bridges, and ways through the park
    return np.where(_at_sea(down, right), 0, ground)


def write_city(folder: Path, *, rows: int, columns: int) -> Path:
    """Write the city as a map file with its shares beside it, and return the map file.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as made:
    ...     write_city(Path(made), rows=10, columns=10).name
    'city.toml'
    """
    shares = city(rows, columns)
    lines = [f"{row},{column},{shares[row, column]:g}" for row, column in np.argwhere(shares > 0).tolist()]
    (folder / "city.csv").write_text("row,column,weight\n" + "\n".join(lines) + "\n", encoding="utf-8")
    made = folder / "city.toml"
    made.write_text(MAP.format(rows=rows, columns=columns, side=CELL_METRES), encoding="utf-8")
    return made


def _at_sea(down: Reals, right: Reals) -> Booleans:
    """A bay in the south, with a pier that reaches into it and an island."""
    waves = 0.035 * np.sin(7 * right + 0.6) + 0.014 * np.sin(19 * right + 2.0) + 0.006 * np.sin(47 * right)
    bay = 0.17 * np.exp(-(((right - 0.60) / 0.17) ** 2))
    is_pier = (np.abs(right - 0.80) < 0.018) & (down < 0.90)
    is_island = ((right - 0.56) / 0.07) ** 2 + ((down - 0.85) / 0.05) ** 2 < 1
    return np.asarray((down > 0.78 + waves - bay) & ~is_pier & ~is_island)


def _on_river(down: Reals, right: Reals) -> Booleans:
    middle = 0.30 + 0.09 * np.sin(5.5 * down + 0.4) + 0.03 * np.sin(13 * down)
    return np.asarray(np.abs(right - middle) < 0.014 + 0.016 * down)


def _in_park(down: Reals, right: Reals) -> Booleans:
    """A park with a wavy edge in the north-east, and a smaller one by the river."""
    angle = np.arctan2(down - 0.27, right - 0.72)
    edge = 1 + 0.10 * np.sin(3 * angle) + 0.06 * np.sin(7 * angle)
    large = ((right - 0.72) / 0.16) ** 2 + ((down - 0.27) / 0.13) ** 2 < edge
    return np.asarray(large | (((right - 0.13) / 0.06) ** 2 + ((down - 0.55) / 0.08) ** 2 < 1))


def _in_pond(down: Reals, right: Reals) -> Booleans:
    return np.asarray(((right - 0.77) / 0.045) ** 2 + ((down - 0.29) / 0.05) ** 2 < 1)


def _on_road(down: Reals, right: Reals) -> Booleans:
    """Bridges every fifth of the way, and two ways across the park."""
    bridges = np.abs((down * 5) % 1 - 0.5) < 0.035
    return np.asarray(bridges | (np.abs(right - 0.70 - 0.1 * (down - 0.3)) < 0.008))


COAST_MAP = """\
[grid]
kind = "plane"
rows = {rows}
columns = {columns}
cell_height_metres = 115.6
cell_width_metres = 141.5
weights = "land.csv"
"""


def write_coast(folder: Path, *, rows: int = 60, columns: int = 60) -> Path:
    """Write the coast that ships with Sudare as a map file with its land shares, and return the map file.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as made:
    ...     write_coast(Path(made), rows=10, columns=10).name
    'coast.toml'
    """
    shares = coast(rows, columns)
    lines = [f"{row},{column},{shares[row, column]:g}" for row, column in np.argwhere(shares > 0).tolist()]
    (folder / "land.csv").write_text("row,column,weight\n" + "\n".join(lines) + "\n", encoding="utf-8")
    made = folder / "coast.toml"
    made.write_text(COAST_MAP.format(rows=rows, columns=columns), encoding="utf-8")
    return made
