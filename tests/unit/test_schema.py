"""The schema as a whole: sizes beyond any machine word, impossible combinations, selection, storage."""

from __future__ import annotations

import hashlib
import json
import pickle
import subprocess
import sys
from datetime import date
from fractions import Fraction

import numpy as np
import pytest

from sudare.errors import NotConfirmed, ParameterError, SchemaError
from sudare.schema import Attribute, DateBins, Impossible, MeshCells, NumberBins, Schema, TableHierarchy, Unit, Values
from sudare.schema.hierarchy_rules import intervals
from sudare.schema.impossible import make_box

AGES = NumberBins.of_width(0, 100, 5)
AGE = Attribute(name="age", domain=AGES, hierarchy=intervals(AGES, [10, 20]), missing=True)
MARITAL = Attribute(name="marital", domain=Values(("single", "married", "widowed")))
CHILDREN = make_box((AGE, MARITAL), {"age": ["[0,15)"], "marital": ["married", "widowed"]})
PEOPLE = Schema(name="people", unit=Unit(), attributes=(AGE, MARITAL), impossible=(CHILDREN,))


def wide(count: int) -> tuple[Attribute, ...]:
    return tuple(Attribute(name=f"a{index}", domain=NumberBins.of_width(0, 1000, 1)) for index in range(count))


def box(**values: set[int]) -> Impossible:
    return Impossible(tuple((name, frozenset(codes)) for name, codes in values.items()))


# --- names and sizes ----------------------------------------------------------------------------------------------


def test_names_and_sizes_follow_the_attributes() -> None:
    assert (PEOPLE.names, PEOPLE.sizes, PEOPLE.size) == (("age", "marital"), (21, 3), 63)


def test_a_schema_of_another_process_is_found_where_an_equal_one_is_kept() -> None:
    """Words have other hashes in other processes, so none may travel."""
    kept = {PEOPLE: "kept"}
    code = "import pickle, sys; one = pickle.load(sys.stdin.buffer); hash(one); pickle.dump(one, sys.stdout.buffer)"
    travelled = subprocess.run(
        [sys.executable, "-c", code], input=pickle.dumps(PEOPLE), stdout=subprocess.PIPE, check=True
    ).stdout

    assert kept[pickle.loads(travelled)] == "kept"


def test_sizes_are_exact_far_beyond_a_machine_word() -> None:
    schema = Schema(name="wide", attributes=wide(11))

    assert (schema.size, schema.possible_size, len(schema.radix.words)) == (10**33, 10**33, 2)


def test_an_unknown_attribute_is_refused_with_the_known_ones() -> None:
    with pytest.raises(SchemaError, match="there is no attribute sex; the schema has age, marital"):
        PEOPLE.attribute("sex")


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"attributes": (AGE, AGE)}, "age is declared twice"),
        ({"identifiers": ("age",)}, "age is declared twice"),
        ({"unit": Unit(kind="person", column="age", max_rows=2)}, "must not be published"),
        ({"origin": "guessed"}, "origin"),
        ({"impossible": (box(sex={0}),)}, "no attribute sex"),
        ({"impossible": (box(marital={3}),)}, "between 0 and 2"),
        ({"impossible": (box(marital=set()),)}, "between 0 and 2"),
    ],
)
def test_a_schema_that_contradicts_itself_is_refused(wrong: dict[str, object], reason: str) -> None:
    with pytest.raises(SchemaError, match=reason):
        Schema(**{"name": "people", "attributes": (AGE, MARITAL), **wrong})  # type: ignore[arg-type]


def test_the_column_of_persons_may_be_an_identifier() -> None:
    unit = Unit(kind="person", column="id", max_rows=5)
    schema = Schema(name="people", unit=unit, attributes=(AGE,), identifiers=("id",))

    assert schema.identifiers == ("id",)


# --- impossible combinations --------------------------------------------------------------------------------------


def test_an_impossible_combination_covers_its_box_and_nothing_else() -> None:
    cells = PEOPLE.radix.decode(np.arange(PEOPLE.size)[:, None])
    is_impossible = PEOPLE.is_impossible(cells)

    assert is_impossible.tolist() == [bool(age < 3 and marital > 0) for age, marital in cells]
    assert PEOPLE.possible_size == PEOPLE.size - 6


