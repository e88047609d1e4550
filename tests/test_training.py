"""What the optimisers for networks share: sets of tensors, steps, gaps, and the message for a missing framework."""

import math
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fwflow as fw
from fwflow import _training as training
from fwflow._numerics import quietly

UNIT = {
    "nuclear": fw.NuclearBall(1.0),
    "sign": fw.LInfBall(1.0),
    "l1": fw.L1Ball(1.0),
    "spectral": fw.SchattenBall(math.inf),
}


@quietly  # NumPy reads floating-point flags that PyTorch and JAX ignore.
def exact(x):
    return training.polar(np, x)


@quietly
def steepest(kind, x):
    """The answer of a named set for one tensor."""
    form = training.form(kind, x.shape, "rows")
    return form.scale * form.tensor(np, training.steepest(np, form.kind, form.matrices(np, x), exact))


def norm(kind, x):
    """The norm of a named set, written from its description."""
    return {
        "spectral": lambda: np.linalg.norm(x, 2),
        "nuclear": lambda: np.linalg.svd(x, compute_uv=False).sum(),
        "row": lambda: np.linalg.norm(x, axis=1).max(),
        "column": lambda: np.linalg.norm(x, axis=0).max(),
        "sign": lambda: np.abs(x).max(),
        "rms": lambda: np.sqrt(np.mean(x**2)),
        "l1": lambda: np.abs(x).sum(),
    }[kind]()


@pytest.mark.parametrize("kind", training.NORMS)
@given(seed=st.integers(0, 2**32 - 1), rows=st.integers(1, 6), columns=st.integers(1, 6))
def test_answers_are_members_that_no_member_beats(kind, seed, rows, columns):
    rng = np.random.default_rng(seed)
    g, other = rng.standard_normal((2, rows, columns))
    D = steepest(kind, g)
    assert norm(kind, D) == pytest.approx(1)
    assert np.vdot(g, D) >= np.vdot(g, other / norm(kind, other)) - 1e-12


@pytest.mark.parametrize("kind", UNIT)
def test_answers_are_those_of_the_sets_of_the_core(kind):
    for seed, shape in enumerate([(4, 4), (6, 3), (2, 7)]):
        g = np.random.default_rng(seed).standard_normal(shape)
        np.testing.assert_allclose(-steepest(kind, g), np.asarray(UNIT[kind].lmo(g)), atol=1e-8)


@pytest.mark.parametrize("kind", training.NORMS)
@pytest.mark.parametrize("size", [1e-30, 1e-200, 1e200])
def test_answers_do_not_depend_on_the_size_of_the_gradient(kind, size):
    g = np.random.default_rng(0).standard_normal((4, 3))
    np.testing.assert_allclose(steepest(kind, size * g), steepest(kind, g), rtol=1e-9)


@pytest.mark.parametrize("kind", training.NORMS)
def test_zero_gradients_have_zero_answers(kind):
    for shape in [(3, 4), (5,), (), (2, 3, 2)]:
        assert not steepest(kind, np.zeros(shape)).any()


def test_the_exact_polar_factor_leaves_out_arbitrary_directions():
    g = np.outer([1.0, 2.0, 2.0], [3.0, 4.0])
    np.testing.assert_allclose(exact(g[None])[0], g / 15, atol=1e-12)


def test_ties_are_broken_by_the_first_entry():
    np.testing.assert_array_equal(steepest("l1", np.array([1.0, -2.0, 2.0])), [0, -1, 0])


@pytest.mark.parametrize(
    ("kernels", "matrices"),
    [
        ("rows", lambda x: [x.reshape(2, 60)]),
        ("columns", lambda x: [x.reshape(24, 5)]),
        ("stack", lambda x: [x[i, j] for i in range(2) for j in range(3)]),
        ("taps", lambda x: [x[:, :, i, j] for i in range(4) for j in range(5)]),
    ],
)
def test_tensors_are_seen_as_matrices_and_back(kernels, matrices):
    x = np.random.default_rng(0).standard_normal((2, 3, 4, 5))
    form = training.form("spectral", x.shape, kernels)
    seen = form.matrices(np, x)
    np.testing.assert_array_equal(seen, np.stack(matrices(x)))
    np.testing.assert_array_equal(form.tensor(np, seen), x)


