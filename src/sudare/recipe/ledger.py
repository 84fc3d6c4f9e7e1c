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
from sudare.errors import LedgerError, ReleaseError, SudareError
from sudare.forms.jsontext import read_json
from sudare.forms.textfile import read_bytes
from sudare.privacy import Currency, Ledger, Neighbours, Spend, hide_password
from sudare.privacy.currency import read_amount
from sudare.recipe.file import LedgerSpec, Recipe
from sudare.schema.unit import Unit
from sudare.text import Text

LOCK = ".sudare-run.lock"


@contextlib.contextmanager
def run_alone(out: Path) -> Iterator[None]:
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
        if not _try_lock(handle, file, fcntl.flock, fcntl.LOCK_EX | fcntl.LOCK_NB):
            raise ReleaseError("another run is writing to {out}; wait until it has ended", out=out)
        try:
            yield
        finally:
            file.unlink(missing_ok=True)  # while it is held: whoever opens it later makes another
    finally:
        os.close(handle)


def _try_lock(handle: int, file: Path, flock: Callable[[int, int], object], how: int) -> bool:
    """Lock the file, and see that it is still the one of that name."""
    try:
        flock(handle, how)
        return os.path.samestat(os.fstat(handle), os.stat(file))
    except OSError:
        return False


def find_mark(out: Path, name: str) -> Path:
    """Give the file that says that a release was begun, if it is there."""
    return out / f".{name}.begun"


def begin(out: Path, name: str, *, entries: int) -> None:
    """Note, on the disk, how many entries the ledger has before a release; an older note is kept."""
    file = find_mark(out, name)
    if file.exists():
        return
    replace_file(file, json.dumps({"entries": entries}))


def end(out: Path, name: str) -> None:
    """Take the note away."""
    find_mark(out, name).unlink(missing_ok=True)


def find_lost_spends(
    out: Path, name: str, *, parts: Mapping[str, Fraction], entries: Sequence[Spend], published: Iterable[str]
) -> tuple[Spend, ...]:
    """Find what was spent for a release since it was begun, without a release to show for it.

    Spends of a release stand together, with its purposes in order. `published` are the heads of those that are in a
    certificate.
    """
    file = find_mark(out, name)
    if not file.exists():
        return ()
    try:
        before = int(read_json(read_bytes(file, most_mebibytes=1))["entries"])
    except (SudareError, ValueError, KeyError, TypeError):
        before = 0
    known, wanted = set(published), list(parts.items())
    since = [spend for spend in entries if spend.seq > before and spend.head not in known]
    lost: list[Spend] = []
    for first in range(len(since) - len(wanted) + 1):
        spends = since[first : first + len(wanted)]
        if [(spend.purpose, spend.amount) for spend in spends] == wanted and spends[0] not in lost:
            lost += spends
    return tuple(lost)


# The ledger of a recipe: as it stands, or as it will be made.


@dataclass(frozen=True, kw_only=True, slots=True)
class LedgerState:
    """The ledger as it stands, or as it will be made."""

    file: Path | str  # a file, or the address of a server
    budget: Fraction
    left: Fraction
    neighbours: Neighbours
    exists: bool
    currency: Currency
    delta: Fraction | None = None
    unit: Unit | None = None
    entries: tuple[Spend, ...] = ()
    name: str = ""
    length: int = 0  # entries of its chain

    def name_amount(self, amount: Fraction) -> Text:
        """Say an amount in the currency of the ledger."""
        return self.currency.name_amount(amount, delta=self.delta)


def read_ledger(recipe: Recipe) -> LedgerState | None:
    """Read the ledger of a recipe, or plan the one that will be made; a budget is never changed."""
    spec = recipe.ledger
    if spec is None:
        return None
    if not Ledger.exists(spec.file):
        return _plan_ledger(recipe, spec)
    with Ledger.open(spec.file) as ledger:
        asked = _read_budget(spec)
        if asked is not None and asked != (ledger.currency, ledger.budget, ledger.delta):
            currency, amount, delta = asked
            raise LedgerError(
                "{file} has a budget of {found}, and the recipe says {asked}; a budget is never changed: correct the"
                " recipe",
                file=ledger.where,
                found=ledger.currency.name_amount(ledger.budget, delta=ledger.delta),
                asked=currency.name_amount(amount, delta=delta),
            )
        if spec.neighbours not in (None, ledger.neighbours):
            raise LedgerError(
                "{file} is kept for neighbours {found}, but the recipe says {asked}; correct the recipe, or use"
                " another ledger",
                file=ledger.where,
                found=ledger.neighbours,
                asked=spec.neighbours,
            )
        return LedgerState(
            file=spec.file,
            budget=ledger.budget,
            left=ledger.left,
            neighbours=ledger.neighbours,
            exists=True,
            currency=ledger.currency,
            delta=ledger.delta,
            unit=ledger.unit,
            entries=tuple(ledger.entries()),
            name=ledger.name,
            length=ledger.length,
        )


def _read_budget(spec: LedgerSpec) -> tuple[Currency, Fraction, Fraction | None] | None:
    """Read the budget that a recipe says, if it says one."""
    if spec.budget is None and spec.rho is None and spec.delta is None:
        return None
    return read_amount(epsilon=spec.budget, rho=spec.rho, delta=spec.delta)


def will_be_made(folder: Path, out: Path) -> bool:
    """Tell whether a directory is that of the releases, which the run makes before it writes anything."""
    return not out.exists() and os.path.abspath(folder) == os.path.abspath(out)


def _plan_ledger(recipe: Recipe, spec: LedgerSpec) -> LedgerState:
    asked = _read_budget(spec)
    if asked is None:
        raise LedgerError(
            "there is no ledger {file}; make it with `sudare ledger create`, or write budget in [ledger]",
            file=hide_password(spec.file),
        )
    begun = [release.name for release in recipe.releases if find_mark(recipe.out, release.name).exists()]
    if begun:
        raise LedgerError(
            "there is no ledger {file}, though {name} was begun with it; bring it back: a new one would forget what was"
            " spent",
            file=hide_password(spec.file),
            name=begun[0],
        )
    folder = spec.file.parent if isinstance(spec.file, Path) else None
    if folder is not None and not folder.is_dir() and not will_be_made(folder, recipe.out):
        raise LedgerError("there is no directory {directory}; make it first", directory=folder)
    currency, budget, delta = asked
    relation: Neighbours = "add-remove" if spec.neighbours == "add-remove" else "replace"
    return LedgerState(
        file=spec.file, budget=budget, left=budget, neighbours=relation, exists=False, currency=currency, delta=delta,
        name=spec.name,
    )  # fmt: skip
