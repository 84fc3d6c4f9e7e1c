"""k-anonymity as a steward meets it: parameters, promise, what is published, what is refused."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import sudare as sd
from sudare.counts import Counts
from sudare.counts.relabelling import SUPPRESSED
from sudare.errors import Infeasible, ParameterError, SchemaError
from sudare.methods.kanon import KAnonymity
from sudare.methods.kanon.criteria import read_criterion
from sudare.methods.kanon.risk import compare_recoding
from sudare.privacy.promise import recognise_criterion
from sudare.schema import Attribute, NumberBins, Schema, TableHierarchy, Unit, Values
from sudare.schema.hierarchy_rules import intervals
from sudare.verify.checks import verify_release

AGES = NumberBins.of_width(0, 80, 10)
AGE = Attribute(name="age", domain=AGES, role="quasi", missing=True, hierarchy=intervals(AGES, [20, 40]))
PLACE = Attribute(
    name="place",
    domain=Values(("Tokyo", "Chiba", "Osaka", "Kobe")),
    role="quasi",
    hierarchy=TableHierarchy.from_paths(
        [("Tokyo", "east", "*"), ("Chiba", "east", "*"), ("Osaka", "west", "*"), ("Kobe", "west", "*")]
    ),
)
DISEASE = Attribute(name="disease", domain=Values(("flu", "cold", "none")), role="sensitive")
NOTE = Attribute(name="note", domain=Values(("x", "y")))
SCHEMA = Schema(name="patients", attributes=(AGE, PLACE, DISEASE, NOTE), identifiers=("name",))
QUASI = ("age", "place")


def rows(seed: int, count: int) -> pa.Table:
    """Made-up patients, some places and ages rare."""
    rng = np.random.default_rng(seed)
    age = np.minimum(rng.exponential(25, count), 79).astype(int).tolist()
    return pa.table(
        {
            "name": [f"n{index}" for index in range(count)],
            "age": [None if rng.random() < 0.05 else value for value in age],
            "place": rng.choice(["Tokyo", "Chiba", "Osaka", "Kobe"], count, p=[0.6, 0.3, 0.08, 0.02]).tolist(),
            "disease": rng.choice(["flu", "cold", "none"], count, p=[0.2, 0.1, 0.7]).tolist(),
            "note": rng.choice(["x", "y"], count).tolist(),
        }
    )


def published(method: KAnonymity, table: pa.Table, out: Path, schema: Schema = SCHEMA) -> list[tuple[Any, ...]]:
    with sd.open(table, schema) as source:
        method.publish(source).save(out)
    return duckdb.sql(f"SELECT * FROM '{out / 'records.parquet'}'").fetchall()


METHODS = [
    {},
    {"max_suppressed": "0.2"},
    {"max_suppressed": "0.2", "local": True},
    {"max_suppressed": "0.1", "recoding": "value"},
    {"recoding": "value", "max_suppressed": "0.2", "local": True},
    {"recoding": "local"},
    {"recoding": "local", "labels": "ranges", "effort": "best"},
    {"recoding": "mondrian"},
    {"recoding": "mondrian", "mondrian": "relaxed"},
]


@given(
    seed=st.integers(0, 1000),
    count=st.integers(30, 300),
    k=st.integers(2, 8),
    options=st.sampled_from(METHODS),
    criteria=st.sampled_from([(), ("l=2,disease",), ("t=0.4,disease",), ("entropy-l=1.5,disease",)]),
)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_released_class_holds_k_records_and_the_criteria_and_other_columns_are_unchanged(
    seed: int,
    count: int,
    k: int,
    options: dict[str, Any],
    criteria: tuple[str, ...],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    table = rows(seed, count)
    method = KAnonymity(k=k, criteria=criteria, **options)
    try:
        found = published(method, table, tmp_path_factory.mktemp("kanon") / "out")
    except Infeasible:
        return
    classes: dict[tuple[Any, ...], Counter[str]] = {}
    for row in found:
        classes.setdefault(row[:2], Counter())[row[2]] += 1
    whole = Counter(table["disease"].to_pylist())
    untouched = Counter(zip(table["disease"].to_pylist(), table["note"].to_pylist(), strict=True))
    limit = 0 if options.get("recoding") in ("local", "mondrian") else int(method.share * count)

    assert min(one.total() for one in classes.values()) >= k
    assert all(_keeps(one, whole, text) for one in classes.values() for text in criteria)
    assert len(found) >= count - limit
    assert not Counter(row[2:] for row in found) - untouched


def _keeps(one: Counter[str], whole: Counter[str], text: str) -> bool:
    """The criteria once more, from their definitions."""
    shares = [count / one.total() for count in one.values()]
    if text.startswith("l="):
        return len(one) >= 2
    if text.startswith("entropy"):
        return -sum(share * math.log(share) for share in shares) >= math.log(1.5) - 1e-9
    return sum(abs(one[name] / one.total() - whole[name] / whole.total()) for name in whole) / 2 <= 0.4 + 1e-9


@pytest.mark.parametrize("options", METHODS)
def test_a_row_keeps_its_own_values_inside_its_labels(options: dict[str, Any], tmp_path: Path) -> None:
    schema = Schema(name="t", attributes=(AGE, Attribute(name="same", domain=AGES, missing=True)))
    table = pa.table({"age": rows(3, 200)["age"], "same": rows(3, 200)["age"]})
    found = published(KAnonymity(k=5, **options), table, tmp_path / "out", schema)

    assert all(_lies_in(own, label) for label, own in found)


def _lies_in(own: str | None, label: str | None) -> bool:
    """Tell whether a bin lies in a label of a coarser level or of a range."""
    if label == "*" or own == label or (own is None and label is not None and "(missing)" in label):
        return True
    if own is None or label is None:
        return False
    low, high = (int(part) for part in own[1:-1].split(","))
    return any(
        int(text[1:-1].split(",")[0]) <= low and high <= int(text[1:-1].split(",")[1])
        for text in label.split("|")
        if text.startswith("[")
    )


def test_only_the_values_that_need_it_climb(tmp_path: Path) -> None:
    tree = TableHierarchy.from_paths([(str(age), f"{age // 10}0s", "*") for age in (18, 19, 20, 21)])
    age = Attribute(name="age", domain=Values(("18", "19", "20", "21")), role="quasi", hierarchy=tree)
    table = pa.table({"age": ["18"] + ["19"] * 2 + ["20"] * 3 + ["21"] * 4})
    found = published(KAnonymity(k=3, recoding="value"), table, tmp_path / "out", Schema(name="t", attributes=(age,)))

    assert Counter(label for (label,) in found) == {"10s": 3, "20": 3, "21": 4}


def test_identifiers_are_dropped_and_columns_chosen(tmp_path: Path) -> None:
    with sd.open(rows(1, 100), SCHEMA) as source:
        KAnonymity(k=3, by=("place", "age", "disease")).publish(source).save(tmp_path / "out", file_format="csv")
    head = (tmp_path / "out" / "records.csv").read_text(encoding="utf-8").splitlines()[0]

    assert head == "place,age,disease"


def test_the_mapping_and_the_certificate_tell_levels_and_no_combination(tmp_path: Path) -> None:
    with sd.open(rows(2, 200), SCHEMA) as source:
        release = KAnonymity(k=5, max_suppressed="0.1").publish(source)
        paper = release.save(tmp_path / "out")
    mapping = json.loads((tmp_path / "out" / "mapping.json").read_text(encoding="utf-8"))
    levels = {name: one["level"] for name, one in mapping["attributes"].items()}

    assert mapping["recoding"] == "full"
    assert paper.measures["levels"] == levels
    assert set(paper.measures) == {"levels", "coarseness"}
    assert paper.guarantee["composes"] is False
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == [
        "certificate.ja.md",
        "certificate.json",
        "certificate.md",
        "mapping.json",
        "records.parquet",
    ]
    assert sd.Release.load(tmp_path / "out").certificate == paper


def test_a_class_of_persons_holds_the_rows_of_k_of_them() -> None:
    unit = Unit(kind="person", column="id", max_rows=3)
    schema = Schema(name="visits", unit=unit, attributes=(PLACE,))
    table = pa.table({"id": [index // 3 for index in range(90)], "place": ["Tokyo"] * 80 + ["Osaka"] * 10})
    with sd.open(table, schema) as source:
        outcome = KAnonymity(k=4).decide(source)

    assert outcome.recoded.class_sizes.min() >= 12
    assert "at least 4 persons" in KAnonymity(k=4).guarantee(unit=unit).describe().render("en")


def test_the_promise_is_told_in_both_languages_and_does_not_compose() -> None:
    promise = KAnonymity(k=5, max_suppressed="0.05", criteria="l=3,disease").guarantee(quasi=("age", "sex"))
    told = promise.to_dict()

    assert promise.neighbours == ""
    assert promise.max_suppressed == Fraction(1, 20)
    assert "distinct l = 3 of disease" in told["statement"]["en"]
    assert "does not compose" in told["statement"]["en"]
    assert "公開を重ねたときの約束はなく" in told["statement"]["ja"]


def test_the_preview_counts_ways_and_names_what_stays() -> None:
    told = KAnonymity(k=5).preview(SCHEMA, rows=1000)

    assert (told.nodes, told.finest, told.coarsest, told.most_cells) == (12, 36, 1, 200)
    assert told.unchanged == ("disease", "note")
    assert "disease, note" in str(told.lines()[-1])
    assert KAnonymity(k=5, recoding="mondrian").preview(SCHEMA).to_dict()["nodes"] is None


def test_a_likeness_is_told_without_values() -> None:
    table = pa.table(
        {
            "name": [str(index) for index in range(20)],
            "age": [5] * 20,
            "place": ["Tokyo"] * 10 + ["Osaka"] * 10,
            "disease": ["flu"] * 10 + ["cold", "none"] * 5,
            "note": ["x"] * 20,
        }
    )
    with sd.open(table, SCHEMA) as source:
        (alike,) = compare_recoding(KAnonymity(k=5).decide(source).recoded).alike

    assert (alike.attribute, alike.classes, alike.share) == ("disease", 1, 0.5)
    assert "flu" not in str(alike.describe())


BAD = [
    ({"k": 1}, r"k \(1\) must be a whole number of at least 2"),
    ({"k": 5, "max_suppressed": 2}, r"max_suppressed \(2\) must be a number between 0 and 1"),
    ({"k": 5, "search": "x"}, "search"),
    ({"k": 5, "quality": "x"}, 'must be one of "loss"'),
    ({"k": 5, "recoding": "x"}, "recoding"),
    ({"k": 5, "mondrian": "x"}, "mondrian"),
    ({"k": 5, "deadline_seconds": 0}, "deadline_seconds"),
    ({"k": 5, "criteria": ("l=x",)}, "must be like l=3,COLUMN"),
    ({"k": 5, "criteria": ("presence=0..0.5",), "recoding": "value"}, "delta-presence works with recoding full"),
]


@pytest.mark.parametrize(("fields", "told"), BAD)
def test_bad_parameters_are_refused_in_one_line(fields: dict[str, Any], told: str) -> None:
    with pytest.raises(ParameterError, match=told):
        KAnonymity(**fields)


def test_criteria_are_read_as_they_are_typed() -> None:
    texts = ["l=3,d", "entropy-l=2.5,d", "recursive-l=3,c=2,d", "t=0.2,d,ordered", "presence=0.1..0.5"]

    assert [str(read_criterion(text).describe()) for text in texts] == [
        "distinct l = 3 of d",
        "entropy l = 2.5 of d",
        "recursive c = 2.0, l = 3 of d",
        "t = 0.2 of d, ordered distance",
        "presence in [0.1, 0.5]",
    ]


def test_the_promise_tells_its_criteria_in_the_language_of_whoever_looks() -> None:
    texts = ("l=3,d", "entropy-l=2.5,d", "recursive-l=3,c=2,d", "t=0.2,d,ordered", "presence=0.1..0.5")
    promise = KAnonymity(k=5, quasi=("zip",), criteria=texts).guarantee()
    told, facts = promise.describe().render("ja"), promise.to_dict()

    assert not re.search("distinct|entropy|recursive|presence|distance| of ", told)
    assert all(recognise_criterion(words).render("ja") in told for words in facts["criteria"])
    assert facts["statement"] == {"en": promise.describe().render("en"), "ja": told}
    assert "distinct l = 3 of d; entropy l = 2.5 of d; recursive c = 2.0, l = 3 of d" in facts["statement"]["en"]


def test_what_cannot_be_done_is_refused_with_what_to_do() -> None:
    flat = Schema(name="t", attributes=(Attribute(name="zip", domain=Values(("1", "2")), role="quasi"), DISEASE))
    two = TableHierarchy.from_paths([("1", "one"), ("2", "two")])
    split = Schema(name="t", attributes=(Attribute(name="zip", domain=flat.attributes[0].domain, hierarchy=two),))
    table = pa.table({"zip": ["1"] * 9 + ["2"], "disease": ["flu"] * 10})
    cases: list[tuple[Schema, dict[str, Any], type[Exception], str]] = [
        (flat, {"k": 2}, SchemaError, "zip has no hierarchy"),
        (flat, {"k": 11, "recoding": "mondrian"}, Infeasible, "larger than the table"),
        (split, {"k": 2, "quasi": "zip"}, Infeasible, "zip keeps rows apart.*max_suppressed = 0.100"),
        (split, {"k": 2}, SchemaError, "no attribute is a quasi-identifier"),
        (flat, {"k": 2, "by": ("disease",)}, ParameterError, "none of the attributes to publish.*publish one of zip"),
        (flat, {"k": 2, "by": "disease", "quasi": "zip"}, ParameterError, "zip is not among the published"),
        (flat, {"k": 2, "criteria": "l=2,zip"}, ParameterError, "both quasi-identifier and sensitive"),
        (flat, {"k": 2, "recoding": "mondrian", "criteria": "l=2,disease"}, Infeasible, "whole table as one class"),
    ]
    for schema, fields, kind, told in cases:
        with sd.open(table, schema) as source, pytest.raises(kind, match=told):
            KAnonymity(**fields).publish(source)


def test_rows_left_out_are_within_the_limit_and_local_recoding_brings_them_back() -> None:
    with sd.open(rows(5, 300), SCHEMA) as source:
        plain = KAnonymity(k=10, max_suppressed="0.2").decide(source).recoded
        local = KAnonymity(k=10, max_suppressed="0.2", local=True).decide(source).recoded

    assert 0 < plain.suppressed_rows <= 60
    assert local.suppressed_rows < plain.suppressed_rows
    assert (local.class_of == SUPPRESSED).sum() < (plain.class_of == SUPPRESSED).sum()


def test_presence_in_a_register_is_kept_by_the_published_classes() -> None:
    schema = Schema(name="t", attributes=(PLACE,))
    table = Counts.from_columns(schema, [[0], [1], [2], [3]], [40, 5, 30, 30])
    register = Counts.from_columns(schema, [[0], [1], [2], [3]], [50, 50, 100, 100])
    method = KAnonymity(k=5, criteria=("presence=0.2..0.5",))
    recoded = method.outcome(table, ("place",), register=register).recoded

    assert sorted(recoded.class_sizes.tolist()) == [45, 60]
    with pytest.raises(ParameterError, match="needs a register of the population"):
        method.outcome(table, ("place",))


def test_columns_that_are_not_declared_are_published_only_when_asked_for(tmp_path: Path) -> None:
    table = rows(1, 60).append_column("extra", pa.array(range(60)))
    with sd.open(table, SCHEMA) as source:
        for name, others in (("without", False), ("with", True)):
            KAnonymity(k=3, others=others).publish(source).save(tmp_path / name, file_format="csv")
    heads = [(tmp_path / name / "records.csv").read_text().splitlines()[0] for name in ("without", "with")]

    assert heads == ["age,place,disease,note", "age,place,disease,note,extra"]


@pytest.mark.parametrize("recoding", ["value", "local", "cells", "mondrian"])
def test_a_deadline_that_has_passed_still_keeps_the_promise_and_is_told(recoding: Any) -> None:
    with sd.open(rows(8, 300), SCHEMA) as source:
        share = {"max_suppressed": "0.1"} if recoding == "value" else {}
        outcome = KAnonymity(k=5, recoding=recoding, deadline_seconds=1e-9, **share).decide(source)
        unhurried = KAnonymity(k=5, recoding=recoding, **share).decide(source)

    assert outcome.recoded.class_sizes.min() >= 5
    assert outcome.is_late == (recoding != "value")  # whose search tells it by its gap
    assert not unhurried.is_late
    assert recoding == "value" or len(outcome.recoded.class_sizes) == 1 < len(unhurried.recoded.class_sizes)


@pytest.mark.parametrize(
    ("recoding", "expected"),
    [("full", [("east", 11), ("west", 5)]), ("mondrian", [("Chiba|west", 7), ("Tokyo", 9)])],
)
def test_an_aggregated_table_is_published_with_its_counts(
    recoding: Any, expected: list[tuple[str, int]], tmp_path: Path
) -> None:
    table = pa.table({"place": ["Tokyo", "Chiba", "Osaka", "Kobe"], "n": [9, 2, 1, 4]})
    with sd.open(table, Schema(name="t", attributes=(PLACE,)), count_column="n") as source:
        KAnonymity(k=5, recoding=recoding).publish(source).save(tmp_path / "out")
    found = duckdb.sql(f"SELECT place, SUM(n) FROM '{tmp_path / 'out' / 'records.parquet'}' GROUP BY ALL").fetchall()

    assert sorted(found) == expected


def test_the_published_rows_of_persons_are_those_that_were_counted(tmp_path: Path) -> None:
    unit = Unit(kind="person", column="id", max_rows=2)
    schema = Schema(name="visits", unit=unit, attributes=(PLACE, NOTE))
    persons = [index // 5 for index in range(300)]
    table = pa.table({"id": persons, "place": ["Tokyo", "Osaka", "Kobe"] * 100, "note": ["x"] * 300})
    found = published(KAnonymity(k=3, recoding="mondrian", mondrian="relaxed"), table, tmp_path / "out", schema)

    assert len(found) == 120
    assert min(Counter(place for place, _ in found).values()) >= 6


def test_ranges_of_local_recoding_with_missing_values_beside_them_are_verified(tmp_path: Path) -> None:
    records = published(KAnonymity(k=4, recoding="local", labels="ranges"), rows(3, 300), tmp_path / "out")

    assert any("|(missing)" in str(label) for record in records for label in record)
    assert all(claim.passed for claim in verify_release(tmp_path / "out"))
