"""Products raise no floating-point warnings, and all products of the package are made in one place.

BLAS kernels may raise floating-point flags on right results (OpenBLAS issue 1924), depending on the memory beyond the
arrays. An underflow also raises a flag on a right result, and does so every time. Under ``np.errstate(all="raise")``
NumPy looks at that flag as it looks at the others, so that these tests need no luck.
"""

import ast
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import fwflow as fw
from fwflow._numerics import all_finite, dot, namespace, norm, quiet, quietly

SOURCE = Path(fw.__file__).parent

TINY, LARGE = 1e-30, 1e30  # squares leave the range of single precision
SHAPES = [((7,), (7,)), ((3, 7), (7,)), ((7,), (7, 5)), ((3, 7), (7, 5)), ((2, 3, 7), (7,)), ((2, 3, 7), (2, 7, 5))]


def test_arrays_have_a_namespace():
    jnp = pytest.importorskip("jax.numpy")
    assert namespace(np.ones(2)) is np
    assert namespace(jnp.ones(2)) is jnp


@pytest.mark.parametrize(("left", "right"), SHAPES)
@pytest.mark.parametrize(("scale", "expected"), [(TINY, 0.0), (LARGE, np.inf)])
@pytest.mark.parametrize("stride", [1, 2])
def test_a_product_that_raises_a_flag_gives_its_result_without_a_warning(left, right, scale, expected, stride):
    a, b = (np.full((*shape[:-1], stride * shape[-1]), scale, np.float32)[..., ::stride] for shape in (left, right))
    with np.errstate(all="raise"):
        with pytest.raises(FloatingPointError):
            a @ b
        product = dot(a, b)
    assert product.dtype == np.float32
    assert product.shape == np.matmul(np.ones(left), np.ones(right)).shape
    assert (product == expected).all()


@pytest.mark.parametrize(("left", "right"), SHAPES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_are_those_of_numpy_to_the_last_bit(left, right, dtype):
    random = np.random.default_rng(0)
    a, b = random.standard_normal(left).astype(dtype), random.standard_normal(right).astype(dtype)
    for x in (a, np.asfortranarray(a)):
        np.testing.assert_array_equal(dot(x, b), x @ b)
        assert norm(x) == np.linalg.norm(x)
        assert norm(x).dtype == dtype


def test_products_of_other_matrices(tmp_path):
    A, x = np.arange(12.0).reshape(3, 4), np.arange(4.0)
    on_disk = np.memmap(tmp_path / "A", mode="w+", shape=A.shape)
    on_disk[:] = A
    for matrix in (sp.csr_array(A), sp.csc_matrix(A), on_disk, np.asfortranarray(A)):
        np.testing.assert_array_equal(dot(matrix, x), A @ x)
        np.testing.assert_array_equal(dot(np.arange(3.0), matrix), np.arange(3.0) @ A)
    assert dot(x.astype(int), x > 1) == 5
    assert dot(np.zeros((3, 0)), np.zeros(0)).tolist() == [0, 0, 0]


class Matrix:
    """A user's own matrix, whose products make other products."""

    def __init__(self, inner):
        self.inner = inner

    def __matmul__(self, x):
        return dot(self.inner, x)


def test_products_within_products_and_in_threads():
    a = np.full((300, 300), TINY, np.float32)

    def work(_):
        with np.errstate(all="raise"):
            return dot(Matrix(Matrix(a)), a).sum() + dot(a, a[0]).sum()

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(40))) == [0.0] * 40
    with np.errstate(over="call"):  # the caller's own settings stay
        dot(a, a)
        assert np.geterr()["over"] == "call"


@pytest.mark.parametrize("scale", [TINY, LARGE])
def test_norms_raise_no_warning(scale):
    entries = np.full((3, 4), scale, np.float32)
    with np.errstate(all="raise"):
        with pytest.raises(FloatingPointError):
            np.linalg.norm(entries)
        assert norm(entries) == (0 if scale == TINY else np.inf)
        with pytest.raises(FloatingPointError):
            np.linalg.multi_dot([entries, entries.T])
        quietly(np.linalg.multi_dot)([entries, entries.T])


@pytest.mark.parametrize("method", ["auto", "fw", "away", "rk44"])
def test_a_product_that_truly_overflows_ends_the_run(method):
    f, x0 = fw.Quadratic(np.diag([1e308] * 3), np.ones(3)), np.array([1e3, 0.0, 0.0])
    r = fw.minimize(f, fw.L1Ball(1e3), x0, method=method, max_iter=20)
    assert r.status is fw.Status.NUMERICAL
    assert not r.success


