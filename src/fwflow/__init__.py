"""fwflow: Frank-Wolfe as the discretisation of a flow.

>>> import numpy as np, fwflow as fw
>>> f = fw.LinearModel(np.eye(3), [1.0, 2.0, 3.0])
>>> r = fw.minimize(f, fw.L1Ball(1.0), line_search="exact")
>>> r.success
True
"""

from fwflow import checks, networks, semidefinite, sets
from fwflow import trajectories as _trajectories
from fwflow._assignment.solve import AssignmentResult, quadratic_assignment
from fwflow._storage import storable
from fwflow._version import __version__ as __version__
from fwflow.designs import Design
from fwflow.methods import BlockCoordinate, Iterate, LazyFrankWolfe, Method, Proposal, Stochastic, UncertifiedWarning
from fwflow.methods.problem import Evaluation, Problem
from fwflow.methods.restricted.atoms import ActiveSet, caratheodory
from fwflow.methods.restricted.blocks import BlockSet
from fwflow.networks import Beckmann, FlowPolytope, LinkCosts
from fwflow.objectives import (
    DifferenceOfConvex,
    ImageMap,
    Line,
    LinearModel,
    Loss,
    MatrixCompletion,
    Objective,
    Quadratic,
    Smooth,
)
from fwflow.points.gradients import Gradient
from fwflow.points.lowrank import LowRank
from fwflow.points.point import Point
from fwflow.points.vertices import DenseVertex, OneHot, Permutation, RankOne, SparseVertex, Vertex
from fwflow.run.cvxpy_problems import solve_cvxpy
from fwflow.run.intersections import Alternation, alternate
from fwflow.run.loop import minimize
from fwflow.run.paths import PathResult, path
from fwflow.run.result import Result, State, Status
from fwflow.run.trace import Trace
from fwflow.sets import *  # noqa: F403 - the names are in the __all__ of the module
from fwflow.sets.models import from_cvxpy, from_highs
from fwflow.steps import momentum as _momentum
from fwflow.steps import schedules as _schedules
from fwflow.steps import searches as _searches
from fwflow.steps.boosted import Boosted
from fwflow.steps.momentum import *  # noqa: F403 - as for sets
from fwflow.steps.schedules import *  # noqa: F403 - as for sets
from fwflow.steps.searches import *  # noqa: F403 - as for sets
from fwflow.tableau import catalogue as _catalogue
from fwflow.tableau.scheme import Certificate, Tableau
from fwflow.trajectories import *  # noqa: F403 - as for sets

__all__ = [
    "ActiveSet",
    "Alternation",
    "AssignmentResult",
    "Beckmann",
    "BlockCoordinate",
    "BlockSet",
    "Boosted",
    "Certificate",
    "DenseVertex",
    "Design",
    "DifferenceOfConvex",
    "Evaluation",
    "FlowPolytope",
    "Gradient",
    "ImageMap",
    "Iterate",
    "LazyFrankWolfe",
    "Line",
    "LinearModel",
    "LinkCosts",
    "Loss",
    "LowRank",
    "MatrixCompletion",
    "Method",
    "Objective",
    "OneHot",
    "PathResult",
    "Permutation",
    "Point",
    "Problem",
    "Proposal",
    "Quadratic",
    "RankOne",
    "Result",
    "Smooth",
    "SparseVertex",
    "State",
    "Status",
    "Stochastic",
    "Tableau",
    "Trace",
    "UncertifiedWarning",
    "Vertex",
    "alternate",
    "caratheodory",
    "checks",
    "from_cvxpy",
    "from_highs",
    "minimize",
    "networks",
    "path",
    "quadratic_assignment",
    "semidefinite",
    "solve_cvxpy",
    "storable",
    "tableaus",
]
# Sets, momenta, schedules, line searches and trajectories are listed in the modules that define them.
__all__ += sets.__all__
__all__ += _momentum.__all__
__all__ += _schedules.__all__
__all__ += _searches.__all__
__all__ += _trajectories.__all__
__all__.sort()

#: Tableaus of the library by name, for example ``fw.tableaus["rk44"]``. `minimize` accepts every name as ``method``.
tableaus = _catalogue.tableaus
