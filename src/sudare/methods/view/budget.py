"""How the promise is shared out among the steps of the model, decided from public or already noisy numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal, TypeVar

from sudare.noise import CountNoise, Rng, exponential, permute_and_flip
from sudare.noise.counting import choose_noise
from sudare.noise.matrix import MatrixNoise
from sudare.privacy import DifferentialPrivacy
from sudare.privacy.currency import EPSILON, Currency
from sudare.schema.arrays import Integers

Split = tuple[int, int, int, int]  # one-way tables, choices, forest, extra pairs, in ten-thousandths

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
SPLIT_WHEN_PAIRS_BEGIN_TO_PAY: Split = (6000, 800, 1800, 1400)
SPLIT_WHEN_PAIRS_PAY: Split = (3900, 1200, 2400, 2400)
SPLIT_FOR_MANY_ATTRIBUTES: Split = (5500, 1000, 1750, 1750)  # so that every attribute is still known by itself
# Where all pairs may pay choices are clear, and extra pairs no longer tell of single values.
SPLIT_WHEN_ALL_PAIRS_MAY_PAY: Split = (5000, 600, 2200, 2200)
SPLIT_WHEN_ALL_PAIRS_AT_ONCE: Split = (5400, 800, 2000, 1800)  # one matrix needs less than a table for every pair
MANY_ATTRIBUTES = 16  # with more than these
ALL_PAIRS_SHARE = Fraction(1, 4)  # about what all pairs beyond the forest share
LEAST_SHARE_AT_ONCE = Fraction(1, 5)  # the same with SPLIT_WHEN_ALL_PAIRS_AT_ONCE, at least
LEAST_SIGNAL_BEYOND = 800  # records over the noise of a cell of theirs, from which on choices take less
# For all pairs measured at once as one matrix. Chosen, as the shares for all pairs, on the made-up tables TUNED of
# benchmarks/view_pairs.py and the sets of papers/kato_view, and on three tables of docs/measurements/view.md.
FEWEST_GROUPS = 3  # of the bins of an attribute
MOST_CONTRASTS = 400  # of all attributes together: the time of the noise grows with the cube
LEAST_SIGNAL_AT_ONCE = 40  # records over the noise of a cell
LEAST_ATTRIBUTES_AT_ONCE = 9  # with fewer, extra pairs are most of them
EXTRAS_IF_CLEAR = Fraction(3, 2)  # of the forest's pairs: where groups of attributes depend on each other, more are off
MOST_PAIRS_BEYOND = 5_000
LEAST_STRENGTH = Fraction(1, 10**6)
# Of a histogram's size, by which its share goes: of 1/3 and this, chosen on Adult, its numbers, traffic, electricity.
POWER_OF_LENGTH = Fraction(9, 20)
ONE_VALUE_WEIGHT = Fraction(1, 20)  # in place of a power, where everybody has the only value
FEWEST_BINS = 4
MOST_BINS = 24  # of an attribute: with more, hardly a third attribute would fit into a clique
LONG_TABLE = 600  # cells: a longer table of a pair takes no more than MOST_WEIGHT_OF_LONG or a usual one
LONG_LIST = 256  # values of one attribute: a longer list is one of labels, since numbers start from no more cells
MOST_WEIGHT_OF_LONG = Fraction(4)
MANY_FOR_PAIRS = 24  # attributes: with more, many pairs are chosen with little each
CHOICE_SHARE = 0.3  # of the records: a pair that is so far off stands out in a choice among many
MOST_SHARE_OF_PAIRS = 0.3  # of the amount, with many attributes and few records
SIGNAL_TO_ALL_PAIRS = 1600  # records times epsilon per attribute; the three chosen on made-up tables of 30 and 100
JOINT_SHARE = Fraction(1, 10)  # of what pairs would have: for the table of all attributes of a view of few
JOINT_SIGNAL = 3300  # records over the noise of a cell of a pair: below, pairs need all of it. Both were chosen on
# small-adult and columns of Star, HI, SLID and Vocab, the share also on diamonds, CPSch3 and Snmesp (pydataset)
MOST_CHOICE_SHARE = 60  # of one choice; what choices do not need goes to the tables


@dataclass(frozen=True, kw_only=True, slots=True)
class ViewBudget:
    """The promise, and what its steps may cost.

    Under pure epsilon everything is counted for one row more or less, the relation the proof is about: `amount` is the
    epsilon of that. Under rho it is the rho of the promise itself, and a unit changes `changed_cells` places of every
    table by `rows` each.
    """

    guarantee: DifferentialPrivacy
    amount: Fraction
    total_is_public: bool
    changed_cells: int = 1
    rows: int = 1

    @property
    def currency(self) -> Currency:
        """What amounts are counted in."""
        return self.guarantee.currency

    @property
    def total_part(self) -> Fraction | None:
        """What the number of records costs, of the amount."""
        return None if self.total_is_public else self.amount * self._total_share

    @property
    def _total_share(self) -> Fraction:
        return self.currency.reshare([TOTAL_SHARE, 1 - TOTAL_SHARE])[0]

    @property
    def parts(self) -> dict[str, Fraction]:
        """What is spent on the number of records and on the tables; adds up to the guarantee."""
        whole = self.guarantee.amount
        if self.total_is_public:
            return {TABLES: whole}
        return {TOTAL: whole * self._total_share, TABLES: whole * (1 - self._total_share)}

    def noise(self, part: Fraction) -> CountNoise:
        """Choose the noise of a table that may cost a part of the amount; a record lies in one place of it."""
        return choose_noise(part, self.currency, cells=self.changed_cells, rows=self.rows)

    def total_noise(self, part: Fraction) -> CountNoise:
        """Choose the noise of the number of records, of which a person that is replaced changes one row less."""
        rows = max(1, self.rows - 1) if self.changed_cells == 2 else self.rows
        return choose_noise(part, self.currency, cells=1, rows=rows)

    def sum_noise(self, part: Fraction, tables: int) -> CountNoise:
        """Choose the noise of one number that a row changes by at most 1 in each of so many tables."""
        return choose_noise(part, self.currency, cells=1, rows=tables * self.changed_cells * self.rows)

    def test_noise(self, part: Fraction, change: int) -> CountNoise:
        """Choose the noise of a test of each of some disjoint blocks, whose number a row changes by at most `change`.

        Rows that a unit takes from a block and rows that it brings to the same do not add up: the more of them count.
        """
        return choose_noise(part, self.currency, cells=self.changed_cells, rows=change * self.rows)

    def deviation(self, part: Fraction, tables: int) -> float:
        """Tell the noise of a table if so many share a part evenly."""
        if not self.is_concentrated:
            return math.sqrt(2) * tables / float(part)
        return self.noise(part / tables).spread

    def choice(self, part: Fraction) -> PairChoice:
        """Find how one pair is chosen at the cost of a part of the amount."""
        sensitivity = self.changed_cells * self.rows
        return PairChoice(
            epsilon=self.currency.exponential_within(part),
            sensitivity=sensitivity,
            is_concentrated=self.is_concentrated,
        )

    @property
    def is_concentrated(self) -> bool:
        """Tell whether Gaussian noise keeps the promise."""
        return self.currency.gaussian_variance(self.amount, sensitivity_squared=1) is not None

    def strength(self, tables: int) -> float:
        """Tell how well so many tables can be known: the pure epsilon for one row that would give them the same noise.

        Divided evenly, pure epsilon gives each of D tables a variance of 2 (D/epsilon)^2, rho one of
        cells * rows^2 * D / (2 rho).
        """
        if not self.is_concentrated:
            return float(self.amount)
        return 2 * math.sqrt(tables * self.amount / self.changed_cells) / self.rows


@dataclass(frozen=True, kw_only=True, slots=True)
class PairChoice:
    """How one pair is chosen by scores: with what epsilon, for which sensitivity (in records), by which mechanism.

    Under pure epsilon permute-and-flip, never worse than the exponential mechanism; under rho the latter, since it
    costs epsilon^2/8, and permute-and-flip epsilon^2/2 (proofs/gaussian.md).
    """

    epsilon: Fraction
    sensitivity: int
    is_concentrated: bool

    @property
    def scale(self) -> float:
        """The noise of the choice, in records, over 2."""
        return float(self.sensitivity / self.epsilon)

    def choose(self, scores: Integers, *, unit: int, rng: Rng) -> int:
        """Choose a place of the scores, of which `unit` are one record."""
        mechanism = exponential if self.is_concentrated else permute_and_flip
        return mechanism(scores, epsilon=self.epsilon, sensitivity=self.sensitivity * unit, rng=rng)


def plan(guarantee: DifferentialPrivacy) -> ViewBudget:
    """Find what one row, or the unit itself, may cost.

    Pure epsilon: replacing a row is removing one and adding one; a person is up to max_rows rows: epsilon is divided by
    both. rho: the change of the unit is counted as it is, two places by max_rows each.

    >>> from sudare.privacy import Guarantee
    >>> from sudare.schema import Unit
    >>> plan(Guarantee(epsilon=Fraction(1), neighbours="replace", unit=Unit())).amount
    Fraction(1, 2)
    """
    rows = guarantee.unit.max_rows if guarantee.unit.kind == "person" else 1
    cells = 2 if guarantee.neighbours == "replace" else 1
    is_public = cells == 2 and rows == 1
    if guarantee.currency.gaussian_variance(guarantee.amount, sensitivity_squared=1) is None:
        epsilon = guarantee.amount / (rows * cells)
        return ViewBudget(guarantee=guarantee, amount=epsilon, total_is_public=is_public)
    return ViewBudget(
        guarantee=guarantee,
        amount=guarantee.amount,
        total_is_public=is_public,
        changed_cells=cells,
        rows=rows,
    )


def parts(budget: ViewBudget, method: str) -> dict[str, Fraction]:
    """What is spent, by purpose; adds up to the guarantee."""
    return {BLOCKS: budget.guarantee.amount} if method in ("mondrian", "hdpview") else budget.parts


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


def count_tables(method: str, attributes: int) -> int:
    """Count the tables that share the amount when all pairs are measured: one-way, forest and extra ones."""
    return attributes if method == "product" else max(attributes, 3 * attributes - 2)


def find_varying(sizes: Sequence[int]) -> list[int]:
    """Leave out attributes of a single value, which take no part in any pair; all stay if there are no others.

    >>> find_varying([1, 7, 2]), find_varying([1, 1])
    ([7, 2], [1, 1])
    """
    return [size for size in sizes if size > 1] or list(sizes)


def count_usual(sizes: Sequence[int]) -> int:
    """Count the attributes that are no long lists, or all if all are: a list beside others shall not change the rules.

    >>> count_usual([2, 40, 5_000]), count_usual([5_000, 5_000])
    (2, 2)
    """
    return sum(size <= LONG_LIST for size in sizes) or len(sizes)


def split_budget(
    method: str, budget: ViewBudget, *, records: float, sizes: Sequence[int], reserved: Fraction = Fraction(0)
) -> BudgetSplit:
    """Split what is left of a budget after the number of records and what is reserved for leaves and the exam.

    Settings were chosen under pure epsilon. Under rho the same rules hold at the epsilon of equal noise, and a share
    that D tables divide keeps the weight that pure epsilon gave each of them.
    """
    left = budget.amount - (budget.total_part or 0) - reserved
    all_pairs = choose_split_for_all_pairs(budget, left, records, sizes)
    if not budget.is_concentrated:
        return split_epsilon(method, left, records=records, sizes=sizes, all_pairs=all_pairs)
    strength = Fraction(budget.strength(count_tables(method, len(sizes)))).limit_denominator(10**6)
    pure = split_epsilon(method, max(strength, LEAST_STRENGTH), records=records, sizes=sizes, all_pairs=all_pairs)
    shared = [(pure.ones, len(sizes)), (pure.choices, pure.picks + pure.more)]
    shared += [(pure.forest, pure.picks), (pure.extras, pure.more)]
    each = budget.currency.reshare([share / max(tables, 1) for share, tables in shared])
    weights = [share * tables for share, (_, tables) in zip(each, shared, strict=True)]
    ones, choices, forest, extras = (left * weight / sum(weights) for weight in weights)
    return replace(pure, ones=ones, choices=choices, forest=forest, extras=extras)


def choose_split_for_all_pairs(
    budget: ViewBudget, amount: Fraction, records: float, sizes: Sequence[int]
) -> Split | None:
    """The shares, if all pairs beyond a forest could be measured well with ALL_PAIRS_SHARE, by public numbers.

    With up to four attributes the extra pairs are all there are, so nothing is left for such a round. Under pure
    epsilon the pairs of many attributes may be measured at once, as one matrix: here with as many groups as values
    without order would have at least, so that shares are made for it only if it can be measured whatever they are.
    """
    attributes = count_usual(sizes)
    pairs = (attributes - 1) * (attributes - 2) // 2
    if not attributes - 1 < pairs <= MOST_PAIRS_BEYOND or amount <= 0:
        return None
    part = amount * ALL_PAIRS_SHARE
    if attributes >= LEAST_ATTRIBUTES_AT_ONCE and not budget.is_concentrated:
        groups = tuple(min(size, 2 * FEWEST_GROUPS) for size in sizes)
        noise = MatrixNoise(sizes=groups, epsilon=amount * LEAST_SHARE_AT_ONCE)
        if noise.dimension <= MOST_CONTRASTS and records >= LEAST_SIGNAL_AT_ONCE * math.sqrt(noise.variance):
            return SPLIT_WHEN_ALL_PAIRS_AT_ONCE
    has_signal = records / budget.deviation(part, pairs) >= LEAST_SIGNAL_BEYOND
    return SPLIT_WHEN_ALL_PAIRS_MAY_PAY if has_signal else None


def share_joint(part: Fraction, budget: ViewBudget, *, pairs: int, records: float) -> Fraction:
    """What of the part of all pairs goes to one table of all attributes: nothing unless pairs are known well."""
    share = part * JOINT_SHARE
    return share if records >= JOINT_SIGNAL * budget.deviation(part - share, pairs) else Fraction(0)


def split_epsilon(
    method: str, epsilon: Fraction, *, records: float, sizes: Sequence[int], all_pairs: Split | None = None
) -> BudgetSplit:
    """Split what is left after the number of records, by how well the one-way tables can be known.

    The signal, records times epsilon, decides: per attribute, and over the noise of all one-way tables. `all_pairs`
    is the split if all of them could be measured.

    >>> split_epsilon("model", Fraction(1), records=5_000.0, sizes=[50] * 15).picks
    3
    """
    d, usual = len(sizes), count_usual(sizes)
    signal_per_attribute = records * float(epsilon) / d
    signal = records * float(epsilon) / sum(_weigh_lists([math.sqrt(size) for size in sizes], sizes, least=2))
    if method == "product" or d == 1:
        return _split_budget(epsilon, (TEN_THOUSAND, 0, 0, 0), picks=0)
    least = LEAST_SIGNAL_FEW_ATTRIBUTES if usual <= FEW_ATTRIBUTES else LEAST_SIGNAL
    if signal_per_attribute < LEAST_SIGNAL_PER_ATTRIBUTE or signal < least:
        return _split_for_few_pairs(epsilon, d, records * float(epsilon), is_small=usual <= FEW_ATTRIBUTES)
    full = SPLIT_WHEN_PAIRS_PAY if usual <= MANY_ATTRIBUTES else SPLIT_FOR_MANY_ATTRIBUTES
    full = all_pairs or full
    part = Fraction(int(4 * min(1.0, (signal - least) / SIGNAL_TO_FULL_SPLIT)), 4)
    one_way, choice, forest, extra = (
        low + part * (high - low) for low, high in zip(SPLIT_WHEN_PAIRS_BEGIN_TO_PAY, full, strict=True)
    )
    more = min(int(EXTRAS_IF_CLEAR * (d - 1)) if all_pairs else d - 1, d * (d - 1) // 2 - (d - 1))
    choice = min(choice, Fraction(MOST_CHOICE_SHARE * (d - 1 + more)))
    if not more:
        forest, extra = forest + extra, Fraction()
    return _split_budget(epsilon, (one_way, choice, forest, extra), picks=d - 1, more=more)


def _split_for_many_attributes(epsilon: Fraction, d: int, known: float) -> BudgetSplit:
    """The pairs that stand out most of very many: each gets what it needs to be told from chance, and no more.

    A choice must find a pair that is off by CHOICE_SHARE of the records among all others, a table must tell more than
    its noise. The more records times epsilon an attribute has, the more of the budget goes to pairs.
    """
    signal = max(known, 1.0)
    choice = 5 * math.ceil(TEN_THOUSAND * 2 * math.log(1 + math.comb(d, 2)) / (CHOICE_SHARE * signal) / 5)
    forest = 5 * math.ceil(TEN_THOUSAND * PAIR_SIGNAL / signal / 5)
    most = TEN_THOUSAND * min(MOST_SHARE_OF_PAIRS, signal / d / SIGNAL_TO_ALL_PAIRS)
    picks = min(d - 1, int(most / (choice + forest)))
    if not picks or forest > MOST_PAIR_SHARE:
        return _split_budget(epsilon, (TEN_THOUSAND, 0, 0, 0), picks=0)
    split = (TEN_THOUSAND - picks * (choice + forest), picks * choice, picks * forest, 0)
    return _split_budget(epsilon, split, picks=picks, caution=1.0)


def _split_for_few_pairs(epsilon: Fraction, d: int, known: float, *, is_small: bool) -> BudgetSplit:
    """Few pairs, if they can be measured well and only those that stand out; or none at all."""
    if d > MANY_FOR_PAIRS:
        return _split_for_many_attributes(epsilon, d, known)
    picks = min(1 if is_small else d - 1, int(known / (SIGNAL_PER_PAIR * d * d)))
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


def by_size(
    amount: Fraction, sizes: Sequence[int], *, steps: Literal[1, 3] = 3, currency: Currency = EPSILON
) -> list[Fraction]:
    """Split an amount of pure epsilon in proportion to a power of tables' sizes; of rho with the same weights.

    The noise of a range grows with the root of how many values it takes, so the cube root, which tables of pairs have,
    makes the squares of all noise least. If long attributes are asked about more often, as when all ranges count alike,
    they need more: histograms have the power POWER_OF_LENGTH. It is rounded to `steps` in a doubling, so that few laws
    of noise are needed. A histogram of one value gets next to nothing.

    >>> by_size(Fraction(1), [1, 8, 8], steps=1)
    [Fraction(1, 5), Fraction(2, 5), Fraction(2, 5)]
    >>> by_size(Fraction(1), [2, 100]), by_size(Fraction(1), [1, 2])
    ([Fraction(5, 37), Fraction(32, 37)], [Fraction(1, 26), Fraction(25, 26)])
    """
    weights = [_weigh_size(size, steps) for size in sizes]
    if steps == 3:
        weights = _weigh_lists(weights, sizes)
    else:
        most = max(MOST_WEIGHT_OF_LONG, sorted(weights)[len(weights) // 2])
        weights = [min(one, most) if size > LONG_TABLE else one for one, size in zip(weights, sizes, strict=True)]
    return [amount * share for share in currency.reshare(weights)]


Weight = TypeVar("Weight", float, Fraction)


def _weigh_lists(weights: Sequence[Weight], sizes: Sequence[int], *, least: int = 0) -> list[Weight]:
    """Let a long list weigh no more than half a usual attribute: two of them may cost the others a fifth."""
    others = [weight for weight, size in zip(weights, sizes, strict=True) if size <= LONG_LIST] or weights
    usual = sorted(others)[len(others) // 2]
    return [
        min(weight, max(type(weight)(least), usual / 2)) if size > LONG_LIST else weight
        for weight, size in zip(weights, sizes, strict=True)
    ]


def _weigh_size(size: int, steps: Literal[1, 3]) -> Fraction:
    """About the power of the size: 1, 5/4, 8/5, 2, ... or, in whole doublings, 1, 2, 4."""
    if size == 1 and steps == 3:
        return ONE_VALUE_WEIGHT
    doublings = round(max(0, (size * size - 1).bit_length()) / 2)  # about log2(size)
    if steps == 1:
        return Fraction(2) ** round(doublings / 3)
    thirds = round(3 * POWER_OF_LENGTH * doublings)
    return Fraction(2) ** (thirds // 3) * (1, Fraction(5, 4), Fraction(8, 5))[thirds % 3]
