"""Verification of a result: the value and the gap are computed again, and compared with function values.

A gap bounds the error only if the gradient belongs to the function values, the oracle returns minimisers, and rounding
is smaller than the tolerance. Parts of the library fulfil the first two conditions. Functions and oracles of users are
compared with function values once, before a run reports a solution.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from fwflow._validation import ours
from fwflow.methods.problem import Evaluation, Problem
from fwflow.objectives.base import Line
from fwflow.points.point import Point
from fwflow.points.vertices import Vertex
from fwflow.run.result import State
from fwflow.sets.base import verdict

# Lengths of the segments on which f is compared with its gradient, as shares of the way to another member. The first
# one ends before that member, where f may be infinite; the others are for functions with a large third derivative.
_SHARES = (1 / 2, 1 / 16, 1 / 128, 1 / 1024)
# Safety factor of the estimated quadrature error. Chosen without tuning, as are the others.
_CAUTION = 10.0
# Relative differences that are accepted: of slopes, and of the terms of which slopes are sums. Gradients by finite
# differences have errors of about 1e-8 of those terms, and noise of 1e-7 is accepted.
_SLOPE_SHARE, _TERM_SHARE = 1e-4, 1e-6
# Oracles may be approximate: a vertex is better than another if it is by this share of the two values.
_ORACLE_SHARE = 1e-2
# Units in the last place up to which a difference of function values counts as rounding.
VALUE_ULPS = 64
_RANDOM = "a random member of the set"
# Number of oracle calls with changed costs for sets of users, and the largest change as a power of ten.
_PROBES, _SPREAD = 4, 2.0


class Checks(ABC):
    """Verification of the points of a run."""

    @abstractmethod
    def verify(self, state: State, point: Point, known: Evaluation | None) -> Verified:
        """Compute value, gap and feasibility of a point again; `known` is an evaluation there."""

    @abstractmethod
    def feasible(self, state: State, point: Point) -> bool | None:
        """Return whether the iterate or the best iterate is feasible; None if that is not known."""

    def contradiction(self, verified: Verified, threshold: float, best: Point | None) -> str:
        """Return a sentence on a contradiction between values and the gap; empty, the default, if there is none.

        `best` is the iterate with the lowest value, None if that is the point itself.
        """
        return ""


class Verified(NamedTuple):
    """A point, its value and certified gap from a new image, the rounding of the gap, and whether it is feasible."""

    point: Point
    fun: float
    gap: float
    rounding: float
    feasible: bool | None
    #: Reason in full sentences why the gap proves nothing; empty if there is none.
    doubt: str = ""
    #: Problem in double precision with complete gradients, the point, and the evaluation there; None if that failed.
    exact: tuple[Problem, Point, Evaluation] | None = None

    def within(self, threshold: float) -> bool:
        """Return whether the point is a solution up to the threshold; 0 stands for the accuracy of f."""
        exact = self.rounding <= (threshold or VALUE_ULPS**2 * float(np.finfo(np.float64).eps) * abs(self.fun))
        return self.gap <= threshold and exact and self.feasible is not False and not self.doubt


def slack(point: Point) -> float:
    """Return the tolerance of membership for points that are results of thousands of rounded mixtures."""
    return 1e-4 if point.x.dtype == np.float32 else 1e-8


@dataclass(frozen=True)
class FunctionChecks(Checks):
    """Verification of the points of `minimize`."""

    problem: Problem

    def verify(self, state: State, point: Point, known: Evaluation | None) -> Verified:
        return _verify(self.problem, state, point, known)

    def feasible(self, state: State, point: Point) -> bool | None:
        return _feasible(self.problem, state, point)

    def contradiction(self, verified: Verified, threshold: float, best: Point | None) -> str:
        return _contradiction(self.problem, verified, threshold, best)


def _feasible(problem: Problem, state: State, point: Point) -> bool | None:
    """Return whether the iterate or the best iterate is in the set; a mixture of members needs no test."""
    inside = state.inside if point is state.point else state.best_inside
    return True if inside else verdict(problem.constraint.contains(point.x, slack(point)))


def _verify(problem: Problem, state: State, point: Point, known: Evaluation | None) -> Verified:
    """Compute value, gap and feasibility of a point again, in double precision; `known` is an evaluation there."""
    objective = problem.objective.precise()
    exact = problem if objective is problem.objective else replace(problem, objective=objective)
    fresh = point
    if objective.dtype not in (None, point.x.dtype):
        fresh = objective.point(point.x)
    elif not point.exact:
        fresh = objective.refresh(point)
    # Members that an objective of a user inherits may have computed `known`, instead of its gradient.
    if known is None or fresh is not point or not ours(problem.objective):
        known = exact.evaluate(fresh, None if known is None else known.vertex, lift=False)
    if known.vertex.image is None and known.vertex.entries() is not None:
        # The image costs a few columns, and its rounding is needed.
        known = known._replace(vertex=objective.lift(known.vertex.vertex))
    inner = known.gradient.inner(fresh)
    least = exact.constraint.lower_bound_at(known.gradient.as_oracle_input(), inner, known.vertex.vertex)
    gap, is_feasible, doubt = inner - least, _feasible(problem, state, point), ""
    size = exact.size(fresh, known)
    if fresh.x.dtype == np.float32:  # a function of the user in single precision, which rounds the difference
        gap = max(0.0, gap) + 8 * float(np.finfo(np.float32).eps) * size if gap >= -slack(point) * size else gap
    if gap < 0:
        # The gap of a member is negative only by rounding, so its absolute value measures the rounding. All terms may
        # cancel if the vertex is the origin; then the first gap gives the size of the terms.
        drift = float(np.finfo(point.x.dtype).eps) * abs(np.nan_to_num(state.first_gap))
        if gap >= -slack(point) * size - drift:
            gap = -gap
        elif is_feasible is not False and not exact.constraint.trusted:
            doubt = _wrong_oracle(
                inner, least, "the last iterate", "either the oracle does not minimise, or x is outside the set"
            )
        else:
            is_feasible = False
    rounding = exact.rounding(fresh, known)
    return Verified(point, exact.raw_value(fresh), gap, rounding, is_feasible, doubt, (exact, fresh, known))


def _contradiction(problem: Problem, verified: Verified, threshold: float, best: Point | None) -> str:
    """Return a sentence on a contradiction between function values and the gap; empty if there is none.

    `best` is the iterate with the lowest value, None if that is the point itself.
    """
    f, C = problem.objective, problem.constraint
    if verified.exact is None or (f.trusted and C.trusted):
        return ""
    exact, x, known = verified.exact
    inner, size = known.gradient.inner(x), exact.size(x, known)
    claimed = max(threshold, verified.gap)
    with np.errstate(all="ignore"):  # f may be infinite at members that are not iterates
        members = _members(problem, exact, x, known, best)
        answers = [(known.gradient.as_oracle_input(), known.vertex.vertex)]
        if not C.trusted or not members:
            answers += _probes(exact, x, known)
        if not C.trusted and (text := _contradictory(answers)):
            return text
        for _, vertex in answers:
            name = "the oracle's vertex" + (" for other costs" if vertex is not known.vertex.vertex else "")
            members.append((name, x.mix([(1.0, exact.objective.lift(vertex))])))
        for name, end in members:
            score = known.gradient.inner(end)
            if inner - score > claimed + _TERM_SHARE * (size + abs(score)):
                return _wrong_oracle(score, known.gradient.dot(known.vertex.vertex), name)
            if not f.trusted and (text := _wrong_gradient(verified, name, end, score - inner, size)):
                return text
    return ""


def _members(
    problem: Problem, exact: Problem, x: Point, known: Evaluation, best: Point | None
) -> list[tuple[str, Point]]:
    """Return members with which the returned point is compared, with their names in messages."""
    f, C, members = problem.objective, problem.constraint, []
    if best is not None:
        same = exact.objective.dtype in (None, best.x.dtype)
        members.append(("the best iterate", best if same else exact.objective.point(best.x)))
    # The image of the start would cost a pass over the data.
    if not C.trusted and not x.factored and not C.start_calls_oracle and f.image_map is None:
        members.append(("C.start()", exact.objective.point(C.start(x.x.shape, x.x.dtype))))
    if not f.trusted and not x.factored:
        members.append((_RANDOM, _random_member(exact, x, known.vertex.vertex)))
    return members


def _wrong_gradient(verified: Verified, name: str, end: Point, change: float, size: float) -> str:
    """Return a sentence if values of f contradict the change that its gradient predicts, or its convexity."""
    assert verified.exact is not None
    exact, x, known = verified.exact
    found = _compare(exact, x, end, verified.fun, change, size, known, name == _RANDOM)
    if found is not None:
        return (
            f" Between the last iterate and {name}, the gradient predicts a change of f by "
            f"{found[0]:.6g}; function values show {found[1]:.6g}. "
            "Check the gradient with fw.checks.gradient_error(f, x)."
        )
    lowest = verified.fun + change  # of a convex function
    score = change + known.gradient.inner(x)
    if exact.objective.convex and (value := _lower(exact, end, lowest, size + abs(score))) is not None:
        return (
            f" f is {value:.6g} at {name}. If f were convex, as its attribute `convex` states, it would be "
            f"at least {lowest:.6g} there."
        )
    return ""


def _random_member(problem: Problem, x: Point, hint: Vertex) -> Point:
    """Return a member that differs from x in all entries if possible, so that no entry of a gradient is left out."""
    C, shape, rng = problem.constraint, x.x.shape, np.random.default_rng(0)
    member = np.array(x.x if C.start_calls_oracle else C.start(shape), dtype=np.float64)
    # Projections are correct for sets of the library. Matrices with few singular values have no zero entries anyway.
    nearest = C.projection(shape) if C.trusted and C.spectrum is None else None
    reach = None if nearest is None else C.diameter(shape)
    if nearest is not None and reach is not None:
        noise = reach / (2 * x.x.size) * rng.uniform(0.5, 1.0, shape) * rng.choice([-1.0, 1.0], shape)
        mixed = 0.75 * nearest(member + noise) + 0.25 * nearest(member - noise)
        return problem.objective.imaged(mixed.astype(x.x.dtype))
    for costs in rng.standard_normal((_PROBES, *shape)).astype(x.x.dtype):
        problem.counts.n_lmo += 1
        # Some oracles, for example of shortest paths, raise an error for costs of some signs.
        with suppress(Exception):
            vertex = C.vertex(costs, hint)
            member *= 0.8
            vertex.add_to(member, 0.2)
    return problem.objective.imaged(member.astype(x.x.dtype))


def _lower(problem: Problem, end: Point, lowest: float, size: float) -> float | None:
    """Return the value at a member if it is below a bound by more than rounding, else None."""
    if not problem.defined_at(end):
        return None
    try:
        value = problem.raw_value(end)
    except (ArithmeticError, ValueError):  # functions of Python's `math` raise these outside their domain
        return None
    return value if value < lowest - _TERM_SHARE * (size + abs(value) + abs(lowest)) else None


def _probes(problem: Problem, x: Point, known: Evaluation) -> list[tuple[Any, Vertex]]:
    """Return changed costs with the oracle's vertices; costs of opposite sign too if no vertex differs from x."""
    g, C = known.gradient.as_oracle_input(), problem.constraint
    inner, found = known.gradient.inner(x), []
    for seed in range(_PROBES):
        costs = _rescaled(g, seed)
        problem.counts.n_lmo += 1
        found.append((costs, C.vertex(costs)))
    if all(known.gradient.dot(vertex) == inner for _, vertex in found):
        problem.counts.n_lmo += 1
        # Some oracles, for example of shortest paths, raise an error for costs of this sign.
        with suppress(Exception):
            found.append((-1.0 * g, C.vertex(-1.0 * g)))
    return found


