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
from typing import Any

import numpy as np

from fwflow._numerics import first_below, length
from fwflow._storage import storable
from fwflow._validation import Array
from fwflow.methods.base import Iterate, Method, Proposal
from fwflow.methods.clock import in_time
from fwflow.methods.corrective import Pool, events
from fwflow.methods.problem import Evaluation, Problem
from fwflow.methods.restricted.atoms import ActiveSet, Atoms
from fwflow.methods.restricted.face import Face
from fwflow.objectives.quadratic_models import NOWHERE, Model
from fwflow.points.gradients import DenseGradient, as_gradient
from fwflow.points.point import Lifted, Point
from fwflow.points.vertices import DenseVertex, OneHot, SparseVertex, Vertex

#: Keys of faces, and gradients.
Foreseen = tuple[tuple[tuple[Any, ...], Array], ...]

# Entries of A from which on a pass costs more than looking ahead.
_WORTH_FORESEEING = 10**6
# Answers of an oracle that differ by no more than this, in every entry and in their products with a gradient, are one.
_SAME = 1e-10
# Events without a decrease of f beyond its rounding after which the flow ends, besides two for each vertex of the face.
_IDLE = 20
# A vertex whose image is this much shorter than that of the vertex that others are counted from takes its place; and an
# image that has become this much shorter is computed anew.
_SHORT = 1e-3


@storable("event")
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


@storable("face-memory")
@dataclass(frozen=True, eq=False)
class FaceMemory:
    """The face on which the flow slides, the gradient and time at its last event, and all events so far."""

    face: Face
    names: dict[Any, Any]
    gradient: Array
    tau: float = 0.0
    scale: float = 0.0
    events: tuple[Event, ...] = ()
    #: Faces that are likely to come, by their keys, and the gradients at their minimisers.
    foreseen: Foreseen = ()
    #: The largest scale so far, the lowest value of f, and the events since f has fallen by more than its rounding.
    peak: float = 0.0
    lowest: float = math.inf
    idle: int = 0

    def at(self, scale: float, fun: float, eps: float) -> FaceMemory:
        """Return the memory at an iterate, where products with the gradient have that size."""
        peak = max(self.peak, scale)
        fell = fun < self.lowest - eps * peak
        return replace(self, scale=scale, peak=peak, lowest=min(fun, self.lowest), idle=0 if fell else self.idle + 1)

    def noise(self, x: Point) -> float:
        """Rounding of inner products with the gradient at x."""
        return 50 * self.scale * float(np.finfo(x.x.dtype).eps)

    def above_rounding(self, x: Point, sides: tuple[Array, Array], below: float) -> bool:
        """Whether a derivative along a generator with these sides is negative by more than the data are rounded."""
        left = sides[0] - self.face.centre[0]
        return below > float(np.finfo(x.x.dtype).eps) * float(self.face.noise(left))


