"""From people to reports and back: A n, how many reports of each number n people cause on average, and A'r.

    A(y, x) = alpha(x) w(y) k(x, y)          the law of the report of a person in x

Both sums are convolutions on a plane grid, also for hidden reports (one for each shape), and matrices elsewhere; those
of many places hold the pairs within reach of each other, and sums from tile to tile beyond.
Reports are numbered as in the device file. Arrays are (samples, cells) or (samples, reports).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sudare.errors import ParameterError
from sudare.methods.location.grid import PlaneGrid
from sudare.methods.location.hidden import FULL_SLOPE, HiddenMechanism
from sudare.methods.location.kernel import FEW_CELLS, MAX_KEPT_CELLS, distance_table
from sudare.methods.location.mechanism import FULL_WEIGHT, Mechanism
from sudare.methods.location.nearby import (
    find_metres,
    find_spacing,
    gather_tiles,
    search_between,
    search_nearby,
)
from sudare.methods.location.posterior import find_all_norms
from sudare.schema.arrays import Booleans, Integers, Reals

Samples = NDArray[Any]  # floats of 32 or 64 bits: (samples, cells) or (samples, reports)
Spectrum = NDArray[Any]  # complex numbers, of 64 or 128 bits

DECAYS_KEPT = 40.0  # beyond so many times 1/beta a kernel is below 1e-17 and opposite edges of the map may touch
MAX_SHAPES = 40  # of hidden reports that are summed by transforms; more are summed by a matrix
MAX_MATRIX = 4 * 10**7  # numbers in a matrix of cells by reports
FAR_CELLS = 32  # beyond so many cells, and half the map, around it reports are summed one by one
MANY_PLACES = 1_500  # beyond so many, a matrix holds pairs within reach only
# in units of 1/beta: up to where pairs are summed one by one, and from there on tile by tile up to where; radius of a
# tile. Chosen on 10,000 hexagons and crossings: reports of a place are then off by a fifth of chance, if there are 100
NEAR_DECAYS, FAR_DECAYS, TILE_DECAYS = 5.0, 10.0, 1.5
LEAST_REACH, MOST_DECAYS = 4.0, 80.0  # spacings of the map that are always near, where 32-bit floats allow
EXACT_DECAYS = 20.0  # up to where a single report is summed
FLOOR = 1e-6  # of a place's own, from all others together: so that everybody reports something
LANES = 4  # samples that are summed at once: 10 take longer than 12
BLUR_REACH = 6.0  # times the same distance: how far averages reach there
BLUR_SPACING = 1.5  # times the median distance to the nearest cell: width of averages on a map without rows


class ReportFlow(Protocol):
    """A and A' of one law, both with every entry squared as well, and averages over neighbouring cells."""

    def to_reports(self, people: Samples) -> Samples:
        """Give A n."""

    def to_cells(self, reports: Samples) -> Samples:
        """Give A'r."""

    def square_to_reports(self, people: Reals) -> Reals:
        """Give A n with every entry of A squared, for one sample."""

    def square_to_cells(self, reports: Reals) -> Reals:
        """Give A'r with every entry of A squared, for one sample."""

    def expect(self, people: Reals, reports: Integers) -> Reals:
        """Give A n of some reports, without what other sums leave out."""

    def average(self, values: Reals, width: float) -> Reals:
        """Average values over cells about `width` cells around, for one sample."""


def make_flow(law: Mechanism | HiddenMechanism) -> ReportFlow:
    """Choose how to sum for a law: transforms on plane grids, a matrix for few cells and other metrics.

    >>> from fractions import Fraction
    >>> grid = PlaneGrid(rows=1, columns=2, cell_height_metres=100, cell_width_metres=100)
    >>> law = Mechanism(places=grid, beta_per_metre=Fraction(1, 100), weights=np.array([FULL_WEIGHT, FULL_WEIGHT]))
    >>> make_flow(law).to_reports(np.array([[10.0, 0.0]])).round(2).tolist()
    [[7.31, 2.69]]
    """
    is_plane = isinstance(law.places, PlaneGrid) and law.places.size > FEW_CELLS
    if is_plane and (isinstance(law, Mechanism) or len(law.shapes) <= MAX_SHAPES):
        return TransformFlow.of(law)
    if isinstance(law, Mechanism) and not isinstance(law.places, PlaneGrid) and law.places.size > MANY_PLACES:
        return NearbyFlow.of(law)
    if law.places.size * law.reports > MAX_MATRIX or law.places.size > MAX_KEPT_CELLS:
        raise ParameterError(
            "an estimate from {reports} kinds of reports on {cells} cells is too large for this map; use larger cells",
            reports=law.reports,
            cells=law.places.size,
        )
    return MatrixFlow.of(law)


