"""The tables and maps of a release: cells and sums, each with its unbiased figure and the margin of its error.

Of every figure there are two: `count`, from the table that adds up and is never negative, and `unbiased`, from least
squares over all noisy sums. The true number lies within `margin` of `unbiased` in at least 95 of 100 cases.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from sudare.counts import Counts
from sudare.methods.columns import coded
from sudare.methods.table.area_frames import linked_frames
from sudare.methods.table.large_measured import LargeMeasured, list_large
from sudare.methods.table.linked import LinkedTable
from sudare.methods.table.margins import COUNT, MARGIN, UNBIASED, Margins
from sudare.methods.table.measured import MeasuredTable
from sudare.releases import Coded, Frame
from sudare.releases.geo import write_geojson, write_geoparquet
from sudare.releases.release import MEASUREMENTS
from sudare.schema import Attribute, MeshCells
from sudare.schema.arrays import Codes, Integers, Reals


def frames(table: Counts, measured: MeasuredTable | LargeMeasured | None = None) -> dict[str, Frame]:
    """Tables of the release: `cells`, `rollups` with the sums of every declared level, `areas`, and `measurements`."""
    found = {"cells": _cells(table, measured)}
    if any(each.height for each in table.schema.attributes):
        found["rollups"] = _rollups(table, measured)
    if isinstance(measured, LinkedTable):
        found |= linked_frames(table, measured)
    if measured is not None:
        found[MEASUREMENTS] = (
            list_large(measured) if isinstance(measured, LargeMeasured) else list_measurements(measured)
        )
    return found


def _cells(table: Counts, measured: MeasuredTable | LargeMeasured | None) -> Frame:
    """Cells in the order of their codes, which tells nothing: the mechanism published which of them exist."""
    return list_cells(table, None if measured is None else measured.cell_margins(table.columns()))


def list_cells(table: Counts, margins: Margins | None) -> Frame:
    """List cells with their counts, and their margins where there are any."""
    columns = table.columns()
    named = {one.name: coded(one, columns[:, place]) for place, one in enumerate(table.schema.attributes)}
    return Frame({**named, COUNT: table.values, **({} if margins is None else margins.columns)})


def _rollups(table: Counts, measured: MeasuredTable | LargeMeasured | None) -> Frame:
    """Sums by attribute and level, in long form: attribute, level, group, count."""
    levels = [(one, level) for one in table.schema.attributes for level in range(1, one.height + 1)]
    parts = [_rollup(table, one, level, measured) for one, level in levels]
    sizes = [counts.size for _, counts, _ in parts]
    names = np.repeat(np.array([one.name for one, _ in levels], dtype=object), sizes)
    heights = np.repeat(np.array([level for _, level in levels], dtype=np.int64), sizes)
    columns: dict[str, Any] = {
        "attribute": _texts(names),
        "level": heights,
        "group": _texts(np.concatenate([labels for labels, _, _ in parts])),
        COUNT: np.concatenate([counts for _, counts, _ in parts]),
    }
    for name in (UNBIASED, MARGIN) if measured is not None else ():
        columns[name] = np.concatenate([more[name] for _, _, more in parts])
    return Frame(columns)


def _rollup(
    table: Counts, one: Attribute, level: int, measured: MeasuredTable | LargeMeasured | None
) -> tuple[np.ndarray, Integers, dict[str, Reals]]:
    sums = table.project([one.name]).coarsen({one.name: level})
    groups = sums.codes[:, 0]
    labels = sums.schema.attribute(one.name).labels(groups)
    if measured is None or one.hierarchy is None:
        return labels, sums.values, {}
    hierarchy = one.hierarchy
    margins = measured.group_margins(table.schema.names.index(one.name), lambda codes: hierarchy.lift(codes, level))
    return labels, sums.values, {name: values[groups] for name, values in margins.columns.items()}


def _texts(texts: np.ndarray) -> Coded:
    numbers: dict[object, int] = {}
    codes = np.array([numbers.setdefault(text, len(numbers)) for text in texts.tolist()], dtype=np.int64)
    labels = np.empty(len(numbers), dtype=object)
    labels[:] = list(numbers)
    return Coded(codes, labels)


# --- noisy sums -----------------------------------------------------------------------------------------------------


def list_measurements(measured: MeasuredTable) -> Frame:
    """List the noisy sums: level 0 is the number of records; the levels, the last of them the cells, in their order."""
    parts: list[tuple[Integers, Integers]] = [(np.zeros(1, dtype=np.int64), np.array([measured.total]))]
    for cells, noisy in zip(measured.layout.possible_cells, measured.noisy, strict=True):
        held = np.flatnonzero(cells > 0)
        parts.append((held, noisy[held]))
    if isinstance(measured, LinkedTable):  # levels behind the cells: further tables, by group
        parts += [(np.arange(len(sums.noisy)), sums.noisy) for sums in measured.sums]
    if measured.has_crowded:  # or the crowded records
        parts.append((np.zeros(1, dtype=np.int64), np.array([measured.crowded])))
    levels = np.concatenate([np.full(nodes.size, level) for level, (nodes, _) in enumerate(parts)])
    return Frame(
        {
            "level": levels.astype(np.int64),
            "node": np.concatenate([nodes for nodes, _ in parts]),
            "noisy": np.concatenate([noisy for _, noisy in parts]),
        }
    )


# --- maps -----------------------------------------------------------------------------------------------------------


def count_on_map(table: Counts) -> tuple[MeshCells, Codes, Integers] | None:
    """Count people by the cells of the first mesh, all other attributes added up; None without one."""
    for each in table.schema.attributes:
        if isinstance(each.domain, MeshCells):
            by_mesh = table.project([each.name])
            inside = by_mesh.codes[:, 0] < each.domain.size  # missing and other places are not on the map
            return each.domain, by_mesh.codes[inside, 0], by_mesh.values[inside]
    return None


def map_files(
    table: Counts, measured: MeasuredTable | LargeMeasured | None = None
) -> Mapping[str, Callable[[Path], object]]:
    """Files for maps, if an attribute is a mesh: people by mesh cell."""
    on_map = count_on_map(table)
    if on_map is None:
        return {}
    cells, codes, people = on_map
    columns = {COUNT: people, **find_map_margins(table, codes, measured)}
    given: dict[str, Any] = {"cells": cells, "codes": codes, "columns": columns}
    return {"map.geojson": partial(write_geojson, **given), "map.parquet": partial(write_geoparquet, **given)}


def find_map_margins(table: Counts, codes: Codes, measured: MeasuredTable | LargeMeasured | None) -> dict[str, Reals]:
    """Find the margins of mesh cells, all other attributes added up, as columns; none where nothing was measured."""
    if measured is None:
        return {}
    places = [isinstance(each.domain, MeshCells) for each in table.schema.attributes]
    margins = measured.group_margins(places.index(True), lambda mesh: mesh)
    return {name: values[codes] for name, values in margins.columns.items()}
