"""Does every method run a factored objective of a user's own, or refuse it with one clear error?"""

import numpy as np
import pytest
import scipy.sparse as sp

import fwflow as fw
from fwflow.designs import Counts
from fwflow.methods import methods
from fwflow.methods.problem import Problem
from fwflow.points.point import FactoredPoint

RNG = np.random.default_rng(0)
N = 6
B, SEEN = RNG.standard_normal((N, N)), RNG.random((N, N)) < 0.6
COMPLETION = fw.MatrixCompletion(*np.nonzero(SEEN), B[SEEN], (N, N), "squared")


class Dense(fw.Objective):
    """The least a user has to write: a value and a gradient."""

    factored = True
    shape, dtype = (N, N), np.dtype(np.float64)

    def value(self, point):
        return 0.5 * float(((np.asarray(point.x) - B)[SEEN] ** 2).sum())

    def gradient(self, point):
        return np.where(SEEN, np.asarray(point.x) - B, 0.0)


class Factored(Dense):
    """The same, of points that stay factored."""

    def point(self, x, name="x0"):
        return FactoredPoint(x if isinstance(x, fw.LowRank) else fw.LowRank.from_factors(x, np.eye(N)))


class Wrapped(fw.Objective):
    """Another objective, with its image and nothing else."""

    factored = True
    shape, dtype, image_map = COMPLETION.shape, COMPLETION.dtype, COMPLETION.image_map

    def point(self, x, name="x0"):
        return COMPLETION.point(x, name)

    def value(self, point):
        return COMPLETION.value(point)

    def gradient(self, point):
        return COMPLETION.gradient(point)


class WithLine(Wrapped):
    def along(self, start, end, value0):
        return COMPLETION.along(start, end, value0)


#: Methods for other sets, or for points that are not factored.
REFUSED = (
    "corrective",
    "apg",
    "polished",
    "working-set",
    "flow",
    "decomposition-invariant",
    "sliding",
    "block",
    "stochastic",
    "boosted",
    "difference-of-convex",
)
SETS = [fw.NuclearBall(2.0), fw.Spectraplex(2.0), fw.Spectrahedron(2.0), -1.0 * fw.NuclearBall(2.0)]
LEAST = {C: fw.minimize(COMPLETION, C, tol=1e-9).fun for C in SETS}


@pytest.mark.parametrize("method", [*methods, "fw", "heun"])
@pytest.mark.parametrize("objective", [Dense, Factored, Wrapped, WithLine])
@pytest.mark.parametrize("C", SETS, ids=repr)
def test_every_method_runs_or_refuses(C, objective, method):
    try:
        r = fw.minimize(objective(), C, method=method, max_iter=20, tol=1e-2)
    except ValueError:
        assert method in REFUSED
        return
    assert r.feasible
    assert -1e-9 <= r.fun - LEAST[C] <= r.gap + 1e-9


@pytest.mark.parametrize("objective", [Dense, Factored, Wrapped, WithLine])
def test_auto_solves_it(objective):
    r = fw.minimize(objective(), fw.NuclearBall(2.0), tol=1e-3)
    assert r.success
    assert r.fun == pytest.approx(LEAST[SETS[0]], abs=1e-3)


def test_gradients_are_counted():
    class Counting(Factored):
        calls = 0

        def gradient(self, point):
            Counting.calls += 1
            return super().gradient(point)

    r = fw.minimize(Counting(), fw.NuclearBall(2.0), method="blended-pairwise", max_iter=10, tol=0)
    assert r.n_grad == Counting.calls


def test_corrections_say_what_they_need():
    with pytest.raises(ValueError, match=r"need a MatrixCompletion; got Factored\. Use another method"):
        fw.minimize(Factored(), fw.NuclearBall(2.0), method="corrective")

    def oracle(G):
        u, _, v = np.linalg.svd(np.asarray(G.todense()) if sp.issparse(G) else G)
        return fw.RankOne(u[:, 0], v[0], -1.0)

    with pytest.raises(ValueError, match="need a NuclearBall, Spectraplex or Spectrahedron"):
        fw.minimize(COMPLETION, oracle, method="corrective")


@pytest.mark.parametrize("base", [Dense, Factored])
def test_a_sparse_gradient_is_refused(base):
    class Sparse(base):
        def gradient(self, point):
            return sp.csr_array(super().gradient(point))

    with pytest.raises(ValueError, match=r"must be an array or a fw\.Gradient; got a csr_array"):
        fw.minimize(Sparse(), fw.NuclearBall(2.0))


def test_a_line_of_factored_points_uses_the_gradient_that_is_known():
    f, counts = Factored(), Counts()
    problem = Problem(f.counted_by(counts), fw.NuclearBall(2.0), counts)
    start = f.point(fw.LowRank.from_factors(RNG.standard_normal((N, 1)), RNG.standard_normal((N, 1))))
    end = start.mix([(1.0, problem.lmo(problem.gradient(start)))])
    known, counts.n_grad = problem.gradient(start), 0
    line = problem.along(start, end, f.value(start), known)
    assert counts.n_grad == 0
    d = np.asarray(end.x) - np.asarray(start.x)
    assert line.norm2 == pytest.approx((d**2).sum())
    assert line.slope0 == pytest.approx((f.gradient(start) * d).sum())
    assert line.slope0 == pytest.approx(problem.along(start, end, 0.0, None).slope0)
    assert counts.n_grad == 1
    assert line.value(0.3) == pytest.approx(f.value(fw.Point(np.asarray(start.x) + 0.3 * d)))
    assert line.slope(0.3) == pytest.approx((f.gradient(fw.Point(np.asarray(start.x) + 0.3 * d)) * d).sum())
