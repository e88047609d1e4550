"""Paths and searches over radii, compared with scikit-learn's over penalties for the same certified accuracy.

Run with ``make bench``, or ``python benchmarks/paths.py --only madelon``. fwflow and scikit-learn fit the same models
on the same folds. The penalties of scikit-learn are the Lagrange multipliers of the constraint at the radii of fwflow,
which span the automatic path. Gaps are divided by the loss at zero coefficients. The gap of a row is the largest gap of
a path on the first fold, over the ball through the model. scikit-learn runs with the tolerances 1e-2, 3e-3, 1e-3, ...
A row shows the first run whose gap is at most the requested gap. If no run within the time limit has such a gap, the
row shows a larger gap. liblinear penalises its intercept, so it is compared on models without an intercept.

The last two columns are also ratios: the time of single fits without a warm start, and the time to choose the radii,
both divided by the time of the path of fwflow. Seconds are processor time in user mode, on one thread. A path is
measured three times, and the shortest time counts. A search, which consists of several paths, is measured once.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.linear_model import LassoCV, LogisticRegressionCV, lasso_path
from sklearn.model_selection import KFold, StratifiedKFold

from fwflow.datasets import load, standardize
from fwflow.sklearn import L1Classifier, L1ClassifierCV, L1Regression, L1RegressionCV, radius_path
from record import Record, on_one_thread

Array = np.ndarray[Any, Any]
HEADER = (
    "problem",
    "requested gap",
    "scikit-learn",
    "its gap",
    "fwflow",
    "its gap",
    "ratio",
    "path",
    "cold fits / path",
    "choice of radii / path",
)
# Seconds after which no smaller tolerance of scikit-learn is tried.
PATIENCE = 60.0


class Case(NamedTuple):
    """Data, the number of radii and folds, the asked gap, scikit-learn's solver, and whether there is an intercept."""

    X: Any
    y: Array
    count: int
    folds: int
    tol: float
    solver: str = "lasso"
    intercept: bool = True
    eps: float | None = None  # of `radius_path`, for the end of the path

    @property
    def model(self) -> Any:
        kind = L1Regression if self.solver == "lasso" else L1Classifier
        return kind(tol=self.tol, fit_intercept=self.intercept)

    @property
    def search(self) -> Any:
        kind = L1RegressionCV if self.solver == "lasso" else L1ClassifierCV
        return kind(tol=self.tol, fit_intercept=self.intercept, cv=self.splits)

    @property
    def splits(self) -> list[tuple[Array, Array]]:
        return list((KFold if self.solver == "lasso" else StratifiedKFold)(self.folds).split(self.X, self.y))


def shipped(name: str, *asked: Any) -> Case:
    data = load(name)
    return Case(np.asfortranarray(standardize(data["A"])), data["b"], *asked)


def bundled(loader: Callable[..., Any], *asked: Any) -> Case:
    X, y = loader(return_X_y=True)
    spread = X.std(axis=0)
    return Case((X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0), y, *asked)


def dense(m: int, n: int, classes: int, *asked: Any) -> Case:
    """Classes of a multinomial model, in which 40 % of the coefficients are nonzero."""
    rng = np.random.default_rng(0)
    X, W = rng.standard_normal((m, n)), rng.standard_normal((n, classes)) * (rng.random((n, classes)) < 0.4)
    return Case(X, (X @ W + rng.gumbel(size=(m, classes))).argmax(axis=1), *asked)


def sparse(m: int, n: int, *asked: Any, classes: int = 0) -> Case:
    rng = np.random.default_rng(0)
    X = sp.random_array((m, n), density=1e-3, rng=rng, format="csc", data_sampler=rng.standard_normal)
    x = np.zeros((n, max(classes, 1)))
    used = rng.choice(n, 100, replace=False)
    x[used] = 3 * rng.standard_normal((100, x.shape[1]))
    z = X @ x + rng.gumbel(size=(m, x.shape[1]))
    y = z.argmax(axis=1) if classes > 2 else (z[:, 0] > np.median(z)).astype(int) if classes else z[:, 0]
    return Case(sp.csc_matrix(X), y, *asked)


CASES: dict[str, Callable[[], Case]] = {
    "madelon, squares": lambda: shipped("madelon", 30, 5, 1e-6),
    "gisette, squares": lambda: shipped("gisette", 10, 3, 1e-6),
    "sparse, squares": lambda: sparse(5000, 20_000, 10, 3, 1e-6, "lasso", True, 0.5),
    "dense, 2 classes": lambda: dense(5000, 30, 2, 12, 5, 1e-6, "liblinear", False),
    "wide, 2 classes": lambda: dense(2000, 500, 2, 12, 5, 1e-6, "liblinear", False),
    "breast cancer": lambda: bundled(load_breast_cancer, 12, 5, 1e-6, "liblinear", False),
    "sparse, 2 classes": lambda: sparse(5000, 20_000, 12, 3, 1e-6, "liblinear", False, 0.5, classes=2),
    "dense, 3 classes": lambda: dense(5000, 30, 3, 12, 5, 1e-6, "saga"),
    "sparse, 3 classes": lambda: sparse(2000, 5_000, 8, 3, 1e-4, "saga", False, 1.0, classes=3),
    "digits": lambda: bundled(load_digits, 12, 5, 1e-4, "saga"),
}


