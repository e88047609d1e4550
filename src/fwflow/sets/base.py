"""Interface of constraint sets, and the multiples and translates of any set."""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from fwflow._fingerprints import fingerprint
from fwflow._validation import Array, InputError, describe, finite_array, float_array, float_dtype, number, ours
from fwflow.points.lowrank import LowRank
from fwflow.points.vertices import NEEDS_RANK_ONE, DenseVertex, Scaled, Shape, SparseVertex, Sum, Vertex

# Number of vertices that share half of the weight of a random start. Chosen without tuning.
_RANDOM_VERTICES = 8


#: Function from a point to the member nearest to it.
Projection = Callable[[Any], Array]


class Crossing(NamedTuple):
    """First parameter at which a vertex falls below a level, and this vertex; the defaults mean that none does."""

    theta: float = math.inf
    vertex: Vertex | None = None


class Faces(ABC):
    """Minimal faces of a polytope. A set that inherits from this class is its own `ConstraintSet.faces`."""

    @property
    def faces(self) -> Faces | None:
        """The object itself."""
        return self

    @abstractmethod
    def away_vertex(self, g: Any, x: Array, noise: Array | float = 0.0) -> Vertex:
        """Return the vertex with the largest ``<g, s>`` in the smallest face that contains the member x.

        Entries of x within `noise` and a few units in the last place of a bound count as equal to that bound.
        """

    @abstractmethod
    def max_step(self, x: Array, direction: Array, noise: Array | float = 0.0) -> float:
        """Return the largest t for which ``x + t * direction`` is a member, given that x is one.

        The direction lies in the affine hull of the set; zeros give infinity. Bounds hold up to `noise` and a few units
        in the last place, so that rounding errors do not end a step.
        """

    def tangent(self, x: Array, noise: Array | float = 0.0) -> Tangent | None:
        """Return the directions within the smallest face around the member x, a vector; None if they are unknown.

        Entries within `noise` and a few units in the last place of a bound count as equal to it. The units are those of
        the bound, so that entries may be free that are small compared with the size of the set.
        """
        return None


class Tangent(NamedTuple):
    """Directions within the smallest face around a point: entries that may move, and conditions on their sums."""

    #: Positions of the entries that may move.
    free: Array
    #: Numbers s for the free entries: directions d have a zero sum of ``s * d`` in every block.
    normal: Array
    #: Block of every free entry.
    blocks: Array
    n_blocks: int
    #: Distances of the free entries from the lower and upper ends of the face; infinite if there are none.
    below: Array
    above: Array

    @classmethod
    def single(cls, free: Array, normal: Array, below: Array | float, above: Array | float) -> Tangent:
        """Return a tangent space with one condition, or with none if the normal is zero."""
        ends = (end if isinstance(end, np.ndarray) else np.full(len(free), end) for end in (below, above))
        return cls(free, normal, np.zeros(len(free), dtype=np.intp), 1, *ends)

    def lengths(self, d: Array) -> Array:
        """Return for each free entry the multiple of a direction at which the entry reaches an end of the face."""
        room = np.where(d < 0, self.below, self.above)
        return np.divide(room, np.abs(d), out=np.full(len(d), np.inf), where=d != 0)

    def projected(self, d: Array) -> Array:
        """Return the nearest direction in the tangent space."""
        if self.n_blocks == 1:
            square = float(np.vdot(self.normal, self.normal))
            return d - self.normal * (float(np.vdot(self.normal, d)) / square) if square > 0 else d
        sums, squares = (np.bincount(self.blocks, self.normal * part, self.n_blocks) for part in (d, self.normal))
        factors = np.divide(sums, squares, out=np.zeros_like(sums), where=squares > 0)
        return d - (self.normal * factors[self.blocks]).astype(d.dtype)

    @property
    def normals(self) -> Array:
        """The conditions as columns of a matrix."""
        matrix = np.zeros((len(self.free), self.n_blocks))
        matrix[np.arange(len(self.free)), self.blocks] = self.normal
        return matrix[:, matrix.any(axis=0)]


class WorkingSets(ABC):
    """Entries that matter, for sets whose vertices have few entries different from a fixed vector.

    All other entries are at rest: zero, or the entry of a shift. A set that inherits from this class is its own
    `ConstraintSet.working_sets`.
    """

    @property
    def working_sets(self) -> WorkingSets | None:
        """The object itself."""
        return self

    @property
    def rest(self) -> Any:
        """The values of entries at rest: a number, or a vector."""
        return 0.0

    @abstractmethod
    def support(self, x: Array) -> Array:
        """Return the positions of the entries of the vector x that are not at rest, and of entries tied to them."""

    @abstractmethod
    def best_places(self, g: Array, count: int) -> Array:
        """Return the positions of the entries of the vertices with the smallest ``<g, s>``, about `count` of them."""

    @abstractmethod
    def restricted(self, places: Array) -> ConstraintSet:
        """Return the set of the entries at `places`, in ascending order, of the members with all others at rest.

        The places are a union of some that `support` and `best_places` return.
        """


