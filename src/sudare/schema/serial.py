"""A schema as JSON-able facts and back, exactly: this is what certificates hold and fingerprints hash."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sudare.errors import SchemaError, SudareError
from sudare.schema.attribute import Attribute
from sudare.schema.domain import DateBins, Domain, MeshCells, NumberBins, Values
from sudare.schema.hierarchy import TableHierarchy
from sudare.schema.impossible import Impossible
from sudare.schema.raw import decimal_text
from sudare.schema.unit import Unit

if TYPE_CHECKING:
    from sudare.schema.schema import Schema

VERSION = 1
Facts = dict[str, Any]


def schema_to_dict(schema: Schema) -> Facts:
    """Write a schema as facts, values and hierarchies inside."""
    return {
        "schema": VERSION,
        "name": schema.name,
        "origin": schema.origin,
        "unit": schema.unit.to_dict(),
        "attributes": [_attribute_to_dict(attribute) for attribute in schema.attributes],
        "identifiers": list(schema.identifiers),
        "impossible": [{name: _runs(codes) for name, codes in box.values} for box in schema.impossible],
    }


def schema_from_dict(facts: Mapping[str, Any]) -> Schema:
    """Read facts back; SchemaError if they are not what `schema_to_dict` writes."""
    from sudare.schema.schema import Schema  # the two modules need each other

    version = facts.get("schema") if isinstance(facts, Mapping) else None
    if version != VERSION:
        raise SchemaError(
            "schema version ({version}) must be {known}; update sudare or write the schema anew",
            version=version,
            known=VERSION,
        )
    try:
        _only(facts, "schema", "name", "origin", "unit", "attributes", "identifiers", "impossible")
        return Schema(
            name=facts["name"],
            origin=facts["origin"],
            unit=Unit.from_dict(facts["unit"]),
            attributes=tuple(_attribute_from_dict(each) for each in facts["attributes"]),
            identifiers=tuple(facts["identifiers"]),
            impossible=tuple(_impossible_from_dict(box) for box in facts["impossible"]),
        )
    except SchemaError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, SudareError) as error:
        raise SchemaError("the stored schema is damaged; write it anew from its schema file") from error


def _attribute_to_dict(attribute: Attribute) -> Facts:
    """Write one attribute; what is left at its default is left out."""
    facts: Facts = {"name": attribute.name, "domain": _domain_to_dict(attribute.domain), "role": attribute.role}
    facts |= {"outside": attribute.outside, "missing": attribute.missing}
    if attribute.missing_marks:
        facts["missing_marks"] = list(attribute.missing_marks)
    if attribute.date_format is not None:
        facts["format"] = attribute.date_format
    if isinstance(attribute.hierarchy, TableHierarchy):
        facts["hierarchy"] = _hierarchy_to_dict(attribute.hierarchy)
    return facts


def _attribute_from_dict(facts: Facts) -> Attribute:
    _only(facts, "name", "domain", "role", "outside", "missing", "missing_marks", "format", "hierarchy")
    bare = Attribute(
        name=facts["name"],
        domain=_domain_from_dict(facts["domain"]),
        role=facts["role"],
        outside=facts["outside"],
        missing=facts["missing"],
        missing_marks=tuple(facts.get("missing_marks", ())),
        date_format=facts.get("format"),
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
            return {"kind": "number", "edges": [decimal_text(edge) for edge in domain.edges]}
        start, width = domain.uniform
        return {"kind": "number", "start": decimal_text(start), "width": decimal_text(width), "count": domain.size}
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
        _only(facts, "kind", "values")
        return Values(tuple(facts["values"]), is_ordered=kind == "ordered")
    if kind == "number":
        return _number_from_dict(facts)
    if kind == "date":
        _only(facts, "kind", "edges")
        return DateBins(tuple(date.fromisoformat(edge) for edge in facts["edges"]))
    if kind == "mesh":
        _only(facts, "kind", "level", "area", "cells")
        return MeshCells(level=facts["level"], area=facts.get("area"), cells=facts.get("cells"))
    raise SchemaError("kind ({kind}) must be category, ordered, number, date or mesh", kind=kind)


def _number_from_dict(facts: Facts) -> NumberBins:
    _only(facts, "kind", "edges", "start", "width", "count")
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
    _only(facts, "parents", "names")
    return TableHierarchy(
        parents=tuple(np.array(level, dtype=np.int64) for level in facts["parents"]),
        names=(tuple(labels), *(tuple(level) for level in facts["names"])),
    )


def _impossible_from_dict(facts: Facts) -> Impossible:
    values = ((name, (code for low, high in runs for code in range(low, high + 1))) for name, runs in facts.items())
    return Impossible(tuple((name, frozenset(codes)) for name, codes in values))


def _runs(codes: Iterable[int]) -> list[list[int]]:
    """Write codes as runs [first, last]: a coarse mesh cell is one run, not a hundred thousand numbers."""
    runs: list[list[int]] = []
    for code in sorted(codes):
        if runs and runs[-1][1] == code - 1:
            runs[-1][1] = code
        else:
            runs.append([code, code])
    return runs


def _only(facts: Mapping[str, Any], *known: str) -> None:
    if not isinstance(facts, Mapping):
        raise TypeError
    unknown = sorted(set(facts) - set(known))
    if unknown:
        raise SchemaError("the stored schema has an unknown key ({key}); update sudare", key=unknown[0])
