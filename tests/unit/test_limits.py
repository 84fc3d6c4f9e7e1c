"""The limits of tests: work is limited by the CPU time it uses, waiting is not."""

from __future__ import annotations

import sys
import time

import pytest

from tests.limits import CpuLimitError, limited, spent
from tests.processes import run


def work_without_end() -> None:
    while True:
        pass


def test_work_beyond_its_cpu_time_is_stopped() -> None:
    before = time.process_time()
    with pytest.raises(CpuLimitError, match="more than 0 seconds"), limited(0.05):
        work_without_end()

    assert time.process_time() - before >= 0.02  # the timer of the limit counts in ticks of the system


def test_waiting_uses_no_cpu_time() -> None:
    with limited(0.1):
        time.sleep(0.5)


def test_the_limit_ends_with_its_block() -> None:
    with limited(0.01):
        pass
    until = time.process_time() + 0.05
    while time.process_time() < until:
        pass


def test_processes_are_counted_apart() -> None:
    own, processes = spent()
    run([sys.executable, "-c", "import time\nwhile time.process_time() < 0.3: pass"])
    own_after, processes_after = spent()

    assert processes_after - processes >= 0.3
    assert own_after - own < processes_after - processes


def test_a_test_may_be_allowed_another_limit(pytester: pytest.Pytester) -> None:
    pytester.makeconftest('pytest_plugins = ["tests.limits"]')
    pytester.makepyfile(
        """
        import subprocess, sys, time, pytest

        def spin():
            until = time.process_time() + 5
            while time.process_time() < until: pass

        @pytest.mark.cpu_seconds(0.1)
        def test_that_works_too_long():
            spin()

        @pytest.mark.cpu_seconds(0.1)
        def test_whose_process_works_too_long():
            text = "import time\\nwhile time.process_time() < 0.5: pass"
            subprocess.run([sys.executable, "-c", text])

        def test_that_is_quick():
            pass
        """
    )
    found = pytester.runpytest("-p", "no:cacheprovider", "--cpu", "1")

    found.assert_outcomes(passed=1, failed=2)
    found.stdout.fnmatch_lines(["*it used more than 0 seconds of CPU time", "*its processes used*", "CPU time:*"])
