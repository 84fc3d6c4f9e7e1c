"""The error of one view, or of one baseline, on every workload of the paper."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from papers.baselines import Hdmm, Identity, Workload
from papers.kato_view.data import load
from papers.kato_view.makers import MAKERS, is_expected, is_possible, opened
from sudare.compare.distances import Answering, TrueTable, random_ranges, rmse_of_ranges
from sudare.methods.view import OpenedView
from sudare.noise import SeededRng

# the eight workloads of the authors' program; the first six are those of the marks in expected.toml
KINDS = {
    "2-way": ("marginals", 2),
    "3-way": ("marginals", 3),
    "Prefix-2D": ("prefixes", 2),
    "Range-2D": ("ranges", 2),
    "Range-3D": ("ranges", 3),
    "Range-4D": ("ranges", 4),
    "1-way ranges": ("all-ranges", 1),
    "Prefix-3D": ("prefixes", 3),
}
WORKLOADS = tuple(KINDS)
SLOW = ("3-way", "Prefix-3D")  # the tables of three attributes
QUERIES = 3000

__all__ = ["KINDS", "MAKERS", "QUERIES", "WORKLOADS", "Run", "coverage", "is_possible", "measure", "ranges", "run"]


class Kept(TrueTable):
    """The truth, every table of two attributes counted once."""

    def marginal(self, names: Sequence[str]) -> np.ndarray:
        if len(names) > 2:
            return super().marginal(names)
        return _pair(self, tuple(names))


_PAIRS: dict[tuple[str, tuple[str, ...]], np.ndarray] = {}


def _pair(truth: Kept, names: tuple[str, ...]) -> np.ndarray:
    key = truth.counts.schema.name, names
    if key not in _PAIRS:
        _PAIRS[key] = TrueTable(truth.counts).marginal(names)
    return _PAIRS[key]


@cache
def ranges(name: str, dimensions: int, queries: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Random ranges of a set and their true counts."""
    counts = load(name)
    lows, highs = random_ranges(counts.schema, dimensions, queries=queries, rng=SeededRng(dimensions))
    return lows, highs, TrueTable(counts).ranges(lows, highs)


@dataclass(frozen=True, kw_only=True)
class Run:
    """One view: its errors in the order of WORKLOADS, CPU seconds, how many answers their intervals covered."""

    errors: np.ndarray
    cpu: float
    covered: float = float("nan")


def run(name: str, method: str, epsilon: str, seed: int, *, three: bool = True, queries: int = QUERIES) -> Run:
    """Make a view of a set and measure it; `three` leaves the slow tables of three attributes out if False (NaN)."""
    if is_expected(method):
        return _expected(name, method, epsilon, three=three)
    begun = time.process_time()
    made = MAKERS[method](load(name), epsilon, seed)
    cpu = time.process_time() - begun
    view = opened(made)
    covered = coverage(view, name) if method == "model" and isinstance(view, OpenedView) else float("nan")
    return Run(errors=measure(view, name, three=three, queries=queries), cpu=cpu, covered=covered)


def measure(view: Answering, name: str, *, three: bool = True, queries: int = QUERIES) -> np.ndarray:
    """RMSE on every workload."""
    found = {"1-way ranges": range_error(view, name)}
    found["2-way"], found["Prefix-2D"] = table_errors(view, name, 2)
    found["3-way"], found["Prefix-3D"] = table_errors(view, name, 3) if three else (float("nan"),) * 2
    for dimensions in (2, 3, 4):
        lows, highs, exact = ranges(name, dimensions, queries)
        found[f"Range-{dimensions}D"] = rmse_of_ranges(exact, view, lows, highs).value
    return np.array([found[workload] for workload in WORKLOADS])


def table_errors(view: Answering, name: str, ways: int) -> tuple[float, float]:
    """RMSE over the cells, and over the prefixes, of all tables of so many attributes."""
    truth = Kept(load(name))
    cells, square, prefix = 0, 0.0, 0.0
    for names in itertools.combinations(load(name).schema.names, ways):
        off = truth.marginal(names) - view.marginal(names)
        square += float((off**2).sum())
        for axis in range(ways):
            off = off.cumsum(axis=axis)
        prefix += float((off**2).sum())
        cells += off.size
    return float(np.sqrt(square / cells)), float(np.sqrt(prefix / cells))


def range_error(view: Answering, name: str) -> float:
    """RMSE over all ranges of single attributes: differences of two prefixes, of which there are size + 1."""
    truth, square, many = TrueTable(load(name)), 0.0, 0
    for one in load(name).schema.names:
        prefixes = np.concatenate([[0.0], np.cumsum(truth.marginal([one]) - view.marginal([one]))])
        square += prefixes.size * float((prefixes**2).sum()) - float(prefixes.sum()) ** 2
        many += prefixes.size * (prefixes.size - 1) // 2
    return float(np.sqrt(square / many))


def _expected(name: str, method: str, epsilon: str, *, three: bool) -> Run:
    """Expected errors of what need not be drawn: they follow from the schema."""
    begun = time.process_time()
    errors = []
    for workload, (kind, ways) in KINDS.items():
        if workload in SLOW and not three:
            errors.append(float("nan"))
            continue
        asked = Workload.of(load(name).schema, kind, ways)  # type: ignore[arg-type]
        if method == "identity, expected":
            errors.append(Identity(epsilon=epsilon).expected_rmse(asked, neighbours="add-remove"))
        else:
            template = "marginals" if method == "hdmm, marginals" else "kron"
            errors.append(_hdmm(name, template, workload) / float(epsilon))
    return Run(errors=np.array(errors), cpu=time.process_time() - begun)


@cache
def _hdmm(name: str, template: str, workload: str) -> float:
    asked = Workload.of(load(name).schema, *KINDS[workload])  # type: ignore[arg-type]
    return Hdmm(epsilon=1, template=template).expected_rmse(asked, neighbours="add-remove")  # type: ignore[arg-type]


def coverage(view: OpenedView, name: str) -> float:
    """The share of 3-D ranges whose true count lies in the 95 % interval."""
    lows, highs, exact = ranges(name, 3, 500)
    told = view.stored.range_moments(lows, highs)  # type: ignore[union-attr]
    held = [abs(one.value - number) <= one.reach(0.95) for one, number in zip(told, exact.tolist(), strict=True)]
    return float(np.mean(held))
