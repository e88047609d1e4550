"""Checks of arguments: the values that are accepted, and errors that name the argument and what was given."""

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fwflow as fw
from fwflow import _validation as validation
from fwflow._validation import InputError

many = settings(deadline=None, max_examples=100, derandomize=True)


class OwnBall(fw.L1Ball):
    pass


def test_parts_of_the_library_are_told_from_parts_of_users():
    assert validation.ours(fw.L1Ball())
    assert not validation.ours(OwnBall())
    assert not validation.ours(np.zeros(1))


def test_an_input_error_is_a_value_error():
    assert issubclass(InputError, ValueError)


def test_a_suggestion_names_the_nearest_name_and_all_names():
    text = validation.suggest("squred", ["squared", "logistic"])
    assert "did you mean 'squared'?" in text
    assert "'squared', 'logistic'" in text
    assert "did you mean" not in validation.suggest("zzz", ["squared", "logistic"])
    assert "did you mean" not in validation.suggest(None, ["squared"])


def test_parts_are_found_by_name_or_are_objects_already():
    kinds = {"squared": fw.objectives.Squared, "huber": fw.objectives.Huber}
    own = fw.objectives.Huber(2.0)
    assert validation.find(own, "loss", kinds, fw.objectives.Loss) is own
    assert validation.find("squared", "loss", kinds, fw.objectives.Loss) == fw.objectives.Squared()
    assert validation.find("huber", "loss", kinds, fw.objectives.Loss, lambda kind: kind(rho=2.0)) == own
    with pytest.raises(InputError, match=r"^loss='hubr' is not known; did you mean 'huber'"):
        validation.find("hubr", "loss", kinds, fw.objectives.Loss)
    with pytest.raises(InputError, match=r"^loss must be a name or a Loss; got 3$"):
        validation.find(3, "loss", kinds, fw.objectives.Loss)


def test_numbers_of_frozen_dataclasses_become_python_floats():
    @dataclass(frozen=True)
    class Half:
        share: float

        def __post_init__(self):
            validation.check_number(self, "share", "be at most a half", lambda x: x <= 0.5)

    assert type(Half(np.float32(0.5)).share) is float
    with pytest.raises(InputError, match=r"^share must be at most a half; got float 0\.75$"):
        Half(0.75)


def test_messages_of_errors_fit_on_one_line():
    assert validation.one_line(ValueError("one\n  two")) == "one two"
    assert validation.one_line(KeyError()) == "KeyError"


@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.longdouble, np.int8, np.uint64, bool])
def test_only_float32_computes_in_float32(dtype):
    assert validation.float_dtype(np.float32) == np.float32
    assert validation.float_dtype(dtype) == np.float64


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_arrays_of_floats_are_not_copied(dtype):
    array = np.ones((2, 3), dtype)
    assert validation.float_array(array, "A") is array
    assert validation.finite_array(array, "A") is array


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (3, 3.0),
        ([1, 2], [1.0, 2.0]),
        ([True, False], [1.0, 0.0]),
        (np.array([1, 2], dtype=np.uint8), [1.0, 2.0]),
        (np.array([1, 2.5, Decimal("0.5"), Fraction(1, 4), True], dtype=object), [1.0, 2.5, 0.5, 0.25, 1.0]),
        (np.ma.array([1.0, 2.0]), [1.0, 2.0]),
        ([], []),
    ],
)
def test_real_numbers_become_float64(value, expected):
    array = validation.float_array(value, "A")
    assert array.dtype == np.float64
    np.testing.assert_array_equal(array, expected)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (["a"], "real numbers"),
        ([1j], "real numbers"),
        ([[1.0], [1.0, 2.0]], "real numbers"),
        (np.array([1.0, None], dtype=object), r"A\[1\]"),
        (np.array([[1.0, "2"]], dtype=object), r"A\[0, 1\]"),
        (np.array([10**400], dtype=object), "finite"),
        (np.ma.array([1.0, 2.0], mask=[True, False]), "masked"),
        ([np.ma.array([1.0, 2.0], mask=[True, False])], "masked"),
        (np.array(["2026-01-01"], dtype="datetime64[D]"), "real numbers"),
    ],
)
def test_arrays_of_other_things_are_refused_by_name(value, words):
    with pytest.raises(InputError, match=f"^A .*{words}"):
        validation.float_array(value, "A")


@pytest.mark.parametrize(("shape", "ndim"), [((2,), 2), ((2, 3), 1), ((), 1), ((1, 2, 3), 2)])
def test_a_wrong_number_of_dimensions_is_named(shape, ndim):
    with pytest.raises(InputError) as error:
        validation.float_array(np.zeros(shape), "A", ndim=ndim)
    for words in ("A must have", str(ndim), str(shape)):
        assert words in str(error.value)


def test_a_column_in_the_place_of_a_vector_is_told_of_ravel():
    with pytest.raises(InputError, match=r"ravel\(\)"):
        validation.float_array(np.zeros((3, 1)), "b", ndim=1)
    with pytest.raises(InputError) as error:
        validation.float_array(np.zeros((3, 2)), "b", ndim=1)
    assert "ravel" not in str(error.value)