class KnownVertices(ABC):
    """Vertices other than the oracle's answer. A set that inherits from this class is its own `known_vertices`."""

    @property
    def known_vertices(self) -> KnownVertices | None:
        """The object itself."""
        return self

    @abstractmethod
    def best_vertices(self, g: Any, count: int, best: Vertex) -> list[Vertex]:
        """Return up to `count` vertices in ascending order of ``<g, s>``, starting with the oracle's answer `best`."""

    def crossing(
        self, start: Array, end: Array, levels: tuple[float, float], skip: Sequence[Vertex], noise: float
    ) -> Crossing | None:
        r"""Return the vertex that first falls below a level as a gradient moves from ``start`` to `end`.

        Both the gradient and the level move linearly with :math:`\theta \in [0, 1]`. The vertices in `skip` stay at
        the level, and all others start at it or above it. Vertices that end less than `noise` below the level do not
        count. None means that there is no closed form.
        """
        return None

    def decomposed(self, x: Array) -> list[tuple[float, Vertex]] | None:
        """Return vertices with positive weights that sum to the member x, or None if that is not cheap.

        If the weights sum to less than one, the origin is a member and has the remaining weight.
        """
        return None


class Summands(ABC):
    """Sets whose Minkowski sum is a set. A set that inherits from this class is its own `summands`."""

    #: Number of summands.
    n_summands: int

    @property
    def summands(self) -> Summands | None:
        """The object itself, or None for a single summand."""
        return self if self.n_summands > 1 else None

    @abstractmethod
    def split_vertex(self, vertex: Vertex) -> tuple[Vertex, ...] | None:
        """Return one vertex of each summand whose sum is the oracle's answer, or None if they are unknown."""

    @abstractmethod
    def split_point(self, x: Array) -> tuple[Vertex, ...] | None:
        """Return one member of each summand, in the same order, whose sum is x, or None if they are unknown."""


class Exchange(ABC):
    """Parts of a member, one for each summand of the set, and directions along which they can change.

    It is made for one step of a method, which changes it in place.
    """

    #: Directions, one per row of a sparse matrix.
    directions: Any

    @abstractmethod
    def ranges(self) -> tuple[Array, Array]:
        """Return the smallest (not positive) and largest multiple of every direction that can be added on its own."""

    @abstractmethod
    def moved(self, amounts: Array, late: Callable[[], bool]) -> Array:
        """Add multiples of the directions, one after the other and as far as possible, and return the member.

        If `late` returns True, the rest of the directions are left out.
        """

    @abstractmethod
    def shortened(self, share: float) -> Array:
        """Undo all but a share of the last move, and return the member."""

    @abstractmethod
    def parts(self) -> Any:
        """Return the parts as the rows of a CSR matrix."""

    @property
    @abstractmethod
    def found(self) -> Any:
        """The directions as storable data, for the next step."""


class Exchanges(ABC):
    """Changes of members along directions that many summands share. A set that inherits it is its own `exchanges`."""

    @property
    def exchanges(self) -> Exchanges | None:
        """The object itself."""
        return self

    @abstractmethod
    def exchange(self, parts: Any, found: Any, vertex: Vertex, late: Callable[[], bool]) -> Exchange | None:
        """Return the directions found before and those that lead to the oracle's vertex, or None if there are none.

        `parts` is a CSR matrix whose rows are one member of each summand, in the order of the summands. The search for
        directions ends when `late` returns True.
        """


@dataclass(frozen=True)
class SpectralRange:
    """Singular values or eigenvalues that the matrices of a set may have."""

    #: The largest sum of the absolute values of these numbers.
    radius: float
    #: The sign of the eigenvalues of symmetric matrices; 0 for sets of all matrices, by their singular values.
    sign: int = 0
    #: Whether this sum is the same for all members.
    exact: bool = False


