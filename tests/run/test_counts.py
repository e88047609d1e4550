"""Counters of a run equal the calls that it made."""

import numpy as np
import pytest

import fwflow as fw
from tests.catalogue import LINE_SEARCHES, MOMENTA, OBJECTIVES, SETS, design, labels, targets
from tests.run.functions import BALL, X0, CountingDesign, counted, fun, grad, oracle, smooth


@pytest.mark.parametrize("momentum", MOMENTA)
@pytest.mark.parametrize("line_search", LINE_SEARCHES)
@pytest.mark.parametrize("method", ["fw", "rk44"])
@pytest.mark.parametrize("tol", [0, 0.05])
def test_counts_equal_calls(method, line_search, momentum, tol):
    f, C = smooth(fun, counted(grad)), counted(oracle)
    r = fw.minimize(f, C, X0, method=method, line_search=line_search, momentum=momentum, tol=tol, max_iter=20)
    assert (r.n_grad, r.n_lmo, r.n_design) == (f.grad.calls, C.calls, 0)
    assert r.state.counts.n_grad == r.n_grad


def test_the_oracle_call_for_the_start_counts():
    C = counted(oracle)
    r = fw.minimize(smooth(shape=(4,)), C, max_iter=3)
    assert r.n_lmo == C.calls


@pytest.mark.parametrize("line_search", [None, "exact", "armijo"])
def test_calls_of_a_joint_function_are_gradients(line_search):
    both = counted(lambda x: (fun(x), grad(x)))
    r = fw.minimize(smooth(both, True), BALL, X0, line_search=line_search, tol=0, max_iter=20)
    assert r.n_grad == both.calls


@pytest.mark.parametrize("momentum", MOMENTA)
@pytest.mark.parametrize("options", [{}, {"method": "rk44"}, {"line_search": "exact"}], ids=str)
@pytest.mark.parametrize("name", ["l1", "l2", "hull", "translated", "product", "scaled"])
def test_design_products_are_counted(name, options, momentum):
    A = CountingDesign(design(12, 6))
    f = fw.LinearModel(A, labels(12), "logistic")
    r = fw.minimize(f, SETS[name][0], momentum=momentum, tol=0, max_iter=10, **{"method": "fw"} | options)
    assert r.n_grad == A.products["rmatvec"].calls
    assert r.n_design == pytest.approx(A.passes, rel=1e-12)


@pytest.mark.parametrize("name", ["l1", "translated"])
def test_counts_of_a_continued_run_equal_calls(name):
    A = CountingDesign(design(12, 6))
    f, C = fw.LinearModel(A, targets(12)), SETS[name][0]
    part = fw.minimize(f, C, tol=0, max_iter=4)
    r = fw.minimize(f, C, tol=0, max_iter=4, state=part.state)
    assert r.n_grad == A.products["rmatvec"].calls
    assert r.n_design == pytest.approx(A.passes, rel=1e-12)


def test_one_hot_vertices_need_no_product():
    A = CountingDesign(design(12, 6))
    r = fw.minimize(fw.LinearModel(A, targets(12)), fw.L1Ball(1.0), method="rk44", tol=0, max_iter=250)
    # The refresh at iteration 200, and the verification of the result. The start is zero.
    assert A.products["matvec"].calls == 2
    assert A.products["rmatvec"].calls == 4 * 250 + 1 + 1
    assert r.n_lmo == 4 * 250 + 1 + 1


@pytest.mark.parametrize("momentum", MOMENTA)
@pytest.mark.parametrize(("method", "stages"), [("fw", 1), ("rk44", 4)])
def test_trace_counts_agree_with_the_result(method, stages, momentum):
    f = OBJECTIVES["squared"](6, 0)
    r = fw.minimize(f, fw.L1Ball(1.0), method=method, momentum=momentum, tol=0, max_iter=12)
    for column in ("n_grad", "n_lmo", "n_design", "time"):
        assert (np.diff(r.trace[column]) >= 0).all()
    for column in ("n_grad", "n_lmo", "n_design"):
        assert 0 < r.trace[column][-1] <= getattr(r, column)
    assert r.n_grad == r.trace["n_grad"][-1] + 1  # verified with a fresh image
    if momentum is None:
        assert r.trace["n_grad"].tolist() == r.trace["n_lmo"].tolist() == [1 + stages * k for k in range(13)]
    assert len(r.trace) == r.nit + 1