@many
@given(place=st.integers(0, 5), bad=st.sampled_from([np.nan, np.inf, -np.inf]))
def test_the_first_entry_that_is_not_finite_is_named(place, bad):
    array = np.zeros((2, 3))
    array.flat[place:] = bad
    i, j = divmod(place, 3)
    with pytest.raises(InputError) as error:
        validation.finite_array(array, "A")
    assert f"A[{i}, {j}] is {bad}" in str(error.value)


def test_entries_must_be_finite_in_the_requested_type():
    assert validation.finite_array([1e30], "b", dtype=np.float32).dtype == np.float32
    with pytest.raises(InputError, match=r"b\[0\] is inf in float32"):
        validation.finite_array([1e300], "b", dtype=np.float32)
    with pytest.raises(InputError, match="x0 must be finite; x0 is nan"):
        validation.finite_array(np.nan, "x0")


def test_masked_arrays_are_found_in_lists():
    hidden, shown = np.ma.array([1.0, 2.0], mask=[0, 1]), np.ma.array([1.0, 2.0], mask=[0, 0])
    assert validation.masked(hidden)
    assert validation.masked([[1.0, 2.0], (hidden,)])
    assert not validation.masked(shown)
    assert not validation.masked([shown, 1.0])
    assert not validation.masked(np.zeros(2))


@pytest.mark.parametrize(
    ("value", "expected"), [(3, (3,)), ((2, 3), (2, 3)), ([4], (4,)), (np.int64(5), (5,)), (2.0, (2,))]
)
def test_shapes_are_tuples_of_positive_integers(value, expected):
    shape = validation.shape_of(value, "shape")
    assert shape == expected
    assert all(type(size) is int for size in shape)


@pytest.mark.parametrize("value", [0, -1, (), (2, 0), 1.5, "3", None, (2, "3")])
def test_other_shapes_are_refused(value):
    with pytest.raises(InputError) as error:
        validation.shape_of(value, "shape")
    assert str(error.value).startswith("shape must be")
    assert repr(value) in str(error.value)


@many
@given(value=st.floats(min_value=0, exclude_min=True, allow_infinity=False))
def test_positive_numbers_become_python_floats(value):
    for given_as in (value, np.float64(value), np.array(value)):
        found = validation.positive(given_as, "radius")
        assert type(found) is float
        assert found == value


@pytest.mark.parametrize(
    "value", [0, -3, np.inf, np.nan, "1", b"1", None, 1j, [1.0], np.ones(1), np.ma.masked, 10**400, object]
)
def test_numbers_that_are_not_positive_are_refused(value):
    with pytest.raises(InputError, match=r"^radius must be a positive finite number; got "):
        validation.positive(value, "radius")


def test_a_number_that_fails_its_test_is_described():
    assert validation.number(0.5, "share", "lie in [0, 1]", lambda x: 0 <= x <= 1) == 0.5
    with pytest.raises(InputError, match=r"^share must lie in \[0, 1\]; got int 2$"):
        validation.number(2, "share", "lie in [0, 1]", lambda x: 0 <= x <= 1)


@pytest.mark.parametrize("value", [2, 2.0, np.int8(2), np.float32(2), Fraction(2), Decimal(2)])
def test_integers_become_python_integers(value):
    found = validation.whole(value, "max_iter", 1)
    assert type(found) is int
    assert found == 2


@pytest.mark.parametrize("value", [0, 1.5, np.inf, -np.inf, np.nan, "2", None, [2]])
def test_other_integers_are_refused_with_the_bound(value):
    with pytest.raises(InputError, match=r"^max_iter must be an integer of at least 1; got "):
        validation.whole(value, "max_iter", 1)


def test_nodes_are_integers_from_zero():
    found = validation.nodes([0.0, 3.0, 1.0], "tail")
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, [0, 3, 1])
    with pytest.raises(InputError, match=r"tail\[1\] is -1"):
        validation.nodes([0, -1], "tail")
    with pytest.raises(InputError, match=r"tail\[2\] is 1\.5"):
        validation.nodes([0, 1, 1.5], "tail")
    with pytest.raises(InputError, match="tail must have 1 dimension"):
        validation.nodes([[0, 1]], "tail")


@many
@given(value=st.floats(allow_nan=False))
def test_numbers_in_text_are_read_back(value):
    assert validation.parsed(repr(value)) == value


@pytest.mark.parametrize("text", ["", "1_0", " 1", "1 ", "1\n", "0x10", "one", "1,5", "\u0661", "--1"])
def test_other_text_is_no_number(text):
    assert validation.parsed(text) is None


@pytest.mark.parametrize("text", ["1.5", "-1e-3", "nan", "word"])
def test_plain_text_is_printable_ascii_without_spaces_and_underscores(text):
    assert validation.is_plain(text)
    for sign in ("_", " ", "\t", "\u0661"):
        assert not validation.is_plain(text + sign)


def test_descriptions_are_short_and_on_one_line():
    assert validation.describe(3) == "int 3"
    assert validation.describe("a\nb") == r"str 'a\nb'"
    long = validation.describe(np.zeros((50, 50)))
    assert "\n" not in long
    assert long.startswith("ndarray array(")
    assert len(long) <= len("ndarray ") + 60
