"""The pages of the desk: the catalogue, the request and its verdict while typing, the queue, the record.

Nothing here opens a table: verdicts come from the verdict file, and what needs the table is left to the steward's
worker. Whoever asks for what is not theirs is told that it is not there.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
from starlette.requests import Request as WebRequest
from starlette.responses import HTMLResponse, JSONResponse, Response

from sudare.errors import ParameterError, RequestError, SudareError
from sudare.methods.kanon.grouping_words import describe_option
from sudare.methods.kanon.request import Request, RequestOption, read_grouping
from sudare.requests import RequestStore, StoredRequest, answer_request
from sudare.requests.desk import ask_request, draft_request, read_verdicts, refuse_request, withdraw_request
from sudare.requests.store import describe_state
from sudare.schema import Attribute, Schema
from sudare.studio.ask_page import find_asked_name, show_ask
from sudare.studio.desk.accounts import DeskAccount
from sudare.studio.desk.store import DeskStore
from sudare.studio.project import ReleaseFolder
from sudare.studio.typed import read_values
from sudare.studio.web import go
from sudare.text import current_language, languages, text

MOST_FORMS = 60  # verdicts of one user about one table a day
MOST_LINE = 2_000  # characters of a message
SHOWN_LABELS = 4
WORK = ("look", "measure", "grant", "deliver")  # what a steward leaves to the worker


@dataclass(kw_only=True)
class DeskVisit:
    """One request to the desk: who asks, what the path names, and the form that was sent."""

    store: DeskStore
    account: DeskAccount | None
    path: Mapping[str, str]
    form: Mapping[str, str]
    query: Mapping[str, str]
    url: str
    templates: jinja2.Environment
    project: ReleaseFolder
    verdicts: VerdictCache
    address: str = ""
    session: str = ""
    lists: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def show(self, template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
        """Fill a template."""
        known = {
            "layout": "desk/base.html",
            "language": current_language(),
            "languages": [(code, language.name) for code, language in languages().items()],
            "url": self.url,
            "account": self.account,
            "error": "",
            "step": "",
        }
        return HTMLResponse(self.templates.get_template(template).render({**known, **values}), status_code=status)

    def require(self, *roles: str) -> DeskAccount:
        """Give who asks, if they have one of the roles; for others the page is not there.

        Error: RequestError.
        """
        if self.account is None or self.account.role not in roles:
            raise RequestError("there is no such page for you; sign in with another account")
        return self.account

    def requests(self) -> RequestStore:
        """Open the store of the table that the path names."""
        return self.verdicts.open(self.store, self.path["table"])

    def request(self) -> tuple[RequestStore, StoredRequest]:
        """Find the request that the path names; another user's is not there."""
        store = self.requests()
        found = store.find(self.path["request"])
        account = self.require("user", "steward")
        if account.role == "user" and found.user != account.name:
            raise RequestError("there is no request {id}; `sudare request list` names those that are", id=found.id)
        return store, found


class VerdictCache:
    """Stores of requests that are open, and their verdict files as long as these do not change."""

    def __init__(self) -> None:
        self._stores: dict[str, RequestStore] = {}
        self._files: dict[str, tuple[tuple[int, int], Any]] = {}

    def open(self, store: DeskStore, name: str) -> RequestStore:
        """Open the store of a table on offer.

        Error: RequestError if there is none.
        """
        offered = store.tables()
        if name not in offered:
            raise RequestError("there is no table {name} on offer", name=name)
        if name not in self._stores:
            self._stores[name] = RequestStore.open(offered[name][0])
        return self._stores[name]

    def read(self, name: str, requests: RequestStore) -> Any:
        """Read the verdict file of a table, again only when it has changed."""
        try:
            found = requests.verdicts_path.stat()
        except OSError:
            return read_verdicts(requests)
        mark = (found.st_mtime_ns, found.st_size)
        if name not in self._files or self._files[name][0] != mark:
            self._files[name] = (mark, read_verdicts(requests))
        return self._files[name][1]


# --- the catalogue and the request ------------------------------------------------------------------------------------


def show_catalogue(visit: DeskVisit) -> Response:
    """List the tables on offer and the public releases."""
    visit.require("user", "steward", "auditor")
    tables = []
    for name, (_, about) in visit.store.tables().items():
        requests = visit.verdicts.open(visit.store, name)
        tables.append({"name": name, "about": about, "policy": str(requests.policy.describe()),
                       "columns": [_describe(attribute) for attribute in _wanted(requests.schema)]})  # fmt: skip
    return visit.show("desk/catalogue.html", step="catalogue", tables=tables, releases=visit.project.releases(),
                      find_asked_name=find_asked_name)  # fmt: skip


def _wanted(schema: Schema) -> list[Attribute]:
    return list(schema.attributes)  # identifiers are none of them


def _describe(attribute: Attribute) -> dict[str, Any]:
    """Tell what can be asked of an attribute: its levels, each with its number of groups and some of their labels."""
    levels = []
    for level in range(attribute.height + 1):
        coarse = attribute.coarsen(level)
        shown = [str(label) for label in coarse.labels(np.arange(min(coarse.size, SHOWN_LABELS)))]
        levels.append({"level": level, "size": coarse.size, "labels": shown, "more": coarse.size > len(shown)})
    return {"name": attribute.name, "levels": levels}


