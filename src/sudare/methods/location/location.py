"""What to expect of a mechanism before it is published, and warnings about figures that make no sense."""

from __future__ import annotations

from dataclasses import dataclass, fields
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sudare.errors import ParameterError
from sudare.methods.certify import certificate
from sudare.methods.location.device_file import FILE, Artefact, Repeat
from sudare.methods.location.grid import Places, PlaneGrid, metres_from
from sudare.methods.location.map_file import Inputs, read_map
from sudare.methods.location.mechanism import Mechanism
from sudare.methods.location.posterior import PosteriorModel, check_model, evaluate, worst_posterior
from sudare.methods.location.tight import Tight, tight_epsilon
from sudare.methods.location.weights import MODES, SLACKS, Mode, Progress, Slack, build
from sudare.privacy.exact import exact
from sudare.privacy.promise import MetricGuarantee, exact_epsilon_per_metre
from sudare.releases import Coded, Frame, Release
from sudare.schema.arrays import Reals
from sudare.text import say

NEARLY_ALWAYS = 0.98  # the share of true reports from which on nobody is hidden
WIDE = 0.3  # of the way across the map: from there on a report says nearly nothing


@dataclass(frozen=True, kw_only=True, slots=True)
class LocationPreview:
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
    mechanism: Mechanism, epsilon: Fraction, *, model: PosteriorModel = "uniform", prior: Reals | None = None
) -> LocationPreview:
    """Measure a mechanism before it is published.

    With a prior, the largest posterior is that of the likeliest place, which need not be the reported one.
    """
    figures = evaluate(mechanism, model=model, prior=prior).measures()
    if prior is not None:
        figures["posterior_max"] = float(np.nanmax(worst_posterior(mechanism, prior=prior)))
    return LocationPreview(
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


# The method's parameters, promise and order of steps.


@dataclass(frozen=True, kw_only=True, eq=False)
class Location:
    """Make the mechanism by which a device reports a cell of a map instead of the true one.

    mode "grid" gives every cell the same weight (GridE), "weighted" takes the given weights (WGridE), "fair" finds
    weights under which people at edges are found out no more often than others, "sharp" finds those with the least
    noise. A cell of weight 0 is never reported, in any mode.

    Guarantee: epsilon per metre for one report: P[y|x] <= exp(epsilon d(x,x')) P[y|x']. Proof: proofs/location.md
    Error: the certificate tells the expected distance between report and truth.
    Source: Hiraishi, Yoshikawa, Cao, Fujita, Gomi, sections 4 and 5.

    >>> from sudare.methods.location.grid import PlaneGrid
    >>> grid = PlaneGrid(rows=15, columns=15, cell_height_metres="115.6", cell_width_metres="141.5")
    >>> told = Location(grid=grid, epsilon_per_metre="0.02", mode="sharp").preview()
    >>> round(told.figures["expected_distance_metres"], 1)
    46.9
    """

    grid: Places
    epsilon_per_metre: Fraction | str | int | float
    mode: Mode = "grid"
    weights: NDArray[np.float64] | None = None  # in [0, 1], one per cell: the share of it where a person can be
    slack: Slack | None = None  # what less noise than promised is used for; "noise" for sharp, else "epsilon"
    extra_distance: Fraction | str | float = Fraction(1, 10)  # fair: the share of expected distance it may cost
    posterior_model: PosteriorModel = "uniform"  # the prior of the posteriors in the certificate
    prior: NDArray[np.float64] | None = None  # how many people are where, for the measures; even by default
    inputs: Inputs = "reportable"  # "all": people can also be where nothing is reported
    reports_per_day: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon_per_metre", exact_epsilon_per_metre(self.epsilon_per_metre))
        for name, known in (("mode", MODES), ("slack", (*SLACKS, None)), ("inputs", ("reportable", "all"))):
            if (value := getattr(self, name)) not in known:
                allowed = ", ".join(str(one) for one in known if one)
                raise ParameterError(
                    "{name} ({value}) must be one of {allowed}", name=name, value=value, allowed=allowed
                )
        check_model(self.posterior_model)
        extra = exact(self.extra_distance, name="extra_distance", low=Fraction(0), high=Fraction(10))
        object.__setattr__(self, "extra_distance", extra)
        Repeat(fresh_reports=self.reports_per_day)
        if self.weights is not None:
            object.__setattr__(self, "weights", _checked(self.weights, self.grid.size))
        elif self.mode == "weighted":
            raise ParameterError("mode weighted needs weights; give them in the map file or use mode grid")

    @classmethod
    def of_map(cls, path: str | Path, **parameters: Any) -> Location:
        """Read a map file, and take the other parameters as given."""
        found = read_map(path)
        return cls(grid=found.places, weights=found.weights, inputs=found.inputs, prior=found.prior, **parameters)

    def guarantee(self) -> MetricGuarantee:
        """Tell the promise before anything is built."""
        kind = self.grid.to_dict()["kind"]
        epsilon = Fraction(self.epsilon_per_metre)
        return MetricGuarantee(epsilon_per_metre=epsilon, metric=kind, reports_per_day=self.reports_per_day)

    def mechanism(self, *, progress: Progress | None = None) -> Mechanism:
        """Build the mechanism: weights of the mode, beta, both exact."""
        reportable = np.ones(self.grid.size, dtype=np.bool_) if self.weights is None else self.weights > 0
        return build(
            self.grid,
            Fraction(self.epsilon_per_metre),
            mode=self.mode,
            slack=self._slack,
            weights=self.weights,
            inputs=np.ones_like(reportable) if self.inputs == "all" else reportable,
            extra_distance=float(self.extra_distance),
            progress=progress,
        )

    def preview(self, *, progress: Progress | None = None) -> LocationPreview:
        """Tell the certified epsilon, posteriors and expected distance; nothing is spent, since no table is used."""
        return self._foreseen(self.mechanism(progress=progress))

    def publish(self) -> Release:
        """Build, certify, and return the release: `mechanism.json` for devices, a table of cells for people."""
        return self.certified()[1]

    def certified(self, *, progress: Progress | None = None) -> tuple[LocationPreview, Release]:
        """The release with the figures its certificate rests on."""
        mechanism = self.mechanism(progress=progress)
        told = self._foreseen(mechanism)
        require_kept(told)
        artefact = Artefact(
            mechanism=mechanism,
            epsilon_per_metre=told.epsilon_per_metre,
            tight_epsilon_per_metre=told.tight.epsilon,
            repeat=Repeat(fresh_reports=self.reports_per_day),
        )
        paper = certificate(
            method="location",
            parameters={**self._parameters(), "beta_per_metre": str(mechanism.beta_per_metre), "id": artefact.identity},
            guarantee=self.guarantee(),
            schema=None,
            expected_error=told.measures(),
            private=True,  # nothing here was drawn: each device draws with its own randomness
            measures=told.measures(),
        )
        frame = table_of_cells(mechanism, model=self.posterior_model, prior=self.prior)
        return told, Release({"weights": frame}, paper, {FILE: artefact.write})

    def _foreseen(self, mechanism: Mechanism) -> LocationPreview:
        epsilon = Fraction(self.epsilon_per_metre)
        return foresee(mechanism, epsilon, model=self.posterior_model, prior=self.prior)

    @property
    def _slack(self) -> Literal["epsilon", "noise"]:
        return self.slack or ("noise" if self.mode == "sharp" else "epsilon")

    def _parameters(self) -> dict[str, str]:
        told = {
            one.name: getattr(self, one.name) for one in fields(self) if one.name not in ("grid", "weights", "prior")
        }
        told["prior"] = "even" if self.prior is None else "given"
        told["slack"] = self._slack
        if self.mode != "fair":
            del told["extra_distance"]
        return {"grid": self.grid.to_dict()["kind"], "cells": str(self.grid.size)} | {
            name: str(value) for name, value in told.items()
        }


def require_kept(told: LocationPreview) -> None:
    """Refuse a mechanism whose certificate is above its promise; the triangle inequality alone proves 2 beta."""
    is_proven = 2 * told.beta_per_metre <= told.epsilon_per_metre
    if not is_proven and told.tight.epsilon > float(told.epsilon_per_metre):
        raise ParameterError(
            "the mechanism needs epsilon {tight} per metre, more than the {epsilon} promised; please report it",
            tight=told.tight.epsilon,
            epsilon=told.epsilon_per_metre,
        )


def table_of_cells(
    mechanism: Mechanism, *, model: PosteriorModel = "uniform", prior: NDArray[np.float64] | None = None
) -> Frame:
    """Every cell with its weight and what a report of it tells: for people who look at maps, not for devices."""
    found, cells = evaluate(mechanism, model=model, prior=prior), np.arange(mechanism.places.size)
    grid = mechanism.places
    if isinstance(grid, PlaneGrid) and grid.corner is None:
        names: dict[str, Any] = dict(zip(("row", "column"), np.divmod(cells, grid.columns), strict=True))
    else:
        names = {"place": Coded(cells, grid.labels(cells))}
    measures = {
        "posterior": found.posterior,
        "report_true": found.report_true,
        "expected_distance_metres": found.distance,
    }
    return Frame(
        {**names, "weight": mechanism.shares}
        | {name: np.ma.array(values, mask=np.isnan(values)) for name, values in measures.items()}
    )


def _checked(weights: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    given = np.asarray(weights, dtype=np.float64).reshape(-1)
    if given.shape != (size,):
        raise ParameterError("weights ({found}) must be one per cell ({cells})", found=given.size, cells=size)
    if not np.isfinite(given).all() or given.min() < 0 or given.max() > 1:
        raise ParameterError("weights must be between 0 and 1: the share of the cell where a person can be")
    if not given.any():
        raise ParameterError("all weights are 0: no cell could be reported; give one cell a weight above 0")
    return given
