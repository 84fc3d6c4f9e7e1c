"""A made-up census by mesh: towns and empty hills, a long tail, a third of the cells inhabited. Nobody lives in it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sudare.counts import Counts
from sudare.methods.location.grid_coast import coast
from sudare.schema import Attribute, MeshCells, Schema

INHABITED = 0.35
PEOPLE_PER_CELL = 85.0  # 128 million people on 1.5 million cells of 500 m
ROUGHNESS = 0.85  # how much the log of the density varies from one scale to the next
MOST_PEOPLE = 8000.0  # where a cell is full
LEAST_LAND = 0.3  # share of a cell from which on it is land
COARSEST = 7  # scales of 2^7 = 128 cells and below: 64 km with cells of 500 m

SCHEMA = """\
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

Numbers = NDArray[np.int64]
Reals = NDArray[np.float64]


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
    schema.write_text(SCHEMA, encoding="utf-8")
    return data, schema


def census_square(
    *, rows: int = 512, columns: int = 1024, people_per_cell: float = PEOPLE_PER_CELL, seed: int
) -> Numbers:
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


def _people(field: Reals, people_per_cell: float, generator: np.random.Generator) -> Numbers:
    """The highest third is inhabited; density grows with the height above its edge, people come by Poisson."""
    edge = np.quantile(field, 1 - INHABITED)
    density = np.where(field > edge, np.exp(field - edge) - 0.7, 0.0)
    wanted = people_per_cell * density.size
    density *= wanted / density.sum()
    density /= 1 + density / MOST_PEOPLE
    density *= wanted / density.sum()
    people = generator.poisson(density)
    return np.where(field > edge, np.maximum(people, 1), 0).astype(np.int64)
