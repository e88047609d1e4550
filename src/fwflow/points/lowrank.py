"""Low-rank matrices as weighted sums of rank-one matrices."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg

from fwflow._numerics import dot
from fwflow._storage import storable
from fwflow._validation import Array, finite_array
from fwflow.points.vertices import RankOne, Shape, read_only


@storable("low-rank", "shape", "_atoms", "dtype", "_compact", valid=lambda x: all(a.shape == x.shape for a in x._atoms))
class LowRank:
    r"""A matrix :math:`\sum_a w_a\, u_a v_a^T`, stored as rank-one atoms and their weights.

    Mixing appends atoms and scales weights. Recompression (a thin QR of both factors and an SVD of the small core)
    limits the number of atoms to about twice the numerical rank, so that memory is O(rank (rows + cols)) in long runs.

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
        dtype = np.result_type(U, V)
        atoms = _svd_atoms(U, V, dtype)
        return cls((len(U), len(V)), atoms, dtype, len(atoms))

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
        i, j = np.broadcast_arrays(np.asarray(i, dtype=np.intp), np.asarray(j, dtype=np.intp))
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
        atoms = _svd_atoms(self.U, self.V, self.dtype)
        return LowRank(self.shape, atoms, self.dtype, len(atoms))

    def dot(self, g: Any) -> float:
        """Return the inner product with a dense or sparse matrix."""
        return float(np.vdot(self.U, dot(g, self.V)))


def entries_of(U: Array, V: Array, i: Array, j: Array) -> Array:
    """Return the entries of ``U @ V.T`` at index vectors, in chunks that fit into the cache."""
    out = np.zeros(len(i), U.dtype)
    chunk = max(1, 2**17 // max(1, U.shape[1]))
    for k in range(0, len(out), chunk):
        place = slice(k, k + chunk)
        np.einsum("er,er->e", U[i[place]], V[j[place]], out=out[place])
    return out


def _columns(vectors: list[Array], length: int, dtype: Any) -> Array:
    return read_only(np.stack(vectors, axis=1).astype(dtype, copy=False) if vectors else np.zeros((length, 0), dtype))


def _core(U: Array, V: Array) -> tuple[Array, Array, Array]:
    """Return orthonormal bases of both factors and the small matrix between them."""
    (Qu, Ru), (Qv, Rv) = np.linalg.qr(U), np.linalg.qr(V)
    return Qu, Qv, dot(Ru, Rv.T)


def _svd_atoms(U: Array, V: Array, dtype: Any) -> dict[RankOne, float]:
    if not U.shape[1]:
        return {}
    Qu, Qv, core = _core(U, V)
    left, sigma, right = np.linalg.svd(core)
    keep = sigma > sigma[0] * np.finfo(dtype).eps * max(core.shape)
    left, right = dot(Qu, left[:, : len(sigma)])[:, keep], dot(Qv, right[: len(sigma)].T)[:, keep]
    atoms = (RankOne(u.astype(dtype), v.astype(dtype), 1.0) for u, v in zip(left.T, right.T, strict=True))
    return dict(zip(atoms, sigma[keep].tolist(), strict=True))
