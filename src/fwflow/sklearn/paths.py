"""Fits of one model for growing radii: one after the other, or all at once on a device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from fwflow._validation import Array
from fwflow.run import paths
from fwflow.run.trace import progress_bar
from fwflow.sklearn.corners import CornerPath
from fwflow.sklearn.linear import BallEstimator, L1Regression, Samples

if TYPE_CHECKING:
    import matplotlib.axes


@dataclass(frozen=True, eq=False)
class RadiusPath:
    """Fits of one model for growing radii.

    Attributes
    ----------
    radii : (n_radii,) array
    coefs : (n_radii, ...) array
        In the shape of the estimator's ``coef_``.
    intercepts : (n_radii, ...) array
    dual_gaps : (n_radii,) array
        Certified duality gap at each radius.
    n_iters : (n_radii,) array
        Iterations of each run, plus the corners of the path up to its radius if corners were followed.
    """

    radii: Array
    coefs: Array
    intercepts: Array
    dual_gaps: Array
    n_iters: Array

    def plot(self, ax: Any = None, **style: Any) -> matplotlib.axes.Axes:
        """Draw every coefficient that is nonzero at some radius against the radius, into `ax` or a new figure."""
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
    eps: float = 0.05,
    sample_weight: Any = None,
    backend: str = "numpy",
    progress: bool = False,
) -> RadiusPath:
    """Fit a model for growing radii, each fit started at the one before, or all at once on a device.

    Parameters
    ----------
    X, y : arrays
        As for ``estimator.fit``.
    radii : "auto" or array
        "auto" takes a geometric series from the radius at which the first coefficient has entered to the radius from
        which a larger one lowers the loss by at most the share `eps` of its decrease; see `fwflow.path`.
    estimator : estimator, optional
        `L1Regression()` by default, or any other linear model of this package; its radius is not used.
    n_radii : int
        Number of radii for "auto".
    eps : float
        Tolerance for the end of "auto", above 0 and at most 1.
    sample_weight : array, optional
    backend : {"numpy", "jax"}
        "jax" fits all radii at once with `fwflow.jax.path` on the default device of JAX; it needs the extra ``jax``. It
        supports the l1 ball and the simplex, regression and two classes, and an intercept for least squares on dense
        data only.
    progress : bool
        Show a progress bar that counts the radii; on a device all are done at the same time.

    Notes
    -----
    On a device, data is in single precision unless JAX's double precision is enabled. Gaps are verified in double
    precision on that data; rounding may prevent a tolerance below 1e-6. "auto" finds its radii on the host.

    The minimiser of least squares over the l1 ball is piecewise linear in the radius. For dense data all corners are
    computed, and every fit starts at its minimiser and verifies it. The products of columns need up to twice the
    memory of the data.

    Examples
    --------
    >>> import numpy as np
    >>> from fwflow.sklearn import radius_path
    >>> X = np.random.default_rng(0).standard_normal((50, 20))
    >>> path = radius_path(X, 2 * X[:, 3] - X[:, 5] + 1, n_radii=10, eps=1e-3)
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
) -> Callable[[Array], Iterator[Any]]:
    """Return a function of radii that fits the model at one radius after the other, and yields after each fit."""
    if backend == "numpy":
        return partial(paths.followed, fit=partial(model._fit, task, corners))
    if backend != "jax":
        raise ValueError(f"backend={backend!r} is not known; accepted: 'numpy', 'jax'")
    from fwflow.sklearn.devices import DevicePath

    return DevicePath(model, task).along


def chosen_radii(
    model: BallEstimator, task: Samples, corners: CornerPath | None, radii: Any, count: int, eps: float
) -> Array:
    """Return the radii in ascending order."""
    f: Any = model._objective(task)
    options = {"method": model.method} if corners is None else {"method": model.method, "starts": corners.at}
    return paths.chosen_radii(f, lambda radius: model._ball(radius, f.shape), radii, count, eps, **options)[0]
