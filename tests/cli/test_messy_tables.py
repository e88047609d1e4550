"""Does the way from a messy table to predictions work without further options, and does it say what it did?"""

import csv
import json
import os

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import fwflow as fw
from fwflow import cli
from fwflow.tables.model_files import FittedModel
from fwflow.tables.problem import read_problem
from tests.cli.test_cli import fails
from tests.cli.test_solve import run

__all__ = ["run"]


def messy(rows, seed=0):
    """Table with numbers, categories, dates, missing cells, an identifier and a constant column."""
    rng = np.random.default_rng(seed)
    when = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 365 * 24, rows), unit="h")
    frame = pd.DataFrame({
        "booking": [f"B{i:07}" for i in rng.permutation(rows)],
        "age": rng.normal(40, 10, rows).round(1),
        "fare": rng.lognormal(3, 1, rows).round(2),
        "city": rng.choice(["Rome", "Oslo", "Zürich", "東京"], rows),
        "class": rng.choice([1, 2, 3], rows),
        "when": when.strftime("%Y-%m-%dT%H:%M"),
        "year": 2024,
    })  # fmt: skip
    score = (
        (frame["age"] - 40) / 10
        - (frame["city"] == "東京")
        + when.day_name().isin(["Saturday", "Sunday"])
        - frame["class"] / 3
    )
    frame["bought"] = np.where(score + rng.logistic(size=rows) > 0, "yes", "no")
    frame["spent"] = (3 + score + rng.normal(size=rows)).round(3)
    frame.loc[rng.random(rows) < 0.1, "age"] = np.nan
    frame.loc[rng.random(rows) < 0.01, "fare"] = np.nan
    frame.loc[rng.random(rows) < 0.02, "city"] = None
    return frame


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    messy(600).to_csv("table.csv", index=False)
    messy(200, seed=1).to_csv("new.csv", index=False)
    return tmp_path


CLASSES = ("--target", "bought", "--drop", "spent", "--loss", "logistic", "--set", "l1:4")


def predictions():
    with open("p.csv", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_from_a_messy_table_to_predictions(run, folder):
    code, output, error = run("solve", "table.csv", *CLASSES, "--out", "m.npz")
    assert (code, error) == (0, "")
    for text in (
        "prepared: 3 columns of numbers, standardised: age, fare, class",
        "prepared: 1 column one-hot encoded: city (4 levels)",
        "prepared: when is a date, expanded into month, weekday, hour, days since 2024-01-01",
        "column 'age is missing' added",
        "prepared: booking is an identifier (all values differ), left out",
        "prepared: year is constant, left out",
        "original units",
    ):
        assert text in output
    kept = FittedModel.load("m.npz")
    assert [line for line in kept.preparation.lines() if f"prepared: {line}" not in output] == []
    code, _, error = run("predict", "m.npz", "new.csv", "--out", "p.csv")
    assert code == 0
    assert "new.csv has columns 'booking', 'year' that the model does not need, ignored\n" in error
    new, found = pd.read_csv("new.csv"), predictions()
    assert [*found[0]] == ["prediction", "probability of no", "probability of yes"]
    scores = kept.scores(new)
    np.testing.assert_allclose(
        [float(row["probability of yes"]) for row in found], 1 / (1 + np.exp(-scores)), rtol=1e-9
    )
    assert [row["prediction"] for row in found] == np.where(scores > 0, "yes", "no").tolist()
    correct = (new["bought"] == np.where(scores > 0, "yes", "no")).sum()
    assert f"correct: {correct} of 200 rows" in error
    assert correct > 130


def test_the_model_is_that_of_a_pipeline_made_by_hand(run, folder):
    plain = ("--drop", "when", "--drop", "bought", "--target", "spent")
    code, *_ = run(
        "solve", "table.csv", *plain, "--set", "l1:2", "--categorical", "class", "--rtol", "1e-10", "--out", "m.npz"
    )
    assert code == 0
    data, new = pd.read_csv("table.csv"), pd.read_csv("new.csv")
    encode = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(sparse_output=False))
    by_hand = ColumnTransformer([
        ("age", make_pipeline(SimpleImputer(strategy="median", add_indicator=True)), ["age"]),
        ("fare", SimpleImputer(strategy="median"), ["fare"]),
        ("text", encode, ["city", "class"]),
    ])  # fmt: skip
    X, X_new = by_hand.fit_transform(data), by_hand.transform(new)
    scaler = StandardScaler().fit(X[:, [0, 2]])
    X[:, [0, 2]], X_new[:, [0, 2]] = scaler.transform(X[:, [0, 2]]), scaler.transform(X_new[:, [0, 2]])
    f = fw.LinearModel(X, data["spent"].to_numpy(), intercept=True)
    r = fw.minimize(f, fw.L1Ball(2.0), tol=0, rtol=1e-10)
    kept = FittedModel.load("m.npz")
    assert kept.fun == pytest.approx(r.fun, rel=1e-9)
    assert run("predict", "m.npz", "new.csv", "--out", "p.csv")[0] == 0
    found = [float(row["prediction"]) for row in predictions()]
    np.testing.assert_allclose(found, X_new @ r.x + f.intercept_at(r.x), atol=1e-4)


