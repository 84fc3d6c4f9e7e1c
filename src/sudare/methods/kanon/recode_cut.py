"""A cut through a hierarchy: every value at a level of its own. One level for all values is the full-domain case."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sudare.schema import Attribute

Codes = NDArray[np.int64]
Labels = NDArray[np.object_]

MOST_KNOWN = 1 << 20  # of a larger attribute only the codes that occur are known
MOST_LISTED = 10_000  # groups in an exported mapping


@dataclass(frozen=True, kw_only=True, eq=False)
class Cut:
    """The level of every known code of an attribute.

    Where some codes of a group stand by themselves at a lower level, the label of the group is left for the rest.

    >>> from sudare.schema import TableHierarchy, Values
    >>> tree = TableHierarchy.from_paths([("10", "10s", "*"), ("11", "10s", "*"), ("20", "20s", "*")])
    >>> age = Attribute(name="age", domain=Values(("10", "11", "20")), hierarchy=tree)
    >>> cut = Cut(attribute=age, codes=np.arange(3), levels=np.array([1, 1, 0]))
    >>> cut.labels(np.arange(3)).tolist(), cut.spread(np.arange(3)).tolist()
    (['10s', '10s', '20'], [2, 2, 1])
    """

    attribute: Attribute
    codes: Codes
    levels: Codes

    @classmethod
    def at(cls, attribute: Attribute, level: int, present: Codes) -> Cut:
        """Put every code at one level. `present` are the codes that occur."""
        known = np.arange(attribute.size) if attribute.size <= MOST_KNOWN else np.unique(present)
        return cls(attribute=attribute, codes=known, levels=np.full(len(known), level, dtype=np.int64))

    @cached_property
    def offsets(self) -> Codes:
        """Where the numbers of the groups of each level begin."""
        sizes = [self._size(level) for level in range(self.attribute.height + 1)]
        return np.cumsum([0, *sizes[:-1]], dtype=np.int64)

    def _size(self, level: int) -> int:
        hierarchy = self.attribute.hierarchy
        return self.attribute.size if hierarchy is None else hierarchy.size(level)

    def lift(self, codes: Codes, level: int) -> Codes:
        """Find the group of codes at a level."""
        hierarchy = self.attribute.hierarchy
        return codes if level == 0 or hierarchy is None else hierarchy.lift(codes, level)

    def level_of(self, codes: Codes) -> Codes:
        """Find the level of known codes."""
        is_whole = len(self.codes) == self.attribute.size  # then a code is its own place
        found: Codes = self.levels[codes if is_whole else np.searchsorted(self.codes, codes)]
        return found

    def groups(self, codes: Codes) -> Codes:
        """Number the group of every code; groups of different levels have different numbers."""
        return self._by_level(codes, lambda level, lifted: lifted + self.offsets[level]).astype(np.int64)

    def labels(self, codes: Codes) -> Labels:
        """Write codes as the labels of their groups; a missing value by itself is None."""
        found = self._by_level(codes, lambda level, lifted: self.attribute.coarsen(level).labels(lifted), object)
        return np.asarray(found, dtype=np.object_)

    def spread(self, codes: Codes) -> Codes:
        """Count the declared values that the group of every code stands for."""
        return self._by_level(codes, lambda level, lifted: self.leaves(level)[lifted]).astype(np.int64)

    def leaves(self, level: int) -> Codes:
        """Count the codes of every group of a level."""
        if level == 0:
            return np.ones(self._size(0), dtype=np.int64)
        if self.attribute.size > MOST_KNOWN:  # a mesh: all groups of a level are alike
            return np.full(self._size(level), max(1, self.attribute.size // self._size(level)), dtype=np.int64)
        return np.bincount(self.lift(np.arange(self.attribute.size), level), minlength=self._size(level))

    def _by_level(self, codes: Codes, value: Any, kind: Any = np.int64) -> NDArray[Any]:
        levels = self.level_of(codes)
        found = np.empty(len(codes), dtype=kind)
        for level in np.unique(levels).tolist():
            here = levels == level
            found[here] = value(level, self.lift(codes[here], level))
        return found

    def lowered(self, child: int, level: int) -> Cut:
        """Let one group of the level below stand by itself: its codes that are at `level` go one lower."""
        levels = self.levels.copy()
        levels[(levels == level) & (self.lift(self.codes, level - 1) == child)] = level - 1
        return Cut(attribute=self.attribute, codes=self.codes, levels=levels)

    def mapping(self) -> dict[str, Any]:
        """What may be published: the level, or the groups of values and the level of each."""
        levels = np.unique(self.levels).tolist()
        if len(levels) == 1:
            return {"level": int(levels[0])}
        numbers, first = np.unique(self.groups(self.codes), return_index=True)
        if len(numbers) > MOST_LISTED or self.attribute.size > MOST_KNOWN:
            return {"levels": [int(level) for level in levels]}
        texts, tops = self.labels(self.codes[first]).tolist(), self.levels[first].tolist()
        members = np.unique(self.groups(self.codes), return_counts=True)[1]
        is_rest = members < self.spread(self.codes[first])
        return {
            "groups": [
                {"label": text, "level": int(level), **({"rest": True} if rest else {})}
                for text, level, rest in zip(texts, tops, is_rest.tolist(), strict=True)
            ]
        }
