"""k-anonymity: what is known before the data, the parameters, and the order of count, search and recoding."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

from sudare.counts import Countable, Counts
from sudare.counts.relabelling import ROWS_OF_PERSON, Recodable
from sudare.errors import Infeasible, ParameterError
from sudare.forms.kinds import FilePath
from sudare.methods.base import CountedRows, Expected, Made, Method, OpenTable, Payload, Plan, Progress, Summary
from sudare.methods.certify import describe_difference
from sudare.methods.figures import as_estimates, write_figure
from sudare.methods.kanon.approve import Approval, approve
from sudare.methods.kanon.criteria import Criterion, read_criteria
from sudare.methods.kanon.explain import explain_labels
from sudare.methods.kanon.history import History
from sudare.methods.kanon.joint import (
    EARLIER,
    EarlierClasses,
    add_earlier,
    check_joint,
    forget_earlier,
    leave_out_enough,
)
from sudare.methods.kanon.kanonymity_parameters import KAnonymityParameters, refuse_uncounted_persons
from sudare.methods.kanon.lattice import Lattice
from sudare.methods.kanon.preview import KAnonymityPreview
from sudare.methods.kanon.problem import Problem, SearchProgress
from sudare.methods.kanon.quality import QUALITIES, Quality, WeightedQuality
from sudare.methods.kanon.recode import ClassChecker, Pieces, make_class_checker
from sudare.methods.kanon.relabel import (
    Outcome,
    make_mapping_writer,
    name_levels,
    recode_by_means,
    recode_by_mondrian,
    recode_by_search,
    recode_from_the_top,
)
from sudare.methods.kanon.request import Request
from sudare.methods.kanon.searches import check_node, search
from sudare.methods.kanon.steward import (
    StewardOutcome,
    compare_with_earlier,
    find_earlier,
    keep_counts,
    learn_from,
    summarise_release,
    warn_of_earlier_releases,
    warn_of_ledger,
    watch_search,
)
from sudare.methods.kanon.tuples import Tuples
from sudare.methods.kanon.value_tree import ClassRule
from sudare.methods.parameters import ExtraFile, write_parameters
from sudare.methods.registry import summary_of
from sudare.noise import Rng, system_rng
from sudare.privacy import Ledger, Neighbours
from sudare.releases import Certificate, Release
from sudare.releases.claims import CheckedClaim
from sudare.report.shapes import Listing, ReportPage, TruthComparison
from sudare.schema import Schema, Unit
from sudare.text import Text, Words, join_clauses, text

if TYPE_CHECKING:
    from sudare.methods.kanon.choices import Choices

# --- the method ------------------------------------------------------------------------------------------------------

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
class KAnonymity(KAnonymityParameters):
    """Publish the table itself, quasi-identifiers generalised so that at least k rows share every combination.

    `recoding`: "full", one level of its hierarchy for every attribute, the best node of the lattice by `quality`;
    "value", from there on every group of values that can stand by itself does; "local", every class has levels of its
    own, which loses least; "cells", single values are hidden; "mondrian", ranges that need no hierarchy. At most
    `max_suppressed` of the rows are left out; with `local`, they are generalised further instead where that keeps the
    promise. `criteria` beyond k are objects or texts such as "l=3,disease".

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

    # --- before the data ---

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
        if method.divides_rows:
            refuse_uncounted_persons(read_criteria(method.criteria), schema.unit)
        averaged = method.read_averaged(schema, quasi)
        others = tuple(name for name in quasi if name not in averaged)
        if method._searches_levels and request is None and others:
            Lattice.of(schema, others)  # refuses a quasi-identifier without hierarchy before the data is read
        if averaged and (request is not None or register is not None):
            raise ParameterError("microaggregate works without a request and without a register; leave one out")
        self._check_history(history, request)
        method.read_weights(quasi)
        if request is not None and register is not None:
            _check_registered(request, quasi)
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

    def _check_history(self, history: History | None, request: Request | None) -> None:
        """Refuse what needs a history, where there is none."""
        if self.nested and (history is None or request is not None):
            raise ParameterError("nested needs the history of the table, and no request; name it, or leave out nested")
        if self.joint_k is not None and history is None:
            raise ParameterError("joint_k needs the history of the table, which knows earlier releases; name it")

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
        others = tuple(name for name in quasi if name not in self.read_averaged(schema, quasi))
        lattice = Lattice.of(schema, others) if self._searches_levels and others else None
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

    # --- with the data ----------------------------------------------------------------------------------------------

    def count(self, source: Recodable, plan: Plan) -> CountedRows:
        """Count what the search needs; the options of a request are counted one after the other."""
        is_by_person = self.counts_persons(plan.facts.unit)
        count = source.count_with_persons if is_by_person else source.count
        counts = count(plan.counted) if plan.counted else None
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
        earlier = find_earlier(counts.source.schema, steps.history) if self.nested else []
        is_by_person = self.counts_persons(plan.facts.unit)
        if earlier:
            table = add_earlier(counts.source, steps.quasi, steps.sensitive, earlier, is_by_person=is_by_person)
        else:
            counted = counts if counts.counts is not None else self.count(counts.source, plan)
            table = cast(Counts, counted.counts)
        sensitive = (*steps.sensitive, *([ROWS_OF_PERSON] if is_by_person else []), *([EARLIER] if earlier else []))
        register = steps.count_register()
        outcome = self.outcome(
            table,
            steps.quasi,
            sensitive,
            unit=plan.facts.unit,
            register=register,
            progress=watch_search(plan.progress),
            is_nested=bool(earlier),
        )
        if earlier and outcome.recoded.suppressed_rows:
            outcome = self._leave_out_nested(table, plan, sensitive, outcome, register)
        return self._payload(counts.source, plan, replace(outcome, recoded=forget_earlier(outcome.recoded)))

    def _leave_out_nested(
        self, table: Counts, plan: Plan, sensitive: tuple[str, ...], outcome: Outcome, register: Counts | None
    ) -> Outcome:
        """Leave out enough rows of every earlier class, or if the limit is too low, none at all."""
        unit = plan.facts.unit
        least = self.guarantee(unit=unit).rows // self.k * (self.joint_k or self.k)
        enough = leave_out_enough(outcome.recoded, least, int(self.share * table.total))
        if enough is not None:
            return replace(outcome, recoded=enough)
        whole = replace(self, max_suppressed=Fraction(0), local=False)
        return whole.outcome(table, plan.steps.quasi, sensitive, unit=unit, register=register, is_nested=True)

    def _answer(self, source: Recodable, plan: Plan, request: Request) -> Payload:
        """Publish the first option that keeps the promise, with the columns that come beside it."""
        method, history = self._at_the_k_of(request), plan.steps.history
        schema = source.schema
        approval = approve(
            source,
            request,
            criteria=method._all_criteria(schema.unit),
            max_suppressed=method.share,
            find_sensitive=lambda quasi: method.sensitive(schema, quasi),
            register=plan.steps.count_register(),
        )
        if history is not None:
            history.add(approval.measurements)  # measured is measured, whatever comes of it
        option, outcome = approval.require_approved()
        without = method.leave_out(schema, option)
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
        least = self.k if self.nested and self.joint_k is None else self.joint_k
        if joint is not None and least is not None:
            check_joint(joint, self.guarantee(unit=schema.unit).rows // self.k * least)
        names = tuple(name for name in self._published(schema) if name not in without)
        rows = source.relabel(outcome.recoded.relabelling, names=names, others=self.others)
        levels = None if outcome.result is None else name_levels(quasi, outcome.result.node)
        is_full = self.recoding == "full" and not self.local and levels is not None  # never with means: no result
        facts = schema.select(names).coarsen(levels) if is_full and levels is not None else schema.select(names)
        mapping = explain_labels(outcome.recoded, names)
        return Payload(
            files={"records": rows.write, "mapping.json": make_mapping_writer(mapping)},
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
        is_nested: bool = False,
    ) -> Outcome:
        """Recode a table of counts over quasi-identifiers and sensitive attributes.

        If `is_nested`, the last sensitive attribute tells how earlier releases class a row.
        """
        criteria = self._all_criteria(unit)
        if is_nested:
            least = self.guarantee(unit=unit).rows // self.k * (self.joint_k or self.k)
            criteria = (*criteria, EarlierClasses(least=least))
        if counts.total < self.guarantee(unit=unit).rows:
            raise Infeasible("k ({k}) is larger than the table allows; choose a smaller k", k=self.k)
        pieces = Pieces.of(counts, quasi, sensitive)
        check_classes = make_class_checker(criteria, pieces)
        if self.microaggregate:
            return self._average(counts, pieces, check_classes, unit=unit, is_nested=is_nested)
        weights = self.read_weights(quasi)
        if not self._searches_levels:
            return self._recode_by_class(pieces, check_classes, weights, unit=unit, is_k_alone=len(criteria) == 1)
        problem = self._make_problem(counts, quasi, sensitive, criteria, register=register, progress=progress)
        node = self.read_levels(quasi, problem.lattice.heights)
        return recode_by_search(
            pieces,
            check_classes,
            problem,
            search(problem, self.search) if node is None else check_node(problem, node),
            by_value=self.recoding == "value",
            local=self.local,
        )

    def _average(
        self, counts: Counts, pieces: Pieces, check_classes: ClassChecker, *, unit: Unit | None, is_nested: bool
    ) -> Outcome:
        """Recode the other quasi-identifiers, and publish the numbers as means within their classes."""
        averaged, names = self.microaggregate or (), pieces.names
        others = tuple(name for name in names[: pieces.quasi] if name not in averaged)
        sensitive = names[pieces.quasi :]
        inner = replace(self, microaggregate=None)
        return recode_by_means(
            pieces,
            inner.outcome(counts, others, sensitive, unit=unit, is_nested=is_nested) if others else None,
            averaged,
            k=self.guarantee(unit=unit).rows,
            check_classes=check_classes,
            max_suppressed_rows=int(self.share * pieces.rows),
        )

    def _make_problem(
        self,
        counts: Counts,
        quasi: tuple[str, ...],
        sensitive: tuple[str, ...],
        criteria: tuple[Criterion, ...],
        *,
        register: Counts | None = None,
        progress: Callable[[SearchProgress], None] | None = None,
    ) -> Problem:
        return Problem(
            tuples=Tuples.of(counts, quasi, sensitive, population=register),
            lattice=Lattice.of(counts.schema, quasi),
            criteria=criteria,
            quality=self._weigh(self.read_weights(quasi)),
            max_suppressed=self.share,
            deadline_seconds=self.deadline_seconds,
            progress=progress,
        )

    def list_choices(self, source: Recodable, *, register: Counts | None = None, task: str | None = None) -> Choices:
        """Measure what each level of each quasi-identifier would cost. For the steward: nothing is published.

        With a `task`, a column to be predicted from the quasi-identifiers, also how well that goes for the best ways.
        """
        from sudare.methods.kanon.choices import measure_choices, measure_tasks

        if not self._searches_levels or self.local or self.levels is not None:
            raise ParameterError("levels are compared for recoding full; leave out levels, local and other recodings")
        plan = self.plan(self.facts_of(source), register=register)
        steps: KAnonymitySteps = plan.steps
        target = [] if task is None else [source.schema.attribute(task).name]
        if set(target) & set(steps.quasi):
            raise ParameterError("the task {name} is a quasi-identifier; name a column that is none", name=task)
        is_by_person = self.counts_persons(plan.facts.unit)
        count = source.count_with_persons if is_by_person else source.count
        counts = count(tuple(dict.fromkeys([*steps.quasi, *steps.sensitive, *target])))
        problem = self._make_problem(
            counts, steps.quasi, steps.sensitive, self._all_criteria(plan.facts.unit), register=register
        )
        choices = replace(measure_choices(problem), promise=self.describe_promise(plan.facts.unit))
        return measure_tasks(choices, Pieces.of(counts, steps.quasi, target), problem) if target else choices

    def _recode_by_class(
        self,
        pieces: Pieces,
        check_classes: ClassChecker,
        weights: tuple[float, ...] | None,
        *,
        unit: Unit | None,
        is_k_alone: bool,
    ) -> Outcome:
        """Recode without a node: every class has labels of its own."""
        if self.recoding == "mondrian":
            relaxed, by_hierarchy = self.mondrian == "relaxed", self.mondrian == "hierarchy"
            return recode_by_mondrian(
                pieces,
                check_classes,
                relaxed=relaxed,
                by_hierarchy=by_hierarchy,
                deadline_seconds=self.deadline_seconds,
            )
        k = self.guarantee(unit=unit).rows
        return recode_from_the_top(
            ClassRule(pieces=pieces, k=k, check_classes=None if is_k_alone else check_classes),
            check_classes,
            effort=self.effort,
            by_ranges=self.labels == "ranges" and self.recoding == "local",
            is_flat=self.recoding == "cells",
            weights=weights,
            max_suppressed_rows=int(self.share * pieces.rows),
            deadline_seconds=self.deadline_seconds,
        )

    def _weigh(self, weights: tuple[float, ...] | None) -> Quality:
        quality = QUALITIES[self.quality]
        return quality if weights is None else WeightedQuality(quality=quality, weights=weights)

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


def _check_registered(request: Request, quasi: tuple[str, ...]) -> None:
    """Refuse options over attributes that the register is not counted by."""
    for option in request.options:
        for name in option:
            if name not in quasi:
                raise ParameterError(
                    "the request names {name}, which the register is not counted by; name only quasi-identifiers"
                    " ({quasi}), or leave out the register",
                    name=name,
                    quasi=", ".join(quasi),
                )


def _count(source: Countable, names: tuple[str, ...]) -> Counts:
    try:
        return source.count(names)
    finally:
        close: Callable[[], object] = getattr(source, "close", lambda: None)
        close()