class ConstraintSet(ABC):
    """Convex compact set, given by its linear minimisation oracle.

    A new set needs `lmo`, `start`, `contains` and `diameter`. All other members have defaults. The optional
    capabilities `faces`, `known_vertices`, `working_sets`, `summands`, `exchanges` and `spectrum` are objects, or None
    if a set lacks them. The oracle defines the set: capabilities are checked against it where they are used, which
    finds a subclass that replaces the oracle and inherits a capability that no longer fits.

    Sets keep no state between calls: the same gradient and hint give the same vertex. Arguments are read-only. Returned
    vertices are kept by the caller, so that their arrays must not be changed afterwards. ``factor * C`` is a
    `ScaledSet`, and ``C + shift`` is a `Translated` set.

    See Also
    --------
    Vertex : Form of the answers of the oracle.
    minimize : Accepts sets, and callables ``g -> s``.
    checks.lmo_excess : Check of an oracle.
    """

    #: Shape of the members, if the set determines it.
    shape: Shape | None = None
    #: Whether the set is known to have finitely many vertices.
    polytope: bool = False
    #: Whether the oracle needs only the best entry of a gradient, so that most others need not be computed.
    screenable: bool = False
    #: Whether the oracle accepts sparse matrices and returns rank-one matrices.
    factored: bool = False
    #: Whether `start` calls the oracle.
    start_calls_oracle: bool = False
    #: Number of oracle calls of `random_start`, without those of `start`.
    random_start_calls: int = _RANDOM_VERTICES
    #: Slices of a vector and the sets on them whose product this set is, if it is a product.
    factors: tuple[tuple[slice, ConstraintSet], ...] | None = None

    @property
    def faces(self) -> Faces | None:
        """Minimal faces of a polytope, for pairwise steps without an active set."""
        return None

    @property
    def known_vertices(self) -> KnownVertices | None:
        """Vertices other than the oracle's answer: their ranking, and decompositions of members into them."""
        return None

    @property
    def working_sets(self) -> WorkingSets | None:
        """Entries that differ from zero or from a shift, for methods that work on a few columns of the data."""
        return None

    @property
    def summands(self) -> Summands | None:
        """Sets whose sum is this set. Methods that keep a mixture for each of them need fewer oracle calls."""
        return None

    @property
    def exchanges(self) -> Exchanges | None:
        """Changes along shared directions, which replace active sets of the summands. Combinations do not offer it."""
        return None

    @property
    def spectrum(self) -> SpectralRange | None:
        """Spectrum of the members, for sets of all matrices with this spectrum."""
        return None

    @property
    def trusted(self) -> bool:
        """Whether the oracle is known to be correct. If not, a run compares its answers with other members."""
        return ours(self)

    @abstractmethod
    def lmo(self, g: Any, hint: Vertex | None = None) -> Any:
        """Return the vertex that minimises ``<g, s>`` over the set.

        Ties are decided the same way every time.

        Parameters
        ----------
        g : array
            Cost of every entry, for example a gradient. The vertex has the same shape.
        hint : Vertex, optional
            Answer for a similar g, from which iterative oracles start.

        Returns
        -------
        Vertex
            ``numpy.asarray`` converts it to an array. The oracle of a set of your own may also return an array, a list
            or a SciPy sparse vector of the shape of g.
        """

    def lmo_at(self, g: Any, inner: float, hint: Vertex | None = None) -> Any:
        """Return the answer of `lmo`, given ``inner = <g, x>`` at the iterate.

        Iterative oracles derive their accuracy from this number. By default, it has no effect.
        """
        return self.lmo(g, hint)

    def vertex(self, g: Any, hint: Vertex | None = None, inner: float | None = None) -> Vertex:
        """Return the answer of `lmo`, or of `lmo_at` if `inner` is given, as a `Vertex`.

        The library calls oracles only through this method, so that oracles may return arrays, lists and sparse vectors.

        Parameters
        ----------
        g : array
            Cost of every entry, as for `lmo`.
        hint : Vertex, optional
            Answer for a similar g, from which iterative oracles start.
        inner : float, optional
            ``<g, x>`` at the iterate, from which iterative oracles derive their accuracy.
        """
        answer = self.lmo(g, hint) if inner is None else self.lmo_at(g, inner, hint)
        return answer if _is_vertex(answer.__class__) else as_vertex(answer, g, f"{type(self).__name__}.lmo")

    @abstractmethod
    def start(self, shape: Shape | None = None, dtype: Any = np.float64) -> Array | LowRank:
        """Return the default starting point.

        Parameters
        ----------
        shape : tuple of int, optional
            Shape of the point, for sets whose members may have any shape.
        dtype : dtype
            Floating type of the point.
        """

    def random_start(self, seed: int, shape: Shape | None = None) -> Array:
        """Return a random mixture of the point ``start()`` and random vertices.

        Use it as another starting point for a function that is not convex. The same seed gives the same point.

        Parameters
        ----------
        seed : int
            Seed of the random numbers.
        shape : tuple of int, optional
            Shape of the point, for sets whose members may have any shape.

        Examples
        --------
        >>> import numpy as np, fwflow as fw
        >>> x = fw.Birkhoff(3).random_start(0)
        >>> x.sum(axis=0), fw.Birkhoff(3).contains(x)
        (array([1., 1., 1.]), True)
        """
        rng, x = np.random.default_rng(seed), 0.5 * np.array(self.start(shape or self.shape), dtype=np.float64)
        for _ in range(_RANDOM_VERTICES):
            self.vertex(rng.standard_normal(x.shape)).add_to(x, 0.5 / _RANDOM_VERTICES)
        return x

    @abstractmethod
    def contains(self, x: Any, tol: float = 1e-9) -> bool | None:
        """Return whether x is a member up to a tolerance, or None if that is unknown.

        Parameters
        ----------
        x : array_like
            Point to test.
        tol : float
            Tolerance relative to the size of the set. If a set has several scales, such as the sides of a box or the
            rows of A x <= b, the tolerance is relative to each of them. Rounding errors in the type of x are allowed in
            addition.
        """

    def near(self, x: Array, tol: float, noise: Array) -> bool | None:
        """Return whether a finite array is a member, if its entries have errors of up to `noise`."""
        return verdict(self.contains(x, tol))

    @abstractmethod
    def diameter(self, shape: Shape | None = None) -> float | None:
        """Return the largest Euclidean distance between two members, or None if it is unknown.

        Parameters
        ----------
        shape : tuple of int, optional
            Shape of the members, for sets whose members may have any shape.
        """

    def fingerprint(self) -> str | None:
        """Return a text that is equal for sets with equal data, or None. A saved state continues only on an equal
        set."""
        return None

    def project(self, x: ArrayLike) -> Array | None:
        """Return the member nearest to x in the Euclidean norm, or None if the set has no projection.

        Parameters
        ----------
        x : array_like
            Point to project.
        """
        nearest = self.projection(np.shape(x))
        return None if nearest is None else nearest(x)

    def projection(self, shape: Shape) -> Projection | None:
        """Return the function that `project` calls for arrays of a shape, or None if it would not be cheap.

        Methods ask for it to find out whether the set has a projection, which costs nothing.

        Parameters
        ----------
        shape : tuple of int
            Shape of the points.
        """
        return None

    def bounds(self, shape: Shape) -> tuple[Array, Array] | None:
        """Return lower and upper bounds of the entries if the set is a box, else None.

        Parameters
        ----------
        shape : tuple of int
            Shape of the members.
        """
        return None

    def lower_bound(self, g: Any, vertex: Vertex) -> float:
        """Return a certified lower bound on ``min <g, s>``, given the vertex that `lmo` returned.

        Sets with an exact oracle need not override this: the vertex attains the minimum.

        Parameters
        ----------
        g : array
            Cost of every entry, as for `lmo`.
        vertex : Vertex
            Answer of `lmo` to g.
        """
        return vertex.dot(g)

    def lower_bound_at(self, g: Any, inner: float, vertex: Vertex) -> float:
        """Return the answer of `lower_bound`, given ``inner = <g, x>`` at the iterate.

        Iterative bounds derive their accuracy from this number. By default, it has no effect.
        """
        return self.lower_bound(g, vertex)

    def __mul__(self, factor: float) -> ConstraintSet:
        return ScaledSet(self, factor)

    __rmul__ = __mul__

    def __add__(self, shift: Any) -> ConstraintSet:
        return Translated(self, shift)


