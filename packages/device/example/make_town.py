"""Write the map of the example page, a town that does not exist: town.json (the device file) and figures.json.

python packages/device/example/make_town.py
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from sudare.methods.location import Location
from sudare.methods.location.device_file import DeviceFile
from sudare.methods.location.geo import place_grid
from sudare.methods.location.grid import PlaneGrid

HERE = Path(__file__).parent
ROWS, COLUMNS, METRES = 24, 32, 100


def find_land() -> np.ndarray:
    """Tell which cells are land; page.js draws the same coast."""
    rows, columns = np.divmod(np.arange(ROWS * COLUMNS), COLUMNS)
    x, y = (columns + 0.5) * METRES, (rows + 0.5) * METRES
    return y > 250 + 1150 * np.maximum(0, (x - 1500) / 1700) ** 1.5


def main() -> None:
    """Build the law and write both files."""
    plane = PlaneGrid(rows=ROWS, columns=COLUMNS, cell_height_metres=METRES, cell_width_metres=METRES)
    grid = place_grid(plane, south=35.0, west=135.0)
    method = Location(grid=grid, weights=find_land().astype(float), epsilon_per_metre="0.005", mode="sharp")
    law = method.mechanism()
    measured = method.measure(law)
    made = DeviceFile(
        mechanism=law,
        epsilon_per_metre=measured.epsilon_per_metre,
        tight_epsilon_per_metre=measured.tight.epsilon,
        repeat=method.repeat_use,
    )
    made.write(HERE / "town.json")
    figures = {str(found.days): round(found.chance, 3) for found in measured.home_found}
    (HERE / "figures.json").write_text(json.dumps({"home_found": figures}) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
