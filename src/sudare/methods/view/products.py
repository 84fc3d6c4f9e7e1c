"""Products of tables, summed over attributes: what a question to a view comes down to.

The first axis of every table holds versions: the estimate, then replicates of it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from sudare.schema.arrays import Reals

Clique = tuple[int, ...]
Message = tuple[Reals, Clique]  # weights, (versions, values, ...), of these attributes

FEW_PRODUCTS = 128  # of a product of a matrix and a vector: with fewer, a call of it costs more than they do
# A table of many cells is summed over one attribute where it lies, if so many cells stand together there: that takes
# less than laying it out. Chosen by CPU time on tables of 1e3 to 3e5 cells.
MANY_CELLS, CELLS_TOGETHER = 2**13, 32


class CliqueProduct:
    """How the table of a clique is weighed by factors over some attributes each, and summed over all but `out`.

    The table, whose attributes are those of factors and `out` in order, is laid out so that every sum is one product of
    matrices over its last axes: first attributes that one factor weighs alone, the largest first since it leaves least,
    then what the others, multiplied with each other, hold. A large table is summed over one attribute where it lies,
    and what is left is laid out (`first`). `laid_cells`: how many cells were copied for that, and are kept.
    """

    def __init__(self, axes: Sequence[Clique], out: Clique, table: Reals) -> None:
        every = sorted({*out, *(attribute for own in axes for attribute in own)})
        sizes = dict(zip(every, table.shape[1:], strict=True))
        uses = Counter([attribute for own in axes for attribute in own])
        is_alone = [len(own) == 1 and own[0] not in out and uses[own[0]] == 1 for own in axes]
        alone = [(place, own[0]) for place, own in enumerate(axes) if is_alone[place]]
        alone.sort(key=lambda one: sizes[one[1]])
        self.first = _find_first(alone, sizes) if table.size >= MANY_CELLS else None
        if self.first is not None:
            alone = [one for one in alone if one[0] != self.first[0]]
            every.remove(axes[self.first[0]][0])
        rest = [place for place in range(len(axes)) if not is_alone[place]]
        held = tuple(sorted({attribute for place in rest for attribute in axes[place]}))
        both = tuple([attribute for attribute in out if attribute in held])
        free = tuple([attribute for attribute in out if attribute not in held])
        gone = tuple([attribute for attribute in held if attribute not in out])
        order = [*both, *free, *gone, *(attribute for _, attribute in alone)]
        self.table, self.laid_cells = table, 0
        self.shape_left = [sizes[one] for one in every]
        self.layout = None if order == every else [0, *(1 + every.index(one) for one in order)]
        if self.first is None and self.layout is not None:
            self.table, self.laid_cells = np.ascontiguousarray(table.transpose(self.layout)), table.size
        self.alone = [(place, sizes[attribute]) for place, attribute in reversed(alone)]
        self.rest = [(place, [sizes[one] if one in axes[place] else 1 for one in held]) for place in rest]
        self.turned = None if (*both, *gone) == held else [0, *(1 + held.index(one) for one in (*both, *gone))]
        self.shared, self.summed = (math.prod([sizes[one] for one in some]) for some in (both, gone))
        self.shape = [sizes[one] for one in (*both, *free)]
        kept = (*both, *free)
        self.order = None if kept == out else [0, *(1 + kept.index(one) for one in out)]

    def weigh(self, factors: Sequence[Message]) -> Reals:
        """The table weighed and summed; (versions, values, ...)."""
        table = self.table if self.first is None else self._sum_first(factors[self.first[0]][0])
        for place, size in self.alone:
            table = np.matmul(table.reshape(table.shape[0], -1, size), factors[place][0][:, :, None])
        if self.rest:
            factor = self._multiply(factors)
            rows = table.reshape(table.shape[0], self.shared, -1, self.summed)
            table = _weigh_rows(rows, factor.reshape(factor.shape[0], self.shared, self.summed))
        table = table.reshape(table.shape[0], *self.shape)
        return table if self.order is None else table.transpose(self.order)

    def _sum_first(self, weights: Reals) -> Reals:
        """Sum over the first attribute where it lies, and lay out what is left."""
        _, before, size = self.first or (0, 1, 1)
        summed = np.matmul(weights[:, None, None, :], self.table.reshape(self.table.shape[0], before, size, -1))
        table: Reals = summed.reshape(summed.shape[0], *self.shape_left)
        return table if self.layout is None else table.transpose(self.layout)

    def _multiply(self, factors: Sequence[Message]) -> Reals:
        """The product of the factors that share attributes with each other or with what is kept."""
        (place, sizes), *others = self.rest
        weights = factors[place][0]
        product = weights.reshape(weights.shape[0], *sizes)
        for place, sizes in others:
            weights = factors[place][0]
            product = product * weights.reshape(weights.shape[0], *sizes)
        return product if self.turned is None else product.transpose(self.turned)


def _find_first(alone: Sequence[tuple[int, int]], sizes: Mapping[int, int]) -> tuple[int, int, int] | None:
    """The largest attribute that a large table is quickly summed over where it lies: its factor, cells before, size."""
    every = list(sizes)
    for place, attribute in reversed(alone):
        at = every.index(attribute)
        if math.prod([sizes[one] for one in every[at + 1 :]]) >= CELLS_TOGETHER:
            return place, math.prod([sizes[one] for one in every[:at]]), sizes[attribute]
    return None


def multiply_all(operands: Sequence[tuple[Reals, Clique]], out: Clique) -> Reals:
    """Multiply and sum over attributes; the axis of versions comes first in every table.

    Tables are taken in one by one, by products of matrices; an attribute that is not needed any more is summed over.
    """
    table, axes = operands[0]
    for place, (other, more) in enumerate(operands[1:], start=2):
        needed = {*out, *(attribute for _, later in operands[place:] for attribute in later)}
        table, axes = multiply_tables(table, axes, other, more, needed)
    table, axes = _sum_to(table, axes, set(out))
    return table if axes == out else table.transpose([0, *(1 + axes.index(attribute) for attribute in out)])


def _sum_to(table: Reals, axes: Clique, needed: set[int]) -> Message:
    gone = tuple(1 + place for place, attribute in enumerate(axes) if attribute not in needed)
    kept = tuple(attribute for attribute in axes if attribute in needed)
    return (table.sum(axis=gone) if gone else table), kept


def multiply_tables(first: Reals, axes: Clique, second: Reals, more: Clique, needed: set[int]) -> Message:
    """The product of two tables, summed over the attributes that are not needed: one product of matrices."""
    first, axes = _sum_to(first, axes, needed | set(more))
    second, more = _sum_to(second, more, needed | set(axes))
    if len(more) == 1 and more[0] in axes:  # weights of one attribute: nothing is laid out anew
        place = axes.index(more[0])
        if more[0] not in needed:
            return sum_out(first, 1 + place, second), (*axes[:place], *axes[place + 1 :])
        return first * second.reshape(second.shape[0], *(1,) * place, -1, *(1,) * (len(axes) - place - 1)), axes
    if more and set(more) <= set(axes):
        laid = second.transpose(
            [0, *(1 + place for place in sorted(range(len(more)), key=lambda at: axes.index(more[at])))]
        )
        sizes = [size if axis in more else 1 for axis, size in zip(axes, first.shape[1:], strict=True)]
        return _sum_to(first * laid.reshape(laid.shape[0], *sizes), axes, needed)
    shared = [attribute for attribute in axes if attribute in more]
    kept = [attribute for attribute in shared if attribute in needed]
    summed = [attribute for attribute in shared if attribute not in needed]
    left = [attribute for attribute in axes if attribute not in more]
    right = [attribute for attribute in more if attribute not in axes]
    rows = first.transpose([0, *(1 + axes.index(attribute) for attribute in (*kept, *left, *summed))])
    columns = second.transpose([0, *(1 + more.index(attribute) for attribute in (*kept, *summed, *right))])
    batch = rows.shape[: 1 + len(kept)]
    wide, high = rows.shape[1 + len(kept) : rows.ndim - len(summed)], columns.shape[columns.ndim - len(right) :]
    inner = math.prod(rows.shape[rows.ndim - len(summed) :])
    product = np.matmul(
        rows.reshape(*batch, math.prod(wide), inner),
        columns.reshape(*columns.shape[: 1 + len(kept)], inner, math.prod(high)),
    )
    return product.reshape(*product.shape[: 1 + len(kept)], *wide, *high), (*kept, *left, *right)


def _weigh_rows(rows: Reals, factor: Reals) -> Reals:
    """Sum over the last axis of (versions, shared, rows, summed), weighted by (versions, shared, summed)."""
    if rows.shape[2] * rows.shape[3] < FEW_PRODUCTS:
        few: Reals = np.einsum("vsrx,vsx->vsr", rows, factor)
        return few
    product: Reals = np.matmul(rows, factor[..., None])
    return product


def sum_out(table: Reals, axis: int, weights: Reals) -> Reals:
    """Weigh one axis of a table and sum over it; `weights` are (versions, values)."""
    shape = table.shape
    if axis == table.ndim - 1:
        summed = np.matmul(table.reshape(shape[0], -1, shape[axis]), weights[:, :, None])
    else:
        flat = table.reshape(shape[0], math.prod(shape[1:axis]), shape[axis], -1)
        summed = np.matmul(weights[:, None, None, :], flat)
    reshaped: Reals = summed.reshape(summed.shape[0], *shape[1:axis], *shape[axis + 1 :])
    return reshaped


def weigh_all(table: Reals, axes: Clique, weights: Mapping[int, Reals]) -> Reals:
    """Weigh attributes of a table and sum over them; the others stay."""
    for place in range(len(axes) - 1, -1, -1):
        if axes[place] in weights:
            table = sum_out(table, 1 + place, weights[axes[place]])
    return table
