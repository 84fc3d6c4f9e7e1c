"""One release from files to files."""

from __future__ import annotations

import contextlib
import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TextIO

import numpy as np

from sudare.atomic import check_new_directory, check_new_file, new_file, write_new_file
from sudare.counts import Countable, Counts
from sudare.errors import ParameterError, ReleaseError, SudareError
from sudare.methods.kanon import KAnonymity, Outcome
from sudare.methods.kanon.criteria import Presence
from sudare.methods.kanon.grant import Granted, grant
from sudare.methods.kanon.history import Measurement, add_to_history, check_history, learn, point_of, read_history
from sudare.methods.kanon.lattice import Lattice
from sudare.methods.kanon.problem import SearchProgress
from sudare.methods.kanon.request import Request
from sudare.methods.kanon.risk import BeforeAfter, compare
from sudare.methods.location import Location
from sudare.methods.location.location import LocationPreview
from sudare.methods.table.maps import with_map
from sudare.methods.view import OpenedView, open_view
from sudare.methods.view.opened import AnswerTable
from sudare.methods.view.sql import split
from sudare.noise import Rng, SeededRng, system_rng
from sudare.privacy import Ledger, Unrecorded
from sudare.releases import Certificate, Release
from sudare.releases.parquet import Format
from sudare.releases.release import FORMATS
from sudare.report.report import report
from sudare.report.shapes import TruthComparison
from sudare.schema import Schema
from sudare.sources import open as open_source
from sudare.sources.table import TableSource
from sudare.text import say


