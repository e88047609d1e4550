"""
Compressed sensing
==================

A signal with few non-zeros is recovered from fewer measurements than it has entries, by least squares over an L1 ball.
You learn how plain Frank-Wolfe, a Runge-Kutta scheme, the exact flow and the default compare where it counts, in passes
over the data, and to trust a certificate: the gap bounds what the loss is above the least one.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import scipy.optimize

import fwflow as fw
from fwflow import datasets

plt.style.use(["seaborn-v0_8-colorblind", {"font.size": 9, "axes.titlesize": 9, "legend.frameon": False}])
plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False})

#: name -> label and colour
METHODS = {
    "fw": ("Frank-Wolfe", "0.6"),
    "rk44": ("RK44", "C2"),
    "flow": ("exact flow", "C1"),
    "auto": ("auto (default)", "C0"),
}

# %%
# The radius is that of the true signal, and the noise small: what is left is to find which entries are not zero.


def least_squares(m: int, n: int) -> tuple[fw.LinearModel, fw.L1Ball, np.ndarray]:
    """The problem, and the signal behind it."""
    data = datasets.sensing(m, n, sparsity=0.04, noise=0.02)
    return fw.LinearModel(data["A"], data["b"]), fw.L1Ball(float(np.abs(data["x0"]).sum())), data["x0"]


# %%
# SciPy solves the same with x as a difference of two non-negative vectors, given the multiplier of the constraint,
# which is the largest entry of the gradient at our answer. It must then find that answer, and not by Frank-Wolfe.


def independent(f: fw.LinearModel, x: np.ndarray) -> np.ndarray:
    """The minimiser of the loss with an L1 penalty, by L-BFGS-B."""
    multiplier = float(np.abs(f.gradient(f.point(x))).max())

    def penalised(parts: np.ndarray) -> tuple[float, np.ndarray]:
        point = f.point(parts[: len(x)] - parts[len(x) :])
        g = f.gradient(point)
        return f.value(point) + multiplier * parts.sum(), np.append(g, -g) + multiplier

    options = {"ftol": 1e-15, "gtol": 1e-10, "maxiter": 5000, "maxfun": 10000}
    found = scipy.optimize.minimize(
        penalised, np.zeros(2 * len(x)), jac=True, bounds=2 * len(x) * [(0, None)], options=options
    )
    return found.x[: len(x)] - found.x[len(x) :]


def draw(signal: np.ndarray, x: np.ndarray, runs: dict[str, fw.Result]) -> None:
    """The signal and its recovery; the gap along passes over the data."""
    left, right = plt.subplots(1, 2, figsize=(7.2, 3.0), layout="constrained")[1]
    left.axhline(0, color="0.7", linewidth=0.7)
    (places,) = signal.nonzero()
    left.vlines(places, 0, signal[places], color="0.6")
    left.plot(places, signal[places], "o", color="0.3", fillstyle="none", markersize=6, label="signal")
    left.plot(x.nonzero()[0], x[x != 0], ".", color="C0", markersize=5, label="recovered")
    left.set(xlabel="entry", ylabel="value")
    left.legend(loc="best")
    for name, (label, colour) in METHODS.items():
        trace = runs[name].trace
        shown = np.isfinite(trace["gap"])
        best = np.minimum.accumulate(trace["gap"][shown])
        right.loglog(np.maximum(trace["n_design"][shown], 1), best, color=colour, label=label)
    right.set(xlabel="passes over the data", ylabel="gap, least so far", ylim=(1e-12, None))
    right.legend(loc="lower left")


def main(m: int = 150, n: int = 600, passes: int = 4000) -> dict[str, float]:
    """Recover the signal by each method, and compare."""
    f, C, signal = least_squares(m, n)
    stages = {"rk44": 4}
    runs = {name: fw.minimize(f, C, method=name, tol=1e-9, max_iter=passes // stages.get(name, 1)) for name in METHODS}
    for name, r in runs.items():
        print(f"{METHODS[name][0]:<16}{r.n_design:>6.0f} passes, gap {r.gap:.1e}")
    x = runs["auto"].x
    difference = float(np.abs(x - independent(f, x)).max())
    error = float(np.linalg.norm(x - signal) / np.linalg.norm(signal))
    print(f"{m} measurements of {n} entries, {int((signal != 0).sum())} of them non-zero: recovered to {error:.1%}")
    print(f"largest difference from SciPy's answer {difference:.0e}")
    draw(signal, np.where(np.abs(x) > 1e-3, x, 0), runs)
    return {"error": error, "difference": difference, "gap": runs["auto"].gap}


if __name__ == "__main__":
    main()
    plt.show()
