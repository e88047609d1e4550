"""Functions and tensors of PyTorch: trajectories of the NumPy function, precision, kinds of arrays and memory."""

import copy
import gc
import sys

import numpy as np
import pytest
import torch

import fwflow as fw

rng = np.random.default_rng(0)
A = rng.standard_normal((30, 10))
b = np.sign(A[:, 0])
w = rng.uniform(0.5, 1.5, 10)  # no two entries are alike, so that rounding decides no tie
#: Number of steps of compared runs. A later exact line search makes entries of the gradient equal, so that rounding
#: decides which vertex comes next.
STEPS = 8


def t(array, x):
    return torch.as_tensor(array, dtype=x.dtype)


FUNCTIONS = {
    "logistic": lambda x: torch.log1p(torch.exp(-t(b, x) * (t(A, x) @ x))).mean(),
    "cubic": lambda x: (x**2).sum() + (x**3).sum() / 6 + ((t(w, x) * x).sum() - 1) ** 2,
}
NUMPY = {
    "logistic": (
        lambda x: float(np.log1p(np.exp(-b.astype(x.dtype) * (A.astype(x.dtype) @ x))).mean()),
        lambda x: A.T.astype(x.dtype) @ (-b / (1 + np.exp(b * (A.astype(x.dtype) @ x)))).astype(x.dtype) / 30,
    ),
    "cubic": (
        lambda x: float((x**2).sum() + (x**3).sum() / 6 + (w.astype(x.dtype) @ x - 1) ** 2),
        lambda x: 2 * x + x**2 / 2 + 2 * w.astype(x.dtype) * (w.astype(x.dtype) @ x - 1),
    ),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("method", ["fw", "rk44", "pairwise", "apg"])
def test_trajectories_of_the_numpy_function(name, method, dtype):
    x0, options = np.zeros(10, dtype), {"method": method, "max_iter": STEPS, "tol": 0.0}
    functions = fw.Smooth.from_torch(FUNCTIONS[name]), fw.Smooth(*NUMPY[name])
    runs = [fw.minimize(f, fw.L1Ball(2.0), x0, **options) for f in functions]
    # Step sizes of "apg" come from differences of values, which have few correct digits.
    atol = 2e-5 if dtype == np.float32 else 1e-10
    np.testing.assert_allclose(runs[0].x, runs[1].x, rtol=0, atol=atol)
    np.testing.assert_allclose(runs[0].trace["fun"], runs[1].trace["fun"], rtol=atol)
    assert runs[0].x.dtype == dtype


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("requires_grad", [False, True])
def test_tensors_come_back_as_tensors(dtype, requires_grad):
    seen = set()

    def fun(x):
        seen.add((x.dtype, x.device))
        return FUNCTIONS["cubic"](x)

    x0 = torch.zeros(10, dtype=dtype, requires_grad=requires_grad)
    r = fw.minimize(fw.Smooth.from_torch(fun), fw.L1Ball(1.0), x0, tol=1e-3)
    assert r.success
    assert isinstance(r.x, torch.Tensor)
    assert (r.x.dtype, r.x.device, r.x.requires_grad) == (dtype, x0.device, False)
    assert seen == {(dtype, x0.device)}
    r.x[0] = 3.0  # the user may write to it
    plain = fw.minimize(fw.LinearModel(A, b), fw.L1Ball(1.0), x0)
    assert isinstance(plain.x, torch.Tensor)


def test_types_without_a_starting_point():
    f = fw.Smooth.from_torch(FUNCTIONS["cubic"], dtype=torch.float32, shape=10)
    assert fw.minimize(f, fw.L1Ball(1.0), tol=1e-3).x.dtype == np.float32
    assert fw.minimize(fw.Smooth.from_torch(FUNCTIONS["cubic"], shape=10), fw.L1Ball(1.0)).x.dtype == np.float64
    half = torch.zeros(10, dtype=torch.bfloat16)
    assert (
        fw.minimize(fw.Smooth.from_torch(FUNCTIONS["cubic"]), fw.L1Ball(1.0), half, tol=1e-2).x.dtype == torch.float32
    )


def test_gradients_and_second_derivatives():
    f = fw.Smooth.from_torch(FUNCTIONS["cubic"])
    x, v = np.linspace(-1, 1, 10), np.linspace(0, 1, 10)
    assert fw.checks.gradient_error(f, x) < 1e-7
    np.testing.assert_allclose(f.hess_product(x, v), 2 * v + x * v + 2 * w * (w @ v), rtol=1e-12)
    linear = fw.Smooth.from_torch(lambda x: (3 * x).sum())
    np.testing.assert_array_equal(linear.hess_product(x, v), 0.0)
    np.testing.assert_array_equal(linear.gradient(linear.point(x)), 3.0)
    matrix = fw.Smooth.from_torch(lambda X: torch.trace(X @ X.T), shape=(2, 3))
    np.testing.assert_allclose(matrix.hess_product(np.ones((2, 3)), np.ones((2, 3))), 2.0)
    assert fw.minimize(f, fw.Box(-1.0, 1.0), x).success


def test_modules_keep_their_parameters():
    torch.manual_seed(0)
    layer = torch.nn.Linear(4, 3)
    before = copy.deepcopy(layer.state_dict())
    f = fw.Smooth.from_torch(lambda x: (layer(x) ** 2).sum(), dtype=torch.float32, shape=4)
    with torch.no_grad():  # also inside of a block without gradients
        assert fw.minimize(f, fw.Simplex(), tol=1e-3).success
    assert all(parameter.grad is None for parameter in layer.parameters())
    assert all(torch.equal(before[name], value) for name, value in layer.state_dict().items())


def test_functions_of_the_user_may_return_tensors_that_require_gradients():
    def fun(x):
        return FUNCTIONS["cubic"](torch.tensor(x, requires_grad=True))

    def grad(x):
        at = torch.tensor(x, requires_grad=True)
        (g,) = torch.autograd.grad(FUNCTIONS["cubic"](at), at, create_graph=True)
        return g

    r = fw.minimize(fw.Smooth(fun, grad), fw.L1Ball(1.0), np.zeros(10))
    np.testing.assert_allclose(r.x, fw.minimize(fw.Smooth(*NUMPY["cubic"]), fw.L1Ball(1.0), np.zeros(10)).x, atol=1e-6)

    class Own(fw.L2Ball):
        def lmo(self, g, hint=None):
            at = torch.tensor(g, requires_grad=True)
            return -at / at.norm()

    assert fw.minimize(fw.Quadratic(np.eye(3), [3.0, 2.0, 1.0]), Own(1.0), np.zeros(3), method="fw", tol=1e-3).success


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_data_on_the_host_is_not_copied(dtype, requires_grad):
    data = torch.tensor(A, dtype=dtype, requires_grad=requires_grad)
    f = fw.LinearModel(data, torch.tensor(b, dtype=dtype))
    assert np.shares_memory(f.design.A, data.detach().numpy())
    reference = fw.LinearModel(A.astype(str(dtype).removeprefix("torch.")), b)
    runs = [fw.minimize(model, fw.L1Ball(1.0), tol=1e-3) for model in (f, reference)]
    np.testing.assert_allclose(runs[0].x, runs[1].x, atol=1e-6)
    transposed = torch.tensor(A.T.copy(), dtype=dtype).T
    assert np.shares_memory(fw.LinearModel(transposed, b).design.A, transposed.numpy())


def test_no_graph_is_kept_between_calls():
    f, x = fw.Smooth.from_torch(FUNCTIONS["cubic"]), np.zeros(10)

    def calls(count):
        for _ in range(count):
            point = f.point(x)
            f.evaluated(point)
            f.value(point)
            f.hess_product(x, x)

    def tensors():
        return sum(issubclass(type(thing), torch.Tensor) for thing in gc.get_objects())

    calls(10)
    gc.collect()
    before, memory = tensors(), resident()
    gc.disable()  # a graph in a reference cycle would stay
    try:
        calls(3400)  # more than 10 000 evaluations
        kept = tensors()
    finally:
        gc.enable()
    assert kept <= before
    assert resident() - memory < 20e6


def resident():
    """Resident memory of the process in bytes, on Linux; 0 elsewhere."""
    if not sys.platform.startswith("linux"):
        return 0
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: run(lambda x: x),
            ValueError,
            r"fun must return one real number; it returned a tensor of shape \(10,\)",
        ),
        (lambda: run(lambda x: x.detach().sum()), ValueError, "does not depend on x through operations of PyTorch"),
        (lambda: run(lambda x: x.sum().item()), ValueError, "does not depend on x through operations of PyTorch"),
        (lambda: run(lambda x: "high"), ValueError, "fun must return one real number; it returned str"),
        (lambda: run(lambda x: None), ValueError, "fun must return one real number; it returned NoneType"),
        (lambda: run(lambda x: {"loss": x.sum()}), ValueError, "fun must return one real number; it returned dict"),
        (
            lambda: run(lambda x: (x.sum(), torch.ones(10))),
            ValueError,
            r"fun must return one real number; it returned tuple .* The gradient is computed automatically",
        ),
        (
            lambda: run(torch.inference_mode()(lambda x: x.sum())),
            ValueError,
            r"does not depend on x through operations of PyTorch.*inference_mode\(\)",
        ),
        (lambda: fw.Smooth.from_torch(3), ValueError, "fun must be callable; got int"),
        (lambda: fw.Smooth.from_torch(torch.sum, dtype=torch.int8), ValueError, "dtype must be float32 or float64"),
        (lambda: run(lambda x: (torch.ones(2, 10) @ x).sum()), RuntimeError, "dtype"),
        (
            lambda: fw.minimize(fw.Quadratic(np.eye(2)), fw.Simplex(), torch.ones(2, dtype=torch.complex64)),
            ValueError,
            "x0 must be an array of real numbers",
        ),
        (
            lambda: fw.LinearModel(torch.eye(3).to_sparse(), np.ones(3)),
            ValueError,
            "A must be an array of real numbers",
        ),
    ],
)
def test_functions_that_do_not_fit(call, error, message):
    with pytest.raises(error, match=message):
        call()