@dataclass(frozen=True, eq=False)
class MatrixFlow:
    """A as a matrix, reports by cells."""

    matrix: Reals
    blur: Reals

    @classmethod
    def of(cls, law: Mechanism | HiddenMechanism) -> MatrixFlow:
        """Fill the matrix column by column."""
        norms = law.sums() if isinstance(law, HiddenMechanism) else find_all_norms(law)
        alpha = np.where(law.can_enter, 1 / norms, 0.0)
        terms = np.concatenate([block for _, block in law.blocks()], axis=1)
        distance = distance_table(law.places)
        away = np.where(distance > 0, distance, np.inf).min(axis=1)
        spacing = float(np.median(away[np.isfinite(away)])) if np.isfinite(away).any() else 1.0
        return cls(np.ascontiguousarray((terms * alpha[:, None]).T), np.exp(-distance / (BLUR_SPACING * spacing)))

    def to_reports(self, people: Samples) -> Samples:
        """Give A n."""
        return people @ self.matrix.T

    def to_cells(self, reports: Samples) -> Samples:
        """Give A'r."""
        return reports @ self.matrix

    def square_to_reports(self, people: Reals) -> Reals:
        """Give A n with entries squared."""
        sums: Reals = np.einsum("yx,yx,x->y", self.matrix, self.matrix, people)
        return sums

    def square_to_cells(self, reports: Reals) -> Reals:
        """Give A'r with entries squared."""
        sums: Reals = np.einsum("yx,yx,y->x", self.matrix, self.matrix, reports)
        return sums

    def expect(self, people: Reals, reports: Integers) -> Reals:
        """Give A n of some reports."""
        found: Reals = self.to_reports(people[None])[0][reports]
        return found

    def average(self, values: Reals, width: float) -> Reals:
        """Average over the nearest cells; the width is that of the map's own spacing."""
        means: Reals = (self.blur @ values) / self.blur.sum(axis=1)
        return means


