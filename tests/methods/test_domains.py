"""Functions that are infinite in a part of the set, declared or not: methods step back instead of giving up."""

from __future__ import annotations

import numpy as np
import pytest

import fwflow as fw

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
