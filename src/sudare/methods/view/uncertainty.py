"""How the values of a coarse bin share its records: what the noisy histogram says, made valid. Post-processing."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from sudare.methods.view.fit import Measurements, OneWay, Pair, fit
from sudare.methods.view.junction_tree import Factors
from sudare.methods.view.model import FittedModel
from sudare.methods.view.weighted import WeightedRecords
from sudare.noise import Rng
from sudare.noise.public import add_laplace, add_normal
from sudare.noise.uniform import draw_interval
from sudare.postprocess import find_nearest_point
from sudare.schema.arrays import Codes, Reals

SMALLEST_VALUE = 1e-9  # of the largest value, added to every value so that a half is never empty
CHUNK = 2**14
LEFT_SHARES = (
    np.sin(np.linspace(0.0, np.pi / 2, 33)) ** 2
)  # what share the left half may have: rather a little or a lot
LOG_LIKELIHOODS = np.log([10.0, *[1.0] * 31, 10.0])  # and, as likely as ten others, nothing or all
LONG_LIST = 256  # values of a coarse bin: only lists of labels have bins with more
SPIKE_DEVIATIONS = 5  # of the noise: among 1e5 values that hold nobody, some forty pass it
SURE_DEVIATIONS = 25  # deviations: a part with more is cut as its sums say, since LEFT_SHARES is coarser than the noise


def inside_bins(measured: Measurements, factors: Factors, *, plain: bool = False) -> list[Reals]:
    """The share of every value within its bin, attribute by attribute; `plain` projects a bin's values at once."""
    shares = []
    for place, (one_way, bins) in enumerate(zip(measured.ones, measured.bins, strict=True)):
        totals = factors.of([place])[0]
        order = np.argsort(bins, kind="stable")
        edges = np.searchsorted(bins[order], np.arange(totals.size + 1))
        values, mass = one_way.values[order], np.empty(bins.size)
        shared = (
            _share_by_projection(values, edges, totals)
            if plain
            else share_beside_spikes(values, edges, totals, variance=one_way.variance)
        )
        mass[order] = shared
        sums = np.bincount(bins, mass)
        even = 1.0 / np.diff(edges)
        shares.append(np.where(sums[bins] > 0, mass / np.where(sums > 0, sums, 1.0)[bins], even[bins]))
    return shares


def share_beside_spikes(values: Reals, edges: Codes, totals: Reals, *, variance: float) -> Reals:
    """Share totals out half by half; in a long list of rare values, one that stands far out keeps its noisy count.

    Halves of a long list are told by sums of many noisy values, in which a single frequent one is lost.
    """
    sizes = np.diff(edges)
    owner = np.repeat(np.arange(sizes.size), sizes)
    is_spike = (sizes[owner] > LONG_LIST) & (values > SPIKE_DEVIATIONS * math.sqrt(variance))
    taken = np.bincount(owner[is_spike], values[is_spike], minlength=sizes.size)
    is_spike &= (taken <= totals)[owner]
    if not is_spike.any():
        return share_by_halves(values, edges, totals, variance=variance)
    rest = totals - np.where(taken <= totals, taken, 0.0)
    shared = values.copy()
    others = np.concatenate([[0], np.cumsum(np.bincount(owner[~is_spike], minlength=sizes.size))])
    shared[~is_spike] = share_by_halves(values[~is_spike], others, rest, variance=variance)
    return shared


