"""Functions that are infinite in a part of the set, declared or not: methods step back instead of giving up."""

from __future__ import annotations

import numpy as np
import pytest

import fwflow as fw
from fwflow.steps.searches import line_searches

N, EDGE = 6, 0.05
COSTS = np.random.default_rng(0).uniform(0.1, 1.0, N)
SETS = {"simplex": fw.Simplex(), "box": fw.Box(0.0, 1.0), "l2": fw.L2Ball(3.0)}
METHODS = [
    *("apg", "polished", "auto", "corrective", "sliding", "boosted", "decomposition-invariant"),
    *("away", "pairwise", "blended-pairwise", "blended", "lazy-away"),
]


def barrier(outside: float, slopes: str, domain: bool) -> fw.Smooth:
    """A linear function with a logarithmic barrier at EDGE; beyond it the value is `outside`."""

    def fun(x):
        return float(COSTS @ x - 0.01 * np.log(x - EDGE).sum()) if (x > EDGE).all() else outside

    def grad(x):
        g = COSTS - 0.01 / (x - EDGE)
        return g if slopes == "formula" or (x > EDGE).all() else np.full(N, np.nan)

    return fw.Smooth(fun, grad, shape=(N,), domain=(lambda x: bool((x > EDGE).all())) if domain else None)


@pytest.mark.parametrize(
    ("outside", "slopes", "domain"),
    [(np.inf, "formula", False), (np.nan, "formula", False), (np.inf, "nan", False), (np.inf, "formula", True)],
)
@pytest.mark.parametrize("method", METHODS)
def test_the_optimum_next_to_a_barrier_is_found(method, outside, slopes, domain):
    for name, C in SETS.items():
        if method == "decomposition-invariant" and name == "l2":
            continue  # it has no in-face oracle
        f = barrier(outside, slopes, domain)
        result = fw.minimize(f, C, np.full(N, 1 / N), method=method, tol=1e-3, max_iter=3000)
        assert result.success, (name, result)


@pytest.mark.parametrize("search", ["exact", "secant", "adaptive", "armijo"])
@pytest.mark.parametrize("outside", [np.inf, np.nan])
def test_line_searches_end_where_the_function_is_finite(search, outside):
    f = barrier(outside, "formula", domain=False)
    result = fw.minimize(f, fw.Simplex(), np.full(N, 1 / N), line_search=search, tol=1e-2, max_iter=500)
    assert result.status is not fw.Status.NUMERICAL
    assert np.isfinite(result.trace["fun"]).all()


POINTS = np.random.default_rng(1).standard_normal((N, 3))
RETURNS = np.vstack([[-1, -1, 2, 2, 2, 2], np.random.default_rng(2).uniform(0.5, 1.5, (20, N))])


def information(x):
    return POINTS.T * x @ POINTS


def regular(x):
    return np.linalg.eigvalsh(information(x))[0] > 1e-12


def inverse_form(M, power=1):
    return np.einsum("ij,jk,ik->i", POINTS, np.linalg.matrix_power(M, power), POINTS)


#: name -> value, gradient and domain of a convex function that is infinite at some members of the simplex
FUNCTIONS = {
    "log-det": (
        lambda x: -np.linalg.slogdet(information(x))[1],
        lambda x: -inverse_form(np.linalg.inv(information(x))),
        regular,
    ),
    "trace-of-inverse": (
        lambda x: np.trace(np.linalg.inv(information(x))),
        lambda x: -inverse_form(np.linalg.inv(information(x)), 2),
        regular,
    ),
    "log-portfolio": (
        lambda x: -np.log(RETURNS @ x).sum(),
        lambda x: -RETURNS.T @ (1 / (RETURNS @ x)),
        lambda x: (RETURNS @ x > 0).all(),
    ),
    "barrier": (
        lambda x: COSTS @ x - 0.01 * np.log(x - EDGE).sum(),
        lambda x: COSTS - 0.01 / (x - EDGE),
        lambda x: (x > EDGE).all(),
    ),
}
DESCENDING = [
    *({"method": name, "line_search": search} for name in ("fw", "rk44") for search in line_searches),
    *({"method": "fw", "line_search": search, "momentum": "nesterov"} for search in ("exact", "secant")),
    *({"method": name} for name in (*METHODS, "lazy-pairwise", "difference-of-convex")),
]
DESCENDING = [run for run in DESCENDING if run.get("line_search") not in ("aggressive", "short")]
OTHERS = [
    *({"method": name} for name in fw.tableaus),
    *({"method": name, "line_search": "aggressive"} for name in ("fw", "rk44", "away")),
    {"method": "fw", "line_search": "short"},
    {"method": "lazy-fw"},
    {"method": "fw", "momentum": "nesterov"},
]


class Outside(Exception):
    """What a user raises."""


