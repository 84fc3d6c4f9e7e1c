"""Persons counted as persons in entropy l, recursive l and t: against a count by hand, person by person."""

from __future__ import annotations

import csv
import math
from collections import Counter, defaultdict
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from sudare.counts.relabelling import ROWS_OF_PERSON
from sudare.errors import Infeasible
from sudare.methods.kanon import KAnonymity
from sudare.methods.kanon.predict import predict
from sudare.methods.kanon.request import Request
from sudare.requests.measure import CountedTable
from sudare.requests.policy import TablePolicy
from sudare.schema import Attribute, Schema, Unit, Values
from sudare.sources import open as open_source
from tests.unit.kanon_tables import halving

LIMIT = 4
SCHEMA = Schema(
    name="visits",
    attributes=(
        halving("a", 2),
        halving("b", 2),
        Attribute(name="s", domain=Values(("x", "y", "z"), is_ordered=True), role="sensitive"),
    ),
    unit=Unit(kind="person", column="id", max_rows=LIMIT),
)


def write_visits(path: Path) -> list[tuple[str, int, int, str]]:
    """Few persons with many rows of one value: counted as rows they look common, as persons they are rare."""
    rng = np.random.default_rng(11)
    rows = []
    for person in range(300):
        often = person % 6 == 0
        for _ in range(LIMIT if often else 1):
            value = "x" if often else "xyz"[int(rng.integers(1, 3))]
            rows.append((f"p{person}", int(rng.integers(0, 4)), int(rng.integers(0, 4)), value))
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "a", "b", "s"])
        writer.writerows([person, f"a{a}", f"b{b}", value] for person, a, b, value in rows)
    return rows


