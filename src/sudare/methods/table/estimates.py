"""Any figure of a stored table with its margin of error: read back the noisy sums, and answer from them.

    figures = TableFigures.load("population")
    figures.sum(mesh=["53394526"])          a cell, a list of cells, or a cell of a coarser mesh
    figures.sum(x="[0,64)", y="[8,16)")     a rectangle; attributes that are not named are added up
    figures.region(cells)                   any list of cells, as rows of labels

`count` is what the published table says: it adds up, is never negative, and is biased where places are thin.
`unbiased` is the estimate from all noisy sums; the true number lies between `low` and `high` in at least 95 of 100
cases. Where the number of records is public, no figure is told to be above it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sudare.counts import Counts
from sudare.errors import ParameterError, ReleaseError
from sudare.methods.recheck import read_parameters
from sudare.methods.table.link_plan import read_given
from sudare.methods.table.linked import MeasuredSums, TableSpec, find_partition, link, measured_specs
from sudare.methods.table.margins import COUNT, find_margin
from sudare.methods.table.measured import MeasuredTable
from sudare.releases import Certificate, Frame, Release
from sudare.releases.columns import find_frame, read_codes, read_numbers
from sudare.releases.release import MEASUREMENTS
from sudare.schema import Schema
from sudare.schema.arrays import Codes, Integers, Reals

if TYPE_CHECKING:
    from sudare.methods.base import Plan
    from sudare.methods.table.large_measured import LargeMeasured
    from sudare.methods.table.table import Table

MOST_NOISY = 2**62


@dataclass(frozen=True, kw_only=True)
class TableFigure:
    """A figure of a table: published, unbiased, and how far the truth may be."""

    count: int
    unbiased: float
    standard_error: float
    low: float
    high: float

    def to_dict(self) -> dict[str, float]:
        """Plain values."""
        return {
            "count": self.count,
            "unbiased": round(self.unbiased, 3),
            "standard_error": round(self.standard_error, 3),
            "low": round(self.low, 3),
            "high": round(self.high, 3),
        }

    def __str__(self) -> str:
        return f"{self.count} (unbiased {self.unbiased:.1f}, 95 %: {self.low:.1f} to {self.high:.1f})"


@dataclass(frozen=True, kw_only=True, eq=False)
class TableFigures:
    """A published table with its noisy sums."""

    measured: MeasuredTable
    table: Counts

    @classmethod
    def load(cls, release: Release | str | Path) -> TableFigures:
        """Read a release, or the directory of one.

        Error: ReleaseError if it is not a table with noisy sums.
        """
        made = release if isinstance(release, Release) else Release.load(release)
        table, measured = read_table(made)
        if not isinstance(measured, MeasuredTable):
            raise ReleaseError("the table is large: not every cell was measured; open it with LargeFigures")
        return cls(measured=measured, table=table)

    @property
    def schema(self) -> Schema:
        """The table."""
        return self.table.schema

    @cached_property
    def published(self) -> Integers:
        """The published counts, by leaf."""
        counts = np.zeros(self.measured.layout.sizes[-1], dtype=np.int64)
        counts[self.measured.layout.leaves(self.table.columns())] = self.table.values
        return counts

    @cached_property
    def cells(self) -> tuple[Codes, Codes]:
        """All possible cells: their leaves, and their codes (m, attributes)."""
        leaves = np.flatnonzero(self.measured.layout.is_possible)
        return leaves, self.measured.layout.columns(leaves)

    def answer(self, leaves: Codes, weights: Reals | None = None) -> TableFigure:
        """Give the figure of a set of leaves, or of their sum with weights."""
        held = self.measured.squares.answer(leaves, weights)
        count = self.published[leaves].sum() if weights is None else (self.published[leaves] * weights).sum()
        factor = self.measured.factor_for(leaves, weights)
        margin = float(find_margin(factor, np.array(held.standard_error), weights=weights))
        least = 0.0 if weights is None or bool((weights >= 0).all()) else -np.inf
        is_part = weights is None or bool((weights <= 1).all())
        most = self.measured.public_total if is_part else np.inf
        return TableFigure(
            count=round(float(count)),
            unbiased=held.estimate,
            standard_error=held.standard_error,
            low=min(max(held.estimate - margin, least), most),
            high=min(max(held.estimate + margin, least), most),
        )

    def sum(self, **labels: str | Sequence[str]) -> TableFigure:
        """Give the figure of all cells with these labels: one or several for an attribute, also unions of bins."""
        leaves, columns = self.cells
        inside = np.ones(len(leaves), dtype=bool)
        for name, wanted in labels.items():
            attribute = self.schema.attribute(name)
            spans = [attribute.codes(label) for label in ([wanted] if isinstance(wanted, str) else wanted)]
            is_wanted = np.zeros(attribute.size, dtype=bool)
            for span in spans:
                is_wanted[span.start : span.stop] = True
            inside &= is_wanted[columns[:, self.schema.names.index(name)]]
        return self.answer(leaves[inside])

    def region(self, cells: Iterable[Mapping[str, str | None]]) -> TableFigure:
        """Give the figure of a list of cells, each a mapping from the names of all attributes to labels."""
        rows = [[one.code(cell.get(one.name)) for one in self.schema.attributes] for cell in cells]
        if not rows:
            raise ParameterError("the list of cells is empty; name at least one cell")
        codes = np.array(rows, dtype=np.int64)
        leaves = np.unique(self.measured.layout.leaves(codes))
        return self.answer(leaves[self.measured.layout.is_possible[leaves]])


# --- reading ---------------------------------------------------------------------------------------------------------


def read_table(made: Release) -> tuple[Counts, MeasuredTable | LargeMeasured]:
    """Read the published counts and the noisy sums of a release.

    Error: ReleaseError if it is not a table with noisy sums.
    """
    if MEASUREMENTS not in made.frames:
        raise ReleaseError(
            "the release has no noisy sums, so its figures have no margins; publish a table with algorithm squares"
        )
    schema = Schema.from_dict(made.certificate.schema)
    cells = find_frame(made, "cells").columns
    codes = np.column_stack([read_codes(one, cells[one.name]) for one in schema.attributes])
    table = Counts.from_columns(schema, codes, read_numbers(cells[COUNT]).astype(np.int64))
    return table, read_measurements(made.certificate, made.frames[MEASUREMENTS])


def read_measurements(certificate: Certificate, frame: Frame) -> MeasuredTable | LargeMeasured:
    """Read the noisy sums of a release: levels and noise follow from the certificate, and every node must be there.

    Error: ReleaseError if they are not those of the promise.
    """
    from sudare.methods.table.large_measured import read_large
    from sudare.methods.table.table import Table  # the method knows its noise from its parameters

    method, schema = Table(**read_parameters(Table, certificate)), Schema.from_dict(certificate.schema)
    neighbours: Any = certificate.neighbours or None
    plan = method.plan_noise(schema, neighbours=neighbours)
    if method.is_large(plan.facts) and set(frame.columns) == {"level", "node", "noisy", "open"}:
        return read_large(plan.facts, plan.steps, {name: _read_whole(frame, name) for name in frame.columns})
    layout = method.layout_of(plan.facts)
    if layout is None or set(frame.columns) != {"level", "node", "noisy"}:
        raise ReleaseError("the noisy sums do not belong to the promise of this release; get it again")
    levels, nodes, noisy = (_read_whole(frame, name) for name in ("level", "node", "noisy"))
    specs = method.specs_of(plan.facts)
    own = [find_partition(plan.facts, layout, spec.names) for spec in measured_specs(specs)]
    expected = [np.zeros(1, dtype=np.int64), *(np.flatnonzero(cells > 0) for cells in layout.possible_cells)]
    expected += [np.arange(len(groups.keys)) for groups in own]
    rule = method.rule_of(plan.facts, plan.steps)
    total = sum(noisy[levels == 0].tolist())  # one number, or the frame is refused below
    has_crowded = rule is not None and rule.choose_crowd(total, layout.possible_cells[rule.level]) is not None
    expected += [np.zeros(1, dtype=np.int64)] * has_crowded
    order, starts = _sort_nodes(levels, nodes, expected)
    values = [np.zeros(size, dtype=np.int64) for size in layout.sizes]
    for level, held in enumerate(expected[1 : len(values) + 1], start=1):
        values[level - 1][held] = noisy[order[starts[level] : starts[level + 1]]]
    total_noise = plan.steps.total_noise
    measured = MeasuredTable(
        layout=layout,
        noises=method.noises_of(plan.facts, plan.steps),
        noisy=tuple(values),
        total=total,
        total_variance=0.0 if total_noise is None else total_noise.variance,
        rule=rule,
        crowded=int(noisy[order[-1]]) if has_crowded else 0,
    )
    if not (specs or plan.facts.areas):
        return measured
    more = [noisy[order[low:high]] for low, high in itertools.pairwise(starts[len(values) + 1 :].tolist())]
    return link(measured, plan.facts, specs, _read_sums(method, plan, specs, more))


def _sort_nodes(levels: Integers, nodes: Integers, expected: Sequence[Integers]) -> tuple[Codes, Codes]:
    """Sort noisy sums by level and node, and tell where every level begins; refuse them unless all are there, once."""
    order: Codes = np.lexsort((nodes, levels))
    starts: Codes = np.cumsum([0, *(len(each) for each in expected)])
    is_whole = len(nodes) == starts[-1] and all(
        np.array_equal(nodes[order[low:high]], each) and bool((levels[order[low:high]] == level).all())
        for level, (low, high, each) in enumerate(zip(starts[:-1], starts[1:], expected, strict=True))
    )
    if not is_whole:
        raise ReleaseError("noisy sums are missing, or listed twice; the release is damaged, get it again")
    return order, starts


def _read_sums(method: Table, plan: Plan, specs: Sequence[TableSpec], more: Sequence[Integers]) -> list[MeasuredSums]:
    """The sums of further tables; those that others published must be theirs."""
    left = iter(method.table_noises_of(plan.facts, plan.steps))
    found = []
    for spec, noisy in zip(measured_specs(specs), more, strict=True):
        given = read_given(plan.steps.given) if spec.is_exact else None
        if given is not None and not np.array_equal(given, noisy):
            raise ReleaseError(
                "the exact totals are not those of the certificate; the release is damaged, get it again"
            )
        found.append(MeasuredSums(spec=spec, noise=None if spec.is_exact else next(left), noisy=noisy))
    return found


def _read_whole(frame: Frame, name: str) -> Integers:
    column: Any = read_numbers(frame.columns[name])
    if not (np.isfinite(column).all() and (column == np.floor(column)).all() and (np.abs(column) < MOST_NOISY).all()):
        raise ReleaseError("noisy sums must be whole numbers; the release is damaged, get it again")
    whole: Integers = column.astype(np.int64)
    return whole
