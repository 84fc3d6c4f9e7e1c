"""Tables 1 and 4 of the paper at reduced trials, every row; `python -m papers terada2017` runs all six tables.

Figures are held against the print within the standard errors of both means (expected.toml). With 30 trials an epsilon a
fifth too large is seen in the row of the proposed method; half the noise is 40 % off.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from papers.terada2017 import reproduce
from papers.terada2017.figures import _figures_of, bin_starts
from papers.terada2017.rows import ROWS, Trial
from papers.terada2017.tables import EPSILONS, MEASURES, SIZES, Cell, Found, distances, near, run, surprises

from sudare.compare import ks_distance, l2_distance
from sudare.noise import SeededRng

SMALL = SIZES[0]
TRIALS = 30
HELD = [name for name, row in ROWS.items() if row.printed]


@pytest.fixture(scope="module")
def found() -> Found:
    return run(SMALL, trials=TRIALS, seed=1)


@pytest.mark.parametrize("name", HELD)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_tables_1_and_4_come_out_as_printed_or_are_off_where_the_readme_says_so(
    found: Found, name: str, epsilon: str
) -> None:
    odd = surprises(SMALL, {(name, epsilon): found[name, epsilon]})

    assert not odd, "\n".join(odd)


def test_pram_at_epsilon_10_follows_the_other_reading_and_not_the_text(found: Found) -> None:
    text, other = (found[name, "10"].mean("l2") for name in ("pram", "pram-print"))

    assert text == pytest.approx(611, rel=0.02)
    assert other == pytest.approx(57.7, rel=0.05)


def test_synth_md_drawn_once_has_nearly_twice_the_variance_of_the_print(found: Found) -> None:
    ratio = found["synth-md-once", "100"].mean("l2") / found["synth-md", "100"].mean("l2")

    assert ratio == pytest.approx(2**0.5, rel=0.05)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_ours_by_projection_is_the_papers_method_or_better(found: Found, epsilon: str) -> None:
    theirs, ours = found["proposed", epsilon], found["projection", epsilon]

    assert ours.mean("l2") <= 1.03 * theirs.mean("l2")
    assert ours.mean("ks") <= 1.2 * theirs.mean("ks")


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize(("ours", "theirs"), [("default", "proposed"), ("default-permuted", "proposed-permuted")])
def test_our_default_is_never_worse_in_l2_than_the_papers_method(
    found: Found, ours: str, theirs: str, epsilon: str
) -> None:
    assert found[ours, epsilon].mean("l2") <= 1.03 * found[theirs, epsilon].mean("l2")


@pytest.mark.parametrize(("epsilon", "most"), [("0.1", 0.45), ("0.2", 0.53), ("ln2", 0.79), ("ln3", 0.88), ("10", 0.5)])
def test_our_default_with_ordered_items_beats_the_papers_method_in_both_distances(
    found: Found, epsilon: str, most: float
) -> None:
    theirs, ours = found["proposed", epsilon], found["default-ordered", epsilon]

    assert ours.mean("l2") < most * theirs.mean("l2")
    assert ours.mean("ks") < theirs.mean("ks")


@pytest.mark.parametrize("name", ["proposed", "synth-lap"])
def test_half_the_noise_would_be_found_in_both_tables(found: Found, name: str) -> None:
    wrong = found[name, "0.2"]

    assert [near(SMALL, name, measure, "0.1", wrong) for measure in MEASURES] == [False, False]


def test_an_epsilon_a_fifth_too_large_would_be_found() -> None:
    wrong = run(SMALL, trials=TRIALS, seed=3, rows=["proposed"], epsilons=["0.12"])

    assert not near(SMALL, "proposed", "l2", "0.1", wrong["proposed", "0.12"])


def test_an_explained_deviation_that_is_gone_is_found_too(found: Found) -> None:
    agrees = {("pram", "10"): found["pram-print", "10"]}

    assert len(surprises(SMALL, agrees)) == 1


def test_the_distances_are_those_of_the_room_evaluate() -> None:
    trial = Trial.make(items=50, records=3000, seed=1)
    truth = trial.declared["unordered"]
    out = ROWS["proposed"].draw(truth, "0.1", SeededRng(1))

    assert distances(truth.dense(), out.dense()) == pytest.approx(
        (l2_distance(truth, out).value, 100 * ks_distance(truth, out).value)
    )


def test_the_three_declarations_hold_the_same_records() -> None:
    dense = Trial.make(items=50, records=3000, seed=1).dense

    assert np.array_equal(dense["unordered"], dense["ordered"])
    assert sorted(dense["unordered"]) == sorted(dense["permuted"])
    assert not np.array_equal(dense["unordered"], dense["permuted"])


def test_a_wide_spread_makes_a_wide_tolerance_and_a_narrow_one_a_narrow() -> None:
    wide, narrow = (Cell(l2=np.full(20, 530.0) + np.tile([-d, d], 10), ks=np.zeros(20)) for d in (60.0, 5.0))

    assert near(SMALL, "proposed", "l2", "0.1", wide)
    assert not near(SMALL, "proposed", "l2", "0.1", narrow)


def test_the_promises_table_tells_what_the_readings_keep() -> None:
    lines = reproduce.promise_lines()

    assert "| PRAM by the other reading, p = 1,000 | 0.0112 | 0.0234 | 0.102 | 0.196 | 16.2 | 286 |" in lines
    assert any(
        line.startswith("| Synth-MD, redrawn per record, n = 10,000 | 0.105 | 0.221 | 1 | 2 | 11,600") for line in lines
    )


def test_items_are_grouped_without_gap_or_overlap() -> None:
    for items in (100, 1000, 10_000):
        starts = bin_starts(items)

        assert starts[0] == 0
        assert (np.diff(starts) > 0).all()
        assert starts[-1] < items


def test_figures_3_and_4_are_drawn(tmp_path: Path) -> None:
    pytest.importorskip("altair")
    pytest.importorskip("vl_convert")
    paths = _figures_of(SMALL, tmp_path)

    assert [path.name for path in paths] == ["figure3.svg", "figure4.svg"]
    assert all("Synth-Lap" in path.read_text(encoding="utf-8") for path in paths)


HELD_PAGE = [("default", "0.1"), ("default-permuted", "ln3"), ("proposed", "ln2"), ("default-ordered", "10")]


@pytest.mark.parametrize(("name", "epsilon"), HELD_PAGE)
def test_the_page_of_results_is_what_the_code_gives_to_the_digit(name: str, epsilon: str) -> None:
    """A page that is older than the code, or a draw that is not seeded, changes a digit of these figures."""
    cell = run(SMALL, trials=SMALL["trials"], seed=reproduce.SEED, rows=[name], epsilons=[epsilon])[name, epsilon]
    page = reproduce.RESULTS.read_text(encoding="utf-8").split("## Tables 2 and 5")[0]
    lines = [line for line in page.splitlines() if line.startswith(f"| {ROWS[name].title} |")]
    shown = [line.split("|")[2 + EPSILONS.index(epsilon)].strip() for line in lines]

    assert shown == [reproduce.write_figure(cell.mean(measure), measure) for measure in MEASURES]


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize(("ours", "theirs"), [("default", "proposed"), ("default-permuted", "proposed-permuted")])
def test_our_default_with_unordered_items_is_never_worse_in_ks_than_the_papers_method(
    found: Found, ours: str, theirs: str, epsilon: str
) -> None:
    """Of 30 trials: a KS distance that is a fifth more is told from chance, as that of an item's sum shrunk at ln 3."""
    mine, their = found[ours, epsilon], found[theirs, epsilon]
    error = np.hypot(mine.deviation("ks"), their.deviation("ks")) / np.sqrt(TRIALS)

    assert mine.mean("ks") <= their.mean("ks") + 2 * error
