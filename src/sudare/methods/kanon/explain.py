"""What every published label stands for, for mapping.json: the declared values of groups, ranges and hidden cells.

A label tells no more than the table it stands in: only labels of published rows are explained, by declared values
alone, never by those that occur. A label that is not listed is a declared value and stands for itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from sudare.counts.relabelling import SUPPRESSED, Relabelling
from sudare.errors import SchemaError
from sudare.methods.kanon.mondrian import ValueLine
from sudare.methods.kanon.recode import MAX_KNOWN_CODES, HierarchyCut, Pieces, RecodedTable, number_classes
from sudare.schema import Attribute
from sudare.schema.arrays import Booleans, Codes
from sudare.schema.domain import find_bins
from sudare.schema.raw import MISSING_LABEL, TOP_LABEL

STANDS_FOR = "stands_for"
MAX_LISTED_VALUES = 100_000  # of an attribute in mapping.json; where labels stand for more, only how many is told

Covers = Iterator[tuple[str | None, Codes | range]]
"""Labels, and the codes of the declared values that each stands for."""

Uses = dict[str | None, Codes]
"""The codes that are published under each label."""


def explain_labels(recoded: RecodedTable, published: tuple[str, ...]) -> dict[str, Any]:
    """Add to the mapping of a recoded table what its published labels stand for, attribute by attribute."""
    pieces = recoded.pieces
    explained = {}
    for axis, attribute in enumerate(pieces.attributes[: pieces.quasi]):
        if attribute.name in published:
            uses = _find_uses(pieces, recoded.relabelling, recoded.class_of != SUPPRESSED, axis)
            explained[attribute.name] = _explain(attribute, recoded.mapping, uses)
    return {**recoded.mapping, STANDS_FOR: explained}


def _find_uses(pieces: Pieces, relabelling: Relabelling, is_kept: Booleans, axis: int) -> Uses:
    """Find the codes that are published under each label of an attribute."""
    attribute, overrides = pieces.attributes[axis], relabelling.overrides
    uses: dict[str | None, list[int]] = {}
    plain = is_kept
    if overrides is not None and attribute.name in overrides.labels:
        own = overrides.groups >= 0
        codes, groups = overrides.codes[own, overrides.names.index(attribute.name)], overrides.groups[own]
        numbers: dict[str | None, int] = {}
        number_of = [numbers.setdefault(label, len(numbers)) for label in overrides.labels[attribute.name].tolist()]
        keys = np.unique(np.array(number_of, dtype=np.int64)[groups] * attribute.size + codes)
        texts = list(numbers)
        for key in keys.tolist():
            uses.setdefault(texts[key // attribute.size], []).append(key % attribute.size)
        plain = is_kept & ~_is_overridden(pieces, overrides.names, overrides.codes)
    codes = np.unique(pieces.codes[plain, axis])
    write = relabelling.labels.get(attribute.name, attribute.labels)
    for code, label in zip(codes.tolist(), write(codes).tolist(), strict=True):
        uses.setdefault(label, []).append(code)
    return {label: np.unique(members) for label, members in uses.items()}


def _is_overridden(pieces: Pieces, names: tuple[str, ...], codes: Codes) -> Booleans:
    axes = [pieces.names.index(name) for name in names]
    ids = number_classes(np.concatenate([codes, pieces.codes[:, axes]]))
    return np.isin(ids[len(codes) :], ids[: len(codes)])


def _explain(attribute: Attribute, mapping: Mapping[str, Any], uses: Uses) -> dict[str, Any]:
    """Explain the labels of one attribute: {"declared": how many values it has, "labels": what each stands for}."""
    method = mapping["attributes"][attribute.name]
    if "mean" in method:
        return {"declared": attribute.size, "means_within": write_values(attribute, np.arange(attribute.size))}
    asked = mapping.get("asked", {}).get(attribute.name)
    if "ranges" in method:
        covers = _cover_by_ranges(attribute, uses)
    elif isinstance(asked, list):
        covers = _cover_by_groups(asked, uses)
    else:
        covers = _cover_by_levels(attribute, _list_levels(attribute, mapping), uses)
    return {"declared": attribute.size, "labels": _list_entries(attribute, covers)}


def _list_entries(attribute: Attribute, covers: Covers) -> list[dict[str, Any]]:
    """List what labels stand for, in an order that tells nothing of rows; a value that stands for itself is left out.

    A label that is the name of several groups has an entry for each.
    """
    distinct: dict[str | None, dict[tuple[int, int], Codes | range]] = {}
    for label, cover in covers:  # groups of one label begin and end elsewhere, or one holds the other
        distinct.setdefault(label, {})[int(cover[0]), len(cover)] = cover
    entries, listed = [], 0
    order = [(first, -size, label or "", label) for label, found in distinct.items() for first, size in found]
    for first, size, _, label in sorted(order, key=lambda item: item[:3]):
        entry = _write_entry(attribute, label, distinct[label][first, -size], MAX_LISTED_VALUES - listed)
        listed += len(entry.get("values", ()))
        if len(distinct[label]) > 1 or entry.get("values") != [MISSING_LABEL if label is None else label] or size < -1:
            entries.append(entry)
    return entries


def _write_entry(attribute: Attribute, label: str | None, cover: Codes | range, most: int) -> dict[str, Any]:
    if len(cover) == attribute.size > 1:
        return {"label": label, "all": True}
    values = write_values(attribute, cover, label) if len(cover) <= MAX_KNOWN_CODES else [str(label)]
    listed = {"values": values} if len(values) <= most else {}
    return {"label": label, **listed, **({} if len(listed.get("values", ())) == len(cover) else {"count": len(cover)})}


def write_values(attribute: Attribute, codes: Codes | range, label: str | None = None) -> list[str]:
    """Write values one by one, numbers and days as intervals, and a cell of a mesh as itself.

    >>> from sudare.schema import NumberBins
    >>> age = Attribute(name="age", domain=NumberBins.of_width(0, 100, 10), missing=True)
    >>> write_values(age, np.array([0, 1, 5, 10]))
    ['[0,20)', '[50,60)', '(missing)']
    """
    if label is not None and is_range(attribute, label, codes):
        return [label]
    members = np.asarray(codes, dtype=np.int64)
    if find_bins(attribute.domain) is None:
        return [MISSING_LABEL if text is None else str(text) for text in attribute.labels(members).tolist()]
    line = ValueLine(attribute)
    runs = np.split(members, np.flatnonzero((np.diff(members) != 1) | (members[1:] >= line.range_size)) + 1)
    return [line.name_range(int(run[0]), int(run[-1])) for run in runs if len(run)]


def is_range(attribute: Attribute, label: str, codes: Codes | range) -> bool:
    """Tell whether a label is the schema's own name of exactly these values."""
    try:
        own = attribute.codes(label)
    except SchemaError:
        return False
    return len(own) == len(codes) and own[0] == int(codes[0]) and own[-1] == int(codes[-1])


