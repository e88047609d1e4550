"""Does the command line fit what it says, certify it, and keep it through interruptions?"""

import csv
import errno
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import cvxpy as cp
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.io
import scipy.sparse as sp
from rich.console import Console
from typer.testing import CliRunner

import fwflow as fw
from fwflow import cli
from fwflow.cli import models, screen
from fwflow.tables import problem
from fwflow.tables.model_files import FittedModel
from tests.cli.test_cli import fails, main

RANDOM = np.random.default_rng(0)
NAMES = ("age", "visits", "größe", "b, or c", "[red]", "constant")
A = np.column_stack([RANDOM.standard_normal((60, 5)), np.ones(60)])
Y = A @ np.array([2.0, -1.0, 0.0, 0.5, 0.0, 0.3]) + 0.3 * RANDOM.standard_normal(60)
LABELS = np.where(Y > 0, "yes", "no")


def write_csv(path, names=(*NAMES, "y", "bought")):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        writer.writerows([*row, y, label] for row, y, label in zip(A.tolist(), Y.tolist(), LABELS, strict=True))
    return path


@pytest.fixture
def shop(tmp_path):
    return write_csv(tmp_path / "shop.csv")


@pytest.fixture
def run(capsys, monkeypatch):
    """Exit code, standard output and standard error of the command."""
    monkeypatch.setenv("COLUMNS", "200")
    return lambda *arguments: main(capsys, monkeypatch, *arguments)


#: Options with which a table is used as it is, as an independent solver of the same problem uses it.
RAW = ("--raw", "--no-intercept")
REGRESSION = ("--target", "y", "--drop", "bought", *RAW)
CLASSES = ("--target", "bought", "--drop", "y", "--loss", "logistic", *RAW)


@pytest.mark.parametrize(
    ("text", "constraints"),
    [
        ("l1:2", lambda x: [cp.norm1(x) <= 2]),
        ("l2:1.5", lambda x: [cp.norm2(x) <= 1.5]),
        ("linf:0.7", lambda x: [cp.norm_inf(x) <= 0.7]),
        ("simplex", lambda x: [x >= 0, cp.sum(x) == 1]),
        ("simplex:2.5", lambda x: [x >= 0, cp.sum(x) == 2.5]),
        ("box:-0.5,1", lambda x: [x >= -0.5, x <= 1]),
        ("L1:2", lambda x: [cp.norm1(x) <= 2]),
    ],
)
@pytest.mark.parametrize("loss", ["squared", "logistic", "huber"])
def test_models_are_those_of_an_independent_solver(run, shop, tmp_path, text, constraints, loss):
    out = tmp_path / "model.npz"
    asked = CLASSES if loss == "logistic" else (*REGRESSION, "--loss", loss, "--rho", 0.4)
    code, output, error = run("solve", shop, *asked, "--set", text, "--out", out, "--rtol", 1e-9)
    assert (code, error) == (0, "")
    x = cp.Variable(6)
    signs = np.where(LABELS == "yes", 1, -1)
    f = {
        "squared": cp.sum_squares(A @ x - Y) / 2,
        "huber": cp.sum(cp.huber(A @ x - Y, 0.4)) / 2,
        "logistic": cp.sum(cp.logistic(-cp.multiply(signs, A @ x))),
    }[loss]
    optimum = cp.Problem(cp.Minimize(f / 60), constraints(x)).solve(solver=cp.CLARABEL)
    model = FittedModel.load(out)
    assert model.certified
    assert model.fun == pytest.approx(optimum, abs=1e-6)
    assert model.names == NAMES
    assert model.classes == (("no", "yes") if loss == "logistic" else None)
    assert str(out) in output
    assert all(name in output for name, _ in model.largest(3))


