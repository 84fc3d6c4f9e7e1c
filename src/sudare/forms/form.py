"""A declared form of a TOML file: its tables, their keys, and what each key takes.

    FileForm(name="recipe", error=ParameterError, tables=(TableForm(name="recipe", keys={"out": Key(...)}), ...))

A declaration holds public facts only. `sudare.forms.reader` reads a file by it, and `sudare.forms.describe` writes the
JSON schema for editors and an annotated example from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sudare.errors import SchemaError, SudareError
from sudare.forms.kinds import Kind
from sudare.forms.toml import write_name
from sudare.text import Text, text

EMPTY = text("")


@dataclass(frozen=True, kw_only=True)
class Key:
    """What one key takes: its kind, whether it must be written, what holds if not, and what it is for.

    `example` is the value in the example of a message and of the annotated file, if another than that of the kind.
    `old_names` are earlier spellings, which stay valid. With `in_example` the annotated example has the key though it
    may be left out.
    """

    kind: Kind | TableForm | tuple[Kind, TableForm]
    required: bool = False
    default: Any = None
    help: Text = EMPTY
    example: str = ""
    old_names: tuple[str, ...] = ()
    in_example: bool = False

    @property
    def table(self) -> TableForm | None:
        """Give the form of a table that stands at this key, { ... }, if one may."""
        kinds = self.kind if isinstance(self.kind, tuple) else (self.kind,)
        return next((kind for kind in kinds if isinstance(kind, TableForm)), None)

    @property
    def value(self) -> Kind | None:
        """Give the kind of a value that is no table, if one may stand at this key."""
        kinds = self.kind if isinstance(self.kind, tuple) else (self.kind,)
        return next((kind for kind in kinds if isinstance(kind, Kind)), None)

    def write(self, name: str) -> str:
        """Write the key as in the file, with its example."""
        if self.example:
            return f"{write_name(name)} = {self.example}"
        if self.value is not None:
            return f"{write_name(name)} = {self.value.example}"
        return f"{write_name(name)} = {self.table.write_inline() if self.table else ''}"


Keys = Mapping[str, Key]
Pick = Callable[[Mapping[str, Any]], str]


@dataclass(frozen=True, kw_only=True)
class Variants:
    """Keys that depend on the value of one key, such as `kind`: a whole set of keys for every value.

    `pick` finds the variant where the value alone does not tell; it gives "" for what is none.
    """

    by: str
    keys: Mapping[str, Keys]  # the value of `by` -> the keys that go with it
    pick: Pick | None = None

    def choose(self, written: Mapping[str, Any]) -> str:
        """Name the variant of a table."""
        name = self.pick(written) if self.pick else written.get(self.by)
        return name if isinstance(name, str) and name in self.keys else ""


@dataclass(frozen=True, kw_only=True)
class TableForm:
    """A table: [name], or [[name]] if there are many; or, without a name of its own, { ... } at a key.

    `keys` hold where no variant is chosen. `any_key` is the form of keys that are not declared (names of attributes),
    if the table takes such. `title` names the key that tells one of many tables from another. Of the keys listed in
    `exactly_one` or `at_most_one` a table holds no two; `exactly_one` does not hold where the key `unless[0]` has the
    value `unless[1]`.
    """

    name: str = ""
    keys: Keys = field(default_factory=dict)
    many: bool = False
    required: bool = False
    variants: Variants | None = None
    any_key: Key | None = None
    title: str = ""
    exactly_one: tuple[tuple[str, ...], ...] = ()
    at_most_one: tuple[tuple[str, ...], ...] = ()
    unless: tuple[str, str] = ("", "")
    help: Text = EMPTY
    old_names: tuple[str, ...] = ()

    @property
    def header(self) -> str:
        """Write the line that opens the table."""
        return f"[[{self.name}]]" if self.many else f"[{self.name}]"

    def keys_of(self, written: Mapping[str, Any]) -> Keys:
        """Give the keys that a table may hold, which depends on what is written there."""
        variant = self.variants.choose(written) if self.variants else ""
        return self.variants.keys[variant] if self.variants and variant else self.keys

    @property
    def all_keys(self) -> list[str]:
        """List the keys of all variants."""
        own = self.variants.keys.values() if self.variants else ()
        return list(dict.fromkeys([*self.keys, *(name for keys in own for name in keys)]))

    def write_inline(self) -> str:
        """Write an example in braces: the keys that are required, else the first."""
        wanted = [name for name, key in self.keys.items() if key.required] or list(self.keys)[:1]
        return "{ " + ", ".join(self.keys[name].write(name) for name in wanted) + " }"


@dataclass(frozen=True, kw_only=True)
class FileForm:
    """A whole file: its tables, the error that refuses it, and the key that holds its version, if it has one."""

    name: str
    tables: tuple[TableForm, ...]
    error: type[SudareError] = SchemaError
    version: tuple[str, str, int] | None = None  # table, key, and the one that is known
    help: Text = EMPTY

    def table(self, name: str) -> TableForm:
        """Find a table by its name."""
        return next(table for table in self.tables if table.name == name)
