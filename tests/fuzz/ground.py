"""A steward's folder in which every door opens: tables, schema, map, recipe, request, ledger, keys and releases.

Every cell of the table that no schema declares, and every bad cell that a fuzzer writes, holds a SECRET: none of them
may ever be in a message.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sudare.cli import main

SECRETS = ("Qzx", "7731042")  # what every private text begins with, and what every private number begins with

SCHEMA = """\
[sudare]
schema = 1
name = "members"

[unit]
kind = "row"

[[attribute]]
name = "item"
kind = "category"
role = "quasi"
values = ["h1", "h2", "h3"]
hierarchy = "item.csv"

[[attribute]]
name = "age"
kind = "number"
role = "quasi"
bins = { start = 0, stop = 100, width = 20 }
outside = "refuse"
hierarchy = { intervals = [40] }

[[attribute]]
name = "joined"
kind = "date"
bins = { start = 2020-01-01, stop = 2023-12-31, width = "1 year" }
missing = true

[[attribute]]
name = "grade"
kind = "ordered"
role = "sensitive"
values_file = "grades.txt"

[[impossible]]
item = ["h3"]
age = ["[0,20)"]
"""
PLAIN_SCHEMA = SCHEMA.partition("[[impossible]]")[0]  # which views take
MAP = """\
[grid]
kind = "plane"
rows = 4
columns = 5
cell_height_metres = 115.6
cell_width_metres = 141.5
weights = "land.csv"
"""
RECIPE = """\
[recipe]
version = 1
source = "members.csv"
schema = "members.toml"
out = "made"

[ledger]
file = "recipe.ledger"
budget = "2"

[[release]]
name = "records"
publish = "microdata"
epsilon = "1/2"

