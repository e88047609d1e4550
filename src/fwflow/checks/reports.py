"""Report on a set or an objective: a table of what it offers, what it lacks, and what is wrong."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np

from fwflow._numerics import norm
from fwflow._validation import Array, InputError, finite_array, one_line, shape_of
from fwflow.objectives.base import Objective
from fwflow.points.point import Point
from fwflow.points.vertices import Vertex
from fwflow.run import display
from fwflow.sets.base import ConstraintSet, verdict
from fwflow.sets.callables import as_set

# Number of random costs for which the answers of an oracle are compared. Chosen without tuning.
_COSTS = 12
# Relative errors that count as rounding or as the accuracy of an iterative oracle, and of finite differences.
_CLOSE, _DIFFERENCES = 1e-6, 1e-4
# The same for curvatures: models of losses with kinks, such as Huber's, raise second derivatives by a few per cent.
_CURVATURE = 0.05
# Share of costs for which the answer is the worst one, from which the sign is said to be wrong.
_MOST = 0.8
# Width of the remarks in the printed table, in characters.
_WIDTH = 88

State = Literal["ok", "missing", "unknown", "wrong"]


class Row(NamedTuple):
    """One member of a part, whether it is there and right, and a remark."""

    member: str
    state: State
    remark: str


@dataclass(frozen=True)
class Report:
    """Table of what a set or an objective offers, lacks, or gets wrong. Notebooks show it as HTML.

    Attributes
    ----------
    subject : str
        The set or objective.
    rows : tuple of Row
        Rows with the fields ``member``, ``state`` and ``remark``. The state is "ok", "missing" (an optional member that
        is not offered), "unknown" (it cannot be checked) or "wrong".

    See Also
    --------
    report : Makes a report.
    lmo_excess : Check of an oracle.

    Examples
    --------
    >>> import fwflow as fw
    >>> r = fw.checks.report(lambda g: g, shape=3)
    >>> r.ok, r.wrong[0].member
    (False, 'lmo')
    """

    subject: str
    rows: tuple[Row, ...]

    @property
    def wrong(self) -> tuple[Row, ...]:
        """The rows with the state "wrong"."""
        return tuple(row for row in self.rows if row.state == "wrong")

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.wrong

    def __repr__(self) -> str:
        members = max(len(row.member) for row in self.rows)
        lines = [f"Report on {self.subject}: {self._verdict}"]
        for row in self.rows:
            first, *others = textwrap.wrap(row.remark, _WIDTH) or [""]
            lines.append(f"  {row.member:<{members}}  {row.state:<7}  {first}".rstrip())
            lines += [" " * (members + 13) + line for line in others]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Return what notebooks show."""
        title = display.fields([(self.subject, self._verdict)])
        return title + display.table(("member", "state", "remark"), self.rows)

    @property
    def _verdict(self) -> str:
        count = len(self.wrong)
        return "nothing is wrong" if not count else f"{count} member{'s' if count > 1 else ''} wrong"


def report(part: Any, shape: Any = None, *, x: Any = None, seed: int = 0) -> Report:
    """Report what a set or an objective offers, what it lacks, and what is wrong.

    The members of a set are compared with each other: the oracle has the right sign and returns extreme points, the
    start is a member, the membership test and the diameter agree with the oracle, and projections are nearest points.
    The gradient of an objective is compared with differences of its values. Errors are part of the table.

    Parameters
    ----------
    part : ConstraintSet, Objective or callable
        The set or objective, or an oracle ``g -> s``.
    shape : int or tuple of int, optional
        Shape of x; needed if the part does not determine it and x is not given.
    x : array_like, optional
        Point at which an objective is checked. Default: a random point.
    seed : int
        Seed of the random costs and points; 0 by default.

    Returns
    -------
    Report

    See Also
    --------
    gradient_error : Error of a gradient as a number.
    lmo_excess : Error of an oracle as a number.
    fwflow.ConstraintSet : Base class of sets.
    fwflow.Objective : Base class of objectives.

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> f = fw.Smooth(lambda x: float(x @ x), lambda x: x, shape=3)  # the gradient lacks the factor 2
    >>> fw.checks.report(f)
    Report on Smooth: 1 member wrong
      value       ok       one finite number, the same at the same point
      gradient    wrong    the gradient is 0.5 times what differences of values give
      Hessian     missing  methods with second derivatives use secants; Smooth takes hess_product=...
      convex      unknown  not declared; if f is not convex, a gap measures only stationarity
      smoothness  missing  line_search="short" needs it
      domain      missing  the function counts as defined everywhere
    """
    rng = np.random.default_rng(seed)
    if isinstance(part, Objective):
        known = part.shape if x is None else np.shape(x)
        return Report(type(part).__name__, tuple(_objective_rows(part, _shape(known, shape, "x"), x, rng)))
    C = part if isinstance(part, ConstraintSet) else as_set(part)  # arguments that are missing are part of the table
    return Report(
        f"{C!r}" if isinstance(part, ConstraintSet) else "the oracle",
        tuple(_set_rows(C, _shape(C.shape if x is None else np.shape(x), shape, "shape"), rng)),
    )


