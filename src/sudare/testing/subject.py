"""What a method is tried on: small tables, rows of them, a map; and a generator that nobody may draw from."""

from __future__ import annotations

import contextlib
import dataclasses
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from sudare.counts import Counts
from sudare.errors import SourceError
from sudare.noise import Rng, SeededRng, system_rng
from sudare.privacy import Ledger, Neighbours, Promise, Unrecorded
from sudare.privacy.currency import EPSILON, Currency
from sudare.releases import Release
from sudare.schema import Attribute, Codes, Schema, Unit, Values
from sudare.verify import Audit
from sudare.verify.promises import open_rows

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


# --- the method on trial ---------------------------------------------------------------------------------------------

RELATIONS: tuple[Neighbours, ...] = get_args(Neighbours)
LARGEST_BUDGET = Fraction(1000)


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A method, the public facts to try it on (a schema, or a map), and how hard to try."""

    method: Any  # a sudare Method; the checks of a kind of promise read the parameters of that kind
    facts: Any
    runs: int
    weaken: Callable[[Any], Any]
    weak_audits: dict[Neighbours, Audit] = field(default_factory=dict)  # of the weakened method, kept for both audits

    @property
    def promise(self) -> Promise:
        """What is promised for these facts."""
        found: Promise = self.method.promise(self.facts)
        return found

    @property
    def schema(self) -> Schema:
        """The schema of the table that goes in."""
        found: Schema = self.facts
        return found

    @property
    def amount(self) -> Fraction:
        """What the method promises, under differential privacy, in the currency of its promise."""
        return Fraction(self.method.guarantee().amount)

    @property
    def currency(self) -> Currency:
        """What it counts in: epsilon, or rho."""
        found: Currency = self.method.guarantee().currency
        return found

    @property
    def relations(self) -> list[Neighbours]:
        """The neighbour relations the method can promise as it stands."""
        return [one for one in RELATIONS if self.method.guarantee(neighbours=one).neighbours == one]

    @contextlib.contextmanager
    def source(self, table: Counts | None = None) -> Iterator[Any]:
        """What the method takes: counts, the same as rows in an engine, or the map."""
        if self.method.takes == "map":
            yield self.facts
            return
        counts = even_table(self.schema) if table is None else table
        if self.method.takes == "counts":
            yield Tabled(counts)
            return
        with tempfile.TemporaryDirectory() as place, open_rows(counts, Path(place)) as rows:
            yield rows

    @contextlib.contextmanager
    def publishing(
        self, table: Counts | None = None, *, seed: int | None = 1, ledger: Ledger | Unrecorded | None = None
    ) -> Iterator[Release]:
        """Publish with repeatable noise (no seed: with secret noise); the source stays open meanwhile."""
        with self.source(table) as source:
            rng = system_rng() if seed is None else SeededRng(seed)
            yield self.method.publish(source, ledger=ledger, rng=rng)

    def publish(
        self, table: Counts | None = None, *, seed: int = 1, ledger: Ledger | Unrecorded | None = None
    ) -> Release:
        """Publish with repeatable noise; a table that is written through its source is read back."""
        with self.publishing(table, seed=seed, ledger=ledger) as release:
            return release if release.frames else save_and_load(release)


def save_and_load(release: Release, *, file_format: Literal["parquet", "csv"] = "csv") -> Release:
    """Save a release, seeded or not, and read it back."""
    with tempfile.TemporaryDirectory() as place:
        release.save(Path(place) / "out", file_format=file_format, even_if_not_private=True)
        return Release.load(Path(place) / "out")


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
def temporary_ledger(amount: Fraction, *, neighbours: Neighbours, currency: Currency = EPSILON) -> Iterator[Ledger]:
    """A ledger with a budget, for as long as a check lasts."""
    budget: dict[str, Any] = {currency.name: amount}
    with (
        tempfile.TemporaryDirectory() as place,
        Ledger.create(Path(place) / "checked.ledger", **budget, neighbours=neighbours) as ledger,
    ):
        yield ledger


def ample(amount: Fraction) -> Fraction:
    """A budget for several releases of this amount."""
    return min(4 * amount, LARGEST_BUDGET)


def with_fields(method: Any, **fields: Any) -> Any:
    """Make the same method with other parameters."""
    return dataclasses.replace(method, **fields)


def require(holds: bool, line: str) -> None:
    """Fail a check with one clear line."""
    if not holds:
        raise AssertionError(line)
