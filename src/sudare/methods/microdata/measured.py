"""What was measured for published records: the noisy cells, published beside them, and intervals for counts from them.

Records are made of noisy cells by steps that need no private number, so the noisy cells may leave as well. They are not
biased, and their noise is known: any count gets an estimate by least squares over cells, first groups and the total,
and an interval that covers the true count as often as it says. Counts over the records themselves are the better guess
where people are few, but biased, and nobody can tell by how much. Proof: proofs/microdata.md
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import NormalDist

import numpy as np

from sudare.asking.answers import LEVEL, AnswerTable
from sudare.asking.cut_bins import judge_cut_bins
from sudare.asking.protocol import AttributeCells, Moments, WeightBox, bins_as_cells
from sudare.counts import Counts
from sudare.errors import ParameterError, ReleaseError
from sudare.methods.budget import CountBudget
from sudare.methods.microdata.projection import possible_cells
from sudare.methods.microdata.tree import NoisyCells, first_groups
from sudare.methods.recheck import rebuild
from sudare.noise import GeometricNoise
from sudare.releases import Coded, Frame, Release
from sudare.releases.columns import find_frame, read_labels, read_numbers
from sudare.releases.release import MEASUREMENTS
from sudare.schema import Schema
from sudare.schema.arrays import Integers, Reals

MOST_MEASURED = 2**20  # possible cells up to which the noisy cells are published: some megabytes
LEVELS = ("total", "groups", "cells")
ASKED_AS = "records"  # the name in FROM
LAPLACE_EXCESS = 3.0  # kurtosis of the noise of pure epsilon beyond that of a normal law
HALF_A_RECORD = 0.5  # counts and their noise are whole: an interval ends between two of them


def frame_measurements(noisy: NoisyCells) -> Frame:
    """Give measurements as one table: level, node (its number in its level), noisy."""
    parts = [np.array([noisy.total]), np.zeros(0, np.int64) if noisy.groups is None else noisy.groups, noisy.cells]
    levels = np.repeat(np.arange(len(parts)), [part.size for part in parts])
    nodes = np.concatenate([np.arange(part.size) for part in parts])
    labels = np.array(LEVELS, dtype=object)
    return Frame({"level": Coded(levels, labels), "node": nodes, "noisy": np.concatenate(parts).astype(np.int64)})


# --- counts with intervals ------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordCount:
    """A count of people: the unbiased estimate, its interval, and how many published records there are.

    `standard_error` is that of the estimate; `published` is the count over the published records.
    """

    value: float
    low: float
    high: float
    level: float
    standard_error: float
    published: int

    def to_dict(self) -> dict[str, float]:
        """Give plain numbers."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, kw_only=True, eq=False)
