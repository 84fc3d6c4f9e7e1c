"""A table of counts that is known exactly, to be asked like a release: what SQL means, without any noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date

import numpy as np

from sudare.asking.protocol import AttributeCells, Moments, WeightBox, bins_as_cells
from sudare.schema import Attribute, DateBins, NumberBins, Schema, Values
from sudare.schema.arrays import Reals


@dataclass(eq=False)
class ExactTable:
    """Counts of every combination of cells; inside of a cell records are spread evenly over its values."""

    schema: Schema
    counts: Reals  # one axis for each attribute
    deviation: float = 0.0  # of every count's noise, for tests of intervals
    known: dict[int, AttributeCells] = field(default_factory=dict)

    def cells(self, attribute: int) -> AttributeCells:
        if attribute not in self.known:
            self.known[attribute] = bins_as_cells(self.schema.attributes[attribute])
        return self.known[attribute]

    def moments(self, boxes: Sequence[WeightBox]) -> Moments:
        weights = np.zeros(self.counts.shape)
        for box in boxes:
            product = np.ones(())
            for place, weight in box.items():
                shape = [-1 if axis == place else 1 for axis in range(self.counts.ndim)]
                product = product * weight.mean.reshape(shape)
            weights = weights + np.broadcast_to(product, self.counts.shape)
        return Moments(
            value=float((weights * self.counts).sum()), noise=float((weights**2).sum()) * self.deviation**2, model=0.0
        )


SCHEMA = Schema(
    name="people",
    attributes=(
        Attribute(name="age", domain=NumberBins.of_width(0, 24, 6)),
        Attribute(name="sex", domain=Values(("F", "M")), missing=True),
        Attribute(name="job", domain=Values(("none", "part", "full"), is_ordered=True)),
        Attribute(name="day", domain=DateBins.of_width("2023-12-30", "2024-01-04", "3 days"), missing=True),
        Attribute(name="pay", domain=NumberBins.of_width(-4, 4, 4)),
    ),
)


def values_of(attribute: Attribute, code: int) -> list[object]:
    """The values that lie in a code, each as likely as the others."""
    domain = attribute.domain
    if code == attribute.missing_code:
        return [None]
    if isinstance(domain, Values):
        return [domain.values[code]]
    cells = bins_as_cells(attribute)
    low, high = (int(edge) for edge in cells.edges[code : code + 2])
    numbers = range(low, high)
    return [date.fromordinal(number) for number in numbers] if isinstance(domain, DateBins) else list(numbers)


def make_records(seed: int, *, empty: float = 0.5) -> tuple[ExactTable, list[tuple[object, ...]]]:
    """A table of whole counts, and its records one by one: every value of a bin occurs equally often with all else."""
    rng = np.random.default_rng(seed)
    sizes = [attribute.size for attribute in SCHEMA.attributes]
    present = rng.random(sizes) > empty
    blocks = present * rng.integers(1, 3, sizes)
    counts = np.zeros(sizes)
    records: list[tuple[object, ...]] = []
    for cell in np.ndindex(*sizes):
        times = int(blocks[cell])
        if not times:
            continue
        lists = [values_of(attribute, code) for attribute, code in zip(SCHEMA.attributes, cell, strict=True)]
        counts[cell] = times * math.prod(map(len, lists))
        mesh = np.indices([len(values) for values in lists]).reshape(len(lists), -1).T.tolist()
        for places in mesh:
            records += [tuple(values[place] for values, place in zip(lists, places, strict=True))] * times
    return ExactTable(SCHEMA, counts), records
