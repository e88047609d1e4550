"""Reports on sets and objectives: do they find every planted fault, and none in the parts of the library?"""

import numpy as np
import pytest
import scipy.sparse as sp

import fwflow as fw
from fwflow.checks import Report, report
from tests.catalogue import COMBINATORIAL, MATRIX_OBJECTIVES, OBJECTIVES, SETS

ALL = SETS | COMBINATORIAL


@pytest.mark.parametrize("name", ALL)
def test_nothing_is_wrong_with_the_sets_of_the_library(name):
    C, shape = ALL[name]
    found = report(C, shape)
    assert found.ok, found
    assert [row.member for row in found.rows][:3] == ["lmo", "start", "contains"]
    assert {row.state for row in found.rows[:2]} == {"ok"}


@pytest.mark.parametrize("name", [*OBJECTIVES, *MATRIX_OBJECTIVES])
@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_wrong_with_the_objectives_of_the_library(name, seed):
    make, shape = (OBJECTIVES[name], 6) if name in OBJECTIVES else (MATRIX_OBJECTIVES[name], (4, 3))
    found = report(make(shape, seed), shape, seed=seed)
    assert found.ok, found
    assert {row.member: row.state for row in found.rows}["gradient"] == "ok"


class Ball(fw.ConstraintSet):
    """A correct set of a user, for tests to break."""

    def lmo(self, g, hint=None):
        return -g / max(np.linalg.norm(g), 1e-300)

    def start(self, shape=None, dtype=float):
        return np.zeros(shape, dtype)

    def contains(self, x, tol=1e-9):
        return np.linalg.norm(x) <= 1 + tol

    def diameter(self, shape=None):
        return 2.0


def broken(**members):
    return type("Broken", (Ball,), members)()


def once(answers):
    """A function that gives another answer at every call."""
    return lambda self, g, hint=None: next(answers)


noise = np.random.default_rng(0)
#: Name -> set, the member that is wrong, words of the remark.
FAULTS = {
    "sign": (broken(lmo=lambda self, g, hint=None: g / np.linalg.norm(g)), "lmo", "wrong sign"),
    "direction": (broken(lmo=lambda self, g, hint=None: -g), "lmo", "depends on the length of g"),
    "inside": (broken(lmo=lambda self, g, hint=None: -g / np.linalg.norm(g) / 2), "lmo", "not a vertex"),
    "other norm": (
        broken(lmo=lambda self, g, hint=None: -np.sign(g) * np.arange(1, 4)[::-1] / 9 * (g[0] > 0)),
        "lmo",
        "not a minimiser",
    ),
    "start is better": (
        broken(lmo=lambda self, g, hint=None: np.ones(3) / 2, contains=lambda self, x, tol=0: None),
        "lmo",
        "start() has a smaller value",
    ),
    "random": (
        broken(lmo=lambda self, g, hint=None: -g / np.linalg.norm(g) * (1 + 1e-9 * noise.random())),
        "lmo",
        "two calls with the same g",
    ),
    "zero": (
        broken(lmo=lambda self, g, hint=None: -g / np.linalg.norm(g) if g.any() else None),
        "lmo",
        "a zero gradient raises",
    ),
    "infinite": (broken(lmo=lambda self, g, hint=None: np.full(3, np.inf)), "lmo", "not finite"),
    "raises": (broken(lmo=lambda self, g, hint=None: 1 / 0), "lmo", "raises ZeroDivisionError"),
    "shape": (broken(lmo=lambda self, g, hint=None: np.zeros(7)), "lmo", "Broken.lmo returned shape (7,)"),
    "start outside": (broken(start=lambda self, shape=None, dtype=float: np.ones(shape)), "start", "rejects"),
    "start shape": (broken(start=lambda self, shape=None, dtype=float: np.ones(7)), "start", "returns shape (7,)"),
    "start raises": (broken(start=lambda self: np.ones(7)), "start", "raises TypeError"),
    "start infinite": (broken(start=lambda self, shape=None, dtype=float: np.full(3, np.nan)), "start", "not finite"),
    "contains rejects": (
        broken(contains=lambda self, x, tol=1e-9: np.linalg.norm(x) <= 0.5),
        "contains",
        "rejects answers",
    ),
    "contains accepts": (broken(contains=lambda self, x, tol=1e-9: np.abs(x).max() < 9), "contains", "far beyond"),
    "contains raises": (broken(contains=lambda self, x: True if x.foo else None), "contains", "raises AttributeError"),
    "diameter": (broken(diameter=lambda self, shape=None: 1.0), "diameter", "is 1, but two answers of lmo are 2 apart"),
    "diameter raises": (broken(diameter=lambda self: 2.0), "diameter", "raises TypeError"),
    "bound": (broken(lower_bound=lambda self, g, s: 0.0), "lower_bound", "no bound"),
    "bound raises": (broken(lower_bound=lambda self, g: 0.0), "lower_bound", "raises TypeError"),
    "project": (broken(project=lambda self, x: 0 * x), "project", "nearer to x"),
    "project outside": (broken(project=lambda self, x: x + 9), "project", "rejects"),
    "project shape": (broken(project=lambda self, x: np.ones(7)), "project", "returns shape (7,)"),
    "project raises": (broken(project=lambda self: 1), "project", "raises TypeError"),
}


