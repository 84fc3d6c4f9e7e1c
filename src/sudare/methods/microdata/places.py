"""Which empty cells the surviving noise falls on: a uniform choice among all of them."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sudare.counts import Counts
from sudare.errors import ParameterError
from sudare.mechanisms import Rng

Codes = NDArray[np.int64]

LEAST_SHARE = Fraction(1, 1000)  # of possible cells among all: below it proposals are nearly all refused
BATCH = 2**20


def empty_cells(counts: Counts, size: int, *, rng: Rng) -> Codes:
    """Draw `size` distinct cells uniformly from the possible cells that hold nobody.

    Cells are proposed uniformly, every attribute by itself; those that are taken, impossible or drawn before are
    refused. So every set of `size` empty cells is equally likely. Work grows with `size`, not with the domain.
    """
    schema = counts.schema
    check_share(schema.possible_size, schema.size)
    empty = schema.possible_size - counts.nonzero
    drawn = np.empty((0, len(schema.radix.words)), dtype=np.int64)
    while drawn.shape[0] < size:
        wanted = (size - drawn.shape[0]) * schema.size // empty * 9 // 8 + 64
        more = _propose(counts, min(wanted, BATCH), rng)
        drawn = np.concatenate([drawn, more])
        drawn = drawn[np.sort(_first_seen(drawn))]
    return drawn[:size]


def check_share(possible: int, cells: int) -> None:
    """Refuse a domain of which nearly everything is declared impossible."""
    if possible < LEAST_SHARE * cells:
        raise ParameterError(
            "the declared impossibilities leave less than {least} of {cells} cells;"
            " declare an attribute of the possible combinations instead",
            least=LEAST_SHARE,
            cells=cells,
        )


def _propose(counts: Counts, size: int, rng: Rng) -> Codes:
    schema = counts.schema
    columns = np.column_stack([rng.uniform_below(radix, size) for radix in schema.sizes])
    if schema.impossible:
        columns = columns[~schema.is_impossible(columns)]
    codes = schema.radix.encode(columns)
    return codes[~_is_member(codes, counts.codes)]


def _is_member(codes: Codes, table: Codes) -> NDArray[np.bool_]:
    """Tell which rows stand in a sorted table of unique rows."""
    if codes.shape[1] == 1:
        places = np.searchsorted(table[:, 0], codes[:, 0])
        found = np.minimum(places, max(table.shape[0] - 1, 0))
        return np.zeros(codes.shape[0], dtype=bool) if not table.size else table[found, 0] == codes[:, 0]
    whole = np.concatenate([table, codes])
    order = np.lexsort(whole.T[::-1])  # stable: a row of the table comes before its copies
    ordered = whole[order]
    is_new = np.concatenate(([True], (ordered[1:] != ordered[:-1]).any(axis=1)))
    first = order[np.flatnonzero(is_new)][np.cumsum(is_new) - 1]
    member = np.empty(whole.shape[0], dtype=bool)
    member[order] = first < table.shape[0]
    return member[table.shape[0] :]


def _first_seen(codes: Codes) -> Codes:
    """Where each distinct row stands for the first time."""
    order = np.lexsort(codes.T[::-1])
    ordered = codes[order]
    is_new = np.ones(codes.shape[0], dtype=bool)
    is_new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    return order[is_new]
