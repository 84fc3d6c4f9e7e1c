"""Many trees of one table at once, for tests of their law: a run is a value of an attribute that no cut can divide."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from sudare.methods.view.budget import ViewBudget, plan
from sudare.methods.view.cuts import BlockLevel, Codes, Filled
from sudare.methods.view.mondrian import Costs, Finals, Stop, find_stop, grow
from sudare.noise import CountNoise, Rng
from sudare.noise.counting import GaussianNoise, GeometricNoise
from sudare.privacy import Guarantee, Neighbours, promise_privacy
from sudare.schema import Unit


@dataclass(frozen=True, kw_only=True)
class Way:
    """A method as it is run: what it claims to spend, and its stop test."""

    plan: Costs
    stop: Stop

    @classmethod
    def of(cls, plan: Costs, method: str) -> Way:
        return cls(plan=plan, stop=find_stop(plan, method))

    def with_half_the_noise_of_tests(self) -> Way:
        return replace(self, stop=replace(self.stop, noise=halve(self.stop.noise)))

    def with_half_the_noise_of_cuts(self) -> Way:
        dearer = 4 if self.plan.budget.is_concentrated else 2
        return replace(self, plan=replace(self.plan, cut=dearer * self.plan.cut))


def halve(noise: CountNoise) -> CountNoise:
    """The same law, half as wide."""
    if isinstance(noise, GaussianNoise):
        return GaussianNoise(sigma_squared=noise.sigma_squared / 4)
    return GeometricNoise(scale=noise.scale / 2)


def row_budget(epsilon: Fraction | int) -> ViewBudget:
    """A budget of pure epsilon for one row more or less."""
    return plan(Guarantee(epsilon=Fraction(epsilon), neighbours="add-remove", unit=Unit()))


def rho_budget(rho: Fraction | str, *, neighbours: Neighbours = "add-remove", max_rows: int = 0) -> ViewBudget:
    """A budget of rho, for rows or for persons."""
    unit = Unit(kind="person", column="id", max_rows=max_rows) if max_rows else Unit()
    return plan(promise_privacy(rho=rho, neighbours=neighbours, unit=unit))


def forest(table: dict[tuple[int, ...], int], sizes: tuple[int, ...], runs: int) -> tuple[Filled, BlockLevel, Codes]:
    """Many copies of the first level of one table (its filled cells and their counts)."""
    number = np.arange(runs)[:, None]
    tops = np.tile(np.array(sizes) - 1, (runs, 1))
    boxes = BlockLevel(np.hstack([number, np.zeros_like(tops)]), np.hstack([number, tops]))
    if not table:
        none = np.empty(0, dtype=np.int64)
        columns = np.empty((0, len(sizes) + 1), dtype=np.uint32)
        return Filled(boxes.of(slice(0, 0)), none, none, none, none), boxes, columns
    cells, values = np.array(list(table)), np.array(list(table.values()))
    columns = np.hstack([np.repeat(number, len(cells), axis=0), np.tile(cells, (runs, 1))]).astype(np.uint32)
    many = np.full(runs, len(cells))
    filled = Filled(boxes, np.arange(len(columns)), np.tile(values, runs), many, np.full(runs, values.sum()))
    return filled, boxes.of(slice(0, 0)), columns


def trees(
    way: Way, table: dict[tuple[int, ...], int], sizes: tuple[int, ...], score: str, runs: int, rng: Rng
) -> Finals:
    """The final blocks of many runs, before noise; the run is the first attribute of a box."""
    return grow(*forest(table, sizes, runs), way.plan, way.stop, score, rng=rng)
