"""Where in a TOML file a table or a key stands: what the parser does not tell, and an author needs."""

from __future__ import annotations

import contextlib
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, NoReturn, cast

from sudare.errors import ParameterError, SudareError
from sudare.forms.textfile import read_bytes
from sudare.releases.release import FORMATS
from sudare.text import Text

_HEADER = re.compile(r"\s*\[\[?\s*([A-Za-z0-9_-]+)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(r"""\s*["']?([^\s"'=.\[#]+)["']?\s*[=.]""")


class Lines:
    """The lines of tables and keys, found by their look; for complaints alone.

    >>> found = Lines('[recipe]\\nversion = 1\\n\\n[[release]]\\nname = "a"\\n')
    >>> found.find("recipe"), found.find("release", 0), found.find("release", 0, "name"), found.find("release", 0, "k")
    (1, 4, 5, 4)
    """

    def __init__(self, text: str) -> None:
        self._lines: dict[tuple[str, int, str | None], int] = {}
        table, number, seen = "", 0, dict[str, int]()
        for line, written in enumerate(text.split("\n"), start=1):
            if header := _HEADER.match(written):
                table = header[1]
                number = seen[table] = seen.get(table, -1) + 1
                self._lines[table, number, None] = line
            elif key := _KEY.match(written):
                self._lines.setdefault((table, number, key[1]), line)
                if not table:  # a key before any table, or a table written inline
                    self._lines.setdefault((key[1], 0, None), line)

    def find(self, table: str, number: int | None = None, key: str | None = None) -> int:
        """Find the line of a key, else that of its table, else the first."""
        place = (table, number or 0)
        return self._lines.get((*place, key)) or self._lines.get((*place, None)) or 1

    def keys(self, table: str, number: int) -> dict[str, int]:
        """List the lines of all keys of a table; under "" that of the table."""
        return {key or "": line for (*place, key), line in self._lines.items() if place == [table, number]}

    def complaint(
        self, file: Path, table: str, number: int | None, key: str | None, text: str, values: Mapping[str, Any]
    ) -> ParameterError:
        """Make the error for something wrong at a place."""
        line = self.find(table, number, key)
        return ParameterError("{file}, line {line}: {problem}", file=file, line=line, problem=Text(text, values))


@contextlib.contextmanager
def at_line(file: Path, lines: Mapping[str, int], name: str) -> Iterator[None]:
    """Put the place in the recipe before whatever is wrong with a release; the kind of error stays.

    `lines` tell where its keys stand, and under "" where it begins. An error that begins with a key is about it.

    >>> with at_line(Path("a.toml"), {"": 7, "k": 9}, "records"):
    ...     raise ParameterError("k ({k}) must be at least 2", k=1)
    Traceback (most recent call last):
    sudare.errors.ParameterError: a.toml, line 9: records: k (1) must be at least 2
    """
    try:
        yield
    except SudareError as error:
        begins = error.text.template.partition(" (")[0]
        key = str(error.text.values.get("name", "")) if begins == "{name}" else begins
        told = {"file": file, "line": lines.get(key, lines[""]), "name": name}
        raise type(error)("{file}, line {line}: {name}: {problem}", **told, problem=error) from None


# The keys of a recipe file: what each takes, and how it is written.


Reader = Callable[[Any], Any]
_NAME = re.compile(r"(?!.*\.html$)[^\s./\\:][^/\\:]*")  # one part of a path: not hidden, no page
MOST_BYTES = 200  # of a name: file systems take 255, and .NAME.begun and NAME.html are longer


class Unfit(Exception):  # noqa: N818
    """A value is not of the kind that its key takes."""


def text(value: Any) -> str:
    """One line of text."""
    if not isinstance(value, str) or not value.strip() or not value.replace("\u3000", " ").isprintable():
        raise Unfit
    return value


def number(value: Any) -> str | int | Decimal:
    """A number as it was written: text, whole or with a point, never a rounded float."""
    if isinstance(value, bool) or not isinstance(value, str | int | Decimal):
        raise Unfit
    return value


def whole(value: Any) -> int:
    """A whole number."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise Unfit
    return value


def flag(value: Any) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise Unfit
    return value


def seconds(value: Any) -> float:
    """A number of seconds."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise Unfit
    return float(value)


def texts(value: Any) -> tuple[str, ...]:
    """A list of texts, or one."""
    given = [value] if isinstance(value, str) else value
    if not isinstance(given, list) or not given:
        raise Unfit
    return tuple(text(one) for one in given)


def names(value: Any) -> tuple[str, ...]:
    """A list of names, or a text with commas, as on the command line.

    >>> names("age, sex"), names(["age"])
    (('age', 'sex'), ('age',))
    """
    return tuple(one.strip() for one in value.split(",")) if isinstance(value, str) else texts(value)


def file_name(value: Any) -> str:
    """The name of a directory to make."""
    if not isinstance(value, str) or not _NAME.fullmatch(value) or value != value.strip():
        raise Unfit
    if not value.isprintable() or len(value.encode()) > MOST_BYTES:
        raise Unfit
    return value


def file_format(value: Any) -> str:
    """A format that releases are written in."""
    if value not in FORMATS:
        raise Unfit
    return str(value)


Keys = Mapping[str, tuple[Reader, str]]
SOURCE: Keys = {
    "source": (text, 'source = "members.csv"'),
    "schema": (text, 'schema = "members.toml"'),
    "count": (text, 'count = "people"'),
    "encoding": (text, 'encoding = "cp932"'),
    "memory_limit": (text, 'memory_limit = "4GB"'),
    "spill_directory": (text, 'spill_directory = "spill"'),
}
FORMAT: Keys = {"format": (file_format, 'format = "parquet" / format = "csv"')}
HEAD: Keys = {"version": (whole, "version = 1"), **SOURCE, "out": (text, 'out = "releases"'), **FORMAT}
LEDGER: Keys = {
    "file": (text, 'file = "members.ledger"'),
    "budget": (number, 'budget = "2"'),
    "neighbours": (text, 'neighbours = "replace" / neighbours = "add-remove"'),
    "name": (text, 'name = "members"'),
}
RELEASE: Keys = {
    "name": (file_name, 'name = "records"'),
    "publish": (text, 'publish = "microdata"'),
    "report": (flag, "report = true"),
    **FORMAT,
}
EPSILON: Keys = {
    "epsilon": (number, 'epsilon = "1/2"'),
    "neighbours": (text, 'neighbours = "replace" / neighbours = "add-remove"'),
    "method": (text, 'method = "tree"'),
    "by": (names, 'by = ["age", "sex"]'),
}
PARAMETERS: Mapping[str, Keys] = {
    "microdata": {**EPSILON, "values": (text, 'values = "labels" / values = "inside"')},
    "table": {**EPSILON, "focus": (text, 'focus = "regions"')},
    "view": {**EPSILON, "score": (text, 'score = "error"')},
    "kanon": {
        "k": (whole, "k = 5"),
        "search": (text, 'search = "auto"'),
        "max_suppressed": (number, 'max_suppressed = "0.05"'),
        "criteria": (texts, 'criteria = ["l=3,disease"]'),
        "quality": (text, 'quality = "loss"'),
        "recoding": (text, 'recoding = "full"'),
        "mondrian": (text, 'mondrian = "strict"'),
        "local": (flag, "local = true"),
        "quasi": (names, 'quasi = ["age", "sex"]'),
        "by": (names, 'by = ["age", "sex"]'),
        "others": (flag, "others = true"),
        "deadline_seconds": (seconds, "deadline_seconds = 60"),
    },
    "location": {
        "epsilon_per_metre": (number, 'epsilon_per_metre = "0.02"'),
        "mode": (text, 'mode = "sharp"'),
        "slack": (text, 'slack = "noise"'),
        "extra_distance": (number, 'extra_distance = "1/10"'),
        "posterior_model": (text, 'posterior_model = "uniform"'),
        "reports_per_day": (whole, "reports_per_day = 1"),
    },
}
FILES: Mapping[str, Keys] = {
    "kanon": {
        "history": (text, 'history = "members.history"'),
        "request": (text, 'request = "request.toml"'),
        "register": (text, 'register = "people.csv"'),
    },
    "location": {"map": (text, 'map = "coast.toml"')},
}
NEEDED = {"kanon": ("k",), "location": ("map", "epsilon_per_metre")}
READING = {"count": "count_column", "format": "file_format"}  # as the functions behind `publish` call them


# The recipe file: several releases under one ledger, read strictly.
#
# [recipe] version = 1 source = "members.csv" what `publish` calls DATA schema = "members.toml" out = "releases" one
# directory a release is made in it count = "people" optional, as encoding, format, memory_limit, spill_directory
#
# [ledger] file = "members.ledger" budget = "2" optional: make the ledger if it is not there; never topped up
#
# [[release]] name = "records" the name of its directory publish = "microdata" and then the parameters of `sudare
# publish microdata` epsilon = "1/2" report = true a page beside it, records.html
#
# Paths are relative to the recipe. Every unknown key is refused: a misspelt one would change the promise unseen.


VERSION = 1
MethodName = Literal["microdata", "table", "view", "kanon", "location"]

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
    publish: MethodName
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

    def kind(self, number: int) -> MethodName:
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
        return cast(MethodName, kind)

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
