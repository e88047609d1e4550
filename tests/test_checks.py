import numpy as np
import pytest
import scipy.sparse as sp

import fwflow as fw
from fwflow.checks import adjoint_error, gradient_error, lmo_excess, observed_order
from fwflow.designs import DenseDesign, SparseDesign
from fwflow.points.vertices import DenseVertex
from tests.catalogue import OBJECTIVES, SETS, design, targets


def powers(broken=lambda g: g, scale=1.0):
    return fw.Smooth(lambda x: scale * float((x**4).sum()), lambda x: broken(scale * 4 * x**3))


X = np.array([1.0, -2.0, 0.5])

WRONG_GRADIENTS = {
    "sign": lambda g: -g,
    "factor": lambda g: 1.001 * g,
    "zero": lambda g: 0 * g,
    "one entry": lambda g: g + np.array([0.0, 0.0, 0.1]),
    "order": lambda g: g[::-1],
}


@pytest.mark.parametrize("name", WRONG_GRADIENTS)
@pytest.mark.parametrize("scale", [1.0, 1e6, 1e-6])
def test_wrong_gradients_are_noticed_and_right_ones_are_not(name, scale):
    # Differences with h = 2 eps^(1/3): h^2 times third derivatives of 4 * 6 * 2, beside a gradient of length 32.
    assert gradient_error(powers(scale=scale), X) < 1e-8
    assert gradient_error(powers(lambda g: scale * WRONG_GRADIENTS[name](g / scale), scale), X) > 1e-4


@pytest.mark.parametrize("name", OBJECTIVES)
def test_the_catalogue_has_right_gradients(name):
    assert gradient_error(OBJECTIVES[name](6, 1), targets(6)) < 1e-8


def test_gradients_of_matrices_and_of_completion_are_checked():
    f = fw.MatrixCompletion([0, 1, 2], [1, 0, 1], [1.0, 2.0, 3.0], (3, 2), "squared")
    assert gradient_error(f, design(3, 2)) < 1e-8
    f.dual = lambda point: -2 * (point.image - f.b)
    assert gradient_error(f, design(3, 2)) > 0.1
    matrix = fw.Smooth(lambda M: float((M**2).sum()), lambda M: 2 * M)
    assert gradient_error(matrix, design(3, 2)) < 1e-8


def test_single_precision_gradients_are_judged_by_their_precision():
    f = fw.LinearModel(design(12, 6).astype(np.float32), targets(12))
    # h = eps^(1/3) = 5e-3 leaves eps / h = 2e-5 of the value
    assert gradient_error(f, targets(6)) < 1e-3
    wrong = fw.LinearModel(design(12, 6).astype(np.float32), targets(12))
    wrong.factor *= -1
    wrong.value = f.value
    assert gradient_error(wrong, targets(6)) > 0.1


@pytest.mark.parametrize("scale", [1.0, 1e6, 1e-6])
def test_rounding_at_a_minimiser_is_no_wrong_gradient(scale):
    A, b = design(12, 6), targets(12)
    f = fw.LinearModel(A, scale * b)
    # The gradient is rounding, and so are differences, eps^(2/3) = 4e-11 of the value: one says nothing on the other.
    x = np.linalg.lstsq(A, scale * b, rcond=None)[0]
    assert gradient_error(f, x) < 1e-6


def test_directions_and_seed_choose_what_is_tried():
    # wrong in one coordinate of many: one direction sees a little of it, many see more
    f = fw.Smooth(lambda x: float(x @ x), lambda x: 2 * x + np.eye(1, 50)[0])
    few, many = (gradient_error(f, np.ones(50), directions=n) for n in (1, 100))
    assert 0 < few < many
    assert gradient_error(f, np.ones(50), seed=1) != gradient_error(f, np.ones(50), seed=2)
    assert gradient_error(f, np.ones(50), seed=1) == gradient_error(f, np.ones(50), seed=1)


class WrongAdjoint(DenseDesign):
    def rmatvec(self, r):
        return 1.1 * (r @ self.A)