@cache
def _is_vertex(kind: type) -> bool:
    """Return whether a class is one of vertices. The answers are kept, because the test takes half a microsecond."""
    return issubclass(kind, Vertex)


def verdict(inside: Any) -> bool | None:
    """Return the answer of a membership test of a user, which may be a NumPy number, as True, False or None."""
    return None if inside is None else bool(inside)


def check_members(C: ConstraintSet) -> None:
    """Raise an error if a member of a user's set does not accept the arguments that the library passes."""
    if ours(C):
        return
    for name, member, arguments in (
        ("lmo", C.lmo, "g, hint=None"),
        ("start", C.start, "shape=None, dtype=float"),
        ("contains", C.contains, "x, tol=1e-9"),
        ("diameter", C.diameter, "shape=None"),
    ):
        try:
            inspect.signature(member).bind(*arguments.split(", "))
        except TypeError:
            raise InputError(
                f"{type(C).__name__}.{name} must accept the arguments of {name}(self, {arguments})"
            ) from None


def as_vertex(answer: Any, g: Any, oracle: str) -> Vertex:
    """Return a copy of the answer of a user's oracle, an array, a list or a sparse vector, as a vertex.

    `oracle` is the name of the oracle in errors.
    """
    if sp.issparse(g):
        raise ValueError(f"{oracle} returned {describe(answer)}; {NEEDS_RANK_ONE}")
    if not sp.issparse(answer):
        array = float_array(answer, f"{oracle}'s result")
        check_answer(array.shape, g, oracle)
        return DenseVertex(array.astype(float_dtype(g.dtype)))
    entries = answer.tocoo(copy=True)
    # A vector may come as a matrix with one row or one column.
    column = entries.shape != g.shape and entries.shape in ((g.size, 1), (1, g.size)) and g.ndim == 1
    check_answer(g.shape if column else entries.shape, g, oracle)
    entries.sum_duplicates()
    places = np.ravel_multi_index(entries.coords, entries.shape)
    values = finite_array(entries.data, f"{oracle}'s result")
    return SparseVertex(places.astype(np.int64), values.astype(float_dtype(g.dtype)), g.shape)


