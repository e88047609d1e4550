"""Engine of JAX for programs with a given diagonal: sweeps with momentum, and Lanczos steps, on a GPU or a processor.

The notation is that of `SparseDiagonalEngine`, and ``g = G U``.

Nodes are divided into groups, nearly always the classes of a colouring, and renumbered so that every group is a slice.
One after the other, the groups set ``u_i = -h_i / |h_i|`` with ``h_i = g_i - s_i u_i``. The shift s_i is the sum of
``|G_ij|`` over the neighbours j in the same group, so it is zero for a colour class. Such a sweep never raises the
value: as a function of the rows of one group, and up to a constant, the value is concave after the shifts, so it is at
most its linear part. A sweep starts from ``U + beta (U - U_before)`` with the weights of Nesterov. The weights start
again when the last step points against the momentum (O'Donoghue & Candes, 2015).

U is stored in single precision. Values, multipliers and Lanczos steps are computed from it in double precision.
"""

from __future__ import annotations

import math
from functools import cache, partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from fwflow._numerics import dot, norm
from fwflow._validation import Array
from fwflow.methods.problem import Late
from fwflow.semidefinite.diagonal import Improved, SparseDiagonalEngine
from fwflow.semidefinite.eigenvalues import smallest_eigenvalue
from fwflow.semidefinite.operators import SparseOperator
from fwflow.semidefinite.program import DualBound
from fwflow.sets.lanczos import FAILURE, Recurrence, long_lanczos, random_start

_EPS = float(np.finfo(np.float64).eps)
# Largest number of groups, since every group takes compilation time, and smallest share of the nodes in a group of its
# own. Colours with fewer nodes share the last group if they have few nodes together, else they are added to the groups.
_GROUPS, _SMALL_GROUP, _FEW_NODES = 16, 0.02, 0.1
# Colour of nodes without a colour, which is the number of colours. Sets of colours are 64-bit numbers.
_NONE = 63
# Largest number of rounds of the colouring. Conflicts that are left get a shift. Chosen without tuning.
_ROUNDS = 40
# Number of neighbours that one step of a product adds up, and largest number that a row holds. Longer rows are divided.
_STRIP, _LONGEST = 8, 32
# Rows are padded to few lengths, since each takes compilation time: to at most `_LENGTHS` ones, and to fewer if that
# adds less than `_PADDING` of the entries or less than `_ENTRIES` ones. Groups are padded to the same number of rows if
# that adds less than `_PADDING` or less than `_NODES` rows. The last two take microseconds.
_LENGTHS, _PADDING, _ENTRIES, _NODES = 4, 0.1, 20_000, 500
# Number of columns at the start, and of eigenvectors among the new columns.
_FIRST_RANK, _EIGENVECTORS = 16, 4
# Length of random new columns and of eigenvectors, relative to the other columns. Chosen without tuning, as are the
# numbers below that decide when certificates are computed and columns are added.
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
# Accuracy of the eigenvalue relative to the gap that is wanted, to the rest of it that the estimated eigenvalue leaves,
# and to the eigenvalue itself while it is large.
_SLACK_SHARE, _REST_SHARE, _VALUE_SHARE = 0.1, 0.7, 0.2
# Largest number of Lanczos steps for a bound, and number of steps between two looks at the clock.
_MOST_STEPS, _STEPS = 4000, 64
# Largest order of a matrix whose eigenvalues are computed on the host.
_SMALL = 400


class Rows(NamedTuple):
    """Rows of a matrix that are padded with zeros to one length, for several groups: entry [g, k, l, i].

    It is entry ``8 k + l`` of row i of group g. A long row is divided into several ones.
    """

    cols: Any
    values: Any
    #: Number of the long row to which a row [g, i] belongs; None if rows are not divided.
    owner: Any = None
    #: Array with one entry [g, i] for every long row.
    wholes: Any = None

    @property
    def size(self) -> int:
        """Number of nodes in each group."""
        return int((self.cols if self.owner is None else self.wholes).shape[-1])


