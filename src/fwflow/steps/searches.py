"""Line searches: step sizes along the direction of a step."""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from scipy.optimize import brentq

from fwflow._validation import InputError, check_number, find
from fwflow.objectives.base import Line

#: Public names of fwflow.
__all__ = ["Adaptive", "Aggressive", "Armijo", "ExactSearch", "LineSearch", "Monotonic", "ShortStep"]


# Share of the slope that a step of Newton's method must not leave, if f can grow exponentially. Chosen without tuning.
FALL = 0.25


class TimeIsUp(Exception):
    """The time limit of the run has passed; raised inside of loops that only an exception can leave."""


class LineSearch(ABC):
    """Rule that chooses the length of a step along a given direction.

    See Also
    --------
    ExactSearch : Minimum along the direction.
    Aggressive : Rule of the paper.
    Line : Objective on a segment.
    """

    #: Whether no step increases a convex f, except by rounding.
    descends: bool = False

    @abstractmethod
    def step(self, line: Line, gamma: float, limit: float, memory: Any) -> tuple[float, Any]:
        """Return the length of the step, and a memory for the next call.

        `line` is the objective on the direction, `gamma` the step size of the schedule, `limit` the largest feasible
        length, and `memory` the one that the previous call returned (None at first).
        """


def _parabola_step(line: Line, limit: float, factor: float = 1.0) -> float:
    """Return `factor` times the length at which a parabola with the slope and curvature of the line is minimal."""
    assert line.curvature is not None
    return limit if line.curvature <= 0 else min(limit, -factor * line.slope0 / line.curvature)


@dataclass(frozen=True)
class Aggressive(LineSearch):
    r"""Rule of the paper, :math:`\max(\gamma, \bar\gamma)`, where :math:`\bar\gamma` is a long step that decreases f.

    :math:`\bar\gamma` is the largest of 1, shrink, shrink^2, ... that decreases f by more than rounding, as in the
    figures of the paper. With ``shrink=None`` it is the largest step *without increase* of f, as in the formula of the
    paper. A step of that length with :math:`\bar\gamma < 1` does not change f, so this rule can alternate between two
    vertices of equal value. The search is for convex f, for which steps without increase form an interval.

    Parameters
    ----------
    shrink : float, optional
        Number in (0, 1), by default 0.5, or None for the formula of the paper.

    See Also
    --------
    ExactSearch : Minimum along the direction.
    Armijo : Backtracking with a sufficient decrease.

    Examples
    --------
    Two vertices of a segment at which f has the same value:

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
            check_number(self, "shrink", "lie strictly between 0 and 1", lambda x: 0 < x < 1)

    def step(self, line: Line, gamma: float, limit: float, memory: Any) -> tuple[float, Any]:
        if line.slope0 >= 0:
            return min(limit, gamma), None
        if self.shrink is None:
            return min(limit, max(gamma, self._without_increase(line, limit))), None
        trial, lower = limit, line.value0 - 4 * sys.float_info.epsilon * abs(line.value0)
        while trial > gamma and not line.value(trial) < lower:
            trial *= self.shrink
        return min(limit, max(gamma, trial)), None

    def _without_increase(self, line: Line, limit: float) -> float:
        if line.quadratic:
            return _parabola_step(line, limit, 2.0)

        def chord(gamma: float) -> float:  # It increases for convex f, and has no root at zero.
            return (line.value(gamma) - line.value0) / gamma if gamma > 0 else line.slope0

        while not math.isfinite(line.value(limit)) and limit > 1e-15:
            limit /= 2
        if chord(limit) <= 0:
            return limit
        accuracy = 1e-10
        return max(0.0, float(brentq(chord, 0.0, limit, xtol=accuracy, rtol=accuracy)) - 2 * accuracy)


def _finite(line: Line, length: float) -> bool:
    """Return whether f is finite at this length. Slopes are meaningless where a user's function is infinite."""
    return line.second is not None or line.quadratic or math.isfinite(line.value(length))