def check_answer(shape: Shape, g: Any, oracle: str) -> None:
    """Raise an error if the answer of a user's oracle does not have the shape of g."""
    if shape != g.shape:
        raise ValueError(f"{oracle} returned shape {shape} for a gradient of shape {g.shape}")


def needs_shape(constraint: ConstraintSet, shape: Shape | None) -> Shape:
    """Return the shape, by default that of the set, or raise an error if both are missing."""
    shape = constraint.shape if shape is None else shape
    if shape is None:
        raise ValueError(f"shape is needed: {type(constraint).__name__} does not determine it; give x0 or shape")
    return shape


def check_shape(constraint: ConstraintSet, x: Array, name: str = "x") -> None:
    """Raise an error if an array does not have the shape of the members."""
    if x.shape != constraint.shape:
        raise ValueError(f"{name} has shape {x.shape}; members of {constraint!r} have shape {constraint.shape}")


def rounding(x: Any, size: Array) -> Array:
    """Return the allowed rounding error of entries of the given size, after thousands of steps in the type of x."""
    return 64 * float(np.finfo(float_dtype(np.asarray(x).dtype)).eps) * np.abs(size)


def few_ulps(dtype: Any) -> float:
    """Return the rounding error that the last few operations may leave in an entry of size one."""
    return 8 * float(np.finfo(float_dtype(dtype)).eps)


def first_bound(room: Array, outward: Array, slack: Array | float) -> float:
    """Return the largest t for which ``t * outward`` exceeds no `room` by more than its `slack`.

    In the ratio test of Harris (1973), which has two stages, rounding errors in small entries do not decide.
    """
    used = outward > 0
    room, slack, rate = room[used], np.broadcast_to(slack, room.shape)[used], outward[used]
    if not len(rate):
        return math.inf
    ends = room / rate
    return float(max(ends[ends <= ((room + slack) / rate).min()].max(), 0.0))


class KnownSet(ConstraintSet):
    """A set whose membership test is `near`. Combinators call `near`, so that a subclass overrides this method."""

    def contains(self, x: Any, tol: float = 1e-9) -> bool | None:
        array = float_array(x, "x").astype(np.float64, copy=False)
        return self.near(array, tol, rounding(x, array)) if np.isfinite(array).all() else False

    @abstractmethod
    def near(self, x: Array, tol: float, noise: Array) -> bool | None:
        """Return whether x, whose entries have errors of up to `noise`, is a member up to `tol`."""


class ParametricSet(KnownSet):
    """A set that a few numbers or arrays define: they are its fingerprint, and numbers are its representation."""

    #: Names of the attributes with these values, and of others that belong to the fingerprint only.
    parameters: tuple[str, ...] = ("radius",)
    options: tuple[str, ...] = ()

    def _values(self, names: tuple[str, ...]) -> list[Any]:
        return [attrgetter(name)(self) for name in names]

    def __repr__(self) -> str:
        shown = (str(value) if isinstance(value, int) else f"{value:g}" for value in self._values(self.parameters))
        return f"{type(self).__name__}({', '.join(shown)})"

    def fingerprint(self) -> str:
        names = self.parameters + self.options
        return fingerprint(self, **dict(zip((name.lstrip("_") for name in names), self._values(names), strict=True)))


class Combination(KnownSet):
    """A set made of other sets, the members of `inner_sets`."""

    def __init__(self, inner_sets: Iterable[ConstraintSet]) -> None:
        self.inner_sets = tuple(inner_sets)
        for constraint in self.inner_sets:
            check_members(constraint)
        self.polytope = all(C.polytope for C in self.inner_sets)
        self.start_calls_oracle = any(C.start_calls_oracle for C in self.inner_sets)

    @property
    def trusted(self) -> bool:
        return super().trusted and all(C.trusted for C in self.inner_sets)


