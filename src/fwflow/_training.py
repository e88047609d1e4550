"""Sets, steps and gaps of the optimisers in `fwflow.torch` and `fwflow.optax`; it imports neither framework.

Both optimisers make the step of one formula. With the direction d, which is the average m of gradients,

    s = LMO(d) over the set D,    w+ = w + lr (s - kappa w),    kappa = [constrained] + weight_decay.

It is an Euler step of size ``lr * kappa`` of the Frank-Wolfe flow ``w' = s / kappa - w`` over the set ``D / kappa``.
Other tableaus make other steps of the same flow.
"""

from __future__ import annotations

import math
import warnings
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from fwflow._validation import InputError, number, suggest, whole
from fwflow.methods import UncertifiedWarning
from fwflow.tableau.catalogue import find_tableau
from fwflow.tableau.scheme import Tableau, is_convex

#: Names of sets, all of them norm balls around zero, and the norm that is at most the radius.
NORMS: Mapping[str, str] = {
    "spectral": "operator norm",
    "nuclear": "sum of singular values",
    "row": "largest Euclidean norm of a row",
    "column": "largest Euclidean norm of a column",
    "sign": "largest absolute value of an entry",
    "rms": "root mean square of all entries",
    "l1": "sum of absolute values of all entries",
}
#: Names of sets of matrices. Vectors and scalars use `FOR_VECTORS` instead.
OF_MATRICES = ("spectral", "nuclear", "row", "column")
#: Set of tensors with fewer than two axes, where the chosen set is one of matrices.
FOR_VECTORS = "rms"
#: How a tensor with more than two axes is seen as matrices.
KERNELS: Mapping[str, str] = {
    "rows": "one matrix: the first axis are its rows, all others its columns",
    "columns": "one matrix: the last axis are its columns, all others its rows",
    "stack": "a matrix of the last two axes for each index of the others",
    "taps": "a matrix of the first two axes for each index of the others",
}
#: Coefficients (a, b, c) of the iteration ``X <- a X + (b A + c A A) X`` with ``A = X X^T``, by Keller Jordan
#: (https://kellerjordan.github.io/posts/muon/). Singular values do not converge to 1, but into an interval around it.
NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
#: Number of iterations of Muon, Scion, torch.optim.Muon and optax.contrib.muon.
NEWTON_SCHULZ_STEPS = 5
#: Least rate of decay that the formulas divide by. It stands for zero, and does not underflow in float32.
_LEAST_KAPPA = 1e-30


@dataclass(frozen=True)
class Form:
    """A tensor seen as a stack of matrices, and the named set of each of them."""

    kind: str
    count: int
    rows: int
    columns: int
    shape: tuple[int, ...]
    #: Whether the axis of the stack is the last one of the tensor.
    stack_last: bool = False

    @property
    def scale(self) -> float:
        """Factor of the vertices of `steepest`; the ball of the root mean square contains long vectors."""
        return math.sqrt(self.columns) if self.kind == "rms" else 1.0

    def matrices(self, xp: Any, x: Any) -> Any:
        """Return a tensor as an array of shape (count, rows, columns)."""
        if self.stack_last:
            return xp.moveaxis(x.reshape(self.rows, self.columns, self.count), -1, 0)
        return x.reshape(self.count, self.rows, self.columns)

    def tensor(self, xp: Any, x: Any) -> Any:
        """Return an array of shape (count, rows, columns) in the shape of the tensor."""
        return (xp.moveaxis(x, 0, -1) if self.stack_last else x).reshape(self.shape)


@lru_cache(maxsize=4096)
def form(name: str, shape: tuple[int, ...], kernels: str) -> Form:
    """Return how a tensor of this shape is seen by a named set."""
    size = math.prod(shape)
    if name not in OF_MATRICES or len(shape) < 2:
        return Form(FOR_VECTORS if name in OF_MATRICES else name, 1, 1, size, shape)
    if len(shape) == 2 or kernels == "rows":
        return Form(name, 1, shape[0], math.prod(shape[1:]), shape)
    if kernels == "columns":
        return Form(name, 1, math.prod(shape[:-1]), shape[-1], shape)
    if kernels == "stack":
        return Form(name, math.prod(shape[:-2]), shape[-2], shape[-1], shape)
    return Form(name, math.prod(shape[2:]), shape[0], shape[1], shape, stack_last=True)


def scaled(xp: Any, x: Any, axes: tuple[int, ...]) -> Any:
    """Divide by the largest absolute value, so that squares neither overflow nor underflow. Zeros stay zero."""
    largest = xp.amax(xp.abs(x), axes, keepdims=True)
    return x / xp.where(largest > 0, largest, 1)


