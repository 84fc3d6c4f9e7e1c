"""The distinct combinations of quasi-identifiers: all that a search needs to know of a table."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sudare.counts import Counts
from sudare.methods.kanon.grouping import DENSE, Groups, grouped
from sudare.methods.kanon.lattice import Node
from sudare.schema import Attribute

Codes = NDArray[np.int64]

SMALL = 512  # codes of a few attributes below this stay as they are; beyond, the gaps between them are closed
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


@dataclass(frozen=True, eq=False)
class Classes:
    """The equivalence classes of a node: `sizes[c]` rows look alike there, and tuple `first[c]` is one of class c."""

    node: Node
    first: Codes
    sizes: Codes
    tuples: Tuples = field(repr=False)
    keys: Codes | None = field(default=None, repr=False)  # what Tuples.key gives the tuples of each class, in order

    @property
    def count(self) -> int:
        """Count the classes, those without rows (known from a population only) too."""
        return int(self.sizes.size)

    @cached_property
    def smallest(self) -> int:
        """Give the k that the node reaches: the size of its smallest class with rows; 0 for no rows."""
        if self.tuples.population is None:
            return int(self.sizes.min()) if self.sizes.size else 0
        held = self.sizes[self.sizes > 0]
        return int(held.min()) if held.size else 0

    @cached_property
    def ids(self) -> Codes:
        """Find the class of every tuple."""
        key, places = self.tuples.key(self.node)
        return grouped(key, places).ids

    def covers(self, chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Tell which tuples are in one of the chosen classes."""
        key, places = self.tuples.key(self.node)
        if self.keys is None or places > DENSE * key.size + 64:
            return chosen[self.ids]
        is_chosen = np.zeros(places, dtype=bool)
        is_chosen[self.keys[chosen]] = True
        return is_chosen[key]


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
    _lifts: dict[Node, tuple[Codes, int]] = field(default_factory=dict, repr=False)

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
        return tuple(np.ascontiguousarray(column) for column in self.codes.T)

    def lifted(self, axis: int, level: int) -> Codes:
        """Give the group of every tuple at a level of one attribute; beyond its top it is left out."""
        hierarchy, codes = self.attributes[axis].hierarchy, self.columns[axis]
        if level > self.attributes[axis].height:
            return np.zeros_like(codes)
        return codes if level == 0 or hierarchy is None else hierarchy.lift(codes, level)

    def key(self, node: Node, chosen: Codes | None = None) -> tuple[Codes, int]:
        """Number tuples (all, or the chosen) so that those alike at a node get the same number, below `places`."""
        key, places = np.zeros(1, dtype=np.int64), 1
        for start, stop in itertools.pairwise(self._cuts):
            rank, size = self._ranked(start, node[start:stop])
            rank = rank if chosen is None else rank[chosen]
            if places > 2**62 // size:
                found = grouped(key, places)
                key, places = found.ids, found.count
            key, places = rank if places == 1 else key * size + rank, places * size
        return key, places

    def classes(self, node: Node, source: Classes | None = None) -> Classes:
        """Group the tuples at a node, from the classes of a finer node if there are some."""
        key, places = self.key(node, None if source is None else source.first)
        found = grouped(key, places)
        first = found.first if source is None else source.first[found.first]
        sizes = found.totals(self.weights if source is None else source.sizes)
        return Classes(node, first, sizes, self, key[found.first])

    @cached_property
    def _cuts(self) -> list[int]:
        """Where to cut the attributes in parts of about as many nodes; few parts make a short key, many few ranks."""
        logs = np.cumsum([math.log(attribute.height + 1) for attribute in self.attributes])
        parts = min(3, len(self.attributes))
        inner = {int(np.argmin(np.abs(logs - logs[-1] * part / parts))) + 1 for part in range(1, parts)}
        return sorted({0, len(self.attributes)} | inner)

    def _ranked(self, start: int, levels: Node) -> tuple[Codes, int]:
        """Rank the tuples by their groups in neighbouring attributes; kept, since many nodes share them."""
        name = (start, *levels)
        known = self._ranks.get(name)
        if known is None:
            column, size = self._lift(start + len(levels) - 1, levels[-1])
            rank, places = self._ranked(start, levels[:-1]) if len(levels) > 1 else (np.zeros(1, dtype=np.int64), 1)
            known = rank * size + column, places * size
            if known[1] > SMALL:
                found = grouped(*known)
                known = found.ids, max(1, found.count)
            self._ranks[name] = known
            while len(self._ranks) * self.count * 8 > RANKS_BYTES and len(self._ranks) > len(self.attributes):
                self._ranks.pop(next(iter(self._ranks)))
        return known

    def _lift(self, axis: int, level: int) -> tuple[Codes, int]:
        """Lift a column and keep it, in as few bytes as its groups take."""
        if (axis, level) not in self._lifts:
            column = self.lifted(axis, level)
            size = 1 + int(column.max(initial=0))
            self._lifts[axis, level] = column.astype(np.int32 if size < 2**31 else np.int64), size
        return self._lifts[axis, level]


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
    rank, places = np.zeros(table.shape[0], dtype=np.int64), 1
    found = grouped(rank, places)
    for column in table.T:
        size = 1 + int(column.max(initial=0))
        found = grouped(rank * size + column, places * size)
        rank, places = found.ids, max(1, found.count)
    return found
