"""The method's parameters, promise and order of steps."""

from __future__ import annotations

from dataclasses import dataclass, fields
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sudare.errors import ParameterError
from sudare.methods.certify import certificate
from sudare.methods.location.artefact import FILE, Artefact, Repeat
from sudare.methods.location.fair import Progress
from sudare.methods.location.grid import Places, PlaneGrid
from sudare.methods.location.map_file import Inputs, read_map
from sudare.methods.location.mechanism import Mechanism
from sudare.methods.location.posterior import PosteriorModel, check_model, evaluate
from sudare.methods.location.preview import Preview, foresee
from sudare.methods.location.weights import MODES, SLACKS, Mode, Slack, build
from sudare.privacy.exact import exact
from sudare.privacy.metric import MetricGuarantee, exact_epsilon_per_metre
from sudare.releases import Coded, Frame, Release


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

    def preview(self, *, progress: Progress | None = None) -> Preview:
        """Tell the certified epsilon, posteriors and expected distance; nothing is spent, since no table is used."""
        return self._foreseen(self.mechanism(progress=progress))

    def publish(self) -> Release:
        """Build, certify, and return the release: `mechanism.json` for devices, a table of cells for people."""
        return self.certified()[1]

    def certified(self, *, progress: Progress | None = None) -> tuple[Preview, Release]:
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

    def _foreseen(self, mechanism: Mechanism) -> Preview:
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


def require_kept(told: Preview) -> None:
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
