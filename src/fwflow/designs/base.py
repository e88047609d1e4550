"""What is the matrix A of a linear model? One small interface; algorithms never ask which kind it is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from fwflow._validation import Array, ours
from fwflow.points.vertices import DenseVertex, Scaled, Sum, Vertex


class DataLost(RuntimeError):
    """A product with the matrix cannot be had, because the data is out of reach; the run ends with its best point."""


class Design(ABC):
    """The matrix behind a linear model. ``matvec`` and ``rmatvec`` are passes over the data; ``column`` is not.

    A new design needs these three, `shape` and `dtype`. What it is given may be read-only. Products are copied, so they
    may be one buffer that is filled again; columns are kept. The members below say what else it can do; where one is
    offered it must agree with the products, against which it is checked in use.
    """

    shape: tuple[int, int]
    dtype: np.dtype[Any]

    @abstractmethod
    def matvec(self, x: Array) -> Array:
        """``A @ x``."""

    @abstractmethod
    def rmatvec(self, r: Array) -> Array:
        """``A.T @ r``."""

    @abstractmethod
    def column(self, j: int) -> Vertex:
        """Column j as something that can be added to an image."""

    @property
    def trusted(self) -> bool:
        """Whether `rmatvec` is known to be the transpose of `matvec`, so that no run has to compare them."""
        return ours(self)

    def fingerprint(self) -> str | None:
        """What tells this matrix from others: a text made of its data, else None.

        A state continues only with the data that it comes from, as far as that can be told; see ``fingerprints``.
        """
        return None

    def combined(self, indices: Array, values: Array) -> Vertex:
        """The sum of ``values[i] * A[:, indices[i]]``."""
        columns = (self.column(int(j)) for j in indices)
        return DenseVertex(Sum(tuple(map(Scaled, map(float, values), columns))).to_dense(self.dtype))

    def rmatmat(self, R: Array) -> Array | None:
        """``R @ A`` for several vectors, one per row, where one pass over the data serves them all; else None."""
        return None

    #: What a pass costs, counted in entries of a dense matrix; None where that is not known.
    pass_cost: int | None = None
    #: Whether the data lies on disk or with other processes, so that passes are what a run costs.
    far: bool = False
    #: Up to this share of the columns, `some_columns` is quicker than `rmatvec`.
    cheap_share: float = 0.0

    def some_columns(self, r: Array, columns: Any) -> Array | None:
        """``A[:, columns].T @ r`` without a pass, else None."""
        return None

    def from_columns(self, x: Array, columns: Any) -> Vertex:
        """``A[:, columns] @ x`` for so many columns that they count as their share of a pass."""
        return self.combined(np.asarray(columns), x)

    def some_rows(self, rows: Array) -> Any | None:
        """``A[rows]`` as an array or a sparse matrix without a pass, else None."""
        return None

    def column_norms(self) -> Array | None:
        """Euclidean norms of the columns in double precision, else None."""
        return None

    def centred(self) -> Design:
        """This matrix with columns far from zero moved next to it, where an intercept makes up for that.

        The default moves none: finding them takes a pass over the data.
        """
        return self

    def double(self) -> Design | None:
        """The same matrix, multiplied in double precision, else None."""
        return None
