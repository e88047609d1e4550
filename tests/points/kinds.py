"""Vertices of every kind, made at random."""

import math

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st

from fwflow.points.vertices import DenseVertex, OneHot, Permutation, RankOne, Scaled, Slice, SparseVertex, Sum


def eps(dtype):
    return float(np.finfo(dtype).eps)


def one_hot(rng, shape):
    i, value = int(rng.integers(math.prod(shape))), float(rng.standard_normal())
    dense = np.zeros(shape)
    dense[np.unravel_index(i, shape)] = value
    return OneHot(i, value, shape), dense


def dense(rng, shape):
    array = rng.standard_normal(shape)
    return DenseVertex(array), array.copy()


def fortran(rng, shape):
    array = np.asfortranarray(rng.standard_normal(shape))
    return DenseVertex(array), array.copy()


def sparse(rng, shape):
    (n,) = shape
    indices, values = rng.choice(n, 3, replace=False), rng.standard_normal(3)
    out = np.zeros(n)
    for i, v in zip(indices, values, strict=True):
        out[i] = v
    return SparseVertex(indices, values, shape), out


def permutation(rng, shape):
    n = math.isqrt(math.prod(shape))
    order, scale = rng.permutation(n), float(rng.standard_normal())
    return Scaled(scale, Permutation.of(order, shape)), scale * np.eye(n)[order].reshape(shape)


def rank_one(rng, shape):
    u, v = (rng.standard_normal(n) for n in shape)
    scale = float(rng.standard_normal())
    return RankOne(u, v, scale), scale * np.outer(u, v)


def scaled(inner):
    def make(rng, shape):
        vertex, array = inner(rng, shape)
        return Scaled(-1.5, vertex), -1.5 * array

    return make


def sliced(inner, block):
    def make(rng, shape):
        vertex, array = inner(rng, block)
        start = int(rng.integers(shape[0] - array.size + 1))
        out = np.zeros(shape)
        out[start : start + array.size] = array.ravel()
        return Slice(start, vertex, shape), out

    return make


def summed(*makers):
    def make(rng, shape):
        parts, addends = zip(*(maker(rng, shape) for maker in makers), strict=True)
        return Sum(parts), sum(addends)

    return make


#: name -> (shape, maker of a vertex and the array that it stands for)
KINDS = {
    "dense": ((9,), dense),
    "one-hot": ((9,), one_hot),
    "sparse": ((9,), sparse),
    "permutation-flat": ((9,), permutation),
    "scaled": ((9,), scaled(one_hot)),
    "slice": ((9,), sliced(one_hot, (4,))),
    "slice-permutation": ((9,), sliced(permutation, (4,))),
    "slice-matrix": ((9,), sliced(rank_one, (2, 3))),
    "sum": ((9,), summed(one_hot, dense)),
    "nested": ((9,), scaled(summed(sliced(scaled(one_hot), (3,)), summed(permutation, sparse)))),
    "dense-matrix": ((3, 3), dense),
    "dense-fortran": ((3, 3), fortran),
    "one-hot-matrix": ((3, 3), one_hot),
    "permutation": ((3, 3), permutation),
    "rank-one": ((3, 3), rank_one),
    "scaled-rank-one": ((3, 3), scaled(rank_one)),
    "sum-matrix": ((3, 3), summed(rank_one, permutation, one_hot)),
}

every_kind = pytest.mark.parametrize("kind", KINDS)
many = settings(deadline=None, max_examples=60, derandomize=True)
seeds = st.integers(0, 2**31)
weights = st.lists(st.floats(-1, 1, allow_subnormal=False), min_size=0, max_size=5)


def make(kind, seed=0):
    shape, maker = KINDS[kind]
    return maker(np.random.default_rng(seed), shape)
