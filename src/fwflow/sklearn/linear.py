"""Generic estimator with constrained coefficients, and the linear models for regression and classification."""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
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
from fwflow.objectives.classes import class_probabilities, log_class_probabilities
from fwflow.objectives.losses import Logistic, Loss, Poisson, find_loss, losses
from fwflow.run.corners import CornerPath
from fwflow.run.paths import minimised, origin
from fwflow.run.selection import LOOSER
from fwflow.sets.vectors import group_labels

# Held-out loss of a sample whose class does not occur in the training data, where the predicted probability is zero
# and the logarithm infinite: the loss at a probability of one rounding unit of double precision.
_UNSEEN = -math.log(np.finfo(np.float64).eps)
# Smoothing width of the loss "quantile", as a share of the median distance of the targets from their median. Chosen
# without tuning.
_WIDTH = 0.01


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

    def _first_starts(self, f: fw.Objective) -> tuple[Any, ...]:
        """Return the starting points if no earlier fit gives one; none stands for the start of the set."""
        return ()

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
    def _rows(self, X: Any) -> Any:
        """Check the data that a user gives for prediction, and return it as `_scores` needs it."""

    @abstractmethod
    def _scores(self, rows: Any) -> Array:
        """Return the predictions, or for classes their scores, of checked data."""

    @abstractmethod
    def _losses(self, scores: Array, y: Array) -> Array:
        """Return the loss of every sample."""

    def _decision(self, X: Any) -> Array:
        """Return the scores for the data that a user gives."""
        check_is_fitted(self)
        return self._scores(self._rows(X))

    def _for_fold(self) -> Any:
        """Return the model, not fitted, for a part of the data without the names of the features."""
        return clone(self).set_params(tol=LOOSER * self.tol, rtol=LOOSER * self.rtol)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _check_parameters(self) -> None:
        """Check the parameters that are not checked where they are used."""
        for name, value in self.get_params(deep=False).items():
            if name in ("fit_intercept", "warm_start", "progress", "biases", "positive"):
                if np.ndim(value) or value not in (True, False):
                    raise ValueError(f"{name} must be True or False; got {describe(value)}")
            elif name in ("tol", "rtol", "damping"):
                number(value, name, "be a finite number that is not negative", lambda x: 0 <= x < math.inf)
            elif name == "rho" and value is not None:
                positive(value, name)
            elif name == "quantile":
                number(value, name, "lie strictly between 0 and 1", lambda x: 0 < x < 1)
        whole(self.max_iter, "max_iter", 0)

    def _options(self, f: fw.Objective, dtype: Any = np.float64) -> dict[str, Any]:
        """Return the options of a run in the given data type; `tol` is relative to the loss at zero coefficients."""
        tol = max(self.tol * f.value(origin(f, f.shape)), float(np.finfo(dtype).tiny)) if self.tol else 0.0
        return {"method": self.method, "tol": tol, "rtol": self.rtol, "max_iter": self.max_iter}

    def _fit(self, f: Any, corners: CornerPath | None, radius: float, starts: tuple[Any, ...]) -> fw.Result:
        """Minimise the loss for one radius, set all attributes, and return the result."""
        corner = None if corners is None else corners.at(radius)
        given = (corner,) if corner is not None else tuple(x for x in starts if x is not None) or self._first_starts(f)
        result = minimised(f, self._ball(radius, f.shape), *given, **self._options(f))
        if not result.success and result.status is not fw.Status.PRECISION:
            limit = "The limit max_iter was reached; raise it, or choose a larger tol."
            why = limit if result.status is fw.Status.ITERATIONS else result.message
            warnings.warn(f"{type(self).__name__}: {why}", ConvergenceWarning, stacklevel=3)
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


