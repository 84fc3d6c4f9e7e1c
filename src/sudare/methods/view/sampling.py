"""Records drawn from a view, chunk by chunk: as many as wanted, since the view is public already."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from sudare.mechanisms import Rng
from sudare.methods.view.blocks import BlockView
from sudare.methods.view.factors import reach
from sudare.methods.view.tables import TableView

Reals = NDArray[np.float64]
Codes = NDArray[np.int64]

CHUNK = 2**18


def sample_tables(view: TableView, size: int, *, rng: Rng) -> Iterator[Codes]:
    """Draw from the cliques, parents first, then a value within each bin.

    Uniforms are systematic: the records that share a parent cell are spread evenly over its children, so that sampling
    adds little to the error of the view.
    """
    steps, widths = _order(view), [int(bins.max()) + 1 for bins in view.bins]
    for chunk in _chunks(size):
        bins = np.zeros((chunk, len(view.schema.attributes)), dtype=np.int64)
        for table, given, fresh in steps:
            _extend(bins, table, given, fresh, widths, rng)
        yield _values(view, bins, rng)


def sample_blocks(view: BlockView, size: int, *, rng: Rng) -> Iterator[Codes]:
    """Draw blocks by their count (nothing from those below 0), then a cell of the block evenly."""
    mass = np.maximum(view.counts, 0.0)
    if not mass.sum() > 0:
        mass = np.ones(mass.size)
    widths = view.highs - view.lows + 1
    for chunk in _chunks(size):
        rows = _pick(np.zeros(chunk, dtype=np.int64), mass[None, :], rng)
        inside = np.floor(_uniform(widths.shape[1] * chunk, rng).reshape(chunk, -1) * widths[rows]).astype(np.int64)
        yield view.lows[rows] + np.minimum(inside, widths[rows] - 1)


Step = tuple[Reals, list[int], list[int]]  # table (given cells, fresh cells), attributes given, attributes drawn


def _order(view: TableView) -> list[Step]:
    """The cliques from the roots down, each as a table of what is new in it given what is known."""
    tree, tables = view.factors.tree, view.factors.tables
    near, seen = tree.neighbours(), set[int]()
    steps: list[Step] = []
    known: set[int] = set()
    for root in range(len(tree.cliques)):
        if root in seen:
            continue
        for place in reach(near, root):
            seen.add(place)
            clique = tree.cliques[place]
            given = [one for one in clique if one in known]
            fresh = [one for one in clique if one not in known]
            if not fresh:
                continue
            axes = [clique.index(one) for one in (*given, *fresh)]
            table = tables[place][0].transpose(axes)
            rows = int(np.prod([table.shape[axis] for axis in range(len(given))], dtype=np.int64))
            steps.append((table.reshape(rows, -1), given, fresh))
            known |= set(fresh)
    return steps


def _extend(bins: Codes, table: Reals, given: list[int], fresh: list[int], widths: list[int], rng: Rng) -> None:
    """Draw the fresh attributes of every row, given the known ones."""
    row = np.zeros(len(bins), dtype=np.int64)
    for one in given:
        row = row * widths[one] + bins[:, one]
    cell = _pick(row, table, rng)
    for one in reversed(fresh):
        cell, bins[:, one] = np.divmod(cell, widths[one])


def _values(view: TableView, bins: Codes, rng: Rng) -> Codes:
    """A value within the bin of every attribute."""
    out = np.empty_like(bins)
    for place, (of_value, share) in enumerate(zip(view.bins, view.shares, strict=True)):
        table = np.zeros((int(of_value.max()) + 1, of_value.size))
        table[of_value, np.arange(of_value.size)] = share[0]
        out[:, place] = _pick(bins[:, place], table, rng)
    return out


def _pick(rows: Codes, table: Reals, rng: Rng) -> Codes:
    """For every record a column of its row of the table, in proportion, evenly spread over the records of a row."""
    order = np.lexsort((rng.words64(rows.size), rows))
    ordered = rows[order]
    starts = np.searchsorted(ordered, np.arange(len(table)))
    many = np.maximum(np.diff(np.append(starts, rows.size)), 1)
    offset = _uniform(len(table), rng)
    uniform = np.minimum((np.arange(rows.size) - starts[ordered] + offset[ordered]) / many[ordered], 1 - 2.0**-40)
    sums = table.sum(axis=1, keepdims=True)
    even = np.full_like(table, 1.0 / table.shape[1])
    ladder = np.cumsum(np.where(sums > 0, table / np.where(sums > 0, sums, 1.0), even), axis=1)
    ladder[:, -1] = 1.0
    ladder += np.arange(len(table))[:, None]  # one increasing sequence: row r lives in (r, r + 1]
    found = np.searchsorted(ladder.ravel(), ordered + uniform, side="right") - ordered * table.shape[1]
    columns = np.empty(rows.size, dtype=np.int64)
    columns[order] = np.clip(found, 0, table.shape[1] - 1)
    return columns


def _uniform(size: int, rng: Rng) -> Reals:
    return (rng.words64(size) >> np.uint64(11)).astype(np.float64) / 2.0**53


def _chunks(size: int) -> Iterator[int]:
    while size > 0:
        yield min(size, CHUNK)
        size -= CHUNK
