"""Minimum of a convex quadratic over a box, by conjugate gradients on the free variables.

The method is MPRGP (Dostal & Schoberl, 2005): steps of conjugate gradients on the variables between their bounds,
a projected gradient step where one meets a bound, and a step that releases variables where their gradient dominates.
It needs one or two products with the Hessian per step, and no independent columns.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from fwflow._numerics import dot, length
from fwflow._validation import Array
from fwflow.methods.problem import Late, never

# Largest number of steps. Measured on networks of 3000 links: 100 took between 0.8 and 1.0 times as long, and 50 took
# up to 1.2 times as long with more oracle calls. Larger networks need more steps.
_STEPS = 300
# Number of products that estimate the largest eigenvalue, and the factor by which the estimate may be too small.
_POWERS, _MARGIN = 8, 1.2
# Fixed step of projected gradients, in units of the inverse of the largest eigenvalue: less than 2, for convergence.
_FIXED = 1.6
# Curvature of variables without curvature, relative to the largest one. Chosen without tuning.
_RIDGE = 1e-8
# Number of steps between two computations of the gap, which take as long as a step.
_CHECK_EVERY = 10


def box_gap(slopes: Array, values: Array, lower: Array, upper: Array) -> float:
    """Return the largest decrease over the box of the linear function with these slopes: the duality gap."""
    return float(dot(slopes, values - np.where(slopes > 0, lower, upper)))


def minimise_in_box(
    rows: sp.csr_array, second: Any, slopes: Array, lower: Array, upper: Array, tol: float, late: Late = never
) -> Array:
    r"""Return z in the box that nearly minimises :math:`\langle g, z\rangle + z^T R\,\mathrm{diag}(h) R^T z / 2`.

    R are the `rows`, h is `second` and g are the `slopes`, which are those at zero. Zero lies between the bounds. The
    search ends when the gap is at most `tol` times the first one, after 300 steps, or when `late` returns True.
    """
    second = np.broadcast_to(second, rows.shape[1])
    curvature = dot(abs(rows) ** 2, second)
    least = _RIDGE * (float(curvature.max(initial=0.0)) or float(np.abs(slopes).max(initial=0.0)) or 1.0)
    # In these units every variable has curvature one, which is the best diagonal preconditioner that keeps the box.
    unit = 1 / np.sqrt(np.maximum(curvature, least))
    R = sp.csr_array(dot(dot(sp.diags_array(unit), rows), sp.diags_array(np.sqrt(second))))
    transposed = R.T.tocsr()

    def product(v: Array) -> Array:
        return np.asarray(dot(R, dot(transposed, v)))

    lower, upper, g = lower / unit, upper / unit, slopes * unit
    z = np.zeros(len(g))
    enough = tol * box_gap(g, z, lower, upper)
    fixed = _FIXED / (_MARGIN * _largest_eigenvalue(product, g))
    free, chopped = _parts(z, g, lower, upper)
    p = free
    for step in range(_STEPS):
        if step % _CHECK_EVERY == 0 and (box_gap(g, z, lower, upper) <= enough or late()):
            break
        reduced = np.where(free > 0, np.minimum(free, (z - lower) / fixed), np.maximum(free, (z - upper) / fixed))
        proportional = float(dot(chopped, chopped)) <= float(dot(reduced, free))
        p = p if proportional else chopped
        Kp = product(p)
        curved, fall = float(dot(p, Kp)), float(dot(g, p))
        reach = _reach(z, p, lower, upper)
        best = fall / curved if curved * reach > fall else reach
        z, g = np.clip(z - best * p, lower, upper), g - best * Kp
        free, chopped = _parts(z, g, lower, upper)
        if proportional and best < reach:
            p = free - (float(dot(free, Kp)) / curved) * p
            continue
        if proportional:
            target = np.clip(z - fixed * free, lower, upper)
            z, g = target, g + product(target - z)
            free, chopped = _parts(z, g, lower, upper)
        p = free
    return z * unit


def _parts(z: Array, g: Array, lower: Array, upper: Array) -> tuple[Array, Array]:
    """Return the gradient of the free variables, and the part of the others that points into the box."""
    low, high = z <= lower, z >= upper
    free = np.where(low | high, 0.0, g)
    return free, np.where(low & ~high, np.minimum(g, 0.0), 0.0) + np.where(high & ~low, np.maximum(g, 0.0), 0.0)


def _reach(z: Array, p: Array, lower: Array, upper: Array) -> float:
    """Return the largest multiple of -p that stays in the box."""
    moving = p != 0
    room = z[moving] - np.where(p > 0, lower, upper)[moving]
    return float((room / p[moving]).min(initial=np.inf)) if moving.any() else 0.0


def _largest_eigenvalue(product: Any, v: Array) -> float:
    size = 0.0
    for _ in range(_POWERS):
        v = product(v / (length(v) or 1.0))
        size = max(size, length(v))
    return max(size, _RIDGE)
