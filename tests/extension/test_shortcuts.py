"""Do users' own sets, designs, objectives and functions work where ours would take shortcuts?"""

import numpy as np
import pytest

import fwflow as fw
from fwflow.designs import DenseDesign, Design
from fwflow.methods import methods
from fwflow.objectives import screening
from fwflow.objectives.image_based import DesignImage
from fwflow.points.vertices import DenseVertex
from tests.catalogue import design, labels, targets


class FirstTwo(fw.L1Ball):
    """Only the first two entries may be used."""

    def lmo(self, g, hint=None):
        s = np.zeros(g.shape)
        j = int(np.abs(np.asarray(g)[:2]).argmax())
        s[j] = -self.radius if np.asarray(g)[j] > 0 else self.radius
        return DenseVertex(s)


@pytest.fixture
def always_screened(monkeypatch):
    monkeypatch.setattr(screening, "LEAST_COST", 1)
    monkeypatch.setattr(screening, "LEAST_COST_PER_COLUMN", 0)


@pytest.mark.parametrize("wrap", [lambda C: C, lambda C: 2.0 * C, lambda C: C + np.zeros(6)])
@pytest.mark.parametrize("method", ["auto", *methods, *fw.tableaus])
@pytest.mark.filterwarnings("ignore::fwflow.UncertifiedWarning")
def test_an_oracle_of_ones_own_is_right_or_what_is_inherited_is_found_out(always_screened, method, wrap):
    f = fw.LinearModel(design(30, 6), targets(30))
    try:
        r = fw.minimize(f, wrap(FirstTwo(1.0)), np.zeros(6), method=method, max_iter=60)
    except ValueError as error:
        assert "lower value than `lmo`" in str(error) or "needs a product" in str(error)  # noqa: PT017
        return
    assert not r.x[2:].any() or not r.success


class Centring:
    """The columns minus their means, without forming them."""

    def __init__(self, A):
        self.A, self.shape, self.dtype = A, A.shape, A.dtype
        self.means = A.mean(axis=0)

    def matvec(self, x):
        return self.A @ x - self.means @ x

    def rmatvec(self, r):
        return r @ self.A - self.means * r.sum()

    def column(self, j):
        return DenseVertex(self.A[:, j] - self.means[j])


class Centred(Centring, Design):
    """It offers nothing else."""


class CentredDense(Centring, DenseDesign):
    """It inherits from a dense design all that belongs to other products."""

    def __init__(self, A):
        DenseDesign.__init__(self, A)
        Centring.__init__(self, A)


@pytest.mark.parametrize("own", [Centred, CentredDense])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("C", [fw.L1Ball(2.0), fw.Simplex(), fw.Product([(fw.L1Ball(1.0), 3), (fw.Simplex(), 3)])])
@pytest.mark.parametrize("method", ["fw", "flow", "corrective"])
def test_what_belongs_to_other_products_is_right_or_found_out(monkeypatch, always_screened, method, C, dtype, own):
    monkeypatch.setattr("fwflow.methods.exact_flow._WORTH_PREDICTING", 1)
    A, b = (design(30, 6) + 5).astype(dtype), targets(30).astype(dtype)
    options = {"method": method, "tol": 0, "rtol": 1e-2 if method == "fw" else 1e-4, "max_iter": 2000}
    try:
        ours = fw.minimize(fw.LinearModel(own(A), b), C, **options)
    except ValueError as error:
        assert own is CentredDense
        assert "disagrees with its `column`" in str(error)  # noqa: PT017
        return
    if own is CentredDense and ours.status is fw.Status.INCONSISTENT:
        return
    plain = fw.minimize(fw.LinearModel(A - A.mean(axis=0), b), C, **options)
    assert ours.success
    assert plain.success
    assert abs(ours.fun - plain.fun) <= ours.gap + plain.gap + 1e-5


