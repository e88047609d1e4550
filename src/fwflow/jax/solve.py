"""minimize(): arguments as users give them, checked and made into one compiled run."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from fwflow._validation import suggest, whole
from fwflow.jax import loop
from fwflow.jax.methods import Method, Multistep, Pairwise, ProjectedGradient
from fwflow.jax.objectives import Objective, Smooth
from fwflow.jax.result import Result
from fwflow.jax.sets import Product, Set, as_jax_set
from fwflow.jax.steps import as_gamma, check_search
from fwflow.jax.trees import OPTIONS, Array, floating, known, traced
from fwflow.methods import DEFAULT_SCHEDULE, UncertifiedWarning
from fwflow.steps.schedules import Schedule
from fwflow.tableau.catalogue import find_tableau
from fwflow.tableau.scheme import Tableau

_OTHERS = ("auto", "apg", "pairwise", "blended-pairwise")


class CompiledProblem(NamedTuple):
    """Everything that a run needs, on arrays; `tree` makes of x what the user's x0 was."""

    f: Objective
    C: Set
    method: Method
    name: str
    x: Array
    every: int
    tree: Callable[[Array], Any]


def minimize(
    f: Objective,
    C: Set | Any,
    x0: Any = None,
    *,
    method: str | Tableau = "auto",
    schedule: Schedule = DEFAULT_SCHEDULE,
    line_search: str | None = None,
    momentum: str | None = None,
    tol: Any = 1e-6,
    rtol: Any = 0.0,
    max_iter: int = 10_000,
    check_every: int | None = None,
    trace: bool = False,
) -> Result:
    """Minimise a smooth function over a convex set in one compiled run, on whatever device the data is.

    It may be called inside of ``jit`` and ``vmap``: over radii, targets, weights, starts and data. Equal shapes are
    compiled once.

    Parameters
    ----------
    f : LinearModel or Smooth
    C : set, set of the core, or callable
        Sets of ``fwflow.jax``, of which parameters may be traced; those of the core, as their twins or on the host; or
        a function ``g -> s`` that JAX can trace.
    x0 : array or tree of arrays, optional
        A point of the set. Default: the start of the set. A point outside is an error. Within ``jit`` and ``vmap``,
        where a point cannot be refused, the run starts at the member nearest to it, or at the start of a set that has
        no projection.
    method : str or Tableau
        "fw" (plain Frank-Wolfe), any other name in ``fw.tableaus``, or a `Tableau`; "apg", accelerated projected
        gradient; "pairwise" and "blended-pairwise", on L1 balls and simplices. "auto" is "fw" if a schedule, line
        search or momentum is given; else "apg" where the set has a projection, and "fw" with exact line search where
        it has none.
    schedule : Schedule
        One of the core's, or your own whose ``gamma`` JAX can trace.
    line_search : {"aggressive", "exact"}, optional
    momentum : {"nesterov"}, optional
    tol, rtol : float
        Stop when the verified gap is at most ``max(tol, rtol * gap at the start)``; with both zero at the limit.
    max_iter : int
    check_every : int, optional
        Compute the gap at every so many iterations only. It matters where it is an extra pass over the data: with
        momentum (default 1) and for "apg" (default 10).
    trace : bool
        Keep the value, gap and step of every iteration; each ``max_iter`` is then compiled for itself.

    Returns
    -------
    Result

    Examples
    --------
    >>> import jax, jax.numpy as jnp, fwflow.jax as fwj
    >>> A = jax.random.normal(jax.random.key(0), (50, 20))
    >>> fit = lambda b: fwj.minimize(fwj.LinearModel(A, b), fwj.L1Ball(1.0), method="heun", rtol=1e-3)
    >>> r = jax.vmap(fit)(A.T[:3])
    >>> r.success, r.x.argmax(axis=1), r.statuses[0].name
    (Array([ True,  True,  True], dtype=bool), Array([0, 1, 2], dtype=int32), 'TOLERANCE')
    """
    problem = posed(f, C, x0, method, schedule, line_search, momentum, check_every)
    limits = checked_limits(tol, rtol, max_iter, problem.x.dtype)
    rows = whole(max_iter, "max_iter", 0) + 1 if trace else 0
    run = _within if traced() else _alone
    state = run(problem.f, problem.C, problem.method, limits, problem.x, problem.every, rows)
    found = loop.result(state, problem.name)
    return replace(found, x=problem.tree(found.x))


#: The options of a compiler belong to the outermost ``jit``, which may be the user's.
_STATIC = ("every", "rows")
_alone = jax.jit(loop.run, static_argnames=_STATIC, compiler_options=OPTIONS)
_within = jax.jit(loop.run, static_argnames=_STATIC)


def checked_limits(tol: Any, rtol: Any, max_iter: Any, dtype: Any) -> loop.Limits:
    """Tolerances and limit, checked as far as they are known."""
    for name, value in (("tol", tol), ("rtol", rtol), ("max_iter", max_iter)):
        if known(value) and not (np.asarray(value) >= 0).all():
            raise ValueError(f"{name} must not be negative; got {value!r}")
    return loop.Limits(jnp.asarray(tol, dtype), jnp.asarray(rtol, dtype), jnp.asarray(max_iter, jnp.int32))


