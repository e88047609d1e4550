"""Runs compiled by JAX: on a GPU, for batches of problems, or over meshes of devices.

Needs the extra ``jax``. Losses, tableaus, schedules, momentum, the table of methods and statuses are those of the core.
"""

try:
    import jax as _jax  # noqa: F401
except ImportError as error:
    raise ImportError("fwflow.jax needs JAX; pip install 'fwflow[jax]' brings it") from error

from fwflow.jax.derivatives import solution
from fwflow.jax.objectives import LinearModel, Smooth
from fwflow.jax.result import Result
from fwflow.jax.sets import (
    Box,
    Host,
    L1Ball,
    L2Ball,
    LInfBall,
    LpBall,
    NuclearBall,
    Oracle,
    Product,
    Simplex,
    as_jax_set,
)
from fwflow.jax.solve import minimize, path

__all__ = [
    "Box",
    "Host",
    "L1Ball",
    "L2Ball",
    "LInfBall",
    "LinearModel",
    "LpBall",
    "NuclearBall",
    "Oracle",
    "Product",
    "Result",
    "Simplex",
    "Smooth",
    "as_jax_set",
    "minimize",
    "path",
    "solution",
]
