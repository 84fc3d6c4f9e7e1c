"""What a question restricts: tests on declared attributes, joined by and, or, not, as disjoint boxes of values.

A bin that a test cuts is cut into pieces, and its records are taken as spread evenly over it. Missing values follow
SQL: a test on them is neither true nor false.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from sudare.errors import ParameterError
from sudare.schema import Attribute, DateBins, NumberBins, Schema
from sudare.schema.arrays import Booleans, Reals

NumberRange = tuple[Fraction | None, Fraction | None]  # [low, high); None has no end
MaskBox = dict[int, Booleans]

MOST_BOXES = 512


@dataclass(frozen=True, kw_only=True, slots=True)
class Test:
    """A test on one attribute: its value lies in an interval or is one of some codes; or it is missing."""

    attribute: int
    intervals: tuple[NumberRange, ...] = ()
    codes: frozenset[int] = frozenset()
    is_null: bool = False
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Every:
    """All of these."""

    terms: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Some:
    """At least one of these."""

    terms: tuple[Predicate, ...]


Predicate = Test | Every | Some


def negated(predicate: Predicate) -> Predicate:
    """The predicate that is true where this one is false (and neither where a missing value leaves it open)."""
    if isinstance(predicate, Test):
        return Test(
            attribute=predicate.attribute,
            intervals=predicate.intervals,
            codes=predicate.codes,
            is_null=predicate.is_null,
            negated=not predicate.negated,
        )
    terms = tuple(negated(term) for term in predicate.terms)
    return Some(terms) if isinstance(predicate, Every) else Every(terms)


@dataclass(frozen=True, slots=True, eq=False)
class BinPieces:
    """The values of an attribute, bins cut where tests cut them: code, share of the bin, middle (NaN: no number)."""

    codes: NDArray[np.int64]
    shares: Reals
    middles: Reals
    lows: tuple[Fraction, ...]  # of the pieces that are numbers or days; they come first and increase

    @property
    def counted(self) -> int:
        """How many pieces are numbers or days."""
        return len(self.lows)


def ends(attribute: Attribute) -> tuple[Fraction, ...] | None:
    """Where the bins of a number or date begin, and where the last one ends; days and whole numbers are counted."""
    domain = attribute.domain
    if isinstance(domain, DateBins):
        days = tuple(Fraction(edge.toordinal()) for edge in domain.edges)
        return (*days[:-1], days[-1] + 1)
    if not isinstance(domain, NumberBins):
        return None
    edges = domain.edges
    return (*edges[:-1], edges[-1] + 1) if domain.is_whole and domain.widest > 1 else edges


def is_whole(attribute: Attribute) -> bool:
    """Tell whether values are counted one by one: days, and numbers whose bins have whole edges."""
    domain = attribute.domain
    return isinstance(domain, DateBins) or (isinstance(domain, NumberBins) and domain.is_whole)


def whole_pieces(attribute: Attribute) -> BinPieces:
    """The bins of an attribute, none of them cut."""
    edges, size = ends(attribute) or (), attribute.size
    bins = list(pairwise(edges))
    none = size - len(bins)
    less = 1 if is_whole(attribute) else 0  # 20..24 are five whole numbers with the middle 22
    middles = [float(low + high - less) / 2 for low, high in bins]
    return BinPieces(np.arange(size), np.ones(size), np.array(middles + [np.nan] * none), edges[:-1])


def cut_pieces(attribute: Attribute, whole: BinPieces, cuts: Sequence[Fraction]) -> BinPieces:
    """Cut the bins of an attribute at the given values, which increase."""
    edges = ends(attribute) or ()
    inner_cuts: dict[int, list[Fraction]] = {}
    for cut in cuts:
        code = bisect_right(edges, cut) - 1
        if 0 <= code < len(edges) - 1 and edges[code] != cut:
            inner_cuts.setdefault(code, []).append(cut)
    for code in sorted(inner_cuts, reverse=True):
        whole = _split(whole, code, (edges[code], *inner_cuts[code], edges[code + 1]), 1 if is_whole(attribute) else 0)
    return whole


def _split(pieces: BinPieces, code: int, marks: Sequence[Fraction], less: int) -> BinPieces:
    """Put several pieces in the place of one bin; no bin before it has been cut yet."""
    parts = list(pairwise(marks))
    width = marks[-1] - marks[0]
    return BinPieces(
        np.concatenate([pieces.codes[:code], np.full(len(parts), code), pieces.codes[code + 1 :]]),
        np.concatenate([pieces.shares[:code], [float((b - a) / width) for a, b in parts], pieces.shares[code + 1 :]]),
        np.concatenate(
            [pieces.middles[:code], [float(a + b - less) / 2 for a, b in parts], pieces.middles[code + 1 :]]
        ),
        (*pieces.lows[:code], *marks[:-1], *pieces.lows[code + 1 :]),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """Disjoint boxes of pieces."""

    schema: Schema
    pieces: dict[int, BinPieces]
    boxes: tuple[MaskBox, ...]

    @classmethod
    def of(cls, schema: Schema, predicate: Predicate | None, *, known: dict[int, BinPieces] | None = None) -> Region:
        """Turn a predicate into disjoint boxes; `known` keeps uncut attributes from question to question."""
        known = {} if known is None else known
        tests = list(_tests(predicate)) if predicate is not None else []
        cuts: dict[int, set[Fraction]] = {}
        for test in tests:
            ends = {end for interval in test.intervals for end in interval if end is not None}
            cuts.setdefault(test.attribute, set()).update(ends)
        for place in cuts:
            if place not in known:
                known[place] = whole_pieces(schema.attributes[place])
        pieces = {
            place: cut_pieces(schema.attributes[place], known[place], sorted(marks)) for place, marks in cuts.items()
        }
        boxes = _boxes(predicate, schema, pieces) if predicate is not None else [{}]
        return cls(schema, pieces, tuple(boxes))

    def within(self, attribute: int, code: int) -> Region:
        """The part with one value of an attribute."""
        pieces = self._with(attribute)
        mask = pieces[attribute].codes == code
        boxes = [_both(box, {attribute: mask}) for box in self.boxes]
        return Region(self.schema, pieces, tuple(box for box in boxes if box is not None))

    def weights(self) -> list[dict[int, Reals]]:
        """For every box the weight of every value: 1, 0, or the share of a bin."""
        return [
            {attribute: self._weigh(attribute, mask.astype(np.float64)) for attribute, mask in box.items()}
            for box in self.boxes
        ]

    def numbers(self, attribute: int, *, shift: float = 0.0) -> list[dict[int, Reals]]:
        """The same, with an attribute's number (less `shift`) as its weight; nothing where it has none."""
        pieces = self._with(attribute)[attribute]
        amount = np.where(np.isnan(pieces.middles), 0.0, np.nan_to_num(pieces.middles) - shift)
        return [self._times(box, attribute, amount) for box in self.boxes]

    def present(self, attribute: int) -> list[dict[int, Reals]]:
        """The same, where an attribute has a value at all."""
        missing = self.schema.attributes[attribute].missing_code
        pieces = self._with(attribute)[attribute]
        return [self._times(box, attribute, (pieces.codes != missing) * 1.0) for box in self.boxes]

    def numbered(self, attribute: int) -> list[dict[int, Reals]]:
        """The same, where an attribute has a number."""
        pieces = self._with(attribute)[attribute]
        return [self._times(box, attribute, (~np.isnan(pieces.middles)) * 1.0) for box in self.boxes]

    def _times(self, box: MaskBox, attribute: int, amount: Reals) -> dict[int, Reals]:
        whole = {axis: self._weigh(axis, mask.astype(np.float64)) for axis, mask in box.items() if axis != attribute}
        mask = box.get(attribute)
        return {**whole, attribute: self._weigh(attribute, amount if mask is None else amount * mask)}

    def _weigh(self, attribute: int, amount: Reals) -> Reals:
        pieces, size = self._with(attribute)[attribute], self.schema.attributes[attribute].size
        return np.bincount(pieces.codes, weights=pieces.shares * amount, minlength=size).astype(np.float64)

    def _with(self, attribute: int) -> dict[int, BinPieces]:
        if attribute not in self.pieces:
            self.pieces[attribute] = whole_pieces(self.schema.attributes[attribute])
        return self.pieces


