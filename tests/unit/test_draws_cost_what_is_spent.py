"""Every private draw is seen with its law: together they cost what the promise says, no more and no less.

An audit looks at what is published, and needs thousands of runs to see that a single measurement got half its noise.
Here the samplers are watched instead: one run tells, exactly.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pytest

from sudare.counts import Counts
from sudare.methods.microdata import Microdata
from sudare.methods.table import Table
from sudare.methods.table.large import measure_large
from sudare.methods.table.lines import plan_opening
from sudare.methods.view import View
from sudare.methods.view.exam import TUPLES, WEIGHT
from sudare.methods.view.model import FittedModel
from sudare.noise import Rng, SeededRng
from sudare.noise.witness import WatchedRng
from sudare.privacy import Neighbours
from sudare.schema import Attribute, MeshCells, NumberBins, Schema, TableHierarchy, Unit, Values
from sudare.testing.subject import schema_of

PERSON = Unit(kind="person", column="person", max_rows=3)


class Draw(NamedTuple):
    """One call of a sampler that takes private numbers."""

    sampler: str
    law: Mapping[str, Any]
    size: int = 0  # private numbers


class Recorder:
    """A witness that lets every draw happen and keeps what it was."""

    def __init__(self) -> None:
        self.draws: list[Draw] = []

    def see(self, sample: Callable[..., Any], private: Any, law: Mapping[str, Any]) -> Any:
        self.draws.append(Draw(sample.__name__, law, np.size(private)))
        return sample(private, **law, rng=SeededRng(len(self.draws)))


def watch(run: Callable[[Rng], object]) -> list[Draw]:
    """Do a run, and give its private draws."""
    recorder = Recorder()
    run(WatchedRng(1, witness=recorder))
    return recorder.draws


def cost(draw: Draw, *, cells: int, rows: int) -> Fraction:
    """What a draw of counts costs, where a unit changes some cells by some rows each: epsilon, or rho of a Gaussian."""
    if draw.sampler == "add_matrix":  # a record is a vector of one length, whichever it is
        length = sum((1 - Fraction(1, size) for size in draw.law["sizes"]), Fraction(0))
        return cells * rows * length / (2 * draw.law["scale"])
    if draw.sampler == "add_gaussian":
        return cells * rows**2 / (2 * draw.law["variance"])
    return cells * rows / draw.law["scale"]


def table(*sizes: int, unit: Unit | None = None, is_ordered: bool = False) -> Counts:
    """A made-up table of two attributes that depend on each other; ordered ones have levels of groups above them."""
    bins = [Attribute(name=f"a{at}", domain=NumberBins.of_width(0, size, 1)) for at, size in enumerate(sizes)]
    schema = Schema(name="t", attributes=tuple(bins)) if is_ordered else schema_of(*sizes, unit=unit)
    first = np.random.default_rng(1).integers(0, sizes[0], 4000)
    second = np.where(np.random.default_rng(2).random(4000) < 0.7, first % sizes[1], first * 7 % sizes[1])
    return Counts.from_columns(schema, np.column_stack([first, second]))


PROMISES = [{"epsilon": 1}, {"rho": "1/50"}]


@pytest.mark.parametrize("promise", PROMISES, ids=str)
@pytest.mark.parametrize("unit", [Unit(), PERSON], ids=["row", "person"])
@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("algorithm", ["tree", "projection"])
def test_the_draws_of_microdata_cost_its_promise(
    algorithm: Any, neighbours: Neighbours, unit: Unit, promise: dict[str, Any]
) -> None:
    """A person replaced moves all rows from one cell to another; the number of rows then changes by one less."""
    method = Microdata(**promise, algorithm=algorithm, neighbours=neighbours)
    counts = table(8, 80, unit=unit)
    plan = method.plan(counts.schema)
    draws = watch(lambda rng: method.make(counts, plan, rng=rng))
    cells, rows = (2 if neighbours == "replace" else 1), unit.max_rows if unit.kind == "person" else 1
    parts = dict(plan.parts)
    total = parts.pop("noise in the number of records", None)
    if total is not None:
        assert cost(draws.pop(0), cells=1, rows=rows - (neighbours == "replace")) == total

    assert sorted(cost(draw, cells=cells, rows=rows) for draw in draws) == sorted(parts.values())
    assert sum(plan.parts.values()) == method.guarantee().amount


@pytest.mark.parametrize("promise", [{"epsilon": "1/2"}, {"rho": "1/50"}], ids=str)
@pytest.mark.parametrize(
    ("algorithm", "sizes"),
    [("squares", (128, 128)), ("tree", (128, 128)), ("tree", (4096, 4096))],
    ids=["squares", "dense tree", "sparse tree"],
)
@pytest.mark.parametrize("focus", ["regions", "cells", "both"])
def test_the_draws_of_a_table_cost_its_promise(
    algorithm: Any, sizes: tuple[int, int], focus: Any, promise: dict[str, Any]
) -> None:
    """One draw a level: a record lies in one node of each, and in one class of density.

    The squares of a large table close nodes on the way and give them the rest of the budget at once: their cost is that
    of a path, which the replay adds up (tests/unit/test_replay.py).
    """
    method, counts = Table(**promise, focus=focus, algorithm=algorithm), table(*sizes, is_ordered=True)
    draws = watch(lambda rng: method.draw(counts, rng=rng))

    assert {draw.sampler for draw in draws} == {"add_geometric" if "epsilon" in promise else "add_gaussian"}
    amount = method.guarantee().amount
    if draws[0].size == 1:  # the number of crowded records, which one replaced row changes by 1 at most
        amount -= cost(draws.pop(0), cells=1, rows=1)
    costs = [cost(draw, cells=2, rows=1) for draw in draws]
    if algorithm == "squares" and focus != "cells":  # below the deciding squares a draw for every class of density
        plan = method.plan(counts.schema)
        rule = method.rule_of(plan.facts, plan.steps)
        assert rule is not None
        first, levels = rule.level + 1, len(plan.expected_error["levels"])
        top, below = sum(costs[:first]), np.array(costs[first:], dtype=object).reshape(levels - first, -1)
        assert below.shape[1] > 1
        assert all(0.9999 * amount < top + path <= amount for path in below.sum(axis=0))
    else:
        assert sum(costs) == amount


@pytest.mark.parametrize("promise", PROMISES, ids=str)
@pytest.mark.parametrize("unit", [Unit(), PERSON], ids=["row", "person"])
@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_every_path_of_a_large_mesh_costs_its_promise(
    neighbours: Neighbours, unit: Unit, promise: dict[str, Any]
) -> None:
    """A path is measured level by level; where it is closed, once more with all that the levels below would cost."""
    groups = TableHierarchy.from_paths([(f"d{number}", f"g{number // 5}", "*") for number in range(12)])
    attributes = (
        Attribute(name="mesh", domain=MeshCells(level=4, area=("5339",))),
        Attribute(name="district", domain=Values(tuple(f"d{number}" for number in range(12))), hierarchy=groups),
        Attribute(name="age", domain=NumberBins.of_width(0, 100, 5)),
    )
    schema = Schema(name="large mesh", attributes=attributes, unit=unit)
    random = np.random.default_rng(1)
    codes = np.column_stack([random.integers(0, 30, 60_000), random.integers(0, 2, 60_000), np.zeros(60_000, np.int64)])
    counts = Counts.from_columns(schema, codes)
    method = Table(**promise, neighbours=neighbours)
    plan = method.plan(schema)
    draws = watch(lambda rng: measure_large(counts, plan_opening(schema), plan.steps, rng=rng))
    cells, rows = (2 if neighbours == "replace" else 1), unit.max_rows if unit.kind == "person" else 1
    costs = [cost(draw, cells=cells, rows=rows) for draw in draws]
    opened, closed = costs[::2], costs[1::2]  # every level but the last closes some

    assert method.is_large(schema)
    assert len(opened) == plan_opening(schema).levels == len(closed) + 1
    whole = sum(opened)
    assert whole == sum(part for purpose, part in plan.parts.items() if purpose != "noise in the number of records")
    for level, rest in enumerate(closed):
        assert sum(opened[: level + 1]) + rest == whole
    assert sum(plan.parts.values()) == method.guarantee().amount


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_the_draws_of_a_wavelet_cost_its_rho(neighbours: Neighbours) -> None:
    """One difference a level by 1, or two and at one level one by 2: the squares add up over the levels."""
    method, counts = Table(rho="1/50", algorithm="wavelet", neighbours=neighbours), table(16, 16, is_ordered=True)
    draws = watch(lambda rng: method.draw(counts, rng=rng))
    spent = sum(method.plan(counts.schema).parts.values())
    total = Fraction(0) if neighbours == "replace" else cost(draws.pop(0), cells=1, rows=1)

    assert {draw.sampler for draw in draws} == {"add_gaussian"}
    square = len(draws) * 2 + 2 if neighbours == "replace" else len(draws)
    assert total + cost(draws[0], cells=square, rows=1) == spent == Fraction(1, 50)


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("algorithm", ["model", "product"])
def test_the_draws_of_a_view_cost_its_epsilon(algorithm: Any, neighbours: Neighbours) -> None:
    """Replacing a row is removing one and adding another: half of epsilon for each."""
    method, counts = View(epsilon=2, algorithm=algorithm, neighbours=neighbours), table(8, 8)
    plan = method.plan(counts.schema)
    *draws, exam = watch(lambda rng: method.make(counts, plan, rng=rng))
    choices = [draw for draw in draws if draw.sampler == "permute_and_flip"]
    measured = sum(cost(draw, cells=1, rows=1) for draw in draws if draw not in choices)
    measured += cost(exam, cells=1, rows=TUPLES * WEIGHT)  # a row moves one box of every tuple by at most WEIGHT steps

    assert measured + sum(draw.law["epsilon"] for draw in choices) == (1 if neighbours == "replace" else 2)
    assert bool(choices) == (algorithm == "model")


def dense(attributes: int, rows: int, *, strength: float = 1.0) -> Counts:
    """Every attribute follows one hidden number, so that all pairs depend on each other."""
    generator = np.random.default_rng(3)
    hidden = generator.normal(size=rows)
    columns = [np.clip(np.floor(strength * hidden + generator.normal(size=rows) + 2), 0, 3) for _ in range(attributes)]
    return Counts.from_columns(schema_of(*[4] * attributes), np.column_stack(columns).astype(np.int64))


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("promise", [{"epsilon": 10}, {"rho": 5}], ids=str)
def test_the_probe_of_a_view_and_the_pairs_that_follow_cost_its_promise(
    promise: dict[str, Any], neighbours: Neighbours
) -> None:
    """Six attributes: five pairs are chosen, and a record moves the probe by one for each of the ten others.

    They are all measured, or, where attributes hardly depend on each other, chosen one by one.
    """
    is_pure = "epsilon" in promise
    weak = dense(6, 4_000 if is_pure else 1_500, strength=0.04)
    method, counts = View(**promise, neighbours=neighbours), weak if neighbours == "replace" else dense(6, 20_000)
    found: list[Any] = []
    draws = watch(lambda rng: found.append(method.draw(counts, rng=rng)))
    choices = [draw for draw in draws if draw.sampler in ("permute_and_flip", "exponential")]
    noisy = [draw for draw in draws if draw not in choices]
    total = [] if neighbours == "replace" else [noisy.pop(0)]
    probe = next(draw for draw in noisy if draw.size == 1)
    cells = 1 if is_pure or neighbours == "add-remove" else 2
    spent = found[0].exam + sum(cost(draw, cells=1, rows=1) for draw in total)
    spent += sum(cost(draw, cells=cells, rows=1) for draw in noisy if draw is not probe)
    spent += cost(probe, cells=1, rows=10 * cells)
    spent += sum(draw.law["epsilon"] if is_pure else draw.law["epsilon"] ** 2 / 8 for draw in choices)
    amount = method.guarantee().amount / (2 if is_pure and neighbours == "replace" else 1)

    assert isinstance(found[0], FittedModel)
    assert (len(choices) > 5, found[0].raked is None) == ((True, True) if neighbours == "replace" else (False, False))
    assert spent == amount if is_pure else 0.999999 * amount < spent <= amount


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_all_pairs_of_a_view_measured_at_once_cost_what_tables_of_them_would(neighbours: Neighbours) -> None:
    """Ten attributes that depend on each other: one matrix takes what extra pairs would, and a probe of 36 pairs."""
    method, counts = View(epsilon=10, neighbours=neighbours), dense(10, 20_000)
    found: list[Any] = []
    draws = watch(lambda rng: found.append(method.draw(counts, rng=rng)))
    *others, probe, matrix = draws
    choices = [draw for draw in others if draw.sampler == "permute_and_flip"]
    spent = found[0].exam + sum(cost(draw, cells=1, rows=1) for draw in (*others, matrix) if draw not in choices)
    spent += sum(draw.law["epsilon"] for draw in choices) + cost(probe, cells=1, rows=36)

    assert (probe.size, matrix.sampler, matrix.law["sizes"]) == (1, "add_matrix", (4,) * 10)
    assert spent == method.guarantee().amount / (2 if neighbours == "replace" else 1)


@pytest.mark.parametrize("rows", [5_000, 100_000])
@pytest.mark.parametrize("promise", [{"epsilon": 2}, {"rho": 1}], ids=str)
def test_a_view_of_four_attributes_measures_all_pairs_and_pays_for_no_choice(
    promise: dict[str, Any], rows: int
) -> None:
    """With many records, all four attributes together have a table of their own beside those of the pairs."""
    method, counts = View(**promise, neighbours="add-remove"), dense(4, rows)
    found: list[Any] = []
    draws = watch(lambda rng: found.append(method.draw(counts, rng=rng)))
    spent = found[0].exam + sum(cost(draw, cells=1, rows=1) for draw in draws)
    amount = method.guarantee().amount

    assert found[0].measured_pairs == tuple(itertools.combinations(range(4), 2))
    assert (found[0].measured.joint is not None) == (max(draw.size for draw in draws) == 4**4) == (rows > 5_000)
    assert not [draw for draw in draws if draw.sampler in ("permute_and_flip", "exponential")]
    assert spent == amount if "epsilon" in promise else 0.999999 * amount < spent <= amount


def test_the_draws_of_a_view_of_many_attributes_cost_its_epsilon() -> None:
    """Forty attributes and few records: few pairs are chosen, and the rest goes to single attributes."""
    method, counts = View(epsilon=2, neighbours="add-remove"), dense(40, 10_000)
    found: list[Any] = []
    draws = watch(lambda rng: found.append(method.draw(counts, rng=rng)))
    choices = [draw for draw in draws if draw.sampler == "permute_and_flip"]
    spent = found[0].exam + sum(cost(draw, cells=1, rows=1) for draw in draws if draw not in choices)

    assert len(found[0].measured_pairs) == len(choices) > 0
    assert spent + sum(draw.law["epsilon"] for draw in choices) == 2


@pytest.mark.parametrize("unit", [Unit(), PERSON], ids=["row", "person"])
@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_the_draws_of_a_view_cost_its_rho(neighbours: Neighbours, unit: Unit) -> None:
    """A unit changes a table in one or two places by its rows; it moves the exam by all of them in every tuple."""
    method, counts = View(rho="1/2", neighbours=neighbours), table(8, 8, unit=unit)
    plan = method.plan(counts.schema)
    *draws, exam = watch(lambda rng: method.make(counts, plan, rng=rng))
    cells, rows = (2 if neighbours == "replace" else 1), unit.max_rows if unit.kind == "person" else 1
    spent = Fraction(0)
    if len(plan.parts) > 1:
        spent += cost(draws.pop(0), cells=1, rows=rows - (neighbours == "replace"))
    choices = [draw for draw in draws if draw.sampler == "exponential"]
    spent += sum(cost(draw, cells=cells, rows=rows) for draw in draws if draw not in choices)
    spent += sum(draw.law["epsilon"] ** 2 / 8 for draw in choices)
    spent += cost(exam, cells=1, rows=TUPLES * WEIGHT * cells * rows)

    assert {draw.law["sensitivity"] for draw in choices} == {16 * cells * rows}
    assert {draw.sampler for draw in (*draws, exam)} == {"add_gaussian", "exponential"}
    assert Fraction(999_999, 2_000_000) < spent <= Fraction(1, 2)
