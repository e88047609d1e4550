"""Where to? Sets whose oracles JAX compiles, with parameters that may be traced, and a door to those of the core."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from fwflow import sets as core
from fwflow._validation import whole
from fwflow.jax.points import Dense, OneHot, RankOne, Vertex
from fwflow.jax.projections import onto_simplex
from fwflow.jax.trees import Array, doubles, epsilon, known, positive, pytree, valid
from fwflow.sets.base import ConstraintSet

Shape = tuple[int, ...]
# Rounding that the answers of a user's oracle may have, relative to their inner products: that of single precision.
_ORACLE_ROUNDING = 1e-6


class FaceMap(NamedTuple):
    r"""Members that are zero where x is and have :math:`\langle n, x\rangle` at a level, unless the normal is zero."""

    inside: Array
    normal: Array
    level: Any


class Set(ABC):
    """A convex compact set of arrays. What it can do beyond its oracle is declared here; None means that it cannot."""

    #: The shape of the members, for sets that know it.
    shape: Shape | None = None

    @abstractmethod
    def lmo(self, g: Array, hint: Vertex | None = None) -> Vertex:
        """A vertex that minimises ``<g, s>``; `hint` is the answer to a nearby question."""

    @abstractmethod
    def least(self, g: Array) -> Array:
        """The minimum of ``<g, s>``, exact where the oracle is not: a gap is true by this."""

    @abstractmethod
    def start(self, shape: Shape, dtype: Any) -> Array:
        """Where a run starts unless told otherwise."""

    @abstractmethod
    def excess(self, x: Array) -> Array | None:
        """By which share of its size the set would have to grow to have x as a member; None if it cannot be told."""

    def project(self, x: Array) -> Array | None:
        """The member nearest to x."""
        return None

    def with_radius(self, radius: Any) -> Set | None:
        """The same set with another radius."""
        return None

    def atoms(self, x: Array) -> tuple[Array, Array] | None:
        """Values and weights of the vertices of x, by place, where each has one entry; the origin may come last."""
        return None

    def reversed(self, g: Array, least: Array) -> Array | None:
        """Return whether the oracle contradicts itself: its vertex for -g has a smaller ``<g, s>`` than `least`.

        None for sets whose oracle is not a user's, which need no such check.
        """
        return None

    def doubles(self, g: Array) -> bool:
        """Return whether `least` and `excess` can be computed in double precision, whatever the type of g."""
        return True

    def face(self, x: Array) -> FaceMap | None:
        """The smallest face with x on it, where that is cheap to tell."""
        return None


@dataclass(frozen=True, eq=False)
class _Round(Set):
    """A set with a radius."""

    radius: Any = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "radius", positive(self.radius, "radius"))

    def with_radius(self, radius: Any) -> Set:
        return replace(self, radius=positive(radius, "radius"))

    def _r(self, x: Array) -> Array:
        return jnp.asarray(self.radius, x.dtype)

    def _first(self, x: Array) -> Array:
        """r times the first unit vector."""
        return OneHot(jnp.zeros((), jnp.int32), self._r(x)).added_to(jnp.zeros_like(x), 1)

    def start(self, shape: Shape, dtype: Any) -> Array:
        return jnp.zeros(shape, dtype)


def _ratio(norm: Array, radius: Array) -> Array:
    return jnp.maximum(norm / radius - 1, 0)


@pytree()
@dataclass(frozen=True, eq=False)
class L1Ball(_Round):
    r""":math:`\{x : \|x\|_1 \le r\}`; ties go to the first index.

    Examples
    --------
    >>> import jax, jax.numpy as jnp, fwflow.jax as fwj
    >>> jax.vmap(lambda radius: fwj.L1Ball(radius).project(jnp.array([3.0, 1.0])))(jnp.array([1.0, 3.0])).round(2)
    Array([[1. , 0. ],
           [2.5, 0.5]], dtype=float32)
    """

    def lmo(self, g: Array, hint: Vertex | None = None) -> OneHot:
        flat = g.reshape(-1)
        i = jnp.abs(flat).argmax()
        r = self._r(g)
        return OneHot(i, jnp.where(flat[i] > 0, -r, r))

    def least(self, g: Array) -> Array:
        return -self._r(g) * jnp.abs(g).max()

    def excess(self, x: Array) -> Array:
        return _ratio(jnp.abs(x).sum(), self._r(x))

    def project(self, x: Array) -> Array:
        r, size = self._r(x), jnp.abs(x)
        onto = jnp.sign(x) * onto_simplex(size.reshape(-1), r).reshape(x.shape)
        return jnp.where(size.sum() <= r, x, onto)

    def atoms(self, x: Array) -> tuple[Array, Array]:
        r, flat = self._r(x), x.reshape(-1)
        weights = jnp.abs(flat) / r
        left = jnp.maximum(1 - weights.sum(), 0)
        return jnp.append(r * jnp.sign(flat), 0), jnp.append(weights, left)

    def face(self, x: Array) -> FaceMap:
        r = self._r(x)
        reached = jnp.abs(x).sum() >= r * (1 - 1e3 * epsilon(x.dtype))
        return FaceMap(jnp.where(reached, x != 0, True), jnp.where(reached, jnp.sign(x), 0), r)


@pytree()
@dataclass(frozen=True, eq=False)
class Simplex(_Round):
    r""":math:`\{x \ge 0 : \sum_i x_i = r\}`. It starts at its barycentre; ties go to the first index."""

    def lmo(self, g: Array, hint: Vertex | None = None) -> OneHot:
        return OneHot(g.reshape(-1).argmin(), self._r(g))

    def least(self, g: Array) -> Array:
        return self._r(g) * g.min()

    def start(self, shape: Shape, dtype: Any) -> Array:
        return jnp.full(shape, jnp.asarray(self.radius, dtype) / int(np.prod(shape)), dtype)

    def excess(self, x: Array) -> Array:
        share = x / self._r(x)
        return jnp.maximum(jnp.abs(share.sum() - 1), -share.min())

    def project(self, x: Array) -> Array:
        return onto_simplex(x.reshape(-1), self._r(x)).reshape(x.shape)

    def atoms(self, x: Array) -> tuple[Array, Array]:
        flat = x.reshape(-1)
        return jnp.full_like(flat, self._r(x)), flat / self._r(x)

    def face(self, x: Array) -> FaceMap:
        return FaceMap(x > 0, (x > 0).astype(x.dtype), self._r(x))


@pytree()
@dataclass(frozen=True, eq=False)
class LInfBall(_Round):
    r""":math:`\{x : \|x\|_\infty \le r\}`. Entries with zero gradient go to +r."""

    def lmo(self, g: Array, hint: Vertex | None = None) -> Dense:
        return Dense(jnp.where(g > 0, -self._r(g), self._r(g)))

    def least(self, g: Array) -> Array:
        return -self._r(g) * jnp.abs(g).sum()

    def excess(self, x: Array) -> Array:
        return _ratio(jnp.abs(x).max(), self._r(x))

    def project(self, x: Array) -> Array:
        return jnp.clip(x, -self._r(x), self._r(x))


@pytree()
@dataclass(frozen=True, eq=False)
class LpBall(_Round):
    r""":math:`\{x : \|x\|_p \le r\}`, p between 1 and infinity. A zero gradient gives r times the first unit vector."""

    p: Any = 2.0

    def __init__(self, p: Any, radius: Any = 1.0) -> None:
        if not known(p):
            p = valid(jnp.isfinite(p) & (p > 1), p)
        elif not (np.isfinite(p) & (np.asarray(p) > 1)).all():
            raise ValueError(f"p must lie strictly between 1 and infinity (else L1Ball, LInfBall); got {p!r}")
        vars(self).update(p=p, radius=positive(radius, "radius"))

    def with_radius(self, radius: Any) -> Set:
        return LpBall(self.p, radius)

    def _norm(self, x: Array, p: Any) -> Array:
        largest = jnp.abs(x).max()
        unit = jnp.where(largest > 0, largest, 1)
        return largest * ((jnp.abs(x) / unit) ** p).sum() ** (1 / p)

    def lmo(self, g: Array, hint: Vertex | None = None) -> Dense:
        q = jnp.asarray(self.p / (self.p - 1), g.dtype)
        norm = self._norm(g, q)
        entries = -self._r(g) * jnp.sign(g) * (jnp.abs(g) / jnp.where(norm > 0, norm, 1)) ** (q - 1)
        return Dense(jnp.where(norm > 0, entries, self._first(g)))

    def least(self, g: Array) -> Array:
        return -self._r(g) * self._norm(g, jnp.asarray(self.p / (self.p - 1), g.dtype))

    def excess(self, x: Array) -> Array:
        return _ratio(self._norm(x, jnp.asarray(self.p, x.dtype)), self._r(x))


@pytree()
@dataclass(frozen=True, eq=False)
class L2Ball(_Round):
    r""":math:`\{x : \|x\|_2 \le r\}`. A zero gradient gives r times the first unit vector."""

    def lmo(self, g: Array, hint: Vertex | None = None) -> Dense:
        norm = _length(g)
        return Dense(jnp.where(norm > 0, -self._r(g) * (g / jnp.where(norm > 0, norm, 1)), self._first(g)))

    def least(self, g: Array) -> Array:
        return -self._r(g) * _length(g)

    def excess(self, x: Array) -> Array:
        return _ratio(_length(x), self._r(x))

    def project(self, x: Array) -> Array:
        norm = _length(x)
        return jnp.where(norm <= self._r(x), x, self._r(x) * (x / jnp.where(norm > 0, norm, 1)))


def _length(x: Array) -> Array:
    """The Euclidean norm, of which no square overflows or vanishes."""
    largest = jnp.abs(x).max()
    return largest * jnp.sqrt(((x / jnp.where(largest > 0, largest, 1)) ** 2).sum())


@pytree()
@dataclass(frozen=True, eq=False)
class Box(Set):
    r""":math:`\{x : l \le x \le u\}` with bounds that are numbers or arrays. It starts at its centre.

    Entries with zero gradient go to the upper bound.
    """

    lower: Any
    upper: Any

    def __post_init__(self) -> None:
        if not known((self.lower, self.upper)):
            bounds = jnp.asarray(self.lower), jnp.asarray(self.upper)
            right = jnp.isfinite(bounds[0]) & jnp.isfinite(bounds[1]) & (bounds[0] <= bounds[1])
            vars(self).update(lower=valid(right, bounds[0]), upper=valid(right, bounds[1]))
            return
        lower, upper = np.asarray(self.lower), np.asarray(self.upper)
        if not (np.isfinite(lower).all() and np.isfinite(upper).all()) or (lower > upper).any():
            raise ValueError("lower and upper must be finite, and lower must not exceed upper anywhere")

    @property
    def shape(self) -> Shape | None:  # type: ignore[override]
        return np.broadcast_shapes(jnp.shape(self.lower), jnp.shape(self.upper)) or None

    def _bounds(self, x: Array) -> tuple[Array, Array]:
        return jnp.asarray(self.lower, x.dtype), jnp.asarray(self.upper, x.dtype)

    def lmo(self, g: Array, hint: Vertex | None = None) -> Dense:
        return Dense(jnp.where(g > 0, *self._bounds(g)))

    def least(self, g: Array) -> Array:
        lower, upper = self._bounds(g)
        return jnp.minimum(lower * g, upper * g).sum()

    def start(self, shape: Shape, dtype: Any) -> Array:
        lower, upper = jnp.asarray(self.lower, dtype), jnp.asarray(self.upper, dtype)
        return jnp.broadcast_to(lower + (upper - lower) / 2, shape)

    def excess(self, x: Array) -> Array:
        lower, upper = self._bounds(x)
        beyond = jnp.maximum(lower - x, x - upper)
        return jnp.where(beyond > 0, beyond / jnp.where(upper > lower, upper - lower, 1), 0).max()

    def project(self, x: Array) -> Array:
        return jnp.clip(x, *self._bounds(x))


@pytree("steps", "width")
@dataclass(frozen=True, eq=False)
class NuclearBall(_Round):
    r""":math:`\{X : \|X\|_* \le r\}`, dense matrices by the sum of their singular values. It starts at zero.

    A vertex is :math:`-r\,uv^T` with the leading singular pair of the gradient as ``steps`` power steps on a block of
    ``width`` vectors find it, the first time from random ones with ten times the steps, later from the last block. Each
    step shrinks what the block misses by :math:`(\sigma_{w+1}/\sigma_1)^2`. What the oracle may miss only costs
    iterations: the gap of a result uses the singular value itself.
    """

    steps: int = 2
    width: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        vars(self).update(steps=whole(self.steps, "steps", 1), width=whole(self.width, "width", 1))

    def lmo(self, g: Array, hint: Vertex | None = None) -> RankOne:
        n, width = g.shape[1], min(self.width, *g.shape)
        if isinstance(hint, RankOne):
            block, steps = hint.block, self.steps
        else:
            block, steps = jax.random.normal(jax.random.key(0), (n, width), g.dtype), 10 * self.steps
        unit = jnp.abs(g).max()
        G = g / jnp.where(unit > 0, unit, 1)

        def power(_: Any, V: Array) -> Array:
            return jnp.linalg.qr(_product(G.T, _product(G, V)))[0]

        V = lax.fori_loop(0, steps, power, jnp.linalg.qr(block)[0])
        U, _, W = jnp.linalg.svd(_product(G, V), full_matrices=False)
        return RankOne(U[:, 0], _product(V, W[0]), -self._r(g), V)

    def least(self, g: Array) -> Array:
        return -self._r(g) * jnp.linalg.svd(g, compute_uv=False)[0]

    def start(self, shape: Shape, dtype: Any) -> Array:
        if len(shape) != 2:
            raise ValueError(f"x0 must be a matrix for NuclearBall; got shape {shape}")
        return super().start(shape, dtype)

    def excess(self, x: Array) -> Array:
        return _ratio(jnp.linalg.svd(x, compute_uv=False).sum(), self._r(x))

    def project(self, x: Array) -> Array:
        U, sigma, V = jnp.linalg.svd(x, full_matrices=False)
        onto = _product(U * onto_simplex(sigma, self._r(x)), V)
        return jnp.where(sigma.sum() <= self._r(x), x, onto)


def _product(A: Array, B: Array) -> Array:
    return jnp.matmul(A, B, precision=lax.Precision.HIGHEST)


@pytree("shapes")
@dataclass(frozen=True, eq=False, init=False)
class Product(Set):
    """A set for every leaf of a tree of arrays, or for every block of a vector.

    Parameters
    ----------
    sets : tree of sets
        Of the structure of x0.
    shapes : sequence of shapes, optional
        Of the blocks of which x is put together, one after the other; without, x0 tells.
    """

    sets: tuple[Set, ...]
    shapes: tuple[Shape, ...]

    def __init__(self, sets: Any, shapes: Any = ()) -> None:
        leaves = jax.tree.leaves(sets, is_leaf=lambda leaf: isinstance(leaf, Set | ConstraintSet))
        vars(self).update(
            sets=tuple(map(as_jax_set, leaves)),
            shapes=tuple(shape if isinstance(shape, tuple) else (int(shape),) for shape in shapes),
        )

    @property
    def shape(self) -> Shape | None:  # type: ignore[override]
        return (sum(int(np.prod(shape)) for shape in self.shapes),) if self.shapes else None

    def _blocks(self, x: Array) -> list[tuple[Set, Array]]:
        ends = np.cumsum([int(np.prod(shape)) for shape in self.shapes])[:-1]
        parts = jnp.split(x.reshape(-1), ends)
        return [(C, part.reshape(s)) for C, part, s in zip(self.sets, parts, self.shapes, strict=True)]

    def lmo(self, g: Array, hint: Vertex | None = None) -> Dense:
        parts = [C.lmo(part).added_to(jnp.zeros_like(part), 1).reshape(-1) for C, part in self._blocks(g)]
        return Dense(jnp.concatenate(parts).reshape(g.shape))

    def least(self, g: Array) -> Array:
        return jnp.stack([C.least(part) for C, part in self._blocks(g)]).sum()

    def start(self, shape: Shape, dtype: Any) -> Array:
        parts = zip(self.sets, self.shapes, strict=True)
        return jnp.concatenate([C.start(own, dtype).reshape(-1) for C, own in parts]).reshape(shape)

    def excess(self, x: Array) -> Array | None:
        parts = [C.excess(part) for C, part in self._blocks(x)]
        return None if any(part is None for part in parts) else jnp.stack(parts).max()  # type: ignore[arg-type]

    def reversed(self, g: Array, least: Array) -> Array | None:
        answers = [C.reversed(part, C.least(part)) for C, part in self._blocks(g)]
        checked = [answer for answer in answers if answer is not None]
        return jnp.stack(checked).any() if checked else None

    def doubles(self, g: Array) -> bool:
        return all(C.doubles(part) for C, part in self._blocks(g))

    def project(self, x: Array) -> Array | None:
        parts = [C.project(part) for C, part in self._blocks(x)]
        if any(part is None for part in parts):
            return None
        return jnp.concatenate([part.reshape(-1) for part in parts]).reshape(x.shape)  # type: ignore[union-attr]


@pytree("oracle")
@dataclass(frozen=True, eq=False)
class Oracle(Set):
    """The set of which only an oracle is known: a function ``g -> s`` that JAX can trace."""

    oracle: Callable[[Array], Array]

    def lmo(self, g: Array, hint: Vertex | None = None) -> Dense:
        return Dense(jnp.asarray(self.oracle(g), g.dtype))

    def least(self, g: Array) -> Array:
        return self.lmo(g).dot(g)

    def start(self, shape: Shape, dtype: Any) -> Array:
        return self.lmo(jnp.zeros(shape, dtype)).entries

    def excess(self, x: Array) -> None:
        return None

    def reversed(self, g: Array, least: Array) -> Array:
        return _reversed(least, -self.least(-g))

    def doubles(self, g: Array) -> bool:
        return doubles(self.oracle, g)


def _reversed(least: Array, greatest: Array) -> Array:
    return greatest - least < -_ORACLE_ROUNDING * (jnp.abs(least) + jnp.abs(greatest))


@pytree("constraint")
@dataclass(frozen=True, eq=False)
class Host(Set):
    """A set of the core whose oracle runs on the host, one question after the other: a round trip for each.

    Examples
    --------
    >>> import jax.numpy as jnp, fwflow as fw, fwflow.jax as fwj
    >>> f = fwj.Smooth(lambda X: ((X - jnp.eye(3)) ** 2).sum())
    >>> fwj.minimize(f, fwj.Host(fw.Birkhoff(3)), tol=1e-4).x.round(2).diagonal()
    Array([1., 1., 1.], dtype=float32)
    """

    constraint: ConstraintSet

    @property
    def shape(self) -> Shape | None:  # type: ignore[override]
        return self.constraint.shape

    def lmo(self, g: Array, hint: Vertex | None = None) -> Dense:
        kind = jax.ShapeDtypeStruct(g.shape, g.dtype)  # type: ignore[no-untyped-call]
        return Dense(jax.pure_callback(self._vertex, kind, g, vmap_method="sequential"))

    def _vertex(self, g: Any) -> Any:
        if not np.isfinite(g).all():
            return np.full_like(g, np.nan)  # an exception would end all problems of a batch
        return np.asarray(self.constraint.lmo(np.asarray(g)), dtype=g.dtype)

    def least(self, g: Array) -> Array:
        C = self.constraint
        return _told(lambda g: C.lower_bound(g, C.lmo(g)), g)

    def start(self, shape: Shape, dtype: Any) -> Array:
        return jnp.asarray(np.asarray(self.constraint.start(shape, np.dtype(dtype))))

    def excess(self, x: Array) -> Array:
        """By the tolerances of double and single precision; where the set cannot tell, x counts as a member."""
        C = self.constraint
        return _told(lambda x: next((tol for tol in (0.0, 1e-8, 1e-4) if C.contains(x, tol) is not False), 1.0), x)

    def reversed(self, g: Array, least: Array) -> Array:
        return _reversed(least, -self.least(-g))


def _told(number: Callable[[Any], Any], x: Array) -> Array:
    """What a function on the host says of x. Numbers go there and back as pairs of single precision.

    A verdict is in double precision, which a callback does not have unless it is enabled everywhere.
    """

    def called(high: Any, low: Any) -> Any:
        whole = np.float64(high) + np.float64(low)
        value = np.float64(number(whole) if np.isfinite(whole).all() else np.nan)
        return np.array([value, value - np.float32(value)], np.float32)

    high = x.astype(jnp.float32)
    kind = jax.ShapeDtypeStruct((2,), jnp.float32)  # type: ignore[no-untyped-call]
    pair = jax.pure_callback(called, kind, high, (x - high).astype(jnp.float32), vmap_method="sequential")
    return pair.astype(x.dtype).sum()


#: Sets that are told by their radius, by those of the core. A subclass may have an oracle of its own.
_TWINS: dict[type, Callable[[Any], Set]] = {
    core.L1Ball: L1Ball,
    core.L2Ball: L2Ball,
    core.LInfBall: LInfBall,
    core.NuclearBall: NuclearBall,
    core.Simplex: Simplex,
}


def as_jax_set(C: Any) -> Set:
    """The twin of a set of the core; others run on the host, and any other callable is an oracle.

    Examples
    --------
    >>> import fwflow as fw, fwflow.jax as fwj
    >>> fwj.as_jax_set(fw.L1Ball(2.0))
    L1Ball(radius=2.0)
    """
    if isinstance(C, Set):
        return C
    kind = type(C)
    if kind in _TWINS:
        return _TWINS[kind](C.radius)
    if kind is core.LpBall:
        return LpBall(C.p, C.radius)
    if kind is core.Box:
        return Box(C.lower, C.upper)
    if kind is core.Product:
        return Product([constraint for constraint, _ in C.blocks], [length for _, length in C.blocks])
    if isinstance(C, ConstraintSet):
        return Host(C)
    if callable(C):
        return Oracle(C)
    raise ValueError(f"C must be a set or a callable g -> s; got {type(C).__name__}")


__all__ = [
    "Box",
    "Host",
    "L1Ball",
    "L2Ball",
    "LInfBall",
    "LpBall",
    "NuclearBall",
    "Oracle",
    "Product",
    "Set",
    "Simplex",
    "as_jax_set",
]
