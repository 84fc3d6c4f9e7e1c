"""Servers that tests start: PostgreSQL of the system's package, on the loopback address, with its own data directory.

A test that needs one asks for the fixture `postgres_server`, which starts one server for the session; it is skipped,
with the reason, where no server can be had.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

USER, PASSWORD = "office", "s3cret/of the office"
FOLDERS = ("/usr/lib/postgresql", "/usr/pgsql", "/opt/homebrew/opt/postgresql")
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "40",
    "shared_buffers": "16MB",
    "fsync": "on",
    "lc_messages": "C",
}


class NoServer(Exception):  # noqa: N818
    """Why there is no server."""


class PostgresServer:
    """A server that belongs to this process. Kill it, start it again, stop it."""

    def __init__(self) -> None:
        self.programs = find_programs()
        self.owner = find_owner()
        self.place = Path(tempfile.mkdtemp(prefix="sudare-postgres-"))
        self.place.chmod(0o755)
        self.data = self.place / "data"
        self.port = find_free_port()
        self.process: subprocess.Popen[bytes] | None = None
        try:
            self._initialise()
            self.start()
        except BaseException:
            self.remove()
            raise

    def address(
        self, *, user: str = USER, password: str | None = PASSWORD, database: str = "postgres", **more: str
    ) -> str:
        """Give the address of the server; more keys stand behind the question mark."""
        login = quote(user, safe="") + ("" if password is None else ":" + quote(password, safe=""))
        keys = "&".join(f"{key}={quote(value, safe='')}" for key, value in more.items())
        return f"postgresql://{login}@127.0.0.1:{self.port}/{database}" + (f"?{keys}" if keys else "")

    def execute(self, *statements: str, **login: str) -> None:
        """Run statements as the owner of the server, each in its own transaction."""
        import psycopg

        with psycopg.connect(self.address(**login), autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement)

    def start(self) -> None:
        """Start the server and wait until it answers."""
        settings = [word for key, value in SETTINGS.items() for word in ("-c", f"{key}={value}")]
        command = [self.programs / "postgres", "-D", self.data, "-p", str(self.port), *settings]
        with (self.place / "log").open("ab") as log:
            self.process = self._launch(command, stdout=log, stderr=log)
        self._wait_until_it_answers()

    def kill(self) -> None:
        """End the server and everything it started, as a power cut does."""
        process = self._running()
        os.kill(process.pid, signal.SIGSTOP)  # it starts nothing new meanwhile
        children = find_children(process.pid)
        for child in (*children, process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        process.wait()
        while any(Path(f"/proc/{child}").exists() for child in children):
            time.sleep(0.005)
        self.process = None

    def stop(self) -> None:
        """Let the server end in order."""
        if self.process is not None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait()
            self.process = None

    def remove(self) -> None:
        """Stop the server and remove its directory."""
        self.stop()
        shutil.rmtree(self.place, ignore_errors=True)

    def _running(self) -> subprocess.Popen[bytes]:
        assert self.process is not None, "the server is not running"
        return self.process

    def _initialise(self) -> None:
        secret = self.place / "password"
        secret.write_text(PASSWORD)
        self.data.mkdir(mode=0o700)
        if self.owner is not None:
            for path in (self.data, secret, self.place):
                os.chown(path, self.owner.pw_uid, self.owner.pw_gid)
        command = [
            self.programs / "initdb", "-D", self.data, "-U", USER, f"--pwfile={secret}", "--auth=scram-sha-256",
            "--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions",
        ]  # fmt: skip
        done = self._launch(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        out, _ = done.communicate()
        if done.returncode:
            raise NoServer(f"initdb failed: {out.decode(errors='replace').strip().splitlines()[-1:]}")
        secret.unlink()

    def _launch(self, command: list[object], **streams: object) -> subprocess.Popen[bytes]:
        """Start a program of PostgreSQL, which root may not run; it ends with this process where the system can."""
        words = [str(word) for word in command]
        end_with_us = ["setpriv", "--pdeathsig", "INT"] if shutil.which("setpriv") else []
        if self.owner is not None and end_with_us:
            end_with_us += ["--reuid", str(self.owner.pw_uid), "--regid", str(self.owner.pw_gid), "--clear-groups"]
        user = {} if self.owner is None or end_with_us else {"user": self.owner.pw_uid, "group": self.owner.pw_gid}
        environment = {"PATH": os.environ.get("PATH", ""), "LANG": "C", "LC_ALL": "C"}
        return subprocess.Popen(  # type: ignore[call-overload,no-any-return]
            [*end_with_us, *words], stdin=subprocess.DEVNULL, cwd=self.place, env=environment, **streams, **user
        )

    def _wait_until_it_answers(self) -> None:
        import psycopg

        while True:
            if self._running().poll() is not None:
                log = (self.place / "log").read_text(errors="replace").strip().splitlines()
                raise NoServer(f"PostgreSQL did not start: {log[-1:]}")
            try:
                psycopg.connect(self.address(), connect_timeout=5).close()
            except psycopg.OperationalError:
                time.sleep(0.02)
            else:
                return


def find_programs() -> Path:
    """Find the newest PostgreSQL of the system's packages, or the one on the path."""
    found = [
        path.parent for folder in FOLDERS for path in Path(folder).parent.glob(f"{Path(folder).name}*/**/bin/initdb")
    ]
    if found:
        return max(found, key=lambda path: [int(part) for part in path.parts if part.isdigit()])
    on_path = shutil.which("initdb")
    if on_path is None:
        raise NoServer("PostgreSQL is not installed (Debian: apt install postgresql)")
    return Path(on_path).resolve().parent


def find_owner() -> pwd.struct_passwd | None:
    """Find who runs the server where root may not; None for whoever we are."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise NoServer("root may not run PostgreSQL, and there is no user postgres or nobody")


def find_free_port() -> int:
    """Find a port of the loopback address that nobody uses now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def find_children(process: int) -> list[int]:
    """List the processes that a process started, as Linux tells them."""
    listed = Path(f"/proc/{process}/task/{process}/children")
    return [int(child) for child in listed.read_text().split()] if listed.exists() else []


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """One server for all tests of a session."""
    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'sudare[postgres]'")
    try:
        server = PostgresServer()
    except NoServer as reason:
        pytest.skip(str(reason))
    try:
        yield server
    finally:
        server.remove()
