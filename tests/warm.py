"""A `sudare` for tests that start many: a process that has loaded everything forks one for every call.

A call keeps its own process, arguments, environment, directory and open files (they are passed through a socket), so
that pipes, redirections and exit codes are those of a shell. What a call does not show is the start of Python and
the loading of modules: tests of these start a real process.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MOST_BYTES = 1 << 20
NO_ANSWER = 70  # the exit code of a call whose process died without a word

# Runs in less than 20 ms: nothing is imported that Python has not built in.
CLIENT = """\
#!{python} -IS
import _socket, array, os, sys
call = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
call.connect({address!r})
parts = [os.getcwdb(), str(len(sys.argv)).encode(), *map(os.fsencode, sys.argv[1:])]
parts += [name + b"=" + value for name, value in os.environb.items()]
files = array.array("i", [0, 1, 2])
call.sendmsg([b"\\0".join(parts)], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, files)])
sys.exit(int(call.recv(16) or b"{no_answer}"))
"""


@contextlib.contextmanager
def warm_command(place: Path) -> Iterator[Path]:
    """Serve calls as long as the block lasts, from a directory with a `sudare` to put first on the PATH."""
    address = str(place / "calls")
    client = place / "bin" / "sudare"
    client.parent.mkdir()
    client.write_text(CLIENT.format(python=sys.executable, address=address, no_answer=NO_ANSWER))
    client.chmod(0o755)
    command = [sys.executable, "-c", "import sys; from tests.warm import serve; serve(sys.argv[1])", address]
    server = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        if not server.stdout.readline():
            raise RuntimeError("the process that answers calls of sudare ended before it was ready")
        yield client.parent
    finally:
        server.communicate()  # it ends when its input does


def serve(address: str) -> None:
    """Load every module, then answer calls until the input ends."""
    import select

    _load()
    door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    door.bind(address)
    door.listen(64)
    print("ready", flush=True)
    while True:
        readable, _, _ = select.select([door, 0], [], [])
        if 0 in readable:
            break
        call, _ = door.accept()
        if not os.fork():
            _answer(call)
        call.close()
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()


def _load() -> None:
    import importlib
    import pkgutil

    import sudare

    for module in pkgutil.walk_packages(sudare.__path__, "sudare."):
        if not module.name.endswith("__main__"):
            with contextlib.suppress(ImportError):  # what an extra brings
                importlib.import_module(module.name)


def _answer(call: socket.socket) -> None:
    """Become the process of one call."""
    import atexit
    import traceback

    from sudare.cli import main

    code = NO_ANSWER
    try:
        sent, files, _, _ = socket.recv_fds(call, MOST_BYTES, 3)
        place, count, *texts = sent.split(b"\0")
        words, variables = texts[: int(count) - 1], texts[int(count) - 1 :]
        for number, file in enumerate(files):
            os.dup2(file, number)
            os.close(file)
        sys.stdin = os.fdopen(0, closefd=False)
        sys.stdout = os.fdopen(1, "w", closefd=False)
        sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
        os.environb.clear()
        os.environb.update(variable.split(b"=", 1) for variable in variables)
        os.chdir(place)
        sys.argv = ["sudare", *map(os.fsdecode, words)]
        code = main(sys.argv[1:])
        sys.stdout.flush()
        sys.stderr.flush()
        atexit._run_exitfuncs()
    except BaseException:
        traceback.print_exc()
    finally:
        call.send(str(code).encode())
        os._exit(code)
