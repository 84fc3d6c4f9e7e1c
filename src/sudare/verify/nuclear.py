"""What a change of a matrix of all pairs costs: a bound of its nuclear norm, in exact fractions.

The norm is the sum of the absolute eigenvalues, which are seldom fractions. But any T with T - Delta and T + Delta
positive semidefinite bounds it by the trace of T: Delta is half of one less half of the other. Floats guess T, whole
numbers check it. Where the added and the removed records are orthogonal, T is a sum of their products and the bound is
the norm itself, so that a promise that is met with equality is not taken for broken. Proof: proofs/replay.md
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sudare.schema.arrays import Integers, Reals

Exact = NDArray[Any]  # of Python's integers

VECTOR_BITS, VALUE_BITS = 44, 40  # of the eigenvectors and eigenvalues that floats guess
LEAST_VALUE = 1e-10  # of the largest eigenvalue: smaller ones are bounded with the rest


def bound_nuclear_norm(change: Integers, sizes: tuple[int, ...]) -> Fraction:
    """Bound the nuclear norm of a symmetric matrix of whole numbers without the means of its blocks, from above.

    >>> record = np.array([1, 0, 0, 1])  # the first group of one attribute, the second of another
    >>> bound_nuclear_norm(np.outer(record, record), (2, 2))
    Fraction(1, 1)
    """
    weights = np.repeat(np.array(sizes, dtype=object), sizes)
    centred = _centre(change, sizes)
    if not centred.any():
        return Fraction(0)
    cells = np.outer(weights, weights)
    values, vectors = np.linalg.eigh((centred / cells).astype(np.float64))
    bound = _bound_by_eigenvalues(centred, weights, values, vectors)
    nearest = np.rint((vectors * np.abs(values)) @ vectors.T * cells.astype(np.float64))
    guess = _to_integers(nearest)
    if is_semidefinite(guess - centred) and is_semidefinite(guess + centred):
        bound = min(bound, _trace(guess, weights))
    return bound


def is_semidefinite(matrix: Exact) -> bool:
    """Tell whether a symmetric matrix of whole numbers is positive semidefinite, by elimination without fractions.

    The largest entry of the diagonal is the pivot; all quotients are whole (Bareiss 1968).

    >>> is_semidefinite(np.array([[1, 1], [1, 1]])), is_semidefinite(np.array([[1, 2], [2, 1]]))
    (True, False)
    """
    rest, before = matrix.astype(object), 1
    while rest.size:
        diagonal = rest.diagonal()
        place = int(np.argmax(diagonal))
        pivot = diagonal[place]
        if min(diagonal) < 0 or pivot == 0:
            return not rest.any()
        kept = np.arange(len(rest)) != place
        column = rest[kept, place]
        rest = (pivot * rest[np.ix_(kept, kept)] - np.outer(column, column)) // before
        before = pivot
    return True


def _centre(change: Integers, sizes: tuple[int, ...]) -> Exact:
    """Take the means of the rows and columns of every block out, times the number of its cells."""
    starts = np.cumsum(sizes) - np.array(sizes)
    blocks = np.repeat(np.arange(len(sizes)), sizes)
    weights = np.array(sizes, dtype=object)[blocks]
    rows = weights[:, None] * change.astype(object) - np.add.reduceat(change.astype(object), starts, axis=0)[blocks]
    centred: Exact = weights * rows - np.add.reduceat(rows, starts, axis=1)[:, blocks]
    return centred


def _bound_by_eigenvalues(centred: Exact, weights: Exact, values: Reals, vectors: Reals) -> Fraction:
    """Bound by the traces of what floats take for the two parts, and by the sum of all that they leave.

    With rounded values and vectors Delta = sum of l v v^T + R, whatever they are; the nuclear norm of R is at most the
    sum of its absolute entries.
    """
    is_large = np.abs(values) > LEAST_VALUE * np.abs(values).max()
    lengths = _to_integers(np.rint(values[is_large] * 2.0**VALUE_BITS))
    directions = _to_integers(np.rint(vectors[:, is_large] * 2.0**VECTOR_BITS))
    unit = 1 << (VALUE_BITS + 2 * VECTOR_BITS)
    norm = sum(abs(lengths) * (directions**2).sum(axis=0))
    scaled = directions * weights[:, None]
    rest = abs(centred * unit - (scaled * lengths) @ scaled.T)
    shares = np.array([Fraction(1, int(weight)) for weight in weights], dtype=object)
    bound: Fraction = (Fraction(int(norm)) + shares @ rest @ shares) / unit
    return bound


def _trace(matrix: Exact, weights: Exact) -> Fraction:
    diagonal = zip(matrix.diagonal(), weights, strict=True)
    return sum((Fraction(int(entry), int(weight) ** 2) for entry, weight in diagonal), Fraction(0))


def _to_integers(reals: Reals) -> Exact:
    return np.array([[int(x) for x in row] for row in np.atleast_2d(reals).tolist()], dtype=object).reshape(reals.shape)
