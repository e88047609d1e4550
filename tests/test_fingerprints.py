"""Fingerprints of data: equal for equal data, different where one entry differs."""

import copy
import pickle
from dataclasses import dataclass

import numpy as np
import pytest
import scipy.sparse as sp

import fwflow as fw
from fwflow._fingerprints import Origin, fingerprint
from tests.catalogue import design, targets


class Owner:
    pass


@dataclass
class Settings:
    radius: float
    weights: np.ndarray


def printed(*parts):
    return fingerprint(Owner(), *parts)


def test_a_fingerprint_is_the_class_and_sixteen_hexadecimal_digits():
    kind, digest = printed(np.eye(2), 1.0).split()
    assert kind == "Owner"
    assert len(digest) == 16
    assert int(digest, 16) >= 0


def test_the_class_of_the_owner_counts():
    assert fingerprint(Owner(), 1.0) != fingerprint(object(), 1.0)


A = np.arange(12.0).reshape(3, 4)

EQUAL = {
    "copies": (A, A.copy()),
    "memory orders": (A, np.asfortranarray(A)),
    "strides": (A, np.repeat(A, 2, axis=1)[:, ::2]),
    "byte orders": (A, A.astype(A.dtype.newbyteorder())),
    "sparse formats": (sp.csr_array(A), sp.csc_array(A)),
    "types of sparse indices": (
        sp.csc_array(A),
        sp.csc_array(
            (sp.csc_array(A).data, sp.csc_array(A).indices.astype(np.int64), sp.csc_array(A).indptr.astype(np.int64)),
            shape=A.shape,
        ),
    ),
    "lists and tuples": ([1, A], (1, A)),
    "dataclasses": (Settings(1.0, A), Settings(1.0, A.copy())),
    "functions": (np.sin, np.cos),
}

DIFFERENT = {
    "one entry": (A, np.where(A == 5, np.nextafter(5.0, 6.0), A)),
    "transposed": (A[:, :3], A[:, :3].T),
    "shape": (A, A.reshape(4, 3)),
    "precision": (A, A.astype(np.float32)),
    "sign of zero": (np.zeros(2), -np.zeros(2)),
    "dense and sparse": (A, sp.csr_array(A)),
    "sparse columns": (sp.csr_array([[1.0, 0.0]]), sp.csr_array([[0.0, 1.0]])),
    "order of a sequence": ([1, 2], [2, 1]),
    "nesting of a sequence": ([1, [2]], [[1], 2]),
    "integer and text": (1, "1"),
    "None and False": (None, False),
    "field of a dataclass": (Settings(1.0, A), Settings(2.0, A)),
}


@pytest.mark.parametrize("case", EQUAL)
def test_equal_data_has_equal_fingerprints(case):
    one, other = EQUAL[case]
    assert printed(one) == printed(other)


@pytest.mark.parametrize("case", DIFFERENT)
def test_different_data_has_different_fingerprints(case):
    one, other = DIFFERENT[case]
    assert printed(one) != printed(other)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", [(900, 700), (3_000_000,), (60, 70, 80)])
def test_large_arrays_are_told_apart_by_any_entry(shape, dtype, order):
    array = np.random.default_rng(0).standard_normal(shape).astype(dtype, order=order)
    prints = {fingerprint(None, array), fingerprint(None, np.ascontiguousarray(array))}
    assert len(prints) == 1
    for i in (0, 1234, array.size // 2, array.size - 1):
        touched = array.copy(order="K")
        place = np.unravel_index(i, shape)
        touched[place] = np.nextafter(touched[place], dtype(9))
        prints.add(fingerprint(None, touched))
    swapped = array.copy(order="K")
    one, two = np.unravel_index(5, shape), np.unravel_index(6, shape)
    swapped[one], swapped[two] = array[two], array[one]
    prints |= {fingerprint(None, other) for other in (swapped, np.roll(array, 5000))}
    assert len(prints) == 7


def origin(seed=0, radius=1.0):
    return Origin(objective=fw.LinearModel(design(5, 3, seed), targets(5)), constraint=fw.L1Ball(radius))


def test_origins_with_equal_data_do_not_differ():
    one = origin()
    assert one.differs_from(one) is None
    assert one.differs_from(origin()) is None


@pytest.mark.parametrize(("other", "part"), [(origin(seed=1), "objective"), (origin(radius=2.0), "set")])
def test_a_difference_names_the_part_and_both_fingerprints(other, part):
    message = origin().differs_from(other)
    index = ("objective", "set").index(part)
    for words in (part, origin().fingerprints[index], other.fingerprints[index]):
        assert words in message
    assert origin().fingerprints[1 - index] not in message


def test_an_unknown_fingerprint_is_not_compared():
    known, unknown = Origin(("objective 1", "set 1")), Origin((None, "set 1"))
    assert known.differs_from(unknown) is None
    assert "set 2" in known.differs_from(Origin((None, "set 2")))


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_a_copy_of_an_origin_keeps_the_fingerprints_and_not_the_data(duplicate):
    one = origin()
    other = duplicate(one)
    assert other.fingerprints == one.fingerprints
    assert (other.objective, other.constraint) == (None, None)
    assert other.differs_from(one) is None
