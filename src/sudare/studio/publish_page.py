"""Publish: one page to confirm what is promised, spent and given away; then the work itself, watched from the page."""

from __future__ import annotations

import re
import shlex
from fractions import Fraction
from typing import Any

from starlette.responses import HTMLResponse, Response

from sudare.app import preview
from sudare.errors import LedgerError, ParameterError, SudareError
from sudare.methods.base import Method
from sudare.methods.parameters import write_parameters
from sudare.methods.registry import find_method
from sudare.privacy import Ledger
from sudare.privacy.exact import write_exact
from sudare.schema import Schema
from sudare.studio.choose_page import find_plan, make_method, read_budget, read_typed
from sudare.studio.jobs import Job
from sudare.studio.project import StudioTable
from sudare.studio.web import Visit, answer_json, go, tell
from sudare.text import text

NAME = re.compile(r"[\w-][\w.-]{0,79}")


def show_publish(visit: Visit, *, error: str = "") -> Response:
    """Show the promise in words, what is spent, what leaves, and ask once."""
    table = visit.table()
    if table.cards is None or not table.cards.is_complete:
        return go(f"/t/{table.id}/schema")
    try:
        method = make_method(table)
        previewed = preview(method, table.schema_file)
    except SudareError as refusal:
        return visit.show("publish.html", table=table, step="publish", plan=None, error=str(refusal), status=400)
    schema = Schema.read(table.schema_file)
    cost = _find_cost(method, schema)
    plan: dict[str, Any] = {
        "method": method.name,
        "promise": str(previewed.promise.describe()),
        "expected": tell(previewed.expected),
        "cost": cost,
        "columns": [name for name in schema.names if _is_published(method, name)],
        "never": list(schema.identifiers),
    }
    budget = read_budget(table)
    return visit.show(
        "publish.html",
        table=table,
        step="publish",
        plan=plan,
        budget=budget,
        enough=budget is None or cost is None or (not budget.broken and budget.left >= cost),
        name=visit.form.get("name") or _propose_name(table, method),
        budget_typed=visit.form.get("budget") or (write_exact(2 * cost) if cost is not None else ""),
        commands=_write_commands(table, method),
        python=_write_python(table, method),
        error=error,
        status=400 if error else 200,
    )


def _is_published(method: Method, name: str) -> bool:
    chosen = getattr(method, "by", ()) or ()
    return not chosen or name in chosen


def _find_cost(method: Method, schema: Schema) -> Fraction | None:
    """Find what the ledger will be charged; None for a promise that costs nothing."""
    promise = method.promise(schema)
    amount = getattr(promise, "epsilon", None) or getattr(promise, "rho", None)
    return amount if isinstance(amount, Fraction) else None


def _propose_name(table: StudioTable, method: Method) -> str:
    for number in range(1, 1000):
        name = method.name if number == 1 else f"{method.name}-{number}"
        if not (table.folder / name).exists():
            return name
    return ""


def _write_commands(table: StudioTable, method: Method) -> str:
    parameters = write_parameters(method, {})
    words = ["sudare", "publish", method.name, table.shown_address, "--schema", "schema.toml"]
    if table.ledger_file.exists():
        words += ["--ledger", "ledger.db"]
    for name, value in parameters.items():
        about = method.parameters().get(name)
        if about is not None and name != "neighbours" and value not in ("", "false"):
            words += [about.flag] if value == "true" else [about.flag, value]
    return shlex.join([*words, "--out", _propose_name(table, method)])


def _write_python(table: StudioTable, method: Method) -> str:
    given = ", ".join(f"{name}={value!r}" for name, value in find_plan(table)[1].items())
    return (
        "import sudare as sd\n"
        'schema = sd.Schema.read("schema.toml")\n'
        f"source = sd.open({table.shown_address!r}, schema)\n"
        f"release = sd.{type(method).__name__}({given}).publish(source)"
    )


def start_publish(visit: Visit) -> Response:
    """Make the ledger if there is none yet, and start the work; a name that is taken spends nothing."""
    table = visit.table()
    try:
        name = visit.form.get("name", "").strip()
        if not NAME.fullmatch(name):
            raise ParameterError("name ({name}) must be letters, digits, - and _ (at most 80)", name=name)
        if (table.folder / name).exists():
            raise ParameterError("That name is taken. Choose another. Nothing was spent.")
        method = make_method(table)
        schema = Schema.read(table.schema_file)
        if _find_cost(method, schema) is not None and not table.ledger_file.exists():
            _make_ledger(table, method, visit.form.get("budget", ""))
        fields = {
            "name": name,
            "method": method.name,
            "parameters": {name: _plain(value) for name, value in _parameters(table).items()},
            "format": "parquet" if visit.form.get("format") == "parquet" else "csv",
        }
        job = visit.jobs.start("publish", table, fields)
    except SudareError as refusal:
        return show_publish(visit, error=str(refusal))
    return go(f"/jobs/{job}")


