"""Threads of BLAS: one during runs, all of them for large products and for functions of the user.

A product of small matrices is over before its threads have found each other. On a machine with other work, a thread
waits for the next tick of the scheduler (8 ms), so that an eigenvalue decomposition of order 300 takes 2 s instead of
0.06 s (measured on two cores beside two busy processes).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

#: Number of entries of both factors from which a product uses all threads. One core then takes about as long as a tick
#: of the scheduler. With other work on the machine, two threads were as fast as one from 1.6e7 entries on.
LARGE = 10_000_000


@cache
def _libraries() -> list[Any]:
    """Return the BLAS libraries of the process. Finding them takes 5 ms, and setting their threads microseconds."""
    return ThreadpoolController().select(user_api="blas").lib_controllers


class _Limit:
    """Number of runs of this process that need one thread. Numbers of threads belong to the process, too.

    Runs in several threads of Python may begin and end in any order. The last one restores the numbers of threads.
    """

    def __init__(self) -> None:
        self.lock, self.runs = threading.Lock(), 0
        #: Libraries with several threads, and the number of threads of each.
        self.before: list[tuple[Any, int]] = []

    def add(self, runs: int, again: bool = False) -> None:
        """Count runs, and change the numbers of threads if needed. `again` states that they have not changed since."""
        with self.lock:
            limited, self.runs = self.runs > 0, self.runs + runs
            if limited == (self.runs > 0):
                return
            if not limited and not again:
                threads = [(library, library.num_threads or 1) for library in _libraries()]
                self.before = [(library, number) for library, number in threads if number > 1]
            for library, number in self.before:
                library.set_num_threads(number if limited else 1)


_limit = _Limit()


@contextmanager
def one_thread() -> Iterator[None]:
    """Let BLAS compute on one thread."""
    _limit.add(1)
    try:
        yield
    finally:
        _limit.add(-1)


def with_all_threads(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return ``function(*arguments)``, for which BLAS has all threads, also inside of `one_thread`."""
    runs = min(_limit.runs, 1)
    _limit.add(-runs)
    try:
        return function(*arguments)
    finally:
        _limit.add(runs, again=True)
