"""Linear minimisation oracles as an optimiser for PyTorch.

Needs the extra ``torch``. `fwflow.optax` is the same optimiser for JAX.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

try:
    import torch
    from torch import Tensor
except ImportError as error:
    raise ImportError("fwflow.torch needs PyTorch; pip install 'fwflow[torch]' brings it") from error

from fwflow._training import (
    NEWTON_SCHULZ,
    NEWTON_SCHULZ_STEPS,
    NORMS,
    Form,
    Gap,
    GapStop,
    batches,
    checked_choices,
    checked_name,
    checked_numbers,
    checked_rate,
    decay_rate,
    find_scheme,
    form,
    gap_of,
    polar,
    steepest,
    warn_if_uncertified,
    weights,
)
from fwflow._validation import InputError, describe, positive
from fwflow.sets.base import ConstraintSet
from fwflow.tableau.catalogue import tableaus
from fwflow.tableau.scheme import Tableau

__all__ = ["LMO", "Gap", "GapStop"]

# Number of entries of tensors that are stacked for one call of an oracle on the CPU: 4 MB of float32. It bounds the
# memory. Devices get four times as many entries, because they need larger products to be fast.
_BATCH = 2**20
_WIDE = (torch.float32, torch.float64)
# Names in the state of a parameter: the average m, and the weights in float32.
_STATE = ("momentum_buffer", "master")


@dataclass(frozen=True, eq=False)
class _Work:
    """A parameter with a gradient, and the options of its group."""

    label: str | int
    parameter: Tensor
    state: dict[str, Any]
    options: Mapping[str, Any]
    lr: float
    kappa: float

    @property
    def form(self) -> Form:
        return form(self.options["set"], tuple(self.parameter.shape), self.options["kernels"])

    @property
    def named(self) -> bool:
        return isinstance(self.options["set"], str)

    @property
    def factor(self) -> float:
        """Number r with s = -r D, where D is the answer of `_answers`."""
        return float(self.options["radius"]) * (self.form.scale if self.named else 1.0)

    @property
    def may_fail(self) -> bool:
        """Whether the oracle may raise for a finite direction: a user's one, or a decomposition."""
        return not self.named or (self.form.kind == "spectral" and self.options["exact"]) or self.form.kind == "nuclear"

    def weights(self) -> Tensor:
        """Return the tensor that steps change: the parameter, or its copy in float32 if its type is narrower.

        Narrow types round small changes to zero. Parameters that were changed elsewhere replace their copy.
        """
        p, copy = self.parameter, self.state.get("master")
        if p.dtype in _WIDE:
            return p
        self.state["master"] = p.float() if copy is None else torch.where(copy.to(p.dtype) == p, copy, p.float())
        return self.state["master"]

    def move(self, start: Tensor | None, decay: float, terms: Iterable[tuple[float, Tensor]]) -> None:
        """Set the weights to ``w - decay w - factor sum_j share_j D_j``, where w are those at the start."""
        w = self.weights()
        if start is not None:
            w.copy_(start)
        w.mul_(1 - decay)
        for share, answer in terms:
            w.add_(answer, alpha=-share * self.factor)
        if w is not self.parameter:
            self.parameter.copy_(w)


