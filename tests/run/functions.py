"""Functions, oracles and designs that count, fail or return bad numbers, shared by the tests of runs."""

import numpy as np

import fwflow as fw
from fwflow.designs import DenseDesign

EPS = np.finfo(float).eps
H, B = np.diag([1.0, 2.0, 3.0, 4.0]), np.array([1.0, -2.0, 0.5, 0.1])
X0 = np.array([0.0, 0.0, 0.0, -1.0])
BALL = fw.L1Ball(1.0)
ROUND = fw.L2Ball(1.0)  # no point is visited twice: its vertices never repeat


def fun(x):
    return float(0.5 * x @ H @ x - B @ x)


def grad(x):
    return H @ x - B


def smooth(fun=fun, grad=grad, **options):
    return fw.Smooth(fun, grad, smoothness=4.0, **options)


def oracle(g):
    return np.asarray(BALL.lmo(g))


def counted(function):
    def wrapper(*args):
        wrapper.calls += 1
        return function(*args)

    wrapper.calls = 0
    return wrapper


def raising(function, call, error):
    """The function, but its call of that number (from 1) raises."""

    def wrapper(*args, **options):
        wrapper.calls += 1
        if wrapper.calls == call:
            raise error
        return function(*args, **options)

    wrapper.calls = 0
    return wrapper


def poisoned(function, where, value):
    """The function, but at that very point every number is `value`."""

    def wrapper(x):
        result = function(x)
        return result * 0 + value if np.array_equal(x, where) else result

    return wrapper


def iterates(*args, **options):
    """The points x^(k) of a run, and its result."""
    points = []
    result = fw.minimize(*args, **options, callback=lambda state: points.append(np.array(state.x)))
    return points, result


def completion(seed=0, shape=(7, 5)):
    rng = np.random.default_rng(seed)
    rows, cols = np.nonzero(rng.random(shape) < 0.6)
    return fw.MatrixCompletion(rows, cols, 3 * rng.standard_normal(len(rows)), shape, loss="huber", rho=1.0)


class CountingDesign(fw.Design):
    """A design of one's own, which counts its products."""

    def __init__(self, A):
        self.inner, self.shape, self.dtype = DenseDesign(A), A.shape, A.dtype
        self.products = {name: counted(getattr(self.inner, name)) for name in ("matvec", "rmatvec")}
        self.copied = 0  # columns

    def matvec(self, x):
        return self.products["matvec"](x)

    def rmatvec(self, r):
        return self.products["rmatvec"](r)

    def column(self, j):
        return self.inner.column(j)

    def columns(self, indices):
        self.copied += len(indices)
        return self.inner.columns(indices)

    @property
    def passes(self):
        """Products, and copied columns as shares of a pass."""
        return sum(product.calls for product in self.products.values()) + self.copied / self.shape[1]


def squared_model(A, b, x):
    """Value and gradient of the mean squared loss, in double precision."""
    A, b, x = (np.asarray(v, dtype=np.float64) for v in (A, b, x))
    r = A @ x - b
    return r @ r / (2 * len(b)), A.T @ r / len(b)


PLAIN = {"tol": 0, "max_iter": 30}


def interrupted(where, call, **options):
    parts = {"fun": fun, "grad": grad, "lmo": oracle, "callback": lambda state: None}
    parts[where] = raising(parts[where], call, KeyboardInterrupt)
    f = smooth(parts["fun"], parts["grad"])
    return fw.minimize(f, parts["lmo"], X0, callback=parts["callback"], **(PLAIN | options))


def assert_same_run(r, whole, columns=("fun", "gap", "step")):
    for name in ("U", "V") if isinstance(r.x, fw.LowRank) else ("real",):
        np.testing.assert_array_equal(getattr(r.x, name), getattr(whole.x, name))
    for column in columns:
        np.testing.assert_array_equal(r.trace[column], whole.trace[column])
    assert (r.nit, r.fun, r.gap) == (whole.nit, whole.fun, whole.gap)