def test_the_set_is_right_before_it_is_broken():
    assert report(Ball(), 3).ok
    assert report(broken(lmo=lambda self, g, hint=None: sp.coo_array(-g / max(np.linalg.norm(g), 1e-300))), 3).ok
    assert report(lambda g: -np.sign(g), 3).ok


@pytest.mark.parametrize("name", FAULTS)
def test_faults_of_sets_are_found(name):
    C, member, words = FAULTS[name]
    found = report(C, 3)
    remarks = {row.member: row.remark for row in found.wrong}
    assert member in remarks, found
    assert words in remarks[member]


def smooth(value, gradient, **options):
    return fw.Smooth(value, gradient, shape=4, **options)


def quartic(x):
    return float((x**4).sum() + x @ np.arange(4.0))


def slope(x):
    return 4 * x**3 + np.arange(4.0)


class Wavy(fw.Objective):
    """A function that is not convex, and says that it is."""

    shape, convex = (4,), True

    def value(self, point):
        return float(np.cos(2 * point.x).sum())

    def gradient(self, point):
        return -2 * np.sin(2 * point.x)


def noisy(x):
    return quartic(x) + 1e-3 * noise.random()


BAD = {
    "sign": (smooth(quartic, lambda x: -slope(x)), "gradient", "wrong sign"),
    "factor": (smooth(quartic, lambda x: slope(x) / 4), "gradient", "0.25 times"),
    "entry": (smooth(quartic, lambda x: slope(x) + np.eye(4)[2]), "gradient", "does not fit the values"),
    "gradient shape": (smooth(quartic, lambda x: slope(x)[:2]), "gradient", "shape (2,)"),
    "gradient raises": (smooth(quartic, lambda x: 1 / 0), "gradient", "raises ZeroDivisionError"),
    "gradient infinite": (smooth(quartic, lambda x: slope(x) * np.inf), "gradient", "not finite"),
    "value": (smooth(lambda x: x, slope), "value", "fun must return one real number"),
    "not finite": (smooth(lambda x: np.log(-1.0 - x @ x), slope), "value", "is nan at the point"),
    "noise": (smooth(noisy, slope), "value", "without noise"),
    "hessian": (smooth(quartic, slope, hess_product=lambda x, v: 24 * x**2 * v), "Hessian", "its curvature"),
    "hessian shape": (
        smooth(quartic, slope, hess_product=lambda x, v: v[:2]),
        "Hessian",
        "hess_product returned shape",
    ),
    "convex": (Wavy(), "convex", "above a chord"),
    "smoothness": (smooth(quartic, slope, smoothness=0.1), "smoothness", "is 0.1, but"),
}


@pytest.mark.parametrize("name", BAD)
def test_faults_of_objectives_are_found(name):
    f, member, words = BAD[name]
    found = report(f)
    remarks = {row.member: row.remark for row in found.rows if row.state in ("wrong", "unknown")}
    assert member in remarks, found
    assert words in remarks[member]
    assert name == "hessian shape" or not found.ok


def test_a_right_function_passes():
    f = smooth(quartic, slope, hess_product=lambda x, v: 12 * x**2 * v, smoothness=1e6)
    states = {row.member: row.state for row in report(f).rows}
    assert states == {
        "value": "ok",
        "gradient": "ok",
        "Hessian": "ok",
        "convex": "unknown",
        "smoothness": "ok",
        "domain": "missing",
    }
    logarithm = fw.Smooth(lambda x: -np.log(x).sum(), lambda x: -1 / x, domain=lambda x: bool((x > 0).all()), shape=3)
    assert report(logarithm).rows[0].remark.startswith("the random point is outside of the domain")
    assert report(logarithm, x=np.ones(3)).ok
    assert report(fw.Smooth(quartic, slope), x=np.ones(4, np.float32)).ok


def test_text_and_html():
    found = report(FAULTS["bound"][0], 3)
    assert isinstance(found, Report)
    text, html = repr(found), found._repr_html_()
    assert "1 member wrong" in text
    assert max(map(len, text.splitlines())) < 130
    assert html.count("<tr>") == len(found.rows) + 2
    assert "&lt;g, s&gt;" in html
    assert "2 members wrong" in repr(report(broken(diameter=lambda self: 2.0, project=lambda self: 1), 3))


def test_arguments():
    with pytest.raises(ValueError, match="shape is needed: the part does not determine the shape of x"):
        report(fw.L1Ball(1.0))
    with pytest.raises(ValueError, match="x is needed"):
        report(fw.Smooth(quartic, slope))
    with pytest.raises(ValueError, match="C must be a constraint set, a callable"):
        report(3.0)
    assert report(fw.Smooth(quartic, slope), x=[np.nan] * 4).wrong[0].member == "point"
