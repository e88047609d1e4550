"""Generated problems, standardised columns and the stand-in for ratings."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import svds

import fwflow as fw
from fwflow import datasets
from fwflow.datasets import generators
from tests.datasets.files import REAL, needs_real

# Generated problems


def test_sensing_is_what_its_docstring_says() -> None:
    data = datasets.sensing()
    A, b, x0 = data["A"], data["b"], data["x0"]
    assert data.kind == "generated"
    assert A.shape == data.shape == (500, 100)
    assert np.count_nonzero(x0) == 10
    assert 0.04 < np.std(b - A @ x0) < 0.06
    np.testing.assert_array_equal(data["labels"], np.where(b >= 0, 1.0, -1.0))
    assert abs(A.mean()) < 0.02
    assert abs(A.std() - 1) < 0.02


def test_sensing_depends_on_its_seed_only() -> None:
    np.testing.assert_array_equal(datasets.sensing()["b"], datasets.load("sensing")["b"])
    assert not np.array_equal(datasets.sensing(seed=0)["b"], datasets.sensing(seed=1)["b"])
    assert np.count_nonzero(datasets.sensing(m=3, n=4, sparsity=0.01)["x0"]) == 1


@pytest.mark.parametrize(
    ("argument", "value"),
    [("m", 0), ("n", -1), ("sparsity", 0.0), ("sparsity", 1.5), ("noise", -1.0), ("noise", np.nan)],
)
def test_sensing_names_a_wrong_argument(argument: str, value: float) -> None:
    with pytest.raises(ValueError, match=rf"^{argument} must"):
        datasets.sensing(**{argument: value})  # type: ignore[arg-type]


def test_triangle() -> None:
    data = datasets.triangle()
    assert data["vertices"].tolist() == [[-1, 0], [0, 1], [1, 0]]
    assert data["start"].tolist() == [0, 1]


def test_dataset_names_its_arrays_and_pickles() -> None:
    data = pickle.loads(pickle.dumps(datasets.triangle()))
    with pytest.raises(KeyError, match="did you mean 'vertices'"):
        data["vertexes"]
    assert "array" not in repr(data)


# standardize


def test_standardize_handles_constant_columns_and_keeps_float32() -> None:
    rng = np.random.default_rng(0)
    A = np.column_stack([rng.normal(1e6, 3.0, 50), np.full(50, 0.1), np.zeros(50), rng.integers(0, 9, 50)])
    before = A.copy()
    Z = datasets.standardize(A)
    np.testing.assert_array_equal(A, before)
    np.testing.assert_allclose(Z.mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(Z.std(axis=0), [1, 0, 0, 1], atol=1e-9)
    assert not Z[:, 1:3].any()
    assert datasets.standardize(A.astype(np.float32)).dtype == np.float32
    assert datasets.standardize([[1, 2], [3, 2]]).tolist() == [[-1, 0], [1, 0]]


@pytest.mark.parametrize("A", [[1.0, 2.0], [[np.nan]], np.zeros((0, 3)), [["a"]]])
def test_standardize_names_its_argument(A: object) -> None:
    with pytest.raises(ValueError, match=r"^A "):
        datasets.standardize(A)  # type: ignore[arg-type]


# The stand-in


def test_stand_in_is_seeded_and_says_what_it_is() -> None:
    data, again, other = datasets.load("movielens"), generators.movielens(), generators.movielens(seed=0)
    assert data.kind == "stand-in"
    assert data.source.startswith("A stand-in for MovieLens 100K, generated with seed 9, not the real ratings")
    for key, array in data.arrays.items():
        np.testing.assert_array_equal(array, again[key])
        assert not np.array_equal(array, other[key])


@pytest.mark.parametrize("seed", [0, 9])
def test_stand_in_has_the_published_figures(seed: int) -> None:
    data = generators.movielens(seed)
    rows, cols, values = data["rows"], data["cols"], data["values"]
    assert data.shape == (943, 1682)
    assert len(np.unique(rows * 1682 + cols)) == 100_000
    assert np.bincount(values.astype(int))[1:].tolist() == list(generators.HISTOGRAM)
    assert set(rows) == set(range(943))
    assert set(cols) == set(range(1682))
    for index, quantiles in ((rows, generators.PER_USER), (cols, generators.PER_ITEM)):
        found = np.percentile(np.bincount(index), generators.PERCENTILES)
        np.testing.assert_allclose(found, quantiles, rtol=0.1, atol=1)
    matrix = sp.csr_array((values - 3, (rows, cols)), data.shape)
    leading = np.sort(svds(matrix, len(generators.SINGULAR_VALUES), return_singular_vectors=False))[::-1]
    np.testing.assert_allclose(leading, generators.SINGULAR_VALUES, rtol=0.12)


@needs_real
def test_momentum_gains_on_the_stand_in_what_it_gains_on_the_real_ratings() -> None:
    def gain(data: datasets.Dataset) -> float:
        f = fw.MatrixCompletion(data["rows"], data["cols"], data["values"] - 3, data.shape, loss="huber", rho=10.0)
        plain, accelerated = (
            fw.minimize(f, fw.NuclearBall(1000.0), method="rk44", momentum=momentum, tol=0, max_iter=30).trace["gap"]
            for momentum in (None, "nesterov")
        )
        return float(np.exp(np.log(plain[1:] / accelerated[1:]).mean()))

    real, generated = gain(datasets.load("movielens", data_dir=REAL)), gain(generators.movielens())
    assert real > 1.2
    assert abs(np.log(generated / real)) < np.log(1.2)
