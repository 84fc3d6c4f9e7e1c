"""What a device gets: `mechanism.json`, the exact law in one file, and how often it may be used.

    {
      "sudare": "location mechanism",     what this file is
      "format": 1,
      "id": "9f0c...",                    hash of the law; a report names it, so that a collector takes no other's
      "law": "P(y|x) = alpha(x) * w(y) * exp(-beta * d(x, y))",
      "grid": {"kind": "plane", ...},     cells and metric: d = unit * sqrt(integer), see grid.py, graph.py, elastic.py
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

from sudare.errors import ParameterError, ReleaseError
from sudare.methods.location.grid import MeshCorner, Places, PlaneGrid, PointPlaces
from sudare.methods.location.mechanism import WEIGHT_BITS, Mechanism
from sudare.methods.location.metrics import ElasticGrid, RoadGraph

FILE = "mechanism.json"
WHAT, FORMAT = "location mechanism", 1
LAW = "P(y|x) = alpha(x) * w(y) * exp(-beta * d(x, y))"
MOST_FRESH = 10_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Repeat:
    """How often a device may draw: at most `fresh_reports` a day, the same cell always with the same report.

    >>> Repeat(fresh_reports=3).to_dict()
    {'period': 'day', 'fresh_reports': 3, 'memoised': True}
    """

    fresh_reports: int = 1

    def __post_init__(self) -> None:
        count = self.fresh_reports
        if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MOST_FRESH:
            raise ParameterError(
                "reports_per_day ({value}) must be a whole number between 1 and {most}", value=count, most=MOST_FRESH
            )

    def to_dict(self) -> dict[str, Any]:
        """The rule as JSON-able facts."""
        return {"period": "day", "fresh_reports": self.fresh_reports, "memoised": True}


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class Artefact:
    """A mechanism with its promise and its rule of repeat use; what `mechanism.json` holds."""

    mechanism: Mechanism
    epsilon_per_metre: Fraction
    tight_epsilon_per_metre: float
    repeat: Repeat

    @property
    def identity(self) -> str:
        """Hash of the law: grid, beta, weights, inputs. Two artefacts with one identity draw the same reports."""
        text = json.dumps(law_facts(self.mechanism), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """The file's content."""
        return {
            "sudare": WHAT,
            "format": FORMAT,
            "id": self.identity,
            "law": LAW,
            **law_facts(self.mechanism),
            "epsilon_per_metre": str(self.epsilon_per_metre),
            "tight_epsilon_per_metre": self.tight_epsilon_per_metre,
            "repeat": self.repeat.to_dict(),
        }

    def write(self, path: Path) -> None:
        """Write `mechanism.json`."""
        path.write_text(json.dumps(self.to_dict(), separators=(",", ":")) + "\n", encoding="utf-8")

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Artefact:
        """Read what `to_dict` gave; anything unknown, missing or changed is refused."""
        if facts.get("sudare") != WHAT or facts.get("format") != FORMAT:
            raise ReleaseError(
                "{file} is of a format this version does not know (it knows {known}); use a newer Sudare",
                file=FILE,
                known=FORMAT,
            )
        try:
            made = cls(
                mechanism=_mechanism(facts),
                epsilon_per_metre=Fraction(facts["epsilon_per_metre"]),
                tight_epsilon_per_metre=float(facts["tight_epsilon_per_metre"]),
                repeat=Repeat(fresh_reports=facts["repeat"]["fresh_reports"]),
            )
            is_same = made.to_dict() == dict(facts)
        except (KeyError, TypeError, ValueError, OverflowError, ParameterError):
            is_same = False
        if not is_same:
            raise ReleaseError(
                "{file} is not what Sudare writes: an entry is missing, unknown or changed; get the release again",
                file=FILE,
            )
        return made


def load_artefact(directory: str | Path) -> Artefact:
    """Read the artefact of a saved release, or a `mechanism.json` by itself."""
    place = Path(directory)
    file = place / FILE if place.is_dir() else place
    try:
        facts = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, ValueError):
        raise ReleaseError(
            "{place} is not a location release: it has no readable {file}; name a directory that"
            " `sudare publish location` made",
            place=place,
            file=FILE,
        ) from None
    if not isinstance(facts, dict):
        raise ReleaseError(
            "{file} is not what Sudare writes: an entry is missing, unknown or changed; get the release again",
            file=FILE,
        )
    return Artefact.from_dict(facts)


def law_facts(mechanism: Mechanism) -> dict[str, Any]:
    """Everything the drawn law depends on, exact."""
    return {
        "grid": mechanism.places.to_dict(),
        "beta_per_metre": str(mechanism.beta_per_metre),
        "weight_bits": WEIGHT_BITS,
        "weights": mechanism.weights.tolist(),
        "inputs": _inputs(mechanism),
    }


def _inputs(mechanism: Mechanism) -> str | list[int]:
    if bool((mechanism.can_enter == (mechanism.weights > 0)).all()):
        return "reportable"
    return "all" if bool(mechanism.can_enter.all()) else np.flatnonzero(mechanism.can_enter).tolist()


def _mechanism(facts: Mapping[str, Any]) -> Mechanism:
    if facts["weight_bits"] != WEIGHT_BITS:
        raise ValueError
    places = places_from(facts["grid"])
    inputs = None
    if facts["inputs"] == "all":
        inputs = np.ones(places.size, dtype=np.bool_)
    elif facts["inputs"] != "reportable":
        inputs = np.zeros(places.size, dtype=np.bool_)
        inputs[np.array(facts["inputs"], dtype=np.int64)] = True
    weights = np.array(facts["weights"], dtype=np.int64)
    return Mechanism(places=places, beta_per_metre=Fraction(facts["beta_per_metre"]), weights=weights, inputs=inputs)


def places_from(facts: Mapping[str, Any]) -> Places:
    """Read a map from the facts its `to_dict` gave.

    >>> grid = PlaneGrid(rows=2, columns=3, cell_height_metres="115.6", cell_width_metres="141.5")
    >>> places_from(grid.to_dict()) == grid
    True
    """
    if facts["kind"] == "plane":
        corner = MeshCorner(**facts["mesh"]) if "mesh" in facts else None
        names = ("rows", "columns", "cell_height_metres", "cell_width_metres")
        return PlaneGrid(corner=corner, **{name: facts[name] for name in names})
    if facts["kind"] == "points":
        return PointPlaces(points=np.array(facts["points"], dtype=np.int64), names=tuple(facts["names"]))
    if facts["kind"] == "graph":
        return RoadGraph(names=tuple(facts["names"]), edges=tuple((a, b, length) for a, b, length in facts["edges"]))
    if facts["kind"] == "elastic":
        grid = places_from(facts["grid"])
        if isinstance(grid, PlaneGrid):
            return ElasticGrid(grid=grid, levels=np.array(facts["levels"], dtype=np.int64))
    raise ReleaseError(
        "{file} has a map of a kind ({kind}) this version does not know; use a newer Sudare",
        file=FILE,
        kind=facts["kind"],
    )
