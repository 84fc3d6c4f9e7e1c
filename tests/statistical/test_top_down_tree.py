"""The descent has the law of one that visits every child; a law that is only nearly the same is rejected.

The reference lists every possible cell, gives noise to every cell and to every child of every open node, and repairs
row by row. Each comparison is a two-sample Kolmogorov-Smirnov test on eight statistics of the published table. Seeds
are fixed; the limit is 1e-4.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from sudare.counts import Counts
from sudare.methods.tree import TopDownTree, Tree, attribute_order, group_values, make_tree
from sudare.methods.tree import empty as empties
from sudare.methods.tree import empty as rows_
from sudare.methods.tree import grow as descend
from sudare.methods.tree import valid_rows as repairs
from sudare.methods.tree.empty import NO_LIMIT, Children, NoisyChildren, OpenRows
from sudare.methods.tree.valid_rows import ShrinkRows, thin_limits
from sudare.noise import CountNoise, Rng, SeededRng
from sudare.noise.counting import choose_noise
from sudare.noise.zeros import Stratum, count_in_stratum
from sudare.postprocess import find_nearest_table
from sudare.privacy.currency import EPSILON, RHO
from sudare.schema import Attribute, Impossible, Schema, TableHierarchy, Values

REFERENCE_RUNS = 160
RUNS = 80
LIMIT = 1e-4
ROOT_SHARE, ROW_SHARE = 0.002, 0.01


def schema(with_impossible: bool) -> Schema:
    """60 ordered values, 6 in a declared hierarchy that is not in order, 2 plain: 720 cells."""
    paths = [(name, group, "*") for name, group in zip("abcdef", "xyxzyx", strict=True)]
    attributes = (
        Attribute(name="day", domain=Values(values=tuple(map(str, range(60))), is_ordered=True)),
        Attribute(name="town", domain=Values(values=tuple("abcdef")), hierarchy=TableHierarchy.from_paths(paths)),
        Attribute(name="sex", domain=Values(values=("F", "M"))),
    )
    never = (
        Impossible(values={"day": frozenset(range(10, 40)), "town": frozenset({0, 2})}),
        Impossible(values={"day": frozenset(range(32, 48))}),
        Impossible(values={"town": frozenset({2, 5}), "sex": frozenset({1})}),
    )
    return Schema(name="t", attributes=attributes, impossible=never if with_impossible else ())


@dataclass(frozen=True, kw_only=True)
class Case:
    """A clustered, long-tailed table and a way to open it."""

    records: int
    upper: int
    epsilon: Fraction = Fraction(0)
    rho: Fraction | None = None
    with_impossible: bool = False
    opening_scales: int = 0
    thin: bool = False
    shrunk: bool = False
    total: int | None = None

    @functools.cached_property
    def counts(self) -> Counts:
        generator = np.random.default_rng(1)
        size = 3 * self.records
        days = np.minimum((generator.pareto(1.0, size) * 4).astype(np.int64), 59)
        towns = np.minimum(generator.geometric(0.5, size) - 1, 5)
        columns = np.column_stack([days, towns, generator.integers(0, 2, size)])
        public = schema(self.with_impossible)
        return Counts.from_columns(public, columns[~public.is_impossible(columns)][: self.records])

    def noise(self, share: Fraction) -> CountNoise:
        amount = share * (self.epsilon if self.rho is None else self.rho)
        return choose_noise(amount, EPSILON if self.rho is None else RHO, cells=2, rows=1, is_listed=True)

    @functools.cached_property
    def top_down(self) -> TopDownTree:
        value_groups = [group_values(each) for each in self.counts.schema.attributes]
        levels = attribute_order(value_groups)
        return TopDownTree(
            tree=make_tree(self.counts.schema, [*levels[: self.upper + 1], levels[-1]], value_groups),
            noises=(*[self.noise(Fraction(1, 4 * self.upper))] * self.upper, self.noise(Fraction(3, 4))),
            thin_cells=self.thin,
            opening_scales=self.opening_scales,
            shrink_rows=self.shrunk,
        )

    def lazy(self, rng: Rng) -> np.ndarray:
        return self.top_down.publish(self.counts, total=self.total or self.records, rng=rng).dense()

    def reference(self, rng: Rng) -> np.ndarray:
        return Visit(self, rng).publish(self.total or self.records)


class Visit:
    """The descent without any laziness, as a dense table."""

    def __init__(self, case: Case, rng: Rng) -> None:
        self.way, self.rng = case.top_down, rng
        self.codes, self.nodes = _nodes(self.way.tree)
        self.exact = case.counts.dense()[self.codes]
        self.noisy = self.measure(self.exact, -1)
        self.table = np.zeros(self.codes.size, dtype=np.int64)
        self.is_left = np.ones(self.codes.size, dtype=bool)

    def measure(self, sums: np.ndarray, number: int) -> np.ndarray:
        return self.way.noises[number].add(sums, rng=self.rng)

    def publish(self, total: int) -> np.ndarray:
        left = self.publish_standing(total) if self.way.thin_cells else total
        open_ = {0: left} if left else {}
        last = len(self.way.noises) - 1
        for number in range(last + 1):
            limit = math.floor(self.way.opening_scales * self.way.noises[number].scale) if number < last else math.inf
            for node in [node for node, count in open_.items() if count <= limit]:
                cells = np.flatnonzero((self.nodes[number] == node) & self.is_left)
                self.table[cells] = self.repair(self.noisy[cells], open_.pop(node))
            open_ = self.open(number, open_) if open_ else {}
        dense = np.zeros(self.way.tree.schema.size, dtype=np.int64)
        dense[self.codes] = self.table
        return dense

    def open(self, number: int, parents: dict[int, int]) -> dict[int, int]:
        """Open nodes by one upper step."""
        below = self.nodes[number + 1]
        exact = np.bincount(below, weights=np.where(self.is_left, self.exact, 0)).astype(np.int64)
        noisy = self.measure(exact, number)
        rows = [np.unique(below[(self.nodes[number] == node) & self.is_left]) for node in parents]
        values = np.concatenate([noisy[row] for row in rows])
        if self.way.shrink_rows:
            values = self.explain(number, rows, values, np.array(list(parents.values())))
        following: dict[int, int] = {}
        for row, part, count in zip(
            rows, np.split(values, np.cumsum([row.size for row in rows])[:-1]), parents.values(), strict=True
        ):
            table = find_nearest_table(part, total=count, rng=self.rng)
            following |= {int(child): int(x) for child, x in zip(row, table, strict=True) if x}
        return following

    def explain(self, number: int, rows: list[np.ndarray], values: np.ndarray, totals: np.ndarray) -> np.ndarray:
        cells = np.bincount(self.nodes[number + 1]).astype(float)[np.concatenate(rows)]
        owner = np.repeat(np.arange(len(rows)), [row.size for row in rows])
        children = Children(rows=owner, codes=owner[:, None])
        rule = ShrinkRows(lambda _: cells, self.way.noises[number])
        return np.rint(rule._explain(NoisyChildren(children=children, values=values), totals)).astype(np.int64)

    def publish_standing(self, total: int) -> int:
        limit = self.limit(total, self.codes.size, ROOT_SHARE)
        if limit == NO_LIMIT:
            return total
        out = self.noisy > limit
        self.table[out], self.is_left = self.noisy[out], ~out
        if self.table.sum() >= total or out.all():
            self.table[out] = find_nearest_table(self.noisy[out], total=total, rng=self.rng)
        return total - int(self.table.sum())

    def repair(self, noisy: np.ndarray, total: int) -> np.ndarray:
        limit = self.limit(total, noisy.size, ROW_SHARE) if self.way.thin_cells else NO_LIMIT
        kept = noisy > limit
        row = np.where(kept, noisy, 0)
        if limit == NO_LIMIT or row.sum() >= total or kept.all():
            row[kept] = find_nearest_table(noisy[kept], total=total, rng=self.rng)
            return row
        free = np.flatnonzero(~kept)
        each, more = divmod(total - int(row.sum()), free.size)
        row[free] = each
        row[free[self.rng.subset(free.size, more)]] += 1
        return row

    def limit(self, total: int, capacity: int, share: float) -> int:
        return _limit(total, capacity, self.way.noises[-1], share)


@functools.cache
def _limit(total: int, capacity: int, noise: CountNoise, share: float) -> int:
    return int(thin_limits(np.array([total]), np.array([float(capacity)]), noise, noise_share=share)[0])


@functools.cache
def _nodes(of: Tree) -> tuple[np.ndarray, list[np.ndarray]]:
    """Codes of the possible cells, and the node of each at every level."""
    codes = np.arange(of.schema.size, dtype=np.int64)
    columns = of.schema.radix.decode(codes[:, None])
    possible = ~of.schema.is_impossible(columns)
    ranks = of.ranks(columns[possible])
    found = []
    for heights in of.levels:
        lifted = np.column_stack([each.lift(ranks[:, k], heights[k]) for k, each in enumerate(of.value_groups)])
        found.append(np.unique(lifted, axis=0, return_inverse=True)[1].ravel())
    return codes[possible], found


def figures(case: Case, *, seed: int, reference: bool = False) -> np.ndarray:
    rng, truth = SeededRng(seed), case.counts.dense()
    found = []
    for _ in range(REFERENCE_RUNS if reference else RUNS):
        out = case.reference(rng) if reference else case.lazy(rng)
        off, spurious, days = out - truth, out[truth == 0], out.reshape(60, 12).sum(axis=1)
        found.append(
            (
                np.linalg.norm(off),
                np.abs(np.cumsum(off)).max(),
                (out > 0).sum(),
                out.max(),
                (spurious > 0).sum(),
                spurious.sum(),
                (days > 0).sum(),
                (days * np.arange(60)).sum(),
            )
        )
    return np.array(found, dtype=float)


@functools.cache
def reference(case: Case) -> np.ndarray:
    return figures(case, seed=1, reference=True)


def smallest_p(first: np.ndarray, second: np.ndarray) -> float:
    return min(stats.ks_2samp(first[:, k], second[:, k]).pvalue for k in range(first.shape[1]))


@pytest.fixture(autouse=True)
def nothing_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small rows would simply be listed; here they are searched like large ones, until the very end.

    How many children lie in a stratum is drawn from a library's binomial: the exact one (tests/unit/test_zeros.py)
    builds tables that pay for millions of children, not for hundreds.
    """
    generator = np.random.default_rng(5)
    monkeypatch.setattr(empties, "LISTED_CHILDREN", 0)
    monkeypatch.setattr(empties, "TIMES_KNOWN", 1)
    monkeypatch.setattr(empties, "count_in_stratum", lambda *given: quick_count(generator, *given))


