"""Requests from draft to delivery: states, the chain, verdicts for outsiders, and what they may tell."""

from __future__ import annotations

import itertools
import json
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sudare as sd
from sudare.errors import Infeasible, ParameterError, RequestError
from sudare.methods.kanon.approve import approve
from sudare.methods.kanon.grouping_words import describe_option
from sudare.methods.kanon.joint import read_classes
from sudare.methods.kanon.nearby import is_finer_option
from sudare.methods.kanon.predict import AskedPromise, SchemaHistory
from sudare.methods.kanon.request import Grouping, Request
from sudare.requests import RequestStore, TablePolicy, VerdictFile, answer_request
from sudare.requests.desk import (
    answer_stored,
    ask_request,
    deliver_request,
    draft_request,
    grant_request,
    measure_options,
    measure_table,
    propose_next,
    read_verdicts,
    refuse_request,
    withdraw_request,
)
from sudare.requests.measure import CountedTable, list_public_options, make_verdicts
from sudare.requests.store import describe_state
from sudare.requests.verdicts import MeasuredBit
from sudare.text import use_language

SCHEMA_TEXT = """
[sudare]
schema = 1
name = "members"

[[attribute]]
name = "age"
kind = "number"
role = "quasi"
bins = { start = 0, stop = 100, width = 1 }
hierarchy = { intervals = [5, 10, 20] }

[[attribute]]
name = "sex"
kind = "category"
role = "quasi"
values = ["F", "M"]
hierarchy = { masking = "right" }

[[attribute]]
name = "region"
kind = "category"
role = "quasi"
values = ["n1", "n2", "s1", "s2"]
hierarchy = { masking = "right" }
"""


