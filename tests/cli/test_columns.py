"""Do options that contradict each other about columns end in one line?"""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.io

from fwflow.tables.model_files import FittedModel
from tests.cli.test_cli import fails, main

ROWS = [[1.0, 2.0, 3.0], [4.0, 5.0, 7.0], [7.0, 8.0, 8.0]]


def save(folder, kind):
    path = folder / f"a.{kind}"
    if kind == "csv":
        path.write_text("a,b,y\n" + "".join(f"{a},{b},{y}\n" for a, b, y in ROWS))
    elif kind == "parquet":
        pq.write_table(pa.table(dict(zip("aby", np.transpose(ROWS), strict=True))), path)
    elif kind == "npz":
        np.savez(path, X=np.array(ROWS), names=["a", "b", "y"])
    elif kind == "mtx":
        scipy.io.mmwrite(path, np.array(ROWS))
    else:
        path.write_text("".join(f"{y} 1:{a} 2:{b} 3:{y}\n" for a, b, y in ROWS))
    return path


KINDS = ["csv", "parquet", "npz", "mtx", "svm"]


def names(kind):
    return ("a", "b", "y") if kind in ("csv", "parquet", "npz") else ("1", "2", "3")


@pytest.fixture(params=["solve", "path"])
def command(request):
    return (request.param, *(("--set", "l1:1") if request.param == "solve" else ("--radii", "1")))


@pytest.mark.parametrize("kind", KINDS)
def test_contradictions(capsys, monkeypatch, tmp_path, kind, command):
    path, (a, b, y) = save(tmp_path, kind), names(kind)

    def said(*options):
        return fails(capsys, monkeypatch, command[0], path, *command[1:], *options)

    both = f"error: --target and --drop both name '{y}'; use it in one of them"
    assert said("--target", y, "--drop", y) == both
    assert said("--target", y, "--drop", a, "--drop", y) == both
    assert "has no column to predict from" in said("--target", y, "--drop", a, "--drop", b)
    assert f"--drop leaves out columns '{a}', '{b}'" in said("--target", y, "--drop", a, "--drop", b)
    assert "has no column 'other' (--target)" in said("--target", "other")
    assert "has no column 'other' (--drop)" in said("--target", y, "--drop", "other")
    assert "has no column '' (--drop)" in said("--target", y, "--drop", "")
    assert "--target and --target-file exclude each other" in said("--target", y, "--target-file", path)


def test_the_same_column_may_be_left_out_twice(capsys, monkeypatch, tmp_path):
    path = save(tmp_path, "csv")
    assert main(capsys, monkeypatch, "path", path, "--target", "y", "--radii", 1, "--drop", "a", "--drop", "a")[0] == 0


def test_a_target_that_is_a_column_though_the_file_has_its_own(capsys, monkeypatch, tmp_path):
    np.savez(tmp_path / "a.npz", X=np.array(ROWS), y=np.array([1.0, 2.0, 4.0]))
    out = tmp_path / "model.npz"
    command = ("solve", tmp_path / "a.npz", "--set", "l1:1", "--out", out)
    assert main(capsys, monkeypatch, *command, "--target", "3")[0] == 0
    assert (FittedModel.load(out).target, FittedModel.load(out).names) == ("3", ("1", "2"))
    assert main(capsys, monkeypatch, *command)[0] == 0
    assert (FittedModel.load(out).target, FittedModel.load(out).names) == ("y", ("1", "2", "3"))
    assert "has no column '4' (--target)" in fails(capsys, monkeypatch, *command, "--target", "4")


def test_predict(capsys, monkeypatch, tmp_path):
    path, model = save(tmp_path, "csv"), tmp_path / "model.npz"
    assert main(capsys, monkeypatch, "solve", path, "--target", "y", "--set", "l1:1", "--out", model)[0] == 0
    needed = f"error: --drop 'a' leaves out a column that the model {model} needs"
    assert fails(capsys, monkeypatch, "predict", model, path, "--drop", "a") == needed
    assert "has no column 'other' (--drop)" in fails(capsys, monkeypatch, "predict", model, path, "--drop", "other")
    code, _, error = main(capsys, monkeypatch, "predict", model, path)
    assert (code, error.startswith("mean squared error")) == (0, True)
    assert main(capsys, monkeypatch, "predict", model, path, "--drop", "y")[::2] == (0, "")
    path.write_text("b,a\n1,2\n")  # the target need not be there
    assert main(capsys, monkeypatch, "predict", model, path)[0] == 0


@pytest.mark.parametrize("kind", ["csv", "parquet", "npz", "mtx", "svm", "csv.gz", "", "xlsx"])
def test_folders_are_no_tables(capsys, monkeypatch, tmp_path, kind):
    folder = tmp_path / f"a.{kind}"
    folder.mkdir()
    assert f"{folder} is a folder" in fails(capsys, monkeypatch, "solve", folder, "--set", "l1:1")
