"""Coupled replay keeps quiet about right methods, and finds every planted fault: each test breaks one thing."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from sudare.counts import Counts
from sudare.errors import ParameterError
from sudare.methods import budget
from sudare.methods.base import Payload, Plan
from sudare.methods.differential import EpsilonMethod
from sudare.methods.microdata import Microdata
from sudare.methods.table import Table, haar
from sudare.methods.view import View, mondrian
from sudare.methods.view import budget as view_budget
from sudare.methods.view import model as view_model
from sudare.noise import MatrixNoise, SeededRng, counting, geometric, permute_and_flip
from sudare.noise.gaussian import add_gaussian
from sudare.noise.rows import choose_evenly, exceed_few, geometric_few, permute_and_flip_rows
from sudare.noise.witness import WatchedRng
from sudare.privacy.currency import EPSILON, RHO
from sudare.releases import Frame
from sudare.schema import Attribute, Impossible, NumberBins, Schema, Unit, Values
from sudare.text import text
from sudare.verify import neighbours
from sudare.verify.neighbours import Dice, make_pair, make_schema
from sudare.verify.replay import ReplayResult, replay_kind, replay_method, write_ratio
from sudare.verify.tape import Diverged, Tape

HUGE = Schema(
    name="huge",
    attributes=tuple(Attribute(name=name, domain=NumberBins.of_width(0, 6000, 1)) for name in ("x", "y")),
)
MAP = neighbours.make_map_schema(Unit())
FINE = neighbours.make_fine_schema(Unit())
HOLED = Schema(
    name="holed",
    attributes=tuple(Attribute(name=name, domain=NumberBins.of_width(0, 5, 1)) for name in ("x", "y")),
    impossible=(Impossible((("x", frozenset({0})), ("y", frozenset({1, 2})))),),
)
LINE = Schema(name="line", attributes=(Attribute(name="x", domain=NumberBins.of_width(0, 12, 1)),))


def verdicts(method: Any, *, schema: Schema | None = None, pairs: int = 6) -> list[ReplayResult]:
    return list(replay_method(method, schema=schema, pairs=pairs))


def worst(method: Any, **trial: Any) -> Fraction:
    return max(result.worst for result in verdicts(method, **trial))


def breaks(method: Any, **trial: Any) -> bool:
    return any(not result.holds for result in verdicts(method, **trial))


# --- right methods ----------------------------------------------------------------------------------------------------

RIGHT = [
    Microdata(epsilon=1, algorithm="tree"),
    Microdata(epsilon=1, algorithm="projection"),
    Table(epsilon=1, focus="both"),
    Table(epsilon=1, algorithm="wavelet"),
    View(epsilon=1),
    View(epsilon=1, algorithm="product"),
    View(epsilon=1, algorithm="mondrian"),
    View(epsilon=20, algorithm="hdpview"),
    View(rho=1, algorithm="mondrian"),
    View(rho=1, algorithm="hdpview"),
]


@pytest.mark.parametrize("method", RIGHT, ids=lambda method: f"{method.name} {method.algorithm}")
def test_a_right_method_loses_no_more_than_it_promises_and_comes_near(method: Any) -> None:
    found = verdicts(method, pairs=12)

    assert all(result.holds for result in found)
    assert 0.8 < max(result.worst for result in found) <= 1


@pytest.mark.parametrize(
    "method",
    [Microdata(epsilon=3, algorithm="tree"), Microdata(epsilon=3, algorithm="projection"), Table(epsilon=3),
     Table(epsilon=3, algorithm="wavelet"), View(epsilon=3, algorithm="mondrian")],
    ids=["sparse tree", "sparse projection", "top-down tree", "sparse wavelet", "blocks"],
)  # fmt: skip
def test_a_right_method_keeps_its_promise_on_36_million_cells(method: Any) -> None:
    found = verdicts(method, schema=HUGE, pairs=4)

    assert all(result.holds for result in found)
    assert max(result.worst for result in found) > 0.5


@pytest.mark.parametrize("method", [View(epsilon=20), View(rho=10)], ids=["epsilon", "rho"])
def test_a_right_view_keeps_its_promise_where_it_cuts_bins_into_leaves(method: Any) -> None:
    found = verdicts(method, schema=FINE, pairs=10)

    assert all(result.holds for result in found)
    assert max(result.worst for result in found) > 0.9


def test_every_unit_relation_and_choice_is_tried() -> None:
    found = list(replay_kind(Table, pairs=1))

    assert {(result.neighbours, result.unit.max_rows) for result in found} == {
        (relation, unit.max_rows) for relation in ("replace", "add-remove") for unit in neighbours.UNITS
    }
    assert {tuple(result.choices.values()) for result in found} >= {("tree", "cells"), ("wavelet", "regions")}


@pytest.mark.parametrize("currency", ["epsilon", "rho"])
def test_verify_cuts_bins_of_views_and_finds_halved_noise_there(monkeypatch: pytest.MonkeyPatch, currency: str) -> None:
    monkeypatch.setattr(view_model, "grow_leaves", twice_the_part(view_model.grow_leaves))
    results = (result for result in replay_kind(View, pairs=1) if result.choices["algorithm"] == "model")

    assert any(result.worst > 1 for result in results if result.currency == currency)  # no further than to the first


def replay_first_form() -> dict[tuple[str, int], ReplayResult]:
    """What `sudare verify --promise view` shows about a view without choices under pure epsilon."""
    results = itertools.islice(replay_kind(View, pairs=1), 2 * len(neighbours.UNITS))
    return {(result.neighbours, result.unit.max_rows): result for result in results}


AT_ONCE = [("replace", 1), ("replace", 2), ("add-remove", 1), ("add-remove", 5)]


def test_verify_replays_views_that_measure_all_pairs_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both relations, rows and persons; a unit without a value in common with the other loses as much as it can."""
    taken, measure = [], view_model.measure_at_once
    monkeypatch.setattr(view_model, "measure_at_once", lambda *given: taken.append(1) or measure(*given))
    found = replay_first_form()

    assert len(taken) == 2 * len(AT_ONCE)
    assert all(result.holds for result in found.values())


