"""The one reader of TOML forms: schema, map, recipe and request.

    filled = read_form(path, form)
    filled.table("recipe")["out"], filled.list_tables("release")[0].line("epsilon")

Whatever is wrong is told in one line: the file, the line, the table, the key, what is wrong with it, what is allowed,
what was probably meant, and an example. Unknown keys are refused: a misspelt one would change a promise unseen.
"""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from sudare.errors import SudareError
from sudare.forms.form import FileForm, Key, Keys, TableForm
from sudare.forms.kinds import ChoiceOf, Unfit, find_near, quote, show
from sudare.forms.mistake import Mistake, find_key, locate, make_error
from sudare.forms.syntax import explain
from sudare.forms.textfile import read_text
from sudare.forms.toml import KeyPlaces, SyntaxStop, Trail, parse
from sudare.text import Text, join_items, text

Groups = tuple[tuple[str, ...], ...]

MOST_COMPARED = 1000  # mistakes for which the nearest right name is sought; a file with more is none of ours
MOST_MEBIBYTES = 32  # of a form: a million values listed in it still fit


@dataclass(frozen=True, eq=False)
class FilledTable:
    """A table as it was filled in: plain values, and where they stand.

    `table[key]` is the value, else the default; `key in table` tells whether it was written.
    """

    file: Path
    title: str  # as its author sees it: [[attribute]] age
    written: Mapping[str, Any]
    keys: Keys
    trail: Trail
    places: KeyPlaces | None  # None: not read from a file
    error: type[SudareError]

    def __getitem__(self, key: str) -> Any:
        return self.written[key] if key in self.written else self.keys[key].default

    def __contains__(self, key: str) -> bool:
        return key in self.written

    def __iter__(self) -> Iterator[str]:
        return iter(self.written)

    @property
    def lines(self) -> dict[str, int]:
        """List the lines of the keys that are written; under "" that of the table."""
        return {"": self.line(), **{key: self.line(key) for key in self.written}}

    def line(self, *keys: str | int) -> int:
        """Number the line of a key, or of what stands deeper; without one, of the table."""
        return 0 if self.places is None else self.places.line_of((*self.trail, *keys))

    def path(self, key: str) -> Path:
        """Give the file that a key names, beside the file that names it."""
        return self.file.parent / str(self[key])

    def refuse(self, problem: Text, *keys: str | int) -> NoReturn:
        """Refuse the file for what stands at a key."""
        raise make_error(self.error, locate(problem, self.file, self.line(*keys), self.title))

    def require_one(self, *keys: str) -> str:
        """Find which one of several keys is written; refuse the file if none or more than one is."""
        given = [key for key in keys if key in self]
        if len(given) == 1:
            return given[0]
        if given:
            self.refuse(_tell_both(given, keys), given[1])
        self.refuse(_tell_none(keys, self.keys[keys[0]].write(keys[0])))

    @contextlib.contextmanager
    def blame(self, *keys: str | int, error: type[SudareError] | None = None) -> Iterator[None]:
        """Put the place before whatever is found wrong with what the table says; the kind of error stays.

        An error that begins with the name of a key is led to the line of that key. With `error`, an error that is
        not of this kind becomes one.
        """
        try:
            yield
        except SudareError as problem:
            if problem.text.values.get("file") == self.file:  # told with its place already
                raise
            kind = type(problem) if error is None or isinstance(problem, error) else error
            line = self.line(*(keys or self._blamed(problem)))
            raise make_error(kind, locate(problem.text, self.file, line, self.title)) from None

    def _blamed(self, problem: SudareError) -> Trail:
        depth, key = len(self.trail), find_key(problem)
        known = {} if self.places is None else self.places.offsets
        below = [trail[depth:] for trail in known if trail[:depth] == self.trail and trail[-1] == key]
        return min((trail for trail in below if trail), key=len, default=())


@dataclass(frozen=True, eq=False)
class FilledForm:
    """A file as it was filled in: the tables of every name, in their order; of most names there is one at most."""

    file: Path
    tables: Mapping[str, tuple[FilledTable, ...]]

    def __contains__(self, name: str) -> bool:
        return bool(self.tables.get(name))

    def table(self, name: str) -> FilledTable:
        """Give the table of a name of which there is one."""
        (table,) = self.tables[name]
        return table

    @contextlib.contextmanager
    def blame(self, *, error: type[SudareError]) -> Iterator[None]:
        """Put the file before whatever is found wrong with it as a whole, and make it an error of this kind."""
        try:
            yield
        except SudareError as problem:
            if problem.text.values.get("file") == self.file:
                raise
            kind = type(problem) if isinstance(problem, error) else error
            raise make_error(kind, text("{file}: {problem}", file=self.file, problem=problem.text)) from None

    def list_tables(self, name: str) -> tuple[FilledTable, ...]:
        """Give the tables of which there may be many."""
        return self.tables.get(name, ())


