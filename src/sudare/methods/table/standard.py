"""The wavelet in several dimensions at once, for small tables: the standard decomposition.

Every attribute is transformed along its own axis, so a coefficient is a difference of differences, one for each node of
each axis (or the sum over the axis). One row changes (1 + k_1)(1 + k_2)... coefficients by 1.

The paper says that the refinement carries over and not how. Here the sums over the first axis are made first, a table
over the other axes. Then every node of the first axis, from the root down, gives a part of its table to its left half:
the noisy coefficients say which, and that part is again made by its sums first, never less than nothing and never more
than the node has. In one dimension this is the refinement of the paper.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sudare.counts import Counts
from sudare.errors import ParameterError
from sudare.mechanisms import Rng, geometric_noise
from sudare.methods.table.haar import check_total, check_wavelet_schema, fair_coins, rows_of
from sudare.privacy import Neighbours
from sudare.privacy.guarantee import check_neighbours

Numbers = NDArray[np.int64]
Reals = NDArray[np.float64]

MOST_PLACES = 2**22


def standard_sensitivity(sizes: tuple[int, ...], *, neighbours: Neighbours, rows: int = 1) -> int:
    """Bound the L1 change of all coefficients but the total (proofs/wavelet.md).

    >>> standard_sensitivity((4, 8), neighbours="replace")
    22
    """
    check_neighbours(neighbours)
    touched = math.prod(1 + (size - 1).bit_length() for size in sizes) - 1
    return max(1, touched) * rows * (2 if neighbours == "replace" else 1)


def standard_wavelet(counts: Counts, *, epsilon: Fraction, neighbours: Neighbours, total: int, rng: Rng) -> Counts:
    """Publish a small table by the standard decomposition: whole numbers, never negative, adding up to `total`.

    Guarantee: epsilon-DP, with a total that is public or has an epsilon of its own. Proof: proofs/wavelet.md
    Error: noise of scale 2(prod(1 + k_i) - 1)/epsilon (replace-one) in every coefficient.
    Source: Xiao, Wang, Gehrke 2010 (transform); Terada et al. (refinement, in the reading told above)

    >>> from sudare.mechanisms import SeededRng
    >>> from sudare.schema import Attribute, NumberBins, Schema
    >>> sides = [Attribute(name=name, domain=NumberBins.of_width(0, 6, 1)) for name in ("row", "column")]
    >>> counts = Counts.from_columns(Schema(name="square", attributes=tuple(sides)), [[3, 4]] * 500)
    >>> standard_wavelet(counts, epsilon=Fraction(1), neighbours="replace", total=500, rng=SeededRng(1)).total
    500
    """
    check_wavelet_schema(counts.schema)
    sizes = counts.schema.sizes
    shape = tuple(1 << (size - 1).bit_length() for size in sizes)
    if math.prod(shape) > MOST_PLACES:
        raise ParameterError("the standard decomposition takes at most {most} places; use morton", most=MOST_PLACES)
    sensitivity = standard_sensitivity(sizes, neighbours=neighbours, rows=rows_of(counts.schema))
    table = np.zeros(shape, dtype=np.int64)
    table[tuple(slice(size) for size in sizes)] = counts.dense().reshape(sizes)
    for axis in range(len(shape)):
        table = haar(table, axis)
    noisy = (table + geometric_noise(table.size, scale=sensitivity / epsilon, rng=rng).reshape(shape)).astype(
        np.float64
    )
    total = check_total(total)
    noisy[(0,) * len(shape)] = total
    most = np.zeros(shape, dtype=np.int64)
    most[tuple(slice(size) for size in sizes)] = total  # places without a cell hold nobody
    published = _fitted(noisy[None], np.zeros_like(most)[None], most[None], total, rng)[0]
    values = published[tuple(slice(size) for size in sizes)].ravel()
    kept = np.flatnonzero(values)
    return Counts.build(counts.schema, counts.schema.radix.from_ranks(kept.tolist()), values[kept])


def haar(values: Numbers, axis: int) -> Numbers:
    """Transform along one axis: the sum, then the differences left - right from the root down.

    >>> haar(np.array([5, 1, 0, 2]), 0).tolist()
    [8, 4, 4, -2]
    """
    values = np.moveaxis(values, axis, 0)
    levels = []
    while len(values) > 1:
        left, right = values[0::2], values[1::2]
        levels.append(left - right)
        values = left + right
    return np.moveaxis(np.concatenate([values, *levels[::-1]]), 0, axis)


def _fitted(noisy: Reals, least: Numbers, most: Numbers, total: int, rng: Rng) -> Numbers:
    """Make tables near noisy coefficients, cell by cell between `least` and `most`; the first axis counts the tables.

    The sums over the next axis come first, from their own coefficients; then its nodes are halved from the root down.
    """
    if noisy.ndim == 1:
        return np.clip(_rounded(noisy, rng), least, most)
    leasts, mosts = (_sums_of_nodes(bound, total) for bound in (least, most))
    nodes = _fitted(noisy[:, 0], leasts[0][:, 0], mosts[0][:, 0], total, rng)[:, None]
    for low, high in zip(leasts[1:], mosts[1:], strict=True):
        width = nodes.shape[1]
        known = nodes
        for axis in range(2, nodes.ndim):
            known = haar(known, axis)
        wanted = (known + noisy[:, width : 2 * width]) / 2
        floor = np.maximum(low[:, 0::2], nodes - high[:, 1::2])
        ceiling = np.minimum(high[:, 0::2], nodes - low[:, 1::2])
        flat = (-1, *nodes.shape[2:])
        left = _fitted(wanted.reshape(flat), floor.reshape(flat), ceiling.reshape(flat), total, rng)
        left = left.reshape(nodes.shape)
        nodes = np.stack([left, nodes - left], axis=2).reshape(nodes.shape[0], 2 * width, *nodes.shape[2:])
    return nodes


def _sums_of_nodes(bound: Numbers, total: int) -> list[Numbers]:
    """Bounds of all nodes of the second array axis, from the root down; a sum beyond the total is no bound."""
    found = [bound]
    while found[-1].shape[1] > 1:
        found.append(np.minimum(found[-1][:, 0::2] + found[-1][:, 1::2], total))
    return found[::-1]


def _rounded(values: Reals, rng: Rng) -> Numbers:
    """Round to whole numbers; a fair coin decides exact halves."""
    down = np.floor(values)
    coins = fair_coins(values.size, rng).reshape(values.shape)
    return np.where(values - down == 0.5, down + coins, np.rint(values)).astype(np.int64)
