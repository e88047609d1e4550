"""Does cross-validation of tables agree with scikit-learn on the same folds, without leaks between folds?"""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics import log_loss
from sklearn.model_selection import PredefinedSplit, cross_val_score

import fwflow as fw
from fwflow.sklearn import L1Classifier, L1ClassifierCV, L1Regression
from fwflow.tables import selection
from fwflow.tables.model_files import FittedModel
from fwflow.tables.preparation import Preparation
from fwflow.tables.problem import read_problem
from fwflow.tables.selection import divided, select


def table(rows=240, seed=0, classes=2):
    """Numbers with missing cells, a category with rare levels, dates, groups, an identifier and targets."""
    rng = np.random.default_rng(seed)
    data = pd.DataFrame({
        "booking": rng.permutation(rows) + 1,
        "age": rng.normal(40, 10, rows),
        "fare": rng.lognormal(3, 1, rows),
        "city": rng.choice(["Rome", "Oslo", "東京", "Bern"], rows, p=[0.5, 0.3, 0.19, 0.01]),
        "when": (pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, rows), unit="D")).strftime("%F"),
        "shop": rng.choice([f"s{i}" for i in range(24)], rows),
    })  # fmt: skip
    score = (data["age"] - 40) / 10 + (data["city"] == "東京") - np.log(data["fare"]) / 3
    data["spent"] = score + rng.normal(size=rows)
    edges = np.quantile(data["spent"], np.linspace(0, 1, classes + 1)[1:-1])
    data["grade"] = np.array([f"g{i}" for i in range(classes)])[np.searchsorted(edges, data["spent"])]
    data.loc[rng.random(rows) < 0.08, "age"] = np.nan
    return data


FEATURES = ["booking", "age", "fare", "city", "when"]
KINDS = {"numeric": ["age", "fare"], "categorical": ["city"], "dates": ["when"]}


class Prepared(BaseEstimator):
    """Preparation and an estimator of this package with a radius, fitted together as scikit-learn does it."""

    def __init__(self, model=None):
        self.model = model

    def fit(self, X, y):
        self.preparation_ = Preparation.fit(X, **KINDS)
        self.model.fit(self.preparation_.apply(X), y)
        return self

    def predict(self, X):
        return self.model.predict(self.preparation_.apply(X))


class PreparedRegression(RegressorMixin, Prepared):
    pass


class PreparedClassifier(ClassifierMixin, Prepared):
    @property
    def classes_(self):
        return self.model.classes_

    def predict_proba(self, X):
        return self.model.predict_proba(self.preparation_.apply(X))


RADII = [0.3, 1.0, 3.0]


@pytest.mark.parametrize("score", [None, "r2", "neg_mean_absolute_error"])
def test_scores_of_numbers_are_those_of_scikit_learn(score):
    data = table()
    problem = read_problem(data[[*FEATURES, "spent"]], "spent")
    chosen = select(problem, "l1", score=score, radii=RADII, seed=3, rtol=1e-12)
    scorer = score or (lambda model, X, y: 0.5 * np.mean((model.predict(X) - y) ** 2))
    for j, radius in enumerate(RADII):
        expected = cross_val_score(
            PreparedRegression(L1Regression(radius, tol=1e-12)),
            data[["age", "fare", "city", "when"]],
            data["spent"],
            cv=PredefinedSplit(chosen.fold),
            scoring=scorer,
        )
        np.testing.assert_allclose(chosen.scores[:, j], expected, rtol=1e-4)
    means = chosen.scores.mean(axis=0)
    assert chosen.held_out.radius == RADII[int((means if score is None else -means).argmin())]
    np.testing.assert_allclose(chosen.held_out.means, means)
    np.testing.assert_allclose(chosen.held_out.errors, chosen.scores.std(axis=0, ddof=1) / np.sqrt(5))


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("score", [None, "accuracy", "neg_log_loss", "f1_macro", "roc_auc_ovr"])
def test_scores_of_classes_are_those_of_scikit_learn(classes, score):
    data = table(classes=classes)
    problem = read_problem(data[[*FEATURES, "grade"]], "grade", loss="logistic")
    chosen = select(problem, "l1", folds=4, score=score, radii=RADII, rtol=1e-12)

    def loss(model, X, y):
        return log_loss(y, model.predict_proba(X), labels=model.classes_)

    for j, radius in enumerate(RADII):
        expected = cross_val_score(
            PreparedClassifier(L1Classifier(radius, tol=1e-12)),
            data[["age", "fare", "city", "when"]],
            data["grade"],
            cv=PredefinedSplit(chosen.fold),
            scoring=score or loss,
        )
        np.testing.assert_allclose(chosen.scores[:, j], expected, rtol=1e-3)


