"""`constraints.txt` pins every package that an install for work brings, so that a fresh clone gets the tested ones."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
PINNED = re.compile(r"^([A-Za-z0-9._-]+)==", flags=re.MULTILINE)


def plain(name: str) -> str:
    """A name of a package as indexes compare them."""
    return re.sub(r"[-_.]+", "-", name).lower()


def required(package: str, extras: frozenset[str] = frozenset()) -> list[Requirement]:
    """What a package requires with some extras on this Python; nothing where it is not installed."""
    try:
        listed = [Requirement(line) for line in requires(package) or ()]
    except PackageNotFoundError:
        return []
    return [
        need
        for need in listed
        if need.marker is None or any(need.marker.evaluate({"extra": extra}) for extra in (*extras, ""))
    ]


def test_every_package_of_the_tests_is_pinned_and_what_it_requires_too() -> None:
    waiting = required("sudare", frozenset({"dev"}))
    found: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        need = waiting.pop()
        key = plain(need.name), frozenset(need.extras)
        if key not in found:
            found.add(key)
            waiting += required(need.name, frozenset(need.extras))
    pinned = {plain(name) for name in PINNED.findall((ROOT / "constraints.txt").read_text(encoding="utf-8"))}

    assert len(found) > 50
    assert sorted({name for name, _ in found} - pinned - {"sudare"}) == []
