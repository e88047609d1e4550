"""Fingerprints of objectives and sets, by which a state is compared with a problem."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from fwflow._storage import storable

# Longest description of a part that is neither a number nor an array. Chosen without tuning.
_LONGEST = 80
# A fingerprint: the name of the class, descriptions of its parts, and the digest.
_PATTERN = re.compile(r"(.+?) (?:(\{.*\}) )?([0-9a-f]{16})")


def fingerprint(owner: object, *parts: Any, **named: Any) -> str:
    """Return the class name of an objective or set and a digest of its parts, equal on all machines.

    Descriptions of the named parts stand between both, for messages about differences. The digest depends on the values
    of all parts in their order, and not on their names.

    Numbers, text, arrays, sparse matrices, dataclasses and sequences of these enter the digest with their values, and
    other objects, such as functions, with their class only.

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
        return f"of shape {tuple(map(int, part.shape))} {_digest(part)}"
    if isinstance(part, tuple | list):
        return [_described(item) for item in part]
    if isinstance(part, float | int | np.generic) or part is None:
        return repr(part.item() if isinstance(part, np.generic) else part).removesuffix(".0")
    if isinstance(part, str):
        return part
    return repr(part)[:_LONGEST] if is_dataclass(part) else type(part).__qualname__


def _parsed(described: Any) -> tuple[str, dict[str, Any], str]:
    """Return the kind of a part, descriptions of its parts, and its digest; a value is its own kind."""
    if isinstance(described, list):
        return f"of {len(described)} parts", {}, ""
    found = _PATTERN.fullmatch(str(described))
    return (found[1], json.loads(found[2] or "{}"), found[3]) if found else (str(described), {}, "")


def _identity(text: str) -> str:
    kind, _, digest = _parsed(text)
    return f"{kind} {digest}".rstrip()


def _differences(name: str, mine: Any, theirs: Any) -> list[tuple[str, str]]:
    """Return pairs of texts on the parts that two descriptions differ in."""
    if isinstance(mine, list) and isinstance(theirs, list) and len(mine) == len(theirs):
        pairs = enumerate(zip(mine, theirs, strict=True))
        return [found for i, (one, other) in pairs for found in _differences(f"{name}[{i}]", one, other)]
    (was, parts, digest), (now, others, other_digest) = _parsed(mine), _parsed(theirs)
    if was != now:
        return [(f"{name} {was}", f"{name} {now}")]
    if digest == other_digest:
        return []
    return _inner_differences(parts, others, name) or [(f"{name} {was}", f"other entries in {name}")]


def _inner_differences(mine: dict[str, Any], theirs: dict[str, Any], outer: str) -> list[tuple[str, str]]:
    """Return the differences between all parts; the entries of a matrix have the name of the matrix in its owner."""
    return [
        found
        for name in mine
        if name in theirs
        for found in _differences(outer if name == "entries" and outer else name, mine[name], theirs[name])
    ]


def _in_words(mine: str, theirs: str) -> tuple[str, str]:
    """Return what two fingerprints stand for, with the parts in which they differ."""
    (was, parts, _), (now, others, _) = _parsed(mine), _parsed(theirs)
    if was != now:
        return was, now
    if not (pairs := _inner_differences(parts, others, "")):
        return was, f"{now} with other data"
    before, after = (" and ".join(dict.fromkeys(texts)) for texts in zip(*pairs, strict=True))
    return f"{was} with {before}", f"{now} with {after}"


def _feed(digest: Any, part: Any) -> None:
    if isinstance(part, np.ndarray | np.generic):
        digest.update(f"array {part.dtype.name} {part.shape};".encode())
        # The entries in the order of C, without a copy of the whole array.
        options: Any = {"flags": ["external_loop", "buffered", "zerosize_ok"], "order": "C", "buffersize": 2**16}
        chunks: Any = np.nditer(part, op_dtypes=part.dtype.newbyteorder("<"), **options)
        for chunk in chunks:
            digest.update(chunk.tobytes())
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
