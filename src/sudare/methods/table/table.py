"""Counts of any size with sums over regions: what is published, the parameters, the plan, and the order of steps."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from sudare.counts import Countable, Counts
from sudare.errors import ParameterError
from sudare.forms.kinds import FilePath, NameList, TextLine
from sudare.methods.base import Expected, Made, OpenTable, Payload, Plan, Progress, Summary
from sudare.methods.budget import CountBudget, measure_total, plan
from sudare.methods.differential import CurrencyMethod
from sudare.methods.figures import as_estimates, write_figure
from sudare.methods.parameters import ExtraFile, parameter
from sudare.methods.registry import summary_of
from sudare.methods.table.area_files import area_files
from sudare.methods.table.draw import DrawnTable, check_counts, check_given, draw_levels
from sudare.methods.table.expected_error import TablePreview, foresee, foresee_large, foresee_levels, simulate
from sudare.methods.table.frames import frames, map_files
from sudare.methods.table.haar import check_wavelet_schema
from sudare.methods.table.large import (
    is_opened_in_steps,
    large_noises,
    plan_large,
)
from sudare.methods.table.large_measured import grow_large
from sudare.methods.table.levels import (
    DensityRule,
    LeafLayout,
    LevelShares,
    add_crowded,
    can_be_thin,
    divide_by_density,
    find_density_rule,
    find_layout,
    level_noises_of,
    plan_levels,
    read_shares,
)
from sudare.methods.table.link_plan import (
    choose_specs,
    foresee_tables,
    join_shares,
    plain_workload,
    read_totals,
    take_exact,
)
from sudare.methods.table.linked import NOT_GIVEN, TableSpec
from sudare.methods.table.maps import picture_files
from sudare.methods.table.margins import COUNT, MARGIN, UNBIASED
from sudare.methods.table.morton import CellOrder
from sudare.methods.table.possible_halves import check_boxes
from sudare.methods.table.squares import (
    SquareLayout,
    find_map_sides,
    find_mesh_sides,
    find_mix_sides,
    fits_squares,
    read_sides,
)
from sudare.methods.table.tree import DENSE_CELLS, Focus, grow_table, plan_tree, tree_fits
from sudare.methods.table.wavelet import draw_wavelet
from sudare.methods.table.workload import MIX, add_mesh_sides, add_sides, choose_shares, join_mix, read_items
from sudare.methods.table.years import link_years
from sudare.noise import CountNoise, Rng
from sudare.privacy import Ledger, Neighbours
from sudare.releases import Certificate, Release
from sudare.releases.claims import CheckedClaim
from sudare.releases.frame import check_names
from sudare.releases.release import MEASUREMENTS
from sudare.report.shapes import Listing, ReportPage, TruthComparison
from sudare.schema import Areas, Schema, Unit
from sudare.text import Text, Words, join_clauses, text

if TYPE_CHECKING:
    from sudare.methods.table.asked import OpenedTable


# --- the method ------------------------------------------------------------------------------------------------------

TableAlgorithm = Literal["squares", "tree", "wavelet"]
MOST_CELLS = 10**300  # numbers of cells are weighed in floats
SMALL = 0.1  # of what is measured: an error up to here is called small
FOCUS_WORKLOADS = {"cells": "cells", "both": "cells,mix", "regions": ""}
PART = 20  # a region is looked at that is about so small a part of the table


@dataclass(frozen=True, kw_only=True)
class Table(CurrencyMethod):
    """Publish counts over a table of any size, with sums over regions that people can use.

    `algorithm` is "squares" (the default: noisy sums of the squares of a map, or of declared levels, published beside
    the table, so that every figure has a margin of error), "tree" (that of the first version: noise on sums from the
    top down, rows made valid) or "wavelet" (the paper's). `workload` says what will be asked, and sets the shares of
    the levels; `shares` gives them outright. `focus` does so for the tree: "cells", "regions" (the default) or "both".
    Counts are whole numbers, never negative, and add up at every level of every declared hierarchy; under replace-one
    the total is exact.

    Guarantee: epsilon-DP, or rho-zCDP, for the declared unit and neighbours.
    Proof: proofs/squares.md, proofs/table.md, proofs/wavelet.md
    Error: `preview`; empty cells come out too high and large ones too low. Unbiased figures stand beside them.
    Source: Terada et al., large sparse count tables; Hay et al. 2010.

    >>> Table(epsilon="1/2").guarantee().epsilon
    Fraction(1, 2)
    """

    name: ClassVar[str] = "table"
    summary: ClassVar[Text] = summary_of("table")
    asked_as = "cells"
    title: ClassVar[Text] = text("Published counts (table), differential privacy")
    publish_help: ClassVar[Text] = text("Publish counts of DATA over all cells, with sums over regions.")
    preview_help: ClassVar[Text] = text(
        "Show the expected error of cells and regions of a table, from the schema alone."
    )
    preview_rows = "range"
    extra_files = (
        ExtraFile(
            kind=FilePath(example='"municipalities.csv"'),
            name="areas",
            metavar="FILE",
            help=text(
                "areas of the cells, such as municipalities: a CSV (cell, area of every level) or polygons in GeoJSON;"
                " several files with commas"
            ),
        ),
    )

    algorithm: TableAlgorithm = parameter(
        text(
            "squares of a map and levels of groups, with a margin of error for every figure; the tree of the first"
            " version; or the wavelet of the paper"
        ),
        default="squares",
        old_names=("method",),
    )
    workload: str = parameter(
        text(
            "what will be asked: mix (cells, squares, irregular regions and rectangles in equal parts), a list such as"
            " cells,8,mesh:1, or a CSV file of regions"
        ),
        kind=TextLine(example='"mix"'),
        default=MIX,
        metavar="LIST",
        used_with={"algorithm": ("squares",)},
    )
    shares: tuple[str, ...] | None = parameter(
        text(
            "shares of the promise by level, from the largest sums to the cells (default: those that serve the"
            " workload; on a map by the noisy density of squares)"
        ),
        kind=NameList(example='["1/4", "1/4", "1/2"]'),
        default=None,
        metavar="NUMBERS",
        used_with={"algorithm": ("squares",)},
    )
    sides: tuple[str, ...] | None = parameter(
        text(
            "sides of the squares of a map that are measured, in cells from large to small, such as 64,16,4,1 (default:"
            " those that serve the workload)"
        ),
        kind=NameList(example='["64", "16", "4", "1"]'),
        default=None,
        metavar="NUMBERS",
        used_with={"algorithm": ("squares",)},
    )
    tables: tuple[str, ...] | None = parameter(
        text(
            "further tables of this release by attributes and areas, with their shares of the promise, such as"
            " municipality=1/4,municipality*age; or a CSV file (table, share)"
        ),
        kind=NameList(example='["municipality=1/4", "municipality*age"]'),
        default=None,
        metavar="LIST",
        used_with={"algorithm": ("squares",)},
    )
    exact: tuple[str, ...] | None = parameter(
        text(
            "numbers that are published exactly: total, or a level of areas. They come from others (totals), or from"
            " the table (exact-from-data)"
        ),
        kind=NameList(example='["prefecture"]'),
        default=None,
        metavar="NAMES",
        used_with={"algorithm": ("squares",)},
    )
    totals: tuple[str, ...] | None = parameter(
        text("exact numbers that others have published: a CSV file (level, area, count)"),
        kind=NameList(example='["totals.csv"]'),
        default=None,
        metavar="FILE",
        used_with={"algorithm": ("squares",)},
    )
    exact_from_data: bool = parameter(
        text("take exact numbers from the table itself: nothing is promised about them, and the certificate says so"),
        default=False,
        used_with={"exact_from_data": ("True",)},
    )
    continues: str | None = parameter(
        text(
            "an earlier release over the same cells that this one continues; the same people are counted again, so the"
            " whole promise is charged"
        ),
        kind=TextLine(example='"census-2025"'),
        default=None,
        metavar="DIR",
        used_with={"algorithm": ("squares",)},
    )
    area_rule: str | None = parameter(
        text("cells on a border: largest (whole to the largest share), centre (polygons) or split (by share)"),
        kind=TextLine(example='"largest"'),
        default=None,
        metavar="RULE",
        is_certified=False,
    )
    area_levels: tuple[str, ...] | None = parameter(
        text("the columns or properties of the area file that are levels of areas (default: all)"),
        kind=NameList(example='["municipality", "prefecture"]'),
        default=None,
        metavar="NAMES",
        is_certified=False,
    )
    focus: Focus = parameter(
        text("what should be most accurate in a tree: single cells, sums over regions, or both"), default="regions"
    )

    def __post_init__(self) -> None:
        CurrencyMethod.__post_init__(self)
        if self.algorithm == "wavelet" and self.focus != "regions":
            raise ParameterError("the wavelet takes no focus; leave it out, or use algorithm tree")
        if self.algorithm != "squares" and (self.workload != MIX or self.shares or self.sides):
            raise ParameterError("workload, shares and sides belong to algorithm squares; leave them out, or use it")
        if self.workload != MIX and self.focus != "regions":
            raise ParameterError("focus and workload say the same twice; give one of them")
        if self.algorithm != "squares" and (self.tables or self.exact):
            raise ParameterError("further tables and exact numbers need algorithm squares; leave them out, or use it")
        if bool(self.exact) != (self.exact_from_data or self.totals is not None):
            raise ParameterError(
                "exact numbers need a source, and a source needs exact: give totals (published by others), or"
                " exact-from-data, which takes them from the table and leaves them without any promise"
            )
        if self.exact_from_data and self.totals is not None:
            raise ParameterError("exact numbers come from totals or from the table; give one of the two")

    # --- before the data --------------------------------------------------------------------------------------------

    def guarantee(self, *, unit: Unit | None = None, neighbours: Neighbours | None = None) -> Any:
        """Tell the promise; numbers that are taken exactly from the table are named in it."""
        promise = super().guarantee(unit=unit, neighbours=neighbours)
        return dataclasses.replace(promise, exact=self.exact or ()) if self.exact_from_data else promise

    def open_extra(self, name: str, path: Path | str, facts: Schema, *, open_table: OpenTable) -> tuple[Areas, ...]:
        """Read area files; several are written with commas."""
        files = [part.strip() for part in str(path).split(",")]
        return tuple(Areas.read(file, facts, rule=self.area_rule, levels=self.area_levels) for file in files)

    def warn(self, facts: Schema, *, ledger: Ledger | None = None, areas: tuple[Areas, ...] = ()) -> list[Text]:
        """Say it loudly where the promise leaves something out, and where people are counted again."""
        notes = [note for division in (*facts.areas, *areas) for note in division.notes]
        if self.totals is not None:
            notes.append(text("the totals of others are taken as right: no margin allows for errors in them"))
        if self.exact_from_data:
            names = ", ".join(self.exact or ())
            notes.append(text("published exactly as in the table, without any promise: {names}", names=names))
        if self.continues is not None:
            notes.append(text("people who were counted in the earlier release pay for both: the promises add up"))
        return notes

    def plan(self, schema: Schema, *, neighbours: Neighbours | None = None, areas: tuple[Areas, ...] = ()) -> Plan:
        """Split epsilon over the levels and further tables; a domain that cannot be published is refused."""
        if not areas and (self.area_rule is not None or self.area_levels is not None):
            raise ParameterError(
                "area_rule and area_levels belong to the file of --areas; for areas of the schema write rule and levels"
                " under [[areas]]"
            )
        chosen = self._chosen(schema.with_areas(*areas))
        for division in areas:
            if division not in chosen.areas:
                names = ", ".join(division.attributes)
                raise ParameterError(
                    "areas of {names} need these attributes in the table; publish them too", names=names
                )
        plan = self.plan_noise(chosen, neighbours=neighbours)
        error = self._foresee(chosen, plan.steps).to_dict()
        return dataclasses.replace(plan, expected_error=error, decided=self._decided(chosen))

    def plan_noise(self, schema: Schema, *, neighbours: Neighbours | None = None) -> Plan:
        """Plan promise and noise alone: what a reader of the noisy sums needs, without foreseeing any error."""
        chosen = self._chosen(schema)
        budget = self._budget(chosen, neighbours)
        return Plan(promise=budget.guarantee, schema=chosen, parts=budget.parts, expected_error={},
                    counted=chosen.names, steps=budget)  # fmt: skip

    def preview(
        self,
        schema: Schema,
        *,
        rows: int | tuple[int, ...] = (),
        neighbours: Neighbours | None = None,
        progress: Progress | None = None,
        areas: tuple[Areas, ...] = (),
    ) -> TablePreview:
        """Tell the expected error of cells and regions from public facts, before anything is spent.

        For each number of records in `rows`, a public estimate, a made-up table is published too, to tell how many of
        the published cells will be noise. What a run would warn of is told now.
        """
        chosen = self._chosen(schema.with_areas(*areas))
        budget = self._budget(chosen, neighbours)
        draw = partial(self._draw_table, budget=budget)
        trials = tuple(simulate(chosen, estimate, draw) for estimate in as_estimates(rows))
        notes = tuple(self.warn(schema, areas=areas))
        return dataclasses.replace(self._foresee(chosen, budget), trials=trials, notes=notes)

    def explain(self, preview: TablePreview) -> list[Words | Listing]:
        """Tell a preview in lines."""
        advice = preview.advice()
        return [*preview.lines(), *([] if advice is None else [text("advice: {advice}", advice=advice)])]

    def preview_entries(self, preview: TablePreview) -> dict[str, Any]:
        """Give a preview as plain values, with its advice."""
        advice = preview.advice()
        told = {"expected_error": preview.to_dict(), "advice": None if advice is None else str(advice)}
        return told if not preview.notes else {**told, "notes": [str(note) for note in preview.notes]}

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
        check_counts(counts, plan.facts, plan.steps, self._all_noises(plan.facts, plan.steps))
        check_given(counts, plan.steps)

    def make(self, counts: Counts, plan: Plan, *, rng: Rng) -> Payload:
        """Draw the table; its cells, sums and maps are published, and the noisy sums they were made of."""
        self.check(counts, plan)
        declared = Counts(plan.facts, counts.codes, counts.values, counts.total)
        drawn = self._draw(declared, plan.steps, rng)
        tables = frames(drawn.table, drawn.measured)
        maps = map_files(drawn.table, drawn.measured)
        pictures = picture_files(tables["cells"], drawn.table.schema, drawn.measured)
        return Payload(frames=tables, files={**maps, **pictures, **area_files(tables, drawn.measured)})

    def draw(self, counts: Counts, *, neighbours: Neighbours | None = None, rng: Rng) -> Counts:
        """Turn private counts into the published table: the step that the promise is about.

        It does not spend; `publish` does so first. Audits call it many times.
        """
        budget = self._budget(counts.schema, neighbours)
        check_counts(counts, counts.schema, budget, self._all_noises(counts.schema, budget))
        return self._draw(counts, budget, rng).table

    def summarise(self, made: Made, *, out: Path) -> Summary:
        """Tell how many rows of counts there are; the noisy sums they were made of are no further counts."""
        rows = sum(frame.rows for name, frame in made.release.frames.items() if name != MEASUREMENTS)
        return Summary(headline=text("{rows} rows of counts published in {out}", rows=rows, out=out), rows=rows)

    @classmethod
    def page(
        cls, release: Release, *, directory: Path | None = None, truth: TruthComparison | None = None
    ) -> ReportPage:
        """Describe published counts and sums over regions."""
        from sudare.methods.table.page import describe_page

        return describe_page(release, title=cls.title, truth=truth)

    @classmethod
    def open_release(cls, release: Release) -> OpenedTable:
        """Open a release for questions in SQL."""
        from sudare.methods.table.asked import open_table

        return open_table(release)

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

    def _draw_table(self, counts: Counts, rng: Rng, *, budget: CountBudget) -> Counts:
        return self._draw(counts, budget, rng).table

    def _draw(self, counts: Counts, budget: CountBudget, rng: Rng) -> DrawnTable:
        layout = self.layout_of(counts.schema)
        if layout is not None:
            schema, rule = counts.schema, self.rule_of(counts.schema, budget)
            noises, more = self.noises_of(schema, budget), self.table_noises_of(schema, budget)
            specs = self.specs_of(schema)
            return draw_levels(counts, layout, noises, budget, specs=specs, more=more, rng=rng, rule=rule)
        total = measure_total(counts, budget, rng=rng)
        if self.is_large(counts.schema):
            table, measured = grow_large(counts, budget, total=total, rng=rng)
            return DrawnTable(table=table, measured=measured)
        if self.algorithm == "wavelet":
            return DrawnTable(table=draw_wavelet(counts, budget, total=total, rng=rng))
        return DrawnTable(table=grow_table(counts, budget, focus=self.focus, total=total, rng=rng))

    def layout_of(self, schema: Schema) -> LeafLayout | None:
        """The levels that are measured and published; None for the tree and the wavelet, and for large tables."""
        return find_layout(schema, self._sides(schema)) if self.algorithm == "squares" else None

    def _sides(self, schema: Schema) -> tuple[int, ...] | None:
        """The sides of squares: those given, else by the workload; None for those of an earlier version."""
        if self.sides is not None:
            return read_sides(self.sides, schema)
        workload, usual = FOCUS_WORKLOADS[self.focus] or self.workload, find_map_sides(schema)
        if self._can_be_thin(schema, workload):
            mix = find_mix_sides(schema)
            if mix != (usual or find_mesh_sides(schema)):
                return mix
        if not usual:
            return add_mesh_sides(workload, schema) if self.shares is None else None
        if self.shares is not None:
            earlier = find_layout(schema)
            if earlier is not None and len(self.shares) == len(earlier.sizes):
                return None  # releases that have shares and no sides are of an earlier version
        return add_sides(workload, usual)

    def _can_be_thin(self, schema: Schema, workload: str) -> bool:
        """Tell whether a map may be so thin that its cells are hardly measured: where the mix is asked and no more."""
        is_plain = workload == MIX and self.shares is None and not (schema.areas or self.tables or self.exact)
        return is_plain and can_be_thin(self.guarantee()) and fits_squares(schema, DENSE_CELLS)

    def is_large(self, schema: Schema) -> bool:
        """Tell whether a table is opened by halves where people are: it is too large to visit every cell."""
        return self.algorithm == "squares" and self.layout_of(schema) is None and is_opened_in_steps(schema)

    def _shares(self, schema: Schema) -> LevelShares | None:
        layout = self.layout_of(schema)
        if layout is None:
            return None
        if self.shares is None:
            workload = plain_workload(FOCUS_WORKLOADS[self.focus] or self.workload, schema)
            return self._serve(workload, schema, layout)
        return read_shares(self.shares, layout)

    def _serve(self, workload: str, schema: Schema, layout: LeafLayout) -> LevelShares:
        """Choose the shares for a workload; with the mix in it they are divided by density."""
        items, usual = read_items(workload, layout), find_layout(schema, find_map_sides(schema) or None)
        if MIX in items and len(items) > 1 and self.sides is None and isinstance(layout, SquareLayout):
            if not isinstance(usual, SquareLayout):
                raise AssertionError("a map stays a map whatever is asked")
            return join_mix(workload, layout, divide_by_density(usual, usual.weights), usual.sides)
        shares = choose_shares(workload, layout)
        return divide_by_density(layout, shares) if workload == MIX else LevelShares(by_class=(shares,))

    def specs_of(self, schema: Schema) -> tuple[TableSpec, ...]:
        """The further tables of a release."""
        layout = self.layout_of(schema)
        if layout is None:
            return ()
        return choose_specs(self.tables, FOCUS_WORKLOADS[self.focus] or self.workload, self.exact or (), schema, layout)

    def _decided(self, schema: Schema) -> dict[str, object]:
        layout, shares = self.layout_of(schema), self._shares(schema)
        if layout is None or shares is None:
            return {}
        decided: dict[str, object] = {"shares": shares.write()}
        if isinstance(layout, SquareLayout) and self._sides(schema) is not None:
            decided["sides"] = tuple(map(str, layout.map_sides))
        specs = [spec for spec in self.specs_of(schema) if not spec.is_exact]
        if specs or self.tables is not None:
            decided["tables"] = tuple(map(str, specs))
        if self.continues is not None:
            decided["continues"] = link_years(self.continues, schema)
        if self.totals is not None:
            decided["totals"] = tuple(map(str, read_totals(self.totals, self.exact or (), schema, layout) or ()))
        return decided

    def _foresee(self, schema: Schema, budget: CountBudget) -> TablePreview:
        layout = self.layout_of(schema)
        if self.is_large(schema):
            return foresee_large(schema, budget)
        if layout is None:
            return foresee("wavelet" if self.algorithm == "wavelet" else "tree", schema, budget)
        noises, more = self.noises_of(schema, budget), self.table_noises_of(schema, budget)
        preview = foresee_levels(layout, noises, budget, self.rule_of(schema, budget))
        specs = self.specs_of(schema)
        if not specs and not schema.areas:
            return preview
        known = 0.0 if budget.total_noise is None else budget.total_noise.variance
        return dataclasses.replace(preview, tables=foresee_tables(layout, schema, specs, noises, more, known))

    def _joined_shares(self, schema: Schema) -> LevelShares | None:
        """The shares of further tables, or of the crowded records, then those of all levels."""
        shares, specs = self._shares(schema), self.specs_of(schema)
        if shares is None or not (specs or schema.areas):
            return shares and add_crowded(shares, self.guarantee())
        return LevelShares(by_class=tuple(join_shares(own, specs) for own in shares.by_class), few=shares.few)

    def table_noises_of(self, schema: Schema, budget: CountBudget) -> tuple[CountNoise, ...]:
        """The noise of the further tables that are measured."""
        layout, shares = self.layout_of(schema), self._joined_shares(schema)
        return () if shares is None or layout is None else level_noises_of(shares.middle, budget)[: -len(layout.sizes)]

    def noises_of(self, schema: Schema, budget: CountBudget) -> tuple[CountNoise, ...]:
        """The noise of all levels; on a map, of squares that are neither thin nor dense."""
        layout, shares = self.layout_of(schema), self._joined_shares(schema)
        if shares is not None and layout is not None:
            return level_noises_of(shares.middle, budget)[-len(layout.sizes) :]
        if self.is_large(schema):
            return tuple(noise for _, noise in large_noises(schema, budget))
        return tuple(noise for _, noise in foresee(self.algorithm, schema, budget).levels)

    def rule_of(self, schema: Schema, budget: CountBudget) -> DensityRule | None:
        """How noisy density decides on the noise of cells; None where it decides nothing."""
        shares, layout = self._joined_shares(schema), self.layout_of(schema)
        if shares is None or layout is None:
            return None
        rule = find_density_rule(shares, budget)
        tables = len(shares.middle) - len(layout.sizes)
        return None if rule is None else dataclasses.replace(rule, level=rule.level - tables)

    def _all_noises(self, schema: Schema, budget: CountBudget) -> tuple[CountNoise, ...]:
        rule = self.rule_of(schema, budget)
        by_rule = () if rule is None else rule.every_noise
        return (*self.table_noises_of(schema, budget), *self.noises_of(schema, budget), *by_rule)

    def _chosen(self, schema: Schema) -> Schema:
        chosen = self.select(schema)
        if self.layout_of(chosen) is None and (chosen.areas or self.tables or self.exact):
            raise ParameterError(
                "areas, further tables and exact numbers need algorithm squares, and a table of at most {most} cells",
                most=DENSE_CELLS,
            )
        check_names((*chosen.names, COUNT, *((UNBIASED, MARGIN) if self.algorithm == "squares" else ())))
        if chosen.size > MOST_CELLS:
            raise ParameterError("the domain has more than 1e300 cells; publish fewer attributes")
        chosen.possible_size  # noqa: B018  (refuses a domain without any)
        if self.algorithm == "wavelet":
            check_wavelet_schema(chosen)
            check_boxes(CellOrder(schema=chosen, order="morton"))
        elif not tree_fits(chosen):
            raise ParameterError(
                "the declared impossible combinations leave too little of some part of {cells} cells for a tree;"
                " declare an attribute of the possible combinations instead, or coarser bins",
                cells=chosen.size,
            )
        return chosen

    def _budget(self, schema: Schema, neighbours: Neighbours | None) -> CountBudget:
        promise = self.guarantee(unit=schema.unit, neighbours=neighbours)
        shares, layout = self._joined_shares(schema), self.layout_of(schema)
        if shares is not None and layout is not None:
            budget = plan_levels(promise, shares.middle)
            given = read_totals(self.totals, self.exact or (), schema, layout)
            is_known = bool(self.exact) and (given is None or NOT_GIVEN not in given)
            return take_exact(budget, given=given, is_total_exact=is_known)
        if self.is_large(schema):
            return plan_large(schema, promise)
        return plan(promise, is_sparse=True) if self.algorithm == "wavelet" else plan_tree(schema, promise, self.focus)
