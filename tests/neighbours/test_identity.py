"""Muon with decoupled weight decay, Scion and sign descent are Euler steps of the Frank-Wolfe flow.

Each test makes 100 steps of a published optimiser and of ours on the same loss. Near a minimiser, averages of gradients
come near zero, and oracles magnify their rounding errors: two runs of one optimiser then differ visibly. The learning
rates in float32 are so small that no run comes there. In float64, learning rates are larger.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch

import fwflow as fw
from fwflow import _training as training
from fwflow.optax import lmo
from fwflow.torch import LMO

STEPS = 100
LR = 0.02
# Distance from 1 to the next number of bfloat16.
BFLOAT16 = 2.0**-7


def data(seed=0):
    rng = np.random.default_rng(seed)
    shapes = {"first": (24, 16), "kernel": (3, 3, 2, 8), "bias": (16,), "last": (16, 10)}
    params = {name: rng.standard_normal(shape).astype(np.float32) / 4 for name, shape in shapes.items()}
    inputs = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in (("x", (96, 24)), ("z", (96, 18)))}
    return params, inputs, rng.standard_normal((96, 10)).astype(np.float32)


def loss(params, inputs, targets, xp):
    """A network with a matrix, a bias, a kernel that acts on patches, and another matrix."""
    patches = xp.tanh(inputs["z"] @ params["kernel"].reshape(18, 8))
    hidden = xp.tanh(inputs["x"] @ params["first"] + params["bias"])
    outputs = hidden @ params["last"] + xp.sum(patches, 1).reshape(-1, 1)
    return xp.mean((outputs - targets) ** 2)


def jax_run(optimizer):
    params, inputs, targets = data()
    params = jax.tree.map(jnp.asarray, params)

    @jax.jit
    def step(params, state):
        updates, state = optimizer.update(jax.grad(loss)(params, inputs, targets, jnp), state, params)
        return optax.apply_updates(params, updates), state

    state, found = optimizer.init(params), []
    for _ in range(STEPS):
        params, state = step(params, state)
        found.append(params)
    return found


def torch_run(make, names=("first", "kernel", "bias", "last"), dtype=torch.float32):
    """Iterates of an optimiser of some parameters; the others are fixed. `make` gets parameters by name."""
    start, inputs, targets = data()
    params = {name: torch.nn.Parameter(torch.tensor(w, dtype=dtype)) for name, w in start.items()}
    inputs = {name: torch.tensor(part, dtype=dtype) for name, part in inputs.items()}
    optimizer, found = make({name: params[name] for name in names}), []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss(params, inputs, torch.tensor(targets, dtype=dtype), torch).backward()
        optimizer.step()
        found.append({name: params[name].detach().clone() for name in names})
    return found


def largest_difference(first, second, names):
    return max(float(abs(a[name] - b[name]).max()) for a, b in zip(first, second, strict=True) for name in names)


@pytest.mark.parametrize("weight_decay", [0.1, 1.0])
def test_muon_of_optax(weight_decay):
    """Matrices and kernels. Muon of optax leaves vectors to Adam."""
    kernel = optax.contrib.MuonDimensionNumbers(reduction_axis=(0, 1, 2), output_axis=3)
    plain = optax.contrib.MuonDimensionNumbers()
    dimensions = {"first": plain, "last": plain, "kernel": kernel, "bias": None}
    muon = optax.contrib.muon(
        LR, beta=0.95, nesterov=False, weight_decay=weight_decay, muon_weight_dimension_numbers=dimensions
    )
    # The factor of Muon is the root of the number of outputs by the number of inputs, if that is larger than 1.
    radius = {"first": 1.0, "last": 1.0, "kernel": 1.0}
    ours = optax.multi_transform(
        {
            "lmo": lmo(LR, momentum=0.05, constrained=False, weight_decay=weight_decay, radius=radius | {"bias": 1.0}),
            "adam": optax.adamw(LR, weight_decay=0.0, nesterov=False),
        },
        {"first": "lmo", "last": "lmo", "kernel": "lmo", "bias": "adam"},
    )
    found, expected = jax_run(ours), jax_run(muon)
    assert largest_difference(found, expected, ("first", "kernel", "last")) <= 1e-5
    assert largest_difference(expected[:1], expected[-1:], ("first",)) > 0.1


def test_the_step_of_muon_is_an_euler_step_of_the_flow():
    """The unconstrained step with decay is the constrained one over a ball that is larger by 1 / weight_decay."""
    weight_decay = 0.2
    muon = lmo(LR, momentum=0.05, constrained=False, weight_decay=weight_decay)
    flow = lmo(LR * weight_decay, momentum=0.05, radius=1 / weight_decay)
    names = ("first", "kernel", "bias", "last")
    assert largest_difference(jax_run(muon), jax_run(flow), names) <= 1e-5
    assert fw.tableaus["euler"].stages == 1


class Scion:
    """Scion (arXiv 2502.07529, algorithms 1 and 2) with the norms of its table for matrices, kernels and biases."""

    def __init__(self, params, lr, radius, constrained, momentum):
        self.params, self.lr, self.radius = params, lr, radius
        self.constrained, self.momentum = constrained, momentum
        self.averages = {name: torch.zeros_like(p) for name, p in params.items()}

    def zero_grad(self):
        for p in self.params.values():
            p.grad = None

    @torch.no_grad()
    def step(self):
        for name, p in self.params.items():
            d = self.averages[name] = (1 - self.momentum) * self.averages[name] + self.momentum * p.grad
            if p.ndim == 1:
                lmo = -d / torch.sqrt(torch.mean(d**2))
            else:
                G = d.reshape(len(d), -1)
                lmo = -math.sqrt(G.shape[0] / G.shape[1]) * self.orthogonalised(G).reshape(d.shape)
            if self.constrained:
                p.mul_(1 - self.lr)
            p.add_(self.lr * self.radius * lmo)

    def orthogonalised(self, G):
        a, b, c = 3.4445, -4.7750, 2.0315
        X = G / torch.linalg.norm(G)
        for _ in range(5):
            X = a * X + b * X @ X.T @ X + c * X @ X.T @ X @ X.T @ X
        return X


@pytest.mark.parametrize("constrained", [True, False])
@pytest.mark.parametrize(("dtype", "lr", "tolerance"), [(torch.float32, LR / 10, 1e-5), (torch.float64, LR, 1e-7)])
def test_scion(constrained, dtype, lr, tolerance):
    """Matrices, kernels and vectors."""
    expected = torch_run(lambda params: Scion(params, lr, 2.0, constrained, 0.1), dtype=dtype)

    def ours(params):
        def radius(p):
            return 2.0 if p.ndim == 1 else 2.0 * math.sqrt(p.shape[0] / math.prod(p.shape[1:]))

        groups = [{"params": [p], "radius": radius(p)} for p in params.values()]
        return LMO(groups, lr, momentum=0.1, constrained=constrained)

    found = torch_run(ours, dtype=dtype)
    assert largest_difference(found, expected, ("first", "kernel", "bias", "last")) <= tolerance
    assert largest_difference(expected[:1], expected[-1:], ("bias",)) > 0.1


@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize("ns_dtype", ["bfloat16", "float32"])
def test_muon_of_torch(nesterov, ns_dtype):
    """Matrices, which are all that it accepts, up to its rounding to bfloat16."""
    lr, names = LR / 10, ("first", "last")
    muon = torch_run(
        lambda params: torch.optim.Muon(params.values(), lr, weight_decay=0.1, momentum=0.95, nesterov=nesterov), names
    )

    def ours(params):
        groups = [{"params": [p], "radius": math.sqrt(max(1.0, p.shape[0] / p.shape[1]))} for p in params.values()]
        options = {"momentum": 0.05, "constrained": False, "weight_decay": 0.1, "nesterov": nesterov}
        return LMO(groups, lr, ns_dtype=ns_dtype, **options)

    found, start = torch_run(ours, names), data()[0]
    for name in names:
        travelled = float((muon[-1][name] - torch.tensor(start[name])).norm())
        assert float((muon[-1][name] - found[-1][name]).norm()) <= BFLOAT16 * travelled


def test_sign_descent_of_optax():
    """The sign set with Nesterov's average is Lion with equal decay rates."""
    lion = optax.lion(LR, b1=0.9, b2=0.9, weight_decay=0.1)
    ours = lmo(LR, set="sign", momentum=0.1, nesterov=True, constrained=False, weight_decay=0.1)

    def compare(optimizer):
        params = {"w": jnp.asarray(np.random.default_rng(0).standard_normal((6, 4)), jnp.float32)}
        state, found = optimizer.init(params), []
        for k in range(STEPS):
            # Prescribed gradients, because signs of numbers near zero depend on rounding.
            grads = {"w": jnp.asarray(np.random.default_rng(k).standard_normal((6, 4)), jnp.float32)}
            updates, state = optimizer.update(grads, state, params)
            params = optax.apply_updates(params, updates)
            found.append(params)
        return found

    # Lion averages m with g before it updates m, so that its direction at a step is that of our plain average.
    plain = lmo(LR, set="sign", momentum=0.1, constrained=False, weight_decay=0.1)
    assert largest_difference(compare(plain), compare(lion), ("w",)) <= 1e-5
    assert largest_difference(compare(ours), compare(lion), ("w",)) > 1e-3


def test_the_iterations_are_those_that_others_publish():
    assert optax.contrib._muon._DEFAULT_NS_COEFFS == training.NEWTON_SCHULZ
    defaults = torch.optim.Muon([torch.nn.Parameter(torch.ones(2, 2))]).defaults
    assert defaults["ns_coefficients"] == training.NEWTON_SCHULZ
    assert defaults["ns_steps"] == training.NEWTON_SCHULZ_STEPS
