"""Problems of the paper that are generated from a seed."""

from __future__ import annotations

import numpy as np

from fwflow._numerics import dot
from fwflow._validation import number, whole
from fwflow.datasets.dataset import Dataset


def sensing(m: int = 500, n: int = 100, sparsity: float = 0.1, noise: float = 0.05, seed: int = 0) -> Dataset:
    r"""Compressed sensing: :math:`b = A x_0 + \text{noise} \cdot e` with A and e standard Gaussian, x_0 sparse.

    Parameters
    ----------
    m, n : int
        Numbers of samples and of features.
    sparsity : float in (0, 1]
        Fraction of nonzero entries of x_0, at least one of them. Their values are standard Gaussian.
    noise : float >= 0
        Standard deviation of the noise.
    seed : int

    Returns
    -------
    Dataset
        ``A`` (m, n), ``b`` (m,) for regression, ``labels`` (m,), the signs of b as -1/+1, for classification,
        and ``x0`` (n,).

    Examples
    --------
    >>> from fwflow.datasets import sensing
    >>> data = sensing(noise=0.0)
    >>> data.shape, int((data["x0"] != 0).sum()), bool((data["A"] @ data["x0"] == data["b"]).all())
    ((500, 100), 10, True)
    """
    m, n = whole(m, "m", 1), whole(n, "n", 1)
    sparsity = number(sparsity, "sparsity", "be in (0, 1]", lambda x: 0 < x <= 1)
    noise = number(noise, "noise", "be a finite number >= 0", lambda x: 0 <= x < np.inf)
    random = np.random.default_rng(seed)
    A = random.standard_normal((m, n))
    support = random.choice(n, size=max(1, round(sparsity * n)), replace=False)
    x0 = np.zeros(n)
    x0[support] = random.standard_normal(len(support))
    b = dot(A, x0) + noise * random.standard_normal(m)
    return Dataset(
        name="sensing",
        kind="generated",
        source=f"Compressed sensing, generated with seed {seed}: {m} x {n} standard Gaussian design, "
        f"{len(support)} non-zeros in the ground truth, noise {noise:g}.",
        shape=(m, n),
        arrays={"A": A, "b": b, "labels": np.where(b < 0, -1.0, 1.0), "x0": x0},
    )


def triangle() -> Dataset:
    """Return the triangle of the paper's toy problem: ``vertices``, one per row, and ``start``.

    Examples
    --------
    >>> from fwflow.datasets import triangle
    >>> triangle()["vertices"]
    array([[-1.,  0.],
           [ 0.,  1.],
           [ 1.,  0.]])
    """
    vertices = np.array([[-1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    return Dataset(
        name="triangle",
        kind="generated",
        source="The triangle with vertices (-1,0), (0,1), (1,0) and the starting point (0,1).",
        shape=(3, 2),
        arrays={"vertices": vertices, "start": np.array([0.0, 1.0])},
    )
