"""Parameters of the estimators: names, defaults, descriptions and checks; and exclusions from recommendations."""

import inspect
import math
import re

import numpy as np
import pytest
import scipy.sparse as sp

import fwflow.sklearn
import sklearn
from fwflow.sklearn import GroupRegression, L1Classifier, L1RegressionCV, NuclearCompletion, radius_path

RNG = np.random.default_rng(0)
X = RNG.standard_normal((12, 3))
Y = X[:, 0]
PAIRS = np.array([[row, column] for row in range(4) for column in range(3)])
ESTIMATORS = {name: E for name in fwflow.sklearn.__all__ if inspect.isclass(E := getattr(fwflow.sklearn, name))}
ESTIMATORS = {name: E for name, E in ESTIMATORS.items() if "get_params" in dir(E)}

FIT = {"fit_intercept": True, "method": "auto", "tol": 1e-8, "rtol": 0.0, "max_iter": 10_000, "warm_start": False}
LOSS = {"loss": "squared", "rho": None, "quantile": 0.5}
POSITIVE = {"positive": False}
GROUPS = {"groups": None, "p": 2.0}
CLASSES = {"class_weight": None}
COMPLETION = {"biases": True, "damping": 5.0, "tol": 1e-4}
RADIUS = {"radius": 1.0}
SEARCH = {"radii": "auto", "n_radii": 25, "eps": None, "cv": None, "rule": "best", "n_jobs": None, "progress": False}
DEVICE = {"backend": "numpy"}
#: Names and defaults of the parameters of each estimator. Users rely on them.
DEFAULTS = {
    "GroupClassifier": FIT | RADIUS | GROUPS | CLASSES,
    "GroupClassifierCV": FIT | SEARCH | GROUPS | CLASSES,
    "GroupRegression": FIT | RADIUS | GROUPS | LOSS,
    "GroupRegressionCV": FIT | SEARCH | GROUPS | LOSS,
    "L1Classifier": FIT | RADIUS | CLASSES | POSITIVE,
    "L1ClassifierCV": FIT | SEARCH | DEVICE | CLASSES | POSITIVE,
    "L1Regression": FIT | RADIUS | LOSS | POSITIVE,
    "L1RegressionCV": FIT | SEARCH | DEVICE | LOSS | POSITIVE,
    "NuclearCompletion": FIT | RADIUS | LOSS | COMPLETION,
    "NuclearCompletionCV": FIT | SEARCH | LOSS | COMPLETION | {"n_radii": 10, "eps": 0.1},
    "SimplexRegression": FIT | RADIUS | LOSS,
    "SimplexRegressionCV": FIT | SEARCH | DEVICE | LOSS,
}


def test_the_table_has_every_estimator():
    assert set(DEFAULTS) == set(ESTIMATORS)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_names_and_defaults(name):
    model = ESTIMATORS[name]()
    assert model.get_params() == DEFAULTS[name]
    first = [p.name for p in inspect.signature(type(model)).parameters.values() if p.kind is not p.KEYWORD_ONLY]
    assert first == ["radii" if name.endswith("CV") else "radius"]
    assert set(vars(model)) == set(DEFAULTS[name])


@pytest.mark.parametrize("name", ESTIMATORS)
def test_estimators_print_and_compare_as_those_of_scikit_learn(name):
    model = ESTIMATORS[name](tol=0.5)
    assert repr(model) == f"{name}(tol=0.5)"
    assert repr(sklearn.clone(model)) == repr(model)
    assert model != sklearn.clone(model)
    assert len({model, model}) == 1


def entries(name, section):
    """Return the names in a section of the docstring of an estimator."""
    found = re.search(rf"^{section}\n-+\n(.*?)(?=^\w+\n-+\n|\Z)", inspect.getdoc(ESTIMATORS[name]), re.M | re.S)
    lines = re.findall(r"^\w.*", "" if found is None else found[1], re.M)
    return {part for line in lines for part in line.split(" : ")[0].split(", ")}


def described(name, section):
    """Return the names in a section of the docstring of an estimator, and in the docstrings to which it refers."""
    names = entries(name, section)
    others = {other for other in re.findall(r"`(\w+)`", inspect.getdoc(ESTIMATORS[name])) if other in ESTIMATORS}
    return names.union(*(described(other, section) for other in others - {name}))


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_parameter_and_attribute_is_described(name):
    if name.endswith("CV"):
        assert f"`{name.removesuffix('CV')}`" in inspect.getdoc(ESTIMATORS[name])
    assert set(DEFAULTS[name]) <= described(name, "Parameters")
    few = {"n_radii": 2, "cv": 2} if name.endswith("CV") else {}
    found = {key for key in vars(fitted(name, **few)) if key.endswith("_") and not key.startswith("_")}
    assert found <= described(name, "Attributes")


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_described_parameter_exists(name):
    assert entries(name, "Parameters") <= set(DEFAULTS[name])


