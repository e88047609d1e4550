"""Pictures of the sets: a small instance of every set, a gradient, and the answer of the oracle.

The shape of a set comes from its oracle alone: it is the hull of the answers to many directions, seen along two or
three orthonormal axes. The build of the site draws every picture whose sources have changed.
"""

from __future__ import annotations

import ast
import doctest
import inspect
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from mpl_toolkits.mplot3d.art3d import Line3DCollection, Poly3DCollection
from scipy.spatial import ConvexHull

import fwflow as fw

View = tuple[fw.ConstraintSet, tuple[int, ...], np.ndarray]
BLUE, ORANGE, INK = "#0072B2", "#D55E00", "0.25"
ROOT = math.sqrt(0.5)
#: From where sets in space are seen, and what is right and up from there.
ELEVATION, AZIMUTH = 22, 28
_E, _A = math.radians(ELEVATION), math.radians(AZIMUTH)
RIGHT = np.array([-math.sin(_A), math.cos(_A), 0.0])
UP = np.array([-math.sin(_E) * math.cos(_A), -math.sin(_E) * math.sin(_A), math.cos(_E)])

#: Symmetric 2 x 2 matrices: the plane of those with the same trace, and the trace as height.
SAME_TRACE = np.array([[ROOT, 0, 0, -ROOT], [0, ROOT, ROOT, 0]])
SYMMETRIC = np.vstack([SAME_TRACE, [ROOT, 0, 0, ROOT]])


def zero_sum(n: int) -> np.ndarray:
    """Axes of the vectors of n entries that sum to zero."""
    return np.linalg.qr(np.column_stack([np.ones(n), np.eye(n)[:, : n - 1]]))[0][:, 1:].T


#: name -> the set, the shape of its members, and the axes along which it is seen. `default_view` is for the others.
PICTURES: dict[str, tuple[Callable[[], fw.ConstraintSet], tuple[int, ...], np.ndarray]] = {
    "L1Ball": (lambda: fw.L1Ball(), (2,), np.eye(2)),
    "L2Ball": (lambda: fw.L2Ball(), (2,), np.eye(2)),
    "LInfBall": (lambda: fw.LInfBall(), (2,), np.eye(2)),
    "LpBall": (lambda: fw.LpBall(3.0), (2,), np.eye(2)),
    "KSparseBall": (lambda: fw.KSparseBall(2), (3,), np.eye(3)),
    "KNormBall": (lambda: fw.KNormBall(2), (3,), np.eye(3)),
    "OWLBall": (lambda: fw.OWLBall([1.0, 0.4]), (2,), np.eye(2)),
    "GroupBall": (lambda: fw.GroupBall([[0, 1], [2]]), (3,), np.eye(3)),
    "Ellipsoid": (lambda: fw.Ellipsoid([0.0, 0.0], [1.0, 0.5], _turned(0.5)), (2,), np.eye(2)),
    "Box": (lambda: fw.Box([-1.0, -0.5], [1.0, 0.5]), (2,), np.eye(2)),
    "Simplex": (lambda: fw.Simplex(), (3,), np.eye(3)),
    "UnitSimplex": (lambda: fw.UnitSimplex(), (2,), np.eye(2)),
    "HyperSimplex": (lambda: fw.HyperSimplex(2), (4,), zero_sum(4)),
    "UnitHyperSimplex": (lambda: fw.UnitHyperSimplex(2), (3,), np.eye(3)),
    "Permutahedron": (lambda: fw.Permutahedron([0, 1, 2, 3]), (4,), zero_sum(4)),
    "ConvexHull": (lambda: fw.ConvexHull([[-1, 0], [0, 1], [1, 0.6], [0.9, -0.6], [-0.3, -0.9]]), (2,), np.eye(2)),
    "Polytope": (lambda: fw.Polytope([[1, 1], [-1, 2]], [1, 1], lower=-1, upper=0.8), (2,), np.eye(2)),
    "NuclearBall": (lambda: fw.NuclearBall(), (2, 2), SYMMETRIC),
    "Birkhoff": (lambda: fw.Birkhoff(3), (3, 3), np.eye(2, 9)),
    "Product": (lambda: fw.Product([(fw.L2Ball(), 2), (fw.Box(-1.0, 1.0), 1)]), (3,), np.eye(3)),
    "MinkowskiSum": (lambda: fw.MinkowskiSum(fw.L1Ball(0.7), fw.L2Ball(0.3)), (2,), np.eye(2)),
    "ScaledSet": (lambda: -1.0 * fw.UnitSimplex(), (2,), np.eye(2)),
    "Translated": (lambda: 0.6 * fw.L1Ball() + np.array([0.4, 0.4]), (2,), np.eye(2)),
    "Spectraplex": (lambda: fw.Spectraplex(), (2, 2), SAME_TRACE),
    "Spectrahedron": (lambda: fw.Spectrahedron(), (2, 2), SYMMETRIC),
    "Fantope": (lambda: fw.Fantope(1), (2, 2), SAME_TRACE),
    "SchattenBall": (lambda: fw.SchattenBall(4.0), (2, 2), SYMMETRIC),
    "TransportPolytope": (lambda: fw.TransportPolytope([0.5, 0.5], [0.4, 0.3, 0.3]), (2, 3), np.eye(2, 6)),
    "ShortestPath": (lambda: fw.ShortestPath([0, 0, 1, 1], [1, 1, 2, 2], 0, 2), (4,), np.eye(4)[[0, 2]]),
    "SpanningTree": (lambda: fw.SpanningTree([0, 1, 2], [1, 2, 0]), (3,), np.eye(3)),
    "Matching": (lambda: fw.Matching([0, 1, 2], [1, 2, 3]), (3,), np.eye(3)),
    "MixedInteger": (lambda: fw.MixedInteger([[2, 3], [3, 1]], [12.5, 9.5], lower=0, upper=4), (2,), np.eye(2)),
    "LinearImage": (lambda: fw.LinearImage([[1, 0.5, -0.3], [0, 0.6, 0.8]], fw.LInfBall(0.6)), (2,), np.eye(2)),
    "Symmetric": (lambda: fw.Symmetric(fw.L1Ball(), [[1, 0, 2]]), (3,), np.array([[ROOT, ROOT, 0], [0, 0, 1]])),
}


