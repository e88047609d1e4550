"""Arguments of sets: errors that name them, and the text form of a set."""

import numpy as np
import pytest
import scipy.sparse as sp

import fwflow as fw
import fwflow.sets
from tests.catalogue import SETS
from tests.sets.answers import HIGHS, every_set


def square():
    return fw.Smooth(lambda x: float(np.vdot(x, x)), lambda x: 2 * x)


@pytest.mark.parametrize("name", [n for n, (constraint, _) in SETS.items() if getattr(constraint, "shape", None)])
@pytest.mark.parametrize("extra", [-1, 1])
def test_x0_of_another_length_is_named(name, extra):
    constraint, shape = SETS[name]
    start = np.asarray(constraint.start(shape)).ravel()
    x0 = start[:-1] if extra < 0 else np.append(start, 0.0)
    with pytest.raises(ValueError, match="x0"):
        fw.minimize(square(), constraint, x0, max_iter=3)


def test_x0_that_is_no_matrix_is_named():
    with pytest.raises(ValueError, match="x0"):
        fw.minimize(square(), fw.NuclearBall(), np.zeros(3), max_iter=3)


def test_a_box_of_numbers_does_not_know_the_dimension():
    with pytest.raises(ValueError, match="x0 is needed"):
        fw.minimize(square(), fw.Box(-1.0, 1.0), max_iter=3)


@pytest.mark.parametrize(
    "radius", [0, -1.0, np.nan, np.inf, -np.inf, None, "wide", [1.0, 2.0], 1j, pytest.param(10**400, id="10**400")]
)
@pytest.mark.parametrize(
    "make", [fw.L1Ball, fw.L2Ball, fw.LInfBall, fw.Simplex, fw.NuclearBall, lambda radius: fw.LpBall(3.0, radius)]
)
def test_radius_must_be_positive_and_finite(make, radius):
    with pytest.raises(ValueError, match="radius must be a positive finite number; got"):
        make(radius)


TWO_COLUMNS = np.ones((1, 2))

