"""`sudare run`: the releases of a recipe one after the other, under one ledger; what is done is not done again."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from sudare.advise.expected_error import error_line
from sudare.app import publish_kanon, publish_location, publish_release, write_report
from sudare.atomic import cannot_write, check_new_directory
from sudare.errors import LedgerError, ReleaseError, SudareError
from sudare.privacy import Ledger
from sudare.recipe.ledger import LedgerState, alone, begin, end, mark
from sudare.recipe.plan import OPENING, Plan, PlannedRelease, check_data, plan_recipe
from sudare.schema import Schema
from sudare.sources import open as open_source
from sudare.text import Text, Words, text

Moved = Callable[[float], None] | None
Working = Callable[[], contextlib.AbstractContextManager[Moved]]


class TellLine(Protocol):
    """Called before and after each step with what is done."""

    def __call__(self, words: Text, /) -> None:
        """Tell it."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Ran:
    """What a run did: the plan it began with, what it published, and what is left."""

    plan: Plan
    published: tuple[str, ...]
    left: Fraction | None
    head: str | None

    def to_dict(self) -> dict[str, Any]:
        """Plain values for a program."""
        return {
            **describe(self.plan),
            "published": list(self.published),
            "left": None if self.left is None else str(self.left),
            "ledger_head": self.head,
        }


def describe(plan: Plan) -> dict[str, Any]:
    """Give a plan as plain values for a program."""
    purse = plan.purse
    return {
        "recipe": str(plan.recipe.file),
        "out": str(plan.recipe.out),
        "ledger": None if purse is None else str(purse.file),
        "budget": None if purse is None else str(purse.budget),
        "left": None if purse is None else str(purse.left),
        "needed": str(plan.needed),
        "notes": plan.notes(),
        "releases": [
            {
                "name": step.asked.name,
                "publish": step.asked.publish,
                "guarantee": step.guarantee.to_dict(),
                "cost": str(step.cost),
                "expected_error": error_line(step.method, step.schema, step.guarantee),
                "out": str(step.out),
                "report": None if step.page is None else str(step.page),
                "state": "to do" if step.done is None else "done",
                "lost": [spend.to_dict() for spend in step.lost],
            }
            for step in plan.steps
        ],
    }


def run_recipe(path: str | Path, *, tell: TellLine, working: Working = contextlib.nullcontext) -> Ran:
    """Make every release of a recipe that is not there yet, in order; each is whole or not there.

    Everything is checked before the first spend, with the data too. An error stops the run; what is done stays, and
    the next run goes on from there. `working` is held during long work, and gives what is told the share done.
    """
    with _place(plan_recipe(path).recipe.out):
        plan = plan_recipe(path)  # once more: what another run did meanwhile counts
        for step in plan.to_do:
            check_new_directory(step.out)
        for note in plan.notes():
            tell(text("note: {note}", note=note))
        if reading := [step.asked.name for step in plan.to_do if step.schema is not None]:
            tell(text("checking the data for {names}", names=", ".join(reading)))
            with working() as moved:
                check_data(plan, partial(_opened, progress=moved))
        if any(step.need is not None for step in plan.to_do):
            _make_ledger(plan.purse, tell)
        published = tuple(_run_step(plan, number, tell, working) for number in range(len(plan.steps)))
        return _ran(plan, tuple(name for name in published if name))


@contextlib.contextmanager
def _place(out: Path) -> Iterator[Path]:
    """Make the directory of the releases, and hold it; one that stays empty is taken away again."""
    try:
        out.mkdir(exist_ok=True)
    except OSError as error:
        raise cannot_write(out, error) from None
    try:
        with alone(out):
            yield out
    finally:
        with contextlib.suppress(OSError):  # of what is in it, or is another's by now
            out.rmdir()


