"""Functions of JAX as objectives: trajectories of the NumPy function, precision, kinds of arrays and memory."""

import gc
import subprocess
import sys
import textwrap
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fwflow as fw

A = np.random.default_rng(0).standard_normal((30, 10))
b = np.sign(A[:, 0])
w = np.random.default_rng(1).uniform(0.5, 1.5, 10)  # no two entries are alike, so that rounding decides no tie
#: Number of steps of compared runs. A later exact line search makes entries of the gradient equal, so that rounding
#: decides which vertex comes next.
STEPS = 8
#: Name -> function of an array and of the library of its operations.
FUNCTIONS = {
    "logistic": lambda x, lib: lib.log1p(lib.exp(-b.astype(x.dtype) * (A.astype(x.dtype) @ x))).mean(),
    "cubic": lambda x, lib: lib.sum(x**2) + lib.sum(x**3) / 6 + (lib.sum(w.astype(x.dtype) * x) - 1) ** 2,
}
GRADIENTS = {
    "logistic": lambda x: (A.T @ (-b / (1 + np.exp(b * (A @ x)))) / 30).astype(x.dtype),
    "cubic": lambda x: 2 * x + x**2 / 2 + 2 * w.astype(x.dtype) * (w.astype(x.dtype) @ x - 1),
}


def jax_function(name, **options):
    return fw.Smooth.from_jax(lambda x: FUNCTIONS[name](x, jnp), **options)


def numpy_function(name):
    return fw.Smooth(lambda x: float(FUNCTIONS[name](x, np)), GRADIENTS[name])


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("method", ["fw", "rk44", "pairwise", "apg"])
def test_single_precision_follows_the_trajectory_of_the_numpy_function(name, method):
    x0 = np.zeros(10, np.float32)
    options = {"method": method, "max_iter": STEPS, "tol": 0.0}
    runs = [fw.minimize(f, fw.L1Ball(2.0), x0, **options) for f in (jax_function(name), numpy_function(name))]
    np.testing.assert_allclose(runs[0].x, runs[1].x, rtol=0, atol=2e-5)
    np.testing.assert_allclose(runs[0].trace["fun"], runs[1].trace["fun"], rtol=1e-5)
    assert runs[0].x.dtype == np.float32


@pytest.mark.parametrize("jit", [True, False])
def test_arrays_come_back_as_they_went_in(jit):
    f = jax_function("cubic", jit=jit)
    r = fw.minimize(f, fw.L1Ball(1.0), jnp.zeros(10), tol=1e-4)
    assert isinstance(r.x, jax.Array)
    assert r.x.dtype == jnp.float32
    assert r.x.devices() == jnp.zeros(1).devices()
    plain = fw.minimize(f, fw.L1Ball(1.0), np.zeros(10), tol=1e-4)
    assert isinstance(plain.x, np.ndarray)
    assert plain.x.dtype == np.float32  # JAX has no float64 by default
    np.testing.assert_array_equal(plain.x, r.x)
    with_data = fw.minimize(fw.LinearModel(jnp.asarray(A), jnp.asarray(b)), fw.L1Ball(1.0), jnp.zeros(10), tol=1e-4)
    assert isinstance(with_data.x, jax.Array)


def test_second_derivatives():
    f = jax_function("cubic")
    x, v = np.linspace(-1, 1, 10, dtype=np.float32), np.linspace(0, 1, 10, dtype=np.float32)
    expected = 2 * v + x * v + 2 * w * (w @ v)
    np.testing.assert_allclose(f.hess_product(x, v), expected, rtol=1e-5)
    matrix = fw.Smooth.from_jax(lambda X: jnp.trace(X @ X.T), shape=(2, 3))
    np.testing.assert_allclose(matrix.hess_product(np.ones((2, 3), np.float32), np.ones((2, 3))), 2.0)
    assert fw.minimize(f, fw.Box(-1.0, 1.0), x, method="flow", tol=1e-3).success


def test_the_gradient_passes_the_check():
    assert fw.checks.gradient_error(jax_function("logistic"), np.full(10, 0.1, np.float32)) < 1e-3


