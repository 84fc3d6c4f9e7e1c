"""What a view will cost and how noisy it will be, from public facts alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from sudare.counts import Countable, Counts
from sudare.errors import DomainError, ParameterError, SchemaError
from sudare.methods.asked import attributes_asked, check_facts
from sudare.methods.certify import certificate, named
from sudare.methods.view.blocks import BlockView
from sudare.methods.view.budget import ViewBudget, bins_wanted, by_size, parts, plan, share_out
from sudare.methods.view.cuts import AE_SENSITIVITY
from sudare.methods.view.model import FittedModel, draw_model
from sudare.methods.view.mondrian import costs, draw_blocks, stop_scale
from sudare.methods.view.published import frames_of
from sudare.methods.view.tables import TableView
from sudare.methods.view.uncertainty import hidden_noise, model_error, replicates
from sudare.noise import Rng, geometric_variance, system_rng
from sudare.noise.geometric import LARGEST_SCALE
from sudare.privacy import Guarantee, Ledger, Neighbours, Unrecorded, exact_epsilon
from sudare.privacy.promise import check_neighbours
from sudare.releases import Release
from sudare.releases.frame import check_names
from sudare.schema import Schema, Unit

MOST_ROWS = 10**15
LEAST_SHARE = 5000  # a pair of d attributes gets more than 1/(5000 d) of epsilon, however the shares come out


@dataclass(frozen=True, kw_only=True, slots=True)
class ViewPreview:
    """The noise of what is measured, before anything is fitted.

    `value_standard_deviation`: of a value of each attribute as if the product were published (blocks: None).
    `rows` and what follows from it are filled in when an estimate of the number of records was given.
    """

    cells: int
    attributes: int
    value_standard_deviation: dict[str, float]
    block_standard_deviation: float | None = None
    measures_pairs: bool | None = None
    bins: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers for a certificate or a program."""
        told: dict[str, Any] = {"cells": self.cells}
        if self.block_standard_deviation is not None:
            told["block_standard_deviation"] = round(self.block_standard_deviation, 6)
        else:
            told["value_standard_deviation"] = {k: round(v, 6) for k, v in self.value_standard_deviation.items()}
        if self.measures_pairs is not None:
            told |= {"measures_pairs": self.measures_pairs, "bins": self.bins}
        return told


def foresee(schema: Schema, budget: ViewBudget, method: str, *, rows: int | None = None) -> ViewPreview:
    """Compute the preview of a run."""
    if rows is not None and not 0 <= rows <= MOST_ROWS:
        raise ParameterError("rows ({rows}) must be between 0 and {most}", rows=rows, most=MOST_ROWS)
    cells, attributes = schema.size, len(schema.attributes)
    if method in ("mondrian", "hdpview"):
        plan = costs(budget.epsilon, schema, method)
        most = plan.leaf(1, tested=cells > 1 and plan.deepest > 1)  # the whole table as one block has the least noise
        deviation = math.sqrt(geometric_variance(1 / most))
        return ViewPreview(
            cells=cells, attributes=attributes, value_standard_deviation={}, block_standard_deviation=deviation
        )
    left = budget.epsilon - (budget.total_epsilon or 0)
    shares = share_out(method, left, records=float(rows or 0), sizes=schema.sizes)
    each = by_size(shares.ones, schema.sizes)
    deviations = {
        name: math.sqrt(geometric_variance(1 / share)) for name, share in zip(schema.names, each, strict=True)
    }
    if rows is None:
        return ViewPreview(cells=cells, attributes=attributes, value_standard_deviation=deviations)
    return ViewPreview(
        cells=cells,
        attributes=attributes,
        value_standard_deviation=deviations,
        measures_pairs=bool(shares.forest),
        bins=bins_wanted(float(rows), float(budget.epsilon), len(schema.attributes)),
    )


def check_noise(budget: ViewBudget, method: str, schema: Schema) -> None:
    """Refuse noise beyond 64 bits before anything is spent, whatever shares the noisy number of records leads to."""
    if method in ("mondrian", "hdpview"):
        plan = costs(budget.epsilon, schema, method)
        stop = AE_SENSITIVITY / plan.test if plan.test else stop_scale(plan.tests)
        largest = max(stop, 1 / plan.leaf(plan.deepest, tested=True))
    else:
        shares = share_out("model", budget.epsilon, records=math.inf, sizes=schema.sizes)
        least = min(*by_size(shares.ones, schema.sizes), budget.epsilon / (LEAST_SHARE * len(schema.sizes)))
        largest = 1 / least
    if largest > LARGEST_SCALE:
        raise ParameterError("scale ({scale}) must be at most 2**50; raise epsilon", scale=largest)


# The method's parameters, promise and order of steps.


METHODS = ("model", "mondrian", "hdpview", "product")
SCORES = ("error", "spread")
MOST_RECORDS = 2**53  # counts are added in floats, exact up to here
MOST_VALUES = 2**20  # of all attributes together: each gets noise of its own


