"""Small tables to try a method on, without any file."""

from __future__ import annotations

import contextlib
import dataclasses
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol, cast, get_args

import numpy as np
from numpy.typing import NDArray

from sudare.counts import Countable, Counts
from sudare.errors import SourceError
from sudare.noise import Rng, SeededRng
from sudare.privacy import Guarantee, Ledger, Neighbours, Unrecorded
from sudare.releases import Release
from sudare.schema import Attribute, Codes, Schema, Unit, Values
from sudare.verify import Audit

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


# The method on trial, and what the checks need to try it.


RELATIONS: tuple[Neighbours, ...] = get_args(Neighbours)
LARGEST_BUDGET = Fraction(1000)


class MethodOnTrial(Protocol):
    """A frozen dataclass of parameters, `epsilon` and `neighbours` among them, that turns counts into a release."""

    @property
    def epsilon(self) -> Any:
        """What it spends."""

    @property
    def neighbours(self) -> Neighbours | None:
        """The relation it promises; None: the ledger's."""

    def guarantee(self, *, unit: Unit | None = None, neighbours: Neighbours | None = None) -> Guarantee:
        """Tell the promise before any data is opened."""

    def preview(self, schema: Schema) -> Any:
        """Tell the expected error from public facts."""

    def publish(
        self, source: Countable, *, ledger: Ledger | Unrecorded | None = None, rng: Rng | None = None
    ) -> Release:
        """Count, spend, draw, and return the release."""

    def draw(self, counts: Counts, *, neighbours: Neighbours | None = None, rng: Rng) -> Counts:
        """Turn private counts into the published table: the step that the promise is about."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A method, a schema to try it on, and how hard to try."""

    method: MethodOnTrial
    schema: Schema
    runs: int
    weaken: Callable[[MethodOnTrial], MethodOnTrial]
    weak_audits: dict[Neighbours, Audit] = field(default_factory=dict)  # of the weakened method, kept for both audits

    @property
    def epsilon(self) -> Fraction:
        """What the method promises."""
        return self.method.guarantee().epsilon

    @property
    def relations(self) -> list[Neighbours]:
        """The neighbour relations the method can promise as it stands."""
        return [one for one in RELATIONS if self.method.guarantee(neighbours=one).neighbours == one]

    def publish(
        self, counts: Counts | None = None, *, seed: int = 1, ledger: Ledger | Unrecorded | None = None
    ) -> Release:
        """Publish a table with repeatable noise."""
        table = even_table(self.schema) if counts is None else counts
        return self.method.publish(Tabled(table), ledger=ledger, rng=SeededRng(seed))


class Touched(Exception):  # noqa: N818  (reads as a fact in `except Touched`)
    """Somebody drew from a generator that nobody may draw from yet."""


class Untouchable(Rng):
    """A generator that raises when anything is drawn from it."""

    def __init__(self) -> None:
        super().__init__(_raise)

    def fill(self, out: NDArray[Any]) -> None:
        """Refuse, even to fill nothing: the draw itself is what must not happen."""
        raise Touched


def _raise(out: memoryview) -> None:
    raise Touched


@contextlib.contextmanager
def temporary_ledger(epsilon: Fraction, *, neighbours: Neighbours) -> Iterator[Ledger]:
    """A ledger with a budget, for as long as a check lasts."""
    with (
        tempfile.TemporaryDirectory() as place,
        Ledger.create(Path(place) / "checked.ledger", epsilon=epsilon, neighbours=neighbours) as ledger,
    ):
        yield ledger


def ample(epsilon: Fraction) -> Fraction:
    """A budget for several releases of this epsilon."""
    return min(4 * epsilon, LARGEST_BUDGET)


def with_fields(method: MethodOnTrial, **fields: Any) -> MethodOnTrial:
    """Make the same method with other parameters."""
    return cast(MethodOnTrial, dataclasses.replace(cast(Any, method), **fields))


def require(holds: bool, line: str) -> None:
    """Fail a check with one clear line."""
    if not holds:
        raise AssertionError(line)
