"""The numbers behind figures 1-3: from the definitions, with full matrices, beside the library's FFT."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from papers.hiraishi_location.greedy import reduce_weights
from sudare.methods.location.grid import PlaneGrid, distances_from
from sudare.methods.location.mechanism import FULL_WEIGHT

EXPECTED: dict[str, Any] = tomllib.loads(Path(__file__).with_name("expected.toml").read_text(encoding="utf-8"))
GRID = PlaneGrid(
    rows=EXPECTED["rows"],
    columns=EXPECTED["columns"],
    cell_height_metres=EXPECTED["cell_height_metres"],
    cell_width_metres=EXPECTED["cell_width_metres"],
)
EPSILONS: list[str] = EXPECTED["epsilons"]
READINGS: tuple[Literal["uniform", "weights"], ...] = ("uniform", "weights")
STEPS = (0.1, 0.05, 0.01)
FIGURE_STEP = 0.05
DISTANCE = np.array([distances_from(GRID, cell) for cell in range(GRID.size)])

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Seen:
    """Pr(O=r|A=r), Pr(A=r|O=r) and expected distance of every cell, by the definitions."""

    report_true: Numbers
    posterior: Numbers
    distance: Numbers

    @property
    def gap(self) -> float:
        return float(np.ptp(self.posterior))


def seen(epsilon: str, weights: Numbers, reading: str = "uniform") -> Seen:
    """Evaluate WGridE with these weights from the full matrix of P(o|r) proportional to w exp(-eps/2 d)."""
    near = np.exp(-float(Fraction(epsilon)) / 2 * DISTANCE)
    alpha = 1.0 / (near @ weights)
    law = alpha[:, None] * weights[None, :] * near
    belief = alpha * (weights if reading == "weights" else 1.0)  # of being in r, times what r adds to any report
    return Seen(np.diag(law).copy(), belief / (near @ belief), (law * DISTANCE).sum(axis=1))


def before(epsilon: str) -> Seen:
    """GridE: all weights 1."""
    return seen(epsilon, np.ones(GRID.size))


def after(
    epsilon: str, reading: Literal["uniform", "weights"], *, step: float = FIGURE_STEP, tie_tolerance: float = 1e-9
) -> tuple[Numbers, Seen]:
    """Algorithm 1 under one reading of the posterior: weights, and what they lead to under the same reading."""
    found = reduce_weights(GRID, Fraction(epsilon) / 2, step=step, tie_tolerance=tie_tolerance, posterior_model=reading)
    weights = found.weights / FULL_WEIGHT
    return weights, seen(epsilon, weights, reading)


def figures(*, share: float = 1.0) -> dict[str, float]:
    """The figures that are held against expected.toml, all at epsilon = 0.02."""
    plain = before("0.02")
    steps = STEPS if share >= 1 else STEPS[:2]
    ends = {reading: [after("0.02", reading, step=step)[1].gap for step in steps] for reading in READINGS}
    return {
        "report_true_max": float(plain.report_true.max()),
        "report_true_min": float(plain.report_true.min()),
        "report_gap": float(np.ptp(plain.report_true)),
        "posterior_max": float(plain.posterior.max()),
        "posterior_min": float(plain.posterior.min()),
        "posterior_gap": plain.gap,
        "expected_distance_metres": float(plain.distance.mean()),
        "corner_distance_metres": float(plain.distance[0]),
        **{f"after_{reading}": gaps[STEPS.index(FIGURE_STEP)] for reading, gaps in ends.items()},
        **{
            f"after_{reading}_{step}": gap
            for reading, gaps in ends.items()
            for step, gap in zip(steps, gaps, strict=True)
        },
    }
