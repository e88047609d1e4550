"""Screening saves work and changes nothing else."""

import pickle
from weakref import ref

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import fwflow as fw
from fwflow.designs import Counts, DataCost, as_design
from fwflow.objectives import screening
from fwflow.objectives.screening import LazyGradient, Screen
from fwflow.points.vertices import DenseVertex

SETS = {"l1": fw.L1Ball(5.0), "simplex": fw.Simplex(5.0)}
KINDS = {"C": np.ascontiguousarray, "F": np.asfortranarray, "csr": sp.csr_array, "csc": sp.csc_array}
RUNS = {
    "fw": {"method": "fw"},
    "rk44": {"method": "rk44"},
    "exact": {"method": "fw", "line_search": "exact"},
    "aggressive": {"method": "rk44", "line_search": "aggressive"},
    "nesterov": {"method": "rk44", "momentum": "nesterov"},
    "gradient-averaging": {"method": "fw", "momentum": "gradient-averaging"},
    "lmo-averaging": {"method": "heun", "momentum": "lmo-averaging"},
    "away": {"method": "away"},
    "pairwise": {"method": "pairwise"},
    "blended-pairwise": {"method": "blended-pairwise"},
    "lazy-pairwise": {"method": "lazy-pairwise"},
}


@pytest.fixture(autouse=True)
def _screen_small_problems(monkeypatch):
    monkeypatch.setattr(screening, "LEAST_COST", 0)
    monkeypatch.setattr(screening, "LEAST_COST_PER_COLUMN", 0)