def test_verify_finds_half_the_noise_of_pairs_measured_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    right = MatrixNoise.scale.fget  # type: ignore[attr-defined]
    monkeypatch.setattr(MatrixNoise, "scale", property(lambda noise: right(noise) / 2))
    found = replay_first_form()

    assert [place for place, result in found.items() if not result.holds] == AT_ONCE
    assert all(found[place].worst > 1.1 for place in AT_ONCE)


# --- planted faults ---------------------------------------------------------------------------------------------------


def half_the_noise(choose: Callable[..., Any]) -> Callable[..., Any]:
    """The choice of a noise as a careless hand would ask for it: twice the amount."""
    return lambda amount, *given, **law: choose(2 * amount, *given, **law)


def half_in_cells(choose: Callable[..., Any]) -> Callable[..., Any]:
    return lambda amount, *given, **law: choose(amount * (2 if "is_listed" in law else 1), *given, **law)


def half_in_the_total(choose: Callable[..., Any]) -> Callable[..., Any]:
    return lambda amount, *given, **law: choose(amount * (1 if "is_listed" in law else 2), *given, **law)


def half_in_tests(test: Callable[..., Any]) -> Callable[..., Any]:
    return lambda levels, **law: test(levels, **{**law, "scale": law["scale"] / 2})


def quarter_in_tests(test: Callable[..., Any]) -> Callable[..., Any]:
    """Half the deviation of normal noise."""
    return lambda levels, **law: test(levels, **{**law, "variance": law["variance"] / 4})


def quarter_in_counts(leaf: Callable[..., Any]) -> Callable[..., Any]:
    """Of HDPView, whose counts have a tenth of epsilon: half of their noise is seen by the audits of its blocks."""
    return lambda plan, depth, *, tested: 4 * leaf(plan, depth, tested=tested)


def half_in_counts(leaf: Callable[..., Any]) -> Callable[..., Any]:
    return lambda plan, depth, *, tested: 2 * leaf(plan, depth, tested=tested)


def twice_the_part(measure: Callable[..., Any]) -> Callable[..., Any]:
    """A step of a view as a careless hand would pay for it."""
    return lambda *given, part, **more: measure(*given, part=2 * part, **more)


