"""How epsilon is shared out among the steps of the model, decided from public or already noisy numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from sudare.privacy import Guarantee

TOTAL = "noise in the number of records"
TABLES = "choice and noise of the tables of the view"
BLOCKS = "cuts and noise of the blocks of the view"
TOTAL_SHARE = Fraction(1, 100)
MANY = 600  # records times epsilon per attribute: from here on pairs beyond a light forest pay
CLEAR = 25  # records over the noise of a prefix of a one-way table: below it only pairs that stand far out pay
LIGHT = (96, 2, 2)  # one-way tables, choices, pairs: what is then risked on pairs
FEW = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Budget:
    """The promise, and the epsilon of the same run for one row more or less: the relation the proof is about."""

    guarantee: Guarantee
    epsilon: Fraction  # for add/remove of one row
    total_is_public: bool

    @property
    def total_epsilon(self) -> Fraction | None:
        """What the number of records costs, for one row."""
        return None if self.total_is_public else self.epsilon * TOTAL_SHARE


def plan(guarantee: Guarantee) -> Budget:
    """Replacing a row is removing one and adding one; a person is up to max_rows rows: epsilon is divided by both.

    >>> from sudare.schema import Unit
    >>> plan(Guarantee(epsilon=Fraction(1), neighbours="replace", unit=Unit())).epsilon
    Fraction(1, 2)
    """
    rows = guarantee.unit.max_rows if guarantee.unit.kind == "person" else 1
    factor = rows * (2 if guarantee.neighbours == "replace" else 1)
    is_public = guarantee.neighbours == "replace" and rows == 1
    return Budget(guarantee=guarantee, epsilon=guarantee.epsilon / factor, total_is_public=is_public)


def parts(budget: Budget, method: str) -> dict[str, Fraction]:
    """What is spent, by purpose; adds up to the guarantee."""
    epsilon = budget.guarantee.epsilon
    if method in ("mondrian", "hdpview"):
        return {BLOCKS: epsilon}
    if budget.total_is_public:
        return {TABLES: epsilon}
    return {TOTAL: epsilon * TOTAL_SHARE, TABLES: epsilon * (1 - TOTAL_SHARE)}


@dataclass(frozen=True, kw_only=True, slots=True)
class Shares:
    """Exact shares of one epsilon: one-way tables, choices, tables of the forest, tables of the extras."""

    ones: Fraction
    choices: Fraction
    forest: Fraction
    extras: Fraction
    picks: int  # how many pairs of the forest are chosen at most
    more: int  # how many extra pairs are chosen, in two rounds
    caution: float = 0.0  # how far a pair must stand out: 1 is as far as the luckiest of all would by noise alone


def share_out(method: str, epsilon: Fraction, *, records: float, sizes: Sequence[int]) -> Shares:
    """Split what is left after the number of records, by how well the one-way tables can be known.

    Settings were chosen on Adult and electricity (papers/kato_view).
    """
    d = len(sizes)
    beyond = d * (d - 1) // 2 - (d - 1)
    roots = [math.sqrt(size) for size in sizes]
    clear = records * float(epsilon) / (sum(roots) * max(roots))
    picks, caution = d - 1, 0.0
    if method == "product" or d == 1:
        one, choice, forest, extra, more = 1, 0, 0, 0, 0
    elif clear < CLEAR:
        one, choice, forest, extra, more = *LIGHT, 0, 0
        picks, caution = min(FEW, d - 1), 1.0
    elif records * float(epsilon) / d < MANY:
        one, choice, forest, extra, more = 88, 4, 8, 0, 0
    elif d == 2:
        one, choice, forest, extra, more = 39, 12, 48, 0, 0
    else:
        one, choice, forest, extra, more = 39, 12, 24, 24, min(d - 1, beyond)
    whole = one + choice + forest + extra
    return Shares(
        ones=epsilon * Fraction(one, whole),
        choices=epsilon * Fraction(choice, whole),
        forest=epsilon * Fraction(forest, whole),
        extras=epsilon * Fraction(extra, whole),
        picks=picks,
        more=more,
        caution=caution,
    )


def by_size(epsilon: Fraction, sizes: Sequence[int]) -> list[Fraction]:
    """Split epsilon in proportion to the square root of the tables' sizes, which minimises the error of all cells.

    Roots are rounded to powers of the square root of 2 (7/5), so that few different laws of noise are needed.

    >>> by_size(Fraction(1), [1, 4, 4])
    [Fraction(1, 5), Fraction(2, 5), Fraction(2, 5)]
    """
    weights = [_root(size) for size in sizes]
    return [epsilon * weight / sum(weights) for weight in weights]


def _root(size: int) -> Fraction:
    halves = max(0, (size * size - 1).bit_length())  # about 2 log2(size)
    half = round(halves / 2)
    return Fraction(2) ** (half // 2) * (Fraction(7, 5) if half % 2 else 1)
