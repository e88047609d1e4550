"""Block-coordinate Frank-Wolfe on products of sets: a step looks at one block, and costs what that block costs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from fwflow._numerics import dot
from fwflow._storage import storable
from fwflow._validation import Array, InputError, suggest, whole
from fwflow.methods.base import Iterate, Method, Proposal
from fwflow.methods.clock import in_time, searched
from fwflow.methods.problem import Evaluation, Problem
from fwflow.points.gradients import Gradient
from fwflow.points.point import Lifted, Point
from fwflow.sets.base import ConstraintSet
from fwflow.steps.searches import ExactSearch

Order = Literal["cyclic", "random", "gap"]

# The share of steps that looks at any block, whatever gap it had: others may have changed that since.
_ANY = 0.1


@storable("block-gaps")
@dataclass(frozen=True)
class BlockGaps:
    """The gap of every block when it was last looked at, and how many looks there were."""

    gaps: Array
    looks: int = 0


@dataclass(frozen=True)
class BlockCoordinate(Method):
    r"""Exact line searches in one block after the other (Lacoste-Julien, Jaggi, Schmidt & Pletscher, 2013).

    They lead from the worst vertex of the face on which a block's part of x is to the oracle's, where the block's set
    tells that vertex, and else from x.

    For a linear model a look at a block is a product with its columns, and a step another: n_design counts both as
    their share of a pass. A look counts as a gradient and as an oracle call; a step takes as many as it needs to find a
    block that moves. The gap of the whole is computed where the last gaps of the blocks add up to little.

    Parameters
    ----------
    order : {"cyclic", "random", "gap"}
        One after the other, in a new random order every time round, or with probability proportional to the gaps that
        the blocks had when last looked at (Osokin et al., 2016).
    seed : int

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

    def __post_init__(self) -> None:
        if self.order not in get_args(Order):
            raise InputError(f"order={self.order!r} is not known; {suggest(self.order, get_args(Order))}")
        whole(self.seed, "seed", 0)

    @property
    def uses_iterate(self) -> bool:
        return False

    @property
    def check_every(self) -> int:
        return 1000

    @property
    def lifts(self) -> bool:
        return False

    @property
    def descends(self) -> bool:
        return True

    def init(self, problem: Problem, x: Point) -> BlockGaps:
        if problem.constraint.factors is None:
            raise InputError(f'method="block" needs a product of sets, such as fw.Product; got {problem.constraint!r}')
        return BlockGaps(np.full(len(problem.constraint.factors), np.inf))

    def step(self, problem: Problem, iterate: Iterate, memory: BlockGaps) -> Proposal:
        x, gaps, looks = iterate.point, memory.gaps.copy(), memory.looks
        gradient = None if iterate.known is None else iterate.known.gradient
        if iterate.known is not None:
            gaps = _block_gaps(problem, x, iterate.known)
        for _ in in_time(problem, range(2 * len(gaps))):  # so that any order has been round once
            b = self._chosen(gaps, looks)
            place, C = _factors(problem)[b]
            g = problem.partial(x, place) if gradient is None else np.asarray(gradient)[place]
            if g is None:
                gradient = problem.gradient(x)
                g = np.asarray(gradient)[place]
            problem.counts.n_lmo += 1
            own, s = x.x[place], np.asarray(C.lmo(g), dtype=g.dtype).reshape(-1)
            noise = 8 * float(np.finfo(g.dtype).eps) * float(dot(np.abs(g), np.abs(s) + np.abs(own)))
            gaps[b], looks = float(dot(g, own - s)), looks + 1
            if gaps[b] > noise:
                away = _away(problem, C, g, own, s)
                toward, limit = (s - own, 1.0) if away is None else away
                shift = problem.objective.lift_block(place, toward, x.x.shape)
                point, length = _moved(problem, iterate, shift, limit, gradient)
                following = BlockGaps(gaps, looks)
                return Proposal(point, length, following, float(gaps.sum()), mixture=away is None)
        return Proposal(
            x, 0.0, BlockGaps(gaps, looks), float(gaps.sum()), finished=self.order != "gap" and not problem.late
        )

    def _chosen(self, gaps: Array, looks: int) -> int:
        blocks = len(gaps)
        if self.order == "cyclic":
            return looks % blocks
        if self.order == "random":
            return int(np.random.default_rng([self.seed, looks // blocks]).permutation(blocks)[looks % blocks])
        rng, likely = np.random.default_rng([self.seed, looks]), np.maximum(gaps, 0.0)
        if rng.random() < _ANY or not 0 < likely.sum() < math.inf:
            return int(rng.integers(blocks))
        return int(rng.choice(blocks, p=likely / likely.sum()))


def _factors(problem: Problem) -> tuple[tuple[slice, ConstraintSet], ...]:
    assert problem.constraint.factors is not None  # or it would not have begun
    return problem.constraint.factors


def _away(problem: Problem, C: ConstraintSet, g: Array, x: Array, s: Array) -> tuple[Array, float] | None:
    """The way from the worst vertex of the face of x to s, and how far that is possible; None if C cannot tell."""
    if C.faces is None:
        return None
    problem.counts.n_lmo += 1
    toward = s - np.asarray(C.faces.away_vertex(g, x), dtype=g.dtype).reshape(-1)
    return toward, C.faces.max_step(x, toward)


def _moved(
    problem: Problem, iterate: Iterate, shift: Lifted, limit: float, gradient: Gradient | None
) -> tuple[Point, float]:
    """After an exact line search along a shift, up to a limit."""
    x = iterate.point
    while not problem.defined_at(_shifted(x, shift, limit)) and limit > 1e-15:
        limit /= 2
    line = problem.along(x, _shifted(x, shift, 1.0), iterate.fun, gradient)
    length, _ = searched(problem, ExactSearch(), line, limit, limit, None)
    return _shifted(x, shift, float(length)), float(length)


def _shifted(x: Point, shift: Lifted, length: float) -> Point:
    moved = x.x.copy()
    shift.add_to(moved, length)
    if x.image is None:
        return Point(moved)
    image = x.image.copy()
    shift.add_image_to(image, length)
    return Point(moved, image)


def _block_gaps(problem: Problem, x: Point, known: Evaluation) -> Array:
    terms = np.asarray(known.gradient) * (x.x - np.asarray(known.vertex.vertex))
    return np.add.reduceat(terms, [place.start for place, _ in _factors(problem)])
