"""Is a table prepared as a scikit-learn pipeline made by hand prepares it, and does the model predict the same?"""

import datetime as dt
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.compose import ColumnTransformer
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import fwflow as fw
from fwflow import _storage
from fwflow._validation import InputError
from fwflow.tables import Frame, read_frame, readers
from fwflow.tables.parts import CategoryPart, IndicatorPart, NumberPart, as_date
from fwflow.tables.preparation import Preparation
from fwflow.tables.problem import read_problem

LEVELS = ["Rome", "Zürich", "東京", "other", "a=b", "x, y", '"q"', "-", "none", "Ünï cödé", "True story"]
DAYS = pd.date_range("2023-11-05", periods=200, freq="7h").strftime("%Y-%m-%d %H:%M").tolist()


@st.composite
def columns(draw, rows):
    """Cells of one column: its kind, and None for missing cells."""
    kind = draw(st.sampled_from(["number", "integer", "category", "date", "day", "constant", "identifier", "empty"]))
    few = draw(st.lists(st.sampled_from(LEVELS), min_size=2, max_size=6, unique=True))
    cell = {
        "number": st.floats(-1e6, 1e6, width=32),
        "integer": st.integers(0, 5),
        "category": st.sampled_from(few),
        "date": st.sampled_from(DAYS),
        "day": st.sampled_from([day[:10] for day in DAYS]),
        "constant": st.just(draw(st.sampled_from([2024, "yes"]))),
        "identifier": st.none(),
        "empty": st.none(),
    }[kind]
    cells = draw(st.lists(cell, min_size=rows, max_size=rows))
    if kind == "identifier":
        cells = [f"K{i:04}" for i in draw(st.permutations(range(rows)))]
    share = draw(st.sampled_from([0, 0, 1, rows // 3]))
    for i in draw(st.lists(st.integers(0, rows - 1), max_size=share)):
        cells[i] = None
    return cells


@st.composite
def tables(draw):
    rows = draw(st.integers(2, 60))
    names = draw(st.lists(st.sampled_from(["a", "größe", "b, c", "=", "x=Rome", "x"]), min_size=1, unique=True))
    return pd.DataFrame({name: pd.Series(draw(columns(rows)), dtype=object) for name in names})


def is_date(text):
    try:
        dt.datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


class Parts:
    """The parts of dates, as columns of a data frame."""

    def __init__(self, fitted):
        self.firsts = {
            name: pd.to_datetime(fitted[name].dropna(), format="ISO8601").min().normalize() for name in fitted
        }

    def __call__(self, frame):
        found = {}
        for name, first in self.firsts.items():
            dates = pd.to_datetime(frame[name], format="ISO8601")
            found[name, "month"] = dates.dt.month.map(lambda m: str(int(m)), na_action="ignore").astype(object)
            found[name, "weekday"] = dates.dt.day_name().astype(object)
            found[name, "hour"] = dates.dt.hour + dates.dt.minute / 60
            found[name, "days"] = (dates - first) / pd.Timedelta(days=1)
        return pd.DataFrame(found, index=frame.index)


WEEK = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]


def encoder(rare, **more):
    return OneHotEncoder(min_frequency=rare, handle_unknown="infrequent_if_exist", sparse_output=False, **more)


def by_hand(frame):
    """A ColumnTransformer for a data frame and its date parts, from the documented rules; None if nothing is left."""
    rare, steps = min(10, max(1, int(np.ceil(len(frame) / 100)))), []
    dated = [
        name for name in frame if len(s := frame[name].dropna()) and all(isinstance(x, str) and is_date(x) for x in s)
    ]
    dated = [name for name in dated if pd.to_datetime(frame[name].dropna(), format="ISO8601").nunique() > 1]
    parts = Parts(frame[dated])
    made = parts(frame)
    for name in frame:
        present = frame[name].dropna()
        often = len(present) < len(frame) and frame[name].isna().mean() >= 0.05
        if not len(present):
            continue
        numbers = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
        text = SimpleImputer(missing_values=None, strategy="most_frequent")
        if name in dated:
            for what, order in (("month", list(map(str, range(1, 13)))), ("weekday", WEEK)):
                seen = [level for level in order if level in set(made[name, what].dropna())]
                if len(seen) > 1:
                    fill = SimpleImputer(missing_values=np.nan, strategy="most_frequent")
                    steps.append((make_pipeline(fill, encoder(1, categories=[seen])), [(name, what)]))
            steps += [(numbers, [(name, what)]) for what in ("hour", "days") if made[name, what].nunique() > 1]
        elif present.nunique() == 1:
            pass
        elif not isinstance(present.iloc[0], str):
            ints = (present.astype(float) % 1 == 0).all() and present.nunique() == len(present)
            used = not (ints and len(present) >= 20 and np.ptp(present) == len(present) - 1)
            steps += [(numbers, [name])] if used else []
        else:
            counts = present.value_counts()
            used = present.nunique() < len(present) and (counts >= rare).any()
            steps += [(make_pipeline(text, encoder(rare)), [name])] if used else []
        if often:  # also if the values are left out
            mark = MissingIndicator(missing_values=np.nan, features="all")
            steps.append((mark, [(name, "gone")]))
            made[name, "gone"] = np.where(frame[name].isna(), np.nan, 0.0)
    if not steps:
        return None

    def together(frame):
        made = parts(frame)
        for name in frame:
            made[name, "gone"] = np.where(frame[name].isna(), np.nan, 0.0)
        plain = frame.apply(lambda s: s.astype(float) if name_is_number[s.name] else s.astype(object))
        made.columns = ["|".join(key) for key in made.columns]
        return pd.concat([plain, made], axis=1)

    name_is_number = {n: all(not isinstance(x, str) for x in frame[n].dropna()) for n in frame}
    wanted = [
        (str(i), step, ["|".join(n) if isinstance(n, tuple) else n for n in names])
        for i, (step, names) in enumerate(steps)
    ]
    transformer = ColumnTransformer(wanted, sparse_threshold=0).fit(together(frame))
    return lambda new: np.asarray(transformer.transform(together(new)), dtype=float)


def dense(X):
    return X.toarray() if sp.issparse(X) else X


def through_csv(frame, folder, **options):
    path = folder / "table.csv"
    frame.to_csv(path, index=False, na_rep="NA")
    return read_frame(path, header=True, **options)


@given(tables(), st.randoms(use_true_random=False))
@settings(max_examples=150, deadline=None)
def test_the_matrix_is_that_of_a_pipeline_made_by_hand(tmp_path_factory, table, random):
    expected = by_hand(table)
    folder = tmp_path_factory.getbasetemp()
    if expected is None:
        with pytest.raises(ValueError, match="has no column to predict from"):
            Preparation.fit(table.to_dict("list"))
        return
    made = Preparation.fit(table.to_dict("list"))
    X = expected(table)
    np.testing.assert_allclose(dense(made.apply(table.to_dict("list"))), X, rtol=1e-9, atol=1e-9)
    assert len(set(made.names)) == len(made.names) == len(made.sources) == X.shape[1]
    assert set(made.sources) == set(made.inputs) <= set(table)
    # The same cells in a file, with text columns for which only the preparation knows that they are text.
    again = Preparation.fit(through_csv(table, folder))
    assert (again.names, again.lines()) == (made.names, made.lines())
    # New rows: unknown levels, other missing cells, columns in another order, further columns.
    new = table.sample(frac=1, random_state=random.randint(0, 9)).reset_index(drop=True)
    for part in made.parts:
        row = random.randrange(len(new))
        if isinstance(part, CategoryPart) and not part.what:
            new.loc[row, part.column] = "a level of its own"
        elif random.random() < 0.5:
            new.loc[row, part.column] = None
    wanted = expected(new)
    shuffled = new[random.sample([*new], len([*new]))].assign(further=1)
    options = {"text": made.text_inputs, "numbers": made.number_inputs, "known": made.inputs, "only": True}
    frame = through_csv(shuffled, folder, **options)
    np.testing.assert_allclose(dense(made.apply(frame)), wanted, rtol=1e-9, atol=1e-9)
    assert "further" in frame.ignored


@given(tables())
@settings(max_examples=40, deadline=None)
def test_preparations_come_back_from_files(tmp_path_factory, table):
    try:
        made = Preparation.fit(table.to_dict("list"))
    except ValueError:
        return
    path = tmp_path_factory.getbasetemp() / "p.npz"
    _storage.save(made, path)
    back = _storage.load(path, Preparation)
    assert (back.parts, back.missing, back.done) == (made.parts, made.missing, made.done)
    X = dense(made.apply(table.to_dict("list")))
    np.testing.assert_array_equal(dense(back.apply(table.to_dict("list"))), X)


def messy(rows=400, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({
        "id": rng.permutation(rows),
        "age": rng.normal(40, 10, rows).round(1),
        "city": rng.choice(["Rome", "Oslo", "東京"], rows),
        "when": rng.choice(DAYS, rows),
        "year": 2024,
        "flag": rng.random(rows) < 0.4,
    })  # fmt: skip
    score = (frame["age"] - 40) / 10 + (frame["city"] == "Oslo") + rng.normal(size=rows)
    frame.loc[rng.random(rows) < 0.1, "age"] = np.nan
    return frame.assign(y=np.where(score > 0, "yes", "no"), z=score)


@pytest.mark.parametrize("scale", [True, False])
def test_coefficients_in_original_units_give_the_scores(scale):
    data = messy()
    problem = read_problem(data.drop(columns="y"), "z", scale=scale)
    model = problem.model(fw.minimize(problem.f, fw.L1Ball(3.0)), "l1:3")
    rows = data.dropna().reset_index(drop=True)
    when = pd.to_datetime(rows["when"])
    first = pd.Timestamp("2023-11-05")
    scores = np.full(len(rows), model.original_intercept)
    for row in model.table():
        part = {"when: month": when.dt.month.astype(str), "when: weekday": when.dt.day_name()}
        if row.level:
            cells = part.get(row.column, rows.get(row.column))
            scores += row.original * (cells.astype(str) == row.level)
        elif row.column.startswith("when: days"):
            scores += row.original * (when - first) / pd.Timedelta(days=1)
        elif row.column == "when: hour":
            scores += row.original * (when.dt.hour + when.dt.minute / 60)
        elif row.column == "age":
            scores += row.original * rows["age"]
            assert row.standardised == pytest.approx(row.original * filled_spread(data["age"]))
        else:
            assert row.name == "age is missing"
    np.testing.assert_allclose(model.predict(rows), scores, rtol=1e-9, atol=1e-9)
    largest = model.table(3)
    assert [abs(row.standardised) for row in largest] == sorted(
        (abs(r.standardised) for r in model.table()), reverse=True
    )[:3]


def filled_spread(cells):
    return cells.fillna(cells.median()).std(ddof=0)


def test_any_kind_of_table_gives_the_same_predictions(tmp_path):
    data = messy()
    data.to_csv(tmp_path / "a.csv", index=False)
    data.to_parquet(tmp_path / "a.parquet")
    problem = read_problem(tmp_path / "a.csv", "y", drop=["z"], loss="logistic")
    model = problem.model(fw.minimize(problem.f, fw.L1Ball(3.0)), "l1:3")
    expected = model.scores(read_frame(tmp_path / "a.csv", text=model.preparation.text_inputs))
    kinds = {
        "parquet": read_frame(tmp_path / "a.parquet"),
        "pandas": data,
        "read_csv": pd.read_csv(tmp_path / "a.csv"),
        "pandas with types": data.convert_dtypes().astype({"city": "category"}).set_index("year"),
        "dates": data.assign(when=pd.to_datetime(data["when"])),
        "polars": pl.read_csv(tmp_path / "a.csv"),
        "mapping": {name: data[name].tolist() for name in data},
        "arrays": {name: data[name].to_numpy() for name in data},
        "array": data[[*model.inputs]].to_numpy(),
    }
    for kind, rows in kinds.items():
        np.testing.assert_allclose(model.scores(rows), expected, rtol=1e-12, err_msg=kind)
    assert set(model.predict(data)) == {"yes", "no"}
    np.testing.assert_allclose(model.probabilities(data)[:, 1], 1 / (1 + np.exp(-expected)), rtol=1e-9)
    for kind in ("parquet", "pandas"):
        again = read_problem(tmp_path / "a.parquet" if kind == "parquet" else data, "y", drop=["z"], loss="logistic")
        assert again.names == problem.names
        np.testing.assert_allclose(dense(again.f.design.A), dense(problem.f.design.A), rtol=1e-12)


def test_missing_columns_are_named_in_one_error():
    data = messy()
    problem = read_problem(data, "y", drop=["z"], loss="logistic")
    model = problem.model(fw.minimize(problem.f, fw.L1Ball(1.0)))
    with pytest.raises(ValueError, match=r"lacks columns 'age', 'city', 'flag'; it has columns 'when', 'further'"):
        model.predict(data[["when"]].assign(further=1))
    with pytest.raises(ValueError, match="must be an array of 4 columns"):
        model.predict(np.zeros((2, 9)))


def test_all_missing_columns_are_imputed_like_single_cells():
    data = messy().drop(columns=["y"])
    problem = read_problem(data, "z")
    model = problem.model(fw.minimize(problem.f, fw.L1Ball(3.0)))
    single = pd.concat([data.iloc[:5].assign(age=np.nan, city=None, when=None), data.iloc[5:]])
    np.testing.assert_array_equal(model.scores(single.iloc[:5]), model.scores(single)[:5])
    notes = model.preparation.notes(single.iloc[:5])
    assert f"age: all cells are missing, replaced by the median {data['age'].median():g}" in notes
    assert any(line.startswith("city: all cells are missing, replaced by the most frequent level") for line in notes)


def test_unknown_levels_are_counted():
    small = {"city": ["Rome"] * 60 + ["Oslo"] * 60 + ["Bern"], "x": [*range(60), *range(61)]}
    made = Preparation.fit(small, categorical=["city"], numeric=["x"])
    assert made.names == ("city=Oslo", "city=Rome", "city=other", "x")
    new = {"city": ["Bern", "Lima", "Rome"], "x": [0, 1, 2]}
    assert dense(made.apply(new))[:, :3].tolist() == [[0, 0, 1], [0, 0, 1], [0, 1, 0]]
    assert made.notes(new) == ["city: 2 cells have rare or new levels ('Bern', 'Lima'), counted as 'city=other'"]
    made = Preparation.fit(small, rare=1)
    assert made.names == ("city=Bern", "city=Oslo", "city=Rome", "x")
    assert dense(made.apply(new))[1, :3].tolist() == [0, 0, 0]
    assert made.notes(new) == ["city: 1 cell has a new level ('Lima'), for which all columns of city are zero"]


def test_missing_cells_can_be_refused_or_leave_out_rows():
    data = {"a": [1.0, None, 3.0, 5.0, 9.0], "b": [1, 2, 4, None, 1], "c": [7, 7, 7, 7, None], "y": [1, 2, 3, 4, 5]}
    with pytest.raises(
        ValueError, match=r"row 2: column 'a' is missing; 3 of 5 rows have missing cells; --missing imp"
    ):
        read_problem(data, "y", missing="error")
    problem = read_problem(data, "y", missing="drop")
    # c is constant in complete rows, so its missing cell does not leave out the last row.
    assert problem.f.b.tolist() == [1, 3, 5]
    assert problem.names == ("a", "b")
    assert problem.lines()[-2:] == ["c is constant, left out", "2 rows with missing cells left out"]
    model = problem.model(fw.minimize(problem.f, fw.L1Ball(1.0)))
    assert np.isnan(model.predict(data)).tolist() == [False, True, False, True, False]
    classes = replace(model, loss="logistic", classes=("no", "yes"))
    assert [cell == "" for cell in classes.predict(data)] == [False, True, False, True, False]
    assert np.isnan(classes.probabilities(data)).any(axis=1).tolist() == [False, True, False, True, False]
    with pytest.raises(
        ValueError, match=r"every row has a missing cell, so --missing drop leaves no row; leave out col"
    ):
        read_problem({"a": [1, None, None, 3], "b": [None, 2, 3, None], "y": [1, 2, 3, 4]}, "y", missing="drop")
    strict = read_problem({"a": [1, 2], "y": [1, 2]}, "y", missing="error")
    with pytest.raises(ValueError, match="row 1: column 'a' is missing"):
        strict.model(fw.minimize(strict.f, fw.L1Ball(1.0))).predict({"a": [None]})


def test_columns_that_are_left_out_do_not_leave_out_rows():
    rows = 1000
    table = {
        "name": [None, *(f"k{i // 2}" for i in range(rows - 1))],  # All levels are rare.
        "id": [*(f"k{i}" for i in range(rows - 1)), None],
        "x": [i % 7 for i in range(rows)],
        "y": [float(i % 3) for i in range(rows)],
    }
    problem = read_problem(table, "y", missing="drop")
    assert (problem.names, len(problem.f.b)) == (("x",), rows)
    assert not any("rows" in line for line in problem.lines())


def test_rows_without_a_target_are_left_out():
    data = {"a": [1.0, 2.0, 4.0, 8.0], "y": [1.0, None, 3.0, None]}
    problem = read_problem(data, "y")
    assert (problem.f.b.tolist(), problem.lines()[-1]) == ([1, 3], "2 rows without a target left out")
    with pytest.raises(ValueError, match=r"row 2: the target 'y' is missing; 2 of 4 rows have none"):
        read_problem(data, "y", missing="error")
    with pytest.raises(ValueError, match="the target 'y' is missing"):
        read_problem({"a": [1, 2], "y": ["", None]}, "y", loss="logistic")


def roles(**columns):
    """Say what becomes of each column."""
    made = Preparation.fit({"anchor": [0, 1] * 600, **columns})
    return made.names[1:], [line for line in made.lines() if "anchor" not in line]


ROWS = 1200


@pytest.mark.parametrize(
    ("cells", "names", "line"),
    [
        (range(ROWS), (), "c is an identifier (all values differ), left out"),
        ([7 * i**2 for i in range(ROWS)], (), "c is an identifier (all values differ), left out"),
        ([0.5 + i for i in range(ROWS)], ("c",), None),
        ([i % 7 for i in range(ROWS)], ("c",), None),
        ([f"k{i}" for i in range(ROWS)], (), "c is an identifier (all values differ), left out"),
        ([f"k{i // 2}" for i in range(ROWS)], (), "c has 600 levels, all of them rare, left out"),
        ([3] * ROWS, (), "c is constant, left out"),
        (["x"] * ROWS, (), "c is constant, left out"),
        (["2024-01-01"] * ROWS, (), "c is constant, left out"),
        ([None] * ROWS, (), "c has no values, left out"),
        (["x", None] * 600, ("c is missing",), "c is constant, left out; 600 missing cells, column"),
        (["1", "2", "x"] * 400, ("c=1", "c=2", "c=x"), None),
        ([True, False] * 600, ("c=False", "c=True"), None),
        (["2024-01-01", "2024-01-08"] * 600, ("c: days since 2024-01-01",), "c is a date, expanded into days"),
        (["2024-01-01 06:30", "2024-01-01T18:30:00Z"] * 600, ("c: hour", "c: days since 2024-01-01"), None),
        (["2024-01-01", "2024-02-30"] * 600, ("c=2024-01-01", "c=2024-02-30"), None),
        (["today", "now"] * 600, ("c=now", "c=today"), None),
        ([1e300, -1e300] * 600, ("c",), None),
        ([1e-300, 2e-300] * 600, ("c",), None),
    ],
)  # fmt: skip
def test_roles_are_found(cells, names, line):
    found, lines = roles(c=list(cells))
    assert found == names
    assert line is None or any(each.startswith(line) for each in lines)


def test_integers_that_differ_by_chance_are_numbers():
    assert roles_of([100 * i for i in range(50)]) == ("c",)  # such as the inhabitants of 50 states
    assert roles_of(range(50)) == ()
    assert roles_of(range(19)) == ("c",)


def test_integers_that_may_be_identifiers_are_reported():
    table = {"c": [100 * i for i in range(50)], "d": [i % 2 for i in range(50)]}
    line = "c holds integers that all differ, kept as numbers; --drop leaves out an identifier"
    assert line in Preparation.fit(table).lines()
    assert line not in Preparation.fit(table, numeric=["c"]).lines()


def roles_of(cells):
    return Preparation.fit({"c": list(cells), "other": [i % 2 for i in range(len(cells))]}).names[:-1]


def test_huge_and_tiny_numbers_are_standardised():
    for scale in (1e300, 1e-300):
        made = Preparation.fit({"c": [scale, 2 * scale, 6 * scale]})
        expected = StandardScaler().fit_transform([[1.0], [2.0], [6.0]])
        np.testing.assert_allclose(made.apply({"c": [scale, 2 * scale, 6 * scale]}), expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"a": []}, "the table has no rows"),
        ({"a": [1.0]}, "has no column to predict from: a is constant, left out"),
        ({"a": [None, None]}, "has no column to predict from: a has no values, left out"),
        ({"a": [1.0, np.inf]}, "row 2: column 'a' must hold a finite number; it is 'inf'"),
        ({"a": [1, 2], "b": [1]}, "columns must be equally long"),
        ({"a": [[1, 2], [3, 4]]}, "column 'a' must have one dimension"),
        ({"a": np.array([1j, 2])}, "column 'a' must hold numbers or text; it holds complex128"),
    ],
)
def test_useless_tables_are_refused(table, message):
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        Preparation.fit(table)


