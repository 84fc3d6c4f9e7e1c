"""What counts of pairs say of l-diversity and t-closeness of a grouping, without opening the table.

For certain: the groups of one attribute beside the sensitive values are counted. A group with too few values, or too
far from the table, loses rows at every finer grouping (criteria.py); for one attribute alone everything is known.
Expected: the table of largest entropy with all pair tables, the sensitive attribute among them, gives the mean rows m
of every value of every class, of n rows in the smallest counted cell around it. A class breaks the criterion with a
chance that follows from independent counts:

    distinct l     fewer than l of the values occur, the value s with the chance 1 - (1 - m_s/n_s)^n_s
    entropy l      the entropy of n rows is nearly normal: mean H - (values - 1)/(2n), variance (E log^2 p - H^2)/n
    recursive      c (r_l + ... + r_m) - r_1 is nearly normal, with the ranks of the means
    t              every max(0, p_f - x_f/n) has the mean of a cut normal law; their weighted sum is nearly normal
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from sudare.methods.kanon.criteria import (
    Closeness,
    Criterion,
    DistinctDiversity,
    EntropyDiversity,
    RecursiveDiversity,
    value_sets,
)
from sudare.methods.kanon.foresee_classes import (
    LEAST_MEAN,
    ChanceLaw,
    chance_below,
    chance_empty,
    find_smallest_cells,
    fit_groups,
)
from sudare.methods.kanon.pairs import PairCounts
from sudare.methods.kanon.recode import Pieces, make_class_checker, make_partial_tuples, sensitive_shares
from sudare.methods.kanon.request import Grouping, RequestOption
from sudare.methods.kanon.tuples import Classes
from sudare.schema import Attribute, Schema
from sudare.schema.arrays import Booleans, Codes, Reals

MAX_COUNTED_CELLS = 1_000_000  # groups times values of which the classes are judged for certain

# As the laws of foresee_classes.py, on the same tables, at k = 5: values l = 3, closeness t = .2 and .4.
VALUES_LAWS = {
    True: ChanceLaw(base=-0.23, breaking=-1.78, likely=0.7, unlikely=0.15),
    False: ChanceLaw(base=-0.18, breaking=-0.84, likely=0.7, unlikely=0.15),
}
CLOSENESS_LAWS = {
    True: ChanceLaw(base=0.0, breaking=-0.69, likely=0.7, unlikely=0.15),
    False: ChanceLaw(base=-0.2, breaking=-0.57, likely=0.6, unlikely=0.15),
}


def find_criteria_law(criteria: tuple[Criterion, ...], *, has_triples: bool) -> ChanceLaw:
    """Find the law for criteria beyond k: that of closeness if one of them is."""
    is_close = any(isinstance(criterion, Closeness) for criterion in criteria)
    return (CLOSENESS_LAWS if is_close else VALUES_LAWS)[has_triples]


@dataclass(frozen=True, kw_only=True, eq=False)
class ForeseenCriteria:
    """What is known of the criteria beyond k of one option.

    `fewest_lost` rows break them for certain, whatever else. Where the classes are counted beside the sensitive values,
    `is_kept_class` tells which of all combinations of groups satisfy them. `breaking` are the expected classes that
    break them though they hold k, `lost` and `lost_variance` mean and variance of their rows; None where nothing is
    predicted.
    """

    fewest_lost: int
    is_kept_class: Booleans | None
    breaking: float | None
    lost: float | None
    lost_variance: float | None
    has_triples: bool  # whether all triples of the attributes and the sensitive ones were counted
    is_estimate: bool = False  # then nothing of it is certain: rows were counted, and persons are judged

    def estimate(self) -> ForeseenCriteria:
        """Take it as an estimate."""
        return replace(self, is_kept_class=None, is_estimate=True)


def foresee_criteria(
    counts: PairCounts,
    schema: Schema,
    option: RequestOption,
    criteria: tuple[Criterion, ...],
    k: int,
    *,
    factor: float = 1.0,
) -> ForeseenCriteria | None:
    """Foresee the criteria of an option; None if they read what was not counted, or something else than one column.

    With a `factor` the table is taken to have grown by it; then nothing is certain.
    """
    fewest, breaking, lost, variance = 0, 0.0, 0.0, 0.0
    kept: list[Booleans] = []
    is_predicted = True
    for criterion in criteria:
        if len(criterion.sensitive) != 1 or criterion.sensitive[0] not in counts.singles:
            return None
        sensitive = schema.attribute(criterion.sensitive[0])
        for names in (*((name,) for name in option), *itertools.combinations(option, 2)):
            beside = _group_beside(counts, option, names, sensitive)
            if beside is None:
                continue
            pieces, classes, count = beside
            fewest = max(fewest, _count_lost(criterion, pieces, classes, k))
            if len(option) == len(names):
                kept.append(make_class_checker((criterion,), pieces)(pieces, classes, count))
        expected = _expect(counts, option, sensitive)
        if expected is None:
            is_predicted = False
            continue
        shares = counts.singles[sensitive.name] / max(1, counts.rows)
        sums = _expect_breaking(criterion, [array * factor for array in expected], shares, sensitive, k)
        breaking, lost, variance = breaking + sums[0], lost + sums[1], variance + sums[2]
    return ForeseenCriteria(
        fewest_lost=fewest if factor == 1 else 0,
        is_kept_class=np.all(kept, axis=0) if factor == 1 and kept and len(kept) == len(criteria) else None,
        breaking=breaking if is_predicted else None,
        lost=lost if is_predicted else None,
        lost_variance=variance if is_predicted else None,
        has_triples=all(counts.has_triples((*option, criterion.sensitive[0])) for criterion in criteria),
    )


def _group_beside(
    counts: PairCounts, option: RequestOption, names: tuple[str, ...], sensitive: Attribute
) -> tuple[Pieces, Codes, int] | None:
    """Give the groups of one or two attributes beside the sensitive values, as pieces, their classes, and how many.

    None if they were not counted.
    """
    if sensitive.name in names:
        return None
    both = {**{name: option[name] for name in names}, sensitive.name: Grouping(sensitive, 0)}
    if math.prod(grouping.size for grouping in both.values()) > MAX_COUNTED_CELLS:
        return None
    table = counts.group_table(both, tuple(both))
    if table is None:
        return None
    table = table.reshape(-1, sensitive.size)
    group, value = np.nonzero(table)
    pieces = Pieces(
        attributes=(option[names[0]].attribute, sensitive),
        quasi=1,
        codes=np.column_stack([group, value]).astype(np.int64),
        weights=table[group, value].astype(np.int64),
    )
    return pieces, group.astype(np.int64), len(table)


def _expect_breaking(
    criterion: Criterion, fit: Sequence[Reals], shares: Reals, sensitive: Attribute, k: int
) -> tuple[float, float, float]:
    """Count the classes that hold k and break a criterion, their rows, and the variance of these, as expected."""
    expected, within, around = fit
    sizes = expected.sum(axis=1)
    around = np.maximum(around, sizes)
    holds = 1 - chance_below(k, sizes, around)
    rows = sizes * (1 - chance_below(k - 1, sizes - sizes / around, around - 1))  # those of classes that hold k
    # classes that hold k are larger than others; their values are taken to be as much more
    larger = np.minimum(expected * (rows / np.maximum(sizes * holds, 1e-300))[:, None], np.maximum(within, expected))
    is_possible = holds > LEAST_MEAN
    chance = np.zeros(len(expected))
    chance[is_possible] = _chance_of_breaking(
        criterion, larger[is_possible], np.maximum(within, larger)[is_possible], shares, sensitive
    )
    lost = chance * rows
    return (
        float((chance * holds).sum()),
        float(lost.sum()),
        float((lost * (larger.sum(axis=1) + 1 - lost)).clip(0).sum()),
    )


def _count_lost(criterion: Criterion, pieces: Pieces, class_of: Codes, k: int) -> int:
    """Count rows that break a criterion at every grouping that is finer than these classes."""
    count = int(class_of.max(initial=-1)) + 1
    sizes = np.bincount(class_of, weights=pieces.weights, minlength=count).astype(np.float64)
    if isinstance(criterion, Closeness):
        classes = Classes(
            (), sizes, make_partial_tuples(pieces, sensitive_shares(pieces)), np.zeros(count, dtype=np.int64)
        )
        classes.__dict__["ids"] = class_of
        return int((sizes - criterion.most_kept(classes, k)).sum())
    if not criterion.implied:
        return 0
    is_good = make_class_checker(criterion.implied, pieces)(pieces, class_of, count)
    return int(sizes[~is_good].sum())


def _expect(counts: PairCounts, option: RequestOption, sensitive: Attribute) -> tuple[Reals, Reals, Reals] | None:
    """Fit the mean rows of every value of every class (classes, values); None if there are too many.

    Beside them the rows of the smallest counted cell that each lies in, and that each class lies in.
    """
    if sensitive.name in option:
        return None
    fit = fit_groups(counts, {**option, sensitive.name: Grouping(sensitive, 0)})
    if fit is None:
        return None
    expected, within = (array.reshape(-1, sensitive.size) for array in fit)
    is_there = expected.sum(axis=1) > LEAST_MEAN
    return expected[is_there], within[is_there], find_smallest_cells(counts, option)[is_there]


def _chance_of_breaking(
    criterion: Criterion, expected: Reals, within: Reals, shares: Reals, sensitive: Attribute
) -> Reals:
    """Give the chance that each class breaks a criterion, its size taken as expected."""
    match criterion:
        case DistinctDiversity():
            return _chance_of_few_values(expected, within, criterion.l)
        case EntropyDiversity():
            return _chance_of_low_entropy(expected, criterion.l)
        case RecursiveDiversity():
            return _chance_of_short_tail(expected, criterion.c, criterion.l)
        case Closeness():
            matrix, weight = value_sets(sensitive, criterion.distance)
            spread = expected * (1 - expected / np.maximum(within, LEAST_MEAN))  # of a count whose cell is known
            return _chance_of_distance(expected, spread, shares, matrix, weight, criterion.t)
    return np.full(len(expected), 0.5)


def _chance_of_few_values(expected: Reals, within: Reals, least: int) -> Reals:
    """P(fewer than `least` values occur | at least one does), by the law of a sum of independent bits."""
    occurs = 1 - chance_empty(expected, np.maximum(within, expected))
    law = np.zeros((len(expected), least))  # (class, how many occur so far)
    law[:, 0] = 1.0
    for value in range(expected.shape[1]):
        chance = occurs[:, value, None]
        raised = law * (1 - chance)
        raised[:, 1:] += law[:, :-1] * chance
        law = raised
    occupied = 1 - np.prod(1 - occurs, axis=1)
    few: Reals = np.clip(law[:, 1:].sum(axis=1) / np.maximum(occupied, 1e-300), 0, 1)
    return few


def _below(limit: Reals | float, mean: Reals, variance: Reals) -> Reals:
    """P(X < limit) of normal laws."""
    from scipy.special import ndtr

    chance: Reals = ndtr((limit - mean) / np.sqrt(np.maximum(variance, 1e-12)))
    return chance


def _chance_of_low_entropy(expected: Reals, least: float) -> Reals:
    rows = np.maximum(expected.sum(axis=1), 1.0)
    share = expected / np.maximum(expected.sum(axis=1), LEAST_MEAN)[:, None]
    logs = np.log(np.maximum(share, 1e-300))
    entropy = -(share * logs).sum(axis=1)
    spread = (share * logs**2).sum(axis=1) - entropy**2
    values = (expected > LEAST_MEAN).sum(axis=1)
    return _below(math.log(least), np.maximum(entropy - (values - 1) / (2 * rows), 0), spread / rows)


def _chance_of_short_tail(expected: Reals, factor: float, least: int) -> Reals:
    ranked = -np.sort(-expected, axis=1)
    tail = ranked[:, least - 1 :]
    margin = factor * tail.sum(axis=1) - ranked[:, 0]
    return _below(0.0, margin, factor**2 * tail.sum(axis=1) + ranked[:, 0])


def _chance_of_distance(
    expected: Reals, spread: Reals, shares: Reals, matrix: Reals, weight: float, limit: float
) -> Reals:
    """P(distance > t): means and variances of max(0, p_f - x_f/n), x_f/n nearly normal; the sets as if independent.

    `spread` are the variances of the counts; that of x_f/n follows by the first terms of its series.
    """
    from scipy.special import ndtr

    rows = np.maximum(expected.sum(axis=1), LEAST_MEAN)[:, None]
    share, inside = expected @ matrix / rows, spread @ matrix
    outside = spread.sum(axis=1)[:, None] - inside
    variance = ((1 - share) ** 2 * inside + share**2 * outside) / np.maximum(rows, 1.0) ** 2
    gap, deviation = shares @ matrix - share, np.sqrt(np.maximum(variance, 1e-12))
    z = gap / deviation
    density = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    mean = gap * ndtr(z) + deviation * density
    square = (gap**2 + deviation**2) * ndtr(z) + gap * deviation * density
    return 1 - _below(limit, weight * mean.sum(axis=1), weight**2 * np.maximum(square - mean**2, 0).sum(axis=1))
