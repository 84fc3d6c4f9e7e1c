"""The descent has the law of one that visits every child; a law that is only nearly the same is rejected.

The reference lists every possible cell, gives noise to every child of every open node and repairs row by row. Each
comparison is a two-sample Kolmogorov-Smirnov test on eight statistics of the published table. Seeds are fixed; the
limit is 1e-4.
"""

from __future__ import annotations

import functools
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from sudare.counts import Counts
from sudare.mechanisms import Rng, SeededRng, geometric
from sudare.mechanisms.zeros import Stratum, count_in_stratum
from sudare.methods.descent import Descent, Tree, attribute_order, empties, make_tree
from sudare.methods.descent import rows as rows_
from sudare.methods.descent.empties import NO_LIMIT
from sudare.methods.descent.ladder import ladder
from sudare.methods.descent.repairs import thin_limits
from sudare.methods.descent.rows import Rows
from sudare.repair import nearest_table
from sudare.schema import Attribute, Impossible, Schema, TableHierarchy, Values

REFERENCE_RUNS = 500
RUNS = 300
LIMIT = 1e-4


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


@functools.cache
def table(records: int, with_impossible: bool) -> Counts:
    """A clustered, long-tailed table: three cells in four are empty."""
    generator = np.random.default_rng(1)
    columns = np.column_stack(
        [
            np.minimum((generator.pareto(1.0, 3 * records) * 4).astype(np.int64), 59),
            np.minimum(generator.geometric(0.5, 3 * records) - 1, 5),
            generator.integers(0, 2, 3 * records),
        ]
    )
    public = schema(with_impossible)
    return Counts.from_columns(public, columns[~public.is_impossible(columns)][:records])


def tree(public: Schema, upper: int) -> Tree:
    levels = attribute_order([ladder(each) for each in public.attributes])
    return make_tree(public, [*levels[: upper + 1], levels[-1]])


def visit_all(descent: Descent, counts: Counts, total: int, rng: Rng) -> np.ndarray:
    """The descent without any laziness, as a dense table."""
    codes, nodes = _nodes(descent.tree)
    exact = counts.dense()[codes]
    parents, totals = np.zeros(codes.size, dtype=np.int64), np.array([total])
    for number, (own, epsilon) in enumerate(zip(nodes, descent.epsilons, strict=True)):
        sums = np.bincount(own, weights=exact).astype(np.int64)
        noisy = geometric(sums, epsilon=epsilon, sensitivity=descent.sensitivity, rng=rng)
        above = np.zeros(sums.size, dtype=np.int64)
        above[own] = parents
        table = np.zeros_like(sums)
        for row in np.flatnonzero(totals):
            children = np.flatnonzero(above == row)
            is_thin = descent.thin_cells and number == len(nodes) - 1
            scale = descent.sensitivity / epsilon
            table[children] = repair_row(noisy[children], int(totals[row]), float(scale) if is_thin else None, rng)
        parents, totals = own, table
    dense = np.zeros(counts.schema.size, dtype=np.int64)
    dense[codes] = totals[parents]
    return dense


def repair_row(noisy: np.ndarray, total: int, scale: float | None, rng: Rng) -> np.ndarray:
    limit = NO_LIMIT if scale is None else int(thin_limits(np.array([total]), np.array([float(noisy.size)]), scale)[0])
    kept = noisy > limit
    row = np.where(kept, noisy, 0)
    if limit == NO_LIMIT or row.sum() >= total or kept.all():
        row[kept] = nearest_table(noisy[kept], total=total, rng=rng)
    else:
        free = np.flatnonzero(~kept)
        each, more = divmod(total - int(row.sum()), free.size)
        row[free] = each
        row[free[rng.subset(free.size, more)]] += 1
    return row


@functools.cache
def _nodes(of: Tree) -> tuple[np.ndarray, list[np.ndarray]]:
    """Codes of the possible cells, and the node of each at every level below the top."""
    codes = np.arange(of.schema.size, dtype=np.int64)
    columns = of.schema.radix.decode(codes[:, None])
    codes, columns = codes[~of.schema.is_impossible(columns)], columns[~of.schema.is_impossible(columns)]
    ranks = of.ranks(columns)
    found = []
    for heights in of.levels[1:]:
        lifted = [each.lift(ranks[:, k], heights[k]) for k, each in enumerate(of.ladders)]
        found.append(np.unique(np.column_stack(lifted), axis=0, return_inverse=True)[1].ravel())
    return codes, found


def figures(descent: Descent, counts: Counts, *, seed: int, reference: bool = False, total: int = 0) -> np.ndarray:
    rng, truth = SeededRng(seed), counts.dense()
    found = []
    for _ in range(REFERENCE_RUNS if reference else RUNS):
        if reference:
            out = visit_all(descent, counts, total or counts.total, rng)
        else:
            out = descent.publish(counts, total=total or counts.total, rng=rng).dense()
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