@dataclass(frozen=True)
class ExactSearch(LineSearch):
    """Exact line search: the minimum of f along the direction.

    It has a closed form for quadratics. Other functions use Newton's method, or secants.

    Parameters
    ----------
    newton : bool
        Whether to use second derivatives where they are known; True by default.

    See Also
    --------
    Aggressive : Rule of the paper.
    ShortStep : Minimum of an upper bound.

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> f = fw.Quadratic(np.eye(3), [0.5, 0.4, 0.1])
    >>> r = fw.minimize(f, fw.Simplex(), line_search=fw.ExactSearch(), tol=1e-3)
    >>> r.success, r.x.round(2)
    (True, array([0.5, 0.4, 0.1]))
    """

    newton: bool = True
    descends = True

    def step(self, line: Line, gamma: float, limit: float, memory: Any) -> tuple[float, Any]:
        if line.slope0 >= 0:
            return 0.0, None
        if line.quadratic:
            return _parabola_step(line, limit), None
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
        x, slope, slow = 0.0, line.slope0, False
        for _ in range(60):
            curvature = second(x) if second else (slope - last_slope) / (x - last)
            last, last_slope = x, slope
            x = x - slope / curvature if curvature > 0 else high
            if not low < x < high or slow:  # Steps that leave the bracket are replaced by bisection.
                x = (low + high) / 2
            slope = line.slope(x)
            # Where f grows exponentially, a step of Newton's method reduces the slope by a constant factor only.
            slow = line.growth is not None and abs(slope) > FALL * abs(last_slope)
            if abs(slope) <= 1e-10 * abs(line.slope0) or high - low <= 1e-14 * limit or x == last:
                break
            low, high = (x, high) if slope < 0 else (low, x)
        return x


@dataclass(frozen=True)
class ShortStep(LineSearch):
    r"""Short step :math:`-\varphi'(0) / \kappa` with an upper bound :math:`\kappa` on :math:`\varphi''`.

    It minimises a quadratic upper bound of f. Linear models compute :math:`\kappa`; `Smooth` needs its ``smoothness``.
    If the second derivative has no bound but is known to grow at most exponentially, as that of the Poisson loss, the
    step minimises an upper bound with this growth instead.

    See Also
    --------
    Adaptive : Estimates the bound.
    ExactSearch : Minimum along the direction.

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> f = fw.Quadratic(np.eye(3), [0.5, 0.4, 0.1])
    >>> r = fw.minimize(f, fw.Simplex(), line_search=fw.ShortStep(), tol=1e-3)
    >>> r.success
    True
    """

    descends = True

    def step(self, line: Line, gamma: float, limit: float, memory: Any) -> tuple[float, Any]:
        if line.slope0 >= 0:
            return 0.0, None
        if line.curvature is not None:
            return _parabola_step(line, limit), None
        if line.growth is None or line.second is None:
            raise InputError('line_search="short" needs a bound on the curvature: give Smooth(..., smoothness=L)')
        return _self_concordant_step(-line.slope0, line.second(0.0), line.growth, limit), None


def _self_concordant_step(descent: float, curvature: float, growth: float, limit: float) -> float:
    r"""Return the zero of the upper bound :math:`-d + (e^{D\gamma} - 1)\,\kappa / D` of the slope, at most `limit`."""
    if not descent * limit > 0 or curvature <= 0:
        return limit
    ratio = descent / curvature
    return min(limit, math.log1p(growth * ratio) / growth if growth * ratio > 0 else ratio)


