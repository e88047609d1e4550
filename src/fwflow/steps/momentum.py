"""Where do the stages aim? Averages of gradients or of vertices, in place of the plain oracle.

Each object answers, for a stage point and that stage's mixing coefficient, with what the stage
moves towards, and hands its memory on to the next stage.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from fwflow._validation import InputError, number, suggest
from fwflow.points.point import Atom, Lifted, Point

#: Public names of fwflow.
__all__ = ["GradientAveraging", "LMOAveraging", "Momentum", "Nesterov"]

GradientAt = Callable[[Point], Any]
Oracle = Callable[[Any], Lifted]


class Momentum(ABC):
    """Chooses a stage's target from the gradient, the oracle, and its own memory (None at first).

    A new one needs `aim`. Its memory is data: arrays, numbers, points, atoms, gradients, and containers of these.
    """

    @property
    def uses_iterate(self) -> bool:
        """Whether the first stage needs the gradient at the iterate itself, which then costs the trace nothing."""
        return False

    @property
    def linear(self) -> bool:
        """Whether it only takes sums and multiples of gradients: these then come in whatever form they are known."""
        return False

    @abstractmethod
    def aim(self, x_bar: Point, gamma: float, memory: Any, gradient: GradientAt, oracle: Oracle) -> tuple[Atom, Any]:
        """What a stage at x_bar with that mixing coefficient moves towards, and the memory for the next stage.

        ``gradient(point)`` is an array, or a `Gradient` for those that are linear; ``oracle(g)`` takes either.
        """


@dataclass(frozen=True)
class Nesterov(Momentum):
    r"""The three-variable scheme of Li et al. (2020) that the paper adopts, at every stage.

    .. math::
        y = (1-\gamma_i)\bar x_i + \gamma_i v, \quad
        \theta \leftarrow (1-\gamma_i)\theta + \gamma_i \nabla f(y), \quad
        v \leftarrow \mathrm{LMO}(\theta)

    It starts from v = x and theta = 0.
    """

    @property
    def linear(self) -> bool:
        return True

    def aim(self, x_bar: Point, gamma: float, memory: Any, gradient: GradientAt, oracle: Oracle) -> tuple[Lifted, Any]:
        if memory is None:
            theta = gamma * gradient(x_bar)
        else:
            theta, v = memory
            theta = (1 - gamma) * theta + gamma * gradient(x_bar.mix([(gamma, v)]))
        v = oracle(theta)
        return v, (theta, v)


@dataclass(frozen=True)
class GradientAveraging(Momentum):
    r"""Aim at the vertex of an average of gradients.

    .. math:: \theta \leftarrow (1-\gamma_i^a)\theta + \gamma_i^a\nabla f(\bar x_i), \quad v = \mathrm{LMO}(\theta)

    The exponent a in (0, 1] sets how fast old gradients are forgotten.
    """

    exponent: float = 0.5

    @property
    def uses_iterate(self) -> bool:
        return True

    @property
    def linear(self) -> bool:
        return True

    def __post_init__(self) -> None:
        object.__setattr__(self, "exponent", _exponent(self.exponent))

    def aim(self, x_bar: Point, gamma: float, memory: Any, gradient: GradientAt, oracle: Oracle) -> tuple[Lifted, Any]:
        rate = _rate(gamma, self.exponent)
        g = gradient(x_bar)
        theta = g if memory is None else (1 - rate) * memory + rate * g
        return oracle(theta), theta


@dataclass(frozen=True)
class LMOAveraging(Momentum):
    r"""Aim at an average of vertices, :math:`\bar s \leftarrow (1-\gamma_i^a)\bar s + \gamma_i^a s_i`.

    Chen & Sun, "Reducing Discretization Error in the Frank-Wolfe Method" (AISTATS 2023): averaging
    the oracle's answers removes the jumps that make Frank-Wolfe zig-zag. The average is a point of
    the set, not a vertex.
    """

    exponent: float = 0.5

    @property
    def uses_iterate(self) -> bool:
        return True

    @property
    def linear(self) -> bool:
        return True

    def __post_init__(self) -> None:
        object.__setattr__(self, "exponent", _exponent(self.exponent))

    def aim(self, x_bar: Point, gamma: float, memory: Any, gradient: GradientAt, oracle: Oracle) -> tuple[Atom, Any]:
        s = oracle(gradient(x_bar))
        average = x_bar.mix([(1.0, s)]) if memory is None else memory.mix([(_rate(gamma, self.exponent), s)])
        return average, average


def extrapolation(t: Any, sqrt: Callable[[Any], Any] = math.sqrt) -> tuple[Any, Any]:
    """Return the next t of FISTA and the weight of its extrapolation (Beck & Teboulle 2009, equations 4.2 and 4.3)."""
    following = (1 + sqrt(1 + 4 * t**2)) / 2
    return following, (t - 1) / following


def _exponent(value: float) -> float:
    return number(value, "exponent", "lie in (0, 1]", lambda x: 0 < x <= 1)


def _rate(gamma: float, exponent: float) -> float:
    # Steps longer than the time that the flow takes to forget (gamma > 1) forget everything.
    return min(1.0, float(gamma**exponent))


#: Momentum objects by name.
momenta: Mapping[str, Any] = MappingProxyType(
    {"nesterov": Nesterov, "gradient-averaging": GradientAveraging, "lmo-averaging": LMOAveraging}
)


def find_momentum(momentum: str | Momentum | None) -> Momentum | None:
    """The momentum of that name, or the object itself."""
    if not isinstance(momentum, str):
        if not isinstance(momentum, Momentum | None):
            raise InputError(f"momentum must be a name or a Momentum; got {momentum!r}")
        return momentum
    if momentum not in momenta:
        raise InputError(f"momentum={momentum!r} is not known; {suggest(momentum, momenta)}")
    return momenta[momentum]()
