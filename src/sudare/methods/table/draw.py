"""The private step of a table whose levels are measured: noise on sums, then one table of them; what is refused."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from sudare.counts import Counts
from sudare.errors import ParameterError
from sudare.methods.budget import CountBudget
from sudare.methods.differential import check_facts
from sudare.methods.table.large_measured import LargeMeasured
from sudare.methods.table.levels import DensityRule, LeafLayout
from sudare.methods.table.link_plan import LinkedBudget, read_given
from sudare.methods.table.link_repair import repair_linked
from sudare.methods.table.linked import LinkedTable, TableSpec, link, measure_sums
from sudare.methods.table.measured import MeasuredTable, measure_levels
from sudare.methods.table.repair import repair
from sudare.noise import CountNoise, Rng
from sudare.schema import Schema

MOST_RECORDS = 2**52  # counts up to here are exact in the sums of all levels


@dataclass(frozen=True, kw_only=True, eq=False)
class DrawnTable:
    """A published table, with the noisy sums it was made of where they are published."""

    table: Counts
    measured: MeasuredTable | LargeMeasured | None = None


def draw_levels(
    counts: Counts,
    layout: LeafLayout,
    noises: tuple[CountNoise, ...],
    budget: CountBudget,
    *,
    specs: tuple[TableSpec, ...] = (),
    more: tuple[CountNoise, ...] = (),
    rng: Rng,
    rule: DensityRule | None = None,
) -> DrawnTable:
    """Measure all levels and further tables, and make one table of them.

    Guarantee: what the noises of the total, of all levels and of all tables cost together. Proof: proofs/squares.md,
    proofs/areas.md
    """
    given = budget.given if isinstance(budget, LinkedBudget) else None
    known = budget.given_total if isinstance(budget, LinkedBudget) else None
    total, variance = counts.total if known is None else known, 0.0
    if budget.total_noise is not None:
        total = int(budget.total_noise.add(np.array([counts.total], dtype=np.int64), rng=rng)[0])
        variance = budget.total_noise.variance
    measured = measure_levels(counts, layout, noises, total=total, total_variance=variance, rng=rng, rule=rule)
    if specs or counts.schema.areas:
        sums = measure_sums(counts, layout, counts.schema, specs, more, given=read_given(given), rng=rng)
        measured = link(measured, counts.schema, specs, sums)
    leaves = repair_linked(measured, rng=rng) if isinstance(measured, LinkedTable) else repair(measured, rng=rng)
    kept = np.flatnonzero(leaves)
    codes = counts.schema.radix.encode(layout.columns(kept))
    return DrawnTable(table=Counts.build(counts.schema, codes, leaves[kept]), measured=measured)


def check_given(counts: Counts, budget: CountBudget) -> None:
    """Refuse totals of others that contradict the number of records where that is public anyway."""
    known = budget.given_total if isinstance(budget, LinkedBudget) else None
    is_public = budget.guarantee.neighbours == "replace" and budget.rows == 1
    if known is not None and is_public and known != counts.total:
        raise ParameterError(
            "the totals add up to {known}, but the table has {total} records, which replace-one publishes; give totals"
            " of the same people, or use neighbours add-remove",
            known=known,
            total=counts.total,
        )


def check_counts(counts: Counts, schema: Schema, budget: CountBudget, noises: Iterable[CountNoise]) -> None:
    """Refuse what could only fail after the spend: other facts than those promised for, or a table too large."""
    check_facts(counts, schema)
    if counts.total >= MOST_RECORDS:
        raise ParameterError("the table has 2**52 records or more; count in coarser units")
    for noise in (*budget.noises, *noises):
        noise.check()  # refuses noise beyond 64 bits
