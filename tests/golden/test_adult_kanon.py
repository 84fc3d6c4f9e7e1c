"""The known optima of UCI Adult: 9 quasi-identifiers, 12,960 nodes, k = 5, ARX's Loss (ARX 3.9.2, optimal search)."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from benchmarks.kanon import adult_counts

from sudare.counts import Counts
from sudare.methods.kanon import KAnonymity
from sudare.methods.kanon.criteria import MinimumSize
from sudare.methods.kanon.lattice import Lattice
from sudare.methods.kanon.problem import SearchResult
from sudare.methods.kanon.searches import search
from tests.unit.kanon_tables import problem_of

NAMES = (
    "sex",
    "age",
    "race",
    "marital-status",
    "education",
    "native-country",
    "workclass",
    "occupation",
    "salary-class",
)


@pytest.fixture(scope="module")
def adult() -> Counts:
    counts = adult_counts()
    if counts is None:
        pytest.skip("the Adult table with its hierarchies is not beside the project")
    return counts


def test_the_lattice_is_the_known_one(adult: Counts) -> None:
    lattice = Lattice.of(adult.schema)

    assert (lattice.names, lattice.size, adult.total) == (NAMES, 12_960, 30_162)


# ARX reports .22041 for the last one; the formula gives .2204119 there, and every other node is worse (see below).
@pytest.mark.parametrize(
    ("share", "node", "score", "suppressed", "checks"),
    [
        (Fraction(0), (0, 4, 1, 1, 3, 2, 2, 1, 0), 0.573151, 0, 250),
        (Fraction(1, 20), (0, 3, 0, 0, 2, 1, 1, 2, 0), 0.241932, 1346, 500),
        (Fraction(1), (0, 3, 0, 0, 2, 1, 1, 1, 0), 0.220412, 2553, 1700),
    ],
)
def test_adult_k5_reaches_the_known_optimum(
    adult: Counts, share: Fraction, node: tuple[int, ...], score: float, suppressed: int, checks: int
) -> None:
    found = search(problem_of(adult, k=5, max_suppressed=share))

    assert (found.node, found.suppressed_rows, found.is_optimal) == (node, suppressed, True)
    assert found.score == pytest.approx(score, abs=5e-7)
    assert found.checks <= checks


@pytest.mark.parametrize("share", [Fraction(0), Fraction(1, 20), Fraction(1)])
def test_the_predicted_start_changes_the_order_and_not_the_optimum(adult: Counts, share: Fraction) -> None:
    ours, predicted = (search(problem_of(adult, k=5, max_suppressed=share), method) for method in ("auto", "pak"))  # type: ignore[arg-type]

    assert (predicted.node, predicted.score) == (ours.node, ours.score)


def few(adult: Counts) -> Counts:
    """Seven of the nine attributes: 1,080 nodes, few enough to check them all."""
    return adult.project(["sex", "age", "race", "marital-status", "native-country", "workclass", "salary-class"])


@pytest.mark.parametrize("quality", ["loss", "precision", "entropy", "discernability", "average class size"])
def test_every_quality_finds_what_a_look_at_all_nodes_finds(adult: Counts, quality: str) -> None:
    problem = problem_of(few(adult), k=10, quality=quality, max_suppressed=Fraction(1, 50))
    found: list[SearchResult] = [search(problem, method) for method in ("auto", "exhaustive")]  # type: ignore[arg-type]

    assert found[0].score == pytest.approx(found[1].score, rel=1e-12)
    assert found[0].checks < found[1].checks


def test_no_node_is_below_the_promise(adult: Counts) -> None:
    found = search(problem_of(adult, k=5, max_suppressed=Fraction(1, 20)))
    problem = problem_of(adult, k=5)
    classes = problem.tuples.classes(found.node)
    kept = MinimumSize(k=5).satisfied(classes)

    assert int(classes.sizes[~kept].sum()) == found.suppressed_rows <= 30_162 // 20
    assert int(classes.sizes[kept].min()) >= 5


# ARX's own local recoding (3.9.2) loses .0577 at k = 5 and .1474 at k = 50, in 5.4 and 22 CPU seconds.
@pytest.mark.parametrize(("k", "highest_loss"), [(5, 0.054), (50, 0.147)])
def test_local_recoding_of_adult_loses_less_than_that_of_arx(adult: Counts, k: int, highest_loss: float) -> None:
    recoded = KAnonymity(k=k, recoding="local").outcome(adult, NAMES).recoded
    mean_losses = list(recoded.coarseness().values())  # nothing is left out, so these are the losses of the attributes
    loss = math.prod(1 + mean for mean in mean_losses) ** (1 / len(mean_losses)) - 1

    assert recoded.suppressed_rows == 0
    assert recoded.class_sizes.min() >= k
    assert loss <= highest_loss