def quick_count(generator: np.random.Generator, trials: int, stratum: Stratum, _: Rng) -> int:
    return int(generator.binomial(trials, stratum.share(256).low / 2**256))


PROJECTED = Case(records=150, upper=1, epsilon=Fraction(2), with_impossible=True)
SPREAD = Case(records=300, upper=1, epsilon=Fraction(1), with_impossible=True, thin=True)
SUNKEN = Case(records=80, upper=1, epsilon=Fraction(1, 2), thin=True)
STANDING = Case(records=1000, upper=2, epsilon=Fraction(3, 2), thin=True)
CASES = {
    "projected": PROJECTED,
    "explained": Case(records=1000, upper=2, epsilon=Fraction(2), with_impossible=True, shrunk=True),
    "projected, Gaussian": Case(records=300, upper=3, rho=Fraction(2), opening_scales=1),
    "spread, Gaussian": Case(records=1000, upper=2, rho=Fraction(1), with_impossible=True, opening_scales=3, thin=True),
    "projected, uneven": Case(records=300, upper=3, epsilon=Fraction(4), opening_scales=1),
    "projected, other total": Case(records=300, upper=1, epsilon=Fraction(1), total=3000),
    "spread": SPREAD,
    "spread, standing out": STANDING,
    "spread, patient, explained": Case(
        records=1000, upper=2, epsilon=Fraction(2), with_impossible=True, opening_scales=3, thin=True, shrunk=True
    ),
    "spread, high epsilon": Case(records=150, upper=2, epsilon=Fraction(8), opening_scales=1, thin=True),
    "spread, small total": Case(records=300, upper=1, epsilon=Fraction(4), thin=True, total=40),
    "spread, all under the noise": SUNKEN,
}


