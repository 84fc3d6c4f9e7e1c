"""The steward's memory of a table: which groupings held which k. The paper's table C, as a file of JSON lines."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from sudare.atomic import replace_file
from sudare.errors import SourceError
from sudare.methods.kanon.lattice import Lattice, Node
from sudare.methods.kanon.problem import CheckedNode
from sudare.methods.kanon.tuples import Tuples

FORMAT = 1
SPREAD = 64  # nodes of each kind that are measured beside those that a search looked at
MOST_KEPT = 256  # points that one run adds


@dataclass(frozen=True, kw_only=True, slots=True)
class Measurement:
    """One measurement: with these groupings the smallest class held k rows, of so many rows in all.

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
        """Write the point as one line."""
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


def read_history(path: str | Path) -> list[Measurement]:
    """Read a history; a file that is not there is an empty one.

    Error: SourceError with the line for a file that is none, or of a newer format.
    """
    place = Path(path)
    try:
        lines = place.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError):
        raise SourceError("the history {file} cannot be read", file=place) from None
    return [_point(line, number, place) for number, line in enumerate(lines, 1) if line.strip()]


def _point(line: str, number: int, place: Path) -> Measurement:
    try:
        facts = json.loads(line)
        if facts.pop("format") != FORMAT:
            raise ValueError
        point = Measurement(**facts)
        whole = (point.cells, point.k, point.rows)
        if not all(isinstance(one, int) and one >= 0 for one in whole) or not isinstance(point.groupings, dict):
            raise ValueError
    except (ValueError, KeyError, TypeError, AttributeError):
        raise SourceError(
            "line {line} of {file} is no line of a history; restore the file, or begin a new one",
            line=number,
            file=place,
        ) from None
    return point


def check_history(path: str | Path) -> None:
    """Refuse a place where no history could be kept, before there is anything to keep."""
    place = Path(path)
    if not place.parent.is_dir():
        raise SourceError("there is no directory {directory}; make it first", directory=place.parent)
    if place.is_dir() or not os.access(place.parent, os.W_OK):
        raise SourceError("the history {file} cannot be written; choose another place", file=place)


def add_to_history(path: str | Path, points: Iterable[Measurement]) -> None:
    """Add points; the file is replaced as a whole, so that a reader never sees half of them."""
    place = Path(path)
    check_history(place)
    with _locked(place.parent):
        known = {_fact(point) for point in read_history(place)}
        text = place.read_text(encoding="utf-8") if place.exists() else ""
        new = [point for point in points if point.kind == "released" or _fact(point) not in known]
        replace_file(place, text + "".join(f"{point.to_json()}\n" for point in new), error=SourceError)


def _fact(point: Measurement) -> tuple[str, str, int, int]:
    return point.schema, json.dumps(dict(point.groupings), sort_keys=True), point.k, point.rows


@contextlib.contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """One writer at a time, where the system has such locks."""
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


def learn(
    fingerprint: str, tuples: Tuples, lattice: Lattice, *, trace: Iterable[CheckedNode] = (), also: Iterable[Node] = ()
) -> list[Measurement]:
    """Make points of what a search looked at, of the nodes named, and of some spread over the lattice.

    Where the spread nodes lie depends on the lattice alone. Each costs one look at the distinct combinations.
    """
    seen = {step.node: step.k for step in list(trace)[-MOST_KEPT:]}
    for node in (*spread_nodes(lattice), *also):
        if node not in seen:
            seen[node] = tuples.classes(node).smallest
    return [point_of(fingerprint, lattice, node, k=k, rows=tuples.rows) for node, k in seen.items()]


def point_of(
    fingerprint: str,
    lattice: Lattice,
    node: Node,
    *,
    k: int,
    rows: int,
    kind: Literal["measured", "released"] = "measured",
) -> Measurement:
    """Write a node down."""
    levels = {name: int(level) for name, level in zip(lattice.names, node, strict=True)}
    return Measurement(schema=fingerprint, groupings=levels, cells=lattice.cells(node), k=int(k), rows=rows, kind=kind)


def spread_nodes(lattice: Lattice) -> list[Node]:
    """Choose nodes to measure, the same for every table: attributes alone, in twos, and all together.

    Of each kind at most 64, spread by an additive recurrence. Few attributes at a time tell how k falls with each of
    them; with all of them k is 1 over most of a large lattice, and tells nothing.

    >>> from sudare.schema import Attribute, TableHierarchy, Values
    >>> tree = TableHierarchy.from_paths([("F", "*"), ("M", "*")])
    >>> spread_nodes(Lattice((Attribute(name="sex", domain=Values(("F", "M")), hierarchy=tree),)))
    [(0,), (1,)]
    """
    if lattice.size <= SPREAD:
        return list(lattice.nodes())
    heights, top = lattice.heights, lattice.heights
    alone = [
        (*top[:axis], level, *top[axis + 1 :]) for axis, height in enumerate(heights) for level in range(height + 1)
    ]
    pairs = list(itertools.combinations(range(len(heights)), 2))
    twos = [_at(top, pairs[number % len(pairs)], number) for number in range(SPREAD)] if pairs else []
    everything = [_at(top, tuple(range(len(heights))), number) for number in range(SPREAD)]
    return list(dict.fromkeys([top, *alone[:: max(1, -(-len(alone) // SPREAD))], *twos, *everything]))


def _at(top: Node, axes: tuple[int, ...], number: int) -> Node:
    """The node of a number: levels spread over some attributes, the others at the top."""
    root, node = _root(len(axes)), list(top)
    for place, axis in enumerate(axes, 1):
        node[axis] = int((0.5 + number * root**-place) % 1 * (top[axis] + 1))
    return tuple(node)


def _root(dimensions: int) -> float:
    """The root of x^(d+1) = x + 1, whose powers spread best in d dimensions."""
    root = 2.0
    for _ in range(60):
        root = (1 + root) ** (1 / (dimensions + 1))
    return root
