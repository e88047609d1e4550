"""Linear programs in units of their own size, for a solver whose tolerances are absolute."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog
from scipy.sparse.linalg import lsmr

from fwflow._numerics import dot, norm, quietly
from fwflow._validation import Array
from fwflow.sets.highs import WarmSolver

# Feasibility tolerance of HiGHS in the units of the program; the smallest that it accepts.
_HIGHS = 1e-10
# Number of sweeps over the rows to find implied bounds, which each sweep may tighten. Chosen without tuning.
_SWEEPS = 10
# Margin of an implied bound, relative to the terms of its row: HiGHS drops coefficients below 1e-9.
_LOOSE = 2.0**-27
# HiGHS treats bounds of this absolute value as infinite.
_FAR = 1e30
_EPS = float(np.finfo(np.float64).eps)
# Statuses of SciPy's linprog.
_SOLVED, _EMPTY, _UNBOUNDED = 0, 2, 3


class Optimum(NamedTuple):
    """Solution x of a linear program, the multipliers y of its rows, and its basis (empty if HiGHS starts cold)."""

    status: int
    message: str
    x: Array
    y: Array
    basis: Array


class Program:
    r"""Linear program: minimise :math:`\langle g, x\rangle` over :math:`Ax \le b,\; Cx = d,\; l \le x \le u`.

    All data are in units that are powers of two. The unit of an entry of x is its largest absolute value, and the unit
    of a row is its largest term. Scaling the coordinates or rows of the polytope by powers of two changes only the
    units.

    With ``warm_start``, the simplex method starts from the basis of an earlier vertex; this needs highspy.
    """

    def __init__(
        self,
        A: Any,
        b: Array | None,
        C: Any,
        d: Array | None,
        lower: Array,
        upper: Array,
        warm_start: bool = False,
    ) -> None:
        n, given = len(lower), [(M, rhs) for M, rhs in ((A, b), (C, d)) if M is not None and rhs is not None]
        rows = sp.vstack([sp.csr_array((0, n)), *(sp.coo_array(M) for M, _ in given)], dtype=np.float64).tocsr()
        rows.sum_duplicates()
        rows.eliminate_zeros()
        side = np.concatenate([np.zeros(0), *(rhs for _, rhs in given)])
        #: Number of rows of A. They come first, followed by the rows of C.
        self.inequalities = 0 if A is None else A.shape[0]
        (i, j), a = rows.tocoo().coords, rows.data
        equal = i >= self.inequalities
        least, most = _implied(
            np.append(i, len(side) + i[equal]),
            np.append(j, j[equal]),
            np.append(a, -a[equal]),
            np.append(side, -side),
            lower.astype(np.float64),
            upper.astype(np.float64),
        )
        #: Exponents of two of the units of x.
        self.exponent = exponent = _exponents(_units(i, j, np.abs(a), np.abs(side), least, most))
        row_exponent = np.full(len(side), np.iinfo(np.int32).min)
        np.maximum.at(row_exponent, i, _exponents(a) + exponent[j])
        row_exponent = np.where(np.diff(rows.indptr) > 0, row_exponent, _exponents(side))
        rows.data = np.ldexp(a, exponent[j] - row_exponent[i])
        self.rows = rows
        with np.errstate(over="ignore"):
            self.side = np.clip(np.ldexp(side, -row_exponent), -_FAR, _FAR)
            self.lower, self.upper = np.ldexp(lower, -exponent), np.ldexp(upper, -exponent)
            #: The tighter ones of the given bounds and those that the rows imply.
            self.least, self.most = np.ldexp(least, -exponent), np.ldexp(most, -exponent)
        self._bounded = np.isfinite(self.least) & np.isfinite(self.most)
        #: Largest absolute values of the entries of a member, at most 1; exactly 1 for an entry without bounds.
        self.size = np.where(self._bounded, np.maximum(np.abs(self.least), np.abs(self.most)), 1.0)
        # SciPy's arguments. Dense rows are faster if at least a quarter of the entries is nonzero.
        system, k = rows.toarray() if rows.nnz > rows.shape[0] * rows.shape[1] / 4 else rows, self.inequalities
        self._system: dict[str, Any] = {"bounds": np.column_stack([self.least, self.most])}
        if k:
            self._system |= {"A_ub": system[:k], "b_ub": self.side[:k]}
        if k < len(side):
            self._system |= {"A_eq": system[k:], "b_eq": self.side[k:]}
        self._warm = None
        if warm_start:
            self._warm = WarmSolver(rows, self.side, k, self.least, self.most, _HIGHS)

    def vertex(self, g: Array, advice: Array | None = None) -> tuple[Array, Array]:
        """Return a vertex that minimises <g, x>, and its advice: multipliers that certify it, and its basis.

        A warm solver starts from the basis in the advice of another vertex.
        """
        cost, power = self._cost(g)
        known = advice is not None and len(advice) == 2 * len(self.side) + len(self.lower)
        found = self._minimise(cost, advice[len(self.side) :] if known else None)  # type: ignore[index]
        with np.errstate(over="ignore"):
            x, y = np.ldexp(np.clip(found.x, self.least, self.most), self.exponent), np.ldexp(found.y, power)
        return x, np.append(y, found.basis)

    def status(self, g: Array) -> str:
        """Return "solved" if <g, x> has a minimum, or "empty", "unbounded", or the message of HiGHS."""
        found = self._solve(self._cost(g)[0], None)
        return {_SOLVED: "solved", _EMPTY: "empty", _UNBOUNDED: "unbounded"}.get(found.status, found.message)

    def box_diagonal(self, places: Array) -> float:
        """Return the diagonal of the bounding box of the entries at some places."""
        widths = []
        for place in places:
            unit = np.zeros(len(self.lower))
            unit[place] = 1.0
            widths.append(self.vertex(-unit)[0][place] - self.vertex(unit)[0][place])
        return float(norm(widths))

    @property
    def sizes(self) -> Array:
        """Upper bounds on the absolute values of the entries; for entries without bounds, estimates."""
        return np.ldexp(self.size, self.exponent)

    def bound(self, g: Array, x: Array, advice: Array | None) -> float:
        """Return a lower bound on <g, x>, from the multipliers of x, or by another linear program if they are poor.

        All multipliers of the right sign give a bound, with the reduced costs at the bounds of the entries.
        """
        cost, power = self._cost(g)
        multipliers = None if advice is None else advice[: len(self.side)]
        loose = max(_LOOSE, 8 * float(np.finfo(x.dtype).eps))
        with np.errstate(over="ignore"):
            x = np.ldexp(x.astype(np.float64), -self.exponent)
            y = None if multipliers is None else np.ldexp(multipliers, -power)
        size = np.maximum(self.size, np.abs(x))
        proved, rest = -np.inf, cost
        if y is not None and np.isfinite(y).all():
            proved, rest = self._proved(cost, y, size, 0.0)
        if rest.any() or dot(cost, x) - proved > loose * float(dot(np.abs(cost), size)):
            proved = self._least(cost, size, 0.0)
        return float(np.ldexp(proved, power))

    def _least(self, cost: Array, size: Array, noise: float) -> float:
        """Return the bound by the multipliers of HiGHS. A cost that remains is minimised by another program."""
        value, rest = self._proved(cost, self._minimise(cost, None).y, size, noise)
        if not rest.any():
            return value
        power = int(_exponents(np.abs(rest).max()))
        noise = 8 * _EPS * float(np.ldexp(dot(np.abs(cost), size), -power))
        return value + float(np.ldexp(self._least(np.ldexp(rest, -power), size, noise), power))

    def _proved(self, cost: Array, y: Array, size: Array, noise: float) -> tuple[float, Array]:
        """Return the bound by multipliers, and the remaining cost on entries without bounds, zero if only rounding."""
        value, rest = self._weak(cost, y)
        terms = dot(np.abs(cost) + dot(abs(self.rows).T, np.abs(y)), size) + dot(np.abs(self.side), np.abs(y))
        noise += 8 * _EPS * float(terms)
        if noise < dot(np.abs(rest), size) < _LOOSE * float(dot(np.abs(cost), size)):
            value, rest = self._weak(cost, self._polished(y, rest))
        charge = float(dot(np.abs(rest), size))
        return (value - charge, np.zeros_like(rest)) if charge <= noise else (value, rest)

    def _weak(self, cost: Array, y: Array) -> tuple[float, Array]:
        """Return the dual value of multipliers, and the reduced costs of entries without a finite bound."""
        y = np.where(np.arange(len(y)) < self.inequalities, np.minimum(y, 0), y)
        reduced = cost - dot(self.rows.T, y)
        end = np.where(reduced > 0, self.least, self.most)
        closed = np.isfinite(end)
        return float(dot(self.side, y) + dot(reduced[closed], end[closed])), np.where(closed, 0.0, reduced)

    def _polished(self, y: Array, rest: Array) -> Array:
        """Return the multipliers with the smallest change that leaves no cost, because HiGHS leaves its tolerance."""
        used, left = np.flatnonzero(y), np.flatnonzero(rest)
        change = quietly(lsmr)(self.rows[used][:, left].T, rest[left], atol=1e-10, btol=1e-10, maxiter=4 * len(used))[0]
        y = y.copy()
        y[used] += change
        return y

    def holds(self, x: Array, tol: float, noise: Array) -> bool:
        """Return whether x satisfies all bounds and rows, up to `tol` of their sizes and the effect of `noise` in x."""
        with np.errstate(over="ignore"):
            x, noise = np.ldexp(x, -self.exponent), np.ldexp(noise, -self.exponent)
        if not np.isfinite(x).all():
            return False
        size = np.where(self._bounded, self.size, np.maximum(self.size, np.abs(x)))
        slack, terms = tol * size + noise, abs(self.rows)
        excess = dot(self.rows, x) - self.side
        excess = np.where(np.arange(len(excess)) < self.inequalities, excess, np.abs(excess))
        return bool(
            (x >= self.lower - slack).all()
            and (x <= self.upper + slack).all()
            and (excess <= tol * (dot(terms, size) + np.abs(self.side)) + dot(terms, noise)).all()
        )

    def _cost(self, g: Array) -> tuple[Array, int]:
        """Return g in the units of x, times a power of two so that its largest entry is between 1/2 and 1."""
        power = int(np.where(g == 0, np.iinfo(np.int32).min, _exponents(g) + self.exponent).max()) if g.any() else 0
        return np.ldexp(g, self.exponent - power), power

    def _minimise(self, cost: Array, basis: Array | None) -> Optimum:
        found = self._solve(cost, basis)
        if found.status == _EMPTY:
            raise ValueError("A, b, C, d, lower, upper describe an empty set")
        if found.status == _UNBOUNDED:
            raise ValueError("A, b, C, d, lower, upper describe an unbounded set; Frank-Wolfe needs a bounded one")
        if found.status != _SOLVED:
            raise RuntimeError(f"HiGHS could not minimise over the polytope: {found.message}")
        return found

    def _solve(self, cost: Array, basis: Array | None) -> Optimum:
        if self._warm is not None:
            warm = self._warm.minimise(cost, basis)
            if warm is not None:
                return Optimum(_SOLVED, "", *warm)
        answer = quietly(linprog)(
            cost,
            **self._system,
            method="highs-ds",
            options={"dual_feasibility_tolerance": _HIGHS, "primal_feasibility_tolerance": _HIGHS},
        )
        y = np.zeros(0)
        if answer.status == _SOLVED:
            y = np.concatenate([answer.ineqlin.marginals, answer.eqlin.marginals])
        return Optimum(answer.status, answer.message, answer.x, y, np.zeros(0))


def _exponents(x: Array) -> Array:
    """Return the exponents of the powers of two just above the absolute values of the entries; 0 for a zero entry."""
    return np.frexp(x)[1].astype(np.int64)


def _implied(i: Array, j: Array, a: Array, side: Array, lower: Array, upper: Array) -> tuple[Array, Array]:
    """Return the bounds, tightened by those that rows ``sum of a x <= side`` imply for one entry.

    There is a margin, because a narrower range may be only rounding in the data, which must not become a unit.
    """
    rows, up = len(side), a > 0
    with np.errstate(over="ignore"):
        for _ in range(_SWEEPS):
            term = a * np.where(up, lower[j], upper[j])  # The smallest possible value.
            free = ~np.isfinite(term)
            term[free] = 0.0
            sums = np.bincount(i, term, rows)
            margin = _LOOSE * (np.bincount(i, np.abs(term), rows) + np.abs(side))
            limit = ((side - sums + margin)[i] + term) / a
            bounded = np.bincount(i, free, rows)[i] == free  # All other terms are bounded below.
            before = lower, upper
            lower, upper = lower.copy(), upper.copy()
            np.minimum.at(upper, j[bounded & up], limit[bounded & up])
            np.maximum.at(lower, j[bounded & ~up], limit[bounded & ~up])
            if np.array_equal(before, (lower, upper)):
                break
    return lower, upper


def _units(i: Array, j: Array, a: Array, side: Array, least: Array, most: Array) -> Array:
    """Return the largest absolute values of the entries.

    For an entry without bounds it is the lower quartile of the sizes at which its term alone equals its row.
    """
    bounds = np.abs([least, most])
    unit = np.where(np.isfinite(bounds), bounds, 0.0).max(axis=0)
    known = np.isfinite(bounds).all(axis=0) & (unit > 0)
    while not known.all():
        rest = side.copy()
        with np.errstate(over="ignore"):
            np.maximum.at(rest, i, a * np.where(known, unit, 0.0)[j])
            alone = rest[i] / a
        sized = ~known[j] & (alone > 0) & np.isfinite(alone)
        if not sized.any():
            break
        alone, column = alone[sized], j[sized]
        order = np.lexsort((alone, column))
        found, first, count = np.unique(column[order], return_index=True, return_counts=True)
        unit[found] = np.maximum(alone[order[first + count // 4]], unit[found])
        known[found] = True
    return np.where(unit > 0, unit, 1.0)