class AffineImage(KnownVertices, Combination):
    """The image of a set under an affine map ``y -> M y + b``: a subclass maps costs to the set and vertices back."""

    #: Factor between values of ``<g, M y>`` and of the cost that the inner set is given.
    unit: float = 1.0

    def __init__(self, constraint: ConstraintSet, data: Any) -> None:
        super().__init__((constraint,))
        self.constraint = constraint
        self._data = data  # The name and value of the factor, shift or matrix of the map, for the fingerprint.
        self._inner_vertices: Any = constraint.known_vertices

    def fingerprint(self) -> str:
        name, value = self._data
        return fingerprint(self, **{name: value, "set": self.constraint.fingerprint()})

    @abstractmethod
    def cost(self, g: Any) -> Any:
        """Return ``M^T g / unit``: the cost that the inner oracle minimises."""

    @abstractmethod
    def image(self, vertex: Vertex, g: Any) -> Vertex:
        """Return the image of a vertex of the inner set, in the type of g."""

    def offset(self, g: Any) -> float:
        """Return ``<g, b>``."""
        return 0.0

    def _value(self, value: float, g: Any) -> float:
        """Return the value of the inner set for a value of ``<g, x>``."""
        return (value - self.offset(g)) / self.unit

    def lmo(self, g: Any, hint: Vertex | None = None) -> Vertex:
        return self.image(self.constraint.vertex(self.cost(g), _first_part(hint)), g)

    def lmo_at(self, g: Any, inner: float, hint: Vertex | None = None) -> Vertex:
        return self.image(self.constraint.vertex(self.cost(g), _first_part(hint), self._value(inner, g)), g)

    def lower_bound(self, g: Any, vertex: Vertex) -> float:
        return self.unit * self.constraint.lower_bound(self.cost(g), vertex.parts[0]) + self.offset(g)

    def lower_bound_at(self, g: Any, inner: float, vertex: Vertex) -> float:
        bound = self.constraint.lower_bound_at(self.cost(g), self._value(inner, g), vertex.parts[0])
        return self.unit * bound + self.offset(g)

    @property
    def known_vertices(self) -> KnownVertices | None:
        return None if self._inner_vertices is None else self

    def best_vertices(self, g: Any, count: int, best: Vertex) -> list[Vertex]:
        return [self.image(v, g) for v in self._inner_vertices.best_vertices(self.cost(g), count, best.parts[0])]

    def crossing(
        self, start: Array, end: Array, levels: tuple[float, float], skip: Sequence[Vertex], noise: float
    ) -> Crossing | None:
        inner_levels = self._value(levels[0], start), self._value(levels[1], end)
        inner_skip = [vertex.parts[0] for vertex in skip]
        found: Crossing | None = self._inner_vertices.crossing(
            self.cost(start), self.cost(end), inner_levels, inner_skip, noise / self.unit
        )
        if found is None or found.vertex is None:
            return found
        return Crossing(found.theta, self.image(found.vertex, start))


def _first_part(hint: Vertex | None) -> Vertex | None:
    """Return the inner vertex of a hint, or None if the hint is of another set."""
    return hint.parts[0] if hint is not None and hint.parts else None


class _InvertibleImage(Faces, WorkingSets, Summands, AffineImage):
    """The image under a map that can be inverted: points are mapped to the inner set, too."""

    def __init__(self, constraint: ConstraintSet, data: Any) -> None:
        super().__init__(constraint, data)
        self._inner_faces: Any = constraint.faces
        self._inner_working_sets: Any = constraint.working_sets
        self._inner_summands: Any = constraint.summands

    @abstractmethod
    def inverse(self, x: Array) -> Array:
        """Return the member of the inner set whose image is x."""

    @abstractmethod
    def forward(self, y: Array) -> Array:
        """Return the image of a member of the inner set."""

    @abstractmethod
    def images(self, vertices: tuple[Vertex, ...]) -> tuple[Vertex, ...]:
        """Return vertices whose sum is the image of the sum of the given ones."""

    @abstractmethod
    def inverse_step(self, x: Array, direction: Array) -> Array:
        """Return the direction in the inner set of a step from x."""

    def inverse_noise(self, x: Array, noise: Array | float) -> Array | float:
        """Return the errors of the entries of ``inverse(x)``, given those of x."""
        return noise / self.unit

    def projection(self, shape: Shape) -> Projection | None:
        inner = self.constraint.projection(shape)
        return None if inner is None else lambda x: self.forward(inner(self.inverse(finite_array(x, "x"))))

    def diameter(self, shape: Shape | None = None) -> float | None:
        inner = self.constraint.diameter(shape or self.shape)
        return None if inner is None else self.unit * inner

    @property
    def faces(self) -> Faces | None:
        return None if self._inner_faces is None else self

    def away_vertex(self, g: Any, x: Array, noise: Array | float = 0.0) -> Vertex:
        return self.image(self._inner_faces.away_vertex(self.cost(g), self.inverse(x), self.inverse_noise(x, noise)), g)

    def max_step(self, x: Array, direction: Array, noise: Array | float = 0.0) -> float:
        step = self.inverse_step(x, direction)
        return float(self._inner_faces.max_step(self.inverse(x), step, self.inverse_noise(x, noise)))

    def tangent(self, x: Array, noise: Array | float = 0.0) -> Tangent | None:
        return self._inner_faces.tangent(self.inverse(x), self.inverse_noise(x, noise))

    @property
    def working_sets(self) -> WorkingSets | None:
        return None if self._inner_working_sets is None else self

    def support(self, x: Array) -> Array:
        sets = self._inner_working_sets
        # The inverse of an entry at rest may have a rounding error, which would put all entries into the support.
        still = np.abs(x - self.rest) <= few_ulps(x.dtype) * np.abs(x)
        return np.asarray(sets.support(np.where(still, sets.rest, self.inverse(x)).astype(x.dtype, copy=False)))

    def best_places(self, g: Array, count: int) -> Array:
        return np.asarray(self._inner_working_sets.best_places(self.cost(g), count))

    @property
    def summands(self) -> Summands | None:
        return None if self._inner_summands is None else self

    @property
    def n_summands(self) -> int:  # type: ignore[override]
        return self._inner_summands.n_summands + len(self.images(())) if self._inner_summands else 1

    def split_vertex(self, vertex: Vertex) -> tuple[Vertex, ...] | None:
        found = self._inner_summands.split_vertex(vertex.parts[0]) if vertex.parts else None
        return None if found is None else self.images(found)

    def split_point(self, x: Array) -> tuple[Vertex, ...] | None:
        found = self._inner_summands.split_point(self.inverse(x))
        return None if found is None else self.images(found)