def posed(
    f: Any, C: Any, x0: Any, method: Any, schedule: Any, line_search: Any, momentum: Any, check_every: int | None
) -> CompiledProblem:
    """The problem that the arguments mean."""
    if not isinstance(f, Objective):
        raise ValueError(f"f must be a fwflow.jax LinearModel or Smooth; got {type(f).__name__}")
    C = as_jax_set(C)
    f, C, x, tree = _started(f, C, x0)
    chosen, name = _chosen(C, x, method, schedule, line_search, momentum)
    every = chosen.check_every if check_every is None else whole(check_every, "check_every", 1)
    return CompiledProblem(f, C, chosen, name, x, 1 if chosen.uses_iterate else every, tree)


def _started(f: Objective, C: Set, x0: Any) -> tuple[Objective, Set, Array, Callable[[Array], Any]]:
    if x0 is None:
        shape = f.shape if f.shape is not None else C.shape
        if shape is None:
            raise ValueError("x0 is needed: neither the objective nor the set knows the dimension")
        return f, C, C.start(shape, f.dtype or jnp.result_type(float)), lambda x: x
    leaves = jax.tree.map(floating, x0) if _is_tree(x0) else floating(x0)
    if isinstance(leaves, jax.Array):
        x = leaves if f.dtype is None else leaves.astype(f.dtype)
        if f.shape is not None and x.shape != f.shape:
            raise ValueError(f"x0 has shape {x.shape}; the objective is defined on {f.shape}")
        return f, C, _inside(C, x), lambda x: x
    if not isinstance(f, Smooth):
        raise ValueError(f"x0 must be an array for a linear model; got {type(x0).__name__}")
    shapes = tuple(leaf.shape for leaf in jax.tree.leaves(leaves))
    if isinstance(C, Product) and not C.shapes:
        C = Product(C.sets, shapes)
    x, tree = ravel_pytree(leaves)
    return Smooth(OnTrees(f.fun, jax.tree.structure(leaves), shapes), *f.args), C, _inside(C, x), tree


def _is_tree(x0: Any) -> bool:
    return isinstance(x0, dict | tuple) or not isinstance(x0, list | float | int | np.ndarray | jax.Array)


def _inside(C: Set, x: Array) -> Array:
    """Return x if it is a member; otherwise raise or, while JAX traces, return the nearest member or the start."""
    excess = C.excess(x)
    if excess is None:
        return x
    if known((C, x)):
        if float(excess) > loop.slack(x.dtype):
            raise ValueError(f"x0 lies outside the set {C!r}")
        return x
    member = C.project(x)
    member = C.start(x.shape, x.dtype) if member is None else member
    return jnp.where(excess > loop.slack(x.dtype), member, x)


@dataclass(frozen=True)
class OnTrees:
    """A function of trees as one of vectors; equal to others of the same function, so that it is compiled once."""

    fun: Callable[..., Any]
    structure: Any
    shapes: tuple[tuple[int, ...], ...]

    def __call__(self, x: Array, *args: Any) -> Any:
        """The function at the tree that the vector stands for."""
        parts = jnp.split(x, np.cumsum([int(np.prod(shape)) for shape in self.shapes])[:-1])
        leaves = [part.reshape(shape) for part, shape in zip(parts, self.shapes, strict=True)]
        return self.fun(jax.tree.unflatten(self.structure, leaves), *args)


def _chosen(C: Set, x: Array, method: Any, schedule: Any, line_search: Any, momentum: Any) -> tuple[Method, str]:
    if not isinstance(schedule, Schedule):
        raise ValueError(f"schedule must be a Schedule such as fw.OpenLoop(c=2.0); got {schedule!r}")
    if not isinstance(method, str | Tableau):
        raise ValueError(f"method must be a name or a Tableau; got {method!r}")
    if momentum not in (None, "nesterov"):
        raise ValueError(f"momentum={momentum!r} is not known to fwflow.jax; {suggest(momentum, ['nesterov'])}")
    check_search(line_search)
    plain = schedule is DEFAULT_SCHEDULE and momentum is None
    if method == "auto":
        if plain and line_search is None:
            method, line_search = ("apg", None) if _offers(C.project, x) else ("fw", "exact")
        else:
            method = "fw"
    if method in _OTHERS:
        if not plain:
            raise ValueError(f"momentum and schedule belong to tableaus; method={method!r} has none")
        return _named(C, x, str(method), line_search), str(method)
    tableau = method if isinstance(method, Tableau) else find_tableau(method, others=_OTHERS)
    if not schedule.certifies(tableau):
        warnings.warn(
            f"tableau {tableau.name!r} is not certified for {schedule}: iterates may leave the set. "
            "The result's feasible field tells whether the returned point did.",
            UncertifiedWarning,
            stacklevel=4,
        )
    name = method if isinstance(method, str) else tableau.name
    return Multistep.of(tableau, as_gamma(schedule), line_search, momentum == "nesterov"), name


def _offers(member: Callable[[Array], Any], x: Array) -> bool:
    """Whether a set answers for such an x, found out without computing the answer."""
    return jax.eval_shape(member, x) is not None


def _named(C: Set, x: Array, name: str, line_search: str | None) -> Method:
    if name == "apg":
        if line_search is not None:
            raise ValueError('line_search belongs to other methods; method="apg" finds its own lengths')
        if not _offers(C.project, x):
            raise ValueError(f'method="apg" needs a set with a projection; {C!r} has none')
        return ProjectedGradient()
    if not _offers(C.atoms, x):
        raise ValueError(f"method={name!r} needs an L1Ball or a Simplex; got {C!r}")
    return Pairwise(name == "blended-pairwise", line_search or "exact")
