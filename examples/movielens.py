"""Which films will somebody like? Ratings completed by a mean, biases, and a matrix of small nuclear norm.

MovieLens 100K may not be redistributed: without it (set FWFLOW_DATA to a directory that has ``ml-100k/u.data``) a
generated stand-in takes its place, and the first line printed says which it is.
"""

from __future__ import annotations

import time

import numpy as np

from fwflow import datasets
from fwflow.sklearn import NuclearCompletion


def rmse(errors: np.ndarray) -> float:
    """The root of the mean square."""
    return float(np.sqrt(np.mean(errors**2)))


def main(radius: float = 1000.0, ratings: int | None = None, seed: int = 0) -> dict[str, float]:
    """Fit four fifths of the ratings at random, and predict the rest."""
    data = datasets.load("movielens")
    print(data.source)
    order = np.random.default_rng(seed).permutation(len(data["values"]))[:ratings]
    pairs, values = np.column_stack([data["rows"], data["cols"]])[order], data["values"][order]
    train, test = slice(len(order) // 5, None), slice(len(order) // 5)

    began = time.perf_counter()
    model = NuclearCompletion(radius, tol=1e-3).fit(pairs[train], values[train])
    seconds = time.perf_counter() - began
    error = rmse(model.predict(pairs[test]) - values[test])
    mean = rmse(model.mean_ - values[test])
    rank = model.U_.shape[1]
    print(f"test RMSE {error:.4f} in {seconds:.1f} s: rank {rank}, certified gap {model.dual_gap_:.1e}")
    print(f"of the mean alone {mean:.4f}")
    user = model.row_ids_[0]
    print(f"for user {user}: films {model.recommend([user], k=5, exclude=pairs[train])[0].tolist()}")
    return {"rmse": error, "mean": mean, "seconds": seconds}


if __name__ == "__main__":
    main()
