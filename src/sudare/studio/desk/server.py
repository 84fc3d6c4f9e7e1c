"""`sudare desk serve`: the pages of the desk on an address, behind a proxy that speaks TLS where others reach it."""

from __future__ import annotations

from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from sudare.errors import ParameterError, SudareError
from sudare.studio.desk.accounts import accept, find_account, log_in, log_out
from sudare.studio.desk.pages import ROUTES, DeskHandler, DeskVisit, VerdictCache, read_address
from sudare.studio.desk.store import DeskStore
from sudare.studio.project import ReleaseFolder
from sudare.studio.safety import Wall
from sudare.studio.server import HOST, bind_port
from sudare.studio.web import find_reader_language, gather_fields, go, make_templates, read_form, switch_language
from sudare.text import say, use_language

COOKIE = "sudare_desk"


class Desk:
    """What all pages of the desk share."""

    def __init__(self, store: DeskStore, *, behind_proxy: bool = False) -> None:
        self.store = store
        self.behind_proxy = behind_proxy
        self.project = ReleaseFolder(store.folder / "releases")
        self.verdicts = VerdictCache()
        self.templates = make_templates()

    async def visit(self, request: Request) -> DeskVisit:
        """Read a request."""
        fields = await read_form(request)
        session = request.cookies.get(COOKIE, "")
        return DeskVisit(
            store=self.store,
            account=find_account(self.store, session),
            path=request.path_params,
            form=dict(fields),
            lists=gather_fields(fields),
            query=dict(request.query_params),
            url=request.url.path,
            templates=self.templates,
            project=self.project,
            verdicts=self.verdicts,
            address=read_address(request, behind_proxy=self.behind_proxy),
            session=session,
        )

    def page(self, handler: DeskHandler) -> Callable[[Request], Any]:
        """Make an endpoint of a page; whoever has no session is led to the door."""

        async def endpoint(request: Request) -> Response:
            with use_language(find_reader_language(request)):
                visit = await self.visit(request)
                if visit.account is None:
                    return go("/login")
                return await run_in_threadpool(_answer, handler, visit)

        return endpoint

    def door(self, handler: Callable[[DeskVisit], Response]) -> Callable[[Request], Any]:
        """Make an endpoint that is open to everybody."""

        async def endpoint(request: Request) -> Response:
            with use_language(find_reader_language(request)):
                return await run_in_threadpool(_answer, handler, await self.visit(request))

        return endpoint

    def enter(self, visit: DeskVisit) -> Response:
        """Sign in."""
        if not visit.form:
            return visit.show("desk/login.html")
        name, password = visit.form.get("name", ""), visit.form.get("password", "")
        try:
            return self._let_in(log_in(self.store, name, password, address=visit.address))
        except ParameterError as error:
            return visit.show("desk/login.html", error=str(error), name=name, status=403)

    def accept(self, visit: DeskVisit) -> Response:
        """Take up an invitation."""
        code = visit.form.get("code", "")
        if not visit.form:
            return visit.show("desk/invited.html", code="")
        try:
            if visit.form.get("password", "") != visit.form.get("again", ""):
                raise ParameterError("the two passwords differ")
            return self._let_in(accept(self.store, code.strip(), visit.form.get("password", "")))
        except ParameterError as error:
            return visit.show("desk/invited.html", error=str(error), code=code, status=403)

    def leave(self, visit: DeskVisit) -> Response:
        """Sign out."""
        log_out(self.store, visit.session)
        return go("/login")

    def _let_in(self, session: str) -> Response:
        answer = go("/")
        answer.set_cookie(COOKIE, session, httponly=True, samesite="strict", path="/", secure=self.behind_proxy)
        return answer


def _answer(handler: Callable[[DeskVisit], Response], visit: DeskVisit) -> Response:
    try:
        return handler(visit)
    except SudareError as error:
        return visit.show("refused.html", status=404, error=str(error))


def make_desk(store: DeskStore, *, hosts: list[str], behind_proxy: bool = False) -> Wall:
    """Put the desk together, behind its wall; `hosts` are the names by which it may be asked for."""
    desk = Desk(store, behind_proxy=behind_proxy)
    routes: list[Route | Mount] = [
        Route("/login", desk.door(desk.enter), methods=["GET", "POST"]),
        Route("/invited", desk.door(desk.accept), methods=["GET", "POST"]),
        Route("/logout", desk.door(desk.leave), methods=["POST"]),
        Route("/language", switch_language, methods=["POST"]),
        Mount("/static", StaticFiles(directory=str(resources.files("sudare.studio") / "static"))),
        *(Route(path, desk.page(handler), methods=[method]) for path, method, handler in ROUTES),
    ]
    scheme = "https" if behind_proxy else "http"
    return Wall(
        Starlette(routes=routes),
        hosts=hosts,
        origins=[f"{scheme}://{host}" for host in hosts],
        admits=lambda path, headers: True,  # the pages look at the session themselves, and lead to the door
    )


def serve_desk(
    folder: Path,
    *,
    port: int,
    names: tuple[str, ...],
    behind_proxy: bool,
    tell: Callable[[str], None],
    listen: str = HOST,
) -> None:
    """Run the desk until it is stopped; on another address than the loopback only behind a proxy."""
    if (names or listen != HOST) and not behind_proxy:
        raise ParameterError("a desk that others reach stands behind a proxy that speaks TLS; say --behind-proxy")
    store = DeskStore(folder)
    with bind_port(port, listen) as bound:
        number = bound.getsockname()[1]
        hosts = list(names) or [f"{name}:{number}" for name in (HOST, "localhost")]
        settings = uvicorn.Config(
            make_desk(store, hosts=hosts, behind_proxy=behind_proxy),
            log_level="critical",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=3,
        )
        tell(say("the desk runs at {address}; Ctrl-C ends it", address=f"http://{listen}:{number}"))
        uvicorn.Server(settings).run(sockets=[bound])
