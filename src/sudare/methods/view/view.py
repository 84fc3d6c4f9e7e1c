"""A compact view: its expected noise, the parameters, the plan, and the order of the paper's steps."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from sudare.counts import Countable, Counts
from sudare.errors import DomainError, ParameterError, SchemaError
from sudare.methods.base import Expected, Made, Payload, Plan, Progress, Summary
from sudare.methods.differential import CurrencyMethod, check_facts
from sudare.methods.figures import ShownPreview, as_estimates, write_figure
from sudare.methods.parameters import parameter
from sudare.methods.registry import summary_of
from sudare.methods.view.blocks import BlockView
from sudare.methods.view.budget import (
    MOST_PAIRS_BEYOND,
    BudgetSplit,
    ViewBudget,
    bins_wanted,
    by_size,
    count_tables,
    find_varying,
    parts,
    plan,
    split_budget,
    split_epsilon,
)
from sudare.methods.view.design import GroupedMargin, design_pairs, design_tables
from sudare.methods.view.exam import CLASSES, exam_noise, examine, plan_exam
from sudare.methods.view.leaves import cut_schema
from sudare.methods.view.model import FittedModel, draw_model
from sudare.methods.view.mondrian import costs, draw_blocks, find_stop
from sudare.methods.view.published import frames_of, tell_pairs
from sudare.methods.view.residual import are_few, passes_gate
from sudare.methods.view.tables import TableView
from sudare.methods.view.uncertainty import (
    faint_noise,
    group_leaves,
    hidden_noise,
    model_error,
    replicates,
    weigh_records,
)
from sudare.noise import CountNoise, Rng
from sudare.noise.geometric import LARGEST_SCALE
from sudare.privacy import Neighbours
from sudare.releases import Certificate, Release
from sudare.releases.claims import CheckedClaim
from sudare.releases.frame import check_names
from sudare.report.shapes import Listing, ReportPage, TruthComparison
from sudare.schema import Schema
from sudare.schema.raw import write_size
from sudare.text import Text, Words, join_clauses, text

MOST_ROWS = 10**15
LEAST_SHARE = 5000  # a pair of d attributes gets more than 1/(5000 d) of epsilon, however the shares come out


@dataclass(frozen=True, kw_only=True, slots=True)
class ViewPreview(ShownPreview):
    """The noise of what is measured, before anything is fitted.

    `value_standard_deviation`: of a value of each attribute that has several, as if the product were published (blocks:
    None).
    `rows` and what follows from it are filled in when an estimate of the number of records was given.
    """

    cells: int
    attributes: int
    value_standard_deviation: dict[str, float]
    block_standard_deviation: float | None = None
    measures_pairs: bool | None = None
    bins: int | None = None
    pairs: int | None = None  # that can be measured at most, unless attributes turn out to depend densely
    may_measure_all: bool = False  # if they do, and records are as many as estimated

    def lines(self) -> list[Text]:
        """Tell it in a few lines."""
        found = [text("possible cells: {cells}", cells=write_size(self.cells))]
        if self.block_standard_deviation is not None:
            block = f"{self.block_standard_deviation:.2f}"
            found.append(text("noise of a block: standard deviation of at least {deviation}", deviation=block))
        for name, value in self.value_standard_deviation.items():
            off = f"{value:.2f}"
            found.append(text("noise of a value of {name}: standard deviation {deviation}", name=name, deviation=off))
        if self.measures_pairs is True:
            found.append(
                text("pairs of attributes are measured with about {bins} bins for each attribute", bins=self.bins)
            )
            found += self._describe_pairs()
        elif self.measures_pairs is False:
            found.append(
                text(
                    "attributes are treated as independent: with so few records, measuring pairs is not worth its"
                    " cost; spend more, or publish fewer attributes"
                )
            )
        return found

    def _describe_pairs(self) -> list[Text]:
        """Say how many pairs cannot be measured, and what is said about them."""
        possible = math.comb(self.attributes, 2)
        if self.pairs is None or self.pairs >= possible:
            return []
        found = text(
            "about {pairs} of the {possible} pairs of attributes can be measured at this budget, those that stand"
            " out most; what is said about the others follows from chains of measured pairs or, without any, from"
            " independence, and answers say so",
            pairs=self.pairs,
            possible=possible,
        )
        more = text("where most pairs turn out to depend on each other, all of them are measured instead")
        return [found, more] if self.may_measure_all else [found]

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers for a certificate or a program."""
        told: dict[str, Any] = {"cells": self.cells}
        if self.block_standard_deviation is not None:
            told["block_standard_deviation"] = round(self.block_standard_deviation, 6)
        else:
            told["value_standard_deviation"] = {k: round(v, 6) for k, v in self.value_standard_deviation.items()}
        if self.measures_pairs is not None:
            told |= {"measures_pairs": self.measures_pairs, "bins": self.bins, "pairs": self.pairs}
        return told


