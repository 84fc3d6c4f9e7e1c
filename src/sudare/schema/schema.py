"""The schema: the public facts about a table, and how they are written as facts of JSON and read back, exactly."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from sudare.errors import NotConfirmed, SchemaError, SudareError
from sudare.schema.areas import Areas, check_areas
from sudare.schema.arrays import Booleans
from sudare.schema.attribute import Attribute
from sudare.schema.domain import DateBins, Domain, MeshCells, NumberBins, Values
from sudare.schema.hierarchy import TableHierarchy
from sudare.schema.impossible import Impossible, coarsen_boxes, count_possible, find_impossible, merge_boxes
from sudare.schema.radix import Radix
from sudare.schema.raw import list_some, write_decimal
from sudare.schema.unit import Unit
from sudare.text import Text, text
from sudare.text.cards import card

VERSION = 1  # of the facts that certificates hold and fingerprints hash
Facts = dict[str, Any]


def schema_to_dict(schema: Schema) -> Facts:
    """Write a schema as facts, values and hierarchies inside."""
    areas = {"areas": [division.to_dict() for division in schema.areas]} if schema.areas else {}
    return {
        "schema": VERSION,
        "name": schema.name,
        "origin": schema.origin,
        "unit": schema.unit.to_dict(),
        "attributes": [_attribute_to_dict(attribute) for attribute in schema.attributes],
        "identifiers": list(schema.identifiers),
        "impossible": [{name: _write_runs(codes) for name, codes in box.values} for box in schema.impossible],
        **areas,
    }


def schema_from_dict(facts: Mapping[str, Any]) -> Schema:
    """Read facts back; SchemaError if they are not what `schema_to_dict` writes."""
    version = facts.get("schema") if isinstance(facts, Mapping) else None
    if version != VERSION:
        raise SchemaError(
            "schema version ({version}) must be {known}; update sudare or write the schema anew",
            version=version,
            known=VERSION,
        )
    try:
        known = ("schema", "name", "origin", "unit", "attributes", "identifiers", "impossible", "areas")
        _refuse_unknown_facts(facts, *known)
        return Schema(
            name=facts["name"],
            origin=facts["origin"],
            unit=Unit.from_dict(facts["unit"]),
            attributes=tuple(_attribute_from_dict(attribute) for attribute in facts["attributes"]),
            identifiers=tuple(facts["identifiers"]),
            impossible=tuple(_impossible_from_dict(box) for box in facts["impossible"]),
            areas=tuple(Areas.from_dict(division) for division in facts.get("areas", ())),
        )
    except SchemaError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, SudareError) as error:
        raise SchemaError("the stored schema is damaged; write it anew from its schema file") from error


def _attribute_to_dict(attribute: Attribute) -> Facts:
    """Write one attribute; what is left at its default is left out."""
    facts: Facts = {"name": attribute.name, "domain": _domain_to_dict(attribute.domain), "role": attribute.role}
    facts |= {"outside": attribute.outside, "missing": attribute.missing}
    if attribute.missing_marks:
        facts["missing_marks"] = list(attribute.missing_marks)
    if attribute.date_format is not None:
        facts["format"] = attribute.date_format
    if attribute.number_format is not None:
        facts["format"] = attribute.number_format
    if attribute.from_data:
        facts["from_data"] = True
    if attribute.grain is not None:
        facts["grain"] = write_decimal(attribute.grain)
    if isinstance(attribute.hierarchy, TableHierarchy):
        facts["hierarchy"] = _hierarchy_to_dict(attribute.hierarchy)
    return facts


def _attribute_from_dict(facts: Facts) -> Attribute:
    known = ("name", "domain", "role", "outside", "missing", "missing_marks", "format", "from_data", "grain")
    _refuse_unknown_facts(facts, *known, "hierarchy")
    domain = _domain_from_dict(facts["domain"])
    bare = Attribute(
        name=facts["name"],
        domain=domain,
        role=facts["role"],
        outside=facts["outside"],
        missing=facts["missing"],
        missing_marks=tuple(facts.get("missing_marks", ())),
        date_format=facts.get("format") if domain.kind != "number" else None,
        number_format=facts.get("format") if domain.kind == "number" else None,
        from_data=facts.get("from_data", False),
        grain=facts.get("grain"),
    )
    if "hierarchy" not in facts:
        return bare
    labels = [*bare.domain.labels(np.arange(bare.domain.size)).tolist(), *bare.branches]
    return replace(bare, hierarchy=_hierarchy_from_dict(facts["hierarchy"], labels))


def _domain_to_dict(domain: Domain) -> Facts:
    if isinstance(domain, Values):
        return {"kind": domain.kind, "values": list(domain.values)}
    if isinstance(domain, NumberBins):
        if domain.uniform is None:
            return {"kind": "number", "edges": [write_decimal(edge) for edge in domain.edges]}
        start, width = domain.uniform
        return {"kind": "number", "start": write_decimal(start), "width": write_decimal(width), "count": domain.size}
    if isinstance(domain, DateBins):
        return {"kind": "date", "edges": [edge.isoformat() for edge in domain.edges]}
    if isinstance(domain, MeshCells):
        if domain.cells is None:
            return {"kind": "mesh", "level": domain.level, "area": list(domain.area or ())}
        return {"kind": "mesh", "level": domain.level, "cells": domain.cells.tolist()}
    raise SchemaError("a domain of kind {kind} cannot be stored", kind=domain.kind)


def _domain_from_dict(facts: Facts) -> Domain:
    kind = facts["kind"]
    if kind in ("category", "ordered"):
        _refuse_unknown_facts(facts, "kind", "values")
        return Values(tuple(facts["values"]), is_ordered=kind == "ordered")
    if kind == "number":
        return _number_from_dict(facts)
    if kind == "date":
        _refuse_unknown_facts(facts, "kind", "edges")
        return DateBins(tuple(date.fromisoformat(edge) for edge in facts["edges"]))
    if kind == "mesh":
        _refuse_unknown_facts(facts, "kind", "level", "area", "cells")
        return MeshCells(level=facts["level"], area=facts.get("area"), cells=facts.get("cells"))
    raise SchemaError("kind ({kind}) must be category, ordered, number, date or mesh", kind=kind)


def _number_from_dict(facts: Facts) -> NumberBins:
    _refuse_unknown_facts(facts, "kind", "edges", "start", "width", "count")
    if "edges" in facts:
        return NumberBins(tuple(Fraction(edge) for edge in facts["edges"]))
    start, width = Fraction(facts["start"]), Fraction(facts["width"])
    return NumberBins(tuple(start + index * width for index in range(facts["count"] + 1)))


def _hierarchy_to_dict(hierarchy: TableHierarchy) -> Facts:
    """Write parents and the names above level 0, whose names are the attribute's own."""
    return {
        "parents": [level.tolist() for level in hierarchy.parents],
        "names": [list(level) for level in hierarchy.names[1:]],
    }


