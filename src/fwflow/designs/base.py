"""Interface of the matrix A of a linear model, and the wrapper that counts the passes over it in a run."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from fwflow._numerics import dot, norm
from fwflow._storage import storable
from fwflow._validation import Array, ours
from fwflow.points.vertices import DenseVertex, Scaled, Sum, Vertex


class DataLost(RuntimeError):
    """Error for data of a design that can no longer be read. A run then ends with its best point.

    See Also
    --------
    open : Matrix in files.
    Distributed : Matrix on a cluster.
    fwflow.Status : ``Status.DATA`` is the end of such a run.

    Examples
    --------
    A matrix in a file that is deleted during a run:

    >>> import os, tempfile, numpy as np, fwflow as fw
    >>> from fwflow import designs
    >>> path = tempfile.mkdtemp() + "/A.npy"
    >>> np.save(path, np.eye(3))
    >>> f = fw.LinearModel(designs.open(path), [0.7, 0.3, 0.0])
    >>> r = fw.minimize(f, fw.Simplex(), method="fw", callback=lambda state: os.remove(path) if state.k == 2 else None)
    >>> r.status.name, r.nit
    ('DATA', 3)
    """


@dataclass(frozen=True)
class DataCost:
    """Cost of reading the data of a design or an objective."""

    #: Cost of one pass over the data, in entries of a dense matrix in memory. None: unknown.
    of_pass: int | None = None
    #: Whether the data lies on disk or in other processes, so that passes over it dominate the cost of a run.
    remote: bool = False
    #: Share of the columns up to which `Design.some_columns` is faster than `Design.rmatvec`.
    column_share: float = 0.0
    #: Largest number of columns that may be copied into memory. None: a third of all columns.
    most_columns: int | None = None


class Design(ABC):
    """Matrix of a linear model. `matvec` and `rmatvec` are passes over the data; `column` is not.

    A new design needs these three methods, `shape` and `dtype`. The other members are optional, and their defaults
    mean "not available". A run compares each other member with `column` when it first uses it. Arguments may be
    read-only arrays. Products are copied, so a design may return the same buffer again; columns are kept.

    See Also
    --------
    LinearModel : Takes a design as A.
    designs.open : Matrix in files.
    checks.adjoint_error : Check of a design.
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

    def columns(self, indices: Array) -> Any:
        """Return ``A[:, indices]`` as an array or a CSC matrix."""
        if not len(indices):
            return np.zeros((self.shape[0], 0), self.dtype)
        found = [self.column(int(j)) for j in indices]
        entries = [column.entries() for column in found]
        few = [each for each in entries if each is not None]
        if len(few) < len(found):
            return np.stack([column.to_dense(self.dtype) for column in found], axis=1)
        rows, values = (np.concatenate([np.asarray(each[part]) for each in few]) for part in (0, 1))
        ends = np.cumsum([0, *(len(each[0]) for each in few)])
        return sp.csc_array((values.astype(self.dtype, copy=False), rows, ends), (self.shape[0], len(indices)))

    def part(self, indices: Array) -> Any:
        """Return ``A[:, indices]`` in memory as an array, a CSC matrix or a design."""
        return self.columns(indices)

    def matmat(self, X: Array) -> Array | None:
        """Return ``X @ A.T``, one vector per row of X, if one pass over the data suffices for all; else None."""
        return None

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

    def counted(self, counts: Counts) -> Design:
        """Return this matrix for one run, which reports passes over the data to `counts`."""
        return CountedDesign(self, counts)


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


@storable("counts", valid=lambda counts: min(counts.n_grad, counts.n_lmo) >= 0 <= counts.n_design < math.inf)
@dataclass
class Counts:
    """Number of gradients, of oracle calls, and of passes over the data; a few columns are a share of a pass."""

    n_grad: int = 0
    n_lmo: int = 0
    n_design: float = 0


# Members that are compared with a column at their first use.
_CHECKED = ("combined", "columns", "matmat", "rmatmat", "some_columns", "some_rows")


