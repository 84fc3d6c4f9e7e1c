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
# Signal is records times epsilon. Settings were chosen on Adult, electricity, samples of them and a made-up skewed
# table (papers/kato_view); shares are ten-thousandths of epsilon and change in few steps, so that few laws are needed.
LEAST_SIGNAL_PER_ATTRIBUTE = 600  # from here on more pairs than a few pay
LEAST_SIGNAL = 130  # over the noise of all one-way tables: from here on more pairs pay
LEAST_SIGNAL_FEW_ATTRIBUTES = 210  # the same with few attributes, whose product is often near the truth
FEW_ATTRIBUTES = 5
SIGNAL_TO_FULL_SPLIT = 80  # so much beyond the least signal, pairs get their full shares
SIGNAL_PER_PAIR = 6  # per square of the number of attributes, that a pair needs where few pairs are measured
LEAST_PAIR_SHARE = 180  # of a measured pair
PAIR_SIGNAL = 80  # that a pair needs to tell anything
MOST_PAIR_SHARE = 500  # pairs that need more are not measured
TEN_THOUSAND = 10_000
SPLIT_WHEN_PAIRS_BEGIN_TO_PAY = (6000, 800, 1800, 1400)  # one-way tables, choices, forest, extra pairs
SPLIT_WHEN_PAIRS_PAY = (3900, 1200, 2400, 2400)
SPLIT_FOR_MANY_ATTRIBUTES = (5500, 1000, 1750, 1750)  # so that every attribute is still known by itself
MANY_ATTRIBUTES = 16  # with more than these
FEWEST_BINS = 4
MOST_BINS = 24  # of an attribute: with more, hardly a third attribute would fit into a clique
MOST_CHOICE_SHARE = 60  # of one choice; what choices do not need goes to the tables


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


def split_epsilon(method: str, epsilon: Fraction, *, records: float, sizes: Sequence[int]) -> BudgetSplit:
    """Split what is left after the number of records, by how well the one-way tables can be known.

    The signal, records times epsilon, decides: per attribute, and over the noise of all one-way tables.

    >>> split_epsilon("model", Fraction(1), records=5_000.0, sizes=[50] * 15).picks
    3
    """
    d = len(sizes)
    signal_per_attribute = records * float(epsilon) / d
    signal = records * float(epsilon) / sum(math.sqrt(size) for size in sizes)
    if method == "product" or d == 1:
        return _split_budget(epsilon, (TEN_THOUSAND, 0, 0, 0), picks=0)
    least = LEAST_SIGNAL_FEW_ATTRIBUTES if d <= FEW_ATTRIBUTES else LEAST_SIGNAL
    if signal_per_attribute < LEAST_SIGNAL_PER_ATTRIBUTE or signal < least:
        return _split_for_few_pairs(epsilon, d, records * float(epsilon))
    full = SPLIT_WHEN_PAIRS_PAY if d <= MANY_ATTRIBUTES else SPLIT_FOR_MANY_ATTRIBUTES
    part = Fraction(int(4 * min(1.0, (signal - least) / SIGNAL_TO_FULL_SPLIT)), 4)
    one_way, choice, forest, extra = (
        low + part * (high - low) for low, high in zip(SPLIT_WHEN_PAIRS_BEGIN_TO_PAY, full, strict=True)
    )
    more = min(d - 1, d * (d - 1) // 2 - (d - 1))
    choice = min(choice, Fraction(MOST_CHOICE_SHARE * (d - 1 + more)))
    if not more:
        forest, extra = forest + extra, Fraction()
    return _split_budget(epsilon, (one_way, choice, forest, extra), picks=d - 1, more=more)


def _split_for_few_pairs(epsilon: Fraction, d: int, known: float) -> BudgetSplit:
    """Few pairs, if they can be measured well and only those that stand out; or none at all."""
    picks = min(1 if d <= FEW_ATTRIBUTES else d - 1, int(known / (SIGNAL_PER_PAIR * d * d)))
    forest = max(LEAST_PAIR_SHARE, 20 * math.ceil(PAIR_SIGNAL * TEN_THOUSAND / 20 / max(known, 1.0)))
    if not picks or forest > MOST_PAIR_SHARE:
        return _split_budget(epsilon, (TEN_THOUSAND, 0, 0, 0), picks=0)
    choice = min(max(60, 7 * d), 150)  # more candidates, more that come near by chance
    split = (TEN_THOUSAND - picks * (choice + forest), picks * choice, picks * forest, 0)
    return _split_budget(epsilon, split, picks=picks, caution=1.0)


def _split_budget(
    epsilon: Fraction,
    split: tuple[Fraction | int, Fraction | int, Fraction | int, Fraction | int],
    *,
    picks: int,
    more: int = 0,
    caution: float = 0.0,
) -> BudgetSplit:
    one_way, choice, forest, extra = (epsilon * Fraction(part) / Fraction(sum(split)) for part in split)
    return BudgetSplit(
        ones=one_way, choices=choice, forest=forest, extras=extra, picks=picks, more=more, caution=caution
    )


def bins_wanted(records: float, epsilon: float, attributes: int) -> int:
    """How many coarse bins an attribute of the model gets at most.

    >>> bins_wanted(48_842, 1.0, 15), bins_wanted(48_842, 10.0, 15)
    (14, 24)
    """
    signal_per_attribute = max(records, 0.0) * epsilon / attributes
    return min(MOST_BINS, max(FEWEST_BINS, round(0.55 * math.pow(signal_per_attribute, 0.4))))


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