class OpenedRecords:
    """Published records with what was measured for them: counts with intervals.

    Error: unbiased; the standard error is that of least squares over all measurements, exactly.
    """

    schema: Schema
    budget: CountBudget
    noisy: NoisyCells
    published: Counts

    def count(self, level: float = 0.95, /, **labels: str | list[str]) -> RecordCount:
        """Count the people with the given labels of some attributes; a list of labels means any of them.

        Labels may be unions of bins, coarser mesh cells or groups of a hierarchy, as in the schema file.
        """
        for name in labels:
            if name not in self.schema.names:
                raise ParameterError(
                    "there is no attribute {name}; the records have {known}",
                    name=name,
                    known=", ".join(self.schema.names),
                )
        chosen = {
            name: np.isin(np.arange(self.schema.attribute(name).size), self._codes(name, label))
            for name, label in labels.items()
        }
        return self.weigh(self._spread(chosen), level=level)

    # --- in SQL ---

    def sql(self, statement: str, *, level: float = LEVEL) -> AnswerTable:
        """Answer one SELECT, FROM records or the name of the schema, from what was measured; see docs/how-to.

        The numbers are the unbiased ones of `count`; those over the published records alone may differ.
        """
        from sudare.asking.statement import ask_statement

        return ask_statement(statement, {self.schema.name: self, ASKED_AS: self}, level=level)

    @property
    def public_total(self) -> int | None:
        """How many records there are, where everybody knows it; see `asking.protocol`."""
        return self.noisy.total if self.budget.total_noise is None else None

    def cells(self, attribute: int) -> AttributeCells:
        """The values of an attribute; bins have their edges. See `asking.protocol`."""
        return self._known_cells[attribute]

    @cached_property
    def _known_cells(self) -> tuple[AttributeCells, ...]:
        return tuple(map(bins_as_cells, self.schema.attributes))

    def moments(self, boxes: Sequence[WeightBox]) -> Moments:
        """Estimate a weighted count over disjoint boxes, with its noise and what lies inside bins that are cut.

        Intervals are made for a normal law, so the deviation is widened for the tails of the noise, and by half a
        record: counts are whole.
        """
        weights = np.zeros(self.schema.size)
        for box in boxes:
            weights += self._multiply({place: one.mean for place, one in box.items()})
        cells = possible_cells(self.schema)
        value, variance, fourth = self._solve(weights if cells is None else weights[cells], cells)
        normal = find_quantile(LEVEL, 0.0)
        wide = find_quantile(LEVEL, fourth / variance**2) / normal if variance > 0 else 1.0
        deviation = wide * math.sqrt(variance) + (_find_half_a_record(weights) / normal if variance > 0 else 0.0)
        people = self.published.values.astype(np.float64)
        inside = judge_cut_bins(boxes, self.published.columns(), people, self.cells)
        return Moments(value=value, noise=deviation**2, model=0.0, inside=inside)

    def _multiply(self, weights: Mapping[int, Reals]) -> Reals:
        named = {self.schema.names[place]: line for place, line in weights.items()}
        return self._spread(named)

    def weigh(self, weights: Reals, *, level: float = 0.95) -> RecordCount:
        """Estimate the sum of weights (one for each cell of the schema, in the order of codes) over all people."""
        if not 0 < level < 1:
            raise ParameterError("level ({level}) must be between 0 and 1", level=level)
        cells = possible_cells(self.schema)
        own = weights if cells is None else weights[cells]
        value, variance, fourth = self._solve(own.astype(np.float64), cells)
        reach = find_quantile(level, fourth / variance**2 if variance > 0 else 0.0) * math.sqrt(variance)
        reach += _find_half_a_record(weights) if variance > 0 else 0.0
        published = round(float(self.published.values @ weights[self.published.codes[:, 0]]))
        low, high = (min(max(end, 0.0), self._most) for end in (value - reach, value + reach))
        error = math.sqrt(variance)
        return RecordCount(value=value, low=low, high=high, level=level, standard_error=error, published=published)

    @property
    def _most(self) -> float:
        return float(self.noisy.total) if self.budget.total_noise is None else math.inf

    def _codes(self, name: str, labels: str | list[str]) -> list[int]:
        attribute = self.schema.attribute(name)
        return [code for label in ([labels] if isinstance(labels, str) else labels) for code in attribute.codes(label)]

    def _spread(self, chosen: dict[str, np.ndarray]) -> Reals:
        """Give every cell of the table the weight 1 if its codes are all chosen."""
        weights = np.ones((1,) * len(self.schema.names))
        for place, attribute in enumerate(self.schema.attributes):
            shape = [1] * len(self.schema.names)
            shape[place] = attribute.size
            weights = weights * chosen.get(attribute.name, np.ones(attribute.size)).reshape(shape)
        return np.asarray(np.broadcast_to(weights, self.schema.sizes).reshape(-1))

    def _solve(self, weights: Reals, cells: Integers | None) -> tuple[float, float, float]:
        """Solve least squares for one sum: value, variance, and the fourth cumulant of its noise (over its excess).

        Within a group only the cells tell; groups combine the sum of their cells with their own measurement; all of
        them together are known by the total.
        """
        cell_variance = self.budget.cells_noise.variance
        owner = first_groups(self.schema) if self.noisy.groups is not None else np.zeros(self.schema.size, np.int64)
        owner = owner if cells is None else owner[cells]
        size = np.maximum(np.bincount(owner), 1)
        mean = np.bincount(owner, weights) / size
        rest = weights - mean[owner]
        sums: Reals = np.bincount(owner, self.noisy.cells).astype(np.float64)
        variance: Reals = cell_variance * np.bincount(owner).astype(np.float64)
        trust: Reals = np.ones(size.size)  # of the cells in the sum of their group
        if self.noisy.groups is not None and self.budget.sums_noise is not None:
            own = self.budget.sums_noise.variance
            trust = own / (own + variance)
            sums, variance = trust * sums + (1 - trust) * self.noisy.groups, trust * variance
        total_noise = self.budget.total_noise
        whole = float(variance.sum()) + (0.0 if total_noise is None else total_noise.variance)
        pull = float(mean @ variance) / whole if whole > 0 else 0.0
        value = float(rest @ self.noisy.cells + mean @ sums + pull * (self.noisy.total - sums.sum()))
        spread = float(cell_variance * (rest @ rest) + mean**2 @ variance - pull * (mean @ variance))
        loads = rest + (trust * (mean - pull))[owner]  # of the noise of every cell in the value
        excess = LAPLACE_EXCESS if isinstance(self.budget.cells_noise, GeometricNoise) else 0.0
        return value, max(spread, 0.0), excess * cell_variance**2 * float((loads**4).sum())