def unit(xp: Any, x: Any, axes: tuple[int, ...]) -> Any:
    """Divide by the Euclidean norm over some axes. Zeros stay zero."""
    x = scaled(xp, x, axes)
    norm = xp.sqrt(xp.sum(x * x, axes, keepdims=True))
    return x / xp.where(norm > 0, norm, 1)


def polar(xp: Any, x: Any) -> Any:
    """Return U V^T for the singular value decompositions of a stack of matrices.

    Singular vectors of singular values that are zero up to rounding are left out, because they are arbitrary.
    """
    U, sigma, V = xp.linalg.svd(scaled(xp, x, (1, 2)), full_matrices=False)
    least = max(x.shape[1:]) * float(xp.finfo(x.dtype).eps) * sigma[:, :1]
    return (U * (sigma > least)[:, None, :]) @ V


def steepest(xp: Any, kind: str, x: Any, orthogonal: Callable[[Any], Any]) -> Any:
    """Return the member D of the unit ball with the largest ``<x, D>``, for each matrix of a stack.

    ``-radius * D`` is then the answer of the linear minimisation oracle. `xp` is ``torch`` or ``jax.numpy``, and
    `orthogonal` computes U V^T or an approximation. D is zero where x is zero.
    """
    if kind == "spectral":
        return orthogonal(x)
    if kind == "nuclear":
        return _leading_pair(xp, x)
    if kind == "column":
        return unit(xp, x, (1,))
    if kind == "sign":
        return xp.sign(x)
    if kind == "l1":
        size = xp.abs(x)
        largest = size == xp.amax(size, (2,), keepdims=True)
        return xp.where(largest & (xp.cumsum(largest, -1) == 1), xp.sign(x), 0)
    return unit(xp, x, (2,))  # rows, and tensors for the root mean square, which are one row


def _leading_pair(xp: Any, x: Any) -> Any:
    """Return u v^T for the largest singular value, from the eigenvectors of the smaller Gram matrix.

    The leading pair is as accurate as that of a singular value decomposition, at a fraction of the cost.
    """
    x = scaled(xp, x, (1, 2))
    wide = x if x.shape[1] <= x.shape[2] else x.mT
    u = xp.linalg.eigh(wide @ wide.mT)[1][:, :, -1:]
    pair = u @ unit(xp, wide.mT @ u, (1,)).mT
    return pair if x.shape[1] <= x.shape[2] else pair.mT


def weights(tableau: Tableau, lr: Any, kappa: Any) -> list[tuple[Any, list[Any]]]:
    """Return pairs (a, b) for every stage and for the step, which move w to ``w - a w + sum_j b_j s_j``.

    They come from the mixture form of the tableau with the step size ``lr * kappa`` at all stages.
    """
    W, p = tableau.mixture([lr * kappa] * tableau.stages)
    return [(sum(row), [weight / kappa for weight in row]) for row in (*W, p)]


def decay_rate(constrained: bool, weight_decay: Any, maximum: Callable[[Any, Any], Any] = max) -> Any:
    """Return kappa, the rate at which a step shrinks the weights."""
    return maximum(float(constrained) + weight_decay, _LEAST_KAPPA)


def gap_of(direction_weights: Any, direction_vertex: Any, kappa: Any, where: Callable[..., Any]) -> Any:
    """Return the Frank-Wolfe gap ``<d, w - s / kappa>``, or ``-<d, s>`` if the weights do not decay.

    The arguments are ``<d, w>`` and ``<d, s>``.
    """
    rate = where(kappa > _LEAST_KAPPA, kappa, 1.0)
    return (kappa * direction_weights - direction_vertex) / rate


def find_scheme(tableau: Any) -> Tableau:
    """Return a tableau from its name or from itself."""
    if isinstance(tableau, Tableau):
        return tableau
    if not isinstance(tableau, str):
        raise InputError(f"tableau must be a name or a Tableau; got {type(tableau).__name__}")
    return find_tableau(tableau)


def warn_if_uncertified(tableau: Tableau, step: float) -> None:
    """Warn if steps of this size may leave the set."""
    if step > 0 and not is_convex([float(p) for p in tableau.mixture([step] * tableau.stages)[1]]):
        warnings.warn(
            f"{tableau.name} with step size {step:g} gives vertices negative weights, so that the weights of the "
            "network may leave their sets; use another tableau, for example 'rk44', or a smaller step size",
            UncertifiedWarning,
            stacklevel=4,
        )


