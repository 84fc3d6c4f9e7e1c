"""Noise in Fourier coefficients and a linear program that makes a table of them (Barak et al. 2007); small domains."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

import numpy as np

from papers.baselines.plain import changed_cells, either_promise, guard
from sudare.counts import Counts
from sudare.errors import Infeasible, ParameterError
from sudare.noise import Rng, geometric_noise
from sudare.privacy import Guarantee, Neighbours, exact_epsilon
from sudare.schema import Schema, Unit
from sudare.schema.arrays import Integers, Reals

MOST_BITS = 10  # places of the linear program


@dataclass(frozen=True, kw_only=True, slots=True)
class BarakFourier:
    """Measure the Fourier coefficients that the tables of `ways` attributes need, and fit a non-negative table.

    f_a = sum over cells x of (-1)^(a.x) v_x, the cells written in bits, for all a that touch at most `ways` attributes

    Each of the B coefficients but the sum gets noise of scale s (B - 1)/epsilon, s = 2 for replace-one. For add/remove
    the sum is measured too, with B in place of B - 1 and s = 1. The linear program minimises the largest difference
    between the noisy coefficients and those of a table x >= 0, zero where there is no cell.

    Guarantee: epsilon-DP: one record changes a coefficient by at most 1, one replaced record by at most 2; the program
    looks at noisy coefficients only. Proof: proofs/wavelet.md
    Error: each of the chosen marginal tables within O(B log B/epsilon); nothing is promised for other tables.
    Source: Barak, Chaudhuri, Dwork, Kale, McSherry, Talwar, Privacy, accuracy, and consistency too, 2007

    >>> from sudare.schema import Attribute, Values
    >>> pair = tuple(Attribute(name=name, domain=Values(("0", "1"))) for name in "abc")
    >>> len(BarakFourier(epsilon=1, ways=2).coefficients(Schema(name="pairs", attributes=pair)))
    7
    """

    epsilon: Fraction | str | int | float
    ways: int = 2

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", exact_epsilon(self.epsilon))
        if self.ways < 1:
            raise ParameterError("ways ({ways}) must be at least 1", ways=self.ways)

    def guarantee(self, *, unit: Unit | None = None, neighbours: Neighbours | None = None) -> Guarantee:
        """Tell the promise before any data is opened."""
        return either_promise(Fraction(self.epsilon), unit=unit, neighbours=neighbours)

    def coefficients(self, schema: Schema) -> Integers:
        """List the coefficients, as masks of bits, that all tables of `ways` attributes need; the sum is 0."""
        masks = _masks(schema)
        chosen = {0}
        for names in combinations(range(len(masks)), min(self.ways, len(masks))):
            whole = sum(masks[position] for position in names)
            chosen |= {mask for mask in range(whole + 1) if mask & ~whole == 0}
        return np.array(sorted(chosen), dtype=np.int64)

    def scale(self, schema: Schema, neighbours: Neighbours | None = None) -> Fraction:
        """Scale of the noise of a coefficient."""
        many = len(self.coefficients(schema)) - (neighbours != "add-remove")
        return changed_cells(neighbours) * max(many, 1) / Fraction(self.epsilon)

    def measure(self, counts: Counts, *, neighbours: Neighbours | None = None, rng: Rng) -> Integers:
        """Give the noisy coefficients; the sum is exact for replace-one."""
        schema = counts.schema
        guard(self.guarantee(unit=schema.unit, neighbours=neighbours), schema)
        signs = fourier_signs(self.coefficients(schema), places(schema))
        exact = signs @ counts.dense()
        noise = geometric_noise(len(exact), scale=self.scale(schema, neighbours), rng=rng)
        if neighbours != "add-remove":
            noise[0] = 0
        return exact + noise

    def draw(self, counts: Counts, *, neighbours: Neighbours | None = None, rng: Rng) -> Counts:
        """Measure, fit, round."""
        schema = counts.schema
        noisy = self.measure(counts, neighbours=neighbours, rng=rng)
        fitted = fit_table(fourier_signs(self.coefficients(schema), places(schema)), noisy)
        values = np.rint(fitted).astype(np.int64)
        kept = np.flatnonzero(values)
        return Counts.build(schema, kept[:, None], values[kept])


def _masks(schema: Schema) -> list[int]:
    """The bits of every attribute, the last one lowest."""
    widths = [(size - 1).bit_length() for size in schema.sizes]
    if sum(widths) > MOST_BITS:
        raise ParameterError(
            "the Fourier baseline takes tables of at most {most} bits, not {bits}", most=MOST_BITS, bits=sum(widths)
        )
    return [((1 << width) - 1) << sum(widths[position + 1 :]) for position, width in enumerate(widths)]


def places(schema: Schema) -> Integers:
    """Every cell of the table as bits."""
    columns = schema.radix.decode(np.arange(schema.size, dtype=np.int64)[:, None])
    found = np.zeros(schema.size, dtype=np.int64)
    for position, size in enumerate(schema.sizes):
        found = found << (size - 1).bit_length() | columns[:, position]
    return found


def fourier_signs(masks: Integers, cells: Integers) -> Integers:
    """Give (-1)^(a.x) for all coefficients a and cells x.

    >>> fourier_signs(np.array([0, 1]), np.array([0, 1])).tolist()
    [[1, 1], [1, -1]]
    """
    common = masks[:, None] & cells[None, :]
    signs: Integers = 1 - 2 * (np.bitwise_count(common).astype(np.int64) & 1)
    return signs


def fit_table(signs: Integers, noisy: Integers) -> Reals:
    """Minimise the largest |signs x - noisy| over x >= 0; the sum, the first coefficient, is kept (at least 0)."""
    from scipy.optimize import linprog  # slow to import

    many, cells = signs.shape
    slack = -np.ones((many - 1, 1))
    above, below = (np.hstack([side * signs[1:], slack]) for side in (1, -1))
    total = max(int(noisy[0]), 0)
    found = linprog(
        c=np.append(np.zeros(cells), 1.0),
        A_ub=np.vstack([above, below]),
        b_ub=np.concatenate([noisy[1:], -noisy[1:]]),
        A_eq=np.append(signs[0], 0)[None, :],
        b_eq=[total],
        bounds=(0, None),
    )
    if found.x is None:
        raise Infeasible("the linear program of the Fourier baseline found no table")
    table: Reals = found.x[:-1]
    return table
