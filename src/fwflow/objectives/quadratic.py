"""General quadratics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fwflow._numerics import dot, length
from fwflow._validation import Array
from fwflow.objectives.base import Line
from fwflow.objectives.image_based import DesignImage, image_of
from fwflow.objectives.quadratic_models import CoordinateModel, Model
from fwflow.points.point import Lifted, Point
from fwflow.points.vertices import read_only


def parabola(value0: float, slope0: float, curvature: float, norm2: float) -> Line:
    """Return the line of a quadratic function."""
    return Line(
        value=lambda gamma: value0 + gamma * slope0 + 0.5 * gamma**2 * curvature,
        slope=lambda gamma: slope0 + gamma * curvature,
        second=lambda gamma: curvature,
        value0=value0,
        slope0=slope0,
        norm2=norm2,
        curvature=curvature,
        quadratic=True,
    )


class Quadratic(DesignImage):
    r"""Quadratic :math:`f(x) = \tfrac12 x^T H x - b^T x` with symmetric H, dense or sparse.

    Points carry H x, so that a gradient is one subtraction and a one-hot vertex costs one column of H. Convexity is
    not checked; without it the gap still measures stationarity.

    Parameters
    ----------
    H : (n, n) array, SciPy sparse matrix, or Design
    b : (n,) array_like, optional
        Zero by default.

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> r = fw.minimize(fw.Quadratic(np.eye(3), [3.0, 0.0, 0.0]), fw.Simplex(), line_search="exact")
    >>> r.x
    array([1., 0., 0.])
    """

    quadratic = True

    def __init__(self, H: Any, b: ArrayLike | None = None) -> None:
        super().__init__(H, "H")
        rows, n = self.design.shape
        if rows != n:
            raise ValueError(f"H must be square; its shape is {self.design.shape}")
        self.b = np.zeros(n, self.dtype) if b is None else self._target(b, "H")
        probe = read_only(np.random.default_rng(0).standard_normal(n).astype(self.design.dtype))
        left, right = np.array(self.design.matvec(probe)), self.design.rmatvec(probe)
        if np.abs(left - right).max() > 1e2 * np.finfo(self.design.dtype).eps * np.abs(left).max():
            raise ValueError("H must be symmetric; (H + H.T) / 2 gives the same function")

    def value(self, point: Point) -> float:
        return float(np.vdot(point.x, 0.5 * image_of(point) - self.b))

    def gradient(self, point: Point) -> Array:
        return image_of(point) - self.b

    def partial(self, point: Point, place: slice) -> Array:
        return image_of(point)[place] - self.b[place]

    def rounding(self, point: Point, vertex: Lifted) -> float:
        moved = np.abs(image_of(point)) + np.abs(self.b)
        eps = float(np.finfo(moved.dtype).eps)
        return eps * sum(length(moved * np.ravel(side)) for side in (point.x, vertex.coordinates.to_dense(moved.dtype)))

    def along(self, start: Point, end: Point, value0: float) -> Line:
        d = np.ravel(end.x - start.x)
        slope0 = float(dot(image_of(start) - self.b, d))
        curvature = float(dot(image_of(end) - image_of(start), d))
        return parabola(value0, slope0, curvature, float(dot(d, d)))

    def model(self, point: Point, gradient: Callable[[Point], Any]) -> Model:
        return CoordinateModel(1.0, np.asarray(self.b, dtype=np.float64))