def test_possible_cells_are_counted_exactly_in_a_domain_of_ten_to_the_30() -> None:
    boxes = (box(a0={0, 1}, a1={5}), box(a1={5}, a2=set(range(10))), box(a0={1}, a9={999}))
    schema = Schema(name="wide", attributes=wide(10), impossible=boxes)
    one, two, three = 2 * 10**24, 10 * 10**24, 10**24
    both = {"12": 2 * 10 * 10**21, "13": 10**21, "23": 10 * 10**18}

    assert schema.possible_size == 10**30 - one - two - three + sum(both.values()) - 10 * 10**18


def test_forty_overlapping_boxes_are_counted_without_two_to_the_forty_steps() -> None:
    boxes = tuple(
        box(**{f"a{index % 10}": set(range(index, index + 50)), f"a{(index + 1) % 10}": {index}}) for index in range(40)
    )
    schema = Schema(name="wide", attributes=wide(10), impossible=boxes)

    assert 0 < schema.possible_size < 10**30


def test_combinations_that_leave_nothing_possible_are_refused() -> None:
    schema = Schema(name="people", attributes=(MARITAL,), impossible=(box(marital={0, 1}), box(marital={2})))

    with pytest.raises(SchemaError, match="leave nothing possible"):
        _ = schema.possible_size


def test_labels_of_boxes_may_be_bins_unions_of_bins_missing_and_coarser_cells() -> None:
    mesh = Attribute(name="mesh", domain=MeshCells(level=2, area=("5339", "5340")))
    made = make_box((AGE, mesh), {"age": ["[0,10)", "[95,100]", "(missing)"], "mesh": ["5340", "533900"]})

    assert dict(made.values) == {"age": {0, 1, 19, 20}, "mesh": {0, *range(64, 128)}}


@pytest.mark.parametrize(
    ("labels", "reason"),
    [
        ({"sex": ["F"]}, "no attribute sex; the schema has age, marital"),
        ({"age": ["[0,13)"]}, r"\[0,13\) is no value of age, nor made up of some"),
        ({"marital": ["divorced"]}, "divorced is no value of marital.*single, married, widowed"),
        ({"marital": []}, "at least one value of marital"),
        ({}, "at least one attribute"),
    ],
)
def test_labels_that_mean_nothing_are_refused(labels: dict[str, list[str]], reason: str) -> None:
    with pytest.raises(SchemaError, match=reason):
        make_box((AGE, MARITAL), labels)


# --- select and coarsen -------------------------------------------------------------------------------------------


def test_selection_keeps_the_order_asked_for_and_the_boxes_that_still_hold() -> None:
    turned = PEOPLE.select(["marital", "age"])

    assert (turned.names, turned.possible_size) == (("marital", "age"), PEOPLE.possible_size)
    assert PEOPLE.select(["age"]).impossible == ()
    assert PEOPLE.select([]).size == 1


def test_an_attribute_that_boxes_cover_wholly_may_be_dropped() -> None:
    halves = (box(marital={1}, age=set(range(10))), box(marital={1}, age=set(range(10, 21))))
    schema = Schema(name="people", attributes=(AGE, MARITAL), impossible=halves)

    assert schema.select(["marital"]).impossible == (box(marital={1}),)


def test_coarsening_keeps_the_whole_groups_that_a_box_covers() -> None:
    coarse = PEOPLE.coarsen({"age": 1})

    assert coarse.sizes == (11, 3)
    assert coarse.impossible == (box(age={0}, marital={1, 2}),)  # [0,10) whole, [10,20) only half
    assert PEOPLE.coarsen({"age": 2}).impossible == ()


def test_boxes_that_cover_a_group_together_are_joined_before_coarsening() -> None:
    halves = (box(age={0}, marital={1}), box(age={1}, marital={1}))
    schema = Schema(name="people", attributes=(AGE, MARITAL), impossible=halves)

    assert schema.coarsen({"age": 1}).impossible == (box(age={0}, marital={1}),)


def test_levels_of_unknown_attributes_and_unknown_levels_are_refused() -> None:
    with pytest.raises(SchemaError, match="no attribute sex"):
        PEOPLE.coarsen({"sex": 1})
    with pytest.raises(ParameterError, match="attribute marital must be between 0 and 0"):
        PEOPLE.coarsen({"marital": 1})


# --- confirmation and storage -------------------------------------------------------------------------------------


def test_only_an_inferred_schema_is_refused() -> None:
    for origin in ("declared", "confirmed"):
        Schema(name="people", attributes=(AGE,), origin=origin).require_confirmed()

    with pytest.raises(NotConfirmed, match='inferred = "confirmed"'):
        Schema(name="people", attributes=(AGE,), origin="inferred").require_confirmed()


