"""Work of an engine in a thread of its own, so that Ctrl-C stops it at once and progress can be shown."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

SECONDS_BETWEEN_LOOKS = 0.1
_SECONDS_TO_START = 1.0  # a thread that has not begun after them never will


def run_in_thread(
    work: Callable[[], T],
    *,
    stop: Callable[[], None],
    translate: Callable[[Exception], Exception],
    look: Callable[[], None] | None = None,
) -> T:
    """Do work in a thread and give its result; `look` is called now and then while it runs.

    Whatever interrupts the caller stops the work: `stop` is called again and again until it has ended, because a query
    that has not begun yet does not hear the first time.

    Error: what `translate` makes of an error of the work; the error itself, which may quote rows, is not kept.
    """
    done: list[T] = []
    failed: list[Exception] = []
    finished = threading.Event()  # not Thread.join: an interrupt inside it can call a running thread finished
    worker = threading.Thread(target=_do_work, args=(work, done, failed, finished), daemon=True)
    try:
        worker.start()
        while not finished.wait(SECONDS_BETWEEN_LOOKS):
            if look is not None:
                look()
    except BaseException:
        _stop(worker, finished, stop)
        raise
    if failed:
        raise translate(failed.pop())
    return done.pop()


def _do_work(work: Callable[[], T], done: list[T], failed: list[Exception], finished: threading.Event) -> None:
    try:
        done.append(work())
    except Exception as error:
        failed.append(error.with_traceback(None))
    finally:
        finished.set()


def _stop(worker: threading.Thread, finished: threading.Event, stop: Callable[[], None]) -> None:
    deadline = time.monotonic() + _SECONDS_TO_START
    while not finished.is_set() and (worker.ident is not None or time.monotonic() < deadline):
        stop()
        finished.wait(SECONDS_BETWEEN_LOOKS / 2)
