"""Stages of one step in mixture form, without branching on values, so that it also runs under ``jax.jit``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


def stages(point: Any, W: Sequence[Sequence[float]], oracle: Callable[[int, Any], Any]) -> list[Any]:
    r"""Return the targets :math:`s_i` of the stages :math:`\bar x_i = x + \sum_{j<i} W_{ij}(s_j - x)`.

    ``oracle(i, x_bar)`` returns the target of stage i.
    """
    s: list[Any] = []
    for i, row in enumerate(W):
        s.append(oracle(i, point.mix(zip(row, s, strict=True))))
    return s
