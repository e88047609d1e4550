"""fwflow: Frank-Wolfe as the discretisation of a flow.

>>> import numpy as np, fwflow as fw
>>> f = fw.LinearModel(np.eye(3), [1.0, 2.0, 3.0])
>>> r = fw.minimize(f, fw.L1Ball(1.0), line_search="exact")
>>> r.success
True
"""

from fwflow import checks, networks
from fwflow._storage import storable
from fwflow._version import __version__ as __version__
from fwflow.designs import Design
from fwflow.methods import (
    BlockCoordinate,
    Iterate,
    LazyFrankWolfe,
    Method,
    Proposal,
    Stochastic,
    UncertifiedWarning,
)
from fwflow.methods.problem import Evaluation, Problem
from fwflow.methods.restricted.atoms import ActiveSet, caratheodory
from fwflow.methods.restricted.blocks import BlockSet
from fwflow.networks import Beckmann, FlowPolytope, LinkCosts
from fwflow.objectives import Line, LinearModel, Loss, MatrixCompletion, Objective, Quadratic, Smooth
from fwflow.points.gradients import Gradient
from fwflow.points.lowrank import LowRank
from fwflow.points.point import Point
from fwflow.points.vertices import DenseVertex, OneHot, Permutation, RankOne, SparseVertex, Vertex
from fwflow.run.intersections import Alternation, alternate
from fwflow.run.loop import minimize
from fwflow.run.result import Result, State, Status
from fwflow.run.trace import Trace
from fwflow.sets import (
    Birkhoff,
    Box,
    ConstraintSet,
    ConvexHull,
    Ellipsoid,
    Fantope,
    GroupBall,
    HyperSimplex,
    KNormBall,
    KSparseBall,
    L1Ball,
    L2Ball,
    LinearImage,
    LInfBall,
    LpBall,
    Matching,
    MinkowskiSum,
    MixedInteger,
    NuclearBall,
    OWLBall,
    Permutahedron,
    Polytope,
    Product,
    ScaledSet,
    SchattenBall,
    ShortestPath,
    Simplex,
    SpanningTree,
    Spectrahedron,
    Spectraplex,
    Translated,
    TransportPolytope,
    UnitHyperSimplex,
    UnitSimplex,
)
from fwflow.steps.boosted import Boosted
from fwflow.steps.momentum import GradientAveraging, LMOAveraging, Momentum, Nesterov
from fwflow.steps.schedules import ConstantSchedule, LogOpenLoop, OpenLoop, Schedule
from fwflow.steps.searches import Adaptive, Aggressive, Armijo, ExactSearch, LineSearch, ShortStep
from fwflow.tableau.catalogue import tableaus
from fwflow.tableau.scheme import Certificate, Tableau
from fwflow.trajectories.diagnostics import ZigZag, fit_rate, zigzag_energy
from fwflow.trajectories.following import ExactTrajectory, Trajectory, exact_flow, flow, rate_bound

__all__ = [
    "ActiveSet",
    "Adaptive",
    "Aggressive",
    "Alternation",
    "Armijo",
    "Beckmann",
    "Birkhoff",
    "BlockCoordinate",
    "BlockSet",
    "Boosted",
    "Box",
    "Certificate",
    "ConstantSchedule",
    "ConstraintSet",
    "ConvexHull",
    "DenseVertex",
    "Design",
    "Ellipsoid",
    "Evaluation",
    "ExactSearch",
    "ExactTrajectory",
    "Fantope",
    "FlowPolytope",
    "Gradient",
    "GradientAveraging",
    "GroupBall",
    "HyperSimplex",
    "Iterate",
    "KNormBall",
    "KSparseBall",
    "L1Ball",
    "L2Ball",
    "LInfBall",
    "LMOAveraging",
    "LazyFrankWolfe",
    "Line",
    "LineSearch",
    "LinearImage",
    "LinearModel",
    "LinkCosts",
    "LogOpenLoop",
    "Loss",
    "LowRank",
    "LpBall",
    "Matching",
    "MatrixCompletion",
    "Method",
    "MinkowskiSum",
    "MixedInteger",
    "Momentum",
    "Nesterov",
    "NuclearBall",
    "OWLBall",
    "Objective",
    "OneHot",
    "OpenLoop",
    "Permutahedron",
    "Permutation",
    "Point",
    "Polytope",
    "Problem",
    "Product",
    "Proposal",
    "Quadratic",
    "RankOne",
    "Result",
    "ScaledSet",
    "SchattenBall",
    "Schedule",
    "ShortStep",
    "ShortestPath",
    "Simplex",
    "Smooth",
    "SpanningTree",
    "SparseVertex",
    "Spectrahedron",
    "Spectraplex",
    "State",
    "Status",
    "Stochastic",
    "Tableau",
    "Trace",
    "Trajectory",
    "Translated",
    "TransportPolytope",
    "UncertifiedWarning",
    "UnitHyperSimplex",
    "UnitSimplex",
    "Vertex",
    "ZigZag",
    "alternate",
    "caratheodory",
    "checks",
    "exact_flow",
    "fit_rate",
    "flow",
    "minimize",
    "networks",
    "rate_bound",
    "storable",
    "tableaus",
    "zigzag_energy",
]