def read_form(path: str | Path, form: FileForm) -> FilledForm:
    """Read a file; the error of the form, with the first mistake in the order of the file, if there is one."""
    filled, mistakes = _read(Path(path), form)
    if filled is None:
        raise make_error(form.error, mistakes[0].describe(Path(path)))
    return filled


def find_mistakes(path: str | Path, form: FileForm) -> tuple[Mistake, ...]:
    """List all mistakes of a file in its order; the error of the form if the file cannot be read at all."""
    return _read(Path(path), form)[1]


def read_values(values: Mapping[str, Any], form: FileForm) -> FilledForm:
    """Read what a program has put together instead of a file; its mistakes are told without lines."""
    reader = _Reader(Path(), form, values, None)
    filled = reader.read()
    if reader.mistakes:
        raise make_error(form.error, reader.mistakes[0].describe(Path()))
    return filled


def _read_toml(path: Path, error: type[SudareError]) -> str:
    """Read the text of a form: bounded, in UTF-8, UTF-16 or CP932."""
    written = read_text(path, most_mebibytes=MOST_MEBIBYTES, error=error)
    if "\0" in written:
        raise make_error(error, text("{file}: holds bytes that are no text; save it as UTF-8", file=path))
    return written.replace("\r\n", "\n")


def _read(path: Path, form: FileForm) -> tuple[FilledForm | None, tuple[Mistake, ...]]:
    written = _read_toml(path, form.error)
    try:
        values, places = parse(written)
    except SyntaxStop as stop:
        return None, (explain(stop, written, form),)
    except RecursionError:
        return None, (_too_deep(written),)
    reader = _Reader(path, form, values, places)
    filled = reader.read()
    mistakes = tuple(sorted(reader.mistakes, key=lambda mistake: mistake.line))
    return (None if mistakes else filled), mistakes


def _too_deep(written: str) -> Mistake:
    """Find the first line where more brackets are open than any form has."""
    opened = (len(re.findall(r"[\[{]", line)) - len(re.findall(r"[\]}]", line)) for line in written.split("\n"))
    depths = itertools.accumulate(opened)
    line = next((number for number, depth in enumerate(depths, start=1) if depth > 20), 1)
    return Mistake(text("too many brackets are open at once; close each one"), line)


@dataclass(frozen=True)
class _Spot:
    """A place in a file: the keys that lead there, the table around it, and the key as a message names it."""

    trail: Trail = ()
    title: str = ""
    label: str = ""

    def at(self, key: str) -> _Spot:
        """Go to a key."""
        return _Spot((*self.trail, key), self.title, f"{self.label}.{key}" if self.label else key)


