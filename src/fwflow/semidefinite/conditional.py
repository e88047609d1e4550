"""Conditional gradient with augmented Lagrangian (CGAL), the plain reference method for semidefinite programs."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from fwflow._validation import Array
from fwflow.methods.base import Iterate, Proposal, Stepper
from fwflow.semidefinite.augmented import Lagrangian, ScaledProgram, compressed
from fwflow.semidefinite.general import GeneralProgram
from fwflow.semidefinite.program import Factor

_EPS = float(np.finfo(np.float64).eps)


class ConditionalMemory(NamedTuple):
    """Memory of `ConditionalGradient`, in scaled units: factor, multipliers without the penalty's share, and count."""

    Y: Array
    y: Array


@dataclass(frozen=True)
class ConditionalGradient(Stepper):
    r"""Conditional gradient with augmented Lagrangian (CGAL; Yurtsever, Fercoq & Cevher, 2019).

    Step k moves X by :math:`2 / (k + 2)` towards :math:`R v v^T`, where v is the eigenvector of the smallest eigenvalue
    of the gradient, with the penalty :math:`\sqrt{k + 2}`. It is the reference for the other methods, which are faster.
    """

    data: ScaledProgram = field(repr=False)
    repaired: bool = False

    @property
    def comparable(self) -> bool:
        return self.repaired

    def start(self, program: GeneralProgram) -> tuple[Factor, ConditionalMemory]:
        """Return X = 0 and the memory."""
        memory = ConditionalMemory(np.zeros((self.data.problem.n, 1)), np.zeros(len(self.data.b)))
        return self._point(program, memory, 0), memory

    def _point(self, program: GeneralProgram, memory: ConditionalMemory, k: int) -> Factor:
        data = self.data
        f = Lagrangian(data, memory.y, math.sqrt(k + 2))
        y = f.updated(data.cross(memory.Y, memory.Y) - data.b)
        return program.point(data.factor(memory.Y), data.multipliers(y))

    def step(self, problem: GeneralProgram, iterate: Iterate, memory: ConditionalMemory) -> Proposal:
        if problem.proof is not None or iterate.known is None:
            return Proposal(iterate.point, math.nan, memory, finished=True)
        data, k, (Y, y) = self.data, iterate.k, memory
        f = Lagrangian(data, y, math.sqrt(k + 2))
        v, gamma = np.asarray(iterate.known.vertex.vectors)[:, :1], 2 / (k + 2)
        y_now = f.updated(data.cross(Y, Y) - data.b)
        toward = float(np.vdot(v, data.apply_cost(v) - data.apply_adjoint(y_now, v))) < 0
        Y = math.sqrt(1 - gamma) * Y
        if toward:
            Y = np.concatenate([Y, math.sqrt(gamma) * v], axis=1)
        if Y.shape[1] > 2 * min(len(Y), 50):
            Y = compressed(Y, _EPS)
        # The length of the dual step keeps the multipliers bounded (algorithm 1 of the paper, with |A| = 1).
        f = replace(f, penalty=math.sqrt(k + 3))
        violation = f.violation(data.cross(Y, Y) - data.b)
        size = float(np.vdot(violation, violation))
        length = min(1.0, 4 * f.penalty * gamma**2 / size) if size > 0 else 0.0
        y = y - length * violation
        y = np.where(data.signed, np.minimum(y, 0), y)
        memory = ConditionalMemory(Y, y)
        return Proposal(self._point(problem, memory, k + 1), gamma, memory)
