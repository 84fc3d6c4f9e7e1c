"""What is published of a table: its cells, the sums of every declared level, and maps where there is a mesh."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from sudare.counts import Countable, Counts
from sudare.errors import ParameterError
from sudare.methods.asked import attributes_asked, check_facts
from sudare.methods.budget import CountBudget, measure_total, plan
from sudare.methods.certify import certificate, named
from sudare.methods.columns import coded
from sudare.methods.table.expected_error import DrawTable, TablePreview, foresee, simulate
from sudare.methods.table.haar import check_wavelet_schema
from sudare.methods.table.morton import CellOrder
from sudare.methods.table.tree import Focus, grow_table, plan_tree, tree_fits
from sudare.methods.table.wavelet import wavelet
from sudare.noise import Rng, system_rng
from sudare.noise.geometric import split_scale
from sudare.privacy import Guarantee, Ledger, Neighbours, Unrecorded, exact_epsilon
from sudare.privacy.promise import check_neighbours
from sudare.releases import Coded, Frame, Release
from sudare.releases.frame import check_names
from sudare.releases.geo import write_geojson, write_geoparquet
from sudare.schema import Attribute, MeshCells, Schema, Unit

COUNT = "count"


def frames(table: Counts) -> dict[str, Frame]:
    """Tables of the release: `cells` with decoded columns, `rollups` with the sums of every declared level."""
    found = {"cells": _cells(table)}
    if any(each.height for each in table.schema.attributes):
        found["rollups"] = _rollups(table)
    return found


def map_files(table: Counts) -> Mapping[str, Callable[[Path], object]]:
    """Files for maps, if an attribute is a mesh: people by mesh cell, all other attributes added up."""
    for each in table.schema.attributes:
        if isinstance(each.domain, MeshCells):
            by_mesh = table.project([each.name])
            inside = by_mesh.codes[:, 0] < each.domain.size  # missing and other places are not on the map
            codes, counts = by_mesh.codes[inside, 0], by_mesh.values[inside]
            given = {"cells": each.domain, "codes": codes, "columns": {COUNT: counts}}
            return {
                "map.geojson": partial(write_geojson, **given),
                "map.parquet": partial(write_geoparquet, **given),
            }
    return {}


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


# The method's parameters, promise and order of steps.


TableAlgorithm = Literal["tree", "wavelet"]
MOST_RECORDS = 2**52  # counts up to here are exact in the sums of all levels
MOST_CELLS = 10**300  # numbers of cells are weighed in floats


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """Publish counts over a table of any size, with sums over regions that people can use.

    `method` is "tree" (the default: noise on sums from the top down, rows made valid) or "wavelet" (the paper's).
    `focus` says what matters to the tree: "cells", "regions" (the default) or "both"; it sets the share of epsilon on
    the cells. Counts are whole numbers, never negative, and add up at every level of every declared hierarchy; under
    replace-one the total is exact.

    Guarantee: epsilon-DP for the declared unit and neighbours. Proof: proofs/table.md, proofs/wavelet.md
    Error: `preview`; empty cells come out too high and large ones too low.
    Source: Terada et al., large sparse count tables; Hay et al. 2010.

    >>> Table(epsilon="1/2").guarantee().epsilon
    Fraction(1, 2)
    """

    epsilon: Fraction | str | int | float
    neighbours: Neighbours | None = None  # None: the ledger's, else replace-one
    method: TableAlgorithm = "tree"
    focus: Focus = "regions"
    by: tuple[str, ...] | None = None  # the attributes to publish; all of them by default

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", exact_epsilon(self.epsilon))
        if self.neighbours is not None:
            check_neighbours(self.neighbours)
        if self.method not in get_args(TableAlgorithm):
            raise ParameterError("method ({method}) must be tree or wavelet", method=self.method)
        if self.focus not in get_args(Focus):
            raise ParameterError("focus ({focus}) must be cells, regions or both", focus=self.focus)
        if self.method == "wavelet" and self.focus != "regions":
            raise ParameterError("the wavelet knows no focus; leave it out, or use method tree")
        object.__setattr__(self, "by", attributes_asked(self.by))

    def guarantee(self, *, unit: Unit | None = None, neighbours: Neighbours | None = None) -> Guarantee:
        """Tell the promise before any data is opened."""
        relation = self.neighbours or neighbours or "replace"
        return Guarantee(epsilon=Fraction(self.epsilon), neighbours=relation, unit=unit or Unit())

    def preview(
        self, schema: Schema, *, rows: int | tuple[int, ...] = (), neighbours: Neighbours | None = None
    ) -> TablePreview:
        """Tell the expected error of cells and regions from public facts, before anything is spent.

        For each number of records in `rows`, a public estimate, a made-up table is published too, to tell how many of
        the published cells will be noise.
        """
        chosen = self._chosen(schema)
        budget = self._budget(chosen, neighbours)
        asked = (rows,) if isinstance(rows, int) else tuple(rows)
        trials = tuple(simulate(chosen, one, self._drawn(budget)) for one in asked)
        return foresee(self.method, chosen, budget, trials=trials)

    def publish(
        self, source: Countable, *, ledger: Ledger | Unrecorded | None = None, rng: Rng | None = None
    ) -> Release:
        """Count, spend, draw, and return the release; an interrupt after the spend leaves it recorded."""
        purse = ledger if ledger is not None else Unrecorded()
        randomness = rng if rng is not None else system_rng()
        schema = self._chosen(source.schema)
        schema.require_confirmed()
        budget = self._budget(schema, purse.neighbours)
        expected = foresee(self.method, schema, budget).to_dict()
        counts = source.count(schema.names)
        check_counts(counts, schema, budget, self._scales(schema, budget))
        spends = purse.spend(budget.parts, guarantee=budget.guarantee)
        table = self.draw(counts, neighbours=budget.guarantee.neighbours, rng=randomness)
        paper = certificate(
            method="table",
            parameters=named(self, neighbours=budget.guarantee.neighbours),
            guarantee=budget.guarantee,
            spends=spends,
            ledger_head=spends[-1].head,
            schema=schema,
            expected_error=expected,
            private=randomness.is_private,
        )
        return Release(frames(table), paper, map_files(table))

    def draw(self, counts: Counts, *, neighbours: Neighbours | None = None, rng: Rng) -> Counts:
        """Turn private counts into the published table: the step that the promise is about.

        It does not spend; `publish` does so first. Audits call it many times.
        """
        budget = self._budget(counts.schema, neighbours)
        check_counts(counts, counts.schema, budget, self._scales(counts.schema, budget))
        return self._drawn(budget)(counts, rng)

    def _drawn(self, budget: CountBudget) -> DrawTable:
        def draw(counts: Counts, rng: Rng) -> Counts:
            total = measure_total(counts, budget, rng=rng)
            if self.method == "tree":
                return grow_table(counts, budget, focus=self.focus, total=total, rng=rng)
            relation = budget.guarantee.neighbours
            return wavelet(counts, epsilon=budget.cells_epsilon, neighbours=relation, total=total, rng=rng)

        return draw

    def _scales(self, schema: Schema, budget: CountBudget) -> tuple[Fraction, ...]:
        """Scales of the noise of all levels."""
        return tuple(scale for _, scale in foresee(self.method, schema, budget).levels)

    def _chosen(self, schema: Schema) -> Schema:
        chosen = schema.select(self.by) if self.by is not None else schema
        check_names((*chosen.names, "count"))
        if chosen.size > MOST_CELLS:
            raise ParameterError("the domain has more than 1e300 cells; publish fewer attributes")
        chosen.possible_size  # noqa: B018  (refuses a domain without any)
        if self.method == "wavelet":
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
        return plan_tree(schema, promise, self.focus) if self.method == "tree" else plan(promise)


def check_counts(counts: Counts, schema: Schema, budget: CountBudget, scales: Iterable[Fraction]) -> None:
    """Refuse what could only fail after the spend: other facts than those promised for, or a table too large."""
    check_facts(counts, schema)
    if counts.total >= MOST_RECORDS:
        raise ParameterError("the table has 2**52 records or more; count in coarser units")
    for scale in (*budget.scales, *scales):
        split_scale(scale)  # refuses noise beyond 64 bits
