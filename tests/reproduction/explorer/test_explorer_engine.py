"""The JavaScript numerics of the explorer, in headless Chromium, against those of the library."""

from __future__ import annotations

import json
import warnings
from functools import cache
from itertools import pairwise, product

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import fwflow as fw
from fwflow.reproduction import explorer
from fwflow.reproduction.explorer.page import drawing
from fwflow.reproduction.explorer.scenes import SHAPES, objective, problems, scenes, solve
from tests.reproduction.test_browser import CHROMIUM, DRIVER, Browser

pytestmark = pytest.mark.skipif(
    not (CHROMIUM and DRIVER),
    reason="needs Chromium and chromedriver on the path to run the JavaScript of the explorer",
)

VARIANTS = {
    "plain": {},
    "search": {"line_search": "aggressive"},
    "exact": {"line_search": "exact"},
    "momentum": {"momentum": "nesterov"},
}
METHODS = [(1, 0.3, "plain"), (4, 0.1, "plain"), (4, 1, "search"), *((2, 1, variant) for variant in VARIANTS)]
PROBLEMS = [(scene.key, place, shape) for scene, place, shape in problems()]

#: The problem of the page with a key.
PROBLEM = """const problem = (key) => {
    const [set, place, shape] = key.split(',');
    return problemOf({set, place, shape}) };"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    browser = Browser(tmp_path_factory.mktemp("profile"))
    browser.show(explorer.write(tmp_path_factory.mktemp("explorer") / "page.html"), 1200, "light")
    yield browser
    browser.quit()


def tableau_of(name):
    return fw.tableaus["euler" if name == "fw" else name]


def javascript_runs(browser, key, place, shape, methods, steps):
    """The runs of all tableaus on a problem, by tableau and method."""
    told = browser.run(f"""{PROBLEM}
        const run = (...given) => engine.run(problem('{key},{place},{shape}'), ...given, {steps});
        return Object.entries(catalogue).flatMap(([name, tableau]) => {json.dumps(methods)}.map(([c, delta, variant]) =>
            [name, c, delta, variant, run({{c, delta, variant}}, tableau)]))""")
    return {tuple(row[:4]): row[4] for row in told}


def minimize_points(scene, place, shape, method, steps):
    name, c, delta, variant = method
    points = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fw.UncertifiedWarning)
        result = fw.minimize(
            objective(scene.places[place], shape),
            scene.C,
            scene.x0,
            method=tableau_of(name),
            schedule=fw.OpenLoop(c=c, delta=delta, k0=1),
            tol=0.0,
            max_iter=steps,
            callback=lambda state: points.append(np.array(state.x)),
            **VARIANTS[variant],
        )
    return np.stack(points), result


def has_tie(scene, H, m, stages):
    """Whether two corners minimise the linear function of a stage up to rounding."""
    if scene.corners is None:
        return False
    values = np.sort(np.einsum("kij,lj->kil", (stages - m) @ H, scene.corners), axis=-1)
    return bool((values[..., 1] - values[..., 0] < 1e-12).any())


@pytest.mark.parametrize(("key", "place", "shape"), PROBLEMS)
def test_runs_are_those_of_minimize(browser, key, place, shape):
    # Rounding errors grow along a run, by 1/|gradient| per step on smooth sets, so whole runs agree for ten steps. All
    # steps of long runs are checked one by one below. At a tie, rounding decides which vertex the oracle returns.
    steps, scene, tied = 10, scenes()[key], 0
    H, m = SHAPES[shape], scene.places[place]
    runs = javascript_runs(browser, key, place, shape, METHODS, steps)
    assert len(runs) == len(fw.tableaus) * len(METHODS)
    for method, run in runs.items():
        points, result = minimize_points(scene, place, shape, method, steps)
        apart = np.abs(np.array(run["x"]) - points).max(axis=1)
        if (apart > 1e-9).any():
            first = int((apart > 1e-9).argmax())
            assert has_tie(scene, H, m, np.array(run["stages"])[:first]), method
            tied += 1
            continue
        gap = np.array([0.0 if value is None else value for value in run["gap"]])
        # Outside of the set the gap may be negative, and the page does not draw it.
        np.testing.assert_allclose(gap, np.maximum(result.trace["gap"], 0), atol=1e-9)
        np.testing.assert_allclose(run["lengths"], result.trace["step"][1:], atol=1e-9)
    assert tied <= 0.02 * len(runs)  # almost all runs are compared


@pytest.mark.parametrize(("key", "place", "shape"), PROBLEMS)
def test_every_step_of_a_long_run_obeys_the_equations(browser, key, place, shape):
    scene, H, steps = scenes()[key], SHAPES[shape], 30
    m = scene.places[place]
    optimum = np.array(solve(scene, place, shape)[0])
    methods = [(2, 1, variant) for variant in VARIANTS]
    for (name, c, delta, variant), run in javascript_runs(browser, key, place, shape, methods, steps).items():
        scheme = tableau_of(name)
        x, stages, s = (np.array(run[part]) for part in ("x", "stages", "targets"))
        shares, lengths = np.array(run["shares"]), np.array(run["lengths"])
        d = optimum - x
        errors = np.einsum("ki,ij,kj->k", d, H, d) / 2 - d @ (H @ (optimum - m))
        told = np.array([0.0 if value is None else value for value in run["error"]])
        np.testing.assert_allclose(told, np.maximum(errors, 0), atol=1e-14)
        theta, v = np.zeros(2), x[0]
        for k in range(steps):
            gammas = fw.OpenLoop(c=c, delta=delta, k0=1).stage_gammas(k, scheme.omega.tolist())
            W, p = scheme.mixture(gammas)
            np.testing.assert_allclose(shares[k] * gammas[0], p, atol=1e-14)
            np.testing.assert_allclose(x[k + 1], x[k] + lengths[k] * shares[k] @ (s[k] - x[k]), atol=1e-12)
            for i, row in enumerate(W):
                np.testing.assert_allclose(stages[k, i], x[k] + np.array(row) @ (s[k, :i] - x[k]), atol=1e-12)
                g = H @ (stages[k, i] - m)
                if variant == "momentum":
                    y = (1 - gammas[i]) * stages[k, i] + gammas[i] * (v if (k, i) != (0, 0) else x[0])
                    g = theta = (1 - gammas[i]) * theta + gammas[i] * (H @ (y - m))
                    v = s[k, i]
                assert g @ s[k, i] <= g @ np.asarray(scene.C.lmo(g)) + 1e-12
                assert scene.C.contains(s[k, i])
            along, g = shares[k] @ (s[k] - x[k]), H @ (x[k] - m)
            limit = min(1.0, gammas[0] / sum(p)) if min(p) >= 0 else 1.0
            check_length(variant, lengths[k], gammas[0], limit, g @ along, along @ H @ along)


def check_length(variant, length, gamma, limit, slope, curvature):
    """Check a step length against the definition of its rule, unless rounding decides."""
    if variant in ("plain", "momentum"):
        assert length == pytest.approx(gamma, abs=1e-15)
    elif variant == "exact" and curvature > 1e-6:  # the rounding error of the slope is about 1e-15
        assert length == pytest.approx(0.0 if slope > 0 else min(limit, -slope / curvature), abs=1e-9)
    elif variant == "search" and abs(slope) > 1e-12:
        trials = limit * 0.5 ** np.arange(60)
        change = trials * slope + trials**2 * curvature / 2
        if (np.abs(change[trials > gamma]) > 1e-14).all():
            better = trials[(change < 0) & (trials > gamma)]
            assert length == pytest.approx(better[0] if slope < 0 and len(better) else min(limit, gamma), abs=1e-12)


def random_drawings(count, seed=0):
    """Tableaus with small random fractions, as the page reads them."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(count):
        q = int(rng.integers(1, 6))
        rows = [[f"{rng.integers(-3, 5)}/{rng.integers(1, 5)}" for _ in range(i)] for i in range(1, q)]
        beta = rng.integers(-2, 6, q - 1).tolist()
        found.append([*rows, [*(f"{b}/6" for b in beta), f"{6 - sum(beta)}/6"]])
    return found