def test_choices_are_checked():
    table = {"a": [1, 2, 2], "b": ["x", "y", "y"]}
    with pytest.raises(ValueError, match=r"has no column 'A' \(--numeric\); did you mean 'a'\?"):
        Preparation.fit(table, numeric=["A"])
    with pytest.raises(ValueError, match="--categorical and --numeric both name 'a'"):
        Preparation.fit(table, numeric=["a"], categorical=["a"])
    with pytest.raises(ValueError, match="row 1: column 'b' must hold a finite number; it is 'x'"):
        Preparation.fit(table, numeric=["b"])
    with pytest.raises(ValueError, match="row 1: column 'b' must hold a date such as 2024-03-01"):
        Preparation.fit(table, dates=["b"])
    with pytest.raises(ValueError, match="--missing 'none' is not known; accepted: 'impute'"):
        Preparation.fit(table, missing="none")
    with pytest.raises(ValueError, match="rare must be an integer of at least 1; got int 0"):
        Preparation.fit(table, rare=0)
    assert Preparation.fit(table, categorical=["a"]).names == ("a=1", "a=2", "b=x", "b=y")


def test_categories_of_digits_keep_their_zeros(tmp_path):
    (tmp_path / "a.csv").write_text("zip,y\n01234,1\n1234,2\n01234,3\n1234,5\n")
    problem = read_problem(tmp_path / "a.csv", "y", categorical=["zip"])
    assert problem.names == ("zip=01234", "zip=1234")