@pytest.mark.parametrize("rule", ["best", "1se"])
def test_the_rule_is_that_of_the_estimators(rule):
    X = np.random.default_rng(1).standard_normal((150, 12))
    y = np.where(X[:, 0] - X[:, 1] + np.random.default_rng(2).logistic(size=150) > 0, "b", "a")
    problem = read_problem({f"x{j}": X[:, j] for j in range(12)} | {"y": y}, "y", loss="logistic", raw=True)
    chosen = select(problem, "l1", rule=rule, rtol=1e-10)
    other = L1ClassifierCV(radii=chosen.held_out.radii, cv=PredefinedSplit(chosen.fold), rule=rule, tol=1e-10).fit(X, y)
    np.testing.assert_allclose(chosen.scores, other.losses_, rtol=1e-4)
    assert chosen.held_out.radius == other.radius_
    np.testing.assert_allclose(chosen.model().coefficients, other.coef_[0], atol=1e-3)


def test_held_out_rows_do_not_influence_the_fit():
    data = table()
    problem = read_problem(data[[*FEATURES, "spent"]], "spent")
    first = select(problem, "l1", radii=[1.0, 2.0])
    changed = data.copy()
    rows = np.flatnonzero(first.fold == 0)
    changed.loc[rows, "age"] = 1e6
    changed.loc[rows[1:], "city"] = "Lima"
    second = read_problem(changed[[*FEATURES, "spent"]], "spent")
    parts = [whole.on(np.flatnonzero(first.fold != 0)) for whole in (problem, second)]
    assert parts[0].names == parts[1].names
    np.testing.assert_array_equal(parts[0].X, parts[1].X)
    assert not any("Lima" in name for name in parts[1].names)
    assert all("booking" not in name for name in parts[1].names)  # an identifier in the whole table and in each fold


def test_a_seed_determines_the_folds():
    problem = read_problem(table()[[*FEATURES, "grade"]], "grade", loss="logistic")
    folds = [divided(problem, 5, seed) for seed in (0, 0, 1)]
    np.testing.assert_array_equal(folds[0], folds[1])
    assert (folds[0] != folds[2]).any()
    for fold in folds:
        counts = np.array([np.bincount(problem.y[fold == k], minlength=2) for k in range(5)])
        assert (np.ptp(counts, axis=0) <= 1).all()


@given(st.integers(0, 10_000), st.integers(2, 6), st.sampled_from(["spent", "grade"]))
@settings(max_examples=30, deadline=None)
def test_groups_are_never_divided(seed, folds, target):
    data = table(rows=120, seed=seed)
    loss = "squared" if target == "spent" else "logistic"
    problem = read_problem(data[["age", "city", "shop", target]], target, loss=loss, groups="shop")
    assert not any("shop" in name for name in problem.names)
    fold = divided(problem, folds, seed)
    assert set(fold) == set(range(folds))
    assert pd.Series(fold).groupby(data["shop"]).nunique().max() == 1


def test_groups_follow_rows_that_are_left_out():
    data = table()
    data.loc[[3, 7], "spent"] = np.nan
    problem = read_problem(data[["age", "city", "shop", "spent"]], "spent", groups="shop", missing="drop")
    kept = data[data["spent"].notna() & data["age"].notna()]
    assert problem.groups.tolist() == kept["shop"].tolist()
    assert select(problem, "l1", radii=[1.0], folds=3).held_out.groups == "shop"


def test_the_model_keeps_its_path_and_scores(tmp_path):
    data = table()
    chosen = select(read_problem(data[[*FEATURES, "grade"]], "grade", loss="logistic"), "l1", score="accuracy")
    chosen.model().save(tmp_path / "m.npz")
    back = FittedModel.load(tmp_path / "m.npz")
    assert back.held_out.text == chosen.held_out.text
    np.testing.assert_array_equal(back.held_out.means, chosen.held_out.means)
    np.testing.assert_array_equal(back.path.coefficients, np.stack([r.x for r in chosen.path.results]))
    assert back.constraint == f"l1:{chosen.held_out.radius:.6g}"
    np.testing.assert_array_equal(back.coefficients, back.at(chosen.held_out.radius).coefficients)
    largest = back.at(float(back.path.radii[-1]))
    np.testing.assert_array_equal(largest.coefficients, chosen.path.results[-1].x)
    np.testing.assert_allclose(
        largest.scores(data), chosen.problem.X @ largest.coefficients + largest.intercept, atol=1e-12
    )
    assert largest.path is None
    with pytest.raises(ValueError, match=r"no model of the radius 123; it has \d"):
        back.at(123.0)
    with pytest.raises(ValueError, match="the model has no path; it was fitted with one set"):
        largest.at(1.0)


