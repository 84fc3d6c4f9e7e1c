"""The replay of matrix noise: its loss is the nuclear norm of what changed, and too little noise is found."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from sudare.counts import Counts
from sudare.errors import ParameterError
from sudare.methods.base import Payload, Plan
from sudare.methods.differential import EpsilonMethod
from sudare.noise import MatrixNoise, SeededRng
from sudare.noise.witness import WatchedRng
from sudare.privacy.currency import EPSILON, RHO
from sudare.releases import Frame
from sudare.schema import Schema
from sudare.schema.arrays import Integers, Reals
from sudare.text import text
from sudare.verify.neighbours import UNITS
from sudare.verify.nuclear import bound_nuclear_norm, is_semidefinite
from sudare.verify.replay import ReplayResult, replay_method
from sudare.verify.tape import Diverged, Tape


def multiply(sizes: tuple[int, ...], rows: Any, weights: Any = None) -> Integers:
    """The sum of e e^T over rows of codes."""
    codes = np.asarray(rows, dtype=np.int64).reshape(-1, len(sizes))
    hot = np.zeros((len(codes), sum(sizes)), dtype=np.int64)
    hot[np.arange(len(codes))[:, None], codes + np.cumsum(sizes) - np.array(sizes)] = 1
    times = np.ones(len(codes), dtype=np.int64) if weights is None else np.asarray(weights)
    products: Integers = hot.T @ (times[:, None] * hot)
    return products


def norm_in_floats(change: Integers, sizes: tuple[int, ...]) -> float:
    centre = np.eye(sum(sizes))
    for start, size in zip(np.cumsum(sizes) - np.array(sizes), sizes, strict=True):
        centre[start : start + size, start : start + size] -= 1 / size
    return float(np.abs(np.linalg.eigvalsh(centre @ change @ centre)).sum())


def length_squared(sizes: tuple[int, ...]) -> Fraction:
    return sum((1 - Fraction(1, size) for size in sizes), Fraction(0))


# --- the norm ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [(2, 2), (3, 5, 2, 1), (4,) * 10, (24,) * 6], ids=str)
def test_the_bound_is_the_norm_and_never_below_it(sizes: tuple[int, ...]) -> None:
    random = np.random.default_rng(1)
    for rows in (1, 2, 5, 10):
        codes = np.column_stack([random.integers(0, size, rows) for size in sizes])
        change = multiply(sizes, codes, np.where(np.arange(rows) % 2, -1, 1))
        bound, norm = bound_nuclear_norm(change, sizes), norm_in_floats(change, sizes)

        assert norm * (1 - 1e-12) <= bound <= norm * (1 + 1e-8)


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_records_that_are_only_added_cost_exactly_their_number(rows: int) -> None:
    for seed, sizes in itertools.product(range(5), ((2, 2), (3, 5, 2), (7,) * 9)):
        random = np.random.default_rng(seed)
        change = multiply(sizes, np.column_stack([random.integers(0, size, rows) for size in sizes]))

        assert bound_nuclear_norm(change, sizes) == rows * length_squared(sizes)
        assert bound_nuclear_norm(-change, sizes) == rows * length_squared(sizes)


def test_orthogonal_records_cost_exactly_twice_their_number() -> None:
    """Of four attributes of two groups two agree: h.h' = 0, and no smaller bound is true."""
    sizes = (2, 2, 2, 2)
    replaced = multiply(sizes, [(0, 0, 0, 0), (0, 0, 1, 1)], [1, -1])
    several = multiply(sizes, [(0, 0, 0, 0), (1, 1, 1, 0), (0, 0, 1, 1), (0, 1, 0, 0)], [3, 1, -2, 0])

    assert bound_nuclear_norm(replaced, sizes) == 4
    assert bound_nuclear_norm(several, sizes) <= 12


