"""Tiny data, tasks and results, shared by the tests of the experiments."""

from __future__ import annotations

import numpy as np
import pytest

import fwflow as fw
from fwflow.datasets import Dataset
from fwflow.reproduction import framework, problems, report, runs
from fwflow.reproduction.claims import Verdict
from fwflow.reproduction.framework import Task, run_tasks
from fwflow.reproduction.runs import compare
from fwflow.tableau.catalogue import find_tableau

HOLDS, PARTLY, FAILS, UNTESTABLE = Verdict.HOLDS, Verdict.PARTLY, Verdict.FAILS, Verdict.UNTESTABLE

#: Settings with which every experiment ends within a second on tiny data.
SMALL = {
    "E1": {"t_end": 20.0, "deltas": (1.0, 0.1), "cs": (2.0,), "methods": ("fw", "rk44"), "near": 2.0},
    "E2": {"t_end": 40.0, "deltas": (1.0, 0.1)},
    "E3": {"iterations": 30, "drawn": 5},
    "E4": {"iterations": 20},
    "E5": {"iterations": 5, "alpha": 10.0},
    "E6": {"iterations": 20},
    "E7": {"iterations": 10, "centres": 2},
    "E8": {"iterations": 200},
    "E9": {"iterations": 200, "c": (1.0, 2.0), "others": ("heun",), "others_c": (2.0,)},
    "E10": {"gradients": 200, "starts": 1, "iterations": 200, "problems": 1, "active_iterations": 100},
    "E11": {"iterations": 20, "cs": (1.0, 2.0), "long": 1000},
}
FEW_TABLEAUS = {name: fw.tableaus[name] for name in ("midpoint", "rk44")}


def tiny(name, split=None):
    random = np.random.default_rng(0)
    A = random.standard_normal((30, 8))
    b = A.sum(axis=1) + 0.05 * random.standard_normal(30)
    arrays, shape = {"A": A, "b": b if name == "sensing" else np.where(b > 0, 1.0, -1.0)}, A.shape
    if name == "movielens":
        rows, cols = np.divmod(random.permutation(48)[:30], 6)
        arrays, shape = {"rows": rows, "cols": cols, "values": random.integers(1, 6, 30).astype(float)}, (8, 6)
    return Dataset(name, "stand-in", f"Tiny data for {name}.", shape, arrays)


def one_by_one(waiting, workers):
    return ((name, task, framework._call(task)) for name, task in waiting)


@pytest.fixture
def serial(monkeypatch):
    """Tasks run here, one after the other, on tiny data; figures are made but not rendered."""
    monkeypatch.setattr(framework, "_in_parallel", one_by_one)
    monkeypatch.setattr(problems, "load", tiny)
    monkeypatch.setattr(report, "_inline_svg", lambda figure: "<svg></svg>")
    monkeypatch.setattr(report, "save_figure", lambda figure, stem: None)
    problems._cached.cache_clear()
    yield
    problems._cached.cache_clear()


@pytest.fixture
def calls(serial):
    """The arguments of every call to `record`, a task that returns them as its columns."""
    record.calls = []
    return record.calls


def record(**columns):
    record.calls.append(columns)
    return columns


def task(key="a", data="", **columns):
    return Task(key, record, columns or {"x": [1.0, 2.0, 3.0]}, data)


def run(out, *tasks, version="1"):
    return run_tasks({"E": list(tasks)}, out, version, 1)["E"]


def same(first, second):
    """Results that agree bit by bit, apart from seconds."""
    assert list(first) == list(second)
    for one, other in zip(first.values(), second.values(), strict=True):
        assert list(one) == list(other)
        for name in one:
            if name != "time":
                np.testing.assert_array_equal(one[name], other[name])


def verdicts(found):
    return [claim.verdict for claim in found.claims]


def verdicts_on_paper(found):
    """Verdicts on the statements of the paper, without those that go beyond it."""
    return [claim.verdict for claim in found.claims if claim.source]


def curve(gap, calls=1, length=101):
    k = np.arange(length)
    return {
        "k": k, "calls": calls * k, "passes": 0.5 * k, "time": 0.01 * k, "fun": 1.0 / (1 + k), "gap": gap / (1 + k)
    }  # fmt: skip


def gaps(methods, variants):
    """A run for each method and variant: ``variants[v]`` is FW's gap and that of every other method."""
    return {
        runs.key(m, v): curve(pair[m not in ("fw", "euler")], find_tableau(m).stages)
        for m in methods
        for v, pair in variants.items()
    }


A = np.round(np.random.default_rng(3).standard_normal((12, 4)), 3)
B = np.round(A[:, 1] - 0.5 * A[:, 2], 3)


def write_csv(path, header=""):
    np.savetxt(path, np.column_stack([A, B]), delimiter=",", header=header, comments="", fmt="%.3f")


def write_svm(path):
    lines = [f"{b} " + " ".join(f"{j}:{a}" for j, a in enumerate(row, start=1)) for row, b in zip(A, B, strict=True)]
    path.write_text("\n".join(lines) + "\n")


WRITERS = {
    "ab.npz": lambda path: np.savez(path, A=A, b=B),
    "xy.npz": lambda path: np.savez(path, X=A, y=B),
    "more.npz": lambda path: np.savez(path, X=A, y=B, A=0 * A, b=B),
    "plain.csv": write_csv,
    "header.csv": lambda path: write_csv(path, "one,two,three,4,5"),
    "UPPER.CSV": write_csv,
    "sparse.svm": write_svm,
    "sparse.libsvm": write_svm,
    "sparse.txt": write_svm,
}


def compared(out, problem, methods=("fw",), line_searches=(), momenta=(), iterations=5, **options):
    if problem not in problems.PROBLEMS:
        options = (
            {"constraint": "l1:2", "raw": True, "intercept": False}
            | ({"target": "5"} if "csv" in str(problem).lower() else {})
            | options
        )
    return compare(
        str(problem), methods, line_searches, momenta, iterations=iterations, out=out, workers=1, **options,
    )  # fmt: skip


def rerun(out, problem, **options):
    problems._cached.cache_clear()  # as a new process would
    return compared(out, problem, **options)