def test_new_tables_that_differ(run, folder, capsys, monkeypatch):
    assert run("solve", "table.csv", *CLASSES, "--out", "m.npz")[0] == 0
    new = pd.read_csv("new.csv")
    assert run("predict", "m.npz", "new.csv", "--out", "p.csv")[0] == 0
    expected = predictions()
    # Reordered and further columns change nothing.
    new.iloc[:, ::-1].assign(further="x", notes="5 kg").to_csv("other.csv", index=False)
    code, _, error = run("predict", "m.npz", "other.csv", "--out", "p.csv")
    assert (code, predictions()) == (0, expected)
    assert "columns 'year', 'booking', 'further', 'notes' that the model does not need, ignored" in error
    # Unknown levels and columns without values are said once.
    new.assign(city="Atlantis", age=np.nan).to_csv("other.csv", index=False)
    code, _, error = run("predict", "m.npz", "other.csv", "--out", "p.csv")
    assert (code, len(predictions())) == (0, 200)
    assert "city: 200 cells have new levels ('Atlantis'), for which all columns of city are zero\n" in error
    assert "age: all cells are missing, replaced by the median" in error
    # Missing columns are named together.
    new.drop(columns=["city", "when"]).to_csv("other.csv", index=False)
    message = fails(capsys, monkeypatch, "predict", "m.npz", "other.csv")
    assert message.startswith("error: other.csv lacks columns 'city', 'when'; it has columns 'age', 'fare', 'class'")
    new[["year"]].to_csv("other.csv", index=False)
    message = fails(capsys, monkeypatch, "predict", "m.npz", "other.csv")
    assert message == "error: other.csv lacks columns 'age', 'fare', 'city', 'class', 'when'; it has column 'year'"
    # A cell that is no number is named with its line.
    new.astype({"fare": object}).replace({"fare": {new["fare"][3]: "a lot"}}).to_csv("other.csv", index=False)
    message = fails(capsys, monkeypatch, "predict", "m.npz", "other.csv")
    assert message == "error: other.csv, line 5: column 'fare' must hold a finite number; it is 'a lot'"


def test_rows_with_missing_cells_can_be_left_out(run, folder, capsys, monkeypatch):
    code, output, _ = run("solve", "table.csv", *CLASSES, "--missing", "drop", "--out", "m.npz")
    data, new = pd.read_csv("table.csv"), pd.read_csv("new.csv")
    complete = data.dropna()
    assert code == 0
    assert f"prepared: {len(data) - len(complete)} rows with missing cells left out" in output
    assert FittedModel.load("m.npz").rows == len(complete)
    code, _, error = run("predict", "m.npz", "new.csv", "--out", "p.csv")
    gone = new.isna().any(axis=1)
    assert [row["prediction"] == row["probability of no"] == "" for row in predictions()] == gone.tolist()
    assert f"{gone.sum()} of 200 rows have missing cells; their predictions are empty\n" in error
    assert f"of {200 - gone.sum()} rows" in error
    message = fails(capsys, monkeypatch, "solve", "table.csv", *CLASSES, "--missing", "error")
    first = int(data.isna().any(axis=1).argmax())
    assert f"error: table.csv, line {first + 2}: column" in message
    assert "--missing impute replaces them, --missing drop leaves out these rows" in message


