"""The table method: valid counts at every level, parameters checked, the contract of methods kept."""

from __future__ import annotations

import dataclasses
import itertools
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from sudare.compare.distances import block_errors
from sudare.counts import Counts
from sudare.errors import ParameterError
from sudare.methods.table import Table
from sudare.methods.table.tree import WIDEST, Visited, interleave, level_noises, plan_tree, table_tree
from sudare.methods.tree import group_values
from sudare.noise import SeededRng, geometric
from sudare.postprocess.simplex import share_rows
from sudare.schema import Attribute, Impossible, MeshCells, NumberBins, Schema, TableHierarchy, Values
from sudare.testing import Tabled

MESH = Attribute(name="mesh", domain=MeshCells(level=3, area=("5339",)))
AGE = Attribute(name="age", domain=NumberBins.of_width(0, 100, 5), missing=True)
TOWN = Attribute(
    name="town",
    domain=Values(values=tuple("abcdef")),
    hierarchy=TableHierarchy.from_paths([(n, g, "*") for n, g in zip("abcdef", "xyxzyx", strict=True)]),
)
NEVER = (Impossible(values={"age": frozenset({0, 1, 2}), "town": frozenset({0, 3})}),)


def people(schema: Schema, records: int, seed: int = 1) -> Counts:
    generator = np.random.default_rng(seed)
    columns = np.column_stack([np.minimum(generator.geometric(0.1, records) - 1, size - 1) for size in schema.sizes])
    return Counts.from_columns(schema, columns[~schema.is_impossible(columns)])


SCHEMAS = {
    "small": Schema(name="s", attributes=(AGE, TOWN), impossible=NEVER),
    "mesh": Schema(name="s", attributes=(MESH, AGE)),
    "huge": Schema(name="s", attributes=(MESH, AGE, TOWN, *(dataclasses.replace(AGE, name=f"a{k}") for k in range(5)))),
}


@pytest.mark.parametrize("focus", ["cells", "regions", "both"])
@pytest.mark.parametrize("name", SCHEMAS)
def test_counts_are_whole_and_add_up_to_the_public_total(name: str, focus: str) -> None:
    counts = people(SCHEMAS[name], 5000)
    out = Table(epsilon=1, focus=focus).draw(counts, neighbours="replace", rng=SeededRng(1))  # type: ignore[arg-type]

    assert out.total == counts.total
    assert (out.values > 0).all()
    assert not out.schema.is_impossible(out.columns()).any()


@pytest.mark.parametrize("method", ["tree", "wavelet"])
def test_with_a_huge_epsilon_the_table_comes_back(method: str) -> None:
    counts = people(SCHEMAS["mesh"], 3000)

    assert Table(epsilon=1000, algorithm=method).draw(counts, rng=SeededRng(1)) == counts  # type: ignore[arg-type]


def test_every_level_of_a_hierarchy_is_published_consistently(tmp_path: Path) -> None:
    source = Tabled(people(SCHEMAS["small"], 4000))
    release = Table(epsilon=1).publish(source, rng=SeededRng(1))
    cells, rollups = release.frames["cells"].decode(), release.frames["rollups"].decode()
    group = {"a": "x", "c": "x", "f": "x", "b": "y", "e": "y", "d": "z"}
    chosen = (rollups["attribute"] == "town") & (rollups["level"] == 1)
    told = dict(zip(rollups["group"][chosen], rollups["count"][chosen], strict=True))
    added: dict[str, int] = {}
    for town, count in zip(cells["town"], cells["count"], strict=True):
        added[group[town]] = added.get(group[town], 0) + int(count)

    assert added == told
    assert sum(added.values()) == source.counts.total


