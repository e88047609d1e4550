"""Multistep Frank-Wolfe: steps of an explicit Runge-Kutta tableau, with optional line search, momentum and cache."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from fwflow._storage import storable
from fwflow._validation import Array, InputError, whole
from fwflow.methods.base import Iterate, Method, Proposal
from fwflow.methods.problem import Problem
from fwflow.methods.restricted.atoms import ActiveSet, Atoms, Decomposition, Record
from fwflow.points.gradients import Gradient, as_gradient
from fwflow.points.point import Atom, Lifted, Point
from fwflow.steps.momentum import Momentum
from fwflow.steps.schedules import OpenLoop, Schedule
from fwflow.steps.searches import LineSearch, TimeIsUp
from fwflow.tableau.catalogue import tableaus
from fwflow.tableau.scheme import Tableau, is_convex, stages


@storable("stage-memory")
@dataclass(frozen=True)
class StageMemory:
    """Oracle hints by stage, the memories of momentum and line search, and the decomposition of x."""

    hints: tuple[Lifted | None, ...]
    momentum: Any = None
    search: Any = None
    record: Record | None = None


def check_tableau(tableau: Any) -> None:
    """Raise an error if the argument is not a `Tableau`; only `minimize` accepts names."""
    if not isinstance(tableau, Tableau):
        raise InputError(f'tableau must be a Tableau, such as fw.tableaus["rk44"]; got {tableau!r}')


def signature(method: Method, tableau: Tableau) -> str:
    """Return the signature of a method with the coefficients of its tableau, because names are not unique."""
    return f"{method!r} with A={tableau.A.tolist()}, beta={tableau.beta.tolist()}, omega={tableau.omega.tolist()}"


class StageOracle:
    """Gradients and vertices for the stages of one step."""

    def __init__(self, problem: Problem, iterate: Iterate, memory: StageMemory) -> None:
        self.problem, self.x, self.known = problem, iterate.point, iterate.known
        self.hints: list[Lifted | None] = list(memory.hints)
        self.last_stage = -1

    def gradient(self, point: Point) -> Gradient:
        """Return the gradient at a stage point."""
        return self.known.gradient if self.known is not None and point is self.x else self.problem.gradient(point)

    def dense_gradient(self, point: Point) -> Any:
        """Return the gradient at a stage point as an array."""
        return self.gradient(point).as_oracle_input()

    def vertex(self, i: int, x_bar: Point, g: Any) -> Lifted:
        """Return the vertex for a gradient, or for an average of gradients, of stage i at x_bar.

        After the time limit a stage gets one vertex only, so that each step ends soon.
        """
        if i == self.last_stage and self.problem.late:
            raise TimeIsUp
        self.last_stage = i
        if self.known is not None and (g is self.known.gradient or g is self.known.gradient.as_oracle_input()):
            answer: Lifted = self.known.vertex
        else:
            answer = self.problem.lmo(as_gradient(g), self.hints[i])
        self.hints[i] = answer
        return answer

    def memory(self, averages: Any, search: Any, record: Record | None) -> StageMemory:
        """Return the memory for the next step."""
        return StageMemory(tuple(self.hints), averages, search, record)


@dataclass(frozen=True)
class Multistep(Method):
    """One step of the tableau per iteration; a line search rescales the combined direction.

    A step is a mixture of x and vertices, so the decomposition of x is recorded. There is no record where momentum
    aims at averages of vertices, where x is factored, and where the vertices would take more than 100 times the memory
    of x (or 256 MB).
    """

    tableau: Tableau
    schedule: Schedule
    line_search: LineSearch | None = None
    momentum: Momentum | None = None

    @property
    def signature(self) -> str:
        return signature(self, self.tableau)

    @property
    def uses_iterate(self) -> bool:
        return self.momentum is None or self.momentum.uses_iterate

    @property
    def oracle_only(self) -> bool:
        return self.momentum is None or self.momentum.linear

    @property
    def descends(self) -> bool:
        return self.line_search is not None and self.line_search.descends

    def init(self, problem: Problem, x: Point) -> StageMemory:
        return self.init_from(problem, x, ActiveSet.starting_at(x))

    def init_from(self, problem: Problem, x: Point, active: Decomposition) -> StageMemory:
        return StageMemory((None,) * self.tableau.stages, record=Record.starting_with(active.single(), x))

    def active_set(self, memory: StageMemory) -> ActiveSet | None:
        folded = None if memory.record is None else memory.record.folded()
        return None if folded is None else folded.active

    def stage_oracle(self, problem: Problem, iterate: Iterate, memory: StageMemory) -> StageOracle:
        """Return the source of gradients and vertices for one step."""
        return StageOracle(problem, iterate, memory)

    def step(self, problem: Problem, iterate: Iterate, memory: StageMemory) -> Proposal:
        x, known = iterate.point, iterate.known
        gammas = self.schedule.stage_gammas(iterate.k, self.tableau.times)
        W, p = self.tableau.mixture(gammas)
        averages, oracle = memory.momentum, self.stage_oracle(problem, iterate, memory)

        def target(i: int, x_bar: Point) -> Atom:
            nonlocal averages
            if i > 0 and problem.late:
                raise TimeIsUp
            if self.momentum is None:
                return oracle.vertex(i, x_bar, oracle.gradient(x_bar))
            gradient = oracle.gradient if self.momentum.linear else oracle.dense_gradient
            vertex_for = partial(oracle.vertex, i, x_bar)
            aimed, averages = self.momentum.aim(x_bar, gammas[i], averages, gradient, vertex_for)
            return aimed

        try:
            s = stages(x, W, target)
        except TimeIsUp:
            return Proposal(x, 0.0, memory, known=known, mixture=True)
        gamma, search, length, weights = gammas[0], memory.search, gammas[0], p
        if self.line_search is not None:
            direction = [(w / gamma, aim) for w, aim in zip(p, s, strict=True)]  # d = sum_i p_i (s_i - x) / gamma
            limit = min(1.0, gamma / sum(p)) if min(p) >= 0 else 1.0
            g = None if known is None else known.gradient
            point, length, _, search = problem.search_along(
                self.line_search, x, iterate.fun, g, direction, limit, search, gamma
            )
            weights = [length * w for w, _ in direction]
        else:
            point = x.mix(zip(weights, s, strict=True))
        record = None if memory.record is None else memory.record.after(weights, s)
        following = oracle.memory(averages, search, record)
        return Proposal(point, length, following, mixture=is_convex(weights))


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
        Largest number of cached vertices; 1000 by default. The least recently used vertex is removed first.

    See Also
    --------
    minimize : Takes it as ``method``; ``method="lazy-fw"`` has the defaults.
    ActiveSet : Vertices that x is made of.

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