def _contradictory(answers: list[tuple[Any, Vertex]]) -> str:
    """Return a sentence if a vertex of the oracle is clearly better than its vertex for other costs; else empty."""
    for costs, own in answers:
        least = own.dot(costs)
        for _, other in answers:
            score = other.dot(costs)
            excess = least - score - _ORACLE_SHARE * (abs(least) + abs(score))
            if excess > 0 and excess > _TERM_SHARE * max(_size(own, costs), _size(other, costs)):
                return _wrong_oracle(score, least, "another vertex of the oracle")
    return ""


def _size(vertex: Vertex, costs: Any) -> float:
    """Return the sum of the absolute values of the terms of ``<costs, vertex>``; 0 for sparse costs."""
    return 0.0 if sp.issparse(costs) else float(np.vdot(np.abs(costs), np.abs(vertex.to_dense())))


def _rescaled(g: Any, seed: int) -> Any:
    """Return the gradient with entries multiplied by positive numbers: oracles with a domain accept these signs."""
    rng = np.random.default_rng(seed)
    if not sp.issparse(g):
        return (g * 10 ** rng.uniform(-_SPREAD, _SPREAD, g.shape)).astype(g.dtype)
    other = g.copy()
    other.data = (other.data * 10 ** rng.uniform(-_SPREAD, _SPREAD, other.data.shape)).astype(g.dtype)
    return other


