"""Problems by name and from files, and files that are refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fwflow as fw
from fwflow.reproduction import problems
from fwflow.reproduction.problems import find_problem, from_file
from tests.reproduction.helpers import A, B, compared


@pytest.mark.parametrize(
    ("name", "shape", "words"),
    [
        ("madelon", (500,), "real data shipped with fwflow"),
        ("gisette", (5000,), "real data shipped with fwflow: recovered from the LIBSVM-scaled copy"),
        ("movielens", (943, 1682), "A stand-in for MovieLens 100K, generated"),
    ],
)
def test_problems_run_without_files_and_say_on_what(monkeypatch, tmp_path, name, shape, words):
    monkeypatch.delenv("FWFLOW_DATA", raising=False)
    monkeypatch.setenv("FWFLOW_CACHE", str(tmp_path))
    problems._cached.cache_clear()
    p = find_problem(name)
    assert p.f.shape == shape
    assert words in p.data
    assert find_problem(name) is p
    problems._cached.cache_clear()


def test_unknown_problem():
    with pytest.raises(ValueError, match="problem='sensng' is not known; did you mean 'sensing'"):
        find_problem("sensng")


@pytest.mark.parametrize("classes", [(0, 1), (-1, 1), (1, 2), (9, 4)])
def test_two_classes_become_labels(tmp_path, classes):
    labels = np.where(B > 0, max(classes), min(classes))
    np.savez(tmp_path / "a.npz", X=A, y=labels)
    p = from_file(str(tmp_path / "a.npz"), "logistic", 3.0)
    expected = fw.LinearModel(A, np.where(B > 0, 1.0, -1.0), "logistic")
    x = np.arange(4.0)
    assert p.f.value(p.f.point(x)) == expected.value(expected.point(x))
    assert p.C.radius == 3.0


@pytest.mark.parametrize("first", ["nan,1,2", "1,inf,2"])
def test_first_row_that_is_not_finite_is_not_a_header(tmp_path, first):
    path = tmp_path / "a.csv"
    path.write_text(f"{first}\n3,4,5\n6,7,8\n")
    with pytest.raises(ValueError, match="finite"):
        from_file(str(path), "squared", 1.0)


def test_byte_order_mark_does_not_make_a_header(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("0,1,2\n3,4,5\n6,7,8\n", encoding="utf-8-sig")
    assert from_file(str(path), "squared", 1.0).data == "a.csv, 3 x 2."


def truncated(path):
    np.savez(path, A=A, b=B)
    path.write_bytes(path.read_bytes()[:200])


def bare_array(path):
    with open(path, "wb") as file:
        np.save(file, A)


WRONG = {
    "empty.npz": Path.touch,
    "text.npz": lambda path: path.write_text("hello"),
    "truncated.npz": truncated,
    "array.npz": bare_array,
    "names.npz": lambda path: np.savez(path, A=A, y=B),
    "objects.npz": lambda path: np.savez(path, A=np.array([None]), b=np.array([None])),
    "lengths.npz": lambda path: np.savez(path, A=A, b=B[:-1]),
    "empty.csv": Path.touch,
    "header-only.csv": lambda path: path.write_text("a,b\n"),
    "one-column.csv": lambda path: path.write_text("1\n2\n"),
    "ragged.csv": lambda path: path.write_text("1,2,3\n4,5\n"),
    "words.csv": lambda path: path.write_text("1,2,3\n4,five,6\n"),
    "semicolons.csv": lambda path: path.write_text("1;2;3\n4;5;6\n"),
    "latin.csv": lambda path: path.write_bytes("größe,y\n1,2\n".encode("latin-1")),
    "words.svm": lambda path: path.write_text("1 a:b\n"),
    "empty.svm": Path.touch,
    "folder.csv": Path.mkdir,
    "missing.csv": lambda path: None,
    "unknown.xlsx": Path.touch,
    "overflow.csv": lambda path: path.write_text("1e200,2,1e200\n3,4,5\n"),
}


@pytest.mark.filterwarnings("ignore:loadtxt:UserWarning", "ignore:overflow:RuntimeWarning")
@pytest.mark.parametrize("name", WRONG)
def test_wrong_files_are_errors_of_use(tmp_path, serial, name):
    path = tmp_path / name
    WRONG[name](path)
    with pytest.raises((ValueError, OSError, RuntimeError)):  # what the command line shows as one line
        compared(tmp_path / "out", path)
    assert not (tmp_path / "out" / "index.html").exists()


def test_messages_about_files_say_what_is_accepted(tmp_path):
    np.savez(tmp_path / "a.npz", A=A, y=B)
    with pytest.raises(ValueError, match=r"a\.npz:? must hold the arrays A and b, or X and y; it holds \['A', 'y'\]"):
        from_file(str(tmp_path / "a.npz"), "squared", 1.0)
    with pytest.raises(ValueError, match=r"neither a built-in problem \(triangle, .*nor a file ending in .npz, .csv"):
        from_file("a.xlsx", "squared", 1.0)
    np.savez(tmp_path / "b.npz", A=A, b=np.arange(12) % 3)
    with pytest.raises(ValueError, match=r"loss='logistic' needs two classes; .* has 3"):
        from_file(str(tmp_path / "b.npz"), "logistic", 1.0)


@pytest.mark.parametrize("problem", ["file", "trinagle"])
def test_compare_on_an_unknown_problem(tmp_path, serial, problem):
    with pytest.raises(ValueError, match=rf"{problem}.*built-in problem \([a-z, ]*\)") as error:
        compared(tmp_path, problem)
    assert "movielens, file" not in str(error.value)  # how data of one's own is kept is not a problem's name
