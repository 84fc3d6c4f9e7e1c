"""Who can be asked: anything that estimates weighted counts of records and knows how far they may be off.

A statement of SQL becomes sums over the records, each record weighted by a product of weights of its attributes. What
answers such sums (a view, a table of counts) needs to know nothing about SQL.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist
from typing import NamedTuple, Protocol, cast

import numpy as np

from sudare.schema import Attribute, DateBins, NumberBins, Schema
from sudare.schema.arrays import Codes, Reals
from sudare.schema.raw import list_some
from sudare.text import Text, text

MOST_OF_NOISE = 1e9  # a variance over that of the noise: beyond, degrees of freedom change no digit


@dataclass(frozen=True, slots=True, eq=False)
class AttributeCells:
    """The finest parts of an attribute that counts are known for, in order; other and missing values come last.

    `edges` are those of the cells that hold numbers or days, [edges[i], edges[i + 1]), and there are none for labels.
    Values are multiples of `step`, or lie anywhere if it is None. A step that is only supposed (all edges are whole
    numbers) holds for questions whose numbers are its multiples. `codes` are the values of the schema: several cells
    may be parts of one bin.
    """

    codes: Codes
    edges: tuple[Fraction, ...] = ()
    step: Fraction | None = None
    is_supposed: bool = False

    @property
    def counted(self) -> int:
        """How many cells hold numbers or days."""
        return max(0, len(self.edges) - 1)


@dataclass(frozen=True, slots=True, eq=False)
class AxisWeight:
    """The weight of every cell of an attribute: its mean over the values of the cell, and the mean of its square.

    `square - mean**2` is what a record's weight varies by inside the cell: 0 where the whole cell is counted, f(1 - f)
    where a share f of its values is, (w^2 - step^2)/12 where the number itself is added. `low` and `high`: between what
    weights it lies there; None where nobody asks.
    """

    mean: Reals
    square: Reals
    low: Reals | None = None
    high: Reals | None = None

    @property
    def variance(self) -> Reals:
        """How much the weight varies inside every cell."""
        spread: Reals = np.maximum(self.square - self.mean**2, 0.0)
        return spread

    @classmethod
    def exactly(cls, weights: Reals) -> AxisWeight:
        """Every value of a cell weighs the same."""
        return cls(weights, weights**2, weights, weights)


WeightBox = Mapping[int, AxisWeight]  # attribute -> weights; attributes that are not named weigh 1


class ShiftedSum(NamedTuple):
    """A sum over the records of a box times a factor above 0, plus a number for every record of it.

    `attribute` is the one whose numbers are added up: the box without it is that of the records. A mean is judged by
    such sums: by numbers less that mean.
    """

    box: WeightBox
    attribute: int
    factor: float
    addend: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Moments:
    """An estimated sum over the records, and the variances of its three errors: noise, model, inside of cells.

    `replicates`: how many draws of a normal law the variance of the noise comes from; None if it is known. `below` and
    `above`: how far from the value what lies inside cells can lead at most, all of it being on one side. `published` is
    the figure that stands beside it in the files, biased and the better guess; None where there is none.
    """

    value: float
    noise: float
    model: float
    inside: float = 0.0
    replicates: float | None = None
    below: float = math.inf
    above: float = math.inf
    published: float | None = None

    @property
    def variance(self) -> float:
        """All three together."""
        return self.noise + self.model + self.inside

    def scaled(self, value: float, by: float) -> Moments:
        """The same errors, divided by a number that is known."""
        square = by * by
        return Moments(
            value=value,
            noise=self.noise / square,
            model=self.model / square,
            inside=self.inside / square,
            replicates=self.replicates,
            below=self.below / abs(by),
            above=self.above / abs(by),
        )

    def times(self, factor: float) -> Moments:
        """The same sum, multiplied by a number that is known."""
        square, ends = factor * factor, (self.below * abs(factor), self.above * abs(factor))
        return Moments(
            value=self.value * factor,
            noise=self.noise * square,
            model=self.model * square,
            inside=self.inside * square,
            replicates=self.replicates,
            below=ends[factor < 0],
            above=ends[factor >= 0],
        )

    def reaches(self, level: float) -> tuple[float, float]:
        """How far the interval goes down and up: inside of cells no farther than can be, and then noise and model.

        >>> down, up = Moments(value=10.0, noise=1.0, model=0.0, inside=25.0, below=2.0).reaches(0.95)
        >>> round(down, 3), round(up, 3)
        (3.96, 9.994)
        """
        reach = self.reach(level)
        if self.inside <= 0 or (self.below == math.inf and self.above == math.inf):
            return reach, reach
        plain = self._reach(self.noise + self.model, level)
        return min(reach, self.below + plain), min(reach, self.above + plain)

    def reach(self, level: float) -> float:
        """Half the interval: Student's t, since the variance of the noise comes from replicates.

        Degrees of freedom by Welch and Satterthwaite; the quantile by Cornish and Fisher, good to 1 % from 4 on.
        """
        return self._reach(self.variance, level)

    def _reach(self, total: float, level: float) -> float:
        quantile = _normal_quantile(level)
        if self.replicates and self.noise > 0:
            degrees = self.replicates * min(total / self.noise, MOST_OF_NOISE) ** 2
            normal = quantile
            quantile += (normal**3 + normal) / (4 * degrees)
            quantile += (5 * normal**5 + 16 * normal**3 + 3 * normal) / (96 * degrees**2)
        return quantile * math.sqrt(total)


@lru_cache(maxsize=32)
def _normal_quantile(level: float) -> float:
    return NormalDist().inv_cdf((1 + level) / 2)


class Answerer(Protocol):
    """What a statement can be asked of."""

    @property
    def schema(self) -> Schema:
        """The attributes it can be asked about."""

    def cells(self, attribute: int) -> AttributeCells:
        """The finest parts of an attribute that it knows."""

    def moments(self, boxes: Sequence[WeightBox]) -> Moments:
        """Estimate the sum of the weights of all records; a record lies in one box at most."""


class ManyAnswerer(Protocol):
    """An answerer that estimates many sums at once more quickly than one by one."""

    def moments_of_all(self, questions: Sequence[Sequence[WeightBox]]) -> list[Moments]:
        """Estimate sums, each over disjoint boxes."""


def estimate_all(answerer: Answerer, questions: Sequence[Sequence[WeightBox]]) -> list[Moments]:
    """Estimate several sums, together where the answerer can."""
    if len(questions) < 2 or not _is_quick_together(type(answerer)):
        return [answerer.moments(boxes) for boxes in questions]
    return cast(ManyAnswerer, answerer).moments_of_all(questions)


class ShiftAnswerer(Protocol):
    """An answerer that estimates numbers less their mean from what it said of sums and counts just before."""

    def moments_of_shifts(self, sums: Sequence[ShiftedSum]) -> list[Moments | None]:
        """Estimate such sums; None where it is to be asked for as any other sum."""


def estimate_shifts(answerer: Answerer, sums: Sequence[ShiftedSum]) -> list[Moments | None]:
    """Estimate numbers times factors plus numbers, where the answerer can follow them from others."""
    return cast(ShiftAnswerer, answerer).moments_of_shifts(sums)


@lru_cache(maxsize=32)
def can_shift(kind: type) -> bool:
    """Tell whether answerers of a kind estimate shifted sums."""
    return hasattr(kind, "moments_of_shifts")


@lru_cache(maxsize=32)
def _is_quick_together(kind: type) -> bool:
    return hasattr(kind, "moments_of_all")


class Independent(Protocol):
    """An answerer that knows of some attributes only one by one, and supposes them to be independent."""

    def find_independent(self, attributes: frozenset[int]) -> Sequence[tuple[int, int]]:
        """The pairs of these attributes that are supposed to be independent of each other."""


@lru_cache(maxsize=32)
def _is_independent(kind: type) -> bool:
    return hasattr(kind, "find_independent")


def has_model(answerer: Answerer) -> bool:
    """Tell whether a model stands behind the numbers, or noisy sums alone."""
    return _is_independent(type(answerer))


def find_public_total(answerer: Answerer) -> float:
    """How many records there are, where everybody knows it; else infinity."""
    total = getattr(answerer, "public_total", None)
    return math.inf if total is None else float(total)


def note_independence(answerer: Answerer, asked: Iterable[frozenset[int]]) -> Text | None:
    """Say which attributes of some questions are supposed to be independent; None if none are."""
    if not _is_independent(type(answerer)):
        return None
    knowing = cast(Independent, answerer)
    pairs = sorted({pair for attributes in asked if len(attributes) > 1
                    for pair in knowing.find_independent(attributes)})  # fmt: skip
    if not pairs:
        return None
    names = answerer.schema.names
    return text(
        "no measured table links {pairs}: what is said about them together rests on the supposition that they are"
        " independent of each other",
        pairs=list_some([f"{names[first]} × {names[second]}" for first, second in pairs], 5),
    )


def note_caps(asked: Mapping[str, Answerer]) -> list[Text]:
    """Say that rows beyond the cap of a person are in no figure; by name where releases have different caps."""
    caps = {name: answerer.schema.unit.describe_cap() for name, answerer in asked.items()}
    notes = list(dict.fromkeys(caps.values()))
    if len(notes) < 2:
        return [note for note in notes if note is not None]
    return [text("{name}: {note}", name=name, note=note) for name, note in caps.items() if note is not None]


def find_step(attribute: Attribute) -> Fraction | None:
    """What numbers or days are multiples of: the declared grain, or 1 where all edges are whole numbers."""
    domain = attribute.domain
    if isinstance(domain, DateBins):
        return Fraction(1)
    if not isinstance(domain, NumberBins):
        return None
    if attribute.grain is not None:
        return attribute.grain or None
    return Fraction(1) if domain.is_whole else None


def find_edges(attribute: Attribute) -> tuple[Fraction, ...]:
    """Where the bins of a number or date begin, and where the last one ends, its last value included."""
    domain, step = attribute.domain, find_step(attribute)
    if isinstance(domain, DateBins):
        days = tuple(Fraction(edge.toordinal()) for edge in domain.edges)
        return (*days[:-1], days[-1] + 1)
    if not isinstance(domain, NumberBins):
        return ()
    edges = domain.edges
    return edges if step is None or domain.widest <= step else (*edges[:-1], edges[-1] + step)


def bins_as_cells(attribute: Attribute) -> AttributeCells:
    """The values of the schema, none of them divided.

    >>> bins_as_cells(Attribute(name="age", domain=NumberBins.of_width(0, 10, 5))).edges[-1]
    Fraction(11, 1)
    """
    codes = np.arange(attribute.size, dtype=np.int64)
    return AttributeCells(codes, find_edges(attribute), find_step(attribute))