def _hierarchy_from_dict(facts: Facts, labels: Sequence[str]) -> TableHierarchy:
    _refuse_unknown_facts(facts, "parents", "names")
    return TableHierarchy(
        parents=tuple(np.array(level, dtype=np.int64) for level in facts["parents"]),
        names=(tuple(labels), *(tuple(level) for level in facts["names"])),
    )


def _impossible_from_dict(facts: Facts) -> Impossible:
    values = ((name, (code for low, high in runs for code in range(low, high + 1))) for name, runs in facts.items())
    return Impossible(tuple((name, frozenset(codes)) for name, codes in values))


def _write_runs(codes: Iterable[int]) -> list[list[int]]:
    """Write codes as runs [first, last]: a coarse mesh cell is one run, not a hundred thousand numbers."""
    runs: list[list[int]] = []
    for code in sorted(codes):
        if runs and runs[-1][1] == code - 1:
            runs[-1][1] = code
        else:
            runs.append([code, code])
    return runs


def _refuse_unknown_facts(facts: Mapping[str, Any], *known: str) -> None:
    if not isinstance(facts, Mapping):
        raise TypeError
    unknown = sorted(set(facts) - set(known))
    if unknown:
        raise SchemaError("the stored schema has an unknown key ({key}); update sudare", key=unknown[0])


