"""What a page is made of, and the plain numbers of a comparison with the truth.

`Words` are a str, or a text that is rendered when the page is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sudare.schema.arrays import Codes, Integers, Reals
from sudare.schema.raw import write_size
from sudare.text import Words, text

MOST_BARS = 60  # values of an ordered attribute in a picture; beyond, neighbours are added up
MOST_NAMES = 30  # values of an unordered one; beyond, the smallest are added up


@dataclass(frozen=True, kw_only=True, slots=True)
class Picture:
    """A picture (SVG, or any safe HTML) with its title and a line of words; `is_wide` takes the whole width.

    It is drawn when the page is rendered, so that the words in it are those of whoever looks.
    """

    title: Words
    draw: Callable[[], str]
    words: Words = ""
    is_wide: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Listing:
    """A table to be read and copied; `is_folded` hides it behind its title until it is asked for."""

    title: Words
    head: tuple[Words, ...]
    rows: Sequence[tuple[Words, ...]]
    is_folded: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    """A heading, sentences, pictures and tables; `is_secret` marks what was computed from the true table."""

    title: Words
    words: tuple[Words, ...] = ()
    parts: tuple[Picture | Listing, ...] = ()
    is_secret: bool = False


@dataclass(frozen=True, kw_only=True, eq=False)
class Marginal:
    """Records by the values of one attribute: published, with an interval or the truth where these are known."""

    name: Words
    labels: tuple[Words, ...]
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
        return self._add_up(tuple(names), lambda counts: np.add.reduceat(counts, starts))

    def _by_size(self) -> Marginal:
        kept = np.sort(np.argsort(-self.published, kind="stable")[: MOST_NAMES - 1])
        rest = np.setdiff1d(np.arange(len(self.labels)), kept)
        names = (*(self.labels[at] for at in kept), text("{count} others", count=len(rest)))
        return self._add_up(names, lambda counts: np.append(counts[kept], counts[rest].sum()))

    def _add_up(self, labels: tuple[Words, ...], add: Any) -> Marginal:
        true = None if self.true is None else add(self.true)
        # intervals of sums are not the sums of intervals: none is shown
        return replace(self, labels=labels, published=add(self.published), true=true, low=None, high=None)


@dataclass(frozen=True, kw_only=True, eq=False)
class TruthComparison:
    """A comparison of a release with the true table, as plain numbers. Not for publication.

    `figures` are (words, number as text); `true` holds the true counts by the values of each attribute; `places` the
    codes and counts of the true map, if the table has a mesh. A method that compares more adds it in a subclass.
    """

    figures: tuple[tuple[Words, Words], ...] = ()
    true: Mapping[str, Reals] = field(default_factory=dict)
    places: tuple[Codes, Integers] | None = None


@dataclass(frozen=True, kw_only=True)
class ReportPage:
    """What a method says on the page of its release; promise, certificate and style are the same for all methods."""

    kind: Words
    facts: Sequence[tuple[Words, Words]] = ()
    sections: Iterable[Section] = ()
    warnings: Sequence[Words] = ()


LARGEST_WRITTEN = 10**15  # beyond it nobody reads digits


def write_number(value: float) -> str:
    """Write a number for people: whole ones with separators, others with what matters.

    >>> write_number(12345.0), write_number(0.123456), write_number(31.56)
    ('12,345', '0.1235', '31.6')
    >>> write_number(10**400), write_number(float("inf"))
    ('1.00 × 10^400', 'inf')
    """
    if LARGEST_WRITTEN <= abs(value) < math.inf:
        return write_size(int(value))
    if float(value).is_integer() or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.4g}"


def write_count(value: float) -> str:
    """Write an estimated count: tenths are enough from 1 on.

    >>> write_count(3.14159), write_count(0.0816)
    ('3.1', '0.0816')
    """
    return write_number(round(float(value), 1) if abs(value) >= 1 else float(value))
