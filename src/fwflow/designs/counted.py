"""What does a run see of its design? The products, counted, and what else it offers, checked against its columns."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from fwflow._numerics import dot
from fwflow._storage import storable
from fwflow._validation import Array
from fwflow.designs.base import Design
from fwflow.points.vertices import Vertex


@storable("counts", valid=lambda counts: min(counts.n_grad, counts.n_lmo) >= 0 <= counts.n_design < math.inf)
@dataclass
class Counts:
    """Work done: gradients, oracle calls, and passes over the design matrix, of which a few columns are a share."""

    n_grad: int = 0
    n_lmo: int = 0
    n_design: float = 0


class CountedDesign(Design):
    """Another design, whose passes are counted. A product with a few columns counts as their share.

    A design that replaces the products of another inherits what else that one offers, which is then wrong: the first
    answer of each kind is compared with a column.
    """

    def __init__(self, design: Design, counts: Counts) -> None:
        self.design, self.counts = design, counts
        self.shape, self.dtype = design.shape, design.dtype
        self.pass_cost, self.far, self.cheap_share = design.pass_cost, design.far, design.cheap_share
        self._checked: set[str] = set()

    def matvec(self, x: Array) -> Array:
        self.counts.n_design += 1
        return self.design.matvec(x)

    def rmatvec(self, r: Array) -> Array:
        self.counts.n_design += 1
        return self.design.rmatvec(r)

    def column(self, j: int) -> Vertex:
        return self.design.column(j)

    @property
    def trusted(self) -> bool:
        return self.design.trusted

    def fingerprint(self) -> str | None:
        return self.design.fingerprint()

    def _dense(self, j: int) -> Array:
        return self.design.column(j).to_dense()

    def _check(self, offer: str, found: Any, expected: Any, size: float) -> None:
        self._checked.add(offer)
        if not np.isfinite(expected).all():  # the run says so itself
            return
        slack = 100 * self.shape[0] * float(np.finfo(self.dtype).eps) * size
        if not np.abs(np.asarray(found) - np.asarray(expected)).max(initial=0.0) <= slack:
            raise ValueError(
                f"A: {type(self.design).__name__} offers {offer}, which disagrees with its column; "
                f"a design with products of its own needs its own {offer}, or none"
            )

    def combined(self, indices: Array, values: Array) -> Vertex:
        combined = self.design.combined(indices, values)
        if "combined" not in self._checked:
            columns = [value * self._dense(int(j)) for j, value in zip(indices, values, strict=True)]
            self._check("combined", combined, sum(columns), float(np.abs(columns).sum(axis=0).max(initial=0.0)))
        return combined

    def rmatmat(self, R: Array) -> Array | None:
        product = self.design.rmatmat(R)
        if product is None:
            return None
        self.counts.n_design += 1
        if "rmatmat" not in self._checked:
            j = self.shape[1] // 2
            column = self._dense(j)
            self._check("rmatmat", product[:, j], dot(R, column), _length(column) * max(map(_length, R)))
        return product

    def some_columns(self, r: Array, columns: Any) -> Array | None:
        product = self.design.some_columns(r, columns)
        if product is None:
            return None
        self.counts.n_design += len(columns) / self.shape[1]
        if "some_columns" not in self._checked and r.any():
            column = self._dense(int(columns[0]))
            self._check("some_columns", product[0], dot(column, r), _length(column) * _length(r))
        return product

    def from_columns(self, x: Array, columns: Any) -> Vertex:
        self.counts.n_design += len(columns) / self.shape[1]
        return self.design.from_columns(x, columns)

    def some_rows(self, rows: Array) -> Any | None:
        """Counted twice: they are multiplied with x, and their transpose with what comes of it."""
        found = self.design.some_rows(rows)
        if found is None:
            return None
        self.counts.n_design += 2 * len(rows) / self.shape[0]
        if "some_rows" not in self._checked and len(rows):
            j = self.shape[1] // 2
            expected = self._dense(j)[rows[:1]]
            self._check("some_rows", dot(found[:1, [j]], np.ones(1)), expected, _length(expected))
        return found

    def column_norms(self) -> Array | None:
        norms = self.design.column_norms()
        if norms is None:
            return None
        self.counts.n_design += 1
        length = _length(self._dense(self.shape[1] // 2))
        self._check("column_norms", norms[self.shape[1] // 2], length, length)
        return norms

    def double(self) -> Design | None:
        doubled = self.design.double()
        if doubled is None:
            return None
        column = self._dense(self.shape[1] // 2)
        self._check("double", doubled.column(self.shape[1] // 2).to_dense(), column, float(np.abs(column).max()))
        return CountedDesign(doubled, self.counts)


def _length(vector: Array) -> float:
    return math.sqrt(float(np.vdot(vector, vector)))