def _tests(predicate: Predicate) -> list[Test]:
    if isinstance(predicate, Test):
        return [predicate]
    return [test for term in predicate.terms for test in _tests(term)]


def _boxes(predicate: Predicate, schema: Schema, pieces: dict[int, BinPieces]) -> list[MaskBox]:
    if isinstance(predicate, Test):
        mask = _mask(predicate, schema.attributes[predicate.attribute], pieces[predicate.attribute])
        return [{predicate.attribute: mask}] if mask.any() else []
    parts = [_boxes(term, schema, pieces) for term in predicate.terms]
    boxes = parts[0]
    for part in parts[1:]:
        boxes = _meet(boxes, part) if isinstance(predicate, Every) else [*boxes, *_minus(part, boxes)]
        if len(boxes) > MOST_BOXES:
            raise ParameterError(
                "the condition splits into more than {most} boxes; ask several questions instead", most=MOST_BOXES
            )
    return boxes


def _mask(test: Test, attribute: Attribute, pieces: BinPieces) -> Booleans:
    missing = attribute.missing_code
    is_missing = pieces.codes == missing if missing is not None else np.zeros(pieces.codes.size, dtype=bool)
    if test.is_null:
        return ~is_missing if test.negated else is_missing
    inside = np.isin(pieces.codes, np.array(sorted(test.codes), dtype=np.int64))
    for low, high in test.intervals:
        inside[_from(pieces, low) : pieces.counted if high is None else _from(pieces, high)] = True
    is_inside: Booleans = (inside != test.negated) & ~is_missing
    return is_inside


def _from(pieces: BinPieces, number: Fraction | None) -> int:
    """The first piece that begins at a number or later: intervals begin and end where pieces do."""
    return 0 if number is None else bisect_left(pieces.lows, number)


def _both(first_box: MaskBox, second_box: MaskBox) -> MaskBox | None:
    box = dict(first_box)
    for attribute, mask in second_box.items():
        box[attribute] = box[attribute] & mask if attribute in box else mask
        if not box[attribute].any():
            return None
    return box


def _meet(first: Sequence[MaskBox], second: Sequence[MaskBox]) -> list[MaskBox]:
    both = (_both(first_box, second_box) for first_box in first for second_box in second)
    return [box for box in both if box is not None]


def _minus(boxes: Sequence[MaskBox], taken: Sequence[MaskBox]) -> list[MaskBox]:
    """What of some boxes no other box holds, again as disjoint boxes."""
    left = list(boxes)
    for hole in taken:
        left = [part for box in left for part in _outside(box, hole)]
    return left


def _outside(box: MaskBox, hole: MaskBox) -> list[MaskBox]:
    parts, rest = [], box
    for attribute, mask in hole.items():
        outside = _both(rest, {attribute: ~mask})
        if outside is not None:
            parts.append(outside)
        inside = _both(rest, {attribute: mask})
        if inside is None:
            return parts
        rest = inside
    return parts
