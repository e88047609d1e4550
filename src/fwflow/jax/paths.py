"""Runs for many radii at the same time, in a batch that shrinks as problems finish."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fwflow.jax import loop
from fwflow.jax.methods import Method
from fwflow.jax.objectives import Objective
from fwflow.jax.result import RUNNING, Result
from fwflow.jax.sets import Set, as_jax_set
from fwflow.jax.solve import checked_limits, posed
from fwflow.jax.trees import OPTIONS, Array, floating
from fwflow.methods import DEFAULT_SCHEDULE
from fwflow.run.paths import checked_radii
from fwflow.steps.schedules import Schedule
from fwflow.tableau.scheme import Tableau

# Iterations between two checks of the host for finished problems. Chosen without tuning.
_ROUND = 100
# The smallest size of a batch, and the smallest factor by which it shrinks: every size is compiled separately.
_SHRINK = 4


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
    quarter or less. Batch sizes are powers of two, and each is compiled once: three for 64 radii.

    Parameters
    ----------
    f : LinearModel or Smooth
    C : set
        Any set with a radius; its own radius is not used.
    radii : (k,) array
        `fwflow.path` chooses radii, on the host.
    x0 : array or tree of arrays, optional
        Start of all runs, a member of the smallest set. Default: the start of each set.
    tol, rtol : float or (k,) array
    method, schedule, line_search, momentum, max_iter, check_every
        As for `minimize`.

    Returns
    -------
    Result
        Its arrays have a leading axis, in the order of the radii.

    Examples
    --------
    >>> import jax.numpy as jnp, fwflow.jax as fwj
    >>> R = fwj.path(fwj.LinearModel(jnp.eye(2), jnp.array([3.0, 1.0])), fwj.L1Ball(), [1.0, 2.0, 3.0])
    >>> R.x.round(3)
    Array([[1. , 0. ],
           [2. , 0. ],
           [2.5, 0.5]], dtype=float32)
    """
    template = as_jax_set(C)
    radii = floating(checked_radii(radii))
    smallest = template.with_radius(radii.min())
    if smallest is None:
        raise ValueError(f"C must be a set with a radius, such as L1Ball(); got {template!r}")
    problem = posed(f, smallest, x0, method, schedule, line_search, momentum, check_every)
    dtype = problem.x.dtype
    limits = checked_limits(tol, rtol, max_iter, dtype)
    each = (radii.astype(dtype), *(jnp.broadcast_to(part, radii.shape) for part in limits))
    given = problem.f, template, problem.method
    places = _padded(np.arange(len(radii)))
    batch = [part[places] for part in each]
    now = whole = _begun(*given, problem.x, *batch, started=x0 is not None)
    while True:
        now = _played(*given, now, *batch, every=problem.every)
        running = np.flatnonzero(np.asarray(now.status) == RUNNING)
        chosen = _padded(running)
        if len(running) and _SHRINK * len(chosen) > len(places):
            continue
        whole = jax.tree.map(lambda all_, part, places=places: all_.at[places].set(part), whole, now)
        if not len(running):
            ended = jax.tree.map(lambda leaf: leaf[: len(radii)], whole)
            found = loop.result(ended, problem.name)
            return replace(found, x=jax.vmap(problem.tree)(found.x))
        batch, now = jax.tree.map(lambda leaf, at=chosen: leaf[at], (batch, now))
        places = places[chosen]


def _padded(places: Any) -> Any:
    """Return the places, repeated up to the next power of two."""
    return np.resize(places, max(_SHRINK, 1 << (len(places) - 1).bit_length()))


@partial(jax.jit, static_argnames="started", compiler_options=OPTIONS)
def _begun(f: Objective, C: Set, method: Method, x: Array, *each: Array, started: bool) -> loop.Carry:
    def begun(radius: Array, *limits: Array) -> loop.Carry:
        member = _at(C, radius)
        start = x if started else member.start(x.shape, x.dtype)
        return loop.begin(f, member, method, loop.Limits(*limits), start, 0)

    return jax.vmap(begun)(*each)


@partial(jax.jit, static_argnames="every", compiler_options=OPTIONS)
def _played(f: Objective, C: Set, method: Method, states: loop.Carry, *each: Array, every: int) -> loop.Carry:
    def played(state: loop.Carry, radius: Array, *limits: Array) -> loop.Carry:
        return loop.play(f, _at(C, radius), method, loop.Limits(*limits), every, _ROUND, state)

    return jax.vmap(played)(states, *each)


def _at(C: Set, radius: Array) -> Set:
    member = C.with_radius(radius)
    assert member is not None  # `path` refuses sets without a radius
    return member
