"""
Movie recommendations by matrix completion with the nuclear norm
================================================================

A recommender system predicts the ratings that users have not given. Most entries of the table of users and
films are missing. A matrix with a small nuclear norm, plus a bias for every user and every film, fills in
the table. You learn to fit such a matrix factorisation with a verified gap, to see the effect of the
radius, and to recommend films. The MovieLens ratings may not be redistributed. If they are missing, the
example uses generated ratings and says so.
"""

import textwrap

import matplotlib.pyplot as plt
import numpy as np
import scipy.optimize
import scipy.sparse as sp
from scipy.sparse.linalg import svds

import fwflow as fw
from fwflow import datasets
from fwflow.sklearn import NuclearCompletion

RATINGS = 100_000  # all ratings of MovieLens 100K
SEED = 0  # of the split into fitted and new ratings
RADIUS = 500.0  # of the model that recommends
CHECKED = 125.0  # radius of the comparison with SciPy
RANK = 20  # of the factors in that comparison

# %%
# Problem
# -------
# User :math:`i` gave film :math:`j` the rating :math:`R_{ij}`, for the :math:`m` pairs :math:`(i, j)` in a
# set :math:`\Omega`. The model predicts
#
# .. math::
#
#    R_{ij} \approx \mu + u_i + v_j + M_{ij}
#
# with the mean rating :math:`\mu`, a bias :math:`u_i` of the user, a bias :math:`v_j` of the film, and a
# matrix :math:`M` for the tastes of the users. Mean and biases are fitted first. They leave the remainder
# :math:`E_{ij} = R_{ij} - \mu - u_i - v_j`. The matrix is fitted to the remainder by least squares, with a
# bound :math:`r` on its nuclear norm, which is the sum of its singular values:
#
# .. math::
#
#    \min_M \; \frac{1}{2m} \sum_{(i, j) \in \Omega} (M_{ij} - E_{ij})^2
#    \quad \text{subject to} \quad \|M\|_* \le r .
#
# A vertex of the nuclear-norm ball is a matrix of rank one. fwflow builds :math:`M` as a sum of such
# matrices and stores two thin factors. The full table is never formed.
#
# Data
# ----
# The command ``fwflow data fetch movielens`` downloads MovieLens 100K (Harper, Konstan 2015). The first
# printed lines say whether this example used the real ratings or generated ones. One fifth of the ratings,
# drawn at random, is kept for testing.

data = datasets.load("movielens")
print(textwrap.fill(data.source, 72))
order = np.random.default_rng(SEED).permutation(len(data["values"]))[:RATINGS]
pairs = np.column_stack([data["rows"], data["cols"]])[order]
stars = data["values"][order]
fifth = len(order) // 5
new_pairs, pairs = pairs[:fifth], pairs[fifth:]
new_stars, stars = stars[:fifth], stars[fifth:]
print(f"{len(stars)} ratings to fit, {len(new_stars)} new ratings to test")

# %%
# Model
# -----
# :class:`~fwflow.sklearn.NuclearCompletion` is the model as a scikit-learn estimator. A loop fits it for
# growing radii. With ``warm_start=True`` each fit starts from the previous matrix. The attribute
# ``dual_gap_`` is the verified gap: the objective is at most this much above its optimum.


def rmse(model, pairs, stars):
    """Return the root mean squared error of the predictions, in stars."""
    return np.sqrt(np.mean((model.predict(pairs) - stars) ** 2))


radii = RADIUS * 2.0 ** np.arange(-4, 2)
errors = []
model = NuclearCompletion(tol=1e-3, warm_start=True)
for radius in radii:
    model.set_params(radius=radius).fit(pairs, stars)
    new = rmse(model, new_pairs, new_stars)
    errors.append((rmse(model, pairs, stars), new))
    rank, gap = model.U_.shape[1], model.dual_gap_
    print(f"radius {radius:6.1f}: rank {rank:2d}, gap {gap:.0e}, RMSE {new:.4f} stars")

# %%
# Effect of the radius
# --------------------
# With a small radius, the matrix is nearly zero, and the model consists mainly of the biases. A larger
# radius always fits the given ratings better.
# The error on new ratings has a minimum. The dotted line is the error of the mean rating alone.
# :class:`~fwflow.sklearn.NuclearCompletionCV` chooses the radius by cross-validation on the fitted ratings.

mean_error = np.sqrt(np.mean((stars.mean() - new_stars) ** 2))
fitted_errors, new_errors = np.transpose(errors)
source = "MovieLens 100K" if data.kind == "real" else "generated ratings"

fig, ax = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
ax.axhline(mean_error, color="0.5", linestyle=":", label="mean rating alone")
ax.semilogx(radii, new_errors, "o-", color="C2", label="new ratings")
ax.semilogx(radii, fitted_errors, "s-", color="C0", label="fitted ratings")
ax.set(xlabel="radius of the nuclear-norm ball", ylabel="RMSE in stars", title=source)
ax.set_xticks(radii, [f"{radius:g}" for radius in radii], minor=False)
ax.minorticks_off()
ax.legend(loc="lower left")
plt.show()

