"""Requests that need suppression are approved wherever the rare value stands."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sudare as sd
from sudare.counts import Counts
from sudare.errors import Infeasible, ParameterError
from sudare.methods.kanon.approve import approve
from sudare.methods.kanon.criteria import MinimumSize, read_criteria
from sudare.methods.kanon.recheck import recheck_classes
from sudare.methods.kanon.relabel import Outcome
from sudare.methods.kanon.request import Grouping, Request, read_grouping
from sudare.schema import Attribute, NumberBins, Schema, TableHierarchy, Values
from sudare.verify.checks import verify_release


def test_groups_of_a_level_are_joined_and_the_others_keep_their_names() -> None:
    tree = TableHierarchy.from_paths(
        [("a", "x", "*"), ("b", "x", "*"), ("c", "y", "*"), ("d", "z", "*"), ("e", "z", "*")]
    )
    place = Attribute(name="place", domain=Values(("a", "b", "c", "d", "e")), hierarchy=tree)
    joined = read_grouping(place, {"level": 1, "merge": [["y", "z"]]})

    assert joined.labels(np.arange(5)).tolist() == ["x", "x", "c|z", "c|z", "c|z"]
    assert read_grouping(place, {"merge": ["z"]}).groups == ((0,), (1,), (2,), (3, 4))
    for wrong in ({"level": 1, "merge": ["a"]}, {"merge": ["x", "a"]}):
        with pytest.raises(ParameterError, match="must join whole groups of level"):
            read_grouping(place, wrong)


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


@given(
    seed=st.integers(0, 10**6),
    levels=st.tuples(st.integers(0, 1), st.integers(0, 1)),
    share=st.sampled_from(["0", "0.1", "1/2"]),
    low=st.sampled_from(["0", "0.2"]),
)
@settings(max_examples=60, deadline=None)
def test_presence_is_judged_alike_for_requests_and_for_levels_that_are_picked(
    seed: int, levels: tuple[int, int], share: str, low: str
) -> None:
    rng = np.random.default_rng(seed)
    tree = TableHierarchy.from_paths([(f"{code}", f"g{code // 2}") for code in range(4)])
    names = ("a", "b")
    schema = Schema(
        name="t",
        attributes=tuple(
            Attribute(name=name, domain=Values(tree.names[0]), role="quasi", hierarchy=tree) for name in names
        ),
    )
    counts = Counts.from_columns(schema, rng.choice(4, (80, 2), p=rng.dirichlet(np.ones(4))))
    lacking = np.zeros_like(counts.values)
    lacking[seed % len(lacking)] = seed % 3 == 0  # sometimes too few of one combination
    register = Counts.build(schema, counts.codes, counts.values - lacking + rng.integers(0, 9, len(lacking)))
    request = Request.from_dict({"request": {}, "option": [dict(zip(names, levels, strict=True))]}, schema)
    criteria = read_criteria((f"presence={low}..0.8",))
    picked = tuple(f"{name}={level}" for name, level in zip(names, levels, strict=True))

    def by_request() -> Outcome:
        return approve(
            ExactCounts(counts),
            request,
            criteria=(MinimumSize(k=3), *criteria),
            max_suppressed=Fraction(share),
            find_sensitive=lambda quasi: (),
            register=register,
        ).require_approved()[1]

    def by_levels() -> Outcome:
        method = sd.KAnonymity(k=3, max_suppressed=share, criteria=criteria, levels=picked)
        return method.outcome(counts, names, register=register)

    assert classes_or_refusal(by_request) == classes_or_refusal(by_levels)


def classes_or_refusal(publish: Callable[[], Outcome]) -> list[int] | str:
    try:
        return sorted(publish().recoded.class_sizes.tolist())
    except Infeasible:
        return "infeasible"
    except ParameterError as error:
        return str(error)


@dataclass
class ExactCounts:
    """A table that is counted already."""

    counts: Counts

    @property
    def schema(self) -> Schema:
        return self.counts.schema

    def count(self, names: Sequence[str]) -> Counts:
        return self.counts.project(list(names))


@pytest.mark.parametrize(
    "value",
    [
        9,
        -1,
        True,
        [[0, 1], [2]],
        [[0, 1], [1, 2, 3, 4]],
        [[0, 1, 2, 3, 4], []],
        [[0, 1, 2, 3, 4.0]],
        {"groups": [[0, 1], [2, 3, 4]], "names": ["low", "*"]},
        {"groups": [[0, 1], [2, 3, 4]], "names": ["low", "none"]},
        {"groups": [[0, 1], [2, 3, 4]], "names": ["low", "low"]},
        {"groups": [[0, 1], [2, 3, 4]], "names": ["low"]},
        {"groups": [[0, 1], [2, 3, 4]], "names": ["low", "x\ny"]},
        {"names": ["low", "high"]},
        "school",
    ],
)
def test_a_stored_grouping_that_no_request_can_have_is_refused(value: object) -> None:
    assert SCHOOL.size == 5
    with pytest.raises(ParameterError, match="stored"):
        Grouping.from_value(SCHOOL, value)


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
