"""
PyTorch function: weights of an ensemble
========================================

Several small networks classify the same data, and an ensemble averages their probabilities. The best weights of
the average minimise the log loss on data that the networks have not seen, over a simplex.
:meth:`fwflow.Smooth.from_torch` takes the loss as it is written in PyTorch. The solution gives most networks the
weight zero, and the gap bounds its distance from the optimum. The EM algorithm for mixtures confirms the result.

This example needs PyTorch, which is large: ``pip install 'fwflow[torch]'``. Sites that are built without PyTorch
show the code without its output; the command ``make test-neighbours`` runs the example.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import make_moons

import fwflow as fw

NETWORKS = 20
EPOCHS = 150
SEED = 0

# %%
# Networks
# --------
# Every network has one hidden layer of another width, and is trained on another sample of thirty points. Most of
# them are poor, and they err at different places.
torch.manual_seed(SEED)
X, y = (torch.from_numpy(a) for a in make_moons(600, noise=0.25, random_state=SEED))
X = X.float()
generator = torch.Generator().manual_seed(SEED)
networks = []
for k in range(NETWORKS):
    width = 2 + k % 5
    layers = torch.nn.Linear(2, width), torch.nn.Tanh(), torch.nn.Linear(width, 2)
    net = torch.nn.Sequential(*layers)
    rows = torch.randint(0, 300, (30,), generator=generator)
    optimiser = torch.optim.Adam(net.parameters(), lr=0.05)
    for _ in range(EPOCHS):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(net(X[rows]), y[rows]).backward()
        optimiser.step()
    networks.append(net)

# %%
# Objective
# ---------
# The rows 300 to 599 are new to the networks. Column k of ``P`` holds the probabilities that network k gives to the
# true classes. The weights w of the ensemble minimise the mean of :math:`-\log (P w)_i`. The function is plain PyTorch.
# It may also call the networks: their parameters get no gradients.
with torch.no_grad():
    outputs = [torch.softmax(net(X[300:]).double(), dim=1) for net in networks]
P = torch.stack([out[torch.arange(300), y[300:]] for out in outputs], dim=1)


def log_loss(w):
    """Return the mean log loss of the ensemble with weights w."""
    return -torch.log(P @ w).mean()


f = fw.Smooth.from_torch(log_loss)
w0 = torch.full((NETWORKS,), 1 / NETWORKS, dtype=torch.float64)
print(fw.checks.report(f, x=w0))

# %%
# Solution
# --------
# The starting point is a tensor, and so is the solution, with the same type and on the same device.
r = fw.minimize(f, fw.Simplex(), w0, tol=1e-9)
print(r.method, r.status.name, f"gap {r.gap:.1e}")
print(r.x.dtype, isinstance(r.x, torch.Tensor))
print(f"log loss: equal weights {float(log_loss(w0)):.4f}, optimal {r.fun:.4f}")
best = min(float(-torch.log(P[:, k]).mean()) for k in range(NETWORKS))
used = int((r.x > 1e-6).sum())
print(f"best single network {best:.4f}; {used} of {NETWORKS} networks are used")

# %%
# The EM algorithm multiplies every weight by the mean share of its network in the probability of a row. It needs no
# step size, and converges slowly to the same optimum.
w = w0.clone()
em = []
for _ in range(2000):
    w = w * (P / (P @ w)[:, None]).mean(dim=0)
    em.append(float(log_loss(w)))
print(f"after 2000 steps of EM: {em[-1]:.8f}, by fwflow {r.fun:.8f}")

# %%
# Figure
# ------
# Left: the weights. Right: the log loss minus the lower bound that the gap proves.
fig, axes = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
axes[0].bar(np.arange(NETWORKS), r.x.numpy())
axes[0].set(xlabel="network", ylabel="weight", title="ensemble")
bound = r.fun - r.gap
for label, values in ((f"fwflow ({r.method})", r.trace["fun"]), ("EM", np.array(em))):
    axes[1].loglog(np.arange(1, len(values) + 1), values - bound, label=label)
axes[1].set(xlabel="iteration", ylabel="log loss above its bound", title="convergence")
axes[1].legend()
plt.show()