@dataclass(frozen=True)
class Armijo(LineSearch):
    r"""Backtracking until f decreases enough: :math:`\varphi(\gamma) \le \varphi(0) + \sigma\gamma\varphi'(0)`.

    Parameters
    ----------
    sigma : float
        Share :math:`\sigma` of the decrease that the slope predicts; 0.0001 by default.
    shrink : float
        Factor in (0, 1) between two trial lengths; 0.5 by default.

    See Also
    --------
    Adaptive : Short steps with an estimated bound.
    ExactSearch : Minimum along the direction.

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> f = fw.Quadratic(np.eye(3), [0.5, 0.4, 0.1])
    >>> r = fw.minimize(f, fw.Simplex(), line_search=fw.Armijo(shrink=0.7), tol=1e-3)
    >>> r.success
    True
    """

    sigma: float = 1e-4
    shrink: float = 0.5
    descends = True

    def __post_init__(self) -> None:
        check_number(self, "sigma", "be at least 0 and less than 1", lambda x: 0 <= x < 1)
        check_number(self, "shrink", "lie strictly between 0 and 1", lambda x: 0 < x < 1)

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

    M is multiplied by ``relax`` before each step, and by ``grow`` until :math:`\varphi'(\gamma) \le 0`. This test of
    Pokutta (arXiv 2311.05313) is not affected by the rounding of function values close to the optimum.

    Parameters
    ----------
    relax : float
        Factor of M before each step, in (0, 1]; 0.9 by default.
    grow : float
        Factor of M after a test that fails; 2 by default.

    See Also
    --------
    ShortStep : The bound is known.
    Armijo : Backtracking with a sufficient decrease.

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> f = fw.Quadratic(np.eye(3), [0.5, 0.4, 0.1])
    >>> r = fw.minimize(f, fw.Simplex(), line_search=fw.Adaptive(), tol=1e-3)
    >>> r.success
    True
    """

    relax: float = 0.9
    grow: float = 2.0
    descends = True

    def __post_init__(self) -> None:
        check_number(self, "relax", "lie in (0, 1]", lambda x: 0 < x <= 1)
        check_number(self, "grow", "be greater than 1 and finite", lambda x: 1 < x < math.inf)

    def step(self, line: Line, gamma: float, limit: float, memory: Any) -> tuple[float, Any]:
        if line.slope0 >= 0 or line.norm2 == 0:
            return 0.0, memory
        least = -line.slope0 / (limit * line.norm2)  # the smoothness that gives the longest step
        if memory is None:
            trial = 1e-3 * limit
            memory = (line.slope(trial) - line.slope0) / (trial * line.norm2)
        # An estimate may be zero, or negative by rounding.
        M = self.relax * memory if memory > 1e-100 * least else least
        for _ in range(100):
            step = min(limit, -line.slope0 / (M * line.norm2))
            if line.slope(step) <= 0 and _finite(line, step):
                return step, M
            M *= self.grow
        return 0.0, M


@dataclass(frozen=True)
class Monotonic(LineSearch):
    r"""Step size of the schedule, halved until the point is in the domain of f and f does not increase.

    With the schedule 2 / (2 + k), f - min f is of order 1 / k for generalised self-concordant functions, whose gradient
    has no Lipschitz constant (Carderera, Besançon and Pokutta, NeurIPS 2021). Examples are the Poisson loss and the
    negative logarithm of a determinant. The rule needs function values only, no constant of f. Methods with an active
    set have no schedule; there the rule starts with the largest feasible step.

    See Also
    --------
    Armijo : Backtracking with a sufficient decrease.
    ShortStep : Uses a bound on the second derivative, or on its growth.

    Examples
    --------
    A D-optimal design: maximise the determinant of a weighted sum of matrices :math:`a_i a_i^T`.

    >>> import numpy as np, fwflow as fw
    >>> A = np.random.default_rng(0).standard_normal((20, 3))
    >>> information = lambda x: A.T * x @ A
    >>> f = fw.Smooth(
    ...     lambda x: -np.linalg.slogdet(information(x))[1],
    ...     lambda x: -np.einsum("ij,ji->i", A, np.linalg.solve(information(x), A.T)),
    ...     domain=lambda x: np.linalg.eigvalsh(information(x))[0] > 1e-12,
    ... )
    >>> r = fw.minimize(f, fw.Simplex(), np.full(20, 1 / 20), line_search="monotonic", tol=1e-2)
    >>> r.success, bool((np.diff(r.trace["fun"]) <= 0).all())
    (True, True)
    """

    descends = True

    def step(self, line: Line, gamma: float, limit: float, memory: Any) -> tuple[float, Any]:
        if line.slope0 >= 0:
            return 0.0, None
        trial = gamma
        # A comparison with NaN is false, so that points at which f is undefined are left.
        while trial > limit or not line.value(trial) <= line.value0:
            trial /= 2
            if trial <= 1e-16 * limit:
                return 0.0, None
        return trial, None


def _secant() -> ExactSearch:
    """Exact line search that uses only slopes, no second derivatives."""
    return ExactSearch(newton=False)


#: Line searches by name.
line_searches: Mapping[str, Any] = MappingProxyType(
    {
        "aggressive": Aggressive,
        "exact": ExactSearch,
        "short": ShortStep,
        "armijo": Armijo,
        "adaptive": Adaptive,
        "secant": _secant,
        "monotonic": Monotonic,
    }
)


def find_line_search(search: str | LineSearch | None) -> LineSearch | None:
    """Return the line search of that name, or the object itself."""
    return None if search is None else find(search, "line_search", line_searches, LineSearch)
