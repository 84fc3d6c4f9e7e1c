"""Lattice, tuples, searches: what they find, what they refuse, and that time is kept."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

from sudare.counts import Counts
from sudare.errors import Infeasible, ParameterError, SchemaError
from sudare.methods.kanon import check
from sudare.methods.kanon.check import NodeChecker
from sudare.methods.kanon.criteria import DistinctDiversity, MinimumSize
from sudare.methods.kanon.lattice import Lattice
from sudare.methods.kanon.power_law import PowerLaw, find_nearest, fit_power_law, list_coarsest
from sudare.methods.kanon.problem import SearchProgress
from sudare.methods.kanon.quality import QUALITIES
from sudare.methods.kanon.searches import search
from sudare.methods.kanon.steward import watch_search
from sudare.schema import Attribute, Schema, Values
from tests.unit.kanon_tables import attribute, halving, problem_of, random_counts

SEX = attribute("sex", [[0, 0]])
AGE = attribute("age", [[0, 0, 0, 1, 1, 2, 3, 4, 4], [0, 0, 0, 1, 1, 1, 1, 2, 2], [0] * 9])
NINE = [code * 9 // 47 for code in range(47)]
REGION = attribute("region", [NINE, [one // 5 for one in NINE], [0] * 47])


def test_the_papers_lattice_has_31_nodes_and_3185_cells_besides_the_one_that_tells_nothing() -> None:
    lattice = Lattice((SEX, AGE, REGION))
    nodes = [node for node in lattice.nodes() if node != lattice.heights]

    assert [len(sizes) for sizes in lattice.sizes] == [2, 4, 4]
    assert len(nodes) == 31
    assert sum(map(lattice.cells, nodes)) == (1 + 2) * (1 + 3 + 5 + 9) * (1 + 2 + 9 + 47) - 1 == 3185


def test_a_quasi_identifier_without_hierarchy_is_refused_by_name() -> None:
    plain = Attribute(name="zip", domain=Values(("1", "2")), role="quasi")

    with pytest.raises(SchemaError, match="zip has no hierarchy"):
        Lattice.of(Schema(name="s", attributes=(plain,)))


def test_a_schema_without_quasi_identifiers_is_refused() -> None:
    with pytest.raises(SchemaError, match='role = "quasi"'):
        Lattice.of(Schema(name="s", attributes=(Attribute(name="a", domain=Values(("1", "2"))),)))


def test_k_larger_than_the_table_is_refused() -> None:
    with pytest.raises(Infeasible, match=r"k \(61\) is larger than the table"):
        search(problem_of(random_counts(1), k=61))


def tops_apart() -> Counts:
    """Five rows of 105 differ in an attribute whose hierarchy has two groups at its top."""
    apart = attribute("kind", [[0, 0, 1, 1]])
    rows = [[code % 8, 0] for code in range(100)] + [[0, 2]] * 5
    return Counts.from_columns(Schema(name="s", attributes=(halving("a", 3), apart)), rows)


def test_an_infeasible_k_says_which_attribute_blocks_and_what_would_help() -> None:
    with pytest.raises(Infeasible, match=r"kind keeps rows apart.*max_suppressed = 0\.048"):
        search(problem_of(tops_apart(), k=10))


def test_what_the_refusal_proposes_is_feasible() -> None:
    found = search(problem_of(tops_apart(), k=10, max_suppressed=Fraction("0.048")))

    assert found.suppressed_rows == 5


def test_more_values_than_the_table_has_are_hopeless() -> None:
    with pytest.raises(Infeasible, match="even the whole table"):
        search(problem_of(random_counts(1), DistinctDiversity(attribute="s", l=5)))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"max_suppressed": Fraction(3, 2)}, "max_suppressed"),
        ({"deadline_seconds": 0.0}, "deadline_seconds"),
        ({"k": None}, "at least one criterion"),
    ],
)
def test_bad_parameters_are_refused(change: dict[str, object], text: str) -> None:
    with pytest.raises(ParameterError, match=text):
        search(problem_of(random_counts(1), **change))  # type: ignore[arg-type]


def test_an_unknown_search_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"search \(best\)"):
        search(problem_of(random_counts(1)), "best")  # type: ignore[arg-type]


def test_a_table_that_already_keeps_k_takes_one_check() -> None:
    counts = Counts.from_columns(Schema(name="s", attributes=(SEX,)), [[0], [0], [1], [1]])
    found = search(problem_of(counts, k=2))

    assert (found.node, found.checks, found.score) == ((0,), 1, 0.0)


def wide(width: int = 12, rows: int = 20_000) -> Counts:
    """Twelve quasi-identifiers of five levels: 244 million nodes."""
    return random_counts(5, bits=(4,) * width, rows=rows)


@pytest.fixture
def ticks(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A clock that goes on by a millisecond whenever the search looks at it: its time is work, on every machine."""
    counted = itertools.count()
    monkeypatch.setattr(check, "time", SimpleNamespace(monotonic=lambda: next(counted) / 1000))
    return counted