def test_levels_that_libraries_write_differently_are_the_same(tmp_path):
    (tmp_path / "a.csv").write_text("kind,sure,y\n1.0,true,1\n2.0,false,2\n1.0,true,3\n2.0,false,5\n")
    problem = read_problem(tmp_path / "a.csv", "y", categorical=["kind"])
    assert problem.names == ("kind=1.0", "kind=2.0", "sure=false", "sure=true")
    new = {"kind": [1, 2, 3], "sure": [True, False, True]}
    assert problem.preparation.apply(new).tolist() == [[1, 0, 0, 1], [0, 1, 1, 0], [0, 0, 0, 1]]
    assert problem.preparation.notes(new) == [
        "kind: 1 cell has a new level ('3'), for which all columns of kind are zero"
    ]
    # Codes that are different as text stay different.
    codes = Preparation.fit({"zip": ["01", "1", "01", "1", "x", "x"]})
    assert codes.apply({"zip": ["01", "1", "001"]}).tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 0]]


def test_equal_names_get_a_number():
    made = Preparation.fit({"a": ["b", "c"] * 3, "a=b": [1, 2, 3, 1, 2, 3], "a=b (2)": [2, 1, 1, 1, 1, 1]})
    assert made.names == ("a=b", "a=c", "a=b (3)", "a=b (2)")
    made = Preparation.fit({"a": ["other"] * 60 + ["x"] * 60 + ["y"]})
    assert made.names == ("a=other", "a=x", "a=other levels")