def checked_numbers(options: Mapping[str, Any]) -> dict[str, float]:
    """Return momentum and weight decay as Python floats, with errors that name the invalid one."""
    weight = "lie in (0, 1]: it is the weight of the new gradient, so that 0.1 here is 0.9 in torch.optim.SGD"
    least = "be a non-negative finite number"
    return {
        "momentum": number(options["momentum"], "momentum", weight, lambda x: 0 < x <= 1),
        "weight_decay": number(options["weight_decay"], "weight_decay", least, lambda x: 0 <= x < math.inf),
    }


def checked_choices(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that are no numbers, with errors that name the invalid one."""
    for name in ("nesterov", "constrained", "exact"):
        if not isinstance(options[name], bool):
            raise InputError(f"{name} must be True or False; got {options[name]!r}")
    for name, accepted in (("kernels", KERNELS), ("ns_dtype", ("bfloat16", "float32", None))):
        if options[name] not in accepted:
            raise InputError(f"{name}={options[name]!r} is not known; accepted: {', '.join(map(repr, accepted))}")
    return {"ns_steps": whole(options["ns_steps"], "ns_steps", 1)}


def checked_name(name: Any) -> str:
    """Return the name of a set, or raise an error that lists the names."""
    if name not in NORMS:
        raise InputError(f"set={name!r} is not known; {suggest(name, NORMS)}, an fwflow set, or a callable m -> s")
    return str(name)


def checked_rate(lr: Any, kappa: float) -> float:
    """Return the learning rate as a Python float; a step beyond the vertex is an error."""
    lr = number(lr, "lr", "be a non-negative finite number", lambda x: 0 <= x < math.inf)
    if lr * kappa > 1:
        raise InputError(
            f"lr={lr:g} is too large: a step moves the fraction lr * (constrained + weight_decay) = {lr * kappa:g} of "
            "the way to a vertex, which must be at most 1"
        )
    return lr


@dataclass(frozen=True)
class Gap:
    """Frank-Wolfe gaps of the parameters of a network.

    Attributes
    ----------
    total : float
        Sum over all parameters.
    tensors : dict
        Gap of each parameter that has a gradient. The key is the name of the parameter, or its position if the
        optimiser was made without names.

    See Also
    --------
    LMO : Its method ``gap`` returns this object.
    GapStop : Stopping criterion.

    Examples
    --------
    >>> Gap(total=0.3, tensors={"weight": 0.2, "bias": 0.1}).tensors["weight"]
    0.2
    """

    total: float
    tensors: Mapping[str | int, float]


class GapStop:
    """Stopping criterion: the mean of the last gaps is small.

    An object of this class is called with the total gap after each step. It returns True when the mean of the last
    ``window`` gaps is at most ``max(tol, rtol * mean of the first window gaps)``. A gap that is NaN never stops.

    Parameters
    ----------
    tol : float
        Absolute tolerance; 0 by default.
    rtol : float
        Tolerance relative to the mean of the first gaps; 0 by default.
    window : int
        Number of gaps in a mean; 1 by default. Gaps of mini-batches are noisy and need more, for example one epoch.

    See Also
    --------
    LMO : Its ``last_gap`` has the gap of a step.
    Gap : Gaps of all parameters.

    Examples
    --------
    >>> stop = GapStop(rtol=0.1, window=2)
    >>> [stop(gap) for gap in (8.0, 4.0, 1.0, 0.7, 0.3)]
    [False, False, False, False, True]
    """

    def __init__(self, tol: float = 0.0, rtol: float = 0.0, window: int = 1) -> None:
        wanted = "be a non-negative finite number"
        self.tol, self.rtol = (
            number(value, name, wanted, lambda x: 0 <= x < math.inf) for value, name in ((tol, "tol"), (rtol, "rtol"))
        )
        if not self.tol and not self.rtol:
            raise InputError("tol and rtol are both 0, so that the criterion would never hold; give one of them")
        self.window = whole(window, "window", 1)
        self._gaps: deque[float] = deque(maxlen=self.window)
        self._first: float | None = None

    def __call__(self, gap: Any) -> bool:
        """Add the total gap of a step, and return whether training can stop."""
        self._gaps.append(float(gap))
        if len(self._gaps) < self.window:
            return False
        mean = math.fsum(self._gaps) / self.window
        if self._first is None and math.isfinite(mean):
            self._first = mean
        return mean <= max(self.tol, self.rtol * (self._first or 0.0))


def batches(sizes: Sequence[int], limit: int) -> list[slice]:
    """Return consecutive slices of tensors of equal size, each with at most `limit` entries or one tensor."""
    count = max(1, limit // max(1, sizes[0]))
    return [slice(start, start + count) for start in range(0, len(sizes), count)]
