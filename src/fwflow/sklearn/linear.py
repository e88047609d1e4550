"""Linear models whose coefficients lie in a ball: regression and classification."""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Self

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
from fwflow.designs.centred import Centre
from fwflow.methods.corrective import Corrective
from fwflow.methods.restricted.atoms import ActiveSet, Atoms
from fwflow.objectives.losses import Logistic, Loss, find_loss, losses
from fwflow.sets.vectors import group_labels
from fwflow.sklearn.corners import CornerPath
from fwflow.sklearn.softmax import _SoftmaxModel, probabilities

# Steps that correct k coefficients cost k^2 m, and a pass over the data n m: up to so many times that it pays.
_FEW = 10
# The loss of a class that no sample of a fold has shown: that of a probability at the limit of double precision.
_UNSEEN = -math.log(np.finfo(np.float64).eps)


# Parameters that are True or False.
_SWITCHES = ("fit_intercept", "warm_start", "progress", "biases")


@dataclass(frozen=True)
class Samples:
    """Data as a solver takes it: targets are numbers, or the codes of classes."""

    X: Any
    y: Array
    weights: Array | None

    def rows(self, chosen: Array) -> Samples:
        """Some of the samples."""
        X = sp.csc_array(sp.csr_array(self.X)[chosen]) if sp.issparse(self.X) else self.X[chosen]
        return Samples(X, self.y[chosen], None if self.weights is None else self.weights[chosen])


class BallEstimator(BaseEstimator):
    """What all have in common: data in, a run, attributes out.

    An estimator says which function of the coefficients is to be minimised, over which set for a radius, and what is
    made of the minimiser.
    """

    radius: float
    fit_intercept: bool
    method: Any
    tol: float
    rtol: float
    max_iter: int
    warm_start: bool

    @abstractmethod
    def _task(self, X: Any, y: Any, sample_weight: Any) -> Samples:
        """The data, checked."""

    def _check_parameters(self) -> None:
        """Raise an error for a parameter that no part asked later would refuse."""
        given = self.get_params(deep=False)
        for name, value in given.items():
            if name in _SWITCHES and not (np.ndim(value) == 0 and value in (True, False)):
                raise ValueError(f"{name} must be True or False; got {describe(value)}")
            if name in ("tol", "rtol", "damping"):
                number(value, name, "be a finite number that is not negative", lambda x: 0 <= x < math.inf)
        whole(given["max_iter"], "max_iter", 0)
        if "rho" in given:
            positive(given["rho"], "rho")

    @abstractmethod
    def _objective(self, task: Samples) -> fw.Objective:
        """What to minimise."""

    @abstractmethod
    def _ball(self, radius: float, shape: tuple[int, ...]) -> fw.ConstraintSet:
        """Where the coefficients may be."""

    def _size(self, x: Any) -> float | None:
        """The least radius of a ball with x in it, None where that does not say when the constraint stops binding."""
        return None

    def _corners(self, task: Samples) -> CornerPath | None:
        """The minimisers for all radii at once, None where they do not lie on straight lines, or are many to find."""
        return None

    @abstractmethod
    def _keep(self, f: Any, x: Any) -> None:
        """Set the attributes that prediction needs."""

    @abstractmethod
    def _kept(self) -> Any:
        """The coefficients of an earlier fit in the shape of x, None if there was none."""

    @abstractmethod
    def _losses(self, X: Any, y: Array) -> Array:
        """The loss of every sample, fitted or not."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _fit(self, task: Samples, radius: float, start: Any = None, **options: Any) -> fw.Result:
        """Minimise, and set all attributes."""
        f = self._objective(task)
        result = self._minimised(f, self._ball(radius, f.shape), start, **options)
        self._keep(f, result.x)
        self.n_iter_, self.dual_gap_, self.trace_ = result.nit, result.gap, result.trace
        self.method_ = result.method
        active = result.active_set  # without the images of its vertices, which are as long as the data
        self.active_set_ = active and ActiveSet(Atoms(atom.bare() for atom in active.atoms), active.weights)
        return result

    def _minimised(self, f: fw.Objective, C: fw.ConstraintSet, start: Any, **options: Any) -> fw.Result:
        null = f.value(f.point(fw.LowRank.zeros(f.shape, f.dtype) if f.factored else np.zeros(f.shape)))
        given = {"method": self.method, "tol": self.tol, "rtol": self.rtol, "max_iter": self.max_iter} | options
        if given["tol"]:
            given["tol"] = max(given["tol"] * null, float(np.finfo(np.float64).tiny))
        start = _moved_inside(C, start)
        mixture = _mixture(f, C, start) if given["method"] == "auto" else None
        if mixture is not None:
            start, given["method"] = mixture, Corrective()
        result = fw.minimize(f, C, start, **given)
        if not result.success and result.status is not fw.Status.PRECISION:
            warnings.warn(f"{type(self).__name__}: {result.message}", ConvergenceWarning, stacklevel=4)
        return result

    def _earlier(self, task: Samples) -> Any:
        """Where to start: the coefficients of the fit before, if that is wanted and they fit the data."""
        x = self._kept() if self.warm_start else None
        return x if x is not None and x.shape == self._objective(task).shape else None

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : (n_samples, n_features) array, sparse matrix or data frame
        y : (n_samples,) array
        sample_weight : (n_samples,) array, optional
            How often each sample counts.
        """
        task = self._task(X, y, sample_weight)
        self._fit(task, self.radius, self._earlier(task))
        return self


