"""Schedules: step sizes gamma(t) of the flow, which the stages of a step evaluate."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from fwflow._numerics import namespace
from fwflow._validation import check_number, number, positive
from fwflow.tableau.scheme import Tableau, is_convex

#: Public names of fwflow.
__all__ = ["ConstantSchedule", "LogOpenLoop", "OpenLoop", "Schedule"]


@dataclass(frozen=True)
class Schedule(ABC):
    """Step size gamma(t) of the flow, as a function of the time t.

    Step k starts at the time ``t = (k0 + k) delta``, with the number ``k0`` of the first step and the time step
    ``delta``. A new schedule needs `gamma`.

    See Also
    --------
    OpenLoop : Schedule of the paper.
    LogOpenLoop : Schedule without parameters.
    ConstantSchedule : Constant step size.

    Examples
    --------
    >>> import fwflow as fw
    >>> schedule = fw.OpenLoop(c=2.0)
    >>> schedule.stage_gammas(2, [0.0, 1.0]), schedule.certifies(fw.tableaus["heun"])
    ([0.5, 0.4], True)
    """

    #: Length of a step in time.
    delta = 1.0
    #: Number of the first step.
    k0 = 0

    @abstractmethod
    def gamma(self, t: float) -> float:
        """Return the step size at time t."""

    def stage_gammas(self, k: int, omega: Sequence[float]) -> list[float]:
        r"""Return :math:`\Delta\,\gamma(t_k + \omega_i \Delta)` for every stage of step k of a run."""
        delta, base = self.delta, self.k0 + k
        return [delta * number(self.gamma((base + w) * delta), "gamma", "be finite", math.isfinite) for w in omega]

    def certifies(self, tableau: Tableau) -> bool:
        """Return whether all steps in a sample of steps are convex combinations."""
        omega = tableau.omega.tolist()
        return all(
            is_convex(tableau.mixture(self.stage_gammas(k, omega))[1]) for k in (*range(20), 50, 100, 10**3, 10**5)
        )


@dataclass(frozen=True)
class OpenLoop(Schedule):
    r"""Schedule of the paper, :math:`\gamma(t) = c / (c + t)`.

    Parameters
    ----------
    c : float
        Number of at least 1, by default 2; the flow converges as :math:`(c/(c+t))^c`.
    delta : float
        Time step: 1, the default, is the optimisation method, and small values follow the flow.
    k0 : int
        Number of the first step. With 0, the default, the first step of Frank-Wolfe does not depend on the starting
        point.

    See Also
    --------
    LogOpenLoop : Schedule without parameters.
    ConstantSchedule : Constant coefficient.
    rate_bound : Bound on the error of the flow.

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
        check_number(self, "c", "be at least 1 and finite", lambda x: 1 <= x < math.inf)
        object.__setattr__(self, "delta", positive(self.delta, "delta"))
        check_number(self, "k0", "be at least 0 and whole", lambda x: 0 <= x < math.inf and x == int(x))
        object.__setattr__(self, "k0", int(self.k0))

    def gamma(self, t: float) -> float:
        return self.c / (self.c + t)

    def certifies(self, tableau: Tableau) -> bool:
        """Return whether every step of a run is a convex combination; the result is exact."""
        first = _feasible_from(tableau, self.c, self.k0, self.delta)
        return first is not None and first <= self.k0


@lru_cache  # The certificate takes ten times as long as a step of a small problem.
def _feasible_from(tableau: Tableau, c: float, k: int, delta: float) -> int | None:
    return tableau.certificate(c=c, k=k, delta=delta).feasible_from


@dataclass(frozen=True)
class LogOpenLoop(Schedule):
    r"""Schedule without parameters, :math:`\gamma(t) = (2 + \log(t+1)) / (t + 2 + \log(t+1))`.

    Pokutta, "The Frank-Wolfe algorithm: a short introduction" (arXiv 2311.05313).

    See Also
    --------
    OpenLoop : Schedule of the paper.
    ConstantSchedule : Constant coefficient.

    Examples
    --------
    >>> import fwflow as fw
    >>> [round(fw.LogOpenLoop().gamma(k), 3) for k in (0, 2, 6)]
    [1.0, 0.608, 0.397]
    """

    def gamma(self, t: float) -> float:
        log = math.log if isinstance(t, float | int) else namespace(t).log  # fwflow.jax passes JAX arrays
        c = 2 + log(t + 1)
        return c / (c + t)


@dataclass(frozen=True)
class ConstantSchedule(Schedule):
    """Constant step size. It converges only to a neighbourhood of the optimum.

    Parameters
    ----------
    value : float
        The coefficient, in (0, 1].

    See Also
    --------
    OpenLoop : Schedule that converges.
    LogOpenLoop : Schedule without parameters.

    Examples
    --------
    >>> import fwflow as fw
    >>> fw.ConstantSchedule(0.1).gamma(100)
    0.1
    """

    value: float

    def __post_init__(self) -> None:
        check_number(self, "value", "lie in (0, 1]", lambda x: 0 < x <= 1)

    def gamma(self, t: float) -> float:
        return self.value
