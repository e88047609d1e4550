import numpy as np
import pytest
import scipy.sparse as sp

import fwflow as fw
from fwflow.designs import CountedDesign, Counts, DenseDesign, SparseDesign, as_design
from fwflow.designs.base import DesignWrapper
from fwflow.points.vertices import DenseVertex
from fwflow.run.loop import _REFRESH_EVERY
from tests.catalogue import CERTIFIED, LINE_SEARCHES, MOMENTA, design, labels, targets

SPARSE = {
    "csr": sp.csr_array,
    "csc": sp.csc_array,
    "coo": sp.coo_array,
    "lil": sp.lil_array,
    "dok": sp.dok_array,
    "bsr": sp.bsr_array,
    "dia": sp.dia_array,
    "csr_matrix": sp.csr_matrix,
    "csc_matrix": sp.csc_matrix,
}
KINDS = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "strided": lambda A: np.repeat(np.repeat(A, 2, axis=0), 3, axis=1)[::2, ::3],
    "reversed": lambda A: A[::-1, ::-1].copy()[::-1, ::-1],
    "list": lambda A: A.tolist(),
    **SPARSE,
}


def holes(m=7, n=5, seed=0):
    """A matrix with empty rows, an empty column and zeros elsewhere."""
    A = design(m, n, seed) * (design(m, n, seed + 10) > 0)
    A[2], A[:, 3] = 0, 0
    return A


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(7, 5), (3, 8), (1, 4), (4, 1), (1, 1)])
def test_products_and_columns(kind, dtype, shape):
    A = (holes(*shape) if min(shape) > 3 else design(*shape)).astype(dtype)
    d = as_design(KINDS[kind](A))
    expected = np.float64 if kind == "list" else dtype
    few = 10 * float(np.finfo(dtype).eps)  # at most eight products per sum, of order one
    x, r = targets(shape[1]).astype(expected), targets(shape[0]).astype(expected)
    assert d.shape == shape
    assert d.dtype == expected
    assert fw.checks.adjoint_error(d) <= few * 10
    for product, reference in ((d.matvec(x), A @ x), (d.rmatvec(r), A.T @ r)):
        assert type(product) is np.ndarray
        assert product.dtype == expected
        np.testing.assert_allclose(product, reference, rtol=few, atol=10 * few)
    for j in range(shape[1]):
        np.testing.assert_array_equal(d.column(j).to_dense(dtype), A[:, j])


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint8, np.int32, np.int64, np.float32, np.float64])
@pytest.mark.parametrize("kind", [np.array, sp.csr_array, sp.csc_array, sp.coo_array])
def test_float32_is_kept_and_everything_else_becomes_float64(kind, dtype):
    A = (np.abs(10 * holes())).astype(dtype)
    d = as_design(kind(A))
    assert d.dtype == d.A.dtype == (np.float32 if dtype == np.float32 else np.float64)
    columns = np.stack([d.column(j).to_dense() for j in range(5)], axis=1)
    np.testing.assert_array_equal(columns, A.astype(float))


@pytest.mark.parametrize("dtype", [np.float16, np.longdouble])
def test_other_precisions_become_float64(dtype):
    A = holes().astype(dtype)
    d = as_design(A)
    assert d.dtype == np.float64
    np.testing.assert_array_equal(d.A, A.astype(np.float64))


