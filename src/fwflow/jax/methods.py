"""What proposes the next point? Runge-Kutta steps of the flow, projected gradient, and moves between vertices.

Steps are pure: from a point, what is known there and a memory to the next point and memory, with no branch that a
batch of problems would have to take both sides of.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp

from fwflow.jax.objectives import Objective
from fwflow.jax.points import Lifted, OneHot, Point
from fwflow.jax.sets import Set
from fwflow.jax.steps import Gamma, line_searches
from fwflow.jax.trees import Array, epsilon, inner, pytree
from fwflow.tableau.mixture import stages
from fwflow.tableau.scheme import Tableau, mixture_weights

# Each projected step first tries a smoothness constant this much smaller than the last that held.
_RELAX = 0.9


class Known(NamedTuple):
    """What is known at a point: the gradient, the oracle's answer to it, and the gap between the two."""

    gradient: Array
    vertex: Lifted
    gap: Array


def evaluate(f: Objective, C: Set, point: Point, hint: Lifted | None, lift: bool) -> Known:
    r"""Gradient, vertex and the gap :math:`\langle g, x - s\rangle` at a point."""
    g = f.gradient(point)
    vertex = C.lmo(g, None if hint is None else hint.vertex)
    return Known(g, f.lift(vertex) if lift else Lifted(vertex), inner(g, point.x) - vertex.dot(g))


class Step(NamedTuple):
    """The next point, the memory for the step after, and how far this one went."""

    point: Point
    memory: Any
    length: Array


class Method(ABC):
    """One step. `gradients` and `oracles` are what it asks for beyond the evaluation of the iterate."""

    #: Whether every step needs an evaluation of the iterate; else it is made at every `check_every`-th.
    uses_iterate: bool = True
    #: Whether it needs the image of the oracle's answer.
    lifts: bool = True
    check_every: int = 1
    gradients: int = 0
    oracles: int = 0

    @abstractmethod
    def init(self, f: Objective, C: Set, point: Point, known: Known) -> Any:
        """The memory of the first step."""

    @abstractmethod
    def step(self, f: Objective, C: Set, k: Array, point: Point, known: Known, memory: Any) -> Step:
        """One step, the k-th."""


@pytree("search", "nesterov")
@dataclass(frozen=True, eq=False)
class Multistep(Method):
    """One step of a tableau, in mixture form; only the number of its stages is compiled in."""

    A: tuple[tuple[Any, ...], ...]
    beta: tuple[Any, ...]
    omega: tuple[Any, ...]
    schedule: Gamma
    search: str | None
    nesterov: bool

    @classmethod
    def of(cls, tableau: Tableau, schedule: Gamma, search: str | None, nesterov: bool) -> Multistep:
        """From a tableau of the core."""
        rows = tuple(tuple(row[:i]) for i, row in enumerate(tableau.A.tolist()))
        return cls(rows, tuple(tableau.beta.tolist()), tuple(tableau.omega.tolist()), schedule, search, nesterov)

    @property
    def uses_iterate(self) -> bool:  # type: ignore[override]
        return not self.nesterov

    @property
    def gradients(self) -> int:  # type: ignore[override]
        return len(self.beta) - self.uses_iterate

    oracles = gradients

    def init(self, f: Objective, C: Set, point: Point, known: Known) -> Any:
        if not self.nesterov:
            return None
        return jnp.zeros_like(known.gradient), known.vertex, jnp.zeros((), bool)

    def step(self, f: Objective, C: Set, k: Array, point: Point, known: Known, memory: Any) -> Step:
        dtype = point.x.dtype
        gammas = self.schedule.stage_gammas(k, self.omega, dtype)
        W, p = mixture_weights(self.A, self.beta, gammas)
        W, p = [[_as(w, dtype) for w in row] for row in W], [_as(w, dtype) for w in p]
        last = known.vertex

        def target(i: int, x_bar: Point) -> Lifted:
            nonlocal last, memory
            if self.nesterov:
                theta, v, began = memory
                y = x_bar.mix([(jnp.where(began, gammas[i], 0), v)])
                theta = (1 - gammas[i]) * theta + gammas[i] * f.gradient(y)
                last = f.lift(C.lmo(theta, v.vertex))
                memory = theta, last, jnp.ones((), bool)
            elif i:
                last = f.lift(C.lmo(f.gradient(x_bar), last.vertex))
            return last

        s = stages(point, W, target)
        length = gammas[0]
        if self.search is not None:
            d = [(w / gammas[0], aim) for w, aim in zip(p, s, strict=True)]  # d = sum_i p_i (s_i - x) / gamma
            weights = jnp.stack(p)
            limit = jnp.where(weights.min() >= 0, jnp.minimum(1, gammas[0] / weights.sum()), 1).astype(dtype)
            length = line_searches[self.search](f.along(point, point.mix(d)), gammas[0], limit)
            p = [length * w for w, _ in d]
        return Step(point.mix(zip(p, s, strict=True)), memory, length)


