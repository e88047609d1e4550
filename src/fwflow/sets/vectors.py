"""Norm balls, boxes and simplices of vectors. Arrays of any shape are treated as vectors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fwflow._validation import Array, float_array, float_dtype, number, positive
from fwflow.points import DenseVertex, OneHot, Shape, Vertex
from fwflow.sets.base import ConstraintSet, finite, needs_shape, size_of


def smallest(values: Array, count: int) -> list[int]:
    """Places of the smallest entries in ascending order; ties go to the first."""
    enough = count >= len(values)
    chosen = np.arange(len(values)) if enough else np.sort(np.argpartition(values, count)[:count])
    return chosen[np.argsort(values[chosen], kind="stable")].tolist()


def _threshold(x: Array, radius: float) -> Any:
    """The t with ``sum(max(x - t, 0)) = radius``, by Michelot's shrinking sets: a few passes, no sort."""
    active = x
    while True:
        t = (active.sum() - radius) / len(active)
        kept = active[active > t]
        if len(kept) == len(active):
            return x.dtype.type(t)
        active = kept


def first_below(start: Array, end: Array, noise: float) -> tuple[float, int] | None:
    """Which entry is first below zero on the way from `start` (not below) to `end`? Only those below `-noise` count."""
    below = np.flatnonzero(end < -noise)
    if not len(below):
        return None
    above = np.maximum(start[below], 0)
    theta = above / (above - end[below])
    first = int(theta.argmin())
    return float(theta[first]), int(below[first])


class _Ball(ConstraintSet):
    """A norm ball around the origin; it starts at its centre."""

    def __init__(self, radius: float = 1.0) -> None:
        self.radius = positive(radius, "radius")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.radius:g})"

    def norm(self, x: Array) -> float:
        """The norm whose ball this is."""
        raise NotImplementedError

    def start(self, shape: Shape | None = None, dtype: Any = np.float64) -> Array:
        return np.zeros(needs_shape(self, shape), dtype)

    def contains(self, x: Any, tol: float = 1e-9) -> bool:
        x = finite(x)
        return x is not None and bool(self.norm(x.reshape(-1)) <= self.radius * (1 + tol))


class L1Ball(_Ball):
    r""":math:`\{x : \|x\|_1 \le r\}`. A vertex has one non-zero entry; ties go to the first index.

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> np.asarray(fw.L1Ball(2.0).lmo(np.array([1.0, -3.0, 2.0])))
    array([0., 2., 0.])
    """

    projectable = True
    screenable = True

    def norm(self, x: Array) -> float:
        return float(np.abs(x).sum())

    def lmo(self, g: Array, hint: Vertex | None = None) -> OneHot:
        flat = g.reshape(-1)
        i = int(abs(flat).argmax())
        return OneHot(i, -self.radius if flat[i] > 0 else self.radius, g.shape)

    def project(self, x: Array) -> Array:
        size = np.abs(x)
        if size.sum() <= self.radius:
            return x
        return np.sign(x) * np.maximum(size - _threshold(size.reshape(-1), self.radius), 0)

    def best_vertices(self, g: Array, count: int, best: Vertex) -> list[Vertex]:
        flat = g.reshape(-1)
        chosen = smallest(-np.abs(flat), count)
        return [OneHot(i, -self.radius if flat[i] > 0 else self.radius, g.shape) for i in chosen]

    polytope = True

    def crossing(
        self, start: Array, end: Array, levels: tuple[float, float], skip: Sequence[Vertex], noise: float
    ) -> tuple[float, Vertex] | None:
        both = [np.concatenate([self.radius * g.reshape(-1), -self.radius * g.reshape(-1)]) for g in (start, end)]
        for v in skip:
            assert isinstance(v, OneHot)  # what the oracle returns
            both[1][v.index + (start.size if v.value < 0 else 0)] = np.inf
        found = first_below(both[0] - levels[0], both[1] - levels[1], noise)
        if found is None:
            return None
        side, i = divmod(found[1], start.size)
        return found[0], OneHot(i, -self.radius if side else self.radius, start.shape)

    def decomposed(self, x: Array) -> list[tuple[float, Vertex]]:
        flat = x.reshape(-1)
        used = np.flatnonzero(flat).tolist()
        return [
            (abs(float(flat[i])) / self.radius, OneHot(i, self.radius if flat[i] > 0 else -self.radius, x.shape))
            for i in used
        ]

    def diameter(self, shape: Shape | None = None) -> float:
        return 2 * self.radius