def _opened(step: PlannedRelease, *, progress: Moved) -> contextlib.AbstractContextManager[Any]:
    reading = {name: step.asked.reading[name] for name in OPENING if name in step.asked.reading}
    schema = step.schema if step.schema is not None else Schema.read(step.asked.schema_file or "")
    return contextlib.closing(open_source(step.asked.source, schema, progress=progress, **reading))


def _make_ledger(purse: LedgerState | None, tell: TellLine) -> None:
    if purse is None or purse.exists:
        return
    Ledger.create(purse.file, epsilon=purse.budget, neighbours=purse.neighbours, name=purse.name).close()
    made = text("{file}: a ledger with a budget of epsilon {budget} was made", file=purse.file, budget=purse.budget)
    tell(made)


def _run_step(plan: Plan, number: int, tell: TellLine, working: Working) -> str | None:
    step = plan.steps[number]
    place = {"number": number + 1, "all": len(plan.steps), "name": step.asked.name}
    if step.done is not None:
        tell(text("{number}/{all} {name}: done before", **place))
        end(plan.recipe.out, step.asked.name)
        _report(step)
        return None
    tell(text("{number}/{all} {name}: {kind} -> {out}", **place, kind=step.asked.publish, out=step.out))
    try:
        with working() as moved:
            warnings = _publish(plan, step, moved)
        for line in warnings:
            tell(text("    warning: {warning}", warning=line))
        _report(step)
    except SudareError as error:
        raise ReleaseError(
            "{name}: {problem}; releases before it are done, and the next run goes on from here",
            name=step.asked.name,
            problem=error,
        ) from None
    if step.need is not None and plan.purse is not None:
        with Ledger.open(plan.purse.file) as ledger:
            words = text(
                "    spent epsilon {cost}; {left} of {budget} is left",
                cost=step.cost,
                left=ledger.left,
                budget=ledger.budget,
            )
            tell(words)
    return step.asked.name


def _publish(plan: Plan, step: PlannedRelease, progress: Moved) -> tuple[Words, ...]:
    """Publish one release through the door of its method; give its warnings."""
    asked, purse = step.asked, plan.purse
    reading = {**asked.reading, "progress": progress}
    if asked.publish == "location":
        done = publish_location(asked.map_file or Path(), out=step.out, **reading, **asked.parameters)
        return tuple(done.told.warnings)
    place: dict[str, Any] = {"schema_file": asked.schema_file, "out": step.out}
    if asked.publish == "kanon":
        kept = purse.file if purse is not None and purse.file.exists() else None  # to be warned by; nothing is spent
        return publish_kanon(step.method, asked.source or "", ledger_file=kept, **place, **reading).warnings
    if purse is None:
        raise LedgerError(
            "a release with an epsilon needs a ledger, which keeps the sum; write [ledger] with its file in the recipe"
        )
    with _noted(plan, step):
        publish_release(step.method, asked.source or "", ledger_file=purse.file, **place, **reading)
    return ()


@contextlib.contextmanager
def _noted(plan: Plan, step: PlannedRelease) -> Iterator[None]:
    """Note that a release is begun; the note stays if the run ends after the spend and before the release."""
    out, name = plan.recipe.out, step.asked.name
    was_begun = mark(out, name).exists()
    before = _entries(plan.purse)
    begin(out, name, entries=before)
    try:
        yield
    except BaseException:
        if not was_begun and _entries(plan.purse) == before:
            end(out, name)
        raise
    end(out, name)


def _entries(purse: LedgerState | None) -> int:
    if purse is None or not purse.file.exists():
        return 0
    with Ledger.open(purse.file) as ledger:
        return len(ledger.entries())


def _report(step: PlannedRelease) -> None:
    if step.page is not None and not step.page.exists():
        write_report(step.out, step.page)


def _ran(plan: Plan, published: tuple[str, ...]) -> Ran:
    if plan.purse is None or not plan.purse.file.exists():
        return Ran(plan=plan, published=published, left=None, head=None)
    with Ledger.open(plan.purse.file) as ledger:
        return Ran(plan=plan, published=published, left=ledger.left, head=ledger.head)