NUMBERS = [-1.0, math.nan, math.inf, "one", None, [1.0], 1j]
SWITCHES = [-1, math.nan, "yes", None, [True]]
WRONG = {
    "radius": [*NUMBERS, 0],
    "rho": [number for number in NUMBERS if number is not None] + [0],
    "quantile": [*NUMBERS, 0, 1],
    "tol": NUMBERS,
    "rtol": NUMBERS,
    "damping": NUMBERS,
    "max_iter": [*NUMBERS, 0.5],
    "n_radii": [*NUMBERS, 0, 0.5],
    "eps": [number for number in NUMBERS if number is not None] + [0],
    "n_jobs": [0, 0.5, math.nan, "all"],
    "p": [-1.0, math.nan, "two", None, 1.0],
    "fit_intercept": SWITCHES,
    "warm_start": SWITCHES,
    "progress": SWITCHES,
    "biases": SWITCHES,
    "positive": SWITCHES,
    "loss": ["cubic", None, 3],
    "method": ["best", None, 3],
    "rule": ["max", None, 3],
    "backend": ["torch", None],
    "radii": ["all", [], [0.0], [-1.0], [math.nan], 1.0, None],
    "cv": [1, "five", [], [1.0], [(1, 2, 3)]],
    "groups": [3, "ab", [0, 1], [0.5, 1.0, 2.0], {"a": [3]}, {"a": [0], "b": [0]}, {"a": ["name"]}, {"a": []}],
    "class_weight": ["heavy", {0: -1.0}, {0: 0.0, 1: 0.0}, {0: math.nan}, [1.0], 3],
}


def fitted(name, **parameters):
    classes = np.where(Y > 0, 1, 0) if "Classifier" in name else Y
    return ESTIMATORS[name](**parameters).fit(*((PAIRS, Y) if "Completion" in name else (X, classes)))


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_parameter_is_checked(name):
    parameters = ESTIMATORS[name]().get_params()
    assert set(parameters) <= set(WRONG)
    few = {"n_radii": 2, "cv": 2} if "cv" in parameters else {}
    accepted = []
    for parameter in parameters:
        for value in WRONG[parameter]:
            try:
                fitted(name, **few | {parameter: value})
            except ValueError:
                continue
            accepted.append((parameter, value))
    assert not accepted


def test_errors_name_the_parameter():
    with pytest.raises(ValueError, match=r"damping must be a finite number that is not negative; got int -1"):
        fitted("NuclearCompletion", damping=-1)
    with pytest.raises(ValueError, match=r"eps must be above 0 and at most 1; got float -0\.1"):
        radius_path(X, Y, eps=-0.1)
    with pytest.raises(ValueError, match="class_weight must be finite, not negative and not all zero"):
        L1Classifier(class_weight={0: -1.0}).fit(X, np.arange(12) % 3)
    with pytest.raises(ValueError, match="groups must be a sequence or a dict; got int 3"):
        GroupRegression(groups=3).fit(X, Y)
    with pytest.raises(ValueError, match="cv gives no folds"):
        L1RegressionCV(cv=[]).fit(X, Y)


@pytest.fixture(scope="module")
def ranking():
    return NuclearCompletion(2.0).fit(PAIRS, Y)


def test_what_is_excluded_is_never_recommended(ranking):
    for k in range(1, 6):
        found = ranking.recommend([0], k=k, exclude=[[0, 1]])
        assert found.shape == (1, min(k, 2))
        assert 1 not in found
        assert found.dtype == ranking.col_ids_.dtype
    assert ranking.recommend([0], k=3, exclude=PAIRS).shape == (1, 0)


def test_rows_with_less_left_end_with_none(ranking):
    found = ranking.recommend([0, 1, 2], k=3, exclude=[[0, 0], [0, 2], [1, 1]])
    assert found.tolist()[0] == [1, None, None]
    assert set(found[1].tolist()) == {0, 2, None}
    assert set(found[2].tolist()) == {0, 1, 2}
    assert found[1, 2] is None


def test_exclusions_come_as_pairs_or_as_a_sparse_matrix(ranking):
    table = sp.coo_array(([1.0, 1.0], ([0, 0], [0, 2])), shape=(4, 3))
    assert ranking.recommend([0], exclude=table).tolist() == [[1]]
    assert ranking.recommend([0], exclude=[]).shape == (1, 3)
    assert ranking.recommend([], k=2).shape[0] == 0
    with pytest.raises(ValueError, match=r"exclude must hold pairs of a row and a column; got shape \(3,\)"):
        ranking.recommend([0], exclude=[0, 1, 2])
    with pytest.raises(ValueError, match=r"rows must be one-dimensional; got shape \(\)"):
        ranking.recommend(0)
