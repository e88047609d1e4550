"""Transport plans between two distributions of mass."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from fwflow._fingerprints import fingerprint
from fwflow._numerics import dot
from fwflow._storage import storable
from fwflow._validation import Array, finite_array
from fwflow.points.vertices import Shape, SparseVertex, Vertex
from fwflow.sets.base import KnownSet, size_of
from fwflow.sets.programs import Program

# Masses of the two sides may differ by this share, which rounding in sums of single precision makes.
_ROUNDED = 1e-6
# POT gives up after so many pivots.
_PIVOTS = 10**8


@storable("plan", valid=lambda v: v.in_order)
@dataclass(frozen=True, eq=False)
class Plan(SparseVertex):
    """A transport plan by its entries. The oracle's advice are prices of the rows and columns, which prove it best."""

    advice: Array | None = None

    @property
    def storage(self) -> int:
        return super().storage + (0 if self.advice is None else len(self.advice))


class TransportPolytope(KnownSet):
    r""":math:`\{X \ge 0 : X \mathbf 1 = a,\; X^T \mathbf 1 = b\}`, the plans that carry the mass a to b.

    A vertex has at most m + n - 1 entries that are not zero. POT's network simplex method finds it
    (``pip install 'fwflow[ot]'``), from the prices of the hint on; without POT, HiGHS does, as exactly where masses are
    within eight orders of magnitude. Either leaves prices that prove how good it is. It starts at the product of a and
    b over the mass. Vectors of length m n are read as matrices row by row, so linear models work too.

    Parameters
    ----------
    a, b : (m,) and (n,) arrays
        Masses, not negative and with the same positive sum: b is scaled by what rounding makes them differ.

    Notes
    -----
    :Family: matrices
    :Oracle: the cheapest transport plan, with at most :math:`m + n - 1` entries, by POT or HiGHS
    :Cost: a network simplex

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> C = fw.TransportPolytope([0.5, 0.5], [0.25, 0.75])
    >>> np.asarray(C.lmo(np.array([[0.0, 1.0], [1.0, 0.0]])))
    array([[0.25, 0.25],
           [0.  , 0.5 ]])
    """

    polytope = True
    shape: Shape

    def __init__(self, a: ArrayLike, b: ArrayLike) -> None:
        self.a, self.b = (_masses(side, name) for side, name in ((a, "a"), (b, "b")))
        mass, other = float(self.a.sum()), float(self.b.sum())
        if abs(mass - other) > _ROUNDED * mass:
            raise ValueError(f"a and b must have the same mass; their sums are {mass:g} and {other:g}")
        self.b = self.b * (mass / other)
        self.shape = (len(self.a), len(self.b))

    def __repr__(self) -> str:
        return f"TransportPolytope({self.shape[0]} x {self.shape[1]})"

    def fingerprint(self) -> str:
        return fingerprint(self, self.a, self.b)

    def lmo(self, g: Array, hint: Vertex | None = None) -> Plan:
        if g.size != size_of(self.shape):
            raise ValueError(f"g must hold {self.shape[0]} x {self.shape[1]} entries for {self!r}; got {g.shape}")
        cost = g.reshape(self.shape).astype(np.float64)
        power = math.frexp(float(np.abs(cost).max()))[1]
        advice = None if hint is None else hint.advice
        if advice is not None and len(advice) != sum(self.shape):
            advice = None
        emd = _network_simplex()
        solve = self._by_program if emd is None else self._by_network(emd)
        plan, prices = solve(np.ldexp(cost, -power), None if advice is None else np.ldexp(advice, -power))
        indices = np.flatnonzero(plan)
        return Plan(indices, plan.reshape(-1)[indices], g.shape, np.ldexp(prices, power) if cost.any() else 0 * prices)

    def _by_network(self, emd: Callable[..., Any]) -> Callable[[Array, Array | None], tuple[Array, Array]]:
        """With a mass of one, beside which POT tells what is zero."""

        def solve(cost: Array, advice: Array | None) -> tuple[Array, Array]:
            near = None if advice is None or not np.isfinite(advice).all() else tuple(np.split(advice, [len(self.a)]))
            mass = float(self.a.sum())
            plan, log = emd(
                self.a / mass,
                self.b / mass,
                cost,
                numItermax=_PIVOTS,
                log=True,
                check_marginals=False,
                potentials_init=near,
            )
            if log["warning"] is not None:
                raise RuntimeError(f"POT could not minimise over the plans: {log['warning']}")
            return mass * plan, np.append(log["u"], log["v"])

        return solve

    def _by_program(self, cost: Array, advice: Array | None) -> tuple[Array, Array]:
        program, cells, kept, units = self._program
        plan, prices = np.zeros(self.shape), np.zeros(sum(self.shape))
        plan[cells], found = program.vertex(cost[cells].reshape(-1))
        prices[kept] = np.ldexp(found, units)
        return plan, prices

    @cached_property
    def _program(self) -> tuple[Program, Array, Array, Array]:
        """The linear program, its cells and sums, and powers of two that make multipliers of these sums prices.

        Rows and columns without mass have no part in it. The largest sum follows from the others, but for rounding.
        """
        cells = np.logical_and.outer(self.a > 0, self.b > 0)
        rows, columns = np.nonzero(cells)
        masses, size = np.append(self.a, self.b), len(rows)
        places = np.append(rows, len(self.a) + columns), np.tile(np.arange(size), 2)
        sums = sp.csr_array((np.ones(2 * size), places), shape=(len(masses), size))
        kept = np.flatnonzero(masses)
        kept = np.delete(kept, int(masses[kept].argmax()))
        program = Program.of(None, None, sums[kept], masses[kept], np.zeros(size), np.full(size, np.inf))
        first = program.rows.indptr[:-1]
        units = np.frexp(program.rows.data[first])[1] - 1 - program.exponent[program.rows.indices[first]]
        return program, cells, kept, units

    def lower_bound(self, g: Any, vertex: Vertex) -> float:
        """What the prices of the rows prove, with the best that the columns can ask beside them."""
        cost, prices = np.asarray(g, dtype=np.float64).reshape(self.shape), vertex.advice
        if prices is None or len(prices) != sum(self.shape):
            return self.lower_bound(g, self.lmo(cost))
        u = prices[: len(self.a)]
        v = (cost - u[:, None])[self.a > 0].min(axis=0)
        return float(dot(self.a, u) + dot(self.b, v))

    def start(self, shape: Shape | None = None, dtype: Any = np.float64) -> Array:
        shape = self.shape if shape is None else shape
        if size_of(shape) != size_of(self.shape):
            raise ValueError(f"shape must hold {self.shape[0]} x {self.shape[1]} entries for {self!r}; got {shape}")
        return np.outer(self.a, self.b / self.b.sum()).reshape(shape).astype(dtype)

    def near(self, x: Array, tol: float, noise: Array) -> bool:
        x, noise = x.reshape(self.shape), noise.reshape(self.shape)
        with np.errstate(over="ignore"):
            sums = [
                np.abs(x.sum(axis=axis) - side) <= tol * side + noise.sum(axis=axis)
                for axis, side in ((1, self.a), (0, self.b))
            ]
        entries = x >= -tol * np.minimum.outer(self.a, self.b) - noise
        return bool(entries.all() and all(fits.all() for fits in sums))

    def diameter(self, shape: Shape | None = None) -> float:
        """At most this: no entry exceeds the lesser of the two masses that it joins."""
        most = np.minimum.outer(self.a, self.b)
        longest = min(float(dot(self.a, most.max(axis=1))), float(dot(self.b, most.max(axis=0))))
        return math.sqrt(2 * longest) if min(self.shape) > 1 else 0.0


def _masses(value: ArrayLike, name: str) -> Array:
    masses = finite_array(value, name, ndim=1, dtype=np.float64)
    if (masses < 0).any():
        place = int(masses.argmin())
        raise ValueError(f"{name} must not be negative; {name}[{place}] is {masses[place]:g}")
    if not masses.sum() > 0:
        raise ValueError(f"{name} must have a positive sum; it has none")
    return masses


def _network_simplex() -> Callable[..., Any] | None:
    """POT's, where it is installed; importing it takes a second, so that nobody does before it is needed."""
    try:
        from ot.lp import emd  # type: ignore[import-untyped]
    except ImportError:
        return None
    return emd
