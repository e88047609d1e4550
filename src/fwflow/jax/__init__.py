"""Runs compiled by JAX: on a GPU, for batches of problems, or over meshes of devices.

Needs the extra ``jax``. Losses, tableaus, schedules, momentum, the table of methods and statuses are those of the core.
"""

try:
    import jax as _jax  # noqa: F401
except ImportError as error:
    raise ImportError("fwflow.jax needs JAX; pip install 'fwflow[jax]' brings it") from error

from fwflow.jax import sets
from fwflow.jax.loop import Result
from fwflow.jax.objectives import LinearModel, Smooth
from fwflow.jax.sets import *  # noqa: F403 - the names are in the __all__ of the module
from fwflow.jax.solve import minimize, path, solution

__all__ = ["LinearModel", "Result", "Smooth", "minimize", "path", "solution"]
__all__ += sets.__all__
