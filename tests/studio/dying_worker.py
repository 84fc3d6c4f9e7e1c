"""A worker of the studio that is killed at a step: `python -m tests.studio.dying_worker PROJECT JOB ADDRESS STEP`."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sudare import app, atomic
from sudare.privacy.spend import ReleaseAccount
from sudare.releases import Release
from sudare.studio.jobs import run_job

STEPS = ("plan", "count", "spend", "noise", "write", "rename", "end")  # the budget is spent from "noise" on


def die(*_: Any, **__: Any) -> Any:
    """As by kill -9, or a machine that loses its power."""
    os.kill(os.getpid(), signal.SIGKILL)


def die_after(work: Callable[..., Any]) -> Callable[..., Any]:
    """Do it, then die."""

    def both(*given: Any, **named: Any) -> Any:
        work(*given, **named)
        die()

    return both


def plant(step: str) -> None:
    """Let this process die at a step."""
    if step == "plan":
        app.read_facts = die
    elif step == "count":
        app.partial_open = die
    elif step == "spend":
        ReleaseAccount.spend = die  # type: ignore[method-assign]
    elif step == "noise":
        ReleaseAccount.spend = die_after(ReleaseAccount.spend)  # type: ignore[method-assign]
    elif step == "write":
        Release.save = die  # type: ignore[method-assign]
    elif step == "rename":
        atomic.os.rename = die
    else:
        Release.save = die_after(Release.save)  # type: ignore[method-assign]


if __name__ == "__main__":
    folder, key, address, step = sys.argv[1:]
    plant(step)
    run_job(Path(folder), key, address, folder, "en")
