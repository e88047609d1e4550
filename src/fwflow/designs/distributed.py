"""Dask arrays as designs; products are tree reductions on the threads or workers that hold the blocks."""

from __future__ import annotations

import inspect
import os
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from typing import Any

import numpy as np

from fwflow._validation import describe
from fwflow.designs.base import DataCost, DataLost
from fwflow.designs.blocked import READ_COST, BlockedDesign, Term, stored_bytes

# Number of partial sums that one task adds (chosen without tuning).
_FAN = 8
# Largest share of the memory that persisted chunks take (chosen without tuning); products and other processes need the
# rest.
_SHARE = 0.5
# Cost of a round trip to the workers, in entries of a dense matrix in memory (chosen without tuning).
_ROUND_TRIP = 30_000_000
# A vector is part of the graph of its product, so graphs are large by design and Dask's warning is switched off.
_LARGE = {"distributed.admin.large-graph-warning-threshold": "1TB"}


class Distributed(BlockedDesign):
    """Dask array in chunks of rows, of columns or of both; chunks are dense or SciPy sparse matrices.

    ``LinearModel(A, b)`` makes one from a Dask array. It uses the Dask scheduler at the time of its construction: the
    client of a cluster, threads, or processes. Only vectors and single columns are sent from the workers.

    Parameters
    ----------
    A : dask.array.Array
        Array with two dimensions and chunks of known sizes.
    persist : bool, optional
        Whether the chunks are kept in memory, or computed (read) again for every pass over the data. By default they
        are kept if they take at most half of the memory of the workers, or of the free memory without a cluster.
    name : str
        Name of the array in error messages; "A" by default.

    Attributes
    ----------
    persisted : bool
        Whether the chunks are kept in memory.

    See Also
    --------
    open : Matrix in files.
    fwflow.Design : Base class.
    DataLost : Error if a worker is lost.

    Examples
    --------
    >>> import dask.array as da, fwflow as fw
    >>> from fwflow.designs import Distributed
    >>> A = da.random.default_rng(0).standard_normal((1000, 50), chunks=(250, 50))
    >>> f = fw.LinearModel(Distributed(A, persist=True), A[:, 7])
    >>> fw.minimize(f, fw.L1Ball(1.0)).x.argmax()
    np.int64(7)
    """

    def __init__(self, A: Any, persist: bool | None = None, name: str = "A") -> None:
        if not is_dask_array(A):
            raise ValueError(f"{name} must be a Dask array; got {describe(A)}")
        from dask.base import get_scheduler

        if A.ndim != 2:
            raise ValueError(f"{name} must have 2 dimension(s); got shape {A.shape}")
        if np.isnan(A.shape).any():
            raise ValueError(f"{name} has chunks of unknown sizes; call A.compute_chunk_sizes() first")
        heights, widths = A.chunks
        super().__init__(heights, widths, A.dtype, name)
        self._get: Callable[..., Any] = get_scheduler(collections=[A])
        #: Client of a cluster, of which `_get` is a method; None for threads and processes.
        self._client: Any = self._get.__self__ if inspect.ismethod(self._get) else None
        self._blocks = _parts(A)
        size = self._size()
        self.persisted = self._fits(size) if persist is None else persist
        if self.persisted:
            self._blocks, self._prefetched = _parts(A.persist()), 0
        of_pass = _ROUND_TRIP + int(size / A.dtype.itemsize) * (1 if self.persisted else READ_COST)
        self.data_cost = DataCost(of_pass, remote=True, most_columns=self._most_columns)
        self._take_fingerprint()

    def _size(self) -> float:
        """Estimate the memory of all blocks in bytes from the largest one."""
        heights, widths = ([band.stop - band.start for band in bands] for bands in (self._rows, self._columns))
        i, j = int(np.argmax(heights)), int(np.argmax(widths))
        [stored] = self._sums(stored_bytes, [[((i, j), None)]])
        return float(stored * (self.shape[0] / heights[i]) * (self.shape[1] / widths[j]))

    def _fits(self, size: float) -> bool:
        """Return whether that many bytes can be kept in memory where they are multiplied."""
        if self._client is not None:
            workers = self._client.scheduler_info(n_workers=-1)["workers"].values()
            return size <= _SHARE * sum(worker["memory_limit"] or 0 for worker in workers)
        # The processes of "dask.multiprocessing" keep nothing.
        if self._get.__module__ == "dask.multiprocessing" or "SC_AVPHYS_PAGES" not in os.sysconf_names:
            return False
        return size <= _SHARE * os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")

    def _sums(self, function: Callable[[Any, Any], Any], outputs: Sequence[Sequence[Term]]) -> list[Any]:
        import dask

        if self._client is not None and self._client.status != "running":
            raise DataLost(f"the client of the cluster is {self._client.status}")
        graph: dict[Any, Any] = {}
        name = f"fwflow-{uuid.uuid4().hex}"  # A new name, so that no cached result is used.
        keys = []
        for terms in outputs:
            summed = []
            for place, operand in terms:
                key, own = self._blocks[place]
                graph |= own
                summed.append(_task(graph, name, function, key, operand))
            while len(summed) > 1:
                groups = [summed[i : i + _FAN] for i in range(0, len(summed), _FAN)]
                summed = [_task(graph, name, _sum, *group) for group in groups]
            keys += summed
        with dask.config.set(_LARGE):
            try:
                return list(self._get(graph, keys))
            except self._losses() as error:
                raise DataLost(f"{type(error).__name__}: {error}") from error

    def _losses(self) -> tuple[type[Exception], ...]:
        """Return the exceptions that mean that files, workers or the scheduler are gone."""
        if self._client is None:
            return (OSError,)
        from distributed import KilledWorker

        return OSError, CancelledError, KilledWorker


def is_dask_array(A: Any) -> bool:
    """Return whether A is a Dask array, without importing Dask."""
    return type(A).__module__.startswith("dask.array.")


def _parts(A: Any) -> dict[tuple[int, int], tuple[Any, dict[Any, Any]]]:
    """Return for every block its key and the tasks that compute it."""
    from dask.optimization import cull

    graph, keys = dict(A.__dask_graph__()), A.__dask_keys__()
    return {(i, j): (key, cull(graph, [key])[0]) for i, row in enumerate(keys) for j, key in enumerate(row)}


def _task(graph: dict[Any, Any], name: str, function: Callable[..., Any], *arguments: Any) -> tuple[str, int]:
    key = (name, len(graph))
    graph[key] = (function, *arguments)
    return key


def _sum(*parts: Any) -> Any:
    return sum(parts[1:], parts[0])
