"""The rooms and their walls, read off the source: imports point one way, each engine stays in its file."""

from __future__ import annotations

import ast
import fnmatch
import functools
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

import sudare
from sudare.noise import Rng

SOURCE = Path(sudare.__file__).parent
ROOT = Path(__file__).resolve().parents[2]

# A room may import itself and the rooms of earlier lines; rooms on one line do not see each other.
ORDER = (
    ("text",),
    ("errors",),
    ("scratch",),
    ("atomic",),
    ("forms",),
    ("schema",),
    ("counts",),
    ("privacy",),
    ("noise",),
    ("postprocess",),
    ("releases",),
    ("asking",),
    ("compare", "report"),
    ("sources", "methods"),
    ("verify",),
    ("app",),
    ("requests",),
    ("advise",),
    ("recipe", "demo"),
    ("testing",),
    ("studio",),
    ("cli",),
    ("__main__",),
)
RANK = {room: rank for rank, line in enumerate(ORDER) for room in line}
WALLS = {
    ("methods", "sources"),
    ("report", "counts"),
    ("releases", "counts"),
    ("testing", "cli"),
    ("testing", "studio"),
}
# The one way back: `release.report()` leads to the method that made the release; imported when it is called.
BACK = {("releases/release.py", "sudare.app.render_report")}
# Packages that only some files may import: package -> patterns of paths below sudare/.
ENGINES = {
    "duckdb": ("sources/duckdb.py", "sources/records_sql.py", "releases/parquet.py"),
    **dict.fromkeys(("pyspark", "py4j"), ("sources/spark.py",)),
    "sqlglot": ("sources/*",),
    "cryptography": ("noise/rng.py", "privacy/signatures.py"),
    "sqlite3": ("privacy/ledger_file.py", "requests/store_file.py", "studio/project.py", "studio/desk/database.py"),
    **dict.fromkeys(("starlette", "uvicorn", "jinja2"), ("studio/*",)),
    "psycopg": ("privacy/ledger_server.py", "sources/postgres.py", "studio/desk/database.py"),
    "numpy.random": ("demo/*", "noise/public.py"),  # never where a private value or a release is made
    "random": ("noise/*",),
    "os.urandom": ("noise/*", "privacy/chain.py", "privacy/spend.py", "privacy/ledger_file.py"),  # ids, and a pause
    "secrets": ("scratch.py", "studio/*"),  # names of temporary directories; tokens and ids of the pages
    # rows stand where the steward allows it; those of verify are made up
    "tempfile": ("atomic.py", "scratch.py", "sources/files.py", "testing/*", "verify/promises.py"),
    **dict.fromkeys(
        ("tempfile.mkdtemp", "tempfile.gettempdir", "tempfile.TemporaryDirectory"), ("testing/*", "verify/promises.py")
    ),
    **dict.fromkeys(("os.replace", "os.rename", "os.link", "os.fsync"), ("atomic.py",)),  # whole files, written once
    "scipy": (
        "verify/*",
        "compare/*",
        "methods/location/*",
        "methods/kanon/*",
        "methods/view/weighted.py",  # sums of weighted records, in a third of the time of NumPy
        "postprocess/linked_squares.py",
        "postprocess/threads.py",
    ),
    **dict.fromkeys(("shapely", "pyproj", "pyogrio", "h3"), ("methods/location/geo.py", "schema/area_file.py")),
    "python_calamine": ("sources/excel.py",),
    "xlsxwriter": ("releases/office.py",),
    "sklearn": ("compare/task.py",),
    "osmium": ("methods/location/roads.py",),
    "vl_convert": ("methods/location/estimate_files.py", "report/*"),
}
BY_NAME = {  # by the name that an entry gives, or that is asked of the room itself
    "methods/registry.py",
    "forms/__init__.py",
    "privacy/__init__.py",
}
LATE = ("scipy", "sklearn", "rich")  # slow to import: only inside functions
FILES = {"errors", "scratch", "atomic", "app", "__main__"}  # rooms of one file
DOORS = {"cli", "studio", "testing", "__main__"}  # the only rooms that may use the public names of `import sudare`