def _turned(angle: float) -> np.ndarray:
    c, s = math.cos(angle), math.sin(angle)
    return np.array([[c, -s], [s, c]])


def directions(dimension: int, count: int = 1500) -> np.ndarray:
    """Unit vectors all around, none of them along an axis of symmetry."""
    if dimension == 2:
        angles = 0.003 + np.arange(720) * (2 * np.pi / 720)
        return np.column_stack([np.cos(angles), np.sin(angles)])
    i = np.arange(count) + 0.5
    height, angle = 1 - 2 * i / count, np.pi * (1 + 5**0.5) * i
    width = np.sqrt(1 - height**2)
    return np.column_stack([width * np.cos(angle), width * np.sin(angle), height])


def answers(C: fw.ConstraintSet, shape: tuple[int, ...], axes: np.ndarray, asked: np.ndarray) -> np.ndarray:
    """What the oracle answers, along the axes."""
    found = [axes @ np.asarray(C.lmo((axes.T @ g).reshape(shape))).reshape(-1) for g in asked]
    return np.array(found)


def flat(figure: Figure, points: np.ndarray, s: np.ndarray, g: np.ndarray) -> None:
    """A set in the plane, with the line on which all points are as good as the answer."""
    ax = figure.add_axes((0, 0, 1, 1))
    centre, reach = (points.min(axis=0) + points.max(axis=0)) / 2, float(np.ptp(points, axis=0).max())
    order = np.argsort(np.arctan2(*(points - points.mean(axis=0)).T[::-1]))
    ax.fill(*points[order].T, facecolor=BLUE, alpha=0.18)
    ax.plot(*points[np.append(order, order[0])].T, color=BLUE, lw=1.6)
    along = np.array([-g[1], g[0]])
    ax.plot(*(s + 0.45 * reach * np.outer([-1, 1], along)).T, color=INK, lw=0.8, ls=(0, (4, 2)))
    ax.annotate("", centre - 0.3 * reach * g, centre, arrowprops={"arrowstyle": "-|>", "color": INK, "lw": 1.0})
    ax.text(*(centre - 0.14 * reach * g + 0.1 * reach * along), "−g", color=INK, ha="center", va="center", fontsize=8)
    ax.plot(*s, "o", color=ORANGE, ms=6)
    ax.set(xlim=centre[0] + 0.68 * reach * np.array([-1, 1]), ylim=centre[1] + 0.68 * reach * np.array([-1, 1]))
    ax.set_aspect("equal")
    ax.axis("off")


