"""Which linear program does an MPS file hold? Read by HiGHS."""

from __future__ import annotations

from os import PathLike, fspath
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from fwflow._validation import Array


class Mps(NamedTuple):
    """A linear or mixed-integer program: minimise ``cost @ x`` over ``A x <= b, C x = d, lower <= x <= upper``.

    Costs of a program that maximises have the other sign.
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

    @property
    def rows(self) -> tuple[sp.csr_array, Array, sp.csr_array, Array]:
        """Inequalities and equalities."""
        return self.A, self.b, self.C, self.d


def read(path: str | PathLike[str]) -> Mps:
    """The program in a file; a range of a row is two inequalities, and rows without sides are left out.

    Parameters
    ----------
    path : path
        Of a file that ends in ``.mps`` or ``.mps.gz``, of fixed or free format.
    """
    try:
        import highspy
    except ImportError:
        raise ImportError("reading MPS files needs highspy: pip install 'fwflow[mps]'") from None
    name = fspath(path)
    if not name.lower().endswith((".mps", ".mps.gz")):
        raise ValueError(f"path must end in .mps or .mps.gz; got {name!r}")
    if not Path(name).is_file():
        raise FileNotFoundError(f"path is {name!r}, and there is no such file")
    solver = highspy.Highs()  # type: ignore[no-untyped-call]
    solver.setOptionValue("output_flag", False)
    if solver.readModel(name) == highspy.HighsStatus.kError:
        raise ValueError(f"{name} is no MPS file of a linear program that HiGHS can read")
    model, kinds = solver.getModel(), highspy.HighsVarType
    lp = model.lp_
    if not lp.num_col_:
        raise ValueError(f"{name} has no columns")
    if model.hessian_.dim_:
        raise ValueError(f"{name} has a quadratic objective; only linear programs, with integers or without, are read")
    if not set(lp.integrality_) <= {kinds.kContinuous, kinds.kInteger}:
        raise ValueError(f"{name} has semi-continuous columns, which no convex polytope has")
    rows = _rows(lp, highspy.MatrixFormat.kColwise)
    low, high = np.array(lp.row_lower_), np.array(lp.row_upper_)
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


def _rows(lp: Any, by_column: Any) -> sp.csr_array:
    matrix, shape = lp.a_matrix_, (lp.num_row_, lp.num_col_)
    kind = sp.csc_array if matrix.format_ == by_column else sp.csr_array
    return sp.csr_array(kind((matrix.value_, matrix.index_, matrix.start_), shape=shape))