def share_by_halves(values: Reals, edges: Codes, totals: Reals, *, variance: float = 0.0) -> Reals:
    """Share each total out among the noisy values from one edge to the next, half by half, nobody below 0.

    A part is cut where its noisy values reach half their sum. What its halves get is told by the sums of their values,
    the gap to what is to be shared spread evenly over values. So the noise of many values near 0 cancels within a half;
    cutting off each value at 0 would keep all that is above it. Where the noise (`variance` for a value) is not small
    against the part, the mean of what the left half may have is taken instead, empty halves being likely: see CUTS.

    >>> share_by_halves(np.array([9.0, 4.0, -3.0, 2.0]), np.array([0, 4]), np.array([12.0])).tolist()
    [9.0, 3.0, 0.0, 0.0]
    """
    sums = np.concatenate([[0.0], np.cumsum(values)])
    least = SMALLEST_VALUE * (1.0 + float(np.abs(values).max(initial=0.0)))
    climbing = np.concatenate([[0.0], np.cumsum(np.maximum(values, 0.0) + least)])
    shared = np.empty(values.size)
    low, high, total = edges[:-1], edges[1:], np.maximum(totals, 0.0)
    while low.size:
        is_one = high - low == 1
        shared[low[is_one]] = total[is_one]
        low, high, total = low[~is_one], high[~is_one], total[~is_one]
        middle = np.clip(np.searchsorted(climbing, (climbing[low] + climbing[high]) / 2), low + 1, high - 1)
        gap = total - (sums[high] - sums[low])
        expected = sums[middle] - sums[low] + gap * (middle - low) / (high - low)
        left = _most_likely_share(expected, total, np.sqrt(variance * (middle - low) * (high - middle) / (high - low)))
        low, high = np.concatenate([low, middle]), np.concatenate([middle, high])
        total = np.concatenate([left, total - left])
    return shared


def _most_likely_share(expected: Reals, total: Reals, deviation: Reals) -> Reals:
    """What a half has: as told, within 0 and the total; where noise counts, the mean over CUTS given what is told."""
    left: Reals = np.clip(expected, 0.0, total)
    every = np.flatnonzero(total < SURE_DEVIATIONS * deviation)
    for start in range(0, every.size, CHUNK):
        is_unsure = every[start : start + CHUNK]
        off = (total[is_unsure, None] * LEFT_SHARES - expected[is_unsure, None]) / deviation[is_unsure, None]
        fits = LOG_LIKELIHOODS - off**2 / 2
        weights = np.exp(fits - fits.max(axis=1, keepdims=True))
        left[is_unsure] = total[is_unsure] * np.clip((weights @ LEFT_SHARES) / weights.sum(axis=1), 0.0, 1.0)
    return left


def _share_by_projection(values: Reals, edges: Codes, totals: Reals) -> Reals:
    shared = np.zeros(values.size)
    for low, high, total in zip(edges[:-1], edges[1:], totals, strict=True):
        if total > 0:
            shared[low:high] = find_nearest_point(values[low:high], total=float(total))
    return shared


# How sure the model is: the same fit to freshly noised tables, and how far extra pairs were from it.
#
# Both are post-processing. The noise of every measurement is known exactly, so it can be drawn again around the
# fitted model; what the model cannot say is judged by the extra pairs, which the forest did not know.


REPLICATES = 10
FAINT_DEVIATIONS = 2  # deviations of its noise: a leaf with fewer records is faint
DROWNED_DEVIATIONS = 1.5  # above its noisy count: what a drowned value may still hold
FAINT_NOISE = 0.3  # least, of the variance of a leaf; chosen by coverage of a long-tailed amount of Adult
MOST_FAINT_NOISE = 0.6  # where the cells to start from are few: chosen by coverage of Car (70 columns) at epsilon 0.1
UNEVEN_CELLS = 1.5  # deviation of the records of cells to start from, in units of their mean
UNEVEN_PARTS = 0.0225  # of the square of a cell's records: the variance of those of a tenth of it (Dirichlet, 0.3 each)
SWEEPS = 4  # a replicate starts from the fit, and is near it
HIDDEN_NOISE = 0.6  # of the variance of a value: what the noise of values that came out as 0 may hide
SAMPLING_VARIANCE = 0.25  # of the variance that independent records have: the part that no measured table pins down
ERROR_WITHOUT_PAIRS = 0.1  # how strongly two attributes are supposed to be correlated where no pair is looked at
UNJUDGED_PAIRS = (
    0.5  # of the variance found in judged pairs, which were the worst: what the pairs never looked at are given
)
LEAST_SPREAD = 0.005  # p(1 - p) q(1 - q) of a rectangle: those with less say little against their noise