@pytest.mark.parametrize("kind", ["C", "F", "strided", "reversed"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dense_matrices_are_not_copied(kind, dtype):
    A = KINDS[kind](holes().astype(dtype))
    d = as_design(A)
    assert isinstance(d, DenseDesign)
    assert np.shares_memory(d.A, A)
    assert d.A.strides == A.strides


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("make", [sp.csc_array, sp.csc_matrix])
def test_canonical_csc_is_not_copied(make, dtype):
    A = make(holes().astype(dtype))
    d = as_design(A)
    assert isinstance(d, SparseDesign)
    assert np.shares_memory(d.A.data, A.data)
    assert np.shares_memory(d.A.indices, A.indices)
    j = 1
    assert np.shares_memory(d.column(j).values, A.data)


def untidy(kind, dtype=float):
    """Unsorted indices, a position stored in two parts, and a stored zero."""
    data, minor = np.array([3, 1, 2, 5, 0], dtype), np.array([2, 0, 2, 1, 0])
    return kind((data, minor, np.array([0, 3, 3, 5])), shape=(3, 3))


@pytest.mark.parametrize("kind", [sp.csc_array, sp.csr_array, sp.csc_matrix])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_untidy_matrices_are_read_right_and_left_alone(kind, dtype):
    A = untidy(kind, dtype)
    for part in (A.data, A.indices, A.indptr):
        part.flags.writeable = False
    dense = np.array([[1.0, 0, 0], [0, 0, 5], [5, 0, 0]])
    dense = dense if kind is not sp.csr_array else dense.T
    d = as_design(A)
    np.testing.assert_array_equal(np.stack([d.column(j).to_dense() for j in range(3)], axis=1), dense)
    np.testing.assert_array_equal(d.matvec(np.array([1, 2, 3], d.dtype)), dense @ [1, 2, 3])
    np.testing.assert_array_equal(A.data, [3, 1, 2, 5, 0])
    np.testing.assert_array_equal(A.indices, [2, 0, 2, 1, 0])
    np.testing.assert_array_equal(A.indptr, [0, 3, 3, 5])


def test_duplicates_in_coo_are_summed():
    A = sp.coo_array(([1.0, 2.0, 4.0], ([0, 0, 1], [1, 1, 0])), shape=(2, 2))
    np.testing.assert_array_equal(as_design(A).matvec(np.array([1.0, 1.0])), [3.0, 4.0])
    assert A.nnz == 3


REFUSED = {
    "vector": (np.ones(3), r"^A must have 2 dimension"),
    "cube": (np.ones((2, 2, 2)), r"^A must have 2 dimension"),
    "scalar": (3.0, r"^A must have 2 dimension"),
    "sparse vector": (sp.coo_array(np.ones(3)), r"^A must have 2 dimension"),
    "text": ("A", r"^A must be an array of real numbers"),
    "none": (None, r"^A must be an array of real numbers"),
    "ragged": ([[1.0, 2.0], [1.0]], r"^A must be an array of real numbers"),
    "objects": (np.array([[1.0, None]]), r"^A must be an array of real numbers"),
    "complex": (np.eye(2) * 1j, r"^A must be an array of real numbers"),
    "dates": (np.zeros((2, 2), "datetime64[s]"), r"^A must be an array of real numbers"),
    "sparse complex": (sp.csr_array(np.eye(2) * 1j), r"^A must .*real numbers.*complex"),
    "nan": (np.array([[1.0, np.nan]]), r"^A must be finite"),
    "infinite": (np.array([[1.0, -np.inf]]), r"^A must be finite"),
    "sparse nan": (sp.csc_array([[1.0, np.nan]]), r"^A must be finite"),
    "sparse infinite": (sp.coo_array([[1.0, np.inf]]), r"^A must be finite"),
    "no rows": (np.ones((0, 3)), r"^A is empty.*\(0, 3\)"),
    "no columns": (np.ones((3, 0)), r"^A is empty.*\(3, 0\)"),
    "sparse without rows": (sp.csr_array((0, 3)), r"^A is empty.*\(0, 3\)"),
    "operator": (sp.linalg.aslinearoperator(np.eye(2)), r"^A must be an array.*LinearOperator"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_matrix_is_refused(name):
    A, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        as_design(A)


def test_a_matrix_of_zeros_is_a_design():
    d = as_design(sp.csr_array((3, 2)))
    np.testing.assert_array_equal(d.matvec(np.ones(2)), np.zeros(3))
    np.testing.assert_array_equal(d.column(1).to_dense(), np.zeros(3))


class Counting(fw.Design):
    """A user's own design that counts what is asked of it."""

    def __init__(self, A):
        self.A, self.shape, self.dtype = A, A.shape, A.dtype
        self.products, self.transposed, self.columns = 0, 0, 0

    def matvec(self, x):
        self.products += 1
        return self.A @ x

    def rmatvec(self, r):
        self.transposed += 1
        return self.A.T @ r

    def column(self, j):
        self.columns += 1
        return DenseVertex(self.A[:, j])


def test_a_design_of_ones_own_is_passed_through():
    own = Counting(design(5, 3))
    assert as_design(own) is own
    assert fw.LinearModel(own, targets(5)).design is own
    assert fw.checks.adjoint_error(own) < 1e-14


@pytest.mark.parametrize("method", CERTIFIED)
@pytest.mark.parametrize("line_search", LINE_SEARCHES)
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_a_gradient_is_one_transposed_product_and_nothing_else_is(method, line_search, loss):
    own = Counting(design(12, 6))
    f = fw.LinearModel(own, labels(12), loss)
    r = fw.minimize(f, fw.L1Ball(2.0), method=method, line_search=line_search, tol=0, max_iter=30)
    stages = fw.tableaus[method].stages
    assert r.n_grad == own.transposed == 30 * stages + 1 + 1  # the last iterate, and its verification
    assert own.products == 1  # the verification; the start is zero, and needs none
    assert r.n_design == own.products + own.transposed
    assert own.columns == r.n_lmo == r.n_grad


@pytest.mark.parametrize("momentum", MOMENTA)
def test_the_only_products_in_the_loop_are_the_periodic_refreshes(momentum):
    own = Counting(design(12, 6))
    f = fw.LinearModel(own, labels(12), "logistic")
    r = fw.minimize(f, fw.L1Ball(2.0), method="fw", momentum=momentum, tol=0, max_iter=3 * _REFRESH_EVERY + 7)
    assert own.products == 3 + 1  # and the verification; the start is zero
    assert own.transposed == r.n_grad
    assert r.n_design == own.products + own.transposed


def test_the_trace_counts_the_products_made_so_far():
    own, seen = Counting(design(12, 6)), []
    f = fw.LinearModel(own, targets(12))
    r = fw.minimize(
        f, fw.L2Ball(1.0), tol=0, max_iter=20, callback=lambda state: seen.append(own.products + own.transposed)
    )
    np.testing.assert_array_equal(r.trace["n_design"], seen)


@pytest.mark.parametrize("C", [fw.L1Ball(2.0), fw.L2Ball(2.0), fw.Box(-1.0, 1.0)], ids=str)
def test_ones_own_design_gives_the_dense_result(C):
    A, b = design(12, 6), labels(12)
    own, plain = (fw.LinearModel(D, b, "logistic") for D in (Counting(A), A))
    runs = [fw.minimize(f, C, method="rk44", tol=0, max_iter=40) for f in (own, plain)]
    np.testing.assert_allclose(runs[0].x, runs[1].x, rtol=0, atol=1e-12)
    assert runs[0].n_design == runs[1].n_design


def test_a_quadratic_takes_ones_own_design():
    A = design(6, 6)
    own = Counting(A @ A.T)
    f = fw.Quadratic(own, targets(6))
    before = own.products, own.transposed
    r = fw.minimize(f, fw.L1Ball(1.0), method="fw", tol=0, max_iter=30)
    assert (own.products, own.transposed) == (before[0] + 1, before[1])
    assert r.n_design == 1
    np.testing.assert_allclose(
        r.x,
        fw.minimize(fw.Quadratic(A @ A.T, targets(6)), fw.L1Ball(1.0), method="fw", tol=0, max_iter=30).x,
        atol=1e-12,
    )


def test_wrappers_keep_what_they_do_not_change():
    A = np.random.default_rng(0).standard_normal((20, 4))
    A[:, 1] = 7.0
    inner = DenseDesign(A)
    for outer in (CountedDesign(inner, Counts()), inner.centred()):
        assert isinstance(outer, DesignWrapper)
        assert (outer.shape, outer.dtype, outer.data_cost) == (inner.shape, inner.dtype, inner.data_cost)
        assert (outer.trusted, outer.fingerprint()) == (inner.trusted, inner.fingerprint())


@pytest.mark.parametrize("order", ["C", "F"])
def test_products_with_several_vectors_are_those_with_each(order):
    A = np.asarray(np.random.default_rng(0).standard_normal((20, 4)), order=order)
    A[:, 1] = 7.0 + 1e-3 * A[:, 1]
    X, counts = np.random.default_rng(1).standard_normal((3, 4)), Counts()
    inner, sparse = DenseDesign(A), SparseDesign(sp.csc_array(A))
    single = DenseDesign(A.astype(np.float32)).double()
    for outer in (inner, CountedDesign(inner, counts), inner.centred(), sparse, sparse.centred(), single):
        np.testing.assert_allclose(outer.matmat(X), [outer.matvec(x) for x in X], atol=1e-12)
    assert counts.n_design == 1 + len(X)
    assert not isinstance(inner.centred(), DenseDesign)


def test_a_wrong_product_with_several_vectors_is_an_error():
    class Doubled(DenseDesign):
        def matmat(self, X):
            return 2 * super().matmat(X)

    with pytest.raises(ValueError, match="`matmat` of Doubled disagrees with its `column`"):
        CountedDesign(Doubled(design(7, 5)), Counts()).matmat(np.eye(5))
