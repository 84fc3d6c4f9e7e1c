"""A method of another package, in one file: noisy counts of every cell, those below a threshold left out."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

import sudare as sd
from sudare.noise import Rng, geometric, geometric_variance
from sudare.text import text

MOST_CELLS = 2**20


@dataclass(frozen=True, kw_only=True)
class Histogram(sd.EpsilonMethod):
    """Publish noisy counts of every cell of a small table.

    Guarantee: epsilon-DP for the declared unit and neighbours: one draw of the geometric mechanism over all cells.
    Error: variance 2a/(1-a)^2 per cell, a = exp(-epsilon/sensitivity); counts below the threshold are lost.
    """

    name = "histogram"
    summary = text("noisy counts of every cell of a small table (differential privacy)")

    threshold: int = sd.parameter(text("counts below this are left out"), default=1)

    def plan(self, schema: sd.Schema, *, neighbours: Any = None) -> sd.Plan:
        """Refuse what is too large or has impossible cells; spend all of epsilon on one draw."""
        chosen = self.select(schema)
        if chosen.size > MOST_CELLS or chosen.impossible:
            raise sd.SchemaError("a histogram takes up to {most} cells, all of them possible", most=MOST_CELLS)
        promise = self.guarantee(unit=chosen.unit, neighbours=neighbours)
        rows = chosen.unit.max_rows if chosen.unit.kind == "person" else 1
        sensitivity = rows * (2 if promise.neighbours == "replace" else 1)
        deviation = math.sqrt(geometric_variance(sensitivity / promise.epsilon))
        return sd.Plan(
            promise=promise,
            schema=chosen,
            parts={"noise in every cell": promise.epsilon},
            expected_error={"cells": chosen.size, "cell_standard_deviation": round(deviation, 6)},
            counted=chosen.names,
            steps=sensitivity,
        )

    def make(self, counts: sd.Counts, plan: sd.Plan, *, rng: Rng) -> sd.Payload:
        """Add noise to every cell, empty ones too, and keep what reaches the threshold."""
        epsilon = self.guarantee().epsilon
        noisy = geometric(counts.dense(), epsilon=epsilon, sensitivity=plan.steps, rng=rng)
        kept = np.flatnonzero(noisy >= self.threshold)
        codes = plan.facts.radix.decode(plan.facts.radix.from_ranks(kept.tolist()))
        columns = {
            attribute.name: sd.Coded(codes[:, place], attribute.labels(np.arange(attribute.size)))
            for place, attribute in enumerate(plan.facts.attributes)
        }
        return sd.Payload(frames={"cells": sd.Frame({**columns, "count": noisy[kept]})})
