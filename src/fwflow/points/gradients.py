"""Gradients as arrays, on the observed entries of a matrix, or as products that are not formed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from fwflow._numerics import all_finite, dot
from fwflow._storage import places_within, storable
from fwflow._validation import Array, float_array
from fwflow.points.point import Atom, Point
from fwflow.points.vertices import Shape, Vertex, freeze, read_only


class Gradient(ABC):
    """Gradient in a compact form. Sums and multiples keep this form.

    An objective may return an array instead, which becomes a gradient of this kind.

    See Also
    --------
    Objective : Returns gradients.
    Evaluation : Gradient, vertex and gap at a point.

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> f = fw.MatrixCompletion([0, 1], [0, 1], [2.0, 2.0], (2, 2), loss="squared")
    >>> g = f.gradient(f.point(np.zeros((2, 2))))
    >>> isinstance(g, fw.Gradient), np.asarray(2.0 * g)
    (True, array([[-4.,  0.],
           [ 0., -4.]]))
    """

    shape: Shape

    @abstractmethod
    def as_oracle_input(self) -> Any:
        """Return the gradient as the input of an oracle: an array, a sparse matrix, or an object that acts like one."""

    @abstractmethod
    def finite(self) -> bool:
        """Return whether all entries are finite."""

    @abstractmethod
    def inner(self, point: Point) -> float:
        """Return the inner product with x."""

    @abstractmethod
    def inner_size(self, point: Point) -> float:
        """Return the sum of the absolute values of the terms of `inner`, to which rounding errors are relative."""

    def dot(self, vertex: Vertex) -> float:
        """Return the inner product with a vertex."""
        return vertex.dot(self.as_oracle_input())

    def scores(self, atoms: Sequence[Atom]) -> Array:
        """Return the inner product with every atom."""
        return np.array([atom.score(self) for atom in atoms])

    @abstractmethod
    def __add__(self, other: Any) -> Any: ...

    @abstractmethod
    def __mul__(self, factor: float) -> Any: ...

    def __rmul__(self, factor: float) -> Any:
        return self * factor

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self.as_oracle_input(), dtype=dtype)

    def __neg__(self) -> Any:
        return self * -1.0

    def __sub__(self, other: Any) -> Any:
        return self + -1.0 * other


def as_gradient(g: Any) -> Gradient:
    """Return the gradient of an objective or a momentum in the form that methods work with."""
    if isinstance(g, np.ndarray):  # This check comes first, because isinstance with an abstract class takes 1 us.
        return DenseGradient(g)
    if sp.issparse(g):
        raise ValueError(f"a gradient must be an array or a fw.Gradient; got a {type(g).__name__}. Use its toarray()")
    return g if isinstance(g, Gradient) else DenseGradient(float_array(g, "the gradient"))


@storable("dense-gradient")
@dataclass(frozen=True, eq=False)
class DenseGradient(Gradient):
    """A gradient as a read-only array."""

    array: Array

    def __post_init__(self) -> None:
        if self.array.flags.writeable:
            object.__setattr__(self, "array", read_only(self.array))

    @property
    def shape(self) -> Shape:  # type: ignore[override]
        return self.array.shape

    def as_oracle_input(self) -> Array:
        return self.array

    def finite(self) -> bool:
        return all_finite(self.array)

    def inner(self, point: Point) -> float:
        return point.dot(self.array)

    def inner_size(self, point: Point) -> float:
        return point.dot_size(self.array)

    def scores(self, atoms: Any) -> Array:
        return atoms.products(self.array)

    def __add__(self, other: Any) -> DenseGradient:
        return DenseGradient(self.array + np.asarray(other))

    __radd__ = __add__

    def __mul__(self, factor: float) -> DenseGradient:
        return DenseGradient(factor * self.array)


class ByImage(Gradient):
    """A gradient given by `data`, the derivative with respect to the image of a point."""

    data: Array

    def finite(self) -> bool:
        return all_finite(self.data)

    def inner(self, point: Point) -> float:
        assert point.image is not None
        return float(dot(self.data, point.image))

    def inner_size(self, point: Point) -> float:
        assert point.image is not None
        return float(dot(np.abs(self.data), np.abs(point.image)))


@storable("sampled", valid=lambda g: g.is_csr)
@dataclass(frozen=True, eq=False)
class Sampled(ByImage):
    """A gradient on the observed entries of a matrix: CSR data, with index arrays that all gradients share."""

    data: Array
    indices: Array
    indptr: Array
    shape: Shape

    def __post_init__(self) -> None:
        freeze(self.data, self.indices, self.indptr)

    @property
    def is_csr(self) -> bool:
        """Whether the index arrays are valid; SciPy does not check them."""
        ends, places = self.indptr, self.indices
        ordered = ends.shape == (self.shape[0] + 1,) and ends[0] == 0 and (np.diff(ends) >= 0).all()
        return bool(ordered and self.data.shape == places.shape == (ends[-1],)) and places_within(places, self.shape[1])

    @cached_property
    def matrix(self) -> sp.csr_array:
        """The matrix in SciPy's CSR form."""
        return sp.csr_array((self.data, self.indices, self.indptr), shape=self.shape)

    def as_oracle_input(self) -> sp.csr_array:
        return self.matrix

    def __add__(self, other: Any) -> Sampled:
        return replace(self, data=self.data + other.data)

    def __mul__(self, factor: float) -> Sampled:
        return replace(self, data=factor * self.data)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self.matrix.toarray(), dtype=dtype)
