"""The choice of the event an audit bets on: where do the outputs of two tables differ most, beyond doubt?

Any choice is sound, because the bet is settled on runs the choice has not seen; a good choice makes it tight.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

SMOOTHING = 10.0  # runs added to every group on both sides: a group seen rarely says little
CAUTION = 4.0  # standard errors held back for having looked at many events
MOST_COLUMNS = 8  # the most telling columns that are combined
THRESHOLDS = 128

Number = TypeVar("Number", np.int64, np.float64)
Scores = NDArray[np.float64]
Groups = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """Runs whose score is at least `threshold`; `favours_first` tells on which table it is the likelier."""

    first: Scores
    second: Scores
    threshold: float
    favours_first: bool
    text: str

    def hits(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which runs fall in the event, on the likelier table and on the other."""
        sides = (self.first, self.second) if self.favours_first else (-self.second, -self.first)
        return sides[0] >= self.threshold, sides[1] >= self.threshold


@dataclass(frozen=True, kw_only=True, slots=True)
class Runs:
    """Outputs of both tables as group numbers per column; `first` runs of the first table, then the second's."""

    columns: tuple[Groups, ...]
    first: int

    def part(self, values: NDArray[Number], low: float, high: float) -> tuple[NDArray[Number], NDArray[Number]]:
        """The share [low, high) of the runs of each table."""
        first, second = values[: self.first], values[self.first :]
        return _slice(first, low, high), _slice(second, low, high)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Choice:
    name: str
    scores: Scores
    favours_first: bool
    bound: float
    threshold: float


def choose_event(runs: Runs, *, z: float) -> Event:
    """Choose on the first half of the runs: scores from its first half, event and direction from its second.

    The score of an output is its log likelihood ratio, estimated either column by column and added up (right when
    columns are independent given the table) or for whole groups of equal outputs (right always, but blunt when nearly
    every output is new). The event is the one whose ratio, less z and CAUTION standard errors, is largest.
    """
    best = max(_choices(runs, z=z), key=lambda choice: choice.bound)
    first, second = runs.part(best.scores, 0.5, 1.0)
    table = "first" if best.favours_first else "second"
    return Event(
        first=first,
        second=second,
        threshold=best.threshold,
        favours_first=best.favours_first,
        text=f"{best.name}: log likelihood ratio in favour of the {table} table at least {best.threshold:.3f}",
    )


def _choices(runs: Runs, *, z: float) -> Iterator[_Choice]:
    """The best event of every score, in both directions."""
    for name, scores in _candidates(runs):
        first, second = runs.part(scores, 0.25, 0.5)
        for favours_first, sides in ((True, (first, second)), (False, (-second, -first))):
            bound, threshold = _sweep(*sides, z=z)
            yield _Choice(name=name, scores=scores, favours_first=favours_first, bound=bound, threshold=threshold)


def _candidates(runs: Runs) -> Iterator[tuple[str, Scores]]:
    """Scores by the 1, 2, ... most telling columns: added up, and for groups of equal outputs."""
    single = [_log_ratio(runs, column) for column in runs.columns]
    order = sorted(range(len(single)), key=lambda column: -_telling(runs, single[column]))[:MOST_COLUMNS]
    for number, scores in enumerate(accumulate(single[column] for column in order), start=1):
        yield f"columns {_listed(order[:number])} added up", scores
    joint = runs.columns[order[0]]
    for number in range(2, len(order) + 1):
        joint = _paired(joint, runs.columns[order[number - 1]])
        yield f"columns {_listed(order[:number])} together", _log_ratio(runs, joint)
        if int(joint.max()) > joint.size // 8:  # nearly every run is a group of its own: more columns tell nothing
            return


def _log_ratio(runs: Runs, groups: Groups) -> Scores:
    """The estimated log likelihood ratio of every run's group, from the first quarter of the runs."""
    size = int(groups.max()) + 1
    first, second = (np.bincount(side, minlength=size) for side in runs.part(groups, 0.0, 0.25))
    shift = np.log(second.sum() / first.sum())
    ratio: Scores = (np.log((first + SMOOTHING) / (second + SMOOTHING)) + shift)[groups]
    return ratio


def _telling(runs: Runs, scores: Scores) -> float:
    high, low = runs.part(scores, 0.25, 0.5)
    return float(high.mean() - low.mean())


def _sweep(likely: Scores, other: Scores, *, z: float) -> tuple[float, float]:
    """The best threshold for `score >= threshold`, and the log ratio of hits less its doubt."""
    grid = np.unique(np.quantile(np.concatenate([likely, other]), np.linspace(0, 1, THRESHOLDS + 1), method="lower"))
    hits = likely.size - np.searchsorted(np.sort(likely), grid)
    misses = other.size - np.searchsorted(np.sort(other), grid)
    p, q = np.maximum(hits, 0.5) / likely.size, np.minimum(misses + 1, other.size) / other.size
    doubt = np.sqrt((1 - np.minimum(p, 1)) / (p * likely.size) + (1 - q) / (q * other.size))
    # the bet is settled on twice as many runs as are looked at here: its own doubt is smaller by sqrt(2)
    bounds = np.log(p / q) - (z / np.sqrt(2) + CAUTION) * doubt
    best = int(np.argmax(bounds))
    return float(bounds[best]), float(grid[best])


def numbered(outputs: NDArray[Any]) -> Groups:
    """Number the different values of a column, small numbers for small ranges without sorting."""
    if np.issubdtype(outputs.dtype, np.integer) and outputs.size:
        low, high = int(outputs.min()), int(outputs.max())
        if high - low < 4 * outputs.size:
            return np.asarray(outputs - low, dtype=np.int64)
    return np.asarray(np.unique(outputs, return_inverse=True)[1], dtype=np.int64).reshape(-1)


def _slice(values: NDArray[Number], low: float, high: float) -> NDArray[Number]:
    return values[int(len(values) * low) : int(len(values) * high)]


def _paired(first: Groups, second: Groups) -> Groups:
    return numbered(first * (int(second.max()) + 1) + second)


def _listed(columns: Sequence[int]) -> str:
    return ", ".join(str(column) for column in columns)
