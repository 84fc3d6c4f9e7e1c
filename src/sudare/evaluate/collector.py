"""How many people are where, from their reports: iterative Bayesian update, stopped by reports it has not seen.

With P(y|x) = alpha(x) w(y) E(x, y) and the shares q(y) of reports, one step of expectation maximisation is

    theta(x) <- theta(x) * alpha(x) * E[ q / E(alpha theta) ](x)

where the weights w have cancelled; on a plane grid both sums are convolutions. Steps go on while held-out reports
become likelier: later ones fit noise (200 steps are worse than none on a smooth map).

Source: Agrawal, Aggarwal 2001; ElSalamouny, Palamidessi, Generalized iterative Bayesian update, 2020. Early stopping
and intervals are ours; how often intervals hold is measured in tests/unit/test_location_collector.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sudare.errors import ParameterError
from sudare.methods.location.kernel import ConvolutionKernel, DenseKernel, Kernel
from sudare.methods.location.mechanism import Mechanism
from sudare.methods.location.posterior import norms

Floats = NDArray[np.float64]
Smooth = Callable[[Floats], Floats]

MOST_STEPS = 300
PATIENCE = 10  # steps without a better held-out likelihood before it is given up
AT_ONCE = 2**22  # numbers in one batch of transforms


@dataclass(frozen=True, kw_only=True, eq=False)
class Collector:
    """The arithmetic of one artefact; arrays are (samples, cells), so that replicates go through one transform.

    >>> from fractions import Fraction
    >>> from sudare.methods.location.grid import PlaneGrid
    >>> from sudare.methods.location.mechanism import ONE
    >>> grid = PlaneGrid(rows=1, columns=2, cell_height_metres=100, cell_width_metres=100)
    >>> law = Mechanism(places=grid, beta_per_metre=Fraction(1, 100), weights=np.array([ONE, ONE]))
    >>> Collector.of(law).estimate(np.array([[600, 400]]), steps=100).round(3).tolist()
    [[0.716, 0.284]]
    """

    alpha: Floats
    weights: Floats
    start: Floats
    smooth: Smooth

    @classmethod
    def of(cls, mechanism: Mechanism, *, prior: Floats | None = None) -> Collector:
        """Prepare a map; `prior` (default: even over where people can be) is where the steps start."""
        inside = mechanism.can_enter
        alpha = np.where(inside, 1 / norms(mechanism)[0], 0.0)
        start = _start(inside, prior)
        return cls(
            alpha=alpha, weights=mechanism.shares, start=start, smooth=smoother(mechanism.kernel, mechanism.places.size)
        )

    def law_of_reports(self, shares: Floats) -> Floats:
        """The probability of every report if people are spread like `shares` (cells)."""
        law = np.maximum(self.weights * self.smooth((self.alpha * shares)[None])[0], 0.0)
        normed: Floats = law / law.sum()
        return normed

    def estimate(self, counts: NDArray[np.int64], *, steps: int) -> Floats:
        """Run so many steps for every row of counts; rows of the result add up to 1."""
        shares = counts / counts.sum(axis=1, keepdims=True)
        theta = np.broadcast_to(self.start, shares.shape).copy()
        for _ in range(steps):
            theta = self._step(theta, shares, self._mix(theta))
        normed: Floats = theta / theta.sum(axis=1, keepdims=True)
        return normed

    def steps_by(self, seen: NDArray[np.int64], held_out: NDArray[np.int64], *, most: int = MOST_STEPS) -> int:
        """Count the steps on `seen` after which the reports held out are likeliest, over all rows together."""
        shares = seen / seen.sum(axis=1, keepdims=True)
        theta = np.broadcast_to(self.start, shares.shape).copy()
        places = np.nonzero(held_out)
        best, best_step = -np.inf, 0
        for step in range(most + 1):
            mix = self._mix(theta)
            likelihood = float((held_out[places] * np.log(mix[places])).sum())
            if likelihood > best:
                best, best_step = likelihood, step
            if step - best_step >= PATIENCE:
                break
            theta = self._step(theta, shares, mix)
        return best_step

    def _mix(self, theta: Floats) -> Floats:
        """E(alpha theta); never less than its own term, which an FFT's absolute error could drown."""
        inner = self.alpha * theta
        return np.maximum(np.maximum(self.smooth(inner), inner), np.finfo(np.float64).tiny)

    def _step(self, theta: Floats, shares: Floats, mix: Floats) -> Floats:
        moved: Floats = theta * self.alpha * np.maximum(self.smooth(shares / mix), 0.0)
        return moved


def smoother(kernel: Kernel, cells: int) -> Smooth:
    """Give E v for many v at once, (samples, cells) -> (samples, cells)."""
    if isinstance(kernel, DenseKernel):
        near = kernel.near
        return lambda values: values @ near.T
    if not isinstance(kernel, ConvolutionKernel):
        return lambda values: np.array([kernel.smooth(one) for one in values])
    rows = max(1, AT_ONCE // (kernel.padded[0] * kernel.padded[1]))

    def smooth(values: Floats) -> Floats:
        return np.concatenate([_convolve(kernel, values[k : k + rows]) for k in range(0, len(values), rows)])

    return smooth


def _convolve(kernel: ConvolutionKernel, values: Floats) -> Floats:
    from scipy import fft

    height, width = kernel.shape
    spectrum = fft.rfft2(values.reshape(-1, height, width), kernel.padded, axes=(1, 2), workers=-1)
    spectrum *= kernel.near
    whole: NDArray[Any] = fft.irfft2(spectrum, kernel.padded, axes=(1, 2), workers=-1)
    back: Floats = whole[:, :height, :width].reshape(len(values), -1)
    return back


def _start(inside: NDArray[np.bool_], prior: Floats | None) -> Floats:
    if prior is None:
        even: Floats = inside / inside.sum()
        return even
    given = np.where(inside, np.asarray(prior, dtype=np.float64), 0.0)
    if len(prior) != len(inside) or not np.isfinite(given).all() or given.min() < 0 or given.sum() <= 0:
        raise ParameterError("the prior must have one number of at least 0 per cell, and one above 0 where people are")
    # a cell of prior 0 could never be found; a little everywhere lets reports speak against the prior
    mixed: Floats = 0.99 * given / given.sum() + 0.01 * inside / inside.sum()
    return mixed