@dataclass(eq=False, repr=False, kw_only=True)
class OverL1Ball(BallEstimator):
    """Estimator whose coefficients have an l1 norm of at most the radius, and may be required to be non-negative."""

    positive: bool = False

    _set = fw.L1Ball

    def _ball(self, radius: float, shape: tuple[int, ...]) -> fw.ConstraintSet:
        if not self.positive:
            return super()._ball(radius, shape)
        if len(shape) > 1:
            raise ValueError(
                f"Only binary classification is supported with positive=True; y has {shape[1]} classes, whose "
                "probabilities depend on differences of coefficients only, so set positive=False"
            )
        return fw.UnitSimplex(radius)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if tags.classifier_tags is not None and self.positive:
            tags.classifier_tags.multi_class = False
            tags.classifier_tags.poor_score = True  # unless the features grow with the probability of the second class
        return tags

    def _first_starts(self, f: fw.Objective) -> tuple[Any, ...]:
        # The start of a large simplex may have predictions outside of the domain of the Poisson loss.
        return (np.zeros(f.shape, f.dtype),) if self.positive else ()


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
        return self._set(np.repeat(self._labels(shape[0]), math.prod(shape[1:])), radius, self.p)

    def _labels(self, features: int) -> Array:
        """Return the group of every feature as a number."""
        if isinstance(self.groups, Mapping):
            return _labels_of_names(self.groups, features, vars(self).get("feature_names_in_"))
        if not isinstance(self.groups, Iterable | None):
            raise ValueError(f"groups must be a sequence or a dict; got {describe(self.groups)}")
        labels = np.arange(features) if self.groups is None else group_labels(self.groups)
        if len(labels) != features:
            raise ValueError(f"groups has {len(labels)} entries; X has {features} features, and they must agree")
        return labels

    def _for_fold(self) -> Any:
        model = super()._for_fold()
        return model.set_params(groups=self._labels(self.n_features_in_)) if isinstance(self.groups, Mapping) else model

    @property
    def groups_(self) -> dict[Any, list[Any]]:
        """Features of every group, by name if X has names. A feature that ``groups`` does not name is its own group."""
        check_is_fitted(self)
        labels, names = self._labels(self.n_features_in_), vars(self).get("feature_names_in_")
        features = list(range(len(labels)) if names is None else names)
        given = list(self.groups) if isinstance(self.groups, Mapping) else []
        found: dict[Any, list[Any]] = {}
        for feature, label in zip(features, labels.tolist(), strict=True):
            key = given[label] if label < len(given) else feature if given or self.groups is None else label
            found.setdefault(key, []).append(feature)
        return found


def _labels_of_names(groups: Mapping[Any, Any], features: int, names: Array | None) -> Array:
    """Return the group of every feature: those of a dict from names of groups to features, then single features."""
    labels, keys = np.full(features, -1), list(groups)
    places = {} if names is None else {name: place for place, name in enumerate(names)}
    for label, (key, members) in enumerate(groups.items()):
        members = [members] if isinstance(members, str) else members
        if not isinstance(members, Iterable) or not (members := list(members)):
            raise ValueError(f"groups[{key!r}] must hold at least one feature; got {describe(groups[key])}")
        for member in members:
            place = _place_of(member, f"groups[{key!r}]", features, places)
            if labels[place] >= 0:
                raise ValueError(
                    f"groups names the feature {member!r} twice, in {keys[labels[place]]!r} and {key!r}; "
                    "each feature has one group"
                )
            labels[place] = label
    single = labels < 0
    clash = [key for key in keys if key in places and single[places[key]]]
    if clash:
        raise ValueError(f"groups[{clash[0]!r}] has the name of a feature that is not in it; rename the group")
    labels[single] = len(keys) + np.arange(np.count_nonzero(single))
    return labels