@pytest.mark.parametrize("labels", [(0, 1), (-1, 1), (1, 2), (2.5, 7), ("no", "yes"), ("+", "-"), ("none", "some")])
def test_any_two_classes(run, tmp_path, labels):
    rows = [[x, labels[int(x > 0)]] for x in (-2.0, -1.0, 1.0, 2.0)]
    path, out = tmp_path / "a.csv", tmp_path / "model.npz"
    path.write_text("x,y\n" + "".join(f"{x},{y}\n" for x, y in rows))
    assert run("solve", path, "--target", "y", "--loss", "logistic", "--set", "l1:3", "--out", out)[0] == 0
    code, output, error = run("predict", out, path)
    assert (code, error) == (0, "correct: 4 of 4 rows (100.0%)\n")
    assert [line.split(",")[0] for line in output.splitlines()[1:]] == [str(label) for _, label in rows]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ("1 1 1", "--loss logistic needs two classes or more; the target 'y' has one class: 1"),
        ("a b c", "the target 'y' has 3 different values in 3 rows, too many for classes"),
        (" ".join(map(str, range(30))), "has 30 different values in 30 rows, too many for classes; for numbers, use"),
    ],
)
def test_other_numbers_of_classes_are_refused(capsys, monkeypatch, tmp_path, labels, message):
    path = tmp_path / "a.csv"
    path.write_text("x,y\n" + "".join(f"{i / 7},{label}\n" for i, label in enumerate(labels.split())))
    command = ("solve", path, "--target", "y", "--loss", "logistic", "--set", "l1:3")
    assert message in fails(capsys, monkeypatch, *command)


def test_formats_agree(run, tmp_path, shop):
    pq.write_table(pa.table({**dict(zip(NAMES, A.T, strict=True)), "y": Y}), tmp_path / "a.parquet")
    np.savez(tmp_path / "a.npz", X=A, y=Y)
    sp.save_npz(tmp_path / "s.npz", sp.csr_array(A))
    scipy.io.mmwrite(tmp_path / "a.mtx", sp.coo_array(A), precision=17)
    np.save(tmp_path / "y.npy", Y)
    pairs = ([f"{j}:{a!r}" for j, a in enumerate(row, 1)] for row in A.tolist())
    lines = (" ".join([repr(y), *row]) for y, row in zip(Y.tolist(), pairs, strict=True))
    (tmp_path / "a.svm").write_text("\n".join(lines))
    cases = {
        "shop.csv": REGRESSION,
        "a.parquet": ("--target", "y", *RAW),
        "a.npz": RAW,
        "s.npz": ("--target-file", tmp_path / "y.npy", *RAW),
        "a.mtx": ("--target-file", tmp_path / "y.npy", "--no-intercept"),
        "a.svm": ("--no-intercept",),
    }
    found = []
    for name, asked in cases.items():
        asked = (*asked, "--set", "l1:2", "--rtol", 1e-10)
        code, _, error = run("solve", tmp_path / name, *asked, "--out", tmp_path / "m.npz")
        assert code == 0, error
        found.append(FittedModel.load(tmp_path / "m.npz").coefficients)
    np.testing.assert_allclose(found, np.broadcast_to(found[0], (6, 6)), atol=1e-5)


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_by_default_the_tolerance_is_relative(run, tmp_path, scale):
    np.savez(tmp_path / "a.npz", X=A, y=scale * Y)
    code, output, _ = run("solve", tmp_path / "a.npz", "--set", f"l1:{2 * scale}", "--no-intercept", "--json")
    x = fw.minimize(fw.LinearModel(A, Y), fw.L1Ball(2.0), tol=1e-10).x
    assert code == 0
    largest = json.loads(output)["largest"]
    assert largest[0]["coefficient"] == pytest.approx(scale * x[0], rel=1e-3)