def show_builder(visit: DeskVisit, *, error: str = "") -> Response:
    """The builder of a request: for every column a level, groups of one's own, or nothing."""
    account = visit.require("user")
    store = visit.requests()
    return visit.show(
        "desk/builder.html",
        step="catalogue",
        name=visit.path["table"],
        policy=str(store.policy.describe()),
        columns=[_describe(attribute) for attribute in _wanted(store.schema)],
        form=visit.form,
        most=MOST_FORMS,
        asked=visit.store.count_asked(visit.path["table"]).get(account.name, 0),
        error=error,
        status=400 if error else 200,
    )


def read_option(schema: Schema, form: Mapping[str, str]) -> RequestOption:
    """Read what a form wants of every column: a level, or groups, one a line with commas between values.

    Error: ParameterError that names the column.
    """
    option = {}
    for number, attribute in enumerate(_wanted(schema)):
        wish = form.get(f"level-{number}", "")
        if wish == "own":
            lines = form.get(f"own-{number}", "").splitlines()
            groups = [read_values(attribute, line) for line in lines if line.strip()]
            if not groups:
                raise ParameterError("write the groups of {name}, one a line", name=attribute.name)
            option[attribute.name] = read_grouping(attribute, groups)
        elif wish.isdecimal() and len(wish) < 4:
            option[attribute.name] = read_grouping(attribute, int(wish))
    if not option:
        raise ParameterError("choose at least one column")
    return option


def judge(visit: DeskVisit) -> Response:
    """Judge a form while it is typed: from the verdict file alone, counted for each user."""
    account = visit.require("user")
    store = visit.requests()
    try:
        option = read_option(store.schema, visit.form)
    except SudareError as error:
        return JSONResponse({"error": str(error)})  # half typed is no failure
    form = {name: grouping.to_value() for name, grouping in option.items()}
    try:
        counted = visit.store.count_form(account.name, visit.path["table"], form, most=MOST_FORMS)
    except ParameterError as error:
        return JSONResponse({"error": str(error)}, status_code=429)
    answer = answer_request(visit.verdicts.read(visit.path["table"], store), Request(name="", options=(option,)))
    told = answer.options[0]
    return JSONResponse(
        {
            "verdict": answer.verdict,
            "words": str(answer.describe()),
            "alternatives": [str(describe_option(each.option)) for each in told.alternatives],
            "left": MOST_FORMS - counted,
        }
    )


def save_draft(visit: DeskVisit) -> Response:
    """Write a request down, with its purpose."""
    account = visit.require("user")
    store = visit.requests()
    try:
        purpose = visit.form.get("purpose", "").strip()
        if not purpose:
            raise ParameterError("say what the table is for")
        option = read_option(store.schema, visit.form)
        form = {name: grouping.to_value() for name, grouping in option.items()}
        visit.store.count_form(account.name, visit.path["table"], form, most=MOST_FORMS)
        request = Request(name=visit.form.get("name", "").strip() or "request", options=(option,))
        stored, _ = draft_request(store, request, user=account.name, purpose=purpose)
    except SudareError as error:
        return show_builder(visit, error=str(error))
    visit.store.note(account.name, "drafted", f"{visit.path['table']}/{stored.id}")
    return go(f"/t/{visit.path['table']}/q/{stored.id}")


def show_mine(visit: DeskVisit) -> Response:
    """List one's own requests."""
    account = visit.require("user")
    return visit.show("desk/list.html", step="mine", rows=_list(visit, user=account.name), is_queue=False)


def show_queue(visit: DeskVisit) -> Response:
    """List the requests of all users, those that wait first."""
    visit.require("steward")
    rows = [row for row in _list(visit) if row["key"] != "draft"]
    rows.sort(key=lambda row: (row["key"] not in ("asked", "answered", "granted"), row["day"]))
    asked = {name: visit.store.count_asked(name) for name in visit.store.tables()}
    bits = {}
    for name in visit.store.tables():
        requests = visit.verdicts.open(visit.store, name)
        try:
            bits[name] = str(visit.verdicts.read(name, requests).describe_bits())
        except SudareError as error:
            bits[name] = str(error)
    return visit.show("desk/list.html", step="queue", rows=rows, is_queue=True, asked=asked, bits=bits)


def _list(visit: DeskVisit, user: str | None = None) -> list[dict[str, Any]]:
    rows = []
    for name in visit.store.tables():
        for stored in visit.verdicts.open(visit.store, name).list_requests(user=user):
            rows.append(
                {
                    "table": name,
                    "id": stored.id,
                    "name": stored.request.name,
                    "user": stored.user,
                    "key": stored.state,
                    "state": str(describe_state(stored.state)),
                    "day": stored.events[-1].day,
                }
            )
    return rows


