"""How many people are where, from their reports: iterative Bayesian update, stopped by reports it has not seen.

With P(y|x) = alpha(x) w(y) E(x, y) and the shares q(y) of reports, one step of expectation maximisation is

    theta(x) <- theta(x) * alpha(x) * E[ q / E(alpha theta) ](x)

where the weights w have cancelled; on a plane grid both sums are convolutions. Steps go on while held-out reports
become likelier: later ones fit noise (200 steps are worse than none on a smooth map).

Source: Agrawal, Aggarwal 2001; ElSalamouny, Palamidessi, Generalized iterative Bayesian update, 2020. Early stopping
and intervals are ours; how often intervals hold is measured in tests/unit/test_location_collector.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sudare.errors import ParameterError
from sudare.methods.location.device_file import Artefact
from sudare.methods.location.kernel import ConvolutionKernel, DenseKernel, Kernel
from sudare.methods.location.mechanism import Mechanism
from sudare.methods.location.posterior import norms
from sudare.noise.public import Simulation
from sudare.schema.arrays import Integers, Reals

Smooth = Callable[[Reals], Reals]

MOST_STEPS = 300
PATIENCE = 10  # steps without a better held-out likelihood before it is given up
AT_ONCE = 2**22  # numbers in one batch of transforms


@dataclass(frozen=True, kw_only=True, eq=False)
class Collector:
    """The arithmetic of one artefact; arrays are (samples, cells), so that replicates go through one transform.

    >>> from fractions import Fraction
    >>> from sudare.methods.location.grid import PlaneGrid
    >>> from sudare.methods.location.mechanism import ONE
    >>> grid = PlaneGrid(rows=1, columns=2, cell_height_metres=100, cell_width_metres=100)
    >>> law = Mechanism(places=grid, beta_per_metre=Fraction(1, 100), weights=np.array([ONE, ONE]))
    >>> Collector.of(law).estimate(np.array([[600, 400]]), steps=100).round(3).tolist()
    [[0.716, 0.284]]
    """

    alpha: Reals
    weights: Reals
    start: Reals
    smooth: Smooth

    @classmethod
    def of(cls, mechanism: Mechanism, *, prior: Reals | None = None) -> Collector:
        """Prepare a map; `prior` (default: even over where people can be) is where the steps start."""
        inside = mechanism.can_enter
        alpha = np.where(inside, 1 / norms(mechanism)[0], 0.0)
        start = _start(inside, prior)
        return cls(
            alpha=alpha, weights=mechanism.shares, start=start, smooth=smoother(mechanism.kernel, mechanism.places.size)
        )

    def law_of_reports(self, shares: Reals) -> Reals:
        """The probability of every report if people are spread like `shares` (cells)."""
        law = np.maximum(self.weights * self.smooth((self.alpha * shares)[None])[0], 0.0)
        normed: Reals = law / law.sum()
        return normed

    def estimate(self, counts: NDArray[np.int64], *, steps: int) -> Reals:
        """Run so many steps for every row of counts; rows of the result add up to 1."""
        shares = counts / counts.sum(axis=1, keepdims=True)
        theta = np.broadcast_to(self.start, shares.shape).copy()
        for _ in range(steps):
            theta = self._step(theta, shares, self._mix(theta))
        normed: Reals = theta / theta.sum(axis=1, keepdims=True)
        return normed

    def steps_by(self, seen: NDArray[np.int64], held_out: NDArray[np.int64], *, most: int = MOST_STEPS) -> int:
        """Count the steps on `seen` after which the reports held out are likeliest, over all rows together."""
        shares = seen / seen.sum(axis=1, keepdims=True)
        theta = np.broadcast_to(self.start, shares.shape).copy()
        places = np.nonzero(held_out)
        best, best_step = -np.inf, 0
        for step in range(most + 1):
            mix = self._mix(theta)
            likelihood = float((held_out[places] * np.log(mix[places])).sum())
            if likelihood > best:
                best, best_step = likelihood, step
            if step - best_step >= PATIENCE:
                break
            theta = self._step(theta, shares, mix)
        return best_step

    def _mix(self, theta: Reals) -> Reals:
        """E(alpha theta); never less than its own term, which an FFT's absolute error could drown."""
        inner = self.alpha * theta
        return np.maximum(np.maximum(self.smooth(inner), inner), np.finfo(np.float64).tiny)

    def _step(self, theta: Reals, shares: Reals, mix: Reals) -> Reals:
        moved: Reals = theta * self.alpha * np.maximum(self.smooth(shares / mix), 0.0)
        return moved


