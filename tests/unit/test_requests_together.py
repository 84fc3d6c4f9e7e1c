"""Requests of one table side by side: two stewards at once, persons of many rows, and what was told before."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sudare as sd
from sudare import app
from sudare.errors import Infeasible, ParameterError, SudareError
from sudare.methods.kanon.history import History
from sudare.methods.kanon.joint import read_classes
from sudare.methods.kanon.kanonymity_parameters import read_request_criteria
from sudare.methods.kanon.nearby import write_key
from sudare.methods.kanon.predict import AskedPromise, SchemaHistory
from sudare.methods.kanon.request import Request
from sudare.requests import RequestStore, TablePolicy, VerdictFile, desk
from sudare.requests.desk import (
    answer_stored,
    ask_request,
    deliver_request,
    draft_request,
    grant_request,
    measure_table,
    read_verdicts,
    withdraw_request,
)
from sudare.requests.measure import CountedTable, list_public_options

SCHEMA_TEXT = """
[sudare]
schema = 1
name = "visits"

[unit]
kind = "person"
column = "who"
max_rows = 2

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
name = "ward"
kind = "category"
role = "sensitive"
values = ["a", "b", "c"]
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    rng = np.random.default_rng(3)
    lines = ["who,age,sex,ward"]
    for person in range(500):
        age, sex = int(np.clip(rng.normal(45, 18), 0, 99)), rng.choice(["F", "M"])
        lines += [f"p{person},{age},{sex},{rng.choice(['a', 'b', 'c'])}" for _ in range(rng.integers(1, 6))]
    (tmp_path / "visits.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (tmp_path / "visits.toml").write_text(SCHEMA_TEXT, encoding="utf-8")
    return tmp_path


def make_store(place: Path, *, k: int = 3, **rule: Any) -> RequestStore:
    return RequestStore.create(place / "r.db", sd.Schema.read(place / "visits.toml"), TablePolicy(k=k, **rule))


def send(store: RequestStore, **groupings: object) -> str:
    """Draft, ask and answer a request of one option."""
    wanted = Request.from_dict({"request": {"name": "test"}, "option": [groupings]}, store.schema)
    id = draft_request(store, wanted, user="ito")[0].id
    ask_request(store, id, user="ito")
    answer_stored(store, id, steward="mori")
    return id


def open_table(place: Path, *, same_rows: bool = True) -> sd.sources.table.TableSource:
    return sd.open(place / "visits.csv", sd.Schema.read(place / "visits.toml"), same_rows=same_rows)


def test_k_anonymity_keeps_the_same_rows_of_a_person_at_every_opening(place: Path) -> None:
    def count(*, same_rows: bool) -> list[int]:
        with open_table(place, same_rows=same_rows) as source:
            return source.count().dense().reshape(-1).tolist()

    assert count(same_rows=True) == count(same_rows=True)
    assert count(same_rows=False) != count(same_rows=False)


def test_no_budget_is_spent_on_rows_whose_choice_everybody_knows(place: Path) -> None:
    with open_table(place) as source, pytest.raises(ParameterError, match="same_rows"):
        sd.View(epsilon=1).publish(source)


def test_what_was_granted_is_delivered_and_joint_k_is_exact_though_persons_have_rows_left_out(place: Path) -> None:
    store, history = make_store(place, joint_k=3, criteria=("t=0.5,ward",)), place / "h"
    for number, cut in enumerate((40, 60)):
        id = send(store, age=[[f"[0,{cut})"], [f"[{cut},100]"]])
        with open_table(place) as source:
            granted = grant_request(store, id, source, steward="mori", history=history)
        deliver_request(
            store,
            id,
            place / "visits.csv",
            out=place / f"out{number}",
            steward="mori",
            schema_file=place / "visits.toml",
            history=history,
        )

    assert granted.joint is not None
    assert granted.joint.is_exact
    assert (granted.joint.k or 0) >= 6


@pytest.fixture
def slow_joint(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let whoever measures joint k wait for the other, as far as the other comes meanwhile."""
    measure, both = desk._measure_joint, threading.Barrier(2)

    def measure_slowly(*given: Any) -> Any:
        measured = measure(*given)
        try:
            both.wait(0.5)
        except threading.BrokenBarrierError:
            time.sleep(0)
        return measured

    monkeypatch.setattr(desk, "_measure_joint", measure_slowly)


@pytest.mark.usefixtures("slow_joint")
def test_two_stewards_who_grant_at_once_do_not_break_joint_k_together(place: Path) -> None:
    store, history = make_store(place, k=20, joint_k=20), place / "h"
    ids = [send(store, age=[[f"[0,{cut})"], [f"[{cut},100]"]], sex=0) for cut in (40, 41)]

    def grant(id: str) -> str:
        with open_table(place) as source:
            try:
                grant_request(RequestStore.open(store.path), id, source, steward="mori", history=history)
            except Infeasible:
                return "refused"
        return "granted"

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(grant, ids)) == ["granted", "refused"]


def test_two_releases_at_once_are_both_known_to_the_history(place: Path) -> None:
    def publish(number: int) -> None:
        app.publish(
            sd.KAnonymity(k=3, max_suppressed="0.05", quasi=("age", "sex")[number:]),
            place / "visits.csv",
            out=place / f"o{number}",
            schema_file=place / "visits.toml",
            extras={"history": place / "h"},
        )

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(publish, range(2)))

    assert len(read_classes(History(path=place / "h").classes_path)) == 2


def test_a_history_in_use_for_too_long_is_refused_in_one_line(place: Path) -> None:
    from sudare.atomic import held_file

    with (
        held_file(place / "h"),
        pytest.raises(SudareError, match="another run is using"),
        held_file(place / "h", seconds=0.1),
    ):
        pass

    assert not (place / "h.lock").exists()


def test_bits_that_were_told_stay_counted_when_their_request_is_closed(place: Path) -> None:
    store = make_store(place)
    id = send(store, age=[["[0,33)"], ["[33,100]"]])
    with open_table(place) as source:
        measure_table(store, source)
        before = read_verdicts(store)
        withdraw_request(store, id, actor="ito", role="user")
        measure_table(store, source)

    def list_bits(file: VerdictFile) -> set[tuple[str, bool]]:
        return {(write_key(bit.option), bit.is_kept) for bit in file.measured}

    assert list_bits(read_verdicts(store)) == list_bits(before)


def test_a_bit_that_somebody_edited_is_replaced_by_the_grant_that_measures_it(place: Path) -> None:
    store = make_store(place)
    id = send(store, age=0, sex=0)
    with open_table(place) as source:
        measure_table(store, source)
        true = read_verdicts(store)
        replace(true, measured=tuple(replace(bit, is_kept=True) for bit in true.measured)).write(store.verdicts_path)
        with pytest.raises(Infeasible):
            grant_request(store, id, source, steward="mori")

    assert read_verdicts(store).judge(store.find(id).request.options[0]) == "fails"


def test_a_delivered_request_that_was_withdrawn_still_counts_for_joint_k(place: Path) -> None:
    store, history = make_store(place, k=20, joint_k=20), place / "h"
    first, second = (send(store, age=[[f"[0,{cut})"], [f"[{cut},100]"]], sex=0) for cut in (40, 41))
    with open_table(place) as source:
        grant_request(store, first, source, steward="mori", history=history)
        files = {"out": place / "o", "schema_file": place / "visits.toml"}
        deliver_request(store, first, place / "visits.csv", steward="mori", history=history, **files)
        withdraw_request(store, first, actor="mori", role="steward", reason="an error")
        with pytest.raises(Infeasible, match="would stay alike"):
            grant_request(store, second, source, steward="mori", history=history)


def test_the_steward_is_told_that_k_is_in_rows_where_a_person_may_have_several(place: Path) -> None:
    store, history = make_store(place), place / "h"
    id = send(store, sex=0)
    with open_table(place) as source:
        measure_table(store, source, history=history)
    answer = answer_stored(store, id, steward="mori", history=history)

    assert "(in rows, of which a person may have 2)" in str(answer.prediction.answers[0].describe())


def test_what_persons_are_asked_for_is_predicted_from_rows_and_never_called_certain_by_them(place: Path) -> None:
    rule = TablePolicy(k=3, criteria=("t=0.1,ward",))
    with open_table(place) as source:
        table = CountedTable(source, rule, ["age", "sex"])
        known = SchemaHistory(source.schema, [], table.count_pairs())
        criteria = read_request_criteria(rule.criteria, source.schema.unit)
        promise = AskedPromise(k=rule.rows(source.schema), criteria=criteria)
        options = list_public_options(source.schema, ["age", "sex"])
        answers = [known.answer(option, promise).verdict for option in options]
        truth = [table.measure(option).is_kept for option in options]
        sizes = [table.measure(option).k >= promise.k for option in options]

    assert {"likely", "unlikely"} & set(answers)
    assert "holds" not in answers
    # what is certain to fail fails by k, which is of rows
    assert all(verdict != "fails" or not large for verdict, large in zip(answers, sizes, strict=True))
    assert all(kept for verdict, kept in zip(answers, truth, strict=True) if verdict == "likely")


def test_the_steward_is_told_what_figures_do_not_say_of_persons_and_of_rows_left_out(place: Path) -> None:
    def publish(**parameters: Any) -> str:
        published = app.publish(
            sd.KAnonymity(k=3, **parameters),
            place / "visits.csv",
            out=place / "-".join(parameters.values()),
            schema_file=place / "visits.toml",
        )
        return "\n".join(str(line) for line in published.summary.lines)

    assert "up to 2 times that of a row" in publish(recoding="full")
    assert "max_suppressed changed nothing" in publish(recoding="local", labels="ranges", max_suppressed="0.05")
    assert "max_suppressed changed nothing" not in publish(recoding="mondrian")