def show_request(visit: DeskVisit, *, error: str = "") -> Response:
    """One request: the wish, the answer, what became of it, messages; for the steward the work that can be done."""
    account = visit.require("user", "steward")
    store, stored = visit.request()
    table = visit.path["table"]
    answer = answer_request(visit.verdicts.read(table, store), stored.request)
    return visit.show(
        "desk/request.html",
        step="queue" if account.role == "steward" else "mine",
        name=table,
        stored=stored,
        state=str(describe_state(stored.state)),
        states={event.state: str(describe_state(event.state)) for event in stored.events},
        options=[str(describe_option(option)) for option in stored.request.options],
        words=str(answer.describe()),
        verdict=answer.verdict,
        alternatives=[str(describe_option(each.option)) for told in answer.options for each in told.alternatives],
        messages=visit.store.messages(table, stored.id),
        tasks=visit.store.tasks(table, stored.id) if account.role == "steward" else [],
        delivered=_find_delivery(visit, stored) is not None,
        error=error,
        status=400 if error else 200,
    )


def change_request(visit: DeskVisit) -> Response:
    """Send, withdraw or refuse a request, or add a message; whoever has seen an old version is told."""
    account = visit.require("user", "steward")
    store, stored = visit.request()
    step, reason = visit.path["step"], visit.form.get("reason", "").strip()[:MOST_LINE]
    version = int(seen) if (seen := visit.form.get("version", "")).isdecimal() and len(seen) < 12 else None
    try:
        if step == "send" and account.role == "user":
            ask_request(store, stored.id, user=account.name, version=version)
        elif step == "withdraw":
            withdraw_request(store, stored.id, actor=account.name, role=account.role, reason=reason, version=version)
        elif step == "refuse" and account.role == "steward":
            refuse_request(store, stored.id, steward=account.name, reason=reason, version=version)
        elif step == "message":
            if not reason:
                raise ParameterError("write a message first")
            visit.store.say(visit.path["table"], stored.id, account.name, reason)
        elif step in WORK and account.role == "steward":
            visit.store.add_task(
                step, visit.path["table"], stored.id, version=version, actor=account.name, reason=reason
            )
        else:
            raise RequestError("there is no such page for you; sign in with another account")
    except SudareError as error:
        return show_request(visit, error=str(error))
    visit.store.note(account.name, step, f"{visit.path['table']}/{stored.id}")
    return go(f"/t/{visit.path['table']}/q/{stored.id}")


# --- delivery, questions, the record ----------------------------------------------------------------------------------


def delivery_folder(store: DeskStore, table: str, request: str) -> Path:
    """Where the worker puts what is delivered for a request."""
    return store.folder / "deliveries" / table / request


def _find_delivery(visit: DeskVisit, stored: StoredRequest) -> Path | None:
    folder = delivery_folder(visit.store, visit.path["table"], stored.id)
    return folder if stored.state == "delivered" and (folder / "certificate.json").is_file() else None


def give_delivery(visit: DeskVisit) -> Response:
    """Give what was delivered, with its certificate, to its user and to stewards."""
    account = visit.require("user", "steward")
    _, stored = visit.request()
    folder = _find_delivery(visit, stored)
    if folder is None:
        raise RequestError("nothing was delivered for this request yet")
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(folder.iterdir()):
            if file.is_file() and not file.is_symlink() and not file.name.startswith("."):
                archive.write(file, Path(stored.id, file.name))
    visit.store.note(account.name, "fetched", f"{visit.path['table']}/{stored.id}")
    headers = {"content-disposition": f"attachment; filename={stored.id}.zip"}
    return Response(packed.getvalue(), media_type="application/zip", headers=headers)


def ask_view(visit: DeskVisit) -> Response:
    """Ask a published view."""
    visit.require("user", "steward", "auditor")
    return show_ask(visit)


def show_record(visit: DeskVisit) -> Response:
    """Show what was done at the desk, and whether the chain holds."""
    visit.require("steward", "auditor")
    try:
        told = str(text("the chain of {count} lines holds", count=visit.store.verify()))
    except RequestError as error:
        told = str(error)
    return visit.show("desk/record.html", step="record", lines=visit.store.record(), told=told)


DeskHandler = Callable[[DeskVisit], Response]
ROUTES: tuple[tuple[str, str, DeskHandler], ...] = (
    ("/", "GET", show_catalogue),
    ("/t/{table}/new", "GET", show_builder),
    ("/t/{table}/new", "POST", save_draft),
    ("/t/{table}/verdict", "POST", judge),
    ("/requests", "GET", show_mine),
    ("/queue", "GET", show_queue),
    ("/t/{table}/q/{request}", "GET", show_request),
    ("/t/{table}/q/{request}/delivery", "GET", give_delivery),
    ("/t/{table}/q/{request}/{step}", "POST", change_request),
    ("/r/{release}/ask", "GET", ask_view),
    ("/r/{release}/ask", "POST", ask_view),
    ("/record", "GET", show_record),
)


def read_address(request: WebRequest, *, behind_proxy: bool) -> str:
    """Find where a request comes from; what a proxy says of it is believed only where one was declared."""
    if behind_proxy:
        return request.headers.get("x-forwarded-for", "").split(",")[-1].strip() or "-"
    return request.client.host if request.client is not None else "-"
