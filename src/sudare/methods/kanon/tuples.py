"""The distinct combinations of quasi-identifiers: all that a search needs to know of a table."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sudare.counts import Counts
from sudare.methods.kanon.grouping import SCRATCH, Groups, counting, grouped, leaders, numbered, room
from sudare.methods.kanon.lattice import Node
from sudare.schema import Attribute
from sudare.schema.arrays import Codes

RANKS_BYTES = 2**27  # how much memory the ranks of parts of nodes may take


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Joint:
    """How often each value of a sensitive attribute comes with each tuple: entries (tuple, value, weight)."""

    attribute: Attribute
    tuple_of: Codes
    value: Codes
    weight: Codes

    @property
    def shares(self) -> NDArray[np.float64]:
        """Give the share of every value in the whole table."""
        totals = np.bincount(self.value, weights=self.weight, minlength=self.attribute.size)
        shares: NDArray[np.float64] = totals / max(1.0, float(totals.sum()))
        return shares


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """What some attributes say together: the number of every tuple, alike for those alike, and a tuple of each."""

    ids: Codes
    first: Codes


@dataclass(frozen=True, eq=False)
class Classes:
    """The equivalence classes of a node: `sizes[c]` rows look alike there, and tuple `first[c]` is one of class c.

    Most classes are only counted, so that what is not asked for is not made.
    """

    node: Node
    loads: NDArray[np.float64] = field(repr=False)  # the rows of each class
    tuples: Tuples = field(repr=False)
    chosen: Codes = field(repr=False)  # which of the tuples (or of the classes that these were made from) stand for all
    source: Codes | None = field(default=None, repr=False)  # the tuples that stood for those classes

    @cached_property
    def first(self) -> Codes:
        """Find a tuple of each class."""
        return self.chosen if self.source is None else self.source.take(self.chosen)

    @cached_property
    def sizes(self) -> Codes:
        """Count the rows of each class."""
        return self.loads.astype(np.int64)

    @property
    def count(self) -> int:
        """Count the classes, those without rows (known from a population only) too."""
        return int(self.loads.size)

    @cached_property
    def smallest(self) -> int:
        """Give the k that the node reaches: the size of its smallest class with rows; 0 for no rows."""
        held = self.loads if self.tuples.population is None else self.loads[self.loads > 0]
        return int(np.minimum.reduce(held)) if held.size else 0

    @cached_property
    def parts(self) -> tuple[Codes, ...]:
        """Find what `Tuples.parts` says of one tuple of each class."""
        return tuple(part.ids.take(self.first) for part in self.tuples.parts)

    @cached_property
    def ids(self) -> Codes:
        """Find the class of every tuple."""
        key, places = self.tuples.key(self.node)
        return np.argsort(key[self.first])[grouped(key, places).ids]  # groups are numbered by key, classes are not

    def covers(self, chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Tell which tuples are in one of the chosen classes."""
        key, places = self.tuples.key(self.node)
        if places > room(key.size):
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
    joints: Mapping[str, Joint]
    population: Codes | None = None
    _ranks: dict[Node, tuple[Codes, int]] = field(default_factory=dict, repr=False)
    _lifts: dict[Node, Codes] = field(default_factory=dict, repr=False)

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
        plain = counts.project(list(quasi))
        codes, weights, people = plain.columns(), plain.values, None
        if population is not None:
            codes, weights, people = _united(plain, population.project(list(quasi)))
        joints = {name: _joint(counts, quasi, name, codes) for name in sensitive}
        return cls(attributes=plain.schema.attributes, codes=codes, weights=weights, joints=joints, population=people)

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

    def lifted(self, axis: int, level: int, chosen: Codes | None = None) -> Codes:
        """Give the group of tuples (all, or the chosen) at a level of one attribute; beyond its top it is left out."""
        hierarchy, codes = self.attributes[axis].hierarchy, self.columns[axis]
        codes = codes if chosen is None else codes[chosen]
        if level > self.attributes[axis].height:
            return np.zeros_like(codes)
        return codes if level == 0 or hierarchy is None else hierarchy.lift(codes, level)

    def key(self, node: Node, source: Classes | None = None) -> tuple[Codes, int]:
        """Number the tuples (or the classes of a finer node) so that those alike at a node get the same number.

        Each part of the node has a short table from what its attributes say together to a rank. All numbers are below
        the second value. They are scratch: they hold until the next call.
        """
        alike = [part.ids for part in self.parts] if source is None else source.parts
        size = alike[0].size
        key, rest, places = SCRATCH.of("key", size), SCRATCH.of("rest", size), 1
        for start, stop, here in zip(self._cuts, self._cuts[1:], alike, strict=False):
            rank, ranks = self._ranked(start, node[start:stop])
            if places * ranks > room(size) and places > size > 0:
                key[:] = leaders(key, places)  # closes gaps, so that keys need no sorting
                places = size
            rank.take(here, mode="clip", out=rest if start else key)  # "raise" would copy first
            if start:
                key *= ranks
                key += rest
            places *= ranks
        return key, places

    def classes(self, node: Node, source: Classes | None = None) -> Classes:
        """Group the tuples at a node, from the classes of a finer node if there are some."""
        lead = leaders(*self.key(node, source))
        own = np.flatnonzero(lead == counting(lead.size))
        weights = self.loads if source is None else source.loads
        loads = np.asarray(np.bincount(lead, weights=weights, minlength=lead.size), dtype=np.float64)
        return Classes(node, loads.take(own), self, own, None if source is None else source.first)

    @cached_property
    def loads(self) -> NDArray[np.float64]:
        """Give the rows of every tuple as floats, exact below 2**53: ready to be added up."""
        return self.weights.astype(np.float64)

    @cached_property
    def _cuts(self) -> list[int]:
        """Where to cut the attributes in parts of about as many nodes; few parts make a short key, many few ranks."""
        logs = np.cumsum([math.log(attribute.height + 1) for attribute in self.attributes])
        parts = min(3, len(self.attributes))
        inner = {int(np.argmin(np.abs(logs - logs[-1] * part / parts))) + 1 for part in range(1, parts)}
        return sorted({0, len(self.attributes)} | inner)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """Group the tuples by some neighbouring attributes at a time: a few groups stand for all tuples."""
        sizes = [attribute.size for attribute in self.attributes]
        return tuple(
            Part(*numbered(*_joined(self.columns[start:stop], sizes[start:stop])))
            for start, stop in itertools.pairwise(self._cuts)
        )

    def _lift(self, axis: int, level: int) -> Codes:
        """Lift the groups of the part that an attribute is in; kept."""
        known = self._lifts.get((axis, level))
        if known is None:
            part = self.parts[bisect.bisect_right(self._cuts, axis) - 1]
            known = self._lifts[axis, level] = self.lifted(axis, level, part.first)
        return known

    def _ranked(self, start: int, levels: Node) -> tuple[Codes, int]:
        """Rank the groups of a part by what is left of them at levels; kept, since many nodes share it."""
        name = (start, *levels)
        known = self._ranks.get(name)
        if known is None:
            size = self.parts[self._cuts.index(start)].first.size
            columns = [self._lift(axis, level) for axis, level in enumerate(levels, start=start)]
            sizes = [self.attributes[axis].size for axis in range(start, start + len(levels))]
            ranks, first = numbered(*_joined(columns, sizes))
            known = self._ranks[name] = ranks, max(1, first.size)
            while len(self._ranks) * size * 8 > RANKS_BYTES and len(self._ranks) > len(self.attributes):
                self._ranks.pop(next(iter(self._ranks)))
        return known


