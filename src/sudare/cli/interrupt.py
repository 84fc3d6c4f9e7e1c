"""Holding Ctrl-C back where it would crash instead of stop: while native packages load."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType


@contextlib.contextmanager
def held_interrupts() -> Iterator[None]:
    """Let an interrupt wait until the block is done; a half-loaded native module aborts the process otherwise.

    >>> with held_interrupts():
    ...     import json
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    noted: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: noted.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if noted:
        raise KeyboardInterrupt


@contextlib.contextmanager
def noted_interrupts() -> Iterator[list[int]]:
    """Note every interrupt: native code that is struck by one may raise an error of its own instead.

    >>> with noted_interrupts() as noted:
    ...     noted
    []
    """
    noted: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield noted
        return

    def note(number: int, frame: FrameType | None) -> None:
        noted.append(number)
        signal.default_int_handler(number, frame)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield noted
    finally:
        signal.signal(signal.SIGINT, before)