def foresee(schema: Schema, budget: ViewBudget, algorithm: str, *, rows: int | None = None) -> ViewPreview:
    """Compute the preview of a run."""
    if rows is not None and not 0 <= rows <= MOST_ROWS:
        raise ParameterError("rows ({rows}) must be between 0 and {most}", rows=rows, most=MOST_ROWS)
    cells, attributes = schema.size, len(schema.attributes)
    if algorithm in ("mondrian", "hdpview"):
        plan = costs(budget, schema, algorithm)
        # the whole table as one block has the least noise
        deviation = math.sqrt(plan.leaf_noise(1, tested=cells > 1 and plan.deepest > 1).variance)
        return ViewPreview(
            cells=cells, attributes=attributes, value_standard_deviation={}, block_standard_deviation=deviation
        )
    varying = find_varying(schema.sizes)
    shares = split_budget(algorithm, budget, records=float(rows or 0), sizes=varying)
    each = by_size(shares.ones, schema.sizes, currency=budget.currency)
    some_vary = max(schema.sizes) > 1  # how many have the only value of an attribute is the number of records
    deviations = {
        name: math.sqrt(budget.noise(share).variance)
        for name, size, share in zip(schema.names, schema.sizes, each, strict=True)
        if size > 1 or not some_vary
    }
    if rows is None:
        return ViewPreview(cells=cells, attributes=attributes, value_standard_deviation=deviations)
    return ViewPreview(
        cells=cells,
        attributes=attributes,
        value_standard_deviation=deviations,
        measures_pairs=bool(shares.forest),
        bins=bins_wanted(float(rows), budget.strength(count_tables(algorithm, len(varying))), len(varying)),
        pairs=shares.picks + shares.more,
        may_measure_all=_may_measure_all(schema, budget, shares, float(rows)),
    )


def _may_measure_all(schema: Schema, budget: ViewBudget, shares: BudgetSplit, records: float) -> bool:
    """Tell whether so many records, evenly spread, would let a probe ask whether all pairs are measured."""
    varying = [one for one in schema.attributes if one.size > 1]
    pairs, extras = math.comb(len(varying), 2) - shares.picks, min(shares.more, shares.picks)
    if not extras or not extras < pairs <= MOST_PAIRS_BEYOND:
        return False
    bins = bins_wanted(records, budget.strength(count_tables("model", len(varying))), len(varying))
    margins = [
        GroupedMargin(mass=np.ones(min(one.size, bins)), is_ordered=one.is_ordered, is_last_apart=False)
        for one in varying
    ]
    part = shares.extras + shares.choices * shares.more / (shares.picks + shares.more)
    choose_design = design_tables if are_few(pairs, extras) else design_pairs
    design = choose_design(margins, part, budget, pairs=pairs, records=records)
    return passes_gate(records / design.deviation, pairs=pairs, extras=extras, at_once=design.matrix is not None)


