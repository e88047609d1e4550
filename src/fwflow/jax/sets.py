"""Sets with compiled oracles and parameters that may be traced, and sets of the core on the host.

The sets with the names of the core have its oracles and, except for `LpBall`, its projections; `fwflow.sets` documents
them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from fwflow import sets as core
from fwflow._validation import InputError, whole
from fwflow.jax.points import OneHot, Point, Vertex
from fwflow.jax.trees import Array, blocks, checked, computes_in_double, epsilon, is_concrete, opened, pytree
from fwflow.sets.base import ConstraintSet, verdict

#: Public names of fwflow.jax.
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
    "Simplex",
    "UnitSimplex",
    "as_jax_set",
]

Shape = tuple[int, ...]
# Number of thresholds that one round of the projection onto a simplex tries at once. A device does so in one wide sum.
_TRIALS = 32
# Rounding of the vertices of a user's oracle, relative to their inner products: that of single precision.
_ORACLE_ROUNDING = 1e-6
# Product of matrices in full precision, which is not the default of JAX on a GPU.
_product = partial(jnp.matmul, precision=lax.Precision.HIGHEST)


class Set(ABC):
    """Convex compact set of arrays. An optional member that a set does not support returns None."""

    #: Shape of the members, or None if the set has members of any shape.
    shape: Shape | None = None
    #: Radius, or None for a set without one.
    radius: Any = None
    #: Whether a user may have written the oracle, so that it is checked.
    from_user: bool = False

    @abstractmethod
    def lmo(self, g: Array, hint: Vertex | None = None) -> Vertex:
        """Return a vertex that minimises ``<g, s>`` over the set; `hint` is the vertex for a similar g."""

    def lower_bound(self, g: Array) -> Array:
        """Return the minimum of ``<g, s>`` for the verified gap, also for a float64 g in a run of single precision.

        Sets whose ``lmo`` is not exact or uses ``argmax``, which JAX does not compile for that case, override it.
        """
        return self.lmo(g).dot(g)

    @abstractmethod
    def start(self, shape: Shape, dtype: Any) -> Array:
        """Return the default starting point."""

    def excess(self, x: Array) -> Array | None:
        """Return the fraction of its size by which the set would have to grow to contain x."""
        return None

    def project(self, x: Array) -> Array | None:
        """Return the member nearest to x."""
        return None

    def with_radius(self, radius: Any) -> Set:
        """Return the same set with another radius; for sets that have one."""
        return replace(self, radius=radius)  # type: ignore[type-var]

    def atoms(self, x: Array) -> tuple[Array, Array] | None:
        """Return values and weights of the vertices of x by index, for vertices with one entry; the origin is last."""
        return None

    def contradicts(self, g: Array, bound: Array) -> Array | None:
        """Return whether the oracle contradicts itself: its vertex for -g has ``<g, s>`` below `bound`."""
        if not self.from_user:
            return None
        greatest = -self.lower_bound(-g)
        return greatest - bound < -_ORACLE_ROUNDING * (jnp.abs(bound) + jnp.abs(greatest))

    def opened(self, x: Array) -> Set:
        """Return the same set with the traced numbers that a user's oracle closes over as arguments."""
        return self

    def computes_in_double(self, g: Array) -> bool:
        """Return whether `lower_bound` and `excess` can be computed in double precision for any type of g."""
        return True


@dataclass(frozen=True, eq=False)
class _RadiusSet(Set):
    """Set with a radius."""

    radius: Any = 1.0

    def __post_init__(self) -> None:
        checked_radius = checked(self.radius, "radius", "be positive and finite", lambda r: (r > 0) & (r < math.inf))
        vars(self).update(radius=checked_radius)

    def _r(self, x: Array) -> Array:
        return jnp.asarray(self.radius, x.dtype)


