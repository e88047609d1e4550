"""Methods: Runge-Kutta steps of the flow, accelerated projected gradient, and pairwise steps.

Steps are pure functions without branches: in a batch of problems, both sides of a branch would be computed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import lax, tree_util

from fwflow.jax.objectives import Line, Objective
from fwflow.jax.points import OneHot, Point, Vertex
from fwflow.jax.sets import Set
from fwflow.jax.trees import Array, either, epsilon, inner, pytree, register
from fwflow.steps.momentum import Momentum, extrapolation
from fwflow.steps.schedules import ConstantSchedule, LogOpenLoop, OpenLoop, Schedule
from fwflow.steps.searches import FALL, Aggressive, ExactSearch, LineSearch
from fwflow.tableau.scheme import Tableau, mixture_weights, stages

# Each projected step first tries the last accepted smoothness constant times this factor (chosen without tuning).
_RELAX = 0.9


# The parameters of these schedules are leaves, so that one compiled run serves all of their values.
for _kind in (ConstantSchedule, LogOpenLoop, OpenLoop):
    register(_kind)


def stage_gammas(schedule: Schedule, k: Array, omega: Sequence[Any], dtype: Any) -> list[Array]:
    """Return the mixing coefficients ``schedule.stage_gammas(k, omega)`` for a traced k."""
    times = [((schedule.k0 + k + w) * schedule.delta).astype(dtype) for w in omega]
    return [jnp.asarray(schedule.delta * schedule.gamma(t), dtype) for t in times]


def aggressive(line: Line, gamma: Array, limit: Array) -> Array:
    """Return the step size of `fwflow.Aggressive`."""
    value0 = line.value(jnp.zeros_like(gamma))
    lower = value0 - 4 * epsilon(gamma.dtype) * jnp.abs(value0)
    shortest = jnp.maximum(gamma, 0)  # Halving a finite step size reaches zero, so the loop ends.

    def unfinished(t: Array) -> Array:
        return (t > shortest) & (t < jnp.inf) & ~(line.value(t) < lower)

    trial = lax.while_loop(unfinished, lambda t: t / 2, limit)
    downhill = line.slope(jnp.zeros_like(gamma)) < 0
    return jnp.minimum(limit, jnp.where(downhill, jnp.maximum(gamma, trial), gamma))


def exact(line: Line, gamma: Array, limit: Array) -> Array:
    """Return the step size of `fwflow.ExactSearch`: a closed form for quadratics, otherwise Newton in a bracket."""
    zero = jnp.zeros_like(limit)
    slope0 = line.slope(zero)
    if line.quadratic:
        curvature = line.second(zero)
        length = jnp.where(curvature > 0, jnp.minimum(limit, -slope0 / jnp.where(curvature > 0, curvature, 1)), limit)
    else:
        length = _stationary(line, slope0, limit)
    return jnp.where(slope0 < 0, length, 0)


def _stationary(line: Line, slope0: Array, limit: Array) -> Array:
    eps = epsilon(limit.dtype)
    enough = max(1e-10, 16 * eps) * jnp.abs(slope0)

    def unfinished(carry: Any) -> Array:
        count, x, slope, low, high, last, _ = carry
        return (count < 60) & (jnp.abs(slope) > enough) & (high - low > 8 * eps * limit) & (x != last)

    def newton(carry: Any) -> Any:
        count, x, before, low, high, _, slow = carry
        curvature = line.second(x)
        trial = jnp.where(curvature > 0, x - before / jnp.where(curvature > 0, curvature, 1), high)
        trial = jnp.where((low < trial) & (trial < high) & ~slow, trial, (low + high) / 2)
        slope = line.slope(trial)
        low, high = jnp.where(slope < 0, trial, low), jnp.where(slope < 0, high, trial)
        slow = slow if line.bounded else jnp.abs(slope) > FALL * jnp.abs(before)
        return count + 1, trial, slope, low, high, x, slow

    zero = jnp.zeros_like(limit)
    first = (0, zero, slope0, zero, limit, -jnp.ones_like(limit), jnp.zeros((), bool))
    found = lax.while_loop(unfinished, newton, first)[1]
    return jnp.where(line.slope(limit) <= 0, limit, found)


#: Compiled forms of line searches of the core.
line_searches: dict[LineSearch, Callable[[Line, Array, Array], Array]] = {
    Aggressive(): aggressive,
    ExactSearch(): exact,
}


class Evaluation(NamedTuple):
    """Gradient at a point, the vertex of the oracle for it, and the Frank-Wolfe gap."""

    gradient: Array
    vertex: Vertex
    gap: Array


def evaluate(f: Objective, C: Set, point: Point, hint: Vertex | None, lift: bool) -> Evaluation:
    r"""Return gradient, vertex and the gap :math:`\langle g, x - s\rangle` at a point."""
    g = f.gradient(point)
    vertex = C.lmo(g, hint)
    return Evaluation(g, f.lift(vertex) if lift else vertex, inner(g, point.x) - vertex.dot(g))


#: Next point, memory of the next step, and step size.
Step = tuple[Point, Any, Array]


class Method(ABC):
    """Rule for one step. `gradients` and `oracles` count the calls of a step, without the evaluation of the iterate."""

    #: Whether every step needs the evaluation of the iterate; otherwise it is made at every `check_every`-th step.
    uses_iterate: bool = True
    #: Whether a step needs the image of the vertex at the iterate.
    lifts: bool = True
    check_every: int = 1
    gradients: int = 0
    oracles: int = 0

    def init(self, f: Objective, C: Set, point: Point, known: Evaluation) -> Any:
        """Return the memory of the first step."""
        return None

    @abstractmethod
    def step(self, f: Objective, C: Set, k: Array, point: Point, known: Evaluation, memory: Any) -> Step:
        """Return the result of step k."""


@pytree("line_search", "momentum")
class Multistep(Method):
    """Step of a tableau in mixture form; of the tableau, only the number of stages is compiled in."""

    A: tuple[tuple[Any, ...], ...]
    beta: tuple[Any, ...]
    omega: tuple[Any, ...]
    schedule: Schedule
    line_search: LineSearch | None = None
    momentum: Momentum | None = None

    @classmethod
    def of(cls, tableau: Tableau, schedule: Schedule, **options: Any) -> Multistep:
        """Return the method of a `fwflow.Tableau`."""
        # The parameters of a user-defined schedule, for which JAX has no rule, become constants of the compiled code.
        if tree_util.all_leaves([schedule]):
            tree_util.register_static(type(schedule))
        rows = tuple(tuple(row[:i]) for i, row in enumerate(tableau.A.tolist()))
        return cls(rows, tuple(tableau.beta.tolist()), tuple(tableau.omega.tolist()), schedule, **options)

    @property
    def uses_iterate(self) -> bool:  # type: ignore[override]
        return self.momentum is None

    @property
    def gradients(self) -> int:  # type: ignore[override]
        return len(self.beta) - self.uses_iterate

    oracles = gradients

    def init(self, f: Objective, C: Set, point: Point, known: Evaluation) -> Any:
        return None if self.momentum is None else (jnp.zeros_like(known.gradient), known.vertex)

    def step(self, f: Objective, C: Set, k: Array, point: Point, known: Evaluation, memory: Any) -> Step:
        dtype = point.x.dtype
        gammas = stage_gammas(self.schedule, k, self.omega, dtype)
        W, p = mixture_weights(self.A, self.beta, gammas)
        W, p = [[jnp.asarray(w, dtype) for w in row] for row in W], [jnp.asarray(w, dtype) for w in p]
        last = known.vertex if memory is None else memory[1]

        def oracle(g: Array) -> Vertex:
            nonlocal last
            last = f.lift(C.lmo(g, last))
            return last

        def target(i: int, x_bar: Point) -> Any:
            nonlocal memory
            if self.momentum is None:
                return oracle(f.gradient(x_bar)) if i else last

            def gradient(y: Point) -> Array:
                # The first stage of a run has no previous vertex to extrapolate to.
                return f.gradient(y if i else either(k > 0, y, x_bar))

            aimed, memory = self.momentum.aim(x_bar, gammas[i], memory, gradient, oracle)  # type: ignore[arg-type]
            return aimed

        s = stages(point, W, target)
        length = gammas[0]
        if self.line_search is not None:
            d = [(w / gammas[0], aim) for w, aim in zip(p, s, strict=True)]  # d = sum_i p_i (s_i - x) / gamma
            weights = jnp.stack(p)
            limit = jnp.where(weights.min() >= 0, jnp.minimum(1, gammas[0] / weights.sum()), 1).astype(dtype)
            length = line_searches[self.line_search](f.along(point, point.mix(d)), gammas[0], limit)
            p = [length * w for w, _ in d]
        return point.mix(zip(p, s, strict=True)), memory, length


@pytree()
class ProjectedGradient(Method):
    """FISTA with adaptive restart (Beck & Teboulle 2009; O'Donoghue & Candes 2015).

    A step is one trial: if the smoothness constant is too small, x stays and the next step doubles the constant. The
    memory is the previous iterate, t of the extrapolation, and the last accepted constant.
    """

    uses_iterate = False
    lifts = False
    check_every = 10
    gradients = 1

    def init(self, f: Objective, C: Set, point: Point, known: Evaluation) -> Any:
        g = known.gradient
        size, reach = jnp.abs(g).max(), jnp.abs(known.vertex.added_to(-point.x, 1)).max()
        d = jnp.where(size > 0, reach / jnp.where(size > 0, size, 1), 0) * g
        norm2 = inner(d, d)
        L = f.along(point, f.point(point.x - d)).second(jnp.zeros((), g.dtype)) / jnp.where(norm2 > 0, norm2, 1)
        # With a smaller constant, the step is so long that x is lost in rounding when they are added.
        least = epsilon(g.dtype) * size / jnp.where(reach > 0, reach, 1)
        return point, jnp.ones((), g.dtype), jnp.where(least < L, L, jnp.where(least > 0, least, 1))

    def step(self, f: Objective, C: Set, k: Array, point: Point, known: Evaluation, memory: Any) -> Step:
        previous, t, smoothness = memory
        following, beta = extrapolation(t, jnp.sqrt)
        y = point.mix([(-beta, previous)])  # x + beta (x - previous)
        g, L = f.gradient(y), _RELAX * smoothness
        member = C.project(y.x - g / L)
        assert member is not None  # The method is chosen only for sets with a projection.
        moved = f.point(member)
        d = moved.x - y.x
        unchanged = jnp.abs(d).max() <= 4 * epsilon(d.dtype) * jnp.abs(y.x).max()
        accepted = (f.curvature_along(y, moved, g) <= (1 + 1e-5) * L * inner(d, d)) | unchanged
        restart = inner(-d, moved.x - point.x) > 0
        memory = (
            either(accepted, point, previous),
            jnp.where(accepted, jnp.where(restart, 1, following), t),
            jnp.where(unchanged, smoothness, jnp.where(accepted, L, 2 / _RELAX * L)),
        )
        return either(accepted, moved, point), memory, jnp.where(accepted, 1 / L, 0)


@pytree("line_search", "blended")
class Pairwise(Method):
    """Pairwise steps for sets whose vertices have one nonzero entry each, so that x itself holds their weights.

    A step moves weight from the worst vertex of x to that of the oracle (Lacoste-Julien & Jaggi 2015). The blended form
    moves it to the best vertex of x, unless a plain step is steeper (Tsuji, Tanaka & Pokutta 2022).
    """

    line_search: LineSearch = ExactSearch()
    blended: bool = False

    lifts = False

    def step(self, f: Objective, C: Set, k: Array, point: Point, known: Evaluation, memory: Any) -> Step:
        found = C.atoms(point.x)
        assert found is not None  # The method is chosen only for sets with atoms.
        values, weights = found
        g = jnp.pad(known.gradient.reshape(-1), (0, len(values) - known.gradient.size))
        scores, used = values * g, weights > 8 * epsilon(g.dtype)
        worst = jnp.where(used, scores, -jnp.inf).argmax()
        toward: Any = known.vertex
        local = jnp.ones((), bool)
        if self.blended:
            best = jnp.where(used, scores, jnp.inf).argmin()
            local = scores[worst] - scores[best] >= known.gap
            toward = OneHot(jnp.where(local, best, toward.index), jnp.where(local, values[best], toward.value))
        s, a = f.lift(toward), f.lift(OneHot(worst, values[worst]))
        share = local.astype(g.dtype)  # Without a local step, the weight is taken from all of x.
        limit = jnp.where(local, weights[worst], 1)
        end = point.mix([(1.0, s), (-share, a)])
        length = line_searches[self.line_search](f.along(point, end), jnp.minimum(1, limit), limit)
        moved = point.mix([(length, s), (-length * share, a)])
        gone = local & (length >= limit) & (jnp.arange(moved.x.size) == worst)
        return Point(jnp.where(gone.reshape(moved.x.shape), 0, moved.x), moved.image), None, length
