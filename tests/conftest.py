"""What every test may lean on: repeatable properties, and the public data beside the repository."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from hypothesis import Phase, settings

from tests.servers import postgres_server  # noqa: F401  (a fixture for all tests)

# The same examples on every machine and every run: a red test is a change of the code, not of the dice.
settings.register_profile("sudare", derandomize=True, deadline=None, max_examples=50, print_blob=True)
# Where a test is expected to fail, nobody reads the smallest example: tests/mutants.
settings.register_profile(
    "mutants", settings.get_profile("sudare"), phases=[Phase.explicit, Phase.generate], print_blob=False
)
settings.load_profile(os.environ.get("SUDARE_HYPOTHESIS", "sudare"))

# A shell that puts `make test` in the background has Ctrl-C ignored, and tests press it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests start hundreds of processes: where an environment forbids to keep byte code, each would compile everything anew.
# Planted faults (tests/mutants) change files within a second, which byte code does not notice.
if os.environ.get("SUDARE_HYPOTHESIS") != "mutants":
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of public data sets: SUDARE_SHARED, else ../shared beside the checkout; skips without it."""
    folder = Path(os.environ.get("SUDARE_SHARED", ROOT.parent / "shared"))
    if not (folder / "data").is_dir():
        pytest.skip("no public data sets beside the checkout; set SUDARE_SHARED to the folder that holds data/")
    return folder
