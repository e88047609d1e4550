"""Recommendation: a table of ratings of which a few are known, completed by a matrix of small nuclear norm."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

import fwflow as fw
from fwflow._numerics import dot
from fwflow._validation import Array, positive, whole
from fwflow.sklearn.linear import BallEstimator, Samples, checked_weights, documented, regression_loss

# Sweeps over the biases, each of which shrinks the error by a large factor.
_SWEEPS = 30
# Residuals of at most this many units in the last place of what they are left of are rounding.
_ULPS = 16


@documented
class NuclearCompletion(RegressorMixin, BallEstimator):
    r"""Predict the entries of a table as a mean, biases of rows and columns, and a matrix with :math:`\|M\|_* \le r`.

    Parameters
    ----------
    radius : float
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
    {attributes}

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

    def __init__(
        self,
        radius: float = 1.0,
        *,
        loss: str = "squared",
        rho: float = 1.0,
        biases: bool = True,
        damping: float = 5.0,
        fit_intercept: bool = True,
        method: Any = "auto",
        tol: float = 1e-4,
        rtol: float = 0.0,
        max_iter: int = 10_000,
        warm_start: bool = False,
    ) -> None:
        self.radius = radius
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
        """Fit the model.

        Parameters
        ----------
        X : (n_observations, 2) array or data frame, or sparse matrix
            What the row and the column of every observation are called, by numbers or text. Of a sparse matrix the
            stored entries are the observations, and `y` is left out. Observations of the same entry are averaged.
        y : (n_observations,) array
        sample_weight : (n_observations,) array, optional
        """
        return super().fit(X, y, sample_weight)

    def _task(self, X: Any, y: Any, sample_weight: Any) -> Samples:
        """Places of distinct entries, with the biases fitted and taken away."""
        self._check_parameters()
        if sp.issparse(X) and y is None:
            X, y = observations(X)
        pairs, values = validate_data(self, X, y, dtype=None, y_numeric=True)
        if pairs.shape[1] != 2:
            raise ValueError(f"X has {pairs.shape[1]} features; the row and the column of each observation make 2")
        named = [np.unique(column, return_inverse=True) for column in _columns(pairs)]
        (self.row_ids_, rows), (self.col_ids_, cols) = named
        places = np.column_stack([rows, cols])
        weights = checked_weights(sample_weight, len(places))
        w = np.ones(len(places)) if weights is None else weights
        values = np.asarray(values, dtype=np.float32 if values.dtype == np.float32 else np.float64)
        keys, first, which = np.unique(
            places[:, 0].astype(np.int64) * len(self.col_ids_) + places[:, 1], return_index=True, return_inverse=True
        )
        total = np.bincount(which, w)
        averages = np.bincount(which, w * values) / np.where(total > 0, total, 1.0)
        self._fit_biases(places[first], averages, total)
        residuals = (averages - self._base(*places[first].T)).astype(values.dtype)
        # Biases that explain an entry leave its rounding, which is not worth a fit.
        residuals[np.abs(residuals) <= _ULPS * np.finfo(values.dtype).eps * np.abs(averages)] = 0
        weighted = None if weights is None and len(keys) == len(places) else total
        return Samples(places[first], residuals, weighted)

    def _fit_biases(self, places: Array, values: Array, weights: Array) -> None:
        """Ridge regression on the names of rows and columns, by alternating sweeps."""
        rows, cols = places.T
        sizes = len(self.row_ids_), len(self.col_ids_)
        self.mean_ = float(np.average(values, weights=weights)) if self.fit_intercept else 0.0
        self.row_biases_, self.col_biases_ = np.zeros(sizes[0]), np.zeros(sizes[1])
        if not self.biases:
            return
        counts = [np.bincount(place, weights, size) for place, size in ((rows, sizes[0]), (cols, sizes[1]))]
        r = values - self.mean_
        for _ in range(_SWEEPS):
            found = np.bincount(rows, weights * (r - self.col_biases_[cols]), sizes[0])
            self.row_biases_ = found / (self.damping + counts[0]).clip(min=1e-300)
            found = np.bincount(cols, weights * (r - self.row_biases_[rows]), sizes[1])
            self.col_biases_ = found / (self.damping + counts[1]).clip(min=1e-300)

    def _base(self, rows: Array, cols: Array) -> Array:
        return self.mean_ + self.row_biases_[rows] + self.col_biases_[cols]

    def _objective(self, task: Samples) -> fw.MatrixCompletion:
        shape = len(self.row_ids_), len(self.col_ids_)
        loss = regression_loss(self.loss, self.rho)
        rows, cols = task.X.T
        return fw.MatrixCompletion(rows, cols, task.y, shape, loss, scale="mean", weights=task.weights)

    def _ball(self, radius: float, shape: tuple[int, ...]) -> fw.NuclearBall:
        return fw.NuclearBall(radius)

    def _keep(self, f: Any, x: fw.LowRank) -> None:
        self.U_, self.V_ = np.array(x.U), np.array(x.V)

    def _kept(self) -> fw.LowRank | None:
        U = vars(self).get("U_")
        return None if U is None or not U.shape[1] else fw.LowRank.from_factors(U, self.V_)

    def _earlier(self, task: Samples) -> Any:
        x, radius = super()._earlier(task), positive(self.radius, "radius")
        return None if x is None else x * min(1.0, (1 - 1e-9) * radius / float(x.singular_values().sum()))

    def _losses(self, X: Any, y: Array) -> Array:
        values = regression_loss(self.loss, self.rho).values(self.predict(X), y)
        assert values is not None
        return values

    def predict(self, X: Any) -> Array:
        """The entries at pairs of a row and a column."""
        check_is_fitted(self)
        pairs = validate_data(self, X, reset=False, dtype=None)
        (rows, old), (cols, seen) = (
            _places(column, ids) for column, ids in zip(_columns(pairs), (self.row_ids_, self.col_ids_), strict=True)
        )
        matrix = fw.LowRank.from_factors(self.U_, self.V_) if self.U_.shape[1] else None
        products = np.zeros(len(rows)) if matrix is None else matrix.entries(rows, cols)
        return self.mean_ + old * self.row_biases_[rows] + seen * self.col_biases_[cols] + old * seen * products

    def recommend(self, rows: Any, k: int = 10, exclude: Any = None) -> Array:
        """The k columns with the highest predictions for each row, best first.

        Parameters
        ----------
        rows : (n,) array
            What the rows are called.
        k : int
        exclude : (m, 2) array or sparse matrix, optional
            Pairs not to recommend, such as those that were rated. Of a sparse matrix these are the stored entries.

        Returns
        -------
        (n, j) array
            j is k, or less where no row has as many columns left. A row with fewer than j columns left ends with None,
            and the array is then one of objects.
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
        # Columns that are out come last, whatever the score of the others.
        best = self.col_ids_[np.lexsort((-scores, out), axis=1)[:, :k]]
        missing = np.arange(k) >= left[:, None]
        if missing.any():
            best = best.astype(object)
            best[missing] = None
        return best

    def _excluded(self, rows: Array, exclude: Any) -> Array:
        """Which columns are not to be recommended, for each row."""
        out = np.zeros((len(rows), len(self.col_ids_)), dtype=bool)
        pairs = observations(exclude)[0] if sp.issparse(exclude) else np.asarray([] if exclude is None else exclude)
        if not pairs.size:
            return out
        if pairs.ndim != 2 or pairs.shape[1] != 2:
            raise ValueError(f"exclude must hold pairs of a row and a column; got shape {pairs.shape}")
        out_rows, out_cols = _columns(pairs)
        cols, seen = _places(out_cols, self.col_ids_)
        for own, name in zip(out, rows, strict=True):
            own[cols[(out_rows == name) & seen]] = True
        return out


def observations(table: Any) -> tuple[Array, Array]:
    """The stored entries of a sparse matrix, as pairs of a row and a column, and their values."""
    entries = sp.coo_array(table)
    return np.column_stack(entries.coords), entries.data


def _columns(pairs: Array) -> tuple[Array, Array]:
    """Both columns, as numbers where all entries are."""
    return tuple(np.array(column.tolist()) if column.dtype == object else column for column in pairs.T)  # type: ignore[return-value]


def _places(names: Array, ids: Array) -> tuple[Array, Array]:
    """Where names stand among the sorted ids, and whether they do."""
    places = np.searchsorted(ids, names).clip(max=len(ids) - 1)
    return places, ids[places] == names
