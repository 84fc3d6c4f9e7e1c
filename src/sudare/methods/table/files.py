"""What is published of a table: its cells, the sums of every declared level, and maps where there is a mesh."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import numpy as np

from sudare.counts import Counts
from sudare.methods.labels import coded
from sudare.releases import Coded, Frame
from sudare.releases.geo import write_geojson, write_geoparquet
from sudare.schema import Attribute, MeshCells

COUNT = "count"


def frames(table: Counts) -> dict[str, Frame]:
    """Tables of the release: `cells` with decoded columns, `rollups` with the sums of every declared level."""
    found = {"cells": _cells(table)}
    if any(each.height for each in table.schema.attributes):
        found["rollups"] = _rollups(table)
    return found


def map_files(table: Counts) -> Mapping[str, Callable[[Path], object]]:
    """Files for maps, if an attribute is a mesh: people by mesh cell, all other attributes added up."""
    for each in table.schema.attributes:
        if isinstance(each.domain, MeshCells):
            by_mesh = table.project([each.name])
            inside = by_mesh.codes[:, 0] < each.domain.size  # missing and other places are not on the map
            codes, counts = by_mesh.codes[inside, 0], by_mesh.values[inside]
            given = {"cells": each.domain, "codes": codes, "columns": {COUNT: counts}}
            return {
                "map.geojson": partial(write_geojson, **given),
                "map.parquet": partial(write_geoparquet, **given),
            }
    return {}


def _cells(table: Counts) -> Frame:
    """Cells in the order of their codes, which tells nothing: the mechanism published which of them exist."""
    columns = table.columns()
    named = {one.name: coded(one, columns[:, place]) for place, one in enumerate(table.schema.attributes)}
    return Frame({**named, COUNT: table.values})


def _rollups(table: Counts) -> Frame:
    """Sums by attribute and level, in long form: attribute, level, group, count."""
    parts = [_rollup(table, one, level) for one in table.schema.attributes for level in range(1, one.height + 1)]
    names, levels, groups, counts = (np.concatenate(each) for each in zip(*parts, strict=True))
    return Frame({"attribute": _texts(names), "level": levels, "group": _texts(groups), COUNT: counts})


def _rollup(table: Counts, one: Attribute, level: int) -> tuple[np.ndarray, ...]:
    sums = table.project([one.name]).coarsen({one.name: level})
    labels = sums.schema.attribute(one.name).labels(sums.codes[:, 0])
    size = sums.nonzero
    return np.full(size, one.name, dtype=object), np.full(size, level), labels, sums.values


def _texts(texts: np.ndarray) -> Coded:
    numbers: dict[object, int] = {}
    codes = np.array([numbers.setdefault(text, len(numbers)) for text in texts.tolist()], dtype=np.int64)
    labels = np.empty(len(numbers), dtype=object)
    labels[:] = list(numbers)
    return Coded(codes, labels)
