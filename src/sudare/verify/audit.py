"""A black-box audit: a lower bound on the epsilon a mechanism really has, from many runs on two neighbouring tables.

Half of the runs choose an event, the other half count how often it happens on each table. Any choice is sound, because
it is tested on runs that the choice has not seen; a good choice makes the bound tight. What is proven, what can be
detected and what cannot: proofs/audit.md
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import NormalDist
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sudare.errors import ParameterError
from sudare.schema.arrays import Booleans, Integers, Reals

Outputs = NDArray[Any] | Sequence[Hashable]
Run = Callable[[int], Outputs]

FEWEST_RUNS = 100


@dataclass(frozen=True, kw_only=True, slots=True)
class Audit:
    """What an audit has shown: with the stated confidence, the mechanism is not epsilon-DP below `epsilon_low`.

    `epsilon_seen` is the plain estimate for the same event; the distance between the two is what more runs would gain.
    A low bound is no proof of privacy: an event nobody looked at may be worse.
    """

    epsilon_low: float
    epsilon_seen: float
    confidence: float
    runs: int
    event: str
    rho_low: float = 0.0  # with the same confidence, the mechanism is not rho-zCDP below it

    def exceeds(self, promise: float) -> bool:
        """Tell whether a promise of pure epsilon is refuted."""
        return self.epsilon_low > float(promise)

    def exceeds_rho(self, promise: float) -> bool:
        """Tell whether a promise of rho is refuted."""
        return self.rho_low > float(promise)


def audit(run_on_first: Run, run_on_second: Run, *, runs: int, confidence: float = 0.99) -> Audit:
    """Run a mechanism many times on two neighbouring tables and bound its epsilon from below.

    A run function takes the number of runs and returns one output per run: an array (runs,) or (runs, features), or a
    sequence of anything hashable. Runs must be independent of each other.

    Guarantee: the mechanism's true epsilon is below `epsilon_low` with probability at most 1 - confidence.
    Error: with 1e5 runs within 15 % of epsilon for noise of epsilon 1/2 to 2 on tables of up to six cells.
    Source: Jagielski, Ullman, Oprea 2020 (bounds); Ding et al. 2018 (choice and test on separate runs)

    >>> from fractions import Fraction
    >>> from sudare.noise import SeededRng, geometric
    >>> def noisy(count, seed):
    ...     rng = SeededRng(seed)
    ...     return lambda runs: geometric([count] * runs, epsilon=Fraction(1), sensitivity=1, rng=rng)
    >>> result = audit(noisy(7, seed=1), noisy(8, seed=2), runs=20_000)
    >>> 0.85 < result.epsilon_low <= 1
    True
    """
    if runs < FEWEST_RUNS:
        raise ParameterError("runs ({runs}) must be at least {least}", runs=runs, least=FEWEST_RUNS)
    first, second = run_on_first(runs), run_on_second(runs)
    for outputs in (first, second):
        if len(outputs) != runs:
            raise ParameterError(
                "a run function gave {found} outputs for {runs} runs; it must give one per run",
                found=len(outputs),
                runs=runs,
            )
    return audit_outputs(first, second, confidence=confidence)


def audit_outputs(first: Outputs, second: Outputs, *, confidence: float = 0.99) -> Audit:
    """Bound epsilon from below by outputs that were already drawn, each table's in the order of its runs."""
    if not 0.5 <= confidence < 1:
        raise ParameterError("confidence ({confidence}) must be at least 0.5 and below 1", confidence=confidence)
    doubt = (1 - confidence) / 2  # one half for each of the two bounds
    event = choose_event(_group_runs(first, second), z=-NormalDist().inv_cdf(doubt))
    likely, other = event.hits()
    low = lower_share(int(likely.sum()), likely.size, doubt=doubt)
    high = upper_share(int(other.sum()), other.size, doubt=doubt)
    return Audit(
        epsilon_low=max(0.0, math.log(low / high)) if low else 0.0,
        epsilon_seen=max(0.0, _estimate_log_ratio(likely, other)),
        confidence=confidence,
        runs=min(len(first), len(second)),
        event=f"{event.text}; {likely.mean():.4f} of its runs against {other.mean():.4f}",
        rho_low=bound_rho(low, high),
    )


ORDERS = (1.05, 1.2, 1.5, 2.0, 3.0, 5.0, 8.0)  # of divergences that are tried


