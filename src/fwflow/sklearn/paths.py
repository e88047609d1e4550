"""Fits of a model for growing radii, and estimators that choose the radius by cross-validation."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import KW_ONLY, dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.sparse as sp
from joblib import Parallel, delayed, effective_n_jobs
from sklearn.base import clone, is_classifier
from sklearn.model_selection import GroupKFold, KFold, StratifiedGroupKFold, StratifiedKFold, check_cv
from tqdm.auto import tqdm

from fwflow._validation import Array, describe, number, whole
from fwflow.run import paths
from fwflow.run.paths import Trail
from fwflow.run.selection import BLOCK, N_RADII, Fold, FoldFit, check_rule, search
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

    from fwflow.sklearn.devices import DevicePath


@dataclass(frozen=True, eq=False)
class RadiusPath:
    """Fits of one model for growing radii.

    Attributes
    ----------
    radii : (n_radii,) array
        Radii, in ascending order.
    coefs : (n_radii, ...) array
        Coefficients, in the shape of the estimator's ``coef_``.
    intercepts : (n_radii, ...) array
        Intercepts, in the shape of the estimator's ``intercept_``.
    dual_gaps : (n_radii,) array
        Certified duality gap at each radius.
    n_iters : (n_radii,) array
        Iterations of each run, plus the corners of the path up to its radius if corners were followed.
    names : tuple of str
        Names of the coefficients, in the order of the entries of one fit: the features (``x0``, ``x1`` and so on if X
        has no names), and for more than two classes the class in parentheses.

    See Also
    --------
    radius_path : Returns a path.
    fwflow.PathResult : Path of any objective.

    Examples
    --------
    >>> import numpy as np
    >>> from fwflow.sklearn import radius_path
    >>> path = radius_path(np.eye(3), np.array([3.0, 0.0, 0.0]), radii=[1.0, 2.0])
    >>> path.coefs.round(6)
    array([[1., 0., 0.],
           [2., 0., 0.]])
    """

    radii: Array
    coefs: Array
    intercepts: Array
    dual_gaps: Array
    n_iters: Array
    names: tuple[str, ...]

    def plot(self, ax: Any = None, *, n_labels: int = 10, **style: Any) -> matplotlib.axes.Axes:
        """Draw every coefficient that is nonzero at some radius against the radius, into `ax` or a new figure.

        The legend names the `n_labels` coefficients with the largest moduli on the path; 0 draws no legend.
        """
        import matplotlib.pyplot as plt

        n_labels = whole(n_labels, "n_labels", 0)
        ax = plt.subplots(layout="constrained")[1] if ax is None else ax
        columns = self.coefs.reshape(len(self.radii), -1)
        largest = np.abs(columns).max(axis=0)
        used = np.flatnonzero(largest)
        lines = ax.semilogx(self.radii, columns[:, used], **style)
        order = np.argsort(-largest[used], kind="stable")[:n_labels]
        if len(order):
            ax.legend([lines[i] for i in order], [self.names[used[i]] for i in order])
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
    """Fit a model for growing radii.

    Each fit starts from the previous one. With ``backend="jax"``, all radii are fitted at the same time on a device.

    Parameters
    ----------
    X, y : arrays
        Features and targets, as for ``estimator.fit``.
    radii : "auto" or array
        "auto" takes a geometric series. At the smallest radius, at least one coefficient is nonzero. Beyond the largest
        radius, the loss decreases by at most the fraction `eps` of its decrease so far; see `fwflow.path`.
    estimator : estimator, optional
        `L1Regression()` by default, or any other linear model of this package; its radius is not used.
    n_radii : int
        Number of radii for "auto"; 50 by default.
    eps : float, optional
        Tolerance for the end of "auto", above 0 and at most 1; `fwflow.path` gives the default.
    sample_weight : array, optional
        Weights of the samples; all one by default.
    backend : {"numpy", "jax"}
        "jax" fits all radii at once with `fwflow.jax.path` on the default device of JAX; it needs the extra ``jax``. It
        supports the l1 ball and the simplex, regression and two classes, and an intercept for least squares on dense
        data only.
    progress : bool
        Show a progress bar that counts the radii; on a device all are done at the same time.

    Returns
    -------
    RadiusPath

    See Also
    --------
    L1RegressionCV : The radius is chosen by cross-validation.
    fwflow.path : Paths of any objective.

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
    coefs, intercepts, gaps, iterations = (np.array(part) for part in zip(*found, strict=True))
    return RadiusPath(chosen, coefs, intercepts, gaps, iterations, model._coefficient_names())


