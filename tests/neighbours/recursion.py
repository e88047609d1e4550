"""The recursion of the optimisers, written from its formulas in NumPy, in double precision."""

import numpy as np


def polar(x):
    U, _, V = np.linalg.svd(x, full_matrices=False)
    return U @ V


def leading_pair(x):
    U, _, V = np.linalg.svd(x, full_matrices=False)
    return np.outer(U[:, 0], V[0])


def one_entry(x):
    s = np.zeros_like(x)
    place = np.unravel_index(np.abs(x).argmax(), x.shape)
    s[place] = np.sign(x[place])
    return s


#: LMO(m) = -radius * formula(m)
FORMULAS = {
    "spectral": polar,
    "nuclear": leading_pair,
    "row": lambda m: m / np.linalg.norm(m, axis=1, keepdims=True),
    "column": lambda m: m / np.linalg.norm(m, axis=0, keepdims=True),
    "sign": np.sign,
    "rms": lambda m: m / np.sqrt(np.mean(m**2)),
    "l1": one_entry,
}
STEPS = 50
LR = 0.02
RADIUS = 1.7
#: Options of the optimisers, with which every formula is tried.
OPTIONS = {
    "frank-wolfe": {},
    "no momentum": {"momentum": 1.0},
    "unconstrained": {"constrained": False},
    "weight decay": {"constrained": False, "weight_decay": 0.3},
    "both decays": {"weight_decay": 0.3},
    "nesterov": {"nesterov": True, "momentum": 0.3},
}


def problem(shape, seed=0):
    """A strongly convex quadratic and a start.

    The minimiser of the quadratic is outside of all sets, so that no average of gradients comes near zero. There, the
    answers of oracles would depend on rounding.
    """
    rng = np.random.default_rng(seed)
    centre = 3 * rng.choice([-1.0, 1.0], shape) * (1 + rng.random(shape))
    scale, start = 1 + rng.random(shape), rng.standard_normal(shape)
    mixing = np.eye(shape[0]) + 0.3 * rng.standard_normal((shape[0], shape[0])) / np.sqrt(shape[0])
    return mixing, scale, centre, start


def gradient(w, mixing, scale, centre):
    return mixing.T @ (scale * (mixing @ (w - centre)))


def run(formula, shape, lr=LR, momentum=0.1, nesterov=False, constrained=True, weight_decay=0.0):
    """The iterates of the recursion."""
    mixing, scale, centre, w = problem(shape)
    m, found = np.zeros(shape), []
    for _ in range(STEPS):
        g = gradient(w, mixing, scale, centre)
        m = (1 - momentum) * m + momentum * g
        d = (1 - momentum) * m + momentum * g if nesterov else m
        s = -RADIUS * formula(d)
        w = w + lr * ((s - w if constrained else s) - weight_decay * w)
        found.append(w)
    return np.array(found)


def textbook_step(tableau, w, data, lr, constrained):
    """A step of a Runge-Kutta scheme with exact spectral oracles of radius 1, without momentum."""
    xi = []
    for i in range(tableau.stages):
        stage = w + sum((tableau.A[i, j] * xi[j] for j in range(i)), np.zeros_like(w))
        s = -polar(gradient(stage, *data))
        xi.append(lr * (s - stage if constrained else s))
    return w + sum(b * step for b, step in zip(tableau.beta, xi, strict=True))
