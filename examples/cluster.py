"""
Logistic regression on a Dask cluster
=====================================

The matrix of this example stands for data that does not fit into one machine. It lies in a Zarr store, and
the workers of a Dask cluster read it. Only vectors and a few columns travel between the workers and your
process. The cost of a method is then its number of passes over the data. You learn to pass a Dask array to
fwflow, and you see which methods need few passes.
"""

import tempfile
from pathlib import Path

import dask.array as da
import matplotlib.pyplot as plt
import numpy as np
from distributed import Client

import fwflow as fw

ROWS = 20_000
COLUMNS = 500
CHUNKS = 10  # blocks of rows in the store
RADIUS = 5.0  # of the L1 ball
ADDRESS = None  # address of a Dask scheduler; None starts workers in this process

# %%
# Problem
# -------
# The rows :math:`a_i` of a matrix have labels :math:`b_i = \pm 1`. Sparse logistic regression bounds the sum
# of the absolute coefficients:
#
# .. math::
#
#    \min_{x} \; \frac{1}{m} \sum_{i=1}^{m} \log\left(1 + e^{-b_i \langle a_i, x \rangle}\right)
#    \quad \text{subject to} \quad \|x\|_1 \le R .
#
# A pass over the data is one product with the matrix or with its transpose.

# %%
# Cluster
# -------
# This page uses two workers which are threads of one process. For a real cluster, set ``ADDRESS`` to the
# address of its scheduler, for example ``"tcp://10.0.0.1:8786"``; the rest of the code stays the same.
local = {"processes": False, "n_workers": 2, "dashboard_address": None}
client = Client(ADDRESS) if ADDRESS else Client(**local)
print(f"{len(client.nthreads())} workers")

# %%
# Data
# ----
# Dask generates the matrix block by block and writes each block to the store. No process ever holds the whole
# matrix. The labels depend on the first twenty columns and on noise.
folder = tempfile.TemporaryDirectory()
store = str(Path(folder.name) / "A.zarr")
shape, blocks = (ROWS, COLUMNS), (-(-ROWS // CHUNKS), COLUMNS)
da.random.default_rng(0).standard_normal(shape, chunks=blocks).to_zarr(store)
A = da.from_zarr(store)
noise = np.random.default_rng(1).standard_normal(ROWS)
b = np.where(A[:, :20].sum(axis=1).compute() + noise > 0, 1.0, -1.0)
print(f"{ROWS} x {COLUMNS} matrix in {A.npartitions} blocks")

# %%
# Model
# -----
# ``fw.LinearModel`` takes a Dask array in place of a NumPy array. If the blocks fit into the memory of the
# workers, the workers keep them. Otherwise every pass reads them from the store.
f = fw.LinearModel(A, b, loss="logistic")
C = fw.L1Ball(RADIUS)
print(f"blocks kept in memory: {f.design.persisted}")

# %%
# Solution
# --------
# All methods run on the cluster without changes. The default method, ``"auto"``, takes into account that a
# pass is expensive. Plain Frank-Wolfe is stopped after 40 iterations, because it would need far more passes
# than the others. The option ``check_every=1`` computes the gap in every iteration, for the figure.
limits = {"auto": 1000, "flow": 1000, "apg": 1000, "fw": 40}
runs = {}
for name, limit in limits.items():
    runs[name] = fw.minimize(f, C, method=name, max_iter=limit, check_every=1)
for name, r in runs.items():
    reached = "reached" if r.success else "not reached"
    print(f"{name:>4}: {r.n_design:3g} passes, gap {r.gap:.0e}, tolerance {reached}")

# %%
# Check against a run in memory
# -----------------------------
# This matrix is small enough to fit into memory. The same problem with a NumPy array has the same solution.
alone = fw.minimize(fw.LinearModel(A.compute(), b, loss="logistic"), C)
difference = np.abs(runs["auto"].x - alone.x).max()
print(f"value on the cluster {runs['auto'].fun:.8f}, in memory {alone.fun:.8f}")
print(f"largest difference of a coefficient: {difference:.0e}")

# %%
# After the last run the cluster and the store are closed.
client.close()
folder.cleanup()

# %%
# The figure shows the duality gap after each pass over the data.
fig, ax = plt.subplots(figsize=(6, 3.4), layout="constrained")
for (name, r), marker in zip(runs.items(), "osv^", strict=True):
    label = f"auto (chose {r.method})" if name == "auto" else name
    passes, gap = r.trace["n_design"], r.trace["gap"]
    ax.semilogy(passes, gap, marker=marker, markersize=4, label=label)
ax.axhline(1e-6, color="0.5", linewidth=0.8, linestyle="--")
ax.text(8, 1.5e-6, "tolerance", color="0.4")
ax.set(xlabel="passes over the data", ylabel="duality gap")
ax.legend(loc="lower right")
plt.show()

# %%
# Summary
# -------
# The corrective method (``"corrective"``) and the exact flow (``"flow"``) reduce the gap more per pass than
# accelerated projected gradient steps (``"apg"``) or plain Frank-Wolfe steps (``"fw"``). On a cluster the
# number of passes determines the running time, because every pass waits for all workers.