@pytest.mark.parametrize("name", CASES)
def test_the_descent_has_the_law_of_one_that_visits_every_child(name: str) -> None:
    assert smallest_p(reference(CASES[name]), figures(CASES[name], seed=2)) > LIMIT


@pytest.mark.parametrize("guess", [-1, 12])
def test_bad_first_levels_change_nothing(guess: int, monkeypatch: pytest.MonkeyPatch) -> None:
    follow = empties._Search._next
    monkeypatch.setattr(
        empties._Search, "_next", lambda self, unseen: guess if self.level is None else follow(self, unseen)
    )

    assert smallest_p(reference(PROJECTED), figures(PROJECTED, seed=3)) > LIMIT


@pytest.mark.parametrize("case", [PROJECTED, SPREAD])
def test_listing_all_children_has_the_same_law(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(empties, "LISTED_CHILDREN", 2**16)

    assert smallest_p(reference(case), figures(case, seed=4)) > LIMIT


def test_the_exact_binomial_fits_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(empties, "count_in_stratum", count_in_stratum)
    rng = SeededRng(5)
    cells = [int((PROJECTED.lazy(rng) > 0).sum()) for _ in range(15)]

    assert stats.ks_2samp(reference(PROJECTED)[:, 2], cells).pvalue > LIMIT


def test_finishing_a_row_too_early_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    right = empties._Search._goes_on
    monkeypatch.setattr(
        empties._Search,
        "_goes_on",
        lambda self, rows: right(self, rows) & (self.masses.excess[rows] * 2 <= self.totals[rows]),
    )

    assert smallest_p(reference(PROJECTED), figures(PROJECTED, seed=2)) < LIMIT


def test_forgetting_a_part_of_the_empty_children_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    count = empties.count_in_stratum
    monkeypatch.setattr(empties, "count_in_stratum", lambda *given: int(0.8 * count(*given)))

    assert smallest_p(reference(PROJECTED), figures(PROJECTED, seed=2)) < LIMIT


def test_counting_impossible_children_as_empty_ones_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    right = OpenRows.__dict__["capacity"].func
    monkeypatch.setattr(
        OpenRows, "capacity", property(lambda self: right(self) if any(self.step.below) else self.slots)
    )

    assert smallest_p(reference(PROJECTED), figures(PROJECTED, seed=2)) < LIMIT


def test_spreading_to_one_side_instead_of_evenly_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    even = rows_.draw_below_each
    monkeypatch.setattr(
        rows_, "draw_below_each", lambda bounds, *, rng: np.maximum(even(bounds, rng=rng), even(bounds, rng=rng))
    )

    assert smallest_p(reference(SUNKEN), figures(SUNKEN, seed=2)) < LIMIT


def test_forgetting_what_stood_out_in_the_sums_above_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant publishes cells that stand out, and sends them down the tree a second time."""
    sort = descend.sort_cells
    exact = STANDING.counts.values
    monkeypatch.setattr(
        descend,
        "sort_cells",
        lambda ranks, values, tree: sort(ranks, np.append(exact, values[exact.size :]), tree),
    )

    assert smallest_p(reference(STANDING), figures(STANDING, seed=2)) < LIMIT


def test_a_limit_that_is_one_scale_too_low_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    right = repairs.thin_limits
    monkeypatch.setattr(repairs, "thin_limits", lambda *given, **share: right(*given, **share) - 3)

    assert smallest_p(reference(SPREAD), figures(SPREAD, seed=2)) < LIMIT
