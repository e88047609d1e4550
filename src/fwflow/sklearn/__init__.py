"""Estimators for scikit-learn whose coefficients are constrained by a radius instead of penalised.

They need the extra ``sklearn``. Every fit reports ``dual_gap_``, which is recomputed at the coefficients and bounds the
difference between the loss and its minimum over the constraint set.

>>> import numpy as np
>>> from fwflow.sklearn import L1Regression
>>> X = np.random.default_rng(0).standard_normal((50, 20))
>>> model = L1Regression(radius=2.0).fit(X, 2 * X[:, 3] + 1)
>>> np.flatnonzero(model.coef_.round(3)), round(model.intercept_, 3)
(array([3]), 1.0)
"""

try:
    import sklearn as _sklearn  # noqa: F401
except ImportError as error:
    raise ImportError("fwflow.sklearn needs scikit-learn; pip install 'fwflow[sklearn]' brings it") from error

from fwflow.sklearn.completion import NuclearCompletion
from fwflow.sklearn.linear import GroupClassifier, GroupRegression, L1Classifier, L1Regression, SimplexRegression
from fwflow.sklearn.paths import (
    GroupClassifierCV,
    GroupRegressionCV,
    L1ClassifierCV,
    L1RegressionCV,
    NuclearCompletionCV,
    RadiusPath,
    SimplexRegressionCV,
    radius_path,
)

__all__ = [
    "GroupClassifier",
    "GroupClassifierCV",
    "GroupRegression",
    "GroupRegressionCV",
    "L1Classifier",
    "L1ClassifierCV",
    "L1Regression",
    "L1RegressionCV",
    "NuclearCompletion",
    "NuclearCompletionCV",
    "RadiusPath",
    "SimplexRegression",
    "SimplexRegressionCV",
    "radius_path",
]
