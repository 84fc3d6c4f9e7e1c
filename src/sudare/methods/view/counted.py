"""The boxes of questions to a view, counted in all versions, and their errors put together to moments."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sudare.asking.protocol import Moments, ShiftedSum
from sudare.methods.view.exam import widen_model
from sudare.methods.view.leaves import InsideError, judge_inside
from sudare.methods.view.prepared_axis import (
    MOST_ROW_CELLS,
    SLANT,
    AxisColumns,
    GivenWeights,
    PreparedAxis,
    PreparedWeights,
)
from sudare.methods.view.products import Message, weigh_all
from sudare.methods.view.repeated import AlikeBoxes, RepeatedBoxes
from sudare.schema.arrays import Reals

if TYPE_CHECKING:
    from sudare.methods.view.tables import AxisWeights, TableView

PreparedBox = Mapping[int, PreparedAxis]
BoxAnswers = tuple[Reals, list[dict[int, Reals]]]  # (versions, boxes); records of every bin of attributes uneven inside
BoxKey = frozenset[tuple[int, int]]  # attributes, and the identities of their weights
MOST_KEPT_BOXES = 2**12
ROUNDING = 1e-9  # of a sum: what floats may leave of numbers less their mean, which add up to 0


class KeptBox(NamedTuple):
    """A box that was counted, and what its attributes hide inside their leaves; sums that follow from it need it."""

    box: PreparedBox
    answers: Reals
    profiles: dict[int, Reals]
    judged: Mapping[int, InsideError]


class CountedBoxes(NamedTuple):
    """The counts of boxes of the same attributes in all versions, and what their errors are made of: variances.

    Numbers, or one number a box each. `restricted`: attributes of which some values weigh more than others. `chance`:
    what chance alone makes of attributes that were not measured together, of the model's part.
    """

    answers: Reals  # (versions, boxes)
    model: Any
    least: Any
    hidden: Any
    chance: Any
    inside: list[InsideError]
    restricted: list[tuple[int, ...]]
    noisy_cells: list[int]

    def split(self) -> list[CountedBoxes]:
        """Box by box, with plain numbers."""
        size = self.answers.shape[1]
        if size == 1:
            return [self]
        parts = [np.broadcast_to(part, size).tolist() for part in (self.model, self.least, self.hidden, self.chance)]
        return [
            self._replace(
                answers=self.answers[:, row : row + 1],
                model=parts[0][row],
                least=parts[1][row],
                hidden=parts[2][row],
                chance=parts[3][row],
                inside=[self.inside[row]],
                restricted=[self.restricted[row]],
                noisy_cells=[self.noisy_cells[row]],
            )
            for row in range(size)
        ]


NO_ERRORS = [InsideError(0.0, 0.0, 0.0)]
NO_BOX = CountedBoxes(np.zeros((1, 1)), 0.0, 0.0, 0.0, 0.0, NO_ERRORS, [()], [0])


class BoxCounter:
    """Counts the boxes of questions to a view, those of the same attributes together."""

    def __init__(self, view: TableView) -> None:
        self.view = view
        self.prepared = PreparedWeights(view, view.factors.versions)
        self.alike = AlikeBoxes(view.merged, view.first, view.records)
        self.repeated = RepeatedBoxes(view.merged)
        self.kept: dict[BoxKey, KeptBox] = {}

    def moments_of_all(self, questions: Sequence[Sequence[AxisWeights]]) -> list[Moments]:
        """Estimate sums over disjoint boxes: noise from the replicates, the model's part as if boxes erred alike."""
        boxes = [box for question in questions for box in question]
        prepared = self._prepare(boxes)
        if len(boxes) == len(questions) == 1:
            return [self._join_one(self._count_one(boxes[0], prepared[0]))]
        alike: dict[tuple[int, ...], list[int]] = {}
        for place, box in enumerate(prepared):
            alike.setdefault(tuple(sorted(box)), []).append(place)
        is_single = all(len(question) == 1 for question in questions)
        moments, counted = list[Moments | None]([None] * len(boxes)), [NO_BOX] * len(boxes)
        for axes in sorted(alike, key=len, reverse=True):  # the larger ones first: others may follow from their tables
            step = max(1, MOST_ROW_CELLS // max([self.view.axes[axis].size for axis in axes], default=1))
            for start in range(0, len(alike[axes]), step):
                own = alike[axes][start : start + step]
                rows = self._count([boxes[place] for place in own], [prepared[place] for place in own])
                if is_single:
                    self._put(moments, own, self._tell(rows))
                else:
                    self._put(counted, own, rows.split())
        if is_single:
            return [one for one in moments if one is not None]
        told = iter(counted)
        return [self._join([next(told) for _ in question]) for question in questions]

    @staticmethod
    def _put(found: list[Any], places: Sequence[int], values: Sequence[Any]) -> None:
        for place, value in zip(places, values, strict=True):
            found[place] = value

    def _prepare(self, boxes: Sequence[AxisWeights]) -> list[dict[int, PreparedAxis]]:
        prepared = self.prepared.prepare(boxes)
        if self.prepared.was_cleared or len(self.kept) + len(boxes) > MOST_KEPT_BOXES:
            self.kept.clear()
            self.prepared.was_cleared = False
        return prepared

    def _count(self, given: Sequence[Mapping[int, GivenWeights]], boxes: Sequence[PreparedBox]) -> CountedBoxes:
        """Count boxes of the same attributes, and tell what their errors are made of."""
        answers, profiles = self.alike.answer(boxes) or self._answer_boxes(boxes)
        judged = self._judge_inside(boxes, profiles)
        for row, box in enumerate(given):
            key = frozenset([(axis, id(weights)) for axis, weights in box.items()])
            self.kept[key] = KeptBox(boxes[row], answers[:, row], profiles[row], judged[row])
        columns: Mapping[int, Any] = boxes[0]  # plain numbers are quicker for a single box
        if len(boxes) > 1:
            columns = {axis: AxisColumns.of([box[axis] for box in boxes]) for axis in boxes[0]}
        is_count = [all(one.is_positive for one in box.values()) for box in boxes]
        rows = self._find_errors(columns, answers, _join_inside(judged, answers, is_count))
        graded = [sum([one.is_graded for one in box.values()]) for box in boxes]
        slants = [_find_slant(box) if number > 1 else 1.0 for box, number in zip(boxes, graded, strict=True)]
        is_single = len(boxes) == 1
        return rows._replace(
            model=rows.model * (slants[0] if is_single else np.array(slants)),
            chance=(0.0 if graded[0] else rows.chance)
            if is_single
            else np.where(np.array(graded) > 0, 0.0, rows.chance),
            restricted=[tuple([axis for axis, one in box.items() if one.is_restricting]) for box in boxes],
            noisy_cells=[sum([one.noisy_cells for one in box.values()]) for box in boxes],
        )

    def _count_one(self, given: Mapping[int, GivenWeights], box: PreparedBox) -> CountedBoxes:
        """What `_count` says of a single box: plain numbers are quicker."""
        answers, profiles = self.alike.answer([box]) or self._answer_boxes([box])
        is_even = all(one.is_even for one in box.values())
        judged = {} if is_even else self._judge_inside([box], profiles)[0]
        key = frozenset([(axis, id(weights)) for axis, weights in given.items()])
        self.kept[key] = KeptBox(box, answers[:, 0], profiles[0], judged)
        inside = NO_ERRORS
        if judged:
            inside = _join_inside([judged], answers, [all(one.is_positive for one in box.values())])
        found = self._find_errors(box, answers, inside)
        is_graded = any(one.is_graded for one in box.values())
        return CountedBoxes(
            answers,
            found.model * _find_slant(box) if is_graded else found.model,
            found.least,
            found.hidden,
            0.0 if is_graded else found.chance,
            inside,
            [tuple([axis for axis, one in box.items() if one.is_restricting])],
            [sum([one.noisy_cells for one in box.values()])],
        )

    def _find_errors(self, columns: Mapping[int, Any], answers: Reals, inside: list[InsideError]) -> CountedBoxes:
        """The variances that follow from the weights of every attribute."""
        view, held = self.view, answers[0] if len(inside) > 1 else float(answers[0, 0])
        doubt, chance = view.doubt({axis: one.doubted for axis, one in columns.items()})
        hidden = view.find_hidden(columns) if view.faint else 0.0
        return CountedBoxes(answers, view.factor * doubt, view.find_least_noise(columns, held), hidden, chance, inside,
                           [()] * len(inside), [0] * len(inside))  # fmt: skip

    # --- counts ---------------------------------------------------------------------------------------------------

    def _answer_boxes(self, boxes: Sequence[PreparedBox]) -> BoxAnswers:
        found = [self._answer_box(box) for box in boxes]
        answers = found[0][0][:, None] if len(found) == 1 else np.stack([own for own, _ in found], axis=1)
        return answers, [profiles for _, profiles in found]

    def _answer_box(self, box: PreparedBox) -> tuple[Reals, dict[int, Reals]]:
        """Count a box in every version; and the records of every bin of an attribute that is uneven inside its leaves.

        The bins of such an attribute are needed for the doubt inside its leaves, and the count is their weighted sum.
        """
        merged = self.view.merged
        evidence = {axis: one.evidence for axis, one in box.items()}
        known = self.alike.count(evidence)
        if known is not None:
            return known, {}
        uneven = [axis for axis, one in box.items() if not one.is_even]
        shared = self._find_shared(evidence, uneven)
        if not uneven:
            found = merged.answer(evidence) if shared is None else weigh_all(*shared, evidence)
            return self._add_records(found, evidence), {}
        first, profiles = uneven[0], dict[int, Reals]()
        for axis in uneven if shared is not None else uneven[:1]:
            others = {other: weights for other, weights in evidence.items() if other != axis}
            profiles[axis] = merged.profile(axis, others) if shared is None else weigh_all(*shared, others)
        answers = (profiles[first] * evidence[first]).sum(axis=1)
        return self._add_records(answers, evidence), {axis: lines[0] for axis, lines in profiles.items()}

    def _add_records(self, answers: Reals, evidence: Mapping[int, Reals]) -> Reals:
        return answers if self.view.records is None else answers + self.view.records.answer(evidence)

    def _find_shared(self, evidence: Mapping[int, Reals], uneven: Sequence[int]) -> Message | None:
        """A table that holds what the count of a box shares with others, if there is one."""
        if len(evidence) < 2:
            return None
        merged, attributes = self.view.merged, frozenset(evidence)
        if merged.has_joint(attributes) or len(attributes) == 2:
            return merged.keep_joint(attributes) or self.repeated.find(evidence, set(uneven))
        repeated = self.repeated.find(evidence, set(uneven))  # first: a GROUP BY asks often, and then never again
        return repeated or merged.keep_joint(attributes)

    # --- inside of leaves -----------------------------------------------------------------------------------------

    def _judge_inside(
        self, boxes: Sequence[PreparedBox], profiles: Sequence[dict[int, Reals]]
    ) -> list[dict[int, InsideError]]:
        """What follows from not knowing where in its leaf a record lies, attribute by attribute."""
        judged: list[dict[int, InsideError]] = [{} for _ in boxes]
        for axis in boxes[0]:
            places = [place for place, box in enumerate(boxes) if not box[axis].is_even]
            if places:
                lines = [self._find_profile(axis, boxes[place], profiles[place]) for place in places]
                found = self._judge_axis(axis, [boxes[place][axis] for place in places], lines)
                for place, error in zip(places, found, strict=True):
                    judged[place][axis] = error
        return judged

    def _judge_axis(self, axis: int, rows: Sequence[PreparedAxis], lines: Sequence[Reals]) -> list[InsideError]:
        view = self.view
        stacked = lines[0][None] if len(lines) == 1 else np.stack(lines)
        records = stacked[:, view.bins[axis]] * view.shares[axis][0]
        found = judge_inside([one.weights for one in rows], records, view.find_lumps(axis))
        return [InsideError(*parts) for parts in zip(*found, strict=True)]

    def _find_profile(self, axis: int, box: PreparedBox, profiles: dict[int, Reals]) -> Reals:
        if axis not in profiles:
            others = {other: two.evidence[:1] for other, two in box.items() if other != axis}
            profiles[axis] = self.view.first.profile(axis, others)[0]
        return profiles[axis]

    # --- sums that follow from others -----------------------------------------------------------------------------

    def moments_of_shifts(self, sums: Sequence[ShiftedSum]) -> list[Moments | None]:
        """Estimate sums times a factor, plus a number for every record, from sums and counts that were asked for.

        Answers are linear in weights, and variances follow from those of the sum: see `ShiftedAxis`. None where a box
        is not known any more, or another attribute of it is summed too.
        """
        moments = list[Moments | None]([None] * len(sums))
        alike: dict[tuple[int, ...], list[tuple[int, KeptBox, KeptBox]]] = {}
        for place, one in enumerate(sums):
            key = frozenset([(axis, id(weights)) for axis, weights in one.box.items()])
            summed = self.kept.get(key)
            counted = self.kept.get(key - {(one.attribute, id(one.box[one.attribute]))})
            if summed is not None and counted is not None and _can_shift(summed, counted, one.attribute):
                group = (one.attribute, id(summed.box[one.attribute]), *sorted(one.box))
                alike.setdefault(group, []).append((place, summed, counted))
        for (axis, _, *_), rows in alike.items():
            shifts = np.array([(sums[place].factor, sums[place].addend) for place, _, _ in rows]).T
            told = self._shift(axis, [(summed, counted) for _, summed, counted in rows], shifts)
            self._put(moments, [place for place, _, _ in rows], told)
        return moments

    def _shift(self, axis: int, rows: Sequence[tuple[KeptBox, KeptBox]], shifts: Reals) -> list[Moments]:
        """Sums of the same numbers, with a factor and a number each."""
        boxes, is_single = [summed.box for summed, _ in rows], len(rows) == 1
        known = self.prepared.find_shifted(axis, boxes[0][axis])
        factors, addends = (shifts[0, 0].item(), shifts[1, 0].item()) if is_single else shifts
        sums = shifts[0] * np.array([summed.answers for summed, _ in rows]).T
        added = shifts[1] * np.array([counted.answers for _, counted in rows]).T
        answers = sums + added
        columns: dict[int, Any] = dict(boxes[0])
        if not is_single:
            columns = {other: AxisColumns.of([box[other] for box in boxes]) for other in boxes[0]}
        columns[axis], least = known.shift(factors, addends)
        judged = self._judge_shifted(axis, rows, shifts)
        starts = [least] if is_single else least.tolist()
        is_positive = [all(one.is_positive for other, one in box.items() if other != axis) for box in boxes]
        is_some = np.abs(answers[0]) > ROUNDING * np.abs(sums[0])
        is_count = [start >= 0 and others and some
                    for start, others, some in zip(starts, is_positive, is_some.tolist(), strict=True)]  # fmt: skip
        found = self._find_errors(columns, answers, _join_inside(judged, answers, is_count))._replace(
            chance=0.0,
            restricted=[tuple([other for other, one in box.items() if one.is_restricting]) for box in boxes],
            noisy_cells=[sum([one.noisy_cells for one in box.values()]) for box in boxes],
        )
        return self._tell(found)

    def _judge_shifted(
        self, axis: int, rows: Sequence[tuple[KeptBox, KeptBox]], shifts: Reals
    ) -> list[dict[int, InsideError]]:
        """What leaves hide of shifted sums: those of the attribute as much, of others by what their records weigh."""
        judged: list[dict[int, InsideError]] = [{} for _ in rows]
        for place, (factor, (summed, _)) in enumerate(zip(shifts[0].tolist(), rows, strict=True)):
            if axis in summed.judged:
                variance, below, above = summed.judged[axis]
                judged[place][axis] = InsideError(factor**2 * variance, factor * below, factor * above)
        for other in rows[0][0].box:
            places = [place for place, (summed, _) in enumerate(rows) if not summed.box[other].is_even]
            if other == axis or not places:
                continue
            lines = [
                shifts[0, place] * self._find_profile(other, rows[place][0].box, rows[place][0].profiles)
                + shifts[1, place] * self._find_profile(other, rows[place][1].box, rows[place][1].profiles)
                for place in places
            ]
            found = self._judge_axis(other, [rows[place][0].box[other] for place in places], lines)
            for place, error in zip(places, found, strict=True):
                judged[place][other] = error
        return judged

    # --- moments --------------------------------------------------------------------------------------------------

    def _tell(self, rows: CountedBoxes) -> list[Moments]:
        """The moments of sums over one box each."""
        size, view = rows.answers.shape[1], self.view
        if size == 1:
            return [self._join_one(rows)]
        off = rows.answers[1:] - rows.answers[0]
        noise = (off * off).sum(axis=0) / len(off) if len(off) else np.zeros(size)
        noise = np.maximum(noise + rows.hidden, rows.least)
        scales = np.array([view.find_scale(restricted) for restricted in rows.restricted])
        model = np.broadcast_to(widen_model(noise, rows.model, scales, rows.chance), size)
        return [
            Moments(value=value, noise=own, model=doubt, inside=inside.variance,
                    replicates=view.count_degrees(cells), below=inside.below, above=inside.above)
            for value, own, doubt, inside, cells in zip(
                rows.answers[0].tolist(), noise.tolist(), model.tolist(), rows.inside, rows.noisy_cells, strict=True)
        ]  # fmt: skip

    def _join_one(self, box: CountedBoxes) -> Moments:
        """The moments of a sum over one box."""
        sums, inside = box.answers[:, 0], box.inside[0]
        off = sums[1:] - sums[0]
        noise = float(max((float(off @ off) / off.size if off.size else 0.0) + box.hidden, box.least))
        scale = self.view.find_scale(box.restricted[0])
        return Moments(
            value=float(sums[0]),
            noise=noise,
            model=widen_model(noise, float(box.model), scale, float(box.chance)),
            inside=inside.variance,
            replicates=self.view.count_degrees(box.noisy_cells[0]),
            below=inside.below,
            above=inside.above,
        )

    def _join(self, boxes: Sequence[CountedBoxes]) -> Moments:
        """The moments of a sum over disjoint boxes, one row each: the model errs in all of them alike."""
        if len(boxes) == 1:
            return self._join_one(boxes[0])
        sums = np.sum([box.answers[:, 0] for box in boxes], axis=0)
        off = sums[1:] - sums[0]
        noise = float(off @ off) / off.size if off.size else 0.0
        hidden, least = max([box.hidden for box in boxes]), max([box.least for box in boxes])
        noise = float(max(noise + hidden, least))
        model = sum([math.sqrt(box.model) for box in boxes]) ** 2
        restricted = tuple(sorted({axis for box in boxes for axis in box.restricted[0]}))
        scale = self.view.find_scale(restricted)
        insides = [box.inside[0] for box in boxes]
        return Moments(
            value=float(sums[0]),
            noise=noise,
            model=widen_model(noise, float(model), scale, float(sum([box.chance for box in boxes]))),
            inside=sum([inside.variance for inside in insides]),
            replicates=self.view.count_degrees(sum([box.noisy_cells[0] for box in boxes])),
            below=sum([inside.below for inside in insides]),
            above=sum([inside.above for inside in insides]),
        )


def _find_slant(box: PreparedBox) -> float:
    """How much more the model may err in a sum of products of numbers less their means, by which correlations go."""
    return SLANT if sum([one.is_graded and not one.is_positive for one in box.values()]) > 1 else 1.0


def _can_shift(summed: KeptBox, counted: KeptBox, axis: int) -> bool:
    """Tell whether one attribute alone is summed, and a count of the same records is known."""
    return summed.box[axis].is_graded and not any(one.is_graded for one in counted.box.values())


NOTHING_INSIDE = InsideError(0.0, 0.0, 0.0)


def _join_inside(
    judged: Sequence[Mapping[int, InsideError]], answers: Reals, is_count: Sequence[bool]
) -> list[InsideError]:
    """What all attributes of a box hide together."""
    return [
        InsideError.join(
            [one.variance for one in own.values()], [one[1:] for one in own.values()], value,
            is_count=len(own) > 1 and whole,
        ) if own else NOTHING_INSIDE
        for own, value, whole in zip(judged, answers[0].tolist(), is_count, strict=True)
    ]  # fmt: skip
