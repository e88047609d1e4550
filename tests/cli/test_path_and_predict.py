"""Do paths agree with single fits, and are new rows matched to a model by name?"""

import csv
import json
import os
import signal

import cvxpy as cp
import numpy as np
import pytest

import fwflow as fw
from fwflow.run import paths
from fwflow.tables.model_files import FittedModel
from tests.cli.test_cli import fails
from tests.cli.test_solve import CLASSES, NAMES, REGRESSION, A, Y, run, shop, write_csv

__all__ = ["run", "shop"]


@pytest.mark.parametrize("kind", ["l1", "l2", "linf", "simplex"])
def test_a_path_is_made_of_single_fits(run, shop, tmp_path, kind):
    out, plot = tmp_path / "path.csv", tmp_path / "path.svg"
    code, output, error = run(
        "path", shop, *REGRESSION, "--set", kind, "--radii", "2,0.5,1", "--out", out, "--plot", plot, "--rtol", 1e-9
    )
    assert (code, error) == (0, "")
    header, *rows = csv.reader(out.read_text().splitlines())
    assert tuple(header) == ("radius", *NAMES)
    sets = {"l1": fw.L1Ball, "l2": fw.L2Ball, "linf": fw.LInfBall, "simplex": fw.Simplex}
    for radius, row in zip((0.5, 1.0, 2.0), rows, strict=True):
        expected = fw.minimize(fw.LinearModel(A, Y), sets[kind](radius), tol=1e-12).x
        np.testing.assert_allclose(np.array(row, float), [radius, *expected], atol=1e-4)
    assert "objective" in output
    assert "<svg" in plot.read_text()


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_automatic_radii_go_from_the_first_coefficient_to_where_the_set_does_not_matter(run, tmp_path, scale):
    np.savez(tmp_path / "a.npz", X=A, y=scale * Y)
    code, output, error = run("path", tmp_path / "a.npz", "--set", "l1", "--radii", 12, "--json")
    path = json.loads(output)["path"]
    assert (code, error, len(path)) == (0, "", 12)
    values = [row["fun"] for row in path]
    assert (np.diff(values) <= 1e-6 * values[0]).all()  # up to the tolerance of each
    free = fw.LinearModel(A, scale * Y)
    least = free.value(free.point(np.linalg.lstsq(A, scale * Y)[0]))
    start = free.value(free.point(np.zeros(6)))
    assert path[0]["nonzero"] == 1
    assert values[0] > least + 0.5 * (start - least)
    assert values[-1] < least + 0.05 * (start - least)