def _parameters(table: StudioTable) -> dict[str, Any]:
    method, parameters = find_plan(table)
    return {name: read_typed(method, name, value) for name, value in parameters.items()}


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _make_ledger(table: StudioTable, method: Method, typed: str) -> None:
    """Make the ledger of a table with the budget that the steward named; it cannot be changed later."""
    promise = method.promise(Schema.read(table.schema_file))
    currency = "rho" if getattr(promise, "rho", None) is not None else "epsilon"
    if not typed.strip():
        raise LedgerError("name the whole budget of this table, such as 2")
    neighbours = getattr(method, "neighbours", None) or getattr(promise, "neighbours", "replace")
    with Ledger.create(table.ledger_file, **{currency: typed.strip()}, neighbours=neighbours, name=table.name):  # type: ignore[arg-type]
        pass


# --- jobs -------------------------------------------------------------------------------------------------------------


def show_job(visit: Visit) -> Response:
    """Show how far a piece of work is; when it is done, lead on."""
    job = visit.jobs.get(visit.path["job"])
    table = visit.project.table(job.source)
    if job.state == "done" and job.kind == "draft":
        return go(f"/t/{table.id}/schema")
    if job.state == "done" and job.kind == "check" and job.result.get("fits"):
        return go(f"/t/{table.id}/choose")
    release = _find_release(visit, job)
    if job.state == "done" and job.kind == "publish" and release is not None:
        return go(f"/r/{release}?new=1")
    return visit.show(
        "job.html",
        table=table,
        step={"draft": "table", "check": "schema", "publish": "publish", "compare": "publish"}[job.kind],
        job=job,
        told=_tell_end(visit, job),
        spent=job.kind == "publish" and visit.jobs.has_spent(job),
        percent=None if job.share is None else round(100 * job.share),
        lines=_write_same(table, job),
    )


def _write_same(table: StudioTable, job: Job) -> tuple[str, str]:
    """The command and the Python lines that do what a job does."""
    data, name = table.shown_address, str(job.fields.get("name", "release"))
    opened = f'import sudare as sd\nsource = sd.open({data!r}, sd.Schema.read("schema.toml"))\n'
    match job.kind:
        case "draft":
            words, python = (
                ["schema", "init", data, "-o", "schema.toml"],
                f"import sudare as sd\nsd.propose_schema({data!r})",
            )
        case "check":
            words, python = ["schema", "check", data, "--schema", "schema.toml"], f"{opened}source.check()"
        case "compare":
            words, python = (
                ["report", name, "--truth", data, "--schema", "schema.toml"],
                f'import sudare as sd\nsd.Release.load("{name}").report()',
            )
        case _:
            method = find_method(str(job.fields["method"]))
            given = ", ".join(f"{key}={value!r}" for key, value in job.fields["parameters"].items())
            words = ["publish", method.name, data, "--schema", "schema.toml", "--out", name]
            python = f"{opened}sd.{method.__name__}({given}).publish(source)"
    return shlex.join(["sudare", *words]), python


def _find_release(visit: Visit, job: Job) -> str | None:
    out = job.result.get("out")
    return next(
        (
            release.id
            for release in visit.project.releases()
            if out and str(release.directory.relative_to(visit.project.folder)) == out
        ),
        None,
    )


def _tell_end(visit: Visit, job: Job) -> str:
    """Say what an end means for the budget."""
    if job.is_running or job.state == "done" or job.kind != "publish":
        return ""
    if visit.jobs.has_spent(job):
        return str(text("It stopped. The spend stays in the ledger. No half-written file is left."))
    return str(text("It stopped. Nothing was spent."))


def tell_job(visit: Visit) -> Response:
    """Tell a script how far a job is."""
    job = visit.jobs.get(visit.path["job"])
    return answer_json({"state": job.state, "share": job.share, "spent": visit.jobs.has_spent(job)})


def stop_job(visit: Visit) -> Response:
    """Stop a job, as long as nothing is spent."""
    visit.jobs.stop(visit.path["job"])
    return go(f"/jobs/{visit.path['job']}")


def show_comparison(visit: Visit) -> Response:
    """Show the page that compares a release with the truth; it is stamped, and stays on this computer."""
    job = visit.jobs.get(visit.path["job"])
    name = str(job.result.get("page", ""))
    file = visit.project.upload_folder() / name
    if not re.fullmatch(r"[0-9a-f]{16}-[0-9a-f]{8}\.html", name) or not file.is_file():
        raise ParameterError("this page is gone; make it again")
    return framed_page(file.read_text(encoding="utf-8"))


def framed_page(content: str) -> HTMLResponse:
    """Give a page of a report, which carries its own style and no script."""
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'self'; base-uri 'none'"
    return HTMLResponse(content, headers={"content-security-policy": policy})


ROUTES = (
    ("/t/{table}/publish", "GET", show_publish),
    ("/t/{table}/publish", "POST", start_publish),
    ("/jobs/{job}", "GET", show_job),
    ("/jobs/{job}/state", "GET", tell_job),
    ("/jobs/{job}/stop", "POST", stop_job),
    ("/jobs/{job}/page", "GET", show_comparison),
)