def onto_simplex(v: Array, radius: Array) -> Array:
    r"""Return the point of :math:`\{w \ge 0 : \sum w = r\}` nearest to a vector: :math:`\max(v - t, 0)`.

    It needs no sorting, which is slow on devices. The sum of the entries is convex and decreasing in t. It is at least
    r one radius below the largest entry of v, and zero at that entry. Each round keeps 1/32 of that interval. One
    Newton step from its left end is then exact.
    """
    behind = (v - v.max()) / radius
    rounds = math.ceil(-math.log2(epsilon(v.dtype)) / math.log2(_TRIALS))
    shares = jnp.arange(_TRIALS, dtype=v.dtype) / _TRIALS

    def narrowed(_: Any, interval: tuple[Array, Array]) -> tuple[Array, Array]:
        t, width = interval
        trials = t + width * shares
        reached = jnp.maximum(behind - trials[:, None], 0).sum(axis=-1) >= 1
        return jnp.where(reached, trials, t).max(), width / _TRIALS

    t, _ = lax.fori_loop(0, rounds, narrowed, (-jnp.ones((), v.dtype), jnp.ones((), v.dtype)))
    weights = jnp.maximum(behind - t, 0)
    return radius * jnp.maximum(behind - t - (weights.sum() - 1) / (weights > 0).sum(), 0)


class _Ball(_RadiusSet):
    """Ball of a norm around the origin."""

    @abstractmethod
    def norm(self, x: Array) -> Array:
        """Return the norm of which this is a ball."""

    def start(self, shape: Shape, dtype: Any) -> Array:
        return jnp.zeros(shape, dtype)

    def excess(self, x: Array) -> Array:
        return jnp.maximum(self.norm(x) / self._r(x) - 1, 0)


@pytree()
class L1Ball(_Ball):
    """L1 ball of the given radius: the compiled form of `fwflow.L1Ball`.

    Parameters
    ----------
    radius : float or array
        Radius, which may be traced; 1 by default.

    See Also
    --------
    fwflow.L1Ball : Set of the core.
    Simplex : Non-negative entries.
    solution : Minimiser that can be differentiated in the radius.

    Examples
    --------
    >>> import jax, jax.numpy as jnp, fwflow.jax as fwj
    >>> jax.vmap(lambda radius: fwj.L1Ball(radius).project(jnp.array([3.0, 1.0])))(jnp.array([1.0, 3.0])).round(2)
    Array([[1. , 0. ],
           [2.5, 0.5]], dtype=float32)
    """

    def norm(self, x: Array) -> Array:
        return jnp.abs(x).sum()

    def lmo(self, g: Array, hint: Vertex | None = None) -> OneHot:
        flat, r = g.reshape(-1), self._r(g)
        i = jnp.abs(flat).argmax()
        return OneHot(i, jnp.where(flat[i] > 0, -r, r))

    def lower_bound(self, g: Array) -> Array:
        return -self._r(g) * jnp.abs(g).max()

    def project(self, x: Array) -> Array:
        r, size = self._r(x), jnp.abs(x)
        onto = jnp.sign(x) * onto_simplex(size.reshape(-1), r).reshape(x.shape)
        return jnp.where(size.sum() <= r, x, onto)

    def atoms(self, x: Array) -> tuple[Array, Array]:
        r, flat = self._r(x), x.reshape(-1)
        weights = jnp.abs(flat) / r
        left = jnp.maximum(1 - weights.sum(), 0)
        return jnp.append(r * jnp.sign(flat), 0), jnp.append(weights, left)


@pytree()
class Simplex(_RadiusSet):
    """Nonnegative vectors with the sum ``radius``: the compiled form of `fwflow.Simplex`.

    Parameters
    ----------
    radius : float or array
        Sum of the entries, which may be traced; 1 by default.

    See Also
    --------
    fwflow.Simplex : Set of the core.
    L1Ball : Entries of both signs.

    Examples
    --------
    >>> import jax.numpy as jnp, fwflow.jax as fwj
    >>> fwj.Simplex().project(jnp.array([0.5, 1.0, 0.0]))
    Array([0.25, 0.75, 0.  ], dtype=float32)
    """

    def lmo(self, g: Array, hint: Vertex | None = None) -> OneHot:
        return OneHot(g.reshape(-1).argmin(), self._r(g))

    def lower_bound(self, g: Array) -> Array:
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


