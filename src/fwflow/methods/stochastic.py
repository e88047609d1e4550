"""Stochastic Frank-Wolfe: gradients are estimated from a few rows of the data at a time."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, get_args

import numpy as np

from fwflow._validation import Array, InputError, suggest, whole
from fwflow.methods.base import Iterate, Method, Proposal
from fwflow.methods.multistep import check_tableau, signature
from fwflow.methods.problem import Problem
from fwflow.objectives.base import Batch
from fwflow.points.gradients import as_gradient
from fwflow.points.point import Lifted, Point
from fwflow.steps.schedules import OpenLoop, Schedule
from fwflow.tableau.catalogue import tableaus
from fwflow.tableau.scheme import Tableau, is_convex, stages

EstimatorName = Literal["momentum", "spider", "saga"]


class AveragedBatches:
    r"""Average of batch gradients, with :math:`\rho_t = 4/(t+8)^{2/3}` (Mokhtari, Hassani & Karbasi, 2020).

    .. math:: \theta \leftarrow (1-\rho_t)\theta + \rho_t \nabla f_B(x)
    """

    def __init__(self, problem: Problem, iterate: Iterate, memory: Array | None) -> None:
        self.memory = memory

    def at(self, batch: Batch, rows: Array, x: Array, t: int) -> Array:
        rho, g = 4 / (t + 8) ** (2 / 3), batch.gradient(batch.slopes(x))
        self.memory = g if self.memory is None else (1 - rho) * self.memory + rho * g
        return self.memory


class Spider:
    r"""One full gradient per iteration plus its changes since (Fang et al., 2018; Yurtsever, Sra & Cevher, 2019).

    .. math:: g \leftarrow g + \nabla f_B(x) - \nabla f_B(x_-)
    """

    memory = None

    def __init__(self, problem: Problem, iterate: Iterate, memory: None) -> None:
        assert iterate.known is not None
        self.g, self.x = np.asarray(iterate.known.gradient), iterate.point.x

    def at(self, batch: Batch, rows: Array, x: Array, t: int) -> Array:
        if x is not self.x:
            self.g = self.g + batch.gradient(batch.slopes(x) - batch.slopes(self.x))
            self.x = x
        return self.g


class Saga:
    r"""Mean of the last gradient of every row, corrected by the new gradients of the batch (Defazio et al., 2014).

    The memory has one number per row and target: the derivative of its loss in the prediction.
    """

    def __init__(self, problem: Problem, iterate: Iterate, memory: tuple[Array, Array] | None) -> None:
        data, x = problem.objective.finite_sum, iterate.point.x
        assert data is not None
        slopes, mean = (np.zeros((data.count, *x.shape[1:]), x.dtype), np.zeros_like(x)) if memory is None else memory
        self.slopes: Array = slopes.copy()
        self.mean: Array = mean

    def at(self, batch: Batch, rows: Array, x: Array, t: int) -> Array:
        slopes = batch.slopes(x)
        new = batch.gradient(slopes - self.slopes[rows])
        g = self.mean + new
        self.mean, self.slopes[rows] = self.mean + (len(rows) / len(self.slopes)) * new, slopes
        return g

    @property
    def memory(self) -> tuple[Array, Array]:
        return self.slopes, self.mean


_ESTIMATORS: Mapping[str, type[AveragedBatches | Spider | Saga]] = MappingProxyType(
    {"momentum": AveragedBatches, "spider": Spider, "saga": Saga}
)


@dataclass(frozen=True)
class Stochastic(Method):
    """Frank-Wolfe steps with estimated gradients. One iteration makes as many steps as use every row once.

    The steps mix x without its image, which is computed at the end of the iteration. An iteration costs one pass over
    the data for the estimates, forward and back, and one for the image. The gap at an iterate uses the full gradient.

    Parameters
    ----------
    batch : int
        Number of rows per gradient; 256 by default.
    estimator : {"momentum", "spider", "saga"}
        Estimate of the gradient; "spider" by default. "momentum" averages the gradients of the batches. "spider"
        computes one full gradient per iteration and adds its changes. "saga" keeps one number per row.
    seed : int
        Seed of the random batches; 0 by default. The same seed gives the same run, also if the run is continued from a
        state.
    tableau : Tableau
        Scheme of the steps, by default Euler's. Every stage uses its own batch.
    schedule : Schedule
        Step sizes, by default ``OpenLoop()``.

    See Also
    --------
    LinearModel : Objective with rows.
    fwflow.designs.open : Data larger than memory.

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> A = np.random.default_rng(0).standard_normal((5000, 20))
    >>> f = fw.LinearModel(A, A[:, :3].sum(axis=1))
    >>> r = fw.minimize(f, fw.L1Ball(2.0), method=fw.Stochastic(batch=50, estimator="saga"), tol=1e-2)
    >>> r.success, r.n_design < fw.minimize(f, fw.L1Ball(2.0), method="fw", tol=1e-2).n_design
    (True, True)
    """

    batch: int = 256
    estimator: EstimatorName = "spider"
    seed: int = 0
    tableau: Tableau = tableaus["euler"]
    schedule: Schedule = field(default_factory=OpenLoop)

    def __post_init__(self) -> None:
        check_tableau(self.tableau)
        whole(self.batch, "batch", 1)
        whole(self.seed, "seed", 0)
        if self.estimator not in get_args(EstimatorName):
            raise InputError(f"estimator={self.estimator!r} is not known; {suggest(self.estimator, _ESTIMATORS)}")

    @property
    def signature(self) -> str:
        return signature(self, self.tableau)

    @property
    def uses_iterate(self) -> bool:
        return self.estimator == "spider"

    check_every = 10
    lifts = False

    def init(self, problem: Problem, x: Point) -> Any:
        if problem.objective.finite_sum is None:
            raise InputError('method="stochastic" needs a mean over rows of data: a LinearModel without an intercept')
        return None

    def step(self, problem: Problem, iterate: Iterate, memory: Any) -> Proposal:
        data = problem.objective.finite_sum
        assert data is not None
        count = data.count
        size, rng = min(self.batch, count), np.random.default_rng([self.seed, iterate.k])
        steps = math.ceil(count / (size * self.tableau.stages))
        estimator = _ESTIMATORS[self.estimator](problem, iterate, memory)
        x, convex, gap, gammas = iterate.point.bare(), True, math.nan, [0.0]
        for t in problem.in_time(range(iterate.k * steps, (iterate.k + 1) * steps)):

            def target(i: int, x_bar: Point, t: int = t) -> Lifted:
                nonlocal gap
                rows = np.unique(rng.integers(count, size=size)) if size < count else np.arange(count)
                g = as_gradient(estimator.at(data.batch(rows), rows, x_bar.x, t))
                s = problem.lmo(g, lift=False)
                gap = g.inner(x_bar) - g.dot(s.vertex)
                return s

            gammas = self.schedule.stage_gammas(t, self.tableau.omega.tolist())
            W, p = self.tableau.mixture(gammas)
            x = x.mix(zip(p, stages(x, W, target), strict=True))
            convex = convex and is_convex(p)
        return Proposal(problem.objective.refresh(x), gammas[0], estimator.memory, gap, mixture=convex)
