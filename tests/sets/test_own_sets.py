"""Sets of users whose oracles return arrays, lists or sparse vectors: do they give the runs of the library's sets?"""

import re

import numpy as np
import pytest
import scipy.sparse as sp

import fwflow as fw
import fwflow.jax as fwj

#: How the oracle of a user may return the vertex v.
FORMS = {
    "array": lambda v: v,
    "list": lambda v: v.tolist(),
    "sparse-1d": lambda v: sp.coo_array(v),
    "sparse-row": lambda v: sp.csr_matrix(v),
    "sparse-column": lambda v: sp.csc_array(v[:, None]),
    "duplicates": lambda v: sp.coo_array((np.repeat(v / 2, 2), (np.repeat(np.arange(v.size), 2),)), v.shape),
    "vertex": fw.DenseVertex,
    "single": lambda v: v.astype(np.float32),
}
f = fw.Quadratic(np.diag([1.0, 2.0, 3.0, 1.0]), [1.0, -1.0, 2.0, 0.5])


class Own(fw.ConstraintSet):
    """The cross-polytope, written by a user."""

    polytope = True

    def __init__(self, form="array", radius=1.0):
        self.form, self.radius = FORMS[form], radius

    def lmo(self, g, hint=None):
        place = np.abs(g).argmax()
        v = np.zeros(g.shape)
        v.flat[place] = -self.radius if g.flat[place] > 0 else self.radius
        return self.form(v)

    def start(self, shape=None, dtype=float):
        return np.zeros(shape, dtype).tolist()

    def contains(self, x, tol=1e-9):
        return np.abs(x).sum() <= self.radius * (1 + tol)  # a number of NumPy

    def diameter(self, shape=None):
        return 2 * self.radius


class Derived(fw.L1Ball):
    """A set of the library with another oracle, which returns an array."""

    def lmo(self, g, hint=None):
        return np.asarray(super().lmo(g))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"method": "fw", "max_iter": 30},
        {"method": "rk44", "momentum": "nesterov", "max_iter": 30},
        {"method": "lazy-fw", "max_iter": 30},
        {"method": "lazy-away"},
        {"method": "pairwise"},
        {"method": "blended"},
        {"method": "boosted", "max_iter": 30},
        {"method": "sliding", "max_iter": 30},
        {"method": "flow"},
    ],
    ids=lambda options: options.get("method", "auto"),
)
def test_every_form_gives_the_same_run(form, options):
    own, reference = (fw.minimize(f, C, np.zeros(4), **options) for C in (Own(form), Own("vertex")))
    np.testing.assert_allclose(own.x, reference.x, rtol=0, atol=1e-12)  # sparse vertices are added in another order
    assert own.gap == pytest.approx(reference.gap, abs=1e-12)
    assert own.feasible is True


@pytest.mark.sampled(3)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "made",
    [
        lambda C: 2 * C,
        lambda C: -1.5 * C,
        lambda C: C + np.array([0.1, 0.2, 0.3, 0.4]),
        lambda C: fw.MinkowskiSum(C, fw.L2Ball(0.5)),
        lambda C: fw.LinearImage(np.eye(4)[::-1], C + np.zeros(4)),
        lambda C: fw.Product([(C, 2), (fw.Simplex(), 2)]),
    ],
    ids=["scaled", "reflected", "translated", "sum", "image", "product"],
)
def test_combinations(form, made):
    own, reference = (fw.minimize(f, made(C), tol=1e-7) for C in (Own(form), fw.L1Ball(1.0)))
    assert own.success
    np.testing.assert_allclose(own.x, reference.x, rtol=0, atol=2e-3)
    assert own.fun == pytest.approx(reference.fun, abs=2e-7)


@pytest.mark.parametrize("form", ["array", "list", "sparse-1d"])
def test_blocks_checks_and_random_starts(form):
    C = Own(form)
    r = fw.minimize(f, fw.Product([(C, 2), (C, 2)]), method="block", tol=1e-4)
    assert r.success
    members = np.vstack([np.eye(4), -np.eye(4)])
    assert fw.checks.lmo_excess(C, np.array([1.0, -2.0, 0.5, 0.0]), members) == 0.0
    assert C.contains(C.random_start(0, (4,)))


def test_compiled_runs():
    C = Own("sparse-1d")
    g = fwj.Smooth(lambda x: ((x - 0.5) ** 2).sum())
    np.testing.assert_allclose(fwj.minimize(g, C, np.zeros(4, np.float32), tol=1e-2).x, 0.25, atol=0.05)


def test_a_subclass_of_a_set_of_the_library():
    own, reference = (fw.minimize(f, C, method="pairwise") for C in (Derived(1.0), fw.L1Ball(1.0)))
    np.testing.assert_allclose(own.x, reference.x, atol=1e-9)


def test_matrices_and_float32():
    class Wide(Own):
        def lmo(self, g, hint=None):
            return sp.csr_array(np.asarray(super().lmo(g)))

    target = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    h = fw.Smooth(lambda x: ((x - target) ** 2).sum() / 2, lambda x: x - target)
    runs = [fw.minimize(h, C, np.zeros((2, 3), np.float32), tol=1e-3) for C in (Wide("array"), fw.L1Ball(1.0))]
    assert runs[0].x.dtype == np.float32
    assert runs[0].fun == pytest.approx(runs[1].fun, rel=1e-3)
    answer = Wide("array").vertex(target)
    assert isinstance(answer, fw.SparseVertex)
    assert answer.shape == (2, 3)


