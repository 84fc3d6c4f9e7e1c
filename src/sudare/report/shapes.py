"""What a page is made of, and the plain numbers it is told about the truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sudare.schema.arrays import Reals
from sudare.text import say

MOST_BARS = 60  # of an ordered attribute; neighbours are added up beyond that
MOST_NAMES = 30  # of an unordered one; the smallest are added up beyond that


@dataclass(frozen=True, kw_only=True, slots=True)
class Picture:
    """A drawing (SVG, or any safe HTML) with its title and a line of words; `is_wide` takes the whole width."""

    title: str
    drawing: str
    words: str = ""
    is_wide: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Listing:
    """A table to be read and copied; `is_folded` hides it behind its title until it is asked for."""

    title: str
    head: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    is_folded: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    """A heading, sentences, pictures and tables; `is_secret` marks what was computed from the true table."""

    title: str
    words: tuple[str, ...] = ()
    parts: tuple[Picture | Listing, ...] = ()
    is_secret: bool = False


@dataclass(frozen=True, kw_only=True, eq=False)
class Marginal:
    """Records by the values of one attribute: published, with an interval or the truth where these are known."""

    name: str
    labels: tuple[str, ...]
    published: Reals
    low: Reals | None = None
    high: Reals | None = None
    true: Reals | None = None
    is_ordered: bool = False

    def folded(self) -> Marginal:
        """Add values up until they fit a picture: neighbours of an ordered attribute, else the smallest ones.

        >>> many = Marginal(name="age", labels=tuple("abcdefgh" * 10), published=np.ones(80), is_ordered=True)
        >>> len(many.folded().labels), float(many.folded().published[0])
        (40, 2.0)
        """
        if len(self.labels) <= (MOST_BARS if self.is_ordered else MOST_NAMES):
            return self
        return self._by_neighbours() if self.is_ordered else self._by_size()

    def _by_neighbours(self) -> Marginal:
        step = -(-len(self.labels) // MOST_BARS)
        starts = np.arange(0, len(self.labels), step)
        ends = np.minimum(starts + step, len(self.labels)) - 1
        pairs = [(self.labels[first], self.labels[last]) for first, last in zip(starts, ends, strict=True)]
        names = [first if first == last else f"{first} … {last}" for first, last in pairs]
        return self._summed(tuple(names), lambda one: np.add.reduceat(one, starts))

    def _by_size(self) -> Marginal:
        kept = np.sort(np.argsort(-self.published, kind="stable")[: MOST_NAMES - 1])
        rest = np.setdiff1d(np.arange(len(self.labels)), kept)
        names = (*(self.labels[at] for at in kept), say("{count} others", count=len(rest)))
        return self._summed(names, lambda one: np.append(one[kept], one[rest].sum()))

    def _summed(self, labels: tuple[str, ...], add: Any) -> Marginal:
        true = None if self.true is None else add(self.true)
        # intervals of sums are not the sums of intervals: none is shown
        return replace(self, labels=labels, published=add(self.published), true=true, low=None, high=None)


@dataclass(frozen=True, kw_only=True, eq=False)
class TruthComparison:
    """A comparison with the true table as plain numbers, made by the steward's room. Not for publication.

    `figures` are (words, number); `true` holds the true one-way marginals by attribute; `blocks` the error of sums
    over so many cells; `places` the codes and counts of a true map; `classes` the risk before and after; `lattice` the
    nodes with their k.
    """

    figures: tuple[tuple[str, str], ...] = ()
    true: Mapping[str, Reals] = field(default_factory=dict)
    blocks: Mapping[int, float] = field(default_factory=dict)
    places: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None
    classes: Mapping[str, Any] | None = None
    lattice: Mapping[str, Any] | None = None


def number(value: float) -> str:
    """Write a number for people: whole ones with separators, others with what matters.

    >>> number(12345.0), number(0.123456), number(31.56)
    ('12,345', '0.1235', '31.6')
    """
    if float(value).is_integer() or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.4g}"


def count(value: float) -> str:
    """Write an estimated count: tenths are enough from 1 on.

    >>> count(3.14159), count(0.0816)
    ('3.1', '0.0816')
    """
    return number(round(float(value), 1) if abs(value) >= 1 else float(value))
