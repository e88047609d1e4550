"""Engine of JAX for programs with a given diagonal: sweeps with momentum, and Lanczos steps, on a GPU or a processor.

The notation is that of `sweeps`: unit rows u_i of U, the matrix G = D C D without its diagonal, and ``g = G U``.

Nodes are divided into groups, nearly always the classes of a colouring, and renumbered so that every group is a slice.
One after the other, the groups set ``u_i = -h_i / |h_i|`` with ``h_i = g_i - s_i u_i``. The shift s_i is the sum of
``|G_ij|`` over the neighbours j in the same group, which is zero for a colour class. The value never increases: the part
of G within a group, minus the diagonal of the shifts, is negative semidefinite, so the value is at most its linear part.
A sweep starts from ``U + beta (U - U_before)``, with the weights of Nesterov, which start again when the last step
points against the momentum (O'Donoghue & Candes, 2015).

U is stored in single precision. Values, multipliers and Lanczos steps are computed from it in double precision.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from fwflow._validation import Array
from fwflow.methods.problem import Late
from fwflow.semidefinite.diagonal import DiagonalEngine, Improved
from fwflow.semidefinite.eigenvalues import smallest_eigenvalue
from fwflow.semidefinite.operators import SparseOperator
from fwflow.semidefinite.program import DualBound
from fwflow.sets.lanczos import FAILURE, Recurrence, long_lanczos, random_start

_EPS = float(np.finfo(np.float64).eps)
# Largest number of groups, since every group takes compilation time, and smallest share of the nodes in a group of its
# own. Colours with fewer nodes share the last group if they have few nodes together, else they are added to the groups.
_GROUPS, _SMALL_GROUP, _FEW_NODES = 16, 0.02, 0.1
# Largest number of rounds of the colouring. Random graphs of degree 6 with 10^6 nodes take 12.
_ROUNDS = 40
# Number of neighbours that one step of a product adds up, and largest number that a row holds. Longer rows are divided.
_STRIP, _LONGEST = 8, 32
# Rows are padded to few lengths, since each takes compilation time: to at most `_LENGTHS` ones, and to fewer if that
# adds less than `_PADDING` of the entries.
_LENGTHS, _PADDING = 4, 0.1
# Number of columns at the start, and of eigenvectors among the new columns.
_FIRST_RANK, _EIGENVECTORS = 16, 4
# Length of random new columns and of eigenvectors, relative to the other columns.
_NOISE, _LENGTH = 0.03, 0.3
# Number of sweeps before the first certificate, growth of that number from one certificate to the next, and number of
# sweeps between two looks at the clock.
_FIRST_SWEEPS, _GROWTH, _CHUNK = 50, 1.3, 10
# A certificate is computed if the last sweeps lowered the value by at most this multiple of the gap that is wanted.
_UNSETTLED = 3.0
# Columns are added if the last sweeps lowered the value by at most this share of the gap that is left.
_STALLED = 0.005
# Ratio of the gap to the gap that is wanted, above which the number of columns is multiplied by 4 instead of 2.
_FAR = 8.0
# Smallest relative gap for which factors in single precision are used to the end.
_SINGLE = 1e-6
# Accuracy of the eigenvalue relative to the gap that is wanted, and relative to its size while it is large.
_SLACK_SHARE, _VALUE_SHARE = 0.1, 0.2
# Largest number of Lanczos steps for a bound, and number of steps between two looks at the clock.
_MOST_STEPS, _STEPS = 4000, 64
# Largest order of a matrix whose eigenvalues are computed on the host.
_SMALL = 400


class Rows(NamedTuple):
    """Rows of a matrix, padded to one length with zeros: entry [k, l, i] is entry ``8 k + l`` of row i."""

    cols: Any
    values: Any
    #: Row to which a part of a long row belongs; None if rows are complete.
    owner: Any = None
    #: Array with one entry for each of the complete rows, whose shape tells their number.
    place: Any = None


def groups_of(matrix: sp.csr_array, seed: int = 0) -> Array:
    """Return a group for every node, such that few neighbours, usually none, are in the same group.

    Nodes choose random colours that no neighbour has. Of two neighbours with the same colour, one chooses again
    (Gebremedhin & Manne, 2000). Frequent colours are groups, rare ones share groups.
    """
    n, indptr, indices = matrix.shape[0], matrix.indptr.astype(np.int64), matrix.indices
    degrees, rng = np.diff(indptr), np.random.default_rng(seed)
    few = max(2, min(_GROUPS, int(degrees.mean()) + 1))
    colour, nodes = np.full(n, 63, dtype=np.uint8), np.arange(n)
    for _ in range(_ROUNDS):
        count = degrees[nodes]
        first = np.cumsum(count) - count
        entries = np.arange(count.sum()) + np.repeat(indptr[nodes] - first, count)
        neighbours, has = indices[entries], count > 0
        taken = np.zeros(len(nodes), dtype=np.uint64)
        bits = np.left_shift(np.uint64(1), colour[neighbours], dtype=np.uint64)
        taken[has] = np.bitwise_or.reduceat(bits, first[has]) if len(bits) else 0
        choice = rng.integers(0, few, len(nodes), dtype=np.uint8)
        blocked = np.arange(len(nodes))
        for attempt in range(63):
            blocked = blocked[(taken[blocked] >> choice[blocked].astype(np.uint64)) & np.uint64(1) > 0]
            if not len(blocked):
                break
            choice[blocked] = (choice[blocked] + 1) % few if attempt < few else (choice[blocked] + 1) % 63
        colour[nodes] = choice
        clash = colour[neighbours] == np.repeat(choice, count)
        clash &= neighbours > np.repeat(nodes, count)
        lost = np.zeros(len(nodes), dtype=bool)
        lost[has] = np.logical_or.reduceat(clash, first[has]) if len(clash) else False
        nodes = nodes[lost]
        if not len(nodes):
            break
        colour[nodes] = 63  # no colour yet
    sizes = np.bincount(colour, minlength=64)
    rank = np.argsort(np.argsort(-sizes, kind="stable"), kind="stable")
    frequent = min(_GROUPS - 1, int((sizes >= _SMALL_GROUP * n).sum()))
    many = sizes[rank >= frequent].sum() > _FEW_NODES * n
    return (rank % _GROUPS if many else np.minimum(rank, frequent)).astype(np.uint8)[colour]


def padded_lengths(degrees: Array) -> Array:
    """Return the length to which every row is padded, at most `_LONGEST`: a few lengths with little padding."""
    counts = np.bincount(np.minimum(degrees, _LONGEST), minlength=_LONGEST + 1)
    allowed = [0, *range(1, _STRIP), *range(_STRIP, _LONGEST + 1, _STRIP)]
    rounded = np.searchsorted(allowed, np.arange(_LONGEST + 1))
    sizes = {allowed[i]: int(counts[rounded == i].sum()) for i in range(len(allowed))}
    sizes = {length: size for length, size in sizes.items() if size}
    allowance = _PADDING * sum(length * size for length, size in sizes.items())
    while len(sizes) > 1:
        lengths = list(sizes)
        padding = [(b - a) * sizes[a] for a, b in zip(lengths, lengths[1:], strict=False)]
        i = int(np.argmin(padding))
        allowance -= padding[i]
        if len(sizes) <= _LENGTHS and allowance < 0:
            break
        sizes[lengths[i + 1]] += sizes.pop(lengths[i])
    lengths = np.array(list(sizes))
    return lengths[np.searchsorted(lengths, np.minimum(degrees, _LONGEST))]


class Layout(NamedTuple):
    """A symmetric matrix for the device: rows of every group in parts of the same length, in a new order of nodes."""

    #: New number of each node, and the node of each new number.
    place: Array
    order: Array
    #: The parts of each group.
    groups: list[list[Rows]]
    #: Sum of the absolute values of entries within a group, for each new number.
    shifts: Array


def layout(G: sp.csr_array) -> Layout:
    """Return the arrays for the products with a matrix without diagonal."""
    n, indptr, degrees = G.shape[0], G.indptr.astype(np.int64), np.diff(G.indptr)
    group, length = groups_of(G), padded_lengths(degrees)
    long = degrees > _LONGEST
    key = (group.astype(np.int16) * (_LONGEST + 1) + length) * 2 + long
    order = np.argsort(key, kind="stable")
    place = np.empty(n, dtype=np.int32)
    place[order] = np.arange(n, dtype=np.int32)
    exact = G.data.astype(np.float32)
    data = exact if np.array_equal(exact, G.data) else G.data
    inside = np.repeat(group, degrees) == group[G.indices]
    shifts = np.bincount(np.repeat(np.arange(n), degrees)[inside], np.abs(G.data[inside]), n)[order]

    def rows(nodes: Array) -> Rows:
        owner, begin, size, width = None, indptr[nodes], degrees[nodes], int(length[nodes[0]])
        if long[nodes[0]]:
            parts = -(-size // _LONGEST)
            owner = np.repeat(np.arange(len(nodes), dtype=np.int32), parts)
            offset = _LONGEST * (np.arange(len(owner)) - np.repeat(np.cumsum(parts) - parts, parts))
            begin, size = np.repeat(begin, parts) + offset, np.minimum(np.repeat(size, parts) - offset, _LONGEST)
        slots = np.arange(width)[:, None]
        filled = slots < size
        entries = np.where(filled, begin + slots, 0)
        # An empty slot points to the row itself, which is near in memory.
        near = place[nodes] if owner is None else place[nodes][owner]
        cols = np.where(filled, place[G.indices[entries]], near) if width else np.zeros((0, len(nodes)), np.int32)
        values = np.where(filled, data[entries], data.dtype.type(0)) if width else np.zeros((0, len(nodes)), data.dtype)
        shape = (-(-width // _STRIP), min(width, _STRIP) or 1, cols.shape[1])
        return Rows(cols.reshape(shape), values.reshape(shape), owner, None if owner is None else place[nodes])

    ends = np.flatnonzero(np.diff(key[order], append=-1)) + 1
    parts = np.split(order, ends[:-1])
    groups = [[rows(nodes) for nodes in parts if group[nodes[0]] == g] for g in range(_GROUPS)]
    return Layout(place, order, [group for group in groups if group], shifts)


class _Kernels:
    """Compiled functions. All are called with double precision enabled; the type of U decides that of the sweeps."""

    def __init__(self) -> None:
        try:
            import jax
        except ImportError:
            raise ImportError("backend='jax' needs JAX: pip install 'fwflow[jax]'") from None
        self.jax, self.jnp, self.lax = jax, jax.numpy, jax.lax
        self.sweeps = jax.jit(self._sweeps)
        self.evaluate = jax.jit(self._evaluate)
        self.lanczos = jax.jit(self._lanczos, static_argnames="length")
        self.ritz_vectors = jax.jit(self._ritz_vectors)
        self.unit_rows = jax.jit(self._unit_rows)

    def product(self, rows: Rows, V: Any, dtype: Any) -> Any:
        """Return rows of ``G V`` for a block of vectors V, or for one vector."""
        cols, values = rows.cols, rows.values

        def strip(total: Any, entries: tuple[Any, Any]) -> tuple[Any, None]:
            for col, value in zip(*entries, strict=True):
                gathered = V.at[col].get(mode="promise_in_bounds").astype(dtype)
                value = value.astype(dtype)
                total = total + (value if V.ndim == 1 else value[:, None]) * gathered
            return total, None

        total = self.jnp.zeros(cols.shape[2:] + V.shape[1:], dtype)
        if cols.shape[0] == 1:
            total, _ = strip(total, (cols[0], values[0]))
        elif cols.shape[0]:
            total, _ = self.lax.scan(strip, total, (cols, values))
        if rows.owner is None:
            return total
        return self.jax.ops.segment_sum(total, rows.owner, len(rows.place), indices_are_sorted=True)

    def slices(self, groups: Sequence[Sequence[Rows]]) -> list[list[tuple[slice, Rows]]]:
        """Return the parts of each group with their places."""
        first, found = 0, []
        for group in groups:
            found.append([])
            for rows in group:
                size = rows.cols.shape[2] if rows.place is None else len(rows.place)
                found[-1].append((slice(first, first + size), rows))
                first += size
        return found

    def _unit_rows(self, V: Any) -> Any:
        """Return rows divided by their length; a row of zeros becomes the first unit vector."""
        length = self.jnp.sqrt((V * V).sum(axis=1, keepdims=True))
        first = self.jnp.zeros(V.shape[1], V.dtype).at[0].set(1)
        return self.jnp.where(length > 0, V / self.jnp.where(length > 0, length, 1), first)

    def _sweeps(self, groups: Any, shifts: Any, U: Any, before: Any, t: Any, count: Any) -> tuple[Any, Any, Any]:
        """Return U after a number of sweeps, U before the last one, and the weight t of the momentum."""
        jnp, dtype = self.jnp, U.dtype
        places = self.slices(groups)

        def sweep(_: Any, carry: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
            U, before, t = carry
            t_next = (1 + jnp.sqrt(1 + 4 * t * t)) / 2
            V = self._unit_rows(U + ((t - 1) / t_next).astype(dtype) * (U - before))
            against = jnp.zeros((), dtype)
            for group in places:
                # All rows of a group use the same neighbours, also within the group.
                fields = [self.product(rows, V, dtype) for _, rows in group]
                for (where, _), g in zip(group, fields, strict=True):
                    old = V[where]
                    h = g - shifts[where, None] * old
                    length = jnp.sqrt((h * h).sum(axis=1, keepdims=True))
                    new = jnp.where(length > 0, -h / jnp.where(length > 0, length, 1), old)
                    against += ((old - new) * (new - U[where])).sum()
                    V = V.at[where].set(new)
            return V, U, jnp.where(against > 0, 1.0, t_next)

        return self.lax.fori_loop(0, count, sweep, (U, before, t))

    def _evaluate(self, groups: Any, U: Any) -> tuple[Any, Any]:
        """Return <g_i, u_i> and |g_i| in double precision, for rows of U that are rescaled to unit length."""
        jnp, double = self.jnp, self.jnp.float64
        inverse = 1 / jnp.sqrt((U.astype(double) ** 2).sum(axis=1))
        along, lengths = [], []
        for where, rows in (part for group in self.slices(groups) for part in group):
            g = self.product(rows._replace(values=rows.values * inverse[rows.cols]), U, double)
            along.append((g * U[where].astype(double)).sum(axis=1) * inverse[where])
            lengths.append(jnp.sqrt((g * g).sum(axis=1)))
        return jnp.concatenate(along), jnp.concatenate(lengths)

    def _step(self, groups: Any, scale: Any, diagonal: Any, w: Any) -> Any:
        """Return the product of ``-(scale G scale + diagonal)`` with a vector."""
        scaled = scale * w
        parts = [self.product(rows, scaled, w.dtype) for group in groups for rows in group]
        return -(scale * self.jnp.concatenate(parts) + diagonal * w)

    def _next(self, groups: Any, scale: Any, diagonal: Any, w: Any, before: Any, beta: Any) -> tuple[Any, Any, Any]:
        """Return the entries of the tridiagonal matrix for the vector w, and the next vector."""
        jnp = self.jnp
        image = self._step(groups, scale, diagonal, w)
        alpha = (w * image).sum()
        image = image - alpha * w - beta * before
        length = jnp.sqrt((image * image).sum())
        return alpha, length, image / jnp.where(length > 0, length, 1)

    def _lanczos(
        self, groups: Any, scale: Any, diagonal: Any, w: Any, before: Any, beta: Any, count: Any, length: int
    ) -> tuple[Any, Any, Any, Any]:
        """Return `length` entries on and beside the diagonal, of which `count` are computed, and the last vectors."""
        jnp = self.jnp

        def step(k: Any, carry: Any) -> Any:
            alphas, betas, w, before, beta = carry
            alpha, beta, following = self._next(groups, scale, diagonal, w, before, beta)
            return alphas.at[k].set(alpha), betas.at[k].set(beta), following, w, beta

        empty = jnp.zeros(length, w.dtype)
        alphas, betas, w, before, _ = self.lax.fori_loop(0, count, step, (empty, empty, w, before, beta))
        return alphas, betas, w, before

    def _ritz_vectors(self, groups: Any, scale: Any, diagonal: Any, w: Any, weights: Any) -> Any:
        """Return sums of Lanczos vectors as rows, with one row of weights per vector."""
        jnp = self.jnp

        def step(carry: Any, row: Any) -> tuple[Any, None]:
            total, w, before, beta = carry
            _, beta, following = self._next(groups, scale, diagonal, w, before, beta)
            return (total + row[:, None] * w, following, w, beta), None

        total = jnp.zeros((weights.shape[1], len(w)), w.dtype)
        carry = (total, w, jnp.zeros_like(w), jnp.zeros((), w.dtype))
        return self.lax.scan(step, carry, weights)[0][0]


@cache
def kernels() -> _Kernels:
    """Return the compiled functions. JAX is imported at the first call."""
    return _Kernels()


class _DeviceRecurrence(Recurrence):
    """Lanczos steps on the device, for ``-(scale G scale + diagonal)``."""

    def __init__(self, groups: Any, scale: Any, diagonal: Any) -> None:
        start, self.hidden = random_start(len(scale), None, 0, FAILURE)
        self._matrix = groups, scale, diagonal
        self._start = kernels().jnp.asarray(start / np.linalg.norm(start))
        self._last = self._start, kernels().jnp.zeros_like(self._start)
        self._alpha: list[float] = []
        self._beta: list[float] = []

    def extend(self, count: int, late: Late) -> tuple[list[float], list[float]]:
        while count > 0:
            steps = min(count, _STEPS)
            beta = np.float64(self._beta[-1] if self._beta else 0.0)
            alphas, betas, *self._last = kernels().lanczos(*self._matrix, *self._last, beta, steps, length=_STEPS)
            self._alpha += np.asarray(alphas)[:steps].tolist()
            self._beta += np.asarray(betas)[:steps].tolist()
            count -= steps
            if late():
                break
        rounding = _EPS * math.sqrt(len(self._start)) * max(map(abs, self._alpha + self._beta))
        for k, beta in enumerate(self._beta):
            if beta <= rounding:
                return self._alpha[: k + 1], [*self._beta[:k], 0.0]
        return self._alpha, self._beta

    def combine(self, weights: Array) -> Any:
        # A few numbers of rows need few compilations.
        padding = np.zeros((-len(weights) % 256, weights.shape[1]))
        return kernels().ritz_vectors(*self._matrix, self._start, np.concatenate([weights, padding]))


class _Momentum(NamedTuple):
    """State of the sweeps: U before the last one, the weight t, the number of sweeps to do, and the last value."""

    before: Any
    t: Any
    sweeps: int
    value: float


class _Curvature(NamedTuple):
    """Directions of negative curvature as rows, and the factor by which the number of columns shall grow."""

    rows: Any
    factor: int


class DeviceEngine(DiagonalEngine):
    """Sweeps and Lanczos steps with JAX for a sparse cost matrix, on the default device of JAX."""

    def __init__(self, matrix: sp.csr_array, b: Array) -> None:
        self._kernels = kernels()
        self.n, self.roots = len(b), np.sqrt(b)
        D = sp.diags_array(self.roots)
        scaled = matrix if (b == 1).all() else sp.csr_array(D @ matrix @ D)
        self.diagonal = scaled.diagonal()
        self.constant = math.fsum(self.diagonal)
        self.G = sp.csr_array(scaled - sp.diags_array(self.diagonal))
        self.G.eliminate_zeros()
        self.degrees = np.asarray(abs(self.G).sum(axis=1)).ravel()
        self.total = math.fsum(self.degrees)
        found = layout(self.G)
        self._place, self._order = found.place, found.order
        scale = np.divide(1.0, np.sqrt(self.degrees), out=np.zeros(self.n), where=self.degrees > 0)
        with self._double():
            self._groups = self._kernels.jax.tree.map(self._kernels.jnp.asarray, found.groups)
            self._shifts = self._kernels.jnp.asarray(found.shifts)
            self._scale = self._kernels.jnp.asarray(scale[self._order])
        # Decrease of the value by the last sweeps.
        self._gain = math.inf

    def _double(self) -> Any:
        return self._kernels.jax.enable_x64(True)

    @property
    def first_rank(self) -> int:
        """Number of columns at the start; more than sqrt(2 n) are never needed (Barvinok, 1995; Pataki, 1998)."""
        return min(_FIRST_RANK, math.isqrt(2 * self.n) + 1)

    def start(self, rank: int, seed: int) -> Any:
        jax = self._kernels.jax
        with self._double():
            normal = jax.random.normal(jax.random.key(seed), (self.n, rank), np.float32)
            return self._kernels.unit_rows(normal)

    def from_numpy(self, Y: Array) -> Any:
        with self._double():
            return self._kernels.unit_rows(self._kernels.jnp.asarray(Y[self._order], np.float32))

    def to_numpy(self, Y: Any) -> Array:
        U = np.asarray(Y, np.float64)[self._place]
        return U * (self.roots / np.sqrt(np.einsum("ir,ir->i", U, U)))[:, None]

    def value(self, Y: Any) -> float:
        with self._double():
            return self.constant + float(self._kernels.evaluate(self._groups, Y)[0].sum())

    def trivial(self) -> DualBound:
        y = (self.diagonal - self.degrees) / self.roots**2
        return DualBound(self.constant - self.total * (1 + 4 * self.n * _EPS), y)

    def improve(self, Y: Any, memory: _Momentum | None, goal: float, late: Late) -> Improved:
        with self._double():
            if memory is None:
                memory = _Momentum(Y, 1.0, _FIRST_SWEEPS, self.value(Y))
            U, before, t, sweeps = Y, memory.before, memory.t, memory.sweeps
            if self._gain <= _SINGLE * abs(memory.value) and goal < _SINGLE * abs(memory.value):
                U, before = U.astype(np.float64), before.astype(np.float64)
            shifts = self._shifts.astype(U.dtype)
            for done in range(0, sweeps, _CHUNK):
                U, before, t = self._kernels.sweeps(
                    self._groups, shifts, U, before, np.float64(t), min(_CHUNK, sweeps - done)
                )
                t = float(t)  # waits for the device
                if late():
                    break
            value = self.value(U)
        self._gain = memory.value - value
        settled = self._gain <= max(_UNSETTLED * goal, _SINGLE * abs(value))
        return Improved(U, value, _Momentum(before, t, math.ceil(_GROWTH * sweeps), value), settled)

    def certify(self, Y: Any, goal: float, late: Late) -> DualBound:
        with self._double():
            along, lengths = self._kernels.evaluate(self._groups, Y)
            # These multipliers are those after one more sweep, see `sweeps`.
            y = np.asarray(-lengths)[self._place]
            value, ascent = float(along.sum()), -math.fsum(y)
            slack = _SLACK_SHARE * goal / self.total if self.total else 1.0

            def gap(lowest: float) -> float:
                return value + ascent + max(0.0, -lowest) * self.total

            def is_stalled(lowest: float) -> bool:
                return gap(lowest) > goal and self._gain <= _STALLED * gap(lowest)

            if self.n <= _SMALL:
                D = sp.diags_array(np.asarray(self._scale)[self._place])
                S = sp.csr_array(D @ (self.G - sp.diags_array(y)) @ D)
                least = smallest_eigenvalue(SparseOperator(S), slack, count=_EIGENVECTORS)
                lowest, bound, rows = least.value, least.bound, None
                if is_stalled(lowest):
                    rows = self._kernels.jnp.asarray(least.vectors[self._order].T)
            else:
                found = long_lanczos(
                    _DeviceRecurrence(self._groups, self._scale, lengths * self._scale**2),
                    lambda value: max(slack, _VALUE_SHARE * value),
                    lambda value: _EIGENVECTORS if is_stalled(-value) else 0,
                    _MOST_STEPS,
                    late,
                )
                lowest, bound, rows = -found.value, -found.bound, found.vectors
        # The gap falls about like the square of the number of columns.
        factor = 4 if gap(lowest) > _FAR * goal else 2
        vectors = None if rows is None else _Curvature(rows, factor)
        # The last terms are for the rounding of the scaled matrix and of the sums.
        shift = max(0.0, -bound) + 8 * _EPS
        bound = self.constant - ascent - shift * self.total - 4 * _EPS * (ascent + abs(self.constant))
        return DualBound(bound, (self.diagonal + y - shift * self.degrees) / self.roots**2, vectors)

    def widen(self, Y: Any, vectors: _Curvature, goal: float) -> tuple[Any, None]:
        jax, jnp, rank = self._kernels.jax, self._kernels.jnp, Y.shape[1]
        most = math.isqrt(2 * self.n) + 1
        columns = max(min(vectors.factor * rank, most) - rank, len(vectors.rows))
        with self._double():
            added = _NOISE / math.sqrt(columns) * jax.random.normal(jax.random.key(rank), (self.n, columns), Y.dtype)
            along = (vectors.rows * self._scale).T
            along = along / jnp.sqrt((along**2).mean(axis=0))
            added = added.at[:, : len(vectors.rows)].add((_LENGTH * along).astype(Y.dtype))
            return self._kernels.unit_rows(jnp.concatenate([Y, added], axis=1)), None