def test_many_levels_are_stored_sparse():
    cells = [f"l{i % 50}" for i in range(1000)]
    assert sp.issparse(Preparation.fit({"a": cells}).apply({"a": cells}))
    assert not sp.issparse(Preparation.fit({"a": [i % 9 for i in range(100)]}).apply({"a": [1, 2]}))


def test_descriptions_of_wide_tables_are_short():
    rng = np.random.default_rng(0)
    table = {f"x{j}": [None, *rng.standard_normal(30)] for j in range(200)} | {f"c{j}": [1] * 31 for j in range(200)}
    lines = Preparation.fit(table).lines()
    assert len(lines) < 12
    assert max(map(len, lines)) < 200


@pytest.mark.parametrize(
    "part",
    [
        NumberPart("a", "", "", 0.0, 0.0, 0.0, True),
        NumberPart("a", "", "", np.nan, 0.0, 1.0, True),
        NumberPart("a", "year", "", 0.0, 0.0, 1.0, True),
        NumberPart("a", "days", "soon", 0.0, 0.0, 1.0, True),
        NumberPart("", "", "", 0.0, 0.0, 1.0, True),
        CategoryPart("a", "", ("x", "x"), "", "x"),
        CategoryPart("a", "", ("x", "y"), "y", "x"),
        CategoryPart("a", "", ("x", "y"), "", "z"),
        CategoryPart("a", "month", ("13", "1"), "", "1"),
        CategoryPart("a", "day", ("1", "2"), "", "1"),
        CategoryPart("a", "", ("x", 3), "", "x"),
        IndicatorPart(""),
    ],
)
def test_what_makes_no_sense_is_not_stored(tmp_path, part):
    with pytest.raises(ValueError, match=r"is not a valid|where \w+ says"):
        _storage.save(Preparation((part,), "impute", ()), tmp_path / "p.npz")
    with pytest.raises(ValueError, match="is not a valid Preparation"):
        _storage.save(Preparation((), "impute", ()), tmp_path / "p.npz")
    with pytest.raises(ValueError, match="is not a valid Preparation"):
        _storage.save(Preparation((IndicatorPart("a"),), "maybe", ()), tmp_path / "p.npz")