def groups_of(matrix: sp.csr_array, seed: int = 0) -> Array:
    """Return a group for every node, such that few neighbours, usually none, are in the same group.

    Nodes choose random colours that no neighbour has. Of two neighbours with the same colour, the one of lower degree
    chooses again (Gebremedhin & Manne, 2000). Frequent colours are groups, rare ones share groups.
    """
    n, indptr, indices = matrix.shape[0], matrix.indptr.astype(np.int64), matrix.indices
    degrees, rng = np.diff(indptr), np.random.default_rng(seed)
    few = max(2, min(_GROUPS, int(degrees.mean()) + 1))
    priority = np.empty(n, dtype=np.int32)
    priority[np.argsort(np.minimum(degrees, 2**15 - 1).astype(np.int16), kind="stable")] = np.arange(n)
    colour, nodes = np.full(n, _NONE, dtype=np.uint8), np.arange(n)
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
        for attempt in range(few + _NONE):
            blocked = blocked[(taken[blocked] >> choice[blocked].astype(np.uint64)) & np.uint64(1) > 0]
            if not len(blocked):
                break
            choice[blocked] = (choice[blocked] + 1) % (few if attempt < few else _NONE)
        colour[nodes] = choice
        clash = colour[neighbours] == np.repeat(choice, count)
        clash &= priority[neighbours] > np.repeat(priority[nodes], count)
        lost = np.zeros(len(nodes), dtype=bool)
        lost[has] = np.logical_or.reduceat(clash, first[has]) if len(clash) else False
        nodes = nodes[lost]
        if not len(nodes):
            break
        colour[nodes] = _NONE
    sizes = np.bincount(colour, minlength=_NONE + 1)
    rank = np.argsort(np.argsort(-sizes, kind="stable"), kind="stable")
    frequent = min(_GROUPS - 1, int((sizes >= max(1, _SMALL_GROUP * n)).sum()))
    many = sizes[rank >= frequent].sum() > _FEW_NODES * n
    return (rank % _GROUPS if many else np.minimum(rank, frequent)).astype(np.uint8)[colour]


def padded_lengths(degrees: Array) -> Array:
    """Return the length to which every row is padded, at most `_LONGEST`: a few lengths with little padding."""
    counts = np.bincount(np.minimum(degrees, _LONGEST), minlength=_LONGEST + 1)
    allowed = [*range(_STRIP), *range(_STRIP, _LONGEST + 1, _STRIP)]
    rounded = np.searchsorted(allowed, np.arange(_LONGEST + 1))
    sizes = {length: int(counts[rounded == i].sum()) for i, length in enumerate(allowed)}
    sizes = {length: size for length, size in sizes.items() if size}
    allowance = max(_ENTRIES, _PADDING * sum(length * size for length, size in sizes.items()))
    while len(sizes) > 1:
        lengths = list(sizes)
        padding = [(b - a) * sizes[a] for a, b in pairwise(lengths)]
        i = int(np.argmin(padding))
        allowance -= padding[i]
        if len(sizes) <= _LENGTHS and allowance < 0:
            break
        sizes[lengths[i + 1]] += sizes.pop(lengths[i])
    lengths = list(sizes)
    return np.array(lengths)[np.searchsorted(lengths, np.minimum(degrees, _LONGEST))]


class Layout(NamedTuple):
    """A symmetric matrix for the device, in a new order of nodes."""

    #: New number of each node, and the node of each new number, -1 if there is none.
    place: Array
    order: Array
    #: Stacks of groups that have the same shape. All groups of a stack consist of the same parts.
    stacks: list[list[Rows]]
    #: Sum of the absolute values of the entries within the group of each node.
    shifts: Array


def layout(G: sp.csr_array) -> Layout:
    """Return the arrays for the products with a matrix without diagonal."""
    degrees, group = np.diff(G.indptr), groups_of(G)
    sizes = np.bincount(group)
    first, *others = np.argsort(-sizes, kind="stable")[: np.count_nonzero(sizes)]
    stacks = [[first]]
    for g in others:
        largest = sizes[stacks[-1][0]]
        if largest - sizes[g] > max(_NODES, _PADDING * largest):
            stacks.append([])
        stacks[-1].append(g)
    # The nodes of each part of each stack, one list per group, and the length of their rows.
    parts: list[list[tuple[list[Array], int]]] = []
    order = [np.zeros(0, dtype=np.int64)]
    for stack in stacks:
        members = [np.flatnonzero(group == g) for g in stack]
        length = padded_lengths(degrees[np.concatenate(members)])
        lengths = np.split(length + (degrees[np.concatenate(members)] > _LONGEST), np.cumsum([*map(len, members)])[:-1])
        parts.append([])
        for width in np.unique(np.concatenate(lengths)):
            nodes = [m[lengths_of == width] for m, lengths_of in zip(members, lengths, strict=True)]
            parts[-1].append((nodes, int(width)))
        for g in range(len(stack)):
            order += [_filled(nodes[g], max(map(len, nodes)), -1) for nodes, _ in parts[-1]]
    places = np.concatenate(order)
    place = np.empty(G.shape[0], dtype=np.int32)
    place[places[places >= 0]] = np.flatnonzero(places >= 0)
    inside = np.repeat(group, degrees) == group[G.indices]
    shifts = np.bincount(np.repeat(np.arange(len(place)), degrees)[inside], np.abs(G.data[inside]), len(place))
    return Layout(place, places, [[_rows(G, place, *part) for part in stack] for stack in parts], shifts)


