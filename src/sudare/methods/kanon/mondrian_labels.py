"""What the values of a Mondrian class are called: a range, or the groups and values that it spans."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sudare.schema import Attribute
from sudare.schema.domain import binned
from sudare.schema.labels import TOP_LABEL

Codes = NDArray[np.int64]
Labels = NDArray[np.object_]

MOST_ORDERED = 1 << 20  # codes whose order along the hierarchy is worked out; beyond, the codes themselves


@dataclass(frozen=True, eq=False)
class Line:
    """The values of an attribute on a line: declared order if it has one, else neighbours in the hierarchy.

    "(other)" and "(missing)" stand behind the declared values of an ordered attribute.

    >>> from sudare.schema import NumberBins
    >>> line = Line(Attribute(name="age", domain=NumberBins.of_width(0, 100, 10), missing=True))
    >>> line.label(2, 4, ()), line.label(2, 2, (10,)), line.label(0, 9, (10,))
    ('[20,50)', '[20,30)|(missing)', '*')
    """

    attribute: Attribute

    @cached_property
    def order(self) -> Codes | None:
        """The codes along the line; None if they stand as they are."""
        attribute = self.attribute
        hierarchy = attribute.hierarchy
        if attribute.is_ordered or hierarchy is None or attribute.size > MOST_ORDERED:
            return None
        codes = np.arange(attribute.size)
        return np.lexsort([codes, *(hierarchy.lift(codes, level) for level in range(1, hierarchy.height + 1))])

    @cached_property
    def _place(self) -> Codes | None:
        if self.order is None:
            return None
        place = np.empty(len(self.order), dtype=np.int64)
        place[self.order] = np.arange(len(self.order))
        return place

    @property
    def declared(self) -> int:
        """Count the places that a range may run over; places behind stand by themselves."""
        return self.attribute.domain.size if self.order is None else self.attribute.size

    def places(self, codes: Codes) -> Codes:
        """Find the places of codes."""
        return codes if self._place is None else self._place[codes]

    def spans(self, places: Codes, part_of: Codes, count: int) -> tuple[Labels, Codes]:
        """Label every part by the places it holds, and count the values that the label stands for."""
        low, high = np.full(count, self.attribute.size), np.full(count, -1)
        inside = places < self.declared
        np.minimum.at(low, part_of[inside], places[inside])
        np.maximum.at(high, part_of[inside], places[inside])
        apart: dict[int, set[int]] = {}
        for part, place in np.unique(np.column_stack([part_of[~inside], places[~inside]]), axis=0).tolist():
            apart.setdefault(part, set()).add(place)
        keys = [(int(low[p]), int(high[p]), tuple(sorted(apart.get(p, ())))) for p in range(count)]
        known = {key: self.label(*key) for key in set(keys)}
        labels = np.array([known[key] for key in keys], dtype=np.object_)
        spread = np.maximum(high - low + 1, 0) + np.array([len(key[2]) for key in keys], dtype=np.int64)
        return labels, spread

    def label(self, low: int, high: int, behind: tuple[int, ...]) -> str | None:
        """Name the places from low to high (none if high < low), and those behind; None is a missing value alone."""
        count = max(high - low + 1, 0)
        if count + len(behind) == self.attribute.size and self.attribute.size > 1:
            return TOP_LABEL
        if count + len(behind) == 1:
            return self._one(low if count else behind[0])
        texts = [self._range(low, high)] if count else []
        return "|".join([*texts, *(self._text(place) for place in behind)])

    def _one(self, place: int) -> str | None:
        code = place if self.order is None else int(self.order[place])
        text: str | None = self.attribute.labels(np.array([code]))[0]
        return text

    def _text(self, place: int) -> str:
        return self._one(place) or "(missing)"

    def _range(self, low: int, high: int) -> str:
        if low == high:
            return self._text(low)
        if bins := binned(self.attribute.domain):
            starts = sorted({0, low, *([high + 1] if high + 1 < bins.size else [])})
            merged = bins.merged(starts)
            return str(merged.labels(np.array([starts.index(low)]))[0])
        if self.attribute.is_ordered:
            return f"{self._text(low)}..{self._text(high)}"
        return "|".join(self._groups(low, high))

    def _groups(self, low: int, high: int) -> list[str]:
        """The largest groups of the hierarchy that lie inside the range, and the values that are left."""
        hierarchy, texts, place = self.attribute.hierarchy, [], low
        while place <= high:
            level, end = (0, place) if hierarchy is None else self._widest(place, high)
            if hierarchy is None or level == 0:
                texts.append(self._text(place))
            else:
                node = hierarchy.lift(np.array([place if self.order is None else self.order[place]]), level)
                texts.append(str(hierarchy.labels(node, level)[0]))
            place = end + 1
        return texts

    def _widest(self, place: int, high: int) -> tuple[int, int]:
        """The highest level whose group begins at a place and ends by `high`, and where it ends."""
        found = (0, place)
        for level in range(1, self.attribute.height + 1):
            nodes = self._nodes(level)
            first = int(np.searchsorted(nodes, nodes[place], side="left"))
            last = int(np.searchsorted(nodes, nodes[place], side="right")) - 1
            if first == place and found[1] < last <= high:
                found = (level, last)
        return found

    def _nodes(self, level: int) -> Codes:
        """The groups of a level along the line, numbered in the order they are met."""
        hierarchy, order = self.attribute.hierarchy, self.order
        codes = np.arange(self.attribute.size) if order is None else order
        lifted = codes if hierarchy is None else hierarchy.lift(codes, level)
        return np.cumsum(np.diff(lifted, prepend=lifted[:1]) != 0)
