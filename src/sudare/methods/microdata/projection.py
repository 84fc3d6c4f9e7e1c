"""The paper's section 4, step by step."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sudare.counts import Counts
from sudare.mechanisms import Rng, geometric
from sudare.methods.microdata.sparse import project_sparse
from sudare.methods.sensitivity import Budget
from sudare.repair import nearest_table
from sudare.schema import Schema

DENSE_CELLS = 2**20  # up to here the whole table is quicker; beyond, only what can survive is drawn, with the same law
CHUNK = 2**20


def project(counts: Counts, budget: Budget, *, total: int, rng: Rng) -> Counts:
    """Noise and the nearest valid table (steps 2 and 3 of section 4.1), whichever way is quicker."""
    way = project_dense if counts.schema.size <= DENSE_CELLS else project_sparse
    return way(counts, budget, total=total, rng=rng)


def project_dense(counts: Counts, budget: Budget, *, total: int, rng: Rng) -> Counts:
    """Noise in every cell of the table, then the nearest valid table.

    Cells declared impossible are left out of the vector: they are public zeros, so they get no noise and no records.
    """
    cells = possible_cells(counts.schema)
    exact = counts.dense() if cells is None else counts.dense()[cells]
    noisy = geometric(exact, epsilon=budget.cells_epsilon, sensitivity=budget.cells_sensitivity, rng=rng)
    table = nearest_table(noisy, total=total, rng=rng)
    kept = np.flatnonzero(table)
    codes = kept if cells is None else cells[kept]
    return Counts.build(counts.schema, codes[:, None], table[kept])


def possible_cells(schema: Schema) -> NDArray[np.int64] | None:
    """Codes of the cells that can hold people, or None when all can."""
    if not schema.impossible:
        return None
    parts = []
    for start in range(0, schema.size, CHUNK):
        codes = np.arange(start, min(start + CHUNK, schema.size), dtype=np.int64)
        parts.append(codes[~schema.is_impossible(schema.radix.decode(codes[:, None]))])
    return np.concatenate(parts)
