"""A tape of one run: every private number beside the noise it got, to be played to a run on a neighbouring table.

A run on the first table records. A run on the second table gets the same outcomes, and the tape adds up what they tell
about which of the two tables it was: the exact privacy loss of that output, or the most that any output of the same
draws could tell. Proof and limits: proofs/replay.md
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sudare.errors import ParameterError
from sudare.noise import SeededRng
from sudare.noise.counting import COST_BITS, rho_of_epsilon
from sudare.noise.rows import bound_log_exceeding
from sudare.privacy.currency import Currency
from sudare.verify.nuclear import bound_nuclear_norm

Kind = Literal["noise", "normal", "test", "choice", "matrix"]
Steering = Literal["drawn", "on", "off"]
Name = tuple[int, ...]

NOISE = {"geometric", "add_geometric", "add_geometric_few"}
NORMAL = {"add_gaussian", "add_gaussian_few", "exceed_gaussian_few"}
CHOICES = {"exponential", "exponential_rows", "permute_and_flip", "permute_and_flip_rows", "choose_evenly"}
LISTS = {"exponential_rows", "permute_and_flip_rows"}  # samplers of which a call chooses from many lists
TESTS = {"exceed_few", "exceed_gaussian_few"}
MATRICES = {"add_matrix"}


class Diverged(Exception):  # noqa: N818  (reads as a fact in `except Diverged`)
    """The second run asked for something else than the first: what a method measures depends on private numbers."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Draw:
    """One watched draw: private numbers, the law, what came out.

    `parameter` is the scale of noise and tests, the variance of normal noise, the rate of a choice (P proportional to
    exp(rate * score)); None for a choice among equals. `sizes` are those of the blocks of a matrix.
    """

    sampler: str
    kind: Kind
    private: NDArray[Any]
    parameter: Fraction | None
    outcome: Any
    sizes: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Loss:
    """Bounds of ln P[outcome | first table] / P[outcome | second], and of its opposite."""

    forward: Fraction = Fraction(0)
    backward: Fraction = Fraction(0)

    def __add__(self, other: Loss) -> Loss:
        return Loss(forward=self.forward + other.forward, backward=self.backward + other.backward)

    @property
    def worst(self) -> Fraction:
        """Whichever table the output speaks for."""
        return max(self.forward, self.backward)


