"""The device file, `mechanism.json`: the exact law in one file, its promise, and how often a device may use it.

    {
      "sudare": "location mechanism",     what this file is
      "format": 2,
      "id": "9f0c...",                    SHA-256 of everything else; a report names it, a collector takes no other
      "law": "P(y|x) = alpha(x) * w(y) * exp(-beta * d(x, y))",
      "grid": {"kind": "plane", ...},     cells and metric: d = unit * sqrt(integer), see grid.py and roads.py
      "beta_per_metre": "1/100",          exact
      "weight_bits": 40,                  w(y) = weights[y] / 2**weight_bits
      "weights": [1099511627776, ...],    one integer per cell, 0 is never reported; or {"runs": [count, weight, ...]}
      "told": [0, 3, ...],                the cell that stands for a report, where it is another one
      "inputs": "reportable",             where people can be: "reportable" (weight above 0), "all", or cell numbers
      "epsilon_per_metre": "1/50",        promised for one draw
      "tight_epsilon_per_metre": "0.0124", what this map really needs, rounded up
      "repeat": {...},                    how often a device may draw: RepeatUse
      "vectors": [[x, y, "square", "chance"], ...]   squared distances and floor(2**64 w(y) exp(-beta d(x, y))), nearly
    }

Cells are numbered from 0; on a plane grid row by row. All numbers that the law depends on are integers below 2**53 or
fractions as text, so that Python and JavaScript read the same law, and the vectors show that they do.

Whoever reads the file trusts nobody: `DeviceFile.from_dict` recomputes the id, the vectors, the metric and the promise,
and refuses a file that claims what it does not keep. device.js does the same. The id is the SHA-256 of the file without
"id" as JSON with sorted keys, no spaces and no escapes beyond those JSON needs. Files of format 1 (the first version)
are read and proven alike, but not by device.js: their id covers the law only, and not how often a device may draw.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import numpy as np

from sudare.errors import ParameterError, ReleaseError, SourceError
from sudare.forms.jsontext import read_json
from sudare.forms.textfile import read_bytes
from sudare.methods.location.grid import DegreeCorner, ElasticGrid, MeshCorner, Places, PlaneGrid, PointPlaces
from sudare.methods.location.hidden import HiddenMechanism, certify_hidden
from sudare.methods.location.mechanism import FULL_WEIGHT, WEIGHT_BITS, Mechanism
from sudare.methods.location.metric import check_metric, choose_cells
from sudare.methods.location.roads import RoadGraph
from sudare.methods.location.tight import TightEpsilon, certify_epsilon
from sudare.noise.distance import Chance, LargestChance
from sudare.privacy.exact import exact
from sudare.privacy.promise import exact_epsilon_per_metre
from sudare.releases.files import CERTIFICATE, verify_files
from sudare.schema.arrays import Integers

DEVICE_FILE = "mechanism.json"
KIND_OF_FILE, FORMAT, FIRST_FORMAT = "location mechanism", 2, 1  # the entries "sudare" and "format"
LAW = "P(y|x) = alpha(x) * w(y) * exp(-beta * d(x, y))"
MAX_FRESH_REPORTS = 10_000  # a day
MAX_DRAWS = 10**9  # a month, or for ever
MAX_WITHIN_METRES = 100_000  # how far a place may reach
MAX_DWELL = 1_000  # fixes in a row before a place counts

Answers = Literal["daily", "lasting"]


@dataclass(frozen=True, kw_only=True, slots=True)
class RepeatUse:
    """How often a device may draw, and how long an answer holds.

    answers "daily": a cell keeps its answer for a day. "lasting": a place keeps its answer for ever; a cell within
    `within_metres` of a place that has one is that place, and a new place counts after `dwell` fixes in a row there.
    At most `fresh_reports` draws a day, `month` a calendar month and `life` for ever (None: no such limit).

    >>> RepeatUse(fresh_reports=3).to_dict()
    {'answers': 'daily', 'day': 3, 'month': None, 'life': None, 'within_metres': '0', 'dwell': 1}
    """

    fresh_reports: int = 1
    month: int | None = None
    life: int | None = None
    answers: Answers = "daily"
    within_metres: Fraction | int | str = Fraction(0)
    dwell: int = 1

    def __post_init__(self) -> None:
        _check_count("reports_per_day", self.fresh_reports, MAX_FRESH_REPORTS)
        _check_count("dwell", self.dwell, MAX_DWELL)
        for name, count in (("reports_per_month", self.month), ("reports_per_life", self.life)):
            if count is not None:
                _check_count(name, count, MAX_DRAWS)
        if self.answers not in ("daily", "lasting"):
            raise ParameterError("answers ({answers}) must be daily or lasting", answers=self.answers)
        within = exact(self.within_metres, name="within_metres", low=Fraction(0), high=Fraction(MAX_WITHIN_METRES))
        object.__setattr__(self, "within_metres", within)
        if self.answers == "daily" and (within or self.dwell != 1):
            raise ParameterError(
                "within_metres and dwell are for lasting answers; leave them out, or take answers lasting"
            )

    def to_dict(self) -> dict[str, Any]:
        """Give the rule as JSON-able facts."""
        return {
            "answers": self.answers,
            "day": self.fresh_reports,
            "month": self.month,
            "life": self.life,
            "within_metres": str(self.within_metres),
            "dwell": self.dwell,
        }

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> RepeatUse:
        """Read what `to_dict` gave, or the rule of a file of format 1."""
        if "fresh_reports" in facts:
            return cls(fresh_reports=facts["fresh_reports"])
        names = {
            "fresh_reports": "day",
            **{name: name for name in ("month", "life", "answers", "within_metres", "dwell")},
        }
        return cls(**{field_name: facts[key] for field_name, key in names.items()})


def _check_count(name: str, count: Any, most: int) -> None:
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= most:
        raise ParameterError(
            "{name} ({value}) must be a whole number between 1 and {most}", name=name, value=count, most=most
        )


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class DeviceFile:
    """A mechanism with its promise and its rule of repeat use; what `mechanism.json` holds."""

    mechanism: Mechanism | HiddenMechanism
    epsilon_per_metre: Fraction
    tight_epsilon_per_metre: float
    repeat: RepeatUse
    format: int = FORMAT
    _identity: list[str] = field(default_factory=list, repr=False)

    @property
    def identity(self) -> str:
        """Hash everything the file says; of a file of format 1 the law: grid, beta, weights, inputs."""
        if not self._identity:
            facts = describe_law(self.mechanism) if self.format == FIRST_FORMAT else self._describe()
            self._identity.append(hash_facts(facts, escaped=self.format == FIRST_FORMAT))
        return self._identity[0]

    def to_dict(self) -> dict[str, Any]:
        """Give the content of the file."""
        facts = self._describe()
        return {"sudare": facts["sudare"], "format": facts["format"], "id": self.identity, **facts}

    def _describe(self) -> dict[str, Any]:
        """Give everything but the id."""
        facts = {"sudare": KIND_OF_FILE, "format": self.format, "law": LAW, **describe_law(self.mechanism)}
        facts["epsilon_per_metre"] = str(self.epsilon_per_metre)
        if self.format == FIRST_FORMAT:
            repeat = {"period": "day", "fresh_reports": self.repeat.fresh_reports, "memoised": True}
            return facts | {"tight_epsilon_per_metre": self.tight_epsilon_per_metre, "repeat": repeat}
        return facts | {
            "weights": shorten_weights(self.mechanism.weights),
            "tight_epsilon_per_metre": repr(self.tight_epsilon_per_metre),
            "repeat": self.repeat.to_dict(),
            "vectors": make_vectors(self.mechanism),
        }

    def write(self, path: Path) -> None:
        """Write `mechanism.json`."""
        content = json.dumps(self.to_dict(), separators=(",", ":"), ensure_ascii=False)
        path.write_text(content + "\n", encoding="utf-8")

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> DeviceFile:
        """Read what `to_dict` gave; what is unknown, missing, changed, or claimed and not kept, is refused."""
        if facts.get("sudare") != KIND_OF_FILE or facts.get("format") not in (FIRST_FORMAT, FORMAT):
            raise ReleaseError(
                "{file} is of a format this version does not know (it knows {known}); use a newer Sudare",
                file=DEVICE_FILE,
                known=f"{FIRST_FORMAT}, {FORMAT}",
            )
        try:
            device_file = cls(
                mechanism=_read_mechanism(facts),
                epsilon_per_metre=exact_epsilon_per_metre(Fraction(facts["epsilon_per_metre"])),
                tight_epsilon_per_metre=float(facts["tight_epsilon_per_metre"]),
                repeat=RepeatUse.from_dict(facts["repeat"]),
                format=int(facts["format"]),
            )
            most = float(device_file.epsilon_per_metre) * (1 + SAME)
            is_same = device_file.to_dict() == dict(facts) and 0 <= device_file.tight_epsilon_per_metre <= most
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, ParameterError):
            is_same = False
        if not is_same:
            raise ReleaseError(
                "{file} is not as Sudare wrote it: an entry is missing, unknown or changed; get the release again",
                file=DEVICE_FILE,
            )
        prove_promise(device_file)
        return device_file


# --- what a reader of the file recomputes -----------------------------------------------------------------------------

MAX_RECERTIFIED = {"plane": 20_000, "other": 1_000}  # cells up to which the certified epsilon is recomputed on reading
SAME = 1e-9  # relative difference of two computations of one epsilon


def prove_promise(device_file: DeviceFile) -> None:
    """Recompute what the file claims: a metric, epsilon for its beta and weights, and the certified epsilon.

    With 2 beta <= epsilon the metric is the proof; otherwise the certificate is computed anew, however large the map.
    The certified epsilon is compared where that takes a moment; `recertify` does it always.
    """
    mechanism, promised = device_file.mechanism, device_file.epsilon_per_metre
    check_metric(mechanism.places)
    kind = "plane" if isinstance(mechanism.places, PlaneGrid) else "other"
    is_proven = 2 * mechanism.beta_per_metre <= promised and isinstance(mechanism, Mechanism)
    if is_proven and mechanism.places.size > MAX_RECERTIFIED[kind]:
        return
    recertify(device_file)


def recertify(device_file: DeviceFile) -> TightEpsilon:
    """Compute the certified epsilon of a device file anew; refuse the file if it promises or claims less.

    A large map without rows is summed within a reach, and its publisher may have had a longer one: what both can differ
    by (some parts in 1e8 of epsilon) is no claim of less.
    """
    needed = certify_law(device_file.mechanism)
    for claim in (float(device_file.epsilon_per_metre), device_file.tight_epsilon_per_metre):
        if not needed.epsilon - needed.error <= claim * (1 + SAME):
            raise ReleaseError(
                "{file} claims epsilon {claimed} per metre, but its law needs {needed}; do not use it, get the release"
                " from its publisher again",
                file=DEVICE_FILE,
                claimed=f"{claim:.6g}",
                needed=f"{needed.epsilon:.6g}",
            )
    return needed


def certify_law(law: Mechanism | HiddenMechanism) -> TightEpsilon:
    """Certify a law of either kind; that of hidden reports is a bound above the smallest epsilon."""
    if isinstance(law, HiddenMechanism):
        return TightEpsilon(epsilon=certify_hidden(law), is_exact=False)
    return certify_epsilon(law)


def hash_facts(facts: Mapping[str, Any], *, escaped: bool = False) -> str:
    """Hash JSON-able facts without floats: sorted keys, no spaces; JavaScript writes the same text.

    >>> hash_facts({"b": [1], "a": "x"})[:16]
    '6c17667416e4e6be'
    """
    content = json.dumps(facts, sort_keys=True, separators=(",", ":"), ensure_ascii=escaped)
    return hashlib.sha256(content.encode()).hexdigest()


VECTOR_CELLS = 6  # cells in even steps, besides corners and strict cells, between which vectors are made


def make_vectors(mechanism: Mechanism | HiddenMechanism) -> list[list[Any]]:
    """Give pairs of cells with their squared distance and floor(2**64 w(y) exp(-beta d)), give or take 3.

    Python, JavaScript and the collector each compute them; a file whose vectors differ is refused.
    """
    places, vectors = mechanism.places, []
    cells = choose_cells(places, VECTOR_CELLS).tolist()
    for number, cell in enumerate(cells):
        squares = places.squares(cell)
        for other in {cells[-1 - number], cells[(number + 1) % len(cells)]}:
            chance = Chance(
                share=Fraction(int(mechanism.weights[other]), FULL_WEIGHT),
                beta=mechanism.beta_per_metre,
                square=int(squares[other]) * places.unit_metres**2,
            )
            vectors.append([cell, other, str(int(squares[other])), str(chance.bounds(64)[0])])
    return vectors


def make_column_vectors(law: HiddenMechanism) -> list[list[Any]]:
    """Give some cells and hidden reports with floor(2**64 w k), give or take 3."""
    cells = choose_cells(law.places, VECTOR_CELLS).tolist()
    reports = np.linspace(0, law.reports - 1, len(cells)).astype(np.int64).tolist()
    vectors = []
    for cell, report in zip(cells, reports, strict=True):
        share = Fraction(int(law.columns[report, 3]), FULL_WEIGHT)
        chances = tuple(
            Chance(share=share, beta=law.beta_per_metre, square=cone.square, shift=-law.beta_per_metre * cone.lag)
            for cone in law.cones(cell, report)
        )
        vectors.append([cell, report, str(LargestChance(chances=chances).bounds(64)[0])])
    return vectors


def shorten_weights(weights: Integers) -> list[int] | dict[str, list[int]]:
    """Write weights as runs of equal ones where that is shorter.

    >>> shorten_weights(np.array([5, 5, 5, 0]))
    {'runs': [3, 5, 1, 0]}
    """
    ends = np.append(np.flatnonzero(np.diff(weights)) + 1, len(weights))
    if 2 * len(ends) > len(weights):
        listed: list[int] = weights.tolist()
        return listed
    counts = np.diff(ends, prepend=0)
    return {"runs": np.column_stack([counts, weights[ends - 1]]).reshape(-1).tolist()}


def _read_weights(facts: Any, size: int) -> Integers:
    """Read what `shorten_weights` wrote; the counts must add up to the cells before anything is made of them."""
    if isinstance(facts, list):
        return np.array(facts, dtype=np.int64)
    runs = np.array(facts["runs"], dtype=np.int64).reshape(-1, 2)
    if set(facts) != {"runs"} or runs[:, 0].min() < 1 or runs[:, 0].max() > size or int(runs[:, 0].sum()) != size:
        raise ValueError
    return np.repeat(runs[:, 1], runs[:, 0])


# --- reading ----------------------------------------------------------------------------------------------------------


def load_device_file(directory: str | Path) -> DeviceFile:
    """Read the device file of a saved release, or a `mechanism.json` by itself."""
    place = Path(directory)
    file = place / DEVICE_FILE if place.is_dir() else place
    try:
        facts = read_json(read_bytes(file, error=ReleaseError))
    except (ReleaseError, ValueError):
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


def describe_law(mechanism: Mechanism | HiddenMechanism) -> dict[str, Any]:
    """Give everything that the drawn law depends on, exactly, and the cells that are told."""
    hidden: dict[str, Any] = {} if mechanism.told is None else {"told": mechanism.told.tolist()}
    if isinstance(mechanism, HiddenMechanism):
        pairs = zip(mechanism.slopes, mechanism.shapes, strict=True)
        hidden["shapes"] = [[slope, *(list(point) for point in shape)] for slope, shape in pairs]
        hidden["columns"] = mechanism.columns.reshape(-1).tolist()
        hidden["column_vectors"] = make_column_vectors(mechanism)
    return hidden | {
        "grid": mechanism.places.to_dict(),
        "beta_per_metre": str(mechanism.beta_per_metre),
        "weight_bits": WEIGHT_BITS,
        "weights": mechanism.weights.tolist(),
        "inputs": _describe_inputs(mechanism),
    }


def _describe_inputs(mechanism: Mechanism | HiddenMechanism) -> str | list[int]:
    if bool((mechanism.can_enter == (mechanism.weights > 0)).all()):
        return "reportable"
    return "all" if bool(mechanism.can_enter.all()) else np.flatnonzero(mechanism.can_enter).tolist()


def _read_mechanism(facts: Mapping[str, Any]) -> Mechanism | HiddenMechanism:
    if facts["weight_bits"] != WEIGHT_BITS:
        raise ValueError
    places = read_places(facts["grid"])
    inputs = None
    if facts["inputs"] == "all":
        inputs = np.ones(places.size, dtype=np.bool_)
    elif facts["inputs"] != "reportable":
        inputs = np.zeros(places.size, dtype=np.bool_)
        inputs[np.array(facts["inputs"], dtype=np.int64)] = True
    weights = _read_weights(facts["weights"], places.size)
    told = np.array(facts["told"], dtype=np.int64) if "told" in facts else None
    if "columns" in facts and told is not None:
        return HiddenMechanism(
            places=places,
            beta_per_metre=Fraction(facts["beta_per_metre"]),
            shapes=tuple(tuple((int(a), int(b), int(lag)) for a, b, lag in shape[1:]) for shape in facts["shapes"]),
            slopes=tuple(int(shape[0]) for shape in facts["shapes"]),
            columns=np.array(facts["columns"], dtype=np.int64).reshape(-1, 4),
            told=told,
            weights=weights,
            inputs=inputs,
        )
    return Mechanism(
        places=places, beta_per_metre=Fraction(facts["beta_per_metre"]), weights=weights, inputs=inputs, told=told
    )


def _read_names(facts: Mapping[str, Any]) -> tuple[str, ...]:
    if not all(isinstance(name, str) for name in facts["names"]):
        raise ValueError
    return tuple(facts["names"])


def read_places(facts: Mapping[str, Any]) -> Places:
    """Read a map from the facts its `to_dict` gave.

    >>> grid = PlaneGrid(rows=2, columns=3, cell_height_metres="115.6", cell_width_metres="141.5")
    >>> read_places(grid.to_dict()) == grid
    True
    """
    if facts["kind"] == "plane":
        corner = MeshCorner(**facts["mesh"]) if "mesh" in facts else None
        degrees = facts.get("degrees")
        placed = DegreeCorner(**{name: float(value) for name, value in degrees.items()}) if degrees else None
        names = ("rows", "columns", "cell_height_metres", "cell_width_metres")
        return PlaneGrid(corner=corner, degrees=placed, **{name: facts[name] for name in names})
    if facts["kind"] == "points":
        return PointPlaces(points=np.array(facts["points"], dtype=np.int64), names=_read_names(facts))
    if facts["kind"] == "graph":
        return RoadGraph(
            names=_read_names(facts), edges=tuple((start, end, length) for start, end, length in facts["edges"])
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