def _place_of(member: Any, name: str, features: int, places: dict[Any, int]) -> int:
    """Return the position of a feature that is given by its name or its position."""
    if isinstance(member, str):
        if not places:
            raise ValueError(f"{name} names features, but X has no feature names; give a data frame, or column numbers")
        if member not in places:
            close = get_close_matches(member, places, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise ValueError(f"{name} names {member!r}, which is no feature of X{hint}")
        return places[member]
    place = whole(member, name, 0)
    if place >= features:
        raise ValueError(f"{name} holds the column number {place}; X has {features} features, counted from 0")
    return place


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

    def coefficients(self) -> Any:
        """Return the coefficients with the names of the features. This method needs pandas.

        Returns
        -------
        pandas.Series or pandas.DataFrame
            A series, or for more than two classes a data frame with one column per class. The index holds the names of
            the features, or ``x0``, ``x1`` and so on if X has none. The intercept is not included.

        Notes
        -----
        Estimators are not transformers, so they have no ``get_feature_names_out``.
        ``sklearn.feature_selection.SelectFromModel`` makes a transformer of an estimator, with the names of the
        features with nonzero coefficients.

        Examples
        --------
        >>> import numpy as np, pandas as pd
        >>> from fwflow.sklearn import L1Regression
        >>> X = pd.DataFrame(np.eye(3), columns=["age", "height", "weight"])
        >>> L1Regression(radius=0.5, fit_intercept=False).fit(X, [1.0, 0.0, 3.0]).coefficients()
        age       0.0
        height    0.0
        weight    0.5
        Name: coefficient, dtype: float64
        """
        check_is_fitted(self)
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("coefficients() needs pandas; pip install pandas brings it") from error
        coef, index = np.atleast_2d(self.coef_), self._feature_names()
        if len(coef) == 1:
            return pd.Series(coef[0], index, name="coefficient")
        return pd.DataFrame(coef.T, index, vars(self)["classes_"])

    def _feature_names(self) -> list[str]:
        names = vars(self).get("feature_names_in_")
        return [f"x{place}" for place in range(self.n_features_in_)] if names is None else list(names)

    def _coefficient_names(self) -> tuple[str, ...]:
        """Return a name for every coefficient: its feature, and for more than two classes its class."""
        names = self._feature_names()
        if self.coef_.ndim == 1 or len(self.coef_) == 1:
            return tuple(names)
        return tuple(f"{name} ({label})" for label in vars(self)["classes_"] for name in names)

    def _kept(self) -> Any:
        coef = vars(self).get("coef_")
        return coef if coef is None or coef.ndim == 1 else coef[0] if len(coef) == 1 else coef.T

    def _rows(self, X: Any) -> Any:
        return validate_data(self, X, reset=False, accept_sparse=("csr", "csc"), dtype=(np.float64, np.float32))

    def _scores(self, rows: Any) -> Array:
        if self._centre is None:
            return np.asarray(dot(rows, self.coef_.T) + self.intercept_)
        return self._centre.product(rows, self.coef_) + self._constants


@dataclass(eq=False, repr=False, kw_only=True)
class Regressor(RegressorMixin, BallEstimator):
    """Estimator of numbers by one of the losses for numbers."""

    loss: str = "squared"
    rho: float | None = None
    quantile: float = 0.5

    def _loss(self) -> Loss:
        accepted = [name for name, kind in losses.items() if not kind.labels]
        if self.loss not in accepted:
            raise ValueError(f"loss={self.loss!r} is not known; accepted: {', '.join(map(repr, accepted))}")
        rho = self.rho if self.rho is not None else vars(self).get("_smoothing", 1.0)
        return find_loss(self.loss, rho, self.quantile)

    def _keep_smoothing(self, y: Array, weights: Array | None) -> None:
        """Set the default of `rho`."""
        self._smoothing = default_rho(self.loss, y, weights)

    def _losses(self, scores: Array, y: Array) -> Array:
        return np.asarray(self._loss().values(scores, y.astype(np.float64)))


def default_rho(loss: str, y: Array, weights: Array | None = None) -> float:
    """Return the default of `rho`: for quantiles it depends on the scale of the targets, else it is 1."""
    if loss != "quantile":
        return 1.0
    w = np.ones(len(y)) if weights is None else weights
    distances = np.abs(y - _median(y, w))
    # If most targets are equal, their median distance is zero.
    scale = _median(distances, w) or float(np.average(distances, weights=w))
    return _WIDTH * scale if scale > 0 else 1.0


def _median(values: Array, weights: Array) -> float:
    """Return the smallest value that at least half of the weight does not exceed."""
    order = np.argsort(values)
    total = np.cumsum(weights[order])
    return float(values[order[np.searchsorted(total, total[-1] / 2)]])


class LinearRegressor(Regressor, LinearEstimator):
    """Linear regression."""

    def _task(self, X: Any, y: Any, sample_weight: Any) -> Samples:
        X, y = self._checked(X, y, y_numeric=True)
        task = self._centred(Samples(X, np.asarray(y), checked_weights(sample_weight, X.shape[0])))
        column, self._level = task.y.astype(np.float64)[:, None], 0.0
        self._keep_smoothing(column[:, 0], task.weights)
        counts = isinstance(self._loss(), Poisson)
        if counts:
            self._check_counts(task.y)
        if self.fit_intercept and not counts:  # targets far from zero are shifted like the features
            centre = Centre.of(column)
            column, self._level = centre.taken_from(column), float(centre.values.sum())
        return replace(task, y=column[:, 0].astype(X.dtype))

    def _check_counts(self, y: Array) -> None:
        if not (y >= 0).all():
            raise ValueError(f"y must hold counts, at least 0, for loss='poisson'; the smallest is {y.min():g}")
        if self.fit_intercept and not y.any():
            raise ValueError(
                "y holds no count above 0, so that the optimal intercept is minus infinity; set fit_intercept=False"
            )

    def _objective(self, task: Samples) -> fw.LinearModel:
        return fw.LinearModel(task.X, task.y, self._loss(), weights=task.weights, intercept=self.fit_intercept)

    def _options(self, f: fw.Objective, dtype: Any = np.float64) -> dict[str, Any]:
        options = super()._options(f, dtype)
        if self.loss == "poisson" and isinstance(f, fw.LinearModel) and options["tol"]:
            # The loss of a good fit is a small difference of terms as large as the counts.
            rounding = 4 * float(np.finfo(dtype).eps) * float(np.average(f.b, weights=f.weights))
            options["tol"] = max(options["tol"], rounding)
        return options

    def _corners(self, task: Samples) -> CornerPath | None:
        if (self.loss, self.method) != ("squared", "auto") or sp.issparse(task.X):
            return None
        kind = type(self._ball(1.0, task.X.shape[1:]))
        if kind not in (fw.L1Ball, fw.UnitSimplex):
            return None
        return CornerPath(task.X, task.y, task.weights, self.fit_intercept, kind is fw.UnitSimplex)

    def _keep(self, f: fw.LinearModel, x: Array) -> None:
        self._keep_linear(x, f.intercept_at(x) + self._level)

    def predict(self, X: Any) -> Array:
        """Return the predicted numbers; for the loss "poisson" the means of the counts."""
        return self._loss().mean(self._decision(X))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the coefficient of determination R2, or for the loss "poisson" the explained share D2 of the deviance.

        The best score is 1, and a constant prediction of the mean has score 0.
        """
        if self.loss != "poisson":
            return float(super().score(X, y, sample_weight))
        y = np.asarray(check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")).reshape(-1)
        self._loss().check(y)
        weights = checked_weights(sample_weight, len(y))
        mean, deviance = (
            np.average(y, weights=weights),
            float(np.average(self._losses(self._decision(X), y), weights=weights)),
        )
        constant = np.full(len(y), math.log(mean) if mean > 0 else 0.0)
        null = float(np.average(Poisson().values(constant, y), weights=weights)) if mean > 0 else 0.0
        return 1 - deviance / null if null > 0 else float(deviance == 0)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = self.loss == "poisson"
        return tags


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
            raise ValueError(
                f"y holds one class only, {self.classes_.tolist()[0]!r}; a classifier needs two classes or more"
            )
        return replace(task, y=codes)

    def _objective(self, task: Samples) -> Any:
        if len(self.classes_) > 2:
            return fw.LinearModel(task.X, task.y, "softmax", weights=task.weights, intercept=self.fit_intercept)
        labels = np.where(task.y > 0, 1.0, -1.0)
        return fw.LinearModel(task.X, labels, Logistic(), weights=task.weights, intercept=self.fit_intercept)

    def _keep(self, f: Any, x: Array) -> None:
        if x.ndim == 1:
            self._keep_linear(x[None], np.array([f.intercept_at(x)], dtype=x.dtype))
            return
        self._keep_linear(x.T, f.intercept_at(x))
        if self._centre is not None:
            self.intercept_ -= self.intercept_.mean()  # adding a constant to all classes changes no probability

    def _scores(self, rows: Any) -> Array:
        Z = super()._scores(rows)
        return Z if len(self.classes_) > 2 else Z[:, 0]

    def _losses(self, scores: Array, y: Array) -> Array:
        places = np.searchsorted(self.classes_, y).clip(max=len(self.classes_) - 1)
        losses = -log_class_probabilities(scores)[np.arange(len(y)), places]
        return np.where(self.classes_[places] == y, losses, _UNSEEN)

    def decision_function(self, X: Any) -> Array:
        """Return confidence scores (logits): one column per class, or one vector for the second of two classes."""
        return self._decision(X)

    def predict(self, X: Any) -> Array:
        """Return the predicted classes."""
        Z = self.decision_function(X)
        return self.classes_[Z.argmax(axis=1) if Z.ndim == 2 else (Z > 0).astype(int)]

    def predict_proba(self, X: Any) -> Array:
        """Return the probabilities, one column per class."""
        return class_probabilities(self._decision(X))

    def predict_log_proba(self, X: Any) -> Array:
        """Return the logarithms of the probabilities, one column per class."""
        return log_class_probabilities(self._decision(X))


@dataclass(eq=False, repr=False)
class L1Regression(FixedRadius, OverL1Ball, LinearRegressor):
    r"""Linear regression with :math:`\|\beta\|_1 \le r`: the lasso as a constrained problem.

    Parameters
    ----------
    radius : float
        Bound r on the l1 norm of the coefficients; 1 by default.
    positive : bool
        Whether the coefficients must not be negative: the non-negative lasso. False by default.
    loss, rho, quantile : str, float or None, float
        Loss, by default "squared", and its parameters. "huber" is linear for residuals beyond ``rho``, by default 1.
        "quantile" predicts the quantile of that level, by default the median 0.5. It is quadratic on an interval of
        width ``rho``, by default a hundredth of the median distance of the targets from their median. "poisson" is for
        counts: predictions are their means, and `score` is the explained share of the deviance.
    fit_intercept, warm_start : bool
        Whether to fit an unconstrained intercept (True by default), and whether to start from the coefficients of the
        previous fit (False by default).
    method, max_iter : str, Tableau or Method, and int
        Method of `fwflow.minimize`, by default "auto", and its largest number of iterations, by default 10000.
    tol, rtol : float
        Stop when the duality gap is at most ``tol`` times the loss at zero coefficients, or ``rtol`` times the first
        gap; 1e-8 and 0 by default.

    Attributes
    ----------
    coef_, intercept_ : (n_features,) array, float
        Coefficients and intercept.
    dual_gap_ : float
        Duality gap, recomputed at `coef_`: an upper bound on the difference between the loss and its minimum.
    n_iter_, trace_, method_, active_set_ : int, Trace, str, ActiveSet or None
        Attributes `nit`, ``trace``, ``method`` and `active_set` of the `fwflow.Result` of the run.
    n_features_in_, feature_names_in_ : int, array
        Number of features and, if X has them, their names. `coefficients` returns the coefficients with these names.

    See Also
    --------
    L1RegressionCV : The radius is chosen by cross-validation.
    radius_path : Fits for many radii.
    L1Classifier : Classification.
    GroupRegression : Selects groups of features.
    fwflow.L1Ball : Set of the coefficients.

    Examples
    --------
    >>> import numpy as np
    >>> from fwflow.sklearn import L1Regression
    >>> X = np.random.default_rng(0).standard_normal((50, 20))
    >>> model = L1Regression(radius=2.0).fit(X, 2 * X[:, 3] + 1)
    >>> float(abs(model.coef_).sum()), model.dual_gap_ < 1e-8
    (2.0, True)

    Counts, with coefficients that must not be negative:

    >>> counts = np.random.default_rng(1).poisson(np.exp(X[:, 3] - X[:, 5] + 1))
    >>> model = L1Regression(radius=1.0, loss="poisson", positive=True).fit(X, counts)
    >>> model.coef_.min(), model.coef_.argmax(), model.predict(X).min() > 0
    (np.float64(0.0), np.int64(3), np.True_)
    """


@dataclass(eq=False, repr=False)
class SimplexRegression(FixedRadius, OverSimplex, LinearRegressor):
    r"""Linear regression with :math:`\beta \ge 0` and :math:`\sum_j \beta_j = r`: mixtures of features.

    Attributes that are not listed here are those of `L1Regression`.

    Parameters
    ----------
    radius : float
        Sum r of the non-negative coefficients; 1 by default.
    loss, rho, quantile : str, float or None, float
        Loss, by default "squared", and its parameters. "huber" is linear for residuals beyond ``rho``, by default 1.
        "quantile" predicts the quantile of that level, by default the median 0.5. It is quadratic on an interval of
        width ``rho``, by default a hundredth of the median distance of the targets from their median. "poisson" is for
        counts: predictions are their means, and `score` is the explained share of the deviance.
    fit_intercept, warm_start : bool
        Whether to fit an unconstrained intercept (True by default), and whether to start from the coefficients of the
        previous fit (False by default).
    method, max_iter : str, Tableau or Method, and int
        Method of `fwflow.minimize`, by default "auto", and its largest number of iterations, by default 10000.
    tol, rtol : float
        Stop when the duality gap is at most ``tol`` times the loss at zero coefficients, or ``rtol`` times the first
        gap; 1e-8 and 0 by default.

    Attributes
    ----------
    coef_, intercept_ : (n_features,) array, float
        Coefficients and intercept.
    dual_gap_ : float
        Duality gap at `coef_`: the loss is within this much of the optimum.

    See Also
    --------
    SimplexRegressionCV : The sum is chosen by cross-validation.
    L1Regression : Coefficients of both signs.
    fwflow.Simplex : Set of the coefficients.

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
    r"""Linear regression with :math:`\sum_G \|\beta_G\|_p \le r`: the group lasso as a constrained problem.

    Attributes that are not listed here are those of `L1Regression`.

    Parameters
    ----------
    radius : float
        Bound r on the sum of the norms of the groups; 1 by default.
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
        previous fit (False by default).
    method, max_iter : str, Tableau or Method, and int
        Method of `fwflow.minimize`, by default "auto", and its largest number of iterations, by default 10000.
    tol, rtol : float
        Stop when the duality gap is at most ``tol`` times the loss at zero coefficients, or ``rtol`` times the first
        gap; 1e-8 and 0 by default.

    Attributes
    ----------
    coef_, intercept_ : (n_features,) array, float
        Coefficients and intercept.
    dual_gap_ : float
        Duality gap at `coef_`: the loss is within this much of the optimum.
    groups_ : dict
        Features of each group, by their names if X has names.

    See Also
    --------
    GroupRegressionCV : The radius is chosen by cross-validation.
    GroupClassifier : Classification.
    fwflow.GroupBall : Set of the coefficients.

    Examples
    --------
    >>> import numpy as np
    >>> from fwflow.sklearn import GroupRegression
    >>> X = np.random.default_rng(0).standard_normal((50, 6))
    >>> model = GroupRegression(groups=[[0, 1, 2], [3, 4, 5]]).fit(X, X[:, 3] - X[:, 5])
    >>> np.flatnonzero(model.coef_), round(float(np.linalg.norm(model.coef_)), 6)
    (array([3, 4, 5]), 1.0)

    Groups with names; features of a data frame can be given by their names:

    >>> GroupRegression(groups={"place": [0, 1], "time": [3, 4, 5]}).fit(X, X[:, 3]).groups_
    {'place': [0, 1], 2: [2], 'time': [3, 4, 5]}
    """


@dataclass(eq=False, repr=False)
class L1Classifier(FixedRadius, OverL1Ball, LinearClassifier):
    r"""Logistic regression with :math:`\|\beta\|_1 \le r`.

    For more than two classes it is multinomial, and the bound holds for all coefficients together.

    Attributes that are not listed here are those of `L1Regression`.

    Parameters
    ----------
    radius : float
        Bound r on the l1 norm of all coefficients; 1 by default.
    positive : bool
        Whether the coefficients must not be negative, for two classes. False by default.
    class_weight : dict or "balanced", optional
        Weights of the classes in the loss; all one by default.
    fit_intercept, warm_start : bool
        Whether to fit an unconstrained intercept (True by default), and whether to start from the coefficients of the
        previous fit (False by default).
    method, max_iter : str, Tableau or Method, and int
        Method of `fwflow.minimize`, by default "auto", and its largest number of iterations, by default 10000.
    tol, rtol : float
        Stop when the duality gap is at most ``tol`` times the loss at zero coefficients, or ``rtol`` times the first
        gap; 1e-8 and 0 by default.

    Attributes
    ----------
    classes_ : (n_classes,) array
        Names of the classes.
    coef_, intercept_ : (1, n_features) and (1,) arrays, or (n_classes, n_features) and (n_classes,) arrays
        Coefficients and intercepts. For more than two classes, the intercepts sum to zero.
    dual_gap_ : float
        Duality gap at `coef_`: the loss is within this much of the optimum.

    See Also
    --------
    L1ClassifierCV : The radius is chosen by cross-validation.
    L1Regression : Regression.
    GroupClassifier : Selects groups of features.
    fwflow.L1Ball : Set of the coefficients.

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
    r"""Logistic regression with :math:`\sum_G \|\beta_G\|_p \le r`.

    A group contains the coefficients of its features for all classes.

    Attributes that are not listed here are those of `L1Regression`.

    Parameters
    ----------
    radius : float
        Bound r on the sum of the norms of the groups; 1 by default.
    groups : sequence or dict, optional
        Features of each group, or the group of each feature. By default each feature is a group. A dict maps names of
        groups to the names or numbers of their features; all other features are groups of their own.
    p : float
        Norm of a group; larger than 1, and may be infinite; 2 by default.
    class_weight : dict or "balanced", optional
        Weights of the classes in the loss; all one by default.
    fit_intercept, warm_start : bool
        Whether to fit an unconstrained intercept (True by default), and whether to start from the coefficients of the
        previous fit (False by default).
    method, max_iter : str, Tableau or Method, and int
        Method of `fwflow.minimize`, by default "auto", and its largest number of iterations, by default 10000.
    tol, rtol : float
        Stop when the duality gap is at most ``tol`` times the loss at zero coefficients, or ``rtol`` times the first
        gap; 1e-8 and 0 by default.

    Attributes
    ----------
    classes_ : (n_classes,) array
        Names of the classes.
    coef_, intercept_ : (1, n_features) and (1,) arrays, or (n_classes, n_features) and (n_classes,) arrays
        Coefficients and intercepts. For more than two classes, the intercepts sum to zero.
    dual_gap_ : float
        Duality gap at `coef_`: the loss is within this much of the optimum.
    groups_ : dict
        Features of each group, by their names if X has names.

    See Also
    --------
    GroupClassifierCV : The radius is chosen by cross-validation.
    GroupRegression : Regression.
    fwflow.GroupBall : Set of the coefficients.

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
