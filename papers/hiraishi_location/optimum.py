"""The prior-aware modes beside the optimum: the linear programme over all laws of a small map.

    minimise sum over x, y of prior(x) P(y|x) d(x, y)   with  P(y|x) <= exp(epsilon d(x, x')) P(y|x'),  P a law

36 cells have 36 x 36 unknowns and 45,360 inequalities. Those between neighbours are taken first; others are added where
the solution breaks them, until none is broken, so that the end is the optimum of all (HiGHS). The fair modes under a
prior are beside it with what they cost: the greatest posterior of any place over that of half the reports.
Source of the programme: Bordenabe, Chatzikokolakis, Palamidessi 2014.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sudare.methods.location import Location
from sudare.methods.location.device_file import certify_law
from sudare.methods.location.grid import PlaneGrid
from sudare.methods.location.hidden import HiddenMechanism, measure_hidden, measure_told
from sudare.methods.location.kernel import distance_table

Numbers = NDArray[np.float64]
SMALL = PlaneGrid(rows=6, columns=6, cell_height_metres="115.6", cell_width_metres="141.5")
OPTIMUM_EPSILONS = ("0.002", "0.005", "0.01", "0.02")
TOWNS: dict[str, int | None] = {"even": None, "town 71": 71, "town 72": 72, "town 73": 73}  # seeds nobody tuned on
ROUNDS = 30  # of adding broken inequalities; a handful is enough
BROKEN = 1e-9


def make_people(seed: int | None) -> Numbers:
    """Two centres on a low ground, each cell off by a random factor; even without a seed."""
    if seed is None:
        return np.full(SMALL.size, 1 / SMALL.size)
    numbers = np.random.default_rng(seed)
    rows, columns = np.divmod(np.arange(SMALL.size), SMALL.columns)
    people = np.full(SMALL.size, 0.02)
    for _ in range(2):
        row, column = numbers.uniform(0, SMALL.rows, 2)
        people += np.exp(-((rows - row) ** 2 + (columns - column) ** 2) / 2)
    people *= numbers.lognormal(0, 0.8, SMALL.size)
    shares: Numbers = people / people.sum()
    return shares


def solve_optimum(grid: PlaneGrid, epsilon: float, people: Numbers) -> float:
    """Give the least expected distance of any law with this epsilon per metre."""
    from scipy.optimize import linprog
    from scipy.sparse import coo_matrix, csr_matrix, identity, kron

    size, metres = grid.size, distance_table(grid)
    factors = np.exp(epsilon * metres)
    ones = kron(identity(size), csr_matrix(np.ones((1, size))))
    is_taken = np.zeros((size, size, size), dtype=np.bool_)  # (x, x', y)
    is_taken[(metres > 0) & (metres <= 1.5 * metres[metres > 0].min())] = True
    for _ in range(ROUNDS):
        first, second, report = np.nonzero(is_taken)
        rows = np.arange(len(first))
        matrix = coo_matrix(
            (
                np.concatenate([np.ones(len(rows)), -factors[first, second]]),
                (np.concatenate([rows, rows]), np.concatenate([first * size + report, second * size + report])),
            ),
            shape=(len(rows), size * size),
        ).tocsr()
        found = linprog(
            (people[:, None] * metres).reshape(-1),
            A_ub=matrix,
            b_ub=np.zeros(len(rows)),
            A_eq=ones,
            b_eq=np.ones(size),
            bounds=(0, None),
            method="highs-ipm",
        )
        if found.x is None:
            raise RuntimeError(f"no optimum at epsilon {epsilon}: {found.message}; take smaller cells or epsilon")
        law = found.x.reshape(size, size)
        broken = law[:, None, :] - factors[:, :, None] * law[None, :, :] > BROKEN
        if not (broken & ~is_taken).any():
            return float(found.fun)
        is_taken |= broken
    raise RuntimeError("the programme did not end")


def measure(mode: str, epsilon: str, people: Numbers) -> tuple[float, float, float]:
    """Give expected metres, the greatest posterior over that of half the reports, and the certified epsilon."""
    is_even = bool((people == people[0]).all())
    law = Location(grid=SMALL, epsilon_per_metre=epsilon, mode=mode, prior=None if is_even else people).mechanism()  # type: ignore[arg-type]
    measured = measure_hidden(law, people) if isinstance(law, HiddenMechanism) else measure_told(law, people)
    needed = certify_law(law).epsilon
    if needed > float(Fraction(epsilon)) * (1 + 1e-9):
        raise AssertionError("a law needs more than it promises")
    return measured.expected_distance, float(measured.largest_posterior.max()) / measured.find_median(), needed


def optimum_lines(share: float) -> list[str]:
    """Tell every mode beside the optimum."""
    lines = [
        "## Prior-aware modes beside the optimum\n",
        "6 x 6 cells of the same size. Expected metres of the optimum (linear programme over all laws), and how much"
        " more the modes have;",
        "for fair and near also the greatest posterior of any place over that of half the reports. Towns: two centres"
        " on a low ground; nothing was tuned on these seeds.\n",
        "| prior | epsilon | optimum | near | sharp | GridE | fair (greatest posterior / median) | near (the same) |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name, seed in TOWNS.items() if share >= 1 else [("town 71", 71)]:
        people = make_people(seed)
        for epsilon in OPTIMUM_EPSILONS if share >= 1 else ("0.01",):
            best = solve_optimum(SMALL, float(epsilon), people)
            found = {mode: measure(mode, epsilon, people) for mode in ("near", "sharp", "grid", "fair")}
            more = {mode: f"{metres / best - 1:+.1%}" for mode, (metres, _, _) in found.items()}
            lines.append(
                f"| {name} | {epsilon} | {best:.1f} | {more['near']} | {more['sharp']} | {more['grid']} |"
                f" {more['fair']} ({found['fair'][1]:.2f}) | {found['near'][1]:.2f} |"
            )
    return [*lines, ""]