class ScaledSet(_InvertibleImage):
    """Members of a set times a number, written ``factor * C``.

    A negative factor reflects the set. All capabilities of the set are kept.

    Parameters
    ----------
    constraint : ConstraintSet
        The set C.
    factor : float
        Finite number that is not zero.

    See Also
    --------
    Translated : Adds a vector.
    LinearImage : Multiplies by a matrix.

    Notes
    -----
    :Family: made of other sets
    :Uses: change of the size of a set that has no parameter for it, reflection of a set
    :Oracle: the factor times the answer of :math:`C` for :math:`g`, or for :math:`-g` if the factor is negative
    :Cost: the cost of :math:`C`
    :Offers: the capabilities of :math:`C`

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> C = 3 * fw.Birkhoff(2)
    >>> np.asarray(C.lmo(np.array([[0.0, 1.0], [1.0, 0.0]])))
    array([[3., 0.],
           [0., 3.]])
    >>> C, type(C).__name__
    (3 * Birkhoff(2), 'ScaledSet')
    """

    def __init__(self, constraint: ConstraintSet, factor: float) -> None:
        self.factor = number(factor, "factor", "be finite and not zero", lambda x: math.isfinite(x) and x != 0)
        super().__init__(constraint, ("factor", self.factor))
        self.unit = abs(self.factor)
        self.shape, self.factored, self.screenable = constraint.shape, constraint.factored, constraint.screenable
        if constraint.factors is not None:
            self.factors = tuple((place, self.factor * C) for place, C in constraint.factors)

    def __repr__(self) -> str:
        return f"{self.factor:g} * {self.constraint!r}"

    def cost(self, g: Any) -> Any:
        return g if self.factor > 0 else -1.0 * g

    def image(self, vertex: Vertex, g: Any) -> Scaled:
        return Scaled(self.factor, vertex)

    def images(self, vertices: tuple[Vertex, ...]) -> tuple[Vertex, ...]:
        return tuple(Scaled(self.factor, vertex) for vertex in vertices)

    def inverse(self, x: Array) -> Array:
        return x / x.dtype.type(self.factor)

    def forward(self, y: Array) -> Array:
        return y * y.dtype.type(self.factor)

    def inverse_step(self, x: Array, direction: Array) -> Array:
        return direction / x.dtype.type(self.factor)

    def tangent(self, x: Array, noise: Array | float = 0.0) -> Tangent | None:
        inner = super().tangent(x, noise)
        if inner is None:
            return None
        ends = (inner.below, inner.above) if self.factor > 0 else (inner.above, inner.below)
        return inner._replace(below=self.unit * ends[0], above=self.unit * ends[1])

    @property
    def rest(self) -> Any:
        return self.factor * self._inner_working_sets.rest

    def restricted(self, places: Array) -> ConstraintSet:
        return ScaledSet(self._inner_working_sets.restricted(places), self.factor)

    def decomposed(self, x: Array) -> list[tuple[float, Vertex]] | None:
        found = self._inner_vertices.decomposed(self.inverse(x))
        return None if found is None else [(w, self.image(vertex, x)) for w, vertex in found]

    @property
    def spectrum(self) -> SpectralRange | None:
        inner = self.constraint.spectrum
        if inner is None:
            return None
        return replace(inner, radius=self.unit * inner.radius, sign=inner.sign if self.factor > 0 else -inner.sign)

    def start(self, shape: Shape | None = None, dtype: Any = np.float64) -> Array | LowRank:
        inner = self.constraint.start(shape, dtype)
        return (inner if isinstance(inner, LowRank) else np.asarray(inner)) * np.dtype(dtype).type(self.factor)

    def contains(self, x: Any, tol: float = 1e-9) -> bool | None:
        if isinstance(x, LowRank):
            return self.constraint.contains(x / self.factor, tol)
        return super().contains(x, tol)

    def near(self, x: Array, tol: float, noise: Array) -> bool | None:
        with np.errstate(over="ignore"):
            inner, inner_noise = x / self.factor, noise / self.unit
        return self.constraint.near(inner, tol, inner_noise) if np.isfinite(inner).all() else False

    def bounds(self, shape: Shape) -> tuple[Array, Array] | None:
        inner = self.constraint.bounds(shape)
        if inner is None:
            return None
        ends = self.factor * inner[0], self.factor * inner[1]
        return ends if self.factor > 0 else ends[::-1]


