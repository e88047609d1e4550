"""Semidefinite programs in the sparse SDPA format (.dat-s), which CSDP, DSDP, SDPA and SDPLIB use."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import TextIO

import numpy as np
import scipy.sparse as sp

from fwflow._validation import Array, InputError, parsed
from fwflow.semidefinite.operators import SparseMap, SparseOperator
from fwflow.semidefinite.problem import Problem

# Characters that may separate numbers in the lines of block sizes and right-hand sides.
_SEPARATORS = re.compile(r"[\s,{}()]+")


def read_sdpa(path: str | os.PathLike[str], trace: float | None = None) -> Problem:
    r"""Read a semidefinite program from a file in the sparse SDPA format.

    A file describes the pair of programs

    .. math::

       \min_x c^T x \;\text{ subject to }\; \textstyle\sum_i x_i F_i - F_0 \succeq 0
       \qquad\text{and}\qquad
       \max_X \langle F_0, X \rangle \;\text{ subject to }\; \langle F_i, X \rangle = c_i, \; X \succeq 0 .

    The returned problem is the second one, as a minimisation: ``C = -F_0``, ``A_i = F_i`` and ``b = c``. Its optimal
    value is therefore minus the value that other solvers print.

    Parameters
    ----------
    path : str or path
        Name of the file.
    trace : float, optional
        Upper bound on the trace of X. Without it, the bound is derived from the constraints.

    Returns
    -------
    Problem
        Program whose order is the sum of the orders of all blocks.

    Notes
    -----
    Several blocks become one block-diagonal matrix, and a block of linear variables (with a negative size) becomes a
    part of its diagonal. This changes nothing: no data matrix has entries outside the blocks, so the blocks of any
    positive semidefinite X on their own are positive semidefinite, and have the same inner products and the same trace.

    See Also
    --------
    Problem : Semidefinite program.
    solve : Solve a semidefinite program.
    write_sdpa : Write a file in this format.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from fwflow import semidefinite
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "small.dat-s"
    >>> _ = path.write_text('"trace X = 1\n1\n1\n2\n1.0\n0 1 1 1 1.0\n0 1 2 2 3.0\n1 1 1 1 1.0\n1 1 2 2 1.0\n')
    >>> problem = semidefinite.read_sdpa(path)
    >>> problem.n, problem.trace
    (2, 1.0)
    """
    with open(path, encoding="utf-8") as file:
        try:
            return _read(_Lines(file, os.fspath(path)), trace)
        except UnicodeDecodeError:
            raise InputError(f"{os.fspath(path)} is not a text file in the sparse SDPA format") from None


class _Lines:
    """Lines of a file that are not empty, without comments at the start of the file; errors name the line."""

    def __init__(self, file: TextIO, path: str) -> None:
        self.path, self.number = path, 0
        self._lines = self._without_comments(file)

    def _without_comments(self, file: TextIO) -> Iterator[str]:
        data = False
        for self.number, line in enumerate(file, 1):
            comment = line.lstrip()[:1] in ("*", '"') and not data
            if line.strip() and not comment:
                data = True
                yield line

    def __iter__(self) -> Iterator[str]:
        return self._lines

    def next(self, wanted: str) -> str:
        """Return the next line; `wanted` describes it in the error."""
        line = next(self._lines, None)
        if line is None:
            raise InputError(f"{self.path} ends after line {self.number}, before {wanted}")
        return line

    def error(self, problem: str) -> InputError:
        return InputError(f"{self.path}, line {self.number}: {problem}")

    def whole(self, text: str, name: str) -> int:
        """Return an integer, which may be written with a plus sign."""
        if not re.fullmatch(r"[+-]?[0-9]+", text):
            raise self.error(f"{name} must be an integer; got {text!r}")
        return int(text)

    def number_of(self, text: str, name: str) -> float:
        """Return a finite number; Fortran's exponents with D are accepted."""
        value = parsed(text.replace("D", "E").replace("d", "e"))
        if value is None or not np.isfinite(value):
            raise self.error(f"{name} must be a finite number; got {text!r}")
        return value


def _count(lines: _Lines, name: str) -> int:
    """Return the positive integer at the start of the next line; the rest of the line is a comment."""
    first = _SEPARATORS.split(lines.next(f"the {name}").strip())[0].split("=")[0]
    count = lines.whole(first, f"the {name}")
    if count < 1:
        raise lines.error(f"the {name} must be positive; got {count}")
    return count


