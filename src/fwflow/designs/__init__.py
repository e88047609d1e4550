"""What is the matrix A of a linear model? One small protocol; algorithms never ask which kind it is."""

from __future__ import annotations

from typing import Any, Protocol

import scipy.sparse as sp

from fwflow._validation import Array
from fwflow.designs.dense import DenseDesign
from fwflow.designs.sparse import SparseDesign
from fwflow.points import Vertex

__all__ = ["DenseDesign", "Design", "SparseDesign", "as_design"]


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


def as_design(A: Any, name: str = "A") -> Design:
    """Wrap a dense array or a SciPy sparse matrix; a `Design` is passed through. `name` is for errors."""
    if all(hasattr(A, name) for name in ("matvec", "rmatvec", "column", "shape", "dtype")):
        return A
    design = SparseDesign(A, name) if sp.issparse(A) else DenseDesign(A, name)
    if 0 in design.shape:
        raise ValueError(f"{name} is empty: its shape is {design.shape}")
    return design
