"""The public facts about a table: who is protected, what its columns can hold, what cannot occur."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from sudare.errors import NotConfirmed, SchemaError
from sudare.schema import serial
from sudare.schema.attribute import Attribute
from sudare.schema.impossible import Impossible, are_impossible, coarsened, merged
from sudare.schema.labels import shown
from sudare.schema.possible import count_possible
from sudare.schema.radix import Radix
from sudare.schema.unit import Unit

__all__ = ["Impossible", "Origin", "Schema"]

Origin = Literal["declared", "inferred", "confirmed"]


@dataclass(frozen=True, kw_only=True)
class Schema:
    """A declared table. Nothing in it may come from the data unless a steward confirmed it.

    >>> from sudare.schema.domain import Values
    >>> schema = Schema(name="pets", attributes=(Attribute(name="pet", domain=Values(("cat", "dog"))),))
    >>> schema.names, schema.size, schema.unit.text
    (('pet',), 2, 'a row')
    """

    name: str
    unit: Unit = Unit()  # noqa: RUF009  (frozen)
    attributes: tuple[Attribute, ...]
    identifiers: tuple[str, ...] = ()
    impossible: tuple[Impossible, ...] = ()
    origin: Origin = "declared"

    def __post_init__(self) -> None:
        for field in ("attributes", "identifiers", "impossible"):
            object.__setattr__(self, field, tuple(getattr(self, field)))
        if self.origin not in get_args(Origin):
            raise SchemaError('origin ({origin}) must be "declared", "inferred" or "confirmed"', origin=self.origin)
        self._check_names()
        self._check_impossible()

    def _check_names(self) -> None:
        names = (*self.names, *self.identifiers)
        repeated = [name for index, name in enumerate(names) if name in names[:index]]
        if repeated:
            raise SchemaError("attribute {name} is declared twice; names must differ", name=repeated[0])
        if self.unit.column in self.names:
            raise SchemaError(
                'the column of persons ({column}) must not be published; give it role = "identifier" or leave it out',
                column=self.unit.column,
            )

    def _check_impossible(self) -> None:
        for box in self.impossible:
            for name, codes in box.values:
                size = self.attribute(name).size
                if not codes or min(codes) < 0 or max(codes) >= size:
                    raise SchemaError(
                        "an impossible combination needs values of {name} between 0 and {top}", name=name, top=size - 1
                    )

    @property
    def names(self) -> tuple[str, ...]:
        """Name the published attributes, in order."""
        return tuple(attribute.name for attribute in self.attributes)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Count the codes of every attribute."""
        return tuple(attribute.size for attribute in self.attributes)

    @cached_property
    def size(self) -> int:
        """Count the cells, possible or not, exactly."""
        return math.prod(self.sizes)

    @cached_property
    def possible_size(self) -> int:
        """Count the cells that no impossible combination covers, exactly; SchemaError if none is left."""
        sizes = dict(zip(self.names, self.sizes, strict=True))
        count = count_possible([dict(box.values) for box in self.impossible], sizes)
        if count == 0:
            raise SchemaError("the impossible combinations leave nothing possible; take one out")
        return count

    @cached_property
    def radix(self) -> Radix:
        """Number the cells."""
        return Radix(self.sizes)

    @cached_property
    def fingerprint(self) -> str:
        """Give the SHA-256 of the schema written canonically: the same on every machine."""
        text = json.dumps(self.to_dict(), ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def attribute(self, name: str) -> Attribute:
        """Find an attribute; SchemaError, with the known names, if there is none."""
        for attribute in self.attributes:
            if attribute.name == name:
                return attribute
        raise SchemaError(
            "there is no attribute {name}; the schema has {known}", name=name, known=shown(self.names, 20)
        )

    def position(self, name: str) -> int:
        """Find the column of an attribute; SchemaError, with the known names, if there is none."""
        return self.attributes.index(self.attribute(name))

    def select(self, names: Sequence[str]) -> Schema:
        """Keep some attributes, in the order asked for.

        An impossible combination is kept if every attribute that it restricts is kept.
        """
        attributes = tuple(self.attribute(name) for name in names)
        sizes = dict(zip(self.names, self.sizes, strict=True))
        boxes = tuple(box for box in merged(self.impossible, sizes) if set(box.names) <= set(names))
        return replace(self, attributes=attributes, impossible=boxes)

    def coarsen(self, levels: Mapping[str, int]) -> Schema:
        """See attributes at levels of their hierarchies.

        A group is impossible only if all its members are: combinations shrink to the whole groups that they cover.
        """
        for name in levels:
            self.attribute(name)
        attributes = tuple(each.coarsen(levels.get(each.name, 0)) for each in self.attributes)
        boxes = coarsened(self.impossible, self.attributes, levels)
        return replace(self, attributes=attributes, impossible=boxes)

    def is_impossible(self, columns: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Tell which rows of codes (m, d) an impossible combination covers."""
        return are_impossible(self.impossible, self.names, np.asarray(columns))

    def require_confirmed(self) -> None:
        """Refuse an inferred schema: its domain was read off the data and would leak."""
        if self.origin == "inferred":
            raise NotConfirmed(
                "schema {name} was inferred from the data and may tell about people; read it, correct it, "
                'then write inferred = "confirmed" under [sudare]',
                name=self.name,
            )

    def to_dict(self) -> dict[str, Any]:
        """Write the schema as JSON-able facts, with values and hierarchies inside."""
        return serial.schema_to_dict(self)

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Schema:
        """Read what `to_dict` gave; SchemaError for anything else."""
        return serial.schema_from_dict(facts)

    @classmethod
    def read(cls, path: str | Path) -> Schema:
        """Read a schema file (TOML) and the files that it names."""
        from sudare.schema.file import read_schema  # pydantic is slow to import

        return read_schema(path)
