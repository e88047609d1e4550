"""Lazy Frank-Wolfe: cached vertices are tried before the oracle, for oracles that cost more than a gradient."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fwflow._storage import storable
from fwflow._validation import Array, whole
from fwflow.methods.base import Iterate
from fwflow.methods.multistep import Multistep, StageMemory, StageOracle, check_tableau
from fwflow.methods.problem import Problem
from fwflow.methods.restricted.atoms import Atoms, Decomposition, Record
from fwflow.points.gradients import as_gradient
from fwflow.points.point import Lifted, Point
from fwflow.steps.momentum import Momentum
from fwflow.steps.schedules import OpenLoop, Schedule
from fwflow.steps.searches import LineSearch
from fwflow.tableau.catalogue import tableaus
from fwflow.tableau.scheme import Tableau


@storable("lazy-memory", valid=lambda memory: memory.cached is None or len(memory.used) == len(memory.cached))
@dataclass(frozen=True)
class LazyMemory(StageMemory):
    """Stage memory with cached vertices, the iteration in which each was last used, and the smallest gap seen."""

    cached: Atoms | None = None
    used: Array = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    least: float = math.inf


@dataclass(frozen=True)
class LazyFrankWolfe(Multistep):
    r"""Multistep Frank-Wolfe whose stages use a cached vertex if it promises enough progress.

    Braun, Pokutta & Zink (2017). A cached vertex v is used if :math:`\langle g, \bar x - v\rangle \ge \Phi / 2`, where
    :math:`\Phi` is the smallest gap that an oracle call has shown. The gap is known only at the iterations where the
    loop computes it.

    Parameters
    ----------
    tableau, schedule, line_search, momentum
        As in `minimize`; plain Frank-Wolfe by default.
    cache : int
        Maximum number of cached vertices. The least recently used vertex is removed first.

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> A = np.random.default_rng(0).standard_normal((50, 16))
    >>> f, C = fw.LinearModel(A, A[:, 0] + A[:, 5]), fw.Birkhoff(4)
    >>> lazy = fw.minimize(f, C, method=fw.LazyFrankWolfe(cache=20), tol=1e-2)
    >>> lazy.success, lazy.n_lmo < fw.minimize(f, C, method="fw", tol=1e-2).n_lmo / 2
    (True, True)
    """

    tableau: Tableau = tableaus["euler"]
    schedule: Schedule = field(default_factory=OpenLoop)
    line_search: LineSearch | None = None
    momentum: Momentum | None = None
    cache: int = 1000

    uses_iterate = False
    check_every = 20

    def __post_init__(self) -> None:
        check_tableau(self.tableau)
        whole(self.cache, "cache", 1)

    def init_from(self, problem: Problem, x: Point, active: Decomposition) -> LazyMemory:
        return LazyMemory(**vars(super().init_from(problem, x, active)))

    def stage_oracle(self, problem: Problem, iterate: Iterate, memory: StageMemory) -> StageOracle:
        assert isinstance(memory, LazyMemory)
        return _CachedOracle(problem, iterate, memory, self.cache)


class _CachedOracle(StageOracle):
    """Stage oracle that returns a cached vertex if one promises enough progress."""

    def __init__(self, problem: Problem, iterate: Iterate, memory: LazyMemory, most: int) -> None:
        super().__init__(problem, iterate, memory)
        self.cached, self.used, self.least = memory.cached, memory.used.copy(), memory.least
        self.k, self.most = iterate.k, most
        if self.known is not None:
            self._add(self.known.vertex, self.known.gap)

    def vertex(self, i: int, x_bar: Point, g: Any) -> Lifted:
        g = as_gradient(g)
        inner = g.inner(x_bar)
        if self.cached is not None:
            scores = g.scores(self.cached)
            best = int(scores.argmin())
            if inner - scores[best] >= self.least / 2:
                self.used[best] = self.k
                found = self.cached[best]
                assert isinstance(found, Lifted)
                return found
        answer = super().vertex(i, x_bar, g)
        self._add(answer, inner - g.dot(answer.vertex))
        return answer

    def _add(self, answer: Lifted, gap: float) -> None:
        """Add a vertex of the oracle to the cache, and remove the least recently used one if the cache is full."""
        self.least = min(self.least, gap)
        cached = Atoms((answer,)) if self.cached is None else self.cached.joined([answer])
        used = np.append(self.used, [self.k] * (len(cached) - len(self.used)))
        used[cached.places[answer.key]] = self.k
        if len(cached) > self.most:
            keep = np.arange(len(cached)) != used.argmin()
            cached, used = cached.kept(keep), used[keep]
        self.cached, self.used = cached, used

    def memory(self, averages: Any, search: Any, record: Record | None) -> LazyMemory:
        return LazyMemory(tuple(self.hints), averages, search, record, self.cached, self.used, self.least)
