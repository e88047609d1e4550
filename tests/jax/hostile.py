"""Run by test_endings.py in a process of its own, which can be stopped: compiled runs on hostile inputs.

Each case is compiled once, for a batch of inputs. Its line is printed when all its runs have ended.
"""

import json
import warnings

import jax
import jax.numpy as jnp
import numpy as np

import fwflow as fw
import fwflow.jax as fwj
from fwflow.jax.methods import aggressive

MAX_ITER = 60
RNG = np.random.default_rng(0)
A = RNG.standard_normal((8, 4))
NAN, INF = np.nan, np.inf

#: Changes of the first input: the factor of the data, the radius, the factor of the start, tol and rtol.
USUAL = {"data": 1.0, "radius": 1.0, "start": 0.5, "tol": 1e-3, "rtol": 0.0}
CHANGES = [
    {},
    *({"data": value} for value in (0.0, NAN, INF, 1e20, -1.0)),
    *({"radius": value} for value in (-1.0, 0.0, NAN, INF, 1e-30, 1e30)),
    *({"start": value} for value in (5.0, 1e20, NAN, INF, -5.0, 0.0)),
    *({"tol": value} for value in (0.0, NAN, INF, 1e-30, -1.0)),
    *({"rtol": value} for value in (NAN, INF, -1.0, 1e-3)),
    {"data": 0.0, "start": 5.0},
    {"data": 0.0, "start": 5.0, "tol": 0.0},
    {"radius": -1.0, "start": 5.0, "tol": INF},
    {"start": 5.0, "tol": INF},
    {"start": 5.0, "tol": 1e-30},
]
INPUTS = {name: np.array([{**USUAL, **change}[name] for change in CHANGES]) for name in USUAL}


def linear(data):
    return fwj.LinearModel(data * A, jnp.asarray(A @ np.array([1.0, -1.0, 0.5, 0.0]) + 0.1))


def smooth(data):
    return fwj.Smooth(lambda X, scale: ((scale * X - jnp.arange(4.0).reshape(X.shape)) ** 2).sum(), data)


def blocks(radius):
    sets = fwj.L2Ball(radius), fwj.LpBall(1.5, radius), fwj.LInfBall(radius), fwj.Box(-radius, radius)
    return fwj.Product(sets, (1, 1, 1, 1))


def best(g):
    return jnp.where(g > 0, -1.0, 1.0)


def worst(g):
    return jnp.where(g > 0, 1.0, -1.0)


class Reversed(fw.L1Ball):
    """A set of a user's, on the host."""

    def lmo(self, g, hint=None):
        return super().lmo(-np.asarray(g))


FIRST = np.array([1.0, 0.0, 0.0, 0.0])
CASES = {
    "apg on an L1 ball": (linear, fwj.L1Ball, FIRST, {}),
    "pairwise on an L1 ball": (linear, fwj.L1Ball, FIRST, {"method": "pairwise"}),
    "blended-pairwise on a simplex": (
        linear,
        fwj.Simplex,
        FIRST,
        {"method": "blended-pairwise", "line_search": "aggressive"},
    ),
    "heun with momentum on a product": (
        linear,
        blocks,
        FIRST,
        {"method": "heun", "momentum": "nesterov", "line_search": "aggressive", "check_every": 10**9},
    ),
    "fw on a nuclear ball": (smooth, fwj.NuclearBall, FIRST.reshape(2, 2), {"method": "fw"}),
    "exact search with an oracle": (linear, lambda radius: best, FIRST, {}),
    "exact search with a reversed oracle": (linear, lambda radius: worst, FIRST, {}),
    "fw with a reversed oracle": (smooth, lambda radius: worst, FIRST, {"method": "fw"}),
    "fw with a reversed oracle on the host": (linear, lambda radius: Reversed(1.0), FIRST, {"method": "fw"}),
    "a set on the host": (linear, lambda radius: fw.ConvexHull(np.vstack([np.eye(4), -np.eye(4)])), FIRST, {}),
}


def main():
    jax.config.update("jax_disable_most_optimizations", True)
    warnings.simplefilter("ignore")  # overflow on the host
    for name, (f, C, start, options) in CASES.items():

        def run(data, radius, scale, tol, rtol, f=f, C=C, start=start, options=options):
            return fwj.minimize(f(data), C(radius), scale * start, tol=tol, rtol=rtol, max_iter=MAX_ITER, **options)

        found = jax.jit(jax.vmap(run))(*INPUTS.values())
        fields = {key: np.asarray(getattr(found, key)).tolist() for key in ("x", "gap", "nit", "success")}
        fields["feasible"] = None if found.feasible is None else np.asarray(found.feasible).tolist()
        fields["statuses"] = [status.name for status in found.statuses]
        print(json.dumps([name, fields]), flush=True)
    lengths = jnp.array([NAN, INF, -INF, -1.0, 0.0, 1e-30, 1.0])
    line = linear(1.0).along(linear(1.0).point(jnp.zeros(4)), linear(1.0).point(jnp.ones(4)))
    search = jax.vmap(jax.vmap(lambda *limits: aggressive(line, *limits), (None, 0)), (0, None))
    print(json.dumps(["aggressive search", np.asarray(jax.jit(search)(lengths, lengths)).tolist()]), flush=True)


if __name__ == "__main__":
    main()
