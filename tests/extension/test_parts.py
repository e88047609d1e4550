"""Do the parts of CONTRIBUTING.md hold, by public names alone? Against independent answers, counted, and continued."""

import cvxpy as cp
import numpy as np
import pytest

import fwflow as fw
from tests.extension.handbook import OUTPUTS, SECTIONS, executed, files, section

RNG = np.random.default_rng(3)
M, N = 30, 8
A = RNG.standard_normal((M, N))
B = A @ RNG.standard_normal(N) + 0.3 * RNG.standard_normal(M)
LABELS = np.where(B > 0, 1.0, -1.0)

Step, BoundedVariation = section("A set")["Step"], section("A set")["BoundedVariation"]
PseudoHuber = section("A loss")["PseudoHuber"]
SumOf = section("An objective")["SumOf"]
RowBlocks = section("A design")["RowBlocks"]
TwoVertices = section("A method")["TwoVertices"]
Ahead = section("A momentum")["Ahead"]
Doubling = section("A step rule")["Doubling"]


def optimum(build):
    """The least value of a convex program over vectors, by CVXPY."""
    x = cp.Variable(N)
    objective, constraints = build(x)
    return cp.Problem(cp.Minimize(objective), constraints).solve(solver="CLARABEL")


def agrees(result, best):
    assert result.success
    assert result.feasible is not False
    assert best - 1e-6 <= result.fun <= best + result.gap + 1e-6


def continues(f, C, **options):
    """A run in two halves is the run in one piece, bit by bit; where it paused, it may know the gap besides."""
    whole = fw.minimize(f, C, tol=0, max_iter=14, **options)
    half = fw.minimize(f, C, tol=0, max_iter=5, **options)
    rest = fw.minimize(f, C, tol=0, max_iter=9, state=half.state, **options)
    assert np.array_equal(whole.x, rest.x)
    for name in ("fun", "gap", "step"):
        expected = np.asarray(whole.trace[name])
        known = ~np.isnan(expected)
        np.testing.assert_array_equal(np.asarray(rest.trace[name])[known], expected[known])


class Watched(fw.ConstraintSet):
    """Another set, whose oracle's calls are counted by itself."""

    def __init__(self, C):
        self.C, self.calls, self.polytope = C, 0, C.polytope

    def lmo(self, g, hint=None):
        self.calls += 1
        return self.C.lmo(g, hint)

    def start(self, shape=None, dtype=np.float64):
        return self.C.start(shape, dtype)

    def contains(self, x, tol=1e-9):
        return self.C.contains(x, tol)

    def diameter(self, shape=None):
        return self.C.diameter(shape)


def test_every_kind_of_part_has_a_section_that_runs():
    assert list(SECTIONS) == [
        "One step of `minimize`",
        "A tableau",
        "A set",
        "A loss",
        "An objective",
        "A design",
        "A method",
        "A momentum",
        "A step rule",
    ]
    for title in SECTIONS:
        assert section(title)["result"].success


@pytest.mark.parametrize("title", SECTIONS)
def test_the_code_uses_public_names_alone(title):
    assert "from fwflow" not in SECTIONS[title]
    assert "import fwflow." not in SECTIONS[title]


def test_the_code_prints_what_the_handbook_says():
    assert list(OUTPUTS) == ["A tableau"]
    for title, output in OUTPUTS.items():
        assert executed(title)[1] == output


# Tableaus


def test_the_tableau_of_a_file_has_its_order_and_its_certificate(tmp_path):
    ((name, content),) = files("A tableau").items()
    (tmp_path / name).write_text(content)
    tableau = fw.Tableau.from_file(tmp_path / name)
    assert fw.checks.observed_order(tableau) == pytest.approx(tableau.order, abs=0.2)
    f = fw.LinearModel(A, B)
    result = fw.minimize(f, fw.L1Ball(1.5), method=str(tmp_path / name), tol=1e-2)
    agrees(result, optimum(lambda x: (cp.sum_squares(A @ x - B) / (2 * M), [cp.norm(x, 1) <= 1.5])))
    continues(f, fw.L1Ball(1.5), method=str(tmp_path / name))


# Sets

METHODS = ["auto", "fw", "rk44", "away", "pairwise", "lazy-blended-pairwise", "corrective", "flow"]