# Reading


def frame_of(tmp_path, content, /, **options):
    (tmp_path / "a.csv").write_text(content)
    return read_frame(tmp_path / "a.csv", **options)


def test_a_column_that_turns_into_text_late_is_read_as_text(tmp_path, monkeypatch):
    monkeypatch.setattr(readers, "_CELLS", 4)
    frame = frame_of(tmp_path, "a,b\n" + "1,2\n" * 20 + "x,3\n" * 20 + "NA,y\n", header=True, numbers=["b"])
    assert frame.columns["a"].tolist() == ["1"] * 20 + ["x"] * 20 + [""]
    assert frame.columns["b"].tolist() == ["2"] * 20 + ["3"] * 20 + ["y"]


@pytest.mark.parametrize("cells", [1, 3, 2**18])
def test_a_few_texts_in_a_column_of_numbers_are_errors(tmp_path, monkeypatch, cells):
    monkeypatch.setattr(readers, "_CELLS", cells)
    text = "a,b\n" + "1,2\n" * 30 + "5 kg,2\n" + "1,NA\n"
    with pytest.raises(ValueError, match=r"line 32, column 1 \('a'\) is a number in most rows and '5 kg' here"):
        frame_of(tmp_path, text, header=True)
    assert frame_of(tmp_path, text, header=True, text=["a"]).columns["a"][-2:].tolist() == ["5 kg", "1"]
    text = "a,b\n" + "5 kg,2\n" + "1,2\n" * 30 + "1,NA\n"
    with pytest.raises(ValueError, match=r"line 2, column 1 \('a'\) is a number in most rows and '5 kg' here"):
        frame_of(tmp_path, text, header=True)


