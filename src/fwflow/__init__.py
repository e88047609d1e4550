"""fwflow: Frank-Wolfe as the discretisation of a flow.

>>> import numpy as np, fwflow as fw
>>> f = fw.LinearModel(np.eye(3), [1.0, 2.0, 3.0])
>>> r = fw.minimize(f, fw.L1Ball(1.0), line_search="exact")
>>> r.success
True
"""

from fwflow import checks, networks
from fwflow._version import __version__ as __version__
from fwflow.atoms import ActiveSet, caratheodory
from fwflow.blocks import BlockSet
from fwflow.designs import Design
from fwflow.diagnostics import ZigZag, fit_rate, zigzag_energy
from fwflow.gradients import Gradient
from fwflow.intersections import Alternation, alternate
from fwflow.lowrank import LowRank
from fwflow.methods import (
    BlockCoordinate,
    Boosted,
    Iterate,
    LazyFrankWolfe,
    Method,
    Proposal,
    Stochastic,
    UncertifiedWarning,
)
from fwflow.momentum import GradientAveraging, LMOAveraging, Momentum, Nesterov
from fwflow.networks import Beckmann, FlowPolytope, LinkCosts
from fwflow.objectives import Line, LinearModel, Loss, MatrixCompletion, Objective, Quadratic, Smooth
from fwflow.points import Point
from fwflow.problem import Evaluation, Problem
from fwflow.result import Result, State, Status
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
from fwflow.solve import minimize
from fwflow.steps import (
    Adaptive,
    Aggressive,
    Armijo,
    ConstantSchedule,
    ExactSearch,
    LineSearch,
    LogOpenLoop,
    OpenLoop,
    Schedule,
    ShortStep,
)
from fwflow.storage import storable
from fwflow.tableau import Certificate, Tableau, tableaus
from fwflow.trace import Trace
from fwflow.trajectories import ExactTrajectory, Trajectory, exact_flow, flow, rate_bound
from fwflow.vertices import DenseVertex, OneHot, Permutation, RankOne, SparseVertex, Vertex

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
