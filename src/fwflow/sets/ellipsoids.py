"""Ellipsoids, with axes along the coordinates or rotated."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fwflow._numerics import dot, length
from fwflow._validation import Array, finite_array, float_dtype
from fwflow.points.vertices import DenseVertex, Shape, Vertex
from fwflow.sets.base import ParametricSet, Projection, check_shape, rounding
from fwflow.sets.bounded import ROUNDING

# Farther points are projected as if they were this many longest half-axes away, so that squares do not overflow.
_FAR = 1e100
# Largest deviation of ``Q^T Q`` from the identity for a rotation Q. Chosen without tuning.
_ORTHOGONAL = 1e-8


class Ellipsoid(ParametricSet):
    r"""Ellipsoid :math:`\{c + Q(a \circ u) : \|u\|_2 \le 1\}`, with the columns of Q as axes.

    The default starting point is the centre. A zero gradient gives the end of the first axis.

    Parameters
    ----------
    center : (n,) array_like
        Centre c.
    axes : float or (n,) array_like
        Half the length of each axis, positive.
    rotation : (n, n) array_like, optional
        Orthogonal matrix Q with an axis in every column; by default the identity.

    See Also
    --------
    L2Ball : Equal axes around the origin.
    LinearImage : Image of any set under a matrix.

    Notes
    -----
    :Family: vectors
    :Uses: confidence regions, trust regions with a metric, robust optimisation
    :Oracle: :math:`c - Q(a \circ v) / \|v\|_2` with :math:`v = a \circ Q^T g`
    :Cost: :math:`n`; :math:`n^2` if rotated

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> C = fw.Ellipsoid([1.0, 0.0], [2.0, 1.0])
    >>> np.asarray(C.lmo(np.array([1.0, 0.0]))), C.contains([3.0, 0.0]), C.contains([1.0, 1.1])
    (array([-1.,  0.]), True, False)
    """

    shape: Shape
    parameters = ("center", "axes", "rotation")

    def __init__(self, center: ArrayLike, axes: ArrayLike, rotation: ArrayLike | None = None) -> None:
        self.center = finite_array(center, "center", ndim=1).astype(np.float64)
        n = len(self.center)
        lengths = finite_array(axes, "axes").astype(np.float64)
        if not n or lengths.shape not in ((), (n,)) or (lengths <= 0).any():
            raise ValueError(f"axes must be a positive number, or one for each of the {n} entries of center")
        self.axes, self.shape = np.broadcast_to(lengths, (n,)), (n,)
        self.rotation = None if rotation is None else finite_array(rotation, "rotation", ndim=2).astype(np.float64)
        Q = self.rotation
        if Q is not None and (Q.shape != (n, n) or np.abs(dot(Q.T, Q) - np.eye(n)).max() > _ORTHOGONAL):
            raise ValueError(f"rotation must be an orthogonal matrix of {n} x {n}")

    def __repr__(self) -> str:
        return f"Ellipsoid(dimension {self.shape[0]})"

    def _along(self, x: Array) -> Array:
        """Return the components along the axes."""
        return x if self.rotation is None else dot(self.rotation.T, x)

    def _back(self, components: Array) -> Array:
        return components if self.rotation is None else dot(self.rotation, components)

    def lmo(self, g: Array, hint: Vertex | None = None) -> DenseVertex:
        wide = g.astype(np.float64, copy=False)
        v = self.axes / self.axes.max() * self._along(wide / (float(np.abs(wide).max()) or 1.0))
        size = length(v)
        u = -v / size if size else np.eye(1, len(v))[0]
        return DenseVertex((self.center + self._back(self.axes * u)).astype(float_dtype(g.dtype), copy=False))

    def start(self, shape: Shape | None = None, dtype: Any = np.float64) -> Array:
        return self.center.astype(dtype)

    def near(self, x: Array, tol: float, noise: Array) -> bool:
        check_shape(self, x)
        off = noise + rounding(x, self.center)
        sizes = off if self.rotation is None else dot(np.abs(self.rotation.T), off)
        with np.errstate(over="ignore", invalid="ignore"):
            away = length(self._along(x - self.center) / self.axes)
        return bool(away <= 1 + tol + length(sizes / self.axes))

    def projection(self, shape: Shape) -> Projection:
        return self._nearest

    def _nearest(self, x: ArrayLike) -> Array:
        r"""Return the projection, with components :math:`z_i a_i^2 / (a_i^2 + t)`, by the secular equation for t.

        1 / (length of the projection in axis units) is concave in t. Newton's method increases to the root (Hebden
        1973).
        """
        x = finite_array(x, "x")
        wide = x.astype(np.float64, copy=False)
        if self.near(wide, ROUNDING, np.zeros_like(wide)):
            return x
        largest = float(self.axes.max())
        a, z = self.axes / largest, self._offset(wide, largest)
        t = max(0.0, float((a * (np.abs(z) - a)).max()))  # For smaller t, one component alone is too large.
        while True:
            u = a * z / (a**2 + t)
            size = length(u)
            rise = (size - 1) / float(dot((u / size) ** 2, 1 / (a**2 + t)))
            if rise <= ROUNDING * (t + rise):
                break
            t += rise
        inside = self._back(largest * (a * (u / max(size, 1.0))))
        return (self.center + inside).astype(x.dtype, copy=False)

    def _offset(self, x: Array, unit: float) -> Array:
        """Return the components of x minus the centre, divided by `unit`, and shortened beyond `_FAR` units."""
        power = int(np.frexp(max(float(np.abs(x).max()), float(np.abs(self.center).max())))[1])
        with np.errstate(over="ignore"):
            size = min(float(np.ldexp(1 / unit, power)), _FAR)
        return size * self._along(np.ldexp(x, -power) - np.ldexp(self.center, -power))

    def diameter(self, shape: Shape | None = None) -> float:
        return 2 * float(self.axes.max())
