"""The ledger of a recipe: as it stands, or as it will be made."""

from __future__ import annotations

import os
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from sudare.errors import LedgerError
from sudare.privacy import Ledger, Neighbours, Spend, exact_epsilon
from sudare.privacy.guarantee import check_neighbours
from sudare.run.recipe_file import AskedLedger, Recipe
from sudare.run.recipe_lines import at_line
from sudare.run.recipe_lost import mark
from sudare.schema.unit import Unit


@dataclass(frozen=True, kw_only=True, slots=True)
class Purse:
    """The ledger as it stands, or as it will be made."""

    file: Path
    budget: Fraction
    left: Fraction
    neighbours: Neighbours
    exists: bool
    unit: Unit | None = None
    entries: tuple[Spend, ...] = ()
    name: str = ""


def read_purse(recipe: Recipe) -> Purse | None:
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
        return Purse(
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


def _new_purse(recipe: Recipe, asked: AskedLedger, budget: Fraction | None) -> Purse:
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
    return Purse(file=asked.file, budget=budget, left=budget, neighbours=relation, exists=False, name=asked.name)
