"""Semidefinite programs with certified bounds.

>>> import numpy as np
>>> from fwflow import semidefinite
>>> semidefinite.maxcut(np.ones((4, 4))).cut_value
4.0
"""

from fwflow.semidefinite.completion import completion
from fwflow.semidefinite.cuts import CutResult, maxcut
from fwflow.semidefinite.problem import Problem
from fwflow.semidefinite.program import SemidefiniteResult
from fwflow.semidefinite.sdpa import read_sdpa, write_sdpa
from fwflow.semidefinite.solver import solve
from fwflow.semidefinite.theta import theta

__all__ = [
    "CutResult",
    "Problem",
    "SemidefiniteResult",
    "completion",
    "maxcut",
    "read_sdpa",
    "solve",
    "theta",
    "write_sdpa",
]
