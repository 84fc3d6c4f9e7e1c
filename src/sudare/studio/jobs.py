"""Long work: a process of its own, one at a time; a page that is closed or loaded again changes nothing about it.

What is going on is written into the store before each step, so that after a crash of the studio, of the worker or of
the machine it is known whether anything was spent: the ledger knows the id of the release.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import secrets
import signal
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from sudare.errors import ParameterError, SudareError
from sudare.privacy import Ledger
from sudare.privacy.spend import new_release_id
from sudare.scratch import hold_name
from sudare.studio.project import Project, StudioTable
from sudare.text import Text, current_language, text, use_language

JobKind = Literal["draft", "check", "publish", "compare"]
ENDED = ("done", "failed", "stopped", "interrupted")
START_SECONDS = 120.0  # in which a worker begins, on the slowest machine
PAUSE = 0.2  # seconds between two notes of how far a job is


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """One piece of long work."""

    id: str
    kind: JobKind
    source: str
    fields: Mapping[str, Any]
    state: str
    share: float | None
    pid: int | None
    result: Mapping[str, Any]
    message: str
    made: float

    @property
    def is_running(self) -> bool:
        """Tell whether it goes on."""
        return self.state not in ENDED


class Jobs:
    """Starts jobs, stops them, and tells how far they are."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self._lock = threading.Lock()
        self._end_orphans()

    def _end_orphans(self) -> None:
        """Note the jobs whose process died with the last studio; one that is still at work ends by itself."""
        for job in self._select("state = 'running'"):
            if not self._is_at_work(job):
                end_job(self.project, job.id, "interrupted")

    def _is_at_work(self, job: Job) -> bool:
        """Tell whether the worker of a job lives; after a restart of the machine its number may be another's."""
        if job.pid is None or not _is_alive(job.pid):
            return False
        if time.time() - job.made < START_SECONDS:
            return True  # it may not hold its name yet
        holder = hold_name(name_worker(self.project, job.id))
        if holder is None:
            return True
        holder.remove()
        return False

    def start(self, kind: JobKind, table: StudioTable, fields: Mapping[str, Any]) -> str:
        """Start a job.

        Error: ParameterError while another one is at work.
        """
        with self._lock:
            self._end_orphans()
            if self._select("state = 'running'"):
                raise ParameterError("another piece of work is going on; wait for its end, or stop it")
            key, release = secrets.token_urlsafe(9), new_release_id()
            with self.project.connect() as store:
                store.execute(
                    "INSERT INTO job (id, kind, source, fields, state, made) VALUES (?, ?, ?, ?, 'running', ?)",
                    (key, kind, table.id, json.dumps({**fields, "release_id": release}), time.time()),
                )
            worker = multiprocessing.get_context("spawn").Process(
                target=run_job,
                args=(self.project.folder, key, table.address, str(self._place_of(kind)), current_language()),
            )
            worker.start()
            with self.project.connect() as store:
                store.execute("UPDATE job SET pid = ? WHERE id = ?", (worker.pid, key))
        threading.Thread(target=self._await_end, args=(worker, key), daemon=True).start()
        return key

    def _place_of(self, kind: JobKind) -> Path:
        """Where a job may put what is for the steward alone."""
        return self.project.upload_folder() if kind == "compare" else self.project.folder

    def _await_end(self, worker: Any, key: str) -> None:
        worker.join()
        if self.get(key).is_running:
            end_job(self.project, key, "interrupted")

    def get(self, key: str) -> Job:
        """Give a job by its id.

        Error: ParameterError if there is none.
        """
        found = self._select("id = ?", key)
        if not found:
            raise ParameterError("there is no such piece of work; it may have been of an earlier folder")
        return found[0]

    def running(self) -> Job | None:
        """Give the job that is at work, if there is one."""
        return next(iter(self._select("state = 'running'")), None)

    def _select(self, condition: str, *values: object) -> list[Job]:
        with self.project.connect() as store:
            rows = store.execute(f"SELECT * FROM job WHERE {condition} ORDER BY made", values).fetchall()
        return [
            Job(
                id=row["id"],
                kind=row["kind"],
                source=row["source"],
                fields=json.loads(row["fields"]),
                state=row["state"],
                share=row["share"],
                pid=row["pid"],
                result=json.loads(row["result"] or "{}"),
                message=row["message"] or "",
                made=row["made"],
            )
            for row in rows
        ]

    def has_spent(self, job: Job) -> bool:
        """Tell whether the ledger was charged for the release of a job."""
        return is_charged(self.project, job)

    def stop(self, key: str) -> None:
        """Ask a job to end; after the spend it is let go on, since stopping it would not give anything back.

        Error: ParameterError after the spend.
        """
        job = self.get(key)
        if job.kind == "publish" and self.has_spent(job):
            raise ParameterError("From here on, stopping does not give the budget back.")
        if job.is_running and job.pid is not None:
            with self.project.connect() as store:  # a worker that has hardly begun ends without a word
                store.execute("UPDATE job SET step = 'stop' WHERE id = ?", (key,))
            with contextlib.suppress(ProcessLookupError):
                os.kill(job.pid, signal.SIGINT)


def is_charged(project: Project, job: Job) -> bool:
    """Tell whether the ledger of a table knows the release of a job."""
    file = project.table(job.source).ledger_file
    if job.kind != "publish" or not file.exists():
        return False
    with Ledger.open(file) as ledger:
        return any(spend.release == job.fields.get("release_id") for spend in ledger.entries())


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def name_worker(project: Project, key: str) -> Path:
    """The name that the worker of a job holds as long as it lives."""
    return project.folder / f"job-{key}"