def _joined(columns: Sequence[Codes], sizes: Sequence[int]) -> tuple[Codes, int]:
    """Number combinations of codes in the order of the columns, below the second value."""
    key, places = columns[0], max(1, sizes[0])
    for column, size in zip(columns[1:], sizes[1:], strict=True):
        if places > 2**62 // max(1, size):
            found = grouped(key, places)
            key, places = found.ids, max(1, found.count)
        key, places = key * size + column, places * max(1, size)
    return key, places


def _united(table: Counts, register: Counts) -> tuple[Codes, Codes, Codes]:
    """Tuples of either, with the rows of each in the table and in the register."""
    both = np.concatenate([table.columns(), register.columns()])
    found = _same_rows(both)
    rows, people = (np.zeros(found.count, dtype=np.int64) for _ in range(2))
    rows[found.ids[: table.nonzero]] = table.values
    people[found.ids[table.nonzero :]] = register.values
    return both[found.first], rows, people


def _joint(counts: Counts, quasi: Sequence[str], name: str, codes: Codes) -> Joint:
    both = counts.project([*quasi, name])
    columns = both.columns()
    ids = _same_rows(np.concatenate([codes, columns[:, :-1]])).ids
    position = np.empty(codes.shape[0], dtype=np.int64)
    position[ids[: codes.shape[0]]] = np.arange(codes.shape[0])
    return Joint(
        attribute=both.schema.attributes[-1],
        tuple_of=position[ids[codes.shape[0] :]],
        value=columns[:, -1],
        weight=both.values,
    )


def _same_rows(table: Codes) -> Groups:
    """Group the equal rows of codes, in the order of their columns."""
    columns = [np.ascontiguousarray(column) for column in table.T]
    return grouped(*_joined(columns, [1 + int(column.max(initial=0)) for column in columns]))
