"""Does "auto" look at how a run goes, change its mind where it should, and lose nothing by it?"""

from dataclasses import dataclass

import numpy as np
import pytest

import fwflow as fw
from fwflow.datasets import load
from fwflow.methods import Iterate, Method, Proposal
from fwflow.methods.active import BlendedPairwise, Corrective
from fwflow.methods.projected import AcceleratedProjectedGradient
from fwflow.methods.switching import Switching
from fwflow.objectives.base import NumericalTrouble
from tests.catalogue import design, targets


def unscaled(m=100, n=60, loss="squared"):
    """Columns of such different lengths that projected steps crawl."""
    A = design(m, n) * 10.0 ** np.random.default_rng(3).uniform(-3, 3, n)
    b = A @ np.where(np.arange(n) % 5, 0.0, 1.0) + targets(m)
    return fw.LinearModel(A, b if loss == "squared" else np.sign(b), loss)


def unscaled_function():
    """The same as a function without columns, so that projected steps on all entries begin."""
    f = unscaled()
    A, b, m = f.design.A, f.b, len(f.b)
    return fw.Smooth(
        lambda x: float(((A @ x - b) ** 2).sum()) / (2 * m),
        lambda x: A.T @ (A @ x - b) / m,
        shape=A.shape[1],
        hess_product=lambda x, v: A.T @ (A @ v) / m,
    )


def conditioned():
    """Singular values that range over four decades, and a dense solution: whoever begins is replaced."""
    U, V = np.linalg.qr(design(120, 60))[0], np.linalg.qr(design(60, 60, 1))[0]
    A = (U * np.geomspace(1, 1e-4, 60)) @ V
    return fw.LinearModel(A, A @ targets(60) + 0.01 * targets(120, 5))


def crowded():
    """A projection close to the centre of a polytope, where many vertices meet."""
    Y = 1 / 6 + 1e-3 * design(6, 6)
    return fw.Quadratic(np.eye(36), Y.ravel()), fw.Birkhoff(6)


def black_box(n, seed, curved=False, shape=None):
    """A strictly convex function that is no quadratic."""
    A, B, b = design(2 * n, n, seed) / np.sqrt(n), design(n, n, seed + 1), targets(n, seed)

    def grad(x):
        z = x.ravel()
        return (A.T @ (A @ z) + B.T @ np.tanh(B @ z) - b).reshape(x.shape)

    def fun(x):
        z = x.ravel()
        return float(0.5 * ((A @ z) ** 2).sum() + np.logaddexp(B @ z, -B @ z).sum() - b @ z)

    def hess(x, v):
        u = v.ravel()
        return (A.T @ (A @ u) + B.T @ ((B @ u) / np.cosh(B @ x.ravel()) ** 2)).reshape(v.shape)

    return fw.Smooth(fun, grad, shape=shape or n, hess_product=hess if curved else None)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_unscaled_data_are_solved(loss):
    data = load("madelon")
    r = fw.minimize(fw.LinearModel(data["A"], data["b"], loss), fw.L1Ball(0.1), tol=0, rtol=1e-6)
    assert r.success
    assert r.nit < 300


def test_a_change_is_told_and_keeps_what_there_is():
    r = fw.minimize(unscaled_function(), fw.L1Ball(5.0), tol=0, rtol=1e-9)
    assert r.success
    assert r.method == "corrective"
    assert r.method.why.startswith("started with apg, because projected steps find the nonzero coefficients")
    changes = [change[0] for change in r.state.memory.changes]
    assert changes
    assert (
        f"switched to corrective at step {changes[-1]}, because apg reduced the gap only by a factor of" in r.method.why
    )
    for k in changes:
        assert r.trace["fun"][k] <= r.trace["fun"][k - 1] * (1 + 1e-12)
    np.testing.assert_allclose(r.active_set.x, r.x, atol=1e-12)


def test_the_gap_is_that_of_the_iterate():
    f, C, seen = unscaled_function(), fw.L1Ball(5.0), []

    def judge(state):
        g = f.gradient(f.point(state.x))
        seen.append((state.gap, g @ state.x + 5 * np.abs(g).max()))

    assert fw.minimize(f, C, tol=0, rtol=1e-9, callback=judge).method == "corrective"
    found, true = np.array(seen).T
    known = ~np.isnan(found)
    assert known.sum() > 5
    np.testing.assert_allclose(found[known], true[known], rtol=1e-6, atol=1e-12 * true[0])