class LInfBall(_Ball):
    r""":math:`\{x : \|x\|_\infty \le r\}`. Entries with zero gradient go to +r."""

    def norm(self, x: Array) -> float:
        return float(np.abs(x).max())

    def lmo(self, g: Array, hint: Vertex | None = None) -> DenseVertex:
        return DenseVertex(np.where(g > 0, -self.radius, self.radius).astype(float_dtype(g.dtype), copy=False))

    projectable = True

    polytope = has_bounds = True

    def bounds(self, shape: Shape) -> tuple[Array, Array]:
        return np.full(shape, -self.radius), np.full(shape, self.radius)

    def project(self, x: Array) -> Array:
        return np.clip(x, -self.radius, self.radius)

    def diameter(self, shape: Shape | None = None) -> float:
        return 2 * self.radius * math.sqrt(size_of(needs_shape(self, shape)))


class LpBall(_Ball):
    r""":math:`\{x : \|x\|_p \le r\}` for :math:`1 < p < \infty`.

    With :math:`1/p + 1/q = 1` the vertex is :math:`-r\,\mathrm{sign}(g)|g|^{q-1} / \|g\|_q^{q-1}`.
    A zero gradient gives r times the first unit vector.
    """

    def __init__(self, p: float, radius: float = 1.0) -> None:
        super().__init__(radius)
        self.p = number(
            p, "p", "lie strictly between 1 and infinity (else L1Ball, LInfBall)", lambda x: 1 < x < math.inf
        )

    def __repr__(self) -> str:
        return f"LpBall({self.p:g}, {self.radius:g})"

    def norm(self, x: Array) -> float:
        largest = float(np.abs(x).max())
        return largest * float(((np.abs(x) / largest) ** self.p).sum()) ** (1 / self.p) if largest else 0.0

    def lmo(self, g: Array, hint: Vertex | None = None) -> Vertex:
        g = g.astype(float_dtype(g.dtype), copy=False)
        largest = float(np.abs(g).max())
        if largest == 0:
            return OneHot(0, self.radius, g.shape)
        q = self.p / (self.p - 1)
        scaled = np.abs(g) / g.dtype.type(largest)  # powers of entries in [0, 1] neither overflow nor all vanish
        norm = float((scaled**q).sum()) ** (1 / q)
        return DenseVertex(-self.radius * np.sign(g) * (scaled / g.dtype.type(norm)) ** (q - 1))

    def diameter(self, shape: Shape | None = None) -> float:
        if self.p <= 2:
            return 2 * self.radius
        return 2 * self.radius * size_of(needs_shape(self, shape)) ** (0.5 - 1 / self.p)


class L2Ball(LpBall):
    r""":math:`\{x : \|x\|_2 \le r\}`. A zero gradient gives r times the first unit vector."""

    def __init__(self, radius: float = 1.0) -> None:
        super().__init__(2.0, radius)

    projectable = True

    def project(self, x: Array) -> Array:
        length = self.norm(x)
        return x if length <= self.radius else x * x.dtype.type(self.radius / length)

    def __repr__(self) -> str:
        return f"L2Ball({self.radius:g})"


