"""Catalogue of constraint sets.

A new set is imported here and named in ``__all__``. The public names of fwflow, ``fwflow list sets`` and the
documentation read this list.
"""

from fwflow.sets.base import ConstraintSet, ScaledSet, Translated
from fwflow.sets.bounded import BoundedL1Ball, BoundedSimplex
from fwflow.sets.callables import CallableSet as CallableSet  # Users pass a function instead.
from fwflow.sets.ellipsoids import Ellipsoid
from fwflow.sets.graphs import Matching, ShortestPath, SpanningTree
from fwflow.sets.hypersimplices import HyperSimplex, KSparseBall, UnitHyperSimplex, UnitSimplex
from fwflow.sets.ordered import KNormBall, OWLBall, Permutahedron
from fwflow.sets.polytopes import ConvexHull, MixedInteger, Polytope
from fwflow.sets.products import LinearImage, MinkowskiSum, Product
from fwflow.sets.spectral import Fantope, NuclearBall, SchattenBall, Spectrahedron, Spectraplex
from fwflow.sets.symmetric import Symmetric
from fwflow.sets.transport import Birkhoff, TransportPolytope
from fwflow.sets.vectors import Box, GroupBall, L1Ball, L2Ball, LInfBall, LpBall, Simplex

__all__ = [
    "Birkhoff",
    "BoundedL1Ball",
    "BoundedSimplex",
    "Box",
    "ConstraintSet",
    "ConvexHull",
    "Ellipsoid",
    "Fantope",
    "GroupBall",
    "HyperSimplex",
    "KNormBall",
    "KSparseBall",
    "L1Ball",
    "L2Ball",
    "LInfBall",
    "LinearImage",
    "LpBall",
    "Matching",
    "MinkowskiSum",
    "MixedInteger",
    "NuclearBall",
    "OWLBall",
    "Permutahedron",
    "Polytope",
    "Product",
    "ScaledSet",
    "SchattenBall",
    "ShortestPath",
    "Simplex",
    "SpanningTree",
    "Spectrahedron",
    "Spectraplex",
    "Symmetric",
    "Translated",
    "TransportPolytope",
    "UnitHyperSimplex",
    "UnitSimplex",
]
