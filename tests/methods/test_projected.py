import pickle

import cvxpy as cp
import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import fwflow as fw
from tests.catalogue import OBJECTIVES, SETS, design, labels, targets
from tests.test_optima import ACCURACY, CONSTRAINTS, assert_bounds, optimum, solve

PROJECTABLE = [name for name, (C, _) in SETS.items() if C.project(np.zeros(SETS[name][1])) is not None]
VECTORS = [name for name in PROJECTABLE if len(SETS[name][1]) == 1]
EPS = np.finfo(float).eps


def test_which_sets_offer_a_projection():
    assert PROJECTABLE == [
        "l1",
        "l1-matrix",
        "simplex",
        "simplex-radius",
        "unit-simplex",
        "hypersimplex",
        "unit-hypersimplex",
        "box",
        "box-arrays",
        "bounded-simplex",
        "bounded-simplex-numbers",
        "bounded-l1",
        "bounded-l1-arrays",
        "bounded-l1-box",
        "interval",
        "linf",
        "l2",
        "lp-1.5",
        "lp-3",
        "group",
        "group-inf",
        "k-sparse",
        "k-norm",
        "owl",
        "permutahedron",
        "ellipsoid",
        "nuclear",
        "nuclear-wide",
        "birkhoff",
        "birkhoff-flat",
        "scaled",
        "translated",
        "product",
        "symmetric",
        "symmetric-matrix",
        "symmetric-average",
        "minkowski-boxes",
        "spectraplex",
        "spectrahedron",
        "fantope",
        "schatten",
        "transport",
    ]


@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("name", PROJECTABLE)
def test_projections_against_an_independent_solver(name, scale):
    C, shape = SETS[name]
    x = scale * np.random.default_rng(1).standard_normal(shape)
    p = C.project(x)
    assert p.shape == shape
    assert C.contains(p) is True
    y = cp.Variable(shape)
    nearest = solve(cp.sum_squares(y - x) / 2, CONSTRAINTS[name](y))
    assert np.sum((p - x) ** 2) / 2 == pytest.approx(nearest, abs=1e-6 * (1 + nearest))


@settings(deadline=None, max_examples=100, derandomize=True)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 30), dtype=st.sampled_from([np.float32, np.float64]))
def test_projections_obey_their_inequality(seed, n, dtype):
    rng = np.random.default_rng(seed)
    x = (3 * rng.standard_normal(n)).round(rng.integers(0, 3)).astype(dtype)  # ties and zeros
    for C in (fw.L1Ball(1.5), fw.Simplex(2.0), fw.L2Ball(1.0), fw.LInfBall(0.5), fw.Box(-1.0, 0.5)):
        p = C.project(x)
        assert p.dtype == dtype
        few = 100 * n * np.finfo(dtype).eps
        assert C.contains(p, few)
        # <x - p, s - p> <= 0 for every member s; the oracle finds the worst.
        away = (x - p).astype(float)
        assert -C.lmo(-away).dot(-away) - away @ p <= few * (1 + np.abs(x).sum()) ** 2
        np.testing.assert_allclose(C.project(p), p, rtol=0, atol=few)


def test_a_member_is_its_own_projection():
    x = np.array([0.2, -0.3, 0.1])
    for C in (fw.L1Ball(1.0), fw.L2Ball(1.0), fw.LInfBall(1.0), fw.Box(-1.0, 1.0)):
        np.testing.assert_array_equal(C.project(x), x)


def test_sets_without_a_projection_say_so():
    assert SETS["hull"][0].project(np.zeros(6)) is None
    with pytest.raises(ValueError, match=r"projected gradient needs a set with a projection"):
        fw.minimize(fw.Quadratic(np.eye(6)), SETS["hull"][0], method="apg")


@pytest.mark.parametrize("name", SETS)
def test_asking_for_a_projection_costs_nothing(name, monkeypatch):
    C, shape = SETS[name]
    calls = []
    for module in (np.linalg, scipy.linalg):
        for function in ("svd", "eigh", "qr"):
            monkeypatch.setattr(module, function, lambda *args, **options: calls.append(args))
    asked = C.projection(shape) is not None
    assert not calls
    assert asked == (name in PROJECTABLE)


@pytest.mark.parametrize("method", ["auto", "apg"])
def test_a_run_without_steps_does_not_project(method, monkeypatch):
    monkeypatch.setattr(fw.NuclearBall, "_nearest", lambda self, x: pytest.fail("projected"))
    f = fw.Smooth(lambda x: float(((x - 1) ** 2).sum()) / 2, lambda x: x - 1, shape=(4, 3))
    assert fw.minimize(f, fw.NuclearBall(1.0), method=method, max_iter=0).method == "apg"


