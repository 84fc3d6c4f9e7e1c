"""What a recipe will do, checked before the first spend: parameters, schemas, places, ledger, and what is done."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from sudare.errors import BudgetExceeded, LedgerError, ParameterError, RelationMismatch, ReleaseError
from sudare.messages import say
from sudare.methods.kanon import KAnonymity
from sudare.methods.kanon.criteria import Presence
from sudare.methods.kanon.history import check_history
from sudare.methods.kanon.request import Request
from sudare.methods.location import Location
from sudare.methods.microdata import Microdata
from sudare.methods.table import Table
from sudare.methods.view import View
from sudare.privacy import Promise, Spend
from sudare.releases import Certificate
from sudare.run.kanon import count_register
from sudare.run.recipe_ask import Need, Nobody, ask
from sudare.run.recipe_done import finished
from sudare.run.recipe_file import Asked, Recipe, read_recipe
from sudare.run.recipe_lines import at_line
from sudare.run.recipe_lost import lost
from sudare.run.recipe_purse import Purse, read_purse, will_be_made
from sudare.schema import Schema
from sudare.sources.files import files_of

UNFINISHED = ".sudare-*.partial"  # as Release.save and write_report call what they are writing
OPENING = ("count_column", "encoding", "memory_limit", "spill_directory")  # of what is read, how
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


def _told_lost(step: Step) -> str:
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
        method, promise = _kanon(method, asked, schema, recipe.out)
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


def _check_page(step: Step) -> None:
    if step.page is not None and (step.page.is_dir() or (step.page.exists() and not step.out.exists())):
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
                    if step.need is None and step.schema is not None:
                        _count_classes(step, step.schema, rows)
                    else:
                        ask(step.method, rows, neighbours=relation)


def _count_classes(step: Step, schema: Schema, source: Any) -> None:
    """Count what k-anonymity counts; whether k can be kept is left to the run, which spends nothing."""
    quasi = step.method.preview(schema).quasi
    source.count([*quasi, *step.method.sensitive(schema, quasi)])
    if "register_file" in step.asked.reading:
        reading = {name: step.asked.reading[name] for name in OPENING if name in step.asked.reading}
        count_register(step.asked.reading["register_file"], schema, step.method, reading)


def _by_source(plan: Plan) -> list[list[Step]]:
    """Bring the steps together by the table that they read."""
    groups: dict[str, list[Step]] = {}
    for step in plan.to_do:
        if step.schema is not None:
            asked = step.asked
            reading = {key: value for key, value in asked.reading.items() if not key.endswith(("_file", "_format"))}
            groups.setdefault(repr((asked.source, asked.schema_file, sorted(reading.items()))), []).append(step)
    return list(groups.values())
