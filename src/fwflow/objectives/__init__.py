"""What is minimised? Losses of linear models, quadratics, matrix completion, and any function of one's own."""

from fwflow.objectives.base import Line, NumericalTrouble, Objective
from fwflow.objectives.completion import MatrixCompletion
from fwflow.objectives.linear_model import LinearModel
from fwflow.objectives.losses import Huber, Logistic, Loss, Squared, losses
from fwflow.objectives.quadratic import Quadratic
from fwflow.objectives.smooth import Smooth

__all__ = [
    "Huber",
    "Line",
    "LinearModel",
    "Logistic",
    "Loss",
    "MatrixCompletion",
    "NumericalTrouble",
    "Objective",
    "Quadratic",
    "Smooth",
    "Squared",
    "losses",
]
