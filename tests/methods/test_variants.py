"""Do the variants of Frank-Wolfe find the optimum, count what they ask, and go on from where they stopped?"""

from __future__ import annotations

import functools

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import fwflow as fw
from fwflow.steps.boosted import Boosted
from tests import catalogue
from tests.catalogue import design, targets
from tests.methods.test_guards import Barrier
from tests.test_hostile_inputs import FillsOneBuffer, l1_oracle, writes_to_g

M, N = 30, 12
A, B = design(M, N), targets(M)
BALL, HYPER = fw.L1Ball(1.5), fw.HyperSimplex(4)
BLOCKS = fw.Product([(fw.Simplex(), 4)] * 3)
SETS = {
    "ball": (BALL, lambda x: [cp.norm1(x) <= 1.5]),
    "hyper": (HYPER, lambda x: [x >= 0, x <= 1, cp.sum(x) == 4]),
    "blocks": (BLOCKS, lambda x: [x >= 0, *(cp.sum(x[i : i + 4]) == 1 for i in range(0, N, 4))]),
    "round": (fw.L2Ball(0.5), lambda x: [cp.norm2(x) <= 0.5]),
}


@functools.cache
def optimum(name):
    x = cp.Variable(N)
    return cp.Problem(cp.Minimize(cp.sum_squares(A @ x - B) / (2 * M)), SETS[name][1](x)).solve(solver=cp.CLARABEL)


def model(dtype=np.float64):
    return fw.LinearModel(A.astype(dtype), B.astype(dtype))


LINEAR = [
    *((method, name) for method in ("blended", "sliding", "boosted") for name in ("ball", "round")),
    *((method, name) for method in ("blended", "sliding", "decomposition-invariant") for name in ("hyper", "blocks")),
    ("decomposition-invariant", "ball"),
    ("block", "blocks"),
    (fw.BlockCoordinate("random", seed=3), "blocks"),
    (fw.BlockCoordinate("gap", seed=3), "blocks"),
    (fw.BlockCoordinate(line_search=fw.Adaptive()), "blocks"),
]


@pytest.mark.parametrize(("method", "name"), LINEAR, ids=str)
def test_linear_variants_reach_the_optimum(method, name):
    r = fw.minimize(model(), SETS[name][0], method=method, tol=1e-8, max_iter=3000)
    assert r.success
    assert r.feasible
    assert abs(r.fun - optimum(name)) <= 1e-6


@pytest.mark.parametrize("method", ["lazy-fw", fw.LazyFrankWolfe(fw.tableaus["rk44"]), "stochastic"], ids=str)
def test_others_keep_the_rate_of_frank_wolfe(method):
    r = fw.minimize(model(), BALL, method=method, tol=0, max_iter=600)
    errors = np.minimum.accumulate(r.trace["fun"] - optimum("ball"))
    k = np.unique(np.geomspace(20, 600, 40).astype(int))
    assert -np.polyfit(np.log(k), np.log(errors[k]), 1)[0] >= 0.9


#: Every variant with a set that it takes.
EVERY = {
    "blended": BALL,
    "boosted": BALL,
    "lazy-fw": BALL,
    "sliding": BALL,
    "decomposition-invariant": HYPER,
    "block": BLOCKS,
    "stochastic": BALL,
}


@pytest.mark.parametrize("method", EVERY)
def test_every_variant_keeps_single_precision_and_hears_callbacks(method):
    seen = []
    r = fw.minimize(model(np.float32), EVERY[method], method=method, tol=1e-2, callback=lambda s: seen.append(s.k))
    assert r.success
    assert r.x.dtype == np.float32
    assert seen == [*range(r.nit + 1)]
    stopped = fw.minimize(model(), EVERY[method], method=method, tol=0, callback=lambda s: s.k == 2)
    assert (stopped.nit, stopped.status) == (2, fw.Status.CALLBACK)


def watched(kind, asked, *arguments):
    """A set that notes what it is asked."""

    class Watched(kind):
        def lmo(self, g, hint=None):
            asked.append(kind)
            return super().lmo(g, hint)

        def away_vertex(self, g, x, noise=0.0):
            asked.append(kind)
            return super().away_vertex(g, x, noise)

    return Watched(*arguments)


