"""The noise of all pairs has its law, and a law of a tenth less is rejected; the privacy of its density on a grid.

Reference laws come from elsewhere: normal numbers from the error function, contrasts as differences of two gamma
variables, whole tables from the Wishart matrices of SciPy. Each test says what it can see; seeds are fixed.
"""

from __future__ import annotations

import functools
import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

from sudare.noise import MatrixNoise, SeededRng
from sudare.noise.normal import LazyNormals
from sudare.schema.arrays import Reals

CHANCE = 1e-6  # of a worse fit: below it a law is rejected


def contrasts(size: int) -> Reals:
    """Orthonormal vectors without mean, as columns."""
    return np.asarray(np.linalg.qr(np.column_stack([np.ones(size), np.eye(size)[:, 1:]]))[0][:, 1:])


@functools.cache
def draw_tables(sizes: tuple[int, ...], draws: int) -> Reals:
    """Noise of the tables of two attributes, in units of c: (draw, contrast, contrast)."""
    noise, rng = MatrixNoise(sizes=sizes, epsilon=Fraction(1)), SeededRng(5)
    nothing = np.zeros((sum(sizes), sum(sizes)), dtype=np.int64)
    first, second = contrasts(sizes[0]), contrasts(sizes[1])
    tables = [noise.add(nothing, rng=rng)[: sizes[0], sizes[0] :] for _ in range(draws)]
    return np.array([first.T @ table @ second for table in tables]) / float(noise.scale)


# --- normal numbers ---------------------------------------------------------------------------------------------------


def test_a_million_numbers_are_normal_and_not_a_fiftieth_wider() -> None:
    """Kolmogorov-Smirnov: a deviation 2 % off moves the law by 0.0048, and chance by 0.0027 at 1e-6."""
    values = LazyNormals(1_000_000, SeededRng(6)).floats()

    assert stats.kstest(values, "norm").pvalue > 1e-3
    assert stats.kstest(values * 1.02, "norm").pvalue < CHANCE


def test_their_moments_and_the_digits_behind_the_point_are_right() -> None:
    """Six moments to five errors; the fraction of a number is drawn evenly and bent by the refusals alone."""
    values = LazyNormals(1_000_000, SeededRng(7)).floats()

    for power, expected in enumerate((0, 1, 0, 3, 0, 15), 1):
        error = math.sqrt(stats.norm.moment(2 * power) - expected**2) / 1000
        assert abs((values**power).mean() - expected) < 5 * error
    assert abs(np.corrcoef(values[::2], values[1::2])[0, 1]) < 5 / math.sqrt(500_000)


# --- tables -----------------------------------------------------------------------------------------------------------


def gamma_difference(values: Reals, degrees: int) -> Reals:
    """P[G1 - G2 <= z] for independent gamma variables of shape `degrees`: the law of a contrast over c.

    A product of two normal numbers is half the difference of two chi-squares, and 2 nu of them are added up. The part
    above 0 is a mixture of Erlang laws: what is left of one sum of nu waiting times when the other is over.
    """
    shapes = np.arange(1, degrees + 1)
    weights = [math.comb(2 * degrees - 1 - j, degrees - 1) * 0.5 ** (2 * degrees - j) for j in shapes.tolist()]
    tails = stats.gamma.sf(np.abs(values)[:, None], shapes) @ np.array(weights)
    below: Reals = np.where(values > 0, 1 - tails, tails)
    return below


def test_single_contrasts_have_the_law_of_a_gamma_difference_and_not_one_a_tenth_narrower() -> None:
    """12,000 tables of two by two: KS sees a scale 10 % off with a chance of all but 1e-3."""
    values = draw_tables((2, 2), 12_000).ravel()

    assert stats.kstest(values, gamma_difference, args=(3,)).pvalue > 1e-3
    assert stats.kstest(values * 0.9, gamma_difference, args=(3,)).pvalue < 1e-4
    assert stats.kstest(values, gamma_difference, args=(2,)).pvalue < CHANCE


def test_contrasts_of_larger_tables_have_it_and_are_uncorrelated() -> None:
    """(4, 3): D = 5 and 6 degrees; the variance is seen to 5 %, correlations to 0.07."""
    tables = draw_tables((4, 3), 5000).reshape(5000, -1)

    assert np.abs(tables.var(axis=0) / 12 - 1).max() < 5 * math.sqrt((2 + 3 / 6) / 5000)
    assert np.abs(np.corrcoef(tables.T) - np.eye(6)).max() < 5 * math.sqrt(2 / 5000)
    for contrast in tables.T:
        assert stats.kstest(contrast, gamma_difference, args=(6,)).pvalue > 1e-4


def reference(dimension: int, first: int, draws: int) -> Reals:
    """Off-diagonal blocks of differences of SciPy's Wishart matrices."""
    law = stats.wishart(df=dimension + 1, scale=np.eye(dimension))
    random = np.random.default_rng(11)
    gaps = law.rvs(draws, random_state=random) - law.rvs(draws, random_state=random)
    return np.asarray(gaps[:, :first, first:])


