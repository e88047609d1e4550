"""Line searches: step sizes along the combined direction of a step."""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from scipy.optimize import brentq

from fwflow._validation import InputError, number, suggest
from fwflow.objectives.base import Line

#: Public names of fwflow.
__all__ = ["Adaptive", "Aggressive", "Armijo", "ExactSearch", "LineSearch", "ShortStep"]

EPSILON = sys.float_info.epsilon


class TimeIsUp(Exception):
    """The time of the run is over, within a loop that only an exception can leave."""


class LineSearch(ABC):
    """Chooses the length of a step along the combined direction."""

    @property
    def descends(self) -> bool:
        """Whether no step raises a convex f, but for rounding."""
        return False

    @abstractmethod
    def step(self, line: Line, gamma: float, limit: float, memory: Any) -> tuple[float, Any]:
        """The length, and a memory for the next step.

        Given are the objective on the line, the schedule's gamma, the largest feasible length `limit`, and what was
        returned as memory last time (None at first).
        """


@dataclass(frozen=True)
class Aggressive(LineSearch):
    r"""The paper's rule: :math:`\max(\gamma, \bar\gamma)`, with :math:`\bar\gamma` a step as long as f allows.

    :math:`\bar\gamma` is the largest of 1, shrink, shrink^2, ... that decreases f by more than rounding: so the
    paper's figures were made. The formula that it prints asks for less, the largest step *without increase*; with
    ``shrink=None`` that is the rule. It gains nothing wherever it decides and :math:`\bar\gamma < 1`, since f ends
    where it began, and steps between two vertices of equal value for ever.

    Made for convex f, on which steps without increase form an interval.

    Parameters
    ----------
    shrink : float, optional
        In (0, 1). None: the letter of the formula, found to rounding.

    Examples
    --------
    From one vertex of a segment towards the other, at which f is the same:

    >>> import numpy as np, fwflow as fw
    >>> f, C = fw.Quadratic(np.eye(2)), fw.ConvexHull([[-1.0, 0.0], [1.0, 0.0]])
    >>> for search in (fw.Aggressive(), fw.Aggressive(shrink=None)):
    ...     r = fw.minimize(f, C, [1.0, 0.0], schedule=fw.OpenLoop(k0=8), line_search=search, tol=0, max_iter=1)
    ...     print(r.trace["step"][1], r.fun)
    0.5 0.0
    1.0 0.5
    """

    shrink: float | None = 0.5

    def __post_init__(self) -> None:
        if self.shrink is not None:
            object.__setattr__(
                self, "shrink", number(self.shrink, "shrink", "lie strictly between 0 and 1", lambda x: 0 < x < 1)
            )

    def step(self, line: Line, gamma: float, limit: float, memory: Any) -> tuple[float, Any]:
        if line.slope0 >= 0:
            return min(limit, gamma), None
        if self.shrink is None:
            return min(limit, max(gamma, self._without_increase(line, limit))), None
        trial, lower = limit, line.value0 - 4 * EPSILON * abs(line.value0)
        while trial > gamma and not line.value(trial) < lower:
            trial *= self.shrink
        return min(limit, max(gamma, trial)), None

    def _without_increase(self, line: Line, limit: float) -> float:
        if line.quadratic and line.curvature is not None:
            return limit if line.curvature <= 0 else min(limit, -2 * line.slope0 / line.curvature)

        def chord(gamma: float) -> float:  # increasing for convex f, and free of the root at zero
            return (line.value(gamma) - line.value0) / gamma if gamma > 0 else line.slope0

        while not math.isfinite(line.value(limit)) and limit > 1e-15:
            limit /= 2
        if chord(limit) <= 0:
            return limit
        accuracy = 1e-10
        return max(0.0, float(brentq(chord, 0.0, limit, xtol=accuracy, rtol=accuracy)) - 2 * accuracy)


def _finite(line: Line, length: float) -> bool:
    """Whether f is finite there. A black box may be infinite from somewhere on, where its slopes mean nothing."""
    return line.second is not None or line.quadratic or math.isfinite(line.value(length))


@dataclass(frozen=True)
class ExactSearch(LineSearch):
    """The minimiser on the segment: closed form for quadratics, else Newton (secant without second derivatives)."""

    newton: bool = True

    @property
    def descends(self) -> bool:
        return True

    def step(self, line: Line, gamma: float, limit: float, memory: Any) -> tuple[float, Any]:
        if line.slope0 >= 0:
            return 0.0, None
        if line.quadratic and line.curvature is not None:
            return (limit if line.curvature <= 0 else min(limit, -line.slope0 / line.curvature)), None
        found = self._stationary(line, limit)
        while found > 1e-15 * limit and not _finite(line, found):
            found = self._stationary(line, found / 2)
        return found, None

    def _stationary(self, line: Line, limit: float) -> float:
        slope_end = line.slope(limit)
        if slope_end <= 0:
            return limit
        second = line.second if self.newton else None
        low, high = 0.0, limit
        last, last_slope = limit, slope_end
        x, slope = 0.0, line.slope0
        for _ in range(60):
            curvature = second(x) if second else (slope - last_slope) / (x - last)
            last, last_slope = x, slope
            x = x - slope / curvature if curvature > 0 else high
            if not low < x < high:  # the bracket keeps Newton and secant honest
                x = (low + high) / 2
            slope = line.slope(x)
            if abs(slope) <= 1e-10 * abs(line.slope0) or high - low <= 1e-14 * limit or x == last:
                break
            low, high = (x, high) if slope < 0 else (low, x)
        return x