@pytest.mark.parametrize("method", [name for name in EVERY if name != "stochastic"])
def test_counters_are_calls(method):
    asked, gradients = [], []

    def grad(x):
        gradients.append(x)
        return A.T @ (A @ x - B) / M

    f = fw.Smooth(lambda x: 0.5 * float(((A @ x - B) ** 2).mean()), grad, shape=(N,))
    if method == "block":
        C = watched(fw.Product, asked, [(watched(fw.Simplex, asked), 4)] * 3)
    elif method == "decomposition-invariant":
        C = watched(fw.HyperSimplex, asked, 4)
    else:
        C = watched(fw.L1Ball, asked, 1.5)
    r = fw.minimize(f, C, method=method, tol=1e-3, max_iter=40)
    assert r.n_grad == len(gradients)
    # An oracle call of a product is one of each block.
    assert r.n_lmo == len(asked) - 3 * asked.count(fw.Product)


@pytest.mark.parametrize("method", ["blended", "boosted", "lazy-fw", "sliding", "decomposition-invariant"])
def test_variants_stay_in_the_domain(method):
    weights = np.arange(1.0, 5.0) / 10
    barrier = Barrier(weights)
    f = fw.Smooth(barrier.fun, barrier.grad, domain=barrier.domain)
    options = {"line_search": "exact"} if method == "lazy-fw" else {}  # the schedule begins with a whole step
    r = fw.minimize(f, fw.Simplex(), np.full(4, 0.25), method=method, tol=1e-3, max_iter=300, **options)
    assert barrier.outside == 0
    assert r.success
    np.testing.assert_allclose(r.x, weights, atol=0.03)


def test_blocks_stay_in_the_domain():
    weights = np.array([0.3, 0.7, 0.6, 0.4])
    barrier = Barrier(weights)
    f, C = fw.Smooth(barrier.fun, barrier.grad, domain=barrier.domain), fw.Product([(fw.Simplex(), 2)] * 2)
    r = fw.minimize(f, C, np.full(4, 0.5), method="block", tol=1e-6)
    assert barrier.outside == 0
    assert r.success
    np.testing.assert_allclose(r.x, weights, atol=1e-3)


@pytest.mark.parametrize("method", ["blended", "sliding"])
def test_active_sets_are_what_x_is_made_of(method):
    r = fw.minimize(model(), HYPER, method=method, tol=1e-6)
    np.testing.assert_allclose(np.asarray(r.active_set), r.x, atol=1e-9)
    assert r.active_set.weights.min() > 0
    again = fw.minimize(model(), HYPER, r.active_set, method=method, tol=1e-6)
    assert again.nit <= 1


@pytest.mark.parametrize(
    ("method", "C", "message"),
    [
        ("decomposition-invariant", fw.L2Ball(1.0), "needs a set with an in-face oracle"),
        ("block", fw.L2Ball(1.0), "needs a product of sets"),
    ],
)
def test_sets_that_offer_too_little_are_refused(method, C, message):
    with pytest.raises(ValueError, match=message):
        fw.minimize(model(), C, method=method)


@pytest.mark.parametrize("method", ["boosted", "sliding"])
def test_what_factored_points_cannot_do_is_refused(method):
    f = fw.MatrixCompletion([0, 1, 2], [1, 0, 1], [1.0, 2.0, 3.0], (3, 2))
    with pytest.raises(ValueError, match="factored"):
        fw.minimize(f, fw.NuclearBall(2.0), method=method)


@pytest.mark.parametrize("method", EVERY)
def test_momentum_and_schedules_go_where_they_mean_something(method):
    with pytest.raises(ValueError, match="belong"):
        fw.minimize(model(), EVERY[method], method=method, momentum="nesterov")
    if method in ("lazy-fw", "boosted"):
        assert fw.minimize(
            model(), BALL, method=method, schedule=fw.LogOpenLoop(), line_search="short", tol=0.1
        ).success
    else:
        with pytest.raises(ValueError, match="belong"):
            fw.minimize(model(), EVERY[method], method=method, schedule=fw.LogOpenLoop())