def test_a_guess_that_is_wrong_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Floats that are off by a tenth give a larger bound, never a smaller one."""
    sizes = (3, 4)
    change = multiply(sizes, [(0, 0), (1, 2), (1, 3)], [2, -1, -1])
    right = np.linalg.eigh

    def wrong(matrix: Reals) -> tuple[Reals, Reals]:
        values, vectors = right(matrix)
        return 0.9 * values, vectors

    expected = norm_in_floats(change, sizes)
    monkeypatch.setattr(np.linalg, "eigh", wrong)

    assert bound_nuclear_norm(change, sizes) >= expected


def test_nothing_changed_costs_nothing() -> None:
    assert bound_nuclear_norm(np.zeros((4, 4), dtype=np.int64), (2, 2)) == 0


def test_semidefinite_matrices_are_told_in_whole_numbers() -> None:
    random = np.random.default_rng(2)
    for rank, seed in itertools.product((0, 1, 3, 6), range(5)):
        factor = np.random.default_rng(seed).integers(-9, 9, (6, rank))
        square = (factor @ factor.T).astype(object)
        assert is_semidefinite(square)
        vector = random.integers(-9, 9, 6)
        least = float(np.linalg.eigvalsh((square - np.outer(vector, vector)).astype(float)).min())
        assert is_semidefinite(square - np.outer(vector, vector)) == (least > -1e-9)
    assert not is_semidefinite(np.array([[0, 1], [1, 0]]))
    assert not is_semidefinite(np.array([[-1]]))


# --- the tape ---------------------------------------------------------------------------------------------------------


def replayed(first: Integers, second: Integers, *, sizes: tuple[int, ...], currency: Any = EPSILON) -> Fraction:
    tape, noise = Tape(1, currency=currency), MatrixNoise(sizes=sizes, epsilon=Fraction(3, 4))
    before = noise.add(first, rng=WatchedRng(1, witness=tape))
    tape.play()
    again = noise.add(second, rng=WatchedRng(1, witness=tape))

    assert np.array_equal(before, again)
    return tape.finish()


def test_matrix_noise_loses_the_nuclear_norm_over_twice_its_scale() -> None:
    sizes = (3, 2, 4)
    table = multiply(sizes, [(0, 1, 2), (2, 0, 3), (1, 1, 1)])
    more, other = table + multiply(sizes, [(2, 1, 0)]), table + multiply(sizes, [(2, 1, 0), (0, 1, 2)], [1, -1])

    assert replayed(table, table, sizes=sizes) == 0
    assert replayed(table, more, sizes=sizes) == Fraction(3, 4)
    assert replayed(more, table, sizes=sizes) == Fraction(3, 4)
    square, inner = float(length_squared(sizes)), 1 - (1 / 3 + 1 / 2 + 1 / 4)  # h.h': one group agrees
    expected = 0.75 * 2 * np.sqrt(square**2 - inner**2) / square
    assert float(replayed(table, other, sizes=sizes)) == pytest.approx(expected, rel=1e-8)
    assert float(replayed(table, more, sizes=sizes, currency=RHO)) == pytest.approx(0.75 * np.tanh(0.375), rel=1e-9)


def test_the_tape_keeps_what_the_noise_gives_on_its_own_grid() -> None:
    tape, noise = Tape(1, currency=EPSILON), MatrixNoise(sizes=(2, 3), epsilon=Fraction(1, 7))
    table = multiply((2, 3), [(0, 0)] * 5)
    drawn = noise.add(table, rng=WatchedRng(1, witness=tape))

    assert np.array_equal(drawn, noise.add(table, rng=SeededRng(1)))


@pytest.mark.parametrize("change", [{"sizes": (3, 2)}, {"epsilon": Fraction(2)}], ids=str)
def test_another_law_on_the_other_table_is_found(change: dict[str, Any]) -> None:
    law: dict[str, Any] = {"sizes": (2, 3), "epsilon": Fraction(1)}
    tape, table = Tape(1, currency=EPSILON), multiply((2, 3), [(0, 0)])
    MatrixNoise(**law).add(table, rng=WatchedRng(1, witness=tape))
    tape.play()

    with pytest.raises(Diverged):
        MatrixNoise(**{**law, **change}).add(table, rng=WatchedRng(1, witness=tape))


# --- whole methods ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class AllPairs(EpsilonMethod):
    """A small method: the tables of all pairs, at once."""

    name = "pairs"
    summary = text("pairs")

    def plan(self, schema: Schema, *, neighbours: Any = None) -> Plan:
        if sum(size > 1 for size in schema.sizes) < 2:
            raise ParameterError("one attribute")
        MatrixNoise(sizes=tuple(schema.sizes), epsilon=self.share()).check()
        promise = self.guarantee(unit=schema.unit, neighbours=neighbours)
        return Plan(promise=promise, schema=schema, parts={"pairs": promise.epsilon}, counted=schema.names)

    def make(self, counts: Counts, plan: Plan, *, rng: Any) -> Payload:
        unit = plan.facts.unit
        rows = (unit.max_rows if unit.kind == "person" else 1) * (2 if plan.promise.neighbours == "replace" else 1)
        noise = MatrixNoise(sizes=tuple(counts.schema.sizes), epsilon=self.share() / rows)
        noisy = noise.add(self.count(counts), rng=rng)
        return Payload(frames={"pairs": Frame({"count": noisy.ravel()})})

    def share(self) -> Fraction:
        return Fraction(self.epsilon)

    def count(self, counts: Counts) -> Integers:  # type: ignore[override]
        return multiply(tuple(counts.schema.sizes), counts.columns(), counts.values)


class Halved(AllPairs):
    """Half the noise."""

    def share(self) -> Fraction:
        return 2 * Fraction(self.epsilon)


class Repeated(AllPairs):
    """Counts every record twice, and pays once."""

    def count(self, counts: Counts) -> Integers:  # type: ignore[override]
        return 2 * super().count(counts)


def verdicts(method: Any) -> list[ReplayResult]:
    return [result for result in replay_method(method, pairs=8) if result.pairs]


def test_a_right_method_is_let_through_for_all_units_and_relations() -> None:
    found = verdicts(AllPairs(epsilon=1))

    assert len(found) == 2 * len(UNITS)
    assert all(result.holds for result in found)
    assert {result.neighbours for result in found if result.worst == 1} >= {"add-remove"}
    assert min(result.worst for result in found) > 0.4


@pytest.mark.parametrize("method", [Halved(epsilon=1), Repeated(epsilon=1)], ids=lambda method: type(method).__name__)
def test_too_little_noise_is_found_for_all_units_and_relations(method: Any) -> None:
    found = verdicts(method)

    assert [result for result in found if result.holds] == []
    assert all(result.worst > Fraction(3, 2) for result in found if result.neighbours == "add-remove")


def test_half_the_covariance_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the sampler itself would have it: c is what the tape is told."""
    right = MatrixNoise.scale.fget  # type: ignore[attr-defined]
    monkeypatch.setattr(MatrixNoise, "scale", property(lambda noise: right(noise) / 2))

    assert not any(result.holds for result in verdicts(AllPairs(epsilon=1)))