def test_inspect_shows_both_units_and_draws_them(run, folder):
    assert run("solve", "table.csv", *CLASSES, "--no-scale", "--out", "m.npz")[0] == 0
    code, output, _ = run("inspect", "m.npz", "--plot", "c.svg", "--largest", 4)
    kept = FittedModel.load("m.npz")
    assert code == 0
    for row in kept.table(4):
        assert f"{row.standardised:.6g}" in output
        assert f"{row.original:.6g}" in output
    assert f"intercept: {kept.original_intercept:.6g}" in output
    assert "prepared: 3 columns of numbers: age, fare, class" in output
    assert "<svg" in (folder / "c.svg").read_text(encoding="utf-8")
    found = json.loads(run("inspect", "m.npz", "--json", "--largest", 4)[1])
    assert found["preparation"] == kept.preparation.lines()
    assert [(row["column"], row["level"], row["coefficient"]) for row in found["largest"]] == [
        (row.column, row.level, row.original) for row in kept.table(4)
    ]


def test_paths_and_python_prepare_in_the_same_way(run, folder):
    options = CLASSES[:-2]
    code, output, _ = run("path", "table.csv", *options, "--radii", "1,4", "--out", "path.csv")
    problem = read_problem("table.csv", "bought", drop=["spent"], loss="logistic")
    assert code == 0
    assert [line for line in problem.lines() if f"prepared: {line}" not in output] == []
    header, *rows = csv.reader((folder / "path.csv").read_text(encoding="utf-8").splitlines())
    assert header == ["radius", "intercept", *problem.names]
    r = fw.minimize(problem.f, fw.L1Ball(4.0), tol=1e-9)
    found = np.array(rows[1], float)
    f = problem.f
    assert f.value(f.point(found[2:])) == pytest.approx(r.fun, abs=1e-6)
    assert found[1] == pytest.approx(f.intercept_at(found[2:]), abs=1e-6)


def test_matrices_are_used_as_they_are(run, folder, capsys, monkeypatch):
    np.savez("a.npz", X=[[0.0, 100], [1, 300], [2, 500], [5, 100]], y=[1.0, 2, 3, 4])
    assert "prepared" not in run("solve", "a.npz", "--set", "l1:1", "--out", "m.npz")[1]
    assert FittedModel.load("m.npz").preparation is None
    message = fails(capsys, monkeypatch, "solve", "a.npz", "--set", "l1:1", "--missing", "drop")
    assert message == "error: --missing is for tables (.csv, .tsv, .parquet); a.npz is a matrix, which is used as it is"


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ([0, 0, 0, 0], "no count above 0"),
        ([2, 1, -3, 0], "line 4: the target 'y' is -3, and --loss poisson needs counts"),
    ],
)
def test_targets_that_are_no_counts(run, tmp_path, counts, message):
    path = tmp_path / "a.csv"
    path.write_text("x,y\n" + "\n".join(f"{0.5 * i},{count}" for i, count in enumerate(counts)))
    code, _, error = run("solve", path, "--target", "y", "--loss", "poisson", "--set", "l1:1")
    assert code == 2
    assert message in error
    assert "Traceback" not in error


