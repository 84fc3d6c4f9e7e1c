"""What lies at the edge of what methods take: huge epsilons and counts, too much noise, orders that would tell."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from sudare.counts import Counts
from sudare.errors import ParameterError, ReleaseError, SchemaError, SourceError
from sudare.methods.kanon import KAnonymity
from sudare.methods.kanon.criteria import EntropyDiversity
from sudare.methods.kanon.history import check_history
from sudare.methods.location.device import Device
from sudare.methods.location.map_file import read_map
from sudare.methods.microdata import Microdata
from sudare.methods.table import Table
from sudare.methods.tree import group_values, make_tree
from sudare.methods.tree import valid_rows as rules
from sudare.methods.tree.empty import NoisyChildren, OpenRows
from sudare.methods.view import View, open_view
from sudare.methods.view.cuts import aggregation_error, score_cuts
from sudare.methods.view.fit import Measurements as Noisy
from sudare.methods.view.fit import OneWay, Pair, fit
from sudare.methods.view.junction_tree import CliqueTree
from sudare.noise import SeededRng
from sudare.noise.counting import GeometricNoise
from sudare.postprocess.simplex import share_rows
from sudare.privacy import Unrecorded
from sudare.schema import Attribute, NumberBins, Schema, Unit, Values
from sudare.schema.hierarchy_rules import masking
from sudare.sources import open as open_source
from sudare.testing import Tabled
from sudare.testing.subject import even_table
from tests.unit.test_location_sampler import device_file

LINE = NumberBins.of_width(0, 1000, 1)


def persons(max_rows: int) -> Counts:
    """A table of persons with up to so many rows each."""
    sex = Attribute(name="sex", domain=Values(values=("F", "M")))
    unit = Unit(kind="person", column="id", max_rows=max_rows)
    return Counts.from_columns(Schema(name="s", attributes=(sex,), unit=unit), [[0], [1]])


# --- descents: what is done to a row follows from what its node is, not from who is in it -----------------------------


def rows_of_a_tree(order: list[int]) -> OpenRows:
    """The rows of 16 nodes with 16 children each, in a given order."""
    day = Attribute(name="day", domain=Values(values=tuple(map(str, range(256))), is_ordered=True))
    schema = Schema(name="s", attributes=(day,))
    tree = make_tree(schema, [(2,), (1,), (0,)], [group_values(day)])
    return OpenRows(step=tree.steps[1], nodes=np.array(order, dtype=np.int64)[:, None])


def test_which_rows_are_explained_does_not_depend_on_the_order_in_which_nodes_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rules, "MOST_TRIES", 5 * 16)
    rule = rules.ShrinkRows(lambda children: np.ones(children.rows.size), GeometricNoise(scale=Fraction(1)))
    order = [9, 3, 15, 0, 1, 2, 14, 4, 13, 5, 12, 6, 11, 7, 10, 8]

    plain, mixed = rule.whole(rows_of_a_tree(list(range(16)))), rule.whole(rows_of_a_tree(order))

    assert plain[order].tolist() == mixed.tolist()


def test_a_row_is_explained_to_the_last_bit_alike_in_any_order_of_its_children(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[float]] = []

    def remember(mean: np.ndarray, square: np.ndarray, variance: np.ndarray) -> np.ndarray:
        seen.append(square.tolist())
        return np.ones(mean.size)

    monkeypatch.setattr(rules, "estimate_spread", remember)
    noisy = np.random.default_rng(1).integers(0, 50, 32)
    for order in (np.arange(32), np.random.default_rng(2).permutation(32)):
        rows = rows_of_a_tree([3, 8])
        children = rows.listed(np.arange(2)).take(order)
        rule = rules.ShrinkRows(lambda some: np.ones(some.rows.size), GeometricNoise(scale=Fraction(10)))
        limits = np.zeros(2, dtype=np.int64)
        totals = np.array([300, 500])
        rule.repair(rows, NoisyChildren(children=children, values=noisy[order]), limits, totals, SeededRng(1))

    assert seen[0] == seen[1]


# --- views ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["product", "model"])
def test_a_view_with_next_to_no_noise_tells_the_truth(method: str) -> None:
    counts = even_table()
    made = View(epsilon=1000, neighbours="add-remove", algorithm=method)  # type: ignore[arg-type]

    found = open_view(made.publish(Tabled(counts), rng=SeededRng(1))).count(a0="v0")

    assert abs(found.value - int(counts.project(["a0"]).values[0])) < 1


def test_a_fit_to_huge_noise_stays_a_number() -> None:
    one = OneWay(values=np.array([1e13, 0.0, 0.0]), variance=1e26)
    bins = np.arange(3)
    pairs = tuple(
        Pair(first=a, second=b, values=np.array([[-1e15, 1e14, 0], [0, -1e15, 3.0], [0, 0, 1e15]]), variance=1e28)
        for a, b in ((0, 1), (1, 2), (0, 2))
    )
    measured = Noisy(total=1e13, total_variance=1e26, ones=(one, one, one), bins=(bins, bins, bins), pairs=pairs)

    found = fit(measured, CliqueTree(((0, 1, 2),), ()))

    assert all(np.isfinite(table).all() for table in found.tables)


@pytest.mark.parametrize("method", ["model", "product", "mondrian", "hdpview"])
def test_a_view_refuses_too_much_noise_before_it_spends(method: str) -> None:
    purse = Unrecorded()
    made = View(epsilon="1/1000000", algorithm=method)  # type: ignore[arg-type]

    with pytest.raises(ParameterError, match="raise epsilon"):
        made.publish(Tabled(persons(10**9)), ledger=purse, rng=SeededRng(1))

    assert purse.spent == 0


@pytest.mark.parametrize("made", [Microdata(epsilon="1/1000000"), Table(epsilon="1/1000000")])
def test_too_much_noise_in_the_total_is_refused_before_it_is_paid_for(made: Microdata | Table) -> None:
    purse = Unrecorded(neighbours="add-remove")

    with pytest.raises(ParameterError, match="raise epsilon"):
        made.publish(Tabled(persons(10**8)), ledger=purse, rng=SeededRng(1))

    assert purse.spent == 0


@pytest.mark.parametrize("how", ["error", "spread"])
def test_cuts_of_blocks_with_huge_counts_are_scored_exactly(how: str) -> None:
    values = np.array([2**50, 2**51, 3, 2**49 + 1], dtype=np.int64)
    columns = np.array([[0, 1], [1, 0], [2, 3000], [3, 17]], dtype=np.int64)
    lows, highs = np.array([0, 0]), np.array([3, 4095])

    cut = score_cuts(columns, values, lows, highs, 4 * 4096, how)

    for axis, after, score in zip(cut.axis.tolist()[:8], cut.after.tolist()[:8], cut.scores.tolist()[:8], strict=True):
        left = columns[:, axis] < after
        width = int(highs[axis]) + 1
        total, inside = int(values.sum()), int(values[left].sum())
        parts = (aggregation_error(values[left], after * 4 * 4096 // width),
                 aggregation_error(values[~left], (width - after) * 4 * 4096 // width))  # fmt: skip
        assert score == (-sum(parts) if how == "error" else abs(16 * (inside * width - total * after)) // width)


# --- tables -----------------------------------------------------------------------------------------------------------


def test_a_wavelet_refuses_more_attributes_than_it_has_edges_for() -> None:
    schema = Schema(name="s", attributes=tuple(Attribute(name=f"a{i}", domain=LINE) for i in range(63)))

    with pytest.raises(SchemaError, match="at most 62 attributes, not 63"):
        Table(epsilon=1, algorithm="wavelet").preview(schema)


@pytest.mark.parametrize("method", ["tree", "wavelet"])
def test_a_table_refuses_more_cells_than_floats_can_count(method: str) -> None:
    schema = Schema(name="s", attributes=tuple(Attribute(name=f"a{i}", domain=LINE) for i in range(101)))

    with pytest.raises((ParameterError, SchemaError), match="publish fewer"):
        Table(epsilon=1, algorithm=method).preview(schema)  # type: ignore[arg-type]


# --- k-anonymity ------------------------------------------------------------------------------------------------------


def test_an_infinite_diversity_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"l \(inf\) must be at least 1"):
        EntropyDiversity(attribute="disease", l=float("inf"))


def test_a_history_that_cannot_be_written_is_refused_before_the_release(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="there is no directory"):
        check_history(tmp_path / "none" / "history")


def test_a_history_that_is_a_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="cannot be written"):
        check_history(tmp_path)


def test_a_preview_of_fewer_than_no_rows_is_refused() -> None:
    with pytest.raises(ParameterError, match="at least 0"):
        KAnonymity(k=2).preview(even_table().schema, rows=-1)


# --- locations --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("height", ["nan", "inf", "1e999999999"])
def test_a_map_with_a_length_that_is_no_number_is_refused(tmp_path: Path, height: str) -> None:
    place = tmp_path / "map.toml"
    place.write_text(
        f'[grid]\nkind = "plane"\nrows = 2\ncolumns = 2\ncell_height_metres = {height}\ncell_width_metres = 1\n'
    )

    with pytest.raises(SchemaError, match=r"line 5: .* cell_height_metres"):
        read_map(place)


@pytest.mark.parametrize("bounds", ['["a", "b", "c", "d"]', "[35.0, 139.0, 36.0, inf]", "[1, 2, 3]", '"abcd"'])
def test_bounds_that_are_no_numbers_are_refused(tmp_path: Path, bounds: str) -> None:
    place = tmp_path / "map.toml"
    place.write_text(f'[grid]\nkind = "mesh"\nlevel = 3\nbounds = {bounds}\n')

    with pytest.raises(SchemaError, match=r"line 4: .* bounds.* must be a"):
        read_map(place)


@pytest.mark.parametrize("day", ["2026-13-99", "2026-02-30", "today"])
def test_a_day_that_is_not_in_the_calendar_does_not_begin_a_new_budget(day: str) -> None:
    device = Device.start(device_file())

    with pytest.raises(ReleaseError, match="must be a day of the calendar"):
        device.report(0, day=day, rng=SeededRng(1))


# --- counts -----------------------------------------------------------------------------------------------------------


def test_shares_of_huge_totals_are_rounded_within_64_bits() -> None:
    shares = np.array([2.0**51, 2.0**51 + 2, 10.0])

    found = share_rows(shares, np.zeros(3, dtype=np.int64), totals=np.array([2**52 - 1]), rng=SeededRng(1))

    assert (int(found.sum()), int(found.min()) >= 0) == (2**52 - 1, True)


@pytest.mark.parametrize("recoding", ["full", "value", "mondrian"])
def test_rows_of_an_aggregated_table_that_stand_for_nobody_are_not_published(tmp_path: Path, recoding: str) -> None:
    sex = Values(values=("F", "M"))
    attribute = Attribute(name="sex", domain=sex, role="quasi", hierarchy=masking(sex))
    schema = Schema(name="s", attributes=(attribute,))
    (tmp_path / "data.csv").write_text("sex,n\nF,3\nF,2\nM,0\n")

    with open_source(tmp_path / "data.csv", schema, count_column="n") as source:
        release = KAnonymity(k=2, recoding=recoding).publish(source)  # type: ignore[arg-type]
        release.save(tmp_path / "out", file_format="csv")

    assert "0" not in (tmp_path / "out" / "records.csv").read_text()
