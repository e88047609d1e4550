"""Which radius predicts best? The estimators with a search over a path of radii by cross-validation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.sparse as sp
from joblib import Parallel, delayed
from sklearn.base import clone, is_classifier
from sklearn.model_selection import check_cv

from fwflow._validation import Array, describe, number
from fwflow.run.trace import progress_bar
from fwflow.sklearn.completion import NuclearCompletion, observations
from fwflow.sklearn.linear import (
    BallEstimator,
    GroupClassifier,
    GroupRegression,
    L1Classifier,
    L1Regression,
    SimplexRegression,
    checked_weights,
    documented,
)
from fwflow.sklearn.paths import chosen_radii, fitter

if TYPE_CHECKING:
    import matplotlib.axes

_SEARCH = """radii : "auto" or array
        Candidates; see `radius_path`.
    n_radii : int
        How many "auto" takes.
    eps : float
        Where "auto" ends.
    cv : int, splitter or iterable, optional
        How to split; five folds by default.
    rule : {"min", "1se"}
        Take the radius of the least mean loss, or the smallest whose mean loss is within one standard error of that.
    n_jobs : int, optional
        Folds in parallel.
    progress : bool
        Show a bar that counts the folds."""

_DEVICE = """backend : {"numpy", "jax"}
        "jax" fits all radii of a fold at once on the device that JAX finds, and one fold after the other; see
        `radius_path`. It keeps no trace."""

_FOUND = """radius_ : float
        The radius that was chosen.
    radii_ : (n_radii,) array
    losses_ : (n_folds, n_radii) array
        Mean loss of the held-out samples.
    mean_losses_, standard_errors_ : (n_radii,) arrays"""


def searching(cls: type[Any]) -> type[Any]:
    """Fill in what the searches have in common."""
    if cls.__doc__ is None:  # Python runs with -OO
        return cls
    for name, text in {"search": _SEARCH, "device": _DEVICE, "found": _FOUND}.items():
        cls.__doc__ = cls.__doc__.replace(f"{{{name}}}", text)
    return documented(cls)


class RadiusSearch(BallEstimator):
    """A search over radii, in front of the estimator that it searches for."""

    radii: Any
    n_radii: int
    eps: float
    cv: Any
    rule: str
    n_jobs: int | None
    progress: bool
    #: Those that a device has take it as a parameter.
    backend: str = "numpy"

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Choose the radius by cross-validation, and fit the model with it to all of the data.

        Parameters
        ----------
        X : (n_samples, n_features) array, sparse matrix or data frame
        y : (n_samples,) array
        sample_weight : (n_samples,) array, optional
            How often each sample counts, for fits and for held-out losses.
        """
        if self.rule not in ("min", "1se"):
            raise ValueError(f"rule={self.rule!r} is not known; accepted: 'min', '1se'")
        if self.n_jobs is not None:
            number(self.n_jobs, "n_jobs", "be None or an integer other than 0", lambda x: x != 0 and x % 1 == 0)
        task = self._task(X, y, sample_weight)
        corners = self._corners(task)
        fitted_along = fitter(self, task, corners, self.backend)
        self.radii_ = chosen_radii(self, task, corners, self.radii, self.n_radii, self.eps)
        X, y = self._plain(X, y)
        weights = checked_weights(sample_weight, len(y))
        folds = [delayed(_fold)(clone(self), X, y, weights, *split, self.radii_) for split in self._splits(X, y)]
        jobs = 1 if self.backend == "jax" else self.n_jobs
        losses = []
        with progress_bar(len(folds), self.progress, " folds") as bar:
            for of_fold in Parallel(n_jobs=jobs, return_as="generator" if self.progress else "list")(folds):
                losses.append(of_fold)
                bar.update()
        self.losses_ = np.array(losses)
        self._choose()
        list(fitted_along(self.radii_[self.radii_ <= self.radius_]))
        return self

    def _splits(self, X: Any, y: Array) -> list[tuple[Array, Array]]:
        """The training and test samples of every fold."""
        try:
            splits = [(train, test) for train, test in check_cv(self.cv, y, classifier=is_classifier(self)).split(X, y)]
        except TypeError as error:
            raise ValueError(f"cv does not give pairs of training and test samples; got {describe(self.cv)}") from error
        if not splits:
            raise ValueError(f"cv gives no folds; got {describe(self.cv)}")
        return splits

    def _plain(self, X: Any, y: Any) -> tuple[Any, Array]:
        """The data as arrays whose rows can be taken."""
        X = sp.csr_array(X) if sp.issparse(X) else np.asarray(X)
        return X, np.asarray(y).reshape(-1)

    def _choose(self) -> None:
        self.mean_losses_ = np.nanmean(self.losses_, axis=0)
        folds = np.isfinite(self.losses_).sum(axis=0)
        self.standard_errors_ = np.nanstd(self.losses_, axis=0) / np.sqrt(np.maximum(folds - 1, 1))
        best = int(self.mean_losses_.argmin())
        if self.rule == "1se":
            within = self.mean_losses_ <= self.mean_losses_[best] + self.standard_errors_[best]
            best = int(within.argmax())
        self.radius_ = float(self.radii_[best])

    def plot(self, ax: Any = None) -> matplotlib.axes.Axes:
        """Draw the held-out losses against the radius, with one standard error, and the radius that was chosen."""
        import matplotlib.pyplot as plt

        ax = plt.subplots(layout="constrained")[1] if ax is None else ax
        low, high = (self.mean_losses_ + sign * self.standard_errors_ for sign in (-1, 1))
        ax.fill_between(self.radii_, low, high, alpha=0.2, linewidth=0)
        ax.plot(self.radii_, self.mean_losses_)
        ax.axvline(self.radius_, linestyle="--", color="grey")
        ax.set(xscale="log", xlabel="radius", ylabel="held-out loss")
        return ax