class Simplex(ConstraintSet):
    r""":math:`\{x \ge 0 : \sum_i x_i = r\}`. It starts at its barycentre; ties go to the first index."""

    projectable = True
    screenable = True

    def __init__(self, radius: float = 1.0) -> None:
        self.radius = positive(radius, "radius")

    def __repr__(self) -> str:
        return f"Simplex({self.radius:g})"

    def lmo(self, g: Array, hint: Vertex | None = None) -> OneHot:
        return OneHot(int(g.argmin()), self.radius, g.shape)

    def project(self, x: Array) -> Array:
        return np.maximum(x - _threshold(x.reshape(-1), self.radius), 0)

    def best_vertices(self, g: Array, count: int, best: Vertex) -> list[Vertex]:
        return [OneHot(i, self.radius, g.shape) for i in smallest(g.reshape(-1), count)]

    polytope = True

    def crossing(
        self, start: Array, end: Array, levels: tuple[float, float], skip: Sequence[Vertex], noise: float
    ) -> tuple[float, Vertex] | None:
        above = self.radius * end.reshape(-1) - levels[1]
        for v in skip:
            assert isinstance(v, OneHot)  # what the oracle returns
            above[v.index] = np.inf
        found = first_below(self.radius * start.reshape(-1) - levels[0], above, noise)
        return None if found is None else (found[0], OneHot(found[1], self.radius, start.shape))

    def decomposed(self, x: Array) -> list[tuple[float, Vertex]]:
        flat = x.reshape(-1)
        used = np.flatnonzero(flat).tolist()
        return [(float(flat[i]) / self.radius, OneHot(i, self.radius, x.shape)) for i in used]

    def start(self, shape: Shape | None = None, dtype: Any = np.float64) -> Array:
        shape = needs_shape(self, shape)
        return np.full(shape, self.radius / size_of(shape), dtype)

    def contains(self, x: Any, tol: float = 1e-9) -> bool:
        x = finite(x)
        if x is None:
            return False
        slack = tol * self.radius
        return bool(x.min() >= -slack and abs(x.sum() - self.radius) <= slack)

    def diameter(self, shape: Shape | None = None) -> float:
        return math.sqrt(2) * self.radius if shape is None or size_of(shape) > 1 else 0.0


class Box(ConstraintSet):
    r""":math:`\{x : l \le x \le u\}` with bounds that are numbers or arrays. It starts at its centre.

    Entries with zero gradient go to the upper bound.
    """

    def __init__(self, lower: ArrayLike, upper: ArrayLike) -> None:
        self.lower, self.upper = float_array(lower, "lower"), float_array(upper, "upper")
        for name, bound in (("lower", self.lower), ("upper", self.upper)):
            if not np.isfinite(bound).all():
                raise ValueError(f"{name} must be finite: Frank-Wolfe needs a bounded set")
        try:
            self.shape = np.broadcast_shapes(self.lower.shape, self.upper.shape) or None
        except ValueError:
            raise ValueError(
                f"lower has shape {self.lower.shape}, upper has {self.upper.shape}; they must agree"
            ) from None
        if (self.lower > self.upper).any():
            raise ValueError("lower must not exceed upper anywhere")

    def __repr__(self) -> str:
        return f"Box({self.lower}, {self.upper})" if self.shape is None else f"Box(shape={self.shape})"

    def lmo(self, g: Array, hint: Vertex | None = None) -> DenseVertex:
        return DenseVertex(np.where(g > 0, self.lower, self.upper).astype(float_dtype(g.dtype), copy=False))

    projectable = True

    polytope = has_bounds = True

    def bounds(self, shape: Shape) -> tuple[Array, Array]:
        return np.broadcast_to(self.lower, shape), np.broadcast_to(self.upper, shape)

    def project(self, x: Array) -> Array:
        return np.clip(x, self.lower, self.upper).astype(x.dtype, copy=False)

    def start(self, shape: Shape | None = None, dtype: Any = np.float64) -> Array:
        centre = self.lower + (self.upper - self.lower) / 2
        if self.shape is None:
            return np.full(needs_shape(self, shape), centre, dtype)
        return np.broadcast_to(centre, self.shape).astype(dtype)

    def contains(self, x: Any, tol: float = 1e-9) -> bool:
        x = finite(x)
        if x is None:
            return False
        slack = tol * max(float(np.abs(self.lower).max()), float(np.abs(self.upper).max()))
        return bool((x >= self.lower - slack).all() and (x <= self.upper + slack).all())

    def diameter(self, shape: Shape | None = None) -> float:
        full = self.shape or needs_shape(self, shape)
        return float(np.linalg.norm(np.broadcast_to(self.upper - self.lower, full)))
