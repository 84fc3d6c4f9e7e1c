"""The device file, `mechanism.json`: the exact law in one file, and how often a device may use it.

    {
      "sudare": "location mechanism",     what this file is
      "format": 1,
      "id": "9f0c...",                    hash of the law; a report names it, so that a collector takes no other's
      "law": "P(y|x) = alpha(x) * w(y) * exp(-beta * d(x, y))",
      "grid": {"kind": "plane", ...},     cells and metric: d = unit * sqrt(integer), see grid.py and roads.py
      "beta_per_metre": "1/100",          exact
      "weight_bits": 40,                  w(y) = weights[y] / 2**weight_bits
      "weights": [1099511627776, ...],    one integer per cell; 0 is never reported
      "inputs": "reportable",             where people can be: "reportable" (weight above 0), "all", or cell numbers
      "epsilon_per_metre": "1/50",        promised for one report
      "tight_epsilon_per_metre": 0.0124,  what this map really needs, rounded up
      "repeat": {"period": "day", "fresh_reports": 1, "memoised": true}
    }

Cells are numbered from 0; on a plane grid row by row. All numbers that the law depends on are integers below 2**53 or
fractions as text, so that Python and JavaScript read the same law.

Repeat use: within a period a device draws at most `fresh_reports` times. A cell it has drawn for gives the same report
again (memoised), which costs nothing more; when the draws are used up, a new cell gives no report. A day of reports is
then promised fresh_reports * epsilon_per_metre.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from sudare.errors import ParameterError, ReleaseError, SourceError
from sudare.methods.location.grid import ElasticGrid, MeshCorner, Places, PlaneGrid, PointPlaces
from sudare.methods.location.mechanism import WEIGHT_BITS, Mechanism
from sudare.methods.location.roads import RoadGraph
from sudare.releases.files import CERTIFICATE, verify_files

DEVICE_FILE = "mechanism.json"
KIND_OF_FILE, FORMAT = "location mechanism", 1  # the entries "sudare" and "format"
LAW = "P(y|x) = alpha(x) * w(y) * exp(-beta * d(x, y))"
MAX_FRESH_REPORTS = 10_000  # a day


@dataclass(frozen=True, kw_only=True, slots=True)
class RepeatUse:
    """How often a device may draw: at most `fresh_reports` a day, the same cell always with the same report.

    >>> RepeatUse(fresh_reports=3).to_dict()
    {'period': 'day', 'fresh_reports': 3, 'memoised': True}
    """

    fresh_reports: int = 1

    def __post_init__(self) -> None:
        count = self.fresh_reports
        if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MAX_FRESH_REPORTS:
            raise ParameterError(
                "reports_per_day ({value}) must be a whole number between 1 and {most}",
                value=count,
                most=MAX_FRESH_REPORTS,
            )

    def to_dict(self) -> dict[str, Any]:
        """Give the rule as JSON-able facts."""
        return {"period": "day", "fresh_reports": self.fresh_reports, "memoised": True}


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class DeviceFile:
    """A mechanism with its promise and its rule of repeat use; what `mechanism.json` holds."""

    mechanism: Mechanism
    epsilon_per_metre: Fraction
    tight_epsilon_per_metre: float
    repeat: RepeatUse

    @property
    def identity(self) -> str:
        """Hash the law: grid, beta, weights, inputs. Two device files with one identity draw the same reports."""
        facts = json.dumps(describe_law(self.mechanism), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(facts.encode()).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """Give the content of the file."""
        return {
            "sudare": KIND_OF_FILE,
            "format": FORMAT,
            "id": self.identity,
            "law": LAW,
            **describe_law(self.mechanism),
            "epsilon_per_metre": str(self.epsilon_per_metre),
            "tight_epsilon_per_metre": self.tight_epsilon_per_metre,
            "repeat": self.repeat.to_dict(),
        }

    def write(self, path: Path) -> None:
        """Write `mechanism.json`."""
        path.write_text(json.dumps(self.to_dict(), separators=(",", ":")) + "\n", encoding="utf-8")

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> DeviceFile:
        """Read what `to_dict` gave; anything unknown, missing or changed is refused."""
        if facts.get("sudare") != KIND_OF_FILE or facts.get("format") != FORMAT:
            raise ReleaseError(
                "{file} is of a format this version does not know (it knows {known}); use a newer Sudare",
                file=DEVICE_FILE,
                known=FORMAT,
            )
        try:
            device_file = cls(
                mechanism=_read_mechanism(facts),
                epsilon_per_metre=Fraction(facts["epsilon_per_metre"]),
                tight_epsilon_per_metre=float(facts["tight_epsilon_per_metre"]),
                repeat=RepeatUse(fresh_reports=facts["repeat"]["fresh_reports"]),
            )
            is_same = device_file.to_dict() == dict(facts)
        except (KeyError, TypeError, ValueError, OverflowError, ParameterError):
            is_same = False
        if not is_same:
            raise ReleaseError(
                "{file} is not as Sudare wrote it: an entry is missing, unknown or changed; get the release again",
                file=DEVICE_FILE,
            )
        return device_file


def load_device_file(directory: str | Path) -> DeviceFile:
    """Read the device file of a saved release, or a `mechanism.json` by itself."""
    place = Path(directory)
    file = place / DEVICE_FILE if place.is_dir() else place
    try:
        facts = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, ValueError):
        raise ReleaseError(
            "{place} is not a location release: it has no readable {file}; name a directory that `sudare"
            " publish location` made",
            place=place,
            file=DEVICE_FILE,
        ) from None
    if not isinstance(facts, dict):
        raise ReleaseError(
            "{file} is not as Sudare wrote it: an entry is missing, unknown or changed; get the release again",
            file=DEVICE_FILE,
        )
    return DeviceFile.from_dict(facts)


def open_device_file(directory: Path) -> DeviceFile:
    """Read the device file of a release, every file checked against the certificate, or a mechanism.json by itself."""
    if (directory / CERTIFICATE).is_file():
        verify_files(directory)
    elif not directory.exists():
        raise SourceError("there is no device file {place}; give the directory of a location release", place=directory)
    return load_device_file(directory)


def describe_law(mechanism: Mechanism) -> dict[str, Any]:
    """Give everything that the drawn law depends on, exactly."""
    return {
        "grid": mechanism.places.to_dict(),
        "beta_per_metre": str(mechanism.beta_per_metre),
        "weight_bits": WEIGHT_BITS,
        "weights": mechanism.weights.tolist(),
        "inputs": _describe_inputs(mechanism),
    }


def _describe_inputs(mechanism: Mechanism) -> str | list[int]:
    if bool((mechanism.can_enter == (mechanism.weights > 0)).all()):
        return "reportable"
    return "all" if bool(mechanism.can_enter.all()) else np.flatnonzero(mechanism.can_enter).tolist()


def _read_mechanism(facts: Mapping[str, Any]) -> Mechanism:
    if facts["weight_bits"] != WEIGHT_BITS:
        raise ValueError
    places = read_places(facts["grid"])
    inputs = None
    if facts["inputs"] == "all":
        inputs = np.ones(places.size, dtype=np.bool_)
    elif facts["inputs"] != "reportable":
        inputs = np.zeros(places.size, dtype=np.bool_)
        inputs[np.array(facts["inputs"], dtype=np.int64)] = True
    weights = np.array(facts["weights"], dtype=np.int64)
    return Mechanism(places=places, beta_per_metre=Fraction(facts["beta_per_metre"]), weights=weights, inputs=inputs)


def read_places(facts: Mapping[str, Any]) -> Places:
    """Read a map from the facts its `to_dict` gave.

    >>> grid = PlaneGrid(rows=2, columns=3, cell_height_metres="115.6", cell_width_metres="141.5")
    >>> read_places(grid.to_dict()) == grid
    True
    """
    if facts["kind"] == "plane":
        corner = MeshCorner(**facts["mesh"]) if "mesh" in facts else None
        names = ("rows", "columns", "cell_height_metres", "cell_width_metres")
        return PlaneGrid(corner=corner, **{name: facts[name] for name in names})
    if facts["kind"] == "points":
        return PointPlaces(points=np.array(facts["points"], dtype=np.int64), names=tuple(facts["names"]))
    if facts["kind"] == "graph":
        return RoadGraph(
            names=tuple(facts["names"]), edges=tuple((start, end, length) for start, end, length in facts["edges"])
        )
    if facts["kind"] == "elastic":
        grid = read_places(facts["grid"])
        if isinstance(grid, PlaneGrid):
            return ElasticGrid(grid=grid, levels=np.array(facts["levels"], dtype=np.int64))
    raise ReleaseError(
        "{file} has a map of a kind ({kind}) this version does not know; use a newer Sudare",
        file=DEVICE_FILE,
        kind=facts["kind"],
    )