def test_targets_of_numbers_and_text(tmp_path):
    assert frame_of(tmp_path, "a,y\n1,1\n2,NA\n", target="y").target.tolist()[0] == 1.0
    assert frame_of(tmp_path, "a,y\n1,1\n2,no\n3,NA\n", target="y").target.tolist() == ["1", "no", ""]


def test_numeric_formats_become_frames(tmp_path):
    (tmp_path / "a.svm").write_text("1 1:2 3:4\n0 2:5\n")
    frame = read_frame(tmp_path / "a.svm")
    assert {name: column.tolist() for name, column in frame.columns.items()} == {"1": [2, 0], "2": [0, 5], "3": [4, 0]}
    assert frame.target.tolist() == [1, 0]
    with pytest.raises(ValueError, match=r"--categorical is for tables \(.csv, .tsv, .parquet\); .* is a matrix"):
        read_problem(tmp_path / "a.svm", categorical=["1"])


def test_frames_of_odd_things():
    with pytest.raises(ValueError, match="got a sparse matrix"):
        Frame.of(sp.eye_array(2), ["a", "b"])
    with pytest.raises(ValueError, match="the data frame cannot be read"):
        Frame.of(pd.DataFrame({"a": [1, "x"]}))
    column = Frame.of({"a": [dt.date(2024, 3, 1), None, pd.NaT]}).columns["a"]
    assert column.tolist() == ["2024-03-01", "", ""]
    assert Frame.of({"a": np.array(["2024-03-01", "NaT"], "datetime64[D]")}).columns["a"].tolist() == ["2024-03-01", ""]
    assert Frame.of({"a": [" x ", "N/A", 3]}).columns["a"].tolist() == ["x", "", "3"]
    assert as_date("2024-03-01T12:30:00.123456+02:00") == "2024-03-01T12:30:00"


