"""Is a model that comes back from its file the one that was saved, and is anything else refused?"""

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import fwflow as fw
from fwflow.tables.model_files import FittedModel


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
    np.testing.assert_allclose(logistic.probabilities(X), 1 / (1 + np.exp([-3.0, 6.0, 0.0])))
    np.testing.assert_allclose(model(intercept=0.5).predict(X), [3.5, -5.5, 0.5])
    assert model(names="abc", coefficients=(0.0, -3.0, 2.0)).largest(5) == [("b", -3.0), ("c", 2.0)]


def test_probabilities_do_not_overflow():
    big = model(loss="logistic", classes=("no", "yes"))
    assert big.probabilities(np.array([[1e6, 0.0], [-1e6, 0.0]])).tolist() == [1.0, 0.0]