def make_rows(seed: int, rows: int = 1200) -> dict[str, list[object]]:
    rng = np.random.default_rng(seed)
    return {
        "age": np.clip(rng.normal(45, 15, rows).astype(int), 0, 99).tolist(),
        "sex": rng.choice(["F", "M"], rows).tolist(),
        "region": rng.choice(["n1", "n2", "s1", "s2"], rows, p=[0.5, 0.3, 0.15, 0.05]).tolist(),
    }


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "members.toml").write_text(SCHEMA_TEXT, encoding="utf-8")
    rows = make_rows(7)
    lines = [",".join(rows), *(",".join(map(str, row)) for row in zip(*rows.values(), strict=True))]
    (tmp_path / "members.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tmp_path


@pytest.fixture
def store(place: Path) -> RequestStore:
    schema = sd.Schema.read(place / "members.toml")
    return RequestStore.create(place / "requests.db", schema, TablePolicy(k=5))


def request_of(store: RequestStore, **groupings: object) -> Request:
    return Request.from_dict({"request": {"name": "test"}, "option": [groupings]}, store.schema)


def open_table(store: RequestStore) -> sd.sources.table.TableSource:
    return sd.open(store.path.parent / "members.csv", store.schema)


# --- states and the store ---------------------------------------------------------------------------------------------


def test_a_request_goes_from_draft_to_delivery_and_every_step_is_kept(store: RequestStore, place: Path) -> None:
    history = place / "members.history"
    with open_table(store) as source:
        measure_table(store, source, history=history)
        stored, told = draft_request(store, request_of(store, sex=0, region=0), user="ito", purpose="a study")
        ask_request(store, stored.id, user="ito")
        answer_stored(store, stored.id, steward="mori", history=history)
        granted = grant_request(store, stored.id, source, steward="mori", history=history)
    delivered = deliver_request(
        store,
        stored.id,
        place / "members.csv",
        out=place / "out",
        steward="mori",
        schema_file=place / "members.toml",
        history=history,
    )

    assert [event.state for event in delivered.stored.events] == ["draft", "asked", "answered", "granted", "delivered"]
    assert told.options[0].verdict in ("holds", "fails", "likely", "unlikely", "unknown")
    assert granted.option == 0
    assert len(delivered.stored.events[-1].facts["certificate_sha256"]) == 64
    assert sd.Release.load(place / "out").certificate.guarantee["k"] == 5


@pytest.mark.parametrize(
    ("path", "state", "role"),
    [
        ((), "granted", "steward"),
        (("asked",), "delivered", "steward"),
        (("asked", "refused"), "granted", "steward"),
        (("withdrawn",), "asked", "user"),
        (("asked",), "asked", "user"),
    ],
)
def test_a_state_that_cannot_follow_is_refused(
    store: RequestStore, path: tuple[str, ...], state: str, role: str
) -> None:
    id = store.draft(request_of(store, sex=0), user="ito").id
    for step in path:
        by_user = step in ("asked", "withdrawn")
        actor, step_role = ("ito", "user") if by_user else ("mori", "steward")
        store.advance(id, step, actor=actor, role=step_role)  # type: ignore[arg-type]

    with pytest.raises(RequestError, match=r"cannot become .*`sudare request (ask|answer|grant|deliver|draft)`"):
        store.advance(id, state, actor="ito" if role == "user" else "mori", role=role)  # type: ignore[arg-type]


def test_a_request_that_was_turned_down_has_a_word_of_its_own() -> None:
    with use_language("ja"):  # it was that of a missing value: 受け付けない
        assert str(describe_state("refused")) == "却下"


def test_an_answer_that_is_not_known_tells_the_steward_what_to_do(store: RequestStore) -> None:
    with open_table(store) as source:
        measure_table(store, source)
    stored, told = draft_request(store, request_of(store, sex=0, region=0), user="ito", purpose="a study")
    ask_request(store, stored.id, user="ito")
    unknown = replace(told, options=tuple(replace(option, verdict="unknown") for option in told.options))
    answered = answer_stored(store, stored.id, steward="mori")
    hint = "`sudare request measure` decides it"

    assert any(hint in str(line) for line in replace(answered, outside=unknown).lines)
    assert told.verdict == "unknown" or not any(hint in str(line) for line in answered.lines)


def test_a_user_moves_only_requests_of_their_own(store: RequestStore) -> None:
    id = store.draft(request_of(store, sex=0), user="ito").id

    with pytest.raises(RequestError, match="by ueda"):
        ask_request(store, id, user="ueda")
    with pytest.raises(RequestError, match="no request"):
        draft_request(store, request_of(store, sex=0), user="ueda", replaces=id)


def test_an_answered_request_may_be_changed_and_loses_its_answer(store: RequestStore) -> None:
    id = store.draft(request_of(store, sex=0), user="ito").id
    ask_request(store, id, user="ito")
    answer_stored(store, id, steward="mori")
    before = store.find(id).answer
    after, _ = draft_request(store, request_of(store, region=1), user="ito", replaces=id)

    assert before is not None
    assert after.state == "draft"
    assert after.answer is None
    assert set(after.request.options[0]) == {"region"}


def test_the_slower_of_two_stewards_is_told(store: RequestStore) -> None:
    id = store.draft(request_of(store, sex=0), user="ito").id
    seen = ask_request(store, id, user="ito").version
    refuse_request(store, id, steward="mori", reason="not for this purpose", version=seen)

    with pytest.raises(RequestError, match="changed meanwhile"):
        answer_stored(store, id, steward="sato", version=seen)


@pytest.mark.parametrize(
    "reason", ["only 3 people", "2 人しかいない", "k = 3 there", "このグループは４名です", "just 2"]
)
def test_a_reason_that_counts_people_is_refused(store: RequestStore, reason: str) -> None:
    id = store.draft(request_of(store, sex=0), user="ito").id
    ask_request(store, id, user="ito")

    with pytest.raises(ParameterError, match="count of people"):
        refuse_request(store, id, steward="mori", reason=reason)


def test_nothing_in_a_store_is_changed_or_removed(store: RequestStore) -> None:
    store.draft(request_of(store, sex=0), user="ito")

    with sqlite3.connect(store.path) as connection:
        for statement in ("UPDATE events SET actor = 'x'", "DELETE FROM events", "DELETE FROM genesis"):
            with pytest.raises(sqlite3.IntegrityError, match="ever changed"):
                connection.execute(statement)


def test_an_altered_store_is_found(store: RequestStore) -> None:
    store.draft(request_of(store, sex=0), user="ito")
    connection = sqlite3.connect(store.path)
    ((trigger,),) = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'events_update'")
    connection.executescript(f"DROP TRIGGER events_update; UPDATE events SET actor = 'x'; {trigger};")
    connection.close()

    with pytest.raises(RequestError, match="altered"):
        store.list_requests()


def test_two_processes_write_at_once_and_a_killed_one_leaves_whole_entries(store: RequestStore) -> None:
    """Two writers, one of them killed in the middle: all entries that were told as written are there, in a chain."""
    program = (
        "import sys; from pathlib import Path\n"
        "from sudare.requests import RequestStore\n"
        "from sudare.methods.kanon.request import Request\n"
        f"store = RequestStore.open({str(store.path)!r})\n"
        "wanted = Request.from_dict({'request': {'name': 'x'}, 'option': [{'sex': 0}]}, store.schema)\n"
        "for _ in range(int(sys.argv[1])): print(store.draft(wanted, user='ito').id, flush=True)\n"
    )
    killed = subprocess.Popen([sys.executable, "-c", program, "100000"], stdout=subprocess.PIPE, text=True)
    patient = subprocess.Popen([sys.executable, "-c", program, "12"], stdout=subprocess.PIPE, text=True)
    assert killed.stdout is not None
    told = [line.strip() for line in itertools.islice(killed.stdout, 8)]
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    others = patient.communicate()[0].split()
    known = {stored.id for stored in store.list_requests()}

    assert patient.returncode == 0
    assert len(others) == 12
    assert set(told) <= known
    assert set(others) <= known


# --- k belongs to the table -------------------------------------------------------------------------------------------


def test_a_request_that_names_another_k_is_refused(store: RequestStore) -> None:
    facts = {"request": {"name": "x", "k": 7}, "option": [{"sex": 0}]}

    with pytest.raises(RequestError, match="belongs to the table"):
        store.draft(Request.from_dict(facts, store.schema), user="ito")


def test_eight_questions_with_other_k_no_longer_give_the_exact_k_of_a_grouping(store: RequestStore) -> None:
    """The attack: bisect k of one grouping by naming k in the request. Every such request is now refused."""
    with open_table(store) as source:
        measure_table(store, source)
        true_k = (
            CountedTable(source, store.policy, ["age", "sex"]).measure(request_of(store, age=2, sex=0).options[0]).k
        )
    low, high, learned = 1, 256, 0
    for _ in range(8):
        middle = (low + high) // 2
        facts = {"request": {"name": "bisect", "k": middle}, "option": [{"age": 2, "sex": 0}]}
        try:
            _, told = draft_request(store, Request.from_dict(facts, store.schema), user="eve")
            learned += 1
            low, high = (middle, high) if told.options[0].verdict == "holds" else (low, middle)
        except (RequestError, ParameterError):
            continue

    assert true_k != low
    assert learned <= 1  # the table's own k, if the attacker happens to name it


def test_verdicts_of_equal_files_are_equal_to_the_byte_whatever_the_tables(store: RequestStore) -> None:
    """Two different tables with the same verdict file: no request can tell them apart."""
    schema, policy = store.schema, TablePolicy(k=5)
    files = []
    for seed in (7, 8, 9, 10, 11, 12, 13, 14):
        columns = np.column_stack(
            [[schema.attribute(name).encode(value) for value in values] for name, values in make_rows(seed).items()]
        )
        source = _Counted(schema, columns)
        files.append(make_verdicts(CountedTable(source, policy, schema.names))[0])
    wanted = [request_of(store, age=level, sex=0, region=1) for level in range(4)]
    answers = {
        file.to_json(): json.dumps([answer_request(file, request).to_value() for request in wanted]) for file in files
    }
    again = [VerdictFile.read(_written(store.path.parent, file), schema, policy) for file in files]

    assert [json.dumps([answer_request(file, request).to_value() for request in wanted]) for file in again] == [
        answers[file.to_json()] for file in files
    ]


class _Counted:
    """A table of codes as a source that only counts."""

    def __init__(self, schema: sd.Schema, columns: np.ndarray) -> None:
        self.schema, self._counts = schema, sd.Counts.from_columns(schema, columns)

    def count(self, by: Sequence[str] | None = None) -> sd.Counts:
        return self._counts if by is None else self._counts.project(list(by))


def _written(place: Path, file: VerdictFile) -> Path:
    path = place / "again.verdicts"
    file.write(path)
    return path


def test_what_is_measured_depends_on_public_facts_alone(store: RequestStore) -> None:
    schema, policy = store.schema, TablePolicy(k=5)
    options = []
    for seed in (1, 2):
        rows = make_rows(seed, 400)
        columns = np.column_stack(
            [[schema.attribute(name).encode(value) for value in values] for name, values in rows.items()]
        )
        file, _ = make_verdicts(CountedTable(_Counted(schema, columns), policy, schema.names))
        options.append([sorted((name, g.to_value()) for name, g in bit.option.items()) for bit in file.measured])

    assert options[0] == options[1]
    assert len(options[0]) == len(list_public_options(schema, schema.names)) > 10


@pytest.mark.parametrize("share", [Fraction(0), Fraction(1, 20)])
def test_certain_verdicts_are_what_publish_does(store: RequestStore, share: Fraction) -> None:
    schema, policy = store.schema, TablePolicy(k=5, max_suppressed=share)
    columns = np.column_stack(
        [[schema.attribute(name).encode(value) for value in values] for name, values in make_rows(21, 500).items()]
    )
    table = CountedTable(_Counted(schema, columns), policy, schema.names)
    file, _ = make_verdicts(table)
    rng = np.random.default_rng(5)
    tally = {"holds": 0, "fails": 0}
    for _ in range(120):
        age = schema.attribute("age")
        cuts = np.sort(rng.choice(np.arange(1, 100), int(rng.integers(1, 6)), replace=False))
        groups = tuple(tuple(map(int, group)) for group in np.split(np.arange(100), cuts))
        own, level = Grouping(age, None, groups), Grouping(age, int(rng.integers(0, 4)))
        option = {"age": own if rng.random() < 0.5 else level, "sex": Grouping(schema.attribute("sex"), 0)}
        if rng.random() < 0.5:
            option["region"] = Grouping(schema.attribute("region"), int(rng.integers(0, 2)))
        verdict, is_kept = file.judge(option), table.measure(option).is_kept
        if verdict in tally:
            tally[verdict] += 1
            assert (verdict == "holds") == is_kept

    assert sum(tally.values()) > 20


def test_the_bits_of_a_file_bound_how_many_different_files_there_are(store: RequestStore) -> None:
    """By enumeration on a small schema: no more monotone files than 2 ** bits."""
    schema = store.schema.select(["sex", "region"])
    policy, options = TablePolicy(k=5), list_public_options(store.schema.select(["sex", "region"]), ["sex", "region"])

    monotone = 0
    for bits in itertools.product((False, True), repeat=len(options)):
        kept = dict(enumerate(bits))
        monotone += all(
            not (kept[i] and not kept[j] and is_finer_option(options[i], options[j])) for i in kept for j in kept
        )
    file = VerdictFile(
        schema=schema, policy=policy, measured=tuple(MeasuredBit(option=o, is_kept=True) for o in options)
    )
    law = np.log2(64 * 32 + 1)

    assert np.log2(monotone) <= file.bits - law + 1e-9
    assert file.bits - law <= len(options)


# --- the answer -------------------------------------------------------------------------------------------------------


def test_the_answer_tells_words_in_both_languages_and_no_number_of_the_table(store: RequestStore) -> None:
    with open_table(store) as source:
        measure_table(store, source)
        k = (
            CountedTable(source, store.policy, ["age", "region"])
            .measure(request_of(store, age=3, region=0).options[0])
            .k
        )
    told = answer_request(read_verdicts(store), request_of(store, age=0, sex=0, region=0))
    written = json.dumps(told.to_value(), ensure_ascii=False) + told.to_markdown("en") + told.to_markdown("ja")
    near = told.options[0].alternatives

    assert told.verdict == "fails"
    assert near
    assert any("instead of single years" in str(change) for other in near for change in other.changes)
    assert "1歳刻み" in written
    assert "1200" not in written
    assert f"k = {k}" not in written
    assert "<html" in told.to_page("ja")
    assert 'lang="ja"' in told.to_page("ja")


def test_the_rule_of_a_table_is_told_in_the_language_of_the_reader_whatever_that_of_the_writer() -> None:
    rule = TablePolicy(k=5, criteria=("l=2,disease",)).describe()

    assert "distinct l = 2 of disease" in rule.render("en")
    assert "disease の異なる値が 2 種類以上" in rule.render("ja")


@pytest.mark.parametrize("value", ["x", 1.5, -1, True, 10**6])
def test_a_verdict_file_with_a_law_that_no_table_has_is_refused(
    store: RequestStore, tmp_path: Path, value: object
) -> None:
    place = tmp_path / "forged.verdicts"
    facts = {"format": 1, "schema": store.schema.fingerprint, "policy": store.policy.to_value(), "measured": []}
    place.write_text(json.dumps({**facts, "law": {"exponent": value, "eighths": 1}}), encoding="utf-8")

    with pytest.raises(RequestError, match="cannot be read"):
        VerdictFile.read(place, store.schema, store.policy)


def test_own_groups_are_merged_or_moved_to_the_bounds_of_a_level(store: RequestStore) -> None:
    with open_table(store) as source:
        measure_table(store, source)
    groups = [["[0,18)"], ["[18,90)"], ["[90,100]"]]
    told = answer_request(read_verdicts(store), request_of(store, age=groups, sex=0, region=0))
    offered = [alternative.option["age"] for alternative in told.options[0].alternatives if "age" in alternative.option]

    assert all(grouping.size < 100 for grouping in offered)
    assert all(alternative.changes for alternative in told.options[0].alternatives)


def test_no_alternative_is_coarser_than_another_and_each_can_be_had(store: RequestStore) -> None:
    with open_table(store) as source:
        file = measure_table(store, source)
        table = CountedTable(source, store.policy, store.schema.names)
        near = file.find_alternatives(request_of(store, age=0, sex=0, region=0).options[0])

    assert near
    assert all(table.measure(option).is_kept for option in near if file.judge(option) == "holds")
    assert not any(is_finer_option(a, b) for a, b in itertools.permutations(near, 2))


def test_only_the_ends_of_ages_or_one_region_are_merged_where_that_is_enough(store: RequestStore, place: Path) -> None:
    rows = make_rows(7)
    rows["age"] = [20 + index % 60 for index in range(1197)] + [85, 91, 99]
    rows["region"] = ["n1", "n2"] * 598 + ["s1"] * 2 + ["s2"] * 2
    lines = [",".join(rows), *(",".join(map(str, row)) for row in zip(*rows.values(), strict=True))]
    (place / "members.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    policy = TablePolicy(k=3)
    requests = [request_of(store, age=0), request_of(store, region=0)]
    with open_table(store) as source:
        table = CountedTable(source, policy, store.schema.names)
        file, _ = make_verdicts(table, requests)
    answers = [answer_request(file, request) for request in requests]
    offered = [answer.options[0].alternatives[0] for answer in answers]
    words = [near.changes[0].render("en") for near in offered]

    assert [answer.verdict for answer in answers] == ["fails", "fails"]
    assert [near.verdict for near in offered] == ["holds", "holds"]
    assert words == [
        "age in single years, with [80,100] as one group instead of single years",
        "region in the groups n1, n2, s* instead of all 4 values",
    ]
    assert "（ただし [80,100] は一つにまとめる）" in offered[0].changes[0].render("ja")
    assert all(table.measure(near.option).is_kept for near in offered)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("share", [Fraction(0), Fraction(1, 20)])
def test_what_is_offered_in_part_and_called_certain_is_what_publish_does(
    store: RequestStore, seed: int, share: Fraction
) -> None:
    rng, schema = np.random.default_rng(seed), store.schema
    policy = TablePolicy(k=int(rng.integers(2, 8)), max_suppressed=share)
    columns = np.column_stack([rng.integers(*sorted(rng.choice(101, 2, replace=False)), 600), rng.choice(2, 600)])
    columns = np.column_stack([columns, rng.choice(4, 600, p=rng.dirichlet(np.ones(4)))])
    source = _Counted(schema, columns)
    table = CountedTable(source, policy, schema.names)
    names = sorted(rng.choice(["age", "sex", "region"], 2, replace=False).tolist())
    request = request_of(store, **dict.fromkeys(names, 0))
    file, _ = make_verdicts(table, [request])
    pairs = table.count_pairs()
    near = [(option, file.judge(option)) for option in file.find_alternatives(request.options[0])]
    history = SchemaHistory(schema, [], pairs)
    promise = AskedPromise(k=policy.rows(schema), max_suppressed=share)
    near += [(each.option, each.verdict) for each in history.find_nearest(request.options[0], promise)]

    for option, verdict in near:
        stored = Request.from_value(Request(name="x", options=(option,)).to_value(), schema)
        approval = approve(
            source,
            stored,
            criteria=policy.all_criteria(schema),
            max_suppressed=share,
            find_sensitive=lambda quasi: (),
        )
        assert (approval.option is not None) == table.measure(option).is_kept
        assert verdict != "holds" or approval.option is not None


# --- measuring, granting, joint k, delivery ---------------------------------------------------------------------------


def test_a_proposed_measurement_decides_the_requests_it_names(store: RequestStore) -> None:
    for cut in (30, 40, 50):
        groups = [[f"[0,{cut})"], [f"[{cut},100]"]]
        id = draft_request(store, request_of(store, age=groups, sex=0), user="ito")[0].id
        ask_request(store, id, user="ito")
    proposals = propose_next(store)
    with open_table(store) as source:
        measure_options(store, source, [option for option, _ in proposals])

    assert len(proposals) == 3
    assert all(read_verdicts(store).judge(option) in ("holds", "fails") for option, _ in proposals)
    assert propose_next(store) == []


def test_a_grant_below_the_bound_of_joint_k_is_refused_with_what_would_do(place: Path) -> None:
    schema = sd.Schema.read(place / "members.toml")
    store, history = RequestStore.create(place / "joint.db", schema, TablePolicy(k=5, joint_k=5)), place / "h"
    ids = []
    for cut in (40, 41):
        groups = [[f"[0,{cut})"], [f"[{cut},100]"]]
        wanted = request_of(store, age=groups, sex=0, region=0 if cut == 41 else 1)
        ids.append(draft_request(store, wanted, user="ito")[0].id)
        ask_request(store, ids[-1], user="ito")
        answer_stored(store, ids[-1], steward="mori")
    with open_table(store) as source:
        grant_request(store, ids[0], source, steward="mori", history=history)
        with pytest.raises(Infeasible, match="would stay alike; this would do: "):
            grant_request(store, ids[1], source, steward="mori", history=history)

    assert store.find(ids[1]).state == "answered"


def test_under_a_bound_of_joint_k_nothing_is_delivered_that_no_history_would_know(place: Path) -> None:
    schema = sd.Schema.read(place / "members.toml")
    store = RequestStore.create(place / "known.db", schema, TablePolicy(k=5, joint_k=5))
    id = draft_request(store, request_of(store, sex=0), user="ito")[0].id
    ask_request(store, id, user="ito")
    answer_stored(store, id, steward="mori")
    with open_table(store) as source:
        grant_request(store, id, source, steward="mori", history=place / "known")
    with pytest.raises(ParameterError, match="name the history"):
        deliver_request(
            store, id, place / "members.csv", out=place / "o", steward="mori", schema_file=place / "members.toml"
        )

    assert store.find(id).state == "granted"
    assert not (place / "o").exists()


def test_a_grant_takes_the_next_option_where_the_first_breaks_joint_k(place: Path) -> None:
    schema = sd.Schema.read(place / "members.toml")
    store, history = RequestStore.create(place / "next.db", schema, TablePolicy(k=5, joint_k=5)), place / "h"
    first = request_of(store, age=[["[0,40)"], ["[40,100]"]], sex=0, region=1)
    near = request_of(store, age=[["[0,41)"], ["[41,100]"]], sex=0, region=0)
    both = Request(name="x", options=(*near.options, *first.options))
    ids = [draft_request(store, wanted, user="ito")[0].id for wanted in (first, both)]
    for id in ids:
        ask_request(store, id, user="ito")
        answer_stored(store, id, steward="mori")
    with open_table(store) as source:
        grant_request(store, ids[0], source, steward="mori", history=history)
        granted = grant_request(store, ids[1], source, steward="mori", history=history)

    assert granted.option == 1
    assert granted.joint is not None
    assert (granted.joint.k or 0) >= 5


def test_a_delivery_that_was_killed_after_the_release_is_finished_once(store: RequestStore, place: Path) -> None:
    history = place / "members.history"
    id = draft_request(store, request_of(store, sex=0), user="ito")[0].id
    ask_request(store, id, user="ito")
    answer_stored(store, id, steward="mori")
    with open_table(store) as source:
        grant_request(store, id, source, steward="mori", history=history)
    # as if killed: the release is there, the history and the store know nothing of it
    request = Request(name="", options=(store.find(id).request.options[0],))
    with open_table(store) as source:
        method = store.policy.method
        made = method.perform(source, method.plan(store.schema, request=request), ledger=None)
        made.release.save(place / "out")
    arguments: dict[str, Any] = {
        "out": place / "out",
        "steward": "mori",
        "schema_file": place / "members.toml",
        "history": history,
    }
    delivered = deliver_request(store, id, place / "members.csv", **arguments)

    assert delivered.published is None
    assert delivered.stored.state == "delivered"
    assert len(read_classes(place / "members.history.classes")) == 1
    with pytest.raises(RequestError, match="cannot become"):
        deliver_request(store, id, place / "members.csv", **arguments)


def test_own_groups_may_come_from_a_hierarchy_file_beside_the_request(store: RequestStore, place: Path) -> None:
    (place / "sexes.csv").write_text("F;all\nM;all\n", encoding="utf-8")
    (place / "regions.csv").write_text("n1;a\nn2;b\ns1;a\ns2;b\n", encoding="utf-8")
    (place / "r.toml").write_text(
        '[request]\nname = "x"\n[[option]]\nregion = { hierarchy = "regions.csv", level = 1 }\n', encoding="utf-8"
    )
    (place / "bad.toml").write_text(
        '[request]\nname = "x"\n[[option]]\nregion = { hierarchy = "../regions.csv" }\n', encoding="utf-8"
    )
    option = Request.read(place / "r.toml", store.schema).options[0]

    assert option["region"].groups == ((0, 2), (1, 3))
    with pytest.raises(ParameterError, match="beside the request"):
        Request.read(place / "bad.toml", store.schema)


def test_a_delivered_request_is_withdrawn_by_the_steward_alone(store: RequestStore) -> None:
    id = store.draft(request_of(store, sex=0), user="ito").id
    withdraw_request(store, id, actor="ito", reason="no longer needed")

    assert store.find(id).events[-1].reason == "no longer needed"
    with pytest.raises(ParameterError, match="must be user or steward"):
        withdraw_request(store, id, actor="ito", role="admin")


# --- found by walking tables of others --------------------------------------------------------------------------------


def test_the_option_that_was_granted_is_the_one_that_is_named(store: RequestStore, place: Path) -> None:
    request = Request.from_dict(
        {"request": {"name": "two"}, "option": [{"age": 0, "sex": 0, "region": 0}, {"sex": 0}]}, store.schema
    )
    stored, _ = draft_request(store, request, user="ito")
    ask_request(store, stored.id, user="ito")
    answer_stored(store, stored.id, steward="mori")
    with open_table(store) as source:
        granted = grant_request(store, stored.id, source, steward="mori").stored
    delivered = deliver_request(
        store,
        stored.id,
        place / "members.csv",
        out=place / "out",
        steward="mori",
        schema_file=place / "members.toml",
    )
    assert delivered.published is not None
    lines = [str(line) for line in delivered.published.lines]

    assert granted.granted_option == 1
    assert str(granted.describe_event(granted.events[-1])) == "option 2"
    assert "option 2 of the request is approved and published" in lines


def test_a_criterion_that_no_table_of_the_schema_keeps_is_refused(place: Path) -> None:
    written = SCHEMA_TEXT.replace('name = "sex"\nkind = "category"\nrole = "quasi"', 'name = "sex"\nkind = "category"')
    person = '[unit]\nkind = "person"\ncolumn = "id"\nmax_rows = 2\n'
    (place / "rows.toml").write_text(written, encoding="utf-8")
    (place / "persons.toml").write_text(written.replace("[[attribute]]", person + "[[attribute]]", 1), encoding="utf-8")
    of_rows, of_persons = (sd.Schema.read(place / f"{name}.toml") for name in ("rows", "persons"))

    with pytest.raises(ParameterError, match=r"l \(3\) of sex must be at most 2"):
        RequestStore.create(place / "a.db", of_rows, TablePolicy(k=5, criteria=("l=3,sex",)))
    with pytest.raises(ParameterError, match=r"l \(2\) of sex needs 3 values, since a person may have 2 rows"):
        RequestStore.create(place / "b.db", of_persons, TablePolicy(k=5, criteria=("l=2,sex",)))
    RequestStore.create(place / "c.db", of_rows, TablePolicy(k=5, criteria=("l=2,sex",)))


def test_an_answer_that_cannot_be_written_leaves_no_draft_behind(place: Path, store: RequestStore) -> None:
    from click.testing import CliRunner

    from sudare.cli.request import draft

    (place / "wish.toml").write_text('[request]\nname = "a"\n[[option]]\nsex = 0\n', encoding="utf-8")
    (place / "there.md").write_text("x", encoding="utf-8")
    arguments = [str(store.path), str(place / "wish.toml"), "--user", "ito"]
    run = CliRunner().invoke(draft, [*arguments, "-o", str(place / "there.md")])

    assert run.exit_code != 0
    assert store.list_requests() == []


def test_own_groups_are_told_by_their_bounds_and_names_and_not_by_a_width(store: RequestStore, place: Path) -> None:
    ages = "".join(f"{age};{'young' if age < 50 else 'old'}\n" for age in range(100))
    (place / "ages.csv").write_text(ages, encoding="utf-8")
    lists = request_of(store, age=[["[0,50)"], ["[50,100]"]])
    (place / "wish.toml").write_text(
        '[request]\nname = "a"\n[[option]]\nage = { hierarchy = "ages.csv" }\n', encoding="utf-8"
    )
    named = Request.read(place / "wish.toml", store.schema)

    assert str(describe_option(lists.options[0])) == "age in the groups [0,50), [50,100]"
    assert str(describe_option(named.options[0])) == "age in the groups young, old"
