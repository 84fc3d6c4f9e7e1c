"""A small private table and the installed command, for tests that know nothing of the checkout.

`make matrix` copies this folder away from the checkout and runs it against the built wheel, with the lowest and with
the newest packages. So nothing here imports from `tests`, and of Sudare only `import sudare` and its command line.
"""

from __future__ import annotations

import contextlib
import functools
import io
import os
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from unittest import mock

import pytest

# What every kind of column encoding needs once: texts, decimals, Japanese dates, mesh codes.
SCHEMA = """\
[sudare]
schema = 1
name = "members"

[[attribute]]
name = "id"
role = "identifier"

[[attribute]]
name = "sex"
kind = "category"
role = "quasi"
values = ["F", "M"]
hierarchy = { masking = "right" }

[[attribute]]
name = "age"
kind = "number"
role = "quasi"
bins = { start = 0, stop = 80, width = 10 }
hierarchy = { intervals = [20, 40] }

[[attribute]]
name = "prefecture"
kind = "category"
values = ["東京都", "神奈川県", "大阪府"]
hierarchy = { builtin = "jp-prefecture" }

[[attribute]]
name = "plan"
kind = "category"
role = "sensitive"
values = ["full", "daytime"]

[[attribute]]
name = "paid"
kind = "number"
edges = [0, 1000, 2000, 4000]
missing = true

[[attribute]]
name = "joined"
kind = "date"
bins = { start = "2026-01-01", stop = "2026-12-31", width = "3 months" }
format = "%Y年%m月%d日"

[[attribute]]
name = "home"
kind = "mesh"
level = 2
area = ["5339"]
"""
MAP = """\
[grid]
kind = "plane"
rows = 6
columns = 6
cell_height_metres = 100
cell_width_metres = 100
weights = "land.csv"
"""
RECIPE = """\
[recipe]
version = 1
source = "members.csv"
schema = "members.toml"
out = "releases"

[ledger]
file = "recipe.ledger"
budget = "2"

[[release]]
name = "records"
publish = "microdata"
epsilon = "1/2"
by = ["sex", "age"]
report = true

[[release]]
name = "regions"
publish = "table"
epsilon = 0.5
by = ["sex", "prefecture"]
format = "csv"
"""
ROWS = 400


def _row(number: int) -> str:
    sex, plan = "FM"[number % 2], ("full", "daytime")[number % 3 % 2]
    prefecture = ("東京都", "神奈川県", "大阪府")[number % 7 % 3]
    paid = "" if number % 5 == 0 else f"{number * 9 % 4000}.50"
    joined = f"2026年{1 + number % 12:02}月{1 + number % 28:02}日"
    home = f"5339{number % 8}{number % 5}"
    return f"p{number},{sex},{number % 80},{prefecture},{plan},{paid},{joined},{home}"


@dataclass(frozen=True)
class Ran:
    """What a command did."""

    code: int
    out: str
    err: str


Sudare = Callable[..., Ran]


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a table, its schema, a map and a recipe."""
    directory = tmp_path_factory.mktemp("smoke")
    lines = ["id,sex,age,prefecture,plan,paid,joined,home", *map(_row, range(ROWS))]
    land = ["row,column,weight", *(f"{cell // 6},{cell % 6},{1 - cell % 4 / 4}" for cell in range(36))]
    for name, text in {
        "members.csv": "\n".join(lines) + "\n",
        "members.toml": SCHEMA,
        "land.csv": "\n".join(land) + "\n",
        "map.toml": MAP,
        "recipe.toml": RECIPE,
    }.items():
        (directory / name).write_text(text, encoding="utf-8")
    return directory


@pytest.fixture(scope="session")
def sudare(place: Path) -> Sudare:
    """Call the command line in `place` by its entry point, in this process: starting one for every call takes long."""
    main = entry_points(group="console_scripts", name="sudare")["sudare"].load()

    def call(*words: str) -> Ran:
        out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
        with (
            mock.patch.dict(os.environ, {"SUDARE_LANG": "en"}),
            contextlib.chdir(place),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            code = main(list(words))
        return Ran(code, *(stream.buffer.getvalue().decode() for stream in (out, err)))

    return call


@pytest.fixture(scope="session")
def process(place: Path) -> Sudare:
    """Run the installed script in `place`, or the program that `start` names.

    Standard error goes to the handle `err` where one is given.
    """
    script = Path(sysconfig.get_path("scripts"), "sudare.exe" if os.name == "nt" else "sudare")

    def call(
        *words: str, language: str = "en", start: Sequence[str] = (str(script),), err: int = subprocess.PIPE
    ) -> Ran:
        settings = os.environ | {"SUDARE_LANG": language, "PYTHONUTF8": "1", "TERM": "xterm"}
        done = subprocess.run(
            [*start, *words], cwd=place, env=settings, stdout=subprocess.PIPE, stderr=err, encoding="utf-8", check=False
        )
        return Ran(done.returncode, done.stdout, done.stderr or "")

    return call


SEVERAL = """\
import shlex, sys
from importlib.metadata import entry_points
main = entry_points(group="console_scripts", name="sudare")["sudare"].load()
sys.exit(max(main(shlex.split(line)) for line in sys.argv[1:]))
"""


@pytest.fixture(scope="session")
def japanese(process: Sudare) -> Sudare:
    """Run several command lines in one new process that speaks Japanese; the code is the highest of theirs."""
    return functools.partial(process, language="ja", start=(sys.executable, "-c", SEVERAL))


@dataclass(frozen=True)
class Published:
    """The five releases of the table, and what the command said of each."""

    place: Path
    said: dict[str, Ran]


@pytest.fixture(scope="session")
def published(place: Path, sudare: Sudare) -> Published:
    """One release of every method, all charged to one ledger where a method spends."""
    table = ("members.csv", "--schema", "members.toml")
    charged = ("--ledger", "members.ledger")
    made = sudare("ledger", "create", "members.ledger", "--epsilon", "2")
    assert made.code == 0, made.err
    said = {
        "microdata": sudare("publish", "microdata", *table, "--epsilon", "1/2", "--by", "sex,age,plan", *charged,
                            "--out", "microdata"),
        "table": sudare("publish", "table", *table, "--epsilon", "1/2", "--by", "home,sex", *charged, "--out", "table"),
        "view": sudare("publish", "view", *table, "--epsilon", "1/2", "--by", "sex,age,paid,joined", *charged,
                       "--out", "view"),
        "kanon": sudare("publish", "kanon", *table, "--k", "5", "--criteria", "l=2,plan", "--by", "sex,age,plan",
                        "--out", "kanon"),
        "location": sudare("publish", "location", "map.toml", "--epsilon-per-metre", "0.02", "--mode", "fair",
                           "--out", "location"),
    }  # fmt: skip
    return Published(place, said)
