"""The use cases that the command line, the studio and Python share: files and values go in, values come out.

Nothing is printed here, and no method is known by name: what a method takes, promises and tells it says itself.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from sudare.atomic import check_new_file, new_file, reserved_directory, write_new_file
from sudare.errors import ParameterError, ReleaseError, SourceError, SudareError
from sudare.methods.base import Made, Method, Plan, Progress, Summary
from sudare.methods.registry import method_of
from sudare.noise import SeededRng, system_rng
from sudare.privacy import Ledger, Promise, ReleaseAccount, Unrecorded
from sudare.privacy.exact import write_exact
from sudare.privacy.signatures import SigningKey, find_key
from sudare.releases import Certificate, Release
from sudare.releases.files import DAMAGED, digest
from sudare.releases.parquet import Format
from sudare.releases.release import FORMATS
from sudare.report.report import render_report as render
from sudare.report.shapes import Listing, TruthComparison
from sudare.schema import Schema
from sudare.scratch import find_place
from sudare.sources import check_new_tables, write_tables
from sudare.sources import open as open_source
from sudare.text import Text, Words, describe_refusal, text

if TYPE_CHECKING:
    from sudare.asking.answers import AnswerTable

Lines = Sequence[Words | Listing]


# --- publish ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Published:
    """What is told after a release. `summary` may hold what only the steward may see: it says so itself.

    `left` and `budget` are those of the ledger right after the spends of this release, None where nothing was charged
    to one; `spent` says in words what was charged.
    """

    out: Path
    certificate: Certificate
    summary: Summary
    warnings: Sequence[Words] = ()
    left: Fraction | None = None
    budget: Fraction | None = None
    spent: Text | None = None
    signer: str | None = None  # the fingerprint of the key
    copied: Sequence[Words] = ()  # into tables on a server

    @property
    def rows(self) -> int | None:
        """How many rows were published."""
        return self.summary.rows

    @property
    def cost(self) -> Fraction:
        """What was charged, in the relation of the ledger."""
        return sum((Fraction(spend["cost"]) for spend in self.certificate.spends), Fraction())

    @property
    def lines(self) -> Lines:
        """Everything to tell, in order."""
        certificate, summary = self.certificate, self.summary
        seeded = [] if certificate.private else [text("NOT PRIVATE: made with a seeded generator, for tests only.")]
        return [
            summary.headline,
            text("promise: {statement}", statement=certificate.statement),
            *summary.lines,
            *self.copied,
            *self._spent(),
            *([] if self.signer is None else [text("signed with the key {fingerprint}", fingerprint=self.signer)]),
            *(text("warning: {warning}", warning=warning) for warning in self.warnings),
            *seeded,
            *summary.advice,
        ]

    def _spent(self) -> list[Text]:
        if not self.certificate.spends:
            return []
        if self.left is None:
            return [text("no ledger was given, so no record is kept of the total spent on this table")]
        return [
            text(
                "spent {spent}; {left} of {budget} is left",
                spent=self.spent,
                left=write_exact(self.left),
                budget=write_exact(self.budget or Fraction()),
            ),
            text("head of the ledger: {head} (keep it elsewhere too)", head=self.certificate.ledger_head),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for a program."""
        certificate = self.certificate
        return {
            "out": str(self.out),
            "rows": self.rows,
            "method": certificate.method,
            "guarantee": certificate.guarantee,
            "spends": certificate.spends,
            "left": None if self.left is None else str(self.left),
            "budget": None if self.budget is None else str(self.budget),
            "ledger_head": certificate.ledger_head,
            "measures": certificate.measures,
            "warnings": [str(warning) for warning in self.warnings],
            **({"copied": [str(line) for line in self.copied]} if self.copied else {}),
            "private": certificate.private,
            "signed_with": self.signer,
            "payload": certificate.payload,
            **self.summary.details,
        }