def weigh_classes(rows: list[tuple[str, int, int, str]], levels: dict[str, int]) -> list[dict[str, float]]:
    """By class, how many persons have each value; a person of n rows counts 1/n for each."""
    rows_of = Counter(row[0] for row in rows)
    classes: dict[tuple[int, int], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for person, a, b, value in rows:
        classes[a >> levels["a"], b >> levels["b"]][value] += 1 / rows_of[person]
    return list(classes.values())


def test_rows_are_counted_with_how_many_rows_their_person_has(tmp_path: Path) -> None:
    rows = write_visits(tmp_path / "visits.csv")
    rows_of = Counter(row[0] for row in rows)
    with open_source(tmp_path / "visits.csv", SCHEMA) as source:
        counts = source.count_with_persons(["a", "s"])
    found: Counter[tuple[int, str, int]] = Counter()
    for (a, s, n), count in zip(counts.columns().tolist(), counts.values.tolist(), strict=True):
        found[a, "xyz"[s], n + 1] += count

    assert counts.schema.names == ("a", "s", ROWS_OF_PERSON)
    assert found == Counter((a, s, rows_of[person]) for person, a, _, s in rows)


def test_a_person_above_the_limit_counts_as_the_limit(tmp_path: Path) -> None:
    (tmp_path / "visits.csv").write_text("id,a,b,s\n" + "p1,a0,b0,x\n" * 9 + "p2,a1,b0,y\n", encoding="utf-8")
    with open_source(tmp_path / "visits.csv", SCHEMA) as source:
        counts = source.count_with_persons(["a"])

    assert dict(zip(map(tuple, counts.columns().tolist()), counts.values.tolist(), strict=True)) == {
        (0, LIMIT - 1): LIMIT,
        (1, 0): 1,
    }


@pytest.mark.parametrize("criterion", ["entropy-l=2.2,s", "recursive-l=2,c=3,s", "t=0.12,s", "t=0.1,s,ordered"])
def test_published_classes_keep_criteria_over_persons(tmp_path: Path, criterion: str) -> None:
    rows = write_visits(tmp_path / "visits.csv")
    with open_source(tmp_path / "visits.csv", SCHEMA) as source:
        outcome = KAnonymity(k=2, criteria=(criterion,)).decide(source)
    assert outcome.result is not None
    levels = dict(zip(("a", "b"), outcome.result.node, strict=True))
    whole = weigh_classes(rows, {"a": 9, "b": 9})[0]

    for values in weigh_classes(rows, levels):
        shares = sorted((value / sum(values.values()) for value in values.values()), reverse=True)
        order = [values.get(name, 0.0) / sum(values.values()) for name in "xyz"]
        table = [whole.get(name, 0.0) / sum(whole.values()) for name in "xyz"]
        distance = sum(abs(p - q) for p, q in zip(order, table, strict=True)) / 2
        ordered = sum(abs(sum(order[: i + 1]) - sum(table[: i + 1])) for i in range(2)) / 2
        kept = {
            "entropy-l=2.2,s": -sum(share * math.log(share) for share in shares) >= math.log(2.2) - 1e-9,
            "recursive-l=2,c=3,s": shares[0] < 3 * sum(shares[1:]),
            "t=0.12,s": distance <= 0.12 + 1e-9,
            "t=0.1,s,ordered": ordered <= 0.1 + 1e-9,
        }

        assert kept[criterion]


def test_counting_persons_decides_otherwise_than_counting_rows(tmp_path: Path) -> None:
    write_visits(tmp_path / "visits.csv")
    plain = Schema(name="visits", attributes=SCHEMA.attributes)
    criteria = ("recursive-l=2,c=0.79,s",)  # of the rows 200 of 450 have x, of the persons 50 of 300
    with open_source(tmp_path / "visits.csv", SCHEMA) as source:
        of_persons = KAnonymity(k=2, criteria=criteria).decide(source)

    assert of_persons.result is not None
    with open_source(tmp_path / "visits.csv", plain) as source, pytest.raises(Infeasible):
        KAnonymity(k=2, criteria=criteria).decide(source)


@pytest.mark.parametrize("recoding", ["value", "local", "cells", "mondrian"])
def test_other_recodings_count_persons_too_and_forget_the_number(tmp_path: Path, recoding: str) -> None:
    write_visits(tmp_path / "visits.csv")
    method = KAnonymity(k=2, criteria=("t=0.15,s",), recoding=recoding, max_suppressed=Fraction(0))  # type: ignore[arg-type]
    with open_source(tmp_path / "visits.csv", SCHEMA) as source:
        recoded = method.decide(source).recoded

    assert recoded.pieces.names == ("a", "b", "s")
    assert int(recoded.class_sizes.min()) >= 2 * LIMIT


@pytest.mark.parametrize(("criterion", "is_kept"), [("t=0.12,s", True), ("t=0.01,s", False)])
def test_requests_count_persons_and_predictions_call_nothing_certain_that_rows_would_decide(
    tmp_path: Path, criterion: str, is_kept: bool
) -> None:
    rows = write_visits(tmp_path / "visits.csv")
    request = Request.from_dict({"request": {"k": 2}, "option": [{"a": 1}]}, SCHEMA)
    policy = TablePolicy(k=2, criteria=(criterion,))
    with open_source(tmp_path / "visits.csv", SCHEMA) as source:
        table = CountedTable(source, policy, ("a",))
        measured = table.measure(request.options[0])
        try:
            published = KAnonymity(k=2, criteria=(criterion,)).publish(source, request=request) is not None
        except Infeasible:
            published = False
    whole = weigh_classes(rows, {"a": 9, "b": 9})[0]
    distances = []
    for values in weigh_classes(rows, {"a": 1, "b": 9}):
        shares = [values[name] / sum(values.values()) - whole[name] / sum(whole.values()) for name in "xyz"]
        distances.append(sum(map(abs, shares)) / 2)
    answer = predict(request, SCHEMA, [], pairs=table.count_pairs(), criteria=(criterion,)).answers[0]

    assert published == measured.is_kept == (max(distances) <= float(criterion[2:-2]) + 1e-9) == is_kept
    assert answer.verdict == ("likely" if is_kept else "unlikely")


def test_the_lattice_tells_the_promise_in_persons_and_not_in_rows(tmp_path: Path) -> None:
    write_visits(tmp_path / "visits.csv")
    with open_source(tmp_path / "visits.csv", SCHEMA) as source:
        head = str(KAnonymity(k=3, criteria=("l=1,s",)).list_choices(source).describe_proof()[0])

    assert "k = 3 persons (classes of 12 rows, since a person may have 4), distinct l = 1 of s" in head
