"""The method's parameters, promise and order of steps."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from sudare.counts import Countable, Counts
from sudare.errors import ParameterError
from sudare.mechanisms import Rng, system_rng
from sudare.methods.asked import attributes_asked
from sudare.methods.certify import certificate, named
from sudare.methods.microdata.choice import Way, check_counts, check_schema, decide, make_table, plan_for
from sudare.methods.microdata.preview import Preview, foresee
from sudare.methods.microdata.records import records
from sudare.methods.sensitivity import Budget
from sudare.privacy import Guarantee, Ledger, Neighbours, Unrecorded, exact_epsilon
from sudare.privacy.guarantee import check_neighbours
from sudare.releases import Release
from sudare.schema import Schema, Unit

VALUES = ("labels", "inside")
METHODS = ("auto", "tree", "projection")
NAMES: dict[Way, str] = {"tree": "tree", "wide": "tree", "projection": "projection"}  # as `method` takes them


@dataclass(frozen=True, kw_only=True, slots=True)
class Microdata:
    """Publish records with the columns of the original table.

    The table of all cells gets two-sided geometric noise, a valid table is made of it (no negative cell, whole
    numbers, the right total), and its cells are written out as records in random order. `method` says how the valid
    table is made: "projection" is the paper's nearest table; "tree" explains the noisy cells from their sums down
    and is nearer to the truth; "auto" decides from the schema and epsilon.

    Guarantee: epsilon-DP for the declared unit and neighbours. Proof: proofs/microdata.md
    Error: before the repair every cell has variance 2a/(1-a)^2, a = exp(-epsilon/sensitivity); the repair lowers it.
    Source: Terada, Yamaguchi, Hongo 2017, section 4.

    >>> Microdata(epsilon="1/2").guarantee().epsilon
    Fraction(1, 2)
    """

    epsilon: Fraction | str | int | float
    neighbours: Neighbours | None = None  # None: the ledger's, else replace-one
    method: Literal["auto", "tree", "projection"] = "auto"
    by: tuple[str, ...] | None = None  # the attributes to publish; all of them by default
    values: Literal["labels", "inside"] = "labels"  # bins as labels, or a value drawn inside the bin

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", exact_epsilon(self.epsilon))
        if self.neighbours is not None:
            check_neighbours(self.neighbours)
        if self.method not in METHODS:
            raise ParameterError("method ({method}) must be auto, tree or projection", method=self.method)
        if self.values not in VALUES:
            raise ParameterError("values ({values}) must be labels or inside", values=self.values)
        object.__setattr__(self, "by", attributes_asked(self.by))

    def guarantee(self, *, unit: Unit | None = None, neighbours: Neighbours | None = None) -> Guarantee:
        """Tell the promise before any data is opened."""
        relation = self.neighbours or neighbours or "replace"
        return Guarantee(epsilon=Fraction(self.epsilon), neighbours=relation, unit=unit or Unit())

    def preview(
        self, schema: Schema, *, rows: int | tuple[int, ...] = (), neighbours: Neighbours | None = None
    ) -> Preview:
        """Tell the expected error from public facts, before anything is spent.

        `rows` is a public estimate of the number of records, or several of them.
        """
        chosen = self._chosen(schema)
        asked = (rows,) if isinstance(rows, int) else tuple(rows)
        return foresee(chosen, self._plan(chosen, neighbours)[1], rows=asked)

    def publish(
        self, source: Countable, *, ledger: Ledger | Unrecorded | None = None, rng: Rng | None = None
    ) -> Release:
        """Count, spend, draw, and return the release; an interrupt after the spend leaves it recorded."""
        purse = ledger if ledger is not None else Unrecorded()
        randomness = rng if rng is not None else system_rng()
        schema = self._chosen(source.schema)
        schema.require_confirmed()
        way, budget = self._plan(schema, purse.neighbours)
        expected = foresee(schema, budget).to_dict()
        counts = source.count(schema.names)
        check_counts(way, counts, schema, budget)
        spends = purse.spend(budget.parts, guarantee=budget.guarantee)
        table = self.draw(counts, neighbours=budget.guarantee.neighbours, rng=randomness)
        paper = certificate(
            method="microdata",
            parameters=named(self, neighbours=budget.guarantee.neighbours, method=NAMES[way]),
            guarantee=budget.guarantee,
            spends=spends,
            ledger_head=spends[-1].head,
            schema=schema,
            expected_error=expected,
            private=randomness.is_private,
        )
        return Release({"records": records(table, rng=randomness, inside=self.values == "inside")}, paper)

    def draw(self, counts: Counts, *, neighbours: Neighbours | None = None, rng: Rng) -> Counts:
        """Turn private counts into the published table: the step that the promise is about.

        It does not spend; `publish` does so first. Audits call it many times.
        """
        way, budget = self._plan(counts.schema, neighbours)
        check_counts(way, counts, counts.schema, budget)
        return make_table(way, counts, budget, rng=rng)

    def _chosen(self, schema: Schema) -> Schema:
        chosen = schema.select(self.by) if self.by is not None else schema
        check_schema(self.method, chosen)
        return chosen

    def _plan(self, schema: Schema, neighbours: Neighbours | None) -> tuple[Way, Budget]:
        promise = self.guarantee(unit=schema.unit, neighbours=neighbours)
        way = decide(self.method, schema, promise.epsilon)
        return way, plan_for(way, schema, promise)
