"""A table of counts as it will be published: which rows look alike, and what each value is called.

Pieces          the rows, by combination of quasi-identifiers and sensitive attributes
HierarchyCut    the level of every value of one attribute
ClassChecker    which classes satisfy all criteria, for classes that are no node of the lattice
RecodedTable    the class of every piece, and the labels to write
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sudare.counts import Counts
from sudare.counts.relabelling import ROWS_OF_PERSON, SUPPRESSED, Relabelling
from sudare.methods.kanon.criteria import Criterion, all_satisfied
from sudare.methods.kanon.equal_keys import group_keys
from sudare.methods.kanon.lattice import Node
from sudare.methods.kanon.problem import Problem
from sudare.methods.kanon.tuples import Classes, SensitiveCounts, Tuples, weigh_by_person
from sudare.schema import Attribute
from sudare.schema.arrays import Booleans, Codes, Labels, Reals


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
        kept = self if class_of is None else self.take(class_of != SUPPRESSED)
        positions = np.arange(len(kept.weights), dtype=np.int64)
        return Tuples(
            attributes=kept.attributes[: kept.quasi],
            codes=kept.codes[:, : kept.quasi],
            weights=kept.weights,
            sensitive={
                attribute.name: SensitiveCounts(
                    attribute=attribute,
                    tuple_of=positions,
                    value=kept.codes[:, axis],
                    weight=kept._weights_of(attribute.name),
                )
                for axis, attribute in enumerate(kept.attributes[kept.quasi :], start=kept.quasi)
            },
        )

    def _weights_of(self, name: str) -> Codes | Reals:
        """Give what pieces weigh for an attribute: their rows, or where persons are counted their persons."""
        if ROWS_OF_PERSON not in self.names or name.startswith("("):
            return self.weights
        return weigh_by_person(self.weights, self.codes[:, self.names.index(ROWS_OF_PERSON)])

    def forget(self, name: str) -> Pieces:
        """Take an attribute out again, if it is there; pieces stay what they are."""
        if name not in self.names:
            return self
        kept = [axis for axis, other in enumerate(self.names) if other != name]
        attributes = tuple(self.attributes[axis] for axis in kept)
        return Pieces(attributes=attributes, quasi=self.quasi, codes=self.codes[:, kept], weights=self.weights)


@dataclass(frozen=True, kw_only=True, eq=False)
class RecodedTable:
    """The outcome of a recoding. Private: it stays with the steward, who writes the table with `relabelling`.

    `class_of[p]` is the class of a piece, SUPPRESSED where its rows are not published; `label_sizes[p, q]` tells how
    many declared values the label of a quasi-identifier stands for. `mapping` is what may be published of the recoding:
    levels and groups of values, no combination.
    """

    pieces: Pieces
    class_of: Codes
    label_sizes: Codes
    relabelling: Relabelling
    mapping: Mapping[str, Any] = field(default_factory=dict)

    @property
    def class_sizes(self) -> Codes:
        """Count the rows of every class."""
        kept = self.class_of != SUPPRESSED
        return np.bincount(self.class_of[kept], weights=self.pieces.weights[kept]).astype(np.int64)

    @property
    def suppressed_rows(self) -> int:
        """Count the rows that are not published."""
        return int(self.pieces.weights[self.class_of == SUPPRESSED].sum())

    def coarseness(self) -> dict[str, float]:
        """Tell how much of its attribute a published value stands for, on average: 0 one value, 1 all of them.

        Of the published rows alone, so that whoever has the release can compute it too.
        """
        pieces, kept = self.pieces, self.class_of != SUPPRESSED
        weights = pieces.weights[kept].astype(np.float64)
        rows = max(1.0, float(weights.sum()))
        means = {}
        for axis, attribute in enumerate(pieces.attributes[: pieces.quasi]):
            others = (self.label_sizes[kept, axis] - 1) / max(1, attribute.size - 1)
            means[attribute.name] = round(float((others * weights).sum()) / rows, 4)
        return means


def number_classes(columns: Codes) -> Codes:
    """Number rows of codes (m, d) by equality: 0, 1, ...

    >>> number_classes(np.array([[1, 5], [0, 2], [1, 5]])).tolist()
    [1, 0, 1]
    """
    rank, places = np.zeros(len(columns), dtype=np.int64), 1
    for column in columns.T:
        size = 1 + int(column.max(initial=0))
        if places > 2**62 // size:
            column, size = np.unique(column, return_inverse=True)[1].reshape(-1), len(columns)
        groups = group_keys(rank * size + column, places * size)
        rank, places = groups.ids, max(1, groups.count)
    return np.asarray(rank, dtype=np.int64)


# --- a cut through a hierarchy: every value at a level of its own; one level for all values is the full-domain case ---

MAX_KNOWN_CODES = 1 << 20  # of a larger attribute only the codes that occur are known
MAX_LISTED_GROUPS = 10_000  # in an exported mapping; of more only the levels are told


@dataclass(frozen=True, kw_only=True, eq=False)
class HierarchyCut:
    """The level of every known code of an attribute.

    Where some codes of a group stand by themselves at a lower level, the label of the group is left for the rest.

    >>> from sudare.schema import TableHierarchy, Values
    >>> tree = TableHierarchy.from_paths([("10", "10s", "*"), ("11", "10s", "*"), ("20", "20s", "*")])
    >>> age = Attribute(name="age", domain=Values(("10", "11", "20")), hierarchy=tree)
    >>> cut = HierarchyCut(attribute=age, codes=np.arange(3), levels=np.array([1, 1, 0]))
    >>> cut.labels(np.arange(3)).tolist(), cut.label_sizes(np.arange(3)).tolist()
    (['10s', '10s', '20'], [2, 2, 1])
    """

    attribute: Attribute
    codes: Codes
    levels: Codes

    @classmethod
    def at_level(cls, attribute: Attribute, level: int, occurring: Codes) -> HierarchyCut:
        """Put every code at one level. `occurring` are the codes of the table."""
        known = np.arange(attribute.size) if attribute.size <= MAX_KNOWN_CODES else np.unique(occurring)
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
        are_all_known = len(self.codes) == self.attribute.size  # then a code is its own position
        levels: Codes = self.levels[codes if are_all_known else np.searchsorted(self.codes, codes)]
        return levels

    def groups(self, codes: Codes) -> Codes:
        """Number the group of every code; groups of different levels have different numbers."""
        return self._by_level(codes, lambda level, lifted: lifted + self.offsets[level]).astype(np.int64)

    def labels(self, codes: Codes) -> Labels:
        """Write codes as the labels of their groups; a missing value by itself is None."""
        texts = self._by_level(codes, lambda level, lifted: self.attribute.coarsen(level).labels(lifted), object)
        return np.asarray(texts, dtype=np.object_)

    def label_sizes(self, codes: Codes) -> Codes:
        """Count the declared values that the label of every code stands for."""
        return self._by_level(codes, lambda level, lifted: self.group_sizes(level)[lifted]).astype(np.int64)

    def group_sizes(self, level: int) -> Codes:
        """Count the codes of every group of a level."""
        if level == 0:
            return np.ones(self._size(0), dtype=np.int64)
        if self.attribute.size > MAX_KNOWN_CODES:  # a mesh: all groups of a level are alike
            return np.full(self._size(level), max(1, self.attribute.size // self._size(level)), dtype=np.int64)
        return np.bincount(self.lift(np.arange(self.attribute.size), level), minlength=self._size(level))

    def _by_level(self, codes: Codes, evaluate: Callable[[int, Codes], Any], kind: Any = np.int64) -> NDArray[Any]:
        """Evaluate a function of a level and the groups of codes at it, for the codes of each level."""
        levels = self.level_of(codes)
        values = np.empty(len(codes), dtype=kind)
        for level in np.unique(levels).tolist():
            is_here = levels == level
            values[is_here] = evaluate(level, self.lift(codes[is_here], level))
        return values

    def lower(self, child: int, level: int) -> HierarchyCut:
        """Let one group of the level below stand by itself: its codes that are at `level` go one lower."""
        levels = self.levels.copy()
        levels[(levels == level) & (self.lift(self.codes, level - 1) == child)] = level - 1
        return HierarchyCut(attribute=self.attribute, codes=self.codes, levels=levels)

    def to_mapping(self) -> dict[str, Any]:
        """Give what may be published: the level, or the groups of values and the level of each."""
        levels = np.unique(self.levels).tolist()
        if len(levels) == 1:
            return {"level": int(levels[0])}
        numbers, first = np.unique(self.groups(self.codes), return_index=True)
        if len(numbers) > MAX_LISTED_GROUPS or self.attribute.size > MAX_KNOWN_CODES:
            return {"levels": [int(level) for level in levels]}
        texts, tops = self.labels(self.codes[first]).tolist(), self.levels[first].tolist()
        members = np.unique(self.groups(self.codes), return_counts=True)[1]
        is_rest = members < self.label_sizes(self.codes[first])
        return {
            "groups": [
                {"label": text, "level": int(level), **({"rest": True} if rest else {})}
                for text, level, rest in zip(texts, tops, is_rest.tolist(), strict=True)
            ]
        }


# --- which classes satisfy all criteria, for classes that are no node of the lattice ----------------------------------

ClassChecker = Callable[[Pieces, Codes, int], Booleans]
"""Given some pieces, the class of each and the number of classes: which classes satisfy all criteria."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _PartOfTable(SensitiveCounts):
    """Sensitive values of a part of the table; closeness is measured against the whole of it."""

    whole: Reals

    @property
    def shares(self) -> Reals:
        """Give the share of every value in the whole table."""
        return self.whole


