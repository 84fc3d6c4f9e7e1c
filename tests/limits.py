"""Limits of tests in CPU time: the clock on the wall measures the neighbours, and a busy machine must fail no test.

A test may use `cpu_limit_seconds` (pyproject.toml) of this process, or what `@pytest.mark.cpu_seconds(n)` allows it,
and the processes it starts and waits for as much again. A test that waits for what never comes uses no CPU time:
pytest-timeout ends it after half an hour (`timeout`), which is far from what any test needs on any machine.

`--cpu N` lists the N dearest tests and files by CPU time, processes included.
"""

from __future__ import annotations

import contextlib
import resource
import signal
from collections import Counter
from collections.abc import Generator, Iterator
from types import FrameType
from typing import Any

import pytest

OWN, PROCESSES = "cpu seconds", "cpu seconds of processes"
Spent = tuple[float, float]  # of this process, and of those it waited for
_BEGUN = pytest.StashKey[Spent]()


class CpuLimitError(Exception):
    """A test used more CPU time than it may."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("cpu_limit_seconds", "CPU time that a test may use", default="60")
    parser.addoption("--cpu", type=int, default=0, metavar="N", help="list the N dearest tests and files by CPU time")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "cpu_seconds(n): the CPU time that this test may use, in seconds")
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Costs(config))


# --- the limit ----------------------------------------------------------------------------------------------------


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, Any, Any]:
    item.stash[_BEGUN] = spent()
    with limited(limit_of(item)):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    limit = limit_of(item)
    with limited(limit):
        result = yield
    used = spent()[1] - item.stash[_BEGUN][1]
    if used > limit:
        raise CpuLimitError(f"its processes used {used:.0f} seconds of CPU time, and {limit:.0f} are allowed")
    return result


def limit_of(item: pytest.Item) -> float:
    """The CPU time that a test may use, in seconds."""
    marked = item.get_closest_marker("cpu_seconds")
    return float(marked.args[0] if marked else item.config.getini("cpu_limit_seconds"))


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise in the block once it has used so much CPU time, in all threads together."""
    if not hasattr(signal, "setitimer"):  # Windows
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise CpuLimitError(f"it used more than {seconds:.0f} seconds of CPU time")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


# --- the costs ----------------------------------------------------------------------------------------------------


def spent() -> Spent:
    """CPU time so far: of this process, and of the processes that it started and waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return used[0].ru_utime + used[0].ru_stime, used[1].ru_utime + used[1].ru_stime


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "teardown" and _BEGUN in item.stash:
        own, processes = (after - before for before, after in zip(item.stash[_BEGUN], spent(), strict=True))
        report.user_properties += [(OWN, own), (PROCESSES, processes)]
    return report


class Costs:
    """What the tests cost, added up in the process where their reports come together."""

    def __init__(self, config: pytest.Config) -> None:
        self.longest: int = config.getoption("--cpu")
        self.tests, self.workers = Counter[str](), 0.0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        measured = dict(report.user_properties)
        if OWN in measured:
            self.tests[report.nodeid] += float(measured[OWN]) + float(measured[PROCESSES])

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self.workers += sum(getattr(node, "workeroutput", {}).get(OWN, ()))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        own, processes = spent()
        total = own + (self.workers or processes)
        terminalreporter.write_line(f"CPU time: {sum(self.tests.values()):.0f} s in tests, {total:.0f} s in all")
        if self.longest:
            files = Counter[str]()
            for test, seconds in self.tests.items():
                files[test.partition("::")[0]] += seconds
            for dearest in (files, self.tests):
                lines = [f"{seconds:8.1f} s  {name}" for name, seconds in dearest.most_common(self.longest)]
                terminalreporter.write_line("\n".join(lines))


@pytest.hookimpl(trylast=True)  # after the fixtures of the session, which end their processes
def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):  # a process of xdist
        session.config.workeroutput[OWN] = spent()