DAYS = DateBins((date(2024, 1, 1), date(2024, 3, 5), date(2024, 3, 5)))
EVERYTHING = Schema(
    name="すべて",
    unit=Unit(kind="person", column="id", max_rows=3),
    identifiers=("id",),
    attributes=(
        AGE,
        MARITAL,
        Attribute(name="size", domain=Values(("S", "L"), is_ordered=True), role="sensitive", outside="other"),
        Attribute(name="third", domain=NumberBins((Fraction(0), Fraction(1, 3), Fraction(5, 2))), outside="clamp"),
        Attribute(name="day", domain=DAYS, date_format="%Y.%m.%d"),
        Attribute(name="mesh", domain=MeshCells(level=4, area=("5339",)), missing=True, missing_marks=("-",)),
        Attribute(name="land", domain=MeshCells(level=1, cells=[5339, 5340])),  # type: ignore[arg-type]
        Attribute(
            name="letter",
            domain=Values(("a", "b")),
            role="quasi",
            hierarchy=TableHierarchy.from_paths([("a", "x", "*"), ("b", "y", "*")]),
        ),
    ),
    impossible=(CHILDREN, box(mesh=set(range(100, 25600)), size={0})),
    origin="confirmed",
)


def test_a_stored_schema_comes_back_exactly() -> None:
    stored = json.loads(json.dumps(EVERYTHING.to_dict(), ensure_ascii=False))

    assert Schema.from_dict(stored) == EVERYTHING
    assert Schema.from_dict(stored).fingerprint == EVERYTHING.fingerprint


def test_the_fingerprint_is_the_same_in_another_process_and_another_run() -> None:
    text = (
        "from sudare.schema import *\n"
        "sexes = Values(('F', 'M'))\n"
        "sex = Attribute(name='sex', domain=sexes, missing=True)\n"
        "no = Impossible((('sex', frozenset({0, 1})),))\n"
        "print(Schema(name='人', attributes=(sex,), impossible=(no,)).fingerprint)"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", text], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": seed}
        ).stdout.strip()
        for seed in ("1", "2")
    }

    canonical = (
        '{"attributes":[{"domain":{"kind":"category","values":["F","M"]},"missing":true,"name":"sex",'
        '"outside":"refuse","role":"plain"}],"identifiers":[],"impossible":[{"sex":[[0,1]]}],"name":"人",'
        '"origin":"declared","schema":1,"unit":{"kind":"row"}}'
    )

    assert seen == {hashlib.sha256(canonical.encode()).hexdigest()}


def test_whatever_changes_the_schema_changes_the_fingerprint() -> None:
    changed = [
        PEOPLE,
        PEOPLE.select(["age"]),
        PEOPLE.coarsen({"age": 1}),
        Schema(name="people", attributes=(AGE, MARITAL)),
        Schema(name="people", attributes=(AGE, MARITAL), impossible=(CHILDREN,), origin="inferred"),
        Schema(name="people2", attributes=(AGE, MARITAL), impossible=(CHILDREN,)),
    ]

    assert len({schema.fingerprint for schema in changed}) == len(changed)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"schema": 2}, "schema version"),
        ({"schema": None}, "schema version"),
        ({"colour": "red"}, "unknown key"),
        ({"attributes": [{"name": "x"}]}, "damaged"),
        ({"attributes": "x"}, "damaged"),
        ({"unit": {"kind": "house"}}, "damaged"),
        ({"impossible": [{"age": [[0]]}]}, "damaged"),
        (
            {
                "attributes": [
                    PEOPLE.to_dict()["attributes"][0] | {"hierarchy": {"parents": [[2**70]], "names": [["*"]]}}
                ]
            },
            "damaged",
        ),
        ({"attributes": [{**PEOPLE.to_dict()["attributes"][1], "domain": {"kind": "h3"}}]}, "kind"),
    ],
)
def test_a_stored_schema_that_is_not_understood_is_refused(change: dict[str, object], reason: str) -> None:
    with pytest.raises(SchemaError, match=reason):
        Schema.from_dict(PEOPLE.to_dict() | change)


def test_a_stored_schema_that_is_no_table_is_refused() -> None:
    with pytest.raises(SchemaError, match="schema version"):
        Schema.from_dict([])  # type: ignore[arg-type]
