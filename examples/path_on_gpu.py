"""
All radii at once, on whatever device there is
==============================================

Which bound on the coefficients of a logistic regression predicts best? All radii share one compiled run: a gradient for
all of them is one product of matrices, which is what a GPU is made for. Every fit is verified in double precision. You
learn how ``fwflow.jax`` takes data, and how to use the results of a whole path. It needs the extra ``jax``.
"""

from __future__ import annotations

import time

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import fwflow.jax as fwj

plt.style.use(["seaborn-v0_8-colorblind", {"font.size": 9, "axes.titlesize": 9, "legend.frameon": False}])
plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False})

# %%
# Ten columns decide, not quite reliably, and many more are there to be taken for them.


def data(m: int, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows, and labels that depend on the first ten columns."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((m, n)).astype(np.float32)
    return A, np.where(A[:, :10].sum(axis=1) + 2 * rng.standard_normal(m) > 0, 1.0, -1.0).astype(np.float32)


# %%
# One half of the rows is fitted at all radii, the other half judges. The second call finds its program compiled.


def main(m: int = 600, n: int = 1500, count: int = 32) -> dict[str, float]:
    """Fit the path, choose a radius, and say how long it took."""
    A, b = data(2 * m, n)
    f, held_out = fwj.LinearModel(A[:m], b[:m], "logistic"), fwj.LinearModel(A[m:], b[m:], "logistic")
    radii = np.geomspace(0.2, 50.0, count)
    for call in ("the first call, which compiles", "the second"):
        started = time.perf_counter()
        R = jax.block_until_ready(fwj.path(f, fwj.L1Ball(), radii, tol=0.0, rtol=1e-4))
        print(f"{call}: {time.perf_counter() - started:.2f} s on {jax.devices()[0].device_kind}")
    losses = jax.vmap(lambda x: held_out.value(held_out.point(x)))(R.x)
    best = int(jnp.argmin(losses))
    used, iterations = (R.x != 0).sum(axis=1), int(R.nit.max())
    print(f"{int(R.success.sum())} of {count} radii to a verified gap of 1e-4 of the first, {iterations} iterations")
    print(
        f"radius {radii[best]:.2f} predicts best: loss {float(losses[best]):.4f} held out, {used[best]} of {n} columns"
    )
    draw(radii, R, losses, used, best)
    return {
        "radius": float(radii[best]),
        "fun": float(R.fun[best]),
        "gap": float(R.gap[best]),
        "held_out": float(losses[best]),
        "succeeded": float(R.success.sum()),
    }


# %%
# The loss on the rows that were fitted falls for ever; on the others it tells where to stop.


def draw(radii: np.ndarray, R: fwj.Result, losses: jax.Array, used: jax.Array, best: int) -> None:
    """Losses and numbers of columns along the path."""
    left, right = plt.subplots(1, 2, figsize=(7.2, 3.0), layout="constrained")[1]
    left.semilogx(radii, R.fun, "C0.-", label="rows that were fitted")
    left.semilogx(radii, losses, "C1.-", label="rows held out")
    left.axvline(radii[best], color="0.6", linewidth=0.8)
    left.set(xlabel="radius", ylabel="logistic loss")
    left.legend()
    right.loglog(radii, used, "C2.-")
    right.axvline(radii[best], color="0.6", linewidth=0.8)
    right.set(xlabel="radius", ylabel="columns that are used")


if __name__ == "__main__":
    main()
    plt.show()