class LMO(torch.optim.Optimizer):
    """Optimiser that moves towards the answers of linear minimisation oracles: Muon, Scion, sign descent and others.

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
    params : iterable
        Parameters, pairs of names and parameters, or groups as for every optimiser of PyTorch. A group may have its own
        values of all options below up to ``ns_dtype``.
    lr : float
        Learning rate. The product ``lr * (constrained + weight_decay)`` must be at most 1. Schedulers of PyTorch may
        change it; ``OneCycleLR`` and ``CyclicLR`` need ``cycle_momentum=False``.
    set : str, ConstraintSet or callable
        Set of each parameter, before it is scaled by the radius. The names are "spectral" (operator norm at most 1),
        "nuclear", "row" and "column" (Euclidean norm of each), "sign" (absolute value of each entry), "rms" (root mean
        square of all entries) and "l1". The first four are sets of matrices; vectors and scalars then use "rms". A
        set of fwflow runs on the host in float64. A callable is an oracle m -> s for tensors.
    radius : float
        Factor of the set; 1 by default. It does not depend on the shape.
    momentum : float
        Weight of the new gradient, in (0, 1]. The default 0.1 is called 0.9 by most other optimisers. With 1, no buffer
        is kept.
    nesterov : bool
        Whether the oracle gets the average of m and g, as above; False by default.
    constrained : bool
        Whether the step is that of Frank-Wolfe; True by default.
    exact : bool
        Whether "spectral" computes a singular value decomposition. By default it makes Newton-Schulz iterations, whose
        answers have singular values between about 0.7 and 1.2 times the radius.
    weight_decay : float
        Decoupled weight decay, in units of the learning rate; 0 by default.
    tableau : str or Tableau
        Runge-Kutta scheme of a step; "euler" by default. Others evaluate the closure once for each stage. All stages
        use the same learning rate, and m averages the gradients of all stages.
    kernels : str
        How a tensor with more than two axes is seen as matrices. "rows" (default): one matrix with a row for each index
        of the first axis. "columns": one matrix with a column for each index of the last axis. "taps": a matrix of the
        first two axes for each index of the others. "stack": a matrix of the last two axes for each index of the
        others.
    ns_steps : int
        Number of Newton-Schulz iterations; 5 by default.
    ns_dtype : {None, "bfloat16", "float32"}
        Type of Newton-Schulz iterations. None, the default, means bfloat16 on accelerators, and on the CPU the type of
        the parameter.
    check_finite : bool
        Whether a gradient with NaN or infinity raises an error before anything changes; True by default. The check
        waits for the device once per step. Without it, such gradients make weights NaN, as in PyTorch.
    track_gap : bool
        Whether steps compute ``last_gap``; False by default.

    See Also
    --------
    fwflow.optax.lmo : The same optimiser for optax.
    GapStop : Stopping criterion.
    Gap : Gaps of all parameters.

    Notes
    -----
    Tensors of equal shapes share calls of the oracle. The state is one buffer for each parameter, m, and a copy in
    float32 of weights of bfloat16 and float16, for which small steps would be rounded to zero. A tableau with several
    stages also keeps the weights and one vertex for each stage during a step.

    Parameters may be sharded (``DTensor``, ``fully_shard``). The ranks then gather the direction of one batch of
    tensors at a time, gaps are sums over all ranks, and a gradient that is not finite raises an error on all ranks.

    Empty parameters and parameters without a gradient do not change. Sparse and complex gradients raise an error. An
    error leaves the weights as they were, unless the memory ends during a step.

    Examples
    --------
    >>> import torch
    >>> from fwflow.torch import LMO
    >>> _ = torch.manual_seed(0)
    >>> x, y = torch.randn(64, 8), torch.randn(64, 2)
    >>> model = torch.nn.Linear(8, 2)
    >>> optimizer = LMO(model.named_parameters(), lr=0.1, momentum=1.0, exact=True, track_gap=True)
    >>> for step in range(50):
    ...     optimizer.zero_grad()
    ...     torch.nn.functional.mse_loss(model(x), y).backward()
    ...     optimizer.step()
    >>> bool(torch.linalg.matrix_norm(model.weight, 2) <= 1)
    True
    >>> sorted(optimizer.last_gap.tensors)
    ['bias', 'weight']
    """

    def __init__(
        self,
        params: Any,
        lr: float,
        set: Any = "spectral",
        radius: float = 1.0,
        momentum: float = 0.1,
        nesterov: bool = False,
        constrained: bool = True,
        exact: bool = False,
        weight_decay: float = 0.0,
        *,
        tableau: Any = "euler",
        kernels: str = "rows",
        ns_steps: int = NEWTON_SCHULZ_STEPS,
        ns_dtype: str | None = None,
        check_finite: bool = True,
        track_gap: bool = False,
    ) -> None:
        self._tableau = find_scheme(tableau)
        self._check_finite, self._track_gap = bool(check_finite), bool(track_gap)
        self._gaps: dict[str | int, Tensor] = {}
        defaults = {
            "lr": lr,
            "set": set,
            "radius": radius,
            "momentum": momentum,
            "nesterov": nesterov,
            "constrained": constrained,
            "exact": exact,
            "weight_decay": weight_decay,
            "kernels": kernels,
            "ns_steps": ns_steps,
            "ns_dtype": ns_dtype,
        }
        self._options = tuple(defaults)
        super().__init__(params, _checked(defaults))
        for group in self.param_groups:
            if group["constrained"]:
                warn_if_uncertified(self._tableau, float(group["lr"]) * _kappa(group))

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group of parameters, with its own values of options."""
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        try:
            group.update(_checked(group))
            for label, parameter in _labelled(group, sum(len(other["params"]) for other in self.param_groups[:-1])):
                _check_parameter(label, parameter, group)
        except InputError:
            self.param_groups.pop()
            raise

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Make one step, and return the loss of the closure at the weights before the step.

        Parameters
        ----------
        closure
            Function that computes the gradients at the current weights and returns the loss. A tableau with several
            stages needs it and calls it once for each stage.
        """
        if self._tableau.stages > 1:
            return self._stages(closure)
        loss = None if closure is None else _called(closure)
        work = self._work()
        gaps: dict[str | int, Any] = dict.fromkeys(one.label for one in work)

        def solved(batch: list[_Work]) -> list[tuple[_Work, Tensor]]:
            directions = [_direction(one, *self._average(one)) for one in batch]
            answers = _answers(batch, directions)
            if self._track_gap:
                gaps.update(_gaps(batch, directions, answers))
            return list(zip(batch, answers, strict=True))

        # No weight moves before the last call that may raise. The answers of other calls are not kept.
        calls = _batches(work)
        kept = [solved(batch) for batch in calls if batch[0].may_fail]
        for answers in chain(kept, (solved(batch) for batch in calls if not batch[0].may_fail)):
            for one, answer in answers:
                one.move(None, one.lr * one.kappa, [(one.lr, answer)])
        self._gaps = gaps
        return loss

    def gap(self) -> Gap:
        r"""Return the Frank-Wolfe gaps :math:`\langle g, w - s \rangle` of the gradients g in ``.grad``.

        The vertices s minimise :math:`\langle g, s \rangle` over the sets. The momentum does not matter. For gradients
        of the whole training loss, the gap is zero exactly at stationary points, and for a convex loss it bounds the
        distance to the smallest loss over the sets. A weight decay changes the sets as the class describes. Without any
        decay, there is no set, and the gap is the dual norm of the gradient times the radius.
        """
        with torch.no_grad():
            work = self._work()
            gaps: dict[str | int, Any] = dict.fromkeys(one.label for one in work)
            for batch in _batches(work):
                gradients = [one.parameter.grad for one in batch]
                gaps |= _gaps(batch, gradients, _answers(batch, gradients))
            return _as_gap(gaps)

    @property
    def last_gap(self) -> Gap:
        """Gaps of the last step for the directions d of the class, before the weights moved; needs ``track_gap``."""
        if not self._track_gap:
            raise InputError("last_gap needs LMO(..., track_gap=True)")
        return _as_gap(self._gaps)

    def state_dict(self) -> dict[str, Any]:
        """Return the state as plain values. The tableau, and sets that are objects, are stored as text."""
        saved = super().state_dict()
        for group in saved["param_groups"]:
            group |= {"set": _described(group["set"]), "tableau": _described(self._tableau)}
        return saved

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the state and the options. The tableau, and sets that are objects, must be those of this optimiser.

        A state that does not fit raises an error and changes nothing.
        """
        own = [group["set"] for group in self.param_groups]
        masters = self._check_state(state_dict)
        super().load_state_dict(state_dict)
        for group, mine in zip(self.param_groups, own, strict=True):
            del group["tableau"]
            if not isinstance(mine, str):
                group["set"] = mine
        for parameter, copy in masters:  # which PyTorch would round to the type of the parameter
            self.state[parameter]["master"] = copy.to(parameter.device, copy=True)

    def _check_state(self, state_dict: Any) -> list[tuple[Tensor, Tensor]]:
        """Raise an error if a saved state does not fit; return the parameters with their copies in float32."""
        state, groups = (state_dict.get(k) if isinstance(state_dict, dict) else None for k in ("state", "param_groups"))
        if not isinstance(state, dict) or not isinstance(groups, list) or not all(isinstance(g, dict) for g in groups):
            raise InputError("state_dict must have a dict 'state' and a list of dicts 'param_groups'; use those of LMO")
        masters, first, scheme = [], 0, _described(self._tableau)
        for group, mine in zip(groups, self.param_groups, strict=False):
            lacks = [name for name in ("params", "tableau", *self._options) if name not in group]
            if lacks:
                raise InputError(f"a group of the state lacks {lacks}; load what the method state_dict of LMO returned")
            if group["tableau"] != scheme:
                raise InputError(
                    f"the state was saved with tableau={group['tableau']!r}; this optimiser has {scheme!r}"
                )
            saved, described = group["set"], _described(mine["set"])
            if saved != described and not (isinstance(mine["set"], str) and saved in [*NORMS]):
                raise InputError(f"the state was saved with set={saved!r}; this optimiser has {described!r}")
            _checked({**group, "set": mine["set"]})
            for key, (label, parameter) in zip(group["params"], _labelled(mine, first), strict=False):
                entries = state.get(key, {})
                for name, value in entries.items() if isinstance(entries, dict) else [("", entries)]:
                    if name not in _STATE or not isinstance(value, Tensor) or value.shape != parameter.shape:
                        raise InputError(
                            f"the state of parameter {label!r} must have tensors of shape {tuple(parameter.shape)} "
                            f"named {' or '.join(map(repr, _STATE))}; got {name!r}: {describe(value)}"
                        )
                    if name == "master":
                        masters.append((parameter, value))
            first += len(mine["params"])
        return masters

    def __getstate__(self) -> dict[str, Any]:
        kept = ("_tableau", "_options", "_check_finite", "_track_gap", "_gaps")
        return super().__getstate__() | {name: vars(self)[name] for name in kept}

    def _work(self) -> list[_Work]:
        """Return the parameters that a step changes; raise an error for gradients that no step can use."""
        work: list[_Work] = []
        first = 0
        for group in self.param_groups:
            options = _checked(group)  # which a scheduler or a user may have changed
            lr, kappa = float(options["lr"]), _kappa(options)
            for label, parameter in _labelled(group, first):
                if parameter.grad is not None and parameter.numel():
                    _check_parameter(label, parameter, options)
                    _check_gradient(label, parameter)
                    work.append(_Work(label, parameter, self.state[parameter], options, lr, kappa))
            first += len(group["params"])
        if self._check_finite and work:
            _check_finite(work)
        return work

    def _average(self, one: _Work) -> tuple[Tensor, Tensor]:
        """Update m in place and return g and m."""
        g, momentum = one.parameter.grad, one.options["momentum"]
        assert g is not None
        if momentum == 1:
            return g, g
        if "momentum_buffer" not in one.state:
            one.state["momentum_buffer"] = torch.zeros_like(g, memory_format=torch.preserve_format)
        return g, one.state["momentum_buffer"].lerp_(g, momentum)

    def _stages(self, closure: Callable[[], Any] | None) -> Any:
        """Make a step with several stages; an error restores the weights, and buffers change only at the end."""
        if closure is None:
            raise InputError(
                f"{self._tableau.name} has {self._tableau.stages} stages, so that step needs a closure that computes "
                "the loss and its gradients"
            )
        loss = _called(closure)
        work = self._work()
        start = {one: one.weights().clone() for one in work}
        rows = {one: weights(self._tableau, one.lr, one.kappa) for one in work}
        averages = {one: one.state.get("momentum_buffer") for one in work}
        vertices: dict[_Work, list[Tensor]] = {one: [] for one in work}
        gaps: dict[str | int, Any] = dict.fromkeys(one.label for one in work)

        def move(row: int) -> None:
            for one in work:
                decay, shares = rows[one][row]
                one.move(start[one], decay, zip(shares, vertices[one], strict=False))

        try:
            for stage in range(self._tableau.stages):
                if stage:
                    move(stage)
                    _called(closure)
                    if [one.label for one in self._work()] != [one.label for one in work]:
                        raise InputError("the closure gave gradients to other parameters than at the first stage")
                for batch in _batches(work):
                    directions = []
                    for one in batch:
                        g, before = one.parameter.grad, averages[one]
                        assert g is not None
                        m = (torch.zeros_like(g) if before is None else before).lerp(g, one.options["momentum"])
                        averages[one] = m
                        directions.append(_direction(one, g, m))
                    answers = _answers(batch, directions)
                    if self._track_gap and not stage:
                        gaps |= _gaps(batch, directions, answers)
                    for one, answer in zip(batch, answers, strict=True):
                        vertices[one].append(answer)
            move(self._tableau.stages)
        except BaseException:
            for one in work:
                one.move(start[one], 0.0, ())
            raise
        for one in work:
            if one.options["momentum"] != 1:
                one.state["momentum_buffer"] = averages[one]
        self._gaps = gaps
        return loss


def _kappa(group: Mapping[str, Any]) -> float:
    return float(decay_rate(group["constrained"], group["weight_decay"]))


def _checked(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a group, with errors that name the invalid one."""
    checked = {**options, **checked_numbers(options), **checked_choices(options)}
    checked["radius"] = positive(options["radius"], "radius")
    checked_rate(options["lr"], _kappa(checked))
    if not isinstance(options["set"], ConstraintSet) and not callable(options["set"]):
        checked_name(options["set"])
    return checked