def replicates(drawn: FittedModel, *, rng: Rng, size: int = REPLICATES) -> tuple[Factors, list[Reals]]:
    """The fit and its replicates in one: tables (versions, ...) and shares inside bins (versions, values)."""
    cells = inside_bins(drawn.measured, drawn.factors, plain=drawn.is_plain)
    estimate = [share_leaves(drawn, drawn.factors, place, share) for place, share in enumerate(cells)]
    fits, shares = [drawn.factors], [[share for share, _ in estimate]]
    for _ in range(size):
        again = noised(drawn.measured, drawn.factors, cells, rng=rng)
        fits.append(fit(again, drawn.tree, start=drawn.factors if drawn.measured.pairs else None, sweeps=SWEEPS))
        fresh = inside_bins(again, fits[-1], plain=drawn.is_plain)
        noisy = [[_add_noise(drawn.measured, mass, level.variance, rng)
                  for level, mass in zip(grown.levels, masses, strict=True)]
                 for grown, (_, masses) in zip(drawn.leaves, estimate, strict=True)]  # fmt: skip
        shares.append(
            [
                share_leaves(drawn, fits[-1], place, share, noisy=values)[0]
                for place, (share, values) in enumerate(zip(fresh, noisy, strict=True))
            ]
        )
    tables = tuple(np.concatenate(versions) for versions in zip(*(fit.tables for fit in fits), strict=True))
    return Factors(drawn.tree, tables), [np.stack(versions) for versions in zip(*shares, strict=True)]


def weigh_records(drawn: FittedModel, factors: Factors, *, rng: Rng) -> WeightedRecords | None:
    """The weights of the records of a view with pairs beyond its tree: the estimate's, and every replicate's."""
    raked, widths = drawn.raked, drawn.measured.widths
    if raked is None:
        return None
    fits = [estimate := raked.fit(factors.only(0))]
    for version in range(1, factors.versions):
        noisy = raked.noised(estimate, lambda table, variance: _add_noise(drawn.measured, table, variance, rng))
        fits.append(raked.fit(factors.only(version), start=estimate, noisy=noisy))
    left = [raked.spread(one, factors.only(version), rng=rng if version else None) for version, one in enumerate(fits)]
    return WeightedRecords(
        bins=raked.bins,
        weights=estimate.weights,
        changes=np.stack([one.changes for one in fits]),
        widths=widths,
        left={ends: np.stack([one[ends] for one in left]) for ends in left[0]},
    )


def share_leaves(
    drawn: FittedModel, factors: Factors, place: int, share: Reals, *, noisy: list[Reals] | None = None
) -> tuple[Reals, list[Reals]]:
    """The share of every leaf within its coarse bin, and the records of the cells of every level.

    From the top down: the records of a cut cell are shared out among its parts as their noisy counts say.
    """
    grown, bins = drawn.leaves[place], drawn.measured.bins[place]
    records = factors.of([place])[0][bins] * share
    masses, levels = [records], []
    for number, level in enumerate(grown.levels):
        edges = np.flatnonzero(np.diff(level.parents, prepend=-1, append=-1)).astype(np.int64)
        totals = masses[-1][level.parents[edges[:-1]]]
        values = level.values if noisy is None else noisy[number]
        masses.append(share_by_halves(values, edges, totals, variance=level.variance))
        levels.append(masses[-1])
    kept = [records[~grown.is_cut], *(mass[~level.is_cut] for level, mass in zip(grown.levels, levels, strict=True))]
    starts = [grown.cells.starts[:-1][~grown.is_cut], *(level.starts[~level.is_cut] for level in grown.levels)]
    leaf = np.concatenate(kept)[np.argsort(np.concatenate(starts), kind="stable")]
    cell = grown.cell_of_leaf
    whole, number_of = np.bincount(cell, leaf), np.bincount(cell)
    within = np.where(whole[cell] > 0, leaf / np.where(whole > 0, whole, 1.0)[cell], 1.0 / number_of[cell])
    return share[cell] * within, levels


