"""Logistic regression on data that stays where it is: in a Zarr store, then with the workers of a Dask cluster.

``python examples/cluster.py`` starts two workers on this machine. With the address of a scheduler,
``python examples/cluster.py tcp://...:8786``, its workers do the work, which must see the folder of the data.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
from distributed import Client

import fwflow as fw


def stored(path: Path, m: int, n: int, chunks: int) -> tuple[da.Array, np.ndarray]:
    """A matrix in a Zarr store, made and written chunk by chunk, and labels of which twenty columns decide."""
    A = da.random.default_rng(0).standard_normal((m, n), chunks=(-(-m // chunks), n))
    A.to_zarr(str(path))
    A = da.from_zarr(str(path))
    return A, np.where(A[:, :20].sum(axis=1).compute() + np.random.default_rng(1).standard_normal(m) > 0, 1.0, -1.0)


def main(
    address: str | None = None, m: int = 50_000, n: int = 500, radius: float = 5.0, chunks: int = 10
) -> dict[str, Any]:
    """Fit on the cluster, and once more in the memory of this process."""
    with tempfile.TemporaryDirectory() as folder, Client(address, **({} if address else {"n_workers": 2})) as client:
        A, b = stored(Path(folder) / "A.zarr", m, n, chunks)
        f, C = fw.LinearModel(A, b, loss="logistic"), fw.L1Ball(radius)
        found = {name: fw.minimize(f, C, method=name, tol=1e-6) for name in ("auto", "apg")}
        alone = fw.minimize(fw.LinearModel(A.compute(), b, loss="logistic"), C, tol=1e-6)
        print(f"{m} x {n} in {A.npartitions} chunks, {'kept by' if f.design.persisted else 'read by'} {client}")
    for name, r in found.items():
        print(f"{name:>5}: {r.n_design:g} passes over the data, gap {r.gap:.1e}, by {r.method}")
    print(f"values {found['auto'].fun:.9f} on the cluster, {alone.fun:.9f} in memory")
    return found | {"alone": alone}


if __name__ == "__main__":
    main(*sys.argv[1:])
