"""Workloads of counts over every choice of some attributes, as Kronecker products: what an expected error needs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sudare.errors import ParameterError
from sudare.schema import Schema

Reals = NDArray[np.float64]

Kind = Literal["marginals", "prefixes", "ranges", "all-ranges"]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Workload:
    """All queries that ask something of `ways` attributes and sum over the others.

    W is the union over all choices S of the products of W_i for i in S and of rows of ones elsewhere. grams[i] is
    W_i^T W_i; queries[i] the number of rows of W_i. Random ranges are given by the expectation of w^T w over the draw
    of `evaluate.random_ranges` (a uniform length, then a uniform place) and count as one query a choice.

    Source: McKenna, Miklau, Hay, Machanavajjhala, Optimizing error of high-dimensional statistical queries under
    differential privacy, 2018

    >>> from sudare.schema import Attribute, Values
    >>> pair = tuple(Attribute(name=name, domain=Values(("0", "1", "2"))) for name in "ab")
    >>> Workload.of(Schema(name="s", attributes=pair), "marginals", 1).size
    6.0
    """

    grams: tuple[Reals, ...]
    queries: tuple[float, ...]
    ways: int

    @classmethod
    def of(cls, schema: Schema, kind: Kind, ways: int) -> Workload:
        """Name a workload of the papers on a schema."""
        if not 1 <= ways <= len(schema.sizes):
            raise ParameterError("ways ({ways}) must be between 1 and {d}", ways=ways, d=len(schema.sizes))
        rows = {"ranges": [1.0] * len(schema.sizes), "all-ranges": [size * (size + 1) / 2 for size in schema.sizes]}
        return cls(
            grams=tuple(GRAMS[kind](size) for size in schema.sizes),
            queries=tuple(rows.get(kind, [float(size) for size in schema.sizes])),
            ways=ways,
        )

    @property
    def sizes(self) -> tuple[int, ...]:
        """The values of every attribute."""
        return tuple(len(gram) for gram in self.grams)

    @property
    def size(self) -> float:
        """How many queries there are."""
        return choices(self.queries, [1.0] * len(self.queries), self.ways)[self.ways]

    def mean_square(self, inside: Sequence[float], outside: Sequence[float]) -> float:
        """Mean squared error, noise of variance 1: inside = tr(G_i M_i), outside = 1^T M_i 1, M_i = (A_i^T A_i)^-1."""
        return choices(inside, outside, self.ways)[self.ways] / self.size

    def subsets(self) -> Iterator[tuple[int, ...]]:
        """Every choice of attributes."""
        return itertools.combinations(range(len(self.grams)), self.ways)


def choices(inside: Sequence[float], outside: Sequence[float], most: int) -> list[float]:
    """Sum, over all choices S of 0, 1, ..., `most` places, the products of `inside` on S and `outside` elsewhere.

    The coefficients of the product of (outside + inside x): no list of choices is made.

    >>> choices([2.0, 3.0], [1.0, 1.0], 2)
    [1.0, 5.0, 6.0]
    """
    found = [1.0] + [0.0] * most
    for one, other in zip(inside, outside, strict=True):
        found = [other * found[0], *(other * found[k] + one * found[k - 1] for k in range(1, most + 1))]
    return found


def prefix_gram(size: int) -> Reals:
    """W^T W of all prefixes {x <= t}: cell (i, j) is in those with t >= max(i, j).

    >>> prefix_gram(2).tolist()
    [[2.0, 1.0], [1.0, 1.0]]
    """
    places = np.arange(size)
    return (size - np.maximum(places[:, None], places[None, :])).astype(np.float64)


def range_gram(size: int) -> Reals:
    """The expectation of w^T w for a range of uniform length at a uniform place: P[both i and j are inside].

    >>> range_gram(2).tolist()
    [[0.75, 0.5], [0.5, 0.75]]
    """
    low, high = np.minimum.outer(np.arange(size), np.arange(size)), np.maximum.outer(np.arange(size), np.arange(size))
    found = np.zeros((size, size))
    for length in range(1, size + 1):
        least, most = np.maximum(high - length + 1, 0), np.minimum(low, size - length)
        found += np.maximum(most - least + 1, 0) / (size - length + 1)
    return found / size


def all_ranges_gram(size: int) -> Reals:
    """W^T W of every range of consecutive values: those that hold both i and j.

    >>> all_ranges_gram(2).tolist()
    [[2.0, 1.0], [1.0, 2.0]]
    """
    places = np.arange(size)
    low, high = np.minimum.outer(places, places), np.maximum.outer(places, places)
    found: Reals = ((low + 1) * (size - high)).astype(np.float64)
    return found


GRAMS: dict[Kind, Callable[[int], Reals]] = {
    "marginals": np.eye,
    "prefixes": prefix_gram,
    "ranges": range_gram,
    "all-ranges": all_ranges_gram,
}
