"""Fitted linear models with the names of their columns and the preparation of their tables, in files without code."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fwflow import _storage
from fwflow._numerics import dot
from fwflow._storage import storable
from fwflow._validation import Array, InputError
from fwflow.objectives.classes import class_probabilities
from fwflow.objectives.losses import losses
from fwflow.run.result import Result
from fwflow.run.selection import RULES
from fwflow.tables.frames import ArrowStream, Frame
from fwflow.tables.parts import numbers_of, unprepared
from fwflow.tables.preparation import Preparation

# Name of the class in files, and the version of its fields. Files of version 1 have the first fields, up to `written`,
# and those of version 2 also the preparation.
_KIND, _VERSION = "fitted-linear-model", 3
_VERSION_1 = (
    *("coefficients", "names", "intercept", "loss", "constraint", "target", "classes", "dropped", "data", "rows"),
    *("method", "message", "certified", "fun", "gap", "iterations", "passes", "seconds", "written"),
)
_VERSION_2 = (*_VERSION_1, "preparation")
# Fields of the scores in files of version 3 without the baseline.
_SCORES_1 = ("score", "rule", "folds", "seed", "groups", "radii", "means", "errors", "radius")
# Number of radii that an error message shows, chosen without tuning.
_RADII_SHOWN = 100


@storable("fitted-path", valid=lambda path: path._consistent)
@dataclass(frozen=True, eq=False)
class ModelPath:
    """Models of one table for increasing radii of the constraint set.

    Attributes
    ----------
    family : str
        Name of the set, such as ``l1``.
    radii : (m,) array
        Radii, in ascending order.
    coefficients, intercepts : (m, n) and (m,), or (m, k, n) and (m, k) arrays
        Coefficients and constant terms of the models; those of k > 2 classes have a row per class.
    funs, gaps : (m,) arrays
        Objectives and verified duality gaps.
    certified : (m,) array of bool
        Whether the gaps are within the tolerance.
    iterations, passes : (m,) arrays
        Iterations, and passes over the data.

    See Also
    --------
    FittedModel : Model with its path; the method ``at`` returns the model of another radius.
    fwflow.path : Computes a path.

    Examples
    --------
    >>> from fwflow.tables.problem import read_problem
    >>> problem = read_problem({"age": [30, 40, 50], "y": [1.0, 2.0, 4.0]}, "y")
    >>> path = problem.path("l1", radii=[0.5, 1.0])
    >>> path.radii.tolist(), path.coefficients.round(3).tolist()
    ([0.5, 1.0], [[0.5], [1.0]])
    """

    family: str
    radii: Array
    coefficients: Array
    intercepts: Array
    funs: Array
    gaps: Array
    certified: Array
    iterations: Array
    passes: Array

    @property
    def _consistent(self) -> bool:
        arrays = (
            self.coefficients,
            self.intercepts,
            self.funs,
            self.gaps,
            self.certified,
            self.iterations,
            self.passes,
        )
        return (
            self.radii.ndim == 1
            and len(self.radii) > 0
            and all(len(array) == len(self.radii) for array in arrays if array.ndim)
            and all(array.ndim == 1 for array in arrays[2:])
            and self.coefficients.shape[:-1] == self.intercepts.shape
            and self.coefficients.ndim in (2, 3)
            and self.certified.dtype == bool
            and all(array.dtype.kind == "f" for array in (self.radii, *arrays[:4]))
            and bool(np.isfinite(self.radii).all() and (self.radii > 0).all() and (np.diff(self.radii) > 0).all())
            and bool(np.isfinite(self.coefficients).all() and np.isfinite(self.intercepts).all())
        )

    @property
    def listed(self) -> str:
        """The radii as text."""
        shown = [f"{value:.6g}" for value in self.radii.tolist()]
        return ", ".join(shown[:_RADII_SHOWN]) + (", ..." if len(shown) > _RADII_SHOWN else "")

    def position(self, radius: float) -> int:
        """Return the position of a radius, which must be one of the radii to six significant digits."""
        asked = f"{radius:.6g}"
        shown = [f"{value:.6g}" for value in self.radii.tolist()]
        if asked not in shown:
            raise InputError(f"the path has no model of the radius {asked}; it has {self.listed}")
        return shown.index(asked)


@storable("held-out-scores-2", valid=lambda scores: scores._consistent)
@storable("held-out-scores", *_SCORES_1, valid=lambda scores: scores._consistent)
@dataclass(frozen=True, eq=False)
class HeldOut:
    """Scores of rows that were not used for the fit, from cross-validation.

    Attributes
    ----------
    score : str
        Name of the score: that of a loss such as ``squared loss``, for which less is better, or of a scorer of
        scikit-learn, for which more is better.
    rule : {"best", "1se"}
        Rule by which the radius was chosen.
    folds, seed : int, int
        Number of folds, and the seed of their random choice.
    groups : str
        Column of the groups that no fold divides; empty if there is none.
    radii, means, errors : (m,) arrays
        Radii, the mean score over the folds, and the standard error of this mean.
    radius : float
        Chosen radius.
    baseline : float
        Mean score of the model without columns, whose coefficients are all zero; NaN if it is not known.

    See Also
    --------
    fwflow.tables.selection.select : Cross-validation.
    FittedModel : Model with these scores.

    Examples
    --------
    >>> radii, means, errors = np.array([1.0, 2.0]), np.array([0.5, 0.25]), np.array([0.125, 0.125])
    >>> HeldOut("squared loss", "best", 5, 0, "", radii, means, errors, 2.0, baseline=2.5).text
    'squared loss 0.25 +- 0.12 (mean of 5 folds, standard error), 2.5 without columns'
    """

    score: str
    rule: str
    folds: int
    seed: int
    groups: str
    radii: Array
    means: Array
    errors: Array
    radius: float
    baseline: float = math.nan

    @property
    def _consistent(self) -> bool:
        arrays = (self.radii, self.means, self.errors)
        return (
            all(array.ndim == 1 and array.dtype.kind == "f" and len(array) == len(self.radii) for array in arrays)
            and bool((self.radii == self.radius).any())
            and self.rule in RULES
        )

    @property
    def place(self) -> int:
        """Position of the chosen radius."""
        return int((self.radii == self.radius).argmax())

    @property
    def text(self) -> str:
        """Score of the chosen radius, in words."""
        mean, error = self.means[self.place], self.errors[self.place]
        compared = "" if math.isnan(self.baseline) else f", {self.baseline:.6g} without columns"
        return f"{self.score} {mean:.6g} +- {error:.2g} (mean of {self.folds} folds, standard error){compared}"


class Coefficient(NamedTuple):
    """Row of the table of coefficients.

    Attributes
    ----------
    name : str
        Name of the column of the model, for example ``carrier=AA``.
    column, level : str
        Column of the table, and the level of a category; the level is empty for numbers.
    label : str
        Class that the coefficient belongs to, in models of more than two classes; else empty.
    standardised : float
        Change of the score for a change by one standard deviation; for a category, from other levels to this one. NaN
        if the model does not know the standard deviation, because the table was not prepared.
    original : float
        Change of the score for a change by one unit of the table.

    See Also
    --------
    FittedModel : Model whose method ``table`` returns these rows.
    fwflow.tables.preparation.Preparation : Origin of the columns of a model.

    Examples
    --------
    >>> Coefficient("carrier=AA", "carrier", "AA", "", 0.5, 0.5).level
    'AA'
    """

    name: str
    column: str
    level: str
    label: str
    standardised: float
    original: float


@storable(f"{_KIND}-{_VERSION}", valid=lambda model: model._consistent)
@storable(f"{_KIND}-2", *_VERSION_2, valid=lambda model: model._consistent)
@storable(_KIND, *_VERSION_1, valid=lambda model: model._consistent)
@dataclass(frozen=True, eq=False)
class FittedModel:
    """Linear model, the preparation of its table, and a description of the run that found it.

    Attributes
    ----------
    coefficients, names : (n,) or (k, n) array, tuple of n str
        Coefficients, and the names of their columns, all different. A model of k > 2 classes has a row per class.
    intercept : float or tuple of k float
        Constant term, or one per class; zero if none was fitted. It belongs to the prepared columns;
        `original_intercept` belongs to the columns of the table.
    loss, constraint : str
        A name in ``fwflow.objectives.losses.losses``, and the constraint set, such as ``l1:10``, perhaps with bounds,
        as in ``l1:10; age >= 0``.
    target : str
        Name of the predicted column; empty if it has none.
    classes : tuple of k str, or None
        For a loss of class labels, the classes. Of two classes, the first one has negative and the second one has
        positive scores.
    data, rows, dropped : str, int, tuple of str
        Path of the data file, its number of rows, and its columns that were left out.
    method, message, written : str
        Optimisation method, a sentence on how the run ended, and date and time of the run in ISO 8601.
    certified : bool
        Whether the duality gap, verified at the coefficients, is within the tolerance.
    fun, gap : float
        Objective and verified duality gap at the coefficients.
    iterations, passes, seconds : int, float, float
        Iterations, passes over the data, and time in seconds.
    preparation : Preparation or None
        Conversion of a table to the columns of the model, or None if the columns are those of the table.
    path : ModelPath or None
        Models for all radii, or None if only one was fitted. Without ``held_out``, the coefficients are those of the
        largest radius.
    held_out : HeldOut or None
        Scores of the cross-validation that chose the radius.

    See Also
    --------
    fwflow.tables.problem.read_problem : Objective of a data file; its result has a method that returns the model.
    fwflow.tables.preparation.Preparation : Conversion of a table to a matrix.
    fwflow.LinearModel : Objective of the fit.
    fwflow.sklearn.L1Regression : Estimator for scikit-learn.

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> X, y = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([3.0, 1.0])
    >>> result = fw.minimize(fw.LinearModel(X, y), fw.L1Ball(2.0))
    >>> model = FittedModel.of(result, ("age", "visits"), loss="squared", constraint="l1:2", rows=2)
    >>> model.largest(1), model.predict(X).round(3)
    ([('age', 2.0)], array([2., 0.]))

    Columns are found by name:

    >>> model.predict({"visits": [7.0], "age": [1.5]}).round(3)
    array([3.])
    """

    coefficients: Array
    names: tuple[str, ...]
    intercept: float | tuple[float, ...]
    loss: str
    constraint: str
    target: str
    classes: tuple[str, ...] | None
    dropped: tuple[str, ...]
    data: str
    rows: int
    method: str
    message: str
    certified: bool
    fun: float
    gap: float
    iterations: int
    passes: float
    seconds: float
    written: str
    preparation: Preparation | None = None
    path: ModelPath | None = None
    held_out: HeldOut | None = None

    @classmethod
    def of(
        cls, result: Result, names: Sequence[str], *, loss: str, constraint: str, rows: int, **more: Any
    ) -> FittedModel:
        """Return the model of a run, dated now. Further fields may be given by name."""
        defaults: dict[str, Any] = {"intercept": 0.0, "target": "", "classes": None, "dropped": (), "data": ""}
        return cls(
            coefficients=np.asarray(result.x).T,  # one row per class
            names=tuple(names),
            loss=loss,
            constraint=constraint,
            rows=rows,
            method=str(result.method),
            certified=bool(result.success),
            fun=float(result.fun),
            gap=float(result.gap),
            iterations=result.nit,
            passes=float(result.n_design),
            seconds=float(result.state.elapsed),
            written=datetime.now(UTC).isoformat(timespec="seconds"),
            **(defaults | {"message": result.message} | more),
        )

    @property
    def _consistent(self) -> bool:
        many = len(self.classes) if self.classes is not None and len(self.classes) > 2 else 0
        n = len(self.names)
        return (
            self.coefficients.shape == ((many, n) if many else (n,))
            and np.shape(self.intercept) == ((many,) if many else ())
            and len(set(self.names)) == n
            and self.coefficients.dtype.kind == "f"
            and bool(np.isfinite(self.coefficients).all() and np.isfinite(self.intercept).all())
            and self.loss in losses
            and losses[self.loss].labels == (self.classes is not None)
            and (self.classes is None or len(set(self.classes)) == len(self.classes) > 1)
            and (self.preparation is None or self.preparation.names == self.names)
            and (self.path is None or self.path.coefficients.shape[1:] == self.coefficients.shape)
        )

    def at(self, radius: float) -> FittedModel:
        """Return the model of one of the radii of the path.

        Parameters
        ----------
        radius : float
            One of the radii, to six significant digits; another number is an error that lists the radii.

        Returns
        -------
        FittedModel
            Model without a path.
        """
        if self.path is None:
            raise InputError(f"the model has no path; it was fitted with one set, {self.constraint}")
        i, path = self.path.position(radius), self.path
        bounds = self.constraint[self.constraint.find(";") :] if ";" in self.constraint else ""
        return replace(
            self,
            coefficients=path.coefficients[i],
            intercept=float(path.intercepts[i]) if path.intercepts.ndim == 1 else tuple(path.intercepts[i].tolist()),
            constraint=f"{path.family}:{path.radii[i]:.6g}{bounds}",
            fun=float(path.funs[i]),
            gap=float(path.gaps[i]),
            certified=bool(path.certified[i]),
            iterations=int(path.iterations[i]),
            passes=float(path.passes[i]),
            path=None,
            held_out=None,
        )

    @property
    def chosen(self) -> bool:
        """Whether the model has one radius, and is not a path of which none is chosen."""
        return self.path is None or self.held_out is not None

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the columns of a table that the model needs."""
        return self.names if self.preparation is None else self.preparation.inputs

    def scores(self, X: Any) -> Array:
        """Return the values of the linear function: one per row or, for more than two classes, one per row and class.

        Parameters
        ----------
        X : Frame, pandas or polars DataFrame, mapping of names to columns, or array
            Rows of a table. Columns are found by name; further columns are ignored. An array has the columns `inputs`,
            in this order.

        Returns
        -------
        (m,) or (m, k) array
            NaN for rows with missing cells, if the model was fitted to rows without missing cells.
        """
        scores = np.asarray(dot(self._matrix(X), self.coefficients.T) + np.asarray(self.intercept))
        if self.preparation is not None and self.preparation.missing == "drop":
            scores[~self.preparation.complete(X)] = np.nan
        return scores

    def _matrix(self, X: Any) -> Any:
        if self.preparation is not None:
            return self.preparation.apply(X)
        if not isinstance(X, Frame | Mapping | ArrowStream):
            return X
        return numbers_of(Frame.of(X), self.names)

    def predict(self, X: Any) -> Array:
        """Return the predicted numbers or classes. For two classes, a score of zero gives the first class.

        Numbers are the scores or, for the loss "poisson", their exponentials, which are the predicted means.

        Parameters
        ----------
        X : Frame, data frame, mapping of names to columns, or array
            Rows of a table, as in `scores`.

        Returns
        -------
        (m,) array
            Classes are text, and empty where the score is NaN.
        """
        scores = self.scores(X)
        if self.classes is None:
            return np.asarray(losses[self.loss]().mean(scores))
        best = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        predicted = np.array(self.classes, dtype=object)[best]
        predicted[np.isnan(scores.reshape(len(scores), -1)).any(axis=1)] = ""
        return predicted

    def probabilities(self, X: Any) -> Array:
        """Return the probabilities of the classes.

        Parameters
        ----------
        X : Frame, data frame, mapping of names to columns, or array
            Rows of a table, as in `scores`.

        Returns
        -------
        (m, k) array
            One column per class, in the order of `classes`.
        """
        if self.classes is None:
            raise InputError(f"a model of the {self.loss} loss has no classes, so it has no probabilities")
        return class_probabilities(self.scores(X))

    @property
    def nonzero(self) -> int:
        """Number of nonzero coefficients."""
        return int(np.count_nonzero(self.coefficients))

    @property
    def original_intercept(self) -> float | tuple[float, ...]:
        """Constant term, or one per class, in original units: the score of a row in which all numbers are zero."""
        if self.preparation is None:
            return self.intercept
        units = np.array([made.unit * made.centre for made in self.preparation.made])
        shifted = np.asarray(self.intercept) - dot(self.coefficients, units) + 0.0  # Adding zero turns -0.0 into 0.0.
        return float(shifted) if shifted.ndim == 0 else tuple(shifted.tolist())

    def largest(self, count: int) -> list[tuple[str, float]]:
        """Return names and values of the nonzero coefficients of largest absolute value.

        In models of more than two classes, the class is part of the name.
        """
        values = self.coefficients.reshape(-1)
        order = np.argsort(-np.abs(values), kind="stable")[: min(count, self.nonzero)]
        names = self.labelled_names
        return [(names[j], float(values[j])) for j in order]

    @property
    def labelled_names(self) -> tuple[str, ...]:
        """Names of all coefficients, row by row; in models of more than two classes, with the class."""
        return tuple(f"{label}: {name}" if label else name for label in self._labels for name in self.names)

    @property
    def _labels(self) -> tuple[str, ...]:
        return ("",) if self.classes is None or len(self.classes) == 2 else self.classes

    def table(self, count: int | None = None) -> list[Coefficient]:
        """Return all coefficients, or the nonzero ones that matter most, standardised and in original units.

        Parameters
        ----------
        count : int, optional
            Number of nonzero coefficients, of the largest standardised values. Default: all coefficients, in the order
            of the columns.

        Returns
        -------
        list of Coefficient
            Scores are the sum over the rows of ``original`` times the number in the table (for a level: 1 or 0), plus
            `original_intercept`.
        """
        made = unprepared(self.names) if self.preparation is None else self.preparation.made
        rows = [
            Coefficient(m.name, m.column, m.level, label, float(m.standard * c), float(m.unit * c))
            for label, row in zip(self._labels, np.atleast_2d(self.coefficients).tolist(), strict=True)
            for m, c in zip(made, row, strict=True)
        ]
        if count is None:
            return rows
        rows = [row for row in rows if row.original]
        return sorted(rows, key=lambda r: -abs(r.original if np.isnan(r.standardised) else r.standardised))[:count]

    def save(self, path: str | Path) -> None:
        """Write the model to an ``.npz`` file with a checksum. An error leaves an existing file unchanged."""
        _storage.save(self, path)

    @staticmethod
    def load(path: str | Path) -> FittedModel:
        """Read a model written by `save`; refuse other and damaged files. No code from the file is executed."""
        try:
            return _storage.load(path, FittedModel)
        except ValueError as error:
            newer = re.search(rf"the class '{_KIND}-(\d+)' is not registered", str(error.__cause__))
            if newer is None:
                raise InputError(f"{path} holds no model: {error.__cause__}") from error
            version = f"a model of format {newer[1]}, and this version of fwflow reads formats 1 to {_VERSION}"
            raise InputError(f"{path} holds {version}; update fwflow") from error
