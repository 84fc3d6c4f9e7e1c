"""A black-box audit: a lower bound on the epsilon a mechanism really has, from many runs on two neighbouring tables.

Half of the runs choose an event, the other half count how often it happens on each table. What is proven, what can be
detected and what cannot: proofs/audit.md
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sudare.errors import ParameterError
from sudare.evaluate.events import Runs, choose_event, numbered

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

    def exceeds(self, promise: float) -> bool:
        """Tell whether the promise is refuted."""
        return self.epsilon_low > float(promise)


def audit(run_on_first: Run, run_on_second: Run, *, runs: int, confidence: float = 0.99) -> Audit:
    """Run a mechanism many times on two neighbouring tables and bound its epsilon from below.

    A run function takes the number of runs and returns one output per run: an array (runs,) or (runs, features), or a
    sequence of anything hashable. Runs must be independent of each other.

    Guarantee: the mechanism's true epsilon is below `epsilon_low` with probability at most 1 - confidence.
    Error: with 1e5 runs within 15 % of epsilon for noise of epsilon 1/2 to 2 on tables of up to six cells.
    Source: Jagielski, Ullman, Oprea 2020 (bounds); Ding et al. 2018 (choice and test on separate runs)

    >>> from fractions import Fraction
    >>> from sudare.mechanisms import SeededRng, geometric
    >>> def noisy(count, seed):
    ...     rng = SeededRng(seed)
    ...     return lambda runs: geometric([count] * runs, epsilon=Fraction(1), sensitivity=1, rng=rng)
    >>> found = audit(noisy(7, seed=1), noisy(8, seed=2), runs=20_000)
    >>> 0.85 < found.epsilon_low <= 1
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
    event = choose_event(_runs(first, second), z=-NormalDist().inv_cdf(doubt))
    likely, other = event.hits()
    low = lower_share(int(likely.sum()), likely.size, doubt=doubt)
    high = upper_share(int(other.sum()), other.size, doubt=doubt)
    return Audit(
        epsilon_low=max(0.0, math.log(low / high)) if low else 0.0,
        epsilon_seen=max(0.0, _log_ratio(likely, other)),
        confidence=confidence,
        runs=min(len(first), len(second)),
        event=f"{event.text}; {likely.mean():.4f} of its runs against {other.mean():.4f}",
    )


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


def _log_ratio(likely: NDArray[np.bool_], other: NDArray[np.bool_]) -> float:
    if not likely.any():
        return 0.0
    return math.log(likely.mean() / other.mean()) if other.any() else math.inf


def _runs(first: Outputs, second: Outputs) -> Runs:
    """Number the outputs of both tables alike, column by column."""
    if isinstance(first, np.ndarray) and isinstance(second, np.ndarray):
        if first.ndim not in (1, 2) or first.shape[1:] != second.shape[1:]:
            raise ParameterError("outputs must be arrays (runs,) or (runs, features), of the same form for both tables")
        both = np.concatenate([first, second]).reshape(len(first) + len(second), -1)
        columns = tuple(numbered(both[:, column]) for column in range(both.shape[1]))
        return Runs(columns=columns, first=len(first))
    numbers: dict[Hashable, int] = {}
    groups = [numbers.setdefault(output, len(numbers)) for side in (first, second) for output in side]
    return Runs(columns=(np.array(groups, dtype=np.int64),), first=len(first))
