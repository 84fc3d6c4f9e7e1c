"""`sudare studio`: a port on this computer, a token that opens one session, the browser; Ctrl-C ends it."""

from __future__ import annotations

import html
import socket
import webbrowser
from collections.abc import Callable
from pathlib import Path

import uvicorn

from sudare.atomic import replace_file
from sudare.errors import ParameterError
from sudare.studio.project import Project
from sudare.studio.safety import Keys
from sudare.studio.web import make_app
from sudare.text import current_language, say

HOST = "127.0.0.1"

OPENER = """<!doctype html><html lang="{language}"><meta charset="utf-8"><title>Sudare</title>
<form id="f" method="post" action="{address}/open"><input type="hidden" name="token" value="{token}">
<button>{words}</button></form><script>document.getElementById("f").submit()</script></html>
"""


def bind_port(port: int, listen: str = HOST) -> socket.socket:
    """Take a port, of this computer alone unless another address is named; 0 takes a free one.

    Error: ParameterError if it is taken.
    """
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # named, so that answers do not wait
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((listen, port))
    except (OSError, OverflowError):
        bound.close()
        raise ParameterError(
            "port ({port}) is taken or not allowed; name another, or leave it out", port=port
        ) from None
    bound.listen(128)
    return bound


def serve(folder: Path, *, port: int, open_browser: bool, tell: Callable[[str], None]) -> None:
    """Run the studio on a folder until it is stopped."""
    project, keys = Project(folder), Keys()
    try:
        with bind_port(port) as bound:
            address = f"http://{HOST}:{bound.getsockname()[1]}"
            app = make_app(project, keys=keys, port=bound.getsockname()[1])
            settings = uvicorn.Config(
                app, log_level="critical", access_log=False, server_header=False, timeout_graceful_shutdown=3
            )
            if open_browser and _open_browser(project, address, keys.issue()):
                tell(say("the studio runs at {address}, for this computer only; Ctrl-C ends it", address=address))
            else:
                tell(say("open once, within ten minutes: {address}", address=f"{address}/open#{keys.issue()}"))
            uvicorn.Server(settings).run(sockets=[bound])
    finally:
        project.close()


def _open_browser(project: Project, address: str, token: str) -> bool:
    """Open the browser on a file that only this user can read: a token in a command would be seen by others."""
    file = project.upload_folder() / "open.html"
    page = OPENER.format(
        language=current_language(),
        address=html.escape(address),
        token=html.escape(token),
        words=say("Open the studio"),
    )
    replace_file(file, page)
    file.chmod(0o600)
    return webbrowser.open(file.as_uri())
