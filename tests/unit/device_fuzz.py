"""Forged device files: every field changed one by one, the id written anew, for both languages of code.

A forger knows the format, so the id fits whatever was changed. `list_forgeries` gives texts of JSON, since a parser may
read what another does not: numbers beyond floats, keys twice, deep nesting, keys that JavaScript gives a meaning to.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from sudare.methods.location.device_file import DeviceFile, RepeatUse, certify_law, hash_facts
from sudare.methods.location.geo import make_mesh_grid
from sudare.methods.location.grid import Places, PlaneGrid, PointPlaces
from sudare.methods.location.hidden import HiddenMechanism
from sudare.methods.location.location import Location
from sudare.methods.location.mechanism import FULL_WEIGHT, Mechanism
from sudare.schema.mesh import to_earth_centred
from tests.unit.location_maps import MAPS, land_of

Path = tuple[str | int, ...]

REPLACEMENTS: tuple[Any, ...] = (
    None, True, False, "", "x", 0, -1, 1, 1.5, -0.0, 2**53 + 1, 2**70, -(2**63), 1e308, [], {}, [[]], "1/0", "-1/100",
    "0", "NaN", "Infinity", "1e400", "0x10", " 1", "1/100 ", "９", "10", "1000/1", 3, 1001, 10**6, "all", "plane",
    "1/１００", "1/100\n", {"runs": [2**53, 1]}, [0] * 3000,
)  # fmt: skip
LISTED = 3  # entries of a list that are changed one by one


def make_files() -> dict[str, dict[str, Any]]:
    """Make small files of every metric and of the modes whose files differ."""
    files = {}
    for kind, places in MAPS.items():
        files[f"{kind} sharp"] = _file_of(Location(grid=places, epsilon_per_metre="0.01", mode="sharp"))
    plane = MAPS["plane"]
    files["plane weighted"] = _file_of(
        Location(grid=plane, epsilon_per_metre="0.01", mode="weighted", weights=land_of(plane), inputs="all")
    )
    prior = np.random.default_rng(4).uniform(0.1, 1, plane.size)
    files["plane near"] = _file_of(Location(grid=plane, epsilon_per_metre="0.01", mode="near", prior=prior))
    for kind in ("plane", "points"):
        files[f"{kind} slopes"] = make_slopes(kind)
    mesh = make_mesh_grid(5, south_west=(17100, 12700), shape=(4, 3))
    prior = np.random.default_rng(5).lognormal(0, 1, mesh.size)
    files["mesh fair"] = _file_of(Location(grid=mesh, epsilon_per_metre="0.01", mode="fair", prior=prior))
    globe = [to_earth_centred(35.6 + 0.002 * row, 139.7 + 0.003 * column) for row in range(3) for column in range(3)]
    ground = PointPlaces(points=np.rint(np.array(globe) * 1000).astype(np.int64), names=tuple("abcdefghi"))
    files["globe near"] = _file_of(Location(grid=ground, epsilon_per_metre="0.01", mode="near", prior=prior[:9]))
    return files


def make_slopes(kind: str) -> dict[str, Any]:
    """Make reports of all shapes of mode fair with a prior: cones of two slopes, and one that says nothing."""
    places: Places = MAPS[kind]
    cells = [
        divmod(cell, places.columns) if isinstance(places, PlaneGrid) else (cell, 0) for cell in range(places.size)
    ]
    cones = [[cell % 2, *place, FULL_WEIGHT >> 8] for cell, place in enumerate(cells)]
    law = HiddenMechanism(
        places=places,
        beta_per_metre=Fraction(1, 200),
        shapes=(((0, 0, 0),), ((0, 0, 0),), ()),
        slopes=(100, 50, 0),
        columns=np.array([[2, 0, 0, FULL_WEIGHT >> 7], *cones]),
        told=np.array([0, *range(places.size)]),
        weights=np.full(places.size, FULL_WEIGHT),
    )
    return _write_law(law)


def _file_of(method: Location) -> dict[str, Any]:
    return _write_law(method.mechanism())


def _write_law(law: Mechanism | HiddenMechanism) -> dict[str, Any]:
    rule = RepeatUse(fresh_reports=2, month=5, life=9, answers="lasting", within_metres=Fraction(300), dwell=3)
    made = DeviceFile(
        mechanism=law, epsilon_per_metre=Fraction(1, 100), tight_epsilon_per_metre=certify_law(law).epsilon, repeat=rule
    )
    facts: dict[str, Any] = json.loads(json.dumps(made.to_dict()))
    return facts


def list_paths(value: Any, path: Path = ()) -> Iterator[Path]:
    """List every field and the first entries of every list."""
    if path:
        yield path
    entries: Any = ()
    if isinstance(value, dict):
        entries = value.items()
    elif isinstance(value, list):
        entries = [*enumerate(value[:LISTED]), *([(len(value) - 1, value[-1])] if len(value) > LISTED else [])]
    for key, entry in entries:
        yield from list_paths(entry, (*path, key))


def list_forgeries(facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Give what was changed, and the text of the file."""
    for path in list_paths({name: value for name, value in facts.items() if name != "id"}):
        old = _look_up(facts, path)
        scaled = [old * 2, old + 1, old - 1, -old] if isinstance(old, int) and not isinstance(old, bool) else []
        for new in (*REPLACEMENTS, *scaled, str(old), [old], _LEFT_OUT):
            if new is not _LEFT_OUT and type(new) is type(old) and new == old:
                continue
            yield f"{'.'.join(map(str, path))} = {new!r:.40}", write_forged(_replace(facts, path, new))
    yield from _list_texts(facts)


_LEFT_OUT = object()


def _list_texts(facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Give texts that no object writes: numbers beyond floats, keys twice, nesting, keys with a meaning."""
    text = write_forged(facts)
    beta = f'"beta_per_metre":{json.dumps(facts["beta_per_metre"])}'
    for raw in (
        "1e400",
        "-1e400",
        "NaN",
        "Infinity",
        "1" + "0" * 400,
        "[" * 5000 + "]" * 5000,
        '{"__proto__":{"x":1}}',
    ):
        yield f"beta_per_metre is {raw[:20]}", text.replace(beta, f'"beta_per_metre":{raw}')
    yield "beta twice, the false one first", text.replace("{", '{"beta_per_metre":"10",', 1)
    yield "beta twice, the false one last", text.rstrip("}\n") + '},"beta_per_metre":"10"}'
    for key in ("__proto__", "constructor", "toString", "length"):
        changed = {name: value for name, value in facts.items() if name != "id"} | {key: {"beta_per_metre": "10"}}
        yield f"a key {key}", write_forged(changed)
    yield "no object", "[]"
    yield "nothing", "null"


def write_forged(facts: dict[str, Any]) -> str:
    """Write a file with an id that fits."""
    rest = {name: value for name, value in facts.items() if name != "id"}
    return json.dumps({"id": hash_facts(rest)} | rest, ensure_ascii=False, separators=(",", ":"))


def _look_up(value: Any, path: Path) -> Any:
    for key in path:
        value = value[key]
    return value


def _replace(facts: dict[str, Any], path: Path, new: Any) -> dict[str, Any]:
    changed = copy.deepcopy(facts)
    place = _look_up(changed, path[:-1])
    if new is _LEFT_OUT:
        del place[path[-1]]
    else:
        place[path[-1]] = new
    return changed
