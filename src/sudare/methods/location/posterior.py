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

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sudare.errors import ParameterError
from sudare.methods.location.mechanism import Mechanism
from sudare.schema.arrays import Reals

PosteriorModel = Literal["uniform", "weights"]
MODELS = ("uniform", "weights")

SOUND = 1e-7  # relative error of a sum that is taken from an FFT as it is
ROUNDING = 2.0**-53  # of a float; a sum of n positive terms is off by at most n times that, however it is added up
MOST_ANEW = 1000  # sums made anew, one by one, where the FFT is not good enough


def norms(mechanism: Mechanism) -> tuple[Reals, float]:
    """1 / alpha at every cell that can be entered and reported (1 elsewhere), and a bound of its relative error.

    >>> from fractions import Fraction
    >>> from sudare.methods.location.grid import PlaneGrid
    >>> from sudare.methods.location.mechanism import ONE
    >>> grid = PlaneGrid(rows=1, columns=2, cell_height_metres=100, cell_width_metres=100)
    >>> made = Mechanism(places=grid, beta_per_metre=Fraction(1, 100), weights=np.array([ONE, ONE]))
    >>> norms(made)[0].round(3).tolist()
    [1.368, 1.368]
    """
    inside, shares = mechanism.usual, mechanism.shares
    sums, error = mechanism.kernel.smooth(shares), mechanism.kernel.error_of(shares)
    poor = np.flatnonzero(inside & (sums * SOUND < error))
    for cell in poor[:MOST_ANEW].tolist():
        sums[cell] = mechanism.sum_at(cell)
    if poor.size > MOST_ANEW:
        raise ParameterError(
            "the weights of {cells} cells are too small to be certified beside the others; raise them or set them to 0",
            cells=poor.size,
        )
    fine = inside.copy()
    fine[poor] = False
    relative = error / float(sums[fine].min()) if fine.any() else 0.0
    return np.where(inside, sums, 1.0), relative + ROUNDING * (50 + mechanism.places.size)


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class MechanismMeasures:
    """The measures of a mechanism, cell by cell; NaN where people cannot be or nothing is reported."""

    posterior: Reals
    report_true: Reals
    distance: Reals
    prior: Reals

    @property
    def expected_distance(self) -> float:
        """SQL of the paper: the mean over where people are, in metres."""
        return float(np.nansum(self.prior * np.nan_to_num(self.distance)))

    @property
    def gap(self) -> float:
        """The paper's objective f1: the largest posterior minus the smallest."""
        return float(np.nanmax(self.posterior) - np.nanmin(self.posterior))

    def measures(self) -> dict[str, float]:
        """The figures a certificate holds."""
        return {
            "posterior_max": float(np.nanmax(self.posterior)),
            "posterior_median": float(np.nanmedian(self.posterior)),
            "posterior_min": float(np.nanmin(self.posterior)),
            "report_true_max": float(np.nanmax(self.report_true)),
            "report_true_min": float(np.nanmin(self.report_true)),
            "expected_distance_metres": self.expected_distance,
        }


def evaluate(
    mechanism: Mechanism, *, model: PosteriorModel = "uniform", prior: Reals | None = None
) -> MechanismMeasures:
    """Measure a mechanism, everybody being equally likely in every cell that can be entered and reported.

    `model="weights"` takes the weights as the prior of the posterior, too (the reading under which the paper's "after"
    comes out); `prior` takes any other, one number per cell.

    Source: Hiraishi and others, equation 3 and section 5.3.1.

    >>> from fractions import Fraction
    >>> from sudare.methods.location.grid import PlaneGrid
    >>> from sudare.methods.location.mechanism import ONE
    >>> grid = PlaneGrid(rows=15, columns=15, cell_height_metres="115.6", cell_width_metres="141.5")
    >>> paper = Mechanism(places=grid, beta_per_metre=Fraction(1, 100), weights=np.full(225, ONE))
    >>> round(evaluate(paper).gap, 4), round(evaluate(paper).expected_distance, 1)
    (0.3003, 161.1)
    """
    inside = mechanism.usual
    where = _prior(mechanism, prior)
    alpha = np.where(inside, 1.0 / norms(mechanism)[0], 0.0)
    belief = mechanism.shares * inside if model == "weights" else where
    told = _told(mechanism, alpha * belief)
    distance = alpha * mechanism.kernel.smooth_distance(mechanism.shares)
    return MechanismMeasures(
        posterior=_only(told, inside & (belief > 0)),
        report_true=_only(alpha * mechanism.shares, inside),
        distance=_only(distance, inside),
        prior=where,
    )


