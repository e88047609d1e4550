"""Matrices in blocks outside of memory: their products are sums over blocks, which are computed or read from files.

Each block of a file is read while the one before it is multiplied.
"""

from __future__ import annotations

import copy
import itertools
import os
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from fwflow._fingerprints import fingerprint
from fwflow._numerics import dot
from fwflow._storage.files import check_unpacked, unpacked_limit
from fwflow._validation import Array, InputError, float_dtype, one_line
from fwflow.designs.base import DataCost, DataLost, Design
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
# Bytes of a block (chosen without tuning): large enough to read efficiently; memory holds two blocks at a time.
_BLOCK = 2**25
# Files of which a Zarr store has at least one: the first in format 3, the others in format 2.
_ZARR = ("zarr.json", ".zarray", ".zgroup")


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
        self._sizes = np.zeros(self.shape[1])  # absolute values of the entries of the latest gradient
        self._print: str | None = None

    @property
    def _most_columns(self) -> int:
        """Number of columns that memory has room for, at most a third of all."""
        return min(self.shape[1] // 3, _KEPT // (self.shape[0] * self.dtype.itemsize))

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
        self._print = "matrix " + fingerprint(self, shape=self.shape, entries=probed).partition(" ")[2]

    def fingerprint(self) -> str | None:
        return self._print

    def matvec(self, x: Array) -> Array:
        return self.matmat(x)

    def matmat(self, X: Array) -> Array:
        X = np.asarray(X.T, self.dtype)
        if not X.any():
            return np.zeros((*X.shape[1:], self.shape[0]), self.dtype)
        return self._placed(_product, [(j, X[own]) for j, own in enumerate(self._columns) if X[own].any()]).T

    def rmatvec(self, r: Array) -> Array:
        return self.rmatmat(r)

    def rmatmat(self, R: Array) -> Array:
        R = np.asarray(R, self.dtype)
        parts = [R[..., own] for own in self._rows]
        terms = [[((i, j), part) for i, part in enumerate(parts)] for j in range(len(self._columns))]
        G = np.concatenate(self._sums(_left_product, terms), axis=-1)
        self._sizes = np.abs(G).reshape(-1, self.shape[1]).max(axis=0)
        return G

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

    def columns(self, indices: Array) -> Any:
        """Return some columns, those that are not kept by one pass over their blocks."""
        missing = np.array([j for j in indices.tolist() if j not in self._kept], dtype=np.intp)
        divided, below = _by_band(missing, self._columns), range(len(self._rows))
        wanted = [[((i, band), own)] for band, own, _ in divided for i in below]
        found = self._sums(_some_columns, wanted) if wanted else []
        for number, (_, _, places) in enumerate(divided):
            parts = found[number * len(below) : (number + 1) * len(below)]
            for place, j in enumerate(missing[places].tolist()):
                self._kept[j] = _joined_column([part[:, [place]] for part in parts])
        kept = [self._kept[j] for j in indices.tolist()]
        if not kept:
            return np.zeros((self.shape[0], 0), self.dtype)
        self._forget()
        if any(map(sp.issparse, kept)):
            return sp.hstack([sp.csc_array(column.reshape(-1, 1)) for column in kept], "csc", self.dtype)
        return np.stack(kept, axis=1).astype(self.dtype, copy=False)

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
        parts = self._sums(_some_columns, [[((i, band), np.array(wanted) - first)] for i in range(len(self._rows))])
        for place in reversed(range(len(wanted))):
            # Lists as indices make copies, so that a single column can be dropped.
            self._kept[wanted[place]] = _joined_column([part[:, [place]] for part in parts])
        self._forget()

    def _forget(self) -> None:
        """Drop the columns that were used least recently, if those that are kept take too much memory."""
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


def _sum_of_columns(block: Any, mixture: tuple[Array, Array]) -> Array:
    places, values = mixture
    return _product(_some_columns(block, places), values)


def _some_rows(block: Any, places: Array) -> Array:
    return sp.csr_array(block)[places].toarray() if sp.issparse(block) else block[places]


class FileDesign(BlockedDesign):
    """Matrix in files, read in blocks; made by `open`."""

    def __init__(self, path: Path, heights: Sequence[int], widths: Sequence[int], dtype: Any) -> None:
        super().__init__(heights, widths, dtype, str(path))
        self.path = path
        of_pass = READ_COST * self.shape[0] * self.shape[1]
        self.data_cost = DataCost(of_pass, remote=True, most_columns=self._most_columns)
        self._take_fingerprint()

    @abstractmethod
    def _read(self, i: int, j: int) -> Array:
        """Read one block."""

    def _sums(self, function: Callable[[Any, Any], Any], outputs: Sequence[Sequence[Term]]) -> list[Any]:
        uses: dict[tuple[int, int], list[tuple[int, Any]]] = defaultdict(list)
        for number, terms in enumerate(outputs):
            for place, operand in terms:
                uses[place].append((number, operand))
        sums: list[Any] = [None] * len(outputs)
        try:
            for place, block in self._ahead(sorted(uses)):
                for number, operand in uses[place]:
                    part = function(block, operand)
                    sums[number] = part if sums[number] is None else sums[number] + part
                del block  # Otherwise three blocks would be in memory.
        except OSError as error:
            raise DataLost(f"{self.path}: {error}") from error
        return sums

    def _ahead(self, places: list[tuple[int, int]]) -> Iterator[tuple[tuple[int, int], Array]]:
        """Yield blocks, each while the next one is being read."""
        with ThreadPoolExecutor(1) as reader:
            coming = reader.submit(self._read, *places[0])
            for place, following in itertools.pairwise([*places, None]):
                assert place is not None
                block = coming.result()
                if following is not None:
                    coming = reader.submit(self._read, *following)
                yield place, block
                del block


class NpyFile(FileDesign):
    """File written by `numpy.save`; its blocks are bands of rows, or of columns if it is stored by columns."""

    def __init__(self, path: Path) -> None:
        try:
            stored = np.lib.format.open_memmap(path, mode="r")
        except ValueError as error:
            raise InputError(f"{path} is not an .npy file of numbers: {error}") from error
        if stored.ndim != 2:
            raise InputError(f"{path} must hold a matrix; it holds an array of shape {stored.shape}")
        self._stored_dtype, self._offset = stored.dtype, stored.offset
        self._by_columns = not stored.flags.c_contiguous
        count, self._across = stored.shape[::-1] if self._by_columns else stored.shape
        bands = _steps(count, _BLOCK // max(1, self._across * stored.itemsize))
        heights, widths = ([self._across], bands) if self._by_columns else (bands, [self._across])
        super().__init__(path, heights, widths, stored.dtype)

    def _read(self, i: int, j: int) -> Array:
        # The memory map is not used: its pages would count as memory of this process.
        band = self._columns[j] if self._by_columns else self._rows[i]
        count = (band.stop - band.start) * self._across
        offset = self._offset + band.start * self._across * self._stored_dtype.itemsize
        entries = np.fromfile(self.path, self._stored_dtype, count, offset=offset)
        if len(entries) < count:
            raise DataLost(f"{self.path} has become shorter since it was opened")
        block = entries.reshape(-1, self._across)
        return block.T if self._by_columns else block


class ZarrStore(FileDesign):
    """Array in a Zarr store; its blocks are whole chunks, several if they are small."""

    def __init__(self, path: Path) -> None:
        try:
            import zarr
        except ModuleNotFoundError:
            raise ImportError(f"{path}: Zarr stores need zarr: pip install 'fwflow[dask]'") from None
        try:
            self._array: Any = zarr.open_array(path, mode="r")
        except Exception as error:  # Zarr and its parsers raise errors of many kinds
            raise InputError(f"{path} is not a Zarr store with one array: {one_line(error)}") from error
        if self._array.ndim != 2:
            raise InputError(f"{path} must hold a matrix; it holds an array of shape {self._array.shape}")
        (m, n), (height, width) = self._array.shape, self._array.chunks
        chunk = height * width * self._array.dtype.itemsize
        if chunk > unpacked_limit(0):
            check_unpacked(path, chunk, self._array.nbytes_stored())
        most = max(1, _BLOCK // chunk)  # number of chunks in a block
        across = min(most, -(-n // width))
        super().__init__(path, _steps(m, height * (most // across)), _steps(n, width * across), self._array.dtype)

    def _read(self, i: int, j: int) -> Array:
        return np.asarray(self._array[self._rows[i], self._columns[j]])


class ParquetFiles(FileDesign):
    """Numerical columns of Parquet files, one file below another; a block has some columns of one row group."""

    def __init__(self, path: Path, columns: Sequence[str] | None = None) -> None:
        try:
            import pyarrow.parquet as pq
        except ModuleNotFoundError:
            raise ImportError(f"{path}: Parquet files need pyarrow: pip install 'fwflow[dask]'") from None
        files = _parquet_files(path) if path.is_dir() else [path]
        self._open: Callable[..., Any] = pq.ParquetFile
        known = [(file, _metadata(file, pq.read_metadata)) for file in files]
        first = known[0][1].schema.to_arrow_schema().names
        self._names = list(first if columns is None else columns)
        types: set[Any] = set()
        for file, metadata in known:
            schema = metadata.schema.to_arrow_schema()
            if absent := set(self._names) - set(schema.names):
                raise InputError(f"{file} has no column {min(absent)!r}")
            if columns is None and (surplus := set(schema.names) - set(first)):
                raise InputError(f"{file} has the column {min(surplus)!r}, which {files[0]} lacks; name columns=[...]")
            found = {name: _dtype(schema.field(name).type) for name in self._names}
            if text := [name for name, dtype in found.items() if dtype is None or dtype.kind not in "biuf"]:
                raise InputError(f"{file}: column {text[0]!r} does not hold numbers; choose others with columns=[...]")
            types.update(found.values())
            tallest = max((metadata.row_group(g).num_rows for g in range(metadata.num_row_groups)), default=0)
            check_unpacked(file, 8 * tallest, file.stat().st_size)
        #: For each band of rows: the file, its metadata, and the number of the row group.
        self._groups = [(file, metadata, g) for file, metadata in known for g in range(metadata.num_row_groups)]
        heights = [metadata.row_group(g).num_rows for _, metadata, g in self._groups]
        dtype = np.result_type(*types)
        width = _BLOCK // max(1, max(heights, default=0) * dtype.itemsize)
        super().__init__(path, heights, _steps(len(self._names), width), dtype)

    def _read(self, i: int, j: int) -> Array:
        path, metadata, group = self._groups[i]
        names = self._names[self._columns[j]]
        with self._open(path, metadata=metadata) as file:
            table = file.read_row_group(group, columns=names)
        return np.column_stack([table.column(name).to_numpy() for name in names])


def _parquet_files(folder: Path) -> list[Path]:
    """Return the Parquet files of a folder without other files, except names that begin with a dot or underscore."""
    entries = sorted(entry for entry in folder.iterdir() if not entry.name.startswith((".", "_")))
    others = [entry.name for entry in entries if not _is_parquet(entry) or entry.is_dir()]
    if others or not entries:
        held = f"it also holds {others[0]!r}; move that elsewhere" if others else "it is empty"
        raise InputError(f"{folder} must hold Parquet files only; {held}")
    return entries


def _is_parquet(path: Path) -> bool:
    return path.suffix.lower() in (".parquet", ".pq")


def _metadata(path: Path, read: Callable[[Path], Any]) -> Any:
    try:
        return read(path)
    except ValueError as error:  # Arrow's own errors are ValueErrors
        raise InputError(f"{path} is not a Parquet file that can be read: {one_line(error)}") from error


def _dtype(kind: Any) -> np.dtype[Any] | None:
    """Return the NumPy type of a column, or None if there is none."""
    try:
        return np.dtype(kind.to_pandas_dtype())
    except (NotImplementedError, TypeError):
        return None


def open(path: str | os.PathLike[str], columns: Sequence[str] | None = None) -> FileDesign:
    """Open a matrix in files as a design. Every pass reads it in blocks; memory holds two blocks and a few columns.

    Parameters
    ----------
    path : str or path-like
        An ``.npy`` file, a Zarr store with one array, a Parquet file, or a folder of Parquet files. Columns are read
        fastest from an ``.npy`` file stored by columns (``order="F"``) or a Zarr store with narrow chunks.
    columns : sequence of str, optional
        Names of the columns of Parquet files to use; all by default.

    Returns
    -------
    Design
        Argument A of `fwflow.LinearModel`.

    See Also
    --------
    Distributed : Matrix on a cluster.
    fwflow.LinearModel : Takes the design.

    Examples
    --------
    >>> import tempfile, numpy as np, fwflow as fw
    >>> from fwflow import designs
    >>> path = tempfile.mkdtemp() + "/A.npy"
    >>> np.save(path, np.eye(3))
    >>> fw.minimize(fw.LinearModel(designs.open(path), [0.7, 0.3, 0.0]), fw.Simplex()).x.round(6)
    array([0.7, 0.3, 0. ])
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist")
    folder = path.is_dir()
    zarr = any((path / name).exists() for name in _ZARR) if folder else path.suffix == ".zip"
    parquet = any(map(_is_parquet, path.iterdir())) if folder else _is_parquet(path)
    if zarr and parquet:
        raise InputError(f"{path} holds a Zarr store and Parquet files; move one of them elsewhere")
    if parquet:
        return ParquetFiles(path, columns)
    if columns is not None:
        raise InputError(f"columns=[...] is for Parquet files; {path} is none")
    if zarr:
        return ZarrStore(path)
    if folder:
        held = next((f"it holds {entry.name!r}" for entry in sorted(path.iterdir())), "it is empty")
        raise InputError(f"{path} must be a Zarr store or a folder of Parquet files; {held}")
    if path.suffix == ".npy":
        return NpyFile(path)
    raise InputError(f"{path} must be an .npy file, a Zarr store, a Parquet file or a folder of Parquet files")


def _steps(length: int, step: int) -> list[int]:
    """Split a length into steps of at most that size, or of 1 if it is smaller."""
    step = max(1, step)
    return [min(step, length - start) for start in range(0, length, step)]