def _add_noise(measured: Measurements, values: Reals, variance: float, rng: Rng) -> Reals:
    add_noise = add_normal if measured.is_gaussian else add_laplace
    return add_noise(values, variance=variance, rng=rng)


def noised(measured: Measurements, factors: Factors, shares: list[Reals], *, rng: Rng) -> Measurements:
    """Measure the fitted model as the table was measured."""
    total = float(factors.totals[0])
    add_noise = add_normal if measured.is_gaussian else add_laplace
    ones = tuple(
        OneWay(
            values=add_noise(factors.of([place])[0][bins] * share, variance=one_way.variance, rng=rng),
            variance=one_way.variance,
        )
        for place, (one_way, bins, share) in enumerate(zip(measured.ones, measured.bins, shares, strict=True))
    )
    pairs = tuple(
        replace(pair, values=add_noise(factors.of(pair.ends)[0], variance=pair.variance, rng=rng))
        for pair in measured.pairs
    )
    sums = []
    for known in measured.sums:
        held = np.bincount(known.groups, factors.of([known.attribute])[0]).astype(np.float64)
        sums.append(replace(known, values=add_noise(held, variance=known.variance, rng=rng)))
    joint = measured.joint
    if joint is not None:
        held = factors.of(joint.attributes)[0]
        joint = replace(joint, values=add_noise(held, variance=joint.variance, rng=rng))
    if measured.total_variance:
        total = float(add_noise(np.array([total]), variance=measured.total_variance, rng=rng)[0])
    return replace(measured, total=total, ones=ones, pairs=pairs, sums=tuple(sums), joint=joint)


def model_error(drawn: FittedModel, *, rng: Rng, rectangles: int = 60) -> float:
    """tau^2: the variance of a count beyond its noise, in units of p(1-p) q(1-q) for shares p and q of two attributes.

    Its root over the records is how strongly attributes are correlated beyond what the model knows. For random
    rectangles of the extra pairs: how far their noisy count was from what the forest said before it knew them, less the
    noise. Those pairs were chosen because the model explained them worst, so UNJUDGED_PAIRS of it is taken. It is at
    least SAMPLING_VARIANCE times the number of records. A mean below its own standard error is not told apart from
    none, and may be that large; that attributes depend on each other more than ERROR_WITHOUT_PAIRS is not supposed for
    it. Where hardly a pair was looked at, nothing private tells how dependent they are, and at least that is supposed.
    """
    if drawn.knows_all_pairs:  # what is left the exam tells
        return SAMPLING_VARIANCE * float(drawn.factors.totals[0])
    judged = [pair for pair in drawn.measured.pairs if pair.last] or _weakest(drawn)
    total = max(float(drawn.earlier.totals[0]), 1.0)
    excesses = []
    for pair in judged:
        expected = drawn.earlier.joint(pair.ends)[0]
        every = [_excess(pair, expected, total, rng) for _ in range(rectangles)]
        excesses.append([excess for excess in every if excess is not None])
    blind = (ERROR_WITHOUT_PAIRS * total) ** 2
    least = blind if drawn.is_blind else SAMPLING_VARIANCE * total
    kept = [excess for each in excesses for excess in each]
    unsure = min(blind, UNJUDGED_PAIRS * _find_standard_error([each for each in excesses if each]))
    return max(least, unsure, UNJUDGED_PAIRS * float(np.mean(kept))) if kept else least


def _find_standard_error(excesses: list[list[float]]) -> float:
    """Of the mean over pairs, whose rectangles share their noise; 0 for a single pair, which tells none."""
    means = [float(np.mean(each)) for each in excesses]
    return float(np.std(means, ddof=1)) / math.sqrt(len(means)) if len(means) > 1 else 0.0