def test_a_path_of_separable_classes_ends(run, tmp_path):
    (tmp_path / "a.csv").write_text("x,z,y\n-2,1,0\n-1,2,0\n1,1,1\n2,3,1\n")
    code, output, _ = run("path", tmp_path / "a.csv", "--target", "y", "--loss", "logistic", "--radii", 5, "--json")
    assert code == 0
    assert json.loads(output)["path"][-1]["fun"] < 0.05 * np.log(2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--set", "box"), "--set 'box' is no set with a radius; accepted: 'l1', 'l2', 'linf', 'simplex'"),
        (("--set", "l0"), "--set 'l0' is no set with a radius; accepted: 'l1', 'l2'"),
        (("--radii", "0"), "--radii must be a positive count, or positive radii as in 0.5,1,2; got '0'"),
        (("--radii", "1,-2"), "--radii must be a positive count, or positive radii as in 0.5,1,2; got '1,-2'"),
        (("--out", "shop.csv"), "would overwrite the data"),
    ],
)
def test_wrong_paths_are_one_line(capsys, monkeypatch, shop, tmp_path, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert message in fails(capsys, monkeypatch, "path", "shop.csv", *REGRESSION, *arguments)


def test_a_path_where_zero_is_the_best_model(run, tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n1,0\n2,0\n")
    code, output, _ = run("path", tmp_path / "a.csv", "--target", "y", "--radii", 3, "--json")
    assert code == 0
    assert [row["nonzero"] for row in json.loads(output)["path"]] == [0, 0, 0]


def test_automatic_radii_of_a_simplex(run, shop):
    code, output, _ = run("path", shop, *REGRESSION, "--set", "simplex", "--radii", 8, "--json")
    values = [row["fun"] for row in json.loads(output)["path"]]
    assert code == 0
    assert min(values) >= values[-1] - 0.05 * (values[0] - values[-1])


def test_paths_that_are_not_certified(run, shop):
    code, _, error = run("path", shop, *REGRESSION, "--radii", "1,2", "-m", "fw", "--max-iter", 2)
    assert (code, error) == (3, "2 of 2 models did not reach the tolerance\n")


@pytest.fixture
def interrupted_at(monkeypatch):
    """Press Ctrl-C as the n-th run begins."""

    def press(n):
        runs, minimize = [], paths.minimize

        def pressed(f, C, *given, callback, **options):
            runs.append(C)

            def watch(state):
                if len(runs) == n:
                    os.kill(os.getpid(), signal.SIGINT)
                callback(state)

            return minimize(f, C, *given, callback=watch, **options)

        monkeypatch.setattr(paths, "minimize", pressed)

    return press


@pytest.mark.parametrize("radii", ["1,2,3", "3"])
def test_a_path_that_is_interrupted_at_once_is_not_written(run, shop, tmp_path, interrupted_at, radii):
    interrupted_at(1)
    command = ("path", shop, *REGRESSION, "--radii", radii, "--out", tmp_path / "path.csv")
    assert run(*command) == (130, "", "interrupted; no path is written\n")
    assert not (tmp_path / "path.csv").exists()


def test_of_a_path_that_is_interrupted_what_is_done_is_written(run, shop, tmp_path, interrupted_at):
    out, plot = tmp_path / "path.csv", tmp_path / "path.svg"
    command = ("path", shop, *REGRESSION, "--radii", "1,2,3", "--json")
    whole = json.loads(run(*command, "--out", out)[1])["path"]
    rows = out.read_text().splitlines()
    interrupted_at(3)
    code, output, error = run(*command, "--out", out, "--plot", plot)
    assert (code, error) == (130, f"interrupted; the models of 2 of 3 radii are in {out}\n")
    assert json.loads(output)["path"] == whole[:2]
    assert out.read_text().splitlines() == rows[:3]
    assert "<svg" in plot.read_text()


@pytest.mark.parametrize("loss", ["squared", "huber", "logistic"])
def test_an_intercept_is_fitted_kept_and_used(run, tmp_path, loss):
    signs = np.where(Y > 1, 1.0, -1.0)  # not as often as the other: a constant pays
    target = signs if loss == "logistic" else Y + 7
    np.savez(tmp_path / "a.npz", X=A[:, :5] + 3, y=target)
    x, c = cp.Variable(5), cp.Variable()
    z = (A[:, :5] + 3) @ x + c
    f = {
        "squared": cp.sum_squares(z - target) / 2,
        "huber": cp.sum(cp.huber(z - target, 0.4)) / 2,
        "logistic": cp.sum(cp.logistic(-cp.multiply(signs, z))),
    }[loss]
    cp.Problem(cp.Minimize(f / 60), [cp.norm1(x) <= 2]).solve(solver=cp.CLARABEL)
    asked = (tmp_path / "a.npz", "--loss", loss, "--rho", 0.4, "--intercept", "--rtol", 1e-10)
    code, output, _ = run("solve", *asked, "--set", "l1:2", "--out", tmp_path / "m.npz")
    kept = FittedModel.load(tmp_path / "m.npz")
    assert code == 0
    np.testing.assert_allclose([*kept.coefficients, kept.intercept], [*x.value, c.value], atol=1e-3)
    assert f"intercept: {kept.intercept:.6g}\n" in output
    assert f"intercept: {kept.intercept:.6g}\n" in run("inspect", tmp_path / "m.npz")[1]
    assert json.loads(run("inspect", tmp_path / "m.npz", "--json")[1])["intercept"] == kept.intercept
    rows = list(csv.DictReader(run("predict", tmp_path / "m.npz", tmp_path / "a.npz")[1].splitlines()))
    scores = (A[:, :5] + 3) @ kept.coefficients + kept.intercept
    if loss == "logistic":
        assert [float(row["prediction"]) for row in rows] == np.sign(scores).tolist()
        np.testing.assert_allclose(
            [float(row["probability of 1"]) for row in rows], 1 / (1 + np.exp(-scores)), rtol=1e-9
        )
        np.testing.assert_allclose(
            [float(row["probability of -1"]) for row in rows], 1 / (1 + np.exp(scores)), rtol=1e-9
        )
    else:
        np.testing.assert_allclose([float(row["prediction"]) for row in rows], scores, rtol=1e-12)
    code, output, _ = run("path", *asked, "--radii", "1,2", "--out", tmp_path / "path.csv", "--json")
    header, *rows = csv.reader((tmp_path / "path.csv").read_text().splitlines())
    assert (code, header) == (0, ["radius", "intercept", "1", "2", "3", "4", "5"])
    np.testing.assert_allclose(np.array(rows[1], float), [2.0, kept.intercept, *kept.coefficients], atol=1e-3)
    assert json.loads(output)["path"][1]["intercept"] == float(rows[1][1])


def test_automatic_radii_do_not_mind_what_an_intercept_takes_away(run, tmp_path):
    found = []
    for shift in (0.0, 1e3):
        np.savez(tmp_path / "a.npz", X=A[:, :5], y=Y + shift)
        found.append(json.loads(run("path", tmp_path / "a.npz", "--intercept", "--radii", 5, "--json")[1])["path"])
    for row, moved in zip(*found, strict=True):
        assert moved["radius"] == pytest.approx(row["radius"], rel=1e-6)
        assert moved["intercept"] == pytest.approx(row["intercept"] + 1e3, rel=1e-6)


@pytest.fixture
def model(run, shop, tmp_path):
    out = tmp_path / "model.npz"
    assert run("solve", shop, *CLASSES, "--set", "l1:2", "--out", out)[0] == 0
    return out


def test_predictions_follow_the_names_of_columns(run, model, tmp_path):
    kept, order = FittedModel.load(model), [3, 0, 5, 2, 1, 4]
    with open(tmp_path / "new.csv", "w", newline="") as file:
        csv.writer(file).writerows([[NAMES[j] for j in order], *A[:, order].tolist()])
    code, _, error = run("predict", model, tmp_path / "new.csv", "--out", tmp_path / "out.csv")
    assert (code, error) == (0, "")
    rows = list(csv.DictReader((tmp_path / "out.csv").read_text().splitlines()))
    assert [row["prediction"] for row in rows] == kept.predict(A).tolist()
    found = [[float(row[f"probability of {label}"]) for label in ("no", "yes")] for row in rows]
    np.testing.assert_allclose(found, kept.probabilities(A), rtol=1e-14)


def test_regression_is_predicted_and_judged(run, shop, tmp_path):
    out = tmp_path / "model.npz"
    assert run("solve", shop, *REGRESSION, "--set", "l1:2", "--out", out)[0] == 0
    code, output, error = run("predict", out, shop)
    predicted = A @ FittedModel.load(out).coefficients
    np.testing.assert_allclose([float(line) for line in output.splitlines()[1:]], predicted, rtol=1e-12)
    assert error == f"mean squared error: {np.mean((predicted - Y) ** 2):.6g} over 60 rows\n"
    assert code == 0


@pytest.mark.parametrize(
    ("rename", "message"),
    [
        ({"age": "Age"}, "lacks column 'age'; did you mean 'Age'? it has columns 'visits', "),
        ({"age": "Age", "visits": "v"}, "lacks columns 'age', 'visits'; did you mean 'Age'? it has columns 'größe', "),
    ],
)
def test_columns_that_do_not_match_are_named(capsys, monkeypatch, model, tmp_path, rename, message):
    names = [rename.get(name, name) for name in (*NAMES, "y", "bought")]
    assert message in fails(capsys, monkeypatch, "predict", model, write_csv(tmp_path / "new.csv", names))


def test_predict_checks_its_files(capsys, monkeypatch, model, shop, tmp_path):
    assert "holds no model" in fails(capsys, monkeypatch, "predict", shop, shop)
    assert "would overwrite the data" in fails(capsys, monkeypatch, "predict", model, shop, "--out", shop)
    assert "No such file" in fails(capsys, monkeypatch, "predict", model, tmp_path / "none.csv")


def test_inspect_shows_what_matters(run, model):
    code, output, _ = run("inspect", model, "--largest", 1)
    kept = FittedModel.load(model)
    (name, value), *others = kept.largest(3)
    assert code == 0
    words = (name, f"{value:.6g}", f"{kept.gap:.3e}", kept.method, kept.written)
    assert [word for word in words if word not in output] == []
    assert [other for other, _ in others if f"│ {other}" in output] == []
