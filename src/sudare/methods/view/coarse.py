"""Coarse bins of about equal mass, made of noisy histograms alone: pairs of attributes are measured over them."""

from __future__ import annotations

import math

import numpy as np

from sudare.methods.view.fit import OneWay
from sudare.methods.view.grow import StartCells
from sudare.schema import Attribute, Values
from sudare.schema.arrays import Codes, Reals
from sudare.schema.hierarchy import Hierarchy

LEAST_MISSING = 0.125  # of the records of a bin


def coarse_bins(mass: Reals, order: Codes, wanted: int, *, group: Codes | None = None) -> Codes:
    """Give every value its bin: neighbours in `order` share one of about total/wanted, a heavy value stands alone.

    Values of two groups, where there are any, share none.

    >>> coarse_bins(np.array([1.0, 1.0, 6.0, 1.0, 1.0]), np.arange(5), 4).tolist()
    [0, 0, 1, 2, 2]
    """
    if mass.size <= wanted:
        return np.argsort(order, kind="stable").astype(np.int64)
    limit = max(float(mass.sum()), 1e-9) / wanted
    bins = np.empty(mass.size, dtype=np.int64)
    current, filled, is_alone = 0, 0.0, False
    for position, value in enumerate(order):
        heavy = mass[value] >= limit
        is_apart = position > 0 and group is not None and bool(group[value] != group[order[position - 1]])
        opens = position > 0 and (heavy or is_alone or is_apart or filled + mass[value] / 2 > limit)
        if opens:
            current, filled = current + 1, 0.0
        bins[value] = current
        filled, is_alone = filled + float(mass[value]), bool(heavy)
    return bins


def value_order(attribute: Attribute) -> Codes:
    """The order in which values are put in bins: groups of the hierarchy together, else as declared."""
    codes = np.arange(attribute.size, dtype=np.int64)
    hierarchy = attribute.hierarchy
    if hierarchy is None or attribute.is_ordered:
        return codes
    keys = [hierarchy.lift(codes, level) for level in range(1, hierarchy.height + 1)]
    return np.lexsort((codes, *keys)).astype(np.int64)


def is_long_list(cells: StartCells, wanted: int) -> bool:
    """Tell whether values without order are merged by noisy frequency: neighbours in a list are not alike.

    Frequent values then stand alone, in up to twice the bins, and those that noise alone could explain are merged: with
    their siblings where a hierarchy is declared, else all of them.
    """
    attribute = cells.attribute
    return isinstance(attribute.domain, Values) and not attribute.is_ordered and attribute.size > 2 * wanted


def largest_noise(one_way: OneWay, *, is_gaussian: bool) -> float:
    """The largest noise that so many values have, on average."""
    many, deviation = math.log(max(2, one_way.values.size)), math.sqrt(one_way.variance)
    return deviation * (math.sqrt(2 * many) if is_gaussian else many / math.sqrt(2))


def sibling_bins(one_way: OneWay, hierarchy: Hierarchy, wanted: int, *, is_gaussian: bool) -> Codes:
    """Give values their bins by noisy frequency, those that do not stand out from the noise with their siblings.

    Siblings are the groups of the finest level that has no more than `wanted` of them, or of the coarsest. What the
    rare values of a group have together is told by their sum, in which the noise of many cancels. Up to half as many
    groups as bins are kept apart.
    """
    codes = np.arange(one_way.values.size, dtype=np.int64)
    levels = [hierarchy.lift(codes, level) for level in range(1, hierarchy.height + 1)]
    fitting = [lifted for lifted in levels if np.unique(lifted).size <= wanted]
    group = np.unique(fitting[0] if fitting else levels[-1], return_inverse=True)[1]
    is_rare = one_way.values <= largest_noise(one_way, is_gaussian=is_gaussian)
    sums = np.maximum(np.bincount(group, np.where(is_rare, one_way.values, 0.0)), 0.0)
    mean = sums / np.maximum(np.bincount(group, is_rare), 1)
    mass = np.where(is_rare, mean[group], one_way.values)
    order = np.lexsort((codes, *levels, is_rare, group)).astype(np.int64)
    return coarse_bins(mass, order, wanted, group=group if group.max() < wanted // 2 else None)


def frequency_bins(one_way: OneWay, mass: Reals, wanted: int, *, is_gaussian: bool) -> Codes:
    """Give values their bins by noisy frequency; those that do not stand out from the noise share the last.

    Of many values that hold nobody the luckiest would look frequent: bins of them would be off in every pair, and seem
    to depend on every attribute. None passes the largest noise that so many values have, on average.

    >>> one_way = OneWay(values=np.array([0.0, 90.0, 1.0, 40.0, -2.0]), variance=8.0)
    >>> frequency_bins(one_way, np.maximum(one_way.values, 0.0), 4, is_gaussian=False).tolist()
    [2, 0, 2, 1, 2]
    """
    is_rare = one_way.values <= largest_noise(one_way, is_gaussian=is_gaussian)
    order = np.argsort(-one_way.values, kind="stable")
    bins = coarse_bins(np.where(is_rare, 0.0, mass), order, wanted)
    bins[is_rare] = int(bins[~is_rare].max(initial=-1)) + 1
    return bins


def set_missing_apart(one: StartCells, mass: Reals, wanted: int) -> Codes | None:
    """Records without a value share no bin with others if they are more than LEAST_MISSING of one; None: they may.

    Whether there is a value is a question of its own: where it is not known, no mean of a group is.
    """
    if not one.attribute.missing or mass[-1] * wanted < LEAST_MISSING * max(float(mass.sum()), 1e-9):
        return None
    is_missing: Codes = (np.arange(one.size) == one.size - 1).astype(np.int64)
    return is_missing


def is_missing_apart(attribute: Attribute, bins: Codes) -> bool:
    """Tell whether the last bin holds records without a value and no others."""
    return attribute.missing and bins.size > 1 and bool((bins[:-1] < bins[-1]).all())


def list_bins(one: StartCells, one_way: OneWay, mass: Reals, wanted: int, *, is_gaussian: bool) -> Codes:
    """Give the values of a long list their bins: by their siblings, or without a hierarchy by how frequent they are."""
    hierarchy = one.attribute.hierarchy
    if hierarchy is None:
        return frequency_bins(one_way, mass, wanted, is_gaussian=is_gaussian)
    return sibling_bins(one_way, hierarchy, wanted, is_gaussian=is_gaussian)
