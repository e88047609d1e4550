"""Accelerated projected gradient with Newton steps on faces, in a tight loop on plain arrays.

The loop has no trace and no status. It ends when the gap is small enough, when rounding prevents a smaller one, or when
the time is over.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import scipy.linalg

from fwflow._numerics import all_finite, dot
from fwflow._storage import storable
from fwflow._validation import Array
from fwflow.designs import Counts
from fwflow.methods.problem import Evaluation, Problem
from fwflow.objectives.base import NumericalTrouble
from fwflow.objectives.restriction import KeptHessian, QuadraticOnEntries, Restriction
from fwflow.points.gradients import as_gradient
from fwflow.points.point import Lifted
from fwflow.points.vertices import Shape
from fwflow.sets.base import ConstraintSet, Tangent
from fwflow.steps.momentum import extrapolation

# After a step, the smoothness constant is multiplied by `relax`. That is _RELAX after a step that was repeated, and
# _FASTER times as much after each further step, down to _FASTEST: losses flatten as margins grow. Measured in products
# on Madelon, Gisette and generated data: a constant factor of 0.7 needs a third more than 0.95, and a constant factor
# of 0.95 twice as many as these where a loss flattens.
_RELAX, _FASTER, _FASTEST = 0.95, 0.9, 0.5
# Least growth of the smoothness constant if a step must be repeated. Chosen without tuning. Most of the constants below
# were adjusted on the problems of benchmarks/bare.py and benchmarks/auto.py, a few values each.
_GROW = 1.3
# Largest growth of the smoothness constant if the second derivative has no bound, and share of the size of the set on
# which the first constant is then measured. Chosen without tuning.
_MOST_GROWTH, _SHORT = 16.0, 1e-4
# Smallest and largest smoothness constant relative to the first one.
_LEAST_SMOOTHNESS, _MOST_SMOOTHNESS = 2.0**-60, 2.0**100
# Number of steps after which the gap is computed, even if its estimate is large, and largest number of steps.
_CHECK_EVERY, MOST_STEPS = 10, 150
# Number of steps with the same nonzero entries before a Newton step, most steps to wait after a useless one, and how
# many times as many steps are enough if the nonzero entries change.
_STABLE, _MOST_STABLE, _UNSTABLE = 3, 20, 5
# A Newton step is useful if it reduces the gap below this share of its estimate. After a useless one, more projected
# steps are made before the next. The values 0.5 and 0.9 were compared.
_USEFUL = 0.9
# Number of steps from which the speed of projected steps is estimated.
_RECENT = 8
# Largest number of entries whose Hessian is formed and factorised: 8 MB, and about 0.1 s.
_MOST_DIRECT = 1000
# Largest number of faces in the minimisation of one quadratic model, and the share of the entries that would leave a
# face which a step may put on their bounds.
_MOST_FACES, _AT_ONCE = 200, 0.25
# Factor of the cost of conjugate gradients after a step that had to end at a bound.
_CG_ENDED = 4.0
# Number of steps of conjugate gradients from which their direction is poor: it is longest along the directions of small
# curvature, which they resolve last.
_CG_POOR = 30.0
# Relative accuracy and largest number of steps of conjugate gradients, and their number expected before the first use.
_CG_ACCURACY, _CG_STEPS, _CG_EXPECTED = 0.1, 60, 10.0
# Number of multiplications in a product of two matrices that take as long as one in a product with a vector, and the
# fixed cost of a factorisation in projected steps. Measured with 500 to 2000 rows and 100 to 400 columns.
_BLAS3, _SETUP = 4.0, 5.0
# Largest number of quadratic models with a kept Hessian in one iteration, and of steps on each of them; the gap of a
# model at which its steps end, as a share of the gap of f; and the share of the gap above which a model was poor, so
# that a new Hessian is computed. The values 0.1, 0.3 and 0.5 of the last number were compared on paths of logistic
# regression with 20 000 rows.
_MOST_MODELS, _MODEL_STEPS, _MODEL_SHARE, _MODEL_USEFUL = 30, 300, 0.1, 0.5
# Share of the predicted decrease that a Newton step must reach (Armijo's rule).
_DECREASE = 1e-4
# Multiple of the rounding error of its terms up to which a gap counts as zero.
_ROUNDING = 16
# Relative size of the number that is added to the diagonal of a Hessian before its factorisation.
_RIDGE = 1e-12


@storable("columns-memory")
class StepMemory(NamedTuple):
    """What projected steps remember between iterations: the smoothness constant, and the momentum on all entries."""

    #: NaN: unknown.
    smoothness: float = math.nan
    #: Factor of the smoothness constant after the next step.
    relax: float = _RELAX
    #: Nesterov's t, the vector before the last one, and its image; None without momentum.
    t: float = 1.0
    previous: Array | None = None
    previous_image: Array | None = None


class Place(NamedTuple):
    """Vector where the loop starts or has ended, its image and gradient if they are known, and the memory of steps."""

    v: Array
    image: Array | None = None
    gradient: Array | None = None
    memory: StepMemory = StepMemory()


class Ended(NamedTuple):
    """Last place with its images, and the evaluation there; None if the time was over before the gap was known."""

    place: Place
    known: Evaluation | None
    #: Whether the largest number of steps was made before the gap was small enough, with a known smoothness constant.
    stalled: bool = False


class _Step(NamedTuple):
    """Projected step: its start and gradient, its end and image, and whether it is longer than rounding errors."""

    start: Array
    gradient: Array
    end: Array
    image: Array
    long: bool


@dataclass
class _Walk:
    """State of the projected steps: the last two vectors with their images, and what decides the following step."""

    v: Array
    previous: Array
    z: Array
    z_previous: Array
    #: Nesterov's t of the last extrapolation and of the next one.
    t: float
    t_next: float
    #: Smoothness constant, its factor after the next step, and its first value.
    L: float
    relax: float
    first: float
    #: Gradient at v, if it is known.
    gradient: Array | None
    eps: float
    #: Estimates of the gap since the last Newton step, and the nonzero entries of v.
    estimates: list[float]
    used: Array
    #: Number of steps with the same nonzero entries, and their number before a Newton step.
    stable: int = 0
    wait: int = _STABLE

    @classmethod
    def begun(cls, f: Restriction, place: Place) -> _Walk:
        """Return the state at a place."""
        (v, z, gradient, (L, relax, t, previous, z_previous)), eps = place, float(np.finfo(place.v.dtype).eps)
        z = f.image(v) if z is None else z
        if previous is None or z_previous is None:
            previous, z_previous = v, z
        return cls(v, previous, z, z_previous, t, t, L, relax, math.nan, gradient, eps, [math.inf], v != 0)

    @property
    def place(self) -> Place:
        """The place that the steps have reached."""
        memory = StepMemory(self.L, self.relax, self.t, self.previous, self.z_previous)
        return Place(self.v, self.z, memory=memory)

    @property
    def ready(self) -> bool:
        """Whether a Newton step is due."""
        return self.stable >= self.wait or len(self.estimates) > _UNSTABLE * self.wait

    def extrapolated(self) -> tuple[Array, Array]:
        """Return the point at which the next step starts, and its image."""
        self.t_next, beta = extrapolation(self.t)
        if beta <= 0:
            return self.v, self.z
        return self.v + beta * (self.v - self.previous), self.z + beta * (self.z - self.z_previous)

    def restarted(self) -> None:
        """Drop the momentum."""
        self.previous, self.z_previous, self.t = self.v, self.z, 1.0

    def taken(self, step: _Step, estimate: float) -> None:
        """Move to the end of a step."""
        if step.long:
            least = max(_LEAST_SMOOTHNESS * self.first, float(np.finfo(self.v.dtype).tiny))
            self.L, self.relax = max(self.L * self.relax, least), max(_FASTEST, _FASTER * self.relax)
        # The adaptive restart of O'Donoghue and Candes.
        self.t = 1.0 if float(np.vdot(step.start - step.end, step.end - self.v)) > 0 else self.t_next
        nonzero = step.end != 0
        self.stable = 0 if (nonzero != self.used).any() else self.stable + 1
        self.previous, self.z_previous, self.v, self.z, self.used = self.v, self.z, step.end, step.image, nonzero
        self.estimates.append(estimate)


class ProjectedSteps:
    """Minimisation of a restriction over a set whose members have the given shape; the restriction has vectors."""

    def __init__(self, problem: Problem, f: Restriction, C: ConstraintSet, shape: Shape) -> None:
        self.problem, self.f, self.C, self.shape, self.flat = problem, f, C, shape, len(shape) == 1
        self.cg_steps, self.faces = _CG_EXPECTED, 0  # of the last Newton steps of each kind

    def run(self, place: Place, target: float, most: int = MOST_STEPS) -> Ended:
        """Make at most `most` steps from a place until the gap is at most `target`."""
        kept = self.f.kept
        if kept is not None and kept.useful:
            ended = self._by_models(place, target, kept)
            if ended.known is None or ended.known.gap <= target:
                return ended
            place = ended.place
        # The first step of a quadratic without a known smoothness constant may reach the minimum.
        walk, once = _Walk.begun(self.f, place), math.isnan(place.memory.smoothness) and self.f.quadratic
        for k in range(1, most + 1):
            step = self._projected(walk)
            if step is None:
                walk.restarted()
                return Ended(walk.place, None)
            if not self.f.convex and self._rises(walk, step):
                walk.restarted()  # a step from v itself decreases f
                continue
            least = self._least(step.gradient)
            estimate = float(np.vdot(step.gradient, step.end)) - least
            if not math.isfinite(estimate):
                raise NumericalTrouble("the gradient has NaN or infinite entries")
            walk.taken(step, estimate)
            if estimate <= target or k % _CHECK_EVERY == 0 or (once and k == 1):
                known = self._evaluated(walk.v, walk.z)
                terms = float(np.vdot(np.abs(step.gradient), np.abs(walk.v))) + abs(least)
                if known.gap <= max(target, _ROUNDING * walk.eps * terms):
                    return Ended(walk.place, known)
            found = self._newton_evaluated(walk, estimate)
            if found is not None and found.gap <= target:
                return Ended(walk.place, found)
        # Steps whose smoothness constant still falls as fast as it can have not found it yet.
        return Ended(walk.place, self._evaluated(walk.v, walk.z), stalled=walk.relax > _FASTEST)

    def _projected(self, walk: _Walk) -> _Step | None:
        """Return a projected step from the extrapolated point, with backtracking; None if the time is over."""
        f, (y, zy) = self.f, walk.extrapolated()
        g = self._gradient(y, zy) if walk.gradient is None or y is not walk.v else walk.gradient
        walk.gradient = None
        if math.isnan(walk.L):
            walk.L = self._first_smoothness(y, zy, g)
        if math.isnan(walk.first):
            walk.first = walk.L
        rounding2 = (4 * walk.eps) ** 2 * float(np.vdot(y, y))
        while True:
            new = self._project(_descended(y, g, walk.L))
            zn = f.image(new)
            d = new - y
            length2 = float(np.vdot(d, d))
            curvature = f.curvature(d, zy, zn)
            if self.problem.late:
                return None
            if curvature <= (1 + 1e-9) * walk.L * length2 or length2 <= rounding2:
                return _Step(y, g, new, zn, length2 > rounding2)
            measured = 1.05 * curvature / length2  # NaN if the image overflowed
            if not f.bounded and measured > _MOST_GROWTH * walk.L:  # the mean over a long segment says little here
                measured = _MOST_GROWTH * walk.L
            walk.L, walk.relax = max(_GROW * walk.L, measured), _RELAX
            if not _MOST_SMOOTHNESS * walk.first > walk.L:  # also for NaN
                raise NumericalTrouble("backtracking found no step that decreases f")

    def _rises(self, walk: _Walk, step: _Step) -> bool:
        """Return whether f is higher after a step from an extrapolated point than before."""
        if step.start is walk.v:
            return False
        value = self.f.value(walk.v, walk.z)
        return self.f.value(step.end, step.image) > value + 4 * walk.eps * abs(value)

    def _newton_evaluated(self, walk: _Walk, estimate: float) -> Evaluation | None:
        """Make a Newton step if it is due, and return the evaluation at its end; else None."""
        if not walk.ready or (tangent := self._slow(walk.v, walk.estimates)) is None:
            return None
        moved = self._newton(walk.v, walk.z, tangent)
        walk.stable, walk.wait, walk.estimates = 0, min(2 * walk.wait, _MOST_STABLE), [math.inf]
        if moved is None:
            return None
        walk.v, walk.z = moved
        walk.restarted()
        known, walk.used = self._evaluated(walk.v, walk.z), walk.v != 0
        if known.gap <= _USEFUL * estimate:
            walk.wait = _STABLE
        return known

    def _by_models(self, place: Place, target: float, kept: KeptHessian) -> Ended:
        """Minimise quadratic models with the kept Hessian, one after the other, until the gap is at most `target`.

        A new Hessian is computed if a model decreases the gap by too little. If a model with a new Hessian does so, the
        gap may stay above the target.
        """
        f, problem, v = self.f, self.problem, place.v
        z = f.image(v) if place.image is None else place.image
        known, value, new = self._evaluated(v, z), f.value(v, z), False
        for _ in range(_MOST_MODELS):
            if known.gap <= target or problem.late:
                break
            g = np.asarray(known.gradient).reshape(-1)
            if kept.matrix is None:
                kept.matrix, new = f.hessian(z, np.arange(len(v))), True
            model = QuadraticOnEntries(kept.matrix, dot(kept.matrix, v) - g, convex=True)
            own = ProjectedSteps(replace(problem, counts=Counts()), model, self.C, self.shape)
            start = Place(v, gradient=g, memory=StepMemory(kept.smoothness))
            ended = own.run(start, _MODEL_SHARE * max(known.gap, target), _MODEL_STEPS)
            problem.counts.n_lmo += own.problem.counts.n_lmo
            kept.smoothness, end = ended.place.memory.smoothness, ended.place.v
            zn, slope = f.image(end), float(np.vdot(g, end - v))
            lower = f.value(end, zn)
            if not (slope < 0 and lower <= value + _DECREASE * slope):
                if new:
                    kept.useful = False
                    break
                kept.matrix = None
                continue
            before, known, v, z, value = known.gap, self._evaluated(end, zn), end, zn, lower
            if known.gap > _MODEL_USEFUL * before:
                if new:
                    break
                kept.matrix = None
            new = False
        return Ended(Place(v, z, np.asarray(known.gradient).reshape(-1)), known)

    def _project(self, v: Array) -> Array:
        member = self.C.project(v if self.flat else v.reshape(self.shape))
        assert member is not None  # the method has checked it
        return member.reshape(-1)

    def _gradient(self, v: Array, z: Array) -> Array:
        self.problem.counts.n_grad += 1
        return self.f.gradient(v, z)

    def _least(self, g: Array) -> float:
        """Return the minimum of ``<g, s>`` over the set."""
        self.problem.counts.n_lmo += 1
        shaped = g if self.flat else g.reshape(self.shape)
        return self.C.vertex(shaped).dot(shaped)

    def _evaluated(self, v: Array, z: Array) -> Evaluation:
        g = self._gradient(v, z).reshape(self.shape)
        self.problem.counts.n_lmo += 1
        vertex = self.C.vertex(g)
        return Evaluation(as_gradient(g), Lifted(vertex), float(np.vdot(g, v)) - vertex.dot(g))

    def _first_smoothness(self, y: Array, zy: Array, g: Array) -> float:
        """Return the mean curvature of f on a step against the gradient, of the length of the set: a low estimate."""
        largest = float(np.abs(g).max())
        if largest == 0:
            return 1.0
        vertex = np.asarray(self.C.vertex(g if self.flat else g.reshape(self.shape))).reshape(-1)
        self.problem.counts.n_lmo += 1
        reach = float(np.abs(vertex - y).max()) or 1.0
        d = (g / g.dtype.type(largest)) * g.dtype.type(-reach if self.f.bounded else -_SHORT * reach)
        curvature = self.f.curvature(d, zy, self.f.image(y + d)) / float(np.vdot(d, d))
        # Added to y, a step of at most this length is not rounding error.
        least = max(float(np.finfo(g.dtype).eps) * largest / reach, float(np.finfo(g.dtype).tiny))
        return curvature if least < curvature < math.inf else least

    def _slow(self, v: Array, estimates: list[float]) -> Tangent | None:
        """Return the tangent space at v if a Newton step in it is expected to cost less than projected steps.

        Both are compared by their cost for a factor of ten, in projected steps.
        """
        faces, recent = self.C.faces, estimates[-_RECENT - 1 :]
        if faces is None or len(recent) <= _STABLE:
            return None
        decades = math.log10(max(recent[0], 1e-300) / max(recent[-1], 1e-300)) if recent[0] < math.inf else 1.0
        cost = min(self._newton_costs(int(np.count_nonzero(v)), len(v)))
        if cost == math.inf or decades / (len(recent) - 1) * cost >= 1:
            return None
        tangent = faces.tangent(v)
        return tangent if tangent is not None and len(tangent.free) else None

    def _newton_costs(self, free: int, size: int) -> tuple[float, float]:
        """Return the costs of a Newton step by a factorisation and by conjugate gradients, in projected steps."""
        work, share = self.f.work, free / size
        direct = _SETUP + ((work * share * free + free**3) / _BLAS3 + self.faces * free**2) / (2 * work)
        iterative = self.cg_steps * share * (1 + self.cg_steps / _CG_POOR)
        # If there are more free entries than rows, the Hessian is singular.
        return direct if free <= min(_MOST_DIRECT, self.f.rank) else math.inf, iterative

    def _newton(self, v: Array, z: Array, tangent: Tangent) -> tuple[Array, Array] | None:
        """Return the point of a Newton step within the face around v, and its image; None if f does not decrease."""
        f, g = self.f, self._gradient(v, z)
        direct, iterative = self._newton_costs(len(tangent.free), len(v))
        moved = self._along_direction if iterative <= direct else self._model_minima
        value = f.value(v, z)
        for new in moved(v, z, g, tangent):
            zn, slope = f.image(new), float(np.vdot(g, new - v))
            if slope < 0 and f.value(new, zn) <= value + _DECREASE * slope:
                return new, zn
        return None

    def _along_direction(self, v: Array, z: Array, g: Array, tangent: Tangent) -> Iterator[Array]:
        """Yield the projection of a Newton step, which may change the face, and the step to the end of the face."""
        d = self._conjugate_gradients(z, g, tangent)
        direction = np.zeros_like(v)
        direction[tangent.free] = d
        if not all_finite(direction):  # products with the Hessian have overflowed
            return
        yield self._project(v + direction)
        # A step that ends at the first bound gains little; the other kind of Newton step continues there.
        self.cg_steps *= _CG_ENDED
        yield self._moved(v, d, tangent)[0]

    def _moved(self, x: Array, d: Array, tangent: Tangent, share: float = 0.0) -> tuple[Array, bool]:
        """Return the end of a step within the face around x, and whether the face ended it.

        The step goes on until this share of the entries that would leave the face have reached their bounds.
        """
        assert self.C.faces is not None
        direction = np.zeros_like(x)
        direction[tangent.free] = d
        lengths = tangent.lengths(d)
        leaving = lengths[lengths < 1]
        length = float(np.partition(leaving, rank := int(share * len(leaving)))[rank]) if len(leaving) else 1.0
        if not tangent.normal.any():  # a condition on the sum may become active
            length = min(length, self.C.faces.max_step(x, direction))
        end, ending = x + length * direction, lengths <= length
        places = tangent.free[ending]  # put exactly on their bounds
        bounds = np.where(d < 0, x[tangent.free] - tangent.below, x[tangent.free] + tangent.above)
        end[places] = bounds[ending]
        return self._project(end), length < 1

    def _model_minima(self, v: Array, z: Array, g: Array, tangent: Tangent) -> Iterator[Array]:
        """Yield the minimum of the quadratic model on the face, reached from v over smaller and smaller faces."""
        first, H = tangent.free, np.array(self.f.hessian(z, tangent.free), dtype=np.float64)
        faces, x, slopes, normals = self.C.faces, v, g[first].astype(np.float64), tangent.normals
        assert faces is not None
        K = _inverse(H)
        if K is None:
            return
        value = 0.0  # of the model, relative to that at v
        for self.faces in range(1, _MOST_FACES + 1):
            d = _newton_direction(K, slopes, normals)
            if d is None:
                break
            inside = np.searchsorted(first, tangent.free)
            for share in (_AT_ONCE, 0.0):
                end, ended = self._moved(x, d[inside].astype(v.dtype), tangent, share)
                moved = (end - v)[first].astype(np.float64)
                bend = dot(H, moved)
                reached = float(np.vdot(g[first] + 0.5 * bend, moved))
                if reached < value or not ended:
                    break
            x, value, slopes = end, reached, g[first] + bend
            found = faces.tangent(x)
            left = np.zeros(0, int) if found is None else np.setdiff1d(tangent.free, found.free, assume_unique=True)
            if not ended or found is None or not len(left) or len(left) + len(found.free) != len(tangent.free):
                break
            if self.problem.late:
                break
            for j in np.searchsorted(first, left):  # the inverse of the Hessian without row and column j
                if K[j, j] > 0:
                    K -= np.outer(K[:, j], K[j] / K[j, j])
                K[:, j] = K[j] = 0
            tangent = found
        yield x

    def _conjugate_gradients(self, z: Array, g: Array, tangent: Tangent) -> Array:
        """Return an approximate Newton direction."""
        product, project = self.f.hessian_product(z, tangent.free), tangent.projected
        residual = -project(g[tangent.free])
        d, p, square = np.zeros_like(residual), residual, float(np.vdot(residual, residual))
        goal = _CG_ACCURACY**2 * square
        steps = 0
        while square > goal and steps < _CG_STEPS and not self.problem.late:
            Hp = project(product(p))
            curvature = float(np.vdot(p, Hp))
            if not curvature > 0:
                break
            steps += 1
            length = square / curvature
            d, residual = d + length * p, residual - length * Hp
            before, square = square, float(np.vdot(residual, residual))
            p = residual + square / before * p
        # If they have not converged, many more would be needed.
        self.cg_steps = float(max(steps, 1)) if square <= goal else math.inf
        return d


@np.errstate(over="ignore", invalid="ignore")
def _descended(y: Array, g: Array, L: float) -> Array:
    """Return ``y - g / L``; entries that overflow become the largest number."""
    end = y - g / y.dtype.type(L)
    return end if math.isfinite(float(np.add.reduce(end))) else np.nan_to_num(end)


def _inverse(H: Array) -> Array | None:
    """Return the inverse of a Hessian with a small number added to its diagonal; None if it is not positive."""
    regular = H + _RIDGE * float(np.trace(H)) / len(H) * np.eye(len(H))
    factor, failed = scipy.linalg.lapack.dpotrf(regular, overwrite_a=True)
    if failed:
        return None
    inverse, failed = scipy.linalg.lapack.dpotri(factor, overwrite_c=True)
    upper = np.triu(inverse)
    return None if failed else upper + np.triu(inverse, 1).T


def _newton_direction(K: Array, g: Array, N: Array) -> Array | None:
    """Return the minimiser of ``g' d + d' H d / 2`` with ``N' d = 0``, given the inverse K of H."""
    d = -dot(K, g)
    if N.shape[1]:
        Q = dot(K, N)
        M, rest = dot(N.T, Q), dot(N.T, d)
        if not (all_finite(M) and all_finite(rest)):  # LAPACK raises errors for other numbers
            return None
        d = d - dot(Q, np.linalg.lstsq(M, rest)[0])
    return d if all_finite(d) else None