def smallest_p(first: np.ndarray, second: np.ndarray) -> float:
    return min(stats.ks_2samp(first[:, k], second[:, k]).pvalue for k in range(first.shape[1]))


def descent(counts: Counts, upper: int, epsilon: Fraction, *, thin: bool) -> Descent:
    shape = tree(counts.schema, upper)
    shares = [epsilon / 4 / upper] * upper + [epsilon * 3 / 4] if upper else [epsilon]
    return Descent(tree=shape, epsilons=tuple(shares), sensitivity=2, thin_cells=thin)


@pytest.fixture(autouse=True)
def nothing_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small rows would simply be listed; here they are searched like large ones, until the very end.

    How many children lie in a stratum is drawn from a library's binomial: the exact one (tests/unit/test_zeros.py) builds
    tables that pay for millions of children, not for hundreds.
    """
    generator = np.random.default_rng(5)
    monkeypatch.setattr(empties, "FEW", 0)
    monkeypatch.setattr(empties, "TIMES_KNOWN", 1)
    monkeypatch.setattr(empties, "count_in_stratum", lambda *given: quick_count(generator, *given))


def quick_count(generator: np.random.Generator, trials: int, stratum: Stratum, _: Rng) -> int:
    share = stratum.share(256)
    return int(generator.binomial(trials, share.low / 2**256))


CASES = [(300, 1, Fraction(1), True), (2000, 2, Fraction(1, 2), False), (150, 3, Fraction(4), True)]


@functools.cache
def reference(case: int, thin: bool, total: int = 0) -> np.ndarray:
    records, upper, epsilon, with_impossible = CASES[case]
    counts = table(records, with_impossible)
    return figures(descent(counts, upper, epsilon, thin=thin), counts, seed=1, reference=True, total=total)


def lazy(case: int, thin: bool, *, seed: int = 2, total: int = 0) -> np.ndarray:
    records, upper, epsilon, with_impossible = CASES[case]
    counts = table(records, with_impossible)
    return figures(descent(counts, upper, epsilon, thin=thin), counts, seed=seed, total=total)


@pytest.mark.parametrize("thin", [False, True])
@pytest.mark.parametrize("case", range(len(CASES)))
def test_the_descent_has_the_law_of_one_that_visits_every_child(case: int, thin: bool) -> None:
    assert smallest_p(reference(case, thin), lazy(case, thin)) > LIMIT


@pytest.mark.parametrize("thin", [False, True])
def test_a_total_that_is_far_from_the_truth_changes_nothing_in_this(thin: bool) -> None:
    assert smallest_p(reference(0, thin, 5000), lazy(0, thin, total=5000)) > LIMIT


@pytest.mark.parametrize("guess", [-1, 3, 40])
def test_bad_first_levels_change_nothing(guess: int, monkeypatch: pytest.MonkeyPatch) -> None:
    follow = empties._Search._next
    monkeypatch.setattr(
        empties._Search, "_next", lambda self, unseen: guess if self.level is None else follow(self, unseen)
    )

    assert smallest_p(reference(0, False), lazy(0, False, seed=3)) > LIMIT


def test_listing_all_children_has_the_same_law(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(empties, "FEW", 2**16)

    assert smallest_p(reference(0, False), lazy(0, False, seed=4)) > LIMIT


def test_the_exact_binomial_fits_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(empties, "count_in_stratum", count_in_stratum)
    counts = table(300, True)
    way = descent(counts, 1, Fraction(1), thin=True)
    rng = SeededRng(5)
    cells = [way.publish(counts, total=300, rng=rng).nonzero for _ in range(40)]

    assert stats.ks_2samp(reference(0, True)[:, 2], cells).pvalue > LIMIT


def test_finishing_a_row_one_stratum_early_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    right = empties._Search._goes_on
    monkeypatch.setattr(
        empties._Search,
        "_goes_on",
        lambda self, rows: right(self, rows) & (self.masses.excess[rows] * 2 <= self.totals[rows]),
    )

    assert smallest_p(reference(0, False), lazy(0, False)) < LIMIT


def test_forgetting_a_tenth_of_the_empty_children_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    count = empties.count_in_stratum
    monkeypatch.setattr(empties, "count_in_stratum", lambda *given: int(0.9 * count(*given)))

    assert smallest_p(reference(0, False), lazy(0, False)) < LIMIT


def test_counting_impossible_children_as_empty_ones_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Rows, "room", property(lambda self: self.slots))

    assert smallest_p(reference(0, True), lazy(0, True)) < LIMIT


def test_drawing_rows_evenly_instead_of_by_their_children_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_, "_weigh", lambda widths: ({0}, np.full(widths.shape[0], int(widths[:, 0].max()))))

    assert smallest_p(reference(1, False), lazy(1, False)) < LIMIT


def test_spreading_over_neighbours_instead_of_all_children_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        rows_, "uniform_below_each", lambda bounds, rng: rng.uniform_below(2**40, bounds.size) % -(-bounds // 2)
    )

    assert smallest_p(reference(0, True), lazy(0, True)) < LIMIT