@dataclass(frozen=True)
class ShortStep(LineSearch):
    r""":math:`-\varphi'(0) / \kappa` with a bound :math:`\kappa` on :math:`\varphi''`: the minimiser of an upper bound.

    Linear models know the bound along each direction; `Smooth` needs its ``smoothness``.
    """

    @property
    def descends(self) -> bool:
        return True

    def step(self, line: Line, gamma: float, limit: float, memory: Any) -> tuple[float, Any]:
        if line.curvature is None:
            raise InputError('line_search="short" needs a bound on the curvature: give Smooth(..., smoothness=L)')
        if line.slope0 >= 0:
            return 0.0, None
        return (limit if line.curvature <= 0 else min(limit, -line.slope0 / line.curvature)), None


@dataclass(frozen=True)
class Armijo(LineSearch):
    r"""Halve the step until :math:`\varphi(\gamma) \le \varphi(0) + \sigma\gamma\varphi'(0)`."""

    sigma: float = 1e-4
    shrink: float = 0.5

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "sigma", number(self.sigma, "sigma", "be at least 0 and less than 1", lambda x: 0 <= x < 1)
        )
        object.__setattr__(
            self, "shrink", number(self.shrink, "shrink", "lie strictly between 0 and 1", lambda x: 0 < x < 1)
        )

    @property
    def descends(self) -> bool:
        return True

    def step(self, line: Line, gamma: float, limit: float, memory: Any) -> tuple[float, Any]:
        if line.slope0 >= 0:
            return 0.0, None
        trial = limit
        while trial > 1e-16 * limit:
            if line.value(trial) <= line.value0 + self.sigma * trial * line.slope0:
                return trial, None
            trial *= self.shrink
        return 0.0, None


@dataclass(frozen=True)
class Adaptive(LineSearch):
    r"""Short steps with an estimated smoothness M (Pedregosa et al., AISTATS 2020, arXiv 1806.05123).

    M is lowered before each step and raised until the step passes. The test is that of Pokutta
    (arXiv 2311.05313), :math:`\varphi'(\gamma) \le 0`: unlike a comparison of function values it
    does not drown in rounding close to the optimum.
    """

    relax: float = 0.9
    grow: float = 2.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "relax", number(self.relax, "relax", "lie in (0, 1]", lambda x: 0 < x <= 1))
        object.__setattr__(
            self, "grow", number(self.grow, "grow", "be greater than 1 and finite", lambda x: 1 < x < math.inf)
        )

    @property
    def descends(self) -> bool:
        return True

    def step(self, line: Line, gamma: float, limit: float, memory: Any) -> tuple[float, Any]:
        if line.slope0 >= 0 or line.norm2 == 0:
            return 0.0, memory
        least = -line.slope0 / (limit * line.norm2)  # that of the longest step
        if memory is None:
            trial = 1e-3 * limit
            memory = (line.slope(trial) - line.slope0) / (trial * line.norm2)
        M = self.relax * memory if memory > 1e-100 * least else least  # flat, or below zero by rounding
        for _ in range(100):
            step = min(limit, -line.slope0 / (M * line.norm2))
            if line.slope(step) <= 0 and _finite(line, step):
                return step, M
            M *= self.grow
        return 0.0, M


def _secant() -> ExactSearch:
    """The exact search by slopes alone, also where second derivatives are known."""
    return ExactSearch(newton=False)


#: Line searches by name; each works with every tableau.
line_searches: Mapping[str, Any] = MappingProxyType(
    {
        "aggressive": Aggressive,
        "exact": ExactSearch,
        "short": ShortStep,
        "armijo": Armijo,
        "adaptive": Adaptive,
        "secant": _secant,
    }
)


def find_line_search(search: str | LineSearch | None) -> LineSearch | None:
    """The line search of that name, or the object itself."""
    if not isinstance(search, str):
        if not isinstance(search, LineSearch | None):
            raise InputError(f"line_search must be a name or a LineSearch; got {search!r}")
        return search
    if search not in line_searches:
        raise InputError(f"line_search={search!r} is not known; {suggest(search, line_searches)}")
    return line_searches[search]()