def smoother(kernel: Kernel, cells: int) -> Smooth:
    """Give E v for many v at once, (samples, cells) -> (samples, cells)."""
    if isinstance(kernel, DenseKernel):
        near = kernel.near
        return lambda values: values @ near.T
    if not isinstance(kernel, ConvolutionKernel):
        return lambda values: np.array([kernel.smooth(one) for one in values])
    rows = max(1, AT_ONCE // (kernel.padded[0] * kernel.padded[1]))

    def smooth(values: Reals) -> Reals:
        return np.concatenate([_convolve(kernel, values[k : k + rows]) for k in range(0, len(values), rows)])

    return smooth


def _convolve(kernel: ConvolutionKernel, values: Reals) -> Reals:
    from scipy import fft

    height, width = kernel.shape
    spectrum = fft.rfft2(values.reshape(-1, height, width), kernel.padded, axes=(1, 2), workers=-1)
    spectrum *= kernel.near
    whole: NDArray[Any] = fft.irfft2(spectrum, kernel.padded, axes=(1, 2), workers=-1)
    back: Reals = whole[:, :height, :width].reshape(len(values), -1)
    return back


def _start(inside: NDArray[np.bool_], prior: Reals | None) -> Reals:
    if prior is None:
        even: Reals = inside / inside.sum()
        return even
    given = np.where(inside, np.asarray(prior, dtype=np.float64), 0.0)
    if len(prior) != len(inside) or not np.isfinite(given).all() or given.min() < 0 or given.sum() <= 0:
        raise ParameterError("the prior must have one number of at least 0 per cell, and one above 0 where people are")
    # a cell of prior 0 could never be found; a little everywhere lets reports speak against the prior
    mixed: Reals = 0.99 * given / given.sum() + 0.01 * inside / inside.sum()
    return mixed


# Estimate densities and region counts from the reports of devices.


REPLICATES = 12
FOLDS = 3
LONGER = 3  # times the chosen steps for intervals and sums: more noise, less blur; see the measured coverage
BLUR = 2.0  # times the change by the longer steps: about what they leave of the blur of a sharp edge
LEAST_PEOPLE = 1.0  # nobody is found nowhere more surely than to one person
HELD_OUT = 0.2  # share of the reports that judge when to stop
SEED = 20130715  # the same reports give the same estimate; nothing private is drawn with it
# two-sided 50 %, 80 %, 90 %, 95 % and 99 % points of Student's t with REPLICATES - 1 degrees of freedom
STUDENT = {"0.5": 0.697, "0.8": 1.363, "0.9": 1.796, "0.95": 2.201, "0.99": 3.106}


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class PeopleEstimate:
    """People in each cell or region, and the ends of an interval, all in numbers of people."""

    people: Reals
    low: Reals
    high: Reals


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class Estimate:
    """Where the people are who sent the reports.

    `cells` holds one figure per cell, from the steps that held-out reports chose. `regions` holds sums of an estimate
    with three times the steps: in sums noise averages out and blur does not. An interval is that longer estimate -+
    (t * standard deviation + |bias|), both from reports simulated under it, widened to hold the figure it belongs to;
    for regions twice the change by the longer steps is added, for the blur that is left at sharp edges. Intervals do
    not see detail that no report could show.
    """

    reports: Integers
    steps: int
    level: str
    cells: PeopleEstimate
    regions: Mapping[str, tuple[float, float, float]] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """How many reports there were."""
        return int(self.reports.sum())

    def to_dict(self) -> dict[str, Any]:
        """The summary as JSON-able facts."""
        return {
            "reports": self.total,
            "steps": self.steps,
            "level": self.level,
            "regions": {
                name: {"people": people, "low": low, "high": high} for name, (people, low, high) in self.regions.items()
            },
        }


def estimate(
    artefact: Artefact,
    reports: Integers,
    *,
    regions: Mapping[str, Integers] | None = None,
    prior: Reals | None = None,
    level: str = "0.95",
) -> Estimate:
    """Estimate how many of the reporting people are in every cell, and in every region (name -> cells).

    `reports` counts the reports of every cell. The number of steps is chosen by held-out reports, the intervals by 12
    simulated sets of reports.
    """
    if level not in STUDENT:
        raise ParameterError("level ({level}) must be one of {levels}", level=level, levels=", ".join(STUDENT))
    counts = _checked(artefact, reports)
    collector = Collector.of(artefact.mechanism, prior=prior)
    simulation = Simulation(SEED)
    steps = collector.steps_by(*_folds(counts, simulation))
    total = float(counts.sum())
    found = total * collector.estimate(counts[None], steps=steps)[0]
    longer = collector.estimate(counts[None], steps=LONGER * steps)[0]
    simulated = simulation.resample(int(counts.sum()), collector.law_of_reports(longer), times=REPLICATES)
    again = total * collector.estimate(simulated, steps=LONGER * steps)
    return Estimate(
        reports=counts,
        steps=steps,
        level=level,
        cells=_interval(found, longer * total, again, STUDENT[level]),
        regions=_regions(found, longer * total, again, STUDENT[level], regions or {}),
    )


def _checked(artefact: Artefact, reports: Integers) -> Integers:
    counts = np.asarray(reports, dtype=np.int64)
    size = artefact.mechanism.places.size
    if counts.shape != (size,) or counts.min() < 0:
        raise ParameterError("reports must be counted for each of the {cells} cells of the map", cells=size)
    if not counts.any():
        raise ParameterError("there is no report to estimate from; collect some first")
    if counts[artefact.mechanism.weights == 0].any():
        raise ParameterError("a report names a cell that this artefact never reports; reports are damaged or forged")
    return counts


def _folds(counts: Integers, simulation: Simulation) -> tuple[Integers, Integers]:
    """Split the reports at random, three times; a split that leaves nothing on a side keeps one report there."""
    held_out = simulation.split(counts, share=HELD_OUT, times=FOLDS)
    busiest = int(np.argmax(counts))
    for fold in held_out:
        if fold.sum() == counts.sum():
            fold[busiest] -= 1
    return counts - held_out, held_out


def _interval(found: Reals, longer: Reals, again: Reals, student: float, blur: float = 0.0) -> PeopleEstimate:
    spread = np.maximum(again.std(axis=0, ddof=1), LEAST_PEOPLE)
    room = student * spread + np.abs(again.mean(axis=0) - longer) + blur
    low, high = np.maximum(longer - room, 0.0), longer + room
    return PeopleEstimate(people=found, low=np.minimum(low, found), high=np.maximum(high, found))


def _regions(
    found: Reals, longer: Reals, again: Reals, student: float, regions: Mapping[str, Integers]
) -> dict[str, tuple[float, float, float]]:
    told = {}
    for name, cells in regions.items():
        people = longer[cells].sum(keepdims=True)
        blur = BLUR * abs(float(people[0] - found[cells].sum()))
        one = _interval(people, people, again[:, cells].sum(axis=1, keepdims=True), student, blur)
        told[name] = float(one.people[0]), float(one.low[0]), float(one.high[0])
    return told