def _shape(known: Any, given: Any, name: str) -> tuple[int, ...]:
    if given is not None:
        return shape_of(given, "shape")
    if known is None:
        raise InputError(f"{name} is needed: the part does not determine the shape of x; for example shape=5")
    return tuple(known)


def _tried(call: Callable[[], Any]) -> tuple[Any, str]:
    """Return the result of a call, and an empty text; or None, and a description of the error."""
    try:
        with np.errstate(all="ignore"):
            return call(), ""
    except Exception as error:
        return None, f"raises {type(error).__name__}: {one_line(error)}"


class _Answers(NamedTuple):
    """Costs and the answers of an oracle to them, as arrays, with the products of all pairs."""

    costs: list[Array]
    vertices: list[Vertex]
    points: list[Array]
    #: Entry (i, j): cost i times answer j.
    values: Array

    @property
    def sizes(self) -> Array:
        """For every cost, the size of the terms of its products."""
        return np.array([max(float(np.vdot(np.abs(g), np.abs(s))) for s in self.points) for g in self.costs])


def _set_rows(C: ConstraintSet, shape: tuple[int, ...], rng: np.random.Generator) -> Iterator[Row]:
    costs = [rng.standard_normal(shape) for _ in range(_COSTS)]
    costs += [-g for g in costs]
    vertices, trouble = _tried(lambda: [C.vertex(g) for g in costs])
    if trouble:
        # Oracles of paths and flows accept costs of one sign only.
        costs = [np.abs(g) for g in costs]
        vertices, again = _tried(lambda: [C.vertex(g) for g in costs])
        if again:
            yield Row("lmo", "wrong", again)
            return
    points = [np.asarray(s, dtype=np.float64).reshape(shape) for s in vertices]
    if not np.isfinite(points).all():
        yield Row("lmo", "wrong", "returns entries that are not finite")
        return
    values = np.array([[float(np.vdot(g, s)) for s in points] for g in costs])
    answers = _Answers(costs, vertices, points, values)
    start, no_start = _tried(lambda: np.asarray(C.start(shape), dtype=np.float64))
    yield _oracle_row(C, answers, None if no_start or start.shape != shape else start)
    yield _start_row(C, shape, start, no_start)
    yield _contains_row(C, answers, start if not no_start and start.shape == shape else None)
    yield _diameter_row(C, shape, answers)
    yield _bound_row(C, answers)
    yield _project_row(C, shape, answers, rng)
    yield _offer(
        "polytope",
        C.polytope,
        'finitely many vertices; method="flow" accepts it',
        'not declared; method="flow" needs polytope = True',
    )
    yield _offer(
        "faces",
        C.faces is not None,
        'method="decomposition-invariant" can be used',
        'method="decomposition-invariant" needs them',
    )
    yield _offer(
        "known_vertices",
        C.known_vertices is not None,
        "corrective steps can add several vertices at once",
        "corrective steps add one vertex at a time",
    )
    yield _offer(
        "working_sets",
        C.working_sets is not None,
        'method="working-set" reads a few columns of the data',
        'method="working-set" needs them, or a projection',
    )
    yield _offer(
        "fingerprint",
        C.fingerprint() is not None,
        "a saved state continues only on an equal set",
        "a saved state cannot tell this set from another one",
    )


def _offer(member: str, offered: bool, yes: str, no: str) -> Row:
    return Row(member, "ok", yes) if offered else Row(member, "missing", no)


