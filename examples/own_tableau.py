"""
A tableau of your own
=====================

Every explicit Runge-Kutta scheme is a Frank-Wolfe method. Here is the family of all schemes with two stages and order
two, with midpoint, Ralston's and Heun's among them: which of them keep x in the set, and do they zigzag?
You learn to make a tableau, to read its certificate, to measure its order, and to run it.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

import fwflow as fw
from fwflow import datasets

plt.style.use(["seaborn-v0_8-colorblind", {"font.size": 9, "axes.titlesize": 9, "legend.frameon": False}])
plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False})

# %%
# The second stage is taken at a fraction omega of the step; order two decides the rest.


def second_order(omega: float) -> fw.Tableau:
    """The scheme of two stages and order two whose second stage is at omega."""
    share = 1 / (2 * omega)
    return fw.Tableau(A=[[0, 0], [omega, 0]], beta=[1 - share, share], name=f"omega = {omega:.3g}")


# %%
# A step is a mixture of x and the stages' vertices. Its certificate has their weights p: where all are positive and sum
# to at most one, no iterate leaves any convex set. ``feasible_from`` is the first step from which on that is so.


def certified_from(omegas: np.ndarray) -> float:
    """The smallest of the fractions whose schemes are certified from the first step on."""
    return float(min(omega for omega in omegas if second_order(omega).certificate(k=0).feasible_from == 0))


# %%
# On the paper's triangle the optimum lies in the middle of an edge, and plain Frank-Wolfe jumps between its ends.


def run(method: str | fw.Tableau, steps: int) -> tuple[np.ndarray, fw.Result]:
    """The iterates on the triangle, and the result."""
    data, visited = datasets.triangle(), []
    r = fw.minimize(
        fw.Quadratic(np.eye(2)),
        fw.ConvexHull(data["vertices"]),
        data["start"],
        method=method,
        schedule=fw.OpenLoop(k0=1),
        tol=0,
        max_iter=steps,
        callback=lambda state: visited.append(np.array(state.x)),
    )
    return np.array(visited), r


def draw(omegas: np.ndarray, least: float, runs: dict[str, tuple[np.ndarray, fw.Result]]) -> None:
    """Weights along the family, the first steps on the triangle, and the gap."""
    weights, plane, gaps = plt.subplots(1, 3, figsize=(7.2, 2.7), layout="constrained")[1]
    p = np.array([second_order(omega).certificate(k=0).p for omega in omegas])
    weights.axvspan(least, omegas[-1], color="0.5", alpha=0.15, linewidth=0)
    weights.text(least, p[0, 0], " certified")
    weights.plot(omegas, p)
    weights.text(omegas[40], p[40, 0], " first vertex", color="C0", va="top")
    weights.text(omegas[40], p[40, 1], " second vertex", color="C1", va="bottom")
    weights.axhline(0, color="0.3", linewidth=0.7)
    weights.set(title="Weights in the first step", xlabel="omega", ylabel="weight p")
    corners = datasets.triangle()["vertices"]
    plane.fill(*corners.T, color="0.93", zorder=0)
    for colour, (name, (x, r)) in zip(("0.6", "C2", "C0"), runs.items(), strict=True):
        plane.plot(*x[:12].T, ".-", color=colour, linewidth=0.9, markersize=4)
        best = np.minimum.accumulate(r.trace["gap"][1:])
        gaps.loglog(r.trace["n_grad"][1:], best, color=colour, label=name)
    plane.plot(0, 0, "k*")
    plane.set(title="The first steps", aspect="equal", xlim=(-0.6, 0.6))
    plane.set_axis_off()
    gaps.set(title="How soon each is there", xlabel="gradients", ylabel="gap, least so far")
    gaps.legend(loc="lower left")


def main(steps: int = 400) -> dict[str, float]:
    """Find the scheme, check it, and run it."""
    omegas = np.linspace(0.4, 1.2, 161)
    least = certified_from(omegas)
    mine = second_order(least)
    certificate = mine.certificate(k=0)
    order = fw.checks.observed_order(mine)
    print(f"certified from omega = {least:.3f} on, where p = {certificate.p.round(3)}")
    print(f"order {mine.order} by the order conditions, {order:.2f} measured")
    runs = {name: run(method, steps) for name, method in {"fw": "fw", "rk44": "rk44", mine.name: mine}.items()}
    energies = {name: fw.zigzag_energy(x) for name, (x, _) in runs.items()}
    print("zigzag energy: " + ", ".join(f"{name} {energy:.1e}" for name, energy in energies.items()))
    draw(omegas, least, runs)
    return {"least": least, "order": order, **energies}


if __name__ == "__main__":
    main()
    plt.show()
