"""Objectives: linear models, quadratics, matrix completion, and functions given by users."""

from fwflow.objectives.base import ImageMap, Line, Objective
from fwflow.objectives.completion import MatrixCompletion
from fwflow.objectives.difference import DifferenceOfConvex
from fwflow.objectives.image_based import Quadratic
from fwflow.objectives.linear_model import LinearModel
from fwflow.objectives.losses import Huber, Logistic, Loss, Squared
from fwflow.objectives.smooth import Smooth

__all__ = [
    "DifferenceOfConvex",
    "Huber",
    "ImageMap",
    "Line",
    "LinearModel",
    "Logistic",
    "Loss",
    "MatrixCompletion",
    "Objective",
    "Quadratic",
    "Smooth",
    "Squared",
]
