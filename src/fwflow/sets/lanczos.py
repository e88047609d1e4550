"""Leading singular vectors and eigenvectors by Lanczos steps, with bounds on the error of the values."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from fwflow._numerics import dot, norm
from fwflow._validation import Array

# Error of the oracle's value, relative to the duality gap that its answer gives, or to the value without a gap.
# Chosen without tuning.
SHARE = 0.1
# The same for the certified bound that gives the gap of a result. Chosen without tuning.
BOUND_SHARE = 0.01
# Probabilities that the oracle is less accurate, and that a bound fails. Both may happen if the random start is nearly
# orthogonal to the leading vector. Chosen without tuning.
_DOUBT, FAILURE = 1e-4, 1e-10
# Largest number of Lanczos steps. Chosen without tuning.
_MOST = 300
# Number of Lanczos steps for a bound before the first look at its accuracy. Chosen without tuning.
_LOOK = 20
# Largest dimension of a dense eigenvalue problem, which is solved if Lanczos steps do not converge. Untuned.
_GRAM_LIMIT = 2000
# Largest dimension up to which a dense eigenvalue problem is solved for a bound whose accuracy follows from the gap:
# above it, Lanczos steps take less time (9 to 42 ms instead of 59 at 943 rows, 12 to 21 ms instead of 141 at 1500).
_DENSE = 256
# Symmetric matrices up to this dimension are decomposed as fast as Lanczos steps are made.
_SMALL = 64
_EPS = float(np.finfo(np.float64).eps)


def leading_pair(G: Any, near: Array | None, steps: int, slack: Callable[[float], float]) -> tuple[Array, Array]:
    """Return the right and left leading singular vectors of a tall G, by Lanczos steps on ``G.T @ G``.

    Their singular value is below the largest by more than ``slack(value)`` only with probability `_DOUBT`.
    """
    n, transpose = G.shape[1], G.T
    start, hidden = random_start(n, near, 0, _DOUBT)
    start = start.astype(G.dtype)
    # Scaled products have squares that neither overflow nor vanish.
    unit = np.abs(dot(G, start)).max()
    if unit == 0:
        return np.eye(1, n, dtype=G.dtype)[0], np.eye(1, G.shape[0], dtype=G.dtype)[0]

    def gram(w: Array) -> Array:
        return np.asarray(dot(transpose, dot(G, w) / unit)) / unit

    def level(ritz: Ritz) -> float:
        value = math.sqrt(max(0.0, ritz.values[-1]))
        rounding = 4 * float(np.finfo(G.dtype).eps) * value
        return (value + max(slack(float(unit) * value) / float(unit), rounding)) ** 2

    w, ritz = _lanczos(gram, start, hidden, steps, level)
    if len(ritz.values) == _MOST < n <= _GRAM_LIMIT and not ritz.excludes(level(ritz)):
        G_unit = G / unit
        dense = _array(dot(G_unit.T, G_unit))
        if not _at_most(dense, level(ritz)):
            w = scipy.linalg.eigh(dense, subset_by_index=(n - 1, n - 1))[1][:, 0].astype(G.dtype)
    z = np.asarray(dot(G, w)) / unit
    return w, z / norm(z)


def random_start(n: int, near: Array | None, seed: int, doubt: float) -> tuple[Array, float]:
    """Return a random vector, near the direction of `near` if given, and a number `hidden`.

    The product with any unit vector is below ``exp(-hidden)`` times the length only with probability `doubt`.
    """
    start = np.random.default_rng(seed).standard_normal(n)
    length = 0.0 if near is None else float(norm(near))
    if near is not None and 0 < length < math.inf:  # Otherwise it has no direction.
        start += 10 * math.sqrt(n) / length * near
    return start, math.log(float(norm(start)) / (math.sqrt(math.pi / 2) * doubt))


class Ritz(NamedTuple):
    """Result of Lanczos steps: ascending Ritz values, the norms of the residuals, and `hidden` of `random_start`."""

    values: Array
    norms: Array
    hidden: float

    def excludes(self, level: float) -> bool:
        r"""Return whether there is no eigenvalue of at least `level`, which is above the Ritz values.

        Step k ends with the unit vector :math:`p_k(A) b`, :math:`p_k(\lambda) = \prod_i (\lambda - \theta_i) /
        \beta_i`. So :math:`|p_k(\lambda) \langle v, b \rangle| \le 1` for a unit eigenvector v, and beyond the Ritz
        values :math:`p_k` grows (van Dorsselaer, Hochstenbach & van der Vorst, 2000).
        """
        return self.norms[-1] == 0 or float(np.log((level - self.values) / self.norms).sum()) >= self.hidden

    def bound(self) -> float:
        """Return a level that is excluded, close to the smallest one."""
        excess = float(np.abs(self.values).max()) or float(self.norms.max())
        return _smallest_excluded(self.excludes, float(self.values[-1]), excess)


def _smallest_excluded(excludes: Callable[[float], bool], largest: float, excess: float) -> float:
    """Return an excluded level above the largest Ritz value, close to the smallest one."""
    while not excludes(largest + excess):
        excess *= 2
    while excess > 1e-15 * abs(largest) and excludes(largest + 0.8 * excess):
        excess *= 0.8
    return largest + excess


def _lanczos(
    apply: Callable[[Array], Array], start: Array, hidden: float, steps: int, level: Callable[[Ritz], float]
) -> tuple[Array, Ritz]:
    """Return the leading Ritz vector and the Ritz values after `_MOST` steps, or earlier if they exclude the level."""
    n = len(start)
    basis = np.empty((min(steps, n), n), start.dtype)
    alpha: list[float] = []
    beta: list[float] = []
    w, look = start / norm(start), steps
    for k in range(min(_MOST, n)):
        if k == len(basis):
            basis = np.concatenate([basis, np.empty_like(basis)])
        basis[k] = w
        image = apply(w)
        alpha.append(float(dot(w, image)))
        # Orthogonalising against the last two and then against all vectors gives working precision.
        image -= alpha[-1] * w
        if k > 0:
            image -= beta[-1] * basis[k - 1]
        image -= dot(dot(basis[: k + 1], image), basis[: k + 1])
        beta.append(float(norm(image)))
        size = max(map(abs, alpha + beta[:-1]))
        if beta[-1] <= np.finfo(w.dtype).eps * size * math.sqrt(n):
            beta[-1] = 0.0
        if k + 1 in (look, _MOST, n) or beta[-1] == 0:
            ritz = Ritz(scipy.linalg.eigvalsh_tridiagonal(alpha, beta[:-1]), np.array(beta), hidden)
            if ritz.excludes(level(ritz)):
                break
            look = k + 1 + max(steps, k // 8)
        w = image / w.dtype.type(beta[-1])
    last = len(alpha) - 1
    leading = scipy.linalg.eigh_tridiagonal(alpha, beta[:-1], select="i", select_range=(last, last))[1][:, 0]
    vector = dot(leading.astype(start.dtype), basis[: last + 1])
    return vector / norm(vector), ritz


def spectral_bound(G: Any, sigma: float, slack: Callable[[float], float] | None = None) -> float:
    """Return an upper bound on the spectral norm of G, given a lower bound `sigma`.

    Without a `slack` it is too large by rounding errors only up to a dimension of `_GRAM_LIMIT`, else by at most
    ``slack(norm)``. In higher dimensions it may be larger if the Lanczos steps do not converge.
    """
    G = sp.csr_array(G, dtype=np.float64) if sp.issparse(G) else np.asarray(G, dtype=np.float64)
    # In units of the largest entry the Gram matrix neither overflows nor vanishes.
    unit = float(np.abs(G.data if sp.issparse(G) else G).max(initial=0.0)) or 1.0
    G = (G if G.shape[0] >= G.shape[1] else G.T) / unit
    n, transpose, sigma = G.shape[1], G.T, sigma / unit

    def level(ritz: Ritz) -> float:
        value = math.sqrt(max(0.0, ritz.values[-1]))
        allowed = 0.0 if slack is None else slack(unit * value) / unit
        return max((1 + 1e-12) * float(ritz.values[-1]), (value + allowed) ** 2)

    ritz = None
    if n > (_GRAM_LIMIT if slack is None else _DENSE):
        start, hidden = random_start(n, None, 1, FAILURE)
        ritz = _lanczos(lambda w: np.asarray(dot(transpose, dot(G, w))), start, hidden, _LOOK, level)[1]
    if ritz is not None and (n > _GRAM_LIMIT or ritz.excludes(level(ritz))):
        largest = ritz.bound()
    else:
        largest = _largest_eigenvalues(_array(dot(transpose, G)), 1, None if ritz is None else level(ritz))
    return unit * math.sqrt(max(0.0, largest, sigma**2) * (1 + n * _EPS))


def leading_space(A: Any, near: Array | None, count: int, steps: int, slack: Callable[[float, float], float]) -> Array:
    """Return orthonormal eigenvectors of the `count` largest eigenvalues of a symmetric A, the largest first.

    Each is found by Lanczos steps orthogonal to those before, from its own column of `near`. The sum of their values is
    too small by more than ``slack(sum, spread of the eigenvalues)`` only with probability `_DOUBT` each.
    """
    n, W, total, bottom = A.shape[0], np.empty((A.shape[0], 0), A.dtype), 0.0, 0.0
    if n <= _SMALL or 5 * count * steps > n:
        return _dense_space(A, count)
    for j in range(count):

        def level(ritz: Ritz, before: float = total, left: int = count - j) -> float:
            spread = float(ritz.values[-1] - ritz.values[0])
            missed = slack(before + float(ritz.values[-left:].sum()), spread) / count
            rounding = 4 * float(np.finfo(A.dtype).eps) * float(np.abs(ritz.values).max())
            return float(ritz.values[-1]) + max(missed, rounding)

        start, hidden = random_start(n, None if near is None else near[:, j], j, _DOUBT)
        start = _orthogonal(start, W).astype(A.dtype)
        w, ritz = _lanczos(_deflated(A, W, bottom), start, hidden, steps, level)
        unsettled = len(ritz.values) == _MOST < n <= _GRAM_LIMIT and not ritz.excludes(level(ritz))
        if unsettled and (j > 0 or not _at_most(_array(A), level(ritz))):
            return _dense_space(A, count)
        total, bottom = total + float(ritz.values[-1]), bottom if j else float(ritz.values[0])
        W = np.column_stack([W, _orthogonal(w, W)])
    return W


def eigenvalue_bound(A: Any, count: int, slack: Callable[[float], float] | None = None) -> float:
    r"""Return an upper bound on the sum of the `count` largest eigenvalues of a symmetric A.

    The j-th is at most the largest of A on the orthogonal complement of any j - 1 vectors (Courant & Fischer). The
    accuracy is that of `spectral_bound`.
    """
    n, norm = A.shape[0], float(abs(A).sum(axis=1).max())  # The largest row sum is at least the spectral norm.
    W, total, bottom, tried = np.empty((n, 0)), 0.0, 0.0, None
    for j in range(count if n > (_GRAM_LIMIT if slack is None else _DENSE) else 0):

        def level(ritz: Ritz, before: float = total, left: int = count - j) -> float:
            allowed = 0.0 if slack is None else slack(before + float(ritz.values[-left:].sum())) / count
            return float(ritz.values[-1]) + max(1e-12 * float(np.abs(ritz.values).max()), allowed)

        start, hidden = random_start(n, None, count + j, FAILURE / count)
        w, ritz = _lanczos(_deflated(A, W, bottom), _orthogonal(start, W), hidden, _LOOK, level)
        if n <= _GRAM_LIMIT and not ritz.excludes(level(ritz)):
            tried = level(ritz) if count == 1 else None
            break
        total, bottom = total + ritz.bound(), bottom if j else float(ritz.values[0])
        W = np.column_stack([W, _orthogonal(w, W)])
    if W.shape[1] < count:
        total = _largest_eigenvalues(_array(A), count, tried)
    return total + count * n * _EPS * norm


def _deflated(A: Any, W: Array, bottom: float) -> Callable[[Array], Array]:
    """Return A on the orthogonal complement of the columns of W, which get the eigenvalue `bottom`."""
    if not W.shape[1]:
        return lambda w: np.asarray(dot(A, w))

    def apply(w: Array) -> Array:
        along = dot(W.T, w)
        image = np.asarray(dot(A, w - dot(W, along)))
        return image + dot(W, A.dtype.type(bottom) * along - dot(W.T, image))

    return apply


def _orthogonal(w: Array, W: Array) -> Array:
    """Return the unit vector of the part of w that is orthogonal to the columns of W."""
    for _ in range(2):  # The second time removes the rounding error of the first.
        w = w - dot(W, dot(W.T, w))
    return w / norm(w)


def _at_most(A: Array, level: float) -> bool:
    """Return whether a dense symmetric A has no eigenvalue above `level`, by a Cholesky decomposition.

    For 1500 rows it takes a seventh of the time of the largest eigenvalue.
    """
    shifted = np.negative(A)
    shifted[np.diag_indices(len(A))] += A.dtype.type(level)
    return scipy.linalg.get_lapack_funcs("potrf", (shifted,))(shifted, clean=0, overwrite_a=1)[1] == 0


def _largest_eigenvalues(A: Array, count: int, level: float | None) -> float:
    """Return the sum of the largest eigenvalues of a dense symmetric A, or a level that the largest does not exceed."""
    if level is not None and _at_most(A, level):
        return level
    n = len(A)
    return float(scipy.linalg.eigvalsh(A, subset_by_index=(n - count, n - 1)).sum())


def _array(A: Any) -> Array:
    return A.toarray() if sp.issparse(A) else A


def _dense_space(A: Any, count: int) -> Array:
    n = A.shape[0]
    return scipy.linalg.eigh(_array(A), subset_by_index=(n - count, n - 1))[1][:, ::-1]


class Extreme(NamedTuple):
    """Upper bound on the largest eigenvalue, the largest Ritz value, and Ritz vectors as columns."""

    bound: float
    value: float
    vectors: Any


class Recurrence(ABC):
    """Lanczos steps from a random vector that keep three vectors only, on one kind of arrays."""

    #: Order of the matrix.
    n: int
    #: A lower bound on the product of the start with any unit vector, see `random_start`.
    hidden: float

    @abstractmethod
    def extend(self, count: int, late: Callable[[], bool]) -> tuple[list[float], list[float]]:
        """Take further steps, `count` if there is time, and return all entries of the tridiagonal matrix so far.

        These are the entries on the diagonal and beside it, one of each per step. A zero beside the diagonal ends the
        recurrence.
        """

    @abstractmethod
    def combine(self, weights: Array) -> Any:
        """Return sums of the vectors of all steps as columns. The vectors are computed again."""


class HostRecurrence(Recurrence):
    """Lanczos steps with arrays of NumPy, for a function that multiplies a vector by the matrix."""

    def __init__(self, apply: Callable[[Array], Array], n: int, seed: int) -> None:
        self.n = n
        start, self.hidden = random_start(n, None, seed, FAILURE)
        self._alpha: list[float] = []
        self._beta: list[float] = []
        self._steps = _recurrence(apply, start, self._alpha, self._beta)
        self._apply, self._start = apply, start

    def extend(self, count: int, late: Callable[[], bool]) -> tuple[list[float], list[float]]:
        for _ in islice(self._steps, count):
            if late():
                break
        return self._alpha, self._beta

    def combine(self, weights: Array) -> Array:
        vectors = np.zeros((self.n, weights.shape[1]))
        for row, w in zip(weights, _recurrence(self._apply, self._start, [], []), strict=False):
            vectors += np.outer(w, row)
        return np.asarray(scipy.linalg.qr(vectors, mode="economic")[0])


def long_lanczos(
    recurrence: Recurrence,
    slack: Callable[[float], float],
    count: Callable[[float], int],
    most: int,
    late: Callable[[], bool],
) -> Extreme:
    """Return a bound on the largest eigenvalue by many Lanczos steps that keep three vectors only.

    Steps end if the bound exceeds the largest Ritz value by at most ``slack(value)``, after `most` steps, or if the
    time is over. A second recurrence with the same vectors adds up ``count(value)`` Ritz vectors. The bound fails with
    probability `FAILURE` at most.

    Without orthogonalisation, the recurrence equals an exact one for a larger matrix, whose eigenvalues lie within
    rounding errors of those of the given matrix and share their weights in the start (Greenbaum, 1989). So the
    argument of `Ritz.excludes` still holds, with an allowance for that distance.
    """
    more = min(_LOOK, most)
    while True:
        alpha, beta = recurrence.extend(more, late)
        steps = len(alpha)
        value = float(_eigenvalues(alpha, beta, steps - 1)[0])
        size = max(map(abs, alpha)) + 2 * max(beta)  # at least the norm of the tridiagonal matrix
        excludes = partial(_excludes, alpha, beta, recurrence.hidden)
        enough = excludes(value + max(slack(value), 1e-12 * size))
        if enough or beta[-1] == 0 or steps >= most or late():
            break
        more = min(max(_LOOK, steps // 4), most - steps)
    bound = _smallest_excluded(excludes, value, size or 1.0) if beta[-1] else value
    bound += 8 * (steps + math.sqrt(recurrence.n)) * _EPS * size
    wanted = count(value)
    if not wanted:
        return Extreme(bound, value, None)
    chosen = _distinct(_eigenvalues(alpha, beta), wanted, 1e-8 * size)
    weights = scipy.linalg.eigh_tridiagonal(alpha, beta[:-1], select="i", select_range=(chosen[-1], steps - 1))[1]
    return Extreme(bound, value, recurrence.combine(weights[:, np.array(chosen) - chosen[-1]]))


def _eigenvalues(alpha: list[float], beta: list[float], first: int = 0) -> Array:
    """Return the eigenvalues of a tridiagonal matrix, the smallest first, from a given number on."""
    chosen = {"select": "i", "select_range": (first, len(alpha) - 1)} if first else {}
    return np.asarray(scipy.linalg.eigvalsh_tridiagonal(alpha, beta[:-1], **chosen))


def _excludes(alpha: list[float], beta: list[float], hidden: float, level: float) -> bool:
    """Return `Ritz.excludes` from the pivots of ``level I - T``: their product is that of all ``level - theta_i``."""
    pivot, before, total = math.inf, 0.0, 0.0
    for a, b in zip(alpha, beta, strict=True):
        pivot = level - a - before * before / pivot
        if pivot <= 0:
            return False
        if b == 0:
            return True
        total, before = total + math.log(pivot / b), b
    return total >= hidden


def _recurrence(
    apply: Callable[[Array], Array], start: Array, alpha: list[float], beta: list[float]
) -> Iterator[Array]:
    """Yield the Lanczos vectors and append the entries of the tridiagonal matrix, until it has a zero."""
    w, before, size = start / norm(start), np.zeros_like(start), 0.0
    while True:
        image = apply(w)
        alpha.append(float(dot(w, image)))
        image -= alpha[-1] * w
        if beta:
            image -= beta[-1] * before
        length = float(norm(image))
        size = max(size, abs(alpha[-1]), length)
        beta.append(length if length > _EPS * size * math.sqrt(len(start)) else 0.0)
        yield w
        if beta[-1] == 0:
            return
        before, w = w, image / length


def _distinct(values: Array, count: int, distance: float) -> list[int]:
    """Return the places of the largest values that differ by more than a distance; lost orthogonality repeats some."""
    chosen = [len(values) - 1]
    for place in range(len(values) - 2, -1, -1):
        if len(chosen) == count:
            break
        if values[chosen[-1]] - values[place] > distance:
            chosen.append(place)
    return chosen
