"""Matrix of a linear model with several targets, whose coefficients are a matrix with one column per target."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from fwflow._validation import Array
from fwflow.designs.base import Counts, DataCost, Design
from fwflow.designs.in_memory import DenseDesign, SparseDesign
from fwflow.points.vertices import DenseVertex, SparseVertex, Vertex


class TargetDesign(Design):
    """Map from the entries of a matrix X of coefficients, row by row, to the entries of A X, column by column.

    With `entries`, it maps the values of these entries of X, and the others are zero.
    """

    def __init__(self, design: Design, targets: int, entries: Array | None = None) -> None:
        self.design, self.targets, self.entries = design, targets, entries
        rows, columns = design.shape
        self.shape = (targets * rows, targets * columns if entries is None else len(entries))
        self.dtype, cost = design.dtype, design.data_cost
        of_pass = None if cost.of_pass is None else targets * cost.of_pass
        self.data_cost = DataCost(of_pass, remote=cost.remote, most_columns=cost.most_columns)

    @property
    def trusted(self) -> bool:
        return self.design.trusted

    def fingerprint(self) -> str | None:
        return self.design.fingerprint()

    def matvec(self, x: Array) -> Array:
        if self.entries is not None:
            x, values = np.zeros(self.design.shape[1] * self.targets, x.dtype), x
            x[self.entries] = values
        rows = np.ascontiguousarray(x.reshape(-1, self.targets).T)
        together = self.design.matmat(rows)
        if together is None:  # A design may return the same buffer again.
            together = np.stack([np.array(self.design.matvec(row)) for row in rows])
        return together.reshape(-1)

    def rmatvec(self, r: Array) -> Array:
        rows = r.reshape(self.targets, -1)
        together = self.design.rmatmat(rows)
        if together is None:
            together = np.stack([np.array(self.design.rmatvec(row)) for row in rows])
        x = together.T.reshape(-1)
        return x if self.entries is None else x[self.entries]

    def rmatmat(self, R: Array) -> Array | None:
        together = self.design.rmatmat(R.reshape(len(R) * self.targets, -1))
        if together is None:
            return None
        X = together.reshape(len(R), self.targets, -1).swapaxes(1, 2).reshape(len(R), -1)
        return X if self.entries is None else X[:, self.entries]

    def places(self, indices: Any) -> tuple[Array, Array]:
        """Return the columns of A and the targets of some entries."""
        return np.divmod(indices if self.entries is None else self.entries[indices], self.targets)

    def column(self, j: int) -> Vertex:
        own, target = self.places(j)
        column, rows = self.design.column(int(own)), self.design.shape[0]
        places, values = column.entries() or (np.arange(rows), column.to_dense())
        return SparseVertex(np.asarray(places) + target * rows, np.asarray(values), (self.shape[0],))

    def combined(self, indices: Array, values: Array) -> Vertex:
        Z = np.zeros((self.targets, self.design.shape[0]), self.dtype)
        own, targets = self.places(indices)
        for target in np.unique(targets):
            chosen = targets == target
            Z[target] = self.design.combined(own[chosen], values[chosen]).to_dense(self.dtype)
        return DenseVertex(Z.reshape(-1))

    def part(self, indices: Array) -> TargetDesign:
        own, targets = self.places(indices)
        used, at = np.unique(own, return_inverse=True)
        B = self.design.columns(used)
        design = SparseDesign(B) if sp.issparse(B) else DenseDesign(B)
        return TargetDesign(design, self.targets, at * self.targets + targets)

    def some_rows(self, rows: Array) -> Any | None:
        """Return rows of A, which serve all targets."""
        return self.design.some_rows(rows)

    def counted(self, counts: Counts) -> Design:
        return TargetDesign(self.design.counted(counts), self.targets)

    def centred(self) -> Design:
        return TargetDesign(self.design.centred(), self.targets)

    def double(self) -> Design | None:
        double = self.design.double()
        return None if double is None else TargetDesign(double, self.targets)


def width(B: Any) -> int:
    """Return the number of columns of the data in a matrix or a design; each of them serves all targets."""
    return int((B.design if isinstance(B, TargetDesign) else B).shape[1])


def on_used_rows(B: Any) -> tuple[Any, Array | None]:
    """Return sparse columns without their empty rows, and the positions of the other rows; None stands for all."""
    if isinstance(B, TargetDesign):
        assert isinstance(B.design, DenseDesign | SparseDesign)  # as `part` makes it
        matrix, rows = on_used_rows(B.design.A)
        if rows is None:
            return B, None
        places = np.arange(B.targets)[:, None] * B.design.shape[0] + rows
        return TargetDesign(SparseDesign(matrix), B.targets, B.entries), places.reshape(-1)
    if not sp.issparse(B):
        return B, None
    rows = np.unique(B.indices)
    return B.tocsr()[rows].tocsc(), rows
