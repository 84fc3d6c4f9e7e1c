"""Records of a view as plain columns, for questions that have no intervals: numbers, days and texts with one weight."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sudare.methods.view.leaves import LeafAxis
from sudare.methods.view.opened import OpenedView
from sudare.noise import Rng
from sudare.noise.public import draw_offsets
from sudare.schema import Attribute, DateBins, NumberBins
from sudare.schema.arrays import Codes, Reals

MOST_RECORDS = 1_000_000
FINENESS = 2**20  # parts of a leaf without a grain, one of which is drawn
WEIGHT = "weight"  # of every record: how many records of the table it stands for


def record_columns(view: OpenedView, *, rng: Rng, size: int | None = None) -> dict[str, NDArray[Any]]:
    """Draw records (as many as there are, at most a million), numbers and days somewhere inside of their leaf."""
    total = max(view.stored.total, 0.0)
    count = min(MOST_RECORDS, max(1, round(total))) if size is None else size
    leaves = list(view.leaf_records(count, rng=rng))
    table = np.concatenate(leaves) if leaves else np.empty((0, len(view.schema.attributes)), dtype=np.int64)
    columns: dict[str, NDArray[Any]] = {}
    for place, attribute in enumerate(view.schema.attributes):
        columns[attribute.name] = _values(attribute, view.stored.axes[place], table[:, place], rng)
    weight = WEIGHT
    while weight.casefold() in {name.casefold() for name in columns}:
        weight += "_"
    columns[weight] = np.full(len(table), total / max(1, count))
    return columns


def _values(attribute: Attribute, axis: LeafAxis, leaves: Codes, rng: Rng) -> NDArray[Any]:
    if not isinstance(attribute.domain, NumberBins | DateBins):
        return np.asarray(attribute.labels(axis.codes[leaves]), dtype=object)
    inside = np.minimum(leaves, axis.counted - 1)
    starts, stops = axis.starts[inside], axis.stops[inside]
    if axis.grain is None:
        parts = draw_offsets(np.full((len(leaves), 1), FINENESS), rng=rng)[:, 0]
        numbers: Reals = starts + (stops - starts) * (parts + 0.5) / FINENESS
    else:
        grain = float(axis.grain)
        first = np.ceil(starts / grain - 1e-9)
        count = np.maximum(np.ceil(stops / grain - 1e-9) - first, 1.0).astype(np.int64)
        numbers = np.asarray((first + draw_offsets(count[:, None], rng=rng)[:, 0]) * grain, dtype=np.float64)
    numbers = np.where(leaves < axis.counted, numbers, math.nan).astype(np.float64)
    if isinstance(attribute.domain, DateBins):
        days = (np.nan_to_num(numbers, nan=0.0) - 719_163).astype(np.int64).astype("datetime64[D]")
        return np.where(np.isnan(numbers), np.datetime64("NaT"), days)
    return numbers