def test_conditions_need_functions_that_are_not_compiled():
    def fun(x):
        return (x**2).sum() if x[0] > 0 else (x**2).sum() + x[0] ** 2

    assert fw.minimize(fw.Smooth.from_jax(fun, jit=False), fw.L1Ball(1.0), jnp.ones(3) / 3, tol=1e-3).success
    with pytest.raises(ValueError, match=r"fun cannot be traced by JAX; .* jit=False"):
        fw.minimize(fw.Smooth.from_jax(fun), fw.L1Ball(1.0), jnp.ones(3) / 3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fw.Smooth.from_jax(3), "fun must be callable; got int"),
        (lambda: fw.Smooth.from_jax(jnp.sum, dtype=np.float64), r"dtype is float64, but JAX computes in float32"),
        (lambda: fw.Smooth.from_jax(jnp.sum, dtype="int8"), "dtype must be float32 or float64; got int8"),
        (
            lambda: fw.minimize(fw.Smooth.from_jax(lambda x: x), fw.L1Ball(1.0), jnp.zeros(3)),
            r"fun must return one real number; it returned an array of shape \(3,\)",
        ),
        *(
            (
                lambda value=value, jit=jit: fw.minimize(
                    fw.Smooth.from_jax(lambda x: value(x), jit=jit), fw.L1Ball(1.0), jnp.zeros(3)
                ),
                message,
            )
            for jit in (True, False)
            for value, message in (
                (lambda x: (x.sum(), x), "it returned tuple .* The gradient is computed automatically"),
                (lambda x: [x.sum()], "fun must return one real number; it returned list"),
                (lambda x: {"loss": x.sum()}, "fun must return one real number; it returned dict"),
                (lambda x: None, "fun must return one real number; it returned NoneType"),
                (lambda x: "high", "fun must return one real number; it returned str"),
            )
        ),
        (
            lambda: fw.minimize(
                fw.Smooth.from_jax(lambda x: np.sin(np.asarray(x)).sum()), fw.L1Ball(1.0), jnp.zeros(3)
            ),
            "fun cannot be traced by JAX; write it with jax.numpy",
        ),
    ],
)
def test_functions_that_do_not_fit(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(ImportError, match=r"Smooth\.from_jax needs JAX: pip install 'fwflow\[jax\]'"):
        fw.Smooth.from_jax(lambda x: x.sum())


@pytest.mark.filterwarnings("ignore:jax.live_arrays")
def test_no_array_is_kept_between_calls():
    f, x = jax_function("cubic"), np.zeros(10, np.float32)

    def calls(count):
        for _ in range(count):
            point = f.point(x)
            f.evaluated(point)
            f.value(point)
            f.hess_product(x, x)

    calls(10)
    gc.collect()
    before = len(jax.live_arrays())
    calls(3000)  # 10 000 evaluations
    gc.collect()
    assert len(jax.live_arrays()) <= before + 3


def test_double_precision_follows_the_trajectory_of_the_numpy_function():
    """Double precision holds for a whole process."""
    script = """
        import jax
        jax.config.update("jax_enable_x64", True)
        import numpy as np, fwflow as fw, jax.numpy as jnp
        from tests.objectives.test_from_jax import FUNCTIONS, STEPS, jax_function, numpy_function
        for name in FUNCTIONS:
            for method in ("fw", "rk44", "pairwise", "apg", "corrective"):
                options = {"method": method, "max_iter": STEPS, "tol": 0.0}
                x0 = np.zeros(10)
                first, second = (fw.minimize(f(name), fw.L1Ball(2.0), x0, **options)
                                 for f in (jax_function, numpy_function))
                assert first.x.dtype == np.float64
                if method != "corrective":  # which uses the second derivatives of the first function
                    np.testing.assert_allclose(first.x, second.x, rtol=0, atol=1e-12)
                assert abs(first.fun - second.fun) < 1e-6
            assert fw.checks.gradient_error(jax_function(name), np.full(10, 0.1)) < 1e-7
        r = fw.minimize(jax_function("cubic"), fw.L1Ball(2.0), jnp.zeros(10))
        assert r.success and r.x.dtype == jnp.float64 and isinstance(r.x, jax.Array)
        r = fw.minimize(jax_function("cubic", dtype="float32"), fw.L1Ball(2.0), jnp.zeros(10), tol=1e-3)
        assert r.x.dtype == jnp.float32
    """
    root = Path(__file__).parents[2]
    path = f"{Path(fw.__file__).parents[1]}:{root}"
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        env={"PYTHONPATH": path, "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("convex", [None, True, False])
def test_convexity_is_stated_as_for_other_functions(convex):
    assert fw.Smooth.from_jax(lambda x: x @ x, convex=convex).convex is convex


def test_convexity_is_true_false_or_unknown():
    with pytest.raises(ValueError, match="convex must be True, False or None; got str 'yes'"):
        fw.Smooth(lambda x: x @ x, lambda x: 2 * x, convex="yes")
