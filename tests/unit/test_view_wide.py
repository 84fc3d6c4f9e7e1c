"""Many columns: the pairs that stand out are measured, and what is not measured is said wherever it is relied on."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from sudare.counts import Counts
from sudare.methods.view import OpenedView, View, open_view
from sudare.methods.view.junction_tree import CliqueTree
from sudare.noise import SeededRng
from sudare.releases import Release
from sudare.releases.certificate import write_chapters
from sudare.testing import Tabled
from sudare.testing.subject import schema_of
from sudare.verify.checks import verify_release

COLUMNS, PLANTED = 40, 4


def plant_pairs(rows: int = 6_000, columns: int = COLUMNS, planted: int = PLANTED) -> Counts:
    """Columns of four values; of the first ones every second repeats the one before it in seven of ten records."""
    generator = np.random.default_rng(8)
    table = generator.integers(0, 4, (rows, columns))
    for place in range(planted):
        repeats = generator.random(rows) < 0.7
        table[repeats, 2 * place + 1] = table[repeats, 2 * place]
    return Counts.from_columns(schema_of(*[4] * columns), table)


@pytest.fixture(scope="module")
def release() -> Release:
    return View(epsilon=2, neighbours="add-remove").publish(Tabled(plant_pairs()), rng=SeededRng(3))


@pytest.fixture(scope="module")
def view(release: Release) -> OpenedView:
    return open_view(release)


def test_pairs_that_stand_out_of_forty_columns_are_measured_and_named_in_the_certificate(release: Release) -> None:
    measures = release.certificate.measures
    planted = [[f"a{2 * place}", f"a{2 * place + 1}"] for place in range(PLANTED)]
    linked = COLUMNS * (COLUMNS - 1) // 2 - measures["independent_pairs"]

    assert all(pair in measures["measured_pairs"] for pair in planted)
    assert measures["pairs"] == 780
    assert len(measures["measured_pairs"]) <= linked < 40


def test_the_certificate_says_in_words_which_pairs_were_measured(release: Release) -> None:
    sentences = " ".join(str(line) for _, lines in write_chapters(release.certificate) for line in lines)

    assert (
        f"Of 780 pairs of attributes {len(release.certificate.measures['measured_pairs'])} were measured" in sentences
    )
    assert "a0 × a1" in sentences


def test_an_answer_over_a_pair_without_a_link_says_that_it_rests_on_independence(view: OpenedView) -> None:
    linked = view.sql("SELECT COUNT(*) FROM view WHERE a0 = 'v1' AND a1 = 'v1'")
    apart = view.sql("SELECT a30, COUNT(*) FROM view WHERE a31 = 'v1' GROUP BY a30")
    alone = view.sql("SELECT a30, COUNT(*) FROM view GROUP BY a30")

    assert not linked.notes
    assert not alone.notes
    assert ["a30 × a31" in str(note) and "independent" in str(note) for note in apart.notes] == [True]
    assert apart.to_dict("")["notes"]


def test_a_query_inside_a_query_says_it_too(view: OpenedView) -> None:
    found = view.sql(
        "SELECT COUNT(*) FROM view WHERE a2 IN (SELECT a2 FROM view WHERE a31 = 'v1' GROUP BY a2 HAVING COUNT(*) > 10)"
    )

    assert any("a2 × a31" in str(note) for note in found.notes)


def test_a_count_in_python_says_it_too(view: OpenedView) -> None:
    note = view.count(a30="v1", a31="v1").note

    assert note is not None
    assert "a30 × a31" in str(note)
    assert view.count(a0="v1", a1="v1").note is None


def test_the_preview_says_how_many_pairs_can_be_measured() -> None:
    preview = View(epsilon=2, neighbours="add-remove").preview(plant_pairs().schema, rows=6_000)

    assert preview.pairs is not None
    assert 0 < preview.pairs < 780
    assert any(f"about {preview.pairs} of the 780 pairs" in str(line) for line in preview.lines())


def test_a_certificate_that_calls_other_pairs_measured_is_found(release: Release, tmp_path: Path) -> None:
    release.save(tmp_path / "view", even_if_not_private=True)
    sound = verify_release(tmp_path / "view")
    file = tmp_path / "view" / "certificate.json"
    certificate = json.loads(file.read_text(encoding="utf-8"))
    certificate["measures"]["measured_pairs"].append(["a30", "a31"])
    file.write_text(json.dumps(certificate), encoding="utf-8")
    found = verify_release(tmp_path / "view")

    assert next(claim.passed for claim in sound if claim.name.template == "measured pairs")
    assert not next(claim.passed for claim in found if claim.name.template == "measured pairs")


def test_a_view_of_blocks_that_calls_pairs_measured_is_found(tmp_path: Path) -> None:
    counts = Counts.from_columns(schema_of(2, 2), [[0, 0], [1, 1]], [50, 70])
    blocks = View(epsilon=1, algorithm="mondrian").publish(Tabled(counts), rng=SeededRng(1))
    blocks.save(tmp_path / "view", even_if_not_private=True)
    sound = [claim.name.template for claim in verify_release(tmp_path / "view") if claim.passed]
    file = tmp_path / "view" / "certificate.json"
    certificate = json.loads(file.read_text(encoding="utf-8"))
    certificate["measures"] |= {"pairs": 1, "independent_pairs": 0, "measured_pairs": [["a0", "a1"]]}
    file.write_text(json.dumps(certificate), encoding="utf-8")
    forged = [claim.name.template for claim in verify_release(tmp_path / "view") if claim.passed]

    assert "measures" in sound
    assert "measures" not in forged


def test_prices_of_pairs_are_what_their_trees_add() -> None:
    generator = np.random.default_rng(4)
    for _ in range(10):
        sizes = generator.integers(2, 12, 8).tolist()
        tree = CliqueTree.alone(8)
        for _ in range(9):
            tree = tree.joined(*generator.choice(8, 2, replace=False).tolist())
        prices = tree.prices(sizes)
        apart = [pair for pair in combinations(range(8), 2) if tree.path(*pair) is not None and pair in prices]

        assert apart
        assert all(prices[pair] == tree.joined(*pair).cells(sizes) - tree.cells(sizes) for pair in apart)


def append_tail(values: int = 20_000) -> tuple[Counts, Counts]:
    """Ten related columns of six values, and the same beside an unordered column with a long tail."""
    generator = np.random.default_rng(5)
    shared = generator.integers(0, 6, 20_000)
    table = [np.where(generator.random(20_000) < 0.5, shared, generator.integers(0, 6, 20_000)) for _ in range(10)]
    weights = 1 / np.arange(1, values + 1) ** 1.1
    tail = generator.permutation(values)[generator.choice(values, 20_000, p=weights / weights.sum())]
    return (
        Counts.from_columns(schema_of(*[6] * 10), np.column_stack(table)),
        Counts.from_columns(schema_of(*[6] * 10, values), np.column_stack([*table, tail])),
    )


def test_a_long_tail_takes_no_pairs_from_the_other_columns() -> None:
    plain, tailed = append_tail()
    errors = []
    for counts in (plain, tailed):
        drawn = View(epsilon=1, neighbours="add-remove").draw(counts, rng=SeededRng(2))
        chosen = [pair.ends for pair in drawn.measured.pairs]  # type: ignore[union-attr]
        columns = counts.columns()
        off = []
        for first, second in combinations(range(10), 2):
            true = np.zeros((6, 6))
            np.add.at(true, (columns[:, first], columns[:, second]), counts.values)
            off.append(((drawn.factors.joint((first, second))[0] - true) ** 2).mean())  # type: ignore[union-attr]
        errors.append(float(np.sqrt(np.mean(off))))

    assert sum(10 in ends for ends in chosen) <= 4  # each of ten looked dependent on a list of lucky values
    assert errors[1] < 1.5 * errors[0]


def test_values_and_sets_of_a_long_tail_are_answered_within_their_intervals() -> None:
    _, tailed = append_tail()
    view = open_view(View(epsilon=1, neighbours="add-remove").publish(Tabled(tailed), rng=SeededRng(6)))
    counts = np.bincount(tailed.column("a10"), weights=tailed.values, minlength=20_000)
    frequent = np.argsort(-counts)[:10].tolist()
    sets = [[code] for code in frequent] + [list(range(start, start + 400)) for start in range(0, 4000, 400)]
    held = 0
    for codes in sets:
        found = view.count(a10=[f"v{code}" for code in codes])
        held += found.low <= counts[codes].sum() <= found.high

    assert held >= 17  # of 20, at level 95 %


@pytest.mark.parametrize("epsilon", [1, 10])
def test_columns_of_a_single_value_take_no_pairs_from_the_others(epsilon: int) -> None:
    plain, _ = append_tail()
    constants = np.zeros((len(plain.values), 3), dtype=np.int64)
    table = Counts.from_columns(
        schema_of(*[6] * 10, 1, 1, 1), np.repeat(np.column_stack([plain.columns(), constants]), plain.values, axis=0)
    )
    drawn = View(epsilon=epsilon).draw(table, rng=SeededRng(2))

    assert drawn.measured_pairs  # type: ignore[union-attr]
    assert all(max(pair) < 10 for pair in drawn.measured_pairs)  # type: ignore[union-attr]


def test_a_view_of_a_column_beside_a_single_value_is_a_view_of_the_column() -> None:
    values = np.repeat(np.arange(5), [400, 300, 200, 100, 0])
    table = Counts.from_columns(schema_of(5, 1), np.column_stack([values, np.zeros_like(values)]))
    view = open_view(View(epsilon=2).publish(Tabled(table), rng=SeededRng(2)))
    [[found]] = view.sql("SELECT COUNT(*) FROM view WHERE a0 = 'v0' AND a1 = 'v0'").rows

    assert found.value == pytest.approx(400, abs=30)
