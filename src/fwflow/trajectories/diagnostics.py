"""Zig-zag energy and empirical rates of trajectories."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fwflow._numerics import dot, norm
from fwflow._validation import Array, float_array, suggest, whole

_NORMALISATIONS = ("projector", "paper")


class ZigZag:
    r"""Zig-zag energy of a trajectory that is given point by point, with memory O(window n).

    Over a window of W steps from k, with :math:`\bar d = x^{(k+W)} - x^{(k)}` and
    :math:`d_i = x^{(i+1)} - x^{(i)}`, the energy is the mean over i = k+1, ..., k+W-1 of
    :math:`\|d_i - \bar d\,\bar d^T d_i / \|\bar d\|^2\|`. It is averaged over consecutive windows; an incomplete last
    window is ignored. An instance is a callback: ``minimize(..., callback=zigzag)`` and then ``zigzag.energy``.

    Parameters
    ----------
    window : int
        Number of steps in a window, at least 2.
    normalize : {"projector", "paper"}
        "paper" divides by :math:`\|\bar d\|`, as printed in the paper, which is not a projection.

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> zigzag = fw.ZigZag(window=2)
    >>> for x in ([0.0, 0.0], [1.0, 1.0], [2.0, 0.0]):
    ...     zigzag.add(x)
    >>> zigzag.energy
    1.0
    """

    def __init__(self, window: int = 5, normalize: str = "projector") -> None:
        window = whole(window, "window", 2)
        if normalize not in _NORMALISATIONS:
            raise ValueError(f"normalize={normalize!r} is not known; {suggest(normalize, _NORMALISATIONS)}")
        self.window, self.normalize = window, normalize
        self._points: list[Array] = []
        self._energies: list[float] = []

    def add(self, x: Any) -> None:
        """Add the next point of the trajectory."""
        self._points.append(float_array(x, "x").astype(np.float64).reshape(-1))
        if len(self._points) > self.window:
            self._energies.append(self._window_energy())
            self._points = self._points[-1:]

    def __call__(self, state: Any) -> None:
        self.add(state.x)

    @property
    def energy(self) -> float:
        """Mean energy of the complete windows; NaN before the first one."""
        return float(np.mean(self._energies)) if self._energies else float("nan")

    def _window_energy(self) -> float:
        d = np.diff(np.stack(self._points), axis=0)
        d_bar = d.sum(axis=0)
        length = float(norm(d_bar))
        divisor = length**2 if self.normalize == "projector" else length
        along = dot(d[1:], d_bar) / divisor if divisor > 0 else np.zeros(self.window - 1)
        return float(np.linalg.norm(d[1:] - np.outer(along, d_bar), axis=1).mean())


def zigzag_energy(X: Iterable[ArrayLike], window: int = 5, normalize: str = "projector") -> float:
    """Return the zig-zag energy of the points of a trajectory, an array with one per row or an iterator; see `ZigZag`.

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> straight = np.outer(np.arange(11.0), [3.0, 4.0])
    >>> round(fw.zigzag_energy(straight, window=5), 12)
    0.0
    """
    zigzag = ZigZag(window, normalize)
    for x in X:
        zigzag.add(x)
    return zigzag.energy


@dataclass(frozen=True)
class Rate:
    r"""A fit :math:`e_k \approx C k^{-r}`: ``exponent`` r, ``constant`` C, ``residual`` in decades (RMS)."""

    exponent: float
    constant: float
    residual: float


def fit_rate(errors: ArrayLike, k: ArrayLike | None = None, *, start: float = 0.5) -> Rate:
    """Fit a power law to the upper envelope of a sequence of errors.

    The envelope at k is the largest error from k on, which is what a rate bounds.

    Parameters
    ----------
    errors : array_like
        Nonnegative errors, one per iterate; row 0 is the start.
    k : array_like, optional
        Iterations of the errors. Default: 0, 1, 2, ...
    start : float
        Start of the fit, as a fraction of the logarithmic range of k.

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> round(fw.fit_rate(3.0 / np.maximum(1, np.arange(1000.0)) ** 2).exponent, 6)
    2.0
    """
    e = float_array(errors, "errors").astype(float)
    position = np.arange(e.size, dtype=float) if k is None else float_array(k, "k").astype(float)
    if e.shape != position.shape or e.ndim != 1:
        raise ValueError(f"errors and k must be vectors of one length; got {e.shape} and {position.shape}")
    known = ~np.isnan(e)
    e, position = e[known], position[known]
    envelope = np.maximum.accumulate(e[::-1])[::-1]
    use = (position > 0) & (envelope > 0) & np.isfinite(envelope)
    if use.any():
        use &= position >= position[use].min() * (position[use].max() / position[use].min()) ** start
    if use.sum() < 2:
        raise ValueError("errors has fewer than two positive entries to fit")
    x, y = np.log10(position[use]), np.log10(envelope[use])
    slope, intercept = np.polyfit(x, y, 1)
    return Rate(-float(slope), float(10**intercept), float(np.sqrt(np.mean((y - slope * x - intercept) ** 2))))
