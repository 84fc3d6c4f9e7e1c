"""Sums over the map: E v and D v, E(x, y) = exp(-beta d(x, y)), D(x, y) = d(x, y) E(x, y).

On a plane grid both are convolutions and are made by FFT; anywhere else, and for few cells, they are dense matrices.

The error of an FFT is absolute, about 1e-16 of the largest sums. So sums are only read where they are not tiny: at
cells that people can be in. `smooth` tells the error it may have, and `Mechanism` sums anew, directly, where that is
too much.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from sudare.errors import ParameterError
from sudare.methods.location.grid import Places, PlaneGrid, metres_from
from sudare.schema.arrays import Reals

MOST_DENSE = 5_000
FEW = 256  # up to here a matrix is as quick and has no absolute error
ROUNDING = 2.0**-52


class Kernel(Protocol):
    """Both sums for one map and one beta."""

    def smooth(self, values: Reals) -> Reals:
        """E v: at every cell the sum of the values, each weighed by exp(-beta d)."""

    def smooth_distance(self, values: Reals) -> Reals:
        """D v: the same with d exp(-beta d)."""

    def smooth_both(self, values: Reals) -> tuple[Reals, Reals]:
        """E v and D v at once."""

    def error_of(self, values: Reals) -> float:
        """Bound of the absolute error of `smooth(values)` at any cell."""


def kernel_of(places: Places, beta: float, *, way: Literal["auto", "fft", "dense"] = "auto") -> Kernel:
    """Choose how to sum: FFT on plane grids, a matrix for few cells and for other metrics.

    >>> grid = PlaneGrid(rows=1, columns=2, cell_height_metres=100, cell_width_metres=100)
    >>> kernel_of(grid, 0.01).smooth(np.ones(2)).round(3).tolist()
    [1.368, 1.368]
    """
    if isinstance(places, PlaneGrid) and (way == "fft" or (way == "auto" and places.size > FEW)):
        return ConvolutionKernel.of(places, beta)
    if places.size > MOST_DENSE:
        raise ParameterError(
            "a map of {cells} cells with this metric must have at most {most}; use larger cells or a plane grid",
            cells=places.size,
            most=MOST_DENSE,
        )
    return DenseKernel.of(places, beta)


@dataclass(frozen=True, eq=False, slots=True)
class DenseKernel:
    """Both matrices in full."""

    near: Reals
    far: Reals

    @classmethod
    def of(cls, places: Places, beta: float) -> DenseKernel:
        """Fill both matrices row by row."""
        distance = np.array([metres_from(places, cell) for cell in range(places.size)])
        near = np.exp(-beta * distance)
        return cls(near, near * distance)

    def smooth(self, values: Reals) -> Reals:
        """E v."""
        return self.near @ values

    def smooth_distance(self, values: Reals) -> Reals:
        """D v."""
        return self.far @ values

    def smooth_both(self, values: Reals) -> tuple[Reals, Reals]:
        """E v and D v."""
        return self.near @ values, self.far @ values

    def error_of(self, values: Reals) -> float:
        """Sums of positive terms have a relative error only: nothing absolute."""
        return 0.0


@dataclass(frozen=True, eq=False, slots=True)
class ConvolutionKernel:
    """Both kernels as spectra of a padded grid, so that opposite edges do not touch."""

    shape: tuple[int, int]
    padded: tuple[int, int]
    near: NDArray[np.complex128]
    far_quarter: Reals
    norm: float
    _far: list[NDArray[np.complex128]] = field(default_factory=list)

    @classmethod
    def of(cls, grid: PlaneGrid, beta: float) -> ConvolutionKernel:
        """Lay the kernel around the corner of the padded grid and transform it."""
        from scipy import fft

        height, width = (fft.next_fast_len(2 * side - 1, real=True) for side in grid.shape)
        distance = np.sqrt(grid.offset_squares(*map(np.arange, grid.shape)).astype(np.float64))
        distance *= float(grid.unit_metres)
        quarter = np.exp(-beta * distance)
        norm = 2 * float(np.linalg.norm(quarter))
        near = fft.rfft2(_around_corner(quarter, (height, width)), workers=-1, overwrite_x=True)
        return cls(grid.shape, (height, width), near, quarter * distance, norm)

    @property
    def far(self) -> NDArray[np.complex128]:
        """The spectrum of D, made when first asked for."""
        from scipy import fft

        if not self._far:
            self._far.append(fft.rfft2(_around_corner(self.far_quarter, self.padded), workers=-1, overwrite_x=True))
        return self._far[0]

    def smooth(self, values: Reals) -> Reals:
        """E v."""
        return self._back(self.near * self._spectrum(values))

    def smooth_distance(self, values: Reals) -> Reals:
        """D v."""
        return self._back(self.far * self._spectrum(values))

    def smooth_both(self, values: Reals) -> tuple[Reals, Reals]:
        """E v and D v, with one transform of v."""
        spectrum = self._spectrum(values)
        return self._back(self.near * spectrum), self._back(self.far * spectrum)

    def error_of(self, values: Reals) -> float:
        """The bound of Higham (2002, section 24.1) for three transforms, by Cauchy-Schwarz at one cell."""
        steps = np.log2(self.padded[0] * self.padded[1])
        return float(ROUNDING * 6 * steps * self.norm * np.sqrt((values * values).sum()))

    def _spectrum(self, values: Reals) -> NDArray[np.complex128]:
        from scipy import fft

        spectrum: NDArray[np.complex128] = fft.rfft2(values.reshape(self.shape), self.padded, workers=-1)
        return spectrum

    def _back(self, spectrum: NDArray[np.complex128]) -> Reals:
        from scipy import fft

        whole: NDArray[Any] = fft.irfft2(spectrum, self.padded, workers=-1)
        back: Reals = whole[: self.shape[0], : self.shape[1]].reshape(-1)
        return back


def _around_corner(quarter: Reals, padded: tuple[int, int]) -> Reals:
    """Lay a kernel of offsets 0, 1, ... around the corner of the padded grid, negative offsets from the far end."""
    rows, columns = quarter.shape
    whole = np.zeros(padded)
    whole[:rows, :columns] = quarter
    whole[padded[0] - rows + 1 :, :columns] = quarter[:0:-1]
    whole[:, padded[1] - columns + 1 :] = whole[:, columns - 1 : 0 : -1]
    return whole
