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

from sudare.errors import ParameterError
from sudare.methods.location.device_file import DeviceFile
from sudare.methods.location.hidden import HiddenMechanism
from sudare.methods.location.kernel import ConvolutionKernel, DenseKernel, Kernel
from sudare.methods.location.mechanism import FULL_WEIGHT, Mechanism
from sudare.methods.location.posterior import find_norms
from sudare.noise.public import Simulation
from sudare.schema.arrays import Booleans, Integers, Reals

Smooth = Callable[[Reals], Reals]

MAX_STEPS = 300
STEPS_WITHOUT_GAIN = 10  # in held-out likelihood, after which no later step is expected to gain
MAX_BATCH = 2**22  # numbers in one batch of transforms
MAX_MATRIX = 10**8  # numbers in the matrix of a law of hidden reports


@dataclass(frozen=True, kw_only=True, eq=False)
class Collector:
    """The arithmetic of one mechanism; arrays are (samples, cells), so that replicates go through one transform.

    >>> from fractions import Fraction
    >>> from sudare.methods.location.grid import PlaneGrid
    >>> from sudare.methods.location.mechanism import FULL_WEIGHT
    >>> grid = PlaneGrid(rows=1, columns=2, cell_height_metres=100, cell_width_metres=100)
    >>> law = Mechanism(places=grid, beta_per_metre=Fraction(1, 100), weights=np.array([FULL_WEIGHT, FULL_WEIGHT]))
    >>> Collector.of(law).estimate(np.array([[600, 400]]), steps=100).round(3).tolist()
    [[0.716, 0.284]]
    """

    alpha: Reals
    weights: Reals
    start: Reals
    smooth: Smooth
    back: Smooth

    @classmethod
    def of(cls, mechanism: Mechanism | HiddenMechanism, *, prior: Reals | None = None) -> Collector:
        """Prepare a map; `prior` (default: even over where people can be) is where the steps start."""
        can_enter = mechanism.can_enter
        if isinstance(mechanism, HiddenMechanism):
            return cls._of_hidden(mechanism, _choose_start(can_enter, prior))
        smooth = make_smoother(mechanism.kernel)
        return cls(
            alpha=np.where(can_enter, 1 / find_norms(mechanism)[0], 0.0),
            weights=mechanism.shares,
            start=_choose_start(can_enter, prior),
            smooth=smooth,
            back=smooth,
        )

    @classmethod
    def _of_hidden(cls, law: HiddenMechanism, start: Reals) -> Collector:
        """Prepare a law of hidden reports: the kernel is a matrix of cells by reports, without the weights."""
        if law.places.size * law.reports > MAX_MATRIX:
            raise ParameterError(
                "an estimate from {reports} hidden reports on {cells} cells is too large; publish with mode sharp",
                reports=law.reports,
                cells=law.places.size,
            )
        kernel = np.exp(-law.exponents(np.arange(law.places.size), np.arange(law.reports)))
        return cls(
            alpha=np.where(law.can_enter, 1 / law.sums(), 0.0),
            weights=law.columns[:, 3] / FULL_WEIGHT,
            start=start,
            smooth=lambda values: values @ kernel,
            back=lambda values: values @ kernel.T,
        )

    def law_of_reports(self, shares: Reals) -> Reals:
        """Give the probability of every report if people are spread like `shares` (cells)."""
        law = np.maximum(self.weights * self.smooth((self.alpha * shares)[None])[0], 0.0)
        normed: Reals = law / law.sum()
        return normed

    def estimate(self, counts: Integers, *, steps: int) -> Reals:
        """Run so many steps for every row of counts; rows of the result add up to 1."""
        shares = counts / counts.sum(axis=1, keepdims=True)
        theta = np.broadcast_to(self.start, (len(shares), len(self.start))).copy()
        for _ in range(steps):
            theta = self._step(theta, shares, self._mix(theta))
        normed: Reals = theta / theta.sum(axis=1, keepdims=True)
        return normed

    def choose_steps(self, seen: Integers, held_out: Integers, *, most: int = MAX_STEPS) -> int:
        """Count the steps on `seen` after which the reports held out are likeliest, over all rows together."""
        shares = seen / seen.sum(axis=1, keepdims=True)
        theta = np.broadcast_to(self.start, (len(shares), len(self.start))).copy()
        occurring = np.nonzero(held_out)
        best, best_step = -np.inf, 0
        for step in range(most + 1):
            mix = self._mix(theta)
            likelihood = float((held_out[occurring] * np.log(mix[occurring])).sum())
            if likelihood > best:
                best, best_step = likelihood, step
            if step - best_step >= STEPS_WITHOUT_GAIN:
                break
            theta = self._step(theta, shares, mix)
        return best_step

    def _mix(self, theta: Reals) -> Reals:
        """E(alpha theta); never less than its own term, which an FFT's absolute error could drown."""
        weighted = self.alpha * theta
        mixed = self.smooth(weighted)
        if mixed.shape == weighted.shape and self.smooth is self.back:
            mixed = np.maximum(mixed, weighted)
        return np.maximum(mixed, np.finfo(np.float64).tiny)

    def _step(self, theta: Reals, shares: Reals, mix: Reals) -> Reals:
        moved: Reals = theta * self.alpha * np.maximum(self.back(shares / mix), 0.0)
        return moved