def run(fun):
    return fw.minimize(fw.Smooth.from_torch(fun), fw.L1Ball(1.0), np.zeros(10))


@pytest.mark.parametrize("x0", [np.zeros(10), torch.zeros(10, dtype=torch.float64)])
def test_runs_inside_of_inference_mode(x0):
    f = fw.Smooth.from_torch(FUNCTIONS["cubic"])
    with torch.inference_mode():
        inside, product = fw.minimize(f, fw.L1Ball(1.0), x0), f.hess_product(np.ones(10), np.ones(10))
        data = torch.ones(10, dtype=torch.float64)
    np.testing.assert_array_equal(inside.x, fw.minimize(f, fw.L1Ball(1.0), x0).x)
    np.testing.assert_array_equal(product, f.hess_product(np.ones(10), np.ones(10)))
    with pytest.raises(RuntimeError) as caught:
        run(lambda x: ((x * data) ** 2).sum())
    assert caught.value.__notes__ == [
        "fun uses tensors that were made under torch.inference_mode; make them under torch.no_grad instead"
    ]


def test_a_mismatch_of_types_has_a_note():
    with pytest.raises(RuntimeError) as caught:
        run(lambda x: (torch.ones(2, 10) @ x).sum())
    assert "x of type torch.float64 on the device cpu" in caught.value.__notes__[0]


def test_importing_fwflow_does_not_import_torch():
    import subprocess

    script = "import sys, fwflow; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