def _find_value(attribute: Attribute, label: str | None) -> int | None:
    try:
        return attribute.code(label)
    except SchemaError:
        return None


# --- the declared values of a label, by kind of recoding --------------------------------------------------------------


def _cover_by_ranges(attribute: Attribute, uses: Uses) -> Covers:
    """Cover the range along the line that a label spans, and what stands behind it."""
    line = ValueLine(attribute)
    order = np.arange(attribute.size) if line.order is None else line.order
    for label, codes in uses.items():
        places = line.places(codes)
        ranged = places[places < line.range_size]
        span = np.arange(ranged.min(), ranged.max() + 1) if len(ranged) else ranged
        cover = np.sort(order[np.concatenate([span, places[places >= line.range_size]])])
        yield label, cover
        own = _find_value(attribute, label)
        if own is not None and len(cover) > 1:  # a group has the name of a value
            yield label, np.array([own])


def _cover_by_groups(groups: list[list[int]], uses: Uses) -> Covers:
    """Cover the groups of a request that the codes of a label are in."""
    for label, codes in uses.items():
        members = set(codes.tolist())
        yield label, np.unique([code for group in groups if members & set(group) for code in group])


def _list_levels(attribute: Attribute, mapping: Mapping[str, Any]) -> list[int]:
    """List the levels at which an attribute is published; one without a level is left out, at the top."""
    method = mapping["attributes"][attribute.name]
    further = [levels[attribute.name] for levels in mapping.get("further", []) if attribute.name in levels]
    own = [method.get("level", 0)] if "hidden" in method or "level" in method else method.get("levels", [])
    levels = {*own, *further, *(group["level"] for group in method.get("groups", []))}
    return sorted({attribute.height if level is None else min(int(level), attribute.height) for level in levels})


def _cover_by_levels(attribute: Attribute, levels: list[int], uses: Uses) -> Covers:
    """Cover the groups that have the name of a label at these levels, be there rows in them or not.

    Where groups of two levels have one name, each stands for itself: which one rows are in, is not told.
    """
    cuts = {level: HierarchyCut.at_level(attribute, level, np.zeros(0, dtype=np.int64)) for level in levels}
    found = {
        (label, level, group)
        for level, cut in cuts.items()
        for label, group in _list_groups(attribute, cut, level, uses)
        if label in uses
    }
    if TOP_LABEL in uses and not any(label == TOP_LABEL for label, _, _ in found):
        yield TOP_LABEL, range(attribute.size)
    for label, level, group in found:
        yield label, _find_members(cuts[level], level, group, label)


def _list_groups(attribute: Attribute, cut: HierarchyCut, level: int, uses: Uses) -> Iterator[tuple[str | None, int]]:
    """List names and numbers of the groups of a level; of very many, those that are used."""
    size = attribute.coarsen(level).size
    used = np.unique(np.concatenate([*uses.values(), np.zeros(0, dtype=np.int64)]))
    groups = np.arange(size) if size <= MAX_KNOWN_CODES else np.unique(cut.lift(used, level))
    yield from zip(attribute.coarsen(level).labels(groups).tolist(), groups.tolist(), strict=True)


def _find_members(cut: HierarchyCut, level: int, group: int, label: str | None) -> Codes | range:
    if level == 0:
        return np.array([group])
    if cut.attribute.size > MAX_KNOWN_CODES:  # a mesh: its cells are named by the schema
        return cut.attribute.codes(label)
    return np.flatnonzero(cut.lift(np.arange(cut.attribute.size), level) == group)