class Publisher(Protocol):
    """What every method can do."""

    def publish(
        self, source: Countable, *, ledger: Ledger | Unrecorded | None = None, rng: Rng | None = None
    ) -> Release:
        """Count, spend, draw, and return the release."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Published:
    """What is told after a release: all of it public."""

    out: Path
    rows: int
    certificate: Certificate
    left: str | None
    budget: str | None

    @property
    def cost(self) -> str:
        """What was charged, in the relation of the ledger."""
        return str(sum(Fraction(spend["cost"]) for spend in self.certificate.spends))

    def to_dict(self) -> dict[str, Any]:
        """Plain values for a program."""
        return {
            "out": str(self.out),
            "rows": self.rows,
            "method": self.certificate.method,
            "guarantee": self.certificate.guarantee,
            "spends": self.certificate.spends,
            "left": self.left,
            "budget": self.budget,
            "ledger_head": self.certificate.ledger_head,
            "private": self.certificate.private,
            "payload": self.certificate.payload,
        }


def publish_release(
    method: Publisher,
    data: str,
    *,
    schema_file: Path,
    out: Path,
    ledger_file: Path | None = None,
    count_column: str | None = None,
    encoding: str | None = None,
    file_format: Format = "parquet",
    memory_limit: str | None = None,
    spill_directory: Path | None = None,
    seed_for_tests: int | None = None,
    progress: Callable[[float], None] | None = None,
) -> Published:
    """Publish a table of a file: everything that can be refused is refused before the spend."""
    check_new_directory(out)
    check_format(file_format)
    if seed_for_tests is not None and ledger_file is not None:
        raise ParameterError(
            "a release with a seed protects nobody and must not spend; leave out the ledger or the seed"
        )
    schema = Schema.read(schema_file)
    schema.require_confirmed()
    rng = system_rng() if seed_for_tests is None else SeededRng(seed_for_tests)
    with _budget(ledger_file) as ledger:
        source = open_source(
            data,
            schema,
            encoding=encoding,
            count_column=count_column,
            memory_limit=memory_limit,
            spill_directory=spill_directory,
            progress=progress,
        )
        keep = {"file_format": file_format, "even_if_not_private": seed_for_tests is not None}
        return _publish(method, source, ledger, rng, out, keep)


def check_format(file_format: str) -> None:
    """Refuse a format that a release cannot be written in, before anything is spent for it."""
    if file_format not in FORMATS:
        raise ParameterError("file_format ({file_format}) must be parquet or csv", file_format=file_format)


def _publish(
    method: Publisher, source: TableSource, ledger: Ledger | Unrecorded, rng: Rng, out: Path, keep: dict[str, Any]
) -> Published:
    """Publish and save; a failure after the spend says that the budget is gone."""
    before = ledger.spent
    try:
        with contextlib.closing(source):
            release = with_map(method.publish(source, ledger=ledger, rng=rng), source.schema)
            certificate = release.save(out, **keep)  # a large table is written through the source
    except (SudareError, OSError, MemoryError) as error:
        raise _told(error, ledger.spent - before) from None
    return Published(
        out=out,
        rows=sum(frame.rows for frame in release.frames.values()),
        certificate=certificate,
        left=str(ledger.left) if isinstance(ledger, Ledger) else None,
        budget=str(ledger.budget) if isinstance(ledger, Ledger) else None,
    )


def _told(error: Exception, spent: Fraction) -> Exception:
    """Add to what went wrong that the budget is gone, if it is."""
    if not spent:
        return error
    reason = error if isinstance(error, SudareError) else type(error).__name__
    return ReleaseError("{reason} (epsilon {spent} was spent before that, and stays spent)", reason=reason, spent=spent)


@contextlib.contextmanager
def _budget(ledger_file: Path | None) -> Iterator[Ledger | Unrecorded]:
    if ledger_file is None:
        yield Unrecorded()
        return
    with Ledger.open(ledger_file) as ledger:
        yield ledger


# One k-anonymous release from files to files, and what the steward is told about it.


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
    searched: Callable[[SearchProgress], None] | None = None,
    **reading: Any,
) -> PublishedKanon:
    """Publish a table of a file; with a request, the first of its wishes that keeps the promise.

    `reading` is what `sudare.open` takes. `register_file` has a row for every person of the population, with the
    quasi-identifiers as columns; `searched` is told how far the search is. The history learns what was measured, and,
    after the release is whole, that there was one.
    """
    check_new_directory(out)
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


def _history(history_file: Path) -> list[Measurement]:
    """Read the history, and see that it can be added to: a release must not fail after it is written."""
    check_history(history_file)
    return read_history(history_file)


def _remember(history_file: Path | None, points: Iterable[Measurement]) -> None:
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


def _learned(schema: Schema, outcome: Outcome) -> list[Measurement]:
    """What a run teaches: every node it looked at and some more, and that there was a release."""
    pieces, found = outcome.recoded.pieces, outcome.found
    smallest = int(outcome.recoded.class_sizes.min(initial=pieces.rows))
    if found is None:
        fingerprint = schema.fingerprint
        return [Measurement(schema=fingerprint, groupings={}, cells=0, k=smallest, rows=pieces.rows, kind="released")]
    lattice = Lattice(pieces.attributes[: pieces.quasi])
    points = learn(schema.fingerprint, pieces.tuples(), lattice, trace=found.trace, also=(found.node,))
    released = point_of(schema.fingerprint, lattice, found.node, k=smallest, rows=pieces.rows, kind="released")
    return [*points, released]


def _seen_before(schema: Schema, history: list[Measurement]) -> list[str]:
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


# A location release from a map file to files, and a map to try it on.


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedLocation:
    """What is told after a location release: all of it public."""

    out: Path
    told: LocationPreview
    certificate: Certificate

    def to_dict(self) -> dict[str, Any]:
        """Plain values for a program."""
        return {
            "out": str(self.out),
            "method": self.certificate.method,
            "guarantee": self.certificate.guarantee,
            "measures": self.certificate.measures,
            "warnings": self.told.warnings,
            "private": self.certificate.private,
            "payload": self.certificate.payload,
        }


def publish_location(
    map_file: Path,
    *,
    out: Path,
    file_format: Format = "parquet",
    progress: Callable[[float], None] | None = None,
    **parameters: Any,
) -> PublishedLocation:
    """Build and certify the mechanism of a map file, and save it; no table, no ledger, no draw."""
    check_new_directory(out)
    check_format(file_format)
    method = Location.of_map(map_file, **parameters)
    told, release = method.certified(progress=progress)
    return PublishedLocation(out=out, told=told, certificate=release.save(out, file_format=file_format))


# What the edges ask of a stored view: answers to statements, and files of records.


Progress = Callable[[float], None]


def ask(directory: Path, text: str, *, level: float, many: bool) -> list[tuple[str, AnswerTable]]:
    """Answer one statement, or every statement of a text."""
    view = open_view(directory)
    statements = split(text) if many else [text]
    return [(statement, view.sql(statement, level=level)) for statement in statements]


def write_sample(
    directory: Path, size: int, out: Path | TextIO, *, seed: int | None = None, progress: Progress | None = None
) -> None:
    """Write records as CSV, chunk by chunk; a file appears whole or not at all."""
    view = open_view(directory)
    rng = system_rng() if seed is None else SeededRng(seed)
    if not isinstance(out, Path):
        _stream(view, size, out, rng, progress)
        return
    with new_file(out) as temporary, temporary.open("w", encoding="utf-8", newline="") as stream:
        _stream(view, size, stream, rng, progress)


def _stream(view: OpenedView, size: int, stream: TextIO, rng: Rng, progress: Progress | None) -> None:
    attributes = view.schema.attributes
    fields = [[_field(label) for label in one.labels(np.arange(one.size)).tolist()] for one in attributes]
    records = view.records(size, rng=rng)  # refuses a size before anything is written
    stream.write(",".join(_field(one.name) for one in attributes) + "\n")
    done = 0
    for codes in records:
        columns = [np.array(texts, dtype=object)[codes[:, place]].tolist() for place, texts in enumerate(fields)]
        stream.write("\n".join(map(",".join, zip(*columns, strict=True))) + "\n")
        done += len(codes)
        if progress is not None:
            progress(done / max(size, 1))


def _field(label: str | None) -> str:
    """A label as a field of CSV, quoted where it must be."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow([label])
    return line.getvalue() if label is not None else ""


