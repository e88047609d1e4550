r"""The flow followed exactly: from event to event, with no time step.

With tau the integral of gamma, the flow is x' = s - x. While the same vertices V minimise the linear function, s is the
minimiser of f over their hull: then all that carry weight stay tied and the others fall behind. So x moves straight
towards s, and for a quadratic the gradient goes linearly from that at x to that at s as theta = 1 - exp(-tau) goes from
0 to 1. The next event, a vertex that becomes as good as those in V, is a ratio test. If none comes, s is optimal.

It ends: a vertex that enters lies below the others for the gradient at s, so every s has a lower value than the one
before, and each is the minimiser over the hull of one of finitely many sets of vertices.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, ClassVar

import numpy as np
from tqdm.auto import tqdm

from fwflow._validation import Array
from fwflow.designs import shortcut
from fwflow.methods.active import KeepsAtoms
from fwflow.methods.active import Memory as ActiveMemory
from fwflow.methods.atoms import ActiveSet, Atoms
from fwflow.methods.base import Method, Proposal
from fwflow.methods.corrective import Corrective, Pool, events, minimise_on
from fwflow.methods.face import Face
from fwflow.objectives.base import LossOfImage, Objective
from fwflow.objectives.linear_model import LinearModel
from fwflow.points import DenseVertex, Lifted, OneHot, Point, SparseVector, Vertex
from fwflow.problem import Evaluation, Problem
from fwflow.sets.base import ConstraintSet
from fwflow.sets.vectors import first_below, smallest

#: Keys of faces, and gradients.
Foreseen = tuple[tuple[tuple[Any, ...], Array], ...]

# Entries of A from which on a pass costs more than looking ahead.
_WORTH_FORESEEING = 10**6


@dataclass(frozen=True, eq=False)
class Event:
    """Something became tied, and the flow turned towards another target, straight until the next event.

    Attributes
    ----------
    tau : float
        When: the integral of gamma up to here.
    target : Vertex
        Where to: a point of the set, as a flat vector.
    entered, left : tuple
        What became tied, and what fell behind: vertices, or on boxes, whose faces have too many of them, indices of
        entries that leave a bound and that come to one.
    active : tuple
        All that carry weight, or move, from now on.
    """

    tau: float
    target: Vertex
    entered: tuple[Any, ...]
    left: tuple[Any, ...]
    active: tuple[Any, ...]

    def time(self, c: float = 2.0) -> float:
        """When, in the time of the schedule c / (c + t)."""
        return float(c * np.expm1(self.tau / c))


@dataclass(frozen=True, eq=False)
class Memory:
    """The face on which the flow slides, the gradient and time at its last event, and all events so far."""

    face: Face
    names: dict[Any, Any]
    gradient: Array
    tau: float = 0.0
    scale: float = 0.0
    events: tuple[Event, ...] = ()
    #: Faces that are likely to come, by their keys, and the gradients at their minimisers.
    foreseen: Foreseen = ()

    @property
    def active(self) -> ActiveSet | None:
        """The target as a mixture of vertices, unless the set is a box."""
        if not self.face.affine:
            return None
        return ActiveSet(Atoms(Lifted(self.names[key]) for key in self.face.keys), self.face.values)


@dataclass(frozen=True)
class ExactFlow:
    """One event per iteration. The iterates are the targets s, whose gradients tell the next event anyway.

    That is one pass over the data and one oracle call per event, and some more of these for sets whose ratio test has
    no closed form. Where a pass serves several vectors at once, events are foreseen on the vertices that are nearly
    tied: one pass gives all their gradients, each event is then decided by the gradient over all vertices, and what was
    foreseen wrongly is forgotten.

    Parameters
    ----------
    foresee : int
        Events per pass, at most.
    among : int
        Vertices among which they are foreseen.
    """

    foresee: int = 16
    among: int = 128

    #: The images of the oracle's answers are made here, for the few that enter.
    lifts: ClassVar[bool] = False

    @property
    def uses_iterate(self) -> bool:
        return True

    def init(self, problem: Problem, x: Point) -> None: ...

    def step(
        self, problem: Problem, k: int, x: Point, fun: float, known: Evaluation | None, memory: Memory | None
    ) -> Proposal:
        assert known is not None
        ahead = np.asarray(known.gradient, dtype=np.float64)
        size = abs(x.inner(ahead)) + known.gap
        if memory is None:
            face, names, target = self._begin(problem, x, known.vertex)
            return self._proposal(Memory(face, names, ahead, 0.0, size), target, 0.0, tuple(names))
        scale = max(memory.scale, size)
        noise = max(50 * scale, memory.face.noise) * float(np.finfo(x.x.dtype).eps)
        for event in self._events(problem, x, known, ahead, memory, noise):
            theta, key, name, joined = event
            face = joined.minimised()
            if face.dropped[:1] != ((key, joined.values[-1]),):  # else it did not move: rounding had made it up
                break
        else:
            return Proposal(x, 0.0, memory, finished=True)
        following = replace(
            memory,
            face=face,
            names=memory.names | {key: name},
            gradient=memory.gradient + theta * (ahead - memory.gradient),
            tau=memory.tau - math.log1p(-theta) if theta < 1 else math.inf,
            scale=scale,
        )
        proposal = self._proposal(following, self._target(x, following), theta, (key,))
        return self._with_gradient(problem, proposal, ahead, known.vertex.vertex)

    def _with_gradient(self, problem: Problem, proposal: Proposal, ahead: Array, best: Vertex) -> Proposal:
        """The proposal with its evaluation, if that was foreseen or can be had together with others."""
        memory = proposal.memory
        if not (memory.foreseen and memory.foreseen[0][0] == memory.face.keys):
            memory = replace(memory, foreseen=self._foreseen(problem, memory, ahead, best))
        if not memory.foreseen:
            return replace(proposal, memory=memory)
        g = memory.foreseen[0][1].astype(proposal.point.x.dtype, copy=False)
        vertex = problem.lmo(g, lift=False)
        known = Evaluation(g, vertex, proposal.point.inner(g) - vertex.vertex.dot(g))
        return replace(proposal, memory=replace(memory, foreseen=memory.foreseen[1:]), known=known)

    def _foreseen(self, problem: Problem, memory: Memory, ahead: Array, best: Vertex) -> Foreseen:
        """Faces that are likely to come, and the gradients at their minimisers from one pass."""
        f, C, face = problem.objective, problem.constraint, memory.face
        if self.foresee < 2 or not isinstance(f, LinearModel) or shortcut(f.design, "rmatmat") is None:
            return ()
        if math.prod(f.design.shape) < _WORTH_FORESEEING:
            return ()
        near = C.best_vertices(ahead, self.among, best)
        if len(near) < 2:
            return ()
        near += C.best_vertices(memory.gradient, self.among, best)
        names = {key: memory.names[key] for key in face.keys} | {v.key: v for v in near}
        keys = list(names)
        left = np.stack([face.model.sides(f.lift(v))[0] for v in names.values()])
        pool = Pool((), np.zeros(0), np.zeros(len(keys)), np.full(len(keys), np.inf), affine=True)
        slopes = np.array([v.dot(memory.gradient) for v in names.values()])
        places = replace(face, keys=tuple(range(len(face.keys))), dropped=())
        coming = islice(events(pool, left, left, places, np.zeros(len(keys)), slopes), self.foresee)
        faces = [one for one, _ in coming]
        gradients = f.gradients([Point(None, one.image.astype(f.dtype)) for one in faces])
        if gradients is None or not np.isfinite(gradients).all():
            return ()
        return tuple((tuple(keys[i] for i in one.keys), g) for one, g in zip(faces, gradients, strict=True))

    @staticmethod
    def _proposal(memory: Memory, target: Point, theta: float, entered: tuple[Any, ...]) -> Proposal:
        names = memory.names
        active = tuple(names[key] for key in memory.face.keys)
        left = tuple(names[key] for key, _ in memory.face.dropped)
        event = Event(memory.tau, _compact(target.x), tuple(names[key] for key in entered), left, active)
        return Proposal(target, theta, replace(memory, events=(*memory.events, event)))

    def _begin(self, problem: Problem, x: Point, vertex: Lifted) -> tuple[Face, dict[Any, Any], Point]:
        """The face of the first vertex alone."""
        model, vertex = problem.objective.model(x), problem.objective.lift(vertex.vertex)
        sides = model.sides(vertex)
        face = Face(model, True, sides[1]).joined(vertex.vertex.key, sides, 1.0)
        return face, {vertex.vertex.key: vertex.vertex}, x.mix([(1.0, vertex)])

    def _events(
        self, problem: Problem, x: Point, known: Evaluation, ahead: Array, memory: Memory, noise: float
    ) -> Iterator[tuple[float, Any, Any, Face]]:
        """The event, and should rounding have made it up, the vertex that is best for the gradient at the target."""
        levels = (x.inner(memory.gradient), x.inner(ahead))
        tied = [memory.names[key] for key in memory.face.keys]
        crossing = first_crossing(problem, memory.gradient, ahead, levels, tied, known.vertex, noise)
        if crossing is None:
            return
        theta, first = crossing
        for vertex in (first, known.vertex.vertex):
            if vertex.key not in memory.face.keys:
                sides = memory.face.model.sides(problem.objective.lift(vertex))
                yield theta, vertex.key, vertex, memory.face.joined(vertex.key, sides)

    def _target(self, x: Point, memory: Memory) -> Point:
        target = np.zeros(x.x.shape)
        for key, weight in zip(memory.face.keys, memory.face.values.tolist(), strict=True):
            memory.names[key].add_to(target, weight)
        return _cast(target, memory.face, x)


@dataclass(frozen=True)
class ExactBoxFlow(ExactFlow):
    """On a box: a face is given by the entries that move, and these by a gradient entry that has come to zero."""

    def _begin(self, problem: Problem, x: Point, vertex: Lifted) -> tuple[Face, dict[Any, Any], Point]:
        corner = x.mix([(1.0, problem.objective.lift(vertex.vertex))])
        image = np.asarray(corner.image, dtype=np.float64)
        return Face(problem.objective.model(x), False, image), {}, corner

    def _events(
        self, problem: Problem, x: Point, known: Evaluation, ahead: Array, memory: Memory, noise: float
    ) -> Iterator[tuple[float, Any, Any, Face]]:
        lower, upper = (np.ravel(bound) for bound in problem.constraint.bounds(x.x.shape))
        above = x.x.reshape(-1) > (lower + upper) / 2
        values, inwards = np.where(above, upper, lower), np.where(above, -1.0, 1.0)
        slack = inwards * ahead.reshape(-1)
        slack[list(memory.face.keys)] = np.inf
        slack[lower == upper] = np.inf
        start, depth = inwards * memory.gradient.reshape(-1), noise / max(float((upper - lower).max()), 1e-300)
        while (event := first_below(start, slack, depth)) is not None:
            theta, j = event
            unit = problem.objective.lift(OneHot(j, 1.0, x.x.shape))
            sides = memory.face.model.sides(unit)
            yield theta, j, j, memory.face.joined(j, sides, float(values[j]), float(lower[j]), float(upper[j]))
            slack[j] = np.inf  # rounding had made it up

    def _target(self, x: Point, memory: Memory) -> Point:
        target = np.array(x.x, dtype=np.float64)
        for key, value in (*memory.face.dropped, *zip(memory.face.keys, memory.face.values, strict=True)):
            target.flat[key] = value
        return _cast(target, memory.face, x)


def _cast(target: Array, face: Face, like: Point) -> Point:
    return Point(target.astype(like.x.dtype, copy=False), face.image.astype(like.x.dtype, copy=False))


def _compact(x: Array) -> Vertex:
    """A point as a flat vector, by its non-zero entries where they are few."""
    flat = x.reshape(-1)
    places = np.flatnonzero(flat)
    return SparseVector(places, flat[places], flat.shape) if 2 * len(places) <= len(flat) else DenseVertex(flat)


def first_crossing(
    problem: Problem,
    start: Array,
    end: Array,
    levels: tuple[float, float],
    tied: Sequence[Vertex],
    last: Lifted,
    noise: float,
) -> tuple[float, Vertex] | None:
    r"""The first :math:`\theta` at which a vertex is below the tied ones, and that vertex; None if none is at the end.

    In closed form where the set has one. Otherwise by Dinkelbach's method, Newton on the concave function
    :math:`\min_v \langle g(\theta), v\rangle`: `last` is the oracle's answer at the end, the line on which it lies
    meets the level at an earlier theta, where the oracle is asked again, until it finds nothing below the level.
    """
    try:
        return problem.constraint.crossing(start, end, levels, tied, noise)
    except NotImplementedError:
        if last.vertex.dot(end) - levels[1] >= -noise:
            return None
    best, theta = last, 1.0
    while True:
        above, below = max(best.vertex.dot(start) - levels[0], 0.0), best.vertex.dot(end) - levels[1]
        earlier = above / (above - below) if below < 0 else theta
        if earlier >= theta:  # only rounding put it below the level
            return theta, last.vertex
        last, theta = best, earlier
        there = (1 - theta) * start + theta * end
        best = problem.lmo(there, last, lift=False)
        depth = best.vertex.dot(there) - ((1 - theta) * levels[0] + theta * levels[1])
        if depth >= -noise or theta == 0:
            return theta, last.vertex


@dataclass(frozen=True)
class FlowNewton(KeepsAtoms):
    """For other losses: quadratic models, each followed to its end on a working set, and a line search on f.

    A pass over the data picks the working set, from which images all the rest is done; it doubles where it was too
    small. The iterates are solutions on the working set, and their gap is that of the full problem.

    Parameters
    ----------
    first : int
        Size of the first working set.
    accuracy : float
        The restricted problem is solved until its gap is this share of the full one.
    """

    first: int = 50
    accuracy: float = 1e-4

    @property
    def uses_iterate(self) -> bool:
        return True

    def step(
        self, problem: Problem, k: int, x: Point, fun: float, known: Evaluation | None, memory: ActiveMemory
    ) -> Proposal:
        count = max(self.first, 2 * len(memory.active))
        return Corrective(count, self.accuracy).step(problem, k, x, fun, known, memory)


@dataclass(frozen=True)
class BoxNewton:
    """The same on a box, where the working set is one of entries: those that move, and those that want to."""

    first: int = 50
    accuracy: float = 1e-4

    lifts: ClassVar[bool] = False

    @property
    def uses_iterate(self) -> bool:
        return True

    def init(self, problem: Problem, x: Point) -> None: ...

    def step(self, problem: Problem, k: int, x: Point, fun: float, known: Evaluation | None, memory: None) -> Proposal:
        assert known is not None
        lower, upper = (np.ravel(bound) for bound in problem.constraint.bounds(x.x.shape))
        g, values = np.ravel(known.gradient), np.array(np.ravel(x.x), dtype=np.float64)
        moving = (values > lower) & (values < upper)
        gains = g * (values - np.where(g > 0, lower, upper))  # each entry's share of the gap
        wanted = smallest(-gains, min(len(g), max(self.first, int(moving.sum()))))
        moving[[j for j in wanted if gains[j] > 0]] = True
        chosen = np.flatnonzero(moving)
        if not len(chosen):
            return Proposal(x, 0.0, None, finished=True)
        units = [problem.objective.lift(OneHot(j, 1.0, x.x.shape)) for j in chosen.tolist()]
        rest = _added(x, units, -values[chosen])
        pool = Pool(tuple(units), values[chosen], lower[chosen], upper[chosen], affine=False, fixed=rest)
        found = minimise_on(problem, x, pool, self.accuracy * known.gap)
        return Proposal(_added(rest, units, found), 1.0, None)


def _added(x: Point, units: Sequence[Lifted], values: Array) -> Point:
    """The point with multiples of units added."""
    moved, image = x.x.copy(), None if x.image is None else x.image.copy()
    for unit, value in zip(units, values.tolist(), strict=True):
        unit.vertex.add_to(moved, value)
        if image is not None and unit.image is not None:
            unit.image.add_to(image, value)
    return Point(moved, image)


def slide(problem: Problem, x: Point, tau_end: float, step: float, progress: bool = False) -> tuple[Event, ...]:
    """The flow of a linear model with any loss: that of its quadratic model, renewed after every `step`.

    The face goes over from model to model. Where vertices no longer quite tie under the new one, its minimiser on the
    face still is where they do, so that the error does not grow.
    """
    f = problem.objective
    assert isinstance(f, LossOfImage)
    method = ExactBoxFlow() if problem.constraint.has_bounds else ExactFlow(foresee=1)  # models change too often
    memory: Memory | None = None
    target, tau = x, 0.0
    steps = math.ceil(tau_end / step)
    for until in tqdm([*(step * k for k in range(1, steps)), tau_end], disable=not progress, unit="model"):
        local = replace(problem, objective=f.modelled(x))
        if memory is None:
            proposal = method.step(local, 0, x, math.nan, local.evaluate(x, lift=False), None)
        else:
            face = replace(memory.face, model=local.objective.model(x)).refactored().minimised()
            gradient = np.asarray(local.gradient(x), dtype=np.float64)
            renewed = replace(memory, face=face, gradient=gradient, tau=tau, foreseen=())
            proposal = method._proposal(renewed, method._target(target, renewed), 0.0, ())
        while not proposal.finished and proposal.memory.tau < until:
            memory = proposal.memory
            assert memory is not None
            x = x.mix([(-math.expm1(tau - memory.tau), target)]) if memory.tau > tau else x
            target, tau = proposal.point, memory.tau
            known = proposal.known or local.evaluate(target, lift=False)
            proposal = method.step(local, 0, target, math.nan, known, memory)
        x = x.mix([(-math.expm1(tau - until), target)])
        tau = until
    assert memory is not None
    return memory.events


def find_flow(f: Objective, C: ConstraintSet) -> Method:
    """How to follow the flow of this objective over this set."""
    if f.factored or not C.polytope:
        raise ValueError(
            f'method="flow" needs a polytope of vectors, and {C!r} is not known to be one; '
            "a set of your own says so by polytope = True"
        )
    if f.quadratic:
        return ExactBoxFlow() if C.has_bounds else ExactFlow()
    return BoxNewton() if C.has_bounds else FlowNewton()
