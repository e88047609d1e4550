"""Units do not matter: scaling x, f or the radius by powers of two scales the whole run and changes nothing else."""

from __future__ import annotations

import numpy as np
import pytest

import fwflow as fw
from fwflow.methods import methods
from fwflow.steps import line_searches
from tests.catalogue import design, targets

M, N = 20, 6
A, B = design(M, N), targets(M)
V, SHIFT = design(9, N, seed=5), 0.25 * np.linspace(-1, 1, N)
LOWER, UPPER = -np.arange(1.0, N + 1) / N, np.arange(N, 0.0, -1) / N

#: Sets of a size that is a power of two.
SETS = {
    "l1": fw.L1Ball,
    "simplex": fw.Simplex,
    "l2": fw.L2Ball,
    "lp": lambda c: fw.LpBall(3.0, c),
    "linf": fw.LInfBall,
    "box": lambda c: fw.Box(c * LOWER, c * UPPER),
    "hull": lambda c: fw.ConvexHull(c * V),
    "polytope": lambda c: fw.Polytope(np.ones((1, N)), [c], lower=0.0, upper=c / 2),
    "scaled": lambda c: -c * fw.L1Ball(1.0),
    "translated": lambda c: fw.L1Ball(c) + c * SHIFT,
    "product": lambda c: fw.Product([(fw.L1Ball(c), 3), (fw.Simplex(c), 3)]),
}


def objective(kind, c, s):
    """An objective of x / c, times s squared."""
    data, b = A * (s / c), B * s
    if kind == "squared":
        return fw.LinearModel(data, b)
    if kind == "quadratic":
        return fw.Quadratic((A.T @ A) * (s / c) ** 2, (A.T @ B) * (s**2 / c))
    return fw.Smooth(
        lambda x: 0.5 * float(((data @ x - b) ** 2).sum()),
        lambda x: data.T @ (data @ x - b),
        shape=(N,),
        hess_product=lambda x, v: data.T @ (data @ v),
    )


SCALES = [(2.0**40, 1.0), (2.0**-40, 1.0), (1.0, 2.0**30), (1.0, 2.0**-30)]
RUNS = [
    *({"method": method} for method in ("fw", "rk44", *methods)),
    *({"line_search": search} for search in line_searches),
    {"momentum": "nesterov"},
    {"method": "rk44", "momentum": "lmo-averaging"},
]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("kind", ["squared", "quadratic", "smooth"])
def test_powers_of_two_scale_a_run_and_change_nothing_else(kind, name):
    for options in RUNS:
        try:
            plain = fw.minimize(objective(kind, 1.0, 1.0), SETS[name](1.0), tol=0, rtol=1e-8, max_iter=15, **options)
        except ValueError as error:
            if "need" not in str(error):
                raise
            continue
        for c, s in SCALES:
            said = f"{options}, x times {c:g}, f times {s:g} squared"
            scaled = fw.minimize(objective(kind, c, s), SETS[name](c), tol=0, rtol=1e-8, max_iter=15, **options)
            assert (scaled.status, scaled.nit, scaled.success) == (plain.status, plain.nit, plain.success), said
            gaps, small = scaled.trace["gap"] / s**2, 1e-9 * plain.trace["gap"][0]
            np.testing.assert_allclose(gaps, plain.trace["gap"], rtol=0, atol=small, err_msg=said)
            np.testing.assert_allclose(scaled.x / c, plain.x, rtol=0, atol=1e-7, err_msg=said)


def scaled_objective(kind, F):
    """An objective times F, which squares in its computation must not take."""
    s = np.sqrt(F)
    if kind == "squared":
        return fw.LinearModel(A * s, B * s)
    if kind == "huber":
        return fw.LinearModel(A * s, B * s, "huber", rho=0.5 * s)
    if kind == "quadratic":
        return fw.Quadratic(F * (A.T @ A), F * (A.T @ B))
    return fw.Smooth(
        lambda x: F * 0.5 * float(((A @ x - B) ** 2).sum()),
        lambda x: F * (A.T @ (A @ x - B)),
        shape=(N,),
        hess_product=(lambda x, v: F * (A.T @ (A @ v))) if kind == "hess" else None,
    )


@pytest.mark.parametrize("method", methods)
def test_objectives_of_any_size_are_minimised_alike(method):
    sets = {"l1": fw.L1Ball(0.5), "hull": fw.ConvexHull(V), "product": SETS["product"](1.0), "box": SETS["box"](0.5)}
    for kind in ("squared", "huber", "quadratic", "hess", "smooth"):
        for name, C in sets.items():
            options = {"method": method, "tol": 0, "rtol": 1e-3, "max_iter": 200}
            try:
                plain = fw.minimize(scaled_objective(kind, 1.0), C, **options)
            except ValueError as error:
                if "need" not in str(error):
                    raise
                continue
            for F in (1e200, 1e-200):
                scaled = fw.minimize(scaled_objective(kind, F), C, **options)
                assert scaled.success == plain.success, (kind, name, F)
                room = 2 * 1e-3 * plain.trace["gap"][0] if plain.success else np.inf
                assert abs(scaled.fun / F - plain.fun) <= room, (kind, name, F)


@pytest.mark.parametrize("scale", [1e8, 1e4, 1e-8])
@pytest.mark.parametrize("n", [2, 5])
def test_columns_of_other_units_keep_their_digits(n, scale):
    """Methods that know curvatures need a few steps, whatever units columns have."""
    f = fw.LinearModel(design(30, n) * np.where(np.arange(n) == 0, scale, 1.0), targets(30))
    options = {"tol": 1e-4, "max_iter": 40}
    for C in (fw.L1Ball(1.0), fw.Simplex(), fw.L2Ball(1.0)):
        corrective = fw.minimize(f, C, method="corrective", **options)
        assert corrective.success, (C, corrective)
        if C.polytope:  # weights of opposite vertices round x more than gaps of this size allow
            flow = fw.minimize(f, C, method="flow", **options)
            assert flow.fun <= corrective.fun + 1e-4, (C, flow)
    assert fw.minimize(f, fw.Box(-0.3, 0.3), method="flow", **options).success


@pytest.mark.parametrize("loss", ["logistic", "huber"])
@pytest.mark.parametrize("method", ["corrective", "flow"])
def test_losses_that_are_straight_far_away_are_left_in_a_step(loss, method):
    A = design(30, 4) * np.array([1e8, 1.0, 1.0, 1.0])
    options = {"rho": 0.5} if loss == "huber" else {}
    f = fw.LinearModel(A, np.sign(targets(30)), loss, **options)
    result = fw.minimize(f, fw.Simplex(), method=method, tol=1e-3, max_iter=40)
    assert result.success
