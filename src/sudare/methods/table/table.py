"""Counts of any size with sums over regions: what is published, the parameters, the plan, and the order of steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from sudare.counts import Countable, Counts
from sudare.errors import ParameterError
from sudare.methods.base import Expected, Made, Payload, Plan, Progress, Summary
from sudare.methods.budget import CountBudget, measure_total, plan
from sudare.methods.columns import coded
from sudare.methods.differential import CurrencyMethod, check_facts
from sudare.methods.figures import as_estimates, write_figure
from sudare.methods.parameters import parameter
from sudare.methods.registry import summary_of
from sudare.methods.table.expected_error import DrawTable, TablePreview, foresee, simulate
from sudare.methods.table.haar import check_wavelet_schema
from sudare.methods.table.maps import picture_files
from sudare.methods.table.morton import CellOrder
from sudare.methods.table.tree import Focus, grow_table, plan_tree, tree_fits
from sudare.methods.table.wavelet import draw_wavelet
from sudare.noise import CountNoise, Rng
from sudare.privacy import Neighbours
from sudare.releases import Certificate, Coded, Frame, Release
from sudare.releases.claims import CheckedClaim
from sudare.releases.frame import check_names
from sudare.releases.geo import write_geojson, write_geoparquet
from sudare.report.shapes import Listing, ReportPage, TruthComparison
from sudare.schema import Attribute, MeshCells, Schema
from sudare.schema.arrays import Codes, Integers
from sudare.text import Text, Words, join_clauses, text

COUNT = "count"


def frames(table: Counts) -> dict[str, Frame]:
    """Tables of the release: `cells` with decoded columns, `rollups` with the sums of every declared level."""
    found = {"cells": _cells(table)}
    if any(each.height for each in table.schema.attributes):
        found["rollups"] = _rollups(table)
    return found


def count_on_map(table: Counts) -> tuple[MeshCells, Codes, Integers] | None:
    """Count people by the cells of the first mesh, all other attributes added up; None without one."""
    for each in table.schema.attributes:
        if isinstance(each.domain, MeshCells):
            by_mesh = table.project([each.name])
            inside = by_mesh.codes[:, 0] < each.domain.size  # missing and other places are not on the map
            return each.domain, by_mesh.codes[inside, 0], by_mesh.values[inside]
    return None


def map_files(table: Counts) -> Mapping[str, Callable[[Path], object]]:
    """Files for maps, if an attribute is a mesh: people by mesh cell."""
    on_map = count_on_map(table)
    if on_map is None:
        return {}
    given: dict[str, Any] = {"cells": on_map[0], "codes": on_map[1], "columns": {COUNT: on_map[2]}}
    return {"map.geojson": partial(write_geojson, **given), "map.parquet": partial(write_geoparquet, **given)}


def _cells(table: Counts) -> Frame:
    """Cells in the order of their codes, which tells nothing: the mechanism published which of them exist."""
    columns = table.columns()
    named = {one.name: coded(one, columns[:, place]) for place, one in enumerate(table.schema.attributes)}
    return Frame({**named, COUNT: table.values})


def _rollups(table: Counts) -> Frame:
    """Sums by attribute and level, in long form: attribute, level, group, count."""
    parts = [_rollup(table, one, level) for one in table.schema.attributes for level in range(1, one.height + 1)]
    names, levels, groups, counts = (np.concatenate(each) for each in zip(*parts, strict=True))
    return Frame({"attribute": _texts(names), "level": levels, "group": _texts(groups), COUNT: counts})


def _rollup(table: Counts, one: Attribute, level: int) -> tuple[np.ndarray, ...]:
    sums = table.project([one.name]).coarsen({one.name: level})
    labels = sums.schema.attribute(one.name).labels(sums.codes[:, 0])
    size = sums.nonzero
    return np.full(size, one.name, dtype=object), np.full(size, level), labels, sums.values


def _texts(texts: np.ndarray) -> Coded:
    numbers: dict[object, int] = {}
    codes = np.array([numbers.setdefault(text, len(numbers)) for text in texts.tolist()], dtype=np.int64)
    labels = np.empty(len(numbers), dtype=object)
    labels[:] = list(numbers)
    return Coded(codes, labels)


# --- the method ------------------------------------------------------------------------------------------------------

TableAlgorithm = Literal["tree", "wavelet"]
MOST_RECORDS = 2**52  # counts up to here are exact in the sums of all levels
MOST_CELLS = 10**300  # numbers of cells are weighed in floats
SMALL = 0.1  # of what is measured: an error up to here is called small
PART = 20  # a region is looked at that is about so small a part of the table


@dataclass(frozen=True, kw_only=True)
class Table(CurrencyMethod):
    """Publish counts over a table of any size, with sums over regions that people can use.

    `algorithm` is "tree" (the default: noise on sums from the top down, rows made valid) or "wavelet" (the paper's).
    `focus` says what matters to the tree: "cells", "regions" (the default) or "both"; it sets the share of epsilon on
    the cells. Counts are whole numbers, never negative, and add up at every level of every declared hierarchy; under
    replace-one the total is exact.

    Guarantee: epsilon-DP, or rho-zCDP, for the declared unit and neighbours. Proof: proofs/table.md, proofs/wavelet.md
    Error: `preview`; empty cells come out too high and large ones too low.
    Source: Terada et al., large sparse count tables; Hay et al. 2010.

    >>> Table(epsilon="1/2").guarantee().epsilon
    Fraction(1, 2)
    """

    name: ClassVar[str] = "table"
    summary: ClassVar[Text] = summary_of("table")
    title: ClassVar[Text] = text("Published counts (table), differential privacy")
    publish_help: ClassVar[Text] = text("Publish counts of DATA over all cells, with sums over regions.")
    preview_help: ClassVar[Text] = text(
        "Show the expected error of cells and regions of a table, from the schema alone."
    )
    preview_rows = "range"

    algorithm: TableAlgorithm = parameter(
        text("a tree of sums, or the wavelet of the paper"), default="tree", old_names=("method",)
    )
    focus: Focus = parameter(
        text("what should be most accurate: single cells, sums over regions, or both"), default="regions"
    )

    def __post_init__(self) -> None:
        CurrencyMethod.__post_init__(self)
        if self.algorithm == "wavelet" and self.focus != "regions":
            raise ParameterError("the wavelet takes no focus; leave it out, or use algorithm tree")

    # --- before the data --------------------------------------------------------------------------------------------

    def plan(self, schema: Schema, *, neighbours: Neighbours | None = None) -> Plan:
        """Split epsilon over the levels; a domain that cannot be published is refused."""
        chosen = self._chosen(schema)
        budget = self._budget(chosen, neighbours)
        return Plan(
            promise=budget.guarantee,
            schema=chosen,
            parts=budget.parts,
            expected_error=foresee(self.algorithm, chosen, budget).to_dict(),
            counted=chosen.names,
            steps=budget,
        )

    def preview(
        self,
        schema: Schema,
        *,
        rows: int | tuple[int, ...] = (),
        neighbours: Neighbours | None = None,
        progress: Progress | None = None,
    ) -> TablePreview:
        """Tell the expected error of cells and regions from public facts, before anything is spent.

        For each number of records in `rows`, a public estimate, a made-up table is published too, to tell how many of
        the published cells will be noise.
        """
        chosen = self._chosen(schema)
        budget = self._budget(chosen, neighbours)
        trials = tuple(simulate(chosen, estimate, self._drawing(budget)) for estimate in as_estimates(rows))
        return foresee(self.algorithm, chosen, budget, trials=trials)

    def explain(self, preview: TablePreview) -> list[Words | Listing]:
        """Tell a preview in lines."""
        advice = preview.advice()
        return [*preview.lines(), *([] if advice is None else [text("advice: {advice}", advice=advice)])]

    def preview_entries(self, preview: TablePreview) -> dict[str, Any]:
        """Give a preview as plain values, with its advice."""
        advice = preview.advice()
        return {"expected_error": preview.to_dict(), "advice": None if advice is None else str(advice)}

    def expect(self, schema: Schema, *, rows: int | None = None, neighbours: Neighbours | None = None) -> Expected:
        """Look at a cell, and at a region of about a twentieth of the table; in a huge one at a part of the tree."""
        found = self.preview(schema, neighbours=neighbours)
        regions = dict(found.regions)
        size = min(regions, key=lambda block: abs(PART * block - found.cells))
        share, deviation = Fraction(size, found.cells), regions[size]
        words = text("a cell is off by {deviation}", deviation=write_figure(regions[1]))
        if found.cells > PART * max(regions) and found.levels:
            nodes, noise = next((level for level in found.levels if level[0] >= PART), found.levels[-1])
            share, deviation = Fraction(1, nodes), math.sqrt(noise.variance)
            parts = text(
                "one of {parts} parts of the table by {deviation}", parts=nodes, deviation=write_figure(deviation)
            )
            words = join_clauses([words, parts])
        elif size > 1:
            region = text("a region of {cells} cells by {deviation}", cells=size, deviation=write_figure(deviation))
            words = join_clauses([words, region])
        if rows is None:
            return Expected(words=words, figures=found.to_dict())
        if self.focus == "cells":
            share, deviation = Fraction(1, found.cells), regions[1]
        mean = float(rows * share)
        more = (
            text("a cell holds {mean} records on average", mean=write_figure(mean))
            if share * found.cells == 1
            else text("such a sum holds {mean} records on average", mean=write_figure(mean))
        )
        return Expected(
            words=join_clauses([words, more]),
            figures=found.to_dict(),
            is_small=deviation <= SMALL * mean,
            relative=deviation / mean if mean else None,
        )

    # --- with the data ----------------------------------------------------------------------------------------------

    def check(self, counts: Counts, plan: Plan) -> None:
        """Refuse what could only fail after the spend."""
        check_counts(counts, plan.facts, plan.steps, self._noises(plan.facts, plan.steps))

    def make(self, counts: Counts, plan: Plan, *, rng: Rng) -> Payload:
        """Draw the table; its cells, sums and maps are published."""
        table = self.draw(counts, neighbours=plan.steps.guarantee.neighbours, rng=rng)
        tables = frames(table)
        return Payload(frames=tables, files={**map_files(table), **picture_files(tables["cells"], table.schema)})

    def draw(self, counts: Counts, *, neighbours: Neighbours | None = None, rng: Rng) -> Counts:
        """Turn private counts into the published table: the step that the promise is about.

        It does not spend; `publish` does so first. Audits call it many times.
        """
        budget = self._budget(counts.schema, neighbours)
        check_counts(counts, counts.schema, budget, self._noises(counts.schema, budget))
        return self._drawing(budget)(counts, rng)

    def summarise(self, made: Made, *, out: Path) -> Summary:
        """Tell how many rows of counts there are."""
        rows = sum(frame.rows for frame in made.release.frames.values())
        return Summary(headline=text("{rows} rows of counts published in {out}", rows=rows, out=out), rows=rows)

    @classmethod
    def page(
        cls, release: Release, *, directory: Path | None = None, truth: TruthComparison | None = None
    ) -> ReportPage:
        """Describe published counts and sums over regions."""
        from sudare.methods.table.page import describe_page

        return describe_page(release, title=cls.title, truth=truth)

    @classmethod
    def compare(cls, release: Release, truth: Countable) -> TruthComparison:
        """Compare published counts with the true table: for the steward alone."""
        from sudare.methods.table.compare import compare_release

        return compare_release(release, truth)

    @classmethod
    def recheck(cls, certificate: Certificate, directory: Path) -> list[CheckedClaim]:
        """Work out also the sums of every level and the maps again, from the cells."""
        from sudare.methods.table.recheck import recheck_sums

        claims = super().recheck(certificate, directory)
        is_readable = all(claim.passed for claim in claims)  # labels that are unknown cannot be added up
        return [*claims, *(recheck_sums(certificate, directory) if is_readable else ())]

    def _drawing(self, budget: CountBudget) -> DrawTable:
        def draw(counts: Counts, rng: Rng) -> Counts:
            total = measure_total(counts, budget, rng=rng)
            if self.algorithm == "tree":
                return grow_table(counts, budget, focus=self.focus, total=total, rng=rng)
            return draw_wavelet(counts, budget, total=total, rng=rng)

        return draw

    def _noises(self, schema: Schema, budget: CountBudget) -> tuple[CountNoise, ...]:
        """The noise of all levels."""
        return tuple(noise for _, noise in foresee(self.algorithm, schema, budget).levels)

    def _chosen(self, schema: Schema) -> Schema:
        chosen = self.select(schema)
        check_names((*chosen.names, "count"))
        if chosen.size > MOST_CELLS:
            raise ParameterError("the domain has more than 1e300 cells; publish fewer attributes")
        chosen.possible_size  # noqa: B018  (refuses a domain without any)
        if self.algorithm == "wavelet":
            check_wavelet_schema(chosen)
            CellOrder(schema=chosen, order="morton")
        elif not tree_fits(chosen):
            raise ParameterError(
                "the declared impossible combinations leave too little of some part of {cells} cells for a tree;"
                " declare an attribute of the possible combinations instead, or coarser bins",
                cells=chosen.size,
            )
        return chosen

    def _budget(self, schema: Schema, neighbours: Neighbours | None) -> CountBudget:
        promise = self.guarantee(unit=schema.unit, neighbours=neighbours)
        return plan_tree(schema, promise, self.focus) if self.algorithm == "tree" else plan(promise, is_sparse=True)


def check_counts(counts: Counts, schema: Schema, budget: CountBudget, noises: Iterable[CountNoise]) -> None:
    """Refuse what could only fail after the spend: other facts than those promised for, or a table too large."""
    check_facts(counts, schema)
    if counts.total >= MOST_RECORDS:
        raise ParameterError("the table has 2**52 records or more; count in coarser units")
    for noise in (*budget.noises, *noises):
        noise.check()  # refuses noise beyond 64 bits
