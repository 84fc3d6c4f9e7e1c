"""A tailor-made request run on the table: the first wish that keeps the promise is published."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sudare.counts.relabelling import Recodable
from sudare.errors import Infeasible, ParameterError
from sudare.methods.kanon.criteria import MinimumSize, read_criteria
from sudare.methods.kanon.history import Measurement
from sudare.methods.kanon.kanonymity import KAnonymity
from sudare.methods.kanon.publish import Outcome, by_groupings, check_promise
from sudare.methods.kanon.recode import Pieces, class_numbers, holder
from sudare.methods.kanon.request import Request, Wish


@dataclass(frozen=True, kw_only=True, eq=False)
class Granted:
    """What was measured, and the first wish that keeps the promise, if one does. For the steward."""

    points: tuple[Measurement, ...]
    outcome: Outcome | None = None
    wish: Wish | None = None

    @property
    def number(self) -> int:
        """Number the last wish that was tried, from 0."""
        return len(self.points) - 1

    def granted(self) -> tuple[Wish, Outcome]:
        """Give the wish and its outcome; Infeasible if no wish keeps the promise."""
        if self.wish is None or self.outcome is None:
            raise Infeasible(
                "none of the {count} wishes keeps k with the suppression that is allowed; ask for coarser groupings",
                count=len(self.points),
            )
        return self.wish, self.outcome


def grant(method: KAnonymity, source: Recodable, request: Request) -> Granted:
    """Measure the wishes in order and recode by the first that keeps the promise of the method at the request's k.

    Error: ParameterError if the request asks for a smaller k than the method.
    """
    if request.k < method.k:
        raise ParameterError(
            "the request asks for k = {asked}, but at least {least} is required", asked=request.k, least=method.k
        )
    points: list[Measurement] = []
    for wish in request.wishes:
        outcome, point = _tried(method, source, request.k, wish)
        points.append(point)
        if outcome is not None:
            return Granted(points=tuple(points), outcome=outcome, wish=wish)
    return Granted(points=tuple(points))


def _tried(method: KAnonymity, source: Recodable, k: int, wish: Wish) -> tuple[Outcome | None, Measurement]:
    schema = source.schema
    sensitive = method.sensitive(schema, tuple(wish))
    pieces = Pieces.of(source.count([*wish, *sensitive]), tuple(wish), sensitive)
    columns = [wish[name].group_of[pieces.codes[:, axis]] for axis, name in enumerate(wish)]
    class_of = class_numbers(np.column_stack(columns))
    sizes = np.bincount(class_of, weights=pieces.weights).astype(np.int64)
    point = Measurement(
        schema=schema.fingerprint,
        groupings={name: one.to_value() for name, one in wish.items()},
        cells=math.prod(one.size for one in wish.values()),
        k=int(sizes.min(initial=pieces.rows)),
        rows=pieces.rows,
    )
    least = k * (schema.unit.max_rows if schema.unit.kind == "person" else 1)
    holds = holder((MinimumSize(k=least), *read_criteria(method.criteria)), pieces)
    is_kept = holds(pieces, class_of, len(sizes))[class_of]
    most_lost = int(method.share * pieces.rows)
    if int(pieces.weights[~is_kept].sum()) > most_lost or not is_kept.any():
        return None, point
    recoded = by_groupings(pieces, wish, is_kept, class_of)
    check_promise(recoded, holds, most_lost)
    return Outcome(recoded=recoded), point