class _Fits:
    """Fits of a model to the same data for several radii; ``along(radii)`` yields after every fit."""

    def __init__(self, model: BallEstimator, X: Any, y: Any, sample_weight: Any, backend: str) -> None:
        self._model, self._task = model, model._task(X, y, sample_weight)
        self._f, self._corners = model._objective(self._task).for_path(), model._corners(self._task)
        self._ball = partial(model._ball, shape=self._f.shape)
        self._device: DevicePath | None = None
        if backend == "jax":
            from fwflow.sklearn.devices import DevicePath

            self._device = DevicePath(model, self._task)
        elif backend != "numpy":
            raise ValueError(f"backend={backend!r} is not known; accepted: 'numpy', 'jax'")

    def along(self, radii: Array, known: Trail = ()) -> Iterator[Any]:
        """Fit the model for ascending radii, and yield each minimiser; `known` has those of other radii."""
        if self._device is not None:
            return self._device.along(radii, known)
        fit = partial(self._model._fit, self._f, self._corners)
        return (result.x for result in paths.followed(radii, fit, known))

    def first_radius(self) -> float:
        """Return the first automatic radius; 0 if zero is a minimiser."""
        return paths.first_radius(self._f, self._ball)[0]

    def radii(self, radii: Any, count: int, eps: float | None) -> Array:
        """Return the radii in ascending order."""
        f, corners, options = self._f, self._corners, {"method": self._model.method}
        if corners is not None:
            options |= {"starts": corners.at, "following": corners.following}
        return paths.chosen_radii(f, self._ball, radii, count, eps, **options)[0]


@dataclass(eq=False, repr=False)
class RadiusSearch(BallEstimator):
    """Estimator whose radius is chosen by cross-validation."""

    radii: Any = "auto"
    _: KW_ONLY
    n_radii: int = N_RADII
    eps: float | None = None
    cv: Any = None
    rule: str = "best"
    n_jobs: int | None = None
    progress: bool = False

    #: A parameter of `DeviceSearch`.
    backend = "numpy"

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, groups: Any = None) -> Self:
        """Choose the radius by cross-validation, and fit the model with this radius to all data.

        Parameters
        ----------
        X, y, sample_weight
            The parameters of `L1Regression.fit`. The weights are also used in held-out losses.
        groups : (n_samples,) array, optional
            Group of each sample, for the splitter ``cv``. If ``cv`` is a number or None, no group is divided.
        """
        check_rule(self.rule, f"rule={self.rule!r}")
        if self.n_jobs is not None:
            number(self.n_jobs, "n_jobs", "be None or an integer other than 0", lambda x: x != 0 and x % 1 == 0)
        fits = _Fits(self, X, y, sample_weight, self.backend)
        X, y = sp.csr_array(X) if sp.issparse(X) else np.asarray(X), np.asarray(y).reshape(-1)
        weights = checked_weights(sample_weight, len(y))
        folds = [_Fold(self._for_fold(), X, y, weights, *split) for split in self._splits(X, y, groups)]
        device = self.backend == "jax"
        jobs = 1 if device else self.n_jobs
        block = self.n_radii if device else BLOCK if effective_n_jobs(jobs) > 1 else 1
        with tqdm(unit=" radii") if self.progress else nullcontext() as bar:

            def advance(radii: Array, known: list[Trail]) -> list[list[FoldFit]]:
                tasks = (delayed(fold.fits)(radii, trail) for fold, trail in zip(folds, known, strict=True))
                found: list[list[FoldFit]] = Parallel(n_jobs=jobs)(tasks)
                if bar is not None:
                    bar.update(len(radii))
                return found

            found = search(
                advance,
                len(folds),
                self.radii,
                fits.first_radius,
                n_radii=self.n_radii,
                eps=self.eps,
                rule=self.rule,
                block=block,
            )
        self.radii_, self.losses_ = found.radii, found.measures[..., 0]
        self.mean_losses_, self.standard_errors_, best = found.means, found.errors, found.best
        self.radius_ = float(self.radii_[best])
        for _ in fits.along(self.radii_[best : best + 1]):
            pass
        if found.at_end:
            where = f"the chosen radius {self.radius_:.6g} is at the end of the radii that were tried"
            warnings.warn(f"{type(self).__name__}: {where}; give other radii", UserWarning, stacklevel=2)
        return self

    def _splits(self, X: Any, y: Array, groups: Any) -> list[tuple[Array, Array]]:
        """Return the training and test indices of every fold."""
        try:
            cv = check_cv(self.cv, y, classifier=is_classifier(self))
            if groups is not None and isinstance(cv, KFold | StratifiedKFold) and cv is not self.cv:
                cv = (StratifiedGroupKFold if is_classifier(self) else GroupKFold)(cv.n_splits)
            splits = [(train, test) for train, test in cv.split(X, y, groups)]
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