def _oracle_row(C: ConstraintSet, answers: _Answers, start: Array | None) -> Row:
    costs, vertices, points, values = answers
    own, sizes = np.diag(values), answers.sizes
    excess = own - values.min(axis=1)
    bad = excess > _CLOSE * sizes
    worst = values.max(axis=1) - own <= _CLOSE * sizes
    spread = values.max(axis=1) - values.min(axis=1) > _CLOSE * sizes
    if bad.any() and (worst & spread).mean() > _MOST:
        return Row("lmo", "wrong", "wrong sign: it maximises <g, s>; return the member that minimises <g, s>")
    longer = float(np.vdot(costs[0], _array(C, 2.0 * costs[0], points[0].shape)))
    if abs(longer - own[0]) > _CLOSE * sizes[0]:
        return Row(
            "lmo",
            "wrong",
            "the answer depends on the length of g, so that it is a direction and not a member; return the member s "
            "that minimises <g, s>",
        )
    if bad.any():
        i = int((excess / sizes).argmax())
        j = int(values[i].argmin())
        return Row(
            "lmo",
            "wrong",
            f"not a minimiser: for one g the answer has <g, s> = {own[i]:.6g}, and the answer to another g has the "
            f"smaller value {values[i, j]:.6g}",
        )
    for g, s, value, size in zip(costs, points, own, sizes, strict=True):
        if start is None or not np.isfinite(start).all():
            break
        beyond = s + 0.5 * (s - start)
        lower = float(np.vdot(g, beyond))
        inside, _ = _tried(partial(C.contains, beyond))
        if verdict(inside) is True and lower < value - _CLOSE * size:
            return Row(
                "lmo",
                "wrong",
                f"not a vertex: contains() accepts a point with <g, x> = {lower:.6g}, and the answer s has "
                f"<g, s> = {value:.6g} (or contains() is wrong)",
            )
        if start is not None and float(np.vdot(g, start)) < value - _CLOSE * size:
            return Row("lmo", "wrong", "not a minimiser: start() has a smaller value of <g, x> than the answer")
    again = _array(C, costs[0], points[0].shape)
    if not np.array_equal(again, points[0]):
        return Row("lmo", "wrong", "two calls with the same g give different answers; runs cannot be repeated")
    _, zero = _tried(lambda: C.vertex(np.zeros(points[0].shape)))
    if zero:
        return Row("lmo", "wrong", f"a zero gradient {zero}")
    stored = type(vertices[0]).__name__
    return Row("lmo", "ok", f"minimises <g, s> over all answers to {len(costs)} costs; vertices are stored as {stored}")


def _array(C: ConstraintSet, g: Array, shape: tuple[int, ...]) -> Array:
    return np.asarray(C.vertex(g), dtype=np.float64).reshape(shape)


def _start_row(C: ConstraintSet, shape: tuple[int, ...], start: Any, trouble: str) -> Row:
    if trouble:
        return Row("start", "wrong", trouble)
    if start.shape != shape:
        return Row("start", "wrong", f"returns shape {start.shape}; members have shape {shape}")
    if not np.isfinite(start).all():
        return Row("start", "wrong", "returns entries that are not finite")
    inside, _ = _tried(lambda: verdict(C.contains(start)))
    if inside is False:
        return Row("start", "wrong", "returns a point that contains() rejects")
    return Row("start", "ok", "a member" if inside else "a point of the right shape")


def _contains_row(C: ConstraintSet, answers: _Answers, start: Array | None) -> Row:
    found, trouble = _tried(lambda: [verdict(C.contains(s)) for s in answers.points])
    if trouble:
        return Row("contains", "wrong", trouble)
    if False in found:
        return Row("contains", "wrong", "rejects answers of lmo (or the answers are not members)")
    if None in found:
        return Row("contains", "unknown", "returns None, so that result.feasible may be None")
    if start is not None:
        centre = np.mean(answers.points, axis=0)
        for g, s in zip(answers.costs, answers.points, strict=True):
            far = s + 10.0 * (s - centre)
            better = float(np.vdot(g, far - s)) < -_CLOSE * float(np.vdot(np.abs(g), np.abs(far)))
            if better and verdict(C.contains(far)) is True:
                return Row("contains", "wrong", "accepts a point far beyond an answer of lmo")
    return Row("contains", "ok", "accepts the answers of lmo, and rejects points far outside")


def _diameter_row(C: ConstraintSet, shape: tuple[int, ...], answers: _Answers) -> Row:
    value, trouble = _tried(lambda: C.diameter(shape))
    if trouble:
        return Row("diameter", "wrong", trouble)
    if value is None:
        return Row("diameter", "missing", "some bounds on the number of iterations need it")
    apart = max(float(norm((s - t).ravel())) for s in answers.points for t in answers.points)
    size = max(float(norm(s.ravel())) for s in answers.points)
    if not value >= apart * (1 - _CLOSE) - 1e-9 * size:
        return Row("diameter", "wrong", f"is {value:.6g}, but two answers of lmo are {apart:.6g} apart")
    return Row("diameter", "ok", f"{float(value):.6g}")