@dataclass(frozen=True, kw_only=True)
class Import:
    """One import: the dotted name it reaches for, where it stands, and whether it runs at start-up."""

    path: str
    line: int
    target: str
    at_start: bool

    @property
    def room(self) -> str:
        """The room of the importing file."""
        return Path(self.path).parts[0].removesuffix(".py")


def breaches(package: Path) -> list[str]:
    """Every broken rule of the tree below `package`, one line each."""
    found = [line for path in sorted(package.rglob("*.py")) for line in _breaches_of(path, package)]
    return found + _logic_at_the_front_door(package / "__init__.py")


def _breaches_of(path: Path, package: Path) -> list[str]:
    relative = path.relative_to(package).as_posix()
    if relative == "__init__.py":  # the public names: exempt from the order
        return []
    room = relative.split("/")[0].removesuffix(".py")
    if room not in RANK:
        return [f"{relative}: {room} is not a room; give it a place in ORDER"]
    verdicts = ((found, _verdict(found)) for found in imports(path.read_text(encoding="utf-8"), relative))
    faults = [f"{found.path}:{found.line}: {reason}" for found, reason in verdicts if reason]
    return faults + (_draws_of(path, relative) if room != "noise" else [])


# --- no draw outside noise/: whoever holds an Rng passes it on to a sampler of that room -------------------------

DRAWING = {name for name, member in vars(Rng).items() if callable(member) and not name.startswith("_")}
UNMISTAKABLE = {name for name in DRAWING if name not in ("fill", "bytes", "bits", "below", "subset")}
GENERATORS = {"Rng", "SystemRng", "SeededRng", "system_rng"}


