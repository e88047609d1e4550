"""Do cross-validation, stored paths and several classes work from the command line, and are wrong uses named?"""

import csv
import json
import logging

import numpy as np
import pytest
from sklearn.datasets import load_iris

import fwflow as fw
from fwflow.sklearn import L1Classifier
from fwflow.tables.model_files import FittedModel
from fwflow.tables.problem import read_problem
from fwflow.tables.selection import select
from tests.cli.test_cli import fails
from tests.cli.test_messy_tables import messy
from tests.cli.test_solve import run

__all__ = ["run"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = messy(300)
    table["shop"] = [f"s{i % 12}" for i in range(300)]
    table.to_csv("table.csv", index=False)
    messy(50, seed=1).to_csv("new.csv", index=False)
    X, y = load_iris(return_X_y=True)
    rows = [(*x, f"kind {label}") for x, label in zip(X.tolist(), y, strict=True)]
    with open("iris.csv", "w", newline="") as file:
        csv.writer(file).writerows([("sl", "sw", "pl", "pw", "kind"), *rows])
    return tmp_path


CLASSES = ("table.csv", "--target", "bought", "--drop", "spent", "--loss", "logistic", "--set", "l1")


def test_solve_chooses_the_radius(run, folder):
    code, output, error = run(
        "solve", *CLASSES, "--cv", 4, "--groups", "shop", "--seed", 2, "--score", "accuracy", "--rule", "1se",
        "--out", "m.npz", "--plot", "scores.svg",
    )  # fmt: skip
    assert (code, error) == (0, "")
    problem = read_problem("table.csv", "bought", drop=["spent"], loss="logistic", groups="shop")
    chosen = select(problem, "l1", folds=4, seed=2, score="accuracy", rule="1se")
    model = FittedModel.load("m.npz")
    np.testing.assert_array_equal(model.coefficients, chosen.result.x)
    assert f"held out: {chosen.held_out.text}" in output
    assert f"{chosen.held_out.radius:.6g}, smallest within one standard error" in output
    assert "groups 'shop'" in output
    assert "<svg" in (folder / "scores.svg").read_text()
    code, output, error = run("predict", "m.npz", "new.csv")
    assert code == 0
    assert output.splitlines()[0] == "prediction,probability of no,probability of yes"
    assert run("inspect", "m.npz", "--plot", "again.png")[0] == 0
    shown = json.loads(run("inspect", "m.npz", "--json")[1])
    assert shown["held_out"]["radius"] == chosen.held_out.radius
    assert len(shown["path"]) == len(chosen.held_out.radii)


def test_a_stored_path_predicts_at_any_of_its_radii(run, capsys, monkeypatch, folder):
    command = ("path", *CLASSES, "--drop", "shop", "--radii", "0.5,1,2")
    assert run(*command, "--out", "path.npz")[0] == 0
    assert run(*command, "--out", "path.csv")[0] == 0
    _, *rows = csv.reader((folder / "path.csv").read_text().splitlines())
    for row in np.array(rows, float):
        code, output, _ = run("predict", "path.npz", "new.csv", "--radius", row[0])
        assert code == 0
        model = FittedModel.load("path.npz").at(row[0])
        np.testing.assert_array_equal(model.coefficients, row[2:])
        assert output.splitlines()[1].split(",")[0] == model.predict(messy(50, seed=1))[0]
    assert "choose one with --radius: 0.5, 1, 2" in fails(capsys, monkeypatch, "predict", "path.npz", "new.csv")
    message = fails(capsys, monkeypatch, "predict", "path.npz", "new.csv", "--radius", "1.5")
    assert "path.npz: the path has no model of the radius 1.5; it has 0.5, 1, 2" in message
    code, output, _ = run("inspect", "path.npz")
    assert code == 0
    assert "largest coefficient" in output
    assert run("inspect", "path.npz", "--radius", "2")[0] == 0


@pytest.mark.parametrize("options", [("--set", "l1:5"), ("--set", "l1", "--cv", 3)])
def test_several_classes(run, folder, options):
    command = ("solve", "iris.csv", "--target", "kind", "--loss", "logistic", *options, "--out", "m.npz")
    code, output, error = run(*command, "--rtol", 1e-10)
    assert (code, error) == (0, "")
    assert "the class of the largest score" in output
    code, output, error = run("predict", "m.npz", "iris.csv")
    header, *rows = csv.reader(output.splitlines())
    assert header == ["prediction", *(f"probability of kind {k}" for k in range(3))]
    found = np.array([row[1:] for row in rows], float)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    X, y = load_iris(return_X_y=True)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    radius = float(FittedModel.load("m.npz").constraint.removeprefix("l1:"))
    expected = L1Classifier(radius, tol=1e-12).fit(Z, y).predict_proba(Z)
    np.testing.assert_allclose(found, expected, atol=1e-3)
    assert "correct:" in error


def test_coefficients_of_at_least_zero(run, capsys, monkeypatch, folder):
    command = ("solve", "table.csv", "--target", "spent", "--drop", "bought", "--positive")
    for options in (("--set", "l1:2"), ("--set", "l1", "--cv", 3)):
        assert run(*command, *options, "--out", "m.npz")[0] == 0
        assert (FittedModel.load("m.npz").coefficients >= 0).all()
    assert "--positive is for --set l1; got --set l2:1" in fails(capsys, monkeypatch, *command, "--set", "l2:1")
    iris = ("solve", "iris.csv", "--target", "kind", "--loss", "logistic", "--set", "l1:1", "--positive")
    assert "--positive is for numbers and two classes" in fails(capsys, monkeypatch, *iris)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--set", "l1"), "--set l1 needs a radius, as in l1:10, or --cv 5"),
        (("--set", "l1:3", "--cv", "5"), "--cv chooses the radius, and --set l1:3 gives one"),
        (("--set", "box", "--cv", "5"), "--set 'box' is no set with a radius"),
        (("--set", "l1:3", "--rule", "1se"), "--rule is for cross-validation; add --cv 5"),
        (("--set", "l1:3", "--seed", "0"), "--seed is for cross-validation"),
        (("--set", "l1", "--cv", "5", "--trace", "t.csv"), "--cv and --trace exclude each other"),
        (("--set", "l1", "--cv", "5", "--score", "acuracy"), "did you mean 'accuracy'"),
        (("--set", "l1", "--cv", "5", "--groups", "shpo"), "lacks column 'shpo'"),
    ],
)
def test_wrong_uses_are_one_line(capsys, monkeypatch, folder, options, message):
    command = ("solve", "table.csv", "--target", "bought", "--loss", "logistic", *options, "--out", "m.npz")
    assert message in fails(capsys, monkeypatch, *command)
    assert not (folder / "m.npz").exists()


