"""Results that leave Python, and objects that print one line."""

import json

import numpy as np
import pytest

import fwflow as fw
from tests.catalogue import design, targets

A, b = design(20, 5), targets(20)


def never(constant):
    raise AssertionError(f"{constant} is not JSON")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("options", [{}, {"method": "lazy-fw", "max_iter": 25}, {"max_iter": 0}])
def test_results_make_the_round_trip(dtype, options):
    r = fw.minimize(fw.LinearModel(A.astype(dtype), b), fw.L1Ball(1.0), tol=1e-4, **options)
    d = json.loads(r.to_json(), parse_constant=never)
    x = np.array(d["x"], d["dtype"])
    assert x.dtype == dtype
    np.testing.assert_array_equal(x, r.x)
    assert (d["fun"], d["gap"], d["nit"], d["n_grad"], d["n_lmo"]) == (r.fun, r.gap, r.nit, r.n_grad, r.n_lmo)
    assert (d["status"], d["success"], d["message"], d["feasible"]) == (r.status.name, r.success, r.message, r.feasible)
    assert (d["method"], d["why"], d["seconds"]) == (r.method, r.method.why, r.seconds)
    for name in r.trace:
        np.testing.assert_array_equal(np.array(d["trace"][name], float), r.trace[name])
    assert json.loads(r.to_json(indent=2), parse_constant=never) == d


def test_numbers_that_are_not_finite():
    r = fw.minimize(fw.Smooth(lambda x: np.nan, lambda x: x), fw.L1Ball(1.0), np.zeros(2))
    assert np.isnan(r.to_dict()["fun"])
    assert json.loads(r.to_json(), parse_constant=never)["fun"] is None


def test_matrices_and_factored_points():
    r = fw.minimize(fw.Smooth(lambda x: (x**2).sum(), lambda x: 2 * x), fw.Box(1.0, 2.0), np.full((2, 3), 2.0))
    assert r.to_dict()["x"] == [[1.0] * 3] * 2
    f = fw.MatrixCompletion([0, 2, 1], [1, 0, 1], [3.0, 1.0, 2.0], (3, 2))
    r = fw.minimize(f, fw.NuclearBall(5.0), max_iter=5)
    d = json.loads(r.to_json(), parse_constant=never)
    np.testing.assert_array_equal(np.array(d["x"]["U"]) @ np.array(d["x"]["V"]).T, r.x.to_dense())


def test_states_and_trajectories_print_one_line():
    r = fw.minimize(fw.LinearModel(A, b), fw.L1Ball(1.0), method="rk44", max_iter=7, tol=0)
    line = repr(r.state)
    assert line.startswith("State(")
    assert "k=7" in line
    assert "x of 5 entries" in line
    sol = fw.exact_flow(fw.Quadratic(np.eye(2)), fw.ConvexHull([[-1, 0], [0, 1], [1, 0]]), [0.0, 1.0])
    path = fw.flow(fw.Quadratic(np.eye(2)), fw.L2Ball(1.0), [1.0, 0.0], t_end=1.0, delta=0.25)
    assert repr(sol).startswith(f"ExactTrajectory({len(sol.events)} events, x of 2 entries")
    assert repr(path).startswith("Trajectory(5 samples")
    seen = []
    fw.minimize(fw.LinearModel(A, b), fw.L1Ball(1.0), callback=lambda state: seen.append(repr(state)), max_iter=1)
    for text in (line, repr(sol), repr(path), *seen, str(r.state)):
        assert "\n" not in text
        assert len(text) < 160


def test_a_refused_state_says_what_differs():
    f = fw.LinearModel(A, b)
    state = fw.minimize(f, fw.L1Ball(3.0), method="fw", max_iter=2, tol=0).state
    with pytest.raises(ValueError, match="its set was L1Ball with radius 3, and this one is L1Ball with radius 4"):
        fw.minimize(f, fw.L1Ball(4.0), method="fw", state=state)
    with pytest.raises(ValueError, match=r"with b of shape \(20,\), and this one is .* with other entries in b"):
        fw.minimize(fw.LinearModel(A, 2 * b), fw.L1Ball(3.0), method="fw", state=state)