def test_json_alone_is_on_standard_output(run, shop, tmp_path):
    out = tmp_path / "model.npz"
    asked = (*CLASSES, "--set", "l1:2", "-m", "midpoint", "--max-iter", 5)
    code, output, error = run("solve", shop, *asked, "--out", out, "--json")
    summary = json.loads(output)
    assert code == 3
    assert error.startswith("warning: tableau 'midpoint' is not certified")
    assert (summary["certified"], summary["iterations"], summary["out"]) == (False, 5, str(out))
    assert summary["classes"] == ["no", "yes"]
    code, output, _ = run("inspect", out, "--json")
    assert (code, json.loads(output)) == (0, {key: summary[key] for key in json.loads(output)})


def test_the_best_model_is_written_where_the_tolerance_is_not_reached(run, shop, tmp_path):
    out = tmp_path / "model.npz"
    code, output, _ = run("solve", shop, *REGRESSION, "--set", "l1:2", "--out", out, "-m", "fw", "--max-iter", 7)
    r = fw.minimize(fw.LinearModel(A, Y), fw.L1Ball(2.0), method="fw", tol=0, rtol=1e-6, max_iter=7)
    assert code == 3
    assert "raise --max-iter" in output
    np.testing.assert_array_equal(FittedModel.load(out).coefficients, r.x)


