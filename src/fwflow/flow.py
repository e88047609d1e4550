"""One step of the flow in mixture form, and the flow itself.

The step is pure: it mixes points with what the oracle returns and looks at no array entry.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from fwflow._validation import Array, positive, whole

if TYPE_CHECKING:
    from fwflow.objectives import Objective
    from fwflow.result import Result
    from fwflow.sets import ConstraintSet
    from fwflow.tableaus import Tableau


def stages(point: Any, W: Sequence[Sequence[float]], oracle: Callable[[int, Any], Any]) -> list[Any]:
    r"""The targets :math:`s_i` of the stages :math:`\bar x_i = x + \sum_{j<i} W_{ij}(s_j - x)`.

    ``oracle(i, x_bar)`` gives the target of stage i.
    """
    s: list[Any] = []
    for i, row in enumerate(W):
        s.append(oracle(i, point.mix(zip(row, s, strict=True))))
    return s


def rate_bound(t: ArrayLike, c: float = 2.0) -> Any:
    r"""The flow's bound on its error: :math:`E(t)/E(0) \le (c/(c+t))^c`.

    Examples
    --------
    >>> import fwflow as fw
    >>> float(fw.rate_bound(2.0, c=2.0))
    0.25
    """
    return (c / (c + np.asarray(t, dtype=float))) ** c


@dataclass(frozen=True, eq=False)
class Trajectory:
    """The flow, sampled: times, one point per row, and the objective and gap there."""

    t: Array
    x: Array
    fun: Array
    gap: Array
    result: Result


def flow(
    f: Objective,
    C: ConstraintSet | Callable[[Any], Any],
    x0: Any = None,
    *,
    t_end: float,
    c: float = 2.0,
    delta: float = 1e-2,
    method: str | Tableau = "fw",
    every: int = 1,
    progress: bool = False,
) -> Trajectory:
    r"""Follow :math:`x'(t) = \gamma(t)(s(t) - x(t))`, :math:`\gamma(t) = c/(c+t)`, from 0 to `t_end`.

    Parameters
    ----------
    f, C, x0
        As in `minimize`.
    t_end : float
    c : float
        At least 1.
    delta : float
        Time step; the last sample is the first at or after `t_end`.
    method : str or Tableau
        The scheme that takes the small steps.
    every : int
        Keep every so-many-th point, to bound memory.

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> path = fw.flow(fw.Quadratic(np.eye(2)), fw.L2Ball(1.0), [1.0, 0.0], t_end=1.0)
    >>> error = path.fun / path.fun[0]
    >>> bool((error <= fw.rate_bound(path.t)).all())
    True
    """
    from fwflow.solve import minimize
    from fwflow.steps import OpenLoop

    positive(t_end, "t_end")
    every = whole(every, "every", 1)
    steps = math.ceil(t_end / positive(delta, "delta") - 1e-9)
    kept: list[Array] = []

    def keep(state: Any) -> None:
        if state.k % every == 0:
            kept.append(np.asarray(state.x))

    result = minimize(
        f,
        C,
        x0,
        method=method,
        schedule=OpenLoop(c=c, delta=delta),
        tol=0.0,
        max_iter=steps,
        callback=keep,
        progress=progress,
    )
    sample = slice(0, len(result.trace), every)
    t = delta * np.arange(len(result.trace))
    x = np.stack(kept) if kept else np.zeros((0, *result.x.shape))
    return Trajectory(t[sample], x, result.trace["fun"][sample], result.trace["gap"][sample], result)
