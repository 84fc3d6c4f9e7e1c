"""The tree over a table: attributes in their order, each opened level by level from its coarsest group."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from sudare.schema import Attribute, Schema

Codes = NDArray[np.int64]
Number = TypeVar("Number", np.float64, np.int64)

NEIGHBOURS = 10  # an ordered attribute without hierarchy is grouped by tens of neighbouring codes


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Stage:
    """One step down: the children of `parents`, the same within every one of `prefixes` cells of earlier attributes.

    `parents[child]` is the local code of its parent; `is_long` marks a long row without order among its children.
    """

    prefixes: int
    parents: Codes
    is_long: bool

    @property
    def children(self) -> int:
        """Local number of children."""
        return int(self.parents.size)

    @property
    def groups(self) -> int:
        """Local number of parents."""
        return int(self.parents.max()) + 1

    def rows(self) -> list[Codes]:
        """Children by parent, in tables of rows of similar length, padded with -1 (at most to double)."""
        order = np.argsort(self.parents, kind="stable")
        fan = np.bincount(self.parents)
        starts = np.cumsum(fan) - fan
        classes = np.ceil(np.log2(np.maximum(fan, 1))).astype(np.int64)
        return [_padded(order, starts[classes == one], fan[classes == one]) for one in np.unique(classes)]

    def add_up(self, values: NDArray[Number]) -> NDArray[Number]:
        """Sum children to their parents: (prefixes, children) -> (prefixes, groups); whole numbers stay whole."""
        order = np.argsort(self.parents, kind="stable")
        starts = np.searchsorted(self.parents[order], np.arange(self.groups))
        sums: NDArray[Number] = np.add.reduceat(values[:, order], starts, axis=1)
        return sums


LONG_ROW = 48


def stages(schema: Schema) -> list[Stage]:
    """List the steps from the whole table to its cells.

    >>> from sudare.schema import Unit, Values
    >>> item = Attribute(name="item", domain=Values(values=tuple(map(str, range(100))), is_ordered=True))
    >>> sex = Attribute(name="sex", domain=Values(values=("F", "M")))
    >>> [stage.children for stage in stages(Schema(name="s", unit=Unit(), attributes=(item, sex)))]
    [10, 100, 2]
    """
    found: list[Stage] = []
    prefixes = 1
    for attribute in schema.attributes:
        for parents in reversed(_climb(attribute)):
            longest = int(np.bincount(parents).max())
            found.append(
                Stage(prefixes=prefixes, parents=parents, is_long=longest >= LONG_ROW and not attribute.is_ordered)
            )
        prefixes *= attribute.size
    return [stage for stage in found if stage.children > stage.groups]


def _climb(attribute: Attribute) -> list[Codes]:
    """Parents of the codes at every level, from the values up to one group."""
    steps = _declared(attribute) if attribute.hierarchy is not None else []
    size = int(steps[-1].max()) + 1 if steps else attribute.size
    while attribute.is_ordered and size > NEIGHBOURS:
        steps.append(np.arange(size, dtype=np.int64) // NEIGHBOURS)
        size = int(steps[-1][-1]) + 1
    if size > 1:
        steps.append(np.zeros(size, dtype=np.int64))
    return steps


def _declared(attribute: Attribute) -> list[Codes]:
    """Local parents along the declared hierarchy; groups are numbered as the hierarchy numbers them."""
    hierarchy = attribute.hierarchy
    if hierarchy is None:
        return []
    values = np.arange(attribute.size, dtype=np.int64)
    levels = [values, *(hierarchy.lift(values, level) for level in range(1, hierarchy.height + 1))]
    return [_parents(finer, coarser) for finer, coarser in itertools.pairwise(levels)]


def _parents(finer: Codes, coarser: Codes) -> Codes:
    parents = np.empty(int(finer.max()) + 1, dtype=np.int64)
    parents[finer] = coarser
    return parents


def _padded(order: Codes, starts: Codes, fan: Codes) -> Codes:
    places = starts[:, None] + np.arange(int(fan.max()))
    inside = np.arange(int(fan.max())) < fan[:, None]
    return np.where(inside, order[np.minimum(places, order.size - 1)], -1)
