"""The unit of systemd and the container file of the how-to: what they run is run here, as far as that can be."""

from __future__ import annotations

import configparser
import json
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tomllib
from pathlib import Path

import httpx
import pytest

from sudare.studio.desk.store import DeskStore
from tests.processes import start

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "docs/how-to/desk.md", ROOT / "docs/how-to/desk.ja.md"]
NAME = "desk.example.org"
SECONDS = 120.0  # on a busy machine; a test that ends well never waits so long


def find_block(page: Path, language: str) -> str:
    """The one block of a language on a page."""
    (block,) = re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    return str(block)


def read_unit(page: Path) -> configparser.ConfigParser:
    """The unit of systemd on a page."""
    unit = configparser.ConfigParser()
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(find_block(page, "ini"))
    return unit


def list_commands(page: Path) -> list[list[str]]:
    """What the unit and the container run, from the word `desk` on."""
    unit = shlex.split(read_unit(page)["Service"]["ExecStart"])
    (line,) = re.findall(r"^CMD (\[.*\])$", find_block(page, "dockerfile"), re.MULTILINE)
    container = json.loads(line)
    assert unit[0].endswith("/sudare")
    assert container[0] == "sudare"
    return [unit[1:], container[1:]]


def find_free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@pytest.mark.parametrize("page", PAGES, ids=["en", "ja"])
def test_what_they_run_serves_the_desk_under_its_name_alone(page: Path, tmp_path: Path) -> None:
    DeskStore.create(tmp_path / "desk")
    for command in list_commands(page):
        port = find_free_port()
        words = [{"/srv/desk": str(tmp_path / "desk"), "8400": str(port)}.get(word, word) for word in command]
        assert words != command
        served = start([sys.executable, "-m", "sudare", *words], stdout=subprocess.PIPE)
        try:
            assert served.stdout is not None
            assert str(port) in served.stdout.readline()
            address = f"http://127.0.0.1:{port}/login"
            assert httpx.get(address, headers={"host": NAME}, timeout=SECONDS).status_code == 200
            assert httpx.get(address, timeout=SECONDS).status_code >= 400
        finally:
            served.terminate()
            served.communicate()


@pytest.mark.parametrize("page", PAGES, ids=["en", "ja"])
def test_the_unit_is_closed_and_the_container_installs_extras_that_exist(page: Path) -> None:
    service = read_unit(page)["Service"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (wanted,) = re.findall(r'pip install "sudare\[([\w,]+)\]"', find_block(page, "dockerfile"))
    assert service["User"] != "root"
    assert {service[key] for key in ("NoNewPrivileges", "PrivateTmp", "ProtectHome")} == {"yes"}
    assert service["ProtectSystem"] == "strict"
    assert set(wanted.split(",")) <= set(project["optional-dependencies"])
    assert re.search(r"^USER 10001$", find_block(page, "dockerfile"), re.MULTILINE)


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not here")
    text = find_block(PAGES[0], "ini").replace("/opt/sudare/bin/sudare", sys.executable)
    text = text.replace("User=sudare-desk\n", "").replace("After=network.target\n", "")
    (tmp_path / "sudare-desk.service").write_text(text, encoding="utf-8")
    checked = subprocess.run(
        [program, "verify", "--recursive-errors=no", str(tmp_path / "sudare-desk.service")],
        capture_output=True,
        text=True,
        check=False,
    )
    told = [line for line in checked.stderr.splitlines() if "sudare-desk.service" in line]
    assert not told
