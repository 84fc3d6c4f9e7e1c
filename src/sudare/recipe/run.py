"""`sudare run`: the releases of a recipe one after the other, under one ledger; what is done is not done again."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

from sudare.app import allow_temporary_rows, publish, write_report
from sudare.atomic import cannot_write, check_new_directory
from sudare.errors import ReleaseError, SudareError
from sudare.privacy import Ledger, hide_password
from sudare.privacy.exact import write_exact
from sudare.privacy.signatures import find_key
from sudare.recipe.ledger import LedgerState, begin, end, find_mark, run_alone
from sudare.recipe.plan import PlannedRelease, RecipePlan, check_data, find_reading, plan_recipe
from sudare.sources import open as open_source
from sudare.text import Text, Words, text

Progress = Callable[[float], None] | None
Working = Callable[[], contextlib.AbstractContextManager[Progress]]
TellLine = Callable[[Text], object]


@dataclass(frozen=True, kw_only=True, slots=True)
class RecipeRun:
    """What a run did: the plan it began with, what it published, and what is left."""

    plan: RecipePlan
    published: tuple[str, ...]
    left: Fraction | None
    head: str | None

    def to_dict(self) -> dict[str, Any]:
        """Give plain values for a program."""
        return {
            **describe_plan(self.plan),
            "published": list(self.published),
            "left": None if self.left is None else str(self.left),
            "ledger_head": self.head,
        }


def describe_plan(plan: RecipePlan) -> dict[str, Any]:
    """Give a plan as plain values for a program."""
    ledger = plan.ledger
    return {
        "recipe": str(plan.recipe.file),
        "out": str(plan.recipe.out),
        "ledger": None if ledger is None else str(hide_password(ledger.file)),
        "budget": None if ledger is None else str(ledger.budget),
        "left": None if ledger is None else str(ledger.left),
        "needed": str(plan.needed),
        "notes": [str(note) for note in plan.notes()],
        "releases": [_describe_release(release, ledger) for release in plan.releases],
    }


def _describe_release(release: PlannedRelease, ledger: LedgerState | None) -> dict[str, Any]:
    error = describe_error(release, ledger)
    return {
        "name": release.spec.name,
        "publish": release.spec.publish,
        "guarantee": release.plan.promise.to_dict(),
        "cost": str(release.cost),
        "expected_error": None if error is None else str(error),
        "out": str(release.out),
        "report": None if release.page is None else str(release.page),
        "state": "to do" if release.done is None else "done",
        "lost": [spend.to_dict() for spend in release.lost],
    }


def describe_error(release: PlannedRelease, ledger: LedgerState | None) -> Text | None:
    """Tell the error to expect in a line; None where it takes a search or the data."""
    return release.method.describe_error(release.facts, neighbours=None if ledger is None else ledger.neighbours)


def run_recipe(path: str | Path, *, tell: TellLine, working: Working = contextlib.nullcontext) -> RecipeRun:
    """Make every release of a recipe that is not there yet, in order; each is whole or not there.

    Everything is checked before the first spend, with the data too. An error stops the run; what is done stays, and
    the next run goes on from there. `tell` is given a line before and after each release; `working` is held during
    long work, and gives what is called with the share done.
    """
    with _hold_directory(plan_recipe(path).recipe.out):
        plan = plan_recipe(path)  # once more: what another run did meanwhile counts
        for release in plan.to_do:
            check_new_directory(release.out)
        find_key(plan.recipe.key)  # refuses one that cannot sign, before anything is spent
        for note in plan.notes():
            tell(text("note: {note}", note=note))
        if names := [release.spec.name for release in plan.to_do if release.reads_table]:
            tell(text("checking the data for {names}", names=", ".join(names)))
            with working() as progress:
                check_data(plan, partial(_open_table, progress=progress))
        if any(release.is_paid for release in plan.to_do):
            _make_ledger(plan.ledger, tell)
        published = [_run_release(plan, number, tell, working) for number in range(len(plan.releases))]
        return _describe_run(plan, tuple(name for name in published if name))


@contextlib.contextmanager
def _hold_directory(out: Path) -> Iterator[Path]:
    """Make the directory of the releases, and hold it; one that stays empty is taken away again."""
    try:
        out.mkdir(exist_ok=True)
    except OSError as error:
        raise cannot_write(out, error) from None
    try:
        with run_alone(out):
            yield out
    finally:
        with contextlib.suppress(OSError):  # it holds releases, or another run's files by now
            out.rmdir()


def _open_table(release: PlannedRelease, *, progress: Progress) -> contextlib.AbstractContextManager[Any]:
    reading = allow_temporary_rows(find_reading(release.spec), beside=release.out)
    return contextlib.closing(open_source(release.spec.source, release.facts, progress=progress, **reading))


def _make_ledger(ledger: LedgerState | None, tell: TellLine) -> None:
    if ledger is None or ledger.exists:
        return
    budget: Any = {ledger.currency.name: ledger.budget, "delta": ledger.delta}
    with Ledger.create(ledger.file, **budget, neighbours=ledger.neighbours, name=ledger.name) as made:
        budget = ledger.name_amount(ledger.budget)
        tell(text("{file}: a ledger with a budget of {budget} was made", file=made.where, budget=budget))


def _run_release(plan: RecipePlan, number: int, tell: TellLine, working: Working) -> str | None:
    """Make one release, unless it is there; give its name if it was made now."""
    release = plan.releases[number]
    place = {"number": number + 1, "all": len(plan.releases), "name": release.spec.name}
    if release.done is not None:
        tell(text("{number}/{all} {name}: done before", **place))
        end(plan.recipe.out, release.spec.name)
        _write_page(release)
        return None
    tell(text("{number}/{all} {name}: {kind} -> {out}", **place, kind=release.spec.publish, out=release.out))
    try:
        with working() as progress:
            warnings = _publish(plan, release, progress)
        for warning in warnings:
            tell(text("    warning: {warning}", warning=warning))
        _write_page(release)
    except SudareError as error:
        raise ReleaseError(
            "{name}: {problem}; releases before it are done, and the next run goes on from here",
            name=release.spec.name,
            problem=error,
        ) from None
    if release.is_paid and plan.ledger is not None:
        with Ledger.open(plan.ledger.file) as ledger:
            tell(
                text(
                    "    spent {spent}; {left} of {budget} is left",
                    spent=plan.ledger.name_amount(release.cost),
                    left=write_exact(ledger.left),
                    budget=write_exact(ledger.budget),
                )
            )
    return release.spec.name


def _publish(plan: RecipePlan, release: PlannedRelease, progress: Progress) -> list[Words]:
    """Publish one release; give its warnings."""
    spec, ledger = release.spec, plan.ledger
    # a release that spends nothing is given the ledger too: its method may warn of what was spent on the same rows
    has_ledger = ledger is not None and release.reads_table and Ledger.exists(ledger.file)
    with _mark_begun(plan, release) if release.is_paid else contextlib.nullcontext():
        published = publish(
            release.method,
            (spec.source if release.reads_table else spec.map_file) or "",
            schema_file=spec.schema_file,
            out=release.out,
            ledger_file=ledger.file if ledger is not None and has_ledger else None,
            extras=spec.extras,
            file_format=spec.reading.get("file_format", "parquet"),
            key=plan.recipe.key,
            progress=progress,
            **find_reading(spec),
        )
    return list(published.warnings)


@contextlib.contextmanager
def _mark_begun(plan: RecipePlan, release: PlannedRelease) -> Iterator[None]:
    """Note that a release is begun; the note stays if the run ends after the spend and before the release."""
    out, name = plan.recipe.out, release.spec.name
    was_begun = find_mark(out, name).exists()
    before = _count_entries(plan.ledger)
    begin(out, name, entries=before)
    try:
        yield
    except BaseException:
        if not was_begun and _count_entries(plan.ledger) == before:
            end(out, name)
        raise
    end(out, name)


def _count_entries(ledger: LedgerState | None) -> int:
    if ledger is None or not Ledger.exists(ledger.file):
        return 0
    with Ledger.open(ledger.file) as opened:
        return opened.length


def _write_page(release: PlannedRelease) -> None:
    if release.page is not None and not release.page.exists():
        write_report(release.out, release.page)


def _describe_run(plan: RecipePlan, published: tuple[str, ...]) -> RecipeRun:
    if plan.ledger is None or not Ledger.exists(plan.ledger.file):
        return RecipeRun(plan=plan, published=published, left=None, head=None)
    with Ledger.open(plan.ledger.file) as ledger:
        return RecipeRun(plan=plan, published=published, left=ledger.left, head=ledger.head)
