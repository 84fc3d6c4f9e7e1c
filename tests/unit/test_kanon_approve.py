"""Requests that need suppression are approved wherever the rare value stands."""

from __future__ import annotations

import itertools
import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import sudare as sd
from sudare.counts import Counts
from sudare.errors import ParameterError
from sudare.methods.kanon.approve import approve
from sudare.methods.kanon.criteria import MinimumSize, read_criteria
from sudare.methods.kanon.recheck import recheck_classes
from sudare.methods.kanon.request import Grouping, Request, read_grouping
from sudare.schema import Attribute, NumberBins, Schema, Values
from sudare.verify.checks import verify_release


@pytest.mark.parametrize("order", list(itertools.permutations("abc")))
def test_a_rare_value_is_left_out_in_any_order_of_values(order: tuple[str, ...]) -> None:
    schema = Schema(name="t", attributes=(Attribute(name="town", domain=Values(order), role="quasi"),))
    table = pa.table({"town": ["a"] + ["b"] * 20 + ["c"] * 20})
    request = Request.from_dict({"request": {"k": 5}, "option": [{"town": 0}]}, schema)
    with sd.open(table, schema) as source:
        approval = approve(
            source,
            request,
            criteria=(MinimumSize(k=5),),
            max_suppressed=Fraction(1, 10),
            find_sensitive=lambda quasi: (),
        )
    recoded = approval.require_approved()[1].recoded

    assert sorted(recoded.class_sizes.tolist()) == [20, 20]
    assert recoded.suppressed_rows == 1


SCHOOL = Attribute(name="school", domain=Values(("none", "high", "junior", "college", "(x)")), role="quasi")
AGE = Attribute(name="age", domain=NumberBins.of_width(0, 100, 10), role="quasi", missing=True)


@pytest.mark.parametrize(
    ("attribute", "groups", "labels"),
    [
        (SCHOOL, ((0, 3), (1, 2), (4,)), ["none|college", "high|junior", "(x)"]),
        (SCHOOL, ((0, 4), (1, 2, 3)), ["none|(x)", "high|junior|college"]),
        (AGE, ((0, 1, 8, 9), (2, 3, 4, 5, 6, 7), (10,)), ["[0,20)|[80,100]", "[20,80)", None]),
        (AGE, ((0, 10), tuple(range(1, 10))), ["[0,10)|(missing)", "[10,100]"]),
    ],
)
def test_the_label_of_a_group_of_ones_own_names_its_values_and_no_others(
    attribute: Attribute, groups: tuple[tuple[int, ...], ...], labels: list[str | None]
) -> None:
    grouping = Grouping(attribute, None, groups)

    assert grouping.labels(np.array([members[0] for members in groups])).tolist() == labels


def test_names_of_a_hierarchy_file_are_published_and_kept_in_the_store(tmp_path: Path) -> None:
    schema = Schema(name="t", attributes=(SCHOOL,))
    (tmp_path / "s.csv").write_text(
        "none;short;*\nhigh;short;*\njunior;short;*\ncollege;long;*\n(x);long;*\n", encoding="utf-8"
    )
    (tmp_path / "r.toml").write_text(
        '[request]\nname = "x"\n[[option]]\nschool = { hierarchy = "s.csv" }\n', encoding="utf-8"
    )
    request = Request.read(tmp_path / "r.toml", schema)
    again = Request.from_value(json.loads(json.dumps(request.to_value())), schema)
    table = pa.table({"school": ["none"] * 4 + ["high"] * 3 + ["college"] * 6})
    with sd.open(table, schema) as source:
        release = sd.KAnonymity(k=5).publish(source, request=again)
        release.save(tmp_path / "out", file_format="csv")

    assert again.options[0]["school"].names == ("short", "long")
    assert sorted((tmp_path / "out" / "records.csv").read_text().split()) == ["long"] * 6 + ["school"] + ["short"] * 7