class WrongProduct(DenseDesign):
    def matvec(self, x):
        return self.A @ x + 0.01 * np.abs(self.A).max()


class WrongColumn(DenseDesign):
    def column(self, j):
        return DenseVertex(self.A[:, j - 1])


class NegativeColumn(SparseDesign):
    def column(self, j):
        right = super().column(j)
        return type(right)(right.indices, -right.values, right.shape)


@pytest.mark.parametrize("scale", [1.0, 1e-8, 1e8])
@pytest.mark.parametrize("wrong", [WrongAdjoint, WrongProduct, WrongColumn, NegativeColumn])
def test_wrong_designs_are_noticed_and_right_ones_are_not(wrong, scale):
    A = scale * design(9, 7)
    stored = sp.csc_array(A) if wrong is NegativeColumn else A
    for seed in range(5):
        assert adjoint_error(wrong.__base__(stored), seed=seed) < 1e-12
        assert adjoint_error(wrong(stored), seed=seed) > 1e-5


def test_single_precision_designs_pass_whatever_cancels():
    d = DenseDesign(design(9, 7).astype(np.float32))
    # sums of 9 and 7 products: some 16 roundings of eps = 1.2e-7, beside |A x| |r|, which does not cancel
    assert max(adjoint_error(d, seed=seed) for seed in range(300)) < 1e-5


@pytest.mark.parametrize("name", SETS)
def test_oracles_of_the_catalogue_pass_and_worse_ones_do_not(name):
    C, shape = SETS[name]
    g = np.random.default_rng(0).standard_normal(shape)
    best, worst = np.asarray(C.lmo(g)), np.asarray(C.lmo(-g))
    start = np.asarray(C.start(shape))
    scale = np.linalg.norm(g) * C.diameter(shape)
    members = np.stack([worst, start])
    assert lmo_excess(C, g, members) <= 1e-9 * scale
    assert lmo_excess(C, g, np.stack([best])) <= 1e-9 * scale
    maximising = lmo_excess(lambda g: np.asarray(C.lmo(-g)), g, np.stack([worst, start, best]))
    assert maximising == pytest.approx(np.vdot(g, worst - best), rel=1e-9)
    assert maximising > 0.1


def test_excess_is_what_the_best_member_gains():
    g = np.array([1.0, -2.0])
    members = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    assert lmo_excess(lambda g: np.array([1.0, 0.0]), g, members) == 3.0
    assert lmo_excess(lambda g: np.array([0.0, 1.0]), g, members) == 0.0
    assert lmo_excess(fw.Simplex(), g, members[:1]) == -3.0


@pytest.mark.parametrize("name", fw.tableaus)
def test_orders_of_the_catalogue_are_observed(name):
    tableau = fw.tableaus[name]
    # the error's next power of delta = 1/20 and its halves moves the estimate by a few hundredths
    assert observed_order(tableau) == pytest.approx(tableau.order, abs=0.25)


def test_tableaus_with_a_slip_lose_their_order():
    rk44 = fw.tableaus["rk44"]
    last_stage = rk44.A.copy()
    last_stage[3] = [0, 1, 0, 0]
    slips = {
        "last stage looks back too far": fw.Tableau(last_stage, rk44.beta),
        "weights in the wrong order": fw.Tableau(rk44.A, [1 / 3, 1 / 6, 1 / 6, 1 / 3]),
        "times of another tableau": fw.Tableau(rk44.A, rk44.beta, [0, 1 / 3, 2 / 3, 1]),
        "weights unequal": fw.Tableau(rk44.A, [1 / 6, 1 / 2, 1 / 6, 1 / 6]),
    }
    for slip, tableau in slips.items():
        assert observed_order(tableau) < 3.5, slip
        assert tableau.order == round(observed_order(tableau)), slip


def test_order_is_measured_with_the_steps_asked_for():
    heun = fw.tableaus["heun"]
    coarse, fine = (abs(observed_order(heun, delta=delta) - 2) for delta in (0.5, 0.01))
    assert fine < coarse
    assert observed_order(heun, halvings=1) != observed_order(heun, halvings=3)