@cache
def scheme_of(text):
    rows = [[eval_fraction(entry) for entry in row.split()] for row in text.splitlines()]
    q = len(rows)
    lower = [[], *rows[:-1]]
    A = [row + [0.0] * (q - len(row)) for row in lower]
    return fw.Tableau(A, rows[-1], [float(np.sum(row)) for row in lower])


def eval_fraction(text):
    n, _, d = text.partition("/")
    return float(n) / float(d or 1)


def test_orders_and_certificates_are_those_of_the_library(browser):
    drawings = ["\n".join(" ".join(row) for row in rows) for rows in random_drawings(150)]
    drawings += [drawing(scheme) for scheme in fw.tableaus.values()]
    schedules = [*product((1, 2, 4), (1, 0.3, 0.1))]
    told = browser.run(f"""return {json.dumps(drawings)}.map(text => {{
        const t = engine.readTableau(text);
        return [t.order, {json.dumps(schedules)}.flatMap(([c, delta]) => [1, 7].map(k =>
            engine.definedFrom(t, {{c, delta}}) > k ? null : engine.certificate(t, {{c, delta}}, k)))] }})""")
    orders, seen = set(), set()
    for text, (order, certificates) in zip(drawings, told, strict=True):
        scheme = scheme_of(text)
        assert order == scheme.order, text
        orders.add(order)
        for (c, delta), k, found in zip(
            np.repeat(schedules, 2, axis=0), [1, 7] * len(schedules), certificates, strict=True
        ):
            if found is None:
                continue
            wanted = scheme.certificate(c=c, k=k, delta=delta)
            assert found["feasibleFrom"] == wanted.feasible_from, (text, c, delta)
            assert (found["feasible"], found["stagesFeasible"]) == (wanted.feasible, wanted.stages_feasible)
            np.testing.assert_allclose(found["z"], wanted.z, rtol=1e-9, atol=1e-12)
            np.testing.assert_allclose(found["p"], wanted.p, rtol=1e-9, atol=1e-12)
            seen.add(found["feasibleFrom"])
    assert orders == {1, 2, 3, 4, 5}
    assert len(seen) > 4  # None, 0 and several later steps


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1/2\n0 1 3", "Beta has 3 entries; expected 2."),
        ("1/2\n0 1 3\n1/6 2/3 1/6", "Row 2 of A has 3 entries; expected 2."),
        ("1\n1/2 1/3", "Beta must sum to 1; it sums to 5/6."),
        ("1/2\n0 one", "The entry “one” of beta is not a number; write for example 1/6, -0.5 or 2."),
        ("1/0\n0 1", "The entry 1/0 of row 1 of A has the denominator 0."),
        ("101\n0 1", "The entry 101 of row 1 of A must lie between -100 and 100."),
        ("", "The tableau is empty; type the rows of A and then beta, for example 1."),
        (";".join(" ".join(["0"] * i) for i in range(1, 14)), "The tableau has 13 stages; at most 12 are accepted."),
        ("1/2\n-5 2\n0 0 1", "Row 2 of A sums to -3. The sum is the time of a stage, relative to the start of"),
    ],
)
def test_mistakes_are_named(browser, text, message):
    told = browser.run(f"try {{ checkedTableau({json.dumps(text)}); return 'none' }} catch (e) {{ return e.message }}")
    assert told.startswith(message)


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("1/2\n0 1", ["1/2", "0 1"]),
        ("  .5 ;\n\n -0,  +1.0 ", ["1/2", "0 1"]),
        ("-1.25\n2/4_1/2", ["-5/4", "1/2 1/2"]),
        ("1", ["1"]),
    ],
)
def test_fractions_decimals_and_separators_are_read(browser, text, rows):
    assert browser.run(f"return engine.readTableau({json.dumps(text)}).drawing").splitlines() == rows


