"""Matrices in files larger than memory; each block is read while the one before it is multiplied."""

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

from fwflow._storage.files import check_unpacked, unpacked_limit
from fwflow._validation import Array, InputError, one_line
from fwflow.designs.base import DataCost, DataLost
from fwflow.designs.blocked import READ_COST, BlockedDesign, Term

# Bytes of a block (chosen without tuning): large enough to read efficiently; memory holds two blocks at a time.
_BLOCK = 2**25
# Files of which a Zarr store has at least one: the first in format 3, the others in format 2.
_ZARR = ("zarr.json", ".zarray", ".zgroup")


class FileDesign(BlockedDesign):
    """Matrix in files, read in blocks; made by `open`."""

    def __init__(self, path: Path, heights: Sequence[int], widths: Sequence[int], dtype: Any) -> None:
        super().__init__(heights, widths, dtype, str(path))
        self.path = path
        self.data_cost = DataCost(READ_COST * self.shape[0] * self.shape[1], remote=True)
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
