"""Fingerprints of objectives and sets, by which a state is compared with a problem."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from fwflow._storage import storable
from fwflow._validation import Array

# Largest size of an array, in bytes, of which all entries are hashed. Chosen without tuning.
_HASHED = 2**20
# Length of the rows into which a larger vector is cut. Chosen without tuning.
_ROW = 1024
# Longest description of a part that is neither a number nor an array. Chosen without tuning.
_LONGEST = 80


def fingerprint(owner: object, *parts: Any, **named: Any) -> str:
    """Return the class name of an objective or set and a digest of its parts, equal on all machines.

    Descriptions of the named parts stand between both, for messages about differences. The digest depends on the values
    of all parts in their order, and not on their names.

    Numbers, text, arrays, sparse matrices, dataclasses and sequences of these enter the digest with their values, and
    other objects, such as functions, with their class only. For arrays of more than a megabyte the digest uses the sums
    of the bit patterns over each row and each column. They differ if one entry differs, or if two entries are swapped.

    >>> fingerprint(object(), np.eye(2), 1.0)
    'object 08c683ccf1706770'
    >>> fingerprint(object(), np.eye(2), radius=1.0)
    'object {"radius": "1"} 08c683ccf1706770'
    """
    all_parts = _digest(*parts, *named.values())
    described = json.dumps({name: _described(part) for name, part in named.items()}) + " " if named else ""
    return f"{type(owner).__qualname__} {described}{all_parts}"


def _digest(*parts: Any) -> str:
    digest = hashlib.sha256()
    for part in parts:
        _feed(digest, part)
    return digest.hexdigest()[:16]


def _described(part: Any) -> Any:
    """Return a short description of a part as text; for an array its shape and digest, and for a sequence a list."""
    if (isinstance(part, np.ndarray | np.generic) and np.ndim(part)) or sp.issparse(part):
        return {"shape": list(part.shape), "digest": _digest(part)}
    if isinstance(part, tuple | list):
        return [_described(item) for item in part]
    if isinstance(part, str):
        return part
    if isinstance(part, float | int | bool | np.generic) or part is None:
        return repr(part.item() if isinstance(part, np.generic) else part).removesuffix(".0")
    return repr(part)[:_LONGEST] if is_dataclass(part) else type(part).__qualname__


class _Parsed(NamedTuple):
    """Parts of a fingerprint: the name of the class, descriptions of its parts, and the digest."""

    kind: str
    described: dict[str, Any]
    digest: str

    @classmethod
    def of(cls, text: Any) -> _Parsed | None:
        found = re.fullmatch(r"(\S+) (?:(\{.*\}) )?([0-9a-f]{16})", text) if isinstance(text, str) else None
        return None if found is None else cls(found[1], json.loads(found[2] or "{}"), found[3])

    @property
    def identity(self) -> str:
        """The text that is compared."""
        return f"{self.kind} {self.digest}"


def _identity(text: str) -> str:
    parsed = _Parsed.of(text)
    return text if parsed is None else parsed.identity


def _differences(name: str, mine: Any, theirs: Any) -> list[tuple[str, str]]:
    """Return pairs of texts on the parts that two descriptions differ in."""
    if mine == theirs:
        return []
    if isinstance(mine, dict) and isinstance(theirs, dict):
        shapes = [str(tuple(described["shape"])) for described in (mine, theirs)]
        same = shapes[0] == shapes[1]
        return [(f"{name} of shape {shapes[0]}", f"other entries in {name}" if same else f"shape {shapes[1]}")]
    if isinstance(mine, list) and isinstance(theirs, list) and len(mine) == len(theirs):
        pairs = enumerate(zip(mine, theirs, strict=True))
        return [found for i, (one, other) in pairs for found in _differences(f"{name}[{i}]", one, other)]
    inner = _Parsed.of(mine), _Parsed.of(theirs)
    if inner[0] is not None and inner[1] is not None:
        if inner[0].identity == inner[1].identity:
            return []
        found = _all_differences(inner[0], inner[1], name)
        if inner[0].kind == inner[1].kind and found:
            return found
        return [(f"{name} {inner[0].kind}", f"{name} {inner[1].kind}" + (" with other data" if not found else ""))]
    return [(f"{name} {_short(mine)}", f"{name} {_short(theirs)}")]


def _short(described: Any) -> str:
    if isinstance(described, dict):
        return f"of shape {tuple(described['shape'])}"
    return f"of {len(described)} parts" if isinstance(described, list) else str(described)


def _all_differences(mine: _Parsed, theirs: _Parsed, outer: str = "") -> list[tuple[str, str]]:
    """Return the differences between all parts; the entries of a matrix have the name of the matrix in its owner."""
    pairs = (
        (name, mine.described[name], theirs.described[name]) for name in mine.described if name in theirs.described
    )
    return [
        found
        for name, one, other in pairs
        for found in _differences(outer if name == "entries" and outer else name, one, other)
    ]


def _in_words(mine: str, theirs: str) -> tuple[str, str]:
    """Return what two fingerprints stand for, with the parts in which they differ."""
    one, other = _Parsed.of(mine), _Parsed.of(theirs)
    if one is None or other is None:
        return mine, theirs
    if one.kind != other.kind:
        return one.kind, other.kind
    pairs = _all_differences(one, other)
    if not pairs:
        return one.kind, f"{other.kind} with other data"
    was, now = (" and ".join(dict.fromkeys(texts)) for texts in zip(*pairs, strict=True))
    return f"{one.kind} with {was}", f"{other.kind} with {now}"


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
        part = _identity(part) if isinstance(part, str) else part
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
        """Return a description in words of the differences between two problems, or None if there are none."""
        if self.objective is not None and self.objective is other.objective and self.constraint is other.constraint:
            return None
        pairs = zip(("objective", "set"), self.fingerprints, other.fingerprints, strict=True)
        found = [
            f"its {part} was {{}}, and this one is {{}}".format(*_in_words(mine, theirs))
            for part, mine, theirs in pairs
            if mine is not None and theirs is not None and _identity(mine) != _identity(theirs)
        ]
        return "; ".join(found) or None
