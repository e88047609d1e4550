"""Linear minimisation oracles as an optimiser for JAX, in the form of optax.

Needs the extra ``optax``. `fwflow.torch` is the same optimiser for PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

try:
    import optax
except ImportError as error:
    raise ImportError("fwflow.optax needs optax; pip install 'fwflow[optax]' brings it") from error

import jax
import jax.numpy as jnp
import numpy as np

from fwflow._training import (
    NEWTON_SCHULZ,
    NEWTON_SCHULZ_STEPS,
    checked_choices,
    checked_name,
    checked_numbers,
    checked_rate,
    decay_rate,
    find_scheme,
    form,
    gap_of,
    polar,
    scaled,
    steepest,
    warn_if_uncertified,
    weights,
)
from fwflow._training import GapStop as GapStop
from fwflow._validation import InputError, positive
from fwflow.jax.sets import Oracle, Set, as_jax_set
from fwflow.jax.trees import either, inner, is_concrete
from fwflow.sets.base import ConstraintSet

__all__ = ["LMOState", "gap", "lmo"]


class LMOState(NamedTuple):
    """State of `lmo`.

    Attributes
    ----------
    count : int array
        Number of steps, for schedules of the learning rate.
    momentum : tree of arrays
        Average m of gradients.
    gap : tree of float arrays
        Frank-Wolfe gap of each parameter at the last step, before the weights moved; NaN if it is not known.
    skipped : int array
        Number of steps that changed nothing because a gradient was not finite.

    See Also
    --------
    lmo : Optimiser with this state.
    gap : Gap for given gradients.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from fwflow.optax import lmo
    >>> params = {"w": jnp.ones((2, 2)), "b": jnp.ones(2)}
    >>> optimizer = lmo(0.1, exact=True)
    >>> _, state = optimizer.update(params, optimizer.init(params), params)
    >>> round(float(state.total_gap), 3), int(state.skipped)
    (1.0, 0)
    """

    count: Any
    momentum: Any
    gap: Any
    skipped: Any

    @property
    def total_gap(self) -> Any:
        """Sum of the gaps of all parameters."""
        return _total(self.gap)


def lmo(
    learning_rate: Any,
    set: Any = "spectral",
    radius: Any = 1.0,
    momentum: Any = 0.1,
    nesterov: bool = False,
    constrained: bool = True,
    exact: bool = False,
    weight_decay: Any = 0.0,
    *,
    tableau: Any = "euler",
    kernels: str = "columns",
    ns_steps: int | None = None,
    ns_dtype: str | None = None,
) -> optax.GradientTransformationExtraArgs:
    """Return an optimiser that moves towards answers of linear minimisation oracles: Muon, Scion and others.

    For each parameter w with the gradient g and the set D, a step computes::

        m = (1 - momentum) m + momentum g              with m = 0 at the start
        d = m, or (1 - momentum) m + momentum g        if nesterov, with the new m
        s = LMO(d), which minimises <d, s> over D
        w = w + lr (s - w - weight_decay w)            if constrained
        w = w + lr (s - weight_decay w)                otherwise

    The constrained step is ``w = (1 - lr) w + lr s`` if the weight decay is zero: a step of Frank-Wolfe. Weights that
    are in D stay in D. The distance of other weights to D shrinks by the factor ``1 - lr`` in each step. The
    unconstrained step with a weight decay is a step of Frank-Wolfe over ``D / weight_decay``. Muon is this step for
    the spectral ball.

    Parameters
    ----------
    learning_rate : float, array or schedule
        Learning rate lr. The product ``lr * (constrained + weight_decay)`` must be at most 1.
    set : str, set, callable, or tree of these
        Set of each parameter, before it is scaled by the radius. The names are "spectral" (operator norm at most 1),
        "nuclear", "row" and "column" (Euclidean norm of each), "sign" (absolute value of each entry), "rms" (root mean
        square of all entries) and "l1". The first four are sets of matrices; vectors and scalars then use "rms". Sets
        of ``fwflow.jax`` are compiled. Sets of fwflow are compiled if ``fwflow.jax`` has them, and else run on the
        host. A callable is an oracle m -> s that JAX can trace. A tree may be a prefix of the tree of parameters.
    radius : float, array, or tree of these
        Factor of the set; 1 by default. It does not depend on the shape.
    momentum : float or array
        Weight of the new gradient, in (0, 1]. The default 0.1 is called 0.9 by most other optimisers.
    nesterov : bool
        Whether the oracle gets the average of m and g, as above; False by default.
    constrained : bool
        Whether the step is that of Frank-Wolfe; True by default.
    exact : bool
        Whether "spectral" computes a singular value decomposition. By default it makes Newton-Schulz iterations, whose
        answers have singular values between about 0.7 and 1.2 times the radius.
    weight_decay : float or array
        Decoupled weight decay, in units of the learning rate; 0 by default.
    tableau : str or Tableau
        Runge-Kutta scheme of a step; "euler" by default. Others need the argument ``grad_fn`` of ``update``, a function
        from parameters to gradients, and call it once for each stage after the first. All stages use the same learning
        rate, and m averages the gradients of all stages.
    kernels : str
        How an array with more than two axes is seen as matrices. "columns" (default): one matrix with a column for each
        index of the last axis, as for the convolutions of Flax. "rows": one matrix with a row for each index of the
        first axis. "stack": a matrix of the last two axes for each index of the others. "taps": a matrix of the first
        two axes for each index of the others.
    ns_steps : int, optional
        Number of Newton-Schulz iterations; 5 by default.
    ns_dtype : {None, "bfloat16", "float32"}
        Type of Newton-Schulz iterations; by default that of the parameter.

    Returns
    -------
    optax.GradientTransformationExtraArgs
        Functions ``init(params)`` and ``update(grads, state, params, grad_fn=None)``. The state is an `LMOState`.

    See Also
    --------
    fwflow.torch.LMO : The same optimiser for PyTorch.
    LMOState : State of the optimiser.
    gap : Gap for given gradients.
    fwflow.torch.GapStop : Stopping criterion, also ``fwflow.optax.GapStop``.

    Notes
    -----
    A step with a gradient that has NaN or infinity changes neither weights nor m. It sets the gaps in the state to NaN
    and counts in ``skipped``. Parameters of equal shapes share one call of the oracle. Empty parameters do not change.
    ``init`` raises an error for integer and complex parameters; use ``optax.masked`` for them.

    ``optax.inject_hyperparams`` takes callables for schedules and integers for numbers that change. It needs
    ``static_args="set"`` if the set is a callable, and ``static_args="ns_steps"`` if that is given.

    Examples
    --------
    >>> import jax, jax.numpy as jnp, optax
    >>> from fwflow.optax import lmo
    >>> x = jax.random.normal(jax.random.key(0), (64, 8))
    >>> y = x[:, :2]
    >>> params = {"w": jnp.zeros((8, 2)), "b": jnp.zeros(2)}
    >>> def loss(params):
    ...     return ((x @ params["w"] + params["b"] - y) ** 2).mean()
    >>> optimizer = lmo(optax.linear_schedule(0.2, 0.0, 100), momentum=1.0, exact=True)
    >>> @jax.jit
    ... def step(params, state):
    ...     updates, state = optimizer.update(jax.grad(loss)(params), state, params)
    ...     return optax.apply_updates(params, updates), state
    >>> state = optimizer.init(params)
    >>> for _ in range(100):
    ...     params, state = step(params, state)
    >>> bool(loss(params) < 1e-2), bool(jnp.linalg.norm(params["w"], 2) <= 1)
    (True, True)
    """
    scheme = find_scheme(tableau)
    options: dict[str, Any] = {"nesterov": nesterov, "constrained": constrained, "exact": exact, "kernels": kernels}
    options |= {"ns_steps": NEWTON_SCHULZ_STEPS if ns_steps is None else ns_steps, "ns_dtype": ns_dtype}
    options |= checked_choices(options)
    if is_concrete((momentum, weight_decay)):
        checked_numbers({"momentum": momentum, "weight_decay": weight_decay})
        if not callable(learning_rate) and is_concrete(learning_rate):
            rate = float(decay_rate(constrained, float(weight_decay)))
            lr = checked_rate(learning_rate, rate)
            if constrained:
                warn_if_uncertified(scheme, lr * rate)
    oracles = _Oracles(set, radius, exact, kernels, options["ns_steps"], ns_dtype)
    larger = max if isinstance(weight_decay, int | float) else jnp.maximum

    def init(params: Any) -> LMOState:
        oracles.check(params)
        return LMOState(
            count=jnp.zeros((), jnp.int32),
            momentum=jax.tree.map(lambda w: jnp.zeros_like(jnp.asarray(w)), params),
            gap=jax.tree.map(lambda _: jnp.full((), jnp.nan, jnp.float32), params),
            skipped=jnp.zeros((), jnp.int32),
        )

    def update(
        updates: Any, state: LMOState, params: Any = None, *, grad_fn: Callable[[Any], Any] | None = None, **_: Any
    ) -> tuple[Any, LMOState]:
        if params is None:
            raise InputError("lmo needs the parameters: update(grads, state, params)")
        if scheme.stages > 1 and grad_fn is None:
            raise InputError(
                f"{scheme.name} has {scheme.stages} stages; pass a function from parameters to gradients: "
                "update(grads, state, params, grad_fn=jax.grad(loss))"
            )
        updates, params = (jax.tree.map(jnp.asarray, tree) for tree in (updates, params))
        lr = learning_rate(state.count) if callable(learning_rate) else learning_rate
        kappa = decay_rate(constrained, weight_decay, larger)
        rows = weights(scheme, lr, kappa)
        m, finite, gaps = state.momentum, jnp.array(True), state.gap
        vertices: list[Any] = []
        for stage in range(scheme.stages):
            if stage:
                assert grad_fn is not None
                updates = grad_fn(optax.apply_updates(params, _change(params, rows[stage], vertices)))
            finite &= _all_finite(updates)
            m = jax.tree.map(lambda m, g: _mean(m, g, momentum), m, updates)
            d = jax.tree.map(lambda m, g: _mean(m, g, momentum), m, updates) if nesterov else m
            vertices.append(oracles.vertices(d))
            if not stage:
                gaps = _gaps(d, params, vertices[0], kappa)
        change = jax.tree.map(lambda step: jnp.where(finite, step, 0), _change(params, rows[-1], vertices))
        return change, LMOState(
            count=optax.safe_increment(state.count),
            momentum=either(finite, m, state.momentum),
            gap=jax.tree.map(lambda own: jnp.where(finite, own, jnp.nan), gaps),
            skipped=state.skipped + jnp.where(finite, 0, 1),
        )

    return optax.GradientTransformationExtraArgs(init, update)


def gap(
    grads: Any,
    params: Any,
    set: Any = "spectral",
    radius: Any = 1.0,
    *,
    exact: bool = True,
    kernels: str = "columns",
) -> Any:
    r"""Return the Frank-Wolfe gap :math:`\langle g, w - s \rangle` of each parameter, as a tree of float arrays.

    The vertices s minimise :math:`\langle g, s \rangle` over the sets. For gradients of the whole training loss and
    weights in the sets, the sum of all gaps is zero exactly at stationary points. For a convex loss it bounds the
    distance to the smallest loss over the sets.

    Parameters
    ----------
    grads : tree of arrays
        Gradients at the parameters.
    params : tree of arrays
        Parameters.
    set : str, set, callable, or tree of these
        Sets as in `lmo`.
    radius : float, array, or tree of these
        Factor of the sets; 1 by default.
    exact : bool
        Whether "spectral" computes a singular value decomposition, so that the gap is exact; True by default.
    kernels : str
        As in `lmo`; "columns" by default.

    See Also
    --------
    lmo : Optimiser that computes gaps in each step.
    fwflow.torch.GapStop : Stopping criterion, also ``fwflow.optax.GapStop``.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from fwflow.optax import gap
    >>> gap({"w": jnp.eye(2)}, {"w": jnp.zeros((2, 2))}, radius=3.0)
    {'w': Array(6., dtype=float32)}
    """
    options = {"nesterov": False, "constrained": True, "exact": exact, "kernels": kernels}
    steps = checked_choices(options | {"ns_steps": NEWTON_SCHULZ_STEPS, "ns_dtype": None})["ns_steps"]
    oracles = _Oracles(set, radius, exact, kernels, steps, None)
    oracles.check(params)
    return _gaps(grads, params, oracles.vertices(grads), 1.0)


class _Oracles:
    """Oracles of all parameters."""

    def __init__(self, set: Any, radius: Any, exact: bool, kernels: str, ns_steps: int, ns_dtype: str | None) -> None:
        self.set = jax.tree.map(_checked_set, set, is_leaf=_is_set)
        for own in jax.tree.leaves(radius):
            if is_concrete(own):
                positive(own, "radius")
        self.radius, self.exact, self.kernels, self.ns_steps, self.ns_dtype = radius, exact, kernels, ns_steps, ns_dtype

    def check(self, params: Any) -> None:
        """Raise an error if a parameter has no oracle."""
        sets = jax.tree.leaves(_broadcast(self.set, params, "sets"), is_leaf=_is_set)
        for (path, w), C in zip(jax.tree_util.tree_leaves_with_path(params), sets, strict=True):
            label = jax.tree_util.keystr(path)
            if not jnp.issubdtype(jnp.result_type(w), jnp.floating):
                raise InputError(
                    f"parameter {label} has type {jnp.result_type(w)}; lmo needs real floating-point numbers, so leave "
                    "it out with optax.masked"
                )
            if isinstance(C, Set) and C.shape is not None and C.shape != jnp.shape(w):
                raise InputError(f"parameter {label} has shape {jnp.shape(w)}; its set has members of shape {C.shape}")
        _broadcast(self.radius, params, "radii")

    def vertices(self, directions: Any) -> Any:
        """Return the vertices for all directions; named sets of equal shapes share a call."""
        paths, structure = jax.tree.flatten_with_path(directions)
        leaves = [d for _, d in paths]
        sets = jax.tree.leaves(_broadcast(self.set, directions, "sets"), is_leaf=_is_set)
        radii = jax.tree.leaves(_broadcast(self.radius, directions, "radii"))
        found: list[Any] = list(leaves)
        alike: dict[Any, list[int]] = {}
        for place, (d, C) in enumerate(zip(leaves, sets, strict=True)):
            if not d.size:
                continue
            if isinstance(C, str):
                alike.setdefault((form(C, d.shape, self.kernels), d.dtype), []).append(place)
            elif isinstance(C, Oracle):
                found[place] = radii[place] * _answer(C, d, jax.tree_util.keystr(paths[place][0]))
            else:
                found[place] = radii[place] * C.lmo(d).added_to(jnp.zeros_like(d), 1)
        for (shape, _), places in alike.items():
            x = jnp.concatenate([shape.matrices(jnp, leaves[place]) for place in places])
            parts = jnp.split(self._steepest(shape.kind, x), len(places))
            for place, part in zip(places, parts, strict=True):
                found[place] = -radii[place] * shape.scale * shape.tensor(jnp, part)
        return jax.tree.unflatten(structure, found)

    def _steepest(self, kind: str, x: Any) -> Any:
        if kind == "spectral" and not self.exact:
            return _newton_schulz(x, self.ns_steps, self.ns_dtype)
        # Accelerators multiply matrices in low precision unless they are told otherwise.
        with jax.default_matmul_precision("highest"):
            return steepest(jnp, kind, _wide(x), lambda x: polar(jnp, x))


def _newton_schulz(x: Any, steps: int, dtype: str | None) -> Any:
    """Return approximations of U V^T for a stack of matrices."""
    a, b, c = NEWTON_SCHULZ
    x = scaled(jnp, x, (1, 2)).astype(dtype or x.dtype)
    squares = jnp.square(x.astype(jnp.promote_types(x.dtype, jnp.float32))).sum((1, 2), keepdims=True)
    # The norm of a scaled matrix is at least 1, unless the matrix is zero.
    x = x / jnp.sqrt(jnp.maximum(squares, 1)).astype(x.dtype)
    tall = x.shape[1] > x.shape[2]
    x = x.mT if tall else x
    for _ in range(steps):
        A = x @ x.mT
        x = a * x + (b * A + c * A @ A) @ x
    return x.mT if tall else x


def _is_set(value: Any) -> bool:
    return isinstance(value, str | Set | ConstraintSet) or callable(value)


def _checked_set(C: Any) -> Any:
    return as_jax_set(C) if isinstance(C, Set | ConstraintSet) or callable(C) else checked_name(C)


def _answer(C: Oracle, d: Any, label: str) -> Any:
    """Return the vertex of a callable, which must be one real array of the shape of the direction."""
    s: Any = C.oracle(d)
    if not isinstance(s, jax.Array | np.ndarray | np.generic | float | int):
        found = type(s).__name__
    elif jnp.shape(s) != d.shape or jnp.iscomplexobj(s):
        found = f"shape {jnp.shape(s)} and type {jnp.result_type(s)}"
    else:
        return jnp.asarray(s, d.dtype)
    raise InputError(f"set must return a real array of shape {d.shape} for parameter {label}; got {found}")


def _broadcast(prefix: Any, tree: Any, name: str) -> Any:
    """Return the prefix of a tree as a tree with one value for each leaf."""
    try:
        return jax.tree.map(lambda value, part: jax.tree.map(lambda _: value, part), prefix, tree, is_leaf=_is_set)
    except (TypeError, ValueError):
        given = [path for path, _ in jax.tree.leaves_with_path(prefix, is_leaf=_is_set)]
        wanted = [path for path, _ in jax.tree.leaves_with_path(tree)]
    without = [w for w in wanted if not any(w[: len(g)] == g for g in given)]
    unused = [g for g in given if not any(w[: len(g)] == g for w in wanted)]
    wrong = [f"parameter {jax.tree_util.keystr(path)} has no entry" for path in without[:1]]
    wrong += [f"entry {jax.tree_util.keystr(path)} belongs to no parameter" for path in unused[:1]]
    raise InputError(
        f"the tree of {name} must be a prefix of the tree of parameters; "
        f"{' and '.join(wrong) or 'its containers have other types'}"
    )


def _wide(x: Any) -> Any:
    return x.astype(jnp.promote_types(x.dtype, jnp.float32))


def _mean(m: Any, g: Any, momentum: Any) -> Any:
    return ((1 - momentum) * m + momentum * g).astype(m.dtype)


def _change(params: Any, row: tuple[Any, list[Any]], vertices: list[Any]) -> Any:
    """Return the change of the parameters of a stage or step, computed at least in float32."""
    decay, shares = row

    def own(w: Any, *s: Any) -> Any:
        return (sum(a * _wide(one) for a, one in zip(shares, s, strict=True)) - decay * _wide(w)).astype(w.dtype)

    return jax.tree.map(own, params, *vertices[: len(shares)])


def _all_finite(tree: Any) -> Any:
    return jnp.array([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(tree)], bool).all()


def _gaps(directions: Any, params: Any, vertices: Any, kappa: Any) -> Any:
    def own(d: Any, w: Any, s: Any) -> Any:
        return gap_of(inner(_wide(d), w), inner(_wide(d), s), kappa, jnp.where).astype(jnp.float32)

    return jax.tree.map(own, directions, params, vertices)


def _total(tree: Any) -> Any:
    return sum(jax.tree.leaves(tree), start=jnp.zeros((), jnp.float32))