@pytest.mark.parametrize("shape", [(3, 40), (40, 3), (40, 40)])
def test_the_leading_singular_pair_is_found_without_warnings(shape):
    G = np.full(shape, 1e-25, np.float32)
    G[0, 0] = 1
    with np.errstate(under="raise"):
        vertex = fw.NuclearBall(2.0).lmo(G)
    assert vertex.dot(G) == pytest.approx(-2)


#: Functions of NumPy and SciPy that read floating-point flags after a product.
READS_FLAGS = {
    *(f"np.{name}" for name in ("dot", "inner", "tensordot", "matmul", "matvec", "vecmat", "vecdot", "cov")),
    *(f"np.linalg.{name}" for name in ("multi_dot", "matrix_power", "pinv", "vecdot", "matmul", "tensordot")),
    *("operator.matmul", "lsmr", "lsqr", "linprog", "milp", "nnls", "solve_ivp", "svds", "eigsh", "scipy.linalg.pinv"),
}


def products(tree):
    """Return the lines where a product or a call reads the floating-point flags."""
    quiet = {
        node.args[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "quietly"
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.MatMult):
            yield node.lineno
        elif isinstance(node, ast.Attribute | ast.Name) and node not in quiet and isinstance(node.ctx, ast.Load):
            if ast.unparse(node) in READS_FLAGS:
                yield node.lineno
        elif isinstance(node, ast.Call):
            given = {keyword.arg for keyword in node.keywords}
            name = ast.unparse(node.func)
            if (name == "np.linalg.norm" and "axis" not in given) or (name == "np.einsum" and "optimize" in given):
                yield node.lineno


#: Files whose products are made by XLA or PyTorch, which read no flags, and the file of the products themselves.
OTHER_PRODUCTS = ("jax", "_training.py", "torch.py", "optax.py", "_numerics.py")


def test_products_are_made_in_one_place():
    files = [path.relative_to(SOURCE) for path in sorted(SOURCE.rglob("*.py"))]
    found = {
        f"{path}:{line}": "use dot, norm or quietly of fwflow._numerics"
        for path in files
        if path.parts[0] not in OTHER_PRODUCTS
        for line in products(ast.parse((SOURCE / path).read_text(encoding="utf-8")))
    }
    assert len(files) > 100
    assert found == {}


def test_what_makes_a_product_is_seen():
    kinds = ["a @ b", "a @= b", "np.dot(a, b)", "np.linalg.norm(a)", "np.linalg.pinv(a)", "lsmr(a, b)"]
    assert [len(list(products(ast.parse(kind)))) for kind in kinds] == [1] * len(kinds)
    assert not list(products(ast.parse("dot(a, b), np.vdot(a, b), quietly(lsmr)(a, b), np.linalg.norm(a, axis=1)")))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("entries", "expected"),
    [([], True), ([0.0, -1.0], True), ([1e30, 1e38], True), ([1.0, np.nan], False), ([-np.inf, 0.0], False)],
)
def test_all_finite_is_right_where_squares_overflow(entries, expected, dtype):
    x = np.array(entries, dtype)
    with np.errstate(all="raise"):
        assert all_finite(x) is expected
        assert all_finite(np.stack([x, x]).T) is expected  # not contiguous


def test_quiet_functions_leave_warnings_of_others_alone():
    with np.errstate(all="raise"):
        np.testing.assert_array_equal(quiet(np.exp, np.array([0.0, 1e4])), [1.0, np.inf])
        with pytest.raises(FloatingPointError):
            np.exp(np.array([1e4]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [0, 1, 8192, 8193, 10_001, 50_000])
def test_long_inner_products_are_sums_of_short_ones(n, dtype):
    a, b = np.random.default_rng(n).standard_normal((2, 2 * n)).astype(dtype)
    for x, y in ((a, b), (a[::2], b[::-2])):
        exact = float(np.vdot(x.astype(float), y.astype(float)))
        size = float(np.vdot(np.abs(x).astype(float), np.abs(y).astype(float)))
        assert abs(dot(x, y) - exact) <= 8 * np.finfo(dtype).eps * size
        assert dot(x, y).dtype == dtype
        assert norm(x) == pytest.approx(np.sqrt(float(np.vdot(x.astype(float), x.astype(float)))), rel=1e-5)


def test_long_inner_products_do_not_wait_for_threads(monkeypatch):
    lengths = []
    vdot = np.vdot
    monkeypatch.setattr(np, "vdot", lambda a, b: lengths.append(a.size) or vdot(a, b))
    x = np.ones(100_000)
    assert (dot(x, x), norm(x) ** 2, all_finite(x)) == (1e5, pytest.approx(1e5), True)
    assert max(lengths) < 10_000
