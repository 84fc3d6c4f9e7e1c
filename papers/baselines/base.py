"""What all baselines share: whom they can protect, and how a sample becomes a table."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sudare.counts import Counts
from sudare.errors import ParameterError, RelationMismatch, SchemaError
from sudare.noise import Rng
from sudare.privacy import Guarantee, Neighbours
from sudare.schema import Schema, Unit
from sudare.text import Text, text

MOST_TALLIED = 2**24  # cells of a table that is counted by position; beyond it, codes are sorted


@dataclass(frozen=True, kw_only=True, slots=True)
class Approximate:
    """A promise that may fail: (epsilon, delta)-differential privacy. No ledger takes it.

    >>> Approximate(epsilon=Fraction(1), delta=1e-6, neighbours="add-remove", unit=Unit()).describe().render("en")[:74]
    'Approximate differential privacy with epsilon = 1 and delta = 1e-06 for a '
    """

    epsilon: Fraction
    delta: float
    neighbours: Neighbours
    unit: Unit

    def describe(self) -> Text:
        """State the promise in one line."""
        return text(
            "Approximate differential privacy with epsilon = {epsilon} and delta = {delta} for {unit}: the probability "
            "of any set of outputs changes by a factor of at most exp({epsilon}), plus {delta}.",
            epsilon=self.epsilon,
            delta=f"{self.delta:.3g}",
            unit=self.unit.describe(),
        )


class Baseline(Protocol):
    """The part of a method's protocol that a comparison needs: a promise, and a draw."""

    @property
    def epsilon(self) -> Any:
        """What is promised."""

    def guarantee(self, *, unit: Unit | None = None, neighbours: Neighbours | None = None) -> Guarantee | Approximate:
        """Tell the promise before any data is opened."""

    def draw(self, counts: Counts, *, neighbours: Neighbours | None = None, rng: Rng) -> Counts:
        """Turn private counts into the table that would be published."""


def promise(epsilon: Fraction, *, unit: Unit | None, neighbours: Neighbours | None) -> Guarantee:
    """Promise for one replaced row. All but one baseline hand out as many records as they got, so no other holds.

    >>> promise(Fraction(1, 2), unit=None, neighbours=None).neighbours
    'replace'
    """
    if neighbours == "add-remove":
        raise RelationMismatch(
            "this baseline publishes the number of records; it promises nothing for add-remove neighbours"
        )
    guarantee = Guarantee(epsilon=epsilon, neighbours="replace", unit=unit or Unit())
    check_unit(guarantee.unit)
    return guarantee


def check_unit(unit: Unit) -> None:
    """Refuse persons with several rows."""
    if unit.max_rows > 1:
        raise ParameterError("a baseline protects one row a person; max_rows ({rows}) must be 1", rows=unit.max_rows)


def check_schema(schema: Schema) -> None:
    """Refuse public facts that a baseline would ignore."""
    if schema.impossible:
        raise SchemaError("a baseline cannot honour impossible combinations; compare on a schema without them")


def check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    """Refuse a name that is not among the choices."""
    if value not in choices:
        raise ParameterError(
            "{name} ({value}) must be one of {choices}", name=name, value=value, choices=", ".join(choices)
        )


def generator(rng: Rng) -> np.random.Generator:
    """NumPy's generator, seeded from the stream: repeatable with a seeded stream, and for comparisons only."""
    return np.random.default_rng(rng.bits(128))


def sampled(schema: Schema, weights: NDArray[np.float64], *, records: int, rng: Rng) -> Counts:
    """Draw records independently with probabilities in proportion to the weights of the cells.

    Weights that are all 0 say nothing about the cells: then all are equally likely.

    >>> from sudare.noise import SeededRng
    >>> from sudare.schema import Attribute, Values
    >>> sex = Attribute(name="sex", domain=Values(values=("F", "M")))
    >>> sampled(Schema(name="s", attributes=(sex,)), np.array([0.0, 2.0]), records=9, rng=SeededRng(1)).dense()
    array([0, 9])
    """
    total = float(weights.sum())
    shares = weights / total if total > 0 else np.full(weights.size, 1 / weights.size)
    return from_dense(schema, generator(rng).multinomial(records, shares))


def smoothed(counts: Counts, alpha: float) -> NDArray[np.float64]:
    """The shares (v + alpha)/(n + p alpha) of all cells."""
    weights = counts.dense().astype(np.float64) + alpha
    weights /= weights.sum()
    return weights


def from_dense(schema: Schema, table: NDArray[np.int64]) -> Counts:
    """Make the sparse table of a dense one."""
    cells = np.flatnonzero(table)
    return Counts.build(schema, cells[:, None], table[cells])


def tally(schema: Schema, records: NDArray[np.int64]) -> Counts:
    """Count records (n, attributes); by position where the table is small, which is ten times faster than sorting."""
    codes = schema.radix.encode(records)
    if schema.size > MOST_TALLIED:
        return Counts.build(schema, codes, np.ones(len(codes), dtype=np.int64))
    return from_dense(schema, np.bincount(codes[:, 0], minlength=schema.size))