def _draws_of(path: Path, relative: str) -> list[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    holders = _names_of_generators(tree)
    return [
        f"{relative}:{node.lineno}: {ast.unparse(node)} draws outside noise/; call a sampler of noise with the rng"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr in DRAWING
        and (node.attr in UNMISTAKABLE or _identifiers(node.value) & holders)
    ]


def _names_of_generators(tree: ast.AST) -> set[str]:
    """Names that hold a random stream: annotated as one, called rng, or given a value made of such names."""
    holders = set(GENERATORS)
    before = 0
    while before != len(holders):
        before = len(holders)
        for node in ast.walk(tree):
            if isinstance(node, ast.arg) and node.annotation is not None and _identifiers(node.annotation) & GENERATORS:
                holders.add(node.arg)
            if isinstance(node, ast.AnnAssign) and _identifiers(node.annotation) & GENERATORS:
                holders |= _identifiers(node.target)
            if isinstance(node, ast.Assign | ast.NamedExpr) and _holds_a_stream(node.value, holders):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                holders |= {name for target in targets for name in _identifiers(target)}
            if isinstance(node, ast.Name | ast.Attribute):
                holders |= {name for name in _identifiers(node) if re.fullmatch(r"_?(\w+_)?rng", name)}
    return holders - {"self"}


def _holds_a_stream(value: ast.expr, holders: set[str]) -> bool:
    """Tell whether a value is a stream itself: its name, a call that makes one, or a choice between such values."""
    match value:
        case ast.IfExp(body=body, orelse=other):
            return _holds_a_stream(body, holders) or _holds_a_stream(other, holders)
        case ast.BoolOp(values=values):
            return any(_holds_a_stream(part, holders) for part in values)
        case ast.Call(func=ast.Name(id=name)):
            return name in GENERATORS
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name in holders
    return False


def _identifiers(node: ast.AST) -> set[str]:
    """The last name of an expression, and all names of an annotation."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return {name}
        case ast.Call(func=function):
            return _identifiers(function)
        case ast.Constant(value=str() as text):
            return set(re.findall(r"\w+", text))
        case ast.BinOp() | ast.Subscript() | ast.Tuple():
            return {name for part in ast.iter_child_nodes(node) for name in _identifiers(part)}
    return set()


def _verdict(found: Import) -> str | None:
    if found.target == "?":
        may_be = found.room in DOORS or found.path in BY_NAME
        return None if may_be else "an import by a name that cannot be read from the source"
    if (found.path, found.target) in BACK and not found.at_start:
        return None
    top, *rest = found.target.split(".")
    if top == "sudare":
        return _verdict_on_room(found.room, rest)
    return _verdict_on_package(found)


def _verdict_on_room(room: str, rest: list[str]) -> str | None:
    if not rest or rest[0] not in RANK:
        return None if room in DOORS else f"{room} imports the public names; import from the room instead"
    target = rest[0]
    if (room, target) in WALLS:
        return f"{room} must never import {target}"
    if target == room or RANK[target] < RANK[room]:
        return None
    return f"{room} may not import {target}: imports point from the edges to the core only"


def _verdict_on_package(found: Import) -> str | None:
    for package, allowed in ENGINES.items():
        inside = found.target == package or found.target.startswith(package + ".")
        if inside and not any(fnmatch.fnmatch(found.path, pattern) for pattern in allowed):
            return f"{package} may be imported only in {', '.join(allowed)}"
    if found.at_start and found.target.split(".")[0] in LATE:
        return f"{found.target.split('.')[0]} is slow to import: import it inside the function that needs it"
    return None


@functools.cache
def imports(text: str, relative: str) -> tuple[Import, ...]:
    """Every import of a file: at the top, in a function, under TYPE_CHECKING, relative, or by importlib."""
    tree = ast.parse(text)
    late, numpy = _late_nodes(tree), _names_of_numpy(tree)
    package = ["sudare", *relative.split("/")[:-1]]
    return tuple(
        Import(path=relative, line=node.lineno, target=target, at_start=node not in late)
        for node in ast.walk(tree)
        for target in _targets(node, package, numpy)
    )


def _targets(node: ast.AST, package: list[str], numpy: set[str]) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        kept = package[: len(package) - node.level + 1] if node.level else []
        base = ".".join([*kept, *([node.module] if node.module else [])])
        return [f"{base}.{alias.name}" for alias in node.names]
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        if node.attr == "random":
            return ["numpy.random"] if node.value.id in numpy else []
        target = f"{node.value.id}.{node.attr}"
        return [target] if target.startswith("os.") and target in ENGINES else []
    if isinstance(node, ast.Call) and _called(node) in ("import_module", "__import__"):
        first = node.args[0] if node.args else None
        return _by_name(first.value if isinstance(first, ast.Constant) else None, package)
    return []


def _by_name(name: object, package: list[str]) -> list[str]:
    if not isinstance(name, str):
        return ["?"]
    dots = len(name) - len(name.lstrip("."))
    return [".".join([*package[: len(package) - dots + 1], name[dots:]]) if dots else name]


def _called(node: ast.Call) -> str:
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else ""


def _names_of_numpy(tree: ast.AST) -> set[str]:
    aliases = (alias for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names)
    return {alias.asname or alias.name for alias in aliases if alias.name == "numpy"}


def _late_nodes(tree: ast.AST) -> set[ast.AST]:
    """Nodes that do not run when the module is imported: bodies of functions and of `if TYPE_CHECKING`."""
    late: set[ast.AST] = set()
    for node in ast.walk(tree):
        guarded = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        if guarded or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            late.update(ast.walk(node))
    return late


def _logic_at_the_front_door(door: Path) -> list[str]:
    """`sudare/__init__.py` holds names: imports, literals, and the functions that look a name up."""
    found = []
    for node in ast.parse(door.read_text(encoding="utf-8")).body:
        is_name = isinstance(node, ast.Import | ast.ImportFrom | ast.Assign | ast.AnnAssign | ast.Expr)
        is_lookup = isinstance(node, ast.FunctionDef) and node.name in ("__getattr__", "__dir__")
        is_typing = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        if not (is_name or is_lookup or is_typing):
            found.append(f"__init__.py:{node.lineno}: the front door holds names, no logic")
    return found


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/explanations/rooms.md"])
def test_pages_tell_the_rooms_in_the_order_of_their_imports(page: str) -> None:
    told = re.search(r"Imports point one way: `(.*?)`", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    lines = [tuple(line.split(", ")) for line in re.sub(r"\s+", " ", told[1]).split(" <- ")] if told else []

    assert lines == [line for line in ORDER if line[0] not in ("scratch", "atomic", "__main__")]


def test_the_page_of_rooms_has_a_row_for_each() -> None:
    page = (ROOT / "docs/explanations/rooms.md").read_text(encoding="utf-8")
    rooms = {room for line in ORDER for room in line} - {"errors", "scratch", "atomic", "app", "__main__"}

    assert sorted(room for room in rooms if not re.search(rf"^\|.*`{room}/`", page, flags=re.MULTILINE)) == []


def test_imports_point_one_way_and_every_wall_stands() -> None:
    found = breaches(SOURCE)

    assert not found, "\n".join(found)


def test_every_room_of_the_tree_has_a_place_in_the_order() -> None:
    rooms = {path.name.removesuffix(".py") for path in SOURCE.iterdir() if path.suffix == ".py" or path.is_dir()}

    assert rooms - {"__init__", "__pycache__"} <= set(RANK)


# --- the check itself can fail: a broken import is planted for every rule ---------------------------------


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The front door of the source, and every room, empty."""
    built = tmp_path / "sudare"
    for room in RANK.keys() - FILES:
        (built / room / "inner").mkdir(parents=True)
    shutil.copy(SOURCE / "__init__.py", built)
    return built


def _planted(tree: Path, file: str, text: str) -> list[str]:
    """The breaches that appear when `text` stands in `file`."""
    before = set(breaches(tree))
    (tree / file).write_text(text + "\n", encoding="utf-8")
    return [line for line in breaches(tree) if line not in before]


WRONG_WAYS = [(room, target) for room in RANK for target in RANK if room != target and RANK[target] >= RANK[room]]


@pytest.mark.parametrize(("room", "target"), sorted(set(WRONG_WAYS) | WALLS))
def test_an_import_against_the_order_or_through_a_wall_is_found(tree: Path, room: str, target: str) -> None:
    file = f"{room}.py" if room in FILES else f"{room}/inner/planted.py"

    found = _planted(tree, file, f"from sudare.{target} import thing")

    assert any(target in line for line in found)


FORMS = [
    "import sudare.sources",
    "import sudare.sources.duckdb as engine",
    "from sudare import sources",
    "from sudare.sources import open as opened",
    "from ..sources import duckdb",
    "from ..sources.duckdb import read",
    "from .. import sources",
    "def read():\n    import sudare.sources",
    "async def read():\n    from ..sources import duckdb",
    "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from sudare.sources import Source",
    "import typing\nif typing.TYPE_CHECKING:\n    from ..sources import Source",
    "try:\n    import sudare.sources\nexcept ImportError:\n    pass",
    "import importlib\nimportlib.import_module('sudare.sources')",
    "from importlib import import_module\nimport_module('..sources', __package__)",
    "__import__('sudare.sources')",
    "import importlib\nimportlib.import_module('sudare.' + 'sources')",
    "import importlib\ndef read(name):\n    return importlib.import_module(f'sudare.{name}')",
    "import sudare\nsudare.open",
    "import sudare as sd",
    "from sudare import open",
]


@pytest.mark.parametrize("text", FORMS)
def test_a_method_cannot_reach_a_source_by_any_form_of_import(tree: Path, text: str) -> None:
    found = _planted(tree, "methods/planted.py", text)

    assert found != []


ENGINE_BREACHES = [
    ("duckdb", "sources/postgres.py"),
    ("duckdb", "releases/frame.py"),
    ("duckdb", "cli/planted.py"),
    ("sqlglot", "methods/planted.py"),
    ("cryptography", "noise/planted.py"),
    ("cryptography", "privacy/planted.py"),
    ("sqlite3", "privacy/planted.py"),
    ("sqlite3", "releases/planted.py"),
    ("numpy.random", "noise/planted.py"),
    ("scipy", "methods/planted.py"),
    ("scipy.special", "counts/planted.py"),
]


@pytest.mark.parametrize(("package", "file"), ENGINE_BREACHES)
def test_a_package_outside_its_file_is_found(tree: Path, package: str, file: str) -> None:
    found = _planted(tree, file, f"def late():\n    import {package}")

    assert any(f"{package.split('.')[0]}" in line for line in found)


def test_random_numbers_of_numpy_are_found_through_the_attribute(tree: Path) -> None:
    found = _planted(tree, "postprocess/planted.py", "import numpy as np\nnoise = np.random.default_rng(0)")

    assert any("numpy.random" in line for line in found)


DRAWS = [
    "def cut(rng):\n    return rng.subset(5, 2)",
    "def cut(stream: Rng):\n    return stream.below(5)",
    "def cut(stream: 'Rng | None' = None):\n    return stream.bits(5)",
    "from sudare.noise import system_rng\ndef cut(rng=None):\n    randomness = rng or system_rng()\n"
    "    return randomness.fill(out)",
    "from sudare.noise import SeededRng\nnoise = SeededRng(1).bytes(8)",
    "class Maker:\n    stream: Rng\n    def make(self):\n        return self.stream.below(3)",
    "def cut(anything):\n    return anything.words64(5)",
    "def cut(anything):\n    draw = anything.uniform_below\n    return draw(5, 3)",
    "def cut(anything):\n    return sorted(anything.permutation(5))",
    "import os\nkey = os.urandom(16)",
    "from os import urandom",
    "import secrets",
    "import random",
]


@pytest.mark.parametrize("text", DRAWS)
@pytest.mark.parametrize("file", ["methods/planted.py", "postprocess/planted.py", "sources/planted.py"])
def test_a_draw_outside_of_noise_is_found(tree: Path, file: str, text: str) -> None:
    found = _planted(tree, file, text)

    assert found != []


@pytest.mark.parametrize("text", [text for text in DRAWS if "import secrets" not in text])
def test_noise_itself_may_draw(tree: Path, text: str) -> None:
    found = _planted(tree, "noise/planted.py", text)

    assert not [line for line in found if "draw" in line or "random" in line]


@pytest.mark.parametrize("step", ["replace", "rename", "link", "fsync"])
def test_a_file_that_is_moved_into_place_outside_of_atomic_is_found(tree: Path, step: str) -> None:
    found = _planted(tree, "recipe/planted.py", f"import os\ndef write():\n    os.{step}('a', 'b')")

    assert any(f"os.{step}" in line for line in found)


def test_no_draw_outside_of_noise_that_only_looks_like_one_is_blamed(tree: Path) -> None:
    looks_like = "def cut(step, cells, array):\n    array.fill(0)\n    return step.below, cells.bits(3), cells.subset"

    assert _planted(tree, "methods/planted.py", looks_like) == []


@pytest.mark.parametrize(("package", "file"), [("scipy", "verify/planted.py"), ("rich.table", "cli/planted.py")])
def test_a_slow_package_at_the_top_of_a_file_is_found(tree: Path, package: str, file: str) -> None:
    found = _planted(tree, file, f"import {package}")

    assert any("slow" in line for line in found)


@pytest.mark.parametrize("text", ["def area():\n    return 1", "class Thing:\n    pass", "for x in ():\n    pass"])
def test_logic_at_the_front_door_is_found(tree: Path, text: str) -> None:
    found = _planted(tree, "__init__.py", text)

    assert any("front door" in line for line in found)


def test_a_room_nobody_planned_is_found(tree: Path) -> None:
    (tree / "utils").mkdir()

    found = _planted(tree, "utils/planted.py", "x = 1")

    assert any("not a room" in line for line in found)


ALLOWED = [
    ("methods/planted.py", "from sudare.releases import Release\nfrom ..counts import Counts"),
    ("verify/planted.py", "def bound():\n    from scipy.special import betaincinv"),
    ("cli/planted.py", "import sudare as sd\nfrom sudare.testing import check_method"),
    ("testing/planted.py", "from sudare.run import run\nfrom sudare.compare import audit"),
    ("sources/planted.py", "import sqlglot\nfrom . import base"),
    ("privacy/ledger_file.py", "import sqlite3"),
    ("demo/planted.py", "import numpy as np\nyears = np.random.default_rng(0)"),
]


@pytest.mark.parametrize(("file", "text"), ALLOWED)
def test_what_the_design_allows_is_not_blamed(tree: Path, file: str, text: str) -> None:
    found = _planted(tree, file, text)

    assert not found, "\n".join(found)
