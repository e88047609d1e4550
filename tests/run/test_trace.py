"""The trace: row k describes x^(k), and the columns go wherever they are needed."""

import csv
from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import fwflow as fw
from tests.catalogue import MOMENTA, design, targets

COLUMNS = ("fun", "gap", "time", "n_grad", "n_lmo", "n_design", "step")
A, B = design(12, 6), targets(12)


def fun(x):
    return float(np.sum((A @ x - B) ** 2) / 24)


def grad(x):
    return A.T @ (A @ x - B) / 12


def run(**options):
    return fw.minimize(fw.LinearModel(A, B), fw.L1Ball(2.0), **({"method": "fw", "tol": 0, "max_iter": 8} | options))


@pytest.fixture
def trace():
    return run().trace


@pytest.fixture
def pyplot():
    plt.switch_backend("Agg")
    yield plt
    plt.close("all")


def test_columns(trace):
    assert trace.keys() == COLUMNS
    assert dict(trace).keys() == set(COLUMNS)
    for name in COLUMNS:
        assert trace[name].shape == (9,) == (len(trace),)
        assert trace[name].dtype == (np.dtype(int) if name in ("n_grad", "n_lmo") else np.dtype(float))


@pytest.mark.parametrize("momentum", MOMENTA)
@pytest.mark.parametrize("method", ["fw", "rk44"])
def test_row_k_describes_iterate_k(method, momentum):
    points = []
    r = run(method=method, momentum=momentum, callback=lambda state: points.append(state.x))
    gaps = [grad(x) @ x + 2 * np.abs(grad(x)).max() for x in points]
    # Values and gaps are below 100 here; a carried image is off by a few roundings of them.
    np.testing.assert_allclose(r.trace["fun"], [fun(x) for x in points], rtol=0, atol=1e-12)
    np.testing.assert_allclose(r.trace["gap"], gaps, rtol=0, atol=1e-12)
    assert len(r.trace) == len(points) == r.nit + 1


def test_row_0_is_the_start(trace):
    start = np.zeros(6)
    assert trace["fun"][0] == pytest.approx(fun(start), rel=1e-14)
    assert np.isnan(trace["step"][0])
    assert np.isfinite(trace["step"][1:]).all()


def test_open_loop_steps_are_the_schedule():
    schedule = fw.OpenLoop(c=3.0, k0=2)
    assert run(schedule=schedule).trace["step"][1:].tolist() == [3 / (3 + 2 + k) for k in range(8)]


def test_searched_steps_lead_from_row_to_row():
    points = []
    r = run(line_search="exact", callback=lambda state: points.append(state.x))
    for k, (x, y) in enumerate(pairwise(points)):
        i = np.abs(grad(x)).argmax()
        s = np.zeros(6)
        s[i] = -2 * np.sign(grad(x)[i])
        np.testing.assert_allclose(y - x, r.trace["step"][k + 1] * (s - x), rtol=0, atol=1e-14)


def test_columns_are_copies(trace):
    trace["gap"][:] = 0
    assert trace["gap"].min() > 0


def test_unknown_column(trace):
    with pytest.raises(KeyError, match="did you mean 'gap'"):
        trace["gaps"]
    with pytest.raises(KeyError, match="'n_design'"):
        trace["nothing"]


def test_membership_and_iteration(trace):
    assert "gap" in trace
    assert "nothing" not in trace
    assert tuple(trace) == COLUMNS


def test_repr(trace):
    assert repr(trace) == "Trace(9 rows: fun, gap, time, n_grad, n_lmo, n_design, step)"


def test_empty():
    trace = fw.Trace()
    assert len(trace) == 0
    assert trace["gap"].shape == (0,)
    assert trace["n_grad"].dtype == int
    assert trace.to_pandas().empty


def test_to_pandas(trace):
    frame = trace.to_pandas()
    assert tuple(frame.columns) == COLUMNS
    assert frame.index.name == "k"
    assert frame.index.tolist() == list(range(9))
    for name in COLUMNS:
        np.testing.assert_array_equal(frame[name].to_numpy(), trace[name])
        assert frame[name].dtype == trace[name].dtype


@pytest.mark.parametrize("kind", [str, lambda path: path], ids=["text", "path"])
def test_to_csv(trace, kind, tmp_path):
    path = tmp_path / "trace.csv"
    trace.to_csv(kind(path))
    with path.open(newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ["k", *COLUMNS]
    for name, values in zip(header, zip(*rows, strict=True), strict=True):
        expected = np.arange(9) if name == "k" else trace[name]
        np.testing.assert_array_equal(np.array(values, dtype=expected.dtype), expected)


def test_unchecked_gaps_survive_the_file(tmp_path):
    trace = run(momentum="nesterov", check_every=3).trace
    trace.to_csv(tmp_path / "trace.csv")
    gaps = pd.read_csv(tmp_path / "trace.csv", index_col="k")["gap"]
    assert gaps.isna().tolist() == [k % 3 != 0 and k != 8 for k in range(9)]


def test_plot(trace, pyplot):
    ax = trace.plot(label="mine", color="red")
    (line,) = ax.lines
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("iteration k", "gap")
    assert (line.get_label(), line.get_color()) == ("mine", "red")
    # k = 0 has no place on a logarithmic axis.
    np.testing.assert_array_equal(line.get_xdata(), np.arange(1, 9))
    np.testing.assert_array_equal(line.get_ydata(), trace["gap"][1:])


@pytest.mark.parametrize("x", ["k", *COLUMNS])
@pytest.mark.parametrize("y", COLUMNS)
def test_plot_of_any_column(trace, pyplot, x, y):
    _, ax = pyplot.subplots()
    assert trace.plot(x, y, ax) is ax
    along = np.arange(9) if x == "k" else trace[x]
    shown = (along > 0) & (trace[y] > 0)
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), along[shown])
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), trace[y][shown])
    assert ax.get_ylabel() == y


def test_plot_draws_and_skips_what_was_not_computed(pyplot):
    trace = run(momentum="nesterov", check_every=3).trace
    ax = trace.plot()
    ax.figure.canvas.draw()
    assert ax.lines[0].get_xdata().tolist() == [3, 6, 8]


def test_plot_of_an_unknown_column(trace, pyplot):
    with pytest.raises(KeyError, match="nothing"):
        trace.plot(y="nothing")
    with pytest.raises(KeyError, match="nothing"):
        trace.plot(x="nothing")
    assert not pyplot.get_fignums()
