"""What a report tells, and how far it is from the truth: the posterior, the chance of a true report, the distance.

    alpha(x) = 1 / (E w)(x)                       the norm of the law of x
    report_true(x) = alpha(x) w(x)                Pr(O = x | A = x)
    posterior(x) = alpha(x) / (E alpha)(x)        Pr(A = x | O = x) if everybody is equally likely everywhere
    distance(x) = alpha(x) (D w)(x)               expected metres between a person in x and the report

With a uniform prior the weight of a cell cancels in its posterior, and no other place is likelier than the one reported
(proposition 2 of the paper). Errata: the paper's denominator of GridE carries w, its posterior a spurious exp, and its
distance of one cell a factor of the prior; the formulas here are without them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sudare.errors import ParameterError
from sudare.methods.location.grid import PlaneGrid, distances_from, offsets
from sudare.methods.location.mechanism import Mechanism
from sudare.methods.location.nearby import NearbyKernel
from sudare.schema.arrays import Booleans, Reals

PosteriorModel = Literal["uniform", "weights"]

MAX_FFT_ERROR = 1e-7  # relative error up to which a sum is taken from an FFT; others are summed again, directly
MAX_NEARBY_ERROR = (
    1e-4  # the same for sums over pairs within reach, of maps too large to sum again; it is certified, too
)
MAX_DIRECT_SUMS = 1000  # sums that are made again, one by one
ROUNDING = 2.0**-53  # of a float; a sum of n positive terms is off by at most n times that, in any order of adding


def find_norms(mechanism: Mechanism, cells: Booleans | None = None) -> tuple[Reals, float]:
    """Find 1 / alpha at every cell that can be entered and reported (1 elsewhere), and bound its relative error.

    Or at other `cells`: there far too few reports may be near for an exact sum; then the bound is infinite.

    >>> from fractions import Fraction
    >>> from sudare.methods.location.grid import PlaneGrid
    >>> from sudare.methods.location.mechanism import FULL_WEIGHT
    >>> grid = PlaneGrid(rows=1, columns=2, cell_height_metres=100, cell_width_metres=100)
    >>> law = Mechanism(places=grid, beta_per_metre=Fraction(1, 100), weights=np.array([FULL_WEIGHT, FULL_WEIGHT]))
    >>> find_norms(law)[0].round(3).tolist()
    [1.368, 1.368]
    """
    measured, shares = mechanism.measured_cells if cells is None else cells, mechanism.shares
    sums, error = mechanism.kernel.smooth(shares), mechanism.kernel.error_of(shares)
    most = MAX_NEARBY_ERROR if isinstance(mechanism.kernel, NearbyKernel) else MAX_FFT_ERROR
    inexact = np.flatnonzero(measured & (sums * most < error))
    if inexact.size > MAX_DIRECT_SUMS and cells is not None:
        return np.where(measured, np.maximum(sums, np.finfo(float).tiny), 1.0), math.inf
    for cell in inexact[:MAX_DIRECT_SUMS].tolist():
        sums[cell] = mechanism.norm_at(cell)
    if inexact.size > MAX_DIRECT_SUMS:
        raise ParameterError(
            "the weights of {cells} cells are too small beside the others to be certified; raise them or set them to 0",
            cells=inexact.size,
        )
    by_fft = measured.copy()
    by_fft[inexact] = False
    relative = error / float(sums[by_fft].min()) if by_fft.any() else 0.0
    return np.where(measured, sums, 1.0), relative + ROUNDING * (50 + mechanism.places.size)


def find_all_norms(mechanism: Mechanism) -> Reals:
    """Find 1 / alpha at every cell that can be entered, reportable or not; 1 elsewhere."""
    norms = find_norms(mechanism)[0]
    others = mechanism.can_enter & ~mechanism.measured_cells
    if isinstance(mechanism.kernel, NearbyKernel):
        sums, error = mechanism.kernel.smooth(mechanism.shares), mechanism.kernel.error_of(mechanism.shares)
        norms = np.where(others, sums, norms)
        others &= sums * MAX_NEARBY_ERROR < error
    for cell in np.flatnonzero(others).tolist():
        norms[cell] = mechanism.norm_at(cell)
    return norms


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class MechanismMeasures:
    """The measures of a mechanism, cell by cell; NaN where people cannot be or nothing is reported."""

    posterior: Reals
    report_true: Reals
    distance: Reals
    prior: Reals

    @property
    def expected_distance(self) -> float:
        """Give the mean over where people are, in metres: the paper's SQL."""
        return float(np.nansum(self.prior * np.nan_to_num(self.distance)))

    @property
    def gap(self) -> float:
        """Give the largest posterior minus the smallest: the paper's objective f1."""
        return float(np.nanmax(self.posterior) - np.nanmin(self.posterior))

    def measures(self) -> dict[str, float]:
        """Give the figures that a certificate holds."""
        return {
            "posterior_max": float(np.nanmax(self.posterior)),
            "posterior_median": float(np.nanmedian(self.posterior)),
            "posterior_min": float(np.nanmin(self.posterior)),
            "report_true_max": float(np.nanmax(self.report_true)),
            "report_true_min": float(np.nanmin(self.report_true)),
            "expected_distance_metres": self.expected_distance,
        }