@pytree()
class UnitSimplex(_RadiusSet):
    """Nonnegative vectors with a sum of at most ``radius``: the compiled form of `fwflow.UnitSimplex`.

    Parameters
    ----------
    radius : float or array
        Bound on the sum of the entries, which may be traced; 1 by default.

    See Also
    --------
    fwflow.UnitSimplex : Set of the core.
    Simplex : The sum is equal to the radius.

    Examples
    --------
    >>> import jax.numpy as jnp, fwflow.jax as fwj
    >>> fwj.UnitSimplex().project(jnp.array([0.5, -1.0, 0.25]))
    Array([0.5 , 0.  , 0.25], dtype=float32)
    """

    def lmo(self, g: Array, hint: Vertex | None = None) -> OneHot:
        flat = g.reshape(-1)
        i = flat.argmin()
        return OneHot(i, jnp.where(flat[i] < 0, self._r(g), 0))

    def lower_bound(self, g: Array) -> Array:
        return self._r(g) * jnp.minimum(g.min(), 0)

    def start(self, shape: Shape, dtype: Any) -> Array:
        return Simplex.start(self, shape, dtype) / 2  # type: ignore[arg-type]

    def excess(self, x: Array) -> Array:
        share = x / self._r(x)
        return jnp.maximum(jnp.maximum(share.sum() - 1, -share.min()), 0)

    def project(self, x: Array) -> Array:
        inside = jnp.maximum(x, 0)
        return jnp.where(inside.sum() <= self._r(x), inside, onto_simplex(x.reshape(-1), self._r(x)).reshape(x.shape))

    def atoms(self, x: Array) -> tuple[Array, Array]:
        r, flat = self._r(x), x.reshape(-1)
        left = jnp.maximum(1 - flat.sum() / r, 0)
        return jnp.append(jnp.full_like(flat, r), 0), jnp.append(flat / r, left)


@pytree()
class LInfBall(_Ball):
    """Ball of the maximum norm: the compiled form of `fwflow.LInfBall`.

    Parameters
    ----------
    radius : float or array
        Radius, which may be traced; 1 by default.

    See Also
    --------
    fwflow.LInfBall : Set of the core.
    Box : Different bounds for each entry.

    Examples
    --------
    >>> import jax.numpy as jnp, fwflow.jax as fwj
    >>> fwj.LInfBall(2.0).project(jnp.array([3.0, 1.0, -5.0]))
    Array([ 2.,  1., -2.], dtype=float32)
    """

    def norm(self, x: Array) -> Array:
        return jnp.abs(x).max()

    def lmo(self, g: Array, hint: Vertex | None = None) -> Point:
        return Point(jnp.where(g > 0, -self._r(g), self._r(g)))

    def project(self, x: Array) -> Array:
        return jnp.clip(x, -self._r(x), self._r(x))


def _lp_norm(x: Array, p: Any) -> Array:
    """Return a p-norm; powers of entries in [-1, 1] neither overflow nor all vanish."""
    largest = jnp.abs(x).max()
    return largest * ((jnp.abs(x) / jnp.where(largest > 0, largest, 1)) ** p).sum() ** (1 / p)


