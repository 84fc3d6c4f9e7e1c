"""What `make test` installs of the system: only as root, only what is missing; a failure is told and stops nothing."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.engines.cluster import missing_spark
from tests.servers import FOLDERS, NoServer, find_programs

JAVA_17 = "echo 'openjdk version \"17.0.15\" 2025-04-15' >&2"


class Machine:
    """A machine of stand-ins: nothing on the path but what a test puts there, and a root directory of its own."""

    def __init__(self, folder: Path) -> None:
        self.path, self.root = folder / "bin", folder / "root"
        self.path.mkdir()
        self.root.mkdir()
        for name in ("sh", "ls", "grep", "mkdir"):
            (self.path / name).symlink_to(shutil.which(name) or f"/bin/{name}")

    def add(self, name: str, script: str = "exit 0") -> None:
        program = self.path / name
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)

    def add_apt(self, failing: str = "nothing") -> None:
        self.add("apt-get", f'echo "$@" >>{self.root}/asked\ncase "$*" in *{failing}*) exit 100;; esac')

    def run(self, script: Path, **environment: str) -> str:
        done = subprocess.run(
            ["sh", str(script)], capture_output=True, text=True, check=False,
            env={"PATH": str(self.path), "SUDARE_ROOT": str(self.root), **environment},
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    @property
    def asked(self) -> list[str]:
        """What apt was asked for: the last word of every call."""
        file = self.root / "asked"
        return [line.split()[-1] for line in file.read_text().splitlines()] if file.exists() else []


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.fixture
def script(root: Path) -> Path:
    return root / "tests" / "packages.sh"


def test_a_user_who_is_not_root_is_told_what_is_missing_and_nothing_is_installed(
    machine: Machine, script: Path
) -> None:
    machine.add("id", "echo 1000")
    machine.add_apt()

    told = machine.run(script)
    assert told == "not installed: postgresql default-jre-headless chromium; the tests that need them will be skipped\n"
    assert machine.asked == []


@pytest.mark.parametrize("case", ["refused", "no apt"])
def test_root_who_refuses_or_has_no_apt_is_told_the_same(case: str, machine: Machine, script: Path) -> None:
    machine.add("id", "echo 0")
    if case == "refused":
        machine.add_apt()

    assert machine.run(script, SUDARE_PACKAGES="no" if case == "refused" else "").startswith(
        "not installed: postgresql"
    )
    assert machine.asked == []


def test_root_installs_what_is_missing_and_no_server_is_started(machine: Machine, script: Path) -> None:
    machine.add("id", "echo 0")
    machine.add("java", JAVA_17)
    machine.add_apt()

    assert machine.run(script) == "installing: postgresql chromium\n"
    assert machine.asked == ["-qq", "postgresql", "chromium"]
    settings = machine.root / "etc" / "postgresql-common" / "createcluster.conf"
    assert settings.read_text() == "create_main_cluster = false\n"


@pytest.mark.parametrize("version", ['java version "1.8.0_292"', 'openjdk version "11.0.2" 2019-01-15'])
def test_an_old_java_counts_as_missing(version: str, machine: Machine, script: Path) -> None:
    machine.add("id", "echo 1000")
    machine.add("java", f"echo '{version}' >&2")

    assert "default-jre-headless" in machine.run(script)


def test_nothing_is_done_where_nothing_is_missing(machine: Machine, script: Path) -> None:
    programs = machine.root / "usr" / "lib" / "postgresql" / "15" / "bin"
    programs.mkdir(parents=True)
    (programs / "initdb").touch()
    machine.add("id", "echo 0")
    machine.add("java", JAVA_17)
    machine.add("chromium")
    machine.add_apt()

    assert machine.run(script) == ""
    assert machine.asked == []


def test_a_package_that_cannot_be_had_is_told_and_the_others_are_installed(machine: Machine, script: Path) -> None:
    machine.add("id", "echo 0")
    machine.add_apt(failing="postgresql")

    assert machine.run(script).splitlines()[1:] == [
        "postgresql could not be installed; the tests that need it will be skipped"
    ]
    assert machine.asked == ["-qq", "postgresql", "default-jre-headless", "chromium"]


def test_a_list_of_packages_that_cannot_be_fetched_stops_nothing(machine: Machine, script: Path) -> None:
    machine.add("id", "echo 0")
    machine.add("java", JAVA_17)
    machine.add_apt(failing="update")

    assert "could not be brought up to date" in machine.run(script)
    assert machine.asked == ["-qq", "postgresql", "chromium"]


def test_without_them_tests_say_why_they_are_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyspark")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("tests.servers.FOLDERS", tuple(f"{tmp_path}{folder}" for folder in FOLDERS))

    assert missing_spark().startswith("no Java; install it")
    with pytest.raises(NoServer, match="PostgreSQL is not installed"):
        find_programs()
