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

import dataclasses
import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast

import numpy as np

from sudare.counts import Countable, Counts
from sudare.counts.relabelling import Recodable
from sudare.errors import DomainError, ParameterError, SourceError
from sudare.forms import Key
from sudare.forms.kinds import ChoiceOf, ExactNumber, FilePath, NameList
from sudare.methods.certify import compare_parameters, compare_promises, describe_difference, to_plain, versions
from sudare.methods.figures import write_figure
from sudare.methods.parameters import (
    ExtraFile,
    Parameter,
    Renaming,
    check_parameters,
    parameter,
    parameters_of,
    write_parameters,
)
from sudare.noise import Rng, system_rng
from sudare.privacy import (
    Account,
    ConcentratedGuarantee,
    DifferentialPrivacy,
    Guarantee,
    Ledger,
    Neighbours,
    Promise,
    Spend,
    Unrecorded,
    promise_privacy,
)
from sudare.privacy.currency import read_amount
from sudare.privacy.exact import DELTA_HIGH, DELTA_LOW, EPSILON_HIGH, EPSILON_LOW, RHO_HIGH, RHO_LOW, Number
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
    attributes to count. `decided` holds parameters that were left open, as the certificate tells them. `steps` is the
    method's own: whatever it worked out and `make` needs. `progress` is told how far long work is.
    """

    promise: Promise
    schema: Schema | None = None
    parts: Mapping[str, Fraction] = field(default_factory=dict)
    expected_error: Mapping[str, Any] = field(default_factory=dict)
    decided: Mapping[str, object] = field(default_factory=dict)
    counted: tuple[str, ...] = ()
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
        counts = source.count(plan.counted)
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
            created=datetime.datetime.now(datetime.UTC).date().isoformat(),
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


# --- differential privacy -------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class EpsilonMethod(Method):
    """A method under differential privacy with one epsilon, made from counts. Gives `split`, `make`, and `name`.

    Guarantee: epsilon-DP for the declared unit and neighbours, if `make` spends no more than the parts of its plan.
    """

    epsilon: Number = parameter(
        text("epsilon of this release, an exact number such as 1/2 or 0.1; smaller protects more"),
        kind=ExactNumber(low=EPSILON_LOW, high=EPSILON_HIGH, example='"1/2"'),
        metavar="NUMBER",
    )
    neighbours: Neighbours | None = parameter(
        text(
            "which tables are neighbours: one person replaced by another, or one person added or removed (default:"
            " as in the ledger, otherwise replace)"
        ),
        kind=ChoiceOf(("replace", "add-remove")),
        default=None,
    )
    by: tuple[str, ...] | None = parameter(
        text("attributes to publish, separated by commas (default: all)"),
        kind=NameList(example='["age", "sex"]'),
        default=None,
        metavar="NAMES",
    )

    def guarantee(self, *, unit: Unit | None = None, neighbours: Neighbours | None = None) -> Guarantee:
        """Tell the promise before any data is opened."""
        relation = self.neighbours or neighbours or "replace"
        return Guarantee(epsilon=Fraction(self.epsilon), neighbours=relation, unit=unit or Unit())

    def describe_error(self, schema: Schema, /, *, neighbours: Neighbours | None = None) -> Text | None:
        """Tell the noise to expect in a line of a plan."""
        error = self.expect(schema, neighbours=neighbours)
        return None if error is None else text("expected error: {words} (standard deviation)", words=error.words)

    def select(self, schema: Schema) -> Schema:
        """Choose the attributes to publish."""
        return schema if self.by is None else schema.select(self.by)

    def entries(self, plan: Plan) -> dict[str, str]:
        """Tell the parameters as the certificate holds them, with the neighbours that the promise is for."""
        return write_parameters(self, {"neighbours": plan.promise.neighbours, **plan.decided})

    def check(self, counts: Counts, plan: Plan) -> None:
        """Refuse counts over other facts than those promised for, before anything is spent."""
        check_facts(counts, plan.facts)

    def draw(self, counts: Counts, *, neighbours: Neighbours | None = None, rng: Rng) -> Any:
        """Do the private step alone: nothing is spent. Audits call it many times."""
        plan = self.plan(counts.schema, neighbours=neighbours)
        self.check(counts, plan)
        return self.make(counts, plan, rng=rng)

    def observe(self, drawn: Any, counts: Counts) -> list[float]:
        """Read off what `draw` gave the numbers that an audit looks at: the first two cells of the counts, the total.

        Here from a table that was drawn, or from a frame of labels with a column `count` or one row a record.
        """
        if isinstance(drawn, Counts):
            cells = [drawn.values[(drawn.codes == cell).all(axis=1)].sum() for cell in counts.codes[:2]]
            return [*map(float, cells), float(drawn.total)]
        return _observe_frames(drawn, counts)


@dataclass(frozen=True, kw_only=True)
class CurrencyMethod(EpsilonMethod):
    """A method under differential privacy that counts in pure epsilon or in rho, as the steward says.

    Exactly one of `epsilon`, `rho`, and `epsilon` with `delta` is given; the last is the largest rho that keeps both.

    Guarantee: epsilon-DP, or rho-zCDP, for the declared unit and neighbours, if `make` spends no more than its parts.
    """

    epsilon: Number | None = parameter(  # type: ignore[assignment]
        text(
            "epsilon of this release, an exact number such as 1/2 or 0.1; smaller protects more. Pure epsilon, unless"
            " delta is given too"
        ),
        kind=ExactNumber(low=EPSILON_LOW, high=EPSILON_HIGH, example='"1/2"'),
        default=None,
        metavar="NUMBER",
    )
    rho: Number | None = parameter(
        text("rho of this release, in place of epsilon: concentrated differential privacy"),
        kind=ExactNumber(low=RHO_LOW, high=RHO_HIGH, example='"1/50"'),
        default=None,
        metavar="NUMBER",
    )
    delta: Number | None = parameter(
        text(
            "with epsilon: count in rho, and keep this epsilon at this delta; with rho: the delta at which the"
            " certificate tells epsilon (default: 1e-9)"
        ),
        kind=ExactNumber(low=DELTA_LOW, high=DELTA_HIGH, example='"1e-9"'),
        default=None,
        metavar="NUMBER",
    )

    def __post_init__(self) -> None:
        Method.__post_init__(self)
        read_amount(epsilon=self.epsilon, rho=self.rho, delta=self.delta)  # refuses none, and more than one

    def guarantee(  # type: ignore[override]
        self, *, unit: Unit | None = None, neighbours: Neighbours | None = None
    ) -> Guarantee | ConcentratedGuarantee:
        """Tell the promise before any data is opened."""
        relation = self.neighbours or neighbours or "replace"
        return promise_privacy(
            epsilon=self.epsilon, rho=self.rho, delta=self.delta, neighbours=relation, unit=unit or Unit()
        )

    @property
    def amount_flags(self) -> str:
        """Write what the promise counts as flags of the command line, for advice."""
        given = {name: getattr(self, name) for name in ("epsilon", "delta", "rho")}
        return " ".join(f"--{name} {value}" for name, value in given.items() if value is not None)


def check_facts(counts: Counts, schema: Schema) -> None:
    """Refuse counts over other facts than those promised for, before anything is spent."""
    if counts.schema is not schema and counts.schema.fingerprint != schema.fingerprint:
        raise SourceError("the source counts over another schema than it declares; it cannot be trusted")
    if schema.impossible and bool(schema.is_impossible(counts.columns()).any()):
        raise DomainError("rows fall in combinations declared impossible; see `sudare schema check`")


def _observe_frames(payload: Payload, counts: Counts) -> list[float]:
    attributes = counts.schema.attributes
    names = {attribute.name for attribute in attributes}
    frame = next((frame for frame in payload.frames.values() if names <= set(frame.columns)), None)
    if frame is None:
        raise NotImplementedError("no frame has the attributes as columns: give `observe`, which audits look at")
    columns = frame.decode()
    weights = np.asarray(columns.get("count", np.ones(frame.rows)), dtype=np.float64)
    labels = [attribute.labels(counts.columns()[:2, place]) for place, attribute in enumerate(attributes)]
    cells = [
        np.all([columns[one.name] == label[cell] for one, label in zip(attributes, labels, strict=True)], axis=0)
        for cell in range(len(labels[0]))
    ]
    return [*(float(weights[cell].sum()) for cell in cells), float(weights.sum())]


def _check_plan(plan: Plan) -> None:
    """Refuse a plan that promises differential privacy and does not pay for it, or pays for something else."""
    if isinstance(plan.promise, DifferentialPrivacy) != bool(plan.parts):
        raise ParameterError("a plan must spend for differential privacy, and for nothing else; please report it")


def _final_plan(plan: Plan, payload: Payload) -> Plan:
    """Take the plan as it turned out; what was paid for stays as it was promised."""
    if payload.plan is None:
        return plan
    if plan.parts:
        raise ParameterError("a promise that was paid for cannot be changed while it is kept; please report it")
    return payload.plan
