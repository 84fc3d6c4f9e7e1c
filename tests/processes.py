"""Processes that tests start: limited in CPU time, never by the clock."""

from __future__ import annotations

import resource
import subprocess
from collections.abc import Sequence
from typing import Any

CPU_SECONDS = 120  # far beyond what any of them needs


def start(command: Sequence[str], **options: Any) -> subprocess.Popen[str]:
    """Start a process whose texts are read and written through pipes; one that runs wild is ended by the system."""
    given = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options}
    process = subprocess.Popen(command, **given)
    if hasattr(resource, "prlimit"):  # Linux
        resource.prlimit(process.pid, resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    return process


def run(command: Sequence[str], *, input: str | None = None, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a process to its end and give what it printed."""
    process = start(command, **options)
    out, err = process.communicate(input)
    return subprocess.CompletedProcess(command, process.returncode, out, err)