def test_counts_in_one_fold_only(run, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("x,y\n" + "\n".join(f"{0.5 * i},{int(i == 3)}" for i in range(12)))
    code, _, error = run("solve", path, "--target", "y", "--loss", "poisson", "--set", "l1", "--cv", 4)
    assert code == 2
    assert "all counts above 0 are in one fold" in error


def test_constant_target_of_cross_validation(run, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("x,y\n" + "\n".join(f"{0.5 * i * i},3" for i in range(12)))
    code, output, _ = run("solve", path, "--target", "y", "--set", "l1", "--cv", 3)
    assert code == 0
    assert "nonzero: 0 of 1" in output
    assert "intercept: 3" in output


def test_a_column_called_intercept_differs_from_the_constant(run, tmp_path):
    path, out = tmp_path / "a.csv", tmp_path / "path.csv"
    path.write_text("intercept,prediction,y\n" + "\n".join(f"{i % 5},{i % 3},{i % 5 + 0.1 * i}" for i in range(12)))
    assert run("path", path, "--target", "y", "--radii", 3, "--out", out)[0] == 0
    header = out.read_text().splitlines()[0].split(",")
    assert header == ["radius", "constant term", "intercept", "prediction"]


def test_a_column_that_tells_the_target_is_named(run, folder):
    table = messy(600)
    table["paid"] = np.where(table["bought"] == "yes", "card", None)
    table["bill"] = 2 * table["spent"] + 1
    table.to_csv("leak.csv", index=False)
    code, _, error = run("solve", "leak.csv", *CLASSES, "--drop", "bill")
    assert (code, error.count("\n")) == (0, 1)
    assert "warning: 'paid' alone explains 100 % of the rows of the target; leave it out (--drop)" in error
    error = run("solve", "leak.csv", "--target", "spent", "--drop", "bought", "--set", "l1:9")[2]
    assert "warning: 'bill' alone explains 100 % of the variance of the target" in error


@pytest.mark.parametrize("loss", ["squared", "huber", "quantile"])
@pytest.mark.parametrize("value", [3, 0.1])
def test_a_constant_target_is_certified(run, folder, loss, value):
    table = messy(100)
    table["bought"] = value
    table.to_csv("constant.csv", index=False)
    for options in (("--set", "l1:4"), ("--set", "l1", "--cv", 3)):
        code, output, _ = run("solve", "constant.csv", "--target", "bought", "--loss", loss, *options)
        assert code == 0
        assert "certified: yes" in output


def test_a_target_that_cannot_be_scored_is_said(run, folder):
    assert run("solve", "table.csv", *CLASSES, "--out", "m.npz")[0] == 0
    new = pd.read_csv("new.csv")
    for value, why in (("maybe", "it holds 'maybe', which is no class of the model"), ("", "no row has both")):
        new.assign(bought=value).to_csv("other.csv", index=False)
        error = run("predict", "m.npz", "other.csv", "--out", "p.csv")[2]
        assert f"the predictions are not compared with the target 'bought': {why}" in error
    assert run("solve", "table.csv", "--target", "spent", "--drop", "bought", "--set", "l1:4", "--out", "n.npz")[0] == 0
    new.assign(spent="much").to_csv("other.csv", index=False)
    assert (
        "it holds 'much', and the model predicts numbers" in run("predict", "n.npz", "other.csv", "--out", "p.csv")[2]
    )


def test_messages_are_short_and_name_what_is_near(capsys, monkeypatch, folder):
    def message(*arguments):
        return fails(capsys, monkeypatch, *arguments)

    fit = ("solve", "table.csv", "--target", "spent", "--set", "l1")
    assert message(*fit, "--cv", 1) == "error: Invalid value for '--cv': 1 is not at least 2"
    assert message("solve") == "error: Missing argument 'DATA'."
    assert len(message(*fit, "--cv", 3, "--score", "foo")) < 200
    assert "--missing 'x' is not known" in message(*fit, "--cv", 3, "--missing", "x")
    assert "--plot a.gif: unknown figure format 'gif'; " in message(*fit, "--cv", 3, "--plot", "a.gif")
    os.mkfifo("pipe.npz")
    for out in ("/dev/full", "pipe.npz"):
        assert f"--out {out} is a device or a pipe" in message(*fit, "--cv", 3, "--out", out)
    cli.app(["solve", "table.csv", *CLASSES, "--out", "m.npz"], standalone_mode=False)
    new = pd.read_csv("new.csv").rename(columns={"age": "Age"})
    new.to_csv("other.csv", index=False)
    assert "lacks column 'age'; did you mean 'Age'? it has columns" in message("predict", "m.npz", "other.csv")
    new[["booking"]].to_csv("other.csv", index=False)
    assert "'city'" in message("predict", "m.npz", "other.csv")
    message_of_device = message("predict", "m.npz", "new.csv", "--out", "/dev/full")
    assert message_of_device == "error: /dev/full: No space left on device"