[[release]]
name = "classes"
publish = "kanon"
k = 5
max_suppressed = "0.2"
"""
REQUEST = '[request]\nk = 40\n[[wish]]\nitem = 0\nage = 1\n[[wish]]\nage = [["[0,20)"], ["[20,40)", "[40,60)"]]\n'
GRADES = ("a", "b", "c")
ROADS = (
    '{"type": "FeatureCollection", "features": [{"type": "Feature", "properties": {}, "geometry":'
    ' {"type": "LineString", "coordinates": [[139.70, 35.60], [139.71, 35.60], [139.71, 35.61]]}}]}\n'
)
LAND = (
    '{"type": "Polygon", "coordinates": [[[139.5, 35.5], [139.9, 35.5], [139.9, 35.9], [139.5, 35.9], [139.5, 35.5]]]}'
)
GRAPHML = """\
<graphml><key id="d0" for="node" attr.name="y"/><key id="d1" for="node" attr.name="x"/><key id="d2" attr.name="length"/>
<graph><node id="1"><data key="d0">35.6</data><data key="d1">139.7</data></node>
<node id="2"><data key="d0">35.61</data><data key="d1">139.7</data></node>
<edge source="1" target="2"><data key="d2">1100.0</data></edge></graph></graphml>
"""
OTHER_MAPS = {
    "roads.toml": '[grid]\nkind = "graph"\nfile = "roads.geojson"\n',
    "graphml.toml": '[grid]\nkind = "graph"\nfile = "roads.graphml"\n',
    "edges.toml": '[grid]\nkind = "graph"\nedges = "edges.csv"\n',
    "mesh.toml": '[grid]\nkind = "mesh"\nlevel = 2\narea = ["5339"]\nland = "land.geojson"\n',
}


@dataclass(frozen=True, kw_only=True)
class Ground:
    """The folder, a pristine copy of it, and what a refused command must leave as it is."""

    place: Path
    pristine: Path

    def state(self) -> dict[str, tuple[int, int]]:
        """What is in the folder: every path with its size and the moment of its last change."""
        found = {}
        for path in sorted(self.place.rglob("*")):
            facts = path.lstat()
            size = 0 if path.is_dir() and not path.is_symlink() else facts.st_size
            found[str(path.relative_to(self.place))] = (size, 0 if path.is_dir() else facts.st_mtime_ns)
        return found

    def restore(self, before: dict[str, tuple[int, int]]) -> None:
        """Bring the folder back to what it was."""
        now = self.state()
        for name in sorted(now.keys() - before.keys(), reverse=True):
            path = self.place / name
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
        for name in sorted(before):
            if now.get(name) != before[name]:
                self._bring_back(name)

    def _bring_back(self, name: str) -> None:
        source, path = self.pristine / name, self.place / name
        if source.is_dir():
            path.mkdir(exist_ok=True)
        elif source.exists():
            shutil.copy2(source, path)


def rows_of_members() -> list[str]:
    """The lines of the table: declared values, and a name and a number that no schema declares."""
    days = ("2020-03-01", "2021-07-09", "2023-12-31", "")
    return [
        f"h{1 + k % 3},{20 + k * 7 % 80},{days[k % 4]},{GRADES[k % 3]},Qzx{k:04d},7731042{k:03d}" for k in range(240)
    ]


HEADER = "item,age,joined,grade,name,phone"


def write_files(place: Path) -> None:
    """Write the files that a steward brings."""
    texts = {
        "members.toml": SCHEMA,
        "plain.toml": PLAIN_SCHEMA,
        "members.csv": "\n".join([HEADER, *rows_of_members()]) + "\n",
        "item.csv": "h1;h12;*\nh2;h12;*\nh3;h3x;*\n",
        "grades.txt": "\n".join(GRADES) + "\n",
        "map.toml": MAP,
        "land.csv": "row,column,weight\n" + "".join(f"{r},{c},1\n" for r in range(4) for c in range(5)),
        "roads.geojson": ROADS,
        "roads.graphml": GRAPHML,
        "edges.csv": "from,to,metres\na,b,100\nb,c,250.5\n",
        "regions.csv": "region,cell\nnorth,0\nnorth,1\nsouth,7\n",
        "people.csv": "people,cell\n100,0\n20,3\n",
        "land.geojson": LAND,
        "recipe.toml": RECIPE,
        "request.toml": REQUEST,
        "cells.csv": "cell\n0\n3\n7\n",
        **OTHER_MAPS,
    }
    for name, content in texts.items():
        (place / name).write_text(content, encoding="utf-8")


COMMANDS = (
    "ledger create members.ledger --epsilon 50",
    "ledger create rho.ledger --rho 50",
    "keys create steward.key",
    "publish microdata members.csv --schema members.toml --epsilon 1 --ledger members.ledger --out records"
    " --format csv",
    "publish table members.csv --schema members.toml --epsilon 1 --ledger members.ledger --out table",
    "publish view members.csv --schema plain.toml --epsilon 1 --ledger members.ledger --out view --key steward.key",
    "publish view members.csv --schema plain.toml --epsilon 1 --out blocks --algorithm hdpview",
    "publish kanon members.csv --schema members.toml --k 5 --max-suppressed 0.2 --out classes --history h.jsonl",
    "publish location map.toml --epsilon-per-metre 0.02 --mode weighted --out places",
    *(f"preview location {name} --epsilon-per-metre 0.02" for name in OTHER_MAPS),
    "locate draw --device-file places --cell 3 --state state.json --day 2026-11-17",
    "locate draw --device-file places --cells cells.csv --out reports.csv",
)


@contextmanager
def make_ground(root: Path) -> Iterator[Ground]:
    """Make the folder, stand in it, and keep a pristine copy beside it."""
    import os

    place, pristine = root / "ground", root / "pristine"
    place.mkdir(parents=True)
    before = Path.cwd()
    os.chdir(place)
    try:
        write_files(place)
        for command in COMMANDS:
            if main(command.split()) != 0:
                raise AssertionError(f"the ground cannot be made: sudare {command}")
        shutil.copytree(place, pristine, symlinks=True)
        yield Ground(place=place, pristine=pristine)
    finally:
        os.chdir(before)