def test_traces_and_figures(run, shop, tmp_path):
    trace, plot = tmp_path / "trace.csv", tmp_path / "figure.svg"
    assert run("solve", shop, *REGRESSION, "--set", "l1:2", "--trace", trace, "--plot", plot)[0] == 0
    rows = list(csv.DictReader(trace.read_text().splitlines()))
    assert rows[0]["k"] == "0"
    assert float(rows[-1]["gap"]) < float(rows[0]["gap"])
    assert "<svg" in plot.read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((*REGRESSION, "--set", "l3:2"), "--set 'l3:2' is not known; accepted: 'l1'"),
        ((*REGRESSION, "--set", "simplx:2"), "did you mean 'simplex'?"),
        ((*REGRESSION, "--set", "l1"), "--set l1 needs a radius, as in l1:10, or --cv 5, which chooses the radius"),
        ((*REGRESSION, "--set", "l1:ten"), "--set 'l1:ten' must be l1:R"),
        ((*REGRESSION, "--set", "l1:-1"), "--set 'l1:-1': radius must be a positive finite number"),
        ((*REGRESSION, "--set", "box:1"), "--set 'box:1' must be box:LO,HI, with numbers; for example box:0,1"),
        ((*REGRESSION, "--set", "box:2,1"), "lower must not exceed upper"),
        ((*REGRESSION, "--set", "l1:1", "--loss", "hinge"), "loss='hinge' is not known"),
        ((*REGRESSION, "--set", "l1:1", "-m", "polishd"), "did you mean 'polished'?"),
        ((*REGRESSION, "--set", "l1:1", "--out", "no/such/folder/m.npz"), "--out no/such/folder/m.npz cannot be w"),
        ((*REGRESSION, "--set", "l1:1", "--out", "."), "--out . is a folder"),
        ((*REGRESSION, "--set", "l1:1", "--out", "shop.csv"), "--out shop.csv would overwrite the data"),
        ((*REGRESSION, "--set", "l1:1", "--out", "notes.txt"), "notes.txt exists and is not a model file"),
        ((*REGRESSION, "--set", "l1:1", "--trace", "t", "--out", "t"), "--trace t would overwrite --out"),
        ((*REGRESSION, "--set", "l1:1", "--plot", "figure.xyz"), "unknown figure format 'xyz'"),
        ((*REGRESSION, "--set", "l1:1", "--resume"), "--resume needs --checkpoint"),
        ((*REGRESSION, "--set", "l1:1", "--tol", "-1"), "tol must not be negative"),
        (("--set", "l1:1"), "the column to predict must be named with --target; it has columns 'age'"),
        (("--set", "l1:1", "--target", "y", "--raw"), "column 'bought' holds no numbers"),
        (("--set", "l1:1", "--target", "y", "--raw", "--missing", "drop"), "--raw and --missing exclude each other"),
        (("--set", "l1:1", "--target", "y", "--raw", "--no-scale"), "--raw and --no-scale exclude each other"),
        (("--set", "l1:1", "--target", "y", "--missing", "no"), "--missing 'no' is not known; accepted: 'impute'"),
        (("--set", "l1:1", "--target", "y", "--date", "age"), "column 'age' must hold a date such as 2024-03-01"),
        (("--set", "l1:1", "--target", "y", "--numeric", "bought"), "line 2: column 'bought' must hold a finite numb"),
        (("--set", "l1:1", "--target", "y", "--categorical", "Age"), "no column 'Age' (--categorical); did you"),
        (("--set", "l1:1", "--target", "y", "--categorical", "y"), "--categorical names the target 'y'"),
        (("--set", "l1:1", "--target", "y", "--date", "age", "--numeric", "age"), "--numeric and --date both name"),
        (("--set", "l1:1", "--target", "bought", "--drop", "y"), "the target 'bought' is 'yes', and --loss squ"),
        (("--set", "l1:1", "--target", "y", "--target-file", "y.csv"), "--target and --target-file exclude each other"),
        (("--set", "l1:1", "--drop", "bought", "--target-file", "y.csv"), "y.csv has 2 rows, and shop.csv has 60"),
    ],
)  # fmt: skip
def test_wrong_use_is_one_line_and_writes_nothing(capsys, monkeypatch, tmp_path, shop, arguments, message):
    monkeypatch.chdir(tmp_path)
    Path("notes.txt").write_text("mine")
    Path("y.csv").write_text("1\n2\n")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    assert message in fails(capsys, monkeypatch, "solve", "shop.csv", *arguments)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_what_cannot_be_written_is_known_before_the_data_is_read(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(problem, "read", pytest.fail)
    asked = ("--target", "y", "--set", "l1:1", "--out", tmp_path / "no" / "m.npz")
    fails(capsys, monkeypatch, "solve", tmp_path / "huge.csv", *asked)


def full_disk(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_is_one_line_and_leaves_the_old_model(run, monkeypatch, shop, tmp_path):
    out = tmp_path / "model.npz"
    command = ("solve", shop, *REGRESSION, "--out", out)
    assert run(*command, "--set", "l1:2")[0] == 0
    old = out.read_bytes()
    monkeypatch.setattr(os, "fsync", full_disk)
    code, _, error = run(*command, "--set", "l1:1")
    assert code == 2
    assert "model.npz: No space left on device; the file was not saved" in error
    assert error.count("\n") == 1
    assert out.read_bytes() == old
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.npz", "shop.csv"]


def test_a_disk_that_is_full_for_checkpoints_does_not_end_the_run(run, monkeypatch, shop, tmp_path):
    monkeypatch.setattr(fw.State, "save", full_disk)
    code, _, error = run(
        "solve", shop, *REGRESSION, "--set", "l1:2", "--checkpoint", tmp_path / "c.npz", "--every", 0,
    )  # fmt: skip
    assert code == 0
    assert "c.npz: No space left on device" in error


METHODS = ["auto", "fw", "rk44", "away", "lazy-pairwise", "corrective", "apg", "polished", "flow"]


def fitted(path):
    model = FittedModel.load(path)
    return model.coefficients.tobytes(), model.fun, model.gap, model.iterations, model.method


@pytest.mark.sampled(3)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("stop", [1, 4])
def test_resumed_runs_end_as_if_they_had_not_been_interrupted(run, monkeypatch, tmp_path, method, stop):
    X = np.random.default_rng(1).standard_normal((80, 40))
    np.savez(tmp_path / "a.npz", X=X, y=X[:, :5].sum(axis=1) > 0)
    asked = ("--loss", "logistic", "--set", "l1:20", "-m", method, "--rtol", 1e-9, "--max-iter", 40)
    command = ("solve", tmp_path / "a.npz", *asked)
    run(*command, "--out", tmp_path / "whole.npz")
    watched, save = [], models.Checkpoints.save

    def interrupted(self, state):
        save(self, state)
        watched.append(state.k)
        if len(watched) == stop:
            raise KeyboardInterrupt

    part = (*command, "--out", tmp_path / "part.npz", "--checkpoint", tmp_path / "c.npz", "--every", 0, "--resume")
    with monkeypatch.context() as patch:
        patch.setattr(models.Checkpoints, "save", interrupted)
        code, _, error = run(*part)
    assert (code, error) == (130, f"interrupted; the best model so far is in {tmp_path / 'part.npz'}\n")
    run(*part)
    assert fitted(tmp_path / "part.npz") == fitted(tmp_path / "whole.npz")


def test_a_checkpoint_is_not_overwritten_by_another_run(capsys, monkeypatch, run, shop, tmp_path):
    command = ("solve", shop, *REGRESSION, "--checkpoint", tmp_path / "c.npz")
    assert run(*command, "--set", "l1:2", "-m", "fw", "--max-iter", 3)[0] == 3
    assert "continue it with --resume" in fails(capsys, monkeypatch, *command, "--set", "l1:2")
    message = fails(capsys, monkeypatch, *command, "--set", "l1:3", "-m", "fw", "--resume")
    assert "state belongs to another problem: its set was" in message
    assert run(*command, "--set", "l1:2", "-m", "fw", "--max-iter", 5, "--resume")[0] == 3
    assert fw.State.load(tmp_path / "c.npz").k == 5


@pytest.mark.parametrize("stage", ["read_problem", "minimize"])
def test_interrupted_before_there_is_a_model(run, monkeypatch, shop, tmp_path, stage):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(models if stage == "read_problem" else fw, stage, interrupt)
    code, output, error = run("solve", shop, *REGRESSION, "--set", "l1:2", "--out", tmp_path / "m.npz")
    assert (code, output, error) == (130, "", "interrupted; there was no model yet, so none is written\n")
    assert not (tmp_path / "m.npz").exists()


def test_an_interrupt_waits_for_the_model_to_be_written(run, monkeypatch, shop, tmp_path):
    save = FittedModel.save

    def interrupted(self, path):
        os.kill(os.getpid(), signal.SIGINT)
        save(self, path)

    monkeypatch.setattr(FittedModel, "save", interrupted)
    code, _, error = run("solve", shop, *REGRESSION, "--set", "l1:2", "--out", tmp_path / "m.npz")
    assert (code, error) == (130, f"interrupted; the model is in {tmp_path / 'm.npz'}\n")
    assert FittedModel.load(tmp_path / "m.npz").certified


def test_an_interrupt_within_a_destructor_is_heard(run, monkeypatch, shop, tmp_path):
    class Closed:
        def __del__(self):
            signal.raise_signal(signal.SIGINT)

    lost, out = [], tmp_path / "m.npz"
    monkeypatch.setattr(sys, "unraisablehook", lost.append)
    monkeypatch.setattr(models.Checkpoints, "__call__", lambda self, state: Closed() and None)
    code, _, error = run("solve", shop, *REGRESSION, "--set", "l1:0.5", "--method", "fw", "--out", out)
    assert (code, error) == (130, f"interrupted; the best model so far is in {out}\n")
    assert {type(each.exc_value) for each in lost} == {KeyboardInterrupt}
    assert FittedModel.load(out).iterations == 0


def test_progress_is_shown_on_terminals(monkeypatch):
    terminal = Console(force_terminal=True, width=120, record=True, file=io.StringIO())
    monkeypatch.setattr(screen, "Console", lambda stderr: terminal)
    monkeypatch.setattr(screen, "_UPDATE_SECONDS", 0.0)
    with screen.progress(0.0, 1e-6) as show:
        fw.minimize(fw.LinearModel(A, Y), fw.L1Ball(2.0), tol=0, rtol=1e-6, callback=show)
    assert terminal.export_text() == ""  # A short run shows nothing.
    monkeypatch.setattr(screen, "_DELAY_SECONDS", 0.0)
    with screen.counting("models") as step:
        step(3, 20)
    assert "3 of 20 models" in terminal.export_text()
    with screen.progress(0.0, 1e-6) as show:
        fw.minimize(fw.LinearModel(A, Y), fw.L1Ball(2.0), tol=0, rtol=1e-6, callback=show)
    text = terminal.export_text()
    assert "iterations, gap" in text
    assert "passes" in text


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT to a process, which Windows does not have")
def test_ctrl_c_in_a_real_run(tmp_path):
    random = np.random.default_rng(0)
    np.savez(tmp_path / "a.npz", X=random.standard_normal((200, 50)), y=random.standard_normal(200))
    out, checkpoint = tmp_path / "m.npz", tmp_path / "c.npz"
    command = [
        sys.executable, "-m", "fwflow.cli", "solve", str(tmp_path / "a.npz"), "--set", "l1:0.5", "-m", "fw",
        "--rtol", "1e-15", "--max-iter", "100000000", "--every", "0.05",
        "--out", str(out), "--checkpoint", str(checkpoint),
    ]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while process.poll() is None and not checkpoint.exists():
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=120)
    assert (process.returncode, error) == (130, f"interrupted; the best model so far is in {out}\n")
    assert FittedModel.load(out).iterations <= fw.State.load(checkpoint).k
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("so", ["solve"]),
        ("solve shop.csv --set l", ["l1:", "l2:", "linf:"]),
        ("path shop.csv --set l", ["l1", "l2", "linf"]),
        ("path shop.csv --set b", []),
        ("path shop.csv --loss ", ["squared", "logistic", "huber", "quantile", "poisson"]),
        ("solve shop.csv --method pol", ["polished"]),
        ("solve shop.csv -m rk4", ["rk44"]),
        ("solve shop.csv --target ", [*NAMES, "y", "bought"]),
        ("path shop.csv --set l1 --drop b", ["b, or c", "bought"]),
        ("predict model.npz shop.csv --drop v", ["visits"]),
        ("solve none.csv --target ", []),
        ("solve a.svm --target ", []),
        ("solve --target ", []),
    ],
)
def test_shells_can_complete(monkeypatch, shop, line, words):
    monkeypatch.chdir(shop.parent)
    Path("a.svm").write_text("1 1:2\n")
    asked = {"COMP_WORDS": f"fwflow {line}", "COMP_CWORD": str(line.count(" ") + 1)}
    asked |= {"_FWFLOW_COMPLETE": "complete_bash"}
    result = CliRunner().invoke(cli.app, [], prog_name="fwflow", env=asked, catch_exceptions=False)
    assert result.exit_code == 0
    assert [word for word in result.output.split("\n") if word] == words


def test_the_first_screen_shows_the_way():
    output = CliRunner().invoke(cli.app, [], catch_exceptions=False).output
    assert "fwflow solve shop.csv --target bought" in output
    assert [name for name in ("solve", "path", "predict", "inspect", "reproduce") if name not in output] == []


def test_three_classes_need_no_scikit_learn(tmp_path):
    rows = [f"{a},{b},{'xyz'[k % 3]}" for k, (a, b) in enumerate(A[:, :2].round(3).tolist())]
    (tmp_path / "t.csv").write_text("\n".join(["a,b,kind", *rows]))
    command = ["solve", "t.csv", "--target", "kind", "--loss", "logistic", "--set", "l1:1", "--raw", "--out", "m.npz"]
    script = f"import sys; sys.modules['sklearn'] = None; sys.argv[1:] = {command}; from fwflow import cli; cli.main()"
    found = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    model = FittedModel.load(tmp_path / "m.npz")
    assert model.classes == ("x", "y", "z")
    assert model.coefficients.shape == (3, 2)