def _read(lines: _Lines, trace: float | None) -> Problem:
    m, blocks = _count(lines, "number of constraints"), _count(lines, "number of blocks")
    sizes = [lines.whole(text, "a block size") for text in _vector(lines, blocks, "block sizes")]
    if 0 in sizes:
        raise lines.error("a block size must not be 0")
    b = np.array([lines.number_of(text, "a right-hand side") for text in _vector(lines, m, "right-hand sides")])
    starts, n = np.cumsum([0] + [abs(size) for size in sizes]), sum(map(abs, sizes))
    owner, rows, cols, values = [], [], [], []
    for line in lines:
        fields = _SEPARATORS.split(line.strip())
        if len(fields) != 5:
            raise lines.error(f"an entry has five fields (matrix, block, row, column, value); got {len(fields)}")
        matrix, block, i, j = (
            lines.whole(text, name) for text, name in zip(fields, ("matrix", "block", "row", "column"), strict=False)
        )
        if not 0 <= matrix <= m:
            raise lines.error(f"matrix {matrix} does not exist; there are matrices 0 to {m}")
        if not 1 <= block <= blocks:
            raise lines.error(f"block {block} does not exist; there are blocks 1 to {blocks}")
        size = sizes[block - 1]
        if not (1 <= i <= abs(size) and 1 <= j <= abs(size)):
            raise lines.error(f"entry ({i}, {j}) is outside block {block}, which has order {abs(size)}")
        if size < 0 and i != j:
            raise lines.error(f"entry ({i}, {j}) is off the diagonal of block {block}, which is diagonal")
        owner.append(matrix)
        rows.append(starts[block - 1] + min(i, j) - 1)
        cols.append(starts[block - 1] + max(i, j) - 1)
        values.append(lines.number_of(fields[4], "a value"))
    return _assemble(n, b, np.array(owner, np.int64), np.array(rows, np.int64), np.array(cols, np.int64),
                     np.array(values, np.float64), lines.path, trace)  # fmt: skip


def _vector(lines: _Lines, count: int, name: str) -> list[str]:
    """Return the numbers of the next lines, until there are `count`. They may be separated by commas and brackets."""
    found: list[str] = []
    while len(found) < count:
        found += [text for text in _SEPARATORS.split(lines.next(f"the {name}")) if text]
        if len(found) > count:
            if name != "block sizes":
                raise lines.error(f"there are {len(found)} {name}; expected {count}")
            found = found[:count]  # the rest of the line is a comment
    return found


def _assemble(
    n: int, b: Array, owner: Array, rows: Array, cols: Array, values: Array, path: str, trace: float | None
) -> Problem:
    """Return the problem with entries of the upper triangles of all matrices; matrix 0 is F_0."""
    keys = (owner * n + rows) * n + cols
    order = np.argsort(keys, kind="stable")
    twice = np.flatnonzero(np.diff(keys[order]) == 0)
    if len(twice):
        k = order[twice[0]]
        place = f"row {rows[k] + 1}, column {cols[k] + 1}"
        raise InputError(f"{path}: matrix {owner[k]} has two entries at {place}, counted over all blocks")
    cost = owner == 0
    upper = sp.coo_array((-values[cost], (rows[cost], cols[cost])), (n, n))
    C = sp.csr_array(upper + sp.triu(upper, 1).T)
    places, which = np.unique(rows[~cost] * n + cols[~cost], return_inverse=True)
    counts = np.where(rows == cols, 1.0, 2.0)[~cost]
    M = sp.csr_array((counts * values[~cost], (owner[~cost] - 1, which.reshape(-1))), (len(b), len(places)))
    return Problem(SparseOperator(C), SparseMap(n, places // n, places % n, M), b, trace)


def write_sdpa(problem: Problem, path: str | os.PathLike[str]) -> None:
    """Write a semidefinite program to a file in the sparse SDPA format.

    Inequalities get a slack variable, in a second, diagonal block. A given bound on the trace is written as one more
    inequality, unless it follows from the constraints. The optimal value that a solver prints for the file is minus
    the optimal value of the problem.

    Parameters
    ----------
    problem : Problem
        Program with sparse constraint matrices.
    path : str or path
        Name of the file. An existing file is replaced.

    See Also
    --------
    read_sdpa : Read such a file.
    Problem : Semidefinite program.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> from fwflow import semidefinite
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "small.dat-s"
    >>> semidefinite.write_sdpa(semidefinite.Problem(np.diag([1.0, 3.0]), [np.eye(2)], [1.0]), path)
    >>> semidefinite.read_sdpa(path).n
    2
    """
    found = problem.map.sparse_rows()
    if found is None:
        raise InputError("problem has constraint matrices that are not sparse; the SDPA format needs their entries")
    (rows, cols, M), n = found, problem.n
    C = np.asarray(problem.C.apply(np.eye(n))) if (known := problem.C.sparse()) is None else known
    cost = sp.coo_array(sp.triu(sp.csr_array(C)))
    entries = sp.coo_array(M)
    values = np.where(rows == cols, 1.0, 0.5)[entries.col] * entries.data
    signed, b = np.flatnonzero(problem.inequalities), problem.b
    bounded = problem.given_trace is not None and not problem.trace_is_implied
    if bounded:
        signed, b = np.append(signed, len(b)), np.append(b, problem.trace)
    with open(path, "w", encoding="utf-8") as file:
        sizes = f"{n}" if not len(signed) else f"{n} {-len(signed)}"
        file.write(f"{len(b)}\n{len(sizes.split())}\n{sizes}\n{' '.join(map(repr, b.tolist()))}\n")
        for i, j, value in zip(cost.row.tolist(), cost.col.tolist(), cost.data.tolist(), strict=True):
            file.write(f"0 1 {i + 1} {j + 1} {-value!r}\n")
        places = zip(
            entries.row.tolist(), rows[entries.col].tolist(), cols[entries.col].tolist(), values.tolist(), strict=True
        )
        for k, i, j, value in places:
            file.write(f"{k + 1} 1 {i + 1} {j + 1} {value!r}\n")
        for i in range(n if bounded else 0):
            file.write(f"{len(b)} 1 {i + 1} {i + 1} 1.0\n")
        for place, k in enumerate(signed.tolist(), 1):
            file.write(f"{k + 1} 2 {place} {place} 1.0\n")
