"""What is the matrix A of a linear model? One small protocol; algorithms never ask which kind it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import scipy.sparse as sp

from fwflow._validation import Array
from fwflow.designs.dense import DenseDesign
from fwflow.designs.sparse import SparseDesign
from fwflow.points import DenseVertex, Scaled, Sum, Vertex

__all__ = ["ColumnAccess", "DenseDesign", "Design", "SparseDesign", "as_design", "combined"]


class Design(Protocol):
    """The matrix behind a linear model. ``matvec`` and ``rmatvec`` are passes over the data; ``column`` is not.

    A design whose pass serves several vectors at once may offer ``rmatmat(R)``, that is ``R @ A``.
    """

    @property
    def shape(self) -> tuple[int, int]: ...

    @property
    def dtype(self) -> Any: ...

    def matvec(self, x: Array) -> Array:
        """``A @ x``."""
        ...

    def rmatvec(self, r: Array) -> Array:
        """``A.T @ r``."""
        ...

    def column(self, j: int) -> Vertex:
        """Column j as something that can be added to an image."""
        ...


@runtime_checkable
class ColumnAccess(Design, Protocol):
    """What a `Design` may offer besides, so that columns which cannot matter are left out."""

    #: What a pass costs, counted in entries of a dense matrix.
    pass_cost: int
    #: Up to this share of the columns, `some_columns` is quicker than `rmatvec`.
    cheap_share: float

    def some_columns(self, r: Array, columns: Array) -> Array:
        """``A[:, columns].T @ r``."""
        ...

    def column_norms(self) -> Array:
        """Euclidean norms of the columns, in double precision."""
        ...


def shortcut(design: Any, name: str) -> Any:
    """A faster way that a design offers; None where it belongs to a base class whose products were overridden."""

    def place(attribute: str) -> int:
        mro = type(design).__mro__
        return next((i for i, cls in enumerate(mro) if attribute in vars(cls)), len(mro))

    return getattr(design, name, None) if place(name) <= min(map(place, ("matvec", "rmatvec", "column"))) else None


def combined(design: Design, indices: Sequence[int], values: Sequence[float]) -> Vertex:
    """The sum of ``values[i] * A[:, indices[i]]``, at once where the design can, else column by column."""
    if len(indices) == 1:
        return Scaled(float(values[0]), design.column(int(indices[0])))
    if (at_once := shortcut(design, "combined")) is not None:
        return at_once(np.asarray(indices), np.asarray(values))
    columns = (design.column(int(j)) for j in indices)
    return DenseVertex(Sum(tuple(map(Scaled, map(float, values), columns))).to_dense(design.dtype))


def as_design(A: Any, name: str = "A") -> Design:
    """Wrap a dense array or a SciPy sparse matrix; a `Design` is passed through. `name` is for errors."""
    if all(hasattr(A, name) for name in ("matvec", "rmatvec", "column", "shape", "dtype")):
        return A
    design = SparseDesign(A, name) if sp.issparse(A) else DenseDesign(A, name)
    if 0 in design.shape:
        raise ValueError(f"{name} is empty: its shape is {design.shape}")
    return design
