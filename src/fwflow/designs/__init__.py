"""The matrix A of a linear model: dense, sparse, on disk, on a cluster, or a `Design` of a user."""

from __future__ import annotations

from typing import Any

import scipy.sparse as sp

from fwflow.designs.base import CountedDesign, Counts, DataCost, DataLost, Design
from fwflow.designs.blocked import open
from fwflow.designs.distributed import Distributed, is_dask_array
from fwflow.designs.in_memory import DenseDesign, SparseDesign
from fwflow.designs.targets import TargetDesign, on_used_rows, width

__all__ = [
    "CountedDesign",
    "Counts",
    "DataCost",
    "DataLost",
    "DenseDesign",
    "Design",
    "Distributed",
    "SparseDesign",
    "TargetDesign",
    "as_design",
    "on_used_rows",
    "open",
    "width",
]


def as_design(A: Any, name: str = "A") -> Design:
    """Wrap a dense array, a SciPy sparse matrix or a Dask array; return a `Design` unchanged. Errors use `name`."""
    if isinstance(A, Design):
        return A
    if is_dask_array(A):
        return Distributed(A, name=name)
    if callable(getattr(A, "rmatvec", None)):
        raise ValueError(
            f"{name} must be an array, a SciPy sparse matrix or a fw.Design; got {type(A).__name__}. "
            "Derive its class from fw.Design"
        )
    design = SparseDesign(A, name) if sp.issparse(A) else DenseDesign(A, name)
    if 0 in design.shape:
        raise ValueError(f"{name} is empty: its shape is {design.shape}")
    return design