def _compare(
    problem: Problem, x: Point, end: Point, fun: float, slope: float, size: float, known: Evaluation, back: bool
) -> tuple[float, float] | None:
    """Return the changes of f between x and another member by gradients and by values if they differ; else None.

    If the segments from x are not certain and `back` is true, those from the other member decide: a kink of f at x is
    on every segment from x, but not on the shorter ones from the other end.
    """
    line = problem.along(x, end, fun, known.gradient)
    if abs(line.slope0 - slope) > _SLOPE_SHARE * (abs(line.slope0) + abs(slope)) + _TERM_SHARE * size:
        return slope, line.slope0
    found, settled = _along(problem, x, end, line, size)
    with suppress(ArithmeticError, ValueError):
        if back and not settled:
            line = problem.along(end, x, problem.value(end), problem.gradient(end))
            return _along(problem, end, x, line, size)[0]
    return found


def _along(problem: Problem, x: Point, end: Point, line: Line, size: float) -> tuple[tuple[float, float] | None, bool]:
    """Return the changes of f by gradients and by values if they differ, else None; and whether that is certain.

    The change of f is the integral of its slope, which Simpson's rule computes; the difference from the trapezoidal
    rule bounds the error. A contradiction is confirmed on the next shorter segment. Segments on which f is not defined
    or not finite are skipped.
    """
    before: tuple[float, float] | None = None
    for share in _SHARES:
        if any(not problem.defined_at(x.mix([(part, end)])) for part in (share / 2, share)):
            continue
        try:
            values = (line.value0, line.value(share))
            a, b, c = line.slope0, line.slope(share / 2), line.slope(share)
        except (ArithmeticError, ValueError):  # functions of Python's `math` raise these outside their domain
            continue
        if not all(map(math.isfinite, (values[1], a, b, c))):
            continue
        # Values that are exact float32 numbers probably come from single precision.
        single = x.x.dtype == np.float32 or all(float(np.float32(v)) == v for v in values)
        eps = float(np.finfo(np.float32 if single else np.float64).eps)
        predicted, change = share * (a + 4 * b + c) / 6, values[1] - values[0]
        steepest = share * (abs(a) + 4 * abs(b) + abs(c)) / 6
        error = _CAUTION * share * abs(a - 2 * b + c) / 12
        rounding = VALUE_ULPS * eps * (steepest + max(map(abs, values)))
        allowed = error + _SLOPE_SHARE * steepest + rounding + _TERM_SHARE * size * share
        contradictory = abs(predicted - change) > allowed
        if before is not None:
            return (before if contradictory else None), True
        if contradictory:
            before = predicted, change
        elif error <= _SLOPE_SHARE * steepest:  # a shorter segment would not be more exact
            return None, True
    return None, False


def _wrong_oracle(lower: float, least: float, name: str, reason: str = "the oracle does not minimise") -> str:
    return (
        f" The oracle's vertex s has <g, s> = {least:.6g}. The point x ({name}) has the smaller value "
        f"<g, x> = {lower:.6g}. So {reason}. Check the oracle with fw.checks.lmo_excess(C, g, members)."
    )