@pytest.mark.parametrize("name", training.OF_MATRICES)
@pytest.mark.parametrize("shape", [(), (7,)])
def test_vectors_and_scalars_use_the_root_mean_square(name, shape):
    g = np.full(shape, 3.0)
    np.testing.assert_allclose(steepest(name, g), np.ones(shape))


@pytest.mark.parametrize("name", fw.tableaus)
@pytest.mark.parametrize("kappa", [1.0, 0.3, training.decay_rate(False, 0.0)])
def test_steps_are_runge_kutta_steps_of_the_flow(name, kappa):
    """With prescribed vertices, xi_i = lr (s_i - kappa x_i) as in a textbook."""
    tableau, lr, w = fw.tableaus[name], 0.2, 0.7
    s = np.random.default_rng(0).standard_normal(tableau.stages)
    rows = training.weights(tableau, lr, kappa)
    xi = []
    for i in range(tableau.stages):
        x = w + sum(tableau.A[i, j] * xi[j] for j in range(i))
        decay, shares = rows[i]
        assert w - decay * w + sum(a * b for a, b in zip(shares, s, strict=False)) == pytest.approx(x)
        xi.append(lr * (s[i] - kappa * x))
    decay, shares = rows[-1]
    assert w - decay * w + np.dot(shares, s) == pytest.approx(w + tableau.beta @ xi)


def test_tableaus_that_may_leave_the_set_say_so():
    with pytest.warns(fw.UncertifiedWarning, match="midpoint"):
        training.warn_if_uncertified(fw.tableaus["midpoint"], 0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        training.warn_if_uncertified(fw.tableaus["rk44"], 0.5)


def test_the_gap_is_that_over_the_set_to_which_the_steps_keep():
    rng = np.random.default_rng(0)
    d, w = rng.standard_normal((2, 3, 4))
    s = -steepest("spectral", d)
    for kappa, constraint in ((1.0, fw.SchattenBall(math.inf)), (0.1, fw.SchattenBall(math.inf, 10.0))):
        expected = np.vdot(d, w) - np.vdot(d, np.asarray(constraint.lmo(d)))
        assert training.gap_of(np.vdot(d, w), np.vdot(d, s), kappa, np.where) == pytest.approx(expected)
    dual = np.linalg.svd(d, compute_uv=False).sum()
    free = training.decay_rate(False, 0.0)
    assert training.gap_of(np.vdot(d, w), np.vdot(d, s), free, np.where) == pytest.approx(dual)


def test_a_criterion_compares_means():
    stop = training.GapStop(tol=1.0, window=3)
    assert [stop(gap) for gap in (3, 0, 0, 0, 9)] == [False, False, True, True, False]
    relative = training.GapStop(rtol=0.5)
    assert [relative(gap) for gap in (4, 3, 2)] == [False, False, True]


def test_a_gap_that_is_not_a_number_never_stops():
    stop = training.GapStop(tol=1.0, rtol=0.5)
    assert not stop(math.nan)
    assert stop(0.5)
    relative = training.GapStop(rtol=0.5)
    assert [relative(gap) for gap in (math.nan, 4.0, 2.0)] == [False, False, True]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "tol and rtol"),
        ({"tol": -1.0}, "tol must"),
        ({"rtol": math.nan}, "rtol must"),
        ({"tol": 1.0, "window": 0}, "window"),
    ],
)
def test_arguments_of_the_criterion_are_checked(options, message):
    with pytest.raises(ValueError, match=message):
        training.GapStop(**options)


@pytest.mark.parametrize("sizes", [[10] * 7, [3], [50, 50], [0, 0]])
def test_batches_hold_every_tensor_once(sizes):
    found = [i for batch in training.batches(sizes, 30) for i in range(len(sizes))[batch]]
    assert found == [*range(len(sizes))]
    assert all(sum(sizes[batch]) <= 30 or len(sizes[batch]) == 1 for batch in training.batches(sizes, 30))


@pytest.mark.parametrize("framework", ["torch", "optax"])
def test_a_missing_framework_is_named_with_the_command_that_installs_it(framework):
    script = f"""
import sys
sys.modules[{framework!r}] = None
try:
    import fwflow.{framework}
except ImportError as error:
    print(error)
"""
    environment = {"PYTHONPATH": str(Path(fw.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment)
    assert f"pip install 'fwflow[{framework}]'" in done.stdout