@dataclass(frozen=True)
class ExactFlow(Method):
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

    @property
    def lifts(self) -> bool:
        """Images of the oracle's answers are made here, for the few that enter."""
        return False

    @property
    def descends(self) -> bool:
        return True

    def active_set(self, memory: FaceMemory | None) -> ActiveSet | None:
        if memory is None or not memory.face.affine:
            return None
        return ActiveSet(Atoms(Lifted(memory.names[key]) for key in memory.face.keys), memory.face.values)

    def step(self, problem: Problem, iterate: Iterate, memory: FaceMemory | None) -> Proposal:
        x, known = iterate.point, iterate.known
        assert known is not None
        if memory is None:
            return self._begun(problem, x, known)
        ahead = np.asarray(known.gradient, dtype=np.float64)
        memory = memory.at(abs(x.dot(ahead)) + known.gap, iterate.fun, float(np.finfo(x.x.dtype).eps))
        if memory.idle > _IDLE + 2 * len(memory.face.keys):  # what is left of f is rounding of what it was
            return Proposal(x, 0.0, memory, known=known, mixture=True, finished=True)
        for event in self._events(problem, x, known.vertex, ahead, memory):
            theta, key, name, joined = event
            face = joined.minimised(lambda: problem.late)
            if face.dropped[:1] != ((key, joined.values[-1]),):  # else it did not move: rounding had made it up
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
        """The minimum on the face once more, where time was over before it was found or rounding has hidden it."""
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
        """The face, free of rounding that has come from much larger numbers."""
        return face

    def _begun(self, problem: Problem, x: Point, known: Evaluation) -> Proposal:
        """How the flow begins at x: towards the vertex that is best there."""
        face, names, target = self._begin(problem, x, known.vertex)
        gradient = np.asarray(known.gradient, dtype=np.float64)
        memory = FaceMemory(face, names, gradient, scale=abs(x.dot(gradient)) + known.gap)
        return self._proposal(memory, target, 0.0, tuple(names))

    def _with_gradient(self, problem: Problem, proposal: Proposal, ahead: Array, best: Vertex) -> Proposal:
        """The proposal with its evaluation, if that was foreseen or can be had together with others."""
        memory = proposal.memory
        if not (memory.foreseen and memory.foreseen[0][0] == memory.face.keys):
            memory = replace(memory, foreseen=self._foreseen(problem, memory, ahead, best))
        if not memory.foreseen:
            return proposal._replace(memory=memory)
        g = DenseGradient(memory.foreseen[0][1].astype(proposal.point.x.dtype, copy=False))
        vertex = problem.lmo(g, lift=False)
        known = Evaluation(g, vertex, g.inner(proposal.point) - g.dot(vertex.vertex))
        return proposal._replace(memory=replace(memory, foreseen=memory.foreseen[1:]), known=known)

    def _foreseen(self, problem: Problem, memory: FaceMemory, ahead: Array, best: Vertex) -> Foreseen:
        """Faces that are likely to come, and the gradients at their minimisers from one pass."""
        f, C, face = problem.objective, problem.constraint, memory.face
        if self.foresee < 2 or math.prod((f.image_size or 0, *f.shape)) < _WORTH_FORESEEING:
            return ()
        near = [best] if C.known_vertices is None else C.known_vertices.best_vertices(ahead, self.among, best)
        if C.known_vertices is None or len(near) < 2:
            return ()
        near += C.known_vertices.best_vertices(memory.gradient, self.among, best)
        names = {key: memory.names[key] for key in face.keys} | {v.key: v for v in near}
        keys = list(names)
        sides = [face.model.sides(f.lift(v))[0] for v in in_time(problem, names.values())]
        if len(sides) < len(names):
            return ()
        left = np.stack(sides)
        pool = Pool((), np.zeros(0), np.zeros(len(keys)), np.full(len(keys), np.inf), affine=True)
        slopes = np.array([v.dot(memory.gradient) for v in names.values()])
        places = replace(face, keys=tuple(range(len(face.keys))), dropped=())
        following = events(pool, left, left, places, np.zeros(len(keys)), slopes, lambda: problem.late)
        faces = [one for one, _ in islice(following, self.foresee)]
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

    def _begin(self, problem: Problem, x: Point, vertex: Lifted) -> tuple[Face, dict[Any, Any], Point]:
        """The face of the first vertex alone."""
        model, vertex = _model(problem, x), problem.objective.lift(vertex.vertex)
        sides = model.sides(vertex)
        face = Face(model, True, sides[1], centre=sides).joined(vertex.vertex.key, sides, 1.0)
        return face, {vertex.vertex.key: vertex.vertex}, x.mix([(1.0, vertex)])

    def _events(
        self, problem: Problem, x: Point, best: Lifted, ahead: Array, memory: FaceMemory
    ) -> Iterator[tuple[float, Any, Any, Face]]:
        """What first becomes tied, and should rounding have made that up, what does so next.

        The gradient goes from that of the memory to `ahead`, for which the oracle's answer is `best`; x is the target.
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
                if length(sides[0]) < _SHORT * length(face.centre[0]):  # next to the centre it would have few digits
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
    """On a box: a face is given by the entries that move, and these by a gradient entry that has come to zero."""

    def _begin(self, problem: Problem, x: Point, vertex: Lifted) -> tuple[Face, dict[Any, Any], Point]:
        corner = x.mix([(1.0, problem.objective.lift(vertex.vertex))])
        image = np.asarray(corner.image, dtype=np.float64)
        return Face(_model(problem, x), False, image), {}, corner

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
                if length(face.base) < _SHORT * length(memory.face.base):  # most digits of the difference are lost
                    face = self._fresh(problem, x, face)
                yield theta, j, j, face
            slack[j] = np.inf  # rounding had made it up

    def _target(self, x: Point, memory: FaceMemory) -> Point:
        target = np.array(x.x, dtype=np.float64)
        for key, value in (*memory.face.dropped, *zip(memory.face.keys, memory.face.values, strict=True)):
            target.flat[key] = value
        return _cast(target, memory.face, x)


def _cast(target: Array, face: Face, like: Point) -> Point:
    return Point(target.astype(like.x.dtype, copy=False), face.image.astype(like.x.dtype, copy=False))


def compact(x: Array) -> Vertex:
    """A point as a flat vector, by its non-zero entries where they are few."""
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
    r"""The first :math:`\theta` at which a vertex is below the tied ones, and that vertex; None if none is at the end.

    In closed form where the set has one. Otherwise by Dinkelbach's method, Newton on the concave function
    :math:`\min_v \langle g(\theta), v\rangle`: `last` is the oracle's answer at the end, the line on which it lies
    meets the level at an earlier theta, where the oracle is asked again, until it finds nothing below the level.
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
    """Whether a vertex that is `off` the level is one of those tied: a solver may compute it with other rounding."""
    if any(vertex.key == v.key for v in tied):
        return True
    if vertex.entries() is not None:
        return False
    size, v = np.abs(gradients[0]) + np.abs(gradients[1]), np.asarray(vertex)
    near, close = _SAME * float(np.vdot(size, np.abs(v))), _SAME * float(np.abs(v).max())
    if off > near:
        return False
    # By their products alone, vertices far from the origin might differ in entries in which the gradient is small.
    apart = (np.abs(v - np.asarray(w)) for w in tied)
    return any(d.max() <= close and np.vdot(size, d) <= near for d in apart)


def _model(problem: Problem, x: Point) -> Model:
    model = problem.model(x)
    assert model is not None  # quadratics have one
    return model


def box_bounds(problem: Problem, x: Point) -> tuple[Array, Array]:
    """The bounds of a box, as vectors."""
    bounds = problem.constraint.bounds(x.x.shape)
    assert bounds is not None
    return np.ravel(bounds[0]), np.ravel(bounds[1])
