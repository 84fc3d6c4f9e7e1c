"""What a view will cost and how noisy it will be, from public facts alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from sudare.errors import ParameterError
from sudare.mechanisms import geometric_variance
from sudare.mechanisms.geometric import LARGEST_SCALE
from sudare.methods.view.cuts import AE_SENSITIVITY
from sudare.methods.view.mondrian import costs, stop_scale
from sudare.methods.view.shares import Budget, bins_wanted, by_size, share_out
from sudare.schema import Schema

MOST_ROWS = 10**15
LEAST_SHARE = 5000  # a pair of d attributes gets more than 1/(5000 d) of epsilon, however the shares come out


@dataclass(frozen=True, kw_only=True, slots=True)
class ViewPreview:
    """The noise of what is measured, before anything is fitted.

    `value_standard_deviation`: of a value of each attribute as if the product were published (blocks: None).
    `rows` and what follows from it are filled in when an estimate of the number of records was given.
    """

    cells: int
    attributes: int
    value_standard_deviation: dict[str, float]
    block_standard_deviation: float | None = None
    measures_pairs: bool | None = None
    bins: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers for a certificate or a program."""
        told: dict[str, Any] = {"cells": self.cells}
        if self.block_standard_deviation is not None:
            told["block_standard_deviation"] = round(self.block_standard_deviation, 6)
        else:
            told["value_standard_deviation"] = {k: round(v, 6) for k, v in self.value_standard_deviation.items()}
        if self.measures_pairs is not None:
            told |= {"measures_pairs": self.measures_pairs, "bins": self.bins}
        return told


def foresee(schema: Schema, budget: Budget, method: str, *, rows: int | None = None) -> ViewPreview:
    """Compute the preview of a run."""
    if rows is not None and not 0 <= rows <= MOST_ROWS:
        raise ParameterError("rows ({rows}) must be between 0 and {most}", rows=rows, most=MOST_ROWS)
    cells, attributes = schema.size, len(schema.attributes)
    if method in ("mondrian", "hdpview"):
        plan = costs(budget.epsilon, schema, method)
        most = plan.leaf(1, tested=cells > 1 and plan.deepest > 1)  # the whole table as one block has the least noise
        deviation = math.sqrt(geometric_variance(1 / most))
        return ViewPreview(
            cells=cells, attributes=attributes, value_standard_deviation={}, block_standard_deviation=deviation
        )
    left = budget.epsilon - (budget.total_epsilon or 0)
    shares = share_out(method, left, records=float(rows or 0), sizes=schema.sizes)
    each = by_size(shares.ones, schema.sizes)
    deviations = {
        name: math.sqrt(geometric_variance(1 / share)) for name, share in zip(schema.names, each, strict=True)
    }
    if rows is None:
        return ViewPreview(cells=cells, attributes=attributes, value_standard_deviation=deviations)
    return ViewPreview(
        cells=cells,
        attributes=attributes,
        value_standard_deviation=deviations,
        measures_pairs=bool(shares.forest),
        bins=bins_wanted(float(rows), float(budget.epsilon), len(schema.attributes)),
    )


def check_noise(budget: Budget, method: str, schema: Schema) -> None:
    """Refuse noise beyond 64 bits before anything is spent, whatever shares the noisy number of records leads to."""
    if method in ("mondrian", "hdpview"):
        plan = costs(budget.epsilon, schema, method)
        stop = AE_SENSITIVITY / plan.test if plan.test else stop_scale(plan.tests)
        largest = max(stop, 1 / plan.leaf(plan.deepest, tested=True))
    else:
        shares = share_out("model", budget.epsilon, records=math.inf, sizes=schema.sizes)
        least = min(*by_size(shares.ones, schema.sizes), budget.epsilon / (LEAST_SHARE * len(schema.sizes)))
        largest = 1 / least
    if largest > LARGEST_SCALE:
        raise ParameterError("scale ({scale}) must be at most 2**50; raise epsilon", scale=largest)
