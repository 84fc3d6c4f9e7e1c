"""What a recipe will do, checked before the first spend: parameters, schemas, places, ledger, and what is done."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from sudare.app import open_extras, read_facts
from sudare.atomic import UNFINISHED
from sudare.errors import BudgetExceeded, LedgerError, RelationMismatch, ReleaseError
from sudare.forms import at_line
from sudare.methods.base import Method, Plan
from sudare.methods.parameters import use_new_names
from sudare.methods.registry import find_method
from sudare.privacy import DifferentialPrivacy, Spend, hide_password
from sudare.privacy.exact import write_exact
from sudare.recipe.file import Recipe, ReleaseSpec, read_recipe
from sudare.recipe.ledger import LedgerState, find_lost_spends, read_ledger, will_be_made
from sudare.releases import Certificate
from sudare.releases.certificate import tell_day
from sudare.releases.files import verify_files
from sudare.sources import is_address
from sudare.sources.files import find_files
from sudare.text import Text, join, text

OPENING = ("count_column", "encoding", "memory_limit", "spill_directory")  # what `sudare.open` takes

OpenTable = Callable[["PlannedRelease"], contextlib.AbstractContextManager[Any]]


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedRelease:
    """One release: what makes it, what it promises and costs, where it goes, and its certificate if it is done."""

    spec: ReleaseSpec
    method: Method
    facts: Any  # the schema, or the map of a method that takes one
    plan: Plan
    out: Path
    page: Path | None
    cost: Fraction = Fraction(0)  # in the relation of the ledger; 0 if it takes nothing from one
    done: Certificate | None = None
    lost: tuple[Spend, ...] = ()

    @property
    def is_paid(self) -> bool:
        """Whether it takes from a ledger."""
        return bool(self.plan.parts)

    @property
    def reads_table(self) -> bool:
        """Whether it is made from a table."""
        return self.method.takes != "map"


@dataclass(frozen=True, kw_only=True, slots=True)
class RecipePlan:
    """All releases of a recipe, and the ledger they spend from."""

    recipe: Recipe
    ledger: LedgerState | None
    releases: tuple[PlannedRelease, ...]

    @property
    def to_do(self) -> tuple[PlannedRelease, ...]:
        """The releases that are not done."""
        return tuple(release for release in self.releases if release.done is None)

    @property
    def needed(self) -> Fraction:
        """What the releases to do will cost."""
        return sum((release.cost for release in self.to_do), Fraction())

    def notes(self) -> list[Text]:
        """Tell what the steward should know before it runs."""
        notes = [_describe_lost(release) for release in self.to_do if release.lost]
        of_rows = [release for release in self.releases if release.reads_table]
        free = [release.spec.name for release in of_rows if not release.is_paid]
        if free and len(of_rows) > 1 and any(release.done is None for release in of_rows):
            notes.append(
                text(
                    "{names}: k-anonymity takes nothing from the ledger and does not compose; no promise covers it"
                    " together with the other releases of the same rows",
                    names=", ".join(free),
                )
            )
        return [*notes, *_describe_unfinished(self.recipe.out)]


def _describe_lost(release: PlannedRelease) -> Text:
    return text(
        "{name}: {spent} was spent at {time}, but there is no release for it; perhaps a run was"
        " interrupted, or another command ran at the same moment. It stays spent, and making the release costs"
        " {cost} again",
        name=release.spec.name,
        spent=release.lost[-1].charged_in.name_amount(sum((spend.cost for spend in release.lost), Fraction())),
        time=release.lost[-1].time,
        cost=release.cost,
    )


def _describe_unfinished(out: Path) -> list[Text]:
    """Name what is half-written. What a dead command left is removed by the next that writes there."""
    names = sorted(path.name for path in out.glob(UNFINISHED))
    if not names:
        return []
    return [
        text(
            "there are unfinished files in {out}: {names}; a command that was killed left them, or a command is"
            " writing them now. They are not a release. A run removes what killed commands of this version left; delete"
            " the rest when no command is running",
            out=out,
            names=", ".join(names),
        )
    ]


def plan_recipe(path: str | Path) -> RecipePlan:
    """Read a recipe and check it against schemas, ledger and what is done; no data is opened, nothing is written."""
    recipe = read_recipe(path)
    _check_out(recipe.out)
    ledger = read_ledger(recipe)
    releases = tuple(_plan_release(recipe, spec, ledger) for spec in recipe.releases)
    if ledger is not None:
        _check_spends_known(releases, ledger)
        releases = tuple(_add_lost(release, recipe.out, ledger, releases) for release in releases)
    plan = RecipePlan(recipe=recipe, ledger=ledger, releases=releases)
    _check_units(plan)
    _check_budget(plan)
    return plan


def _check_out(out: Path) -> None:
    if out.exists() and not out.is_dir():
        raise ReleaseError("{target} exists; choose another directory or remove it", target=out)
    if not out.parent.is_dir():
        raise ReleaseError("there is no directory {directory}; make it first", directory=out.parent)


# --- one release ------------------------------------------------------------------------------------------------------


def _plan_release(recipe: Recipe, spec: ReleaseSpec, ledger: LedgerState | None) -> PlannedRelease:
    with at_line(recipe.file, spec.lines, spec.name):
        kind = find_method(spec.publish)
        method = kind(**use_new_names(kind, spec.parameters)[0])
        facts = read_facts(method, spec.map_file or "", spec.schema_file)
        _check_tables(method, spec)
        extras = {name: path for name, path in spec.extras.items() if not _is_made_by_run(method, name, path, recipe)}
        opened = open_extras(method, facts, extras, find_reading(spec))  # tables among them are opened when counted
        plan = method.plan(facts, neighbours=ledger.neighbours if ledger else None, **opened)
        if plan.parts and ledger is None:
            raise LedgerError(
                "a release with an epsilon needs a ledger, which keeps the sum; write [ledger] with its file in the"
                " recipe"
            )
        release = PlannedRelease(
            spec=spec,
            method=method,
            facts=facts,
            plan=plan,
            out=recipe.out / spec.name,
            page=recipe.out / f"{spec.name}.html" if spec.report else None,
            cost=_find_cost(plan, ledger),
        )
        _check_page(release)
        return replace(release, done=find_finished(release))


def _find_cost(plan: Plan, ledger: LedgerState | None) -> Fraction:
    """Tell what a release costs in the ledger; 0 if it takes nothing from one."""
    if ledger is None or not isinstance(plan.promise, DifferentialPrivacy):
        return Fraction(0)
    return plan.promise.cost(ledger.neighbours, ledger.currency)


def find_reading(spec: ReleaseSpec) -> dict[str, Any]:
    """Find what `sudare.open` takes to read the table of a release."""
    return {name: spec.reading[name] for name in OPENING if name in spec.reading}


def _check_tables(method: Method, spec: ReleaseSpec) -> None:
    """See that the tables are there; they are opened when the data are checked."""
    if method.takes != "map" and not is_address(spec.source):
        find_files(spec.source or "")
    for file in method.extra_files:
        if file.content == "table" and file.name in spec.extras:
            find_files(str(spec.extras[file.name]))


def _is_made_by_run(method: Method, name: str, path: Path | str, recipe: Recipe) -> bool:
    """Tell whether notes go into the directory of the releases, which the run makes before it writes anything."""
    content = next(file.content for file in method.extra_files if file.name == name)
    return content == "notes" and will_be_made(Path(path).parent, recipe.out)


def _check_page(release: PlannedRelease) -> None:
    page = release.page
    if page is not None and (page.is_dir() or (page.exists() and not release.out.exists())):
        raise ReleaseError("{target} exists; choose another file or remove it", target=page)


def find_finished(release: PlannedRelease) -> Certificate | None:
    """Find the certificate of a finished release, or None if there is none; another release is refused.

    Every file is checked against the certificate.
    """
    place = release.out
    if not place.exists() and not place.is_symlink():
        return None
    certificate = verify_files(place)
    differences = release.method.differences(certificate, release.plan, place=place)
    if differences:
        raise ReleaseError(
            "{place} holds another release than the recipe asks for ({differences}); give the release another name, or"
            " move the directory away if it was never published; what it spent stays spent",
            place=place,
            differences=join(differences, "; "),
        )
    return certificate


# --- the ledger -------------------------------------------------------------------------------------------------------


def _check_spends_known(releases: Sequence[PlannedRelease], ledger: LedgerState) -> None:
    """Refuse a finished release that this ledger did not pay for: it would be in no sum."""
    known = [tell_day(spend.to_dict()) for spend in ledger.entries]
    for release in releases:
        if release.done is not None and not all(tell_day(spend) in known for spend in release.done.spends):
            raise LedgerError(
                "{place} was not paid for from {file}; name the ledger it was spent from, or give the release another"
                " name",
                place=release.out,
                file=hide_password(ledger.file),
            )


def _add_lost(
    release: PlannedRelease, out: Path, ledger: LedgerState, releases: Sequence[PlannedRelease]
) -> PlannedRelease:
    """Add what an interrupted run spent for a release that is still to do."""
    if not release.is_paid or release.done is not None:
        return release
    heads = [str(spend["head"]) for other in releases if other.done for spend in other.done.spends]
    lost = find_lost_spends(out, release.spec.name, parts=release.plan.parts, entries=ledger.entries, published=heads)
    return replace(release, lost=lost)


def _check_units(plan: RecipePlan) -> None:
    kept = plan.ledger.unit if plan.ledger else None
    for release in plan.to_do:
        if not release.is_paid:
            continue
        unit = release.plan.facts.unit
        if kept is not None and not kept.protects_the_same(unit):
            raise RelationMismatch(
                "the ledger protects {kept}, but the release protects {unit}; keep one ledger for each",
                kept=kept.describe(),
                unit=unit.describe(),
            )
        kept = kept or unit


def _check_budget(plan: RecipePlan) -> None:
    ledger = plan.ledger
    if ledger is None or plan.needed <= ledger.left:
        return
    costs = ", ".join(f"{release.spec.name} {write_exact(release.cost)}" for release in plan.to_do if release.is_paid)
    lost = sum((spend.cost for release in plan.to_do for spend in release.lost), Fraction())
    values: dict[str, object] = {
        "file": hide_password(ledger.file),
        "needed": ledger.name_amount(plan.needed),
        "costs": costs,
        "left": write_exact(ledger.left),
        "budget": write_exact(ledger.budget),
    }
    if lost:
        raise BudgetExceeded(
            "{file}: the releases to do need {needed} ({costs}), but {left} of {budget} is left; {lost} was"
            " spent, perhaps by an interrupted run, and is gone: ask for less in the recipe",
            lost=lost,
            **values,
        )
    raise BudgetExceeded(
        "{file}: the releases to do need {needed} ({costs}), but {left} of {budget} is left; ask for less in"
        " the recipe, or leave out a release",
        **values,
    )


# --- with the data ----------------------------------------------------------------------------------------------------


def check_data(plan: RecipePlan, open_table: OpenTable) -> None:
    """Count for every release to do, as it will, and refuse what it would refuse: before the first of them spends."""
    for releases in _group_by_table(plan):
        with _blame(plan, releases[0]):
            source = open_table(releases[0])
        with source as table:
            for release in releases:
                with _blame(plan, release):
                    release.method.check_source(table, release.plan)


def _blame(plan: RecipePlan, release: PlannedRelease) -> contextlib.AbstractContextManager[None]:
    """Put the line of the release before whatever is wrong with it."""
    return at_line(plan.recipe.file, release.spec.lines, release.spec.name)


def _group_by_table(plan: RecipePlan) -> list[list[PlannedRelease]]:
    """Bring the releases to do together by the table that they read."""
    groups: dict[str, list[PlannedRelease]] = {}
    for release in plan.to_do:
        if release.reads_table:
            spec = release.spec
            groups.setdefault(repr((spec.source, spec.schema_file, find_reading(spec))), []).append(release)
    return list(groups.values())
