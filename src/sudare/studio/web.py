"""The pages of the studio put together: routes, templates, the language of the reader, forms.

A page is a function of a request: it reads a form, calls `sudare.app` or its neighbours, and fills a template. What is
wrong with a form is told beside it, and what was typed stays. Texts are values, rendered here in the language of the
page; a template says them with `t("...")`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import jinja2
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from sudare.errors import SudareError
from sudare.studio.jobs import Jobs
from sudare.studio.project import Project, StudioTable
from sudare.studio.safety import COOKIE, MOST_FORM_BYTES, Keys, Wall, stand_before
from sudare.text import Text, current_language, languages, say, use_language

LANGUAGE_COOKIE = "sudare_language"
MOST_FIELDS = 20_000  # of one form
Form = Mapping[str, str]
Handler = Callable[["Visit"], Response]


@dataclass(frozen=True, kw_only=True)
class Studio:
    """What all pages share."""

    project: Project
    jobs: Jobs
    keys: Keys
    templates: jinja2.Environment


@dataclass(kw_only=True)
class Visit:
    """One request: the studio, what the path names, and the form that was sent."""

    studio: Studio
    path: Mapping[str, str]
    form: Form
    query: Form
    url: str
    method: str = "GET"
    lists: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def project(self) -> Project:
        """The folder of the steward."""
        return self.studio.project

    @property
    def jobs(self) -> Jobs:
        """What is going on."""
        return self.studio.jobs

    def table(self) -> StudioTable:
        """The table that the path names."""
        return self.project.table(self.path["table"])

    def show(self, template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
        """Fill a template."""
        known = {
            "language": current_language(),
            "languages": [(code, language.name) for code, language in languages().items()],
            "url": self.url,
            "running": self.jobs.running(),
            "table": None,
            "step": "",
            "error": "",
        }
        page = self.studio.templates.get_template(template)
        return HTMLResponse(page.render({**known, **values}), status_code=status)


def go(url: str) -> Response:
    """Send the browser on to another page."""
    return RedirectResponse(url, status_code=303)


def make_templates() -> jinja2.Environment:
    """Open the templates; everything that a template shows is escaped."""
    folder = str(resources.files("sudare.studio") / "templates")
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["t"] = say
    environment.globals["levels_csv"] = lambda rows: "\n".join(";".join(row) for row in rows)
    environment.filters["number"] = lambda value: f"{value:,}"
    return environment


# --- one request ------------------------------------------------------------------------------------------------------


def page(studio: Studio, handler: Handler) -> Callable[[Request], Any]:
    """Make an endpoint of a page: language, form, and one clear line where something is refused."""

    async def endpoint(request: Request) -> Response:
        fields = await read_form(request)
        visit = Visit(
            studio=studio,
            path=request.path_params,
            form=dict(fields),
            lists=gather_fields(fields),
            query=dict(request.query_params),
            url=request.url.path,
            method=request.method,
        )
        with use_language(find_reader_language(request)):
            return await run_in_threadpool(_answer, handler, visit)

    return endpoint


def _answer(handler: Handler, visit: Visit) -> Response:
    try:
        return handler(visit)
    except SudareError as error:
        return visit.show("refused.html", status=400, error=str(error))


def gather_fields(fields: Sequence[tuple[str, str]]) -> dict[str, list[str]]:
    """Put the values of each field together."""
    found: dict[str, list[str]] = {}
    for name, value in fields:
        found.setdefault(name, []).append(value)
    return found


async def read_form(request: Request) -> list[tuple[str, str]]:
    """Read a form; other bodies are not read here."""
    if request.method != "POST" or not request.headers.get("content-type", "").startswith(
        "application/x-www-form-urlencoded"
    ):
        return []
    body = await request.body()
    try:
        return parse_qsl(
            body[:MOST_FORM_BYTES].decode(), keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict"
        )
    except (ValueError, UnicodeDecodeError):
        return []


def find_reader_language(request: Request) -> str:
    """Find the language of a reader: what was chosen on a page, else what the browser prefers, else that of here."""
    chosen = request.cookies.get(LANGUAGE_COOKIE, "")
    if chosen in languages():
        return chosen
    for wish in request.headers.get("accept-language", "").split(","):
        code = wish.split(";")[0].strip().split("-")[0].lower()
        if code in languages():
            return code
    return current_language()


# --- the application --------------------------------------------------------------------------------------------------


def make_app(project: Project, *, keys: Keys, port: int) -> Wall:
    """Put the studio together, behind its wall."""
    from sudare.studio import ask_page, choose_page, places_page, publish_page, release_page, schema_page, table_page

    studio = Studio(project=project, jobs=Jobs(project), keys=keys, templates=make_templates())
    routes: list[Route | Mount] = [
        Route("/open", _open_endpoint(studio), methods=["GET", "POST"]),
        Route("/language", switch_language, methods=["POST"]),
        Route("/table/upload", table_page.upload_endpoint(studio), methods=["POST"]),
        Mount("/static", StaticFiles(directory=str(resources.files("sudare.studio") / "static"))),
    ]
    for chapter in (table_page, schema_page, choose_page, publish_page, release_page, ask_page, places_page):
        for path, method, handler in chapter.ROUTES:
            routes.append(Route(path, page(studio, handler), methods=[method]))
    app = Starlette(routes=routes, exception_handlers={404: _not_found(studio), 500: _fault(studio)})
    return stand_before(app, keys, port)


def _open_endpoint(studio: Studio) -> Callable[[Request], Any]:
    """Open a session for a token; the page that gives the cookie then leads on, so that the cookie is sent."""

    async def endpoint(request: Request) -> Response:
        with use_language(find_reader_language(request)):
            if request.method == "GET":
                return HTMLResponse(studio.templates.get_template("open.html").render(_bare(state="ask")))
            token = dict(await read_form(request)).get("token", "")
            session = studio.keys.redeem(token)
            state = "refused" if session is None else "opened"
            answer = HTMLResponse(
                studio.templates.get_template("open.html").render(_bare(state=state)),
                status_code=403 if session is None else 200,
            )
            if session is not None:
                answer.set_cookie(COOKIE, session, httponly=True, samesite="strict", path="/")
            return answer

    return endpoint


def _bare(**values: Any) -> dict[str, Any]:
    return {"language": current_language(), "languages": [], "url": "/", "running": None, "table": None, "step": "",
            "error": "", **values}  # fmt: skip


async def switch_language(request: Request) -> Response:
    """Keep the language that was chosen, and go back to the page."""
    form = dict(await read_form(request))
    back = form.get("back", "/")
    answer = go(back if back.startswith("/") and not back.startswith("//") and "\\" not in back else "/")
    if form.get("language") in languages():
        answer.set_cookie(LANGUAGE_COOKIE, form["language"], samesite="strict", path="/", max_age=31_536_000)
    return answer


def _not_found(studio: Studio) -> Callable[[Request, Exception], Any]:
    async def handler(request: Request, error: Exception) -> Response:
        with use_language(find_reader_language(request)):
            words = say("There is no such page.")
            filled = _bare(error=words, running=None)
            return HTMLResponse(studio.templates.get_template("refused.html").render(filled), status_code=404)

    return handler


def _fault(studio: Studio) -> Callable[[Request, Exception], Any]:
    async def handler(request: Request, error: Exception) -> Response:
        with use_language(find_reader_language(request)):
            kind = type(error).__name__
            words = say("a fault in the studio itself ({kind}); nothing more is known", kind=kind)
            return HTMLResponse(studio.templates.get_template("refused.html").render(_bare(error=words)), 500)

    return handler


def tell(lines: Sequence[Any]) -> list[str]:
    """Render texts in the language of the page; tables among them are left to the report."""
    return [str(line) for line in lines if isinstance(line, str | Text)]


def answer_json(values: Any, status: int = 200) -> JSONResponse:
    """Answer a script."""
    return JSONResponse(values, status_code=status)


def read_folder(path: str) -> Path:
    """Name a path as it was typed, with ~ for the home."""
    return Path(path.strip().strip('"')).expanduser()