@dataclass(eq=False)
class _Fold(Fold):
    """Model of the training samples of a fold, and losses of the test samples.

    What a process makes of the data stays with it as long as the fold is not sent to another process.
    """

    model: Any
    X: Any
    y: Array
    weights: Array | None
    train: Array
    test: Array

    @cached_property
    def _parts(self) -> tuple[_Fits, Any]:
        weights = None if self.weights is None else self.weights[self.train]
        fits = _Fits(self.model, self.X[self.train], self.y[self.train], weights, self.model.backend)
        return fits, self.model._rows(self.X[self.test])

    def fits(self, radii: Array, known: Trail) -> list[FoldFit]:
        weights = None if self.weights is None else self.weights[self.test]
        if weights is not None and not weights.any():
            return [FoldFit(None, (math.nan,))] * len(radii)
        fits, rows = self._parts

        def loss() -> float:
            return float(np.average(self.model._losses(self.model._scores(rows), self.y[self.test]), weights=weights))

        return [FoldFit(x, (loss(),)) for x in fits.along(radii, known)]


@dataclass(eq=False, repr=False, kw_only=True)
class DeviceSearch(RadiusSearch):
    """Search that can fit all radii of a fold at once on a device."""

    backend: str = "numpy"


@dataclass(eq=False, repr=False)
class L1RegressionCV(DeviceSearch, OverL1Ball, LinearRegressor):
    """`L1Regression` with the radius chosen by cross-validation.

    Attributes that are not listed here are those of `L1Regression`. If the corners of the path are computed (see
    `radius_path`), `n_iter_` also counts the corners up to the radius.

    The tolerance of the models of folds is 100 times that of the final model. A warning says if the chosen radius is at
    the end of the radii that were tried.

    Parameters
    ----------
    radii, n_radii, eps : "auto" or array, int, float or None
        Candidate radii. "auto", the default, tries growing radii until no fold improves or the mean loss rises by more
        than a standard error, and then six radii next to the best one. ``n_radii``, by default 25, is the number of
        growing radii in a range whose ends differ by a factor of 1000. A fold improves if its loss falls by more than
        ``eps``, by default 0.001, times its decrease so far.
    cv : int, splitter or iterable, optional
        Folds; five by default.
    rule : {"best", "1se"}
        Choose the radius with the smallest mean loss (the default), or the smallest radius within one standard error of
        that loss.
    n_jobs, progress : int or None, bool
        Number of folds to run in parallel, by default one, and whether to show a progress bar that counts the radii.
    backend : {"numpy", "jax"}
        "numpy" by default. "jax" fits one fold after the other. For each fold, it fits all radii together on a device.
        It keeps no trace. See `radius_path`.
    positive : bool
        Whether the coefficients must not be negative: the non-negative lasso. False by default.
    loss, rho, quantile : str, float or None, float
        Loss, by default "squared", and its parameters. "huber" is linear for residuals beyond ``rho``, by default 1.
        "quantile" predicts the quantile of that level, by default the median 0.5. It is quadratic on an interval of
        width ``rho``, by default a hundredth of the median distance of the targets from their median. "poisson" is for
        counts: predictions are their means, and `score` is the explained share of the deviance.
    fit_intercept, warm_start : bool
        Whether to fit an unconstrained intercept (True by default), and whether to start from the coefficients of the
        previous fit. The latter has no effect here.
    method, max_iter : str, Tableau or Method, and int
        Method of `fwflow.minimize`, by default "auto", and its largest number of iterations, by default 10000.
    tol, rtol : float
        Stop when the duality gap is at most ``tol`` times the loss at zero coefficients, or ``rtol`` times the first
        gap; 1e-8 and 0 by default.

    Attributes
    ----------
    radius_, radii_ : float, (n_radii,) array
        Chosen radius, and all radii.
    losses_, mean_losses_, standard_errors_ : (n_folds, n_radii) array, (n_radii,) arrays
        ``losses_`` is the mean loss of the held-out samples of each fold, for each radius. ``mean_losses_`` is its mean
        over the folds, and ``standard_errors_`` is the standard error of this mean.

    See Also
    --------
    L1Regression : The radius is given.
    radius_path : Fits for many radii.
    L1ClassifierCV : Classification.

    Examples
    --------
    >>> import numpy as np
    >>> from fwflow.sklearn import L1RegressionCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((100, 20))
    >>> y = 2 * X[:, 3] - X[:, 5] + rng.standard_normal(100)
    >>> model = L1RegressionCV(n_radii=20).fit(X, y)
    >>> 2 < model.radius_ < 4
    True
    """