def _labelled(group: Mapping[str, Any], first: int) -> list[tuple[str | int, Tensor]]:
    """Return the parameters of a group with their names, or with their positions in the optimiser."""
    labels = group.get("param_names") or range(first, first + len(group["params"]))
    return list(zip(labels, group["params"], strict=True))


def _check_parameter(label: str | int, parameter: Tensor, group: Mapping[str, Any]) -> None:
    if parameter.is_complex():
        raise InputError(f"parameter {label!r} is complex; LMO accepts real parameters (see torch.view_as_real)")
    C, shape = group["set"], tuple(parameter.shape)
    if isinstance(C, ConstraintSet) and C.shape is not None and C.shape != shape:
        raise InputError(f"parameter {label!r} has shape {shape}; its set has members of shape {C.shape}")


def _check_gradient(label: str | int, parameter: Tensor) -> None:
    g = parameter.grad
    assert g is not None
    if g.layout is not torch.strided:
        raise InputError(f"parameter {label!r} has a sparse gradient; LMO needs dense ones, for example sparse=False")
    if not g.is_floating_point():
        raise InputError(f"parameter {label!r} has a gradient of type {g.dtype}; LMO needs real floating-point numbers")


def _check_finite(work: list[_Work]) -> None:
    """Raise an error that names the parameters whose gradients have NaN or infinity."""
    # All ranks raise the error together, because they would otherwise wait for each other. One number comes to the
    # host: a difference that is zero unless the norm is NaN or infinite, as it may be although no entry is.
    meshes = dict.fromkeys(one.parameter.device_mesh for one in work if _is_sharded(one.parameter))
    gradients = [_local(one.parameter.grad) for one in work]

    def summed(x: Tensor) -> Tensor:
        for mesh in meshes:
            x = _summed(x, mesh, [True] * mesh.ndim)
        return x

    total = torch.nn.utils.get_total_norm(gradients)
    if summed(total - total).item() == 0:
        return
    counts = [(~torch.isfinite(g).all()).float().to(total.device) for g in gradients]
    found = summed(torch.stack(counts))
    wrong = [one.label for one, count in zip(work, found.tolist(), strict=True) if count]
    if wrong:
        raise InputError(f"the gradients of the parameters {wrong} are not finite; no weight was changed")


