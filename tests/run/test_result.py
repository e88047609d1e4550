"""Status, Result and State as values; what they promise in a run is in test_truth.py."""

import dataclasses
import pickle

import numpy as np
import pytest

import fwflow as fw

FIELDS = ("x", "fun", "gap", "nit", "n_grad", "n_lmo", "n_design", "status", "success", "message", "feasible", "method")


def run(**options):
    f = fw.Quadratic(np.diag([1.0, 2.0, 3.0]), [1.0, -2.0, 0.5])
    return fw.minimize(f, fw.L1Ball(1.0), **({"tol": 0, "max_iter": 5} | options))


def factored():
    f = fw.MatrixCompletion([0, 1, 2], [0, 1, 1], [2.0, 2.0, 1.0], (3, 2))
    return fw.minimize(f, fw.NuclearBall(4.0), max_iter=5)


def test_every_status_says_what_happened():
    assert {status.name for status in fw.Status} == {
        "TOLERANCE",
        "ITERATIONS",
        "TIME",
        "PRECISION",
        "FINISHED",
        "CALLBACK",
        "INTERRUPTED",
        "INCONSISTENT",
        "NUMERICAL",
        "DATA",
        "INFEASIBLE",
    }
    for status in fw.Status:
        assert status.value[0].isupper()
        assert status.value.endswith(".")
        assert status.name in repr(status)


@pytest.mark.parametrize(
    ("status", "advice"),
    [
        (fw.Status.ITERATIONS, "max_iter"),
        (fw.Status.TIME, "max_time"),
        (fw.Status.INTERRUPTED, "result.state"),
        (fw.Status.NUMERICAL, "best point"),
    ],
)
def test_status_says_what_to_do_next(status, advice):
    assert advice in status.value


@pytest.mark.parametrize("result", [run(), run(tol=10.0), factored()], ids=["limit", "success", "factored"])
def test_repr_shows_every_field(result):
    rows = dict(line.split(": ", 1) for line in repr(result).splitlines())
    assert {name.strip() for name in rows} == set(FIELDS)
    shown = {name.strip(): value for name, value in rows.items()}
    assert shown["status"] == result.status.name
    assert shown["message"] == result.message
    assert float(shown["fun"]) == pytest.approx(result.fun, rel=1e-9)
    assert float(shown["gap"]) == pytest.approx(result.gap, rel=1e-3)
    for name in ("success", "nit", "n_grad", "n_lmo", "feasible"):
        assert shown[name] == str(getattr(result, name))
    assert float(shown["n_design"]) == pytest.approx(result.n_design, rel=1e-5)  # it may have shares of passes


@pytest.mark.parametrize("shape", [(10_000,), (200, 300)])
def test_repr_of_a_large_result_is_short(shape):
    f = fw.Smooth(lambda x: 0.5 * float(np.vdot(x, x)), lambda x: x)
    text = repr(fw.minimize(f, fw.L1Ball(1.0), np.zeros(shape), max_iter=1))
    assert len(text) < 1000
    assert "..." in text


def test_repr_of_a_factored_result_does_not_form_it():
    f = fw.MatrixCompletion([0, 9], [0, 9], [1.0, 1.0], (10**6, 10**6))
    r = fw.minimize(f, fw.NuclearBall(1.0), max_iter=0)
    assert "shape=(1000000, 1000000)" in repr(r)


def test_repr_of_bad_numbers():
    f = fw.Smooth(lambda x: np.nan, lambda x: x * np.nan)
    assert "nan" in repr(fw.minimize(f, fw.L1Ball(1.0), np.ones(2) / 2))


def test_types_of_the_fields():
    r = run()
    assert [type(getattr(r, name)) for name in ("fun", "gap", "nit", "success", "message")] == [
        float,
        float,
        int,
        bool,
        str,
    ]
    assert isinstance(r.status, fw.Status)
    assert isinstance(r.trace, fw.Trace)
    assert isinstance(r.state, fw.State)
    assert r.trace is r.state.trace


def test_result_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        run().fun = 0.0


def test_feasible_is_unknown_for_a_plain_callable():
    f = fw.Quadratic(np.eye(2), [1.0, 0.0])
    r = fw.minimize(f, lambda g: np.eye(2)[g.argmin()], max_iter=2)
    assert r.feasible is None
    assert run().feasible is True


@pytest.mark.parametrize("result", [run(), factored()], ids=["dense", "factored"])
def test_result_survives_a_pickle(result):
    again = pickle.loads(pickle.dumps(result))
    np.testing.assert_array_equal(np.asarray(again.x), np.asarray(result.x))
    assert again.status is result.status
    np.testing.assert_array_equal(again.trace["gap"], result.trace["gap"])
    assert repr(again) == repr(result)


def test_results_can_be_compared():
    first, second = run(), run()
    assert first in [second, first]


def test_state_describes_the_last_row():
    r = run()
    assert (r.state.k, r.state.fun, r.state.gap) == (5, r.trace["fun"][-1], r.trace["gap"][-1])
    np.testing.assert_array_equal(r.state.x, r.x)


def test_saved_state_is_loaded_whole(tmp_path):
    state = run(momentum="nesterov", line_search="adaptive").state
    state.save(tmp_path / "state")
    again = fw.State.load(tmp_path / "state")
    assert again.method == state.method
    assert (again.k, again.fun, again.gap, again.first_gap, again.counts) == (
        state.k,
        state.fun,
        state.gap,
        state.first_gap,
        state.counts,
    )
    np.testing.assert_array_equal(again.x, state.x)
    for name in state.trace.keys():  # noqa: SIM118
        np.testing.assert_array_equal(again.trace[name], state.trace[name])


def test_saving_replaces_an_older_state(tmp_path):
    path = tmp_path / "state"
    run(max_iter=2).state.save(path)
    run(max_iter=4).state.save(path)
    assert fw.State.load(path).k == 4
    assert [p.name for p in tmp_path.iterdir()] == ["state"]
