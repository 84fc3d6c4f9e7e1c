"""The faults of faults.toml, read strictly."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One wrong change of the source. `file` is below src/sudare; `old` stands in it exactly once."""

    name: str
    file: str
    old: str
    new: str
    why: str
    tests: tuple[str, ...]


def planted(fault: Fault, text: str) -> str:
    """Put the fault into the text of its file."""
    if text.count(fault.old) != 1:
        raise ValueError(f"{fault.name}: its text stands {text.count(fault.old)} times in {fault.file}, not once")
    return text.replace(fault.old, fault.new)


def _read() -> tuple[Fault, ...]:
    entries = tomllib.loads(Path(__file__).with_name("faults.toml").read_text(encoding="utf-8"))["fault"]
    return tuple(Fault(**{**entry, "tests": tuple(entry["tests"])}) for entry in entries)


FAULTS = _read()
