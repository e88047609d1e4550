"""Do paths and searches over radii keep up with scikit-learn's over penalties, for the same certified accuracy?

Run with ``make bench``, or ``python benchmarks/paths.py --only madelon``. Both sides fit as many models, down to where
the loss falls at the same share of the rate at which it falls at first, on the same folds. Gaps are shares of the loss
without coefficients: the largest of a path, and that of the model which a search chose. `LassoCV` stops at a dual gap
of ``tol`` times the sum of squared targets, twice that loss, so that half of our ``tol`` asks for as much; its gap is
the one that it reports itself. `LogisticRegressionCV` by liblinear knows none: its ``tol`` is one at which its models
are about as exact as ours, and its gap the largest of a fold, each over the ball through the model. It has no
intercept there, which it would penalise. Seconds are those of the processor in user mode, on one thread: medians of
three for paths, and searches, which are several paths, run once.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LassoCV, LogisticRegressionCV, lasso_path
from sklearn.model_selection import StratifiedKFold

import fwflow as fw
from fwflow.datasets import load, standardize
from fwflow.sklearn import L1ClassifierCV, L1Regression, L1RegressionCV, radius_path

Array = np.ndarray[Any, Any]
HEADER = ("problem", "what", "tol", "scikit-learn", "its gap", "fwflow", "its gap", "ratio")


class Case(NamedTuple):
    """Data, and how much of its path is asked for: models, the share of the first rate, folds, accuracies."""

    X: Any
    y: Array
    count: int
    eps: float
    folds: int
    tols: tuple[float, ...]


def shipped(name: str, *asked: Any) -> Case:
    data = load(name)
    return Case(np.asfortranarray(standardize(data["A"])), data["b"], *asked)


def sparse(*asked: Any, labels: bool = False) -> Case:
    rng = np.random.default_rng(0)
    X = sp.random_array((20_000, 100_000), density=1e-3, rng=rng, format="csc", data_sampler=rng.standard_normal)
    x = np.zeros(100_000)
    x[rng.choice(100_000, 100, replace=False)] = rng.standard_normal(100)
    z = X @ x + 0.1 * rng.standard_normal(20_000)
    return Case(sp.csc_matrix(X), np.where(z > 0, 1.0, -1.0) if labels else z, *asked)


CASES: dict[str, Callable[[], Case]] = {
    "madelon": lambda: shipped("madelon", 30, 1e-3, 5, (1e-4, 1e-8)),
    "gisette": lambda: shipped("gisette", 10, 0.03, 3, (1e-4, 1e-8)),
    "sparse": lambda: sparse(5, 0.3, 2, (1e-6,)),
    "sparse, logistic": lambda: sparse(8, 0.7, 2, (1e-6,), labels=True),
}
LIBLINEAR = 1e-4  # its tol


def clock(work: Callable[[], Any], repeats: int = 1) -> tuple[float, Any]:
    """Seconds and the outcome. The time of the system is left out: on a busy machine it was four times the work."""
    seconds = []
    for _ in range(repeats):
        started = os.times().user
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # their gaps are printed
            done = work()
        seconds.append(os.times().user - started)
    return float(np.median(seconds)), done


def squares(name: str, case: Case) -> None:
    X, y, count, eps, folds, tols = case
    null = float(np.var(y)) / 2
    for tol in tols:
        asked = {"eps": eps, "tol": tol / 2, "max_iter": 10**6}
        search = {"n_radii": count, "eps": eps, "cv": folds, "tol": tol}
        if not sp.issparse(X):  # of sparse data, lasso_path knows no intercept
            moved = np.asfortranarray(X - X.mean(axis=0)), y - y.mean()
            model = L1Regression(tol=tol)
            theirs, (_, _, gaps) = clock(partial(lasso_path, *moved, alphas=count, **asked), 3)
            ours, path = clock(partial(radius_path, X, y, n_radii=count, eps=eps, estimator=model), 3)
            row(name, "path", tol, theirs, max(gaps) / null, ours, max(path.dual_gaps) / null)
        theirs, lasso = clock(partial(LassoCV(alphas=count, cv=folds, **asked).fit, X, y))
        ours, ball = clock(partial(L1RegressionCV(**search).fit, X, y))
        row(name, "search", tol, theirs, lasso.dual_gap_ / null, ours, ball.dual_gap_ / null)


def classes(name: str, case: Case) -> None:
    X, y, count, eps, folds, tols = case._replace(X=sp.csr_matrix(case.X))
    splits = list(StratifiedKFold(folds).split(X, y))
    train = splits[0][0]
    f = fw.LinearModel(X[train], y[train], loss="logistic")
    first = np.abs(X[train].T @ y[train]).max() / 2  # of the sum of losses, which has the weight C
    peer = LogisticRegressionCV(
        Cs=np.geomspace(1, 1 / eps, count + 1)[1:] / first, l1_ratios=[1.0], solver="liblinear", tol=LIBLINEAR,
        max_iter=10**5, cv=splits, fit_intercept=False, scoring="neg_log_loss", use_legacy_attributes=True,
    )  # fmt: skip
    theirs, _ = clock(partial(peer.fit, X, y))
    gap = max(relative_gap(f, x) for x in peer.coefs_paths_[1.0][0].reshape(count, -1))
    for tol in tols:
        search = L1ClassifierCV(n_radii=count, eps=eps, cv=splits, tol=tol, fit_intercept=False)
        ours, ball = clock(partial(search.fit, X, y))
        row(name, "search", tol, theirs, gap, ours, ball.dual_gap_ / np.log(2))


def relative_gap(f: fw.LinearModel, x: Array) -> float:
    """The gap over the ball through x, as a share of f at zero."""
    g = np.asarray(f.gradient(f.point(x)))
    return float(np.abs(x).sum() * np.abs(g).max() + g @ x) / np.log(2)


def row(
    name: str, what: str, tol: float, theirs: float, their_gap: float, ours: float, our_gap: float
) -> None:  # fmt: skip
    cells = (name, what, f"{tol:.0e}", f"{theirs:.2f} s", f"{their_gap:.0e}", f"{ours:.2f} s", f"{our_gap:.0e}")
    print("| " + " | ".join((*cells, f"{theirs / ours:.1f}")) + " |", flush=True)


if __name__ == "__main__":
    threads = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}
    if any(os.environ.get(name) != value for name, value in threads.items()):  # NumPy has read them already
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | threads)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=CASES, help="one problem")
    chosen = parser.parse_args().only
    print(f"| {' | '.join(HEADER)} |\n|{'---|' * len(HEADER)}")
    for name, make in CASES.items():
        if chosen in (None, name):
            (classes if "logistic" in name else squares)(name, make())
