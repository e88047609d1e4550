"""Runs of `minimize` with their stage points and vertices, and the flow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

import fwflow as fw
from fwflow._numerics import dot
from fwflow._validation import Array
from fwflow.points.vertices import Shape, Vertex
from fwflow.reproduction.explorer.scenes import SHAPES, TABLEAUS, Scene, SceneChoice
from fwflow.reproduction.framework import RK44

#: Parameters of `flow` on the disc, where the exact flow needs a polytope. Chosen without tuning.
DISC_FLOW: dict[str, Any] = {"c": 8.0, "delta": 0.01, "method": RK44}


class _Recorded(fw.ConstraintSet):
    """Set that records the vertices of its oracle."""

    def __init__(self, C: fw.ConstraintSet) -> None:
        self.C = C
        self.vertices: list[Array] = []

    def lmo(self, g: Array, hint: Vertex | None = None) -> Vertex:
        vertex = self.C.lmo(g, hint)
        self.vertices.append(np.asarray(vertex))
        return vertex

    def start(self, shape: Shape | None = None, dtype: Any = np.float64) -> Any:
        return self.C.start(shape, dtype)

    def contains(self, x: Any, tol: float = 1e-9) -> bool | None:
        return None  # not needed, and a linear program for convex hulls

    def diameter(self, shape: Shape | None = None) -> float | None:
        return self.C.diameter(shape)


@dataclass(frozen=True, eq=False)
class Run:
    """Recorded run. Row k of `x` and `gap` is iterate k; row k of the other arrays is the step from there."""

    x: Array
    gap: Array
    stages: Array
    targets: Array
    step: Array


def objective(m: Array, shape: str) -> fw.Quadratic:
    """Return :math:`f(x) = (x-m)^T H (x-m) / 2` minus its value at 0."""
    H = SHAPES[shape]
    return fw.Quadratic(H, dot(H, m))


@cache
def weights(tableau: str, c: float, delta: float, iterations: int) -> tuple[Array, Array]:
    """Return the mixture weights of every step: W, zero on and above the diagonal, and p for a step of unit length."""
    scheme, schedule = TABLEAUS[tableau], SceneChoice(tableau, c, delta).schedule
    q = scheme.stages
    W, p = np.zeros((iterations, q, q)), np.zeros((iterations, q))
    for k in range(iterations):
        gammas = schedule.stage_gammas(k, scheme.omega.tolist())
        rows, last = scheme.mixture(gammas)
        for i, row in enumerate(rows):
            W[k, i, :i] = row
        p[k] = np.array(last) / gammas[0]
    return W, p


def record(scene: Scene, f: fw.Quadratic, choice: SceneChoice, iterations: int) -> Run:
    """Run `minimize` and record stage points and vertices."""
    C, points = _Recorded(scene.C), []
    options = {"tol": 0.0, "max_iter": iterations, **choice.options}
    result = fw.minimize(f, C, scene.x0, callback=lambda state: points.append(state.x), **options)
    x = np.stack(points)
    # The first vertex at an iterate gives the gap. It is also that of the first stage, except with momentum.
    apart = choice.variant == "momentum"
    calls = TABLEAUS[choice.tableau].stages + apart
    s = np.stack(C.vertices[: iterations * calls]).reshape(iterations, calls, 2)[:, apart:]
    W, _ = weights(choice.tableau, choice.c, choice.delta, iterations)
    start = x[:-1, None]
    return Run(x, result.trace["gap"], start + dot(W, s - start), s, result.trace["step"][1:])


@dataclass(frozen=True, eq=False)
class Flow:
    """Flow as a curve, and as a function of tau, the integral of gamma."""

    curve: Array
    at: Callable[[Array], Array]

    def seen_by(self, choice: SceneChoice, iterations: int) -> Array:
        """Return the flow at the times of the iterates."""
        t = choice.delta * np.arange(1, iterations + 2)
        return self.at(choice.c * np.log((choice.c + t) / (choice.c + t[0])))


def follow(scene: Scene, f: fw.Quadratic, tau_end: float) -> Flow:
    """Return the flow: exact on polygons, in small steps on the disc."""
    if scene.corners is not None:
        exact = fw.exact_flow(f, scene.C, scene.x0)
        turns = exact.at(np.array([event.tau for event in exact.events]))  # straight between events
        return Flow(np.vstack([turns, exact.result.x]), exact.at)
    c = DISC_FLOW["c"]
    path = fw.flow(f, scene.C, scene.x0, t_end=c * np.expm1(tau_end / c), **DISC_FLOW)
    tau = c * np.log1p(path.t / c)
    return Flow(
        path.x[np.searchsorted(tau, np.linspace(0, tau[-1], 200))],
        lambda at: np.column_stack([np.interp(at, tau, path.x[:, i]) for i in (0, 1)]),
    )
