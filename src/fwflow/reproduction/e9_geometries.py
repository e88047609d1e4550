"""E9: exponents of Frank-Wolfe and Runge-Kutta methods, beside those of the flow, by the geometry of the optimum."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from fwflow._numerics import norm
from fwflow._validation import Array, InputError
from fwflow.objectives import Objective, Quadratic, Smooth
from fwflow.reproduction.claims import Case, Claim, Topic, VerdictRule
from fwflow.reproduction.framework import FW, RK44, Columns, Figure, Findings, Results, ResultTable, Task
from fwflow.reproduction.problems import ProblemInstance, solve
from fwflow.reproduction.style import INK, PALETTE, colours, in_style, label, legend_below, subplots, thin
from fwflow.sets import ConstraintSet, Ellipsoid, L2Ball, LpBall, NuclearBall, Simplex
from fwflow.steps.schedules import ConstantSchedule, LogOpenLoop, OpenLoop
from fwflow.tableau.catalogue import find_tableau
from fwflow.trajectories import exact_flow, fit_rate

TITLE = "When a discretisation keeps the rate of the flow"

#: Geometry, method and c of a run.
Run = tuple[str, str, float]

#: Stands for the schedule whose c grows with the logarithm of k.
LOG = 0.0

# The accuracy of a reliable fit is 0.15, so it is the tolerance of every rule.
SAME = VerdictRule("agrees if at most 0.15, disagrees if more", (0.0, 0.15), (0.0, 0.15))
AT_MOST_TWO = VerdictRule("agrees if at most 2.15, disagrees if more", (-math.inf, 2.15), (-math.inf, 2.15))
AT_MOST_THREE = VerdictRule("agrees if at most 3.15, disagrees if more", (-math.inf, 3.15), (-math.inf, 3.15))
AT_MOST_ONE = VerdictRule("agrees if at most 1.15, disagrees if more", (-math.inf, 1.15), (-math.inf, 1.15))
AT_LEAST_ONE = VerdictRule("agrees if at least 0.85, disagrees if less", (0.85, math.inf), (0.85, math.inf))
NO_WORSE = VerdictRule.below("agrees if at most 1/1.05, disagrees if at least 1.05")


@dataclass(frozen=True)
class Settings:
    """Runs of `iterations` steps from one start per geometry, with f - f* computed without cancellation."""

    iterations: int = 4000
    c: tuple[float, ...] = (1.0, 2.0, 3.0, 4.0, 6.0, 8.0)
    methods: tuple[str, ...] = (FW, RK44)
    others: tuple[str, ...] = ("heun", "kutta3")  # only with the values of c in `others_c`
    others_c: tuple[float, ...] = (1.0, 4.0)


QUICK = {"iterations": 500, "c": (1.0, 2.0, 4.0), "others": ("heun",), "others_c": (4.0,)}


@dataclass(frozen=True)
class Geometry:
    r"""Problem with :math:`f(x) = \langle x - x^*, H (x - x^*)\rangle / 2 + \langle g, x - x^*\rangle` and minimum 0.

    H is diagonal. The optimum x^* over C is known exactly, because -g is in the normal cone of C at x^*. The formula
    for f has no cancellation: its rounding error is that of x - x^*.
    """

    name: str
    C: ConstraintSet
    x_star: Array
    g: Array
    x0: Array
    proved: str  # results of others about this geometry
    k0: int = 0  # number of the first step
    slow: bool = False  # whether an oracle call takes long, so that runs are shorter and fewer schedules are tried

    @property
    def H(self) -> Array:
        """Diagonal of the Hessian."""
        return np.linspace(1.0, 2.0, self.x_star.size).reshape(self.x_star.shape)

    def error(self, x: Any) -> float:
        """Return f(x) - f(x^*)."""
        d = np.asarray(x) - self.x_star
        return float(np.sum(self.H * d * d) / 2 + np.sum(self.g * d))

    @property
    def objective(self) -> Objective:
        """The function f, up to a constant for vectors."""
        if self.x_star.ndim == 1:
            return Quadratic(np.diag(self.H), self.H * self.x_star - self.g)
        return Smooth(self.error, lambda x: self.H * (x - self.x_star) + self.g)

    @property
    def problem(self) -> ProblemInstance:
        return ProblemInstance(self.objective, self.C, self.x0, 0.0, "")


N = 10  # dimension of the vectors

INSIDE, FACE, VERTEX = "simplex, optimum inside", "simplex, inside a face", "simplex, at a vertex"
BALL, ZERO, CENTRE = "ball, on the boundary", "ball, zero gradient", "ball, optimum inside"
ELLIPSOID, FLAT = "ellipsoid, on the boundary", "L3 ball, at a flat point"
RANK_ONE, RANK_TWO = "nuclear ball, rank one", "nuclear ball, rank two"
POLYTOPES = (INSIDE, FACE, VERTEX)
#: Sets that are strongly convex near the optimum, where the gradient is not zero.
CURVED = (BALL, ELLIPSOID, RANK_ONE)


@cache
def geometries() -> Mapping[str, Geometry]:
    """Return the geometries by name."""
    rising, axes, flat = np.linspace(1.0, 2.0, N), np.linspace(1.0, 3.0, N), np.full(N, 0.2)
    zero, vertex, corner, start = np.zeros(N), np.eye(N)[0], np.eye(N)[-1], 0.5 * np.eye(N)[0]
    u, inside = rising / norm(rising), rising / rising.sum()
    face = np.where(np.arange(N) < 4, rising, 0.0) / rising[:4].sum()
    off_face = np.where(face > 0, 0.0, 1.0)
    matrix = np.full((4, 3), 0.05)
    one, two, slope, even = (diagonal(*d) for d in ((1, 0, 0), (0.6, 0.4, 0), (-1, -0.5, -0.2), (-1, -1, -0.2)))
    interior = "O(k^-2) for open-loop steps (arXiv 2205.12838); linear with line search (Guelat & Marcotte 1986)"
    polytope = "O(k^-2) for whole c ≥ 2 (arXiv 2205.12838 and 2310.04096)"
    curved = "O(k^-c) for whole c ≥ 2 (arXiv 2310.04096); the log schedule is at least as fast (2505.09886)"
    touching = "O(k^-2) with line search (Garber & Hazan 2015), which is the best bound (arXiv 2602.04378)"
    flatter = "uniformly convex sets: between k^-1 and k^-2 (arXiv 2205.12838)"
    unknown = "no result for open-loop steps is known to us"
    found = (
        Geometry(INSIDE, Simplex(1.0), inside, zero, corner, interior),
        Geometry(FACE, Simplex(1.0), face, off_face, corner, polytope),
        Geometry(VERTEX, Simplex(1.0), vertex, 1.0 - vertex, corner, polytope, k0=1),
        Geometry(BALL, L2Ball(1.0), u, -u, start, curved),
        Geometry(ZERO, L2Ball(1.0), u, zero, start, touching),
        Geometry(CENTRE, L2Ball(1.0), u / 2, zero, start, interior),
        Geometry(ELLIPSOID, Ellipsoid(zero, axes), axes * u, -u / axes, start, curved),
        Geometry(FLAT, LpBall(3.0, 1.0), vertex, -vertex, flat, flatter),
        Geometry(RANK_ONE, NuclearBall(1.0), one, slope, matrix, unknown, slow=True),
        Geometry(RANK_TWO, NuclearBall(1.0), two, even, matrix, unknown, slow=True),
    )
    return {geometry.name: geometry for geometry in found}


def diagonal(*entries: float) -> Array:
    """Return the 4 x 3 matrix with that diagonal."""
    return np.eye(4, 3) * np.array(entries, dtype=float)


def run(geometry: str, method: str, c: float, iterations: int, k0: int | None = None) -> dict[str, Any]:
    """Return the largest error from k on, for a selection of k, the last error, and the fit of the rate.

    Rates are fitted against the clock of the method, in which the weight that the start keeps is a power law: c + t for
    the flow, with t = k0 + k. For Euler's method the weight is the product of 1 - c/(c + t), which is a power law of
    t + (c - 1)/2 up to a relative error of order 1/t^2.
    """
    chosen, errors = geometries()[geometry], list[float]()
    schedule = OpenLoop(c=c, k0=chosen.k0 if k0 is None else k0) if c != LOG else LogOpenLoop()
    solve(
        chosen.problem,
        max(100, iterations // 4) if chosen.slow else iterations,
        method=method,
        schedule=schedule,
        callback=lambda state: errors.append(chosen.error(state.x)),
    )
    k = np.arange(len(errors))
    t, index = k + schedule.k0, thin(k)
    now = c if c != LOG else 2 + np.log1p(t)
    clock = t + (now if find_tableau(method).order > 1 else (now - 1) / 2)
    envelope = np.maximum.accumulate(np.array(errors)[::-1])[::-1]
    return {"k": k[index], "error": envelope[index], "last": errors[-1]} | _fitted(np.array(errors), clock)


def _fitted(errors: Array, position: Array) -> dict[str, Any]:
    """Return the fields of the fitted rate as columns; NaN if there is nothing to fit."""
    try:
        rate = fit_rate(errors, position)
    except ValueError:
        return dict.fromkeys(("exponent", "low", "high", "saturated"), math.nan) | {"reliable": 0.0}
    low, high = rate.interval
    saturated = math.nan if rate.saturated is None else rate.saturated
    reliable = float(rate.reliable)
    return {"exponent": rate.exponent, "low": low, "high": high, "reliable": reliable, "saturated": saturated}


#: Run of FW with c = 1 whose first step has the number 1.
LATE = "simplex-inside-a-face-fw-1-late"

#: Step of the flow in tau, the integral of gamma, over sets that are not polytopes, and the last tau.
STEP, LAST = 0.02, 20.0


def flow(geometry: str) -> dict[str, Any]:
    """Return the rate r of the flow, f - f* = exp(-r tau), where tau is the integral of gamma.

    With gamma = c / (c + t), the exponent of c + t is r c. Over polytopes the flow is exact. Over other sets it is
    computed with small steps of order 4, and their error is a floor.
    """
    chosen = geometries()[geometry]
    tau = STEP * np.arange(round(LAST / STEP) + 1)
    if geometry in POLYTOPES:
        points = exact_flow(chosen.objective, chosen.C, chosen.x0).at(tau)
        errors = np.array([chosen.error(x) for x in points])
    else:
        seen: list[float] = []
        solve(
            chosen.problem,
            len(tau) - 1,
            method=RK44,
            schedule=ConstantSchedule(STEP),
            callback=lambda state: seen.append(chosen.error(state.x)),
        )
        errors = np.array(seen)
    return _fitted(errors, np.exp(tau))


def tasks(settings: Settings) -> list[Task]:
    if settings.iterations < 100:
        raise InputError(f"iterations must be at least 100 to see decades of k; got {settings.iterations}")
    if not all(c >= 1 for c in settings.c + settings.others_c):
        raise InputError(f"c must be at least 1; got {settings.c} and {settings.others_c}")
    flows = [Task(f"flow-{_slug(name)}", flow, {"geometry": name}) for name in geometries()]
    late = {"geometry": FACE, "method": FW, "c": 1.0, "iterations": settings.iterations, "k0": 1}
    return [
        *flows,
        Task(LATE, run, late),
        *(Task(key(*case), run, _arguments(settings, *case)) for case in cases(settings)),
    ]


def _arguments(settings: Settings, geometry: str, method: str, c: float) -> dict[str, Any]:
    return {"geometry": geometry, "method": method, "c": c, "iterations": settings.iterations}


def cases(settings: Settings) -> Iterator[Run]:
    """Yield geometry, method and c of every run."""
    methods = dict.fromkeys(settings.methods, (*settings.c, LOG))
    methods |= {method: settings.others_c for method in settings.others if method not in methods}
    for name, geometry in geometries().items():
        for method, values in methods.items():
            for c in values:
                if not geometry.slow or (method in settings.methods and c in (1.0, 2.0, 4.0)):
                    yield name, method, c


def key(geometry: str, method: str, c: float) -> str:
    """Return the name of the result file of a run."""
    return f"{_slug(geometry)}-{method}-{'log' if c == LOG else f'{c:g}'}"


def _slug(text: str) -> str:
    return text.replace(",", "").replace(" ", "-")


@dataclass(frozen=True)
class Fit:
    """Fitted exponent of a run or of the flow."""

    exponent: float
    low: float
    high: float
    reliable: bool
    saturated: float

    @classmethod
    def of(cls, columns: Columns) -> Fit:
        exponent, low, high, saturated = (float(columns[n][0]) for n in ("exponent", "low", "high", "saturated"))
        return cls(exponent, low, high, bool(columns["reliable"][0]), saturated)

    @property
    def trusted(self) -> float:
        """The exponent if the fit is reliable, else NaN."""
        return self.exponent if self.reliable else math.nan

    @property
    def consistent(self) -> bool:
        """Whether the exponents of the interval agree, even if the errors end at a floor that is not rounding."""
        return self.high - self.low < 0.2

    @property
    def shown(self) -> str:
        """The exponent and its interval; a question mark says that the fit is not reliable."""
        if math.isnan(self.exponent):
            return "exact"
        return f"{self.exponent:.2f}{'' if self.reliable else '?'} [{self.low:.2f}, {self.high:.2f}]"


@in_style
def findings(settings: Settings, results: Results) -> Findings:
    fits = {case: Fit.of(results[key(*case)]) for case in cases(settings)}
    flows = {name: Fit.of(results[f"flow-{_slug(name)}"]) for name in geometries()}
    last = {case: float(results[key(*case)]["last"][0]) for case in fits}
    return Findings(
        summary="The flow with the schedule c/(c+t) converges at least as (c/(c+t))^c. Each geometry has a known "
        "optimum, and f - f* is computed without cancellation. Exponents are fitted to the envelope of f - f*. "
        "Where the set is strongly convex near the optimum and the gradient there is not zero, and at vertices "
        "of polytopes, Frank-Wolfe keeps the exponent c. Elsewhere its steps overshoot, and the exponent stays at 2 or "
        "at 3. A higher order of the method does not raise the exponent. The rules and statements of this "
        "experiment were written after first measurements. At the flat point, a bound of 2 was tried first and failed.",
        data=["All problems are exact, not data."],
        figures=[
            Figure(
                "e9-exponents",
                _exponents(settings, fits, flows),
                f"Fitted exponents of 1/k in f - f*, {settings.iterations} iterations. Bars are the intervals of "
                "the fits; hollow marks are fits that are not reliable. The line is the exponent of the flow. Where "
                "there is no line, the flow reaches the optimum in finite time.",
            ),
            Figure(
                "e9-errors", _errors(settings, results), "FW: largest f - f* from k on, for two geometries and every c."
            ),
        ],
        tables=[
            _table_of_exponents(settings, fits, Fit.of(results[LATE])),
            ResultTable(
                "What is proved about each geometry",
                ("geometry", "flow: f - f* = exp(-r τ)", "results of others for Frank-Wolfe"),
                [(name, _flow_in_words(flows[name]), g.proved) for name, g in geometries().items()],
                "τ is the integral of gamma, so that the exponent of the flow is r c.",
            ),
            _table_of_errors(settings, last),
        ],
        claims=_claims(settings, fits, flows, last),
    )


def _flow_in_words(fit: Fit) -> str:
    if fit.consistent:
        return f"r = {fit.exponent:.2f}"
    return (
        "optimum reached in finite time"
        if math.isnan(fit.saturated)
        else (f"optimum reached at about τ = {math.log(fit.saturated):.1f}")
    )


def _exponents(settings: Settings, fits: Mapping[Run, Fit], flows: Mapping[str, Fit]) -> Any:
    figure, grid = subplots(5, 2, 8.4, 12.0, sharex=True, sharey=True)
    shown = tuple(dict.fromkeys(method for _, method, _ in fits))
    colour, shift = colours(shown), {method: 0.09 * (i - (len(shown) - 1) / 2) for i, method in enumerate(shown)}
    top = max(settings.c) + 1
    for ax, (name, flow_fit) in zip(grid.flat, flows.items(), strict=True):
        if flow_fit.consistent:
            line = np.array([min(settings.c), max(settings.c)])
            ax.plot(line, flow_fit.exponent * line, color=INK, lw=0.8, label="flow")
        for method in shown:
            runs = [(c, fit) for (g, m, c), fit in fits.items() if (g, m) == (name, method) and c != LOG]
            runs = [(c, fit) for c, fit in runs if not math.isnan(fit.exponent)]
            for c, fit in runs:
                ax.plot([c + shift[method]] * 2, [fit.low, fit.high], color=colour[method], lw=1.0)
                face = colour[method] if fit.reliable else "none"
                ax.plot(c + shift[method], fit.exponent, "o", ms=4, mec=colour[method], mfc=face)
            # This curve has no marks. It gives the table of the figure its numbers.
            ax.plot(*np.array([(c, fit.exponent) for c, fit in runs]).reshape(-1, 2).T, lw=0, label=label(method))
        ax.set(title=name, xlabel="c", ylabel="exponent", ylim=(0, top))
        ax.label_outer()
    legend_below(figure, {label(m): c for m, c in colour.items()} | {"flow": INK}, {})
    return figure


def _errors(settings: Settings, results: Results) -> Any:
    figure, grid = subplots(1, 2, 8.4, 3.4, sharey=True)
    colour = {c: PALETTE[i % len(PALETTE)] for i, c in enumerate((*settings.c, LOG))}
    for ax, name in zip(grid[0], (BALL, FACE), strict=True):
        for c in colour:
            columns = results[key(name, FW if FW in settings.methods else settings.methods[0], c)]
            k, error = columns["k"], columns["error"]
            shown = (k > 0) & (error > 0)
            ax.loglog(k[shown], error[shown], color=colour[c], lw=1.0, label=_schedule(c))
        ax.set(title=name, xlabel="k")
    grid[0, 0].set(ylabel="f - f*", ylim=(1e-17, None))
    legend_below(figure, {_schedule(c): value for c, value in colour.items()}, {})
    return figure


def _schedule(c: float) -> str:
    return "c = 2 + log(k+1)" if c == LOG else f"c = {c:g}"


def _table_of_exponents(settings: Settings, fits: Mapping[Run, Fit], late: Fit) -> ResultTable:
    values = (*settings.c, LOG)
    pairs = dict.fromkeys((name, method) for name, method, _ in fits)
    return ResultTable(
        "Exponents of f - f* with their intervals",
        ("geometry", "method", *map(_schedule, values)),
        [
            (name, label(m), *(fits[name, m, c].shown if (name, m, c) in fits else "" for c in values))
            for name, m in pairs
        ],
        "Fits of the upper envelope of f - f*. A question mark says that the fit is not reliable: the exponents of "
        "parts of the run differ, the errors oscillate too much, or rounding leaves too few iterations. The schedule "
        "with the logarithm has no exponent, because its convergence is not a power law. On the face with c = 1, the "
        "first step of FW has gamma = 1 and forgets the start. If the first step has the number 1, the start keeps a "
        f"weight of 1/k, and the exponent of FW is {late.shown}.",
    )


def _table_of_errors(settings: Settings, last: Mapping[Run, float]) -> ResultTable:
    values = (*settings.c, LOG)
    return ResultTable(
        f"f - f* of FW after {settings.iterations} iterations",
        ("geometry", *map(_schedule, values)),
        [
            (name, *(f"{last[name, FW, c]:.1e}" if (name, FW, c) in last else "" for c in values))
            for name in geometries()
        ],
        "Errors below about 1e-15 are rounding.",
    )


def _claims(
    settings: Settings,
    fits: Mapping[Run, Fit],
    flows: Mapping[str, Fit],
    last: Mapping[Run, float],
) -> list[Claim]:
    """Return the claims, with one case per geometry. Fits that are not reliable do not count."""
    powers = {case: fit.exponent for case, fit in fits.items() if case[2] != LOG and fit.reliable}

    def largest(
        names: Iterable[str], value: Callable[[Run, float], float], higher: bool | None = None
    ) -> tuple[Case, ...]:
        """Return the largest value over methods and c for each geometry."""
        found = {
            name: [value(run, p) for run, p in powers.items() if run[0] == name and higher in (None, _higher(run))]
            for name in names
        }
        return tuple(Case(name, max(values, default=math.nan)) for name, values in found.items())

    def distance_from_c(run: Run, p: float) -> float:
        return abs(p - run[2])

    def distance_from_fw(run: Run, p: float) -> float:
        return abs(p - powers[run[0], FW, run[2]]) if (run[0], FW, run[2]) in powers else -math.inf

    compared = tuple(case for case in largest(geometries(), distance_from_fw, higher=True) if case.value >= 0)
    most = largest(geometries(), lambda run, p: p, higher=False)
    ends = {case: max(error, 1e-16) for case, error in last.items()}  # smaller errors are rounding
    ratios = tuple(
        Case(name, ends[name, FW, LOG] / ends[name, FW, 2.0])
        for name in geometries()
        if {(name, FW, LOG), (name, FW, 2.0)} <= set(ends)
    )
    distance = "largest distance of the exponent from c, over all c with a reliable fit"
    exponent = "largest exponent of 1/k in f - f*, over all methods and c with a reliable fit"
    capped = (INSIDE, FACE, ZERO, CENTRE, RANK_TWO)
    return [
        Claim(
            "The flow converges at least as fast as (c/(c+t))^c",
            "Proposition 2.1",
            AT_LEAST_ONE,
            tuple(Case(name, fit.exponent) for name, fit in flows.items() if fit.consistent),
            "the rate r of the flow, f - f* = exp(-r τ); geometries in which it ends in finite time are left out",
        ),
        Claim(
            "FW cannot improve on O(1/k) for any c, read as a statement about each geometry",
            "section 2",
            AT_MOST_ONE,
            most,
            "largest exponent of 1/k of FW in f - f*, over all c with a reliable fit. For the worst case over problems "
            "with more dimensions than iterations, the bound 1/k is proved (Jaggi 2013)",
        ),
        Claim(
            "FW keeps the exponent c of the flow if the set is strongly convex near the optimum and the gradient there "
            "is not zero",
            "",
            SAME,
            largest(CURVED, distance_from_c, higher=False),
            distance,
        ),
        Claim(
            "The same for methods of higher order",
            "",
            SAME,
            largest(CURVED, distance_from_c, higher=True),
            distance,
        ),
        Claim(
            "At a vertex of a polytope, FW and methods of higher order keep the exponent c of the flow",
            "",
            SAME,
            largest((VERTEX,), distance_from_c),
            distance,
        ),
        Claim(
            "The exponent is at most 2 for every c if the optimum is inside, inside a face of positive dimension, or "
            "where the gradient is zero",
            "",
            AT_MOST_TWO,
            largest(capped, lambda run, p: p),
            exponent,
        ),
        Claim(
            "At a flat point of the L3 ball the exponent is at most 3 for every c",
            "",
            AT_MOST_THREE,
            largest((FLAT,), lambda run, p: p),
            exponent,
        ),
        Claim(
            "A higher order does not change the exponent",
            "section 3.1",
            SAME,
            compared,
            "largest distance of the exponent of a method of higher order from that of FW with the same c, "
            "where both fits are reliable",
            _order_in_words(compared),
            Topic.RATE,
        ),
        Claim(
            "The log schedule ends at a lower error than c = 2",
            "",
            NO_WORSE,
            ratios,
            f"f - f* of FW after {settings.iterations} iterations with c = 2 + log(k+1), divided by that with c = 2",
        ),
    ]


def _order_in_words(compared: tuple[Case, ...]) -> str:
    if not compared:
        return ""
    largest = max(case.value for case in compared)
    return f"on {len(compared)} geometries the exponents of higher orders differ from FW's by at most {largest:.2f}"


def _higher(run: Run) -> bool:
    return find_tableau(run[1]).order > 1
