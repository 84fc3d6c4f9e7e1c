"""Cells of a table as numbers: mixed radix, in as many 64-bit words as the domain needs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from sudare.errors import ParameterError
from sudare.schema.arrays import Codes

_WORD = 2**63  # the first integer that an int64 does not hold


@dataclass(frozen=True)
class Radix:
    """Number the cells of a product of attributes, first attribute most significant.

    A domain below 2**63 cells needs one word. A larger one is cut between attributes, greedily from the front, so that
    every word stays below 2**63; word 0 is the most significant. Sorting rows of words sorts cells by rank.

    >>> radix = Radix((2, 3))
    >>> radix.encode(np.array([[0, 0], [0, 2], [1, 1]])).ravel().tolist()
    [0, 2, 4]
    >>> Radix((10**18, 10**18)).cells
    1000000000000000000000000000000000000
    """

    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "sizes", tuple(int(size) for size in self.sizes))
        for size in self.sizes:
            if not 1 <= size < _WORD:
                raise ParameterError("the size of an attribute ({size}) must be between 1 and 2**63 - 1", size=size)

    @cached_property
    def cells(self) -> int:
        """Count the cells of the domain, exactly."""
        return math.prod(self.sizes)

    @cached_property
    def words(self) -> tuple[range, ...]:
        """Tell which attributes, by position, each word holds. There is always at least one word."""
        cuts, product = [0], 1
        for position, size in enumerate(self.sizes):
            if product * size >= _WORD:
                cuts.append(position)
                product = 1
            product *= size
        return tuple(range(low, high) for low, high in pairwise([*cuts, len(self.sizes)]))

    @cached_property
    def _capacities(self) -> tuple[int, ...]:
        return tuple(math.prod(self.sizes[word.start : word.stop]) for word in self.words)

    def encode(self, columns: NDArray[np.integer]) -> Codes:
        """Turn rows of attribute codes (m, d) into rows of words (m, w). Codes must lie within their sizes."""
        columns = np.asarray(columns)
        if columns.ndim != 2 or columns.shape[1] != len(self.sizes):
            raise ParameterError("columns must have shape (rows, {d})", d=len(self.sizes))
        codes = np.empty((len(columns), len(self.words)), dtype=np.int64)
        for index, word in enumerate(self.words):
            packed = np.zeros(len(columns), dtype=np.int64)
            for position in word:
                packed *= self.sizes[position]
                packed += columns[:, position]
            codes[:, index] = packed
        return codes

    def decode(self, codes: Codes) -> Codes:
        """Turn rows of words (m, w) back into rows of attribute codes (m, d)."""
        codes = self._checked(codes)
        columns = np.empty((len(codes), len(self.sizes)), dtype=np.int64)
        for index, word in enumerate(self.words):
            rest = codes[:, index]
            for position in reversed(word):
                rest, columns[:, position] = np.divmod(rest, self.sizes[position])
        return columns

    def column(self, codes: Codes, position: int) -> Codes:
        """Read the codes of one attribute, without decoding the others.

        >>> Radix((2, 3)).column(np.array([[0], [2], [4]]), 1).tolist()
        [0, 2, 1]
        """
        codes = self._checked(codes)
        index = next(i for i, word in enumerate(self.words) if position in word)
        stride = math.prod(self.sizes[position + 1 : self.words[index].stop])
        return codes[:, index] // stride % self.sizes[position]

    def ranks(self, codes: Codes) -> list[int]:
        """Give each cell its rank in the whole domain, as exact Python integers.

        >>> Radix((10**18, 10**18)).ranks(np.array([[1, 5]]))
        [1000000000000000005]
        """
        rows: list[list[int]] = self._checked(codes).tolist()
        ranks = [0] * len(rows)
        for index, capacity in enumerate(self._capacities):
            ranks = [rank * capacity + row[index] for rank, row in zip(ranks, rows, strict=True)]
        return ranks

    def from_ranks(self, ranks: Sequence[int] | Iterable[int]) -> Codes:
        """Turn ranks back into rows of words (m, w)."""
        rest = [int(rank) for rank in ranks]
        if any(not 0 <= rank < self.cells for rank in rest):
            raise ParameterError("ranks must be between 0 and {top}", top=self.cells - 1)
        codes = np.empty((len(rest), len(self.words)), dtype=np.int64)
        for index, capacity in reversed(list(enumerate(self._capacities))):
            codes[:, index] = [rank % capacity for rank in rest]
            rest = [rank // capacity for rank in rest]
        return codes

    def _checked(self, codes: Codes) -> Codes:
        codes = np.asarray(codes, dtype=np.int64)
        if codes.ndim != 2 or codes.shape[1] != len(self.words):
            raise ParameterError("codes must have shape (cells, {w})", w=len(self.words))
        return codes
