"""Is a tailor-made request feasible? Answered from the history alone, without opening the table."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sudare.messages import say
from sudare.methods.kanon.history import Point
from sudare.methods.kanon.predict_law import Law, fit
from sudare.methods.kanon.request import Grouping, Request, Wish
from sudare.schema import Schema

Verdict = Literal["holds", "likely", "unknown", "unlikely", "fails"]

GOOD = ("holds", "likely")
MOST_VISITED = 2000
SHOWN = 3


@dataclass(frozen=True, kw_only=True)
class Answer:
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
    answers: tuple[Answer, ...]
    nearest: tuple[tuple[Answer, ...], ...]

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

    def __init__(self, schema: Schema, history: Sequence[Point]) -> None:
        self.schema = schema
        mine = [one for one in history if one.schema == schema.fingerprint and one.kind == "measured" and one.k > 0]
        self.points = [one for one in mine if set(one.groupings) <= set(schema.names)]
        self.rows = self.points[-1].rows if self.points else 0
        self._wishes = [self._wish(point) for point in self.points]
        self.law: Law | None = fit(self.points, self._wishes, rows=self.rows)

    def _wish(self, point: Point) -> dict[str, Grouping]:
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

    def answer(self, wish: Wish, k: int) -> Answer:
        """Answer for one grouping."""
        cells = math.prod(one.size for one in wish.values())
        low, high = self.bounds(wish)
        guess = None if self.law is None else self.law.predict(wish, most=high)
        if guess is None:
            known: tuple[float | None, float | None, float | None] = (None, None, None)
        else:
            known = tuple(min(max(one, low), high) for one in guess)  # type: ignore[assignment]
        verdict = _verdict(k, low, high, known[1], known[2])
        return Answer(wish=wish, cells=cells, verdict=verdict, k=known[0], low=known[1], high=known[2])

    def nearest(self, wish: Wish, k: int) -> tuple[Answer, ...]:
        """Find the coarser groupings fewest steps away that hold or are likely to, those of most cells first."""
        ladders = {name: _ladder(one) for name, one in wish.items()}
        names = list(ladders)
        heap, seen = [(0, 0, (0,) * len(names))], {(0,) * len(names)}
        found: list[Answer] = []
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


def predict(request: Request, schema: Schema, history: Sequence[Point]) -> Prediction:
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
