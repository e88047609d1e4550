"""Choice of the radius by cross-validation, and the estimators with this choice."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.sparse as sp
from joblib import Parallel, delayed
from sklearn.base import clone, is_classifier
from sklearn.model_selection import check_cv

from fwflow._validation import Array, describe, number
from fwflow.run.trace import progress_bar
from fwflow.sklearn.completion import Completion
from fwflow.sklearn.linear import (
    BallEstimator,
    LinearClassifier,
    LinearRegressor,
    OverGroupBall,
    OverL1Ball,
    OverSimplex,
    checked_weights,
)
from fwflow.sklearn.paths import chosen_radii, fitter

if TYPE_CHECKING:
    import matplotlib.axes


@dataclass(eq=False, repr=False)
class RadiusSearch(BallEstimator):
    """Estimator whose radius is chosen by cross-validation."""

    radii: Any = "auto"
    _: KW_ONLY
    n_radii: int = 30
    eps: float = 0.05
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
        task = self._task(X, y, sample_weight)
        corners = self._corners(task)
        fitted_along = fitter(self, task, corners, self.backend)
        self.radii_ = chosen_radii(self, task, corners, self.radii, self.n_radii, self.eps)
        X, y = sp.csr_array(X) if sp.issparse(X) else np.asarray(X), np.asarray(y).reshape(-1)
        weights = checked_weights(sample_weight, len(y))
        folds = [delayed(_fold)(clone(self), X, y, weights, *split, self.radii_) for split in self._splits(X, y)]
        jobs = 1 if self.backend == "jax" else self.n_jobs
        losses = []
        with progress_bar(len(folds), self.progress, " folds") as bar:
            for fold_losses in Parallel(n_jobs=jobs, return_as="generator" if self.progress else "list")(folds):
                losses.append(fold_losses)
                bar.update()
        self.losses_ = np.array(losses)
        self.mean_losses_ = np.nanmean(self.losses_, axis=0)
        counts = np.isfinite(self.losses_).sum(axis=0)
        self.standard_errors_ = np.nanstd(self.losses_, axis=0) / np.sqrt(np.maximum(counts - 1, 1))
        best = int(self.mean_losses_.argmin())
        if self.rule == "1se":
            best = int((self.mean_losses_ <= self.mean_losses_[best] + self.standard_errors_[best]).argmax())
        self.radius_ = float(self.radii_[best])
        list(fitted_along(self.radii_[self.radii_ <= self.radius_]))
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
    task = model._task(X[train], y[train], inner)
    fitted_along = fitter(model, task, model._corners(task), model.backend)
    return [float(np.average(model._losses(X[test], y[test]), weights=held_out)) for _ in fitted_along(radii)]


@dataclass(eq=False, repr=False, kw_only=True)
class DeviceSearch(RadiusSearch):
    """Search that can fit all radii of a fold at once on a device."""

    backend: str = "numpy"


@dataclass(eq=False, repr=False)
class L1RegressionCV(DeviceSearch, OverL1Ball, LinearRegressor):
    """`L1Regression` with the radius chosen by cross-validation.

    All other parameters and attributes are those of `L1Regression`. `warm_start` has no effect. If the corners of the
    path are computed (see `radius_path`), `n_iter_` also counts those up to the radius.

    Parameters
    ----------
    radii, n_radii, eps : "auto" or array, int, float
        Candidate radii. "auto" takes `n_radii` radii; `eps` determines the largest one as in `radius_path`.
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

    The parameters and attributes of the search are those of `L1RegressionCV` without `backend`, all others those of
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

    The parameters and attributes of the search are those of `L1RegressionCV` without `backend`, all others those of
    `GroupClassifier`.
    """


@dataclass(eq=False, repr=False, kw_only=True)
class NuclearCompletionCV(Completion, RadiusSearch):
    """`NuclearCompletion` with the radius chosen by cross-validation.

    The parameters and attributes of the search are those of `L1RegressionCV` without `backend`, all others those of
    `NuclearCompletion`.
    """

    n_radii: int = 10
    eps: float = 0.1
