"""Block-coordinate Frank-Wolfe on products of sets: a step evaluates and moves one block."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np

from fwflow._numerics import dot
from fwflow._storage import storable
from fwflow._validation import Array, InputError, suggest, whole
from fwflow.methods.base import Iterate, Method, Proposal
from fwflow.methods.problem import Problem
from fwflow.methods.restricted.atoms import added
from fwflow.points.point import Point
from fwflow.sets.base import ConstraintSet
from fwflow.steps.searches import ExactSearch, LineSearch

Order = Literal["cyclic", "random", "gap"]

# Fraction of the steps that choose a block uniformly, because the recorded gaps may be out of date. Chosen without
# tuning.
_UNIFORM = 0.1


@storable("block-gaps")
@dataclass(frozen=True)
class BlockGaps:
    """Gap of every block at its last evaluation, the number of evaluations, and memories of line searches by block."""

    gaps: Array
    evaluations: int = 0
    searches: tuple[Any, ...] = ()


@dataclass(frozen=True)
class BlockCoordinate(Method):
    """Line searches in one block after the other (Lacoste-Julien, Jaggi, Schmidt & Pletscher, 2013).

    A step leads from the worst vertex of the minimal face towards the vertex of the oracle if the set of the block
    provides its faces, and otherwise from x.

    For a linear model, evaluating a block is a product with its columns, and a step is another one. n_design counts
    both as fractions of a pass. An evaluation counts as one gradient and one oracle call. A step evaluates blocks until
    one of them moves. The full gap is computed when the last gaps of the blocks have a small sum.

    Parameters
    ----------
    order : {"cyclic", "random", "gap"}
        Order of the blocks: cyclic (the default), a new random permutation in every round, or random with probabilities
        proportional to the last gaps of the blocks (Osokin et al., 2016).
    seed : int
        Seed of the random order; 0 by default.
    line_search : LineSearch
        Line search within a block; ``fw.ExactSearch()`` by default. Each block has its own memory, so that
        ``fw.Adaptive()`` estimates one smoothness for each block.

    See Also
    --------
    Product : Set with blocks.
    alternate : Common point of two sets.

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> A = np.random.default_rng(0).standard_normal((50, 40))
    >>> f, C = fw.LinearModel(A, A[:, :20].sum(axis=1)), fw.Product([(fw.Simplex(), 4)] * 10)
    >>> r = fw.minimize(f, C, method=fw.BlockCoordinate(order="gap"), tol=1e-3)
    >>> r.success, r.n_design < fw.minimize(f, C, method="fw", tol=1e-3).n_design / 5
    (True, True)
    """

    order: Order = "cyclic"
    seed: int = 0
    line_search: LineSearch = field(default_factory=ExactSearch)

    uses_iterate = False
    check_every = 1000
    lifts = False
    descends = True

    def __post_init__(self) -> None:
        if self.order not in get_args(Order):
            raise InputError(f"order={self.order!r} is not known; {suggest(self.order, get_args(Order))}")
        whole(self.seed, "seed", 0)
        if not isinstance(self.line_search, LineSearch):
            raise InputError(f"line_search must be a LineSearch, such as fw.Adaptive(); got {self.line_search!r}")

    def init(self, problem: Problem, x: Point) -> BlockGaps:
        if problem.constraint.factors is None:
            raise InputError(f'method="block" needs a product of sets, such as fw.Product; got {problem.constraint!r}')
        blocks = len(problem.constraint.factors)
        return BlockGaps(np.full(blocks, np.inf), searches=(None,) * blocks)

    def step(self, problem: Problem, iterate: Iterate, memory: BlockGaps) -> Proposal:
        x, gaps, evaluations, searches = iterate.point, memory.gaps.copy(), memory.evaluations, list(memory.searches)
        factors, gradient, known = problem.constraint.factors, None, iterate.known
        assert factors is not None  # `init` has checked it
        if known is not None:
            gradient = known.gradient
            terms = np.asarray(gradient) * (x.x - np.asarray(known.vertex.vertex))
            gaps = np.add.reduceat(terms, [place.start for place, _ in factors])
        for _ in problem.in_time(range(2 * len(gaps))):  # every order visits each block in this many evaluations
            b = self._chosen(gaps, evaluations)
            place, C = factors[b]
            g = problem.partial(x, place) if gradient is None else np.asarray(gradient)[place]
            if g is None:
                gradient = problem.gradient(x)
                g = np.asarray(gradient)[place]
            problem.counts.n_lmo += 1
            own, s = x.x[place], np.asarray(C.vertex(g), dtype=g.dtype).reshape(-1)
            noise = 8 * float(np.finfo(g.dtype).eps) * float(dot(np.abs(g), np.abs(s) + np.abs(own)))
            gaps[b], evaluations = float(dot(g, own - s)), evaluations + 1
            if gaps[b] > noise:
                away = _away(problem, C, g, own, s)
                toward, limit = (s - own, 1.0) if away is None else away
                shift = problem.objective.lift_block(place, toward, x.x.shape)
                while not problem.defined_at(added(x, [shift], [limit])) and limit > 1e-15:
                    limit /= 2
                line = problem.along(x, added(x, [shift], [1.0]), iterate.fun, gradient)
                length, searches[b] = problem.step_length(self.line_search, line, limit, limit, searches[b])
                following = BlockGaps(gaps, evaluations, tuple(searches))
                point = added(x, [shift], [float(length)])
                return Proposal(point, float(length), following, float(gaps.sum()), mixture=away is None)
        finished = self.order != "gap" and not problem.late
        return Proposal(x, 0.0, BlockGaps(gaps, evaluations, tuple(searches)), float(gaps.sum()), finished=finished)

    def _chosen(self, gaps: Array, evaluations: int) -> int:
        blocks = len(gaps)
        if self.order == "cyclic":
            return evaluations % blocks
        if self.order == "random":
            return int(
                np.random.default_rng([self.seed, evaluations // blocks]).permutation(blocks)[evaluations % blocks]
            )
        rng, likely = np.random.default_rng([self.seed, evaluations]), np.maximum(gaps, 0.0)
        if rng.random() < _UNIFORM or not 0 < likely.sum() < math.inf:
            return int(rng.integers(blocks))
        return int(rng.choice(blocks, p=likely / likely.sum()))


def _away(problem: Problem, C: ConstraintSet, g: Array, x: Array, s: Array) -> tuple[Array, float] | None:
    """Return the direction from the worst vertex of the face of x to s, and the largest step; None without faces."""
    if C.faces is None:
        return None
    problem.counts.n_lmo += 1
    toward = s - np.asarray(C.faces.away_vertex(g, x), dtype=g.dtype).reshape(-1)
    return toward, C.faces.max_step(x, toward)
