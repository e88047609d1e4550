"""
Which films will somebody like?
===============================

Ratings completed by a mean, biases, and a matrix of small nuclear norm, which is kept factored and never formed. You
learn to fit a path of radii on pairs and ratings, to predict, and to recommend. MovieLens may not be redistributed:
without it (``fwflow data fetch movielens``) generated ratings stand in, and the first line printed says which it is.
"""

from __future__ import annotations

import time

import matplotlib.pyplot as plt
import numpy as np

from fwflow import datasets
from fwflow.sklearn import NuclearCompletion

plt.style.use(["seaborn-v0_8-colorblind", {"font.size": 9, "axes.titlesize": 9, "legend.frameon": False}])
plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False})

# %%
# Four fifths of the ratings at random are for fitting, the rest for testing.

Ratings = tuple[np.ndarray, np.ndarray]  # pairs of user and film, and what the user gave


def split(data: datasets.Dataset, ratings: int | None, seed: int) -> tuple[Ratings, Ratings]:
    """What to fit, and what to test on."""
    order = np.random.default_rng(seed).permutation(len(data["values"]))[:ratings]
    pairs, values = np.column_stack([data["rows"], data["cols"]])[order], data["values"][order]
    fifth = len(order) // 5
    return (pairs[fifth:], values[fifth:]), (pairs[:fifth], values[:fifth])


def rmse(model: NuclearCompletion, ratings: Ratings) -> float:
    """The root of the mean squared error."""
    pairs, values = ratings
    return float(np.sqrt(np.mean((model.predict(pairs) - values) ** 2)))


# %%
# On the left, the error as the radius grows, from one that leaves hardly more than biases to one that begins to
# overfit; ``NuclearCompletionCV`` chooses without a look at the test. On the right, what was predicted for films that
# got one star, two stars, and so on: boxes are quartiles.


def draw(radii: np.ndarray, errors: np.ndarray, mean: float, stars: np.ndarray, predicted: np.ndarray) -> None:
    """Errors against the radius, and predictions against ratings."""
    left, right = plt.subplots(1, 2, figsize=(7.2, 3.1), layout="constrained")[1]
    left.axhline(mean, color="0.6", linestyle=":", label="mean alone")
    for column, label, colour in zip(errors.T, ("fitted", "new"), ("C1", "C0"), strict=True):
        left.semilogx(radii, column, ".-", color=colour, label=f"{label} ratings")
    left.set(xlabel="radius of the nuclear ball", ylabel="root mean squared error, stars")
    left.legend(loc="lower left")
    levels = np.unique(stars).astype(int)
    boxes = [predicted[stars == level] for level in levels]
    right.boxplot(boxes, positions=levels, widths=0.6, showfliers=False, medianprops={"color": "C2"})
    right.plot(levels, levels, color="0.6", linestyle=":")
    right.set(xlabel="stars that a new film got", ylabel="stars predicted", ylim=(0.5, 5.5))


def main(radius: float = 500.0, ratings: int | None = None, seed: int = 0) -> dict[str, float]:
    """Fit radii up to the given one and beyond, each from the one before, and test."""
    data = datasets.load("movielens")
    print(data.source)
    train, test = split(data, ratings, seed)
    path, errors, began = radius * 2.0 ** np.arange(-4, 2), [], time.perf_counter()
    model = NuclearCompletion(tol=1e-3, warm_start=True)
    for size in path:
        model.set_params(radius=size).fit(*train)
        errors.append((rmse(model, train), rmse(model, test)))
        rank, gap = model.U_.shape[1], model.dual_gap_
        print(f"radius {size:6.0f}: rank {rank:3d}, test RMSE {errors[-1][1]:.4f}, certified gap {gap:.0e}")
        if size == radius:
            predicted, error, seconds = model.predict(test[0]), errors[-1][1], time.perf_counter() - began
            films = model.recommend([model.row_ids_[0]], k=5, exclude=train[0])[0].tolist()
    mean = float(np.sqrt(np.mean((model.mean_ - test[1]) ** 2)))
    print(f"up to radius {radius:.0f} in {seconds:.1f} s: test RMSE {error:.4f}, of the mean alone {mean:.4f}")
    print(f"for user {model.row_ids_[0]}: films {films}")
    draw(path, np.array(errors), mean, test[1], predicted)
    plt.suptitle(
        "MovieLens 100K" if data.kind == "real" else "Generated ratings in place of MovieLens 100K", fontsize=9
    )
    return {"rmse": error, "mean": mean, "seconds": seconds}


if __name__ == "__main__":
    main()
    plt.show()