def clock(work: Callable[[], Any], repeats: int = 1) -> tuple[float, Any]:
    """Seconds and the outcome. The time of the system is left out: on a busy machine it was four times the work."""
    seconds = []
    for _ in range(repeats):
        started = os.times().user
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # their gaps are printed
            done = work()
        seconds.append(os.times().user - started)
    return min(seconds), done


class Fold(NamedTuple):
    """Training data of a case as our objective."""

    f: Any
    null: float

    @staticmethod
    def of(case: Case, rows: Array | slice = slice(None)) -> Fold:
        model, X = clone(case.model), sp.csr_matrix(case.X)[rows] if sp.issparse(case.X) else case.X[rows]
        f = model._objective(model._task(X, case.y[rows], None))
        return Fold(f, f.value(f.point(np.zeros(f.shape))))

    def multiplier(self, x: Array) -> float:
        return float(np.abs(self.f.gradient(self.f.point(x.reshape(self.f.shape)))).max())

    def gap(self, x: Array) -> float:
        """The gap over the ball through x, as a share of f at zero."""
        g = np.asarray(self.f.gradient(self.f.point(x.reshape(self.f.shape)))).reshape(-1)
        return float(np.abs(x).sum() * np.abs(g).max() + g @ x.reshape(-1)) / self.null


def peer(case: Case, multipliers: Array, tol: float) -> tuple[float, float]:
    """Return the seconds of scikit-learn's search, and the largest gap on the first fold."""
    train = case.splits[0][0]
    fold = Fold.of(case, train)
    if case.solver == "lasso":
        asked = {"alphas": multipliers, "tol": tol, "max_iter": 10**6}
        seconds, _ = clock(partial(LassoCV(cv=case.splits, **asked).fit, case.X, case.y))
        if sp.issparse(case.X):  # LassoCV centres sparse data implicitly, which lasso_path cannot.
            X, y = sp.csc_matrix(sp.csr_matrix(case.X)[train]), case.y[train]
            coefs = [LassoCV(cv=[(np.arange(len(y)),) * 2], **asked | {"alphas": [a]}).fit(X, y).coef_
                     for a in (multipliers[0], multipliers[-1])]  # fmt: skip
        else:
            X, y = case.X[train], case.y[train]
            coefs = lasso_path(np.asfortranarray(X - X.mean(axis=0)), y - y.mean(), **asked)[1].T
        return seconds, max(map(fold.gap, coefs))
    model = LogisticRegressionCV(
        Cs=1 / (multipliers * len(train)), l1_ratios=[1.0], solver=case.solver, tol=tol, max_iter=10**6, random_state=0,
        cv=case.splits, fit_intercept=case.intercept, scoring="neg_log_loss", use_legacy_attributes=True,
    )  # fmt: skip
    seconds, _ = clock(partial(model.fit, case.X, case.y))
    # Of every class, the models of the first fold, one row per penalty; the intercept comes last.
    paths = [paths[0].reshape(len(multipliers), -1)[:, : case.X.shape[1]] for paths in model.coefs_paths_.values()]
    return seconds, max(map(fold.gap, np.stack(paths, axis=1)))


def compared(record: Record, name: str, case: Case, alone: bool) -> None:
    radii_time, path = clock(
        partial(radius_path, case.X, case.y, n_radii=case.count, eps=case.eps, estimator=case.model), 3
    )
    path_time, path = clock(partial(radius_path, case.X, case.y, path.radii, estimator=case.model), 3)
    singles = [clone(case.model).set_params(radius=radius) for radius in path.radii]
    cold_time, _ = clock(lambda: [model.fit(case.X, case.y) for model in singles], 3)
    ratios = f"{path_time:.2f} s", f"{cold_time / path_time:.1f}", f"{(radii_time - path_time) / path_time:.1f}"
    search_time, _ = clock(partial(case.search.set_params(radii=path.radii).fit, case.X, case.y))
    train = case.splits[0][0]
    fold = Fold.of(case, train)
    X = sp.csr_matrix(case.X)[train] if sp.issparse(case.X) else case.X[train]
    first = radius_path(X, case.y[train], path.radii, estimator=case.model)
    gap = float(np.max(first.dual_gaps)) / fold.null
    multipliers = np.array([fold.multiplier(coef) for coef in first.coefs])
    theirs, their_gap = np.nan, np.nan
    for tol in () if alone else 10.0 ** -np.arange(2, 12, 0.5):
        theirs, their_gap = peer(case, multipliers, tol)
        if their_gap <= case.tol or theirs > PATIENCE:
            break
    cells = (name, f"{case.tol:.0e}", f"{theirs:.2f} s", f"{their_gap:.0e}", f"{search_time:.2f} s", f"{gap:.0e}")
    record.row(*cells, f"{theirs / search_time:.1f}", *ratios)


if __name__ == "__main__":
    on_one_thread()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=CASES, help="one problem")
    parser.add_argument("--alone", action="store_true", help="without scikit-learn")
    parser.add_argument("--write", action="store_true", help="store the table in benchmarks/results")
    chosen = parser.parse_args()
    with Record("paths", "scikit-learn") as results:
        results.table(*HEADER)
        for name, make in CASES.items():
            if chosen.only in (None, name):
                compared(results, name, make(), chosen.alone)
        results.end_table()