def check_noise(budget: ViewBudget, algorithm: str, schema: Schema) -> None:
    """Refuse noise beyond 64 bits before anything is spent, whatever shares the noisy number of records leads to."""
    if algorithm in ("mondrian", "hdpview"):
        plan = costs(budget, schema, algorithm)
        noises = (find_stop(plan, algorithm).noise, plan.leaf_noise(plan.deepest, tested=True))
        if budget.is_concentrated:
            _check_all(noises)
            return
        largest = max(Fraction(noise.scale) for noise in noises)
    else:
        exam = plan_exam(budget.amount - (budget.total_part or 0), len(schema.sizes))
        if exam:  # one attribute needs none
            exam_noise(exam, budget).check()
        if budget.is_concentrated:
            _check_concentrated(budget, schema)
            return
        shares = split_epsilon("model", budget.amount, records=math.inf, sizes=schema.sizes)
        least = min(*by_size(shares.ones, schema.sizes), budget.amount / (LEAST_SHARE * len(schema.sizes)))
        largest = 1 / least
    if largest > LARGEST_SCALE:
        raise ParameterError("scale ({scale}) must be at most 2**50; raise epsilon", scale=largest)


def _check_concentrated(budget: ViewBudget, schema: Schema) -> None:
    """Look at the least part that any table can get, whatever the noisy number of records leads to."""
    shares = split_budget("model", budget, records=math.inf, sizes=schema.sizes)
    each = by_size(shares.ones, schema.sizes, currency=budget.currency)
    parts = (*each, budget.amount / (LEAST_SHARE * len(schema.sizes)) ** 2)
    _check_all(budget.noise(part) for part in parts)


def _check_all(noises: Iterable[CountNoise]) -> None:
    for noise in noises:
        noise.check()


# --- the method ------------------------------------------------------------------------------------------------------

MOST_RECORDS = 2**53  # counts are added in floats, exact up to here
MOST_VALUES = 2**20  # of all attributes together: each gets noise of its own
SMALL_ERROR = 0.1  # of what is measured: an error up to here is called small


