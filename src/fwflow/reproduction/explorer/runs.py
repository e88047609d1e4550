"""What happens in a run? Iterates, stage points and the oracle's answers of `minimize`, and the flow itself."""

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

#: On the disc, where the flow has no events to go by, it is followed with such steps.
DISC_FLOW: dict[str, Any] = {"c": 8.0, "delta": 0.01, "method": RK44}


class _Recorded(fw.ConstraintSet):
    """A set that remembers what its oracle answered."""

    def __init__(self, C: fw.ConstraintSet) -> None:
        self.C = C
        self.answers: list[Array] = []

    def lmo(self, g: Array, hint: Vertex | None = None) -> Vertex:
        vertex = self.C.lmo(g, hint)
        self.answers.append(np.asarray(vertex))
        return vertex

    def start(self, shape: Shape | None = None, dtype: Any = np.float64) -> Any:
        return self.C.start(shape, dtype)

    def contains(self, x: Any, tol: float = 1e-9) -> bool | None:
        return None  # convex hulls answer by a linear program, and nobody asks

    def diameter(self, shape: Shape | None = None) -> float | None:
        return self.C.diameter(shape)


@dataclass(frozen=True, eq=False)
class Run:
    """Row k of `x` and `gap` is iterate k; row k of the others is the step from there."""

    x: Array
    gap: Array
    stages: Array
    targets: Array
    step: Array


def objective(m: Array, shape: str) -> fw.Quadratic:
    """:math:`f(x) = (x-m)^T H (x-m) / 2`, less its value at 0."""
    H = SHAPES[shape]
    return fw.Quadratic(H, dot(H, m))


@cache
def weights(tableau: str, c: float, delta: float, iterations: int) -> tuple[Array, Array]:
    """The mixtures of every step: W, zero on and above the diagonal, and p for a step of unit length."""
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
    """A run of `minimize`, and where its stages were."""
    C, points = _Recorded(scene.C), []
    result = fw.minimize(
        f,
        C,
        scene.x0,
        tol=0.0,
        max_iter=iterations,
        callback=lambda state: points.append(state.x),
        **choice.options,
    )
    x = np.stack(points)
    # The oracle's first answer at an iterate gives the gap and serves the first stage, unless momentum aims elsewhere.
    apart = choice.variant == "momentum"
    calls = TABLEAUS[choice.tableau].stages + apart
    s = np.stack(C.answers[: iterations * calls]).reshape(iterations, calls, 2)[:, apart:]
    W, _ = weights(choice.tableau, choice.c, choice.delta, iterations)
    start = x[:-1, None]
    return Run(x, result.trace["gap"], start + dot(W, s - start), s, result.trace["step"][1:])


@dataclass(frozen=True, eq=False)
class Flow:
    """The flow as a curve, and as a function of tau, the integral of gamma."""

    curve: Array
    at: Callable[[Array], Array]

    def seen_by(self, choice: SceneChoice, iterations: int) -> Array:
        """Where the flow is when the iterates are at their times."""
        t = choice.delta * np.arange(1, iterations + 2)
        return self.at(choice.c * np.log((choice.c + t) / (choice.c + t[0])))


def follow(scene: Scene, f: fw.Quadratic, tau_end: float) -> Flow:
    """The flow from event to event on polygons; on the disc, in small steps."""
    if scene.corners is not None:
        exact = fw.exact_flow(f, scene.C, scene.x0)
        turns = exact.at(np.array([event.tau for event in exact.events]))  # straight in between
        return Flow(np.vstack([turns, exact.result.x]), exact.at)
    c = DISC_FLOW["c"]
    path = fw.flow(f, scene.C, scene.x0, t_end=c * np.expm1(tau_end / c), **DISC_FLOW)
    tau = c * np.log1p(path.t / c)
    return Flow(
        path.x[np.searchsorted(tau, np.linspace(0, tau[-1], 200))],
        lambda at: np.column_stack([np.interp(at, tau, path.x[:, i]) for i in (0, 1)]),
    )