@settings(deadline=None, max_examples=30, derandomize=True)
@given(
    method=st.sampled_from([name for name in EVERY if name != "block"]),
    name=st.sampled_from([name for name, (_, shape) in catalogue.SETS.items() if len(shape) == 1]),
    objective=st.sampled_from(sorted(catalogue.OBJECTIVES)),
    seed=st.integers(0, 100),
    tol=st.sampled_from([0.0, 1e-14, 1e-6, 1e-3]),
)
def test_success_is_a_gap_within_the_tolerance_on_any_problem(method, name, objective, seed, tol):
    C, shape = catalogue.SETS[name]
    f = catalogue.OBJECTIVES[objective](shape[0], seed)
    try:
        r = fw.minimize(f, C, C.start(shape), method=method, tol=tol, max_iter=30)
    except ValueError as error:
        if "needs" not in str(error):  # a mean over rows, or a set that knows the faces of its members
            raise
        return
    # Below rounding a gap within the tolerance is not enough.
    assert r.success == (r.gap <= tol) if tol >= 1e-9 else r.gap <= tol or not r.success
    assert r.feasible is not False
    assert r.fun <= r.trace["fun"][0] + 1e-12 or method in ("lazy-fw", "stochastic")


@pytest.mark.parametrize("method", ["blended", "boosted", "lazy-fw", "sliding", "stochastic"])
@pytest.mark.parametrize("oracle", [writes_to_g, FillsOneBuffer()], ids=["g", "buffer"])
def test_a_plain_oracle_may_write_to_what_it_gets_and_gives(oracle, method):
    f = fw.LinearModel(design(12, 6), targets(12))
    expected = fw.minimize(f, l1_oracle, method=method, max_iter=20)
    r = fw.minimize(f, oracle, method=method, max_iter=20)
    np.testing.assert_array_equal(r.x, expected.x)
    assert (r.gap, r.success) == (expected.gap, expected.success)


# Lazy


@pytest.mark.parametrize("tableau", ["euler", "rk44"])
def test_lazy_runs_save_most_oracle_calls(tableau):
    C, f = fw.Birkhoff(5), fw.LinearModel(design(60, 25), targets(60))
    eager = fw.minimize(f, C, method=tableau, tol=0, rtol=1e-2)
    lazy = fw.minimize(f, C, method=fw.LazyFrankWolfe(fw.tableaus[tableau]), tol=0, rtol=1e-2)
    assert eager.success
    assert lazy.success
    assert lazy.n_lmo <= eager.n_lmo / 2


def test_the_cache_is_bounded_and_keeps_what_is_used():
    sizes, f = [], fw.LinearModel(design(60, 25), targets(60))

    def look(state):
        memory = state.memory
        if memory.cached is not None:
            sizes.append(len(memory.cached))
            assert len(memory.used) == len(memory.cached)
            assert len({atom.key for atom in memory.cached}) == len(memory.cached)

    r = fw.minimize(f, fw.Birkhoff(5), method=fw.LazyFrankWolfe(cache=4), tol=0, max_iter=200, callback=look)
    assert max(sizes) == 4
    assert r.state.memory.used.max() >= r.nit - 1
    with pytest.raises(ValueError, match="cache"):
        fw.LazyFrankWolfe(cache=0)
    with pytest.raises(ValueError, match="tableau must be a Tableau"):
        fw.LazyFrankWolfe("rk44")


def test_the_oracle_is_asked_only_if_no_vertex_promises_half_of_the_least_gap():
    C, f, states = fw.Birkhoff(5), fw.LinearModel(design(60, 25), targets(60)), []
    r = fw.minimize(
        f, C, method="lazy-fw", tol=0, max_iter=100, callback=lambda s: states.append((s.x, s.memory)), check_every=1000
    )
    spared = 0
    for k, (x, memory) in enumerate(states[1:-1], 1):
        g = np.asarray(f.gradient(f.point(x)))
        promise = max(g @ (x - np.asarray(atom.vertex).reshape(-1)) for atom in memory.cached)
        asked = r.trace["n_lmo"][k + 1] - r.trace["n_lmo"][k] - (k == len(states) - 2)
        assert asked == (promise < memory.least / 2)
        spared += not asked
    assert spared > 50


# Boosted


