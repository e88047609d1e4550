"""Corrective steps for factored matrices: minimise over the span of the factors, enlarged by singular vectors.

With orthonormal bases P and Q of the factors and of the gradient's leading singular vectors, X = P M Q^T, and the
nuclear norm of X is that of the small M: accelerated projected gradient on M needs an SVD of its size and products with
the observed entries only. Memory stays O(nnz + rank (rows + cols)).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fwflow._validation import Array
from fwflow.methods.base import Proposal
from fwflow.objectives.completion import MatrixCompletion
from fwflow.points import LowRank, Point, RankOne
from fwflow.problem import Evaluation, Problem
from fwflow.sets.matrices import NuclearBall
from fwflow.sets.vectors import L1Ball


@dataclass(frozen=True)
class SpanCorrective:
    """Per pass, add several singular vectors of the gradient and correct the whole matrix within the span.

    Parameters
    ----------
    vectors : int
        Singular vectors of the gradient that a pass adds, beside the oracle's own.
    accuracy : float
        The correction ends when its own gap is this share of the full one.
    most : int
        Most steps of a correction.
    """

    vectors: int = 10
    accuracy: float = 0.3
    most: int = 40

    #: Only the singular vectors of the oracle's answer are used.
    lifts: ClassVar[bool] = False

    @property
    def uses_iterate(self) -> bool:
        return True

    def init(self, problem: Problem, x: Point) -> tuple[Array, float]:
        if not isinstance(problem.constraint, NuclearBall):
            raise ValueError(
                f'method="corrective" for factored matrices needs a NuclearBall; got {problem.constraint!r}'
            )
        rows, cols = x.x.shape
        block = np.random.default_rng(0).standard_normal((rows, min(self.vectors, rows, cols)))
        return block.astype(x.x.dtype), 1.0

    def step(
        self, problem: Problem, k: int, x: Point, fun: float, known: Evaluation | None, memory: tuple[Array, float]
    ) -> Proposal:
        assert known is not None
        f, ball, vertex = problem.objective, problem.constraint, known.vertex.vertex
        assert isinstance(f, MatrixCompletion)
        assert isinstance(ball, NuclearBall)
        assert isinstance(vertex, RankOne)
        block, smoothness = memory
        G = known.gradient.matrix
        for _ in range(3):  # subspace iteration, warm from the pass before
            block = np.linalg.qr(G @ (G.T @ block))[0]
        P = np.linalg.qr(np.column_stack([x.x.U, vertex.u, block]))[0]
        Q = np.linalg.qr(np.column_stack([x.x.V, vertex.v, G.T @ block]))[0]
        M = (P.T @ x.x.U) @ (x.x.V.T @ Q)
        M, image, smoothness = self._correct(f, ball, P, Q, M, x, self.accuracy * known.gap, smoothness)
        left, sigma, right = np.linalg.svd(M, full_matrices=False)
        corrected = LowRank.from_factors(P @ (left * sigma), Q @ right.T)
        return Proposal(Point(corrected, image), 1 / smoothness, (block, smoothness))

    def _correct(
        self,
        f: MatrixCompletion,
        ball: NuclearBall,
        P: Array,
        Q: Array,
        M: Array,
        x: Point,
        tol: float,
        smoothness: float,
    ) -> tuple[Array, Array, float]:
        """Accelerated projected gradient on M with its image, until its gap in the span is at most `tol`."""
        assert x.image is not None
        before, last = M, x.image
        ahead, seen = M, x.image  # the extrapolated point and its image
        t = 1.0
        for step in range(self.most):
            g = P.T @ (f.gradient_matrix(seen) @ Q)
            # The gradient is the extrapolated point's, so this gap is an estimate; three steps make it a good one.
            if step >= 3 and float(np.vdot(g, before)) + ball.radius * float(np.linalg.norm(g, 2)) <= tol:
                break
            value = f.value(Point(None, seen))
            while True:
                M = _project(ahead - g / g.dtype.type(smoothness), ball.radius)
                image = f.entries(P @ M, Q)
                d = M - ahead
                bound = smoothness * float(np.vdot(d, d))
                curvature = f.factor * f.loss.curvature * float(np.sum((image - seen) ** 2))
                excess = f.value(Point(None, image)) - value - float(np.vdot(g, d))
                if bound == 0 or curvature <= bound or excess <= 0.5 * bound:
                    break
                smoothness *= 2
            restart = float(np.vdot(ahead - M, M - before)) > 0
            following = 1.0 if restart else (1 + math.sqrt(1 + 4 * t**2)) / 2
            beta = 0.0 if restart else (t - 1) / following
            ahead, seen = M + beta * (M - before), image + beta * (image - last)
            before, last, t, smoothness = M, image, following, 0.8 * smoothness
        return before, last, smoothness


def _project(M: Array, radius: float) -> Array:
    """The nearest matrix of that nuclear norm: the projection of its singular values."""
    left, sigma, right = np.linalg.svd(M, full_matrices=False)
    return (left * L1Ball(radius).project(sigma)) @ right
