"""Data sets: named arrays with a description of their origin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from fwflow._validation import Array, InputError, finite_array, suggest

Kind = Literal["real", "stand-in", "generated"]


class DataError(RuntimeError):
    """Error for data that is missing, damaged or cannot be downloaded; the message says what to do.

    See Also
    --------
    load : Raises it for data that is missing.
    available : Lists the data that can be loaded.

    Examples
    --------
    >>> import tempfile
    >>> from fwflow import datasets
    >>> try:
    ...     datasets.load("gisette", "train-reconstructed", data_dir=tempfile.mkdtemp())
    ... except datasets.DataError as error:
    ...     print(type(error).__name__)
    DataError
    """


@dataclass(frozen=True, eq=False)
class Dataset:
    """Named arrays, and a description of their origin.

    Attributes
    ----------
    name : str
        Name of the data set.
    kind : {"real", "stand-in", "generated"}
        Whether the data are the published ones.
    source : str
        Description of the data in one sentence, for reports.
    shape : (int, int)
        Shape of ``A``, or of the matrix with the entries ``rows``, ``cols`` and ``values``.
    arrays : mapping of str to array
        Also available as ``data["A"]``.

    See Also
    --------
    load : Returns a data set.
    sensing : Generated regression problem.

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
    r"""Return columns :math:`(a_j - \bar a_j) / \sigma_j` of mean zero and variance one.

    Constant columns become zero.

    The result is a new array; float32 stays float32.

    Parameters
    ----------
    A : (m, n) array_like
        Features, one column each.

    Returns
    -------
    array

    See Also
    --------
    load : Loads data.
    Dataset : Named arrays.

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
    # Constant columns are found by comparison, because the computed deviation of 0.1, 0.1, 0.1 is not exactly zero.
    constant = (A[0] == A).all(axis=0)
    deviation = np.where(constant, 1.0, A.std(axis=0, dtype=np.float64))
    centred = A - A.mean(axis=0, dtype=np.float64)
    centred[:, constant] = 0.0
    centred /= deviation
    return centred.astype(A.dtype, copy=False)