def test_244_million_nodes_give_an_answer_with_a_proven_gap_in_the_time_that_is_set(ticks: Iterator[int]) -> None:
    problem = problem_of(wide(), k=5, max_suppressed=Fraction(1, 50), deadline_seconds=0.3)
    found = search(problem)
    looks = next(ticks)

    assert problem.lattice.size == 5**12
    assert NodeChecker(problem).check(found.node).is_feasible
    assert 0 < found.lower_bound < found.score
    assert found.gap == pytest.approx(found.score - found.lower_bound)
    assert not found.is_optimal
    assert 300 < looks < 400  # what is begun is ended soon after the deadline


@pytest.mark.usefixtures("ticks")
def test_more_time_never_makes_the_answer_worse_or_the_bound_lower() -> None:
    found = [search(problem_of(wide(8), k=5, deadline_seconds=seconds)) for seconds in (0.01, 0.2)]

    assert found[1].score <= found[0].score
    assert found[1].lower_bound >= found[0].lower_bound - 1e-12


def test_searches_that_mark_every_node_refuse_a_lattice_that_is_too_large() -> None:
    with pytest.raises(ParameterError, match="use search auto"):
        search(problem_of(wide(), k=5), "flash")


def test_progress_is_told_and_bounds_only_rise() -> None:
    told: list[SearchProgress] = []
    search(problem_of(random_counts(2, bits=(3, 3, 3), rows=400), k=4, max_suppressed=1, progress=told.append))

    assert all(one.best is not None and one.lower_bound <= one.best for one in told)
    assert [one.lower_bound for one in told] == sorted(one.lower_bound for one in told)


def test_the_result_does_not_depend_on_the_number_of_rows_only_on_their_shares() -> None:
    counts = random_counts(3, rows=200)
    many = Counts.build(counts.schema, counts.codes, counts.values * 500_000)  # 1e8 rows
    few, much = (search(problem_of(one, k=k)) for one, k in ((counts, 4), (many, 2_000_000)))

    assert (few.node, few.checks, few.score) == (much.node, much.checks, pytest.approx(much.score))


def test_missing_values_are_a_category_with_a_class_of_their_own() -> None:
    plain = attribute("a", [[0, 0]])
    full = Attribute(name="a", domain=plain.domain, role="quasi", missing=True, hierarchy=plain.hierarchy)
    counts = Counts.from_columns(Schema(name="s", attributes=(full,)), [[0]] * 3 + [[1]] * 3 + [[2]])
    checker = NodeChecker(problem_of(counts))

    assert checker.judge_classes((0,)).classes.sizes.tolist() == [3, 3, 1]
    assert checker.check((0,)).suppressed_rows == 1


