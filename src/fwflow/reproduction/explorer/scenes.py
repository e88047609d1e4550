"""Problems of the page: sets and quadratics in the plane, their solutions, and the events of the flow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.spatial import ConvexHull

import fwflow as fw
from fwflow._numerics import dot, length
from fwflow._validation import Array


@dataclass(frozen=True, eq=False)
class Scene:
    """Set in the plane, a start, and the minimisers m of f by position.

    The positions "inside", "edge" and "vertex" are in the set, so m is the solution and the gradient there is zero. The
    solution for "outside" is inside an edge or on a smooth boundary, and that for "corner" is a vertex. The gradient at
    these two solutions is not zero.
    """

    key: str
    label: str
    C: fw.ConstraintSet
    x0: Array
    places: Mapping[str, Array]
    corners: Array | None = None  # in order; a smooth set has none
    axes: Array | None = None  # half-axes of a smooth set, whose centre is 0
    rotation: Array | None = None  # directions of the half-axes, one per column


def rotation(angle: float) -> Array:
    """Return the rotation by an angle in degrees."""
    cos, sin = np.cos(np.deg2rad(angle)), np.sin(np.deg2rad(angle))
    return np.array([[cos, -sin], [sin, cos]])


_TURN = rotation(-11.5)
#: Hessians by name. The condition number and the angle of the second one are chosen without tuning.
SHAPES: dict[str, Array] = {"round": np.eye(2), "stretched": dot(dot(_TURN, np.diag([1.0, 25.0])), _TURN.T)}
_EASY = _TURN[:, 0]  # direction in which both functions increase slowly


def _polygon(key: str, label: str, corners: Any, x0: Any, **places: Any) -> Scene:
    corners = np.array(corners, dtype=float)
    points = {name: np.array(m, dtype=float) for name, m in places.items()}
    # Along an eigenvector of both Hessians the gradient has the direction of x - m, so both have the same solution.
    points["corner"] = corners[dot(corners, _EASY).argmax()] + 0.4 * _EASY
    return Scene(key, label, fw.ConvexHull(corners), np.array(x0, dtype=float), points, corners=corners)


def _smooth(key: str, label: str, axes: Any, angle: float, start: float, end: float) -> Scene:
    """Return an ellipse with the start and the minimiser "edge" at the points of the boundary with these angles."""
    axes, Q = np.array(axes), rotation(angle)
    x0, m = (dot(Q, axes * np.array([np.cos(a), np.sin(a)])) for a in np.deg2rad([start, end]))
    round_set = bool((axes == 1).all())
    C: fw.ConstraintSet = fw.L2Ball(1.0) if round_set else fw.Ellipsoid([0.0, 0.0], axes, Q)
    places = {"inside": np.array([0.3, 0.1]), "edge": m, "outside": 1.5 * m}
    return Scene(key, label, C, x0, places, axes=axes, rotation=Q)


def _random_polygon(seed: int = 29) -> Scene:
    """Return the convex hull of random points of the disc, with a corner as the start."""
    rng = np.random.default_rng(seed)
    radii, angles = np.sqrt(rng.uniform(0.3, 1.0, (14, 1))), rng.uniform(-np.pi, np.pi, 14)
    points = radii * np.column_stack([np.cos(angles), np.sin(angles)])
    corners = points[ConvexHull(points).vertices].round(3)
    edge = 0.55 * corners[3] + 0.45 * corners[4]
    return _polygon(
        "polygon", "random polygon", corners, corners[0],
        inside=0.7 * corners.mean(axis=0) + 0.3 * edge, edge=edge, outside=1.5 * edge,
        vertex=corners[4],
    )  # fmt: skip


@cache
def scenes() -> Mapping[str, Scene]:
    """Return the scenes by key."""
    found = (
        _polygon(
            "triangle", "triangle (simplex)", [[-1, 0], [0, 1], [1, 0]], (0.0, 1.0),
            inside=(0.2, 0.3), edge=(0.0, 0.0), outside=(0.6, -0.3), vertex=(1.0, 0.0),
        ),
        _polygon(
            "square", "square", [[-1, -1], [1, -1], [1, 1], [-1, 1]], (-1.0, 1.0),
            inside=(0.3, -0.2), edge=(0.35, -1.0), outside=(0.5, -1.35), vertex=(1.0, -1.0),
        ),
        _polygon(
            "l1", "L1 ball", [[1, 0], [0, 1], [-1, 0], [0, -1]], (-1.0, 0.0),
            inside=(0.31, 0.17), edge=(0.6, 0.4), outside=(0.9, 0.7), vertex=(1.0, 0.0),
        ),
        _smooth("disc", "ball", (1.0, 1.0), 0.0, 140.0, -35.0),
        _smooth("ellipse", "ellipse", (1.2, 0.6), 25.0, 150.0, -50.0),
        _random_polygon(),
    )  # fmt: skip
    return {scene.key: scene for scene in found}


def problems() -> list[tuple[Scene, str, str]]:
    """Return scene, position and shape of every problem."""
    return [(scene, place, shape) for scene in scenes().values() for place in scene.places for shape in SHAPES]


def objective(m: Array, shape: str) -> fw.Quadratic:
    """Return :math:`f(x) = (x-m)^T H (x-m) / 2` minus its value at 0."""
    H = SHAPES[shape]
    return fw.Quadratic(H, dot(H, m))


def solve(scene: Scene, place: str, shape: str) -> tuple[Array, list[list[float]] | None]:
    """Return the solution, and the events of the flow as rows of tau and target; None on smooth sets."""
    m = scene.places[place]
    if scene.corners is None:
        return (m if place in ("inside", "edge") else _boundary_solution(scene, m, SHAPES[shape])), None
    flow = fw.exact_flow(objective(m, shape), scene.C, scene.x0)
    events = [[event.tau, *np.ravel(event.target).tolist()] for event in flow.events]
    return (m if place in ("inside", "edge", "vertex") else flow.result.x), events


def _boundary_solution(scene: Scene, m: Array, H: Array) -> Array:
    r"""Return the minimiser over an ellipse, for m outside of it.

    With x = T u, the solution is :math:`u = (G + \lambda I)^{-1} T^T H m`, :math:`G = T^T H T`, for the positive
    :math:`\lambda` at which u has the length 1.
    """
    assert scene.rotation is not None
    T = scene.rotation * scene.axes
    values, V = np.linalg.eigh(dot(dot(T.T, H), T))
    pull = dot(V.T, dot(T.T, dot(H, m)))
    multiplier = brentq(lambda x: length(pull / (values + x)) - 1, 0.0, length(pull), xtol=1e-15, rtol=1e-15)
    u = pull / (values + multiplier)
    return dot(T, dot(V, u / length(u)))
