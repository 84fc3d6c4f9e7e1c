"""Levels above the codes of one attribute: every code has one parent, so levels nest by construction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from sudare.errors import HierarchyError, ParameterError
from sudare.schema.arrays import Codes, Labels
from sudare.schema.mesh import MeshCells
from sudare.schema.raw import MISSING_LABEL, OTHER_LABEL, TOP_LABEL, check_codes, list_some, make_labels, take_labels


class Hierarchy(Protocol):
    """Level 0 holds the codes of the attribute themselves, level `height` is the coarsest."""

    @property
    def height(self) -> int:
        """Count the levels above the codes."""

    def size(self, level: int) -> int:
        """Count the nodes of a level."""

    def lift(self, codes: Codes, level: int) -> Codes:
        """Find the node of a level above each code of level 0."""

    def labels(self, codes: Codes, level: int) -> Labels:
        """Write nodes of a level as texts."""

    def with_branches(self, labels: Sequence[str]) -> Hierarchy:
        """Add codes behind the others, each a branch of its own up to the top, or up to a single "*"."""

    def above(self, level: int) -> Hierarchy | None:
        """Give the levels from this one up; None if there is nothing above it."""


@dataclass(frozen=True, eq=False)
class TableHierarchy:
    """A hierarchy written out: parents[l][node of level l] = node of level l+1; names[l] label the nodes of level l.

    >>> tree = TableHierarchy.from_paths([("a", "vowel", "*"), ("b", "consonant", "*"), ("e", "vowel", "*")])
    >>> tree.height, tree.lift(np.array([0, 1, 2]), 1).tolist(), tree.names[1]
    (2, [0, 1, 0], ('vowel', 'consonant'))
    """

    parents: tuple[Codes, ...]
    names: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", tuple(tuple(level) for level in self.names))
        object.__setattr__(self, "parents", tuple(_freeze(level) for level in self.parents))
        if len(self.names) != len(self.parents) + 1:
            raise HierarchyError(
                "a hierarchy needs names for every level: {names} for {levels} levels",
                names=len(self.names),
                levels=len(self.parents) + 1,
            )
        for level, names in enumerate(self.names):
            if not names or len(set(names)) < len(names):
                raise HierarchyError("level {level} must have labels, all different", level=level)
        for level, parents in enumerate(self.parents):
            used = set(np.unique(parents).tolist())
            if parents.shape != (len(self.names[level]),) or used != set(range(len(self.names[level + 1]))):
                raise HierarchyError(
                    "level {level} has a hole: every node needs one parent, every parent a child", level=level
                )

    @classmethod
    def from_paths(cls, paths: Sequence[Sequence[str]]) -> TableHierarchy:
        """Build a hierarchy from one path of labels a code: its own label, then upwards.

        Nodes are numbered as met, "(other)" and "(missing)" behind the others.

        Error: HierarchyError if paths differ in length, hold an empty label, repeat a value or do not nest.
        """
        lengths = {len(path) for path in paths}
        if len(lengths) != 1 or 0 in lengths:
            raise HierarchyError("all values need the same number of levels, at least one")
        columns = list(zip(*paths, strict=True))
        for level, column in enumerate(columns):
            if not all(column):
                raise HierarchyError("level {level} has a hole: an empty label; fill it in", level=level)
        if len(set(columns[0])) < len(paths):
            raise HierarchyError("a value has two rows in the hierarchy; keep one")
        return cls._from_columns(columns)

    @classmethod
    def _from_columns(cls, columns: Sequence[Sequence[str]]) -> TableHierarchy:
        names = [tuple(columns[0]), *(tuple(sorted(dict.fromkeys(column), key=_rank_label)) for column in columns[1:])]
        parents = []
        for level in range(len(columns) - 1):
            above = _map_upwards(columns[level], columns[level + 1], level)
            position = {name: code for code, name in enumerate(names[level + 1])}
            parents.append(np.array([position[above[name]] for name in names[level]], dtype=np.int64))
        return cls(parents=tuple(parents), names=tuple(names))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TableHierarchy):
            return NotImplemented
        return self.names == other.names and all(map(np.array_equal, self.parents, other.parents))

    def __hash__(self) -> int:
        return hash((self.names, tuple(level.tobytes() for level in self.parents)))

    @property
    def height(self) -> int:
        """Count the levels above the codes."""
        return len(self.parents)

    def size(self, level: int) -> int:
        """Count the nodes of a level."""
        return len(self.names[check_level(level, self.height)])

    @cached_property
    def _lifts(self) -> list[Codes]:
        """For every level, the node above each code of level 0."""
        lifts = [np.arange(len(self.names[0]), dtype=np.int64)]
        for parents in self.parents:
            lifts.append(parents[lifts[-1]])
        return lifts

    @cached_property
    def _labels(self) -> list[Labels]:
        return [make_labels(names) for names in self.names]

    def lift(self, codes: Codes, level: int) -> Codes:
        """Find the node of a level above each code of level 0."""
        lifted: Codes = self._lifts[check_level(level, self.height)][check_codes(codes, self.size(0))]
        return lifted

    def labels(self, codes: Codes, level: int) -> Labels:
        """Write nodes of a level as texts."""
        return take_labels(self._labels[check_level(level, self.height)], codes)

    def with_branches(self, labels: Sequence[str]) -> TableHierarchy:
        """Add codes behind the others, each a branch of its own up to the top, or up to a single "*".

        >>> TableHierarchy.from_paths([("a", "*"), ("b", "*")]).with_branches(["(missing)"]).parents[0].tolist()
        [0, 0, 0]
        """
        joins_top = self.height > 0 and self.names[-1] == (TOP_LABEL,)
        parents, names = [], [(*self.names[0], *labels)]
        for level, above in zip(self.parents, self.names[1:], strict=True):
            is_top = joins_top and len(names) == self.height
            extra = np.zeros(len(labels)) if is_top else len(above) + np.arange(len(labels))
            parents.append(np.concatenate([level, extra.astype(np.int64)]))
            names.append(above if is_top else (*above, *labels))
        return TableHierarchy(parents=tuple(parents), names=tuple(names))

    def above(self, level: int) -> TableHierarchy | None:
        """Give the levels from this one up; None if there is nothing above it."""
        check_level(level, self.height)
        if level == self.height:
            return None
        return TableHierarchy(parents=self.parents[level:], names=self.names[level:])


@dataclass(frozen=True)
class MeshHierarchy:
    """The coarser levels of a mesh, by arithmetic, and "*" on top; `branches` are codes behind the cells.

    >>> tree = MeshHierarchy(MeshCells(level=3, area=("5339", "5340")))
    >>> tree.height, [tree.size(level) for level in range(4)]
    (3, [12800, 128, 2, 1])
    """

    cells: MeshCells
    branches: tuple[str, ...] = ()

    @property
    def height(self) -> int:
        """Count the levels above the codes: all coarser mesh levels and the top."""
        return self.cells.level

    @cached_property
    def _levels(self) -> list[MeshCells]:
        return [self.cells.coarse(self.cells.level - level) for level in range(self.height)]

    def size(self, level: int) -> int:
        """Count the nodes of a level."""
        is_top = check_level(level, self.height) == self.height
        return 1 if is_top else self._levels[level].size + len(self.branches)

    def lift(self, codes: Codes, level: int) -> Codes:
        """Find the node of a level above each code of level 0."""
        codes = check_codes(codes, self.size(0))
        if check_level(level, self.height) == self.height:
            return np.zeros_like(codes)
        is_cell = codes < self.cells.size
        lifted = codes - self.cells.size + self._levels[level].size
        lifted[is_cell] = self.cells.lift(codes[is_cell], self.cells.level - level)
        return lifted

    def labels(self, codes: Codes, level: int) -> Labels:
        """Write nodes of a level as mesh codes, branches as they are called, the top as "*"."""
        codes = check_codes(codes, self.size(level))
        if level == self.height:
            return take_labels(make_labels([TOP_LABEL]), codes)
        cells = self._levels[level]
        labels = np.empty(codes.shape, dtype=np.object_)
        labels[codes < cells.size] = cells.labels(codes[codes < cells.size])
        for index, branch in enumerate(self.branches):
            labels[codes == cells.size + index] = branch
        return labels

    def with_branches(self, labels: Sequence[str]) -> MeshHierarchy:
        """Add codes behind the cells; they join the top."""
        return MeshHierarchy(self.cells, (*self.branches, *labels))

    def above(self, level: int) -> Hierarchy | None:
        """Give the levels from this one up; None if there is nothing above it."""
        check_level(level, self.height)
        return None if level == self.height else MeshHierarchy(self._levels[level], self.branches)


def check_level(level: int, height: int) -> int:
    """Refuse a level that a hierarchy does not have.

    >>> check_level(1, 2)
    1
    """
    if not 0 <= level <= height:
        raise ParameterError("level ({level}) must be between 0 and {height}", level=level, height=height)
    return level


def _rank_label(label: str) -> int:
    return (OTHER_LABEL, MISSING_LABEL).index(label) + 1 if label in (OTHER_LABEL, MISSING_LABEL) else 0


def _freeze(codes: Codes) -> Codes:
    codes = np.array(codes, dtype=np.int64)
    codes.flags.writeable = False
    return codes


def _map_upwards(lower: Sequence[str], upper: Sequence[str], level: int) -> dict[str, str]:
    """Map labels to the labels above them; HierarchyError if one label has two parents."""
    above: dict[str, str] = {}
    split: dict[str, None] = {}
    for name, parent in zip(lower, upper, strict=True):
        if above.setdefault(name, parent) != parent:
            split[name] = None
    if split:
        raise HierarchyError(
            "levels do not nest: on level {level} {shown} lies under two labels of level {above}; rename one of them",
            level=level,
            shown=list_some(list(split)),
            above=level + 1,
        )
    return above
