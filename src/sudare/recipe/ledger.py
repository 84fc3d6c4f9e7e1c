"""One run of a recipe at a time, and what an interrupted one spent without publishing anything for it.

Beside the releases stands, while one with an epsilon is made, a small hidden file that says how long the ledger was
before. A run that is killed leaves it; the next one finds by it what was spent since, and tells.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from sudare.atomic import cannot_write, replace_file
from sudare.errors import LedgerError, ReleaseError
from sudare.privacy import Ledger, Neighbours, Spend, exact_epsilon
from sudare.privacy.promise import check_neighbours
from sudare.recipe.file import AskedLedger, Recipe, at_line
from sudare.schema.unit import Unit

LOCK = ".sudare-run.lock"


@contextlib.contextmanager
def alone(out: Path) -> Iterator[None]:
    """Let one run at a time write into a directory; the lock goes with the process that holds it.

    A file of its own is locked, not the directory: a history of k-anonymity kept there locks that.

    Error: ReleaseError if another run holds it.
    """
    try:
        import fcntl
    except ImportError:  # not a POSIX system: nothing to lock with
        yield
        return
    file = out / LOCK
    try:
        handle = os.open(file, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise cannot_write(out, error) from None
    try:
        if not _is_locked(handle, file, fcntl.flock, fcntl.LOCK_EX | fcntl.LOCK_NB):
            raise ReleaseError("another run is writing to {out}; wait until it has ended", out=out)
        try:
            yield
        finally:
            file.unlink(missing_ok=True)  # while it is held: whoever opens it later makes another
    finally:
        os.close(handle)


def _is_locked(handle: int, file: Path, flock: Callable[[int, int], object], how: int) -> bool:
    """Lock the file, and see that it is still the one of that name."""
    try:
        flock(handle, how)
        return os.path.samestat(os.fstat(handle), os.stat(file))
    except OSError:
        return False


def mark(out: Path, name: str) -> Path:
    """Name the file that says that a release was begun."""
    return out / f".{name}.begun"


def begin(out: Path, name: str, *, entries: int) -> None:
    """Note, on the disk, how many entries the ledger has before a release; an older note is kept."""
    file = mark(out, name)
    if file.exists():
        return
    replace_file(file, json.dumps({"entries": entries}))


def end(out: Path, name: str) -> None:
    """Take the note away."""
    mark(out, name).unlink(missing_ok=True)


def lost(
    out: Path, name: str, *, parts: Mapping[str, Fraction], entries: Sequence[Spend], published: Iterable[str]
) -> tuple[Spend, ...]:
    """Find what was spent for a release since it was begun, without a release to show for it.

    Spends of a release stand together, with its purposes in order. `published` are the heads of those that are in a
    certificate.
    """
    file = mark(out, name)
    if not file.exists():
        return ()
    try:
        before = int(json.loads(file.read_text(encoding="utf-8"))["entries"])
    except (OSError, ValueError, KeyError, TypeError):
        before = 0
    known, wanted = set(published), list(parts.items())
    since = [one for one in entries if one.seq > before and one.head not in known]
    found: list[Spend] = []
    for first in range(len(since) - len(wanted) + 1):
        these = since[first : first + len(wanted)]
        if [(one.purpose, one.epsilon) for one in these] == wanted and these[0] not in found:
            found += these
    return tuple(found)


# The ledger of a recipe: as it stands, or as it will be made.


@dataclass(frozen=True, kw_only=True, slots=True)
class LedgerState:
    """The ledger as it stands, or as it will be made."""

    file: Path
    budget: Fraction
    left: Fraction
    neighbours: Neighbours
    exists: bool
    unit: Unit | None = None
    entries: tuple[Spend, ...] = ()
    name: str = ""


def read_purse(recipe: Recipe) -> LedgerState | None:
    """Read the ledger of a recipe, or foresee the one that will be made; a budget is never changed."""
    asked = recipe.ledger
    if asked is None:
        return None
    with at_line(recipe.file, {**asked.lines, "epsilon": asked.lines.get("budget", 1)}, "[ledger]"):
        budget = None if asked.budget is None else exact_epsilon(asked.budget)
        if asked.neighbours is not None:
            check_neighbours(asked.neighbours)
    if not asked.file.exists():
        return _new_purse(recipe, asked, budget)
    with Ledger.open(asked.file) as ledger:
        if budget is not None and ledger.budget != budget:
            raise LedgerError(
                "{file} has a budget of {found}, and the recipe says {asked}; a budget is never changed: correct the"
                " recipe",
                file=asked.file,
                found=ledger.budget,
                asked=budget,
            )
        if asked.neighbours not in (None, ledger.neighbours):
            raise LedgerError(
                "{file} is kept for neighbours {found}, and the recipe says {asked}; correct the recipe, or keep"
                " another ledger",
                file=asked.file,
                found=ledger.neighbours,
                asked=asked.neighbours,
            )
        return LedgerState(
            file=asked.file,
            budget=ledger.budget,
            left=ledger.left,
            neighbours=ledger.neighbours,
            exists=True,
            unit=ledger.unit,
            entries=tuple(ledger.entries()),
            name=ledger.name,
        )


def will_be_made(folder: Path, out: Path) -> bool:
    """Tell whether a directory is that of the releases, which the run makes before it writes anything."""
    return not out.exists() and os.path.abspath(folder) == os.path.abspath(out)


def _new_purse(recipe: Recipe, asked: AskedLedger, budget: Fraction | None) -> LedgerState:
    if budget is None:
        raise LedgerError(
            "there is no ledger {file}; make it with `sudare ledger create`, or write budget in [ledger]",
            file=asked.file,
        )
    begun = [one.name for one in recipe.releases if mark(recipe.out, one.name).exists()]
    if begun:
        raise LedgerError(
            "there is no ledger {file}, though {name} was begun with it; bring it back: a new one would forget what was"
            " spent",
            file=asked.file,
            name=begun[0],
        )
    if not asked.file.parent.is_dir() and not will_be_made(asked.file.parent, recipe.out):
        raise LedgerError("there is no directory {directory}; make it first", directory=asked.file.parent)
    relation: Neighbours = "add-remove" if asked.neighbours == "add-remove" else "replace"
    return LedgerState(file=asked.file, budget=budget, left=budget, neighbours=relation, exists=False, name=asked.name)
