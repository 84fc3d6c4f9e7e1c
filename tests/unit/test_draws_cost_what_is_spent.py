"""Every draw is seen with its epsilon and sensitivity: together they cost what the promise says, no more and no less.

An audit looks at what is published, and needs thousands of runs to see that a single measurement got half its noise.
Here the samplers are watched instead: one run tells, exactly.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pytest

from sudare.counts import Counts
from sudare.methods.microdata import Microdata
from sudare.methods.table import Table
from sudare.methods.view import View
from sudare.noise import SeededRng
from sudare.privacy import Neighbours
from sudare.schema import Attribute, NumberBins, Schema, Unit
from sudare.testing.subject import schema_of

SAMPLERS = ("geometric", "permute_and_flip", "exponential")
PERSON = Unit(kind="person", column="person", max_rows=3)


class Draw(NamedTuple):
    """One call of a sampler."""

    sampler: str
    epsilon: Fraction
    sensitivity: Fraction


@pytest.fixture
def draws(monkeypatch: pytest.MonkeyPatch) -> list[Draw]:
    """The calls of samplers by methods, from now on."""
    seen: list[Draw] = []

    def watch(name: str, sample: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*values: Any, epsilon: Fraction, sensitivity: int | Fraction, **rest: Any) -> Any:
            seen.append(Draw(name, Fraction(epsilon), Fraction(sensitivity)))
            return sample(*values, epsilon=epsilon, sensitivity=sensitivity, **rest)

        return watched

    for module_name, module in list(sys.modules.items()):
        if module_name.startswith("sudare.methods."):
            for name in SAMPLERS:
                if callable(sample := module.__dict__.get(name)):
                    monkeypatch.setattr(module, name, watch(name, sample))
    return seen


def table(*sizes: int, unit: Unit | None = None, is_ordered: bool = False) -> Counts:
    """A made-up table of two attributes that depend on each other; ordered ones have levels of groups above them."""
    bins = [Attribute(name=f"a{at}", domain=NumberBins.of_width(0, size, 1)) for at, size in enumerate(sizes)]
    schema = Schema(name="t", attributes=tuple(bins)) if is_ordered else schema_of(*sizes, unit=unit)
    first = np.random.default_rng(1).integers(0, sizes[0], 4000)
    second = np.where(np.random.default_rng(2).random(4000) < 0.7, first % sizes[1], first * 7 % sizes[1])
    return Counts.from_columns(schema, np.column_stack([first, second]))


@pytest.mark.parametrize("unit", [Unit(), PERSON], ids=["row", "person"])
@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("algorithm", ["tree", "projection"])
def test_the_draws_of_microdata_cost_its_epsilon(
    draws: list[Draw], algorithm: Any, neighbours: Neighbours, unit: Unit
) -> None:
    method = Microdata(epsilon=1, algorithm=algorithm, neighbours=neighbours)
    counts = table(8, 80, unit=unit)
    plan = method.plan(counts.schema)
    budget = plan.steps[1]
    method.make(counts, plan, rng=SeededRng(1))
    expected = Counter({("geometric", epsilon, Fraction(budget.cells_sensitivity)): 1
                        for epsilon in (budget.cells_epsilon, budget.sums_epsilon) if epsilon})  # fmt: skip
    if budget.total_epsilon is not None:
        expected["geometric", budget.total_epsilon, Fraction(budget.total_sensitivity)] += 1

    assert Counter(map(tuple, draws)) == expected
    assert sum(draw.epsilon for draw in draws) == 1


@pytest.mark.parametrize("sizes", [(128, 128), (4096, 4096)], ids=["dense", "sparse"])
@pytest.mark.parametrize("focus", ["regions", "cells", "both"])
def test_the_draws_of_a_table_cost_its_epsilon(draws: list[Draw], sizes: tuple[int, int], focus: Any) -> None:
    """One draw a level: a record lies in one node of each."""
    Table(epsilon="1/2", focus=focus).draw(table(*sizes, is_ordered=True), rng=SeededRng(1))

    assert {draw.sensitivity for draw in draws} == {2}
    assert sum(draw.epsilon for draw in draws) == Fraction(1, 2)


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("algorithm", ["model", "product"])
def test_the_draws_of_a_view_cost_its_epsilon(draws: list[Draw], algorithm: Any, neighbours: Neighbours) -> None:
    """Replacing a row is removing one and adding another: half of epsilon for each."""
    View(epsilon=2, algorithm=algorithm, neighbours=neighbours).draw(table(8, 8), rng=SeededRng(1))
    kinds = {draw.sampler for draw in draws}

    assert sum(draw.epsilon for draw in draws) == (1 if neighbours == "replace" else 2)
    assert kinds == ({"geometric", "permute_and_flip"} if algorithm == "model" else {"geometric"})
