"""Coupled replay: is what a method draws worth what it promises? An exact answer for the tables that are tried.

A method runs on a table while a tape records every private number and its noise. Then it runs on a neighbouring table
and gets the same outcomes. The loss of the path is added up in exact fractions and compared with the promise, and both
runs must publish the same: what comes after the noise must not see the table. Nothing is estimated, so seconds do.

What it finds: too little noise, a sensitivity that is too small, a measurement nobody paid for, post-processing that
looks at the table, a refusal that depends on it. What it cannot see: whether a sampler has the law it states (the
statistical audit and the tests of fit are for that), and tables that were not tried. Proof: proofs/replay.md
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, get_args

import numpy as np

from sudare.errors import ParameterError, SchemaError, SudareError
from sudare.forms.kinds import ChoiceOf
from sudare.methods.base import Method, Payload, Plan
from sudare.noise.witness import WatchedRng
from sudare.privacy import DifferentialPrivacy, Neighbours
from sudare.privacy.currency import EPSILON
from sudare.schema import Schema, Unit
from sudare.text import Text, text
from sudare.verify.neighbours import (
    FINE,
    SHAPES,
    UNITS,
    WIDE,
    CrowdedTables,
    Dice,
    TablePair,
    make_area_schema,
    make_huge_schema,
    make_map_schema,
    make_pair,
    make_schema,
)
from sudare.verify.tape import Diverged, Steering, Tape

RELATIONS: tuple[Neighbours, ...] = get_args(Neighbours)
STEERINGS: tuple[Steering, ...] = ("drawn", "on", "off")
AMOUNTS: Mapping[str, tuple[str, ...]] = {"epsilon": ("1/10", "1", "3", "20"), "rho": ("1/200", "1/2", "4", "30")}
PAIRS = 2  # of small tables for every configuration
HUGE_PAIRS = (
    1  # of huge ones, which take longer: the relations in turn from currency to currency, the units from form to form
)
MAP_PAIRS = 2  # of maps, likewise; the second with areas
SEED = 14


@dataclass(frozen=True, kw_only=True)
class ReplayResult:
    """What the pairs of one configuration showed: the worst loss in parts of the promise, and what went wrong."""

    method: str
    choices: Mapping[str, str]
    neighbours: Neighbours
    unit: Unit
    currency: str
    pairs: int
    worst: Fraction
    problem: Text | None = None

    @property
    def holds(self) -> bool:
        """Tell whether the promise was kept on all pairs."""
        return self.problem is None and self.worst <= 1

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for programs."""
        return {
            "method": self.method,
            "parameters": dict(self.choices),
            "neighbours": self.neighbours,
            "unit": self.unit.to_dict(),
            "currency": self.currency,
            "pairs": self.pairs,
            "worst_loss_over_promise": write_ratio(self.worst),
            "holds": self.holds,
            "problem": None if self.problem is None else str(self.problem),
        }


