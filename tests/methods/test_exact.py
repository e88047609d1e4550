"""The flow followed exactly: against an independent solver, against small steps, and where ties and ranks are nasty."""

import pickle
import warnings
from contextlib import suppress
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import event, given, settings
from hypothesis import strategies as st

import fwflow as fw
from fwflow.methods.exact_flow import ExactFlow
from tests.trajectories.test_flow import TRIANGLE

EPS = np.finfo(float).eps
seeds = st.integers(0, 2**32 - 1)


def l1(rng, n):
    r = rng.choice([0.1, 1.0, 10.0])
    return fw.L1Ball(r), lambda x: [cp.norm1(x) <= r]


def simplex(rng, n):
    r = rng.choice([0.3, 1.0, 20.0])
    return fw.Simplex(r), lambda x: [x >= 0, cp.sum(x) == r]


def box(rng, n):
    lower, width = rng.standard_normal(n), rng.exponential(size=n)
    return fw.Box(lower, lower + width), lambda x: [x >= lower, x <= lower + width]


def linf(rng, n):
    r = rng.choice([0.1, 1.0, 10.0])
    return fw.LInfBall(r), lambda x: [cp.norm_inf(x) <= r]


def birkhoff(rng, n):
    k = round(n**0.5)

    def doubly_stochastic(x):
        X = cp.reshape(x, (k, k), order="C")
        return [X >= 0, cp.sum(X, axis=0) == 1, cp.sum(X, axis=1) == 1]

    return fw.Birkhoff(k), doubly_stochastic


def hull(rng, n):
    V = rng.standard_normal((rng.integers(1, 3 * n + 1), n)) + rng.standard_normal(n)
    weights = cp.Variable(len(V), nonneg=True)
    return fw.ConvexHull(V), lambda x: [x == V.T @ weights, cp.sum(weights) == 1]


def polytope(rng, n):
    A, b = rng.standard_normal((n + 2, n)), rng.uniform(0.1, 2.0, n + 2)
    return fw.Polytope(A, b, lower=-1.0, upper=1.0), lambda x: [A @ x <= b, x >= -1, x <= 1]


def scaled(rng, n):
    C, inside = (l1, simplex, hull)[rng.integers(3)](rng, n)
    factor = rng.choice([-3.0, -0.5, 2.0])
    return factor * C, lambda x: inside(x / factor)


def translated(rng, n):
    C, inside = (l1, simplex, box)[rng.integers(3)](rng, n)
    shift = rng.standard_normal(n)
    return C + shift, lambda x: inside(x - shift)


