"""Microaggregation: numbers in groups of at least k rows, each published as the mean of its group.

The other quasi-identifiers are recoded first; inside each of their classes the rows are grouped by the numbers that are
to be averaged: one number by the partition of least squared error (Hansen, Mukherjee 2003), several by MDAV
(Domingo-Ferrer, Torra 2005). Rows of one combination of values stay together. A group that breaks a criterion joins the
nearest of its class until none does.

Guarantee: the groups are the classes of the release, so k and the criteria hold for them. Proof: proofs/kanon.md
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any, cast

import numpy as np

from sudare.counts.relabelling import SUPPRESSED, Relabelling
from sudare.errors import ParameterError
from sudare.methods.kanon.recode import ClassChecker, Pieces, RecodedTable, number_classes
from sudare.schema import Attribute
from sudare.schema.arrays import Codes, Integers, Labels, Reals
from sudare.schema.bins import NumberBins

MAX_MDAV_ROWS = 8_000  # combinations that are compared all with all; more are cut at a median first
MEAN_DIGITS = 2  # digits of a mean beyond those of the width of a bin


def check_numbers(attributes: Sequence[Attribute]) -> None:
    """Refuse attributes that have no mean."""
    for attribute in attributes:
        if not isinstance(attribute.domain, NumberBins) or attribute.branches:
            raise ParameterError(
                "microaggregate takes numbers without missing or other values; {name} is none, leave it out",
                name=attribute.name,
            )


def _bins_of(attribute: Attribute) -> NumberBins:
    check_numbers([attribute])
    return cast(NumberBins, attribute.domain)


def list_values(attribute: Attribute) -> Reals:
    """Give the number that stands for each code: the whole number of a bin of width 1, else the middle of the bin.

    >>> list_values(Attribute(name="age", domain=NumberBins.of_width(0, 3, 1))).tolist()
    [0.0, 1.0, 2.0]
    >>> list_values(Attribute(name="pay", domain=NumberBins.of_width(0, 30, 10))).tolist()
    [5.0, 15.0, 25.0]
    """
    domain = _bins_of(attribute)
    low, high = (np.array([float(edge) for edge in edges]) for edges in (domain.edges[:-1], domain.edges[1:]))
    return low if is_counted_in_ones(attribute) else (low + high) / 2


def is_counted_in_ones(attribute: Attribute) -> bool:
    """Tell whether every bin stands for one whole number."""
    domain = attribute.domain
    return isinstance(domain, NumberBins) and domain.is_whole and domain.uniform is not None and domain.uniform[1] == 1


# --- groups within a class --------------------------------------------------------------------------------------------


def group_one_number(values: Reals, weights: Codes, k: int) -> Integers:
    """Partition values (in increasing order, different) into runs of at least k rows of least squared error.

    Error: none; values of fewer than k rows in all are one run.       Source: Hansen, Mukherjee 2003

    >>> group_one_number(np.array([1.0, 2.0, 9.0, 10.0, 11.0]), np.ones(5, dtype=np.int64), 2).tolist()
    [0, 0, 1, 1, 1]
    """
    count = len(values)
    rows, sums, squares = (
        np.concatenate([[0.0], np.cumsum(term)]).tolist() for term in (weights, weights * values, weights * values**2)
    )
    least, start_of = [0.0] + [float("inf")] * count, [0] * (count + 1)
    for stop in range(1, count + 1):
        for start in range(stop - 1, -1, -1):
            size = rows[stop] - rows[start]
            if size < k:
                continue
            total = sums[stop] - sums[start]
            error = least[start] + squares[stop] - squares[start] - total * total / size
            if error < least[stop]:
                least[stop], start_of[stop] = error, start
            if _can_be_cut(rows, start, stop, k):
                break  # two runs are never worse than one, here and with more values before it
    group_of, stop, number = np.zeros(count, dtype=np.int64), count, 0
    while stop > 0:
        start = start_of[stop] if least[stop] < float("inf") else 0
        group_of[start:stop] = number
        stop, number = start, number + 1
    return number - 1 - group_of


def _can_be_cut(rows: list[float], start: int, stop: int, k: int) -> bool:
    """Tell whether a run can be cut into two of at least k rows."""
    low, high = start, stop
    while low < high:  # the first place with k rows before it
        middle = (low + high) // 2
        low, high = (low, middle) if rows[middle] - rows[start] >= k else (middle + 1, high)
    return low < stop and rows[stop] - rows[low] >= k


def group_by_distance(points: Reals, weights: Codes, k: int) -> Integers:
    """Group points (m, d) into clusters of at least k rows that lie near each other: MDAV, whole points only.

    >>> points = np.array([[0.0, 0.0], [0.0, 1.0], [9.0, 9.0], [9.0, 8.0]])
    >>> group_by_distance(points, np.array([1, 1, 1, 1]), 2).tolist()
    [0, 0, 1, 1]
    """
    group_of = np.zeros(len(points), dtype=np.int64)
    number = 0
    for part in _cut_at_medians(points, weights, np.arange(len(points)), k):
        for members in _cluster(points[part], weights[part], k):
            group_of[part[members]] = number
            number += 1
    return group_of


def _cut_at_medians(points: Reals, weights: Codes, part: Codes, k: int) -> Iterator[Codes]:
    """Cut many points at the median of the number that spreads most, until few are left in each part."""
    if len(part) <= MAX_MDAV_ROWS:
        yield part
        return
    axis = int(np.argmax(points[part].std(axis=0)))
    order = part[np.argsort(points[part, axis], kind="stable")]
    rows = np.cumsum(weights[order])
    place = int(np.searchsorted(rows, rows[-1] / 2)) + 1
    if place >= len(order) or rows[place - 1] < k or rows[-1] - rows[place - 1] < k:
        yield part
        return
    yield from _cut_at_medians(points, weights, order[:place], k)
    yield from _cut_at_medians(points, weights, order[place:], k)


def _cluster(points: Reals, weights: Codes, k: int) -> Iterator[Codes]:
    """Take the point farthest from the centre with its neighbours, then the one farthest from it, and so on."""
    left = np.arange(len(points))
    while weights[left].sum() >= 2 * k:
        centre = np.average(points[left], axis=0, weights=weights[left])
        farthest = points[left[_squared(points[left], centre).argmax()]]
        taken, left = _take_nearest(points, weights, left, farthest, k)
        if weights[left].sum() < k:
            yield np.concatenate([taken, left])
            return
        yield taken
        if weights[left].sum() >= 2 * k:
            opposite = points[left[_squared(points[left], farthest).argmax()]]
            taken, rest = _take_nearest(points, weights, left, opposite, k)
            if weights[rest].sum() < k:
                yield left
                return
            yield taken
            left = rest
    if left.size:
        yield left


def _squared(points: Reals, centre: Reals) -> Reals:
    distances: Reals = ((points - centre) ** 2).sum(axis=1)
    return distances


def _take_nearest(points: Reals, weights: Codes, left: Codes, centre: Reals, k: int) -> tuple[Codes, Codes]:
    """Take the points nearest to a centre until they have k rows."""
    order = np.argsort(_squared(points[left], centre), kind="stable")
    count = int(np.searchsorted(np.cumsum(weights[left][order]), k)) + 1
    return left[order[:count]], left[order[count:]]


# --- a recoded table, averaged ----------------------------------------------------------------------------------------


def average_numbers(
    pieces: Pieces, class_of: Codes, names: Sequence[str], k: int, check: ClassChecker
) -> tuple[Codes, dict[str, Labels], dict[str, Integers]]:
    """Group the pieces of every class by the numbers to be averaged, and write the means.

    Returns the group of every piece, and for each group the texts of the means and how many declared values it spans.
    """
    axes = [pieces.names.index(name) for name in names]
    numbers = np.column_stack([list_values(pieces.attributes[axis])[pieces.codes[:, axis]] for axis in axes])
    group_of = _group_classes(pieces, class_of, numbers, k)
    group_of = _join_failing(pieces, class_of, group_of, numbers, check)
    texts, spans = {}, {}
    kept = group_of != SUPPRESSED
    count = int(group_of.max(initial=-1)) + 1
    rows = np.bincount(group_of[kept], weights=pieces.weights[kept], minlength=count)
    for place, (name, axis) in enumerate(zip(names, axes, strict=True)):
        weighted = numbers[kept, place] * pieces.weights[kept]
        means = np.bincount(group_of[kept], weights=weighted, minlength=count) / np.maximum(rows, 1)
        texts[name] = _write_means(pieces.attributes[axis], means)
        low, high = np.full(count, pieces.attributes[axis].size), np.full(count, -1)
        np.minimum.at(low, group_of[kept], pieces.codes[kept, axis])
        np.maximum.at(high, group_of[kept], pieces.codes[kept, axis])
        spans[name] = np.maximum(high - low + 1, 1)
    return group_of, texts, spans


def _group_classes(pieces: Pieces, class_of: Codes, numbers: Reals, k: int) -> Codes:
    """Group the pieces class by class; pieces with equal numbers stay together."""
    group_of, count = np.full(len(class_of), SUPPRESSED, dtype=np.int64), 0
    spread = np.where(numbers.std(axis=0) > 0, numbers.std(axis=0), 1.0)
    order = np.argsort(class_of, kind="stable")
    starts = np.flatnonzero(np.diff(class_of[order], prepend=SUPPRESSED - 1))
    for members in np.split(order, starts[1:]):
        if class_of[members[0]] == SUPPRESSED:
            continue
        points, point_of = np.unique(numbers[members] / spread, axis=0, return_inverse=True)
        point_of = point_of.reshape(-1)
        weights = np.bincount(point_of, weights=pieces.weights[members]).astype(np.int64)
        groups = (
            group_one_number(points[:, 0], weights, k)
            if points.shape[1] == 1
            else group_by_distance(points, weights, k)
        )
        group_of[members] = count + groups[point_of]
        count += int(groups.max()) + 1
    return group_of


def _join_failing(pieces: Pieces, class_of: Codes, group_of: Codes, numbers: Reals, check: ClassChecker) -> Codes:
    """Let groups that break a criterion join the nearest group of their class, until none does."""
    kept = np.flatnonzero(group_of != SUPPRESSED)
    part, classes, points = pieces.take(kept), class_of[kept], numbers[kept] / np.maximum(numbers.std(axis=0), 1e-300)
    groups = number_classes(group_of[kept][:, None])
    while True:
        count = int(groups.max(initial=-1)) + 1
        failing = np.flatnonzero(~check(part, groups, count))
        if not failing.size:
            break
        rows = np.bincount(groups, weights=part.weights, minlength=count)
        centres = np.column_stack(
            [np.bincount(groups, weights=part.weights * axis, minlength=count) / rows for axis in points.T]
        )
        class_of_group = np.empty(count, dtype=np.int64)
        class_of_group[groups] = classes
        target = np.arange(count)
        for group in failing.tolist():
            others = np.flatnonzero((class_of_group == class_of_group[group]) & (np.arange(count) != group))
            others = others[target[others] != group]  # two that chose each other would never meet
            if others.size:
                target[group] = target[others[_squared(centres[others], centres[group]).argmin()]]
        if (target == np.arange(count)).all():
            break  # whole classes: the last check before anything leaves decides
        groups = number_classes(target[groups][:, None])
    joined = np.full(len(group_of), SUPPRESSED, dtype=np.int64)
    joined[kept] = groups
    return joined


def _write_means(attribute: Attribute, means: Reals) -> Labels:
    """Write means with a few digits more than the bins have."""
    domain = _bins_of(attribute)
    narrow = min(high - low for low, high in zip(domain.edges, domain.edges[1:], strict=False))
    digits = max(0, MEAN_DIGITS - int(np.floor(np.log10(float(narrow)))))
    texts = [f"{mean:.{digits}f}" for mean in means.tolist()]
    plain = [text.rstrip("0").rstrip(".") if "." in text else text for text in texts]
    return np.array(plain, dtype=np.object_)


def is_mean_of(attribute: Attribute, label: str | None) -> bool:
    """Tell whether a published label can be a mean of values of the attribute.

    >>> age = Attribute(name="age", domain=NumberBins.of_width(0, 100, 1))
    >>> is_mean_of(age, "34.25"), is_mean_of(age, "134"), is_mean_of(age, "[20,30)"), is_mean_of(age, None)
    (True, False, False, False)
    """
    domain = attribute.domain
    try:
        number = Fraction(label or "")
    except (ValueError, ZeroDivisionError):
        return False
    return isinstance(domain, NumberBins) and domain.edges[0] <= number <= domain.edges[-1]


def describe_means(attribute: Attribute) -> dict[str, Any]:
    """Tell what mapping.json says of an averaged number."""
    return {"mean": "of the class", "values": "whole numbers" if is_counted_in_ones(attribute) else "middles of bins"}


def read_piece_labels(recoded: RecodedTable) -> dict[str, Labels]:
    """Write every piece of a recoded table as it would be published, attribute by attribute."""
    pieces, relabelling = recoded.pieces, recoded.relabelling
    labels = {}
    group_of = _find_groups(pieces, relabelling)
    for axis, attribute in enumerate(pieces.attributes[: pieces.quasi]):
        write = relabelling.labels.get(attribute.name, attribute.labels)
        texts = np.asarray(write(pieces.codes[:, axis]), dtype=np.object_)
        overrides = None if relabelling.overrides is None else relabelling.overrides.labels.get(attribute.name)
        if overrides is not None:
            texts = texts.copy()
            texts[group_of >= 0] = overrides[group_of[group_of >= 0]]
        labels[attribute.name] = texts
    return labels


def _find_groups(pieces: Pieces, relabelling: Relabelling) -> Codes:
    """Find the group of overrides of every piece, -1 where none is."""
    overrides = relabelling.overrides
    if overrides is None:
        return np.full(len(pieces.weights), SUPPRESSED, dtype=np.int64)
    axes = [pieces.names.index(name) for name in overrides.names]
    ids = number_classes(np.concatenate([overrides.codes, pieces.codes[:, axes]]))
    group_of = np.full(int(ids.max(initial=0)) + 1, SUPPRESSED, dtype=np.int64)
    group_of[ids[: len(overrides.groups)]] = overrides.groups
    found: Codes = group_of[ids[len(overrides.groups) :]]
    return found
