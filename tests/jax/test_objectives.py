"""Losses, lines and sparse products are those of the core, and no product depends on JAX's default precision."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
from jax.experimental import sparse

import fwflow as fw
import fwflow.jax as fwj
from fwflow.jax import loop
from fwflow.jax.methods import evaluate
from fwflow.objectives.losses import find_loss, losses

RNG = np.random.default_rng(0)
A = RNG.standard_normal((20, 7))
LABELS = np.where(A[:, 0] > 0, 1.0, -1.0)
ONE = sparse.BCOO((np.ones(1), np.zeros((1, 2), int)), shape=A.shape)


@pytest.mark.parametrize("name", losses)
def test_losses_of_the_core_are_compiled(name):
    z = np.concatenate([RNG.standard_normal(20), [-800.0, 800.0, 0.0, 1.0, -1.0]])
    b = np.sign(RNG.standard_normal(25))
    loss = find_loss(name, 1.0)
    with jax.enable_x64(True):
        for member in ("values", "derivative", "second"):
            got = jax.jit(getattr(loss, member))(jnp.asarray(z), jnp.asarray(b))
            np.testing.assert_allclose(got, getattr(loss, member)(z, b), rtol=1e-12, atol=1e-300)


def test_the_second_derivative_of_a_large_margin_is_finite():
    """Where squares of exponentials overflow in single precision; in the targets, too."""
    f = fwj.LinearModel(np.eye(4, dtype=np.float32), np.ones(4), "logistic", scale="sum")
    z, change = jnp.array([0.0, 60.0, 87.0, -87.0]), jnp.full(4, 1000.0)
    found = jax.jvp(f.dual, (z,), (change,))[1]
    np.testing.assert_allclose(found, change * f.loss.second(z, f.b), rtol=1e-6)
    b = jnp.array([0.5, -2.0])
    slope = jax.jvp(lambda b: fwj.LinearModel(np.eye(2), b, scale="sum").dual(jnp.zeros(2)), (b,), (b,))[1]
    np.testing.assert_allclose(slope, -b)


@pytest.mark.parametrize("weights", [None, RNG.random(20)], ids=["plain", "weighted"])
def test_linear_models_are_those_of_the_core(weights):
    x, y = RNG.standard_normal(7), RNG.standard_normal(7)
    theirs = fw.LinearModel(A, LABELS, "logistic", weights=weights)
    with jax.enable_x64(True):
        ours = fwj.LinearModel(A, LABELS, "logistic", weights=weights)
        point, end = ours.point(jnp.asarray(x)), ours.point(jnp.asarray(y))
        assert float(ours.value(point)) == pytest.approx(theirs.value(theirs.point(x)))
        np.testing.assert_allclose(ours.gradient(point), theirs.gradient(theirs.point(x)), rtol=1e-12)
        line, other = ours.along(point, end), theirs.along(theirs.point(x), theirs.point(y), 0.0)
        for member in ("value", "slope", "second"):
            assert float(getattr(line, member)(0.3)) == pytest.approx(getattr(other, member)(0.3))


def skewed():
    """Rows and columns of very different lengths, empty ones too, and an entry that is given twice."""
    rows = np.concatenate([np.zeros(30, int), np.arange(40), [3, 3]])
    columns = np.concatenate([np.arange(30), np.full(40, 2), [5, 5]])
    return sp.coo_array((RNG.standard_normal(72), (rows, columns)), shape=(50, 31))


@pytest.mark.parametrize("kind", ["scipy", "BCOO", "BCSR"])
def test_sparse_designs_are_those_of_dense_ones(kind):
    S = skewed()
    dense = S.toarray()
    with jax.enable_x64(True):
        made = {
            "scipy": lambda: S,
            "BCOO": lambda: sparse.BCOO((jnp.asarray(S.data), jnp.stack([S.row, S.col], axis=1)), shape=S.shape),
            "BCSR": lambda: sparse.BCSR.from_scipy_sparse(S.tocsr()),
        }[kind]()
        design = fwj.LinearModel(made, np.zeros(50)).design
        assert design.by_rows.long.size  # some rows are longer than the padding allows
        assert design.shape == dense.shape
        x, r = RNG.standard_normal(31), RNG.standard_normal(50)
        np.testing.assert_allclose(design.matvec(jnp.asarray(x)), dense @ x, atol=1e-12)
        np.testing.assert_allclose(design.rmatvec(jnp.asarray(r)), r @ dense, atol=1e-12)
        for j in (0, 2, 5, 30):
            np.testing.assert_allclose(design.column(jnp.asarray(j)), dense[:, j], atol=1e-12)


def precisions(jaxpr):
    for equation in jaxpr.eqns:
        if equation.primitive.name == "dot_general":
            yield equation.params["precision"]
        for inner in jax.tree.leaves(list(equation.params.values()), is_leaf=lambda leaf: hasattr(leaf, "eqns")):
            if hasattr(inner, "eqns") or hasattr(inner, "jaxpr"):
                yield from precisions(inner if hasattr(inner, "eqns") else inner.jaxpr)


@pytest.mark.parametrize("kind", ["model", "function"])
@pytest.mark.parametrize("method", ["fw", "apg", "blended-pairwise"])
def test_every_product_asks_for_the_highest_precision(method, kind):
    f = fwj.LinearModel(A.astype(np.float32), LABELS, "logistic")
    f = f if kind == "model" else fwj.Smooth(lambda x, S: x @ (S @ x), (A.T @ A).astype(np.float32))

    def solve(f):
        return fwj.minimize(f, fwj.L1Ball(1.0), jnp.zeros(7), method=method).x

    found = list(precisions(jax.make_jaxpr(solve)(f).jaxpr))
    assert len(found) >= 4
    assert set(found) == {(jax.lax.Precision.HIGHEST,) * 2}


def test_many_problems_share_products_of_matrices():
    f = fwj.LinearModel(A.astype(np.float32), LABELS, "logistic")

    def gradient(f, x):
        return f.gradient(f.point(x))

    text = str(jax.make_jaxpr(jax.vmap(gradient, in_axes=(None, 0)))(f, jnp.zeros((5, 7))))
    products = [line for line in text.splitlines() if "dot_general" in line]
    assert len(products) == 2
    assert all("[20,5]" in line or "[5,20]" in line or "[7,5]" in line or "[5,7]" in line for line in products)


def test_single_precision_is_verified_in_double():
    """The gap of a float32 point is that of the core in float64, far below what float32 resolves."""
    rng = np.random.default_rng(1)
    S = (rng.standard_normal((200, 10)) + 100).astype(np.float32)  # with much in common, so that products cancel
    b = (S @ np.full(10, 0.1) + rng.standard_normal(200)).astype(np.float32)
    f, x = fwj.LinearModel(S, b), np.full(10, 0.1, np.float32)
    known = evaluate(f, fwj.Simplex(), f.point(jnp.asarray(x)), None, lift=False)
    _, verified, _ = loop.verify(f, fwj.Simplex(), jnp.asarray(x), known)
    wide, point = S.astype(np.float64), x.astype(np.float64)
    g = wide.T @ (wide @ point - b) / 200
    true = g @ point - g.min()
    g = f.gradient(f.point(jnp.asarray(x)))
    single = float((g * x).sum() - g.min())
    assert float(verified.gap) == pytest.approx(true, rel=1e-7)
    assert abs(single - true) > 10 * abs(float(verified.gap) - true)
    assert abs(single - true) < float(verified.resolution)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fwj.LinearModel(A, LABELS[:3]), r"b has shape \(3,\); A has 20 rows"),
        (lambda: fwj.LinearModel(A, A[:, 0], "logistic"), "labels -1 and"),
        (lambda: fwj.LinearModel(A[0], LABELS), "A must be a matrix"),
        (lambda: fwj.LinearModel(A, LABELS, scale="all"), "scale='all' is not known"),
        (lambda: fwj.LinearModel(A, LABELS, weights=-np.ones(20)), "weights must not be negative"),
        (lambda: fwj.Smooth(3), "fun must be callable"),
        (
            lambda: jax.eval_shape(lambda S: fwj.LinearModel(S, LABELS).b, ONE),
            "create the LinearModel outside",
        ),
    ],
)
def test_arguments_are_checked(make, message):
    with pytest.raises(ValueError, match=message):
        make()
