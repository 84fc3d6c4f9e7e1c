"""The wavelet in whole numbers: orders, halvings, sensitivities, both algorithms, the standard decomposition."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from papers.terada_tables.wavelet_variants import haar, standard_sensitivity, standard_wavelet, transform, wavelet_dense

from sudare.counts import Counts
from sudare.errors import ParameterError, SchemaError
from sudare.methods.table import wavelet as wavelet_drift
from sudare.methods.table.haar import LARGEST_TOTAL, halve, wavelet_sensitivity
from sudare.methods.table.morton import CellOrder, z_codes, z_ranks
from sudare.methods.table.possible_halves import MOST_BOXES, PossibleHalves, check_boxes
from sudare.methods.table.wavelet import wavelet
from sudare.noise import SeededRng
from sudare.schema import Attribute, Impossible, MeshCells, NumberBins, Schema, Unit, Values
from sudare.testing.subject import schema_of

EPSILON = Fraction(1)


def numbers_schema(*sizes: int) -> Schema:
    attributes = [Attribute(name=f"a{i}", domain=NumberBins.of_width(0, size, 1)) for i, size in enumerate(sizes)]
    return Schema(name="numbers", attributes=tuple(attributes))


def random_table(schema: Schema, cells: int, seed: int) -> Counts:
    generator = np.random.default_rng(seed)
    columns = np.column_stack([generator.integers(0, size, cells) for size in schema.sizes])
    return Counts.from_columns(schema, columns, generator.geometric(0.1, cells))


SHAPES = [(1,), (2,), (13,), (64,), (5, 3), (8, 8), (7, 1, 6), (1000, 999, 998, 997, 996, 995, 994)]


@pytest.mark.parametrize("sizes", SHAPES)
@pytest.mark.parametrize("order", ["morton", "radix"])
def test_paths_lead_back_to_their_cells(sizes: tuple[int, ...], order: str) -> None:
    table = random_table(numbers_schema(*sizes), 200, seed=1)
    cells = CellOrder(schema=table.schema, order=order)  # type: ignore[arg-type]

    assert np.array_equal(cells.codes(cells.paths(table.codes)), table.codes)


@pytest.mark.parametrize("sizes", SHAPES[:-1])
@pytest.mark.parametrize("order", ["morton", "radix"])
def test_different_cells_have_different_paths(sizes: tuple[int, ...], order: str) -> None:
    schema = numbers_schema(*sizes)
    cells = CellOrder(schema=schema, order=order)  # type: ignore[arg-type]
    ranks = cells.ranks(schema.radix.from_ranks(range(schema.size)))

    assert len(set(ranks.tolist())) == schema.size
    assert ranks.max() < 2**cells.levels


def test_radix_paths_are_the_ranks_of_the_table() -> None:
    schema = numbers_schema(5, 3)
    ranks = CellOrder(schema=schema, order="radix").ranks(schema.radix.from_ranks(range(15)))

    assert ranks.tolist() == list(range(15))


def test_an_order_that_is_neither_is_refused() -> None:
    with pytest.raises(ParameterError, match="morton or radix"):
        CellOrder(schema=numbers_schema(4), order="hilbert")  # type: ignore[arg-type]


MESHES = [
    MeshCells(level=1, area=("5339", "5340", "5439", "5440")),
    MeshCells(level=2, area=("5339", "5439")),
    MeshCells(level=4, area=("5339", "5340", "5439")),
    MeshCells(level=6, area=("5339",)),
    MeshCells(level=3, cells=np.array([53394526, 53394527, 53394536, 53394537, 54390000])),
]


@pytest.mark.parametrize("cells", MESHES, ids=str)
def test_the_z_curve_meets_every_mesh_cell_once(cells: MeshCells) -> None:
    codes = np.arange(min(cells.size, 50_000))
    ranks = z_ranks(cells, codes)

    assert np.array_equal(z_codes(cells, ranks), codes)
    assert len(np.unique(ranks)) == len(codes)


def test_runs_of_four_and_sixteen_on_the_z_curve_are_squares() -> None:
    cells = MeshCells(level=4, area=("5339",))
    rows, columns = cells.grid(z_codes(cells, np.arange(16 * 64)))
    for run, side in ((4, 2), (16, 4)):
        tall, wide = (np.ptp(axis.reshape(-1, run), axis=1) for axis in (rows, columns))
        if run == 4:
            assert (tall == side - 1).all()
            assert (wide == side - 1).all()
        else:
            assert np.median(tall * wide) == (side - 1) ** 2


def test_every_coarser_mesh_cell_is_one_run_of_the_z_curve() -> None:
    cells = MeshCells(level=4, area=("5339", "5340"))
    for level in (1, 2, 3):
        above = cells.lift(z_codes(cells, np.arange(cells.size)), level)

        assert int((above[1:] != above[:-1]).sum()) + 1 == cells.coarse(level).size


def test_missing_mesh_cells_stay_behind_the_others() -> None:
    attribute = Attribute(name="mesh", domain=MeshCells(level=2, area=("5339",)), missing=True)
    table = Counts.from_columns(Schema(name="m", attributes=(attribute,)), [[64], [3]])
    cells = CellOrder(schema=table.schema)

    assert np.array_equal(cells.codes(cells.paths(table.codes)), table.codes)
    assert cells.ranks(table.codes[-1:]).tolist() == [64]


@given(st.integers(0, 50), st.integers(-80, 80), st.integers(0, 1))
def test_halves_are_whole_numbers_that_add_up_and_are_the_papers_but_for_half_a_record(
    total: int, difference: int, coin: int
) -> None:
    left = int(halve(np.array([total]), np.array([difference]), np.array([coin]))[0])
    paper = (total + max(-total, min(total, difference))) / 2

    assert 0 <= left <= total
    assert abs(left - paper) <= (0.5 if paper % 1 else 0.0)


def test_the_coin_makes_halves_of_a_record_right_in_the_mean() -> None:
    for total, difference in product(range(6), range(-8, 9)):
        both = [int(halve(np.array([total]), np.array([difference]), np.array([coin]))[0]) for coin in (0, 1)]

        assert sum(both) == total + max(-total, min(total, difference))


@pytest.mark.parametrize("levels", [1, 2, 3, 4])
def test_the_sensitivity_is_attained_and_never_exceeded(levels: int) -> None:
    """All cells a record may leave and reach: the largest L1 change of all differences is 2k, and k for one removed."""
    cells = 2**levels
    unit = np.eye(cells, dtype=np.int64)
    coefficients = [np.concatenate(transform(row)) for row in unit]
    moved = max(int(np.abs(one - other).sum()) for one in coefficients for other in coefficients)
    removed = max(int(np.abs(one).sum()) for one in coefficients)

    assert moved == wavelet_sensitivity(levels, neighbours="replace") == 2 * levels
    assert removed == wavelet_sensitivity(levels, neighbours="add-remove") == levels


@pytest.mark.parametrize("sizes", [(4,), (4, 2), (3, 2, 2)])
def test_the_sensitivity_of_the_standard_decomposition_is_attained(sizes: tuple[int, ...]) -> None:
    shape = tuple(1 << (size - 1).bit_length() for size in sizes)
    found = []
    for place in np.ndindex(sizes):
        unit = np.zeros(shape, dtype=np.int64)
        unit[place] = 1
        for axis in range(len(shape)):
            unit = haar(unit, axis)
        found.append(unit.ravel()[1:])
    moved = max(int(np.abs(one - other).sum()) for one in found for other in found)
    removed = max(int(np.abs(one).sum()) for one in found)

    assert removed == standard_sensitivity(sizes, neighbours="add-remove")
    assert moved <= standard_sensitivity(sizes, neighbours="replace")


def test_the_transform_of_both_axes_holds_differences_of_differences() -> None:
    table = np.array([[5, 1], [0, 2]])

    assert haar(haar(table, 0), 1).tolist() == [[8, 2], [4, 6]]


DRAWS = [wavelet, wavelet_dense, standard_wavelet]


@pytest.mark.parametrize("draw", DRAWS, ids=lambda draw: draw.__name__)
@pytest.mark.parametrize("sizes", [(1,), (13,), (5, 3), (7, 1, 6)])
def test_tables_are_valid_and_add_up_to_the_given_total(draw, sizes: tuple[int, ...]) -> None:  # type: ignore[no-untyped-def]
    table = random_table(numbers_schema(*sizes), 30, seed=2)
    for total in (0, 1, table.total, 10 * table.total):
        out = draw(table, epsilon=EPSILON, neighbours="replace", total=total, rng=SeededRng(3))

        assert out.total == total
        assert (out.values > 0).all()


@pytest.mark.parametrize("draw", DRAWS, ids=lambda draw: draw.__name__)
def test_with_hardly_any_noise_the_table_is_the_truth(draw) -> None:  # type: ignore[no-untyped-def]
    table = random_table(numbers_schema(7, 6), 30, seed=2)
    out = draw(table, epsilon=Fraction(10**6), neighbours="replace", total=table.total, rng=SeededRng(3))

    assert out == table


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=3), st.sampled_from(["morton", "radix"]), st.integers(0, 99))
def test_nobody_is_published_outside_the_domain(sizes: list[int], order: str, seed: int) -> None:
    table = random_table(numbers_schema(*sizes), 5, seed=seed)
    out = wavelet(
        table,
        epsilon=Fraction(1, 10),
        neighbours="add-remove",
        total=200,
        order=order,  # type: ignore[arg-type]
        rng=SeededRng(seed),
    )

    assert out.total == 200


def test_a_domain_of_more_than_2_to_the_63_cells_is_published() -> None:
    table = random_table(numbers_schema(*[1000] * 8), 2000, seed=4)
    out = wavelet(table, epsilon=EPSILON, neighbours="replace", total=table.total, rng=SeededRng(5))

    assert out.total == table.total
    assert table.schema.size == 10**24


def test_an_empty_table_is_published_with_the_total_it_is_given() -> None:
    table = Counts.build(numbers_schema(100), [], [])

    assert wavelet(table, epsilon=EPSILON, neighbours="add-remove", total=17, rng=SeededRng(1)).total == 17
    assert wavelet(table, epsilon=EPSILON, neighbours="add-remove", total=-4, rng=SeededRng(1)).total == 0


def test_a_person_with_several_rows_gets_as_many_times_the_noise() -> None:
    assert wavelet_sensitivity(10, neighbours="replace", rows=5) == 100
    assert wavelet_sensitivity(10, neighbours="add-remove", rows=5) == 50


def test_more_boxes_than_can_be_followed_and_totals_beyond_64_bits_are_refused() -> None:
    attributes = schema_of(70, 2).attributes
    boxes = tuple(
        Impossible((("a0", frozenset({code})), ("a1", frozenset({code % 2})))) for code in range(MOST_BOXES + 1)
    )
    boxed = Schema(name="boxed", attributes=attributes, impossible=boxes)
    with pytest.raises(SchemaError, match="at most 62 impossible"):
        check_boxes(CellOrder(schema=boxed))
    with pytest.raises(SchemaError, match="impossible"):
        wavelet(
            Counts.build(boxed, [], []), epsilon=EPSILON, neighbours="replace", total=1, order="radix", rng=SeededRng(1)
        )
    with pytest.raises(ParameterError, match="total"):
        wavelet(
            Counts.build(schema_of(4), [], []),
            epsilon=EPSILON,
            neighbours="replace",
            total=LARGEST_TOTAL + 1,
            rng=SeededRng(1),
        )


def test_drifting_sums_change_neither_total_nor_domain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wavelet_drift, "FEWEST_DRIFTS", 1)
    table = random_table(numbers_schema(*[100] * 12), 300, seed=6)
    for order in ("morton", "radix"):
        out = wavelet(table, epsilon=EPSILON, neighbours="replace", total=3000, order=order, rng=SeededRng(7))  # type: ignore[arg-type]

        assert out.total == 3000


@pytest.mark.parametrize("epsilon", [Fraction(1, 10**6), Fraction(1000)])
def test_drifts_can_be_drawn_with_the_least_and_the_largest_epsilon(
    epsilon: Fraction, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wavelet_drift, "FEWEST_DRIFTS", 1)
    table = random_table(numbers_schema(*[100] * 6), 50, seed=8)
    out = wavelet(table, epsilon=epsilon, neighbours="replace", total=500, rng=SeededRng(9))

    assert out.total == 500


def test_the_unit_of_a_schema_is_that_of_the_noise() -> None:
    attribute = Attribute(name="pet", domain=Values(("cat", "dog")))
    unit = Unit(kind="person", column="who", max_rows=1000)
    schema = Schema(name="pets", unit=unit, attributes=(attribute,))
    table = Counts.build(schema, [0], [1000])
    outs = [
        wavelet(table, epsilon=EPSILON, neighbours="replace", total=1000, rng=SeededRng(seed)).dense()[1]
        for seed in range(20)
    ]

    assert np.mean(outs) > 100  # scale 2,000: a table of one row a person would stay at 0 or 1


# --- impossible combinations -----------------------------------------------------------------------------------------


def boxed_schema(seed: int) -> Schema | None:
    """A small schema with random boxes; None if they leave nothing."""
    dice = np.random.default_rng(seed)
    sizes = dice.integers(1, 12, int(dice.integers(1, 4))).tolist()
    boxes = []
    for _ in range(int(dice.integers(1, 6))):
        named = dice.choice(len(sizes), size=int(dice.integers(1, len(sizes) + 1)), replace=False)
        drawn = {f"a{axis}": np.flatnonzero(dice.random(sizes[axis]) < dice.random()).tolist() for axis in named}
        boxes.append(Impossible(tuple((name, frozenset(codes or [0])) for name, codes in drawn.items())))
    try:
        schema = Schema(name="boxed", attributes=schema_of(*sizes).attributes, impossible=tuple(boxes))
        return schema if schema.possible_size else None
    except SchemaError:
        return None


@pytest.mark.parametrize("seed", range(12))
def test_every_node_knows_whether_it_holds_a_possible_cell(seed: int) -> None:
    schema = boxed_schema(seed)
    if schema is None:
        return
    cells = CellOrder(schema=schema)
    halves = PossibleHalves(cells=cells)
    codes = np.arange(schema.size)[:, None]
    is_impossible = schema.is_impossible(schema.radix.decode(codes))
    ranks = cells.ranks(codes)
    for level in range(cells.levels + 1):
        nodes = ranks >> (cells.levels - level)
        for node in np.unique(nodes):
            path = np.array([[int(node) << (62 - level)]])
            inside = is_impossible[nodes == node]

            assert bool(halves.hold_possible(path, level)[0]) == (not inside.all())
            assert not halves.are_whole(path, level)[0] or not inside.any()


@pytest.mark.parametrize("seed", range(12))
def test_the_wavelet_puts_nobody_in_an_impossible_cell_and_keeps_the_total(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wavelet_drift, "FEWEST_DRIFTS", 1)
    schema = boxed_schema(seed)
    if schema is None:
        return
    columns = schema.radix.decode(np.arange(schema.size)[:, None])
    possible = columns[~schema.is_impossible(columns)]
    truth = Counts.from_columns(schema, possible[np.random.default_rng(seed).integers(0, len(possible), 300)])
    out = wavelet(truth, epsilon=EPSILON, neighbours="replace", total=300, rng=SeededRng(seed))

    assert out.total == 300
    assert not schema.is_impossible(out.columns()).any()
