"""Fingerprints of data: equal for equal data, different where one entry differs."""

import copy
import json
import pickle
import re
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
    return fingerprint(Owner(), **{f"part {i}": part for i, part in enumerate(parts)})


def test_a_fingerprint_is_the_class_and_its_parts():
    kind, _, parts = printed(np.eye(2), 1.0, "text", (None, True), np.sin, Settings(2.0, np.ones(3))).partition(" ")
    assert kind == "Owner"
    matrix, *others, settings = json.loads(parts).values()
    assert matrix["shape"] == "(2, 2)"
    assert others == [1.0, "text", [None, True], "ufunc"]
    assert settings.startswith('Settings {"radius": 2.0, "weights": {"shape": "(3,)", "digest": "')


def test_the_class_of_the_owner_counts():
    assert fingerprint(Owner(), radius=1.0) != fingerprint(object(), radius=1.0)


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
    prints = {printed(array), printed(np.ascontiguousarray(array))}
    assert len(prints) == 1
    for i in (0, 1234, array.size // 2, array.size - 1):
        touched = array.copy(order="K")
        place = np.unravel_index(i, shape)
        touched[place] = np.nextafter(touched[place], dtype(9))
        prints.add(printed(touched))
    swapped = array.copy(order="K")
    one, two = np.unravel_index(5, shape), np.unravel_index(6, shape)
    swapped[one], swapped[two] = array[two], array[one]
    prints |= {printed(other) for other in (swapped, np.roll(array, 5000))}
    assert len(prints) == 7


def origin(seed=0, radius=1.0):
    return Origin(objective=fw.LinearModel(design(5, 3, seed), targets(5)), constraint=fw.L1Ball(radius))


def test_origins_with_equal_data_do_not_differ():
    one = origin()
    assert one.differs_from(one) is None
    assert one.differs_from(origin()) is None


M, BALL = np.arange(12.0).reshape(4, 3), fw.L1Ball()
#: Pairs of parts, and what the message says on the first and on the second.
IN_WORDS = {
    "radius": (fw.L1Ball(3.0), fw.L1Ball(4), "L1Ball with radius 3", "L1Ball with radius 4"),
    "tiny": (fw.L1Ball(1.0), fw.L1Ball(1.0 + 1e-12), "radius 1,", "radius 1.000000000001"),
    "class": (fw.L1Ball(3.0), fw.L2Ball(3.0), "L1Ball,", "L2Ball"),
    "two": (fw.LpBall(3.0, 1.0), fw.LpBall(4.0, 2.0), "LpBall with p 3 and radius 1", "LpBall with p 4 and radius 2"),
    "inner": (2.0 * fw.L1Ball(3.0), 2.0 * fw.L1Ball(4.0), "ScaledSet with radius 3", "ScaledSet with radius 4"),
    "factor": (2.0 * BALL, 3.0 * BALL, "ScaledSet with factor 2", "ScaledSet with factor 3"),
    "shift": (BALL + np.ones(3), BALL + np.zeros(3), "shift of shape (3,)", "other entries in shift"),
    "kinds": (2.0 * fw.L1Ball(3.0), 2.0 * fw.L2Ball(3.0), "set L1Ball", "set L2Ball"),
    "block": (
        fw.Product([(BALL, 2), (BALL, 4)]),
        fw.Product([(BALL, 3), (BALL, 4)]),
        "block 0[1] 2",
        "block 0[1] 3",
    ),
    "integers": (
        fw.MixedInteger(lower=0, upper=1, n=2),
        fw.MixedInteger(lower=0, upper=2, n=2),
        "upper of shape (2,)",
        "other entries in upper",
    ),
    "entries": (fw.LinearModel(M, M[:, 0]), fw.LinearModel(2 * M, M[:, 0]), "A of shape (4, 3)", "other entries in A"),
    "targets": (fw.LinearModel(M, M[:, 0]), fw.LinearModel(M, M[:, 1]), "b of shape (4,)", "other entries in b"),
    "rows": (fw.LinearModel(M, M[:, 0]), fw.LinearModel(M[:2], M[:2, 0]), "A of shape (4, 3)", "shape (2, 3)"),
    "sparse": (fw.LinearModel(M, M[:, 0]), fw.LinearModel(sp.csr_array(M), M[:, 0]), "A DenseDesign", "A SparseDesign"),
    "loss": (fw.LinearModel(M, M[:, 0], "huber"), fw.LinearModel(M, M[:, 0], "huber", rho=2.0), "rho 1", "rho 2"),
    "hessian": (fw.Quadratic(np.eye(3)), fw.Quadratic(2 * np.eye(3)), "H of shape (3, 3)", "other entries in H"),
    "function": (fw.Smooth(abs, abs, shape=3), fw.Smooth(abs, abs, shape=4), "shape[0] 3", "shape[0] 4"),
}


@pytest.mark.parametrize("case", IN_WORDS)
def test_a_difference_is_told_in_words(case):
    one, other, was, now = IN_WORDS[case]
    if isinstance(one, fw.ConstraintSet):
        pair, part = [Origin(objective=fw.Quadratic(np.eye(2)), constraint=C) for C in (one, other)], "set"
    else:
        pair, part = [Origin(objective=f, constraint=BALL) for f in (one, other)], "objective"
    for first, second in (pair, copy.deepcopy(pair)):  # copies have the fingerprints only
        message = first.differs_from(second)
        before, _, after = message.partition(" and this one is ")
        assert before.startswith(f"its {part} was ")
        assert was in before
        assert now in after
        assert not re.search("[0-9a-f]{16}", message)


def test_fingerprints_of_a_user_are_compared_as_text():
    one, other = (Origin((text, None)) for text in ("Mine {1}", "Mine {2}"))
    assert one.differs_from(other) == "its objective was Mine {1}, and this one is Mine {2}"
    bare, more = (Origin((text, None)) for text in ('Mine {"a": 1}', 'Mine {"b": 1}'))
    assert bare.differs_from(more) == "its objective was Mine, and this one is Mine with other data"


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
