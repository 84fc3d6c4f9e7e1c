"""Who may ask the studio what: a wall that every request passes before any page sees it.

The studio listens on this computer only. Against pages of other sites in the same browser, and other users of the
machine, there are: the name of the host (no rebinding of names), a cookie that was got for a token used once, and for
everything that changes something the origin of the page. Answers say what the browser may load (nothing from outside),
and are not kept.
"""

from __future__ import annotations

import hmac
import secrets
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

TOKEN_SECONDS = 600  # in which the one-time token can be used
IDLE_SECONDS = 8 * 3600  # after which a session ends
COOKIE = "sudare_studio"
MOST_FORM_BYTES = 4_000_000  # of everything but a dropped file
MOST_UPLOAD_BYTES = 2_000_000_000
SAFE = ("GET", "HEAD")
OPEN_PATHS = ("/open",)  # reached without a session and from a file, by whoever has the token
UPLOAD = "/table/upload"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';"
    " form-action 'self'; frame-src 'self'; frame-ancestors 'self'; base-uri 'none'"
)
ENDED_SESSION = (
    "no session, or it has ended: start `sudare studio` again."
    "  セッションがないか、終了しました。もう一度 `sudare studio` を実行してください。"
)
HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


class Keys:
    """The one-time token and the sessions that were opened with one; all of it in memory."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._tokens: dict[str, float] = {}
        self._sessions: dict[str, float] = {}

    def issue(self) -> str:
        """Make a token that opens one session."""
        token = secrets.token_urlsafe(32)
        with self._lock:
            self._tokens[token] = self._clock() + TOKEN_SECONDS
        return token

    def redeem(self, given: str) -> str | None:
        """Open a session for a token, once and in time; None for anything else."""
        with self._lock:
            found = next((token for token in self._tokens if hmac.compare_digest(token.encode(), given.encode())), None)
            if found is None or self._tokens.pop(found) < self._clock():
                return None
            session = secrets.token_urlsafe(32)
            self._sessions[session] = self._clock()
            return session

    def admits(self, session: str) -> bool:
        """Tell whether a session is open, and keep it so."""
        with self._lock:
            used = self._sessions.get(session)
            if used is None or self._clock() - used > IDLE_SECONDS:
                self._sessions.pop(session, None)
                return False
            self._sessions[session] = self._clock()
            return True


class Wall:
    """Lets a request through to `app`, or answers 4xx with one line; adds the headers to every answer.

    `hosts` are the names by which the pages may be asked for, `origins` the pages that may send forms; `admits` tells
    whether a request has a session where one is needed.
    """

    def __init__(
        self, app: Any, *, hosts: Iterable[str], origins: Iterable[str], admits: Callable[[str, dict[str, str]], bool]
    ) -> None:
        self.app = app
        self.hosts = set(hosts)
        self.origins = set(origins)
        self.admits = admits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check one request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        refusal = self._find_refusal(scope, headers)
        if refusal is not None:
            await _refuse(send, *refusal)
            return
        limit = MOST_UPLOAD_BYTES if scope["path"] == UPLOAD else MOST_FORM_BYTES
        await self.app(scope, _bounded(receive, limit), _headed(send))

    def _find_refusal(self, scope: Scope, headers: dict[str, str]) -> tuple[int, str] | None:
        """Find out why a request is not let through."""
        path, method = scope["path"], scope["method"]
        if headers.get("host", "") not in self.hosts:
            return 421, "wrong host: open the studio by the address it printed"
        if method not in (*SAFE, "POST"):
            return 405, "only GET and POST"
        if method == "POST" and path not in OPEN_PATHS and not self._is_same_origin(headers):
            return 403, "the request comes from another site"
        length = headers.get("content-length", "")
        limit = MOST_UPLOAD_BYTES if path == UPLOAD else MOST_FORM_BYTES
        if length.isdecimal() and int(length) > limit:
            return 413, "too large"
        return None if self.admits(path, headers) else (401, ENDED_SESSION)

    def _is_same_origin(self, headers: dict[str, str]) -> bool:
        """Tell whether a page of ours asks: the browser says so, or the origin does; without either, no."""
        site = headers.get("sec-fetch-site")
        if site is not None:
            return site == "same-origin" or (site == "none" and headers.get("origin") in self.origins)
        return headers.get("origin") in self.origins


def stand_before(app: Any, keys: Keys, port: int) -> Wall:
    """Put the wall of a studio on this computer: every page but the opening needs a session."""
    hosts = [f"{name}:{port}" for name in ("127.0.0.1", "localhost")]

    def admits(path: str, headers: dict[str, str]) -> bool:
        is_open = path in OPEN_PATHS or path.startswith("/static/")
        return is_open or keys.admits(read_cookie(headers.get("cookie", ""), COOKIE))

    return Wall(app, hosts=hosts, origins=[f"http://{host}" for host in hosts], admits=admits)


def read_cookie(header: str, name: str) -> str:
    """Read one cookie of a request."""
    for part in header.split(";"):
        key, _, value = part.strip().partition("=")
        if key == name:
            return value
    return ""


def _bounded(receive: Receive, limit: int) -> Receive:
    """Read no more than a limit, whatever the request said of its length."""
    seen = 0

    async def read() -> MutableMapping[str, Any]:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > limit:
            return {"type": "http.disconnect"}
        return message

    return read


def _headed(send: Send) -> Send:
    async def write(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            present = {name.lower() for name, _ in message["headers"]}
            message["headers"] = [
                *message["headers"],
                *((name, value) for name, value in HEADERS if name not in present),
            ]
        await send(message)

    return write


async def _refuse(send: Send, status: int, line: str) -> None:
    body = f"{status} {line}\n".encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode()), *HEADERS]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
