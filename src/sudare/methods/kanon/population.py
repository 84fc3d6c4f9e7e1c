"""How many persons are unique in a population of which the table is a sample: three estimates, each with its error.

    zayatz   a sample unique is a population unique as often as class sizes distributed as in the sample say
    pitman   classes as Pitman's two-parameter process makes them, by maximum likelihood
    snb      sizes of population classes are 1 + a negative binomial number, by three moments

None of them is a bound. Their errors stand in KNOWN_ERROR, as benchmarks/kanon_population.py measures them.
Source: Zayatz 1991; Pitman 1996, Hoshino 2001; Chen, Keller-McNulty 1998; Dankar et al. 2012 (comparison)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sudare.errors import ParameterError
from sudare.schema.arrays import Codes, Reals
from sudare.text import Text, text

# Estimated over true population uniques, low and high, by the share of uniques that the estimate tells: below 10 %, and
# from there on. Nine in ten of 68 samples of made-up populations and 68 of fourteen tables of pydataset taken as
# populations (DoctorContacts, BudgetFood, VietNamI, diamonds, HI, MedExp, Star, flchain, VietNamH, movies, VerbAgg,
# rwm, InstEval, baseball), 2 % to 20 % sampled, and a little more.
SHARES = (0.0, 0.1)
KNOWN_ERROR: Mapping[str, tuple[tuple[float, float], ...]] = {
    "zayatz": ((0.7, 40.0), (1.1, 140.0)),
    "pitman": ((0.6, 18.0), (0.9, 9.0)),
    "snb": ((0.1, 15.0), (0.5, 18.0)),
}

LEAST_SHARE = 1e-5  # of the population: a smaller share would be written as 0.000 %


def find_band(share: float) -> int:
    """Find where a told share stands in SHARES."""
    return sum(share >= least for least in SHARES[1:])


@dataclass(frozen=True, kw_only=True, slots=True)
class UniquesEstimate:
    """Persons of the population whom nobody equals, as one model estimates them; `share` is of the population."""

    model: str
    uniques: float
    share: float

    def describe(self) -> Text:
        """Say it with what is known of its error."""
        low, high = KNOWN_ERROR[self.model][find_band(self.share)]
        if self.share < LEAST_SHARE:
            return text(
                "{model}: less than {share} of the population is unique (where it said so of populations that are"
                " known, it was {low} to {high} times the truth)",
                model=self.model,
                share=f"{LEAST_SHARE:.3%}",
                low=f"{low:g}",
                high=f"{high:g}",
            )
        return text(
            "{model}: about {share} of the population is unique (where it said so of populations that are known, it was"
            " {low} to {high} times the truth)",
            model=self.model,
            share=f"{self.share:.3%}",
            low=f"{low:g}",
            high=f"{high:g}",
        )


def estimate_uniques(sizes: Codes, fraction: float) -> tuple[UniquesEstimate, ...]:
    """Estimate the population uniques from the sizes of the classes of a sample of this fraction.

    Models that do not fit (no uniques in the sample, or no solution) are left out.

    >>> [estimate.model for estimate in estimate_uniques(np.array([1, 1, 1, 1, 2, 2, 3, 5, 9]), 0.1)]
    ['zayatz', 'pitman', 'snb']
    """
    if not 0 < fraction <= 1:
        raise ParameterError("sample fraction ({fraction}) must be above 0 and at most 1", fraction=fraction)
    sizes = sizes[sizes > 0]
    rows, ones = int(sizes.sum()), int((sizes == 1).sum())
    people = rows / fraction
    found = {
        "zayatz": _zayatz(sizes, fraction),
        "pitman": _pitman(sizes, people) if ones and (sizes == 2).any() else None,
        "snb": _shifted_negative_binomial(sizes, fraction) if ones else None,
    }
    return tuple(
        UniquesEstimate(model=model, uniques=min(uniques, people), share=min(1.0, uniques / people))
        for model, uniques in found.items()
        if uniques is not None and math.isfinite(uniques)
    )


def _zayatz(sizes: Codes, fraction: float) -> float:
    """Weigh, by Bayes, the sizes that a class of the population may have if it has one row in the sample."""
    values, counts = np.unique(sizes, return_counts=True)
    share = counts / counts.sum()
    chance_of_one = values * fraction * (1 - fraction) ** (values - 1)
    total = float((share * chance_of_one).sum())
    ones = float(counts[values == 1].sum())
    return 0.0 if total == 0 else ones * float(share[values == 1].sum()) * fraction / total / fraction


def _pitman(sizes: Codes, people: float) -> float | None:
    """Fit theta and alpha by maximum likelihood: Gamma(theta + 1) / Gamma(theta + alpha) people^alpha uniques."""
    from scipy.optimize import minimize
    from scipy.special import expit, gammaln

    rows, classes = int(sizes.sum()), len(sizes)
    values, counts = np.unique(sizes, return_counts=True)

    def minus_log_likelihood(point: Reals) -> float:
        theta, alpha = math.exp(min(float(point[0]), 40.0)), float(expit(point[1]))
        if not 1e-9 < alpha < 1 - 1e-9:
            return math.inf
        steps = np.log(theta + alpha * np.arange(1, classes)).sum()
        within = float((counts * (gammaln(values - alpha) - gammaln(1 - alpha))).sum())
        return -float(steps - (gammaln(theta + rows) - gammaln(theta + 1)) + within)

    fitted = minimize(minus_log_likelihood, x0=np.array([math.log(classes), 0.0]), method="Nelder-Mead")
    theta, alpha = math.exp(min(float(fitted.x[0]), 40.0)), float(expit(fitted.x[1]))
    return math.exp(min(gammaln(theta + 1) - gammaln(theta + alpha) + alpha * math.log(people), 600.0))


def _shifted_negative_binomial(sizes: Codes, fraction: float) -> float | None:
    """Fit sizes 1 + NB(shape, p) of the population to the rows, classes and uniques of the sample."""
    from scipy.optimize import minimize
    from scipy.special import expit

    people, classes, ones = float(sizes.sum()) / fraction, float(len(sizes)), float((sizes == 1).sum())
    away = 1 - fraction  # a row is not in the sample

    def moments(point: Reals) -> tuple[float, float, float]:
        shape, p = math.exp(min(float(point[0]), 20.0)), float(np.clip(expit(point[1]), 1e-12, 1 - 1e-12))
        count = people / (1 + shape * (1 - p) / p)
        base = p / (1 - (1 - p) * away)
        empty = away * base**shape
        single = fraction * base**shape * (1 + away * shape * (1 - p) / (1 - (1 - p) * away))
        return count * p**shape, count * (1 - empty), count * single

    def misfit(point: Reals) -> float:
        _, expected_classes, expected_ones = moments(point)
        return math.log(max(expected_classes, 1e-9) / classes) ** 2 + math.log(max(expected_ones, 1e-9) / ones) ** 2

    starts = [np.array([shape, p]) for shape in (-3.0, 0.0) for p in (-4.0, 0.0)]
    fitted = min((minimize(misfit, x0=start, method="Nelder-Mead") for start in starts), key=lambda each: each.fun)
    return moments(fitted.x)[0] if fitted.fun < 1e-2 else None