def _moved_inside(C: fw.ConstraintSet, x: Any) -> Any:
    """The member next to x, None if the set cannot tell which."""
    if x is None or isinstance(x, fw.LowRank):
        return x
    x = np.asarray(x)
    return x if C.contains(x, 1e-8 if x.dtype == np.float64 else 1e-4) else C.project(x)


def _mixture(f: fw.Objective, C: fw.ConstraintSet, x: Any) -> ActiveSet | None:
    """Sparse coefficients as a mixture of vertices, from which corrective steps need few passes; else None."""
    if not isinstance(x, np.ndarray) or np.count_nonzero(x) ** 2 > _FEW * x.size:
        return None
    parts = None if C.known_vertices is None else C.known_vertices.decomposed(x)
    if not parts:
        return None
    weights = np.array([weight for weight, _ in parts])
    atoms: list[Any] = [f.lift(vertex) for _, vertex in parts]
    rest = 1.0 - float(weights.sum())
    if rest > 1e-12 and C.contains(np.zeros_like(x)):
        return ActiveSet(Atoms((f.point(np.zeros_like(x)), *atoms)), np.append(rest, weights))
    return ActiveSet(Atoms(atoms), weights / weights.sum())


def checked_weights(sample_weight: Any, samples: int) -> Array | None:
    """Weights as float64, or an error that names them."""
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


class LinearEstimator(BallEstimator):
    """A model that is linear in the features."""

    coef_: Array
    intercept_: Any

    #: Features that were moved next to zero, None where there are none.
    _centre: Centre | None
    #: The intercepts of the features as they were moved.
    _constants: Any

    def _checked(self, X: Any, y: Any, **options: Any) -> tuple[Any, Any]:
        self._check_parameters()
        return validate_data(self, X, y, accept_sparse="csc", dtype=(np.float64, np.float32), **options)

    def _centred(self, task: Samples) -> Samples:
        """The samples that count, with features far from zero moved next to it if there is an intercept."""
        if task.weights is not None and not task.weights.all():
            task = task.rows(np.flatnonzero(task.weights))
        self._centre = None
        if not self.fit_intercept:
            return task
        X = task.X
        if sp.issparse(X) and not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        centre = Centre.of(X)
        if len(centre.places):
            self._centre, task = centre, replace(task, X=centre.taken_from(X))
        return task

    def _keep_linear(self, x: Array, constants: Any) -> None:
        """Set the coefficients, and the intercepts that belong to the features as they were given."""
        self.coef_, self._constants = x, constants
        moved = 0.0 if self._centre is None else dot(x[..., self._centre.places], self._centre.values)
        self.intercept_ = constants - moved

    def _decision(self, X: Any) -> Array:
        if self._centre is None:
            return np.asarray(dot(X, self.coef_.T) + self.intercept_)
        return self._centre.product(X, self.coef_) + self._constants

    def _seen(self, X: Any) -> Any:
        check_is_fitted(self)
        return validate_data(self, X, reset=False, accept_sparse=("csr", "csc"), dtype=(np.float64, np.float32))


