"""What x is made of: scores against the loop, weights against x, records against plain mixing, and starts from them."""

import contextlib
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import fwflow as fw
from fwflow.methods.restricted import atoms as module
from fwflow.methods.restricted.atoms import ActiveSet, Atoms, Record
from fwflow.objectives.quadratic_models import stacked
from fwflow.points.gradients import Sampled, as_gradient
from fwflow.points.point import FactoredPoint, Lifted, Point
from fwflow.points.vertices import DenseVertex, OneHot, RankOne, SparseVertex
from tests.catalogue import CERTIFIED, SETS, UNCERTIFIED, design, labels, targets
from tests.methods.test_active import METHODS

EPS = np.finfo(float).eps
many = settings(deadline=None, max_examples=40, derandomize=True)


def nearest(shape, seed=3, dtype=float):
    """The squared distance to a matrix that is not in the set."""
    T = np.random.default_rng(seed).standard_normal(shape).astype(dtype)
    return fw.Smooth(lambda X: 0.5 * float(np.sum((X - T) ** 2)), lambda X: X - T)


def run(f, C, x0=None, *, method, max_iter, **options):
    with pytest.warns(fw.UncertifiedWarning) if method in UNCERTIFIED else contextlib.nullcontext():
        return fw.minimize(f, C, x0, method=method, max_iter=max_iter, **{"tol": 0} | options)


def assert_reproduces(active, x, eps=EPS, factor=64):
    assert abs(active.weights.sum() - 1) <= factor * EPS * max(1, np.abs(active.weights).sum())
    size = sum(
        abs(w) * np.abs(np.asarray(v)).max() for w, v in zip(active.weights.tolist(), active.vertices, strict=True)
    )
    np.testing.assert_allclose(np.asarray(active), np.asarray(x), rtol=0, atol=factor * eps * size)


def loop(atoms, g):
    return np.array([a.score(as_gradient(g)) for a in atoms])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", SETS)
def test_scores_are_those_of_the_loop_whatever_joins_and_leaves(name, dtype):
    C, shape = SETS[name]
    rng = np.random.default_rng(0)

    def gradient():
        return rng.standard_normal(shape).astype(dtype)

    atoms = Atoms((Point(np.asarray(C.start(shape, dtype))),))
    as_gradient(gradient()).scores(atoms)  # from here on what is kept for scoring is carried along
    for size in (1, 5, 3):
        atoms = atoms.joined([Lifted(C.lmo(gradient())) for _ in range(size)])
        for kept in (np.ones(len(atoms), bool), rng.random(len(atoms)) < 0.8):
            atoms = atoms.kept(kept) if kept.any() else atoms
            g, fresh = gradient(), Atoms(tuple(atoms), atoms._rows)  # as a stored state has them
            expected = loop(atoms, g)
            np.testing.assert_allclose(
                as_gradient(g).scores(atoms), expected, rtol=0, atol=32 * np.finfo(dtype).eps * 6
            )
            np.testing.assert_array_equal(as_gradient(g).scores(atoms), as_gradient(g).scores(fresh))
            assert atoms.places == fresh.places
            assert [atoms.places[a.key] for a in atoms] == list(range(len(atoms)))
            weights = rng.dirichlet(np.ones(len(atoms)))
            array = sum(w * np.asarray(v) for w, v in zip(weights, ActiveSet(atoms, weights).vertices, strict=True))
            mixed = atoms.mixed(weights, g)
            assert mixed.dtype == dtype
            np.testing.assert_allclose(mixed, array, rtol=0, atol=32 * np.finfo(dtype).eps * 6)
    assert atoms.joined(atoms) is atoms


