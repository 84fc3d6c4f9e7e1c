"""A slice of `make fuzz` at every door, and proof that the fuzzer finds what it looks for."""

from __future__ import annotations

import os
import random
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sudare.cli import main
from tests.fuzz.__main__ import INPUTS, LEAST_REFUSED
from tests.fuzz.doors import DOORS, PUBLISH, fill
from tests.fuzz.endless import TAKEN, TARGETS
from tests.fuzz.fuzz import fuzz_apart, fuzz_door, list_attempts
from tests.fuzz.ground import Ground, make_ground
from tests.fuzz.watch import Attempt, watch
from tests.processes import run as run_process

SLICE = 12  # inputs for each door; `make fuzz` has INPUTS


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    with pytest.MonkeyPatch.context() as patch, make_ground(tmp_path_factory.mktemp("fuzz")) as made:
        patch.setenv("SUDARE_LANG", "en")
        yield made


@pytest.mark.parametrize("door", [name for name in DOORS if name != "endless"])
def test_bad_inputs_are_refused_in_a_line_and_leave_nothing(ground: Ground, door: str) -> None:
    outcomes = fuzz_door(door, ground, inputs=SLICE, seed=2)

    assert [(outcome.attempt.words, outcome.faults) for outcome in outcomes if outcome.faults] == []
    assert sum(outcome.is_refused for outcome in outcomes) > SLICE // 3


def test_files_without_an_end_are_refused_unread(ground: Ground) -> None:
    outcomes = fuzz_apart("endless", ground, inputs=3 * SLICE, seed=2)  # apart: with little memory

    assert [(outcome.attempt.words, outcome.faults) for outcome in outcomes if outcome.faults] == []
    assert all(outcome.is_refused for outcome in outcomes)


def test_make_fuzz_has_enough_different_inputs(ground: Ground) -> None:
    doors = {door: {attempt.identity for attempt in list_attempts(door, ground, inputs=40, seed=1)} for door in DOORS}

    assert all(len(identities) == 40 for identities in doors.values())
    assert len(set().union(*doors.values())) == 40 * len(DOORS)
    assert len(DOORS) * INPUTS > LEAST_REFUSED * 5 / 4  # some inputs are good by chance
    assert len(TAKEN) * (len(TARGETS) + 2) > INPUTS


# --- faults that are planted in a door: the fuzzer must tell each of them ---------------------------------------------

REFUSED = Attempt(door="planted", words=("schema", "show", "nothing.toml"))


def say(words: str, code: int = 1) -> int:
    print(words, file=sys.stderr)
    return code


def raise_it(words: list[str]) -> int:
    raise RecursionError


def leave_a_file(words: list[str]) -> int:
    Path("out").mkdir()
    return say("sudare: refused")


def leave_a_part(words: list[str]) -> int:
    Path(".sudare-1.partial").write_text("half")
    return 0


def spend_first(words: list[str]) -> int:
    main(list(fill(PUBLISH, data="members.csv", schema="members.toml")))
    shutil.rmtree("out")
    return say("sudare: refused")


def read_the_pipe(words: list[str]) -> int:
    Path("bad.toml").read_bytes()
    return say("sudare: refused")


PLANTED: dict[str, tuple[Callable[[list[str]], int], str]] = {
    "a door that raises": (raise_it, "raised RecursionError"),
    "a fault of our own": (lambda _: say("sudare: this is a fault in Sudare itself (TypeError)"), "fault in Sudare"),
    "a traceback": (lambda _: say("Traceback (most recent call last)"), "Traceback"),
    "a value of the table": (lambda _: say("sudare: the value Qzx0001 is unknown"), "value of the table"),
    "a number of the table": (lambda _: say("sudare: 77310421 is too large"), "value of the table"),
    "no line at all": (lambda _: 1, "no refusal"),
    "a line without an end": (lambda _: say("sudare: " + "x" * 9000), "characters"),
    "a command to the terminal": (lambda _: say("sudare: \x1b[2J"), "control character"),
    "another exit code": (lambda _: say("sudare: no", 3), "ended with 3"),
    "a file that is left": (leave_a_file, "left out"),
    "a half-written file": (leave_a_part, "left .sudare-1.partial"),
    "a spend for what is refused": (spend_first, "changed members.ledger"),
}


@pytest.mark.parametrize("fault", PLANTED)
def test_a_planted_fault_is_found(ground: Ground, fault: str) -> None:
    run, told = PLANTED[fault]
    before = ground.state()
    outcome = watch(REFUSED, ground, run=run)

    assert any(told in found for found in outcome.faults)
    assert ground.state().keys() == before.keys()


def test_a_pipe_that_is_read_is_found(ground: Ground) -> None:
    outcome = watch(Attempt(door="planted", words=("x",), pipe="bad.toml"), ground, run=read_the_pipe)

    assert "read a pipe" in outcome.faults


def test_a_good_refusal_has_no_fault(ground: Ground) -> None:
    outcome = watch(REFUSED, ground)

    assert outcome.is_refused
    assert outcome.faults == ()


def test_an_input_that_ends_the_process_is_a_fault_like_another(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    def try_words(dice: random.Random, ground: Ground) -> Attempt:
        return Attempt(door="dying", words=(str(dice.random()),))

    monkeypatch.setitem(DOORS, "dying", try_words)  # type: ignore[misc]
    monkeypatch.setattr("tests.fuzz.fuzz._work", _die)
    outcomes = fuzz_apart("dying", ground, inputs=2)

    assert ["ended the process with 7" in outcome.faults for outcome in outcomes] == [True, True]


def _die(*given: object) -> None:
    os._exit(7)


# --- the same as a process --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("door", ["schema", "sql", "ledgers"])
def test_a_process_refuses_alike(ground: Ground, door: str) -> None:
    attempt = next(outcome.attempt for outcome in fuzz_door(door, ground, inputs=SLICE, seed=3) if outcome.is_refused)

    def run(words: list[str]) -> int:
        done = run_process([sys.executable, "-m", "sudare", *words])
        print(done.stdout)
        print(done.stderr.rstrip("\n"), file=sys.stderr)
        return done.returncode

    outcome = watch(attempt, ground, run=run)

    assert outcome.is_refused
    assert outcome.faults == ()