def measure_mechanism(
    mechanism: Mechanism, *, model: PosteriorModel = "uniform", prior: Reals | None = None
) -> MechanismMeasures:
    """Measure a mechanism, everybody being equally likely in every cell that can be entered and reported.

    `model="weights"` takes the weights as the prior of the posterior, too (the reading under which the paper's "after"
    comes out); `prior` takes any other, one number per cell.

    Source: Hiraishi and others, equation 3 and section 5.3.1.

    >>> from fractions import Fraction
    >>> from sudare.methods.location.grid import PlaneGrid
    >>> from sudare.methods.location.mechanism import FULL_WEIGHT
    >>> grid = PlaneGrid(rows=15, columns=15, cell_height_metres="115.6", cell_width_metres="141.5")
    >>> paper = Mechanism(places=grid, beta_per_metre=Fraction(1, 100), weights=np.full(225, FULL_WEIGHT))
    >>> round(measure_mechanism(paper).gap, 4), round(measure_mechanism(paper).expected_distance, 1)
    (0.3003, 161.1)
    """
    measured = mechanism.measured_cells
    people = share_people(mechanism, prior)
    alpha = np.where(measured, 1.0 / find_norms(mechanism)[0], 0.0)
    believed = mechanism.shares * measured if model == "weights" else people
    distance = alpha * mechanism.kernel.smooth_distance(mechanism.shares)
    return MechanismMeasures(
        posterior=_nan_outside(_share_of_smoothed(mechanism, alpha * believed), measured & (believed > 0)),
        report_true=_nan_outside(alpha * mechanism.shares, measured),
        distance=_nan_outside(distance, measured),
        prior=people,
    )


def find_posterior(mechanism: Mechanism, *, prior: Reals | None = None) -> Reals:
    """Find Pr(A = x | O = x) for every cell that can be entered and reported; NaN elsewhere."""
    measured, people = mechanism.measured_cells, share_people(mechanism, prior)
    weighted = np.where(measured, people / find_norms(mechanism)[0], 0.0)
    return _nan_outside(_share_of_smoothed(mechanism, weighted), measured & (people > 0))


def _share_of_smoothed(mechanism: Mechanism, values: Reals) -> Reals:
    """Give v / E v, a number of at most 1 whatever the FFT's error."""
    shares: Reals = values / np.maximum(mechanism.kernel.smooth(values), values + np.finfo(float).tiny)
    return shares


def find_likeliest_place(mechanism: Mechanism, cell: int, *, prior: Reals | None = None) -> tuple[int, float]:
    """Find where a collector who sees `cell` should guess, and how sure it can be.

    With a uniform prior that is the reported cell itself; with another prior it may be a busy cell beside it.
    """
    alpha = np.where(mechanism.measured_cells, 1.0 / find_norms(mechanism)[0], 0.0)
    joint = share_people(mechanism, prior) * alpha * np.exp(-mechanism.beta * distances_from(mechanism.places, cell))
    best = int(joint.argmax())
    return best, float(joint[best] / joint.sum())


