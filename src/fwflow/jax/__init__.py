"""Whole runs compiled by JAX: on a GPU, for batches of problems, over meshes of devices.

Needs the extra ``jax``. It shares tableaus, schedules, certificates and statuses with the core.

>>> import jax, jax.numpy as jnp
>>> import fwflow.jax as fwj
>>> A = jax.random.normal(jax.random.key(0), (30, 10))
>>> R = fwj.path(fwj.LinearModel(A, A[:, 0] - A[:, 1]), fwj.L1Ball(), jnp.linspace(0.5, 2.0, 4))
>>> R.x.shape, bool(R.success.all())
((4, 10), True)
"""

try:
    import jax as _jax  # noqa: F401
except ImportError as error:
    raise ImportError("fwflow.jax needs JAX; pip install 'fwflow[jax]' brings it") from error

from fwflow.jax.objectives import LinearModel, Smooth
from fwflow.jax.paths import path
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
from fwflow.jax.solve import minimize

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
]