def make_smoother(kernel: Kernel) -> Smooth:
    """Make E v for many v at once, (samples, cells) -> (samples, cells)."""
    if isinstance(kernel, DenseKernel):
        decay = kernel.decay
        return lambda values: values @ decay.T
    if not isinstance(kernel, ConvolutionKernel):
        return lambda values: np.array([kernel.smooth(sample) for sample in values])
    rows = max(1, MAX_BATCH // (kernel.padded[0] * kernel.padded[1]))

    def smooth(values: Reals) -> Reals:
        return np.concatenate([_convolve(kernel, values[at : at + rows]) for at in range(0, len(values), rows)])

    return smooth


def _convolve(kernel: ConvolutionKernel, values: Reals) -> Reals:
    from scipy import fft

    height, width = kernel.shape
    spectrum = fft.rfft2(values.reshape(-1, height, width), kernel.padded, axes=(1, 2), workers=-1)
    spectrum *= kernel.decay
    whole: Reals = fft.irfft2(spectrum, kernel.padded, axes=(1, 2), workers=-1)
    sums: Reals = whole[:, :height, :width].reshape(len(values), -1)
    return sums


def _choose_start(can_enter: Booleans, prior: Reals | None) -> Reals:
    if prior is None:
        even: Reals = can_enter / can_enter.sum()
        return even
    given = np.where(can_enter, np.asarray(prior, dtype=np.float64), 0.0)
    if len(prior) != len(can_enter) or not np.isfinite(given).all() or given.min() < 0 or given.sum() <= 0:
        raise ParameterError(
            "the prior must have one number of at least 0 for each cell, and be above 0 in a cell where people can be"
        )
    # a cell of prior 0 could never be found; a little everywhere lets reports speak against the prior
    mixed: Reals = 0.99 * given / given.sum() + 0.01 * can_enter / can_enter.sum()
    return mixed


# --- people per cell and region, with intervals -----------------------------------------------------------------------
#
# How often the intervals hold is measured in tests/unit/test_location_collector.py.

REPLICATES = 12  # sets of reports simulated under the estimate
FOLDS = 3  # random splits into reports seen and held out
HELD_OUT = 0.2  # share of the reports that judge when to stop
LONGER = 3  # times the chosen steps for intervals and sums: more noise, less blur
BLUR = 2.0  # times the change by the longer steps: about what they leave of the blur of a sharp edge
MIN_SPREAD = 1.0  # people: no interval says more exactly that nobody is there
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
class DensityEstimate:
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
        """Count the reports."""
        return int(self.reports.sum())

    def to_dict(self) -> dict[str, Any]:
        """Give the summary as JSON-able facts."""
        return {
            "reports": self.total,
            "steps": self.steps,
            "level": self.level,
            "regions": {
                name: {"people": people, "low": low, "high": high} for name, (people, low, high) in self.regions.items()
            },
        }


def estimate_people(
    device_file: DeviceFile,
    reports: Integers,
    *,
    regions: Mapping[str, Integers] | None = None,
    prior: Reals | None = None,
    level: str = "0.95",
) -> DensityEstimate:
    """Estimate how many of the reporting people are in every cell, and in every region (name -> cells).

    `reports` counts the reports of every cell. The number of steps is chosen by held-out reports, the intervals by 12
    simulated sets of reports.
    """
    if level not in STUDENT:
        raise ParameterError("level ({level}) must be one of {levels}", level=level, levels=", ".join(STUDENT))
    counts = _check_counts(device_file, reports)
    collector = Collector.of(device_file.mechanism, prior=prior)
    simulation = Simulation(SEED)
    steps = collector.choose_steps(*_split_reports(counts, simulation))
    total = float(counts.sum())
    people = total * collector.estimate(counts[None], steps=steps)[0]
    longer = collector.estimate(counts[None], steps=LONGER * steps)[0]
    simulated = simulation.resample(int(counts.sum()), collector.law_of_reports(longer), times=REPLICATES)
    replicates = total * collector.estimate(simulated, steps=LONGER * steps)
    return DensityEstimate(
        reports=counts,
        steps=steps,
        level=level,
        cells=_make_intervals(people, longer * total, replicates, STUDENT[level]),
        regions=_sum_regions(people, longer * total, replicates, STUDENT[level], regions or {}),
    )


def _check_counts(device_file: DeviceFile, reports: Integers) -> Integers:
    counts = np.asarray(reports, dtype=np.int64)
    size = device_file.mechanism.reports
    if counts.shape != (size,) or counts.min() < 0:
        raise ParameterError("reports must be counted for each of the {cells} cells of the map", cells=size)
    if not counts.any():
        raise ParameterError("there is no report to estimate from; collect some first")
    if isinstance(device_file.mechanism, Mechanism) and counts[device_file.mechanism.weights == 0].any():
        raise ParameterError(
            "a report names a cell that this device file never reports; the reports are damaged or forged"
        )
    return counts


def _split_reports(counts: Integers, simulation: Simulation) -> tuple[Integers, Integers]:
    """Split the reports at random, three times; a split that leaves nothing on a side keeps one report there."""
    held_out = simulation.split(counts, share=HELD_OUT, times=FOLDS)
    busiest = int(np.argmax(counts))
    for fold in held_out:
        if fold.sum() == counts.sum():
            fold[busiest] -= 1
    return counts - held_out, held_out


def _make_intervals(
    people: Reals, longer: Reals, replicates: Reals, student: float, blur: float = 0.0
) -> PeopleEstimate:
    """Lay intervals around the longer estimate, wide enough to hold the figures they belong to."""
    spread = np.maximum(replicates.std(axis=0, ddof=1), MIN_SPREAD)
    half_width = student * spread + np.abs(replicates.mean(axis=0) - longer) + blur
    low, high = np.maximum(longer - half_width, 0.0), longer + half_width
    return PeopleEstimate(people=people, low=np.minimum(low, people), high=np.maximum(high, people))


def _sum_regions(
    people: Reals, longer: Reals, replicates: Reals, student: float, regions: Mapping[str, Integers]
) -> dict[str, tuple[float, float, float]]:
    """Give people, low and high of every region."""
    sums = {}
    for name, cells in regions.items():
        total = longer[cells].sum(keepdims=True)
        blur = BLUR * abs(float(total[0] - people[cells].sum()))
        region = _make_intervals(total, total, replicates[:, cells].sum(axis=1, keepdims=True), student, blur)
        sums[name] = float(region.people[0]), float(region.low[0]), float(region.high[0])
    return sums
