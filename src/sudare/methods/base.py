"""The door: what a method is, and `publish`, written once for all of them.

A method is a frozen dataclass whose fields are its parameters. It gives

    plan(facts, neighbours=...)       from public facts alone: promise, parts to spend, expected error, refusals
    make(counts, plan, rng=...)       the private step; nothing else sees counts
    explain, page, compare, ...       its words, its report, its comparison with the truth: good defaults stand here

and `publish` does the rest, in this order: plan, count, check, spend, make, certify. Nothing is refused after the
count for a reason that is not public, nothing is drawn before the spend, nothing is written before all is made.
A method is found by its name (`registry.py`); its parameters are told to the edges by `parameters.py`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast

from sudare.counts import Countable, Counts
from sudare.counts.relabelling import Recodable
from sudare.errors import ParameterError
from sudare.forms import Key
from sudare.forms.kinds import FilePath
from sudare.methods.certify import compare_parameters, compare_promises, describe_difference, to_plain, versions
from sudare.methods.figures import write_figure
from sudare.methods.parameters import (
    ExtraFile,
    Parameter,
    Renaming,
    check_parameters,
    parameters_of,
    write_parameters,
)
from sudare.noise import Rng, system_rng
from sudare.privacy import (
    Account,
    DifferentialPrivacy,
    Ledger,
    Neighbours,
    Promise,
    Spend,
    Unrecorded,
)
from sudare.releases import Certificate, Frame, Release
from sudare.releases.certificate import describe_error, tell_day
from sudare.schema import Schema, Unit
from sudare.text import Text, Words, text

if TYPE_CHECKING:
    from sudare.releases.claims import CheckedClaim
    from sudare.report.shapes import Listing, ReportPage, TruthComparison

Takes = Literal["counts", "rows", "map"]
Progress = Callable[[float], None]
OpenTable = Callable[[str, Schema], Countable]


# --- what passes through the door -----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a run will do, decided from public facts alone.

    `parts` is what is spent, by purpose; none for a promise that takes nothing from a ledger. `counted` names the
    attributes to count. `finer` is the schema with attributes cut finer, where a method makes use of such counts; a
    source that cannot cut finer counts over `schema`. `decided` holds parameters that were left open, as the
    certificate tells them. `steps` is the method's own: whatever it worked out and `make` needs. `progress` is told how
    far long work is.
    """

    promise: Promise
    schema: Schema | None = None
    parts: Mapping[str, Fraction] = field(default_factory=dict)
    expected_error: Mapping[str, Any] = field(default_factory=dict)
    decided: Mapping[str, object] = field(default_factory=dict)
    counted: tuple[str, ...] = ()
    finer: Schema | None = None
    steps: Any = None
    progress: Progress | None = field(default=None, compare=False, repr=False)

    @property
    def facts(self) -> Schema:
        """The schema of what is published; there is none where a map goes in."""
        if self.schema is None:
            raise ParameterError("this plan has no schema: it was made from a map")
        return self.schema


@dataclass(frozen=True, kw_only=True, eq=False)
class Payload:
    """What the private step made: public tables, writers of other files, figures of what was drawn.

    `plan` is the plan as it turned out, where making it decided more: a promise that spends cannot change any more.
    `steward` is for the steward's eyes; nothing of it enters the release.
    """

    frames: Mapping[str, Frame] = field(default_factory=dict)
    files: Mapping[str, Callable[[Path], object]] = field(default_factory=dict)
    measures: Mapping[str, Any] = field(default_factory=dict)
    plan: Plan | None = None
    steward: Any = field(default=None, repr=False)


@dataclass(frozen=True, kw_only=True, eq=False)
class CountedRows:
    """The private input of a method that takes rows: its counts, and the source that writes them with other labels."""

    counts: Counts | None  # None: the method counts in its own order
    source: Recodable


@dataclass(frozen=True, kw_only=True, eq=False)
class Made:
    """One run: the method, its plan, what the private step made, and the release."""

    method: Method
    plan: Plan
    payload: Payload
    release: Release


@dataclass(frozen=True, kw_only=True)
class Summary:
    """What is told after a release is saved: a headline, more lines or tables, warnings, and plain values."""

    headline: Text
    rows: int | None = None
    lines: Sequence[Words | Listing] = ()
    warnings: Sequence[Text] = ()
    advice: Sequence[Text] = ()
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Expected:
    """The error to expect in one line and as figures, and whether it is small (None: not known).

    `relative` is the standard deviation of a usual answer, as a share of that answer.
    """

    words: Text
    figures: Mapping[str, Any] = field(default_factory=dict)
    is_small: bool | None = None
    relative: float | None = None