@given(st.integers(0, 10**6), st.sampled_from(["ball", "hyper", "round"]))
@settings(max_examples=30, deadline=None)
def test_boosting_aims_at_members_and_turns_towards_descent(seed, name):
    rng, C = np.random.default_rng(seed), SETS[name][0]
    f = fw.Smooth(lambda x: 0.0, lambda x: x)
    x, g = f.point(0.5 * C.random_start(seed, (N,)) + 0.5 * np.asarray(C.start((N,)))), rng.standard_normal(N)
    calls = []

    def oracle(question):
        calls.append(question)
        return f.lift(C.lmo(question))

    aimed, memory = Boosted(rounds=10).aim(x, 1.0, None, lambda point: g, oracle)
    d, plain = np.asarray(aimed.member) - x.x, np.asarray(C.lmo(g)) - x.x

    def cosine(u):
        return -g @ u / np.linalg.norm(u)

    assert C.contains(np.asarray(aimed.member), 1e-9)
    assert cosine(d) >= cosine(plain) * (1 - 1e-12)
    assert len(calls) <= 10
    assert memory is None


@pytest.mark.parametrize("tableau", ["heun", "rk44"])
def test_boosting_goes_with_tableaus(tableau):
    plain = fw.minimize(model(), BALL, method=tableau, tol=1e-3)
    boosted = fw.minimize(model(), BALL, method=tableau, momentum=fw.Boosted(), line_search="exact", tol=1e-3)
    assert boosted.success
    assert boosted.nit < plain.nit / 2


# Blended and sliding


def test_blended_asks_the_oracle_rarely():
    blended, pairwise = (fw.minimize(model(), HYPER, method=m, tol=1e-6) for m in ("blended", "blended-pairwise"))
    assert blended.success
    assert blended.n_lmo < pairwise.n_lmo / 2


def test_blended_takes_line_searches():
    for search in ("adaptive", "short", "secant"):
        assert fw.minimize(model(), BALL, method="blended", line_search=search, tol=1e-5).success


def test_sliding_saves_most_gradients():
    rng = np.random.default_rng(1)
    data = rng.standard_normal((60, 40)) / np.arange(1, 41) ** 0.5
    f = fw.LinearModel(data, data[:, :5].sum(axis=1) + 0.1 * rng.standard_normal(60))
    C = fw.L1Ball(3.0)
    sliding, plain = (fw.minimize(f, C, method=m, tol=0, rtol=1e-3) for m in ("sliding", "fw"))
    assert sliding.success
    assert plain.success
    assert sliding.n_grad <= plain.n_grad / 2


def test_sliding_takes_functions_that_are_not_quadratic():
    f = fw.LinearModel(A, np.where(B > 0, 1.0, -1.0), loss="logistic")
    r = fw.minimize(f, BALL, method="sliding", tol=1e-8)
    assert r.success
    assert r.fun == pytest.approx(fw.minimize(f, BALL, tol=1e-10).fun, abs=1e-8)


# Decomposition-invariant


@pytest.mark.parametrize("name", ["ball", "hyper", "blocks"])
def test_invariant_steps_stay_in_the_set(name):
    C, inside = SETS[name][0], []
    fw.minimize(
        model(),
        C,
        method="decomposition-invariant",
        tol=1e-9,
        callback=lambda s: inside.append(C.contains(s.x, 1e-12)) or False,
    )
    assert all(inside)
    assert len(inside) > 5


def test_invariant_steps_need_no_more_than_pairwise_at_dense_optima():
    n = 60
    f = fw.Quadratic(sp.diags_array(np.linspace(1, 2, n)).tocsc(), np.full(n, 0.15))
    ours, pairwise = (
        fw.minimize(f, fw.HyperSimplex(6), method=m, tol=1e-8) for m in ("decomposition-invariant", "blended-pairwise")
    )
    assert ours.success
    assert np.count_nonzero(ours.x) == n
    assert ours.nit < pairwise.nit
    assert ours.active_set is None


# Blocks