def _called(closure: Callable[[], Any]) -> Any:
    with torch.enable_grad():
        return closure()


def _direction(one: _Work, g: Tensor, m: Tensor) -> Tensor:
    momentum = one.options["momentum"]
    return m.lerp(g, momentum) if one.options["nesterov"] and momentum < 1 else m


def _batches(work: list[_Work]) -> list[list[_Work]]:
    """Return lists of parameters that share one call of an oracle: those of equal shapes, as far as memory allows."""
    alike: dict[Any, list[_Work]] = {}
    for one in work:
        p, same = one.parameter, (one.options[name] for name in ("exact", "ns_steps", "ns_dtype"))
        place = (p.device_mesh, p.placements) if _is_sharded(p) else p.device
        alike.setdefault((one.form, p.dtype, place, *same) if one.named else one, []).append(one)
    found = []
    for many in alike.values():
        p = many[0].parameter
        parts = batches([p.numel()] * len(many), _BATCH if p.device.type == "cpu" else 4 * _BATCH)
        found += [many[part] for part in parts]
    return found


def _answers(batch: list[_Work], directions: list[Any]) -> list[Tensor]:
    """Return D with the vertex s = -factor D for each direction, by one call of an oracle."""
    whole = [d.full_tensor() if _is_sharded(d) else d for d in directions]
    answers = _stacked(batch[0], whole) if batch[0].named else [_from_set(batch[0], d) for d in whole]
    return [_placed_as(one.parameter, answer) for one, answer in zip(batch, answers, strict=True)]