def sensitive_shares(pieces: Pieces) -> dict[str, Reals]:
    """Give the share of every value of each sensitive attribute."""
    return {name: counts.shares for name, counts in pieces.tuples().sensitive.items()}


def make_partial_tuples(pieces: Pieces, shares: Mapping[str, Reals]) -> Tuples:
    """Give pieces as tuples of a search whose criteria compare with the whole table."""
    tuples = pieces.tuples()
    sensitive = {
        name: _PartOfTable(
            attribute=counts.attribute,
            tuple_of=counts.tuple_of,
            value=counts.value,
            weight=counts.weight,
            whole=shares[name],
        )
        for name, counts in tuples.sensitive.items()
    }
    return Tuples(attributes=tuples.attributes, codes=tuples.codes, weights=tuples.weights, sensitive=sensitive)


def make_class_checker(criteria: tuple[Criterion, ...], pieces: Pieces) -> ClassChecker:
    """Make the checker of a table: given some of its pieces, the class of each and their number, which satisfy all.

    >>> from sudare.methods.kanon.criteria import MinimumSize
    >>> from sudare.schema import Attribute, Values
    >>> sex = Attribute(name="sex", domain=Values(("F", "M")))
    >>> pieces = Pieces(attributes=(sex,), quasi=1, codes=np.array([[0], [1]]), weights=np.array([5, 4]))
    >>> make_class_checker((MinimumSize(k=5),), pieces)(pieces, np.array([0, 1]), 2).tolist()
    [True, False]
    """
    shares = sensitive_shares(pieces)

    def check_classes(part: Pieces, class_of: Codes, count: int) -> Booleans:
        sizes = np.bincount(class_of, weights=part.weights, minlength=count).astype(np.float64, copy=False)
        classes = Classes((), sizes, make_partial_tuples(part, shares), np.zeros(count, dtype=np.int64))
        classes.__dict__["ids"] = class_of  # known already: there is no node to compute it from
        return all_satisfied(criteria, classes)

    return check_classes


def find_kept_pieces(
    pieces: Pieces, check_classes: ClassChecker, problem: Problem, node: Node, class_of: Codes
) -> Booleans:
    """Tell which pieces are in classes of a node that keep the promise.

    Only the problem knows a register of the population, so it is asked where there is one.
    """
    if problem.tuples.population is None:
        satisfied = check_classes(pieces, class_of, int(class_of.max(initial=-1)) + 1)
        return np.asarray(satisfied[class_of], dtype=np.bool_)
    classes = problem.tuples.classes(node)
    of_tuple = all_satisfied(problem.criteria, classes)[classes.ids].tolist()
    by_codes = {tuple(codes): is_kept for codes, is_kept in zip(problem.tuples.codes.tolist(), of_tuple, strict=True)}
    return np.array([by_codes[tuple(codes)] for codes in pieces.codes[:, : pieces.quasi].tolist()], dtype=np.bool_)
