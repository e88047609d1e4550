"""Do the guards hold that keep a step in the domain, in the set, and out of a switch that has nothing to switch to?"""

import numpy as np
import pytest

import fwflow as fw
from tests.catalogue import ACTIVE_SET, LINE_SEARCHES, design, targets
from tests.extension.test_shortcuts import Quartic


class Barrier:
    """Minus the sum of weighted logarithms, which is asked where it is defined and nowhere else."""

    def __init__(self, weights):
        self.weights, self.outside = weights, 0

    def domain(self, x):
        return bool((x > 0).all())

    def fun(self, x):
        self.outside += not self.domain(x)
        with np.errstate(all="ignore"):
            return float(-(self.weights @ np.log(np.maximum(x, 1e-300))))

    def grad(self, x):
        self.outside += not self.domain(x)
        with np.errstate(all="ignore"):
            return -self.weights / np.where(x == 0, 1e-300, x)


@pytest.mark.parametrize("search", [name for name in LINE_SEARCHES if name not in (None, "short")])
@pytest.mark.parametrize("method", ACTIVE_SET)
def test_methods_with_an_active_set_stay_in_the_domain(method, search):
    weights = np.arange(1.0, 5.0) / 10
    barrier = Barrier(weights)
    f = fw.Smooth(barrier.fun, barrier.grad, domain=barrier.domain)
    r = fw.minimize(f, fw.Simplex(), np.full(4, 0.25), method=method, line_search=search, tol=1e-3, max_iter=300)
    assert barrier.outside == 0
    assert r.status is not fw.Status.NUMERICAL
    if search != "aggressive":  # which goes to the border of the domain, again and again
        assert r.success
        np.testing.assert_allclose(r.x, weights, atol=0.03)


class Farthest(fw.LineSearch):
    """As far as is allowed."""

    def __repr__(self):
        return "farthest"

    def step(self, line, gamma, limit, memory):
        return limit, None


class Growing(fw.Schedule):
    """Later stages mix more than the first, which is what lengths are measured by."""

    def gamma(self, t):
        return 0.9 * (t % 1) + 0.05


CERTIFIED = [
    (name, schedule)
    for name, tableau in fw.tableaus.items()
    for schedule in (Growing(), fw.OpenLoop(), fw.ConstantSchedule(0.3))
    if schedule.certifies(tableau)
]


@pytest.mark.parametrize("search", [Farthest(), *(name for name in LINE_SEARCHES if name)], ids=str)
@pytest.mark.parametrize(("tableau", "schedule"), CERTIFIED, ids=str)
def test_no_line_search_leaves_the_set(tableau, search, schedule):
    left = []
    C = fw.Simplex()
    f = fw.Quadratic(np.zeros((3, 3)), [1.0, 2.0, 3.0])  # the longer the step, the better

    def look(state):
        left.append(not C.contains(state.x))

    fw.minimize(
        f, C, method=tableau, schedule=schedule, line_search=search, tol=0, max_iter=4, callback=look, screen=False
    )
    assert not any(left)


def polished(f, x0=None):
    return fw.minimize(f, fw.L1Ball(0.3), x0, method="polished", tol=0, max_iter=45)


@pytest.mark.parametrize("product", [None, lambda x, v: v], ids=["no model either", "a model"])
def test_nothing_is_polished_without_an_image(product):
    centre = np.zeros(40)
    centre[:2] = 1.0
    f = fw.Smooth(lambda x: float(((x - centre) ** 2).sum() / 2), lambda x: x - centre, hess_product=product)
    r = polished(f, np.zeros(40))
    assert np.count_nonzero(r.x) <= 5  # few enough to switch
    assert r.nit == 45 or r.gap < 1e-12
    assert r.active_set is None


def test_nothing_is_polished_without_a_model():
    A = design(80, 40)
    r = polished(Quartic(A, A[:, 0]))
    assert np.count_nonzero(r.x) <= 5
    assert r.active_set is None


def test_what_has_both_is_polished():
    A = design(80, 40)
    f = fw.LinearModel(A, A[:, 0] + 0.1 * targets(80), "huber")
    r = fw.minimize(f, fw.L1Ball(0.3), method="polished", tol=0, max_iter=21)
    assert r.active_set is not None
