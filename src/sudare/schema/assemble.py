"""From the form of a schema file to the schema: domains, hierarchies and the files they name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sudare.errors import SchemaError
from sudare.schema.attribute import Attribute
from sudare.schema.builders import dates, from_csv, intervals, masking, ordered_groups, prefecture_regions
from sudare.schema.complaints import EXAMPLES, place_of, within
from sudare.schema.domain import DateBins, Domain, MeshCells, NumberBins, Values
from sudare.schema.hierarchy import TableHierarchy
from sudare.schema.impossible import Impossible, box_of
from sudare.schema.prefectures import PREFECTURES
from sudare.schema.schema import Origin, Schema
from sudare.schema.textfile import read_lines
from sudare.schema.unit import Unit

if TYPE_CHECKING:
    from sudare.schema.file import (
        AttributeForm,
        DateForm,
        HierarchyForm,
        ListedForm,
        MeshForm,
        NumberForm,
        SchemaForm,
    )

_RULES = ("intervals", "groups", "dates", "masking", "builtin")


def assemble(form: SchemaForm, path: Path) -> Schema:
    """Build the schema; whatever its parts find wrong is said with the file and the place."""
    attributes = []
    for each in form.attribute:
        with within(path, f"[[attribute]] {each.name}"):
            if each.role != "identifier":
                attributes.append(_attribute(each, path.parent))
    with within(path, "[unit]"):
        unit = Unit(kind=form.unit.kind, column=form.unit.column, max_rows=form.unit.max_rows or 1)
    boxes = _boxes(attributes, form.impossible, path)
    inferred = form.sudare.inferred
    origin: Origin = "confirmed" if inferred == "confirmed" else "inferred" if inferred else "declared"
    with within(path):
        schema = Schema(
            name=form.sudare.name or path.stem,
            unit=unit,
            attributes=tuple(attributes),
            identifiers=tuple(each.name for each in form.attribute if each.role == "identifier"),
            impossible=boxes,
            origin=origin,
        )
        if not attributes and origin != "inferred":
            raise SchemaError("every attribute is an identifier; nothing is left to publish. Give one of them a kind")
        _ = schema.possible_size  # refuses combinations that leave nothing
    return schema


def _boxes(
    attributes: Sequence[Attribute], combinations: Sequence[Mapping[str, list[str]]], path: Path
) -> tuple[Impossible, ...]:
    boxes = []
    for index, labels in enumerate(combinations):
        with within(path, place_of({}, "impossible", index)):
            boxes.append(box_of(attributes, labels))
    return tuple(boxes)


def _attribute(form: Any, folder: Path) -> Attribute:
    if form.kind in ("category", "ordered"):
        domain, hierarchy = _listed(form, folder)
    else:
        domain = _mesh(form, folder) if form.kind == "mesh" else _binned(form)
        hierarchy = _hierarchy(getattr(form, "hierarchy", None), domain, form, folder)
    return Attribute(
        name=form.name,
        domain=domain,
        role=form.role,
        missing=bool(form.missing),
        missing_marks=_marks(form),
        outside=form.outside,
        hierarchy=hierarchy,
        date_format=getattr(form, "format", None),
    )


def _marks(form: AttributeForm) -> tuple[str, ...]:
    if form.missing == []:
        raise SchemaError("missing = [] says nothing; write true, false or a list of marks")
    return () if isinstance(form.missing, bool) else tuple(form.missing)


def _one_of(form: Any, *keys: str) -> str:
    """Find which of two keys is given; SchemaError for none or both."""
    given = [key for key in keys if getattr(form, key) is not None]
    if len(given) != 1:
        raise SchemaError(
            "give exactly one of {keys}, like: {example}", keys=", ".join(keys), example=EXAMPLES[keys[0]]
        )
    return given[0]


def _listed(form: ListedForm, folder: Path) -> tuple[Domain, TableHierarchy | None]:
    """Build listed values. Without a list they are the first column of the hierarchy's file, or the prefectures."""
    is_ordered, rule = form.kind == "ordered", form.hierarchy
    if form.values is None and form.values_file is None:
        if isinstance(rule, str):
            tree = from_csv(folder / rule, **_branches(form))
            declared = len(tree.names[0]) - (form.outside == "other") - bool(form.missing)
            return Values(tree.names[0][:declared], is_ordered=is_ordered), tree
        if rule is not None and rule.builtin == "jp-prefecture":
            return Values(PREFECTURES, is_ordered=is_ordered), prefecture_regions()
    key = _one_of(form, "values", "values_file")
    texts = form.values if key == "values" else read_lines(folder / str(form.values_file))
    domain = Values(tuple(texts or ()), is_ordered=is_ordered)
    return domain, _hierarchy(rule, domain, form, folder)


def _binned(form: NumberForm | DateForm) -> Domain:
    bins = form.bins if _one_of(form, "bins", "edges") == "bins" else None
    if form.kind == "number":
        numbers: Any = bins
        return (
            NumberBins.of_width(numbers.start, numbers.stop, numbers.width)
            if bins
            else NumberBins(tuple(form.edges or ()))
        )
    days: Any = bins
    return DateBins.of_width(days.start, days.stop, days.width) if bins else DateBins(tuple(form.edges or ()))


def _mesh(form: MeshForm, folder: Path) -> Domain:
    if _one_of(form, "area", "area_file") == "area":
        return MeshCells(level=form.level, area=tuple(form.area or ()))
    cells = [line.strip() for line in read_lines(folder / str(form.area_file)) if line.strip()]
    return MeshCells(level=form.level, cells=cells)  # type: ignore[arg-type]  # checked and sorted there


def _branches(form: AttributeForm) -> dict[str, Any]:
    return {"other": form.outside == "other", "missing": bool(form.missing), "missing_marks": _marks(form)}


def _hierarchy(
    rule: str | HierarchyForm | None, domain: Domain, form: AttributeForm, folder: Path
) -> TableHierarchy | None:
    """Read or build the hierarchy that the file asks for."""
    if rule is None:
        return None
    if isinstance(rule, str):
        return from_csv(folder / rule, domain, **_branches(form))
    name = _one_of(rule, *_RULES)
    if name != "masking" and (rule.characters is not None or rule.steps is not None):
        raise SchemaError("characters and steps go with masking only; take them out")
    if name == "groups":
        return ordered_groups(domain, rule.groups or ())
    if name == "intervals" and isinstance(domain, NumberBins):
        return intervals(domain, rule.intervals or ())
    if name == "dates" and isinstance(domain, DateBins):
        return dates(domain, rule.dates or ())
    if name == "masking" and isinstance(domain, Values):
        return masking(domain, side=rule.masking or "right", characters=rule.characters or 1, steps=rule.steps)
    if name == "builtin" and isinstance(domain, Values):
        return prefecture_regions(domain)
    raise SchemaError(
        "a hierarchy by {rule} does not fit kind {kind}; use another rule, or a CSV file", rule=name, kind=domain.kind
    )