def data(m=40, n=300, dtype=np.float64, seed=0):
    """A few columns matter, and their columns are among the largest."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((m, n)) * np.geomspace(1, 0.05, n)
    return A.astype(dtype), (A[:, :4].sum(axis=1) + 0.1 * rng.standard_normal(m)).astype(dtype)


class Watched(fw.ConstraintSet):
    """A set that writes down every answer of its oracle."""

    def __init__(self, inner):
        self.inner, self.answers, self.lazy = inner, [], 0
        self.screenable = inner.screenable

    def lmo(self, g, hint=None):
        self.lazy += isinstance(g, LazyGradient)
        vertex = self.inner.lmo(g, hint)
        self.answers.append((vertex.index, vertex.value))
        return vertex

    def start(self, *args):
        return self.inner.start(*args)

    def contains(self, *args):
        return self.inner.contains(*args)

    def diameter(self, *args):
        return self.inner.diameter(*args)


def both(f, C, **options):
    """The run with and without screening; their oracles gave the same answers."""
    results, answers = [], []
    for screen in (True, False):
        watched = Watched(C)
        results.append(fw.minimize(f, watched, tol=0, screen=screen, **options))
        answers.append(watched.answers)
        assert bool(watched.lazy) == screen
    assert answers[0] == answers[1]
    np.testing.assert_array_equal(results[0].x, results[1].x)
    assert results[0].gap == results[1].gap  # verified by whole gradients
    assert (results[0].n_grad, results[0].n_lmo) == (results[1].n_grad, results[1].n_lmo)
    return results


@pytest.mark.sampled(4)
@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("constraint", SETS)
def test_answers_are_the_same(constraint, kind, run):
    A, b = data()
    screened, whole = both(fw.LinearModel(KINDS[kind](A), b), SETS[constraint], max_iter=60, **RUNS[run])
    assert whole.n_design == int(whole.n_design)
    assert screened.n_design <= whole.n_design + 2  # column norms, and shares of attempts in vain


@pytest.mark.sampled(3)
@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("constraint", SETS)
@pytest.mark.parametrize("loss", ["logistic", "huber"])
def test_answers_are_the_same_for_other_losses(loss, constraint, run):
    A, b = data(seed=1)
    f = fw.LinearModel(A, np.where(b > 0, 1.0, -1.0), loss=loss)
    both(f, SETS[constraint], max_iter=60, **RUNS[run])


# The average of duals is another rounding of the average of gradients: with momentum only double precision is the same.
@pytest.mark.parametrize("run", ["fw", "rk44", "exact", "lmo-averaging", "blended-pairwise"])
@pytest.mark.parametrize("kind", KINDS)
def test_single_precision_stays_single(kind, run):
    A, b = data(dtype=np.float32)
    screened, _ = both(fw.LinearModel(KINDS[kind](A), b), fw.L1Ball(5.0), max_iter=60, **RUNS[run])
    assert screened.x.dtype == np.float32
    f = fw.LinearModel(A, b).counted_by(Counts()).screened()
    g = 0.3 * f.gradient(f.point(np.zeros(A.shape[1]))) + f.gradient(f.point(np.ones(A.shape[1])))
    assert isinstance(g, LazyGradient)
    assert g.data.dtype == np.asarray(g).dtype == np.float32


@pytest.mark.parametrize("method", ["fw", "rk44", "pairwise"])
@pytest.mark.parametrize("constraint", SETS)
def test_duplicate_and_zero_columns(constraint, method):
    A, b = data(n=60)
    A = np.column_stack([np.zeros(len(A)), A, A, -A, np.zeros(len(A))])
    both(fw.LinearModel(A, b), SETS[constraint], method=method, max_iter=80)


@pytest.mark.parametrize("method", ["fw", "pairwise"])
@pytest.mark.parametrize("constraint", SETS)
@pytest.mark.parametrize("shape", [(30, 1), (1, 30), (1, 1), (5, 2)])
def test_extreme_shapes(shape, constraint, method):
    A, b = data(*shape)
    both(fw.LinearModel(A, b), SETS[constraint], method=method, max_iter=30)


@pytest.mark.parametrize("scale", [1e-200, 1e-30, 1e140])
def test_extreme_sizes(scale):
    A, b = data()
    both(fw.LinearModel(scale * A, scale * b), fw.L1Ball(5.0), method="fw", max_iter=40)


def test_the_zero_gradient_is_answered_alike():
    A, _ = data()
    both(fw.LinearModel(A, np.zeros(len(A))), fw.L1Ball(5.0), method="pairwise", max_iter=30)


@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**32 - 1),
    m=st.integers(1, 12),
    n=st.integers(1, 40),
    spread=st.floats(1e-16, 10.0),
    dtype=st.sampled_from([np.float32, np.float64]),
    ball=st.booleans(),
)
def test_no_column_left_out_beats_the_answer(seed, m, n, spread, dtype, ball):
    rng = np.random.default_rng(seed)
    A = rng.integers(-3, 4, (m, n)).astype(dtype) * rng.choice([1.0, 1e-3], n).astype(dtype)  # ties are common
    design = as_design(np.asfortranarray(A))
    design.data_cost = DataCost(1, column_share=1.0)  # no attempt is given up
    screen, centre = Screen(design), rng.standard_normal(m)
    score = np.abs if ball else np.negative
    for _ in range(8):
        r = (centre + spread * rng.standard_normal(m)).astype(dtype)
        g = LazyGradient(r, (n,), ref(screen))
        found = screen.candidates(r, score)
        truth = score(design.rmatvec(r))
        if found is not None:
            columns, values, best = found
            left_out = np.delete(truth, columns)
            assert (left_out < truth[columns[best]]).all()
            few = 100 * np.finfo(dtype).eps * np.abs(truth).max()
            np.testing.assert_allclose(values, design.rmatvec(r)[columns], rtol=0, atol=few)
        assert (abs(g).argmax() if ball else g.argmin()) == truth.argmax()


@pytest.mark.parametrize("kind", ["C", "F", "csc"])
@pytest.mark.parametrize("method", ["fw", "rk44"])
def test_work_is_saved(method, kind):
    A, b = data(200, 2000)
    f = fw.LinearModel(KINDS[kind](A), b)
    screened, whole = both(f, fw.L1Ball(2.0), method=method, max_iter=200)
    assert screened.n_design < whole.n_design / 4
    assert screened.trace["n_design"][-1] < screened.n_design  # verification comes on top


def test_counts_are_the_columns_that_were_multiplied():
    A, b = data(200, 2000)
    f = fw.LinearModel(np.asfortranarray(A), b)
    columns, inner = 0, f.design

    class Counting(fw.Design):
        shape, dtype, data_cost = inner.shape, inner.dtype, inner.data_cost

        def matvec(self, x):
            nonlocal columns
            columns += self.shape[1]
            return inner.matvec(x)

        def rmatvec(self, r):
            nonlocal columns
            columns += self.shape[1]
            return inner.rmatvec(r)

        def column(self, j):
            return inner.column(j)

        def some_columns(self, r, chosen):
            nonlocal columns
            columns += len(chosen)
            return inner.some_columns(r, chosen)

        def column_norms(self):
            nonlocal columns
            columns += self.shape[1]
            return inner.column_norms()

    for method in ("fw", "pairwise"):
        columns = 0
        r = fw.minimize(fw.LinearModel(Counting(), b), fw.L1Ball(2.0), method=method, tol=0, max_iter=100)
        assert r.n_design == pytest.approx(columns / 2000, rel=1e-12)
        assert r.n_design != int(r.n_design)


def test_a_design_without_columns_is_not_screened():
    A, b = data()

    class Own(fw.Design):
        shape, dtype = A.shape, A.dtype

        def matvec(self, x):
            return A @ x

        def rmatvec(self, r):
            return A.T @ r

        def column(self, j):
            return DenseVertex(A[:, j])

    watched = Watched(fw.L1Ball(5.0))
    r = fw.minimize(fw.LinearModel(Own(), b), watched, method="fw", tol=0, max_iter=20)
    assert watched.lazy == 0
    assert isinstance(r.n_design, int)


@pytest.mark.parametrize("method", ["apg", "corrective"])
def test_methods_that_need_every_entry_get_it(method):
    A, b = data()
    watched = Watched(fw.L1Ball(5.0))
    watched.projection = watched.inner.projection
    fw.minimize(fw.LinearModel(A, b), watched, method=method, max_iter=5)
    assert watched.answers
    assert watched.lazy == 0


def test_small_problems_are_not_screened(monkeypatch):
    monkeypatch.undo()
    A, b = data()
    watched = Watched(fw.L1Ball(5.0))
    fw.minimize(fw.LinearModel(A, b), watched, method="fw", max_iter=5)
    assert watched.lazy == 0


def test_the_objective_is_not_touched():
    A, b = data()
    f = fw.LinearModel(A, b)
    fw.minimize(f, fw.L1Ball(5.0), method="fw", max_iter=20)
    assert isinstance(f.gradient(f.point(np.zeros(A.shape[1]))), np.ndarray)


def test_the_verified_gap_is_true():
    A, b = data(200, 2000)
    r = fw.minimize(fw.LinearModel(A, b), fw.L1Ball(3.0), method="pairwise", tol=1e-9)
    g = A.T @ (A @ r.x - b) / len(b)
    assert r.success
    assert r.gap <= 1e-9
    assert float(g @ r.x) + 3.0 * float(np.abs(g).max()) == pytest.approx(r.gap, abs=1e-14)


@pytest.mark.parametrize("run", RUNS)
def test_a_run_continues_exactly(run, tmp_path):
    A, b = data()
    f, C = fw.LinearModel(A, b), fw.L1Ball(5.0)
    whole = fw.minimize(f, C, tol=0, max_iter=60, **RUNS[run])
    first = fw.minimize(f, C, tol=0, max_iter=25, **RUNS[run])
    first.state.save(tmp_path / "state")
    assert (tmp_path / "state").stat().st_size < A.nbytes  # the data is not in it
    for state in (first.state, fw.State.load(tmp_path / "state")):
        rest = fw.minimize(f, C, tol=0, max_iter=35, state=state, **RUNS[run])
        np.testing.assert_array_equal(rest.x, whole.x)
        assert rest.gap == whole.gap


def test_a_saved_average_needs_a_run_that_screens():
    A, b = data()
    f, C, run = fw.LinearModel(A, b), fw.L1Ball(5.0), RUNS["nesterov"]
    state = pickle.loads(pickle.dumps(fw.minimize(f, C, tol=0, max_iter=5, **run).state))
    with pytest.raises(ValueError, match="screen=True"):
        fw.minimize(f, C, tol=0, max_iter=5, screen=False, state=state, **run)


def test_a_lazy_gradient_is_an_array_for_whoever_needs_one():
    A, b = data()
    counts = Counts()
    f = fw.LinearModel(A, b).counted_by(counts).screened()
    x = f.point(np.linspace(-1, 1, A.shape[1]))
    before, g = counts.n_design, f.gradient(x)
    expected = A.T @ (A @ x.x - b) / len(b)
    assert g[3] == pytest.approx(expected[3], rel=1e-12)
    assert counts.n_design - before == pytest.approx(1 / A.shape[1])
    np.testing.assert_allclose(2 * g + np.ones(A.shape[1]), 2 * expected + 1, rtol=1e-12)
    np.testing.assert_allclose(np.ones(A.shape[1]) + g, expected + 1, rtol=1e-12)
    np.testing.assert_allclose(np.asarray(g), expected, rtol=1e-12, atol=1e-14)
    assert g.inner(x) == pytest.approx(expected @ x.x, rel=1e-12)
    with pytest.raises(ValueError, match="read-only"):
        np.asarray(g)[0] = 0


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("constraint", SETS)
def test_overflow_is_trouble_as_ever(constraint, sign):
    f = fw.LinearModel(sign * np.full((4, 3), 1e200), np.full(4, 1e150), loss="huber", rho=1e150, scale="sum")
    with np.errstate(over="ignore", invalid="ignore"):
        for screen in (True, False):
            r = fw.minimize(f, SETS[constraint], [5.0, 0, 0], method="fw", screen=screen)
            assert r.status is fw.Status.NUMERICAL


def test_a_modulus_whose_sign_is_rounding_is_left_to_the_whole_product():
    screen = Screen(as_design(np.ones((2, 1))))
    screen.remember(0)
    for r in ([1.0, 2.0], [2.0, 1.0], [1.0, 1.0], [3.0, 1.0]):
        screen.product(np.array(r))
    assert screen.candidates(np.array([2.0, 2.0]), np.abs) is None  # one column is more than the share that is cheap
    screen.design.data_cost = DataCost(1, column_share=1.0)
    assert screen.candidates(np.array([2.0, 2.0]), np.abs) is not None
    assert screen.candidates(np.array([1.0, np.nextafter(-1.0, 0)]), np.abs) is None


def test_bounds_that_overflow_leave_nothing_out():
    design = as_design(np.array([[1e-300, 2e-300, 3e-300]]))
    design.data_cost = DataCost(1, column_share=1.0)
    screen = Screen(design)
    screen.remember(0)
    with np.errstate(over="ignore"):
        for sign in (1, -1, 1, -1, 1, -1):
            r = sign * np.full(1, 1.6e308)
            found = screen.candidates(r, np.negative)
            assert found is None or len(found[0]) == 3
            assert LazyGradient(r, (3,), ref(screen)).argmin() == (-sign * np.array([1, 2, 3])).argmax()
