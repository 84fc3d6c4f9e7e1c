"""One clear line for whatever is wrong in a schema file, in words that name the table, the key and what to write."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, NoReturn, get_args, get_origin

from sudare.errors import HierarchyError, SchemaError, SudareError
from sudare.text import Inside

EXAMPLES = {
    "sudare": "[sudare]",
    "schema": "schema = 1",
    "name": 'name = "age"',
    "inferred": 'inferred = true / inferred = "confirmed"',
    "unit": "[unit]",
    "column": 'column = "customer_id"',
    "max_rows": "max_rows = 5  (1-)",
    "attribute": "[[attribute]]",
    "impossible": "[[impossible]]",
    "kind": 'kind = "category"',
    "role": 'role = "quasi"',
    "outside": 'outside = "other"',
    "missing": 'missing = true / missing = ["?", "NA"]',
    "values": 'values = ["a", "b"]',
    "values_file": 'values_file = "values.txt"',
    "bins": 'bins = { start = 0, stop = 100, width = 5 } / bins = { start = "2024-01-01", stop = "2024-12-31", '
    'width = "1 month" }',
    "start": 'start = 0 / start = "2024-01-01"',
    "stop": 'stop = 100 / stop = "2024-12-31"',
    "width": 'width = 5 / width = "1 month"',
    "edges": 'edges = [0, 18, 65, 120] / edges = ["2024-01-01", "2024-04-01", "2024-12-31"]',
    "format": 'format = "%Y年%m月%d日"',
    "level": "level = 3  (1-6)",
    "area": 'area = ["5339", "5340"]',
    "area_file": 'area_file = "land.txt"',
    "hierarchy": 'hierarchy = "file.csv" / hierarchy = { intervals = [10, 20] }',
    "intervals": "intervals = [10, 20]",
    "groups": "groups = [5, 10]",
    "dates": 'dates = ["month", "year"]',
    "masking": 'masking = "right"',
    "builtin": 'builtin = "jp-prefecture"',
    "characters": "characters = 2",
    "steps": "steps = 3",
}
_BINNED = ("bins", "start", "stop", "width", "edges")  # written one way for numbers, another for dates
KINDS = ("category", "ordered", "number", "date", "mesh")


@contextmanager
def within(file: Path, place: str = "") -> Iterator[None]:
    """Put file and place before what a part of the schema finds wrong; a HierarchyError stays one.

    >>> with within(Path("a.toml"), "[[attribute]] x"):
    ...     raise SchemaError("values are empty; list at least one")
    Traceback (most recent call last):
    sudare.errors.SchemaError: a.toml: [[attribute]] x: values are empty; list at least one
    """
    where = f"{file}: {place}" if place else str(file)
    try:
        yield
    except HierarchyError as error:
        raise HierarchyError("{where}: {problem}", where=where, problem=Inside(error.text, error.values)) from None
    except SudareError as error:
        raise SchemaError("{where}: {problem}", where=where, problem=Inside(error.text, error.values)) from None


def place_of(table: Any, head: str, index: int | None = None) -> str:
    """Name a table of the file as its author sees it.

    >>> place_of({"attribute": [{"name": "age"}]}, "attribute", 0), place_of({}, "unit")
    ('[[attribute]] age', '[unit]')
    """
    if index is None:
        return f"[{head}]"
    try:
        name = table[head][index]["name"] if head == "attribute" else None
    except (LookupError, TypeError):
        name = None
    return f"[[{head}]] {name if isinstance(name, str) and name else f'#{index + 1}'}"


@dataclass(frozen=True, kw_only=True)
class FormFault:
    """Something wrong at one place of the file: the path of keys that leads there, and the kind of fault."""

    file: Path
    table: Any
    keys: tuple[str | int, ...]
    kind: str
    forms: Mapping[str, Any]

    @property
    def is_no_table(self) -> bool:
        """Tell whether the table itself is at fault: not known, not there, or something else than a table."""
        is_item = len(self.keys) > 1 and isinstance(self.keys[1], int)
        return len(self.keys) == 1 or (is_item and not isinstance(self.table[self.head][self.keys[1]], Mapping))

    @property
    def head(self) -> str:
        """Name the top-level table."""
        return str(self.keys[0])

    @property
    def place(self) -> str:
        """Name the table as its author sees it."""
        index = self.keys[1] if len(self.keys) > 1 else None
        return place_of(self.table, self.head, index if isinstance(index, int) else None)

    @property
    def key(self) -> str:
        """Write the key with the tables around it, such as bins.width."""
        return ".".join(key for key in self.keys[1:] if isinstance(key, str)) or self.head

    @property
    def last(self) -> str:
        """Give the innermost key."""
        return next((key for key in reversed(self.keys) if isinstance(key, str)), "")

    @property
    def value(self) -> object:
        """Give what stands there; None if nothing does."""
        node = self.table
        for key in self.keys:
            try:
                node = node[key]
            except (LookupError, TypeError):
                return None
        return node

    @property
    def example(self) -> str:
        """Show how the key is written."""
        if self.head == "impossible" and len(self.keys) > 1:
            return f'{self.last} = ["a", "b"]'
        example = EXAMPLES.get(self.last, f'{self.last} = "..."')
        return example.split(" / ")[self._kind == "date"] if self.last in _BINNED else example

    @property
    def _kind(self) -> object:
        attribute = self.table["attribute"][self.keys[1]] if self.head == "attribute" and len(self.keys) > 1 else None
        return attribute.get("kind", "identifier") if isinstance(attribute, Mapping) else None

    @property
    def form(self) -> Any:
        """Find the form of the table in which the key stands."""
        if len(self.keys) == 1 or self.head != "attribute":
            return self.forms.get("" if len(self.keys) == 1 else self.head)
        names = [str(key) for key in self.keys[2:-1] if isinstance(key, str)]
        if names and self.keys[-1] != names[0]:
            return self.forms.get("hierarchy" if names[0] == "hierarchy" else f"{self._kind}.{names[0]}")
        return self.forms.get(str(self._kind))

    @property
    def choices(self) -> tuple[str, ...]:
        """List the texts that the key allows, if they are few and fixed."""
        if self.head == "attribute" and self.last == "kind":
            return KINDS
        field = self.form.model_fields.get(self.last) if self.form else None
        return _literals(field.annotation) if field and self.last not in ("inferred", "schema") else ()


def find_fault(errors: Iterable[Mapping[str, Any]], *, file: Path, table: Any, forms: Mapping[str, Any]) -> FormFault:
    """Choose what to complain of: the first fault, and of its readings (text or table) the one that goes deepest.

    A key that is missing beside one that is not known was misspelt: then the latter is the fault.
    """
    faults = [
        FormFault(
            file=file, table=table, keys=_keys(table, error["loc"], error["type"]), kind=error["type"], forms=forms
        )
        for error in errors
    ]
    first = max((each for each in faults if each.keys[: len(faults[0].keys)] == faults[0].keys), key=_depth)
    unknown = [each for each in faults if each.kind == "extra_forbidden" and each.keys[:-1] == first.keys[:-1]]
    return unknown[0] if first.kind == "missing" and unknown else first


def _depth(fault: FormFault) -> int:
    return len(fault.keys)


def _keys(table: Any, location: Sequence[str | int], kind: str) -> tuple[str | int, ...]:
    """Keep of a location what stands in the file; the names of alternatives (tags) fall out."""
    parts = [part for index, part in enumerate(location) if not (location[0] == "attribute" and index == 2)]
    keys: list[str | int] = []
    node = table
    for part in parts:
        try:
            node = node[part]
        except (LookupError, TypeError):
            continue
        keys.append(part)
    if kind == "missing":
        keys.append(parts[-1])
    return (*keys, "kind") if kind.startswith("union_tag") else tuple(keys)


def complain(fault: FormFault) -> NoReturn:
    """Say what is wrong in one line."""
    if fault.is_no_table:
        _complain_of_table(replace(fault, keys=fault.keys[:1]))
    if fault.kind == "extra_forbidden":
        _complain_of_unknown_key(fault)
    named = {"file": fault.file, "place": fault.place, "key": fault.key}
    if fault.value is None:
        raise SchemaError("{file}: {place}: {key} is missing; write it like: {example}", **named, example=fault.example)
    named["value"] = _brief(fault.value)
    if fault.choices and not isinstance(fault.value, Mapping | list):
        choices = ", ".join(fault.choices)
        raise SchemaError("{file}: {place}: {key} ({value}) must be one of {choices}", **named, choices=choices)
    raise SchemaError(
        "{file}: {place}: {key} ({value}) cannot be used; write it like: {example}", **named, example=fault.example
    )


def _complain_of_table(fault: FormFault) -> NoReturn:
    known = ", ".join(EXAMPLES[name] for name in fault.form.model_fields)
    if fault.kind == "extra_forbidden":
        raise SchemaError(
            "{file}: unknown table {key}; allowed are {known}", file=fault.file, key=fault.key, known=known
        )
    if fault.value is None:
        raise SchemaError("{file}: table {table} is missing; add it", file=fault.file, table=fault.example)
    raise SchemaError(
        "{file}: {key} must be a table; write it like: {table}", file=fault.file, key=fault.key, table=fault.example
    )


def _complain_of_unknown_key(fault: FormFault) -> NoReturn:
    fields = fault.form.model_fields if fault.form else {}
    allowed = [field.alias or name for name, field in fields.items()]
    near = get_close_matches(fault.last, allowed, n=1)
    raise SchemaError(
        "{file}: {place}: unknown key {key}; allowed are {allowed}",
        file=fault.file,
        place=fault.place,
        key=fault.key,
        allowed=", ".join(near + [name for name in allowed if name not in near]),
    )


def _literals(annotation: Any) -> tuple[str, ...]:
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    return tuple(text for part in get_args(annotation) for text in _literals(part))


def _brief(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping | list):
        return "{...}" if isinstance(value, Mapping) else "[...]"
    text = str(value)
    return text if len(text) <= 40 else f"{text[:40]}..."
