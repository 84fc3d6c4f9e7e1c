"""When it pays to count in rho: the same epsilon at a delta, compared with pure epsilon by the noise of both."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from sudare.advise.answers import Answers
from sudare.advise.candidates import Candidate
from sudare.errors import SudareError
from sudare.methods.figures import write_figure
from sudare.privacy.currency import DEFAULT_DELTA
from sudare.privacy.exact import write_exact
from sudare.schema import Schema
from sudare.text import Text, text

LEAST_GAIN = 1.05  # times less noise: below, the currencies are as good as each other
MOST_RELEASES = 1000  # beyond, nobody plans


def note_currency(candidate: Candidate, schema: Schema, answers: Answers, epsilon: Fraction) -> list[Text]:
    """Tell whether the same epsilon at delta = 1e-9, counted in rho, would give less noise, and from when on.

    Divided among K like releases, pure epsilon gives each a deviation in proportion to K, rho one in proportion to the
    root of K. So if one release has r times the noise in rho, from r^2 releases on rho has less.
    """
    gain = compare_currencies(candidate, schema, answers, epsilon)
    if gain is None:
        return []
    values = {"epsilon": write_exact(epsilon), "delta": write_exact(DEFAULT_DELTA)}
    if gain >= LEAST_GAIN:
        return [
            text(
                "with --delta {delta} the release is counted in rho: the same epsilon {epsilon}, now at delta {delta},"
                " then has {gain} times less noise. Its ledger must be counted in rho too",
                gain=write_figure(gain),
                **values,
            )
        ]
    releases = math.ceil(gain**-2)
    if gain > 1 / LEAST_GAIN or releases > MOST_RELEASES:
        return []
    return [
        text(
            "pure epsilon is better for this release alone: epsilon {epsilon} at delta {delta}, counted in rho, would"
            " give {loss} times the noise. Counting in rho pays from {releases} such releases under one budget on",
            loss=write_figure(1 / gain),
            releases=releases,
            **values,
        )
    ]


def compare_currencies(candidate: Candidate, schema: Schema, answers: Answers, epsilon: Fraction) -> float | None:
    """Give the noise under pure epsilon as a multiple of that under the same epsilon at a delta; None if not known."""
    pure = candidate.make(epsilon, answers.neighbours)
    try:
        concentrated = candidate.make(epsilon, answers.neighbours, delta=DEFAULT_DELTA)
        errors = [method.expect(schema, rows=answers.rows) for method in (pure, concentrated)]
    except SudareError:
        return None
    deviations = [None if error is None else _find_deviation(error.figures) for error in errors]
    if deviations[0] is None or not deviations[1]:
        return None
    return deviations[0] / deviations[1]


def _find_deviation(figures: Mapping[str, Any]) -> float | None:
    """Find the deviation that an expected error tells: of a cell, of regions, or of the values of attributes."""
    if "cell_standard_deviation" in figures:
        return float(figures["cell_standard_deviation"])
    for name in ("region_standard_deviation", "value_standard_deviation"):
        if values := [float(value) for value in figures.get(name, {}).values() if value]:
            return statistics.geometric_mean(values)
    return None
