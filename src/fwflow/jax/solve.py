"""Front end of compiled runs: one problem, a batch of radii, and derivatives of the solution in the data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.flatten_util import ravel_pytree
from jax.scipy.sparse.linalg import cg

from fwflow._validation import InputError, whole
from fwflow.jax import loop
from fwflow.jax.loop import RUNNING, Result
from fwflow.jax.methods import Method, Multistep, Pairwise, ProjectedGradient, line_searches
from fwflow.jax.objectives import Objective, Smooth
from fwflow.jax.sets import Product, Set, as_jax_set
from fwflow.jax.trees import OPTIONS, Array, epsilon, floating, inner, is_concrete, undifferentiated
from fwflow.methods import DEFAULT_SCHEDULE, Request
from fwflow.methods import catalogue as core
from fwflow.run.paths import checked_radii
from fwflow.steps.momentum import Nesterov
from fwflow.steps.schedules import Schedule
from fwflow.steps.searches import ExactSearch
from fwflow.tableau.catalogue import find_tableau
from fwflow.tableau.scheme import Tableau

#: Methods that are not tableaus, by their names in the table of the core (`fwflow.methods.catalogue`).
_VARIANTS: dict[str, Callable[..., Method]] = {
    "apg": ProjectedGradient,
    "pairwise": Pairwise,
    "blended-pairwise": partial(Pairwise, blended=True),
}

# Iterations of a batch between two checks of the host for finished problems. Chosen without tuning.
_ROUND = 100
# Smallest size of a batch, and the smallest factor by which it shrinks: every size is compiled separately.
_SHRINK = 4


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
    """Minimise a smooth function over a convex set in one compiled run, on the device of the data.

    The call may be inside ``jit`` and ``vmap``: over radii, targets, weights, starting points and data. Arguments of
    equal shapes are compiled once.

    Parameters
    ----------
    f : LinearModel or Smooth
        Objective of ``fwflow.jax``.
    C : set, set of the core, or callable
        A set of ``fwflow.jax``, whose parameters may be traced; a set of the core, which is compiled or runs on the
        host; or a function ``g -> s`` that JAX can trace.
    x0 : array or tree of arrays, optional
        Point of the set. Default: the starting point of the set. A point outside is an error. Inside ``jit`` and
        ``vmap``, where no error can be raised, the run starts at the nearest member instead, or at the default starting
        point if the set has no projection.
    method : str or Tableau
        "fw" (plain Frank-Wolfe), any other name in ``fw.tableaus``, or a `Tableau`; "apg", accelerated projected
        gradient; "pairwise" and "blended-pairwise", on L1 balls and simplices. "auto" is "fw" if a schedule, line
        search or momentum is given. Otherwise it is "apg" if the set has a projection, and "fw" with exact line search
        if not.
    schedule : Schedule
        A schedule of the core, or a user's own whose ``gamma`` JAX can trace.
    line_search : {"aggressive", "exact"}, optional
        As in `fwflow.minimize`.
    momentum : {"nesterov"}, optional
        As in `fwflow.minimize`.
    tol, rtol : float
        Stop when the verified gap is at most ``max(tol, rtol * gap at the start)``; 1e-6 and 0 by default. With both
        zero, stop at `max_iter`.
    max_iter : int
        Largest number of iterations; 10000 by default.
    check_every : int, optional
        Number of iterations between two computations of the gap. It has an effect with momentum (default 1) and for
        "apg" (default 10), where a gap costs one more product with the data. Other methods compute the gap at every
        iterate.
    trace : bool
        Keep the value, gap and step size of every iteration; False by default. Each ``max_iter`` is then compiled
        separately.

    Returns
    -------
    Result
        Its derivatives are an error; `solution` has derivatives.

    See Also
    --------
    fwflow.minimize : All methods, on the host.
    path : Many radii at the same time.
    solution : Minimiser that can be differentiated.

    Examples
    --------
    >>> import jax, jax.numpy as jnp, fwflow.jax as fwj
    >>> A = jax.random.normal(jax.random.key(0), (50, 20))
    >>> fit = lambda b: fwj.minimize(fwj.LinearModel(A, b), fwj.L1Ball(1.0), method="heun", rtol=1e-3)
    >>> r = jax.vmap(fit)(A.T[:3])
    >>> r.success, r.x.argmax(axis=1), r.statuses[0].name
    (Array([ True,  True,  True], dtype=bool), Array([0, 1, 2], dtype=int32), 'TOLERANCE')
    """
    options = method, schedule, line_search, momentum
    f, C, chosen, x, limits, every, name = posed(f, C, x0, options, (tol, rtol, max_iter), check_every)
    rows = whole(max_iter, "max_iter", 0) + 1 if trace else 0
    given = f, C, chosen, x, limits
    f, C, chosen, x, limits = given if is_concrete(given) else undifferentiated(given)
    run = _alone if is_concrete(jnp.zeros(())) else _within  # Inside jit, even constants are traced.
    state = run(f, C, chosen, x, *limits, every=every, rows=rows)
    return loop.result(state, f.tree(state.point.x), name)


#: Compiler options belong to the outermost ``jit``, which may be the user's.
_within = jax.jit(loop.run, static_argnames=("every", "rows"))
_alone = jax.jit(loop.run, static_argnames=("every", "rows"), compiler_options=OPTIONS)


def path(
    f: Objective,
    C: Set | Any,
    radii: Any,
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
) -> Result:
    """Minimise over the same set at many radii, all at the same time.

    One matrix product computes the gradients of all radii. Finished problems are removed when the batch can shrink to a
    quarter or less. Batch sizes are powers of two, and each is compiled once: three for 64 radii. The arrays of the
    result have a leading axis, in the order of the radii.

    Parameters
    ----------
    C : set
        Any set with a radius; its own radius is not used.
    radii : (k,) array
        `fwflow.path` chooses radii, on the host.
    x0 : array or tree of arrays, optional
        Start of all runs, a member of the smallest set. Default: the start of each set.
    tol, rtol : float or (k,) array
        As for `minimize`, for all radii or for each.
    f, method, schedule, line_search, momentum, max_iter, check_every
        As for `minimize`.

    Returns
    -------
    Result

    See Also
    --------
    minimize : One radius.
    fwflow.path : Paths on the host, with automatic radii.

    Examples
    --------
    >>> import jax.numpy as jnp, fwflow.jax as fwj
    >>> R = fwj.path(fwj.LinearModel(jnp.eye(2), jnp.array([3.0, 1.0])), fwj.L1Ball(), [1.0, 2.0, 3.0])
    >>> R.x.round(3)
    Array([[1. , 0. ],
           [2. , 0. ],
           [2.5, 0.5]], dtype=float32)
    """
    _check_concrete(jnp.zeros(()), f, C, radii, x0, tol, rtol, max_iter)
    template = as_jax_set(C)
    if template.radius is None:
        raise InputError(f"C must be a set with a radius, such as L1Ball(); got {template!r}")
    given_radii = floating(checked_radii(radii))
    smallest = template.with_radius(given_radii.min())
    options = method, schedule, line_search, momentum
    f, _, chosen, x, limits, every, name = posed(f, smallest, x0, options, (tol, rtol, max_iter), check_every)
    _check_concrete(f)
    places = _padded(np.arange(len(given_radii)))
    each = given_radii.astype(x.dtype), *limits
    batch, *all_limits = (jnp.broadcast_to(part, given_radii.shape)[places] for part in each)
    states = latest = _begun(f, template, chosen, x, batch, *all_limits, started=x0 is not None)
    while True:
        states = _played(f, template, chosen, states, batch, every=every)
        running = np.flatnonzero(np.asarray(states.status) == RUNNING)
        kept = _padded(running)
        if len(running) and _SHRINK * len(kept) > len(places):
            continue
        latest = jax.tree.map(lambda all_, part, places=places: all_.at[places].set(part), latest, states)
        if not len(running):
            latest = jax.tree.map(lambda leaf: leaf[: len(given_radii)], latest)
            return loop.result(latest, jax.vmap(f.tree)(latest.point.x), name)
        batch, states = jax.tree.map(lambda leaf, at=kept: leaf[at], (batch, states))
        places = places[kept]


def _check_concrete(*parts: Any) -> None:
    if not is_concrete(parts):
        raise InputError(
            "fwj.path cannot be called inside jit, vmap or grad; use fwj.minimize in vmap, fwj.solution in grad"
        )


def _padded(places: Any) -> Any:
    """Return the places, repeated up to the next power of two."""
    return np.resize(places, max(_SHRINK, 1 << (len(places) - 1).bit_length()))


@partial(jax.jit, static_argnames="started", compiler_options=OPTIONS)
def _begun(f: Objective, C: Set, method: Method, x: Array, *each: Array, started: bool) -> loop.Carry:
    def begun(radius: Array, tol: Array, rtol: Array, max_iter: Array) -> loop.Carry:
        member = C.with_radius(radius)
        start = x if started else member.start(x.shape, x.dtype)
        return loop.begin(f, member, method, start, tol, rtol, max_iter, rows=0)

    return jax.vmap(begun)(*each)


@partial(jax.jit, static_argnames="every", compiler_options=OPTIONS)
def _played(f: Objective, C: Set, method: Method, states: loop.Carry, radii: Array, every: int) -> loop.Carry:
    return jax.vmap(lambda s, radius: loop.play(f, C.with_radius(radius), method, every, _ROUND, s))(states, radii)


def solution(f: Objective, C: Set | Any, x0: Any = None, **options: Any) -> Array:
    r"""Return the minimiser over an L1 ball or a simplex, differentiable in the radius and in all arrays of f.

    For small changes of the data, the solution stays on its face: the set S of its nonzero entries, with signs
    :math:`\sigma`. The optimality conditions on the face,

    .. math:: \nabla_S f(x) + \lambda\sigma_S = 0, \qquad \sigma_S^T x_S = r,

    are differentiated, for higher derivatives too. The solution must be accurate enough to determine its face
    (``tol``), and f must be strictly convex on it. A derivative costs some steps of conjugate gradients, each with a
    product with the Hessian.

    Parameters
    ----------
    f, C, x0, **options
        As for `minimize`.

    Returns
    -------
    array

    See Also
    --------
    minimize : Result with gap and status.
    path : Solutions for many radii.

    Examples
    --------
    >>> import jax, jax.numpy as jnp, fwflow.jax as fwj
    >>> f = fwj.LinearModel(jnp.eye(3), jnp.array([3.0, 2.0, 0.1]))
    >>> slopes = jax.jit(jax.jacobian(lambda radius: fwj.solution(f, fwj.L1Ball(radius))))
    >>> slopes(2.0).round(3)
    Array([0.5, 0.5, 0. ], dtype=float32)
    """
    f, C, start = _started(f, as_jax_set(C), x0)
    still_f, still_C, start = lax.stop_gradient((f, C, start))
    x = minimize(still_f, still_C, start, **options).x
    atoms = still_C.atoms(x)
    if atoms is None:
        raise InputError(f"C must be an L1Ball, a Simplex or a UnitSimplex to differentiate in its data; got {C!r}")
    signs, used = (part[: x.size].reshape(x.shape) for part in (jnp.sign(atoms[0]), atoms[1] > 0))
    # Weight of the origin: the solution is inside an L1 ball, where there is no face.
    interior = atoms[1][x.size :].sum() > 1e3 * epsilon(x.dtype)
    # Zeros may take both signs in a ball; in a simplex with the origin they stay at their bound.
    inside, normal = used | (interior & (signs == 0)), jnp.where(used & ~interior, signs, 0)
    length2 = jnp.maximum(inner(normal, normal), 1)

    def along(v: Array) -> Array:
        """Return the projection of v onto the directions of the face."""
        v = jnp.where(inside, v, 0)
        return v - (inner(normal, v) / length2) * normal

    def residual(x: Array) -> Array:
        """Return zero at the minimiser over the face: the gradient along it, and the distance from its plane."""
        return along(f.gradient(f.point(x))) + (x - along(x)) - (jnp.asarray(C.radius, x.dtype) / length2) * normal

    def solved(curved: Callable[[Array], Array], b: Array) -> Array:
        """Return v with ``curved(v) = b`` for the derivative of the residual, which is symmetric along the face."""
        outward = b - along(b)
        change = lax.custom_linear_solve(
            lambda v: along(curved(along(v))) + (v - along(v)),
            along(b - curved(outward)),
            solve=lambda operator, b: cg(operator, b, tol=10 * epsilon(b.dtype), maxiter=10 * x.size)[0],  # type: ignore
            symmetric=True,
        )
        return outward + along(change)

    return lax.custom_root(residual, x, lambda _, x: x, solved)


def posed(
    f: Any, C: Any, x0: Any, options: tuple[Any, Any, Any, Any], limits: tuple[Any, Any, Any], check_every: int | None
) -> tuple[Objective, Set, Method, Array, tuple[Array, Array, Array], int, str]:
    """Return the arguments of `loop.run`, the limits (tol, rtol, max_iter) as a tuple, and the name of the method."""
    f, C, x = _started(f, as_jax_set(C), x0)
    request = Request.checked(*options, names=(core.AUTO, *_VARIANTS))
    chosen, name = _chosen(C, x, request)
    every = chosen.check_every if check_every is None else whole(check_every, "check_every", 1)
    for limit, value in zip(("tol", "rtol", "max_iter"), limits, strict=True):
        if is_concrete(value) and not (np.asarray(value) >= 0).all():
            raise InputError(f"{limit} must not be negative; got {value!r}")
    tol, rtol, max_iter = map(jnp.asarray, limits, (x.dtype, x.dtype, jnp.int32))
    return f, C, chosen, x, (tol, rtol, max_iter), 1 if chosen.uses_iterate else every, name


def _started(f: Any, C: Set, x0: Any) -> tuple[Objective, Set, Array]:
    """Return the objective, the set and the start as functions of all traced numbers in them."""
    if not isinstance(f, Objective):
        raise InputError(f"f must be a fwflow.jax LinearModel or Smooth; got {type(f).__name__}")
    f, C, x = _start(f, C, x0)
    return f.opened(x), C.opened(x), x


def _start(f: Objective, C: Set, x0: Any) -> tuple[Objective, Set, Array]:
    if x0 is None:
        shape = f.shape if f.shape is not None else C.shape
        if shape is None:
            raise InputError("x0 is needed: neither the objective nor the set has a dimension")
        return f, C, C.start(shape, f.dtype or jnp.result_type(float))
    leaves = jax.tree.map(floating, x0, is_leaf=lambda part: isinstance(part, list))
    if isinstance(leaves, jax.Array):
        x = leaves if f.dtype is None else leaves.astype(f.dtype)
        if f.shape is not None and x.shape != f.shape:
            raise InputError(f"x0 has shape {x.shape}; the objective is defined on {f.shape}")
        return f, C, _inside(C, x)
    if not isinstance(f, Smooth):
        raise InputError(f"x0 must be an array for a linear model; got {type(x0).__name__}")
    f = f.on_trees(leaves)
    if isinstance(C, Product) and not C.shapes:
        C = Product(C.sets, f.shapes)
    return f, C, _inside(C, ravel_pytree(leaves)[0])


def _inside(C: Set, x: Array) -> Array:
    """Return x if it is a member. Otherwise raise or, if x is traced, return the nearest member or the start."""
    excess = C.excess(x)
    if excess is None:
        return x
    if is_concrete((C, x)):
        if float(excess) > loop.slack(x.dtype):
            raise InputError(f"x0 lies outside the set {C!r}")
        return x
    member = C.project(x)
    member = C.start(x.shape, x.dtype) if member is None else member
    return jnp.where(excess > loop.slack(x.dtype), member, x)


def _chosen(C: Set, x: Array, request: Request) -> tuple[Method, str]:
    if request.search not in (None, *line_searches):
        found = f"line_search={request.search!r}"
        raise InputError(f"{found} is not available in fwflow.jax; accepted: 'aggressive', 'exact'")
    if request.momentum not in (None, Nesterov()):
        raise InputError(f"momentum={request.momentum!r} is not available in fwflow.jax; accepted: 'nesterov'")
    method, name = request.method, request.name
    if not isinstance(method, str | Tableau):
        raise InputError(f"method must be a name or a Tableau in fwflow.jax; got {method!r}")
    if method == core.AUTO:
        projects = jax.eval_shape(C.project, x) is not None
        method = name = "apg" if request.plain and projects else "fw"
        if request.plain and not projects:
            request = replace(request, search=ExactSearch())
    if method in _VARIANTS:
        entry = core.VARIANTS[name]
        if jax.eval_shape(C.project if name == "apg" else C.atoms, x) is None:
            raise InputError(
                f"method={name!r} needs {entry.needs or 'an L1Ball, a Simplex or a UnitSimplex'}; got {C!r}"
            )
        return _VARIANTS[name](**request.options(name, entry.takes)), name
    tableau = method if isinstance(method, Tableau) else find_tableau(name)
    request.warn_if_uncertified(tableau, stacklevel=4)
    return Multistep.of(tableau, **request.options(name, core.tableau_entry(tableau, name).takes)), name