class Sparsest(fw.ConstraintSet):
    """The hull of vectors with `count` entries that are 1 or -1: ``|x| <= 1`` entry by entry and ``|x|_1 <= count``."""

    polytope = True

    def __init__(self, count):
        self.count = count

    def __repr__(self):
        return f"Sparsest({self.count})"

    def lmo(self, g, hint=None):
        places = np.sort(np.argsort(-np.abs(g), kind="stable")[: self.count])
        return fw.SparseVertex(places, np.where(g[places] > 0, -1.0, 1.0), g.shape)

    def start(self, shape=None, dtype=np.float64):
        return np.zeros(shape, dtype)

    def contains(self, x, tol=1e-9):
        return bool(np.abs(x).max() <= 1 + tol and np.abs(x).sum() <= self.count * (1 + tol))

    def diameter(self, shape=None):
        return 2 * self.count**0.5


@pytest.mark.parametrize("method", METHODS)
def test_a_set_with_vertices_of_its_own_is_the_ball_it_is_an_image_of(method):
    cumulative = np.tril(np.ones((N, N)))
    rtol = 1e-2 if method in ("fw", "rk44") else 1e-6
    own = fw.minimize(fw.LinearModel(A, B), BoundedVariation(1.5), method=method, tol=0, rtol=rtol)
    ball = fw.minimize(fw.LinearModel(A @ cumulative, B), fw.L1Ball(1.5), tol=1e-10)
    assert own.success
    assert own.feasible
    assert own.fun <= ball.fun + own.gap + 1e-9
    assert ball.fun <= own.fun + 1e-9
    if own.active_set is not None:
        assert any(isinstance(vertex, Step) for vertex in own.active_set.vertices)
        np.testing.assert_allclose(own.active_set.x, own.x, atol=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_a_set_with_sparse_vertices_is_right(method):
    best = optimum(lambda x: (cp.sum_squares(A @ x - B) / (2 * M), [cp.norm(x, 1) <= 3, cp.norm(x, "inf") <= 1]))
    rtol = 1e-2 if method in ("fw", "rk44") else 1e-7
    agrees(fw.minimize(fw.LinearModel(A, B), Sparsest(3), method=method, tol=0, rtol=rtol), best)


@pytest.mark.parametrize("C", [BoundedVariation(1.5), Sparsest(3), -2.0 * BoundedVariation(0.75)], ids=repr)
@pytest.mark.parametrize("method", ["fw", "rk44", "pairwise", "corrective"])
def test_runs_on_own_sets_continue_and_count(C, method):
    f = fw.LinearModel(A, LABELS, "logistic")
    continues(f, C, method=method)
    watched = Watched(C)
    result = fw.minimize(f, watched, method=method, tol=0, max_iter=10)
    assert result.n_lmo == watched.calls


def test_combinators_take_own_sets():
    C = fw.Product([(2.0 * BoundedVariation(1.0), 4), (Sparsest(2) + np.full(4, 0.5), 4)])
    best = optimum(
        lambda x: (
            cp.sum_squares(A @ x - B) / (2 * M),
            [
                cp.abs(x[0]) + cp.norm(cp.diff(x[:4]), 1) <= 2,
                cp.norm(x[4:] - 0.5, 1) <= 2,
                cp.norm(x[4:] - 0.5, "inf") <= 1,
            ],
        )
    )
    agrees(fw.minimize(fw.LinearModel(A, B), C, tol=1e-7), best)


# Losses


@pytest.mark.parametrize("width", [0.3, 2.0])
@pytest.mark.parametrize("method", ["auto", "pairwise", "corrective", "flow", "apg"])
def test_a_loss_with_a_parameter_is_right(width, method):
    def program(x):
        lengths = cp.norm(cp.vstack([np.full(M, width), A @ x - B]), 2, axis=0)
        return width * cp.sum(lengths - width) / M, [cp.norm(x, 1) <= 1.5]

    f = fw.LinearModel(A, B, PseudoHuber(width))
    assert fw.checks.gradient_error(f, np.full(N, 0.1)) < 1e-6
    agrees(fw.minimize(f, fw.L1Ball(1.5), method=method, tol=1e-7), optimum(program))


@pytest.mark.parametrize("search", ["exact", "short", "armijo", "adaptive", "secant"])
def test_a_loss_works_with_line_searches_and_continues(search):
    f = fw.LinearModel(A, B, PseudoHuber(0.5))
    assert fw.minimize(f, fw.L1Ball(1.5), line_search=search, tol=2e-2, max_iter=3000).success
    continues(f, fw.L1Ball(1.5), line_search=search)


def test_a_loss_works_in_matrix_completion():
    rows, cols = np.divmod(np.arange(0, 30, 2), 6)
    f = fw.MatrixCompletion(rows, cols, RNG.standard_normal(15), (5, 6), loss=PseudoHuber(0.5))
    assert fw.minimize(f, fw.NuclearBall(2.0), tol=1e-4).success


# Objectives

RIDGE = 0.3


def ridged():
    return SumOf(fw.LinearModel(A, LABELS, "logistic"), fw.LinearModel(RIDGE * np.eye(N), np.zeros(N), scale="sum"))


@pytest.mark.parametrize(
    ("C", "inside", "methods"),
    [
        (fw.L1Ball(2.0), lambda x: [cp.norm(x, 1) <= 2], ["auto", "apg", "polished", "pairwise", "away"]),
        (BoundedVariation(2.0), lambda x: [cp.abs(x[0]) + cp.norm(cp.diff(x), 1) <= 2], ["auto", "lazy-pairwise"]),
        (fw.Simplex(), lambda x: [x >= 0, cp.sum(x) == 1], ["auto", "blended-pairwise"]),
    ],
    ids=["l1", "variation", "simplex"],
)
def test_a_sum_of_objectives_is_right(C, inside, methods):
    def program(x):
        losses = cp.sum(cp.logistic(cp.multiply(-LABELS, A @ x))) / M
        return losses + RIDGE**2 / 2 * cp.sum_squares(x), inside(x)

    best = optimum(program)
    assert fw.checks.gradient_error(ridged(), np.full(N, 0.1)) < 1e-6
    for method in methods:
        agrees(fw.minimize(ridged(), C, method=method, tol=1e-6), best)


def test_a_sum_of_objectives_counts_the_passes_of_both():
    one = fw.minimize(fw.LinearModel(A, B), fw.L1Ball(2.0), method="fw", tol=0, max_iter=20, screen=False)
    half = [fw.LinearModel(A[:10], B[:10], scale="sum"), fw.LinearModel(A[10:], B[10:], scale="sum")]
    two = fw.minimize(SumOf(*half), fw.L1Ball(2.0), method="fw", tol=0, max_iter=20)
    assert (two.n_grad, two.n_lmo, two.n_design) == (one.n_grad, one.n_lmo, 2 * one.n_design)
    np.testing.assert_allclose(two.trace["fun"], M * one.trace["fun"], rtol=1e-9)


@pytest.mark.parametrize("options", [{}, {"method": "rk44", "momentum": "nesterov"}, {"method": "pairwise"}], ids=str)
def test_runs_on_a_sum_continue(options):
    continues(ridged(), fw.L1Ball(2.0), **options)


class Cosh(fw.Objective):
    """Value and gradient, and nothing else."""

    def __init__(self):
        self.calls = 0

    def value(self, point):
        return float(np.cosh(point.x - B[: len(point.x)]).sum())

    def gradient(self, point):
        self.calls += 1
        return np.sinh(point.x - B[: len(point.x)])

    def counted_by(self, counts):
        return self  # so that the calls of a run are seen here


@pytest.mark.parametrize("method", ["auto", "fw", "heun", "pairwise", "apg"])
@pytest.mark.parametrize("search", [None, "exact"])
def test_value_and_gradient_suffice_and_are_counted(method, search):
    if method == "apg" and search:
        return
    f, box = Cosh(), fw.Box(-0.5, 0.5)
    r = fw.minimize(f, box, np.zeros(N), method=method, line_search=search, tol=1e-2, max_iter=5000)
    assert r.success
    assert r.n_grad == f.calls
    assert r.fun - f.value(fw.Point(np.clip(B[:N], -0.5, 0.5))) <= r.gap + 1e-12


# Designs


@pytest.mark.parametrize("options", [{}, {"method": "rk44"}, {"method": "corrective"}, {"method": "flow"}], ids=str)
@pytest.mark.parametrize("C", [fw.L1Ball(1.5), fw.Simplex()], ids=repr)
def test_a_design_in_blocks_is_the_matrix(options, C):
    blocks = RowBlocks([A[:7], A[7:8], A[8:]])
    # Where the matrix offers no more than the blocks do, passes are the same. Working sets need few iterations, and
    # after these their steps depend on rounding errors.
    steps = 12 if options else 2
    own, plain = (
        fw.minimize(fw.LinearModel(D, LABELS, "logistic"), C, tol=0, max_iter=steps, screen=False, **options)
        for D in (blocks, A)
    )
    np.testing.assert_allclose(own.x, plain.x, atol=1e-9)
    assert own.n_grad == plain.n_grad
    assert own.n_lmo == plain.n_lmo
    # A solution with a design of one's own is compared with another member, whose image is a pass.
    assert own.n_design in (plain.n_design, plain.n_design + 1)
    continues(fw.LinearModel(blocks, LABELS, "logistic"), C, **options)


def test_passes_over_a_design_are_counted():
    class Watching(RowBlocks):
        passes = 0

        def matvec(self, x):
            Watching.passes += 1
            return super().matvec(x)

        def rmatvec(self, r):
            Watching.passes += 1
            return super().rmatvec(r)

    r = fw.minimize(fw.LinearModel(Watching([A[:7], A[7:]]), B), fw.L1Ball(1.5), method="rk44", tol=0, max_iter=30)
    assert r.n_design == Watching.passes


# Methods, momenta, line searches


@pytest.mark.parametrize("C", [fw.L1Ball(1.5), fw.L2Ball(1.0), BoundedVariation(1.5), fw.Birkhoff(3)], ids=repr)
def test_a_method_of_ones_own_is_right(C):
    n = 9 if isinstance(C, fw.Birkhoff) else N
    data = np.random.default_rng(1).standard_normal((20, n))
    f = fw.LinearModel(data, data @ np.full(n, 0.4))
    own = fw.minimize(f, C, np.full(n, 1 / 3) if n == 9 else None, method=TwoVertices(), tol=1e-3)
    ours = fw.minimize(f, C, np.full(n, 1 / 3) if n == 9 else None, tol=1e-8)
    assert own.success
    assert own.feasible
    assert own.method == "TwoVertices"
    assert -1e-8 <= own.fun - ours.fun <= own.gap + 1e-8


@pytest.mark.parametrize("f", [fw.LinearModel(A, LABELS, "logistic"), ridged()], ids=["model", "sum"])
def test_a_method_continues_and_counts(f):
    continues(f, fw.L1Ball(2.0), method=TwoVertices())
    watched = Watched(fw.L1Ball(2.0))
    r = fw.minimize(f, watched, method=TwoVertices(), tol=0, max_iter=10)
    assert r.n_lmo == watched.calls
    assert r.n_grad == 11 + 1  # one per iterate, and one to verify


def test_a_state_belongs_to_its_method():
    f = fw.LinearModel(A, B)
    half = fw.minimize(f, fw.L1Ball(1.5), method=TwoVertices(), tol=0, max_iter=3)
    with pytest.raises(ValueError, match="state belongs to TwoVertices"):
        fw.minimize(f, fw.L1Ball(1.5), method=TwoVertices(fw.Armijo()), state=half.state)


@pytest.mark.parametrize("method", ["fw", "heun", "rk44"])
@pytest.mark.parametrize("C", [fw.L1Ball(1.5), fw.L2Ball(1.0), BoundedVariation(1.5)], ids=repr)
def test_a_momentum_of_ones_own_is_right(method, C):
    f = fw.LinearModel(A, LABELS, "logistic")
    r = fw.minimize(f, C, method=method, momentum=Ahead(0.2), tol=1e-2, max_iter=3000)
    assert r.success
    assert abs(r.fun - fw.minimize(f, C, tol=1e-8).fun) <= r.gap + 1e-8
    continues(f, C, method=method, momentum=Ahead(0.2))


def test_a_momentum_that_changes_nothing_is_none():
    f = fw.LinearModel(A, B)
    plain, still = (
        fw.minimize(f, fw.L1Ball(1.5), method="rk44", momentum=momentum, tol=0, max_iter=20)
        for momentum in (None, Ahead(0.0))
    )
    np.testing.assert_allclose(still.trace["fun"], plain.trace["fun"], rtol=1e-12)
    assert still.n_grad == plain.n_grad


def test_a_momentum_takes_gradients_in_any_form():
    rows, cols = np.divmod(np.arange(0, 30, 2), 6)
    f = fw.MatrixCompletion(rows, cols, RNG.standard_normal(15), (5, 6))
    assert fw.minimize(f, fw.NuclearBall(2.0), method="heun", momentum=Ahead(0.2), tol=0.1).success


@pytest.mark.parametrize("options", [{"method": "auto"}, {"method": "rk44"}, {"method": "pairwise"}], ids=str)
@pytest.mark.parametrize(
    "f", [fw.LinearModel(A, B), fw.LinearModel(A, B, PseudoHuber(0.5)), ridged()], ids=["squares", "loss", "sum"]
)
def test_a_line_search_of_ones_own_is_right(options, f):
    C = fw.L1Ball(1.5)
    r = fw.minimize(f, C, line_search=Doubling(), tol=2e-2, max_iter=3000, **options)
    assert r.success
    assert r.feasible
    assert abs(r.fun - fw.minimize(f, C, tol=1e-8).fun) <= r.gap + 1e-8
    continues(f, C, line_search=Doubling(), **options)
