"""
Maximum cut by its semidefinite relaxation
==========================================

Colour the nodes of a graph with two colours so that as many edges as possible join different ones. Goemans and
Williamson relax the colours to unit vectors: maximise <L, X>/4 over positive semidefinite X with ones on the diagonal.
Frank-Wolfe on the spectraplex needs one eigenvector per step; its gap becomes a proof of how large a cut can be at all.
"""

import matplotlib.pyplot as plt
import numpy as np

import fwflow as fw

# %%
# A graph with a planted cut
# --------------------------
# Twenty nodes in two groups. Most edges lead from one to the other; some do not, so that no cut has them all.
n, rng = 20, np.random.default_rng(3)
group = np.arange(n) % 2
i, j = np.triu_indices(n, 1)
keep = rng.random(len(i)) < np.where(group[i] != group[j], 0.32, 0.12)
i, j = i[keep], j[keep]
L = np.zeros((n, n))
np.add.at(L, (np.r_[i, j, i, j], np.r_[i, j, j, i]), np.repeat([1.0, -1.0], 2 * len(i)))


def cut(signs: np.ndarray) -> np.ndarray:
    """How many edges each row of signs cuts."""
    return (signs[..., i] != signs[..., j]).sum(axis=-1)


# %%
# All 2^19 colourings are few enough to try, which tells what is true.
every = 1 - 2 * (np.arange(2 ** (n - 1))[:, None] >> np.arange(n) & 1).astype(np.int8)
largest = int(cut(every).max())
print(f"{n} nodes, {len(i)} edges, largest cut {largest}")

# %%
# Multipliers for the diagonal
# ----------------------------
# X is in the spectraplex: positive semidefinite, with trace n. That all entries of the diagonal are one is asked for by
# multipliers y and a quadratic penalty. For any y, the least value of <diag(y) - L/4, X> over the spectraplex
# bounds every cut: cut <= sum(y) - that value. The set certifies it.
C, penalty, y = fw.Spectraplex(n), 2.0, np.zeros(n)


def augmented(y: np.ndarray) -> fw.Smooth:
    """The cut with the diagonal asked for by multipliers y and by a penalty."""

    def value(X: np.ndarray) -> float:
        off = np.diag(X) - 1
        return float(-np.vdot(L, X) / 4 + y @ off + penalty / 2 * off @ off)

    return fw.Smooth(value, lambda X: np.diag(y + penalty * (np.diag(X) - 1)) - L / 4, shape=(n, n))


def rounded(X: np.ndarray, draws: int = 50) -> np.ndarray:
    """The best of some cuts by random hyperplanes."""
    values, vectors = np.linalg.eigh((X + X.T) / 2)
    signs = np.sign(rng.standard_normal((draws, n)) @ (vectors * np.sqrt(np.maximum(values, 0))).T)
    return signs[cut(signs).argmax()]


rounds, X, best = [], None, np.ones(n)
for _ in range(8):
    r = fw.minimize(augmented(y), C, X, method="pairwise", tol=3e-3, max_iter=120)
    X = np.asarray(r.x)
    y = y + penalty * (np.diag(X) - 1)
    G = np.diag(y) - L / 4
    best = max(best, rounded(X), key=cut)
    rounds.append(
        (np.vdot(L, X) / 4, y.sum() - C.lower_bound(G, C.lmo(G)), int(cut(best)), np.abs(np.diag(X) - 1).max())
    )

# %%
value, bound, found, off = map(np.array, zip(*rounds, strict=True))
print(f"relaxation {value[-1]:.3f}, diagonal off by {off[-1]:.0e}")
print(f"proved: no cut has more than {bound.min():.3f} edges; found: one with {found[-1]}")
print(f"found / proved = {found[-1] / bound.min():.3f}, where Goemans and Williamson promise 0.878 on average")

# %%
# The cut, and how the two bounds close in on it
# ----------------------------------------------
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained", width_ratios=[1, 1.15])
colours = np.where(best == best[0], "#0072B2", "#E69F00")
angle = np.empty(n)
for side in (0, 1):  # a half circle for each colour
    members = np.flatnonzero((best == best[0]) == (side == 0))
    angle[members] = np.pi * (side + (np.arange(len(members)) + 0.5) / len(members)) - np.pi / 2
place = np.column_stack([np.cos(angle), np.sin(angle)])
for a, b in zip(i, j, strict=True):
    kept = best[a] == best[b]
    left.plot(*place[[a, b]].T, color="#D55E00" if kept else "#BBBBBB", lw=1.6 if kept else 0.8, zorder=1 + kept)
left.scatter(*place.T, s=90, c=colours, edgecolor="white", linewidth=1, zorder=3)
left.set(aspect="equal", title=f"{found[-1]} edges cut, {len(i) - found[-1]} (red) are not")
left.axis("off")

k = np.arange(1, len(rounds) + 1)
right.plot(k, bound, "o-", color="#0072B2", ms=4, label="no cut is larger (proved)")
right.plot(k, value, "s--", color="#7F7F7F", ms=3, label="value of the relaxation")
right.plot(k, found, "o-", color="#D55E00", ms=4, label="best cut by rounding")
right.axhline(largest, color="black", lw=0.8, ls=":")
right.text(k[-1], largest, "largest cut", ha="right", va="bottom", fontsize=8)
right.set(xlabel="updates of the multipliers", ylabel="edges", title="Proved and found", xticks=k)
right.legend(frameon=False)
right.spines[["top", "right"]].set_visible(False)
plt.show()
