"""All radii at once give what each gives alone, in the order that was asked for."""

import numpy as np
import pytest

import fwflow as fw
import fwflow.jax as fwj
from fwflow.jax import solve

RNG = np.random.default_rng(0)
A = RNG.standard_normal((40, 25)).astype(np.float32)
LABELS = np.where(A[:, :3].sum(axis=1) + RNG.standard_normal(40) > 0, 1.0, -1.0)
RADII = np.array([12.0, 0.1, 0.5, 6.0, 0.2, 20.0, 0.3, 1.0, 0.4])


def test_a_path_is_that_of_single_runs(monkeypatch):
    monkeypatch.setattr(solve, "_ROUND", 20)
    sizes = []
    played = solve._played
    monkeypatch.setattr(solve, "_played", lambda *args, **kw: sizes.append(len(args[4])) or played(*args, **kw))
    f = fwj.LinearModel(A, LABELS, "logistic")
    R = fwj.path(f, fw.L1Ball(1.0), RADII, tol=0.0, rtol=1e-5)
    assert R.success.all()
    assert R.x.shape == (9, 25)
    core = fw.LinearModel(A.astype(np.float64), LABELS, "logistic")
    for radius, x, fun, gap in zip(RADII, np.asarray(R.x), np.asarray(R.fun), np.asarray(R.gap), strict=True):
        theirs = fw.minimize(core, fw.L1Ball(radius), tol=1e-10)
        assert np.abs(x).sum() <= radius * (1 + 1e-5)
        assert -1e-6 <= fun - theirs.fun <= gap + 1e-6
    assert sizes[0] == 16
    assert sizes[-1] == 4  # those that took longest went on alone
    assert set(sizes) <= {16, 4}


def test_tolerances_may_differ():
    f = fwj.LinearModel(A, LABELS, "logistic")
    R = fwj.path(f, fwj.L1Ball(), RADII[:4], tol=np.array([1e-1, 1e-2, 1e-3, 1e-4]))
    assert R.success.all()
    assert int(R.nit[3]) > int(R.nit[0])


def test_functions_have_paths_too():
    R = fwj.path(fwj.Smooth(lambda x: ((x["u"] - 1) ** 2).sum()), fwj.L1Ball(), [0.5, 1.0], {"u": np.zeros(2)})
    assert R.success.all()
    np.testing.assert_allclose(R.x["u"], [[0.25, 0.25], [0.5, 0.5]], atol=1e-3)


def test_equal_shapes_are_compiled_once():
    f, C = fwj.LinearModel(A, LABELS, "logistic"), fwj.L1Ball()
    fwj.path(f, C, RADII[:4], max_iter=5)
    before = solve._played._cache_size()
    fwj.path(fwj.LinearModel(2 * A, LABELS, "logistic"), fw.L1Ball(3.0), RADII[:4] / 2, tol=1e-3, max_iter=7)
    assert solve._played._cache_size() == before


@pytest.mark.parametrize(
    ("C", "radii", "message"),
    [
        (fwj.Box(-1.0, 1.0), [1.0], "C must be a set with a radius"),
        (fwj.L1Ball(), [1.0, -1.0], "radii must be a vector of at least one positive number"),
        (fwj.L1Ball(), [], "radii must be a vector of at least one positive number"),
    ],
)
def test_arguments_are_checked(C, radii, message):
    with pytest.raises(ValueError, match=message):
        fwj.path(fwj.LinearModel(A, LABELS), C, radii)
