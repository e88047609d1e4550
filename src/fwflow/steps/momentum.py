"""Momentum: targets of stages from averages of gradients or of vertices."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from fwflow._validation import check_number, find
from fwflow.points.point import Atom, Lifted, Point

#: Public names of fwflow.
__all__ = ["GradientAveraging", "LMOAveraging", "Momentum", "Nesterov"]

GradientAt = Callable[[Point], Any]
Oracle = Callable[[Any], Lifted]


class Momentum(ABC):
    """Rule that chooses the point towards which a stage moves.

    This point is called the target of the stage. A new momentum needs `aim`, which uses gradients, the oracle and a
    memory. The memory is None at first. It consists of arrays, numbers, points, atoms, gradients, and containers of
    these.

    See Also
    --------
    Nesterov : Momentum of the paper.
    GradientAveraging : Averages of gradients.
    LMOAveraging : Averages of vertices.
    """

    #: Whether the first stage uses the gradient at the iterate, so that the trace needs no further gradient.
    uses_iterate: bool = False
    #: Whether only sums and multiples of gradients are used. Gradients then need not be arrays.
    linear: bool = False

    @abstractmethod
    def aim(self, x_bar: Point, gamma: float, memory: Any, gradient: GradientAt, oracle: Oracle) -> tuple[Atom, Any]:
        """Return the target of a stage at x_bar with step size gamma, and the memory for the next stage.

        ``gradient(point)`` is an array, or a `Gradient` if the momentum is linear; ``oracle(g)`` takes either.
        """


@dataclass(frozen=True)
class Nesterov(Momentum):
    r"""Momentum of Chen and Sun: at every stage, the oracle receives an average of gradients.

    The scheme is that of Li and coauthors (2020), with three variables y, theta and v:

    .. math::
        y = (1-\gamma_i)\bar x_i + \gamma_i v, \quad
        \theta \leftarrow (1-\gamma_i)\theta + \gamma_i \nabla f(y), \quad
        v \leftarrow \mathrm{LMO}(\theta)

    The initial values are v = x and theta = 0.

    See Also
    --------
    GradientAveraging : Averages of gradients.
    LMOAveraging : Averages of vertices.

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> f = fw.Quadratic(np.eye(3), [0.5, 0.4, 0.1])
    >>> r = fw.minimize(f, fw.Simplex(), method="rk44", momentum=fw.Nesterov(), tol=1e-3)
    >>> r.success
    True
    """

    linear = True

    def aim(self, x_bar: Point, gamma: float, memory: Any, gradient: GradientAt, oracle: Oracle) -> tuple[Lifted, Any]:
        if memory is None:
            theta = gamma * gradient(x_bar)
        else:
            theta, v = memory
            theta = (1 - gamma) * theta + gamma * gradient(x_bar.mix([(gamma, v)]))
        v = oracle(theta)
        return v, (theta, v)


@dataclass(frozen=True)
class _Averaging(Momentum):
    """Average in which the newest term has the weight gamma^a."""

    exponent: float = 0.5
    uses_iterate = True
    linear = True

    def __post_init__(self) -> None:
        check_number(self, "exponent", "lie in (0, 1]", lambda x: 0 < x <= 1)

    def _weight(self, gamma: float) -> float:
        # With gamma > 1 the average consists of the new term only.
        return min(1.0, float(gamma**self.exponent))


class GradientAveraging(_Averaging):
    r"""Vertex of the oracle for an average of gradients.

    .. math:: \theta \leftarrow (1-\gamma_i^a)\theta + \gamma_i^a\nabla f(\bar x_i), \quad v = \mathrm{LMO}(\theta)

    Parameters
    ----------
    exponent : float
        Exponent a in (0, 1]; 0.5 by default. A larger one gives old gradients more weight.

    See Also
    --------
    LMOAveraging : Averages of vertices.
    Nesterov : Momentum of the paper.

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> f = fw.Quadratic(np.eye(3), [0.5, 0.4, 0.1])
    >>> fw.minimize(f, fw.Simplex(), momentum=fw.GradientAveraging(0.8), tol=1e-2).success
    True
    """

    def aim(self, x_bar: Point, gamma: float, memory: Any, gradient: GradientAt, oracle: Oracle) -> tuple[Lifted, Any]:
        weight, g = self._weight(gamma), gradient(x_bar)
        theta = g if memory is None else (1 - weight) * memory + weight * g
        return oracle(theta), theta


class LMOAveraging(_Averaging):
    r"""Average of vertices, :math:`\bar s \leftarrow (1-\gamma_i^a)\bar s + \gamma_i^a s_i`.

    Averages do not jump like vertices, which reduces the zig-zagging of Frank-Wolfe (Chen & Sun, "Reducing
    Discretization Error in the Frank-Wolfe Method", AISTATS 2023).

    Parameters
    ----------
    exponent : float
        Exponent a in (0, 1]; 0.5 by default. A larger one gives old vertices more weight.

    See Also
    --------
    GradientAveraging : Averages of gradients.
    ZigZag : Measures zig-zagging.

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> f = fw.Quadratic(np.eye(3), [0.5, 0.4, 0.1])
    >>> fw.minimize(f, fw.Simplex(), momentum=fw.LMOAveraging(), tol=1e-2).success
    True
    """

    def aim(self, x_bar: Point, gamma: float, memory: Any, gradient: GradientAt, oracle: Oracle) -> tuple[Atom, Any]:
        s = oracle(gradient(x_bar))
        average = x_bar.mix([(1.0, s)]) if memory is None else memory.mix([(self._weight(gamma), s)])
        return average, average


def extrapolation(t: Any, sqrt: Callable[[Any], Any] = math.sqrt) -> tuple[Any, Any]:
    """Return the next t of FISTA and the weight of its extrapolation (Beck & Teboulle 2009, equations 4.2 and 4.3)."""
    following = (1 + sqrt(1 + 4 * t**2)) / 2
    return following, (t - 1) / following


#: Momentum objects by name.
momenta: Mapping[str, Any] = MappingProxyType(
    {"nesterov": Nesterov, "gradient-averaging": GradientAveraging, "lmo-averaging": LMOAveraging}
)


def find_momentum(momentum: str | Momentum | None) -> Momentum | None:
    """Return the momentum of that name, or the object itself."""
    return None if momentum is None else find(momentum, "momentum", momenta, Momentum)
