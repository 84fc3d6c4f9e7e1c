"""What the noisy tables of all pairs share: directions of one matrix that stand out of its noise. Post-processing.

The tables of all pairs, less what independent attributes would give, are the blocks of one symmetric matrix of D rows.
Where attributes follow a few hidden numbers or groups, few of its eigenvalues say nearly all of it, and noise of
variance v in every entry has eigenvalues of at most 2 sqrt(v D). So those beyond are kept, shrunk by what noise adds to
them, and all others are taken for noise: of D^2 v of squared noise about 2 k D v are left if k are kept.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sudare.schema.arrays import Reals

ROUNDS = 10  # until the blocks on the diagonal, which nobody measured, agree with the directions


def keep_directions(matrix: Reals, variance: float, sizes: Sequence[int]) -> Reals:
    """Keep what stands out of the noise of a symmetric matrix whose blocks of `sizes` on the diagonal are unknown.

    An eigenvalue w of a matrix with noise comes of one of sqrt(w^2 - 4 v D), about, which is what is kept of it: of all
    that could be made of the eigenvalues it is nearest to the truth (Gavish and Donoho 2017). Every attribute has
    `sizes` rows, which add up to 0 in columns: D is one less for each.
    """
    dimension = sum(size - 1 for size in sizes)
    edge = 4 * variance * dimension
    owner = np.repeat(np.arange(len(sizes)), sizes)
    is_own = owner[:, None] == owner[None, :]
    kept = np.zeros_like(matrix)
    for _ in range(ROUNDS):
        values, vectors = np.linalg.eigh(np.where(is_own, kept, matrix))
        shrunk = np.sign(values) * np.sqrt(np.maximum(values**2 - edge, 0.0))
        kept = (vectors * shrunk) @ vectors.T
    found: Reals = np.where(is_own, 0.0, kept)
    return found
