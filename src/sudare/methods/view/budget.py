"""How epsilon is shared out among the steps of the model, decided from public or already noisy numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from sudare.privacy import Guarantee

TOTAL = "noise in the number of records"
TABLES = "choice and noise of the tables of the view"
BLOCKS = "cuts and noise of the blocks of the view"
TOTAL_SHARE = Fraction(1, 100)
MANY = 600  # records times epsilon per attribute: from here on more pairs than a few pay
CLEAR = 130  # records over the noise of one-way tables: from here on more pairs pay
CLEAR_OF_FEW = 210  # the same with up to FEW attributes, whose product is often near
FEW = 5
FULLY = 80  # so much further they pay in full
PER_PICK = 6  # records times epsilon, per square of the attributes, that one of few pairs asks for
LEAST_PICK = 180  # of a pair, of WHOLE
FAINT = 80  # records times epsilon that a pair needs to tell anything
DEAREST_PICK = 500  # of WHOLE: pairs that need more are not measured
WHOLE = 10_000  # shares are whole ten-thousandths; they change in few steps, so that few laws of noise are needed
CAREFUL = (6000, 800, 1800, 1400)  # one-way tables, choices, forest, extras where more pairs begin to pay
FULL = (3900, 1200, 2400, 2400)
FULL_OF_MANY = (5500, 1000, 1750, 1750)  # with more attributes than BROAD, so that each still is known by itself
BROAD = 16
FEWEST_BINS = 4
MOST_BINS = 24  # of an attribute: with more, hardly a third attribute would find room in a clique
PER_CHOICE = 60  # of a choice at most; what choices need not goes to the tables


@dataclass(frozen=True, kw_only=True, slots=True)
class ViewBudget:
    """The promise, and the epsilon of the same run for one row more or less: the relation the proof is about."""

    guarantee: Guarantee
    epsilon: Fraction  # for add/remove of one row
    total_is_public: bool

    @property
    def total_epsilon(self) -> Fraction | None:
        """What the number of records costs, for one row."""
        return None if self.total_is_public else self.epsilon * TOTAL_SHARE


def plan(guarantee: Guarantee) -> ViewBudget:
    """Replacing a row is removing one and adding one; a person is up to max_rows rows: epsilon is divided by both.

    >>> from sudare.schema import Unit
    >>> plan(Guarantee(epsilon=Fraction(1), neighbours="replace", unit=Unit())).epsilon
    Fraction(1, 2)
    """
    rows = guarantee.unit.max_rows if guarantee.unit.kind == "person" else 1
    factor = rows * (2 if guarantee.neighbours == "replace" else 1)
    is_public = guarantee.neighbours == "replace" and rows == 1
    return ViewBudget(guarantee=guarantee, epsilon=guarantee.epsilon / factor, total_is_public=is_public)


def parts(budget: ViewBudget, method: str) -> dict[str, Fraction]:
    """What is spent, by purpose; adds up to the guarantee."""
    epsilon = budget.guarantee.epsilon
    if method in ("mondrian", "hdpview"):
        return {BLOCKS: epsilon}
    if budget.total_is_public:
        return {TABLES: epsilon}
    return {TOTAL: epsilon * TOTAL_SHARE, TABLES: epsilon * (1 - TOTAL_SHARE)}


@dataclass(frozen=True, kw_only=True, slots=True)
class BudgetSplit:
    """Exact shares of one epsilon: one-way tables, choices, tables of the forest, tables of the extras."""

    ones: Fraction
    choices: Fraction
    forest: Fraction
    extras: Fraction
    picks: int  # how many pairs of the forest are chosen at most
    more: int  # how many extra pairs are chosen, in two rounds
    caution: float = 0.0  # how far a pair must stand out: 1 is as far as the luckiest of all would by noise alone


def share_out(method: str, epsilon: Fraction, *, records: float, sizes: Sequence[int]) -> BudgetSplit:
    """Split what is left after the number of records, by how well the one-way tables can be known.

    `rich` is what an attribute has of records times epsilon, `clear` the records over the noise of all one-way tables.
    Settings were chosen on Adult, electricity, samples of them and a made-up skewed table (papers/kato_view).

    >>> share_out("model", Fraction(1), records=5_000.0, sizes=[50] * 15).picks
    3
    """
    d = len(sizes)
    rich = records * float(epsilon) / d
    clear = records * float(epsilon) / sum(math.sqrt(size) for size in sizes)
    if method == "product" or d == 1:
        return _shares(epsilon, (WHOLE, 0, 0, 0), picks=0)
    least = CLEAR_OF_FEW if d <= FEW else CLEAR
    if rich < MANY or clear < least:
        return _few(epsilon, d, records * float(epsilon))
    full = FULL if d <= BROAD else FULL_OF_MANY
    part = Fraction(int(4 * min(1.0, (clear - least) / FULLY)), 4)
    one, choice, forest, extra = (low + part * (high - low) for low, high in zip(CAREFUL, full, strict=True))
    more = min(d - 1, d * (d - 1) // 2 - (d - 1))
    choice = min(choice, Fraction(PER_CHOICE * (d - 1 + more)))
    if not more:
        forest, extra = forest + extra, Fraction()
    return _shares(epsilon, (one, choice, forest, extra), picks=d - 1, more=more)


def _few(epsilon: Fraction, d: int, known: float) -> BudgetSplit:
    """Few pairs, if they can be measured well and only those that stand out; or none at all."""
    picks = min(1 if d <= FEW else d - 1, int(known / (PER_PICK * d * d)))
    forest = max(LEAST_PICK, 20 * math.ceil(FAINT * WHOLE / 20 / max(known, 1.0)))
    if not picks or forest > DEAREST_PICK:
        return _shares(epsilon, (WHOLE, 0, 0, 0), picks=0)
    choice = min(max(60, 7 * d), 150)  # more candidates, more that come near by chance
    split = (WHOLE - picks * (choice + forest), picks * choice, picks * forest, 0)
    return _shares(epsilon, split, picks=picks, caution=1.0)


def _shares(
    epsilon: Fraction,
    split: tuple[Fraction | int, Fraction | int, Fraction | int, Fraction | int],
    *,
    picks: int,
    more: int = 0,
    caution: float = 0.0,
) -> BudgetSplit:
    one, choice, forest, extra = (epsilon * Fraction(part) / Fraction(sum(split)) for part in split)
    return BudgetSplit(ones=one, choices=choice, forest=forest, extras=extra, picks=picks, more=more, caution=caution)


def bins_wanted(records: float, epsilon: float, attributes: int) -> int:
    """How many coarse bins an attribute of the model gets at most.

    >>> bins_wanted(48_842, 1.0, 15), bins_wanted(48_842, 10.0, 15)
    (14, 24)
    """
    rich = max(records, 0.0) * epsilon / attributes
    return min(MOST_BINS, max(FEWEST_BINS, round(0.55 * math.pow(rich, 0.4))))


def by_size(epsilon: Fraction, sizes: Sequence[int], *, root: Literal[2, 3] = 2) -> list[Fraction]:
    """Split epsilon in proportion to a root of the tables' sizes.

    The cube root makes the squares of all noise least, the power 2/3 would if a table counted by its size, as it does
    in pairs of prefixes; the square root lies between. Roots are rounded, so that few laws of noise are needed.

    >>> by_size(Fraction(1), [1, 4, 4])
    [Fraction(1, 5), Fraction(2, 5), Fraction(2, 5)]
    >>> by_size(Fraction(1), [1, 8, 8], root=3)
    [Fraction(1, 5), Fraction(2, 5), Fraction(2, 5)]
    """
    weights = [_root(size, root) for size in sizes]
    return [epsilon * weight / sum(weights) for weight in weights]


def _root(size: int, root: Literal[2, 3]) -> Fraction:
    doublings = round(max(0, (size * size - 1).bit_length()) / 2)  # about log2(size)
    if root == 3:
        return Fraction(2) ** round(doublings / 3)
    return Fraction(2) ** (doublings // 2) * (Fraction(7, 5) if doublings % 2 else 1)
