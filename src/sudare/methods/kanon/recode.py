"""A table of counts as it will be published: which rows look alike, and what each value is called."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sudare.counts import Counts
from sudare.counts.relabelling import LEFT_OUT, Relabelling
from sudare.methods.kanon.criteria import Criterion, all_hold
from sudare.methods.kanon.grouping import grouped
from sudare.methods.kanon.lattice import Node
from sudare.methods.kanon.problem import Problem
from sudare.methods.kanon.tuples import Classes, Joint, Tuples
from sudare.schema import Attribute
from sudare.schema.arrays import Codes, Labels, Reals


@dataclass(frozen=True, kw_only=True, eq=False)
class Pieces:
    """Distinct combinations of quasi-identifiers and sensitive attributes, with how many rows each stands for.

    A combination may stand in several pieces, where its rows go to different classes.
    """

    attributes: tuple[Attribute, ...]
    quasi: int  # so many of the attributes, the first ones, are quasi-identifiers
    codes: Codes  # (pieces, attributes)
    weights: Codes

    @classmethod
    def of(cls, counts: Counts, quasi: Sequence[str], sensitive: Sequence[str] = ()) -> Pieces:
        """Read counts over (at least) these attributes.

        >>> from sudare.schema import Schema, Values
        >>> sex = Attribute(name="sex", domain=Values(("F", "M")))
        >>> counts = Counts.from_columns(Schema(name="s", attributes=(sex,)), [[0], [1], [1]])
        >>> Pieces.of(counts, ["sex"]).weights.tolist()
        [1, 2]
        """
        chosen = counts.project([*quasi, *sensitive])
        return cls(
            attributes=chosen.schema.attributes,
            quasi=len(quasi),
            codes=chosen.columns(),
            weights=np.asarray(chosen.values, dtype=np.int64),
        )

    def __repr__(self) -> str:
        return f"<Pieces over {', '.join(self.names)}>"

    @property
    def names(self) -> tuple[str, ...]:
        """Name the attributes, quasi-identifiers first."""
        return tuple(attribute.name for attribute in self.attributes)

    @property
    def rows(self) -> int:
        """Count the rows."""
        return int(self.weights.sum())

    def take(self, chosen: NDArray[Any], weights: Codes | None = None) -> Pieces:
        """Keep some pieces, with other weights if they are cut."""
        kept = self.weights[chosen] if weights is None else weights
        return Pieces(attributes=self.attributes, quasi=self.quasi, codes=self.codes[chosen], weights=kept)

    def tuples(self, class_of: Codes | None = None) -> Tuples:
        """Give the pieces as tuples of a search; with classes, only those that are in one."""
        kept = self if class_of is None else self.take(class_of != LEFT_OUT)
        places = np.arange(len(kept.weights), dtype=np.int64)
        joints = {
            attribute.name: Joint(
                attribute=attribute, tuple_of=places, value=kept.codes[:, kept.quasi + at], weight=kept.weights
            )
            for at, attribute in enumerate(kept.attributes[kept.quasi :])
        }
        return Tuples(
            attributes=kept.attributes[: kept.quasi],
            codes=kept.codes[:, : kept.quasi],
            weights=kept.weights,
            joints=joints,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Recoded:
    """The outcome of a recoding. Private: it stays with the steward, who writes the table with `relabelling`.

    `class_of[p]` is the class of a piece, LEFT_OUT where its rows are not published; `spread[p, q]` tells how many
    declared values the label of a quasi-identifier stands for. `mapping` is what may be published of the recoding:
    levels and groups of values, no combination.
    """

    pieces: Pieces
    class_of: Codes
    spread: Codes
    relabelling: Relabelling
    mapping: Mapping[str, Any] = field(default_factory=dict)

    @property
    def class_sizes(self) -> Codes:
        """Count the rows of every class."""
        kept = self.class_of != LEFT_OUT
        return np.bincount(self.class_of[kept], weights=self.pieces.weights[kept]).astype(np.int64)

    @property
    def left_out(self) -> int:
        """Count the rows that are not published."""
        return int(self.pieces.weights[self.class_of == LEFT_OUT].sum())

    def coarseness(self) -> dict[str, float]:
        """Tell how much of its attribute a published value stands for, on average: 0 one value, 1 all of them.

        Of the published rows alone, so that whoever has the release can compute it too.
        """
        pieces, kept = self.pieces, self.class_of != LEFT_OUT
        weights = pieces.weights[kept].astype(np.float64)
        rows = max(1.0, float(weights.sum()))
        found = {}
        for axis, attribute in enumerate(pieces.attributes[: pieces.quasi]):
            others = (self.spread[kept, axis] - 1) / max(1, attribute.size - 1)
            found[attribute.name] = round(float((others * weights).sum()) / rows, 4)
        return found


def class_numbers(columns: Codes) -> Codes:
    """Number rows of codes (m, d) by equality: 0, 1, ...

    >>> class_numbers(np.array([[1, 5], [0, 2], [1, 5]])).tolist()
    [1, 0, 1]
    """
    rank, places = np.zeros(len(columns), dtype=np.int64), 1
    for column in columns.T:
        size = 1 + int(column.max(initial=0))
        if places > 2**62 // size:
            column, size = np.unique(column, return_inverse=True)[1].reshape(-1), len(columns)
        found = grouped(rank * size + column, places * size)
        rank, places = found.ids, max(1, found.count)
    return np.asarray(rank, dtype=np.int64)


# A cut through a hierarchy: every value at a level of its own. One level for all values is the full-domain case.


MOST_KNOWN = 1 << 20  # of a larger attribute only the codes that occur are known
MOST_LISTED = 10_000  # groups in an exported mapping


@dataclass(frozen=True, kw_only=True, eq=False)
class HierarchyCut:
    """The level of every known code of an attribute.

    Where some codes of a group stand by themselves at a lower level, the label of the group is left for the rest.

    >>> from sudare.schema import TableHierarchy, Values
    >>> tree = TableHierarchy.from_paths([("10", "10s", "*"), ("11", "10s", "*"), ("20", "20s", "*")])
    >>> age = Attribute(name="age", domain=Values(("10", "11", "20")), hierarchy=tree)
    >>> cut = HierarchyCut(attribute=age, codes=np.arange(3), levels=np.array([1, 1, 0]))
    >>> cut.labels(np.arange(3)).tolist(), cut.spread(np.arange(3)).tolist()
    (['10s', '10s', '20'], [2, 2, 1])
    """

    attribute: Attribute
    codes: Codes
    levels: Codes

    @classmethod
    def at(cls, attribute: Attribute, level: int, present: Codes) -> HierarchyCut:
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

    def lowered(self, child: int, level: int) -> HierarchyCut:
        """Let one group of the level below stand by itself: its codes that are at `level` go one lower."""
        levels = self.levels.copy()
        levels[(levels == level) & (self.lift(self.codes, level - 1) == child)] = level - 1
        return HierarchyCut(attribute=self.attribute, codes=self.codes, levels=levels)

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


# Which classes keep all criteria, for classes that are no node of the lattice.


ClassCheck = Callable[[Pieces, Codes, int], NDArray[np.bool_]]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _PartOfTable(Joint):
    """Sensitive values of a part of the table; closeness is measured against the whole of it."""

    whole: Reals

    @property
    def shares(self) -> Reals:
        """Give the share of every value in the whole table."""
        return self.whole


def shares_of(pieces: Pieces) -> dict[str, Reals]:
    """Give the share of every value of each sensitive attribute."""
    joints = pieces.tuples().joints
    return {name: joint.shares for name, joint in joints.items()}


def part_of_table(pieces: Pieces, shares: Mapping[str, Reals]) -> Tuples:
    """Give pieces as tuples of a search whose criteria look at the whole table."""
    own = pieces.tuples()
    joints = {
        name: _PartOfTable(
            attribute=joint.attribute,
            tuple_of=joint.tuple_of,
            value=joint.value,
            weight=joint.weight,
            whole=shares[name],
        )
        for name, joint in own.joints.items()
    }
    return Tuples(attributes=own.attributes, codes=own.codes, weights=own.weights, joints=joints)


def holder(criteria: tuple[Criterion, ...], pieces: Pieces) -> ClassCheck:
    """Make the check of a table: told some pieces, the class of each and their number, which classes keep all.

    >>> from sudare.methods.kanon.criteria import MinimumSize
    >>> from sudare.schema import Attribute, Values
    >>> sex = Attribute(name="sex", domain=Values(("F", "M")))
    >>> pieces = Pieces(attributes=(sex,), quasi=1, codes=np.array([[0], [1]]), weights=np.array([5, 4]))
    >>> holder((MinimumSize(k=5),), pieces)(pieces, np.array([0, 1]), 2).tolist()
    [True, False]
    """
    shares = shares_of(pieces)

    def holds(some: Pieces, class_of: Codes, count: int) -> NDArray[np.bool_]:
        loads = np.bincount(class_of, weights=some.weights, minlength=count).astype(np.float64, copy=False)
        classes = Classes((), loads, part_of_table(some, shares), np.zeros(count, dtype=np.int64))
        classes.__dict__["ids"] = class_of  # known already: there is no node to compute it from
        return all_hold(criteria, classes)

    return holds


def kept_pieces(pieces: Pieces, holds: ClassCheck, problem: Problem, node: Node, class_of: Codes) -> NDArray[np.bool_]:
    """Tell which pieces are in classes of a node that keep the promise.

    A register of the population is known to the problem only, so it is asked where there is one.
    """
    if problem.tuples.population is None:
        good = holds(pieces, class_of, int(class_of.max(initial=-1)) + 1)
        return np.asarray(good[class_of], dtype=np.bool_)
    classes = problem.tuples.classes(node)
    good = all_hold(problem.criteria, classes)[classes.ids]
    held = {tuple(codes): bool(one) for codes, one in zip(problem.tuples.codes.tolist(), good, strict=True)}
    return np.array([held[tuple(codes)] for codes in pieces.codes[:, : pieces.quasi].tolist()], dtype=np.bool_)