def _bound_row(C: ConstraintSet, answers: _Answers) -> Row:
    bounds, trouble = _tried(
        lambda: [C.lower_bound(g, s) for g, s in zip(answers.costs, answers.vertices, strict=True)]
    )
    if trouble:
        return Row("lower_bound", "wrong", trouble)
    if (np.array(bounds) > np.diag(answers.values) + _CLOSE * answers.sizes).any():
        return Row("lower_bound", "wrong", "is larger than <g, s> of the answer of lmo, so that it is no bound")
    return Row("lower_bound", "ok", "not larger than <g, s> of the answers")


def _project_row(C: ConstraintSet, shape: tuple[int, ...], answers: _Answers, rng: np.random.Generator) -> Row:
    reach = max(1.0, max(float(np.abs(s).max()) for s in answers.points))
    x = reach * rng.standard_normal(shape)
    nearest, trouble = _tried(lambda: C.project(x))
    if trouble:
        return Row("project", "wrong", trouble)
    if nearest is None:
        return Row("project", "missing", "methods with projected steps need it")
    nearest = np.asarray(nearest, dtype=np.float64)
    if nearest.shape != shape:
        return Row("project", "wrong", f"returns shape {nearest.shape} for x of shape {shape}")
    inside, _ = _tried(lambda: verdict(C.contains(nearest, 1e-6)))
    if inside is False:
        return Row("project", "wrong", "returns a point that contains() rejects")
    # The nearest member p satisfies <x - p, s - p> <= 0 for every member s.
    away = x - nearest
    excess = max(float(np.vdot(away, s - nearest)) for s in answers.points)
    if excess > _CLOSE * reach**2 * math.prod(shape):
        return Row("project", "wrong", "an answer of lmo is nearer to x than the projection of x")
    return Row("project", "ok", "nearer to x than the answers of lmo")


def _objective_rows(f: Objective, shape: tuple[int, ...], x: Any, rng: np.random.Generator) -> Iterator[Row]:
    given = x if x is not None else 0.5 * rng.standard_normal(shape)
    point, trouble = _tried(lambda: f.point(finite_array(given, "x")))
    if trouble:
        yield Row("point", "wrong", trouble)
        return
    if f.domain is not None and not f.domain(point):
        yield Row("domain", "unknown", "the random point is outside of the domain; give a point inside as x")
        return
    value_row, value = _value_row(f, point)
    yield value_row
    if value is None:
        return
    row, gradient = _gradient_row(f, point, value, rng)
    yield row
    if gradient is not None:
        yield _hessian_row(f, point, rng)
    yield _convex_row(f, point, value, rng)
    yield _smoothness_row(f, point, gradient, rng)
    yield _offer("domain", f.domain is not None, "the point is inside", "the function counts as defined everywhere")


def _value_row(f: Objective, point: Point) -> tuple[Row, float | None]:
    value, trouble = _tried(lambda: f.value(point))
    if trouble:
        return Row("value", "wrong", trouble), None
    if not math.isfinite(value):
        return Row("value", "wrong", f"is {value} at the point; give a point inside of the domain as x"), None
    again, trouble = _tried(lambda: f.value(point))
    if trouble or again != value:
        remark = f"two calls at the same point give {value:.17g} and {again}; a run needs a function without noise"
        return Row("value", "wrong", remark), value
    return Row("value", "ok", "one finite number, the same at the same point"), value


def _gradient_row(f: Objective, point: Point, value: float, rng: np.random.Generator) -> tuple[Row, Array | None]:
    found, trouble = _tried(lambda: np.asarray(f.gradient(point)))
    if trouble:
        return Row("gradient", "wrong", trouble), None
    x = _dense(point)
    if found.shape != x.shape:
        return Row("gradient", "wrong", f"has shape {found.shape} for x of shape {x.shape}"), None
    if not np.isfinite(found).all():
        return Row("gradient", "wrong", "has entries that are not finite"), None
    directions = [rng.standard_normal(x.shape) for _ in range(5)]
    directions = [d / norm(d.ravel()) for d in directions]
    single = found.dtype == np.float32
    h = float(np.cbrt(np.finfo(np.float32 if single else np.float64).eps)) * max(1.0, float(np.abs(x).max()))
    differences, trouble = _tried(
        lambda: np.array([(f.value(f.point(x + h * d)) - f.value(f.point(x - h * d))) / (2 * h) for d in directions])
    )
    if trouble or not np.isfinite(differences).all():
        return Row("gradient", "unknown", f"values near the point cannot be compared {trouble}".rstrip()), found
    slopes = np.array([float(np.vdot(found, d)) for d in directions])
    scale = max(float(np.abs(differences).max()), float(np.abs(slopes).max()), abs(value) * 1e-6, 1e-300)
    error = float(np.abs(slopes - differences).max()) / scale
    if error <= (10 if single else 1) * _DIFFERENCES:
        return Row("gradient", "ok", f"agrees with differences of values, up to {error:.1e}"), found
    return Row("gradient", "wrong", _explained(slopes, differences)), found


