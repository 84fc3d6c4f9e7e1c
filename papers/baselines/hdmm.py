"""Workloads of counts over every choice of some attributes, as Kronecker products: what an expected error needs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np

from papers.baselines.base import check_choice
from papers.baselines.plain import changed_cells, either_promise
from sudare.errors import ParameterError
from sudare.privacy import Guarantee, Neighbours, exact_epsilon
from sudare.schema import Schema, Unit
from sudare.schema.arrays import Reals

WorkloadKind = Literal["marginals", "prefixes", "ranges", "all-ranges"]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Workload:
    """All queries that ask something of `ways` attributes and sum over the others.

    W is the union over all choices S of the products of W_i for i in S and of rows of ones elsewhere. grams[i] is
    W_i^T W_i; queries[i] the number of rows of W_i. Random ranges are given by the expectation of w^T w over the draw
    of `evaluate.random_ranges` (a uniform length, then a uniform place) and count as one query a choice.

    Source: McKenna, Miklau, Hay, Machanavajjhala, Optimizing error of high-dimensional statistical queries under
    differential privacy, 2018

    >>> from sudare.schema import Attribute, Values
    >>> pair = tuple(Attribute(name=name, domain=Values(("0", "1", "2"))) for name in "ab")
    >>> Workload.of(Schema(name="s", attributes=pair), "marginals", 1).size
    6.0
    """

    grams: tuple[Reals, ...]
    queries: tuple[float, ...]
    ways: int

    @classmethod
    def of(cls, schema: Schema, kind: WorkloadKind, ways: int) -> Workload:
        """Name a workload of the papers on a schema."""
        if not 1 <= ways <= len(schema.sizes):
            raise ParameterError("ways ({ways}) must be between 1 and {d}", ways=ways, d=len(schema.sizes))
        rows = {"ranges": [1.0] * len(schema.sizes), "all-ranges": [size * (size + 1) / 2 for size in schema.sizes]}
        return cls(
            grams=tuple(GRAMS[kind](size) for size in schema.sizes),
            queries=tuple(rows.get(kind, [float(size) for size in schema.sizes])),
            ways=ways,
        )

    @property
    def sizes(self) -> tuple[int, ...]:
        """The values of every attribute."""
        return tuple(len(gram) for gram in self.grams)

    @property
    def size(self) -> float:
        """How many queries there are."""
        return choices(self.queries, [1.0] * len(self.queries), self.ways)[self.ways]

    def mean_square(self, inside: Sequence[float], outside: Sequence[float]) -> float:
        """Mean squared error, noise of variance 1: inside = tr(G_i M_i), outside = 1^T M_i 1, M_i = (A_i^T A_i)^-1."""
        return choices(inside, outside, self.ways)[self.ways] / self.size

    def subsets(self) -> Iterator[tuple[int, ...]]:
        """Every choice of attributes."""
        return itertools.combinations(range(len(self.grams)), self.ways)


def choices(inside: Sequence[float], outside: Sequence[float], most: int) -> list[float]:
    """Sum, over all choices S of 0, 1, ..., `most` places, the products of `inside` on S and `outside` elsewhere.

    The coefficients of the product of (outside + inside x): no list of choices is made.

    >>> choices([2.0, 3.0], [1.0, 1.0], 2)
    [1.0, 5.0, 6.0]
    """
    found = [1.0] + [0.0] * most
    for one, other in zip(inside, outside, strict=True):
        found = [other * found[0], *(other * found[k] + one * found[k - 1] for k in range(1, most + 1))]
    return found


def prefix_gram(size: int) -> Reals:
    """W^T W of all prefixes {x <= t}: cell (i, j) is in those with t >= max(i, j).

    >>> prefix_gram(2).tolist()
    [[2.0, 1.0], [1.0, 1.0]]
    """
    places = np.arange(size)
    return (size - np.maximum(places[:, None], places[None, :])).astype(np.float64)


def range_gram(size: int) -> Reals:
    """The expectation of w^T w for a range of uniform length at a uniform place: P[both i and j are inside].

    >>> range_gram(2).tolist()
    [[0.75, 0.5], [0.5, 0.75]]
    """
    low, high = np.minimum.outer(np.arange(size), np.arange(size)), np.maximum.outer(np.arange(size), np.arange(size))
    found = np.zeros((size, size))
    for length in range(1, size + 1):
        least, most = np.maximum(high - length + 1, 0), np.minimum(low, size - length)
        found += np.maximum(most - least + 1, 0) / (size - length + 1)
    return found / size


def all_ranges_gram(size: int) -> Reals:
    """W^T W of every range of consecutive values: those that hold both i and j.

    >>> all_ranges_gram(2).tolist()
    [[2.0, 1.0], [1.0, 2.0]]
    """
    places = np.arange(size)
    low, high = np.minimum.outer(places, places), np.maximum.outer(places, places)
    found: Reals = ((low + 1) * (size - high)).astype(np.float64)
    return found


GRAMS: dict[WorkloadKind, Callable[[int], Reals]] = {
    "marginals": np.eye,
    "prefixes": prefix_gram,
    "ranges": range_gram,
    "all-ranges": all_ranges_gram,
}


# OPT_marg of HDMM: all marginal tables as a strategy, each with its own weight.


Lift = Callable[[Reals], Reals]

MOST_LISTED = 15  # attributes of which all 2^d tables get a weight; beyond it, those of at most `ways` attributes
MOST_IDENTITY = 10**6  # cells of a table that might be best measured as it is
STEPS = 400


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class AttributeSets:
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


def weighted_error(logs: Reals, parts: Reals, lattice: AttributeSets) -> tuple[float, Reals]:
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


def _all_sets(workload: Workload) -> AttributeSets:
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

    return AttributeSets(sets=sets, cells=_cells(sets, workload.sizes), up=up, down=down)


def _small_sets(workload: Workload) -> AttributeSets:
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
    return AttributeSets(sets=sets, cells=_cells(sets, workload.sizes), up=above.dot, down=below.dot)


def _cells(sets: list[tuple[int, ...]], sizes: tuple[int, ...]) -> Reals:
    return np.array([math.prod(sizes[place] for place in chosen) for chosen in sets], dtype=np.float64)


# HDMM: a strategy of counts chosen for a workload before any data is seen; its expected error, not a table.


TEMPLATES = ("kron", "marginals")
SWEEPS = 8
KRONECKER_STEPS = 40  # of L-BFGS for one attribute in one sweep


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
            options={"maxiter": KRONECKER_STEPS, "ftol": 1e-6},
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