class _Reader:
    """One file beside its form: collects all mistakes, in any order."""

    def __init__(self, file: Path, form: FileForm, values: Mapping[str, Any], places: KeyPlaces | None) -> None:
        self.file = file
        self.form = form
        self.values = values
        self.places = places
        self.mistakes: list[Mistake] = []

    def read(self) -> FilledForm:
        """Read all tables. A file of another version is told so before its keys look unknown."""
        if self._has_other_version():
            return FilledForm(self.file, {})
        known = {name for table in self.form.tables for name in (table.name, *table.old_names)}
        meant = {self._refuse_top(name, value) for name, value in self.values.items() if name not in known}
        tables = {table.name: self._read_tables(table, is_meant=table.name in meant) for table in self.form.tables}
        return FilledForm(self.file, tables)

    def refuse(self, spot: _Spot, problem: Text) -> None:
        """Note a mistake at a place."""
        line = 0 if self.places is None else self.places.line_of(spot.trail)
        self.mistakes.append(Mistake(problem, line, table=spot.title))

    def _find_near(self, name: str, names: Iterable[str]) -> str:
        """Find what was probably meant, or ""; not in a file of which nothing is right."""
        return (find_near(name, names) or "") if len(self.mistakes) < MOST_COMPARED else ""

    # --- the file as a whole

    def _has_other_version(self) -> bool:
        if self.form.version is None:
            return False
        name, key, known = self.form.version
        table = self.values.get(name)
        version = table.get(key, known) if isinstance(table, Mapping) else known
        if version == known and not isinstance(version, bool):
            return False
        self.refuse(
            _Spot((name, key), f"[{name}]"),
            text(
                "{key} ({version}) must be {known}; update sudare, or write the file in the form of this version",
                key=key,
                version=show(version),
                known=known,
            ),
        )
        return True

    def _refuse_top(self, name: str, value: Any) -> str:
        """Refuse a table, or a key above all tables, that the form does not have; give the table that was meant."""
        tables = {table.name: table for table in self.form.tables}
        allowed = join_items(table.header for table in self.form.tables)
        is_table = isinstance(value, Mapping) or (isinstance(value, list) and value and isinstance(value[0], Mapping))
        owners = [] if is_table else [table.name for table in self.form.tables if name in table.all_keys]
        near = owners[0] if owners else self._find_near(name, tables)
        values = {"key": name, "table": tables[near].header if near else "", "allowed": allowed}
        if owners:
            problem = text("{key} is written before the first table; move it under {table}", **values)
        elif near:
            problem = text("unknown table {key}; did you mean {table}? allowed are {allowed}", **values)
        elif is_table:
            problem = text("unknown table {key}; allowed are {allowed}", **values)
        else:
            problem = text("unknown key {key} before the first table; write it under one of {allowed}", **values)
        self.refuse(_Spot((name,)), problem)
        return near

    def _read_tables(self, table: TableForm, *, is_meant: bool) -> tuple[FilledTable, ...]:
        """Read the tables of one name."""
        names = [name for name in (table.name, *table.old_names) if name in self.values]
        if len(names) > 1:
            self.refuse(
                _Spot((names[1],)),
                text(
                    "{second} is an old name of {first}; write {first} alone",
                    first=table.name,
                    second=names[1],
                ),
            )
        value = self.values[names[0]] if names else None
        if value is None or value == []:
            if table.required and not is_meant:
                self.refuse(
                    _Spot(),
                    text("{table} is missing; add it, with: {example}", table=table.header, example=_outline(table)),
                )
            return ()
        entries = value if isinstance(value, list) else [value]
        if not self._is_table(table, value, entries, names[0]):
            return ()
        trails: list[Trail] = [(names[0], number) for number in range(len(entries))] if table.many else [(names[0],)]
        spots = [_Spot(trail, _title(table, entry, trail)) for entry, trail in zip(entries, trails, strict=True)]
        return tuple(self._read_table(table, entry, spot) for entry, spot in zip(entries, spots, strict=True))

    def _is_table(self, table: TableForm, value: Any, entries: Sequence[Any], name: str) -> bool:
        before = len(self.mistakes)
        if not all(isinstance(entry, Mapping) for entry in entries):
            self.refuse(
                _Spot((name,)),
                text(
                    "{key} ({value}) must be a table; begin it with the line {table}",
                    key=name,
                    value=show(value),
                    table=table.header,
                ),
            )
        elif table.many and not isinstance(value, list):
            self.refuse(
                _Spot((name,)), text("write {table}, in double brackets, before each of them", table=table.header)
            )
        elif not table.many and isinstance(value, list):
            self.refuse(
                _Spot((name,)), text("there is one {table} only; write it once, in single brackets", table=table.header)
            )
        return len(self.mistakes) == before

    # --- one table

    def _read_table(self, table: TableForm, written: Mapping[str, Any], spot: _Spot) -> FilledTable:
        """Read the keys of a table, or of a table in braces at a key of another."""
        keys = table.keys_of(written)
        names = {spelling: name for name, key in keys.items() for spelling in (name, *key.old_names)}
        filled: dict[str, Any] = {}
        meant: set[str] = set()  # keys that were written in a wrong way: their absence is no second mistake
        for spelling, value in written.items():
            name = names.get(spelling, spelling)
            key = keys.get(name, table.any_key)
            if key is None:
                meant.add(self._refuse_unknown(table, written, keys, name, spot))
            elif name in filled:
                self.refuse(
                    spot.at(spelling),
                    text(
                        "{second} is an old name of {first}; write {first} alone",
                        first=name,
                        second=spelling,
                    ),
                )
            else:
                filled[name] = self._read_value(key, value, spot.at(spelling), spelling)
        for name in (name for name, key in keys.items() if key.required and name not in filled and name not in meant):
            self.refuse(spot, _tell_missing(spot.at(name).label, keys[name], keys[name].write(name)))
        needs_one = () if filled.get(table.unless[0]) == table.unless[1] else table.exactly_one
        self._check_together(needs_one, table.at_most_one, keys, list(dict.fromkeys([*filled, *meant])), spot)
        return FilledTable(self.file, spot.title, filled, keys, spot.trail, self.places, self.form.error)

    def _check_together(
        self, needs_one: Groups, at_most_one: Groups, keys: Keys, written: Sequence[str], spot: _Spot
    ) -> None:
        """Check the keys of which only one may stand, and those of which one must."""
        for group in (*needs_one, *at_most_one):
            known = [name for name in group if name in keys]
            given = [name for name in written if name in known]
            if len(given) > 1:
                self.refuse(spot.at(given[1]), _tell_both(given, known))
            elif known and not given and group in needs_one:
                self.refuse(spot, _tell_none(known, keys[known[0]].write(known[0])))

    def _refuse_unknown(self, table: TableForm, written: Mapping[str, Any], keys: Keys, name: str, spot: _Spot) -> str:
        """Refuse a key that the table does not have, and give the key that was meant, or ""."""
        here, values = spot.at(name), {"key": spot.at(name).label, "allowed": join_items(keys)}
        if table.variants and (owners := [value for value, own in table.variants.keys.items() if name in own]):
            if table.variants.choose(written):  # else the mistake is told of the key that chooses
                needed = " / ".join(f"{table.variants.by} = {quote(owner)}" for owner in owners)
                self.refuse(
                    here, text("{key} goes with {needed} only; here allowed are {allowed}", **values, needed=needed)
                )
            return ""
        inside = next((other for other, key in keys.items() if key.table and name in key.table.keys), None)
        if inside is not None:
            self.refuse(
                here,
                text(
                    "{key} belongs inside {outer}, like: {example}",
                    key=here.label,
                    outer=inside,
                    example=keys[inside].write(inside),
                ),
            )
            return inside
        if near := self._find_near(name, [other for other in keys if other not in written]):
            self.refuse(
                here, text("unknown key {key}; did you mean {near}? allowed are {allowed}", **values, near=near)
            )
            return near
        elsewhere = [other.header for other in self.form.tables if other is not table and name in other.all_keys]
        if elsewhere and not spot.label:
            self.refuse(
                here, text("{key} belongs in {table}; here allowed are {allowed}", **values, table=elsewhere[0])
            )
        else:
            self.refuse(here, text("unknown key {key}; allowed are {allowed}", **values))
        return ""

    # --- one key

    def _read_value(self, key: Key, value: Any, spot: _Spot, name: str) -> Any:
        if key.table is not None and isinstance(value, Mapping):
            return self._read_table(key.table, value, spot)
        braces, example = text("a table in braces"), key.write(name)
        if key.value is None:
            self._refuse_value(spot, spot.label, value, braces, None, example)
            return None
        try:
            return key.value.read(value)
        except Unfit as unfit:
            allowed = unfit.kind.describe()
            if key.table is not None and not unfit.entry:
                allowed = text("{first}, or {second}", first=allowed, second=braces)
            label = _label_entry(spot.label, unfit.entry) if unfit.entry else spot.label
            deeper = _Spot((*spot.trail, *unfit.entry), spot.title)
            self._refuse_value(deeper, label, unfit.value, allowed, unfit.kind.suggest(unfit.value), example)

    def _refuse_value(
        self, spot: _Spot, label: object, value: Any, allowed: Text, near: str | None, example: str
    ) -> None:
        values = {"key": label, "value": show(value), "allowed": allowed}
        if near is None:
            values["example"] = example
            self.refuse(spot, text("{key} ({value}) must be {allowed}; write it like: {example}", **values))
        else:
            self.refuse(spot, text("{key} ({value}) must be {allowed}; did you mean {near}?", **values, near=near))


