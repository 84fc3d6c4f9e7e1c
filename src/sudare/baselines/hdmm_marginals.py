"""OPT_marg of HDMM: all marginal tables as a strategy, each with its own weight."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sudare.baselines.hdmm_workloads import Workload

Reals = NDArray[np.float64]
Lift = Callable[[Reals], Reals]

MOST_LISTED = 15  # attributes of which all 2^d tables get a weight; beyond it, those of at most `ways` attributes
MOST_IDENTITY = 10**6  # cells of a table that might be best measured as it is
STEPS = 400


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Lattice:
    """Sets of attributes: their cells, and sums over all larger sets (up) or all smaller ones (down)."""

    sets: list[tuple[int, ...]]
    cells: Reals
    up: Lift
    down: Lift


def marginals_error(workload: Workload) -> float:
    """Mean squared error, noise of variance 1, of the best weighted marginals that are found.

    The tables of sets a with weights w_a have sensitivity sum w_a. Their Gram matrices commute: on the space of
    functions of exactly the attributes T (mean 0 in each of them) all act as numbers, together as l_T = cells * sum
    over a >= T of w_a^2/cells(a). So the error is (sum w)^2 sum over T of tr(W^T W on T)/l_T: sums over larger sets
    and their transpose, no matrix.
    """
    from scipy.optimize import minimize  # slow to import

    weights = spectrum(workload)
    lattice = _all_sets(workload) if len(workload.sizes) <= MOST_LISTED else _small_sets(workload)
    parts = np.array([weights.get(chosen, 0.0) for chosen in lattice.sets])
    sizes = np.array([len(chosen) for chosen in lattice.sets])
    found = [
        minimize(
            lambda logs: weighted_error(logs, parts, lattice),
            np.where(sizes == ways, 0.0, -3.0 if ways == workload.ways else -12.0),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": STEPS, "maxfun": 2 * STEPS},
        ).fun
        for ways in _starts(workload, int(sizes.max()))
    ]
    return math.exp(min(found)) / workload.size


def _starts(workload: Workload, most: int) -> list[int]:
    """Begin with the tables that are asked for; where Identity may win, also with all cells."""
    return sorted({workload.ways, most} if math.prod(workload.sizes) <= MOST_IDENTITY else {workload.ways})


def weighted_error(logs: Reals, parts: Reals, lattice: Lattice) -> tuple[float, Reals]:
    """The logarithm of the error at weights exp(logs), and its gradient."""
    weights = np.exp(np.clip(logs, -60.0, 60.0))
    known = lattice.up(weights**2 / lattice.cells)
    error = float((parts / known).sum())
    fall = 2 * weights**2 / lattice.cells * lattice.down(parts / known**2)
    total = float(weights.sum())
    return 2 * math.log(total) + math.log(error), 2 * weights / total - fall / error


def spectrum(workload: Workload) -> dict[tuple[int, ...], float]:
    """The trace of W^T W on the functions of exactly the attributes T, over the number of cells, for every T."""
    sizes = workload.sizes
    mean = [float(gram.sum()) / size**2 for gram, size in zip(workload.grams, sizes, strict=True)]
    rest = [float(np.trace(gram)) / size - one for gram, size, one in zip(workload.grams, sizes, mean, strict=True)]
    found: dict[tuple[int, ...], float] = {}
    for subset in workload.subsets():
        for ways in range(len(subset) + 1):
            for kept in itertools.combinations(subset, ways):
                value = math.prod(rest[one] if one in kept else mean[one] for one in subset)
                found[kept] = found.get(kept, 0.0) + value
    return found


def _all_sets(workload: Workload) -> Lattice:
    many = len(workload.sizes)
    masks = itertools.product((0, 1), repeat=many)
    sets = [tuple(place for place, bit in enumerate(mask) if bit) for mask in masks]

    def up(values: Reals) -> Reals:
        table = values.reshape((2,) * many).copy()
        for axis in range(many):
            np.moveaxis(table, axis, 0)[0] += np.moveaxis(table, axis, 0)[1]
        return table.ravel()

    def down(values: Reals) -> Reals:
        table = values.reshape((2,) * many).copy()
        for axis in range(many):
            np.moveaxis(table, axis, 0)[1] += np.moveaxis(table, axis, 0)[0]
        return table.ravel()

    return Lattice(sets=sets, cells=_cells(sets, workload.sizes), up=up, down=down)


def _small_sets(workload: Workload) -> Lattice:
    from scipy.sparse import csr_matrix  # slow to import

    many = range(len(workload.sizes))
    sets = [chosen for ways in range(workload.ways + 1) for chosen in itertools.combinations(many, ways)]
    place = {chosen: at for at, chosen in enumerate(sets)}
    pairs = np.array(
        [
            (place[smaller], at)
            for at, chosen in enumerate(sets)
            for ways in range(len(chosen) + 1)
            for smaller in itertools.combinations(chosen, ways)
        ]
    )
    above = csr_matrix((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(len(sets), len(sets)))
    below = above.T.tocsr()
    return Lattice(sets=sets, cells=_cells(sets, workload.sizes), up=above.dot, down=below.dot)


def _cells(sets: list[tuple[int, ...]], sizes: tuple[int, ...]) -> Reals:
    return np.array([math.prod(sizes[place] for place in chosen) for chosen in sets], dtype=np.float64)
