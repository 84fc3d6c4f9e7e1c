"""A location release from a map file to files, and a map to try it on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sudare.methods.location import Location
from sudare.methods.location.grid_coast import coast
from sudare.methods.location.preview import Preview
from sudare.releases import Certificate
from sudare.releases.parquet import Format
from sudare.releases.release import check_place
from sudare.run.publish import check_format

MAP = """\
[grid]
kind = "plane"
rows = {rows}
columns = {columns}
cell_height_metres = 115.6
cell_width_metres = 141.5
weights = "land.csv"
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedLocation:
    """What is told after a location release: all of it public."""

    out: Path
    told: Preview
    certificate: Certificate

    def to_dict(self) -> dict[str, Any]:
        """Plain values for a program."""
        return {
            "out": str(self.out),
            "method": self.certificate.method,
            "guarantee": self.certificate.guarantee,
            "measures": self.certificate.measures,
            "warnings": self.told.warnings,
            "private": self.certificate.private,
            "payload": self.certificate.payload,
        }


def publish_location(
    map_file: Path,
    *,
    out: Path,
    file_format: Format = "parquet",
    progress: Callable[[float], None] | None = None,
    **parameters: Any,
) -> PublishedLocation:
    """Build and certify the mechanism of a map file, and save it; no table, no ledger, no draw."""
    check_place(out)
    check_format(file_format)
    method = Location.of_map(map_file, **parameters)
    told, release = method.certified(progress=progress)
    return PublishedLocation(out=out, told=told, certificate=release.save(out, file_format=file_format))


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
    made.write_text(MAP.format(rows=rows, columns=columns), encoding="utf-8")
    return made
