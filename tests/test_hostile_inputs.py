"""What if users' code writes where it should not, data is not what it seems, or changes between two runs?"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import fwflow as fw
from fwflow import datasets
from fwflow._validation import finite_array, float_array
from fwflow.designs import DenseDesign, SparseDesign
from fwflow.methods import Multistep
from fwflow.methods.restricted.projected_steps import _newton_direction
from fwflow.objectives import screening
from fwflow.objectives.losses import Squared
from fwflow.points.vertices import DenseVertex
from tests.catalogue import counts, design, labels, targets

A, B = design(30, 6), targets(30)
ROWS, COLS = np.repeat(np.arange(5), 4), np.tile(np.arange(4), 5)
VALUES = np.outer(np.arange(1.0, 6), [1.0, -1, 2, 0.5]).reshape(-1)
METHODS = ["fw", "rk44", "pairwise", "corrective", "apg", "flow"]


# Arrays that users' code sees are read-only or copies.


def spoiled(array):
    """The array, overwritten: what careless code does to what it is given."""
    array *= 0
    array += 7
    return array


def l1_oracle(g):
    s = np.zeros(g.shape)
    j = np.abs(g).argmax()
    s[j] = -np.sign(g[j]) or 1.0
    return s


def writes_to_g(g):
    s = l1_oracle(g)
    spoiled(g)
    return s


def normalises_g(g):
    g /= np.linalg.norm(g)
    return l1_oracle(g)


class FillsOneBuffer:
    def __init__(self):
        self.buffer = np.zeros(6)

    def __call__(self, g):
        self.buffer[:] = l1_oracle(g)
        return self.buffer


@pytest.mark.parametrize("method", [m for m in METHODS if m != "apg"])
@pytest.mark.parametrize("oracle", [writes_to_g, normalises_g, FillsOneBuffer()], ids=["g", "norm", "buffer"])
def test_a_plain_oracle_may_write_to_what_it_gets_and_gives(oracle, method):
    f = fw.LinearModel(10 * A, B)
    expected = fw.minimize(f, l1_oracle, method=method, max_iter=30)
    r = fw.minimize(f, oracle, method=method, max_iter=30)
    np.testing.assert_array_equal(r.x, expected.x)
    np.testing.assert_array_equal(r.trace["gap"], expected.trace["gap"])
    assert (r.gap, r.success) == (expected.gap, expected.success)
    if r.active_set is not None:
        np.testing.assert_allclose(r.active_set.x, r.x, atol=1e-12)


@pytest.mark.parametrize("momentum", [None, "nesterov", "gradient-averaging"])
def test_no_certificate_is_had_by_shrinking_the_gradient(momentum):
    f = fw.LinearModel(100 * A, 10 * B)
    r = fw.minimize(f, normalises_g, method="fw", momentum=momentum, tol=1e-2, max_iter=200)
    g = 100 * A.T @ (100 * A @ r.x - 10 * B) / len(B)
    assert r.gap == pytest.approx(g @ r.x + np.abs(g).max(), rel=1e-9)
    assert not r.success


def nuclear(G):
    u, _, vt = np.linalg.svd(G.toarray())
    return fw.RankOne(u[:, 0].copy(), vt[0].copy(), -5.0)


U, V = np.zeros(5), np.zeros(4)


def into_buffers(G):
    vertex = nuclear(G)
    U[:], V[:] = vertex.u, vertex.v
    return fw.RankOne(U, V, -5.0)


def writes_to_G(G):
    vertex = nuclear(G)
    G.data[:], G.indices[:] = 7.0, 0
    return vertex


@pytest.mark.parametrize("momentum", [None, "nesterov"])
@pytest.mark.parametrize("oracle", [writes_to_G, into_buffers])
def test_a_plain_oracle_of_matrices_too(oracle, momentum):
    f = fw.MatrixCompletion(ROWS, COLS, VALUES, (5, 4), loss="squared")
    options = {"method": "fw", "momentum": momentum, "tol": 0, "max_iter": 8}
    expected = fw.minimize(f, nuclear, np.zeros((5, 4)), **options)
    r = fw.minimize(f, oracle, np.zeros((5, 4)), **options)
    np.testing.assert_array_equal(r.x.to_dense(), expected.x.to_dense())
    assert r.gap == expected.gap


class WritesToG(fw.L1Ball):
    def lmo(self, g, hint=None):
        spoiled(g)
        return super().lmo(g)


class WritesToHint(fw.L1Ball):
    def lmo(self, g, hint=None):
        if hint is not None:
            return DenseVertex(spoiled(hint.array))
        return DenseVertex(np.asarray(super().lmo(g)))


class WritesToMember(fw.L1Ball):
    def contains(self, x, tol=1e-9):
        return super().contains(spoiled(x), tol)


class WritesToSampled(fw.NuclearBall):
    def lmo(self, g, hint=None):
        assert sp.issparse(g)
        spoiled(g.data)
        return super().lmo(g, hint)

    def lmo_at(self, g, inner, hint=None):
        return self.lmo(g, hint)


class WritesToPrediction(Squared):
    def value(self, z, b):
        return super().value(spoiled(z), b)


class WritesToTargets(Squared):
    def derivative(self, z, b):
        return super().derivative(z, spoiled(b))


class WritesToX(DenseDesign):
    def matvec(self, x):
        return self.A @ spoiled(x)


class WritesToPoint(fw.Quadratic):
    def gradient(self, point):
        spoiled(point.x)
        return super().gradient(point)


class WritesToImage(fw.Quadratic):
    def gradient(self, point):
        return spoiled(point.image)


class WritesToStage(fw.Nesterov):
    def aim(self, x_bar, gamma, memory, gradient, oracle):
        spoiled(x_bar.x)
        return super().aim(x_bar, gamma, memory, gradient, oracle)


class WritesToGradient(fw.GradientAveraging):
    def aim(self, x_bar, gamma, memory, gradient, oracle):
        spoiled(gradient(x_bar).as_oracle_input())
        return super().aim(x_bar, gamma, memory, gradient, oracle)


class WritesToKnown(Multistep):
    def step(self, problem, iterate, memory):
        spoiled(iterate.known.gradient.as_oracle_input())
        return super().step(problem, iterate, memory)


LINEAR, COMPLETION = fw.LinearModel(A, B), fw.MatrixCompletion(ROWS, COLS, VALUES, (5, 4), loss="squared")
BALL, H = fw.L1Ball(1.0), A.T @ A
HOSTILE = {
    "set, g": (LINEAR, WritesToG(1.0), {}),
    "set, average of g": (LINEAR, WritesToG(1.0), {"momentum": "nesterov"}),
    "set, hint": (LINEAR, WritesToHint(1.0), {}),
    "set, member": (LINEAR, WritesToMember(1.0), {"x0": np.zeros(6)}),
    "set, observed entries": (COMPLETION, WritesToSampled(4.0), {}),
    "set, averages of those": (COMPLETION, WritesToSampled(4.0), {"momentum": "nesterov"}),
    "loss, z": (fw.LinearModel(A, B, WritesToPrediction()), BALL, {}),
    "loss, b": (fw.LinearModel(A, B, WritesToTargets()), BALL, {}),
    "loss of entries, b": (fw.MatrixCompletion(ROWS, COLS, VALUES, (5, 4), WritesToTargets()), fw.NuclearBall(4.0), {}),
    "design, x": (fw.LinearModel(WritesToX(A), B), BALL, {}),
    "objective, x": (WritesToPoint(H), BALL, {}),
    "objective, image": (WritesToImage(H), BALL, {}),
    "momentum, stage": (LINEAR, BALL, {"momentum": WritesToStage()}),
    "momentum, gradient": (LINEAR, BALL, {"momentum": WritesToGradient()}),
    "method, gradient": (LINEAR, BALL, {"method": WritesToKnown(fw.tableaus["euler"], fw.OpenLoop())}),
    "callback, x": (LINEAR, BALL, {"callback": lambda state: spoiled(state.x) is None}),
    "callback, image": (LINEAR, BALL, {"callback": lambda state: spoiled(state.point.image) is None}),
    "callback, best": (LINEAR, BALL, {"callback": lambda state: spoiled(state.best.x) is None}),
    "callback, factor": (COMPLETION, fw.NuclearBall(4.0), {"callback": lambda state: spoiled(state.x.U) is None}),
    "callback, other factor": (COMPLETION, fw.NuclearBall(4.0), {"callback": lambda state: spoiled(state.x.V) is None}),
}


@pytest.mark.parametrize("who", HOSTILE)
def test_objects_that_write_to_what_they_are_given_are_told_so(who):
    f, C, options = HOSTILE[who]
    with pytest.raises(ValueError, match="read-only"):
        fw.minimize(f, C, **({"method": "fw", "max_iter": 20} | options))


class FillsOneBufferEach(DenseDesign):
    def matvec(self, x):
        self.product = np.dot(self.A, x, out=vars(self).get("product"))
        return self.product

    def rmatvec(self, r):
        self.transposed = np.dot(r, self.A, out=vars(self).get("transposed"))
        return self.transposed


VARIOUS = [BALL + np.linspace(-0.5, 0.5, 6), fw.ConvexHull(design(9, 6, seed=5)), fw.Simplex()]


@pytest.mark.parametrize(
    ("C", "method"), [(C, m) for C in VARIOUS for m in METHODS if m != "apg" or C.project(np.zeros(6)) is not None]
)
def test_a_design_may_fill_one_buffer_again_and_again(C, method):
    r, expected = (
        fw.minimize(fw.LinearModel(d, B), C, method=method, tol=0, max_iter=20)
        for d in (FillsOneBufferEach(A), DenseDesign(A))
    )
    np.testing.assert_allclose(r.x, expected.x, atol=1e-12)
    assert r.gap == pytest.approx(expected.gap, abs=1e-12)


def test_users_data_stays_writable():
    a, b, shift, x0 = A.copy(), B.copy(), np.zeros(6), np.zeros(6)
    V = np.vstack([np.eye(6), -np.eye(6)])
    lower, upper = np.full(6, -1.0), np.ones(6)
    f = fw.LinearModel(a, b, scale="sum")
    for C in (BALL + shift, fw.ConvexHull(V), fw.Box(lower, upper), fw.Polytope(V, np.ones(12))):
        r = fw.minimize(f, C, x0, method="fw", max_iter=5)
        r.x[:] = 1.0
    for array in (a, b, shift, x0, V, lower, upper, f.b):
        array[:] = 1.0


def test_a_state_from_a_file_is_as_safe_as_one_in_memory(tmp_path):
    fw.minimize(LINEAR, BALL, method="fw", max_iter=3).state.save(tmp_path / "state")
    with pytest.raises(ValueError, match="read-only"):
        fw.State.load(tmp_path / "state").x[:] = 0


# Data may change between two runs.

SHIFT, VERTICES = np.linspace(-0.5, 0.5, 6), 2 * design(9, 6, seed=5)
BOUNDS = (np.full(6, -0.2), np.full(6, 0.3))
DATA = {"A": A, "b": B, "H": H, "shift": SHIFT, "vertices": VERTICES, "lower": BOUNDS[0], "upper": BOUNDS[1]}
DATA["sparse"] = A * (design(30, 6, seed=8) > 0)
DATA["labels"] = labels(30)


def joint(data):
    def fun(x):
        return 0.5 * float(np.sum((data["A"] @ x - data["b"]) ** 2)), data["A"].T @ (data["A"] @ x - data["b"])

    return fw.Smooth(fun, True, shape=(6,))


OBJECTIVES = {
    "dense": lambda d: fw.LinearModel(d["A"], d["b"]),
    "float32": lambda d: fw.LinearModel(d["A"].astype(np.float32), d["b"].astype(np.float32)),
    "sparse": lambda d: fw.LinearModel(d["sparse"], d["b"]),
    "logistic": lambda d: fw.LinearModel(d["A"], d["labels"], "logistic"),
    "quadratic": lambda d: fw.Quadratic(d["H"], d["b"][:6]),
    "joint": joint,
}
SETS = {
    "translated": lambda d: fw.L1Ball(1.0) + d["shift"],
    "scaled": lambda d: 2.0 * (fw.L1Ball(1.0) + d["shift"]),
    "hull": lambda d: fw.ConvexHull(d["vertices"]),
    "translated hull": lambda d: fw.ConvexHull(d["vertices"]) + d["shift"],
    "box": lambda d: fw.Box(d["lower"], d["upper"]),
    "ball": lambda d: fw.L1Ball(1.0),
}


def change(data):
    """The same arrays with other numbers."""
    for name, array in data.items():
        if name == "labels":
            array[:10] *= -1
        else:
            array = array.data if sp.issparse(array) else array
            array *= 1.0 + 0.1 * np.arange(array.size).reshape(array.shape) if name != "H" else 3.0


@pytest.mark.sampled(4)
@pytest.mark.parametrize("method", ["fw", "pairwise"])
@pytest.mark.parametrize("constraint", SETS)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_run_after_data_was_changed_in_place_is_that_of_fresh_objects(monkeypatch, objective, constraint, method):
    monkeypatch.setattr(screening, "LEAST_COST", 1)
    monkeypatch.setattr(screening, "LEAST_COST_PER_COLUMN", 0)
    data = {name: array.copy() for name, array in DATA.items()} | {"sparse": sp.csc_array(DATA["sparse"])}
    f, C = OBJECTIVES[objective](data), SETS[constraint](data)
    options = {"method": method, "tol": 0, "max_iter": 25}
    before = fw.minimize(f, C, **options)
    change(data)
    if objective == "float32":  # converted, so f has data of its own
        f.design.A[:], f.b[:] = data["A"], data["b"]
    r = fw.minimize(f, C, **options)
    fresh = fw.minimize(OBJECTIVES[objective](data), SETS[constraint](data), **options)
    np.testing.assert_array_equal(r.x, fresh.x)
    np.testing.assert_array_equal(r.trace["fun"], fresh.trace["fun"])
    assert (r.gap, r.n_design, r.n_grad) == (fresh.gap, fresh.n_design, fresh.n_grad)
    assert objective == "joint" or not np.array_equal(before.x, r.x) or before.fun != r.fun


def test_nothing_is_remembered_outside_of_runs():
    a = A.copy()
    f, C = fw.LinearModel(a, B), fw.L1Ball(1.0) + SHIFT
    vertex = C.lmo(np.ones(6))
    f.lift(vertex)
    a *= 2
    np.testing.assert_allclose(np.asarray(f.lift(vertex).image), a @ np.asarray(vertex), atol=1e-12)
    factor = np.ones(1)
    g = fw.Smooth(lambda x: (float(factor[0] * x @ x), 2 * factor[0] * x), True)
    point = g.point([1.0, 2.0])
    assert g.value(point) == 5.0
    factor[0] = 3.0
    assert g.value(point) == 15.0


# Masked, missing and strange entries.


def hidden(array):
    """The array with an entry that is masked, and a sentinel underneath."""
    array = np.ma.masked_array(array, copy=True)
    array[(0,) * array.ndim] = -999.0
    array[(0,) * array.ndim] = np.ma.masked
    return array


ARGUMENTS = {
    "A": [lambda v: fw.LinearModel(v(A), B), lambda v: fw.Polytope(v(A), np.ones(30), lower=-1, upper=1),
          lambda v: fw.Tableau(v([[0.0]]), [1.0]), lambda v: datasets.standardize(v(A))],
    "b": [lambda v: fw.LinearModel(A, v(B)), lambda v: fw.Quadratic(np.eye(6), v(B[:6])),
          lambda v: fw.Polytope(A, v(np.ones(30)), lower=-1, upper=1)],
    "H": [lambda v: fw.Quadratic(v(np.eye(6)))],
    "x0": [lambda v: fw.minimize(LINEAR, BALL, v(np.zeros(6))),
           lambda v: fw.minimize(COMPLETION, fw.NuclearBall(1.0), v(np.zeros((5, 4))))],
    "C": [lambda v: fw.Polytope(C=v(A[:1]), d=[0.1], lower=-1, upper=1)],
    "vertices": [lambda v: fw.ConvexHull(v(A))],
    "lower": [lambda v: fw.Box(v(np.zeros(3)), 1.0), lambda v: fw.Polytope(lower=v(np.zeros(3)), upper=1.0)],
    "upper": [lambda v: fw.Box(0.0, v(np.ones(3)))],
    "shift": [lambda v: BALL + v(SHIFT)],
    "beta": [lambda v: fw.Tableau([[0.0]], v([1.0]))],
    "omega": [lambda v: fw.Tableau([[0.0]], [1.0], v([0.0]))],
    "rows": [lambda v: fw.MatrixCompletion(v(ROWS), COLS, VALUES, (5, 4))],
    "cols": [lambda v: fw.MatrixCompletion(ROWS, v(COLS), VALUES, (5, 4))],
    "U": [lambda v: fw.LowRank.from_factors(v(A), A)],
    "x": [lambda v: BALL.contains(v(np.zeros(3))), lambda v: fw.zigzag_energy([v(np.zeros(3))])],
    "errors": [lambda v: fw.fit_rate(v(1 / np.arange(1.0, 20)))],
    "t": [lambda v: fw.rate_bound(v(np.arange(3.0)))],
    "grad's result": [lambda v: fw.minimize(fw.Smooth(lambda x: 0.0, lambda x: v(x), shape=(6,)), BALL)],
    "constraint's result": [lambda v: fw.minimize(LINEAR, lambda g: v(g), max_iter=1)],
}  # fmt: skip


@pytest.mark.parametrize(("name", "build"), [(name, build) for name, calls in ARGUMENTS.items() for build in calls])
def test_masked_entries_are_refused(name, build):
    with pytest.raises(ValueError, match=rf"^{name} has masked entries"):
        build(hidden)
    with pytest.raises(ValueError, match=rf"^{name} has masked entries"):
        build(lambda array: list(hidden(array)))
    build(lambda array: np.ma.masked_array(array))  # nothing is hidden


def test_masked_values_are_not_observed():
    values = np.ma.masked_array(VALUES, np.arange(20) % 3 == 0)
    values.data[values.mask] = -999.0
    f = fw.MatrixCompletion(ROWS, COLS, values, (5, 4), loss="squared")
    seen = ~values.mask
    g = fw.MatrixCompletion(ROWS[seen], COLS[seen], VALUES[seen], (5, 4), loss="squared")
    r, expected = (fw.minimize(h, fw.NuclearBall(5.0), method="fw", tol=0, max_iter=10) for h in (f, g))
    np.testing.assert_array_equal(r.x.to_dense(), expected.x.to_dense())
    with pytest.raises(ValueError, match="values is empty"):
        fw.MatrixCompletion([0], [0], np.ma.masked_array([1.0], [True]), (2, 2))
    with pytest.raises(ValueError, match="rows has masked entries"):
        fw.MatrixCompletion(np.ma.masked_array([0], [True]), [0], [1.0], (2, 2))


@pytest.mark.parametrize("radius", [np.ma.masked, b"1", np.complex128(1), np.array([1.0]), pd.NA, "1", None])
def test_a_number_is_no_text_and_not_missing(radius):
    with pytest.raises(ValueError, match="radius must be a positive finite number; got"):
        fw.L1Ball(radius)


class Foreign:
    """A table of another library, known by what NumPy makes of it."""

    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        return np.array(self.array, dtype=dtype)


table = pd.DataFrame(np.round(10 * A)).astype({0: "Int64", 1: "Float64", 2: "int8", 3: "float32"})
table[4] = pd.array(A[:, 4] > 0, dtype="boolean")
NUMBERS = table.to_numpy(dtype=float)
TABLES = {
    "frame": table,
    "nullable": table.convert_dtypes(),
    "objects": table.to_numpy(dtype=object),
    "foreign": Foreign(NUMBERS),
    "rows of a list": list(NUMBERS),
    "fractions": [[Fraction(float(v)) for v in row] for row in NUMBERS],
    "decimals": [[Decimal(float(v)) for v in row] for row in NUMBERS],
    "longdouble": NUMBERS.astype(np.longdouble),
    "other byte order": NUMBERS.astype(">f8"),
}


@pytest.mark.parametrize("kind", TABLES)
def test_tables_of_numbers_are_matrices(kind):
    f = fw.LinearModel(TABLES[kind], pd.Series(B, dtype="Float64", index=range(100, 130)))
    assert f.dtype == np.float64
    x = np.linspace(-1, 1, 6)
    plain = fw.LinearModel(NUMBERS, B)
    np.testing.assert_allclose(f.gradient(f.point(x)), plain.gradient(plain.point(x)), rtol=1e-12)
    square = NUMBERS[:6] + NUMBERS[:6].T
    assert fw.Quadratic(pd.DataFrame(square).convert_dtypes()).design.A.tolist() == square.tolist()


@pytest.mark.parametrize(
    ("b", "message"),
    [
        (pd.Series(B, dtype="Float64").mask(B > 1), r"b\[\d+\] is (nan|NAType <NA>)"),
        (pd.array([True, None] * 15, dtype="boolean"), r"b\[1\] is NAType <NA>"),
        (np.where(B > 1, None, B), r"b\[\d+\] is NoneType None"),
        (np.array([*"ab"] * 15), "b must be an array of real numbers; got ndarray"),
        (np.array([*"12"] * 15, dtype=object), r"b\[0\] is str '1'"),
        (B + 0j, "b must be an array of real numbers; got ndarray"),
        (np.zeros(30, dtype=[("a", float)]), "b must be an array of real numbers; got ndarray"),
        (np.zeros(30, dtype="M8[s]"), "b must be an array of real numbers; got ndarray"),
        (sp.csr_array(B[:, None]), "b must be an array of real numbers; got csr_array"),
        ([10**400] * 30, "b must be finite; it has integers that are too large for float64"),
        (np.full(30, np.longdouble("1e400")), r"b must be finite; b\[0\] is inf"),
        (B[:, None, None], r"b must have 2 dimension\(s\); got shape \(30, 1, 1\)"),
        (3.0, r"b must have 1 dimension\(s\); got shape \(\)"),
        (None, "b must be an array of real numbers; got NoneType None"),
    ],
    ids=["missing float", "missing bool", "none", "text", "digits", "complex", "record", "date", "sparse", "huge",
         "longdouble", "cube", "number", "nothing"],
)  # fmt: skip
def test_what_is_no_vector_of_numbers_is_named(b, message):
    with pytest.raises(ValueError, match=message):
        fw.LinearModel(A, b)


@pytest.mark.parametrize("data", [1e300 * B, [1e39] * 30])
def test_numbers_too_large_for_single_precision_are_named(data):
    with pytest.raises(ValueError, match=r"b must be finite; b\[0\] is -?inf in float32"):
        fw.LinearModel(A.astype(np.float32), data)
    with pytest.raises(ValueError, match=r"x0 must be finite; x0\[0\] is -?inf in float32"):
        fw.LinearModel(A.astype(np.float32), B).point(data[:6])


rational = st.fractions(max_denominator=1000) | st.integers(-(10**20), 10**20) | st.booleans() | st.decimals(-99, 99)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(rational | st.floats(-1e9, 1e9), min_size=1, max_size=6), st.integers(0, 5), st.booleans())
def test_lists_of_any_numbers_are_what_python_makes_of_them(values, hide, objects):
    given = np.array(values, dtype=object) if objects else values
    np.testing.assert_array_equal(float_array(given, "a"), [float(v) for v in values])
    mask = np.arange(len(values)) == hide
    masked = np.ma.masked_array(np.array(values, dtype=object), mask)
    if mask.any():
        with pytest.raises(ValueError, match="a has masked entries"):
            finite_array(masked, "a")
    else:
        assert finite_array(masked, "a").tolist() == [float(v) for v in values]


@pytest.mark.parametrize("kind", [sp.coo_array, sp.coo_matrix])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.float32, np.float64])
def test_entries_that_stand_twice_are_added_without_overflow(kind, dtype):
    rows, cols, entries = [0, 0, 1, 0, 0], [1, 1, 0, 1, 2], [100, 100, 3, 100, -5 % 128]
    d = SparseDesign(kind((np.array(entries, dtype), (rows, cols)), shape=(2, 3)))
    np.testing.assert_array_equal(d.A.toarray(), [[0, 300, 123], [3, 0, 0]])


# Functions that return nonsense.

NONSENSE = {
    "None": None, "complex": 1j, "NumPy's complex": np.complex128(1), "text": "1.0", "two": np.zeros(2), "NA": pd.NA,
    "masked": np.ma.masked, "too large": 10**400, "sparse": sp.csr_array((1, 1)), "object": object(),
}  # fmt: skip


@pytest.mark.parametrize("answer", NONSENSE.values(), ids=NONSENSE)
def test_fun_must_return_a_number(answer):
    message = f"fun must return one real number; it returned {type(answer).__name__} "
    with pytest.raises(ValueError, match=message):
        fw.minimize(fw.Smooth(lambda x: answer, lambda x: x, shape=(3,)), BALL)
    with pytest.raises(ValueError, match=message):
        fw.minimize(fw.Smooth(lambda x: (answer, x), True, shape=(3,)), BALL)


@pytest.mark.parametrize("answer", [2, 2.0, np.float32(2), np.array([[2.0]]), Fraction(2), Decimal(2), [2.0]])
def test_any_real_number_will_do(answer):
    assert fw.minimize(fw.Smooth(lambda x: answer, lambda x: 0 * x, shape=(3,)), BALL).fun == 2.0


@pytest.mark.parametrize("answer", [None, "yes", np.array([True, False])])
def test_domain_must_return_yes_or_no(answer):
    f = fw.Smooth(lambda x: 0.0, lambda x: x, shape=(3,), domain=lambda x: answer)
    with pytest.raises(ValueError, match="domain must return True or False; it returned"):
        fw.minimize(f, BALL)
    with pytest.raises(ValueError, match="domain must be callable; got int 3"):
        fw.Smooth(lambda x: 0.0, lambda x: x, domain=3)


@pytest.mark.parametrize(
    "answer", [None, "text", np.zeros(6, complex), sp.csr_array(np.ones((1, 6), complex)), object()]
)
def test_an_oracle_must_return_numbers(answer):
    with pytest.raises(ValueError, match=r"constraint's result must be an array of real numbers; got \w+"):
        fw.minimize(LINEAR, lambda g: answer)
    with pytest.raises(ValueError, match=r"constraint returned \w+ .*; MatrixCompletion needs rank-one vertices"):
        fw.minimize(COMPLETION, lambda g: answer, np.zeros((5, 4)))


class Silent(fw.Schedule):
    def gamma(self, t):
        return None


def test_a_schedule_must_return_numbers():
    with pytest.raises(ValueError, match="gamma must be finite; got NoneType None"):
        fw.minimize(LINEAR, BALL, schedule=Silent())


@pytest.mark.parametrize(("shape", "meant"), [(6, (6,)), ((6,), (6,)), ([2, 3], (2, 3)), (np.int64(6), (6,))])
def test_a_length_is_a_shape(shape, meant):
    f = fw.Smooth(lambda x: float((x * x).sum()), lambda x: 2 * x, shape=shape)
    assert f.shape == meant
    assert fw.minimize(f, fw.Simplex()).x.shape == meant


@pytest.mark.parametrize("shape", [0, -1, (), (2, 0), "6", 6.5, ((2,),), np.nan, (3, None), object()])
def test_what_is_no_shape_is_named(shape):
    with pytest.raises(ValueError, match=r"^shape must be a positive integer or a tuple of them; got"):
        fw.Smooth(lambda x: 0.0, lambda x: x, shape=shape)


@pytest.mark.parametrize(
    "f", [LINEAR, COMPLETION, fw.Smooth(lambda x: 0.0, lambda x: x, shape=(6,))], ids=["A", "X", "f"]
)
@pytest.mark.parametrize("x", [[[np.nan]], [[1.0]], np.ma.masked_array([[1.0]], [[True]]), "text"])
def test_errors_call_a_point_what_its_giver_calls_it(f, x):
    with pytest.raises(ValueError, match=r"^the start of the set "):
        f.point(x, "the start of the set")
    with pytest.raises(ValueError, match=r"^x0 "):
        f.point(x)


@pytest.mark.parametrize("value", [Decimal("0.5"), Fraction(1, 2), np.float32(0.5)])
def test_options_are_pythons_floats(value):
    for made in (fw.Armijo(value, value), fw.Aggressive(value), fw.Adaptive(value, Fraction(2))):
        assert all(type(option) is float for option in vars(made).values())
        fw.minimize(LINEAR, BALL, line_search=made, max_iter=3)
    for momentum in (fw.GradientAveraging(value), fw.LMOAveraging(value)):
        assert type(momentum.exponent) is float
        fw.minimize(LINEAR, BALL, momentum=momentum, max_iter=3)


# Hostile scales: the library's own arithmetic raises no error that is meant for users.


#: name -> radius -> set of vectors with 6 entries or matrices
SCALED = {
    "l1": fw.L1Ball,
    "simplex": fw.Simplex,
    "unit-simplex": fw.UnitSimplex,
    "hypersimplex": lambda r: fw.HyperSimplex(2, r),
    "box": lambda r: fw.Box(-r, 2 * r),
    "l2": fw.L2Ball,
    "lp-1.001": lambda r: fw.LpBall(1.001, r),
    "lp-1.01": lambda r: fw.LpBall(1.01, r),
    "lp-30": lambda r: fw.LpBall(30.0, r),
    "group": lambda r: fw.GroupBall([0, 1, 0, 1, 1, 2], r),
    "group-1.01": lambda r: fw.GroupBall([0, 1, 0, 1, 1, 2], r, p=1.01),
    "group-inf": lambda r: fw.GroupBall([0, 1, 0, 1, 1, 2], r, p=np.inf),
    "k-sparse": lambda r: fw.KSparseBall(2, r),
    "k-norm": lambda r: fw.KNormBall(2, r),
    "owl": lambda r: fw.OWLBall([3.0, 2.0, 2.0, 1.0, 0.5, 0.0], r),
    "permutahedron": lambda r: fw.Permutahedron(r * np.array([2.0, -1.0, 0.0, 2.0, 1.0, -1.0])),
    "ellipsoid": lambda r: fw.Ellipsoid(np.zeros(6), r * np.linspace(0.5, 2, 6)),
    "hull": lambda r: fw.ConvexHull(r * design(9, 6)),
    "bounded-simplex": lambda r: fw.BoundedSimplex(r, 0.0, r / 2),
    "bounded-l1": lambda r: fw.BoundedL1Ball(r, -r / 4),
    "scaled": lambda r: -r * fw.Simplex(),
    "translated": lambda r: fw.L1Ball(r) + np.linspace(-1, 1, 6),
    "product": lambda r: fw.Product([(fw.L1Ball(r), 2), (fw.Simplex(r), 3), (fw.L2Ball(r), 1)]),
    "minkowski": lambda r: fw.MinkowskiSum(fw.L1Ball(r), fw.Simplex(r)),
    "polytope": lambda r: fw.Polytope(np.ones((1, 6)), [r], lower=-r, upper=r),
}
LOSSES = {
    "squared": (targets, {}),
    "squared-sum": (targets, {"scale": "sum"}),
    "logistic": (labels, {}),
    "huber": (targets, {}),
    "quantile": (targets, {}),
    "poisson": (counts, {}),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", SCALED)
@settings(max_examples=5, deadline=None)
@given(
    st.sampled_from(sorted(LOSSES)),
    st.sampled_from(["auto", "corrective", "fw", "pairwise"]),
    st.tuples(st.integers(-12, 12), st.integers(0, 6)),
    st.sampled_from([-12, -6, -3, 0, 3, 6, 12]),
    st.integers(0, 2**16),
)
def test_no_scale_of_data_or_radius_is_an_error(name, dtype, loss, method, exponents, radius, seed):
    data, options = LOSSES[loss]
    own = 10.0 ** (exponents[0] + exponents[1] * np.random.default_rng(seed).random(6))
    columns = (design(12, 6, seed) if seed % 2 else (design(12, 6, seed) > 0.5)) * own
    b = data(12, seed) * (1e3 if data is targets else 1.0)
    f = fw.LinearModel(columns.astype(dtype), b.astype(dtype), loss.partition("-")[0], **options)
    r = fw.minimize(f, SCALED[name](10.0**radius), method=method, max_iter=20, max_time=0.2)
    assert r.status is not fw.Status.INCONSISTENT


@pytest.mark.parametrize("p", [1.0005, 1.001, 1.01, 1.02])
@pytest.mark.parametrize("seed", range(3))
def test_balls_near_the_l1_ball_in_single_precision(p, seed):
    rng = np.random.default_rng(seed)
    A, b = (rng.random((60, 40)) < 0.15).astype(np.float32), (1e3 * rng.standard_normal(60)).astype(np.float32)
    r = fw.minimize(fw.LinearModel(A, b), fw.LpBall(p, 1e3), rtol=1e-6, max_iter=100)
    assert r.status in (fw.Status.TOLERANCE, fw.Status.PRECISION)
    exact = fw.minimize(fw.LinearModel(A.astype(float), b.astype(float)), fw.LpBall(p, 1e3), rtol=1e-6, max_iter=100)
    assert r.fun == pytest.approx(exact.fun, rel=1e-5)


def test_newton_directions_that_overflow():
    """Columns of size 1e12 on a simplex of radius 1e6 have such Hessians; LAPACK raises errors for infinite numbers."""
    inverse, condition = np.full((2, 2), 1e308), np.ones((2, 1))
    assert _newton_direction(inverse, np.array([1e10, 1e10]), condition) is None


def test_rounding_of_a_set_of_the_library_makes_auto_go_on(monkeypatch):
    """A projection that leaves the ball has a lower value than the oracle; in a set of a user that is an error."""
    right = fw.LpBall.project
    monkeypatch.setattr(fw.LpBall, "project", lambda self, x: 1.001 * right(self, x))
    f, C = fw.LinearModel(A, 10 * B), fw.LpBall(1.5, 0.1)
    r = fw.minimize(f, C)
    assert r.success
    assert "working-set failed (`project` of LpBall(1.5, 0.1) returned a point with a lower value" in r.method.why
    r = fw.minimize(f, C, method="working-set")
    assert r.status is fw.Status.NUMERICAL
    assert r.fun <= r.trace["fun"].min()

    class Own(fw.LpBall):
        pass

    with pytest.raises(ValueError, match="override both consistently"):
        fw.minimize(f, Own(1.5, 0.1))