@pytree()
class LpBall(_Ball):
    """Ball of the p-norm with p between 1 and infinity: the compiled form of `fwflow.LpBall`. p may be traced.

    Parameters
    ----------
    p : float or array
        Exponent between 1 and infinity, which may be traced.
    radius : float or array
        Radius, which may be traced; 1 by default.

    See Also
    --------
    fwflow.LpBall : Set of the core.
    L2Ball : p = 2.
    L1Ball : p = 1.

    Examples
    --------
    >>> import jax.numpy as jnp, fwflow.jax as fwj
    >>> f = fwj.Smooth(lambda x: ((x - 2.0) ** 2).sum())
    >>> fwj.minimize(f, fwj.LpBall(3.0), jnp.zeros(2), line_search="exact", tol=1e-4).x.round(3)
    Array([0.794, 0.794], dtype=float32)
    """

    p: Any = 2.0

    def __init__(self, p: Any, radius: Any = 1.0) -> None:
        wanted = "lie strictly between 1 and infinity (use L1Ball or LInfBall at the ends)"
        vars(self).update(p=checked(p, "p", wanted, lambda p: (p > 1) & (p < math.inf)), radius=radius)
        self.__post_init__()

    def norm(self, x: Array) -> Array:
        return _lp_norm(x, jnp.asarray(self.p, x.dtype))

    def lmo(self, g: Array, hint: Vertex | None = None) -> Point:
        r, q = self._r(g), jnp.asarray(self.p / (self.p - 1), g.dtype)
        norm = _lp_norm(g, q)
        direction = jnp.sign(g) * (jnp.abs(g) / jnp.where(norm > 0, norm, 1)) ** (q - 1)
        first = OneHot(jnp.zeros((), jnp.int32), r).added_to(jnp.zeros_like(g), 1)
        return Point(jnp.where(norm > 0, -r * direction, first))


@pytree()
class L2Ball(LpBall):
    """Ball of the Euclidean norm: the compiled form of `fwflow.L2Ball`.

    Parameters
    ----------
    radius : float or array
        Radius, which may be traced; 1 by default.

    See Also
    --------
    fwflow.L2Ball : Set of the core.
    LpBall : Other exponents.

    Examples
    --------
    >>> import jax.numpy as jnp, fwflow.jax as fwj
    >>> fwj.L2Ball(5.0).project(jnp.array([6.0, 8.0]))
    Array([3., 4.], dtype=float32)
    """

    p: ClassVar[float] = 2.0  # type: ignore[misc]  # A constant of the compiled code, no field.

    def project(self, x: Array) -> Array:
        norm = self.norm(x)
        return jnp.where(norm <= self._r(x), x, self._r(x) * (x / jnp.where(norm > 0, norm, 1)))


@pytree()
class Box(Set):
    """Vectors between two bounds, which are numbers or arrays: the compiled form of `fwflow.Box`.

    Parameters
    ----------
    lower, upper : float or array
        Bounds, which may be traced.

    See Also
    --------
    fwflow.Box : Set of the core.
    LInfBall : Box around zero with equal sides.

    Examples
    --------
    >>> import jax.numpy as jnp, fwflow.jax as fwj
    >>> fwj.Box(0.0, jnp.array([1.0, 2.0])).project(jnp.array([-1.0, 1.5]))
    Array([0. , 1.5], dtype=float32)
    """

    lower: Any
    upper: Any

    def __post_init__(self) -> None:
        if is_concrete((self.lower, self.upper)):
            core.Box(self.lower, self.upper)  # It raises if the bounds are not valid.
            return
        lower, upper = jnp.asarray(self.lower), jnp.asarray(self.upper)
        valid = jnp.isfinite(lower) & jnp.isfinite(upper) & (lower <= upper)
        # Traced bounds cannot raise; NaN ends the run.
        vars(self).update(lower=jnp.where(valid, lower, jnp.nan), upper=jnp.where(valid, upper, jnp.nan))

    @property
    def shape(self) -> Shape | None:  # type: ignore[override]
        return np.broadcast_shapes(jnp.shape(self.lower), jnp.shape(self.upper)) or None

    def _bounds(self, dtype: Any) -> tuple[Array, Array]:
        return jnp.asarray(self.lower, dtype), jnp.asarray(self.upper, dtype)

    def lmo(self, g: Array, hint: Vertex | None = None) -> Point:
        return Point(jnp.where(g > 0, *self._bounds(g.dtype)))

    def start(self, shape: Shape, dtype: Any) -> Array:
        lower, upper = self._bounds(dtype)
        return jnp.broadcast_to(lower + (upper - lower) / 2, shape)

    def excess(self, x: Array) -> Array:
        lower, upper = self._bounds(x.dtype)
        beyond = jnp.maximum(lower - x, x - upper)
        return jnp.where(beyond > 0, beyond / jnp.where(upper > lower, upper - lower, 1), 0).max()

    def project(self, x: Array) -> Array:
        return jnp.clip(x, *self._bounds(x.dtype))


