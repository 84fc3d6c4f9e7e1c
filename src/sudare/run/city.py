"""A made-up city on a bay: sea, a river, a park and a harbour, made by formulas. No real place."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]
Flags = NDArray[np.bool_]

FINE = 5  # points a side at which a cell is looked at
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
    whole: Reals = shares.reshape(rows, FINE, columns, FINE).mean(axis=(1, 3)).round(3)
    return whole


def city_grounds(rows: int, columns: int) -> NDArray[np.int64]:
    """What most of a cell is: 0 water, 1 park, 2 land; row 0 in the south.

    >>> np.unique(city_grounds(40, 40)).tolist()
    [0, 1, 2]
    """
    fine = _fine(rows, columns).reshape(rows, FINE, columns, FINE)
    shares = np.stack([(fine == ground).mean(axis=(1, 3)) for ground in range(3)])
    return np.asarray(shares.argmax(axis=0), dtype=np.int64)


def _fine(rows: int, columns: int) -> NDArray[np.int64]:
    """The ground at points finer than cells, row 0 in the south."""
    down = (np.arange(rows * FINE)[::-1] + 0.5)[:, None] / (rows * FINE)
    right = (np.arange(columns * FINE) + 0.5)[None, :] / (columns * FINE)
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


def _at_sea(down: Reals, right: Reals) -> Flags:
    """A bay in the south, with a pier that reaches into it and an island."""
    waves = 0.035 * np.sin(7 * right + 0.6) + 0.014 * np.sin(19 * right + 2.0) + 0.006 * np.sin(47 * right)
    bay = 0.17 * np.exp(-(((right - 0.60) / 0.17) ** 2))
    is_pier = (np.abs(right - 0.80) < 0.018) & (down < 0.90)
    is_island = ((right - 0.56) / 0.07) ** 2 + ((down - 0.85) / 0.05) ** 2 < 1
    return np.asarray((down > 0.78 + waves - bay) & ~is_pier & ~is_island)


def _on_river(down: Reals, right: Reals) -> Flags:
    middle = 0.30 + 0.09 * np.sin(5.5 * down + 0.4) + 0.03 * np.sin(13 * down)
    return np.asarray(np.abs(right - middle) < 0.014 + 0.016 * down)


def _in_park(down: Reals, right: Reals) -> Flags:
    """A park with a wavy edge in the north-east, and a smaller one by the river."""
    angle = np.arctan2(down - 0.27, right - 0.72)
    edge = 1 + 0.10 * np.sin(3 * angle) + 0.06 * np.sin(7 * angle)
    large = ((right - 0.72) / 0.16) ** 2 + ((down - 0.27) / 0.13) ** 2 < edge
    return np.asarray(large | (((right - 0.13) / 0.06) ** 2 + ((down - 0.55) / 0.08) ** 2 < 1))


def _in_pond(down: Reals, right: Reals) -> Flags:
    return np.asarray(((right - 0.77) / 0.045) ** 2 + ((down - 0.29) / 0.05) ** 2 < 1)


def _on_road(down: Reals, right: Reals) -> Flags:
    """Bridges every fifth of the way, and two ways across the park."""
    bridges = np.abs((down * 5) % 1 - 0.5) < 0.035
    return np.asarray(bridges | (np.abs(right - 0.70 - 0.1 * (down - 0.3)) < 0.008))
