"""Where do the stages aim? Averages of gradients or of vertices, in place of the plain oracle.

Each object answers, for a stage point and that stage's mixing coefficient, with what the stage
moves towards, and hands its memory on to the next stage.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol

from fwflow._validation import number, suggest
from fwflow.points import Lifted, Point

Gradient = Callable[[Point], Any]
Oracle = Callable[[Any], Lifted]


class Momentum(Protocol):
    """Chooses a stage's target from the gradient, the oracle, and its own memory (None at first)."""

    #: Whether the first stage needs the gradient at the iterate itself, which then costs the trace nothing.
    uses_iterate: bool
    # An object may say ``linear = True`` if it only takes sums and multiples of gradients: they may then be lazy.

    def aim(
        self, x_bar: Point, gamma: float, memory: Any, gradient: Gradient, oracle: Oracle
    ) -> tuple[Lifted | Point, Any]: ...


@dataclass(frozen=True)
class Nesterov:
    r"""The three-variable scheme of Li et al. (2020) that the paper adopts, at every stage.

    .. math::
        y = (1-\gamma_i)\bar x_i + \gamma_i v, \quad
        \theta \leftarrow (1-\gamma_i)\theta + \gamma_i \nabla f(y), \quad
        v \leftarrow \mathrm{LMO}(\theta)

    It starts from v = x and theta = 0.
    """

    uses_iterate = False
    linear = True

    def aim(self, x_bar: Point, gamma: float, memory: Any, gradient: Gradient, oracle: Oracle) -> tuple[Lifted, Any]:
        if memory is None:
            theta = gamma * gradient(x_bar)
        else:
            theta, v = memory
            theta = (1 - gamma) * theta + gamma * gradient(x_bar.mix([(gamma, v)]))
        v = oracle(theta)
        return v, (theta, v)


@dataclass(frozen=True)
class GradientAveraging:
    r"""Aim at the vertex of an average of gradients.

    .. math:: \theta \leftarrow (1-\gamma_i^a)\theta + \gamma_i^a\nabla f(\bar x_i), \quad v = \mathrm{LMO}(\theta)

    The exponent a in (0, 1] sets how fast old gradients are forgotten.
    """

    exponent: float = 0.5
    uses_iterate = True
    linear = True

    def __post_init__(self) -> None:
        _check_exponent(self.exponent)

    def aim(self, x_bar: Point, gamma: float, memory: Any, gradient: Gradient, oracle: Oracle) -> tuple[Lifted, Any]:
        rate = _rate(gamma, self.exponent)
        g = gradient(x_bar)
        theta = g if memory is None else (1 - rate) * memory + rate * g
        return oracle(theta), theta


@dataclass(frozen=True)
class LMOAveraging:
    r"""Aim at an average of vertices, :math:`\bar s \leftarrow (1-\gamma_i^a)\bar s + \gamma_i^a s_i`.

    Chen & Sun, "Reducing Discretization Error in the Frank-Wolfe Method" (AISTATS 2023): averaging
    the oracle's answers removes the jumps that make Frank-Wolfe zig-zag. The average is a point of
    the set, not a vertex.
    """

    exponent: float = 0.5
    uses_iterate = True
    linear = True

    def __post_init__(self) -> None:
        _check_exponent(self.exponent)

    def aim(
        self, x_bar: Point, gamma: float, memory: Any, gradient: Gradient, oracle: Oracle
    ) -> tuple[Lifted | Point, Any]:
        s = oracle(gradient(x_bar))
        average = x_bar.mix([(1.0, s)]) if memory is None else memory.mix([(_rate(gamma, self.exponent), s)])
        return average, average


def _check_exponent(exponent: float) -> None:
    number(exponent, "exponent", "lie in (0, 1]", lambda x: 0 < x <= 1)


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
        if momentum is not None and (not hasattr(momentum, "aim") or isinstance(momentum, type)):
            raise ValueError(f"momentum must be a name or have a method aim; got {momentum!r}")
        return momentum
    if momentum not in momenta:
        raise ValueError(f"momentum={momentum!r} is not known; {suggest(momentum, momenta)}")
    return momenta[momentum]()
