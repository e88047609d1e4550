"""Fitted linear models with the names of their columns, in files of arrays and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from fwflow import _storage
from fwflow._numerics import dot
from fwflow._storage import storable
from fwflow._validation import Array, InputError
from fwflow.objectives.losses import losses
from fwflow.run.result import Result


@storable("fitted-linear-model", valid=lambda model: model._consistent)
@dataclass(frozen=True, eq=False)
class FittedModel:
    """Linear model, and a description of the run that found it.

    Attributes
    ----------
    coefficients, names : (n,) array, tuple of str
        Coefficients, and the names of their columns, all different.
    intercept : float
        Constant term; zero if none was fitted.
    loss, constraint : str
        A name in ``fwflow.objectives.losses.losses``, and the constraint set, such as ``l1:10``.
    target : str
        Name of the predicted column; empty if it has none.
    classes : tuple of two str, or None
        For a loss of class labels, the classes of a negative and of a positive score.
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

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> X, y = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([3.0, 1.0])
    >>> result = fw.minimize(fw.LinearModel(X, y), fw.L1Ball(2.0))
    >>> model = FittedModel.of(result, ("age", "visits"), loss="squared", constraint="l1:2", rows=2)
    >>> model.largest(1), model.predict(X).round(3)
    ([('age', 2.0)], array([2., 0.]))
    """

    coefficients: Array
    names: tuple[str, ...]
    intercept: float
    loss: str
    constraint: str
    target: str
    classes: tuple[str, str] | None
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

    @classmethod
    def of(
        cls, result: Result, names: Sequence[str], *, loss: str, constraint: str, rows: int, **more: Any
    ) -> FittedModel:
        """Return the model of a run, dated now. Further fields may be given by name."""
        defaults: dict[str, Any] = {"intercept": 0.0, "target": "", "classes": None, "dropped": (), "data": ""}
        return cls(
            coefficients=np.asarray(result.x),
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
        return (
            self.coefficients.shape == (len(self.names),)
            and len(set(self.names)) == len(self.names)
            and self.coefficients.dtype.kind == "f"
            and bool(np.isfinite(self.coefficients).all() and np.isfinite(self.intercept))
            and self.loss in losses
            and losses[self.loss].labels == (self.classes is not None)
        )

    def scores(self, X: Any) -> Array:
        """Return ``X @ coefficients + intercept``."""
        return np.asarray(dot(X, self.coefficients) + self.intercept)

    def predict(self, X: Any) -> Array:
        """Return the scores or, for a loss of class labels, the classes. A score of zero gives the first class."""
        scores = self.scores(X)
        return scores if self.classes is None else np.array(self.classes, dtype=object)[(scores > 0).astype(int)]

    def probabilities(self, X: Any) -> Array:
        """Return the probabilities of the second class under the logistic loss."""
        z = self.scores(X)
        e = np.exp(-np.abs(z))
        return np.where(z >= 0, 1.0, e) / (1 + e)

    @property
    def nonzero(self) -> int:
        """Number of nonzero coefficients."""
        return int(np.count_nonzero(self.coefficients))

    def largest(self, count: int) -> list[tuple[str, float]]:
        """Return names and values of the nonzero coefficients of largest absolute value."""
        order = np.argsort(-np.abs(self.coefficients), kind="stable")[: min(count, self.nonzero)]
        return [(self.names[j], float(self.coefficients[j])) for j in order]

    def save(self, path: str | Path) -> None:
        """Write the model to an ``.npz`` file with a checksum. An error leaves an existing file unchanged."""
        _storage.save(self, path)

    @staticmethod
    def load(path: str | Path) -> FittedModel:
        """Read a model written by `save`; refuse other and damaged files. No code from the file is executed."""
        try:
            return _storage.load(path, FittedModel)
        except ValueError as error:
            raise InputError(f"{path} holds no model: {error.__cause__}") from error