@dataclass(frozen=True, kw_only=True, slots=True)
class View:
    """Publish a compact view that answers any count, each with an interval, without a budget for questions.

    `method`: "model" measures one-way tables and privately chosen pairs and fits a junction tree; "product" measures
    one-way tables only; "mondrian" and "hdpview" cut the domain into blocks, `score` saying how cuts are judged.

    Guarantee: epsilon-DP for the declared unit and neighbours. Proof: proofs/view.md
    Error: every answer carries its own; papers/kato_view compares the methods.
    Source: Kato, Takahashi, Cao, Yoshikawa (blocks); McKenna et al. 2021, MST (pairs on a tree).

    >>> View(epsilon="1/2").guarantee().epsilon
    Fraction(1, 2)
    """

    epsilon: Fraction | str | int | float
    neighbours: Neighbours | None = None  # None: the ledger's, else replace-one
    method: Literal["model", "mondrian", "hdpview", "product"] = "model"
    by: tuple[str, ...] | None = None  # the attributes to publish; all of them by default
    score: Literal["error", "spread"] = "error"  # of cuts: the paper's, or |S_left - S * f|

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", exact_epsilon(self.epsilon))
        if self.neighbours is not None:
            check_neighbours(self.neighbours)
        if self.method not in METHODS:
            raise ParameterError("method ({method}) must be model, mondrian, hdpview or product", method=self.method)
        if self.score not in SCORES:
            raise ParameterError("score ({score}) must be error or spread", score=self.score)
        object.__setattr__(self, "by", attributes_asked(self.by))

    def guarantee(self, *, unit: Unit | None = None, neighbours: Neighbours | None = None) -> Guarantee:
        """Tell the promise before any data is opened."""
        relation = self.neighbours or neighbours or "replace"
        return Guarantee(epsilon=Fraction(self.epsilon), neighbours=relation, unit=unit or Unit())

    def preview(self, schema: Schema, *, rows: int | None = None, neighbours: Neighbours | None = None) -> ViewPreview:
        """Tell the noise from public facts, before anything is spent; `rows` is a public estimate of the records."""
        chosen = self._chosen(schema)
        return foresee(chosen, self._budget(chosen, neighbours), self.method, rows=rows)

    def publish(
        self, source: Countable, *, ledger: Ledger | Unrecorded | None = None, rng: Rng | None = None
    ) -> Release:
        """Count, spend, draw, and return the release; an interrupt after the spend leaves it recorded."""
        purse = ledger if ledger is not None else Unrecorded()
        randomness = rng if rng is not None else system_rng()
        schema = self._chosen(source.schema)
        schema.require_confirmed()
        budget = self._budget(schema, purse.neighbours)
        check_noise(budget, self.method, schema)
        expected = foresee(schema, budget, self.method).to_dict()
        counts = source.count(schema.names)
        _check_counts(counts, schema)
        spends = purse.spend(parts(budget, self.method), guarantee=budget.guarantee)
        view = self._view(counts, budget, randomness)
        measures = {}
        if isinstance(view, TableView):
            measures = {"tau_squared": round(view.tau_squared, 6), "floor_variance": round(view.floor, 6)}
        paper = certificate(
            method="view",
            parameters=named(self, neighbours=budget.guarantee.neighbours),
            guarantee=budget.guarantee,
            spends=spends,
            ledger_head=spends[-1].head,
            schema=schema,
            expected_error=expected,
            measures=measures,
            private=randomness.is_private,
        )
        return Release(frames_of(view), paper)

    def draw(self, counts: Counts, *, neighbours: Neighbours | None = None, rng: Rng) -> FittedModel | BlockView:
        """Turn private counts into what is measured: the step that the promise is about. Does not spend; for audits."""
        return self._draw(counts, self._budget(counts.schema, neighbours), rng)

    def _draw(self, counts: Counts, budget: ViewBudget, rng: Rng) -> FittedModel | BlockView:
        _check_counts(counts, counts.schema)
        if self.method in ("mondrian", "hdpview"):
            return draw_blocks(counts, budget.epsilon, self.method, self.score, rng=rng)
        return draw_model(counts, budget, self.method, rng=rng)

    def _view(self, counts: Counts, budget: ViewBudget, rng: Rng) -> TableView | BlockView:
        drawn = self._draw(counts, budget, rng)
        if isinstance(drawn, BlockView):
            return drawn
        factors, shares = replicates(drawn, rng=rng)
        return TableView(
            schema=counts.schema,
            factors=factors,
            bins=drawn.measured.bins,
            shares=tuple(shares),
            tau_squared=model_error(drawn, rng=rng),
            floor=hidden_noise(drawn),
        )

    def _chosen(self, schema: Schema) -> Schema:
        chosen = schema.select(self.by) if self.by is not None else schema
        check_names(chosen.names)
        if chosen.impossible:
            raise SchemaError(
                "a view cannot keep combinations declared impossible empty;"
                " publish attributes without them, or microdata"
            )
        if sum(chosen.sizes) > MOST_VALUES:
            raise ParameterError(
                "the attributes have {values} values, but a view takes at most {most}; declare coarser bins",
                values=sum(chosen.sizes),
                most=MOST_VALUES,
            )
        return chosen

    def _budget(self, schema: Schema, neighbours: Neighbours | None) -> ViewBudget:
        return plan(self.guarantee(unit=schema.unit, neighbours=neighbours))


def _check_counts(counts: Counts, schema: Schema) -> None:
    """Refuse what could only fail after the spend."""
    check_facts(counts, schema)
    if counts.total > MOST_RECORDS:
        raise DomainError("the table has more records than a view can add up exactly ({most})", most=MOST_RECORDS)
