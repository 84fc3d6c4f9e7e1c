"""One k-anonymous release from files to files, and what the steward is told about it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from sudare.counts import Counts
from sudare.errors import ParameterError
from sudare.evaluate.risk import BeforeAfter, compare
from sudare.mechanisms import Rng, SeededRng
from sudare.messages import say
from sudare.methods.kanon import KAnonymity, Outcome
from sudare.methods.kanon.criteria import Presence
from sudare.methods.kanon.history import Point, add_to_history, check_history, learn, point_of, read_history
from sudare.methods.kanon.lattice import Lattice
from sudare.methods.kanon.problem import Progress
from sudare.methods.kanon.publish_request import Granted, grant
from sudare.methods.kanon.request import Request
from sudare.privacy import Ledger
from sudare.releases import Certificate
from sudare.releases.parquet import Format
from sudare.releases.release import check_place
from sudare.run.publish import check_format
from sudare.schema import Schema
from sudare.sources import open as open_source
from sudare.sources.table import TableSource


@dataclass(frozen=True, kw_only=True, eq=False)
class PublishedKanon:
    """What the steward is told after a release. Risk and warnings are of the true table: not for publication."""

    out: Path
    rows: int
    certificate: Certificate
    comparison: BeforeAfter
    warnings: tuple[str, ...]
    is_optimal: bool | None = None
    gap: float = 0.0
    wish: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values for a program of the steward."""
        return {
            "out": str(self.out),
            "rows": self.rows,
            "method": self.certificate.method,
            "guarantee": self.certificate.guarantee,
            "measures": self.certificate.measures,
            "private": self.certificate.private,
            "payload": self.certificate.payload,
            "wish": self.wish,
            "optimal": self.is_optimal,
            "gap": self.gap,
            "warnings": list(self.warnings),
            "risk": self.comparison.to_dict(),
        }


def publish_kanon(
    method: KAnonymity,
    data: str,
    *,
    schema_file: Path,
    out: Path,
    history_file: Path | None = None,
    request_file: Path | None = None,
    register_file: str | None = None,
    ledger_file: Path | None = None,
    file_format: Format = "parquet",
    seed_for_tests: int | None = None,
    searched: Callable[[Progress], None] | None = None,
    **reading: Any,
) -> PublishedKanon:
    """Publish a table of a file; with a request, the first of its wishes that keeps the promise.

    `reading` is what `sudare.open` takes. `register_file` has a row for every person of the population, with the
    quasi-identifiers as columns; `searched` is told how far the search is. The history learns what was measured, and,
    after the release is whole, that there was one.
    """
    check_place(out)
    check_format(file_format)
    schema = Schema.read(schema_file)
    schema.require_confirmed()
    history = [] if history_file is None else _history(history_file)
    request = None if request_file is None else Request.read(request_file, schema)
    if request is not None and register_file is not None:
        raise ParameterError("a request and a register do not go together; leave one out")
    warnings = (*_seen_before(schema, history), *_in_ledger(ledger_file))
    rng = None if seed_for_tests is None else SeededRng(seed_for_tests)
    save = partial(_saved, out=out, file_format=file_format, rng=rng)
    with contextlib.closing(open_source(data, schema, **reading)) as source:
        if request is None:
            register = None if register_file is None else count_register(register_file, schema, method, reading)
            outcome = method.decide(source, register=register, progress=searched)
            done, points = save(method, source, outcome), _learned(schema, outcome)
        else:
            granted = grant(replace(method, k=max(method.k, request.k)), source, request)
            _remember(history_file, granted.points)  # measured is measured, whatever comes of it
            done = _granted(replace(method, k=max(method.k, request.k)), source, granted, save)
            points = [replace(granted.points[-1], kind="released")]
    _remember(history_file, points)
    return replace(done, warnings=(*warnings, *done.warnings))


