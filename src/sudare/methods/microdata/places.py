"""Which empty cells the surviving noise falls on: a uniform choice among all of them."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sudare.counts import Counts
from sudare.errors import ParameterError
from sudare.mechanisms import Rng
from sudare.methods.descent.seen import Seen, first_seen
from sudare.schema import Schema

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
    taken = Seen(counts.codes)
    drawn = np.empty((0, len(schema.radix.words)), dtype=np.int64)
    while drawn.shape[0] < size:
        wanted = (size - drawn.shape[0]) * schema.size // empty * 9 // 8 + 64
        more = _propose(schema, min(wanted, BATCH), rng)
        drawn = np.concatenate([drawn, more[~taken.holds(more)]])
        drawn = drawn[first_seen(drawn)]
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


def _propose(schema: Schema, size: int, rng: Rng) -> Codes:
    columns = np.column_stack([rng.uniform_below(radix, size) for radix in schema.sizes])
    if schema.impossible:
        columns = columns[~schema.is_impossible(columns)]
    return schema.radix.encode(columns)
