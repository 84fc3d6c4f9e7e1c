"""What is told of a mechanism before it is published: certified epsilon, measures, warnings, the table of cells."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from sudare.errors import ParameterError
from sudare.methods.figures import ShownPreview
from sudare.methods.location.attack import HomeFound, find_chances
from sudare.methods.location.device_file import RepeatUse, certify_law
from sudare.methods.location.grid import PlaneGrid, distances_from
from sudare.methods.location.hidden import HiddenMeasures, HiddenMechanism, measure_hidden, measure_told
from sudare.methods.location.mechanism import Mechanism
from sudare.methods.location.posterior import (
    MechanismMeasures,
    PosteriorModel,
    find_worst_posterior,
    measure_mechanism,
    share_prior,
)
from sudare.methods.location.tight import TightEpsilon, certify_epsilon
from sudare.releases import Coded, Frame
from sudare.releases.certificate import round_up
from sudare.schema.arrays import Reals
from sudare.text import Text, text

# Warnings of a preview; both limits are rules of thumb.
MAX_TRUE_REPORTS = 0.98  # share of the reports that are the true cell, in every cell: beyond it nobody is hidden
MAX_DISTANCE_SHARE = 0.3  # expected distance over the width of the map: beyond it a report says nearly nothing


@dataclass(frozen=True, kw_only=True, slots=True)
class LocationPreview(ShownPreview):
    """Public figures: nothing here depends on where anybody is."""

    cells: int
    reportable: int
    beta_per_metre: Fraction
    epsilon_per_metre: Fraction
    tight: TightEpsilon
    figures: dict[str, float]
    across_metres: float
    repeat: RepeatUse
    home_found: tuple[HomeFound, ...]
    notes: tuple[Text, ...] = ()  # further warnings, of whoever built the law
    remarks: tuple[Text, ...] = ()  # further lines that are no warnings

    @property
    def warnings(self) -> list[Text]:
        """Warn of what looks like a mistake: an epsilon per kilometre, or one that hides everything."""
        epsilon = float(self.epsilon_per_metre)
        warnings = []
        if self.reportable > 1 and self.figures["report_true_min"] > MAX_TRUE_REPORTS:
            warnings.append(
                text(
                    "at least {share} of the reports name the true cell: epsilon {epsilon} per metre hides"
                    " nobody in cells of this size. If it was meant per kilometre, give {meant}",
                    share=f"{self.figures['report_true_min']:.1%}",
                    epsilon=f"{epsilon:g}",
                    meant=f"{epsilon / 1000:g}",
                )
            )
        if self.reportable > 1 and self.figures["expected_distance_metres"] > MAX_DISTANCE_SHARE * self.across_metres:
            warnings.append(
                text(
                    "a report is {metres} m from the true place on average, on a map {across} m across: it"
                    " says almost nothing. Raise epsilon per metre, or use a larger map",
                    metres=f"{self.figures['expected_distance_metres']:.0f}",
                    across=f"{self.across_metres:.0f}",
                )
            )
        first, year = self.home_found[0].chance, self.home_found[-1].chance
        if year > 2 * first and first < MAX_TRUE_REPORTS:
            warnings.append(
                text(
                    "after a year the home is found with chance {year}, more than twice that of one day ({first}); take"
                    " answers lasting, or a dwell of 3",
                    year=show_chance(year),
                    first=show_chance(first),
                )
            )
        return [*warnings, *self.notes]

    def measures(self) -> dict[str, Any]:
        """Give the figures that a certificate holds; the certified epsilon is never rounded down."""
        return {
            "tight_epsilon_per_metre": self.tight.epsilon,
            "tight_epsilon_is_exact": self.tight.is_exact,
            **self.figures,
            **{f"home_found_{found.days}_days": found.chance for found in self.home_found},
        }

    def to_dict(self) -> dict[str, Any]:
        """Give plain values for a program."""
        return {
            "cells": self.cells,
            "reportable": self.reportable,
            "beta_per_metre": str(self.beta_per_metre),
            "epsilon_per_metre": str(self.epsilon_per_metre),
            **self.measures(),
            "warnings": [str(warning) for warning in self.warnings],
        }

    def lines(self) -> list[Text]:
        """Tell it in a few lines, the warnings apart."""
        figures = self.figures
        return [
            text(
                "epsilon this map needs, certified: {tight} per metre (promised {epsilon})",
                tight=round_up(self.tight.epsilon),
                epsilon=f"{float(self.epsilon_per_metre):g}",
            ),
            text("expected distance of a report: {metres} m", metres=f"{figures['expected_distance_metres']:.1f}"),
            text(
                "posterior of the reported cell: {low} to {high}, median {middle}",
                low=f"{figures['posterior_min']:.3f}",
                high=f"{figures['posterior_max']:.3f}",
                middle=f"{figures['posterior_median']:.3f}",
            ),
            *self.remarks,
            *describe_months(self.epsilon_per_metre, self.repeat, self.home_found),
        ]


def show_chance(chance: float) -> str:
    """Write a chance with two digits; one that would read as 0 or 1 and is not is told as below or above.

    >>> [show_chance(chance) for chance in (0, 0.0004, 0.01, 0.254, 0.997, 1)]
    ['0.00', '< 0.01', '0.01', '0.25', '> 0.99', '1.00']
    """
    if 0 < chance < 0.01:
        return "< 0.01"
    return "> 0.99" if 0.99 < chance < 1 else f"{chance:.2f}"


def describe_months(epsilon: Fraction, repeat: RepeatUse, found: Sequence[HomeFound]) -> list[Text]:
    """Tell what all draws of a device promise together, and what an attacker finds who keeps them."""
    draws = text(
        "all draws of a device together: exp({day} d) in a day, exp({month} d) in a month, {life}, for places moved by"
        " d metres each",
        day=f"{float(epsilon) * repeat.fresh_reports:g}",
        month=f"{float(epsilon) * repeat.month:g}" if repeat.month else "...",
        life=text("exp({life} d) for ever", life=f"{float(epsilon) * repeat.life:g}")
        if repeat.life
        else text("without end over the years"),
    )
    home = text(
        "an attacker who keeps every report and knows the map finds the home cell with chance {first} after 1 day,"
        " {month} after 30 days, {year} after 365 days",
        **{name: show_chance(each.chance) for name, each in zip(("first", "month", "year"), found, strict=True)},
    )
    return [draws, home]


def _preview_told(
    law: Mechanism | HiddenMechanism, epsilon: Fraction, *, prior: Reals | None, repeat: RepeatUse
) -> LocationPreview:
    """Measure a law whose reports are told as other cells: distances are to the told cell."""
    people = share_prior(law.can_enter, prior)
    is_hidden = isinstance(law, HiddenMechanism)
    measured = measure_hidden(law, people) if isinstance(law, HiddenMechanism) else measure_told(law, people)
    tight = certify_law(law)
    first = float(measured.largest_posterior @ measured.report_mass)  # the likeliest place of every report
    return LocationPreview(
        cells=law.places.size,
        reportable=int((measured.told_mass > 0).sum()) if is_hidden else int((law.weights > 0).sum()),
        beta_per_metre=law.beta_per_metre,
        epsilon_per_metre=epsilon,
        tight=tight,
        figures=measured.measures(),
        across_metres=_measure_width(law),
        repeat=repeat,
        home_found=tuple(find_chances(law, repeat, prior=prior, first=first)),
    )


def preview_mechanism(
    mechanism: Mechanism | HiddenMechanism,
    epsilon: Fraction,
    *,
    model: PosteriorModel = "uniform",
    prior: Reals | None = None,
    repeat: RepeatUse | None = None,
) -> LocationPreview:
    """Measure a mechanism before it is published.

    With a prior, the largest posterior is that of the likeliest place, which need not be the reported one.
    """
    if isinstance(mechanism, HiddenMechanism) or mechanism.told is not None:
        return _preview_told(mechanism, epsilon, prior=prior, repeat=repeat or RepeatUse())
    figures = measure_mechanism(mechanism, model=model, prior=prior).measures()
    if prior is not None:
        figures["posterior_max"] = float(np.nanmax(find_worst_posterior(mechanism, prior=prior)))
    return LocationPreview(
        cells=mechanism.places.size,
        reportable=int((mechanism.weights > 0).sum()),
        beta_per_metre=mechanism.beta_per_metre,
        epsilon_per_metre=epsilon,
        tight=certify_epsilon(mechanism),
        figures=figures,
        across_metres=_measure_width(mechanism),
        repeat=repeat or RepeatUse(),
        home_found=tuple(find_chances(mechanism, repeat or RepeatUse(), prior=prior)),
    )


def _measure_width(mechanism: Mechanism | HiddenMechanism) -> float:
    """Measure the map, roughly: from corner to corner, or the farthest from one place."""
    places = mechanism.places
    if isinstance(places, PlaneGrid):
        return float(distances_from(places, 0).max())
    return float(distances_from(places, int(np.flatnonzero(mechanism.can_enter)[0])).max())


def require_kept(measured: LocationPreview) -> None:
    """Refuse a mechanism whose certificate is above its promise, or with a measure that is not a number."""
    if not all(math.isfinite(figure) for figure in (measured.tight.epsilon, *measured.figures.values())):
        raise ParameterError(
            "a measure of this map is not a finite number, so nothing can be certified; use larger cells or a smaller"
            " area"
        )
    is_proven = 2 * measured.beta_per_metre <= measured.epsilon_per_metre
    if not is_proven and measured.tight.epsilon > float(measured.epsilon_per_metre):
        raise ParameterError(
            "the mechanism needs epsilon {tight} per metre, more than the {epsilon} promised; this is an"
            " error in Sudare, please report it",
            tight=measured.tight.epsilon,
            epsilon=measured.epsilon_per_metre,
        )


def make_cell_table(
    mechanism: Mechanism | HiddenMechanism, *, model: PosteriorModel = "uniform", prior: Reals | None = None
) -> Frame:
    """Make the table of cells with their weights and what a report of each tells: for people, not for devices."""
    grid, cells = mechanism.places, np.arange(mechanism.places.size)
    people = share_prior(mechanism.can_enter, prior)
    measured: MechanismMeasures | HiddenMeasures
    if isinstance(mechanism, HiddenMechanism):
        measured = measure_hidden(mechanism, people)
        weights = measured.told_mass / measured.told_mass.max()
    elif mechanism.told is not None:
        measured, weights = measure_told(mechanism, people), mechanism.shares
    else:
        measured, weights = measure_mechanism(mechanism, model=model, prior=prior), mechanism.shares
    if isinstance(grid, PlaneGrid) and grid.corner is None:
        names: dict[str, Any] = dict(zip(("row", "column"), np.divmod(cells, grid.columns), strict=True))
    else:
        names = {"place": Coded(cells, grid.labels(cells))}
    measures = {
        "posterior": measured.posterior,
        "report_true": measured.report_true,
        "expected_distance_metres": measured.distance,
    }
    return Frame(
        {**names, "weight": weights}
        | {name: np.ma.array(values, mask=np.isnan(values)) for name, values in measures.items()}
    )
