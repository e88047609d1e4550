r"""Exact Frank-Wolfe flow of a quadratic over a polytope: from event to event, without a time step.

With tau the integral of gamma, the flow is x' = s - x. While the same vertices V minimise <gradient, v>, s minimises f
over their hull, because vertices with positive weight must stay tied. So x moves straight towards s, and the gradient
of a quadratic changes linearly from that at x to that at s as theta = 1 - exp(-tau) goes from 0 to 1. The next event is
a vertex that becomes as good as those in V; a ratio test finds it. If there is none, s is optimal.

The flow has finitely many events: a vertex that enters is better than those in V for the gradient at s, so every s has
a lower value than the one before, and each is the minimiser over the hull of one of finitely many sets of vertices.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from fwflow._numerics import first_below, length
from fwflow._storage import storable
from fwflow._validation import Array
from fwflow.methods.base import Iterate, Method, Proposal
from fwflow.methods.problem import Evaluation, Problem
from fwflow.methods.restricted.atoms import ActiveSet, Atoms
from fwflow.methods.restricted.face import Face
from fwflow.methods.restricted.working_set import WorkingSet, events
from fwflow.objectives.quadratic_models import NOWHERE, Model
from fwflow.points.gradients import DenseGradient, as_gradient
from fwflow.points.point import Lifted, Point
from fwflow.points.vertices import DenseVertex, OneHot, SparseVertex, Vertex

#: Keys of predicted faces, and the gradients at their minimisers.
Predicted = tuple[tuple[tuple[Any, ...], Array], ...]

# If A has more entries, a pass over it costs more than predicting events. Chosen without tuning.
_WORTH_PREDICTING = 10**6
# Vertices are equal if their entries and their products with the gradients differ by at most this, relatively. Chosen
# without tuning.
_SAME = 1e-10
# The flow ends after this many events, plus two per vertex of the face, without a decrease of f beyond rounding.
# Chosen without tuning.
_IDLE = 20
# If an image is shorter than this fraction of another, their difference is imprecise: the vertex replaces the centre of
# the face, or the image is computed anew. Chosen without tuning.
_SHORT = 1e-3


@storable("event")
@dataclass(frozen=True, eq=False)
class Event:
    """Change of the face, after which the flow moves straight to another target until the next event.

    Attributes
    ----------
    tau : float
        Time of the event, as the integral of gamma.
    target : Vertex
        Target of the flow after the event, as a flat vector.
    entered, left : tuple
        Vertices that enter and leave the face. On boxes, whose faces have too many vertices: indices of the entries
        that leave a bound and that reach one.
    active : tuple
        All vertices or entries of the face after the event.
    """

    tau: float
    target: Vertex
    entered: tuple[Any, ...]
    left: tuple[Any, ...]
    active: tuple[Any, ...]

    def time(self, c: float = 2.0) -> float:
        """Return the time of the event in the schedule c / (c + t)."""
        return float(c * np.expm1(self.tau / c))


@storable("face-memory")
@dataclass(frozen=True, eq=False)
class FaceMemory:
    """Current face, vertex or entry of each key, gradient and time at the last event, and all events so far."""

    face: Face
    names: dict[Any, Any]
    gradient: Array
    tau: float = 0.0
    scale: float = 0.0
    events: tuple[Event, ...] = ()
    predicted: Predicted = ()
    #: Largest scale, lowest value of f, and number of events since f decreased by more than rounding.
    peak: float = 0.0
    lowest: float = math.inf
    idle: int = 0

    def at(self, scale: float, fun: float, eps: float) -> FaceMemory:
        """Return the memory at an iterate where products with the gradient have the size `scale`."""
        peak = max(self.peak, scale)
        fell = fun < self.lowest - eps * peak
        return replace(self, scale=scale, peak=peak, lowest=min(fun, self.lowest), idle=0 if fell else self.idle + 1)

    def noise(self, x: Point) -> float:
        """Return a bound on the rounding error of inner products with the gradient at x."""
        return 50 * self.scale * float(np.finfo(x.x.dtype).eps)

    def above_rounding(self, x: Point, sides: tuple[Array, Array], below: float) -> bool:
        """Return whether `below`, the descent rate towards a vertex or entry, exceeds the rounding of the data."""
        left = sides[0] - self.face.centre[0]
        return below > float(np.finfo(x.x.dtype).eps) * float(self.face.noise(left))


@dataclass(frozen=True)
class ExactFlow(Method):
    """One event of the flow per iteration. The iterates are the targets s, whose gradients determine the next event.

    An event costs one pass over the data and one oracle call, and further calls if the ratio test of the set has no
    closed form. If one pass can compute several gradients, events are predicted among nearly tied vertices, and one
    pass computes the gradients at all targets. Each event is still decided by the gradient over all vertices, and wrong
    predictions are dropped.
    """

    #: Maximum number of predicted events per pass.
    predictions: int = 16
    #: Number of vertices among which events are predicted.
    among: int = 128

    lifts = False
    descends = True

    def active_set(self, memory: FaceMemory | None) -> ActiveSet | None:
        if memory is None or not memory.face.affine:
            return None
        return ActiveSet(Atoms(Lifted(memory.names[key]) for key in memory.face.keys), memory.face.values)

    def step(self, problem: Problem, iterate: Iterate, memory: FaceMemory | None) -> Proposal:
        x, known = iterate.point, iterate.known
        assert known is not None
        ahead = np.asarray(known.gradient, dtype=np.float64)
        if memory is None:
            model = problem.model(x)
            assert model is not None  # every quadratic has one
            face, names, target = self._begin(problem, model, x, known.vertex)
            memory = FaceMemory(face, names, ahead, scale=abs(x.dot(ahead)) + known.gap)
            return self._proposal(memory, target, 0.0, tuple(names))
        memory = memory.at(abs(x.dot(ahead)) + known.gap, iterate.fun, float(np.finfo(x.x.dtype).eps))
        if memory.idle > _IDLE + 2 * len(memory.face.keys):  # f decreases only by rounding errors
            return Proposal(x, 0.0, memory, known=known, mixture=True, finished=True)
        for event in self._events(problem, x, known.vertex, ahead, memory):
            theta, key, name, joined = event
            face = joined.minimised(lambda: problem.late)
            # If the generator that joined drops out at once, it did not move, and the event was a rounding error.
            if face.dropped[:1] != ((key, joined.values[-1]),):
                break
        else:
            again = None if problem.late else self._again(problem, iterate, memory)
            return again or Proposal(x, 0.0, memory, known=known, mixture=True, finished=not problem.late)
        following = replace(
            memory,
            face=face,
            names=memory.names | {key: name},
            gradient=memory.gradient + theta * (ahead - memory.gradient),
            tau=memory.tau - math.log1p(-theta) if theta < 1 else math.inf,
        )
        proposal = self._proposal(following, self._target(x, following), theta, (key,))
        return proposal if problem.late else self._with_gradient(problem, proposal, ahead, known.vertex.vertex)

    def _again(self, problem: Problem, iterate: Iterate, memory: FaceMemory) -> Proposal | None:
        """Minimise on the face again, if the time limit or rounding errors stopped the first minimisation."""
        assert iterate.known is not None
        if iterate.known.gap <= memory.noise(iterate.point):
            return None
        fresh = self._fresh(problem, iterate.point, memory.face)
        face = fresh.minimised(lambda: problem.late)
        following = replace(memory, face=face)
        target = self._target(iterate.point, following)
        noise = 8 * float(np.finfo(iterate.point.x.dtype).eps) * abs(iterate.fun)
        if face.spread > fresh.spread / 2 or problem.raw_value(target) > iterate.fun + noise:
            return None
        return Proposal(target, 0.0, following, mixture=face.affine)

    def _fresh(self, problem: Problem, x: Point, face: Face) -> Face:
        """Return the face with its base computed anew, without accumulated rounding errors."""
        return face

    def _with_gradient(self, problem: Problem, proposal: Proposal, ahead: Array, best: Vertex) -> Proposal:
        """Return the proposal with its evaluation, if the gradient was predicted or is computed with others."""
        memory = proposal.memory
        if not (memory.predicted and memory.predicted[0][0] == memory.face.keys):
            memory = replace(memory, predicted=self._predicted(problem, memory, ahead, best))
        if not memory.predicted:
            return proposal._replace(memory=memory)
        g = DenseGradient(memory.predicted[0][1].astype(proposal.point.x.dtype, copy=False))
        known = problem.evaluate(proposal.point, lift=False, gradient=g)
        return proposal._replace(memory=replace(memory, predicted=memory.predicted[1:]), known=known)

    def _predicted(self, problem: Problem, memory: FaceMemory, ahead: Array, best: Vertex) -> Predicted:
        """Return the predicted faces, and the gradients at their minimisers from one pass."""
        f, C, face = problem.objective, problem.constraint, memory.face
        if self.predictions < 2 or f.image_map is None or math.prod((f.image_map.size, *f.shape)) < _WORTH_PREDICTING:
            return ()
        near = [best] if C.known_vertices is None else C.known_vertices.best_vertices(ahead, self.among, best)
        if C.known_vertices is None or len(near) < 2:
            return ()
        near += C.known_vertices.best_vertices(memory.gradient, self.among, best)
        names = {key: memory.names[key] for key in face.keys} | {v.key: v for v in near}
        keys = list(names)
        sides = [face.model.sides(f.lift(v))[0] for v in problem.in_time(names.values())]
        if len(sides) < len(names):
            return ()
        left = np.stack(sides)
        working = WorkingSet((), np.zeros(0), np.zeros(len(keys)), np.full(len(keys), np.inf), affine=True)
        slopes = np.array([v.dot(memory.gradient) for v in names.values()])
        places = replace(face, keys=tuple(range(len(face.keys))), dropped=())
        following = events(working, (left, left), places, np.zeros(len(keys)), slopes, lambda: problem.late)
        faces = [one for one, _ in islice(following, self.predictions)]
        if problem.late:
            return ()
        gradients = problem.gradients([Point(NOWHERE, one.image.astype(f.dtype)) for one in faces])
        if gradients is None:
            return ()
        return tuple((tuple(keys[i] for i in one.keys), g) for one, g in zip(faces, gradients, strict=True))

    @staticmethod
    def _proposal(memory: FaceMemory, target: Point, theta: float, entered: tuple[Any, ...]) -> Proposal:
        names = memory.names
        active = tuple(names[key] for key in memory.face.keys)
        left = tuple(names[key] for key, _ in memory.face.dropped)
        event = Event(memory.tau, compact(target.x), tuple(names[key] for key in entered), left, active)
        return Proposal(target, theta, replace(memory, events=(*memory.events, event)), mixture=memory.face.affine)

    def _begin(self, problem: Problem, model: Model, x: Point, vertex: Lifted) -> tuple[Face, dict[Any, Any], Point]:
        """Return the face at the start, the names of its keys, and the first target."""
        vertex = problem.objective.lift(vertex.vertex)
        sides = model.sides(vertex)
        face = Face(model, True, sides[1], centre=sides).joined(vertex.vertex.key, sides, 1.0)
        return face, {vertex.vertex.key: vertex.vertex}, x.mix([(1.0, vertex)])

    def _events(
        self, problem: Problem, x: Point, best: Lifted, ahead: Array, memory: FaceMemory
    ) -> Iterator[tuple[float, Any, Any, Face]]:
        """Yield theta, key, name and face of the first vertex that becomes tied, and of the next ones if needed.

        The gradient changes from that of the memory to `ahead`, whose best vertex is `best`; x is the target.
        """
        start, noise = memory.gradient, memory.noise(x)
        levels = (x.dot(start), x.dot(ahead))
        tied = [memory.names[key] for key in memory.face.keys]
        while (event := first_crossing(problem, start, ahead, levels, tied, best, noise)) is not None:
            if problem.late:
                return
            theta, vertex = event
            problem.agreed(vertex.dot(ahead), Evaluation(as_gradient(ahead), best, 0.0), "crossing")
            sides = memory.face.model.sides(problem.objective.lift(vertex))
            if memory.above_rounding(x, sides, levels[1] - vertex.dot(ahead)):
                face = memory.face
                # A short image minus a much longer centre would be imprecise.
                if length(sides[0]) < _SHORT * length(face.centre[0]):
                    lifted = [problem.objective.lift(memory.names[key]) for key in face.keys]
                    face = face.recentred(sides, [face.model.sides(one) for one in lifted])
                yield theta, vertex.key, vertex, face.joined(vertex.key, sides)
            tied.append(vertex)

    def _target(self, x: Point, memory: FaceMemory) -> Point:
        target = np.zeros(x.x.shape)
        for key, weight in zip(memory.face.keys, memory.face.values.tolist(), strict=True):
            memory.names[key].add_to(target, weight)
        return _cast(target, memory.face, x)


@dataclass(frozen=True)
class ExactBoxFlow(ExactFlow):
    """Exact flow on a box. A face is given by the entries between bounds, which enter when their gradient is zero."""

    def _begin(self, problem: Problem, model: Model, x: Point, vertex: Lifted) -> tuple[Face, dict[Any, Any], Point]:
        corner = x.mix([(1.0, problem.objective.lift(vertex.vertex))])
        image = np.asarray(corner.image, dtype=np.float64)
        return Face(model, False, image), {}, corner

    def _fresh(self, problem: Problem, x: Point, face: Face) -> Face:
        fixed = np.array(x.x)
        fixed.flat[list(face.keys)] = 0.0
        return replace(face, base=np.asarray(problem.objective.refresh(Point(fixed)).image, dtype=np.float64))

    def _events(
        self, problem: Problem, x: Point, best: Lifted, ahead: Array, memory: FaceMemory
    ) -> Iterator[tuple[float, Any, Any, Face]]:
        lower, upper = box_bounds(problem, x)
        above = x.x.reshape(-1) > (lower + upper) / 2
        values, inwards = np.where(above, upper, lower), np.where(above, -1.0, 1.0)
        slack = inwards * ahead.reshape(-1)
        slack[list(memory.face.keys)] = np.inf
        slack[lower == upper] = np.inf
        start = inwards * memory.gradient.reshape(-1)
        width = float((upper - lower).max()) or 1.0
        depth = memory.noise(x) / width
        while (event := first_below(start, slack, depth)) is not None:
            if problem.late:
                return
            theta, j = event
            unit = problem.objective.lift(OneHot(j, 1.0, x.x.shape))
            sides = memory.face.model.sides(unit)
            if memory.above_rounding(x, sides, -float(slack[j])):
                face = memory.face.joined(j, sides, float(values[j]), float(lower[j]), float(upper[j]))
                # A base that is a difference of much longer vectors has lost its precision.
                if length(face.base) < _SHORT * length(memory.face.base):
                    face = self._fresh(problem, x, face)
                yield theta, j, j, face
            slack[j] = np.inf  # the caller asks for another event only if this one was a rounding error

    def _target(self, x: Point, memory: FaceMemory) -> Point:
        target = np.array(x.x, dtype=np.float64)
        for key, value in (*memory.face.dropped, *zip(memory.face.keys, memory.face.values, strict=True)):
            target.flat[key] = value
        return _cast(target, memory.face, x)


def _cast(target: Array, face: Face, like: Point) -> Point:
    return Point(target.astype(like.x.dtype, copy=False), face.image.astype(like.x.dtype, copy=False))


def compact(x: Array) -> Vertex:
    """Return a point as a flat vector: sparse if at most half of its entries are nonzero, otherwise dense."""
    flat = x.reshape(-1)
    places = np.flatnonzero(flat)
    return SparseVertex(places, flat[places], flat.shape) if 2 * len(places) <= len(flat) else DenseVertex(flat)


def first_crossing(
    problem: Problem,
    start: Array,
    end: Array,
    levels: tuple[float, float],
    tied: Sequence[Vertex],
    last: Lifted,
    noise: float,
) -> tuple[float, Vertex] | None:
    r"""Return the first :math:`\theta` at which a vertex is better than the tied ones, and that vertex; else None.

    Sets with a closed form use it. Others use Dinkelbach's method, which is Newton's method on the concave function
    :math:`\min_v \langle g(\theta), v\rangle`. `last` is the best vertex at the end. Its value equals that of the tied
    vertices at an earlier theta. There the oracle is called again, until no vertex is better.
    """
    known = problem.constraint.known_vertices
    closed = None if known is None else known.crossing(start, end, levels, tied, noise)
    if closed is not None:
        return None if closed.vertex is None else (closed.theta, closed.vertex)
    if last.vertex.dot(end) - levels[1] >= -noise:
        return None
    found: tuple[float, Vertex] | None = None
    theta, vertex = 1.0, last.vertex
    noise += 50 * float(np.finfo(start.dtype).eps) * (abs(levels[0]) + abs(vertex.dot(start)))
    while True:
        above, below = max(vertex.dot(start) - levels[0], 0.0), vertex.dot(end) - levels[1]
        earlier = above / (above - below) if below < 0 else theta
        only_rounding = earlier >= theta and found is not None
        if only_rounding or _is_one_of(vertex, tied, (start, end), above - below):
            return found
        found, theta = (earlier, vertex), earlier
        there = (1 - theta) * start + theta * end
        last = problem.lmo(as_gradient(there), last, lift=False)
        vertex = last.vertex
        if problem.late or theta == 0 or vertex.dot(there) >= (1 - theta) * levels[0] + theta * levels[1] - noise:
            return found


def _is_one_of(vertex: Vertex, tied: Sequence[Vertex], gradients: tuple[Array, Array], off: float) -> bool:
    """Return whether a vertex at distance `off` from the level equals a tied one, up to a solver's errors."""
    if any(vertex.key == v.key for v in tied):
        return True
    if vertex.entries() is not None:
        return False
    size, v = np.abs(gradients[0]) + np.abs(gradients[1]), np.asarray(vertex)
    near, close = _SAME * float(np.vdot(size, np.abs(v))), _SAME * float(np.abs(v).max())
    if off > near:
        return False
    # Products alone do not show differences in entries where the gradient is small.
    apart = (np.abs(v - np.asarray(w)) for w in tied)
    return any(d.max() <= close and np.vdot(size, d) <= near for d in apart)


def box_bounds(problem: Problem, x: Point) -> tuple[Array, Array]:
    """Return the bounds of a box as vectors."""
    bounds = problem.constraint.bounds(x.x.shape)
    assert bounds is not None
    return np.ravel(bounds[0]), np.ravel(bounds[1])