@pytest.mark.parametrize(("key", "place", "shape"), PROBLEMS)
def test_the_flow_solves_its_equation(browser, key, place, shape):
    scene, tau = scenes()[key], np.linspace(0, 3, 38)  # between the steps of the page, too
    m, H = scene.places[place], SHAPES[shape]
    script = f"""{PROBLEM} const flow = engine.flow(problem('{key},{place},{shape}'), 3, catalogue.rk44);
        return [{json.dumps(tau.tolist())}.map(flow.at), flow.curve[0], flow.at(60)]"""
    x, start, end = (np.array(part) for part in browser.run(script))
    np.testing.assert_array_equal(start, scene.x0)
    f = objective(m, shape)
    if scene.corners is not None:
        np.testing.assert_allclose(x, fw.exact_flow(f, scene.C, scene.x0).at(tau), atol=1e-12)
        np.testing.assert_allclose(end, solve(scene, place, shape)[0], atol=1e-12)
    elif place == "inside":  # the flow reaches m after a finite time, and the gradient is not smooth there
        small = fw.minimize(
            f, scene.C, scene.x0, method="fw", schedule=fw.ConstantSchedule(0.001), tol=0, max_iter=3000
        )
        np.testing.assert_allclose(small.x, x[-1], atol=5e-3)
        np.testing.assert_allclose(end, m, atol=1e-12)
    else:

        def velocity(_, x):
            return np.asarray(scene.C.lmo(H @ (x - m))) - x

        # Short steps, because the interpolation between the steps of SciPy is less accurate than the steps.
        known = solve_ivp(velocity, (0, 3), scene.x0, "DOP853", t_eval=tau, rtol=1e-12, atol=1e-13, max_step=0.01)
        np.testing.assert_allclose(x, known.y.T, rtol=0, atol=1e-8)


@pytest.mark.parametrize(
    ("key", "c", "exponent"),
    [
        ("triangle,inside,round", 2, 2.0),
        ("triangle,outside,round", 2, 2.0),
        ("disc,outside,round", 1, 1.0),
        ("disc,outside,round", 2, 2.0),
        ("disc,outside,round", 4, 4.0),
        ("disc,edge,round", 2, 2.0),
        ("ellipse,outside,round", 2, 2.0),
    ],
)
def test_rates_of_frank_wolfe_are_seen(browser, key, c, exponent):
    script = f"""{PROBLEM} const method = {{c: {c}, delta: 1, variant: 'plain'}};
        return engine.run(problem('{key}'), method, catalogue.fw, 4000).error"""
    errors = np.array(browser.run(script), dtype=float)
    edges = np.geomspace(100, 4000, 12).astype(int)
    highest = [np.nanmax(errors[a:b]) for a, b in pairwise(edges)]
    slope = np.polyfit(np.log(edges[:-1]), np.log(highest), 1)[0]
    assert -slope == pytest.approx(exponent, abs=0.3)