def find_worst_posterior(mechanism: Mechanism, *, prior: Reals | None = None) -> Reals:
    """Find how sure a collector can be of the likeliest place, for every reported cell; NaN where nothing is reported.

    With a uniform prior the likeliest place is the reported one. With another, a window around it is searched: a place
    farther away than log(largest / own) / beta cannot win.

    >>> from fractions import Fraction
    >>> from sudare.methods.location.grid import PlaneGrid
    >>> from sudare.methods.location.mechanism import FULL_WEIGHT
    >>> grid = PlaneGrid(rows=1, columns=2, cell_height_metres=100, cell_width_metres=100)
    >>> law = Mechanism(places=grid, beta_per_metre=Fraction(1, 100), weights=np.array([FULL_WEIGHT, FULL_WEIGHT]))
    >>> find_worst_posterior(law, prior=np.array([1.0, 9.0])).round(3).tolist()
    [0.768, 0.961]
    """
    measured = mechanism.measured_cells
    weighted = np.where(measured, share_people(mechanism, prior) / find_norms(mechanism)[0], 0.0)
    sums = np.maximum(mechanism.kernel.smooth(weighted), weighted + np.finfo(float).tiny)
    return _nan_outside(np.minimum(find_largest_nearby(mechanism, weighted) / sums, 1.0), measured)


def share_people(mechanism: Mechanism, prior: Reals | None) -> Reals:
    """Give the share of people in each measured cell: equal shares, or as the prior says."""
    return share_prior(mechanism.measured_cells, prior)


def share_prior(cells: Booleans, prior: Reals | None) -> Reals:
    """Give the share of people in each of these cells: equal shares, or as the prior says."""
    people = cells.astype(np.float64)
    if prior is not None:
        given = np.asarray(prior, dtype=np.float64)
        if given.shape != people.shape or not np.isfinite(given).all() or (given < 0).any():
            raise ParameterError("prior must be numbers of at least 0, one per cell")
        people = people * given
    if not np.any(people):
        raise ParameterError("prior must be above 0 in at least one cell where people can be")
    shares: Reals = people / people.sum()
    return shares


def _nan_outside(values: Reals, cells: Booleans) -> Reals:
    return np.where(cells, values, np.nan)


# --- the likeliest place around every report, where people are not equally likely everywhere --------------------------


def find_largest_nearby(mechanism: Mechanism, values: Reals) -> Reals:
    """Find max over x of values(x) exp(-beta d(x, y)), for every reportable cell y.

    On a grid offsets are visited from the shortest, until the largest value of all, that far away, is below what every
    cell already has.

    >>> from fractions import Fraction
    >>> from sudare.methods.location.mechanism import FULL_WEIGHT
    >>> grid = PlaneGrid(rows=1, columns=3, cell_height_metres=100, cell_width_metres=100)
    >>> law = Mechanism(places=grid, beta_per_metre=Fraction(1, 100), weights=np.full(3, FULL_WEIGHT))
    >>> find_largest_nearby(law, np.array([1.0, 0.1, 0.1])).round(3).tolist()
    [1.0, 0.368, 0.135]
    """
    grid = mechanism.places
    if isinstance(mechanism.kernel, NearbyKernel):
        return mechanism.kernel.find_largest(values)
    if not isinstance(grid, PlaneGrid):
        rows = [values * np.exp(-mechanism.beta * distances_from(grid, cell)) for cell in range(grid.size)]
        return np.array([row.max() for row in rows])
    best, largest = values.reshape(grid.shape).copy(), float(values.max())
    on_grid, is_reportable = values.reshape(grid.shape), (mechanism.weights > 0).reshape(grid.shape)
    for down, right, metres in offsets(grid):
        decay = math.exp(-mechanism.beta * metres)
        if largest * decay <= float(best[is_reportable].min()):
            break
        for target, source in _slices_apart(grid.shape, down, right):
            np.maximum(best[target], on_grid[source] * decay, out=best[target])
    return best.reshape(-1)


_Slices = tuple[slice, slice]


def _slices_apart(shape: tuple[int, int], down: int, right: int) -> list[tuple[_Slices, _Slices]]:
    """Give slices of cells that are an offset apart, both ways."""
    rows, columns = shape
    upper, lower = slice(0, rows - down), slice(down, rows)
    left, far = slice(0, columns - abs(right)), slice(abs(right), columns)
    first, second = ((upper, left), (lower, far)) if right >= 0 else ((upper, far), (lower, left))
    return [(first, second), (second, first)]
