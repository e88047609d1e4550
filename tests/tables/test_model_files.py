"""Is a model that comes back from its file the one that was saved, and is anything else refused?"""

from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import softmax

import fwflow as fw
from fwflow._storage import registry
from fwflow.tables.model_files import FittedModel
from fwflow.tables.problem import read_problem


def model(names=("a", "b"), coefficients=(1.0, -2.0), **changes):
    X = np.eye(2)
    r = fw.minimize(fw.LinearModel(X, X[0]), fw.L1Ball(1.0))
    base = FittedModel.of(r, ("a", "b"), loss="squared", constraint="l1:1", rows=2)
    return replace(base, **({"names": tuple(names), "coefficients": np.array(coefficients)} | changes))


def same(one, other):
    return all(
        np.array_equal(getattr(one, f.name), getattr(other, f.name), equal_nan=f.name == "gap")
        if f.name in ("coefficients", "gap")
        else getattr(one, f.name) == getattr(other, f.name)
        for f in fields(FittedModel)
    )


@given(st.lists(st.text(), min_size=1, max_size=6, unique=True), st.data())
@settings(max_examples=60, deadline=None)
def test_models_come_back(tmp_path_factory, names, data):
    dtype = data.draw(st.sampled_from([np.float32, np.float64]))
    x = data.draw(arrays(dtype, len(names), elements={"allow_nan": False, "allow_infinity": False}))
    kept = model(names, x, gap=data.draw(st.floats()), target=data.draw(st.text()))
    path = tmp_path_factory.getbasetemp() / "model.npz"
    try:
        kept.save(path)
    except ValueError as error:  # a lone surrogate, say, is text that no file can hold
        pytest.fail(str(error))
    back = FittedModel.load(path)
    assert same(back, kept)
    assert back.coefficients.dtype == dtype


def test_a_model_needs_no_pickle(tmp_path):
    model().save(tmp_path / "m.npz")
    with np.load(tmp_path / "m.npz", allow_pickle=False) as stored:
        np.testing.assert_array_equal(stored["float64"][:2], [1.0, -2.0])


@pytest.mark.parametrize("place", [0, 100, -80, -1])
def test_damage_is_noticed(tmp_path, place):
    path = tmp_path / "m.npz"
    model().save(path)
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"m\.npz holds no model: it is"):
        FittedModel.load(path)


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "m.npz"
    np.savez(path, coefficients=np.ones(2))
    with pytest.raises(ValueError, match=r"m\.npz holds no model: it is a file of another kind"):
        FittedModel.load(path)
    fw.minimize(fw.Quadratic(np.eye(2)), fw.Simplex()).state.save(path)
    with pytest.raises(ValueError, match=r"m\.npz holds no model: it holds a State"):
        FittedModel.load(path)


@pytest.mark.parametrize(
    "changes",
    [
        {"names": ("a",)},
        {"names": ("a", "a")},
        {"coefficients": np.array([1.0, np.nan])},
        {"coefficients": np.array([1, 2])},
        {"coefficients": np.ones((2, 1))},
        {"intercept": np.inf},
        {"loss": "hinge"},
        {"loss": "logistic"},
        {"classes": ("no", "yes")},
        {"rows": "many"},
    ],
)
def test_what_makes_no_sense_is_not_written(tmp_path, changes):
    with pytest.raises(ValueError, match="FittedModel"):
        model(**changes).save(tmp_path / "m.npz")
    assert not any(tmp_path.iterdir())


def test_predictions():
    X, classes = np.array([[3.0, 0.0], [0.0, 3.0], [2.0, 1.0]]), ("no", "yes")
    logistic = model(loss="logistic", classes=classes)
    assert logistic.predict(X).tolist() == ["yes", "no", "no"]
    p = 1 / (1 + np.exp([-3.0, 6.0, 0.0]))
    np.testing.assert_allclose(logistic.probabilities(X), np.stack([1 - p, p], axis=1))
    np.testing.assert_allclose(model(intercept=0.5).predict(X), [3.5, -5.5, 0.5])
    assert model(names="abc", coefficients=(0.0, -3.0, 2.0)).largest(5) == [("b", -3.0), ("c", 2.0)]


def test_probabilities_do_not_overflow():
    big = model(loss="logistic", classes=("no", "yes"))
    assert big.probabilities(np.array([[1e6, 0.0], [-1e6, 0.0]])).tolist() == [[0.0, 1.0], [1.0, 0.0]]


def several(**changes):
    """A model of three classes."""
    coefficients = np.array([[1.0, 0.0], [0.0, 2.0], [-1.0, -2.0]])
    given = {"classes": ("a", "b", "c"), "intercept": (0.5, 0.0, -0.5), "loss": "logistic"} | changes
    return model(coefficients=coefficients, **given)