def write_ratio(ratio: Fraction) -> str:
    """Write a ratio with six places, rounded up: a loss beyond the promise never reads as 1.

    >>> write_ratio(Fraction(1)), write_ratio(1 + Fraction(1, 10**9))
    ('1.000000', '1.000001')
    """
    millionths = -(-ratio.numerator * 10**6 // ratio.denominator)
    return f"{millionths // 10**6}.{millionths % 10**6:06d}"


# --- configurations ---------------------------------------------------------------------------------------------------


def replay_kind(
    kind: type[Method], *, schema: Schema | None = None, pairs: int = PAIRS, seed: int = SEED
) -> Iterator[ReplayResult]:
    """Replay a method in all its forms: every choice of its parameters, currency, relation and unit.

    With a schema that one is tried, with its unit; else small ones of all kinds, and huge ones.
    """
    units = UNITS if schema is None else (schema.unit,)
    for form, choices in enumerate(list_choices(kind)):
        currencies = currencies_of(kind)
        for place, currency in enumerate(currencies):
            for (turn, relation), unit in itertools.product(enumerate(RELATIONS), units):
                is_turn = len(currencies) == 1 or turn == (form + place) % 2  # one relation a currency
                is_huge = schema is None and is_turn and unit == UNITS[(form + turn) % len(UNITS)]
                huge = HUGE_PAIRS * is_huge

                def make(amount: str, choices: Mapping[str, str] = choices, currency: str = currency) -> Method:
                    return kind(**{currency: amount}, **choices)

                trial = _Trial(make, AMOUNTS[currency], relation, unit, schema, choices, currency)
                wide = (UNITS[0], UNITS[1 + turn]) if form == 0 and currency == EPSILON.name else ()
                yield trial.run(pairs, seed, huge=huge, crowds=_list_crowds(schema, unit, wide=wide))


def replay_method(
    method: Method, *, schema: Schema | None = None, pairs: int = PAIRS, seed: int = SEED
) -> Iterator[ReplayResult]:
    """Replay a method as it is set up, for both relations and all units that it can promise."""
    for relation in RELATIONS:
        if getattr(method.guarantee(neighbours=relation), "neighbours", None) != relation:
            continue
        for unit in UNITS if schema is None else (schema.unit,):
            trial = _Trial(lambda _: method, ("",), relation, unit, schema, {}, "")
            yield trial.run(pairs, seed, huge=HUGE_PAIRS * (schema is None), crowds=_list_crowds(schema, unit))


def _list_crowds(schema: Schema | None, unit: Unit, *, wide: Sequence[Unit] = ()) -> list[CrowdedTables]:
    """Choose crowded tables, of which a pair each is tried at the largest amount: those for views take seconds.

    Rows with long bins, which views cut; and for the units of `wide` nine attributes, of which views measure all pairs
    at once.
    """
    return [] if schema is not None else [FINE] * (unit == UNITS[0]) + [WIDE] * (unit in wide)


def list_choices(kind: type[Method], *, given: Mapping[str, Any] | None = None) -> Iterator[dict[str, str]]:
    """List the words that a method's parameters can be set to: all combinations that it takes with what is given.

    Without `given` it is the first amount of its first currency.
    """
    fields = {
        name: about.kind.choices
        for name, about in kind.parameters().items()
        if isinstance(about.kind, ChoiceOf) and name != "neighbours" and not about.required
    }
    required = given or {currencies_of(kind)[0]: AMOUNTS[currencies_of(kind)[0]][0]}
    for words in itertools.product(*fields.values()):
        choices = dict(zip(fields, words, strict=True))
        try:
            method = kind(**required, **choices)
        except ParameterError:
            continue
        if all(_does_something(method, name) for name in choices):
            yield choices


def _does_something(method: Method, name: str) -> bool:
    """Tell whether a parameter is used beside the others; one that is not is tried as its default alone."""
    about = method.parameters()[name]
    return about.is_used(method) or getattr(method, name) == about.default


def currencies_of(kind: type[Method]) -> list[str]:
    """Tell in which currencies a method can promise."""
    return [name for name in AMOUNTS if name in kind.parameters()]


# --- pairs ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Trial:
    """One configuration: how its method is made, and what it is tried on."""

    make: Callable[[str], Method]
    amounts: tuple[str, ...]
    relation: Neighbours
    unit: Unit
    schema: Schema | None
    choices: Mapping[str, str]
    currency: str

    def run(self, pairs: int, seed: int, *, huge: int = 0, crowds: Sequence[CrowdedTables] = ()) -> ReplayResult:
        """Try pairs until one breaks the promise."""
        dice = Dice(seed)
        worst, tried, currency, name = Fraction(0), 0, self.currency, ""
        problem: Text | None = None
        others = pairs + huge + (MAP_PAIRS if huge else 0)
        for number in range(others + len(crowds)):
            crowd = crowds[number - others] if number >= others else None
            method = self.make(self.amounts[-1] if crowd else dice.choose(self.amounts))
            name = method.name
            schema = crowd.make_schema(self.unit) if crowd else self._schema(dice, number - pairs)
            plan = plan_run(method, schema, self.relation)
            if plan is None:
                continue
            shapes, is_far = (crowd.shapes, crowd.is_far) if crowd else (SHAPES, False)
            pair = make_pair(dice, plan.finer or plan.facts, self.relation, shapes=shapes, is_far=is_far)
            loss, problem = replay_tables(method, plan, pair, dice)
            tried, currency = tried + 1, plan.promise.currency.name
            worst = max(worst, loss)
            if problem is not None or worst > 1:
                break
        return ReplayResult(
            method=name,
            choices=self.choices,
            neighbours=self.relation,
            unit=self.unit,
            currency=currency,
            pairs=tried,
            worst=worst,
            problem=problem,
        )

    def _schema(self, dice: Dice, beyond: int) -> Schema:
        """Small schemas first, then huge ones, then a map, then one with areas."""
        if self.schema is not None:
            return self.schema
        if beyond < 0:
            return make_schema(dice, self.unit)
        if beyond < HUGE_PAIRS:
            return make_huge_schema(dice, self.unit)
        return make_map_schema(self.unit) if beyond == HUGE_PAIRS else make_area_schema(self.unit)


MOST_WHOLE_CELLS = (
    2**20
)  # beyond, methods may look at the filled cells one by one, and draw of the others what they need
REFUSALS = (ParameterError, SchemaError)


def plan_run(method: Method, schema: Schema, relation: Neighbours) -> Any:
    """Plan a run, or give None for a schema that the method refuses in public."""
    try:
        plan = method.plan(schema, neighbours=relation)
    except REFUSALS:
        return None
    if not isinstance(plan.promise, DifferentialPrivacy):
        raise ParameterError(
            "{method} promises no differential privacy; there is no loss to replay", method=method.name
        )
    return plan


def replay_tables(method: Method, plan: Plan, pair: TablePair, dice: Dice) -> tuple[Fraction, Text | None]:
    """Replay a pair: as it is, or where filled cells get their noise by themselves, with the same cells stored in both.

    A method for huge tables gives noise to the filled cells, and draws of all others what can be seen of theirs. Then a
    cell that only one table fills is stored in both, with a count of 0: stored or not, a cell gets its noise by one
    law. That is a law of samplers, which statistical tests watch (tests/statistical/test_sparse.py).
    """
    is_huge = (plan.finer or plan.facts).size > MOST_WHOLE_CELLS
    steering: Steering = (
        "drawn" if is_huge else dice.choose(STEERINGS)
    )  # always on would cut a huge table into its cells
    seed = dice.number(2**40)
    if is_huge and not _draws_by_name(method, plan, pair, seed):
        pair = pair.padded()
    return replay_pair(method, plan, pair, seed=seed, steering=steering)


_NAMED: dict[tuple[Any, ...], bool] = {}


def _draws_by_name(method: Method, plan: Plan, pair: TablePair, seed: int) -> bool:
    """Tell whether a method names what its noise is about, so that the order of the filled cells does not matter.

    It is tried once for every form of a method and schema: which of its algorithms runs is known without the data.
    """
    words = (str(getattr(method, name)) for name, about in method.parameters().items() if about.choices)
    form = (type(method), *words, plan.facts.sizes)
    if form not in _NAMED:
        tape = Tape(seed, currency=EPSILON)
        _run(method, pair.first, plan, WatchedRng(seed, witness=tape))
        _NAMED[form] = tape.is_named
    return _NAMED[form]


def replay_pair(
    method: Method, plan: Plan, pair: TablePair, *, seed: int, steering: Steering = "drawn"
) -> tuple[Fraction, Text | None]:
    """Run a method on both tables of a pair with the same outcomes: the loss in parts of the promise, and a problem."""
    promise = plan.promise
    if not isinstance(promise, DifferentialPrivacy):
        raise ParameterError(
            "{method} promises no differential privacy; there is no loss to replay", method=method.name
        )
    tape = Tape(seed, currency=promise.currency, steering=steering)
    first = _run(method, pair.first, plan, WatchedRng(seed, witness=tape))
    tape.play()
    try:
        second = _run(method, pair.second, plan, WatchedRng(seed, witness=tape))
        if isinstance(first, SudareError) or isinstance(second, SudareError):
            is_alike = isinstance(first, SudareError) and isinstance(second, SudareError)
            problem = text("one of two neighbouring tables is refused, and the other is not")
            return Fraction(0), None if is_alike else problem
        loss = tape.finish()
    except Diverged:
        return Fraction(0), text("what is measured depends on private numbers beyond their noise")
    paid = sum(plan.parts.values(), Fraction(0))
    if not is_same_output(first, second):
        return loss / promise.amount, text("with the same noise two neighbouring tables are published differently")
    if paid != promise.amount:
        return loss / promise.amount, text("the spends do not add up to the promise")
    return loss / promise.amount, None


def _run(method: Method, counts: Any, plan: Plan, rng: WatchedRng) -> Payload | SudareError:
    try:
        method.check(counts, plan)
        return method.make(counts, plan, rng=rng)
    except SudareError as error:
        return error


def is_same_output(first: Payload, second: Payload) -> bool:
    """Tell whether two runs publish the same tables and figures."""
    if dict(first.measures) != dict(second.measures) or first.frames.keys() != second.frames.keys():
        return False
    if first.files.keys() != second.files.keys():
        return False
    return all(_is_same_frame(frame.decode(), second.frames[name].decode()) for name, frame in first.frames.items())


def _is_same_frame(first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    return first.keys() == second.keys() and all(
        _is_same_column(values, second[name]) for name, values in first.items()
    )


def _is_same_column(first: Any, second: Any) -> bool:
    if first.dtype != second.dtype or not np.array_equal(np.ma.getmaskarray(first), np.ma.getmaskarray(second)):
        return False
    given = ~np.ma.getmaskarray(first)
    values, others = np.asarray(first)[given], np.asarray(second)[given]
    return bool(np.array_equal(values, others, equal_nan=values.dtype.kind == "f"))