@pytest.mark.parametrize(
    "form", ["%Y-%m-%d", "%Y/%m/%d", "%Y%m%d", "%Y-%m-%dT%H:%M:%S+02:00", "%Y/%m/%d %H:%M", "%Y-%m-%d %H:%M:%S.250Z"]
)
def test_forms_of_dates(form):
    days = pd.date_range("2024-01-30", periods=40, freq="31h")
    plain = Preparation.fit({"when": days.strftime("%Y-%m-%d" if "H" not in form else "%Y-%m-%dT%H:%M").tolist()})
    found = Preparation.fit({"when": days.strftime(form).tolist()}, dates=["when"])
    assert found.names == plain.names
    np.testing.assert_allclose(
        found.apply({"when": days.strftime(form).tolist()}), plain.apply({"when": days.strftime(form).tolist()})
    )


@pytest.mark.parametrize("form", ["%d/%m/%Y", "%m/%d/%Y", "%d.%m.%y", "%d-%m-%Y", "%d/%m/%Y %H:%M"])
@pytest.mark.parametrize("repeated", [True, False])
def test_dates_whose_order_is_unknown_are_reported(form, repeated):
    cells = pd.date_range("2024-01-28", periods=40, freq="D").strftime(form).tolist()
    cells = cells[:5] * 8 if repeated else cells
    preparation = Preparation.fit({"when": cells, "x": np.arange(40.0) ** 1.5})
    line = next(line for line in preparation.lines() if "only those such as '2024-03-01' are expanded" in line)
    assert line.startswith(f"when holds dates such as '{cells[0]}'")
    assert ("categories" in line) == repeated
    with pytest.raises(InputError, match="must hold a date such as 2024-03-01"):
        Preparation.fit({"when": cells}, dates=["when"])


