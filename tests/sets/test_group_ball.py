"""Is the ball of group norms what it says: its projection, its names for groups, and what is found on it?"""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fwflow as fw
from tests.catalogue import design, labels, targets

GROUPS = [[0, 3], [1, 2, 6], [4], [5, 7]]
NORMS = {2.0: cp.norm, 3.0: lambda x: cp.pnorm(x, 3), np.inf: cp.norm_inf}


def inside(x, p, radius):
    return [sum(NORMS[p](x[group]) for group in GROUPS) <= radius]


@settings(max_examples=100, deadline=None)
@given(
    x=st.lists(st.floats(-1e3, 1e3), min_size=8, max_size=8),
    radius=st.floats(1e-3, 1e3),
    power=st.sampled_from([0, 300, -300]),
)
def test_the_projection_meets_its_conditions(x, radius, power):
    """Groups that stay keep their direction and lose the same length; the others are no longer than that."""
    C, x = fw.GroupBall(GROUPS, radius * 10.0**power), np.array(x) * 10.0**power
    y = C.project(x)
    assert C.contains(y)
    if C.contains(x):
        np.testing.assert_array_equal(y, x)
        return
    lengths = np.array([[np.linalg.norm(v[group] / 10.0**power) for group in GROUPS] for v in (x, y)])
    lost = (lengths[0] - lengths[1])[lengths[1] > 0]
    size = 1e-12 * (radius + lengths[0].max())
    assert lengths[1].sum() == pytest.approx(radius, abs=size)
    assert np.ptp(lost) <= 10 * size
    assert (lengths[0][lengths[1] == 0] <= lost.max() + 10 * size).all()
    for group in GROUPS:
        across = np.outer(x[group], y[group] / 10.0**power)
        np.testing.assert_allclose(across, across.T, atol=size * np.abs(x).max())


@pytest.mark.parametrize("p", [2.0, np.inf])
@pytest.mark.parametrize("size", [1.0, 30.0])
def test_the_projection_agrees_with_a_conic_solver(p, size):
    x = size * np.random.default_rng(0).standard_normal(8)
    y = cp.Variable(8)
    cp.Problem(cp.Minimize(cp.sum_squares(y - x)), inside(y, p, 1.5)).solve(solver="CLARABEL")
    np.testing.assert_allclose(fw.GroupBall(GROUPS, 1.5, p=p).project(x), y.value, atol=1e-6 * size)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    x=st.lists(st.floats(-1e3, 1e3) | st.sampled_from([0.0, 1.0, -1.0]), min_size=8, max_size=8),
    radius=st.floats(1e-3, 1e3),
    power=st.sampled_from([0, 300, -300]),
)
def test_the_projection_of_maxima_meets_its_conditions(x, radius, power):
    """Groups that stay are cut at a level and lose the same sum; the others have no larger sum."""
    unit = 10.0**power
    C, x = fw.GroupBall(GROUPS, radius * unit, p=np.inf), np.array(x) * unit
    y = C.project(x)
    assert C.contains(y)
    np.testing.assert_array_equal(C.project(y), y)
    if C.contains(x):
        np.testing.assert_array_equal(y, x)
        return
    x, y = np.abs(x) / unit, np.abs(y) / unit
    few = 1e-13 * (radius + x.sum())
    levels = np.array([y[group].max() for group in GROUPS])
    lost = np.array([(x - y)[group].sum() for group in GROUPS])
    assert levels.sum() == pytest.approx(radius, rel=1e-13)
    for group, level in zip(GROUPS, levels, strict=True):
        np.testing.assert_allclose(y[group], np.minimum(x[group], level), atol=few)
    assert np.ptp(lost[levels > 0]) <= few
    assert (lost[levels == 0] <= lost.max() + few).all()


