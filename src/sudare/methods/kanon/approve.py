"""A tailor-made request run on the table: the first option that keeps the promise is approved and published."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from sudare.counts import Counts
from sudare.counts.relabelling import ROWS_OF_PERSON, SUPPRESSED, Recodable, Relabelling
from sudare.errors import Infeasible, ParameterError
from sudare.methods.kanon.criteria import Criterion, Presence, check_register
from sudare.methods.kanon.history import Measurement
from sudare.methods.kanon.kanonymity_parameters import needs_persons
from sudare.methods.kanon.recode import Pieces, RecodedTable, make_class_checker, number_classes
from sudare.methods.kanon.relabel import Outcome, check_promise, override_combinations
from sudare.methods.kanon.request import Grouping, Request, RequestOption
from sudare.schema.arrays import Booleans, Codes, Reals


@dataclass(frozen=True, kw_only=True, eq=False)
class Approval:
    """What was measured, and the first option that keeps the promise, if one does. For the steward."""

    measurements: tuple[Measurement, ...]
    outcome: Outcome | None = None
    option: RequestOption | None = None

    @property
    def number(self) -> int:
        """Number the last option that was tried, from 0."""
        return len(self.measurements) - 1

    def require_approved(self) -> tuple[RequestOption, Outcome]:
        """Give the option and its outcome; Infeasible if no option keeps the promise."""
        if self.option is None or self.outcome is None:
            raise Infeasible(
                "none of the {count} options keeps k and the criteria within the allowed suppression; ask for coarser"
                " groupings",
                count=len(self.measurements),
            )
        return self.option, self.outcome


def approve(
    source: Recodable,
    request: Request,
    *,
    criteria: tuple[Criterion, ...],
    max_suppressed: Fraction,
    find_sensitive: Callable[[tuple[str, ...]], tuple[str, ...]],
    register: Counts | None = None,
) -> Approval:
    """Measure the options in order and recode by the first whose classes satisfy the criteria.

    At most `max_suppressed` of the rows may be suppressed. `find_sensitive` names the sensitive attributes to count
    beside the quasi-identifiers of an option; `register`, for presence, counts the population.
    """
    measurements: list[Measurement] = []
    for option in request.options:
        pieces = count_pieces(source, option, find_sensitive(tuple(option)), criteria)
        class_of = number_classes(find_groups(option, pieces.codes))
        measurements.append(_measure(source.schema.fingerprint, option, pieces, class_of))
        outcome = _recode_if_feasible(option, pieces, class_of, criteria, max_suppressed, register)
        if outcome is not None:
            return Approval(measurements=tuple(measurements), outcome=outcome, option=option)
    return Approval(measurements=tuple(measurements))


def count_pieces(
    source: Recodable, quasi: Iterable[str], sensitive: tuple[str, ...], criteria: tuple[Criterion, ...]
) -> Pieces:
    """Count what a request needs, with how many rows each person has where a criterion weighs by persons."""
    names = (*quasi, *sensitive)
    if not needs_persons(criteria, source.schema.unit):
        return Pieces.of(source.count(names), tuple(quasi), sensitive)
    return Pieces.of(source.count_with_persons(names), tuple(quasi), (*sensitive, ROWS_OF_PERSON))


def find_groups(option: RequestOption, codes: Codes) -> Codes:
    """Find the group of every code (m, attributes of the option first)."""
    groups = [grouping.group_of[codes[:, axis]] for axis, grouping in enumerate(option.values())]
    return np.column_stack(groups) if groups else np.zeros((len(codes), 1), dtype=np.int64)


def _measure(fingerprint: str, option: RequestOption, pieces: Pieces, class_of: Codes) -> Measurement:
    sizes = np.bincount(class_of, weights=pieces.weights).astype(np.int64)
    return Measurement(
        schema=fingerprint,
        groupings={name: grouping.to_value() for name, grouping in option.items()},
        cells=math.prod(grouping.size for grouping in option.values()),
        k=int(sizes.min(initial=pieces.rows)),
        rows=pieces.rows,
    )


def _recode_if_feasible(
    option: RequestOption,
    pieces: Pieces,
    class_of: Codes,
    criteria: tuple[Criterion, ...],
    max_suppressed: Fraction,
    register: Counts | None,
) -> Outcome | None:
    presences = tuple(criterion for criterion in criteria if isinstance(criterion, Presence))
    others = tuple(criterion for criterion in criteria if not isinstance(criterion, Presence))
    check_classes = make_class_checker(others, pieces)
    is_kept = check_classes(pieces, class_of, int(class_of.max(initial=-1)) + 1)[class_of]
    if presences and not _keep_present(presences, register, option, pieces, is_kept):
        return None
    max_suppressed_rows = int(max_suppressed * pieces.rows)
    if int(pieces.weights[~is_kept].sum()) > max_suppressed_rows or not is_kept.any():
        return None
    recoded = _recode_by_groupings(pieces, option, is_kept, class_of)
    check_promise(recoded, check_classes, max_suppressed_rows)
    return Outcome(recoded=replace(recoded, pieces=pieces.forget(ROWS_OF_PERSON)))


def _keep_present(
    presences: tuple[Presence, ...],
    register: Counts | None,
    option: RequestOption,
    pieces: Pieces,
    is_kept: Booleans,
) -> bool:
    """Leave out classes whose share of the register is not allowed (in `is_kept`); tell whether that can be enough.

    A class without rows, or whose rows are left out, has a share of 0: if `low` is above, nothing may be left out.
    """
    if register is None:
        raise ParameterError("delta-presence needs a register of the population (`--register FILE`)")
    population = register.project(list(option))
    count = len(pieces.weights)
    both = np.concatenate([pieces.codes[:, : pieces.quasi], population.columns()])
    check_register(*_count_both(number_classes(both), pieces, population))  # as for any publication
    class_of = number_classes(find_groups(option, both))
    rows, people = _count_both(class_of, pieces, population)
    share = rows / np.maximum(people, 1)
    allowed = np.ones(len(share), dtype=bool)
    for presence in presences:
        allowed &= (share >= presence.low) & (share <= presence.high)
    is_kept &= allowed[class_of[:count]]
    return all(presence.is_suppressible for presence in presences) or bool(allowed.all() and is_kept.all())


def _count_both(numbers: Codes, pieces: Pieces, population: Counts) -> tuple[Reals, Reals]:
    """Count the rows and the people of every number: `numbers` of the pieces first, then of the population."""
    count, size = len(pieces.weights), int(numbers.max(initial=-1)) + 1
    rows = np.bincount(numbers[:count], weights=pieces.weights, minlength=size).astype(np.float64)
    people = np.bincount(numbers[count:], weights=population.values, minlength=size).astype(np.float64)
    return rows, people


def _recode_by_groupings(pieces: Pieces, option: RequestOption, is_kept: Booleans, class_of: Codes) -> RecodedTable:
    """Recode every value by the grouping that was requested; the attributes of the pieces are those of the option."""
    groupings = [option[name] for name in pieces.names[: pieces.quasi]]
    group_sizes = [np.bincount(grouping.group_of, minlength=grouping.size)[grouping.group_of] for grouping in groupings]
    suppressed = np.full(len(class_of), SUPPRESSED, dtype=np.int64)
    published = suppressed.copy()
    published[is_kept] = number_classes(class_of[is_kept, None])  # without gaps, wherever the suppressed classes stood
    return RecodedTable(
        pieces=pieces,
        class_of=published,
        label_sizes=np.column_stack([sizes[pieces.codes[:, axis]] for axis, sizes in enumerate(group_sizes)]),
        relabelling=Relabelling(
            labels={name: grouping.labels for name, grouping in zip(pieces.names, groupings, strict=False)},
            overrides=None if is_kept.all() else override_combinations(pieces, ~is_kept, suppressed, {}),
        ),
        mapping={
            "recoding": "request",
            "asked": {name: grouping.to_value() for name, grouping in option.items()},
            "attributes": {name: _to_mapping(grouping) for name, grouping in option.items()},
        },
    )


def _to_mapping(grouping: Grouping) -> dict[str, Any]:
    if grouping.groups is None:
        return {"level": grouping.level}
    firsts = np.array([members[0] for members in grouping.groups], dtype=np.int64)
    return {"groups": [{"label": label} for label in grouping.labels(firsts).tolist()]}