class LinearRegressor(RegressorMixin, LinearEstimator):
    """A linear model of numbers."""

    #: What was taken from the targets.
    _level: float

    def _loss(self) -> Loss:
        return find_loss("squared", 1.0)

    def _task(self, X: Any, y: Any, sample_weight: Any) -> Samples:
        X, y = self._checked(X, y, y_numeric=True)
        task = self._centred(Samples(X, np.asarray(y), checked_weights(sample_weight, X.shape[0])))
        column, self._level = task.y.astype(np.float64)[:, None], 0.0
        if self.fit_intercept:
            centre = Centre.of(column)
            column, self._level = centre.taken_from(column), float(centre.values.sum())
        return replace(task, y=column[:, 0].astype(X.dtype))

    def _objective(self, task: Samples) -> fw.LinearModel:
        return fw.LinearModel(task.X, task.y, self._loss(), weights=task.weights, intercept=self.fit_intercept)

    def _keep(self, f: fw.LinearModel, x: Array) -> None:
        self._keep_linear(x, f.intercept_at(x) + self._level)

    def _kept(self) -> Any:
        return vars(self).get("coef_")

    def _losses(self, X: Any, y: Array) -> Array:
        values = self._loss().values(self.predict(X), y)
        assert values is not None
        return values

    def predict(self, X: Any) -> Array:
        """Predicted numbers."""
        return self._decision(self._seen(X))