def partly_infinite(name, outside, domain=False, **options):
    """The function, whose gradient outside of the domain is `outside`: None raises an error."""
    value, gradient, inside = FUNCTIONS[name]

    def grad(x):
        if inside(x):
            return gradient(x)
        if outside is None:
            raise Outside
        return outside * np.arange(1.0, N + 1)

    return fw.Smooth(
        lambda x: float(value(x)) if inside(x) else np.inf,
        grad,
        shape=(N,),
        domain=(lambda x: bool(inside(x))) if domain else None,
        **options,
    )


@pytest.mark.filterwarnings("ignore::fwflow.UncertifiedWarning")
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("options", DESCENDING + OTHERS, ids=lambda run: "-".join(run.values()))
def test_a_gradient_that_raises_where_the_value_is_infinite_acts_as_a_domain(options, name):
    """The run ends as with `domain`, at its best point. Methods whose steps are not searched may leave the domain."""
    limits = {"tol": 1e-3, "max_iter": 60}
    smoothness = 1e3 if options.get("line_search") == "short" else None
    both = (partly_infinite(name, None, domain, smoothness=smoothness) for domain in (False, True))
    r, declared = (fw.minimize(f, fw.Simplex(), np.full(N, 1 / N), **options, **limits) for f in both)
    assert r.status is declared.status
    assert r.fun == pytest.approx(declared.fun, rel=0.1, abs=0.1)
    assert r.fun <= r.trace["fun"].min() or r.status is not fw.Status.NUMERICAL
    if options in DESCENDING and r.method not in ("apg", "sliding"):
        assert (np.diff(r.trace["fun"]) <= 1e-12).all()


@pytest.mark.parametrize("outside", [1.0, -1.0])
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("options", DESCENDING, ids=lambda run: "-".join(run.values()))
def test_finite_gradients_outside_the_domain_lead_no_search_uphill(options, name, outside):
    f = partly_infinite(name, outside)
    r = fw.minimize(f, fw.Simplex(), np.full(N, 1 / N), tol=1e-3, max_iter=30, **options)
    assert np.isfinite(r.fun)
    assert r.status not in (fw.Status.INCONSISTENT, fw.Status.NUMERICAL)
    assert r.fun <= r.trace["fun"][0]


@pytest.mark.parametrize("search", ["exact", "secant", "adaptive"])
@pytest.mark.parametrize("method", ["fw", "away", "pairwise", "blended-pairwise", "boosted"])
def test_a_search_that_promises_descent_compares_the_value_at_its_end(method, search):
    """At singular matrices `slogdet` is a large finite number, and the gradient with `pinv` misses its growth."""
    fun = FUNCTIONS["log-det"][0]
    f = fw.Smooth(fun, lambda x: -inverse_form(np.linalg.pinv(information(x))))
    options = {} if method == "boosted" else {"line_search": search}
    r = fw.minimize(f, fw.Simplex(), np.full(N, 1 / N), method=method, tol=1e-3, max_iter=200, **options)
    assert (np.diff(r.trace["fun"]) <= 1e-9).all()
    assert r.status is not fw.Status.INCONSISTENT


@pytest.mark.parametrize("options", DESCENDING + OTHERS[-3:], ids=lambda run: "-".join(run.values()))
def test_an_exception_of_the_gradient_where_the_value_is_finite_passes_through(options):
    def grad(x):
        if x.max() > 0.5:
            raise Outside("a mistake")
        return COSTS

    smoothness = 1.0 if options.get("line_search") == "short" else None
    f = fw.Smooth(lambda x: float(COSTS @ x), grad, smoothness=smoothness)
    with pytest.raises(Outside, match="a mistake"):
        fw.minimize(f, fw.Simplex(), np.full(N, 1 / N), tol=1e-6, **options)


@pytest.mark.parametrize("gradient", [None, 0.0, np.full(N, np.nan)], ids=["none", "number", "nan"])
def test_a_function_that_returns_both_may_return_any_gradient_where_it_is_infinite(gradient):
    value, slopes, inside = FUNCTIONS["barrier"]
    f = fw.Smooth(lambda x: (float(value(x)), slopes(x)) if inside(x) else (np.inf, gradient), grad=True)
    r = fw.minimize(f, fw.Simplex(), np.full(N, 1 / N), line_search="exact", tol=1e-3)
    assert r.success


def test_a_value_at_the_end_of_a_step_is_computed_once():
    """A short step computes no value, so that the domain is checked with the one that the run needs at the iterate."""
    calls = []

    def fun(x):
        calls.append(x)
        return float(0.5 * x @ x)

    f = fw.Smooth(fun, lambda x: x, smoothness=1.0)
    r = fw.minimize(f, fw.Simplex(), np.arange(6) / 15, method="fw", line_search="short", tol=0, max_iter=5)
    assert len(calls) == r.nit + 2  # one for every iterate, and one to verify the last
