"""Microaggregation: groups against all partitions, k and criteria recounted on what is published, refusals."""

from __future__ import annotations

import csv
import itertools
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from sudare.counts import Counts
from sudare.errors import ParameterError
from sudare.methods.kanon import KAnonymity
from sudare.methods.kanon.microaggregate import group_by_distance, group_one_number
from sudare.methods.kanon.recheck import recheck_classes
from sudare.releases import Certificate
from sudare.releases.claims import CheckedClaim
from sudare.schema import Attribute, NumberBins, Schema, Values
from sudare.schema.hierarchy_rules import intervals
from sudare.sources import open as open_source
from tests.unit.kanon_tables import halving

AGE = Attribute(name="age", domain=NumberBins.of_width(0, 100, 1), role="quasi")
PAY = Attribute(name="pay", domain=NumberBins.of_width(0, 1000, 10), role="quasi")
PLACE = halving("place", 2)
DISEASE = Attribute(name="disease", domain=Values(("none", "cold", "flu")), role="sensitive")
SCHEMA = Schema(name="clinic", attributes=(AGE, PAY, PLACE, DISEASE))


def columns_of(seed: int, rows: int = 400) -> np.ndarray:  # type: ignore[type-arg]
    rng = np.random.default_rng(seed)
    age = np.clip(rng.normal(45, 18, rows), 0, 99).astype(int)
    pay = np.clip(age + rng.gamma(2, 12, rows), 0, 99).astype(int)
    return np.column_stack([age, pay, rng.integers(0, 4, rows), rng.integers(0, 3, rows)])


def squared_error(values: np.ndarray, weights: np.ndarray, group_of: np.ndarray) -> float:  # type: ignore[type-arg]
    total = 0.0
    for group in set(group_of.tolist()):
        is_here = group_of == group
        mean = np.average(values[is_here], weights=weights[is_here])
        total += float((weights[is_here] * (values[is_here] - mean) ** 2).sum())
    return total


def partitions(count: int) -> list[np.ndarray]:  # type: ignore[type-arg]
    cuts = itertools.product((0, 1), repeat=count - 1)
    return [np.concatenate([[0], np.cumsum(cut)]) for cut in cuts]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("k", [2, 3, 5])
def test_one_number_is_partitioned_with_the_least_squared_error_of_all(seed: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    values = np.sort(rng.choice(60, 10, replace=False)).astype(float)
    weights = rng.integers(1, 4, 10)
    group_of = group_one_number(values, weights, k)
    allowed = [cut for cut in partitions(10) if np.bincount(cut, weights=weights).min() >= k]
    least = min((squared_error(values, weights, cut) for cut in allowed), default=None)

    assert least is not None
    assert np.bincount(group_of, weights=weights).min() >= k
    assert squared_error(values, weights, group_of) == pytest.approx(least)


@pytest.mark.parametrize("seed", range(8))
def test_groups_of_several_numbers_have_k_rows_and_beat_random_groups(seed: int) -> None:
    rng = np.random.default_rng(seed)
    points, weights = rng.normal(size=(60, 2)), rng.integers(1, 3, 60)
    group_of = group_by_distance(points, weights, 5)
    shuffled = rng.permutation(group_of)
    error, chance = (
        sum(squared_error(points[:, axis], weights, groups) for axis in (0, 1)) for groups in (group_of, shuffled)
    )

    assert np.bincount(group_of, weights=weights).min() >= 5
    assert error < 0.4 * chance


@pytest.mark.parametrize("names", [("age",), ("age", "pay")])
@pytest.mark.parametrize("recoding", ["full", "value", "local", "mondrian", "cells"])
@pytest.mark.parametrize("criteria", [(), ("l=2,disease",), ("t=0.3,disease",)])
def test_published_classes_keep_the_promise(names: tuple[str, ...], recoding: str, criteria: tuple[str, ...]) -> None:
    attributes = (AGE, PLACE, DISEASE) if "pay" not in names else SCHEMA.attributes
    schema = Schema(name="clinic", attributes=attributes)
    columns = columns_of(1)[:, [SCHEMA.names.index(one.name) for one in attributes]]
    method = KAnonymity(k=6, microaggregate=names, recoding=recoding, criteria=criteria)  # type: ignore[arg-type]
    counts = Counts.from_columns(schema, columns)
    outcome = method.outcome(counts, (*names, "place"), ("disease",))
    sizes = outcome.recoded.class_sizes

    assert int(sizes.min()) >= 6
    assert int(sizes.sum()) == 400
    assert len(sizes) > 4  # more than the classes of place alone
    assert outcome.recoded.mapping["attributes"]["age"] == {"mean": "of the class", "values": "whole numbers"}


def published(tmp_path: Path, method: KAnonymity) -> tuple[list[dict[str, str]], Path]:
    rows = columns_of(3)
    with (tmp_path / "clinic.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(SCHEMA.names)
        for age, pay, place, disease in rows.tolist():
            writer.writerow([age, pay * 10 + 5, f"place{place}", DISEASE.domain.labels(np.array([disease]))[0]])
    with open_source(tmp_path / "clinic.csv", SCHEMA) as source:
        method.publish(source).save(tmp_path / "out", file_format="csv")
    with (tmp_path / "out" / "records.csv").open() as file:
        return list(csv.DictReader(file)), tmp_path / "out"


def recheck(directory: Path) -> list[CheckedClaim]:
    return recheck_classes(
        KAnonymity, Certificate.from_json((directory / "certificate.json").read_text(encoding="utf-8")), directory
    )


def test_a_release_shows_the_means_of_its_classes_and_is_recounted(tmp_path: Path) -> None:
    records, directory = published(tmp_path, KAnonymity(k=8, microaggregate=("age", "pay"), recoding="local"))
    classes = Counter((row["age"], row["pay"], row["place"]) for row in records)
    mean = sum(float(row["age"]) for row in records) / len(records)
    mapping = json.loads((directory / "mapping.json").read_text(encoding="utf-8"))

    assert min(classes.values()) >= 8
    assert mean == pytest.approx(columns_of(3)[:, 0].mean(), abs=0.006)  # means of groups add up to the mean of all
    assert mapping["attributes"]["pay"] == {"mean": "of the class", "values": "middles of bins"}
    assert all(claim.passed for claim in recheck(directory))


def test_a_forged_mean_is_found(tmp_path: Path) -> None:
    records, directory = published(tmp_path, KAnonymity(k=8, microaggregate=("age", "pay")))
    text = (directory / "records.csv").read_text(encoding="utf-8")
    age = records[0]["age"]
    (directory / "records.csv").write_text(text.replace(f"\n{age},", "\n240,"), encoding="utf-8")

    assert not all(claim.passed for claim in recheck(directory))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"microaggregate": ("place",)}, "place is none"),
        ({"microaggregate": ("disease",)}, "no quasi-identifier"),
        ({"microaggregate": ("age",), "recoding": "mondrian", "mondrian": "relaxed"}, "mondrian relaxed"),
    ],
)
def test_what_has_no_mean_is_refused_before_the_data(given: dict[str, object], words: str) -> None:
    tree = intervals(PAY.domain, [100])
    schema = Schema(
        name="c", attributes=(AGE, Attribute(name="pay", domain=PAY.domain, hierarchy=tree), PLACE, DISEASE)
    )

    with pytest.raises(ParameterError, match=words):
        KAnonymity(k=5, **given).plan(schema)  # type: ignore[arg-type]