@pytest.mark.parametrize(
    ("quality", "kept", "one_suppressed"),
    [
        ("loss", 0.0, 1 / 7),
        ("precision", 0.0, 1 / 7),
        ("discernability", 18.0 + 1, 18.0 + 7),
        ("average class size", 7 / 3, 7 / 3),
    ],
)
def test_qualities_have_the_values_worked_out_by_hand(quality: str, kept: float, one_suppressed: float) -> None:
    code = attribute("a", [[0, 0, 0]])
    counts = Counts.from_columns(Schema(name="s", attributes=(code,)), [[0]] * 3 + [[1]] * 3 + [[2]])
    problem = problem_of(counts)
    classes, measure = problem.tuples.classes((0,)), QUALITIES[quality].prepare(problem.tuples, problem.lattice)

    assert measure.score(classes, np.array([False] * 3)) == pytest.approx(kept)
    assert measure.score(classes, np.array([False, False, True])) == pytest.approx(one_suppressed)


def test_entropy_counts_the_bits_that_are_gone() -> None:
    code = attribute("a", [[0, 0, 1, 1], [0] * 4])
    counts = Counts.from_columns(Schema(name="s", attributes=(code,)), [[each] for each in (0, 1, 2, 3)] * 2)
    problem = problem_of(counts)
    measure = QUALITIES["entropy"].prepare(problem.tuples, problem.lattice)

    assert [measure.lower_bound((level,)) for level in range(3)] == pytest.approx([0, 0.5, 1])


def test_average_class_size_shares_suppressed_rows_as_one_class() -> None:
    problem = problem_of(random_counts(1), k=3, quality="average class size", max_suppressed=1)
    checker = NodeChecker(problem)
    kept = int((~checker.judge_classes(problem.lattice.bottom).failing).sum())

    assert checker.check(problem.lattice.bottom).score == pytest.approx(60 / (kept + 1))


def test_a_law_that_hardly_falls_asks_for_no_coarser_table() -> None:
    law = PowerLaw(a=2.0, b=-1e-4, correlation=0.0, spread=0.0, points=2)

    assert law.cells_for(2) == math.inf


def test_the_law_is_fitted_in_logarithms_and_points_at_the_floor_are_left_out() -> None:
    points = [(x, 1000 * x**-1.5 + 1) for x in (2, 4, 9)]
    law = fit_power_law([*points, (500, 1.0)])

    assert law is not None
    assert (law.a, law.b, law.points) == (pytest.approx(1000), pytest.approx(-1.5), 3)
    assert law.cells_for(law.k_at(50)) == pytest.approx(50)
    assert fit_power_law([(2, 10), (2, 12), (9, 1)]) is None


def test_the_coarsest_nodes_come_first_and_the_nearest_is_found_on_small_and_large_lattices() -> None:
    lattice = Lattice((SEX, AGE, REGION))
    cells = [lattice.cells(node) for node in list_coarsest(lattice, 31)]

    assert cells == sorted(cells)
    assert len(cells) == 31
    assert lattice.cells(find_nearest(lattice, 100)) == 94
    assert 1 < Lattice((AGE,) * 9).cells(find_nearest(Lattice((AGE,) * 9), 100)) <= 100


def test_a_criterion_of_k_needs_two() -> None:
    with pytest.raises(ParameterError, match=r"k \(1\)"):
        MinimumSize(k=1)


class Watcher:
    """A display of progress that also takes notes."""

    def __init__(self) -> None:
        self.shares: list[float] = []
        self.notes: list[str] = []

    def __call__(self, share: float) -> None:
        self.shares.append(share)

    def note(self, message: object) -> None:
        self.notes.append(str(message))


def test_a_long_search_tells_once_how_to_end_it() -> None:
    watcher = Watcher()

    watch = watch_search(watcher, seconds=0)
    assert watch is not None
    for bound in (0.1, 0.3):
        watch(SearchProgress(64, 0.4, bound))

    assert watcher.shares == [pytest.approx(0.25), pytest.approx(0.75)]
    assert len(watcher.notes) == 1
    assert "the best loss so far is 0.4, and none can be below 0.1; --deadline-seconds" in watcher.notes[0]
