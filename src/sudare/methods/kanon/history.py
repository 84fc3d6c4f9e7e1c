"""The history of a table: which groupings reached which k, measured by the steward. The paper's table C, as a file.

The file has one JSON object a line and stays with the steward. What it says of a request is in predict.py.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import numpy as np

from sudare.atomic import held_file, replace_file
from sudare.errors import SourceError
from sudare.forms.jsontext import read_json
from sudare.forms.textfile import check_file, read_text
from sudare.methods.kanon.lattice import Lattice, Node
from sudare.methods.kanon.problem import CheckedNode
from sudare.methods.kanon.tuples import Tuples

FORMAT = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Measurement:
    """One measurement: with these groupings the smallest class has k rows, of so many rows in all.

    `groupings` name a level, lists of codes, or None for every attribute; attributes not named are left out. It tells
    of the table only what k tells; it stays with the steward.
    """

    schema: str
    groupings: Mapping[str, Any]
    cells: int
    k: int
    rows: int
    kind: Literal["measured", "released"] = "measured"
    time: str = ""

    def to_json(self) -> str:
        """Write the measurement as one line."""
        facts = {
            "format": FORMAT,
            "kind": self.kind,
            "schema": self.schema,
            "groupings": dict(self.groupings),
            "cells": self.cells,
            "k": self.k,
            "rows": self.rows,
            "time": self.time or datetime.now(UTC).isoformat(timespec="seconds"),
        }
        return json.dumps(facts, ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True, kw_only=True)
class History:
    """The file with what it held when it was opened; adding to it goes to the file at once."""

    path: Path
    measurements: tuple[Measurement, ...] = ()

    @classmethod
    def open(cls, path: str | Path) -> History:
        """Read a history, and see that it can be added to: a release must not fail after it is written."""
        check_history(path)
        return cls(path=Path(path), measurements=tuple(read_history(path)))

    @property
    def pairs_path(self) -> Path:
        """Where the counts of pairs are kept, beside the history."""
        return pairs_beside(self.path)

    @property
    def classes_path(self) -> Path:
        """Where the classes of the releases are kept, beside the history."""
        return self.path.with_name(f"{self.path.name}.classes")

    def hold(self) -> contextlib.AbstractContextManager[None]:
        """Let one run at a time compare itself with the earlier releases and be added to them."""
        return held_file(self.path, error=SourceError)

    def add(self, measurements: Iterable[Measurement]) -> None:
        """Write measurements down; the file is replaced as a whole."""
        add_to_history(self.path, measurements)


def pairs_beside(path: str | Path) -> Path:
    """Tell where the counts of pairs of a history are kept."""
    place = Path(path)
    return place.with_name(f"{place.name}.pairs")


def read_history(path: str | Path) -> list[Measurement]:
    """Read a history; a file that is not there is an empty one.

    Error: SourceError with the line for a file that is none, or of a newer format.
    """
    place = Path(path)
    if not os.path.lexists(place):
        return []
    lines = read_text(place, error=SourceError).splitlines()
    return [_read_line(line, number, place) for number, line in enumerate(lines, 1) if line.strip()]


def _read_line(line: str, number: int, place: Path) -> Measurement:
    try:
        facts = read_json(line)
        if facts.pop("format") != FORMAT:
            raise ValueError
        measurement = Measurement(**facts)
        counts = (measurement.cells, measurement.k, measurement.rows)
        are_whole = all(isinstance(count, int) and count >= 0 for count in counts)
        if not are_whole or not isinstance(measurement.groupings, dict):
            raise ValueError
    except (ValueError, KeyError, TypeError, AttributeError):
        raise SourceError(
            "line {line} of {file} is not a line of a history; restore the file, or begin a new one",
            line=number,
            file=place,
        ) from None
    return measurement


# What a damaged archive of arrays raises when it is read.
UNREADABLE = (
    ArithmeticError, EOFError, IndexError, KeyError, MemoryError, NotImplementedError, OSError, TypeError, ValueError,
    zipfile.BadZipFile, zlib.error,
)  # fmt: skip
MOST_UNPACKED_BYTES = 2**31  # of the arrays beside a history: a thousand releases of a million classes each


@contextlib.contextmanager
def open_arrays(path: str | Path) -> Iterator[np.lib.npyio.NpzFile]:
    """Open the arrays that are kept beside a history: an ordinary file that unpacks to a bounded size.

    Error: FileNotFoundError; one of `UNREADABLE`, also later, when an array is read.
    """
    place = Path(path)
    if os.path.lexists(place):
        check_file(place, error=SourceError)
    with place.open("rb") as stream:
        with zipfile.ZipFile(stream) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > MOST_UNPACKED_BYTES:
                raise ValueError("too large")
        stream.seek(0)
        with np.load(stream, allow_pickle=False) as arrays:
            yield arrays


def check_history(path: str | Path) -> None:
    """Refuse a place where no history could be kept, before there is anything to keep."""
    place = Path(path)
    if not place.parent.is_dir():
        raise SourceError("there is no directory {directory}; make it first", directory=place.parent)
    if place.is_dir() or not os.access(place.parent, os.W_OK):
        raise SourceError("the history {file} cannot be written; choose another place", file=place)


def add_to_history(path: str | Path, measurements: Iterable[Measurement]) -> None:
    """Add measurements; the file is replaced as a whole, so that a reader never sees half of them."""
    place = Path(path)
    check_history(place)
    with _lock(place.parent):
        known = {_facts_of(measurement) for measurement in read_history(place)}
        content = read_text(place, error=SourceError) if place.exists() else ""
        new = [measurement for measurement in measurements if _is_new(measurement, known)]
        replace_file(place, content + "".join(f"{measurement.to_json()}\n" for measurement in new), error=SourceError)


def _is_new(measurement: Measurement, known: set[tuple[str, str, int, int]]) -> bool:
    """Tell whether a measurement is to be added: a release always is."""
    return measurement.kind == "released" or _facts_of(measurement) not in known


def _facts_of(measurement: Measurement) -> tuple[str, str, int, int]:
    """What makes two measurements the same."""
    groupings = json.dumps(dict(measurement.groupings), sort_keys=True)
    return measurement.schema, groupings, measurement.k, measurement.rows


@contextlib.contextmanager
def _lock(directory: Path) -> Iterator[None]:
    """Let one writer in at a time, where the system has such locks."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    handle = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


