"""Dropped files over a real connection: too large, slow, broken off, many at once; nothing half stays."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import uvicorn

from sudare.studio import safety
from sudare.studio.project import Project
from sudare.studio.safety import Keys
from sudare.studio.server import bind_port
from sudare.studio.web import make_app
from tests.studio.pages import OWN

TABLE = b"age,town\n" + b"".join(b"%d,Aoi\n" % (20 + row % 50) for row in range(300))
SECONDS = 120.0  # on a busy machine; a test that ends well never waits so long


class Served:
    """A studio behind a real port, with a session."""

    def __init__(self, folder: Path) -> None:
        self.project = Project(folder)
        bound, keys = bind_port(0), Keys()
        self.port = bound.getsockname()[1]
        self.server = uvicorn.Server(
            uvicorn.Config(make_app(self.project, keys=keys, port=self.port), log_level="critical")
        )
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [bound]}, daemon=True)
        self.thread.start()
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=SECONDS)
        opened = self.client.post("/open", data={"token": keys.issue()}, headers=OWN)
        self.cookie = opened.cookies[safety.COOKIE]

    def connect(self, length: str) -> socket.socket:
        """Begin to send a file by hand."""
        line = socket.create_connection(("127.0.0.1", self.port), timeout=SECONDS)
        line.sendall(
            f"POST /table/upload HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nCookie: {safety.COOKIE}={self.cookie}\r\n"
            f"Sec-Fetch-Site: same-origin\r\nX-File-Name: people.csv\r\n{length}\r\n\r\n".encode()
        )
        return line

    def files(self) -> list[Path]:
        """What was taken in."""
        return [file for file in self.project.upload_folder().iterdir() if file.name != ".lock"]

    def close(self) -> None:
        """End it."""
        self.client.close()
        self.server.should_exit = True
        self.thread.join(SECONDS)
        self.project.close()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """A studio that others reach by a socket."""
    studio = Served(tmp_path / "project")
    yield studio
    studio.close()


def test_three_gigabytes_are_refused_before_they_are_sent(served: Served) -> None:
    with served.connect("Content-Length: 3000000000") as line:
        answer = line.recv(4096)
    assert b"413" in answer.split(b"\r\n")[0]
    assert not served.files()
    assert 'data-most="2000000000"' in served.client.get("/").text


def test_one_that_hides_its_size_is_cut_at_the_limit(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(safety, "MOST_UPLOAD_BYTES", 1000)
    with served.connect("Transfer-Encoding: chunked") as line:
        for _ in range(3):
            line.sendall(b"200\r\n" + b"x" * 512 + b"\r\n")
        line.sendall(b"0\r\n\r\n")
        answer = line.recv(4096)
    assert b"400" in answer.split(b"\r\n")[0]
    assert not served.files()


def test_a_slow_file_holds_nobody_up_and_arrives(served: Served) -> None:
    lines = [served.connect(f"Content-Length: {len(TABLE)}") for _ in range(50)]
    for line in lines:
        line.sendall(TABLE[:100])
    assert served.client.get("/").status_code == 200  # while fifty others wait for the rest
    lines[0].sendall(TABLE[100:])
    assert b"200" in lines[0].recv(4096).split(b"\r\n")[0]
    for line in lines:
        line.close()
    kept = _await_one(served)
    assert [file.read_bytes() for file in kept] == [TABLE]


def _await_one(served: Served) -> list[Path]:
    """Wait until the files that broke off are gone."""
    pause = threading.Event()
    for _ in range(int(SECONDS / 0.05)):
        if len(served.files()) == 1:
            break
        pause.wait(0.05)
    return served.files()
