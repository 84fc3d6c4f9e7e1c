"""The parameters of k-anonymity, checked on entry, and what follows from them and a schema alone."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal, Self

from sudare.errors import ParameterError, SchemaError
from sudare.forms.kinds import ChoiceOf, ExactNumber, NameList, Seconds, Unfit, WholeNumber
from sudare.methods.base import Method, Plan
from sudare.methods.kanon.criteria import (
    Closeness,
    CriteriaList,
    Criterion,
    DistinctDiversity,
    EntropyDiversity,
    MinimumSize,
    Presence,
    RecursiveDiversity,
    read_criteria,
)
from sudare.methods.kanon.microaggregate import check_numbers
from sudare.methods.kanon.problem import SearchName
from sudare.methods.kanon.quality import QUALITIES
from sudare.methods.kanon.request import Request
from sudare.methods.kanon.top_down import Effort
from sudare.methods.parameters import parameter
from sudare.privacy import Neighbours
from sudare.privacy.exact import Number
from sudare.privacy.promise import ClassGuarantee
from sudare.schema import Schema, Unit
from sudare.text import Text, text

Recoding = Literal["full", "value", "local", "cells", "mondrian"]
ClassLabels = Literal["hierarchy", "ranges"]
Cutting = Literal["strict", "relaxed", "hierarchy"]


@dataclass(frozen=True, kw_only=True)
class NumberedNames(NameList):
    """Names with a number each: "age=2, sex=1".

    >>> NumberedNames().read("age=2,sex=0.5")
    ('age=2', 'sex=0.5')
    """

    example: str = '["age=2", "sex=1"]'

    def read(self, value: Any) -> tuple[str, ...]:
        """Take names with a number that is not negative behind an equals sign."""
        pairs = [f"{name}={number}" for name, number in value.items()] if isinstance(value, dict) else value
        entries = super().read(pairs)
        for entry in entries:
            name, _, number = entry.rpartition("=")
            if not name.strip() or not number.strip().replace(".", "", 1).isdecimal():
                raise Unfit(self, value)
        return tuple(entry.replace(" ", "") for entry in entries)

    def describe(self) -> Text:
        """Show one."""
        return text("names with a number each, like age=2,sex=1")


def read_numbers(entries: tuple[str, ...] | None) -> dict[str, float]:
    """Read names with their numbers.

    >>> read_numbers(("age=2",))
    {'age': 2.0}
    """
    pairs = (entry.rpartition("=") for entry in entries or ())
    return {name: float(number) for name, _, number in pairs}


@dataclass(frozen=True, kw_only=True)
class KAnonymityParameters(Method):
    """Everything that a steward decides, and the promise that follows from it."""

    same_rows = True

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
            " cells: a value stays or becomes *; mondrian: ranges, without hierarchies"
        ),
        default="full",
    )
    effort: Effort = parameter(
        text("quick: in seconds; best: classes are divided anew many times, for a somewhat smaller loss"),
        default="quick",
        used_with={"recoding": ("local", "cells")},
    )
    labels: ClassLabels = parameter(
        text("hierarchy: a class is labelled by groups of the hierarchies; ranges: by the values that it spans"),
        default="hierarchy",
        used_with={"recoding": ("local",)},
    )
    mondrian: Cutting = parameter(
        text(
            "strict: rows with equal values stay in one class; relaxed: they may be divided; hierarchy: strict, and cut"
            " and labelled by the groups of the hierarchies"
        ),
        default="strict",
        used_with={"recoding": ("mondrian",)},
    )
    microaggregate: tuple[str, ...] | None = parameter(
        text("number quasi-identifiers that are published as the mean of their class, separated by commas"),
        default=None,
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
    levels: tuple[str, ...] | None = parameter(
        text("publish at these levels instead of searching, if they keep the promise: age=2,sex=0"),
        kind=NumberedNames(),
        default=None,
        is_certified=False,
    )
    weights: tuple[str, ...] | None = parameter(
        text("how much the detail of an attribute matters, 1 if it is not named: age=3,sex=0.5"),
        kind=NumberedNames(),
        default=None,
        is_certified=False,
    )
    nested: bool = parameter(
        text("keep k also together with the earlier releases of the history: no new class cuts an old one too small"),
        default=False,
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
        self._check_choices()

    def _check_choices(self) -> None:
        if self.levels is not None and (self.recoding != "full" or self.local):
            raise ParameterError("levels can be given with recoding full only; leave out local and other recodings")
        if self.weights is not None and (
            self.quality not in ("loss", "precision", "entropy") or self.recoding == "mondrian"
        ):
            raise ParameterError(
                "weights need a quality that adds up attributes (loss, precision or entropy) and a recoding other than"
                " mondrian"
            )
        if self.microaggregate and (self.levels is not None or self.weights is not None or self.mondrian == "relaxed"):
            raise ParameterError("microaggregate works without levels, weights and mondrian relaxed; leave them out")
        if self.joint_k is not None and self.joint_k > self.k:
            raise ParameterError(
                "joint_k ({joint_k}) must be at most k ({k}): every release by itself keeps k; choose a larger k",
                joint_k=self.joint_k,
                k=self.k,
            )
        if self.nested and (self.recoding == "mondrian" and self.mondrian == "relaxed"):
            raise ParameterError("nested works without mondrian relaxed, which divides rows of equal values")

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

    def _at_the_k_of(self, request: Request | None) -> Self:
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
        declared = names_of_role(schema, "quasi")
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

    def leave_out(self, schema: Schema, option: Iterable[str]) -> tuple[str, ...]:
        """Name the columns that a request does not get: those that its option does not name.

        Sensitive attributes come with every request, unchanged; so do columns that `by` lists and that identify nobody.
        """
        named = set(option)
        if self.by is not None:
            all_quasi = {*names_of_role(schema, "quasi"), *(self.quasi or ())}
            return tuple(name for name in schema.names if name in all_quasi and name not in named)
        kept = named | set(self.sensitive(schema, tuple(named)))
        return tuple(name for name in schema.names if name not in kept)

    def read_averaged(self, schema: Schema, quasi: tuple[str, ...]) -> tuple[str, ...]:
        """Name the quasi-identifiers that are published as means; refuse what has none."""
        names = tuple(schema.attribute(name).name for name in self.microaggregate or ())
        for name in names:
            if name not in quasi:
                raise ParameterError(
                    "{parameter} names {name}, which is no quasi-identifier; there are {quasi}",
                    parameter="microaggregate",
                    name=name,
                    quasi=", ".join(quasi),
                )
        check_numbers([schema.attribute(name) for name in names])
        return names

    def sensitive(self, schema: Schema, quasi: tuple[str, ...]) -> tuple[str, ...]:
        """Name the attributes that criteria read, and those declared sensitive, whose classes may be homogeneous."""
        criteria = read_criteria(self.criteria)
        read = [schema.attribute(name).name for criterion in criteria for name in criterion.sensitive]
        for name in read:
            if name in quasi:
                raise ParameterError("attribute {name} cannot be both quasi-identifier and sensitive", name=name)
        check_reachable(criteria, schema)
        published = self._published(schema)
        declared = [name for name in names_of_role(schema, "sensitive") if name not in quasi and name in published]
        return tuple(dict.fromkeys([*read, *declared]))

    def read_levels(self, quasi: tuple[str, ...], heights: tuple[int, ...]) -> tuple[int, ...] | None:
        """Read the levels that were given, one for every quasi-identifier; None if they are to be searched."""
        if self.levels is None:
            return None
        given = read_numbers(self.levels)
        self._check_known("levels", given, quasi)
        for name, height in zip(quasi, heights, strict=True):
            level = given.get(name, -1.0)
            if not (level.is_integer() and 0 <= level <= height):
                raise ParameterError(
                    "levels must name every quasi-identifier with a level; {name} has 0 to {height}",
                    name=name,
                    height=height,
                )
        return tuple(int(given[name]) for name in quasi)

    def read_weights(self, quasi: tuple[str, ...]) -> tuple[float, ...] | None:
        """Read the weights of all quasi-identifiers; None if all matter alike."""
        if self.weights is None:
            return None
        given = read_numbers(self.weights)
        self._check_known("weights", given, quasi)
        weights = tuple(given.get(name, 1.0) for name in quasi)
        if not any(weights):
            raise ParameterError("weights must leave at least one attribute above 0")
        return weights

    @staticmethod
    def _check_known(parameter_name: str, given: Mapping[str, float], quasi: tuple[str, ...]) -> None:
        for name in given:
            if name not in quasi:
                raise ParameterError(
                    "{parameter} names {name}, which is no quasi-identifier; there are {quasi}",
                    parameter=parameter_name,
                    name=name,
                    quasi=", ".join(quasi),
                )

    def hold(self, plan: Plan) -> contextlib.AbstractContextManager[None]:
        """Hold the history until the release is in it: the next one is compared with this one."""
        return contextlib.nullcontext() if plan.steps.history is None else plan.steps.history.hold()

    @property
    def divides_rows(self) -> bool:
        """Tell whether rows of equal values may go to different classes."""
        return self.recoding == "mondrian" and self.mondrian == "relaxed"

    def counts_persons(self, unit: Unit | None) -> bool:
        """Tell whether criteria need to know how many rows each person has."""
        return needs_persons(read_criteria(self.criteria), unit)

    def describe_promise(self, unit: Unit | None) -> tuple[Text, ...]:
        """Say what was asked for in a few words: how many persons, where these may have several rows."""
        rows, others = self.guarantee(unit=unit).rows, [each.describe() for each in read_criteria(self.criteria)]
        if unit is None or rows == self.k:
            return MinimumSize(k=rows).describe(), *others
        size = text(
            "k = {k} persons (classes of {rows} rows, since a person may have {most})",
            k=self.k,
            rows=rows,
            most=unit.max_rows,
        )
        return size, *others

    def _all_criteria(self, unit: Unit | None) -> tuple[Criterion, ...]:
        """Put k, in rows of the unit, before the other criteria."""
        return MinimumSize(k=self.guarantee(unit=unit).rows), *count_persons(read_criteria(self.criteria), unit)


def count_persons(criteria: tuple[Criterion, ...], unit: Unit | None) -> tuple[Criterion, ...]:
    """Ask for as many values as make sure that l persons have different ones, where a person may have several rows.

    A person has at most m rows, so at most m values. Of m (l - 1) + 1 values, take one, leave out all of a person who
    has it, and go on: l times. The other criteria let every row of a person weigh alike, 1 in all
    (`count_with_persons`). Proof: proofs/kanon.md

    >>> raised = count_persons(read_criteria(["l=3,disease"]), Unit(kind="person", column="id", max_rows=2))
    >>> str(raised[0].describe())
    'distinct l = 5 of disease'
    """
    if unit is None or unit.kind != "person" or unit.max_rows == 1:
        return criteria
    return tuple(
        replace(criterion, l=unit.max_rows * (criterion.l - 1) + 1)
        if isinstance(criterion, DistinctDiversity)
        else criterion
        for criterion in criteria
    )


def check_reachable(criteria: tuple[Criterion, ...], schema: Schema) -> None:
    """Refuse more different values than a column has: no grouping of any table keeps that.

    Error: ParameterError.
    """
    for criterion, counted in zip(criteria, count_persons(criteria, schema.unit), strict=True):
        if not isinstance(counted, DistinctDiversity | EntropyDiversity | RecursiveDiversity):
            continue
        size, asked = schema.attribute(counted.attribute).size, getattr(criterion, "l", counted.l)
        if counted.l > size and counted.l != asked:
            raise ParameterError(
                "l ({l}) of {name} needs {needed} values, since a person may have {rows} rows, but {name} has {size};"
                " ask for a smaller l, or let a person have fewer rows (max_rows in the schema)",
                l=asked,
                name=counted.attribute,
                needed=counted.l,
                rows=schema.unit.max_rows,
                size=size,
            )
        if counted.l > size:
            raise ParameterError(
                "l ({l}) of {name} must be at most {size}, the number of its values",
                l=asked,
                name=counted.attribute,
                size=size,
            )


def read_request_criteria(criteria: Iterable[Criterion | str], unit: Unit | None) -> tuple[Criterion, ...]:
    """Read the criteria of requests, in rows of the unit."""
    return count_persons(read_criteria(criteria), unit)


def refuse_uncounted_persons(criteria: tuple[Criterion, ...], unit: Unit | None) -> None:
    """Refuse criteria that count persons where only rows are counted: where rows are dealt out at random."""
    if needs_persons(criteria, unit):
        raise ParameterError(
            "entropy-l, recursive-l and t cannot be asked for with mondrian relaxed where a person may have several"
            " rows; use l, or max_rows = 1"
        )


def count_rows_of_person(unit: Unit) -> int:
    """Tell how many rows a person may have."""
    return unit.max_rows if unit.kind == "person" else 1


def needs_persons(criteria: tuple[Criterion, ...], unit: Unit | None) -> bool:
    """Tell whether a criterion compares how many have each value, where a person may have several rows."""
    has_several = unit is not None and unit.kind == "person" and unit.max_rows > 1
    return has_several and any(
        isinstance(criterion, EntropyDiversity | RecursiveDiversity | Closeness) for criterion in criteria
    )


def names_of_role(schema: Schema, role: str) -> tuple[str, ...]:
    """Name the attributes of a role."""
    return tuple(attribute.name for attribute in schema.attributes if attribute.role == role)