def test_sparse_vertices_are_never_made_dense_and_odd_ones_are_asked_one_by_one():
    n = 10**9  # a dense row would not fit
    few = SparseVertex(np.array([1, 7]), np.array([2.0, -1.0]), (n,))
    stack = Atoms([Lifted(OneHot(5, 2.0, (n,))), Lifted(few), Lifted(OneHot(n - 1, -2.0, (n,)))])._stack
    assert stack.sparse.tolist() == [0, 2]
    assert stack.rest.tolist() == [1]
    assert stack.indices.tolist() == [[5], [n - 1]]
    atoms = Atoms([Lifted(DenseVertex(np.arange(3.0))), Lifted(SparseVertex(np.array([0, 2]), np.ones(2), (3,)))])
    atoms = atoms.joined([Lifted(OneHot(1, 4.0, (3,)))])
    assert as_gradient(np.array([1.0, 10.0, 100.0])).scores(atoms).tolist() == [210.0, 101.0, 40.0]


def test_long_dense_vertices_are_not_copied():
    long, short = (DenseVertex(np.ones(size)) for size in (module._SHORT + 1, module._SHORT))
    assert len(Atoms([Lifted(long)])._stack.dense) == 0
    assert len(Atoms([Lifted(short)])._stack.dense) == 1


def test_gradients_on_observed_entries_are_scored_from_factors():
    g = Sampled(np.array([2.0, 3.0]), np.array([1, 0]), np.array([0, 1, 2]), (2, 2))
    vertex = RankOne(np.array([1.0, 0.0]), np.array([0.0, 1.0]), 5.0)
    start = FactoredPoint(fw.LowRank.zeros((2, 2)), np.array([1.0, 1.0]))
    assert g.scores(Atoms([start, Lifted(vertex)])).tolist() == [5.0, 10.0]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("set_name", SETS)
@pytest.mark.parametrize("tableau", [*CERTIFIED, *UNCERTIFIED])
def test_every_tableau_knows_what_its_iterates_are_made_of(tableau, set_name, monkeypatch):
    monkeypatch.setattr(module, "_FOLD_EVERY", 5)
    C, shape = SETS[set_name]
    r = run(nearest(shape), C, np.asarray(C.start(shape)), method=tableau, max_iter=12)
    assert_reproduces(r.active_set, r.x)
    keys = [v.key for v in r.active_set.vertices if not isinstance(v, np.ndarray)]
    assert len(keys) == len(set(keys)) >= len(r.active_set) - 1
    if tableau in CERTIFIED:
        assert (r.active_set.weights > 0).all()


def test_negative_weights_are_kept_as_they_are():
    r = run(fw.LinearModel(design(30, 15), targets(30)), fw.L1Ball(2.0), method="ralston", max_iter=3)
    assert r.active_set.weights.min() < 0
    assert_reproduces(r.active_set, r.x)


@pytest.mark.parametrize("method", ["fw", "rk44"])
@pytest.mark.parametrize(("steps", "left"), [(63, 63), (64, 0), (65, 1)])
def test_steps_are_folded_when_there_are_64(method, steps, left, monkeypatch):
    f, C = fw.LinearModel(design(30, 15), targets(30)), fw.L1Ball(2.0)
    r = run(f, C, method=method, max_iter=steps)
    assert len(r.state.memory.record.steps) == left
    assert_reproduces(r.active_set, r.x)
    monkeypatch.setattr(module, "_FOLD_EVERY", 1)
    at_once = run(f, C, method=method, max_iter=steps).active_set
    weights = [
        {np.asarray(v).tobytes(): w for v, w in zip(active.vertices, active.weights, strict=True)}
        for active in (r.active_set, at_once)
    ]
    assert weights[0] == pytest.approx(weights[1], rel=0, abs=64 * EPS)


