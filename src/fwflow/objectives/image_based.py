"""Objectives that depend on x through a linear map: quadratics, and sums of losses with or without an intercept."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from fwflow._fingerprints import fingerprint
from fwflow._numerics import dot, length, quietly
from fwflow._validation import Array, InputError, finite_array, suggest
from fwflow.designs import Counts, Design, as_design
from fwflow.objectives.base import ImageMap, Line, NumericalTrouble, Objective, parabola
from fwflow.objectives.losses import Ahead, Loss
from fwflow.objectives.quadratic_models import NOWHERE, CentredModel, CoordinateModel, Model
from fwflow.objectives.restriction import QuadraticOnEntries, Restriction
from fwflow.points.point import Lifted, Point
from fwflow.points.vertices import DenseVertex, Scaled, SparseVertex, Sum, Vertex, read_only

_EPS = float(np.finfo(np.float64).eps)
# Largest number of steps. The search range doubles, so that this number of steps reaches all floating-point numbers.
_MOST = 2000
# Largest number of Newton steps for the intercepts of a coupled loss, chosen without tuning. A few steps are enough
# unless nearly all probabilities are zero or one; then each step moves them by the logarithm of its length only.
_MOST_COUPLED = 10_000
# Length of a Newton step after which the error, about its square, is below rounding.
_LAST_STEP = 1e-7
# Share of nonzero entries of x up to which its image is computed from their columns. Chosen without tuning.
_FEW = 1 / 3
# Least curvature of a loss with unbounded curvature in a quadratic model, as a share of the largest one. Chosen without
# tuning.
_LEAST_CURVED = 1e-9
# Least factor by which a step of Newton's method reduces the slope; after a smaller one the search range is doubled or
# halved instead. Where the logistic loss is saturated, each of up to a thousand steps has length one and reduces the
# slope by a factor of e only, which is less than this factor. With 10, other losses need twice as many steps.
_FALL = 3


class DesignMap(ImageMap):
    """Product of a design matrix with x. A run keeps the images of recurring vertices in `cache`, and has `counts`."""

    def __init__(self, design: Design, cache: dict[Any, Any] | None = None, counts: Counts | None = None) -> None:
        self.design, self.size, self._cache, self.counts = design, design.shape[0], cache, counts or Counts()

    def of_point(self, point: Point) -> Point:
        return Point(point.x, self._product(point.x))

    def of_vertex(self, vertex: Vertex) -> Vertex:
        entries = vertex.entries()
        if entries is not None:
            return self._combined(*entries)
        found: list[Vertex] = []
        rest: list[Vertex] = []
        for factor, part in vertex.terms():
            image = self._of_part(part)
            if image is None:
                rest.append(Scaled(factor, part))
            else:
                found.append(Scaled(factor, image))
        if rest:  # Parts without structure share one product.
            found.append(DenseVertex(self._product(Sum(tuple(rest)).to_dense(self.design.dtype))))
        return found[0] if len(found) == 1 else Sum(tuple(found))

    def of_block(self, block: SparseVertex) -> Vertex:
        self.counts.n_design += len(block.indices) / self.design.shape[1]
        return self.design.combined(block.indices, block.values)

    def _combined(self, indices: Any, values: Any) -> Vertex:
        if len(indices) == 1:
            return Scaled(float(values[0]), self.design.column(int(indices[0])))
        return self.design.combined(np.asarray(indices), np.asarray(values))

    def _of_part(self, vertex: Vertex) -> Vertex | None:
        """Return the image of a sparse or recurring vertex, else None."""
        if not vertex.recurring:
            entries = vertex.entries()
            return None if entries is None else self._combined(*entries)
        known = {} if self._cache is None else self._cache
        if vertex not in known:
            known[vertex] = DenseVertex(self._product(vertex.to_dense(self.design.dtype)))
        return known[vertex]

    def _product(self, x: Array) -> Array:
        if not x.any():  # as at the centre of a ball, where most runs start
            return np.zeros(self.size, self.design.dtype)
        return np.array(self.design.matvec(x.reshape(-1)), dtype=self.design.dtype)


class DesignImage(Objective):
    """Objective of the product of a design matrix with x, and of a data vector b."""

    b: Array
    image_map: DesignMap
    #: Name of the matrix in messages.
    matrix: str

    def __init__(self, A: Any, name: str = "A") -> None:
        self.image_map, self.matrix = DesignMap(as_design(A, name)), name
        self.dtype, self.data_cost = self.design.dtype, self.design.data_cost
        self.shape = (self.design.shape[1],)

    @property
    def design(self) -> Design:
        return self.image_map.design

    def _target(self, b: Any, name: str = "A", ndim: int = 1) -> Array:
        """Return the data b, finite in the type of the design, with one entry per row, or a matrix of such columns."""
        b = finite_array(b, "b", ndim=ndim, dtype=self.dtype)
        if len(b) != self.image_map.size:
            raise InputError(f"b has {len(b)} entries; {name} has {self.image_map.size} rows, and they must agree")
        return b

    def imaged(self, x: Array) -> Point:
        used = np.flatnonzero(x)
        if not 0 < len(used) <= _FEW * x.size:
            return self.refresh(Point(x))
        image = self.image_map.of_block(SparseVertex(used, x.reshape(-1)[used], x.shape))
        return Point(x, image.to_dense(self.dtype), exact=True)

    def _run_design(self) -> Design:
        """Return the design that a run uses."""
        return self.design

    def counted_by(self, counts: Counts) -> Self:
        watched = super().counted_by(counts)
        watched.image_map = DesignMap(self._run_design().counted(counts), watched.cache, counts)
        return watched

    def precise(self) -> Objective:
        double = None if self.dtype == np.float64 else self.design.double()
        if double is None:
            return self
        doubled = copy.copy(self)
        doubled.image_map, doubled.cache = DesignMap(double), None  # The cached images are in single precision.
        doubled.b, doubled.dtype = self.b.astype(np.float64), np.dtype(np.float64)
        return doubled

    @property
    def trusted(self) -> bool:
        return super().trusted and self.design.trusted

    def fingerprint(self) -> str:
        design = self.design
        data = {"dtype": design.dtype.name, self.matrix: design.fingerprint() or design.shape, "b": self.b}
        return fingerprint(self, **data, **self._settings())

    def _settings(self) -> dict[str, Any]:
        """Return the parameters of the function other than the design and b, by name."""
        return {}


# In single precision, squares of huge images overflow. Line searches then see an infinite curvature.
_square = quietly(np.square)


def scale_factor(scale: str, total: Any) -> Any:
    """Return the factor of the sum of losses for ``scale="mean"`` or ``"sum"``, where `total` is the sum of weights."""
    if scale not in ("mean", "sum"):
        raise InputError(f"scale={scale!r} is not known; {suggest(scale, ('mean', 'sum'))}")
    return 1.0 / total if scale == "mean" else 1.0


def image_of(point: Point) -> Array:
    """Return the image of a point that carries one."""
    assert point.image is not None
    return point.image


def image_rounding(moved: Array, z: Array, vertex: Lifted) -> float:
    """Bound the rounding of the products of a gradient with x and a vertex, computed from their images.

    `moved` holds the absolute values of the terms of the derivatives in the image. z holds the absolute values of the
    image of x.
    """
    images = [z] if vertex.image is None else [z, vertex.image_vertex.to_dense(z.dtype)]
    return float(np.finfo(z.dtype).eps) * sum(length(moved * image) for image in images)


class Quadratic(DesignImage):
    r"""Quadratic :math:`f(x) = \tfrac12 x^T H x - b^T x` with symmetric H, dense or sparse.

    Each point stores the product H x. A gradient is therefore one subtraction, and a step towards a one-hot vertex
    needs one column of H. Convexity is not checked. If f is not convex, the gap still measures stationarity.

    Parameters
    ----------
    H : (n, n) array, SciPy sparse matrix, or Design
        Symmetric matrix.
    b : (n,) array_like, optional
        Linear term; zero by default.

    See Also
    --------
    LinearModel : Least squares without forming the matrix H.
    exact_flow : Exact flow of a quadratic.

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> r = fw.minimize(fw.Quadratic(np.eye(3), [3.0, 0.0, 0.0]), fw.Simplex(), line_search="exact")
    >>> r.x
    array([1., 0., 0.])
    """

    quadratic = True
    restrictable = True

    def __init__(self, H: Any, b: ArrayLike | None = None) -> None:
        super().__init__(H, "H")
        rows, n = self.design.shape
        if rows != n:
            raise ValueError(f"H must be square; its shape is {self.design.shape}")
        self.b = np.zeros(n, self.dtype) if b is None else self._target(b, "H")
        probe = read_only(np.random.default_rng(0).standard_normal(n).astype(self.design.dtype))
        left, right = np.array(self.design.matvec(probe)), self.design.rmatvec(probe)
        if np.abs(left - right).max() > 1e2 * np.finfo(self.design.dtype).eps * np.abs(left).max():
            raise ValueError("H must be symmetric; (H + H.T) / 2 gives the same function")

    def value(self, point: Point) -> float:
        return float(np.vdot(point.x, 0.5 * image_of(point) - self.b))

    def gradient(self, point: Point) -> Array:
        return image_of(point) - self.b

    def partial(self, point: Point, place: slice) -> Array:
        return image_of(point)[place] - self.b[place]

    def rounding(self, point: Point, vertex: Lifted) -> float:
        moved = np.abs(image_of(point)) + np.abs(self.b)
        eps = float(np.finfo(moved.dtype).eps)
        return eps * sum(length(moved * np.ravel(side)) for side in (point.x, vertex.coordinates.to_dense(moved.dtype)))

    def along(self, start: Point, end: Point, value0: float) -> Line:
        d = np.ravel(end.x - start.x)
        slope0 = float(dot(image_of(start) - self.b, d))
        curvature = float(dot(image_of(end) - image_of(start), d))
        return parabola(value0, slope0, curvature, float(dot(d, d)))

    def restricted(self, point: Point, places: Array | None) -> Restriction:
        if places is None:
            return QuadraticOnEntries(self.design, self.b, bool(self.convex))
        rows = self.design.columns(places)[places]
        H = rows.toarray() if sp.issparse(rows) else rows
        # The gradient at the point, H v - c, is that of the whole quadratic.
        c = dot(H, point.x.reshape(-1)[places]) - image_of(point)[places] + self.b[places]
        return QuadraticOnEntries(H, c, bool(self.convex))

    def model(self, point: Point, gradient: Callable[[Point], Any]) -> Model:
        return CoordinateModel(1.0, np.asarray(self.b, dtype=np.float64))


class LossOfImage(Objective):
    """Sum of losses of an image that is linear in x; subclasses supply the linear map.

    With an intercept, f is the minimum over all constants that may be added to the image. By the envelope theorem the
    derivatives of f are those at the optimal constant.
    """

    loss: Loss
    b: Array
    factor: float
    #: Factors of the losses, one per entry of the image. None: all are one.
    weights: Array | None = None
    #: Number of targets. The image and b hold one target after the other.
    targets: int = 1
    #: Whether a constant is added to the image, one per target.
    intercept: bool = False
    #: Whether the loss can be computed for some predictions only.
    _limited: bool = False
    #: Calls a function of the loss: ``_computed(function, *arguments)``.
    _computed: Callable[..., Any]
    #: Whether a run computes the loss and its derivative together. A class of a user may override one of them only.
    joint: bool = False
    convex = True

    def _set_losses(self, loss: Loss, b: Array, scale: str, weights: ArrayLike | None) -> None:
        """Check and keep the loss, the data b and the weights."""
        self.loss, self.b = loss, b
        self.loss.check(b)
        self._limited = loss.inside(b[:1]) is not None
        # Overflow in a loss of the library gives a value or slope that is not finite, which the loop sees.
        self._computed = quietly(_called) if loss.trusted else _called
        self.quadratic, self.lower_bound = self.loss.quadratic, 0.0 if self.loss.nonnegative else -np.inf
        rows = len(b) // self.targets
        total = float(rows)
        if weights is not None:
            w = finite_array(weights, "weights", ndim=1, dtype=b.dtype)
            if len(w) != rows:
                raise ValueError(f"weights has {len(w)} entries; it must have {rows}, one per datum")
            if (w < 0).any() or not w.any():
                raise ValueError("weights must not be negative, and at least one must be positive")
            if self.loss.values(b[: self.targets], b[: self.targets]) is None:
                raise ValueError(f"weights need the loss of single entries; {self.loss!r} does not define `values`")
            total = float(w.sum(dtype=np.float64))
            self.weights = read_only(w if self.targets == 1 else np.tile(w, self.targets))
        self.factor = scale_factor(scale, total)

    def counted_by(self, counts: Counts) -> Self:
        watched = super().counted_by(counts)
        watched.b = read_only(self.b)  # A user's loss must not change it.
        watched.joint = self.trusted and self.weights is None
        return watched

    @property
    def trusted(self) -> bool:
        return super().trusted and self.loss.trusted

    @property
    def domain(self) -> Callable[[Point], bool] | None:  # type: ignore[override]
        # With an intercept, no prediction is far above those that fit the data.
        return None if self.intercept or not self._limited else self._inside

    def _inside(self, point: Point) -> bool:
        """Return whether the losses of all entries with a positive weight can be computed."""
        inside = self.loss.inside(image_of(point))
        assert inside is not None  # `domain` has asked
        return bool(inside.all() if self.weights is None else inside[self.weights > 0].all())

    def value(self, point: Point) -> float:
        return self._value(self._shifted(image_of(point)))

    def dual(self, point: Point) -> Array:
        """Return the derivative of f in the image; the transpose of the linear map turns it into the gradient."""
        return self._slopes(self._shifted(image_of(point)))

    def value_and_dual(self, point: Point) -> tuple[float, Array]:
        """Return the value and the derivative in the image, for a model without weights."""
        value, slopes = self._computed(self.loss.value_and_derivative, self._shifted(image_of(point)), self.b)
        return self.factor * value, self.factor * slopes

    def _value(self, z: Array) -> float:
        if self.weights is None:
            return self.factor * float(self._computed(self.loss.value, z, self.b))
        values = self._computed(self.loss.values, z, self.b)
        assert values is not None  # Weights are refused for losses without `values`.
        return self.factor * float(dot(self.weights, values))

    def _slopes(self, z: Array) -> Array:
        return self._weighed(self._computed(self.loss.derivative, z, self.b))

    def seconds(self, z: Array) -> Array:
        """Return the second derivatives in the image, entry by entry, for a fixed intercept."""
        return self._weighed(self._computed(self.loss.second, z, self.b))

    @property
    def steepest(self) -> float:
        """Upper bound on the second derivatives in the image."""
        largest = 1.0 if self.weights is None else float(self.weights.max(initial=0.0))
        return self.factor * self.loss.curvature * largest

    def _on_rows(self, rows: Array | slice | None) -> Self:
        """Return the losses of some entries of the image, with their factors; None stands for all."""
        if rows is None:
            return self
        twin = copy.copy(self)
        twin.b, twin.weights = self.b[rows], None if self.weights is None else self.weights[rows]
        twin.loss = self.loss.on(rows)
        return twin

    def _by_target(self) -> list[Self]:
        """Return this function for each target alone. Only its loss, b and weights are used."""
        rows = len(self.b) // self.targets
        return [self._on_rows(slice(k * rows, (k + 1) * rows)) for k in range(self.targets)]

    def _less_means(self, z: Array) -> Array:
        """Return an image minus its weighted mean, for each target."""
        if self.targets == 1:
            return z - average(z, self.weights)
        weights = np.ones_like(z) if self.weights is None else self.weights
        return CentredModel(weights, NOWHERE, self.targets).centred(z)

    def _weighed(self, entries: Array) -> Array:
        return self.factor * (entries if self.weights is None else self.weights * entries)

    def _shifted(self, z: Array, guess: Any = None) -> Array:
        """Return the image, plus the optimal intercepts if the model has some; `guess` is close to them."""
        return self._plus(z, self._shift(z, guess)) if self.intercept else z

    def _plus(self, z: Array, shift: Any) -> Array:
        """Return an image plus a constant for each target."""
        return z + (shift if np.ndim(shift) == 0 else np.repeat(shift, len(z) // self.targets).astype(z.dtype))

    def _shift(self, z: Array, guess: Any = None) -> Any:
        known = {} if self.cache is None else self.cache
        loss, image, shift = known.get("shift", (None, None, 0.0))
        if loss is not self.loss or image is not z:  # An objective made by `ahead` shares the cache.
            shift = self.constants(np.asarray(z, dtype=np.float64), guess)
            known["shift"] = self.loss, z, shift
        return shift

    def constants(self, z: Array, guess: Any = None, accuracy: float = 4 * _EPS) -> Any:
        """Return the optimal intercept for an image, or an array of them if there are several targets."""
        if self.loss.coupled:
            return self._coupled_constants(z, np.zeros(self.targets) if guess is None else guess)
        if self.targets == 1:
            return optimal_intercept(self.loss, z, self.b, self.weights, guess, accuracy)
        guesses = [None] * self.targets if guess is None else guess
        parts = zip(self._by_target(), z.reshape(self.targets, -1), guesses, strict=True)
        return np.array([optimal_intercept(p.loss, own, p.b, p.weights, near, accuracy) for p, own, near in parts])

    def _coupled_constants(self, z: Array, c: Array) -> Array:
        """Return the optimal intercepts of a coupled loss by Newton steps from c, damped as in Bach (2010)."""
        weights, before = np.ones(len(z)) if self.weights is None else self.weights.astype(np.float64), np.inf
        total = float(weights.sum()) / self.targets
        for _ in range(_MOST_COUPLED):
            shifted = self._plus(z, c)
            terms = weights * self.loss.derivative(shifted, self.b) / total
            slopes = terms.reshape(self.targets, -1).sum(axis=1)
            second = weights * self.loss.second(shifted, self.b) / total
            error, size = float(np.abs(slopes).max()), float(np.abs(terms).sum())
            step = -dot(self.curved(second).inverse, slopes)
            reach = float(np.ptp(step))
            rounding = reach < 0.1 and error > before / 4  # a full step that does not converge quadratically
            if error <= 1e-15 * size or rounding or reach <= 1e-15 * (1 + float(np.abs(c).max())):
                return c
            if reach <= _LAST_STEP:
                return np.asarray(c + step)
            # The damping is that for functions with generalised self-concordance.
            c, before = c + (step if reach < 0.1 else math.log1p(reach) / reach * step), error
        raise NumericalTrouble("the optimal intercepts are infinite: the loss decreases without end as they grow")

    def curved(self, second: Array) -> Any:
        """Return the quadratic with these second derivatives in the image and without linear part."""
        if not (self.intercept or self.loss.coupled):
            return Model(second, NOWHERE)
        return CentredModel(second, NOWHERE, self.targets, self.loss.coupled, self.intercept)

    def rounding(self, point: Point, vertex: Lifted) -> float:
        z = image_of(point)
        # The bounds of losses with bounded curvature hold for every intercept.
        terms = self.loss.terms(z if self.loss.curvature < math.inf else self._shifted(z), self.b)
        return image_rounding(np.abs(self.dual(point)) + self._weighed(terms), np.abs(z), vertex)

    def along(self, start: Point, end: Point, value0: float) -> Line:
        z = image_of(start)
        direction = image_of(end) - z
        shift = None
        if self.intercept:
            # f does not depend on a constant in the image, and the shorter direction has smaller rounding errors.
            direction = self._less_means(direction)
            shift = self._shift(z)

        def image_at(gamma: float) -> Array:
            return self._shifted(z + gamma * direction, shift)

        if self.intercept:  # Each intercept takes a few Newton steps.
            image_at = lru_cache(maxsize=1)(image_at)

        def slope(gamma: float) -> float:
            return float(dot(self._slopes(image_at(gamma)), direction))

        def second(gamma: float) -> float:
            weights = self.seconds(image_at(gamma))
            return float(dot(weights, _square(self.curved(weights).centred(direction))))

        norm2 = float(dot(direction, direction))
        weighed = self.factor * norm2 if self.weights is None else float(dot(self._weighed(direction), direction))
        # For a quadratic loss the bound is exact without an intercept only.
        exact = self.quadratic and self.intercept
        bounded, growth = self.loss.curvature < math.inf, self.loss.growth
        if growth is not None:
            # With an intercept, f is a sum of logarithms of sums of exponentials.
            span = float(direction.max()) - (float(direction.min()) if self.intercept else 0.0)
            growth = growth * max(span, 0.0)
        return Line(
            value=lambda gamma: self._value(image_at(gamma)),
            slope=slope,
            second=second,
            value0=value0,
            slope0=slope(0.0),
            norm2=norm2,
            curvature=second(0.0) if exact else self.loss.curvature * weighed if bounded else None,
            quadratic=self.quadratic,
            growth=growth,
        )

    def model(self, point: Point, gradient: Callable[[Point], Any]) -> Model:
        z = np.asarray(image_of(point), dtype=np.float64)
        z = np.zeros_like(z) if self.quadratic else z  # The model is the same everywhere, and exact at zero.
        shifted = self._shifted(z)
        second = self.loss.second(shifted, self.b)
        if not (self.quadratic or self.loss.coupled):
            # A Newton step has no length where a loss is linear, as in the tails of Huber's loss. The curvature added
            # there (chosen without tuning) is small compared with that of a nearly saturated loss. Exponentials have
            # curvatures of many sizes.
            bounded = self.loss.curvature < math.inf
            largest = float(second.max()) or (self.loss.curvature if bounded else 1.0)
            second = np.maximum(second, (1e-3 if bounded else _LEAST_CURVED) * largest)
        model = self.curved(self._weighed(second))
        return replace(model, pull=model.second * model.centred(z) - self._slopes(shifted))

    def ahead(self, point: Point, share: float) -> Self:
        twin = copy.copy(self)
        twin.loss = Ahead(self.loss, (1 - share) * image_of(point), share)
        return twin


def _called(function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)


def average(entries: Array, weights: Array | None) -> float:
    """Return the weighted mean of some numbers, or 0 if no weight is positive."""
    if weights is None:
        return float(entries.mean(dtype=np.float64))
    total = float(weights.sum(dtype=np.float64))
    return float(dot(weights, entries)) / total if total > 0 else 0.0


@quietly  # `root` raises an error for an image that overflows in single precision.
def optimal_intercept(
    loss: Loss, z: Array, b: Array, weights: Array | None, guess: float | None = None, accuracy: float = 4 * _EPS
) -> float:
    r"""Return the c that minimises :math:`\sum_i w_i \ell(z_i + c, b_i)`; the search starts from `guess`.

    It ends when the derivative in c is at most `accuracy` times the sum of the absolute values of its terms.
    """

    def total(entries: Array) -> float:
        return float(entries.sum() if weights is None else dot(weights, entries))

    def derivatives(c: float) -> tuple[float, float, float]:
        first, second = loss.derivative(z + c, b), loss.second(z + c, b)
        return total(first), total(second), total(np.abs(first) + second * np.abs(z))

    if loss.quadratic:
        slope, curvature, _ = derivatives(0.0)
        return -slope / curvature if curvature > 0 else 0.0
    found = loss.best_shift(z, b, weights)
    if found is not None:
        return found
    return root(derivatives, average(b - z, weights) if guess is None else guess, accuracy)


def root(derivatives: Callable[[float], tuple[float, float, float]], c: float, accuracy: float = 4 * _EPS) -> float:
    """Return the zero of an increasing function, by Newton's method with bisection as a safeguard.

    ``derivatives(c)`` is the function, its derivative, and the sum of the absolute values of its terms, to which the
    accuracy is relative.
    """
    lower, upper, reach, before = -math.inf, math.inf, 1.0, math.inf
    for _ in range(_MOST):
        slope, curvature, size = derivatives(c)
        if abs(slope) <= accuracy * size:
            return c
        lower, upper = (c, upper) if slope < 0 else (lower, c)
        target = c - slope / curvature if curvature > 0 else math.copysign(math.inf, -slope)
        if math.isinf(upper - lower):
            if abs(slope) > before / _FALL:
                target = math.copysign(math.inf, -slope)
            target = min(max(target, c - reach), c + reach)
            reach *= 2
        elif not lower < target < upper or abs(slope) > before / _FALL:
            target = lower + (upper - lower) / 2
        if target in (lower, upper):
            return c
        c, before = target, abs(slope)
    raise NumericalTrouble("the optimal intercept is infinite: the loss decreases without end as it grows")
