"""Linear and mixed-integer programs from MPS files, read by HiGHS."""

from __future__ import annotations

from os import PathLike, fspath
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from fwflow._storage.files import opened
from fwflow._validation import Array, InputError, parsed
from fwflow.sets.highs import load_highspy

#: Sections whose lines end with a value; below, all sections.
_VALUED = frozenset({"COLUMNS", "RHS", "RANGES", "BOUNDS"})
_SECTIONS = _VALUED | {"NAME", "OBJSENSE", "ROWS", "QUADOBJ", "QMATRIX", "SOS", "ENDATA"}
#: Types of bounds without a value: free, infinite and binary columns.
_WITHOUT_VALUE = frozenset({"FR", "MI", "PL", "BV"})


class Mps(NamedTuple):
    """A linear or mixed-integer program: minimise ``cost @ x`` over ``A x <= b, C x = d, lower <= x <= upper``.

    The costs of a maximisation problem have the opposite sign.
    """

    A: sp.csr_array
    b: Array
    C: sp.csr_array
    d: Array
    lower: Array
    upper: Array
    integrality: Array
    cost: Array
    names: list[str]


def read(path: str | PathLike[str]) -> Mps:
    """Read a program from a file ``.mps`` or ``.mps.gz``, in fixed or free format.

    A row with a range becomes two inequalities, and rows without a finite right-hand side are left out.
    """
    highspy = load_highspy("reading MPS files")
    name = fspath(path)
    if not name.lower().endswith((".mps", ".mps.gz")):
        raise InputError(f"path must end in .mps or .mps.gz; got {name!r}")
    if not Path(name).is_file():
        raise FileNotFoundError(f"path is {name!r}; this file does not exist")
    _check_numbers(Path(name))
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    if solver.readModel(name) == highspy.HighsStatus.kError:
        raise InputError(f"{name} is not an MPS file of a linear program that HiGHS can read")
    model = solver.getModel()
    if model.hessian_.dim_:
        raise InputError(f"{name} has a quadratic objective; only linear and mixed-integer linear programs can be read")
    return of_lp(model.lp_, name)


def of_lp(lp: Any, name: str) -> Mps:
    """Return the arrays of a ``HighsLp``; errors call it `name`."""
    highspy = load_highspy("a model of HiGHS")
    kinds = highspy.HighsVarType
    if not lp.num_col_:
        raise InputError(f"{name} has no columns")
    if not set(lp.integrality_) <= {kinds.kContinuous, kinds.kInteger}:
        raise InputError(f"{name} has semi-continuous columns; only continuous and integer columns can be read")
    rows = _rows(lp, highspy.MatrixFormat.kColwise)
    low, high = np.array(lp.row_lower_), np.array(lp.row_upper_)
    least, most = np.append(low, lp.col_lower_), np.append(high, lp.col_upper_)
    if not ((least < np.inf).all() and (most > -np.inf).all() and np.isfinite(rows.data).all()):
        raise InputError(f"{name} must have finite coefficients, lower bounds below inf and upper bounds above -inf")
    equal = low == high
    above, below = ~equal & np.isfinite(high), ~equal & np.isfinite(low)
    return Mps(
        A=sp.vstack([rows[above], -rows[below]], format="csr"),
        b=np.append(high[above], -low[below]),
        C=rows[equal],
        d=high[equal],
        lower=np.array(lp.col_lower_),
        upper=np.array(lp.col_upper_),
        integrality=np.array([kind == kinds.kInteger for kind in lp.integrality_] or [False] * lp.num_col_),
        cost=np.array(lp.col_cost_) * (-1.0 if lp.sense_ == highspy.ObjSense.kMaximize else 1.0),
        names=list(lp.col_names_),
    )


def _check_numbers(path: Path) -> None:
    """Raise an error for a value that is not a number: HiGHS reads 1_000 as 1, and skips unreadable values."""
    section = ""
    with opened(path) as file:
        for i, line in enumerate(file, 1):
            words = line.decode("latin-1").partition("$")[0].split()
            if not words or line.startswith(b"*") or "'MARKER'" in words:
                continue
            first, count = words[0].upper(), len(words)
            if not line[:1].isspace() and first in _SECTIONS and (count == 1 or first not in _VALUED):
                section = first
            elif section in _VALUED and not (section == "BOUNDS" and first in _WITHOUT_VALUE):
                two = count >= 5 or (count == 4 and section in ("RHS", "RANGES"))
                # In fixed format a name may contain spaces, so that the third word from the end may be part of a name.
                for word in (words[-3], words[-1]) if two and words[-3][0] in "+-.0123456789" else words[-1:]:
                    value = parsed(word.lower().replace("d", "e"))  # Fortran's exponents are accepted.
                    if value is None or np.isnan(value):
                        raise InputError(f"{path}, line {i} must hold numbers as values; it has {word!r}")


def _rows(lp: Any, by_column: Any) -> sp.csr_array:
    matrix, shape = lp.a_matrix_, (lp.num_row_, lp.num_col_)
    kind = sp.csc_array if matrix.format_ == by_column else sp.csr_array
    return sp.csr_array(kind((matrix.value_, matrix.index_, matrix.start_), shape=shape))