@many
@given(
    seed=st.integers(0, 10**6),
    fold=st.integers(1, 9),
    steps=st.lists(st.tuples(st.integers(1, 4), st.sampled_from(["convex", "forget", "any"])), min_size=1, max_size=20),
)
def test_a_record_is_the_mixture_however_it_is_folded(seed, fold, steps):
    rng = np.random.default_rng(seed)
    point = Point(rng.standard_normal(5))
    record = Record.starting_with(ActiveSet.starting_at(point), point)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_FOLD_EVERY", fold)
        grown = 1.0
        for q, kind in steps:
            p = rng.dirichlet(np.ones(q)) * (1.0 if kind == "forget" else rng.random())
            if kind == "any":
                p = rng.uniform(-0.5, 0.7, q)
            p = [1.0, *[0.0] * (q - 1)] if kind == "forget" else p.tolist()
            s = [Lifted(OneHot(int(rng.integers(5)), float(rng.choice([-1, 1])), (5,))) for _ in range(q)]
            point, record = point.mix(zip(p, s, strict=True)), record.after(p, s)
            grown = max(1.0, grown * abs(1 - sum(p)) + np.abs(p).sum())
            assert len(record.steps) < fold
    active = record.folded().active
    assert len(active) <= 1 + 10
    assert (active.weights != 0).all()
    np.testing.assert_allclose(np.asarray(active), point.x, rtol=0, atol=1e-13 * grown * len(steps))
    assert abs(active.weights.sum() - 1) <= 1e-13 * grown * len(steps)
    if steps[-1][1] == "forget":
        assert len(active) == 1


@pytest.mark.parametrize("search", [None, "exact"])
@pytest.mark.parametrize("method", ["fw", "rk44", "blended-pairwise", "corrective"])
def test_a_state_continues_with_the_same_decomposition(method, search):
    f, C = fw.LinearModel(design(30, 15), targets(30)), fw.L1Ball(2.0)
    options = {"method": method, "line_search": None if method == "corrective" else search}
    whole = run(f, C, max_iter=150, **options)
    half = run(f, C, max_iter=70, **options)
    rest = run(f, C, max_iter=80, state=pickle.loads(pickle.dumps(half.state)), **options)
    again = run(f, C, max_iter=80, state=half.state, **options)
    for r in (rest, again):
        np.testing.assert_array_equal(r.x, whole.x)
        np.testing.assert_array_equal(r.active_set.weights, whole.active_set.weights)
        for v, w in zip(r.active_set.vertices, whole.active_set.vertices, strict=True):
            np.testing.assert_array_equal(np.asarray(v), np.asarray(w))


def test_a_start_that_still_has_weight_survives_pickling():
    f, C = fw.Quadratic(np.eye(4), np.array([0.3, 0.2, 0.1, 0.0])), fw.L1Ball(1.0)
    half = run(f, C, method="away", max_iter=3)
    assert isinstance(half.active_set.vertices[0], np.ndarray)
    whole = run(f, C, method="away", max_iter=30)
    rest = run(f, C, method="away", max_iter=27, state=pickle.loads(pickle.dumps(half.state)))
    np.testing.assert_array_equal(rest.active_set.weights, whole.active_set.weights)


@pytest.mark.parametrize("search", [None, "exact", "short"])
@pytest.mark.parametrize("momentum", [None, "nesterov", "gradient-averaging"])
def test_searches_and_momentum_are_recorded_too(search, momentum):
    f = fw.LinearModel(design(30, 15), labels(30), "logistic")
    r = run(f, fw.L1Ball(2.0), method="rk44", max_iter=70, line_search=search, momentum=momentum)
    assert_reproduces(r.active_set, r.x)
    assert (r.active_set.weights > 0).all()


def test_the_record_is_given_up_where_it_cannot_be_kept(monkeypatch):
    f, n = fw.LinearModel(design(30, 15), targets(30)), 15
    assert run(f, fw.L1Ball(2.0), method="fw", max_iter=5, momentum="lmo-averaging").active_set is None
    ball = fw.L2Ball(0.1)  # a new dense vertex at every step
    kept, given_up = (run(f, ball, method="fw", max_iter=steps) for steps in (100, 101))
    assert len(kept.active_set) == 100
    assert_reproduces(kept.active_set, kept.x)
    assert given_up.active_set is None
    assert run(f, ball, method="fw", max_iter=130).state.memory.record is None
    assert run(f, fw.L1Ball(2.0), method="fw", max_iter=130).active_set is not None
    monkeypatch.setattr(module, "_MOST", 3 * n)
    assert run(f, ball, method="fw", max_iter=3).active_set is not None
    assert run(f, ball, method="fw", max_iter=4).active_set is None