PURE = [
    (budget, "choose_noise", half_in_cells, Microdata(epsilon=1, algorithm="projection"), None),
    (budget, "choose_noise", half_in_cells, Microdata(epsilon=1, algorithm="projection"), HUGE),
    (budget, "choose_noise", half_in_cells, Microdata(epsilon=1, algorithm="tree"), None),
    (budget, "choose_noise", half_in_cells, Microdata(epsilon=3, algorithm="tree"), HUGE),
    (budget, "choose_noise", half_in_the_total, Microdata(epsilon=1, algorithm="projection"), None),
    (budget, "choose_noise", half_in_cells, Table(epsilon=1), None),
    (budget, "choose_noise", half_in_cells, Table(epsilon=3), HUGE),
    (haar, "choose_by_sensitivity", half_the_noise, Table(epsilon=1, algorithm="wavelet"), None),
    (haar, "choose_by_sensitivity", half_the_noise, Table(epsilon=1, algorithm="wavelet"), HUGE),
    (budget, "choose_noise", half_the_noise, Table(epsilon=1, algorithm="squares"), MAP),
    (haar, "choose_by_sensitivity", half_the_noise, Table(epsilon=1, algorithm="wavelet"), HOLED),
    (view_budget, "choose_noise", half_the_noise, View(epsilon=1), None),
    (view_model, "grow_leaves", twice_the_part, View(epsilon=20), FINE),
    (view_budget, "choose_noise", half_the_noise, View(epsilon=1, algorithm="product"), None),
    (counting, "exceed_few", half_in_tests, View(epsilon=1, algorithm="mondrian"), None),
    (counting, "exceed_few", half_in_tests, View(epsilon=20, algorithm="hdpview"), None),
    (mondrian.Costs, "leaf", half_in_counts, View(epsilon=1, algorithm="mondrian"), None),
    (mondrian.Costs, "leaf", quarter_in_counts, View(epsilon=1, algorithm="hdpview"), None),
]
IN_RHO = [
    (budget, "choose_noise", half_in_cells, Microdata(rho=1, algorithm="projection"), None),
    (budget, "choose_noise", half_in_cells, Microdata(rho=1, algorithm="tree"), HUGE),
    (budget, "choose_noise", half_in_cells, Table(rho=1), None),
    (haar, "choose_by_sensitivity", half_the_noise, Table(rho=1, algorithm="wavelet"), LINE),
    (view_budget, "choose_noise", half_the_noise, View(rho=1), None),
    (counting, "exceed_gaussian_few", quarter_in_tests, View(rho=1, algorithm="mondrian"), None),
    (counting, "exceed_gaussian_few", quarter_in_tests, View(rho=1, algorithm="hdpview"), None),
    (counting, "add_gaussian_few", quarter_in_tests, View(rho=1, algorithm="mondrian"), None),
    (counting, "add_gaussian_few", quarter_in_tests, View(rho=1, algorithm="hdpview"), None),
]


@pytest.mark.parametrize(("module", "name", "weaken", "method", "schema"), [*PURE, *IN_RHO])
def test_too_little_noise_is_found(
    monkeypatch: pytest.MonkeyPatch, module: Any, name: str, weaken: Any, method: Any, schema: Schema | None
) -> None:
    monkeypatch.setattr(module, name, weaken(getattr(module, name)))

    assert breaks(method, schema=schema, pairs=10)


def test_half_the_noise_of_pairs_beyond_the_tree_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """All remaining pairs are measured at once wherever the gate is open: a released number says whether that pays."""
    measure, measured = view_model._measure_rest, []

    def careless(growth: Any, groups: Any, part: Fraction, *given: Any) -> Any:
        measured.append(part)
        return measure(growth, groups, 2 * part, *given)

    monkeypatch.setattr(view_model, "does_pay", lambda *given, **known: True)
    monkeypatch.setattr(view_model, "_measure_rest", careless)
    attributes = tuple(Attribute(name=f"a{place}", domain=Values(("u", "v", "w"))) for place in range(6))

    assert breaks(View(epsilon=20), schema=Schema(name="dense", attributes=attributes), pairs=3)
    assert measured


