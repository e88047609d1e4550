"""Losses of linear models and matrix completion. A new loss is one class and one entry in `losses`.

The array functions come from the library of z, so that `fwflow.jax` uses the same classes.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from fwflow._numerics import namespace, quiet
from fwflow._validation import Array, InputError, check_number, find, ours, positive


class Loss(ABC):
    """Convex, smooth function of the prediction ``z`` and the datum ``b``, entry by entry.

    A new loss needs `value`, `derivative`, `second` and `curvature`; the other members are optional.

    See Also
    --------
    LinearModel : Takes a loss by name or as an object.
    MatrixCompletion : Losses of observed entries.
    """

    #: Upper bound on the second derivative; infinite if there is none.
    curvature: float
    #: Number k with ``second(z + t) <= exp(k |t|) second(z)``, for an infinite `curvature`. None: unknown.
    growth: float | None = None
    #: Whether the second derivative is constant, so that line searches have a closed form.
    quadratic: bool = False
    #: Whether the data are class labels -1 and +1 instead of numbers.
    labels: bool = False
    #: Whether no value is below zero, which bounds what a larger set can gain.
    nonnegative: bool = False
    #: Whether the loss of a row depends on the predictions of all targets together. With the second derivatives s of a
    #: row, its Hessian is then ``diag(s) - s s' / sum(s)``, so that a number added to all predictions changes nothing.
    coupled: bool = False

    @property
    def trusted(self) -> bool:
        """Whether the derivatives are known to be those of the values. If not, a run compares both."""
        return ours(self)

    def check(self, b: Array) -> None:
        """Raise ValueError if the data are invalid for this loss."""
        return

    def on(self, entries: Any) -> Loss:
        """Return the loss of some entries of z; by default all entries have the same."""
        return self

    @abstractmethod
    def value(self, z: Array, b: Array) -> float:
        """Return the sum of the losses of all entries."""

    @abstractmethod
    def derivative(self, z: Array, b: Array) -> Array:
        """Return the first derivative in z, entry by entry."""

    @abstractmethod
    def second(self, z: Array, b: Array) -> Array:
        """Return the second derivative in z, entry by entry."""

    def value_and_derivative(self, z: Array, b: Array) -> tuple[float, Array]:
        """Return `value` and `derivative`. A loss that overrides it computes common terms once, with equal results."""
        return self.value(z, b), self.derivative(z, b)

    def values(self, z: Array, b: Array) -> Array | None:
        """Return the loss entry by entry, which weights need, or None."""
        return None

    def check_intercept(self, b: Array) -> None:
        """Raise ValueError if the optimal intercept for the data is infinite."""
        return

    def best_shift(self, z: Array, b: Array, weights: Array | None) -> float | None:
        """Return the number that minimises the sum of the losses when it is added to z, or None if no formula is known.

        The weights are not negative, and not all zero; None stands for ones.
        """
        return None

    def inside(self, z: Array) -> Array | None:
        """Return entry by entry whether the loss can be computed, or None if it can be computed everywhere."""
        return None

    def terms(self, z: Array, b: Array) -> Array:
        """Return the moduli of the terms of the derivative, entry by entry: its rounding error in units of epsilon."""
        return self.curvature * (abs(z) + abs(b))

    def mean(self, z: Array) -> Array:
        """Return the predicted targets for linear predictions z."""
        return z


class EntrywiseLoss(Loss):
    """Loss that is defined by its values entry by entry."""

    @abstractmethod
    def values(self, z: Array, b: Array) -> Array:
        """Return the loss entry by entry."""

    def value(self, z: Array, b: Array) -> float:
        return float(self.values(z, b).sum())


@dataclass(frozen=True)
class Squared(EntrywiseLoss):
    r"""Squared loss :math:`(z - b)^2 / 2`."""

    curvature = 1.0
    quadratic = True
    nonnegative = True

    def values(self, z: Array, b: Array) -> Array:
        return 0.5 * (z - b) ** 2

    def derivative(self, z: Array, b: Array) -> Array:
        return z - b

    def value_and_derivative(self, z: Array, b: Array) -> tuple[float, Array]:
        r = z - b
        return 0.5 * float((r * r).sum()), r

    def second(self, z: Array, b: Array) -> Array:
        return namespace(z).ones_like(z)


@dataclass(frozen=True)
class Logistic(EntrywiseLoss):
    r"""Logistic loss :math:`\log(1 + e^{-b z})` with labels b in {-1, +1}."""

    curvature = 0.25
    labels = True
    nonnegative = True

    def check(self, b: Array) -> None:
        if not np.isin(b, (-1, 1)).all():
            raise InputError(f"b must hold labels -1 and +1 for the logistic loss; it holds {np.unique(b)[:4]}")

    def check_intercept(self, b: Array) -> None:
        if (b == b[0]).all():
            raise InputError(f"b holds the label {b[0]:g} only, so the optimal intercept is infinite")

    def values(self, z: Array, b: Array) -> Array:
        xp = namespace(z)
        return xp.log1p(xp.exp(-xp.abs(z))) - xp.minimum(b * z, 0.0)

    def value(self, z: Array, b: Array) -> float:
        return self._sum(_exp(b * z), z, b)

    def derivative(self, z: Array, b: Array) -> Array:
        return b / (-1.0 - _exp(b * z))

    def value_and_derivative(self, z: Array, b: Array) -> tuple[float, Array]:
        e = _exp(b * z)
        return self._sum(e, z, b), b / (-1.0 - e)

    def _sum(self, e: Array, z: Array, b: Array) -> float:
        """Return the sum of log(1 + 1/e), or of `values`, which take longer, if 1/e overflows."""
        total = float(quiet(_log1p_inverse, e).sum())
        return total if total < math.inf else float(self.values(z, b).sum())

    def second(self, z: Array, b: Array) -> Array:
        xp = namespace(z)
        e = xp.exp(-xp.abs(z))
        return e / (1 + e) ** 2


def _exp(bz: Array) -> Array:
    """Return the exponential, which may be infinite. JAX gets a finite one, because it differentiates by b."""
    if type(bz) is np.ndarray:
        return quiet(np.exp, bz)
    xp = namespace(bz)
    return xp.exp(xp.minimum(bz, 88.0 if bz.dtype == np.float32 else 709.0))


def _log1p_inverse(e: Array) -> Array:
    return np.log1p(1.0 / e)


@dataclass(frozen=True)
class Huber(EntrywiseLoss):
    r"""Huber loss: :math:`r^2/2` for :math:`|r| \le \rho`, else :math:`\rho (|r| - \rho/2)`; :math:`r = z - b`."""

    rho: float = 1.0
    curvature = 1.0
    nonnegative = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "rho", positive(self.rho, "rho"))

    def values(self, z: Array, b: Array) -> Array:
        r = z - b
        inside = r.clip(-self.rho, self.rho)
        return inside * (r - 0.5 * inside)

    def derivative(self, z: Array, b: Array) -> Array:
        return (z - b).clip(-self.rho, self.rho)

    def value_and_derivative(self, z: Array, b: Array) -> tuple[float, Array]:
        r = z - b
        inside = r.clip(-self.rho, self.rho)
        return float((inside * (r - 0.5 * inside)).sum()), inside

    def second(self, z: Array, b: Array) -> Array:
        return (abs(z - b) <= self.rho).astype(z.dtype)


@dataclass(frozen=True)
class Quantile(EntrywiseLoss):
    r"""Smoothed pinball loss of the level q: :math:`\max(-q r, (1 - q) r)`, quadratic on an interval of width rho.

    With :math:`r = z - b` it is :math:`r^2 / (2\rho)` for :math:`-q\rho \le r \le (1 - q)\rho`, and linear elsewhere.
    It is the Moreau envelope of the pinball loss, and differs from it by at most :math:`\rho \max(q, 1 - q)^2 / 2`.
    """

    rho: float = 1.0
    quantile: float = 0.5
    nonnegative = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "rho", positive(self.rho, "rho"))
        check_number(self, "quantile", "lie strictly between 0 and 1", lambda q: 0 < q < 1)

    @property
    def curvature(self) -> float:  # type: ignore[override]
        return 1.0 / self.rho

    def values(self, z: Array, b: Array) -> Array:
        slopes = self.derivative(z, b)
        return slopes * (z - b - 0.5 * self.rho * slopes)

    def derivative(self, z: Array, b: Array) -> Array:
        return ((z - b) / self.rho).clip(-self.quantile, 1.0 - self.quantile)

    def value_and_derivative(self, z: Array, b: Array) -> tuple[float, Array]:
        r = z - b
        slopes = (r / self.rho).clip(-self.quantile, 1.0 - self.quantile)
        return float((slopes * (r - 0.5 * self.rho * slopes)).sum()), slopes

    def second(self, z: Array, b: Array) -> Array:
        r = (z - b) / self.rho
        return ((-self.quantile <= r) & (r <= 1.0 - self.quantile)).astype(z.dtype) / self.rho


@dataclass(frozen=True)
class Poisson(EntrywiseLoss):
    r"""Poisson loss with log link, :math:`e^z - b z`, for counts :math:`b \ge 0`; :math:`e^z` is the mean.

    The constant :math:`b \log b - b` is added, so that the smallest loss of a count is zero: the loss is half of its
    deviance. Predictions of more than about 354 (44 in single precision), with means beyond 1e153 (1e19), are outside
    of the domain: steps end before them.
    """

    curvature = math.inf
    growth = 1.0
    nonnegative = True

    def check(self, b: Array) -> None:
        if not (b >= 0).all():
            raise InputError(f"b must hold counts, at least 0, for the Poisson loss; the smallest is {b.min():g}")
        most = math.exp(_log_limit(b))
        if not (b <= most).all():
            raise InputError(
                f"b must be at most {most:.0e} for the Poisson loss in {b.dtype.name}; the largest count is "
                f"{b.max():g}, so divide all counts by a number"
            )

    def check_intercept(self, b: Array) -> None:
        if not b.any():
            raise InputError("b holds no count above 0, so the optimal intercept is minus infinity")

    def values(self, z: Array, b: Array) -> Array:
        return quiet(self._values, z, b) if type(z) is np.ndarray else self._values(z, b)

    def _values(self, z: Array, b: Array) -> Array:
        xp = namespace(z)
        z, few = xp.minimum(z, _log_limit(z)), b < 1
        # Close to the mean of a large count, the terms of e^z - b z nearly cancel.
        d = z - xp.log(xp.where(b > 0, b, 1.0))
        return xp.where(few, xp.exp(z) - b - b * d, b * (xp.expm1(xp.where(few, 0.0, d)) - d))

    def derivative(self, z: Array, b: Array) -> Array:
        return self.mean(z) - b

    def second(self, z: Array, b: Array) -> Array:
        return self.mean(z)

    def best_shift(self, z: Array, b: Array, weights: Array | None) -> float:
        if weights is not None:
            used = weights > 0
            z, b, weights = z[used], b[used], weights[used].astype(np.float64)
        highest = float(z.max())
        terms, counts = np.exp(z - highest), b.astype(np.float64)
        if weights is not None:
            terms, counts = weights * terms, weights * counts
        return math.log(counts.sum()) - math.log(terms.sum()) - highest

    def inside(self, z: Array) -> Array:
        return z <= _log_limit(z)

    def terms(self, z: Array, b: Array) -> Array:
        return self.mean(z) * (1.0 + abs(z)) + b

    def mean(self, z: Array) -> Array:
        xp = namespace(z)
        return xp.exp(xp.minimum(z, _log_limit(z)))


def _log_limit(z: Array) -> float:
    """Return half of the logarithm of the largest number: products of exponentials with data do not overflow."""
    return 44.0 if z.dtype == np.float32 else 354.0


@dataclass(frozen=True)
class Softmax(Loss):
    r"""Multinomial logistic loss :math:`\log \sum_k e^{z_k} - z_c` of the class c, for `LinearModel` only.

    The predictions z of one class follow those of another, and b holds ones for the class of each row, else zeros.
    """

    classes: int
    curvature = 0.5
    labels = True
    nonnegative = True
    coupled = True

    def check(self, b: Array) -> None:
        if len(b) % self.classes or {*np.unique(b)} != {0, 1} or (b.reshape(self.classes, -1).sum(axis=0) != 1).any():
            raise InputError('the multinomial loss needs classes: LinearModel(A, classes, loss="softmax")')

    def check_intercept(self, b: Array) -> None:
        if not b.any():
            raise InputError("a class has no row with a positive weight, so its optimal intercept is minus infinity")

    def _of_rows(self, z: Array) -> tuple[Array, Array]:
        """Return the predictions less their maxima, and the exponentials of these, row by row."""
        Z = z.reshape(self.classes, -1)
        Z = Z - Z.max(axis=0)
        return Z, np.exp(Z)

    def values(self, z: Array, b: Array) -> Array:
        Z, E = self._of_rows(z)
        own = b.reshape(Z.shape)
        # Losses near zero would be lost in a logarithm of numbers near one.
        total = np.log1p(np.where(own > 0, np.expm1(Z), E).sum(axis=0))
        return np.asarray((own * (total - Z)).reshape(-1))

    def value(self, z: Array, b: Array) -> float:
        return float(self.values(z, b).sum())

    def derivative(self, z: Array, b: Array) -> Array:
        own = b.reshape(self.classes, -1)
        others = (1 - own) * self.second(z, b).reshape(own.shape)
        # One minus a probability near one would be imprecise.
        return np.asarray((others - own * others.sum(axis=0)).reshape(-1))

    def second(self, z: Array, b: Array) -> Array:
        """Return the probabilities."""
        _, E = self._of_rows(z)
        return np.asarray((E / E.sum(axis=0)).reshape(-1))

    def terms(self, z: Array, b: Array) -> Array:
        return np.abs(z)


class Ahead(Loss):
    """Another loss at ``start + share * z``, as a function of z."""

    def __init__(self, loss: Loss, start: Array, share: float) -> None:
        self.loss, self.start, self.share = loss, start, share
        self.curvature, self.quadratic, self.coupled = share**2 * loss.curvature, loss.quadratic, loss.coupled
        self.growth = None if loss.growth is None else share * loss.growth

    def on(self, entries: Any) -> Loss:
        return Ahead(self.loss.on(entries), self.start[entries], self.share)

    def value(self, z: Array, b: Array) -> float:
        return self.loss.value(self.start + self.share * z, b)

    def values(self, z: Array, b: Array) -> Array | None:
        return self.loss.values(self.start + self.share * z, b)

    def derivative(self, z: Array, b: Array) -> Array:
        return self.share * self.loss.derivative(self.start + self.share * z, b)

    def value_and_derivative(self, z: Array, b: Array) -> tuple[float, Array]:
        value, slopes = self.loss.value_and_derivative(self.start + self.share * z, b)
        return value, self.share * slopes

    def second(self, z: Array, b: Array) -> Array:
        return self.share**2 * self.loss.second(self.start + self.share * z, b)

    def best_shift(self, z: Array, b: Array, weights: Array | None) -> float | None:
        found = self.loss.best_shift(self.start + self.share * z, b, weights)
        return None if found is None else found / self.share

    def inside(self, z: Array) -> Array | None:
        return self.loss.inside(self.start + self.share * z)

    def terms(self, z: Array, b: Array) -> Array:
        return self.share * self.loss.terms(self.start + self.share * z, b)


#: Losses by name. Error messages, the command line, the estimators and the documentation use these names.
losses: Mapping[str, type[Any]] = MappingProxyType(
    {
        "squared": Squared,
        "logistic": Logistic,
        "huber": Huber,
        "quantile": Quantile,
        "poisson": Poisson,
    }
)


def find_loss(loss: str | Loss, rho: float, quantile: float = 0.5, classes: int | None = None) -> Loss:
    """Return the loss of that name, or the object itself; losses get those of the parameters that they have.

    With a number of classes, "softmax" is a name too.
    """

    def make(kind: Any) -> Loss:
        given = {"rho": rho, "quantile": quantile, "classes": classes}
        return kind(**{name: value for name, value in given.items() if name in kind.__dataclass_fields__})

    return find(loss, "loss", losses if classes is None else {**losses, "softmax": Softmax}, Loss, make)
