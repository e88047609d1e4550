"""The flow of losses that are not quadratic: that of a quadratic model, renewed as time goes on."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from fwflow.methods.base import Iterate, Method, Proposal
from fwflow.methods.exact import Event, ExactBoxFlow, ExactFlow, FaceMemory
from fwflow.points import Point
from fwflow.problem import Evaluation, Problem
from fwflow.storage import storable


@storable("sliding-memory")
@dataclass(frozen=True, eq=False)
class SlidingMemory:
    """How far time has gone, where x is heading, all turns so far, and what the flow itself remembers."""

    tau: float
    target: Point
    events: tuple[Event, ...] = ()
    flow: FaceMemory | None = None


@dataclass(frozen=True)
class Sliding(Method):
    """Each iteration follows one model of f for a time `step`, over all of its events; x is where the flow is then.

    The face goes over from model to model. Where vertices no longer quite tie under the new one, its minimiser on the
    face still is where they do, so that the error does not grow: it is of first order in the step.

    Parameters
    ----------
    tau_end, step : float
        When to end and when to renew the model; time is the integral of gamma.
    """

    tau_end: float
    step_length: float

    @property
    def uses_iterate(self) -> bool:
        return False

    @property
    def check_every(self) -> int:
        return self.models

    @property
    def lifts(self) -> bool:
        return True

    @property
    def models(self) -> int:
        """How many models it takes."""
        return max(1, math.ceil(self.tau_end / self.step_length - 1e-9))

    def step(self, problem: Problem, iterate: Iterate, memory: SlidingMemory | None) -> Proposal:
        x, f = iterate.point, problem.objective
        box = problem.constraint.bounds(x.x.shape) is not None
        method = ExactBoxFlow() if box else ExactFlow(foresee=1)  # models change too often to foresee anything
        until = self.tau_end if iterate.k + 1 >= self.models else self.step_length * (iterate.k + 1)
        known: Evaluation | None = None
        if memory is None or memory.flow is None:
            known = iterate.known or problem.evaluate(x)
        if memory is None:
            assert known is not None
            memory = SlidingMemory(0.0, x.mix([(1.0, known.vertex)]))
        tau, target, flow, turns = memory.tau, memory.target, memory.flow, list(memory.events)
        model = f.modelled(x, x.mix([(-math.expm1(tau - until), target)]))
        assert model is not None
        local = replace(problem, objective=model, _joint={})
        if flow is None:
            assert known is not None
            proposal = method.begun(local, x, known, tau)
        else:
            proposal = method.renewed(local, x, target, flow)
        for _ in range(10 * x.x.size + 100):
            flow = proposal.memory
            assert flow is not None
            turns.append(flow.events[-1])
            x = x.mix([(-math.expm1(tau - flow.tau), target)])
            target, tau = proposal.point, flow.tau
            known = local.evaluate(target, lift=False)
            proposal = method.step(local, Iterate(0, target, math.nan, known), flow)
            if proposal.finished or proposal.memory.tau >= until:
                break
        else:  # no polytope, or one of far too many vertices: it goes straight on, and begins anew with the next model
            flow = None
        theta = -math.expm1(tau - until)
        if flow is not None:
            assert known is not None
            ahead = np.asarray(known.gradient, dtype=np.float64)
            flow = replace(flow, gradient=flow.gradient + theta * (ahead - flow.gradient), tau=until, events=())
        return Proposal(x.mix([(theta, target)]), theta, SlidingMemory(until, target, tuple(turns), flow))
