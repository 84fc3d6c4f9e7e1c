"""All ways to generalise a table: one level of its hierarchy for every quasi-identifier."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from sudare.errors import SchemaError
from sudare.schema import Attribute, Schema

Node = tuple[int, ...]  # a level for every quasi-identifier; 0 = as declared, its height = the top of its hierarchy


@dataclass(frozen=True)
class Lattice:
    """The nodes between (0, ..., 0), the table as declared, and `heights`, every hierarchy at its top.

    A node is finer than another if none of its levels is higher. A top of one group ("*") leaves an attribute out.

    >>> from sudare.schema import TableHierarchy, Values
    >>> tree = TableHierarchy.from_paths([("F", "*"), ("M", "*")])
    >>> sex = Attribute(name="sex", domain=Values(("F", "M")), role="quasi", hierarchy=tree)
    >>> lattice = Lattice((sex,))
    >>> lattice.heights, lattice.size, lattice.cells((0,)), list(lattice.coarser((0,)))
    ((1,), 2, 2, [(1,)])
    """

    attributes: tuple[Attribute, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "attributes", tuple(self.attributes))
        if not self.attributes:
            raise SchemaError('no attribute is a quasi-identifier; set role = "quasi" for those that others may know')
        for attribute in self.attributes:
            if attribute.hierarchy is None:
                raise SchemaError(
                    "quasi-identifier {name} has no hierarchy; give it one (`hierarchy = ` in the schema)",
                    name=attribute.name,
                )

    @classmethod
    def of(cls, schema: Schema, names: Sequence[str] | None = None) -> Lattice:
        """Take the named attributes of a schema, or all quasi-identifiers."""
        if names is None:
            names = [attribute.name for attribute in schema.attributes if attribute.role == "quasi"]
        return cls(tuple(schema.attribute(name) for name in names))

    @property
    def names(self) -> tuple[str, ...]:
        """Name the quasi-identifiers, in order."""
        return tuple(attribute.name for attribute in self.attributes)

    @cached_property
    def heights(self) -> Node:
        """Give the coarsest node."""
        return tuple(attribute.height for attribute in self.attributes)

    @property
    def bottom(self) -> Node:
        """Give the finest node: the table as declared."""
        return (0,) * len(self.attributes)

    @cached_property
    def size(self) -> int:
        """Count the nodes, exactly."""
        return math.prod(height + 1 for height in self.heights)

    @cached_property
    def sizes(self) -> tuple[tuple[int, ...], ...]:
        """Count the groups of every level of every attribute."""
        return tuple(
            tuple(attribute.hierarchy.size(level) for level in range(attribute.height + 1))
            for attribute in self.attributes
            if attribute.hierarchy is not None
        )

    def cells(self, node: Node) -> int:
        """Count the combinations that a node tells apart: what a check costs, in the paper."""
        return math.prod(sizes[level] for sizes, level in zip(self.sizes, node, strict=True))

    def coarser(self, node: Node) -> Iterator[Node]:
        """List the nodes one level up."""
        for axis, height in enumerate(self.heights):
            if node[axis] < height:
                yield (*node[:axis], node[axis] + 1, *node[axis + 1 :])

    def finer(self, node: Node) -> Iterator[Node]:
        """List the nodes one level down."""
        for axis, level in enumerate(node):
            if level > 0:
                yield (*node[:axis], level - 1, *node[axis + 1 :])

    def nodes(self) -> Iterator[Node]:
        """List all nodes, the finest first in the order of the last attribute."""
        return itertools.product(*(range(height + 1) for height in self.heights))


def is_finer(node: Node, other: Node) -> bool:
    """Tell whether no level of a node is higher than that of the other.

    >>> is_finer((0, 1), (1, 1)), is_finer((0, 1), (1, 0))
    (True, False)
    """
    return all(map(int.__le__, node, other))