def _fold(model: Any, X: Any, y: Array, weights: Array | None, train: Array, test: Array, radii: Array) -> list[float]:
    """The held-out loss at every radius."""
    inner, held_out = (None, None) if weights is None else (weights[train], weights[test])
    if held_out is not None and not held_out.any():
        return [float("nan")] * len(radii)
    task = model._task(X[train], y[train], inner)
    fitted_along = fitter(model, task, model._corners(task), model.backend)
    return [float(np.average(model._losses(X[test], y[test]), weights=held_out)) for _ in fitted_along(radii)]


@searching
class L1RegressionCV(RadiusSearch, L1Regression):
    """`L1Regression` with the radius chosen by cross-validation.

    Parameters
    ----------
    {search}
    {device}
    loss : str
        Name of a loss for numbers, for example "squared" or "huber"; ``fwflow list losses`` prints all names.
    rho : float
        Parameter of losses that have one: beyond it, "huber" counts residuals linearly.
    {parameters}

    Attributes
    ----------
    coef_ : (n_features,) array
    intercept_ : float
    {found}
    {attributes}

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

    def __init__(
        self,
        radii: Any = "auto",
        *,
        n_radii: int = 30,
        eps: float = 0.05,
        cv: Any = None,
        rule: str = "min",
        n_jobs: int | None = None,
        progress: bool = False,
        backend: str = "numpy",
        loss: str = "squared",
        rho: float = 1.0,
        fit_intercept: bool = True,
        method: Any = "auto",
        tol: float = 1e-08,
        rtol: float = 0.0,
        max_iter: int = 10000,
        warm_start: bool = False,
    ) -> None:
        self.radii = radii
        self.n_radii = n_radii
        self.eps = eps
        self.cv = cv
        self.rule = rule
        self.n_jobs = n_jobs
        self.progress = progress
        self.backend = backend
        self.loss = loss
        self.rho = rho
        self.fit_intercept = fit_intercept
        self.method = method
        self.tol = tol
        self.rtol = rtol
        self.max_iter = max_iter
        self.warm_start = warm_start


@searching
class SimplexRegressionCV(RadiusSearch, SimplexRegression):
    """`SimplexRegression` with the radius chosen by cross-validation.

    Parameters
    ----------
    {search}
    {device}
    loss : str
        Name of a loss for numbers, for example "squared" or "huber"; ``fwflow list losses`` prints all names.
    rho : float
        Parameter of losses that have one: beyond it, "huber" counts residuals linearly.
    {parameters}

    Attributes
    ----------
    coef_ : (n_features,) array
    intercept_ : float
    {found}
    {attributes}
    """

    def __init__(
        self,
        radii: Any = "auto",
        *,
        n_radii: int = 30,
        eps: float = 0.05,
        cv: Any = None,
        rule: str = "min",
        n_jobs: int | None = None,
        progress: bool = False,
        backend: str = "numpy",
        loss: str = "squared",
        rho: float = 1.0,
        fit_intercept: bool = True,
        method: Any = "auto",
        tol: float = 1e-08,
        rtol: float = 0.0,
        max_iter: int = 10000,
        warm_start: bool = False,
    ) -> None:
        self.radii = radii
        self.n_radii = n_radii
        self.eps = eps
        self.cv = cv
        self.rule = rule
        self.n_jobs = n_jobs
        self.progress = progress
        self.backend = backend
        self.loss = loss
        self.rho = rho
        self.fit_intercept = fit_intercept
        self.method = method
        self.tol = tol
        self.rtol = rtol
        self.max_iter = max_iter
        self.warm_start = warm_start


@searching
class GroupRegressionCV(RadiusSearch, GroupRegression):
    """`GroupRegression` with the radius chosen by cross-validation.

    Parameters
    ----------
    {search}
    groups : sequence, optional
        The features of each group, or the group of each feature; by default each is a group of its own.
    p : float
        The norm of a group, above 1.
    loss : str
        Name of a loss for numbers, for example "squared" or "huber"; ``fwflow list losses`` prints all names.
    rho : float
        Parameter of losses that have one: beyond it, "huber" counts residuals linearly.
    {parameters}

    Attributes
    ----------
    coef_ : (n_features,) array
    intercept_ : float
    {found}
    {attributes}
    """

    def __init__(
        self,
        radii: Any = "auto",
        *,
        n_radii: int = 30,
        eps: float = 0.05,
        cv: Any = None,
        rule: str = "min",
        n_jobs: int | None = None,
        progress: bool = False,
        groups: Any = None,
        p: float = 2.0,
        loss: str = "squared",
        rho: float = 1.0,
        fit_intercept: bool = True,
        method: Any = "auto",
        tol: float = 1e-08,
        rtol: float = 0.0,
        max_iter: int = 10000,
        warm_start: bool = False,
    ) -> None:
        self.radii = radii
        self.n_radii = n_radii
        self.eps = eps
        self.cv = cv
        self.rule = rule
        self.n_jobs = n_jobs
        self.progress = progress
        self.groups = groups
        self.p = p
        self.loss = loss
        self.rho = rho
        self.fit_intercept = fit_intercept
        self.method = method
        self.tol = tol
        self.rtol = rtol
        self.max_iter = max_iter
        self.warm_start = warm_start


@searching
class L1ClassifierCV(RadiusSearch, L1Classifier):
    """`L1Classifier` with the radius chosen by cross-validation of the log-loss.

    Parameters
    ----------
    {search}
    {device}
    class_weight : dict or "balanced", optional
        How much the samples of each class count.
    {parameters}

    Attributes
    ----------
    classes_ : array
    coef_ : (1, n_features) or (n_classes, n_features) array
    intercept_ : (1,) or (n_classes,) array
        Those of several classes sum to zero.
    {found}
    {attributes}
    """

    def __init__(
        self,
        radii: Any = "auto",
        *,
        n_radii: int = 30,
        eps: float = 0.05,
        cv: Any = None,
        rule: str = "min",
        n_jobs: int | None = None,
        progress: bool = False,
        backend: str = "numpy",
        fit_intercept: bool = True,
        class_weight: Any = None,
        method: Any = "auto",
        tol: float = 1e-08,
        rtol: float = 0.0,
        max_iter: int = 10000,
        warm_start: bool = False,
    ) -> None:
        self.radii = radii
        self.n_radii = n_radii
        self.eps = eps
        self.cv = cv
        self.rule = rule
        self.n_jobs = n_jobs
        self.progress = progress
        self.backend = backend
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.method = method
        self.tol = tol
        self.rtol = rtol
        self.max_iter = max_iter
        self.warm_start = warm_start


@searching
class GroupClassifierCV(RadiusSearch, GroupClassifier):
    """`GroupClassifier` with the radius chosen by cross-validation of the log-loss.

    Parameters
    ----------
    {search}
    groups : sequence, optional
        The features of each group, or the group of each feature; by default each is a group of its own.
    p : float
        The norm of a group, above 1.
    class_weight : dict or "balanced", optional
        How much the samples of each class count.
    {parameters}

    Attributes
    ----------
    classes_ : array
    coef_ : (1, n_features) or (n_classes, n_features) array
    intercept_ : (1,) or (n_classes,) array
        Those of several classes sum to zero.
    {found}
    {attributes}
    """

    def __init__(
        self,
        radii: Any = "auto",
        *,
        n_radii: int = 30,
        eps: float = 0.05,
        cv: Any = None,
        rule: str = "min",
        n_jobs: int | None = None,
        progress: bool = False,
        groups: Any = None,
        p: float = 2.0,
        fit_intercept: bool = True,
        class_weight: Any = None,
        method: Any = "auto",
        tol: float = 1e-08,
        rtol: float = 0.0,
        max_iter: int = 10000,
        warm_start: bool = False,
    ) -> None:
        self.radii = radii
        self.n_radii = n_radii
        self.eps = eps
        self.cv = cv
        self.rule = rule
        self.n_jobs = n_jobs
        self.progress = progress
        self.groups = groups
        self.p = p
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.method = method
        self.tol = tol
        self.rtol = rtol
        self.max_iter = max_iter
        self.warm_start = warm_start


@searching
class NuclearCompletionCV(RadiusSearch, NuclearCompletion):
    """`NuclearCompletion` with the radius chosen by cross-validation.

    Parameters
    ----------
    {search}
    loss : str
        Name of a loss for numbers, for example "squared" or "huber"; ``fwflow list losses`` prints all names.
    rho : float
        Parameter of losses that have one: beyond it, "huber" counts residuals linearly.
    biases : bool
        Fit a bias for every row and column, before the matrix and free of the radius.
    damping : float
        Biases are those of as many more observations without any.
    {parameters}

    Attributes
    ----------
    U_, V_ : arrays
        Factors of the matrix, ``U_ @ V_.T``, with one row for each of `row_ids_` and `col_ids_`.
    row_ids_, col_ids_ : arrays
        What the rows and columns are called. Others are predicted by their mean and what bias is known.
    mean_ : float
    row_biases_, col_biases_ : arrays
    {found}
    {attributes}
    """

    def __init__(
        self,
        radii: Any = "auto",
        *,
        n_radii: int = 10,
        eps: float = 0.1,
        cv: Any = None,
        rule: str = "min",
        n_jobs: int | None = None,
        progress: bool = False,
        loss: str = "squared",
        rho: float = 1.0,
        biases: bool = True,
        damping: float = 5.0,
        fit_intercept: bool = True,
        method: Any = "auto",
        tol: float = 0.0001,
        rtol: float = 0.0,
        max_iter: int = 10000,
        warm_start: bool = False,
    ) -> None:
        self.radii = radii
        self.n_radii = n_radii
        self.eps = eps
        self.cv = cv
        self.rule = rule
        self.n_jobs = n_jobs
        self.progress = progress
        self.loss = loss
        self.rho = rho
        self.biases = biases
        self.damping = damping
        self.fit_intercept = fit_intercept
        self.method = method
        self.tol = tol
        self.rtol = rtol
        self.max_iter = max_iter
        self.warm_start = warm_start

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Choose the radius by cross-validation, and fit the model with it; the data is that of `NuclearCompletion`."""
        if sp.issparse(X) and y is None:
            X, y = observations(X)
        return super().fit(X, y, sample_weight)
