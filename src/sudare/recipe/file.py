"""The recipe file: several releases under one ledger.

    [recipe]
    version = 1
    source = "members.csv"          what `publish` calls DATA
    schema = "members.toml"
    out = "releases"                one directory a release is made in it
    count = "people"                optional, as encoding, format, memory_limit, spill_directory
    key = "steward.key"             optional: a private key that signs every release

    [ledger]
    file = "members.ledger"
    budget = "2"                    optional: make the ledger if it is not there; never topped up

    [[release]]
    name = "records"                the name of its directory
    publish = "microdata"           a method, and then its parameters
    epsilon = "1/2"
    report = true                   a page beside it, records.html

Paths are relative to the recipe. The keys of a release are the parameters and files that its method declares, so that
a method of another package needs nothing here. Every unknown key is refused: a misspelt one would change the promise
unseen.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from sudare.errors import ParameterError
from sudare.forms import FileForm, FilledForm, FilledTable, Key, Keys, TableForm, Variants, read_form
from sudare.forms.kinds import (
    ChoiceOf,
    ExactNumber,
    FilePath,
    Flag,
    FolderName,
    TextLine,
    WholeNumber,
    quote,
)
from sudare.methods.base import Method
from sudare.methods.registry import BUILT_IN, find_method, method_entries
from sudare.privacy import is_server_address
from sudare.privacy.exact import DELTA_HIGH, DELTA_LOW, EPSILON_HIGH, EPSILON_LOW, RHO_HIGH, RHO_LOW
from sudare.releases.release import FORMATS
from sudare.text import text

VERSION = 1

# --- the form ---------------------------------------------------------------------------------------------------------

SOURCE: Keys = {
    "source": Key(
        kind=FilePath(example='"members.csv"'), help=text("the table: a file, several files with *, or a database")
    ),
    "schema": Key(kind=FilePath(example='"members.toml"'), help=text("schema file")),
    "count": Key(
        kind=TextLine(example='"people"'), help=text("the table is already aggregated; this column holds the counts")
    ),
    "encoding": Key(kind=TextLine(example='"cp932"'), help=text("encoding of text files; detected if not given")),
    "memory_limit": Key(kind=TextLine(example='"4GB"'), help=text("upper limit of memory for reading")),
    "spill_directory": Key(kind=FilePath(example='"spill"'), help=text("directory for what does not fit into memory")),
}
FORMAT: Keys = {
    "format": Key(kind=ChoiceOf(FORMATS), default="parquet", help=text("how the tables of releases are written"))
}
HEAD: Keys = {
    "version": Key(
        kind=WholeNumber(low=VERSION, high=VERSION, example="1"), required=True, help=text("version of this format")
    ),
    **SOURCE,
    "source": replace(SOURCE["source"], in_example=True),
    "schema": replace(SOURCE["schema"], in_example=True),
    "out": Key(kind=FilePath(example='"releases"'), required=True, help=text("directory of the releases")),
    "key": Key(kind=FilePath(example='"steward.key"'), help=text("private key file that signs every release")),
    **FORMAT,
}
NEIGHBOURS = ("replace", "add-remove")
LEDGER: Keys = {
    "file": Key(kind=FilePath(example='"members.ledger"'), required=True, help=text("ledger file")),
    "budget": Key(
        kind=ExactNumber(low=EPSILON_LOW, high=EPSILON_HIGH, example='"2"'),
        help=text("budget of the ledger, which is made if there is none; an existing ledger keeps its own"),
    ),
    "rho": Key(
        kind=ExactNumber(low=RHO_LOW, high=RHO_HIGH, example='"1/10"'),
        help=text("budget of the ledger in rho of concentrated privacy, instead of budget"),
    ),
    "delta": Key(
        kind=ExactNumber(low=DELTA_LOW, high=DELTA_HIGH, example='"1e-9"'),
        help=text("with it, budget is the epsilon to keep at this delta, and the ledger is kept in rho"),
    ),
    "neighbours": Key(kind=ChoiceOf(NEIGHBOURS), help=text("which tables are neighbours")),
    "name": Key(kind=TextLine(example='"members"'), default="", help=text("name of the ledger, if it is made")),
}
RELEASE: Keys = {
    "name": Key(kind=FolderName(), required=True, help=text("name of its directory")),
    "publish": Key(kind=ChoiceOf(("microdata",)), required=True, help=text("the method")),
    "report": Key(kind=Flag(), default=False, help=text("also write a report page")),
    **FORMAT,
}
READING = {"count": "count_column", "format": "file_format"}  # as the functions of `sudare.app` call them


def recipe_form() -> FileForm:
    """Declare the file with the methods that there are now; one that cannot be loaded is told where it is used."""
    entries = method_entries()
    methods: dict[str, type[Method]] = {}
    for name, entry in entries.items():
        with contextlib.suppress(ParameterError):
            methods[name] = entry.load() if entry in BUILT_IN else find_method(name)
    publish = replace(RELEASE["publish"], kind=ChoiceOf(tuple(entries)))
    release = TableForm(
        name="release",
        many=True,
        required=True,
        title="name",
        keys={**RELEASE, "publish": publish},
        variants=Variants(
            by="publish", keys={name: _release_keys(method, publish) for name, method in methods.items()}
        ),
        help=text("One release; the parameters are those of its method"),
    )
    return FileForm(
        name="recipe",
        error=ParameterError,
        version=("recipe", "version", VERSION),
        help=text("A recipe: several releases under one ledger"),
        tables=(
            TableForm(name="recipe", required=True, keys=HEAD, help=text("What the releases share")),
            TableForm(name="ledger", keys=LEDGER, help=text("The ledger that keeps the sum of what releases spend")),
            release,
        ),
    )


def _release_keys(method: type[Method], publish: Key) -> Keys:
    own = {**method.files(), **method.parameters()}
    name = replace(RELEASE["name"], example=quote(method.name))
    shared = SOURCE if method.takes != "map" else {}
    return {**RELEASE, "name": name, "publish": publish, **own, **shared}


# --- what it says -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class LedgerSpec:
    """What the recipe says of its ledger."""

    file: Path | str  # a file, or the address of a server
    lines: Mapping[str, int]  # where its keys stand; under "" where it begins
    budget: Fraction | None = None
    rho: Fraction | None = None
    delta: Fraction | None = None
    neighbours: str | None = None
    name: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleaseSpec:
    """One release as the recipe asks for it: where it comes from, where it goes, and the parameters of its method."""

    name: str
    publish: str
    lines: Mapping[str, int]  # where its keys stand; under "" where it begins
    report: bool = False
    source: str | None = None
    schema_file: Path | None = None
    map_file: Path | None = None
    reading: Mapping[str, Any] = field(default_factory=dict)  # what `publish` takes to read and write files
    extras: Mapping[str, Path | str] = field(default_factory=dict)  # files that the method reads beside its input
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """A recipe, read and checked as far as one file tells."""

    file: Path
    out: Path
    ledger: LedgerSpec | None
    releases: tuple[ReleaseSpec, ...]
    key: Path | None = None


def read_recipe(path: str | Path) -> Recipe:
    """Read a recipe file; whatever is wrong in it is told in one line, with its place.

    Error: ParameterError.
    """
    filled = read_form(path, recipe_form())
    head = filled.table("recipe")
    names: set[str] = set()
    for table in filled.list_tables("release"):
        if table["name"].casefold() in names:
            table.refuse(text("two releases are called {name}; give each its own name", name=table["name"]), "name")
        names.add(table["name"].casefold())
    return Recipe(
        file=filled.file,
        out=head.path("out"),
        ledger=_read_ledger(filled),
        key=head.path("key") if "key" in head else None,
        releases=tuple(_read_release(table, head) for table in filled.list_tables("release")),
    )


def _read_ledger(filled: FilledForm) -> LedgerSpec | None:
    if "ledger" not in filled:
        return None
    table = filled.table("ledger")
    return LedgerSpec(
        file=table["file"] if is_server_address(table["file"]) else table.path("file"),
        lines=table.lines,
        budget=table["budget"],
        rho=table["rho"],
        delta=table["delta"],
        neighbours=table["neighbours"],
        name=table["name"],
    )


def _read_release(table: FilledTable, head: FilledTable) -> ReleaseSpec:
    """Read one release; what it does not say of its table, the head of the recipe says."""
    with table.blame("publish"):
        method = find_method(table["publish"])
    shared = [key for key in (*SOURCE, *FORMAT) if key in FORMAT or method.takes != "map"]
    owner = {key: table if key in table else head for key in shared if key in table or key in head}
    for key in ("source", "schema"):
        if method.takes != "map" and key not in owner:
            problem = text("{key} is missing; write it like: {example}", key=key, example=SOURCE[key].write(key))
            head.refuse(problem)
    folder = table.file.parent
    reading = {
        READING.get(key, key): owner[key][key]
        for key in ("count", "encoding", "memory_limit", "format")
        if key in owner
    }
    if "spill_directory" in owner:
        reading["spill_directory"] = owner["spill_directory"].path("spill_directory")
    return ReleaseSpec(
        name=table["name"],
        publish=table["publish"],
        lines=table.lines,
        report=table["report"],
        source=_find_table(folder, owner["source"]["source"]) if "source" in owner else None,
        schema_file=owner["schema"].path("schema") if "schema" in owner else None,
        map_file=table.path("map") if "map" in table else None,
        reading=reading,
        extras=_read_extras(table, method),
        parameters={name: table[name] for name in method.parameters() if name in table},
    )


def _read_extras(table: FilledTable, method: type[Method]) -> dict[str, Path | str]:
    extras: dict[str, Path | str] = {}
    for extra in method.extra_files:
        if extra.name in table:
            is_table = extra.content == "table"
            extras[extra.name] = (
                _find_table(table.file.parent, table[extra.name]) if is_table else table.path(extra.name)
            )
    return extras


def _find_table(folder: Path, source: str) -> str:
    """Find a table beside the recipe, unless it is the address of a database."""
    return source if "://" in source else str(folder / source)