def test_models_of_several_classes(tmp_path):
    kept = several()
    kept.save(tmp_path / "m.npz")
    back = FittedModel.load(tmp_path / "m.npz")
    assert same(back, kept)
    X = np.array([[3.0, 0.0], [0.0, 3.0], [-2.0, -1.0], [0.0, 0.0]])
    scores = X @ back.coefficients.T + [0.5, 0.0, -0.5]
    np.testing.assert_allclose(back.scores(X), scores)
    np.testing.assert_allclose(back.probabilities(X), softmax(scores, axis=1))
    assert back.predict(X).tolist() == ["a", "b", "c", "a"]
    assert back.probabilities(1e6 * X)[0].tolist() == [1, 0, 0]
    assert back.largest(2) == [("b: b", 2.0), ("c: b", -2.0)]
    assert [(row.label, row.name, row.original) for row in back.table(1)] == [("b", "b", 2.0)]
    assert (len(back.table()), back.nonzero) == (6, 4)


@pytest.mark.parametrize(
    "changes",
    [
        {"intercept": 0.0},
        {"intercept": (0.0, 0.0)},
        {"classes": ("a", "b")},
        {"classes": ("a", "b", "b")},
        {"loss": "squared"},
        {"coefficients": np.ones(2)},
    ],
)
def test_models_of_several_classes_are_checked(tmp_path, changes):
    with pytest.raises(ValueError, match="FittedModel"):
        replace(several(), **changes).save(tmp_path / "m.npz")


def test_regressions_have_no_probabilities():
    with pytest.raises(ValueError, match="a model of the squared loss has no classes"):
        model().probabilities(np.eye(2))


def prepared():
    data = {"age": [30, 40, None, 50, 41], "city": ["Rome", "Oslo", "Rome", "Oslo", "Rome"], "y": [1.0, 2, 3, 4, 6]}
    problem = read_problem(data, "y")
    return data, problem.model(fw.minimize(problem.f, fw.L1Ball(3.0)), "l1:3")


def test_models_with_a_preparation_come_back(tmp_path):
    data, fitted = prepared()
    fitted.save(tmp_path / "m.npz")
    back = FittedModel.load(tmp_path / "m.npz")
    np.testing.assert_array_equal(back.predict(data), fitted.predict(data))
    assert back.preparation.lines() == fitted.preparation.lines()
    assert back.table() == fitted.table()
    with pytest.raises(ValueError, match="FittedModel"):  # names that the preparation does not make
        replace(fitted, names=("a", "b", "c", "d")).save(tmp_path / "n.npz")


def test_every_changed_byte_is_noticed(tmp_path):
    path = tmp_path / "m.npz"
    prepared()[1].save(path)
    whole = path.read_bytes()
    for place in range(0, len(whole), 37):
        changed = bytearray(whole)
        changed[place] ^= 1
        path.write_bytes(changed)
        with pytest.raises(ValueError, match=r"m\.npz holds no model: it is"):
            FittedModel.load(path)


def test_raw_models_match_columns_by_name():
    plain = model(names=("a", "b"), coefficients=(1.0, -2.0))
    assert plain.predict({"b": [1, 2], "c": ["x", "y"], "a": [5, 6]}).tolist() == [3.0, 2.0]
    assert plain.predict(pd.DataFrame({"b": [1.0], "a": [True]})).tolist() == [-1.0]
    with pytest.raises(ValueError, match="the table lacks columns 'a', 'b'; it has column 'c'"):
        plain.predict({"c": [1]})
    with pytest.raises(ValueError, match="row 2: column 'b' is missing; fill it in"):
        plain.predict({"a": [1, 2], "b": [1, None]})
    assert [(row.column, row.original) for row in plain.table()] == [("a", 1.0), ("b", -2.0)]
    assert np.isnan(plain.table()[0].standardised)


# Other versions of the format

VERSION_1 = Path(__file__).with_name("version_1.npz")


def test_files_of_version_1_are_read():
    """The file was written by fwflow before models had a preparation."""
    old = FittedModel.load(VERSION_1)
    assert (old.names, old.classes, old.loss, old.constraint) == (("age", "visits"), ("no", "yes"), "logistic", "l1:2")
    assert (old.preparation, old.inputs, old.certified) == (None, ("age", "visits"), True)
    assert old.predict({"age": [1.0, -3.0], "visits": [0.0, 0.0]}).tolist() == ["yes", "no"]
    assert old.intercept == old.original_intercept != 0


def test_a_later_version_is_refused_with_its_number(tmp_path, monkeypatch):
    later = replace(registry.by_class[FittedModel], name="fitted-linear-model-7")
    with monkeypatch.context() as patch:
        patch.setitem(registry.by_class, FittedModel, later)
        model().save(tmp_path / "m.npz")
    with pytest.raises(ValueError, match=r"holds a model of format 7, and this version of fwflow reads formats 1 to 3"):
        FittedModel.load(tmp_path / "m.npz")
