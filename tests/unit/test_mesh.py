"""JIS X 0410 by arithmetic, checked against an independent package."""

from __future__ import annotations

import jismesh.utils as jis
import numpy as np
import pytest

from sudare.errors import ParameterError, SchemaError
from sudare.schema import MeshCells, MeshHierarchy

AREA = ("5339", "5340", "6441")
JIS_LEVEL = {1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 6: 6}  # jismesh: 4 is 1/2, 5 is 1/4, 6 is 1/8


def some(cells: MeshCells, count: int = 500) -> np.ndarray:
    return np.unique(np.linspace(0, cells.size - 1, count).astype(np.int64))


@pytest.mark.parametrize("level", JIS_LEVEL)
def test_codes_and_corners_agree_with_jismesh(level: int) -> None:
    cells = MeshCells(level=level, area=AREA)
    codes = some(cells)
    bounds = cells.bounds(codes)
    theirs = jis.to_meshcode(bounds.south + bounds.height / 2, bounds.west + bounds.width / 2, JIS_LEVEL[level])
    south, west = jis.to_meshpoint(theirs, 0, 0)

    np.testing.assert_array_equal(cells.numbers(codes), theirs)
    np.testing.assert_allclose(bounds.south, south, atol=1e-9)
    np.testing.assert_allclose(bounds.west, west, atol=1e-9)
    np.testing.assert_allclose([bounds.height, bounds.width], [jis.unit_lat(level), jis.unit_lon(level)], atol=1e-12)


@pytest.mark.parametrize("level", JIS_LEVEL)
def test_every_cell_has_one_code_and_codes_rise_with_the_numbering(level: int) -> None:
    cells = MeshCells(level=level, area=AREA)
    numbers = cells.numbers(np.arange(min(cells.size, 200_000)))

    assert np.all(np.diff(numbers) > 0)
    np.testing.assert_array_equal(cells.find(numbers), np.arange(len(numbers)))


@pytest.mark.parametrize("level", JIS_LEVEL)
def test_lifting_cuts_the_code(level: int) -> None:
    cells = MeshCells(level=level, area=AREA)
    codes = some(cells)

    for coarser in range(1, level + 1):
        above = cells.coarse(coarser)
        cut = [label[: len(above.labels(np.array([0]))[0])] for label in cells.labels(codes)]

        assert above.labels(cells.lift(codes, coarser)).tolist() == cut


def test_tokyo_station_lies_in_its_known_cell() -> None:
    cells = MeshCells(level=3, area=("5339",))
    south, west, height, width = cells.bounds(np.array([cells.code("53394611")]))

    np.testing.assert_allclose([south[0], west[0]], [35.675, 139.7625])
    assert south[0] < 35.6812 < south[0] + height
    assert west[0] < 139.7671 < west[0] + width


def test_a_finer_code_is_cut_to_the_declared_level_and_a_coarser_one_does_not_fit() -> None:
    cells = MeshCells(level=3, area=("5339",))

    assert [cells.encode(raw) for raw in ("53394611", "533946113", 53394611332, " 53394611 ", "533946", 5339)] == [
        3811,
        3811,
        3811,
        3811,
        None,
        None,
    ]


@pytest.mark.parametrize(
    "raw",
    [
        "53398011",
        "53390911x",
        "5339461",
        "533946110",
        "533946115",
        "54390000",
        "５３３９４６１１",
        "-5339461",
        "",
        None,
        5.5,
    ],
)
def test_what_is_no_covered_code_is_outside(raw: object) -> None:
    assert MeshCells(level=3, area=("5339",)).encode(raw) is None


def test_a_list_of_cells_numbers_only_these() -> None:
    cells = MeshCells(level=3, cells=["53394612", "53394611", "53400000", "53394611"])  # type: ignore[arg-type]

    assert cells.labels(np.arange(cells.size)).tolist() == ["53394611", "53394612", "53400000"]
    assert [cells.encode(raw) for raw in ("53394612", "53394613")] == [1, None]
    assert cells.lift(np.arange(3), 1).tolist() == [0, 0, 1]
    assert cells.coarse(2).labels(np.arange(2)).tolist() == ["533946", "534000"]


def test_a_coarser_code_stands_for_the_cells_inside_it() -> None:
    whole = MeshCells(level=3, area=("5339", "5340"))
    listed = MeshCells(level=3, cells=["53394611", "53394612", "53400000"])  # type: ignore[arg-type]

    assert (whole.codes("5340"), whole.codes("533900"), whole.codes("53390000")) == (
        range(6400, 12800),
        range(0, 100),
        range(0, 1),
    )
    assert (listed.codes("5339"), listed.codes("534000")) == (range(0, 2), range(2, 3))
    for cells, label in ((whole, "5341"), (whole, "533980"), (whole, "533900001"), (listed, "5341"), (listed, "x")):
        with pytest.raises(KeyError):
            cells.codes(label)


def test_a_country_of_eighths_needs_no_list() -> None:
    area = tuple(f"{row}{column}" for row in range(36, 69) for column in range(22, 54))
    cells = MeshCells(level=6, area=area)

    assert cells.size == len(area) * 64 * 100 * 64
    assert cells.labels(np.array([cells.size - 1])).tolist() == ["68537799444"]


def test_rows_and_columns_meet_at_cell_borders() -> None:
    cells = MeshCells(level=4, area=("5339",))
    rows, columns = cells.grid(np.array([cells.code("533900001"), cells.code("533900002"), cells.code("533900003")]))

    assert (np.diff(rows).tolist(), np.diff(columns).tolist()) == ([0, 1], [1, -1])


@pytest.mark.parametrize(
    "wrong",
    [
        {"level": 0},
        {"level": 7},
        {"level": True},
        {"area": ()},
        {"area": ("533",)},
        {"area": ("5339", "5339")},
        {"area": ("0339",)},
        {"area": None},
        {"area": None, "cells": []},
        {"area": None, "cells": ["5339"]},
        {"area": None, "cells": ["53398011"]},
        {"area": None, "cells": ["x"]},
        {"cells": ["53394611"]},
    ],
)
def test_a_mesh_that_is_none_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(SchemaError):
        MeshCells(**{"level": 3, "area": ("5339",), **wrong})  # type: ignore[arg-type]


def test_equal_meshes_are_equal_and_hash_alike() -> None:
    one, other = (MeshCells(level=3, cells=[53394611, 53394612]) for _ in range(2))  # type: ignore[arg-type]
    third = MeshCells(level=3, cells=[53394611])  # type: ignore[arg-type]

    assert (one == other, hash(one) == hash(other), one == third, one == "x") == (True, True, False, False)


def test_the_hierarchy_has_all_coarser_levels_and_a_top() -> None:
    tree = MeshHierarchy(MeshCells(level=3, area=("5339", "5340")), ("(other)", "(missing)"))
    codes = np.array([0, 12799, 12800, 12801])

    assert [tree.size(level) for level in range(tree.height + 1)] == [12802, 130, 4, 1]
    assert tree.labels(tree.lift(codes, 2), 2).tolist() == ["5339", "5340", "(other)", "(missing)"]
    assert tree.labels(tree.lift(codes, 3), 3).tolist() == ["*"] * 4


def test_a_level_that_the_mesh_does_not_have_is_refused() -> None:
    cells = MeshCells(level=3, area=("5339",))

    with pytest.raises(ParameterError, match="between 1 and 3"):
        cells.coarse(4)
    with pytest.raises(ParameterError, match="between 0 and 3"):
        MeshHierarchy(cells).lift(np.array([0]), 4)
