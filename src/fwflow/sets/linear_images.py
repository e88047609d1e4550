"""Linear images of sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from fwflow._fingerprints import fingerprint
from fwflow._numerics import dot
from fwflow._storage import storable
from fwflow._validation import Array, finite_array, float_dtype
from fwflow.points.vertices import DenseVertex, Shape, Vertex
from fwflow.sets.base import ConstraintSet, Crossing, KnownSet, part_of, size_of
from fwflow.sets.lanczos import spectral_bound
from fwflow.sets.membership import MOST_ASKED, mixes, widths


@storable("image")
@dataclass(frozen=True, eq=False)
class Image(DenseVertex):
    """The image of a vertex, which it keeps."""

    vertex: Vertex | None = None

    @property
    def parts(self) -> tuple[Vertex, ...]:  # type: ignore[override]
        return () if self.vertex is None else (self.vertex,)


class LinearImage(KnownSet):
    """The vectors ``M x`` for x in a set: its oracle asks that of the set for ``M^T g``.

    It starts at the image of the start. The answer of the oracle is the image of a vertex, which is one of the image
    unless others tie with it. Whether a point is a member is asked of the oracle, up to 100 entries, unless that is a
    user's function.

    Parameters
    ----------
    M : (m, n) array or sparse matrix
    constraint : ConstraintSet
        Of vectors with n entries, or of arrays with n entries that are read row by row.

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
        self.constraint = constraint
        self._inner: Shape = (self.M.shape[1],) if constraint.shape is None else constraint.shape
        if size_of(self._inner) != self.M.shape[1]:
            raise ValueError(
                f"M has {self.M.shape[1]} columns; members of {constraint!r} have {size_of(self._inner)} entries"
            )
        self.shape = (self.M.shape[0],)
        self.polytope, self.start_asks = constraint.polytope, constraint.start_asks

    def __repr__(self) -> str:
        return f"LinearImage({self.M.shape[0]} x {self.M.shape[1]} matrix, {self.constraint!r})"

    @property
    def trusted(self) -> bool:
        return super().trusted and self.constraint.trusted

    def fingerprint(self) -> str:
        return fingerprint(self, self.M, self.constraint.fingerprint())

    def _asked(self, g: Any) -> Array:
        g = np.asarray(g, float_dtype(g.dtype))
        if g.shape != self.shape:
            raise ValueError(f"g has shape {g.shape}; members of {self!r} have shape {self.shape}")
        return dot(self.M.T, g).astype(g.dtype, copy=False).reshape(self._inner)

    def _image(self, vertex: Vertex, dtype: Any) -> Image:
        few = vertex.entries()
        if few is None:
            array = dot(self.M, vertex.to_dense().reshape(-1))
        else:
            array = dot(self.M[:, np.asarray(few[0])], np.asarray(few[1], dtype=np.float64))
        return Image(array.astype(float_dtype(dtype), copy=False), vertex=vertex)

    def lmo(self, g: Any, hint: Vertex | None = None) -> Image:
        return self._image(self.constraint.lmo(self._asked(g), part_of(hint)), g.dtype)

    def lmo_at(self, g: Any, inner: float, hint: Vertex | None = None) -> Image:
        return self._image(self.constraint.lmo_at(self._asked(g), inner, part_of(hint)), g.dtype)

    def lower_bound(self, g: Any, vertex: Vertex) -> float:
        return self.constraint.lower_bound(self._asked(g), vertex.parts[0])

    def best_vertices(self, g: Any, count: int, best: Vertex) -> list[Vertex]:
        inner = self.constraint.best_vertices(self._asked(g), count, best.parts[0])
        return [self._image(vertex, g.dtype) for vertex in inner]

    def crossing(
        self, start: Array, end: Array, levels: tuple[float, float], skip: Sequence[Vertex], noise: float
    ) -> Crossing | None:
        inner = self.constraint.crossing(
            self._asked(start), self._asked(end), levels, [vertex.parts[0] for vertex in skip], noise
        )
        if inner is None or inner.vertex is None:
            return inner
        return Crossing(inner.theta, self._image(inner.vertex, start.dtype))

    def start(self, shape: Shape | None = None, dtype: Any = np.float64) -> Array:
        return dot(self.M, np.asarray(self.constraint.start(self._inner)).reshape(-1)).astype(dtype)

    def near(self, x: Array, tol: float, noise: Array) -> bool | None:
        if x.shape != self.shape:
            raise ValueError(f"x has shape {x.shape}; members of {self!r} have shape {self.shape}")
        if x.size > MOST_ASKED or self.start_asks:
            return None
        return mixes(self, x, tol * widths(self, x.shape) + noise)

    def diameter(self, shape: Shape | None = None) -> float | None:
        """At most this: the spectral norm of M times that of the set."""
        inner = self.constraint.diameter(self._inner)
        return None if inner is None else inner * spectral_bound(self.M, 0.0)
