"""k-anonymity: what is known before the data, the parameters, and the order of count, search and recoding."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar, Literal

from sudare.counts import Countable, Counts
from sudare.counts.relabelling import Recodable
from sudare.errors import Infeasible, ParameterError, SchemaError
from sudare.forms.kinds import ChoiceOf, ExactNumber, FilePath, Seconds, WholeNumber
from sudare.methods.base import CountedRows, Expected, Made, Method, OpenTable, Payload, Plan, Progress, Summary
from sudare.methods.certify import describe_difference
from sudare.methods.figures import as_estimates, write_figure
from sudare.methods.kanon.approve import Approval, approve
from sudare.methods.kanon.criteria import CriteriaList, Criterion, MinimumSize, Presence, read_criteria
from sudare.methods.kanon.history import History
from sudare.methods.kanon.joint import check_joint
from sudare.methods.kanon.lattice import Lattice
from sudare.methods.kanon.preview import KAnonymityPreview
from sudare.methods.kanon.problem import Problem, SearchName, SearchProgress
from sudare.methods.kanon.quality import QUALITIES
from sudare.methods.kanon.recode import Pieces, make_class_checker
from sudare.methods.kanon.relabel import (
    Outcome,
    make_mapping_writer,
    name_levels,
    recode_by_mondrian,
    recode_by_search,
    recode_from_the_top,
)
from sudare.methods.kanon.request import Request
from sudare.methods.kanon.searches import search
from sudare.methods.kanon.steward import (
    StewardOutcome,
    compare_with_earlier,
    keep_counts,
    learn_from,
    summarise_release,
    warn_of_earlier_releases,
    warn_of_ledger,
    watch_search,
)
from sudare.methods.kanon.top_down import ClassRule, Effort
from sudare.methods.kanon.tuples import Tuples
from sudare.methods.parameters import ExtraFile, parameter, write_parameters
from sudare.methods.registry import summary_of
from sudare.noise import Rng, system_rng
from sudare.privacy import Ledger, Neighbours
from sudare.privacy.exact import Number
from sudare.privacy.promise import ClassGuarantee
from sudare.releases import Certificate, Release
from sudare.releases.claims import CheckedClaim
from sudare.report.shapes import Listing, ReportPage, TruthComparison
from sudare.schema import Schema, Unit
from sudare.text import Text, Words, join_clauses, text

# --- the method ------------------------------------------------------------------------------------------------------

Recoding = Literal["full", "value", "local", "mondrian"]
ClassLabels = Literal["hierarchy", "ranges"]
Cutting = Literal["strict", "relaxed"]
RegisterCounts = Counts | Callable[[], Counts]


@dataclass(frozen=True, kw_only=True)
class KAnonymitySteps:
    """What the plan of a k-anonymous release holds: attributes, and the files it was given."""

    quasi: tuple[str, ...]
    sensitive: tuple[str, ...]
    register: RegisterCounts | None = None
    request: Request | None = None
    history: History | None = None

    def count_register(self) -> Counts | None:
        """Count the population, if a register was given."""
        return self.register() if callable(self.register) else self.register


@dataclass(frozen=True, kw_only=True)
class KAnonymity(Method):
    """Publish the table itself, quasi-identifiers generalised so that at least k rows share every combination.

    `recoding`: "full", one level of its hierarchy for every attribute, the best node of the lattice by `quality`;
    "value", from there on every group of values that can stand by itself does; "local", every class has levels of its
    own, which loses least; "mondrian", ranges that need no hierarchy. At most `max_suppressed` of the rows are left
    out; with `local`, they are generalised further instead where that keeps the promise. `criteria` beyond k are
    objects or texts such as "l=3,disease".

    Guarantee: k-anonymity and the criteria, for the published rows of this one release. Proof: proofs/kanon.md
    Error: the loss of each attribute, see `sudare.methods.kanon.risk`.
    Source: Sweeney 2002; Oguri, Sonehara, Matsui, Sarrafi Aghdam 2016

    >>> KAnonymity(k=5, max_suppressed="0.05").guarantee().max_suppressed
    Fraction(1, 20)
    """

    name: ClassVar[str] = "kanon"
    summary: ClassVar[Text] = summary_of("kanon")
    title: ClassVar[Text] = text("Generalised records (kanon), k-anonymity")
    publish_help: ClassVar[Text] = text("Publish DATA itself, values generalised, under k-anonymity.")
    preview_help: ClassVar[Text] = text(
        "Show the size of the search and the columns that stay unchanged, from the schema alone."
    )
    takes = "rows"
    preview_rows = "number"
    extra_files = (
        ExtraFile(
            name="history",
            kind=FilePath(example='"members.history"'),
            help=text("the steward's history file; what this run measures is added to it"),
            content="notes",
        ),
        ExtraFile(
            name="request",
            kind=FilePath(example='"request.toml"'),
            help=text("publish the first option of this request that keeps the promise"),
        ),
        ExtraFile(
            name="register",
            kind=FilePath(example='"people.csv"'),
            help=text("for --criteria presence=LOW..HIGH: a table of the population, one row for each person"),
            content="table",
            metavar="FILE",
        ),
    )

    k: int = parameter(
        text("at least so many rows share every published combination"), kind=WholeNumber(low=2, example="5")
    )
    search: SearchName = parameter(text("how the levels are searched; auto finds the best ones"), default="auto")
    max_suppressed: Number = parameter(
        text("share of the rows that may be left out, such as 0.05"),
        kind=ExactNumber(low=0, high=1, example='"0.05"'),
        default=Fraction(0),
    )
    criteria: tuple[Criterion | str, ...] = parameter(
        text("criteria besides k; may be given several times: l=3,COLUMN; entropy-l=2,COLUMN; t=0.2,COLUMN,ordered"),
        kind=CriteriaList(),
        default=(),
    )
    quality: str = parameter(
        text("the measure of loss by which levels are compared"), kind=ChoiceOf(tuple(QUALITIES)), default="loss"
    )
    recoding: Recoding = parameter(
        text(
            "full: one level for each attribute; value: levels by value; local: levels by class, which loses least;"
            " mondrian: ranges, without hierarchies"
        ),
        default="full",
    )
    effort: Effort = parameter(
        text("quick: in seconds; best: classes are divided anew many times, for a somewhat smaller loss"),
        default="quick",
        used_with={"recoding": ("local",)},
    )
    labels: ClassLabels = parameter(
        text("hierarchy: a class is labelled by groups of the hierarchies; ranges: by the values that it spans"),
        default="hierarchy",
        used_with={"recoding": ("local",)},
    )
    mondrian: Cutting = parameter(
        text("strict: rows with equal values stay in one class; relaxed: they may be divided"),
        default="strict",
        used_with={"recoding": ("mondrian",)},
    )
    local: bool = parameter(
        text("generalise rows that would be left out further, and keep them where that is possible"), default=False
    )
    quasi: tuple[str, ...] | None = parameter(
        text('quasi-identifiers, separated by commas (default: attributes with role = "quasi")'),
        default=None,
        is_certified=False,
    )
    by: tuple[str, ...] | None = parameter(
        text("attributes to publish, separated by commas (default: all)"), default=None, is_certified=False
    )
    joint_k: int | None = parameter(
        text("refuse unless this release and the earlier ones of the history together leave so many rows alike"),
        kind=WholeNumber(low=1, example="5"),
        default=None,
        is_certified=False,
    )
    others: bool = parameter(
        text("also publish columns that the schema does not declare"), default=False, is_certified=False
    )
    deadline_seconds: float | None = parameter(
        text("stop the search after so many seconds, with the best levels so far and a proven gap"),
        kind=Seconds(),
        default=None,
        is_certified=False,
    )

    def __post_init__(self) -> None:
        Method.__post_init__(self)
        if self.deadline_seconds is not None and not self.deadline_seconds > 0:
            raise ParameterError("deadline_seconds ({seconds}) must be above 0", seconds=self.deadline_seconds)
        if self._needs_register and (self.recoding != "full" or self.local):
            raise ParameterError("delta-presence works with recoding full only; leave out local and other recodings")

    @property
    def share(self) -> Fraction:
        """The share of rows that may be left out, exactly."""
        return Fraction(self.max_suppressed)

    @property
    def _searches_levels(self) -> bool:
        """Tell whether a node of the lattice is searched, which every quasi-identifier needs a hierarchy for."""
        return self.recoding in ("full", "value")

    @property
    def _needs_register(self) -> bool:
        return any(isinstance(criterion, Presence) for criterion in self.criteria)

    # --- before the data --------------------------------------------------------------------------------------------

    def guarantee(
        self,
        *,
        unit: Unit | None = None,
        neighbours: Neighbours | None = None,
        quasi: tuple[str, ...] | None = None,
    ) -> ClassGuarantee:
        """Tell the promise before any data is opened; it compares no tables, so `neighbours` do not matter."""
        return ClassGuarantee(
            k=self.k,
            quasi=quasi or self.quasi or (),
            unit=unit or Unit(),
            criteria=tuple(criterion.describe() for criterion in read_criteria(self.criteria)),
            max_suppressed=self.share,
        )

    def promise(self, schema: Schema, /, *, neighbours: Neighbours | None = None) -> ClassGuarantee:
        """Tell the promise for the quasi-identifiers of a schema."""
        return self.guarantee(unit=schema.unit, quasi=self._quasi(schema))

    def plan(
        self,
        schema: Schema,
        /,
        *,
        neighbours: Neighbours | None = None,
        register: RegisterCounts | None = None,
        request: Request | None = None,
        history: History | None = None,
    ) -> Plan:
        """Find the attributes to count; what does not go together is refused.

        `register`, for delta-presence, counts the population over the quasi-identifiers.
        """
        method = self._at_the_k_of(request)
        quasi = method._quasi(schema)
        sensitive = method.sensitive(schema, quasi)
        if method._searches_levels and request is None:
            Lattice.of(schema, quasi)  # refuses a quasi-identifier without hierarchy before the data is read
        if request is not None and register is not None:
            raise ParameterError("a request and a register cannot be used together; leave one out")
        if method._needs_register != (register is not None):
            raise ParameterError(
                "criteria presence=LOW..HIGH and a register, a table of the population, need each other; give"
                " both or neither"
            )
        return Plan(
            promise=method.guarantee(unit=schema.unit, quasi=quasi),
            schema=schema.select(method._published(schema)),
            counted=() if request is not None else (*quasi, *sensitive),
            steps=KAnonymitySteps(
                quasi=quasi, sensitive=sensitive, register=register, request=request, history=history
            ),
        )

    def open_extra(self, name: str, path: Path | str | Request, facts: Schema, *, open_table: OpenTable) -> Any:
        """Open the history, the request, or (when it is counted) the register."""
        if isinstance(path, Request):
            return path
        if name == "history":
            return History.open(path)
        if name == "request":
            return Request.read(path, facts)
        quasi = self._quasi(facts)
        # rows of the register are persons, whatever the table's are
        plain = Schema(name=facts.name, attributes=facts.select(quasi).attributes)
        return lambda: _count(open_table(str(path), plain), quasi)

    def preview(
        self,
        schema: Schema,
        /,
        *,
        rows: int | tuple[int, ...] | None = None,
        neighbours: Neighbours | None = None,
        progress: Progress | None = None,
    ) -> KAnonymityPreview:
        """Tell how large the search is and what stays as it is, from public facts."""
        estimate = min(as_estimates(rows), default=None)
        if estimate is not None and estimate < 0:
            raise ParameterError("rows ({rows}) must be at least 0", rows=estimate)
        quasi, chosen = self._quasi(schema), self._published(schema)
        attributes = [schema.attribute(name) for name in quasi]
        lattice = Lattice.of(schema, quasi) if self._searches_levels else None
        return KAnonymityPreview(
            quasi=quasi,
            unchanged=tuple(name for name in chosen if name not in quasi),
            nodes=None if lattice is None else lattice.size,
            finest=math.prod(attribute.size for attribute in attributes),
            coarsest=1 if lattice is None else lattice.cells(lattice.heights),
            most_cells=None if estimate is None else estimate // self.guarantee(unit=schema.unit).rows,
        )

    def explain(self, preview: KAnonymityPreview) -> list[Words | Listing]:
        """Tell a preview in lines."""
        return [*preview.lines()]

    def preview_entries(self, preview: KAnonymityPreview) -> dict[str, Any]:
        """Give a preview as plain values."""
        return preview.to_dict()

    def expect(self, schema: Schema, /, *, rows: int | None = None, neighbours: Neighbours | None = None) -> Expected:
        """Tell how many combinations there are; whether k can be kept, and at what loss, only the data tell."""
        preview = self.preview(schema, rows=rows)
        finest = write_figure(preview.finest)
        if rows is None or preview.most_cells is None:
            words = text("{finest} combinations are declared", finest=finest)
            return Expected(words=words, figures=preview.to_dict())
        mean = write_figure(rows / preview.finest)
        words = text("{finest} combinations are declared, with {mean} rows each on average", finest=finest, mean=mean)
        if preview.most_cells < preview.finest:
            most = text("at most {cells} can hold k rows each", cells=write_figure(preview.most_cells))
            words = join_clauses([words, most])
        return Expected(words=words, figures=preview.to_dict())

    def _at_the_k_of(self, request: Request | None) -> KAnonymity:
        """Take the k of a request, which may be stricter than the steward's and not weaker."""
        if request is None or request.k is None:
            return self
        if request.k < self.k:
            raise ParameterError(
                "the request asks for k = {asked}, but at least {least} is required", asked=request.k, least=self.k
            )
        return replace(self, k=request.k)

    def _quasi(self, schema: Schema) -> tuple[str, ...]:
        published = self._published(schema)
        declared = _names_of_role(schema, "quasi")
        named = self.quasi or tuple(name for name in declared if name in published)
        if not named and declared:
            raise ParameterError(
                "none of the attributes to publish ({names}) is a quasi-identifier; publish one of {quasi} too, or name"
                " those that others may know by `quasi`",
                names=", ".join(published),
                quasi=", ".join(declared),
            )
        if not named:
            raise SchemaError('no attribute is a quasi-identifier; set role = "quasi" for those that others may know')
        missing = [name for name in named if schema.attribute(name).name not in published]
        if missing:
            raise ParameterError("quasi-identifier {name} is not among the published attributes", name=missing[0])
        return tuple(schema.attribute(name).name for name in named)

    def _published(self, schema: Schema) -> tuple[str, ...]:
        return schema.names if self.by is None else schema.select(self.by).names

    def sensitive(self, schema: Schema, quasi: tuple[str, ...]) -> tuple[str, ...]:
        """Name the attributes that criteria read, and those declared sensitive, whose classes may be homogeneous."""
        criteria = read_criteria(self.criteria)
        read = [schema.attribute(name).name for criterion in criteria for name in criterion.sensitive]
        for name in read:
            if name in quasi:
                raise ParameterError("attribute {name} cannot be both quasi-identifier and sensitive", name=name)
        published = self._published(schema)
        declared = [name for name in _names_of_role(schema, "sensitive") if name not in quasi and name in published]
        return tuple(dict.fromkeys([*read, *declared]))

    # --- with the data ----------------------------------------------------------------------------------------------

    def count(self, source: Recodable, plan: Plan) -> CountedRows:
        """Count what the search needs; the options of a request are counted one after the other."""
        counts = source.count(plan.counted) if plan.counted else None
        return CountedRows(counts=counts, source=source)

    def check_source(self, source: Recodable, plan: Plan) -> None:
        """Count as the run will; whether k can be kept is left to the run, which spends nothing."""
        steps: KAnonymitySteps = plan.steps
        source.count((*steps.quasi, *steps.sensitive))
        steps.count_register()

    def make(self, counts: CountedRows, plan: Plan, *, rng: Rng) -> Payload:
        """Search and recode; the rows are written through the source when the release is saved, so keep it open.

        No noise is drawn: a seeded `rng` marks the release as made for tests.
        """
        steps: KAnonymitySteps = plan.steps
        if steps.request is not None:
            return self._answer(counts.source, plan, steps.request)
        outcome = self.outcome(
            counts.counts if counts.counts is not None else counts.source.count(plan.counted),
            steps.quasi,
            steps.sensitive,
            unit=plan.facts.unit,
            register=steps.count_register(),
            progress=watch_search(plan.progress),
        )
        return self._payload(counts.source, plan, outcome)

    def _answer(self, source: Recodable, plan: Plan, request: Request) -> Payload:
        """Publish the first option that keeps the promise; quasi-identifiers that it does not name are dropped."""
        method, history = self._at_the_k_of(request), plan.steps.history
        schema = source.schema
        approval = approve(
            source,
            request,
            criteria=method._all_criteria(schema.unit),
            max_suppressed=method.share,
            find_sensitive=lambda quasi: method.sensitive(schema, quasi),
        )
        if history is not None:
            history.add(approval.measurements)  # measured is measured, whatever comes of it
        option, outcome = approval.require_approved()
        all_quasi = {*_names_of_role(schema, "quasi"), *(method.quasi or ())}
        without = tuple(name for name in schema.names if name in all_quasi and name not in option)
        return method._payload(source, plan, outcome, without=without, approval=approval)

    def _payload(
        self,
        source: Recodable,
        plan: Plan,
        outcome: Outcome,
        *,
        without: tuple[str, ...] = (),
        approval: Approval | None = None,
    ) -> Payload:
        schema, quasi = source.schema, outcome.recoded.pieces.names[: outcome.recoded.pieces.quasi]
        joint = compare_with_earlier(source, outcome, plan.steps.history)
        if joint is not None and self.joint_k is not None:
            check_joint(joint, self.guarantee(unit=schema.unit).rows // self.k * self.joint_k)
        names = tuple(name for name in self._published(schema) if name not in without)
        rows = source.relabel(outcome.recoded.relabelling, names=names, others=self.others)
        levels = None if outcome.result is None else name_levels(quasi, outcome.result.node)
        is_full = self.recoding == "full" and not self.local and levels is not None
        facts = schema.select(names).coarsen(levels) if is_full and levels is not None else schema.select(names)
        return Payload(
            files={"records": rows.write, "mapping.json": make_mapping_writer(outcome.recoded.mapping)},
            measures={**({"levels": levels} if is_full else {}), "coarseness": outcome.recoded.coarseness()},
            plan=replace(plan, schema=facts, promise=self.guarantee(unit=schema.unit, quasi=quasi)),
            steward=StewardOutcome(outcome=outcome, source_schema=schema, approval=approval, joint=joint),
        )

    def decide(self, source: Recodable, *, register: Counts | None = None) -> Outcome:
        """Count and recode, without writing anything. The outcome is private: it stays with the steward."""
        plan = self.plan(self.facts_of(source), register=register)
        payload = self.make(self.count(source, plan), plan, rng=system_rng())
        outcome: Outcome = payload.steward.outcome
        return outcome

    def outcome(
        self,
        counts: Counts,
        quasi: tuple[str, ...],
        sensitive: tuple[str, ...] = (),
        *,
        unit: Unit | None = None,
        register: Counts | None = None,
        progress: Callable[[SearchProgress], None] | None = None,
    ) -> Outcome:
        """Recode a table of counts over quasi-identifiers and sensitive attributes."""
        criteria = self._all_criteria(unit)
        if counts.total < self.guarantee(unit=unit).rows:
            raise Infeasible("k ({k}) is larger than the table allows; choose a smaller k", k=self.k)
        pieces = Pieces.of(counts, quasi, sensitive)
        check_classes = make_class_checker(criteria, pieces)
        if self.recoding == "mondrian":
            return recode_by_mondrian(pieces, check_classes, relaxed=self.mondrian == "relaxed")
        if self.recoding == "local":
            k, more = self.guarantee(unit=unit).rows, check_classes if len(criteria) > 1 else None
            rule = ClassRule(pieces=pieces, k=k, check_classes=more)
            return recode_from_the_top(rule, check_classes, effort=self.effort, by_ranges=self.labels == "ranges")
        problem = Problem(
            tuples=Tuples.of(counts, quasi, sensitive, population=register),
            lattice=Lattice.of(counts.schema, quasi),
            criteria=criteria,
            quality=QUALITIES[self.quality],
            max_suppressed=self.share,
            deadline_seconds=self.deadline_seconds,
            progress=progress,
        )
        return recode_by_search(
            pieces,
            check_classes,
            problem,
            search(problem, self.search),
            by_value=self.recoding == "value",
            local=self.local,
        )

    def _all_criteria(self, unit: Unit | None) -> tuple[Criterion, ...]:
        """Put k, in rows of the unit, before the other criteria."""
        return MinimumSize(k=self.guarantee(unit=unit).rows), *read_criteria(self.criteria)

    def entries(self, plan: Plan) -> dict[str, str]:
        """Tell the parameters as the certificate holds them, the criteria in words."""
        criteria = "; ".join(criterion.describe().render("en") for criterion in read_criteria(self.criteria))
        return write_parameters(self, {**plan.decided, "criteria": criteria})

    # --- after the release ------------------------------------------------------------------------------------------

    def summarise(self, made: Made, *, out: Path) -> Summary:
        """Tell what was published, and the steward what it costs."""
        return summarise_release(made, out=out)

    def warn(
        self,
        schema: Schema,
        /,
        *,
        ledger: Ledger | None = None,
        register: RegisterCounts | None = None,
        request: Request | None = None,
        history: History | None = None,
    ) -> list[Text]:
        """Warn of releases before this one, and of a ledger that cannot cover it."""
        return [*warn_of_earlier_releases(schema, history), *warn_of_ledger(ledger)]

    def remember(self, made: Made) -> None:
        """Let the history learn from the release, once it is whole."""
        history: History | None = made.plan.steps.history
        if history is not None:
            history.add(learn_from(made))
            keep_counts(made, history)

    @classmethod
    def page(
        cls, release: Release, *, directory: Path | None = None, truth: TruthComparison | None = None
    ) -> ReportPage:
        """Describe classes, levels and the lattice; with the truth, risk before and after."""
        from sudare.methods.kanon.page import describe_page

        return describe_page(release, title=cls.title, truth=truth)

    @classmethod
    def truth_schema(cls, release: Release, declared: Schema | None) -> Schema:
        """Ask for the steward's schema, which has the hierarchies."""
        from sudare.methods.kanon.compare import check_true_schema

        return check_true_schema(release, declared)

    @classmethod
    def compare(cls, release: Release, truth: Countable) -> TruthComparison:
        """Compare the classes, and what was lost."""
        from sudare.methods.kanon.compare import compare_release

        return compare_release(release, truth)

    @classmethod
    def recheck(cls, certificate: Certificate, directory: Path) -> list[CheckedClaim]:
        """Recount the classes and their criteria."""
        from sudare.methods.kanon.recheck import recheck_classes

        return recheck_classes(cls, certificate, directory)

    def promised(self, certificate: Certificate, plan: Plan) -> Mapping[str, Any]:
        """Leave open which quasi-identifiers a request was answered with."""
        answered = {"quasi": certificate.guarantee.get("quasi")} if plan.steps.request is not None else {}
        return {**plan.promise.to_dict(), **answered}

    def expected_schema(self, certificate: Certificate, plan: Plan) -> Mapping[str, Any]:
        """Expect the published attributes at the levels that were chosen."""
        published = [attribute.get("name") for attribute in certificate.schema.get("attributes", [])]
        if not set(published) <= set(plan.facts.names):
            return {}
        return plan.facts.select(published).coarsen(certificate.measures.get("levels") or {}).to_dict()

    def differences(self, certificate: Certificate, plan: Plan, *, place: Path) -> list[Text]:
        """Tell in what a finished release differs; if in nothing else, whether it has other columns."""
        differences = Method.differences(self, certificate, plan, place=place)
        if differences or plan.steps.request is not None:
            return differences
        published = tuple(attribute["name"] for attribute in certificate.schema["attributes"])
        if published == plan.facts.names:
            return []
        return [describe_difference("by", ",".join(published), ",".join(plan.facts.names))]


def _names_of_role(schema: Schema, role: str) -> tuple[str, ...]:
    return tuple(attribute.name for attribute in schema.attributes if attribute.role == role)


def _count(source: Countable, names: tuple[str, ...]) -> Counts:
    try:
        return source.count(names)
    finally:
        close: Callable[[], object] = getattr(source, "close", lambda: None)
        close()