INVALID = {
    "p=1": (lambda: fw.LpBall(1.0), "p must"),
    "p<1": (lambda: fw.LpBall(0.5), "p must"),
    "p=inf": (lambda: fw.LpBall(np.inf), "p must"),
    "p=nan": (lambda: fw.LpBall(np.nan), "p must"),
    "p text": (lambda: fw.LpBall("two"), "p must"),
    "steps=0": (lambda: fw.NuclearBall(steps=0), "steps must"),
    "steps=nan": (lambda: fw.NuclearBall(steps=np.nan), "steps must"),
    "lower>upper": (lambda: fw.Box(1.0, 0.0), "lower must not exceed upper"),
    "lower>upper once": (lambda: fw.Box([0.0, 2.0], [1.0, 1.0]), "lower must not exceed upper"),
    "lower nan": (lambda: fw.Box(np.nan, 1.0), "lower must be finite"),
    "lower inf": (lambda: fw.Box(-np.inf, 1.0), "lower must be finite"),
    "upper inf": (lambda: fw.Box(0.0, [1.0, np.inf]), "upper must be finite"),
    "upper text": (lambda: fw.Box(0.0, "one"), "upper must be an array"),
    "bounds' shapes": (lambda: fw.Box(np.zeros(2), np.ones(3)), r"lower has shape \(2,\), upper has \(3,\)"),
    "n=0": (lambda: fw.Birkhoff(0), "n must be a positive integer"),
    "n=2.5": (lambda: fw.Birkhoff(2.5), "n must be a positive integer"),
    "n=nan": (lambda: fw.Birkhoff(np.nan), "n must be a positive integer"),
    "n=inf": (lambda: fw.Birkhoff(np.inf), "n must be a positive integer"),
    "no vertices": (lambda: fw.ConvexHull(np.zeros((0, 2))), "vertices is empty"),
    "no coordinates": (lambda: fw.ConvexHull(np.zeros((2, 0))), "vertices is empty"),
    "flat vertices": (lambda: fw.ConvexHull([1.0, 2.0]), "vertices must have 2 dimension"),
    "ragged vertices": (lambda: fw.ConvexHull([[1.0, 2.0], [3.0]]), "vertices must be an array"),
    "vertices nan": (lambda: fw.ConvexHull([[1.0, np.nan]]), "vertices must be finite"),
    "factor=0": (lambda: 0.0 * fw.L1Ball(), "factor must"),
    "factor=nan": (lambda: np.nan * fw.L1Ball(), "factor must"),
    "factor=inf": (lambda: fw.L1Ball() * np.inf, "factor must"),
    "factor text": (lambda: fw.ScaledSet(fw.L1Ball(), "two"), "factor must"),
    "shift nan": (lambda: fw.L1Ball() + np.array([0.0, np.nan]), "shift must be finite"),
    "shift a set": (lambda: fw.L1Ball() + fw.L1Ball(), "shift must be an array"),
    "shift a number": (lambda: fw.L1Ball() + 1.0, "shift must"),
    "no blocks": (lambda: fw.Product([]), "blocks is empty"),
    "block length 0": (lambda: fw.Product([(fw.L1Ball(), 0)]), "blocks must"),
    "block length 2.5": (lambda: fw.Product([(fw.L1Ball(), 2.5)]), "blocks must"),
    "block no set": (lambda: fw.Product([(np.ones(2), 2)]), "blocks must"),
    "block no pair": (lambda: fw.Product([fw.L1Ball()]), "blocks must"),
    "block too long": (lambda: fw.Product([(fw.ConvexHull(np.eye(2)), 3)]), "blocks must"),
    "A without b": (lambda: fw.Polytope(TWO_COLUMNS), "A and b must be given together"),
    "d without C": (lambda: fw.Polytope(TWO_COLUMNS, [1.0], d=[1.0]), "C and d must be given together"),
    "A and b": (lambda: fw.Polytope(TWO_COLUMNS, [1.0, 2.0]), "A has 1 rows and b has 2 entries"),
    "C and d": (lambda: fw.Polytope(C=TWO_COLUMNS, d=[1.0, 2.0]), "C has 1 rows and d has 2 entries"),
    "A flat": (lambda: fw.Polytope([1.0, 1.0], [1.0]), "A must have 2 dimension"),
    "b inf": (lambda: fw.Polytope(TWO_COLUMNS, [np.inf]), "b must be finite"),
    "A nan": (lambda: fw.Polytope(np.nan * TWO_COLUMNS, [1.0]), "A must be finite"),
    "sparse A nan": (lambda: fw.Polytope(sp.csr_array(np.nan * TWO_COLUMNS), [1.0]), r"\bA must be finite"),
    "sparse C complex": (lambda: fw.Polytope(C=sp.csr_array(1j * TWO_COLUMNS), d=[1.0]), r"\bC must"),
    "A and C": (lambda: fw.Polytope(TWO_COLUMNS, [1.0], np.ones((1, 3)), [1.0]), r"must agree.*\[2, 3\]"),
    "A and lower": (lambda: fw.Polytope(TWO_COLUMNS, [1.0], lower=np.zeros(3)), r"must agree.*\[2, 3\]"),
    "no dimension": (lambda: fw.Polytope(lower=0.0, upper=1.0), r"\bn\b.*must agree"),
    "polytope n=0": (lambda: fw.Polytope(n=0, lower=0.0, upper=1.0), r"\bn\b"),
    "polytope n=-1": (lambda: fw.Polytope(n=-1, lower=0.0, upper=1.0), r"\bn\b"),
    "polytope n=2.5": (lambda: fw.Polytope(n=2.5, lower=0.0, upper=1.0), r"\bn\b"),
    "polytope lower nan": (lambda: fw.Polytope(n=2, lower=np.nan), "lower and upper must not be NaN"),
    "polytope lower a matrix": (lambda: fw.Polytope(lower=np.zeros((2, 3)), upper=1.0), "lower"),
    "empty by bounds": (lambda: fw.Polytope(n=2, lower=1.0, upper=0.0), "lower, upper describe an empty set"),
    "empty by rows": (lambda: fw.Polytope(TWO_COLUMNS, [-1.0], lower=0.0), "A, b, .* describe an empty set"),
    "empty by C": (lambda: fw.Polytope(C=TWO_COLUMNS, d=[3.0], lower=0.0, upper=1.0), "describe an empty set"),
    "nuclear start": (lambda: fw.NuclearBall().start((3,)), "shape is .* are matrices"),
    "nuclear gradient": (lambda: fw.NuclearBall().lmo(np.ones(3)), "g has shape .* are matrices"),
    "birkhoff start": (lambda: fw.Birkhoff(3).start((4,)), "shape"),
}


@pytest.mark.parametrize("case", INVALID)
def test_errors_name_the_argument(case):
    call, message = INVALID[case]
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    "constraint",
    [
        fw.Polytope(n=2),
        fw.Polytope(n=2, lower=0.0),
        fw.Polytope(-TWO_COLUMNS, [1.0]),
        fw.Polytope(C=[[1.0, -1.0]], d=[0.0], lower=0.0),
        fw.Polytope([[1.0, -1.0], [-1.0, 1.0]], [1.0, 1.0]),
    ],
    ids=["free", "orthant", "half-plane", "ray", "strip"],
)
def test_unbounded_polytopes_are_refused_where_it_shows(constraint):
    with pytest.raises(ValueError, match="unbounded set"):
        constraint.lmo(-np.ones(2))
    with pytest.raises(ValueError, match="unbounded set"):
        constraint.diameter()


def test_polytope_mixes_sparse_and_dense_constraints():
    constraint = fw.Polytope(sp.csr_array([[1, 1, 0]]), [1.0], [[0.0, 1.0, -1.0]], [0.0], lower=0.0, upper=5)
    np.testing.assert_allclose(np.asarray(constraint.lmo(np.array([-1.0, -1.0, -1.0]))), [0.0, 1.0, 1.0], atol=HIGHS)
    assert constraint.contains([0.5, 0.5, 0.5])
    assert not constraint.contains([0.5, 0.5, 0.6])


@every_set
def test_repr_names_the_set(name):
    constraint, _ = SETS[name]
    text = repr(constraint)
    assert "object at" not in text
    assert type(constraint).__name__ in text or name in ("scaled", "translated")
