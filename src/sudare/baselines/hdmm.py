"""HDMM: a strategy of counts chosen for a workload before any data is seen; its expected error, not a table."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sudare.baselines.base import check_choice
from sudare.baselines.hdmm_marginals import marginals_error
from sudare.baselines.hdmm_workloads import Workload, choices
from sudare.baselines.plain import changed_cells, either_promise
from sudare.privacy import Guarantee, Neighbours, exact_epsilon
from sudare.schema import Unit

Reals = NDArray[np.float64]

TEMPLATES = ("kron", "marginals")
SWEEPS = 8
STEPS = 40  # of L-BFGS for one attribute in one sweep


@dataclass(frozen=True, kw_only=True, slots=True)
class Hdmm:
    """Measure the counts of a strategy A with noise, and answer the workload W by least squares: its expected error.

    mean squared error = 2 (s |A|_1/epsilon)^2 tr(W^T W (A^T A)^-1)/(rows of W),  |A|_1 = largest column sum of |A|

    template "kron"       A a product of p-Identity matrices, one an attribute (OPT_kron; what the paper used)
    template "marginals"  A all marginal tables, each with a weight of its own (OPT_marg)

    s is 2 for replace-one and 1 for add/remove. The optimum is sought by L-BFGS and is never above that of Identity for
    "kron". It looks at the schema and the workload only. The union templates of HDMM are not built.

    Guarantee: measuring A with Laplace noise of that scale is epsilon-DP; here nothing is measured and nothing is
    drawn.
    Error: what this tells, exactly in expectation; it does not depend on the data.
    Source: McKenna, Miklau, Hay, Machanavajjhala 2018, sections 6 and 7; Li et al., The matrix mechanism, 2015

    >>> from sudare.schema import Attribute, Schema, Values
    >>> pair = tuple(Attribute(name=name, domain=Values(("0", "1"))) for name in "ab")
    >>> cells = Workload.of(Schema(name="s", attributes=pair), "marginals", 2)
    >>> round(Hdmm(epsilon=1).expected_rmse(cells, neighbours="add-remove"), 3)  # Identity is best
    1.414
    """

    epsilon: Fraction | str | int | float
    template: Literal["kron", "marginals"] = "kron"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", exact_epsilon(self.epsilon))
        check_choice("template", self.template, TEMPLATES)

    def guarantee(self, *, unit: Unit | None = None, neighbours: Neighbours | None = None) -> Guarantee:
        """Tell the promise before any data is opened."""
        return either_promise(Fraction(self.epsilon), unit=unit, neighbours=neighbours)

    def expected_rmse(self, workload: Workload, *, neighbours: Neighbours | None = None) -> float:
        """Root mean squared error over the workload, of the best strategy found."""
        error = kron_error(workload) if self.template == "kron" else marginals_error(workload)
        return rmse(error, epsilon=Fraction(self.epsilon), neighbours=neighbours)


def rmse(mean_square: float, *, epsilon: Fraction, neighbours: Neighbours | None) -> float:
    """The error for Laplace noise, from that for noise of variance 1."""
    return math.sqrt(2 * mean_square) * changed_cells(neighbours) / float(epsilon)


def kron_error(workload: Workload) -> float:
    """Mean squared error, noise of variance 1, of the best product of p-Identity strategies that is found.

    Three searches: from Identity, from strategies that nearly sum over all values, and from uneven ones. A search that
    starts at Identity never ends above it.
    """
    shapes = [(-(-size // 16), size) for size in workload.sizes]
    firsts = [[np.zeros(shape) for shape in shapes]]
    firsts += [list(first) for first in zip(*(starts(*shape, height=1.0) for shape in shapes), strict=True)]
    return min(_descend(workload, strategies) for strategies in firsts)


def _descend(workload: Workload, strategies: list[Reals]) -> float:
    """Improve one attribute after another: with the others held, the error is linear in tr(G_i M_i) and 1^T M_i 1."""
    known = [inverse(theta) for theta in strategies]
    inside = [float((gram * one).sum()) for gram, one in zip(workload.grams, known, strict=True)]
    outside = [float(one.sum()) for one in known]
    for _ in range(SWEEPS):
        before = workload.mean_square(inside, outside)
        for place, gram in enumerate(workload.grams):
            rest = choices(_without(inside, place), _without(outside, place), workload.ways)
            target = (rest[workload.ways - 1] * gram + rest[workload.ways]) / max(rest[-2:])
            strategies[place] = p_identity(target, start=strategies[place])
            one = inverse(strategies[place])
            inside[place], outside[place] = float((gram * one).sum()), float(one.sum())
        if workload.mean_square(inside, outside) > 0.998 * before:
            break
    return workload.mean_square(inside, outside)


def p_identity(gram: Reals, *, start: Reals) -> Reals:
    """Find the p rows Theta >= 0 for which A = [I; Theta], columns scaled to sum 1, has the least tr(G (A^T A)^-1)."""
    from scipy.optimize import minimize  # slow to import

    rows, size = start.shape
    best, least = start, p_identity_error(start, gram)[0]
    unit = least  # an error near 1 keeps the first step of L-BFGS short
    for first in (start,) if start.any() else starts(rows, size):
        found = minimize(
            lambda flat: _flat(p_identity_error(flat.reshape(rows, size), gram), unit),
            first.ravel(),
            jac=True,
            method="L-BFGS-B",
            bounds=[(0.0, None)] * start.size,
            options={"maxiter": STEPS, "ftol": 1e-6},
        )
        if found.fun * unit < least:
            best, least = found.x.reshape(rows, size), found.fun * unit
    return best


def starts(rows: int, size: int, *, height: float = 0.2) -> tuple[Reals, Reals]:
    """Where a search begins: all rows uneven, or one row that is nearly the sum over all values."""
    uneven = np.random.default_rng(size).uniform(0.0, height, (rows, size))
    alone = np.zeros((rows, size))
    alone[0] = uneven[0] / 10 + height / 4
    return uneven, alone


def p_identity_error(theta: Reals, gram: Reals) -> tuple[float, Reals]:
    """The error tr(G (A^T A)^-1) and its gradient.

    With s = 1 + column sums of Theta and R = (I + Theta^T Theta)^-1: (A^T A)^-1 = diag(s) R diag(s).
    """
    scale, core = _parts(theta)
    weighted = gram * core
    pulled = theta @ core @ (gram * np.outer(scale, scale)) @ core
    return float(scale @ weighted @ scale), 2 * (weighted @ scale)[None, :] - 2 * pulled


def inverse(theta: Reals) -> Reals:
    """(A^T A)^-1 of a p-Identity strategy.

    >>> inverse(np.zeros((1, 2))).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    scale, core = _parts(theta)
    found: Reals = core * np.outer(scale, scale)
    return found


def _parts(theta: Reals) -> tuple[Reals, Reals]:
    inner = np.linalg.inv(np.eye(len(theta)) + theta @ theta.T)
    return 1 + theta.sum(axis=0), np.eye(theta.shape[1]) - theta.T @ inner @ theta


def _flat(found: tuple[float, Reals], unit: float) -> tuple[float, Reals]:
    return found[0] / unit, found[1].ravel() / unit


def _without(values: list[float], place: int) -> list[float]:
    return values[:place] + values[place + 1 :]
