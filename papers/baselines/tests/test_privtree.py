"""PrivTree: the bound of its proof by geometric noise, its leaves, and sums that are kept."""

from __future__ import annotations

import math

import numpy as np
import pytest

from papers.baselines.privtree import PrivTree, Square
from sudare.counts import Counts
from sudare.errors import ParameterError
from sudare.noise import SeededRng
from sudare.noise.geometric import geometric_tail
from sudare.schema import Attribute, MeshCells, NumberBins, Schema
from sudare.testing.subject import schema_of


def grid(rows: int, columns: int) -> Schema:
    sides = [Attribute(name=n, domain=NumberBins.of_width(0, s, 1)) for n, s in (("row", rows), ("column", columns))]
    return Schema(name="grid", attributes=tuple(sides))


@pytest.mark.parametrize("children", [2, 4])
@pytest.mark.parametrize("epsilon", ["1/10", "1", "4"])
def test_the_losses_along_any_path_stay_within_half_of_epsilon(children: int, epsilon: str) -> None:
    """The worst path falls by `fall` a level; the losses of opening it with one record more are summed up."""
    method = PrivTree(epsilon=epsilon)
    scale, fall = float(method.tree_scale(children, "add-remove")), method.fall(children, "add-remove")
    worst = 0.0
    for last in range(1 - fall, fall + 2):  # the lowered count of the deepest node that differs
        lowered = [last + step * fall for step in range(200)]
        losses = [math.log(geometric_tail(1 - x, scale) / geometric_tail(2 - x, scale)) for x in lowered]
        worst = max(worst, sum(losses))

    assert worst <= float(method.epsilon) / 2 + 1e-9  # type: ignore[arg-type]
    assert worst > 0.7 * float(method.epsilon) / 2  # type: ignore[arg-type]


def test_empty_places_are_opened_rarely_and_full_ones_to_the_cell() -> None:
    counts = Counts.from_columns(grid(64, 64), [[5, 9]] * 5000)
    method = PrivTree(epsilon=1)
    leaves = method._leaves(Square.of(counts).placed(counts), Square.of(counts), None, SeededRng(1))

    assert (1 in {size for _, size in leaves}) is True
    assert len(leaves) < 400
    assert sum(size for _, size in leaves) == 64 * 64


def test_estimates_are_near_the_truth_where_people_are() -> None:
    counts = Counts.from_columns(grid(50, 30), [[5, 9]] * 5000 + [[40, 20]] * 3000)
    estimate = PrivTree(epsilon=1).estimate(counts, rng=SeededRng(2)).reshape(50, 30)

    assert estimate[5, 9] == pytest.approx(5000, abs=60)
    assert estimate[40, 20] == pytest.approx(3000, abs=60)
    assert estimate.sum() == pytest.approx(8000, abs=400)


def test_a_mesh_is_a_square_of_places_of_which_only_cells_get_people() -> None:
    mesh = Attribute(name="mesh", domain=MeshCells(level=2, area=("5339", "5340", "5439")))
    counts = Counts.from_columns(Schema(name="mesh", attributes=(mesh,)), [[7]] * 400)
    square = Square.of(counts)
    out = PrivTree(epsilon=1).draw(counts, neighbours="add-remove", rng=SeededRng(3))

    assert square.side == 16
    assert int(square.is_cell.sum()) == 192
    assert abs(int(out.dense()[7]) - 400) < 60


def test_more_than_two_attributes_are_refused() -> None:
    with pytest.raises(ParameterError, match="one or two"):
        PrivTree(epsilon=1).draw(Counts.build(schema_of(2, 2, 2), [], []), rng=SeededRng(1))


def test_a_line_is_halved() -> None:
    counts = Counts.build(schema_of(100), [[17]], [2000])
    estimate = PrivTree(epsilon=1).estimate(counts, rng=SeededRng(4))

    assert int(np.argmax(estimate)) == 17
