"""Fingerprints of objectives and sets, by which a state is compared with a problem."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from fwflow._storage import storable
from fwflow._validation import Array


def fingerprint(owner: object, /, **parts: Any) -> str:
    """Return the class name of an objective or set and its parts in JSON, equal on all machines.

    Numbers, text and sequences of these are themselves. Arrays and sparse matrices are their shapes and digests of all
    entries. Dataclasses are fingerprints of their fields, and other objects, such as functions, their class only.

    >>> fingerprint(object(), radius=1.0, A=np.eye(2))
    'object {"radius": 1.0, "A": {"shape": "(2, 2)", "digest": "1d70144b95c3c84f"}}'
    """
    return f"{type(owner).__qualname__} {json.dumps({name: _described(part) for name, part in parts.items()})}"


def _described(part: Any) -> Any:
    if sp.issparse(part):
        columns = sp.csc_array(part)
        indices, indptr = columns.indices.astype(np.int64), columns.indptr.astype(np.int64)
        return {"shape": str(columns.shape), "digest": _digest(columns.data, indices, indptr)}
    if isinstance(part, np.ndarray):
        return {"shape": str(part.shape), "digest": _digest(part)}
    if isinstance(part, tuple | list):
        return [_described(item) for item in part]
    if is_dataclass(part):
        return fingerprint(part, **{field.name: getattr(part, field.name) for field in fields(part)})
    part = part.item() if isinstance(part, np.generic) else part
    return part if part is None or isinstance(part, int | float | str) else type(part).__qualname__


def _digest(*arrays: Array) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.dtype.name} {array.shape};".encode())
        # The entries in the order of C, without a copy of the whole array.
        options: Any = {
            "flags": ["external_loop", "buffered", "zerosize_ok", "refs_ok"],
            "order": "C",
            "buffersize": 2**16,
        }
        chunks: Any = np.nditer(array, op_dtypes=array.dtype.newbyteorder("<"), **options)
        for chunk in chunks:
            digest.update(chunk.tobytes())
    return digest.hexdigest()[:16]


def _parsed(described: Any) -> tuple[str, dict[str, Any]]:
    """Return a description in words, and descriptions of its parts."""
    if isinstance(described, dict):
        return f"of shape {described.get('shape')}", {}
    if isinstance(described, list):
        return f"of {len(described)} parts", {}
    kind, _, parts = str(described).partition(" ")
    if parts.startswith("{"):
        with suppress(ValueError, RecursionError):
            return kind, json.loads(parts)
    return str(described).removesuffix(".0"), {}


def _differences(name: str, mine: Any, theirs: Any) -> list[tuple[str, str]]:
    """Return pairs of texts on the parts that two descriptions differ in.

    The entries of a matrix have the name of the matrix in its owner.
    """
    if isinstance(mine, list) and isinstance(theirs, list) and len(mine) == len(theirs):
        pairs = enumerate(zip(mine, theirs, strict=True))
        return [found for i, (one, other) in pairs for found in _differences(f"{name}[{i}]", one, other)]
    (was, parts), (now, others) = _parsed(mine), _parsed(theirs)
    if was != now:
        return [(f"{name} {was}", f"{name} {now}")]
    if repr(mine) == repr(theirs):  # NaN is equal to itself here
        return []
    inner = [
        found
        for key in parts
        if key in others
        for found in _differences(name if key == "entries" and name else key, parts[key], others[key])
    ]
    return inner or [(f"{name} {was}", f"other entries in {name}" if name else f" {now} with other data")]


def _in_words(mine: str, theirs: str) -> tuple[str, str]:
    """Return what two fingerprints stand for, with the parts in which they differ."""
    pairs = zip(*_differences("", mine, theirs), strict=True)
    was, now = (" and ".join(dict.fromkeys(texts)).strip() for texts in pairs)
    kind = _parsed(mine)[0]
    return (was, now) if was == kind else (f"{kind} with {was}", f"{kind} with {now}")


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
        """Return a description in words of the differences between two problems, or None if there are none."""
        if self.objective is not None and self.objective is other.objective and self.constraint is other.constraint:
            return None
        pairs = zip(("objective", "set"), self.fingerprints, other.fingerprints, strict=True)
        found = [
            f"its {part} was {{}}, and this one is {{}}".format(*_in_words(mine, theirs))
            for part, mine, theirs in pairs
            if mine is not None and theirs is not None and mine != theirs
        ]
        return "; ".join(found) or None
