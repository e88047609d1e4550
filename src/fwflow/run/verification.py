"""Is a result true? The value and gap at a point, computed again, and a comparison of f, its gradient and the oracle.

A gap bounds the error only if the gradient belongs to the function values, the oracle returns minimisers, and rounding
is smaller than the tolerance. Parts of the library keep the first two promises by construction. Functions and oracles
that users bring are compared with function values once, where a run is about to call its point a solution.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from fwflow.methods.problem import Evaluation, Problem
from fwflow.objectives.base import Line
from fwflow.points.point import Point
from fwflow.points.vertices import Vertex

# Segments from x on which f is compared with its gradient, as shares of the way to another member. The first is short
# of that member, where f may be infinite; the shorter ones are for functions with a strong third derivative.
_SHARES = (1 / 2, 1 / 16, 1 / 128, 1 / 1024)
# A quadrature error is trusted up to this factor.
_CAUTION = 10.0
# Relative differences below these are not called contradictions: of slopes, and of the terms that slopes add up.
# Gradients by finite differences are exact to about 1e-8 of those terms, and noise of 1e-7 is to be accepted.
_SLOPE_SHARE, _TERM_SHARE = 1e-4, 1e-6
# Oracles may be approximate: one vertex is called better than another if it is by this share of the two values.
_ORACLE_SHARE = 1e-2
# Rounding of function values, in units of the last place.
_VALUE_ULPS = 64
# Number of oracle calls with other costs, for sets that users bring, and the decimal powers by which costs change.
_PROBES, _SPREAD = 4, 2.0


class Exact(NamedTuple):
    """A problem in double precision with whole gradients, a point there, and the evaluation at that point."""

    problem: Problem
    point: Point
    known: Evaluation


class Verified(NamedTuple):
    """A point, its value and certified gap from a fresh image, the rounding of that gap, and whether it is feasible."""

    point: Point
    fun: float
    gap: float
    rounding: float
    feasible: bool | None
    #: Why the gap does not prove anything, in full sentences; empty where it does.
    doubt: str = ""
    #: The evaluation that gave the gap, None where there was none.
    exact: Exact | None = None

    def within(self, threshold: float) -> bool:
        """Whether this is a solution to that tolerance."""
        return self.gap <= threshold and self.exact_to(threshold) and self.feasible is not False and not self.doubt

    def exact_to(self, threshold: float) -> bool:
        """Whether rounding cannot make or hide a gap of that size. A tolerance of zero asks for the accuracy of f."""
        return self.rounding <= (threshold or _VALUE_ULPS**2 * float(np.finfo(np.float64).eps) * abs(self.fun))


def slack(point: Point) -> float:
    """Tolerance of membership for points made of thousands of rounded mixtures."""
    return 1e-4 if point.x.dtype == np.float32 else 1e-8


def feasible(problem: Problem, point: Point, inside: bool) -> bool | None:
    """Whether a point is in the set. It is not asked for mixtures of members, which are `inside`."""
    return True if inside else problem.constraint.contains(point.x, slack(point))


def precise(problem: Problem, point: Point) -> tuple[Problem, Point]:
    """The problem in double precision with whole gradients, and the point with a fresh image there."""
    exact = replace(problem, objective=problem.objective.precise())
    same = exact.objective.dtype in (None, point.x.dtype)
    return exact, exact.objective.refresh(point) if same else exact.objective.point(point.x)


def verify(problem: Problem, point: Point, known: Evaluation | None, inside: bool, first_gap: float) -> Verified:
    """Value, gap and feasibility of a point. `known` is an evaluation there that may be used again."""
    exact, fresh = precise(problem, point)
    if known is None or fresh is not point:
        known = exact.evaluate(fresh, None if known is None else known.vertex, lift=False)
        if known.vertex.entries() is not None:  # its image costs a few columns, and tells how it is rounded
            known = known._replace(vertex=exact.objective.lift(known.vertex.vertex))
    least = exact.constraint.lower_bound(known.gradient.as_oracle_input(), known.vertex.vertex)
    inner = known.gradient.inner(fresh)
    gap, is_feasible, doubt = inner - least, feasible(problem, point, inside), ""
    size = exact.size(fresh, known)
    if fresh.x.dtype == np.float32:  # a user's own function: the gap is a difference that single precision rounds
        gap = max(0.0, gap) + 8 * float(np.finfo(np.float32).eps) * size if gap >= -slack(point) * size else gap
    if gap < 0:
        # A member has a negative gap only by rounding, so that its size measures the rounding. All terms may have
        # cancelled where the vertex is the origin; the first gap then gives the size of the terms.
        drift = float(np.finfo(point.x.dtype).eps) * abs(np.nan_to_num(first_gap))
        if gap >= -slack(point) * size - drift:
            gap = -gap
        elif is_feasible is not False and not exact.constraint.trusted:
            doubt = _wrong_oracle(inner, least, "the returned point, unless it lies outside the set,")
        else:
            is_feasible = False
    rounding = exact.rounding(fresh, known)
    return Verified(point, exact.raw_value(fresh), gap, rounding, is_feasible, doubt, Exact(exact, fresh, known))


def contradiction(problem: Problem, verified: Verified, threshold: float, best: Point | None) -> str:
    """What function values have against a gap, in a sentence that names the suspect; empty where they agree with it.

    `best` is the member with the lowest value that the run has met, None where that is the point itself.
    """
    f, C = problem.objective, problem.constraint
    if verified.exact is None or (f.trusted and C.trusted):
        return ""
    exact, x, known = verified.exact
    inner, size = known.gradient.inner(x), exact.size(x, known)
    claimed = max(threshold, verified.gap)
    with np.errstate(all="ignore"):  # f may be infinite at members that the run has not met
        members = _members(exact, x, best)
        answers = [_Answer(known.gradient.as_oracle_input(), known.vertex.vertex)]
        if not C.trusted or not members:
            answers += _probes(exact, x, known)
        if not C.trusted and (text := _contradictory(answers)):
            return text
        for _, vertex in answers:
            name = "the oracle's vertex" + (" for other costs" if vertex is not known.vertex.vertex else "")
            members.append(_Member(name, x.mix([(1.0, exact.objective.lift(vertex))])))
        for member in members:
            score = known.gradient.inner(member.end)
            if inner - score > claimed + _TERM_SHARE * (size + abs(score)):
                return _wrong_oracle(score, known.gradient.dot(known.vertex.vertex), member.name)
            if not f.trusted:
                found = _compare(exact, x, member.end, verified.fun, score - inner, size, known)
                if found is not None:
                    return _wrong_gradient(found, member.name)
    return ""


class _Member(NamedTuple):
    """A member of the set other than x, and how messages call it."""

    name: str
    end: Point


def _members(problem: Problem, x: Point, best: Point | None) -> list[_Member]:
    """Members of the set that are known without its oracle: the best iterate and the start of the set."""
    f, C, found = problem.objective, problem.constraint, []
    if best is not None:
        same = f.dtype in (None, best.x.dtype)
        found.append(_Member("the best iterate", best if same else f.point(best.x)))
    if not x.factored and not C.start_calls_oracle and f.image_size is None:  # an image would be a pass over the data
        found.append(_Member("the start of the set", f.point(C.start(x.x.shape, x.x.dtype))))
    return found


class _Answer(NamedTuple):
    """Costs and the vertex that the oracle returned for them."""

    costs: Any
    vertex: Vertex


def _probes(problem: Problem, x: Point, known: Evaluation) -> list[_Answer]:
    """The oracle's answers to other costs. Costs of the other sign are asked for only if no answer differs from x."""
    g, C = known.gradient.as_oracle_input(), problem.constraint
    inner, found = known.gradient.inner(x), []
    for seed in range(_PROBES):
        costs = _rescaled(g, seed)
        problem.counts.n_lmo += 1
        found.append(_Answer(costs, C.lmo(costs)))
    if all(known.gradient.dot(answer.vertex) == inner for answer in found):
        problem.counts.n_lmo += 1
        # An oracle such as a search for shortest paths may refuse these costs, with an error of its own.
        with suppress(Exception):
            found.append(_Answer(-1.0 * g, C.lmo(-1.0 * g)))
    return found