@pytest.mark.parametrize("method", ["apg", "working-set", "polished"])
def test_projected_methods_refuse_a_matrix_that_is_stored_as_factors(method):
    """The nuclear ball has a projection, so the message must not say that it lacks one."""
    f = fw.MatrixCompletion([0, 1], [1, 0], [1.0, 2.0], shape=(3, 2))
    with pytest.raises(ValueError, match=r"needs? x as a dense array, but matrix completion stores x as factors"):
        fw.minimize(f, fw.NuclearBall(1.0), method=method)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("method", ["apg", "polished"])
@pytest.mark.parametrize("objective_name", OBJECTIVES)
@pytest.mark.parametrize("set_name", VECTORS)
def test_optima_agree_with_an_independent_solver(set_name, objective_name, method, monkeypatch):
    monkeypatch.setattr("fwflow.methods.switching._SUPPORT_EVERY", 3)
    monkeypatch.setattr("fwflow.methods.switching._SHARE", 1.0)
    C, (n,) = SETS[set_name]
    best = optimum(set_name, objective_name)
    r = fw.minimize(OBJECTIVES[objective_name](n, 0), C, C.start((n,)), method=method, tol=1e-7, max_iter=5000)
    assert_bounds(r, best)
    assert r.success
    assert r.fun <= best + ACCURACY * (1 + abs(best))


def test_the_gap_is_computed_now_and_then_and_when_it_is_time():
    f, C = fw.LinearModel(design(60, 30), labels(60), "logistic"), fw.L1Ball(2.0)
    r = fw.minimize(f, C, method="apg", tol=0, rtol=1e-6)
    assert r.success
    known = np.flatnonzero(~np.isnan(r.trace["gap"]))
    assert set(range(0, r.nit, 20)) <= set(known)
    assert len(known) < r.nit / 2
    every = fw.minimize(f, C, method="apg", tol=0, rtol=1e-6, check_every=1)
    assert not np.isnan(every.trace["gap"]).any()
    assert every.nit <= r.nit


def test_values_do_not_drown_in_rounding():
    f, C = fw.LinearModel(design(60, 30), 1e3 + targets(60)), fw.L1Ball(2.0)
    r = fw.minimize(f, C, method="apg", tol=0, rtol=1e-12)
    assert r.success


def test_a_state_continues_exactly():
    f, C = fw.LinearModel(design(30, 15), labels(30), "logistic"), fw.L1Ball(2.0)
    whole = fw.minimize(f, C, method="apg", tol=0, max_iter=30)
    half = fw.minimize(f, C, method="apg", tol=0, max_iter=13)
    rest = fw.minimize(f, C, method="apg", tol=0, max_iter=17, state=pickle.loads(pickle.dumps(half.state)))
    np.testing.assert_array_equal(rest.x, whole.x)


def test_functions_are_evaluated_in_their_domain_only():
    seen = []

    def fun(x):
        seen.append(x.min())
        return float((x - np.log(x)).sum())

    f = fw.Smooth(fun, lambda x: 1 - 1 / x, domain=lambda x: x.min() > 0)
    r = fw.minimize(f, fw.Box(0.05, 0.5), [0.06, 0.4], method="apg", tol=1e-8)
    assert r.success
    assert min(seen) > 0
    np.testing.assert_allclose(r.x, 0.5)


@pytest.mark.parametrize("option", [{"momentum": "nesterov"}, {"line_search": "exact"}])
def test_what_belongs_to_other_methods_is_refused(option):
    with pytest.raises(ValueError, match=next(iter(option))):
        fw.minimize(fw.Quadratic(np.eye(3)), fw.Simplex(), method="apg", **option)


