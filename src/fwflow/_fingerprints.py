"""Fingerprints of objectives and sets, by which a state is compared with a problem."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from fwflow._storage import storable
from fwflow._validation import Array

# Largest size of an array, in bytes, of which all entries are hashed. Chosen without tuning.
_HASHED = 2**20
# Length of the rows into which a larger vector is cut. Chosen without tuning.
_ROW = 1024


def fingerprint(owner: object, *parts: Any) -> str:
    """Return the class name of an objective or set and a digest of its parts, equal on all machines.

    Numbers, text, arrays, sparse matrices, dataclasses and sequences of these enter the digest with their values, and
    other objects, such as functions, with their class only. For arrays of more than a megabyte the digest uses the sums
    of the bit patterns over each row and each column. They differ if one entry differs, or if two entries are swapped.

    >>> fingerprint(object(), np.eye(2), 1.0)
    'object 08c683ccf1706770'
    """
    digest = hashlib.sha256()
    for part in parts:
        _feed(digest, part)
    return f"{type(owner).__qualname__} {digest.hexdigest()[:16]}"


def _feed(digest: Any, part: Any) -> None:
    if isinstance(part, np.ndarray | np.generic):
        array = np.asarray(part)
        digest.update(f"array {array.dtype.name} {array.shape};".encode())
        _feed_entries(digest, array)
    elif sp.issparse(part):
        columns = sp.csc_array(part)
        indices, indptr = columns.indices.astype(np.int64), columns.indptr.astype(np.int64)
        _feed(digest, ("sparse", *columns.shape, columns.data, indices, indptr))
    elif isinstance(part, tuple | list):
        digest.update(f"sequence {len(part)};".encode())
        for item in part:
            _feed(digest, item)
    elif part is None or isinstance(part, bool | int | float | str | bytes):
        digest.update(f"{part!r};".encode())
    else:
        digest.update(f"{type(part).__qualname__};".encode())
        if is_dataclass(part):
            _feed(digest, [getattr(part, field.name) for field in fields(part)])


def _feed_entries(digest: Any, array: Array) -> None:
    if array.nbytes <= _HASHED:
        digest.update(array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes())
        return
    if array.ndim == 1:
        rest = len(array) % _ROW
        _feed_entries(digest, array[:rest])
        array = array[rest:].reshape(-1, _ROW)
    bits = array.view(f"u{array.itemsize}")
    for axis in range(bits.ndim):
        sums = bits.sum(axis=tuple(i for i in range(bits.ndim) if i != axis), dtype=np.uint64)
        digest.update(sums.astype("<u8", copy=False).tobytes())


@storable("origin", "fingerprints")
@dataclass(frozen=True, eq=False)
class Origin:
    """Problem that a state belongs to: the objective and the set or, in copies and files, only their fingerprints."""

    stored: tuple[str | None, str | None] | None = None
    objective: Any = None
    constraint: Any = None

    @cached_property
    def fingerprints(self) -> tuple[str | None, str | None]:
        """Fingerprints of the objective and of the set; None if they have none."""
        return (self.objective.fingerprint(), self.constraint.fingerprint()) if self.stored is None else self.stored

    def __reduce__(self) -> Any:
        return Origin, (self.fingerprints,)

    def differs_from(self, other: Origin) -> str | None:
        """Return a description of the differences between two problems, or None if there are none."""
        if self.objective is not None and self.objective is other.objective and self.constraint is other.constraint:
            return None
        pairs = zip(("objective", "set"), self.fingerprints, other.fingerprints, strict=True)
        found = [(part, mine, theirs) for part, mine, theirs in pairs if None not in (mine, theirs) and mine != theirs]
        return "; ".join(f"its {part} was {mine}, and this one is {theirs}" for part, mine, theirs in found) or None
