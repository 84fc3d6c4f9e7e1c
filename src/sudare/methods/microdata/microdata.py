"""Records with the columns of the original table: the parameters, the plan, and the order of the paper's steps."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar, Literal

from sudare.counts import Countable, Counts
from sudare.errors import ParameterError
from sudare.methods.base import Expected, Made, Payload, Plan, Progress, Summary
from sudare.methods.budget import CountBudget, measure_total, plan
from sudare.methods.columns import coded, drawn_inside
from sudare.methods.differential import CurrencyMethod, check_facts
from sudare.methods.figures import as_estimates, write_figure
from sudare.methods.microdata import sparse_tree as wide
from sudare.methods.microdata import tree
from sudare.methods.microdata.expected_error import THIN, MicrodataPreview, foresee
from sudare.methods.microdata.measured import MOST_MEASURED, OpenedRecords, frame_measurements, open_records
from sudare.methods.microdata.projection import DENSE_CELLS, check_share, project_noisy, project_sparse
from sudare.methods.microdata.sparse_tree import sparse_tree_fits, sparse_tree_wins
from sudare.methods.parameters import parameter
from sudare.methods.registry import summary_of
from sudare.noise import CountNoise, Rng
from sudare.noise.counting import choose_noise
from sudare.noise.uniform import draw_order
from sudare.privacy import DifferentialPrivacy, Neighbours
from sudare.releases import Frame, Release
from sudare.releases.frame import check_names
from sudare.releases.release import MEASUREMENTS
from sudare.report.shapes import Listing, ReportPage, TruthComparison
from sudare.schema import Schema
from sudare.schema.raw import write_size
from sudare.text import Text, Words, join_clauses, text


def records(table: Counts, *, rng: Rng, inside: bool = False) -> Frame:
    """Write every cell out as often as it counts, rows in random order so that their place tells nothing.

    With `inside`, numbers and dates are drawn within their bins; else bins are published as labels.
    """
    rows = table.expand()[draw_order(table.total, rng=rng)]
    columns = {}
    for position, one in enumerate(table.schema.attributes):
        codes = rows[:, position]
        columns[one.name] = drawn_inside(one, codes, rng=rng) if inside else coded(one, codes)
    return Frame(columns)


# --- which algorithm makes the table: decided from public facts alone ------------------------------------------------


MicrodataAlgorithm = Literal["projection", "tree", "wide"]
MOST_RECORDS = 2**31  # they are held in memory before they are written
MOST_CELLS = 10**300  # beyond, expected errors leave the range of floats
TREE_CELLS = 2**24  # the dense tree holds a few numbers per cell: about 1 GB; beyond, the wide one follows the records


def decide(asked: str, schema: Schema, noise: CountNoise) -> MicrodataAlgorithm:
    """Choose the algorithm: a tree wherever one can be grown and noise matters, since it was never worse.

    `noise` is that of a cell if all is spent on cells and a row is replaced. Measured in papers/terada2017 (dense) and
    benchmarks/microdata_scaling.py (wide).

    >>> from sudare.schema import Attribute, Unit, Values
    >>> sex = Attribute(name="sex", domain=Values(values=("F", "M")))
    >>> from sudare.noise import GeometricNoise
    >>> decide("auto", Schema(name="s", unit=Unit(), attributes=(sex,)), GeometricNoise(scale=Fraction(2)))
    'tree'
    """
    if asked == "projection":
        return "projection"
    if schema.size <= TREE_CELLS:
        return "tree"
    return "wide" if asked == "tree" or sparse_tree_wins(schema, noise) else "projection"


def replaced_row_noise(promise: DifferentialPrivacy) -> CountNoise:
    """Tell the noise of a cell if all is spent on cells and a row is replaced: how strong a promise is."""
    return choose_noise(promise.amount, promise.currency, cells=2, rows=1)


def split_promise(algorithm: MicrodataAlgorithm, schema: Schema, guarantee: DifferentialPrivacy) -> CountBudget:
    """Split the promise for an algorithm: trees also measure sums."""
    share = Fraction(0)
    if algorithm == "tree":
        share = tree.share_of_sums(schema, replaced_row_noise(guarantee))
    elif algorithm == "wide":
        share = wide.share_of_sums(schema)
    is_sparse = algorithm == "wide" or (algorithm == "projection" and schema.size > DENSE_CELLS)
    return plan(guarantee, sums_share=share, is_sparse=is_sparse)


def check_schema(asked: str, schema: Schema) -> None:
    """Refuse a domain that cannot be published, before anything is spent."""
    if schema.size > MOST_CELLS:
        raise ParameterError("the domain has more than 1e300 cells; publish fewer attributes")
    check_names(schema.names)
    possible = schema.possible_size  # refuses a domain without any
    if schema.size > DENSE_CELLS:
        check_share(possible, schema.size)
    if asked == "tree" and schema.size > TREE_CELLS and not sparse_tree_fits(schema):
        raise ParameterError(
            "the declared impossible combinations leave too little of some part of {cells} cells for a tree;"
            " use algorithm auto or projection, or coarser bins",
            cells=schema.size,
        )


def check_counts(algorithm: MicrodataAlgorithm, counts: Counts, schema: Schema, budget: CountBudget) -> None:
    """Refuse what could only fail after the spend: other facts than those promised for, or a table too large."""
    check_facts(counts, schema)
    if budget.total_noise is None and counts.total > MOST_RECORDS:  # public: where it is not, nothing may tell it
        raise ParameterError(
            "the table has more records than can be written ({most}); publish a part", most=MOST_RECORDS
        )
    for noise in budget.noises:
        noise.check()  # refuses noise beyond 64 bits


def make_table(
    algorithm: MicrodataAlgorithm, counts: Counts, budget: CountBudget, *, rng: Rng
) -> tuple[Counts, tree.NoisyCells | None]:
    """From private counts to the published table, and to the measurements that it is made of where they are few."""
    total = min(measure_total(counts, budget, rng=rng), MOST_RECORDS)
    if algorithm == "wide":
        return wide.grow_sparse_tree(counts, budget, total=total, rng=rng), None
    if algorithm == "projection" and counts.schema.size > DENSE_CELLS:
        return project_sparse(counts, budget, total=total, rng=rng), None
    noisy = tree.measure_cells(counts, budget, total=total, rng=rng)
    if algorithm == "tree":
        table = tree.grow_measured(counts.schema, noisy, budget, rng=rng)
    else:
        table = project_noisy(counts.schema, noisy.cells, total=total, rng=rng)
    return table, noisy if counts.schema.possible_size <= MOST_MEASURED else None


# --- the method ------------------------------------------------------------------------------------------------------


HALF = 0.5  # of the mean count of a cell: noise beyond that is not small
CROWDED = 10  # cells a record: beyond, a usual table is not computed through, since it is known to be bad
NAMES: dict[MicrodataAlgorithm, str] = {"tree": "tree", "wide": "tree", "projection": "projection"}  # as asked for


@dataclass(frozen=True, kw_only=True)
class Microdata(CurrencyMethod):
    """Publish records with the columns of the original table.

    The table of all cells gets noise (two-sided geometric under pure epsilon, mostly discrete Gaussian under rho), a
    valid table is made of it (no negative cell, whole numbers, the right total), and its cells are written out as
    records in random order. `algorithm` says how the valid table is made: "projection" is the paper's nearest table;
    "tree" explains the noisy cells from their sums down and is nearer to the truth; "auto" decides from the schema and
    the promise.

    Guarantee: epsilon-DP, or rho-zCDP, for the declared unit and neighbours. Proof: proofs/microdata.md
    Error: before the repair every cell has variance 2a/(1-a)^2, a = exp(-epsilon/sensitivity), or s^2/(2 rho) with s
    the L2 sensitivity; the repair lowers it.
    Source: Terada, Yamaguchi, Hongo 2017, section 4.

    >>> Microdata(epsilon="1/2").guarantee().epsilon
    Fraction(1, 2)
    """

    name: ClassVar[str] = "microdata"
    asked_as = "records"
    summary: ClassVar[Text] = summary_of("microdata")
    title: ClassVar[Text] = text("Published records (microdata), differential privacy")
    publish_help: ClassVar[Text] = text(
        "Publish records with the same columns as DATA, under epsilon-differential privacy."
    )
    preview_help: ClassVar[Text] = text("Show the expected error of a microdata release, from the schema alone.")
    preview_rows = "range"

    algorithm: Literal["auto", "tree", "projection"] = parameter(
        text("how noisy counts become a valid table; auto decides by schema and epsilon"),
        default="auto",
        old_names=("method",),
    )
    values: Literal["labels", "inside"] = parameter(
        text("publish numbers and dates as the labels of their bins, or as values drawn within the bins"),
        default="labels",
    )

    # --- before the data --------------------------------------------------------------------------------------------

    def plan(self, schema: Schema, *, neighbours: Neighbours | None = None) -> Plan:
        """Choose the algorithm and split epsilon; a domain that cannot be published is refused."""
        chosen = self.select(schema)
        check_schema(self.algorithm, chosen)
        algorithm, budget = self._split(chosen, neighbours)
        return Plan(
            promise=budget.guarantee,
            schema=chosen,
            parts=budget.parts,
            expected_error=foresee(chosen, budget).to_dict(),
            decided={"algorithm": NAMES[algorithm]},
            counted=chosen.names,
            steps=(algorithm, budget),
        )

    def preview(
        self,
        schema: Schema,
        *,
        rows: int | tuple[int, ...] = (),
        neighbours: Neighbours | None = None,
        progress: Progress | None = None,
    ) -> MicrodataPreview:
        """Tell the expected error from public facts, before anything is spent.

        `rows` is a public estimate of the number of records, or several of them.
        """
        plan = self.plan(schema, neighbours=neighbours)
        return foresee(self.select(schema), plan.steps[1], rows=as_estimates(rows))

    def explain(self, preview: MicrodataPreview) -> list[Words | Listing]:
        """Tell a preview in lines."""
        advice = preview.advice()
        return [*preview.lines(), *([] if advice is None else [text("advice: {advice}", advice=advice)])]

    def preview_entries(self, preview: MicrodataPreview) -> dict[str, Any]:
        """Give a preview as plain values, with its advice."""
        advice = preview.advice()
        return {"expected_error": preview.to_dict(), "advice": None if advice is None else str(advice)}

    def expect(self, schema: Schema, *, rows: int | None = None, neighbours: Neighbours | None = None) -> Expected:
        """Tell how far a cell will be off, and what a table of so many records will be like."""
        is_crowded = rows is not None and self.select(schema).possible_size > CROWDED * rows
        found = self.preview(schema, rows=() if is_crowded or rows is None else rows, neighbours=neighbours)
        words = text("a cell is off by {deviation}", deviation=write_figure(found.cell_standard_deviation))
        if rows is None:
            return Expected(words=words, figures=found.to_dict())
        mean = write_figure(rows / found.cells)
        if is_crowded:
            more = text("cells hold {mean} records on average, so single cells will be mostly noise", mean=mean)
            return Expected(words=join_clauses([words, more]), figures=found.to_dict(), is_small=False)
        more = text(
            "cells hold {mean} records on average; {share} of the published records would lie in cells that hold"
            " nobody",
            mean=mean,
            share=f"{found.outlooks[0].empty_share:.0%}",
        )
        is_small = not found.is_bad and found.cell_standard_deviation <= HALF * rows / found.cells
        # A usual answer counts one value of an attribute: it adds up cells / size cells.
        size = statistics.median_low(attribute.size for attribute in self.select(schema).attributes)
        relative = found.cell_standard_deviation * math.sqrt(found.cells / size) * size / rows
        return Expected(
            words=join_clauses([words, more]), figures=found.to_dict(), is_small=is_small, relative=relative
        )

    # --- with the data ----------------------------------------------------------------------------------------------

    def check(self, counts: Counts, plan: Plan) -> None:
        """Refuse what could only fail after the spend."""
        algorithm, budget = plan.steps
        check_counts(algorithm, counts, plan.facts, budget)

    def make(self, counts: Counts, plan: Plan, *, rng: Rng) -> Payload:
        """Draw the table, write it out as records, and put what was measured beside them."""
        algorithm, budget = plan.steps
        check_counts(algorithm, counts, counts.schema, budget)
        table, noisy = make_table(algorithm, counts, budget, rng=rng)
        frames = {"records": records(table, rng=rng, inside=self.values == "inside")}
        return Payload(frames=frames if noisy is None else {**frames, MEASUREMENTS: frame_measurements(noisy)})

    def draw(self, counts: Counts, *, neighbours: Neighbours | None = None, rng: Rng) -> Counts:
        """Turn private counts into the published table: the step that the promise is about.

        It does not spend; `publish` does so first. Audits call it many times.
        """
        algorithm, budget = self._split(counts.schema, neighbours)
        check_counts(algorithm, counts, counts.schema, budget)
        return make_table(algorithm, counts, budget, rng=rng)[0]

    def summarise(self, made: Made, *, out: Path) -> Summary:
        """Tell how many records there are, and when a view would have served better: all numbers are public by now."""
        records, cells = made.release.frames["records"].rows, made.plan.expected_error["cells"]
        headline = text("{rows} records published in {out}", rows=records, out=out)
        if cells <= THIN * records:
            chosen = Schema.from_dict(made.release.certificate.schema)
            noise = foresee(chosen, made.plan.steps[1], rows=(records,)).advice()
            return Summary(headline=headline, rows=records, advice=[] if noise is None else [noise])
        advice = text(
            "with {cells} possible cells for {records} records, combinations of attributes are mostly noise."
            " `sudare preview microdata --schema SCHEMA {amount} --rows {records}` tells more; records"
            " drawn from a view keep more",
            cells=write_size(cells),
            records=records,
            amount=self.amount_flags,
        )
        return Summary(headline=headline, rows=records, advice=[advice])

    @classmethod
    def page(
        cls, release: Release, *, directory: Path | None = None, truth: TruthComparison | None = None
    ) -> ReportPage:
        """Describe published records: attribute by attribute, and on a map if they have a mesh."""
        from sudare.methods.microdata.page import describe_page

        return describe_page(release, title=cls.title, truth=truth)

    @classmethod
    def open_release(cls, release: Release) -> OpenedRecords:
        """Open a release for questions in SQL; one without measurements is refused."""
        return open_records(release)

    @classmethod
    def compare(cls, release: Release, truth: Countable) -> TruthComparison:
        """Compare published records with the true table: for the steward alone."""
        from sudare.methods.microdata.page import compare_release

        return compare_release(release, truth)

    def _split(self, schema: Schema, neighbours: Neighbours | None) -> tuple[MicrodataAlgorithm, CountBudget]:
        promise = self.guarantee(unit=schema.unit, neighbours=neighbours)
        algorithm = decide(self.algorithm, schema, replaced_row_noise(promise))
        return algorithm, split_promise(algorithm, schema, promise)