def faint_noise(drawn: FittedModel, place: int, share: Reals) -> Reals:
    """What the noise of every leaf may hide: leaves that came out near 0 take part in the estimate as nothing.

    Of the variance of a leaf with fewer than two deviations of records: what is left after its noisy count, v/(1 + v),
    if cells share the records unevenly, with a variance of v times that of the noise. 0 for the others. A value of a
    long list whose noisy count is far above what it was given may hold as many as that, and some more.
    """
    grown, measured = drawn.leaves[place], drawn.measured
    deviations = grown.deviations(math.sqrt(measured.ones[place].variance))
    records = drawn.factors.of([place])[0][measured.bins[place][grown.cell_of_leaf]] * share
    starts, sums = grown.starts, np.concatenate([[0.0], np.cumsum(records)])
    uneven = (UNEVEN_CELLS * sums[-1] / grown.cells.size) ** 2 / measured.ones[place].variance
    left = np.full(starts.size, np.clip(uneven / (1 + uneven), FAINT_NOISE, MOST_FAINT_NOISE))
    lows, highs = grown.cells.starts[:-1], grown.cells.starts[1:]
    for level in grown.levels:
        first, last = (np.searchsorted(starts, ends[level.parents]) for ends in (lows, highs))
        spread = UNEVEN_PARTS * (sums[last] - sums[first]) ** 2 / level.variance
        left[np.searchsorted(starts, level.starts[~level.is_cut])] = (spread / (1 + spread))[~level.is_cut]
        lows, highs = level.starts, level.stops
    hidden: Reals = np.where(records < FAINT_DEVIATIONS * deviations, left * deviations**2, 0.0)
    bins = measured.bins[place]
    if grown.levels or np.bincount(bins).max() <= LONG_LIST:
        return hidden
    off = measured.ones[place].values - records  # a value of a long list that its neighbours drowned
    is_drowned = (off > FAINT_DEVIATIONS * deviations) & (np.bincount(bins)[bins] > LONG_LIST)
    return np.where(is_drowned, np.maximum(hidden, ((off + DROWNED_DEVIATIONS * deviations) / 2) ** 2), hidden)


def group_leaves(drawn: FittedModel, place: int, share: Reals) -> Codes:
    """The group of leaves that share out one well known count, leaf by leaf; -1 for a leaf that stands alone.

    What the noise of faint leaves hides cannot change the sum of their group: parts of one cell, or the cells of one
    coarse bin whose records stand out of their noise.
    """
    grown, bins = drawn.leaves[place], drawn.measured.bins[place]
    cells = grown.cell_of_leaf
    records = np.bincount(bins[cells], drawn.factors.of([place])[0][bins[cells]] * share)
    sizes = np.bincount(bins)
    is_known = (sizes > 1) & (records**2 > FAINT_DEVIATIONS**2 * sizes * drawn.measured.ones[place].variance)
    groups: Codes = np.where(is_known[bins[cells]], bins[cells], -1)
    following, starts = sizes.size, grown.starts
    for level in grown.levels:
        own = np.searchsorted(starts, level.starts[~level.is_cut])
        groups[own] = following + level.parents[~level.is_cut]
        following += int(level.parents.max()) + 1
    return groups


def hidden_noise(drawn: FittedModel) -> float:
    """Least variance of a count: a share of that of the best known values (chosen by coverage, papers/kato_view)."""
    return HIDDEN_NOISE * min(one_way.variance for one_way in drawn.measured.ones)


def _weakest(drawn: FittedModel) -> list[Pair]:
    """Without a last round: the second half of the pairs, which were chosen in the order of their surprise."""
    pairs = list(drawn.measured.pairs)
    return pairs[len(pairs) // 2 :]


def _excess(pair: Pair, expected: Reals, total: float, rng: Rng) -> float | None:
    rows, columns = (slice(*draw_interval(size, rng=rng)) for size in pair.values.shape)
    share_of_rows, share_of_columns = float(expected[rows].sum()), float(expected[:, columns].sum())
    spread = math.prod(share * (1 - share) for share in (share_of_rows / total, share_of_columns / total))
    if not spread >= LEAST_SPREAD:
        return None
    residual = float((pair.values - expected)[rows, columns].sum())
    noise = pair.variance * pair.values[rows, columns].size
    return (residual**2 - noise) / spread
