"""Nested releases, levels that a steward picks, weights, hidden cells, Mondrian along hierarchies, coded ends."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb
import numpy as np
import pytest

import sudare as sd
from sudare import app
from sudare.counts import Counts
from sudare.errors import HierarchyError, Infeasible, ParameterError
from sudare.methods.base import Plan
from sudare.methods.kanon import top_down
from sudare.methods.kanon.approve import approve
from sudare.methods.kanon.joint import (
    EARLIER,
    ReleasedClasses,
    add_earlier,
    forget_earlier,
    leave_out_enough,
    measure_joint,
)
from sudare.methods.kanon.kanonymity import KAnonymitySteps
from sudare.methods.kanon.relabel import Outcome
from sudare.methods.kanon.request import Grouping, Request
from sudare.methods.kanon.risk import compare_recoding
from sudare.schema import NumberBins
from sudare.schema.hierarchy_rules import intervals
from tests.unit.kanon_tables import random_counts
from tests.unit.test_kanon import SCHEMA, rows


class CountedSource:
    """Counts as a source that only counts."""

    def __init__(self, counts: sd.Counts) -> None:
        self.schema, self._counts = counts.schema, counts

    def count(self, by: Sequence[str] | None = None) -> sd.Counts:
        return self._counts if by is None else self._counts.project(list(by))


def outcome_of(counts: sd.Counts, **parameters: object) -> Outcome:
    method = sd.KAnonymity(**{"k": 3, **parameters})  # type: ignore[arg-type]
    quasi = tuple(attribute.name for attribute in counts.schema.attributes if attribute.role == "quasi")
    return method.outcome(counts, quasi, ("s",))


def smallest(outcome: Outcome) -> int:
    return int(outcome.recoded.class_sizes.min())


# --- nested -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("recoding", ["full", "value", "local", "cells", "mondrian"])
@pytest.mark.parametrize("seed", [401, 402, 403])
def test_a_nested_recoding_keeps_joint_k_with_every_earlier_release(recoding: str, seed: int) -> None:
    """Earlier: two requests with other groups. Without `nested` most of these tables break joint k."""
    counts = random_counts(seed, bits=(3, 2, 2), rows=300)
    schema, source = counts.schema, CountedSource(counts)
    a, b = schema.attribute("a"), schema.attribute("b")
    earlier = []
    for option in (
        {"a": Grouping(a, None, ((0, 1, 2), (3, 4, 5, 6, 7)))},
        {"a": Grouping(a, None, ((0,), (1, 2, 3, 4, 5, 6, 7))), "b": Grouping(b, 2)},
    ):
        asked = Request(name="", options=(option,))
        approval = approve(
            source,  # type: ignore[arg-type]
            asked,
            criteria=sd.KAnonymity(k=3)._all_criteria(None),
            max_suppressed=Fraction(0),
            find_sensitive=lambda quasi: (),
        )
        earlier.append(ReleasedClasses.of(schema.fingerprint, approval.require_approved()[1].recoded))
    table = add_earlier(source, ("a", "b", "c"), ("s",), earlier)
    method = sd.KAnonymity(k=3, recoding=recoding, nested=True)  # type: ignore[arg-type]
    outcome = method.outcome(table, ("a", "b", "c"), ("s", EARLIER), is_nested=True)
    recoded = forget_earlier(outcome.recoded)

    assert EARLIER not in recoded.pieces.names
    assert (measure_joint(source, recoded, earlier).k or 0) >= 3


@pytest.mark.parametrize("recoding", ["full", "value"])
@pytest.mark.parametrize("seed", range(421, 427))
def test_a_nested_recoding_that_leaves_rows_out_leaves_out_none_or_enough_of_every_earlier_class(
    recoding: str, seed: int
) -> None:
    """Rows that the new release alone leaves out are alike only to each other; without the mending this fails."""
    counts = random_counts(seed, bits=(3, 2, 2), rows=400)
    schema, source = counts.schema, CountedSource(counts)
    option = {"a": Grouping(schema.attribute("a"), 1), "c": Grouping(schema.attribute("c"), 1)}
    approval = approve(
        source,  # type: ignore[arg-type]
        Request(name="", options=(option,)),
        criteria=sd.KAnonymity(k=3)._all_criteria(None),
        max_suppressed=Fraction(1, 4),
        find_sensitive=lambda quasi: (),
    )
    earlier = [ReleasedClasses.of(schema.fingerprint, approval.require_approved()[1].recoded)]
    table = add_earlier(source, ("a", "b", "c"), ("s",), earlier)
    method = sd.KAnonymity(k=3, recoding=recoding, nested=True, max_suppressed=Fraction(2, 5))  # type: ignore[arg-type]
    first = method.outcome(table, ("a", "b", "c"), ("s", EARLIER), is_nested=True).recoded
    mended = leave_out_enough(first, 3, int(Fraction(2, 5) * counts.total))
    told = measure_joint(source, forget_earlier(first), earlier).k or 0

    assert mended is None or (measure_joint(source, forget_earlier(mended), earlier).k or 0) >= 3
    assert mended is not None or told < 3
    assert mended is None or mended.suppressed_rows >= first.suppressed_rows


def test_a_nested_recoding_that_may_leave_out_none_still_knows_the_register() -> None:
    counts = random_counts(423, bits=(3, 2, 2), rows=400)
    schema, source, quasi = counts.schema, CountedSource(counts), ("a", "b", "c")
    people = counts.project(list(quasi))
    register = Counts.from_columns(people.schema, people.columns(), 2 * people.values)
    option = {"a": Grouping(schema.attribute("a"), 1)}
    approval = approve(
        source,  # type: ignore[arg-type]
        Request(name="", options=(option,)),
        criteria=sd.KAnonymity(k=3)._all_criteria(None),
        max_suppressed=Fraction(0),
        find_sensitive=lambda quasi: (),
    )
    earlier = [ReleasedClasses.of(schema.fingerprint, approval.require_approved()[1].recoded)]
    table = add_earlier(source, quasi, ("s",), earlier)
    method = sd.KAnonymity(k=3, quasi=quasi, nested=True, criteria=("presence=0..0.5",))
    generous = replace(method, max_suppressed=Fraction(1, 2))
    given = generous.outcome(table, quasi, ("s", EARLIER), register=register, is_nested=True)
    steps = KAnonymitySteps(quasi=quasi, sensitive=("s",), register=register)
    plan = Plan(promise=method.guarantee(unit=None, quasi=quasi), schema=schema, counted=quasi, steps=steps)
    kept = method._leave_out_nested(table, plan, ("s", EARLIER), given, register)

    assert given.recoded.suppressed_rows > 0
    assert kept.recoded.suppressed_rows == 0
    assert kept.recoded.class_sizes.min() >= 3


def test_nested_with_suppression_publishes_what_was_decided(tmp_path: Path) -> None:
    (tmp_path / "t.toml").write_text(
        '[sudare]\nschema = 1\nname = "t"\n[[attribute]]\nname = "age"\nkind = "number"\nrole = "quasi"\n'
        "bins = { start = 0, stop = 100, width = 1 }\nhierarchy = { intervals = [5, 10, 20] }\n"
        '[[attribute]]\nname = "sex"\nkind = "category"\nrole = "quasi"\nvalues = ["F", "M"]\n'
        'hierarchy = { masking = "right" }\n',
        encoding="utf-8",
    )
    rng = np.random.default_rng(8)
    ages = np.minimum(99, rng.exponential(20, 800).astype(int))
    rows = [f"{int(age)},{sex}" for age, sex in zip(ages, rng.choice(["F", "M"], 800), strict=True)]
    (tmp_path / "t.csv").write_text("\n".join(["age,sex", *rows]) + "\n", encoding="utf-8")
    extras: dict[str, Any] = {"history": tmp_path / "h"}
    common: dict[str, Any] = {"schema_file": tmp_path / "t.toml", "extras": extras, "file_format": "csv"}
    first = sd.KAnonymity(k=5, by=("age",), max_suppressed=Fraction(1, 20))
    app.publish(first, tmp_path / "t.csv", out=tmp_path / "one", **common)
    nested = sd.KAnonymity(k=5, nested=True, max_suppressed=Fraction(1, 10))
    second = app.publish(nested, tmp_path / "t.csv", out=tmp_path / "two", **common)
    written = (tmp_path / "two" / "records.csv").read_text(encoding="utf-8").split()[1:]

    assert second.summary.details["joint_k"] >= 5
    assert len(written) == second.summary.rows >= 720
    assert min(Counter(written).values()) >= 5


def test_nested_releases_of_a_table_publish_together(tmp_path: Path) -> None:
    (tmp_path / "t.toml").write_text(
        '[sudare]\nschema = 1\nname = "t"\n[[attribute]]\nname = "age"\nkind = "number"\nrole = "quasi"\n'
        "bins = { start = 0, stop = 100, width = 1 }\nhierarchy = { intervals = [5, 10, 20] }\n"
        '[[attribute]]\nname = "sex"\nkind = "category"\nrole = "quasi"\nvalues = ["F", "M"]\n'
        'hierarchy = { masking = "right" }\n',
        encoding="utf-8",
    )
    rng = np.random.default_rng(3)
    rows = [
        f"{int(age)},{sex}" for age, sex in zip(rng.integers(0, 100, 600), rng.choice(["F", "M"], 600), strict=True)
    ]
    (tmp_path / "t.csv").write_text("\n".join(["age,sex", *rows]) + "\n", encoding="utf-8")
    extras: dict[str, Any] = {"history": tmp_path / "h"}
    common: dict[str, Any] = {"schema_file": tmp_path / "t.toml"}
    app.publish(sd.KAnonymity(k=5, by=("age",)), tmp_path / "t.csv", out=tmp_path / "one", extras=extras, **common)
    nested = sd.KAnonymity(k=5, recoding="local", nested=True)
    second = app.publish(nested, tmp_path / "t.csv", out=tmp_path / "two", extras=extras, **common)

    assert second.summary.details["joint_k"] >= 5
    with pytest.raises(ParameterError, match="nested needs the history"):
        app.publish(sd.KAnonymity(k=5, nested=True), tmp_path / "t.csv", out=tmp_path / "three", **common)


# --- levels, weights, cells -------------------------------------------------------------------------------------------


def test_a_picked_node_is_published_if_it_keeps_the_promise_and_refused_if_not() -> None:
    counts = random_counts(411, bits=(2, 2, 1), rows=80)
    picked = outcome_of(counts, levels=("a=2", "b=2", "c=0"))

    assert picked.result is not None
    assert picked.result.node == (2, 2, 0)
    assert smallest(picked) >= 3
    with pytest.raises(Infeasible, match="levels that were given"):
        outcome_of(counts, levels=("a=0", "b=0", "c=0"))
    with pytest.raises(ParameterError, match="every quasi-identifier"):
        outcome_of(counts, levels=("a=0", "b=9", "c=0"))
    with pytest.raises(ParameterError, match="no quasi-identifier"):
        outcome_of(counts, levels=("a=0", "b=0", "c=0", "z=1"))


@pytest.mark.parametrize("recoding", ["full", "local"])
@patch.object(top_down, "MOVE_WORK", {"quick": 150_000})  # a twentieth of the moves must do
def test_a_weighted_attribute_keeps_more_of_its_detail(recoding: str) -> None:
    heavier, lighter = 0.0, 0.0
    for seed in range(420, 430):
        counts = random_counts(seed, bits=(3, 3, 1), rows=150)
        plain = compare_recoding(outcome_of(counts, recoding=recoding).recoded).loss["a"]
        weighted = compare_recoding(outcome_of(counts, recoding=recoding, weights=("a=8",)).recoded).loss["a"]
        lighter, heavier = lighter + plain, heavier + weighted

    assert heavier < lighter


def test_the_weighted_optimum_is_that_of_an_exhaustive_search() -> None:
    for seed in range(430, 440):
        counts = random_counts(seed, bits=(2, 2, 2), rows=90)
        found = [
            outcome_of(counts, weights=("a=3", "b=0.5"), search=search, max_suppressed="0.1").result
            for search in ("auto", "exhaustive")
        ]

        assert found[0] is not None
        assert found[1] is not None
        assert found[0].score == pytest.approx(found[1].score)


@pytest.mark.parametrize("weights", [("z=1",), ("a=0", "b=0", "c=0")])
def test_weights_that_mean_nothing_are_refused(weights: tuple[str, ...]) -> None:
    with pytest.raises(ParameterError, match="weights"):
        outcome_of(random_counts(1), weights=weights)


def test_hidden_cells_are_values_or_stars_and_keep_the_promise() -> None:
    for seed in range(440, 446):
        counts = random_counts(seed, bits=(2, 3, 2), rows=200)
        recoded = outcome_of(counts, recoding="cells", criteria=("l=2,s",)).recoded
        labels = recoded.relabelling.overrides
        assert labels is not None
        written = {label for name in "abc" for label in labels.labels[name].tolist()}
        allowed = {"*", *(f"{name}{code}" for name in "abc" for code in range(8))}

        assert int(recoded.class_sizes.min()) >= 3
        assert written <= allowed
        assert "*" in written


def test_mondrian_by_hierarchy_labels_by_groups_and_loses_less_than_full(tmp_path: Path) -> None:
    for seed in range(450, 456):
        counts = random_counts(seed, bits=(3, 3, 2), rows=400)
        recoded = outcome_of(counts, recoding="mondrian", mondrian="hierarchy").recoded
        known = {
            label
            for name in "abc"
            for level in range(counts.schema.attribute(name).height + 1)
            for label in counts.schema.attribute(name)
            .coarsen(level)
            .labels(np.arange(counts.schema.attribute(name).coarsen(level).size))
            .tolist()
        }
        overrides = recoded.relabelling.overrides
        assert overrides is not None
        written = {label for name in "abc" for label in overrides.labels[name].tolist()}

        assert int(recoded.class_sizes.min()) >= 3
        assert written <= known | {"*"}
        assert compare_recoding(recoded).total_loss <= compare_recoding(outcome_of(counts).recoded).total_loss + 1e-9


def test_the_mapping_tells_of_rows_that_were_generalised_further() -> None:
    counts = random_counts(460, bits=(3, 2, 2), rows=150)
    recoded = outcome_of(counts, local=True, max_suppressed="0.3").recoded
    mapping = json.loads(json.dumps(recoded.mapping))

    assert "further" in mapping
    assert all(set(levels) == {"a", "b", "c"} for levels in mapping["further"])


# --- coded ends -------------------------------------------------------------------------------------------------------


def test_ends_are_coded_at_every_level_and_levels_nest() -> None:
    domain = NumberBins.of_width(0, 100, 1)
    tree = intervals(domain, [5, 20], bottom=15, top=85)
    codes = np.arange(100)

    assert tree.height == 4
    for level in range(1, 4):
        groups = tree.lift(codes, level)
        assert len(set(groups[:15].tolist())) == len(set(groups[85:].tolist())) == 1
        assert groups[14] != groups[15]
        assert groups[84] != groups[85]
    assert tree.names[1][0] == "[0,15)"
    assert tree.names[1][-1] == "[85,100]"


@pytest.mark.parametrize("end", [0, 100, 15.5, 200])
def test_a_coded_end_that_is_no_inner_edge_is_refused(end: float) -> None:
    with pytest.raises(HierarchyError, match="must be an edge"):
        intervals(NumberBins.of_width(0, 100, 1), [5], top=end)


def label_by_mapping(attribute: sd.Attribute, told: dict[str, Any], value: str) -> str:
    """Write a value as mapping.json says: at a level, or by the first group that has it, else as the rest."""
    is_age = isinstance(attribute.domain, NumberBins)
    if value == "None":
        code = attribute.size - 1  # a missing value stands last
    else:
        code = int(value) // 10 if is_age else attribute.codes(value)[0]  # ages stand in tens

    def at(level: int) -> str:
        lifted = np.array([code]) if level == 0 else attribute.hierarchy.lift(np.array([code]), level)  # type: ignore[union-attr]
        return str(attribute.coarsen(level).labels(lifted)[0])

    if "level" in told:
        return at(told["level"])
    named = [group for group in told["groups"] if not group.get("rest")]
    rest = [group["label"] for group in told["groups"] if group.get("rest")]
    return next((str(group["label"]) for group in named if at(group["level"]) == str(group["label"])), *rest)


@pytest.mark.parametrize("recoding", ["full", "value"])
@pytest.mark.parametrize("seed", [3, 8])
def test_the_published_table_is_computed_again_from_its_mapping_and_the_original(
    tmp_path: Path, recoding: str, seed: int
) -> None:
    table = rows(seed, 300)
    method = sd.KAnonymity(k=4, recoding=recoding, max_suppressed="0.1")  # type: ignore[arg-type]
    with sd.open(table, SCHEMA) as source:
        made = method.perform(source, method.plan(SCHEMA))
        made.release.save(tmp_path / "out")
    told = json.loads((tmp_path / "out" / "mapping.json").read_text(encoding="utf-8"))["attributes"]
    names = list(told)
    recoded = Counter(
        tuple(label_by_mapping(SCHEMA.attribute(name), told[name], str(row[name])) for name in names)
        for row in table.to_pylist()
    )
    columns = ", ".join(f'"{name}"' for name in names)
    query = f"SELECT {columns} FROM '{tmp_path / 'out' / 'records.parquet'}'"
    published = Counter(tuple(map(str, row)) for row in duckdb.connect().execute(query).fetchall())

    assert published == {labels: count for labels, count in recoded.items() if count >= 4}
