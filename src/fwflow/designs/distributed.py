"""A matrix in the blocks of a Dask array: passes are tree reductions where the blocks are, on threads or workers."""

from __future__ import annotations

import inspect
import os
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from operator import itemgetter
from typing import Any

import numpy as np

from fwflow._validation import describe
from fwflow.designs.base import DataLost
from fwflow.designs.blocked import BlockedDesign, Term, stored_bytes

# So many partial sums are added by one task.
_FAN = 8
# What is persisted takes at most this share of the memory there is: the rest is for products and for others.
_SHARE = 0.5
# What a round trip costs, and what more an entry that is read anew, in entries of a dense matrix.
_ROUND_TRIP, _READ = 30_000_000, 15
# A vector is part of the graph that it is multiplied in; Dask warns of graphs this large, which suits passes ill.
_LARGE = {"distributed.admin.large-graph-warning-threshold": "1TB"}


class Distributed(BlockedDesign):
    """A Dask array in chunks of rows, of columns or of both, dense or with SciPy's sparse matrices.

    ``LinearModel(A, b)`` makes one of a Dask array. It computes with the scheduler that is Dask's when it is made: the
    client of a cluster, threads, or processes. Nothing but vectors and single columns comes from the workers.

    Parameters
    ----------
    A : dask.array.Array
        With two dimensions and chunks of known sizes.
    persist : bool, optional
        Whether the chunks are kept where they are multiplied, or else computed (read) again for every pass. By
        default they are kept if they take at most half of the memory: that of the workers, or what is free here.

    Attributes
    ----------
    persisted : bool

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
            raise ValueError(f"{name} has chunks of unknown sizes: A.compute_chunk_sizes() finds them out")
        heights, widths = A.chunks
        super().__init__(heights, widths, A.dtype, name)
        self._get: Callable[..., Any] = get_scheduler(collections=[A])
        #: The client of a cluster, whose method `get` is then.
        self._client: Any = self._get.__self__ if inspect.ismethod(self._get) else None
        self._blocks = _parts(A)
        size = self._size()
        self.persisted = self._fits(size) if persist is None else persist
        if self.persisted:
            self._blocks, self._taken_along = _parts(A.persist()), 0
        self.pass_cost = _ROUND_TRIP + int(size / A.dtype.itemsize) * (1 if self.persisted else _READ)
        self._look()

    def _size(self) -> float:
        """How much memory all blocks take, if they are like the largest one."""
        (i, height), (j, width) = (
            max(enumerate(band.stop - band.start for band in bands), key=itemgetter(1))
            for bands in (self._rows, self._columns)
        )
        [stored] = self._sums(stored_bytes, [[((i, j), None)]])
        return float(stored * (self.shape[0] / height) * (self.shape[1] / width))

    def _fits(self, size: float) -> bool:
        """Whether so many bytes can be kept where they are multiplied."""
        if self._client is not None:
            workers = self._client.scheduler_info(n_workers=-1)["workers"].values()
            return size <= _SHARE * sum(worker["memory_limit"] or 0 for worker in workers)
        if self._get.__module__ == "dask.multiprocessing":  # whose processes begin with nothing every time
            return False
        return "SC_AVPHYS_PAGES" in os.sysconf_names and size <= _SHARE * _free()

    def _sums(self, function: Callable[[Any, Any], Any], outputs: Sequence[Sequence[Term]]) -> list[Any]:
        import dask

        if self._client is not None and self._client.status != "running":
            raise DataLost(f"the client of the cluster is {self._client.status}")
        graph: dict[Any, Any] = {}
        name = f"fwflow-{uuid.uuid4().hex}"  # of a task that nobody has computed before
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
        """What is raised where files, workers or the scheduler are gone."""
        if self._client is None:
            return (OSError,)
        from distributed import KilledWorker

        return OSError, CancelledError, KilledWorker


def is_dask_array(A: Any) -> bool:
    """Whether A comes from Dask, which is loaded by whoever has such an array, and not by asking."""
    return type(A).__module__.startswith("dask.array.")


def _parts(A: Any) -> dict[tuple[int, int], tuple[Any, dict[Any, Any]]]:
    """For every block its key and the tasks that make it."""
    from dask.optimization import cull

    graph, keys = dict(A.__dask_graph__()), A.__dask_keys__()
    return {(i, j): (key, cull(graph, [key])[0]) for i, row in enumerate(keys) for j, key in enumerate(row)}


def _task(graph: dict[Any, Any], name: str, function: Callable[..., Any], *arguments: Any) -> tuple[str, int]:
    key = (name, len(graph))
    graph[key] = (function, *arguments)
    return key


def _sum(*parts: Any) -> Any:
    return sum(parts[1:], parts[0])


def _free() -> int:
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
