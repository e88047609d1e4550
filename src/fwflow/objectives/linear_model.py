"""Linear models: losses of the predictions A x and the data b, for one target or several."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Self
from weakref import ref

import numpy as np
from numpy.typing import ArrayLike

from fwflow._numerics import dot
from fwflow._validation import Array, InputError, finite_array
from fwflow.designs import Design, TargetDesign, on_used_rows, width
from fwflow.objectives.base import Batch, FiniteSum, Objective
from fwflow.objectives.columns import LossOnColumns
from fwflow.objectives.image_based import DesignImage, DesignMap, LossOfImage, image_of
from fwflow.objectives.losses import Loss, find_loss
from fwflow.objectives.quadratic_models import stacked
from fwflow.objectives.restriction import KeptHessian, Restriction
from fwflow.objectives.screening import LazyGradient, Screen, is_worthwhile
from fwflow.points.point import Atom, Point

# Largest number of columns whose Hessian is kept along a path, least number of rows per column, and least number of
# rows: with fewer rows, a pass over the data costs little compared with a step on the model.
_MOST_KEPT, _ROWS_PER_COLUMN, _LEAST_ROWS = 400, 8, 1000


class LinearModel(DesignImage, LossOfImage):
    r"""Mean (or sum) of losses, :math:`f(x) = \frac1m \sum_i \ell(a_i^T x, b_i)`.

    Each point stores the product A x. A gradient therefore needs exactly one pass over A, and a line search needs no
    pass. If b is a matrix with one column per target, x is a matrix with one column per target, too, and f is the sum
    over the targets: :math:`f(X) = \frac1m \sum_i \sum_k \ell(a_i^T x_k, b_{ik})`. One pass over A then serves all
    targets.

    Parameters
    ----------
    A : (m, n) array, SciPy sparse matrix, Dask array, or Design
        Dense data is not copied. Sparse data is converted to CSC once if it has another format. Between two runs, you
        may change data in place if it was not copied. A Dask array stays with its workers, see
        `designs.Distributed`; `designs.open` opens files larger than memory.
    b : (m,) or (m, k) array_like
        Targets, labels -1 and +1 for the logistic loss, or counts for the Poisson loss. A vector is not copied. For the
        loss "softmax", the class of each row: numbers or texts. ``classes`` holds the classes in ascending order, and
        column j of x belongs to ``classes[j]``.
    loss : str or Loss
        A name in ``fwflow.objectives.losses.losses``, for example "squared" (the default) or "logistic", or an object.
        ``fwflow list losses`` prints all names. "softmax" is the multinomial logistic loss of two classes or more,
        :math:`\log \sum_k e^{z_k} - z_c` for a row of class c with the predictions z.
    scale : {"mean", "sum"}
        Whether f is the mean over the rows (the default) or the sum of the losses.
    rho : float
        Parameter of two losses, in units of b; 1 by default. "huber" is linear for residuals larger than rho.
        "quantile" is quadratic on an interval of width rho, which should be small compared with the residuals.
    quantile : float
        Level of the loss "quantile", strictly between 0 and 1; 0.5, the default, is the median.
    weights : (m,) array_like, optional
        Non-negative factors of the losses of the rows; the mean is then the weighted mean.
    intercept : bool
        Add a constant without constraints to A x, and minimise over it: :math:`f(x) = \min_c \sum_i \ell(a_i^T x + c,
        b_i)`; `intercept_at` returns c, or an array with one constant per target. False by default. Sparse data stays
        sparse. For matrices in memory, nearly constant columns are copied and centred, because rounding errors would be
        too large otherwise.

    See Also
    --------
    L1Ball : Set for sparse coefficients.
    GroupBall : Set for several targets with few nonzero rows.
    path : Solutions for many radii.
    fwflow.sklearn.L1Regression : Estimator for scikit-learn.
    fwflow.jax.LinearModel : The same on a GPU.

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> f = fw.LinearModel(np.eye(2), [1.0, 3.0], loss="squared", scale="sum")
    >>> f.value(f.point([0.0, 0.0]))
    5.0

    A constant added to all targets is added to the intercept:

    >>> f = fw.LinearModel(np.eye(2), [10.0, 12.0], intercept=True)
    >>> f.intercept_at(np.zeros(2))
    11.0

    The loss "poisson" fits the logarithms of the means of counts:

    >>> f = fw.LinearModel([[1.0], [2.0], [3.0]], [2, 7, 20], loss="poisson")
    >>> fw.minimize(f, fw.L1Ball(5.0)).x.round(2)
    array([0.99])

    Two targets that depend on the first column of A only (the multi-task lasso):

    >>> A = np.array([[1.0, 2.0], [2.0, -1.0], [-3.0, 0.0]])
    >>> f = fw.LinearModel(A, np.outer(A[:, 0], [3.0, 4.0]))
    >>> fw.minimize(f, fw.GroupBall([0, 0, 1, 1], 4.0)).x.round(2)
    array([[2.4, 3.2],
           [0. , 0. ]])

    Three classes, with one column of coefficients per class:

    >>> f = fw.LinearModel(A, ["red", "blue", "green"], loss="softmax")
    >>> f.classes.tolist(), fw.minimize(f, fw.NuclearBall(1.0)).x.shape
    (['blue', 'green', 'red'], (2, 3))
    """

    restrictable = True
    #: Classes of the loss "softmax" in ascending order. None for other losses.
    classes: Array | None = None

    _screen: Screen | None = None
    #: Design of the runs of a path, during which the data does not change.
    _path_design: Design | None = None

    def __init__(
        self,
        A: Any,
        b: ArrayLike,
        loss: str | Loss = "squared",
        *,
        scale: str = "mean",
        rho: float = 1.0,
        quantile: float = 0.5,
        weights: ArrayLike | None = None,
        intercept: bool = False,
    ) -> None:
        super().__init__(A)
        if isinstance(loss, str) and loss == "softmax":
            self.classes, b = _indicators(b)
        B = finite_array(b, "b", dtype=self.dtype)
        B = self._target(B, ndim=2 if B.ndim > 1 else 1)
        if B.ndim == 2:
            if not B.shape[1]:
                raise InputError(f"b must have one column per target; its shape is {B.shape}")
            self.targets, self.shape = B.shape[1], (*self.shape, B.shape[1])
            self.image_map = DesignMap(TargetDesign(self.design, self.targets))
            self.data_cost = self.design.data_cost
        self._set_losses(find_loss(loss, rho, quantile, self.targets), B.T.reshape(-1), scale, weights)
        self.intercept = bool(intercept)
        for one in self._by_target() if self.intercept else ():
            self.loss.check_intercept(one.b if one.weights is None else one.b[one.weights > 0])

    def _run_design(self) -> Design:
        if self._path_design is not None:
            return self._path_design
        return self.design.centred() if self.intercept else self.design

    def _settings(self) -> dict[str, Any]:
        settings = {"loss": self.loss, "scale": self.factor}
        plain = self.weights is None and not self.intercept
        return settings if plain else settings | {"weights": self.weights, "intercept": self.intercept}

    def intercept_at(self, x: Any) -> Any:
        """Return the optimal intercept at x, or zero for a model without one; for several targets, an array of them."""
        found = self._shift(image_of(self.point(x, "x"))) if self.intercept else 0.0
        return found if len(self.shape) == 1 else np.full(self.targets, found)

    def for_path(self) -> Self:
        rows, columns = self.design.shape
        if (
            self.kept is not None
            or self.design.data_cost.remote
            or columns > _MOST_KEPT
            or rows < max(_ROWS_PER_COLUMN * columns, _LEAST_ROWS)
        ):
            return self
        twin = copy.copy(self)
        twin.kept, twin._path_design = KeptHessian(), self._run_design()
        return twin

    def screened(self) -> Self:
        if not is_worthwhile(self.design):
            return self
        twin = copy.copy(self)
        twin._screen = Screen(self.design)
        return twin

    def precise(self) -> Objective:
        whole = super().precise()
        if self._screen is not None:
            whole = copy.copy(whole)
            whole._screen = None  # type: ignore[attr-defined]
        return whole

    def gradient(self, point: Point) -> Array | LazyGradient:
        return self._transposed(self.dual(point))

    def evaluated(self, point: Point) -> tuple[float, Any] | None:
        if not self.joint:
            return None
        value, dual = self.value_and_dual(point)
        return value, self._transposed(dual)

    def _transposed(self, dual: Array) -> Array | LazyGradient:
        """Return the product of the transposed design with a derivative in the image."""
        if self._screen is not None:
            return LazyGradient(dual, self.shape, ref(self._screen))
        g = np.array(self.design.rmatvec(dual), dtype=self.dtype)  # A design may return the same buffer again.
        g.setflags(write=False)
        return g.reshape(self.shape)

    def gradients(self, points: Sequence[Point]) -> Array | None:
        return self.design.rmatmat(np.stack([self.dual(point) for point in points]))

    def partial(self, point: Point, place: slice) -> Array | None:
        return self.design.some_columns(self.dual(point), np.arange(place.start, place.stop))

    def restricted(self, point: Point, places: Array | None) -> Restriction:
        if places is None:
            return LossOnColumns(self, self.design, counts=self.image_map.counts, kept=self.kept)
        B, rest = self.design.part(places), np.array(point.x).reshape(-1)
        v, rest[places] = rest[places], 0
        offset = rows = None
        if rest.any():
            offset = image_of(point) - np.asarray(B.matvec(v) if isinstance(B, Design) else dot(B, v))
        if not self.intercept:  # The losses of rows without entries in these columns are constant.
            B, rows = on_used_rows(B)
            offset = offset if rows is None or offset is None else offset[rows]
        share = width(B) / width(self.design)
        return LossOnColumns(self._on_rows(rows), B, offset, share, self.image_map.counts)

    def on_atoms(self, atoms: Sequence[Atom]) -> Restriction:
        return LossOnColumns(self, stacked([atom.image_vertex for atom in atoms]).T)

    @property
    def finite_sum(self) -> FiniteSum | None:
        # An intercept depends on all rows together.
        if self.intercept or self.design.some_rows(np.zeros(0, dtype=np.intp)) is None:
            return None
        return FiniteSum(len(self.b) // self.targets, self._batch)

    def _batch(self, rows: Array) -> Batch:
        count = len(self.b) // self.targets
        own, factor = (np.arange(self.targets)[:, None] * count + rows).reshape(-1), self.factor * count
        weighed = factor if self.weights is None else factor * self.weights[own]
        return Batch(self.design.some_rows(rows), self.b[own], weighed, self.loss)


def _indicators(labels: Any) -> tuple[Array, Array]:
    """Return the classes in ascending order, and a matrix with a column for each, in which a one marks its rows."""
    labels = np.asarray(labels)
    if labels.ndim != 1:
        raise InputError(f'b must hold one class per row for loss="softmax"; its shape is {labels.shape}')
    try:
        classes, codes = np.unique(labels, return_inverse=True)
    except TypeError:
        raise InputError('b must hold classes of one kind for loss="softmax", all numbers or all texts') from None
    if len(classes) < 2 or classes[-1:] != classes[-1:]:
        what = "NaN" if len(classes) and classes[-1:] != classes[-1:] else f"{classes.tolist()} only"
        raise InputError(f'b must hold two classes or more for loss="softmax"; it holds {what}')
    return classes, np.eye(len(classes))[codes]