def _explained(slopes: Array, differences: Array) -> str:
    """Return in which way slopes differ from differences of values: sign, factor, or neither."""
    size = float(np.vdot(slopes, slopes))
    factor = float(np.vdot(slopes, differences)) / size if size else 0.0
    if factor and float(np.abs(factor * slopes - differences).max()) <= 1e-3 * float(np.abs(differences).max()):
        if abs(factor + 1) < 1e-3:
            return "wrong sign: the gradient is minus what differences of values give"
        return f"the gradient is {1 / factor:.4g} times what differences of values give"
    i = int(np.abs(slopes - differences).argmax())
    return (
        f"does not fit the values: in one direction the gradient predicts the slope {slopes[i]:.6g}, and differences "
        f"of values give {differences[i]:.6g}"
    )


def _dense(point: Point) -> Array:
    return np.asarray(point.x, dtype=np.float64)


def _hessian_row(f: Objective, point: Point, rng: np.random.Generator) -> Row:
    model, trouble = _tried(lambda: f.model(point, f.gradient))
    if trouble:
        return Row("Hessian", "wrong", trouble)
    if model is None:
        return Row("Hessian", "missing", "methods with second derivatives use secants; Smooth takes hess_product=...")
    x = _dense(point)
    d = rng.standard_normal(x.shape)
    d /= norm(d.ravel())
    single = point.x.dtype == np.float32
    h = float(np.cbrt(np.finfo(np.float32 if single else np.float64).eps)) * max(1.0, float(np.abs(x).max()))

    def curvatures() -> tuple[float, float]:
        ends = [f.point(x + sign * h * d) for sign in (1.0, -1.0)]
        slopes = [float(np.vdot(np.asarray(f.gradient(end), dtype=np.float64), d)) for end in ends]
        left, right = model.sides(f.refresh(f.point(d)))
        return float(np.sum(left * right * model.second)), (slopes[0] - slopes[1]) / (2 * h)

    found, trouble = _tried(curvatures)
    if trouble:
        return Row("Hessian", "unknown", f"it cannot be compared with differences of gradients: {trouble}")
    own, measured = found
    if abs(own - measured) > _CURVATURE * (abs(own) + abs(measured)):
        remark = f"its curvature in one direction is {own:.6g}; differences of gradients give {measured:.6g}"
        return Row("Hessian", "wrong", remark)
    return Row("Hessian", "ok", "agrees with differences of gradients")


def _convex_row(f: Objective, point: Point, value: float, rng: np.random.Generator) -> Row:
    x = _dense(point)

    def rises() -> list[float]:
        ends = [x + rng.standard_normal(x.shape) for _ in range(5)]
        return [(value + f.value(f.point(y))) / 2 - f.value(f.point((x + y) / 2)) for y in ends]

    found, trouble = _tried(rises)
    curved = not trouble and min(found) < -_CLOSE * (1 + abs(value))
    if f.convex and curved:
        return Row("convex", "wrong", "declared, but f lies above a chord between two points")
    if f.convex:
        return Row("convex", "ok", "declared; the gap bounds the error")
    remark = "not declared; if f is not convex, a gap measures only stationarity"
    return Row("convex", "unknown", "f is not convex; a gap measures only stationarity" if curved else remark)


def _smoothness_row(f: Objective, point: Point, gradient: Array | None, rng: np.random.Generator) -> Row:
    if f.smoothness is None or gradient is None:
        return Row("smoothness", "missing", 'line_search="short" needs it')
    x = _dense(point)

    def ratios() -> list[float]:
        steps = [rng.standard_normal(x.shape) for _ in range(5)]
        return [
            float(norm((np.asarray(f.gradient(f.point(x + d))) - gradient).ravel()) / norm(d.ravel())) for d in steps
        ]

    found, trouble = _tried(ratios)
    if trouble:
        return Row("smoothness", "unknown", f"gradients near the point cannot be compared: {trouble}")
    if f.image_map is None and max(found) > f.smoothness * (1 + 1e-3):
        remark = (
            f"is {f.smoothness:.6g}, but two gradients differ by {max(found):.6g} times the distance of their points"
        )
        return Row("smoothness", "wrong", remark)
    return Row("smoothness", "ok", f"{f.smoothness:.6g}")
