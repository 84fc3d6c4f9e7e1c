"""Is a tailor-made request feasible? Answered from the history alone, without opening the table.

Groupings that were measured are facts: what is coarser than one that reached k reaches it too, and what is finer than
one that did not does not. Where the steward kept counts of pairs (pairs.py), they settle more for certain and predict
the rest; else the law of power_law.py predicts k, with an interval.

What is certain is what `publish --request` does at the same promise: k in rows of the unit, `max_suppressed`, criteria.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, cast

from sudare.methods.kanon.criteria import Criterion
from sudare.methods.kanon.foresee_classes import LOST_LAWS, ForeseenClasses, expect_missing
from sudare.methods.kanon.foresee_criteria import ForeseenCriteria, find_criteria_law, foresee_criteria
from sudare.methods.kanon.history import Measurement
from sudare.methods.kanon.kanonymity_parameters import count_rows_of_person, needs_persons, read_request_criteria
from sudare.methods.kanon.nearby import MAX_VISITED, find_nearest, is_finer_option
from sudare.methods.kanon.pairs import PairCounts
from sudare.methods.kanon.power_law import HistoryLaw, fit_history_law
from sudare.methods.kanon.request import Grouping, Request, RequestOption
from sudare.privacy.promise import ClassGuarantee
from sudare.schema import Schema
from sudare.text import Text, join_items, text

Verdict = Literal["holds", "likely", "unknown", "unlikely", "fails"]

FEASIBLE = ("holds", "likely")
MOST_MISSING = 3.0  # small cells that a triple lacks by chance in one table of twenty
MAX_FITTED = 400  # groupings near a request that are tried by pair counts, some milliseconds each


@dataclass(frozen=True, kw_only=True, slots=True)
class AskedPromise:
    """What every option must keep: k in rows of the unit, within a share of suppressed rows, perhaps more criteria."""

    k: int
    max_suppressed: Fraction = Fraction(0)
    criteria: tuple[Criterion, ...] = ()

    @property
    def is_k_alone(self) -> bool:
        """Tell whether k is the only criterion."""
        return not self.criteria


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
    loss: float | None = None
    may_leave_out: bool = False  # then the smallest class decides nothing by itself
    keeps_k: bool = False  # then what fails, if anything, is another criterion
    rows_of_person: int = 1  # where a person may have several, k is told in rows

    def describe(self) -> Text:
        """Say the verdict and the interval, and where k alone would hold, that something else fails."""
        if self.keeps_k and self.verdict in ("fails", "unlikely"):
            words = self._describe_k()
            return text(
                "{words}; it is not k that fails but a further rule of the table (l, t or presence)", words=words
            )
        return self._describe_k()

    def _describe_k(self) -> Text:
        if self.k is None or self.low is None or self.high is None:
            return self.describe_verdict()
        words = self._describe_interval(_write_short(self.k), _write_short(self.low), _write_short(self.high))
        if self.rows_of_person == 1:
            return words
        return text("{words} (in rows, of which a person may have {rows})", words=words, rows=self.rows_of_person)

    def _describe_interval(self, k: str, low: str, high: str) -> Text:
        is_exact = self.low == self.high
        if self.may_leave_out and is_exact:
            return text(
                "{verdict}: with no row left out, k is {k}",
                verdict=self.describe_verdict(),
                k=k,
            )
        if self.may_leave_out:
            return text(
                "{verdict}: with no row left out, k is about {k}, between {low} and {high}",
                verdict=self.describe_verdict(),
                k=k,
                low=low,
                high=high,
            )
        if is_exact:
            return text("{verdict}: k is {k}", verdict=self.describe_verdict(), k=k)
        return text(
            "{verdict}: the predicted k is about {k}, between {low} and {high}",
            verdict=self.describe_verdict(),
            k=k,
            low=low,
            high=high,
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
            "loss": self.loss,
        }


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """The answers to the options of a request, in order, and for each that is not feasible the nearest that are."""

    request: Request
    k: int
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
            "k": self.k,
            "points": self.measurement_count,
            "first_good": self.first_feasible,
            "options": options,
            "wishes": options,
        }


class SchemaHistory:
    """What a history says of one schema: measured groupings as facts, and a law between them.

    Only measurements of the newest number of rows are facts: with other rows it was another table. All of them count
    for the law. If the table has other `rows` by now, expected classes grow with it, and nothing is certain. `settle`
    knows what was measured under the promise itself, beside the history (a verdict file).
    """

    def __init__(
        self,
        schema: Schema,
        history: Sequence[Measurement],
        pairs: PairCounts | None = None,
        *,
        rows: int | None = None,
        settle: Callable[[RequestOption], Verdict | None] | None = None,
    ) -> None:
        self.schema, self._settle = schema, settle
        self.measurements = [measurement for measurement in history if self._is_about_schema(measurement)]
        self.rows = self.measurements[-1].rows if self.measurements else pairs.rows if pairs is not None else 0
        is_same_table = pairs is not None and pairs.schema == schema.fingerprint and pairs.rows == self.rows
        self.pairs = pairs if is_same_table else None
        self._options = [self._read_option(measurement) for measurement in self.measurements]
        self.factor = 1.0 if rows is None or not self.rows else rows / self.rows
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
            if measurement.k > low and is_finer_option(measured, option):
                low = measurement.k
            if measurement.k < high and is_finer_option(option, measured):
                high = measurement.k
        return low, high

    def answer(self, option: RequestOption, asked: AskedPromise | int) -> GroupingAnswer:
        """Answer for one option."""
        promise = AskedPromise(k=asked) if isinstance(asked, int) else asked
        cells = math.prod(grouping.size for grouping in option.values())
        low, high = self.bounds(option) if self.factor == 1 else (1, math.inf)
        classes = criteria = None
        if self.pairs is not None and self.pairs.covers(option):
            classes = ForeseenClasses.of(self.pairs, option)
            if self.factor == 1:
                high = min(high, classes.largest_k)
                low = classes.largest_k if classes.sizes is not None else low
            else:
                classes = classes.grow(self.factor)
            if promise.criteria:
                criteria = foresee_criteria(
                    self.pairs, self.schema, option, promise.criteria, promise.k, factor=self.factor
                )
            if criteria is not None and needs_persons(promise.criteria, self.schema.unit):
                criteria = criteria.estimate()  # persons are judged, and pairs count rows
        middle, lower, upper = self._predict_k(option, classes, low, high)
        verdict = self._judge_certain(promise, classes, criteria, low, high)
        if verdict is None and self._settle is not None and self.factor == 1:
            verdict = self._settle(option)
        if verdict is None:
            verdict = self._judge_likely(promise, classes, criteria, lower, upper)
            if verdict == "unlikely" and self._is_unlike_its_fit(option, promise):
                verdict = "unknown"
        return GroupingAnswer(
            option=option,
            cells=cells,
            verdict=verdict,
            k=middle,
            low=lower,
            high=upper,
            loss=self._predict_loss(option, promise, classes, criteria, verdict),
            may_leave_out=promise.max_suppressed > 0,
            keeps_k=bool(promise.criteria) and lower is not None and lower >= promise.k,
            rows_of_person=count_rows_of_person(self.schema.unit),
        )

    def _is_unlike_its_fit(self, option: RequestOption, promise: AskedPromise) -> bool:
        """Tell whether triples lack small cells that pairs make expected, so that small classes may be missing too."""
        if self.pairs is None or self.factor != 1 or promise.max_suppressed or not self.pairs.covers(option):
            return False
        return expect_missing(self.pairs, option, promise.k) >= MOST_MISSING

    def _predict_loss(
        self,
        option: RequestOption,
        promise: AskedPromise,
        classes: ForeseenClasses | None,
        criteria: ForeseenCriteria | None,
        verdict: Verdict,
    ) -> float | None:
        """Predict the loss if the option is published: exact for every attribute, plus the rows left out, as expected.

        Attributes that are left out count as lost. None without pair counts.
        """
        if self.pairs is None or classes is None:
            return None
        left_out = self._expect_left_out(promise, classes, criteria) if promise.max_suppressed else 0.0
        share = min(left_out / max(1.0, self.rows * self.factor), float(promise.max_suppressed))
        quasi = {attribute.name: attribute for attribute in self.schema.attributes if attribute.role == "quasi"}
        losses = []
        for name in dict.fromkeys([*quasi, *option]):
            lost = self.pairs.measure_loss(option[name]) if name in option else 1.0
            losses.append(lost + (1 - lost) * share)
        return math.prod(1 + lost for lost in losses) ** (1 / max(1, len(losses))) - 1

    @staticmethod
    def _expect_left_out(promise: AskedPromise, classes: ForeseenClasses, criteria: ForeseenCriteria | None) -> float:
        more = 0.0 if criteria is None else (criteria.lost or 0.0)
        return classes.expect_left_out(promise.k)[0] + more

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
        self,
        promise: AskedPromise,
        classes: ForeseenClasses | None,
        criteria: ForeseenCriteria | None,
        low: float,
        high: float,
    ) -> Verdict | None:
        """Tell what is certain of the promise; None if nothing is."""
        limit = int(promise.max_suppressed * self.rows)
        if self.factor != 1:
            return None
        if classes is not None and (
            classes.fewest_suppressed(promise.k) > limit or classes.largest_k_of_any < promise.k
        ):
            return "fails"
        if limit == 0 and high < promise.k:
            return "fails"
        if criteria is not None and criteria.fewest_lost > limit and not criteria.is_estimate:
            return "fails"
        if not promise.is_k_alone:
            return self._judge_groups(promise, classes, criteria, limit)
        is_known = classes is not None and classes.sizes is not None  # then the rows below k are known, and few enough
        return "holds" if low >= promise.k or is_known else None

    @staticmethod
    def _judge_groups(
        promise: AskedPromise, classes: ForeseenClasses | None, criteria: ForeseenCriteria | None, limit: int
    ) -> Verdict | None:
        """Judge an option of one or two attributes, of which everything is counted."""
        if classes is None or criteria is None or criteria.is_kept_class is None:
            return None
        sizes = classes.tables[-1]  # that of all attributes
        is_kept = criteria.is_kept_class & (sizes >= promise.k)
        lost = float(sizes[~is_kept].sum())
        return "holds" if lost <= limit and bool((is_kept & (sizes > 0)).any()) else "fails"

    def _judge_likely(
        self,
        promise: AskedPromise,
        classes: ForeseenClasses | None,
        criteria: ForeseenCriteria | None,
        lower: float | None,
        upper: float | None,
    ) -> Verdict:
        """Compare with what is predicted. Without pair counts, that k is likely says nothing of other criteria."""
        limit = int(promise.max_suppressed * self.rows * Fraction(self.factor))
        likely = "likely" if promise.is_k_alone else "unknown"
        if criteria is not None and criteria.is_estimate and criteria.fewest_lost > limit:
            return "unlikely"  # by rows it fails for certain
        if classes is not None and (classes.expected is not None or classes.sizes is not None):
            return self._judge_expected(promise, classes, criteria, limit)
        if lower is None or upper is None:
            return "unknown"
        if lower >= promise.k:
            return cast(Verdict, likely)
        return "unlikely" if upper < promise.k and limit == 0 else "unknown"

    @staticmethod
    def _judge_expected(
        promise: AskedPromise, classes: ForeseenClasses, criteria: ForeseenCriteria | None, limit: int
    ) -> Verdict:
        """Judge by the classes and rows that are expected to break the promise."""
        breaking, (lost, variance) = classes.expect_breaking(promise.k), classes.expect_left_out(promise.k)
        is_whole, law, lost_law = not classes.is_partial, classes.law, classes.lost_law
        if criteria is not None and criteria.breaking is not None:
            breaking += criteria.breaking
            lost, variance = lost + (criteria.lost or 0.0), variance + (criteria.lost_variance or 0.0)
            if classes.factor == 1:
                law = find_criteria_law(promise.criteria, has_triples=criteria.has_triples)
                lost_law = LOST_LAWS[criteria.has_triples]
        elif not promise.is_k_alone:
            is_whole = False
        if limit:
            chance, ends = lost_law.chance_of_limit(limit, lost, variance), (lost_law.likely, lost_law.unlikely)
        else:
            chance, ends = law.chance_of_none(breaking), (law.likely, law.unlikely)
        if chance >= ends[0] and is_whole:
            return "likely"
        return "unlikely" if chance <= ends[1] else "unknown"

    def find_nearest(self, option: RequestOption, asked: AskedPromise | int) -> tuple[GroupingAnswer, ...]:
        """Find the nearest coarser options that hold or are likely to, those of most cells first."""
        most = MAX_VISITED if self.pairs is None else MAX_FITTED

        def is_feasible(tried: RequestOption) -> bool:
            return self.answer(tried, asked).verdict in FEASIBLE

        return tuple(self.answer(near, asked) for near in find_nearest(option, is_feasible, max_visited=most))


def predict(
    request: Request,
    schema: Schema,
    history: Sequence[Measurement],
    *,
    k: int | None = None,
    pairs: PairCounts | None = None,
    max_suppressed: Fraction = Fraction(0),
    criteria: Sequence[Criterion | str] = (),
    rows: int | None = None,
    settle: Callable[[RequestOption], Verdict | None] | None = None,
) -> Prediction:
    """Answer a request from a history: every option, and the nearest feasible ones for those that are not.

    The promise is that of `publish` with the same request: k persons, where a person is protected, are k times as many
    rows as one of them may have. `rows` is how many the table has by now, if it has grown since it was counted.
    """
    known = SchemaHistory(schema, history, pairs, rows=rows, settle=settle)
    k = request.require_k(k)
    least = ClassGuarantee(k=k, quasi=(), unit=schema.unit).rows
    promise = AskedPromise(
        k=least, max_suppressed=max_suppressed, criteria=read_request_criteria(criteria, schema.unit)
    )
    answers = tuple(known.answer(option, promise) for option in request.options)
    nearest = tuple(
        () if answer.verdict in FEASIBLE else known.find_nearest(answer.option, promise) for answer in answers
    )
    return Prediction(request=request, k=k, measurement_count=len(known.measurements), answers=answers, nearest=nearest)


def _write_short(number: float) -> str:
    return f"{number:.0f}" if number >= 10 or number == int(number) else f"{number:.1f}"