def test_factored_points_are_their_own_decomposition():
    f = fw.MatrixCompletion([0, 1, 2], [1, 0, 1], [1.0, -2.0, 3.0], (3, 2), loss="squared")
    for method, kept in (("fw", False), ("corrective", False), ("blended-pairwise", True)):
        r = run(f, fw.NuclearBall(2.0), method=method, max_iter=20)
        assert (r.active_set is not None) == kept
    assert isinstance(r.active_set.x, fw.LowRank)
    assert_reproduces(r.active_set, r.x)
    warm = run(f, fw.NuclearBall(2.0), r.active_set, method="blended-pairwise", max_iter=0)
    assert len(warm.active_set) == len(r.active_set)
    assert isinstance(warm.x, fw.LowRank)


@pytest.mark.parametrize("method", ["apg", "fw"])
def test_none_where_x_is_not_known_by_its_vertices(method):
    f = fw.LinearModel(design(30, 15), targets(30))

    def interrupt(state):
        if method == "fw" and state.k == 3:
            raise KeyboardInterrupt

    r = run(f, fw.L1Ball(2.0), method=method, max_iter=10, callback=interrupt)
    assert r.status is (fw.Status.INTERRUPTED if method == "fw" else fw.Status.ITERATIONS)
    if method == "apg" or r.x.tobytes() != r.state.x.tobytes():  # the best point is not the last
        assert r.active_set is None
    else:
        np.testing.assert_allclose(r.active_set.x, r.x, atol=1e-14)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("method", [*METHODS, "fw", "rk44"])
@pytest.mark.parametrize("source", ["pairwise", "rk44"])
def test_a_run_goes_on_from_a_decomposition(method, source):
    f, C = fw.LinearModel(design(40, 25), targets(40)), fw.Birkhoff(5)
    first = fw.minimize(f, C, method=source, tol=0, rtol=1e-3 if source == "rk44" else 1e-5, max_iter=2000)
    options = {"method": method, "tol": 1e-6 * first.trace["gap"][0], "max_iter": 5000}
    if method in ("fw", "rk44"):  # slow, and they forget the start unless they search
        options |= {"tol": 5e-4 * first.trace["gap"][0], "line_search": "exact"}
    scratch, warm = fw.minimize(f, C, **options), fw.minimize(f, C, first.active_set, **options)
    assert scratch.success
    assert warm.success
    assert warm.nit < scratch.nit
    assert warm.fun <= first.fun + 1e-12
    assert warm.trace["fun"][0] == pytest.approx(first.fun, rel=1e-12)
    begun = run(f, C, first.active_set, method=method, max_iter=0)
    np.testing.assert_allclose(begun.x, first.x, rtol=0, atol=1e-14)
    np.testing.assert_array_equal(begun.active_set.weights, first.active_set.weights)
    assert_reproduces(begun.active_set, begun.x)


