"""Work of a method, estimated from counts instead of time, so that runs that switch methods can be repeated.

The unit is one entry of a dense matrix that a product reads. One core reads about 3e9 entries per second. The
constants were measured in this unit with benchmarks/core.py and benchmarks/auto.py.
"""

from __future__ import annotations

from fwflow.methods.problem import Problem
from fwflow.points.point import Point

#: Fixed work of one step, without its products.
STEP = 4e5
# Work of building a quadratic model of f for a correction of weights, and of each atom in it.
_MODEL, _ATOM = 1.5e6, 5e4
# Work of adding an atom to the factorisation of a correction, or of dropping one.
_EVENT = 6e5
# Work of one multiplication inside a product of two matrices, which reads memory less often than a pass does.
_FLOP = 0.15
# Work of one oracle call for each entry of x.
_CALL = 30.0
# Smallest work of one gradient of a function with unknown cost: about a millisecond.
_UNKNOWN = 3e6


def gradient(problem: Problem, x: Point) -> float:
    """Return the work of one gradient."""
    return problem.objective.data_cost.of_pass or max(_CALL * x.x.size, _UNKNOWN)


def oracle(x: Point) -> float:
    """Return the work of one oracle call."""
    return _CALL * x.x.size


def correction(problem: Problem, x: Point, atoms: float, changes: float) -> float:
    """Return the work of correcting the weights of some atoms, of which `changes` are added or dropped."""
    f = problem.objective
    image = float(x.x.size if f.image_map is None else f.image_map.size)
    products = _FLOP * (image * atoms**2 + atoms**3)
    models = 1 if f.quadratic else 3
    return models * (_MODEL + products + changes * (_EVENT + image * atoms)) + _ATOM * atoms