def test_accuracy_is_within_half_a_point_of_l1_logistic_regression_by_scikit_learn():
    data, new = table(20_000), table(20_000, seed=1)
    chosen = select(read_problem(data[[*FEATURES, "grade"]], "grade", loss="logistic"), "l1")
    preparation = Preparation.fit(data[FEATURES], **KINDS)
    other = LogisticRegressionCV(
        Cs=10,
        l1_ratios=[1],
        solver="liblinear",
        cv=PredefinedSplit(chosen.fold),
        scoring="neg_log_loss",
        use_legacy_attributes=False,
    ).fit(preparation.apply(data), data["grade"])
    accuracy = np.mean(chosen.model().predict(new) == new["grade"])
    assert accuracy >= np.mean(other.predict(preparation.apply(new)) == new["grade"]) - 0.005


def test_a_new_loss_of_the_catalogue_works():
    rng = np.random.default_rng(0)
    x = rng.normal(size=300)
    problem = read_problem({"x": x, "y": rng.poisson(np.exp(1 + x / 2)).astype(float)}, "y", loss="poisson")
    chosen = select(problem, "l1", radii=[0.1, 0.5], score="neg_mean_poisson_deviance")
    assert chosen.held_out.radius == 0.5
    found = chosen.model().predict({"x": [0.0, 1.0]})
    np.testing.assert_allclose(found, np.exp([1, 1.5]), rtol=0.15)
    loss = select(problem, "l1", radii=[0.1, 0.5])
    np.testing.assert_allclose(2 * loss.scores, -chosen.scores, rtol=1e-6)  # half of the deviance


@pytest.mark.parametrize("constraint", ["l1", "l2", "linf", "simplex", "positive"])
def test_all_sets_with_a_radius(constraint):
    problem = read_problem(table(60)[["age", "city", "spent"]], "spent")
    chosen = select(problem, constraint, folds=2, n_radii=4)
    assert np.isfinite(chosen.scores).all()
    if constraint == "positive":
        assert (chosen.model().coefficients >= 0).all()


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        ({}, {"folds": 1}, r"--cv must be"),
        ({}, {"folds": 7}, r"--cv 7 needs at least 7 rows; there are 6"),
        ({}, {"rule": "worst"}, r"--rule 'worst' is not known"),
        ({}, {"score": "acuracy"}, r"no scorer of scikit-learn; did you mean 'accuracy'"),
        ({}, {"score": "roc_auc"}, r"--score roc_auc does not suit this target"),
        ({}, {"constraint": "box"}, r"--set 'box' is no set with a radius"),
        ({"y": ["a", "a", "a", "a", "a", "b"]}, {"folds": 2}, r"two rows of each class; the class 'b' has one"),
        ({"g": ["u", "u", "u", "v", "v", "v"]}, {"folds": 3}, r"--cv 3 needs at least 3 groups in 'g'; there are 2"),
        (
            {"g": ["u", "u", "u", "v", "v", "v"], "y": ["a", "a", "a", "b", "b", "b"]},
            {"folds": 2},
            r"all rows of the class '[ab]' are in one fold",
        ),
    ],
)
def test_wrong_choices_are_named(changes, options, message):
    data = {"x": [1.0, 2.5, 3.0, 4.0, 5.0, 6.5], "y": [1.0, 2.0, 3.0, 4.0, 5.0, 7.0]} | changes
    loss = "logistic" if isinstance(data["y"][0], str) else "squared"
    problem = read_problem(data, "y", loss=loss, groups="g" if "g" in data else None)
    with pytest.raises(ValueError, match=message) as error:
        select(problem, **{"folds": 3, **options})
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("groups", "message"),
    [("z", "lacks column 'z'"), ("y", "--groups and --target both name 'y'"), ("c", "column 'c' is missing")],
)
def test_wrong_groups_are_named(groups, message):
    with pytest.raises(ValueError, match=message):
        read_problem({"x": [1.0, 2.5, 3.0], "c": ["u", "", "v"], "y": [1.0, 2.0, 4.0]}, "y", groups=groups)


def test_ugly_tables():
    data = {
        "huge": [1e150, -1e150, 3e149, 2e150, 5e149, -4e150],
        "café": ["ü", "ü", "", "ö", "ö", "ü"],
        "same": [1.0] * 6,
        "twice": [0.5, 0.5, 1.5, 1.5, 2.5, 2.5],
        "none": [None] * 6,
        "y": [1.0, 2.0, 3.0, 4.0, 5.0, 7.0],
    }
    chosen = select(read_problem(data, "y"), "l1", folds=3, n_radii=3)
    assert np.isfinite(chosen.scores).all()
    constant = select(read_problem(data | {"y": [2.0] * 6}, "y"), "l1", folds=3, n_radii=3)
    np.testing.assert_allclose(constant.scores, 0, atol=1e-20)
    assert constant.held_out.radius == constant.held_out.radii[0]


