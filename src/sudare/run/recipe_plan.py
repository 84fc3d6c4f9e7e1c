"""What a recipe will do, checked before the first spend: parameters, schemas, places, ledger, and what is done."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from sudare.errors import BudgetExceeded, LedgerError, RelationMismatch, ReleaseError
from sudare.messages import say
from sudare.methods.kanon import KAnonymity
from sudare.methods.kanon.history import check_history
from sudare.methods.kanon.request import Request
from sudare.methods.location import Location
from sudare.methods.microdata import Microdata
from sudare.methods.table import Table
from sudare.methods.view import View
from sudare.privacy import Promise, Spend
from sudare.releases import Certificate
from sudare.run.recipe_ask import Need, Nobody, ask
from sudare.run.recipe_done import finished
from sudare.run.recipe_file import Asked, Recipe, read_recipe
from sudare.run.recipe_lines import at_line
from sudare.run.recipe_lost import lost
from sudare.run.recipe_purse import Purse, read_purse
from sudare.schema import Schema
from sudare.sources.files import files_of

METHODS: Mapping[str, Callable[..., Any]] = {
    "microdata": Microdata,
    "table": Table,
    "view": View,
    "kanon": KAnonymity,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One release: what makes it, what it promises and costs, where it goes, and its certificate if it is done."""

    asked: Asked
    method: Any
    schema: Schema | None
    guarantee: Promise
    out: Path
    page: Path | None
    need: Need | None = None  # None: takes nothing from a ledger
    cost: Fraction = Fraction(0)
    done: Certificate | None = None
    lost: tuple[Spend, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """All steps, and the ledger they spend from."""

    recipe: Recipe
    purse: Purse | None
    steps: tuple[Step, ...]

    @property
    def to_do(self) -> tuple[Step, ...]:
        """The steps that are not done."""
        return tuple(step for step in self.steps if step.done is None)

    @property
    def needed(self) -> Fraction:
        """What the steps to do will cost."""
        return sum((step.cost for step in self.to_do), Fraction())

    def notes(self) -> list[str]:
        """What the steward should know before it runs."""
        told = [_told_lost(step) for step in self.steps if step.lost and step.done is None]
        kanon = [step for step in self.to_do if step.asked.publish == "kanon"]
        beside = [step for step in self.steps if step.asked.publish not in ("kanon", "location")]
        if kanon and (beside or sum(step.asked.publish == "kanon" for step in self.steps) > 1):
            names = ", ".join(step.asked.name for step in kanon)
            told.append(
                say(
                    "{names}: k-anonymity takes nothing from the ledger and does not compose; no promise covers it"
                    " together with the other releases of the same rows",
                    names=names,
                )
            )
        return told


def _told_lost(step: Step) -> str:
    spent = sum((one.cost for one in step.lost), Fraction())
    return say(
        "{name}: epsilon {spent} was spent at {time} by a run that was interrupted before anything was published; it"
        " stays spent, and making the release costs {cost} again",
        name=step.asked.name,
        spent=spent,
        time=step.lost[-1].time,
        cost=step.cost,
    )


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
        raise ReleaseError("{parent} is not a directory; make it first", parent=out.parent)


# --- the ledger -------------------------------------------------------------------------------------------------


def _check_spends_known(steps: Sequence[Step], purse: Purse | None) -> None:
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


def _with_lost(step: Step, out: Path, purse: Purse | None, steps: Sequence[Step]) -> Step:
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
            " spent by an interrupted run and is gone: ask for less in the recipe",
            lost=gone,
            **values,
        )
    raise BudgetExceeded(
        "{file}: the releases to do need epsilon {needed} ({each}), but {left} of {budget} is left; ask for less in the"
        " recipe, or leave out a release",
        **values,
    )


# --- one release ------------------------------------------------------------------------------------------------


def _step(recipe: Recipe, asked: Asked, purse: Purse | None) -> Step:
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


def _made(recipe: Recipe, asked: Asked, purse: Purse | None) -> Step:
    out = recipe.out / asked.name
    page = recipe.out / f"{asked.name}.html" if asked.report else None
    if asked.publish == "location":
        mapped = Location.of_map(asked.map_file or "", **asked.parameters)
        return Step(asked=asked, method=mapped, schema=None, guarantee=mapped.guarantee(), out=out, page=page)
    method = METHODS[asked.publish](**asked.parameters)
    schema = Schema.read(asked.schema_file or "")
    schema.require_confirmed()
    files_of(asked.source or "")
    if isinstance(method, KAnonymity):
        method, promise = _kanon(method, asked, schema)
        return Step(asked=asked, method=method, schema=schema, guarantee=promise, out=out, page=page)
    if purse is None:
        raise LedgerError(
            "a release with an epsilon needs a ledger, which keeps the sum; write [ledger] with its file in the recipe"
        )
    need = ask(method, Nobody(schema=schema), neighbours=purse.neighbours)
    cost = need.guarantee.cost(purse.neighbours)
    return Step(
        asked=asked, method=method, schema=schema, guarantee=need.guarantee, out=out, page=page, need=need, cost=cost
    )


def _kanon(method: KAnonymity, asked: Asked, schema: Schema) -> tuple[KAnonymity, Promise]:
    quasi = method.preview(schema).quasi
    if "history_file" in asked.reading:
        check_history(asked.reading["history_file"])
    if "request_file" in asked.reading:
        method = replace(method, k=max(method.k, Request.read(asked.reading["request_file"], schema).k))
    return method, method.guarantee(unit=schema.unit, quasi=quasi)


def _check_page(step: Step) -> None:
    if step.page is not None and step.page.exists() and not step.out.exists():
        raise ReleaseError("{target} exists; choose another file or remove it", target=step.page)


# --- with the data ----------------------------------------------------------------------------------------------


def check_data(plan: Plan, opened: Callable[[Step], contextlib.AbstractContextManager[Any]]) -> None:
    """Count for every release to do, as it will, and refuse what it would refuse: before the first of them spends."""
    relation = plan.purse.neighbours if plan.purse else "replace"
    for steps in _by_source(plan):
        first = steps[0]
        with at_line(plan.recipe.file, first.asked.lines, first.asked.name):
            source = opened(first)
        with source as rows:
            for step in steps:
                with at_line(plan.recipe.file, step.asked.lines, step.asked.name):
                    if step.need is None:
                        _count_classes(step, rows)
                    else:
                        ask(step.method, rows, neighbours=relation)


def _count_classes(step: Step, source: Any) -> None:
    """Count what k-anonymity counts; whether k can be kept is left to the run, which spends nothing."""
    quasi = step.method.preview(step.schema).quasi
    source.count([*quasi, *step.method.sensitive(step.schema, quasi)])


def _by_source(plan: Plan) -> list[list[Step]]:
    """Bring the steps together by the table that they read."""
    groups: dict[str, list[Step]] = {}
    for step in plan.to_do:
        if step.schema is not None:
            asked = step.asked
            reading = {key: value for key, value in asked.reading.items() if not key.endswith(("_file", "_format"))}
            groups.setdefault(repr((asked.source, asked.schema_file, sorted(reading.items()))), []).append(step)
    return list(groups.values())
