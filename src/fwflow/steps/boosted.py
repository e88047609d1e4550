"""Boosted Frank-Wolfe: mixtures of vertices that are better aligned with the steepest descent."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from fwflow._validation import Array, InputError, number, whole
from fwflow.points.point import Atom, Point
from fwflow.steps.momentum import GradientAt, Momentum, Oracle
from fwflow.steps.searches import TimeIsUp


@dataclass(frozen=True)
class Boosted(Momentum):
    r"""Move towards a mixture of several vertices, found by matching pursuit of :math:`-\nabla f(\bar x)`.

    A round adds to the direction d the vertex that is best aligned with the residual :math:`-\nabla f(\bar x) - d`,

    .. math::
        v = \mathrm{LMO}(\nabla f(\bar x) + d), \quad
        d \leftarrow d + \lambda (v - \bar x), \quad
        \lambda = \frac{\langle -\nabla f(\bar x) - d, v - \bar x\rangle}{\|v - \bar x\|^2},

    and rescales d to be closest to the steepest descent. Rounds end when they no longer improve the alignment of d.
    Divided by the sum of the :math:`\lambda`, d leads to a mixture of the vertices (Combettes & Pokutta, ICML 2020).

    Parameters
    ----------
    rounds : int
        Largest number of oracle calls of a stage; 20 by default.
    least : float
        Least relative improvement, in a round, of the cosine of the angle to the steepest descent; 0.001 by default.
        The cosines are small on a face.

    See Also
    --------
    Nesterov : Momentum of the paper.
    LMOAveraging : Averages of vertices.
    minimize : Takes it as ``momentum``.

    Examples
    --------
    ``method="boosted"`` is "fw" with this momentum and an exact line search. It works with any tableau:

    >>> import numpy as np, fwflow as fw
    >>> f, C = fw.Quadratic(np.eye(3), [0.5, 0.4, 0.1]), fw.Simplex()
    >>> fw.minimize(f, C, method="boosted").nit < fw.minimize(f, C, method="fw", line_search="exact").nit
    True
    >>> fw.minimize(f, C, method="heun", momentum=fw.Boosted(rounds=5), tol=1e-3).success
    True
    """

    rounds: int = 20
    least: float = 1e-3
    uses_iterate = True

    def __post_init__(self) -> None:
        whole(self.rounds, "rounds", 1)
        number(self.least, "least", "lie strictly between 0 and 1", lambda x: 0 < x < 1)

    def aim(self, x_bar: Point, gamma: float, memory: Any, gradient: GradientAt, oracle: Oracle) -> tuple[Atom, Any]:
        if x_bar.factored:
            raise InputError(
                "boosting adds gradients and directions, which factored x does not support; use another method"
            )
        exact = gradient(x_bar)
        g = exact / (float(np.abs(exact).max()) or 1.0)  # Squares neither overflow nor vanish.
        aimed: list[tuple[float, Atom]] = []
        d, cosine, unit = np.zeros_like(g), -1.0, 1.0
        for _ in range(self.rounds):
            try:
                v = oracle(g + d if aimed else exact)
            except TimeIsUp:
                break
            u = np.asarray(v.vertex, dtype=g.dtype).reshape(g.shape) - x_bar.x
            size = float(np.abs(u).max()) or 1.0
            u, unit = u / size, unit if aimed else size
            along = -_dot(g + d, u) / (_dot(u, u) or 1.0)
            turned = d + along * u
            scale = -_dot(g, turned) / (_dot(turned, turned) or 1.0)  # This length brings it closest to -g.
            found, turned = [(scale * w, s) for w, s in [*aimed, (along * (unit / size), v)]], scale * turned
            if (better := _cosine(-g, turned)) < cosine + self.least * abs(cosine):
                break
            aimed, d, cosine = found, turned, better
        if len(aimed) <= 1:
            return aimed[0][1] if aimed else v, None
        total = sum(w for w, _ in aimed)
        return x_bar.mix((w / total, s) for w, s in aimed), None


def _dot(a: Array, b: Array) -> float:
    return float(np.vdot(a, b))


def _cosine(a: Array, b: Array) -> float:
    size = math.sqrt(_dot(a, a)) * math.sqrt(_dot(b, b))
    return _dot(a, b) / size if size > 0 else -1.0