def test_a_column_of_one_fold_only():
    """A level that occurs once is unknown to the model of its fold, and constant columns are left out there."""
    flag = ["no"] * 29 + ["yes"]
    data = {"x": np.random.default_rng(0).normal(size=30), "flag": flag, "y": np.arange(30.0)}
    chosen = select(read_problem(data, "y"), "l1", folds=5, n_radii=3)
    assert np.isfinite(chosen.scores).all()


def test_an_interrupt_ends_the_search():
    def stop(state):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        select(read_problem(table(60)[["age", "spent"]], "spent"), "l1", radii=[0.5, 1.0], callback=stop)


def test_progress_counts_all_models():
    seen = []
    select(
        read_problem(table(60)[["age", "spent"]], "spent"),
        folds=3,
        radii=[0.5, 1.0],
        step=lambda done, total: seen.append((done, total)),
    )
    assert seen == [(done, 8) for done in range(8)]


def test_scorers_of_two_classes_take_the_second_as_positive():
    data = table()
    chosen = select(
        read_problem(data[[*FEATURES, "grade"]], "grade", loss="logistic"), score="recall", radii=[0.2], folds=2
    )
    part = chosen.problem.on(np.flatnonzero(chosen.fold != 0))
    x = fw.path(part.f, fw.L1Ball, [0.2], tol=0, rtol=1e-6).results[0].x
    test = np.flatnonzero(chosen.fold == 0)
    found = part.matrix_of(chosen.problem, test) @ x + part.intercept_at(x) > 0
    positive = data["grade"].to_numpy()[test] == "g1"
    assert chosen.scores[0, 0] == pytest.approx(np.mean(found[positive]))


@pytest.mark.parametrize("rule", ["best", "1se"])
def test_automatic_radii_are_refined_next_to_the_chosen_one(rule):
    rng = np.random.default_rng(8)
    table = {f"x{j}": rng.standard_normal(200) for j in range(6)}
    problem = read_problem(table | {"y": table["x0"] - 0.5 * table["x1"] + rng.standard_normal(200)}, "y")
    fine = select(problem, n_radii=8, rule=rule)
    steps = np.diff(np.log(fine.held_out.radii)) / np.log(1e3)
    assert (np.isclose(steps, 1 / 8)).sum() == len(steps) - 8  # six radii between three neighbours divide two steps
    coarse = select(problem, radii=fine.held_out.radii[:: len(steps)], rule=rule)
    assert coarse.at_end
    assert not fine.at_end
    assert fine.held_out.means.min() <= coarse.held_out.means.min()


def sparse_classes(rows, columns, used):
    rng = np.random.default_rng(2)
    X = scipy.sparse.random(rows, columns, 0.01, random_state=rng, format="csc", data_rvs=rng.standard_normal)
    score = X[:, :used] @ (2 * rng.standard_normal(used)) + 0.5 * rng.standard_normal(rows)
    return X, np.where(score > 0, "yes", "no")


def test_radii_do_not_grow_when_held_out_losses_rise():
    X, y = sparse_classes(2000, 600, 20)
    problem = read_problem({f"x{j}": X[:, [j]].toarray()[:, 0] for j in range(600)} | {"y": y}, "y", loss="logistic")
    seen = []
    chosen = select(problem, step=lambda done, total: seen.append((done, total)))
    scores = chosen.held_out
    assert scores.radii[-1] < 5 * scores.radius
    assert scores.means[-1] < 2 * scores.means.min()
    assert scores.means.min() < scores.baseline == pytest.approx(np.log(2), rel=0.01)
    assert seen[-1] == (len(seen) - 1, len(seen)) == (6 * len(scores.radii) - 1, 6 * len(scores.radii))


def test_a_time_limit_ends_the_search_with_a_model():
    problem = read_problem(table(600)[[*FEATURES, "grade"]], "grade", loss="logistic")
    chosen = select(problem, max_time=1e-6)
    assert chosen.at_end
    assert len(chosen.held_out.radii) == 1
    assert chosen.result.status is fw.Status.TIME
    assert np.isfinite(chosen.model().coefficients).all()


def test_scores_of_folds_do_not_depend_on_how_many_are_kept(monkeypatch):
    problem = read_problem({"x": np.arange(30.0) ** 1.5, "y": np.sqrt(np.arange(30.0))}, "y")
    kept = select(problem, n_radii=4)
    monkeypatch.setattr(selection, "_MOST_ENTRIES", 0)
    np.testing.assert_array_equal(select(problem, n_radii=4).scores, kept.scores)