@dataclass(eq=False, repr=False)
class SimplexRegressionCV(DeviceSearch, OverSimplex, LinearRegressor):
    """`SimplexRegression` with the radius chosen by cross-validation.

    Attributes that are not listed here are those of `L1Regression`.

    Parameters
    ----------
    radii, n_radii, eps : "auto" or array, int, float or None
        Candidate radii. "auto", the default, tries growing radii until no fold improves or the mean loss rises by more
        than a standard error, and then six radii next to the best one. ``n_radii``, by default 25, is the number of
        growing radii in a range whose ends differ by a factor of 1000. A fold improves if its loss falls by more than
        ``eps``, by default 0.001, times its decrease so far.
    cv : int, splitter or iterable, optional
        Folds; five by default.
    rule : {"best", "1se"}
        Choose the radius with the smallest mean loss (the default), or the smallest radius within one standard error of
        that loss.
    n_jobs, progress : int or None, bool
        Number of folds to run in parallel, by default one, and whether to show a progress bar that counts the radii.
    backend : {"numpy", "jax"}
        "numpy" by default. "jax" fits one fold after the other. For each fold, it fits all radii together on a device.
        It keeps no trace. See `radius_path`.
    loss, rho, quantile : str, float or None, float
        Loss, by default "squared", and its parameters. "huber" is linear for residuals beyond ``rho``, by default 1.
        "quantile" predicts the quantile of that level, by default the median 0.5. It is quadratic on an interval of
        width ``rho``, by default a hundredth of the median distance of the targets from their median. "poisson" is for
        counts: predictions are their means, and `score` is the explained share of the deviance.
    fit_intercept, warm_start : bool
        Whether to fit an unconstrained intercept (True by default), and whether to start from the coefficients of the
        previous fit. The latter has no effect here.
    method, max_iter : str, Tableau or Method, and int
        Method of `fwflow.minimize`, by default "auto", and its largest number of iterations, by default 10000.
    tol, rtol : float
        Stop when the duality gap is at most ``tol`` times the loss at zero coefficients, or ``rtol`` times the first
        gap; 1e-8 and 0 by default.

    Attributes
    ----------
    radius_, radii_ : float, (n_radii,) array
        Chosen radius, and all radii.
    losses_, mean_losses_, standard_errors_ : (n_folds, n_radii) array, (n_radii,) arrays
        ``losses_`` is the mean loss of the held-out samples of each fold, for each radius. ``mean_losses_`` is its mean
        over the folds, and ``standard_errors_`` is the standard error of this mean.

    See Also
    --------
    SimplexRegression : The sum is given.
    L1RegressionCV : Coefficients of both signs.

    Examples
    --------
    >>> import numpy as np
    >>> from fwflow.sklearn import SimplexRegressionCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((100, 4))
    >>> y = 0.3 * X[:, 0] + 0.7 * X[:, 2]
    >>> model = SimplexRegressionCV(radii=[0.5, 1.0, 2.0]).fit(X, y)
    >>> model.radius_, model.coef_.round(6)
    (1.0, array([0.3, 0. , 0.7, 0. ]))
    """


