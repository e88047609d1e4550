"""E11: the lemmas of the proofs in appendices D and E of the paper, with their constants."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from fwflow._numerics import dot
from fwflow._validation import Array, InputError
from fwflow.reproduction.claims import Case, Claim, VerdictRule
from fwflow.reproduction.e7_certificates import CONDITION
from fwflow.reproduction.e8_rates import BOUNDED, STAYS, has_positive_weights
from fwflow.reproduction.framework import Findings, Results, ResultTable, Task
from fwflow.reproduction.problems import ProblemInstance, solve, tilted_triangle, triangle
from fwflow.reproduction.runs import cases
from fwflow.reproduction.style import label
from fwflow.steps.schedules import OpenLoop
from fwflow.tableau.catalogue import tableaus
from fwflow.tableau.scheme import Tableau

TITLE = "Lemmas of the proofs"

AT_MOST_ONE = VerdictRule(
    "agrees if at most 1, up to rounding, disagrees if more", (-math.inf, 1 + 1e-9), (-math.inf, 1 + 1e-9)
)
AT_MOST_TWO = VerdictRule(
    "agrees if at most 2, up to rounding, disagrees if more", (0.0, 2 * (1 + 1e-9)), (0.0, 2 * (1 + 1e-9))
)
POSITIVE = VerdictRule("agrees if more than 0, disagrees if 0", (1e-12, math.inf), (1e-12, math.inf))
#: The lemma bounds the step from below up to O(1/k²), which is below 1% for k ≥ 1000.
NOT_LESS = VerdictRule("agrees if at least 0.99, disagrees if less", (0.99, math.inf), (0.99, math.inf))
LARGER = VerdictRule("agrees if more than 1, disagrees if at most 1", (1 + 1e-9, math.inf), (1 + 1e-9, math.inf))

#: Slopes of the linear functions on which the missing constant L_2 is tested.
SLOPES = (1.0, 10.0, 100.0, 1000.0)


@dataclass(frozen=True)
class Scalar:
    """f = a x²/2 - b x over [-1, 1], with the start x0."""

    a: float
    b: float
    x0: float

    @property
    def optimum(self) -> float:
        ends = [-1.0, 1.0] if self.a == 0 else [min(1.0, max(-1.0, self.b / self.a))]
        return min(self.value(x) for x in ends)

    def value(self, x: Any) -> Any:
        return self.a * x * x / 2 - self.b * x


#: Problems of the one-step lemma on the interval. The proof fails for the last two: x^(1) is the vertex 1, from which
#: the step has the whole length of the interval, and a linear function has L = 0.
SCALARS = {
    "x²/2 on [-1, 1]": Scalar(1.0, 0.0, 1.0),
    "(x - 0.99)²/2 on [-1, 1]": Scalar(1.0, 0.99, -1.0),
    "1000 x on [-1, 1]": Scalar(0.0, -1000.0, 1.0),
}
#: Problems in the plane: L = 1, diameter 2, and L_2 is the largest distance of a vertex to the minimiser of f on R².
PLANE: dict[str, tuple[Callable[[], ProblemInstance], float]] = {
    "triangle": (triangle, 1.0),
    "tilted triangle": (tilted_triangle, math.hypot(1.4, 0.25)),
}


@dataclass(frozen=True)
class Settings:
    """Schedules c/(c+k) with c in `cs` for appendix D; `iterations` for appendix D, and `long` for appendix E."""

    cs: tuple[float, ...] = (1.0, 2.0, 4.0)
    iterations: int = 200
    long: int = 10_000


QUICK: dict[str, Any] = {"iterations": 100, "long": 3000}


def scalar_steps(tableau: Tableau, f: Scalar, c: float, iterations: int) -> tuple[Array, Array, Array]:
    """Return the iterates x, the stages xi and the distances abs(s - x_bar), by the equations of the paper.

    The lemmas are about stages, which a run of `minimize` does not return.
    """
    A, beta, omega = tableau.A.tolist(), tableau.beta.tolist(), tableau.omega.tolist()
    x, points, xis, reaches = f.x0, [f.x0], [], []
    for k in range(iterations):
        xi: list[float] = []
        reach: list[float] = []
        for row, w in zip(A, omega, strict=True):
            x_bar = x + sum(a * earlier for a, earlier in zip(row, xi, strict=False))
            s = -1.0 if f.a * x_bar - f.b > 0 else 1.0
            xi.append(c / (c + k + w) * (s - x_bar))
            reach.append(abs(s - x_bar))
        x += sum(b * step for b, step in zip(beta, xi, strict=True))
        points.append(x)
        xis.append(xi)
        reaches.append(reach)
    return np.array(points), np.array(xis), np.array(reaches)


@dataclass(frozen=True)
class Constants:
    """D_2, D_3 and D_4 of the one-step lemma."""

    D_2: float
    D_3: float
    D_4: float


def _inverse(tableau: Tableau, c: float, k: int) -> tuple[Array, Array]:
    """Return Γ and (I + A^T Γ)^-1 at step k."""
    Gamma = np.diag(c / (c + k + tableau.omega))
    return Gamma, np.linalg.inv(np.eye(tableau.stages) + dot(tableau.A.T, Gamma))


def printed_constants(tableau: Tableau, c: float, L: float, D: float) -> Constants:
    """Return the constants as the lemma defines them: c_1 = q p_max, c_2 = q max |A_ij|, p_max from P^(1)."""
    q = tableau.stages
    Gamma, inverse = _inverse(tableau, c, 1)
    p_max = float(np.linalg.norm(dot(Gamma, inverse), axis=0).max())  # the largest norm of a column
    D_2 = q * p_max * D
    D_3 = q * float(np.abs(tableau.A).max()) * D_2
    return Constants(D_2, D_3, (L * D_2**2 + 2 * L * D_2 * D_3 + 2 * D_3) / 2)


def mended_constants(tableau: Tableau, c: float, L: float, D: float, L_2: float) -> Constants:
    r"""Return constants for which the proof is complete, for certified tableaus with :math:`\beta \ge 0`.

    From :math:`\bar S - \bar X = (\bar S - x 1^T)(I + A^T\Gamma)^{-1}` follows
    :math:`\|s_i - \bar x_i\| \le D \sum_j |(I + A^T\Gamma)^{-1}_{ji}|`, which is largest among k = 1, ..., 1000 in
    D_2. Stage points may leave the set by :math:`\gamma D_3`, so the slope is at most
    :math:`L_2 + L D_3` there, and h may be negative, which costs a second term :math:`2 L_2 D_3`. The factor
    :math:`(\gamma/\gamma^+)^2` at k = 1 belongs to D_4.
    """
    D_2 = D * max(float(np.abs(_inverse(tableau, c, k)[1]).sum(axis=0).max()) for k in (*range(1, 20), 100, 1000))
    D_3 = float(np.abs(tableau.A).sum(axis=1).max()) * D_2
    slope = L_2 + L * D_3
    return Constants(D_2, D_3, ((c + 2) / (c + 1)) ** 2 * (L * D_2**2 + 2 * L * D_2 * D_3 + 4 * slope * D_3) / 2)


def excess(h: Array, c: float, D_4: float) -> float:
    """Return the largest (h(x+) - h(x) + γ+ h(x)) / (D_4 γ+²) for k ≥ 1. The lemma says that it is at most 1."""
    k = np.arange(1, len(h) - 1)
    gamma = c / (c + k + 1)
    left = h[2:] - (1 - gamma) * h[1:-1]
    # Rounding errors of h are not an excess if the right-hand side is zero.
    left[np.abs(left) <= 1e-13 * max(1.0, float(np.abs(h).max()))] = 0.0
    right = D_4 * gamma**2
    return float(np.divide(left, right, out=np.where(left > 0, math.inf, 0.0), where=right > 0).max())


def one_step(name: str, c: float, iterations: int) -> dict[str, Any]:
    """Return, by problem, the excess with the printed and with the mended constants, and the other numbers of D."""
    tableau = tableaus[name]
    columns: dict[str, list[float]] = {"printed": [], "mended": [], "reach": [], "bound": []}
    runs = []
    for f in SCALARS.values():
        x, _, reach = scalar_steps(tableau, f, c, iterations)
        L_2 = max(abs(f.a * end - f.b) for end in (-1.0, 1.0))
        runs.append((f.value(x) - f.optimum, f.a, L_2))
        columns["reach"].append(float(reach[1:].max()) / printed_constants(tableau, c, f.a, 2.0).D_2)
    for make, L_2 in PLANE.values():
        problem = make()
        trace = solve(problem, iterations, method=name, schedule=OpenLoop(c=c)).trace
        runs.append((trace["fun"] - problem.optimum, 1.0, L_2))
    for h, L, L_2 in runs:
        D_4 = printed_constants(tableau, c, L, 2.0).D_4
        columns["printed"].append(excess(h, c, D_4))
        columns["mended"].append(excess(h, c, mended_constants(tableau, c, L, 2.0, L_2).D_4))
        h_0 = max(float(h[0]), D_4 * c**2 / (c - 1)) if c > 1 else math.inf
        columns["bound"].append(float(((np.arange(len(h)) + 1) * h).max()) / h_0)
    return {key: np.array(values) for key, values in columns.items()}


def slopes(iterations: int) -> dict[str, Any]:
    """Return the excess of RK44 for c = 2 on linear functions of several slopes."""
    tableau, out = tableaus["rk44"], []
    for slope in SLOPES:
        f = Scalar(0.0, -slope, 1.0)
        h = f.value(scalar_steps(tableau, f, 2.0, iterations)[0]) - f.optimum
        out.append(excess(h, 2.0, printed_constants(tableau, 2.0, 0.0, 2.0).D_4))
    return {"excess": np.array(out)}


def interval(name: str, iterations: int) -> dict[str, Any]:
    """Return the numbers of the lemmas of appendix E on f = x²/2 over [-1, 1], for c = 2 and the last decades of k."""
    c, tableau = 2.0, tableaus[name]
    x, xi, _ = scalar_steps(tableau, SCALARS["x²/2 on [-1, 1]"], c, iterations)
    k, T = np.arange(iterations), np.diff(x)
    last = k >= iterations // 10
    before = (k >= iterations // 100) & ~last

    def growth(values: Array) -> float:
        return float(values[last].max() / values[before].max())

    towards = -np.sign(x[:-1]) * T * k
    beta_bar = smallest_split(tableau.beta)
    return {
        "distance": growth(k * np.abs(x[:-1])),
        "length": growth(k**2 * np.abs(np.abs(xi) - (c / (c + k))[:, None]).max(axis=1)),
        "towards": growth(towards),
        "step": float((np.abs(T) * (c + k))[last].min() / (c * beta_bar)) if beta_bar > 0 else math.nan,
        "epsilon": float(towards[last].max() / c),
    }


def smallest_split(beta: Array) -> float:
    """Return the smallest absolute difference of the sums of the two parts of a partition of the weights."""
    least = min(
        abs(sum(s * b for s, b in zip(signs, beta, strict=True))) for signs in product((-1, 1), repeat=len(beta))
    )
    return 0.0 if least < 1e-12 else float(least)


#: Sequences c_k of the first lemma of appendix E. All of them are 1 for infinitely many k. The last one returns x to 0
#: after each such k, and shows what happens if these k are sparse.
SEQUENCES = (
    "c_k = 1",
    "c_k = 1 for even k, else 0",
    "c_k = 1 for powers of 2, else 0",
    "c_k = 1 for k = 2, 4, 16, 256, 65536, each followed by a step to 0",
)
#: Length of these sequences. The lemma is tested for the first half, so that a later k with c_k = 1 always exists.
LENGTH = 2**17
#: C_1 of the lemma, which is less than the limit superior 1 of c_k.
C_1 = 0.99


def _sequence(name: str, k: int, x: float) -> float:
    """Return c_k, which may depend on the current x."""
    if name == SEQUENCES[0]:
        return 1.0
    if name == SEQUENCES[1]:
        return float(k % 2 == 0)
    if name == SEQUENCES[2]:
        return float(k & (k - 1) == 0)
    return 1.0 if k in (2, 4, 16, 256, 65536) else k * x


def recursions() -> dict[str, Any]:
    """Return the smallest k sup|x| / (C_1/2) of x+ = |x - c_k/k| from x^(1) = 1, over the first half."""
    out = []
    for name in SEQUENCES:
        x = [1.0]
        for k in range(1, LENGTH):
            x.append(abs(x[-1] - _sequence(name, k, x[-1]) / k))
        envelope = np.maximum.accumulate(np.array(x)[::-1])[::-1]
        k_first = np.arange(1, LENGTH // 2 + 1)
        out.append(float((k_first * envelope[: LENGTH // 2]).min() / (C_1 / 2)))
    return {"smallest": np.array(out)}


def tasks(settings: Settings) -> list[Task]:
    if settings.long < 1000:
        raise InputError(f"long must be at least 1000 to see decades of k; got {settings.long}")
    steps = [
        Task(f"one-step-{name}-c{c:g}", one_step, {"name": name, "c": c, "iterations": settings.iterations})
        for name in tableaus
        for c in settings.cs
    ]
    lemmas = [Task(f"interval-{name}", interval, {"name": name, "iterations": settings.long}) for name in tableaus]
    others = [
        Task("slopes", slopes, {"iterations": settings.iterations}),
        Task("recursions", recursions, {}),
    ]
    return [*steps, *lemmas, *others]


def findings(settings: Settings, results: Results) -> Findings:
    return Findings(
        summary="The proofs of Propositions 3.1 and 3.2 rest on lemmas. The one-step lemma of appendix D bounds the "
        "decrease of h = f - f* in one step with a constant D_4, which is computed here as the lemma defines it. The "
        "proof uses more than the lemma says. It needs weights β ≥ 0, and Dormand-Prince 5 has a negative weight. It "
        "needs (γ/γ+)² ≤ 2, which fails for c = k = 1, and the constant D_4 still lacks this factor. It divides by c "
        "- 1, so c = 1 is excluded. It bounds ‖s_i - x̄_i‖ by a bound on the shorter vectors ξ_i. It drops the "
        "Lipschitz constant L_2 of f from D_4. The lemmas of appendix E are about f = x²/2 over [-1, 1]. The last "
        "step of their proof sets ε = max(C_2, c), which is too large. A smaller ε, β̄ c, is enough for the result.",
        data=["All problems are defined by formulas and need no data."],
        tables=[_one_step_table(settings, results), _interval_table(results)],
        claims=[*_appendix_d(settings, results), *_appendix_e(settings, results)],
    )


def _worst(results: Results, column: str, names: Sequence[str], cs: Sequence[float]) -> Mapping[str, float]:
    """Return the largest number over the problems and over c, by tableau."""
    return {n: max(float(results[f"one-step-{n}-c{c:g}"][column].max()) for c in cs) for n in names if cs}


def _appendix_d(settings: Settings, results: Results) -> list[Claim]:
    names, cs = list(tableaus), settings.cs
    nonnegative = [n for n in names if tableaus[n].beta.min() >= 0]
    certified = [n for n in nonnegative if tableaus[n].certificate(c=2.0).feasible_from == 0]
    where = f"on five problems, k = 1, ..., {settings.iterations - 1}, c = {', '.join(f'{c:g}' for c in cs)}"
    lemma, proof = "Appendix D, one-step lemma", "Appendix D, proof of the one-step lemma"
    excess_words = "largest value of (h(x+) - h(x) + γ+ h(x)) / (D_4 γ+²)"
    above = [c for c in cs if c > 1]
    return [
        Claim(
            "One step satisfies h(x+) - h(x) ≤ -γ+ h(x) + D_4 γ+²",
            lemma,
            AT_MOST_ONE,
            cases(_worst(results, "printed", names, cs)),
            f"{excess_words} {where}",
            every=True,
            note="The problems include (x - 0.99)²/2 and 1000 x on [-1, 1], for which the proof fails.",
        ),
        Claim(
            "The stages satisfy ‖s_i - x̄_i‖ ≤ D_2",
            proof,
            AT_MOST_ONE,
            cases(_worst(results, "reach", names, cs)),
            f"largest ‖s_i - x̄_i‖ / D_2 on the three problems on [-1, 1], c = {', '.join(f'{c:g}' for c in cs)}",
            every=True,
            note="The proof bounds ξ_i = γ_i (s_i - x̄_i) and forgets to divide by γ_i, which is less than 1.",
        ),
        Claim(
            "The weights β are not negative",
            f"{proof}, not stated",
            CONDITION,
            cases({n: float(tableaus[n].beta.min()) for n in names}),
            "smallest weight",
            every=True,
            note="The proof multiplies inequalities by the weights β_i.",
        ),
        Claim(
            "(γ/γ+)² ≤ 2 for all k ≥ 1",
            proof,
            AT_MOST_TWO,
            tuple(Case(f"c = {c:g}", ((c + 2) / (c + 1)) ** 2) for c in cs),
            "(γ/γ+)² at k = 1, where it is largest",
            every=True,
            note="The ratio exceeds 2 only for c + k < 2.42, that is for c = k = 1 if c is a whole number.",
        ),
        Claim(
            "D_4 is large enough for the last line of the proof",
            proof,
            AT_MOST_ONE,
            tuple(Case(f"c = {c:g}", ((c + 2) / (c + 1)) ** 2) for c in cs),
            "(γ/γ+)² at k = 1, which D_4 would have to contain as a factor",
            every=True,
            note="The last line replaces γ² by (γ+)² without the factor (γ/γ+)² > 1.",
        ),
        Claim(
            "The lemma holds for linear functions of every slope (RK44, c = 2)",
            lemma,
            AT_MOST_ONE,
            tuple(Case(f"slope {s:g}", float(e)) for s, e in zip(SLOPES, results["slopes"]["excess"], strict=True)),
            f"{excess_words} on f = slope · x over [-1, 1]",
            every=True,
            note="The proof assumes that f is Lipschitz continuous with the constant L_2, and then leaves L_2 out of "
            "D_4. A linear function has L = 0, so D_4 does not depend on its slope, but h does.",
        ),
        Claim(
            "h_0 = max{h(x^(0)), D_4 c²/(c - 1)} is finite for every c ≥ 1",
            "Appendix D, proof of Proposition 3.1",
            POSITIVE,
            tuple(Case(f"c = {c:g}", c - 1) for c in cs),
            "the denominator c - 1",
            every=True,
            note="Proposition 2.1 allows c = 1.",
        ),
        Claim(
            "h(x^(k)) ≤ h_0 / (k + 1) with h_0 = max{h(x^(0)), D_4 c²/(c - 1)}, for c > 1",
            "Appendix D, proof of Proposition 3.1",
            AT_MOST_ONE,
            cases(_worst(results, "bound", names, above)),
            f"largest (k + 1) h(x^(k)) / h_0 on five problems, c = {', '.join(f'{c:g}' for c in above)}",
            every=True,
        ),
        Claim(
            "The one-step lemma holds with larger constants, for certified tableaus with β ≥ 0",
            "",
            AT_MOST_ONE,
            cases(_worst(results, "mended", certified, cs)),
            f"{excess_words} {where}",
            every=True,
            note="D_2 bounds s_i - x̄_i, and D_4 contains L_2 and the factor (γ/γ+)² at k = 1.",
        ),
    ]


def _appendix_e(settings: Settings, results: Results) -> list[Claim]:
    number = {n: {key: float(column[0]) for key, column in results[f"interval-{n}"].items()} for n in tableaus}
    covered = [n for n in tableaus if has_positive_weights(n)]
    left_out = [n for n in tableaus if n not in covered]
    split = {n: smallest_split(tableaus[n].beta) for n in tableaus}
    unsplit = [n for n in covered if split[n] > 0]
    growth = "in the last decade of k, divided by the largest value in the decade before"
    smallest = results["recursions"]["smallest"]

    def chosen(column: str, names: Sequence[str]) -> tuple[Case, ...]:
        return cases({n: number[n][column] for n in names})

    return [
        Claim(
            "The sequence x+ = |x - c_k/k| satisfies sup |x| ≥ C_1/(2k) if c_k exceeds C_1 again and again",
            "Appendix E, first lemma",
            VerdictRule.above("agrees if at least 1, disagrees if less", noise=1.0),
            tuple(Case(name, float(value)) for name, value in zip(SEQUENCES, smallest, strict=True)),
            f"smallest k · sup|x| / (C_1/2) with C_1 = {C_1:g}, for k up to {LENGTH // 2}",
            every=True,
            note="The proof shows the bound for infinitely many k, but not for every k. The lemma is enough for the "
            "paper, because the steps of its methods are not sparse.",
        ),
        Claim(
            "|x^(k)| ≤ C_2/k for large k, if 0 < z < 1",
            "Appendix E, second lemma",
            BOUNDED,
            chosen("distance", covered),
            f"largest k|x| {growth}",
            every=True,
        ),
        Claim(
            "|x^(k)| ≤ C_2/k for large k, also if z is not between 0 and 1",
            "",
            BOUNDED,
            chosen("distance", left_out),
            f"largest k|x| {growth}",
            every=True,
        ),
        Claim(
            "The stages have the length c/(c+k) up to O(1/k²)",
            "Appendix E, third lemma",
            BOUNDED,
            chosen("length", list(tableaus)),
            f"largest k² ||ξ_i| - c/(c+k)| {growth}",
            every=True,
        ),
        Claim(
            "Steps towards zero are longer than ε/k again and again, if β cannot be split (β̄ > 0)",
            "Appendix E, last lemma",
            STAYS,
            chosen("towards", unsplit),
            f"largest -sign(x) T(x) k {growth}",
            every=True,
        ),
        Claim(
            "Steps towards zero are longer than ε/k again and again, also if β can be split (β̄ = 0)",
            "",
            STAYS,
            chosen("towards", [n for n in covered if split[n] == 0]),
            f"largest -sign(x) T(x) k {growth}",
            every=True,
        ),
        Claim(
            "A step has at least the length β̄ c/(c+k), up to O(1/k²), if β̄ > 0",
            "Appendix E, proof of the last lemma",
            NOT_LESS,
            chosen("step", unsplit),
            "smallest |T(x)| / (β̄ c/(c+k)) in the last decade of k",
            every=True,
        ),
        Claim(
            "The last lemma holds with ε = max{C_2, c}",
            "Appendix E, proof of the last lemma",
            LARGER,
            chosen("epsilon", unsplit),
            "largest -sign(x) T(x) k / c in the last decade of k",
            every=True,
            note="The proof shows the smaller bound β̄ (c/(c+k) - C/k²), which is less than β̄ c/k. This is enough "
            "for the rate, so only the printed constant is wrong.",
        ),
    ]


def _one_step_table(settings: Settings, results: Results) -> ResultTable:
    problems = (*SCALARS, *PLANE)
    rows = []
    for name in tableaus:
        runs = [results[f"one-step-{name}-c{c:g}"] for c in settings.cs]
        worst = np.max([run["printed"] for run in runs], axis=0)
        mended, reach = (max(float(run[column].max()) for run in runs) for column in ("mended", "reach"))
        numbers = [*worst, mended, reach, tableaus[name].beta.min()]
        rows.append((label(name), *(f"{value:.3g}" for value in numbers)))
    header = ("tableau", *problems, "largest, larger constants", "largest ‖s_i - x̄_i‖ / D_2", "smallest weight β")
    note = (
        "Largest (h(x+) - h(x) + γ+ h(x)) / (D_4 γ+²) over k ≥ 1 and c, by problem. The lemma says that it is at "
        "most 1. The larger constants are meant for certified tableaus with β ≥ 0."
    )
    return ResultTable("One-step lemma of appendix D with its constants", header, rows, note)


def _interval_table(results: Results) -> ResultTable:
    rows = []
    for name in tableaus:
        run = {key: float(column[0]) for key, column in results[f"interval-{name}"].items()}
        beta_bar = smallest_split(tableaus[name].beta)
        condition = "yes" if has_positive_weights(name) else "no"
        numbers = ["-" if math.isnan(value) else f"{value:.3g}" for value in run.values()]
        rows.append((label(name), f"{beta_bar:.3g}", condition, *numbers))
    header = (
        "tableau", "β̄", "0 < z < 1", "growth of k|x|", "growth of k² ||ξ| - c/(c+k)|", "growth of -sign(x) T(x) k",
        "smallest |T(x)| (c+k) / (β̄ c)", "largest -sign(x) T(x) k / c",
    )  # fmt: skip
    note = (
        "f = x²/2 over [-1, 1] from x = 1, c = 2. Growth: largest value in the last decade of k, divided by the "
        "largest value in the decade before. T(x) is the step. β̄ is the smallest difference of the sums of two "
        "parts of β."
    )
    return ResultTable("Lemmas of appendix E", header, rows, note)