def publish(
    method: Method,
    data: str | Path,
    *,
    out: Path,
    schema_file: Path | None = None,
    ledger_file: Path | str | None = None,
    extras: Mapping[str, Path | str] | None = None,
    file_format: Format = "parquet",
    key: SigningKey | str | Path | None = None,
    seed_for_tests: int | None = None,
    into: str | None = None,
    release_id: str | None = None,
    progress: Progress | None = None,
    **reading: Any,
) -> Published:
    """Publish a table of files, or the mechanism of a map file; what can be refused is refused before the spend.

    `data` is the table, read with the schema of `schema_file`, or the map of a method that takes one. `extras` are the
    method's own files by name; `reading` is what `sudare.open` takes. `key` signs the release: a key, or the file of
    one (default: the file that SUDARE_KEY names); one made with a seed is not signed. `into` names a new table on a
    server to which the published tables are copied when the release is there. `release_id` is the id under which the
    ledger is to know the release (default: a new one), for whoever must find out later whether it was paid for.
    """
    _check_targets(file_format, into)
    signing = _find_signer(key, seed_for_tests)
    with reserved_directory(out), contextlib.ExitStack() as stack:
        facts = read_facts(method, data, schema_file)
        reading = allow_temporary_rows(reading, beside=out)
        opened = open_extras(method, facts, extras or {}, reading)
        ledger = stack.enter_context(_open_ledger(ledger_file))
        plan = method.plan(facts, neighbours=ledger.neighbours, **opened)
        _check_seed(plan, seed_for_tests, ledger_file)
        warnings = method.warn(facts, ledger=ledger if isinstance(ledger, Ledger) else None, **opened)
        opening = partial_open(method, data, facts, {**reading, "progress": progress})
        keep = {"file_format": file_format, "even_if_not_private": seed_for_tests is not None, "key": signing}
        account = ReleaseAccount(ledger, release_id=release_id)
        made, certificate, notes = _perform(method, plan, opening, account, out, seed_for_tests, progress, keep)
        summary = method.summarise(made, out=out)
        return Published(
            out=out,
            certificate=certificate,
            summary=summary,
            warnings=(*warnings, *summary.warnings, *notes),
            copied=() if into is None else copy_into_tables(out, into),
            **_tell_spent(account),
            signer=None if signing is None else signing.public.fingerprint,
        )


def _find_signer(key: SigningKey | str | Path | None, seed: int | None) -> SigningKey | None:
    """Find the key that signs; nobody signs what was made with a seed."""
    if seed is not None:
        return None
    return key if isinstance(key, SigningKey) else find_key(key)


def _check_seed(plan: Plan, seed: int | None, ledger_file: Path | str | None) -> None:
    if plan.parts and seed is not None and ledger_file is not None:
        raise ParameterError(
            "a release with a seed protects nobody and must not spend; leave out the ledger or the seed"
        )


def _check_targets(file_format: str, into: str | None) -> None:
    check_format(file_format)
    if into is not None:
        check_new_tables(into)


def copy_into_tables(directory: Path, address: str) -> list[Text]:
    """Copy the published tables of a release into new tables on a server, all of them in one transaction.

    Their comment names the certificate. Error: ReleaseError; the release stays where it is.
    """
    release = Release.load(directory)
    files = [directory / name for name in release.certificate.payload if Path(name).suffix[1:] in FORMATS]
    if not files:
        raise ReleaseError("{directory} holds no published table that could be copied", directory=directory)
    comment = f"Sudare {release.certificate.method}: certificate.json {digest(directory / 'certificate.json')}"
    try:
        written = write_tables(address, files, comment=comment)
    except SourceError as error:
        raise ReleaseError("{reason} (the release itself is in {out})", reason=error, out=directory) from None
    return [text("copied into table {table}: {rows} rows", table=name, rows=rows) for name, rows in written.items()]


