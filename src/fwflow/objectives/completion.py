"""Matrix completion: losses of the observed entries of a low-rank matrix."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from fwflow._fingerprints import fingerprint
from fwflow._validation import Array, finite_array, float_array, whole
from fwflow.objectives.base import ImageMap
from fwflow.objectives.image_based import LossOfImage
from fwflow.objectives.losses import Loss, find_loss
from fwflow.objectives.quadratic_models import NOWHERE
from fwflow.points.gradients import Sampled
from fwflow.points.lowrank import LowRank, Positions
from fwflow.points.point import FactoredPoint, Point
from fwflow.points.vertices import NEEDS_RANK_ONE, DenseVertex, Vertex


class ObservedEntries(ImageMap):
    """Map from a low-rank matrix to its observed entries."""

    def __init__(self, rows: Array, cols: Array, shape: tuple[int, int]) -> None:
        self.positions, self.size = Positions(rows.astype(np.intp), cols.astype(np.intp), shape), len(rows)

    def of_point(self, point: Point) -> FactoredPoint:
        return FactoredPoint(point.x, self.positions.entries(point.x.U, point.x.V))

    def of_vertex(self, vertex: Vertex) -> DenseVertex:
        factors = vertex.factors()
        if factors is None:
            raise ValueError(f"C returned a {type(vertex).__name__}; {NEEDS_RANK_ONE}")
        u, v, scale = factors
        return DenseVertex((scale * u)[self.positions.i] * v[self.positions.j])


class MatrixCompletion(LossOfImage):
    r"""Sum (or mean) of losses of observed entries, :math:`f(X) = \sum_{(i,j) \in \Omega} \ell(X_{ij}, b_{ij})`.

    It is the objective of matrix completion and of recommender systems: with a `NuclearBall`, the minimiser is a matrix
    factorisation of low rank. Each point stores the observed entries of a `LowRank` matrix X. The memory is O(nnz +
    rank (rows + cols)).

    Parameters
    ----------
    rows, cols : (nnz,) integer array_like
        Positions of the observed entries, without duplicates.
    values : (nnz,) array_like
        Observed entries. Masked entries count as not observed.
    shape : (int, int)
        Numbers of rows and columns of the matrix.
    loss : str or Loss
        A name in ``fwflow.objectives.losses.losses``, for example "huber" (the default) or "squared", or an object.
        ``fwflow list losses`` prints all names.
    rho : float
        Parameter of two losses; 10 by default. "huber" is linear for residuals larger than rho. "quantile" is quadratic
        on an interval of width rho.
    quantile : float
        Level of the loss "quantile", strictly between 0 and 1; 0.5 by default.
    scale : {"sum", "mean"}
        Whether f is the sum (the default) or the mean of the losses.
    weights : (nnz,) array_like, optional
        Non-negative factors of the losses; the mean is then the weighted mean.

    See Also
    --------
    NuclearBall : Set of matrices of low rank.
    LowRank : Form of the solution.
    fwflow.sklearn.NuclearCompletion : Estimator with biases of rows and columns.

    Examples
    --------
    >>> import fwflow as fw
    >>> f = fw.MatrixCompletion([0, 1], [0, 1], [2.0, 2.0], (2, 2), loss="squared")
    >>> r = fw.minimize(f, fw.NuclearBall(4.0), tol=0, max_iter=50)
    >>> r.x.entries([0, 1], [0, 1]).round(1)
    array([2., 2.])
    """

    factored = True
    image_map: ObservedEntries

    def __init__(
        self,
        rows: ArrayLike,
        cols: ArrayLike,
        values: ArrayLike,
        shape: tuple[int, int],
        loss: str | Loss = "huber",
        rho: float = 10.0,
        *,
        quantile: float = 0.5,
        scale: str = "sum",
        weights: ArrayLike | None = None,
    ) -> None:
        try:
            rows_, cols_ = shape
            self.shape = (whole(rows_, "shape", 1), whole(cols_, "shape", 1))
        except (TypeError, ValueError):
            raise ValueError(f"shape must be two positive integers; got {shape!r}") from None
        i, j = _indices(rows, "rows", self.shape[0]), _indices(cols, "cols", self.shape[1])
        if isinstance(values, np.ma.MaskedArray) and values.shape == i.shape == j.shape:
            observed = ~np.ma.getmaskarray(values)
            i, j, values = i[observed], j[observed], values.compressed()
            weights = None if weights is None else np.asarray(weights)[observed]
        b = finite_array(values, "values", ndim=1)
        if not len(i) == len(j) == len(b):
            raise ValueError(f"rows, cols and values must agree in length; got {len(i)}, {len(j)} and {len(b)}")
        if len(b) == 0:
            raise ValueError("values is empty; at least one observed entry is needed")
        self._set_losses(find_loss(loss, rho, quantile), b, scale, weights)
        order = np.lexsort((j, i))  # With entries in CSR order, all gradients share their index arrays.
        self.rows, self.cols, self.b = i[order], j[order], b[order]
        if ((np.diff(self.rows) == 0) & (np.diff(self.cols) == 0)).any():
            raise ValueError("rows and cols name a position twice; each may be observed once")
        self.dtype = b.dtype
        self.weights = None if self.weights is None else self.weights[order]
        self.image_map = ObservedEntries(self.rows, self.cols, self.shape)
        self._indptr = np.searchsorted(self.rows, np.arange(self.shape[0] + 1)).astype(self.cols.dtype)

    @property
    def completion(self) -> MatrixCompletion:
        return self

    def fingerprint(self) -> str:
        weights = {} if self.weights is None else {"weights": self.weights}
        return fingerprint(
            self,
            rows=self.rows,
            cols=self.cols,
            values=self.b,
            shape=self.shape,
            loss=self.loss,
            scale=self.factor,
            **weights,
        )

    def point(self, x: Any, name: str = "x0") -> Point:
        if not isinstance(x, LowRank):
            dense = finite_array(x, name, ndim=2)
            x = LowRank.from_factors(dense, np.eye(dense.shape[1], dtype=dense.dtype))
        if x.shape != self.shape:
            raise ValueError(f"{name} has shape {x.shape}; the objective is defined on {self.shape}")
        return self.refresh(FactoredPoint(x.cast(self.dtype)))

    def precise(self) -> MatrixCompletion:
        doubled = copy.copy(self)
        doubled.b, doubled.dtype = self.b.astype(np.float64), np.dtype(np.float64)
        return doubled

    def gradient(self, point: Point) -> Sampled:
        return Sampled(self.dual(point), self.cols, self._indptr, self.shape)

    def gradient_matrix(self, image: Array) -> sp.csr_array:
        """Return the gradient at a matrix with these observed entries, as a sparse matrix."""
        return self.gradient(Point(NOWHERE, image)).matrix

    def entries(self, U: Array, V: Array) -> Array:
        """Return the observed entries of ``U @ V.T``."""
        return self.image_map.positions.entries(U, V)


def _indices(value: ArrayLike, name: str, size: int) -> Array:
    numbers = float_array(value, name, ndim=1)
    if not ((numbers >= 0) & (numbers < size) & (numbers == np.floor(numbers))).all():
        raise ValueError(f"{name} must hold integers from 0 to {size - 1}")
    return numbers.astype(np.int32)
