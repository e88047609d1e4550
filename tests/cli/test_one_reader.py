"""Do ``fwflow solve`` and ``fwflow compare`` read a file as the same problem, or refuse it with the same sentence?"""

import csv
import gzip
import io
import sys
from contextlib import redirect_stderr
from itertools import product

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.io
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import fwflow as fw
from fwflow import cli
from fwflow.reproduction import problems, runs
from fwflow.tables.readers import MISSING
from tests.cli.test_cli import main


class Loaded(BaseException):
    """The arguments of the first call of `minimize`, in place of a run."""


def loaded(*command):
    """Return the matrix, target, loss and set with which a command begins, or the sentence with which it refuses."""

    def stop(f, C, *_, **__):
        raise Loaded(f, C)

    problems._cached.cache_clear()
    error = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stderr(error):
        patch.setattr(fw, "minimize", stop)
        patch.setattr(runs, "minimize", stop)
        patch.setattr(sys, "argv", ["fwflow", *map(str, command), "--set", "l1:3"])
        try:
            cli.main()
        except Loaded as found:
            f, C = found.args
            if f.targets > 1:
                A, more = f.design.design.A, f.intercept_at(np.zeros(f.shape)).tolist()
            else:
                A, more = f.design.A, (repr(f.loss), f.intercept_at(np.zeros(f.shape)))
            X = A.toarray() if sp.issparse(A) else A
            return X.tolist(), f.b.tolist(), A.dtype, more, repr(C)
        except SystemExit as end:
            code = end.code
    assert (code, error.getvalue().count("\n")) == (2, 1), error.getvalue()
    return error.getvalue()


def agree(path, *options):
    found = loaded("solve", path, *options)
    assert found == loaded("compare", path, *options)
    return found


def test_missing_values_are_those_of_one_list(tmp_path):
    path = tmp_path / "a.csv"
    for text in (*MISSING, "none", "-", "kg"):
        path.write_text(f"a,y\n1,{text}\n2,x\n")
        found = agree(path, "--target", "y", "--loss", "logistic", "--missing", "error")
        assert (f"{path}, line 2: the target 'y' is missing" in found) == (text in MISSING)
        path.write_text(f"a,b,y\n1,{text},3\n2,2,2\n4,5,6\n")
        assert f"{path}, line 2, column 2 ('b') " in agree(path, "--target", "y", "--raw")
        prepared = agree(path, "--target", "y")
        # Missing cells are imputed; another text makes the column a category, which here differs in all rows.
        assert (len(prepared[0][0]) == 3) == (text != "kg")


CELLS = st.sampled_from(["1", "2.5", "-3e2", "0", "", "NA", "nan", "?", "-", "none", "inf", "yes", "1_000", " 4 "])


@st.composite
def texts(draw):
    width = draw(st.integers(1, 4))
    row = st.lists(st.sampled_from(["1", "2.5", "-3e2", "0"]) | CELLS, min_size=width, max_size=width)
    numbers = st.lists(st.sampled_from(["1", "2.5", "-3e2", "0"]), min_size=width, max_size=width)
    rows = draw(st.lists(draw(st.sampled_from([row, numbers])), min_size=1, max_size=4))
    labels = draw(st.sampled_from([("0", "1"), ("no", "yes"), ("-", "+"), ("a", "b", "c"), ("1.5", "NA")]))
    names = [*(f"x{j}" for j in range(width)), "y"]
    rows = [[*row, labels[i % len(labels)]] for i, row in enumerate(rows)]
    content = io.StringIO()
    writer = csv.writer(content, delimiter=draw(st.sampled_from(",;\t")))
    writer.writerows([names, *rows] if draw(st.booleans()) else rows)
    options = draw(
        st.sampled_from([(), ("--target", "y"), ("--target", "y", "--drop", "x0"), ("--target", str(width + 1))])
    )
    options += draw(st.sampled_from([(), ("--header",), ("--no-header",), ("--no-intercept",)]))
    options += draw(st.sampled_from([(), ("--raw",), ("--missing", "drop"), ("--categorical", "x0"), ("--no-scale",)]))
    return content.getvalue(), (*options, "--loss", draw(st.sampled_from(["squared", "logistic", "huber"])))


@pytest.mark.filterwarnings("ignore:.* are numbers, but:UserWarning")  # some random columns are mostly numbers
@given(texts(), st.sampled_from(["a.csv", "a.tsv", "a.csv.gz", "a.txt"]))
@settings(max_examples=120, deadline=None)
def test_texts(tmp_path_factory, case, name):
    text, options = case
    path = tmp_path_factory.getbasetemp() / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    agree(path, *options)


RANDOM = np.random.default_rng(0)
A, NUMBERS, WORDS = RANDOM.standard_normal((6, 3)), RANDOM.standard_normal(6), np.array(["no", "yes"] * 3)


def write(path, kind, b):
    """Write A, and b where the format can hold it."""
    if kind == "npz":
        np.savez(path, X=A, y=b)
    elif kind == "float32.npz":
        np.savez(path, A=A.astype(np.float32), b=b)
    elif kind == "sparse.npz":
        sp.save_npz(path, sp.csr_array(A))
    elif kind == "mtx":
        scipy.io.mmwrite(path, sp.coo_array(A))
    elif kind == "parquet":
        pq.write_table(pa.table({"1": A[:, 0], "2": A[:, 1], "3": A[:, 2], "y": b}), path)
    elif kind == "svm":
        path.write_text("".join(f"{y} 1:{r[0]} 3:{r[2]}\n" for y, r in zip(b, A, strict=True)))
    elif kind == "cut.npz":
        np.savez(path, X=A, y=b)
        path.write_bytes(path.read_bytes()[:100])
    elif kind == "folder.npz":
        path.mkdir()
    elif kind != "missing.csv":
        np.save(path.with_suffix(".tmp.npy"), A)
        path.with_suffix(".tmp.npy").rename(path)


KINDS = ["npz", "float32.npz", "sparse.npz", "mtx", "parquet", "svm", "npy"]
WRONG_KINDS = ["cut.npz", "folder.npz", "missing.csv"]
OPTIONS = [
    (), ("--target", "y"), ("--target", "2"), ("--target", "2", "--drop", "1"), ("--target-file", "y.npy"),
    ("--target-file", "y.npy", "--target", "2"), ("--target", "y", "--rho", "0.5", "--loss", "huber"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "words"), [*product(KINDS + WRONG_KINDS, (False, True))])
def test_formats(monkeypatch, tmp_path, kind, words):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / f"a.{kind}"
    write(path, kind, WORDS if words else NUMBERS)
    np.save("y.npy", WORDS if words else NUMBERS)
    found = [
        agree(path, *options, *loss)
        for options, loss in product(OPTIONS, ((), ("--loss", "logistic", "--no-intercept")))
    ]
    assert any(isinstance(each, tuple) for each in found) == (kind not in (*WRONG_KINDS, "npy"))


def test_a_target_file_of_other_content_is_another_result(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "a.mtx", "mtx", NUMBERS)
    tables = []
    for scale in (1, 2):
        np.save("y.npy", scale * NUMBERS)
        command = ("compare", "a.mtx", "--target-file", "y.npy", "-m", "fw", "-n", 3, "--workers", 1)
        code, output, error = main(capsys, monkeypatch, *command)
        assert code == 0, error
        tables.append(output)
    assert tables[0] != tables[1]