def test_missing_cells_of_a_column_that_is_left_out_are_used():
    rng = np.random.default_rng(3)
    cabin = [f"C{i}" if rng.random() < 0.5 else None for i in range(200)]
    table = {"cabin": cabin, "x": rng.standard_normal(200), "y": [float(cell is None) for cell in cabin]}
    problem = read_problem(table, "y")
    assert problem.names == ("cabin is missing", "x")
    assert problem.preparation.text_inputs == ("cabin",)
    added = f"left out; {cabin.count(None)} missing cells, column 'cabin is missing' added"
    assert f"cabin is an identifier (all values differ), {added}" in problem.lines()
    # The kind of the column stays the same in a part of the rows, in which its values may all be equal.
    rows = np.flatnonzero([cell is None or cell == cabin[next(i for i, c in enumerate(cabin) if c)] for cell in cabin])
    assert problem.on(rows).names == problem.names
    model = problem.model(fw.minimize(problem.f, fw.L1Ball(5.0), tol=1e-10))
    np.testing.assert_allclose(model.predict({"cabin": ["D9", None], "x": [0.0, 0.0]}), [0.0, 1.0], atol=1e-4)


def csv_of(path, cells):
    path.write_text("a,y\n" + "\n".join(f"{cell},{i}.5" for i, cell in enumerate(cells)) + "\n")
    return path


NUMBERS = [f"{value:.3f}" for value in np.random.default_rng(3).standard_normal(60)]


@pytest.mark.parametrize(
    "token", ["None", "#N/A", "<NA>", "-", "--", ".", "Unknown", "#DIV/0!", "NaN", "null", "n/a", "?", "(blank)", "NIL"]
)
def test_placeholders_among_numbers_are_missing_cells(tmp_path, token):
    path = csv_of(tmp_path / "a.csv", [*NUMBERS, *[token] * 20])
    problem = read_problem(path, "y", intercept=False)
    assert problem.names == ("a", "a is missing")
    cells = [*map(float, NUMBERS), *[token] * 20]
    again = read_problem({"a": cells, "y": np.arange(80.0) + 0.5}, "y", intercept=False)
    np.testing.assert_array_equal(again.X, problem.X)
    new = read_frame(csv_of(tmp_path / "b.csv", [token, "0.5"]), "y", known=("a",), only=True, numbers=("a",))
    np.testing.assert_array_equal(problem.preparation.apply(new)[:, 1], [1, 0])
    levels = read_problem(csv_of(tmp_path / "c.csv", ["x", "z", token] * 20), "y")  # Among text it is a level.
    assert len(levels.names) == (2 if token.lower() in ("nan", "null", "n/a", "?") else 3) + (
        "a is missing" in levels.names
    )


def test_tokens_of_the_user_are_missing_cells(tmp_path):
    cells = [*NUMBERS, *["n.v."] * 10]
    path = csv_of(tmp_path / "a.csv", cells)
    with pytest.warns(UserWarning, match=r"86 % of a are numbers, but 'n.v.' is not; treated as text"):
        assert "a is missing" not in read_problem(path, "y").names
    for na in (["N.V."], ["n.v.", NUMBERS[0]]):
        problem = read_problem(path, "y", na=na)
        assert problem.names == ("a", "a is missing")
        assert problem.X[:, 1].sum() == 9 + len(na)
        assert problem.preparation.na == tuple(na)
    np.testing.assert_array_equal(problem.preparation.apply({"a": [float(NUMBERS[0])]})[:, 1], [1])
    other = [f"e{i}" for i in range(8)]  # Text that differs in all rows is no identifier among numbers.
    with (
        pytest.warns(UserWarning, match=r"88 % of a are numbers, but 'e0' is not"),
        pytest.raises(ValueError, match="no column"),
    ):
        read_problem(csv_of(path, [*NUMBERS, *other]), "y")
