"""The tables of areas and the further tables of a release: published sums, unbiased figures and margins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sudare.counts import Counts
from sudare.methods.table.linked import LinkedTable, TableGroups, find_groups
from sudare.methods.table.margins import COUNT, DECIMALS, Margins, find_margin
from sudare.methods.table.measured import MeasuredTable
from sudare.releases import Coded, Frame
from sudare.schema.arrays import Integers, Reals

AREAS, LEVEL, AREA = "areas", "level", "area"
TABLE = "table_"  # and its number, from 1 on


def linked_frames(table: Counts, linked: LinkedTable) -> dict[str, Frame]:
    """Tables of a release beside its cells: the areas of all levels, and every further table that was asked for."""
    published = spread_out(table, linked)
    found = {}
    if linked.facts.areas:
        found[AREAS] = list_areas(linked, published)
    wide = [spec for spec in linked.specs if len(spec.names) > 1 or not _is_area(linked, spec.names[0])]
    for number, spec in enumerate(wide, start=1):
        found[f"{TABLE}{number}"] = list_groups(linked, published, spec.names)
    return found


def _is_area(linked: LinkedTable, name: str) -> bool:
    return any(name in division.levels for division in linked.facts.areas)


def spread_out(table: Counts, measured: MeasuredTable) -> Integers:
    """The published counts by leaf."""
    counts = np.zeros(measured.layout.sizes[-1], dtype=np.int64)
    counts[measured.layout.leaves(table.columns())] = table.values
    return counts


def list_areas(linked: LinkedTable, published: Integers) -> Frame:
    """The areas of all levels of all divisions, in long form: level, area, count, unbiased, margin."""
    levels = [level for division in linked.facts.areas for level in division.levels]
    groups = [find_groups(linked.facts, linked.layout, (level,)) for level in levels]
    figures = [figure_groups(linked, published, one) for one in groups]
    sizes = [len(one.keys) for one in groups]
    names = np.concatenate([one.columns[0].labels[one.keys[:, 0]] for one in groups])
    columns: dict[str, Any] = {
        LEVEL: Coded(np.repeat(np.arange(len(levels)), sizes), _texts(levels)),
        AREA: _code(names),
    }
    for name in figures[0]:
        columns[name] = np.concatenate([one[name] for one in figures])
    return Frame(columns)


def list_groups(linked: MeasuredTable, published: Integers, names: Sequence[str]) -> Frame:
    """A further table: a column for every name, then count, unbiased, margin."""
    if not isinstance(linked, LinkedTable):
        raise AssertionError("further tables belong to a table with declared areas or tables")
    groups = find_groups(linked.facts, linked.layout, names)
    return Frame({**label_groups(groups), **figure_groups(linked, published, groups)})


def label_groups(groups: TableGroups) -> dict[str, Any]:
    """The columns of labels of a further table."""
    return {one.name: Coded(groups.keys[:, place], one.labels) for place, one in enumerate(groups.columns)}


def figure_groups(measured: MeasuredTable, published: Integers, groups: TableGroups) -> dict[str, Any]:
    """The columns of figures of a further table; shared cells make counts with decimals."""
    estimates, errors = measured.squares.answer_groups(groups.leaves, groups.groups, groups.weights)
    names = tuple(column.name for column in groups.columns)
    is_own = isinstance(measured, LinkedTable) and any(sums.spec.names == names for sums in measured.sums)
    sizes = np.ones(len(groups.keys), dtype=np.int64) if is_own else groups.sizes
    factors = np.array([measured.factor_of(int(size)) for size in sizes])
    weights = np.ones(len(groups.leaves)) if groups.weights is None else groups.weights
    held: Reals = published[groups.leaves] * weights
    sums: Reals = np.bincount(groups.groups, weights=held, minlength=len(groups.keys)).astype(np.float64)
    counts = sums.astype(np.int64) if groups.weights is None else np.round(sums, DECIMALS)
    margins = Margins.within(measured.public_total, unbiased=estimates, margin=find_margin(factors, errors))
    return {COUNT: counts, **margins.columns}


def _texts(texts: Sequence[str]) -> np.ndarray:
    labels = np.empty(len(texts), dtype=object)
    labels[:] = list(texts)
    return labels


def _code(names: np.ndarray) -> Coded:
    numbers: dict[str, int] = {}
    codes = np.array([numbers.setdefault(name, len(numbers)) for name in names.tolist()], dtype=np.int64)
    return Coded(codes, _texts(list(numbers)))