def count_register(register_file: str, schema: Schema, method: KAnonymity, reading: Mapping[str, Any]) -> Counts:
    """Count the population over the quasi-identifiers; rows of the register are persons, whatever the table's are."""
    if not any(isinstance(one, Presence) for one in method.criteria):
        raise ParameterError("a register is read for --criteria presence=LOW..HIGH only; give both or neither")
    quasi = method.preview(schema).quasi
    told = {name: value for name, value in reading.items() if name != "count_column"}
    plain = Schema(name=schema.name, attributes=schema.select(quasi).attributes)
    with contextlib.closing(open_source(register_file, plain, **told)) as source:
        return source.count(quasi)


def _granted(
    method: KAnonymity, source: TableSource, granted: Granted, save: Callable[..., PublishedKanon]
) -> PublishedKanon:
    """Publish the wish that is granted; quasi-identifiers that it does not name are dropped."""
    wish, outcome = granted.granted()
    known = {each.name for each in source.schema.attributes if each.role == "quasi"} | set(method.quasi or ())
    without = tuple(name for name in source.schema.names if name in known and name not in wish)
    return save(method, source, outcome, without=without, wish=granted.number)


def _history(history_file: Path) -> list[Point]:
    """Read the history, and see that it can be added to: a release must not fail after it is written."""
    check_history(history_file)
    return read_history(history_file)


def _remember(history_file: Path | None, points: Iterable[Point]) -> None:
    if history_file is not None:
        add_to_history(history_file, points)


def _saved(
    method: KAnonymity,
    source: TableSource,
    outcome: Outcome,
    *,
    out: Path,
    file_format: Format,
    rng: Rng | None,
    without: tuple[str, ...] = (),
    wish: int | None = None,
) -> PublishedKanon:
    release = method.release(source, outcome, rng=rng, without=without)
    certificate = release.save(out, file_format=file_format, even_if_not_private=rng is not None)
    comparison, found = compare(outcome.recoded), outcome.found
    return PublishedKanon(
        out=out,
        rows=comparison.after.rows,
        certificate=certificate,
        comparison=comparison,
        warnings=tuple(one.words() for one in comparison.alike),
        is_optimal=None if found is None else found.is_optimal,
        gap=0.0 if found is None else found.gap,
        wish=wish,
    )


def _learned(schema: Schema, outcome: Outcome) -> list[Point]:
    """What a run teaches: every node it looked at and some more, and that there was a release."""
    pieces, found = outcome.recoded.pieces, outcome.found
    smallest = int(outcome.recoded.class_sizes.min(initial=pieces.rows))
    if found is None:
        fingerprint = schema.fingerprint
        return [Point(schema=fingerprint, groupings={}, cells=0, k=smallest, rows=pieces.rows, kind="released")]
    lattice = Lattice(pieces.attributes[: pieces.quasi])
    points = learn(schema.fingerprint, pieces.tuples(), lattice, trace=found.trace, also=(found.node,))
    released = point_of(schema.fingerprint, lattice, found.node, k=smallest, rows=pieces.rows, kind="released")
    return [*points, released]


def _seen_before(schema: Schema, history: list[Point]) -> list[str]:
    """Say that k-anonymity does not compose, where the history knows of a release of the same schema."""
    before = sum(point.kind == "released" and point.schema == schema.fingerprint for point in history)
    if not before:
        return []
    return [
        say(
            "earlier releases of this table in the history: {count}. k-anonymity does not compose: two releases"
            " together can show what each hides; consider them together before this one leaves",
            count=before,
        )
    ]


def _in_ledger(ledger_file: Path | None) -> list[str]:
    if ledger_file is None:
        return []
    with Ledger.open(ledger_file) as ledger:
        spends = len(ledger.entries())
    if not spends:
        return [say("the ledger was not charged: k-anonymity has no epsilon, and a ledger cannot bound what it tells")]
    return [
        say(
            "the ledger holds {count} spends on this table: its promise does not cover a k-anonymous release of the"
            " same rows, which tells more than any epsilon",
            count=spends,
        )
    ]