def _find_half_a_record(weights: Reals) -> float:
    """Half of the largest step that a sum with weights can make: of a share of 40,000 it is 1/80,000."""
    return HALF_A_RECORD * float(np.abs(weights).max(initial=0.0))


def find_quantile(level: float, excess: float) -> float:
    """Find how many standard errors an interval reaches, for noise of an excess kurtosis (Cornish and Fisher 1938).

    >>> round(find_quantile(0.95, 0.0), 2), round(find_quantile(0.95, 3.0), 2)
    (1.96, 2.17)
    """
    normal = NormalDist().inv_cdf((1 + level) / 2)
    return max(normal, normal + excess / 24 * (normal**3 - 3 * normal))


def open_records(release: Release | str | Path) -> OpenedRecords:
    """Open published records with their measurements, to be asked for counts with intervals.

    Error: ReleaseError for a release of another method, and for one whose cells were too many to be published.
    """
    from sudare.compare import counts_of
    from sudare.methods.microdata.microdata import Microdata

    found = release if isinstance(release, Release) else Release.load(release)
    if found.certificate.method != Microdata.name:
        raise ReleaseError(
            "the release was made by {method}; it holds no records of microdata", method=found.certificate.method
        )
    if MEASUREMENTS not in found.frames:
        raise ReleaseError(
            "the release holds records alone, without measurements: its cells are too many, so counts over it have no"
            " intervals; publish fewer or coarser attributes, a table or a view"
        )
    _, plan = rebuild(Microdata, found.certificate)
    noisy = read_noisy_cells(find_frame(found, MEASUREMENTS), plan.facts, plan.steps[1])
    return OpenedRecords(
        schema=plan.facts, budget=plan.steps[1], noisy=noisy, published=counts_of(found, frame="records")
    )


def read_noisy_cells(frame: Frame, schema: Schema, budget: CountBudget) -> NoisyCells:
    """Read the table of measurements back; ReleaseError where it is not that of the schema and the promise."""
    try:
        levels = read_labels(frame.columns["level"]).decode()
        noisy = read_numbers(frame.columns["noisy"])
        nodes = read_numbers(frame.columns["node"])
    except (KeyError, ValueError):
        raise ReleaseError("the measurements cannot be read; the release is damaged, get it again") from None
    parts = {}
    for level in LEVELS:
        own = levels == level
        order = np.argsort(nodes[own], kind="stable")
        parts[level] = noisy[own][order].astype(np.int64)
    groups = 0 if budget.sums_part is None else int(first_groups(schema).max()) + 1
    expected = {"total": 1, "groups": groups, "cells": schema.possible_size}
    if any(parts[level].size != size for level, size in expected.items()) or noisy.size != sum(expected.values()):
        raise ReleaseError("the measurements do not fit the schema; the release is damaged, get it again")
    return NoisyCells(cells=parts["cells"], groups=parts["groups"] if groups else None, total=int(parts["total"][0]))
