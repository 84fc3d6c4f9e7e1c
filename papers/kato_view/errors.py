"""The error of one view on every workload of the paper."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from papers.kato_view.data import load
from sudare.evaluate.workloads import Truth, random_ranges, rmse_of_marginals, rmse_of_prefixes, rmse_of_ranges
from sudare.mechanisms import SeededRng
from sudare.methods.view import OpenedView, View, open_view
from sudare.testing import Tabled

WORKLOADS = ("2-way", "3-way", "Prefix-2D", "Range-2D", "Range-3D", "Range-4D")
QUERIES = 3000
WAYS = ("model", "product", "hdpview", "mondrian")


class Kept(Truth):
    """The truth, every table counted once."""

    def marginal(self, names: Sequence[str]) -> np.ndarray:
        if len(names) > 2:
            return super().marginal(names)
        return _pair(self, tuple(names))


_PAIRS: dict[tuple[int, tuple[str, ...]], np.ndarray] = {}


def _pair(truth: Kept, names: tuple[str, ...]) -> np.ndarray:
    key = id(truth.counts), names
    if key not in _PAIRS:
        _PAIRS[key] = Truth(truth.counts).marginal(names)
    return _PAIRS[key]


@cache
def ranges(name: str, dimensions: int, queries: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Random ranges of a set and their true counts."""
    counts = load(name)
    lows, highs = random_ranges(counts.schema, dimensions, queries=queries, rng=SeededRng(dimensions))
    return lows, highs, Truth(counts).ranges(lows, highs)


@dataclass(frozen=True, kw_only=True)
class Run:
    """One view: its errors in the order of WORKLOADS, CPU seconds, how many answers their intervals covered."""

    errors: np.ndarray
    cpu: float
    covered: float


def run(name: str, method: str, epsilon: str, seed: int, *, three: bool = True, queries: int = QUERIES) -> Run:
    """Make a view of a set and measure it; `three` leaves the slow three-way tables out if False (NaN)."""
    counts, truth = load(name), Kept(load(name))
    begun = time.process_time()
    chosen = View(epsilon=epsilon, method=method, neighbours="add-remove")  # type: ignore[arg-type]
    release = chosen.publish(Tabled(counts), rng=SeededRng(seed))
    cpu = time.process_time() - begun
    view = open_view(release)
    schema = counts.schema
    errors = [rmse_of_marginals(truth, view, schema, 2).value]
    errors.append(rmse_of_marginals(truth, view, schema, 3).value if three else float("nan"))
    errors.append(rmse_of_prefixes(truth, view, schema).value)
    for dimensions in (2, 3, 4):
        lows, highs, exact = ranges(name, dimensions, queries)
        errors.append(rmse_of_ranges(exact, view, lows, highs).value)
    return Run(errors=np.array(errors), cpu=cpu, covered=coverage(view, name) if method == "model" else float("nan"))


def coverage(view: OpenedView, name: str) -> float:
    """The share of 3-D ranges whose true count lies in the 95 % interval."""
    lows, highs, exact = ranges(name, 3, 500)
    value, noise, model = view.stored.range_answers(lows, highs)  # type: ignore[union-attr]
    return float((np.abs(value - exact) <= 1.96 * np.sqrt(noise + model)).mean())
