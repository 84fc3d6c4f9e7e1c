"""The distinct combinations of quasi-identifiers (tuples), and the classes they form at a node of the lattice.

Tuples are all that a search needs to know of a table. The classes of a node are found by a key: tuples that look alike
at the node have the same key. To make keys fast, neighbouring attributes are put together in up to three blocks of
columns; each block has few distinct combinations, whose ranks at given levels are computed once and kept.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np

from sudare.counts import Counts
from sudare.counts.relabelling import ROWS_OF_PERSON
from sudare.methods.kanon.equal_keys import (
    SCRATCH,
    KeyGroups,
    find_leaders,
    group_keys,
    list_leaders,
    lookup_capacity,
    number_keys,
    shared_arange,
)
from sudare.methods.kanon.lattice import Node
from sudare.schema import Attribute
from sudare.schema.arrays import Booleans, Codes, Reals

MAX_RANK_BYTES = 2**27  # memory for the ranks that are kept
MAX_BLOCKS = 3  # blocks of columns
KEPT_SIZE = 2**17  # numbers in an array of classes by sensitive values that is kept


@dataclass(frozen=True, kw_only=True, eq=False)
class SensitiveCounts:
    """How many rows each tuple has with each value of a sensitive attribute: entries (tuple, value, weight).

    Where a person may have several rows, each of n rows weighs 1/n, so that every person counts once.
    """

    attribute: Attribute
    tuple_of: Codes
    value: Codes
    weight: Codes | Reals
    sets: dict[str, tuple[Reals, float]] = field(default_factory=dict, repr=False)  # kept by distance (criteria.py)

    @property
    def is_by_person(self) -> bool:
        """Tell whether persons are counted, not rows."""
        return self.weight.dtype.kind == "f"

    @cached_property
    def float_weight(self) -> Reals:
        """Give the weights as floats: ready to be added up."""
        return self.weight.astype(np.float64)

    @cached_property
    def shares(self) -> Reals:
        """Give the share of every value in the whole table."""
        totals = np.bincount(self.value, weights=self.weight, minlength=self.attribute.size)
        shares: Reals = totals / max(1.0, float(totals.sum()))
        return shares


def sum_values(sensitive: SensitiveCounts, ids: Codes, count: int) -> Reals:
    """Count the rows of each value by class (classes, values), given the class of every tuple."""
    size = sensitive.attribute.size
    key = ids.take(sensitive.tuple_of)
    key *= size
    key += sensitive.value
    summed = np.bincount(key, weights=sensitive.float_weight, minlength=count * size)
    return np.asarray(summed, dtype=np.float64).reshape(count, size)


def _sum_value_tables(finer: Reals, ids: Codes, count: int) -> Reals:
    """Count the rows of each value by class from those of finer classes, given the class of each of these."""
    size = finer.shape[1]
    key = (ids * size)[:, None] + shared_arange(size)
    summed = np.bincount(key.reshape(-1), weights=finer.reshape(-1), minlength=count * size)
    return np.asarray(summed, dtype=np.float64).reshape(count, size)


class ValueCounts(NamedTuple):
    """Rows of each sensitive value in each class: only those that occur, sorted by class."""

    classes: Codes
    values: Codes
    rows: Codes | Reals

    def totals(self, count: int) -> Reals:
        """Add up all values of each class: its rows, or its persons."""
        return np.asarray(np.bincount(self.classes, weights=self.rows, minlength=count), dtype=np.float64)


class KeySource(Protocol):
    """What keys are made of: for every block of columns, the combination of each class."""

    @property
    def block_ids(self) -> tuple[Codes, ...]:
        """Give the combinations."""


@dataclass(frozen=True, slots=True, eq=False)
class ChosenClasses:
    """Some classes of a node, to make keys of."""

    block_ids: tuple[Codes, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ColumnBlock:
    """Some neighbouring attributes: the number of the combination that each tuple has in them, and a tuple of each."""

    ids: Codes
    first: Codes


@dataclass(frozen=True, eq=False)
class Classes:
    """The equivalence classes of a node: `sizes[c]` rows look alike there, and tuple `first[c]` is one of class c.

    Most classes are only counted, so that what is not asked for is not made.
    """

    node: Node
    float_sizes: Reals = field(repr=False)  # the rows of each class, as floats: ready to be added up
    tuples: Tuples = field(repr=False)
    leaders: Codes = field(repr=False)  # one tuple of each class, or one of the finer classes these were summed up from
    finer_first: Codes | None = field(default=None, repr=False)  # then, one tuple of each of those finer classes
    value_counts: dict[str, ValueCounts] = field(default_factory=dict, repr=False)  # kept by sensitive attribute
    value_tables: dict[str, Reals] = field(default_factory=dict, repr=False)  # the same, where they are few, by value

    @cached_property
    def first(self) -> Codes:
        """Find a tuple of each class."""
        return self.leaders if self.finer_first is None else self.finer_first.take(self.leaders)

    @cached_property
    def sizes(self) -> Codes:
        """Count the rows of each class."""
        return self.float_sizes.astype(np.int64)

    @property
    def count(self) -> int:
        """Count the classes, those without rows (known from a population only) too."""
        return int(self.float_sizes.size)

    @cached_property
    def smallest(self) -> int:
        """Give the k that the node reaches: the size of its smallest class with rows; 0 for no rows."""
        sizes = self.float_sizes
        occupied = sizes if self.tuples.population is None else sizes[sizes > 0]
        return int(np.minimum.reduce(occupied)) if occupied.size else 0

    @cached_property
    def block_ids(self) -> tuple[Codes, ...]:
        """Find, for every block of columns, the combination of one tuple of each class."""
        return tuple(block.ids.take(self.first) for block in self.tuples.blocks)

    def choose(self, chosen: Codes) -> ChosenClasses:
        """Choose some classes, by their numbers."""
        return ChosenClasses(tuple(ids.take(chosen) for ids in self.block_ids))

    @cached_property
    def ids(self) -> Codes:
        """Find the class of every tuple."""
        key, places = self.tuples.key(self.node)
        if places > lookup_capacity(key.size):
            # groups are numbered by key, classes are not
            return np.argsort(key[self.first])[group_keys(key, places).ids]
        number = np.empty(places, dtype=np.int64)
        number[key[self.first]] = np.arange(self.count)
        return np.asarray(number.take(key))

    def has_tuples(self, chosen: Booleans) -> Booleans:
        """Tell which tuples are in one of the chosen classes."""
        key, places = self.tuples.key(self.node)
        if places > lookup_capacity(key.size):
            return chosen[self.ids]
        is_chosen = np.zeros(places, dtype=bool)
        is_chosen[key[self.first[chosen]]] = True
        return is_chosen.take(key)


@dataclass(frozen=True, kw_only=True, eq=False)
class Tuples:
    """Distinct tuples of quasi-identifier codes (m, q) with the number of rows of each.

    Made from counts once; whatever is computed from it takes time by the number of distinct tuples, not of rows.
    `population`, for delta-presence, counts the persons of each tuple in a public register; such tuples may have no
    row.
    """

    attributes: tuple[Attribute, ...]
    codes: Codes
    weights: Codes
    sensitive: Mapping[str, SensitiveCounts]
    population: Codes | None = None
    _ranks: dict[Node, tuple[Codes, int]] = field(default_factory=dict, repr=False)  # by first attribute and levels
    _lifts: dict[Node, Codes] = field(default_factory=dict, repr=False)  # by attribute and level

    @classmethod
    def of(
        cls,
        counts: Counts,
        quasi: Sequence[str],
        sensitive: Sequence[str] = (),
        *,
        population: Counts | None = None,
    ) -> Tuples:
        """Read counts over (at least) these attributes.

        >>> from sudare.schema import Schema, Values
        >>> sex = Attribute(name="sex", domain=Values(("F", "M")))
        >>> counts = Counts.from_columns(Schema(name="s", attributes=(sex,)), [[0], [1], [1]])
        >>> Tuples.of(counts, ["sex"]).weights.tolist()
        [1, 2]
        """
        table = counts.project(list(quasi))
        codes, weights, people = table.columns(), table.values, None
        if population is not None:
            codes, weights, people = _unite(table, population.project(list(quasi)))
        return cls(
            attributes=table.schema.attributes,
            codes=codes,
            weights=weights,
            sensitive={name: _count_sensitive(counts, quasi, name, codes) for name in sensitive},
            population=people,
        )

    def __repr__(self) -> str:
        return f"<Tuples over {', '.join(attribute.name for attribute in self.attributes)}>"

    @property
    def count(self) -> int:
        """Count the distinct tuples."""
        return int(self.codes.shape[0])

    @cached_property
    def rows(self) -> int:
        """Count the rows of the table."""
        return int(self.weights.sum())

    @cached_property
    def columns(self) -> tuple[Codes, ...]:
        """Give the codes by attribute, each side by side in memory."""
        return tuple(np.ascontiguousarray(self.codes.T))

    def lift(self, axis: int, level: int, chosen: Codes | None = None) -> Codes:
        """Give the group of tuples (all, or the chosen) at a level of one attribute; beyond its top all are one."""
        hierarchy, codes = self.attributes[axis].hierarchy, self.columns[axis]
        codes = codes if chosen is None else codes[chosen]
        if level > self.attributes[axis].height:
            return np.zeros_like(codes)
        return codes if level == 0 or hierarchy is None else hierarchy.lift(codes, level)

    def key(self, node: Node, source: KeySource | None = None) -> tuple[Codes, int]:
        """Number the tuples (or the classes of a finer node) so that those alike at a node get the same number.

        Each block of columns has a short table from its combinations to their ranks at the node. All numbers are below
        the second value. They are scratch memory: they are valid until the next call.
        """
        block_ids = [block.ids for block in self.blocks] if source is None else source.block_ids
        size = block_ids[0].size
        key, digit, places = SCRATCH.array("key", size), SCRATCH.array("digit", size), 1
        for start, stop, ids in zip(self._cuts, self._cuts[1:], block_ids, strict=False):
            rank, ranks = self._rank_block(start, node[start:stop])
            if places * ranks > lookup_capacity(size) and places > size > 0:
                key[:] = find_leaders(key, places)  # closes gaps, so that keys need no sorting
                places = size
            rank.take(ids, mode="clip", out=digit if start else key)  # "raise" would copy first
            if start:
                key *= ranks
                key += digit
            places *= ranks
        return key, places

    def find_alike(self, node: Node, examples: Codes, among: Codes | None = None) -> Codes:
        """Find the tuples that look like one of the examples at a node, of all or of those given."""
        whole = self.count if among is None else among.size
        pool = examples if among is None else np.concatenate([among, examples])
        source = None if among is None else ChosenClasses(tuple(block.ids.take(pool) for block in self.blocks))
        key, places = self.key(node, source)
        asked = examples if among is None else shared_arange(pool.size)[whole:]
        if places > lookup_capacity(key.size):
            key, places = np.asarray(find_leaders(key, places)), key.size
        is_asked = np.zeros(places, dtype=bool)
        is_asked[key[asked]] = True
        alike = np.flatnonzero(is_asked.take(key[:whole]))
        return alike if among is None else among[alike]

    def classes(self, node: Node, source: Classes | None = None, summed_values: Sequence[str] = ()) -> Classes:
        """Group the tuples at a node, from the classes of a finer node if there are some.

        Values of sensitive attributes (`summed_values`) are counted by class too, where these are few enough.
        """
        leader_of = find_leaders(*self.key(node, source))
        leaders = list_leaders(leader_of)
        weights = self.float_weights if source is None else source.float_sizes
        sizes = np.asarray(np.bincount(leader_of, weights=weights, minlength=leader_of.size), dtype=np.float64)
        classes = Classes(node, sizes.take(leaders), self, leaders, None if source is None else source.first)
        for name in summed_values:
            size, finer = self.sensitive[name].attribute.size, None if source is None else source.value_tables.get(name)
            if len(leaders) * size <= KEPT_SIZE and (source is None or finer is not None):
                number = SCRATCH.array("numbers", leader_of.size)
                number[leaders] = shared_arange(leaders.size)
                ids = number.take(leader_of)
                classes.value_tables[name] = (
                    sum_values(self.sensitive[name], ids, len(leaders))
                    if finer is None
                    else _sum_value_tables(finer, ids, len(leaders))
                )
        return classes

    @cached_property
    def float_weights(self) -> Reals:
        """Give the rows of every tuple as floats, exact below 2**53: ready to be added up."""
        return self.weights.astype(np.float64)

    @cached_property
    def _cuts(self) -> list[int]:
        """Where the blocks of columns begin and end.

        Blocks have about as many nodes each; with few blocks a key is quickly made, with many there are few ranks.
        """
        logs = np.cumsum([math.log(attribute.height + 1) for attribute in self.attributes])
        blocks = min(MAX_BLOCKS, len(self.attributes))
        between = {int(np.argmin(np.abs(logs - logs[-1] * block / blocks))) + 1 for block in range(1, blocks)}
        return sorted({0, len(self.attributes)} | between)

    @cached_property
    def blocks(self) -> tuple[ColumnBlock, ...]:
        """Group the tuples by some neighbouring attributes at a time: a few combinations stand for all tuples."""
        sizes = [attribute.size for attribute in self.attributes]
        return tuple(
            ColumnBlock(*number_keys(*_combine(self.columns[start:stop], sizes[start:stop])))
            for start, stop in itertools.pairwise(self._cuts)
        )

    def _lift_block(self, axis: int, level: int) -> Codes:
        """Lift one attribute of the combinations of its block; kept."""
        known = self._lifts.get((axis, level))
        if known is None:
            block = self.blocks[bisect.bisect_right(self._cuts, axis) - 1]
            known = self._lifts[axis, level] = self.lift(axis, level, block.first)
        return known

    def _rank_block(self, start: int, levels: Node) -> tuple[Codes, int]:
        """Rank the combinations of a block by what is left of them at levels; kept, since many nodes share it."""
        name = (start, *levels)
        known = self._ranks.get(name)
        if known is None:
            size = self.blocks[self._cuts.index(start)].first.size
            columns = [self._lift_block(axis, level) for axis, level in enumerate(levels, start=start)]
            sizes = [self.attributes[axis].size for axis in range(start, start + len(levels))]
            ranks, first = number_keys(*_combine(columns, sizes))
            known = self._ranks[name] = ranks, max(1, first.size)
            while len(self._ranks) * size * 8 > MAX_RANK_BYTES and len(self._ranks) > len(self.attributes):
                self._ranks.pop(next(iter(self._ranks)))
        return known


def _combine(columns: Sequence[Codes], sizes: Sequence[int]) -> tuple[Codes, int]:
    """Number combinations of codes in the order of the columns, below the second value."""
    key, places = columns[0], max(1, sizes[0])
    for column, size in zip(columns[1:], sizes[1:], strict=True):
        if places > 2**62 // max(1, size):
            groups = group_keys(key, places)
            key, places = groups.ids, max(1, groups.count)
        key, places = key * size + column, places * max(1, size)
    return key, places


def _unite(table: Counts, register: Counts) -> tuple[Codes, Codes, Codes]:
    """List the tuples of either, with the rows of each in the table and in the register."""
    both = np.concatenate([table.columns(), register.columns()])
    groups = _group_equal_rows(both)
    rows, people = (np.zeros(groups.count, dtype=np.int64) for _ in range(2))
    rows[groups.ids[: table.nonzero]] = table.values
    people[groups.ids[table.nonzero :]] = register.values
    return both[groups.first], rows, people


def _count_sensitive(counts: Counts, quasi: Sequence[str], name: str, codes: Codes) -> SensitiveCounts:
    persons = [ROWS_OF_PERSON] if ROWS_OF_PERSON in counts.schema.names and not name.startswith("(") else []
    both = counts.project([*quasi, name, *persons])
    columns, place = both.columns(), len(quasi)
    ids = _group_equal_rows(np.concatenate([codes, columns[:, :place]])).ids
    position = np.empty(codes.shape[0], dtype=np.int64)
    position[ids[: codes.shape[0]]] = np.arange(codes.shape[0])
    return SensitiveCounts(
        attribute=both.schema.attributes[place],
        tuple_of=position[ids[codes.shape[0] :]],
        value=columns[:, place],
        weight=weigh_by_person(both.values, columns[:, -1]) if persons else both.values,
    )


def weigh_by_person(rows: Codes, rows_of_person: Codes) -> Reals:
    """Let each of the n rows of a person weigh 1/n; `rows_of_person` are codes, n less one.

    >>> weigh_by_person(np.array([4, 1]), np.array([1, 0])).tolist()
    [2.0, 1.0]
    """
    weights: Reals = rows / (rows_of_person + 1.0)
    return weights


def _group_equal_rows(table: Codes) -> KeyGroups:
    """Group the equal rows of codes, in the order of their columns."""
    columns = [np.ascontiguousarray(column) for column in table.T]
    return group_keys(*_combine(columns, [1 + int(column.max(initial=0)) for column in columns]))