def _filled(values: Array, size: int, fill: int) -> Array:
    """Return an array that is extended to a size."""
    return np.concatenate([values, np.full(size - len(values), fill, dtype=values.dtype)])


def _rows(G: sp.csr_array, place: Array, nodes: list[Array], width: int) -> Rows:
    """Return the rows of some nodes in several groups, padded to a length, and divided if it exceeds `_LONGEST`."""
    single = G.data.astype(np.float32)
    data, owners = single if np.array_equal(single, G.data) else G.data, None
    begins = [G.indptr[chosen].astype(np.int64) for chosen in nodes]
    counts = [np.diff(G.indptr)[chosen].astype(np.int64) for chosen in nodes]
    if width > _LONGEST:
        pieces = [-(-count // _LONGEST) for count in counts]
        owners = [np.repeat(np.arange(len(p), dtype=np.int32), p) for p in pieces]
        for g, p in enumerate(pieces):
            offset = _LONGEST * (np.arange(p.sum()) - np.repeat(np.cumsum(p) - p, p))
            begins[g] = np.repeat(begins[g], p) + offset
            counts[g] = np.minimum(np.repeat(counts[g], p) - offset, _LONGEST)
        width = _LONGEST
    size, wholes = max(map(len, begins)), max(map(len, nodes))
    slots = np.arange(width)[:, None]
    # Empty slots have the value zero and point to the first row.
    shape = (len(nodes), -(-width // _STRIP), min(width, _STRIP), size)
    cols, values = np.zeros((len(nodes), width, size), np.int32), np.zeros((len(nodes), width, size), data.dtype)
    for g, (begin, count) in enumerate(zip(begins, counts, strict=True)):
        used = slots < count
        entries = (begin + slots)[used]
        cols[g, :, : len(begin)][used] = place[G.indices[entries]]
        values[g, :, : len(begin)][used] = data[entries]
    if owners is None:
        return Rows(cols.reshape(shape), values.reshape(shape))
    owner = np.stack([_filled(o, size, wholes - 1) for o in owners])
    return Rows(cols.reshape(shape), values.reshape(shape), owner, np.zeros((len(nodes), wholes), np.int8))


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
        self.start = jax.jit(self._start, static_argnums=(1, 2))
        self.wider = jax.jit(self._wider, static_argnums=3)

    def product(self, rows: Rows, V: Any, dtype: Any, weights: Any = None) -> Any:
        """Return the rows of one group of ``G diag(weights) V``, for a block of vectors V or for one vector."""
        # No product of matrices is used: its default precision is low on a GPU.
        jnp, lax = self.jnp, self.lax

        def strip(k: Any, total: Any) -> Any:
            cols, values = (lax.dynamic_index_in_dim(part, k, keepdims=False) for part in (rows.cols, rows.values))
            for col, value in zip(cols, values, strict=True):
                value = value.astype(dtype)
                if weights is not None:
                    value = value * weights.at[col].get(mode="promise_in_bounds")
                gathered = V.at[col].get(mode="promise_in_bounds").astype(dtype)
                total = total + (value if V.ndim == 1 else value[:, None]) * gathered
            return total

        total, strips = jnp.zeros(rows.cols.shape[2:] + V.shape[1:], dtype), rows.cols.shape[0]
        total = strip(0, total) if strips == 1 else lax.fori_loop(0, strips, strip, total) if strips else total
        if rows.owner is None:
            return total
        return self.jax.ops.segment_sum(total, rows.owner, rows.size, indices_are_sorted=True)

    def matvec(self, stacks: Any, v: Any) -> Any:
        """Return ``G v`` for a vector."""
        found = []
        for parts in stacks:
            images = [self.jax.vmap(partial(self.product, V=v, dtype=v.dtype))(rows) for rows in parts]
            found.append(self.jnp.concatenate(images, axis=1).ravel())
        return self.jnp.concatenate(found)

    def _unit_rows(self, V: Any) -> Any:
        """Return rows divided by their length; a row of zeros becomes the first unit vector."""
        length = self.jnp.sqrt((V * V).sum(axis=1, keepdims=True))
        first = self.jnp.zeros(V.shape[1], V.dtype).at[0].set(1)
        return self.jnp.where(length > 0, V / self.jnp.where(length > 0, length, 1), first)

    def _start(self, seed: Any, size: int, rank: int) -> Any:
        random = self.jax.random
        return self._unit_rows(random.normal(random.key(seed), (size, rank), self.jnp.float32))

    def _wider(self, U: Any, vectors: Any, scale: Any, columns: int) -> Any:
        """Return U with new columns: random ones, to which the eigenvectors of the scaled matrix are added."""
        jnp, random = self.jnp, self.jax.random
        noise = random.normal(random.key(U.shape[1]), (len(U), columns), U.dtype)
        along = (vectors * scale).T
        along = _LENGTH * along / jnp.sqrt((along**2).mean(axis=0))
        added = (_NOISE / math.sqrt(columns) * noise).at[:, : len(vectors)].add(along.astype(U.dtype))
        return self._unit_rows(jnp.concatenate([U, added], axis=1))

    def _sweeps(self, stacks: Any, shifts: Any, U: Any, before: Any, t: Any, count: Any) -> tuple[Any, Any, Any]:
        """Return U after a number of sweeps, U before the last one, and the weight t of the momentum."""
        jnp, lax, dtype = self.jnp, self.lax, U.dtype

        def sweep(_: Any, carry: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
            U, before, t = carry
            t_next = (1 + jnp.sqrt(1 + 4 * t * t)) / 2
            V = self._unit_rows(U + ((t - 1) / t_next).astype(dtype) * (U - before))
            against, end = jnp.zeros((), dtype), 0
            for parts in stacks:
                first, size = end, sum(rows.size for rows in parts)
                end = first + size * parts[0].cols.shape[0]

                def visit(carry: tuple[Any, Any], group: Any, first: int = first, size: int = size) -> Any:
                    (V, against), (number, parts) = carry, group
                    start = first + size * number
                    old = lax.dynamic_slice_in_dim(V, start, size)
                    h = jnp.concatenate([self.product(rows, V, dtype) for rows in parts])
                    h -= lax.dynamic_slice_in_dim(shifts, start, size)[:, None] * old
                    length = jnp.sqrt((h * h).sum(axis=1, keepdims=True))
                    new = jnp.where(length > 0, -h / jnp.where(length > 0, length, 1), old)
                    against += ((old - new) * (new - lax.dynamic_slice_in_dim(U, start, size))).sum()
                    return (lax.dynamic_update_slice_in_dim(V, new, start, 0), against), None

                numbers = jnp.arange(parts[0].cols.shape[0])
                (V, against), _ = lax.scan(visit, (V, against), (numbers, parts))
            return V, U, jnp.where(against > 0, 1.0, t_next)

        return lax.fori_loop(0, count, sweep, (U, before, t))

    def _evaluate(self, stacks: Any, U: Any) -> tuple[Any, Any]:
        """Return <g_i, u_i> and |g_i| in double precision, for rows of U that are rescaled to unit length."""
        jnp, lax, double = self.jnp, self.lax, self.jnp.float64
        inverse, end = 1 / jnp.sqrt((U.astype(double) ** 2).sum(axis=1)), 0
        along, lengths = [], []
        for parts in stacks:
            first, size, count = end, sum(rows.size for rows in parts), parts[0].cols.shape[0]
            end = first + size * count

            # One group after the other, since a product in double precision takes twice the memory of U.
            def one(group: Any, first: int = first, size: int = size) -> tuple[Any, Any]:
                number, parts = group
                u, scale = (lax.dynamic_slice_in_dim(part, first + size * number, size) for part in (U, inverse))
                g = jnp.concatenate([self.product(rows, U, double, inverse) for rows in parts])
                return (g * u.astype(double)).sum(axis=1) * scale, jnp.sqrt((g * g).sum(axis=1))

            found = lax.map(one, (jnp.arange(count), parts))
            along.append(found[0].ravel())
            lengths.append(found[1].ravel())
        return jnp.concatenate(along), jnp.concatenate(lengths)

    def _next(self, matrix: Any, w: Any, before: Any, beta: Any) -> tuple[Any, Any, Any]:
        """Return the entries of the tridiagonal matrix for the vector w, and the next vector."""
        stacks, scale, diagonal = matrix
        image = -(scale * self.matvec(stacks, scale * w) + diagonal * w)
        alpha = (w * image).sum()
        image = image - alpha * w - beta * before
        length = self.jnp.sqrt((image * image).sum())
        return alpha, length, image / self.jnp.where(length > 0, length, 1)

    def _lanczos(self, matrix: Any, w: Any, before: Any, beta: Any, count: Any, length: int) -> tuple[Any, ...]:
        """Return `length` entries on and beside the diagonal, of which `count` are computed, and the last vectors."""

        def step(k: Any, carry: Any) -> Any:
            alphas, betas, w, before, beta = carry
            alpha, beta, following = self._next(matrix, w, before, beta)
            return alphas.at[k].set(alpha), betas.at[k].set(beta), following, w, beta

        empty = self.jnp.zeros(length, w.dtype)
        return tuple(self.lax.fori_loop(0, count, step, (empty, empty, w, before, beta))[:4])

    def _ritz_vectors(self, matrix: Any, w: Any, weights: Any) -> Any:
        """Return sums of Lanczos vectors as rows, with one row of weights per vector."""

        def step(carry: Any, row: Any) -> tuple[Any, None]:
            total, w, before, beta = carry
            _, beta, following = self._next(matrix, w, before, beta)
            return (total + row[:, None] * w, following, w, beta), None

        total = self.jnp.zeros((weights.shape[1], len(w)), w.dtype)
        carry = (total, w, self.jnp.zeros_like(w), self.jnp.zeros((), w.dtype))
        return self.lax.scan(step, carry, weights)[0][0]


@cache
def kernels() -> _Kernels:
    """Return the compiled functions. JAX is imported at the first call."""
    return _Kernels()


class _DeviceRecurrence(Recurrence):
    """Lanczos steps on the device, for ``-(scale G scale + diagonal)``."""

    def __init__(self, stacks: Any, scale: Any, diagonal: Any) -> None:
        self.n = len(scale)
        start, self.hidden = random_start(self.n, None, 0, FAILURE)
        self._matrix = stacks, scale, diagonal
        self._start = kernels().jnp.asarray(start / norm(start))
        self._last = [self._start, kernels().jnp.zeros_like(self._start)]
        self._alpha: list[float] = []
        self._beta: list[float] = []

    def extend(self, count: int, late: Late) -> tuple[list[float], list[float]]:
        while count > 0:
            steps = min(count, _STEPS)
            last = np.float64(self._beta[-1] if self._beta else 0.0)
            alphas, betas, *self._last = kernels().lanczos(self._matrix, *self._last, last, steps, length=_STEPS)
            self._alpha += np.asarray(alphas)[:steps].tolist()
            self._beta += np.asarray(betas)[:steps].tolist()
            count -= steps
            if late():
                break
        rounding = _EPS * math.sqrt(self.n) * max(map(abs, self._alpha + self._beta))
        for k, beta in enumerate(self._beta):
            if beta <= rounding:
                return self._alpha[: k + 1], [*self._beta[:k], 0.0]
        return self._alpha, self._beta

    def combine(self, weights: Array) -> Any:
        # A few numbers of rows need few compilations.
        padding = np.zeros((-len(weights) % 256, weights.shape[1]))
        return kernels().ritz_vectors(self._matrix, self._start, np.concatenate([weights, padding]))


class _Momentum(NamedTuple):
    """State of the sweeps: U before the last one, the weight t, the number of sweeps to do, and the last value."""

    before: Any
    t: float
    sweeps: int
    value: float


class _Curvature(NamedTuple):
    """Directions of negative curvature as rows, and the factor by which the number of columns shall grow."""

    rows: Any
    factor: int


class DeviceEngine(SparseDiagonalEngine):
    """Sweeps and Lanczos steps with JAX for a sparse cost matrix, on the default device of JAX."""

    def __init__(self, matrix: sp.csr_array, b: Array) -> None:
        super().__init__(matrix, b)
        self._kernels = kernels()
        self._place, self._order, stacks, shifts = layout(self.G)
        with self._double():
            self._stacks = self._kernels.jax.tree.map(self._kernels.jnp.asarray, stacks)
            self._shifts, self._scale = self._placed(shifts), self._placed(self.scale)
        # Decrease of the value by the last sweeps.
        self._gain = math.inf

    def _double(self) -> Any:
        return self._kernels.jax.enable_x64(True)

    def _placed(self, values: Array) -> Any:
        """Return an array with one entry or row per node in the order of the device, with zeros for missing nodes."""
        placed = np.zeros((len(self._order), *values.shape[1:]), values.dtype)
        placed[self._place] = values
        return self._kernels.jnp.asarray(placed)

    @property
    def first_rank(self) -> int:
        return min(_FIRST_RANK, self.most_columns)

    def start(self, rank: int, seed: int) -> Any:
        with self._double():
            return self._kernels.start(seed, len(self._order), rank)

    def from_numpy(self, Y: Array) -> Any:
        with self._double():
            return self._kernels.unit_rows(self._placed(Y.astype(np.float32)))

    def to_numpy(self, Y: Any) -> Array:
        U = np.asarray(Y, np.float64)[self._place]
        return U * (self.roots / np.sqrt(np.einsum("ir,ir->i", U, U)))[:, None]

    def value(self, Y: Any) -> float:
        with self._double():
            return self.rounded_up(float(self._kernels.evaluate(self._stacks, Y)[0].sum()))

    def improve(self, Y: Any, memory: _Momentum | None, goal: float, late: Late) -> Improved:
        with self._double():
            if memory is None:
                memory = _Momentum(Y, 1.0, _FIRST_SWEEPS, self.value(Y))
            U, before, t, sweeps = Y, memory.before, memory.t, memory.sweeps
            if self._gain <= _SINGLE * abs(memory.value) and goal < _SINGLE * abs(memory.value):
                U, before = U.astype(np.float64), before.astype(np.float64)
            shifts = self._shifts.astype(U.dtype)
            for done in range(0, sweeps, _CHUNK):
                count = min(_CHUNK, sweeps - done)
                U, before, weight = self._kernels.sweeps(self._stacks, shifts, U, before, np.float64(t), count)
                t = float(weight)  # waits for the device
                if late():
                    break
            value = self.value(U)
        self._gain = memory.value - value
        settled = self._gain <= max(_UNSETTLED * goal, _SINGLE * abs(value))
        return Improved(U, value, _Momentum(before, t, math.ceil(_GROWTH * sweeps), value), settled)

    def certify(self, Y: Any, goal: float, late: Late) -> DualBound:
        with self._double():
            along, lengths = self._kernels.evaluate(self._stacks, Y)
            # These multipliers are those after one more sweep, see `sweeps`.
            y = np.asarray(-lengths)[self._place]
            value, ascent = float(along.sum()), -math.fsum(y)
            total = self.total or 1.0
            slack = _SLACK_SHARE * goal / total

            def gap(lowest: float) -> float:
                return value + ascent + max(0.0, -lowest) * self.total

            def is_stalled(lowest: float) -> bool:
                return gap(lowest) > goal and self._gain <= _STALLED * gap(lowest)

            if self.n <= _SMALL:
                D = sp.diags_array(self.scale)
                S = sp.csr_array(dot(dot(D, self.G - sp.diags_array(y)), D))
                least = smallest_eigenvalue(SparseOperator(S), slack, count=_EIGENVECTORS)
                lowest, bound, rows = least.value, least.bound, None
                if is_stalled(lowest):
                    rows = self._placed(least.vectors).T
            else:
                found = long_lanczos(
                    _DeviceRecurrence(self._stacks, self._scale, lengths * self._scale**2),
                    lambda value: max(slack, _VALUE_SHARE * value, _REST_SHARE * (goal - gap(-value)) / total),
                    lambda value: _EIGENVECTORS if is_stalled(-value) else 0,
                    _MOST_STEPS,
                    late,
                )
                lowest, bound, rows = -found.value, -found.bound, found.vectors
        # A gap far above the goal needs many more columns.
        factor = 4 if gap(lowest) > _FAR * goal else 2
        vectors = None if rows is None else _Curvature(rows, factor)
        # The second term is for the rounding of the scaled matrix.
        return self.dual_bound(y, max(0.0, -bound) + 8 * _EPS, vectors)

    def widen(self, Y: Any, vectors: _Curvature, goal: float) -> tuple[Any, None]:
        rank = Y.shape[1]
        columns = max(min(vectors.factor * rank, self.most_columns) - rank, len(vectors.rows))
        with self._double():
            return self._kernels.wider(Y, vectors.rows, self._scale, columns), None