class Quartic(DesignImage):
    """An image, but no second derivatives."""

    def __init__(self, A, b):
        super().__init__(A)
        self.b = np.asarray(b)

    def value(self, point):
        return float(((point.image - self.b) ** 4).sum()) / 4

    def gradient(self, point):
        return self._product_transposed((point.image - self.b) ** 3)

    def _product_transposed(self, r):
        return self.design.rmatvec(r)

    def along(self, start, end, value0):
        z, d = start.image - self.b, end.image - start.image

        def slope(gamma):
            return float((z + gamma * d) ** 3 @ d)

        return fw.Line(
            lambda gamma: float(((z + gamma * d) ** 4).sum()) / 4, slope, None, value0, slope(0.0), float(d @ d), None
        )


@pytest.mark.parametrize("C", [fw.L1Ball(0.3), fw.Simplex(), fw.ConvexHull(np.eye(20))], ids=repr)
def test_auto_does_not_need_second_derivatives(C):
    r = fw.minimize(Quartic(design(40, 20), targets(40)), C, tol=0, rtol=1e-4, max_iter=2000)
    assert r.success


def test_functions_may_write_into_what_they_are_given():
    centre = np.linspace(-1, 1, 4)

    def product(x, v):
        v *= 3 * (x - centre) ** 2 + 1
        x[:] = np.nan
        return v

    f = fw.Smooth(
        lambda x: float(((x - centre) ** 4 / 4 + (x - centre) ** 2 / 2).sum()),
        lambda x: (x - centre) ** 3 + (x - centre),
        hess_product=product,
    )
    r = fw.minimize(f, fw.Box(-0.5, 0.5), np.full(4, 0.1), method="flow", tol=1e-9)
    assert r.success
    np.testing.assert_allclose(r.x, np.clip(centre, -0.5, 0.5), atol=1e-6)


@pytest.mark.parametrize(("scale", "dtype"), [(1e10, np.float32), (1e-10, np.float32), (1e100, float), (1e-100, float)])
@pytest.mark.parametrize("method", ["auto", "apg"])
def test_projected_gradient_works_at_any_scale(scale, dtype, method):
    A = (design(30, 10) * scale).astype(dtype)
    r = fw.minimize(
        fw.LinearModel(A, A[:, 0] * dtype(0.5)), fw.L1Ball(0.4), method=method, tol=0, rtol=1e-3, max_time=20
    )
    assert r.success


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_polishing_stays_in_the_simplex(seed, dtype):
    rng = np.random.default_rng(seed)
    A = (rng.standard_normal((300, 500)) + 3).astype(dtype)
    f = fw.LinearModel(A, (1.5 * A[:, :5].mean(axis=1)).astype(dtype))
    r = fw.minimize(f, fw.Simplex(3.0), tol=0, rtol=1e-9 if dtype == np.float64 else 1e-4, max_iter=200)
    assert r.feasible


@pytest.mark.parametrize("method", ["corrective", "pairwise", "apg", "polished", "flow"])
def test_a_schedule_is_refused_where_it_means_nothing(method):
    f = fw.LinearModel(design(12, 4), labels(12), "logistic")
    with pytest.raises(ValueError, match="schedule belong"):
        fw.minimize(f, fw.L1Ball(1.0), method=method, schedule=fw.ConstantSchedule(0.1))


def test_what_a_result_hands_out_cannot_spoil_its_state():
    f = fw.LinearModel(design(30, 6), targets(30))
    r = fw.minimize(f, fw.L1Ball(2.0), method="pairwise", tol=0, max_iter=5)
    with pytest.raises(ValueError, match="read-only"):
        r.active_set.weights[:] = 1
    for vertex in r.active_set.vertices:
        if isinstance(vertex, np.ndarray):
            vertex[:] = 7
    rest = fw.minimize(f, fw.L1Ball(2.0), method="pairwise", tol=1e-9, state=r.state)
    assert rest.success


def test_oracle_calls_of_projected_gradient_are_counted():
    calls = []

    class Watched(fw.L1Ball):
        def lmo(self, g, hint=None):
            calls.append(g)
            return super().lmo(g, hint)

    r = fw.minimize(fw.LinearModel(design(30, 6), targets(30)), Watched(1.0), method="apg", tol=0, max_iter=40)
    assert r.n_lmo == len(calls)