def _stacked(one: _Work, directions: list[Tensor]) -> list[Tensor]:
    """Return the answers for directions of equal shape, of which `one` is the first, by one call of the oracle."""
    shape = one.form
    parts = [shape.matrices(torch, d) for d in directions]
    x = torch.cat(parts) if len(parts) > 1 else parts[0]
    if x.dtype not in _WIDE and (shape.kind != "spectral" or one.options["exact"]):
        x = x.float()

    def orthogonal(x: Tensor) -> Tensor:
        if one.options["exact"]:
            return polar(torch, x)
        return _newton_schulz(x, one.options["ns_steps"], one.options["ns_dtype"])

    answers = steepest(torch, shape.kind, x, orthogonal)
    return [shape.tensor(torch, answer) for answer in answers.split(shape.count)]


def _newton_schulz(x: Tensor, steps: int, dtype: str | None) -> Tensor:
    """Return approximations of U V^T for a stack of matrices."""
    a, b, c = NEWTON_SCHULZ
    if dtype is not None or x.device.type != "cpu":
        kind = torch.float32 if dtype == "float32" else torch.bfloat16
    else:
        kind = x.dtype
    # Large tensors need few passes: `scaled` and a conversion would be five instead of two.
    largest = torch.linalg.vector_norm(x, math.inf, dim=(1, 2), keepdim=True)
    x = torch.div(x, torch.where(largest > 0, largest, 1), out=torch.empty_like(x, dtype=kind))
    # The norm of a scaled matrix is at least 1, unless the matrix is zero.
    x.div_(torch.linalg.vector_norm(x, dim=(1, 2), keepdim=True).clamp(min=1))
    tall = x.shape[1] > x.shape[2]
    x = x.mT if tall else x
    if len(x) == 1:  # Products of single matrices are faster than products of stacks of one matrix.
        x = x[0]
        for _ in range(steps):
            A = x @ x.mT
            x = torch.addmm(x, torch.addmm(A, A, A, beta=b, alpha=c), x, beta=a)
        x = x[None]
    else:
        for _ in range(steps):
            A = x @ x.mT
            x = torch.baddbmm(x, torch.baddbmm(A, A, A, beta=b, alpha=c), x, beta=a)
    return x.mT if tall else x