def solid(figure: Figure, points: np.ndarray, s: np.ndarray, g: np.ndarray, polytope: bool) -> None:
    """A set in space; edges are where faces meet at an angle."""
    ax: Any = figure.add_axes((-0.2, -0.2, 1.4, 1.4), projection="3d", proj_type="ortho", computed_zorder=False)
    centre = (points.min(axis=0) + points.max(axis=0)) / 2
    reach = 2 * float(np.linalg.norm(points - centre, axis=1).max())
    if np.linalg.matrix_rank(points - points[0], tol=1e-9) < 3:  # a triangle
        faces, edges = [points], [*zip(points, np.roll(points, 1, axis=0), strict=True)]
    else:
        hull = ConvexHull(points)
        faces, edges, smooth = [*points[hull.simplices]], [], 1 - 1e-9 if polytope else 0.9
        for i, around in enumerate(hull.neighbors):
            for j in around[around > i]:
                if hull.equations[i, :3] @ hull.equations[j, :3] < smooth:
                    edges.append(points[np.intersect1d(hull.simplices[i], hull.simplices[j])])
    ax.add_collection3d(Poly3DCollection(faces, facecolor=BLUE, alpha=0.18 if polytope else 0.07, linewidth=0))
    if not polytope:
        outline = points[ConvexHull(points @ np.array([RIGHT, UP]).T).vertices]
        ax.plot(*outline[[*range(len(outline)), 0]].T, color=BLUE, lw=1.2)
    if edges:
        ax.add_collection3d(Line3DCollection(edges, colors=BLUE, linewidths=1.2))
    ax.quiver(*centre, *(-0.32 * reach * g), color=INK, lw=1.0, arrow_length_ratio=0.2)
    ax.text(*(centre - 0.25 * reach * g - 0.14 * reach * UP), "−g", color=INK, ha="center", va="center", fontsize=8)
    ax.plot(*s[:, None], "o", color=ORANGE, ms=6, zorder=5)
    for limits, middle in zip((ax.set_xlim, ax.set_ylim, ax.set_zlim), centre, strict=True):
        limits(middle - 0.45 * reach, middle + 0.45 * reach)
    ax.set_box_aspect((1, 1, 1))
    ax.view_init(ELEVATION, AZIMUTH)
    ax.axis("off")


def example(kind: type[fw.ConstraintSet]) -> fw.ConstraintSet:
    """The first instance that the examples of the docstring make."""
    names: dict[str, Any] = {}
    for part in doctest.DocTestParser().get_examples(inspect.getdoc(kind) or ""):
        for node in ast.walk(ast.parse(part.source)):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == f"fw.{kind.__name__}":
                return eval(ast.unparse(node), names)
        exec(part.source, names)
    raise ValueError(f"{kind.__name__} needs an example in its docstring that calls fw.{kind.__name__}(...)")


def default_view(kind: type[fw.ConstraintSet]) -> View:
    """The example of the docstring: in its coordinates up to dimension three, else along its principal axes."""
    C = example(kind)
    shape = _smallest_shape(C)
    n = math.prod(shape)
    if n <= 3:
        return C, shape, np.eye(n)
    found = answers(C, shape, np.eye(n), np.random.default_rng(0).standard_normal((200, n)))
    _, widths, axes = np.linalg.svd(found - found.mean(axis=0), full_matrices=False)
    return C, shape, axes[: max(2, min(3, int((widths > 1e-9 * widths[0]).sum())))]


def _smallest_shape(C: fw.ConstraintSet) -> tuple[int, ...]:
    for shape in (None, (2,), (3,), (2, 2)):
        try:
            return np.shape(C.start(shape))
        except ValueError:  # the set needs a shape, or another one
            continue
    raise ValueError(f"{C!r} has no members of shape (2,), (3,) or (2, 2)")


def view(name: str) -> View:
    """The instance of a set that is drawn, the shape of its members, and the axes."""
    if name not in PICTURES:
        return default_view(getattr(fw, name))
    make, shape, axes = PICTURES[name]
    return make(), shape, axes


def draw(name: str, path: Path) -> None:
    """Draw one set."""
    C, shape, axes = view(name)
    dimension = len(axes)
    g = np.array([-0.5, -0.87] if dimension == 2 else [0.1, -0.75, -0.65])
    points = np.unique(answers(C, shape, axes, directions(dimension)).round(9), axis=0)
    (s,) = answers(C, shape, axes, g[None])
    figure = Figure(figsize=(1.5, 1.5), dpi=144)
    if dimension == 2:
        flat(figure, points, s, g)
    else:
        solid(figure, points, s, g, C.polytope)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, transparent=True)


def redraw(name: str, folder: Path) -> None:
    """Draw a set unless its picture is newer than the set and this file."""
    path = folder / f"{name}.png"
    sources = (Path(__file__), Path(inspect.getfile(getattr(fw, name))))
    if not path.exists() or path.stat().st_mtime < max(source.stat().st_mtime for source in sources):
        draw(name, path)
