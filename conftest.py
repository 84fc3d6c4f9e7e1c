"""What holds for every test and every doctest of the repository: a limit in CPU time, and a look at what tests cost."""

from __future__ import annotations

import os

import pytest

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as the command line does: NumPy is not loaded yet

pytest_plugins = ["tests.limits", "pytester"]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One process more than cores: many tests wait for a browser, a server or a process that they started."""
    return (os.cpu_count() or 1) + 1
