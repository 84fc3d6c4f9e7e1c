"""What a question restricts: tests on declared attributes, joined by and, or, not, as disjoint boxes of values.

A bin that a test cuts is cut into pieces, and its records are taken as spread evenly over it. Missing values follow
SQL: a test on them is neither true nor false.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sudare.errors import ParameterError
from sudare.methods.view.leaves import LeafAxis, LeafWeights, WeightPiece
from sudare.schema import Attribute, DateBins, NumberBins, Schema
from sudare.schema.arrays import Booleans

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
    """The leaves of an attribute, cut where tests cut them: declared code, leaf, and where pieces begin and end."""

    codes: NDArray[np.int64]
    leaves: NDArray[np.int64]
    lows: tuple[Fraction, ...]  # of the pieces that are numbers or days; they come first and increase
    highs: tuple[Fraction, ...]

    @property
    def counted(self) -> int:
        """How many pieces are numbers or days."""
        return len(self.lows)


def is_whole(attribute: Attribute) -> bool:
    """Tell whether values are counted one by one: days, and numbers whose bins have whole edges."""
    domain = attribute.domain
    return isinstance(domain, DateBins) or (isinstance(domain, NumberBins) and domain.is_whole)


def whole_pieces(axis: LeafAxis) -> BinPieces:
    """The leaves of an attribute, none of them cut."""
    return BinPieces(axis.codes, np.arange(axis.size), axis.lows, axis.highs)


def cut_pieces(whole: BinPieces, cuts: Sequence[Fraction]) -> BinPieces:
    """Cut the leaves of an attribute at the given values, which increase."""
    inner_cuts: dict[int, list[Fraction]] = {}
    for cut in cuts:
        leaf = bisect_right(whole.lows, cut) - 1
        if leaf >= 0 and whole.lows[leaf] != cut and cut < whole.highs[leaf]:
            inner_cuts.setdefault(leaf, []).append(cut)
    for leaf in sorted(inner_cuts, reverse=True):
        whole = _split(whole, leaf, (whole.lows[leaf], *inner_cuts[leaf], whole.highs[leaf]))
    return whole


def _split(pieces: BinPieces, leaf: int, marks: Sequence[Fraction]) -> BinPieces:
    """Put several pieces in the place of one leaf; no leaf before it has been cut yet."""
    parts = len(marks) - 1
    code, own = pieces.codes[leaf], pieces.leaves[leaf]
    return BinPieces(
        np.concatenate([pieces.codes[:leaf], np.full(parts, code), pieces.codes[leaf + 1 :]]),
        np.concatenate([pieces.leaves[:leaf], np.full(parts, own), pieces.leaves[leaf + 1 :]]),
        (*pieces.lows[:leaf], *marks[:-1], *pieces.lows[leaf + 1 :]),
        (*pieces.highs[:leaf], *marks[1:], *pieces.highs[leaf + 1 :]),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """Disjoint boxes of pieces."""

    schema: Schema
    axes: Sequence[LeafAxis]
    pieces: dict[int, BinPieces]
    boxes: tuple[MaskBox, ...]

    @classmethod
    def of(
        cls,
        schema: Schema,
        axes: Sequence[LeafAxis],
        predicate: Predicate | None,
        *,
        known: dict[int, BinPieces] | None = None,
    ) -> Region:
        """Turn a predicate into disjoint boxes; `known` keeps uncut attributes from question to question."""
        known = {} if known is None else known
        tests = list(_tests(predicate)) if predicate is not None else []
        cuts: dict[int, set[Fraction]] = {}
        for test in tests:
            ends = {end for interval in test.intervals for end in interval if end is not None}
            cuts.setdefault(test.attribute, set()).update(ends)
        for place in cuts:
            if place not in known:
                known[place] = whole_pieces(axes[place])
        pieces = {place: cut_pieces(known[place], sorted(marks)) for place, marks in cuts.items()}
        boxes = _boxes(predicate, schema, pieces) if predicate is not None else [{}]
        return cls(schema, axes, pieces, tuple(boxes))

    def within(self, attribute: int, code: int) -> Region:
        """The part with one value of an attribute."""
        pieces = self._with(attribute)
        mask = pieces[attribute].codes == code
        boxes = [_both(box, {attribute: mask}) for box in self.boxes]
        return Region(self.schema, self.axes, pieces, tuple(box for box in boxes if box is not None))

    def weights(self) -> list[dict[int, LeafWeights]]:
        """For every box the weights of the leaves: 1, 0, or the share of a leaf that is cut."""
        return [{attribute: self._weigh(attribute, mask) for attribute, mask in box.items()} for box in self.boxes]

    def numbers(self, attribute: int, *, shift: float = 0.0) -> list[dict[int, LeafWeights]]:
        """The same, with an attribute's number (less `shift`) as its weight; nothing where it has none."""
        return [self._times(box, attribute, (-shift, 1.0, 0.0)) for box in self.boxes]

    def present(self, attribute: int) -> list[dict[int, LeafWeights]]:
        """The same, where an attribute has a value at all."""
        missing = self.schema.attributes[attribute].missing_code
        has_value = self._with(attribute)[attribute].codes != missing
        boxes = [_both(box, {attribute: has_value}) for box in self.boxes]
        return [{axis: self._weigh(axis, mask) for axis, mask in box.items()} for box in boxes if box is not None]

    def numbered(self, attribute: int) -> list[dict[int, LeafWeights]]:
        """The same, where an attribute has a number."""
        return [self._times(box, attribute, (1.0, 0.0, 0.0)) for box in self.boxes]

    def _times(self, box: MaskBox, attribute: int, amount: tuple[float, float, float]) -> dict[int, LeafWeights]:
        whole = {axis: self._weigh(axis, mask) for axis, mask in box.items() if axis != attribute}
        pieces = self._with(attribute)[attribute]
        mask = box.get(attribute, np.ones(pieces.codes.size, dtype=bool))
        return {**whole, attribute: self.axes[attribute].weigh(_runs(pieces, mask, amount))}

    def _weigh(self, attribute: int, mask: Booleans) -> LeafWeights:
        """Weigh the pieces of a mask by 1; the leaves that it cuts by the share it takes."""
        pieces, axis = self._with(attribute)[attribute], self.axes[attribute]
        if pieces.codes.size == axis.size:
            return LeafWeights.plain(mask.astype(np.float64))
        counted = axis.weigh(_runs(pieces, mask, (1.0, 0.0, 0.0)))
        rest = np.zeros(axis.size)
        rest[axis.counted :] = mask[pieces.counted :]
        return LeafWeights(counted.mean + rest, counted.inside, counted.drift)

    def _with(self, attribute: int) -> dict[int, BinPieces]:
        if attribute not in self.pieces:
            self.pieces[attribute] = whole_pieces(self.axes[attribute])
        return self.pieces


def _runs(pieces: BinPieces, mask: Booleans, amount: tuple[float, float, float]) -> list[WeightPiece]:
    """The intervals that a mask is made of, neighbours joined."""
    inside = np.concatenate([[False], mask[: pieces.counted], [False]])
    changes = np.flatnonzero(inside[1:] != inside[:-1])
    return [
        (pieces.lows[start], pieces.highs[stop - 1], *amount)
        for start, stop in zip(changes[::2].tolist(), changes[1::2].tolist(), strict=True)
    ]


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