def bound_rho(likely: float, other: float) -> float:
    """Bound rho from below by an event that has at least probability `likely` on one table, at most `other` on another.

    Whether it happened is a post-processing of the output, and both sides only move apart from these bounds, so for
    every order a: a * rho >= ln(p^a q^(1-a) + (1-p)^a (1-q)^(1-a)) / (a - 1).

    >>> bound_rho(0.5, 0.5), round(bound_rho(0.8413, 0.5), 3)
    (0.0, 0.252)
    """
    if likely <= other or not 0 < other < 1:
        return 0.0
    rest = min(likely, 1 - 1e-15)
    losses = [
        np.logaddexp(
            a * math.log(rest) + (1 - a) * math.log(other), a * math.log1p(-rest) + (1 - a) * math.log1p(-other)
        )
        / (a * (a - 1))
        for a in ORDERS
    ]
    return max(0.0, float(max(losses)))


def lower_share(hits: int, runs: int, *, doubt: float) -> float:
    """Bound a probability from below (Clopper-Pearson): wrong with probability at most `doubt`.

    >>> round(lower_share(50, 100, doubt=0.025), 4)
    0.3983
    """
    from scipy.special import betaincinv

    return float(betaincinv(hits, runs - hits + 1, doubt)) if hits else 0.0


def upper_share(hits: int, runs: int, *, doubt: float) -> float:
    """Bound a probability from above (Clopper-Pearson): wrong with probability at most `doubt`.

    >>> round(upper_share(0, 100, doubt=0.05), 4)
    0.0295
    """
    return 1.0 - lower_share(runs - hits, runs, doubt=doubt)


def _estimate_log_ratio(likely: Booleans, other: Booleans) -> float:
    if not likely.any():
        return 0.0
    return math.log(likely.mean() / other.mean()) if other.any() else math.inf


def _group_runs(first: Outputs, second: Outputs) -> AuditRuns:
    """Number the outputs of both tables alike, column by column."""
    if isinstance(first, np.ndarray) and isinstance(second, np.ndarray):
        if first.ndim not in (1, 2) or first.shape[1:] != second.shape[1:]:
            raise ParameterError("outputs must be arrays (runs,) or (runs, features), of the same form for both tables")
        both = np.concatenate([first, second]).reshape(len(first) + len(second), -1)
        columns = tuple(number_outputs(both[:, column]) for column in range(both.shape[1]))
        return AuditRuns(columns=columns, first=len(first))
    numbers: dict[Hashable, int] = {}
    groups = [numbers.setdefault(output, len(numbers)) for side in (first, second) for output in side]
    return AuditRuns(columns=(np.array(groups, dtype=np.int64),), first=len(first))


# --- the choice of the event: where the outputs of two tables differ most, beyond doubt ------------------------------

SMOOTHING_RUNS = 10.0  # added to every group on both sides: a group seen rarely says little
CAUTION = 4.0  # standard errors held back for having looked at many events
MOST_COLUMNS = 8  # columns that are combined: those that tell the tables apart best
THRESHOLDS = 128  # quantiles of the score that are tried

AnyNumber = TypeVar("AnyNumber", np.int64, np.float64)


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """Runs whose score is at least `threshold`; `favours_first` tells on which table it is the likelier."""

    first: Reals
    second: Reals
    threshold: float
    favours_first: bool
    text: str

    def hits(self) -> tuple[Booleans, Booleans]:
        """Tell which runs fall in the event, on the likelier table and on the other."""
        sides = (self.first, self.second) if self.favours_first else (-self.second, -self.first)
        return sides[0] >= self.threshold, sides[1] >= self.threshold


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditRuns:
    """Outputs of both tables as group numbers per column; `first` runs of the first table, then the second's."""

    columns: tuple[Integers, ...]
    first: int

    def part(
        self, values: NDArray[AnyNumber], low: float, high: float
    ) -> tuple[NDArray[AnyNumber], NDArray[AnyNumber]]:
        """Give the share [low, high) of the runs of each table."""
        first, second = values[: self.first], values[self.first :]
        return _slice(first, low, high), _slice(second, low, high)


@dataclass(frozen=True, kw_only=True, slots=True)
class _EventChoice:
    name: str
    scores: Reals
    favours_first: bool
    bound: float
    threshold: float


