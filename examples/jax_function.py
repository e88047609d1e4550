"""
JAX function: sources of a pollutant
====================================

Sensors along a river measure a pollutant for some hours. The concentration follows a differential equation with
transport, diffusion and decay; unknown are the places where the pollutant enters. A simulation in JAX computes the
measurements from the sources, and JAX differentiates the simulation. :meth:`fwflow.Smooth.from_jax` makes it an
objective of the sources, which lie in a simplex. You learn to check such a function, and to solve the problem in
single and in double precision.
"""

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import nnls

import fwflow as fw

CELLS = 60
STEPS = 120
SENSORS = (12, 25, 38, 55)

# %%
# Simulation
# ----------
# One step moves the water by a part of a cell, mixes neighbouring cells, and lets a part of the pollutant decay. The
# decay is faster at high concentrations, so that the measurements are not a linear function of the sources.


def simulate(sources, decay=0.3):
    """Return the measurements of all sensors at all steps."""

    def step(c, _):
        upstream = jnp.concatenate([jnp.zeros(1, c.dtype), c[:-1]])
        downstream = jnp.concatenate([c[1:], c[-1:]])
        moved = c + 0.4 * (upstream - c) + 0.1 * (upstream - 2 * c + downstream)
        c = moved - 0.01 * moved - decay * moved**2 + sources
        return c, c[jnp.array(SENSORS)]

    return jax.lax.scan(step, jnp.zeros_like(sources), None, length=STEPS)[1]


# %%
# Data
# ----
# Three sources release one unit per step in all. The noise has a standard deviation of 0.002.
truth = np.zeros(CELLS, np.float32)
truth[[5, 20, 44]] = 0.5, 0.3, 0.2
clean = np.asarray(simulate(jnp.asarray(truth)))
measured = clean + 0.002 * np.random.default_rng(0).standard_normal(clean.shape)
print(f"{measured.size} measurements, {CELLS} possible places")

# %%
# Objective
# ---------
# The objective is half the sum of squared errors. JAX computes in single precision unless
# ``jax.config.update("jax_enable_x64", True)`` is called first, and so do the runs of this function. The report
# compares the gradient with differences of values, and looks for second derivatives.
data = jnp.asarray(measured, jnp.float32)
f = fw.Smooth.from_jax(lambda x: ((simulate(x) - data) ** 2).sum() / 2, shape=CELLS)
x0 = jnp.full(CELLS, 1 / CELLS)
print(fw.checks.report(f, x=x0))

# %%
# Solution
# --------
# The starting point is a JAX array, and so is the solution, on the same device. Single precision limits the gap.
r = fw.minimize(f, fw.Simplex(), x0, tol=1e-4)
print(r.method, r.status.name, f"gap {r.gap:.1e}")
print(r.x.dtype, isinstance(r.x, jax.Array))
print("largest sources:", np.argsort(-np.asarray(r.x))[:3], "true places: [ 5 20 44]")

# %%
# If the decay is linear, the measurements are a linear function of the sources, and non-negative least squares of
# SciPy confirms the result. A penalty row keeps the sum of the sources at one.
linear = fw.Smooth.from_jax(lambda x: ((simulate(x, 0.0) - data) ** 2).sum() / 2)
ours = fw.minimize(linear, fw.Simplex(), x0, tol=1e-4)
jacobian = jax.jacfwd(lambda x: simulate(x, 0.0))(x0)
A, b = np.asarray(jacobian, np.float64).reshape(-1, CELLS), measured.ravel()
theirs, _ = nnls(np.vstack([A, 1e4 * np.ones(CELLS)]), np.append(b, 1e4))
value = ((A @ theirs - b) ** 2).sum() / 2
print(f"linear decay: {ours.fun:.5f} by fwflow, {value:.5f} by least squares")

# %%
# Figure
# ------
fig, axes = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
fitted = np.asarray(simulate(jnp.asarray(r.x)))
for k, place in enumerate(SENSORS):
    axes[0].plot(measured[:, k], ".", color=f"C{k}", markersize=2)
    axes[0].plot(fitted[:, k], color=f"C{k}", label=f"cell {place}")
axes[0].set(xlabel="step", ylabel="concentration", title="measured (dots) and fitted")
axes[0].legend(ncols=2, loc="center right", bbox_to_anchor=(1, 0.62))
axes[1].bar(np.arange(CELLS), np.asarray(r.x), label="estimated")
axes[1].plot(np.flatnonzero(truth), truth[truth > 0], "o", color="C2", label="true")
axes[1].set(xlabel="cell", ylabel="source", title="sources")
axes[1].legend()
plt.show()
