"""Low-rank matrices as weighted sums of rank-one matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg

from fwflow._numerics import dot
from fwflow._storage import storable
from fwflow._validation import Array, finite_array
from fwflow.points.vertices import RankOne, Shape, read_only

# Numbers in each temporary array of a product: 1 MB in double precision, which the cache of a core holds. On MovieLens
# 100K and on uniform positions, half and twice as many take the same time within 15 %.
_CELLS = 2**17
# Share of positions in a column of a group of rows above which a dense product is faster than single entries. A single
# entry takes the time of 10 (rank 10) to 20 (rank 70) entries of a product.
_DENSITY = 0.1
# Smallest number of rows of a dense product. The product then has at most 1 / _DENSITY numbers per position.
_ROWS = 64


@storable("low-rank", "shape", "_atoms", "dtype", "_compact", valid=lambda x: all(a.shape == x.shape for a in x._atoms))
class LowRank:
    r"""Matrix :math:`\sum_a w_a\, u_a v_a^T`, stored as rank-one atoms and their weights.

    Mixing appends atoms and scales weights. Recompression (a thin QR of both factors and an SVD of the small core)
    limits the number of atoms to about twice the numerical rank, so that memory is O(rank (rows + cols)) in long runs.
    ``numpy.asarray`` converts it to an array.

    Parameters
    ----------
    shape : (int, int)
        Numbers of rows and columns.
    atoms : dict of RankOne to float
        Atoms with their weights. `from_factors` and `zeros` are simpler ways to make a matrix.
    dtype : dtype
        Floating type of the entries.
    compact : int
        Number of atoms after the last recompression; 0 by default.

    See Also
    --------
    RankOne : One atom.
    NuclearBall : Set whose members have this form.
    MatrixCompletion : Objective on observed entries.

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> x = fw.LowRank.from_factors(np.array([[1.0], [2.0]]), np.array([[3.0], [4.0], [5.0]]))
    >>> x.shape, x.rank
    ((2, 3), 1)
    >>> x.entries([1, 0], [2, 0])
    array([10.,  3.])
    """

    def __init__(self, shape: Shape, atoms: dict[RankOne, float], dtype: Any, compact: int = 0) -> None:
        self.shape = (int(shape[0]), int(shape[1]))
        self.dtype = np.dtype(dtype)
        self._atoms = atoms
        self._compact = compact  # Number of atoms after the last recompression.

    @classmethod
    def zeros(cls, shape: Shape, dtype: Any = np.float64) -> LowRank:
        """Return the zero matrix."""
        return cls(shape, {}, dtype)

    @classmethod
    def from_factors(cls, U: Array, V: Array) -> LowRank:
        """Return the matrix ``U @ V.T``."""
        U, V = finite_array(U, "U", ndim=2), finite_array(V, "V", ndim=2)
        if U.shape[1] != V.shape[1]:
            raise ValueError(f"U has {U.shape[1]} columns and V has {V.shape[1]}; they must agree")
        return cls._from_svd(*_svd(U, V))

    @classmethod
    def from_balanced(cls, A: Array, B: Array) -> LowRank:
        """Return the matrix ``A @ B.T`` of factors like those of `balanced`."""
        sigma = np.einsum("ij,ij->j", A, A)
        return cls._from_svd(A / np.sqrt(sigma), sigma, B / np.sqrt(sigma))

    @classmethod
    def _from_svd(cls, left: Array, sigma: Array, right: Array) -> LowRank:
        pairs = zip(left.T.copy(), right.T.copy(), strict=True)
        atoms = dict(zip((RankOne(u, v, 1.0) for u, v in pairs), sigma.tolist(), strict=True))
        return cls((len(left), len(right)), atoms, np.result_type(left, right), len(atoms))

    @property
    def rank(self) -> int:
        """Number of atoms, an upper bound on the rank."""
        return len(self._atoms)

    @cached_property
    def U(self) -> Array:
        """Left factor of ``U @ V.T``, including the weights."""
        return _columns([(w * a.scale) * a.u for a, w in self._atoms.items()], self.shape[0], self.dtype)

    @cached_property
    def V(self) -> Array:
        """Right factor of ``U @ V.T``."""
        return _columns([a.v for a in self._atoms], self.shape[1], self.dtype)

    def __repr__(self) -> str:
        return f"LowRank(shape={self.shape}, rank={self.rank}, dtype={self.dtype})"

    def to_dense(self) -> Array:
        """Return the matrix as an array of shape (rows, cols)."""
        return dot(self.U, self.V.T)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self.to_dense(), dtype=dtype)

    def entries(self, i: Any, j: Any) -> Array:
        """Return the entries ``x[i, j]`` at index arrays, in chunks without large temporary arrays."""
        # Indexing checks the indices and makes those that count from the end positive.
        i, j = (np.arange(size)[np.asarray(k, dtype=np.intp)] for size, k in zip(self.shape, (i, j), strict=True))
        i, j = np.broadcast_arrays(i, j)
        return entries_of(self.U, self.V, i.ravel(), j.ravel()).reshape(i.shape)

    def singular_values(self) -> Array:
        """Return the nonzero singular values, largest first."""
        if not self._atoms:
            return np.zeros(0, self.dtype)
        return scipy.linalg.svdvals(_core(self.U, self.V)[2])

    def norm2(self) -> float:
        """Return the squared Frobenius norm."""
        return float(np.sum(self.singular_values() ** 2))

    def copy(self) -> LowRank:
        """Return a copy that shares nothing mutable."""
        return LowRank(self.shape, dict(self._atoms), self.dtype, self._compact)

    def cast(self, dtype: Any) -> LowRank:
        """Return the same matrix with another floating type."""
        return LowRank(self.shape, self._atoms, dtype, self._compact)

    def __mul__(self, factor: float) -> LowRank:
        return LowRank(self.shape, {atom: factor * w for atom, w in self._atoms.items()}, self.dtype, self._compact)

    __rmul__ = __mul__

    def __truediv__(self, factor: float) -> LowRank:
        return LowRank(self.shape, {atom: w / factor for atom, w in self._atoms.items()}, self.dtype, self._compact)

    def terms(self) -> Sequence[tuple[float, RankOne]]:
        """Return the weights and atoms whose sum is the matrix."""
        return [(w, atom) for atom, w in self._atoms.items()]

    def mixed(self, rest: float, terms: Sequence[tuple[float, RankOne]]) -> LowRank:
        """Return ``rest * self + sum of weight * atom``; equal atoms are merged."""
        atoms = {atom: rest * w for atom, w in self._atoms.items()} if rest != 0 else {}
        for weight, atom in terms:
            atoms[atom] = atoms.get(atom, 0.0) + weight
        mixed = LowRank(self.shape, atoms, self.dtype, self._compact)
        return mixed if mixed.rank <= 2 * mixed._compact + 64 else mixed.compressed()

    def compressed(self) -> LowRank:
        """Return the same matrix with as many atoms as its numerical rank."""
        return LowRank._from_svd(*_svd(self.U, self.V))

    def balanced(self) -> tuple[Array, Array]:
        """Return factors A and B of ``A @ B.T``, whose columns are singular vectors times roots of singular values."""
        left, sigma, right = _svd(self.U, self.V)
        roots = np.sqrt(sigma)
        return left * roots, right * roots

    def dot(self, g: Any) -> float:
        """Return the inner product with a dense or sparse matrix."""
        return float(np.vdot(self.U, dot(g, self.V)))


def entries_of(U: Array, V: Array, i: Array, j: Array) -> Array:
    """Return the entries of ``U @ V.T`` at index vectors, which must be valid, in chunks that fit into the cache."""
    out, rank = np.empty(len(i), U.dtype), U.shape[1]
    left, right = np.empty((2, max(1, min(len(i), _CELLS // max(1, rank))), rank), U.dtype)
    for k in range(0, len(out), len(left)):
        place = slice(k, k + len(left))
        count = len(out[place])
        # NumPy writes to `out` directly only if it need not check the indices.
        np.take(U, i[place], axis=0, out=left[:count], mode="clip")
        np.take(V, j[place], axis=0, out=right[:count], mode="clip")
        np.einsum("er,er->e", left[:count], right[:count], out=out[place])
    return out


class Positions:
    """Positions ``(i, j)`` in matrices of one shape, at which the entries of many products ``U @ V.T`` are computed.

    Rows with many positions are grouped. The columns in which a group has many positions give a small dense product, of
    which the entries are a part. The other entries are computed one by one.
    """

    def __init__(self, i: Array, j: Array, shape: Shape) -> None:
        self.i, self.j, self.shape = i, j, shape

    def entries(self, U: Array, V: Array) -> Array:
        """Return the entries of ``U @ V.T`` at the positions."""
        blocks, inside, outside = self._arranged
        if not blocks:
            return entries_of(U, V, self.i, self.j)
        parts = [dot(U[rows], V[cols].T).take(places, mode="clip") for rows, cols, places in blocks]
        out = np.empty(len(self.i), U.dtype)
        out[inside] = np.concatenate(parts)
        out[outside] = entries_of(U, V, self.i[outside], self.j[outside])
        return out

    @cached_property
    def _arranged(self) -> tuple[list[tuple[Array, Array, Array]], Array, Array]:
        """Rows, columns and flat places of the entries of the dense products; the entries inside and outside of them.

        There are no products if they do not have most of the entries.
        """
        m, n = self.shape
        rows = np.argsort(-np.bincount(self.i, minlength=m), kind="stable")
        rank = np.empty(m, np.intp)
        rank[rows] = np.arange(m)
        order = np.argsort(rank[self.i], kind="stable")
        i, j = rank[self.i][order], self.j[order]
        inside, blocks, height = np.zeros(len(i), bool), [], max(_ROWS, _CELLS // n)
        for top in range(0, m, height):
            group = rows[top : top + height]
            part = slice(*np.searchsorted(i, [top, top + height]))
            cols, place, counts = np.unique(j[part], return_inverse=True, return_counts=True)
            chosen = counts > _DENSITY * len(group)
            if not chosen.any():
                break  # The rows that follow have fewer positions.
            dense = inside[part] = chosen[place]
            places = (i[part] - top)[dense] * np.count_nonzero(chosen) + (np.cumsum(chosen) - 1)[place[dense]]
            blocks.append((group, cols[chosen], places))
        if 2 * np.count_nonzero(inside) < len(i):
            blocks = []
        return blocks, order[inside], np.sort(order[~inside])


def scaled_svd(M: Array) -> tuple[Array, Array, Array]:
    """Return the thin singular value decomposition, which is the same up to the factor for powers of two times M.

    LAPACK scales very large and small matrices by other numbers, which adds rounding errors.
    """
    power = math.frexp(float(np.abs(M).max(initial=0.0)))[1]
    left, sigma, right = np.linalg.svd(np.ldexp(M, -power), full_matrices=False)
    return left, np.ldexp(sigma, power), right


def _columns(vectors: list[Array], length: int, dtype: Any) -> Array:
    return read_only(np.stack(vectors, axis=1).astype(dtype, copy=False) if vectors else np.zeros((length, 0), dtype))


def _core(U: Array, V: Array) -> tuple[Array, Array, Array]:
    """Return orthonormal bases of both factors and the small matrix between them."""
    (Qu, Ru), (Qv, Rv) = np.linalg.qr(U), np.linalg.qr(V)
    return Qu, Qv, dot(Ru, Rv.T)


def _svd(U: Array, V: Array) -> tuple[Array, Array, Array]:
    """Return the singular vectors of ``U @ V.T`` in columns and its singular values, except for those of rounding."""
    Qu, Qv, core = _core(U, V)
    left, sigma, right = scaled_svd(core)
    keep = sigma > sigma.max(initial=0.0) * np.finfo(core.dtype).eps * max(core.shape)
    return dot(Qu, left[:, keep]), sigma[keep], dot(Qv, right[keep].T)