def _from_set(one: _Work, d: Tensor) -> Tensor:
    """Return -s for the answer s of an fwflow set, on the host, or of a callable."""
    C = one.options["set"]
    if isinstance(C, ConstraintSet):
        vertex = np.asarray(C.vertex(d.detach().cpu().double().numpy()))
        return -torch.as_tensor(vertex, dtype=one.parameter.dtype, device=d.device).reshape(d.shape)
    s = C(d)
    if not isinstance(s, Tensor) or s.shape != d.shape or s.is_complex():
        found = f"{tuple(s.shape)} of type {s.dtype}" if isinstance(s, Tensor) else type(s).__name__
        raise InputError(f"set must return a tensor of shape {tuple(d.shape)} for parameter {one.label!r}; got {found}")
    return -s


def _gaps(batch: list[_Work], directions: list[Any], answers: list[Tensor]) -> dict[str | int, Tensor]:
    """Return the gaps of parameters that share a call, summed over the ranks that hold their parts."""
    products = torch.stack(
        [
            torch.stack([_inner(*map(_local, (d, x))) for x in (one.parameter, answer)])
            for one, d, answer in zip(batch, directions, answers, strict=True)
        ]
    )
    p = batch[0].parameter
    if _is_sharded(p):
        products = _summed(products, p.device_mesh, [place.is_shard() for place in p.placements])
    return {
        one.label: gap_of(own, -one.factor * other, one.kappa, _choose)
        for one, (own, other) in zip(batch, products, strict=True)
    }


