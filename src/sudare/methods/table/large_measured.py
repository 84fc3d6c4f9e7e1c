"""The noisy sums of a large table as published, and what follows from them: any figure with its margin of error.

The nodes that were measured make a tree (`large.py`) whose leaves are cells where people are many, and closed boxes of
cells elsewhere. Least squares over it gives every sum of leaves with its exact variance. Where a question cuts through
a closed box, its people are taken to lie evenly in it, and what that leaves open is added to the interval: all of them
may lie in one cell.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sudare.asking.protocol import AxisWeight, WeightBox
from sudare.counts import Counts
from sudare.errors import ParameterError, ReleaseError
from sudare.methods.budget import CountBudget
from sudare.methods.table.estimates import TableFigure, read_table
from sudare.methods.table.large import (
    OpenLevel,
    box_widths,
    child_starts,
    find_children,
    find_possible,
    level_noise,
    measure_large,
    opening_bound,
    rest_noise,
    share_out_large,
)
from sudare.methods.table.lines import OpeningPlan, plan_opening
from sudare.methods.table.margins import Margins, find_margin
from sudare.methods.table.measured import LAPLACE_FACTOR, NORMAL_FACTOR
from sudare.noise import GaussianNoise, Rng
from sudare.postprocess.least_squares import LeastSquares
from sudare.releases import Frame, Release
from sudare.schema import Schema
from sudare.schema.arrays import Codes, Integers, Reals

TRUSTED_DEVIATIONS = 3.0  # beyond the bound of opening, from which on a figure was hardly chosen for being large


class _Nodes(NamedTuple):
    """The possible children of a level: their places among all, which are open, and which are leaves."""

    places: Codes
    is_open: Any
    is_leaf: Any


@dataclass(frozen=True, kw_only=True, eq=False)
class LargeMeasured:
    """The measured nodes of a large table, as `measure_large` gives them; leaves are numbered level by level."""

    schema: Schema
    budget: CountBudget
    levels: tuple[OpenLevel, ...]
    total: int

    @cached_property
    def opening(self) -> OpeningPlan:
        """How the levels open the attributes."""
        return plan_opening(self.schema)

    @property
    def published_total(self) -> int:
        """The number of records of the published table."""
        return self.total

    def factor_of(self, cells: int) -> float:
        """Standard errors that hold at least 95 of 100 sums over so many leaves."""
        heavy = 0.0 if isinstance(self.budget.cells_noise, GaussianNoise) else LAPLACE_FACTOR - NORMAL_FACTOR
        return NORMAL_FACTOR + heavy / max(1, cells)

    def factor_for(self, leaves: Codes, weights: Reals | None = None) -> float:
        """Standard errors that hold at least 95 of 100 sums of these leaves."""
        return self.factor_of(len(leaves))

    @property
    def public_total(self) -> float:
        """The number of records where everybody knows it, which no figure is told to be above; infinite elsewhere."""
        return float(self.total) if self.budget.total_noise is None else np.inf

    @cached_property
    def _nodes(self) -> list[_Nodes]:
        found = []
        for number, level in enumerate(self.levels):
            places = np.flatnonzero(level.variances > 0)
            is_open = np.zeros(level.values.size, dtype=bool)
            is_open[level.opened] = True
            is_leaf = ~is_open[places] if number < len(self.levels) - 1 else np.ones(places.size, dtype=bool)
            found.append(_Nodes(places, is_open[places], is_leaf))
        return found

    @cached_property
    def _first_leaves(self) -> Codes:
        """The number of the first leaf of every level, and of all of them."""
        return np.cumsum([0, *(int(nodes.is_leaf.sum()) for nodes in self._nodes)])

    @cached_property
    def squares(self) -> LeastSquares:
        """Least squares over all measurements, with the leaves as the last level.

        Above it a level holds its open nodes, and before them one node for all closed children of an open node of its
        own or of a level above: what is not measured may be put together.
        """
        parents, noisy, variances, groups = [], [], [], []
        bundles, first_open = 0, 0
        for number, level in enumerate(self.levels[:-1]):
            nodes, fan = self._nodes[number], self.opening.fan(number)
            owner, group = np.unique(nodes.places[nodes.is_leaf] // fan, return_inverse=True)
            groups.append(bundles + group)
            parents.append(np.concatenate([np.arange(bundles), first_open + owner, first_open + level.opened // fan]))
            values, spread = level.values[level.opened].astype(np.float64), level.variances[level.opened]
            bound = opening_bound(self.schema, self.budget, number)  # figures that noise may have chosen do not count
            is_sure = values > bound + TRUSTED_DEVIATIONS * np.sqrt(spread)
            bundles += owner.size
            noisy.append(np.concatenate([np.zeros(bundles), values]))
            variances.append(np.concatenate([np.full(bundles, np.inf), np.where(is_sure, spread, np.inf)]))
            if number == 0:
                parents[0] = np.zeros(bundles + level.opened.size, dtype=np.int64)
            first_open = bundles
        last = self._nodes[-1].places // self.opening.fan(len(self.levels) - 1)
        held = [(level, nodes.places[nodes.is_leaf]) for level, nodes in zip(self.levels, self._nodes, strict=True)]
        total = self.budget.total_noise
        return LeastSquares(
            parents=[*parents, np.concatenate([*groups, first_open + last])],
            noisy=[*noisy, np.concatenate([level.values[places] for level, places in held]).astype(np.float64)],
            variances=[*variances, np.concatenate([level.variances[places] for level, places in held])],
            total=float(self.total),
            total_variance=0.0 if total is None else total.variance,
        )

    @cached_property
    def cells_of_leaf(self) -> Reals:
        """Count the cells of every leaf."""
        found = np.ones(int(self._first_leaves[-1]))
        for at in range(len(self.opening.lines)):
            low, high = self.spans(at)
            found *= high - low
        return found

    def spans(self, attribute: int) -> tuple[Codes, Codes]:
        """The ranks of the first value of every leaf on the line of an attribute, and behind the last.

        Those of the first attribute are kept: maps and levels ask for them again and again.
        """
        return self._first_spans if attribute == 0 else self._find_spans(attribute)

    @cached_property
    def _first_spans(self) -> tuple[Codes, Codes]:
        return self._find_spans(0)

    def _find_spans(self, attribute: int) -> tuple[Codes, Codes]:
        line, lows, highs = self.opening.lines[attribute], [], []
        for number, level in enumerate(self.levels):
            nodes, fan = self._nodes[number], self.opening.fan(number)
            owner, digit = np.divmod(nodes.places[nodes.is_leaf], fan)
            inner = math.prod(self.opening.fans[number][attribute + 1 :])
            digit = digit // inner % self.opening.fans[number][attribute]
            start = level.starts[owner, attribute] + digit * self.opening.strides[number][attribute]
            lows.append(line.rank(start))
            highs.append(line.rank(start + box_widths(self.opening, number)[attribute]))
        return np.concatenate(lows), np.concatenate(highs)

    def leaves(self, columns: Codes) -> Codes:
        """Find the leaf that every cell (m, attributes) lies in."""
        found = np.full(len(columns), -1, dtype=np.int64)
        waiting, owners = np.arange(len(columns)), np.zeros(len(columns), dtype=np.int64)
        lines = self.opening.place(columns)
        for number, (level, nodes) in enumerate(zip(self.levels, self._nodes, strict=True)):
            child = find_children(owners, lines[:, waiting], self.opening, number)
            leaf = np.full(level.values.size, -1, dtype=np.int64)
            leaf[nodes.places[nodes.is_leaf]] = np.arange(self._first_leaves[number], self._first_leaves[number + 1])
            ends = leaf[child]
            found[waiting[ends >= 0]] = ends[ends >= 0]
            numbers = np.full(level.values.size, -1, dtype=np.int64)
            numbers[level.opened] = np.arange(level.opened.size)
            goes_on = ends < 0
            waiting, owners = waiting[goes_on], numbers[child[goes_on]]
        return found

    def cell_margins(self, columns: Codes) -> Margins:
        """Give the margins of single cells; one in a closed box may hold nobody, or all people of the box."""
        leaves = self.leaves(columns)
        estimates, errors = (part[-1][leaves] for part in (self.squares.estimates, self.squares.standard_errors))
        cells, margin = self.cells_of_leaf[leaves], find_margin(self.factor_of(1), errors)
        margin = np.where(cells > 1, np.maximum(estimates, 0.0) + margin, margin)
        return Margins.within(self.public_total, unbiased=estimates / cells, margin=margin)

    def group_margins(self, position: int, lift: Callable[[Codes], Codes]) -> Margins:
        """Give the margins of the groups of an attribute, all other attributes added up; `lift` finds the groups.

        A leaf that lies in several groups counts for each by its share of cells; all its people may be in one.
        """
        line = self.opening.lines[position]
        group = lift(line.value(np.arange(line.size)))
        ends = np.append(np.flatnonzero(np.diff(group)) + 1, line.size)  # groups are runs of ranks
        begins = np.concatenate([[0], ends[:-1]])
        low, high = self.spans(position)
        first, last = np.searchsorted(ends, low, side="right"), np.searchsorted(ends, high - 1, side="right")
        leaf = np.repeat(np.arange(low.size), last - first + 1)
        run = np.arange(leaf.size) - np.repeat(np.cumsum(last - first + 1) - (last - first + 1), last - first + 1)
        run += first[leaf]
        shared = np.minimum(high[leaf], ends[run]) - np.maximum(low[leaf], begins[run])
        weights = shared / (high - low)[leaf]
        owner = group[begins][run]
        estimates, errors = self.squares.answer_groups(leaf, owner, weights)
        likely = self.squares.estimates[-1] + self.squares.standard_errors[-1]
        cut = weights < 1
        spread = np.maximum(likely[leaf[cut]], 1.0) ** 2 * (weights * (1 - weights))[cut]
        inside = np.bincount(owner[cut], weights=spread, minlength=len(estimates))
        held = np.bincount(owner, minlength=1)
        smallest = int(held[held > 0].min())
        margin = np.hypot(find_margin(self.factor_of(smallest), errors), NORMAL_FACTOR * np.sqrt(inside))
        return Margins.within(self.public_total, unbiased=estimates, margin=margin)

    def weigh(self, boxes: Sequence[WeightBox | Mapping[int, Reals]]) -> tuple[Codes, Reals, Reals]:
        """The leaves that weigh anything, their mean weights, and the means of squared weights inside them."""
        total = np.zeros(int(self._first_leaves[-1]))
        square = np.zeros(total.size)
        spans = {attribute: self.spans(attribute) for box in boxes for attribute in box}
        for box in boxes:
            mean, squared = np.ones(total.size), np.ones(total.size)
            for attribute, weight in box.items():
                line = self.opening.lines[attribute]
                own = weight.mean if isinstance(weight, AxisWeight) else weight
                squares = weight.square if isinstance(weight, AxisWeight) else own**2
                mean *= _mean_between(line.in_order(own), *spans[attribute])
                squared *= _mean_between(line.in_order(squares), *spans[attribute])
            total += mean
            square += squared
        kept = np.flatnonzero((total != 0) | (square != 0))
        return kept, total[kept], square[kept]


def _mean_between(values: Reals, starts: Codes, stops: Codes) -> Reals:
    added = np.concatenate([[0.0], np.cumsum(values, dtype=np.float64)])
    mean: Reals = (added[stops] - added[starts]) / (stops - starts)
    return mean


def grow_large(counts: Counts, budget: CountBudget, *, total: int, rng: Rng) -> tuple[Counts, LargeMeasured]:
    """Measure a large table where people are, and make one table of it; `total` is public or already noisy.

    Guarantee: the parts of all levels together. Proof: proofs/squares.md, Large tables
    """
    levels = measure_large(counts, plan_opening(counts.schema), budget, rng=rng)
    table = share_out_large(counts.schema, levels, budget, total=total, rng=rng)
    return table, LargeMeasured(schema=counts.schema, budget=budget, levels=tuple(levels), total=total)


# --- figures --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class LargeFigures:
    """A large published table with its noisy sums.

    figures.sum(x="[0,64)", y="[8,16)") gives a sum with its margin; attributes that are not named are added up.
    """

    measured: LargeMeasured
    table: Counts

    @classmethod
    def load(cls, release: Release | str | Path) -> LargeFigures:
        """Read a release, or the directory of one.

        Error: ReleaseError if it is not a large table with noisy sums.
        """
        made = release if isinstance(release, Release) else Release.load(release)
        table, measured = read_table(made)
        if not isinstance(measured, LargeMeasured):
            raise ReleaseError("every cell of the table was measured; open it with TableFigures")
        return cls(measured=measured, table=table)

    @property
    def schema(self) -> Schema:
        """The table."""
        return self.table.schema

    @cached_property
    def published(self) -> Integers:
        """The published counts, by leaf."""
        leaves = self.measured.leaves(self.table.columns())
        size = len(self.measured.cells_of_leaf)
        return np.bincount(leaves, weights=self.table.values, minlength=size).astype(np.int64)

    def people(self, leaves: Codes) -> Reals:
        """Bound the people of leaves from above, for what lies inside a box that a question cuts."""
        squares = self.measured.squares
        likely = squares.estimates[-1][leaves] + squares.standard_errors[-1][leaves]
        return np.maximum(np.maximum(self.published[leaves], likely), 1.0)

    def sum(self, **labels: str | Sequence[str]) -> TableFigure:
        """Give the figure of all cells with these labels: one or several for an attribute, also unions of bins."""
        box: dict[int, Reals] = {}
        for name, wanted in labels.items():
            attribute = self.schema.attribute(name)
            weights = np.zeros(attribute.size)
            for label in [wanted] if isinstance(wanted, str) else wanted:
                span = attribute.codes(label)
                weights[span.start : span.stop] = 1.0
            box[self.schema.names.index(name)] = weights
        return self.answer(*self.measured.weigh([box]))

    def region(self, cells: Iterable[Mapping[str, str | None]]) -> TableFigure:
        """Give the figure of a list of cells, each a mapping from the names of all attributes to labels."""
        rows = {tuple(one.code(cell.get(one.name)) for one in self.schema.attributes) for cell in cells}
        if not rows:
            raise ParameterError("the list of cells is empty; name at least one cell")
        leaves, held = np.unique(self.measured.leaves(np.array(sorted(rows), dtype=np.int64)), return_counts=True)
        share = held / self.measured.cells_of_leaf[leaves]
        return self.answer(leaves, share, share)

    def answer(self, leaves: Codes, weights: Reals, squares: Reals) -> TableFigure:
        """Give the figure of a sum of leaves with mean weights, and the means of squared weights inside them."""
        held = self.measured.squares.answer(leaves, weights)
        inside = float((self.people(leaves) ** 2 * np.maximum(squares - weights**2, 0.0)).sum()) if len(leaves) else 0.0
        factor = self.measured.factor_for(leaves, weights)
        noise = find_margin(factor, np.array(held.standard_error), weights=weights)
        margin = float(np.hypot(noise, NORMAL_FACTOR * np.sqrt(inside)))
        most = self.measured.public_total
        return TableFigure(
            count=round(float((self.published[leaves] * weights).sum())),
            unbiased=held.estimate,
            standard_error=float(np.hypot(held.standard_error, np.sqrt(inside))),
            low=min(max(held.estimate - margin, 0.0), most),
            high=min(max(held.estimate + margin, 0.0), most),
        )


# --- as a table of the release --------------------------------------------------------------------------------------


def list_large(measured: LargeMeasured) -> Frame:
    """List the noisy sums: level 0 is the number of records; `open` tells which nodes were measured further."""
    parts = [(np.zeros(1, dtype=np.int64), np.array([measured.total]), np.ones(1, dtype=bool))]
    for level, nodes in zip(measured.levels, measured._nodes, strict=True):
        parts.append((nodes.places, level.values[nodes.places], nodes.is_open))
    levels = np.concatenate([np.full(part[0].size, number) for number, part in enumerate(parts)])
    return Frame(
        {
            "level": levels.astype(np.int64),
            "node": np.concatenate([part[0] for part in parts]),
            "noisy": np.concatenate([part[1] for part in parts]).astype(np.int64),
            "open": np.concatenate([part[2] for part in parts]).astype(np.int64),
        }
    )


def read_large(schema: Schema, budget: CountBudget, columns: Mapping[str, Integers]) -> LargeMeasured:
    """Read the noisy sums of a large table: every child of an open node must be there, and no other.

    Error: ReleaseError if they are not those of the promise.
    """
    order = np.lexsort((columns["node"], columns["level"]))
    level_of, nodes, noisy, is_open = (columns[name][order] for name in ("level", "node", "noisy", "open"))
    opening, levels = plan_opening(schema), []
    ends = np.searchsorted(level_of, np.arange(opening.levels + 2))
    starts = np.zeros((1, len(opening.lines)), dtype=np.int64)
    for number in range(opening.levels):
        own = slice(ends[number + 1], ends[number + 2])
        possible = find_possible(starts, opening, number)
        places, opened = np.flatnonzero(possible), nodes[own][is_open[own] == 1]
        is_last = number == opening.levels - 1
        if not np.array_equal(nodes[own], places) or (is_last and opened.size):
            raise ReleaseError("noisy sums are missing, or listed twice; the release is damaged, get it again")
        values, variances = np.zeros(possible.size, dtype=np.int64), np.zeros(possible.size)
        values[places] = noisy[own]
        noise = level_noise(schema, budget, number)
        variances[places] = noise.variance if is_last else rest_noise(schema, budget, number).variance
        variances[opened] = noise.variance
        levels.append(OpenLevel(starts=starts, values=values, variances=variances, opened=opened))
        if not opened.size:
            break
        starts = child_starts(starts, opened, opening, number)
    if ends[1] != 1 or ends[len(levels) + 1] != len(nodes):
        raise ReleaseError("noisy sums are missing, or listed twice; the release is damaged, get it again")
    return LargeMeasured(schema=schema, budget=budget, levels=tuple(levels), total=int(noisy[0]))
