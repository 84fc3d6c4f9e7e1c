"""Tailor-made requests: what is certain, what is likely, what is nearest; and a history that stays whole."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sudare.counts import Counts
from sudare.errors import ParameterError, SourceError
from sudare.methods.kanon.history import Measurement, add_to_history, measure_nodes, read_history, spread_nodes
from sudare.methods.kanon.lattice import Lattice
from sudare.methods.kanon.predict import SchemaHistory, predict
from sudare.methods.kanon.request import Grouping, Request, read_grouping
from sudare.methods.kanon.tuples import Tuples
from sudare.schema import Attribute, Schema, Values
from sudare.schema.hierarchy_rules import ordered_groups

DOMAIN = Values(tuple(f"v{number}" for number in range(16)), is_ordered=True)
TREE = ordered_groups(DOMAIN, [2, 4, 8])
SCHEMA = Schema(
    name="t",
    attributes=tuple(Attribute(name=name, domain=DOMAIN, role="quasi", hierarchy=TREE) for name in "abc"),
)
LATTICE = Lattice(SCHEMA.attributes)


def table(seed: int, rows: int = 4000) -> Tuples:
    codes = np.clip(np.random.default_rng(seed).normal(8, 3, size=(rows, 3)), 0, 15).astype(np.int64)
    return Tuples.of(Counts.from_columns(SCHEMA, codes), SCHEMA.names)


def option_at(node: tuple[int, ...]) -> dict[str, Grouping]:
    return {name: Grouping(SCHEMA.attribute(name), level) for name, level in zip("abc", node, strict=True)}


def point(node: tuple[int, ...], k: int, rows: int = 100) -> Measurement:
    levels = dict(zip("abc", node, strict=True))
    return Measurement(schema=SCHEMA.fingerprint, groupings=levels, cells=LATTICE.cells(node), k=k, rows=rows)


def test_a_finer_grouping_that_holds_makes_every_coarser_one_certain() -> None:
    history = SchemaHistory(SCHEMA, [point((1, 1, 2), 7), point((3, 2, 2), 9)])

    assert history.answer(option_at((1, 1, 2)), 7).verdict == "holds"
    assert history.answer(option_at((2, 2, 2)), 7).verdict == "holds"
    assert history.answer({"a": Grouping(SCHEMA.attribute("a"), 1)}, 7).verdict == "holds"
    assert history.answer(option_at((0, 1, 2)), 7).verdict == "unknown"
    assert history.answer(option_at((0, 0, 0)), 10).verdict == "fails"
    assert history.answer(option_at((4, 4, 4)), 101).verdict == "fails"


def test_another_number_of_rows_is_another_table_and_makes_nothing_certain() -> None:
    history = SchemaHistory(SCHEMA, [point((1, 1, 2), 7, rows=90), point((3, 3, 3), 20, rows=100)])

    assert history.answer(option_at((2, 2, 2)), 7).verdict == "unknown"


@given(seed=st.integers(0, 500), level=st.tuples(*[st.integers(0, 4)] * 3), k=st.sampled_from([2, 5, 20]))
@settings(max_examples=40, deadline=None)
def test_certain_answers_are_never_wrong(seed: int, level: tuple[int, int, int], k: int) -> None:
    tuples = table(seed, rows=500)
    history = SchemaHistory(SCHEMA, measure_nodes(SCHEMA.fingerprint, tuples, LATTICE))
    verdict = history.answer(option_at(level), k).verdict
    holds = tuples.classes(level).smallest >= k

    assert verdict != "holds" or holds
    assert verdict != "fails" or not holds


def test_the_law_recovers_a_power_law_and_its_interval_holds_it() -> None:
    nodes = [node for node in LATTICE.nodes() if LATTICE.cells(node) > 1]
    points = [point(node, 1 + round(50_000 * LATTICE.cells(node) ** -1.5), rows=50_001) for node in nodes[::7]]
    law = SchemaHistory(SCHEMA, points).law
    assert law is not None
    guesses = [(law.predict(option_at(node)), 1 + 50_000 * LATTICE.cells(node) ** -1.5) for node in nodes]

    assert np.mean([low <= true <= high for (_, low, high), true in guesses]) > 0.9
    assert np.median([abs(math.log(k / true)) for (k, _, _), true in guesses]) < 0.2


def test_most_intervals_on_a_made_up_table_hold_the_truth_and_narrow_ones_would_not() -> None:
    tuples = table(1)
    history = SchemaHistory(SCHEMA, measure_nodes(SCHEMA.fingerprint, tuples, LATTICE))
    nodes = [
        node for node in LATTICE.nodes() if history.bounds(option_at(node))[0] < history.bounds(option_at(node))[1]
    ]
    answers = [(history.answer(option_at(node), 5), tuples.classes(node).smallest) for node in nodes]
    inside = np.mean([(one.low or 0) <= true <= (one.high or 0) for one, true in answers])
    near = np.mean([abs((one.k or 0) - true) < 0.1 * true for one, true in answers])

    assert inside > 0.85
    assert near < 0.5  # the interval is wide because it has to be


def test_the_nearest_groupings_are_good_and_few_steps_away() -> None:
    tuples = table(2)
    history = SchemaHistory(SCHEMA, measure_nodes(SCHEMA.fingerprint, tuples, LATTICE))
    request = Request(name="r", k=20, options=(option_at((0, 0, 0)),))
    found = predict(request, SCHEMA, measure_nodes(SCHEMA.fingerprint, tuples, LATTICE))
    near = found.nearest[0]

    assert found.answers[0].verdict in ("unlikely", "fails")
    assert found.first_feasible is None
    assert near
    assert all(one.verdict in ("holds", "likely") for one in near)
    assert all(history.answer(one.option, 20).verdict == one.verdict for one in near)


def test_an_attribute_that_was_never_measured_widens_the_interval() -> None:
    known = [point(node, 1 + 9000 // LATTICE.cells(node), rows=9000) for node in [(4, 4, level) for level in range(4)]]
    known += [point((4, level, 4), 1 + 9000 // LATTICE.cells((4, level, 4)), rows=9000) for level in range(4)]
    thin = [Measurement(schema=one.schema, groupings={k: v for k, v in one.groupings.items() if k != "a"},
                  cells=one.cells, k=one.k, rows=one.rows) for one in known]  # fmt: skip
    law = SchemaHistory(SCHEMA, thin).law
    assert law is not None
    (_, low, high), (_, new_low, new_high) = law.predict(option_at((4, 2, 4))), law.predict(option_at((2, 4, 4)))

    assert new_high / new_low > high / low


def test_without_a_history_everything_is_unknown() -> None:
    answer = SchemaHistory(SCHEMA, []).answer(option_at((0, 0, 0)), 5)

    assert (answer.verdict, answer.k, answer.describe().render("en")) == ("unknown", None, "unknown")


def test_a_history_is_read_as_it_was_written_and_repeats_nothing(tmp_path: Path) -> None:
    file = tmp_path / "h.jsonl"
    add_to_history(file, [point((1, 1, 1), 3)])
    add_to_history(file, [point((1, 1, 1), 3), point((2, 1, 1), 4)])
    known = read_history(file)

    assert [(one.groupings["a"], one.k) for one in known] == [(1, 3), (2, 4)]
    assert [one.name for one in tmp_path.iterdir()] == ["h.jsonl"]


def test_a_damaged_history_is_refused_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "h.jsonl"
    add_to_history(file, [point((1, 1, 1), 3)])
    with file.open("a", encoding="utf-8") as stream:
        stream.write('{"format": 9}\n')
    with pytest.raises(SourceError, match=r"line 2 of .*h\.jsonl is not a line of a history"):
        read_history(file)
    with pytest.raises(SourceError, match="no directory"):
        add_to_history(tmp_path / "no" / "h.jsonl", [])

    assert read_history(tmp_path / "none.jsonl") == []


def test_the_nodes_that_are_measured_do_not_depend_on_the_table_and_are_few() -> None:
    nodes = spread_nodes(LATTICE)

    assert nodes == spread_nodes(LATTICE)
    assert len(nodes) == len(set(nodes)) < LATTICE.size
    assert LATTICE.heights in nodes


def request_file(place: Path, text: str) -> Path:
    (place / "r.toml").write_text(text, encoding="utf-8")
    return place / "r.toml"


def test_a_request_names_levels_by_number_by_label_or_by_groups(tmp_path: Path) -> None:
    half = [[f"v{number}" for number in range(8)], ["v8..v11", "v12..v15"]]
    text = f'[request]\nname = "mine"\nk = 5\n\n[[option]]\na = 2\nb = "v0..v3"\nc = {half!r}\n'.replace("'", '"')
    (option,) = Request.read(request_file(tmp_path, text), SCHEMA).options

    assert (option["a"].level, option["b"].level, option["c"].size) == (2, 2, 2)
    assert option["c"].is_finer(Grouping(SCHEMA.attribute("c"), 4))
    assert Grouping(SCHEMA.attribute("c"), 2).is_finer(option["c"])
    assert not option["c"].is_finer(Grouping(SCHEMA.attribute("c"), 2))
    assert option["c"].labels(np.array([0, 9])).tolist() == ["v0..v7", "v8..v15"]
    assert Grouping.from_value(SCHEMA.attribute("c"), option["c"].to_value()).size == 2


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("k = 5", r"line 1: k is written before the first table; move it under \[request\]"),
        ("[request]\nk = 1\n[[wish]]\na = 1", "line 2: .*at least 2"),
        ("[request]\nk = 5", r"\[\[option\]\] is missing"),
        ("[request]\nk = 5\n[[option]]\n", r"line 3: \[\[option\]\] #1: an option must name at least one attribute"),
        ("[request]\nk = 5\n[[wish]]\na = 9", r"line 4: \[\[wish\]\] #1: .*between 0 and 4"),
        ('[request]\nk = 5\n[[wish]]\na = "x"', "line 4: .*no level of a has the label x"),
        ('[request]\nk = 5\n[[option]]\na = "v0.v3"', r"line 4: .*no level of a has the label v0\.v3; did you mean v0"),
        ("[request]\nk = 5\n[[option]]\nd = 1", r"line 4: .*there is no attribute d; the schema has a, b, c"),
        ('[request]\nk = 5\n[[wish]]\na = [["v0"], ["v1"]]', "line 4: .*every value exactly once; in no group: v2"),
        ('[request]\n[[option]]\na = [["*"], ["v1"]]', "every value exactly once; in several groups: v1$"),
        ('[request]\nname = "a\\u202eb"\n[[option]]\na = 0', "name of a request must be one line"),
        ("[request]\n" + "[[option]]\na = 0\n" * 101, "has 101 options, but at most 100"),
        ("[request]\nk = 5\n[[wish]]\na = 1.5", "line 4: .*must be a level"),
        ("[request\n", r"line 1, column 1: a table begins with its name in brackets, .*\[request\]"),
    ],
)
def test_a_bad_request_is_refused_in_one_line(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(ParameterError, match=told):
        Request.read(request_file(tmp_path, text), SCHEMA)


def test_a_request_that_is_not_there_and_a_bool_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="cannot be read"):
        Request.read(tmp_path / "none.toml", SCHEMA)
    with pytest.raises(ParameterError, match="must be a level"):
        read_grouping(SCHEMA.attribute("a"), True)


@pytest.mark.parametrize(("label", "told"), [("missing", r"did you mean \(missing\)\?"), ("x", r"a, b, \(missing\)$")])
def test_who_asks_for_missing_values_is_told_how_they_are_written(label: str, told: str) -> None:
    attribute = Attribute(name="q", domain=Values(("a", "b")), role="quasi", missing=True)
    with pytest.raises(ParameterError, match=told):
        read_grouping(attribute, [["a", "b"], [label]])
