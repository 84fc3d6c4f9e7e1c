"""Ctrl-C ends a command with one line and exit code 1, wherever it strikes.

A request to end (SIGTERM, as `timeout`, systemd and Kubernetes send it) is taken as one, so that no file with rows is
left; then the process ends by that signal, as whoever sent it expects.

Python calls a handler between two steps of the main thread, and KeyboardInterrupt is raised right there. That fails

- while a module loads: a half-loaded native module aborts the process, or raises an error of its own;
- inside code that Python runs from a text: the process ends by the signal later, although the exception was caught;
- in a finalizer (`__del__`, a callback of a weak reference): Python prints a traceback and drops the exception;
- while the interpreter shuts down.

So the handler looks at the place first, and where it is not safe it looks again a moment later. KeyboardInterrupt is
raised once: the key that caused it, held down, does not interrupt the cleaning up. Pressed again later, it ends the
process at once.

No line of ours can catch an interrupt before `main` begins, that is while Python itself starts. What must be loaded
before it (`sudare/__init__.py`, `sudare/cli/__init__.py`, this file) therefore imports nothing that Python has not
loaded already.
"""

from __future__ import annotations

import _thread
import os
import sys
import time

TYPE_CHECKING = False  # typing.TYPE_CHECKING would load typing
if TYPE_CHECKING:
    import signal
    from types import CodeType, FrameType, TracebackType
    from typing import Self
else:
    import _signal as signal  # what `signal` is made of; `signal` would load enum first

LOOK_AGAIN_SECONDS = 0.005  # between two looks at an unsafe place; too short for a person to notice
REPEAT_SECONDS = 1.0  # a key that is held down repeats; a press later than this is a second decision


class Interrupts:
    """While open, the first Ctrl-C is raised as KeyboardInterrupt in what the caller runs, once that is safe.

    >>> with Interrupts() as interrupts:
    ...     interrupts.noted
    False
    """

    def __init__(self, *, is_last: bool = False) -> None:
        self.noted = False
        self.is_told_to_end = False  # by SIGTERM
        self.last_line = "sudare: interrupted"  # shown when pressed again
        self._is_last = is_last  # the process ends afterwards: nothing is left that an interrupt could stop
        self._is_open = self._is_raised = False
        self._is_waiting = self._is_second_look = False
        self._noted_at = 0.0
        self._caller: CodeType | None = None
        self._main_thread = _thread.get_ident()
        self._closing = _thread.allocate_lock()

    def __enter__(self) -> Self:
        self._caller = sys._getframe(1).f_code
        self._hook_before, self._is_open = sys.unraisablehook, True
        try:
            self._handler_before = signal.signal(signal.SIGINT, self._handle)
        except ValueError:  # not the main thread, the only one that gets signals
            self._is_open = False
            return self
        sys.unraisablehook = self._handle_unraisable
        self._ends_by_default = signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
        if self._ends_by_default:  # else somebody handles it, or a parent asked to ignore it
            signal.signal(signal.SIGTERM, self._handle_end)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._is_open:
            with self._closing:
                self._is_open = False
                signal.signal(signal.SIGINT, signal.SIG_IGN if self._is_last else self._handler_before)
                if self._ends_by_default:
                    signal.signal(signal.SIGTERM, signal.SIG_DFL)
            sys.unraisablehook = self._hook_before

    def _handle_end(self, number: int, frame: FrameType | None) -> None:
        self.is_told_to_end = True
        self._handle(number, frame)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._is_second_look:
            self._is_second_look = self._is_waiting = False
        elif not self.noted:
            self.noted, self._noted_at = True, time.monotonic()
        elif time.monotonic() - self._noted_at >= REPEAT_SECONDS:
            os.write(2, f"{self.last_line}\n".encode(errors="replace"))
            os._exit(1)
        if self._is_raised or not self._is_open:
            return
        if not self._is_safe(frame):
            self._look_again_soon()
            return
        self._is_raised = True
        raise KeyboardInterrupt

    def _is_safe(self, frame: FrameType | None) -> bool:
        while frame is not None and frame.f_code is not self._caller:
            file = frame.f_code.co_filename
            if file in ("<string>", __file__) or file.startswith("<frozen importlib"):
                return False
            if frame.f_code.co_name == "__del__":
                return False
            frame = frame.f_back
        return True

    def _look_again_soon(self) -> None:
        if not self._is_waiting:
            self._is_waiting = True
            _thread.start_new_thread(self._look_again, ())

    def _look_again(self) -> None:
        time.sleep(LOOK_AGAIN_SECONDS)
        with self._closing:
            if self._is_open:
                self._is_second_look = True
                if hasattr(signal, "pthread_kill"):  # a signal of the system also ends the wait for a key or a lock
                    signal.pthread_kill(self._main_thread, signal.SIGINT)
                else:
                    _thread.interrupt_main()

    def _handle_unraisable(self, dropped: sys.UnraisableHookArgs) -> None:
        """Python drops an exception here; what it drops of ours is raised again soon, the rest is told as before."""
        if self._is_raised and dropped.exc_type is KeyboardInterrupt:
            self._is_raised = False
            self._look_again_soon()
        else:
            self._hook_before(dropped)