# A report of a release, from files to one page; with the true table for the steward alone.


def write_report(
    directory: Path, out: Path, *, truth: str | None = None, schema_file: Path | None = None, **reading: Any
) -> None:
    """Write the page of a release; it appears whole or not at all.

    `truth` is the table that was published, `reading` what `sudare.open` takes to read it.
    """
    _check(directory, out, truth, schema_file)
    release = Release.load(directory)
    told = None if truth is None else compared(release, truth, schema_file, reading)
    write_page(out, report(release, directory, truth=told))


def _check(directory: Path, out: Path, truth: str | None, schema_file: Path | None) -> None:
    if truth is None and schema_file is not None:
        raise ParameterError("--schema goes with --truth: without the true table only the release is read")
    check_new_file(out)
    if out.parent.resolve() == directory.resolve():
        raise ReleaseError(
            "{target} is inside the release, whose files are those its certificate names; choose a place outside",
            target=out,
        )


def compared(release: Release, truth: str, schema_file: Path | None, reading: dict[str, Any]) -> TruthComparison:
    """Hold a release against the table it was made from: for the steward alone."""
    from sudare.compare.truth import compare_counts, compare_view
    from sudare.methods.kanon.compare import compare_classes

    match release.certificate.method:
        case "location":
            raise ParameterError("a location release is made from a map, not from a table; leave out --truth")
        case "kanon":
            return compare_classes(release, truth, schema_file, reading)
        case "view":
            return compare_view(release, truth, schema_file, reading)
        case _:
            return compare_counts(release, truth, schema_file, reading)


def write_page(out: Path, page: str) -> None:
    """Write a page whole or not at all; a file that exists is refused."""
    write_new_file(out, page)