def posterior(mechanism: Mechanism, *, prior: Reals | None = None) -> Reals:
    """Pr(A = x | O = x) for every cell that can be entered and reported; NaN elsewhere."""
    inside, where = mechanism.usual, _prior(mechanism, prior)
    told = _told(mechanism, np.where(inside, where / norms(mechanism)[0], 0.0))
    return _only(told, inside & (where > 0))


def _told(mechanism: Mechanism, weighed: Reals) -> Reals:
    """weighed / E weighed, a number of at most 1 whatever the FFT's error."""
    shares: Reals = weighed / np.maximum(mechanism.kernel.smooth(weighed), weighed + np.finfo(float).tiny)
    return shares


def likeliest_place(mechanism: Mechanism, cell: int, *, prior: Reals | None = None) -> tuple[int, float]:
    """Where a collector who sees `cell` should guess, and how sure it can be.

    With a uniform prior that is the reported cell itself; with another prior it may be a busy cell beside it.
    """
    from sudare.methods.location.grid import metres_from

    alpha = np.where(mechanism.usual, 1.0 / norms(mechanism)[0], 0.0)
    joint = _prior(mechanism, prior) * alpha * np.exp(-mechanism.beta * metres_from(mechanism.places, cell))
    best = int(joint.argmax())
    return best, float(joint[best] / joint.sum())


def worst_posterior(mechanism: Mechanism, *, prior: Reals | None = None) -> Reals:
    """For every reported cell, how sure a collector can be of the likeliest place; NaN where nothing is reported.

    With a uniform prior the likeliest place is the reported one. With another, a window around it is searched: a place
    farther away than log(largest / own) / beta cannot win.

    >>> from fractions import Fraction
    >>> from sudare.methods.location.grid import PlaneGrid
    >>> from sudare.methods.location.mechanism import ONE
    >>> grid = PlaneGrid(rows=1, columns=2, cell_height_metres=100, cell_width_metres=100)
    >>> made = Mechanism(places=grid, beta_per_metre=Fraction(1, 100), weights=np.array([ONE, ONE]))
    >>> worst_posterior(made, prior=np.array([1.0, 9.0])).round(3).tolist()
    [0.768, 0.961]
    """
    from sudare.methods.location.tight import largest_nearby

    weighed = np.where(mechanism.usual, _prior(mechanism, prior) / norms(mechanism)[0], 0.0)
    sums = np.maximum(mechanism.kernel.smooth(weighed), weighed + np.finfo(float).tiny)
    return _only(np.minimum(largest_nearby(mechanism, weighed) / sums, 1.0), mechanism.usual)


def check_model(model: str) -> None:
    """Refuse a posterior model that is not one of the two.

    >>> check_model("uniform")
    """
    if model not in MODELS:
        raise ParameterError("posterior_model ({model}) must be uniform or weights", model=model)


def _prior(mechanism: Mechanism, prior: Reals | None) -> Reals:
    inside = mechanism.usual.astype(np.float64)
    if prior is not None:
        given = np.asarray(prior, dtype=np.float64)
        if given.shape != inside.shape or not np.isfinite(given).all() or (given < 0).any():
            raise ParameterError("prior must be numbers of at least 0, one per cell")
        inside = inside * given
    if not np.any(inside):
        raise ParameterError("prior must be above 0 for a cell where people can be")
    share: Reals = inside / inside.sum()
    return share


def _only(values: Reals, here: NDArray[np.bool_]) -> Reals:
    return np.where(here, values, np.nan)
