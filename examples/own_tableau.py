"""
Custom Runge-Kutta tableau for Frank-Wolfe
==========================================

Every explicit Runge-Kutta scheme defines a Frank-Wolfe method, and plain Frank-Wolfe is Euler's scheme. This
example studies the family of all schemes with two stages and order two, such as midpoint, Ralston and Heun.
You learn to define a tableau, to read its certificate of feasibility, to measure its order, and to use it as
a method.
"""

import matplotlib.pyplot as plt
import numpy as np

import fwflow as fw
from fwflow import datasets

STEPS = 400

# sphinx_gallery_thumbnail_number = 2

# %%
# Problem
# -------
# Frank-Wolfe follows the flow
#
# .. math::
#
#    x'(t) = \gamma(t) \, (s(t) - x(t)), \quad
#    s(t) \in \mathrm{argmin}_{s} \; \langle \nabla f(x(t)), s \rangle , \quad
#    \gamma(t) = \frac{c}{c + t} .
#
# A scheme with two stages evaluates the right-hand side at the beginning of a step and at the fraction
# :math:`\omega` of the step. Order two determines the weights of both stages:
#
# .. math::
#
#    \beta_1 = 1 - \frac{1}{2 \omega}, \qquad \beta_2 = \frac{1}{2 \omega} .
#
# The midpoint scheme has :math:`\omega = 1/2`, Ralston's scheme has :math:`\omega = 2/3`, and Heun's scheme
# has :math:`\omega = 1`.


def second_order(omega):
    """Return the scheme of order two whose second stage is at omega."""
    beta = [1 - 1 / (2 * omega), 1 / (2 * omega)]
    return fw.Tableau(A=[[0, 0], [omega, 0]], beta=beta, name=f"omega = {omega:.3g}")


print(second_order(1.0))

# %%
# Certificate of feasibility
# --------------------------
# Each stage has a direction :math:`s_i - x` that points to its vertex :math:`s_i`. A step is the sum of the
# multiples :math:`p_i (s_i - x)` of these directions. If the weights :math:`p_i` are nonnegative and their
# sum is at most one, every iterate stays in the constraint set. The certificate contains these weights.
# ``feasible_from`` is the first step k such that this condition holds at step k and at all later steps. We
# search for the smallest :math:`\omega` with a certificate for all steps.
omegas = np.linspace(0.4, 1.2, 161)
certificates = [second_order(omega).certificate(k=0) for omega in omegas]
certified = np.array([c.feasible_from == 0 for c in certificates])
smallest = omegas[certified].min()
mine = second_order(smallest)
print(f"certified from omega = {smallest:.3f} on")
print(f"weights of the first step: {mine.certificate(k=0).p.round(3)}")

# %%
# The weight of the first vertex is negative for small :math:`\omega`, so the midpoint scheme and Ralston's
# scheme have no certificate for the first step. Schemes in the shaded range are certified.
fig, ax = plt.subplots(figsize=(6, 3.2), layout="constrained")
weights = np.array([c.p for c in certificates])
ax.axvspan(smallest, omegas[-1], color="0.5", alpha=0.2, linewidth=0)
ax.plot(omegas, weights[:, 0], color="C0", label="first vertex")
ax.plot(omegas, weights[:, 1], "--", color="C2", label="second vertex")
ax.axhline(0, color="0.3", linewidth=0.7)
for omega, name in {1 / 2: "midpoint", 2 / 3: "Ralston", 1: "Heun"}.items():
    weight = second_order(omega).certificate(k=0).p[0]
    ax.plot(omega, weight, "o", color="C0")
    ax.text(omega + 0.01, weight - 0.12, name)
ax.set(xlabel="omega", ylabel="weight in the first step")
ax.legend(loc="upper right")
plt.show()

# %%
# Order
# -----
# The order conditions give the order of the tableau. ``fw.checks.observed_order`` measures the order on a
# smooth differential equation.
order = fw.checks.observed_order(mine)
print(f"order {mine.order} by the order conditions, {order:.2f} measured")

# %%
# Use as a method
# ---------------
# A tableau can be passed as ``method``. The test problem minimises half the squared distance to the origin
# over a triangle. The minimiser lies on an edge, and plain Frank-Wolfe jumps between the ends of this edge.
# The function ``zigzag_energy`` measures how much the steps deviate from their common direction.
triangle = datasets.triangle()
f, C = fw.Quadratic(np.eye(2)), fw.ConvexHull(triangle["vertices"])
runs, points = {}, {}
for method in ("fw", "rk44", mine):
    visited = []
    r = fw.minimize(
        f,
        C,
        triangle["start"],
        method=method,
        schedule=fw.OpenLoop(k0=1),
        tol=0,
        max_iter=STEPS,
        callback=lambda state, visited=visited: visited.append(np.array(state.x)),
    )
    name = getattr(method, "name", method)
    runs[name], points[name] = r, np.array(visited)
    energy = fw.zigzag_energy(points[name])
    print(f"{name:>13}: zigzag energy {energy:.0e}, gap {r.gap:.0e}")

# %%
# The left panel shows the first steps on the triangle. The right panel shows the smallest gap so far against
# the number of gradients. A step of the new scheme needs two gradients and a step of RK44 needs four.
fig, (left, right) = plt.subplots(1, 2, figsize=(7.2, 3.2), layout="constrained")
left.fill(*triangle["vertices"].T, color="0.5", alpha=0.2, linewidth=0)
for (name, r), colour in zip(runs.items(), ("0.5", "C2", "C0"), strict=True):
    left.plot(*points[name][:12].T, ".-", color=colour, linewidth=0.9)
    best = np.minimum.accumulate(r.trace["gap"][1:])
    right.loglog(r.trace["n_grad"][1:], best, color=colour, label=name)
left.plot(0, 0, "*", color="0.1", markersize=9)
left.set(xlabel="$x_1$", ylabel="$x_2$", title="First steps")
right.set(xlabel="gradients", ylabel="smallest gap so far", title="Convergence")
right.legend(loc="lower left")
plt.show()

# %%
# Summary
# -------
# A tableau is a matrix and a vector. Its certificate tells whether the iterates stay feasible, before any
# run. Higher order reduces the zigzag in this example, but all three methods have the same rate of
# convergence.