# %%
# Predictions and recommendations
# -------------------------------
# The next figure groups the new ratings by the stars that the user gave, and shows the predictions of every
# group. A box spans from the lower to the upper quartile, with the median as a line. Good predictions
# follow the dotted diagonal. The predictions are closer to the mean than the ratings are, because the bound
# on the nuclear norm shrinks the matrix.

model = NuclearCompletion(RADIUS, tol=1e-3).fit(pairs, stars)
predicted = model.predict(new_pairs)
levels = np.arange(1, 6)

fig, ax = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
groups = [predicted[new_stars == level] for level in levels]
lines = {f"{part}props": {"color": "C0"} for part in ("box", "whisker", "cap")}
ax.boxplot(groups, showfliers=False, medianprops={"color": "C2"}, **lines)
ax.plot(levels, levels, color="0.5", linestyle=":")
ax.set(xlabel="rating by the user", ylabel="predicted rating", title=source)
ax.set(xticks=levels, yticks=levels, ylim=(0.5, 5.5))
plt.show()

# %%
# The method ``recommend`` ranks the films of a user by the prediction, and leaves out the films that the
# user has rated. Here are the five best films for the first user. A prediction may exceed five stars,
# because the model does not restrict its range.

user = model.row_ids_[0]
films = model.recommend([user], k=5, exclude=pairs)[0]
ratings = model.predict([[user, film] for film in films])
for film, rating in zip(films, ratings, strict=True):
    print(f"film {film:4d}: {rating:.2f} stars")

# %%
# Check against an independent solver
# -----------------------------------
# We now solve the problem for :math:`M` without the estimator. The formula above is a
# :class:`~fwflow.MatrixCompletion` over a :class:`~fwflow.NuclearBall`. Mean and biases come from the
# fitted model.

rows = np.searchsorted(model.row_ids_, pairs[:, 0])
cols = np.searchsorted(model.col_ids_, pairs[:, 1])
E = stars - model.mean_ - model.row_biases_[rows] - model.col_biases_[cols]
shape = len(model.row_ids_), len(model.col_ids_)

f = fw.MatrixCompletion(rows, cols, E, shape, loss="squared", scale="mean")
r = fw.minimize(f, fw.NuclearBall(CHECKED), tol=1e-6)
print(f"objective {r.fun:.7f}, gap {r.gap:.1e}, rank {r.x.U.shape[1]}")

# %%
# The first check is about the gap. With the gradient :math:`G`, the duality gap is :math:`\langle G,
# M\rangle + r\, \sigma_1(G)`, where :math:`\sigma_1` is the largest singular value. SciPy computes the
# singular value.

entries = r.x.entries(rows, cols)
G = sp.csr_array(((entries - E) / len(E), (rows, cols)), shape)
sigma = svds(G, k=1, v0=np.ones(min(shape)), return_singular_vectors=False)[0]
gap_by_hand = (entries - E) @ entries / len(E) + CHECKED * sigma
print(f"gap from its definition: {gap_by_hand:.1e}")

# %%
# The second check is about the optimum. Many recommender systems minimise over two factors, :math:`M = U
# V^T`, with the penalty :math:`\frac{\lambda}{2} (\|U\|_F^2 + \|V\|_F^2)`. If the factors have enough
# columns, this problem has the same minimum as the convex problem with the penalty :math:`\lambda \|M\|_*`
# (Srebro, Rennie, Jaakkola 2005). The penalty that belongs to the radius is :math:`\lambda = \sigma_1(G)`.
# SciPy's L-BFGS minimises over the factors from a random start.


def factorisation(z):
    """Return the penalised error of the factors in z, and its gradient."""
    U, V = np.split(z.reshape(-1, RANK), shape[:1])
    error = (U[rows] * V[cols]).sum(axis=1) - E
    G = sp.csr_array((error / len(E), (rows, cols)), shape)
    gradient = np.concatenate([G @ V + sigma * U, G.T @ U + sigma * V])
    value = error @ error / (2 * len(E)) + sigma / 2 * (z @ z)
    return value, gradient.ravel()


start = 0.1 * np.random.default_rng(SEED).standard_normal(sum(shape) * RANK)
factors = scipy.optimize.minimize(
    factorisation,
    start,
    jac=True,
    method="L-BFGS-B",
    options={"maxiter": 1000, "ftol": 1e-13, "gtol": 1e-8},
)
penalised = r.fun + sigma * CHECKED
print(f"penalised objective: fwflow {penalised:.7f}, factors {factors.fun:.7f}")

# %%
# Summary
# -------
# * The nuclear-norm ball turns matrix factorisation into a convex problem. Its minimum does not depend on a
#   start or on a chosen rank, and the gap bounds the distance to it.
# * The radius controls the rank and the error on new ratings. The best radius lies between the extremes.
# * A run works with the observed entries and two thin factors, so its memory grows with the number of
#   ratings and the rank, not with the size of the table.
