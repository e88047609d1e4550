"""Fits of a model for growing radii, and estimators that choose the radius by cross-validation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.sparse as sp
from joblib import Parallel, delayed
from sklearn.base import clone, is_classifier
from sklearn.model_selection import check_cv
from tqdm.auto import tqdm

from fwflow._validation import Array, describe, number
from fwflow.run import paths
from fwflow.sklearn.completion import Completion
from fwflow.sklearn.linear import (
    BallEstimator,
    L1Regression,
    LinearClassifier,
    LinearRegressor,
    OverGroupBall,
    OverL1Ball,
    OverSimplex,
    checked_weights,
)

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
    eps: float | None = None,
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
    eps : float, optional
        Tolerance for the end of "auto", above 0 and at most 1; `fwflow.path` gives the default.
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
    >>> path = radius_path(X, 2 * X[:, 3] - X[:, 5] + 1, n_radii=10)
    >>> [np.flatnonzero(coef.round(2)).tolist() for coef in path.coefs[[0, -1]]]
    [[3], [3, 5]]
    >>> round(float(path.radii[-1]), 1)
    2.9
    """
    model = clone(L1Regression() if estimator is None else estimator)
    fits = _Fits(model, X, y, sample_weight, backend)
    chosen = fits.radii(radii, n_radii, eps)
    fitted = tqdm(fits.along(chosen), total=len(chosen), unit=" radii") if progress else fits.along(chosen)
    found = [(model.coef_, model.intercept_, model.dual_gap_, model.n_iter_) for _ in fitted]
    return RadiusPath(chosen, *(np.array(part) for part in zip(*found, strict=True)))


class _Fits:
    """Fits of a model to the same data for several radii; ``along(radii)`` yields after every fit."""

    def __init__(self, model: BallEstimator, X: Any, y: Any, sample_weight: Any, backend: str) -> None:
        self._model, self._task = model, model._task(X, y, sample_weight)
        self._f, self._corners = model._objective(self._task), model._corners(self._task)
        self.along: Callable[[Array], Iterator[Any]]
        if backend == "numpy":
            self.along = partial(paths.followed, fit=partial(model._fit, self._f, self._corners))
        elif backend == "jax":
            from fwflow.sklearn.devices import DevicePath

            self.along = DevicePath(model, self._task).along
        else:
            raise ValueError(f"backend={backend!r} is not known; accepted: 'numpy', 'jax'")

    def radii(self, radii: Any, count: int, eps: float | None) -> Array:
        """Return the radii in ascending order."""
        options, f, corners = {"method": self._model.method}, self._f, self._corners
        if corners is not None:
            options |= {"starts": corners.at, "following": corners.following}
        return paths.chosen_radii(f, partial(self._model._ball, shape=f.shape), radii, count, eps, **options)[0]


