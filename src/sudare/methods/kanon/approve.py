"""A tailor-made request run on the table: the first option that keeps the promise is approved and published."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from sudare.counts.relabelling import SUPPRESSED, Recodable, Relabelling
from sudare.errors import Infeasible
from sudare.methods.kanon.criteria import Criterion
from sudare.methods.kanon.history import Measurement
from sudare.methods.kanon.recode import Pieces, RecodedTable, make_class_checker, number_classes
from sudare.methods.kanon.relabel import Outcome, check_promise, override_combinations
from sudare.methods.kanon.request import Grouping, Request, RequestOption
from sudare.schema.arrays import Booleans, Codes


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
                "none of the {count} options reaches k within the allowed suppression; ask for coarser groupings",
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
) -> Approval:
    """Measure the options in order and recode by the first whose classes satisfy the criteria.

    At most `max_suppressed` of the rows may be suppressed. `find_sensitive` names the sensitive attributes to count
    beside the quasi-identifiers of an option.
    """
    measurements: list[Measurement] = []
    for option in request.options:
        sensitive = find_sensitive(tuple(option))
        pieces = Pieces.of(source.count([*option, *sensitive]), tuple(option), sensitive)
        class_of = number_classes(
            np.column_stack([option[name].group_of[pieces.codes[:, axis]] for axis, name in enumerate(option)])
        )
        measurements.append(_measure(source.schema.fingerprint, option, pieces, class_of))
        outcome = _recode_if_feasible(option, pieces, class_of, criteria, max_suppressed)
        if outcome is not None:
            return Approval(measurements=tuple(measurements), outcome=outcome, option=option)
    return Approval(measurements=tuple(measurements))


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
) -> Outcome | None:
    check_classes = make_class_checker(criteria, pieces)
    is_kept = check_classes(pieces, class_of, int(class_of.max(initial=-1)) + 1)[class_of]
    max_suppressed_rows = int(max_suppressed * pieces.rows)
    if int(pieces.weights[~is_kept].sum()) > max_suppressed_rows or not is_kept.any():
        return None
    recoded = _recode_by_groupings(pieces, option, is_kept, class_of)
    check_promise(recoded, check_classes, max_suppressed_rows)
    return Outcome(recoded=recoded)


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
