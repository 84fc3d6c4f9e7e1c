"""The method on trial, and what the checks need to try it."""

from __future__ import annotations

import contextlib
import dataclasses
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol, cast, get_args

from numpy.typing import NDArray

from sudare.counts import Countable, Counts
from sudare.mechanisms import Rng, SeededRng
from sudare.privacy import Guarantee, Ledger, Neighbours, Unrecorded
from sudare.releases import Release
from sudare.schema import Schema, Unit
from sudare.testing.tables import Tabled, even_table

RELATIONS: tuple[Neighbours, ...] = get_args(Neighbours)
LARGEST_BUDGET = Fraction(1000)


class Method(Protocol):
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

    method: Method
    schema: Schema
    runs: int
    weaken: Callable[[Method], Method]

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


def with_fields(method: Method, **fields: Any) -> Method:
    """Make the same method with other parameters."""
    return cast(Method, dataclasses.replace(cast(Any, method), **fields))


def require(holds: bool, line: str) -> None:
    """Fail a check with one clear line."""
    if not holds:
        raise AssertionError(line)
