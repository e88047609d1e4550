"""Corrective Frank-Wolfe: add the best vertices, then minimise over the weights of the active set before going on.

Everything on the active set comes from the images of its atoms, at a cost of O(m |S|) per gradient and O(m |S|^2) per
Newton step: one pass over the data per iteration, however much is corrected in between.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from fwflow._validation import Array
from fwflow.methods.active import ActiveSet
from fwflow.methods.base import Proposal
from fwflow.objectives.base import Restricted
from fwflow.points import Point
from fwflow.problem import Evaluation, Problem
from fwflow.steps import Exact


@dataclass(frozen=True)
class Corrective:
    """Per pass over the data, add several vertices and correct all weights by Newton's method.

    Parameters
    ----------
    vertices : int
        Most vertices that a pass may add. Sets whose oracle is a sort (L1 ball, simplex) offer that many; others one.
    accuracy : float
        The weights are corrected until their own gap is this share of the full one.
    """

    vertices: int = 20
    accuracy: float = 0.1

    @property
    def uses_iterate(self) -> bool:
        return True

    def init(self, problem: Problem, x: Point) -> ActiveSet:
        return ActiveSet((x,), np.ones(1))

    def step(
        self, problem: Problem, k: int, x: Point, fun: float, known: Evaluation | None, memory: ActiveSet
    ) -> Proposal:
        assert known is not None
        best = problem.constraint.best_vertices(known.gradient, self.vertices, known.vertex.vertex)
        here = x.inner(known.gradient)
        useful = [v for v in best[1:] if v.dot(known.gradient) < here]
        active = memory.joined([known.vertex, *map(problem.objective.lift, useful)])
        restricted = problem.objective.restricted(active.atoms)
        weights = minimise_on_simplex(restricted, active.weights, self.accuracy * known.gap)
        corrected = ActiveSet(active.atoms, weights).pruned()
        return Proposal(corrected.point(x), float(np.abs(weights - active.weights).sum() / 2), corrected)


def minimise_on_simplex(f: Restricted, weights: Array, tol: float, most: int = 50) -> Array:
    """Weights whose gap on the simplex is at most `tol`: Newton steps, each an exact quadratic program."""
    for _ in range(most):
        g = f.gradient(weights)
        if g @ weights - g.min() <= tol:
            break
        H = f.hessian(weights)
        d = simplex_qp(H, g - H @ weights, weights) - weights
        line = f.along(weights, d)
        length, _ = Exact().step(line, 1.0, 1.0, None)
        if length == 0:
            break
        weights = np.maximum(weights + length * d, 0.0)
        weights /= weights.sum()
    return weights


def simplex_qp(H: Array, c: Array, weights: Array) -> Array:
    r"""Minimise :math:`\tfrac12 w^T H w + c^T w` over the simplex by a primal active-set method, from `weights`.

    On the free weights a Newton step keeps their sum; it stops at the first weight that vanishes, which is fixed.
    When the step is whole, the fixed weight with the smallest derivative is freed, until none is below the others.
    """
    n = len(c)
    w = weights.copy()
    H = H + 1e-12 * max(float(np.trace(H)) / n, 1e-300) * np.eye(n)  # duplicate atoms make H singular
    free = w > 0
    size = float(np.abs(c).max()) + float(np.abs(H).max())
    for _ in range(20 * n + 100):
        g = H @ w + c
        index = np.flatnonzero(free)
        solved = scipy.linalg.solve(
            H[np.ix_(index, index)],
            np.column_stack([g[index], np.ones(len(index))]),
            assume_a="pos",
            check_finite=False,
        )
        level = solved[:, 0].sum() / solved[:, 1].sum()  # the multiplier of the sum
        d = level * solved[:, 1] - solved[:, 0]
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            ratios = np.where(d < 0, -w[index] / d, np.inf)
        blocking = int(ratios.argmin())
        if ratios[blocking] < 1:
            w[index] += ratios[blocking] * d
            w[index[blocking]] = 0.0
            free[index[blocking]] = False
            continue
        w[index] = np.maximum(w[index] + d, 0.0)
        g = H @ w + c
        candidates = np.where(free, np.inf, g)
        best = int(candidates.argmin())
        if candidates[best] >= float(g @ w) - 1e-14 * size:
            break
        free[best] = True
    return w / w.sum()
