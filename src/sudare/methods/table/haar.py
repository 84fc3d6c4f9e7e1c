"""One halving of the wavelet, in whole numbers: what is measured, how much a unit can change it, how a sum is split.

The paper halves averages; in sums the same steps are simpler. A node with sum S over a left and a right half has the
difference D = left - right. D gets noise, is clamped to [-S, S], and the halves are (S + D)/2 and (S - D)/2.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sudare.errors import ParameterError, SchemaError
from sudare.methods.budget import CountBudget
from sudare.noise import CountNoise
from sudare.noise.counting import choose_by_sensitivity
from sudare.privacy import Neighbours
from sudare.privacy.differential import check_neighbours
from sudare.schema import Schema
from sudare.schema.arrays import Integers

MOST_ATTRIBUTES = 62  # the edges of a node are bits of one word
LARGEST_TOTAL = 2**61  # the sum and the difference of a node are added before they are halved


def wavelet_sensitivity(levels: int, *, neighbours: Neighbours, rows: int = 1) -> int:
    """Bound the L1 change of all differences when one unit of at most `rows` rows changes (proofs/wavelet.md).

    A row stands in one node a level and changes its difference by 1. Replacing it is a change in two nodes a level, or
    of 2 in one: 2k for k levels. The paper's 2(1 + k) also counts the total, which replacing a row leaves alone.

    >>> wavelet_sensitivity(19, neighbours="replace"), wavelet_sensitivity(19, neighbours="add-remove")
    (38, 19)
    """
    check_neighbours(neighbours)
    return max(1, levels) * rows * (2 if neighbours == "replace" else 1)


def wavelet_scale(levels: int, *, epsilon: Fraction, neighbours: Neighbours, rows: int = 1) -> Fraction:
    """Give the scale of the noise of every difference.

    >>> wavelet_scale(19, epsilon=Fraction(1, 10), neighbours="replace")
    Fraction(380, 1)
    """
    return wavelet_sensitivity(levels, neighbours=neighbours, rows=rows) / epsilon


def wavelet_noise(levels: int, budget: CountBudget) -> CountNoise:
    """Choose the noise of every difference: of the laws that keep the part of the cells the one of less variance.

    In L2 (proofs/wavelet.md): a row added or removed changes one difference a level by 1, so k for k levels is the
    square; a row replaced changes one by 2, where its old and its new path part, and two by 1 on every level below:
    2k + 2 at most. A person with r rows at most r times as much.
    """
    halvings, currency = max(1, levels), budget.guarantee.currency
    is_replaced = budget.guarantee.neighbours == "replace"
    square = (2 * halvings + 2 if is_replaced else halvings) * budget.rows**2
    change = wavelet_sensitivity(levels, neighbours=budget.guarantee.neighbours, rows=budget.rows)
    return choose_by_sensitivity(budget.cells_part, currency, absolute=change, squared=square, is_listed=True)


def rows_of(schema: Schema) -> int:
    """The most rows that one unit has."""
    return schema.unit.max_rows if schema.unit.kind == "person" else 1


def halve(sums: Integers, differences: Integers, coins: NDArray[np.integer]) -> Integers:
    """Split sums by noisy differences; return the left halves, the right ones being the rest.

    left = floor((S + clamp(D, -S, S) + coin)/2)

    Where S + D is even the coin changes nothing and the halves are the paper's. Where it is odd the paper has halves
    of a record; a fair coin rounds them up or down, so the mean is the paper's.

    >>> halve(np.array([10, 10, 3]), np.array([4, -99, 0]), np.array([1, 1, 1])).tolist()
    [7, 0, 2]
    """
    clamped = np.clip(differences, -sums, sums)
    clamped += sums
    clamped += coins
    clamped >>= 1
    return clamped


def halving_bias(left: float, right: float, scale: float) -> float:
    """Give E[right+] - right of one halving of a known sum, Laplace noise: what clamping adds to the right half.

    (scale/4) (e^(-2 right/scale) - e^(-2 left/scale)): empty halves gain, large ones lose as much.
    Property 3 of the paper says that there is no bias.

    >>> round(halving_bias(100.0, 0.0, 40.0), 2)
    9.93
    """
    return scale / 4 * (math.exp(-2 * right / scale) - math.exp(-2 * left / scale))


def check_total(total: int) -> int:
    """Take a total of which halvings stay in 64 bits; a noisy one below 0 is 0.

    >>> check_total(-3)
    0
    """
    if total > LARGEST_TOTAL:
        raise ParameterError("total ({total}) must be at most 2**61; count in coarser units", total=total)
    return max(0, total)


def check_wavelet_schema(schema: Schema) -> None:
    """Refuse public facts that halvings of the whole domain would ignore."""
    if len(schema.attributes) > MOST_ATTRIBUTES:
        raise SchemaError(
            "the wavelet takes at most {most} attributes, not {found}; use the tree, or publish fewer",
            most=MOST_ATTRIBUTES,
            found=len(schema.attributes),
        )
