"""A matrix in files that memory cannot hold: read in blocks, the next one while this one is multiplied."""

from __future__ import annotations

import itertools
import os
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from fwflow._validation import Array
from fwflow.designs.base import DataLost
from fwflow.designs.blocked import BlockedDesign, Term

# Bytes of a block: enough to read in one go, and two of them are nothing beside a matrix that has to be in a file.
_BLOCK = 2**25
# What an entry costs that is read from a file, in entries of a dense matrix in memory.
_READ = 15


class FileDesign(BlockedDesign):
    """Blocks in files. `open` makes them."""

    def __init__(self, path: Path, heights: Sequence[int], widths: Sequence[int], dtype: Any) -> None:
        super().__init__(heights, widths, dtype, str(path))
        self.path = path
        self.pass_cost = _READ * self.shape[0] * self.shape[1]
        self._look()

    @abstractmethod
    def _read(self, i: int, j: int) -> Array:
        """One block."""

    def _sums(self, function: Callable[[Any, Any], Any], outputs: Sequence[Sequence[Term]]) -> list[Any]:
        asked: dict[tuple[int, int], list[tuple[int, Any]]] = defaultdict(list)
        for number, terms in enumerate(outputs):
            for place, operand in terms:
                asked[place].append((number, operand))
        sums: list[Any] = [None] * len(outputs)
        try:
            for place, block in self._ahead(sorted(asked)):
                for number, operand in asked[place]:
                    part = function(block, operand)
                    sums[number] = part if sums[number] is None else sums[number] + part
                del block  # or three would be in memory
        except OSError as error:
            raise DataLost(f"{self.path}: {error}") from error
        return sums

    def _ahead(self, places: list[tuple[int, int]]) -> Iterator[tuple[tuple[int, int], Array]]:
        """Blocks, each while the next is being read."""
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
    """What `numpy.save` writes: bands of rows, or of columns if it is kept by columns."""

    def __init__(self, path: Path) -> None:
        try:
            stored = np.lib.format.open_memmap(path, mode="r")
        except ValueError as error:
            raise ValueError(f"{path} is not an .npy file of numbers: {error}") from error
        if stored.ndim != 2:
            raise ValueError(f"{path} must hold a matrix; it holds an array of shape {stored.shape}")
        self._stored_dtype, self._offset = stored.dtype, stored.offset
        self._by_columns = not stored.flags.c_contiguous
        m, n = stored.shape
        if self._by_columns:
            super().__init__(path, [m], _steps(n, _BLOCK // max(1, m * stored.itemsize)), stored.dtype)
        else:
            super().__init__(path, _steps(m, _BLOCK // max(1, n * stored.itemsize)), [n], stored.dtype)

    def _read(self, i: int, j: int) -> Array:
        # Not through the map: its pages would count as memory of this process until others need it.
        rows, columns = self._rows[i], self._columns[j]
        shape = rows.stop - rows.start, columns.stop - columns.start
        before = self.shape[0] * columns.start if self._by_columns else self.shape[1] * rows.start
        count = shape[0] * shape[1]
        offset = self._offset + before * self._stored_dtype.itemsize
        entries = np.fromfile(self.path, self._stored_dtype, count, offset=offset)
        if len(entries) < count:
            raise DataLost(f"{self.path} has become shorter")
        return entries.reshape(shape, order="F" if self._by_columns else "C")


class ZarrStore(FileDesign):
    """An array in a Zarr store: whole chunks, several of them where they are small."""

    def __init__(self, path: Path) -> None:
        try:
            import zarr
        except ModuleNotFoundError:
            raise ImportError(f"{path}: Zarr stores need zarr: pip install 'fwflow[dask]'") from None
        self._array: Any = zarr.open_array(path, mode="r")
        if self._array.ndim != 2:
            raise ValueError(f"{path} must hold a matrix; it holds an array of shape {self._array.shape}")
        (m, n), (height, width) = self._array.shape, self._array.chunks
        most = max(1, _BLOCK // (height * width * self._array.dtype.itemsize))  # chunks of a block
        across = min(most, -(-n // width))
        super().__init__(path, _steps(m, height * (most // across)), _steps(n, width * across), self._array.dtype)

    def _read(self, i: int, j: int) -> Array:
        return np.asarray(self._array[self._rows[i], self._columns[j]])


class ParquetFiles(FileDesign):
    """Columns of numbers in Parquet files below one another: row groups, and of these as many columns as fit."""

    def __init__(self, path: Path, columns: Sequence[str] | None = None) -> None:
        try:
            import pyarrow.parquet as pq
        except ModuleNotFoundError:
            raise ImportError(f"{path}: Parquet files need pyarrow: pip install 'fwflow[dask]'") from None
        files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
        self._open: Callable[..., Any] = pq.ParquetFile
        known = [(file, pq.read_metadata(file)) for file in files]
        schema = known[0][1].schema.to_arrow_schema()
        self._names = list(schema.names if columns is None else columns)
        for file, metadata in known:
            if absent := set(self._names) - set(metadata.schema.names):
                raise ValueError(f"{file} has no column {min(absent)!r}")
        types = [np.dtype(schema.field(name).type.to_pandas_dtype()) for name in self._names]
        if text := [name for name, kind in zip(self._names, types, strict=True) if kind.kind not in "biuf"]:
            raise ValueError(f"{path}: column {text[0]!r} does not hold numbers; choose others with columns=[...]")
        #: Of each band of rows, the file, what is known of it, and the number of its row group.
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


def open(path: str | os.PathLike[str], columns: Sequence[str] | None = None) -> FileDesign:
    """A matrix in files as a design, read in blocks for every pass: memory holds two blocks and a few columns.

    Parameters
    ----------
    path : str or path-like
        An ``.npy`` file, a Zarr store with one array, a Parquet file, or a folder of these. A matrix in an ``.npy``
        file by columns (``order="F"``) and one in a Zarr store with narrow chunks has its columns read the fastest.
    columns : sequence of str, optional
        Which columns of Parquet files; all by default.

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
    if path.suffix in (".parquet", ".pq") or (path.is_dir() and any(path.glob("*.parquet"))):
        return ParquetFiles(path, columns)
    if columns is not None:
        raise ValueError(f"columns are named in Parquet files, and {path} is none")
    if path.suffix == ".npy":
        return NpyFile(path)
    if path.is_dir() or path.suffix == ".zip":
        return ZarrStore(path)
    raise ValueError(f"{path} must be an .npy file, a Zarr store, or Parquet: a file, or a folder of such files")


def _steps(length: int, step: int) -> list[int]:
    """A length in steps of at most that size, and at least one."""
    step = max(1, step)
    return [min(step, length - start) for start in range(0, length, step)]
