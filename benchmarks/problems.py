"""Which problems are measured? Data, set and start, with a gap in plain NumPy that judges every solver alike."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linear_sum_assignment
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh
from scipy.special import expit

import fwflow as fw
from fwflow.datasets import DataError, load, standardize

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class Problem(ABC):
    """Minimise over a set; `f` and `C` are what fwflow gets, the methods what everybody else gets."""

    name: str
    title: str
    source: str
    f: fw.Objective
    C: fw.ConstraintSet
    x0: Array

    @abstractmethod
    def value_and_gradient(self, x: Array) -> tuple[float, Array]:
        """The objective and its gradient, two passes over the data."""

    @abstractmethod
    def lmo(self, g: Array) -> Array:
        """A vertex that minimises <g, s> over the set."""

    def repaired(self, x: Array) -> Array:
        """A member of the set near x, for solvers whose answers lie slightly outside."""
        return x

    def measure(self, x: Any) -> tuple[float, float]:
        """The objective and the Frank-Wolfe gap at x."""
        value, g = self.value_and_gradient(x)
        return value, float(g @ x - g @ self.lmo(g))


@dataclass(frozen=True, eq=False)
class Linear(Problem):
    """The mean loss of A x on an L1 ball or a simplex."""

    A: Any
    rows: Any
    b: Array
    loss: str
    radius: float

    @property
    def on_ball(self) -> bool:
        return isinstance(self.C, fw.L1Ball)

    def value_and_gradient(self, x: Array) -> tuple[float, Array]:
        z = self.rows @ x
        if self.loss == "squared":
            value, dual = 0.5 * float((z - self.b) @ (z - self.b)), z - self.b
        else:
            margin = self.b * z
            value = float(np.log1p(np.exp(-np.abs(z))).sum() - np.minimum(margin, 0).sum())
            dual = -self.b * expit(-margin)
        return value / len(z), self.A.T @ (dual / len(z))

    def lmo(self, g: Array) -> Array:
        s = np.zeros_like(g)
        j = int(np.abs(g).argmax() if self.on_ball else g.argmin())
        s[j] = -self.radius * np.sign(g[j]) if self.on_ball else self.radius
        return s

    def repaired(self, x: Array) -> Array:
        if self.on_ball:
            inside = np.abs(x).sum() <= self.radius
            return x if inside else np.sign(x) * onto_simplex(np.abs(x), self.radius)
        return onto_simplex(x, self.radius)


def onto_simplex(v: Array, radius: float) -> Array:
    """The nearest non-negative vector that sums to `radius`."""
    u = np.sort(v)[::-1]
    excess = (np.cumsum(u) - radius) / np.arange(1, len(u) + 1)
    return np.maximum(v - excess[np.flatnonzero(u > excess)[-1]], 0.0)


@dataclass(frozen=True, eq=False)
class Completion(Problem):
    """Huber losses of the observed entries of a matrix in a nuclear-norm ball; dense matrices travel as vectors."""

    rows: Array
    cols: Array
    values: Array
    shape: tuple[int, int]
    radius: float
    rho: float

    def _at(self, entries: Array) -> tuple[float, Array]:
        r = entries - self.values
        inside = np.clip(r, -self.rho, self.rho)
        return float(inside @ r - 0.5 * (inside @ inside)), inside

    def value_and_gradient(self, x: Array) -> tuple[float, Array]:
        value, dual = self._at(x.reshape(self.shape)[self.rows, self.cols])
        G = np.zeros(self.shape)
        G[self.rows, self.cols] = dual
        return value, G.ravel()

    def lmo(self, g: Array) -> Array:
        raise NotImplementedError("each solver brings its own leading singular pair")

    def measure(self, x: Any) -> tuple[float, float]:
        entries = (
            x.entries(self.rows, self.cols)
            if isinstance(x, fw.LowRank)
            else x.reshape(self.shape)[self.rows, self.cols]
        )
        value, dual = self._at(entries)
        G = sp.csr_array((dual, (self.rows, self.cols)), shape=self.shape)
        return value, float(dual @ entries) + self.radius * spectral_norm(G)


def spectral_norm(G: Any) -> float:
    """The largest singular value, to ten digits: ARPACK stalls where values cluster, LAPACK does not."""
    transpose = G.T.tocsr()
    gram = LinearOperator((G.shape[0],) * 2, matvec=lambda v: G @ (transpose @ v), dtype=float)
    try:
        largest = eigsh(gram, k=1, v0=np.ones(G.shape[0]), ncv=40, tol=1e-10, maxiter=20, return_eigenvectors=False)
        return float(np.sqrt(largest[0]))
    except ArpackNoConvergence:
        return float(np.linalg.norm(G.toarray(), 2))


@dataclass(frozen=True, eq=False)
class Assignment(Problem):
    """The doubly stochastic matrix nearest to Y; matrices travel as vectors."""

    Y: Array

    def value_and_gradient(self, x: Array) -> tuple[float, Array]:
        r = x - self.Y.ravel()
        return 0.5 * float(r @ r), r

    def lmo(self, g: Array) -> Array:
        s = np.zeros(self.Y.shape)
        s[linear_sum_assignment(g.reshape(self.Y.shape))] = 1.0
        return s.ravel()

    def repaired(self, x: Array) -> Array:
        X = np.maximum(x.reshape(self.Y.shape), 1e-16)
        for _ in range(1000):  # Sinkhorn's scaling
            X = X / X.sum(axis=0)
            X = X / X.sum(axis=1, keepdims=True)
        return X.ravel()


def linear(name: str, title: str, source: str, A: Any, b: Array, loss: str, C: fw.ConstraintSet) -> Linear:
    f = fw.LinearModel(A, b, loss=loss)
    rows = A.tocsr() if sp.issparse(A) else A
    x0 = np.asarray(C.start((A.shape[1],)))
    return Linear(name, title, source, f, C, x0, A, rows, b, loss, C.radius)


def gisette(name: str, radius: float) -> Problem:
    """P1: 2000 rows like Gisette's, at two radii."""
    try:
        data = load("gisette", split="train-reconstructed", stand_in=False)
        A, b, source = data["A"][:2000], data["b"][:2000], f"{data.source} The benchmark uses its first 2000 rows."
    except DataError:
        rng = np.random.default_rng(0)
        factors = rng.standard_normal((2000, 50))
        A = np.maximum(factors @ rng.standard_normal((50, 5000)) + 3 * rng.standard_normal((2000, 5000)), 0.0)
        b = np.where(factors[:, :5].sum(axis=1) + rng.standard_normal(2000) > 0, 1.0, -1.0)
        source = (
            "The data is generated with seed 0, 2000 x 5000: 50 factors plus noise, with negative entries set to zero."
        )
    title = f"Gisette-like, L1 ball {radius:g}, logistic"
    return linear(name, title, source, standardize(A), b, "logistic", fw.L1Ball(radius))