def product(rng, n):
    sizes = [n // 3, n // 3, n - 2 * (n // 3)]
    blocks = [make(rng, k) for make, k in zip((l1, simplex, box), sizes, strict=True)]
    edges = np.cumsum([0, *sizes])
    C = fw.Product([(C, k) for (C, _), k in zip(blocks, sizes, strict=True)])
    return C, lambda x: [c for (_, inside), i, j in zip(blocks, edges, edges[1:], strict=False) for c in inside(x[i:j])]


#: Random sets in n variables and what CVXPY says of their members; the dimensions to try; how many examples.
SETS = {
    l1: (st.integers(1, 12), 30),
    simplex: (st.integers(1, 12), 30),
    box: (st.integers(1, 12), 30),
    linf: (st.integers(1, 12), 30),
    birkhoff: (st.integers(1, 10).map(lambda k: k**2), 20),
    hull: (st.integers(1, 12), 30),
    polytope: (st.integers(1, 8), 20),
    scaled: (st.integers(1, 12), 25),
    translated: (st.integers(1, 12), 25),
    product: (st.integers(3, 24), 30),
}
every_set = pytest.mark.parametrize("make", SETS, ids=lambda make: make.__name__)


class Instance(NamedTuple):
    """f(x) = x'Hx/2 - b'x + constant over C from x0, and the same for CVXPY."""

    f: Any
    C: Any
    x0: Any
    H: Any
    b: Any
    constant: float
    formula: Any
    inside: Any

    def value(self, x):
        return x @ (self.H @ x) / 2 - self.b @ x + self.constant

    def gradient(self, x):
        return self.H @ x - self.b


def instance(make, seed, n, m=None):
    """Least squares, or a quadratic with H of rank min(m, n), over a random set from its own start or elsewhere."""
    rng = np.random.default_rng(seed)
    C, inside = make(rng, n)
    m = rng.integers(1, 2 * n + 1) if m is None else m
    weights = rng.dirichlet(np.ones(3))
    V = np.stack([np.asarray(C.lmo(rng.standard_normal(n))) for _ in weights])
    x0 = (None, V[0], weights @ V)[rng.integers(3)]
    A = rng.standard_normal((m, n)) * (rng.random((m, n)) < rng.choice([0.3, 1.0]))
    if rng.random() < 0.5:
        b, H = rng.standard_normal(n), (A.T @ A + (A.T @ A).T) / 2
        return Instance(fw.Quadratic(H, b), C, x0, H, b, 0.0, lambda x: cp.sum_squares(A @ x) / 2 - b @ x, inside)
    d, scale = rng.standard_normal(m), rng.choice(["mean", "sum"])
    factor = 1 / m if scale == "mean" else 1.0
    f = fw.LinearModel(sp.csr_array(A) if rng.random() < 0.5 else A, d, scale=scale)
    formula = lambda x: factor / 2 * cp.sum_squares(A @ x - d)  # noqa: E731
    return Instance(f, C, x0, factor * A.T @ A, factor * A.T @ d, factor / 2 * d @ d, formula, inside)


def optimum(n, formula, inside):
    """By Clarabel at the end of its precision; and whether it got there."""
    x = cp.Variable(n)
    problem = cp.Problem(cp.Minimize(formula(x)), inside(x))
    for tol in (1e-13, 1e-10):  # of which it sometimes fails to reach the first
        with warnings.catch_warnings(), suppress(cp.SolverError):
            warnings.filterwarnings("ignore", "Solution may be inaccurate")
            problem.solve(solver=cp.CLARABEL, tol_gap_abs=tol, tol_gap_rel=tol, tol_feas=tol)
            break
    assert problem.status in (cp.OPTIMAL, cp.OPTIMAL_INACCURATE)
    return problem.value, problem.status == cp.OPTIMAL


def exact(f, C, x0=None, **options):
    return fw.minimize(f, C, x0, method="flow", **{"tol": 0.0} | options)


def keys_of(things):
    return {getattr(thing, "key", thing) for thing in things}


def assert_at_the_end(r, first=None):
    """The method ended by itself, in the set, at a gap that is rounding, and went down at every event."""
    fun, gap = r.trace["fun"], r.trace["gap"]
    rounding = 100 * EPS * (np.abs(fun).max() + gap.max())
    assert r.status is fw.Status.FINISHED
    assert r.feasible is not False
    # Where rounding keeps f above an earlier iterate, that one is returned, and its gap may be large.
    assert min(r.gap, gap[-1]) <= 1e-10 * (gap[0] if first is None else first) + rounding
    assert (np.diff(fun[1:]) <= rounding).all()


@pytest.mark.sampled(3)
@every_set
def test_agrees_with_an_independent_solver(make):
    dimensions, examples = SETS[make]
    events, solved = [], []

    @settings(deadline=None, max_examples=examples, derandomize=True)
    @given(seed=seeds, n=dimensions)
    def check(seed, n):
        p = instance(make, seed, n)
        r = exact(p.f, p.C, p.x0)
        assert_at_the_end(r)
        assert r.feasible
        size = abs(r.fun) + abs(r.trace["fun"][0]) + p.constant
        assert r.fun == pytest.approx(p.value(r.x.reshape(-1)), rel=0, abs=1e-13 * (1 + size))  # values may cancel
        best, accurate = optimum(n, p.formula, p.inside)
        assert r.fun <= best + 1e-9 * size
        assert r.fun >= best - 1e-9 * size or not accurate
        g, x = p.gradient(r.x), r.x  # by the gap nothing can be lower, whatever Clarabel says
        assert g @ x - p.C.lmo(g).dot(g) <= 1e-9 * size
        events.append(r.nit)
        solved.append(accurate)
        event(f"{r.nit} events" if r.nit < 10 else "10 events or more")

    check()
    assert np.mean(solved) > 0.5
    print(f"{make.__name__}: {len(events)} instances, {np.mean(events):.1f} events on average, {max(events)} at most")


@settings(deadline=None, max_examples=60, derandomize=True)
@given(seed=seeds, n=st.integers(1, 30), make=st.sampled_from([l1, simplex, box, linf, hull, product]))
def test_ties_from_small_integers_end_at_the_optimum(seed, n, make):
    rng = np.random.default_rng(seed)
    n = max(n, 3)
    C = {
        l1: fw.L1Ball(2.0),
        simplex: fw.Simplex(),
        box: fw.Box(-1.0, 2.0),
        linf: fw.LInfBall(1.0),
        hull: fw.ConvexHull(rng.integers(-1, 2, (2 * n, n))),
        product: fw.Product([(fw.Simplex(), 1), (fw.L1Ball(1.0), n - 2), (fw.LInfBall(1.0), 1)]),
    }[make]
    A, d = rng.integers(-1, 2, (rng.integers(1, 2 * n), n)), rng.integers(-2, 3, n)
    H = (A.T @ A).astype(float)
    assert_at_the_end(exact(fw.Quadratic(H, d), C))
    assert_at_the_end(exact(fw.LinearModel(A.astype(float), A @ d), C))


# Degenerate cases


def test_many_vertices_tie_at_once():
    for n in (2, 5, 17):
        r = exact(fw.Quadratic(np.eye(n)), fw.Simplex(), np.eye(n)[0])
        np.testing.assert_allclose(r.x, np.full(n, 1 / n), rtol=1e-14)
        assert_at_the_end(r)
        r = exact(fw.Quadratic(np.eye(n), np.ones(n)), fw.L1Ball(1.0))
        np.testing.assert_allclose(r.x, np.full(n, 1 / n), rtol=1e-14)
        assert_at_the_end(r)
        sol = fw.exact_flow(fw.Quadratic(np.eye(n), np.ones(n)), fw.L1Ball(1.0))
        np.testing.assert_allclose([e.tau for e in sol.events], [0.0] * n, atol=1e-13)
        np.testing.assert_allclose(sol(2.0), np.full(n, 0.75 / n), rtol=1e-13)
        r = exact(fw.Quadratic(np.eye(n)), fw.LInfBall(1.0), np.ones(n))
        np.testing.assert_allclose(r.x, 0, atol=1e-14)
        assert_at_the_end(r)
    r = exact(fw.Quadratic(np.eye(16)), fw.Birkhoff(4), np.eye(4).reshape(-1))
    np.testing.assert_allclose(r.x, 0.25, rtol=1e-13)
    assert_at_the_end(r)


DESIGNS = {
    "duplicate columns": lambda A: A[:, [0, 1, 1, 2, 0, 3, 3, 3]],
    "opposite columns": lambda A: np.hstack([A, -A]),
    "zero columns": lambda A: A * [1, 0, 1, 0],
    "all zero": lambda A: 0 * A,
    "rank one": lambda A: np.outer(A[:, 0], [1.0, 2.0, -1.0, 1.0]),
    "one variable": lambda A: A[:, :1],
    "one sample": lambda A: A[:1],
    "one number": lambda A: A[:1, :1],
    "more variables than samples": lambda A: A[:3].repeat(3, axis=1) + np.arange(12) % 3,
    "badly scaled columns": lambda A: A * [1e-4, 1, 1e4, 1e2],
    "badly scaled rows": lambda A: A * np.geomspace(1e-3, 1e3, len(A))[:, None],
    "nearly dependent columns": lambda A: np.hstack([A, A + 1e-10 * np.roll(A, 1, axis=0), A[:, :2] + A[:, 2:]]),
    "collinear up to noise": lambda A: A[:, :1] + 1e-10 * np.hstack([A, A**2]),
}
#: Sets of radius r in n variables.
SHAPES = {
    "l1": lambda n, r: fw.L1Ball(r),
    "simplex": lambda n, r: fw.Simplex(r),
    "linf": lambda n, r: fw.LInfBall(r),
    "box with fixed entries": lambda n, r: fw.Box(np.where(np.arange(n) % 3, -r, r), np.full(n, r)),
    "hull with duplicates": lambda n, r: fw.ConvexHull(r * np.vstack([np.eye(n), -np.eye(n), np.eye(n)])),
    "scaled": lambda n, r: r * fw.L1Ball(1.0),
    "translated": lambda n, r: fw.Simplex(r) + np.full(n, r),
}


@pytest.mark.parametrize("radius", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", DESIGNS)
def test_degenerate_data(name, shape, radius):
    rng = np.random.default_rng(0)
    A, d = DESIGNS[name](rng.standard_normal((6, 4))), rng.standard_normal(6)
    C, d = SHAPES[shape](A.shape[1], radius), d[: len(A)]
    for f in (fw.LinearModel(A, d), fw.Quadratic((A.T @ A + (A.T @ A).T) / 2, A.T @ d)):
        r = exact(f, C, max_iter=1000)
        assert_at_the_end(r)
        assert r.feasible


def test_duplicate_vertices_of_a_hull_are_one():
    rng = np.random.default_rng(1)
    V, b = rng.standard_normal((7, 3)), 0.1 * rng.standard_normal(3)
    f, x0, tau = fw.Quadratic(np.eye(3), b), V.mean(axis=0), [0.0, 0.3, 2.0, np.inf]
    once, twice = (fw.exact_flow(f, fw.ConvexHull(W), x0) for W in (V, V[[0, 0, 1, 1, *range(7)]]))
    assert_at_the_end(once.result)
    assert_at_the_end(twice.result)
    np.testing.assert_allclose(twice.at(tau), once.at(tau), rtol=0, atol=1e-13)
    assert len(once.events) == len(twice.events) > 1


@pytest.mark.parametrize("shape", SHAPES)
def test_a_linear_objective_goes_straight_to_the_best_vertex(shape):
    b = np.array([1.0, -2.0, 0.5, 0.3])
    C = SHAPES[shape](4, 2.0)
    sol = fw.exact_flow(fw.Quadratic(np.zeros((4, 4)), b), C)
    assert_at_the_end(sol.result)
    np.testing.assert_array_equal(sol.result.x, np.asarray(C.lmo(-b)))
    assert len(sol.events) == 1


def test_no_curvature_along_a_face():
    # f sees the first entry only: the flow comes to a face on which it does not change.
    H, b = np.diag([1.0, 0.0, 0.0]), np.array([0.3, 0.0, 0.0])
    for C in (fw.L1Ball(1.0), fw.Simplex(), fw.LInfBall(1.0), fw.ConvexHull(np.eye(3)), fw.Box(0.0, 1.0)):
        for x0 in (None, np.asarray(C.lmo(np.array([1.0, 2.0, 3.0])))):
            r = exact(fw.Quadratic(H, b), C, x0)
            assert_at_the_end(r)
            assert r.x[0] == pytest.approx(0.3, abs=1e-14)


@pytest.mark.parametrize("where", ["vertex", "face", "interior"])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_start_at_the_optimum_stays_there(shape, where):
    C = SHAPES[shape](3, 1.0)
    rng = np.random.default_rng(0)
    V = np.stack([np.asarray(C.lmo(g)) for g in rng.standard_normal((40, 3))])
    x0 = {"vertex": V[0], "face": (V[0] + V[1]) / 2, "interior": V.mean(axis=0)}[where]
    sol = fw.exact_flow(fw.Quadratic(np.diag([1.0, 2.0, 3.0]), [1.0, 2.0, 3.0] * x0), C, x0)
    assert_at_the_end(sol.result)
    np.testing.assert_allclose(sol([0.0, 0.1, 5.0, np.inf]), np.tile(x0, (4, 1)), rtol=0, atol=1e-13)


def test_a_zero_gradient_at_the_start_with_other_minimisers_about():
    H = np.diag([1.0, 1.0, 0.0, 0.0])
    x0 = np.array([0.1, 0.2, 0.3, 0.1])
    for C in (fw.L1Ball(1.0), fw.LInfBall(1.0), fw.Box(-1.0, 0.5)):
        sol = fw.exact_flow(fw.Quadratic(H, H @ x0), C, x0)
        assert_at_the_end(sol.result)
        np.testing.assert_allclose(sol([0.0, 1.0, np.inf])[:, :2], np.tile(x0[:2], (3, 1)), rtol=0, atol=1e-13)


def test_an_entry_of_a_box_may_cross_it():
    # With no gradient at the start the first corner is the upper one, and the minimum is at the lower one.
    r = exact(fw.Quadratic([[2.0, 1.0], [1.0, 2.0]], [-3.0, -3.0]), fw.Box(-1.0, 1.0), [-1.0, -1.0])
    assert_at_the_end(r)
    np.testing.assert_allclose(r.x, [-1.0, -1.0], rtol=0, atol=1e-14)


@settings(deadline=None, max_examples=100, derandomize=True)
@given(seed=seeds, n=st.integers(2, 12), dtype=st.sampled_from([np.float32, np.float64]))
def test_single_and_double_precision_reach_what_they_can(seed, n, dtype):
    rng = np.random.default_rng(seed)
    A, d = rng.standard_normal((2 * n, n)).astype(dtype), rng.standard_normal(2 * n).astype(dtype)
    for C in (fw.L1Ball(1.0), fw.Simplex(), fw.LInfBall(0.5), fw.ConvexHull(rng.standard_normal((2 * n, n)))):
        tol = (1e-3 if dtype is np.float32 else 1e-11) * n
        r = exact(fw.LinearModel(A, d), C, tol=tol, max_iter=500)
        assert r.success
        assert r.x.dtype == dtype
        r = exact(fw.LinearModel(A, d), C, max_iter=500)
        assert r.status is fw.Status.FINISHED
        assert r.gap <= tol
        assert r.x.dtype == dtype


@settings(deadline=None, max_examples=100, derandomize=True)
@given(seed=seeds, n=st.integers(2, 10), shape=st.sampled_from(list(SHAPES)))
def test_a_quadratic_that_is_not_convex_ends_with_the_truth(seed, n, shape):
    rng = np.random.default_rng(seed)
    H = rng.standard_normal((n, n))
    C, f = SHAPES[shape](n, 1.0), fw.Quadratic(H + H.T, rng.standard_normal(n))
    r = exact(f, C, max_iter=1000)
    assert r.status in (fw.Status.NUMERICAL, fw.Status.FINISHED)
    assert r.status is fw.Status.FINISHED or "not convex" in r.message
    g = f.gradient(f.point(r.x))
    assert r.gap == pytest.approx(g @ r.x - C.lmo(g).dot(g), abs=1e-12)
    assert r.feasible
    assert r.success == (r.gap == 0)
    if r.status is fw.Status.FINISHED:
        assert r.gap <= 1e-9


def test_the_flow_of_a_nonconvex_quadratic_is_refused():
    with pytest.raises(ValueError, match="not convex"):
        fw.exact_flow(fw.Quadratic(-np.eye(2)), fw.ConvexHull(TRIANGLE), [0.0, 0.5])


# Ratio tests without a closed form


def in_a_product(C):
    return fw.Product([(C, 20)])  # which has no closed form


@pytest.mark.parametrize("wrap", [lambda C: lambda g: np.asarray(C.lmo(g)), in_a_product], ids=["callable", "product"])
@pytest.mark.parametrize("C", [fw.L1Ball(1.3), fw.Simplex(0.7)], ids=repr)
@pytest.mark.parametrize("seed", range(10))
def test_the_search_by_oracle_finds_the_events_of_the_closed_form(C, wrap, seed):
    rng = np.random.default_rng(seed)
    A, d = rng.standard_normal((30, 20)), rng.standard_normal(30)
    f, x0 = fw.LinearModel(A, d), np.asarray(C.lmo(rng.standard_normal(20)))
    closed, searched = (fw.exact_flow(f, S, x0) for S in (C, wrap(C)))
    assert len(closed.events) == len(searched.events) > 1
    for a, b in zip(closed.events, searched.events, strict=True):
        assert a.tau == pytest.approx(b.tau, rel=1e-9, abs=1e-12)
        np.testing.assert_allclose(np.asarray(a.target), np.asarray(b.target), rtol=0, atol=1e-12)
        for name in ("entered", "left", "active"):
            both = [sorted(np.asarray(v).tolist() for v in getattr(e, name)) for e in (a, b)]
            assert both[0] == both[1]
    assert searched.result.n_lmo > closed.result.n_lmo


# What cannot be followed


LOGISTIC = fw.LinearModel(np.eye(3), [1.0, -1.0, 1.0], "logistic")


@pytest.mark.parametrize(
    ("f", "C", "message"),
    [
        (fw.Quadratic(np.eye(3)), fw.L2Ball(1.0), r"polytope.*L2Ball"),
        (fw.Quadratic(np.eye(3)), fw.LpBall(3.0), r"polytope.*LpBall"),
        (LOGISTIC, fw.L2Ball(1.0), r"polytope.*L2Ball"),
        (fw.Quadratic(np.eye(4)), fw.Product([(fw.L2Ball(1.0), 2), (fw.Simplex(), 2)]), "polytope.*Product"),
        (fw.Quadratic(np.eye(3)), fw.L2Ball(1.0) + np.ones(3), "polytope.*L2Ball"),
        (fw.Quadratic(np.eye(3)), 2.0 * fw.L2Ball(1.0), "polytope.*L2Ball"),
        (fw.MatrixCompletion([0, 1], [0, 2], [1.0, -1.0], (2, 3)), fw.NuclearBall(1.0), r"polytope of vectors"),
        (fw.Smooth(lambda x: float(x[0]), lambda x: np.eye(3)[0], shape=(3,)), fw.Simplex(), "hess_product"),
        (fw.Smooth(lambda x: float(x[0]), lambda x: np.eye(3)[0], shape=(3,)), fw.LInfBall(1.0), "hess_product"),
    ],
    ids=lambda value: None if isinstance(value, str) else type(value).__name__,
)
def test_what_the_flow_needs_is_named(f, C, message):
    with pytest.raises(ValueError, match=message):
        fw.minimize(f, C, method="flow")
    with pytest.raises(ValueError, match=f"{message}|f must be a quadratic or a linear model"):
        fw.exact_flow(f, C)


@pytest.mark.parametrize("options", [{"line_search": "exact"}, {"momentum": "nesterov"}])
def test_the_flow_takes_no_line_search_and_no_momentum(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        exact(fw.Quadratic(np.eye(3)), fw.Simplex(), **options)


@pytest.mark.parametrize("C", [fw.Simplex(), fw.LInfBall(1.0)], ids=repr)
@pytest.mark.parametrize("product", [lambda x, v: v[:2], lambda x, v: 1.0, lambda x, v: np.eye(3)])
def test_hessian_products_of_another_shape_are_refused(C, product):
    f = fw.Smooth(lambda x: float(x @ x) / 2, lambda x: x, shape=(3,), hess_product=product)
    with pytest.raises(ValueError, match=r"^hess_product returned shape"):
        fw.minimize(f, C, x0=np.asarray(C.lmo(np.array([1.0, 2.0, 3.0]))), method="flow")


# Other losses


def logistic(rng, m, n):
    A, b = rng.standard_normal((m, n)), np.sign(rng.standard_normal(m))
    return fw.LinearModel(A, b, "logistic"), lambda x: cp.sum(cp.logistic(cp.multiply(-b, A @ x))) / m


def huber(rng, m, n):
    A, b = rng.standard_normal((m, n)), 2 * rng.standard_normal(m)
    return fw.LinearModel(A, b, "huber", rho=0.5), lambda x: cp.sum(cp.huber(A @ x - b, 0.5)) / (2 * m)


def cosh(rng, m, n):
    A, b = rng.standard_normal((m, n)) / np.sqrt(n), rng.standard_normal(m)
    f = fw.Smooth(
        lambda x: float(np.cosh(A @ x - b).sum()),
        lambda x: A.T @ np.sinh(A @ x - b),
        shape=(n,),
        hess_product=lambda x, v: A.T @ (np.cosh(A @ x - b) * (A @ v)),
    )
    return f, lambda x: cp.sum(cp.exp(A @ x - b) + cp.exp(b - A @ x)) / 2


@every_set
@pytest.mark.parametrize("loss", [logistic, huber, cosh], ids=lambda loss: loss.__name__)
@pytest.mark.parametrize("seed", range(3))
def test_other_losses_agree_with_an_independent_solver(make, loss, seed):
    rng = np.random.default_rng(seed)
    n = 9 if make is birkhoff else 6
    C, inside = make(rng, n)
    f, formula = loss(rng, 8 if loss is cosh else 15, n)
    r = exact(f, C, rtol=1e-9, max_iter=100)
    assert r.success
    assert r.gap <= 1e-9 * r.trace["gap"][0]
    x = cp.Variable(n)
    problem = cp.Problem(cp.Minimize(formula(x)), inside(x))
    problem.solve(solver=cp.CLARABEL)
    assert problem.status == cp.OPTIMAL
    slack = 1e-6 * (1 + abs(problem.value))  # exponential cones are not solved to more
    assert problem.value - slack <= r.fun <= problem.value + slack


@pytest.mark.parametrize("radius", [1.0, 10.0])
def test_few_passes_over_the_data_solve_a_logistic_regression(radius):
    rng = np.random.default_rng(0)
    A, b = rng.standard_normal((200, 100)), np.sign(rng.standard_normal(200))
    f, C = fw.LinearModel(A, b, "logistic"), fw.L1Ball(radius)
    flow, corrective = (fw.minimize(f, C, method=name, tol=0, rtol=1e-9) for name in ("flow", "corrective"))
    assert flow.success
    assert corrective.success
    assert flow.n_design <= corrective.n_design


def test_a_box_of_many_entries_is_solved_by_working_sets():
    rng = np.random.default_rng(0)
    A, b = rng.standard_normal((60, 300)), np.sign(rng.standard_normal(60))
    r = exact(fw.LinearModel(A, b, "logistic"), fw.Box(-0.01, 0.02), rtol=1e-9, max_iter=100)
    assert r.success


# Interruption


RESUMED = {
    "l1": (fw.L1Ball(3.0), 20),
    "simplex": (fw.Simplex(2.0), 20),
    "box": (fw.Box(-0.3, 0.2), 20),
    "hull": (fw.ConvexHull(np.random.default_rng(0).standard_normal((30, 20))), 20),
    "birkhoff": (fw.Birkhoff(4), 16),
    "callable": (lambda g: np.asarray(fw.L1Ball(1.0).lmo(g)), 20),
    "product": (fw.Product([(fw.L1Ball(1.0), 15), (fw.Simplex(), 5)]), 20),
}


def resumable(name, seed=0):
    C, n = RESUMED[name]
    rng = np.random.default_rng(seed)
    A, d = rng.standard_normal((40, n)), 3 * rng.standard_normal(40)
    return {"squared": fw.LinearModel(A, d), "quadratic": fw.Quadratic((A.T @ A + (A.T @ A).T) / 2, A.T @ d)}, C


def assert_same(a, b):
    """Bit for bit, but for time and for the work of verifying the end of each part."""
    np.testing.assert_array_equal(a.x, b.x)
    assert (a.fun, a.gap, a.nit, a.status) == (b.fun, b.gap, b.nit, b.status)
    for column in ("fun", "gap", "step"):
        np.testing.assert_array_equal(a.trace[column], b.trace[column])
    for e, other in zip(a.state.memory.events, b.state.memory.events, strict=True):
        assert e.tau == other.tau
        np.testing.assert_array_equal(np.asarray(e.target), np.asarray(other.target))
        for field in ("entered", "left", "active"):
            one, two = ([getattr(v, "key", v) for v in getattr(which, field)] for which in (e, other))
            assert one == two


@pytest.mark.parametrize("name", RESUMED)
@pytest.mark.parametrize("kind", ["squared", "quadratic"])
def test_a_run_in_parts_is_the_whole_run(name, kind):
    objectives, C = resumable(name)
    f = objectives[kind]
    whole = exact(f, C)
    assert_at_the_end(whole)
    assert whole.nit > 4
    for k in range(whole.nit + 1):
        part = exact(f, C, max_iter=k)
        assert part.nit == k
        stored = pickle.dumps(part.state)
        for state in (part.state, part.state, pickle.loads(stored)):  # twice: the first must not spoil the second
            assert_same(exact(f, C, state=state), whole)


@pytest.mark.parametrize("name", RESUMED)
def test_a_callback_sees_every_event(name):
    objectives, C = resumable(name)
    seen = []

    def note(state):
        events = () if state.memory is None else state.memory.events
        assert len(events) == state.k
        if events:
            np.testing.assert_array_equal(np.asarray(events[-1].target).reshape(state.x.shape), state.x)
        seen.append(state.k)

    r = exact(objectives["squared"], C, callback=note)
    assert seen == list(range(r.nit + 1))


@pytest.mark.parametrize("k", [0, 1, 2, 5])
def test_an_interrupt_returns_the_best_point_and_the_run_goes_on(k):
    objectives, C = resumable("l1")
    f = objectives["squared"]
    whole = exact(f, C)

    def interrupt(state):
        if state.k == k:
            raise KeyboardInterrupt

    r = exact(f, C, callback=interrupt)
    assert r.status is fw.Status.INTERRUPTED
    assert r.fun == pytest.approx(whole.trace["fun"][: k + 1].min(), rel=1e-13)
    assert r.feasible
    assert_same(exact(f, C, state=r.state), whole)


def test_points_and_states_already_handed_out_are_not_changed():
    objectives, C = resumable("simplex")
    kept = []
    exact(objectives["squared"], C, callback=lambda state: kept.append((state.memory, pickle.dumps(state.memory))))
    for memory, before in kept[1:]:
        old = pickle.loads(before)
        np.testing.assert_array_equal(memory.face.left, old.face.left)
        np.testing.assert_array_equal(memory.face.factor, old.face.factor)
        np.testing.assert_array_equal(memory.face.values, old.face.values)
        np.testing.assert_array_equal(memory.gradient, old.gradient)
        assert len(memory.events) == len(old.events)


@pytest.mark.parametrize("C", [fw.L1Ball(2.0), fw.Simplex(3.0)], ids=repr)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("among", [2, 40])
def test_predicted_events_change_nothing_but_the_passes(monkeypatch, C, dtype, among):
    monkeypatch.setattr("fwflow.methods.exact_flow._WORTH_PREDICTING", 1)
    rng = np.random.default_rng(4)
    A = rng.standard_normal((60, 150)).astype(dtype)
    f = fw.LinearModel(A, (A[:, :30] @ rng.random(30)).astype(dtype))
    seen, unseen = (
        fw.minimize(f, C, method=ExactFlow(predictions=predictions, among=among), tol=0, max_iter=12)
        for predictions in (16, 0)
    )
    tolerance = 1e-9 if dtype == np.float64 else 1e-3
    for one, other in zip(seen.state.memory.events, unseen.state.memory.events, strict=True):
        assert keys_of(one.active) == keys_of(other.active)
        assert one.tau == pytest.approx(other.tau, abs=tolerance)
        np.testing.assert_allclose(np.asarray(one.target), np.asarray(other.target), atol=tolerance)
    np.testing.assert_allclose(seen.trace["gap"], unseen.trace["gap"], rtol=tolerance, atol=tolerance)
    assert seen.n_design < (0.6 if among == 40 else 1.01) * unseen.n_design


def test_a_run_goes_on_from_predicted_gradients(monkeypatch, tmp_path):
    monkeypatch.setattr("fwflow.methods.exact_flow._WORTH_PREDICTING", 1)
    rng = np.random.default_rng(4)
    A = rng.standard_normal((60, 150))
    f, C = fw.LinearModel(A, A[:, :30] @ rng.random(30)), fw.L1Ball(2.0)
    part = fw.minimize(f, C, method="flow", tol=0, max_iter=5)
    assert part.state.known is not None
    part.state.save(tmp_path / "state")
    rest = fw.minimize(f, C, method="flow", tol=0, state=fw.State.load(tmp_path / "state"))
    whole = fw.minimize(f, C, method="flow", tol=0)
    np.testing.assert_array_equal(rest.x, whole.x)
    np.testing.assert_array_equal(rest.trace["gap"], whole.trace["gap"])


def test_the_end_is_a_mixture_of_its_vertices():
    rng = np.random.default_rng(0)
    f = fw.LinearModel(rng.standard_normal((20, 8)), rng.standard_normal(20))
    r = fw.minimize(f, fw.L1Ball(0.5), method="flow")
    np.testing.assert_allclose(r.active_set.x, r.x, atol=1e-15)
    assert r.active_set.weights.min() > 0
    assert fw.minimize(f, fw.Box(-0.1, 0.1), method="flow").active_set is None
