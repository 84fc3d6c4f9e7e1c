"""Work on a Spark cluster: run in a thread of its own, watched, stopped by Ctrl-C, its errors in our own words.

What Spark says when a task fails quotes rows: in exceptions, in its log, and in the log of pyspark. So an exception is
read for its condition and never passed on, kept or logged, and all logs are silent while work runs.
"""

from __future__ import annotations

import logging
import re
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from sudare.errors import SourceError, SudareError
from sudare.sources.base import Progress
from sudare.text import Words

T = TypeVar("T")

SECONDS_WITHOUT_WORKERS = 120.0
"""How long work may wait for a worker: a cluster that is busy or starts machines needs a minute, no cluster two."""

_SECONDS_BETWEEN_LOOKS = 0.2
_SECONDS_TO_CANCEL = 60.0  # a task that does not hear within them is left to the cluster
_THREAD = "sudare-spark"
_PYTHON_LOGS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")  # where pyspark prints exceptions, with plans


class SparkJobs:
    """Runs work for one source. `context` is the SparkContext, None until there is one."""

    def __init__(self, name: Words, progress: Progress | None) -> None:
        self.name = name
        self.context: Any = None
        self._progress = progress
        self._lock = threading.RLock()
        _drop_own_records()

    @property
    def is_local(self) -> bool:
        """Tell whether the work runs in the process of the driver, which needs no worker."""
        return str(self.context.master).startswith("local")

    def run(self, work: Callable[[], T], *, shows_progress: bool = False) -> T:
        """Do work in a thread; stop it when the caller is interrupted; translate what goes wrong.

        Error: SourceError of one line, also where no worker takes the work up.
        """
        task = _Task(work, self)
        with self._lock:
            try:
                task.start()
                while not task.finished.wait(_SECONDS_BETWEEN_LOOKS / 2):
                    if shows_progress and self._progress is not None:
                        self._progress(task.share)
            except BaseException:
                task.cancel()
                raise
        if task.was_abandoned:
            raise SourceError(
                "no worker of the cluster took up the work on {data} within {seconds} seconds; start workers, or ask"
                " for less memory and fewer cores (spark.executor.memory, spark.cores.max)",
                data=self.name,
                seconds=round(SECONDS_WITHOUT_WORKERS),
            )
        if task.failed:
            failure = task.failed.pop()
            raise failure if isinstance(failure, SudareError) else self.translate(failure) from None
        if shows_progress and self._progress is not None:
            self._progress(1.0)
        result: T = task.done.pop()
        return result

    def translate(self, error: Exception) -> SourceError:
        """Say what went wrong in one line of our own."""
        condition = _find_condition(error)
        message = str(error)
        for pattern, refuse in _REFUSALS:
            if re.search(pattern, condition) or re.search(pattern, message):
                return refuse(self.name)
        return SourceError(
            "{data} could not be read by Spark ({condition}); look into the log of its workers",
            data=self.name,
            condition=condition,
        )


class _Task:
    """One piece of work in its thread, and a second thread that watches it."""

    def __init__(self, work: Callable[[], Any], jobs: SparkJobs) -> None:
        self.done: list[Any] = []
        self.failed: list[Exception] = []
        self.finished = threading.Event()
        self.share = 0.0
        self.was_abandoned = False
        self._work, self._jobs = work, jobs
        self._group = f"sudare-{uuid.uuid4().hex}"
        self._alone_since: float | None = None

    def start(self) -> None:
        threading.Thread(target=self._do, name=_THREAD, daemon=True).start()
        if self._jobs.context is not None:
            threading.Thread(target=self._watch, name=_THREAD, daemon=True).start()

    def _do(self) -> None:
        try:
            with warnings.catch_warnings(), _silent_log(self._jobs.context):
                warnings.simplefilter("ignore")
                if self._jobs.context is not None:
                    self._jobs.context.setJobGroup(self._group, "Sudare", interruptOnCancel=True)
                self.done.append(self._work())
        except Exception as error:
            self.failed.append(error.with_traceback(None))
        finally:
            self.finished.set()

    def _watch(self) -> None:
        """Look at the jobs of the work. The thread that waits must not talk to Java: Ctrl-C would cut the talk."""
        while not self.finished.wait(_SECONDS_BETWEEN_LOOKS):
            with suppress(Exception):  # a driver that is gone fails the work itself
                tracker = self._jobs.context.statusTracker()
                jobs = tracker.getJobIdsForGroup(self._group)
                self.share = max(self.share, _find_share(tracker, jobs))
                self._abandon_without_workers(is_waiting=len(jobs) > 0)

    def _abandon_without_workers(self, *, is_waiting: bool) -> None:
        # The driver itself is counted among the executors.
        executors = self._jobs.context._jsc.sc().getExecutorMemoryStatus().size() - 1
        if self._jobs.is_local or executors > 0 or not is_waiting:
            self._alone_since = None
            return
        self._alone_since = self._alone_since or time.monotonic()
        if time.monotonic() - self._alone_since > SECONDS_WITHOUT_WORKERS:
            self.was_abandoned = True
            self._jobs.context.cancelJobGroup(self._group)

    def cancel(self) -> None:
        """Cancel the jobs of the work, and wait until they have ended."""
        if self._jobs.context is not None:
            threading.Thread(target=self._cancel, name=_THREAD, daemon=True).start()
            self.finished.wait(_SECONDS_TO_CANCEL)

    def _cancel(self) -> None:
        """Cancel again and again: work that has not come to its job yet does not hear the first time."""
        with suppress(Exception):
            while not self.finished.is_set():
                self._jobs.context.cancelJobGroup(self._group)
                self.finished.wait(_SECONDS_BETWEEN_LOOKS)


