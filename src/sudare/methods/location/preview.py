"""What to expect of a mechanism before it is published, and warnings about figures that make no sense."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from sudare.messages import say
from sudare.methods.location.grid import Numbers, PlaneGrid, metres_from
from sudare.methods.location.mechanism import Mechanism
from sudare.methods.location.posterior import PosteriorModel, evaluate, worst_posterior
from sudare.methods.location.tight import Tight, tight_epsilon

NEARLY_ALWAYS = 0.98  # the share of true reports from which on nobody is hidden
WIDE = 0.3  # of the way across the map: from there on a report says nearly nothing


@dataclass(frozen=True, kw_only=True, slots=True)
class Preview:
    """Public figures: nothing here depends on where anybody is."""

    cells: int
    reportable: int
    beta_per_metre: Fraction
    epsilon_per_metre: Fraction
    tight: Tight
    figures: dict[str, float]
    across_metres: float

    @property
    def warnings(self) -> list[str]:
        """What looks like a mistake: an epsilon per kilometre, or one that hides everything."""
        epsilon = float(self.epsilon_per_metre)
        found = []
        if self.reportable > 1 and self.figures["report_true_min"] > NEARLY_ALWAYS:
            found.append(
                say(
                    "at least {share} of the reports are the true cell: epsilon {epsilon} per metre hides nobody in"
                    " cells of this size. If it was meant per kilometre, give {meant}",
                    share=f"{self.figures['report_true_min']:.1%}",
                    epsilon=f"{epsilon:g}",
                    meant=f"{epsilon / 1000:g}",
                )
            )
        if self.reportable > 1 and self.figures["expected_distance_metres"] > WIDE * self.across_metres:
            found.append(
                say(
                    "a report is {metres} m from the truth, on a map {across} m across: it says nearly nothing. Raise"
                    " epsilon per metre, or use a larger map",
                    metres=f"{self.figures['expected_distance_metres']:.0f}",
                    across=f"{self.across_metres:.0f}",
                )
            )
        return found

    def measures(self) -> dict[str, Any]:
        """The figures a certificate holds, rounded so that the promise is never rounded down."""
        return {
            "tight_epsilon_per_metre": self.tight.epsilon,
            "tight_epsilon_is_exact": self.tight.is_exact,
            **self.figures,
        }

    def to_dict(self) -> dict[str, Any]:
        """Plain values for a program."""
        return {
            "cells": self.cells,
            "reportable": self.reportable,
            "beta_per_metre": str(self.beta_per_metre),
            "epsilon_per_metre": str(self.epsilon_per_metre),
            **self.measures(),
            "warnings": self.warnings,
        }


def foresee(
    mechanism: Mechanism, epsilon: Fraction, *, model: PosteriorModel = "uniform", prior: Numbers | None = None
) -> Preview:
    """Measure a mechanism before it is published.

    With a prior, the largest posterior is that of the likeliest place, which need not be the reported one.
    """
    figures = evaluate(mechanism, model=model, prior=prior).measures()
    if prior is not None:
        figures["posterior_max"] = float(np.nanmax(worst_posterior(mechanism, prior=prior)))
    return Preview(
        cells=mechanism.places.size,
        reportable=int((mechanism.weights > 0).sum()),
        beta_per_metre=mechanism.beta_per_metre,
        epsilon_per_metre=epsilon,
        tight=tight_epsilon(mechanism),
        figures=figures,
        across_metres=_across(mechanism),
    )


def _across(mechanism: Mechanism) -> float:
    """The way across the map, roughly: from corner to corner, or twice the mean from one place."""
    places = mechanism.places
    if isinstance(places, PlaneGrid):
        return float(metres_from(places, 0).max())
    return float(metres_from(places, int(np.flatnonzero(mechanism.can_enter)[0])).max())
