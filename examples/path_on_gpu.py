"""A path of radii at once: which bound on the coefficients of a logistic regression predicts best?

All radii share one compiled run: a gradient for all of them is one product of matrices, which is what a GPU is made
for. Every fit is verified in double precision. The choice is made on rows that were held out. It runs on whatever
device JAX finds, and needs the extra ``jax``.
"""

from __future__ import annotations

import time

import jax
import jax.numpy as jnp
import numpy as np

import fwflow.jax as fwj


def data(m: int, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows whose label depends, not quite reliably, on a few of the columns."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((m, n)).astype(np.float32)
    return A, np.where(A[:, :10].sum(axis=1) + 2 * rng.standard_normal(m) > 0, 1.0, -1.0).astype(np.float32)


def main(m: int = 2000, n: int = 5000, count: int = 64) -> dict[str, float]:
    """Fit the path, choose a radius, and say how long it took."""
    A, b = data(2 * m, n)
    f, held_out = fwj.LinearModel(A[:m], b[:m], "logistic"), fwj.LinearModel(A[m:], b[m:], "logistic")
    radii = np.geomspace(0.5, 50.0, count)
    for call in ("the first call, which compiles", "the second"):
        started = time.perf_counter()
        R = jax.block_until_ready(fwj.path(f, fwj.L1Ball(), radii, tol=0.0, rtol=1e-4))
        print(f"{call}: {time.perf_counter() - started:.2f} s on {jax.devices()[0].device_kind}")
    losses = jax.vmap(lambda x: held_out.value(held_out.point(x)))(R.x)
    best = int(jnp.argmin(losses))
    used, iterations = int((R.x[best] != 0).sum()), int(R.nit.max())
    print(f"{int(R.success.sum())} of {count} radii to a verified gap of 1e-4 of the first, {iterations} iterations")
    print(f"radius {radii[best]:.2f} predicts best: loss {float(losses[best]):.4f} held out, {used} of {n} columns")
    return {
        "radius": float(radii[best]),
        "fun": float(R.fun[best]),
        "gap": float(R.gap[best]),
        "held_out": float(losses[best]),
        "succeeded": float(R.success.sum()),
    }


if __name__ == "__main__":
    main()
