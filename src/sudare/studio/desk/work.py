"""The steward's worker: the only process of the desk that opens the table. It takes work from the store, one by one."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from sudare.errors import ParameterError, SudareError
from sudare.requests import RequestStore
from sudare.requests.desk import answer_stored, deliver_request, grant_request, measure_table, predict_stored
from sudare.sources import open as open_source
from sudare.sources.table import TableSource
from sudare.studio.desk.pages import delivery_folder
from sudare.studio.desk.store import DeskStore, DeskTask
from sudare.text import Text, Words, text

PAUSE_SECONDS = 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class StewardTable:
    """The table behind a name on offer: its data, its schema file, its history."""

    name: str
    data: str
    schema_file: Path
    history: Path | None = None


def work(store: DeskStore, table: StewardTable, *, once: bool = False) -> Iterator[DeskTask]:
    """Do what waits for a table, and give each piece when it is done; without `once`, go on waiting."""
    requests = _open_requests(store, table.name)
    while True:
        task = store.take_task(table.name)
        if task is not None:
            _do(store, requests, table, task)
            yield task
        elif once:
            return
        else:
            time.sleep(PAUSE_SECONDS)


def _open_requests(store: DeskStore, name: str) -> RequestStore:
    offered = store.tables()
    if name not in offered:
        raise ParameterError("there is no table {name} on offer", name=name)
    return RequestStore.open(offered[name][0])


def _do(store: DeskStore, requests: RequestStore, table: StewardTable, task: DeskTask) -> None:
    """Do one piece of work, and tell stewards how it went; a failure is told, and never stops the worker."""
    try:
        told = _perform(store, requests, table, task)
    except SudareError as error:
        store.end_task(task.id, "failed", [error])
        store.note(task.actor, f"{task.kind} failed", f"{task.name}/{task.request}")
    else:
        store.end_task(task.id, "done", told)
        store.note(task.actor, f"{task.kind} done", f"{task.name}/{task.request}")


def _perform(store: DeskStore, requests: RequestStore, table: StewardTable, task: DeskTask) -> list[Words]:
    common = {"steward": task.actor, "reason": task.reason, "history": table.history, "version": task.version}
    if task.kind == "look":
        stored = requests.find(task.request)
        if stored.state == "asked":
            return _tell(answer_stored(requests, task.request, **common).lines)  # type: ignore[arg-type]
        return _tell(predict_stored(requests, stored, table.history).lines)
    if task.kind == "deliver":
        out = delivery_folder(store, task.name, task.request)
        out.parent.mkdir(parents=True, exist_ok=True)
        done = deliver_request(requests, task.request, table.data, out=out, schema_file=table.schema_file, **common)  # type: ignore[arg-type]
        return [text("delivered as {id}", id=done.stored.id)]
    with _open_table(requests, table) as source:
        if task.kind == "measure":
            return [measure_table(requests, source, history=table.history).describe_bits()]
        granted = grant_request(requests, task.request, source, **common)  # type: ignore[arg-type]
        return _tell(granted.lines)


@contextlib.contextmanager
def _open_table(requests: RequestStore, table: StewardTable) -> Iterator[TableSource]:
    with contextlib.closing(open_source(table.data, requests.schema, same_rows=True)) as source:
        yield source


def _tell(lines: Iterable[object]) -> list[Words]:
    return [line for line in lines if isinstance(line, str | Text)]
