"""Butcher tableaus: validation, stages and weights of a step, certificate and order."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.polynomial import Polynomial
from numpy.polynomial.polynomial import polyroots, polyval
from numpy.typing import ArrayLike, NDArray

from fwflow._numerics import dot
from fwflow._validation import InputError, finite_array, is_plain, number, positive, whole

# Mixture weights are Python numbers, not arrays: floats keep float32 data in float32, Fractions are exact, and under
# jax.jit they may be tracers.
Weights = tuple[list[list[Any]], list[Any]]


def mixture_weights(A: Sequence[Sequence[Any]], beta: Sequence[Any], gamma: Sequence[Any]) -> Weights:
    r"""Write a multistep step as a mixture of the current point and the stages' vertices.

    With :math:`\Gamma = \mathrm{diag}(\gamma)` and :math:`Q = (I + \Gamma A)^{-1}\Gamma`, return
    :math:`W = A Q` (row i has i entries) and :math:`p = Q^T \beta`, so that

    .. math:: \bar x_i = x + \sum_{j<i} W_{ij} (s_j - x), \qquad x^+ = x + \sum_i p_i (s_i - x).
    """
    Q: list[list[Any]] = []
    W: list[list[Any]] = []
    p: list[Any] = []
    # Forward substitution in xi_i = gamma_i (s_i - x - sum_j A_ij xi_j).
    for A_i, beta_i, gamma_i in zip(A, beta, gamma, strict=True):
        row: list[Any] = [0] * len(Q)
        for a, earlier in zip(A_i, Q, strict=False):
            for j, entry in enumerate(earlier):
                row[j] += a * entry
        own = [-gamma_i * w for w in row]
        own.append(gamma_i)
        p.append(0)
        for j, entry in enumerate(own):
            p[j] += beta_i * entry
        W.append(row)
        Q.append(own)
    return W, p


def stages(point: Any, W: Sequence[Sequence[Any]], oracle: Callable[[int, Any], Any]) -> list[Any]:
    r"""Return the targets :math:`s_i` of the stages :math:`\bar x_i`; ``oracle(i, x_bar)`` returns that of stage i.

    It does not branch on values, so that it also runs under ``jax.jit``.
    """
    s: list[Any] = []
    for i, row in enumerate(W):
        s.append(oracle(i, point.mix(zip(row, s, strict=True)) if row else point))
    return s


@dataclass(frozen=True, eq=False)
class Certificate:
    """Feasibility of one step of a tableau: whether it stays inside every convex set.

    Attributes
    ----------
    p, z : (q,) arrays
        Weights of the stage vertices in the step, and the paper's ``z = q p``.
    W : tuple of tuples
        Row i holds the weights of the earlier vertices in stage point i.
    feasible : bool
        Whether ``p >= 0`` and ``sum(p) <= 1``, so that the next point is a convex combination.
    stages_feasible : bool
        Whether each row of ``W`` is non-negative with sum at most one, so that stage points stay inside too.
    feasible_from : int or None
        The smallest k such that step k and all later steps are feasible, or None if there is no such k.

    See Also
    --------
    Tableau : Its method ``certificate`` returns this object.
    UncertifiedWarning : Warning of a run with an infeasible tableau.

    Examples
    --------
    >>> import fwflow as fw
    >>> certificate = fw.tableaus["rk44"].certificate(c=2.0, k=1)
    >>> certificate.feasible, certificate.z.round(4)
    (True, array([0.2449, 0.5986, 0.5714, 0.3333]))
    >>> fw.tableaus["midpoint"].certificate(c=2.0, k=1).feasible
    False
    """

    p: NDArray[np.float64]
    z: NDArray[np.float64]
    W: tuple[tuple[float, ...], ...]
    feasible: bool
    stages_feasible: bool
    feasible_from: int | None


# Absolute tolerance for the rounding of weights and of their sums, which are at most 1. At k = 0, gamma = 1 gives
# sum(p) = 1 in exact arithmetic. Chosen without tuning.
_ROUNDING = 1e-12


def is_convex(weights: Sequence[float]) -> bool:
    """Return whether ``x + sum_i w_i (s_i - x)`` is a convex combination, up to rounding."""
    return not weights or (min(weights) >= -_ROUNDING and sum(weights) <= 1 + _ROUNDING)


@dataclass(frozen=True, eq=False)
class Tableau:
    r"""Explicit Runge-Kutta scheme :math:`(A, \beta, \omega)`.

    Parameters
    ----------
    A : (q, q) array_like
        Strictly lower triangular stage coefficients.
    beta : (q,) array_like
        Weights of the stages; they sum to one.
    omega : (q,) array_like, optional
        Times of the stages within the step; the first is zero. Default: the row sums of ``A``.
    name : str, optional
        Name in results and figures; "custom" by default.

    See Also
    --------
    tableaus : Catalogue of tableaus by name.
    Certificate : Feasibility of a step.
    checks.observed_order : Measured order.

    Examples
    --------
    >>> import fwflow as fw
    >>> heun = fw.Tableau([[0, 0], [1, 0]], [1/2, 1/2], [0, 1], name="my Heun")
    >>> heun.order, heun.stages
    (2, 2)
    >>> fw.tableaus["midpoint"].certificate(c=2.0, k=1).z.round(4)
    array([-0.381 ,  1.1429])
    """

    A: NDArray[np.float64]
    beta: NDArray[np.float64]
    omega: NDArray[np.float64]
    name: str

    def __init__(self, A: ArrayLike, beta: ArrayLike, omega: ArrayLike | None = None, name: str = "custom") -> None:
        A, beta = finite_array(A, "A", ndim=2), finite_array(beta, "beta", ndim=1)
        omega = A.sum(axis=1) if omega is None else finite_array(omega, "omega", ndim=1)
        q = len(beta)
        if q == 0:
            raise InputError("beta is empty; a tableau needs at least one stage")
        if A.shape != (q, q):
            raise InputError(f"A has shape {A.shape}; beta has {q} entries, so A must be ({q}, {q})")
        if omega.shape != (q,):
            raise InputError(f"omega has {len(omega)} entries; beta has {q}, so omega must have {q}")
        if np.triu(A).any():
            raise InputError("A must be strictly lower triangular: only explicit schemes are accepted")
        if abs(beta.sum() - 1) > _ROUNDING:
            raise InputError(f"beta must sum to 1 for consistency; it sums to {beta.sum():.17g}")
        if omega[0] != 0:
            raise InputError(f"omega must start with 0; it starts with {omega[0]:g}")
        for field, value in (("A", A), ("beta", beta), ("omega", omega)):
            value = value.astype(np.float64)
            value.flags.writeable = False
            object.__setattr__(self, field, value)
        object.__setattr__(self, "name", name)

    def __repr__(self) -> str:
        return f"Tableau(name={self.name!r}, stages={self.stages}, order={self.order})"

    @property
    def stages(self) -> int:
        """Number of stages q: gradient and oracle calls in one step."""
        return len(self.beta)

    @cached_property
    def times(self) -> list[float]:
        """The entries of `omega` as Python numbers."""
        return self.omega.tolist()

    @cached_property
    def _rows(self) -> tuple[list[list[float]], list[float]]:
        return self.A.tolist(), self.beta.tolist()

    def mixture(self, gamma: Sequence[Any]) -> Weights:
        """Return the weights of a step with the step size ``gamma[i]`` at stage i.

        The result is ``(W, p)``. Stage point i is ``x + sum_j W[i][j] (s_j - x)``, and the next point is
        ``x + sum_i p[i] (s_i - x)``, with the vertices ``s_i`` of the stages.
        """
        A, beta = self._rows
        return mixture_weights(A, beta, gamma)

    @cached_property
    def order(self) -> int:
        """Order of accuracy, from the conditions of rooted trees up to order 5 (Hairer, Norsett & Wanner, II.2)."""
        for n in range(1, 6):
            for phi, density in _forests(self, n - 1):  # Branches of the root of a tree with n nodes.
                if abs(float(dot(self.beta, phi)) - 1 / (n * density)) > 1e-10:
                    return n - 1
        return 5

    def certificate(self, c: float = 2.0, k: int = 1, delta: float = 1.0) -> Certificate:
        """Return the feasibility of step k with the schedule ``gamma(t) = c / (c + t)``.

        Parameters
        ----------
        c, delta
            Parameters of the open-loop schedule; ``c >= 1``, ``delta > 0``.
        k
            Number of the step, counted from 0.
        """
        c, delta = number(c, "c", "be at least 1 and finite", lambda x: 1 <= x < math.inf), positive(delta, "delta")
        k = whole(k, "k", 0)
        if c + (k + self.omega.min()) * delta <= 0:
            raise InputError(f"omega has a stage at {self.omega.min():g}, where the schedule c/(c+t) is not defined")
        gamma = [delta * c / (c + (k + w) * delta) for w in self.omega.tolist()]
        W, p = self.mixture(gamma)
        return Certificate(
            p=np.array(p),
            z=self.stages * np.array(p),
            W=tuple(map(tuple, W)),
            feasible=is_convex(p),
            stages_feasible=all(map(is_convex, W)),
            feasible_from=_feasible_from(self, c, delta),
        )

    @classmethod
    def from_file(cls, path: str | Path) -> Tableau:
        """Read a tableau from a TOML or JSON file with ``A``, ``beta`` and optionally ``omega`` and ``name``.

        Entries may be numbers or fractions written as text, such as ``"1/6"``.
        """
        path = Path(path)
        if path.suffix not in (".toml", ".json"):
            raise InputError(f"path must end in .toml or .json; got {str(path)!r}")
        try:
            text = path.read_text(encoding="utf-8")
            fields = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
            if not isinstance(fields, dict) or not {"A", "beta"} <= fields.keys() <= {"A", "beta", "omega", "name"}:
                raise InputError("the keys must be A, beta and optionally omega and name")
            name = str(fields.pop("name", path.stem))
            return cls(**{key: _numbers(value, key) for key, value in fields.items()}, name=name)
        except ValueError as error:
            raise InputError(f"{path.name}: {error}") from error


def _numbers(entry: Any, name: str) -> Any:
    if isinstance(entry, list):
        return [_numbers(e, name) for e in entry]
    try:
        return float(Fraction(entry if not isinstance(entry, str) or is_plain(entry) else ""))
    except (TypeError, ValueError, ZeroDivisionError, OverflowError):
        raise InputError(f"{name} must hold finite numbers or fractions such as '1/6'; got {entry!r}") from None


def _forests(tableau: Tableau, n: int) -> Iterator[tuple[NDArray[np.float64], float]]:
    """Yield stage weights and density of all ordered sequences of rooted trees with n nodes in total.

    Sequences that differ only in their order give the same order condition twice.
    """
    if n == 0:
        yield np.ones(tableau.stages), 1.0
    for size in range(1, n + 1):
        trees = [(dot(tableau.A, phi), size * density) for phi, density in _forests(tableau, size - 1)]
        if size == 1:  # A leaf stands for x, with the row sums of A, or for t, with omega.
            trees.append((tableau.omega, 1.0))
        for (phi, density), (others, other_density) in product(trees, _forests(tableau, n - size)):
            yield phi * others, density * other_density


def _exact(value: float) -> Fraction:
    """Return the simple fraction that a float approximates, such as 1/6, or else its exact value."""
    simple = Fraction(value).limit_denominator(10**6)
    return simple if float(simple) == value else Fraction(value)


def _feasible_from(tableau: Tableau, c: float, delta: float) -> int | None:
    r"""Return the smallest k from which every step is feasible, from the roots of polynomials.

    Put :math:`g = \Delta\gamma(t)`; stage i mixes with :math:`g / L_i(g)`,
    :math:`L_i(g) = 1 + g \omega_i / c`. Then :math:`p_i` and :math:`1 - \sum p_i` are polynomials
    in g over products of positive :math:`L_i`. If they are non-negative for small g, they become negative first at
    their smallest positive root. Coefficients are exact fractions, because the leading ones of high-order tableaus
    cancel.
    """
    A = [[_exact(a) for a in row] for row in tableau.A.tolist()]
    g = Polynomial([Fraction(0), Fraction(1)])
    L = [1 + _exact(w) / _exact(c) * g for w in tableau.omega.tolist()]

    # p = Gamma y with y_i = beta_i - sum_{j>i} A_ji gamma_j y_j, multiplied by the denominators.
    Y: list[Any] = [g] * len(L)
    for i, beta in reversed([*enumerate(tableau.beta.tolist())]):
        later = [A[j][i] * Y[j] * math.prod(L[i + 1 : j]) for j in range(i + 1, len(L))]
        Y[i] = _exact(beta) * math.prod(L[i + 1 :]) - g * sum(later)
    slack = math.prod(L) - g * sum([y * math.prod(L[:i]) for i, y in enumerate(Y)])

    first_failure = math.inf
    for polynomial in (part.coef for part in (*Y, slack)):
        nonzero = np.flatnonzero(polynomial)
        if not len(nonzero):
            continue
        order = nonzero[0]
        if polynomial[order] < 0:
            return None
        coefficients = np.trim_zeros(polynomial[order:].astype(np.float64), "b")
        roots = polyroots(coefficients) if len(coefficients) > 1 else np.array([])
        real = np.sort(roots[np.abs(roots.imag) <= 1e-6 * np.abs(roots)].real)
        edges = [*real[real > 0].tolist(), 2 * real.max(initial=1.0) + 1]
        for root, beyond in pairwise(edges):  # At a double root, the polynomial does not change its sign.
            if polyval((_exact(root) + _exact(beyond)) / 2, polynomial) < 0:
                first_failure = min(first_failure, root)
                break
    # g < first_failure, that is k > c / first_failure - c / delta. At the root itself p_i = 0 is feasible.
    defined_from = math.floor(-float(tableau.omega.min()) - c / delta) + 1  # Gamma must be defined at every stage.
    return max(0, defined_from, math.ceil(c / first_failure - c / delta - 1e-9))