class CountedDesign(DesignWrapper):
    """Design that counts the passes over the data of another design.

    A subclass that overrides only the products of a design inherits optional members that no longer fit. Therefore the
    first result of each optional member is compared with a column.
    """

    def __init__(self, design: Design, counts: Counts) -> None:
        super().__init__(design)
        self.counts, self._middle = counts, self.shape[1] // 2
        # Members of designs of the library fit each other.
        self._checked = set(_CHECKED) if design.trusted else set()

    def matvec(self, x: Array) -> Array:
        self.counts.n_design += 1
        return self.design.matvec(x)

    def rmatvec(self, r: Array) -> Array:
        self.counts.n_design += 1
        return self.design.rmatvec(r)

    def column(self, j: int) -> Vertex:
        return self.design.column(j)

    def combined(self, indices: Array, values: Array) -> Vertex:
        combined = self.design.combined(indices, values)
        if "combined" not in self._checked:
            few = indices[:2], values[:2]  # All columns would take longer than the result.
            columns = [value * self._dense(int(j)) for j, value in zip(*few, strict=True)]
            size = float(np.abs(columns).sum(axis=0).max(initial=0.0))
            self._check("combined", self.design.combined(*few), sum(columns), size)
        return combined

    def columns(self, indices: Array) -> Any:
        found = self.design.columns(indices)
        self.counts.n_design += len(indices) / self.shape[1]
        if "columns" not in self._checked and len(indices):
            expected = self._dense(int(indices[0]))
            first = found[:, [0]]
            dense = np.asarray(first.toarray() if sp.issparse(first) else first).reshape(-1)
            self._check("columns", dense, expected, float(np.abs(expected).max()))
        return found

    def matmat(self, X: Array) -> Array | None:
        product = self.design.matmat(X)
        if product is not None:
            self.counts.n_design += 1
            if "matmat" not in self._checked:
                unit = np.zeros((1, self.shape[1]), X.dtype)
                unit[0, self._middle] = 1
                column = self._dense(self._middle)
                self._check("matmat", self.design.matmat(unit), column, float(np.abs(column).max(initial=0.0)))
        return product

    def rmatmat(self, R: Array) -> Array | None:
        product = self.design.rmatmat(R)
        if product is not None:
            self.counts.n_design += 1
            if "rmatmat" not in self._checked:
                column = self._dense(self._middle)
                size = norm(column) * max(map(norm, R))
                self._check("rmatmat", product[:, self._middle], dot(R, column), size)
        return product

    def some_columns(self, r: Array, columns: Any) -> Array | None:
        product = self.design.some_columns(r, columns)
        if product is not None:
            self.counts.n_design += len(columns) / self.shape[1]
            if "some_columns" not in self._checked and r.any():
                column = self._dense(int(columns[0]))
                self._check("some_columns", product[0], dot(column, r), norm(column) * norm(r))
        return product

    def some_rows(self, rows: Array) -> Any | None:
        """Return some rows. They count twice, because they and their transpose are both multiplied by a vector."""
        found = self.design.some_rows(rows)
        if found is not None:
            self.counts.n_design += 2 * len(rows) / self.shape[0]
            if "some_rows" not in self._checked and len(rows):
                expected = self._dense(self._middle)[rows[:1]]
                self._check("some_rows", dot(found[:1, [self._middle]], np.ones(1)), expected, norm(expected))
        return found

    def column_norms(self) -> Array | None:
        norms = self.design.column_norms()
        if norms is not None:
            self.counts.n_design += 1
            expected = norm(self._dense(self._middle))
            self._check("column_norms", norms[self._middle], expected, expected)
        return norms

    def double(self) -> Design | None:
        doubled = self.design.double()
        if doubled is None:
            return None
        column = self._dense(self._middle)
        self._check("double", doubled.column(self._middle).to_dense(), column, float(np.abs(column).max()))
        return CountedDesign(doubled, self.counts)

    def _dense(self, j: int) -> Array:
        return self.design.column(j).to_dense()

    def _check(self, member: str, found: Any, expected: Any, size: float) -> None:
        """Raise ValueError if a result differs from its expected value by more than the rounding of terms of `size`."""
        self._checked.add(member)
        if not np.isfinite(expected).all():  # The run reports this itself.
            return
        slack = 100 * self.shape[0] * float(np.finfo(self.dtype).eps) * size
        if not np.abs(np.asarray(found) - np.asarray(expected)).max(initial=0.0) <= slack:
            raise ValueError(
                f"A: `{member}` of {type(self.design).__name__} disagrees with its `column`; "
                f"override `{member}` too, or let it return None"
            )