@dataclass(frozen=True, kw_only=True)
class PlannedError:
    """The preview of a method that makes none of its own: what its plan expects."""

    figures: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Give plain values."""
        return dict(self.figures)


# --- the door ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Method(metaclass=Renaming):
    """What every method is. Subclasses are frozen dataclasses; fields made by `parameter` are its parameters.

    A method must give `name`, `summary`, `guarantee`, `plan` and `make`. `takes` says what it is made of: "counts" of
    a table, its "rows", which it recodes, or a "map". `preview_rows` says whether its preview makes use of an estimate
    of the number of records: "" (no), "number", or "range" (several numbers).
    """

    name: ClassVar[str]
    summary: ClassVar[Text]
    title: ClassVar[Text | None] = None  # of a page about its release
    takes: ClassVar[Takes] = "counts"
    preview_rows: ClassVar[Literal["", "number", "range"]] = ""
    extra_files: ClassVar[tuple[ExtraFile, ...]] = ()
    same_rows: ClassVar[bool] = False  # a person above the limit of rows keeps the same ones in every release
    asked_as: ClassVar[str] = ""  # the name in FROM by which SQL asks its releases; empty: they cannot be asked
    publish_help: ClassVar[Text | None] = None  # the sentence of `sudare publish NAME --help`
    preview_help: ClassVar[Text | None] = None

    def __post_init__(self) -> None:
        check_parameters(self)

    if not TYPE_CHECKING:  # a reader of types would take every misspelt name for an old one

        def __getattr__(self, name: str) -> Any:
            """Find a parameter by the name it had in the version before."""
            for about in parameters_of(type(self)).values():
                if name in about.old_names:
                    return getattr(self, about.name)
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    # --- told to the edges ------------------------------------------------------------------------------------------

    @classmethod
    def parameters(cls) -> Mapping[str, Parameter]:
        """Tell the parameters by name, in the order of the fields."""
        return parameters_of(cls)

    @classmethod
    def files(cls) -> Mapping[str, Key]:
        """Tell the files that a recipe names for it: its map, and those it reads beside its input."""
        own: dict[str, Key] = {each.name: each for each in cls.extra_files}
        if cls.takes != "map":
            return own
        return {"map": Key(kind=FilePath(example='"coast.toml"'), required=True, help=text("map file (TOML)")), **own}

    @classmethod
    def read_facts(cls, path: str | Path) -> Any:
        """Read the file of public facts that a plan starts from: a schema; a method that takes a map reads that."""
        return Schema.read(path)

    def open_extra(self, name: str, path: Path | str, facts: Any, *, open_table: OpenTable) -> Any:
        """Open one of `extra_files`; its value goes to `plan` by that name. `open_table` opens a table as a source."""
        return path

    # --- before the data --------------------------------------------------------------------------------------------

    def guarantee(self, *, unit: Unit | None = None, neighbours: Neighbours | None = None) -> Promise:
        """Tell the promise before any data is opened."""
        raise NotImplementedError

    def plan(self, facts: Any, /, *, neighbours: Neighbours | None = None) -> Plan:
        """Decide the run from public facts alone: a schema, or the map of a method that takes one.

        Everything that can be refused without the data is refused here. A method with `extra_files` takes what was
        opened of them as further keywords.
        """
        raise NotImplementedError

    def promise(self, facts: Any, /, *, neighbours: Neighbours | None = None) -> Promise:
        """Tell the promise for these public facts."""
        return self.guarantee(unit=facts.unit, neighbours=neighbours)

    def preview(
        self,
        facts: Any,
        /,
        *,
        rows: int | tuple[int, ...] = (),
        neighbours: Neighbours | None = None,
        progress: Progress | None = None,
    ) -> Any:
        """Tell the expected error from public facts, before anything is spent.

        `rows` is a public estimate of the number of records, or several of them, for methods with `preview_rows`.
        """
        return PlannedError(figures=self.plan(facts, neighbours=neighbours).expected_error)

    def announce(self, facts: Any, /) -> Text | None:
        """Tell before a preview that it takes a minute or more; None where it takes seconds."""
        return None

    def explain(self, preview: Any) -> list[Words | Listing]:
        """Tell a preview in lines."""
        return list(describe_error(preview.to_dict()))

    def preview_entries(self, preview: Any) -> dict[str, Any]:
        """Give a preview as plain values, beside the guarantee."""
        return {"expected_error": preview.to_dict()}

    def expect(
        self, facts: Any, /, *, rows: int | None = None, neighbours: Neighbours | None = None
    ) -> Expected | None:
        """Tell the error to expect in one line; None where only a search or the data can tell.

        Here it is that of a cell, where the plan tells its standard deviation.
        """
        figures = self.plan(facts, neighbours=neighbours).expected_error
        if "cell_standard_deviation" not in figures:
            return None
        deviation = write_figure(figures["cell_standard_deviation"])
        return Expected(words=text("a cell is off by {deviation}", deviation=deviation), figures=figures)

    def describe_error(self, facts: Any, /, *, neighbours: Neighbours | None = None) -> Text | None:
        """Tell the error to expect in a line of a plan; None where it takes a search or the data."""
        return None

    # --- with the data ----------------------------------------------------------------------------------------------

    def count(self, source: Any, plan: Plan) -> Any:
        """Count what the plan names: counts, counts with their rows, or nothing for a map."""
        if self.takes == "map":
            return None
        is_finer = plan.finer is not None and hasattr(source, "count_over")
        counts = source.count_over(plan.finer) if is_finer else source.count(plan.counted)
        return counts if self.takes == "counts" else CountedRows(counts=counts, source=source)

    def check(self, counts: Any, plan: Plan) -> None:
        """Refuse what could only fail after the spend; the reason must be public."""

    def make(self, counts: Any, plan: Plan, *, rng: Rng) -> Payload:
        """Turn private counts into what is published: the only step that sees them and draws."""
        raise NotImplementedError

    def publish(
        self,
        source: Any = None,
        *,
        ledger: Account | None = None,
        rng: Rng | None = None,
        progress: Progress | None = None,
        **extras: Any,
    ) -> Release:
        """Plan, count, check, spend, make, certify; an interrupt after the spend leaves it recorded.

        Without a ledger nobody keeps the sum of what is spent; without `rng` the system's randomness is used.
        """
        neighbours = ledger.neighbours if ledger is not None else "replace"
        plan = self.plan(self.facts_of(source), neighbours=neighbours, **extras)
        return self.perform(source, plan, ledger=ledger, rng=rng, progress=progress).release

    def perform(
        self,
        source: Any,
        plan: Plan,
        *,
        ledger: Account | None = None,
        rng: Rng | None = None,
        progress: Progress | None = None,
    ) -> Made:
        """Carry out a plan: count, check, spend, make, certify. Gives also what the steward may see."""
        account: Account = ledger if ledger is not None else Unrecorded()
        randomness = rng if rng is not None else system_rng()
        _check_plan(plan)
        _refuse_same_rows(source, plan)
        watched = dataclasses.replace(plan, progress=progress)
        counts = self.count(source, watched)
        self.check(counts, watched)
        spends = account.spend(plan.parts, guarantee=cast(DifferentialPrivacy, plan.promise)) if plan.parts else ()
        payload = self.make(counts, watched, rng=randomness)
        final = _final_plan(plan, payload)
        certificate = self.certify(final, payload, spends=spends, private=self.takes == "map" or randomness.is_private)
        release = Release(payload.frames, certificate, payload.files)
        return Made(method=self, plan=final, payload=payload, release=release)

    def check_source(self, source: Any, plan: Plan) -> None:
        """Count as the run will, and refuse what it would refuse: what a recipe does before its first spend."""
        self.check(self.count(source, plan), plan)

    def facts_of(self, source: Any) -> Any:
        """Tell the public facts of a source; a draft of a schema that nobody confirmed is refused."""
        if self.takes == "map":
            return source
        source.schema.require_confirmed()
        return source.schema

    def certify(self, plan: Plan, payload: Payload, *, spends: Sequence[Spend], private: bool) -> Certificate:
        """Fill in the certificate; under differential privacy nothing in it comes from the table."""
        facts = {} if plan.schema is None else plan.schema.to_dict()
        return Certificate(
            method=self.name,
            parameters=self.entries(plan),
            guarantee=plan.promise.to_dict(),
            neighbours=plan.promise.neighbours,
            unit=facts.get("unit", {}),
            spends=tuple(tell_day(spend.to_dict()) for spend in spends),  # a time would tell how long it took
            schema=facts,
            expected_error=dict(plan.expected_error),
            measures=dict(payload.measures),
            versions=versions(self.name),
            created=_tell_made_day(spends),
            private=private,
            ledger_head=spends[-1].head if spends else None,
        )

    def entries(self, plan: Plan) -> dict[str, str]:
        """Tell the parameters as the certificate holds them: exact, as text."""
        return write_parameters(self, plan.decided)

    # --- after the release --------------------------------------------------------------------------------------------

    def summarise(self, made: Made, *, out: Path) -> Summary:
        """Tell what was published; called once the release is saved."""
        rows = sum(frame.rows for frame in made.release.frames.values())
        return Summary(headline=text("{rows} rows published in {out}", rows=rows, out=out), rows=rows)

    def warn(self, facts: Any, /, *, ledger: Ledger | None = None) -> list[Text]:
        """Warn the steward: of releases before this one, of a ledger that cannot cover it. Takes what `plan` takes."""
        return []

    def hold(self, plan: Plan) -> contextlib.AbstractContextManager[None]:
        """Hold what the run reads and `remember` adds to, so that no other run decides by it meanwhile."""
        return contextlib.nullcontext()

    def remember(self, made: Made) -> None:
        """Do what comes after the release is whole, such as adding to the steward's notes."""

    @classmethod
    def page(
        cls, release: Release, *, directory: Path | None = None, truth: TruthComparison | None = None
    ) -> ReportPage:
        """Describe the page of a release; with the truth, what is made of it is stamped."""
        from sudare.methods.default import default_page

        return default_page(release, title=cls.title or cls.summary, truth=truth)

    @classmethod
    def truth_schema(cls, release: Release, declared: Schema | None) -> Schema:
        """Tell the schema with which the true table is read for a comparison; `declared` is the steward's file.

        Error: ParameterError or ReleaseError if it does not fit the release.
        """
        from sudare.methods.default import schema_of_release

        return schema_of_release(release, declared)

    @classmethod
    def compare(cls, release: Release, truth: Countable) -> TruthComparison:
        """Compare a release with the table it was made from: for the steward alone."""
        from sudare.methods.default import compare_marginals

        return compare_marginals(release, truth)

    @classmethod
    def recheck(cls, certificate: Certificate, directory: Path) -> list[CheckedClaim]:
        """Work out again what a stored release says, as far as its files tell; `sudare verify` shows it line by line.

        Here promise, spends and expected error from the parameters and the schema, and the labels of all tables. The
        files are those that the certificate names. An error says that the release cannot be as it is.
        """
        from sudare.methods.recheck import recheck_labels, recheck_plan

        return [*recheck_plan(cls, certificate), *recheck_labels(certificate, directory)]

    def differences(self, certificate: Certificate, plan: Plan, *, place: Path) -> list[Text]:
        """Tell in what a finished release differs from what this method would make now; nothing if it is the same.

        `place` is the directory of the release, whose files were checked against the certificate.
        """
        if certificate.method != self.name:
            return [describe_difference("publish", certificate.method, self.name)]
        found = [] if certificate.private else [text("it was made with a seed, for tests")]
        found += compare_parameters(self, certificate, plan)
        found += compare_promises(certificate, self.promised(certificate, plan))
        if plan.schema is not None and certificate.schema != to_plain(self.expected_schema(certificate, plan)):
            found.append(text("the schema differs"))
        return found

    def promised(self, certificate: Certificate, plan: Plan) -> Mapping[str, Any]:
        """Tell the promise that the certificate of a finished release should hold."""
        return plan.promise.to_dict()

    def expected_schema(self, certificate: Certificate, plan: Plan) -> Mapping[str, Any]:
        """Tell the schema that the certificate of a finished release should hold."""
        return plan.facts.to_dict()


def _refuse_same_rows(source: Any, plan: Plan) -> None:
    """Refuse to spend on rows whose choice everybody knows: the bound of a person needs one drawn for this source."""
    if plan.parts and getattr(source, "has_same_rows", False):
        raise ParameterError("same_rows is for k-anonymity only; open the table without it")


def _check_plan(plan: Plan) -> None:
    """Refuse a plan that promises differential privacy and does not pay for it, or pays for something else."""
    if isinstance(plan.promise, DifferentialPrivacy) != bool(plan.parts):
        raise ParameterError("a plan must spend for differential privacy, and for nothing else; please report it")


def _tell_made_day(spends: Sequence[Spend]) -> str:
    """Tell the day of the spend, which is before the draw: today's would tell of a run over midnight how long it took.

    Where nothing is spent it is today, UTC.
    """
    return spends[-1].time[:10] if spends else datetime.datetime.now(datetime.UTC).date().isoformat()


def _final_plan(plan: Plan, payload: Payload) -> Plan:
    """Take the plan as it turned out; what was paid for stays as it was promised."""
    if payload.plan is None:
        return plan
    if plan.parts:
        raise ParameterError("a promise that was paid for cannot be changed while it is kept; please report it")
    return payload.plan
