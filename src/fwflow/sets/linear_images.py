"""Linear images of sets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from fwflow._fingerprints import fingerprint
from fwflow._numerics import dot
from fwflow._storage import storable
from fwflow._validation import Array, finite_array, float_dtype
from fwflow.points.vertices import DenseVertex, Shape, Vertex
from fwflow.sets.base import AffineImage, ConstraintSet, check_shape, size_of
from fwflow.sets.lanczos import spectral_bound
from fwflow.sets.membership import found_by_oracle


@storable("image")
@dataclass(frozen=True, eq=False)
class Image(DenseVertex):
    """The image of a vertex, together with the vertex."""

    vertex: Vertex | None = None

    @property
    def parts(self) -> tuple[Vertex, ...]:  # type: ignore[override]
        return () if self.vertex is None else (self.vertex,)


class LinearImage(AffineImage):
    """The vectors ``M x`` for x in a set: the inner oracle minimises ``<M^T g, x>``.

    It starts at the image of the start. The oracle returns the image of a vertex, which is a vertex of the image unless
    others tie with it. Membership is found by oracle calls, for up to 100 entries, unless the oracle is a user's
    function.

    Parameters
    ----------
    M : (m, n) array or sparse matrix
    constraint : ConstraintSet
        A set of vectors with n entries, or of arrays with n entries, which are read row by row.

    Notes
    -----
    :Family: made of other sets
    :Oracle: :math:`M` times the answer of :math:`C` to :math:`M^T g`
    :Cost: that of :math:`C` and two products
    :Offers: ranking

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> zonotope = fw.LinearImage([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]], fw.LInfBall())
    >>> np.asarray(zonotope.lmo(np.array([1.0, 1.0])))
    array([-2., -2.])
    """

    shape: Shape

    def __init__(self, M: Any, constraint: ConstraintSet) -> None:
        if not isinstance(constraint, ConstraintSet):
            raise ValueError(f"constraint must be a constraint set; got {constraint!r}")
        if sp.issparse(M):
            self.M = sp.csc_array(M)
            self.M.data = finite_array(self.M.data, "M")
        else:
            self.M = finite_array(M, "M", ndim=2)
        super().__init__(constraint)
        self._inner: Shape = (self.M.shape[1],) if constraint.shape is None else constraint.shape
        if size_of(self._inner) != self.M.shape[1]:
            raise ValueError(
                f"M has {self.M.shape[1]} columns; members of {constraint!r} have {size_of(self._inner)} entries"
            )
        self.shape = (self.M.shape[0],)

    def __repr__(self) -> str:
        return f"LinearImage({self.M.shape[0]} x {self.M.shape[1]} matrix, {self.constraint!r})"

    def fingerprint(self) -> str:
        return fingerprint(self, self.M, self.constraint.fingerprint())

    def cost(self, g: Any) -> Array:
        g = np.asarray(g, float_dtype(g.dtype))
        check_shape(self, g, "g")
        return dot(self.M.T, g).astype(g.dtype, copy=False).reshape(self._inner)

    def image(self, vertex: Vertex, g: Any) -> Image:
        few = vertex.entries()
        if few is None:
            array = dot(self.M, vertex.to_dense().reshape(-1))
        else:
            array = dot(self.M[:, np.asarray(few[0])], np.asarray(few[1], dtype=np.float64))
        return Image(array.astype(float_dtype(g.dtype), copy=False), vertex=vertex)

    def start(self, shape: Shape | None = None, dtype: Any = np.float64) -> Array:
        return dot(self.M, np.asarray(self.constraint.start(self._inner)).reshape(-1)).astype(dtype)

    def near(self, x: Array, tol: float, noise: Array) -> bool | None:
        check_shape(self, x)
        return found_by_oracle(self, x, tol, noise)

    def diameter(self, shape: Shape | None = None) -> float | None:
        """Return an upper bound: the spectral norm of M times the diameter of the set."""
        inner = self.constraint.diameter(self._inner)
        return None if inner is None else inner * spectral_bound(self.M, 0.0)