def test_runs_are_logged_and_timed(caplog, capsys):
    f, C = fw.LinearModel(np.eye(3), [1.0, 2.0, 3.0]), fw.L1Ball(1.0)
    with caplog.at_level(logging.WARNING, "fwflow"):
        fw.minimize(f, C)
    assert not caplog.records
    with caplog.at_level(logging.INFO, "fwflow"):
        result = fw.minimize(f, C)
    begin, end = (record.getMessage() for record in caplog.records)
    assert "begins at iteration 0" in begin
    assert f"{result.method} ends after {result.nit} iterations: TOLERANCE" in end
    assert result.seconds == result.state.elapsed >= 0
    assert capsys.readouterr() == ("", "")


def test_radii_and_time_are_limited(run, folder):
    code, output, error = run("solve", *CLASSES, "--cv", 3, "--radii", "0.01,0.02", "--json")
    assert code == 0
    assert [row["radius"] for row in json.loads(output)["path"]] == [0.01, 0.02]
    assert error == "warning: 0.02 is at the end of the radii that were tried; give other --radii\n"
    code, output, error = run("solve", *CLASSES, "--cv", 3, "--max-time", 1e-6)
    assert code == 3
    assert "is at the end of the radii that were tried; raise --max-time" in error
    assert output.lstrip().startswith("held out: logistic loss ")
    assert " without columns\n" in output