def end_job(
    project: Project, key: str, state: str, *, message: str = "", result: Mapping[str, Any] | None = None
) -> None:
    """Note how a job ended, once."""
    with project.connect() as store:
        store.execute(
            "UPDATE job SET state = CASE WHEN ? = 'interrupted' AND step = 'stop' THEN 'stopped' ELSE ? END,"
            " message = ?, result = ? WHERE id = ? AND state = 'running'",
            (state, state, message, json.dumps(result or {}, ensure_ascii=False), key),
        )


# --- in the worker ----------------------------------------------------------------------------------------------------


def run_job(folder: Path, key: str, address: str, place: str, language: str) -> None:
    """Do a job, and note how it ended; whatever goes wrong is told in one line."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    project = Project(folder)
    with project.connect() as store:
        row = store.execute("SELECT kind, source, fields FROM job WHERE id = ?", (key,)).fetchone()
    table, fields = project.table(row["source"]), json.loads(row["fields"])
    work = {"draft": draft_schema, "check": check_table, "publish": publish_table, "compare": compare_release}
    with use_language(language), hold_name(name_worker(project, key)) or contextlib.nullcontext():
        try:
            result = work[row["kind"]](project, table, address, fields, Path(place), _note_progress(project, key))
        except KeyboardInterrupt:
            end_job(project, key, "stopped")
        except SudareError as error:
            end_job(project, key, "failed", message=_hide_folder(str(error), address))
        except MemoryError:
            end_job(project, key, "failed", message=str(text("the memory of this computer did not suffice")))
        except Exception as error:  # a fault of ours: its name may be told, what it says may hold a value
            fault = text("a fault in the studio itself ({kind}); nothing more is known", kind=type(error).__name__)
            end_job(project, key, "failed", message=str(fault))
        else:
            end_job(project, key, "done", result=result)


def _note_progress(project: Project, key: str) -> Any:
    last = [0.0]

    def note(share: float) -> None:
        if (now := time.monotonic()) - last[0] > PAUSE:
            last[0] = now
            with project.connect() as store:
                store.execute("UPDATE job SET share = ? WHERE id = ?", (min(max(share, 0.0), 1.0), key))

    return note


def draft_schema(
    project: Project, table: StudioTable, address: str, fields: Mapping[str, Any], place: Path, progress: Any
) -> dict[str, Any]:
    """Draft the schema of a table, and make cards of it."""
    from sudare.sources import propose_schema
    from sudare.studio.cards import read_draft, save_schema

    draft = propose_schema(address, name=table.name, encoding=table.encoding, progress=progress)
    table.folder.mkdir(parents=True, exist_ok=True)
    for name, values in draft.files.items():
        (table.folder / name).write_text(values, encoding="utf-8")
    cards = read_draft(draft.toml)
    cards.notes = [_hide_folder(note, address) for note in cards.notes]
    save_schema(cards, table.schema_file)
    project.save_cards(table.id, cards, before=None)
    return {}


def _hide_folder(note: str, address: str) -> str:
    """Name a file by its name: where a dropped one is kept tells a reader nothing."""
    folder = str(Path(address.rpartition("#")[0] or address).parent)
    return note.replace(folder + os.sep, "") if folder not in ("", ".") else note


def check_table(
    project: Project, table: StudioTable, address: str, fields: Mapping[str, Any], place: Path, progress: Any
) -> dict[str, Any]:
    """See whether the table fits its schema; what does not is for the steward alone."""
    from sudare.schema import Schema
    from sudare.sources import open as open_source

    schema = Schema.read(table.schema_file)
    with open_source(address, schema, encoding=table.encoding, progress=progress) as source:
        findings = source.check()
    return {
        "fits": findings.fits,
        "notes": [_hide_folder(str(note), address) for note in findings.notes],
        "problems": [
            {"name": found.attribute, "problem": str(found.problem), "rows": found.rows} for found in findings.problems
        ],
    }


def publish_table(
    project: Project, table: StudioTable, address: str, fields: Mapping[str, Any], place: Path, progress: Any
) -> dict[str, Any]:
    """Publish; everything that can be refused is refused before the spend."""
    from sudare.app import publish
    from sudare.methods.registry import find_method

    method = find_method(fields["method"])(**fields["parameters"])
    out = table.folder / fields["name"]
    reading: dict[str, Any] = {} if method.takes == "map" else {"encoding": table.encoding}
    published = publish(
        method,
        address,
        out=out,
        schema_file=None if method.takes == "map" else table.schema_file,
        ledger_file=table.ledger_file if table.ledger_file.exists() else None,
        file_format=fields.get("format", "csv"),
        **reading,
        release_id=fields["release_id"],
        progress=progress,
    )
    lines = [str(line) for line in published.lines if isinstance(line, str | Text)]
    return {"out": str(out.relative_to(project.folder)), "lines": lines, "rows": published.rows}


def compare_release(
    project: Project, table: StudioTable, address: str, fields: Mapping[str, Any], place: Path, progress: Any
) -> dict[str, Any]:
    """Draw the page of a release beside its true table; it stays in the folder that is removed with the studio."""
    from sudare.app import write_report

    release = project.release(fields["release"])
    out = place / f"{release.id}-{secrets.token_hex(4)}.html"
    write_report(
        release.directory, out, truth=address, schema_file=table.schema_file, encoding=table.encoding, progress=progress
    )
    return {"page": out.name}
