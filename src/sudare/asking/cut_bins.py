"""What bins hide: how far a sum may be off because the records of a bin do not lie evenly in it.

A condition that cuts a bin, or a function of a number, weighs the records of one bin differently. Where they lie in the
bin nobody measured. Records of one bin may lie alike in all cells that share it (ages at round numbers, prices just
below a thousand), so the errors of these cells add up, and are not averaged away.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from sudare.asking.protocol import AttributeCells, AxisWeight, WeightBox
from sudare.schema.arrays import Codes, Reals

WHOLE = 1e-11  # of a bin: less is the rounding of floats
ALL_ON_ONE_SIDE = 0.34  # variance of a bin that is cut: 1.96 deviations are 1.14, so 95 % reach all of it and its noise
STEP_BEND = 0.08  # mean of (high - w)(w - low) over (high - low)^2: 0 for a step, 1/6 for a slope, which is below
SMOOTH_LUMPS = 0.2  # of a bin's records: what may lie together even where neighbours are as dense


def find_lumps(counted: Reals, widths: Reals) -> Reals:
    """The share of the records of every bin that may lie at one place: those that its neighbours do not explain.

    Where both neighbours are as dense, records are spread; where a bin stands out, a heap may be in it.

    >>> find_lumps(np.array([10.0, 10.0, 10.0, 90.0, 10.0]), np.ones(5)).round(2).tolist()
    [1.0, 0.2, 0.2, 0.89, 1.0]
    """
    density = counted / np.where(widths > 0, widths, 1.0)
    beside = np.minimum(np.append(0.0, density[:-1]), np.append(density[1:], 0.0))
    explained = np.where(counted > 0, beside * widths / np.where(counted > 0, counted, 1.0), 0.0)
    return np.clip(1.0 - explained, SMOOTH_LUMPS, 1.0)


def find_doubt(weight: AxisWeight) -> Reals:
    """The variance of the weight of a bin whose records all lie at one place; on either side where a condition cuts."""
    if weight.low is None or weight.high is None:
        return weight.variance
    width, above = weight.high - weight.low, weight.mean - weight.low
    is_cut = (above > WHOLE * width) & (above < (1 - WHOLE) * width)
    is_step = is_cut & (above * (width - above) - weight.variance < STEP_BEND * width**2)
    return np.where(is_step, ALL_ON_ONE_SIDE * width**2, weight.variance)


def judge_cut_bins(
    boxes: Sequence[WeightBox],
    codes: Codes,
    people: Reals,
    cells: Callable[[int], AttributeCells],
) -> float:
    """The variance of a weighted sum for what lies inside bins, of cells (m, attributes) with so many people.

    The part of a bin that its neighbours do not explain may lie at one place in all cells of the bin at once; and the
    people of every cell at a place of their own.
    """
    together: dict[int, Reals] = {}
    variance = 0.0
    for box in boxes:
        for attribute, weight in box.items():
            doubt = find_doubt(weight)
            if not doubt.any():
                continue
            own, others = codes[:, attribute], np.ones(len(people))
            for other in box.keys() - {attribute}:
                others *= box[other].mean[codes[:, other]]
            held = np.bincount(own, people * np.abs(others), minlength=len(doubt))
            together[attribute] = together.get(attribute, np.zeros(len(doubt))) + held * np.sqrt(doubt)
            variance += float(np.bincount(own, (people * others) ** 2, minlength=len(doubt)) @ doubt)
    for attribute, deviations in together.items():
        edges = np.array([float(edge) for edge in cells(attribute).edges])
        records = np.bincount(codes[:, attribute], people, minlength=len(deviations)).astype(np.float64)
        counted, lumps = max(len(edges) - 1, 0), np.ones(len(deviations))
        lumps[:counted] = find_lumps(records[:counted], np.diff(edges))
        variance += float(((lumps * deviations) ** 2).sum())
    return variance
