"""Recommendation: prediction of the missing ratings of a table by a matrix of small nuclear norm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted, validate_data

import fwflow as fw
from fwflow._numerics import dot
from fwflow._validation import Array, float_dtype, positive, whole
from fwflow.sklearn.linear import FixedRadius, Regressor, Samples, checked_weights

# Number of alternating updates of the row and column biases, chosen without tuning.
_SWEEPS = 30
# Residuals of at most this many units in the last place of the rating count as zero, because they are rounding errors
# of the biases. Chosen without tuning.
_ULPS = 16


@dataclass(eq=False, repr=False, kw_only=True)
class Completion(Regressor):
    """Matrix completion with biases of rows and columns, over nuclear-norm balls."""

    biases: bool = True
    damping: float = 5.0
    tol: float = 1e-4

    _set = fw.NuclearBall

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, **options: Any) -> Self:
        """Fit the model; `NuclearCompletionCV` first chooses the radius by cross-validation.

        Parameters
        ----------
        X : (n_observations, 2) array or data frame, or sparse matrix
            Name of the row and of the column of every observation, as numbers or text. If `y` is omitted, X is a sparse
            matrix whose stored entries are the observations. Observations of the same entry are averaged.
        y : (n_observations,) array
        sample_weight : (n_observations,) array, optional
        options
            For `NuclearCompletionCV` the ``groups`` of `L1RegressionCV`.
        """
        if sp.issparse(X):
            X, y = _observations(X) if y is None else (X.toarray(), y)
        return super().fit(X, y, sample_weight, **options)

    def _task(self, X: Any, y: Any, sample_weight: Any) -> Samples:
        """Return the indices of the distinct entries and their residuals after the biases."""
        self._check_parameters()
        if self.loss == "poisson":
            raise ValueError("loss='poisson' needs counts without biases subtracted; use MatrixCompletion")
        pairs, values = validate_data(self, X, y, dtype=None, y_numeric=True)
        if pairs.shape[1] != 2:
            raise ValueError(f"X has {pairs.shape[1]} features; the row and the column of each observation make 2")
        (self.row_ids_, rows), (self.col_ids_, cols) = (np.unique(c, return_inverse=True) for c in _columns(pairs))
        weights = checked_weights(sample_weight, len(rows))
        w = np.ones(len(rows)) if weights is None else weights
        values = np.asarray(values, dtype=float_dtype(values.dtype))
        n_cols = len(self.col_ids_)
        entries, which = np.unique(rows.astype(np.int64) * n_cols + cols, return_inverse=True)
        total = np.bincount(which, w)
        averages = np.bincount(which, w * values) / np.where(total > 0, total, 1.0)
        weighted = None if weights is None and len(entries) == len(rows) else total
        rows, cols = np.divmod(entries, n_cols)
        self._fit_biases(rows, cols, averages, total)
        base = self.mean_ + self.row_biases_[rows] + self.col_biases_[cols]
        residuals = (averages - base).astype(values.dtype)
        residuals[np.abs(residuals) <= _ULPS * np.finfo(values.dtype).eps * np.abs(averages)] = 0
        self._keep_smoothing(residuals, weighted)
        return Samples(np.column_stack([rows, cols]), residuals, weighted)

    def _fit_biases(self, rows: Array, cols: Array, values: Array, weights: Array) -> None:
        """Fit the mean, and the biases by ridge regression with alternating updates."""
        sizes = len(self.row_ids_), len(self.col_ids_)
        self.mean_ = float(np.average(values, weights=weights)) if self.fit_intercept else 0.0
        self.row_biases_, self.col_biases_ = np.zeros(sizes[0]), np.zeros(sizes[1])
        if not self.biases:
            return
        row_counts, col_counts = np.bincount(rows, weights, sizes[0]), np.bincount(cols, weights, sizes[1])
        r = values - self.mean_
        for _ in range(_SWEEPS):
            sums = np.bincount(rows, weights * (r - self.col_biases_[cols]), sizes[0])
            self.row_biases_ = sums / (self.damping + row_counts).clip(min=1e-300)
            sums = np.bincount(cols, weights * (r - self.row_biases_[rows]), sizes[1])
            self.col_biases_ = sums / (self.damping + col_counts).clip(min=1e-300)

    def _objective(self, task: Samples) -> fw.MatrixCompletion:
        shape = len(self.row_ids_), len(self.col_ids_)
        rows, cols = task.X.T
        return fw.MatrixCompletion(rows, cols, task.y, shape, self._loss(), scale="mean", weights=task.weights)

    def _keep(self, f: Any, x: fw.LowRank) -> None:
        self.U_, self.V_ = np.array(x.U), np.array(x.V)

    def _kept(self) -> fw.LowRank | None:
        U = vars(self).get("U_")
        return None if U is None or not U.shape[1] else fw.LowRank.from_factors(U, self.V_)

    def _rows(self, X: Any) -> tuple[Array, Array, Array, Array]:
        X = X.toarray() if sp.issparse(X) else X
        row_names, col_names = _columns(validate_data(self, X, reset=False, dtype=None))
        return *_places(row_names, self.row_ids_), *_places(col_names, self.col_ids_)

    def _scores(self, rows: tuple[Array, Array, Array, Array]) -> Array:
        places, old_rows, cols, old_cols = rows
        matrix = self._kept()
        products = np.zeros(len(places)) if matrix is None else matrix.entries(places, cols)
        biases = self.mean_ + old_rows * self.row_biases_[places] + old_cols * self.col_biases_[cols]
        return biases + old_rows * old_cols * products

    def predict(self, X: Any) -> Array:
        """Return the predictions for pairs of a row and a column."""
        return self._decision(X)

    def recommend(self, rows: Any, k: int = 10, exclude: Any = None) -> Array:
        """Return the k columns with the highest predictions for each row, best first.

        Parameters
        ----------
        rows : (n,) array
            Names of the rows.
        k : int
        exclude : (m, 2) array or sparse matrix, optional
            Pairs that are not recommended, for example rated ones; for a sparse matrix, its stored entries.

        Returns
        -------
        (n, j) array
            j is k, or the largest number of columns left in a row if that is smaller. A row with fewer than j columns
            left ends with None, and the array then has the type object.
        """
        check_is_fitted(self)
        k, rows = min(whole(k, "k", 1), len(self.col_ids_)), np.asarray(rows)
        if rows.ndim != 1:
            raise ValueError(f"rows must be one-dimensional; got shape {rows.shape}")
        places, known = _places(rows, self.row_ids_)
        scores = known[:, None] * dot(self.U_[places], self.V_.T) + self.col_biases_
        out = self._excluded(rows, exclude)
        left = np.count_nonzero(~out, axis=1)
        k = min(k, int(left.max(initial=0)))
        # Excluded columns are sorted to the end, whatever their scores.
        best = self.col_ids_[np.lexsort((-scores, out), axis=1)[:, :k]]
        missing = np.arange(k) >= left[:, None]
        if missing.any():
            best = best.astype(object)
            best[missing] = None
        return best

    def _excluded(self, rows: Array, exclude: Any) -> Array:
        """Return a mask of the columns that are not recommended, for each row."""
        out = np.zeros((len(rows), len(self.col_ids_)), dtype=bool)
        pairs = _observations(exclude)[0] if sp.issparse(exclude) else np.asarray([] if exclude is None else exclude)
        if not pairs.size:
            return out
        if pairs.ndim != 2 or pairs.shape[1] != 2:
            raise ValueError(f"exclude must hold pairs of a row and a column; got shape {pairs.shape}")
        out_rows, out_cols = _columns(pairs)
        cols, known = _places(out_cols, self.col_ids_)
        for mask, name in zip(out, rows, strict=True):
            mask[cols[(out_rows == name) & known]] = True
        return out


def _observations(table: Any) -> tuple[Array, Array]:
    """Return the stored entries of a sparse matrix as pairs of a row and a column, and their values."""
    entries = sp.coo_array(table)
    return np.column_stack(entries.coords), entries.data


def _columns(pairs: Array) -> tuple[Array, Array]:
    """Return both columns, as numbers where all entries of a column are numbers."""
    return tuple(np.array(column.tolist()) if column.dtype == object else column for column in pairs.T)  # type: ignore[return-value]


def _places(names: Array, ids: Array) -> tuple[Array, Array]:
    """Return the indices of names in the sorted ids, and whether each name is there."""
    places = np.searchsorted(ids, names).clip(max=len(ids) - 1)
    return places, ids[places] == names


@dataclass(eq=False, repr=False)
class NuclearCompletion(Completion, FixedRadius):
    r"""Prediction of entries by a mean, biases of rows and columns, and a matrix with :math:`\|M\|_* \le r`.

    It is a recommender system: a matrix factorisation of low rank that is found by a convex problem. Attributes that
    are not listed here are those of `L1Regression`.

    Parameters
    ----------
    radius : float
        Bound r on the nuclear norm of the matrix; 1 by default.
    biases, damping : bool, float
        Whether to fit biases of rows and columns before the matrix (True by default), and the ridge penalty on them:
        ``damping``, by default 5, acts like as many additional observations with bias zero.
    loss, rho, quantile : str, float or None, float
        Loss, by default "squared", and its parameters. "huber" is linear for residuals beyond ``rho``, by default 1.
        "quantile" predicts the quantile of that level, by default the median 0.5. It is quadratic on an interval of
        width ``rho``, by default a hundredth of the median distance of the residuals from their median.
    fit_intercept, warm_start : bool
        Whether to fit the mean (True by default), and whether to start from the matrix of the previous fit (False by
        default).
    method, max_iter : str, Tableau or Method, and int
        Method of `fwflow.minimize`, by default "auto", and its largest number of iterations, by default 10000.
    tol, rtol : float
        Stop when the duality gap is at most ``tol`` times the loss at a zero matrix, or ``rtol`` times the first gap;
        1e-4 and 0 by default.

    Attributes
    ----------
    U_, V_ : arrays
        Factors of the matrix ``U_ @ V_.T``, with one row for each of `row_ids_` and `col_ids_`.
    row_ids_, col_ids_ : arrays
        Names of the rows and columns. Predictions for other names use the mean and the known bias.
    mean_, row_biases_, col_biases_ : float, arrays
        Mean of the observations, and biases of the rows and columns.

    See Also
    --------
    NuclearCompletionCV : The radius is chosen by cross-validation.
    fwflow.MatrixCompletion : Objective without biases.
    fwflow.NuclearBall : Set of the matrices.

    Examples
    --------
    >>> import numpy as np
    >>> from fwflow.sklearn import NuclearCompletion
    >>> pairs = np.array([[u, i] for u in range(8) for i in range(6) if (u + i) % 3])
    >>> ratings = 3 + (pairs[:, 0] % 2 - 0.5) * (pairs[:, 1] % 2 - 0.5)
    >>> model = NuclearCompletion(radius=2.0).fit(pairs, ratings)
    >>> model.predict([[0, 0], [1, 0], [99, 0]]).round(1)
    array([3.1, 2.8, 3. ])
    >>> model.recommend([0], k=2)
    array([[2, 4]])
    """

    def _earlier(self, task: Samples) -> Any:
        x, radius = super()._earlier(task), positive(self.radius, "radius")
        return None if x is None else x * min(1.0, (1 - 1e-9) * radius / float(x.singular_values().sum()))
