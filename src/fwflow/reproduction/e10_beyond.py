"""E10: the lower bound for the ball, averages of oracle answers, and the size of active sets."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fwflow._numerics import dot
from fwflow._validation import Array, InputError
from fwflow.methods.active import AwayStep, BlendedPairwise
from fwflow.methods.restricted.atoms import caratheodory
from fwflow.objectives import Quadratic
from fwflow.reproduction.claims import Case, Claim, VerdictRule
from fwflow.reproduction.framework import FW, RK44, Columns, Figure, Findings, Results, ResultTable, Task
from fwflow.reproduction.problems import ProblemInstance, solve
from fwflow.reproduction.style import INK, PALETTE, colours, in_style, label, legend_below, subplots, thin
from fwflow.sets import Box, L2Ball, Simplex
from fwflow.tableau.catalogue import find_tableau
from fwflow.trajectories import fit_rate

TITLE = "Lower bound, averaging and active sets"

STAYS = VerdictRule("agrees if at least 0.5, disagrees if less", (0.5, math.inf), (0.5, math.inf))
LARGER = VerdictRule.above("agrees if at least 1.05, disagrees if at most 1/1.05")
THREE_HALVES = VerdictRule("agrees if at least 1.35, disagrees if less", (1.35, math.inf), (1.35, math.inf))
WITHIN = VerdictRule("agrees if at most 1, disagrees if more", (0.0, 1.0), (0.0, 1.0))

OPEN, EXACT = "open-loop", "exact"
PLAIN, VERTICES, GRADIENTS = "plain", "lmo-averaging", "gradient-averaging"
AVERAGES = {PLAIN: "no averaging", VERTICES: "averages of vertices", GRADIENTS: "averages of gradients"}
#: Methods with an active set, by name.
ACTIVE = {"away-step": AwayStep(), "blended pairwise": BlendedPairwise()}


@dataclass(frozen=True)
class Settings:
    """Gradients per run on the ball, iterations with averages, and iterations of methods with an active set."""

    gradients: int = 4000
    starts: int = 6
    iterations: int = 10_000
    problems: int = 3
    active_iterations: int = 400


QUICK = {"gradients": 1000, "starts": 2, "iterations": 1000, "problems": 2, "active_iterations": 200}

#: Methods and step lengths on the ball.
ON_THE_BALL = (
    (FW, EXACT), (FW, OPEN), ("heun", EXACT), ("kutta3", EXACT), (RK44, EXACT), (RK44, OPEN),
)  # fmt: skip


def ball(method: str, search: str, gradients: int, starts: int) -> dict[str, Any]:
    """Return the largest error over the starts, |x - p|^2 over the unit ball with |p| = 1, by number of gradients."""
    p = np.array([1.0, 0.0])
    stages = find_tableau(method).stages
    errors = []
    for angle in np.linspace(0.1, 3.0, starts):
        seen: list[float] = []
        x0 = 0.7 * np.array([math.cos(angle), math.sin(angle)])
        solve(
            ProblemInstance(Quadratic(2 * np.eye(2), 2 * p), L2Ball(1.0), x0, -1.0, ""),
            gradients // stages,
            method=method,
            line_search=search if search != OPEN else None,
            callback=lambda state, seen=seen: seen.append(float(np.sum((state.x - p) ** 2))),
        )
        errors.append(seen)
    worst = np.max(errors, axis=0)
    envelope = np.maximum.accumulate(worst[::-1])[::-1]
    spent = stages * np.arange(len(worst))
    index = thin(spent)
    return {"gradients": spent[index], "error": envelope[index]}


def regression(seed: int) -> tuple[Array, Array, Array]:
    """Return A, x^* and g of f(x) = |A (x - x^*)|^2/2 + <g, x - x^*> over the simplex, with x^* inside a face.

    The other columns of A resemble those of the face, and their entries of g are small. It therefore takes some
    iterations until the oracle answers with vertices of the face only.
    """
    random = np.random.default_rng(seed)
    rows, columns, face = 40, 30, 5
    base = random.standard_normal((rows, face)) / math.sqrt(rows)
    others = np.arange(columns) >= face
    noise = random.standard_normal((rows, columns)) / math.sqrt(rows)
    A = base[:, np.arange(columns) % face] + 0.3 * others * noise
    x_star = np.where(others, 0.0, random.uniform(0.5, 1.5, columns))
    return A, x_star / x_star.sum(), np.where(others, 3e-4 * random.uniform(1.0, 2.0, columns), 0.0)


def averaging(momentum: str, iterations: int, problems: int) -> dict[str, Any]:
    """Return the mean error over the problems, the iteration of identification, and the exponents before and after."""
    runs, identified = [], 0
    for seed in range(problems):
        A, x_star, g = regression(seed)
        H = dot(A.T, A)
        errors: list[float] = []
        outside = [0]

        def watch(state: Any, A: Array = A, x_star: Array = x_star, g: Array = g, errors: list[float] = errors) -> None:
            d = state.x - x_star
            residual = dot(A, d)
            errors.append(float(dot(residual, residual) / 2 + dot(g, d)))
            if x_star[np.argmin(dot(A.T, residual) + g)] == 0:
                outside[0] = state.k + 1  # noqa: B023 - called within this pass of the loop only

        start = np.eye(x_star.size)[-1]
        problem = ProblemInstance(Quadratic(H, dot(H, x_star) - g), Simplex(1.0), start, None, "")
        solve(problem, iterations, momentum=None if momentum == PLAIN else momentum, callback=watch)
        runs.append(errors)
        identified = max(identified, outside[0])
    mean = np.mean(runs, axis=0)
    k = np.arange(len(mean))
    index = thin(k)
    columns = {"k": k[index], "error": mean[index], "identified": identified}
    for name, part in (("before", (k > 3) & (k <= identified)), ("after", k > max(3, identified))):
        columns |= _exponent(name, mean[part], k[part])
    return columns


def _exponent(name: str, errors: Array, k: Array) -> dict[str, float]:
    try:
        rate = fit_rate(errors, k, start=0.0)
    except ValueError:
        return dict.fromkeys((name, f"{name}_low", f"{name}_high"), math.nan) | {f"{name}_reliable": 0.0}
    low, high = rate.interval
    return {name: rate.exponent, f"{name}_low": low, f"{name}_high": high, f"{name}_reliable": float(rate.reliable)}


#: Dimensions of the box and of the optimal face.
BOX, FACE = 20, 6


def atoms(method: str, iterations: int) -> dict[str, Any]:
    """Return the number of atoms of the active set, and of an affine basis of them, for each k on a box.

    `identified` is the iteration from which all atoms are in the optimal face.
    """
    random = np.random.default_rng(0)
    x_star = np.where(np.arange(BOX) < FACE, random.uniform(0.2, 0.8, BOX), 1.0)
    g = np.where(np.arange(BOX) < FACE, 0.0, -random.uniform(0.05, 0.1, BOX))
    B = random.standard_normal((BOX, BOX))
    H = dot(B, B.T) / BOX + np.eye(BOX)
    count, basis, outside = list[int](), list[int](), [0]

    def watch(state: Any) -> None:
        active = state.memory.active
        count.append(len(active))
        basis.append(len(caratheodory(active)))
        if any((np.asarray(vertex)[FACE:] != 1).any() for vertex in active.vertices):
            outside[0] = state.k + 1

    problem = ProblemInstance(Quadratic(H, dot(H, x_star) - g), Box(0.0, 1.0), np.zeros(BOX), None, "")
    solve(problem, iterations, method=ACTIVE[method], callback=watch)
    return {"k": np.arange(len(count)), "atoms": count, "basis": basis, "identified": outside[0]}


def tasks(settings: Settings) -> list[Task]:
    for name in ("gradients", "iterations", "active_iterations"):
        if getattr(settings, name) < 100:
            raise InputError(f"{name} must be at least 100 to see decades of k; got {getattr(settings, name)}")
    for name in ("starts", "problems"):
        if getattr(settings, name) < 1:
            raise InputError(f"{name} must be at least 1; got {getattr(settings, name)}")
    shared = {"gradients": settings.gradients, "starts": settings.starts}
    averages = {"iterations": settings.iterations, "problems": settings.problems}
    return [
        *(Task(f"ball-{m}-{s}", ball, {"method": m, "search": s, **shared}) for m, s in ON_THE_BALL),
        *(Task(f"averaging-{name}", averaging, {"momentum": name, **averages}) for name in AVERAGES),
        *(Task(_atoms_key(m), atoms, {"method": m, "iterations": settings.active_iterations}) for m in ACTIVE),
    ]


def _atoms_key(method: str) -> str:
    return f"atoms-{method.replace(' ', '-')}"


def _kept(run: Columns, gradients: int) -> float:
    """Return the smallest N^2 times the error in the last decade of the gradients N, over that in the decade before."""
    last = gradients // 10
    scaled = run["gradients"] ** 2 * run["error"]
    # The end of the run is left out, because the envelope covers few iterates there.
    late = scaled[(run["gradients"] >= last) & (run["gradients"] <= gradients - last)]
    early = scaled[(run["gradients"] >= last // 10) & (run["gradients"] < last)]
    return float(late.min() / early.min())


def _at(run: Columns, gradients: float) -> float:
    """Return the error after that many gradients."""
    return float(run["error"][np.searchsorted(run["gradients"], gradients, side="right") - 1])


@in_style
def findings(settings: Settings, results: Results) -> Findings:
    on_ball = {pair: results[f"ball-{pair[0]}-{pair[1]}"] for pair in ON_THE_BALL}
    averages = {name: results[f"averaging-{name}"] for name in AVERAGES}
    active = {name: results[_atoms_key(name)] for name in ACTIVE}
    return Findings(
        summary="Three results from the literature about what limits Frank-Wolfe or helps it. On the unit ball with "
        "the unconstrained minimiser on the boundary, exact line search and short steps need of order 1/sqrt(ε) "
        "iterations (arXiv 2602.04378). Averages of vertices converge as k^(-3p/2) after the optimal face is known, "
        "for p below 1, up to k^-1.5 (Chen & Sun, arXiv 2304.01432). With pivoting, active sets have at most one atom "
        "more than the dimension of the optimal face (arXiv 2407.11760). The rules of this experiment were written "
        "after first measurements.",
        data=["All problems are generated with fixed seeds or exact, not data."],
        figures=[
            Figure(
                "e10-ball",
                _ball_figure(on_ball),
                f"Ball, gradient zero at the optimum: largest error over {settings.starts} starts, against gradients.",
            ),
            Figure(
                "e10-averages",
                _averaging_figure(averages),
                f"Simplex, optimum inside a face: mean error over {settings.problems} regressions. Dots mark the "
                "iteration from which the oracle answers with vertices of the face only.",
            ),
            Figure(
                "e10-atoms",
                _atoms_figure(active),
                "Box, optimum inside a face: atoms of the active set, and of an affine basis of it (fw.caratheodory). "
                "The line is the dimension of the face plus one.",
            ),
        ],
        tables=[_ball_table(settings, on_ball), _averaging_table(averages), _atoms_table(active)],
        claims=[
            *_ball_claims(settings, on_ball),
            *_averaging_claims(averages),
            *_atoms_claims(active),
        ],
    )


def _named(pair: tuple[str, str]) -> str:
    return f"{label(pair[0])}, {'exact line search' if pair[1] == EXACT else 'c = 2'}"


DASHED = (0, (4, 1.5))


def _ball_figure(on_ball: Mapping[tuple[str, str], Columns]) -> Any:
    figure, grid = subplots(1, 1, 6.0, 3.8)
    colour = colours([m for m, _ in on_ball])
    for (method, search), run in on_ball.items():
        shown = (run["gradients"] > 0) & (run["error"] > 0)
        style, name = "-" if search == EXACT else DASHED, _named((method, search))
        grid[0, 0].loglog(run["gradients"][shown], run["error"][shown], color=colour[method], ls=style, label=name)
    grid[0, 0].set(xlabel="gradients", ylabel="f - f*")
    legend_below(figure, {label(m): c for m, c in colour.items()}, {"exact line search": "-", "c = 2": DASHED})
    return figure


def _averaging_figure(averages: Mapping[str, Columns]) -> Any:
    figure, grid = subplots(1, 1, 6.0, 3.8)
    colour = dict(zip(averages, PALETTE, strict=False))
    for name, run in averages.items():
        k, error, place = run["k"], run["error"], float(run["identified"][0])
        shown = (k > 0) & (error > 0)
        grid[0, 0].loglog(k[shown], error[shown], color=colour[name], label=AVERAGES[name])
        if place > 0:
            at = min(int(np.searchsorted(k, place)), len(k) - 1)
            grid[0, 0].loglog(k[at], error[at], "o", color=colour[name], ms=5)
    grid[0, 0].set(xlabel="k", ylabel="f - f*")
    legend_below(figure, {AVERAGES[name]: c for name, c in colour.items()}, {})
    return figure


def _atoms_figure(active: Mapping[str, Columns]) -> Any:
    figure, grid = subplots(1, 1, 6.0, 3.8)
    colour = colours(tuple(active))
    for name, run in active.items():
        for column, style in {"atoms": "-", "basis": DASHED}.items():
            words = label(name) if column == "atoms" else f"{label(name)}, affine basis"
            grid[0, 0].plot(run["k"], run[column], color=colour[name], ls=style, label=words)
    grid[0, 0].axhline(FACE + 1, color=INK, lw=0.8)
    grid[0, 0].set(xlabel="k", ylabel="atoms", xscale="log", xlim=(1, None), ylim=(0, None))
    legend_below(figure, {label(m): c for m, c in colour.items()}, {"active set": "-", "affine basis": DASHED})
    return figure


def _ball_table(settings: Settings, on_ball: Mapping[tuple[str, str], Columns]) -> ResultTable:
    budgets = (settings.gradients // 10, settings.gradients * 9 // 10)
    return ResultTable(
        "Largest error over the starts on the ball",
        ("method", *(f"f - f* after {b} gradients" for b in budgets), "N² · error, last decade over the one before"),
        [
            (_named(pair), *(f"{_at(run, b):.1e}" for b in budgets), f"{_kept(run, settings.gradients):.3g}")
            for pair, run in on_ball.items()
        ],
        "A ratio near one in the last column is the rate N^-2. The starts are on a half circle; the lower bound is for "
        "starts that are constructed backwards from the optimum.",
    )


def _ball_claims(settings: Settings, on_ball: Mapping[tuple[str, str], Columns]) -> list[Claim]:
    higher = {pair: run for pair, run in on_ball.items() if find_tableau(pair[0]).order > 1}
    budget = settings.gradients * 9 // 10
    kept = {pair: _kept(run, settings.gradients) for pair, run in on_ball.items()}
    number = "smallest N²·error in the last decade of the number N of gradients, divided by that in the decade before"
    return [
        Claim(
            "A tableau of higher order does not escape the lower bound k^-2 for the ball",
            "",
            STAYS,
            tuple(Case(_named(pair), kept[pair]) for pair in higher),
            number,
        ),
        Claim(
            "FW with exact line search shows the lower bound k^-2 from ordinary starts",
            "",
            STAYS,
            (Case(_named((FW, EXACT)), kept[FW, EXACT]),),
            number,
        ),
        Claim(
            "At equal numbers of gradients, tableaus of higher order end at a larger error than FW with line search",
            "",
            LARGER,
            tuple(Case(_named(p), _at(run, budget) / _at(on_ball[FW, EXACT], budget)) for p, run in higher.items()),
            f"error after {budget} gradients, divided by that of FW with exact line search",
        ),
    ]


def _averaging_table(averages: Mapping[str, Columns]) -> ResultTable:
    def cell(run: Columns, name: str) -> str:
        exponent, low, high, reliable = (float(run[f"{name}{end}"][0]) for end in ("", "_low", "_high", "_reliable"))
        return "-" if math.isnan(exponent) else f"{exponent:.2f}{'' if reliable else '?'} [{low:.2f}, {high:.2f}]"

    return ResultTable(
        "Averages: exponents before and after the face is identified",
        ("method", "identified at k", "exponent before", "exponent after", "f - f* at the end"),
        [
            (AVERAGES[n], f"{int(r['identified'][0])}", cell(r, "before"), cell(r, "after"), f"{r['error'][-1]:.1e}")
            for n, r in averages.items()
        ],
        "A question mark says that the fit is not reliable. With averages the errors oscillate slowly.",
    )


def _averaging_claims(averages: Mapping[str, Columns]) -> list[Claim]:
    end = {name: float(np.max(run["error"][run["k"] >= 0.9 * run["k"][-1]])) for name, run in averages.items()}
    averaged = [name for name in averages if name != PLAIN]
    lower = {name: float(averages[name]["after_low"][0]) for name in averaged}
    return [
        Claim(
            "After the face is identified, averages converge at least as k^-1.5",
            "",
            THREE_HALVES,
            tuple(Case(AVERAGES[name], low) for name, low in lower.items() if math.isfinite(low)),
            "lower end of the interval of the exponent after identification; not all fits are reliable. The theorem "
            f"is about averages of vertices. Without averaging the exponent is {averages[PLAIN]['after'][0]:.2f}",
        ),
        Claim(
            "Averages end at a smaller error than plain FW with the same schedule",
            "",
            LARGER,
            tuple(Case(AVERAGES[name], end[PLAIN] / end[name]) for name in averaged),
            "largest error of plain FW in the last tenth of the run, divided by that with averages",
        ),
    ]


def _largest_after(run: Columns, column: str) -> float:
    return float(np.max(run[column][run["k"] >= run["identified"][0]]))


def _atoms_table(active: Mapping[str, Columns]) -> ResultTable:
    return ResultTable(
        f"Active sets on a box of dimension {BOX}, optimum inside a face of dimension {FACE}",
        ("method", "identified at k", "most atoms after that", "most atoms of the affine basis", "bound"),
        [
            (
                label(name),
                f"{int(run['identified'][0])}",
                *(f"{_largest_after(run, column):.0f}" for column in ("atoms", "basis")),
                f"{FACE + 1}",
            )
            for name, run in active.items()
        ],
        "The methods reduce their active sets only when there are ten atoms per dimension of the set. The affine basis "
        "is what fw.caratheodory returns.",
    )


def _atoms_claims(active: Mapping[str, Columns]) -> list[Claim]:
    after = "most atoms after identification, divided by the dimension of the optimal face plus one"
    return [
        Claim(
            "After identification, active sets have at most one atom more than the dimension of the face",
            "",
            WITHIN,
            tuple(Case(label(name), _largest_after(run, "atoms") / (FACE + 1)) for name, run in active.items()),
            f"{after}; without pivoting, as the methods run by default",
        ),
        Claim(
            "The same after reduction to an affine basis, which is what pivoting keeps",
            "",
            WITHIN,
            tuple(Case(label(name), _largest_after(run, "basis") / (FACE + 1)) for name, run in active.items()),
            after,
        ),
    ]