@pytest.mark.parametrize(
    ("f", "C"),
    [
        (unscaled(), fw.L1Ball(5.0)),
        (unscaled(loss="logistic"), fw.Simplex(5.0)),
        (conditioned(), fw.L1Ball(60.0)),
        (unscaled(40, 30, "logistic"), fw.ConvexHull(design(60, 30)) + np.linspace(-1, 1, 30)),
        (black_box(20, 0), fw.L1Ball(2.0)),
        (black_box(6, 0, curved=True), fw.ConvexHull(design(20, 6))),
    ],
    ids=["squared", "logistic", "conditioned", "hull", "black box", "black box, hull"],
)
def test_a_run_goes_on_where_it_stopped(f, C, tmp_path):
    options = {"tol": 0, "rtol": 1e-9}
    whole = fw.minimize(f, C, max_iter=400, **options)
    changes = [change[0] for change in whole.state.memory.changes] if "started with" in whole.method.why else []
    for stop in {k for at in (whole.nit // 2, *changes) for k in (at - 1, at, at + 1) if 0 < k < whole.nit}:
        part = fw.minimize(f, C, max_iter=stop, **options)
        part.state.save(tmp_path / "state")
        rest = fw.minimize(f, C, max_iter=400 - stop, state=fw.State.load(tmp_path / "state"), **options)
        np.testing.assert_array_equal(rest.x, whole.x)
        assert rest.method.why == whole.method.why


def test_where_correcting_costs_too_much_another_takes_over():
    f, C = crowded()
    race = Switching(("corrective", "blended-pairwise"), (Slow(), BlendedPairwise()))
    r = fw.minimize(f, C, method=race, tol=0, rtol=1e-3)
    assert r.success
    assert r.state.memory.trial.current == 1


@dataclass(frozen=True)
class Slow(Corrective):
    """A step of one part in a thousand."""

    def step(self, problem, iterate, memory):
        x = iterate.point.mix([(1e-3, iterate.known.vertex)])
        return Proposal(x, 1e-3, self.init(problem, x), mixture=True)


@dataclass(frozen=True)
class Failing(Method):
    def step(self, problem, iterate: Iterate, memory):
        raise NumericalTrouble("no idea")


@dataclass(frozen=True)
class Still(Method):
    def step(self, problem, iterate: Iterate, memory):
        return Proposal(iterate.point, 0.0, None)


@pytest.mark.parametrize(
    ("first", "why"), [(Failing(), "failed (no idea)"), (Still(), "did not reduce the gap")], ids=repr
)
def test_one_who_fails_or_stands_still_is_replaced(first, why):
    f, C = fw.LinearModel(design(12, 6), targets(12)), fw.ConvexHull(design(9, 6))
    race = Switching(("flow", "corrective"), (first, Corrective()))
    r = fw.minimize(f, C, method=race, tol=1e-8)
    assert r.success
    assert f"flow {why}" in r.state.memory.changes[0][2]


def test_where_all_fail_the_run_does():
    race = Switching(("flow", "corrective"), (Failing(), Failing()))
    r = fw.minimize(fw.Quadratic(np.eye(3), [1.0, 2.0, 3.0]), fw.Simplex(), method=race)
    assert r.status is fw.Status.NUMERICAL
    assert "no idea" in r.message


SETS = {
    "simplex": lambda n: fw.Simplex(),
    "L1 ball": lambda n: fw.L1Ball(2.0),
    "box": lambda n: fw.Box(-0.2, 0.5),
    "hull": lambda n: fw.ConvexHull(design(2 * n, n)),
    "Birkhoff": lambda n: fw.Birkhoff(round(n**0.5)),
}


@pytest.mark.parametrize("curved", [False, True])
@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("n", [9, 25])
def test_black_boxes_are_solved(name, n, curved):
    C = SETS[name](n)
    r = fw.minimize(black_box(n, n, curved, C.shape), C, tol=0, rtol=1e-6)
    assert r.success


def test_a_black_box_that_crawls_is_told_what_would_help():
    f, C = black_box(20, 0), fw.ConvexHull(design(40, 20))
    crawling = fw.minimize(f, C, method="fw", tol=1e-9, max_iter=300).message
    for help_ in ('method="corrective"', "hess_product", "projection"):
        assert help_ in crawling
    curved = fw.minimize(black_box(20, 0, True), C, method="fw", tol=1e-9, max_iter=300).message
    assert 'method="corrective"' in curved
    assert "hess_product" not in curved
    assert "polytope = True" in fw.minimize(f, fw.LpBall(3.0), method="fw", tol=1e-9, max_iter=300).message


def test_nobody_else_is_told():
    f, C = black_box(20, 0), fw.ConvexHull(design(40, 20))
    for r in (
        fw.minimize(f, C, tol=1e-3),
        fw.minimize(f, C, method="fw", tol=1e-9, max_iter=20),
        fw.minimize(fw.LinearModel(design(30, 20), targets(30)), C, method="fw", tol=1e-9, max_iter=300),
    ):
        assert "To converge faster" not in r.message


def test_a_run_that_switches_once_does_not_switch_for_slow_progress():
    f, C = unscaled(), fw.L1Ball(5.0)
    once, many = (
        Switching(("apg", "corrective"), (AcceleratedProjectedGradient(), Corrective()), once=once)
        for once in (True, False)
    )
    slow = fw.minimize(f, C, method=once, tol=0, max_iter=19)
    assert not slow.state.memory.changes
    assert fw.minimize(f, C, method=many, tol=0, rtol=1e-9).state.memory.changes
    race = Switching(("flow", "corrective"), (Failing(), Corrective()), once=True)
    assert (
        fw.minimize(fw.Quadratic(np.eye(3), [1.0, 2.0, 3.0]), fw.Simplex(), method=race).status is fw.Status.NUMERICAL
    )