@pytest.mark.parametrize(
    ("f", "C", "options", "same_as"),
    [
        (fw.LinearModel(design(12, 6), targets(12)), fw.L1Ball(1.0), {}, {"method": "working-set"}),
        (fw.Quadratic(np.eye(6), targets(6)), fw.Simplex(), {}, {"method": "working-set"}),
        (fw.LinearModel(design(12, 6), targets(12)), SETS["hull"][0], {}, {"method": "corrective"}),
        (
            fw.Quadratic(sp.diags_array(np.linspace(1, 9, 1024)).tocsc(), targets(1024)),
            fw.Birkhoff(32),
            {},
            {"method": "working-set"},
        ),
        (
            fw.LinearModel(design(12, 1001), labels(12), "logistic"),
            2.0 * fw.L1Ball(),
            {},
            {"method": "working-set"},
        ),
        (
            fw.LinearModel(design(12, 1001), labels(12), "logistic"),
            fw.ConvexHull(design(3, 1001)),
            {},
            {"method": "corrective"},
        ),
        (OBJECTIVES["smooth"](6, 0), fw.Box(np.zeros(6), np.ones(6)), {}, {"method": "apg"}),
        (OBJECTIVES["smooth"](6, 0), SETS["hull"][0], {}, {"method": "corrective"}),
        (fw.MatrixCompletion([0, 1], [1, 0], [1.0, 2.0], (2, 2)), fw.NuclearBall(2.0), {}, {"method": "corrective"}),
        (fw.MatrixCompletion([0, 1], [1, 0], [1.0, 2.0], (2, 2)), 2.0 * fw.NuclearBall(), {}, {"method": "corrective"}),
        (fw.LinearModel(design(12, 6), targets(12)), fw.L1Ball(1.0), {"line_search": "exact"}, {"method": "fw"}),
        (fw.LinearModel(design(12, 6), targets(12)), fw.L1Ball(1.0), {"momentum": "nesterov"}, {"method": "fw"}),
        (fw.LinearModel(design(12, 6), targets(12)), fw.L1Ball(1.0), {"schedule": fw.OpenLoop()}, {"method": "fw"}),
    ],
    ids=[
        "linear",
        "quadratic",
        "hull",
        "many dimensions",
        "many dimensions, logistic",
        "many dimensions, logistic, hull",
        "black box",
        "black box, hull",
        "completion",
        "scaled",
        "line search",
        "momentum",
        "schedule",
    ],
)
def test_what_auto_chooses(f, C, options, same_as):
    auto, named = (fw.minimize(f, C, max_iter=7, tol=0, **options, **more) for more in ({}, same_as))
    assert auto.method == named.method
    np.testing.assert_array_equal(np.asarray(auto.x), np.asarray(named.x))


def correlated(dtype=np.float64, loss="squared"):
    """Few non-zeros among columns so alike that projected gradient crawls."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((80, 60))
    for j in range(1, 60):
        A[:, j] = 0.95 * A[:, j - 1] + 0.3 * A[:, j]
    b = A[:, [3, 30, 50]] @ [1.0, -1.0, 1.0] + 0.1 * rng.standard_normal(80)
    b = b if loss == "squared" else np.where(b > 0, 1.0, -1.0)
    return fw.LinearModel(A.astype(dtype), b.astype(dtype), loss)


@pytest.mark.parametrize("C", [fw.L1Ball(1.5), fw.Simplex(1.5)], ids=repr)
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_polishing_takes_over_once_x_is_sparse(C, loss):
    f = correlated(loss=loss)
    polished, projected = (fw.minimize(f, C, method=m, tol=0, rtol=1e-9) for m in ("polished", "apg"))
    assert polished.success
    assert polished.active_set is not None
    assert polished.n_design < projected.n_design
    assert polished.fun == pytest.approx(projected.fun, rel=1e-6)
    np.testing.assert_allclose(polished.active_set.x, polished.x, atol=1e-12)
    assert not np.isnan(polished.trace["gap"][-2:]).any()  # corrective steps know their gap


def test_before_x_is_sparse_nothing_differs():
    f, C = correlated(), fw.L1Ball(1.5)
    polished, projected = (fw.minimize(f, C, method=m, tol=0, max_iter=19) for m in ("polished", "apg"))
    np.testing.assert_array_equal(polished.x, projected.x)


def test_polishing_may_begin_anywhere_in_a_resumed_run(tmp_path):
    f, C = correlated(), fw.L1Ball(1.5)
    whole = fw.minimize(f, C, method="polished", tol=0, rtol=1e-9)
    for stop in (7, 19, 20, 21):
        part = fw.minimize(f, C, method="polished", tol=0, rtol=1e-9, max_iter=stop)
        part.state.save(tmp_path / "state")
        rest = fw.minimize(f, C, method="polished", tol=0, rtol=1e-9, state=fw.State.load(tmp_path / "state"))
        np.testing.assert_array_equal(rest.x, whole.x)


@pytest.mark.parametrize("name", ["l1", "l1-matrix", "simplex", "simplex-radius"])
def test_decompositions_sum_to_x(name):
    C, shape = SETS[name]
    x = C.project(np.random.default_rng(1).standard_normal(shape))
    parts = C.known_vertices.decomposed(x)
    np.testing.assert_allclose(sum(w * np.asarray(v) for w, v in parts), x, atol=1e-14)
    assert min(w for w, _ in parts) > 0
    assert sum(w for w, _ in parts) <= 1 + 1e-12
    assert all(C.contains(np.asarray(v)) for _, v in parts)


def test_polishing_keeps_single_precision():
    r = fw.minimize(correlated(np.float32), fw.L1Ball(1.5), method="polished", tol=0, rtol=1e-4)
    assert r.success
    assert r.x.dtype == np.float32
