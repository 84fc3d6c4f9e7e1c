"""What a release will ask of a ledger, found out by running its method up to the spend and no further."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from sudare.app import Publisher, count_register
from sudare.atomic import UNFINISHED
from sudare.counts import Countable, Counts
from sudare.errors import BudgetExceeded, LedgerError, ParameterError, RelationMismatch, ReleaseError
from sudare.methods.kanon import KAnonymity
from sudare.methods.kanon.criteria import Presence
from sudare.methods.kanon.history import check_history
from sudare.methods.kanon.request import Request
from sudare.methods.location import Location
from sudare.methods.location.device_file import load_artefact
from sudare.methods.microdata import Microdata
from sudare.methods.table import Table
from sudare.methods.view import View
from sudare.privacy import Guarantee, Neighbours, Promise, Spend, Unrecorded
from sudare.recipe.file import Asked, Recipe, at_line, read_recipe
from sudare.recipe.ledger import LedgerState, lost, read_purse, will_be_made
from sudare.releases import Certificate
from sudare.releases.release import verify_files
from sudare.schema import Schema
from sudare.sources.files import files_of
from sudare.text import say


@dataclass(frozen=True, kw_only=True, slots=True)
class Cost:
    """The parts of a spend, by purpose, and the promise they add up to."""

    parts: Mapping[str, Fraction]
    guarantee: Guarantee


class _Reached(Exception):  # noqa: N818
    def __init__(self, need: Cost) -> None:
        self.need = need


class _Question(Unrecorded):
    """A purse that stops its method at the spend: before it nothing is drawn, and here nothing is spent."""

    def spend(self, parts: Mapping[str, Fraction], *, guarantee: Guarantee) -> NoReturn:
        raise _Reached(Cost(parts=dict(parts), guarantee=guarantee))


@dataclass(frozen=True, kw_only=True, slots=True)
class EmptySource:
    """A source without rows: with it a method checks parameters and schema, and no data."""

    schema: Schema

    def count(self, by: Sequence[str] | None = None) -> Counts:
        """Count no rows."""
        chosen = self.schema if by is None else self.schema.select(by)
        return Counts.from_columns(chosen, np.empty((0, len(chosen.attributes)), dtype=np.int64))


def ask(method: Publisher, source: Countable, *, neighbours: Neighbours) -> Cost:
    """Tell what a method will spend; everything that it refuses before the spend is refused here.

    >>> from sudare.methods.microdata import Microdata
    >>> from sudare.schema import Attribute, Values
    >>> sex = Attribute(name="sex", domain=Values(values=("F", "M")))
    >>> source = EmptySource(schema=Schema(name="s", attributes=(sex,)))
    >>> dict(ask(Microdata(epsilon="1/2"), source, neighbours="replace").parts)
    {'noise in every cell': Fraction(1, 2)}
    """
    try:
        method.publish(source, ledger=_Question(neighbours=neighbours))
    except _Reached as reached:
        return reached.need
    raise ReleaseError("the method spends nothing, which a recipe cannot plan for; please report it")


# Is a release that is there the one that the recipe asks for? Its certificate tells.


def finished(
    place: Path, *, kind: str, method: Any, schema: Schema | None, guarantee: Any, is_request: bool = False
) -> Certificate | None:
    """Give the certificate of a finished release, or None if there is none; another release is refused.

    Every file is checked against the certificate. Of a request, which wish was granted is left open.
    """
    if not place.exists() and not place.is_symlink():
        return None
    paper = verify_files(place)
    promise = {**_plain(guarantee.to_dict()), **({"quasi": paper.guarantee.get("quasi")} if is_request else {})}
    differences = [*_differences(paper, kind, method, schema, promise)]
    if isinstance(method, KAnonymity) and schema is not None and not is_request and not differences:
        differences = [*_other_columns(paper, method, schema)]
    if isinstance(method, Location) and not differences:
        differences = [*_other_map(place, method)]
    if differences:
        raise ReleaseError(
            "{place} holds another release than the recipe asks for ({differences}); give the release another name, or"
            " move the directory away if it was never published; what it spent stays spent",
            place=place,
            differences="; ".join(differences),
        )
    return paper


def _differences(
    paper: Certificate, kind: str, method: Any, schema: Schema | None, promise: Mapping[str, Any]
) -> Iterator[str]:
    if paper.method != kind:
        yield _differs("publish", paper.method, kind)
        return
    if not paper.private:
        yield say("it was made with a seed, for tests")
    for name, asked in _asked(method).items():
        found = paper.parameters.get(name)
        if found != asked:
            yield _differs(name, found or "-", asked or "-")
    yield from _of_promise(paper.guarantee, promise)
    if schema is not None and paper.schema != _expected_schema(paper, method, schema):
        yield say("the schema is another one")


def _asked(method: Any) -> dict[str, str | None]:
    """The parameters as a certificate writes them; those that the method decides by itself are left out."""
    open_ones = {"epsilon", "neighbours"}  # compared with the promise
    if isinstance(method, KAnonymity):
        open_ones |= {"criteria", "k", "max_suppressed", "quasi", "by", "others", "deadline_seconds"}
        open_ones |= set() if method.recoding == "mondrian" else {"mondrian"}
    if isinstance(method, Location):
        open_ones |= {"grid", "weights", "prior", "epsilon_per_metre"}
        open_ones |= {name for name in ("slack",) if method.slack is None}
        open_ones |= set() if method.mode == "fair" else {"extra_distance"}
    if getattr(method, "method", None) == "auto":
        open_ones |= {"method"}
    return {one.name: _text(getattr(method, one.name)) for one in fields(method) if one.name not in open_ones}


def _text(value: object) -> str | None:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(value) if isinstance(value, tuple) else None if value is None else str(value)


def _of_promise(found: Mapping[str, Any], asked: Mapping[str, Any]) -> Iterator[str]:
    for name in dict.fromkeys((*asked, *found)):
        if name != "statement" and found.get(name) != asked.get(name):
            yield _differs(name, _brief(found.get(name)), _brief(asked.get(name)))


def _expected_schema(paper: Certificate, method: Any, schema: Schema) -> dict[str, Any] | None:
    """The facts that the certificate should show: the published attributes, and for kanon at their levels."""
    published = [one.get("name") for one in paper.schema.get("attributes", [])]
    chosen = list(schema.names if method.by is None else method.by)
    if isinstance(method, KAnonymity):
        if not set(published) <= set(chosen):
            return None
        levels = paper.measures.get("levels") or {}
        facts = schema.select(published).coarsen(levels).to_dict()
    else:
        facts = (schema if method.by is None else schema.select(chosen)).to_dict()
    return dict(_plain(facts))


def _other_columns(paper: Certificate, method: KAnonymity, schema: Schema) -> Iterator[str]:
    found, asked = (one["name"] for one in paper.schema["attributes"]), method.by or schema.names
    told, wanted = ",".join(found), ",".join(asked)
    if told != wanted:
        yield _differs("by", told, wanted)


def _other_map(place: Path, method: Location) -> Iterator[str]:
    found, asked = load_artefact(place).mechanism, method.grid
    is_same = _plain(found.places.to_dict()) == _plain(asked.to_dict())
    reportable = None if method.weights is None else method.weights > 0
    can_be = found.weights > 0
    if not is_same or not (can_be.all() if reportable is None else (can_be == reportable).all()):
        yield say("the map is another one")


def _differs(name: str, found: str, asked: str) -> str:
    return say("{name}: there {found}, in the recipe {asked}", name=name, found=found, asked=asked)


def _plain(facts: Any) -> Any:
    return json.loads(json.dumps(facts))


def _brief(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


# What a recipe will do, checked before the first spend: parameters, schemas, places, ledger, and what is done.


OPENING = ("count_column", "encoding", "memory_limit", "spill_directory")  # of what is read, how
METHODS: Mapping[str, Callable[..., Any]] = {
    "microdata": Microdata,
    "table": Table,
    "view": View,
    "kanon": KAnonymity,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedRelease:
    """One release: what makes it, what it promises and costs, where it goes, and its certificate if it is done."""

    asked: Asked
    method: Any
    schema: Schema | None
    guarantee: Promise
    out: Path
    page: Path | None
    need: Cost | None = None  # None: takes nothing from a ledger
    cost: Fraction = Fraction(0)
    done: Certificate | None = None
    lost: tuple[Spend, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """All steps, and the ledger they spend from."""

    recipe: Recipe
    purse: LedgerState | None
    steps: tuple[PlannedRelease, ...]

    @property
    def to_do(self) -> tuple[PlannedRelease, ...]:
        """The steps that are not done."""
        return tuple(step for step in self.steps if step.done is None)

    @property
    def needed(self) -> Fraction:
        """What the steps to do will cost."""
        return sum((step.cost for step in self.to_do), Fraction())

    def notes(self) -> list[str]:
        """What the steward should know before it runs."""
        told = [_told_lost(step) for step in self.steps if step.lost and step.done is None]
        kanon = [step for step in self.steps if step.asked.publish == "kanon"]
        of_rows = [step for step in self.steps if step.asked.publish != "location"]
        if kanon and len(of_rows) > 1 and any(step.done is None for step in of_rows):
            names = ", ".join(step.asked.name for step in kanon)
            told.append(
                say(
                    "{names}: k-anonymity takes nothing from the ledger and does not compose; no promise covers it"
                    " together with the other releases of the same rows",
                    names=names,
                )
            )
        return [*told, *_told_unfinished(self.recipe.out)]


def _told_lost(step: PlannedRelease) -> str:
    spent = sum((one.cost for one in step.lost), Fraction())
    return say(
        "{name}: epsilon {spent} was spent at {time} without a release to show for it, perhaps by a run that was"
        " interrupted, or by another command in the same moment; it stays spent, and making the release costs {cost}"
        " again",
        name=step.asked.name,
        spent=spent,
        time=step.lost[-1].time,
        cost=step.cost,
    )


def _told_unfinished(out: Path) -> list[str]:
    """Name what a killed run left half-written. It is not deleted: another command may be writing there now."""
    found = sorted(one.name for one in out.glob(UNFINISHED))
    if not found:
        return []
    return [
        say(
            "unfinished files in {out}: {names}; a command that was killed left them, or one is writing them now; they"
            " are no release: delete them when none is running",
            out=out,
            names=", ".join(found),
        )
    ]


def plan_recipe(path: str | Path) -> Plan:
    """Read a recipe and check it against schemas, ledger and what is done; no data is opened, nothing is written."""
    recipe = read_recipe(path)
    _check_out(recipe.out)
    purse = read_purse(recipe)
    steps = tuple(_step(recipe, asked, purse) for asked in recipe.releases)
    _check_spends_known(steps, purse)
    steps = tuple(_with_lost(step, recipe.out, purse, steps) for step in steps)
    plan = Plan(recipe=recipe, purse=purse, steps=steps)
    _check_units(plan)
    _check_budget(plan)
    return plan


def _check_out(out: Path) -> None:
    if out.exists() and not out.is_dir():
        raise ReleaseError("{target} exists; choose another directory or remove it", target=out)
    if not out.parent.is_dir():
        raise ReleaseError("there is no directory {directory}; make it first", directory=out.parent)


# --- the ledger -------------------------------------------------------------------------------------------------


def _check_spends_known(steps: Sequence[PlannedRelease], purse: LedgerState | None) -> None:
    """Refuse a finished release that this ledger did not pay for: it would be in no sum."""
    if purse is None:
        return
    known = [one.to_dict() for one in purse.entries]
    for step in steps:
        if step.done is not None and not all(spend in known for spend in step.done.spends):
            raise LedgerError(
                "{place} was not paid for from {file}; name the ledger it was spent from, or give the release another"
                " name",
                place=step.out,
                file=purse.file,
            )


def _with_lost(
    step: PlannedRelease, out: Path, purse: LedgerState | None, steps: Sequence[PlannedRelease]
) -> PlannedRelease:
    if purse is None or step.need is None or step.done is not None:
        return step
    heads = [str(spend["head"]) for other in steps if other.done for spend in other.done.spends]
    gone = lost(out, step.asked.name, parts=step.need.parts, entries=purse.entries, published=heads)
    return replace(step, lost=gone)


def _check_units(plan: Plan) -> None:
    kept = plan.purse.unit if plan.purse else None
    for step in plan.to_do:
        if step.need is None or step.schema is None:
            continue
        unit = step.schema.unit
        if kept is not None and not kept.protects_the_same(unit):
            raise RelationMismatch(
                "the ledger protects {kept}, but the release protects {unit}; keep one ledger for each",
                kept=kept.words(),
                unit=unit.words(),
            )
        kept = kept or unit


def _check_budget(plan: Plan) -> None:
    purse = plan.purse
    if purse is None or plan.needed <= purse.left:
        return
    each = ", ".join(f"{step.asked.name} {step.cost}" for step in plan.to_do if step.need is not None)
    gone = sum((one.cost for step in plan.to_do for one in step.lost), Fraction())
    values = {"file": purse.file, "needed": plan.needed, "each": each, "left": purse.left, "budget": purse.budget}
    if gone:
        raise BudgetExceeded(
            "{file}: the releases to do need epsilon {needed} ({each}), but {left} of {budget} is left; {lost} was"
            " spent, perhaps by an interrupted run, and is gone: ask for less in the recipe",
            lost=gone,
            **values,
        )
    raise BudgetExceeded(
        "{file}: the releases to do need epsilon {needed} ({each}), but {left} of {budget} is left; ask for less in the"
        " recipe, or leave out a release",
        **values,
    )


# --- one release ------------------------------------------------------------------------------------------------


def _step(recipe: Recipe, asked: Asked, purse: LedgerState | None) -> PlannedRelease:
    with at_line(recipe.file, asked.lines, asked.name):
        step = _made(recipe, asked, purse)
        _check_page(step)
        done = finished(
            step.out,
            kind=asked.publish,
            method=step.method,
            schema=step.schema,
            guarantee=step.guarantee,
            is_request="request_file" in asked.reading,
        )
        return replace(step, done=done)


def _made(recipe: Recipe, asked: Asked, purse: LedgerState | None) -> PlannedRelease:
    out = recipe.out / asked.name
    page = recipe.out / f"{asked.name}.html" if asked.report else None
    if asked.publish == "location":
        mapped = Location.of_map(asked.map_file or "", **asked.parameters)
        return PlannedRelease(asked=asked, method=mapped, schema=None, guarantee=mapped.guarantee(), out=out, page=page)
    method = METHODS[asked.publish](**asked.parameters)
    schema = Schema.read(asked.schema_file or "")
    schema.require_confirmed()
    files_of(asked.source or "")
    if isinstance(method, KAnonymity):
        method, promise = _kanon(method, asked, schema, recipe.out)
        return PlannedRelease(asked=asked, method=method, schema=schema, guarantee=promise, out=out, page=page)
    if purse is None:
        raise LedgerError(
            "a release with an epsilon needs a ledger, which keeps the sum; write [ledger] with its file in the recipe"
        )
    need = ask(method, EmptySource(schema=schema), neighbours=purse.neighbours)
    cost = need.guarantee.cost(purse.neighbours)
    return PlannedRelease(
        asked=asked, method=method, schema=schema, guarantee=need.guarantee, out=out, page=page, need=need, cost=cost
    )


def _kanon(method: KAnonymity, asked: Asked, schema: Schema, out: Path) -> tuple[KAnonymity, Promise]:
    quasi, history = method.preview(schema).quasi, asked.reading.get("history_file")
    if history is not None and not will_be_made(history.parent, out):
        check_history(history)
    _check_register(method, asked)
    if "request_file" in asked.reading:
        method = replace(method, k=max(method.k, Request.read(asked.reading["request_file"], schema).k))
    return method, method.guarantee(unit=schema.unit, quasi=quasi)


def _check_register(method: KAnonymity, asked: Asked) -> None:
    """See that a register is there if and only if it is needed."""
    register = asked.reading.get("register_file")
    if register is not None and "request_file" in asked.reading:
        raise ParameterError("a request and a register do not go together; leave one out")
    needs_one = any(isinstance(one, Presence) for one in method.criteria)
    if needs_one != (register is not None):
        raise ParameterError(
            'criteria = "presence=LOW..HIGH" and register = "FILE", a table of the population, go together; give both'
            " or neither"
        )
    if register is not None:
        files_of(register)


def _check_page(step: PlannedRelease) -> None:
    if step.page is not None and (step.page.is_dir() or (step.page.exists() and not step.out.exists())):
        raise ReleaseError("{target} exists; choose another file or remove it", target=step.page)


# --- with the data ----------------------------------------------------------------------------------------------


def check_data(plan: Plan, opened: Callable[[PlannedRelease], contextlib.AbstractContextManager[Any]]) -> None:
    """Count for every release to do, as it will, and refuse what it would refuse: before the first of them spends."""
    relation = plan.purse.neighbours if plan.purse else "replace"
    for steps in _by_source(plan):
        first = steps[0]
        with at_line(plan.recipe.file, first.asked.lines, first.asked.name):
            source = opened(first)
        with source as rows:
            for step in steps:
                with at_line(plan.recipe.file, step.asked.lines, step.asked.name):
                    if step.need is None and step.schema is not None:
                        _count_classes(step, step.schema, rows)
                    else:
                        ask(step.method, rows, neighbours=relation)


def _count_classes(step: PlannedRelease, schema: Schema, source: Any) -> None:
    """Count what k-anonymity counts; whether k can be kept is left to the run, which spends nothing."""
    quasi = step.method.preview(schema).quasi
    source.count([*quasi, *step.method.sensitive(schema, quasi)])
    if "register_file" in step.asked.reading:
        reading = {name: step.asked.reading[name] for name in OPENING if name in step.asked.reading}
        count_register(step.asked.reading["register_file"], schema, step.method, reading)


def _by_source(plan: Plan) -> list[list[PlannedRelease]]:
    """Bring the steps together by the table that they read."""
    groups: dict[str, list[PlannedRelease]] = {}
    for step in plan.to_do:
        if step.schema is not None:
            asked = step.asked
            reading = {key: value for key, value in asked.reading.items() if not key.endswith(("_file", "_format"))}
            groups.setdefault(repr((asked.source, asked.schema_file, sorted(reading.items()))), []).append(step)
    return list(groups.values())
