"""What is minimised? Linear models, quadratics, matrix completion, and any function with its gradient."""

from fwflow.objectives.base import Counts, Line, Objective
from fwflow.objectives.completion import MatrixCompletion
from fwflow.objectives.linear_model import LinearModel
from fwflow.objectives.losses import Huber, Logistic, Loss, Squared, losses
from fwflow.objectives.quadratic import Quadratic
from fwflow.objectives.smooth import Smooth

__all__ = [
    "Counts",
    "Huber",
    "Line",
    "LinearModel",
    "Logistic",
    "Loss",
    "MatrixCompletion",
    "Objective",
    "Quadratic",
    "Smooth",
    "Squared",
    "losses",
]
