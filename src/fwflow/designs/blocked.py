"""Matrices in blocks outside of memory; all their products are sums of functions of blocks."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from fwflow._fingerprints import fingerprint
from fwflow._numerics import dot
from fwflow._validation import Array, float_dtype
from fwflow.designs.base import DataCost, Design
from fwflow.points.vertices import DenseVertex, SparseVertex, Vertex, freeze

#: Place of a block in the grid, and the second argument of the function that is applied to it.
Term = tuple[tuple[int, int], Any]

#: Cost of an entry that is read from a file, in entries of a dense matrix in memory (chosen without tuning).
READ_COST = 15
# Number of rows in the fingerprint of a matrix (chosen without tuning).
_PROBED = 4
# Bytes of the columns that are kept in memory (chosen without tuning).
_KEPT = 2**28
# Bytes and number of further columns that are read together with a column, since its blocks must be read anyway.
# Measured on 500 x 10000: with 15 further columns, a run of 15 gradients reads columns 19 times; with 255, 5 times.
_PREFETCH_BYTES, _PREFETCH_COLUMNS = 2**26, 255


class BlockedDesign(Design):
    """Grid of dense or sparse blocks that are read anew for every product. Columns are kept.

    The entries are not checked beforehand: NaN or infinite ones end a run with ``Status.NUMERICAL``. Products are in
    double precision unless the type of the blocks is float32.
    """

    data_cost = DataCost(remote=True)

    def __init__(self, heights: Sequence[int], widths: Sequence[int], dtype: Any, name: str = "A") -> None:
        if np.dtype(dtype).kind not in "biuf":
            raise ValueError(f"{name} must be an array of real numbers; its dtype is {dtype}")
        self._rows, self._columns = _bands(heights), _bands(widths)
        self.shape = sum(heights), sum(widths)
        if 0 in self.shape:
            raise ValueError(f"{name} is empty: its shape is {self.shape}")
        self.dtype = float_dtype(dtype)
        self._kept: dict[int, Any] = {}  # columns, the most recently used last
        #: Number of further columns that are read together with a column.
        self._prefetched = min(_PREFETCH_BYTES // (self.shape[0] * self.dtype.itemsize), _PREFETCH_COLUMNS)
        self._sizes = np.zeros(self.shape[1])  # moduli of the entries of the latest gradient
        self._print: str | None = None

    @abstractmethod
    def _sums(self, function: Callable[[Any, Any], Any], outputs: Sequence[Sequence[Term]]) -> list[Any]:
        """Return for every output the sum of ``function(block, operand)`` over its terms."""

    def _take_fingerprint(self) -> None:
        """Compute the fingerprint in advance, so that a run which loses its data can be continued elsewhere."""
        rows, across = np.linspace(0, self.shape[0] - 1, _PROBED).astype(int), range(len(self._columns))
        divided = _by_band(np.unique(rows), self._rows)
        found = iter(self._sums(_some_rows, [[((i, j), own)] for i, own, _ in divided for j in across]))
        # Adding 0.0 turns -0.0 into 0.0. The name of the class is left out, so that all kinds of blocks agree.
        probed = np.block([[next(found) for _ in across] for _ in divided]).astype(self.dtype) + 0.0
        self._print = "matrix " + fingerprint(self, self.shape, probed).rpartition(" ")[-1]

    def fingerprint(self) -> str | None:
        return self._print

    def matvec(self, x: Array) -> Array:
        x = np.asarray(x, self.dtype)
        return self._placed(_product, [(j, x[own]) for j, own in enumerate(self._columns) if x[own].any()])

    def rmatvec(self, r: Array) -> Array:
        g = self.rmatmat(np.asarray(r, self.dtype))
        self._sizes = np.abs(g)
        return g

    def rmatmat(self, R: Array) -> Array:
        R = np.asarray(R, self.dtype)
        parts = [R[..., own] for own in self._rows]
        terms = [[((i, j), part) for i, part in enumerate(parts)] for j in range(len(self._columns))]
        return np.concatenate(self._sums(_left_product, terms), axis=-1)

    def combined(self, indices: Array, values: Array) -> Vertex:
        if all(int(j) in self._kept for j in indices):
            return super().combined(indices, values)
        values = np.asarray(values, self.dtype)
        parts = [(j, (own, values[places])) for j, own, places in _by_band(np.asarray(indices), self._columns)]
        return DenseVertex(self._placed(_sum_of_columns, parts))

    def _placed(self, function: Callable[[Any, Any], Any], parts: list[tuple[int, Any]]) -> Array:
        """Return the sums over these columns of the grid, one below another."""
        if not parts:
            return np.zeros(self.shape[0], self.dtype)
        terms = [[((i, j), operand) for j, operand in parts] for i in range(len(self._rows))]
        return np.concatenate(self._sums(function, terms))

    def column(self, j: int) -> Vertex:
        if j not in self._kept:
            self._fetch(j)
        column = self._kept[j] = self._kept.pop(j)
        if sp.issparse(column):
            return SparseVertex(column.indices, column.data.astype(self.dtype, copy=False), (self.shape[0],))
        return DenseVertex(column.astype(self.dtype, copy=False))

    def _fetch(self, j: int) -> None:
        """Read column j, and those columns of the same blocks in which the latest gradient is largest."""
        band = next(b for b, own in enumerate(self._columns) if j < own.stop)
        first, count = self._columns[band].start, self._prefetched
        likely = first + np.argsort(-self._sizes[self._columns[band]], kind="stable") if count else np.zeros(0, int)
        wanted = [j, *(i for i in likely.tolist() if i != j and i not in self._kept)][: 1 + count]
        parts = self._sums(_single_columns, [[((i, band), np.array(wanted) - first)] for i in range(len(self._rows))])
        for index in reversed(wanted):
            self._kept[index] = _joined_column([part.pop() for part in parts])
        size = sum(map(stored_bytes, self._kept.values()))
        while size > _KEPT and len(self._kept) > 1:
            size -= stored_bytes(self._kept.pop(next(iter(self._kept))))

    def double(self) -> Design:
        twin = copy.copy(self)
        twin.dtype = np.dtype(np.float64)
        return twin


def stored_bytes(block: Any, _: Any = None) -> int:
    """Return the approximate memory of a block in bytes."""
    return 3 * block.nnz * block.dtype.itemsize // 2 if sp.issparse(block) else block.nbytes


def _bands(sizes: Sequence[int]) -> list[slice]:
    ends = np.cumsum(sizes).tolist()
    return [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]


def _by_band(indices: Array, bands: list[slice]) -> list[tuple[int, Array, Array]]:
    """Return for each band with some of the indices: its number, these relative to its start, and their places."""
    found = []
    for number, own in enumerate(bands):
        places = np.flatnonzero((own.start <= indices) & (indices < own.stop))
        if len(places):
            found.append((number, indices[places] - own.start, places))
    return found


def _joined_column(parts: list[Any]) -> Any:
    """Join the parts of a column."""
    if any(map(sp.issparse, parts)):
        return sp.csc_array(sp.vstack(parts))
    column = np.concatenate(parts).reshape(-1)
    freeze(column)
    return column


def _left_product(block: Any, R: Array) -> Array:
    return dot(R, _converted(R.dtype, block))


def _product(block: Any, x: Array) -> Array:
    return dot(_converted(x.dtype, block), x)


def _converted(dtype: Any, block: Any) -> Any:
    if sp.issparse(block):
        block = sp.csc_array(block) if block.format == "csc" else sp.csr_array(block)
    return block.astype(dtype, copy=False)


def _some_columns(block: Any, places: Array) -> Any:
    return sp.csc_array(block)[:, places] if sp.issparse(block) else block[:, places]


def _single_columns(block: Any, places: Array) -> list[Any]:
    taken = _some_columns(block, places)
    return [taken[:, [k]] for k in range(len(places))]  # Each is a copy, so that a single column can be dropped.


def _sum_of_columns(block: Any, mixture: tuple[Array, Array]) -> Array:
    places, values = mixture
    return _product(_some_columns(block, places), values)


def _some_rows(block: Any, places: Array) -> Array:
    return sp.csr_array(block)[places].toarray() if sp.issparse(block) else block[places]