def test_a_sensitivity_that_is_too_small_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replacing a row changes two cells; somebody counts one."""
    plan = budget.plan
    monkeypatch.setattr(
        "sudare.methods.microdata.microdata.plan",
        lambda *given, **shares: dataclasses.replace(plan(*given, **shares), changed_cells=1),
    )

    assert breaks(Microdata(epsilon=1, algorithm="projection", neighbours="replace"))


def test_a_level_that_the_wavelet_forgets_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = haar.wavelet_sensitivity
    monkeypatch.setattr(haar, "wavelet_sensitivity", lambda levels, **law: right(max(1, levels - 1), **law))

    assert breaks(Table(epsilon=1, algorithm="wavelet"), schema=LINE)


def test_rows_of_a_person_that_are_forgotten_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "rows_of", lambda unit: 1)

    assert breaks(Table(epsilon=1, algorithm="wavelet"))


@dataclass(frozen=True, kw_only=True)
class Histogram(EpsilonMethod):
    """A small method to plant faults in: noise in every cell."""

    name = "histogram"
    summary = text("counts")

    def plan(self, schema: Schema, *, neighbours: Any = None) -> Plan:
        promise = self.guarantee(unit=schema.unit, neighbours=neighbours)
        return Plan(promise=promise, schema=schema, parts={"cells": promise.epsilon}, counted=schema.names)

    def make(self, counts: Counts, plan: Plan, *, rng: Any) -> Payload:
        noisy = geometric(counts.dense(), epsilon=self.share(), sensitivity=self.sensitivity(plan), rng=rng)
        return Payload(frames={"cells": Frame({"count": self.finish(noisy, counts, rng)})})

    def share(self) -> Fraction:
        return Fraction(self.epsilon)

    def sensitivity(self, plan: Plan) -> int:
        rows = plan.facts.unit.max_rows if plan.facts.unit.kind == "person" else 1
        return int(2 * rows if plan.promise.neighbours == "replace" else rows)

    def finish(self, noisy: np.ndarray, counts: Counts, rng: Any) -> np.ndarray:
        return noisy


class Forgetful(Histogram):
    """Measures the total too, and pays for the cells only."""

    def finish(self, noisy: np.ndarray, counts: Counts, rng: Any) -> np.ndarray:
        return np.append(noisy, geometric([counts.total], epsilon=self.share(), sensitivity=1, rng=rng))


class Peeking(Histogram):
    """Leaves empty cells empty."""

    def finish(self, noisy: np.ndarray, counts: Counts, rng: Any) -> np.ndarray:
        return np.where(counts.dense() == 0, 0, noisy)


class Curious(Histogram):
    """Measures a second time if the table is large."""

    def finish(self, noisy: np.ndarray, counts: Counts, rng: Any) -> np.ndarray:
        if counts.total > 1:
            geometric([0], epsilon=self.share() / 1000, sensitivity=1, rng=rng)
        return noisy


class Refusing(Histogram):
    """Refuses a table without people in its first cell."""

    def finish(self, noisy: np.ndarray, counts: Counts, rng: Any) -> np.ndarray:
        if not counts.dense()[0]:
            raise ParameterError("no")
        return noisy


class Bare(Histogram):
    """Adds noise of its own, outside of what is watched."""

    def make(self, counts: Counts, plan: Plan, *, rng: Any) -> Payload:
        noise = geometric_few(counts.schema.size, scale=self.sensitivity(plan) / self.share(), rng=rng)
        return Payload(frames={"cells": Frame({"count": counts.dense() + noise})})


def test_a_right_histogram_is_let_through() -> None:
    assert worst(Histogram(epsilon=1), schema=LINE) == 1
    assert not breaks(Histogram(epsilon=1), schema=LINE)


@pytest.mark.parametrize(
    ("method", "problem"),
    [
        (Forgetful(epsilon=1), None),
        (Peeking(epsilon=1), "published differently"),
        (Curious(epsilon=1), "depends on private numbers"),
        (Refusing(epsilon=1), "is refused, and the other is not"),
        (Bare(epsilon=1), "published differently"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_forgotten_spend_and_everything_that_peeks_is_found(method: Any, problem: str | None) -> None:
    found = [result for result in verdicts(method, schema=LINE, pairs=20) if not result.holds]

    assert found
    assert all(problem is None or problem in str(result.problem) for result in found)
    assert problem is not None or max(result.worst for result in found) > 1


def test_a_plan_that_pays_less_than_it_promises_is_found() -> None:
    class Stingy(Histogram):
        def plan(self, schema: Schema, *, neighbours: Any = None) -> Plan:
            right = super().plan(schema, neighbours=neighbours)
            return dataclasses.replace(right, parts={"cells": right.parts["cells"] / 2})

    found = verdicts(Stingy(epsilon=1), schema=LINE, pairs=1)

    assert all("add up" in str(result.problem) for result in found)


# --- the tape ---------------------------------------------------------------------------------------------------------


def replayed(sample: Callable[..., Any], first: Any, second: Any, *, currency: Any = EPSILON, **law: Any) -> Fraction:
    tape = Tape(1, currency=currency, steering=law.pop("steering", "drawn"))
    before = sample(first, **law, rng=WatchedRng(1, witness=tape))
    tape.play()
    again = sample(second, **law, rng=WatchedRng(1, witness=tape))

    assert np.array_equal(before, again)
    return tape.finish()


def test_noise_loses_the_distance_over_the_scale() -> None:
    law = {"epsilon": Fraction(3), "sensitivity": 2}

    assert replayed(geometric, [5, 0, 9], [4, 0, 11], **law) == Fraction(9, 2)
    in_rho = float(replayed(geometric, [5, 0, 9], [4, 0, 11], currency=RHO, **law))

    assert in_rho == pytest.approx(1.5 * np.tanh(0.75) + 3 * np.tanh(1.5), rel=1e-12)


def test_normal_noise_loses_the_squares_over_twice_the_variance_and_no_pure_promise_allows_it() -> None:
    law = {"variance": Fraction(5)}

    assert replayed(add_gaussian, [5, 0, 9], [4, 0, 11], currency=RHO, **law) == Fraction(1, 2)
    with pytest.raises(Diverged):
        replayed(add_gaussian, [5], [4], **law)


def test_a_choice_loses_the_spread_of_its_scores_times_its_rate() -> None:
    law = {"epsilon": Fraction(1), "sensitivity": 2}

    assert replayed(permute_and_flip, [5, 5, 5], [6, 4, 5], **law) == Fraction(1, 2)
    assert replayed(permute_and_flip, [5, 5, 5], [6, 6, 6], **law) == 0


@pytest.mark.parametrize("steering", ["on", "off"])
def test_a_test_loses_the_logarithm_of_its_odds(steering: Any) -> None:
    """Against the same quotient in floats; the bound is never below it."""
    scale, first, second = Fraction(7, 2), 3, -1
    a = np.exp(-1 / float(scale))
    above = {level: 1 - a**level / (1 + a) if level > 0 else a ** (1 - level) / (1 + a) for level in (first, second)}
    odds = above if steering == "on" else {level: 1 - share for level, share in above.items()}
    found = replayed(
        exceed_few, np.array([first]), np.array([second]), scale=scale, names=np.array([[0]]), steering=steering
    )

    assert float(found) == pytest.approx(abs(np.log(odds[first] / odds[second])), rel=1e-12)


def test_named_draws_are_found_in_any_order() -> None:
    tape = Tape(1, currency=EPSILON)
    rng = WatchedRng(1, witness=tape)
    before = choose_evenly(np.array([4, 9]), names=np.array([[1], [2]]), rng=rng)
    tape.play()
    again = permute_and_flip_rows(
        np.array([0] * 9 + [0, 0, 0, 2]),
        sizes=np.array([9, 4]),
        epsilon=Fraction(1),
        sensitivity=1,
        names=np.array([[2], [1]]),
        rng=rng,
    )

    assert (again - np.array([0, 9])).tolist() == before[::-1].tolist()
    assert tape.finish() == 1


def test_a_second_run_that_asks_for_less_is_found() -> None:
    tape = Tape(1, currency=EPSILON)
    geometric([1], epsilon=Fraction(1), sensitivity=1, rng=WatchedRng(1, witness=tape))
    tape.play()

    with pytest.raises(Diverged):
        tape.finish()


def test_an_unwatched_stream_draws_the_same_bytes_as_before() -> None:
    law = {"epsilon": Fraction(1, 3), "sensitivity": 1}

    assert np.array_equal(
        geometric(np.arange(9), **law, rng=SeededRng(5)), geometric(np.arange(9), **law, rng=SeededRng(5))
    )


# --- neighbours -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [1, 5])
def test_neighbours_differ_in_the_rows_of_one_unit_and_no_more(rows: int) -> None:
    unit = Unit() if rows == 1 else Unit(kind="person", column="person", max_rows=rows)
    dice, distances = Dice(3), {"replace": set(), "add-remove": set()}
    for _ in range(60):
        schema = make_schema(dice, unit)
        for relation, seen in distances.items():
            pair = make_pair(dice, schema, relation)  # type: ignore[arg-type]
            seen.add(int(np.abs(pair.first.dense() - pair.second.dense()).sum()))
            padded = pair.padded()

            assert np.array_equal(padded.first.codes, padded.second.codes)
            assert np.array_equal(padded.first.dense(), pair.first.dense())

    assert max(distances["replace"]) == 2 * rows
    assert max(distances["add-remove"]) == rows


def test_ratios_are_rounded_up() -> None:
    assert write_ratio(Fraction(999_999_5, 10**7)) == "1.000000"
    assert write_ratio(Fraction(10**12 + 1, 10**12)) == "1.000001"