@dataclass(frozen=True, kw_only=True)
class View(CurrencyMethod):
    """Publish a compact view that answers any count, each with an interval, without a budget for questions.

    `algorithm`: "model" measures one-way tables and privately chosen pairs and fits a junction tree; "product" measures
    one-way tables only; "mondrian" and "hdpview" cut the domain into blocks, `score` saying how cuts are judged.

    Guarantee: epsilon-DP, or rho-zCDP, for the declared unit and neighbours. Proof: proofs/view.md
    Error: every answer carries its own; papers/kato_view compares the algorithms.
    Source: Kato, Takahashi, Cao, Yoshikawa (blocks); McKenna et al. 2021, MST (pairs on a tree).

    >>> View(epsilon="1/2").guarantee().epsilon
    Fraction(1, 2)
    """

    name: ClassVar[str] = "view"
    summary: ClassVar[Text] = summary_of("view")
    asked_as = "view"
    title: ClassVar[Text] = text("A view that answers counts (view), differential privacy")
    publish_help: ClassVar[Text] = text(
        "Publish a compact view of DATA that answers any count, under epsilon-differential privacy."
    )
    preview_help: ClassVar[Text] = text("Show the noise of a view, from the schema alone.")
    preview_rows = "number"

    algorithm: Literal["model", "mondrian", "hdpview", "product"] = parameter(
        text("how the view is made"), default="model", old_names=("method",)
    )
    score: Literal["error", "spread"] = parameter(  # of cuts: the paper's, or |S_left - S * f|
        text("how the cuts of blocks are scored (mondrian, hdpview)"), default="error"
    )

    # --- before the data --------------------------------------------------------------------------------------------

    def plan(self, schema: Schema, *, neighbours: Neighbours | None = None) -> Plan:
        """Split epsilon; a schema that a view cannot honour, and noise beyond 64 bits, are refused."""
        chosen = self._chosen(schema)
        budget = self._budget(chosen, neighbours)
        check_noise(budget, self.algorithm, chosen)
        return Plan(
            promise=budget.guarantee,
            schema=chosen,
            parts=parts(budget, self.algorithm),
            expected_error=foresee(chosen, budget, self.algorithm).to_dict(),
            counted=chosen.names,
            finer=cut_schema(chosen) if self.algorithm in ("model", "product") else None,
            steps=budget,
        )

    def preview(
        self,
        schema: Schema,
        *,
        rows: int | tuple[int, ...] | None = None,
        neighbours: Neighbours | None = None,
        progress: Progress | None = None,
    ) -> ViewPreview:
        """Tell the noise from public facts, before anything is spent; `rows` is a public estimate of the records.

        Of several estimates the smallest is taken: with it the fewest pairs are measured.
        """
        chosen = self._chosen(schema)
        budget = self._budget(chosen, neighbours)
        return foresee(chosen, budget, self.algorithm, rows=min(as_estimates(rows), default=None))

    def explain(self, preview: ViewPreview) -> list[Words | Listing]:
        """Tell a preview in lines."""
        return [*preview.lines()]

    def expect(self, schema: Schema, *, rows: int | None = None, neighbours: Neighbours | None = None) -> Expected:
        """Look at an attribute of a usual size, or at a block."""
        found = self.preview(schema, rows=rows, neighbours=neighbours)
        if found.block_standard_deviation is not None:
            off = write_figure(found.block_standard_deviation)
            return Expected(words=text("a block is off by at least {deviation}", deviation=off),
                            figures=found.to_dict())  # fmt: skip
        sizes = {attribute.name: attribute.size for attribute in self.select(schema).attributes
                 if attribute.name in found.value_standard_deviation}  # fmt: skip
        name = sorted(sizes, key=lambda one: (sizes[one], one))[len(sizes) // 2]
        deviation = write_figure(found.value_standard_deviation[name])
        words = text("a value of {name} is off by {deviation}", name=name, deviation=deviation)
        if rows is None:
            return Expected(words=words, figures=found.to_dict())
        more = text("its values hold {mean} records on average", mean=write_figure(rows / sizes[name]))
        pairs = (
            text("pairs of attributes are measured too")
            if found.measures_pairs
            else text("there are too few records to measure how attributes depend on each other")
        )
        shares = [found.value_standard_deviation[one] * size / rows for one, size in sizes.items()] if rows else [1.0]
        relative = statistics.median(shares)
        return Expected(
            words=join_clauses([words, more, pairs]),
            figures=found.to_dict(),
            is_small=relative <= SMALL_ERROR,
            relative=relative,
        )

    # --- with the data ----------------------------------------------------------------------------------------------

    def check(self, counts: Counts, plan: Plan) -> None:
        """Refuse what could only fail after the spend."""
        is_finer = plan.finer is not None and counts.schema.fingerprint == plan.finer.fingerprint
        _check_counts(counts, counts.schema if is_finer else plan.facts)

    def make(self, counts: Counts, plan: Plan, *, rng: Rng) -> Payload:
        """Measure, fit, and find out how uncertain the fit is."""
        drawn = self._draw(counts, plan.steps, rng, declared=plan.facts)
        if isinstance(drawn, BlockView):
            return Payload(frames=frames_of(drawn))
        factors, shares = replicates(drawn, rng=rng)
        view = TableView(
            schema=plan.facts,
            axes=tuple(grown.axis for grown in drawn.leaves),
            factors=factors,
            bins=tuple(bins[grown.cell_of_leaf] for bins, grown in zip(drawn.measured.bins, drawn.leaves, strict=True)),
            shares=tuple(shares),
            faint=tuple(faint_noise(drawn, place, share[0]) for place, share in enumerate(shares)),
            groups=tuple(group_leaves(drawn, place, share[0]) for place, share in enumerate(shares)),
            tau_squared=model_error(drawn, rng=rng),
            floor=hidden_noise(drawn),
            records=weigh_records(drawn, factors, rng=rng),
            measured=drawn.measured_pairs,
            is_gaussian=drawn.measured.is_gaussian,
        )
        if drawn.exam:
            view = replace(view, scales=_examine(view, drawn, counts, plan.steps, rng))
        measures = {"pair_variance": round(view.tau_squared, 6), "floor_variance": round(view.floor, 6)}
        measures |= {f"scale_{name}": round(scale, 6) for name, scale in zip(CLASSES, view.scales, strict=True)}
        return Payload(frames=frames_of(view), measures=measures | tell_pairs(view))

    def draw(self, counts: Counts, *, neighbours: Neighbours | None = None, rng: Rng) -> FittedModel | BlockView:
        """Turn private counts into what is measured: the step that the promise is about. Does not spend; for audits."""
        return self._draw(counts, self._budget(counts.schema, neighbours), rng)

    def observe(self, drawn: FittedModel | BlockView, counts: Counts) -> list[float]:
        """Read off what was measured of the first two cells, by attribute or in their blocks, and the total."""
        cells = counts.columns()[:2]
        if isinstance(drawn, BlockView):
            inside = [((drawn.lows <= cell) & (cell <= drawn.highs)).all(axis=1) for cell in cells]
            return [*(float(drawn.counts[block].sum()) for block in inside), float(drawn.counts.sum())]
        values = [
            float(each.values[code]) for cell in cells for each, code in zip(drawn.measured.ones, cell, strict=True)
        ]
        return [*values, float(drawn.measured.total)]

    def summarise(self, made: Made, *, out: Path) -> Summary:
        """Tell how many numbers the view stores: those of its tables, which are no rows of people."""
        rows = sum(frame.rows for frame in made.release.frames.values())
        return Summary(
            headline=text("a view that stores {numbers} numbers published in {out}", numbers=rows, out=out), rows=rows
        )

    @classmethod
    def page(
        cls, release: Release, *, directory: Path | None = None, truth: TruthComparison | None = None
    ) -> ReportPage:
        """Describe what a view holds and how sure its values are."""
        from sudare.methods.view.page import describe_page

        return describe_page(release, title=cls.title, truth=truth)

    @classmethod
    def compare(cls, release: Release, truth: Countable) -> TruthComparison:
        """Compare the answers of a view with the truth: for the steward alone."""
        from sudare.methods.view.page import compare_release

        return compare_release(release, truth)

    @classmethod
    def recheck(cls, certificate: Certificate, directory: Path) -> list[CheckedClaim]:
        """Compare labels and edges of all values with the schema, and the convenience tables with the model."""
        from sudare.methods.view.recheck import recheck_view

        return [*super().recheck(certificate, directory), *recheck_view(certificate, directory)]

    def _draw(
        self, counts: Counts, budget: ViewBudget, rng: Rng, *, declared: Schema | None = None
    ) -> FittedModel | BlockView:
        _check_counts(counts, counts.schema)
        if self.algorithm in ("mondrian", "hdpview"):
            return draw_blocks(counts, budget, self.algorithm, self.score, rng=rng)
        return draw_model(counts, budget, self.algorithm, declared=declared, rng=rng)

    def _chosen(self, schema: Schema) -> Schema:
        chosen = self.select(schema)
        check_names(chosen.names)
        if chosen.impossible:
            raise SchemaError(
                "a view cannot keep impossible combinations empty; publish attributes without them, or publish"
                " microdata"
            )
        if sum(chosen.sizes) > MOST_VALUES:
            raise ParameterError(
                "the attributes have {values} values together, but a view takes at most {most}; declare coarser bins",
                values=sum(chosen.sizes),
                most=MOST_VALUES,
            )
        return chosen

    def _budget(self, schema: Schema, neighbours: Neighbours | None) -> ViewBudget:
        return plan(self.guarantee(unit=schema.unit, neighbours=neighbours))


def _examine(view: TableView, drawn: FittedModel, counts: Counts, budget: ViewBudget, rng: Rng) -> tuple[float, ...]:
    """Ask the finished view how far it is off: the last thing that is measured."""
    leaves = [
        np.searchsorted(grown.starts, counts.column(name), side="right") - 1
        for name, grown in zip(counts.schema.names, drawn.leaves, strict=True)
    ]
    return examine(view, leaves, counts.values, budget=budget, part=drawn.exam, blind=drawn.is_blind, rng=rng)


def _check_counts(counts: Counts, schema: Schema) -> None:
    """Refuse what could only fail after the spend."""
    check_facts(counts, schema)
    if counts.total > MOST_RECORDS:
        raise DomainError("the table has more records than a view can add up exactly ({most})", most=MOST_RECORDS)