def choose_event(runs: AuditRuns, *, z: float) -> Event:
    """Choose on the first half of the runs: scores from its first half, event and direction from its second.

    The score of an output is its log likelihood ratio, estimated either column by column and added up (right when
    columns are independent given the table) or for whole groups of equal outputs (right always, but blunt when nearly
    every output is new). The event is the one whose ratio, less z and CAUTION standard errors, is largest.
    """
    best = max(_list_choices(runs, z=z), key=lambda choice: choice.bound)
    first, second = runs.part(best.scores, 0.5, 1.0)
    table = "first" if best.favours_first else "second"
    return Event(
        first=first,
        second=second,
        threshold=best.threshold,
        favours_first=best.favours_first,
        text=f"{best.name}: log likelihood ratio in favour of the {table} table at least {best.threshold:.3f}",
    )


def _list_choices(runs: AuditRuns, *, z: float) -> Iterator[_EventChoice]:
    """Give the best event of every score, in both directions."""
    for name, scores in _list_scores(runs):
        first, second = runs.part(scores, 0.25, 0.5)
        for favours_first, sides in ((True, (first, second)), (False, (-second, -first))):
            bound, threshold = _find_threshold(*sides, z=z)
            yield _EventChoice(name=name, scores=scores, favours_first=favours_first, bound=bound, threshold=threshold)


def _list_scores(runs: AuditRuns) -> Iterator[tuple[str, Reals]]:
    """Score by the 1, 2, ... columns that tell the tables apart best: added up, and for groups of equal outputs."""
    single = [_score_groups(runs, column) for column in runs.columns]
    order = sorted(range(len(single)), key=lambda column: -_separate(runs, single[column]))[:MOST_COLUMNS]
    for number, scores in enumerate(accumulate(single[column] for column in order), start=1):
        yield f"columns {_write_list(order[:number])} added up", scores
    joint = runs.columns[order[0]]
    for number in range(2, len(order) + 1):
        joint = _pair_groups(joint, runs.columns[order[number - 1]])
        yield f"columns {_write_list(order[:number])} together", _score_groups(runs, joint)
        if int(joint.max()) > joint.size // 8:  # nearly every run is a group of its own: more columns tell nothing
            return


def _score_groups(runs: AuditRuns, groups: Integers) -> Reals:
    """Estimate the log likelihood ratio of every run's group, from the first quarter of the runs."""
    size = int(groups.max()) + 1
    first, second = (np.bincount(side, minlength=size) for side in runs.part(groups, 0.0, 0.25))
    shift = np.log(second.sum() / first.sum())
    ratio: Reals = (np.log((first + SMOOTHING_RUNS) / (second + SMOOTHING_RUNS)) + shift)[groups]
    return ratio


def _separate(runs: AuditRuns, scores: Reals) -> float:
    """Tell how far the scores of the two tables lie apart."""
    high, low = runs.part(scores, 0.25, 0.5)
    return float(high.mean() - low.mean())


def _find_threshold(likely: Reals, other: Reals, *, z: float) -> tuple[float, float]:
    """Find the best threshold for `score >= threshold`; give the log ratio of hits, less its doubt, and it."""
    grid = np.unique(np.quantile(np.concatenate([likely, other]), np.linspace(0, 1, THRESHOLDS + 1), method="lower"))
    hits = likely.size - np.searchsorted(np.sort(likely), grid)
    misses = other.size - np.searchsorted(np.sort(other), grid)
    p, q = np.maximum(hits, 0.5) / likely.size, np.minimum(misses + 1, other.size) / other.size
    doubt = np.sqrt((1 - np.minimum(p, 1)) / (p * likely.size) + (1 - q) / (q * other.size))
    # the event is tested on twice as many runs as are looked at here: its own doubt is smaller by sqrt(2)
    bounds = np.log(p / q) - (z / np.sqrt(2) + CAUTION) * doubt
    best = int(np.argmax(bounds))
    return float(bounds[best]), float(grid[best])


def number_outputs(outputs: NDArray[Any]) -> Integers:
    """Number the different values of a column, small numbers for small ranges without sorting."""
    if np.issubdtype(outputs.dtype, np.integer) and outputs.size:
        low, high = int(outputs.min()), int(outputs.max())
        if high - low < 4 * outputs.size:
            return np.asarray(outputs - low, dtype=np.int64)
    return np.asarray(np.unique(outputs, return_inverse=True)[1], dtype=np.int64).reshape(-1)


def _slice(values: NDArray[AnyNumber], low: float, high: float) -> NDArray[AnyNumber]:
    return values[int(len(values) * low) : int(len(values) * high)]


def _pair_groups(first: Integers, second: Integers) -> Integers:
    return number_outputs(first * (int(second.max()) + 1) + second)


def _write_list(columns: Sequence[int]) -> str:
    return ", ".join(str(column) for column in columns)
