"""Derivatives of the solution in the data, by implicit differentiation on the face of the solution."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.sparse.linalg import cg

from fwflow._validation import InputError
from fwflow.jax.objectives import Objective
from fwflow.jax.sets import Set, as_jax_set
from fwflow.jax.solve import minimize
from fwflow.jax.trees import Array, epsilon, inner


def solution(f: Objective, C: Set | Any, x0: Any = None, **options: Any) -> Array:
    r"""Return the minimiser over an L1 ball or a simplex, differentiable in the radius and in all arrays of f.

    For small changes of the data, the solution stays on its face: the set S of its nonzero entries, with signs
    :math:`\sigma`. The optimality conditions on the face,

    .. math:: \nabla_S f(x) + \lambda\sigma_S = 0, \qquad \sigma_S^T x_S = r,

    are differentiated. The solution must be accurate enough to determine its face (``tol``), and f must be strictly
    convex on it. A derivative costs some steps of conjugate gradients, each with a product with the Hessian.

    Parameters
    ----------
    f, C, x0
        As for `minimize`.
    **options
        Other arguments of `minimize`.

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
    atoms = still_C.atoms(x)
    if atoms is None:
        raise InputError(f"C must be an L1Ball or a Simplex to differentiate in its data; got {C!r}")
    signs, used = (part[: x.size].reshape(x.shape) for part in (jnp.sign(atoms[0]), atoms[1] > 0))
    # Weight of the origin: the solution is inside an L1 ball, where there is no face.
    interior = atoms[1][x.size :].sum() > 1e3 * epsilon(x.dtype)
    inside, normal = used | interior, jnp.where(used & ~interior, signs, 0)
    length2 = jnp.maximum(inner(normal, normal), 1)

    def along(v: Array) -> Array:
        """Return the projection of v onto the directions of the face."""
        v = jnp.where(inside, v, 0)
        return v - (inner(normal, v) / length2) * normal

    def curved(v: Array) -> Array:
        return jax.jvp(lambda x: still_f.gradient(still_f.point(x)), (x,), (v,))[1]

    def moving(value: Array) -> Array:
        """Return zero with the derivative of a value."""
        return value - lax.stop_gradient(value)

    outward = (moving(jnp.asarray(C.radius, x.dtype)) / length2) * normal
    push = moving(f.gradient(f.point(x))) + curved(outward)
    change = lax.custom_linear_solve(
        lambda v: along(curved(along(v))) + (v - along(v)),
        -along(push),
        solve=lambda operator, b: cg(operator, b, tol=10 * epsilon(b.dtype), maxiter=10 * x.size)[0],  # type: ignore
        symmetric=True,
    )
    return x + outward + along(change)
