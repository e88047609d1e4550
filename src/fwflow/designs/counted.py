"""Design as a run sees it: products are counted, and optional members are checked against the columns."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from fwflow._numerics import dot, norm
from fwflow._storage import storable
from fwflow._validation import Array
from fwflow.designs.base import Design, DesignWrapper
from fwflow.points.vertices import Vertex


@storable("counts", valid=lambda counts: min(counts.n_grad, counts.n_lmo) >= 0 <= counts.n_design < math.inf)
@dataclass
class Counts:
    """Number of gradients, of oracle calls, and of passes over the data; a few columns are a share of a pass."""

    n_grad: int = 0
    n_lmo: int = 0
    n_design: float = 0


class CountedDesign(DesignWrapper):
    """Design that counts the passes over the data of another one.

    A subclass that overrides only the products of a design inherits optional members that no longer fit. Therefore the
    first result of each optional member is compared with a column.
    """

    def __init__(self, design: Design, counts: Counts) -> None:
        super().__init__(design)
        self.counts = counts
        self._checked: set[str] = set()

    def matvec(self, x: Array) -> Array:
        self.counts.n_design += 1
        return self.design.matvec(x)

    def rmatvec(self, r: Array) -> Array:
        self.counts.n_design += 1
        return self.design.rmatvec(r)

    def column(self, j: int) -> Vertex:
        return self.design.column(j)

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
            column = self._dense(self._middle)
            size = norm(column) * max(map(norm, R))
            self._check("rmatmat", product[:, self._middle], dot(R, column), size)
        return product

    def some_columns(self, r: Array, columns: Any) -> Array | None:
        product = self.design.some_columns(r, columns)
        if product is None:
            return None
        self.counts.n_design += len(columns) / self.shape[1]
        if "some_columns" not in self._checked and r.any():
            column = self._dense(int(columns[0]))
            self._check("some_columns", product[0], dot(column, r), norm(column) * norm(r))
        return product

    def some_rows(self, rows: Array) -> Any | None:
        """Return some rows. They count twice, because they and their transpose are both multiplied by a vector."""
        found = self.design.some_rows(rows)
        if found is None:
            return None
        self.counts.n_design += 2 * len(rows) / self.shape[0]
        if "some_rows" not in self._checked and len(rows):
            expected = self._dense(self._middle)[rows[:1]]
            self._check("some_rows", dot(found[:1, [self._middle]], np.ones(1)), expected, norm(expected))
        return found

    def column_norms(self) -> Array | None:
        norms = self.design.column_norms()
        if norms is None:
            return None
        self.counts.n_design += 1
        expected = norm(self._dense(self._middle))
        self._check("column_norms", norms[self._middle], expected, expected)
        return norms

    def double(self) -> Design | None:
        doubled = self.design.double()
        if doubled is None:
            return None
        column = self._dense(self._middle)
        self._check("double", doubled.column(self._middle).to_dense(), column, float(np.abs(column).max()))
        return CountedDesign(doubled, self.counts)

    @property
    def _middle(self) -> int:
        return self.shape[1] // 2

    def _dense(self, j: int) -> Array:
        return self.design.column(j).to_dense()

    def _check(self, member: str, found: Any, expected: Any, size: float) -> None:
        """Raise ValueError if a result differs from its expected value by more than the rounding of terms of `size`."""
        self._checked.add(member)
        if not np.isfinite(expected).all():  # The run reports this itself.
            return
        slack = 100 * self.shape[0] * float(np.finfo(self.dtype).eps) * size
        if not np.abs(np.asarray(found) - np.asarray(expected)).max(initial=0.0) <= slack:
            raise ValueError(
                f"A: `{member}` of {type(self.design).__name__} disagrees with its `column`; "
                f"override `{member}` too, or let it return None"
            )