class Tape:
    """Records the draws of a run, then plays them to another and adds up the loss in a currency.

    `steering` decides the outcome of tests while recording: as drawn, or always on, or always off. Every outcome can
    happen, so the promise must hold for it; drawn ones alone would seldom reach the dear ones.

    >>> from sudare.noise import geometric
    >>> from sudare.noise.witness import WatchedRng
    >>> from sudare.privacy.currency import EPSILON
    >>> tape = Tape(1, currency=EPSILON)
    >>> noisy = geometric([7], epsilon=Fraction(1), sensitivity=2, rng=WatchedRng(1, witness=tape))
    >>> tape.play()
    >>> again = geometric([8], epsilon=Fraction(1), sensitivity=2, rng=WatchedRng(1, witness=tape))
    >>> bool(noisy == again), tape.finish()
    (True, Fraction(1, 2))
    """

    def __init__(self, seed: int, *, currency: Currency, steering: Steering = "drawn") -> None:
        self._rng, self._currency, self._steering = SeededRng(seed), currency, steering
        self._in_order: list[Draw] = []
        self._by_name: dict[tuple[str, Name], Draw] = {}  # by what is asked about a name: a test, a choice or a count
        self._is_playing = False
        self._next = 0
        self._played: set[tuple[str, Name]] = set()
        self._path = Loss()  # of named draws, which belong to one pure promise together
        self._amount = Fraction(0)  # of the others, each in the currency

    # --- what a run sees ---------------------------------------------------------------------------------------------

    def see(self, sample: Callable[..., Any], private: Any, law: Mapping[str, Any]) -> Any:
        """Take a call of a watched sampler: sample and keep it, or give what was kept."""
        name = sample.__name__
        kind = _kind_of(name)
        if law.get("names") is not None:
            return self._see_named(sample, kind, np.asarray(private), law)
        seen = _as_numbers(private)
        parameter = _parameter(name, law)
        sizes = tuple(law["sizes"]) if kind == "matrix" else ()
        if self._is_playing:
            return self._repeat(name, seen, parameter, sizes)
        drawn = sample(private, **(law if kind == "matrix" else _round_law(law)), rng=self._rng)
        draw = Draw(
            sampler=name, kind=kind, private=seen.copy(), parameter=parameter, outcome=_copy(drawn), sizes=sizes
        )
        self._in_order.append(draw)
        return drawn

    def _repeat(self, name: str, private: NDArray[Any], parameter: Fraction | None, sizes: tuple[int, ...]) -> Any:
        if self._next >= len(self._in_order):
            raise Diverged(f"one more call of {name}")
        before = self._in_order[self._next]
        self._next += 1
        same = (before.sampler, before.private.shape, before.parameter, before.sizes)
        if same != (name, private.shape, parameter, sizes):
            raise Diverged(f"{name} after {before.sampler}")
        self._amount += _charge(self._currency, before, private)
        return _copy(before.outcome)

    def _see_named(self, sample: Callable[..., Any], kind: Kind, private: NDArray[Any], law: Mapping[str, Any]) -> Any:
        """Many draws at once, each known by name: another table may have them in another order."""
        name, names = sample.__name__, [tuple(row) for row in np.asarray(law["names"]).tolist()]
        parameter = _parameter(name, law)
        rows = list(_rows_of(name, private, law))
        if self._is_playing:
            repeated = [self._repeat_named(name, *each, parameter) for each in zip(names, rows, strict=True)]
            return self._join(name, repeated, law)
        drawn = sample(private, **_round_law(law), rng=self._rng)
        outcomes = self._steer(name, _outcomes_of(name, drawn, law))
        for key, row, outcome in zip(names, rows, outcomes, strict=True):
            draw = Draw(sampler=name, kind=kind, private=row, parameter=parameter, outcome=outcome)
            self._by_name[_question(name), key] = draw
        return self._join(name, outcomes, law)

    def _repeat_named(self, sampler: str, name: Name, private: NDArray[Any], parameter: Fraction | None) -> Any:
        question = _question(sampler)
        before = self._by_name.get((question, name))
        if before is None or before.private.shape != private.shape:
            raise Diverged(f"a {question} about another part of the table")
        if before.parameter is None:  # a choice among equals, which may be one by scores on the other table
            before = replace(before, sampler=sampler, parameter=parameter)
        if parameter not in (None, before.parameter):
            raise Diverged(f"a {question} of another law")
        self._played.add((question, name))
        if before.private.tobytes() == private.tobytes() and before.private.dtype == private.dtype:
            return before.outcome  # alike on both tables, as most are: it tells nothing
        self._charge_named(before, private)
        return before.outcome

    def _charge_named(self, before: Draw, private: NDArray[Any]) -> None:
        """Add up what a named draw tells: in epsilon with its sign, in rho each by itself, whatever came out."""
        if self._currency.has_delta:
            self._amount += _charge(self._currency, before, private)
        elif before.kind == "normal":
            raise Diverged("normal noise, which keeps no promise of epsilon alone")
        else:
            self._path += _loss(before, private, before.parameter)

    def _steer(self, sampler: str, outcomes: list[Any]) -> list[Any]:
        if sampler not in TESTS or self._steering == "drawn":
            return outcomes
        return [self._steering == "on"] * len(outcomes)

    @staticmethod
    def _join(name: str, outcomes: list[Any], law: Mapping[str, Any]) -> NDArray[Any]:
        if name not in LISTS:
            return np.array(outcomes, dtype=bool if name in TESTS else np.int64)
        starts = np.cumsum(law["sizes"]) - law["sizes"]
        return np.asarray(starts + np.array(outcomes, dtype=np.int64).reshape(-1))

    @property
    def is_named(self) -> bool:
        """Tell whether every draw that was recorded has a name."""
        return not self._in_order

    # --- the verdict -------------------------------------------------------------------------------------------------

    def play(self) -> None:
        """From now on give what was recorded."""
        self._is_playing = True

    def finish(self) -> Fraction:
        """Give the loss in the currency; the second run must have asked for everything the first did."""
        if self._next != len(self._in_order) or self._played != set(self._by_name):
            raise Diverged("fewer draws than before")
        return self._amount + self._path.worst


# --- what a draw tells ------------------------------------------------------------------------------------------------


def _charge(currency: Currency, before: Draw, private: NDArray[Any]) -> Fraction:
    """What one draw costs in a currency, whatever came out."""
    if before.kind == "normal":
        squares = sum(int(gap) ** 2 for gap in _gaps(before.private, private))
        variance = before.parameter or Fraction(1)
        if not currency.has_delta:
            if squares:
                raise Diverged("normal noise, which keeps no promise of epsilon alone")
            return Fraction(0)
        return squares / (2 * variance)
    if before.kind in ("noise", "test"):  # independent for every number: what they cost adds up in every currency
        scale = before.parameter or Fraction(1)
        shifts = Counter(abs(gap) for gap in _gaps(before.private, private))
        return sum((times * _charge_pure(currency, shift / scale) for shift, times in shifts.items()), Fraction(0))
    loss = _loss(before, private, before.parameter).worst
    is_exponential = before.sampler in ("exponential", "exponential_rows")
    return currency.charge_exponential(loss) if is_exponential else _charge_pure(currency, loss)


def _charge_pure(currency: Currency, epsilon: Fraction) -> Fraction:
    """What a pure loss costs: itself, or epsilon * tanh(epsilon/2) in rho, rounded up (proofs/gaussian.md)."""
    if not currency.has_delta or not epsilon:
        return epsilon
    return Fraction(rho_of_epsilon(epsilon, COST_BITS).high, 1 << COST_BITS)


