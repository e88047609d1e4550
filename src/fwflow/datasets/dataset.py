"""What is a data set? Named arrays with a sentence that says exactly what they are."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from fwflow._validation import Array, InputError, finite_array, suggest

Kind = Literal["real", "stand-in", "generated"]


class DataError(RuntimeError):
    """Data is missing, damaged or cannot be fetched; the message says what to do."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """Arrays and where they come from.

    Attributes
    ----------
    name : str
    kind : {"real", "stand-in", "generated"}
    source : str
        One sentence, for reports, that says exactly what data this is.
    shape : (int, int)
        Of ``A``, or of the matrix whose entries ``rows``, ``cols`` and ``values`` give.
    arrays : mapping of str to array
        Also reached as ``data["A"]``.

    Examples
    --------
    >>> from fwflow import datasets
    >>> data = datasets.load("triangle")
    >>> data.kind, data["start"]
    ('generated', array([0., 1.]))
    """

    name: str
    kind: Kind
    source: str
    shape: tuple[int, int]
    arrays: Mapping[str, Array] = field(repr=False)

    def __getitem__(self, name: str) -> Array:
        if name not in self.arrays:
            raise KeyError(f"{self.name} has no array {name!r}; {suggest(name, self.arrays)}")
        return self.arrays[name]


def standardize(A: ArrayLike) -> Array:
    r"""Columns :math:`(a_j - \bar a_j) / \sigma_j` of mean zero and variance one; constant columns become zero.

    Returns a new array; float32 stays float32.

    Examples
    --------
    >>> from fwflow.datasets import standardize
    >>> standardize([[1.0, 7.0], [3.0, 7.0]])
    array([[-1.,  0.],
           [ 1.,  0.]])
    """
    A = finite_array(A, "A", ndim=2)
    if A.size == 0:
        raise InputError(f"A is empty: its shape is {A.shape}")
    # A constant column is found by comparison: the computed deviation of 0.1, 0.1, 0.1 is not exactly zero.
    constant = (A[0] == A).all(axis=0)
    deviation = np.where(constant, 1.0, A.std(axis=0, dtype=np.float64))
    centred = A - A.mean(axis=0, dtype=np.float64)
    centred[:, constant] = 0.0
    centred /= deviation
    return centred.astype(A.dtype, copy=False)


def optional(module: str) -> Any:
    """Import a module of the extra ``data``, or say how to install it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise DataError(f"{error.name} is not installed; it comes with pip install 'fwflow[data]'") from error