def _as(weight: Any, dtype: Any) -> Array:
    return jnp.asarray(weight, dtype)


class Momentum(NamedTuple):
    """The iterate before, Nesterov's t, and the smoothness that last held."""

    previous: Point
    t: Array
    smoothness: Array


@pytree()
@dataclass(frozen=True, eq=False)
class ProjectedGradient(Method):
    """FISTA with adaptive restart (Beck & Teboulle 2009; O'Donoghue & Candes 2015).

    A step is one trial: where the smoothness constant proves too small x stays, and the next step tries twice that.
    """

    uses_iterate = False
    lifts = False
    check_every = 10
    gradients = 1

    def init(self, f: Objective, C: Set, point: Point, known: Known) -> Momentum:
        g = known.gradient
        size, reach = jnp.abs(g).max(), jnp.abs(known.vertex.vertex.added_to(-point.x, 1)).max()
        d = jnp.where(size > 0, reach / jnp.where(size > 0, size, 1), 0) * g
        norm2 = inner(d, d)
        L = f.along(point, f.point(point.x - d)).second(jnp.zeros((), g.dtype)) / jnp.where(norm2 > 0, norm2, 1)
        least = epsilon(g.dtype) * size / jnp.where(reach > 0, reach, 1)  # where steps round x away
        return Momentum(point, jnp.ones((), g.dtype), jnp.where(least < L, L, jnp.where(least > 0, least, 1)))

    def step(self, f: Objective, C: Set, k: Array, point: Point, known: Known, memory: Momentum) -> Step:
        t = (1 + jnp.sqrt(1 + 4 * memory.t**2)) / 2
        beta = (memory.t - 1) / t
        y = point.mix([(-beta, memory.previous)])  # x + beta (x - previous)
        g, L = f.gradient(y), _RELAX * memory.smoothness
        member = C.project(y.x - g / L)
        assert member is not None  # or this method would not have been chosen
        moved = f.point(member)
        d = moved.x - y.x
        still = jnp.abs(d).max() <= 4 * epsilon(d.dtype) * jnp.abs(y.x).max()
        held = (f.bend(y, moved, g) <= (1 + 1e-5) * L * inner(d, d)) | still
        restart = inner(-d, moved.x - point.x) > 0
        following = Momentum(
            _either(held, point, memory.previous),
            jnp.where(held, jnp.where(restart, 1, t), memory.t),
            jnp.where(still, memory.smoothness, jnp.where(held, L, 2 / _RELAX * L)),
        )
        return Step(_either(held, moved, point), following, jnp.where(held, 1 / L, 0))


def _either(first: Array, a: Point, b: Point) -> Point:
    image = None if a.image is None or b.image is None else jnp.where(first, a.image, b.image)
    return Point(jnp.where(first, a.x, b.x), image)


@pytree("blended", "search")
@dataclass(frozen=True, eq=False)
class Pairwise(Method):
    """Move weight from the worst vertex of x to the oracle's; blended, to the best of x where that promises as much.

    For sets whose vertices have one entry each: x itself tells the weights (Lacoste-Julien & Jaggi 2015; Tsuji, Tanaka
    & Pokutta 2022).
    """

    blended: bool
    search: str = "exact"

    lifts = False

    def init(self, f: Objective, C: Set, point: Point, known: Known) -> None:
        return None

    def step(self, f: Objective, C: Set, k: Array, point: Point, known: Known, memory: Any) -> Step:
        found = C.atoms(point.x)
        assert found is not None  # or this method would not have been chosen
        values, weights = found
        g = jnp.pad(known.gradient.reshape(-1), (0, len(values) - known.gradient.size))
        scores, used = values * g, weights > 8 * epsilon(g.dtype)
        worst = jnp.where(used, scores, -jnp.inf).argmax()
        toward: Any = known.vertex.vertex
        local = jnp.ones((), bool)
        if self.blended:
            best = jnp.where(used, scores, jnp.inf).argmin()
            local = scores[worst] - scores[best] >= known.gap
            toward = OneHot(jnp.where(local, best, toward.index), jnp.where(local, values[best], toward.value))
        s, a = f.lift(toward), f.lift(OneHot(worst, values[worst]))
        share = local.astype(g.dtype)  # without, weight comes from all of x
        limit = jnp.where(local, weights[worst], 1)
        end = point.mix([(1.0, s), (-share, a)])
        length = line_searches[self.search](f.along(point, end), jnp.minimum(1, limit), limit)
        moved = point.mix([(length, s), (-length * share, a)])
        gone = local & (length >= limit) & (jnp.arange(moved.x.size) == worst)
        return Step(Point(jnp.where(gone.reshape(moved.x.shape), 0, moved.x), moved.image), None, length)
