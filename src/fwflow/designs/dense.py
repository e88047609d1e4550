"""A dense design matrix, used in the memory order it came in and never copied."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fwflow._validation import Array, finite_array
from fwflow.points import DenseVertex


class DenseDesign:
    """A NumPy matrix. Only integers, booleans and extended precision are converted, once, to float64.

    BLAS streams ``A.T @ r`` at memory speed in either order, and a strided column of m entries is
    small beside that pass over all m n of them, so there is nothing to gain from a copy.
    """

    def __init__(self, A: ArrayLike, name: str = "A") -> None:
        self.A: Array = finite_array(A, name, ndim=2)
        self.shape: tuple[int, int] = self.A.shape
        self.dtype: np.dtype[Any] = self.A.dtype

    def matvec(self, x: Array) -> Array:
        return self.A @ x

    def rmatvec(self, r: Array) -> Array:
        return r @ self.A

    def column(self, j: int) -> DenseVertex:
        return DenseVertex(self.A[:, j])