@dataclass(eq=False, repr=False)
class RadiusSearch(BallEstimator):
    """Estimator whose radius is chosen by cross-validation."""

    radii: Any = "auto"
    _: KW_ONLY
    n_radii: int = 30
    eps: float | None = None
    cv: Any = None
    rule: str = "min"
    n_jobs: int | None = None
    progress: bool = False

    #: A parameter of `DeviceSearch`.
    backend = "numpy"

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Choose the radius by cross-validation, and fit the model with this radius to all data.

        The parameters are those of `L1Regression.fit`. `sample_weight` is also used in held-out losses.
        """
        if self.rule not in ("min", "1se"):
            raise ValueError(f"rule={self.rule!r} is not known; accepted: 'min', '1se'")
        if self.n_jobs is not None:
            number(self.n_jobs, "n_jobs", "be None or an integer other than 0", lambda x: x != 0 and x % 1 == 0)
        fits = _Fits(self, X, y, sample_weight, self.backend)
        self.radii_ = fits.radii(self.radii, self.n_radii, self.eps)
        X, y = sp.csr_array(X) if sp.issparse(X) else np.asarray(X), np.asarray(y).reshape(-1)
        weights = checked_weights(sample_weight, len(y))
        folds = [delayed(_fold)(clone(self), X, y, weights, *split, self.radii_) for split in self._splits(X, y)]
        jobs = 1 if self.backend == "jax" else self.n_jobs
        losses = Parallel(n_jobs=jobs, return_as="generator" if self.progress else "list")(folds)
        self.losses_ = np.array(list(tqdm(losses, total=len(folds), unit=" folds") if self.progress else losses))
        self.mean_losses_ = np.nanmean(self.losses_, axis=0)
        counts = np.isfinite(self.losses_).sum(axis=0)
        self.standard_errors_ = np.nanstd(self.losses_, axis=0) / np.sqrt(np.maximum(counts - 1, 1))
        best = int(self.mean_losses_.argmin())
        if self.rule == "1se":
            best = int((self.mean_losses_ <= self.mean_losses_[best] + self.standard_errors_[best]).argmax())
        self.radius_ = float(self.radii_[best])
        list(fits.along(self.radii_[self.radii_ <= self.radius_]))
        return self

    def _splits(self, X: Any, y: Array) -> list[tuple[Array, Array]]:
        """Return the training and test indices of every fold."""
        try:
            splits = [(train, test) for train, test in check_cv(self.cv, y, classifier=is_classifier(self)).split(X, y)]
        except TypeError as error:
            raise ValueError(f"cv must give pairs of training and test indices; got {describe(self.cv)}") from error
        if not splits:
            raise ValueError(f"cv gives no folds; got {describe(self.cv)}")
        return splits

    def plot(self, ax: Any = None) -> matplotlib.axes.Axes:
        """Draw the held-out losses against the radius, with one standard error, and the chosen radius."""
        import matplotlib.pyplot as plt

        ax = plt.subplots(layout="constrained")[1] if ax is None else ax
        low, high = (self.mean_losses_ + sign * self.standard_errors_ for sign in (-1, 1))
        ax.fill_between(self.radii_, low, high, alpha=0.2, linewidth=0)
        ax.plot(self.radii_, self.mean_losses_)
        ax.axvline(self.radius_, linestyle="--", color="grey")
        ax.set(xscale="log", xlabel="radius", ylabel="held-out loss")
        return ax


def _fold(model: Any, X: Any, y: Array, weights: Array | None, train: Array, test: Array, radii: Array) -> list[float]:
    """Return the mean loss of the test samples for every radius, NaN if their weights are all zero."""
    inner, held_out = (None, None) if weights is None else (weights[train], weights[test])
    if held_out is not None and not held_out.any():
        return [float("nan")] * len(radii)
    fits = _Fits(model, X[train], y[train], inner, model.backend)
    return [float(np.average(model._losses(X[test], y[test]), weights=held_out)) for _ in fits.along(radii)]


@dataclass(eq=False, repr=False, kw_only=True)
class DeviceSearch(RadiusSearch):
    """Search that can fit all radii of a fold at once on a device."""

    backend: str = "numpy"


@dataclass(eq=False, repr=False)
class L1RegressionCV(DeviceSearch, OverL1Ball, LinearRegressor):
    """`L1Regression` with the radius chosen by cross-validation.

    All other parameters and attributes are those of `L1Regression`. ``warm_start`` has no effect. If the corners of the
    path are computed (see `radius_path`), `n_iter_` also counts those up to the radius.

    Parameters
    ----------
    radii, n_radii, eps : "auto" or array, int, float or None
        Candidate radii. "auto" takes ``n_radii`` radii; ``eps`` determines the largest one as in `radius_path`.
    cv : int, splitter or iterable, optional
        Folds; five by default.
    rule : {"min", "1se"}
        Choose the radius with the smallest mean loss, or the smallest radius within one standard error of that loss.
    n_jobs, progress : int or None, bool
        Number of folds to run in parallel, and whether to show a progress bar that counts the folds.
    backend : {"numpy", "jax"}
        "jax" fits all radii of a fold together on a device, and fold after fold. It keeps no trace. See `radius_path`.

    Attributes
    ----------
    radius_, radii_ : float, (n_radii,) array
        Chosen radius, and all radii.
    losses_, mean_losses_, standard_errors_ : (n_folds, n_radii) array, (n_radii,) arrays
        Mean loss of the held-out samples of each fold, its mean over the folds, and the standard error of that.

    Examples
    --------
    >>> import numpy as np
    >>> from fwflow.sklearn import L1RegressionCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((100, 20))
    >>> model = L1RegressionCV(n_radii=20).fit(X, 2 * X[:, 3] - X[:, 5] + rng.standard_normal(100))
    >>> 2 < model.radius_ < 4
    True
    """


@dataclass(eq=False, repr=False)
class SimplexRegressionCV(DeviceSearch, OverSimplex, LinearRegressor):
    """`SimplexRegression` with the radius chosen by cross-validation.

    The parameters and attributes of the search are those of `L1RegressionCV`, all others those of `SimplexRegression`.
    """


@dataclass(eq=False, repr=False)
class GroupRegressionCV(RadiusSearch, OverGroupBall, LinearRegressor):
    """`GroupRegression` with the radius chosen by cross-validation.

    The parameters and attributes of the search are those of `L1RegressionCV` without ``backend``, all others those of
    `GroupRegression`.
    """


@dataclass(eq=False, repr=False)
class L1ClassifierCV(DeviceSearch, OverL1Ball, LinearClassifier):
    """`L1Classifier` with the radius chosen by cross-validation of the log-loss.

    The parameters and attributes of the search are those of `L1RegressionCV`, all others those of `L1Classifier`.
    """


@dataclass(eq=False, repr=False)
class GroupClassifierCV(RadiusSearch, OverGroupBall, LinearClassifier):
    """`GroupClassifier` with the radius chosen by cross-validation of the log-loss.

    The parameters and attributes of the search are those of `L1RegressionCV` without ``backend``, all others those of
    `GroupClassifier`.
    """


@dataclass(eq=False, repr=False, kw_only=True)
class NuclearCompletionCV(Completion, RadiusSearch):
    """`NuclearCompletion` with the radius chosen by cross-validation.

    The parameters and attributes of the search are those of `L1RegressionCV` without ``backend``, all others those of
    `NuclearCompletion`.
    """

    n_radii: int = 10
    eps: float | None = 0.1
