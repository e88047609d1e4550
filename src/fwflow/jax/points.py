"""Points and vertices, which carry their image A x, and the design matrices A: dense, perhaps sharded, or sparse.

Products are computed in the type of the vector, at the highest precision. The default of JAX on a GPU keeps ten bits of
each factor, so that no gap would fall below a few parts in ten thousand.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jax import lax
from jax.experimental import sparse
from jax.sharding import AxisType, Mesh, NamedSharding

from fwflow._validation import InputError, float_dtype
from fwflow.jax.trees import Array, floating, inner, is_concrete, pytree

# Rows of a sparse matrix are padded to this multiple of their mean length, which bounds the memory. The ends of longer
# rows are stored separately. The value was chosen without tuning.
_PADDING = 2


@pytree()
class DenseDesign:
    """Dense matrix. Under ``vmap`` over vectors, its products become products of matrices."""

    A: Array

    @property
    def shape(self) -> tuple[int, ...]:
        return self.A.shape

    @property
    def dtype(self) -> Any:
        return self.A.dtype

    def matvec(self, x: Array) -> Array:
        """Return ``A @ x``, with x as a vector."""
        return _contracted(self.A.astype(x.dtype), x.reshape(-1), 1)

    def rmatvec(self, r: Array) -> Array:
        """Return ``A.T @ r``."""
        return _contracted(self.A.astype(r.dtype), r, 0)

    def column(self, index: Array) -> Array:
        """Return a column, or arbitrary values if the index is too large."""
        # XLA partitions a gather. A dynamic slice would copy an A that is sharded by columns to every device.
        return jnp.take(self.A, index, axis=1, mode="clip")


def _contracted(A: Array, v: Array, axis: int) -> Array:
    return lax.dot_general(A, v, (((axis,), (0,)), ((), ())), precision=lax.Precision.HIGHEST)


@pytree()
class RowShards:
    """Sparse matrix as rows of equal length, padded with zeros, and the ends of longer rows.

    Products are gathers and sums along rows, in one kernel and without atomic additions.
    """

    index: Array
    data: Array
    long: Array
    end_index: Array
    end_data: Array

    @staticmethod
    def of(A: sp.csr_array) -> RowShards:
        """Return the rows of a matrix of SciPy."""
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
        """Return the product with a vector."""
        sums = (self.data.astype(v.dtype) * jnp.take(v, self.index, mode="clip")).sum(axis=-1)
        return sums.at[self.long].add(self.end_data.astype(v.dtype) * jnp.take(v, self.end_index, mode="clip"))

    def row(self, i: Array, size: int) -> Array:
        """Return row i as a vector of that size."""
        index, data = (jnp.take(part, i, axis=0, mode="clip") for part in (self.index, self.data))
        vector = jnp.zeros(size, self.data.dtype).at[index].add(data)
        return vector.at[self.end_index].add(jnp.where(self.long == i, self.end_data, 0))


@pytree()
class SparseDesign:
    """Sparse matrix with the members of `DenseDesign`, stored by rows and by columns: both products are fast."""

    by_rows: RowShards
    by_columns: RowShards

    @property
    def shape(self) -> tuple[int, ...]:
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


Design = DenseDesign | SparseDesign


def as_design(A: Any) -> Design:
    """Return the design of an array, a ``BCOO`` or ``BCSR``, or a sparse matrix of SciPy."""
    if isinstance(A, Design):
        return A
    if isinstance(A, sparse.BCOO | sparse.BCSR):
        if not is_concrete(A):
            raise InputError(
                "A is sparse and traced; create the LinearModel outside of jit or vmap, and pass it as an argument"
            )
        A = A.to_bcoo() if isinstance(A, sparse.BCSR) else A
        if A.n_batch or A.n_dense:
            raise InputError(f"A must be a sparse matrix without batch or dense dimensions; got {A!r}")
        places = np.asarray(A.indices)
        inside = (places < np.array(A.shape)).all(axis=1)  # JAX pads with indices beyond the shape.
        A = sp.coo_array((np.asarray(A.data)[inside], tuple(places[inside].T)), A.shape)
    A = A if sp.issparse(A) else floating(A)
    if A.ndim != 2 or not min(A.shape):
        raise InputError(f"A must be a matrix that is not empty; got shape {A.shape}")
    if sp.issparse(A):
        rows = sp.csr_array(A, dtype=float_dtype(A.dtype))
        return SparseDesign(RowShards.of(rows), RowShards.of(rows.T.tocsr()))
    return DenseDesign(_automatic(A))


def _automatic(A: Array) -> Array:
    """Return the array on a mesh with automatic axes, so that XLA chooses the sharding of products."""
    if not is_concrete(A) or not isinstance(A.sharding, NamedSharding):
        return A
    mesh, spec = A.sharding.mesh, A.sharding.spec
    if all(kind == AxisType.Auto for kind in mesh.axis_types):
        return A
    automatic = Mesh(mesh.devices, mesh.axis_names, axis_types=(AxisType.Auto,) * len(mesh.axis_names))
    return jax.device_put(A, NamedSharding(automatic, spec))


class Point(NamedTuple):
    """Point x or dense vertex and, for a linear model, its image ``A @ x``.

    `block` holds the directions of an iterative oracle, from which its next call starts.
    """

    x: Array
    image: Any = None
    block: Array | None = None

    def added_to(self, x: Array, weight: Any) -> Array:
        """Return ``x + weight * self``."""
        return x + weight * self.x

    def dot(self, g: Array) -> Array:
        """Return the inner product with an array."""
        return inner(self.x, g)

    def lifted(self, design: Design) -> Point:
        """Return the point with its image ``design @ x``."""
        return self._replace(image=design.matvec(self.x))

    def mix(self, terms: Iterable[tuple[Any, Vertex]]) -> Point:
        r"""Return :math:`x + \sum_i w_i (s_i - x)` with its image."""
        pairs = list(terms)
        if not pairs:
            return self
        rest = 1 - sum(weight for weight, _ in pairs)
        x = rest * self.x
        for weight, atom in pairs:
            x = atom.added_to(x, weight)
        if self.image is None:
            return Point(x)
        return Point(x, rest * self.image + sum(weight * atom.image for weight, atom in pairs))


@pytree()
class OneHot:
    """Vertex with one nonzero entry, or with none if the index is beyond the last entry; members as for `Point`."""

    index: Array
    value: Array
    image: Any = None

    def added_to(self, x: Array, weight: Any) -> Array:
        # A comparison fuses with the rest of a mixture and leaves a sharded x where it is; a scatter does neither.
        here = jnp.arange(x.size, dtype=self.index.dtype) == self.index
        return x + jnp.where(here, weight * self.value, 0).reshape(x.shape).astype(x.dtype)

    def dot(self, g: Array) -> Array:
        return self.value * jnp.take(g.reshape(-1), self.index, mode="clip")

    def lifted(self, design: Design) -> OneHot:
        return replace(self, image=self.value * design.column(self.index))


Vertex = Point | OneHot
