"""Generic estimator with constrained coefficients, and the linear models for regression and classification."""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

import fwflow as fw
from fwflow._numerics import dot
from fwflow._validation import Array, describe, number, positive, whole
from fwflow.designs.in_memory import Centre
from fwflow.methods.restricted.atoms import ActiveSet, Atoms
from fwflow.objectives.losses import Logistic, Loss, find_loss, losses
from fwflow.run.paths import minimised, origin
from fwflow.sets.vectors import group_labels
from fwflow.sklearn.corners import CornerPath
from fwflow.sklearn.softmax import _SoftmaxModel, probabilities

# Held-out loss of a sample whose class does not occur in the training data, where the predicted probability is zero
# and the logarithm infinite: the loss at a probability of one rounding unit of double precision.
_UNSEEN = -math.log(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Samples:
    """Checked data: features, targets (numbers, or indices of classes) and sample weights."""

    X: Any
    y: Array
    weights: Array | None


@dataclass(eq=False, repr=False, kw_only=True)
class BallEstimator(BaseEstimator):
    """Estimator that minimises a loss of the coefficients over a set whose size is given by a radius.

    Subclasses define the loss, the set, and how the radius is chosen. A public estimator combines one of each.
    """

    fit_intercept: bool = True
    method: Any = "auto"
    tol: float = 1e-8
    rtol: float = 0.0
    max_iter: int = 10_000
    warm_start: bool = False

    #: Class of the constraint set.
    _set: ClassVar[Any]

    @abstractmethod
    def _task(self, X: Any, y: Any, sample_weight: Any) -> Samples:
        """Check the parameters and the data, and return the data as the objective needs it."""

    @abstractmethod
    def _objective(self, task: Samples) -> fw.Objective:
        """Return the loss as a function of the coefficients."""

    def _ball(self, radius: float, shape: tuple[int, ...]) -> fw.ConstraintSet:
        """Return the constraint set of coefficients with the given shape."""
        return self._set(radius)

    def _corners(self, task: Samples) -> CornerPath | None:
        """Return the minimisers for all radii, or None if they are not piecewise linear or costly to compute."""
        return None

    @abstractmethod
    def _keep(self, f: Any, x: Any) -> None:
        """Set the attributes that prediction needs."""

    @abstractmethod
    def _kept(self) -> Any:
        """Return the coefficients of the last fit in the shape of x, or None before the first fit."""

    @abstractmethod
    def _losses(self, X: Any, y: Array) -> Array:
        """Return the loss of every sample under the fitted model."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _check_parameters(self) -> None:
        """Check the parameters that are not checked where they are used."""
        for name, value in self.get_params(deep=False).items():
            if name in ("fit_intercept", "warm_start", "progress", "biases"):
                if np.ndim(value) or value not in (True, False):
                    raise ValueError(f"{name} must be True or False; got {describe(value)}")
            elif name in ("tol", "rtol", "damping"):
                number(value, name, "be a finite number that is not negative", lambda x: 0 <= x < math.inf)
            elif name == "rho":
                positive(value, name)
        whole(self.max_iter, "max_iter", 0)

    def _options(self, f: fw.Objective, dtype: Any = np.float64) -> dict[str, Any]:
        """Return the options of a run in the given data type; `tol` is relative to the loss at zero coefficients."""
        tol = max(self.tol * f.value(origin(f, f.shape)), float(np.finfo(dtype).tiny)) if self.tol else 0.0
        return {"method": self.method, "tol": tol, "rtol": self.rtol, "max_iter": self.max_iter}

    def _fit(self, f: Any, corners: CornerPath | None, radius: float, starts: tuple[Any, ...]) -> fw.Result:
        """Minimise the loss for one radius, set all attributes, and return the result."""
        corner = None if corners is None else corners.at(radius)
        given = starts if corner is None else (corner,)
        result = minimised(f, self._ball(radius, f.shape), *given, **self._options(f))
        if not result.success and result.status is not fw.Status.PRECISION:
            warnings.warn(f"{type(self).__name__}: {result.message}", ConvergenceWarning, stacklevel=3)
        self._keep(f, result.x)
        self.n_iter_ = result.nit + (0 if corners is None else corners.passed(radius))
        self.dual_gap_, self.trace_, self.method_ = result.gap, result.trace, result.method
        # The images of the vertices are dropped because each is as long as the data.
        active = result.active_set
        self.active_set_ = active and ActiveSet(Atoms(atom.bare() for atom in active.atoms), active.weights)
        return result


def checked_weights(sample_weight: Any, samples: int) -> Array | None:
    """Return the weights as float64, or raise an error that names the parameter."""
    if sample_weight is None:
        return None
    weights = np.asarray(check_array(sample_weight, ensure_2d=False, dtype=np.float64, input_name="sample_weight"))
    if weights.ndim == 0:
        weights = np.full(samples, float(weights))
    if weights.shape != (samples,):
        raise ValueError(f"sample_weight has shape {weights.shape}; there are {samples} samples")
    if (weights < 0).any() or not weights.any():
        raise ValueError("sample_weight must not be negative, and the weights must not be all zero")
    return weights


@dataclass(eq=False, repr=False)
class FixedRadius(BallEstimator):
    """Estimator whose radius is a parameter."""

    radius: float = 1.0

    def _earlier(self, task: Samples) -> Any:
        """Return the starting point of a warm start, or None."""
        x = self._kept() if self.warm_start else None
        return x if x is not None and x.shape == self._objective(task).shape else None

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : (n_samples, n_features) array, sparse matrix or data frame
        y : (n_samples,) array
        sample_weight : (n_samples,) array, optional
            Weights of the samples in the loss. A weight of 2 counts as a sample that occurs twice.
        """
        task = self._task(X, y, sample_weight)
        self._fit(self._objective(task), None, self.radius, (self._earlier(task),))
        return self


class OverL1Ball(BallEstimator):
    """Estimator whose coefficients have an l1 norm of at most the radius."""

    _set = fw.L1Ball


class OverSimplex(BallEstimator):
    """Regressor whose coefficients are nonnegative and sum to the radius."""

    _set = fw.Simplex

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # unless the targets are nearly a mixture of the features
        return tags


@dataclass(eq=False, repr=False, kw_only=True)
class OverGroupBall(BallEstimator):
    """Estimator whose coefficients have norms over groups of features that sum to at most the radius."""

    groups: Any = None
    p: float = 2.0

    _set = fw.GroupBall

    def _ball(self, radius: float, shape: tuple[int, ...]) -> fw.GroupBall:
        features = shape[-1]
        if not isinstance(self.groups, Iterable | None):
            raise ValueError(f"groups must be a sequence; got {describe(self.groups)}")
        labels = np.arange(features) if self.groups is None else group_labels(self.groups)
        if len(labels) != features:
            raise ValueError(f"groups has {len(labels)} entries; X has {features} features, and they must agree")
        return self._set(np.broadcast_to(labels, shape).reshape(-1), radius, self.p)


class LinearEstimator(BallEstimator):
    """Estimator whose predictions are linear in the features."""

    #: Shift of the features that are far from zero, or None if no feature is shifted.
    _centre: Centre | None

    def _checked(self, X: Any, y: Any, **options: Any) -> tuple[Any, Any]:
        self._check_parameters()
        return validate_data(self, X, y, accept_sparse="csc", dtype=(np.float64, np.float32), **options)

    def _centred(self, task: Samples) -> Samples:
        """Drop samples of weight zero, and with an intercept shift features that are far from zero."""
        X = task.X
        if task.weights is not None and not task.weights.all():
            kept = np.flatnonzero(task.weights)
            X = sp.csc_array(sp.csr_array(X)[kept]) if sp.issparse(X) else X[kept]
            task = Samples(X, task.y[kept], task.weights[kept])
        self._centre = None
        if not self.fit_intercept:
            return task
        if sp.issparse(X) and not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        centre = Centre.of(X)
        if len(centre.places):
            self._centre, task = centre, replace(task, X=centre.taken_from(X))
        return task

    def _keep_linear(self, x: Array, constants: Any) -> None:
        """Set the coefficients and the intercepts, which are `constants` for the shifted features."""
        self.coef_, self._constants = x, constants
        shift = 0.0 if self._centre is None else dot(x[..., self._centre.places], self._centre.values)
        self.intercept_ = constants - shift

    def _kept(self) -> Any:
        coef = vars(self).get("coef_")
        return coef[0] if coef is not None and coef.ndim == 2 and len(coef) == 1 else coef

    def _decision(self, X: Any) -> Array:
        """Return the linear predictions for the data that a user gives."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, accept_sparse=("csr", "csc"), dtype=(np.float64, np.float32))
        if self._centre is None:
            return np.asarray(dot(X, self.coef_.T) + self.intercept_)
        return self._centre.product(X, self.coef_) + self._constants


@dataclass(eq=False, repr=False, kw_only=True)
class Regressor(RegressorMixin, BallEstimator):
    """Estimator of numbers by one of the losses for numbers."""

    loss: str = "squared"
    rho: float = 1.0

    def _loss(self) -> Loss:
        accepted = [name for name, kind in losses.items() if not kind.labels]
        if self.loss not in accepted:
            raise ValueError(f"loss={self.loss!r} is not known; accepted: {', '.join(map(repr, accepted))}")
        return find_loss(self.loss, self.rho)

    def _losses(self, X: Any, y: Array) -> Array:
        return np.asarray(self._loss().values(self.predict(X), y))


class LinearRegressor(Regressor, LinearEstimator):
    """Linear regression."""

    def _task(self, X: Any, y: Any, sample_weight: Any) -> Samples:
        X, y = self._checked(X, y, y_numeric=True)
        task = self._centred(Samples(X, np.asarray(y), checked_weights(sample_weight, X.shape[0])))
        column, self._level = task.y.astype(np.float64)[:, None], 0.0
        if self.fit_intercept:  # targets far from zero are shifted like the features
            centre = Centre.of(column)
            column, self._level = centre.taken_from(column), float(centre.values.sum())
        return replace(task, y=column[:, 0].astype(X.dtype))

    def _objective(self, task: Samples) -> fw.LinearModel:
        return fw.LinearModel(task.X, task.y, self._loss(), weights=task.weights, intercept=self.fit_intercept)

    def _corners(self, task: Samples) -> CornerPath | None:
        if (self._set, self.loss, self.method) != (fw.L1Ball, "squared", "auto") or sp.issparse(task.X):
            return None
        return CornerPath(task.X, task.y, task.weights, self.fit_intercept)

    def _keep(self, f: fw.LinearModel, x: Array) -> None:
        self._keep_linear(x, f.intercept_at(x) + self._level)

    def predict(self, X: Any) -> Array:
        """Return the predicted numbers."""
        return self._decision(X)


@dataclass(eq=False, repr=False, kw_only=True)
class LinearClassifier(ClassifierMixin, LinearEstimator):
    """Logistic regression for two classes, multinomial logistic regression for more."""

    class_weight: Any = None

    def _task(self, X: Any, y: Any, sample_weight: Any) -> Samples:
        X, y = self._checked(X, y)
        check_classification_targets(y)
        weights = checked_weights(sample_weight, X.shape[0])
        if self.class_weight is not None:
            got = f"; got {describe(self.class_weight)}"
            if not isinstance(self.class_weight, dict | str):
                raise ValueError(f"class_weight must be a dict, 'balanced' or None{got}")
            weights = compute_sample_weight(self.class_weight, y) * (1.0 if weights is None else weights)
            if not (np.isfinite(weights) & (weights >= 0)).all() or not weights.any():
                raise ValueError(f"class_weight must be finite, not negative and not all zero{got}")
        task = self._centred(Samples(X, y, weights))
        # Samples of weight zero are already dropped, so a class that only they have is not a class of the model.
        self.classes_, codes = np.unique(task.y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y holds one class only, {self.classes_[0]!r}; a classifier needs two classes or more")
        return replace(task, y=codes)

    def _objective(self, task: Samples) -> Any:
        if len(self.classes_) > 2:
            return _SoftmaxModel(task.X, task.y, task.weights, self.fit_intercept)
        labels = np.where(task.y > 0, 1.0, -1.0)
        return fw.LinearModel(task.X, labels, Logistic(), weights=task.weights, intercept=self.fit_intercept)

    def _keep(self, f: Any, x: Array) -> None:
        if x.ndim == 1:
            self._keep_linear(x[None], np.array([f.intercept_at(x)], dtype=x.dtype))
            return
        self._keep_linear(x, f.intercepts_at(x))
        if self._centre is not None:
            self.intercept_ -= self.intercept_.mean()  # adding a constant to all classes changes no probability

    def _losses(self, X: Any, y: Array) -> Array:
        places = np.searchsorted(self.classes_, y).clip(max=len(self.classes_) - 1)
        losses = -self.predict_log_proba(X)[np.arange(len(y)), places]
        return np.where(self.classes_[places] == y, losses, _UNSEEN)

    def decision_function(self, X: Any) -> Array:
        """Return the logits: one column per class, or one vector for the second of two classes."""
        Z = self._decision(X)
        return Z if len(self.classes_) > 2 else Z[:, 0]

    def predict(self, X: Any) -> Array:
        """Return the predicted classes."""
        Z = self.decision_function(X)
        return self.classes_[Z.argmax(axis=1) if Z.ndim == 2 else (Z > 0).astype(int)]

    def predict_proba(self, X: Any) -> Array:
        """Return the probabilities, one column per class."""
        Z = self.decision_function(X)
        return np.column_stack([expit(-Z), expit(Z)]) if Z.ndim == 1 else probabilities(Z.T).T

    def predict_log_proba(self, X: Any) -> Array:
        """Return the logarithms of the probabilities, one column per class."""
        Z = self.decision_function(X)
        if Z.ndim == 1:
            return np.column_stack([-np.logaddexp(0, Z), -np.logaddexp(0, -Z)])
        return Z - np.logaddexp.reduce(Z, axis=1, keepdims=True)


@dataclass(eq=False, repr=False)
class L1Regression(FixedRadius, OverL1Ball, LinearRegressor):
    r"""Regression with :math:`\|\beta\|_1 \le r`: the lasso as a constrained problem.

    Parameters
    ----------
    radius : float
        Bound r on the l1 norm of the coefficients.
    loss, rho : str, float
        Loss for numbers (see ``fwflow list losses``), and its parameter: "huber" is linear for residuals beyond
        ``rho``.
    fit_intercept, warm_start : bool
        Whether to fit an unconstrained intercept, and whether to start from the coefficients of the previous fit.
    method, max_iter : str, Tableau or Method, and int
        Method of `fwflow.minimize`, and its maximum number of iterations.
    tol, rtol : float
        Stop when the duality gap is at most ``tol`` times the loss at zero coefficients, or ``rtol`` times the first
        gap.

    Attributes
    ----------
    coef_, intercept_ : (n_features,) array, float
    dual_gap_ : float
        Duality gap, recomputed at `coef_`: an upper bound on the difference between the loss and its minimum.
    n_iter_, trace_, method_, active_set_ : int, Trace, str, ActiveSet or None
        Attributes `nit`, ``trace``, ``method`` and `active_set` of the `fwflow.Result` of the run.
    n_features_in_, feature_names_in_ : int, array

    Examples
    --------
    >>> import numpy as np
    >>> from fwflow.sklearn import L1Regression
    >>> X = np.random.default_rng(0).standard_normal((50, 20))
    >>> model = L1Regression(radius=2.0).fit(X, 2 * X[:, 3] + 1)
    >>> float(abs(model.coef_).sum()), model.dual_gap_ < 1e-8
    (2.0, True)
    """


@dataclass(eq=False, repr=False)
class SimplexRegression(FixedRadius, OverSimplex, LinearRegressor):
    r"""Regression with :math:`\beta \ge 0` and :math:`\sum_j \beta_j = r`: mixtures of features.

    The parameters and attributes that are not listed here are those of `L1Regression`.

    Parameters
    ----------
    radius : float
        Sum r of the coefficients.

    Examples
    --------
    >>> import numpy as np
    >>> from fwflow.sklearn import SimplexRegression
    >>> X = np.random.default_rng(0).standard_normal((50, 4))
    >>> SimplexRegression().fit(X, 0.25 * X[:, 0] + 0.75 * X[:, 2]).coef_.round(6)
    array([0.25, 0.  , 0.75, 0.  ])
    """


@dataclass(eq=False, repr=False)
class GroupRegression(FixedRadius, OverGroupBall, LinearRegressor):
    r"""Regression with :math:`\sum_G \|\beta_G\|_p \le r`: the group lasso as a constrained problem.

    The parameters and attributes that are not listed here are those of `L1Regression`.

    Parameters
    ----------
    radius : float
        Bound r on the sum of the norms of the groups.
    groups : sequence, optional
        Features of each group, or the group of each feature. By default each feature is a group.
    p : float
        Norm of a group; larger than 1, and may be infinite.

    Examples
    --------
    >>> import numpy as np
    >>> from fwflow.sklearn import GroupRegression
    >>> X = np.random.default_rng(0).standard_normal((50, 6))
    >>> model = GroupRegression(groups=[[0, 1, 2], [3, 4, 5]]).fit(X, X[:, 3] - X[:, 5])
    >>> np.flatnonzero(model.coef_), round(float(np.linalg.norm(model.coef_)), 6)
    (array([3, 4, 5]), 1.0)
    """


@dataclass(eq=False, repr=False)
class L1Classifier(FixedRadius, OverL1Ball, LinearClassifier):
    r"""Logistic regression with :math:`\|\beta\|_1 \le r`; multinomial, with one ball, for more than two classes.

    The parameters and attributes that are not listed here are those of `L1Regression`.

    Parameters
    ----------
    radius : float
        Bound r on the l1 norm of all coefficients.
    class_weight : dict or "balanced", optional
        Weights of the classes in the loss.

    Attributes
    ----------
    classes_ : (n_classes,) array
    coef_, intercept_ : (1, n_features) and (1,) arrays, or (n_classes, n_features) and (n_classes,) arrays
        For more than two classes, the intercepts sum to zero.

    Examples
    --------
    >>> import numpy as np
    >>> from fwflow.sklearn import L1Classifier
    >>> X = np.random.default_rng(0).standard_normal((50, 20))
    >>> model = L1Classifier(radius=5.0).fit(X, np.where(X[:, 3] > 0, "up", "down"))
    >>> model.classes_, abs(model.coef_[0]).argmax(), model.score(X, np.where(X[:, 3] > 0, "up", "down")) > 0.9
    (array(['down', 'up'], dtype='<U4'), np.int64(3), True)
    """


@dataclass(eq=False, repr=False)
class GroupClassifier(FixedRadius, OverGroupBall, LinearClassifier):
    r"""Logistic regression with :math:`\sum_G \|\beta_G\|_p \le r`; a group holds its features for all classes.

    ``radius``, ``groups`` and ``p`` are those of `GroupRegression`. The other parameters and the attributes are those
    of `L1Classifier`.

    Examples
    --------
    >>> import numpy as np
    >>> from fwflow.sklearn import GroupClassifier
    >>> X = np.random.default_rng(0).standard_normal((60, 6))
    >>> y = X[:, 3:5].argmax(axis=1) + (X[:, 3:5].max(axis=1) < 0)
    >>> model = GroupClassifier(radius=0.5, groups=[[0, 1, 2], [3, 4, 5]]).fit(X, y)
    >>> model.coef_.any(axis=0)
    array([False, False, False,  True,  True,  True])
    """