def test_single_groups_and_one_group_of_maxima():
    x = 3 * np.random.default_rng(1).standard_normal(8)
    for groups, same in ((range(8), fw.L1Ball(2.0)), ([0] * 8, fw.LInfBall(2.0))):
        np.testing.assert_allclose(fw.GroupBall(groups, 2.0, p=np.inf).project(x), same.project(x), atol=1e-14)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize(("p", "method"), [(2.0, "auto"), (2.0, "corrective"), (3.0, "auto"), (np.inf, "auto")])
def test_optima_agree_with_a_conic_solver(p, method, loss):
    A, b = design(20, 8), labels(20) if loss == "logistic" else targets(20)
    f = fw.LinearModel(A, b, loss, intercept=True)
    r = fw.minimize(f, fw.GroupBall(GROUPS, 0.8, p=p), method=method, tol=1e-6)
    assert r.success, r
    x, c = cp.Variable(8), cp.Variable()
    z = A @ x + c
    terms = cp.logistic(-cp.multiply(b, z)) if loss == "logistic" else 0.5 * cp.square(z - b)
    problem = cp.Problem(cp.Minimize(cp.sum(terms) / 20), inside(x, p, 0.8))
    problem.solve(solver="CLARABEL")
    assert problem.value - 1e-7 <= r.fun <= problem.value + r.gap + 1e-7


def test_groups_by_their_entries_or_by_the_entries_names():
    g = np.random.default_rng(1).standard_normal(8)
    by_entries, by_name = fw.GroupBall(GROUPS), fw.GroupBall([7, -2, -2, 7, 0, 3, -2, 3])
    assert (np.asarray(by_entries.lmo(g)) == np.asarray(by_name.lmo(g))).all()
    assert by_entries.fingerprint() == by_name.fingerprint()
    assert by_entries.fingerprint() != fw.GroupBall(GROUPS, p=3).fingerprint()


def test_single_groups_are_an_l1_ball_and_one_group_is_a_norm_ball():
    g, x = np.random.default_rng(1).standard_normal((2, 8))
    for C, same in ((fw.GroupBall(range(8), 2.0), fw.L1Ball(2.0)), (fw.GroupBall([0] * 8, 2.0), fw.L2Ball(2.0))):
        np.testing.assert_allclose(np.asarray(C.lmo(g)), np.asarray(same.lmo(g)), atol=1e-15)
        np.testing.assert_allclose(C.project(x), same.project(x), atol=1e-14)
        assert C.diameter() == same.diameter((8,))


def test_the_best_vertices_come_in_order():
    C, g = fw.GroupBall(GROUPS, 2.0), np.random.default_rng(1).standard_normal(8)
    values = [v.dot(g) for v in C.known_vertices.best_vertices(g, 3, C.lmo(g))]
    assert len(values) == 3
    assert values == sorted(values)
    assert values[0] == C.lmo(g).dot(g)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_types_survive(dtype):
    C, x = fw.GroupBall(GROUPS), np.arange(8, dtype=dtype)
    assert C.project(x).dtype == dtype
    assert C.lmo(x).values.dtype == dtype
    with pytest.raises(ValueError, match="x has 7 entries"):
        C.contains(x[1:])


@pytest.mark.parametrize(
    ("groups", "options", "message"),
    [
        ([[0, 1], [1]], {}, "each of the entries 0 to 2 once"),
        ([[0, 1], [3]], {}, "each of the entries 0 to 2 once"),
        ([[0, 1], []], {}, "none may be empty"),
        ([], {}, "groups must hold an integer for every entry"),
        ([0.5, 1], {}, "groups must hold an integer for every entry"),
        ([[0], 1], {}, "groups must have 1 dimension"),
        ([[0], [1]], {"p": 1}, "p must be larger than 1"),
        ([[0], [1]], {"p": np.nan}, "p must be larger than 1"),
        ([[0], [1]], {"radius": 0}, "radius must be a positive"),
    ],
)
def test_what_cannot_be_meant_is_refused(groups, options, message):
    with pytest.raises(ValueError, match=message):
        fw.GroupBall(groups, **options)
