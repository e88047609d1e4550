"""Maximum cuts: a cut, its value, and a proved upper bound on the value of every cut."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from fwflow._graphs import is_networkx, read_graph
from fwflow._numerics import dot
from fwflow._validation import Array, InputError, finite_array, whole
from fwflow.run.result import State
from fwflow.semidefinite.operators import diagonal_map, symmetric
from fwflow.semidefinite.problem import Problem
from fwflow.semidefinite.program import SemidefiniteResult
from fwflow.semidefinite.solver import solve
from fwflow.semidefinite.sweeps import colour_classes

# Number of random hyperplanes by which X is rounded to cuts. Chosen without tuning.
_HYPERPLANES = 32


@dataclass(frozen=True, eq=False, repr=False)
class CutResult(SemidefiniteResult):
    """Result of `maxcut`: a cut, and bounds on the largest value of a cut.

    It has the attributes of `SemidefiniteResult` and those below. The relaxation is a maximisation: ``value`` is not
    above its optimum, and ``bound`` is not below it. The trace belongs to the minimisation of the negative value, so
    its column ``fun`` is the negative of the value, and ``fun - gap`` is the negative of the bound.

    Attributes
    ----------
    cut : array
        Side of every node, +1 or -1.
    cut_value : float
        Sum of the weights of the edges between the two sides. It is at most the maximum cut, which is at most
        ``bound``.
    nodes : list or None
        Names of the nodes of a NetworkX graph, in the order of `cut`; None for matrices.

    See Also
    --------
    maxcut : Returns this result.
    SemidefiniteResult : The other attributes.

    Examples
    --------
    >>> import networkx as nx
    >>> from fwflow import semidefinite
    >>> r = semidefinite.maxcut(nx.cycle_graph("abcd"))
    >>> r.cut_value, sorted(sorted(side) for side in r.partition)
    (4.0, [['a', 'c'], ['b', 'd']])
    """

    cut: Array
    cut_value: float
    nodes: list[Hashable] | None

    def __repr__(self) -> str:
        return f"{super().__repr__()}\n{'cut_value':>13}: {self.cut_value:.10g}"

    @property
    def partition(self) -> tuple[list[Hashable], list[Hashable]]:
        """The nodes of the two sides, by name or, for matrices, by number."""
        names = range(len(self.cut)) if self.nodes is None else self.nodes
        sides = list(zip(names, self.cut, strict=True))
        return [name for name, side in sides if side > 0], [name for name, side in sides if side < 0]


def maxcut(
    A: Any,
    rtol: float = 1e-4,
    *,
    weight: str | None = "weight",
    max_time: float | None = None,
    max_iter: int = 100_000,
    rank: int | None = None,
    seed: int = 0,
    backend: str = "numpy",
    callback: Callable[[State], Any] | None = None,
    progress: bool = False,
) -> CutResult:
    r"""Find a large cut of a graph, and prove an upper bound on the maximum cut.

    The bound is that of the semidefinite relaxation (Goemans & Williamson, 1995),

    .. math::

       \max_X \; \tfrac14 \sum_{ij} A_{ij} (1 - X_{ij}) \quad \text{subject to} \quad X_{ii} = 1, \; X \succeq 0 .

    The cut is the best of several random roundings of X, each improved by moving single nodes.

    Parameters
    ----------
    A : sparse matrix, array or NetworkX graph
        Symmetric adjacency matrix with the weights of the edges, or an undirected graph. Weights may be negative. A
        sparse matrix may store each edge once, on one side of the diagonal. Self-loops have no effect.
    rtol : float
        The run succeeds if ``bound - value <= rtol * abs(bound)``; 1e-4 by default.
    weight : str, optional
        Edge attribute of a NetworkX graph with the weights; "weight" by default. Edges without it have weight 1.
    max_time : float, optional
        Time limit in seconds. Default: no limit.
    max_iter : int
        Largest number of iterations; 100000 by default.
    rank : int, optional
        Number of columns of the factor at the start. Default: at most 12. It grows as needed.
    seed : int
        Seed of the random start and of the rounding; 0 by default.
    backend : str
        "numpy" (the default) or "jax". JAX computes on a GPU if it finds one (``pip install 'fwflow[jax]'``).
    callback : callable, optional
        Function of the `State` that is called at every iterate. The run stops if it returns a true value.
    progress : bool
        Show a progress bar; False by default.

    Returns
    -------
    CutResult
        Cut, its value, the bound, and the solution of the relaxation.

    See Also
    --------
    solve : General semidefinite programs.
    theta : Bound on independent sets.

    Examples
    --------
    The maximum cut of a cycle of five nodes has value 4. The relaxation has the optimum 4.5225.

    >>> import scipy.sparse as sp
    >>> from fwflow import semidefinite
    >>> A = sp.diags_array([1.0, 1.0, 1.0, 1.0], offsets=[-1, 1, -4, 4], shape=(5, 5))
    >>> r = semidefinite.maxcut(A)
    >>> r.success, r.cut_value, round(r.bound, 2)
    (True, 4.0, 4.52)
    """
    matrix, nodes = _adjacency(A, weight)
    n, seed = matrix.shape[0], whole(seed, "seed", 0)
    laplacian = sp.diags_array(np.asarray(matrix.sum(axis=1)).ravel()) - matrix
    problem = Problem(laplacian / -4, diagonal_map(n), np.ones(n), trace=n)
    r = solve(
        problem,
        rtol,
        max_time=max_time,
        max_iter=max_iter,
        rank=rank,
        seed=seed,
        backend=backend,
        callback=callback,
        progress=progress,
    )
    cut = _rounded(matrix, r.Y, seed)
    fields = {**vars(r.negated()), "y": 0.0 - r.y}
    return CutResult(**fields, cut=cut, cut_value=cut_value(matrix, cut), nodes=nodes)


def _adjacency(A: Any, weight: str | None) -> tuple[sp.csr_array, list[Hashable] | None]:
    """Return the symmetric adjacency matrix of a graph without self-loops, and the names of its nodes."""
    nodes: list[Hashable] | None = None
    if is_networkx(A):
        edges = read_graph(A, "A", directed=False, weight=weight)
        nodes, n = edges.nodes, len(edges.nodes)
        upper = sp.csr_array((edges.weights, (edges.tails, edges.heads)), (n, n), dtype=np.float64)
        matrix = sp.csr_array(upper + upper.T)
    else:
        matrix = sp.csr_array(A if sp.issparse(A) else finite_array(A, "A", ndim=2), dtype=np.float64)
        if matrix.shape[0] == matrix.shape[1] and (sp.triu(matrix, 1).nnz == 0 or sp.tril(matrix, -1).nnz == 0):
            matrix = sp.csr_array(matrix + matrix.T)  # the diagonal has no effect
        matrix = symmetric(matrix, "A")
    if matrix.shape[0] == 0:
        raise InputError("A has no nodes; a cut needs at least one")
    if matrix.diagonal().any():
        matrix = sp.csr_array(matrix - sp.diags_array(matrix.diagonal()))
        matrix.eliminate_zeros()
    return matrix, nodes


def cut_value(A: sp.csr_array, cut: Array) -> float:
    """Return the sum of the weights between the two sides of a cut; exact for whole numbers."""
    entries = sp.triu(A, 1, format="coo")
    return math.fsum(entries.data[cut[entries.row] != cut[entries.col]])


def _rounded(A: sp.csr_array, Y: Array, seed: int) -> Array:
    """Return the best cut by random hyperplanes, after moving single nodes as long as that helps."""
    directions = np.random.default_rng(seed).standard_normal((Y.shape[1], _HYPERPLANES))
    sides = np.where(dot(Y, directions) >= 0, 1.0, -1.0)
    # Gains of the size of rounding errors could repeat for ever.
    least = 1e-12 * np.asarray(abs(A).sum(axis=1)).reshape(-1, 1)
    classes = [(nodes, sp.csr_array(A[nodes])) for nodes in colour_classes(A)]
    moved = True
    while moved:
        moved = False
        for nodes, rows in classes:
            # Moving a node changes the value by its product with the sum over its neighbours.
            wrong = np.asarray(dot(rows, sides)) * sides[nodes] > least[nodes]
            if wrong.any():
                moved = True
                sides[nodes] = np.where(wrong, -sides[nodes], sides[nodes])
    values = np.einsum("it,it->t", sides, dot(A, sides))
    return sides[:, int(np.argmin(values))].astype(np.int8)
