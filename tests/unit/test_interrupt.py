"""Ctrl-C strikes where Python cannot take it: it is raised once, soon after, and nothing is printed or lost."""

from __future__ import annotations

import importlib
import signal
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sudare.cli import interrupt
from sudare.cli.interrupt import Interrupts
from tests.processes import run

pytestmark = pytest.mark.skipif(not hasattr(signal, "raise_signal"), reason="signals are raised here by the test")


def press() -> None:
    signal.raise_signal(signal.SIGINT)


def wait_for_the_interrupt() -> None:
    """Work until the interrupt comes; the limit in CPU time ends a test to which it never comes."""
    while True:
        pass


def interrupted(work: Callable[[], object]) -> Interrupts:
    """Do work that an interrupt ends."""
    interrupts = Interrupts()
    with pytest.raises(KeyboardInterrupt), interrupts:
        work()
    return interrupts


@pytest.fixture(autouse=True)
def _same_handler_afterwards() -> Iterator[None]:
    before = signal.getsignal(signal.SIGINT), sys.unraisablehook
    yield

    assert (signal.getsignal(signal.SIGINT), sys.unraisablehook) == before


def test_a_press_in_plain_code_is_raised_there_and_noted() -> None:
    reached = []

    def work() -> None:
        press()
        reached.append("behind")

    assert interrupted(work).noted
    assert reached == []


def test_a_key_held_down_does_not_interrupt_the_cleaning_up() -> None:
    cleaned = []

    def work() -> None:
        try:
            press()
        finally:
            press()
            press()
            cleaned.append("all")

    interrupted(work)

    assert cleaned == ["all"]


def test_a_press_while_a_module_loads_waits_until_it_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "struck_while_loading.py").write_text(
        "import signal\nsignal.raise_signal(signal.SIGINT)\nfor _ in range(10**6): pass\nis_whole = True\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    loaded = []

    def work() -> None:
        loaded.append(importlib.import_module("struck_while_loading"))
        wait_for_the_interrupt()

    interrupted(work)

    assert loaded[0].is_whole


def test_a_press_in_a_text_that_python_runs_waits_until_it_has_run() -> None:
    names: dict[str, object] = {"press": press}

    def work() -> None:
        exec("press()\nis_done = True", names)
        wait_for_the_interrupt()

    interrupted(work)

    assert names["is_done"]


class Finalized:
    """An object whose end is interrupted."""

    def __init__(self, done: list[str]) -> None:
        self.done = done

    def __del__(self) -> None:
        press()
        self.done.append("finalized")


def test_a_press_in_a_finalizer_waits_until_it_has_run(capfd: pytest.CaptureFixture[str]) -> None:
    done: list[str] = []

    def work() -> None:
        Finalized(done)
        wait_for_the_interrupt()

    interrupted(work)

    assert done == ["finalized"]
    assert capfd.readouterr().err == ""


def test_a_press_that_python_drops_in_a_callback_is_raised_again(capfd: pytest.CaptureFixture[str]) -> None:
    class Referred:
        pass

    def work() -> None:
        thing = Referred()
        kept.append(weakref.ref(thing, lambda _: press()))
        del thing
        wait_for_the_interrupt()

    kept: list[weakref.ref[Referred]] = []
    interrupted(work)

    assert kept[0]() is None
    assert capfd.readouterr().err == ""


def test_an_error_of_another_kind_that_python_drops_is_told_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda dropped: told.append(dropped.exc_type))

    class Faulty:
        def __del__(self) -> None:
            raise ValueError

    with Interrupts():
        Faulty()

    assert told == [ValueError]


def test_a_press_while_the_main_thread_waits_for_a_lock_ends_the_wait() -> None:
    """The second look is a signal of the system: it wakes what waits without end, such as a question at a terminal."""

    never = threading.Lock()
    never.acquire()

    def work() -> None:
        exec("press()", {"press": press})
        never.acquire()

    assert interrupted(work).noted


def test_another_thread_leaves_signals_alone() -> None:
    found: list[object] = []

    def work() -> None:
        with Interrupts() as interrupts:
            found.extend([signal.getsignal(signal.SIGINT), interrupts.noted])

    before = signal.getsignal(signal.SIGINT)
    worker = threading.Thread(target=work)
    worker.start()
    worker.join()

    assert found == [before, False]


PROCESS = """
import signal, sys
from sudare.cli import interrupt
from sudare.cli.interrupt import Interrupts

def press():
    signal.raise_signal(signal.SIGINT)

interrupt.REPEAT_SECONDS = {repeat}
try:
    with Interrupts(is_last=True) as interrupts:
        interrupts.last_line = "ended at once"
        {body}
except KeyboardInterrupt:
    press()
    print("interrupted")
sys.exit(1)
"""


def in_a_process(place: Path, body: str, *, repeat: float = 3600) -> tuple[int, str, str]:
    script = place / "script.py"
    script.write_text(PROCESS.format(body=body, repeat=repeat))
    done = run([sys.executable, str(script)])
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    "body",
    [
        "press()",
        "exec('press()')\n        while True: pass",  # Python would end by the signal after its last line
        "import atexit\n        atexit.register(press)\n        press()",
    ],
    ids=["plain code", "a text", "shutting down"],
)
def test_the_process_ends_with_its_line_and_exit_code_and_not_by_the_signal(tmp_path: Path, body: str) -> None:
    assert in_a_process(tmp_path, body) == (1, "interrupted\n", "")


def test_pressed_again_later_it_ends_at_once_with_a_line(tmp_path: Path) -> None:
    body = "\n        ".join(["try:", "    press()", "finally:", "    press()", "    print('cleaned up')"])

    assert in_a_process(tmp_path, body, repeat=0) == (1, "", "ended at once\n")


def test_what_is_loaded_before_the_handler_loads_no_other_module() -> None:
    """Until then an interrupt is Python's own, with its traceback: `import sudare.cli.interrupt` must be brief."""
    text = (
        "import runpy, sys; before = set(sys.modules); import sudare.cli.interrupt; print(*set(sys.modules) - before)"
    )
    loaded = set(run([sys.executable, "-c", text]).stdout.split())

    assert loaded <= {"sudare", "sudare.cli", "sudare.cli.interrupt", "__future__"}


def test_a_second_press_counts_a_second_after_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[str] = []
    clock = iter([100.0, 100.9, 101.1])
    monkeypatch.setattr(interrupt.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(interrupt.os, "_exit", lambda code: ended.append(f"exit {code}"))
    monkeypatch.setattr(interrupt.os, "write", lambda file, text: None)

    def work() -> None:
        try:
            press()
        finally:
            press()
            ended.append("held down")
            press()

    interrupted(work)

    assert ended == ["held down", "exit 1"]
