"""RMSE of block sums: sparse and dense agree, in either order, in domains of any size."""

from __future__ import annotations

import numpy as np
import pytest

from sudare.compare.distances import BLOCKS, block_errors, rollup_errors
from sudare.counts import Counts
from sudare.errors import ParameterError
from sudare.methods.table.compare import region_errors
from sudare.methods.table.morton import CellOrder
from sudare.schema import Attribute, MeshCells, NumberBins, Schema
from sudare.testing.subject import schema_of


def pair(schema: Schema, cells: int = 60) -> tuple[Counts, Counts]:
    generator = np.random.default_rng(1)
    tables = []
    for _ in range(2):
        columns = np.column_stack([generator.integers(0, size, cells) for size in schema.sizes])
        tables.append(Counts.from_columns(schema, columns, generator.integers(1, 50, cells)))
    return tables[0], tables[1]


@pytest.mark.parametrize("sizes", [(64,), (8, 16), (4, 4, 8)])
@pytest.mark.parametrize("order", ["morton", "radix"])
def test_sparse_and_dense_agree(sizes: tuple[int, ...], order: str) -> None:
    true, published = pair(schema_of(*sizes))
    cells = CellOrder(schema=true.schema, order=order)  # type: ignore[arg-type]
    vectors = []
    for table in (true, published):
        vector = np.zeros(true.schema.size)
        vector[cells.ranks(table.codes)] = table.values
        vectors.append(vector)
    blocks = [1, 2, 4, 16, 64]
    sparse = region_errors(true, published, order=order, blocks=blocks)  # type: ignore[arg-type]
    dense = block_errors(*vectors, blocks=blocks)

    assert [sparse[block].value for block in blocks] == pytest.approx([dense[block].value for block in blocks])


def test_blocks_at_the_edge_count_once() -> None:
    schema = schema_of(5)
    true, published = Counts.build(schema, [4], [3]), Counts.build(schema, [], [])

    assert region_errors(true, published, blocks=[4])[4].value == pytest.approx((9 / 2) ** 0.5)


def test_equal_and_empty_tables_have_no_error() -> None:
    true, _ = pair(schema_of(8, 8))
    empty = Counts.build(schema_of(8, 8), [], [])

    assert {one.value for one in region_errors(true, true).values()} == {0.0}
    assert {one.value for one in region_errors(empty, empty).values()} == {0.0}
    assert tuple(region_errors(true, true)) == BLOCKS


def test_a_domain_beyond_2_to_the_63_is_measured() -> None:
    attributes = tuple(Attribute(name=f"a{k}", domain=NumberBins.of_width(0, 1000, 1)) for k in range(8))
    true, published = pair(Schema(name="huge", attributes=attributes))
    found = region_errors(true, published, blocks=[1])

    assert 0 < found[1].value < 1e-9  # squares spread over 1e24 cells


def test_roll_ups_of_a_mesh_are_compared_at_every_level() -> None:
    mesh = Attribute(name="mesh", domain=MeshCells(level=4, area=("5339",)))
    schema = Schema(name="people", attributes=(mesh, *schema_of(2).attributes))
    true = Counts.from_columns(schema, [[0, 0], [400, 1]], [10, 20])
    published = Counts.from_columns(schema, [[1, 0], [400, 0]], [10, 26])
    found = [one.value for one in rollup_errors(true, published, "mesh").values()]

    assert found == pytest.approx([(236 / 25600) ** 0.5, 6 / 80, 6 / 8, 6, 6])


def test_other_tables_and_odd_blocks_are_refused() -> None:
    with pytest.raises(ParameterError, match="same cells"):
        region_errors(Counts.build(schema_of(4), [], []), Counts.build(schema_of(5), [], []))
    with pytest.raises(ParameterError, match="power of two"):
        region_errors(Counts.build(schema_of(4), [], []), Counts.build(schema_of(4), [], []), blocks=[3])