def _find_share(tracker: Any, jobs: list[int]) -> float:
    """Tell how much of the tasks of the jobs is done; the last one is what is waited for."""
    stages = [stage for job in jobs if (info := tracker.getJobInfo(job)) for stage in info.stageIds]
    tasks = [info for stage in stages if (info := tracker.getStageInfo(stage))]
    total = sum(info.numTasks for info in tasks)
    return 0.99 * sum(info.numCompletedTasks for info in tasks) / total if total else 0.0


@contextmanager
def _silent_log(context: Any) -> Iterator[None]:
    """Silence the log of the driver: it would print exceptions of tasks, and they can quote rows."""
    if context is None:
        yield
        return
    root = context._jvm.org.apache.logging.log4j.LogManager.getRootLogger()
    level = root.getLevel().toString()
    if level == "OFF":
        yield
        return
    context.setLogLevel("OFF")
    try:
        yield
    finally:
        with suppress(Exception):
            context.setLogLevel(level)


class _OtherThreads(logging.Filter):
    """Lets records of other threads pass, and none of ours."""

    def filter(self, record: logging.LogRecord) -> bool:
        return record.threadName != _THREAD


_OTHER_THREADS = _OtherThreads()


def _drop_own_records() -> None:
    """Keep pyspark from printing exceptions of our threads, and of no others; a filter is added once."""
    for name in _PYTHON_LOGS:
        logging.getLogger(name).addFilter(_OTHER_THREADS)


def _find_condition(error: Exception) -> str:
    """Name the condition of an exception; never its message."""
    ask = getattr(error, "getCondition", None) or getattr(error, "getErrorClass", None)
    condition = None
    with suppress(Exception):
        condition = ask() if ask is not None else None
    return str(condition or type(error).__name__)


# What Spark calls a failure (a part of its condition or message), and what is said of it; the first that fits.
_REFUSALS: tuple[tuple[str, Callable[[Words], SourceError]], ...] = (
    (
        "PATH_NOT_FOUND|FileNotFoundException",
        lambda data: SourceError(
            "there is no {data}, or the cluster cannot see it; give a path that all workers share", data=data
        ),
    ),
    (
        "TABLE_OR_VIEW_NOT_FOUND|SCHEMA_NOT_FOUND|INVALID_IDENTIFIER|PARSE_SYNTAX_ERROR",
        lambda data: SourceError(
            "there is no table such as {data} names in the catalog of the cluster; check its name", data=data
        ),
    ),
    (
        "spark.driver.maxResultSize",
        lambda data: SourceError(
            "more cells of {data} hold rows than fit into the driver; choose fewer attributes or wider bins, or raise"
            " spark.driver.maxResultSize in Spark's configuration",
            data=data,
        ),
    ),
    (
        "OutOfMemoryError|Not enough memory",
        lambda data: SourceError(
            "{data} needs more memory than Spark has; raise spark.driver.memory and spark.executor.memory", data=data
        ),
    ),
    (
        "No space left|Disk quota",
        lambda data: SourceError(
            "no space is left on the disks of the cluster for the work on {data}; free some, or name another scratch"
            " directory",
            data=data,
        ),
    ),
    (
        "Permission denied|AccessControlException|AccessDenied",
        lambda data: SourceError(
            "the cluster may not read {data}, or not write to its scratch directory; check the permissions", data=data
        ),
    ),
    (
        "UNABLE_TO_INFER_SCHEMA",
        lambda data: SourceError("{data} holds no file with a table; check the path", data=data),
    ),
    (
        "MERGE_SCHEMA|MERGE_INCOMPATIBLE|PARQUET_COLUMN_DATA_TYPE_MISMATCH|CSV header does not conform",
        lambda data: SourceError(
            "the files of {data} have columns that do not fit together; make them alike, or read the files apart",
            data=data,
        ),
    ),
    (
        "MALFORMED",
        lambda data: SourceError(
            "the lines of {data} cannot be split into columns; check its delimiters and quotes", data=data
        ),
    ),
    (
        "FAILED_READ_FILE|CANNOT_READ_FILE|not a Parquet file|Malformed ORC|ZlibException|ZipException",
        lambda data: SourceError("{data} is damaged, or is not of the kind its name says; copy it again", data=data),
    ),
    (
        "Py4JNetworkError|ConnectionRefused|SparkContext was shut down|stopped SparkContext|unresponsive",
        lambda data: SourceError(
            "the connection to the cluster was lost during the work on {data}; check its master and start again",
            data=data,
        ),
    ),
    (
        "ExecutorLostFailure|FetchFailed|heartbeat",
        lambda data: SourceError(
            "workers of the cluster were lost again and again during the work on {data}; look into their logs, or raise"
            " spark.executor.memory",
            data=data,
        ),
    ),
)