@dataclass(eq=False, repr=False)
class GroupRegressionCV(RadiusSearch, OverGroupBall, LinearRegressor):
    """`GroupRegression` with the radius chosen by cross-validation.

    Attributes that are not listed here are those of `L1Regression`.

    Parameters
    ----------
    radii, n_radii, eps : "auto" or array, int, float or None
        Candidate radii. "auto", the default, tries growing radii until no fold improves or the mean loss rises by more
        than a standard error, and then six radii next to the best one. ``n_radii``, by default 25, is the number of
        growing radii in a range whose ends differ by a factor of 1000. A fold improves if its loss falls by more than
        ``eps``, by default 0.001, times its decrease so far.
    cv : int, splitter or iterable, optional
        Folds; five by default.
    rule : {"best", "1se"}
        Choose the radius with the smallest mean loss (the default), or the smallest radius within one standard error of
        that loss.
    n_jobs, progress : int or None, bool
        Number of folds to run in parallel, by default one, and whether to show a progress bar that counts the radii.
    groups : sequence or dict, optional
        Features of each group, or the group of each feature. By default each feature is a group. A dict maps names of
        groups to the names or numbers of their features; all other features are groups of their own.
    p : float
        Norm of a group; larger than 1, and may be infinite; 2 by default.
    loss, rho, quantile : str, float or None, float
        Loss, by default "squared", and its parameters. "huber" is linear for residuals beyond ``rho``, by default 1.
        "quantile" predicts the quantile of that level, by default the median 0.5. It is quadratic on an interval of
        width ``rho``, by default a hundredth of the median distance of the targets from their median. "poisson" is for
        counts: predictions are their means, and `score` is the explained share of the deviance.
    fit_intercept, warm_start : bool
        Whether to fit an unconstrained intercept (True by default), and whether to start from the coefficients of the
        previous fit. The latter has no effect here.
    method, max_iter : str, Tableau or Method, and int
        Method of `fwflow.minimize`, by default "auto", and its largest number of iterations, by default 10000.
    tol, rtol : float
        Stop when the duality gap is at most ``tol`` times the loss at zero coefficients, or ``rtol`` times the first
        gap; 1e-8 and 0 by default.

    Attributes
    ----------
    radius_, radii_ : float, (n_radii,) array
        Chosen radius, and all radii.
    losses_, mean_losses_, standard_errors_ : (n_folds, n_radii) array, (n_radii,) arrays
        ``losses_`` is the mean loss of the held-out samples of each fold, for each radius. ``mean_losses_`` is its mean
        over the folds, and ``standard_errors_`` is the standard error of this mean.
    groups_ : dict
        Features of each group, by their names if X has names.

    See Also
    --------
    GroupRegression : The radius is given.
    GroupClassifierCV : Classification.

    Examples
    --------
    >>> import numpy as np
    >>> from fwflow.sklearn import GroupRegressionCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((100, 6))
    >>> y = X[:, 3] - X[:, 5]
    >>> model = GroupRegressionCV(radii=[0.5, 1.5, 4.5], groups=[0, 0, 0, 1, 1, 1]).fit(X, y)
    >>> model.radius_, np.flatnonzero(model.coef_.round(3))
    (1.5, array([3, 5]))
    """