def test_a_buffer_may_be_used_again():
    buffer = np.zeros(4)

    class Reusing(Own):
        def lmo(self, g, hint=None):
            buffer[:] = np.asarray(super().lmo(g))
            return buffer

    own, reference = (fw.minimize(f, C, np.zeros(4), method="away") for C in (Reusing(), Own()))
    np.testing.assert_array_equal(own.x, reference.x)


def test_an_object_with_an_oracle_only():
    class Plain:
        def lmo(self, g):
            return -np.sign(g)

    r = fw.minimize(f, Plain(), np.zeros(4))
    np.testing.assert_allclose(r.x, fw.minimize(f, fw.LInfBall(1.0)).x, atol=1e-5)


def test_a_starting_point_outside_of_a_set_that_answers_with_a_number_of_numpy():
    with pytest.raises(ValueError, match="x0 lies outside the set"):
        fw.minimize(f, Own(), np.full(4, 3.0))


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (np.zeros(3), r"Wrong\.lmo returned shape \(3,\) for a gradient of shape \(4,\)"),
        (sp.coo_array(np.ones(3)), r"Wrong\.lmo returned shape \(3,\) for a gradient of shape \(4,\)"),
        (sp.csr_array(np.ones((2, 2))), r"Wrong\.lmo returned shape \(2, 2\)"),
        (sp.coo_array(np.array([0.0, np.nan, 0.0, 1.0])), r"Wrong\.lmo's result must be finite"),
        (None, r"Wrong\.lmo's result must be an array of real numbers; got NoneType"),
        ("north", r"Wrong\.lmo's result must be an array of real numbers; got str"),
    ],
)
def test_answers_that_are_no_vertices_are_named(answer, message):
    class Wrong(Own):
        def lmo(self, g, hint=None):
            return answer

    with pytest.raises(ValueError, match=message):
        fw.minimize(f, Wrong(), np.zeros(4))


def test_matrix_completion_needs_rank_one_vertices():
    class Dense(Own):
        factored = True

        def lmo(self, g, hint=None):
            return np.zeros(g.shape)

    with pytest.raises(ValueError, match=r"Dense\.lmo returned .* needs rank-one vertices"):
        fw.minimize(fw.MatrixCompletion([0, 1], [1, 0], [1.0, 2.0], (2, 2)), Dense(), np.zeros((2, 2)))


@pytest.mark.parametrize(
    ("C", "message"),
    [
        (Own, "C is the class Own; it must be an object"),
        (3.0, "C must be a constraint set, a callable g -> s, or an object with a method lmo; got float$"),
    ],
)
def test_objects_that_are_no_sets(C, message):
    with pytest.raises(ValueError, match=message):
        fw.minimize(f, C, np.zeros(4))


@pytest.mark.parametrize(
    ("name", "member", "expected"),
    [
        ("lmo", lambda self, g: -g, "lmo(self, g, hint=None)"),
        ("start", lambda self: np.zeros(4), "start(self, shape=None, dtype=float)"),
        ("contains", lambda self, x: True, "contains(self, x, tol=1e-9)"),
        ("diameter", lambda self: 2.0, "diameter(self, shape=None)"),
    ],
)
def test_members_without_the_optional_arguments_are_named(name, member, expected):
    C = type("Short", (Own,), {name: member})()
    for call in (lambda: fw.minimize(f, C, np.zeros(4)), lambda: 2 * C, lambda: fw.Product([(C, 4)])):
        with pytest.raises(ValueError, match=re.escape(f"Short.{name} must accept the arguments of {expected}")):
            call()


class Lists(fw.Objective):
    """An objective that returns lists and arrays with one entry."""

    shape = (4,)

    def __init__(self, value=lambda v: np.array([[v]]), gradient=np.ndarray.tolist):
        self.of_value, self.of_gradient = value, gradient

    def value(self, point):
        return self.of_value(float(((point.x - 1) ** 2).sum()))

    def gradient(self, point):
        return self.of_gradient(2 * (point.x - 1))


@pytest.mark.parametrize("method", ["auto", "fw", "pairwise", "rk44", "boosted", "sliding"])
def test_objectives_may_return_lists_and_arrays_with_one_entry(method):
    options = {"method": method, "max_iter": 40}
    own, plain = (fw.minimize(g, fw.L1Ball(2.0), **options) for g in (Lists(), Lists(float, np.asarray)))
    np.testing.assert_array_equal(own.x, plain.x)
    assert own.fun == plain.fun


@pytest.mark.parametrize(
    ("value", "gradient", "message"),
    [
        (lambda v: [v, v], np.asarray, "value must return one real number; it returned list"),
        (lambda v: None, np.asarray, "value must return one real number; it returned NoneType"),
        (float, lambda g: "steep", "the gradient must be an array of real numbers; got str"),
        (float, lambda g: None, "the gradient must be an array of real numbers; got NoneType"),
    ],
)
def test_answers_of_objectives_that_are_no_numbers_are_named(value, gradient, message):
    with pytest.raises(ValueError, match=message):
        fw.minimize(Lists(value, gradient), fw.L1Ball(2.0), method="fw")