def test_atoms_are_lifted_anew_for_another_objective():
    C = fw.Birkhoff(4)
    first, second = (fw.LinearModel(design(12, 16, seed), targets(12, seed)) for seed in (0, 1))
    start = run(first, C, method="away", max_iter=15).active_set
    warm = run(second, C, start, method="away", max_iter=0)
    for atom in warm.state.memory.active.atoms:
        x = atom.x if isinstance(atom, Point) else atom.vertex
        np.testing.assert_allclose(np.asarray(atom.image), second.design.A @ np.asarray(x), atol=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_vertices_outside_of_the_set_or_of_negative_weight_give_only_their_point(method):
    f = fw.LinearModel(design(30, 15), targets(30))
    wide = run(f, fw.L1Ball(2.0), method="fw", max_iter=30).active_set
    narrow = fw.L1Ball(float(np.abs(wide.x).sum()) * 1.0001)
    assert narrow.radius < 2
    signed = run(f, fw.L1Ball(2.0), method="ralston", max_iter=3).active_set
    assert signed.weights.min() < 0
    for C, start in ((narrow, wide), (fw.L1Ball(4.0), signed)):
        begun = run(f, C, start, method=method, max_iter=0)
        assert len(begun.active_set) == 1
        np.testing.assert_allclose(begun.x, start.x, rtol=0, atol=1e-14)
        assert run(f, C, start, method=method, max_iter=50).feasible


def test_a_decomposition_outside_of_the_set_is_refused_like_any_point():
    f = fw.LinearModel(design(30, 15), targets(30))
    start = run(f, fw.L1Ball(2.0), method="fw", max_iter=3).active_set
    with pytest.raises(ValueError, match="x0 lies outside"):
        fw.minimize(f, fw.L1Ball(0.1), start)


@pytest.mark.parametrize("method", [*METHODS, "fw", "rk44", "apg"])
def test_single_precision_stays_single(method):
    f = fw.LinearModel(design(20, 8).astype(np.float32), targets(20).astype(np.float32))
    first = run(f, fw.L1Ball(1.0), method="rk44", max_iter=70)
    assert_reproduces(first.active_set, first.x, np.finfo(np.float32).eps)
    r = run(f, fw.L1Ball(1.0), first.active_set, method=method, max_iter=5)
    assert r.x.dtype == np.float32
    assert r.fun <= first.fun * (1 + 1e-4) or method in ("fw", "rk44")
    if method != "apg":
        assert_reproduces(r.active_set, r.x, np.finfo(np.float32).eps)


@pytest.mark.parametrize("loss", ["squared", "logistic", "huber"])
@pytest.mark.parametrize("C", [fw.L1Ball(4.0), fw.Birkhoff(20), 2.0 * fw.Birkhoff(20)], ids=repr)
def test_corrections_from_sparse_images_are_those_from_dense_ones(C, loss):
    rng = np.random.default_rng(0)
    A = sp.csc_array(np.where(rng.random((600, 400)) < 0.002, rng.random((600, 400)), 0.0))
    b = labels(600) if loss == "logistic" else targets(600)
    fs = [fw.LinearModel(kind(A), b, loss) for kind in (sp.csc_array, lambda M: M.toarray())]
    # From a vertex: a start of no structure would make a dense row.
    x0 = np.asarray(C.lmo(np.linspace(-1, 1, 400)))
    runs = [fw.minimize(f, C, x0, method="corrective", tol=0, rtol=1e-9, max_iter=300) for f in fs]
    assert all(r.success for r in runs)
    np.testing.assert_allclose(runs[0].fun, runs[1].fun, rtol=1e-8)
    rows = [atom.image_vertex for atom in runs[0].state.memory.active.atoms]
    assert sp.issparse(stacked(rows))
    np.testing.assert_array_equal(stacked(rows).toarray(), [np.asarray(row) for row in rows])


@many
@given(seed=st.integers(0, 10**6), n=st.integers(2, 6))
def test_quadratics_without_convexity_find_stationary_points(seed, n):
    rng = np.random.default_rng(seed)
    M = rng.standard_normal((n * n, n * n))
    r = fw.minimize(fw.Quadratic(M + M.T, rng.standard_normal(n * n)), fw.Birkhoff(n), tol=1e-6, max_iter=500)
    assert r.success
    assert (np.diff(r.trace["fun"]) <= 1e-9).all()


def test_multiples_of_atoms_are_added_to_a_point_and_its_image():
    f = fw.LinearModel(design(5, 4), targets(5))
    x = f.refresh(Point(np.arange(4.0)))
    atoms = [f.lift(OneHot(1, 1.0, (4,))), f.lift(DenseVertex(np.ones(4)))]
    moved = module.added(x, atoms, [2.0, -0.5])
    np.testing.assert_array_equal(moved.x, [-0.5, 2.5, 1.5, 2.5])
    np.testing.assert_allclose(moved.image, f.refresh(Point(moved.x)).image, rtol=1e-14)
    np.testing.assert_array_equal(x.x, np.arange(4.0))
    assert module.added(x.bare(), atoms, [1.0, 1.0]).image is None
