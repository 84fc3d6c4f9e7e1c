"""Sums over the map: E v and D v, E(x, y) = exp(-beta d(x, y)), D(x, y) = d(x, y) E(x, y).

On a plane grid both are convolutions and are made by FFT; anywhere else, and for few cells, they are dense matrices, or
sums over pairs within reach of each other where these would be too large (nearby.py).

The error of an FFT is absolute, about 1e-16 of the largest sums. So sums are only read where they are not tiny: at
cells that people can be in. A kernel bounds the error of its sums (`error_of`), and where that is too much for a cell,
`find_norms` of posterior.py sums it again, directly.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from sudare.methods.location.grid import Places, PlaneGrid, distances_from
from sudare.schema.arrays import Reals

MAX_DENSE_CELLS = 2_000  # of a map whose matrices are made
MAX_KEPT_CELLS = 5_000  # of a map whose table of distances is kept: 200 MB
FEW_CELLS = 256  # up to here a matrix is as quick as an FFT and has no absolute error
ROUNDING = 2.0**-52  # the unit roundoff that the error bound of an FFT is a multiple of
LONGEST_DECAYS = 45.0  # times 1/beta: where the kernel of a map that is far longer ends, 3e-20 of its middle


Spectrum = NDArray[np.complex128]


class Kernel(Protocol):
    """Both sums for one map and one beta."""

    def smooth(self, values: Reals) -> Reals:
        """Give E v: at every cell the sum of the values, each weighted by exp(-beta d)."""

    def smooth_distance(self, values: Reals) -> Reals:
        """Give D v: the same with d exp(-beta d)."""

    def smooth_both(self, values: Reals) -> tuple[Reals, Reals]:
        """Give E v and D v."""

    def error_of(self, values: Reals) -> float:
        """Bound the absolute error of `smooth(values)` at any cell."""


def make_kernel(places: Places, beta: float, *, algorithm: Literal["auto", "fft", "dense"] = "auto") -> Kernel:
    """Choose how to sum: FFT on plane grids, a matrix for few cells and for other metrics.

    >>> grid = PlaneGrid(rows=1, columns=2, cell_height_metres=100, cell_width_metres=100)
    >>> make_kernel(grid, 0.01).smooth(np.ones(2)).round(3).tolist()
    [1.368, 1.368]
    """
    is_large = places.size > FEW_CELLS
    if isinstance(places, PlaneGrid) and (algorithm == "fft" or (algorithm == "auto" and is_large)):
        return ConvolutionKernel.of(places, beta)
    if places.size > MAX_DENSE_CELLS and not isinstance(places, PlaneGrid):
        from sudare.methods.location.nearby import NearbyKernel

        return NearbyKernel.of(places, beta)
    return DenseKernel.of(places, beta)


def distance_table(places: Places) -> Reals:
    """Give all distances in metres, cells by cells; the last table of a smaller map is kept, since modes ask often.

    >>> distance_table(PlaneGrid(rows=1, columns=2, cell_height_metres=100, cell_width_metres=50)).tolist()
    [[0.0, 50.0], [50.0, 0.0]]
    """
    if places.size > MAX_KEPT_CELLS:
        return _make_table(places)
    kept: Any = places  # every map is hashable, by its content or as the object it is
    return _keep_table(kept)


def _make_table(places: Places) -> Reals:
    table = np.array([distances_from(places, cell) for cell in range(places.size)])
    table.flags.writeable = False
    return table


@functools.lru_cache(maxsize=1)
def _keep_table(places: Any) -> Reals:
    return _make_table(places)


@dataclass(frozen=True, eq=False, slots=True)
class DenseKernel:
    """Both matrices in full: E and D.

    The last bits of BLAS depend on how many threads it uses. A steady kernel multiplies without it: weights that are
    optimised are then the same on every machine.
    """

    decay: Reals
    distance_decay: Reals
    is_steady: bool = False

    @classmethod
    def of(cls, places: Places, beta: float) -> DenseKernel:
        """Fill both matrices row by row."""
        distance = distance_table(places)
        decay = np.exp(-beta * distance)
        return cls(decay, decay * distance)

    def smooth(self, values: Reals) -> Reals:
        """Give E v."""
        return self._multiply(self.decay, values)

    def smooth_distance(self, values: Reals) -> Reals:
        """Give D v."""
        return self._multiply(self.distance_decay, values)

    def smooth_both(self, values: Reals) -> tuple[Reals, Reals]:
        """Give E v and D v."""
        return self._multiply(self.decay, values), self._multiply(self.distance_decay, values)

    def _multiply(self, matrix: Reals, values: Reals) -> Reals:
        product: Reals = np.einsum("ij,j->i", matrix, values) if self.is_steady else matrix @ values
        return product

    def error_of(self, values: Reals) -> float:
        """Sums of positive terms have a relative error only: nothing absolute."""
        return 0.0


@dataclass(frozen=True, eq=False, slots=True)
class ConvolutionKernel:
    """Both kernels as spectra of a padded grid, so that opposite edges do not touch."""

    shape: tuple[int, int]
    padded: tuple[int, int]
    decay: Spectrum
    distance_quarter: Reals  # D for offsets 0, 1, ... down and right
    norm: float  # of E, at least
    end: float  # what E is beyond the kernel, at most
    _distance_decay: list[Spectrum] = field(default_factory=list)

    @classmethod
    def of(cls, grid: PlaneGrid, beta: float) -> ConvolutionKernel:
        """Lay the kernel around the corner of the padded grid and transform it."""
        from scipy import fft

        reach = _find_reach(grid, beta)
        sides = zip(grid.shape, reach, strict=True)
        height, width = (fft.next_fast_len(side + cells - 1, real=True) for side, cells in sides)
        distance = np.sqrt(grid.offset_squares(*map(np.arange, reach)).astype(np.float64))
        distance *= float(grid.unit_metres)
        quarter = np.exp(-beta * distance)
        norm = 2 * float(np.linalg.norm(quarter))
        decay = fft.rfft2(_unfold(quarter, (height, width)), workers=-1, overwrite_x=True)
        end = 0.0 if reach == grid.shape else float(np.exp(-LONGEST_DECAYS))
        return cls(grid.shape, (height, width), decay, quarter * distance, norm, end)

    @property
    def distance_decay(self) -> Spectrum:
        """The spectrum of D, made when first needed."""
        from scipy import fft

        if not self._distance_decay:
            whole = _unfold(self.distance_quarter, self.padded)
            self._distance_decay.append(fft.rfft2(whole, workers=-1, overwrite_x=True))
        return self._distance_decay[0]

    def smooth(self, values: Reals) -> Reals:
        """Give E v."""
        return self._transform_back(self.decay * self._transform(values))

    def smooth_distance(self, values: Reals) -> Reals:
        """Give D v."""
        return self._transform_back(self.distance_decay * self._transform(values))

    def smooth_both(self, values: Reals) -> tuple[Reals, Reals]:
        """Give E v and D v, with one transform of v."""
        spectrum = self._transform(values)
        return self._transform_back(self.decay * spectrum), self._transform_back(self.distance_decay * spectrum)

    def error_of(self, values: Reals) -> float:
        """The bound of Higham (2002, section 24.1) for three transforms, by Cauchy-Schwarz at one cell; and the end."""
        steps = np.log2(self.padded[0] * self.padded[1])
        beyond = self.end * float(np.abs(values).sum()) if self.end else 0.0
        return float(ROUNDING * 6 * steps * self.norm * np.sqrt((values * values).sum())) + beyond

    def _transform(self, values: Reals) -> Spectrum:
        from scipy import fft

        spectrum: Spectrum = fft.rfft2(values.reshape(self.shape), self.padded, workers=-1)
        return spectrum

    def _transform_back(self, spectrum: Spectrum) -> Reals:
        from scipy import fft

        whole: Reals = fft.irfft2(spectrum, self.padded, workers=-1)
        sums: Reals = whole[: self.shape[0], : self.shape[1]].reshape(-1)
        return sums


def _find_reach(grid: PlaneGrid, beta: float) -> tuple[int, int]:
    """Give rows and columns of the kernel: of the map, or fewer where it is more than twice as long as E is not 0."""
    sides = float(grid.cell_height_metres), float(grid.cell_width_metres)
    needed = [int(np.ceil(LONGEST_DECAYS / beta / side)) + 1 for side in sides]
    rows, columns = (cells if 2 * cells < size else size for cells, size in zip(needed, grid.shape, strict=True))
    return rows, columns


def _unfold(quarter: Reals, padded: tuple[int, int]) -> Reals:
    """Lay a kernel of offsets 0, 1, ... around the corner of the padded grid, negative offsets from the far end."""
    rows, columns = quarter.shape
    whole = np.zeros(padded)
    whole[:rows, :columns] = quarter
    whole[padded[0] - rows + 1 :, :columns] = quarter[:0:-1]
    whole[:, padded[1] - columns + 1 :] = whole[:, columns - 1 : 0 : -1]
    return whole