def madelon(name: str, radius: float) -> Problem:
    """P2: Madelon at two radii."""
    data = load("madelon")
    title = f"Madelon, L1 ball {radius:g}, logistic"
    return linear(name, title, data.source, standardize(data["A"]), data["b"], "logistic", fw.L1Ball(radius))


def sparse() -> Problem:
    """P3: two million non-zeros, a hundred of the columns matter."""
    rng = np.random.default_rng(0)
    A = sp.random_array((20_000, 100_000), density=1e-3, rng=rng, format="csc", data_sampler=rng.standard_normal)
    truth = np.zeros(100_000)
    truth[rng.choice(100_000, 100, replace=False)] = rng.standard_normal(100)
    b = np.where(A @ truth + 0.1 * rng.standard_normal(20_000) > 0, 1.0, -1.0)
    source = "Generated with seed 0: 20000 x 100000, density 1e-3, Gaussian; 100 non-zeros in the ground truth."
    return linear("P3", "sparse, L1 ball 100, logistic", source, sp.csc_matrix(A), b, "logistic", fw.L1Ball(100.0))


def sensing() -> Problem:
    """P4: tiny, so that overhead rules."""
    data = load("sensing")
    title = "least squares 500 x 100, L1 ball 1000"
    return linear("P4", title, data.source, data["A"], data["b"], "squared", fw.L1Ball(1000.0))


def movielens() -> Problem:
    """P5: matrix completion."""
    data = load("movielens")
    rows, cols, values = data["rows"], data["cols"], np.asarray(data["values"], dtype=float) - 3.0
    f = fw.MatrixCompletion(rows, cols, values, data.shape, loss="huber", rho=10.0)
    x0 = np.zeros(data.shape[0] * data.shape[1])
    title = "MovieLens 100K, nuclear ball 1000, Huber"
    return Completion(
        "P5", title, data.source, f, fw.NuclearBall(1000.0), x0, rows, cols, values, data.shape, 1000.0, 10.0
    )


def simplex() -> Problem:
    """P6: square, dense, the optimum on a small face."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((2000, 2000))
    truth = np.zeros(2000)
    truth[rng.choice(2000, 50, replace=False)] = rng.dirichlet(np.ones(50))
    b = A @ truth + 0.1 * rng.standard_normal(2000)
    source = "Generated with seed 0: 2000 x 2000 Gaussian, 50 non-zeros in the ground truth, noise 0.1."
    return linear("P6", "least squares 2000 x 2000, simplex", source, A, b, "squared", fw.Simplex())


def birkhoff() -> Problem:
    """P7: the projection of a Gaussian matrix."""
    n = 100
    Y = np.random.default_rng(0).standard_normal((n, n))
    C = fw.Birkhoff(n)
    f = fw.LinearModel(sp.eye_array(n * n, format="csc"), Y.ravel(), loss="squared", scale="sum")
    source = "Generated with seed 0: a standard Gaussian matrix, 100 x 100."
    return Assignment("P7", "projection on the Birkhoff polytope 100 x 100", source, f, C, C.start((n * n,)), Y)


#: Problems by name.
PROBLEMS: dict[str, list[Callable[[], Problem]]] = {
    "P1": [lambda: gisette("P1a", 3.0), lambda: gisette("P1b", 250.0)],
    "P2": [lambda: madelon("P2a", 10.0), lambda: madelon("P2b", 250.0)],
    "P3": [sparse],
    "P4": [sensing],
    "P5": [movielens],
    "P6": [simplex],
    "P7": [birkhoff],
}
