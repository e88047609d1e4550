"""fwflow: Frank-Wolfe as the discretisation of a flow.

>>> import numpy as np, fwflow as fw
>>> f = fw.LinearModel(np.eye(3), [1.0, 2.0, 3.0])
>>> r = fw.minimize(f, fw.L1Ball(1.0), line_search="exact")
>>> r.success
True
"""

from fwflow import checks
from fwflow.diagnostics import ZigZag, fit_rate, zigzag_energy
from fwflow.flow import ExactTrajectory, Trajectory, exact_flow, flow, rate_bound
from fwflow.methods import Method, Proposal, UncertifiedWarning
from fwflow.methods.atoms import ActiveSet
from fwflow.momentum import GradientAveraging, LMOAveraging, Nesterov
from fwflow.objectives import LinearModel, MatrixCompletion, Objective, Quadratic, Smooth
from fwflow.points import LowRank, OneHot, RankOne
from fwflow.result import Result, State, Status
from fwflow.sets import (
    Birkhoff,
    Box,
    ConstraintSet,
    ConvexHull,
    L1Ball,
    L2Ball,
    LInfBall,
    LpBall,
    NuclearBall,
    Polytope,
    Product,
    ScaledSet,
    Simplex,
    Translated,
)
from fwflow.solve import minimize
from fwflow.steps import Adaptive, Aggressive, Armijo, Exact, Fixed, LogOpenLoop, OpenLoop, Schedule, Short
from fwflow.tableaus import Certificate, Tableau, tableaus
from fwflow.trace import Trace

__version__ = "0.1.0"

__all__ = [
    "ActiveSet",
    "Adaptive",
    "Aggressive",
    "Armijo",
    "Birkhoff",
    "Box",
    "Certificate",
    "ConstraintSet",
    "ConvexHull",
    "Exact",
    "ExactTrajectory",
    "Fixed",
    "GradientAveraging",
    "L1Ball",
    "L2Ball",
    "LInfBall",
    "LMOAveraging",
    "LinearModel",
    "LogOpenLoop",
    "LowRank",
    "LpBall",
    "MatrixCompletion",
    "Method",
    "Nesterov",
    "NuclearBall",
    "Objective",
    "OneHot",
    "OpenLoop",
    "Polytope",
    "Product",
    "Proposal",
    "Quadratic",
    "RankOne",
    "Result",
    "ScaledSet",
    "Schedule",
    "Short",
    "Simplex",
    "Smooth",
    "State",
    "Status",
    "Tableau",
    "Trace",
    "Trajectory",
    "Translated",
    "UncertifiedWarning",
    "ZigZag",
    "checks",
    "exact_flow",
    "fit_rate",
    "flow",
    "minimize",
    "rate_bound",
    "tableaus",
    "zigzag_energy",
]