class LinearClassifier(ClassifierMixin, LinearEstimator):
    """A linear model of classes: the logistic loss of two, the multinomial one of several."""

    class_weight: Any
    classes_: Array

    def _task(self, X: Any, y: Any, sample_weight: Any) -> Samples:
        X, y = self._checked(X, y)
        check_classification_targets(y)
        weights = checked_weights(sample_weight, X.shape[0])
        if self.class_weight is not None:
            if not isinstance(self.class_weight, dict | str):
                wanted = "class_weight must be a dict, 'balanced' or None"
                raise ValueError(f"{wanted}; got {describe(self.class_weight)}")
            weights = compute_sample_weight(self.class_weight, y) * (1.0 if weights is None else weights)
            if not (np.isfinite(weights) & (weights >= 0)).all() or not weights.any():
                raise ValueError(
                    f"class_weight must be finite, not negative and not all zero; got {describe(self.class_weight)}"
                )
        task = self._centred(Samples(X, y, weights))  # samples of no weight do not even tell of a class
        self.classes_, codes = np.unique(task.y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y holds one class only, {self.classes_[0]!r}; a classifier needs two classes or more")
        return Samples(task.X, codes, task.weights)

    def _objective(self, task: Samples) -> Any:
        if len(self.classes_) > 2:
            return _SoftmaxModel(task.X, task.y, task.weights, self.fit_intercept)
        labels = np.where(task.y > 0, 1.0, -1.0)
        return fw.LinearModel(task.X, labels, Logistic(), weights=task.weights, intercept=self.fit_intercept)

    def _keep(self, f: Any, x: Array) -> None:
        several = x.ndim == 2
        constants = f.intercepts_at(x) if several else np.array([f.intercept_at(x)], dtype=x.dtype)
        self._keep_linear(x if several else x[None], constants)
        if several and self._centre is not None:
            self.intercept_ -= self.intercept_.mean()  # a constant in all classes changes no probability

    def _kept(self) -> Any:
        coef = vars(self).get("coef_")
        return coef if coef is None or len(coef) > 1 else coef[0]

    def _losses(self, X: Any, y: Array) -> Array:
        places = np.searchsorted(self.classes_, y).clip(max=len(self.classes_) - 1)
        losses = -self.predict_log_proba(X)[np.arange(len(y)), places]
        return np.where(self.classes_[places] == y, losses, _UNSEEN)

    def decision_function(self, X: Any) -> Array:
        """How far each sample is on the side of each class; of two classes, on that of the second."""
        Z = self._decision(self._seen(X))
        return Z if len(self.classes_) > 2 else Z[:, 0]

    def predict(self, X: Any) -> Array:
        """Predicted classes."""
        Z = self.decision_function(X)
        return self.classes_[Z.argmax(axis=1) if Z.ndim == 2 else (Z > 0).astype(int)]

    def predict_proba(self, X: Any) -> Array:
        """Probabilities, one column per class."""
        Z = self.decision_function(X)
        if Z.ndim == 1:
            return np.column_stack([expit(-Z), expit(Z)])
        return probabilities(Z.T).T

    def predict_log_proba(self, X: Any) -> Array:
        """Their logarithms."""
        Z = self.decision_function(X)
        if Z.ndim == 1:
            return np.column_stack([-np.logaddexp(0, Z), -np.logaddexp(0, -Z)])
        return Z - np.logaddexp.reduce(Z, axis=1, keepdims=True)


_PARAMETERS = """fit_intercept : bool
        Whether there is a constant, free of the constraint.
    method : str, Tableau or Method
        What `fwflow.minimize` is to run.
    tol : float
        How exact: the certified gap is at most this share of the loss without any coefficients.
    rtol : float
        Or this share of the gap at the start.
    max_iter : int
    warm_start : bool
        Begin with the coefficients of the fit before."""

_ATTRIBUTES = """n_iter_ : int
        Iterations; of a search by least squares also the corners of the path on the way to the radius.
    dual_gap_ : float
        The loss is above its least value by no more; computed afresh at the coefficients.
    trace_ : Trace
        The course of the run.
    active_set_ : ActiveSet or None
        The coefficients as a mixture of vertices, from methods that know it.
    method_ : str
        What ran; ``method_.why`` says why.
    n_features_in_ : int
    feature_names_in_ : array
        Only if the data has names."""


def documented(cls: type[Any]) -> type[Any]:
    """Fill in what the estimators have in common."""
    if cls.__doc__ is None:  # Python runs with -OO
        return cls
    cls.__doc__ = cls.__doc__.replace("{parameters}", _PARAMETERS).replace("{attributes}", _ATTRIBUTES)
    return cls


class OverL1Ball:
    """Coefficients whose moduli sum to the radius at most."""

    def _ball(self, radius: float, shape: tuple[int, ...]) -> fw.ConstraintSet:
        return fw.L1Ball(radius)

    def _size(self, x: Array) -> float:
        return float(np.abs(x).sum())


class OverGroupBall:
    """Coefficients in groups of features, whose norms sum to the radius at most."""

    groups: Any
    p: float

    def _size(self, x: Array) -> float:
        return self._ball(1.0, x.shape).norm(x.reshape(-1))

    def _ball(self, radius: float, shape: tuple[int, ...]) -> fw.GroupBall:
        features = shape[-1]
        if not isinstance(self.groups, Iterable | None):
            raise ValueError(f"groups must be a sequence; got {describe(self.groups)}")
        labels = np.arange(features) if self.groups is None else group_labels(self.groups)
        if len(labels) != features:
            raise ValueError(f"groups has {len(labels)} entries; X has {features} features, and they must agree")
        return fw.GroupBall(np.broadcast_to(labels, shape).reshape(-1), radius, self.p)


@documented
class L1Regression(OverL1Ball, LinearRegressor):
    r"""Regression with :math:`\|\beta\|_1 \le r`: the lasso by its radius.

    Parameters
    ----------
    radius : float
    loss : str
        Name of a loss for numbers, for example "squared" or "huber"; ``fwflow list losses`` prints all names.
    rho : float
        Parameter of losses that have one: beyond it, "huber" counts residuals linearly.
    {parameters}

    Attributes
    ----------
    coef_ : (n_features,) array
    intercept_ : float
    {attributes}

    Examples
    --------
    >>> import numpy as np
    >>> from fwflow.sklearn import L1Regression
    >>> X = np.random.default_rng(0).standard_normal((50, 20))
    >>> model = L1Regression(radius=2.0).fit(X, 2 * X[:, 3] + 1)
    >>> float(abs(model.coef_).sum()), model.dual_gap_ < 1e-8
    (2.0, True)
    """

    def __init__(
        self,
        radius: float = 1.0,
        *,
        loss: str = "squared",
        rho: float = 1.0,
        fit_intercept: bool = True,
        method: Any = "auto",
        tol: float = 1e-8,
        rtol: float = 0.0,
        max_iter: int = 10_000,
        warm_start: bool = False,
    ) -> None:
        self.radius = radius
        self.loss = loss
        self.rho = rho
        self.fit_intercept = fit_intercept
        self.method = method
        self.tol = tol
        self.rtol = rtol
        self.max_iter = max_iter
        self.warm_start = warm_start

    def _loss(self) -> Loss:
        return regression_loss(self.loss, self.rho)

    def _corners(self, task: Samples) -> CornerPath | None:
        if self.loss != "squared" or self.method != "auto" or sp.issparse(task.X):
            return None
        return CornerPath(task.X, task.y, task.weights, self.fit_intercept)


def regression_loss(loss: Any, rho: float) -> Loss:
    """The loss of that name, if it is one for numbers."""
    accepted = [name for name, kind in losses.items() if not kind.labels]
    if loss not in accepted:
        raise ValueError(f"loss={loss!r} is not known; accepted: {', '.join(map(repr, accepted))}")
    return find_loss(loss, rho)


@documented
class SimplexRegression(LinearRegressor):
    r"""Regression with :math:`\beta \ge 0` and :math:`\sum_j \beta_j = r`: mixtures of features.

    Parameters
    ----------
    radius : float
        What the coefficients sum to.
    loss : str
        Name of a loss for numbers, for example "squared" or "huber"; ``fwflow list losses`` prints all names.
    rho : float
        Parameter of losses that have one: beyond it, "huber" counts residuals linearly.
    {parameters}

    Attributes
    ----------
    coef_ : (n_features,) array
    intercept_ : float
    {attributes}

    Examples
    --------
    >>> import numpy as np
    >>> from fwflow.sklearn import SimplexRegression
    >>> X = np.random.default_rng(0).standard_normal((50, 4))
    >>> SimplexRegression().fit(X, 0.25 * X[:, 0] + 0.75 * X[:, 2]).coef_.round(6)
    array([0.25, 0.  , 0.75, 0.  ])
    """

    def __init__(
        self,
        radius: float = 1.0,
        *,
        loss: str = "squared",
        rho: float = 1.0,
        fit_intercept: bool = True,
        method: Any = "auto",
        tol: float = 1e-8,
        rtol: float = 0.0,
        max_iter: int = 10_000,
        warm_start: bool = False,
    ) -> None:
        self.radius = radius
        self.loss = loss
        self.rho = rho
        self.fit_intercept = fit_intercept
        self.method = method
        self.tol = tol
        self.rtol = rtol
        self.max_iter = max_iter
        self.warm_start = warm_start

    def _loss(self) -> Loss:
        return regression_loss(self.loss, self.rho)

    def _ball(self, radius: float, shape: tuple[int, ...]) -> fw.ConstraintSet:
        return fw.Simplex(radius)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # of anything that is no mixture of the features
        return tags


@documented
class GroupRegression(OverGroupBall, LinearRegressor):
    r"""Regression with :math:`\sum_G \|\beta_G\|_p \le r`: the group lasso by its radius.

    Parameters
    ----------
    radius : float
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
    {attributes}

    Examples
    --------
    >>> import numpy as np
    >>> from fwflow.sklearn import GroupRegression
    >>> X = np.random.default_rng(0).standard_normal((50, 6))
    >>> model = GroupRegression(groups=[[0, 1, 2], [3, 4, 5]]).fit(X, X[:, 3] - X[:, 5])
    >>> np.flatnonzero(model.coef_), round(float(np.linalg.norm(model.coef_)), 6)
    (array([3, 4, 5]), 1.0)
    """

    def __init__(
        self,
        radius: float = 1.0,
        *,
        groups: Any = None,
        p: float = 2.0,
        loss: str = "squared",
        rho: float = 1.0,
        fit_intercept: bool = True,
        method: Any = "auto",
        tol: float = 1e-8,
        rtol: float = 0.0,
        max_iter: int = 10_000,
        warm_start: bool = False,
    ) -> None:
        self.radius = radius
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

    def _loss(self) -> Loss:
        return regression_loss(self.loss, self.rho)


@documented
class L1Classifier(OverL1Ball, LinearClassifier):
    r"""Logistic regression with :math:`\|\beta\|_1 \le r`; of several classes, the multinomial one over one ball.

    Parameters
    ----------
    radius : float
    class_weight : dict or "balanced", optional
        How much the samples of each class count.
    {parameters}

    Attributes
    ----------
    classes_ : array
    coef_ : (1, n_features) or (n_classes, n_features) array
    intercept_ : (1,) or (n_classes,) array
        Those of several classes sum to zero.
    {attributes}

    Examples
    --------
    >>> import numpy as np
    >>> from fwflow.sklearn import L1Classifier
    >>> X = np.random.default_rng(0).standard_normal((50, 20))
    >>> model = L1Classifier(radius=5.0).fit(X, np.where(X[:, 3] > 0, "up", "down"))
    >>> model.classes_, abs(model.coef_[0]).argmax(), model.score(X, np.where(X[:, 3] > 0, "up", "down")) > 0.9
    (array(['down', 'up'], dtype='<U4'), np.int64(3), True)
    """

    def __init__(
        self,
        radius: float = 1.0,
        *,
        fit_intercept: bool = True,
        class_weight: Any = None,
        method: Any = "auto",
        tol: float = 1e-8,
        rtol: float = 0.0,
        max_iter: int = 10_000,
        warm_start: bool = False,
    ) -> None:
        self.radius = radius
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.method = method
        self.tol = tol
        self.rtol = rtol
        self.max_iter = max_iter
        self.warm_start = warm_start


@documented
class GroupClassifier(OverGroupBall, LinearClassifier):
    r"""Logistic regression with :math:`\sum_G \|\beta_G\|_p \le r`; a group has those of its features for all classes.

    Parameters
    ----------
    radius : float
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
    {attributes}

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

    def __init__(
        self,
        radius: float = 1.0,
        *,
        groups: Any = None,
        p: float = 2.0,
        fit_intercept: bool = True,
        class_weight: Any = None,
        method: Any = "auto",
        tol: float = 1e-8,
        rtol: float = 0.0,
        max_iter: int = 10_000,
        warm_start: bool = False,
    ) -> None:
        self.radius = radius
        self.groups = groups
        self.p = p
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.method = method
        self.tol = tol
        self.rtol = rtol
        self.max_iter = max_iter
        self.warm_start = warm_start