def _perform(
    method: Method,
    plan: Plan,
    opening: Callable[[], contextlib.AbstractContextManager[Any]],
    account: ReleaseAccount,
    out: Path,
    seed: int | None,
    progress: Progress | None,
    keep: dict[str, Any],
) -> tuple[Made, Certificate, Sequence[Words]]:
    """Carry out a plan and save the release; a failure after the spend says that the budget is gone.

    Also gives what in the data was not read as rows.
    """
    rng = system_rng() if seed is None else SeededRng(seed)
    try:
        with method.hold(plan):
            with opening() as source:
                made = method.perform(source, plan, ledger=account, rng=rng, progress=progress)
                keep["ledger"] = _find_charged(account)
                certificate = made.release.save(out, **keep)  # a large table is written through the source
                notes = tuple(getattr(source, "notes", ()))
            method.remember(made)
    except (SudareError, OSError, MemoryError) as error:
        raise _name_the_loss(error, account) from None
    return made, certificate, notes


def _tell_spent(account: ReleaseAccount) -> dict[str, Any]:
    """Tell what was charged, and what was left right after it: what others spend meanwhile is not in these sums."""
    ledger = _find_charged(account)
    if ledger is None:
        return {}
    total = account.spends[-1].total or Fraction()
    return {"left": ledger.budget - total, "budget": ledger.budget, "spent": account.describe_spent()}


def _find_charged(account: ReleaseAccount) -> Ledger | None:
    """Find the ledger that was charged: it keeps the hash of the certificate."""
    return account.ledger if account.spends and isinstance(account.ledger, Ledger) else None


def _name_the_loss(error: Exception, account: ReleaseAccount) -> Exception:
    """Add to what went wrong that the budget is gone, if it is."""
    if not account.spends:
        return error
    reason: object = describe_refusal(error) if isinstance(error, OSError) else type(error).__name__
    reason = error if isinstance(error, SudareError) else reason
    return ReleaseError(
        "{reason} ({spent} was spent before that, and stays spent)", reason=reason, spent=account.describe_spent()
    )


def allow_temporary_rows(reading: Mapping[str, Any], *, beside: Path) -> dict[str, Any]:
    """Say where rows may be written while a table is read: where the steward named a place, else beside the output."""
    return {**reading, "spill_directory": find_place(reading.get("spill_directory"), beside)}


def check_format(file_format: str) -> None:
    """Refuse a format that a release cannot be written in, before anything is spent for it."""
    if file_format not in FORMATS:
        raise ParameterError("file_format ({file_format}) must be parquet or csv", file_format=file_format)


def read_facts(method: Method, data: str | Path, schema_file: Path | None) -> Any:
    """Read the public facts that a plan starts from: the map that is given as data, or a schema, which is confirmed."""
    if method.takes == "map":
        return method.read_facts(data)
    if schema_file is None:
        raise ParameterError("a table needs a schema file, which says what may be known about it; give one")
    schema = method.read_facts(schema_file)
    schema.require_confirmed()
    return schema


def open_extras(
    method: Method, facts: Any, extras: Mapping[str, Path | str], reading: Mapping[str, Any]
) -> dict[str, Any]:
    """Open the method's own files; tables are read as the data is, but one row is one row there."""
    told = {name: value for name, value in reading.items() if name != "count_column"}

    def open_table(path: str, schema: Schema) -> Any:
        return open_source(path, schema, **told)

    return {name: method.open_extra(name, path, facts, open_table=open_table) for name, path in extras.items()}


def partial_open(
    method: Method, data: str | Path, facts: Any, reading: Mapping[str, Any]
) -> Callable[[], contextlib.AbstractContextManager[Any]]:
    """Say how the input is opened: a map is its own facts, a table is opened through its schema."""
    if method.takes == "map":
        return lambda: contextlib.nullcontext(facts)
    return lambda: contextlib.closing(open_source(data, facts, same_rows=method.same_rows, **reading))


@contextlib.contextmanager
def _open_ledger(ledger_file: Path | str | None) -> Iterator[Ledger | Unrecorded]:
    if ledger_file is None:
        yield Unrecorded()
        return
    with Ledger.open(ledger_file) as ledger:
        yield ledger


