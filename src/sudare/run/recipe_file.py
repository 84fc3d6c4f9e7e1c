"""The recipe file: several releases under one ledger, read strictly.

    [recipe]
    version = 1
    source = "members.csv"          what `publish` calls DATA
    schema = "members.toml"
    out = "releases"                one directory a release is made in it
    count = "people"                optional, as encoding, format, memory_limit, spill_directory

    [ledger]
    file = "members.ledger"
    budget = "2"                    optional: make the ledger if it is not there; never topped up

    [[release]]
    name = "records"                the name of its directory
    publish = "microdata"           and then the parameters of `sudare publish microdata`
    epsilon = "1/2"
    report = true                   a page beside it, records.html

Paths are relative to the recipe. Every unknown key is refused: a misspelt one would change the promise unseen.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, NoReturn, cast

from sudare.errors import ParameterError
from sudare.run.recipe_keys import (
    FILES,
    FORMAT,
    HEAD,
    LEDGER,
    NEEDED,
    PARAMETERS,
    READING,
    RELEASE,
    SOURCE,
    Keys,
    Reader,
    Unfit,
)
from sudare.run.recipe_lines import Lines
from sudare.schema.textfile import read_bytes

VERSION = 1
Kind = Literal["microdata", "table", "view", "kanon", "location"]

_AT = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)")


@dataclass(frozen=True, kw_only=True, slots=True)
class AskedLedger:
    """What the recipe says of its ledger."""

    file: Path
    lines: Mapping[str, int]  # where its keys stand; under "" where it begins
    budget: str | int | Decimal | None = None
    neighbours: str | None = None
    name: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """One release as it is asked for: where it comes from, where it goes, and the parameters of its method."""

    name: str
    publish: Kind
    lines: Mapping[str, int]  # where its keys stand; under "" where it begins
    report: bool = False
    source: str | None = None
    schema_file: Path | None = None
    map_file: Path | None = None
    reading: Mapping[str, Any] = field(default_factory=dict)  # what `publish` takes to read and write files
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """A recipe, read and checked as far as one file tells."""

    file: Path
    out: Path
    ledger: AskedLedger | None
    releases: tuple[Asked, ...]


def read_recipe(path: str | Path) -> Recipe:
    """Read a recipe file; whatever is wrong in it is told in one line, with its place.

    Error: ParameterError.
    """
    file = Path(path)
    page = _Page(file)
    head = page.read("recipe", None, HEAD, needed=("version", "out"))
    if head["version"] != VERSION:
        page.refuse_value("recipe", None, "version", head["version"], "version = 1")
    shared = {key: value for key, value in head.items() if key in SOURCE or key in FORMAT}
    ledger = page.read("ledger", None, LEDGER, needed=("file",)) if "ledger" in page.facts else None
    releases = tuple(_asked(page, number, shared) for number in range(page.count("release")))
    for number, one in enumerate(releases):
        if one.name.casefold() in {other.name.casefold() for other in releases[:number]}:
            page.refuse("release", number, "name", "two releases are called {name}; give each a name", name=one.name)
    lines = {"": 1, **page.lines.keys("ledger", 0)}
    asked = None if ledger is None else AskedLedger(**{**ledger, "file": file.parent / ledger["file"]}, lines=lines)
    return Recipe(file=file, out=file.parent / head["out"], ledger=asked, releases=releases)


def _asked(page: _Page, number: int, shared: Mapping[str, Any]) -> Asked:
    kind = page.kind(number)
    own = {**PARAMETERS[kind], **FILES.get(kind, {})}
    more = SOURCE if kind != "location" else {}
    found = page.read(
        "release", number, {**RELEASE, **own, **more}, needed=("name", "publish", *NEEDED.get(kind, ("epsilon",)))
    )
    given = {**{key: value for key, value in shared.items() if key in (*more, *FORMAT)}, **found}
    for key in ("source", "schema"):
        if kind != "location" and key not in given:
            page.refuse("recipe", None, key, "{key} is missing; write it like: {example}", key=key,
                        example=SOURCE[key][1])  # fmt: skip
    folder = page.file.parent
    places = {"history": "history_file", "request": "request_file", "spill_directory": "spill_directory"}
    reading = {READING.get(key, key): given[key] for key in ("count", "encoding", "memory_limit", "format")
               if key in given}  # fmt: skip
    if "register" in given:  # a table, as the source
        reading["register_file"] = _source(folder, given["register"])
    return Asked(
        name=found["name"],
        publish=kind,
        lines={"": 1, **page.lines.keys("release", number)},
        report=found.get("report", False),
        source=_source(folder, given["source"]) if "source" in given else None,
        schema_file=folder / given["schema"] if "schema" in given else None,
        map_file=folder / given["map"] if "map" in given else None,
        reading={**reading, **{name: folder / given[key] for key, name in places.items() if key in given}},
        parameters={key: given[key] for key in PARAMETERS[kind] if key in given},
    )


def _source(folder: Path, source: str) -> str:
    return source if "://" in source else str(folder / source)


class _Page:
    """The file as its author sees it: tables, keys and lines."""

    def __init__(self, file: Path) -> None:
        self.file = file
        try:
            written = read_bytes(file).decode("utf-8-sig").replace("\r\n", "\n")
        except UnicodeDecodeError:
            raise ParameterError("{file}: not UTF-8, which TOML asks for; save it as UTF-8", file=file) from None
        self.lines = Lines(written)
        self.facts = _table(file, written)
        known = ("recipe", "ledger", "release")
        for key in self.facts:
            if key not in known:
                self.refuse(key, None, None, "unknown table {table}; allowed are [recipe], [ledger], [[release]]",
                            table=key)  # fmt: skip

    def count(self, table: str) -> int:
        """How many tables of that name there are."""
        found = self.facts.get(table)
        if not isinstance(found, list) or not found:
            self.refuse(table, None, None, "a recipe needs at least one [[release]]")
        return len(found)

    def kind(self, number: int) -> Kind:
        """What a release publishes."""
        found = self.facts["release"][number]
        kind = found.get("publish") if isinstance(found, Mapping) else None
        if kind not in PARAMETERS:
            known = ", ".join(PARAMETERS)
            if kind is None:
                self.refuse("release", number, None, "publish is missing; it says what to make: one of {known}",
                            known=known)  # fmt: skip
            self.refuse("release", number, "publish", "publish ({value}) must be one of {known}", value=_brief(kind),
                        known=known)  # fmt: skip
        return cast(Kind, kind)

    def read(self, table: str, number: int | None, keys: Keys, *, needed: tuple[str, ...]) -> dict[str, Any]:
        """Read one table: unknown keys, missing ones and values of another kind are refused."""
        given = self.facts.get(table) if number is None else self.facts[table][number]
        if not isinstance(given, Mapping):
            self.refuse(table, number, None, "table [{table}] is missing; add it", table=table)
        for key in given:
            if key not in keys:
                near = get_close_matches(key, keys, n=1)
                allowed = ", ".join([*near, *(one for one in keys if one not in near)])
                self.refuse(table, number, key, "unknown key {key}; allowed are {allowed}", key=key, allowed=allowed)
        for key in needed:
            if key not in given:
                self.refuse(table, number, None, "{key} is missing; write it like: {example}", key=key,
                            example=keys[key][1])  # fmt: skip
        return {key: self._value(table, number, key, value, keys[key]) for key, value in given.items()}

    def _value(self, table: str, number: int | None, key: str, value: Any, kind: tuple[Reader, str]) -> Any:
        try:
            return kind[0](value)
        except Unfit:
            self.refuse_value(table, number, key, value, kind[1])

    def refuse_value(self, table: str, number: int | None, key: str, value: Any, example: str) -> NoReturn:
        """Refuse what stands at a key."""
        self.refuse(table, number, key, "{key} ({value}) cannot be used; write it like: {example}", key=key,
                    value=_brief(value), example=example)  # fmt: skip

    def refuse(self, table: str, number: int | None, at: str | None, text: str, /, **values: Any) -> NoReturn:
        """Refuse the file for what stands at a place of it."""
        raise self.lines.complaint(self.file, table, number, at, text, values)


def _table(file: Path, written: str) -> dict[str, Any]:
    try:
        return tomllib.loads(written, parse_float=Decimal)
    except tomllib.TOMLDecodeError as error:
        found = _AT.search(str(error))
        line = found.group(1) if found and found.group(1) else written.count("\n") + 1
        raise ParameterError(
            "{file}, line {line}: not valid TOML ({reason}); correct this line",
            file=file,
            line=line,
            reason=_AT.sub("", str(error)),
        ) from None


def _brief(value: object) -> str:
    shown = str(value).lower() if isinstance(value, bool) else str(value)
    shown = "".join(one if one.isprintable() else f"\\u{ord(one):04x}" for one in shown)
    return shown if len(shown) <= 40 else f"{shown[:40]}..."
