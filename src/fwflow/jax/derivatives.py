"""How does the solution move with the data? Implicit differentiation on the face on which it lies."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.sparse.linalg import cg

from fwflow.jax.objectives import Objective
from fwflow.jax.sets import Set, as_jax_set
from fwflow.jax.solve import minimize
from fwflow.jax.trees import Array, epsilon, inner


def solution(f: Objective, C: Set | Any, x0: Any = None, **options: Any) -> Array:
    r"""The minimiser as a function that JAX can differentiate, in the radius and in all arrays of f.

    On an L1 ball or simplex the optimality conditions hold on the face of the solution, which small changes of the
    data do not leave: its entries that are not zero, with their signs, and their sum,

    .. math:: \nabla_S f(x) + \lambda\sigma_S = 0, \qquad \sigma_S^T x_S = r,

    and are differentiated as they stand. That needs a solution that is exact enough to know its face (``tol``), and an
    f that is strictly convex on it. Other sets are not offered. The solution itself costs no more than by `minimize`,
    a derivative the products with the Hessian of some steps of conjugate gradients.

    Parameters
    ----------
    f, C, x0
        As for `minimize`.
    **options
        Its other arguments.

    Returns
    -------
    array

    Examples
    --------
    >>> import jax, jax.numpy as jnp, fwflow.jax as fwj
    >>> f = fwj.LinearModel(jnp.eye(3), jnp.array([3.0, 2.0, 0.1]))
    >>> slopes = jax.jit(jax.jacobian(lambda radius: fwj.solution(f, fwj.L1Ball(radius))))
    >>> slopes(2.0).round(3)
    Array([0.5, 0.5, 0. ], dtype=float32)
    """
    C = as_jax_set(C)
    still_f, still_C = lax.stop_gradient((f, C))
    x = lax.stop_gradient(minimize(still_f, still_C, x0, **options).x)
    face = C.face(x)
    if face is None:
        raise ValueError(f"C must be an L1Ball or a Simplex to differentiate in its data; got {C!r}")
    inside, normal = face.inside, lax.stop_gradient(face.normal)
    length2 = jnp.maximum(inner(normal, normal), 1)

    def along(v: Array) -> Array:
        v = jnp.where(inside, v, 0)
        return v - (inner(normal, v) / length2) * normal

    def curved(v: Array) -> Array:
        return jax.jvp(lambda x: still_f.gradient(still_f.point(x)), (x,), (v,))[1]

    def moving(value: Array) -> Array:
        """Zero, with the derivative of a value."""
        return value - lax.stop_gradient(value)

    outward = (moving(face.level) / length2) * normal
    push = moving(f.gradient(f.point(x))) + curved(outward)
    change = lax.custom_linear_solve(
        lambda v: along(curved(along(v))) + (v - along(v)),
        -along(push),
        solve=partial(_solved, steps=10 * x.size),
        symmetric=True,
    )
    return x + outward + along(change)


def _solved(operator: Callable[[Array], Array], b: Array, steps: int) -> Array:
    return cg(operator, b, tol=10 * epsilon(b.dtype), maxiter=steps)[0]  # type: ignore[no-untyped-call]