@dataclass(frozen=True, eq=False)
class NearbyFlow:
    """A over pairs of near places, and over pairs of tiles beyond; norms are those of the same sums.

    The sparse matrix `kernel` is k without its diagonal of ones, symmetric, in 32-bit floats. Places farther away are
    taken as if they stood in the middle of their tile; where places lie far apart each is a tile, and nothing is lost.
    """

    law: Mechanism
    kernel: Any
    blur: Any
    tile_of: Integers
    members: Any  # tiles by places: ones
    far: Any  # tiles by tiles: k between middles, symmetric; 0 where they are near
    _kernels: dict[int, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, law: Mechanism) -> NearbyFlow:
        """Search the pairs."""
        from scipy.sparse import csc_matrix, csr_matrix

        places, beta = law.places, law.beta
        near = max(NEAR_DECAYS, min(LEAST_REACH * find_spacing(places) * beta, MOST_DECAYS))
        metres = search_nearby(places, near / beta)
        kernel = csr_matrix((np.exp(-(beta * metres.data).astype(np.float32)), metres.indices, metres.indptr),
                            metres.shape)  # fmt: skip
        middles, tile_of = gather_tiles(metres, TILE_DECAYS / beta)
        members = csc_matrix((np.ones(places.size, dtype=np.float32), tile_of, np.arange(places.size + 1)),
                             (len(middles), places.size))  # fmt: skip
        far = search_between(places, middles, FAR_DECAYS / beta)
        decays = np.exp(-(beta * far.data).astype(np.float32))
        far.data = np.where(far.data > near / beta, decays, np.float32(0))
        far.eliminate_zeros()
        return cls(law, kernel, _average_nearby(metres), tile_of, members, far.tocsc())

    @functools.cached_property
    def weights(self) -> Reals:
        """The weights of the reports."""
        return self.law.shares

    @functools.cached_property
    def alpha(self) -> Reals:
        """The norms of the places where people can be; 0 elsewhere."""
        norms: Reals = np.where(self.law.can_enter, 1 / self._multiply(self.weights[None], 1)[0], 0.0)
        return norms

    def to_reports(self, people: Samples) -> Samples:
        """Give A n."""
        return self._multiply(people * self._like(self.alpha, people), 1) * self._like(self.weights, people)

    def to_cells(self, reports: Samples) -> Samples:
        """Give A'r."""
        return self._multiply(reports * self._like(self.weights, reports), 1) * self._like(self.alpha, reports)

    def square_to_reports(self, people: Reals) -> Reals:
        """Give A n with entries squared; what lies beyond near places is left out."""
        sums: Reals = self._multiply((self.alpha**2 * people)[None], 2)[0] * self.weights**2
        return sums

    def square_to_cells(self, reports: Reals) -> Reals:
        """Give A'r with entries squared; what lies beyond near places is left out."""
        sums: Reals = self._multiply((self.weights**2 * reports)[None], 2)[0] * self.alpha**2
        return sums

    def expect(self, people: Reals, reports: Integers) -> Reals:
        """Give A n of some reports, place by place: around one that holds most people, tiles are not enough."""
        law, normed = self.law, people * self.alpha
        rows = (np.exp(-law.beta * find_metres(law.places, cell, EXACT_DECAYS / law.beta)) for cell in reports.tolist())
        found: Reals = self.weights[reports] * np.array([row @ normed for row in rows])
        return found

    def average(self, values: Reals, width: float) -> Reals:
        """Average over the nearest places; the width is that of the map's own spacing."""
        means: Reals = self.blur @ values
        return means

    def _multiply(self, values: Samples, power: int) -> Samples:
        """Multiply with k, its entries to a power, in 32-bit floats: terms are above 0, and sums keep six digits.

        k is symmetric, and is read by columns: sums then do not wait for each other, which takes half the time for
        several samples.
        """
        if power not in self._kernels:
            from scipy.sparse import csc_matrix

            self._kernels[power] = csc_matrix(
                (self.kernel.data**power, self.kernel.indices, self.kernel.indptr), self.kernel.shape
            )
        samples, size = values.shape
        right = values[0].astype(np.float32)
        if samples > 1:
            right = np.zeros((size, -(-samples // LANES) * LANES), dtype=np.float32)
            right[:, :samples] = values.T
        sums = self._kernels[power] @ right + right  # the diagonal
        if power == 1:
            sums += (self.far @ (self.members @ right))[self.tile_of] + FLOOR / size * right.sum(axis=0)
        product: Samples = (sums.T[:samples] if samples > 1 else sums).reshape(values.shape)
        return product.astype(values.dtype, copy=False)

    @staticmethod
    def _like(factors: Samples, values: Samples) -> Samples:
        return factors.astype(values.dtype, copy=False)


def _average_nearby(metres: Any) -> Any:
    """Give the matrix of averages over near places, rows of sum 1."""
    from scipy.sparse import csr_matrix, diags, identity

    counts = np.diff(metres.indptr)
    nearest = np.minimum.reduceat(metres.data, metres.indptr[:-1][counts > 0]) if counts.any() else np.ones(1)
    spacing = float(np.median(nearest))
    kept = np.flatnonzero(metres.data <= BLUR_REACH * spacing)
    factors = np.exp(-metres.data[kept] / (BLUR_SPACING * spacing))
    starts = np.searchsorted(kept, metres.indptr)
    near = csr_matrix((factors, metres.indices[kept], starts), metres.shape)
    near = (near + identity(near.shape[0], format="csr")).tocsr()
    return (diags(1 / np.asarray(near.sum(axis=1)).ravel()) @ near).tocsr()


@dataclass(frozen=True, eq=False)
class TransformFlow:
    """A by FFT: reports of one shape at a time, which lie on the cells of the map or on a margin around it.

    Reports farther away (blocks of mode near) are few; their kernel is a matrix, reports by cells.
    """

    shape: tuple[int, int]
    corner: tuple[int, int]  # of the map within the padded grid
    padded: tuple[int, int]
    alpha: Reals
    weights: Reals
    places: tuple[Integers, ...]  # for each shape, where its reports lie in the padded grid
    numbers: tuple[Integers, ...]  # for each shape, which reports those are
    reports: int
    kernels: tuple[Reals, ...]
    far_numbers: Integers
    far: Reals
    _spectra: dict[tuple[int, str], list[Spectrum]] = field(default_factory=dict)
    _far_powers: dict[tuple[int, str], Samples] = field(default_factory=dict)

    @classmethod
    def of(cls, law: Mechanism | HiddenMechanism) -> TransformFlow:
        """Lay the reports and the map on one padded grid."""
        grid = law.places
        if not isinstance(grid, PlaneGrid):
            raise AssertionError  # make_flow chose
        rows, columns, shape_of, weights = _place_reports(law, grid)
        is_far = _find_far(law, grid, rows, columns)
        far_numbers = np.flatnonzero(is_far)
        far = np.exp(-law.exponents(np.arange(grid.size), far_numbers).T) if isinstance(law, HiddenMechanism) and len(
            far_numbers) else np.zeros((0, grid.size))  # fmt: skip
        rows, columns = np.where(is_far, 0, rows), np.where(is_far, 0, columns)
        low = min(0, int(rows.min())), min(0, int(columns.min()))
        high = max(grid.rows, int(rows.max()) + 1), max(grid.columns, int(columns.max()) + 1)
        sides = float(grid.cell_height_metres), float(grid.cell_width_metres)
        flattest = min(law.slopes) / FULL_SLOPE if isinstance(law, HiddenMechanism) else 1.0
        padded = _choose_padding(low, high, sides, law.beta * flattest)
        norms = law.sums() if isinstance(law, HiddenMechanism) else find_all_norms(law)
        shapes = law.shapes if isinstance(law, HiddenMechanism) else (((0, 0, 0),),)
        slopes = law.slopes if isinstance(law, HiddenMechanism) else (FULL_SLOPE,)
        at = (rows - low[0]) * padded[1] + (columns - low[1])
        chosen = [np.flatnonzero((shape_of == number) & ~is_far) for number in range(len(shapes))]
        unit = float(grid.unit_metres)
        return cls(
            shape=grid.shape,
            corner=(-low[0], -low[1]),
            padded=padded,
            alpha=np.where(law.can_enter, 1 / norms, 0.0),
            weights=weights,
            places=tuple(at[each] for each in chosen),
            numbers=tuple(chosen),
            reports=law.reports,
            kernels=tuple(
                _make_kernel(shape, padded, sides, unit, law.beta * slope / FULL_SLOPE)
                for shape, slope in zip(shapes, slopes, strict=True)
            ),
            far_numbers=far_numbers,
            far=far,
        )

    def to_reports(self, people: Samples) -> Samples:
        """Give A n."""
        return self._spread(people, 1) * self._like(self.weights, people)

    def to_cells(self, reports: Samples) -> Samples:
        """Give A'r."""
        return self._gather(reports * self._like(self.weights, reports), 1)

    def square_to_reports(self, people: Reals) -> Reals:
        """Give A n with entries squared."""
        sums: Reals = self._spread((self.alpha * people)[None], 2)[0] * self.weights**2
        return sums

    def square_to_cells(self, reports: Reals) -> Reals:
        """Give A'r with entries squared."""
        sums: Reals = self.alpha * self._gather((reports * self.weights**2)[None], 2)[0]
        return sums

    def expect(self, people: Reals, reports: Integers) -> Reals:
        """Give A n of some reports."""
        found: Reals = self.to_reports(people[None])[0][reports]
        return found

    def average(self, values: Reals, width: float) -> Reals:
        """Average over a window that falls off like a normal law."""
        from scipy import ndimage

        means: Reals = ndimage.gaussian_filter(values.reshape(self.shape), width, mode="constant").reshape(-1)
        return means

    def _spread(self, people: Samples, power: int) -> Samples:
        """From cells to reports, without the weights of reports."""
        from scipy import fft

        samples = len(people)
        framed = np.zeros((samples, *self.padded), dtype=people.dtype)
        (top, left), (rows, columns) = self.corner, self.shape
        normed = people * self._like(self.alpha, people)
        framed[:, top : top + rows, left : left + columns] = normed.reshape(samples, rows, columns)
        spectrum = fft.rfft2(framed)
        sums = np.empty((samples, self.reports), dtype=people.dtype)
        spectra = self._kernel_spectra(-power, people.dtype)
        for at, numbers, kernel in zip(self.places, self.numbers, spectra, strict=True):
            whole = fft.irfft2(spectrum * kernel, self.padded)
            sums[:, numbers] = whole.reshape(samples, -1)[:, at]
        if len(self.far_numbers):
            sums[:, self.far_numbers] = normed @ self._far_kernel(power, people.dtype).T
        return sums

    def _gather(self, reports: Samples, power: int) -> Samples:
        """From reports to cells, without the norms of cells where entries are squared."""
        from scipy import fft

        samples, total = len(reports), None
        spectra = self._kernel_spectra(power, reports.dtype)
        for at, numbers, kernel in zip(self.places, self.numbers, spectra, strict=True):
            framed = np.zeros((samples, self.padded[0] * self.padded[1]), dtype=reports.dtype)
            framed[:, at] = reports[:, numbers]
            part = fft.rfft2(framed.reshape(samples, *self.padded)) * kernel
            total = part if total is None else total + part
        whole = fft.irfft2(total, self.padded)
        (top, left), (rows, columns) = self.corner, self.shape
        sums: Samples = whole[:, top : top + rows, left : left + columns].reshape(samples, -1)
        if len(self.far_numbers):
            sums = sums + reports[:, self.far_numbers] @ self._far_kernel(power, reports.dtype)
        return sums * self._like(self.alpha, reports)

    def _far_kernel(self, power: int, kind: Any) -> Samples:
        """Give the matrix of far reports to a power."""
        key = power, np.dtype(kind).name
        if key not in self._far_powers:
            self._far_powers[key] = (self.far**power).astype(kind)
        return self._far_powers[key]

    def _kernel_spectra(self, power: int, kind: Any) -> list[Spectrum]:
        """Give the spectra of the kernels to a power; below 0 those of the opposite direction, cells to reports."""
        from scipy import fft

        key = power, np.dtype(kind).name
        if key not in self._spectra:
            spectra = [fft.rfft2((kernel ** abs(power)).astype(kind)) for kernel in self.kernels]
            self._spectra[key] = spectra if power > 0 else [spectrum.conj() for spectrum in spectra]
        return self._spectra[key]

    @staticmethod
    def _like(factors: Samples, values: Samples) -> Samples:
        return factors.astype(values.dtype, copy=False)


def _place_reports(law: Mechanism | HiddenMechanism, grid: PlaneGrid) -> tuple[Integers, Integers, Integers, Reals]:
    """Give row, column, shape and weight of every report."""
    if isinstance(law, HiddenMechanism):
        shape_of, rows, columns = (law.columns[:, at] for at in (0, 1, 2))
        return rows, columns, shape_of, law.columns[:, 3] / FULL_WEIGHT
    rows, columns = np.divmod(np.arange(grid.size), grid.columns)
    return rows, columns, np.zeros(grid.size, dtype=np.int64), law.shares


def _find_far(law: Mechanism | HiddenMechanism, grid: PlaneGrid, rows: Integers, columns: Integers) -> Booleans:
    """Tell which reports lie so far outside that a transform would be mostly empty, if a matrix for them is small."""
    reach = FAR_CELLS + max(grid.shape) // 2
    off = np.maximum.reduce([-rows, -columns, rows - grid.rows + 1, columns - grid.columns + 1])
    is_far: Booleans = (off > reach) if isinstance(law, HiddenMechanism) else np.zeros(len(rows), dtype=np.bool_)
    return is_far if int(is_far.sum()) * grid.size <= MAX_MATRIX else np.zeros_like(is_far)


def _choose_padding(
    low: tuple[int, int], high: tuple[int, int], sides: tuple[float, float], beta: float
) -> tuple[int, int]:
    """Choose the sides of the padded grid: room for the longest offset, or for as far as the kernel reaches."""
    from scipy import fft

    padded = []
    for first, last, side in zip(low, high, sides, strict=True):
        extent = last - first
        reach = extent if beta == 0 else min(extent, int(np.ceil(DECAYS_KEPT / (beta * side))) + 4)
        padded.append(fft.next_fast_len(extent + reach, real=True))
    return padded[0], padded[1]


def _make_kernel(
    shape: tuple[tuple[int, int, int], ...],
    padded: tuple[int, int],
    sides: tuple[float, float],
    unit: float,
    beta: float,
) -> Reals:
    """Give k for every offset from a report to a cell, negative offsets from the far end."""
    if not shape:
        return np.ones(padded)
    offsets = [np.where(np.arange(size) <= size // 2, np.arange(size), np.arange(size) - size) for size in padded]
    least = np.full(padded, np.inf)
    for down, right, lag in shape:
        metres = np.hypot((offsets[0][:, None] - down) * sides[0], (offsets[1][None, :] - right) * sides[1])
        least = np.minimum(least, metres + unit * lag)
    kernel: Reals = np.exp(-beta * least)
    return kernel
