"""What keeps Spark from starting is told in one line, before a cluster is asked: no Java, an old one, no master."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

import sudare as sd
from sudare.errors import SourceError
from sudare.schema import Attribute, Schema, Values

pytest.importorskip("pyspark", reason="no pyspark; install it with: pip install 'sudare[spark]'")

PETS = Schema(name="pets", attributes=(Attribute(name="pet", domain=Values(("cat", "dog"))),))


def closed_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def write_java(folder: Path, version: str) -> None:
    """A Java that tells its version, as all of them do, on the error stream."""
    java = folder / "java"
    java.write_text(f"#!/bin/sh\necho '{version}' >&2\n")
    java.chmod(0o755)


def refusal(address: str) -> str:
    with pytest.raises(SourceError) as refused:
        sd.open(address, PETS)
    assert "\n" not in str(refused.value)
    return str(refused.value)


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ('openjdk version "11.0.2" 2019-01-15', "is version 11; install a newer one"),
        ('java version "1.8.0_292"', "is version 8; install a newer one"),
        ("a shell that knows no Java", "is version ?; install a newer one"),
    ],
)
def test_an_old_java_is_refused(version: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_java(tmp_path, version)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))

    assert expected in refusal("spark://127.0.0.1:7077/pets")


@pytest.mark.parametrize("home", [None, "no-such-place"])
def test_a_missing_java_is_told_with_what_to_install(
    home: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    if home is not None:
        monkeypatch.setenv("JAVA_HOME", str(tmp_path / home))

    assert "needs Java 17 or newer, and none was found" in refusal("spark://127.0.0.1:7077/pets")


def test_a_master_that_is_not_reachable_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_java(tmp_path, 'openjdk version "17.0.15" 2025-04-15')
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    master = f"spark://127.0.0.1:{closed_port()}"

    assert refusal(f"{master}/pets") == f"no Spark master answers at {master}; check host and port, and that it runs"


@pytest.mark.parametrize(
    "address",
    [
        "spark://127.0.0.1:7077",  # no data
        "spark://127.0.0.1:7077/",
        "spark://127.0.0.1/pets",  # no port
        "spark://user:secret@127.0.0.1:7077/pets",
        "spark://:7077/pets",
        "spark://127.0.0.1:7077/pets?table=pets",  # both
        "spark://127.0.0.1:7077?tabel=pets",  # a slip
        "spark://127.0.0.1:7077/pets#1",
    ],
)
def test_an_address_that_means_nothing_is_refused(address: str) -> None:
    line = refusal(address)

    assert "must be like spark://host:7077/path" in line
    assert "secret" not in line


def test_the_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "sudare.sources.spark", raising=False)
    monkeypatch.setitem(sys.modules, "pyspark", None)

    assert refusal("spark://127.0.0.1:7077/pets").startswith("data on Spark need the package pyspark; install it with")