# The public facts about a table: who is protected, what its columns can hold, what cannot occur.


__all__ = ["Impossible", "Origin", "Schema"]

Origin = Literal["declared", "inferred", "confirmed"]


@dataclass(frozen=True, kw_only=True)
class Schema:
    """A declared table. Nothing in it may come from the data unless a steward confirmed it.

    >>> from sudare.schema.domain import Values
    >>> schema = Schema(name="pets", attributes=(Attribute(name="pet", domain=Values(("cat", "dog"))),))
    >>> schema.names, schema.size, str(schema.unit.describe())
    (('pet',), 2, 'a row')
    """

    name: str
    unit: Unit = Unit()  # noqa: RUF009  (frozen)
    attributes: tuple[Attribute, ...]
    identifiers: tuple[str, ...] = ()
    impossible: tuple[Impossible, ...] = ()
    origin: Origin = "declared"
    areas: tuple[Areas, ...] = ()

    def __post_init__(self) -> None:
        for field in ("attributes", "identifiers", "impossible", "areas"):
            object.__setattr__(self, field, tuple(getattr(self, field)))
        if self.origin not in get_args(Origin):
            raise SchemaError('origin ({origin}) must be "declared", "inferred" or "confirmed"', origin=self.origin)
        self._check_names()
        self._check_impossible()
        check_areas(self.areas, self.attributes)

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

    def __hash__(self) -> int:
        """Give one number for equal schemas, worked out once: many results are kept by the schema they belong to."""
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.name, self.unit, self.attributes, self.identifiers, self.impossible, self.areas))

    def __getstate__(self) -> dict[str, object]:
        """Leave the number out: another process has other numbers for the same words."""
        return {name: value for name, value in vars(self).items() if name != "_hash"}

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Name the published attributes, in order."""
        return tuple(attribute.name for attribute in self.attributes)

    @cached_property
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
            "there is no attribute {name}; the schema has {known}", name=name, known=list_some(self.names, 20)
        )

    def position(self, name: str) -> int:
        """Find the column of an attribute; SchemaError, with the known names, if there is none."""
        return self.attributes.index(self.attribute(name))

    def select(self, names: Sequence[str]) -> Schema:
        """Keep some attributes, in the order asked for.

        An impossible combination is kept if every attribute that it restricts is kept; areas likewise.
        """
        attributes = tuple(self.attribute(name) for name in names)
        sizes = dict(zip(self.names, self.sizes, strict=True))
        boxes = tuple(box for box in merge_boxes(self.impossible, sizes) if set(box.names) <= set(names))
        areas = tuple(division for division in self.areas if set(division.attributes) <= set(names))
        return replace(self, attributes=attributes, impossible=boxes, areas=areas)

    def coarsen(self, levels: Mapping[str, int]) -> Schema:
        """See attributes at levels of their hierarchies.

        A group is impossible only if all its members are: combinations shrink to the whole groups that they cover.
        """
        for name in levels:
            self.attribute(name)
        attributes = tuple(attribute.coarsen(levels.get(attribute.name, 0)) for attribute in self.attributes)
        boxes = coarsen_boxes(self.impossible, self.attributes, levels)
        coarser = {name for name, level in levels.items() if level}
        areas = tuple(division for division in self.areas if not coarser & set(division.attributes))
        return replace(self, attributes=attributes, impossible=boxes, areas=areas)

    def with_areas(self, *areas: Areas) -> Schema:
        """Declare further divisions of cells into areas."""
        return replace(self, areas=(*self.areas, *areas))

    @property
    def without_areas(self) -> Schema:
        """The same table, no areas declared."""
        return replace(self, areas=()) if self.areas else self

    def is_impossible(self, columns: NDArray[np.integer]) -> Booleans:
        """Tell which rows of codes (m, d) an impossible combination covers."""
        return find_impossible(self.impossible, self.names, np.asarray(columns))

    def require_confirmed(self) -> None:
        """Refuse an inferred schema: its domain was read off the data and would leak."""
        if self.origin == "inferred":
            raise NotConfirmed(
                "schema {name} was inferred from the data and may tell about people; read it, correct it, "
                'then run `sudare schema confirm`, or write inferred = "confirmed" under [sudare]',
                name=self.name,
            )

    def __repr__(self) -> str:
        return f"<Schema {self.name}: {', '.join(self.names)}>"

    def _repr_html_(self) -> str:
        """Show the declared facts in a notebook."""
        return show_schema(self)

    def to_dict(self) -> dict[str, Any]:
        """Write the schema as JSON-able facts, with values and hierarchies inside."""
        return schema_to_dict(self)

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Schema:
        """Read what `to_dict` gave; SchemaError for anything else."""
        return schema_from_dict(facts)

    @classmethod
    def read(cls, path: str | Path) -> Schema:
        """Read a schema file (TOML) and the files that it names."""
        from sudare.schema.file import read_schema  # the two modules need each other

        return read_schema(path)


def show_schema(schema: Schema) -> str:
    """Draw the declared facts as HTML: who is protected, and what every attribute can hold."""
    notes = [text("protected: {unit}", unit=schema.unit.describe())]
    if schema.identifiers:
        notes.append(text("never published: {names}", names=", ".join(schema.identifiers)))
    notes.append(text("cells of the complete table: {cells}", cells=f"{schema.size:,}"))
    unconfirmed = text("inferred from the data and not confirmed: check it, then confirm it")
    columns = [text("attribute"), text("values"), text("order"), text("role"), text("levels above"), text("missing")]
    return card(
        schema.name,
        notes=notes,
        columns=columns,
        rows=[_describe_attribute(attribute) for attribute in schema.attributes],
        warning=unconfirmed if schema.origin == "inferred" else "",
    )


def _describe_attribute(attribute: Attribute) -> tuple[object, ...]:
    order = text("ordered") if attribute.is_ordered else text("unordered")
    missing = text("a category") if attribute.missing else text("refused")
    return (attribute.name, f"{attribute.size:,}", order, attribute.role, attribute.height, missing)


def list_claims(schema: Schema) -> list[Text]:
    """List what somebody confirms with a schema, a line for each: who is protected, and every value that is public."""
    claims = [text("protected: {unit}", unit=schema.unit.describe())]
    if schema.identifiers:
        claims.append(text("never published: {names}", names=", ".join(schema.identifiers)))
    for attribute in schema.attributes:
        claims += [_claim_domain(attribute), *_claim_reading(attribute)]
    claims += [text("declared impossible: {names} together", names=", ".join(box.names)) for box in schema.impossible]
    claims += [
        text(
            "areas of {names}: {levels} (cells on a border by the rule {rule})",
            names=", ".join(division.attributes),
            levels=", ".join(division.levels),
            rule=division.rule,
        )
        for division in schema.areas
    ]
    return claims


def _claim_reading(attribute: Attribute) -> list[Text]:
    """Say what else is declared of an attribute, where it is not what everybody expects."""
    name, claims = attribute.name, []
    if attribute.from_data:
        claims.append(text("{name}: read off the data, and to be known by everybody as it is written", name=name))
    if attribute.role == "quasi":
        claims.append(text("{name}: others may know it of a person (quasi-identifier)", name=name))
    if attribute.role == "sensitive":
        claims.append(text("{name}: others must not learn it of a person (sensitive)", name=name))
    if attribute.outside != "refuse":
        claims.append(text("{name}: other values are taken as {outside}", name=name, outside=attribute.outside))
    if attribute.missing:
        claims.append(text("{name}: a missing value is a value of its own", name=name))
    return claims


def _claim_domain(attribute: Attribute) -> Text:
    size = attribute.domain.size
    labels = attribute.domain.labels(np.arange(min(size, 8))).tolist()
    if isinstance(attribute.domain, Values):
        listed = ", ".join(labels) + (", ..." if size > len(labels) else "")
        return text("{name}: {count} public values: {values}", name=attribute.name, count=size, values=listed)
    last = attribute.domain.labels(np.array([size - 1])).tolist()[0]
    return text(
        "{name}: {count} public ranges, from {first} to {last}",
        name=attribute.name,
        count=size,
        first=labels[0],
        last=last,
    )