@pytree("steps", "width")
class NuclearBall(_Ball):
    r"""Nuclear-norm ball of dense matrices: the compiled form of `fwflow.NuclearBall`.

    The oracle makes ``steps`` power steps on a block of ``width`` vectors, which starts from the last block; the first
    call makes ten times as many from random vectors. Each step multiplies the error by
    :math:`(\sigma_{w+1}/\sigma_1)^2`. An inaccurate vertex costs iterations only: the gap of a result uses the exact
    singular value.

    Parameters
    ----------
    radius : float or array
        Radius, which may be traced; 1 by default.
    steps : int
        Number of power steps of an oracle call; 2 by default.
    width : int
        Number of vectors of the block; 4 by default.

    See Also
    --------
    fwflow.NuclearBall : Set of the core.
    Host : Oracle of the core, for other matrix sets.

    Examples
    --------
    >>> import jax.numpy as jnp, fwflow.jax as fwj
    >>> fwj.NuclearBall(2.0).project(jnp.diag(jnp.array([3.0, 1.0]))).round(3)
    Array([[2., 0.],
           [0., 0.]], dtype=float32)
    """

    steps: int = 2
    width: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        vars(self).update(steps=whole(self.steps, "steps", 1), width=whole(self.width, "width", 1))

    def norm(self, x: Array) -> Array:
        return jnp.linalg.svd(x, compute_uv=False).sum()

    def lower_bound(self, g: Array) -> Array:
        return -self._r(g) * jnp.linalg.svd(g, compute_uv=False)[0]

    def lmo(self, g: Array, hint: Vertex | None = None) -> Point:
        n, width = g.shape[1], min(self.width, *g.shape)
        if isinstance(hint, Point) and hint.block is not None:
            block, steps = hint.block, self.steps
        else:
            block, steps = jax.random.normal(jax.random.key(0), (n, width), g.dtype), 10 * self.steps
        unit = jnp.abs(g).max()
        G = g / jnp.where(unit > 0, unit, 1)

        def power(_: Any, V: Array) -> Array:
            return jnp.linalg.qr(_product(G.T, _product(G, V)))[0]

        V = lax.fori_loop(0, steps, power, jnp.linalg.qr(block)[0])
        U, _, W = jnp.linalg.svd(_product(G, V), full_matrices=False)
        return Point(-self._r(g) * jnp.outer(U[:, 0], _product(V, W[0])), block=V)

    def start(self, shape: Shape, dtype: Any) -> Array:
        if len(shape) != 2:
            raise InputError(f"x0 must be a matrix for NuclearBall; got shape {shape}")
        return super().start(shape, dtype)

    def project(self, x: Array) -> Array:
        U, sigma, V = jnp.linalg.svd(x, full_matrices=False)
        onto = _product(U * onto_simplex(sigma, self._r(x)), V)
        return jnp.where(sigma.sum() <= self._r(x), x, onto)


