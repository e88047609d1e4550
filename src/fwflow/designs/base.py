"""Interface of the matrix A of a linear model; algorithms do not depend on how the matrix is stored."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from fwflow._validation import Array, ours
from fwflow.points.vertices import DenseVertex, Scaled, Sum, Vertex


class DataLost(RuntimeError):
    """The data of a design can no longer be read. A run then ends with its best point."""


@dataclass(frozen=True)
class DataCost:
    """Cost of reading the data of a design or an objective."""

    #: Cost of one pass over the data, in entries of a dense matrix in memory. None: unknown.
    of_pass: int | None = None
    #: Whether the data lies on disk or in other processes, so that passes over it dominate the cost of a run.
    remote: bool = False
    #: Share of the columns up to which `Design.some_columns` is faster than `Design.rmatvec`.
    column_share: float = 0.0


class Design(ABC):
    """Matrix of a linear model. `matvec` and `rmatvec` are passes over the data; `column` is not.

    A new design needs these three methods, `shape` and `dtype`. The other members are optional, and their defaults
    mean "not offered". A run compares each offered member with `column` when it first uses it. Arguments may be
    read-only arrays. Products are copied, so a design may return the same buffer again; columns are kept.
    """

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    data_cost: DataCost = DataCost()

    @abstractmethod
    def matvec(self, x: Array) -> Array:
        """Return ``A @ x``."""

    @abstractmethod
    def rmatvec(self, r: Array) -> Array:
        """Return ``A.T @ r``."""

    @abstractmethod
    def column(self, j: int) -> Vertex:
        """Return column j in a form that can be added to an image."""

    @property
    def trusted(self) -> bool:
        """Whether `rmatvec` is known to be the transpose of `matvec`. A run checks designs that are not trusted."""
        return ours(self)

    def fingerprint(self) -> str | None:
        """Return a text that identifies the data, or None. A saved state continues only with the same text."""
        return None

    def combined(self, indices: Array, values: Array) -> Vertex:
        """Return the sum of ``values[i] * A[:, indices[i]]``."""
        columns = (self.column(int(j)) for j in indices)
        return DenseVertex(Sum(tuple(map(Scaled, map(float, values), columns))).to_dense(self.dtype))

    def rmatmat(self, R: Array) -> Array | None:
        """Return ``R @ A``, one vector per row of R, if one pass over the data suffices for all; else None."""
        return None

    def some_columns(self, r: Array, columns: Any) -> Array | None:
        """Return ``A[:, columns].T @ r`` without a pass over the data, or None."""
        return None

    def some_rows(self, rows: Array) -> Any | None:
        """Return ``A[rows]`` as an array or a sparse matrix without a pass over the data, or None."""
        return None

    def column_norms(self) -> Array | None:
        """Return the Euclidean norms of the columns in double precision, or None."""
        return None

    def centred(self) -> Design:
        """Return this matrix with a constant subtracted from nearly constant columns, for models with an intercept."""
        return self

    def double(self) -> Design | None:
        """Return the same matrix with products in double precision, or None."""
        return None


class DesignWrapper(Design):
    """Design that changes some members of another design."""

    def __init__(self, design: Design) -> None:
        self.design = design
        self.shape, self.dtype, self.data_cost = design.shape, design.dtype, design.data_cost

    @property
    def trusted(self) -> bool:
        return self.design.trusted

    def fingerprint(self) -> str | None:
        return self.design.fingerprint()
