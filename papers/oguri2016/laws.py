"""How well the power law foretells k: the regressions of tables 5, 6 and 9, and figure 9."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from papers.oguri2016.walks import Measured
from sudare.methods.kanon.power_law import PowerLaw, fit_power_law


class Fit(NamedTuple):
    """A regression of measured on predicted k over the 25 numbers of cells."""

    law: PowerLaw
    r: float
    r2: float
    adjusted: float
    standard_error: float
    f: float
    error_ratio: float


def regression(measured: Measured, law: PowerLaw) -> Fit:
    from scipy.stats import f as law_of_f

    points = measured.points()
    told = np.array([law.k_at(cells) for cells, _ in points])
    true = np.array([k for _, k in points])
    r = float(np.corrcoef(told, true)[0, 1])
    slope = r * true.std() / told.std()
    rest = true - true.mean() - slope * (told - told.mean())
    free = true.size - 2
    r2 = r * r
    return Fit(
        law=law,
        r=r,
        r2=r2,
        adjusted=1 - (1 - r2) * (true.size - 1) / free,
        standard_error=float(np.sqrt((rest**2).sum() / free)),
        f=float(law_of_f.sf(r2 / (1 - r2) * free, 1, free)),
        error_ratio=float(np.maximum(true / told, told / true).mean()),
    )


def fits(tables: list[Measured], choose: Callable[[Measured], list[tuple[int, float]]]) -> list[Fit]:
    """The regressions of all tables whose chosen points make a law."""
    laws = [(one, fit_power_law(choose(one))) for one in tables]
    return [regression(one, law) for one, law in laws if law is not None]


def mean(found: list[Fit], field: str) -> float:
    return float(np.mean([getattr(one, field) for one in found]))


def normal_ks(most: int = 14, samples: int = 100_000, trials: int = 50, seed: int = 9) -> list[tuple[int, float]]:
    """Figure 9: a standard normal cut in x equal parts between -4 and 4; the mean size of the smallest."""
    rng = np.random.default_rng(seed)
    smallest = np.zeros(most + 1)
    for _ in range(trials):
        drawn = np.clip(rng.standard_normal(samples), -4, 4)
        for parts in range(2, most + 1):
            smallest[parts] += np.histogram(drawn, bins=parts, range=(-4, 4))[0].min() / trials
    return [(parts, float(smallest[parts])) for parts in range(2, most + 1)]


def plain_law(points: list[tuple[int, float]]) -> tuple[float, float, float]:
    """k = a x^b without the 1, as figure 9 prints it: a, b and R^2 in logarithms."""
    x, y = np.log(np.array(points)).T
    b, a = np.polyfit(x, y, 1)
    return float(np.exp(a)), float(b), float(np.corrcoef(x, y)[0, 1] ** 2)
