"""Several releases of one table: joint k is the smallest intersection, and a bound on it is kept."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import sudare as sd
from sudare.errors import Infeasible, SourceError
from sudare.methods.kanon.history import History
from sudare.methods.kanon.joint import read_classes
from sudare.methods.kanon.request import Request
from sudare.schema import Attribute, Schema, Values
from tests.unit.test_kanon import SCHEMA, rows


def ages(counts: dict[int, int]) -> tuple[pa.Table, Schema]:
    table = pa.table({"age": [str(age) for age, count in counts.items() for _ in range(count)]})
    domain = Values(tuple(str(age) for age in sorted(counts)), is_ordered=True)
    return table, Schema(name="t", attributes=(Attribute(name="age", domain=domain, role="quasi"),))


def grant(table: pa.Table, schema: Schema, option: dict[str, Any], history: History, out: Path, **more: Any) -> Any:
    request = Request.from_dict({"request": {"k": 5}, "option": [option]}, schema)
    method = sd.KAnonymity(k=5, **more)
    with sd.open(table, schema) as source:
        made = method.perform(source, method.plan(schema, request=request, history=history))
        made.release.save(out)
        method.remember(made)
    return made.payload.steward.joint


def test_18_and_over_beside_20_and_over_leaves_two_people_and_is_refused(tmp_path: Path) -> None:
    table, schema = ages({10: 40, 18: 1, 19: 1, 30: 40})
    history = History.open(tmp_path / "h.jsonl")
    first = grant(table, schema, {"age": [["10"], ["18", "19", "30"]]}, history, tmp_path / "one")
    over_20 = {"age": [["10", "18", "19"], ["30"]]}

    assert first is None
    with pytest.raises(Infeasible, match="fewer than 5 rows would stay alike"):
        grant(table, schema, over_20, history, tmp_path / "two", joint_k=5)
    assert not (tmp_path / "two").exists()
    assert grant(table, schema, over_20, history, tmp_path / "two").k == 2
    assert len(read_classes(history.classes_path)) == 2


@given(
    seed=st.integers(0, 1000),
    count=st.integers(40, 200),
    options=st.lists(
        st.sampled_from(
            [
                {},
                {"recoding": "local"},
                {"recoding": "mondrian"},
                {"max_suppressed": "0.2"},
                {"by": ("place", "disease")},
            ]
        ),
        min_size=2,
        max_size=3,
    ),
)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_joint_k_is_what_matching_the_published_rows_gives(
    seed: int, count: int, options: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    place, table = tmp_path_factory.mktemp("joint"), rows(seed, count)
    numbered = table.append_column("row", pa.array([str(number) for number in range(count)]))
    history, joint = History.open(place / "h.jsonl"), None
    labels: dict[str, dict[int, tuple[Any, ...]]] = {}
    for number, option in enumerate(options):
        method = sd.KAnonymity(k=3, others=True, **option)
        with sd.open(numbered, SCHEMA) as source:
            try:
                made = method.perform(source, method.plan(SCHEMA, history=history))
            except Infeasible:
                return
            made.release.save(place / str(number))
            method.remember(made)
        quasi = made.release.certificate.guarantee["quasi"]
        columns = ", ".join(f'"{name}"' for name in quasi)
        records = place / str(number) / "records.parquet"
        found = duckdb.connect().execute(f"SELECT row, {columns} FROM '{records}'").fetchall()
        for row, *values in found:
            labels.setdefault(row, {})[number] = tuple(values)
        joint = made.payload.steward.joint
    together = Counter(tuple(seen.get(number) for number in range(len(options))) for seen in labels.values())

    assert joint is not None
    assert joint.k == min(together.values())


def test_rows_divided_at_random_leave_joint_k_unknown_and_a_bound_is_refused(tmp_path: Path) -> None:
    history = History.open(tmp_path / "h.jsonl")
    for number, more in enumerate(({"recoding": "mondrian", "mondrian": "relaxed"}, {"joint_k": 2})):
        method = sd.KAnonymity(k=3, **more)  # type: ignore[arg-type]
        with sd.open(rows(4, 200), SCHEMA) as source:
            if number:
                with pytest.raises(Infeasible, match="not computed"):
                    method.perform(source, method.plan(SCHEMA, history=history))
                return
            method.remember(method.perform(source, method.plan(SCHEMA, history=history)))


def test_damaged_classes_are_refused(tmp_path: Path) -> None:
    (tmp_path / "h.classes").write_bytes(b"no")

    with pytest.raises(SourceError, match="restore the file"):
        read_classes(tmp_path / "h.classes")