def _tell_missing(label: str, key: Key, example: str) -> Text:
    if isinstance(key.value, ChoiceOf):
        allowed = key.value.describe()
        return text(
            "{key} is missing; it must be {allowed}, like: {example}", key=label, allowed=allowed, example=example
        )
    return text("{key} is missing; write it like: {example}", key=label, example=example)


def _tell_both(given: Sequence[str], known: Sequence[str]) -> Text:
    listed = join_items(known)
    return text(
        "{first} and {second} exclude each other; give only one of {keys}", second=given[1], first=given[0], keys=listed
    )


def _tell_none(known: Sequence[str], example: str) -> Text:
    return text("give exactly one of {keys}, like: {example}", keys=join_items(known), example=example)


def _label_entry(label: str, entry: Sequence[int]) -> Text:
    return text("{key}, entry {number}", key=label, number=".".join(str(number + 1) for number in entry))


def _title(table: TableForm, written: Mapping[str, Any], trail: Trail) -> str:
    """Name a table as its author sees it: [unit], [[attribute]] age, [[impossible]] #2."""
    if not table.many:
        return f"[{trail[0]}]"
    name = written.get(table.title)
    is_shown = isinstance(name, str) and name.strip() and name.isprintable()
    return f"[[{trail[0]}]] {name if is_shown else f'#{int(trail[-1]) + 1}'}"


def _outline(table: TableForm) -> str:
    """Write the keys that a table needs on one line."""
    needed = [key.write(name) for name, key in table.keys.items() if key.required]
    if not needed and table.any_key is not None:
        needed = [table.any_key.write("age")]
    return ", ".join([table.header, *needed])