def _inner(a: Tensor, b: Tensor) -> Tensor:
    kind = torch.promote_types(torch.promote_types(a.dtype, b.dtype), torch.float32)
    return torch.dot(a.reshape(-1).to(kind), b.reshape(-1).to(kind))


def _choose(condition: bool, first: float, second: float) -> float:
    return first if condition else second


def _as_gap(gaps: Mapping[str | int, Tensor]) -> Gap:
    tensors = {label: float(value) for label, value in gaps.items()}
    return Gap(total=math.fsum(tensors.values()), tensors=tensors)


def _is_sharded(x: Any) -> bool:
    """Return whether a tensor is a DTensor, of which every rank holds a part.

    Importing the module takes a second. There are no such tensors before it is imported.
    """
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(x, module.DTensor)


def _local(x: Any) -> Tensor:
    """Return the part of a tensor that this rank holds."""
    return x.to_local() if _is_sharded(x) else x


def _placed_as(parameter: Any, x: Tensor) -> Tensor:
    """Return a whole tensor, which all ranks have, in parts as the parameter."""
    if not _is_sharded(parameter):
        return x
    module, mesh = sys.modules["torch.distributed.tensor"], parameter.device_mesh
    whole = module.DTensor.from_local(x, mesh, [module.Replicate()] * mesh.ndim, run_check=False)
    return whole.redistribute(placements=parameter.placements)


def _summed(x: Tensor, mesh: Any, axes: Iterable[bool]) -> Tensor:
    """Return the sum of small tensors over the ranks along the chosen axes of a mesh, computed in place."""
    for axis, chosen in enumerate(axes):
        if chosen:
            torch.distributed.all_reduce(x, group=mesh.get_group(axis))
    return x


def _described(part: Any) -> str:
    """Return a set or a tableau as text: its name, its representation, or the name of a callable."""
    if isinstance(part, str):
        return part
    if isinstance(part, ConstraintSet):
        return repr(part)
    if isinstance(part, Tableau):
        A, beta = part.A.tolist(), part.beta.tolist()
        known = tableaus.get(part.name)
        if known is not None and (known.A.tolist(), known.beta.tolist()) == (A, beta):
            return part.name
        return f"{part.name} with A = {A} and beta = {beta}"
    return f"callable {getattr(part, '__qualname__', type(part).__name__)}"
