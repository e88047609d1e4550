"""Choice of the radius of a constraint set by cross-validation, for models of tables.

The preparation of the table is fitted inside each fold, so that held-out rows have no influence on it.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import get_scorer, get_scorer_names
from sklearn.model_selection import GroupKFold, KFold, StratifiedGroupKFold, StratifiedKFold

import fwflow as fw
from fwflow._numerics import dot
from fwflow._validation import Array, InputError, one_line, positive, whole
from fwflow.objectives.classes import class_probabilities, log_class_probabilities
from fwflow.objectives.losses import find_loss
from fwflow.run.paths import Trail, followed, gap_thresholds, minimised
from fwflow.run.selection import BLOCK, LOOSER, N_RADII, Fold, FoldFit, check_rule, search
from fwflow.sets.callables import as_set
from fwflow.tables.constraints import Constraint, as_constraint
from fwflow.tables.frames import as_text
from fwflow.tables.model_files import FittedModel, HeldOut
from fwflow.tables.problem import TableProblem

# Largest number of entries of the matrices of all folds together that are kept: 512 MB. Of larger tables, one fold is
# in memory at a time. Chosen without tuning.
_MOST_ENTRIES = 2**26
# Share of the time limit for the models of the folds, and time limit of a run in seconds after the end.
_FOLDS_TIME, _SHORTEST = 0.6, 1e-6


@dataclass(frozen=True, eq=False)
class Selected:
    """Radius that cross-validation chose, with the path of all rows and the scores of the folds.

    Attributes
    ----------
    problem, constraint : TableProblem, Constraint
        Table, and the set without its radius.
    held_out : HeldOut
        Radii, mean scores, standard errors and the chosen radius.
    scores : (folds, m) array
        Held-out score of each fold, for each radius.
    fold : (rows,) array of int
        Fold in which each row is held out.
    path : PathResult
        Runs with all rows, for all radii.
    at_end : bool
        Whether the chosen radius is the first or the last one of given radii, or the last one within the time limit, so
        that other radii may be better.
    result : Result
        Run with all rows, for the chosen radius.

    See Also
    --------
    select : Returns this object.
    fwflow.tables.model_files.FittedModel : Model in a file.

    Examples
    --------
    >>> from fwflow.tables.problem import read_problem
    >>> table = {"x": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], "y": [1.1, 1.9, 3.2, 3.9, 5.1, 6.0]}
    >>> chosen = select(read_problem(table, "y"), "l1", folds=3, radii=[0.1, 1.0])
    >>> chosen.held_out.radius, chosen.scores.shape, sorted(chosen.fold.tolist())
    (1.0, (3, 2), [0, 0, 1, 1, 2, 2])
    """

    problem: TableProblem = field(repr=False)
    constraint: Constraint
    held_out: HeldOut
    scores: Array
    fold: Array
    path: fw.PathResult = field(repr=False)
    at_end: bool = False

    @property
    def result(self) -> fw.Result:
        """Run with all rows, for the chosen radius."""
        return self.path.results[self.held_out.place]

    def model(self, **more: Any) -> FittedModel:
        """Return the model of the chosen radius, with its path and its held-out scores.

        Parameters
        ----------
        more
            Further fields of `fwflow.tables.model_files.FittedModel`.

        Returns
        -------
        FittedModel
        """
        stored = {"path": self.problem.model_path(self.constraint, self.path), "held_out": self.held_out}
        return self.problem.model(self.result, self.constraint.at(self.held_out.radius), **(stored | more))


def select(
    problem: TableProblem,
    constraint: str | Constraint = "l1",
    *,
    folds: int = 5,
    rule: str = "best",
    score: str | None = None,
    seed: int = 0,
    radii: Any = "auto",
    n_radii: int = N_RADII,
    max_time: float | None = None,
    rtol: float = 1e-6,
    step: Callable[[int, int], None] = lambda done, total: None,
    **options: Any,
) -> Selected:
    """Choose the radius of a constraint set by cross-validation, and fit the path of all rows.

    The rows are divided into folds at random: with about the same share of each class in every fold and, if the problem
    has groups, without dividing a group. For each fold, the preparation and the models of all radii are fitted to the
    other rows, and the rows of the fold are scored. The kind of each column (number, category, date, left out) is that
    of the whole table. Each model starts from the one before, as in `fwflow.path`.

    Parameters
    ----------
    problem : TableProblem
        Result of `fwflow.tables.problem.read_problem`.
    constraint : str or Constraint
        Name of a set with a radius, such as ``l1``, or the set with bounds.
    folds : int
        Number of folds; 5 by default.
    rule : {"best", "1se"}
        "best", the default, chooses the radius of the best mean score, and "1se" the smallest radius whose mean score
        is within one standard error of the best one.
    score : str, optional
        Name of a scorer of scikit-learn, such as "accuracy", "roc_auc", "f1" or "r2". The second class is the positive
        one. By default the score is the loss, and less is better.
    seed : int
        Seed of the random division; 0 by default.
    radii : "auto" or array_like
        Radii. "auto" tries growing radii as long as the loss or the score of some fold improves, and their mean is
        within one standard error of the best one. The first radius is that of `fwflow.path` for all rows. Then it tries
        six further radii next to the best one.
    n_radii : int
        Number of automatic radii in a range whose ends differ by a factor of 1000; 25 by default.
    max_time : float, optional
        Time limit in seconds. After 60 % of it no further radius is tried, and the models of all rows that are then not
        finished in time do not reach the tolerance. No limit by default.
    rtol : float
        Tolerance of each model, as a fraction of the duality gap at the centre of its set. The tolerance of the models
        of folds is 100 times as large, because their scores are needed to a few digits only.
    step : callable
        Function ``step(done, total)`` that is called before each model, for progress.
    options
        Further options of `fwflow.minimize`, such as ``method``, ``max_iter`` and ``callback``.

    Returns
    -------
    Selected
        The score of the chosen radius is the best of several, and therefore slightly too good.

    See Also
    --------
    fwflow.tables.problem.read_problem : Read a table.
    fwflow.sklearn.L1ClassifierCV : Estimator for scikit-learn.
    fwflow.path : Path of any objective.

    Examples
    --------
    >>> import numpy as np
    >>> from fwflow.tables.problem import read_problem
    >>> rng = np.random.default_rng(0)
    >>> table = {"age": rng.normal(40, 10, 90), "city": rng.choice(["Rome", "Oslo"], 90)}
    >>> table["spent"] = 2 * table["age"] + 5 * (table["city"] == "Oslo") + rng.normal(size=90)
    >>> chosen = select(read_problem(table, "spent"), "l1", folds=5)
    >>> 20 < chosen.held_out.radius < 30, chosen.scores.shape
    (True, (5, 22))
    >>> model = chosen.model()
    >>> model.predict({"age": [40.0], "city": ["Rome"]}).round()
    array([80.])
    """
    constraint = as_constraint(constraint)
    ball = problem.ball(constraint)
    check_rule(rule, f"--rule {rule!r}")
    scorer = _Score(problem, score)
    fold = divided(problem, folds, seed)
    begin, limit = time.monotonic(), math.inf if max_time is None else positive(max_time, "--max-time")
    folds_end = begin + _FOLDS_TIME * limit
    options = {"tol": 0.0, "rtol": rtol, **options}
    looser = options | {name: LOOSER * options[name] for name in ("tol", "rtol")}
    done = total = 0  # The number of models is not known before the search ends.

    def counted() -> None:
        nonlocal done
        step(done, total)
        done += 1

    def announce(left: int, radii: int) -> None:
        nonlocal total
        total = done + folds * left + radii

    stored = problem.X.nnz if sp.issparse(problem.X) else problem.X.size
    kept = folds * stored <= _MOST_ENTRIES
    baselines = np.full(folds, math.nan)

    @lru_cache(maxsize=folds if kept else 1)
    def part(k: int) -> _Fold:
        inside = np.flatnonzero(fold == k)
        rows = problem.on(np.flatnonzero(fold != k))
        runs = _Runs(rows, rows.ball(constraint, of=problem), looser, counted, folds_end)
        made = _Fold(rows, runs, rows.matrix_of(problem, inside), problem.y[inside], scorer)
        baselines[k] = scorer.sign * made.measures(np.zeros(rows.f.shape))[0]
        return made

    def advance(radii: Array, known: list[Trail]) -> list[list[FoldFit]]:
        found = [part(k).fits(radii, trail) for k, trail in enumerate(known)]
        if np.isnan([[fit.measures[0] for fit in fits] for fits in found]).all(axis=0).any():
            raise InputError(
                f"--score {scorer.name} is not defined for the held-out rows; choose another score, or fewer folds"
            )
        return found

    chosen = search(
        advance,
        folds,
        radii,
        lambda: problem.first_radius(constraint),
        n_radii=n_radii,
        rule=rule,
        block=1 if kept else BLOCK,
        end=folds_end,
        announce=announce,
    )
    runs = _Runs(problem, ball, options, counted, begin + limit)
    path = fw.PathResult(chosen.radii, tuple(runs.along(chosen.radii)), problem.f.lower_bound)
    held_out = HeldOut(
        scorer.name,
        rule,
        folds,
        seed,
        problem.dropped[-1] if problem.groups is not None else "",
        chosen.radii,
        scorer.sign * chosen.means,
        chosen.errors,
        float(chosen.radii[chosen.best]),
        float(baselines.mean()),
    )
    scores = scorer.sign * chosen.measures[..., 0]
    return Selected(problem, constraint, held_out, scores, fold, path, chosen.at_end)


@dataclass(frozen=True, eq=False)
class _Runs:
    """Runs on the objective of some rows, for growing radii."""

    problem: TableProblem
    ball: Callable[[float], fw.ConstraintSet]
    options: dict[str, Any]
    step: Callable[[], None]
    end: float  # Time at which all runs end, as a value of time.monotonic().

    def along(self, radii: Array, known: Trail = ()) -> Iterator[fw.Result]:
        """Yield the result of each radius. The arguments are those of `fwflow.run.paths.followed`."""
        f, options = self.problem.f.for_path(), dict(self.options)
        threshold = gap_thresholds(f, options.pop("tol"), options.pop("rtol"))

        def fit(radius: float, starts: tuple[Any, ...]) -> fw.Result:
            self.step()
            C, left = as_set(self.ball(radius)), max(self.end - time.monotonic(), _SHORTEST)
            limit = None if math.isinf(left) else left
            return minimised(f, C, *starts, tol=threshold(C), max_time=limit, **options)

        return followed(radii, fit, known)


@dataclass(frozen=True, eq=False)
class _Fold(Fold):
    """Models of the rows outside of a fold, and scores of the rows inside, with the columns X and the target y."""

    part: TableProblem
    runs: _Runs
    X: Any
    y: Array
    scorer: _Score

    def fits(self, radii: Array, known: Trail) -> list[FoldFit]:
        return [FoldFit(result.x, self.measures(result.x)) for result in self.runs.along(radii, known)]

    def measures(self, x: Any) -> tuple[float, float]:
        """Return the score, with the sign by which less is better, and the mean loss for some coefficients."""
        score, loss = self.scorer(np.asarray(dot(self.X, x) + np.asarray(self.part.intercept_at(x))), self.y)
        return self.scorer.sign * score, loss


def divided(problem: TableProblem, folds: int, seed: int) -> Array:
    """Return the fold of each row, from 0 on.

    Parameters
    ----------
    problem : TableProblem
        Rows with their target and, perhaps, their groups.
    folds, seed : int
        Number of folds, and the seed of their random choice.

    Returns
    -------
    (rows,) array of int

    See Also
    --------
    select : Cross-validation.

    Examples
    --------
    >>> from fwflow.tables.problem import read_problem
    >>> problem = read_problem({"x": [1.0, 2.0, 3.0, 5.0], "y": [1.0, 2.0, 3.0, 4.0]}, "y")
    >>> sorted(divided(problem, 2, seed=0).tolist())
    [0, 0, 1, 1]
    """
    folds, seed, groups, classes = whole(folds, "--cv", 2), whole(seed, "--seed", 0), problem.groups, problem.classes
    count = problem.rows if groups is None else len(np.unique(groups))
    if folds > count:
        what = "rows" if groups is None else f"groups in {problem.dropped[-1]!r}"
        raise InputError(f"--cv {folds} needs at least {folds} {what}; there are {count}")
    if classes is not None:
        counts = np.bincount(problem.y, minlength=len(classes))
        if counts.min() < 2:
            name = classes[int(counts.argmin())]
            raise InputError(
                f"--cv needs at least two rows of each class; the class {name!r} has one, so leave out its row"
            )
    shuffled: dict[str, Any] = {"n_splits": folds, "shuffle": True, "random_state": seed}
    if groups is not None:
        split = (GroupKFold if classes is None else StratifiedGroupKFold)(**shuffled)
    else:
        split = (KFold if classes is None else StratifiedKFold)(**shuffled)
    fold = np.empty(problem.rows, np.int64)
    with warnings.catch_warnings():
        # Classes of fewer rows than folds are not in every fold. Each of them is in all sets of training rows.
        warnings.filterwarnings("ignore", message="The least populated class")
        try:
            for k, (_, test) in enumerate(split.split(np.zeros(problem.rows), problem.y, groups)):
                fold[test] = k
        except ValueError as error:
            raise InputError(f"--cv {folds}: {one_line(error)}") from error
    for k in range(folds):
        if problem.loss == "poisson" and problem.intercept and not problem.y[fold != k].any():
            raise InputError(
                f"--cv {folds}: all counts above 0 are in one fold, so a model without this fold has no optimal "
                "intercept; use another --seed, or fewer folds"
            )
        if classes is None:
            continue
        absent = set(range(len(classes))) - set(problem.y[fold != k].tolist())
        if absent or not (fold == k).any():
            name = as_text(classes[min(absent, default=0)])
            raise InputError(
                f"--cv {folds}: all rows of the class {name!r} are in one fold, so a model without this fold cannot "
                "know it; use another --seed, or groups that do not contain a whole class"
            )
    return fold


class _Score:
    """Function of scores and targets of held-out rows: the mean loss, or a scorer of scikit-learn."""

    def __init__(self, problem: TableProblem, name: str | None) -> None:
        self._problem, self.sign = problem, 1.0 if name is None else -1.0
        self._asked, self._scorer = name, None
        if name is not None:
            if name not in get_scorer_names():
                close = get_close_matches(name, get_scorer_names(), n=1)
                hint = f"did you mean {close[0]!r}? " if close else ""
                raise InputError(
                    f"--score {name!r} is no scorer of scikit-learn; {hint}its documentation lists them, for example "
                    "'accuracy', 'roc_auc' and 'r2'"
                )
            self._scorer = get_scorer(name)
        self.name = f"{problem.loss} loss" if name is None else name
        self._loss = find_loss(problem.loss, problem.rho, problem.quantile)

    def __call__(self, z: Array, y: Array) -> tuple[float, float]:
        """Return the score and the mean loss."""
        loss = float(self._losses(z, y).mean())
        if self._scorer is None:
            return loss, loss
        known = _Numbers(self._loss.mean(z)) if self._problem.classes is None else _Classes(z)
        try:
            with warnings.catch_warnings(action="ignore"):
                return float(self._scorer(known, np.arange(len(y)), y)), loss
        except (ValueError, TypeError, AttributeError) as error:
            raise InputError(f"--score {self._asked} does not suit this target: {one_line(error)}") from error

    def _losses(self, z: Array, y: Array) -> Array:
        """Return the loss of each row."""
        if z.ndim == 2:
            return np.asarray(-log_class_probabilities(z)[np.arange(len(y)), y])
        return np.asarray(self._loss.values(z, y if self._problem.classes is None else np.where(y > 0, 1.0, -1.0)))


class _Numbers(RegressorMixin, BaseEstimator):
    """Predictions in the form of an estimator, which scorers of scikit-learn need. The rows are given by positions."""

    def __init__(self, predicted: Array) -> None:
        self.predicted = predicted

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def predict(self, rows: Array) -> Array:
        """Return the predictions of some rows."""
        return self.predicted[rows]


class _Classes(ClassifierMixin, BaseEstimator):
    """Scores of classes in the form of an estimator. The classes are numbers from 0 on."""

    def __init__(self, scores: Array) -> None:
        self.scores = scores
        self.classes_ = np.arange(2 if scores.ndim == 1 else scores.shape[1])

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def decision_function(self, rows: Array) -> Array:
        """Return the scores of some rows."""
        return self.scores[rows]

    def predict(self, rows: Array) -> Array:
        """Return the classes of some rows."""
        z = self.scores[rows]
        return (z > 0).astype(int) if z.ndim == 1 else z.argmax(axis=1)

    def predict_proba(self, rows: Array) -> Array:
        """Return the probabilities of the classes of some rows."""
        return class_probabilities(self.scores[rows])
