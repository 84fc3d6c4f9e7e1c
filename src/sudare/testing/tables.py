"""Small tables to try a method on, without any file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sudare.counts import Counts
from sudare.errors import SourceError
from sudare.schema import Attribute, Codes, Schema, Unit, Values

CELLS = 64  # enough that the repair of a noisy table hardly couples two of them
PER_CELL = 40  # far enough from 0 that a repair rarely cuts a cell off


@dataclass(frozen=True, eq=False)
class Tabled:
    """A source that serves counts it was given: for tests, and for tables that were counted elsewhere.

    >>> from sudare.methods.microdata import Microdata
    >>> Microdata(epsilon=1).publish(Tabled(even_table())).frames["records"].rows
    2560
    """

    counts: Counts

    @property
    def schema(self) -> Schema:
        """The public facts of the table."""
        return self.counts.schema

    def count(self, by: Sequence[str] | None = None) -> Counts:
        """Count over the chosen attributes."""
        return self.counts if by is None or tuple(by) == self.schema.names else self.counts.project(by)


@dataclass(frozen=True, eq=False)
class Unreadable:
    """A source whose rows cannot be read: nothing may be spent on it."""

    schema: Schema

    def count(self, by: Sequence[str] | None = None) -> Counts:
        """Refuse."""
        raise SourceError("the rows of this source cannot be read: it exists to be refused in tests")


def schema_of(*sizes: int, unit: Unit | None = None, name: str = "checked") -> Schema:
    """Make a schema of categories v0, v1, ... with these numbers of values.

    >>> schema_of(8, 8).size
    64
    """
    domains = [Values(tuple(f"v{code}" for code in range(size))) for size in sizes]
    attributes = tuple(Attribute(name=f"a{place}", domain=domain) for place, domain in enumerate(domains))
    return Schema(name=name, unit=unit or Unit(), attributes=attributes)


def even_table(schema: Schema | None = None, *, per_cell: int = PER_CELL) -> Counts:
    """Make a table with the same count in each of its first possible cells, at most 64 of them."""
    chosen = schema or schema_of(8, 8)
    return Counts.build(chosen, cells := first_cells(chosen), np.full(len(cells), per_cell))


def first_cells(schema: Schema, most: int = CELLS) -> Codes:
    """Give the codes of the first cells that can hold people."""
    ranks = list(range(min(schema.size, 16 * most)))
    codes = schema.radix.from_ranks(ranks)
    return codes[~schema.is_impossible(schema.radix.decode(codes))][:most]


def changed(table: Counts, *changes: int) -> Counts:
    """Add to the first cells of a table: `changed(table, -1, 1)` moves one record from the first to the second."""
    values = table.values.copy()
    values[: len(changes)] += np.array(changes, dtype=np.int64)
    return Counts.build(table.schema, table.codes, values)