def _contradictory(answers: list[_Answer]) -> str:
    """Where an answer of the oracle is clearly better than its own for other costs, a sentence that says so."""
    for costs, own in answers:
        least = own.dot(costs)
        for _, other in answers:
            score = other.dot(costs)
            if least - score > _ORACLE_SHARE * (abs(least) + abs(score)):
                return _wrong_oracle(score, least, "another of its vertices")
    return ""


def _rescaled(g: Any, seed: int) -> Any:
    """A gradient whose entries are multiplied by positive numbers. Oracles with a domain accept costs of such signs."""
    rng = np.random.default_rng(seed)
    if not sp.issparse(g):
        return (g * 10 ** rng.uniform(-_SPREAD, _SPREAD, g.shape)).astype(g.dtype)
    other = g.copy()
    other.data = (other.data * 10 ** rng.uniform(-_SPREAD, _SPREAD, other.data.shape)).astype(g.dtype)
    return other


class _Mismatch(NamedTuple):
    """What the gradient says of a change of f, and the change that function values show."""

    predicted: float
    found: float


def _compare(
    problem: Problem, x: Point, end: Point, fun: float, slope: float, size: float, known: Evaluation
) -> _Mismatch | None:
    """Where the gradient contradicts function values on the segment from x to another member, else None.

    The integral of the slope over a segment is the change of f. Simpson's rule gives it, and its difference from the
    trapezoidal rule bounds the error. A contradiction is confirmed on the next shorter segment.
    """
    line = problem.along(x, end, fun, known.gradient)
    if abs(line.slope0 - slope) > _SLOPE_SHARE * (abs(line.slope0) + abs(slope)) + _TERM_SHARE * size:
        return _Mismatch(slope, line.slope0)
    before: _Mismatch | None = None
    for share in _SHARES:
        segment = _Segment.measured(problem, line, x, end, share)
        if segment is None:  # f is not defined so far away
            continue
        if not segment.contradicts(size):
            if segment.conclusive or before is not None:
                return None
            continue
        if before is not None:
            return before
        before = _Mismatch(segment.predicted, segment.change)
    return None