class Translated(_InvertibleImage):
    """Members of a set moved by a vector, written ``C + shift``.

    Objectives compute the image of the shift once. Three capabilities of C are lost. Columns cannot be skipped, because
    the shift is not sparse and needs the whole gradient. Iterates are not stored as factors, because the shift is not a
    rank-one matrix. Members are not decomposed into vertices, because the weights of a decomposition may leave a part
    to the origin, which has moved.

    Parameters
    ----------
    constraint : ConstraintSet
        The set C.
    shift : array_like
        Vector of the shape of x, which is added to every member.

    See Also
    --------
    ScaledSet : Multiplies by a number.
    MinkowskiSum : Adds the members of another set.

    Notes
    -----
    :Family: made of other sets
    :Uses: small changes of a given point, balls around a given centre
    :Oracle: the answer of :math:`C` plus the shift
    :Cost: the cost of :math:`C`
    :Offers: the capabilities of :math:`C`, except mixtures and factored

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> C = fw.L2Ball(1.0) + np.array([2.0, 0.0])
    >>> np.asarray(C.lmo(np.array([1.0, 0.0]))), C.contains([3.0, 0.0])
    (array([1., 0.]), True)
    """

    shape: Shape

    def __init__(self, constraint: ConstraintSet, shift: ArrayLike) -> None:
        self.shift = finite_array(shift, "shift")
        super().__init__(constraint, ("shift", self.shift))
        if self.shift.ndim == 0:
            raise ValueError("shift must be an array of the shape of x, not a number")
        own = constraint.shape or self.shift.shape
        if self.shift.shape not in (own, (math.prod(own),)):  # Vectors may represent matrices, row by row.
            raise ValueError(f"shift has shape {self.shift.shape}; members of {constraint!r} have shape {own}")
        self._vertex = DenseVertex(self.shift, recurring=True)
        self.shape = self.shift.shape
        if constraint.factors is not None:
            self.factors = tuple((place, C + self.shift[place]) for place, C in constraint.factors)

    def __repr__(self) -> str:
        return f"{self.constraint!r} + shift"

    def cost(self, g: Any) -> Any:
        return g

    def image(self, vertex: Vertex, g: Any) -> Sum:
        return Sum((vertex, self._vertex))

    def images(self, vertices: tuple[Vertex, ...]) -> tuple[Vertex, ...]:
        return (*vertices, self._vertex)

    def offset(self, g: Any) -> float:
        return self._vertex.dot(g)

    def inverse(self, x: Array) -> Array:
        return x - self.shift.reshape(x.shape).astype(x.dtype, copy=False)

    def forward(self, y: Array) -> Array:
        return y + self.shift.reshape(y.shape).astype(y.dtype, copy=False)

    def inverse_step(self, x: Array, direction: Array) -> Array:
        return direction

    def inverse_noise(self, x: Array, noise: Array | float) -> Array | float:
        return noise + few_ulps(x.dtype) * np.abs(x)

    @property
    def rest(self) -> Any:
        return self._inner_working_sets.rest + self.shift.reshape(-1)

    def restricted(self, places: Array) -> ConstraintSet:
        return Translated(self._inner_working_sets.restricted(places), self.shift.reshape(-1)[places])

    def start(self, shape: Shape | None = None, dtype: Any = np.float64) -> Array:
        inner = self.constraint.start(self.shape if shape is None else shape, dtype)
        return np.asarray(np.asarray(inner) + self.shift, dtype=dtype)

    def near(self, x: Array, tol: float, noise: Array) -> bool | None:
        # Next to a large shift, x is known less accurately than its own size suggests.
        return self.constraint.near(x - self.shift, tol, noise + rounding(x, self.shift))

    def bounds(self, shape: Shape) -> tuple[Array, Array] | None:
        inner = self.constraint.bounds(shape)
        shift = self.shift.reshape(shape)
        return None if inner is None else (inner[0] + shift, inner[1] + shift)
