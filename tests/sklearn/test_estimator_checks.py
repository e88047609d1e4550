"""All checks of scikit-learn for estimators, with a list of the checks that cannot apply to matrix completion."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import fwflow as fw
from fwflow.sklearn import (
    GroupClassifier,
    GroupClassifierCV,
    GroupRegression,
    GroupRegressionCV,
    L1Classifier,
    L1ClassifierCV,
    L1Regression,
    L1RegressionCV,
    NuclearCompletion,
    SimplexRegression,
    SimplexRegressionCV,
)

# Some checks compare predictions with a relative tolerance of 1e-7.
ESTIMATORS = [
    L1Regression(tol=1e-12),
    L1Regression(loss="huber", tol=1e-12),
    SimplexRegression(tol=1e-12),
    GroupRegression(tol=1e-12),
    L1Classifier(tol=1e-12),
    GroupClassifier(tol=1e-12),
    L1Regression(loss="quantile", quantile=0.3, tol=1e-12),
    L1Regression(loss="poisson", tol=1e-12),
    L1Regression(positive=True, tol=1e-12),
    L1Classifier(positive=True, tol=1e-12),
]
# These paths end at small radii. At large radii the loss of separable classes is flat: even with a gap of 1e-14 the
# scores have a relative accuracy of 1e-7 at best, and the scores of weighted and of repeated samples differ by as much.
SEARCHES = [
    L1RegressionCV(n_radii=3, cv=3),
    SimplexRegressionCV(n_radii=5, cv=2, eps=0.5, tol=1e-12),
    GroupRegressionCV(n_radii=5, cv=2, eps=0.5, tol=1e-12),
    L1ClassifierCV(n_radii=5, cv=2, eps=0.3),
    # Automatic radii would end at balls in which the loss of separable classes is flat.
    GroupClassifierCV(radii=[1.0, 3.0], cv=2, tol=1e-10),
    L1RegressionCV(loss="poisson", n_radii=5, cv=2, eps=0.5),
    L1RegressionCV(radii=[0.5, 1.0], positive=True, cv=3, tol=1e-12),
]


@pytest.mark.sampled(4)
@parametrize_with_checks(ESTIMATORS)
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


@pytest.mark.sampled(8)
@pytest.mark.filterwarnings("ignore:.* is at the end of the radii that were tried:UserWarning")
@parametrize_with_checks(SEARCHES)
def test_scikit_learns_own_checks_of_searches(estimator, check):
    check(estimator)


#: Checks that cannot pass because their data are not pairs of a row and a column, with the expected error message.
NO_PAIRS = dict.fromkeys(
    [
        "check_all_zero_sample_weights_error",
        "check_dict_unchanged",
        "check_dont_overwrite_parameters",
        "check_dtype_object",
        "check_estimator_sparse_tag",
        "check_estimators_dtypes",
        "check_estimator_sparse_array",
        "check_estimator_sparse_matrix",
        "check_estimators_nan_inf",
        "check_estimators_pickle",
        "check_f_contiguous_array_estimator",
        "check_fit2d_1feature",
        "check_fit2d_1sample",
        "check_fit2d_predict1d",
        "check_fit_score_takes_y",
        "check_methods_sample_order_invariance",
        "check_methods_subset_invariance",
        "check_n_features_in_after_fitting",
        "check_non_transformer_estimators_n_iter",
        "check_pipeline_consistency",
        "check_positive_only_tag_during_fit",
        "check_regressor_data_not_an_array",
        "check_regressors_int",
        "check_regressors_no_decision_function",
        "check_regressors_train",
        "check_sample_weight_equivalence_on_dense_data",
        "check_sample_weight_equivalence_on_sparse_data",
        "check_sample_weights_list",
        "check_supervised_y_2d",
    ],
    "X must have two columns, the names of a row and of a column",
)


@parametrize_with_checks([NuclearCompletion()], expected_failed_checks=lambda estimator: NO_PAIRS, xfail_strict=True)
def test_scikit_learns_own_checks_of_completion(estimator, check):
    check(estimator)


def test_the_check_that_needs_another_environment():
    """The checks above skip it unless SCIPY_ARRAY_API is set before SciPy is imported."""
    script = f"""
from sklearn.utils.estimator_checks import check_array_api_input
from fwflow.sklearn import *
for model in {[*ESTIMATORS, *SEARCHES]!r}:
    check_array_api_input(type(model).__name__, model, array_namespace="numpy", expect_only_array_outputs=False)
print("done")
"""
    environment = os.environ | {"SCIPY_ARRAY_API": "1", "PYTHONPATH": str(Path(fw.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=False)
    assert done.stdout == "done\n", done.stderr
