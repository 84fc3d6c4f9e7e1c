"""The power law between cells and k, fitted to a history, with an interval that admits what it does not know."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Literal

import numpy as np

from sudare.methods.kanon.history import Measurement
from sudare.methods.kanon.request import Grouping, Request, Wish
from sudare.schema import Schema
from sudare.schema.arrays import Reals
from sudare.text import say

LEAST_POINTS = 4
ONE_SIDED = 0.95  # each end of the interval is passed in one case of twenty
PENALTY = 1.0  # how strongly the slopes of attributes are held together
ROUNDS = 10
HALF = math.log(0.5)  # where a class of one row, k - 1 = 0, stands on the scale of ln(k - 1)


@dataclass(frozen=True, kw_only=True, eq=False)
class PowerLaw:
    """ln(k - 1) = ln a + sum over attributes of b_i ln(groups of i), slopes b_i held near a common one.

    With equal slopes this is the paper's k = a x^b + 1, x the number of cells. The interval is that of a new point
    under a linear model: residuals as they are when each point is left out in turn, a factor for how far the asked
    grouping is from what was measured, Student's quantile. The slope of an attribute that was never measured is
    taken to be the common one, give or take as much as the residuals.

    Source: Oguri et al. 2016, equation (1), as a regression in logarithms.
    """

    names: tuple[str, ...]
    weights: Reals  # intercept, common slope, then how each attribute differs
    covariance: Reals  # (X'X + P)^-1
    deviation: float
    quantile: float
    rows: int

    def predict(self, wish: Wish, *, most: float = math.inf) -> tuple[float, float, float]:
        """Give the predicted k and the ends of the interval.

        Where k can be `most` at best, by a coarser grouping that was measured, and the law says more, the table is
        worse there than the law: the interval is then laid around `most`, which is itself seldom reached.
        """
        x = _features(wish, self.names)
        middle = min(float(x @ self.weights), math.log(max(most - 1, 0.5)))
        new = sum(math.log(one.fineness) ** 2 for name, one in wish.items() if name not in self.names) / PENALTY
        wide = self.quantile * self.deviation * math.sqrt(1 + new + float(x @ self.covariance @ x))
        k, low, high = (_k_at(one, self.rows) for one in (middle, middle - wide, middle + wide))
        return k, math.floor(low), math.ceil(high)  # k is a whole number


def fit(points: Sequence[Measurement], wishes: Sequence[Wish], *, rows: int) -> PowerLaw | None:
    """Fit the law; None if too few points tell of a slope.

    Points with k = 1 say only that k - 1 is below 1: they count, at one half, where the line runs above them, and not
    where it runs below. Everything left out, one cell, holds all rows: this point is always known.
    """
    names = tuple(sorted({name for wish in wishes for name in wish}))
    if sum(point.k > 1 and point.cells > 1 for point in points) < LEAST_POINTS:
        return None
    x = np.array([_features({}, names), *(_features(wish, names) for wish in wishes)])
    y = np.array([_log(rows), *(_log(point.k) for point in points)])
    is_one = np.array([False, *(point.k <= 1 for point in points)])
    penalty = np.diag([1e-9, 1e-9, *([PENALTY] * len(names))])
    used = ~is_one
    for _ in range(ROUNDS):
        inverse = np.linalg.inv(x[used].T @ x[used] + penalty)
        weights = inverse @ x[used].T @ y[used]
        again = ~is_one | (x @ weights > HALF)
        if (again == used).all():
            break
        used = again
    leverage = np.einsum("ij,jk,ik->i", x[used], inverse, x[used])
    residuals = (y[used] - x[used] @ weights) / np.clip(1 - leverage, 0.05, None)
    free = max(1.0, float(used.sum()) - float(leverage.sum()))
    deviation = max(0.05, math.sqrt(float((residuals**2).mean())))
    return PowerLaw(
        names=names,
        weights=weights,
        covariance=inverse,
        deviation=deviation,
        quantile=student(ONE_SIDED, free),
        rows=rows,
    )


def _features(wish: Wish, names: tuple[str, ...]) -> Reals:
    """1, the logarithm of all cells, and that of the groups of each attribute of the history."""
    logs = {name: math.log(one.fineness) for name, one in wish.items()}
    return np.array([1.0, sum(logs.values()), *(logs.get(name, 0.0) for name in names)])


def _log(k: int) -> float:
    return math.log(k - 1) if k > 1 else HALF


def _k_at(height: float, rows: int) -> float:
    return 1.0 + math.exp(min(height, math.log(max(rows, 2))))


def student(share: float, free: float) -> float:
    """Give a quantile of Student's distribution, by its expansion about the normal one.

    >>> round(student(0.9, 10), 2), round(student(0.9, 1000), 2)
    (1.37, 1.28)
    """
    z = NormalDist().inv_cdf(share)
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / free + second / free**2 + third / free**3


# Is a tailor-made request feasible? Answered from the history alone, without opening the table.


Verdict = Literal["holds", "likely", "unknown", "unlikely", "fails"]

GOOD = ("holds", "likely")
MOST_VISITED = 2000
SHOWN = 3


@dataclass(frozen=True, kw_only=True)
class GroupingAnswer:
    """What the history says of one grouping.

    "holds" and "fails" are certain: a finer one is known to hold k, a coarser one is known not to. "likely" and
    "unlikely" are where k lies on one side of the interval, which holds the true value in nine cases of ten if the
    law fits; "unknown" is all else. `low` and `high` are that interval, narrowed by what is certain.
    """

    wish: Wish
    cells: int
    verdict: Verdict
    k: float | None = None
    low: float | None = None
    high: float | None = None

    def words(self, *, lang: str | None = None) -> str:
        """Tell the verdict and the interval."""
        if self.k is None or self.low is None or self.high is None:
            return self.verdict_words(lang=lang)
        if self.low == self.high:
            return say("{verdict}: k is {k}", lang=lang, verdict=self.verdict_words(lang=lang), k=_short(self.k))
        return say(
            "{verdict}: predicted k about {k}, between {low} and {high}",
            lang=lang,
            verdict=self.verdict_words(lang=lang),
            k=_short(self.k),
            low=_short(self.low),
            high=_short(self.high),
        )

    def verdict_words(self, *, lang: str | None = None) -> str:
        """Name the verdict."""
        match self.verdict:
            case "holds":
                return say("holds for certain", lang=lang)
            case "likely":
                return say("likely", lang=lang)
            case "unlikely":
                return say("unlikely", lang=lang)
            case "fails":
                return say("fails for certain", lang=lang)
            case _:
                return say("unknown", lang=lang)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for a program."""
        return {
            "groupings": {name: one.to_value() for name, one in self.wish.items()},
            "cells": self.cells,
            "verdict": self.verdict,
            "k": self.k,
            "low": self.low,
            "high": self.high,
        }


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """The answers to the wishes of a request, in order, and for each that is not good the nearest that are."""

    request: Request
    points: int
    answers: tuple[GroupingAnswer, ...]
    nearest: tuple[tuple[GroupingAnswer, ...], ...]

    @property
    def first_good(self) -> int | None:
        """Find the first wish that holds or is likely to."""
        return next((at for at, one in enumerate(self.answers) if one.verdict in GOOD), None)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for a program."""
        return {
            "name": self.request.name,
            "k": self.request.k,
            "points": self.points,
            "first_good": self.first_good,
            "wishes": [
                {**answer.to_dict(), "nearest": [one.to_dict() for one in near]}
                for answer, near in zip(self.answers, self.nearest, strict=True)
            ],
        }


class Memory:
    """What a history says of one schema: measured groupings as facts, and a law between them.

    Only measurements of the newest number of rows are facts: with other rows it was another table. All of them count
    for the law.
    """

    def __init__(self, schema: Schema, history: Sequence[Measurement]) -> None:
        self.schema = schema
        mine = [one for one in history if one.schema == schema.fingerprint and one.kind == "measured" and one.k > 0]
        self.points = [one for one in mine if set(one.groupings) <= set(schema.names)]
        self.rows = self.points[-1].rows if self.points else 0
        self._wishes = [self._wish(point) for point in self.points]
        self.law: PowerLaw | None = fit(self.points, self._wishes, rows=self.rows)

    def _wish(self, point: Measurement) -> dict[str, Grouping]:
        return {
            name: Grouping.from_value(self.schema.attribute(name), value) for name, value in point.groupings.items()
        }

    def bounds(self, wish: Wish) -> tuple[int, float]:
        """Give the largest k that is certain to hold, and the largest that is possible."""
        low, high = 1, float(self.rows) if self.rows else math.inf
        for point, known in zip(self.points, self._wishes, strict=True):
            if point.rows != self.rows:
                continue
            if point.k > low and _is_finer(known, wish):
                low = point.k
            if point.k < high and _is_finer(wish, known):
                high = point.k
        return low, high

    def answer(self, wish: Wish, k: int) -> GroupingAnswer:
        """Answer for one grouping."""
        cells = math.prod(one.size for one in wish.values())
        low, high = self.bounds(wish)
        guess = None if self.law is None else self.law.predict(wish, most=high)
        if guess is None:
            known: tuple[float | None, float | None, float | None] = (None, None, None)
        else:
            known = tuple(min(max(one, low), high) for one in guess)  # type: ignore[assignment]
        verdict = _verdict(k, low, high, known[1], known[2])
        return GroupingAnswer(wish=wish, cells=cells, verdict=verdict, k=known[0], low=known[1], high=known[2])

    def nearest(self, wish: Wish, k: int) -> tuple[GroupingAnswer, ...]:
        """Find the coarser groupings fewest steps away that hold or are likely to, those of most cells first."""
        ladders = {name: _ladder(one) for name, one in wish.items()}
        names = list(ladders)
        heap, seen = [(0, 0, (0,) * len(names))], {(0,) * len(names)}
        found: list[GroupingAnswer] = []
        for _ in range(MOST_VISITED):
            if not heap or len(found) == SHOWN:
                break
            steps, _, place = heapq.heappop(heap)
            here = {name: ladders[name][at] for name, at in zip(names, place, strict=True)}
            if any(_is_finer(one.wish, here) for one in found):
                continue  # what is coarser than a good one is no nearer
            answer = self.answer(here, k)
            if steps and answer.verdict in GOOD and answer.cells > 1:
                found.append(answer)
                continue
            for axis, name in enumerate(names):
                after = (*place[:axis], place[axis] + 1, *place[axis + 1 :])
                if after[axis] < len(ladders[name]) and after not in seen:
                    seen.add(after)
                    cells = math.prod(ladders[one][at].size for one, at in zip(names, after, strict=True))
                    heapq.heappush(heap, (steps + 1, -cells, after))
        return tuple(found)


def predict(request: Request, schema: Schema, history: Sequence[Measurement]) -> Prediction:
    """Answer a request from a history: every wish, and the nearest groupings for those that will not do."""
    memory = Memory(schema, history)
    answers = tuple(memory.answer(wish, request.k) for wish in request.wishes)
    nearest = tuple(() if answer.verdict in GOOD else memory.nearest(answer.wish, request.k) for answer in answers)
    return Prediction(request=request, points=len(memory.points), answers=answers, nearest=nearest)


def _verdict(k: int, low: float, high: float, lower: float | None, upper: float | None) -> Verdict:
    if low >= k:
        return "holds"
    if high < k:
        return "fails"
    if lower is None or upper is None:
        return "unknown"
    return "likely" if lower >= k else "unlikely" if upper < k else "unknown"


def _is_finer(one: Wish, other: Wish) -> bool:
    """Tell whether one tells at least as much as the other; what is not named is left out."""
    return all(grouping.size == 1 or (name in one and one[name].is_finer(grouping)) for name, grouping in other.items())


def _ladder(asked: Grouping) -> list[Grouping]:
    """The grouping that was asked for, then every coarser level, then left out."""
    levels = [Grouping(asked.attribute, level) for level in range(asked.attribute.height + 1)]
    coarser = [one for one in levels if 1 < one.size < asked.size and asked.is_finer(one)]
    return [asked, *coarser, *([Grouping(asked.attribute, None)] if asked.size > 1 else [])]


def _short(number: float) -> str:
    return f"{number:.0f}" if number >= 10 or number == int(number) else f"{number:.1f}"
