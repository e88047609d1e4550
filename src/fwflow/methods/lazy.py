"""Lazy Frank-Wolfe: vertices seen before are tried before the oracle, for oracles that cost more than a gradient."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fwflow._storage import storable
from fwflow._validation import Array, whole
from fwflow.methods.base import Iterate
from fwflow.methods.multistep import Answers, Multistep, StageMemory, check_tableau
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
    """With vertices that the oracle has answered, when each was last used, and the least gap that it has told."""

    cached: Atoms | None = None
    used: Array = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    least: float = math.inf


@dataclass(frozen=True)
class LazyFrankWolfe(Multistep):
    r"""Multistep Frank-Wolfe whose stages take a vertex seen before if it promises enough.

    Braun, Pokutta & Zink (2017). Enough is half of the least gap that the oracle has told,
    :math:`\langle g, \bar x - v\rangle \ge \Phi / 2`. The gap is known only where it is checked.

    Parameters
    ----------
    tableau, schedule, line_search, momentum
        As in `minimize`; plain Frank-Wolfe by default.
    cache : int
        Most vertices that are kept; those not used for longest go first.

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

    def __post_init__(self) -> None:
        check_tableau(self.tableau)
        whole(self.cache, "cache", 1)

    uses_iterate = False
    check_every = 20

    def init_from(self, problem: Problem, x: Point, active: Decomposition) -> LazyMemory:
        return LazyMemory(**vars(super().init_from(problem, x, active)))

    def answers(self, problem: Problem, iterate: Iterate, memory: StageMemory) -> Answers:
        assert isinstance(memory, LazyMemory)
        return _Remembered(problem, iterate, memory, self.cache)


class _Remembered(Answers):
    """The oracle, which is asked only if no vertex that it has answered before will do."""

    def __init__(self, problem: Problem, iterate: Iterate, memory: LazyMemory, most: int) -> None:
        super().__init__(problem, iterate, memory)
        self.cached, self.used, self.least = memory.cached, memory.used.copy(), memory.least
        self.k, self.most = iterate.k, most
        if self.known is not None:
            self._told(self.known.vertex, self.known.gap)

    def vertex(self, i: int, x_bar: Point, g: Any) -> Lifted:
        g = as_gradient(g)
        inner = g.inner(x_bar)
        if self.cached is not None:
            scores = self.cached.scores(g)
            best = int(scores.argmin())
            if inner - scores[best] >= self.least / 2:
                self.used[best] = self.k
                found = self.cached[best]
                assert isinstance(found, Lifted)
                return found
        answer = super().vertex(i, x_bar, g)
        self._told(answer, inner - g.dot(answer.vertex))
        return answer

    def _told(self, answer: Lifted, gap: float) -> None:
        """Keep an answer of the oracle; if there are too many, forget the one that was of no use for longest."""
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
