"""How does a model grow with its radius? One fit per radius, each from the one before, or all at once on a device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

import fwflow as fw
from fwflow._numerics import dot
from fwflow._validation import Array, finite_array, number, whole
from fwflow.objectives.quadratic_models import flat
from fwflow.points.gradients import as_gradient
from fwflow.run.trace import progress_bar
from fwflow.sklearn.corners import CornerPath
from fwflow.sklearn.linear import BallEstimator, L1Regression, Samples

if TYPE_CHECKING:
    import matplotlib.axes

# Of the slope at zero, what the first radius takes away: nearly all of it is still there.
_FIRST = 0.05
# The radius doubles at most so often, and is then halved in so many steps.
_DOUBLINGS, _HALVINGS = 60, 2
# Slopes below this many units in the last place of the terms that they add up are rounding, and count as zero.
_ULPS = 64
# Radii go up to this share of the largest number of the data's type.
_LARGEST = 1e-6
# How exact fits are that only tell where a path ends, and so a share of what they look for.
_COARSE = 0.1


@dataclass(frozen=True, eq=False)
class RadiusPath:
    """The fits of a model for growing radii.

    Attributes
    ----------
    radii : (n_radii,) array
    coefs : (n_radii, ...) array
        In the shape that the estimator's ``coef_`` has.
    intercepts : (n_radii, ...) array
    dual_gaps : (n_radii,) array
        Certified at each radius.
    n_iters : (n_radii,) array
        Iterations of each run, and the corners of the path before it where these were followed.
    """

    radii: Array
    coefs: Array
    intercepts: Array
    dual_gaps: Array
    n_iters: Array

    def plot(self, ax: Any = None, **style: Any) -> matplotlib.axes.Axes:
        """Draw every coefficient that is ever used against the radius, into `ax` or a new figure."""
        import matplotlib.pyplot as plt

        ax = plt.subplots(layout="constrained")[1] if ax is None else ax
        columns = self.coefs.reshape(len(self.radii), -1)
        ax.semilogx(self.radii, columns[:, columns.any(axis=0)], **style)
        ax.set(xlabel="radius", ylabel="coefficients")
        return ax


def radius_path(
    X: Any,
    y: Any,
    radii: Any = "auto",
    *,
    estimator: Any = None,
    n_radii: int = 50,
    eps: float = 1e-3,
    sample_weight: Any = None,
    backend: str = "numpy",
    progress: bool = False,
) -> RadiusPath:
    """Fit a model for growing radii, each fit from the one before, or all at once on a device.

    Parameters
    ----------
    X, y : arrays
        As for ``estimator.fit``.
    radii : "auto" or array
        "auto" takes a geometric series: from where the first coefficient has entered, to where the constraint has all
        but stopped to bind.
    estimator : estimator, optional
        `L1Regression()` by default, or any other linear model of this package; its radius does not matter.
    n_radii : int
        How many radii "auto" takes.
    eps : float
        "auto" ends where a larger radius lowers the loss at this share of the rate at which it does at first.
    sample_weight : array, optional
    backend : {"numpy", "jax"}
        "jax" fits all radii at once by `fwflow.jax.path`, on the device that JAX finds; it needs the extra ``jax``. It
        has the l1 ball and the simplex, numbers and two classes, and an intercept for least squares on dense data only.
    progress : bool
        Show a bar that counts the radii; those of a device come together.

    Notes
    -----
    On a device, data is in single precision unless JAX's double precision is enabled. A gap is verified in double
    precision on the data as it is there; a tolerance below 1e-6 may be out of reach for rounding. "auto" finds its
    radii on the host.

    Least squares over the l1 ball is piecewise linear in the radius: for dense data all of its corners are found, and
    every fit begins at its minimiser and verifies it. The products of columns that takes need up to twice the memory
    of the data.

    Examples
    --------
    >>> import numpy as np
    >>> from fwflow.sklearn import radius_path
    >>> X = np.random.default_rng(0).standard_normal((50, 20))
    >>> path = radius_path(X, 2 * X[:, 3] - X[:, 5] + 1, n_radii=10)
    >>> [np.flatnonzero(coef.round(2)).tolist() for coef in path.coefs[[0, -1]]]
    [[3], [3, 5]]
    >>> round(float(path.radii[-1]), 1)
    3.0
    """
    model = clone(L1Regression() if estimator is None else estimator)
    task = model._task(X, y, sample_weight)
    corners = model._corners(task)
    fitted_along = fitter(model, task, corners, backend)
    chosen = chosen_radii(model, task, corners, radii, n_radii, eps)
    fits = []
    with progress_bar(len(chosen), progress, " radii") as bar:
        for _ in fitted_along(chosen):
            fits.append((model.coef_, model.intercept_, model.dual_gap_, model.n_iter_))
            bar.update()
    return RadiusPath(chosen, *(np.array(part) for part in zip(*fits, strict=True)))


def fitter(
    model: BallEstimator, task: Samples, corners: CornerPath | None, backend: str
) -> Callable[[Array], Iterator[float]]:
    """What fits a model at one radius after the other, and says so after each."""
    if backend == "numpy":
        return partial(along, model, task, corners)
    if backend != "jax":
        raise ValueError(f"backend={backend!r} is not known; accepted: 'numpy', 'jax'")
    from fwflow.sklearn.devices import DevicePath

    return DevicePath.of(model, task).along


def along(model: BallEstimator, task: Samples, corners: CornerPath | None, radii: Array) -> Iterator[float]:
    """Each fit from the one before, or from the corners of the path."""
    before = None
    for radius in radii.tolist():
        start = None if corners is None else corners.at(radius)
        model._fit(task, radius, before if start is None else start)
        if corners is not None:
            model.n_iter_ += corners.passed(radius)
        before = model._kept()
        yield radius


def chosen_radii(
    model: BallEstimator, task: Samples, corners: CornerPath | None, radii: Any, count: int, eps: float
) -> Array:
    """The radii that were asked for, in ascending order."""
    count, eps = whole(count, "n_radii", 1), number(eps, "eps", "be above 0 and at most 1", lambda x: 0 < x <= 1)
    if isinstance(radii, str):
        if radii != "auto":
            raise ValueError(f"radii={radii!r} is not known; give an array, or 'auto'")
        return _auto(model, task, corners, count, eps)
    given = np.unique(finite_array(radii, "radii", ndim=1))
    if not len(given) or given[0] <= 0:
        raise ValueError("radii must be positive, and at least one")
    return given.astype(np.float64)


def _auto(model: BallEstimator, task: Samples, corners: CornerPath | None, count: int, eps: float) -> Array:
    f: Any = model._objective(task)
    origin = f.point(fw.LowRank.zeros(f.shape, f.dtype) if f.factored else np.zeros(f.shape))
    unit = model._ball(1.0, f.shape)

    def steepest(point: Any) -> tuple[float, Any]:
        """How fast the least loss falls as the radius grows, where the point has it, and towards which vertex."""
        g = as_gradient(f.gradient(point))
        vertex = f.lift(unit.lmo(g.as_oracle_input()))
        found = -g.dot(vertex.vertex)
        terms = float(dot(np.abs(f.dual(point)), np.abs(flat(vertex.image_vertex))))
        return (found if found > _ULPS * np.finfo(f.dtype).eps * terms else 0.0), vertex

    def rate(x: Any) -> float:
        return steepest(f.point(x))[0]

    at_first, vertex = steepest(origin)
    line = f.along(origin, origin.mix([(1.0, vertex)]), f.value(origin))
    if not at_first > 0 or not line.norm2 > 0:  # nothing is worth a coefficient, or features have squares that vanish
        return np.geomspace(1e-3, 1.0, count)
    curvature, largest = line.second(0.0), _LARGEST * float(np.finfo(f.dtype).max)
    with np.errstate(over="ignore"):
        first = min(_FIRST * (at_first / curvature if curvature > 0 else line.value0 / at_first), largest)

    if corners is not None and (end := corners.radius_at(eps)) is not None:
        return np.geomspace(first, max(end, first), count)

    def fitted(radius: float, start: Any) -> Any:
        return model._minimised(f, model._ball(radius, f.shape), start, tol=_COARSE * eps, max_iter=1000).x

    last, x, before = first, fitted(first, None), None
    for _ in range(_DOUBLINGS):
        if rate(x) <= eps * at_first or last > largest / 2:
            break
        before, last = x, 2 * last
        x = fitted(last, x)
    size = model._size(x)
    if size is not None and size < 0.999 * last:
        last = size
    elif before is not None:
        lower = last / 2
        for _ in range(_HALVINGS):
            middle = float(np.sqrt(lower * last))
            x = fitted(middle, before)
            lower, last, before = (middle, last, x) if rate(x) > eps * at_first else (lower, middle, before)
    return np.geomspace(first, max(last, first), count)