def test_a_mesh_is_also_published_as_maps(tmp_path: Path) -> None:
    release = Table(epsilon=1).publish(Tabled(people(SCHEMAS["mesh"], 2000)), rng=SeededRng(1))
    release.save(tmp_path / "out", even_if_not_private=True)
    names = {file.name for file in (tmp_path / "out").iterdir()}

    assert {"cells.parquet", "rollups.parquet", "map.geojson", "map.parquet", "certificate.json"} <= names


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"algorithm": "haar"}, "algorithm"),
        ({"focus": "towns"}, "focus"),
        ({"algorithm": "wavelet", "focus": "cells"}, "takes no focus"),
        ({"by": ()}, "not empty"),
        ({"epsilon": 0}, "epsilon"),
    ],
)
def test_bad_parameters_get_one_clear_line(fields: dict[str, object], line: str) -> None:
    with pytest.raises(ParameterError, match=line):
        Table(**{"epsilon": 1, **fields})  # type: ignore[arg-type]


def test_an_attribute_called_count_is_refused() -> None:
    schema = Schema(name="s", attributes=(dataclasses.replace(AGE, name="count"),))

    with pytest.raises(Exception, match="count"):
        Table(epsilon=1).preview(schema)


@pytest.mark.parametrize("method", ["tree", "wavelet"])
def test_the_preview_needs_no_data_and_errors_do_not_vanish(method: str) -> None:
    told = Table(epsilon=1, algorithm=method).preview(SCHEMAS["mesh"], rows=20_000)  # type: ignore[arg-type]

    assert [cells for cells, _ in told.regions][:3] == [1, 4, 16]
    assert all(error > 0 for _, error in told.regions)
    assert told.trials[0].published_cells >= told.trials[0].noise_cells > 0


def test_the_preview_says_when_most_cells_will_be_noise() -> None:
    told = Table(epsilon="1/10").preview(SCHEMAS["huge"], rows=20_000)

    assert "would be noise" in str(told.advice())


@pytest.mark.parametrize("focus", ["cells", "regions", "both"])
def test_the_levels_use_exactly_the_planned_epsilon(focus: str) -> None:
    for schema in SCHEMAS.values():
        promise = Table(epsilon="1/3").guarantee()
        budget = plan_tree(schema, promise, focus)  # type: ignore[arg-type]

        noises = level_noises(table_tree(schema), budget)
        assert sum(2 / noise.scale for noise in noises if noise is not None) == promise.amount


def test_no_node_has_more_children_than_stated() -> None:
    value_groups = [group_values(each) for each in SCHEMAS["huge"].attributes]
    sizes = [np.prod([each.nodes(h) for each, h in zip(value_groups, level, strict=True)], dtype=float)
             for level in interleave(value_groups)]  # fmt: skip

    assert max(below / above for above, below in itertools.pairwise(sizes)) <= WIDEST
    assert sizes[-1] == SCHEMAS["huge"].size


def test_shares_are_rounded_to_their_largest_fractions() -> None:
    generator = np.random.default_rng(1)
    for _ in range(50):
        rows = np.sort(generator.integers(0, 5, 30))
        totals = np.where(np.isin(np.arange(5), rows), generator.integers(0, 40, 5), 0)
        shares = generator.normal(2, 3, 30)
        out = share_rows(shares, rows, totals=totals, rng=SeededRng(1))

        assert np.bincount(rows, weights=out, minlength=5).tolist() == totals.tolist()
        assert (out >= 0).all()


def test_agreeing_levels_are_nearer_than_cells_alone() -> None:
    """Up-pass: with half of epsilon on sums, a sum of 256 cells has less than half the error of added noisy cells."""
    schema = Schema(name="s", attributes=(Attribute(name="x", domain=NumberBins.of_width(0, 4096, 1)),))
    truth = np.random.default_rng(1).poisson(50, 4096)
    counts = Counts.build(schema, np.arange(4096)[:, None], truth)
    tree = table_tree(schema)
    way = Visited(tree=tree, noises=level_noises(tree, plan_tree(schema, Table(epsilon=1).guarantee(), "regions")))
    out = way.publish(counts, total=counts.total, rng=SeededRng(1)).dense()
    plain = geometric(truth, epsilon=Fraction(1), sensitivity=2, rng=SeededRng(2))
    error, naive = (block_errors(truth, each, blocks=[256])[256].value for each in (out, plain))

    assert error < naive / 2