# --- what one run measures --------------------------------------------------------------------------------------------

MAX_SPREAD_NODES = 64  # of each kind, measured beside those that a search checked
MAX_TRACE_NODES = 256  # of those that a search checked: the last ones


def measure_nodes(
    fingerprint: str, tuples: Tuples, lattice: Lattice, *, trace: Iterable[CheckedNode] = (), also: Iterable[Node] = ()
) -> list[Measurement]:
    """Measure the nodes that a search checked (`trace`), those of `also`, and some spread over the lattice.

    Where the spread nodes lie depends on the lattice alone. Each costs one pass over the distinct combinations.
    """
    k_of = {checked.node: checked.k for checked in list(trace)[-MAX_TRACE_NODES:]}
    for node in (*spread_nodes(lattice), *also):
        if node not in k_of:
            k_of[node] = tuples.classes(node).smallest
    return [make_measurement(fingerprint, lattice, node, k=k, rows=tuples.rows) for node, k in k_of.items()]


def make_measurement(
    fingerprint: str,
    lattice: Lattice,
    node: Node,
    *,
    k: int,
    rows: int,
    kind: Literal["measured", "released"] = "measured",
) -> Measurement:
    """Make the measurement of a node."""
    levels = {name: int(level) for name, level in zip(lattice.names, node, strict=True)}
    return Measurement(schema=fingerprint, groupings=levels, cells=lattice.cells(node), k=int(k), rows=rows, kind=kind)


def spread_nodes(lattice: Lattice) -> list[Node]:
    """Choose nodes to measure, the same for every table: attributes alone, in pairs, and all together.

    Of each kind at most 64, spread by an additive recurrence. Few attributes at a time tell how k falls with each of
    them; with all of them k is 1 over most of a large lattice, and tells nothing.

    >>> from sudare.schema import Attribute, TableHierarchy, Values
    >>> tree = TableHierarchy.from_paths([("F", "*"), ("M", "*")])
    >>> spread_nodes(Lattice((Attribute(name="sex", domain=Values(("F", "M")), hierarchy=tree),)))
    [(0,), (1,)]
    """
    if lattice.size <= MAX_SPREAD_NODES:
        return list(lattice.nodes())
    heights, top = lattice.heights, lattice.heights
    alone = [
        (*top[:axis], level, *top[axis + 1 :]) for axis, height in enumerate(heights) for level in range(height + 1)
    ]
    pairs = list(itertools.combinations(range(len(heights)), 2))
    numbers = range(MAX_SPREAD_NODES)
    in_pairs = [spread_levels(top, pairs[number % len(pairs)], number) for number in numbers] if pairs else []
    together = [spread_levels(top, tuple(range(len(heights))), number) for number in numbers]
    return list(dict.fromkeys([top, *alone[:: max(1, -(-len(alone) // MAX_SPREAD_NODES))], *in_pairs, *together]))


def spread_levels(top: Node, axes: tuple[int, ...], number: int) -> Node:
    """Give the node of a number: levels spread over some attributes, the others at the top."""
    ratio, node = _spread_ratio(len(axes)), list(top)
    for power, axis in enumerate(axes, 1):
        node[axis] = int((0.5 + number * ratio**-power) % 1 * (top[axis] + 1))
    return tuple(node)


def _spread_ratio(dimensions: int) -> float:
    """Find the root of x^(d+1) = x + 1, whose powers spread best in d dimensions."""
    root = 2.0
    for _ in range(60):
        root = (1 + root) ** (1 / (dimensions + 1))
    return root