def _loss(before: Draw, private: NDArray[Any], parameter: Fraction | None) -> Loss:
    if np.array_equal(before.private, private):
        return Loss()
    if before.kind == "test":
        return _loss_of_test(int(before.private[0]), int(private[0]), bool(before.outcome), parameter or Fraction(1))
    if before.kind == "choice":
        gaps = _gaps(before.private, private)
        spread = Fraction(max(gaps) - min(gaps)) * (parameter or 0)
        return Loss(forward=spread, backward=spread)
    if before.kind == "matrix":
        norm = bound_nuclear_norm(before.private - private, before.sizes) / (2 * (parameter or Fraction(1)))
        return Loss(forward=norm, backward=norm)
    distance = Fraction(sum(abs(gap) for gap in _gaps(before.private, private))) / (parameter or Fraction(1))
    return Loss(forward=distance, backward=distance)


def _loss_of_test(first: int, second: int, goes_on: bool, scale: Fraction) -> Loss:
    """Of the outcome that came: ln of P[first + Z > 0] / P[second + Z > 0], or of its complement."""
    if first == second:
        return Loss()
    levels = (first, second) if goes_on else (1 - first, 1 - second)
    (low, high), (other_low, other_high) = (bound_log_exceeding(level, scale) for level in levels)
    return Loss(forward=high - other_low, backward=other_high - low)


def _gaps(first: NDArray[Any], second: NDArray[Any]) -> list[Any]:
    """Differences in exact numbers; equal entries are left out but one, since most of them are equal."""
    if "f" in (first.dtype.kind, second.dtype.kind):  # whose differences would be rounded
        first, second = (np.array([Fraction(value) for value in side.tolist()]) for side in (first, second))
    is_other = first != second
    gaps = [a - b for a, b in zip(first[is_other].tolist(), second[is_other].tolist(), strict=True)]
    return gaps if gaps and bool(is_other.all()) else [*gaps, 0]


def _round_law(law: Mapping[str, Any]) -> dict[str, Any]:
    """Round the scale of noise to a power of two, with which the tape draws what it records; not that of a matrix.

    Every outcome can happen under the law that is stated, and the loss is that of the stated law; so it does not matter
    by which law outcomes are proposed, and a few scales need few tables, which take longer to make than all the rest.
    The noise of a matrix needs none, and its scale decides on which grid outcomes lie.
    """
    rounded = dict(law)
    if "scale" in law:
        rounded["scale"] = _near_power(Fraction(law["scale"]))
    elif "variance" in law:
        rounded["variance"] = _near_power(Fraction(law["variance"]))
    elif "sensitivity" in law and not law.keys() & {"monotone", "sizes"}:
        rounded["epsilon"] = law["sensitivity"] / _near_power(Fraction(law["sensitivity"]) / Fraction(law["epsilon"]))
    return rounded


def _near_power(value: Fraction) -> Fraction:
    """Give the power of two below a number, and not less than half of it."""
    return Fraction(2) ** math.floor(math.log2(value))


# --- calls of samplers ------------------------------------------------------------------------------------------------


def _question(sampler: str) -> str:
    """What a sampler asks about a name: the same box is tested, cut and counted."""
    return "test" if sampler in TESTS else "choice" if sampler in CHOICES else "count"


def _kind_of(sampler: str) -> Kind:
    if sampler in NOISE:
        return "noise"
    if sampler in CHOICES:
        return "choice"
    if sampler in NORMAL:
        return "normal"
    if sampler in MATRICES:
        return "matrix"
    if sampler == "exceed_few":
        return "test"
    raise ParameterError(
        "the sampler {sampler} is watched, but its loss is not known; teach verify/tape", sampler=sampler
    )


def _parameter(sampler: str, law: Mapping[str, Any]) -> Fraction | None:
    """The scale, the variance, or the rate of a draw."""
    if "scale" in law:
        return Fraction(law["scale"])
    if "variance" in law:
        return Fraction(law["variance"])
    if "epsilon" not in law:
        return None
    epsilon, sensitivity = Fraction(law["epsilon"]), Fraction(law["sensitivity"])
    if sampler in NOISE:
        return sensitivity / epsilon
    return epsilon / (sensitivity if law.get("monotone") else 2 * sensitivity)


def _as_numbers(private: Any) -> NDArray[Any]:
    values = np.asarray(private)
    return (
        values if values.dtype.kind in "iu" else np.array([Fraction(value) for value in values.ravel()], dtype=object)
    )


def _rows_of(sampler: str, private: NDArray[Any], law: Mapping[str, Any]) -> Iterator[NDArray[Any]]:
    """The private numbers of every name."""
    if sampler in LISTS:
        yield from np.split(private, np.cumsum(law["sizes"])[:-1]) if len(private) else ()
    elif sampler == "choose_evenly":
        yield from (np.zeros(size, dtype=np.int64) for size in private.tolist())
    else:
        yield from private.reshape(-1, 1)


def _outcomes_of(sampler: str, drawn: NDArray[Any], law: Mapping[str, Any]) -> list[Any]:
    if sampler in LISTS:
        sizes = law["sizes"]
        return list((drawn - (np.cumsum(sizes) - sizes)).tolist())
    return list(drawn.tolist())


def _copy(outcome: Any) -> Any:
    return outcome.copy() if isinstance(outcome, np.ndarray) else outcome