@dataclass(eq=False, repr=False)
class L1ClassifierCV(DeviceSearch, OverL1Ball, LinearClassifier):
    """`L1Classifier` with the radius chosen by cross-validation of the log-loss.

    Attributes that are not listed here are those of `L1Classifier`.

    Parameters
    ----------
    radii, n_radii, eps : "auto" or array, int, float or None
        Candidate radii. "auto", the default, tries growing radii until no fold improves or the mean loss rises by more
        than a standard error, and then six radii next to the best one. ``n_radii``, by default 25, is the number of
        growing radii in a range whose ends differ by a factor of 1000. A fold improves if its loss falls by more than
        ``eps``, by default 0.001, times its decrease so far.
    cv : int, splitter or iterable, optional
        Folds; five by default.
    rule : {"best", "1se"}
        Choose the radius with the smallest mean loss (the default), or the smallest radius within one standard error of
        that loss.
    n_jobs, progress : int or None, bool
        Number of folds to run in parallel, by default one, and whether to show a progress bar that counts the radii.
    backend : {"numpy", "jax"}
        "numpy" by default. "jax" fits one fold after the other. For each fold, it fits all radii together on a device.
        It keeps no trace. See `radius_path`.
    positive : bool
        Whether the coefficients must not be negative, for two classes. False by default.
    class_weight : dict or "balanced", optional
        Weights of the classes in the loss; all one by default.
    fit_intercept, warm_start : bool
        Whether to fit an unconstrained intercept (True by default), and whether to start from the coefficients of the
        previous fit. The latter has no effect here.
    method, max_iter : str, Tableau or Method, and int
        Method of `fwflow.minimize`, by default "auto", and its largest number of iterations, by default 10000.
    tol, rtol : float
        Stop when the duality gap is at most ``tol`` times the loss at zero coefficients, or ``rtol`` times the first
        gap; 1e-8 and 0 by default.

    Attributes
    ----------
    radius_, radii_ : float, (n_radii,) array
        Chosen radius, and all radii.
    losses_, mean_losses_, standard_errors_ : (n_folds, n_radii) array, (n_radii,) arrays
        ``losses_`` is the mean loss of the held-out samples of each fold, for each radius. ``mean_losses_`` is its mean
        over the folds, and ``standard_errors_`` is the standard error of this mean.

    See Also
    --------
    L1Classifier : The radius is given.
    radius_path : Fits for many radii.
    L1RegressionCV : Regression.

    Examples
    --------
    >>> import numpy as np
    >>> from fwflow.sklearn import L1ClassifierCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((100, 20))
    >>> y = X[:, 3] + rng.standard_normal(100) > 0
    >>> model = L1ClassifierCV(radii=[0.2, 1.0, 5.0]).fit(X, y)
    >>> model.radius_, abs(model.coef_[0]).argmax()
    (1.0, np.int64(3))
    """


@dataclass(eq=False, repr=False)
class GroupClassifierCV(RadiusSearch, OverGroupBall, LinearClassifier):
    """`GroupClassifier` with the radius chosen by cross-validation of the log-loss.

    Attributes that are not listed here are those of `GroupClassifier`.

    Parameters
    ----------
    radii, n_radii, eps : "auto" or array, int, float or None
        Candidate radii. "auto", the default, tries growing radii until no fold improves or the mean loss rises by more
        than a standard error, and then six radii next to the best one. ``n_radii``, by default 25, is the number of
        growing radii in a range whose ends differ by a factor of 1000. A fold improves if its loss falls by more than
        ``eps``, by default 0.001, times its decrease so far.
    cv : int, splitter or iterable, optional
        Folds; five by default.
    rule : {"best", "1se"}
        Choose the radius with the smallest mean loss (the default), or the smallest radius within one standard error of
        that loss.
    n_jobs, progress : int or None, bool
        Number of folds to run in parallel, by default one, and whether to show a progress bar that counts the radii.
    groups : sequence or dict, optional
        Features of each group, or the group of each feature. By default each feature is a group. A dict maps names of
        groups to the names or numbers of their features; all other features are groups of their own.
    p : float
        Norm of a group; larger than 1, and may be infinite; 2 by default.
    class_weight : dict or "balanced", optional
        Weights of the classes in the loss; all one by default.
    fit_intercept, warm_start : bool
        Whether to fit an unconstrained intercept (True by default), and whether to start from the coefficients of the
        previous fit. The latter has no effect here.
    method, max_iter : str, Tableau or Method, and int
        Method of `fwflow.minimize`, by default "auto", and its largest number of iterations, by default 10000.
    tol, rtol : float
        Stop when the duality gap is at most ``tol`` times the loss at zero coefficients, or ``rtol`` times the first
        gap; 1e-8 and 0 by default.

    Attributes
    ----------
    radius_, radii_ : float, (n_radii,) array
        Chosen radius, and all radii.
    losses_, mean_losses_, standard_errors_ : (n_folds, n_radii) array, (n_radii,) arrays
        ``losses_`` is the mean loss of the held-out samples of each fold, for each radius. ``mean_losses_`` is its mean
        over the folds, and ``standard_errors_`` is the standard error of this mean.
    groups_ : dict
        Features of each group, by their names if X has names.

    See Also
    --------
    GroupClassifier : The radius is given.
    GroupRegressionCV : Regression.

    Examples
    --------
    >>> import numpy as np
    >>> from fwflow.sklearn import GroupClassifierCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((100, 6))
    >>> y = X[:, 3] > X[:, 4]
    >>> model = GroupClassifierCV(radii=[2.0, 20.0, 200.0], groups=[0, 0, 0, 1, 1, 1]).fit(X, y)
    >>> model.radius_, model.coef_.any(axis=0)
    (20.0, array([ True,  True,  True,  True,  True,  True]))
    """


