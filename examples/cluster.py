"""
Data that stays where it is
===========================

Logistic regression on a matrix in a Zarr store, which the workers of a Dask cluster read and keep: only vectors and a
few columns travel. Passes over the data are what costs there. You learn how to hand such data over, and which methods
need few passes. Given the address of a scheduler, ``python examples/cluster.py tcp://...:8786``, its workers do it all.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import dask.array as da
import matplotlib.pyplot as plt
import numpy as np
from distributed import Client

import fwflow as fw

plt.style.use(["seaborn-v0_8-colorblind", {"font.size": 9, "axes.titlesize": 9, "legend.frameon": False}])
plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False})

# %%
# The matrix is made and written chunk by chunk: nobody ever holds the whole of it.


def stored(path: Path, m: int, n: int, chunks: int) -> tuple[da.Array, np.ndarray]:
    """A matrix in a Zarr store, and labels of which twenty columns decide."""
    A = da.random.default_rng(0).standard_normal((m, n), chunks=(-(-m // chunks), n))
    A.to_zarr(str(path))
    A = da.from_zarr(str(path))
    return A, np.where(A[:, :20].sum(axis=1).compute() + np.random.default_rng(1).standard_normal(m) > 0, 1.0, -1.0)


# %%
# A Dask array is a design like any other, so every method runs on it; `"auto"` prefers those with few passes.


def main(
    address: str | None = None, m: int = 20_000, n: int = 500, radius: float = 5.0, chunks: int = 10
) -> dict[str, Any]:
    """Fit on the cluster, and once more in the memory of this process."""
    own = {} if address else {"n_workers": 2, "dashboard_address": ":0"}
    with tempfile.TemporaryDirectory() as folder, Client(address, **own) as client:
        A, b = stored(Path(folder) / "A.zarr", m, n, chunks)
        f, C = fw.LinearModel(A, b, loss="logistic"), fw.L1Ball(radius)
        limits = {"auto": 1000, "flow": 1000, "apg": 1000, "fw": 40}
        found = {name: fw.minimize(f, C, method=name, max_iter=most) for name, most in limits.items()}
        alone = fw.minimize(fw.LinearModel(A.compute(), b, loss="logistic"), C)
        workers = len(client.scheduler_info()["workers"])
    kept = "kept" if f.design.persisted else "read"
    print(f"{m} x {n} in {A.npartitions} chunks, {kept} by {workers} workers")
    for name, r in found.items():
        print(f"{name:>5}: {r.n_design:g} passes over the data, gap {r.gap:.1e}, by {r.method}")
    print(f"values {found['auto'].fun:.9f} on the cluster, {alone.fun:.9f} in memory")
    draw(found)
    return found | {"alone": alone}


# %%
# The gap against passes: corrective steps and the exact flow get further out of each gradient than others.


def draw(found: dict[str, fw.Result]) -> None:
    """Gaps against passes."""
    ax = plt.subplots(figsize=(5.4, 3.2), layout="constrained")[1]
    for i, (name, r) in enumerate(found.items()):
        label = f"auto ({r.method})" if name == "auto" else name
        passes, gap = r.trace["n_design"], r.trace["gap"]
        shown = np.isfinite(gap) & (gap > 0)
        ax.semilogy(passes[shown], gap[shown], f"C{i}", marker=".", label=label)
    ax.axhline(1e-6, color="0.6", linewidth=0.8)
    ax.set(xlabel="passes over the data", ylabel="duality gap")
    ax.legend(loc="center right")


if __name__ == "__main__":
    main(*sys.argv[1:])
    plt.show()