# --- preview ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Previewed:
    """What is known before the data: the promise, and what to expect."""

    promise: Promise
    expected: Lines
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def lines(self) -> Lines:
        """Everything to tell, in order."""
        return [self.promise.describe(), *self.expected]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for a program."""
        return {"guarantee": self.promise.to_dict(), **self.details}


def preview(
    method: Method,
    facts_file: str | Path,
    *,
    rows: tuple[int, ...] = (),
    extras: Mapping[str, Path | str] | None = None,
    progress: Progress | None = None,
    announce: Callable[[Text], None] | None = None,
) -> Previewed:
    """Tell promise and expected error of a release from its schema file or map file; no table is opened or spent on.

    `extras` are public files of the method by name, such as areas; `announce` is told before long work that it is long.
    """
    facts = method.read_facts(facts_file)
    words = method.announce(facts) if announce is not None else None
    if announce is not None and words is not None:
        announce(words)
    opened = open_extras(method, facts, extras or {}, {})
    found = method.preview(facts, rows=rows, progress=progress, **opened)
    return Previewed(
        promise=method.promise(facts), expected=method.explain(found), details=method.preview_entries(found)
    )


# --- a stored release -------------------------------------------------------------------------------------------------


def write_report(
    directory: Path, out: Path, *, truth: str | None = None, schema_file: Path | None = None, **reading: Any
) -> None:
    """Write the page of a release; it appears whole or not at all.

    `truth` is the table that was published, `reading` what `sudare.open` takes to read it.
    """
    _check_report(directory, out, truth, schema_file)
    release = Release.load(directory)
    reading = allow_temporary_rows(reading, beside=out)
    compared = None if truth is None else compare_release(release, truth, schema_file, reading)
    with refuse_damage(directory):
        _check_figures(release.certificate)
        page = render_report(release, directory, truth=compared)
    write_page(out, page)


def _check_figures(certificate: Certificate) -> None:
    """Refuse to show a promise, spends or an error that do not follow from parameters and schema."""
    from sudare.methods.recheck import recheck_plan

    if not certificate.spends:
        return  # only methods that spend for a promise of differential privacy have a plan to compare with
    for claim in recheck_plan(method_of(certificate), certificate):
        if not claim.passed:
            raise ReleaseError(
                "{name}: {detail}; do not use the release, get it again from who made it (`sudare verify` tells more)",
                name=claim.name,
                detail=claim.detail,
            )


@contextlib.contextmanager
def refuse_damage(directory: Path) -> Iterator[None]:
    """Refuse in one line a certificate whose hashes fit but whose entries are not as Sudare writes them.

    What an error means is found out by checking the certificate: if every line of it can be worked out again or is in
    order, it did not cause the error. Then the fault is in Sudare, and is not hidden behind a damaged release.
    """
    try:
        yield
    except DAMAGED:
        if is_sound(directory):
            raise
        raise ReleaseError(
            "the certificate of {directory} is not as Sudare writes it; `sudare verify` tells what is wrong, get the"
            " release again",
            directory=directory,
        ) from None


def is_sound(directory: Path) -> bool:
    """Tell whether all that `sudare verify` works out again is in order."""
    from sudare.verify.checks import verify_release

    try:
        claims = verify_release(directory)
    except (SudareError, *DAMAGED):
        return False
    return all(claim.passed for claim in claims if claim.basis != "stated")


def render_report(release: Release, directory: Path | None = None, *, truth: TruthComparison | None = None) -> str:
    """Write the page of a release as HTML, in the language of the reader; with the truth it is stamped."""
    described = method_of(release.certificate).page(release, directory=directory, truth=truth)
    name = release.certificate.method if directory is None else directory.resolve().name
    return render(release, described, name=name, is_secret=truth is not None)


def _check_report(directory: Path, out: Path, truth: str | None, schema_file: Path | None) -> None:
    if truth is None and schema_file is not None:
        raise ParameterError("--schema needs --truth: without the true table, only the release is read")
    check_new_file(out)
    if out.parent.resolve() == directory.resolve():
        raise ReleaseError(
            "{target} is inside the release, whose files are those its certificate names; choose a place outside",
            target=out,
        )


def compare_release(
    release: Release, truth: str, schema_file: Path | None, reading: Mapping[str, Any]
) -> TruthComparison:
    """Compare a release with the table it was made from: for the steward alone."""
    method = method_of(release.certificate)
    if method.takes == "map":
        raise ParameterError("a location release is made from a map, not from a table; leave out --truth")
    declared = None if schema_file is None else Schema.read(schema_file)
    schema = method.truth_schema(release, declared)
    with contextlib.closing(open_source(truth, schema, same_rows=method.same_rows, **reading)) as source:
        return method.compare(release, source)


def write_page(out: Path, page: str) -> None:
    """Write a page whole or not at all; a file that exists is refused."""
    write_new_file(out, page)


def query(
    directory: Path, statements: str, *, from_records: bool = False, **settings: Any
) -> list[tuple[str, AnswerTable]]:
    """Ask a stored view or table; see `methods.view.questions`. With `from_records` DuckDB asks drawn records."""
    from sudare.methods.view.questions import ask_directory, split_questions

    if not from_records:
        return ask_directory(directory, statements, **settings)
    return ask_records(directory, split_questions(statements, many=settings["many"]), level=settings["level"])


RECORDS = "records"  # the table of a release that holds records, and its name in FROM


def ask_records(
    directory: Path, statements: Sequence[str], *, level: float, seed: int | None = None
) -> list[tuple[str, AnswerTable]]:
    """Let DuckDB answer any SELECT from published records, or from records drawn from a view, without intervals."""
    from sudare.asking.answers import AnswerTable
    from sudare.methods.view import open_view
    from sudare.methods.view.records import record_columns
    from sudare.releases.certificate import describe_cap
    from sudare.sources.records_sql import select_from_columns

    release = Release.load(directory)
    published = release.frames.get(RECORDS)
    if published is not None:
        columns: Mapping[str, Any] = published.decode()
        note = text("asked of {size} published records: these numbers have NO interval", size=published.rows)
    elif release.certificate.method != "view":
        raise ReleaseError(
            "a release made by {method} holds no records; ask it without --records", method=release.certificate.method
        )
    else:
        columns = record_columns(open_view(release), rng=system_rng() if seed is None else SeededRng(seed))
        size = len(next(iter(columns.values())))
        note = text("asked of {size} records drawn from the view: these numbers have NO interval", size=size)
    table = "view" if published is None else RECORDS
    caps = describe_cap(release.certificate)
    found = []
    for statement in statements:
        names, rows = select_from_columns(statement, columns, table=table)
        cells = tuple(tuple(_read_cell(cell) for cell in row) for row in rows)
        found.append((statement, AnswerTable(tuple(names), cells, level, (note, *caps))))
    return found


def _read_cell(cell: Any) -> Any:
    """A cell of DuckDB as one of an answer; numbers of other kinds become floats, all else a text."""
    if cell is None or isinstance(cell, str | bool | int):
        return cell
    try:
        return float(cell)
    except (TypeError, ValueError):
        return str(cell)


def write_sample(
    directory: Path, size: int, out: Path | TextIO, *, seed: int | None = None, progress: Progress | None = None
) -> None:
    """Draw records from a stored view and write them as CSV, chunk by chunk; a file appears whole or not at all."""
    from sudare.methods.view import open_view
    from sudare.methods.view.opened import write_records

    view = open_view(directory)
    rng = system_rng() if seed is None else SeededRng(seed)
    if not isinstance(out, Path):
        write_records(view, size, out, rng=rng, progress=progress)
        return
    with new_file(out) as temporary, temporary.open("w", encoding="utf-8", newline="") as stream:
        write_records(view, size, stream, rng=rng, progress=progress)