@dataclass(eq=False, repr=False, kw_only=True)
class NuclearCompletionCV(Completion, RadiusSearch):
    """`NuclearCompletion` with the radius chosen by cross-validation.

    Attributes that are not listed here are those of `NuclearCompletion`.

    Parameters
    ----------
    radii, n_radii, eps : "auto" or array, int, float or None
        Candidate radii, as for `L1RegressionCV`. By default, ``n_radii`` is 10 and ``eps`` is 0.1.
    cv : int, splitter or iterable, optional
        Folds; five by default.
    rule : {"best", "1se"}
        Choose the radius with the smallest mean loss (the default), or the smallest radius within one standard error of
        that loss.
    n_jobs, progress : int or None, bool
        Number of folds to run in parallel, by default one, and whether to show a progress bar that counts the radii.
    biases, damping : bool, float
        Whether to fit biases of rows and columns before the matrix (True by default), and the ridge penalty on them:
        ``damping``, by default 5, acts like as many additional observations with bias zero.
    loss, rho, quantile : str, float or None, float
        Loss, by default "squared", and its parameters. "huber" is linear for residuals beyond ``rho``, by default 1.
        "quantile" predicts the quantile of that level, by default the median 0.5. It is quadratic on an interval of
        width ``rho``, by default a hundredth of the median distance of the residuals from their median.
    fit_intercept, warm_start : bool
        Whether to fit the mean (True by default), and whether to start from the matrix of the previous fit. The latter
        has no effect here.
    method, max_iter : str, Tableau or Method, and int
        Method of `fwflow.minimize`, by default "auto", and its largest number of iterations, by default 10000.
    tol, rtol : float
        Stop when the duality gap is at most ``tol`` times the loss at a zero matrix, or ``rtol`` times the first gap;
        1e-4 and 0 by default.

    Attributes
    ----------
    radius_, radii_ : float, (n_radii,) array
        Chosen radius, and all radii.
    losses_, mean_losses_, standard_errors_ : (n_folds, n_radii) array, (n_radii,) arrays
        ``losses_`` is the mean loss of the held-out samples of each fold, for each radius. ``mean_losses_`` is its mean
        over the folds, and ``standard_errors_`` is the standard error of this mean.

    See Also
    --------
    NuclearCompletion : The radius is given.
    fwflow.MatrixCompletion : Objective without biases.

    Examples
    --------
    >>> import numpy as np
    >>> from fwflow.sklearn import NuclearCompletionCV
    >>> pairs = np.array([[u, i] for u in range(8) for i in range(6) if (u + i) % 3])
    >>> ratings = 3 + (pairs[:, 0] % 2 - 0.5) * (pairs[:, 1] % 2 - 0.5)
    >>> model = NuclearCompletionCV(cv=3).fit(pairs, ratings)
    >>> model.predict([[0, 0], [1, 0]]).round(1)
    array([3.2, 2.8])
    """

    n_radii: int = 10
    eps: float | None = 0.1
