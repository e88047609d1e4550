"""The matrix A on a device: dense, perhaps sharded, or sparse in rows of equal length.

Products are made in the type of the vector, at the highest precision: JAX's default on a GPU keeps ten bits of each
factor, with which no gap falls below a few parts in ten thousand.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jax import lax
from jax.experimental import sparse
from jax.sharding import AxisType, Mesh, NamedSharding

from fwflow.jax.trees import Array, floating, known, pytree

# A row of a sparse matrix is padded to so many times the mean length; longer ones keep their ends elsewhere.
_PADDING = 2


class Design(ABC):
    """A matrix that gives products and columns."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""

    @property
    @abstractmethod
    def dtype(self) -> Any:
        """The type of its numbers."""

    @abstractmethod
    def matvec(self, x: Array) -> Array:
        """``A @ x``, where x is read as a vector."""

    @abstractmethod
    def rmatvec(self, r: Array) -> Array:
        """``A.T @ r``."""

    @abstractmethod
    def column(self, index: Array) -> Array:
        """One column; beyond the last, any."""


@pytree()
@dataclass(frozen=True, eq=False)
class DenseDesign(Design):
    """An array; under ``vmap`` over vectors its products are products of matrices."""

    A: Array

    @property
    def shape(self) -> tuple[int, int]:
        m, n = self.A.shape
        return m, n

    @property
    def dtype(self) -> Any:
        return self.A.dtype

    def matvec(self, x: Array) -> Array:
        return _contracted(self.A.astype(x.dtype), x.reshape(-1), 1)

    def rmatvec(self, r: Array) -> Array:
        return _contracted(self.A.astype(r.dtype), r, 0)

    def column(self, index: Array) -> Array:
        # A gather, which partitions; a dynamic slice would bring all of an A sharded by columns to every device.
        return jnp.take(self.A, index, axis=1, mode="clip")


def _contracted(A: Array, v: Array, axis: int) -> Array:
    return lax.dot_general(A, v, (((axis,), (0,)), ((), ())), precision=lax.Precision.HIGHEST)


@pytree()
@dataclass(frozen=True, eq=False)
class RowShards:
    """A sparse matrix by rows of equal length, padded with zeros, and the ends of rows that are longer.

    Products are gathers and sums along rows, in one kernel and without atomic additions.
    """

    index: Array
    data: Array
    long: Array
    end_index: Array
    end_data: Array

    @staticmethod
    def of(A: sp.csr_array) -> RowShards:
        """From SciPy's rows."""
        m, lengths = A.shape[0], np.diff(A.indptr)
        width = max(1, int(min(lengths.max(initial=1), -(-_PADDING * A.nnz // m))))
        row = np.repeat(np.arange(m), lengths)
        place = np.arange(A.nnz) - np.repeat(A.indptr[:-1], lengths)
        fits = place < width
        index, data = np.zeros((m, width), np.int32), np.zeros((m, width), A.dtype)
        index[row[fits], place[fits]], data[row[fits], place[fits]] = A.indices[fits], A.data[fits]
        ends = row[~fits].astype(np.int32), A.indices[~fits].astype(np.int32), A.data[~fits]
        return RowShards(*map(jnp.asarray, (index, data, *ends)))

    def dot(self, v: Array) -> Array:
        """The product with a vector."""
        sums = (self.data.astype(v.dtype) * jnp.take(v, self.index, mode="clip")).sum(axis=-1)
        if not self.long.size:
            return sums
        return sums.at[self.long].add(self.end_data.astype(v.dtype) * jnp.take(v, self.end_index, mode="clip"))

    def row(self, i: Array, size: int) -> Array:
        """One row as a vector of that size."""
        index, data = (jnp.take(part, i, axis=0, mode="clip") for part in (self.index, self.data))
        vector = jnp.zeros(size, self.data.dtype).at[index].add(data)
        if not self.long.size:
            return vector
        return vector.at[self.end_index].add(jnp.where(self.long == i, self.end_data, 0))


@pytree()
@dataclass(frozen=True, eq=False)
class SparseDesign(Design):
    """Kept by rows and by columns, which doubles the memory and makes both products fast."""

    by_rows: RowShards
    by_columns: RowShards

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.by_rows.data), len(self.by_columns.data)

    @property
    def dtype(self) -> Any:
        return self.by_rows.data.dtype

    def matvec(self, x: Array) -> Array:
        return self.by_rows.dot(x.reshape(-1))

    def rmatvec(self, r: Array) -> Array:
        return self.by_columns.dot(r)

    def column(self, index: Array) -> Array:
        return self.by_columns.row(index, self.shape[0])


def as_design(A: Any) -> Design:
    """The design of an array, a ``BCOO`` or ``BCSR``, or a sparse matrix of SciPy's."""
    if isinstance(A, Design):
        return A
    if isinstance(A, sparse.BCOO | sparse.BCSR):
        if not known(A):
            raise ValueError(
                "A is sparse and being traced; make the LinearModel outside, and pass it through jit or vmap"
            )
        A = A.to_bcoo() if isinstance(A, sparse.BCSR) else A
        if A.n_batch or A.n_dense:
            raise ValueError(f"A must be a sparse matrix without batch or dense dimensions; got {A!r}")
        places = np.asarray(A.indices)
        inside = (places < np.array(A.shape)).all(axis=1)  # JAX pads with places outside
        A = sp.coo_array((np.asarray(A.data)[inside], tuple(places[inside].T)), A.shape)
    if sp.issparse(A):
        if A.ndim != 2 or not min(A.shape):
            raise ValueError(f"A must be a matrix that is not empty; got shape {A.shape}")
        rows = sp.csr_array(A, dtype=np.float32 if A.dtype == np.float32 else np.float64)
        return SparseDesign(RowShards.of(rows), RowShards.of(rows.T.tocsr()))
    array = floating(A)
    if array.ndim != 2 or not array.size:
        raise ValueError(f"A must be a matrix that is not empty; got shape {array.shape}")
    return DenseDesign(_automatic(array))


def _automatic(A: Array) -> Array:
    """The same array on a mesh whose axes leave it to XLA where the products go."""
    if not known(A) or not isinstance(A.sharding, NamedSharding):
        return A
    mesh, spec = A.sharding.mesh, A.sharding.spec
    if all(kind == AxisType.Auto for kind in mesh.axis_types):
        return A
    automatic = Mesh(mesh.devices, mesh.axis_names, axis_types=(AxisType.Auto,) * len(mesh.axis_names))
    return jax.device_put(A, NamedSharding(automatic, spec))
