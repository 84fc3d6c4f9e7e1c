"""Is a tailor-made request feasible? Answered from the history alone, without opening the table.

Groupings that were measured are facts: what is coarser than one that reached k reaches it too, and what is finer than
one that did not does not. Between them the law of power_law.py predicts k, with an interval.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sudare.methods.kanon.history import Measurement
from sudare.methods.kanon.power_law import HistoryLaw, fit_history_law
from sudare.methods.kanon.request import Grouping, Request, RequestOption
from sudare.schema import Schema
from sudare.text import Text, join_items, text

Verdict = Literal["holds", "likely", "unknown", "unlikely", "fails"]

FEASIBLE = ("holds", "likely")
MAX_VISITED = 2000  # groupings tried before the search for a nearby feasible one ends
MAX_NEAREST = 3  # nearby feasible groupings that are offered


@dataclass(frozen=True, kw_only=True)
class GroupingAnswer:
    """What the history says of one grouping.

    "holds" and "fails" are certain: a finer one is known to hold k, a coarser one is known not to. "likely" and
    "unlikely" are where k lies on one side of the interval, which holds the true value in nine cases of ten if the
    law fits; "unknown" is all else. `low` and `high` are that interval, narrowed by what is certain.
    """

    option: RequestOption
    cells: int
    verdict: Verdict
    k: float | None = None
    low: float | None = None
    high: float | None = None

    def describe(self) -> Text:
        """Say the verdict and the interval."""
        if self.k is None or self.low is None or self.high is None:
            return self.describe_verdict()
        if self.low == self.high:
            return text("{verdict}: k is {k}", verdict=self.describe_verdict(), k=_write_short(self.k))
        return text(
            "{verdict}: the predicted k is about {k}, between {low} and {high}",
            verdict=self.describe_verdict(),
            k=_write_short(self.k),
            low=_write_short(self.low),
            high=_write_short(self.high),
        )

    def describe_verdict(self) -> Text:
        """Name the verdict."""
        match self.verdict:
            case "holds":
                return text("certain to hold")
            case "likely":
                return text("likely")
            case "unlikely":
                return text("unlikely")
            case "fails":
                return text("certain to fail")
            case _:
                return text("unknown")

    def describe_groupings(self) -> Text:
        """Say how each attribute is grouped."""
        return join_items(grouping.describe() for grouping in self.option.values())

    def to_dict(self) -> dict[str, Any]:
        """Give plain values for a program."""
        return {
            "groupings": {name: grouping.to_value() for name, grouping in self.option.items()},
            "cells": self.cells,
            "verdict": self.verdict,
            "k": self.k,
            "low": self.low,
            "high": self.high,
        }


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """The answers to the options of a request, in order, and for each that is not feasible the nearest that are."""

    request: Request
    measurement_count: int
    answers: tuple[GroupingAnswer, ...]
    nearest: tuple[tuple[GroupingAnswer, ...], ...]

    @property
    def first_feasible(self) -> int | None:
        """Find the first option that holds or is likely to."""
        return next((number for number, answer in enumerate(self.answers) if answer.verdict in FEASIBLE), None)

    def to_dict(self) -> dict[str, Any]:
        """Give plain values for a program; "wishes" is the old name of "options"."""
        options = [
            {**answer.to_dict(), "nearest": [near.to_dict() for near in nearest]}
            for answer, nearest in zip(self.answers, self.nearest, strict=True)
        ]
        return {
            "name": self.request.name,
            "k": self.request.k,
            "points": self.measurement_count,
            "first_good": self.first_feasible,
            "options": options,
            "wishes": options,
        }


class SchemaHistory:
    """What a history says of one schema: measured groupings as facts, and a law between them.

    Only measurements of the newest number of rows are facts: with other rows it was another table. All of them count
    for the law.
    """

    def __init__(self, schema: Schema, history: Sequence[Measurement]) -> None:
        self.schema = schema
        self.measurements = [measurement for measurement in history if self._is_about_schema(measurement)]
        self.rows = self.measurements[-1].rows if self.measurements else 0
        self._options = [self._read_option(measurement) for measurement in self.measurements]
        self.law: HistoryLaw | None = fit_history_law(self.measurements, self._options, rows=self.rows)

    def _is_about_schema(self, measurement: Measurement) -> bool:
        is_measured = measurement.kind == "measured" and measurement.k > 0
        is_same = measurement.schema == self.schema.fingerprint
        return is_same and is_measured and set(measurement.groupings) <= set(self.schema.names)

    def _read_option(self, measurement: Measurement) -> dict[str, Grouping]:
        return {
            name: Grouping.from_value(self.schema.attribute(name), value)
            for name, value in measurement.groupings.items()
        }

    def bounds(self, option: RequestOption) -> tuple[int, float]:
        """Give the largest k that is certain to hold, and the largest that is possible."""
        low, high = 1, float(self.rows) if self.rows else math.inf
        for measurement, measured in zip(self.measurements, self._options, strict=True):
            if measurement.rows != self.rows:
                continue
            if measurement.k > low and _is_finer(measured, option):
                low = measurement.k
            if measurement.k < high and _is_finer(option, measured):
                high = measurement.k
        return low, high

    def answer(self, option: RequestOption, k: int) -> GroupingAnswer:
        """Answer for one option."""
        cells = math.prod(grouping.size for grouping in option.values())
        low, high = self.bounds(option)
        if self.law is None:
            verdict = _judge(k, low, high, None, None)
            return GroupingAnswer(option=option, cells=cells, verdict=verdict)
        predicted = self.law.predict(option, largest_possible=high)
        middle, lower, upper = (min(max(value, low), high) for value in predicted)
        verdict = _judge(k, low, high, lower, upper)
        return GroupingAnswer(option=option, cells=cells, verdict=verdict, k=middle, low=lower, high=upper)

    def find_nearest(self, option: RequestOption, k: int) -> tuple[GroupingAnswer, ...]:
        """Find the coarser options fewest steps away that hold or are likely to, those of most cells first."""
        coarser = {name: _list_coarser(grouping) for name, grouping in option.items()}
        names = list(coarser)
        start = (0,) * len(names)  # for every attribute, how many steps coarser it is
        heap, seen = [(0, 0, start)], {start}
        feasible: list[GroupingAnswer] = []
        for _ in range(MAX_VISITED):
            if not heap or len(feasible) == MAX_NEAREST:
                break
            steps, _, place = heapq.heappop(heap)
            tried = {name: coarser[name][step] for name, step in zip(names, place, strict=True)}
            if any(_is_finer(answer.option, tried) for answer in feasible):
                continue  # what is coarser than a feasible option is no nearer
            answer = self.answer(tried, k)
            if steps and answer.verdict in FEASIBLE and answer.cells > 1:
                feasible.append(answer)
                continue
            for axis, name in enumerate(names):
                after = (*place[:axis], place[axis] + 1, *place[axis + 1 :])
                if after[axis] < len(coarser[name]) and after not in seen:
                    seen.add(after)
                    cells = math.prod(coarser[other][step].size for other, step in zip(names, after, strict=True))
                    heapq.heappush(heap, (steps + 1, -cells, after))
        return tuple(feasible)


def predict(request: Request, schema: Schema, history: Sequence[Measurement]) -> Prediction:
    """Answer a request from a history: every option, and the nearest feasible ones for those that are not."""
    known = SchemaHistory(schema, history)
    answers = tuple(known.answer(option, request.k) for option in request.options)
    nearest = tuple(
        () if answer.verdict in FEASIBLE else known.find_nearest(answer.option, request.k) for answer in answers
    )
    return Prediction(request=request, measurement_count=len(known.measurements), answers=answers, nearest=nearest)


def _judge(k: int, low: float, high: float, lower: float | None, upper: float | None) -> Verdict:
    """Compare k with the certain bounds, then with the interval."""
    if low >= k:
        return "holds"
    if high < k:
        return "fails"
    if lower is None or upper is None:
        return "unknown"
    return "likely" if lower >= k else "unlikely" if upper < k else "unknown"


def _is_finer(option: RequestOption, other: RequestOption) -> bool:
    """Tell whether an option tells at least as much as the other; what is not named is left out."""
    return all(
        grouping.size == 1 or (name in option and option[name].is_finer(grouping)) for name, grouping in other.items()
    )


def _list_coarser(requested: Grouping) -> list[Grouping]:
    """List the grouping that was requested, then every coarser level, then left out."""
    levels = [Grouping(requested.attribute, level) for level in range(requested.attribute.height + 1)]
    coarser = [level for level in levels if 1 < level.size < requested.size and requested.is_finer(level)]
    return [requested, *coarser, *([Grouping(requested.attribute, None)] if requested.size > 1 else [])]


def _write_short(number: float) -> str:
    return f"{number:.0f}" if number >= 10 or number == int(number) else f"{number:.1f}"