@dataclass(frozen=True)
class _Segment:
    """The change of f on a segment of a line, and the slopes at its two ends and its middle."""

    length: float
    change: float
    slopes: tuple[float, float, float]
    largest: float  # of the values
    eps: float

    @classmethod
    def measured(cls, problem: Problem, line: Line, x: Point, end: Point, share: float) -> _Segment | None:
        """None where f is not defined, or not finite."""
        if any(not problem.defined_at(x.mix([(part, end)])) for part in (share / 2, share)):
            return None
        try:
            value = line.value(share)
            slopes = (line.slope0, line.slope(share / 2), line.slope(share))
        except (ArithmeticError, ValueError):  # how functions of Python's `math` say that they are not defined
            return None
        if not all(map(math.isfinite, (value, *slopes))):
            return None
        values = (line.value0, value)
        # Values that are float32 numbers are taken for results of single precision.
        single = x.x.dtype == np.float32 or all(float(np.float32(v)) == v for v in values)
        eps = float(np.finfo(np.float32 if single else np.float64).eps)
        return cls(share, value - line.value0, slopes, max(map(abs, values)), eps)

    @property
    def predicted(self) -> float:
        """By Simpson's rule."""
        a, b, c = self.slopes
        return self.length * (a + 4 * b + c) / 6

    @property
    def _error(self) -> float:
        """Of Simpson's rule, by comparison with the trapezoidal one."""
        a, b, c = self.slopes
        return self.length * abs(a - 2 * b + c) / 12

    @property
    def _steepest(self) -> float:
        a, b, c = map(abs, self.slopes)
        return self.length * (a + 4 * b + c) / 6

    @property
    def conclusive(self) -> bool:
        """Whether the quadrature is exact enough that a shorter segment would not tell more."""
        return _CAUTION * self._error <= _SLOPE_SHARE * self._steepest

    def contradicts(self, size: float) -> bool:
        """Whether prediction and change differ by more than quadrature, noise and rounding explain."""
        noise = _VALUE_ULPS * self.eps * self.largest + _TERM_SHARE * size * self.length
        single = _VALUE_ULPS * self.eps * self._steepest
        allowed = _CAUTION * self._error + _SLOPE_SHARE * self._steepest + single + noise
        return abs(self.predicted - self.change) > allowed


def _wrong_gradient(found: _Mismatch, name: str) -> str:
    return (
        f" On the way to {name} the gradient predicts a change of f by {found.predicted:.6g}; "
        f"function values show {found.found:.6g}. Check the gradient with fw.checks.gradient_error(f, x)."
    )


def _wrong_oracle(lower: float, least: float, name: str) -> str:
    return (
        f" The oracle's vertex s has <g, s> = {least:.6g}, which should be the minimum over the set; "
        f"{name} has {lower:.6g}. Check the oracle with fw.checks.lmo_excess(C, g, members)."
    )


def uphill(verified: Verified, start_value: float, threshold: float) -> bool:
    """Whether f is further above its value at the start than its gap, tolerance and rounding allow for convex f."""
    noise = _VALUE_ULPS * float(np.finfo(verified.point.x.dtype).eps) * max(abs(start_value), abs(verified.fun))
    return verified.fun - start_value > max(verified.gap, threshold) + noise + verified.rounding
