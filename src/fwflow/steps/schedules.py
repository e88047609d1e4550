"""Schedules: the mixing coefficients gamma(t) of the flow, which the stages of a step sample."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from fwflow._numerics import namespace
from fwflow._validation import number, positive
from fwflow.tableau.scheme import Tableau, is_convex

#: Public names of fwflow.
__all__ = ["ConstantSchedule", "LogOpenLoop", "OpenLoop", "Schedule"]


@dataclass(frozen=True)
class Schedule(ABC):
    """The mixing coefficient gamma(t) of the flow, sampled at ``t = (k0 + k) delta``."""

    @abstractmethod
    def gamma(self, t: float) -> float:
        """The mixing coefficient at time t."""

    @property
    def delta(self) -> float:
        """Length of a step in time."""
        return 1.0

    @property
    def k0(self) -> int:
        """Number of the first step."""
        return 0

    def stage_gammas(self, k: int, omega: Sequence[float]) -> list[float]:
        r""":math:`\Delta\,\gamma(t_k + \omega_i \Delta)` for every stage of step k of a run."""
        delta, base = self.delta, self.k0 + k
        return [delta * number(self.gamma((base + w) * delta), "gamma", "be finite", math.isfinite) for w in omega]

    def certifies(self, tableau: Tableau) -> bool:
        """Whether every step of a run is a convex combination, as far as a sample of steps tells."""
        omega = tableau.omega.tolist()
        return all(
            is_convex(tableau.mixture(self.stage_gammas(k, omega))[1]) for k in (*range(20), 50, 100, 10**3, 10**5)
        )


@dataclass(frozen=True)
class OpenLoop(Schedule):
    r""":math:`\gamma(t) = c / (c + t)`, the schedule of the paper.

    Parameters
    ----------
    c : float
        At least 1; the flow converges as :math:`(c/(c+t))^c`.
    delta : float
        Time step: 1 is the optimisation method, small values follow the flow.
    k0 : int
        Number of the first step. From 0 the first step of Frank-Wolfe forgets the starting point.

    Examples
    --------
    >>> import fwflow as fw
    >>> [fw.OpenLoop().gamma(k) for k in (0, 2, 6)]
    [1.0, 0.5, 0.25]
    """

    c: float = 2.0
    delta: float = 1.0
    k0: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "c", number(self.c, "c", "be at least 1 and finite", lambda x: 1 <= x < math.inf))
        object.__setattr__(self, "delta", positive(self.delta, "delta"))
        at_least_0 = number(self.k0, "k0", "be at least 0 and whole", lambda x: 0 <= x < math.inf and x == int(x))
        object.__setattr__(self, "k0", int(at_least_0))

    def gamma(self, t: float) -> float:
        return self.c / (self.c + t)

    def certifies(self, tableau: Tableau) -> bool:
        """Whether every step of a run is a convex combination: decided exactly."""
        first = tableau.certificate(c=self.c, k=self.k0, delta=self.delta).feasible_from
        return first is not None and first <= self.k0


@dataclass(frozen=True)
class LogOpenLoop(Schedule):
    r""":math:`\gamma(t) = (2 + \log(t+1)) / (t + 2 + \log(t+1))`: c grows with the logarithm of time.

    Pokutta, "The Frank-Wolfe algorithm: a short introduction" (arXiv 2311.05313): no constant to choose.
    """

    def gamma(self, t: float) -> float:
        log = math.log if isinstance(t, float | int) else namespace(t).log  # fwflow.jax passes JAX arrays
        c = 2 + log(t + 1)
        return c / (c + t)


@dataclass(frozen=True)
class ConstantSchedule(Schedule):
    """A constant mixing coefficient in (0, 1]. It does not converge to the optimum, only near it."""

    value: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", number(self.value, "value", "lie in (0, 1]", lambda x: 0 < x <= 1))

    def gamma(self, t: float) -> float:
        return self.value