@pytest.mark.parametrize("norm", [2, "fro"], ids=["largest singular value", "sum of squares"])
def test_whole_tables_have_the_law_of_wishart_differences_and_not_of_a_tenth_less(norm: Any) -> None:
    """How contrasts go together: the spectrum of tables of (4, 3) beside 40,000 of the reference."""
    mine = np.linalg.norm(draw_tables((4, 3), 5000), ord=norm, axis=(1, 2))
    theirs = np.linalg.norm(reference(5, 3, 40_000), ord=norm, axis=(1, 2))

    assert stats.ks_2samp(mine, theirs).pvalue > 1e-3
    assert stats.ks_2samp(0.9 * mine, theirs).pvalue < CHANCE


def test_tables_of_one_attribute_with_others_go_together_as_they_should() -> None:
    """E[(Z_ab Z_ac)^2] and the loop E[Z_ab Z_bc Z_ca] over three attributes of two groups, beside the reference."""
    noise, rng, nothing = MatrixNoise(sizes=(2, 2, 2), epsilon=Fraction(1)), SeededRng(6), np.zeros((6, 6), np.int64)
    drawn = np.array([noise.add(nothing, rng=rng) for _ in range(8000)]) * 2 / float(noise.scale)
    ab, ac, bc = drawn[:, 0, 2], drawn[:, 0, 4], drawn[:, 2, 4]
    law, random = stats.wishart(df=4, scale=np.eye(3)), np.random.default_rng(2)
    other = law.rvs(200_000, random_state=random) - law.rvs(200_000, random_state=random)
    for mine, theirs in (
        ((ab * ac) ** 2, (other[:, 0, 1] * other[:, 0, 2]) ** 2),
        (ab * bc * ac, other[:, 0, 1] * other[:, 1, 2] * other[:, 0, 2]),
        (np.abs(ab) + np.abs(ac) + np.abs(bc), np.abs(other[:, [0, 0, 1], [1, 2, 2]]).sum(axis=1)),
    ):
        error = math.hypot(mine.std() / math.sqrt(mine.size), theirs.std() / math.sqrt(theirs.size))
        assert abs(mine.mean() - theirs.mean()) < 5 * error


# --- the density, where it can be worked out --------------------------------------------------------------------------


def log_density(matrix: Reals, c: float) -> float:
    """ln f(Z) up to a constant, for symmetric Z of two rows.

    W = t + a reflection of length |v|, v in the plane, is positive semidefinite iff t >= |v|. With Z = (tau, w) the
    integral over t is elementary: f = const * int exp(-(2/c) max(|v|, |v + w| - tau) - tau / c) dv.
    """
    tau, shift = float(np.trace(matrix)) / 2, math.hypot((matrix[0, 0] - matrix[1, 1]) / 2, matrix[0, 1])
    radii, steps = quadrature(np.linspace(0, 1, 81) ** 2 * (16 * c + 2 * shift + 2 * abs(tau)), 12)
    angles, turns = quadrature(np.linspace(0, math.pi, 13), 20)
    far = np.sqrt(np.maximum(radii[:, None] ** 2 + shift**2 + 2 * radii[:, None] * shift * np.cos(angles), 0.0)) - tau
    least = max(0.0, (shift - tau) / 2)
    values = radii[:, None] * np.exp(-2 / c * (np.maximum(radii[:, None], far) - least))
    return math.log(float(steps @ values @ turns)) - (tau + 2 * least) / c


def quadrature(edges: Reals, nodes: int) -> tuple[Reals, Reals]:
    """Gauss's places and weights in every piece between edges."""
    places, weights = np.polynomial.legendre.leggauss(nodes)
    halves = np.diff(edges)[:, None] / 2
    return (edges[:-1, None] + halves * (1 + places)).ravel(), (halves * weights).ravel()


def matrices() -> list[Reals]:
    """A grid of symmetric matrices, near 0 and far, of all signs."""
    levels = (-6.0, -1.5, 0.0, 0.7, 5.0)
    return [
        np.array([[first, cross], [cross, second]])
        for first, second in itertools.combinations_with_replacement(levels, 2)
        for cross in (0.0, 0.8, -3.0)
    ]


def worst_losses(c: float) -> tuple[float, float]:
    """The largest gain and loss of the log density by a record of two attributes of two groups.

    h = (+-1, +-1)/sqrt 2, B = 1, so that epsilon = 1 / (2c).
    """
    changes = [np.array([[0.5, half], [half, 0.5]]) for half in (0.5, -0.5)]
    gaps = [log_density(z + change, c) - log_density(z, c) for z in matrices() for change in changes]
    return max(gaps), min(gaps)


@pytest.mark.parametrize("epsilon", [0.5, 1.0])
def test_the_density_changes_by_epsilon_at_most_and_comes_near_on_either_side(epsilon: float) -> None:
    most, least = worst_losses(1 / (2 * epsilon))

    assert most <= epsilon + 1e-4
    assert least >= -epsilon - 1e-4
    assert max(most, -least) > 0.9 * epsilon


def test_half_the_scale_breaks_the_promise() -> None:
    most, least = worst_losses(1 / 4)

    assert max(most, -least) > 1.5


def test_the_density_of_one_degree_less_is_not_bounded() -> None:
    """With D degrees W is singular at its edge: exp(-tr W/2c) / sqrt(det W), whose quotients have no bound.

    For D = 1 it shows in closed form: the difference of chi-squares of one degree has an infinite density at 0.
    """
    near = np.array([1e-6, 1e-3])
    flat, steep = stats.chi2(2).logpdf(near), stats.chi2(1).logpdf(near)

    assert flat[0] - flat[1] < 1e-3
    assert steep[0] - steep[1] > 3