@pytest.mark.parametrize(
    "f",
    [
        fw.LinearModel(A, B),
        fw.LinearModel(sp.csr_array(A), np.sign(B), loss="logistic"),
        fw.LinearModel(A, B, weights=np.arange(1.0, M + 1), intercept=True),
        fw.Quadratic(A.T @ A, targets(N)),
    ],
    ids=["dense", "sparse", "weights", "quadratic"],
)
def test_partial_gradients_are_parts_of_the_gradient(f):
    point = f.point(np.linspace(-1, 1, N))
    whole = np.asarray(f.gradient(point))
    for place in (slice(0, 4), slice(3, 12), slice(11, 12)):
        np.testing.assert_allclose(f.partial(point, place), whole[place], rtol=1e-12, atol=1e-13)
        values = np.arange(1.0, 1 + place.stop - place.start)
        shift = f.lift_block(place, values, (N,))
        full = np.zeros(N)
        full[place] = values
        np.testing.assert_allclose(shift.image.to_dense(), f.point(full).image, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("convert", [np.asarray, sp.csc_array])
def test_a_look_and_a_step_cost_the_columns_of_their_block(convert):
    f = fw.LinearModel(convert(A), B)
    C = fw.Product([(fw.Simplex(), 2), (fw.L2Ball(1.0), 4), (fw.Simplex(), 6)])
    r = fw.minimize(f, C, method="block", tol=0, max_iter=3)
    shares = np.diff(r.trace["n_design"])
    np.testing.assert_allclose(
        shares, [2 / N, 8 / N, 12 / N + 1], rtol=1e-12
    )  # at the last iterate the gap is computed
    assert r.n_lmo == 3 + 3 + 2  # looks at the whole (first, last, verified), at blocks, and at faces


def test_orders_look_at_every_block():
    for order in ("cyclic", "random"):
        places = [fw.BlockCoordinate(order, seed=1)._chosen(np.ones(4), looks) for looks in range(12)]
        assert all(sorted(places[i : i + 4]) == [0, 1, 2, 3] for i in (0, 4, 8))
    chosen = [fw.BlockCoordinate("gap")._chosen(np.array([0.0, 3.0, 1.0]), looks) for looks in range(400)]
    counts = np.bincount(chosen, minlength=3)
    assert counts[1] > 1.5 * counts[2] > 4 * counts[0] > 0


@pytest.mark.parametrize(
    "C", [BLOCKS, -2.0 * BLOCKS, BLOCKS + np.linspace(-1, 1, N), fw.Product([(BLOCKS, N), (fw.L2Ball(1.0), 3)])]
)
def test_factors_are_the_set(C):
    g = np.random.default_rng(0).standard_normal(C.shape)
    assert [place.start for place, _ in C.factors] == [0, *(place.stop for place, _ in C.factors[:-1])]
    parts = np.concatenate([np.asarray(c.lmo(g[place])) for place, c in C.factors])
    np.testing.assert_array_equal(parts, np.asarray(C.lmo(g)))


def test_blocks_of_transformed_products():
    C = 0.5 * BLOCKS + np.linspace(-0.1, 0.1, N)
    r = fw.minimize(model(), C, method="block", tol=1e-8)
    assert r.success
    assert r.fun == pytest.approx(fw.minimize(model(), C, tol=1e-9).fun, abs=1e-8)


def test_blocks_end_where_there_is_nothing_left():
    f = fw.LinearModel(np.eye(4), [2.0, 0.0, 0.0, 3.0])
    r = fw.minimize(f, fw.Product([(fw.Simplex(), 2)] * 2), method="block", tol=0)
    assert r.status is fw.Status.FINISHED
    assert r.x.tolist() == [1.0, 0.0, 0.0, 1.0]
    assert r.gap == 0


def test_wrong_arguments_of_blocks():
    with pytest.raises(ValueError, match=r"order='cyclc' is not known; did you mean 'cyclic'"):
        fw.BlockCoordinate("cyclc")
    with pytest.raises(ValueError, match="seed"):
        fw.BlockCoordinate(seed=-1)


def test_adaptive_block_steps_estimate_one_smoothness_for_each_block():
    A = np.diag([1.0, 1.0, 30.0, 30.0])  # the second block is 900 times as curved as the first one
    f = fw.LinearModel(A, A @ [0.7, 0.3, 0.6, 0.4], scale="sum")
    C = fw.Product([(fw.Simplex(), 2)] * 2)
    r = fw.minimize(f, C, method="block", line_search="adaptive", tol=1e-10)
    first, second = r.state.memory.searches
    assert r.success
    np.testing.assert_allclose(r.x, [0.7, 0.3, 0.6, 0.4], atol=1e-6)
    assert first == pytest.approx(1.0, rel=0.5)  # in units of the squared norm of the image
    assert second == pytest.approx(1.0, rel=0.5)
    with pytest.raises(ValueError, match="line_search must be a LineSearch"):
        fw.BlockCoordinate(line_search=0.5)
