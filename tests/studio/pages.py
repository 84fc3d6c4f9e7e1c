"""A studio in this process, asked as a browser would."""

from __future__ import annotations

import asyncio
import html
import re
import time
from pathlib import Path
from typing import Any

import httpx

from sudare.studio.project import Project
from sudare.studio.safety import Keys
from sudare.studio.web import make_app

PORT = 8700
BASE = f"http://127.0.0.1:{PORT}"
OWN = {"sec-fetch-site": "same-origin"}
WAIT_SECONDS = 300.0  # for a worker on a busy machine; a test that ends well never waits so long


class Browser:
    """Keeps cookies and follows redirects, as a browser does."""

    def __init__(self, folder: Path, *, keys: Keys | None = None) -> None:
        self.keys = keys or Keys()
        self.project = Project(folder)
        self.app = make_app(self.project, keys=self.keys, port=PORT)
        self.cookies = httpx.Cookies()

    def ask(self, method: str, path: str, *, follow: bool = True, **given: Any) -> httpx.Response:
        """Send one request."""

        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(app=self.app)
            async with httpx.AsyncClient(transport=transport, base_url=BASE, cookies=self.cookies) as client:
                answer = await client.request(method, path, follow_redirects=follow, **given)
                self.cookies.update(client.cookies)
                return answer

        return asyncio.run(send())

    def get(self, path: str, **given: Any) -> httpx.Response:
        """Load a page."""
        return self.ask("GET", path, **given)

    def post(self, path: str, form: dict[str, str] | None = None, **given: Any) -> httpx.Response:
        """Send a form of a page of ours."""
        headers = {**OWN, **given.pop("headers", {})}
        return self.ask("POST", path, data=form or {}, headers=headers, **given)

    def open(self) -> httpx.Response:
        """Open a session with a token."""
        return self.post("/open", {"token": self.keys.issue()})

    def await_job(self, answer: httpx.Response) -> httpx.Response:
        """Follow a job to its end."""
        began = time.monotonic()
        path = answer.url.path
        while path.startswith("/jobs/") and time.monotonic() - began < WAIT_SECONDS:
            if self.get(f"{path}/state").json()["state"] != "running":
                break
            time.sleep(0.05)
        return self.get(path)

    def read_table(self, file: Path, *, line: str = "0") -> str:
        """Take a table in and draft its schema; gives the path of the table."""
        answer = self.post("/table", {"path": str(file)})
        table = answer.url.path.removesuffix("/header")
        drafted = self.await_job(self.post(f"{table}/header", {"line": line}))
        assert drafted.url.path == f"{table}/schema", read(drafted)
        return table

    def confirm_all(self, table: str) -> httpx.Response:
        """Confirm every card as it is proposed."""
        self.post(f"{table}/schema/unit", {"version": self.version(table), "unit": "row"})
        cards = self.project.table(table.removeprefix("/t/")).cards
        assert cards is not None
        for number, card in enumerate(cards.cards):
            form = {"version": self.version(table), "confirm": "1", "role": card.keys.get("role", "plain")}
            self.post(f"{table}/schema/column/{number}", {**form, **fields_of(card.keys)})
        return self.get(f"{table}/schema")

    def version(self, table: str) -> str:
        """The version that a form of the schema page carries."""
        found = re.search(r'name="version" value="(\d+)"', self.get(f"{table}/schema").text)
        assert found is not None
        return found[1]


def fields_of(keys: dict[str, Any]) -> dict[str, str]:
    """The fields of a card's form, as the page fills them."""
    form = {"kind": str(keys.get("kind", "category")), "outside": str(keys.get("outside", "refuse"))}
    if "values" in keys:
        form["values"] = "\n".join(keys["values"])
    form |= {end: str(value) for end, value in keys.get("bins", {}).items()}
    if keys.get("missing"):
        form["missing"] = "1"
    return form


def read(answer: httpx.Response) -> str:
    """What a reader sees of a page."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", answer.text)).split())
