"""Choices on the page (sets and quadratics in the plane, discretisations of the flow), their runs, and the flow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial import ConvexHull

import fwflow as fw
from fwflow._numerics import dot
from fwflow._validation import Array, InputError, suggest, whole
from fwflow.reproduction.framework import FW, MIDPOINT, RK5, RK38, RK44
from fwflow.tableau.catalogue import find_tableau

#: Positions of the unconstrained minimiser m of f.
PLACES = {"inside": "inside", "edge": "on an edge", "vertex": "at a vertex", "outside": "outside"}

#: Parameters of `flow` on the disc, where the exact flow needs a polytope. Chosen without tuning.
DISC_FLOW: dict[str, Any] = {"c": 8.0, "delta": 0.01, "method": RK44}


@dataclass(frozen=True, eq=False)
class Scene:
    """Set in the plane, a start, and the minimisers m of f by position."""

    key: str
    label: str
    C: fw.ConstraintSet
    corners: Array | None  # in order; the unit disc has none
    x0: Array
    places: Mapping[str, Array]


def _scene(key: str, label: str, C: fw.ConstraintSet, corners: Any, x0: Any, **places: Any) -> Scene:
    corners = None if corners is None else np.array(corners, dtype=float)
    return Scene(key, label, C, corners, np.array(x0), {name: np.array(m) for name, m in places.items()})


def directions(angle: Any) -> Array:
    """Return points of the unit circle, one per row."""
    return np.column_stack([np.cos(angle), np.sin(angle)])


def _polygon(seed: int = 29) -> Scene:
    """Return the convex hull of random points of the disc, with a corner as the start."""
    rng = np.random.default_rng(seed)
    points = np.sqrt(rng.uniform(0.3, 1.0, (14, 1))) * directions(rng.uniform(-np.pi, np.pi, 14))
    corners = points[ConvexHull(points).vertices].round(3)
    edge = 0.55 * corners[3] + 0.45 * corners[4]
    return _scene(
        "polygon", "random polygon", fw.ConvexHull(corners), corners, corners[0],
        inside=0.7 * corners.mean(axis=0) + 0.3 * edge, edge=edge, vertex=corners[4], outside=1.5 * edge,
    )  # fmt: skip


def _scenes() -> tuple[Scene, ...]:
    triangle, (start, across) = [[-1, 0], [0, 1], [1, 0]], directions(np.deg2rad([140.0, -35.0]))
    return (
        _scene(
            "triangle", "triangle", fw.ConvexHull(triangle), triangle, (0.0, 1.0),
            inside=(0.2, 0.3), edge=(0.0, 0.0), vertex=(1.0, 0.0), outside=(0.6, -0.3),
        ),
        _scene(
            "square", "square", fw.LInfBall(1.0), [[-1, -1], [1, -1], [1, 1], [-1, 1]], (-1.0, 1.0),
            inside=(0.3, -0.2), edge=(0.35, -1.0), vertex=(1.0, -1.0), outside=(0.8, -1.35),
        ),
        _scene(
            "l1", "L1 ball", fw.L1Ball(1.0), [[1, 0], [0, 1], [-1, 0], [0, -1]], (-1.0, 0.0),
            inside=(0.3, 0.2), edge=(0.6, 0.4), vertex=(1.0, 0.0), outside=(0.9, 0.7),
        ),
        _scene(
            "disc", "disc", fw.L2Ball(1.0), None, start,
            inside=(0.3, 0.1), edge=across, outside=1.5 * across,
        ),
        _polygon(),
    )  # fmt: skip


_TURN = np.array([[np.cos(-0.2), -np.sin(-0.2)], [np.sin(-0.2), np.cos(-0.2)]])
#: Hessians by name. The condition number and the angle of the second one are chosen without tuning.
SHAPES: dict[str, Array] = {"round": np.eye(2), "stretched": dot(dot(_TURN, np.diag([1.0, 25.0])), _TURN.T)}

#: Arguments of `minimize` by variant: the rows of the triangle figure of the paper, and exact line search.
VARIANTS: dict[str, dict[str, str]] = {
    "plain": {},
    "search": {"line_search": "aggressive"},
    "exact": {"line_search": "exact"},
    "momentum": {"momentum": "nesterov"},
}

TABLEAUS = {name: find_tableau(name) for name in (FW, MIDPOINT, "heun", RK44, RK38, RK5)}


@dataclass(frozen=True)
class _Schedule(fw.OpenLoop):
    """Schedule of the paper for tableaus with or without certificate; the page marks negative weights itself."""

    def certifies(self, tableau: fw.Tableau) -> bool:
        """Return True without computing the certificate, which takes longer than the run."""
        return True


@dataclass(frozen=True)
class SceneChoice:
    """Discretisation of the flow."""

    tableau: str
    c: float = 2.0
    delta: float = 1.0
    variant: str = "plain"

    @property
    def time(self) -> str:
        """Name of the schedule."""
        return f"{self.c:g},{self.delta:g}"

    @property
    def key(self) -> str:
        """Name of the choice, also in the address of the page."""
        return f"{self.tableau},{self.time},{self.variant}"

    @property
    def schedule(self) -> fw.OpenLoop:
        """Schedule with steps counted from 1, as in the triangle experiment of the paper and its table of weights."""
        return _Schedule(c=self.c, delta=self.delta, k0=1)

    def tau(self, iterations: int) -> Array:
        """Return the integral of gamma from the start to each iterate."""
        t = self.delta * np.arange(1, iterations + 2)
        return self.c * np.log((self.c + t) / (self.c + t[0]))


@dataclass(frozen=True, eq=False)
class Grid:
    """All choices of a page. As in the paper, line search and momentum have time step 1."""

    scenes: tuple[Scene, ...] = field(default_factory=_scenes)
    shapes: tuple[str, ...] = tuple(SHAPES)
    tableaus: tuple[str, ...] = tuple(TABLEAUS)
    c: tuple[float, ...] = (1.0, 2.0, 4.0)
    delta: tuple[float, ...] = (1.0, 0.3, 0.1)
    iterations: int = 40

    def __post_init__(self) -> None:
        for name, given, known in (("tableaus", self.tableaus, TABLEAUS), ("shapes", self.shapes, SHAPES)):
            for one in given:
                if one not in known:
                    raise InputError(f"{name}: {one!r} is not known; {suggest(one, known)}")
        if 1.0 not in self.delta:
            raise InputError(f"delta must contain 1, the time step of line searches and momentum; got {self.delta}")
        whole(self.iterations, "iterations", 1)

    @cached_property
    def choices(self) -> tuple[SceneChoice, ...]:
        """All discretisations, each once."""
        steps = [(delta, "plain") for delta in self.delta] + [(1.0, variant) for variant in [*VARIANTS][1:]]
        return tuple(SceneChoice(name, c, *step) for name, c, step in product(self.tableaus, self.c, steps))

    @property
    def problems(self) -> list[tuple[Scene, str, str]]:
        """Scene, position and shape of every problem."""
        return [(scene, place, shape) for scene in self.scenes for place in scene.places for shape in self.shapes]


class Run(NamedTuple):
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
    points, vertices = [], []

    def oracle(g: Array) -> Array:
        vertices.append(np.asarray(scene.C.lmo(g)))
        return vertices[-1]

    options: dict[str, Any] = {"tol": 0.0, "max_iter": iterations, "callback": lambda state: points.append(state.x)}
    options |= {"method": TABLEAUS[choice.tableau], "schedule": choice.schedule, **VARIANTS[choice.variant]}
    result = fw.minimize(f, oracle, scene.x0, **options)
    x = np.stack(points)
    # The first vertex at an iterate gives the gap. It is also that of the first stage, except with momentum.
    apart = choice.variant == "momentum"
    calls = TABLEAUS[choice.tableau].stages + apart
    s = np.stack(vertices[: iterations * calls]).reshape(iterations, calls, 2)[:, apart:]
    W, _ = weights(choice.tableau, choice.c, choice.delta, iterations)
    start = x[:-1, None]
    return Run(x, result.trace["gap"], start + dot(W, s - start), s, result.trace["step"][1:])


def follow(scene: Scene, f: fw.Quadratic, tau_end: float) -> tuple[Array, Callable[[Array], Array]]:
    """Return the flow as a curve and as a function of tau: exact on polygons, in small steps on the disc."""
    if scene.corners is not None:
        exact = fw.exact_flow(f, scene.C, scene.x0)
        turns = exact.at(np.array([event.tau for event in exact.events]))  # straight between events
        return np.vstack([turns, exact.result.x]), exact.at
    c = DISC_FLOW["c"]
    path = fw.flow(f, scene.C, scene.x0, t_end=c * np.expm1(tau_end / c), **DISC_FLOW)
    tau = c * np.log1p(path.t / c)
    curve = path.x[np.searchsorted(tau, np.linspace(0, tau[-1], 200))]
    return curve, lambda at: np.column_stack([np.interp(at, tau, path.x[:, i]) for i in (0, 1)])
