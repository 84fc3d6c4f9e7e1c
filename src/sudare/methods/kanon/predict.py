"""Is a tailor-made request feasible? Answered from the history alone, without opening the table.

Groupings that were measured are facts: what is coarser than one that reached k reaches it too, and what is finer than
one that did not does not. Where the steward kept counts of pairs (pairs.py), they settle more for certain and predict
the rest; else the law of power_law.py predicts k, with an interval.

What is certain is what `publish --request` does at the same promise: k in rows of the unit, `max_suppressed`, criteria.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, cast

from sudare.methods.kanon.history import Measurement
from sudare.methods.kanon.pairs import ForeseenClasses, PairCounts
from sudare.methods.kanon.power_law import HistoryLaw, fit_history_law
from sudare.methods.kanon.request import Grouping, Request, RequestOption
from sudare.privacy.promise import ClassGuarantee
from sudare.schema import Schema
from sudare.text import Text, join_items, text

Verdict = Literal["holds", "likely", "unknown", "unlikely", "fails"]

FEASIBLE = ("holds", "likely")
LIKELY, UNLIKELY = 0.9, 0.2  # chances by pair counts; on 16 made-up tables .99 of the likely held, .01 of the unlikely
SUPPRESSED_RATIO = 1.3  # expected and real numbers of suppressed rows differed by less on those tables
MAX_VISITED = 2000  # groupings tried before the search for a nearby feasible one ends
MAX_NEAREST = 3  # nearby feasible groupings that are offered


@dataclass(frozen=True, kw_only=True, slots=True)
class AskedPromise:
    """What every option must keep: k in rows of the unit, within a share of suppressed rows, perhaps more criteria."""

    k: int
    max_suppressed: Fraction = Fraction(0)
    is_k_alone: bool = True


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

    def __init__(self, schema: Schema, history: Sequence[Measurement], pairs: PairCounts | None = None) -> None:
        self.schema = schema
        self.measurements = [measurement for measurement in history if self._is_about_schema(measurement)]
        self.rows = self.measurements[-1].rows if self.measurements else pairs.rows if pairs is not None else 0
        is_same_table = pairs is not None and pairs.schema == schema.fingerprint and pairs.rows == self.rows
        self.pairs = pairs if is_same_table else None
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

    def answer(self, option: RequestOption, asked: AskedPromise | int) -> GroupingAnswer:
        """Answer for one option."""
        promise = AskedPromise(k=asked) if isinstance(asked, int) else asked
        cells = math.prod(grouping.size for grouping in option.values())
        low, high = self.bounds(option)
        classes = None
        if self.pairs is not None and self.pairs.covers(option):
            classes = ForeseenClasses.of(self.pairs, option)
            high = min(high, classes.largest_k)
            low = classes.largest_k if classes.sizes is not None else low
        middle, lower, upper = self._predict_k(option, classes, low, high)
        verdict = self._judge_certain(promise, classes, low, high)
        if verdict is None:
            verdict = self._judge_likely(promise, classes, lower, upper)
        return GroupingAnswer(option=option, cells=cells, verdict=verdict, k=middle, low=lower, high=upper)

    def _predict_k(
        self, option: RequestOption, classes: ForeseenClasses | None, low: float, high: float
    ) -> tuple[float | None, float | None, float | None]:
        """Predict k and its interval of nine in ten, within what is certain; None where nothing is known."""
        predicted = None if classes is None else classes.interval()
        if predicted is None and self.law is not None:
            predicted = self.law.predict(option, largest_possible=high)
        if predicted is None:
            return (low, low, low) if low == high else (None, None, None)
        middle, lower, upper = (min(max(value, low), high) for value in predicted)
        return middle, lower, upper

    def _judge_certain(
        self, promise: AskedPromise, classes: ForeseenClasses | None, low: float, high: float
    ) -> Verdict | None:
        """Tell what is certain of the promise; None if nothing is. More criteria than k can only fail for certain."""
        limit = int(promise.max_suppressed * self.rows)
        if classes is not None and (
            classes.fewest_suppressed(promise.k) > limit or classes.largest_k_of_any < promise.k
        ):
            return "fails"
        if limit == 0 and high < promise.k:
            return "fails"
        if not promise.is_k_alone:
            return None
        is_known = classes is not None and classes.sizes is not None  # then the rows below k are known, and few enough
        return "holds" if low >= promise.k or is_known else None

    def _judge_likely(
        self, promise: AskedPromise, classes: ForeseenClasses | None, lower: float | None, upper: float | None
    ) -> Verdict:
        """Compare with what is predicted. That k is likely says nothing of other criteria."""
        limit, likely = int(promise.max_suppressed * self.rows), "likely" if promise.is_k_alone else "unknown"
        chance = None if classes is None else classes.chance(promise.k)
        if classes is not None and chance is not None:
            suppressed = classes.expect_suppressed(promise.k) or 0.0
            if chance >= LIKELY or 0 < SUPPRESSED_RATIO * suppressed <= limit:
                return cast(Verdict, likely)
            is_unlikely = suppressed > SUPPRESSED_RATIO * limit if limit else chance <= UNLIKELY
            return "unlikely" if is_unlikely else "unknown"
        if lower is None or upper is None:
            return "unknown"
        if lower >= promise.k:
            return cast(Verdict, likely)
        return "unlikely" if upper < promise.k and limit == 0 else "unknown"

    def find_nearest(self, option: RequestOption, asked: AskedPromise | int) -> tuple[GroupingAnswer, ...]:
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
            answer = self.answer(tried, asked)
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


def predict(
    request: Request,
    schema: Schema,
    history: Sequence[Measurement],
    *,
    pairs: PairCounts | None = None,
    max_suppressed: Fraction = Fraction(0),
    is_k_alone: bool = True,
) -> Prediction:
    """Answer a request from a history: every option, and the nearest feasible ones for those that are not.

    The promise is that of `publish` with the same request: k persons, where a person is protected, are k times as many
    rows as one of them may have.
    """
    known = SchemaHistory(schema, history, pairs)
    rows = ClassGuarantee(k=request.k, quasi=(), unit=schema.unit).rows
    promise = AskedPromise(k=rows, max_suppressed=max_suppressed, is_k_alone=is_k_alone)
    answers = tuple(known.answer(option, promise) for option in request.options)
    nearest = tuple(
        () if answer.verdict in FEASIBLE else known.find_nearest(answer.option, promise) for answer in answers
    )
    return Prediction(request=request, measurement_count=len(known.measurements), answers=answers, nearest=nearest)


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