@pytree("shapes")
class Product(Set):
    """Product of sets: one for every leaf of a tree of arrays, or for every block of a vector.

    Parameters
    ----------
    sets : tree of sets
        Sets of the blocks, with the structure of x0.
    shapes : sequence of shapes, optional
        Shapes of the consecutive blocks of x. Default: those of the leaves of x0.

    See Also
    --------
    fwflow.Product : Set of the core.
    Smooth : Function of a tree of arrays.

    Examples
    --------
    >>> import jax.numpy as jnp, fwflow.jax as fwj
    >>> f = fwj.Smooth(lambda x: ((x["u"] - 2.0) ** 2).sum() + (x["v"] ** 2).sum())
    >>> C = fwj.Product({"u": fwj.L2Ball(1.0), "v": fwj.Box(1.0, 2.0)})
    >>> fwj.minimize(f, C, {"u": jnp.zeros(1), "v": jnp.array([2.0])}).x
    {'u': Array([1.], dtype=float32), 'v': Array([1.], dtype=float32)}
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
        return list(zip(self.sets, blocks(x, self.shapes), strict=True))

    def lmo(self, g: Array, hint: Vertex | None = None) -> Point:
        return Point(_joined([C.lmo(part).added_to(jnp.zeros_like(part), 1) for C, part in self._blocks(g)], g.shape))

    def lower_bound(self, g: Array) -> Array:
        return jnp.stack([C.lower_bound(part) for C, part in self._blocks(g)]).sum()

    def start(self, shape: Shape, dtype: Any) -> Array:
        return _joined([C.start(own, dtype) for C, own in zip(self.sets, self.shapes, strict=True)], shape)

    def excess(self, x: Array) -> Array | None:
        parts = [C.excess(part) for C, part in self._blocks(x)]
        return None if any(part is None for part in parts) else jnp.stack(parts).max()  # type: ignore[arg-type]

    def contradicts(self, g: Array, bound: Array) -> Array | None:
        checks = [C.contradicts(part, C.lower_bound(part)) for C, part in self._blocks(g)]
        made = [check for check in checks if check is not None]
        return jnp.stack(made).any() if made else None

    def opened(self, x: Array) -> Set:
        return Product([C.opened(part) for C, part in self._blocks(x)], self.shapes)

    def computes_in_double(self, g: Array) -> bool:
        return all(C.computes_in_double(part) for C, part in self._blocks(g))

    def project(self, x: Array) -> Array | None:
        parts = [C.project(part) for C, part in self._blocks(x)]
        return None if any(part is None for part in parts) else _joined(parts, x.shape)


def _joined(parts: list[Any], shape: Shape) -> Array:
    return jnp.concatenate([part.reshape(-1) for part in parts]).reshape(shape)


@pytree("oracle")
class Oracle(Set):
    """Set given by an oracle alone: a function ``g -> s`` that JAX can trace.

    Parameters
    ----------
    oracle : callable
        Function ``g -> s`` that minimises ``<g, s>`` over the set.
    args : tuple
        Arguments before g, for example traced numbers on which the oracle depends; none by default.

    See Also
    --------
    Host : Set of the core on the host.
    as_jax_set : Accepts a callable.

    Examples
    --------
    >>> import jax.numpy as jnp, fwflow.jax as fwj
    >>> C = fwj.Oracle(lambda g: -jnp.sign(g))
    >>> f = fwj.Smooth(lambda x: ((x - jnp.array([0.5, 3.0])) ** 2).sum())
    >>> fwj.minimize(f, C, jnp.zeros(2), line_search="exact", tol=1e-2).x.round(1)
    Array([0.5, 1. ], dtype=float32)
    """

    oracle: Callable[..., Array]
    args: tuple[Any, ...] = ()
    from_user = True

    def lmo(self, g: Array, hint: Vertex | None = None) -> Point:
        return Point(jnp.asarray(self.oracle(*self.args, g), g.dtype))

    def opened(self, x: Array) -> Set:
        oracle, numbers = opened(self.oracle, x)
        return Oracle(oracle, (numbers,)) if numbers else self

    def start(self, shape: Shape, dtype: Any) -> Array:
        return self.lmo(jnp.zeros(shape, dtype)).x

    def computes_in_double(self, g: Array) -> bool:
        return computes_in_double(partial(self.oracle, *self.args), g)


@pytree("constraint")
class Host(Set):
    """Set of the core whose oracle runs on the host: each call copies a gradient there and a vertex back.

    Parameters
    ----------
    constraint : ConstraintSet
        Any set of the core.

    See Also
    --------
    as_jax_set : Compiled form of a set, if there is one.
    fwflow.ConstraintSet : Sets of the core.

    Examples
    --------
    >>> import jax.numpy as jnp, fwflow as fw, fwflow.jax as fwj
    >>> f = fwj.Smooth(lambda X: ((X - jnp.eye(3)) ** 2).sum())
    >>> fwj.minimize(f, fwj.Host(fw.Birkhoff(3)), tol=1e-4).x.round(2).diagonal()
    Array([1., 1., 1.], dtype=float32)
    """

    constraint: ConstraintSet
    from_user = True

    @property
    def shape(self) -> Shape | None:  # type: ignore[override]
        return self.constraint.shape

    def lmo(self, g: Array, hint: Vertex | None = None) -> Point:
        return Point(_from_host(lambda g: np.asarray(self.constraint.vertex(g)), g, g.shape))

    def lower_bound(self, g: Array) -> Array:
        C = self.constraint
        return _from_host(lambda g: C.lower_bound(g, C.vertex(g)), g)

    def start(self, shape: Shape, dtype: Any) -> Array:
        return jnp.asarray(np.asarray(self.constraint.start(shape, np.dtype(dtype))))

    def excess(self, x: Array) -> Array:
        """Return the smallest tolerance with which the set contains x, or cannot decide: 0, 1e-8, 1e-4 or 1."""
        C = self.constraint
        return _from_host(
            lambda x: next((t for t in (0.0, 1e-8, 1e-4) if verdict(C.contains(x, t)) is not False), 1.0), x
        )


def _from_host(function: Callable[[Any], Any], x: Array, shape: Shape = ()) -> Array:
    """Return a function of x that is computed on the host in double precision; NaN if x is not finite.

    A callback has single precision unless double precision is enabled everywhere, so that each number is sent as the
    sum of two numbers in single precision.
    """

    def called(high: Any, low: Any) -> Any:
        whole = np.float64(high) + np.float64(low)
        # An exception would end all problems of a batch.
        value = np.asarray(function(whole) if np.isfinite(whole).all() else np.full(shape, np.nan))
        return np.stack([value, value - value.astype(np.float32)]).astype(np.float32)

    high = x.astype(jnp.float32)
    kind = jax.ShapeDtypeStruct((2, *shape), jnp.float32)  # type: ignore[no-untyped-call]
    pair = jax.pure_callback(called, kind, high, (x - high).astype(jnp.float32), vmap_method="sequential")
    return pair.astype(x.dtype).sum(axis=0)


#: Compiled forms of sets of the core, by exact type: a subclass may have an oracle of its own.
_COMPILED: dict[type, Callable[[Any], Set]] = {
    core.L1Ball: lambda C: L1Ball(C.radius),
    core.L2Ball: lambda C: L2Ball(C.radius),
    core.LInfBall: lambda C: LInfBall(C.radius),
    core.LpBall: lambda C: LpBall(C.p, C.radius),
    core.NuclearBall: lambda C: NuclearBall(C.radius),
    core.Simplex: lambda C: Simplex(C.radius),
    core.UnitSimplex: lambda C: UnitSimplex(C.radius),
    core.Box: lambda C: Box(C.lower, C.upper),
    core.Product: lambda C: Product(*zip(*C.blocks, strict=True)),
}


def as_jax_set(C: Any) -> Set:
    """Convert a set of the core to its compiled form, or to a `Host` if it has none. A function becomes an `Oracle`.

    Parameters
    ----------
    C : set of ``fwflow.jax``, ConstraintSet or callable
        A set of this module is returned unchanged.

    See Also
    --------
    Host : Set of the core on the host.
    Oracle : Set given by a callable.

    Examples
    --------
    >>> import fwflow as fw, fwflow.jax as fwj
    >>> fwj.as_jax_set(fw.L1Ball(2.0))
    L1Ball(radius=2.0)
    """
    if isinstance(C, Set):
        return C
    if isinstance(C, ConstraintSet):
        return _COMPILED.get(type(C), Host)(C)
    if callable(C):
        return Oracle(C)
    raise InputError(f"C must be a set or a callable g -> s; got {type(C).__name__}")