@pytest.mark.parametrize("name", ["college", "*"])
def test_a_group_may_not_be_called_what_it_is_not(tmp_path: Path, name: str) -> None:
    schema = Schema(name="t", attributes=(SCHOOL,))
    (tmp_path / "s.csv").write_text(f"none;{name}\nhigh;{name}\njunior;{name}\ncollege;long\n(x);long\n")
    with pytest.raises(ParameterError, match="needs another name"):
        read_grouping(SCHOOL, {"hierarchy": "s.csv"}, beside=tmp_path)
    assert schema.names == ("school",)


def test_presence_is_kept_by_requests_and_needs_its_register() -> None:
    schema = Schema(name="t", attributes=(Attribute(name="town", domain=Values(("a", "b", "c")), role="quasi"),))
    table = pa.table({"town": ["a"] * 20 + ["b"] * 20})
    population = Counts.from_columns(schema, np.repeat([[0], [1], [2]], [25, 100, 50], axis=0))
    request = Request.from_dict({"request": {}, "option": [{"town": 0}]}, schema)

    def published(criterion: str, share: str) -> int | None:
        with sd.open(table, schema) as source:
            approval = approve(
                source,
                request,
                criteria=(MinimumSize(k=5), *read_criteria((criterion,))),
                max_suppressed=Fraction(share),
                find_sensitive=lambda quasi: (),
                register=population,
            )
        return None if approval.outcome is None else int(approval.outcome.recoded.class_sizes.sum())

    assert published("presence=0..0.9", "0") == 40
    assert published("presence=0..0.5", "0") is None  # of the 25 people of a, 20 are in the table
    assert published("presence=0..0.5", "1/2") == 20
    assert published("presence=0.1..0.9", "1/2") is None  # nobody of c is in the table


def test_a_request_gets_what_it_names_and_sensitive_columns_and_no_others() -> None:
    schema = Schema(
        name="t",
        attributes=(
            Attribute(name="town", domain=Values(("a", "b")), role="quasi"),
            Attribute(name="job", domain=Values(("x", "y")), role="quasi"),
            Attribute(name="shoe", domain=Values(("40", "41"))),
            Attribute(name="illness", domain=Values(("p", "q")), role="sensitive"),
        ),
    )
    table = pa.table(
        {"town": ["a", "b"] * 10, "job": ["x", "x", "y", "y"] * 5, "shoe": ["40", "41"] * 10, "illness": ["p"] * 20}
    )
    request = Request.from_dict({"request": {}, "option": [{"town": 0}]}, schema)
    with sd.open(table, schema) as source:
        release = sd.KAnonymity(k=5).publish(source, request=request)
        asked_for = sd.KAnonymity(k=5, by=("town", "job", "shoe")).publish(source, request=request)

    assert [one["name"] for one in release.certificate.schema["attributes"]] == ["town", "illness"]
    assert [one["name"] for one in asked_for.certificate.schema["attributes"]] == ["town", "shoe"]


@pytest.mark.parametrize("names", [None, ("short", "long")])
def test_groups_of_ones_own_are_verified_by_the_mapping_of_the_release(
    tmp_path: Path, names: tuple[str, ...] | None
) -> None:
    schema = Schema(name="t", attributes=(SCHOOL,))
    (tmp_path / "s.csv").write_text("none;short\nhigh;short\njunior;short\ncollege;long\n(x);long\n")
    groups = '[["none", "high", "junior"], ["college", "(x)"]]' if names is None else '{ hierarchy = "s.csv" }'
    (tmp_path / "r.toml").write_text(f"[request]\n\n[[option]]\nschool = {groups}\n")
    request = Request.read(tmp_path / "r.toml", schema)
    table = pa.table({"school": ["none"] * 4 + ["junior"] * 3 + ["college"] * 6})
    with sd.open(table, schema) as source:
        release = sd.KAnonymity(k=5).publish(source, request=request)
        release.save(tmp_path / "out")
    verified, certificate = verify_release(tmp_path / "out"), sd.Release.load(tmp_path / "out").certificate
    mapping = tmp_path / "out" / "mapping.json"
    mapping.write_text(mapping.read_text().replace('"label": "', '"label": "other '))
    forged = recheck_classes(sd.KAnonymity, certificate, tmp_path / "out")

    assert all(claim.passed for claim in verified)
    assert [str(claim.name) for claim in forged if not claim.passed] == ["labels", "mapping"]
