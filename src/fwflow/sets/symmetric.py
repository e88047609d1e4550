"""Symmetric members of a set: the fixed points of a group that acts on it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.sparse.csgraph import connected_components

from fwflow._validation import Array, finite_array, float_array, float_dtype
from fwflow.points.vertices import Shape, Vertex
from fwflow.sets.base import AffineImage, ConstraintSet, Projection
from fwflow.sets.products import Image

# Number of random directions in which the constructor checks that the set is symmetric. Chosen without tuning.
_CHECKS = 4
# Relative rounding error of an average that these checks allow.
_ROUNDING = 1e-9


class Symmetric(AffineImage):
    r"""Members of a set that do not change under a group of symmetries.

    The average over the group, :math:`R(x)`, is called the Reynolds operator. It projects onto the symmetric points. If
    the set C is symmetric, then :math:`R(C)` is the set of its symmetric members. If f is convex and symmetric, too,
    then f has a symmetric minimum, and `minimize` finds it in this smaller space. A vertex of :math:`R(C)` is the mean
    of the orbit of a vertex of C.

    The default starting point is the average of the start of C.

    Parameters
    ----------
    constraint : ConstraintSet
        Set that the group maps to itself.
    average : callable or (k, n) array_like of int
        Function ``x -> R(x)``, which must be an orthogonal projection; or permutations that generate the group. Each
        permutation is a row. It acts on the n entries of x, or on both the rows and the columns of an n x n matrix.

    See Also
    --------
    LinearImage : Image of a set under any matrix.
    Birkhoff : Symmetric under all permutations of rows and columns.

    Notes
    -----
    :Family: made of other sets
    :Uses: problems with symmetry: graphs with automorphisms, identical agents or machines, invariant measures
    :Oracle: the average of the answer of :math:`C` to the average of :math:`g`
    :Cost: the cost of :math:`C` and two averages
    :Offers: projection and ranking, if :math:`C` offers them

    Examples
    --------
    A simplex whose first and second entries are equal:

    >>> import numpy as np, fwflow as fw
    >>> C = fw.Symmetric(fw.Simplex(), [[1, 0, 2]])
    >>> s = C.lmo(np.array([-1.0, -3.0, 1.0]))
    >>> np.asarray(s), [vertex.tolist() for vertex in C.orbit(s)]
    (array([0.5, 0.5, 0. ]), [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    """

    def __init__(self, constraint: ConstraintSet, average: Callable[[Array], ArrayLike] | ArrayLike) -> None:
        if not isinstance(constraint, ConstraintSet):
            raise ValueError(f"constraint must be a constraint set; got {constraint!r}")
        self.permutations = None if callable(average) else _permutations(average)
        super().__init__(constraint, ("average", self.permutations))
        self.shape = constraint.shape
        self._average = average
        self._known_orbits: dict[Shape, Array] = {}  # by the shape of the members, which a set may leave open
        if self.shape is not None:
            self._check(self.shape)

    def __repr__(self) -> str:
        group = "a function" if self.permutations is None else f"{len(self.permutations)} permutations"
        return f"Symmetric({self.constraint!r}, {group})"

    @property
    def trusted(self) -> bool:
        return super().trusted and self.permutations is not None

    def fingerprint(self) -> str | None:  # type: ignore[override]
        return None if self.permutations is None else super().fingerprint()

    def average(self, x: Array) -> Array:
        """Return the average of an array over the group, in the type of the array.

        Parameters
        ----------
        x : array
            Array of the shape of the members.
        """
        if self.permutations is None:
            mean = float_array(self._average(np.array(x)), "average's result")  # type: ignore[operator]
            if mean.shape != x.shape:
                raise ValueError(f"average returned shape {mean.shape} for an array of shape {x.shape}")
            return mean.astype(x.dtype, copy=False)
        orbits = self._orbits(x.shape)
        sums, counts = np.bincount(orbits, x.reshape(-1)), np.bincount(orbits)
        return (sums / counts)[orbits].reshape(x.shape).astype(x.dtype, copy=False)

    def _orders(self, shape: Shape) -> Array:
        """Return the permutations of all entries of an array of this shape, one per row."""
        assert self.permutations is not None
        count, n = self.permutations.shape
        if shape == (n, n):
            return (self.permutations[:, :, None] * n + self.permutations[:, None, :]).reshape(count, -1)
        if math.prod(shape) != n:
            raise ValueError(f"average permutes {n} entries, or the rows and columns of a matrix; got shape {shape}")
        return self.permutations

    def _orbits(self, shape: Shape) -> Array:
        """Return the number of the orbit of every entry under the group that the permutations generate."""
        if shape not in self._known_orbits:
            orders = self._orders(shape)
            count, n = orders.shape
            places = np.tile(np.arange(n), count), orders.reshape(-1)
            graph = sp.coo_array((np.ones(count * n), places), shape=(n, n)).tocsr()
            self._known_orbits[shape] = connected_components(graph, directed=False)[1]
        return self._known_orbits[shape]

    def orbit(self, vertex: Vertex) -> list[Array]:
        """Return the images of a vertex of the inner set under all elements of the group, each once.

        Parameters
        ----------
        vertex : Vertex
            Answer of `lmo`, or a vertex of the inner set. The answer of `lmo` is the mean of its orbit.
        """
        if self.permutations is None:
            raise ValueError("orbit needs a group that is given by permutations; this one is given by a function")
        first = np.asarray(vertex.parts[0] if vertex.parts else vertex, dtype=np.float64)
        found = {first.tobytes(): first}
        new = [first]
        while new:
            images = [x.reshape(-1)[order].reshape(x.shape) for x in new for order in self._orders(x.shape)]
            new = [x for x in {x.tobytes(): x for x in images}.values() if x.tobytes() not in found]
            found |= {x.tobytes(): x for x in new}
        return list(found.values())

    def cost(self, g: Any) -> Array:
        return self.average(np.asarray(g, float_dtype(g.dtype)))

    def image(self, vertex: Vertex, g: Any) -> Image:
        return Image(self.average(vertex.to_dense().reshape(g.shape).astype(float_dtype(g.dtype))), vertex=vertex)

    def start(self, shape: Shape | None = None, dtype: Any = np.float64) -> Array:
        return self.average(np.asarray(self.constraint.start(shape, dtype), dtype=dtype))

    def near(self, x: Array, tol: float, noise: Array) -> bool | None:
        allowed = tol * float(np.abs(x).max(initial=0.0)) + noise + self.average(noise)
        return bool((np.abs(self.average(x) - x) <= allowed).all()) and self.constraint.near(x, tol, noise)

    def projection(self, shape: Shape) -> Projection | None:
        """Return the projection of the average onto the inner set, which is symmetric because that set is."""
        inner = self.constraint.projection(shape)
        return None if inner is None else lambda x: inner(self.average(finite_array(x, "x")))

    def diameter(self, shape: Shape | None = None) -> float | None:
        """Return an upper bound: the diameter of the inner set."""
        return self.constraint.diameter(shape)

    def _check(self, shape: Shape) -> None:
        """Raise an error if the average is no orthogonal projection or maps members out of the inner set."""
        rng = np.random.default_rng(0)
        for x, y in rng.standard_normal((_CHECKS, 2, *shape)):
            mean, other = self.average(x), self.average(y)
            if not np.allclose(self.average(mean), mean, rtol=0, atol=_ROUNDING * np.abs(x).max()):
                raise ValueError("average must be a projection: the average of an average is another point")
            if abs(np.vdot(mean, y) - np.vdot(x, other)) > _ROUNDING * x.size * np.abs(x).max() * np.abs(y).max():
                raise ValueError("average must be an orthogonal projection: <R(x), y> and <x, R(y)> differ")
            vertex = self.constraint.lmo(x)
            if self.constraint.contains(self.average(vertex.to_dense().reshape(shape)), 1e-6) is False:
                raise ValueError(f"{self.constraint!r} is not symmetric: the average of a vertex is not a member")


def _permutations(given: Any) -> Array:
    rows = finite_array(given, "average", ndim=2)
    if not rows.size or not (np.sort(rows, axis=1) == np.arange(rows.shape[1])).all():
        raise ValueError(f"average must be a function or permutations of 0, ..., n - 1, one per row; got {given!r}")
    return rows.astype(np.intp)
