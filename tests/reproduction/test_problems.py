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
    p = from_file(str(tmp_path / "a.npz"), "l1:3", loss="logistic", intercept=False)
    expected = fw.LinearModel(A, np.where(B > 0, 1.0, -1.0), "logistic")
    x = np.arange(4.0)
    assert p.f.value(p.f.point(x)) == expected.value(expected.point(x))
    assert p.C.radius == 3.0


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
    "names.npz": lambda path: np.savez(path, Z=A, y=B),
    "objects.npz": lambda path: np.savez(path, A=np.array([None]), b=np.array([None])),
    "lengths.npz": lambda path: np.savez(path, A=A, b=B[:-1]),
    "empty.csv": Path.touch,
    "header-only.csv": lambda path: path.write_text("a,b\n"),
    "one-column.csv": lambda path: path.write_text("1\n2\n"),
    "ragged.csv": lambda path: path.write_text("1,2,3\n4,5\n"),
    "words.csv": lambda path: path.write_text("1,2,3\n4,five,6\n"),
    "no-target.csv": lambda path: path.write_text("1;2;3\n4;5;6\n"),
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
        compared(tmp_path / "out", path, target="1" if name.endswith("csv") and "no-" not in name else None)
    assert not (tmp_path / "out" / "index.html").exists()


@pytest.mark.parametrize("problem", ["file", "trinagle"])
def test_compare_on_an_unknown_problem(tmp_path, serial, problem):
    with pytest.raises(ValueError, match=f"'{problem}' is neither a built-in problem nor a data file;.* 'movielens'$"):
        compared(tmp_path, problem)


@pytest.mark.parametrize("changed", ["path", "target_file"])
def test_a_file_that_has_changed_is_read_again(tmp_path, changed):
    options = {name: str(tmp_path / f"{name}.csv") for name in ("path", "target_file")}
    for path in options.values():
        Path(path).write_text("1\n2\n")
    options |= {"raw": True}
    first = find_problem("file", **options)
    assert find_problem("file", **options) is first
    Path(options[changed]).write_text("1\n20\n")
    second = find_problem("file", **options)
    assert (second.f.design.A[1, 0], second.f.b[1]) == ((20, 2) if changed == "path" else (2, 20))
