"""Checkers for gradients, designs, oracles and tableaus of users.

Each function returns a number that is small for a correct part. Compare it with a tolerance of your choice.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

from fwflow._numerics import dot, norm, quietly
from fwflow._validation import Array
from fwflow.designs import Design
from fwflow.objectives.base import Objective
from fwflow.points.point import Point
from fwflow.sets.base import ConstraintSet
from fwflow.sets.callables import as_set
from fwflow.tableau.scheme import Tableau, stages


def gradient_error(f: Objective, x: Any, *, directions: int = 5, seed: int = 0) -> float:
    """Return the largest relative difference between the gradient and central differences of f at x.

    A correct gradient gives about 1e-7 or less in double precision.

    Parameters
    ----------
    f : Objective
        The function to check.
    x : array_like
        Point at which to compare.
    directions : int
        Number of random directions of the differences; 5 by default.
    seed : int
        Seed of the directions; 0 by default.

    Returns
    -------
    float

    See Also
    --------
    fwflow.Smooth : Function with a gradient of your own.
    adjoint_error : Check of a matrix.
    lmo_excess : Check of an oracle.

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> f = fw.Smooth(lambda x: float((x**4).sum()), lambda x: 4 * x**3)
    >>> fw.checks.gradient_error(f, np.array([1.0, -2.0])) < 1e-7
    True
    """
    rng = np.random.default_rng(seed)
    point = f.point(x)
    dense = np.asarray(f.gradient(point))
    centre = np.asarray(point.x, dtype=np.float64)
    length = max(1.0, float(np.abs(centre).max()))
    h = np.cbrt(np.finfo(dense.dtype).eps) * length
    # The rounding error of the differences is about eps^(2/3) |f| / length.
    scale = max(float(norm(dense)), abs(f.value(point)) / length, 1e-300)
    worst = 0.0
    for _ in range(directions):
        d = rng.standard_normal(centre.shape)
        d /= norm(d)
        difference = (f.value(f.point(centre + h * d)) - f.value(f.point(centre - h * d))) / (2 * h)
        worst = max(worst, abs(difference - float(np.vdot(dense, d))) / max(scale, abs(difference)))
    return float(worst)


def adjoint_error(design: Design, *, seed: int = 0) -> float:
    """Return the relative error of the products of a design.

    It is the larger one of two relative differences: of ``<A x, r>`` and ``<x, A^T r>``, and of a column and a product.

    Parameters
    ----------
    design : Design
        The matrix to check.
    seed : int
        Seed of the random vectors; 0 by default.

    Returns
    -------
    float

    See Also
    --------
    fwflow.Design : Base class of matrices.
    gradient_error : Check of a gradient.

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> from fwflow import designs
    >>> fw.checks.adjoint_error(designs.as_design(np.random.default_rng(0).standard_normal((30, 20)))) < 1e-12
    True
    """
    rng = np.random.default_rng(seed)
    m, n = design.shape
    x, r = (rng.standard_normal(k).astype(design.dtype) for k in (n, m))
    Ax, Ar = np.array(design.matvec(x)), np.array(design.rmatvec(r))
    size = max(float(norm(Ax) * norm(r)), float(norm(x) * norm(Ar)), 1e-300)
    j = int(rng.integers(n))
    product = design.matvec(np.eye(1, n, j, dtype=design.dtype)[0])
    column = float(np.abs(product - design.column(j).to_dense()).max()) / max(float(np.abs(product).max()), 1e-300)
    return max(abs(float(dot(Ax, r)) - float(dot(x, Ar))) / size, column)


def lmo_excess(C: ConstraintSet | Any, g: Array, members: Array) -> float:
    """Return ``<g, s>`` of the oracle's vertex s minus the smallest ``<g, x>`` of members x; at most 0 if correct.

    Parameters
    ----------
    C : ConstraintSet or callable
        The set to check, or its oracle ``g -> s``.
    g : array
        Cost of every entry.
    members : array
        Members of the set, one per row.

    Returns
    -------
    float

    See Also
    --------
    fwflow.ConstraintSet : Base class of sets.
    gradient_error : Check of a gradient.

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> g = np.array([1.0, -2.0, 0.5])
    >>> fw.checks.lmo_excess(fw.L1Ball(1.0), g, np.vstack([np.eye(3), -np.eye(3)]))
    0.0
    >>> fw.checks.lmo_excess(lambda g: -np.sign(g) / 3, g, np.eye(3)) > 0
    True
    """
    value = as_set(C).vertex(g).dot(g)
    others = dot(np.asarray(members, dtype=np.float64).reshape(len(members), -1), g.reshape(-1))
    return float(value - others.min())


def observed_order(tableau: Tableau, *, delta: float = 0.05, halvings: int = 2) -> float:
    r"""Return the order of convergence of a tableau, measured on a smooth differential equation similar to the flow.

    The equation is :math:`x' = \gamma(t)(s(x) - x)` with a smooth target s, from several points over unit time. The
    time step is halved repeatedly, and errors are taken against a solution of much higher accuracy.

    Parameters
    ----------
    tableau : Tableau
        The scheme to check.
    delta : float
        Largest time step; 0.05 by default.
    halvings : int
        Number of times that the step is halved; 2 by default.

    Returns
    -------
    float

    See Also
    --------
    fwflow.Tableau : Its attribute ``order`` follows from the order conditions.
    fwflow.tableaus : Catalogue of tableaus.

    Examples
    --------
    >>> import fwflow as fw
    >>> round(fw.checks.observed_order(fw.tableaus["rk44"]))
    4
    """
    c, rng = 2.0, np.random.default_rng(0)
    M, shift, x0 = rng.standard_normal((4, 4)), rng.standard_normal((4, 1)), rng.uniform(-1, 1, (4, 6))

    def s(x: Array) -> Array:
        return np.sin(dot(M, x) + shift)

    def field(t: float, x: Array) -> Array:
        x = x.reshape(x0.shape)
        return (c / (c + t) * (s(x) - x)).ravel()

    reference = quietly(solve_ivp)(field, (0.0, 1.0), x0.ravel(), method="DOP853", rtol=1e-13, atol=1e-15).y[:, -1]

    def error(steps: int) -> float:
        h, x = 1.0 / steps, Point(x0)
        for k in range(steps):
            W, p = tableau.mixture([h * c / (c + (k + w) * h) for w in tableau.omega.tolist()])
            x = x.mix(zip(p, stages(x, W, lambda _, x_bar: Point(s(x_bar.x))), strict=True))
        return float(norm(x.x.ravel() - reference))

    errors = [error(round(1 / delta) * 2**i) for i in range(halvings + 1)]
    return float(np.mean(np.log2(np.divide(errors[:-1], errors[1:]))))
