"""Linear models of tables, described by the options of the command line."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import fwflow as fw
from fwflow._numerics import dot
from fwflow._validation import Array, InputError, parsed
from fwflow.objectives.losses import find_loss, losses
from fwflow.run.paths import chosen_radii, first_radius
from fwflow.tables import TABULAR, is_tabular, read, read_frame, read_target
from fwflow.tables.constraints import Constraint, as_constraint
from fwflow.tables.frames import Frame, as_text, check_columns, listed, text_column
from fwflow.tables.model_files import FittedModel, ModelPath
from fwflow.tables.parts import CategoryPart, Cells, IndicatorPart, Made, NumberPart, numbers_of, unprepared
from fwflow.tables.preparation import Preparation
from fwflow.tables.readers import Target, as_target, missing_target

# A target is refused as classes if it has more values than the first number, and fewer rows per value than the second,
# or if all of its values differ. Both chosen without tuning.
_MOST_CLASSES, _ROWS_PER_CLASS = 20, 5
# Share of errors up to which a column is said to hold the target, and the smallest number of rows for that. Both chosen
# without tuning.
_LEAK, _LEAK_ROWS = 1e-3, 100
# Relative tolerance of the run that finds the largest radius of a set with bounds, chosen without tuning.
_END_ACCURACY = 1e-6


@dataclass(frozen=True, eq=False)
class TableProblem:
    """Objective of a table, with the preparation of the table and the meaning of rows and columns.

    Attributes
    ----------
    f : LinearModel
        Objective. For more than two classes, its points have one column per class.
    names, target : tuple of str, str
        Names of the prepared columns and of the target.
    classes : tuple of str, or None
        Classes of the target. Of two classes, the first one has the label -1 and the second one +1.
    data, dropped, loss : str, tuple of str, str
        Path of the data file, its columns that were left out, and the name of the loss.
    preparation : Preparation or None
        Conversion of the table to the prepared columns; None if the columns are used as they are.
    frame : Frame or None
        Rows of the table that are used, before the preparation; None if the columns are used as they are.
    X, y : matrix, (m,) array
        Prepared columns, and the target: numbers, or the positions of the classes.
    groups : (m,) array or None
        Group of each row, for cross-validation.
    rho, quantile, intercept : float, float, bool
        Arguments of the objective.
    choices : mapping
        Choices of ``Preparation.fit``.

    See Also
    --------
    read_problem : Read a data file.
    fwflow.tables.selection.select : Choose the radius of the set by cross-validation.
    fwflow.tables.model_files.FittedModel : Model in a file.

    Examples
    --------
    >>> problem = read_problem({"age": [30, 40, 50], "y": [1.0, 2.0, 4.0]}, "y")
    >>> problem.names, problem.y.tolist()
    (('age',), [1.0, 2.0, 4.0])
    """

    f: Any
    names: tuple[str, ...]
    target: str
    classes: tuple[str, ...] | None
    data: str = ""
    dropped: tuple[str, ...] = ()
    loss: str = "squared"
    preparation: Preparation | None = None
    frame: Frame | None = None
    X: Any = field(default=None, repr=False)
    y: Array = field(default_factory=lambda: np.zeros(0), repr=False)
    groups: Array | None = field(default=None, repr=False)
    rho: float = 1.0
    quantile: float = 0.5
    intercept: bool = True
    choices: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.y)

    @property
    def made(self) -> tuple[Made, ...]:
        """Prepared columns, with their origin in the table."""
        return unprepared(self.names) if self.preparation is None else self.preparation.made

    def intercept_at(self, x: Any) -> float | tuple[float, ...]:
        """Return the best constant term for some coefficients, or one per class for more than two classes."""
        found = self.f.intercept_at(x)
        return tuple(found.tolist()) if _many(self.classes) else found

    def on(self, rows: Array) -> TableProblem:
        """Return the problem of some rows, with a preparation that is fitted to these rows only.

        The kind of each column, such as number or category, stays that of the whole table.

        Parameters
        ----------
        rows : array of int
            Positions of the rows.

        Returns
        -------
        TableProblem
        """
        y, groups = self.y[rows], None if self.groups is None else self.groups[rows]
        part = replace(self, y=y, groups=groups)
        if self.preparation is None or self.frame is None:
            X = self.X[rows]
        else:
            frame = self.frame.take(rows)
            part = replace(part, frame=frame, preparation=self._refitted(frame))
            assert part.preparation is not None
            X = part.preparation.apply(frame)
            part = replace(part, names=part.preparation.names)
        f = _objective(X, y, self.classes, self.loss, self.rho, self.quantile, self.intercept)
        return replace(part, X=X, f=f)

    def _refitted(self, frame: Frame) -> Preparation:
        """Return the preparation of other rows, with the same kinds of columns."""
        assert self.preparation is not None
        parts, columns = self.preparation.parts, {name: frame.columns[name] for name in self.preparation.inputs}
        valued = {part.column for part in parts if not isinstance(part, IndicatorPart)}
        for name in columns.keys() - valued:  # Only the missing cells of these columns are used.
            columns[name] = np.where(Cells(frame, name).absent, "", "present").astype(object)
        dates = {part.column for part in parts if isinstance(part, NumberPart | CategoryPart) and part.what}
        kinds = {
            "dates": dates,
            "numeric": {part.column for part in parts if isinstance(part, NumberPart)} - dates,
            "categorical": {part.column for part in parts if isinstance(part, CategoryPart)} - dates,
        }
        return Preparation.fit(replace(frame, columns=columns), **{**self.choices, **kinds})

    def matrix_of(self, whole: TableProblem, rows: Array) -> Any:
        """Return some rows of the problem that this one is a part of, in the columns of this problem."""
        if self.preparation is None or whole.frame is None:
            return whole.X[rows]
        return self.preparation.apply(whole.frame.take(rows))

    def leak(self, x: Any) -> str:
        """Return a sentence if the column with the largest coefficients predicts nearly all rows alone, else no text.

        Parameters
        ----------
        x : array
            Coefficients, in the shape of the points of `f`.
        """
        scales = np.nan_to_num([made.standard for made in self.made], nan=1.0)
        sizes = np.abs(x).reshape(len(x), -1).sum(axis=1) * scales
        name = self.made[int(sizes.argmax())].source
        columns = np.array([made.source == name for made in self.made])
        z = np.asarray(dot(self.X[:, columns], x[columns]))
        if self.rows < _LEAK_ROWS or not np.ptp(z) > 0:
            return ""
        if self.classes is None:
            with np.errstate(all="ignore"):  # The correlation is NaN if the target is constant or squares overflow.
                errors, baseline = 1 - np.corrcoef(z, self.y)[0, 1] ** 2, 1.0
        else:
            counts = np.bincount(self.y)
            baseline = 1 - counts.max() / self.rows
            errors = _threshold_errors(z, self.y) if z.ndim == 1 else np.mean(z.argmax(axis=1) != self.y)
        if not errors <= _LEAK * min(1.0, 20 * baseline):
            return ""
        share = f"{100 * (1 - errors):.4g} % of the " + ("variance" if self.classes is None else "rows")
        return f"{name!r} alone explains {share} of the target; leave it out (--drop) if it is not known in advance"

    def lines(self) -> list[str]:
        """Return a description of the preparation, in a few lines."""
        return [] if self.preparation is None else self.preparation.lines()

    def model(self, result: fw.Result, constraint: str = "", **more: Any) -> FittedModel:
        """Return the model of a run on the objective.

        Parameters
        ----------
        result : Result
            Result of `fwflow.minimize` with the objective `f`.
        constraint : str
            Description of the constraint set, for example ``l1:10``.
        more
            Further fields of `fwflow.tables.model_files.FittedModel`.

        Returns
        -------
        FittedModel
        """
        known: dict[str, Any] = {
            "loss": self.loss,
            "constraint": constraint,
            "rows": self.rows,
            "target": self.target,
            "classes": self.classes,
            "dropped": self.dropped,
            "data": self.data,
            "intercept": self.intercept_at(result.x),
            "preparation": self.preparation,
        }
        return FittedModel.of(result, self.names, **(known | more))

    def set_of(self, constraint: Constraint) -> fw.ConstraintSet:
        """Return the set of the coefficients; refuse bounds on columns that the problem does not have."""
        constraint.check(self.made, self.classes)
        return constraint.on(self.made, self.f.shape)

    def ball(self, constraint: str | Constraint, of: TableProblem | None = None) -> Callable[[float], fw.ConstraintSet]:
        """Return sets such as ``l1`` as a function of their radius.

        A part of the rows may lack columns of the problem `of` that it is a part of. Bounds on them do not matter.
        """
        chosen, whole = as_constraint(constraint), self if of is None else of
        chosen.check(whole.made, whole.classes)
        return chosen.ball(self.made, self.f.shape)

    def radii(
        self,
        constraint: str | Constraint,
        radii: Any = "auto",
        n_radii: int = 20,
        eps: float | None = None,
        **options: Any,
    ) -> Array:
        """Return the radii of a path.

        Automatic radii are those of `fwflow.path`. If the set has bounds, the radii are those without bounds, up to the
        size of the minimiser for the largest of them.

        Parameters
        ----------
        constraint : str or Constraint
            Name of a set with a radius, such as ``l1``, or the set with bounds.
        radii, n_radii, eps
            Arguments of `fwflow.path`.
        options
            Further options of `fwflow.path`. The tolerances and ``max_iter`` have no effect here.

        Returns
        -------
        (m,) array
            Radii in ascending order.
        """
        chosen = as_constraint(constraint)
        options = {name: value for name, value in options.items() if name not in ("tol", "rtol", "max_iter")}
        ball, free = self.ball(chosen), replace(chosen, lower={}, upper={})
        found = chosen_radii(self.f, self.ball(free), radii, n_radii, eps, **options)[0]
        if free == chosen or not isinstance(radii, str):
            return found
        x = fw.minimize(self.f, ball(found[-1]), tol=0.0, rtol=_END_ACCURACY, **options).x
        size = float(np.abs(x).max() if chosen.name == "linf" else np.abs(x).sum())
        return np.geomspace(found[0], size, len(found)) if size > found[0] else found[:1]

    def first_radius(self, constraint: str | Constraint) -> float:
        """Return the first radius of a path; 0 if zero is a minimiser. Bounds of the set do not change it."""
        free = replace(as_constraint(constraint), lower={}, upper={})
        return first_radius(self.f.for_path(), self.ball(free))[0]

    def path(
        self,
        constraint: str | Constraint = "l1",
        radii: Any = "auto",
        *,
        n_radii: int = 20,
        eps: float | None = None,
        **options: Any,
    ) -> ModelPath:
        """Return the models for increasing radii of a set.

        Parameters
        ----------
        constraint : str or Constraint
            Name of a set with a radius, such as ``l1``, or the set with bounds.
        radii, n_radii, eps
            Arguments of the method `radii`.
        options
            Further options of `fwflow.path`.

        Returns
        -------
        ModelPath
        """
        chosen = self.radii(constraint, radii, n_radii, eps, **options)
        return self.model_path(constraint, fw.path(self.f, self.ball(constraint), chosen, **options))

    def model_path(self, constraint: str | Constraint, found: fw.PathResult) -> ModelPath:
        """Return the models of a path of the objective `f`, for a set such as ``l1``."""
        results = found.results
        return ModelPath(
            as_constraint(constraint).name,
            found.radii[: len(results)],
            np.stack([result.x.T for result in results]) + 0.0,  # Adding zero turns -0.0 into 0.0.
            np.array([self.intercept_at(result.x) for result in results], dtype=float),
            np.array([result.fun for result in results], dtype=float),
            np.array([result.gap for result in results], dtype=float),
            np.array([result.success for result in results], dtype=bool),
            np.array([result.nit for result in results]),
            np.array([result.n_design for result in results], dtype=float),
        )


def read_problem(
    data: Any,
    target: str | None = None,
    target_file: str | Path | None = None,
    drop: Sequence[str] = (),
    header: bool | None = None,
    loss: str = "squared",
    rho: float | None = None,
    intercept: bool = True,
    *,
    quantile: float = 0.5,
    groups: str | None = None,
    raw: bool = False,
    categorical: Sequence[str] = (),
    numeric: Sequence[str] = (),
    dates: Sequence[str] = (),
    missing: str = "impute",
    scale: bool = True,
    rare: int | None = None,
    na: Sequence[str] = (),
) -> TableProblem:
    """Return the objective of a linear model for a table. The arguments are options of the command line.

    Tables (``.csv``, ``.tsv``, ``.parquet``, and data frames) are prepared: text and dates are encoded, missing cells
    are imputed and numbers are standardised. Rows without a target are left out. Files of matrices (libsvm, ``.npz``,
    ``.mtx``) are used as they are.

    Parameters
    ----------
    data : str, Path, Frame, data frame, or mapping of names to columns
        The table, or the path of a data file.
    target, target_file : str, path, optional
        Column to predict, or a file that holds only the target.
    drop : sequence of str
        Columns to leave out.
    header : bool, optional
        Whether a CSV file begins with the names of its columns. Default: detected.
    loss, rho, quantile : str, float, float
        Loss and its parameters, as in `fwflow.LinearModel`. The default of ``rho`` is 1; for the loss "quantile" it is
        a hundredth of the median distance of the target from its median. The loss "logistic" is multinomial for more
        than two classes.
    intercept : bool
        Whether a constant without constraint is fitted.
    groups : str, optional
        Column of a table with the group of each row. It is used by cross-validation and not for predictions.
    raw : bool
        Whether a table is used without preparation. All its columns must then be numbers, none of them missing.
    categorical, numeric, dates, missing, scale, rare, na
        Choices of `fwflow.tables.preparation.Preparation.fit`. With ``missing="error"``, a row without a target is an
        error.

    Returns
    -------
    TableProblem

    See Also
    --------
    fwflow.tables.preparation.Preparation : Description of the preparation.
    fwflow.tables.model_files.FittedModel : Model in a file.

    Examples
    --------
    >>> import fwflow as fw
    >>> shop = {"age": [25, 61, 38, 52], "city": ["Rome", "Oslo", "Rome", "Oslo"], "spent": [10.0, 40.0, 20.0, None]}
    >>> problem = read_problem(shop, "spent")
    >>> model = problem.model(fw.minimize(problem.f, fw.L1Ball(10.0)), "l1:10")
    >>> print(*problem.lines(), sep="\\n")
    1 column of numbers, standardised: age
    1 column one-hot encoded: city (2 levels)
    1 row without a target left out
    >>> model.predict({"age": [61, 38], "city": ["Oslo", "Rome"]}).round(2)
    array([36.55, 21.09])
    """
    labels = find_loss(loss, 1.0 if rho is None else rho, quantile).labels
    if target is not None and target_file is not None:
        raise InputError("--target and --target-file exclude each other; give one of them")
    as_matrix = isinstance(data, str | Path) and not is_tabular(data)
    _check_choices(
        data,
        raw,
        as_matrix,
        {
            "--categorical": categorical,
            "--numeric": numeric,
            "--date": dates,
            "--missing": missing != "impute",
            "--na": na,
            "--no-scale": not scale,
        },
    )
    if groups is not None:
        _check_groups(groups, data, as_matrix, target, (*categorical, *numeric, *dates), drop)
    dropped = tuple(drop) if groups is None else (*drop, groups)
    choices = {"categorical": categorical, "numeric": numeric, "dates": dates, "scale": scale, "rare": rare}
    choices["na"] = na
    if as_matrix or (raw and isinstance(data, str | Path)):
        used = _as_it_is(data, target, target_file, dropped, header)
        if groups is not None:
            frame = read_frame(data, known=(groups,), only=True, header=header, text=(groups,))
            check_columns(frame.source, frame.names, [groups], frame.ignored)
            used = used._replace(groups=_group_labels(frame, groups))
    else:
        text = (*categorical, *dates, *(() if groups is None else (groups,)))
        frame = _frame(data, target, target_file, drop, header, text, numeric, na)
        used = _prepared(frame, None if raw else choices, missing, groups)
    y, classes = _codes(used.target, used.name, data, loss) if labels else (_numbers(used, loss, intercept), None)
    chosen = _default_rho(loss, y) if rho is None else rho
    return TableProblem(
        _objective(used.X, y, classes, loss, chosen, quantile, intercept),
        used.names,
        used.name,
        classes,
        str(data) if isinstance(data, str | Path) else "",
        dropped,
        loss,
        used.preparation,
        used.frame,
        used.X,
        y,
        used.groups,
        chosen,
        quantile,
        intercept,
        {**choices, "missing": missing},
    )


def _threshold_errors(z: Array, y: Array) -> float:
    """Return the share of errors of the best threshold on z that divides two classes, 0 and 1."""
    order = np.argsort(z)
    ones = np.concatenate([[0], np.cumsum(y[order])])
    cuts = np.concatenate([[0], np.flatnonzero(np.diff(z[order])) + 1])
    errors = ones[cuts] + (len(y) - cuts) - (ones[-1] - ones[cuts])  # ones below a cut, and zeros above
    return float(np.minimum(errors, len(y) - errors).min() / len(y))


def _many(classes: Sequence[str] | None) -> bool:
    """Return whether a model has one row of coefficients per class."""
    return classes is not None and len(classes) > 2


def _objective(
    X: Any, y: Array, classes: Sequence[str] | None, loss: str, rho: float, quantile: float, intercept: bool
) -> Any:
    """Return the loss of the rows. For more than two classes it is multinomial."""
    many = _many(classes)
    b = y if classes is None or many else np.where(y > 0, 1.0, -1.0)
    return fw.LinearModel(X, b, "softmax" if many else loss, rho=rho, quantile=quantile, intercept=intercept)


def _default_rho(loss: str, y: Array) -> float:
    """Return the default parameter of a loss, which is that of the estimators."""
    if loss != "quantile":
        return 1.0
    try:
        from fwflow.sklearn.linear import default_rho
    except ModuleNotFoundError:
        raise InputError("the default of --rho needs scikit-learn: pip install 'fwflow[cli]'; or give --rho") from None
    return default_rho(loss, y)


def _check_groups(
    groups: str, data: Any, as_matrix: bool, target: str | None, chosen: Sequence[str], drop: Sequence[str]
) -> None:
    """Refuse a column of groups that has another role, or a file without columns of text."""
    if as_matrix:
        raise InputError(f"--groups is for tables ({', '.join(TABULAR)}); {data} is a matrix")
    if groups == target:
        raise InputError(f"--groups and --target both name {groups!r}; use it in one of them")
    if groups in chosen or groups in drop:
        raise InputError(f"--groups names {groups!r}, which another option names too; use it in one of them")


def _group_labels(frame: Frame, name: str) -> Array:
    """Return the group of each row as text, and refuse missing cells."""
    texts = Cells(frame, name).texts
    if "" in texts:
        place = f"{frame.source}, {frame.place(texts.index(''))}"
        raise InputError(f"{place}: column {name!r} is missing, and --groups needs the group of every row; fill it in")
    return np.array(texts)


class _Rows(NamedTuple):
    """Rows of a table that are used: their matrix and their target, with names for error messages."""

    X: Any
    names: tuple[str, ...]
    target: Target
    name: str  # Name of the target.
    place: Callable[[int], str]  # Place of the target of a row.
    preparation: Preparation | None = None
    frame: Frame | None = None
    groups: Array | None = None


def _check_choices(data: Any, raw: bool, as_matrix: bool, choices: Mapping[str, Any]) -> None:
    """Refuse choices of a preparation for a table that is not prepared."""
    asked = next((option for option, value in choices.items() if value), None)
    if raw and asked:
        raise InputError(f"--raw and {asked} exclude each other; --raw omits the preparation that {asked} belongs to")
    if as_matrix and asked:
        raise InputError(f"{asked} is for tables ({', '.join(TABULAR)}); {data} is a matrix, which is used as it is")


def _as_it_is(
    data: str | Path, target: str | None, target_file: str | Path | None, drop: Sequence[str], header: bool | None
) -> _Rows:
    """Read a file of numbers."""
    table = read(data, target, drop=drop, header=header, labelled=target_file is None)
    if target_file is not None:
        values = _target_of_file(target_file, header, str(data), table.X.shape[0])
        return _Rows(table.X, table.names, values, "", lambda i: f"{target_file}, row {i + 1}")
    assert table.target is not None
    return _Rows(table.X, table.names, table.target, table.target_name, lambda i: f"{data}, {table.place(i)}")


def _frame(
    data: Any,
    target: str | None,
    target_file: str | Path | None,
    drop: Sequence[str],
    header: bool | None,
    text: Sequence[str],
    numbers: Sequence[str],
    na: Sequence[str],
) -> Frame:
    """Return the table with its target."""
    if isinstance(data, str | Path):
        labelled = target_file is None
        frame = read_frame(data, target, drop=drop, header=header, labelled=labelled, text=text, numbers=numbers, na=na)
    else:
        frame = Frame.of(data).without(na)
        check_columns(frame.source, frame.names, drop)
        frame = replace(frame, columns={name: c for name, c in frame.columns.items() if name not in drop})
        if target is not None:
            frame = frame.with_target(target)
        elif frame.target is None and target_file is None:
            raise InputError(f"the column to predict must be named; the table has {listed(frame.names)}")
    if target_file is None:
        return frame
    values = _target_of_file(target_file, header, frame.source, len(frame))
    return replace(frame, target=text_column(values) if isinstance(values, tuple) else values, target_name="")


def _target_of_file(path: str | Path, header: bool | None, data: str, rows: int) -> Target:
    values = read_target(path, header)
    if len(values) != rows:
        raise InputError(f"{path} has {len(values)} rows, and {data} has {rows}")
    return values


def _prepared(frame: Frame, choices: Mapping[str, Any] | None, missing: str, groups: str | None) -> _Rows:
    """Return the rows with a target, prepared if there are choices."""
    assert frame.target is not None
    gone = np.array([not cell for cell in frame.target]) if frame.target.dtype == object else np.isnan(frame.target)
    count = int(gone.sum())
    if count and (missing == "error" or choices is None or gone.all()):
        place = frame.place(int(gone.argmax()))
        raise missing_target(frame.source, place, frame.target_name, count, len(frame))
    frame = frame.take(~gone) if count else frame
    preparation, labels = None, None
    if groups is not None:
        check_columns(frame.source, frame.names, [groups])
        labels = _group_labels(frame, groups)
        frame = replace(frame, columns={name: column for name, column in frame.columns.items() if name != groups})
    if choices is None:
        X, names = numbers_of(frame, frame.names), frame.names
    else:
        preparation = Preparation.fit(frame, missing=missing, **choices)
        if missing == "drop":
            complete = preparation.complete(frame)
            frame, labels = frame.take(complete), None if labels is None else labels[complete]
        if count:
            rows = "1 row" if count == 1 else f"{count} rows"
            preparation = preparation.with_line(f"{rows} without a target left out")
        X, names = preparation.apply(frame), preparation.names
    assert frame.target is not None
    cells = frame.target.tolist() if frame.target.dtype == object else frame.target
    values = as_target(frame.source, cells, frame.target_name, frame.place)
    place_of = frame.place
    return _Rows(
        X, names, values, frame.target_name, lambda i: f"{frame.source}, {place_of(i)}", preparation, frame, labels
    )


def _codes(values: Target, name: str, data: Any, loss: str) -> tuple[Array, tuple[str, ...]]:
    """Return the position of the class of each row, and the classes in ascending order."""
    classes: list[Any] = sorted(set(values)) if isinstance(values, tuple) else np.unique(values).tolist()
    path = data if isinstance(data, str | Path) else "the table"
    if len(classes) < 2 or (len(classes) > 2 and loss != "logistic"):
        shown = ", ".join(as_text(value) for value in classes[:5]) + (", ..." if len(classes) > 5 else "")
        wanted = "two classes or more" if loss == "logistic" else "two classes"
        count = "one class" if len(classes) == 1 else f"{len(classes)} classes"
        raise InputError(f"{path}: --loss {loss} needs {wanted}; the target {name!r} has {count}: {shown}")
    many = len(classes) > _MOST_CLASSES and len(classes) > len(values) / _ROWS_PER_CLASS
    if many or 2 < len(classes) == len(values):
        raise InputError(
            f"{path}: the target {name!r} has {len(classes)} different values in {len(values)} rows, "
            "too many for classes; for numbers, use --loss squared"
        )
    positions = {value: code for code, value in enumerate(classes)}
    return np.array([positions[value] for value in values], np.int64), tuple(map(as_text, classes))


def _numbers(used: _Rows, loss: str, intercept: bool) -> Array:
    """Return a target of numbers; refuse text, and numbers that are not counts for the loss "poisson"."""
    values, place = used.target, used.place
    if isinstance(values, tuple):
        i = next(i for i, text in enumerate(values) if parsed(text) is None)
        raise InputError(
            f"{place(i)}: the target {used.name!r} is {values[i]!r}, and --loss {loss} needs numbers; "
            f"--loss {' or '.join(name for name, kind in losses.items() if kind.labels)} takes classes"
        )
    if loss == "poisson" and (values < 0).any():
        i = int((values < 0).argmax())
        raise InputError(
            f"{place(i)}: the target {used.name!r} is {values[i]:g}, and --loss poisson needs counts of at least 0"
        )
    if loss == "poisson" and intercept and not values.any():
        raise InputError(
            f"the target {used.name!r} has no count above 0, so the optimal intercept is minus infinity; use another "
            "target, or --no-intercept"
        )
    return values
